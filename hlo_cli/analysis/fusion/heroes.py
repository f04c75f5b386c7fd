"""The heroes of a fusion: the operations that decide how its kernel is built.

Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, and `RenameFusions` of
xla/backends/gpu/transforms/rename_fusions.cc, which names fusions after their heroes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.analysis.fusion.tiled_transpose import is_tiled_transpose
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES, ELEMENTWISE, OWN_KERNELS

_ELEMENTWISE: Final = ELEMENTWISE | {opcodes.BITCAST}
_LEADING: Final = COLLECTIVES | OWN_KERNELS | {opcodes.CUSTOM_CALL}
"""What is never a side matter of a kernel, whatever its results go through before they are written."""


def heroes_of(body: Computation) -> tuple[Instruction, ...]:
    """The heroes of a fused computation: one for each result, in their order, each once.

    - A body that multiplies matrices has one: its largest dot or convolution.
    - Else sorts, collectives, library calls and the like in it are its heroes.
    - Else each result has one: the reduction that it is made of by operations on one operand that keep elements where
      they are; the only concatenation, or transpose worth tiles, that element-wise operations make it of; or itself.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ... ENTRY f { p = f32[8,9] parameter(0)  z = f32[] constant(0)
    ...   r = f32[8] reduce(p, z), dimensions={1}, to_apply=s  ROOT n = f32[8] negate(r) }'''
    >>> heroes_of(parse_module(text).entry)
    (<reduce r>,)
    """
    inner = list(all_fused(body))
    if products := [product for each in inner if (product := matmul_of(each)) is not None]:
        return (max(products, key=lambda product: product.flops).instruction,)
    if leading := [each for each in inner if each.opcode in _LEADING]:
        return tuple(leading)
    heroes = _Heroes()
    return tuple(dict.fromkeys(heroes.of(root) for root in roots_of(body)))


def roots_of(body: Computation) -> tuple[Instruction, ...]:
    """What makes the results of a fused computation: its root, or the operands of a root that is a tuple."""
    root = body.root
    if root is None:
        return ()
    return root.operands if root.opcode == opcodes.TUPLE else (root,)


def all_fused(body: Computation) -> Iterator[Instruction]:
    """The instructions of a fused computation, those of fusions inside it in their places."""
    waiting = [iter(body.instructions)]
    seen = {body}
    while waiting:
        instruction = next(waiting[-1], None)
        if instruction is None:
            waiting.pop()
            continue
        called = instruction.called_computations
        if instruction.opcode == opcodes.FUSION and called and called[0] not in seen:
            seen.add(called[0])
            waiting.append(iter(called[0].instructions))
        else:
            yield instruction


class _Heroes:
    """The heroes of results; what is behind an instruction is found once for all of its computation."""

    def __init__(self) -> None:
        """Nothing is looked for before it is asked for."""
        self._behind: dict[Computation, dict[Instruction, _Behind]] = {}

    def of(self, root: Instruction) -> Instruction:
        """The hero of one result."""
        made = _before_copies(root)
        if made.computation not in self._behind:
            self._behind[made.computation] = _behind(made.computation)
        behind = self._behind[made.computation].get(made, _NOTHING)
        if behind.reduction is not None:
            return behind.reduction
        return behind.moving[0] if len(behind.moving) == 1 else made


class _Behind(NamedTuple):
    """The reduction that a value is made of in place, and up to two moves that it is made of element by element."""

    reduction: Instruction | None
    moving: tuple[Instruction, ...]


_NOTHING: Final = _Behind(None, ())


def _behind(body: Computation) -> dict[Instruction, _Behind]:
    """What is behind each instruction; operands stand before their users."""
    found: dict[Instruction, _Behind] = {}
    for each in body.instructions:
        if each.opcode == opcodes.REDUCE:
            found[each] = _Behind(each, ())
        elif each.opcode == "concatenate" or (each.opcode == opcodes.TRANSPOSE and is_tiled_transpose(each)):
            found[each] = _Behind(None, (each,))
        elif each.opcode in _ELEMENTWISE:
            before = [found.get(operand, _NOTHING) for operand in each.operands]
            moving = dict.fromkeys(move for one in before for move in one.moving)
            found[each] = _Behind(before[0].reduction if len(before) == 1 else None, tuple(moving)[:2])
    return found


def _before_copies(root: Instruction) -> Instruction:
    """What a result is before it is copied as it is into a buffer of its own, which compilers do late.

    Where a fusion inside makes it, that is what makes it there.
    """
    made, seen = root, {root}
    while (before := _handed_on(made)) is not None and before not in seen:
        made = before
        seen.add(made)
    return made


def _handed_on(made: Instruction) -> Instruction | None:
    """What an instruction hands on unchanged, None where it makes something, or the text leaves out its operands."""
    if made.opcode == opcodes.FUSION and made.called_computations:
        inner = made.called_computations[0].root
        return inner if inner is not None and inner.opcode not in (opcodes.PARAMETER, opcodes.TUPLE) else None
    if not made.operands:
        return None
    if made.opcode == opcodes.GET_TUPLE_ELEMENT and made.operands[0].opcode == opcodes.FUSION:
        results = tuple(root for body in made.operands[0].called_computations[:1] for root in roots_of(body))
        number = made.integer("index") or 0
        return results[number] if number < len(results) and results[number].opcode != opcodes.PARAMETER else None
    is_same = made.opcode == opcodes.BITCAST or (made.opcode == opcodes.COPY and made.shape == made.operand_shape(0))
    return made.operands[0] if is_same and made.operands[0].opcode != opcodes.PARAMETER else None
