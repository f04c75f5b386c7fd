"""What do settings and the pages of rules say? Defaults, hlo.toml or pyproject.toml, options; `--explain`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap
from types import MappingProxyType
from typing import Final, TypeAlias

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import read_utf8
from hlo_cli.lint.finding_facts import cost_meaning
from hlo_cli.lint.rule import Page
from hlo_cli.lint.run import RULES, rule_of
from hlo_cli.lint.settings import MEANINGS, Kind, LintSettings
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_amount
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Line, Passage, Run, line_of
from hlo_cli.report.unknown_choice import choice_hint
from hlo_cli.source import SEVERITIES, HloError, Severity
from hlo_cli.syntax.byte_sizes import parse_size

# --- sources of settings: defaults, the nearest hlo.toml or pyproject.toml, then options ---


OWN_FILE: Final = "hlo.toml"
PROJECT_FILE: Final = "pyproject.toml"
_LIST: Final = "hlo lint --show-settings"
_WHEN: Final = ("auto", "always", "never")

Toml: TypeAlias = "bool | int | float | str | Sequence[Toml] | Mapping[str, Toml]"
Value: TypeAlias = "bool | int | float | str | tuple[str, ...] | Mapping[str, Severity] | None"


@dataclass(frozen=True, slots=True)
class LintConfig:
    """Settings, the source of each that is not a default, and the other files that a settings file names."""

    settings: LintSettings
    origins: Mapping[str, str]
    baseline: str | None = None
    expect: str | None = None
    golden: str | None = None


def load_config(options: Mapping[str, Value], assignments: Sequence[str], *, isolated: bool) -> LintConfig:
    """The settings of a run: from the nearest file, unless `isolated`, then assignments, then options."""
    path = None if isolated else _nearest_file(os.getcwd())
    table = dict(_lint_table(path)) if path is not None else {}
    baseline, expect, golden = (_file_named(path, table, name) for name in ("baseline", "expect", "golden"))
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for name, value in table.items():
        values[name] = _setting_of(name, value, path or "")
        origins[name] = os.path.relpath(path or "")
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise HloError(f"expected KEY=VALUE, found '{assignment}'", hint=f"run `{_LIST}` to list all settings")
        values[name.strip()] = _setting_of(name.strip(), text.strip(), "--set")
        origins[name.strip()] = "--set"
    for name, option in options.items():
        if option:
            values[name], origins[name] = option, "command line"
    settings = replace(LintSettings(), **values)  # type: ignore[arg-type]
    return LintConfig(settings, MappingProxyType(origins), baseline, expect, golden)


def _nearest_file(folder: str) -> str | None:
    """The settings file in the folder or the nearest one above; None if there is none.

    >>> _nearest_file("/no/such/folder") is None
    True
    """
    while True:
        for name in (OWN_FILE, PROJECT_FILE):
            path = os.path.join(folder, name)
            sys.audit("hlo_cli.path", path)  # an answer depends on it; `kept_answers` has the reason
            if os.path.isfile(path) and (name == OWN_FILE or "hlo" in _section(_load(path), "tool")):
                return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def report_of_settings(config: LintConfig) -> Report:
    """Every setting with its value, source, and meaning."""
    columns = (
        Column("setting", "setting", "name", of=lambda name, meaning: name),
        Column("value", "value", person=False, of=lambda name, meaning: _value(getattr(config.settings, name))),
        Column("text", "value", machine=False, of=lambda name, meaning: _text(name, config)),
        Column("source", "source", of=lambda name, meaning: config.origins.get(name, "default")),
        Column("meaning", "meaning", rank=1, of=lambda name, meaning: meaning),
    )
    rows = rows_from_tuples(columns, ((name, meaning) for name, (_, meaning) in MEANINGS.items()))
    number = len(config.origins)
    some = f"{number} of {len(rows)} settings changed"
    answer = some if number else f"All {len(rows)} settings have default values"
    return Report("lint-settings", answer, parts=(Table("settings", columns, rows, noun="settings", limit=0),))


def chip_setting(chip: str | None, chip_file: str | None) -> str | None:
    """The name of a known chip as a setting; None for a chip that only the file describes.

    >>> chip_setting("TPU v5 lite", None), chip_setting("own", "chips.toml"), chip_setting(None, None)
    ('v5e', None, None)
    """
    if chip is None:
        return None
    try:
        return find_chip(chip).name
    except HloError:
        if chip_file is None:
            raise
        return None


def codes(lists: Sequence[str]) -> tuple[str, ...]:
    """The codes in comma-separated lists.

    >>> codes(["HLO1,hlo201", "HLO3"])
    ('HLO1', 'HLO201', 'HLO3')
    """
    return tuple(code.strip().upper() for each in lists for code in each.split(",") if code.strip())


def _lint_table(path: str) -> Mapping[str, Toml]:
    table = _load(path)
    if os.path.basename(path) == PROJECT_FILE:
        table = _section(_section(table, "tool"), "hlo")
    if unknown := [name for name in table if name != "lint"]:
        place = "[tool.hlo.lint]" if os.path.basename(path) == PROJECT_FILE else "[lint]"
        raise HloError(f"{path}: unknown section '{unknown[0]}'", hint=f"put settings in {place}")
    return _section(table, "lint")


def _file_named(path: str | None, table: dict[str, Toml], name: str) -> str | None:
    """A file that the settings name, relative to their folder; removed from the table, as it is not a setting."""
    if name not in table:
        return None
    value = table.pop(name)
    if not isinstance(value, str):
        raise HloError(f"{path}: {name} must be a file path")
    return os.path.join(os.path.dirname(path or ""), value)


def _section(table: Mapping[str, Toml], name: str) -> Mapping[str, Toml]:
    found = table.get(name, {})
    return found if isinstance(found, Mapping) else {}


def _load(path: str) -> Mapping[str, Toml]:
    import tomllib

    try:
        return tomllib.loads(read_utf8(path))
    except RecursionError:
        raise HloError(f"{path}: lists are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise HloError(f"{path}: {str(error)[:1].lower()}{str(error)[1:]}") from error
    except UnicodeDecodeError as error:
        raise HloError(f"cannot read {path}: not valid UTF-8") from error


def _setting_of(name: str, value: Toml, place: str) -> Value:
    """A setting converted to its kind; HloError states the expected kind."""
    if name not in MEANINGS:
        hint = choice_hint("setting", name, MEANINGS, listed_by=_LIST)
        raise HloError(f"{_prefix(place)}unknown setting '{name}'", hint=hint)
    kind = MEANINGS[name][0]
    where = f"{_prefix(place) or f'{place} '}{name}"
    try:
        read = _as_kind(kind, value)
    except HloError as error:
        raise HloError.of(replace(each, message=f"{where}: {each.message}") for each in error.diagnostics) from error
    if read is None:
        raise HloError(f"{where}: expected {_EXPECTED[kind]}, found {_quoted(value)}")
    return read


def _prefix(place: str) -> str:
    """The file of a setting, for messages; empty for an option."""
    return "" if place.startswith("--") else f"{place}: "


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])}, or {words[-1]}"


_EXPECTED: Final[Mapping[Kind, str]] = {
    "codes": "a list of rule codes, such as HLO101",
    "severity": f"one of {_either(SEVERITIES)}",
    "severities": f"a table of rule codes, each with one of {_either(SEVERITIES)}",
    "when": f"one of {_either(_WHEN)}",
    "flag": "true or false",
    "count": "a positive integer",
    "bytes": "a size, such as 64KiB",
    "fraction": "a number from 0 to 1",
    "chip": "a chip name, such as v5e",
}


def _as_kind(kind: Kind, value: Toml) -> Value:
    match kind, value:
        case "codes", str():
            return codes([value])
        case "codes", list():
            return codes([str(each) for each in value])
        case "when", str():
            return value if value in _WHEN else None
        case "flag", bool():
            return value
        case "flag", "true" | "false":
            return value == "true"
        case "severity", str():
            return value if value in SEVERITIES else None
        case "severities", Mapping():
            known = {word: word for word in SEVERITIES}
            read = {
                code.upper(): known[word] for code, word in value.items() if isinstance(word, str) and word in known
            }
            return MappingProxyType(read) if len(read) == len(value) else None
        case "bytes", str() | int() if not isinstance(value, bool):
            return parse_size(str(value)) if str(value).strip() else None
        case "count", str() | int() if not isinstance(value, bool):
            return _positive(str(value))
        case "chip", str():
            return find_chip(value).name
        case "fraction", str() | int() | float() if not isinstance(value, bool):
            return _fraction(str(value))
    return None


def _positive(text: str) -> int | None:
    # A count of ten digits is a typing error; chosen.
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) else None


def _fraction(text: str) -> float | None:
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _quoted(value: Toml) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() if not value.replace(".", "", 1).isdecimal():
            return f"'{value}'"
    return str(value)


def _text(name: str, config: LintConfig) -> Cell:
    """The value as shown to people: sizes with a unit, such as 64KiB."""
    value = _value(getattr(config.settings, name))
    if MEANINGS[name][0] == "bytes" and isinstance(value, int):
        return format_amount(value, "bytes").replace(" ", "")
    return value


def _value(value: object) -> Cell:
    match value:
        case tuple():
            return ", ".join(map(str, value)) or "-"
        case Mapping():
            return ", ".join(f"{code} {word}" for code, word in value.items()) or "-"
        case bool() | int() | float() | str():
            return value
    return None


# --- --explain and --list-rules ---


_PLACEHOLDERS: Final[Mapping[Kind, str]] = {
    "when": "WHEN",
    "count": "N",
    "bytes": "SIZE",
    "fraction": "FRACTION",
    "chip": "NAME",
}
"""The placeholder of a setting's value, by kind."""


def report_of_rule(code: str) -> Report:
    """The page of a rule: the defect, why it matters, an example, how to fix it, and the XLA reference.

    >>> report_of_rule("HLO101").answer
    'HLO101: mostly padding (warning)'
    """
    rule = rule_of(code)
    page = rule.page
    cost = cost_meaning(code.upper())
    sections = (
        ("How to fix", page.fix),
        ("Cost", f"{cost}, in all executions" if cost else ""),
        ("Settings", _settings(page)),
        ("Reference", page.reference),
    )
    after = [(label, text) for label, text in sections if text]
    parts: list[Part] = [
        Passage("summary", (page.summary,), is_answer=True),
        Passage("why", ((Run("Why: ", "quiet"), page.why),), is_answer=True),
    ]
    if page.example:
        parts.append(Figure("example", partial(_example, page.example)))
    lines = tuple((Run(f"{label}: ", "quiet"), text) for label, text in after)
    parts.append(Passage("fix", lines, is_answer=True))
    is_off = "" if rule.is_default else ", off by default"
    return Report(
        "lint-rule",
        f"{rule.code}: {rule.name} ({rule.severity}{is_off})",
        numbers={"code": rule.code, "name": rule.name, "severity": rule.severity, "default": rule.is_default},
        parts=tuple(parts),
    )


def _settings(page: Page) -> str:
    """The settings that a page mentions, with their defaults."""
    text = f"{page.summary} {page.why}"
    words = {word for word in re.findall(r"\w+", text) if "_" in word} | set(re.findall(r"\bsetting (\w+)", text))
    names = [name for name in MEANINGS if name in words]
    if not names:
        return ""
    shown = ", ".join(f"{name} ({_default(name)})" for name in names)
    return f"{shown}; override with `--set {names[0]}={_PLACEHOLDERS[MEANINGS[names[0]][0]]}`"


def _default(name: str) -> str:
    kind, value = MEANINGS[name][0], getattr(LintSettings(), name)
    if value is None:
        return "not set"
    return f"default {format_amount(value, kind).replace(' ', '') if kind == 'bytes' else value}"


def _example(text: str, room: int) -> tuple[Line, ...]:
    """The lines of an example, wrapped to the room that there is, as HLO allows.

    >>> from hlo_cli.report.text import plain_text
    >>> for line in _example("y = f32[8] custom-call(x), custom_call_target=\\"f\\"", 40): print(plain_text(line))
      y = f32[8] custom-call(x),
          custom_call_target="f"
    """
    lines = (
        part
        for line in text.splitlines()
        for part in wrap(
            line,
            room,
            initial_indent="  ",
            subsequent_indent=" " * (6 + len(line) - len(line.lstrip())),  # 2 of the page and 4 of a continuation
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=False,
        )
    )
    return tuple(line_of(line.rstrip()) for line in lines)


def report_of_rules() -> Report:
    """A table with one row for each rule.

    >>> report_of_rules().main_table.rows[0]
    ('HLO001', 'error', True, 'syntax error or unresolved name')
    """

    columns = (
        Column("code", "rule", "name", of=lambda rule: rule.code),
        Column("severity", "severity", of=lambda rule: rule.severity),
        Column("default", "default", "flag", of=lambda rule: rule.is_default),
        Column("name", "name", of=lambda rule: rule.name),
    )
    rows = rows_from(columns, RULES)  # fmt: skip
    table = Table("rules", columns, rows, noun="rules", limit=0)
    answer = f"{len(RULES)} rules, {sum(rule.is_default for rule in RULES)} enabled by default"
    return Report("lint-rules", answer, parts=(table,), next=(f"hlo lint --explain {RULES[0].code}",))
