"""The values of attributes as drafts of the messages that protos hold them in."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.attributes.metadata import (
    DebugAttributes,
    DebuggedArray,
    FrontendAttributes,
    Metadata,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    StatisticsViz,
)
from hlo_cli.ir.attributes.value_types import (
    Alias,
    BlockScalingConfig,
    BufferDonor,
    ConvolutionDimensionNumbers,
    OutputOperandAlias,
    PaddingConfig,
    ResultAccuracy,
    Slice,
    SparsityConfig,
    TensorSparsity,
    Tolerance,
    Window,
    WindowDimension,
)
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message_builder import MessageBuilder

Fieldwise = (
    ConvolutionDimensionNumbers
    | DebugAttributes
    | Metadata
    | OutputOperandAlias
    | TensorSparsity
    | Tolerance
    | WindowDimension
)
"""Values whose fields are those of a message, name by name."""


def fieldwise_draft(kind: str, value: Fieldwise) -> MessageBuilder:
    """A message whose fields have the names and values of those of a value.

    >>> fieldwise_draft("WindowDimension", WindowDimension(3)).to_bytes().hex()
    '0803100128013001'
    """
    draft = MessageBuilder(kind)
    for name in fields_of(kind):
        if item := getattr(value, name, None):
            draft.add(name, item)
    return draft


def window_draft(window: Window) -> MessageBuilder:
    """A window."""
    return MessageBuilder("Window").add(
        "dimensions", [fieldwise_draft("WindowDimension", d) for d in window.dimensions]
    )


def padding_config_draft(padding: PaddingConfig) -> MessageBuilder:
    """A padding."""
    dimensions = [
        MessageBuilder("PaddingConfigDimension")
        .add("edge_padding_low", d.edge_padding_low)
        .add("edge_padding_high", d.edge_padding_high)
        .add("interior_padding", d.interior_padding)
        for d in padding.dimensions
    ]
    return MessageBuilder("PaddingConfig").add("dimensions", dimensions)


def slice_drafts(taken: Slice) -> list[MessageBuilder]:
    """The part of each dimension in a slice."""
    return [
        MessageBuilder("SliceDimensions").add("start", d.start).add("limit", d.limit).add("stride", d.stride)
        for d in taken.dimensions
    ]


def sparsity_config_draft(config: SparsityConfig) -> MessageBuilder:
    """How sparse the operands of a dot or a convolution are."""
    draft = MessageBuilder("SparsityConfig")
    for side, sparsity in (("lhs", config.lhs), ("rhs", config.rhs)):
        draft.add(side, fieldwise_draft("TensorSparsityConfig", sparsity) if sparsity is not None else None)
    return draft


def block_scaling_config_draft(config: BlockScalingConfig) -> MessageBuilder:
    """The operands that hold the scales of others."""
    draft = MessageBuilder("BlockScalingConfig")
    for side, scaling in (("lhs", config.lhs), ("rhs", config.rhs)):
        if scaling is not None:
            scales = MessageBuilder("TensorBlockScalingConfig").add("scale_idx", scaling.scale_idx)
            scales.add("zero_idx", scaling.zero_idx, always=True)
            draft.add(side, scales.add("strides", scaling.strides).add("steps", scaling.steps))
    return draft


def output_operand_alias_draft(alias: OutputOperandAlias) -> MessageBuilder:
    """One element of the result that shares the buffer of an operand."""
    return (
        MessageBuilder("OutputOperandAliasing")
        .add("output_shape_index", alias.output_index)
        .add("operand_index", alias.operand_number)
        .add("operand_shape_index", alias.operand_index)
    )


def frontend_attributes_draft(attributes: FrontendAttributes) -> MessageBuilder:
    """Texts by name."""
    entries = [
        MessageBuilder("MapEntry").add("key", key).add("value", text) for key, text in sorted(attributes.entries)
    ]
    return MessageBuilder("FrontendAttributes").add("map", entries)


def statistics_draft(statistics: StatisticsViz) -> MessageBuilder:
    """What tools measured."""
    listed = [
        MessageBuilder("Statistic").add("stat_name", s.name).add("stat_val", s.value) for s in statistics.statistics
    ]
    draft = MessageBuilder("StatisticsViz").add("stat_index_to_visualize", statistics.stat_index_to_visualize)
    return draft.add("statistics", listed)


def result_accuracy_draft(accuracy: ResultAccuracy) -> MessageBuilder:
    """How exact a result is to be."""
    if isinstance(accuracy.required, Tolerance):
        return MessageBuilder("ResultAccuracy").add("tolerance", fieldwise_draft("Tolerance", accuracy.required))
    return MessageBuilder("ResultAccuracy").add("mode", str(accuracy.required))


def original_array_draft(array: OriginalArray) -> MessageBuilder:
    """An array of the original program."""
    return (
        MessageBuilder("OriginalArrayProto")
        .add("instruction_name", array.instruction_name)
        .add("shape_index", array.shape_index)
    )


def original_value_draft(value: OriginalValue) -> MessageBuilder:
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


def alias_draft(alias: Alias) -> MessageBuilder:
    """An element of the result that shares the buffer of a parameter."""
    return (
        MessageBuilder("AliasEntryProto")
        .add("output_shape_index", alias.output_index)
        .add("parameter_number", alias.parameter_number)
        .add("parameter_shape_index", alias.parameter_index)
        .add("kind", alias.kind)
    )


def buffer_donor_draft(donor: BufferDonor) -> MessageBuilder:
    """A parameter whose buffer may be taken."""
    return (
        MessageBuilder("BufferDonorEntryProto")
        .add("parameter_number", donor.parameter_number)
        .add("parameter_shape_index", donor.parameter_index)
    )


def debugged_array_draft(entry: DebuggedArray) -> MessageBuilder:
    """What is logged of an array of the original program."""
    draft = MessageBuilder("DebugAttributeTableEntryProto").add("original_array", original_array_draft(entry.array))
    return draft.add("debug_attributes", [fieldwise_draft("DebugAttributesProto", a) for a in entry.attributes])
