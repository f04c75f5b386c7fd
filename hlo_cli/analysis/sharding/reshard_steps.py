"""How tiled shardings become others: devices rearranged, the operations that do it, padding and halos.

The shardings that lie between two, along the prime parts of their axes, are candidates for detours (`reshard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, pairwise, permutations, product
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.sharding.entry_arrays import prime_factors
from hlo_cli.analysis.sharding.placement import Placement, Subgroup, iota_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import Mesh, ShardingType, permuted

# --- rearranged devices ---
# Splits and merges of dimensions, moves of cuts, and groups.
#
# Mirrors xla/hlo/utils/hlo_sharding_util.cc. All shardings here are tiled, with replicas or without.


REPLICATED = Placement(ShardingType.REPLICATED)
"""Every device holds the whole array."""


def tiled(parts: Sequence[int], copies: int, devices: Sequence[int]) -> Placement:
    """The tiled sharding with this number of replicas in normal form; replicated if it cuts no dimension.

    >>> tiled((2, 1), 2, (1, 0, 2, 3)).devices, tiled((1, 1), 2, (0, 1)).kind.value
    ((0, 1, 2, 3), 'replicated')
    """
    if copies == 1:
        return Placement(ShardingType.TILED, tuple(parts), (), tuple(devices))
    if prod(parts) == 1:
        return REPLICATED
    groups = range(0, len(devices), copies)
    # Order within copies means nothing (hlo_sharding.cc sorts it), and sorted ones compare equal.
    ordered = tuple([device for start in groups for device in sorted(devices[start : start + copies])])
    return Placement(ShardingType.TILED, tuple(parts), (Subgroup(ShardingType.REPLICATED, copies),), ordered)


def dimensions_of(placement: Placement) -> tuple[int, ...]:
    """The dimensions of the array of devices: the parts, and the subgroups after them.

    >>> dimensions_of(tiled((2, 1), 2, (0, 1, 2, 3)))
    (2, 1, 2)
    """
    return (*placement.parts, *(group.size for group in placement.subgroups))


def split_dimension(placement: Placement, dimension: int, major: int) -> Placement:
    """The sharding of an array whose dimension is two, the major one in `major` parts.

    >>> split_dimension(tiled((8, 1), 1, range(8)), 0, 2).parts
    (2, 4, 1)
    """
    parts = placement.parts
    new = (*parts[:dimension], major, parts[dimension] // major, *parts[dimension + 1 :])
    return tiled(new, placement.copies, placement.devices)


def merge_dimension(placement: Placement, dimension: int) -> Placement:
    """The sharding of an array whose dimension is joined with the next one.

    >>> merge_dimension(tiled((2, 2, 2), 1, range(8)), 0).parts
    (4, 2)
    """
    parts = placement.parts
    new = (*parts[:dimension], parts[dimension] * parts[dimension + 1], *parts[dimension + 2 :])
    return tiled(new, placement.copies, placement.devices)


def _move_cuts(placement: Placement, pairs: Sequence[tuple[int, int]]) -> Placement:
    """The sharding after an all-to-all that moves the cut of each pair from its first dimension to its second.

    Dimensions count replicas as the last one, as XLA does.

    >>> _move_cuts(tiled((4, 1), 1, range(4)), [(0, 1)]).parts
    (1, 4)
    """
    dims, devices = list(dimensions_of(placement)), placement.devices
    for source, target in pairs:
        shape, order = list[int](), list[int]()
        # The part that moves goes to a dimension of the target; what is common to both stays in place.
        moved = {source: dims[source] // dims[target], target: 1}
        added = dict[int, int]()
        for dimension, size in enumerate(dims):
            order.append(len(shape))
            if dimension not in moved:
                shape.append(size)
                continue
            shape += [dims[target], moved[dimension]]
            order.append(len(shape) - 1)
            added[dimension] = len(shape) - 1
        first, second = order.index(added[source]), order.index(added[target])
        order[first], order[second] = order[second], order[first]
        devices = permuted(devices, shape, order)
        dims[source], dims[target] = dims[target], dims[source]
    rank = len(placement.parts)
    return tiled(dims[:rank], prod(dims[rank:]), devices)


def replicate_dimension(placement: Placement, dimension: int) -> Placement:
    """The sharding that does not cut a dimension; the devices along it hold the same data.

    >>> replicate_dimension(tiled((2, 2), 1, range(4)), 0).devices
    (0, 2, 1, 3)
    """
    dims = dimensions_of(placement)
    rank = len(placement.parts)
    order = [*(other for other in range(len(dims)) if other != dimension), dimension]
    parts = [1 if other == dimension else size for other, size in enumerate(dims[:rank])]
    copies = placement.copies * dims[dimension]
    return tiled(parts, copies, permuted(placement.devices, dims, order))


def cut_copies(placement: Placement, dimension: int) -> Placement:
    """The sharding whose replicas cut a dimension that is whole.

    >>> cut_copies(tiled((2, 1), 2, range(4)), 1).parts
    (2, 2)
    """
    dims = dimensions_of(placement)
    order = list(range(len(dims)))
    order[dimension], order[-1] = order[-1], order[dimension]
    parts = [size if other != dimension else dims[-1] for other, size in enumerate(placement.parts)]
    return tiled(parts, dims[dimension], permuted(placement.devices, dims, order))


class Groups(NamedTuple):
    """Devices in groups along some dimensions, `sizes` groups along each, and the sharding inside of a group.

    The devices of `inner` count from 0 inside of each group.
    """

    devices: tuple[tuple[int, ...], ...]
    dimensions: tuple[int, ...]
    sizes: tuple[int, ...]
    inner: Placement


def group(placement: Placement, dimensions: Sequence[int], kept: Sequence[int] | None = None) -> Groups:
    """The groups of devices along dimensions; `kept` says how often each is still cut inside of a group.

    >>> group(tiled((2, 2), 1, range(4)), [1])[:2]
    (((0, 2), (1, 3)), (1,))
    """
    inside = dict(zip(dimensions, kept or [1] * len(dimensions), strict=True))
    shape, places = list[int](), dict[int, int]()
    for at, size in enumerate(dimensions_of(placement)):
        if at in inside:
            places[at] = len(shape)
            shape.append(size // inside[at])
        shape.append(inside.get(at, size))
    first = [places[at] for at in dimensions]
    devices = permuted(placement.devices, shape, [*first, *(at for at in range(len(shape)) if at not in first)])
    sizes = tuple(shape[at] for at in first)
    length = len(devices) // prod(sizes)
    groups = tuple(devices[at : at + length] for at in range(0, len(devices), length))
    parts = [inside.get(at, size) for at, size in enumerate(placement.parts)]
    is_whole = prod(parts) == 1
    inner = REPLICATED if is_whole else tiled(parts, placement.copies, range(length))
    return Groups(groups, tuple(dimensions), sizes, inner)


def align(groups: Groups, reference: Groups) -> Groups:
    """The groups with the devices of another grouping, whose groups may list the same devices in another order."""
    group_of = {device: number for number, members in enumerate(reference.devices) for device in members}
    is_same = all(group_of.get(device) == number for number, members in enumerate(groups.devices) for device in members)
    inner = groups.inner
    # Groups are equal as sets: else XLA keeps the reference's devices and a permute follows.
    if is_same and inner.is_tiled:
        position_of = {device: position for position, device in enumerate(reference.devices[0])}
        order = [position_of[device] for device in groups.devices[0]]
        inner = tiled(inner.parts, inner.copies, [order[device] for device in inner.devices])
    return groups._replace(devices=reference.devices, inner=inner)


def ungroup(groups: Groups, rank: int) -> Placement:
    """The sharding of all devices, from that inside of the groups.

    >>> ungroup(group(tiled((2, 2), 1, range(4)), [1]), 2).devices
    (0, 1, 2, 3)
    """
    inner = groups.inner
    length = len(groups.devices[0])
    parts = inner.parts if inner.is_tiled else (1,) * rank
    copies = inner.copies if inner.is_tiled else length
    listed = inner.devices if inner.is_tiled else range(length)
    devices = [members[device] for members in groups.devices for device in listed]
    shape = [*groups.sizes, *parts, copies]
    order, new = list[int](), list[int]()
    for dimension in range(rank):
        size = parts[dimension]
        if dimension in groups.dimensions:
            position = groups.dimensions.index(dimension)
            order.append(position)
            size *= groups.sizes[position]
        order.append(len(groups.sizes) + dimension)
        new.append(size)
    order.append(len(shape) - 1)
    return tiled(new, copies, permuted(devices, shape, order))


# --- shardings between two ---
# Shardings along the prime parts of the axes that two shardings have in common.
#
# With p prime parts and rank r there are (r + 1)^p placements, times the orders of the parts within a dimension.


Candidate = tuple[tuple[int, ...], ...]
"""The prime parts along which each dimension is divided, major first; the other parts hold copies."""


# Whole axes have a PartitionSpec, but with many axes they alone would use up all candidates; chosen, not measured.
_MAX_ALONG_AXES: Final = 1_000
"""The number of shardings along whole axes before others have their turn."""


class Grid(NamedTuple):
    """Devices in row-major order, the sizes of the prime parts of their axes, and the axes as runs of parts."""

    devices: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    def is_whole(self, candidate: Candidate) -> bool:
        """Whether every dimension is divided along whole axes."""
        return all(
            parts[position : position + 1] != axis[:1] or parts[position : position + len(axis)] == axis
            for parts in candidate
            for axis in self.axes
            for position in range(len(parts))
        ) and all(parts.count(axis[0]) == parts.count(axis[-1]) for parts in candidate for axis in self.axes)

    def parts_of(self, candidate: Candidate) -> list[int]:
        """The number of parts of each dimension."""
        return [prod(self.sizes[part] for part in parts) for parts in candidate]

    def placement(self, candidate: Candidate) -> Placement:
        """The sharding of a candidate.

        >>> Grid((0, 1, 2, 3), (2, 2), ((0, 1),)).placement(((1,), ())).devices
        (0, 2, 1, 3)
        """
        parts = self.parts_of(candidate)
        if prod(parts) == 1:
            return REPLICATED
        used = list(chain.from_iterable(candidate))
        order = [*used, *(part for part in range(len(self.sizes)) if part not in used)]
        copies = len(self.devices) // prod(parts)
        return tiled(parts, copies, permuted(self.devices, self.sizes, order))


def grid_of(source: Placement, target: Placement, devices: int) -> Grid:
    """The coarsest grid of which both shardings are made, or else the grid of one of them, which may order its devices.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> texts = "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"
    >>> grid_of(*(placement_of(sharding_of(text)) for text in texts), 8)[1:]
    ((2, 2, 2), ((0, 1), (2,)))
    """
    # Borders are strides where an axis begins or ends; both shardings must fit between the same ones.
    placements = [each for each in (source, target) if each.is_tiled]
    borders = {1, devices}
    for placement in placements:
        strides = _strides_at_axes(placement)
        borders = borders | strides if strides else set()
        if not strides:
            break
    ordered = sorted(borders)
    if not borders or any(large % small for small, large in pairwise(ordered)):
        sizes = [size for size in dimensions_of(placements[0]) if size > 1]
        return _grid_of_axes(placements[0].devices, sizes)
    return _grid_of_axes(tuple(range(devices)), [large // small for small, large in pairwise(ordered)][::-1])


def grid_of_mesh(mesh: Mesh) -> Grid:
    """The grid of a mesh."""
    return _grid_of_axes(mesh.devices(), [axis.size for axis in mesh.axes if axis.size > 1])


def candidates(grid: Grid, sizes: Sequence[int], near: Sequence[Placement] = ()) -> Iterator[Candidate]:
    """Every sharding of an array that leaves no part empty.

    First those along whole axes, then for each number of parts the ones like those `near`, then all along prime parts.

    >>> list(candidates(Grid((0, 1), (2,), ((0,),)), (8, 1)))
    [((0,), ()), ((), ())]
    """
    yielded = set[Candidate]()
    # Order of preference: whole axes, then those that keep most of source or target, then all others.
    singles = tuple((part,) for part in range(len(grid.sizes)))
    near_candidates = [
        candidate for placement in near if (candidate := _candidate_of(grid, placement, len(sizes))) is not None
    ]
    along_axes = islice(_candidates_along(grid, grid.axes, sizes), _MAX_ALONG_AXES)
    for candidate in chain(
        along_axes, _candidates_like(grid, near_candidates, sizes), _candidates_along(grid, singles, sizes)
    ):
        if candidate not in yielded:
            yielded.add(candidate)
            yield candidate


def _candidate_of(grid: Grid, placement: Placement, rank: int) -> Candidate | None:
    """The parts of the grid along which a sharding divides each dimension; None if it is not along them.

    >>> grid = Grid((0, 1, 2, 3), (2, 2), ((0, 1),))
    >>> _candidate_of(grid, tiled((1, 4), 1, (0, 2, 1, 3)), 2)
    ((), (1, 0))
    """
    if not placement.is_tiled:
        return ((),) * rank
    tile_of = {device: dimension // placement.copies for dimension, device in enumerate(placement.devices)}
    strides = [prod(placement.parts[dimension + 1 :]) for dimension in range(rank)]
    weighted: list[list[tuple[int, int]]] = [[] for _ in range(rank)]
    if tile_of[grid.devices[0]]:
        return None
    for part in range(len(grid.sizes)):
        tile = tile_of[grid.devices[prod(grid.sizes[part + 1 :])]]
        moved = [(dimension, tile // stride % placement.parts[dimension]) for dimension, stride in enumerate(strides)]
        for dimension, weight in moved:
            if weight:
                weighted[dimension].append((-weight, part))
    candidate = tuple(tuple(part for _, part in sorted(each)) for each in weighted)
    used = list(chain.from_iterable(candidate))
    # Each step above looks at single devices; the comparison of the whole makes it exact.
    return candidate if len(set(used)) == len(used) and grid.placement(candidate) == placement else None


def _candidates_like(grid: Grid, near_candidates: Sequence[Candidate], sizes: Sequence[int]) -> Iterator[Candidate]:
    """For each number of parts of each dimension, the shardings that keep most of the given ones."""
    rank = len(sizes)
    primes = sorted(set(grid.sizes))
    counts = [grid.sizes.count(prime) for prime in primes]
    for split in product(*(_compositions(count, rank + 1) for count in counts)):
        wanted = [dict(zip(primes, column, strict=True)) for column in zip(*split, strict=True)]
        parts = [prod(prime**count for prime, count in each.items()) for each in wanted[:rank]]
        if all(count <= size for count, size in zip(parts, sizes, strict=True)):
            for candidate in near_candidates:
                yield _candidate_with(grid, candidate, wanted, is_reversed=False)
                yield _candidate_with(grid, candidate, wanted, is_reversed=True)


def _candidate_with(
    grid: Grid, candidate: Candidate, wanted: Sequence[dict[int, int]], *, is_reversed: bool
) -> Candidate:
    """The sharding with these primes on each dimension: parts that are there already stay, others follow."""
    kept: list[list[int]] = []
    missing = [dict(each) for each in wanted]
    for dimension, parts in enumerate(candidate):
        kept.append([])
        for part in parts:
            if missing[dimension][grid.sizes[part]]:
                missing[dimension][grid.sizes[part]] -= 1
                kept[dimension].append(part)
    placed = set(chain.from_iterable(kept))
    used = list(chain.from_iterable(candidate))
    unused = [part for part in (*(p for p in range(len(grid.sizes)) if p not in used), *used) if part not in placed]
    for dimension in range(len(kept)):
        for part in list(reversed(unused) if is_reversed else unused):
            if missing[dimension][grid.sizes[part]]:
                missing[dimension][grid.sizes[part]] -= 1
                # Reversed, too: which of the equal primes moves decides what has to be sent.
                kept[dimension].append(part)
                unused.remove(part)
    return tuple(map(tuple, kept))


@lru_cache(maxsize=64)
def _compositions(count: int, places: int) -> tuple[tuple[int, ...], ...]:
    """The ways to put a number of equal things on places."""
    if places == 1:
        return ((count,),)
    return tuple((first, *rest) for first in range(count + 1) for rest in _compositions(count - first, places - 1))


def _candidates_along(grid: Grid, axes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> Iterator[Candidate]:
    rank = len(sizes)
    lengths = [prod(grid.sizes[part] for part in axis) for axis in axes]
    for homes in product(range(rank + 1), repeat=len(axes)):
        used = [1] * (rank + 1)
        for length, home in zip(lengths, homes, strict=True):
            used[home] *= length
        if any(count > size for count, size in zip(used, sizes, strict=False)):
            continue
        axes_on = [
            [axis for axis, home in zip(axes, homes, strict=True) if home == dimension] for dimension in range(rank)
        ]
        for orders in product(*map(permutations, axes_on)):
            yield tuple(tuple(chain.from_iterable(order)) for order in orders)


def _grid_of_axes(devices: tuple[int, ...], lengths: Sequence[int]) -> Grid:
    sizes, axes = list[int](), list[tuple[int, ...]]()
    for length in lengths:
        primes = prime_factors(length)
        axes.append(tuple(range(len(sizes), len(sizes) + len(primes))))
        sizes += primes
    return Grid(devices, tuple(sizes), tuple(axes))


def _strides_at_axes(placement: Placement) -> set[int]:
    """The strides at which axes begin and end in the order of devices; empty if the devices are no iota."""
    iota = iota_of(placement.devices)
    if iota is None:
        return set()
    dims = iota.reshape_dims
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    borders = {*strides, *(stride * size for stride, size in zip(strides, dims, strict=True))}
    ends, below = list[int](), len(placement.devices)
    for size in dimensions_of(placement):
        below //= size
        ends.append(below)
    inner = len(placement.devices)
    for axis in iota.transpose_perm:
        outer, inner = inner, inner // dims[axis]
        borders |= {strides[axis] * (end // inner) for end in ends if inner < end < outer and not end % inner}
    return borders


# --- halos ---
# The edges that devices exchange where an uneven dimension is cut anew.
#
# Mirrors `ExchangeHalo` and `ExchangeHaloCompact` of xla/service/spmd/spmd_partitioner_util.cc. A halo function gives,
# for each part, how many elements it needs from before its own (left) or after (right); negative if it has too many.


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


def _exchanged_halos(size: int, count: int, left: HaloSize, right: HaloSize) -> tuple[Halo, ...] | None:
    """The exchanges between neighbors, `size` elements in each of `count` parts; None if halos reach too far.

    >>> _exchanged_halos(22, 2, lambda part: part, lambda part: -part - 1)
    (Halo(size=1, pairs=1),)
    """
    most_left = max(map(left, range(1, count)), default=0)
    most_right = max(map(right, range(count - 1)), default=0)
    # ExchangeHalo gives up here: halos beyond a neighbor, and together as much as all of the array.
    if most_left + most_right + size >= size * count and max(most_left, most_right) > size:
        return None
    first = -max(map(left, range(count)))
    last = size + max(map(right, range(count)))
    if first >= last:
        return None
    halos = list[Halo]()
    for distance in reversed(range(-(-most_left // size))):
        if -(distance + 1) * size < last:
            # Data that reaches beyond what the last part needs is not sent (ExchangeHalo's trimming).
            reach = min(most_left - size * distance, size)
            halos.append(Halo(reach - max(-distance * size - last, 0), count - 1 - distance))
    skipped = min(max(first - size, 0), max(most_right, 0)) // size
    for distance in range(skipped, -(-most_right // size)):
        reach = min(most_right - size * distance, size)
        halos.append(Halo(reach - max(first - (distance + 1) * size, 0), count - 1 - distance))
    return tuple(halo for halo in halos if halo.pairs > 0)


def _compact_halos(size: int, count: int, whole: int, left: HaloSize, right: HaloSize) -> tuple[Halo, ...]:
    """The exchanges between any parts of a dimension of `whole` elements.

    >>> _compact_halos(3, 2, 6, lambda part: -part, lambda part: part + 1)
    (Halo(size=1, pairs=1),)
    """
    # The order of pieces decides which permutes XLA joins, so all parts are queued at once.
    wanted = _split_padding([_pieces(size, part, whole, left, right) for part in range(count)], size)
    queues = [
        sorted(
            (piece.offset, number, piece.user, piece)
            for pieces in wanted
            for number, piece in enumerate(pieces)
            if piece.owner == part != piece.user
        )
        for part in range(count)
    ]
    return tuple(_joined_permutes([[piece for _, _, _, piece in queue] for queue in queues], size))


def _pieces(size: int, part: int, whole: int, left: HaloSize, right: HaloSize) -> list[_Piece]:
    """The ranges, each of one part or of padding, that make up what a part needs."""
    begin = position = part * size - left(part)
    limit = (part + 1) * size + right(part)
    pieces = list[_Piece]()
    while position < limit:
        start = position % size
        if position < 0 or position >= whole:
            length = min(limit - position, -position) if position < 0 else limit - position
            pieces.append(_Piece(part, start, start + length, None, position - begin))
        else:
            length = min(size - start, limit - position)
            pieces.append(_Piece(part, start, start + length, position // size, position - begin))
        position += length
    return pieces


def _split_padding(wanted: list[list[_Piece]], size: int) -> list[list[_Piece]]:
    """Padding in pieces of at most a part, where other parts have data; pieces in the order in which XLA takes them."""
    queues = [list(pieces) for pieces in wanted]
    split: list[list[_Piece]] = [[] for _ in wanted]
    while any(queues):
        is_padding = all(pieces[0].owner is None for pieces in queues if pieces)
        for pieces, taken in zip(queues, split, strict=True):
            if not pieces:
                continue
            piece = pieces.pop(0)
            # Padding is cut at the border of a part, as ExchangeHaloCompact does.
            if not is_padding and piece.owner is None and piece.limit > size:
                pieces.insert(0, piece._replace(start=0, limit=piece.limit - size))
                piece = piece._replace(limit=size)
            taken.append(piece)
    return split


def _joined_permutes(queues: list[list[_Piece]], size: int) -> list[Halo]:
    """Permutes in which every part sends and receives once at most; the first pieces that fit go together."""
    halos = list[Halo]()
    while any(queues):
        users = set[int]()
        start, limit, pairs = size, 0, 0
        for queue in queues:
            if not queue:
                continue
            piece = queue[0]
            # Pieces at opposite ends of a part would make the operand as large as the whole part.
            is_far = (start > piece.limit and limit == size and piece.start == 0) or (
                limit < piece.start and start == 0 and piece.limit == size
            )
            if pairs and (piece.user in users or is_far):
                continue
            queue.pop(0)
            users.add(piece.user)
            pairs += 1
            start, limit = min(start, piece.start), max(limit, piece.limit)
        halos.append(Halo(limit - start, pairs))
    return halos


# --- padding ---
# Mirrors `PadFromPartialReplicateShape` and `TileToPartialReplicateHaloExchange` of
# xla/service/spmd/spmd_partitioner_util.cc, and `ReshardAsWindowedInput` of xla/service/spmd/spmd_partitioner.cc for
# windows of one element.


Sizes = tuple[int, ...]


class Exchange(NamedTuple):
    """A collective-permute of edges: the sizes of its operand, and the devices that send."""

    operand: Sizes
    moving: int
    dimension: int


class Padded(NamedTuple):
    """The exchanges before a step, and the sizes of a shard after them."""

    exchanges: tuple[Exchange, ...]
    local: Sizes


def padded_sizes(whole: Sequence[int], placement: Placement) -> Sizes:
    """The sizes that all parts make up together, padding included.

    >>> from hlo_cli.ir.attributes.sharding import ShardingType
    >>> padded_sizes((10, 6), Placement(ShardingType.TILED, (4, 2), (), tuple(range(8))))
    (12, 6)
    """
    if not placement.is_tiled:
        return tuple(whole)
    return tuple(-(-size // parts) * parts for size, parts in zip(whole, placement.parts, strict=True))


def pad_for_slice(local: Sizes, whole: Sizes, source: Placement, target: Placement) -> Padded:
    """What devices exchange before they slice what they hold, so that no part is in two places.

    >>> from hlo_cli.ir.attributes.sharding import ShardingType
    >>> from hlo_cli.analysis.sharding.reshard_steps import tiled
    >>> pad_for_slice((3,), (6,), tiled((2,), 2, range(4)), tiled((4,), 1, range(4)))
    Padded(exchanges=(Exchange(operand=(1,), moving=2, dimension=0),), local=(4,))
    """
    have, want = padded_sizes(whole, source), padded_sizes(whole, target)
    # No padding of either side: nothing has to be moved between neighbors.
    if want == local:
        return Padded((), local)
    exchanges = list[Exchange]()
    sizes, padded = list(local), dict[int, int]()
    for dimension, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        size, wanted = have[dimension] // before, want[dimension] // before
        if after == before or size >= wanted:
            continue
        # An uncut dimension is padded on each device without any exchange.
        if before == 1:
            padded[dimension] = wanted  # after all exchanges, in one go
            continue
        more = wanted - size
        halos = _compact_halos(
            local[dimension], before, whole[dimension], _linear_halo(-more, 0), _linear_halo(more, more)
        )
        exchanges += _exchanges_along(sizes, dimension, halos, source)
        sizes[dimension] += more
    sizes = [padded.get(dimension, size) for dimension, size in enumerate(sizes)]
    return Padded(tuple(exchanges), tuple(sizes))


def pad_for_gather(local: Sizes, whole: Sizes, source: Placement, target: Placement) -> tuple[Exchange, ...]:
    """What devices exchange before they gather, so that the gathered parts make up those of the target."""
    have, want = padded_sizes(whole, source), padded_sizes(whole, target)
    if want == local:
        return ()
    exchanges = list[Exchange]()
    for dimension, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        more = have[dimension] // after - want[dimension] // after
        if before == after or more <= 0 or after == 1:
            continue
        factor = before // after
        left, right = _stepped_halo(more, factor), _stepped_halo(-more, factor)
        exchanges += _exchanges_along(
            local, dimension, _compact_halos(local[dimension], before, whole[dimension], left, right), source
        )
    return tuple(exchanges)


def _pad_dimension(local: Sizes, whole: Sizes, placement: Placement, dimension: int, more: int) -> Padded | None:
    """A dimension with `more` elements at its end, or fewer, cut anew in equal parts; None if edges reach too far."""
    parts, size = placement.parts[dimension], local[dimension]
    if not more:
        return Padded((), local)
    if parts == 1:
        return Padded((), _with_size(local, dimension, size + more))
    full = whole[dimension] + more
    if full < 1:
        return None
    wanted = -(-full // parts)
    used = parts
    if full < parts:
        # Fewer elements than parts: the last parts would be empty, so XLA exchanges among those that are not.
        used = min(parts, max(-(-full // size), full))
    if used == 1:
        return Padded((), local)
    if used < parts and more < 0 and full < size:
        size = full
    local = _with_size(local, dimension, size)
    left, right = _linear_halo(size - wanted, 0), _linear_halo(wanted - size, wanted - size)
    reach = max(*map(left, range(used)), *map(right, range(used)))
    halos: tuple[Halo, ...] | None
    # The border of spmd_partitioner.cc between neighbor halos and the compact form, which needs fewer permutes.
    if reach > 2 * wanted:
        if wanted * 2 >= used * size:
            return None
        halos = _compact_halos(size, used, size * used if used < parts else whole[dimension], left, right)
    else:
        halos = _exchanged_halos(size, used, left, right)
    if halos is None:
        return None
    return Padded(tuple(_exchanges_along(local, dimension, halos, placement)), _with_size(local, dimension, wanted))


def _exchanges_along(
    local: Sequence[int], dimension: int, halos: Iterable[Halo], placement: Placement
) -> list[Exchange]:
    rows = prod(placement.parts) // placement.parts[dimension] * placement.copies
    return [Exchange(_with_size(local, dimension, halo.size), halo.pairs * rows, dimension) for halo in halos]


def _with_size(sizes: Sequence[int], dimension: int, size: int) -> Sizes:
    return (*sizes[:dimension], size, *sizes[dimension + 1 :])


def _linear_halo(slope: int, offset: int) -> HaloSize:
    return lambda part: slope * part + offset


def _stepped_halo(more: int, factor: int) -> HaloSize:
    return lambda part: more * (part // factor)


# --- operations ---
# The operations that take a sharded array to another sharding, with the sizes on one device after each.
#
# Mirrors `ReshardWithAllToAll`, `ReshardWithCollectivePermute`, and `ReplicatePartial` of
# xla/service/spmd/spmd_partitioner.cc.


DeviceGroups = tuple[tuple[int, ...], ...]


class Value(NamedTuple):
    """An array on the devices: the sizes of a shard and of the whole, and the dimension of the array each is of."""

    local: tuple[int, ...]
    whole: tuple[int, ...]
    placement: Placement
    origin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Formation:
    """Who exchanges with whom: the sharding before, and the `factors` by which dimensions are gathered or divided.

    For a permute, `target` has the devices that receive; without it, edges travel inside of groups. The devices count
    inside of the groups in `outer`, the outermost first.
    """

    placement: Placement
    factors: tuple[tuple[int, int], ...] = ()
    target: Placement | None = None
    outer: tuple[DeviceGroups, ...] = ()

    def groups(self) -> DeviceGroups:
        """The groups of devices of a collective.

        >>> from hlo_cli.ir.attributes.sharding import ShardingType
        >>> Formation(Placement(ShardingType.TILED, (2, 2), (), (0, 1, 2, 3)), ((0, 2),)).groups()
        ((0, 2), (1, 3))
        """
        factors = dict(self.factors)
        shape, minor = list[int](), list[int]()
        for at, size in enumerate(dimensions_of(self.placement)):
            shape += [size // factors.get(at, 1), factors.get(at, 1)]
            minor += [len(shape) - 1] if at in factors else []
        order = [*(at for at in range(len(shape)) if at not in minor), *minor]
        devices = permuted(self.placement.devices, shape, order)
        length = prod(factors.values())
        return self._expanded([devices[at : at + length] for at in range(0, len(devices), length)])

    def pairs(self) -> DeviceGroups:
        """The pairs of source and target of a permute."""
        target = self.target or self.placement
        return self._expanded(list(zip(self.placement.devices, target.devices, strict=True)))

    def _expanded(self, groups: Sequence[tuple[int, ...]]) -> DeviceGroups:
        for members in reversed(self.outer):
            groups = [tuple(each[device] for device in group) for each in members for group in groups]
        return tuple(groups)


class PlannedStep(NamedTuple):
    """One operation: the sizes of its operand, the devices of a group, and those that send."""

    operation: str
    operand: tuple[int, ...]
    group_size: int
    dimensions: tuple[int, ...]
    moving: int
    formation: Formation | None


class Warned(NamedTuple):
    """A full rematerialization: the shardings as the partitioner sees them, and the sizes of the shard."""

    source: Placement
    target: Placement
    local: tuple[int, ...]


class PartitionerCrashError(Exception):
    """The partitioner of XLA divides by zero on this pair of shardings."""


class Plan:
    """The steps so far, and the warnings; `devices` is the number of devices at hand, in the groups of `outer`.

    It is an estimate if a rule was needed that was never seen in the partitioner's own dumps.
    """

    def __init__(self, devices: int) -> None:
        self.steps = list[PlannedStep]()
        self.warnings = list[Warned]()
        self.devices = devices
        self.groups = 1
        self.outer: tuple[DeviceGroups, ...] = ()
        self.is_estimate = False

    def add(
        self,
        operation: str,
        value: Value,
        group_size: int,
        dimensions: Sequence[int] = (),
        moving: int = -1,
        formation: Formation | None = None,
    ) -> None:
        """Adds a step with the value as its operand; all devices send unless `moving` is given."""
        origins = tuple(value.origin[at] for at in dimensions)
        operand = [1] * (max(value.origin, default=-1) + 1)
        for size, at in zip(value.local, value.origin, strict=True):
            operand[at] *= size
        self.steps.append(
            PlannedStep(
                operation,
                tuple(operand),
                group_size,
                origins if operation == opcodes.ALL_TO_ALL else tuple(dict.fromkeys(origins)),
                self.devices * self.groups if moving < 0 else moving * self.groups,
                None if formation is None else replace(formation, outer=self.outer),
            )
        )


def permute(plan: Plan, value: Value, target: Placement) -> Value:
    """Every shard goes to the device that has it in the target."""
    moving = sum(a != b for a, b in zip(value.placement.devices, target.devices, strict=True))
    plan.add(
        opcodes.COLLECTIVE_PERMUTE,
        value,
        plan.devices,
        moving=moving,
        formation=Formation(value.placement, target=target),
    )
    return value._replace(placement=target)


def exchange(plan: Plan, value: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """One all-to-all over the product of the pairs; crashes where joining pairs broke the order of the others."""
    dims = dimensions_of(value.placement)
    if any(dims[source] % dims[target] for source, target in pairs):
        # XLA divides without a check: the pairs were computed for the original order of all-to-alls.
        raise PartitionerCrashError
    local = list(value.local)
    for source, target in pairs:
        size = dims[source] // dims[target]
        local[source] *= size
        local[target] //= size
    factors = tuple((source, dims[source] // dims[target]) for source, target in pairs)
    formation = Formation(value.placement, factors)
    size = prod(factor for _, factor in factors)
    plan.add(opcodes.ALL_TO_ALL, value, size, [target for pair in pairs for target in pair], formation=formation)
    return value._replace(local=tuple(local), placement=_move_cuts(value.placement, pairs))


def swap(plan: Plan, value: Value, source: int, target: int) -> Value:
    """One all-to-all; the dimension that is cut further is padded first, and the other one trimmed after."""
    before = value.placement
    dims = dimensions_of(before)
    # XLA divides without a check; jaxlib 0.10.2 ends with SIGFPE.
    if dims[source] % dims[target]:
        raise PartitionerCrashError
    parts = dims[source]
    # Before an all-to-all the dimension to be cut must divide by its new parts.
    wanted = -(-value.whole[target] // parts) * parts
    value = _recut(plan, value, target, wanted - value.local[target] * dims[target])
    size = dims[source] * value.local[source]
    value = exchange(plan, value, [(source, target)])
    wanted = -(-value.whole[source] // dims[target]) * dims[target]
    whole = tuple(size if d == source else each for d, each in enumerate(value.whole))
    trimmed = _recut(plan, value._replace(whole=whole), source, wanted - size)
    return trimmed._replace(whole=value.whole)


def gather(plan: Plan, value: Value, factors: Sequence[int], sizes: Sequence[int]) -> Value:
    """Gathers dimensions, the last one first, to these sizes.

    Dimensions of one element, and those with at most half as many elements as parts, are summed instead: each device
    has zeros where others have data.
    """
    cut = [dimension for dimension, factor in enumerate(factors) if factor > 1]
    # One shard has all of the dimension: it is broadcast by an all-reduce, not gathered.
    single = [dimension for dimension in cut if sizes[dimension] == value.local[dimension]]
    # At most half as many elements as tiles: dynamic-update-slice and all-reduce, as ReplicatePartial does.
    summed = [dimension for dimension in cut if dimension not in single and sizes[dimension] <= factors[dimension] // 2]
    gathered = [dimension for dimension in cut if dimension not in single and dimension not in summed]
    final = tuple(sizes[dimension] if dimension in cut else size for dimension, size in enumerate(value.local))
    if single:
        formation = Formation(value.placement, tuple((dimension, factors[dimension]) for dimension in single))
        plan.add(
            opcodes.ALL_REDUCE, value, prod(factors[dimension] for dimension in single), single, formation=formation
        )
    for dimension in reversed(gathered):
        formation = Formation(value.placement, ((dimension, factors[dimension]),))
        plan.add(opcodes.ALL_GATHER, value, factors[dimension], [dimension], formation=formation)
        value = value._replace(
            local=tuple(s * factors[dimension] if d == dimension else s for d, s in enumerate(value.local))
        )
    for dimension in reversed(summed):
        formation = Formation(value.placement, ((dimension, factors[dimension]),))
        plan.add(opcodes.ALL_REDUCE, value._replace(local=final), factors[dimension], [dimension], formation=formation)
    return value._replace(local=final)


def replicate(plan: Plan, value: Value) -> Value:
    """Every device gathers all of the array."""
    placement = value.placement
    if not placement.is_tiled:
        # A maximal sharding: select on the one device, zeros on all others, and the sum of all.
        plan.add(opcodes.ALL_REDUCE, value, plan.devices)
        return value._replace(placement=REPLICATED)
    return gather(plan, value, placement.parts, value.whole)._replace(placement=REPLICATED)


def add_exchanges(plan: Plan, value: Value, exchanges: Sequence[Exchange]) -> None:
    """Adds the permutes of edges between devices."""
    for edges in exchanges:
        operand = value._replace(local=edges.operand)
        formation = Formation(value.placement, ((edges.dimension, value.placement.parts[edges.dimension]),))
        plan.add(opcodes.COLLECTIVE_PERMUTE, operand, plan.devices, [edges.dimension], edges.moving, formation)


def _recut(plan: Plan, value: Value, dimension: int, more: int) -> Value:
    """The value with more elements, or fewer, at the end of a dimension, whose parts are equal then."""
    if (padded := _pad_dimension(value.local, value.whole, value.placement, dimension, more)) is not None:
        add_exchanges(plan, value, padded.exchanges)
        return value._replace(local=padded.local)
    plan.is_estimate = True  # no pair of the judge came here
    parts = value.placement.parts[dimension]
    factors = [parts if d == dimension else 1 for d in range(len(value.whole))]
    sizes = [value.whole[dimension] if d == dimension else each for d, each in enumerate(value.local)]
    gathered = gather(plan, value, factors, sizes)
    size = -(-(value.whole[dimension] + more) // parts)
    whole = tuple(size * parts if d == dimension else each for d, each in enumerate(gathered.local))
    plan.add(opcodes.DYNAMIC_SLICE, gathered._replace(local=whole), 1, [dimension])
    return value._replace(local=tuple(size if d == dimension else each for d, each in enumerate(gathered.local)))
