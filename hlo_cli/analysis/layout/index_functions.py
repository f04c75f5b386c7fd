"""Linear index of an element as a sum of functions, one for each dimension.

Along one dimension the linear index is a function with value 0 at 0: linear, or, if the dimension is tiled, a function
of the tile plus a function of the position in the tile. So a whole map is a sum of a few short vectors by broadcasting.
Only dimensions that a `*` combines before they are tiled have a common function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Combine, Extend, Permute, Split, Tiling

IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.integer[Any]]]"

_SHORT_ROW = 32
"""Rows shorter than this are added column by column, so that numpy's inner loop is the long one."""

_LONG_ROW = 1 << 13
"""Row length at which the overhead of numpy's inner loops is negligible."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Function with adjacent elements `stride` positions apart."""

    stride: int


@dataclass(frozen=True, slots=True)
class Tiled:
    """Function of a tiled dimension: `over_tiles(x // size) + within_tile(x % size)`."""

    size: int
    over_tiles: IndexFunction
    within_tile: IndexFunction


IndexFunction: TypeAlias = "Linear | Tiled"
Inner: TypeAlias = "tuple[IndexFunction | None, ...]"


@dataclass(frozen=True, slots=True)
class Combined:
    """Function of combined dimensions: `function` of the sum of one inner function per dimension."""

    function: IndexFunction
    size: int
    inner: Inner


@dataclass(frozen=True, slots=True)
class IndexFunctions:
    """Linear index as a sum: one function for each dimension, and one for each group of combined dimensions."""

    single: tuple[IndexFunction, ...]
    combined: tuple[Combined, ...] = ()


def index_functions_of(tiling: Tiling) -> IndexFunctions | None:
    """Functions whose sum is the linear index; None if a `*` combines dimensions that another `*` combined before.

    Computed backwards: each physical dimension is linear, and undoing a step of the tiling merges or reorders
    functions.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> index_functions_of(parse_shape("f32[3,5]{1,0:T(2,2)}").tiling).single[0]
    Tiled(size=2, over_tiles=Linear(stride=12), within_tile=Linear(stride=2))
    """
    steps: list[int] = [1]
    for size in reversed(tiling.physical[1:]):
        steps.append(steps[-1] * max(size, 1))
    found = IndexFunctions(tuple(Linear(step) for step in reversed(steps[: len(tiling.physical)])))
    for step, bounds in zip(reversed(tiling.steps), tiling.bounds[-2::-1], strict=True):
        before = _undo_step(step, bounds, found)
        if before is None:
            return None
        found = before
    return found


def _undo_step(
    step: Permute | Extend | Combine | Split, bounds: tuple[int, ...], after: IndexFunctions
) -> IndexFunctions | None:
    """Functions of the dimensions before a step, from those after it."""
    match step:
        case Permute(order=order):
            back = tuple(order.index(d) for d in range(len(order)))
            return _rearranged(after, lambda functions: tuple(functions[d] for d in back))
        case Extend(count=count):
            return _rearranged(after, lambda functions: functions[count:])
        case Split(sizes=sizes):
            return _rearranged(after, lambda functions: _unsplit(functions, sizes, len(bounds)))
        case Combine(position=at):
            return _uncombined(after, at, bounds)


def _rearranged(after: IndexFunctions, rearrange: Callable[[Inner], Inner]) -> IndexFunctions:
    combined = ((group, rearrange(group.inner)) for group in after.combined)
    single = tuple(function or Linear(0) for function in rearrange(after.single))
    return IndexFunctions(
        single, tuple(Combined(group.function, group.size, inner) for group, inner in combined if any(inner))
    )


def _unsplit(functions: Inner, sizes: tuple[int, ...], rank: int) -> Inner:
    kept = rank - len(sizes)
    pairs = zip(sizes, functions[kept:rank], functions[rank:], strict=True)
    return (*functions[:kept], *(_tiled(size, over_tiles, within_tile) for size, over_tiles, within_tile in pairs))


def _uncombined(after: IndexFunctions, at: int, bounds: tuple[int, ...]) -> IndexFunctions | None:
    minor = bounds[at + 1]
    combined = []
    for group in after.combined:
        if isinstance(group.inner[at], Tiled):
            return None
        combined.append(Combined(group.function, group.size, _split_dimension(group.inner, at, minor)))
    combined_function = after.single[at]
    if isinstance(combined_function, Linear):
        here = (combined_function.stride * minor, combined_function.stride)
    else:
        here = (0, 0)
        alone: Inner = (*(None,) * at, Linear(1), *(None,) * (len(bounds) - at - 2))
        combined.append(Combined(combined_function, bounds[at] * minor, _split_dimension(alone, at, minor)))
    single = (*after.single[:at], *map(Linear, here), *after.single[at + 1 :])
    return IndexFunctions(single, tuple(combined))


def _split_dimension(inner: Inner, at: int, minor: int) -> Inner:
    straight = inner[at]
    pair = (Linear(straight.stride * minor), straight) if isinstance(straight, Linear) else (None, None)
    return (*inner[:at], *pair, *inner[at + 1 :])


def _tiled(size: int, over_tiles: IndexFunction | None, within_tile: IndexFunction | None) -> IndexFunction | None:
    if over_tiles is None and within_tile is None:
        return None
    over_tiles, within_tile = over_tiles or Linear(0), within_tile or Linear(0)
    if size == 1:
        return over_tiles
    if (
        isinstance(over_tiles, Linear)
        and isinstance(within_tile, Linear)
        and over_tiles.stride == within_tile.stride * size
    ):
        return within_tile
    return Tiled(size, over_tiles, within_tile)


def values(
    function: IndexFunction, start: int, stop: int, dtype: np.dtype[Any], out: IntArray | None = None
) -> IntArray:
    """Values of a function at positions `start` to `stop`, by additions only; written to `out` if given.

    >>> values(Tiled(2, Linear(12), Linear(2)), 0, 5, np.dtype(np.int64)).tolist()
    [0, 2, 12, 14, 24]
    """
    if out is None:
        out = np.empty(max(stop - start, 0), dtype)
    match function:
        case _ if stop <= start:
            pass
        case Linear(stride=stride):
            out[:] = np.arange(start * stride, stop * stride, stride, dtype=dtype) if stride else 0
        case Tiled(size=size, over_tiles=Linear(stride=stride)) if size < _LONG_ROW and stop - start > 2 * _LONG_ROW:
            times = -(-_LONG_ROW // size)  # straight over tiles: as well over several at a time
            values(Tiled(size * times, Linear(stride * times), function), start, stop, dtype, out)
        case Tiled(size=size, over_tiles=over_tiles, within_tile=within_tile):
            head = min(-(-start // size) * size, stop)  # up to the first whole tile, and below from the last one
            tail = max(stop // size * size, head)
            for begin, end in ((start, head), (tail, stop)):
                if begin < end:
                    tile = begin // size
                    part = out[begin - start : end - start]
                    values(within_tile, begin - tile * size, end - tile * size, dtype, part)
                    part += values(over_tiles, tile, tile + 1, dtype)
            if head < tail:
                tiles = values(over_tiles, head // size, tail // size, dtype)
                broadcast_add(tiles, values(within_tile, 0, size, dtype), out[head - start : tail - start])
    return out


def broadcast_add(major: IntArray, minor: IntArray, out: IntArray | None = None) -> IntArray:
    """All sums of one element of `major` and one of `minor`, as one row; written to `out` if given.

    >>> broadcast_add(np.array([0, 10]), np.array([1, 2, 3])).tolist()
    [1, 2, 3, 11, 12, 13]
    """
    if out is None:
        out = np.empty(len(major) * len(minor), major.dtype)
    table = out.reshape(len(major), len(minor))
    if len(minor) >= _SHORT_ROW or len(major) <= len(minor):
        np.add(major[:, None], minor[None, :], out=table)
    else:
        for column, value in enumerate(minor):
            np.add(major, value, out=table[:, column])
    return out


def all_sums(vectors: Sequence[IntArray], dtype: np.dtype[Any], out: IntArray | None = None) -> IntArray:
    """All sums of one element of each vector, the last varying fastest.

    Written to `out` if given and there are several vectors.

    >>> all_sums([np.array([0, 4]), np.array([0, 2]), np.array([0, 1])], np.dtype(np.int64)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    if len(vectors) < 2:
        return vectors[0] if vectors else np.zeros(1, dtype)
    at, room = len(vectors) - 1, len(vectors[-1])
    while at > 1 and room < 1024:
        at -= 1
        room *= len(vectors[at])
    return broadcast_add(all_sums(vectors[:at], dtype), all_sums(vectors[at:], dtype), out)
