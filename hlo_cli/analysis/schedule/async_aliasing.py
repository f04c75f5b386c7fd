"""Verifier rule for output_to_operand_aliasing of async operations: both parts exist and have the same shape.

Mirrors the checks of async-start and async-update in xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import AsyncContext
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, is_end
from hlo_cli.analysis.schedule.async_shapes import parts_of
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNCHRONOUS, taking
from hlo_cli.ir.shape import Shape, TupleShape, compatible, subshape

ALIASING_THEMSELVES: Final = taking("output_to_operand_aliasing") - ASYNCHRONOUS
"""Sugared operations that may overwrite operands themselves: the index is one in their result."""


def check_aliasing(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports alias pairs of unequal or missing parts: parameters of a start, contexts of an update."""
    for member in (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ():
        for alias in member.items_of("output_to_operand_aliasing", OutputOperandAlias):
            operand_part, output = aliased_parts(pair, member, alias)
            if operand_part is None or output is None or not compatible(operand_part, output):
                words = f"invalid alias {alias}, expected operand and output parts of the same shape"
                yield Problem(member, f"{member.name}: {words}")


def aliased_parts(pair: AsyncPair, member: Instruction, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """Returns the operand's part and the output's part of an alias pair, each None if it does not exist.

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
    """Returns the contexts that an update aliases: those of its operand and its own."""
    if alias.operand_number != 0 or not alias.output_index[:1] == alias.operand_index[:1] == (2,):
        return None, None
    return subshape(update.operand_shape(0), alias.operand_index), subshape(update.shape, alias.output_index)


def _of_start(pair: AsyncPair, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """Returns a parameter and the part of operands, output, or contexts that a start aliases with it.

    All operands count as bound, because XLA checks the pair against the wrapped computation.
    """
    bound_shapes = _fully_bound_shapes(pair)
    if bound_shapes is None or not 0 <= alias.operand_number < len(bound_shapes[0].elements):
        return None, None
    operand_part = subshape(bound_shapes[0].elements[alias.operand_number], alias.operand_index)
    index = alias.output_index
    if pair.form == "sugared" and pair.operation in ALIASING_THEMSELVES:
        return operand_part, subshape(bound_shapes[1], index)
    if not index:
        return None, None
    part = bound_shapes[index[0]] if index[0] < 2 else subshape(pair.start.shape, index[:1])
    return operand_part, subshape(part, index[1:]) if part is not None else None


def _fully_bound_shapes(pair: AsyncPair) -> tuple[TupleShape, Shape] | None:
    """Returns the bound operands and the output of the complete chain; from its computation if known."""
    computation = pair.computation
    # hlo_verifier.cc checks the pairs of a start against its computation, even if the start binds no operand yet.
    if pair.form == "generic" and computation is not None and computation.root is not None:
        return TupleShape(tuple(parameter.shape for parameter in computation.parameters)), computation.root.shape
    parts = parts_of(pair.updates[-1] if pair.updates else pair.start)
    if parts is None or parts[1] != TupleShape(()) or not pair.dones:
        return parts
    return parts[0], pair.dones[0].shape
