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
    _called("calls", "what is inside the kernel", "fusion"),
    _called("calls", "the computation that it runs"),
    _called("to_apply", "says which of two elements comes first", "sort"),
    _called("to_apply", "the computation that is called", "call"),
    _called("to_apply", "the computation that it applies"),
    _called("condition", "says before each round whether to go on"),
    _called("body", "runs once a round of the loop"),
    _called("true_computation", "runs if the first operand is true", label="true"),
    _called("false_computation", "runs if the first operand is false", label="false"),
    _called("branch_computations", "the branches, chosen by number", kind=Kind.COMPUTATIONS, label="branches"),
    _called("select", "chooses between two elements of a window"),
    _called("scatter", "joins what falls on the same element"),
    _called("called_computations", "computations that the target may call", kind=Kind.COMPUTATIONS, label="calls"),
)
CALLS: Final = (
    AttributeRow("async_execution_thread", Kind.STRING, "who runs it meanwhile", label="thread"),
    AttributeRow("async_group_id", Kind.INT, "pairs the start with its done; an old spelling", is_old=True),
    AttributeRow(
        "cross_program_prefetch_index", Kind.INT32, "fetched while the previous run ends; which such fetch it is"
    ),
    AttributeRow(
        "is_cross_program_prefetch",
        Kind.BOOL,
        "whether it is fetched while the previous run ends; an old spelling",
        is_old=True,
    ),
    AttributeRow(
        "kind",
        Kind.FUSION_KIND,
        "what sort of kernel",
        words={
            "kLoop": "a loop over the elements of the result",
            "kInput": "a loop over the elements of an operand, for a reduction or a scatter at its end",
            "kOutput": "a convolution or product and the work on its result",
            "kCustom": "a pattern that the backend knows by name",
        },
        proto_field="fusion_kind",
    ),
    AttributeRow(
        "padding_type",
        Kind.PADDING_TYPE,
        "how the edges of windows are filled",
        words={"PADDING_VALID": "windows stay inside", "PADDING_SAME": "the result is as large as the operand"},
        usual=("PADDING_INVALID",),
    ),
    AttributeRow("custom_call_target", Kind.STRING, "the name under which the code is registered", label="target"),
    AttributeRow(
        "operand_layout_constraints",
        Kind.SHAPES,
        "the layouts that the target wants its operands in",
        label="layouts",
        proto_field="operand_shapes_with_layout",
    ),
    AttributeRow(
        "custom_call_has_side_effect",
        Kind.BOOL,
        "whether it must run even if nobody uses its result",
        label="side effect",
    ),
    AttributeRow("literal", Kind.LITERAL, "a constant that the target gets"),
    AttributeRow(
        "output_to_operand_aliasing",
        Kind.OPERAND_ALIASING,
        "results that lie in the same memory as an operand",
        label="aliases",
        proto_field="output_operand_aliasing",
    ),
    AttributeRow(
        "schedule",
        Kind.SCHEDULE,
        "when the scheduler should place it",
        words={"SCHEDULE_LATEST": "as late as possible", "SCHEDULE_EARLIEST": "as early as possible"},
        proto_field="custom_call_schedule",
        usual=("SCHEDULE_NONE",),
    ),
    AttributeRow(
        "api_version",
        Kind.API_VERSION,
        "how the compiled program calls the target",
        words={
            "API_VERSION_STATUS_RETURNING": "an old form that can report an error",
            "API_VERSION_STATUS_RETURNING_UNIFIED": "an old form, the same on CPU and GPU",
            "API_VERSION_TYPED_FFI": "typed buffers and attributes, the present form",
        },
        proto_field="custom_call_api_version",
        usual=("API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL"),
        unsaid="API_VERSION_ORIGINAL",
    ),
)
COLLECTIVES: Final = (
    AttributeRow("channel_id", Kind.INT, "which instructions on different devices belong together"),
    AttributeRow("is_host_transfer", Kind.BOOL, "whether the other side is the host"),
    AttributeRow("source_target_pairs", Kind.INT_LISTS, "who sends to whom", label="pairs"),
    AttributeRow(
        "slice_sizes", Kind.INT_LISTS, "the sizes of what is sent", _PERMUTES, proto_field="dynamic_slice_sizes"
    ),
    AttributeRow("replica_groups", Kind.REPLICA_GROUPS, "which devices work together", label="groups"),
    AttributeRow("constrain_layout", Kind.BOOL, "whether layout assignment has to keep the layouts"),
    AttributeRow("dimensions", Kind.INTS, "the dimension along which the parts are joined", _GATHERS),
    AttributeRow("dimensions", Kind.INTS, "the dimension that is cut into parts", "all-to-all"),
    AttributeRow(
        "use_global_device_ids",
        Kind.BOOL,
        "whether groups list devices of the whole run, not replicas",
        label="global ids",
    ),
    AttributeRow("dimensions", Kind.INTS, "the dimension that is cut into parts, one a device", "reduce-scatter"),
    AttributeRow("mode", Kind.GROUP_MODE, "how the groups are counted; XLA ignores it", is_forgotten=True),
    AttributeRow("has_dynamic_root", Kind.BOOL, "whether the sender is known only when the program runs"),
    AttributeRow(
        "all_gather_dimension", Kind.INT, "the dimension along which the parts are joined; an old spelling", is_old=True
    ),
    AttributeRow("split_dimension", Kind.INT, "the dimension along which parts are cut; an old spelling", is_old=True),
)
