"""What values messages hold: shapes and constants (both ways), attributes, shardings, and groups of devices.

Each function mirrors the message of its name in xla/xla_data.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import isnan
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes import sharding as ir_sharding
from hlo_cli.ir.attributes import value_types
from hlo_cli.ir.attributes.enumerations import DebugLogMode, ReductionKind, ResultAccuracyMode
from hlo_cli.ir.attributes.metadata import (
    DebugAttributes,
    DebuggedArray,
    FrontendAttributes,
    Metadata,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    Statistic,
    StatisticsViz,
)
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, Layout, PrimitiveType, SplitConfig, Tile, default_layout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    ShapeIndex,
    TokenShape,
    TupleShape,
    UnknownShape,
)
from hlo_cli.source import HloError
from hlo_cli.syntax.literal_printing import nested
from hlo_cli.syntax.literal_reading import PackedValues, field_of, literal_from_bytes, literal_to_bytes
from hlo_cli.syntax.proto.messages import Message, MessageBuilder, fields_of, word_of
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING
from hlo_cli.wire import (
    Field,
    all_bytes,
    bytes_in,
    number_in,
    packed_field,
    read_fields,
    read_numbers,
    signed,
)

# --- shapes and layouts ---
# Shapes and layouts of protos to those of the IR, and back. Mirrors `ShapeProto` and `LayoutProto`.
#
# Mirrors xla/shape.cc and xla/layout.cc, `FromProto` and `ToProto` there.


_ELEMENT_TYPE, _DIMENSIONS, _ELEMENTS, _LAYOUT, _DYNAMIC = (
    fields_of("ShapeProto")[name].number
    for name in ("element_type", "dimensions", "tuple_shapes", "layout", "is_dynamic_dimension")
)
_LEAVES: Final[dict[str, Shape]] = {"token": TokenShape(), "opaque": OpaqueShape(), "invalid": UnknownShape()}


class ShapeReader(dict[bytes, Shape]):
    """Shapes by the bytes of their `ShapeProto`: each distinct shape and element is read once.

    >>> str(ShapeReader()[bytes.fromhex("100b1a0204032a040a020100")])
    'f32[4,3]{1,0}'
    """

    def __init__(self) -> None:
        self._arrays: dict[bytes, Shape] = {}

    def __missing__(self, data: bytes) -> Shape:
        shape = self[data] = self._read(data, 0)
        return shape

    def _read(self, data: bytes, depth: int) -> Shape:
        if (known := self._arrays.get(data)) is not None:
            return known
        fields = read_fields(data)
        singular = dict(fields)
        kind = word_of("PrimitiveType", number_in(singular, _ELEMENT_TYPE))
        if kind in PRIMITIVE_TYPES:
            array = self._arrays[data] = self._array(PRIMITIVE_TYPES[kind], fields, singular)
            return array
        if kind in _LEAVES:
            return _LEAVES[kind]
        if depth > MAX_NESTING:
            raise HloError(f"shape is nested too deeply (limit {MAX_NESTING})")
        elements = tuple([self._read(element, depth + 1) for element in all_bytes(fields, _ELEMENTS)])
        if kind == "tuple":
            if any(isinstance(element, UnknownShape) for element in elements):
                raise HloError("tuple element has no type")
            return TupleShape(elements)
        if len(elements) != 1 or not isinstance(elements[0], ArrayShape):
            raise HloError("buffer shape without an array")
        return BufferShape(elements[0])

    def _array(self, element_type: PrimitiveType, fields: list[Field], singular: dict[int, int | bytes]) -> ArrayShape:
        dimensions = tuple(map(signed, read_numbers(packed_field(fields, _DIMENSIONS))))
        if any(size < 0 and size != UNBOUNDED for size in dimensions):
            raise HloError(f"invalid dimension size {min(dimensions)}")
        dynamic = tuple(map(bool, read_numbers(packed_field(fields, _DYNAMIC))[: len(dimensions)]))
        dynamic += (False,) * (len(dimensions) - len(dynamic))
        if _LAYOUT not in singular:
            return ArrayShape(element_type, dimensions, dynamic, default_layout(len(dimensions)))
        layout = _layout(bytes_in(singular, _LAYOUT))
        if problem := layout.problem(dimensions):
            raise HloError(f"{element_type}{index_text(dimensions, '[]')}: {problem}")
        return ArrayShape(element_type, dimensions, dynamic, layout)


def shape_of(message: Message) -> Shape:
    """The shape in a message of its own."""
    return ShapeReader()[message.encoded]


@lru_cache(maxsize=8192)
def _layout(data: bytes) -> Layout:
    return _layout_of(Message("LayoutProto", data))


def _layout_of(message: Message) -> Layout:
    """The layout in a `LayoutProto`."""
    return Layout(
        message.integers("minor_to_major"),
        tuple(Tile(tile.integers("dimensions")) for tile in message.messages("tiles")),
        message.integer("tail_padding_alignment_in_elements") or 1,
        PRIMITIVE_TYPES.get(message.word("index_primitive_type")),
        PRIMITIVE_TYPES.get(message.word("pointer_primitive_type")),
        message.integer("element_size_in_bits"),
        message.integer("memory_space"),
        tuple(
            SplitConfig(split.integer("dimension"), split.integers("split_indices"))
            for split in message.messages("split_configs")
        ),
        message.integer("dynamic_shape_metadata_prefix_bytes"),
    )


def shape_draft(shape: Shape) -> MessageBuilder:
    """The `ShapeProto` of a shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("(f32[<=4,3]{0,1:T(2,128)S(1)}, token[])")
    >>> ShapeReader()[shape_draft(shape).to_bytes()] == shape
    True
    """
    draft = MessageBuilder("ShapeProto")
    match shape:
        case ArrayShape():
            draft.add("element_type", shape.element_type.name).add("dimensions", shape.dimensions)
            draft.add("is_dynamic_dimension", shape.dynamic_dimensions)
            draft.add("layout", _layout_draft(shape.layout))
        case TupleShape():
            draft.add("element_type", "tuple").add("tuple_shapes", map(shape_draft, shape.elements))
        case BufferShape():
            draft.add("element_type", "buffer").add("tuple_shapes", [shape_draft(shape.array)])
        case TokenShape():
            draft.add("element_type", "token")
        case OpaqueShape():
            draft.add("element_type", "opaque")
        case UnknownShape():
            raise HloError(f"unknown shape {shape}" if shape.text else "missing shape")
    return draft


def _layout_draft(layout: Layout) -> MessageBuilder:
    """The `LayoutProto` of a layout."""
    return (
        MessageBuilder("LayoutProto")
        .add("minor_to_major", layout.minor_to_major)
        .add("tiles", [MessageBuilder("TileProto").add("dimensions", tile.dimensions) for tile in layout.tiles])
        .add("tail_padding_alignment_in_elements", layout.tail_padding_alignment_in_elements)
        .add("index_primitive_type", _type_name(layout.index_primitive_type))
        .add("pointer_primitive_type", _type_name(layout.pointer_primitive_type))
        .add("element_size_in_bits", layout.element_size_in_bits)
        .add("memory_space", layout.memory_space)
        .add(
            "split_configs",
            [
                MessageBuilder("SplitConfigProto").add("dimension", s.dimension).add("split_indices", s.split_indices)
                for s in layout.split_configs
            ],
        )
        .add("dynamic_shape_metadata_prefix_bytes", layout.dynamic_shape_metadata_prefix_bytes)
    )


def _type_name(kind: PrimitiveType | None) -> str | None:
    return kind.name if kind is not None else None


# --- values of attributes ---
# The values of attributes in protos to those of the IR. Each function mirrors the message of its name.


def window_of(message: Message) -> value_types.Window:
    """A window.

    >>> str(window_of(Message("Window", bytes.fromhex("0a0c080310021801200128013001"))))
    '{size=3 stride=2 pad=1_1}'
    """
    return value_types.Window(tuple(map(_window_dimension, message.messages("dimensions"))))


def _window_dimension(message: Message) -> value_types.WindowDimension:
    return value_types.WindowDimension(
        message.integer("size"),
        message.integer("stride"),
        message.integer("padding_low"),
        message.integer("padding_high"),
        message.integer("base_dilation"),
        message.integer("window_dilation"),
        message.flag("window_reversal"),
    )


def padding_config_of(message: Message) -> value_types.PaddingConfig:
    """A padding."""
    return value_types.PaddingConfig(
        tuple(
            value_types.PaddingDimension(
                d.integer("edge_padding_low"), d.integer("edge_padding_high"), d.integer("interior_padding")
            )
            for d in message.messages("dimensions")
        )
    )


def slice_of(dimensions: tuple[Message, ...]) -> value_types.Slice:
    """The ranges of a slice; a stride of 0 means 1 in old protos."""
    return value_types.Slice(
        tuple(
            value_types.SliceDimension(d.integer("start"), d.integer("limit"), d.integer("stride") or 1)
            for d in dimensions
        )
    )


def convolution_dimension_numbers_of(message: Message) -> value_types.ConvolutionDimensionNumbers:
    """The dimension numbers of a convolution; HloError for impossible ones."""
    numbers = value_types.ConvolutionDimensionNumbers(
        message.integer("input_batch_dimension"),
        message.integer("input_feature_dimension"),
        message.integers("input_spatial_dimensions"),
        message.integer("kernel_input_feature_dimension"),
        message.integer("kernel_output_feature_dimension"),
        message.integers("kernel_spatial_dimensions"),
        message.integer("output_batch_dimension"),
        message.integer("output_feature_dimension"),
        message.integers("output_spatial_dimensions"),
    )
    named = (
        numbers.input_batch_dimension,
        numbers.input_feature_dimension,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.input_spatial_dimensions,
        *numbers.kernel_spatial_dimensions,
        *numbers.output_spatial_dimensions,
    )
    if max(named) >= _MOST_DIMENSIONS:
        raise HloError(f"convolution dimension {max(named)} is out of range")
    return numbers


_MOST_DIMENSIONS = 1 << 10  # a number of dimensions is the length of a text such as `b01f_01io->b01f` that is printed


def sparsity_config_of(message: Message) -> value_types.SparsityConfig:
    """The sparsity of the operands of a dot or a convolution."""
    sides = (_sparsity(message.message(side)) if message.has(side) else None for side in ("lhs", "rhs"))
    return value_types.SparsityConfig(*sides)


def _sparsity(message: Message) -> value_types.TensorSparsity:
    fields = ("num_non_zero", "block_size", "dimension", "stride", "idx")
    return value_types.TensorSparsity(*map(message.integer, fields))


def block_scaling_config_of(message: Message) -> value_types.BlockScalingConfig:
    """The scales of the operands of a dot or a convolution."""
    sides = (_block_scaling(message.message(side)) if message.has(side) else None for side in ("lhs", "rhs"))
    return value_types.BlockScalingConfig(*sides)


def _block_scaling(message: Message) -> value_types.TensorBlockScaling:
    zero = message.integer("zero_idx") if message.has("zero_idx") else None
    return value_types.TensorBlockScaling(
        message.integer("scale_idx"), zero, message.integers("strides"), message.integers("steps")
    )


def output_operand_alias_of(message: Message) -> value_types.OutputOperandAlias:
    """One element of the result that shares its buffer with an operand."""
    return value_types.OutputOperandAlias(
        message.integers("output_shape_index"),
        message.integer("operand_index"),
        message.integers("operand_shape_index"),
    )


def frontend_attributes_of(message: Message) -> FrontendAttributes:
    """Texts by name."""
    return FrontendAttributes(tuple((entry.text("key"), entry.text("value")) for entry in message.messages("map")))


def statistics_of(message: Message) -> StatisticsViz:
    """Statistics from tools."""
    return StatisticsViz(
        message.integer("stat_index_to_visualize"),
        tuple(Statistic(s.text("stat_name"), s.decimal("stat_val")) for s in message.messages("statistics")),
    )


def result_accuracy_of(message: Message) -> value_types.ResultAccuracy:
    """The required accuracy of a result."""
    if not message.has("tolerance"):
        return value_types.ResultAccuracy(ResultAccuracyMode(message.word("mode")))
    tolerance = message.message("tolerance")
    return value_types.ResultAccuracy(
        value_types.Tolerance(tolerance.decimal("atol"), tolerance.decimal("rtol"), tolerance.integer("ulps"))
    )


def metadata_of(message: Message, payload: bytes = b"") -> Metadata:
    """The source location and op_name of an instruction; `payload` is its text, which the module may hold.

    The metadata of a sharding has none.
    """
    return Metadata(
        message.text("op_type"),
        message.text("op_name"),
        message.text("source_file"),
        message.integer("source_line"),
        message.integer("source_end_line"),
        message.integer("source_column"),
        message.integer("source_end_column"),
        message.integers("profile_type"),
        message.text("deduplicated_name"),
        message.text("scheduling_name"),
        message.integer("stack_frame_id"),
        payload.decode("utf-8", "surrogateescape"),
    )


def original_array_of(message: Message) -> OriginalArray:
    """An array of an instruction of the original program."""
    return OriginalArray(message.text("instruction_name"), message.integers("shape_index"))


def original_value_of(message: Message) -> OriginalValue:
    """The original value: its leaves as a tree."""
    hierarchy = message.text("call_hierarchy") if message.has("call_hierarchy") else None
    if message.flag("is_synthetic_call"):
        return OriginalValue(None, hierarchy)
    leaves = {
        element.integers("shape_index"): original_array_of(element.message("original_array"))
        for element in message.messages("elements")
    }
    return OriginalValue(_tree(leaves, ()), hierarchy)


def _tree(leaves: dict[ShapeIndex, OriginalArray], at: ShapeIndex) -> OriginalArray | OriginalTuple:
    if at in leaves:
        return leaves[at]
    if len(at) > MAX_NESTING:
        raise HloError(f"original value is nested too deeply (limit {MAX_NESTING})")
    below = {index: leaf for index, leaf in leaves.items() if index[: len(at)] == at}
    return OriginalTuple(tuple(_children(below, at)))


def _children(leaves: dict[ShapeIndex, OriginalArray], at: ShapeIndex) -> Iterator[OriginalArray | OriginalTuple]:
    last = max((index[len(at)] for index in leaves), default=-1)
    if last > len(leaves):
        raise HloError("original value has fewer leaves than its indices require")
    for i in range(last + 1):
        yield _tree(leaves, (*at, i))


def alias_of(message: Message) -> value_types.Alias:
    """An element of the result that shares its buffer with a parameter."""
    return value_types.Alias(
        message.integers("output_shape_index"),
        message.integer("parameter_number"),
        message.integers("parameter_shape_index"),
        message.word("kind"),
    )


def buffer_donor_of(message: Message) -> value_types.BufferDonor:
    """A parameter whose buffer may be reused."""
    return value_types.BufferDonor(message.integer("parameter_number"), message.integers("parameter_shape_index"))


def debugged_array_of(message: Message) -> DebuggedArray:
    """The log entries of an array of the original program."""
    attributes = tuple(
        DebugAttributes(
            DebugLogMode(a.word("log_mode")) if a.integer("log_mode") else None,
            a.integer("callback_id"),
            a.flag("partitioned"),
            a.integer("op_id"),
        )
        for a in message.messages("debug_attributes")
    )
    return DebuggedArray(original_array_of(message.message("original_array")), attributes)


# --- shardings ---
# Shardings and device groups of protos to those of the IR.
#
# Mirrors `HloSharding::FromProto` of xla/hlo/ir/hlo_sharding.cc and the messages of xla/xla_data.proto.


Axes = tuple[ir_sharding.AxisRef, ...]


def sharding_of(message: Message) -> ir_sharding.AnySharding:
    """A sharding; one of a tuple has one for each leaf.

    >>> str(sharding_of(Message("OpSharding", bytes.fromhex("08011a01012200"))))
    '{maximal device=0}'
    """
    if message.word("type") != "tuple":
        return _of_leaf(message)
    return ir_sharding.TupleSharding(tuple(map(_of_leaf, message.messages("tuple_shardings"))))


def _of_leaf(message: Message) -> ir_sharding.Sharding | ir_sharding.NamedSharding:
    if message.has("named_sharding"):
        return _named_sharding_of(message.message("named_sharding"))
    kind = message.word("type")
    metadata = tuple(map(metadata_of, message.messages("metadata")))
    if kind == "maximal":
        device = message.integers("tile_assignment_devices")
        return ir_sharding.Sharding(
            ir_sharding.ShardingType.MAXIMAL, device=device[0] if device else 0, metadata=metadata
        )
    if kind == "tuple":
        raise HloError("nested tuple sharding")
    if kind != "other":
        return ir_sharding.Sharding(ir_sharding.ShardingType(kind), group=_group(message), metadata=metadata)
    return ir_sharding.Sharding(
        ir_sharding.ShardingType.TILED,
        ir_sharding.TileAssignment(message.integers("tile_assignment_dimensions"), _devices(message)),
        replicate_on_last_tile_dim=message.flag("replicate_on_last_tile_dim"),
        last_tile_dims=tuple(map(ir_sharding.ShardingType, message.words("last_tile_dims"))),
        group=_group(message),
        metadata=metadata,
    )


def _devices(message: Message) -> tuple[int, ...] | ir_sharding.IotaTransform:
    if reshape := message.integers("iota_reshape_dims"):
        return ir_sharding.IotaTransform(reshape, message.integers("iota_transpose_perm"))
    return message.integers("tile_assignment_devices")


def _group(message: Message) -> ir_sharding.ShardGroup | None:
    if not message.flag("is_shard_group"):
        return None
    return ir_sharding.ShardGroup(message.integer("shard_group_id"), is_like=message.word("shard_group_type") == "like")


def _named_sharding_of(message: Message) -> ir_sharding.NamedSharding:
    """A sharding over the axes of a mesh."""
    mesh = _mesh(message.message("mesh"))
    metadata: tuple[Metadata, ...] = tuple(map(metadata_of, message.messages("metadata")))
    if mesh.device_ids is not None and not mesh.axes and not isinstance(mesh.device_ids, ir_sharding.IotaTransform):
        return ir_sharding.NamedSharding(ir_sharding.MaximalMesh(mesh.device_ids[0]), metadata=metadata)
    dimensions = tuple(
        ir_sharding.DimensionSharding(_axes(dimension, "axes", mesh), is_closed=dimension.flag("is_closed"))
        for dimension in message.messages("dim_shardings")
    )
    kinds = ("replicated", "unreduced", "manual")
    replicated, unreduced, manual = (_axes(message, f"{kind}_axes", mesh) for kind in kinds)
    reduction = ReductionKind(message.word("reduction_op"))
    shown = reduction if unreduced and reduction is not ReductionKind.SUM else None
    if not dimensions and (whole := _whole(mesh, replicated, unreduced, manual)):
        return ir_sharding.NamedSharding(mesh, reduction=shown, whole=whole, metadata=metadata)
    return ir_sharding.NamedSharding(mesh, dimensions, replicated, unreduced, manual, shown, metadata=metadata)


def _whole(mesh: ir_sharding.Mesh, replicated: Axes, unreduced: Axes, manual: Axes) -> str:
    """The keyword for a sharding that treats all axes alike."""
    everything = tuple(ir_sharding.AxisRef(axis.name) for axis in mesh.axes)
    words: dict[tuple[Axes, Axes, Axes], str] = {
        ((), (), ()): "replicated",
        ((), everything, ()): "unreduced",
        ((), (), everything): "manual",
    }
    return words.get((replicated, unreduced, manual), "")


def _mesh(message: Message) -> ir_sharding.Mesh:
    axes = tuple(ir_sharding.MeshAxis(axis.text("name"), axis.integer("size")) for axis in message.messages("axes"))
    ids: tuple[int, ...] | ir_sharding.IotaTransform | None = message.integers("device_ids") or None
    if message.has("iota_transform"):
        transform = message.message("iota_transform")
        ids = ir_sharding.IotaTransform(transform.integers("reshape_dims"), transform.integers("transpose_perm"))
    return ir_sharding.Mesh(axes, ids)


def _axes(message: Message, name: str, mesh: ir_sharding.Mesh) -> tuple[ir_sharding.AxisRef, ...]:
    return tuple(_axis(axis, mesh) for axis in message.messages(name))


def _axis(message: Message, mesh: ir_sharding.Mesh) -> ir_sharding.AxisRef:
    index = message.integer("mesh_axis_index")
    if not 0 <= index < len(mesh.axes):
        raise HloError(f"unknown mesh axis {index}")
    name = mesh.axes[index].name
    if not message.has("sub_axis_info"):
        return ir_sharding.AxisRef(name)
    part = message.message("sub_axis_info")
    return ir_sharding.AxisRef(name, part.integer("pre_size"), part.integer("size"))


def replica_groups_of(instruction: Message) -> ir_sharding.ReplicaGroups:
    """The replica groups of a collective, from any of its four fields; protos of 2024 and 2025 nest the short form."""
    if instruction.has("mesh_axes_replica_group_list"):
        along = instruction.message("mesh_axes_replica_group_list")
        mesh = _mesh(along.message("mesh"))
        return ir_sharding.MeshAxesReplicaGroupList(mesh, _axes(along, "axes", mesh))
    holder = instruction.message("collective_device_list")
    if instruction.has("iota_collective_device_list") or holder.has("iota_replica_group_list"):
        is_nested = holder.has("iota_replica_group_list")
        iota = (
            holder.message("iota_replica_group_list")
            if is_nested
            else instruction.message("iota_collective_device_list")
        )
        transform = ir_sharding.IotaTransform(iota.integers("iota_reshape_dims"), iota.integers("iota_transpose_perm"))
        return ir_sharding.IotaReplicaGroupList(
            iota.integer("num_replica_groups"), iota.integer("num_devices_per_group"), transform
        )
    listed = holder.messages("replica_groups") or instruction.messages("replica_groups")
    return ir_sharding.CollectiveDeviceList(tuple(group.integers("replica_ids") for group in listed))


# --- constants ---
# The values of constants in protos. Mirrors `LiteralProto` of xla/xla_data.proto.
#
# Most constants are one number, which is read here: importing numpy takes longer than reading most modules.


_FEW: Final = 64  # more values than this are rare, and large arrays are numpy's work
_INTEGERS: Final = frozenset(("pred", "s32", "s64", "u32", "u64"))
_FLOATS: Final = {"f16": "e", "f32": "f", "f64": "d"}


@dataclass(frozen=True, slots=True)
class _FewValues(PackedValues):
    """The values of a small array in row-major order; printed without numpy."""

    texts: tuple[str, ...]

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""
        return nested(self.texts, shape.dimensions)


def literal_of(message: Message, depth: int = 0) -> value_types.Literal:
    """The literal in a `LiteralProto`.

    >>> literal_of(Message("LiteralProto", bytes.fromhex("0a02100b42040000c03f"))).to_string()
    '1.5'
    """
    shape = shape_of(message.message("shape"))
    if isinstance(shape, TupleShape):
        if depth > MAX_NESTING:
            raise HloError(f"literal is nested too deeply (limit {MAX_NESTING})")
        elements = tuple(literal_of(element, depth + 1) for element in message.messages("tuple_literals"))
        return value_types.TupleLiteral(TupleShape(tuple(element.shape for element in elements)), elements)
    if not isinstance(shape, ArrayShape):
        raise HloError(f"shape {shape} cannot have a literal")
    if (few := _few_values(message, shape)) is not None:
        return value_types.ArrayLiteral(shape, few)
    return literal_from_bytes(shape, message.packed(field_of(shape.element_type)))


def literal_draft(literal: value_types.Literal) -> MessageBuilder:
    """The `LiteralProto` of a literal; HloError if the dump omits the values."""
    draft = MessageBuilder("LiteralProto").add("shape", shape_draft(_unpacked(literal.shape)))
    if isinstance(literal, value_types.TupleLiteral):
        return draft.add("tuple_literals", map(literal_draft, literal.elements))
    if any(literal.shape.dynamic_dimensions):
        draft.add("dynamic_sizes", literal.shape.dimensions)
    return draft.add(field_of(literal.shape.element_type), literal_to_bytes(literal))


def _unpacked(shape: Shape) -> Shape:
    """The shape of a literal, whose elements take whole bytes in any layout."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_unpacked, shape.elements)))
    if not isinstance(shape, ArrayShape) or not shape.layout.element_size_in_bits:
        return shape
    return replace(shape, layout=replace(shape.layout, element_size_in_bits=0))


def _few_values(message: Message, shape: ArrayShape) -> _FewValues | None:
    """Few values of a common type, or None if numpy must read them."""
    if UNBOUNDED in shape.dimensions or not 0 < shape.elements <= _FEW:
        return None
    if shape.layout.minor_to_major != default_layout(shape.rank).minor_to_major:
        return None
    kind = shape.element_type
    name = field_of(kind)
    if kind.name in _FLOATS or kind.name == "bf16":
        data = message.packed(name)
        if len(data) != shape.elements * kind.byte_width or any(map(isnan, numbers := _numbers(kind.name, data))):
            return None
        return _FewValues(data, tuple(_float_text(kind.name, number) for number in numbers))
    if kind.name not in _INTEGERS:
        return None
    values = message.integers(name)
    data = b"".join((value & (1 << 64) - 1).to_bytes(8, "little")[: kind.byte_width] for value in values)
    texts = map(_word if kind.name == "pred" and not shape.rank else str, values)
    return _FewValues(data, tuple(texts)) if len(values) == shape.elements else None


def _numbers(name: str, data: bytes) -> list[float]:
    if name == "bf16":
        data, name = b"".join(b"\0\0" + data[index : index + 2] for index in range(0, len(data), 2)), "f32"
    return [number for (number,) in struct.iter_unpack(f"<{_FLOATS[name]}", data)]


def _float_text(name: str, number: float) -> str:
    """The digits that round-trip from decimal, if these identify the number; else all that do."""
    digits = {"f32": 6, "f64": 15}.get(name)  # FLT_DIG and DBL_DIG, as `RoundTripFpToString` of xla/util.cc
    if digits is not None:
        text = f"{number:.{digits}g}"
        if name == "f64" and float(text) == number:
            return text
        if name == "f32" and _single(float(text)) == number:
            return text
    return f"{number:.{FLOAT_FORMATS[name].digits}g}"


def _single(number: float) -> float:
    """The nearest f32; infinite if the number is too large."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:  # struct refuses what C++ casts to infinity
        return float("inf") if number > 0 else float("-inf")
    return single


def _word(value: int) -> str:
    return "true" if value else "false"
