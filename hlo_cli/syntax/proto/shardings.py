"""Shardings and device groups of protos to those of the IR.

Mirrors `HloSharding::FromProto` of xla/hlo/ir/hlo_sharding.cc and the messages of xla/xla_data.proto.
"""

from __future__ import annotations

from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    AxisRef,
    CollectiveDeviceList,
    DimensionSharding,
    IotaReplicaGroupList,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    NamedSharding,
    ReplicaGroups,
    ShardGroup,
    Sharding,
    ShardingType,
    TileAssignment,
    TupleSharding,
)
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.values import metadata_of

Axes = tuple[AxisRef, ...]


def sharding_of(message: Message) -> AnySharding:
    """A sharding; one of a tuple has one for each leaf.

    >>> str(sharding_of(Message("OpSharding", bytes.fromhex("08011a01012200"))))
    '{maximal device=0}'
    """
    if message.word("type") != "tuple":
        return _of_leaf(message)
    return TupleSharding(tuple(map(_of_leaf, message.messages("tuple_shardings"))))


def _of_leaf(message: Message) -> Sharding | NamedSharding:
    if message.has("named_sharding"):
        return named_sharding_of(message.message("named_sharding"))
    kind = message.word("type")
    metadata = tuple(map(metadata_of, message.messages("metadata")))
    if kind == "maximal":
        device = message.integers("tile_assignment_devices")
        return Sharding(ShardingType.MAXIMAL, device=device[0] if device else 0, metadata=metadata)
    if kind == "tuple":
        raise HloError("nested tuple sharding")
    if kind != "other":
        return Sharding(ShardingType(kind), group=_group(message), metadata=metadata)
    return Sharding(
        ShardingType.TILED,
        TileAssignment(message.integers("tile_assignment_dimensions"), _devices(message)),
        replicate_on_last_tile_dim=message.flag("replicate_on_last_tile_dim"),
        last_tile_dims=tuple(map(ShardingType, message.words("last_tile_dims"))),
        group=_group(message),
        metadata=metadata,
    )


def _devices(message: Message) -> tuple[int, ...] | IotaTransform:
    if reshape := message.integers("iota_reshape_dims"):
        return IotaTransform(reshape, message.integers("iota_transpose_perm"))
    return message.integers("tile_assignment_devices")


def _group(message: Message) -> ShardGroup | None:
    if not message.flag("is_shard_group"):
        return None
    return ShardGroup(message.integer("shard_group_id"), is_like=message.word("shard_group_type") == "like")


def named_sharding_of(message: Message) -> NamedSharding:
    """A sharding over the axes of a mesh."""
    mesh = _mesh(message.message("mesh"))
    metadata: tuple[Metadata, ...] = tuple(map(metadata_of, message.messages("metadata")))
    if mesh.device_ids is not None and not mesh.axes and not isinstance(mesh.device_ids, IotaTransform):
        return NamedSharding(MaximalMesh(mesh.device_ids[0]), metadata=metadata)
    dimensions = tuple(
        DimensionSharding(_axes(dimension, "axes", mesh), is_closed=dimension.flag("is_closed"))
        for dimension in message.messages("dim_shardings")
    )
    kinds = ("replicated", "unreduced", "manual")
    replicated, unreduced, manual = (_axes(message, f"{kind}_axes", mesh) for kind in kinds)
    reduction = ReductionKind(message.word("reduction_op"))
    shown = reduction if unreduced and reduction is not ReductionKind.SUM else None
    if not dimensions and (whole := _whole(mesh, replicated, unreduced, manual)):
        return NamedSharding(mesh, reduction=shown, whole=whole, metadata=metadata)
    return NamedSharding(mesh, dimensions, replicated, unreduced, manual, shown, metadata=metadata)


def _whole(mesh: Mesh, replicated: Axes, unreduced: Axes, manual: Axes) -> str:
    """The keyword for a sharding that treats all axes alike."""
    everything = tuple(AxisRef(axis.name) for axis in mesh.axes)
    words: dict[tuple[Axes, Axes, Axes], str] = {
        ((), (), ()): "replicated",
        ((), everything, ()): "unreduced",
        ((), (), everything): "manual",
    }
    return words.get((replicated, unreduced, manual), "")


def _mesh(message: Message) -> Mesh:
    axes = tuple(MeshAxis(axis.text("name"), axis.integer("size")) for axis in message.messages("axes"))
    ids: tuple[int, ...] | IotaTransform | None = message.integers("device_ids") or None
    if message.has("iota_transform"):
        transform = message.message("iota_transform")
        ids = IotaTransform(transform.integers("reshape_dims"), transform.integers("transpose_perm"))
    return Mesh(axes, ids)


def _axes(message: Message, name: str, mesh: Mesh) -> tuple[AxisRef, ...]:
    return tuple(_axis(axis, mesh) for axis in message.messages(name))


def _axis(message: Message, mesh: Mesh) -> AxisRef:
    index = message.integer("mesh_axis_index")
    if not 0 <= index < len(mesh.axes):
        raise HloError(f"unknown mesh axis {index}")
    name = mesh.axes[index].name
    if not message.has("sub_axis_info"):
        return AxisRef(name)
    part = message.message("sub_axis_info")
    return AxisRef(name, part.integer("pre_size"), part.integer("size"))


def replica_groups_of(instruction: Message) -> ReplicaGroups:
    """The replica groups of a collective, from any of its four fields; protos of 2024 and 2025 nest the short form."""
    if instruction.has("mesh_axes_replica_group_list"):
        along = instruction.message("mesh_axes_replica_group_list")
        mesh = _mesh(along.message("mesh"))
        return MeshAxesReplicaGroupList(mesh, _axes(along, "axes", mesh))
    holder = instruction.message("collective_device_list")
    if instruction.has("iota_collective_device_list") or holder.has("iota_replica_group_list"):
        is_nested = holder.has("iota_replica_group_list")
        iota = (
            holder.message("iota_replica_group_list")
            if is_nested
            else instruction.message("iota_collective_device_list")
        )
        transform = IotaTransform(iota.integers("iota_reshape_dims"), iota.integers("iota_transpose_perm"))
        return IotaReplicaGroupList(
            iota.integer("num_replica_groups"), iota.integer("num_devices_per_group"), transform
        )
    listed = holder.messages("replica_groups") or instruction.messages("replica_groups")
    return CollectiveDeviceList(tuple(group.integers("replica_ids") for group in listed))
