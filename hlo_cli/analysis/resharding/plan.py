"""The rules of the partitioner, tried in its order, that take an array from one sharding to another.

Mirrors `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc. What a failed attempt would have sent
is dropped, as XLA removes dead code, but the warnings of it stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.resharding.padding import pad_for_gather, pad_for_slice, padded_sizes
from hlo_cli.analysis.resharding.rules import (
    Pairs,
    is_permutation,
    shifted_by_copies,
    sliced_sharding,
    split_of_both,
    swapped_dimensions,
)
from hlo_cli.analysis.resharding.steps import (
    Plan,
    Value,
    Warned,
    add_exchanges,
    exchange,
    gather,
    permute,
    replicate,
    swap,
)
from hlo_cli.analysis.resharding.tile_arrays import (
    REPLICATED,
    Groups,
    align,
    cut_copies,
    group,
    merge_dimension,
    replicate_dimension,
    ungroup,
)
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import ShardingType


def plan_steps(plan: Plan, value: Value, target: Placement, *, is_last_resort: bool = True) -> Value | None:
    """The value in the target sharding; None if only full rematerialization would do and that is not allowed."""
    source = value.placement
    if source == target:
        return value
    if is_permutation(source, target):
        return permute(plan, value, target)
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
        return plan_steps(plan, replicate(plan, value), target)
    if not target.is_tiled:
        return value._replace(placement=target)  # one device keeps what all have
    padded = value._replace(local=padded_sizes(value.whole, target))
    plan.add(opcodes.DYNAMIC_SLICE, padded, 1, _cut(REPLICATED, target))
    return value._replace(local=target.shard_sizes(value.whole), placement=target)


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
    return _one_by_one(plan, exchange(plan, value, joined), target, rest)


def _one_by_one(plan: Plan, value: Value, target: Placement, pairs: Sequence[tuple[int, int]]) -> Value:
    for source, at in pairs:
        if value.placement == target:
            return value
        value = swap(plan, value, source, at)
    return value if value.placement == target else permute(plan, value, target)


def _cut(before: Placement, after: Placement) -> list[int]:
    """The dimensions that one sharding cuts further than another."""
    return [at for at, parts in enumerate(after.parts) if parts > (before.parts[at] if before.is_tiled else 1)]


def _from_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices slice what they have copies of."""
    sliced = sliced_sharding(value.placement, target)
    if sliced is not None:
        padded = pad_for_slice(value.local, value.whole, value.placement, sliced)
        add_exchanges(plan, value, padded.exchanges)
        plan.add(opcodes.DYNAMIC_SLICE, value._replace(local=padded.local), 1, _cut(value.placement, sliced))
        found = value._replace(local=sliced.shard_sizes(value.whole), placement=sliced)
        return permute(plan, found, target) if is_permutation(sliced, target) else found
    middle = shifted_by_copies(target, value.placement)
    if middle is None or (pairs := swapped_dimensions(value.placement, middle)) is None:
        return None
    return plan_steps(plan, _all_to_all(plan, value, middle, pairs), target)


def _to_copies(plan: Plan, value: Value, target: Placement) -> Value | None:
    """Devices gather the parts that make up a larger one."""
    start = sliced_sharding(target, value.placement)
    if start is not None:
        if is_permutation(value.placement, start):
            value = permute(plan, value, start)
        add_exchanges(plan, value, pad_for_gather(value.local, value.whole, start, target))
        factors = [a // b for a, b in zip(start.parts, target.parts, strict=True)]
        gathered = gather(plan, value, factors, target.shard_sizes(value.whole))
        return gathered._replace(placement=target)
    middle = shifted_by_copies(value.placement, target)
    if middle is None:
        return None
    found = plan_steps(plan, value, middle)
    pairs = None if found is None else swapped_dimensions(found.placement, target)
    return None if found is None or pairs is None else _all_to_all(plan, found, target, pairs)


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
                found = plan_steps(plan, value, replicate_dimension(source, at))
                return None if found is None else plan_steps(plan, found, target, is_last_resort=False)
        return None
    if source.copies == 1:
        return None
    for at, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        if before == 1 != after and not after % source.copies:
            found = plan_steps(plan, value, cut_copies(source, at))
            return None if found is None else plan_steps(plan, found, target, is_last_resort=False)
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
    found = plan_steps(plan, divided, after, is_last_resort=False)
    if found is None:
        return None
    local = list(found.local)
    local[at : at + 2] = [local[at] * local[at + 1]]
    whole = list(found.whole)
    whole[at : at + 2] = [whole[at] * whole[at + 1]]
    merged = Value(tuple(local), tuple(whole), merge_dimension(found.placement, at), value.origin)
    done = plan_steps(plan, merged, target, is_last_resort=False)
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
    devices, count, outer = plan.devices, plan.groups, plan.outer
    plan.devices, plan.groups = len(groups.devices[0]), count * len(groups.devices)
    plan.outer = (*outer, groups.devices)
    found = plan_steps(plan, Value(value.local, whole, groups.inner, value.origin), aligned.inner)
    plan.devices, plan.groups, plan.outer = devices, count, outer
    if found is None:
        return None
    return plan_steps(plan, Value(found.local, value.whole, ungroup(aligned, len(source.parts)), value.origin), target)
