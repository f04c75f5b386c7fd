"""Heroes of a fusion: the operations that determine how its kernel is emitted.

Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, and `RenameFusions` of
xla/backends/gpu/transforms/rename_fusions.cc, which names fusions after their heroes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.analysis.fusion.tiled_transpose import is_tiled_transpose
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import COLLECTIVES, ELEMENTWISE, OWN_KERNELS

_ELEMENTWISE: Final = ELEMENTWISE | {opcodes.BITCAST}
_ALWAYS_HEROES: Final = COLLECTIVES | OWN_KERNELS | {opcodes.CUSTOM_CALL}
"""Opcodes that determine the kernel wherever they are in the fusion."""


def heroes_of(body: Computation) -> tuple[Instruction, ...]:
    """Heroes of a fused computation, without repetition, in the order of its results.

    - A body with a dot or convolution has one hero: the matmul with most flops.
    - Otherwise sorts, collectives, library calls, and similar operations of the body are its heroes.
    - Otherwise each result has one hero: the reduction from which unary elementwise operations compute it; else the
      only concatenate or tiled transpose from which elementwise operations compute it; else the result itself.

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
    if leading := [each for each in inner if each.opcode in _ALWAYS_HEROES]:
        return tuple(leading)
    heroes = _Heroes()
    return tuple(dict.fromkeys(heroes.of(root) for root in roots_of(body)))


def roots_of(body: Computation) -> tuple[Instruction, ...]:
    """Instructions that compute the results of a fused computation: the root, or the operands of a root tuple."""
    root = body.root
    if root is None:
        return ()
    return root.operands if root.opcode == opcodes.TUPLE else (root,)


def all_fused(body: Computation) -> Iterator[Instruction]:
    """Instructions of a fused computation; nested fusions are replaced by their instructions."""
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
    """Finds heroes of results; caches the sources of all instructions per computation."""

    def __init__(self) -> None:
        """Starts with an empty cache."""
        self._sources: dict[Computation, dict[Instruction, _Sources]] = {}

    def of(self, root: Instruction) -> Instruction:
        """Hero of one result."""
        made = _without_copies(root)
        if made.computation not in self._sources:
            self._sources[made.computation] = _sources(made.computation)
        sources = self._sources[made.computation].get(made, _NO_SOURCES)
        if sources.reduction is not None:
            return sources.reduction
        return sources.movers[0] if len(sources.movers) == 1 else made


class _Sources(NamedTuple):
    """Reduction from which unary elementwise operations compute a value, and up to two data movements it is computed
    from.
    """

    reduction: Instruction | None
    movers: tuple[Instruction, ...]


_NO_SOURCES: Final = _Sources(None, ())


def _sources(body: Computation) -> dict[Instruction, _Sources]:
    """Sources of each instruction of a body; operands precede their users."""
    found: dict[Instruction, _Sources] = {}
    for each in body.instructions:
        if each.opcode == opcodes.REDUCE:
            found[each] = _Sources(each, ())
        elif each.opcode == "concatenate" or (each.opcode == opcodes.TRANSPOSE and is_tiled_transpose(each)):
            found[each] = _Sources(None, (each,))
        elif each.opcode in _ELEMENTWISE:
            before = [found.get(operand, _NO_SOURCES) for operand in each.operands]
            movers = dict.fromkeys(move for one in before for move in one.movers)
            found[each] = _Sources(before[0].reduction if len(before) == 1 else None, tuple(movers)[:2])
    return found


def _without_copies(root: Instruction) -> Instruction:
    """Instruction that computes a result before copies and bitcasts, also inside a nested fusion."""
    made, seen = root, {root}
    while (before := _forwarded(made)) is not None and before not in seen:
        made = before
        seen.add(made)
    return made


def _forwarded(made: Instruction) -> Instruction | None:
    """Operand or nested root that an instruction forwards unchanged; None if it computes a value."""
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
