"""The values of attributes in protos to those of the IR. Each function mirrors the message of its name."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.attributes.enumerations import DebugLogMode, ResultAccuracyMode
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
from hlo_cli.ir.attributes.value_types import (
    Alias,
    BlockScalingConfig,
    BufferDonor,
    ConvolutionDimensionNumbers,
    OutputOperandAlias,
    PaddingConfig,
    PaddingDimension,
    ResultAccuracy,
    Slice,
    SliceDimension,
    SparsityConfig,
    TensorBlockScaling,
    TensorSparsity,
    Tolerance,
    Window,
    WindowDimension,
)
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.scanning.shapes import MAX_NESTING


def window_of(message: Message) -> Window:
    """A window.

    >>> str(window_of(Message("Window", bytes.fromhex("0a0c080310021801200128013001"))))
    '{size=3 stride=2 pad=1_1}'
    """
    return Window(tuple(map(_window_dimension, message.messages("dimensions"))))


def _window_dimension(message: Message) -> WindowDimension:
    return WindowDimension(
        message.integer("size"),
        message.integer("stride"),
        message.integer("padding_low"),
        message.integer("padding_high"),
        message.integer("base_dilation"),
        message.integer("window_dilation"),
        message.flag("window_reversal"),
    )


def padding_config_of(message: Message) -> PaddingConfig:
    """A padding."""
    return PaddingConfig(
        tuple(
            PaddingDimension(
                d.integer("edge_padding_low"), d.integer("edge_padding_high"), d.integer("interior_padding")
            )
            for d in message.messages("dimensions")
        )
    )


def slice_of(dimensions: tuple[Message, ...]) -> Slice:
    """The ranges of a slice; a stride of 0 means 1 in old protos."""
    return Slice(
        tuple(SliceDimension(d.integer("start"), d.integer("limit"), d.integer("stride") or 1) for d in dimensions)
    )


def convolution_dimension_numbers_of(message: Message) -> ConvolutionDimensionNumbers:
    """The dimension numbers of a convolution; HloError for impossible ones."""
    numbers = ConvolutionDimensionNumbers(
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


_MOST_DIMENSIONS = 1 << 10


def sparsity_config_of(message: Message) -> SparsityConfig:
    """The sparsity of the operands of a dot or a convolution."""
    sides = (_sparsity(message.message(side)) if message.has(side) else None for side in ("lhs", "rhs"))
    return SparsityConfig(*sides)


def _sparsity(message: Message) -> TensorSparsity:
    fields = ("num_non_zero", "block_size", "dimension", "stride", "idx")
    return TensorSparsity(*map(message.integer, fields))


def block_scaling_config_of(message: Message) -> BlockScalingConfig:
    """The scales of the operands of a dot or a convolution."""
    sides = (_block_scaling(message.message(side)) if message.has(side) else None for side in ("lhs", "rhs"))
    return BlockScalingConfig(*sides)


def _block_scaling(message: Message) -> TensorBlockScaling:
    zero = message.integer("zero_idx") if message.has("zero_idx") else None
    return TensorBlockScaling(
        message.integer("scale_idx"), zero, message.integers("strides"), message.integers("steps")
    )


def output_operand_alias_of(message: Message) -> OutputOperandAlias:
    """One element of the result that shares its buffer with an operand."""
    return OutputOperandAlias(
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


def result_accuracy_of(message: Message) -> ResultAccuracy:
    """The required accuracy of a result."""
    if not message.has("tolerance"):
        return ResultAccuracy(ResultAccuracyMode(message.word("mode")))
    tolerance = message.message("tolerance")
    return ResultAccuracy(Tolerance(tolerance.decimal("atol"), tolerance.decimal("rtol"), tolerance.integer("ulps")))


def metadata_of(message: Message) -> Metadata:
    """The source location and op_name of an instruction."""
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
        message.message("metadata_payload").text("value"),
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


def alias_of(message: Message) -> Alias:
    """An element of the result that shares its buffer with a parameter."""
    return Alias(
        message.integers("output_shape_index"),
        message.integer("parameter_number"),
        message.integers("parameter_shape_index"),
        message.word("kind"),
    )


def buffer_donor_of(message: Message) -> BufferDonor:
    """A parameter whose buffer may be reused."""
    return BufferDonor(message.integer("parameter_number"), message.integers("parameter_shape_index"))


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
