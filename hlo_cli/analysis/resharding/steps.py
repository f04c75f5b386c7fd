"""The operations that take a sharded array to another sharding, with the sizes on one device after each.

Mirrors `ReshardWithAllToAll`, `ReshardWithCollectivePermute`, and `ReplicatePartial` of
xla/service/spmd/spmd_partitioner.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.resharding.padding import Exchange, pad_dimension
from hlo_cli.analysis.resharding.tile_arrays import REPLICATED, dimensions_of, move_cuts
from hlo_cli.analysis.sharding.placement import Placement


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
    """The steps so far, and the warnings; `devices` is the number of devices at hand, in `groups` equal groups.

    It is an estimate if a rule was needed that was never seen in the partitioner's own dumps.
    """

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
        origins = tuple(value.origin[at] for at in dimensions)
        operand = [1] * (max(value.origin, default=-1) + 1)
        for size, at in zip(value.local, value.origin, strict=True):
            operand[at] *= size
        self.steps.append(
            PlannedStep(
                operation,
                tuple(operand),
                group_size,
                origins if operation == "all-to-all" else tuple(dict.fromkeys(origins)),
                self.devices * self.groups if moving < 0 else moving * self.groups,
            )
        )


def permute(plan: Plan, value: Value, target: Placement) -> Value:
    """Every shard goes to the device that has it in the target."""
    moving = sum(a != b for a, b in zip(value.placement.devices, target.devices, strict=True))
    plan.add("collective-permute", value, plan.devices, moving=moving)
    return value._replace(placement=target)


def exchange(plan: Plan, value: Value, pairs: Sequence[tuple[int, int]]) -> Value:
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


def swap(plan: Plan, value: Value, source: int, at: int) -> Value:
    """One all-to-all; the dimension that is cut further is padded first, and the other one trimmed after."""
    before = value.placement
    dims = dimensions_of(before)
    if dims[source] % dims[at]:
        raise PartitionerCrashError
    parts = dims[source]
    wanted = -(-value.whole[at] // parts) * parts
    value = _recut(plan, value, at, wanted - value.local[at] * dims[at])
    size = dims[source] * value.local[source]
    value = exchange(plan, value, [(source, at)])
    wanted = -(-value.whole[source] // dims[at]) * dims[at]
    whole = tuple(size if d == source else each for d, each in enumerate(value.whole))
    trimmed = _recut(plan, value._replace(whole=whole), source, wanted - size)
    return trimmed._replace(whole=value.whole)


def gather(plan: Plan, value: Value, factors: Sequence[int], sizes: Sequence[int]) -> Value:
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


def replicate(plan: Plan, value: Value) -> Value:
    """Every device gathers all of the array."""
    placement = value.placement
    if not placement.is_tiled:
        plan.add("all-reduce", value, plan.devices)
        return value._replace(placement=REPLICATED)
    return gather(plan, value, placement.parts, value.whole)._replace(placement=REPLICATED)


def add_exchanges(plan: Plan, value: Value, exchanges: Sequence[Exchange]) -> None:
    """Adds the permutes of edges between devices."""
    for each in exchanges:
        operand = value._replace(local=each.operand)
        plan.add("collective-permute", operand, plan.devices, [each.dimension], moving=each.moving)


def _recut(plan: Plan, value: Value, at: int, more: int) -> Value:
    """The value with more elements, or fewer, at the end of a dimension, whose parts are equal then."""
    if (padded := pad_dimension(value.local, value.whole, value.placement, at, more)) is not None:
        add_exchanges(plan, value, padded.exchanges)
        return value._replace(local=padded.local)
    plan.is_estimate = True  # no pair of the judge came here
    parts = value.placement.parts[at]
    factors = [parts if d == at else 1 for d in range(len(value.whole))]
    sizes = [value.whole[at] if d == at else each for d, each in enumerate(value.local)]
    gathered = gather(plan, value, factors, sizes)
    size = -(-(value.whole[at] + more) // parts)
    whole = tuple(size * parts if d == at else each for d, each in enumerate(gathered.local))
    plan.add("dynamic-slice", gathered._replace(local=whole), 1, [at])
    return value._replace(local=tuple(size if d == at else each for d, each in enumerate(gathered.local)))
