"""What is known of each opcode: a row with its operand count, traits, attributes, and description.

Adding an opcode is adding a row; `operations` collects the families, and answers questions about an opcode.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

# --- a row ---
# One row of the table of operations: all data on an opcode.


ANY: Final = 1 << 30
"""Any number of operands."""

Trait: TypeAlias = Literal[
    "applies",  # applies the computation that it calls to scalars, element by element
    "argument",  # a literal or a number is between its parentheses, where others have operands
    "asynchronous",  # starts, updates, or ends a computation of its own, whose operation is not in the opcode
    "block",  # copies a block of an array, which a DMA engine can do between memories of a device
    "collective",  # devices work together; its asynchronous form ends in -start and -done
    "commutative",  # its operands can be swapped (`HloOpcodeIsBinaryCommutative`)
    "control flow",  # runs the computations it calls as they are (`GetInstructionCallContext` of call_graph.cc)
    "device id",  # its value is another one on each device
    "done",  # ends the operation of a start
    "elementwise",  # `HloInstruction::IsOpElementwise`: each element depends on the operands' elements at its place
    "first dimension",  # has one dimension: of a list XLA reads the first
    "forwards",  # the result is the first operand, in the same buffers
    "host feed",  # exchanges data with the program on the host, and is never asynchronous
    "in place",  # may write its result over an operand (`HloDataflowAnalysis::GetInPlaceInputOutputPairs`)
    "matmul",  # a product of matrices, or a convolution
    "moves data",  # computes no new value, but puts values elsewhere
    "needs shape",  # XLA does not infer the shape of its result, so the text has to give it
    "no kernel",  # launches no kernel; what control flow runs does
    "other type",  # the element type of its result may differ from that of its operands
    "own kernel",  # always has a kernel or a library call of its own
    "random state",  # draws from a random state that is none of its operands
    "side effect",  # does more than give a value, whatever its attributes (`HloInstruction::HasSideEffectNoRecurse`)
    "start",  # begins an async operation
    "transcendental",  # counted as transcendental by `HloCostAnalysis::HandleElementwiseOp`, not as flops
    "triton",  # XLA:GPU's Triton kernels of dots compute it (support_legacy.cc of codegen/triton), but for predicates
    "triton float",  # of floats alone
    "triton pred",  # of predicates
    "update",  # goes on with what a start began
]
"""Properties of opcodes, besides their number of operands and their attributes."""


class Operation(NamedTuple):
    """An opcode with its operands, its traits, its attributes besides the common ones, and its description.

    `arity` is the number of operands, None if it is not fixed (xla/hlo/ir/hlo_opcode.h); `least` is the minimum where
    dumps may have more than that. `done` is the opcode that ends a native asynchronous operation. `does` begins a
    sentence about an instruction, `about` describes how it works. Rows are named tuples, as every command makes all of
    them: a dataclass would take a millisecond more.

    >>> Operation("erf", 1, "Computes the error function", "elementwise", ("elementwise",)).operand_counts
    (1, 1)
    """

    opcode: str
    arity: int | None
    does: str
    about: str
    traits: tuple[Trait, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    least: int | None = None
    done: str | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Its required and optional attributes, besides those of all instructions."""
        return self.required + self.optional

    @property
    def operand_counts(self) -> tuple[int, int]:
        """The smallest and the largest number of operands."""
        if self.arity is None or self.least is not None:
            return self.least or 0, ANY
        return self.arity, self.arity


# --- elementwise ---
# Elementwise operations: each element of the result depends on the elements of the operands at the same index.


_EACH: Final = "elementwise; the operand has the shape of the result"
_BOTH: Final = "elementwise; operands have the shape of the result"
_BITS: Final = "elementwise; bitwise on integers, logical on pred"


def _unary(opcode: str, does: str, about: str = _EACH, *traits: Trait) -> Operation:
    return Operation(opcode, 1, does, about, ("elementwise", *traits))


def _function(opcode: str, does: str, about: str = _EACH, *traits: Trait) -> Operation:
    """A transcendental function, whose result accuracy can be set."""
    return Operation(opcode, 1, does, about, ("elementwise", "transcendental", *traits), optional=("result_accuracy",))


def _binary(opcode: str, does: str, about: str = _BOTH, *traits: Trait) -> Operation:
    return Operation(opcode, 2, does, about, ("elementwise", *traits))


ELEMENTWISE_ROWS: Final = (
    _unary("abs", "Computes absolute values", "elementwise; the magnitude of complex numbers", "other type", "triton"),
    _function("acos", "Computes arccosines"),
    _function("acosh", "Computes inverse hyperbolic cosines"),
    _binary("add", "Adds two arrays", _BOTH, "commutative", "triton"),
    _binary("and", "Computes bitwise or logical AND", _BITS, "commutative", "triton pred"),
    _function("asin", "Computes arcsines"),
    _function("asinh", "Computes inverse hyperbolic sines"),
    _binary(
        "atan2",
        "Computes atan2(y, x)",
        "elementwise; y is the first operand, x the second",
        "transcendental",
        "triton float",
    ),
    _function("atanh", "Computes inverse hyperbolic tangents"),
    _unary(
        "bitcast-convert",
        "Reinterprets bits as another type",
        "a wider type removes the last dimension, a narrower type adds one",
        "other type",
        "needs shape",
    ),
    _function("cbrt", "Computes cube roots", _EACH, "triton float"),
    _unary("ceil", "Rounds up to integers", _EACH, "triton float"),
    Operation(
        "clamp",
        3,
        "Clamps values to a range",
        "elementwise; operands: lower bound, values, upper bound",
        (
            "elementwise",
            "triton",
            "triton pred",
        ),
    ),
    Operation(
        "compare",
        2,
        "Compares two arrays",
        "elementwise; the result is pred, direction selects the comparison",
        (
            "elementwise",
            "other type",
            "triton",
            "triton pred",
        ),
        required=("direction",),
        optional=("order", "type"),
    ),
    _binary("complex", "Builds complex numbers", "elementwise; operands: real parts, imaginary parts", "other type"),
    _unary(
        "convert",
        "Converts to another type",
        "elementwise; values are rounded or truncated to the new type",
        "other type",
        "needs shape",
        "triton",
        "triton pred",
    ),
    _function("cosine", "Computes cosines", _EACH, "triton float"),
    _function("cosh", "Computes hyperbolic cosines"),
    _unary("count-leading-zeros", "Counts leading zero bits"),
    _binary("divide", "Divides two arrays", f"{_BOTH}; integer division rounds toward zero", "triton float"),
    _function("erf", "Computes the error function", _EACH, "triton float"),
    _function("exponential", "Computes exponentials", f"{_EACH}; e to the power of x", "triton float"),
    _function("exponential-minus-one", "Computes exp(x) - 1", f"{_EACH}; accurate near zero", "triton float"),
    _unary("floor", "Rounds down to integers", _EACH, "triton float"),
    _unary("imag", "Extracts imaginary parts", "elementwise; the result is real", "other type"),
    _unary(
        "is-finite",
        "Tests for finite values",
        "elementwise; the result is pred, false for infinities and NaN",
        "other type",
    ),
    _function("log", "Computes natural logarithms", _EACH, "triton float"),
    _function("log-plus-one", "Computes log(1 + x)", f"{_EACH}; accurate near zero", "triton float"),
    _function("logistic", "Computes the sigmoid", f"{_EACH}; the logistic function 1 / (1 + exp(-x))"),
    _binary("maximum", "Computes the elementwise maximum", f"{_BOTH}; NaN propagates", "commutative", "triton"),
    _binary("minimum", "Computes the elementwise minimum", f"{_BOTH}; NaN propagates", "commutative", "triton"),
    _binary(
        "mulhi",
        "Computes the high bits of integer products",
        "elementwise; the upper half of each double-width product",
    ),
    _binary("multiply", "Multiplies two arrays", _BOTH, "commutative", "triton"),
    _unary("negate", "Negates values", _EACH, "triton"),
    _unary("not", "Inverts bits", _BITS, "triton pred"),
    _binary("or", "Computes bitwise or logical OR", _BITS, "commutative", "triton pred"),
    _unary("popcnt", "Counts set bits"),
    _binary(
        "power",
        "Raises values to powers",
        "elementwise; the first operand to the power of the second",
        "transcendental",
        "triton float",
    ),
    _unary("real", "Extracts real parts", "elementwise; the result is real", "other type"),
    Operation(
        "reduce-precision",
        1,
        "Rounds to a lower-precision format",
        "elementwise; the element type stays the same",
        ("elementwise", "needs shape"),
        required=("exponent_bits", "mantissa_bits"),
    ),
    _binary("remainder", "Computes remainders", f"{_BOTH}; the sign is that of the dividend"),
    _unary("round-nearest-afz", "Rounds to the nearest integers", f"{_EACH}; ties round away from zero"),
    _unary("round-nearest-even", "Rounds to the nearest integers", f"{_EACH}; ties round to even", "triton float"),
    _function("rsqrt", "Computes reciprocal square roots", f"{_EACH}; 1 / sqrt(x)", "triton float"),
    Operation(
        "select",
        3,
        "Selects from two arrays by a predicate",
        "elementwise; the second operand where the first is true, else the third",
        (
            "elementwise",
            "triton",
            "triton pred",
        ),
    ),
    _binary("shift-left", "Shifts bits left", f"{_BOTH}; fills with zeros"),
    _binary("shift-right-arithmetic", "Shifts bits right", f"{_BOTH}; fills with the sign bit"),
    _binary("shift-right-logical", "Shifts bits right", f"{_BOTH}; fills with zeros"),
    _unary("sign", "Computes signs", "elementwise; -1, 0, or 1 for real numbers, x / |x| for complex numbers"),
    _function("sine", "Computes sines", _EACH, "triton float"),
    _function("sinh", "Computes hyperbolic sines"),
    _function("sqrt", "Computes square roots", _EACH, "triton float"),
    _binary(
        "stochastic-convert",
        "Converts with stochastic rounding",
        "elementwise; operands: values, random bits",
        "other type",
        "needs shape",
    ),
    _binary("subtract", "Subtracts two arrays", _BOTH, "triton"),
    _function("tan", "Computes tangents", _EACH, "triton float"),
    _function("tanh", "Computes hyperbolic tangents", _EACH, "triton float"),
    _binary("xor", "Computes bitwise or logical XOR", _BITS, "commutative", "triton pred"),
)


# --- data movement ---
# Operations that reshape, move, slice, concatenate, and sort arrays.


DATA_MOVEMENT_ROWS: Final = (
    Operation(
        "bitcast",
        1,
        "Reinterprets a buffer as another shape",
        "no data movement",
        ("forwards", "moves data", "needs shape", "no kernel"),
    ),
    Operation(
        "broadcast",
        1,
        "Broadcasts an array",
        "along the result dimensions that are not listed in dimensions",
        ("moves data",),
        optional=("dimensions",),
    ),
    Operation(
        "concatenate",
        None,
        "Concatenates arrays along one dimension",
        "the sizes of all other dimensions are equal",
        required=("dimensions",),
        least=1,
    ),
    Operation(
        "constant",
        0,
        "Constant",
        "the value is in the parentheses",
        ("argument", "needs shape", "no kernel"),
    ),
    Operation(
        "copy",
        1,
        "Copies an array",
        "same elements, possibly in another layout or memory space",
        ("block", "elementwise", "moves data"),
    ),
    Operation(
        "dynamic-reshape",
        None,
        "Changes the dimensions",
        "operands: the array, then the run-time sizes of the result",
        ("needs shape",),
        least=1,
    ),
    Operation(
        "dynamic-slice",
        None,
        "Extracts a slice at run-time start indices",
        "operands: the array, then the start indices",
        ("block", "needs shape"),
        required=("dynamic_slice_sizes",),
        least=1,
    ),
    Operation(
        "dynamic-update-slice",
        None,
        "Updates a slice of an array",
        "operands: the array, the update, then the start indices; often in place",
        ("block", "in place", "needs shape"),
        least=2,
    ),
    Operation(
        "gather",
        2,
        "Gathers slices",
        "the second operand holds the start indices of slices of the first",
        required=("offset_dims", "collapsed_slice_dims", "start_index_map", "slice_sizes", "index_vector_dim"),
        optional=("operand_batching_dims", "start_indices_batching_dims", "indices_are_sorted"),
    ),
    Operation(
        "get-dimension-size",
        1,
        "Returns the run-time size of a dimension",
        "the result is an s32 scalar",
        ("first dimension",),
        required=("dimensions",),
    ),
    Operation(
        "iota",
        0,
        "Fills an array with 0, 1, 2, …",
        "along one dimension; the values repeat along the others",
        ("needs shape",),
        required=("iota_dimension",),
    ),
    Operation(
        "pad",
        2,
        "Pads an array with the second operand",
        "at the edges and between elements; negative padding crops",
        required=("padding",),
    ),
    Operation(
        "reshape",
        1,
        "Changes the dimensions",
        "elements keep their row-major order",
        ("moves data", "needs shape"),
        optional=("inferred_dimension",),
    ),
    Operation(
        "reverse",
        1,
        "Reverses an array along the listed dimensions",
        "the result has the shape of the operand",
        ("moves data",),
        required=("dimensions",),
    ),
    Operation(
        "scatter",
        None,
        "Updates slices of an array at given indices",
        "operands: array, indices, updates; to_apply combines old and new values",
        ("applies", "in place"),
        required=(
            "to_apply",
            "index_vector_dim",
            "update_window_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
        ),
        optional=("indices_are_sorted", "unique_indices", "input_batching_dims", "scatter_indices_batching_dims"),
        least=3,
    ),
    Operation(
        "set-dimension-size",
        2,
        "Sets the run-time size of a dimension",
        "elements beyond it are ignored",
        ("first dimension", "in place"),
        required=("dimensions",),
    ),
    Operation(
        "shuffle",
        1,
        "Rotates an array along the listed dimensions",
        "element i of the result is element i + shift of the operand, modulo the size of the dimension",
        ("moves data",),
        required=("dimensions", "mode"),
        optional=("shifts",),
    ),
    Operation(
        "slice",
        1,
        "Extracts a slice at constant start indices",
        "start, limit, and stride of each dimension",
        ("block", "moves data", "needs shape"),
        required=("slice",),
    ),
    Operation(
        "sort",
        None,
        "Sorts along one dimension",
        "all operands are permuted together; to_apply is the comparator",
        ("applies", "own kernel"),
        required=("dimensions", "to_apply"),
        optional=("is_stable",),
        least=1,
    ),
    Operation(
        "topk",
        1,
        "Returns the k largest values and indices",
        "along the last dimension; largest=false selects the smallest",
        required=("k",),
        optional=("largest", "is_stable"),
    ),
    Operation(
        "transpose",
        1,
        "Permutes dimensions",
        "result dimension i is operand dimension dimensions[i]",
        ("moves data",),
        required=("dimensions",),
    ),
)


# --- computing ---
# Operations that compute: matmuls, reductions, random numbers, linear algebra, normalization.


_STATS: Final = "statistics are over all dimensions except the feature dimension"
_NORMALIZING: Final = ("epsilon", "feature_index")
_DIMENSIONS: Final = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")

COMPUTING_ROWS: Final = (
    Operation(
        "batch-norm-grad",
        5,
        "Computes gradients of batch normalization",
        f"of operand, scale, and offset; {_STATS}",
        required=_NORMALIZING,
    ),
    Operation(
        "batch-norm-inference",
        5,
        "Applies batch normalization",
        "with the given mean and variance of each feature",
        required=_NORMALIZING,
    ),
    Operation(
        "batch-norm-training",
        3,
        "Applies batch normalization",
        f"also returns mean and variance; {_STATS}",
        required=_NORMALIZING,
    ),
    Operation(
        "cholesky",
        1,
        "Computes the Cholesky decomposition",
        "of a matrix in the last two dimensions, or of batches of matrices",
        ("own kernel",),
        optional=("lower",),
    ),
    Operation(
        "convolution",
        None,
        "Computes a convolution",
        "dim_labels names the dimensions of input, kernel, and output",
        ("matmul",),
        required=("dim_labels",),
        optional=(
            "window",
            "feature_group_count",
            "batch_group_count",
            "convolution_kind",
            "conv_kind",
            "sparsity_config",
            "block_scaling_config",
            "operand_precision",
            "algorithm",
        ),
        least=2,
    ),
    Operation(
        "dot",
        2,
        "Multiplies matrices",
        "sums over the contracting dimensions, for each batch index",
        ("matmul",),
        optional=(
            "operand_precision",
            "algorithm",
            *_DIMENSIONS,
            "sparsity",
            "sparsity_config",
            "block_scaling_config",
        ),
        least=2,
    ),
    Operation(
        "fft",
        1,
        "Computes a Fourier transform",
        "over the last dimensions; fft_length has one size for each",
        ("own kernel",),
        required=("fft_type", "fft_length"),
    ),
    Operation(
        "map",
        None,
        "Applies a computation to every element",
        "to_apply takes one element of each operand",
        ("applies",),
        required=("to_apply",),
        optional=("dimensions",),
        least=1,
    ),
    Operation(
        "ragged-dot",
        3,
        "Multiplies matrices with ragged groups",
        "the third operand holds the group sizes",
        ("matmul",),
        optional=("operand_precision", *_DIMENSIONS, "lhs_ragged_dims", "rhs_group_dims"),
    ),
    Operation(
        "reduce",
        None,
        "Reduces dimensions",
        "to_apply combines two values; the last operands are initial values",
        ("applies",),
        required=("dimensions", "to_apply"),
        least=2,
    ),
    Operation(
        "reduce-window",
        None,
        "Reduces sliding windows",
        "to_apply combines two values; the last operands are initial values",
        ("applies",),
        required=("to_apply",),
        optional=("window",),
        least=2,
    ),
    Operation(
        "rng",
        None,
        "Generates random numbers",
        "the operands are the parameters of the distribution",
        ("needs shape", "random state", "side effect"),
        required=("distribution",),
    ),
    Operation(
        "rng-bit-generator",
        None,
        "Generates random bits from a state",
        "the result is the bits, or a tuple of the new state and the bits",
        ("needs shape",),
        required=("algorithm",),
        least=1,
    ),
    Operation(
        "rng-get-and-update-state",
        0,
        "Returns and advances the RNG state",
        "the state is global to the module",
        ("needs shape", "random state", "side effect"),
        required=("delta",),
    ),
    Operation(
        "scaled-dot",
        4,
        "Multiplies block-scaled matrices",
        "operands: two matrices, and a scale of each",
        ("matmul",),
        optional=("operand_precision", "algorithm", *_DIMENSIONS),
    ),
    Operation(
        "scan",
        None,
        "Scans along a dimension with carried values",
        "to_apply takes a slice and the carried values, and returns new ones",
        required=("dimensions", "to_apply", "num_carries"),
        optional=("is_reverse", "is_associative"),
    ),
    Operation(
        "select-and-scatter",
        3,
        "Scatters to selected window elements",
        "select chooses an element of each window, scatter combines values",
        ("applies",),
        required=("select", "scatter"),
        optional=("window",),
    ),
    Operation(
        "triangular-solve",
        2,
        "Solves triangular systems of equations",
        "the first operand holds the triangular matrices",
        ("own kernel",),
        optional=("left_side", "lower", "unit_diagonal", "transpose_a"),
    ),
)


# --- control ---
# Operations that order, group, and call others, and those that take arguments or communicate with the host.


CONTROL_ROWS: Final = (
    Operation(
        "add-dependency",
        2,
        "Returns its operand after a token is ready",
        "the second operand is the token",
        ("forwards", "no kernel"),
    ),
    Operation(
        "after-all",
        None,
        "Joins tokens",
        "the result is ready when all operands are",
        ("no kernel",),
    ),
    Operation(
        "call",
        None,
        "Calls a computation",
        "the operands are its arguments",
        ("control flow", "no kernel"),
        required=("to_apply",),
        optional=("is_composite",),
    ),
    Operation(
        "conditional",
        None,
        "Runs one of several branches",
        "the first operand selects the branch; each branch has one argument",
        ("control flow", "no kernel"),
        optional=("true_computation", "false_computation", "branch_computations"),
        least=2,
    ),
    Operation(
        "custom-call",
        None,
        "Calls external code",
        "custom_call_target names it; opaque to XLA",
        ("in place", "needs shape"),
        required=("custom_call_target",),
        optional=(
            "output_to_operand_aliasing",
            "to_apply",
            "window",
            "dim_labels",
            "feature_group_count",
            "batch_group_count",
            "operand_precision",
            "algorithm",
            "padding_type",
            "operand_layout_constraints",
            "custom_call_has_side_effect",
            "literal",
            "schedule",
            "api_version",
            "called_computations",
        ),
    ),
    Operation(
        "domain",
        1,
        "Marks a domain boundary",
        "between instructions that differ in an attribute, such as sharding",
        ("forwards", "no kernel"),
        required=("domain",),
    ),
    Operation(
        "fusion",
        None,
        "Runs a fused computation",
        "a group of instructions compiled into one kernel",
        ("in place", "needs shape"),
        required=("calls", "kind"),
        optional=("output_to_operand_aliasing",),
    ),
    Operation(
        "get-tuple-element",
        1,
        "Extracts a tuple element",
        "no data movement",
        ("moves data", "no kernel"),
        required=("index",),
    ),
    Operation(
        "infeed",
        1,
        "Reads from the host",
        "returns the data and a token",
        ("host feed", "needs shape", "side effect"),
        optional=("infeed_config",),
    ),
    Operation(
        "opt-barrier",
        1,
        "Returns its operand unchanged",
        "optimization barrier: passes do not move operations across it",
        ("forwards", "moves data", "needs shape", "no kernel"),
    ),
    Operation(
        "outfeed",
        2,
        "Writes to the host",
        "the last operand is a token",
        ("host feed", "needs shape", "side effect"),
        optional=("outfeed_shape", "outfeed_config"),
    ),
    Operation(
        "parameter",
        0,
        "Parameter of the computation",
        "an argument of the computation; the number is its position",
        ("argument", "needs shape", "no kernel"),
    ),
    Operation(
        "partition-id", 0, "Returns the id of this partition", "the result is a u32 scalar", ("device id", "no kernel")
    ),
    Operation(
        "replica-id", 0, "Returns the id of this replica", "the result is a u32 scalar", ("device id", "no kernel")
    ),
    Operation(
        "tuple", None, "Builds a tuple", "a table of pointers to the elements, which are not copied", ("no kernel",)
    ),
    Operation(
        "while",
        1,
        "Runs a loop",
        "runs body while condition is true; both take the loop state",
        ("control flow", "no kernel"),
        required=("condition", "body"),
    ),
)


# --- communication ---
# Collectives, transfers to other programs and the host, and all asynchronous operations.


_ASYNC: Final = "instructions between start and done can overlap with it"
_WAIT: Final = "returns the result"
_CHANNEL: Final = ("channel_id", "is_host_transfer")
_GROUPED: Final = ("channel_id", "replica_groups")
_ON_ARRAYS: Final = (*_GROUPED, "constrain_layout", "use_global_device_ids")
_THREAD: Final = ("async_execution_thread", "async_group_id")

COMMUNICATION_ROWS: Final = (
    Operation(
        "all-gather",
        None,
        "Gathers shards across devices",
        "concatenates the shards of each replica group along one dimension",
        ("collective", "first dimension", "needs shape"),
        required=("dimensions",),
        optional=(*_ON_ARRAYS, "all_gather_dimension"),
        least=1,
    ),
    Operation(
        "all-gather-start",
        None,
        "Starts an async all-gather",
        _ASYNC,
        ("first dimension", "needs shape", "side effect", "start"),
        required=("dimensions",),
        optional=(*_ON_ARRAYS, "all_gather_dimension"),
        least=1,
        done="all-gather-done",
    ),
    Operation("all-gather-done", 1, "Waits for an async all-gather", _WAIT, ("done", "needs shape", "side effect")),
    Operation(
        "all-reduce",
        None,
        "Reduces across devices",
        "every device of a replica group gets the result",
        ("applies", "collective", "needs shape"),
        required=("to_apply",),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
    ),
    Operation(
        "all-reduce-start",
        None,
        "Starts an async all-reduce",
        _ASYNC,
        ("applies", "in place", "needs shape", "side effect", "start"),
        required=("to_apply",),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
        done="all-reduce-done",
    ),
    Operation("all-reduce-done", 1, "Waits for an async all-reduce", _WAIT, ("done", "needs shape", "side effect")),
    Operation(
        "all-to-all",
        None,
        "Exchanges shards between devices",
        "shard i goes to device i of the replica group",
        ("collective", "needs shape"),
        optional=(*_GROUPED, "constrain_layout", "split_dimension", "dimensions"),
        least=1,
    ),
    Operation(
        "async-start",
        None,
        "Starts an async operation",
        _ASYNC,
        ("asynchronous", "control flow", "needs shape", "no kernel", "start"),
        required=("calls",),
        optional=(*_THREAD, "output_to_operand_aliasing"),
    ),
    Operation(
        "async-update",
        None,
        "Updates an async operation",
        "continues the operation between start and done",
        ("asynchronous", "control flow", "needs shape", "no kernel", "update"),
        optional=(*_THREAD, "calls", "output_to_operand_aliasing"),
        least=1,
    ),
    Operation(
        "async-done",
        1,
        "Waits for an async operation",
        _WAIT,
        ("asynchronous", "control flow", "done", "needs shape", "no kernel"),
        optional=(*_THREAD, "calls"),
        least=1,
    ),
    Operation(
        "collective-broadcast",
        None,
        "Broadcasts from one device",
        "the first device of each replica group sends, unless has_dynamic_root",
        ("collective", "needs shape", "side effect"),
        optional=(*_GROUPED, "has_dynamic_root"),
        least=1,
    ),
    Operation(
        "collective-permute",
        None,
        "Sends between device pairs",
        "devices without a source get zeros",
        ("collective", "in place", "needs shape"),
        required=("source_target_pairs",),
        optional=("channel_id", "slice_sizes"),
        least=1,
    ),
    Operation(
        "collective-permute-start",
        None,
        "Starts an async collective-permute",
        _ASYNC,
        ("in place", "needs shape", "side effect", "start"),
        required=("source_target_pairs",),
        optional=("channel_id", "slice_sizes"),
        least=1,
        done="collective-permute-done",
    ),
    Operation(
        "collective-permute-done",
        1,
        "Waits for an async collective-permute",
        _WAIT,
        ("done", "needs shape", "side effect"),
    ),
    Operation(
        "copy-start",
        1,
        "Starts an async copy",
        "the result is (destination, source, context)",
        ("needs shape", "start"),
        optional=("cross_program_prefetch_index", "is_cross_program_prefetch"),
        done="copy-done",
    ),
    Operation("copy-done", 1, "Waits for an async copy", _WAIT, ("done", "needs shape")),
    Operation(
        "ragged-all-to-all",
        6,
        "Exchanges ragged shards between devices",
        "the operands hold the offset and the size of each shard",
        ("collective", "in place", "needs shape"),
        optional=(*_GROUPED, "dimensions"),
        least=1,
    ),
    Operation(
        "recv",
        1,
        "Starts a receive",
        _ASYNC,
        ("needs shape", "side effect", "start"),
        optional=_CHANNEL,
        done="recv-done",
    ),
    Operation(
        "recv-done",
        1,
        "Waits for a receive",
        "returns the data and a token",
        ("done", "needs shape", "side effect"),
        optional=_CHANNEL,
    ),
    Operation(
        "reduce-scatter",
        None,
        "Reduces and scatters across devices",
        "each device of a replica group gets one shard",
        ("applies", "collective", "first dimension", "needs shape"),
        required=("dimensions", "to_apply"),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
    ),
    Operation(
        "send",
        2,
        "Starts a send",
        _ASYNC,
        ("needs shape", "side effect", "start"),
        optional=_CHANNEL,
        done="send-done",
    ),
    Operation(
        "send-done",
        1,
        "Waits for a send",
        "returns a token",
        ("done", "needs shape", "side effect"),
        optional=_CHANNEL,
    ),
)
