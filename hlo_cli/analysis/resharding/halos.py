"""The edges that devices exchange where an uneven dimension is cut anew.

Mirrors `ExchangeHalo` and `ExchangeHaloCompact` of xla/service/spmd/spmd_partitioner_util.cc. A halo function gives,
for each part, how many elements it needs from before its own (left) or after (right); negative if it has too many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

HaloSize = Callable[[int], int]


class Halo(NamedTuple):
    """One collective-permute: the elements along the dimension, and the parts that send, in one row of devices."""

    size: int
    pairs: int


class _Piece(NamedTuple):
    """A range of a part that another one needs; `owner` is None for padding."""

    user: int
    start: int
    limit: int
    owner: int | None
    offset: int


def exchanged_halos(size: int, count: int, left: HaloSize, right: HaloSize) -> tuple[Halo, ...] | None:
    """The exchanges between neighbors, `size` elements in each of `count` parts; None if halos reach too far.

    >>> exchanged_halos(22, 2, lambda part: part, lambda part: -part - 1)
    (Halo(size=1, pairs=1),)
    """
    most_left = max(map(left, range(1, count)), default=0)
    most_right = max(map(right, range(count - 1)), default=0)
    if most_left + most_right + size >= size * count and max(most_left, most_right) > size:
        return None
    first = -max(map(left, range(count)))
    last = size + max(map(right, range(count)))
    if first >= last:
        return None
    found = list[Halo]()
    for distance in reversed(range(-(-most_left // size))):
        if -(distance + 1) * size < last:
            whole = min(most_left - size * distance, size)
            found.append(Halo(whole - max(-distance * size - last, 0), count - 1 - distance))
    skipped = min(max(first - size, 0), max(most_right, 0)) // size
    for distance in range(skipped, -(-most_right // size)):
        whole = min(most_right - size * distance, size)
        found.append(Halo(whole - max(first - (distance + 1) * size, 0), count - 1 - distance))
    return tuple(halo for halo in found if halo.pairs > 0)


def compact_halos(size: int, count: int, whole: int, left: HaloSize, right: HaloSize) -> tuple[Halo, ...]:
    """The exchanges between any parts of a dimension of `whole` elements.

    >>> compact_halos(3, 2, 6, lambda part: -part, lambda part: part + 1)
    (Halo(size=1, pairs=1),)
    """
    wanted = _split_padding([_pieces(size, part, whole, left, right) for part in range(count)], size)
    queues = [
        sorted(
            (piece.offset, at, piece.user, piece)
            for pieces in wanted
            for at, piece in enumerate(pieces)
            if piece.owner == part != piece.user
        )
        for part in range(count)
    ]
    return tuple(_permutes([[piece for _, _, _, piece in queue] for queue in queues], size))


def _pieces(size: int, part: int, whole: int, left: HaloSize, right: HaloSize) -> list[_Piece]:
    """The ranges, each of one part or of padding, that make up what a part needs."""
    begin = at = part * size - left(part)
    limit = (part + 1) * size + right(part)
    found = list[_Piece]()
    while at < limit:
        start = at % size
        if at < 0 or at >= whole:
            length = min(limit - at, -at) if at < 0 else limit - at
            found.append(_Piece(part, start, start + length, None, at - begin))
        else:
            length = min(size - start, limit - at)
            found.append(_Piece(part, start, start + length, at // size, at - begin))
        at += length
    return found


def _split_padding(wanted: list[list[_Piece]], size: int) -> list[list[_Piece]]:
    """Padding in pieces of at most a part, where other parts have data; pieces in the order in which XLA takes them."""
    rest = [list(pieces) for pieces in wanted]
    found: list[list[_Piece]] = [[] for _ in wanted]
    while any(rest):
        is_padding = all(pieces[0].owner is None for pieces in rest if pieces)
        for pieces, taken in zip(rest, found, strict=True):
            if not pieces:
                continue
            piece = pieces.pop(0)
            if not is_padding and piece.owner is None and piece.limit > size:
                pieces.insert(0, piece._replace(start=0, limit=piece.limit - size))
                piece = piece._replace(limit=size)
            taken.append(piece)
    return found


def _permutes(queues: list[list[_Piece]], size: int) -> list[Halo]:
    """Permutes in which every part sends and receives once at most; the first pieces that fit go together."""
    found = list[Halo]()
    while any(queues):
        users = set[int]()
        start, limit, pairs = size, 0, 0
        for queue in queues:
            if not queue:
                continue
            piece = queue[0]
            is_far = (start > piece.limit and limit == size and piece.start == 0) or (
                limit < piece.start and start == 0 and piece.limit == size
            )
            if pairs and (piece.user in users or is_far):
                continue
            queue.pop(0)
            users.add(piece.user)
            pairs += 1
            start, limit = min(start, piece.start), max(limit, piece.limit)
        found.append(Halo(limit - start, pairs))
    return found
