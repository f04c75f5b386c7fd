"""Which modules `hlo diff OLD NEW` compares: two files, two stages of one module, or the modules of two directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo_cli.analysis.omitted_shape import omitted_shape
from hlo_cli.commands.diff_report import Side, answer_of, report_of_diff
from hlo_cli.commands.diff_view import View
from hlo_cli.commands.options import Reading
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.render.numbers import counted
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.read import read_module

Found = tuple[Report, bool, tuple[Diagnostic, ...]]
"""A report, whether there are differences, and what could not be read."""


def report_of_inputs(arguments: Sequence[str], reading: Reading, view: View) -> Found:
    """The differences of what two arguments name, or one argument at two stages."""
    old, new = _both(arguments, reading)
    if len(old) == 1 == len(new):
        return _of_two(old[0], new[0], reading, view, arguments)
    ones, twos = _by_name(old), _by_name(new)
    both = [name for name in ones if name in twos]
    if not both:
        raise HloError(
            f"no module is in both: {_some(ones)} on one side, {_some(twos)} on the other",
            hint="--module chooses one; name the files to compare modules of different names",
        )
    if len(both) == 1 == len(ones) == len(twos):
        return _of_two(ones[both[0]], twos[both[0]], reading, view, arguments)
    return _of_many(ones, twos, reading, view, arguments)


def side_of(each: Input, reading: Reading) -> Side:
    """A module that is read, with what it is called."""
    module = read_module(each.source, each.proto, strict=reading.strict, infer=omitted_shape)
    return Side(module, each.source.name, each.stage)


def _both(arguments: Sequence[str], reading: Reading) -> tuple[tuple[Input, ...], tuple[Input, ...]]:
    first, between, second = (reading.stage or "").partition("..")
    if len(arguments) == 1 and not between:
        raise HloError("there is one dump, and nothing to compare it with", hint=f"hlo diff {arguments[0]} NEW")
    if len(arguments) not in (1, 2):
        raise HloError(f"expected OLD and NEW, found {counted(len(arguments), 'inputs')}", hint="hlo diff OLD NEW")
    stages = (first, second) if between else (reading.stage, reading.stage)
    if between and not (first and second):
        raise HloError("--stage names two stages", hint="--stage before_optimizations..after_optimizations")
    old, new = (
        read_inputs([argument], stage=stage, module=reading.module)
        for argument, stage in zip((arguments[0], arguments[-1]), stages, strict=True)
    )
    return old, new


def _of_two(old: Input, new: Input, reading: Reading, view: View, arguments: Sequence[str]) -> Found:
    before, after = side_of(old, reading), side_of(new, reading)
    comparison = view.compare(before.module, after.module)
    notes = tuple(Diagnostic("note", note) for each in (old, new) for note in each.notes)
    report = report_of_diff(comparison, before, after, view, arguments)
    errors = (*before.module.errors, *after.module.errors)
    return replace(report, notes=notes), view.differs(comparison), errors


def _by_name(inputs: Sequence[Input]) -> Mapping[str, Input]:
    """The modules by name; where names repeat, with XLA's number."""
    names = [each.module or each.source.name for each in inputs]
    return {
        name if names.count(name) == 1 else (each.names[-1] if each.names else each.source.name): each
        for name, each in zip(names, inputs, strict=True)
    }


def _some(names: Mapping[str, Input]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _of_many(
    ones: Mapping[str, Input], twos: Mapping[str, Input], reading: Reading, view: View, arguments: Sequence[str]
) -> Found:
    """One row a module."""
    rows: list[Row] = []
    errors: list[Diagnostic] = []
    differing = 0
    for name in dict.fromkeys((*ones, *twos)):
        if name not in twos or name not in ones:
            rows.append(("-" if name in ones else "+", name, None, None, None, None, None))
            continue
        before, after = side_of(ones[name], reading), side_of(twos[name], reading)
        comparison = view.compare(before.module, after.module)
        errors += (*before.module.errors, *after.module.errors)
        if view.differs(comparison):
            differing += 1
            counts = len(comparison.changed), len(comparison.added), len(comparison.removed), len(comparison.moved)
            rows.append(("~", name, *counts, answer_of(comparison)))
    alone = len(set(ones) ^ set(twos))
    both = len(ones) + len(twos) - len(set(ones) | set(twos))
    words = (
        f"{differing:,} of {counted(both, 'modules')} differ"
        if differing
        else f"No difference in {counted(both, 'modules')}"
    )
    numbers = {"modules": both, "differing": differing, "alone": alone}
    table = Table("modules", _MODULE_COLUMNS, tuple(rows), noun="modules")
    answer = words + (f"; {alone:,} on one side only" if alone else "")
    first = next((str(row[1]) for row in rows if row[0] == "~"), None)
    follow = (f"hlo diff {' '.join(arguments)} --module {first}",) if first else ()
    report = Report("diff", answer, numbers=numbers, parts=(table,), next=follow)
    return report, bool(differing or alone), tuple(errors)


_MODULE_COLUMNS = (
    Column("change", "", "change"),
    Column("module", "module", "name", role="name"),
    Column("changed", "changed", "count"),
    Column("added", "added", "count"),
    Column("removed", "removed", "count"),
    Column("moved", "moved", "count", from_width=120),
    Column("answer", "what", from_width=120, rank=1),
)
