"""Critical path of a computation: the longest chain of dependent instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.dataflow.post_order import instruction_post_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The instructions on the longest chain in order, its length, and the total of all weights."""

    instructions: tuple[Instruction, ...]
    length: float
    whole: float


def critical_path(computation: Computation, weights: Mapping[Instruction, float]) -> CriticalPath:
    """Returns the chain of operands and control predecessors with the largest sum of weights; the first on ties.

    Instructions without a weight count 0 and are omitted from the path.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   a = f32[4] negate(p)
    ...   b = f32[4] sine(a)
    ...   c = f32[4] cosine(p)
    ...   ROOT d = f32[4] add(b, c) }'''
    >>> entry = parse_module(text).entry
    >>> path = critical_path(entry, {i: 1 for i in entry.instructions if i.opcode != "parameter"})
    >>> [i.name for i in path.instructions], path.length, path.whole
    (['a', 'b', 'd'], 3, 4)
    """
    instructions = computation.instructions
    longest: list[float] = [0] * len(instructions)
    before: list[int | None] = [None] * len(instructions)
    for at in instruction_post_order(computation):
        instruction = instructions[at]
        for predecessor in _predecessors(instruction, instructions):
            if longest[predecessor] > longest[at]:
                longest[at], before[at] = longest[predecessor], predecessor
        longest[at] += weights.get(instruction, 0)
    end = max(range(len(instructions)), key=longest.__getitem__, default=None)
    path: list[Instruction] = []
    length = longest[end] if end is not None else 0
    while end is not None and longest[end] > 0:
        if weights.get(instructions[end], 0) > 0:
            path.append(instructions[end])
        end = before[end]
    return CriticalPath(tuple(reversed(path)), length, sum(weights.get(each, 0) for each in instructions))


def _predecessors(instruction: Instruction, instructions: Sequence[Instruction]) -> list[int]:
    """Returns the indices of the operands and control predecessors of an instruction."""
    predecessor = [operand.index for operand in instruction.operands]
    if "control-predecessors" in instruction.raw[1]:
        names = set(instruction.control_predecessors)
        predecessor += [each.index for each in instructions if each.name in names]
    return predecessor
