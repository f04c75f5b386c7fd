"""The attributes of what calls computations: control flow, fusions, asynchronous operations, custom calls.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, in whose order the rows stand;
which computations an instruction calls stands behind them, by a rule of its own.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place

_ASYNC: Final = "async-start async-update async-done"
_APPLIES: Final = "the computation that it applies"
_RUNS: Final = "the computation that it runs"


def _called(
    name: str, opcodes: str, meaning: str, *, several: bool = False, label: str = "", required: bool = False
) -> AttributeRow:
    """A row that names computations."""
    kind = Kind.COMPUTATIONS if several else Kind.COMPUTATION
    return AttributeRow(name, kind, opcodes, meaning, label=label, required=required, place=Place.ASIDE)


CALLED: Final = (
    _called("calls", "fusion", "what is inside the kernel", required=True),
    _called("calls", "async-start", _RUNS, required=True),
    _called("calls", "async-update async-done", _RUNS),
    _called("to_apply", "sort", "says which of two elements comes first", required=True),
    _called("to_apply", "call", "the computation that is called", required=True),
    _called("to_apply", "custom-call", _APPLIES),
    _called(
        "to_apply",
        "all-reduce all-reduce-start reduce-scatter map reduce reduce-window scan scatter",
        _APPLIES,
        required=True,
    ),
    _called("condition", "while", "says before each round whether to go on", required=True),
    _called("body", "while", "runs once a round of the loop", required=True),
    _called("true_computation", "conditional", "runs if the first operand is true", label="true"),
    _called("false_computation", "conditional", "runs if the first operand is false", label="false"),
    _called("branch_computations", "conditional", "the branches, chosen by number", several=True, label="branches"),
    _called("select", "select-and-scatter", "chooses between two elements of a window", required=True),
    _called("scatter", "select-and-scatter", "joins what falls on the same element", required=True),
    _called("called_computations", "custom-call", "computations that the target may call", several=True, label="calls"),
)
CALLS: Final = (
    AttributeRow("async_execution_thread", Kind.STRING, _ASYNC, "who runs it meanwhile", label="thread"),
    AttributeRow("async_group_id", Kind.INT, _ASYNC, "pairs the start with its done; an old spelling", is_old=True),
    AttributeRow(
        "cross_program_prefetch_index",
        Kind.INT32,
        "copy-start",
        "fetched while the previous run ends; which such fetch it is",
    ),
    AttributeRow(
        "is_cross_program_prefetch",
        Kind.BOOL,
        "copy-start",
        "whether it is fetched while the previous run ends; an old spelling",
        is_old=True,
    ),
    AttributeRow(
        "kind",
        Kind.FUSION_KIND,
        "fusion",
        "what sort of kernel",
        words={
            "kLoop": "a loop over the elements of the result",
            "kInput": "a loop over the elements of an operand, for a reduction or a scatter at its end",
            "kOutput": "a convolution or product and the work on its result",
            "kCustom": "a pattern that the backend knows by name",
        },
        required=True,
        proto_field="fusion_kind",
    ),
    AttributeRow(
        "padding_type",
        Kind.PADDING_TYPE,
        "custom-call",
        "how the edges of windows are filled",
        words={"PADDING_VALID": "windows stay inside", "PADDING_SAME": "the result is as large as the operand"},
        usual=("PADDING_INVALID",),
    ),
    AttributeRow(
        "custom_call_target",
        Kind.STRING,
        "custom-call",
        "the name under which the code is registered",
        label="target",
        required=True,
    ),
    AttributeRow(
        "operand_layout_constraints",
        Kind.SHAPES,
        "custom-call",
        "the layouts that the target wants its operands in",
        label="layouts",
        proto_field="operand_shapes_with_layout",
    ),
    AttributeRow(
        "custom_call_has_side_effect",
        Kind.BOOL,
        "custom-call",
        "whether it must run even if nobody uses its result",
        label="side effect",
    ),
    AttributeRow("literal", Kind.LITERAL, "custom-call", "a constant that the target gets"),
    AttributeRow(
        "output_to_operand_aliasing",
        Kind.OPERAND_ALIASING,
        "async-start async-update fusion custom-call",
        "results that lie in the same memory as an operand",
        label="aliases",
        proto_field="output_operand_aliasing",
    ),
    AttributeRow(
        "schedule",
        Kind.SCHEDULE,
        "custom-call",
        "when the scheduler should place it",
        words={"SCHEDULE_LATEST": "as late as possible", "SCHEDULE_EARLIEST": "as early as possible"},
        proto_field="custom_call_schedule",
        usual=("SCHEDULE_NONE",),
    ),
    AttributeRow(
        "api_version",
        Kind.API_VERSION,
        "custom-call",
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
