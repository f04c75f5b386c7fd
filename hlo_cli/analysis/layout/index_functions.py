"""The address of an element as a sum of curves, one for each dimension.

Along one dimension the address is a curve that starts at 0: a straight line, or, where tiles cut the dimension,
a curve over the tiles plus a curve within one. Dimensions add up, so a whole map is a few short vectors added by
broadcasting. Only where a `*` folds several dimensions into one that tiles then cut do they bend together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.tiling import Combine, Extend, Permute, Split, Tiling

IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.integer[Any]]]"

_SHORT = 32
"""Rows shorter than this are added column by column: numpy's inner loop should be the long one."""

_LONG = 1 << 13
"""Rows this long make the overhead of each of numpy's inner loops vanish."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Neighbours lie `step` slots apart."""

    step: int


@dataclass(frozen=True, slots=True)
class Tiled:
    """Position x lies at `which(x // size) + where(x % size)`."""

    size: int
    which: Curve
    where: Curve


Curve: TypeAlias = "Linear | Tiled"
Inner: TypeAlias = "tuple[Curve | None, ...]"


@dataclass(frozen=True, slots=True)
class Combined:
    """Dimensions that bend together: `curve` taken at the sum of a straight or cut curve for each of them."""

    curve: Curve
    size: int
    inner: Inner


@dataclass(frozen=True, slots=True)
class Curves:
    """The address as a sum: one curve for each dimension of the array, and joints of several."""

    single: tuple[Curve, ...]
    joints: tuple[Combined, ...] = ()


def curves_of(tiling: Tiling) -> Curves | None:
    """The curves whose sum is the linear index; None where a `*` folds what another `*` has bent already.

    Read backwards: each physical dimension is a straight line, and undoing a step joins or renames the lines.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> curves_of(parse_shape("f32[3,5]{1,0:T(2,2)}").tiling).single[0]
    Tiled(size=2, which=Linear(step=12), where=Linear(step=2))
    """
    steps: list[int] = [1]
    for size in reversed(tiling.physical[1:]):
        steps.append(steps[-1] * max(size, 1))
    found = Curves(tuple(Linear(step) for step in reversed(steps[: len(tiling.physical)])))
    for step, bounds in zip(reversed(tiling.steps), tiling.bounds[-2::-1], strict=True):
        before = _before(step, bounds, found)
        if before is None:
            return None
        found = before
    return found


def _before(step: Permute | Extend | Combine | Split, bounds: tuple[int, ...], after: Curves) -> Curves | None:
    """The curves over the dimensions before a step, given those over the dimensions after it."""
    match step:
        case Permute(order=order):
            back = tuple(order.index(d) for d in range(len(order)))
            return _renamed(after, lambda curves: tuple(curves[d] for d in back))
        case Extend(count=count):
            return _renamed(after, lambda curves: curves[count:])
        case Split(sizes=sizes):
            return _renamed(after, lambda curves: _uncut(curves, sizes, len(bounds)))
        case Combine(position=at):
            return _unfolded(after, at, bounds)


def _renamed(after: Curves, rename: Callable[[Inner], Inner]) -> Curves:
    joints = ((joint, rename(joint.inner)) for joint in after.joints)
    single = tuple(curve or Linear(0) for curve in rename(after.single))
    return Curves(single, tuple(Combined(joint.curve, joint.size, inner) for joint, inner in joints if any(inner)))


def _uncut(curves: Inner, sizes: tuple[int, ...], rank: int) -> Inner:
    kept = rank - len(sizes)
    pairs = zip(sizes, curves[kept:rank], curves[rank:], strict=True)
    return (*curves[:kept], *(_cut(size, which, where) for size, which, where in pairs))


def _unfolded(after: Curves, at: int, bounds: tuple[int, ...]) -> Curves | None:
    minor = bounds[at + 1]
    joints = []
    for joint in after.joints:
        if isinstance(joint.inner[at], Tiled):
            return None
        joints.append(Combined(joint.curve, joint.size, _in_two(joint.inner, at, minor)))
    folded = after.single[at]
    if isinstance(folded, Linear):
        here = (folded.step * minor, folded.step)
    else:
        here = (0, 0)
        alone: Inner = (*(None,) * at, Linear(1), *(None,) * (len(bounds) - at - 2))
        joints.append(Combined(folded, bounds[at] * minor, _in_two(alone, at, minor)))
    single = (*after.single[:at], *map(Linear, here), *after.single[at + 1 :])
    return Curves(single, tuple(joints))


def _in_two(inner: Inner, at: int, minor: int) -> Inner:
    straight = inner[at]
    pair = (Linear(straight.step * minor), straight) if isinstance(straight, Linear) else (None, None)
    return (*inner[:at], *pair, *inner[at + 1 :])


def _cut(size: int, which: Curve | None, where: Curve | None) -> Curve | None:
    if which is None and where is None:
        return None
    which, where = which or Linear(0), where or Linear(0)
    if size == 1:
        return which
    if isinstance(which, Linear) and isinstance(where, Linear) and which.step == where.step * size:
        return where
    return Tiled(size, which, where)


def values(curve: Curve, start: int, stop: int, dtype: np.dtype[Any], out: IntArray | None = None) -> IntArray:
    """The curve at the positions from `start` up to `stop`: one addition for each, no division; into `out` if given.

    >>> values(Tiled(2, Linear(12), Linear(2)), 0, 5, np.dtype(np.int64)).tolist()
    [0, 2, 12, 14, 24]
    """
    if out is None:
        out = np.empty(max(stop - start, 0), dtype)
    match curve:
        case _ if stop <= start:
            pass
        case Linear(step=step):
            out[:] = np.arange(start * step, stop * step, step, dtype=dtype) if step else 0
        case Tiled(size=size, which=Linear(step=step)) if size < _LONG and stop - start > 2 * _LONG:
            times = -(-_LONG // size)  # straight over tiles: as well over several at a time
            values(Tiled(size * times, Linear(step * times), curve), start, stop, dtype, out)
        case Tiled(size=size, which=which, where=where):
            head = min(-(-start // size) * size, stop)  # up to the first whole tile, and below from the last one
            tail = max(stop // size * size, head)
            for begin, end in ((start, head), (tail, stop)):
                if begin < end:
                    tile = begin // size
                    part = out[begin - start : end - start]
                    values(where, begin - tile * size, end - tile * size, dtype, part)
                    part += values(which, tile, tile + 1, dtype)
            if head < tail:
                tiles = values(which, head // size, tail // size, dtype)
                broadcast_add(tiles, values(where, 0, size, dtype), out[head - start : tail - start])
    return out


def broadcast_add(major: IntArray, minor: IntArray, out: IntArray | None = None) -> IntArray:
    """Every sum of one element of `major` and one of `minor`, as one row; into `out` if it is given.

    >>> broadcast_add(np.array([0, 10]), np.array([1, 2, 3])).tolist()
    [1, 2, 3, 11, 12, 13]
    """
    if out is None:
        out = np.empty(len(major) * len(minor), major.dtype)
    table = out.reshape(len(major), len(minor))
    if len(minor) >= _SHORT or len(major) <= len(minor):
        np.add(major[:, None], minor[None, :], out=table)
    else:
        for column, value in enumerate(minor):
            np.add(major, value, out=table[:, column])
    return out


def sums(vectors: Sequence[IntArray], dtype: np.dtype[Any], out: IntArray | None = None) -> IntArray:
    """Every sum of one element of each vector, the last varying fastest; into `out` if there are several vectors.

    >>> sums([np.array([0, 4]), np.array([0, 2]), np.array([0, 1])], np.dtype(np.int64)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    if len(vectors) < 2:
        return vectors[0] if vectors else np.zeros(1, dtype)
    at, room = len(vectors) - 1, len(vectors[-1])
    while at > 1 and room < 1024:
        at -= 1
        room *= len(vectors[at])
    return broadcast_add(sums(vectors[:at], dtype), sums(vectors[at:], dtype), out)
