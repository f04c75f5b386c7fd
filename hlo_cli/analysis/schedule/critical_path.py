"""The critical path of a computation: the longest chain of instructions that must wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.dataflow.post_order import instruction_post_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The instructions of the longest chain in the order in which they run, and how long chain and whole are."""

    instructions: tuple[Instruction, ...]
    length: float
    whole: float


def critical_path(computation: Computation, weights: Mapping[Instruction, float]) -> CriticalPath:
    """The chain of operands and control predecessors with the largest sum of weights; the first one of several.

    Instructions without a weight weigh nothing, and are left out.

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
        for needed in _needed(instruction, instructions):
            if longest[needed] > longest[at]:
                longest[at], before[at] = longest[needed], needed
        longest[at] += weights.get(instruction, 0)
    end = max(range(len(instructions)), key=longest.__getitem__, default=None)
    path: list[Instruction] = []
    length = longest[end] if end is not None else 0
    while end is not None and longest[end] > 0:
        if weights.get(instructions[end], 0) > 0:
            path.append(instructions[end])
        end = before[end]
    return CriticalPath(tuple(reversed(path)), length, sum(weights.get(each, 0) for each in instructions))


def _needed(instruction: Instruction, instructions: Sequence[Instruction]) -> list[int]:
    """What must have run before an instruction, by place in the computation."""
    needed = [operand.index for operand in instruction.operands]
    if "control-predecessors" in instruction.raw[1]:
        names = set(instruction.control_predecessors)
        needed += [each.index for each in instructions if each.name in names]
    return needed
