"""The table of attributes: which opcode may have which, whether it must, and which grammar the value has.

Mirrors `CreateInstruction` and `ParseHloModule` of xla/hlo/parser/hlo_parser.cc. Adding an attribute is adding a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.ir.operations import OPCODE_ARITY, wrapped_opcode


class Kind(Enum):
    """The grammars of attribute values, named as in XLA's `AttrTy`."""

    BOOL = auto()
    BOOLS = auto()
    BOOLS_OR_BOOL = auto()
    INT = auto()
    INT32 = auto()
    INTS = auto()
    INT_LISTS = auto()
    FLOAT = auto()
    STRING = auto()
    STRING_OR_JSON = auto()
    SHAPE = auto()
    SHAPES = auto()
    LITERAL = auto()
    COMPUTATION = auto()
    COMPUTATIONS = auto()
    INSTRUCTIONS = auto()
    ALGORITHM = auto()
    ALIASING = auto()
    API_VERSION = auto()
    BUFFER_DONORS = auto()
    COMPUTATION_LAYOUT = auto()
    CONVOLUTION_KIND = auto()
    DEBUG_ATTRIBUTES = auto()
    DIM_LABELS = auto()
    DIRECTION = auto()
    DISTRIBUTION = auto()
    DOMAIN = auto()
    FFT_TYPE = auto()
    FRONTEND_ATTRIBUTES = auto()
    FUSION_KIND = auto()
    GROUP_MODE = auto()
    METADATA = auto()
    OPERAND_ALIASING = auto()
    ORDER = auto()
    ORIGIN = auto()
    PADDING = auto()
    PADDING_TYPE = auto()
    PRECISIONS = auto()
    RANDOM_ALGORITHM = auto()
    RECOVERY_TABLE = auto()
    REPLICA_GROUPS = auto()
    RESULT_ACCURACY = auto()
    SCHEDULE = auto()
    SHARDING = auto()
    SLICE = auto()
    SPARSITY = auto()
    STATISTICS = auto()
    TRANSPOSE = auto()
    TYPE = auto()
    WINDOW = auto()

    __hash__ = object.__hash__
    """Kinds are looked up with every value that is read, and the hash of the name would take longer than the rest."""


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """One row: an attribute, the opcodes that may have it (none named: all), and the grammar of its value.

    `is_old` marks what only versions before jaxlib 0.10.2 printed: known, but nothing that XLA reads today.
    """

    name: str
    kind: Kind
    opcodes: str = ""
    required: bool = False
    is_old: bool = False


_ROUNDED: Final = """acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one
    logistic rsqrt sine sinh sqrt tan tanh"""
_GATHERS: Final = "all-gather all-gather-start"
_REDUCES: Final = "all-reduce all-reduce-start reduce-scatter"
_PERMUTES: Final = "collective-permute collective-permute-start"
_GROUPED: Final = f"{_GATHERS} {_REDUCES} all-to-all ragged-all-to-all collective-broadcast"
_CHANNELS: Final = "send send-done recv recv-done"
_DOTS: Final = "dot ragged-dot scaled-dot"
_BATCH_NORMS: Final = "batch-norm-grad batch-norm-inference batch-norm-training"

_COMMON: Final = (
    AttributeRule("sharding", Kind.SHARDING),
    AttributeRule("frontend_attributes", Kind.FRONTEND_ATTRIBUTES),
    AttributeRule("parameter_replication", Kind.BOOLS),
    AttributeRule("control-predecessors", Kind.INSTRUCTIONS),
    AttributeRule("statistics", Kind.STATISTICS),
    AttributeRule("origin", Kind.ORIGIN),
    AttributeRule("metadata", Kind.METADATA),
    AttributeRule("backend_config", Kind.STRING_OR_JSON),
)
_TABLE: Final = (
    AttributeRule("iota_dimension", Kind.INT, "iota", required=True),
    AttributeRule("k", Kind.INT, "topk", required=True),
    AttributeRule("largest", Kind.BOOL, "topk"),
    AttributeRule("is_stable", Kind.BOOL, "topk sort"),
    AttributeRule("order", Kind.ORDER, "compare"),
    AttributeRule("result_accuracy", Kind.RESULT_ACCURACY, _ROUNDED),
    AttributeRule("direction", Kind.DIRECTION, "compare", required=True),
    AttributeRule("type", Kind.TYPE, "compare"),
    AttributeRule("channel_id", Kind.INT, f"{_GROUPED} {_PERMUTES} {_CHANNELS}"),
    AttributeRule("replica_groups", Kind.REPLICA_GROUPS, _GROUPED),
    AttributeRule("constrain_layout", Kind.BOOL, f"{_GATHERS} {_REDUCES} all-to-all"),
    AttributeRule("use_global_device_ids", Kind.BOOL, f"{_GATHERS} {_REDUCES}"),
    AttributeRule("mode", Kind.GROUP_MODE, _REDUCES),
    AttributeRule("has_dynamic_root", Kind.BOOL, "collective-broadcast"),
    AttributeRule("all_gather_dimension", Kind.INT, _GATHERS, is_old=True),
    AttributeRule("split_dimension", Kind.INT, "all-to-all", is_old=True),
    AttributeRule("source_target_pairs", Kind.INT_LISTS, _PERMUTES, required=True),
    AttributeRule("slice_sizes", Kind.INT_LISTS, _PERMUTES),
    AttributeRule("is_host_transfer", Kind.BOOL, _CHANNELS),
    AttributeRule("async_execution_thread", Kind.STRING, "async-start async-update async-done"),
    AttributeRule("async_group_id", Kind.INT, "async-start async-update async-done", is_old=True),
    AttributeRule("calls", Kind.COMPUTATION, "async-start fusion", required=True),
    AttributeRule("calls", Kind.COMPUTATION, "async-update async-done"),
    AttributeRule("output_to_operand_aliasing", Kind.OPERAND_ALIASING, "async-start async-update fusion custom-call"),
    AttributeRule("cross_program_prefetch_index", Kind.INT32, "copy-start"),
    AttributeRule("is_cross_program_prefetch", Kind.BOOL, "copy-start", is_old=True),
    AttributeRule("inferred_dimension", Kind.INT, "reshape"),
    AttributeRule(
        "dimensions", Kind.INTS, f"{_GATHERS} reduce-scatter sort scan reduce reverse transpose", required=True
    ),
    AttributeRule("dimensions", Kind.INTS, "concatenate get-dimension-size set-dimension-size", required=True),
    AttributeRule("dimensions", Kind.INTS, "all-to-all ragged-all-to-all broadcast map"),
    AttributeRule(
        "to_apply", Kind.COMPUTATION, f"{_REDUCES} sort call map reduce reduce-window scan scatter", required=True
    ),
    AttributeRule("to_apply", Kind.COMPUTATION, "custom-call"),
    AttributeRule("condition", Kind.COMPUTATION, "while", required=True),
    AttributeRule("body", Kind.COMPUTATION, "while", required=True),
    AttributeRule("true_computation", Kind.COMPUTATION, "conditional"),
    AttributeRule("false_computation", Kind.COMPUTATION, "conditional"),
    AttributeRule("branch_computations", Kind.COMPUTATIONS, "conditional"),
    AttributeRule("is_composite", Kind.BOOL, "call"),
    AttributeRule("select", Kind.COMPUTATION, "select-and-scatter", required=True),
    AttributeRule("scatter", Kind.COMPUTATION, "select-and-scatter", required=True),
    AttributeRule("num_carries", Kind.INT, "scan", required=True),
    AttributeRule("is_reverse", Kind.BOOL, "scan"),
    AttributeRule("is_associative", Kind.BOOL, "scan"),
    AttributeRule("window", Kind.WINDOW, "reduce-window select-and-scatter convolution custom-call"),
    AttributeRule("dim_labels", Kind.DIM_LABELS, "convolution", required=True),
    AttributeRule("dim_labels", Kind.DIM_LABELS, "custom-call"),
    AttributeRule("feature_group_count", Kind.INT, "convolution custom-call"),
    AttributeRule("batch_group_count", Kind.INT, "convolution custom-call"),
    AttributeRule("convolution_kind", Kind.CONVOLUTION_KIND, "convolution"),
    AttributeRule("conv_kind", Kind.CONVOLUTION_KIND, "convolution", is_old=True),
    AttributeRule("sparsity_config", Kind.SPARSITY, "convolution"),
    AttributeRule("operand_precision", Kind.PRECISIONS, f"{_DOTS} convolution custom-call"),
    AttributeRule("algorithm", Kind.ALGORITHM, "dot scaled-dot convolution custom-call"),
    AttributeRule("lhs_batch_dims", Kind.INTS, _DOTS),
    AttributeRule("lhs_contracting_dims", Kind.INTS, _DOTS),
    AttributeRule("rhs_batch_dims", Kind.INTS, _DOTS),
    AttributeRule("rhs_contracting_dims", Kind.INTS, _DOTS),
    AttributeRule("lhs_ragged_dims", Kind.INTS, "ragged-dot"),
    AttributeRule("rhs_group_dims", Kind.INTS, "ragged-dot"),
    AttributeRule("sparsity", Kind.SPARSITY, "dot", is_old=True),
    AttributeRule("fft_type", Kind.FFT_TYPE, "fft", required=True),
    AttributeRule("fft_length", Kind.INTS, "fft", required=True),
    AttributeRule("left_side", Kind.BOOL, "triangular-solve"),
    AttributeRule("lower", Kind.BOOL, "triangular-solve cholesky"),
    AttributeRule("unit_diagonal", Kind.BOOL, "triangular-solve"),
    AttributeRule("transpose_a", Kind.TRANSPOSE, "triangular-solve"),
    AttributeRule("slice", Kind.SLICE, "slice", required=True),
    AttributeRule("dynamic_slice_sizes", Kind.INTS, "dynamic-slice", required=True),
    AttributeRule("padding", Kind.PADDING, "pad", required=True),
    AttributeRule("offset_dims", Kind.INTS, "gather", required=True),
    AttributeRule("collapsed_slice_dims", Kind.INTS, "gather", required=True),
    AttributeRule("start_index_map", Kind.INTS, "gather", required=True),
    AttributeRule("operand_batching_dims", Kind.INTS, "gather"),
    AttributeRule("start_indices_batching_dims", Kind.INTS, "gather"),
    AttributeRule("slice_sizes", Kind.INTS, "gather", required=True),
    AttributeRule("index_vector_dim", Kind.INT, "gather scatter", required=True),
    AttributeRule("indices_are_sorted", Kind.BOOL, "gather scatter"),
    AttributeRule("unique_indices", Kind.BOOL, "scatter"),
    AttributeRule("update_window_dims", Kind.INTS, "scatter", required=True),
    AttributeRule("inserted_window_dims", Kind.INTS, "scatter", required=True),
    AttributeRule("scatter_dims_to_operand_dims", Kind.INTS, "scatter", required=True),
    AttributeRule("input_batching_dims", Kind.INTS, "scatter"),
    AttributeRule("scatter_indices_batching_dims", Kind.INTS, "scatter"),
    AttributeRule("epsilon", Kind.FLOAT, _BATCH_NORMS, required=True),
    AttributeRule("feature_index", Kind.INT, _BATCH_NORMS, required=True),
    AttributeRule("distribution", Kind.DISTRIBUTION, "rng", required=True),
    AttributeRule("algorithm", Kind.RANDOM_ALGORITHM, "rng-bit-generator", required=True),
    AttributeRule("delta", Kind.INT, "rng-get-and-update-state", required=True),
    AttributeRule("exponent_bits", Kind.INT, "reduce-precision", required=True),
    AttributeRule("mantissa_bits", Kind.INT, "reduce-precision", required=True),
    AttributeRule("infeed_config", Kind.STRING, "infeed"),
    AttributeRule("outfeed_shape", Kind.SHAPE, "outfeed"),
    AttributeRule("outfeed_config", Kind.STRING, "outfeed"),
    AttributeRule("index", Kind.INT, "get-tuple-element", required=True),
    AttributeRule("domain", Kind.DOMAIN, "domain", required=True),
    AttributeRule("kind", Kind.FUSION_KIND, "fusion", required=True),
    AttributeRule("padding_type", Kind.PADDING_TYPE, "custom-call"),
    AttributeRule("custom_call_target", Kind.STRING, "custom-call", required=True),
    AttributeRule("operand_layout_constraints", Kind.SHAPES, "custom-call"),
    AttributeRule("custom_call_has_side_effect", Kind.BOOL, "custom-call"),
    AttributeRule("literal", Kind.LITERAL, "custom-call"),
    AttributeRule("schedule", Kind.SCHEDULE, "custom-call"),
    AttributeRule("api_version", Kind.API_VERSION, "custom-call"),
    AttributeRule("called_computations", Kind.COMPUTATIONS, "custom-call"),
)
_HEADER: Final = (
    AttributeRule("is_scheduled", Kind.BOOL),
    AttributeRule("input_output_alias", Kind.ALIASING),
    AttributeRule("buffer_donor", Kind.BUFFER_DONORS),
    AttributeRule("alias_passthrough_params", Kind.BOOL),
    AttributeRule("entry_computation_layout", Kind.COMPUTATION_LAYOUT),
    AttributeRule("allow_spmd_sharding_propagation_to_parameters", Kind.BOOLS_OR_BOOL),
    AttributeRule("allow_spmd_sharding_propagation_to_output", Kind.BOOLS_OR_BOOL),
    AttributeRule("replica_count", Kind.INT),
    AttributeRule("num_partitions", Kind.INT),
    AttributeRule("frontend_attributes", Kind.FRONTEND_ATTRIBUTES),
    AttributeRule("origin_recovery_table", Kind.RECOVERY_TABLE),
    AttributeRule("debug_attributes", Kind.DEBUG_ATTRIBUTES),
    AttributeRule("backend_config", Kind.STRING_OR_JSON),
)
ATTRIBUTE_NAMES: Final = tuple(dict.fromkeys(rule.name for rule in (*_COMMON, *_TABLE)))
"""The attributes that instructions may have, of whatever opcode."""

_SUGAR: Final = ("async_execution_thread", "output_to_operand_aliasing")

Rules = Mapping[str, AttributeRule]
HEADER_ATTRIBUTES: Final[Rules] = MappingProxyType({rule.name: rule for rule in _HEADER})
"""The attributes of a module's header, by name."""


@cache
def attributes_of(opcode: str) -> Rules:
    """The attributes an opcode may have, by name; those of an unknown opcode are the common ones.

    >>> attributes_of("iota")["iota_dimension"].required, "to_apply" in attributes_of("reduce-start")
    (True, True)
    """
    rules = {rule.name: rule for rule in (*_COMMON, *_by_opcode().get(opcode, ()))}
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return MappingProxyType(rules)
    names = _SUGAR if opcode.endswith("-start") else _SUGAR[:1]
    rules |= {rule.name: rule for rule in _by_opcode()["async-start"] if rule.name in names}
    return MappingProxyType(rules | dict(attributes_of(wrapped)) if opcode.endswith("-start") else rules)


@cache
def _by_opcode() -> Mapping[str, tuple[AttributeRule, ...]]:
    return {opcode: tuple(rule for rule in _TABLE if opcode in rule.opcodes.split()) for opcode in OPCODE_ARITY}
