"""What happens at every step, and which chain of instructions is the longest?"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final, Literal

from hlo_cli.analysis.cost.cost_analysis import KernelCost, inclusive_costs
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.time_model import NO_TIME, Estimate
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.analysis.schedule.step_time import CriticalPath, TimeEstimate, critical_path, estimate_time, path_seconds
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.memspace.usage import chosen_spaces, memory_timeline
from hlo_cli.commands.modules.by import with_origins
from hlo_cli.commands.modules.instruction_tables import rows_where, source_of, with_costs, with_traffic
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.chips import time_model, time_notes
from hlo_cli.commands.schedule.async_table import order_notes
from hlo_cli.commands.schedule.time import band_notes, execution_in_words, step_numbers, whole_time
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, columns_of_part, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

# --- --sequence: every step ---
# `hlo schedule DUMP --sequence`: every step with live bytes, async starts and dones, and bytes in flight.


_WORD = re.compile(r"\w+")
_NOT_WORD = re.compile(r"[^a-z0-9]+")


def report_of_steps(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    *,
    space: str | None,
    within: Computation | None,
    where: str | None,
    throughput: ChipSpec | None = None,
    columns: Collection[str] = (),
    memory: MemoryAnalysis | None = None,
) -> Report:
    """One row for each step, and the chart of live bytes; with a chip, the start time and duration of each step.

    `columns` are those that the user names; they may be cost columns, and origins. `memory` is used if it is known
    already.
    """
    memory = compiler_memory(loaded) if memory is None else memory
    spaces = chosen_spaces(memory, space)
    in_flight = _InFlight(overlap)
    times = None if throughput is None else estimate_time(overlap, throughput)
    module_time = whole_time(loaded, overlap, times) if times is not None else None
    words = execution_in_words(times, module_time) if times is not None and module_time is not None else ""
    plain = _steps_table(overlap, spaces, in_flight, within, times)
    steps = [overlap.sequence[step] for step, *_ in plain.rows if isinstance(step, int)]
    everything = with_costs(plain, steps, loaded.module, (*columns, *_WORD.findall(where or "")))
    everything = with_traffic(everything, steps, loaded.module, columns, where)
    everything = with_origins(everything, [(step, ()) for step in steps], loaded.module, (*columns, where or ""))
    table = everything if where is None else replace(rows_where(where, everything), footnote="")
    no_matches = Passage("nothing", (f"No matches among {format_count(len(everything.rows), 'steps')}.",))
    parts: list[Part] = [table] if table.rows else [no_matches, table]
    busiest = max(range(len(in_flight.bytes)), key=in_flight.bytes.__getitem__, default=0)
    return Report(
        "schedule",
        _sequence_answer(overlap, spaces, in_flight, busiest, words),
        numbers={
            "steps": len(overlap.sequence),
            "order": memory.order,
            "peak_bytes": {each.name: each.peak_bytes for each in memory.spaces},
            "max_in_flight": max(in_flight.number, default=0),
            "max_in_flight_bytes": in_flight.bytes[busiest] if in_flight.bytes else 0,
            **(
                {**step_numbers(times, module_time), "time_model": time_model(times.throughput)}
                if times and module_time
                else {}
            ),
        },
        parts=(*parts, memory_timeline(memory, spaces, limits={})) if spaces else tuple(parts),
        notes=(
            *order_notes(overlap),
            *(time_notes(times.throughput, loaded.module) if times else ()),
            *(band_notes(times.throughput, module_time) if times and module_time else ()),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


class _InFlight:
    """At each step, the interval that starts, the interval that ends, and the pairs and bytes in flight."""

    def __init__(self, overlap: OverlapAnalysis) -> None:
        steps = len(overlap.sequence)
        ends = {run.computation: run.end for run in overlap.runs}
        self.starts: dict[int, AsyncInterval] = {}
        self.ends: dict[int, AsyncInterval] = {}
        number, size = [0] * (steps + 1), [0] * (steps + 1)
        for interval in overlap.intervals:
            start = interval.start_step
            self.starts[start] = interval
            dones = [overlap.positions[done] for done in interval.pair.dones if done in overlap.positions]
            self.ends |= dict.fromkeys(dones, interval)
            if not dones:
                continue
            # carried into the next iteration: in flight until this one ends; later steps count the next start
            end = min((done for done in dones if done > start), default=ends[interval.pair.start.computation])
            number[start] += 1
            number[end] -= 1
            size[start] += interval.moved_bytes
            size[end] -= interval.moved_bytes
        self.number = list(accumulate(number))[:-1]
        self.bytes = list(accumulate(size))[:-1]

    def event(self, step: int) -> str | None:
        """Whether an operation starts or ends."""
        return "start" if step in self.starts else "done" if step in self.ends else None

    def paired(self, step: int, sequence: Sequence[Instruction]) -> Cell:
        """The name of the done of what starts, or of the start of what ends; unknown for a done that is never run."""
        started, ended = self.starts.get(step), self.ends.get(step)
        if started is not None:
            return UNKNOWN if started.done_step is None else sequence[started.done_step].name
        return None if ended is None else ended.pair.start.name


def _sequence_answer(
    overlap: OverlapAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    in_flight: _InFlight,
    busiest: int,
    execution: str,
) -> str:
    words = format_count(len(overlap.sequence), "steps")
    if execution:
        words += f", {execution}"
    peaks = [f"{space.name} peaks at {format_bytes(space.peak_bytes)} at step {space.peak_step:,}" for space in spaces]
    in_flight_words = "no async operations in flight"
    if overlap.intervals:
        operations = format_count(max(in_flight.number), "async operations")
        in_flight_words = (
            f"at most {operations} in flight, at most {format_bytes(in_flight.bytes[busiest])} (step {busiest:,})"
        )
    return f"{words}: {'; '.join((*peaks, in_flight_words))}"


@dataclass(frozen=True, slots=True)
class _StepTime:
    """The start, the compute, and the wait time of a step, and the estimate that they come from."""

    start_seconds: float
    compute_seconds: Cell
    wait_seconds: Cell
    estimate: Estimate


_TIME_COLUMNS: Final[tuple[Column[_StepTime], ...]] = (
    Column("start_seconds", "time", "seconds", of=lambda row: row.start_seconds),
    Column("compute_seconds", "compute", "seconds", of=lambda row: row.compute_seconds),
    Column("wait_seconds", "wait", "seconds", role="waste", of=lambda row: row.wait_seconds),
    Column("launch_seconds", "launch", "seconds", person=False, of=lambda row: row.estimate.launch_seconds),
    Column("estimate_source", "estimate", person=False, of=lambda row: ", ".join(sorted(row.estimate.sources)) or None),
)


def _steps_table(
    overlap: OverlapAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    in_flight: _InFlight,
    within: Computation | None,
    times: TimeEstimate | None,
) -> Table:
    sequence, changes = overlap.sequence, _changes(spaces)
    columns: tuple[Column[int], ...] = (
        Column("step", "step", "step", of=lambda step: step),
        *(
            ()
            if times is None
            else columns_of_part(_TIME_COLUMNS, lambda step: _step_time(times, sequence[step], step))
        ),
        *(Column(_column_name(space), space.name, "bytes", of=_live_bytes(space)) for space in spaces),
        Column("change", "change", "bytes", from_width=120,
               of=lambda step: changes[step] if step < len(changes) else 0),
        Column("in_flight", "ops", "count", group="in flight", of=lambda step: in_flight.number[step]),
        Column("in_flight_bytes", "", "bytes", group="in flight", of=lambda step: in_flight.bytes[step]),
        Column("event", "event", of=lambda step: in_flight.event(step)),
        Column("instruction", "instruction", "name", role="name", of=lambda step: sequence[step].name),
        Column("opcode", "opcode", "opcode", rank=3, of=lambda step: sequence[step].opcode),
        Column("paired_instruction", "pair", "name", of=lambda step: in_flight.paired(step, sequence)),
        Column("computation", "computation", "name", from_width=120, of=lambda step: sequence[step].computation.name),
        Column("shape", "shape", "shape", from_width=120, of=lambda step: str(sequence[step].shape)),
        Column("op_name", "op_name", "op_name", from_width=200, rank=2,
               of=lambda step: sequence[step].metadata.op_name or None),
        Column("source", "source", "source", person=False, of=lambda step: source_of(overlap.module, sequence[step])),
    )  # fmt: skip
    # A sugared start has two ticks, of the operation that it hides and of its own: one row is enough.
    steps = [n for n, (i, after) in enumerate(_with_next(overlap.sequence)) if i is not after]
    steps = [n for n in steps if within is None or overlap.sequence[n].computation is within]
    rows = rows_from(columns, steps)
    peaks = {row for row, step in enumerate(steps) if any(space.peak_step == step for space in spaces)}
    idle = {row for row, step in enumerate(steps) if row not in peaks and _is_idle(overlap, in_flight, changes, step)}
    return Table("steps", columns, rows, noun="steps", marked=frozenset(peaks), idle=frozenset(idle))


def _is_idle(overlap: OverlapAnalysis, in_flight: _InFlight, changes: Sequence[int], step: int) -> bool:
    """Whether nothing happens at a step: no kernel, no start or end, and no change but that of arguments.

    Most of the first steps are so, as compilers put parameters and constants there.
    """
    instruction = overlap.sequence[step]
    if instruction in overlap.costs or in_flight.event(step) is not None:
        return False
    has_change = step < len(changes) and changes[step] != 0
    return not has_change or instruction.opcode in (opcodes.PARAMETER, opcodes.CONSTANT)


def _with_next(sequence: Sequence[Instruction]) -> Iterator[tuple[Instruction, Instruction | None]]:
    """Pairs each step with the next; a sugared start occurs several times, and only its last occurrence is its own."""
    yield from pairwise(sequence)
    yield from ((last, None) for last in sequence[-1:])


def _step_time(times: TimeEstimate, instruction: Instruction, step: int) -> _StepTime:
    kernel, played = times.kernels.get(instruction), times.simulation
    estimate = times.predicted.get(instruction, NO_TIME)
    compute = UNKNOWN if kernel is not None and kernel.bound == "unknown" else estimate.seconds
    wait = UNKNOWN if instruction in times.unknown_waits else played.wait_seconds.get(step, 0.0)
    return _StepTime(played.start_seconds[step], compute, wait, estimate)


def _changes(spaces: Sequence[MemorySpaceUsage]) -> list[int]:
    """The change of live bytes at each step from the step before, over all spaces shown."""
    totals = [sum(live) for live in zip(*(space.timeline for space in spaces), strict=True)]
    return [after - before for before, after in pairwise([0, *totals])]


def _live_bytes(space: MemorySpaceUsage) -> Callable[[int], int]:
    return lambda step: space.timeline[step]


def _column_name(space: MemorySpaceUsage) -> str:
    return f"{_NOT_WORD.sub('_', space.name.lower()).strip('_')}_bytes"


# --- --critical-path: the longest chain ---
# `hlo schedule DUMP --critical-path COST`: the longest chain of dependent instructions.


Model = Literal["bytes", "flops", "kernels", "time"]

_WEIGHTS: Final[Mapping[str, Callable[[KernelCost], int]]] = {
    "bytes": lambda cost: cost.bytes,
    "flops": lambda cost: cost.flops,
    "kernels": lambda cost: cost.kernels,
}
_UNITS: Final[Mapping[Model, str]] = {
    "bytes": "bytes",
    "flops": "flops",
    "kernels": "kernels",
    "time": "seconds",
}
"""The unit of each cost, in the names of numbers."""
_FOOTNOTES: Final[Mapping[Model, str]] = {
    "bytes": "Cost: bytes accessed by each kernel, from XLA's cost analysis.",
    "flops": "Cost: flops of each kernel, from XLA's cost analysis.",
    "kernels": "Cost: number of kernels.",
    "time": "Cost: estimated time; transfers are charged at their start, loops for all iterations.",
}


def report_of_path(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    *,
    model: Model,
    within: Computation | None,
    where: str | None,
    throughput: ChipSpec | None = None,
) -> Report:
    """One row for each instruction of the critical path, by a simple cost or by estimated times on a chip."""
    computation = within or loaded.module.entry
    costs = inclusive_costs(computation.instructions)
    timed = throughput if model == "time" else None
    step = estimate_time(overlap, timed) if timed else None
    weights = _path_seconds(overlap, costs, step) if step else {i: _WEIGHTS[model](cost) for i, cost in costs.items()}
    unknown = [i for i in computation.instructions if step is not None and i in step.unknown]
    path = critical_path(computation, weights)
    everything = _path_table(loaded, overlap, path, costs, weights, model, frozenset(unknown))
    return Report(
        "schedule",
        _path_answer(computation, path, model, timed, is_known=not unknown),
        numbers={
            "model": model,
            "computation": computation.name,
            "instructions": len(path.instructions),
            # A sum of 0 means nothing where the durations that it lacks are unknown.
            f"path_{_UNITS[model]}": path.length if path.length or not unknown else None,
            f"total_{_UNITS[model]}": path.whole if path.whole or not unknown else None,
            **({"unknown": len(unknown), "time_model": time_model(timed)} if timed else {}),
        },
        parts=(everything if where is None else rows_where(where, everything),),
        notes=(*(time_notes(timed, loaded.module) if timed else ()), *_unknown_notes(unknown), *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _path_seconds(
    overlap: OverlapAnalysis, costs: Mapping[Instruction, KernelCost], step: TimeEstimate
) -> Mapping[Instruction, float]:
    seconds = path_seconds(step, overlap)
    return {instruction: seconds.get(instruction, 0.0) for instruction in costs}


def _unknown_notes(unknown: Sequence[Instruction]) -> tuple[Diagnostic, ...]:
    if not unknown:
        return ()
    have = "has" if len(unknown) == 1 else "have"
    number = format_count(len(unknown), "instructions")
    message = f"{number} {have} unknown duration, so the critical path may be a different, longer one"
    return (Diagnostic("note", message),)


def _path_answer(
    computation: Computation, path: CriticalPath, model: Model, timed: ChipSpec | None, *, is_known: bool
) -> str:
    if not path.instructions:
        why = f"no instruction has a cost in {model}" if is_known else "the durations of its instructions are unknown"
        return f"{computation.name} has no critical path: {why}"
    amount = format_count(int(path.length), model)
    if model == "bytes":
        amount = format_bytes(path.length)
    if timed is not None:
        amount = f"{'' if is_known else 'at least '}{format_seconds(path.length)} on {timed.chip}"
    chain = format_count(len(path.instructions), "instructions")
    # With unknown durations both are lower bounds, and their quotient is no bound at all.
    share = f" ({format_percent(path.length / path.whole)}% of the total)" if is_known else ""
    return f"Critical path of {computation.name}: {chain}, {amount}{share}"


def _path_table(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    path: CriticalPath,
    costs: Mapping[Instruction, KernelCost],
    weights: Mapping[Instruction, float],
    model: Model,
    unknown: frozenset[Instruction],
) -> Table:
    columns: tuple[Column[Instruction], ...] = (
        Column("step", "step", "step", of=lambda instruction: overlap.positions.get(instruction)),
        Column("share", "", "percent", total="sum",
               of=lambda instruction: UNKNOWN if unknown else weights[instruction] / path.length),
        *(
            (
                Column(
                    "seconds",
                    "",
                    "seconds",
                    total="sum",
                    of=lambda instruction: UNKNOWN if instruction in unknown else weights[instruction],
                ),
            )
            if model == "time"
            else ()
        ),
        Column("bytes", "", "bytes", total="sum", of=lambda instruction: costs[instruction].bytes),
        Column("flops", "flops", "flops", total="sum", of=lambda instruction: costs[instruction].flops),
        Column("kernels", "kernels", "count", total="sum", person=model == "kernels",
               of=lambda instruction: costs[instruction].kernels),
        Column("instruction", "instruction", "name", role="name", of=lambda instruction: instruction.name),
        Column("opcode", "opcode", "opcode", of=lambda instruction: instruction.opcode),
        Column("shape", "shape", "shape", rank=5, of=lambda instruction: str(instruction.shape)),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda instruction: instruction.metadata.op_name or None),
        Column("source", "source", "source", rank=4, of=lambda instruction: source_of(loaded.module, instruction)),
    )  # fmt: skip
    return Table(
        "critical_path",
        columns,
        rows_from(columns, path.instructions),
        noun="instructions",
        footnote=_FOOTNOTES[model],
    )
