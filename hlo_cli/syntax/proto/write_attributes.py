"""How attributes become fields of `HloInstructionProto`: each row of the table to its field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from hlo_cli.ir.attributes import sharding as ir_sharding
from hlo_cli.ir.attributes import value_types
from hlo_cli.ir.attributes.enumerations import ShuffleMode
from hlo_cli.ir.attributes.metadata import (
    BackendConfig,
    DebugAttributes,
    DebuggedArray,
    FrontendAttributes,
    Metadata,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    StatisticsViz,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.ir.shape import Shape, ShapeIndex
from hlo_cli.source import HloError
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, AttributeRow, Kind, attributes_of, own_attributes
from hlo_cli.syntax.proto.messages import KIND, FieldType, MessageBuilder, fields_of
from hlo_cli.syntax.proto.read_values import literal_draft, shape_draft

# --- values ---
# The values of attributes as drafts of the messages that protos hold them in.


Fieldwise = (
    value_types.ConvolutionDimensionNumbers
    | DebugAttributes
    | Metadata
    | value_types.OutputOperandAlias
    | value_types.TensorSparsity
    | value_types.Tolerance
    | value_types.WindowDimension
)
"""Values whose fields are those of a message, name by name."""


def fieldwise_draft(kind: str, value: Fieldwise) -> MessageBuilder:
    """A message whose fields have the names and values of those of a value.

    >>> fieldwise_draft("WindowDimension", value_types.WindowDimension(3)).to_bytes().hex()
    '0803100128013001'
    """
    draft = MessageBuilder(kind)
    for name in fields_of(kind):
        if item := getattr(value, name, None):
            draft.add(name, item)
    return draft


def _window_draft(window: value_types.Window) -> MessageBuilder:
    """A window."""
    return MessageBuilder("Window").add(
        "dimensions", [fieldwise_draft("WindowDimension", d) for d in window.dimensions]
    )


def _padding_config_draft(padding: value_types.PaddingConfig) -> MessageBuilder:
    """A padding."""
    dimensions = [
        MessageBuilder("PaddingConfigDimension")
        .add("edge_padding_low", d.edge_padding_low)
        .add("edge_padding_high", d.edge_padding_high)
        .add("interior_padding", d.interior_padding)
        for d in padding.dimensions
    ]
    return MessageBuilder("PaddingConfig").add("dimensions", dimensions)


def _slice_drafts(taken: value_types.Slice) -> list[MessageBuilder]:
    """The part of each dimension in a slice."""
    return [
        MessageBuilder("SliceDimensions").add("start", d.start).add("limit", d.limit).add("stride", d.stride)
        for d in taken.dimensions
    ]


def _sparsity_config_draft(config: value_types.SparsityConfig) -> MessageBuilder:
    """How sparse the operands of a dot or a convolution are."""
    draft = MessageBuilder("SparsityConfig")
    for side, sparsity in (("lhs", config.lhs), ("rhs", config.rhs)):
        draft.add(side, fieldwise_draft("TensorSparsityConfig", sparsity) if sparsity is not None else None)
    return draft


def _block_scaling_config_draft(config: value_types.BlockScalingConfig) -> MessageBuilder:
    """The operands that hold the scales of others."""
    draft = MessageBuilder("BlockScalingConfig")
    for side, scaling in (("lhs", config.lhs), ("rhs", config.rhs)):
        if scaling is not None:
            scales = MessageBuilder("TensorBlockScalingConfig").add("scale_idx", scaling.scale_idx)
            scales.add("zero_idx", scaling.zero_idx, always=True)
            draft.add(side, scales.add("strides", scaling.strides).add("steps", scaling.steps))
    return draft


def _output_operand_alias_draft(alias: value_types.OutputOperandAlias) -> MessageBuilder:
    """One element of the result that shares the buffer of an operand."""
    return (
        MessageBuilder("OutputOperandAliasing")
        .add("output_shape_index", alias.output_index)
        .add("operand_index", alias.operand_number)
        .add("operand_shape_index", alias.operand_index)
    )


def _frontend_attributes_draft(attributes: FrontendAttributes) -> MessageBuilder:
    """Texts by name."""
    entries = [
        MessageBuilder("MapEntry").add("key", key).add("value", text) for key, text in sorted(attributes.entries)
    ]
    return MessageBuilder("FrontendAttributes").add("map", entries)


def _statistics_draft(statistics: StatisticsViz) -> MessageBuilder:
    """What tools measured."""
    listed = [
        MessageBuilder("Statistic").add("stat_name", s.name).add("stat_val", s.value) for s in statistics.statistics
    ]
    draft = MessageBuilder("StatisticsViz").add("stat_index_to_visualize", statistics.stat_index_to_visualize)
    return draft.add("statistics", listed)


def _result_accuracy_draft(accuracy: value_types.ResultAccuracy) -> MessageBuilder:
    """How exact a result is to be."""
    if isinstance(accuracy.required, value_types.Tolerance):
        return MessageBuilder("ResultAccuracy").add("tolerance", fieldwise_draft("Tolerance", accuracy.required))
    return MessageBuilder("ResultAccuracy").add("mode", str(accuracy.required))


def original_array_draft(array: OriginalArray) -> MessageBuilder:
    """An array of the original program."""
    return (
        MessageBuilder("OriginalArrayProto")
        .add("instruction_name", array.instruction_name)
        .add("shape_index", array.shape_index)
    )


def _original_value_draft(value: OriginalValue) -> MessageBuilder:
    """What a value is of the original program, leaf by leaf."""
    draft = MessageBuilder("OriginalValueProto").add("call_hierarchy", value.call_hierarchy, always=True)
    if value.tree is None:
        return draft.add("is_synthetic_call", True)
    elements = []
    for index, leaf in _leaves(value.tree, ()):
        array = original_array_draft(leaf) if leaf.instruction_name else None
        elements.append(
            MessageBuilder("OriginalValueElementProto").add("shape_index", index).add("original_array", array)
        )
    return draft.add("elements", elements)


def _leaves(tree: OriginalArray | OriginalTuple, at: ShapeIndex) -> Iterator[tuple[ShapeIndex, OriginalArray]]:
    if isinstance(tree, OriginalArray):
        yield at, tree
        return
    for i, element in enumerate(tree.elements):
        yield from _leaves(element, (*at, i))


def _alias_draft(alias: value_types.Alias) -> MessageBuilder:
    """An element of the result that shares the buffer of a parameter."""
    return (
        MessageBuilder("AliasEntryProto")
        .add("output_shape_index", alias.output_index)
        .add("parameter_number", alias.parameter_number)
        .add("parameter_shape_index", alias.parameter_index)
        .add("kind", alias.kind)
    )


def _buffer_donor_draft(donor: value_types.BufferDonor) -> MessageBuilder:
    """A parameter whose buffer may be taken."""
    return (
        MessageBuilder("BufferDonorEntryProto")
        .add("parameter_number", donor.parameter_number)
        .add("parameter_shape_index", donor.parameter_index)
    )


def _debugged_array_draft(entry: DebuggedArray) -> MessageBuilder:
    """What is logged of an array of the original program."""
    draft = MessageBuilder("DebugAttributeTableEntryProto").add("original_array", original_array_draft(entry.array))
    return draft.add("debug_attributes", [fieldwise_draft("DebugAttributesProto", a) for a in entry.attributes])


# --- shardings and groups of devices ---
# Shardings and groups of devices as drafts of the messages that protos hold them in.
#
# Mirrors `HloSharding::ToProto` of xla/hlo/ir/hlo_sharding.cc.


def sharding_draft(sharding: ir_sharding.AnySharding) -> MessageBuilder:
    """The `OpSharding` of a sharding.

    >>> from hlo_cli.ir.attributes.sharding import Sharding, ShardingType
    >>> sharding_draft(Sharding(ShardingType.MAXIMAL, device=0)).to_bytes().hex()
    '0801220100'
    """
    draft = MessageBuilder("OpSharding")
    match sharding:
        case ir_sharding.TupleSharding():
            return draft.add("type", "tuple").add("tuple_shardings", map(sharding_draft, sharding.elements))
        case ir_sharding.NamedSharding():
            return draft.add("named_sharding", _named_sharding_draft(sharding))
    draft.add("type", "other" if sharding.type is ir_sharding.ShardingType.TILED else str(sharding.type))
    draft.add("replicate_on_last_tile_dim", sharding.replicate_on_last_tile_dim)
    draft.add("last_tile_dims", map(str, sharding.last_tile_dims))
    draft.add("metadata", [fieldwise_draft("OpMetadata", metadata) for metadata in sharding.metadata])
    if sharding.device is not None:
        draft.add("tile_assignment_devices", (sharding.device,))
    if sharding.tiles is not None:
        draft.add("tile_assignment_dimensions", sharding.tiles.dimensions)
        if isinstance(sharding.tiles.devices, ir_sharding.IotaTransform):
            draft.add("iota_reshape_dims", sharding.tiles.devices.reshape_dims)
            draft.add("iota_transpose_perm", sharding.tiles.devices.transpose_perm)
        else:
            draft.add("tile_assignment_devices", sharding.tiles.devices)
    if sharding.group is not None:
        draft.add("is_shard_group", True).add("shard_group_id", sharding.group.id)
        draft.add("shard_group_type", "like" if sharding.group.is_like else "as")
    return draft


def _named_sharding_draft(sharding: ir_sharding.NamedSharding) -> MessageBuilder:
    """The `NamedShardingProto` of a sharding over the axes of a mesh."""
    draft = MessageBuilder("NamedShardingProto")
    draft.add("metadata", [fieldwise_draft("OpMetadata", metadata) for metadata in sharding.metadata])
    mesh = sharding.mesh
    if isinstance(mesh, ir_sharding.MaximalMesh):
        return draft.add("mesh", MessageBuilder("MeshProto").add("device_ids", (mesh.device_id,)))
    everything = [ir_sharding.AxisRef(axis.name) for axis in mesh.axes]
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


def _add_replica_groups(draft: MessageBuilder, groups: ir_sharding.ReplicaGroups) -> None:
    """Add the groups of a collective to its instruction, in the field for their kind."""
    match groups:
        case ir_sharding.CollectiveDeviceList():
            listed = [MessageBuilder("ReplicaGroup").add("replica_ids", group) for group in groups.listed]
            draft.add(
                "collective_device_list", MessageBuilder("CollectiveDeviceListProto").add("replica_groups", listed)
            )
        case ir_sharding.IotaReplicaGroupList():
            iota = MessageBuilder("IotaReplicaGroupListProto").add("num_replica_groups", groups.num_replica_groups)
            iota.add("num_devices_per_group", groups.num_devices_per_group)
            iota.add("iota_reshape_dims", groups.transform.reshape_dims)
            iota.add("iota_transpose_perm", groups.transform.transpose_perm)
            draft.add("iota_collective_device_list", iota)
        case ir_sharding.MeshAxesReplicaGroupList():
            along = MessageBuilder("MeshAxesReplicaGroupListProto").add("mesh", _mesh(groups.mesh))
            draft.add("mesh_axes_replica_group_list", along.add("axes", _axes(groups.mesh, groups.axes)))


def _mesh(mesh: ir_sharding.Mesh) -> MessageBuilder:
    axes = [MessageBuilder("MeshAxis").add("name", axis.name).add("size", axis.size) for axis in mesh.axes]
    draft = MessageBuilder("MeshProto").add("axes", axes)
    ids = mesh.device_ids
    if isinstance(ids, ir_sharding.IotaTransform):
        transform = MessageBuilder("IotaTransform").add("reshape_dims", ids.reshape_dims)
        return draft.add("iota_transform", transform.add("transpose_perm", ids.transpose_perm))
    return draft.add("device_ids", ids)


def _axes(mesh: ir_sharding.Mesh, axes: Iterable[ir_sharding.AxisRef]) -> list[MessageBuilder]:
    return [_axis(mesh, axis) for axis in axes]


def _axis(mesh: ir_sharding.Mesh, axis: ir_sharding.AxisRef) -> MessageBuilder:
    draft = MessageBuilder("AxisRefProto").add("mesh_axis_index", [axis.name for axis in mesh.axes].index(axis.name))
    if axis.size is None:
        return draft
    return draft.add("sub_axis_info", MessageBuilder("SubAxis").add("pre_size", axis.pre_size).add("size", axis.size))


# --- attributes ---
# The attributes of instructions, added to drafts of `HloInstructionProto`: each row to its field.
#
# Mirrors `ToProto` of the classes in xla/hlo/ir/hlo_instructions.cc.


_ELSEWHERE: Final = NAMING_ATTRIBUTES | {"metadata"}
"""Attributes that the IR holds itself, for all opcodes."""
_OF_THE_MODULE: Final = frozenset(
    ("device_assignment", "host_program_shape", "original_value_recovery_table", "schedule")
)
"""Fields that `write_module.py` writes from the module: its devices, the shapes of its entry, modules, order."""
_WHERE_SAID: Final = _OF_THE_MODULE | {"parameter_replication", "precision_config"}
"""Messages written only if an attribute sets a field; XLA always writes the others."""

_IF_GIVEN: Final = (Kind.BOOL_IF_GIVEN, Kind.INT32)
"""The kinds of values that are written even if they are 0."""

_Path = tuple[str, ...]


def add_attributes(draft: MessageBuilder, instruction: Instruction) -> None:
    """Adds the attributes of an instruction; HloError if no proto can hold them, or if one is unknown."""
    opcode = instruction.written_opcode
    own, rules = own_attributes(opcode), attributes_of(opcode)
    holders = _Holders(draft, own)
    names = set()
    for attribute in instruction.attributes:
        row = rules.get(attribute.name)
        names.add(attribute.name)
        if attribute.name in _ELSEWHERE or (row is not None and row.is_forgotten):
            continue
        value = instruction.value(attribute.name)
        if row is None or value is None or isinstance(value, UnparsedText) or not holders.add(row, value):
            raise HloError(f"{instruction.name}: cannot represent {attribute.name}={attribute.value} in a proto")
    for row in own:
        if row.unsaid is not None and row.name not in names:
            holders.add_unsaid(row, row.unsaid)
    holders.close()


def add_header(draft: MessageBuilder, module: Module) -> None:
    """Adds the header attributes of a module, without those that follow from the module itself."""
    holders = _Holders(draft, HEADER_ATTRIBUTES.values(), "HloModuleProto")
    for attribute in module.header:
        row, value = HEADER_ATTRIBUTES.get(attribute.name), module.header_value(attribute.name)
        if row is None or row.path[0] in _OF_THE_MODULE or value is None or isinstance(value, UnparsedText):
            continue
        holders.add(row, value)
    holders.close()


class _Holders:
    """Messages under construction, by field path."""

    def __init__(self, draft: MessageBuilder, own: Iterable[AttributeRow], kind: str = KIND) -> None:
        self._drafts: dict[_Path, tuple[MessageBuilder, str]] = {(): (draft, kind)}
        for row in own:
            if len(row.path) > 1 and row.path[0] not in _WHERE_SAID:
                self._at(row.path[:-1])

    def add(self, row: AttributeRow, value: value_types.AttributeValue) -> bool:
        """Adds the value of an attribute; returns whether that was possible."""
        *path, field = row.path
        draft, kind = self._at(tuple(path))
        place = fields_of(kind).get(field)
        match value:
            case ShuffleMode():
                self._at(row.path)
            case (
                ir_sharding.CollectiveDeviceList()
                | ir_sharding.IotaReplicaGroupList()
                | ir_sharding.MeshAxesReplicaGroupList()
            ):
                _add_replica_groups(draft, value)
            case ir_sharding.Domain():
                draft.add("domain_entry_sharding", sharding_draft(value.exit))
                draft.add("domain_exit_sharding", sharding_draft(value.entry))
            case _ if place is None:
                return False
            case _ if (message := _message(value)) is not None:
                draft.add(field, message)
            case tuple():
                draft.add("constrain_layout", row.kind is Kind.SHAPES)
                draft.add(field, _items(place, value))
            case _:
                draft.add(field, _scalar(place, value), always=row.kind in _IF_GIVEN)
        return True

    def add_unsaid(self, row: AttributeRow, value: str | bool) -> None:
        """Adds the default that XLA writes; for a message, an empty one."""
        draft, kind = self._at(row.path[:-1])
        place = fields_of(kind)[row.path[-1]]
        draft.add(row.path[-1], MessageBuilder(place.type) if place.is_message else value)

    def close(self) -> None:
        """Adds each message to the one around it, the innermost first."""
        for path in sorted(self._drafts, key=len, reverse=True):
            if path:
                self._drafts[path[:-1]][0].add(path[-1], self._drafts[path][0])

    def _at(self, path: _Path) -> tuple[MessageBuilder, str]:
        """The builder at a path, and its message type."""
        if (draft := self._drafts.get(path)) is None:
            kind = fields_of(self._at(path[:-1])[1])[path[-1]].type
            draft = self._drafts[path] = MessageBuilder(kind), kind
        return draft


def _message(value: value_types.AttributeValue) -> MessageBuilder | list[MessageBuilder] | str | None:
    """A value that has a message of its own, or several."""
    match value:
        case BackendConfig():
            return value.text
        case value_types.BlockScalingConfig():
            return _block_scaling_config_draft(value)
        case value_types.ConvolutionDimensionNumbers():
            return fieldwise_draft("ConvolutionDimensionNumbers", value)
        case FrontendAttributes():
            return _frontend_attributes_draft(value)
        case OriginalValue():
            return _original_value_draft(value)
        case value_types.PaddingConfig():
            return _padding_config_draft(value)
        case value_types.ResultAccuracy():
            return _result_accuracy_draft(value)
        case ir_sharding.Sharding() | ir_sharding.NamedSharding() | ir_sharding.TupleSharding():
            return sharding_draft(value)
        case value_types.Slice():
            return _slice_drafts(value)
        case value_types.ArrayLiteral() | value_types.TupleLiteral():
            return literal_draft(value)
        case value_types.SparsityConfig():
            return _sparsity_config_draft(value)
        case StatisticsViz():
            return _statistics_draft(value)
        case value_types.Window():
            return _window_draft(value)
    return shape_draft(value) if isinstance(value, Shape) else None


def _scalar(place: FieldType, value: value_types.AttributeValue) -> int | float | str | tuple[int]:
    """A single value: a number may be in a list of one, and a boolean may be a word."""
    if isinstance(value, int) and place.repeated:
        return (value,)
    if isinstance(value, bool) and place.type != "bool":
        return "true" if value else "false"
    return value if isinstance(value, int | float) else str(value)


def _items(
    place: FieldType, values: tuple[value_types.AttributeValue, ...]
) -> list[MessageBuilder] | list[str] | list[int]:
    """The items of a list."""
    if place.is_message:
        return [draft for value in values if (draft := _element(place, value)) is not None]
    if any(isinstance(value, StrEnum) for value in values):
        return [str(value) for value in values]
    return _flat(values)


def _element(place: FieldType, value: value_types.AttributeValue) -> MessageBuilder | None:
    """A message in a repeated field."""
    match value:
        case value_types.Alias():
            return _alias_draft(value)
        case value_types.BufferDonor():
            return _buffer_donor_draft(value)
        case DebuggedArray():
            return _debugged_array_draft(value)
        case value_types.OutputOperandAlias():
            return _output_operand_alias_draft(value)
        case (int(source), int(target)):
            return MessageBuilder(place.type).add("source", source).add("target", target)
    return shape_draft(value) if isinstance(value, Shape) else None


def _flat(values: tuple[value_types.AttributeValue, ...]) -> list[int]:
    numbers: list[int] = []
    for value in values:
        if isinstance(value, tuple):
            numbers.extend(_flat(value))
        elif isinstance(value, int):
            numbers.append(value)
    return numbers
