"""The rule of what an asynchronous operation overwrites: two parts of one shape.

Mirrors the checks of output_to_operand_aliasing on async-start and async-update of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import Asynchronous
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, is_end
from hlo_cli.analysis.schedule.async_shapes import parts_of
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNCHRONOUS, taking
from hlo_cli.ir.shape import Shape, TupleShape, subshape

ALIASING_THEMSELVES: Final = taking("output_to_operand_aliasing") - ASYNCHRONOUS
"""Sugared operations that may overwrite operands themselves: the index is one in their result."""


def wrong_aliasing(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """What overwrites an operand has its shape: of a start, a parameter's; of an update, a context's."""
    for member in (pair.start, *pair.updates) if pair.spelling in ("generic", "sugared") else ():
        for alias in member.items_of("output_to_operand_aliasing", OutputOperandAlias):
            given, output = aliased_parts(pair, member, alias)
            if given is None or output is None or not compatible(given, output):
                words = f"it cannot alias {alias}: there are no two such parts of one shape"
                yield Problem(member, f"{member.name}: {words}")


def aliased_parts(pair: AsyncPair, member: Instruction, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """What a start or an update says shares a buffer: a part of an operand and one of its shape, as far as they exist.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> text = '''HloModule m
    ... f { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[4], u32[]) async-start(p), calls=f
    ...   ROOT d = f32[4] async-done(s) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> [str(part) for part in aliased_parts(pair, pair.start, OutputOperandAlias((1,), 0, ()))]
    ['f32[4]{0}', 'f32[4]{0}']
    """
    return _of_update(member, alias) if is_end(member) else _of_start(pair, alias)


def _of_update(update: Instruction, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """What an update says is aliased: contexts, of the operation before it and of its own."""
    if alias.operand_number != 0 or not alias.output_index[:1] == alias.operand_index[:1] == (2,):
        return None, None
    return subshape(update.operand_shape(0), alias.operand_index), subshape(update.shape, alias.output_index)


def _of_start(pair: AsyncPair, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """What a start says is aliased, as if all were bound: a parameter, and a part of operands, output or contexts."""
    whole = _whole(pair)
    if whole is None or not 0 <= alias.operand_number < len(whole[0].elements):
        return None, None
    given = subshape(whole[0].elements[alias.operand_number], alias.operand_index)
    index = alias.output_index
    if pair.spelling == "sugared" and pair.operation in ALIASING_THEMSELVES:
        return given, subshape(whole[1], index)
    if not index:
        return None, None
    part = whole[index[0]] if index[0] < 2 else subshape(pair.start.shape, index[:1])
    return given, subshape(part, index[1:]) if part is not None else None


def _whole(pair: AsyncPair) -> tuple[TupleShape, Shape] | None:
    """The operands and the output when all is bound: as the computation has them, or the last that binds some."""
    computation = pair.computation
    if pair.spelling == "generic" and computation is not None and computation.root is not None:
        return TupleShape(tuple(parameter.shape for parameter in computation.parameters)), computation.root.shape
    parts = parts_of(pair.updates[-1] if pair.updates else pair.start)
    if parts is None or parts[1] != TupleShape(()) or not pair.dones:
        return parts
    return parts[0], pair.dones[0].shape
