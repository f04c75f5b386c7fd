"""Counts of the kernels of a schedule that could run during async operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.ir.instruction import Computation, Instruction

Pair = tuple[Instruction, Instruction]
"""The start and the done of an operation; the same instruction if it is synchronous."""


def independent_kernels(pairs: Sequence[Pair]) -> Mapping[Pair, int]:
    """The number of kernels of the same computation that neither precede the start nor depend on the done.

    Users must come after operands, as in a schedule. All pairs of a computation are counted in one pass: sets of pairs
    are the bits of integers.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module('''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  s = (f32[4], f32[4], u32[]) copy-start(p)  d = f32[4] copy-done(s)
    ...   n = f32[4] negate(p)  ROOT a = f32[4] add(n, d) }''').entry
    >>> list(independent_kernels([(entry.instruction("s"), entry.instruction("d"))]).values())
    [1]
    """
    found: dict[Pair, int] = {}
    by_computation: dict[Computation, list[Pair]] = {}
    for pair in dict.fromkeys(pairs):
        by_computation.setdefault(pair[0].computation, []).append(pair)
    for computation, listed in by_computation.items():
        dependent = _dependent_pairs(computation, listed)
        kernels = [each.index for each in computation.instructions if _is_kernel(each)]
        counts = _count_bits([dependent[index] for index in kernels], len(listed))
        found |= {pair: len(kernels) - count for pair, count in zip(listed, counts, strict=True)}
    return found


def _is_kernel(instruction: Instruction) -> bool:
    return not instruction.opcode.endswith("-start") and is_launched(instruction)


def _dependent_pairs(computation: Computation, pairs: Sequence[Pair]) -> list[int]:
    """For each instruction, the pairs whose start depends on it, or on whose done it depends."""
    before, after = [0] * len(computation.instructions), [0] * len(computation.instructions)
    for number, (start, done) in enumerate(pairs):
        before[start.index] |= 1 << number
        if done.computation is computation:
            after[done.index] |= 1 << number
    for instruction in computation.instructions:
        for operand in instruction.operands:
            after[instruction.index] |= after[operand.index]
    for instruction in reversed(computation.instructions):
        for operand in instruction.operands:
            before[operand.index] |= before[instruction.index]
    return [first | second for first, second in zip(before, after, strict=True)]


def _count_bits(sets: Sequence[int], number: int) -> list[int]:
    """The number of sets that contain each bit; the counts are bit-sliced, so that all are incremented at once.

    >>> _count_bits([0b01, 0b11, 0b01], 2)
    [3, 1]
    """
    digits: list[int] = []
    for carried in sets:
        for place, digit in enumerate(digits):
            digits[place], carried = digit ^ carried, digit & carried
            if not carried:
                break
        if carried:
            digits.append(carried)
    return [sum((digit >> bit & 1) << place for place, digit in enumerate(digits)) for bit in range(number)]
