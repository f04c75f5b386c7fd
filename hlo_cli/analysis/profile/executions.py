"""How often instructions ran: calls next to events, executions of programs, and measured trip counts of loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.profile.columns import joint_codes
from hlo_cli.analysis.profile.occurrences import NO_RUN, Occurrences
from hlo_cli.analysis.profile.profile import Floats, MeasuredProgram, Operation, Profile
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.traces.trace import Integers


def call_weights(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Floats:
    """How many calls of its operation each row counts as.

    An instruction may run as several kernels: only the one with the most events counts. Where those are twice as many
    as executions times trips, as some sorts on CPUs have, each is half a call.
    """
    kernels = {name: at for at, name in enumerate(dict.fromkeys(key.kernel for key in rows.keys))}
    kernel_of = np.array([kernels[key.kernel] for key in rows.keys], np.int64)[rows.codes]
    of_row, pairs = joint_codes([codes, kernel_of])
    counts = np.bincount(of_row, rows.counts, len(pairs)).astype(np.int64).tolist()
    greatest: dict[int, tuple[int, int]] = {}
    for at, ((operation, _), count) in enumerate(zip(pairs, counts, strict=True)):
        if operation not in greatest or count > greatest[operation][0]:
            greatest[operation] = count, at
    expected = _expected_calls(rows, operations, codes)
    weight = np.zeros(len(pairs))
    for operation, (count, at) in greatest.items():
        calls = expected.get(operation, 0)
        weight[at] = 1 / max(round(count / calls), 1) if calls else 1.0
    found: Floats = weight[of_row] * rows.counts
    return found


def _expected_calls(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Mapping[int, int]:
    """Executions times trips of each operation, where both are known and every execution runs it."""
    runs = executions(rows, operations, codes)
    found = {}
    for at, operation in enumerate(operations):
        program, instruction = operation.program, operation.instruction
        if program is None or program.module is None or instruction is None:
            continue
        times = executions_of(program.module).get(instruction.computation)
        if times is not None and times.known is not None and not times.in_branch:
            found[at] = runs.get(program, 0) * times.known
    return found


def executions(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Mapping[MeasuredProgram, int]:
    """The executions of each program on all devices together, of those rows that name theirs."""
    programs = {each.program: at for at, each in enumerate(operations) if each.program is not None}
    numbers = np.array([programs[each.program] if each.program else -1 for each in operations], np.int64)[codes]
    known = np.flatnonzero((rows.runs != NO_RUN) & (numbers >= 0))
    if not len(known):
        return {}
    _, distinct = joint_codes([numbers[known], rows.runs[known], rows.devices[known]])
    counts = Counter(program for program, _, _ in distinct)
    return {program: counts[at] for program, at in programs.items() if at in counts}


def with_executions(rows: Occurrences, operations: Sequence[Operation], codes: Integers) -> Integers:
    """The executions that rows belong to, where GPUs do not name them: each begins with the program's first kernel.

    The first kernel is the earliest of those that run once an execution and have as many events as most of these.
    """
    runs = rows.runs.copy()
    if (runs != NO_RUN).any() or (rows.counts > 1).any():  # sums have no order
        return runs
    once = _once_a_run(operations)
    programs = {each.program: at for at, each in enumerate(operations) if each.program and each.program.module}
    numbers = [programs.get(each.program, -1) if each.program else -1 for each in operations]
    program_of = np.array(numbers, np.int64)[codes]
    groups, distinct = joint_codes([program_of, rows.devices])
    order = np.lexsort((rows.begins_ps, groups))
    bounds = np.searchsorted(groups[order], np.arange(len(distinct) + 1))
    first_kernels = _first_kernels(groups[order], codes[order], rows.codes[order], once)
    for group, (program, _) in enumerate(distinct):
        first = first_kernels.get(group)
        if program >= 0 and first is not None:
            chosen = order[bounds[group] : bounds[group + 1]]
            begins = rows.begins_ps[chosen[rows.codes[chosen] == first]]
            runs[chosen] = np.maximum(np.searchsorted(begins, rows.begins_ps[chosen], side="right") - 1, 0)
    return runs


def _first_kernels(groups: Integers, operations: Integers, kernels: Integers, once: set[int]) -> Mapping[int, int]:
    """For each group of rows in order of time, the first kernel that ran as often as most of those of `once`."""
    codes, distinct = joint_codes([groups, operations, kernels])
    _, places = np.unique(codes, return_index=True)
    counts = np.bincount(codes, minlength=len(distinct)).tolist()
    candidates: dict[int, list[tuple[int, int, int]]] = {}
    for (group, operation, kernel), place, count in zip(distinct, places.tolist(), counts, strict=True):
        if operation in once:
            candidates.setdefault(group, []).append((place, kernel, count))
    found = {}
    for group, kernels_of in candidates.items():
        usual = _usual(Counter(count for _, _, count in kernels_of))
        found[group] = min((place, kernel) for place, kernel, count in kernels_of if count == usual)[1]
    return found


def _once_a_run(operations: Sequence[Operation]) -> set[int]:
    """The operations that every execution of their program runs once."""
    found = set()
    for at, operation in enumerate(operations):
        if operation.instruction is not None and operation.program and operation.program.module:
            times = executions_of(operation.program.module).get(operation.instruction.computation)
            if times is not None and times.known == 1 and not times.in_branch:
                found.add(at)
    return found


def measured_trips(profile: Profile, calls: Sequence[int]) -> Mapping[Instruction, float]:
    """The mean trip count of each loop that ran: calls of its body's operations by calls of the loop.

    `calls` are those of each operation. Loops without timed operations in their body are left out.
    """
    by_computation: dict[Computation, Counter[int]] = {}
    own = {}
    for operation, count in zip(profile.operations, calls, strict=True):
        if operation.instruction is not None and count:
            by_computation.setdefault(operation.instruction.computation, Counter())[count] += 1
            own[operation.instruction] = count
    runs = executions(profile.occurrences, profile.operations, profile.codes)
    usual = {each: _usual(counts) for each, counts in by_computation.items()}
    for program in profile.programs:
        if program.module is not None and program in runs:
            usual[program.module.entry] = runs[program]
    modules = [program.module for program in profile.programs if program.module is not None]
    found = {}
    for loop in chain.from_iterable(module.instructions for module in modules):
        if loop.opcode != opcodes.WHILE or not loop.called_computations:
            continue
        around = own.get(loop) or usual.get(loop.computation)
        if around and (inside := usual.get(loop.called_computations[0])):
            found[loop] = inside / around
    return found


def _usual(counts: Counter[int]) -> int:
    """The most common count, the greater of equals."""
    most = max(counts.values())
    return max(count for count, often in counts.items() if often == most)
