"""The attributes of instructions that call computations or communicate: control flow, fusions, calls, collectives.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order; attributes
that name called computations come last, by a rule of their own.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place

_GATHERS: Final = "all-gather all-gather-start"
_PERMUTES: Final = "collective-permute collective-permute-start"


def _called(
    name: str, meaning: str, opcodes: str = "", *, kind: Kind = Kind.COMPUTATION, label: str = ""
) -> AttributeRow:
    """A row that names computations."""
    return AttributeRow(name, kind, meaning, opcodes, label=label, place=Place.ASIDE)


CALLED: Final = (
    _called("calls", "fused computation", "fusion"),
    _called("calls", "called computation"),
    _called("to_apply", "comparator of two elements", "sort"),
    _called("to_apply", "called computation", "call"),
    _called("to_apply", "applied computation"),
    _called("condition", "loop condition"),
    _called("body", "loop body"),
    _called("true_computation", "branch taken if the predicate is true", label="true"),
    _called("false_computation", "branch taken if the predicate is false", label="false"),
    _called("branch_computations", "branch computations, by index", kind=Kind.COMPUTATIONS, label="branches"),
    _called("select", "predicate that selects one of two window elements"),
    _called("scatter", "combines values scattered to the same element"),
    _called("called_computations", "computations that the target can call", kind=Kind.COMPUTATIONS, label="calls"),
)
CALLS: Final = (
    AttributeRow("async_execution_thread", Kind.STRING, "execution thread of the async operation", label="thread"),
    AttributeRow("async_group_id", Kind.INT, "pairs start and done (obsolete)", is_old=True),
    AttributeRow("cross_program_prefetch_index", Kind.INT32, "index of the cross-program prefetch"),
    AttributeRow(
        "is_cross_program_prefetch",
        Kind.BOOL,
        "whether the copy is a cross-program prefetch (obsolete)",
        is_old=True,
    ),
    AttributeRow(
        "kind",
        Kind.FUSION_KIND,
        "fusion kind",
        words={
            "kLoop": "loop over the output elements",
            "kInput": "loop over the input elements, for a root reduction or scatter",
            "kOutput": "matmul or convolution with fused epilogue",
            "kCustom": "backend-specific fusion",
        },
        proto_field="fusion_kind",
    ),
    AttributeRow(
        "padding_type",
        Kind.PADDING_TYPE,
        "padding of the windows",
        words={"PADDING_VALID": "no padding", "PADDING_SAME": "padded so that input and output have the same size"},
        usual=("PADDING_INVALID",),
    ),
    AttributeRow("custom_call_target", Kind.STRING, "registered name of the target", label="target"),
    AttributeRow(
        "operand_layout_constraints",
        Kind.SHAPES,
        "required operand layouts",
        label="layouts",
        proto_field="operand_shapes_with_layout",
    ),
    AttributeRow(
        "custom_call_has_side_effect",
        Kind.BOOL,
        "whether the call has side effects",
        words={"true": "has side effects; kept even if unused", "false": "no side effects"},
        label="side effect",
    ),
    AttributeRow("literal", Kind.LITERAL, "constant passed to the target"),
    AttributeRow(
        "output_to_operand_aliasing",
        Kind.OPERAND_ALIASING,
        "outputs that alias an operand",
        label="aliases",
        proto_field="output_operand_aliasing",
    ),
    AttributeRow(
        "schedule",
        Kind.SCHEDULE,
        "scheduling hint",
        words={"SCHEDULE_LATEST": "as late as possible", "SCHEDULE_EARLIEST": "as early as possible"},
        proto_field="custom_call_schedule",
        usual=("SCHEDULE_NONE",),
    ),
    AttributeRow(
        "api_version",
        Kind.API_VERSION,
        "calling convention of the target",
        words={
            "API_VERSION_STATUS_RETURNING": "legacy convention that can return an error",
            "API_VERSION_STATUS_RETURNING_UNIFIED": "legacy convention, the same on CPU and GPU",
            "API_VERSION_TYPED_FFI": "typed buffers and attributes (XLA FFI)",
        },
        proto_field="custom_call_api_version",
        usual=("API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL"),
        unsaid="API_VERSION_ORIGINAL",
    ),
)
COLLECTIVES: Final = (
    AttributeRow("channel_id", Kind.INT, "channel that matches this operation across devices"),
    AttributeRow(
        "is_host_transfer",
        Kind.BOOL,
        "whether the transfer is to or from the host",
        words={"true": "transfer to or from the host", "false": "transfer between devices"},
    ),
    AttributeRow("source_target_pairs", Kind.INT_LISTS, "source and target device pairs", label="pairs"),
    AttributeRow(
        "slice_sizes", Kind.INT_LISTS, "sizes of the slices that are sent", _PERMUTES, proto_field="dynamic_slice_sizes"
    ),
    AttributeRow("replica_groups", Kind.REPLICA_GROUPS, "groups of participating devices", label="groups"),
    AttributeRow(
        "constrain_layout",
        Kind.BOOL,
        "whether layout assignment must keep the layouts",
        words={"true": "layout assignment must keep the layouts"},
    ),
    AttributeRow("dimensions", Kind.INTS, "dimension along which shards are concatenated", _GATHERS),
    AttributeRow("dimensions", Kind.INTS, "dimension that is split into shards", "all-to-all"),
    AttributeRow(
        "use_global_device_ids",
        Kind.BOOL,
        "whether groups contain global device ids",
        words={"true": "groups contain global device ids"},
        label="global ids",
    ),
    AttributeRow("dimensions", Kind.INTS, "dimension that is split into shards, one per device", "reduce-scatter"),
    AttributeRow("mode", Kind.GROUP_MODE, "group mode (ignored by XLA)", is_forgotten=True),
    AttributeRow(
        "has_dynamic_root",
        Kind.BOOL,
        "whether the root device is chosen at run time",
        words={"true": "the root device is chosen at run time"},
    ),
    AttributeRow(
        "all_gather_dimension", Kind.INT, "dimension along which shards are concatenated (obsolete)", is_old=True
    ),
    AttributeRow("split_dimension", Kind.INT, "dimension that is split into shards (obsolete)", is_old=True),
)
