"""Bytes that an async operation transfers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import Shape, TupleShape, subshape

UPDATE_AT: Final = {opcodes.DYNAMIC_UPDATE_SLICE: 1, opcodes.SCATTER: -1}
"""Operations that write part of an operand: the operand number of that part."""
_INTO_OPERAND: Final = "ragged-all-to-all"
"""The collective that takes its output array as an operand."""


def moved_bytes(pair: AsyncPair, size: Callable[[Shape], int]) -> int:
    """Returns the bytes that a pair transfers; `size` returns the bytes of an array or token.

    For a collective, the larger of operands and result; for an update, the part that is written; for an outfeed, the
    operand; for others, the result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> moved_bytes(pair, lambda shape: shape.padded_bytes)
    64
    """
    given, result = endpoints_of(pair)
    if pair.operation in UPDATE_AT and given:
        return _bytes(given[min(UPDATE_AT[pair.operation], len(given) - 1)], size)
    if pair.operation == opcodes.OUTFEED and given:
        return _bytes(given[0], size)
    out = 0 if result is None else _bytes(result, size)
    if pair.operation in COLLECTIVES and pair.operation != _INTO_OPERAND:
        return max(out, sum(_bytes(shape, size) for shape in given))
    return out


def endpoints_of(pair: AsyncPair) -> tuple[tuple[Shape, ...], Shape | None]:
    """Returns the shapes of the operands and of the result; the result is None if it is not in the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> module = parse_module("s = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(f32[4]{0} p)")
    >>> given, result = endpoints_of(async_pairs(module).pairs[0])
    >>> str(given[0]), str(result)
    ('f32[4]{0}', 'f32[4]{0:S(1)}')
    """
    start = pair.start
    if pair.wrapped is not None:
        wrapped = pair.wrapped
        return tuple(wrapped.operand_shape(position) for position in range(len(wrapped.operands))), wrapped.shape
    operands = tuple(start.operand_shape(position) for position in range(len(start.operands)))
    if pair.form == "sugared":
        last = (start, *pair.updates)[-1]
        output = subshape(last.shape, (1,))
        late = output == TupleShape(()) and pair.dones
        return _elements(subshape(last.shape, (0,))) or operands, pair.dones[0].shape if late else output
    match pair.operation:
        case opcodes.ALL_REDUCE:
            return operands, start.shape
        case opcodes.COPY | opcodes.RECV | opcodes.SEND:
            return operands, subshape(start.shape, (0,))
    return operands, subshape(start.shape, (1,))


def _elements(shape: Shape | None) -> tuple[Shape, ...]:
    """Returns the elements of a tuple shape; empty for other shapes."""
    return shape.elements if isinstance(shape, TupleShape) else ()


def _bytes(shape: Shape, size: Callable[[Shape], int]) -> int:
    """Returns the total bytes of the leaves of a shape."""
    return sum(size(leaf) for leaf in _leaves(shape))


def _leaves(shape: Shape) -> Iterable[Shape]:
    """Returns the leaves of a shape."""
    return (leaf for _, leaf in shape.leaves)
