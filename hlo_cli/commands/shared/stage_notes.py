"""Notes that numbers are bounds or assumptions because the module is not optimized, partitioned, or scheduled yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo_cli.analysis.query.module_summary import ProgramStage, program_stage
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic


def stage_of(loaded: Loaded) -> ProgramStage:
    """The compilation stage of a module, by its text and the name of its file."""
    return program_stage(loaded.module, loaded.input.stage)


def devices_together(loaded: Loaded) -> int:
    """The number of devices whose work the module holds together: more than 1 before it is partitioned.

    XLA partitions first of all, so an optimized module is the program of one device.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> parameter = "ROOT p = f32[8] parameter(0), sharding={devices=[8]<=[8]}"
    >>> module = parse_module(f"HloModule m, num_partitions=8  ENTRY e {{ {parameter} }}")
    >>> loaded = Loaded(module, Input(module.source, None))
    >>> devices_together(loaded), partition_notes(loaded)[0].message
    (8, 'the module is not partitioned: upper bound, work ÷ 8 at best; `hlo shard` shows the shards of each device')
    """
    if stage_of(loaded) == "optimized":
        return 1
    from hlo_cli.analysis.sharding.entry_arrays import (
        devices_in_shapes,  # not needed by the dumps that most people have
    )

    return devices_in_shapes(loaded.module)


def not_partitioned(devices: int) -> str:
    """What holds for every number of a module with the work of several devices.

    >>> not_partitioned(8)
    'not partitioned: upper bound, work ÷ 8 at best'
    """
    return f"not partitioned: upper bound, work ÷ {devices:,} at best"


def partition_notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """A note if one device is given the work of several, because the module is not partitioned yet."""
    return partition_notes_on((devices_together(loaded),))


def partition_notes_on(devices: Sequence[int]) -> tuple[Diagnostic, ...]:
    """Notes on the modules that hold the work of several devices; `devices` are those of each module.

    >>> [note.message for note in partition_notes_on((1, 8, 8))]
    ['2 modules are not partitioned: upper bound, work ÷ 8 at best']
    """
    if len(devices) == 1 and devices[0] > 1:
        words = f"the module is {not_partitioned(devices[0])}; `hlo shard` shows the shards of each device"
        return (Diagnostic("note", words),)
    counts = sorted(Counter(each for each in devices if each > 1).items())
    return tuple(
        Diagnostic("note", f"{format_count(n, 'modules')} {'is' if n == 1 else 'are'} {not_partitioned(number)}")
        for number, n in counts
    )


def text_order_note() -> Diagnostic:
    """The note on numbers that take the order of the text for the schedule, which the module does not have."""
    return Diagnostic("note", "the module is not scheduled; using the order of the text")


def bounded(answer: str, stage: ProgramStage, *, name: str = "", is_upper: bool = True, devices: int = 1) -> str:
    """An answer about a program, as an upper bound if the module is not optimized or not partitioned yet.

    `name` is the module's; its case is kept if the answer begins with it. Without `is_upper`, only the stage is named.
    `devices` are those of `devices_together`.

    >>> bounded("HBM needs 3 GiB", "optimized")
    'HBM needs 3 GiB'
    >>> bounded("No async operations in 9 steps", "before optimization")
    'Before optimization (upper bounds): no async operations in 9 steps'
    >>> bounded("HBM usage peaks at 3 GiB", "during optimization", devices=8)
    'During optimization, not partitioned (upper bounds, ÷ 8 at best): HBM usage peaks at 3 GiB'
    """
    if stage == "optimized" and devices == 1:
        return answer
    is_word = (answer[1:2].islower() or answer[1:2] == " ") and not (name and answer.startswith(name))
    rest = f"{answer[:1].lower()}{answer[1:]}" if is_word else answer
    head = f"{stage[:1].upper()}{stage[1:]}"
    if devices > 1:
        return f"{head}, not partitioned (upper bounds, ÷ {devices:,} at best): {rest}"
    return f"{head}{' (upper bounds)' if is_upper else ''}: {rest}"


def bounded_report(report: Report, loaded: Loaded, *, has_times: bool = True) -> Report:
    """A report with costs or times, with a note if the module is not partitioned yet.

    With times, the answer is an upper bound if the module is not optimized yet, nor fused by rule.
    """
    notes = (*partition_notes(loaded), *report.notes)
    if not has_times:
        return replace(report, notes=notes)
    stage, devices = stage_of(loaded), devices_together(loaded)
    is_upper = not report.numbers.get("is_fused_by_rule") or devices > 1
    numbers = {**report.numbers, **stage_numbers(stage, devices), **({} if is_upper else {"upper_bound": False})}
    answer = bounded(report.answer, stage, name=loaded.module.name, is_upper=is_upper, devices=devices)
    return replace(report, answer=answer, numbers=numbers, notes=notes)


def stage_numbers(stage: ProgramStage, devices: int = 1) -> Mapping[str, Cell]:
    """The stage, the number of devices whose work is that of the module, and the bound, for programs.

    >>> stage_numbers("before optimization")
    {'program_stage': 'before optimization', 'devices_together': 1, 'upper_bound': True}
    """
    is_upper = stage != "optimized" or devices > 1
    return {"program_stage": stage, "devices_together": devices, "upper_bound": is_upper}
