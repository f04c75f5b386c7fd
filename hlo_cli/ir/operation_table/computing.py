"""Operations that compute: matmuls, reductions, random numbers, linear algebra, normalization."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.operation import Operation

_STATS: Final = "means and variances run over all dimensions but the feature dimension"
_NORMALIZING: Final = ("epsilon", "feature_index")
_DIMENSIONS: Final = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")

ROWS: Final = (
    Operation(
        "batch-norm-grad",
        5,
        "Differentiates batch normalization",
        f"for operand, scale and offset; {_STATS}",
        required=_NORMALIZING,
    ),
    Operation(
        "batch-norm-inference",
        5,
        "Normalizes a batch",
        "with given means and variances, one of each a feature",
        required=_NORMALIZING,
    ),
    Operation(
        "batch-norm-training", 3, "Normalizes a batch", f"and gives its statistics; {_STATS}", required=_NORMALIZING
    ),
    Operation(
        "cholesky",
        1,
        "Decomposes matrices",
        "symmetric ones in the last two dimensions, as Cholesky did",
        ("own kernel",),
        optional=("lower",),
    ),
    Operation(
        "convolution",
        None,
        "Convolves",
        "dim_labels name the dimensions of input, kernel and result",
        ("matmul",),
        required=("dim_labels",),
        optional=(
            "window",
            "feature_group_count",
            "batch_group_count",
            "convolution_kind",
            "conv_kind",
            "sparsity_config",
            "operand_precision",
            "algorithm",
        ),
        least=2,
    ),
    Operation(
        "dot",
        2,
        "Multiplies matrices",
        "sums over the contracting dimensions, once for each batch index",
        ("matmul",),
        optional=("operand_precision", "algorithm", *_DIMENSIONS, "sparsity"),
        least=2,
    ),
    Operation(
        "fft",
        1,
        "Transforms to frequencies",
        "or back, by Fourier, over the last dimensions: one for each fft_length",
        ("own kernel",),
        required=("fft_type", "fft_length"),
    ),
    Operation(
        "map",
        None,
        "Applies a computation to every element",
        "to_apply takes one element of each operand",
        required=("to_apply",),
        optional=("dimensions",),
        least=1,
    ),
    Operation(
        "ragged-dot",
        3,
        "Multiplies matrices of unequal sizes",
        "the third operand holds the size of each group",
        ("matmul",),
        optional=("operand_precision", *_DIMENSIONS, "lhs_ragged_dims", "rhs_group_dims"),
    ),
    Operation(
        "reduce",
        None,
        "Reduces dimensions",
        "to_apply joins two values; the last operands are what it starts with",
        required=("dimensions", "to_apply"),
        least=2,
    ),
    Operation(
        "reduce-window",
        None,
        "Reduces windows",
        "a window slides over the array; to_apply joins what is in it",
        required=("to_apply",),
        optional=("window",),
        least=2,
    ),
    Operation(
        "rng",
        None,
        "Draws random numbers",
        "uniform or normal; the operands are the distribution's parameters",
        ("needs shape", "random state", "side effect"),
        required=("distribution",),
    ),
    Operation(
        "rng-bit-generator",
        None,
        "Draws random bits",
        "from a state; gives the next state and the bits",
        ("needs shape",),
        required=("algorithm",),
        least=1,
    ),
    Operation(
        "rng-get-and-update-state",
        0,
        "Takes and advances a random state",
        "the state belongs to the module",
        ("needs shape", "random state", "side effect"),
        required=("delta",),
    ),
    Operation(
        "scaled-dot",
        4,
        "Multiplies scaled matrices",
        "operands: both matrices, each followed by its block scales",
        ("matmul",),
        optional=("operand_precision", "algorithm", *_DIMENSIONS),
    ),
    Operation(
        "scan",
        None,
        "Runs along a dimension, carrying values",
        "to_apply takes carries and a slice, and gives new ones",
        required=("dimensions", "to_apply", "num_carries"),
        optional=("is_reverse", "is_associative"),
    ),
    Operation(
        "select-and-scatter",
        3,
        "Scatters to chosen elements of windows",
        "select chooses, scatter adds up",
        required=("select", "scatter"),
        optional=("window",),
    ),
    Operation(
        "triangular-solve",
        2,
        "Solves triangular systems",
        "of equations; the first operand is the triangular matrix",
        ("own kernel",),
        optional=("left_side", "lower", "unit_diagonal", "transpose_a"),
    ),
)
