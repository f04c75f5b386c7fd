"""Shardings and groups of devices as drafts of the messages that protos hold them in.

Mirrors `HloSharding::ToProto` of xla/hlo/ir/hlo_sharding.cc.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    AxisRef,
    CollectiveDeviceList,
    IotaReplicaGroupList,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxesReplicaGroupList,
    NamedSharding,
    ReplicaGroups,
    ShardingType,
    TupleSharding,
)
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.write_values import fieldwise_draft


def sharding_draft(sharding: AnySharding) -> MessageBuilder:
    """The `OpSharding` of a sharding.

    >>> from hlo_cli.ir.attributes.sharding import Sharding
    >>> sharding_draft(Sharding(ShardingType.MAXIMAL, device=0)).to_bytes().hex()
    '0801220100'
    """
    draft = MessageBuilder("OpSharding")
    match sharding:
        case TupleSharding():
            return draft.add("type", "tuple").add("tuple_shardings", map(sharding_draft, sharding.elements))
        case NamedSharding():
            return draft.add("named_sharding", named_sharding_draft(sharding))
    draft.add("type", "other" if sharding.type is ShardingType.TILED else str(sharding.type))
    draft.add("replicate_on_last_tile_dim", sharding.replicate_on_last_tile_dim)
    draft.add("last_tile_dims", map(str, sharding.last_tile_dims))
    draft.add("metadata", [fieldwise_draft("OpMetadata", metadata) for metadata in sharding.metadata])
    if sharding.device is not None:
        draft.add("tile_assignment_devices", (sharding.device,))
    if sharding.tiles is not None:
        draft.add("tile_assignment_dimensions", sharding.tiles.dimensions)
        if isinstance(sharding.tiles.devices, IotaTransform):
            draft.add("iota_reshape_dims", sharding.tiles.devices.reshape_dims)
            draft.add("iota_transpose_perm", sharding.tiles.devices.transpose_perm)
        else:
            draft.add("tile_assignment_devices", sharding.tiles.devices)
    if sharding.group is not None:
        draft.add("is_shard_group", True).add("shard_group_id", sharding.group.id)
        draft.add("shard_group_type", "like" if sharding.group.is_like else "as")
    return draft


def named_sharding_draft(sharding: NamedSharding) -> MessageBuilder:
    """The `NamedShardingProto` of a sharding over the axes of a mesh."""
    draft = MessageBuilder("NamedShardingProto")
    draft.add("metadata", [fieldwise_draft("OpMetadata", metadata) for metadata in sharding.metadata])
    mesh = sharding.mesh
    if isinstance(mesh, MaximalMesh):
        return draft.add("mesh", MessageBuilder("MeshProto").add("device_ids", (mesh.device_id,)))
    everything = [AxisRef(axis.name) for axis in mesh.axes]
    draft.add("mesh", _mesh(mesh))
    dimensions = [
        MessageBuilder("DimensionSharding").add("axes", _axes(mesh, d.axes)).add("is_closed", d.is_closed)
        for d in sharding.dim_shardings
    ]
    draft.add("dim_shardings", dimensions)
    draft.add("replicated_axes", _axes(mesh, sharding.replicated_axes))
    draft.add("unreduced_axes", _axes(mesh, everything if sharding.whole == "unreduced" else sharding.unreduced_axes))
    draft.add("manual_axes", _axes(mesh, everything if sharding.whole == "manual" else sharding.manual_axes))
    return draft.add("reduction_op", str(sharding.reduction) if sharding.reduction is not None else None)


def add_replica_groups(draft: MessageBuilder, groups: ReplicaGroups) -> None:
    """Add the groups of a collective to its instruction, in the field for their kind."""
    match groups:
        case CollectiveDeviceList():
            listed = [MessageBuilder("ReplicaGroup").add("replica_ids", group) for group in groups.listed]
            draft.add(
                "collective_device_list", MessageBuilder("CollectiveDeviceListProto").add("replica_groups", listed)
            )
        case IotaReplicaGroupList():
            iota = MessageBuilder("IotaReplicaGroupListProto").add("num_replica_groups", groups.num_replica_groups)
            iota.add("num_devices_per_group", groups.num_devices_per_group)
            iota.add("iota_reshape_dims", groups.transform.reshape_dims)
            iota.add("iota_transpose_perm", groups.transform.transpose_perm)
            draft.add("iota_collective_device_list", iota)
        case MeshAxesReplicaGroupList():
            along = MessageBuilder("MeshAxesReplicaGroupListProto").add("mesh", _mesh(groups.mesh))
            draft.add("mesh_axes_replica_group_list", along.add("axes", _axes(groups.mesh, groups.axes)))


def _mesh(mesh: Mesh) -> MessageBuilder:
    axes = [MessageBuilder("MeshAxis").add("name", axis.name).add("size", axis.size) for axis in mesh.axes]
    draft = MessageBuilder("MeshProto").add("axes", axes)
    ids = mesh.device_ids
    if isinstance(ids, IotaTransform):
        transform = MessageBuilder("IotaTransform").add("reshape_dims", ids.reshape_dims)
        return draft.add("iota_transform", transform.add("transpose_perm", ids.transpose_perm))
    return draft.add("device_ids", ids)


def _axes(mesh: Mesh, axes: Iterable[AxisRef]) -> list[MessageBuilder]:
    return [_axis(mesh, axis) for axis in axes]


def _axis(mesh: Mesh, axis: AxisRef) -> MessageBuilder:
    draft = MessageBuilder("AxisRefProto").add("mesh_axis_index", [each.name for each in mesh.axes].index(axis.name))
    if axis.size is None:
        return draft
    return draft.add("sub_axis_info", MessageBuilder("SubAxis").add("pre_size", axis.pre_size).add("size", axis.size))
