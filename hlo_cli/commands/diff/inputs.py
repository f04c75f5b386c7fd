"""The modules that `hlo diff OLD NEW` compares: of two files, two stages of one module, or two directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.commands.diff.report import DiffSide, report_of_diff
from hlo_cli.commands.diff.view import View
from hlo_cli.commands.modules.loading import Many, one_or_many
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.inputs.input import Input, ModuleRef, read_module_ref
from hlo_cli.read_input import read_module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

Found = tuple[Report, bool, tuple[Diagnostic, ...]]
"""A report, whether there are differences, and the reading errors."""


def report_of_inputs(
    arguments: Sequence[str], reading: InputOptions, view: View, *, each: bool = False, jobs: int | None = None
) -> Found:
    """The differences between two inputs, or between two stages of one; of several modules, a row each."""
    stages = _stages(arguments, reading)
    names = (arguments[0], arguments[-1])
    sides = [one_or_many([name], replace(reading, stage=stage)) for name, stage in zip(names, stages, strict=True)]
    if not each and not all(map(os.path.isdir, names)):
        sides = _namesakes(sides, names)
    old, new = sides
    if isinstance(old, Input) and isinstance(new, Input) and not each:
        if old.stage == new.stage or not any(map(os.path.isdir, names)) or reading.stage is not None:
            return _of_two(old, new, reading, view, arguments)
        return _of_other_stages(old, new, reading, view, names)
    from hlo_cli.commands.diff.directories import report_of_many, side_of_many

    ones, twos = (side_of_many(side, name) for side, name in zip(sides, names, strict=True))
    if len(ones) == 1 == len(twos):
        twos = dict(zip(ones, twos.values(), strict=True))
    return report_of_many(ones, twos, view, jobs=jobs, reading=reading, arguments=arguments)


def _of_other_stages(old: Input, new: Input, reading: InputOptions, view: View, names: tuple[str, str]) -> Found:
    """The differences between dumps whose latest stages differ: of a stage that both have, or of both with a warning.

    A program differs from what a compiler made of it everywhere, so no cause of such a difference is one.
    """
    for place, side, stage in ((1, new, old.stage), (0, old, new.stage)):
        found = _at_stage(names[place], side, stage, reading) if os.path.isdir(names[place]) else None
        if found is not None:
            pair = (old, found) if place else (found, new)
            report, differs, errors = _of_two(*pair, reading, view, names)
            note = Diagnostic("note", f"using stage {stage}, the latest in both inputs")
            kept = (each for each in report.notes if not each.message.startswith("using stage "))
            return replace(report, notes=(note, *kept)), differs, errors
    report, differs, errors = _of_two(old, new, reading, view, names)
    stages = ", ".join(f"{side} is {each.stage}" for side, each in (("OLD", old), ("NEW", new)))
    answer = f"The stages differ: {stages}"
    hint = "dump the same stage of both programs, or pass --stage A..B for the stages of one"
    note = Diagnostic("note", "differences between stages are made by the compiler", hint=hint)
    return replace(report, answer=answer, notes=(note, *report.notes)), differs, errors


def _at_stage(name: str, side: Input, stage: str | None, reading: InputOptions) -> Input | None:
    """The dump of a module at a stage in a directory; None if the directory does not have it."""
    if stage is None:
        return None
    try:
        found = one_or_many([name], replace(reading, stage=stage, module=reading.module or side.module))
    except HloError:
        return None
    return found if isinstance(found, Input) and found.stage == stage else None


def _namesakes(sides: Sequence[Input | Many], names: Sequence[str]) -> list[Input | Many]:
    """Replaces several modules on one side by the one that has the name of the only module on the other side."""
    alone = [side for side in sides if isinstance(side, Input)]
    if len(alone) != 1:
        return list(sides)
    return [
        _namesake(side, alone[0].module, name) if isinstance(side, Many) else side
        for side, name in zip(sides, names, strict=True)
    ]


def _namesake(many: Many, wanted: str | None, place: str) -> Input:
    from hlo_cli.commands.diff.directories import side_of_many

    named = side_of_many(many, place)
    found = [given for name, given in named.items() if wanted is not None and os.path.basename(name) == wanted]
    read = [each for given in found for each in _read(given)]
    if not found and wanted is not None:
        read = [each for given in named.values() for each in _read_if_whole(given) if each.module == wanted]
    if len(read) != 1:
        message = f"module '{wanted}' not found in {place} ({format_count(len(named), 'modules')})"
        if read:
            message = f"{len(read):,} modules in {place} are named '{wanted}'"
        elif wanted is None:
            message = f"expected one module in {place}, found {len(named):,}"
        raise HloError(message, hint="select one with --module NAME, or pass a file")
    return replace(read[0], module_choice=f"{wanted}, one of {len(named):,} modules in {place}")


def _read(given: Input | ModuleRef) -> Sequence[Input]:
    return (given,) if isinstance(given, Input) else read_module_ref(given)


def _read_if_whole(given: Input | ModuleRef) -> Sequence[Input]:
    """The modules of a file whose name does not identify them; empty if it cannot be read."""
    try:
        return _read(given)
    except (HloError, OSError):
        return ()


def side_of(each: Input, reading: InputOptions) -> DiffSide:
    """Reads a module; the result has the name of its file and its stage."""
    module = read_module(each.source, each.proto, strict=reading.strict, infer=omitted_shape)
    return DiffSide(module, each.source.name, each.stage)


def _stages(arguments: Sequence[str], reading: InputOptions) -> tuple[str | None, str | None]:
    """The stages of both sides; HloError if there are not two sides."""
    first, between, second = (reading.stage or "").partition("..")
    if len(arguments) == 1 and not between:
        raise HloError("expected two dumps, got one", hint=f"run `hlo diff {arguments[0]} NEW`")
    if len(arguments) not in (1, 2):
        raise HloError(
            f"expected OLD and NEW, got {format_count(len(arguments), 'inputs')}", hint="run `hlo diff OLD NEW`"
        )
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once", hint="pass one of them as a file")
    if between and not (first and second):
        raise HloError(
            "--stage requires a range A..B to compare one dump",
            hint="for example --stage before_optimizations..after_optimizations",
        )
    return (first, second) if between else (reading.stage, reading.stage)


def _of_two(old: Input, new: Input, reading: InputOptions, view: View, arguments: Sequence[str]) -> Found:
    before, after = side_of(old, reading), side_of(new, reading)
    comparison = view.compare(before.module, after.module)
    notes = tuple(Diagnostic("note", note) for each in (old, new) for note in each.notes)
    if before.module.is_part or after.module.is_part:
        words = "these are parts of modules; only instructions in the text are compared"
        notes = (*notes, Diagnostic("note", words))
    report, found = report_of_diff(comparison, before, after, view, arguments)
    errors = (*before.module.errors, *after.module.errors)
    return replace(report, notes=(*notes, *report.notes)), found, errors
