"""What the partitioner does to reshard an array, and which shardings would need less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice, permutations, product
from math import ceil, prod
from typing import Final, NamedTuple

from hlo_cli.analysis.sharding.collectives import wire_bytes
from hlo_cli.analysis.sharding.entry_arrays import prime_factors
from hlo_cli.analysis.sharding.meshes import Pairs
from hlo_cli.analysis.sharding.placement import (
    Placement,
    array_of,
    as_sharding,
    devices_of,
    has_parts,
    partition_spec,
    placement_of,
    shard_shape,
)
from hlo_cli.analysis.sharding.reshard_steps import (
    REPLICATED,
    Candidate,
    DeviceGroups,
    Formation,
    Grid,
    Groups,
    PartitionerCrashError,
    Plan,
    PlannedStep,
    Value,
    Warned,
    add_exchanges,
    align,
    candidates,
    cut_copies,
    dimensions_of,
    exchange,
    gather,
    grid_of,
    grid_of_mesh,
    group,
    merge_dimension,
    pad_for_gather,
    pad_for_slice,
    padded_sizes,
    permute,
    replicate,
    replicate_dimension,
    split_dimension,
    swap,
    tiled,
    ungroup,
)
from hlo_cli.dataclass import brief_name, dataclass
from hlo_cli.displayed import Items, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    IotaTransform,
    Mesh,
    MeshAxis,
    ShardingType,
    TupleSharding,
    permuted,
)
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape
from hlo_cli.source import HloError, expect

# --- one step ---
# When the partitioner can go from one sharding to another in one step, and in which.
#
# Mirrors `CanReshardWithCollectivePermute`, `GetReshardAllToAllSourceTargetDims`, and
# `PartialReplicateReshardCompatibleSharding` of xla/service/spmd/spmd_partitioner_util.cc.


def is_permutation(source: Placement, target: Placement) -> bool:
    """Whether the shardings cut an array alike, but for other devices.

    >>> is_permutation(tiled((2,), 1, (0, 1)), tiled((2,), 1, (1, 0)))
    True
    """
    alike = (
        source.is_tiled and target.is_tiled and source.parts == target.parts and source.subgroups == target.subgroups
    )
    return alike and source.devices != target.devices


def _swapped_dimensions(source: Placement, target: Placement) -> Pairs | None:
    """The dimensions, from and to, between which all-to-alls move cuts; None if they cannot take one to the other.

    >>> _swapped_dimensions(tiled((4, 1), 1, range(4)), tiled((1, 4), 1, range(4)))
    ((0, 1),)
    """
    if not (source.is_tiled and target.is_tiled) or source.tiles != target.tiles:
        return None
    before, after = dimensions_of(source), dimensions_of(target)
    if len(before) != len(after):
        return None
    changed = [dimension for dimension in range(len(before)) if before[dimension] != after[dimension]]
    # spmd_partitioner_util.cc compares the differing dimensions as a multiset: only then all-to-alls alone suffice.
    if not changed or sorted(before[dimension] for dimension in changed) != sorted(
        after[dimension] for dimension in changed
    ):
        return None
    dimensions_by_parts = dict[int, list[int]]()  # the dimensions that have a number of parts now
    for dimension in changed:
        dimensions_by_parts.setdefault(before[dimension], []).append(dimension)
    pairs = list[tuple[int, int]]()
    while dimensions_by_parts:
        # The smallest number of parts first, as in XLA, since the order decides which all-to-alls are made.
        parts = min(dimensions_by_parts)
        dimension = dimensions_by_parts[parts][-1]
        wanted = after[dimension]
        if wanted == parts:
            _remove_dimension(dimensions_by_parts, parts, dimension)
            continue
        if parts != 1 and wanted % parts:
            return None
        candidates = dimensions_by_parts[wanted]
        fitting = [each for each in candidates if (after[each] != 1 if parts == 1 else after[each] == parts)]
        other = fitting[0] if fitting else candidates[-1]
        pairs.append((other, dimension))
        dimensions_by_parts[parts][-1] = other
        _remove_dimension(dimensions_by_parts, wanted, other)
    return tuple(pairs)


def _remove_dimension(dimensions_by_parts: dict[int, list[int]], parts: int, dimension: int) -> None:
    dimensions_by_parts[parts].remove(dimension)
    if not dimensions_by_parts[parts]:
        del dimensions_by_parts[parts]


def _sliced_sharding(partial: Placement, target: Placement) -> Placement | None:
    """The sharding that cuts like the target and is within a partly replicated one: devices slice what they hold.

    None if the target cuts a dimension differently. If the target itself is within it, that is the answer.

    >>> _sliced_sharding(tiled((2, 1), 2, range(4)), tiled((2, 2), 1, range(4))).devices
    (0, 1, 2, 3)
    """
    if partial.copies == 1 or not target.is_tiled or len(partial.parts) != len(target.parts):
        return None
    if len(partial.devices) != len(target.devices):
        return None
    # Only where every dimension is cut at least as finely can devices slice what they hold.
    if any(after % before for before, after in zip(partial.parts, target.parts, strict=True)):
        return None
    if is_within(target, partial):
        return target
    rank = len(partial.parts)
    factors = [after // before for before, after in zip(partial.parts, target.parts, strict=True)]
    expanded = [dimension for dimension in range(rank) if factors[dimension] > 1]
    shape = [*partial.parts, *(factors[dimension] for dimension in expanded)]
    order = list[int]()
    for dimension in range(rank):
        order.append(dimension)
        if dimension in expanded:
            order.append(rank + expanded.index(dimension))
    if target.copies > 1:
        order.append(len(shape))
        shape.append(target.copies)
    return tiled(target.parts, target.copies, permuted(partial.devices, shape, order))


# Sets of tiles, not sharding texts, are compared: other spellings of the same cut are within, too.
def is_within(inner: Placement, outer: Placement) -> bool:
    """Whether every device holds a part, in the inner sharding, of what it holds in the outer one.

    >>> is_within(tiled((2, 2), 1, range(4)), tiled((2, 1), 2, range(4)))
    True
    """
    factors = [after // before for before, after in zip(outer.parts, inner.parts, strict=True)]
    outer_tile = dict[int, int]()
    for position, device in enumerate(outer.devices):
        outer_tile[device] = position // outer.copies
    strides = [prod(outer.parts[position + 1 :]) for position in range(len(factors))]
    tiles = [0]
    for size, factor, stride in zip(inner.parts, factors, strides, strict=True):
        tiles = [tile + index // factor * stride for tile in tiles for index in range(size)]
    copies = inner.copies
    return all(outer_tile.get(device) == tiles[position // copies] for position, device in enumerate(inner.devices))


def _shifted_by_copies(tile: Placement, partial: Placement) -> Placement | None:
    """The partly replicated sharding between two whose dimensions are the same, shifted by one; None if they are not.

    `[2,3]` and `[1,2,3 replicated]` are, with the same devices: the answer is `[2,1,3 replicated]`.
    """
    dims, shifted = dimensions_of(tile), dimensions_of(partial)
    if tile.copies > 1 or len(dims) + 1 != len(shifted) or shifted != (1, *dims):
        return None
    last = max((dimension for dimension, size in enumerate(dims) if size > 1), default=None)
    if last is None or dims[last] != partial.copies or partial.devices != tile.devices:
        return None
    parts = [1 if dimension == last else size for dimension, size in enumerate(dims)]
    return tiled(parts, dims[last], tile.devices)


def _split_of_both(
    sizes: Sequence[int], source: Placement, target: Placement
) -> tuple[Placement, Placement, int] | None:
    """Both shardings with a dimension split where one number of parts divides the other, and that dimension.

    >>> [each.parts for each in _split_of_both((8, 8), tiled((4, 2), 1, range(8)), tiled((2, 4), 1, range(8)))[:2]]
    [(2, 2, 2), (2, 1, 4)]
    """
    if source.copies != target.copies or len(source.parts) != len(target.parts):
        return None
    pairs = list(enumerate(zip(source.parts, target.parts, strict=True)))
    uncut_dimensions = [
        dimension for dimension, (before, after) in pairs if before != after and min(before, after) == 1
    ]
    divisible = list[int]()
    for dimension, (before, after) in pairs:
        small, large = sorted((before, after))
        # The padded size must divide, too: XLA pads first and reshapes then.
        if small in (1, large) or large % small or (-(-sizes[dimension] // small) * small) % large:
            continue
        divisible.append(dimension)
    for dimension in divisible:
        for uncut in uncut_dimensions:
            if source.parts[dimension] * source.parts[uncut] == target.parts[dimension] * target.parts[uncut]:
                return _split_both(source, target, dimension)
    # Only where the source is cut further, as in the loop of spmd_partitioner_util.cc that it mirrors.
    return next(
        (
            _split_both(source, target, dimension)
            for dimension in divisible
            if source.parts[dimension] > target.parts[dimension]
        ),
        None,
    )


def _split_both(source: Placement, target: Placement, dimension: int) -> tuple[Placement, Placement, int]:
    major = min(source.parts[dimension], target.parts[dimension])
    return split_dimension(source, dimension, major), split_dimension(target, dimension, major), dimension


# --- the plan ---
# The rules of the partitioner, tried in its order, that take an array from one sharding to another.
#
# Mirrors `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc. What a failed attempt would have
# sent is dropped, as XLA removes dead code, but the warnings of it stay.


def _plan_steps(plan: Plan, value: Value, target: Placement, *, is_last_resort: bool = True) -> Value | None:
    """The value in the target sharding; None if only full rematerialization would do and that is not allowed."""
    source = value.placement
    if source == target:
        return value
    # The order of rules is that of ReshardNoCache; an earlier rule hides the later ones, even where those send less.
    if is_permutation(source, target):
        return permute(plan, value, target)
    if (pairs := _swapped_dimensions(source, target)) is not None:
        return _all_to_all(plan, value, target, pairs)
    if target.is_tiled and source.copies > 1 and (resharded := _from_copies(plan, value, target)) is not None:
        return resharded
    if source.is_tiled and target.copies > 1 and (resharded := _to_copies(plan, value, target)) is not None:
        return resharded
    if source.kind is not ShardingType.REPLICATED:
        if target.kind is not ShardingType.REPLICATED:
            # XLA tries these only between tiled shardings, before it gives up.
            if source.is_tiled and target.is_tiled:
                if (resharded := _try_detours(plan, value, target)) is not None:
                    return resharded
                if (resharded := _in_groups(plan, value, target)) is not None:
                    return resharded
            if not is_last_resort:
                return None
            # The message `Involuntary full rematerialization` of spmd_partitioner.cc, one for each reshard.
            plan.warnings.append(Warned(source, target, value.local))
        return _plan_steps(plan, replicate(plan, value), target)
    if not target.is_tiled:
        return value._replace(placement=target)  # one device keeps what all have
    padded = value._replace(local=padded_sizes(value.whole, target))
    plan.add(opcodes.DYNAMIC_SLICE, padded, 1, _cut_dimensions(REPLICATED, target))
    return value._replace(local=target.shard_sizes(value.whole), placement=target)


def _all_to_all(plan: Plan, value: Value, target: Placement, pairs: Pairs) -> Value:
    """Cuts move between the dimensions of each pair; pairs that share no dimension go in one operation."""
    used = set[int]()
    joined, remaining = list[tuple[int, int]](), list[tuple[int, int]]()
    for pair in sorted(pairs, key=lambda pair: pair[1]):
        is_even = all(
            not value.whole[dimension] % placement.parts[dimension]
            for dimension, placement in zip(pair, (value.placement, target), strict=True)
        )
        if used.isdisjoint(pair) and is_even:
            joined.append(pair)
            used.update(pair)
        else:
            remaining.append(pair)
    # A single pair is no joint operation; XLA then goes one by one in the original order.
    if len(joined) < 2:
        return _one_by_one(plan, value, target, pairs)
    return _one_by_one(plan, exchange(plan, value, joined), target, remaining)


def _one_by_one(plan: Plan, value: Value, target: Placement, pairs: Sequence[tuple[int, int]]) -> Value:
    for source, cut in pairs:
        if value.placement == target:
            return value
        value = swap(plan, value, source, cut)
    return value if value.placement == target else permute(plan, value, target)


def _cut_dimensions(before: Placement, after: Placement) -> list[int]:
    """The dimensions that one sharding cuts further than another."""
    return [
        dimension
        for dimension, parts in enumerate(after.parts)
        if parts > (before.parts[dimension] if before.is_tiled else 1)
    ]


def _from_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices slice what they have copies of."""
    sliced = _sliced_sharding(value.placement, target)
    if sliced is not None:
        padded = pad_for_slice(value.local, value.whole, value.placement, sliced)
        add_exchanges(plan, value, padded.exchanges)
        plan.add(opcodes.DYNAMIC_SLICE, value._replace(local=padded.local), 1, _cut_dimensions(value.placement, sliced))
        slice_of_value = value._replace(local=sliced.shard_sizes(value.whole), placement=sliced)
        return permute(plan, slice_of_value, target) if is_permutation(sliced, target) else slice_of_value
    middle = _shifted_by_copies(target, value.placement)
    if middle is None or (pairs := _swapped_dimensions(value.placement, middle)) is None:
        return None
    return _plan_steps(plan, _all_to_all(plan, value, middle, pairs), target)


def _to_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices gather the parts that make up a larger one."""
    start = _sliced_sharding(target, value.placement)
    if start is not None:
        if is_permutation(value.placement, start):
            value = permute(plan, value, start)
        add_exchanges(plan, value, pad_for_gather(value.local, value.whole, start, target))
        factors = [a // b for a, b in zip(start.parts, target.parts, strict=True)]
        gathered = gather(plan, value, factors, target.shard_sizes(value.whole))
        return gathered._replace(placement=target)
    middle = _shifted_by_copies(value.placement, target)
    if middle is None:
        return None
    shifted = _plan_steps(plan, value, middle)
    pairs = None if shifted is None else _swapped_dimensions(shifted.placement, target)
    return None if shifted is None or pairs is None else _all_to_all(plan, shifted, target, pairs)


def _try_detours(plan: Plan, value: Value, target: Placement) -> Value | None:
    """The first of the detours of the partitioner that fits; its steps are dropped if it gets stuck."""
    step_count = len(plan.steps)
    resharded = _by_detour(plan, value, target)
    # XLA's dead-code elimination removes what a failed attempt has built.
    if resharded is None:
        del plan.steps[step_count:]
    return resharded


def _by_detour(plan: Plan, value: Value, target: Placement) -> Value | None:
    source = value.placement
    if (split := _split_of_both(value.whole, source, target)) is not None:
        return _reshard_split(plan, value, target, split)
    if target.copies > 1:
        for dimension, parts in enumerate(source.parts):
            if parts > 1 and parts * source.copies == target.copies:
                resharded = _plan_steps(plan, value, replicate_dimension(source, dimension))
                # XLA passes allow_full_replication=false here: a detour that replicates all would be no gain.
                return None if resharded is None else _plan_steps(plan, resharded, target, is_last_resort=False)
        return None
    if source.copies == 1:
        return None
    for dimension, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        if before == 1 != after and not after % source.copies:
            resharded = _plan_steps(plan, value, cut_copies(source, dimension))
            return None if resharded is None else _plan_steps(plan, resharded, target, is_last_resort=False)
    return None


def _reshard_split(
    plan: Plan, value: Value, target: Placement, split: tuple[Placement, Placement, int]
) -> Value | None:
    """Reshards with one dimension taken as two."""
    before, after, dimension = split
    size = value.local[dimension]
    rows = size * before.parts[dimension + 1]
    local, whole, origin = list(value.local), list(value.whole), list(value.origin)
    local[dimension : dimension + 1] = [1, size]
    whole[dimension : dimension + 1] = [whole[dimension] // rows, rows]
    origin[dimension : dimension + 1] = [origin[dimension]] * 2
    divided = Value(tuple(local), tuple(whole), before, tuple(origin))
    resharded = _plan_steps(plan, divided, after, is_last_resort=False)
    if resharded is None:
        return None
    local = list(resharded.local)
    local[dimension : dimension + 2] = [local[dimension] * local[dimension + 1]]
    whole = list(resharded.whole)
    whole[dimension : dimension + 2] = [whole[dimension] * whole[dimension + 1]]
    merged = Value(tuple(local), tuple(whole), merge_dimension(resharded.placement, dimension), value.origin)
    final = _plan_steps(plan, merged, target, is_last_resort=False)
    return None if final is None else final._replace(whole=value.whole)


def _in_groups(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Reshards inside of the groups of devices that equally cut dimensions make."""
    source = value.placement
    equal = [
        dimension for dimension, parts in enumerate(source.parts) if parts > 1 and parts == target.parts[dimension]
    ]
    if not equal:
        return None
    groups = group(source, equal)
    aligned: Groups = align(group(target, equal), groups)
    whole = tuple(value.local[dimension] if dimension in equal else size for dimension, size in enumerate(value.whole))
    devices, count, outer = plan.devices, plan.groups, plan.outer
    plan.devices, plan.groups = len(groups.devices[0]), count * len(groups.devices)
    plan.outer = (*outer, groups.devices)
    resharded = _plan_steps(plan, Value(value.local, whole, groups.inner, value.origin), aligned.inner)
    plan.devices, plan.groups, plan.outer = devices, count, outer
    if resharded is None:
        return None
    return _plan_steps(
        plan, Value(resharded.local, value.whole, ungroup(aligned, len(source.parts)), value.origin), target
    )


# --- a reshard ---
# What the partitioner does to take an array from one sharding to another, step by step, and the bytes it sends.
#
# Mirrors `PartitionedHlo::Reshard` of xla/service/spmd/spmd_partitioner.cc, as of jaxlib 0.10.2.


# The rules change between releases: this one was compared with its own dump, 1,930 of 1,930 even pairs.
VERSION: Final = "jaxlib 0.10.2"
"""The release whose partitioner the steps are those of."""


@dataclass(frozen=True, slots=True)
class ReshardStep:
    """One operation of the partitioner: a collective in groups of `group_size` devices, or a dynamic-slice.

    `operand` is its operand on one device, padding of uneven parts included. `dimensions` are those gathered, cut, or
    reduced; for an all-to-all, pairs of the one whose parts grow and the one that is cut further. `moving_devices` of
    `devices` send anything.

    >>> from hlo_cli import parse_shape
    >>> step = ReshardStep("all-gather", parse_shape("f32[4,8]"), 8, 8, (1,), 8)
    >>> step.operand_bytes, step.sent_bytes
    (128, 896)
    """

    operation: str
    operand: ArrayShape
    devices: int
    group_size: int
    dimensions: tuple[int, ...]
    moving_devices: int
    formation: Formation | None = None

    @property
    def groups(self) -> DeviceGroups | None:
        """The groups of devices, or the pairs of source and target of a permute; None for a slice.

        Edges of uneven parts, which have `dimensions`, are permuted inside of groups.
        """
        if not self.is_collective:
            return None
        if self.formation is None:
            is_all = self.operation == opcodes.ALL_REDUCE
            return (tuple(range(self.devices)),) if is_all else None
        return self.formation.groups() if self.formation.target is None else self.formation.pairs()

    @property
    def operand_bytes(self) -> int:
        """The bytes of the operand on one device, without the padding of tiles."""
        return self.operand.logical_bytes

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends at least, rounded up; the mean over all devices for a collective-permute."""
        if not self.is_collective:
            return 0
        if self.operation == opcodes.COLLECTIVE_PERMUTE:
            return ceil(Fraction(self.operand_bytes * self.moving_devices, max(self.devices, 1)))
        return ceil(wire_bytes(self.operation, self.operand_bytes, self.group_size))

    @property
    def is_collective(self) -> bool:
        """Whether devices exchange anything."""
        return self.operation != opcodes.DYNAMIC_SLICE


@dataclass(frozen=True, slots=True)
class Resharding(WithItems):
    """How the partitioner takes a whole array from the sharding `source` to the sharding `target`.

    `is_full_rematerialization` tells that it warns, because it replicates the array on the way; `is_estimate` that
    the steps were not confirmed. If the partitioner fails on the pair, `problem` says so, and there are no steps.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> source, target = map(sharding_of, ("{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"))
    >>> found = reshard(parse_shape("f32[8,8]"), source, target)
    >>> [(step.operation, step.group_size, step.sent_bytes) for step in found.steps], found.is_full_rematerialization
    ([('all-to-all', 4, 48)], False)
    """

    shape: ArrayShape
    source: Placement
    target: Placement
    devices: int
    steps: tuple[ReshardStep, ...]
    is_full_rematerialization: bool = False
    is_estimate: bool = False
    problem: str = ""

    def __repr__(self) -> str:
        steps = " → ".join(step.operation for step in self.steps) or "no steps"
        return f"<Resharding {brief_name(str(self.shape))}: {brief_name(steps)}, {self.sent_bytes:,} bytes sent>"

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends in all steps."""
        return sum(step.sent_bytes for step in self.steps)

    @property
    def collectives(self) -> tuple[ReshardStep, ...]:
        """The steps in which devices exchange anything."""
        return Items(step for step in self.steps if step.is_collective)

    @property
    def source_shard(self) -> ArrayShape:
        """The shape that a device holds before."""
        return shard_shape(self.shape, self.source)

    @property
    def target_shard(self) -> ArrayShape:
        """The shape that a device holds after."""
        return shard_shape(self.shape, self.target)


AnyPlacement = AnySharding | Placement


def reshard(
    shape: Shape | str, source: AnyPlacement | str, target: AnyPlacement | str, *, device_count: int | None = None
) -> Resharding:
    """The steps that take an array of this whole shape from one sharding to another.

    The number of devices is that of the shardings; `device_count` gives it where neither lists its devices. HloError if
    ranks or devices do not fit, and for shardings that the partitioner does not change: manual, unreduced, unknown.
    The shape and the shardings can be texts.

    >>> found = reshard("f32[10]", "{devices=[4]<=[4]}", "{replicated}")
    >>> [(step.operation, str(step.operand), step.group_size) for step in found.steps]
    [('all-gather', 'f32[3]{0}', 4)]
    """
    array = array_of(shape)
    expect(int | None, "a number of devices", device_count)
    source, target = as_sharding(source, array.rank), as_sharding(target, array.rank)
    before, after = _placement_of(source), _placement_of(target)
    counts = [count for each in (source, target) if (count := _device_count_of(each)) is not None]
    if len(set(counts)) > 1:
        raise HloError(f"the shardings are of {counts[0]:,} and {counts[1]:,} devices")
    devices = counts[0] if counts else device_count
    _check_pair(array, before, after)
    if devices is None:
        if before.kind is ShardingType.MAXIMAL and before != after:
            raise HloError("the shardings do not list their devices", hint="give the number of devices")
        devices = 1
    elif before != after:
        _check_maximal(before, after, devices)
    plan = Plan(devices)
    value = Value(before.shard_sizes(array.sizes), array.sizes, before, tuple(range(array.rank)))
    try:
        _plan_steps(plan, value, after)
    except PartitionerCrashError:
        problem = f"the partitioner of {VERSION} divides by zero on this pair of shardings"
        return Resharding(array, before, after, devices, (), problem=problem)
    steps = tuple(_step_of(array, step, devices) for step in plan.steps)
    return Resharding(array, before, after, devices, steps, bool(plan.warnings), plan.is_estimate)


def _placement_of(sharding: AnyPlacement) -> Placement:
    if isinstance(sharding, TupleSharding):
        raise HloError("a tuple of shardings is resharded one element after the other")
    return sharding if isinstance(sharding, Placement) else placement_of(sharding)


def _device_count_of(sharding: AnyPlacement) -> int | None:
    return None if isinstance(sharding, TupleSharding) else devices_of(sharding)


def _check_pair(array: ArrayShape, before: Placement, after: Placement) -> None:
    """Raises HloError for a pair that the partitioner does not reshard."""
    if UNBOUNDED in array.dimensions:
        raise HloError(f"{array.to_string(layout=False)} has a dimension of unknown size")
    for placement in (before, after):
        placement.shard_sizes(array.sizes)
        if placement.kind in (ShardingType.MANUAL, ShardingType.UNREDUCED, ShardingType.UNKNOWN):
            raise HloError(f"a sharding that is {placement.kind} cannot be resharded")
        if any(each.kind is not ShardingType.REPLICATED for each in placement.subgroups):
            raise HloError("a sharding with manual or unreduced subgroups cannot be resharded alone")
    if before.is_tiled and after.is_tiled and sorted(before.devices) != sorted(after.devices):
        raise HloError("the shardings are of different devices")


def _check_maximal(before: Placement, after: Placement, devices: int) -> None:
    """Raises HloError if the only device of a maximal sharding is none of the others."""
    listed = next((each.devices for each in (before, after) if each.is_tiled), range(devices))
    for each in (before, after):
        if each.kind is ShardingType.MAXIMAL and each.devices[0] not in listed:
            raise HloError("the shardings are of different devices")


def _step_of(array: ArrayShape, step: PlannedStep, devices: int) -> ReshardStep:
    operand = replace(array, dimensions=step.operand, layout=replace(array.layout, split_configs=()))
    return ReshardStep(step.operation, operand, devices, step.group_size, step.dimensions, step.moving, step.formation)


# --- detours ---
# A sharding between two others through which the partitioner goes without full rematerialization.
#
# The one through which a device sends the fewest bytes is taken, then the one of the fewest steps. Candidates are tried
# in the order of the bytes that devices need at least, until none can be better.


# The bound on (rank + 1)^primes placements; chosen, not measured, and the answer states when it was reached.
MAX_CANDIDATES: Final = 20_000
"""The number of shardings that are compared; fewer on more than 256 devices."""
# At 256 devices all candidates; more devices cost in proportion.
_MAX_COORDINATES: Final = MAX_CANDIDATES * 256
# Each trial runs the planner twice, so a tenth of the candidates; chosen, not measured.
_MAX_TRIALS: Final = 2_000
"""The number of shardings whose steps are computed; fewer on more than 256 devices."""
# A sharding along parts of axes must save 5% to be worth having no PartitionSpec; chosen, not measured.
_WHOLE_WEIGHT: Final = 100
_PART_WEIGHT: Final = 105
"""The weights of bytes for shardings along whole axes, and along parts of axes, which have no PartitionSpec."""
# Three warnings for one set of counts make a fourth likely; chosen, not measured.
_MAX_WARNED: Final = 3
"""The number of shardings with warnings after which others with the same numbers of parts are not tried."""


@dataclass(frozen=True, slots=True)
class Detour:
    """The way from one sharding to another through `by`: both halves, and the number of shardings that were compared.

    `is_complete` is False if there are more shardings than can be compared.
    """

    by: Placement
    first: Resharding
    second: Resharding
    candidates: int
    is_complete: bool

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends on the whole way."""
        return self.first.sent_bytes + self.second.sent_bytes


class _PricedDetour(NamedTuple):
    """A way through a sharding: its weighted bytes and its steps, and both halves."""

    cost: tuple[int, int]
    by: Placement
    first: Resharding
    second: Resharding | None


def find_detour(direct: Resharding, mesh: Mesh | None = None) -> Detour | None:
    """The best sharding to go through; None if the direct way needs none, or if no candidate avoids the warning.

    Its axes are those of the mesh, if one is given. One along whole axes is preferred if it sends 5% more at most.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> source, target = map(sharding_of, ("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"))
    >>> found = find_detour(reshard(parse_shape("f32[16,16,16]"), source, target))
    >>> found.by.parts, found.first.sent_bytes, found.second.sent_bytes
    ((2, 4, 1), 1536, 1024)
    """
    if not (direct.is_full_rematerialization or direct.problem):
        return None
    sizes = direct.shape.sizes
    fits = mesh is not None and mesh.device_count == direct.devices
    grid = grid_of_mesh(mesh) if mesh is not None and fits else grid_of(direct.source, direct.target, direct.devices)
    limit = min(MAX_CANDIDATES, max(1, _MAX_COORDINATES // direct.devices))
    compared = list(islice(candidates(grid, sizes, (direct.source, direct.target)), limit + 1))
    is_complete = len(compared) <= limit
    del compared[limit:]
    best: _PricedDetour | None = None
    max_trials = max(1, min(_MAX_TRIALS, _MAX_TRIALS * 256 // direct.devices))
    tried, blocked = 0, Counter[tuple[int, ...]]()
    for needed, candidate in _sorted_by_need(direct, grid, compared):
        parts = tuple(grid.parts_of(candidate))
        if blocked[parts] >= _MAX_WARNED:
            continue  # whether the partitioner warns rarely depends on more than the numbers of parts
        # Candidates are sorted by the least they need, so no later one can be better.
        if best is not None and needed * _WHOLE_WEIGHT > best.cost[0]:
            break
        if tried == max_trials:
            is_complete = False
            break
        by = grid.placement(candidate)
        if by in (direct.source, direct.target):
            continue
        tried += 1
        weight = _WHOLE_WEIGHT if grid.is_whole(candidate) else _PART_WEIGHT
        detour = _detour_through(direct, by, weight, None if best is None else best.cost)
        if detour is None:
            blocked[parts] += 1
        elif detour.second is not None:
            blocked[parts] = -len(compared)  # never
            best = detour if best is None or detour.cost < best.cost else best
    if best is None or best.second is None:
        return None
    return Detour(best.by, best.first, best.second, len(compared), is_complete)


def _sorted_by_need(direct: Resharding, grid: Grid, compared: list[Candidate]) -> Iterator[tuple[float, Candidate]]:
    """The candidates with the bytes that devices need at least, the fewest first."""
    from hlo_cli.analysis.sharding.detour_bounds import least_elements

    needs = least_elements(grid, compared, direct.shape.sizes, direct.source, direct.target)
    bits = direct.shape.element_bits
    for number in sorted(range(len(compared)), key=needs.__getitem__):
        # 0.999 for the rounding of float32 in the bounds: a bound must not exceed the truth.
        yield needs[number] * 0.999 * bits / 8, compared[number]


def _detour_through(
    direct: Resharding, by: Placement, weight: int, limit: tuple[int, int] | None
) -> _PricedDetour | None:
    """The way through a sharding with its bytes and steps, without its second half if the first exceeds the limit.

    None if the partitioner warns.
    """
    first = reshard(direct.shape, direct.source, by, device_count=direct.devices)
    if first.is_full_rematerialization or first.problem:
        return None
    cost = first.sent_bytes * weight, len(first.steps)
    if limit is not None and cost >= limit:
        return _PricedDetour(cost, by, first, None)
    second = reshard(direct.shape, by, direct.target, device_count=direct.devices)
    if second.is_full_rematerialization or second.problem:
        return None
    return _PricedDetour((cost[0] + second.sent_bytes * weight, cost[1] + len(second.steps)), by, first, second)


# --- shardings nearby ---
# Shardings near to the given ones: those that need no collective, and a mesh that can name the axes of several.


# Chosen, not measured: each one is planned in full.
_MAX_NEAREST: Final = 2_000
"""The number of shardings without a collective that are compared."""
# Without x, y, and z, which name the arrays in examples.
_AXIS_NAMES: Final = "abcdefghijklmnopqrstuvw"


def nearest_without_collectives(direct: Resharding) -> Resharding | None:
    """The way to the target from the nearest sharding that devices reach by slicing what they hold.

    Of several from which a device sends equally little, the one with the largest shards. None if the direct way needs
    no collective, if devices have no copies to slice, or if a device sends more from every other sharding.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> texts = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[1,4]<=[4]}"
    >>> found = nearest_without_collectives(reshard(parse_shape("f32[8,8]"), *map(sharding_of, texts)))
    >>> found.source.parts, found.sent_bytes
    ((4, 1), 48)
    """
    if direct.source.copies == 1 or not direct.collectives:
        return None
    best: Resharding | None = None
    for near in islice(_sliced_placements(direct.source, direct.shape.sizes), _MAX_NEAREST):
        resharding = reshard(direct.shape, near, direct.target, device_count=direct.devices)
        if resharding.problem or resharding.is_full_rematerialization:
            # A slice that makes the rest more expensive is no help.
            continue
        if resharding.sent_bytes > direct.sent_bytes:
            continue
        if best is None or _distance(resharding) < _distance(best):
            best = resharding
    return best


def _distance(resharding: Resharding) -> tuple[int, int]:
    """What is left to do from a sharding: the bytes to send, then those to slice off."""
    return resharding.sent_bytes, -resharding.source_shard.logical_bytes


def _sliced_placements(source: Placement, sizes: Sequence[int]) -> Iterator[Placement]:
    """The shardings whose parts are within those of a partly replicated one."""
    primes = prime_factors(source.copies)
    rank = len(source.parts)
    shape = [*source.parts, *primes]
    for homes in product(range(rank + 1), repeat=len(primes)):
        axes_on = [[rank + axis for axis, home in enumerate(homes) if home == d] for d in range(rank + 1)]
        parts = [source.parts[d] * prod(shape[axis] for axis in axes_on[d]) for d in range(rank)]
        if parts == list(source.parts) or any(count > size for count, size in zip(parts, sizes, strict=True)):
            continue
        for orders in product(*map(permutations, axes_on[:-1])):
            order = [*chain.from_iterable((d, *added) for d, added in enumerate(orders)), *axes_on[-1]]
            yield tiled(parts, prod(shape[axis] for axis in axes_on[-1]), permuted(source.devices, shape, order))


def mesh_for(placements: Sequence[Placement], devices: int) -> Mesh | None:
    """A mesh with axes a, b, … in which all shardings divide dimensions along whole axes; None if there is none.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> texts = "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"
    >>> print(mesh_for([placement_of(sharding_of(text)) for text in texts], 8))
    mesh['a'=4,'b'=2]
    """
    divided = [placement for placement in placements if placement.is_tiled]
    if not divided:
        return None
    grid = grid_of(divided[0], divided[-1], devices)
    fine = [(part,) for part in range(len(grid.sizes))]
    # Coarse axes first: fewer names to read. Prime parts only if those do not suffice.
    for axes in (grid.axes, fine):
        mesh = _mesh_of_axes(grid, axes)
        if mesh is None:
            continue
        specs = [partition_spec(placement, mesh) for placement in divided]
        if all(spec is not None and not has_parts(spec) for spec in specs):
            return mesh
    return None


def _mesh_of_axes(grid: Grid, axes: Sequence[Sequence[int]]) -> Mesh | None:
    if len(axes) > len(_AXIS_NAMES):
        return None
    named = tuple(
        MeshAxis(name, prod(grid.sizes[part] for part in axis)) for name, axis in zip(_AXIS_NAMES, axes, strict=False)
    )
    count = len(grid.devices)
    is_iota = grid.devices == IotaTransform((count,)).devices()
    return Mesh(named, None if is_iota else grid.devices)
