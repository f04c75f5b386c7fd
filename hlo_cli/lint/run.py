"""Which rules are there, which of them run, and what do they find in a module?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Results
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module, of_module
from hlo_cli.lint.rule import FlagReader, LineReader, LintContext, Needs, Rule
from hlo_cli.lint.rules import (
    communication,
    expectations,
    invalid_distribution,
    invalid_instructions,
    invalid_modules,
    memory,
    numerics,
    overlap,
    traffic,
)
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from hlo_cli.source import SEVERITIES, Diagnostic, HloError, Severity, did_you_mean, expect

if TYPE_CHECKING:
    from hlo_cli.analysis.query.assertions import AssertionResult


# --- all rules and their selection ---


FAMILIES: Final = (
    invalid_instructions, invalid_distribution, invalid_modules, traffic, memory, overlap, communication, numerics,
    expectations,
)  # fmt: skip
"""The modules with rules; a module added here is included everywhere."""

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (each for family in FAMILIES for each in vars(family).values() if isinstance(each, Rule)),
        key=lambda rule: rule.code,
    )
)
"""All rules, sorted by code."""

# A whole line; groups have up to ten rules.
_MAX_LISTED: Final = 6
"""The most rules of a group that an error lists."""
ALL_RULES: Final = "ALL"


def rule_of(code: str) -> Rule:
    """The rule with this code; HloError if there is none.

    >>> rule_of("HLO101").name
    'mostly padding'
    """
    for rule in RULES:
        if rule.code == code.upper():
            return rule
    raise _unknown_rule(code)


def selected_rules(settings: LintSettings) -> tuple[Rule, ...]:
    """The rules that run: a prefix selects rules that are on by default, a full code also others, and ALL every rule.

    `strict` alone selects the rule that reads the text again.

    >>> [rule.code for rule in selected_rules(LintSettings(select=("HLO10",), ignore=("HLO102", "HLO103")))]
    ['HLO101', 'HLO104', 'HLO105', 'HLO106']
    """
    return _selected(settings.select, settings.ignore, tuple(settings.severity), settings.strict)


@lru_cache(maxsize=16)  # a process has one selection; a program that calls the library, a few
def _selected(
    select: tuple[str, ...], ignore: tuple[str, ...], with_severity: tuple[str, ...], is_strict: bool
) -> tuple[Rule, ...]:
    select, ignore = _checked(select) or ("HLO",), _checked(ignore)
    _checked(with_severity)
    selected = [rule for rule in RULES if _matches(rule, select) or (rule.reads_again and is_strict)]
    return tuple(rule for rule in selected if not any(rule.code.startswith(prefix) for prefix in ignore))


def _matches(rule: Rule, select: Iterable[str]) -> bool:
    for prefix in select:
        if prefix == rule.code or (prefix == ALL_RULES and not rule.reads_again):
            return True
        if rule.is_default and rule.code.startswith(prefix):
            # A prefix selects default rules; a full code or ALL selects others, too.
            return True
    return False


def _checked(codes: Iterable[str]) -> tuple[str, ...]:
    given = tuple(code.upper() for code in codes)
    for code in given:
        if code != ALL_RULES and not any(rule.code.startswith(code) for rule in RULES):
            raise _unknown_rule(code)
    return given


def _unknown_rule(code: str) -> HloError:
    group = [rule.code for rule in RULES if code and rule.code.startswith(code.upper())]
    if group:
        listed = ", ".join(group[:_MAX_LISTED]) + (", …" if len(group) > _MAX_LISTED else "")
        hint = f"its rules are {listed}; run `hlo lint --explain {group[0]}`"
        return HloError(f"'{code}' is a group of {len(group)} rules, not a rule", hint=hint)
    named = next((rule for rule in RULES if rule.name.replace("-", " ") == code.lower().replace("-", " ")), None)
    near = did_you_mean(named.code) if named is not None else None
    return HloError(f"unknown rule '{code}'", hint=near or "run `hlo lint --list-rules` to list all rules")


# --- linting a module ---


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked: the path and the name of a module, the number of its instructions, and the codes of rules."""

    path: str
    name: str
    instructions: int
    rules: tuple[str, ...]


class FindingList(Results[Finding, Checked]):
    """Findings, as a tuple that notebooks show by cause; it does not hold the module, so it can outlive it."""


@of_module
def lint_module(
    module: Module,
    settings: LintSettings | None = None,
    *,
    rejections: Sequence[Diagnostic] = (),
    verdicts: Sequence[AssertionResult] = (),
    chip: ChipSpec | str | None = None,
    line_of: LineReader | None = None,
    flags_of: FlagReader | None = None,
) -> FindingList:
    """The findings of the rules, in the order of the text, without duplicates.

    `rejections` are errors of XLA's own parser; `verdicts` are results of assertions. With `chip`, such as "h100",
    findings about efficiency have times, and with `line_of` all have the lines of the user's program. With `flags_of`,
    advice on flags is about those that the compilation had.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[3] negate(p) }")
    >>> for found in lint_module(module): print(found.name, found.code, found)
    e/n HLO010 text:1:45: error: n: expected the shape f32[2], found f32[3]
    """
    settings = LintSettings() if settings is None else settings
    expect(LintSettings, "LintSettings", settings)
    expect(Iterable, "diagnostics for rejections", rejections)
    expect(Iterable, "results of assertions for verdicts", verdicts)
    if chip is not None and not isinstance(chip, ChipSpec):
        from hlo_cli.analysis.hardware.chip_specs import chip_spec  # commands, which have read it, pass it

        chip = chip_spec(chip)
    context = LintContext(module, settings, tuple(rejections), tuple(verdicts), chip, line_of, flags_of)
    found: dict[Finding, None] = {}
    rules = selected_rules(settings)
    with no_garbage_collection(), sharing():  # rules need the same analyses
        # What was cut off cannot be judged, so fewer rules apply.
        satisfied = _satisfied(context)
        for rule in rules:
            if rule.needs in satisfied and _is_shown(rule.severity_under(settings), settings):
                found |= dict.fromkeys(rule.findings(context))
    codes = tuple(rule.code for rule in rules)
    checked = Checked(module.source.name or "-", module.name, module.instruction_count, codes)
    return FindingList.of(sorted(found, key=_order), checked)


def _satisfied(context: LintContext) -> tuple[Needs, ...]:
    """The values of `Rule.needs` that the text satisfies: fewer for a part of a module, or after errors."""
    if context.omissions:
        return ("text",)
    # Rules about the whole module would report what a part lacks.
    is_whole = not (context.module.errors or context.module.is_part)
    return ("text", "instructions") if not is_whole else ("text", "instructions", "module")


def _is_shown(severity: Severity, settings: LintSettings) -> bool:
    return SEVERITIES.index(severity) <= SEVERITIES.index(settings.min_severity)


def _order(found: Finding) -> tuple[int, str]:
    return (found.span.start if found.span is not None else 0), found.code
