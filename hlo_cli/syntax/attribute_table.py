"""What is known of each attribute: a row with its grammar, type, field of protos, opcodes, and description.

Adding an attribute is adding a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from hlo_cli.ir.operations import OPERATIONS, wrapped_opcode

# --- a row ---
# A row of the tables of attributes: everything known of one attribute.
#
# Analyses cannot import this; the traits that they need are in `ir/operations.py`. A row is for some opcodes; an
# attribute whose meaning depends on the opcode has several rows of one name. Data that depends on the kind of value is
# kept where that kind is read: grammars in `values/prose_grammars.py`, messages in `proto/read_attributes.py`, so that
# no row imports either.


class Kind(Enum):
    """The grammars of attribute values, named as in XLA's `AttrTy`."""

    BOOL = auto()
    BOOL_IF_GIVEN = auto()
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
    BLOCK_SCALING = auto()
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
    SHUFFLE_MODE = auto()
    SLICE = auto()
    SPARSITY = auto()
    STATISTICS = auto()
    TRANSPOSE = auto()
    TYPE = auto()
    WINDOW = auto()

    __hash__ = object.__hash__
    """Kinds are hashed for every value that is read, and hashing the name would take longer than the rest."""


class Place(Enum):
    """Where XLA prints an attribute (`HloInstruction::PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc)."""

    OWN = auto()
    """First, with the opcode's other attributes."""
    BEFORE_CONTROL = auto()
    """After called computations, before control predecessors; for all opcodes."""
    BEHIND_CONTROL = auto()
    """After control predecessors, before metadata and backend_config; for all opcodes."""
    ASIDE = auto()
    """By a rule of its own, as for values that differ by instruction; or not at all."""


class AttributeRow(NamedTuple):
    """One attribute with the kind of its value and its meaning in words.

    It applies to the opcodes whose rows in `ir/operation_table.py` list it, and to all if none does; a row with
    `opcodes` applies to these, instead of other rows of its name. The rows of opcodes also determine whether it is
    `required`: `attributes_of` fills that in.

    `words` are the possible values with their meanings; `label` is a short name. `is_old` marks attributes that only
    versions before jaxlib 0.10.2 printed, and that XLA no longer reads.

    In protos the value is in the `proto_field` of its instruction, or of its module for a header: a path if messages
    are nested; by default, the name of the attribute. In text, XLA omits values that are zero, empty, or `usual`,
    unless the attribute is `required` or `always` printed. In protos, XLA writes `unsaid` where a text has no value;
    forgotten attributes are read but never written.

    Rows are named tuples, which are created in a sixth of the time of frozen dataclasses.
    """

    name: str
    kind: Kind
    meaning: str = ""
    opcodes: str = ""
    label: str = ""
    words: Mapping[str, str] = MappingProxyType({})
    required: bool = False
    is_old: bool = False
    proto_field: str = ""
    place: Place = Place.OWN
    usual: tuple[str, ...] = ()
    always: bool = False
    unsaid: str | bool | None = None
    is_forgotten: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The fields that lead to the value in a proto.

        >>> AttributeRow("lower", Kind.BOOL, opcodes="cholesky", proto_field="cholesky_options.lower").path
        ('cholesky_options', 'lower')
        """
        return tuple((self.proto_field or self.name).split("."))

    @property
    def calls(self) -> bool:
        """Whether the value names computations."""
        return self.kind in _CALLING


_CALLING: Final = frozenset((Kind.COMPUTATION, Kind.COMPUTATIONS))


# --- attributes of all opcodes and of headers ---
# The attributes of all opcodes, of opcodes with few attributes, and of headers.
#
# Mirrors the first attributes of `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, and `PrintExtraAttributes` of
# xla/hlo/ir/hlo_instruction.cc, and has their order; for headers `ParseHloModule` of the same parser, and
# `HloModule::ToProto` of xla/hlo/ir/hlo_module.cc.


_REPLICATION: Final = "per leaf: whether all replicas have the same value"

COMMON: Final = (
    AttributeRow(
        "is_composite",
        Kind.BOOL,
        "whether the call is a composite operation",
        words={"true": "the call is a composite operation"},
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow("sharding", Kind.SHARDING, "sharding across devices", place=Place.BEFORE_CONTROL),
    AttributeRow(
        "frontend_attributes",
        Kind.FRONTEND_ATTRIBUTES,
        "attributes set by the framework",
        label="frontend",
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        _REPLICATION,
        proto_field="parameter_replication.replicated_at_leaf_buffers",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "control-predecessors",
        Kind.INSTRUCTIONS,
        "control dependencies: must run first",
        label="control deps",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "statistics",
        Kind.STATISTICS,
        "profiler statistics",
        proto_field="statistics_viz",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("result_accuracy", Kind.RESULT_ACCURACY, "required result accuracy", place=Place.BEHIND_CONTROL),
    AttributeRow(
        "origin",
        Kind.ORIGIN,
        "original instruction before optimization",
        proto_field="original_value",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("metadata", Kind.METADATA, place=Place.ASIDE),
    AttributeRow(
        "backend_config",
        Kind.STRING_OR_JSON,
        "backend configuration",
        label="backend",
        place=Place.ASIDE,
    ),
)
OF_PARAMETERS: Final = (
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        _REPLICATION,
        "parameter",
        proto_field="parameter_replication.replicated_at_leaf_buffers",
    ),
)
OTHERS: Final = (
    AttributeRow(
        "direction",
        Kind.DIRECTION,
        "comparison direction",
        words={
            "EQ": "equal",
            "NE": "not equal",
            "GE": "greater or equal",
            "GT": "greater",
            "LE": "less or equal",
            "LT": "less",
        },
        proto_field="comparison_direction",
    ),
    AttributeRow("order", Kind.ORDER, "floating-point order (obsolete)", proto_field="comparison_order"),
    AttributeRow(
        "type",
        Kind.TYPE,
        "comparison type",
        words={
            "FLOAT": "floating point: NaN is unequal to everything",
            "TOTALORDER": "floating point, total order: -NaN < -inf < … < -0 < 0 < … < inf < NaN",
            "SIGNED": "signed integers",
            "UNSIGNED": "unsigned integers",
        },
        proto_field="comparison_type",
    ),
    AttributeRow("exponent_bits", Kind.INT, "exponent bits of the lower-precision format"),
    AttributeRow("mantissa_bits", Kind.INT, "mantissa bits of the lower-precision format"),
    AttributeRow(
        "distribution",
        Kind.DISTRIBUTION,
        "random distribution",
        words={
            "rng_uniform": "uniform between a lower and an upper bound",
            "rng_normal": "normal, with mean and standard deviation",
        },
    ),
    AttributeRow("delta", Kind.INT, "state increment"),
    AttributeRow("infeed_config", Kind.STRING, "infeed configuration"),
    AttributeRow("outfeed_shape", Kind.SHAPE, "shape that the host receives"),
    AttributeRow("outfeed_config", Kind.STRING, "outfeed configuration"),
    AttributeRow("index", Kind.INT, "tuple element, from 0", proto_field="tuple_index"),
    AttributeRow("domain", Kind.DOMAIN, "domain metadata on both sides"),
)
HEADER: Final = (
    # the compiler's configuration has no field
    AttributeRow("is_scheduled", Kind.BOOL, proto_field="schedule.sequences"),
    AttributeRow("input_output_alias", Kind.ALIASING, proto_field="input_output_alias.entries"),
    AttributeRow("buffer_donor", Kind.BUFFER_DONORS, proto_field="buffer_donor.entries"),
    AttributeRow("alias_passthrough_params", Kind.BOOL),
    AttributeRow("entry_computation_layout", Kind.COMPUTATION_LAYOUT, proto_field="host_program_shape"),
    AttributeRow("allow_spmd_sharding_propagation_to_parameters", Kind.BOOLS_OR_BOOL),
    AttributeRow("allow_spmd_sharding_propagation_to_output", Kind.BOOLS_OR_BOOL),
    AttributeRow("replica_count", Kind.INT, proto_field="device_assignment.replica_count", usual=("1",)),
    AttributeRow("num_partitions", Kind.INT, proto_field="device_assignment.computation_count", usual=("1",)),
    AttributeRow("frontend_attributes", Kind.FRONTEND_ATTRIBUTES),
    AttributeRow("origin_recovery_table", Kind.RECOVERY_TABLE, proto_field="original_value_recovery_table.entries"),
    AttributeRow("debug_attributes", Kind.DEBUG_ATTRIBUTES),
    AttributeRow("backend_config", Kind.STRING_OR_JSON),
)


# --- calls and communication ---
# The attributes of instructions that call computations or communicate: control flow, fusions, calls, collectives.
#
# Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order; attributes
# that name called computations come last, by a rule of their own.


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


# --- contractions and windows ---
# The attributes of dots, convolutions, and their windows; of transforms and of solvers in linear algebra.
#
# Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order.


_WINDOW: Final = "sliding window"
_KINDS_OF_CONVOLUTIONS: Final = {
    "fprop": "forward convolution",
    "wgrad": "weight-gradient convolution",
    "dgrad": "input-gradient convolution",
}
_TRIANGLES: Final = {"true": "lower triangle", "false": "upper triangle"}


def _dimensions_of_dots(opcodes: str, message: str) -> Iterator[AttributeRow]:
    """Batch and contracting dimensions of a dot; a ragged dot has the same message inside its own."""
    yield AttributeRow(
        "lhs_batch_dims",
        Kind.INTS,
        "lhs dimensions that are paired with rhs batch dimensions",
        opcodes,
        label="lhs batch",
        proto_field=f"{message}.lhs_batch_dimensions",
    )
    yield AttributeRow(
        "lhs_contracting_dims",
        Kind.INTS,
        "lhs dimensions that are summed over",
        opcodes,
        label="lhs contracting",
        proto_field=f"{message}.lhs_contracting_dimensions",
        always=True,
    )
    yield AttributeRow(
        "rhs_batch_dims",
        Kind.INTS,
        "rhs dimensions that are paired with lhs batch dimensions",
        opcodes,
        label="rhs batch",
        proto_field=f"{message}.rhs_batch_dimensions",
    )
    yield AttributeRow(
        "rhs_contracting_dims",
        Kind.INTS,
        "rhs dimensions that are summed over",
        opcodes,
        label="rhs contracting",
        proto_field=f"{message}.rhs_contracting_dimensions",
        always=True,
    )


CONTRACTIONS: Final = (
    AttributeRow("window", Kind.WINDOW, _WINDOW, unsaid=""),
    AttributeRow("window", Kind.WINDOW, _WINDOW, "custom-call"),
    AttributeRow(
        "dim_labels",
        Kind.DIM_LABELS,
        "roles of the operand and result dimensions",
        proto_field="convolution_dimension_numbers",
    ),
    AttributeRow(
        "feature_group_count", Kind.INT, "number of independent groups of the feature dimension", usual=("1",)
    ),
    AttributeRow("batch_group_count", Kind.INT, "number of independent groups of the batch dimension", usual=("1",)),
    AttributeRow(
        "convolution_kind",
        Kind.CONVOLUTION_KIND,
        "forward, weight-gradient, or input-gradient convolution",
        words=_KINDS_OF_CONVOLUTIONS,
        proto_field="conv_kind",
        usual=("unset",),
    ),
    AttributeRow(
        "conv_kind",
        Kind.CONVOLUTION_KIND,
        "forward, weight-gradient, or input-gradient convolution (obsolete)",
        is_old=True,
    ),
    *_dimensions_of_dots("", "dot_dimension_numbers"),
    *_dimensions_of_dots("ragged-dot", "ragged_dot_dimension_numbers.dot_dimension_numbers"),
    AttributeRow(
        "lhs_ragged_dims",
        Kind.INTS,
        "lhs dimension that is split into groups of different sizes",
        proto_field="ragged_dot_dimension_numbers.lhs_ragged_dimensions",
        always=True,
    ),
    AttributeRow(
        "rhs_group_dims",
        Kind.INTS,
        "rhs dimensions that index the groups",
        proto_field="ragged_dot_dimension_numbers.rhs_group_dimensions",
    ),
    AttributeRow(
        "operand_precision",
        Kind.PRECISIONS,
        "precision of each operand",
        label="precision",
        proto_field="precision_config.operand_precision",
        usual=("default",),
    ),
    AttributeRow(
        "algorithm", Kind.RANDOM_ALGORITHM, "random bit algorithm", "rng-bit-generator", proto_field="rng_algorithm"
    ),
    AttributeRow(
        "algorithm",
        Kind.ALGORITHM,
        "dot algorithm: operand, accumulator, and result types",
        proto_field="precision_config.algorithm",
        usual=("unset",),
    ),
    AttributeRow("sparsity_config", Kind.SPARSITY, "sparsity of operands"),
    AttributeRow("block_scaling_config", Kind.BLOCK_SCALING, "scales of blocks of operands"),
    AttributeRow("sparsity", Kind.SPARSITY, "sparsity of an operand (obsolete)", is_old=True),
    AttributeRow(
        "fft_type",
        Kind.FFT_TYPE,
        "transform type",
        words={
            "FFT": "complex to complex",
            "IFFT": "complex to complex, inverse",
            "RFFT": "real to complex",
            "IRFFT": "complex to real, inverse",
        },
    ),
    AttributeRow("fft_length", Kind.INTS, "size of each transformed dimension"),
    AttributeRow(
        "left_side",
        Kind.BOOL,
        "side of the triangular matrix",
        words={"true": "the triangular matrix is on the left", "false": "the triangular matrix is on the right"},
        proto_field="triangular_solve_options.left_side",
    ),
    AttributeRow(
        "lower",
        Kind.BOOL,
        "lower or upper triangle",
        words=_TRIANGLES,
        proto_field="triangular_solve_options.lower",
    ),
    AttributeRow(
        "lower",
        Kind.BOOL,
        "lower or upper triangle",
        "cholesky",
        words=_TRIANGLES,
        proto_field="cholesky_options.lower",
    ),
    AttributeRow(
        "unit_diagonal",
        Kind.BOOL,
        "whether the diagonal is assumed to be 1",
        words={"true": "the diagonal is assumed to be 1", "false": "the diagonal is read"},
        proto_field="triangular_solve_options.unit_diagonal",
    ),
    AttributeRow(
        "transpose_a",
        Kind.TRANSPOSE,
        "transposition of the triangular matrix",
        words={
            "NO_TRANSPOSE": "not transposed",
            "TRANSPOSE": "transposed",
            "ADJOINT": "transposed and conjugated",
        },
        proto_field="triangular_solve_options.transpose_a",
        usual=("TRANSPOSE_INVALID",),
    ),
    AttributeRow("epsilon", Kind.FLOAT, "added to the variance to avoid division by zero"),
    AttributeRow("feature_index", Kind.INT, "number of the feature dimension"),
)


# --- movement and selection ---
# The attributes of instructions that move and select elements: slices, gathers, scatters, sorts, scans, reductions.
#
# Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order.


_GATHER: Final = "gather_dimension_numbers."
_SCATTER: Final = "scatter_dimension_numbers."
_OVER: Final = {
    "concatenate": "dimension along which arrays are concatenated",
    "get-dimension-size": "dimension whose size is returned",
    "set-dimension-size": "dimension whose size is set",
    "reduce": "dimensions that are reduced",
    "reverse": "dimensions that are reversed",
    "shuffle": "dimensions that are rotated",
    "scan": "dimension along which the scan runs",
    "sort": "dimension along which elements are sorted",
    "transpose": "operand dimension of each result dimension",
}
_OPTIONAL_OVER: Final = {
    "broadcast": "result dimension of each operand dimension",
    "map": "dimensions of the map: all",
}


def _dimensions() -> Iterator[AttributeRow]:
    """The attribute `dimensions`, which differs in meaning between opcodes."""
    for opcodes, meaning in _OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes)
    for opcodes, meaning in _OPTIONAL_OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes, always=True)
    yield AttributeRow("dimensions", Kind.INTS, "dimensions of the operation", "ragged-all-to-all", is_forgotten=True)
    yield AttributeRow("dimensions", Kind.INTS, "dimensions of the operation")


def _batching(message: str, opcode: str, names: tuple[str, str]) -> Iterator[AttributeRow]:
    """Batching dimensions of an array and of the indices into it."""
    meanings = (
        "operand dimensions that are paired with index batching dimensions",
        "index dimensions that are paired with operand batching dimensions",
    )
    for name, meaning in zip(names, meanings, strict=True):
        yield AttributeRow(name, Kind.INTS, meaning, opcode, proto_field=message + name)


INDEXING: Final = (
    *_dimensions(),
    AttributeRow(
        "mode",
        Kind.SHUFFLE_MODE,
        "order of the elements",
        "shuffle",
        words={"rotate": "elements move along the dimension, and around at its end"},
        proto_field="shuffle_mode.rotate",
    ),
    AttributeRow(
        "shifts",
        Kind.INTS,
        "number of places that each dimension is rotated by",
        proto_field="shuffle_mode.rotate.shifts",
        always=True,
    ),
    AttributeRow(
        "iota_dimension",
        Kind.INT,
        "dimension along which the values increase",
        label="dimension",
        proto_field="dimensions",
    ),
    AttributeRow(
        "inferred_dimension",
        Kind.INT,
        "result dimension whose size was inferred",
        proto_field="dimensions",
        always=True,
    ),
    AttributeRow("k", Kind.INT, "number of elements to return"),
    AttributeRow(
        "largest",
        Kind.BOOL,
        "largest or smallest elements",
        words={"true": "largest elements", "false": "smallest elements"},
        unsaid=True,
    ),
    AttributeRow(
        "is_stable",
        Kind.BOOL,
        "whether equal elements keep their order",
        words={"true": "equal elements keep their order", "false": "equal elements may change their order"},
    ),
    AttributeRow(
        "is_stable",
        Kind.BOOL_IF_GIVEN,  # XLA prints false too, but before jaxlib 0.11 has no such attribute
        "whether equal elements keep their order",
        "topk",
        words={"true": "equal elements keep their order", "false": "equal elements may change their order"},
        unsaid=True,
    ),
    AttributeRow("num_carries", Kind.INT, "number of carried values"),
    AttributeRow(
        "is_reverse", Kind.BOOL, "direction of the scan", words={"true": "runs in reverse", "false": "runs forward"}
    ),
    AttributeRow(
        "is_associative",
        Kind.BOOL,
        "whether the scan is associative",
        words={"true": "the scan is associative", "false": "the scan is not associative"},
        usual=("unspecified",),
        unsaid="false",
    ),
    AttributeRow("slice", Kind.SLICE, "start:limit:stride of each dimension", proto_field="slice_dimensions"),
    AttributeRow("dynamic_slice_sizes", Kind.INTS, "size of the slice in each dimension", label="slice sizes"),
    AttributeRow(
        "padding",
        Kind.PADDING,
        "low_high of each dimension; a third number is interior padding",
        proto_field="padding_config",
    ),
    AttributeRow("offset_dims", Kind.INTS, "result dimensions within a slice", proto_field=f"{_GATHER}offset_dims"),
    AttributeRow(
        "collapsed_slice_dims",
        Kind.INTS,
        "slice dimensions of size 1 dropped from the result",
        proto_field=f"{_GATHER}collapsed_slice_dims",
    ),
    AttributeRow(
        "start_index_map",
        Kind.INTS,
        "operand dimension of each index component",
        proto_field=f"{_GATHER}start_index_map",
    ),
    *_batching(_GATHER, "gather", ("operand_batching_dims", "start_indices_batching_dims")),
    AttributeRow(
        "update_window_dims",
        Kind.INTS,
        "update dimensions within a window",
        proto_field=f"{_SCATTER}update_window_dims",
    ),
    AttributeRow(
        "inserted_window_dims",
        Kind.INTS,
        "window dimensions of size 1 dropped from the updates",
        proto_field=f"{_SCATTER}inserted_window_dims",
    ),
    AttributeRow(
        "scatter_dims_to_operand_dims",
        Kind.INTS,
        "operand dimension of each index component",
        proto_field=f"{_SCATTER}scatter_dims_to_operand_dims",
    ),
    *_batching(_SCATTER, "scatter", ("input_batching_dims", "scatter_indices_batching_dims")),
    *(
        AttributeRow(
            "index_vector_dim",
            Kind.INT,
            "dimension of the index vectors",
            opcode,
            proto_field=f"{message}index_vector_dim",
        )
        for opcode, message in (("gather", _GATHER), ("scatter", _SCATTER))
    ),
    AttributeRow("slice_sizes", Kind.INTS, "size of a slice in each dimension", proto_field="gather_slice_sizes"),
    AttributeRow(
        "indices_are_sorted", Kind.BOOL, "whether the indices are sorted", words={"true": "the indices are sorted"}
    ),
    AttributeRow(
        "unique_indices", Kind.BOOL, "whether the indices are unique", words={"true": "the indices are unique"}
    ),
)


# --- the table by opcode and name ---
# The table of attributes: the optional and required ones of each opcode, and all data on each.
#
# Mirrors `CreateInstruction` and `ParseHloModule` of xla/hlo/parser/hlo_parser.cc. Adding an attribute is adding a
# row.


_SUGAR: Final = ("async_execution_thread", "output_to_operand_aliasing")

Rules = Mapping[str, AttributeRow]

ROWS: Final = (*COMMON, *OF_PARAMETERS, *OTHERS, *COLLECTIVES, *CONTRACTIONS, *INDEXING, *CALLS, *CALLED)
"""The rows of instructions; those of an opcode are in the order in which XLA prints them."""
HEADER_ATTRIBUTES: Final[Rules] = MappingProxyType({row.name: row for row in HEADER})
"""The attributes of a module's header, by name."""
ATTRIBUTE_NAMES: Final = tuple(dict.fromkeys(row.name for row in ROWS))
"""The attributes of instructions, over all opcodes."""


@cache
def attributes_of(opcode: str) -> Rules:
    """The attributes of an opcode, by name; those of an unknown opcode are the common ones.

    >>> attributes_of("iota")["iota_dimension"].required, "to_apply" in attributes_of("reduce-start")
    (True, True)
    """
    rules = {row.name: row for row in (*_common(), *own_attributes(opcode))}
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return MappingProxyType(rules)
    names = _SUGAR if opcode.endswith("-start") else _SUGAR[:1]
    rules |= {row.name: row for row in own_attributes("async-start") if row.name in names}
    return MappingProxyType(rules | dict(attributes_of(wrapped)) if opcode.endswith("-start") else rules)


@cache
def own_attributes(opcode: str) -> tuple[AttributeRow, ...]:
    """The rows of an opcode, without the common ones, in the order in which XLA prints them.

    >>> [row.name for row in own_attributes("sort")]
    ['dimensions', 'is_stable', 'to_apply']
    """
    operation = OPERATIONS.get(opcode)
    required, listed = (operation.required, operation.attributes) if operation is not None else ((), ())
    named = {row.name for row in ROWS if opcode in row.opcodes.split()}
    return tuple(
        row._replace(required=row.required or row.name in required)
        for row in ROWS
        if (opcode in row.opcodes.split() if row.opcodes or row.name in named else row.name in listed)
    )


@cache
def attributes_at(place: Place) -> tuple[AttributeRow, ...]:
    """The rows of attributes that XLA prints at a place, independent of the opcode.

    >>> [row.name for row in attributes_at(Place.BEHIND_CONTROL)]
    ['statistics', 'result_accuracy', 'origin']
    """
    return tuple(row for row in ROWS if row.place is place)


@cache
def attribute_named(name: str) -> AttributeRow | None:
    """The most common row of an attribute name, or None if it is unknown.

    >>> attribute_named("slice_sizes").meaning, attribute_named("frob")
    ('size of a slice in each dimension', None)
    """
    return next((row for row in reversed(ROWS) if row.name == name), None)


@cache
def _common() -> tuple[AttributeRow, ...]:
    """The rows of attributes that no opcode lists."""
    listed = {name for operation in OPERATIONS.values() for name in operation.attributes}
    return tuple(row for row in ROWS if not row.opcodes and row.name not in listed)
