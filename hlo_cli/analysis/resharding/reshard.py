"""What the partitioner does to take an array from one sharding to another, step by step, and the bytes it sends.

Mirrors `PartitionedHlo::Reshard` of xla/service/spmd/spmd_partitioner.cc, as of jaxlib 0.10.2.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Final

from hlo_cli.analysis.resharding.plan import plan_steps
from hlo_cli.analysis.resharding.steps import (
    DeviceGroups,
    Formation,
    PartitionerCrashError,
    Plan,
    PlannedStep,
    Value,
)
from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.analysis.sharding.shards import array_of, devices_of, shard_shape
from hlo_cli.analysis.sharding.wire_bytes import wire_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AnySharding, ShardingType, TupleSharding
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape
from hlo_cli.source import HloError

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
class Resharding:
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

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends in all steps."""
        return sum(step.sent_bytes for step in self.steps)

    @property
    def collectives(self) -> tuple[ReshardStep, ...]:
        """The steps in which devices exchange anything."""
        return tuple(step for step in self.steps if step.is_collective)

    @property
    def source_shard(self) -> ArrayShape:
        """The shape that a device holds before."""
        return shard_shape(self.shape, self.source)

    @property
    def target_shard(self) -> ArrayShape:
        """The shape that a device holds after."""
        return shard_shape(self.shape, self.target)


AnyPlacement = AnySharding | Placement


def reshard(shape: Shape, source: AnyPlacement, target: AnyPlacement, *, device_count: int | None = None) -> Resharding:
    """The steps that take an array of this whole shape from one sharding to another.

    The number of devices is that of the shardings; `device_count` gives it where neither lists its devices. HloError if
    ranks or devices do not fit, and for shardings that the partitioner does not change: manual, unreduced, unknown.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> found = reshard(parse_shape("f32[10]"), sharding_of("{devices=[4]<=[4]}"), sharding_of("{replicated}"))
    >>> [(step.operation, str(step.operand), step.group_size) for step in found.steps]
    [('all-gather', 'f32[3]{0}', 4)]
    """
    array = array_of(shape)
    before, after = _placement(source), _placement(target)
    counts = [count for each in (source, target) if (count := _devices(each)) is not None]
    if len(set(counts)) > 1:
        raise HloError(f"the shardings are of {counts[0]:,} and {counts[1]:,} devices")
    devices = counts[0] if counts else device_count
    _check(array, before, after)
    if devices is None:
        if before.kind is ShardingType.MAXIMAL and before != after:
            raise HloError("the shardings do not list their devices", hint="give the number of devices")
        devices = 1
    elif before != after:
        _check_holder(before, after, devices)
    plan = Plan(devices)
    value = Value(before.shard_sizes(array.sizes), array.sizes, before, tuple(range(array.rank)))
    try:
        plan_steps(plan, value, after)
    except PartitionerCrashError:
        problem = f"the partitioner of {VERSION} divides by zero on this pair of shardings"
        return Resharding(array, before, after, devices, (), problem=problem)
    steps = tuple(_step(array, step, devices) for step in plan.steps)
    return Resharding(array, before, after, devices, steps, bool(plan.warnings), plan.is_estimate)


def _placement(sharding: AnyPlacement) -> Placement:
    if isinstance(sharding, TupleSharding):
        raise HloError("a tuple of shardings is resharded one element after the other")
    return sharding if isinstance(sharding, Placement) else placement_of(sharding)


def _devices(sharding: AnyPlacement) -> int | None:
    return None if isinstance(sharding, TupleSharding) else devices_of(sharding)


def _check(array: ArrayShape, before: Placement, after: Placement) -> None:
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


def _check_holder(before: Placement, after: Placement, devices: int) -> None:
    """Raises HloError if the only device of a maximal sharding is none of the others."""
    listed = next((each.devices for each in (before, after) if each.is_tiled), range(devices))
    for each in (before, after):
        if each.kind is ShardingType.MAXIMAL and each.devices[0] not in listed:
            raise HloError("the shardings are of different devices")


def _step(array: ArrayShape, step: PlannedStep, devices: int) -> ReshardStep:
    operand = replace(array, dimensions=step.operand, layout=replace(array.layout, split_configs=()))
    return ReshardStep(step.operation, operand, devices, step.group_size, step.dimensions, step.moving, step.formation)
