"""How many bytes an asynchronous operation moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import Shape, TupleShape, subshape

UPDATE_AT: Final = {opcodes.DYNAMIC_UPDATE_SLICE: 1, opcodes.SCATTER: -1}
"""Operations that write a part of what they are given: which operand is that part."""
_INTO_OPERAND: Final = "ragged-all-to-all"
"""The collective that is given the array it writes into."""


def moved_bytes(pair: AsyncPair, size: Callable[[Shape], int]) -> int:
    """The bytes that a pair moves, measured by the size of an array or token.

    Of a collective, the larger of what it is given and what comes out; of an update, the part that is written; of an
    outfeed, what it is given; of all others the result: a copy's, a slice's, what was received or sent.

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
    """The shapes of what goes in and of what comes out, None where the text does not have it.

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
    if pair.spelling == "sugared":
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
    return shape.elements if isinstance(shape, TupleShape) else ()


def _bytes(shape: Shape, size: Callable[[Shape], int]) -> int:
    return sum(size(leaf) for leaf in _leaves(shape))


def _leaves(shape: Shape) -> Iterable[Shape]:
    return (leaf for _, leaf in shape.leaves)
