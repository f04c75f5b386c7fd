"""The heroes of a fusion: the operations that decide how its kernel is built.

Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, and `RenameFusions` of
xla/backends/gpu/transforms/rename_fusions.cc, which names fusions after their heroes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.costs.elementwise import FLOP_OPCODES, TRANSCENDENTAL_OPCODES
from hlo_cli.analysis.matmul import matmul_of
from hlo_cli.analysis.neighbours import reached
from hlo_cli.analysis.tiled_transpose import is_tiled_transpose
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

_ELEMENTWISE: Final = frozenset((*FLOP_OPCODES, *TRANSCENDENTAL_OPCODES, "bitcast", "copy"))
_LEADING: Final = frozenset(
    """all-gather all-reduce all-to-all cholesky collective-broadcast collective-permute custom-call fft
    ragged-all-to-all reduce-scatter sort triangular-solve""".split()
)
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
    return tuple(dict.fromkeys(_hero(root) for root in roots_of(body)))


def roots_of(body: Computation) -> tuple[Instruction, ...]:
    """What makes the results of a fused computation: its root, or the operands of a root that is a tuple."""
    root = body.root
    if root is None:
        return ()
    return root.operands if root.opcode == "tuple" else (root,)


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
        if instruction.opcode == "fusion" and called and called[0] not in seen:
            seen.add(called[0])
            waiting.append(iter(called[0].instructions))
        else:
            yield instruction


def _hero(root: Instruction) -> Instruction:
    root = found = _before_copies(root)
    while found.opcode != "reduce" and _keeps_places(found) and len(found.operands) == 1:
        found = found.operands[0]
    if found.opcode == "reduce":
        return found
    moving = [each for each in reached([root], _behind) if _moves(each)]
    return moving[0] if len(moving) == 1 else root


def _before_copies(root: Instruction) -> Instruction:
    """What a result is before it is copied as it is into a buffer of its own, which compilers do late."""
    made = root
    while made.opcode in ("copy", "bitcast") and made.operands and made.operands[0].opcode != "parameter":
        if made.opcode == "copy" and made.shape != made.operand_shape(0):
            break
        made = made.operands[0]
    return made


def _behind(instruction: Instruction) -> tuple[Instruction, ...]:
    return instruction.operands if _keeps_places(instruction) else ()


def _keeps_places(instruction: Instruction) -> bool:
    return instruction.opcode in _ELEMENTWISE


def _moves(instruction: Instruction) -> bool:
    return instruction.opcode == "concatenate" or (
        instruction.opcode == "transpose" and is_tiled_transpose(instruction)
    )
