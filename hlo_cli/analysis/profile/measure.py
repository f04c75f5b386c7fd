"""Joins the events of a trace to the instructions of the programs that ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import costs_of_kernels
from hlo_cli.analysis.profile.categories import category_of
from hlo_cli.analysis.profile.cpu_events import HOST, add_cpu_events
from hlo_cli.analysis.profile.joining import GivenModule, InstructionNames, programs_of
from hlo_cli.analysis.profile.occurrences import OccurrenceList, Occurrences, OperationKey
from hlo_cli.analysis.profile.profile import MeasuredProgram, Operation, Profile, Step
from hlo_cli.analysis.profile.steps import host_steps, launches, steps_of_runs
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers, Trace, TracedProgram
from hlo_cli.source import HloError

Programs = Mapping[tuple[int | None, str], MeasuredProgram]


def measure(trace: Trace, read_module: Callable[[TracedProgram], Module], given: Sequence[GivenModule] = ()) -> Profile:
    """The profile of a trace; `read_module` parses its programs, and `given` are those of a dump.

    HloError if the trace has no timed operations.
    """
    rows = OccurrenceList()
    steps: tuple[Step, ...] = ()
    launched: Mapping[int, int] = {}
    for plane in trace.planes:
        if plane.name == HOST:
            add_cpu_events(plane, rows)
            steps, launched = host_steps(plane), launches(plane)
    occurrences = rows.occurrences()
    if not len(occurrences):
        raise HloError(
            f"{trace.name} has no timed operations",
            hint="record it while a program runs: with jax.profiler.trace(DIR): step(x).block_until_ready()",
        )
    programs = programs_of(occurrences.keys, trace.programs(), read_module, given)
    operations, codes = _operations(occurrences, programs)
    return Profile(
        (trace,),
        "CPU",
        tuple(dict.fromkeys(programs.values())),
        operations,
        occurrences,
        codes,
        steps,
        steps_of_runs(occurrences, steps, launched),
        _spans(occurrences),
    )


def _operations(occurrences: Occurrences, programs: Programs) -> tuple[tuple[Operation, ...], Integers]:
    """The operations, and the operation of each row: keys that name one instruction are one operation."""
    names = InstructionNames()
    of_key: list[tuple[MeasuredProgram | None, Instruction | None, str]] = []
    for key in occurrences.keys:
        program = programs.get((key.program, key.module))
        found = names.find(program.module, key.op) if program and program.module and key.op else None
        of_key.append((program, found, found.name if found else key.op or key.kernel))
    distinct = {each: at for at, each in enumerate(dict.fromkeys(of_key))}
    keys_of: list[list[OperationKey]] = [[] for _ in distinct]
    for key, each in zip(occurrences.keys, of_key, strict=True):
        keys_of[distinct[each]].append(key)
    costs = costs_of_kernels([instruction for _, instruction, _ in distinct if instruction is not None])
    operations = tuple(
        _operation(program, instruction, name, keys, costs)
        for (program, instruction, name), keys in zip(distinct, keys_of, strict=True)
    )
    return operations, np.array([distinct[each] for each in of_key], np.int64)[occurrences.codes]


def _operation(
    program: MeasuredProgram | None,
    instruction: Instruction | None,
    name: str,
    keys: Sequence[OperationKey],
    costs: Mapping[Instruction, Cost],
) -> Operation:
    kernels = tuple(dict.fromkeys(key.kernel for key in keys if key.kernel))
    if instruction is None:
        return Operation(name, program, None, kernels=kernels)
    cost, metadata = costs.get(instruction), instruction.metadata
    return Operation(
        name,
        program,
        instruction,
        category_of(instruction),
        metadata.op_name or "",
        "",
        None if cost is None or cost.unknown else cost.flops,
        None if cost is None or cost.unknown else cost.bytes_accessed,
        kernels=kernels,
    )


def _spans(occurrences: Occurrences) -> tuple[int, ...]:
    """The time of each device from its first to its last operation."""
    count = len(occurrences.device_names)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, occurrences.devices, occurrences.begins_ps)
    np.maximum.at(last, occurrences.devices, occurrences.ends_ps)
    return tuple((last - first).tolist())
