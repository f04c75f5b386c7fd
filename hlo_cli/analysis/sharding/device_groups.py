"""Groups of devices in a collective, in every mode and every form, as flattened ids.

A module runs as R replicas of P partitions; the flattened id of a device is replica * P + partition. Mirrors
`GetParticipatingDevicesGroups` of xla/service/collective_ops_utils.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.shapes.replica_groups import collective_op_group_mode, lists_groups
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.enumerations import CollectiveOpGroupMode as Mode
from hlo_cli.ir.attributes.sharding import Groups, ReplicaGroups, check_count
from hlo_cli.ir.attributes.value_types import AttributeValue
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, PERMUTES, wrapped_opcode
from hlo_cli.source import HloError

Pairs = tuple[tuple[int, int], ...]
"""Sources and targets."""

_PAIRS: Final = "source_target_pairs"
_MAX_PLACES: Final = 1 << 22
"""Limit on the places in the flattened groups of one collective."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that run a module; if the header does not state them, as many as its collectives name.

    >>> Devices(2, 4).count
    8
    """

    replicas: int
    partitions: int
    is_stated: bool = True

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions


def devices_of(module: Module) -> Devices:
    """The devices that run a module.

    >>> from hlo_cli import parse_module
    >>> header = "HloModule m, replica_count=2, num_partitions=4"
    >>> devices_of(parse_module(header + " ENTRY e { ROOT p = f32[] parameter(0) }"))
    Devices(replicas=2, partitions=4, is_stated=True)
    >>> devices_of(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}")).count
    4
    """
    return cached_per_module(_devices_of, module)


def _devices_of(module: Module) -> Devices:
    replicas, partitions = module.replica_count, module.num_partitions
    if replicas * partitions > 1:
        return Devices(replicas, partitions)
    return Devices(1 + max(map(_largest_id, filter(is_collective, module.instructions)), default=0), 1, is_stated=False)


def _largest_id(instruction: Instruction) -> int:
    try:
        named = device_pairs(instruction, _UNSTATED) or device_groups(instruction, _UNSTATED)
    except HloError:
        return 0
    return max(chain.from_iterable(named), default=0)


_UNSTATED: Final = Devices(1, 1, is_stated=False)


def is_collective(instruction: Instruction) -> bool:
    """Whether an instruction is a collective or the start of one with the attributes of the collective on it.

    >>> from hlo_cli import parse_module
    >>> is_collective(parse_module("s = ((f32[4]), f32[4], u32[]) all-to-all-start(f32[4] p)").entry.root)
    True
    """
    return collective_kind(instruction.opcode) is not None


@lru_cache(maxsize=1024)
def collective_kind(opcode: str) -> str | None:
    """The collective of an opcode, or of the start of it; None for other opcodes.

    >>> collective_kind("all-gather-start"), collective_kind("all-gather-done"), collective_kind("copy-start")
    ('all-gather', None, None)
    """
    if opcode in COLLECTIVES:
        return opcode
    kind = opcode.removesuffix("-start")
    return kind if kind != opcode and (kind in COLLECTIVES or wrapped_opcode(opcode) in COLLECTIVES) else None


def device_groups(instruction: Instruction, devices: Devices) -> Groups:
    """The groups of a collective as flattened ids, in the order of its ranks; empty for a permute, which has pairs.

    HloError if the groups cannot be read, or name a device that does not exist.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[4] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1}}"
    >>> device_groups(parse_module(text).entry.root, Devices(2, 2))
    ((0, 2), (1, 3))
    """
    if collective_kind(instruction.opcode) in PERMUTES:
        return ()
    mode = collective_op_group_mode(instruction)
    if not lists_groups(instruction):
        text = instruction.attribute("replica_groups")
        if text is not None and instruction.replica_groups is None:
            raise HloError(f"cannot read the replica groups {text[:80]}", instruction.span)
        return _flattened(None, mode, devices)
    return _flattened(instruction.replica_groups, mode, devices)


def device_pairs(instruction: Instruction, devices: Devices) -> Pairs:
    """The source–target pairs of a permute as flattened ids; empty for other collectives.

    HloError if the pairs cannot be read, or name a device that does not exist.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2] collective-permute(f32[2] a), channel_id=1, source_target_pairs={{0,1}}"
    >>> device_pairs(parse_module(text).entry.root, Devices(2, 2))
    ((0, 1), (2, 3))
    """
    if collective_kind(instruction.opcode) not in PERMUTES:
        return ()
    value = instruction.value(_PAIRS)
    pairs = _read_pairs(value) if isinstance(value, tuple) or value is None else None
    if pairs is None:
        text = instruction.attribute(_PAIRS) or ""
        raise HloError(f"cannot read the source_target_pairs {text[:80]}", instruction.span)
    is_partition = collective_op_group_mode(instruction) is Mode.CROSS_PARTITION
    return _flattened_pairs(pairs, devices, is_partition=is_partition)


@lru_cache(maxsize=1024)
def _read_pairs(value: tuple[AttributeValue, ...] | None) -> Pairs | None:
    """The pairs in the value of an attribute, None if it has another form."""
    found = list[tuple[int, int]]()
    for pair in value or ():
        match pair:
            case (int(source), int(target)):
                found.append((source, target))
            case _:
                return None
    return tuple(found)


@lru_cache(maxsize=1024)
def _flattened(groups: ReplicaGroups | None, mode: Mode, devices: Devices) -> Groups:
    """The groups as flattened ids; None stands for one group of all ids of the mode."""
    replicas, partitions = devices.replicas, devices.partitions
    limit = {Mode.CROSS_PARTITION: partitions, Mode.FLATTENED_ID: devices.count}.get(mode, replicas)
    if not devices.is_stated:
        limit = check_count(devices.count)
        return (tuple(range(limit)),) if groups is None else groups.groups(limit)
    check_count(devices.count)
    listed = (tuple(range(limit)),) if groups is None else groups.groups(limit)
    _check(listed, limit, mode)
    match mode:
        case Mode.CROSS_REPLICA:
            return _for_each(listed, partitions, lambda replica, partition: replica * partitions + partition)
        case Mode.CROSS_PARTITION:
            return _for_each(listed, replicas, lambda partition, replica: replica * partitions + partition)
        case Mode.CROSS_REPLICA_AND_PARTITION:
            every = range(partitions)
            return tuple(tuple(id * partitions + each for id in group for each in every) for group in listed)
    return listed


def _for_each(groups: Groups, count: int, flattened: Callable[[int, int], int]) -> Groups:
    """The groups once for each of the ids of the other kind."""
    return tuple(tuple(flattened(id, other) for id in group) for group in groups for other in range(count))


@lru_cache(maxsize=1024)
def _flattened_pairs(pairs: Pairs, devices: Devices, *, is_partition: bool) -> Pairs:
    replicas, partitions = devices.replicas, devices.partitions
    if not devices.is_stated:
        return pairs
    check_count(devices.count)
    if is_partition:
        _check(pairs, partitions, Mode.CROSS_PARTITION, repeats=True)
        return tuple((r * partitions + a, r * partitions + b) for r in range(replicas) for a, b in pairs)
    _check(pairs, replicas, Mode.CROSS_REPLICA, repeats=True)
    return tuple((a * partitions + p, b * partitions + p) for p in range(partitions) for a, b in pairs)


_NOUNS: Final = {Mode.CROSS_PARTITION: "partitions", Mode.FLATTENED_ID: "devices"}


def _check(groups: Sequence[Sequence[int]], limit: int, mode: Mode, *, repeats: bool = False) -> None:
    """Raises HloError for an id that does not exist, or is in two groups."""
    ids = [id for group in groups for id in group]
    if len(ids) > _MAX_PLACES:
        raise HloError(f"{len(ids):,} devices are too many to list")
    wrong = next((id for id in ids if not 0 <= id < limit), None)
    if wrong is not None:
        raise HloError(f"a group names device {wrong}, but the module has {limit:,} {_NOUNS.get(mode, 'replicas')}")
    if not repeats and len(set(ids)) < len(ids):
        twice = next(id for id, times in Counter(ids).items() if times > 1)
        raise HloError(f"device {twice} is in more than one group")
