"""Which modules `hlo diff OLD NEW` compares: two files, two stages of one module, or the modules of two directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.analysis.omitted_shape import omitted_shape
from hlo_cli.commands.diff_report import Side, report_of_diff
from hlo_cli.commands.diff_view import View
from hlo_cli.commands.options import Reading
from hlo_cli.inputs.input import Input, choose_one, read_inputs
from hlo_cli.render.numbers import counted
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.read import read_module

Found = tuple[Report, bool, tuple[Diagnostic, ...]]
"""A report, whether there are differences, and what could not be read."""


def report_of_inputs(arguments: Sequence[str], reading: Reading, view: View, *, jobs: int | None = None) -> Found:
    """The differences of what two arguments name, or one argument at two stages."""
    stages = _stages(arguments, reading)
    sides = (arguments[0], arguments[-1])
    if all(map(os.path.isdir, sides)):
        from hlo_cli.commands.diff_many import named_pieces, report_of_many

        ones, twos = (named_pieces(side, stage, reading.module) for side, stage in zip(sides, stages, strict=True))
        if not len(ones) == 1 == len(twos):
            return report_of_many(ones, twos, view, jobs=jobs, strict=reading.strict, arguments=arguments)
    old, new = (
        choose_one(read_inputs([side], stage=stage, module=reading.module))
        for side, stage in zip(sides, stages, strict=True)
    )
    return _of_two(old, new, reading, view, arguments)


def side_of(each: Input, reading: Reading) -> Side:
    """A module that is read, with what it is called."""
    module = read_module(each.source, each.proto, strict=reading.strict, infer=omitted_shape)
    return Side(module, each.source.name, each.stage)


def _stages(arguments: Sequence[str], reading: Reading) -> tuple[str | None, str | None]:
    """The stages of both sides; HloError where there are no two sides."""
    first, between, second = (reading.stage or "").partition("..")
    if len(arguments) == 1 and not between:
        raise HloError("there is one dump, and nothing to compare it with", hint=f"hlo diff {arguments[0]} NEW")
    if len(arguments) not in (1, 2):
        raise HloError(f"expected OLD and NEW, found {counted(len(arguments), 'inputs')}", hint="hlo diff OLD NEW")
    if list(arguments).count("-") > 1:
        raise HloError("standard input can be read only once", hint="give one of both as a file")
    if between and not (first and second):
        raise HloError("--stage names two stages", hint="--stage before_optimizations..after_optimizations")
    return (first, second) if between else (reading.stage, reading.stage)


def _of_two(old: Input, new: Input, reading: Reading, view: View, arguments: Sequence[str]) -> Found:
    before, after = side_of(old, reading), side_of(new, reading)
    comparison = view.compare(before.module, after.module)
    notes = tuple(Diagnostic("note", note) for each in (old, new) for note in each.notes)
    report = report_of_diff(comparison, before, after, view, arguments)
    errors = (*before.module.errors, *after.module.errors)
    return replace(report, notes=notes), view.differs(comparison), errors
