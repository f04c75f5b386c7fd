"""Replica groups: number of devices per group, and meaning of the ids in it.

Mirrors `GetCollectiveOpGroupMode` and `GetSubgroupSize` of xla/service/collective_ops_utils.cc.
"""

from __future__ import annotations

from math import prod
from typing import Final

from hlo_cli.ir.attributes.enumerations import CollectiveOpGroupMode
from hlo_cli.ir.attributes.sharding import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import taking
from hlo_cli.source import HloError

_GLOBAL_IDS: Final = taking("use_global_device_ids") | {"reduce-scatter-start"}
"""Opcodes that may have `use_global_device_ids`."""


def collective_op_group_mode(instruction: Instruction) -> CollectiveOpGroupMode:
    """Returns what the ids in the replica groups of a collective denote.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), channel_id=1, dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> print(collective_op_group_mode(parse_module(text).entry.root))
    cross_replica_and_partition
    """
    has_channel = instruction.attribute("channel_id") is not None
    # `GetCollectiveOpGroupMode` of collective_ops_utils.cc: without the attribute, a channel_id means partitions.
    if instruction.opcode not in _GLOBAL_IDS:
        return CollectiveOpGroupMode.CROSS_PARTITION if has_channel else CollectiveOpGroupMode.CROSS_REPLICA
    is_global = instruction.flag("use_global_device_ids")
    if not has_channel:
        if is_global:
            message = f"{instruction.opcode} %{instruction.name}: use_global_device_ids=true requires a channel_id"
            raise HloError(message, instruction.span)
        return CollectiveOpGroupMode.CROSS_REPLICA
    return CollectiveOpGroupMode.FLATTENED_ID if is_global else CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION


def subgroup_size(instruction: Instruction, module: Module | None = None) -> int | None:
    """Returns the number of devices per group; None if it depends on the module and `module` is not given.

    Also None if the text of the groups is not in a known form, which is not the same as no groups.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1},{2,3}}")
    >>> subgroup_size(module.entry.root)
    2
    """
    mode = collective_op_group_mode(instruction)
    if has_unreadable_groups(instruction):
        return None
    listed = _size_of_first_group(instruction)
    if listed is not None and mode is not CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION:
        return listed
    if module is None:
        return None
    replicas, partitions = module.replica_count, module.num_partitions
    match mode:
        case CollectiveOpGroupMode.CROSS_REPLICA:
            return replicas
        case CollectiveOpGroupMode.CROSS_PARTITION:
            return partitions
        case CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION:
            # Groups list replicas here, and every partition of each takes part.
            return (replicas if listed is None else listed) * partitions
        case CollectiveOpGroupMode.FLATTENED_ID:
            return replicas * partitions


def lists_groups(instruction: Instruction) -> bool:
    """Returns whether a collective lists its groups; otherwise all devices form one.

    >>> from hlo_cli import parse_module
    >>> lists_groups(parse_module("r = f32[2] all-gather(f32[2] a), dimensions={0}, replica_groups={}").entry.root)
    False
    """
    groups = instruction.replica_groups
    return groups is not None and not (isinstance(groups, CollectiveDeviceList) and not groups.listed)


def has_unreadable_groups(instruction: Instruction) -> bool:
    """Returns whether a collective has groups in a form that is not known.

    >>> from hlo_cli import parse_module
    >>> has_unreadable_groups(parse_module("r = f32[2] all-reduce(f32[2] a), replica_groups=torus(2)").entry.root)
    True
    """
    return instruction.replica_groups is None and instruction.attribute("replica_groups") is not None


def _size_of_first_group(instruction: Instruction) -> int | None:
    """Returns the size of the first group, None if no groups are listed."""
    match instruction.replica_groups:
        case CollectiveDeviceList(listed=groups) if groups:
            # XLA requires groups of equal size where the size matters.
            return len(groups[0])
        case IotaReplicaGroupList(num_devices_per_group=size):
            return size
        case MeshAxesReplicaGroupList(mesh=mesh, axes=axes):
            known = {axis.name for axis in mesh.axes}
            return prod(map(mesh.size_of, axes)) if all(axis.name in known for axis in axes) else None
    return None
