"""The rules of the partitioner, tried in its order, that take an array from one sharding to another.

Mirrors `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc. What a failed attempt would have sent
is dropped, as XLA removes dead code, but the warnings of it stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.analysis.sharding.reshard_padding import (
    Exchange,
    pad_dimension,
    pad_for_gather,
    pad_for_slice,
    padded_sizes,
)
from hlo_cli.analysis.sharding.reshard_rules import (
    Pairs,
    is_permutation,
    shifted_by_copies,
    sliced_sharding,
    split_of_both,
    swapped_dimensions,
)
from hlo_cli.analysis.sharding.tile_arrays import (
    REPLICATED,
    Groups,
    align,
    cut_copies,
    dimensions_of,
    group,
    merge_dimension,
    move_cuts,
    replicate_dimension,
    ungroup,
)
from hlo_cli.ir.attributes.sharding import ShardingType


class Value(NamedTuple):
    """An array on the devices: the sizes of a shard and of the whole, and the dimension of the array each is of."""

    local: tuple[int, ...]
    whole: tuple[int, ...]
    placement: Placement
    origin: tuple[int, ...]


class PlannedStep(NamedTuple):
    """One operation: the sizes of its operand, the devices of a group, and those that send."""

    operation: str
    operand: tuple[int, ...]
    group_size: int
    dimensions: tuple[int, ...]
    moving: int


class Warned(NamedTuple):
    """A full rematerialization: the shardings as the partitioner sees them, and the sizes of the shard."""

    source: Placement
    target: Placement
    local: tuple[int, ...]


class PartitionerCrashError(Exception):
    """The partitioner of XLA divides by zero on this pair of shardings."""


class Plan:
    """The steps so far, and the warnings; `devices` is the number of devices at hand, in `groups` equal groups."""

    def __init__(self, devices: int) -> None:
        self.steps = list[PlannedStep]()
        self.warnings = list[Warned]()
        self.devices = devices
        self.groups = 1
        self.is_estimate = False

    def add(
        self, operation: str, value: Value, group_size: int, dimensions: Sequence[int] = (), moving: int = -1
    ) -> None:
        """Adds a step with the value as its operand; all devices send unless `moving` is given."""
        self.steps.append(
            PlannedStep(
                operation,
                value.local,
                group_size,
                tuple(dict.fromkeys(value.origin[at] for at in dimensions)),
                self.devices * self.groups if moving < 0 else moving * self.groups,
            )
        )


def reshard(plan: Plan, value: Value, target: Placement, *, is_last_resort: bool = True) -> Value | None:
    """The value in the target sharding; None if only full rematerialization would do and that is not allowed."""
    source = value.placement
    if source == target:
        return value
    if is_permutation(source, target):
        return _permute(plan, value, target)
    if (pairs := swapped_dimensions(source, target)) is not None:
        return _all_to_all(plan, value, target, pairs)
    if target.is_tiled and source.copies > 1 and (found := _from_copies(plan, value, target)) is not None:
        return found
    if source.is_tiled and target.copies > 1 and (found := _to_copies(plan, value, target)) is not None:
        return found
    if source.kind is not ShardingType.REPLICATED:
        if target.kind is not ShardingType.REPLICATED:
            if source.is_tiled and target.is_tiled:
                if (found := _attempt(plan, value, target)) is not None:
                    return found
                if (found := _in_groups(plan, value, target)) is not None:
                    return found
            if not is_last_resort:
                return None
            plan.warnings.append(Warned(source, target, value.local))
        return reshard(plan, _replicate(plan, value), target)
    if not target.is_tiled:
        return value._replace(placement=target)  # one device keeps what all have
    padded = value._replace(local=padded_sizes(value.whole, target))
    plan.add("dynamic-slice", padded, 1, _cut(REPLICATED, target))
    return value._replace(local=target.shard_sizes(value.whole), placement=target)


def _permute(plan: Plan, value: Value, target: Placement) -> Value:
    """Every shard goes to the device that has it in the target."""
    moving = sum(a != b for a, b in zip(value.placement.devices, target.devices, strict=True))
    plan.add("collective-permute", value, plan.devices, moving=moving)
    return value._replace(placement=target)


def _all_to_all(plan: Plan, value: Value, target: Placement, pairs: Pairs) -> Value:
    """Cuts move between the dimensions of each pair; pairs that share no dimension go in one operation."""
    seen = set[int]()
    joined, rest = list[tuple[int, int]](), list[tuple[int, int]]()
    for pair in sorted(pairs, key=lambda pair: pair[1]):
        is_even = all(
            not value.whole[at] % placement.parts[at]
            for at, placement in zip(pair, (value.placement, target), strict=True)
        )
        if seen.isdisjoint(pair) and is_even:
            joined.append(pair)
            seen.update(pair)
        else:
            rest.append(pair)
    if len(joined) < 2:
        return _one_by_one(plan, value, target, pairs)
    return _one_by_one(plan, _exchange(plan, value, joined), target, rest)


def _one_by_one(plan: Plan, value: Value, target: Placement, pairs: Sequence[tuple[int, int]]) -> Value:
    for source, at in pairs:
        if value.placement == target:
            return value
        value = _swap(plan, value, source, at)
    return value if value.placement == target else _permute(plan, value, target)


def _exchange(plan: Plan, value: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """One all-to-all over the product of the pairs; crashes where joining pairs broke the order of the others."""
    dims = dimensions_of(value.placement)
    if any(dims[source] % dims[at] for source, at in pairs):
        raise PartitionerCrashError
    local = list(value.local)
    for source, at in pairs:
        size = dims[source] // dims[at]
        local[source] *= size
        local[at] //= size
    size = prod(dims[source] // dims[at] for source, at in pairs)
    plan.add("all-to-all", value, size, [at for pair in pairs for at in pair])
    return value._replace(local=tuple(local), placement=move_cuts(value.placement, pairs))


def _swap(plan: Plan, value: Value, source: int, at: int) -> Value:
    """One all-to-all; the dimension that is cut further is padded first, and the other one trimmed after."""
    before = value.placement
    dims = dimensions_of(before)
    if dims[source] % dims[at]:
        raise PartitionerCrashError
    parts = dims[source]
    wanted = -(-value.whole[at] // parts) * parts
    value = _recut(plan, value, at, wanted - value.local[at] * dims[at])
    size = dims[source] * value.local[source]
    value = _exchange(plan, value, [(source, at)])
    wanted = -(-value.whole[source] // dims[at]) * dims[at]
    whole = tuple(size if d == source else each for d, each in enumerate(value.whole))
    trimmed = _recut(plan, value._replace(whole=whole), source, wanted - size)
    return trimmed._replace(whole=value.whole)


def _recut(plan: Plan, value: Value, at: int, more: int) -> Value:
    """The value with more elements, or fewer, at the end of a dimension, whose parts are equal then."""
    if (padded := pad_dimension(value.local, value.whole, value.placement, at, more)) is not None:
        _add_exchanges(plan, value, padded.exchanges)
        return value._replace(local=padded.local)
    gathered = reshard(plan, value, replicate_dimension(value.placement, at))
    if gathered is None:
        raise PartitionerCrashError
    parts = value.placement.parts[at]
    size = -(-(value.whole[at] + more) // parts)
    whole = tuple(size * parts if d == at else each for d, each in enumerate(gathered.local))
    plan.add("dynamic-slice", gathered._replace(local=whole), 1, [at])
    return value._replace(local=tuple(size if d == at else each for d, each in enumerate(gathered.local)))


def _add_exchanges(plan: Plan, value: Value, exchanges: Sequence[Exchange]) -> None:
    for each in exchanges:
        operand = value._replace(local=each.operand)
        plan.add("collective-permute", operand, plan.devices, [each.dimension], moving=each.moving)


def _cut(before: Placement, after: Placement) -> list[int]:
    """The dimensions that one sharding cuts further than another."""
    return [at for at, parts in enumerate(after.parts) if parts > (before.parts[at] if before.is_tiled else 1)]


def _from_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices slice what they have copies of."""
    sliced = sliced_sharding(value.placement, target)
    if sliced is not None:
        padded = pad_for_slice(value.local, value.whole, value.placement, sliced)
        _add_exchanges(plan, value, padded.exchanges)
        plan.add("dynamic-slice", value._replace(local=padded.local), 1, _cut(value.placement, sliced))
        found = value._replace(local=sliced.shard_sizes(value.whole), placement=sliced)
        return _permute(plan, found, target) if is_permutation(sliced, target) else found
    middle = shifted_by_copies(target, value.placement)
    if middle is None or (pairs := swapped_dimensions(value.placement, middle)) is None:
        return None
    return reshard(plan, _all_to_all(plan, value, middle, pairs), target)


def _to_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices gather the parts that make up a larger one."""
    start = sliced_sharding(target, value.placement)
    if start is not None:
        if is_permutation(value.placement, start):
            value = _permute(plan, value, start)
        _add_exchanges(plan, value, pad_for_gather(value.local, value.whole, start, target))
        factors = [a // b for a, b in zip(start.parts, target.parts, strict=True)]
        gathered = _gather(plan, value, factors, target.shard_sizes(value.whole))
        return gathered._replace(placement=target)
    middle = shifted_by_copies(value.placement, target)
    if middle is None:
        return None
    found = reshard(plan, value, middle)
    pairs = None if found is None else swapped_dimensions(found.placement, target)
    return None if found is None or pairs is None else _all_to_all(plan, found, target, pairs)


def _gather(plan: Plan, value: Value, factors: Sequence[int], sizes: Sequence[int]) -> Value:
    """Gathers dimensions, the last one first, to these sizes.

    Dimensions of one element, and those with at most half as many elements as parts, are summed instead: each device
    has zeros where others have data.
    """
    cut = [at for at, factor in enumerate(factors) if factor > 1]
    single = [at for at in cut if sizes[at] == value.local[at]]
    summed = [at for at in cut if at not in single and sizes[at] <= factors[at] // 2]
    gathered = [at for at in cut if at not in single and at not in summed]
    final = tuple(sizes[at] if at in cut else size for at, size in enumerate(value.local))
    if single:
        plan.add("all-reduce", value, prod(factors[at] for at in single), single)
    for at in reversed(gathered):
        plan.add("all-gather", value, factors[at], [at])
        value = value._replace(local=tuple(s * factors[at] if d == at else s for d, s in enumerate(value.local)))
    for at in reversed(summed):
        plan.add("all-reduce", value._replace(local=final), factors[at], [at])
    return value._replace(local=final)


def _replicate(plan: Plan, value: Value) -> Value:
    """Every device gathers all of the array."""
    placement = value.placement
    if not placement.is_tiled:
        plan.add("all-reduce", value, plan.devices)
        return value._replace(placement=REPLICATED)
    return _gather(plan, value, placement.parts, value.whole)._replace(placement=REPLICATED)


def _attempt(plan: Plan, value: Value, target: Placement) -> Value | None:
    """The first of the detours of the partitioner that fits; its steps are dropped if it gets stuck."""
    mark = len(plan.steps)
    found = _by_detour(plan, value, target)
    if found is None:
        del plan.steps[mark:]
    return found


def _by_detour(plan: Plan, value: Value, target: Placement) -> Value | None:
    source = value.placement
    if (split := split_of_both(value.whole, source, target)) is not None:
        return _split(plan, value, target, split)
    if target.copies > 1:
        for at, parts in enumerate(source.parts):
            if parts > 1 and parts * source.copies == target.copies:
                found = reshard(plan, value, replicate_dimension(source, at))
                return None if found is None else reshard(plan, found, target, is_last_resort=False)
        return None
    if source.copies == 1:
        return None
    for at, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        if before == 1 != after and not after % source.copies:
            found = reshard(plan, value, cut_copies(source, at))
            return None if found is None else reshard(plan, found, target, is_last_resort=False)
    return None


def _split(plan: Plan, value: Value, target: Placement, split: tuple[Placement, Placement, int]) -> Value | None:
    """Reshards with one dimension taken as two."""
    before, after, at = split
    size = value.local[at]
    rows = size * before.parts[at + 1]
    local, whole, origin = list(value.local), list(value.whole), list(value.origin)
    local[at : at + 1] = [1, size]
    whole[at : at + 1] = [whole[at] // rows, rows]
    origin[at : at + 1] = [origin[at]] * 2
    divided = Value(tuple(local), tuple(whole), before, tuple(origin))
    found = reshard(plan, divided, after, is_last_resort=False)
    if found is None:
        return None
    local = list(found.local)
    local[at : at + 2] = [local[at] * local[at + 1]]
    whole = list(found.whole)
    whole[at : at + 2] = [whole[at] * whole[at + 1]]
    merged = Value(tuple(local), tuple(whole), merge_dimension(found.placement, at), value.origin)
    done = reshard(plan, merged, target, is_last_resort=False)
    return None if done is None else done._replace(whole=value.whole)


def _in_groups(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Reshards inside of the groups of devices that equally cut dimensions make."""
    source = value.placement
    equal = [at for at, parts in enumerate(source.parts) if parts > 1 and parts == target.parts[at]]
    if not equal:
        return None
    groups = group(source, equal)
    aligned: Groups = align(group(target, equal), groups)
    whole = tuple(value.local[at] if at in equal else size for at, size in enumerate(value.whole))
    outer = plan.devices, plan.groups
    plan.devices, plan.groups = len(groups.devices[0]), plan.groups * len(groups.devices)
    found = reshard(plan, Value(value.local, whole, groups.inner, value.origin), aligned.inner)
    plan.devices, plan.groups = outer
    if found is None:
        return None
    return reshard(plan, Value(found.local, value.whole, ungroup(aligned, len(source.parts)), value.origin), target)
