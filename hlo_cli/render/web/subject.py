"""What a page or a picture is about: module, chip, dump, and stage, from the facts on the input of its report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hlo_cli.render.draw.prose import BETWEEN
from hlo_cli.report.cell import Cell
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report

TARGETS: Final = {"tpu": "TPU", "gpu": "GPU", "cpu": "CPU"}
_SUFFIXES: Final = re.compile(r"(?:\.(?:txt|hlo|pb|pbtxt|gz|zst|xz|bz2))+$")


class Subject(NamedTuple):
    """The title of a page, empty if nothing was read, and details for the line below it."""

    title: str
    details: str


def subject_of(report: Report) -> Subject:
    """The module and where it runs; below, the command, the dump, and the stage.

    >>> facts = {"path": "dumps/v5e_mlp/after_optimizations.txt.gz", "module": "jit_f", "target": "tpu"}
    >>> report = Report("memspace", "It fits", input={**facts, "stage": "after_optimizations"}, numbers={"chip": "v5e"})
    >>> subject_of(report)
    Subject(title='jit_f on TPU v5e', details='hlo memspace · v5e_mlp, after optimizations')
    >>> subject_of(Report("layout", "No padding"))
    Subject(title='', details='hlo layout')
    """
    facts = report.input
    before, after = facts.get("before"), facts.get("after")
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        both = dict.fromkeys(name for each in (before, after) if (name := _text(each, "module")))
        return _subject(" → ".join(both), report, " → ".join(_dump(each) for each in (before, after)))
    paths = facts.get("paths")
    if isinstance(paths, tuple | list) and paths:
        modules = facts.get("modules")
        names = [name for name in modules if isinstance(name, str)] if isinstance(modules, tuple | list) else []
        dumps = dump_name(str(paths[0])) if len(paths) == 1 else format_count(len(paths), "dumps")
        return _subject(names[0] if len(names) == 1 else dumps, report, dumps if len(names) == 1 else "")
    module = _text(facts, "module") or _text(facts, "shape")
    place = _place(report)
    title = f"{module} on {place}" if module and place else module
    dump = _dump(facts) if "path" in facts else ""
    return _subject(title or dump, report, dump if title else "")


def dump_name(path: str, stage: str = "") -> str:
    """The name of a dump without the directories of its machine: the file, or its directory if that says more.

    >>> dump_name("/home/me/v5e_mlp/after_optimizations.txt.gz"), dump_name("a/module_0001.jit_f.before.txt")
    ('v5e_mlp', 'module_0001.jit_f.before')
    """
    directories, _, file = path.rstrip("/").rpartition("/")
    name = _SUFFIXES.sub("", file)
    directory = directories.rpartition("/")[2]
    is_stage = name == stage or name in ("after_optimizations", "before_optimizations")
    return directory if is_stage and directory not in ("", ".", "..") else name or path


def _subject(title: str, report: Report, dump: str) -> Subject:
    return Subject(title, BETWEEN.join(part for part in (f"hlo {report.command}", dump) if part))


def _dump(facts: Mapping[str, Cell]) -> str:
    stage = _text(facts, "stage")
    path = _text(facts, "path")
    name = "standard input" if path == "-" else dump_name(path, stage)
    return f"{name}, {stage.replace('_', ' ')}" if stage and stage != name else name


def _place(report: Report) -> str:
    """The chip with its kind, or the kind alone."""
    target = TARGETS.get(_text(report.input, "target"), "")
    models = (report.numbers, report.numbers.get("model"), report.numbers.get("time_model"))
    chip = next((name for each in models if isinstance(each, Mapping) and (name := _text(each, "chip"))), "")
    return " ".join(part for part in (target, chip if target == "TPU" else chip.upper()) if part)


def _text(facts: Mapping[str, Cell], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""
