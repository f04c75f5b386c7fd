"""The attributes of dots, convolutions, and their windows; of transforms and of solvers in linear algebra.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

_WINDOW: Final = "the window that slides over the array"
_KINDS_OF_CONVOLUTIONS: Final = {
    "fprop": "the forward pass",
    "wgrad": "the kernel's gradient",
    "dgrad": "the input's gradient",
}


def _dimensions_of_dots(opcodes: str, message: str) -> Iterator[AttributeRow]:
    """Batch and contracting dimensions of a dot; a ragged dot has the same message inside its own."""
    yield AttributeRow(
        "lhs_batch_dims",
        Kind.INTS,
        "batch dimensions of the first operand, paired with those of the second",
        opcodes,
        label="lhs batch",
        proto_field=f"{message}.lhs_batch_dimensions",
    )
    yield AttributeRow(
        "lhs_contracting_dims",
        Kind.INTS,
        "dimensions of the first operand that are summed over",
        opcodes,
        label="lhs sum",
        proto_field=f"{message}.lhs_contracting_dimensions",
        always=True,
    )
    yield AttributeRow(
        "rhs_batch_dims",
        Kind.INTS,
        "batch dimensions of the second operand",
        opcodes,
        label="rhs batch",
        proto_field=f"{message}.rhs_batch_dimensions",
    )
    yield AttributeRow(
        "rhs_contracting_dims",
        Kind.INTS,
        "dimensions of the second operand that are summed over",
        opcodes,
        label="rhs sum",
        proto_field=f"{message}.rhs_contracting_dimensions",
        always=True,
    )


CONTRACTIONS: Final = (
    AttributeRow("window", Kind.WINDOW, _WINDOW, unsaid=""),
    AttributeRow("window", Kind.WINDOW, _WINDOW, "custom-call"),
    AttributeRow(
        "dim_labels",
        Kind.DIM_LABELS,
        "which dimension of operands and result is what",
        proto_field="convolution_dimension_numbers",
    ),
    AttributeRow(
        "feature_group_count", Kind.INT, "the features are cut into so many groups that do not mix", usual=("1",)
    ),
    AttributeRow("batch_group_count", Kind.INT, "the batch is cut into so many groups that do not mix", usual=("1",)),
    AttributeRow(
        "convolution_kind",
        Kind.CONVOLUTION_KIND,
        "which of training's three convolutions it is",
        words=_KINDS_OF_CONVOLUTIONS,
        proto_field="conv_kind",
        usual=("unset",),
    ),
    AttributeRow(
        "conv_kind", Kind.CONVOLUTION_KIND, "which of training's three convolutions it is; an old spelling", is_old=True
    ),
    *_dimensions_of_dots("", "dot_dimension_numbers"),
    *_dimensions_of_dots("ragged-dot", "ragged_dot_dimension_numbers.dot_dimension_numbers"),
    AttributeRow(
        "lhs_ragged_dims",
        Kind.INTS,
        "the dimension whose groups differ in size",
        proto_field="ragged_dot_dimension_numbers.lhs_ragged_dimensions",
        always=True,
    ),
    AttributeRow(
        "rhs_group_dims",
        Kind.INTS,
        "dimensions of the second operand that count the groups",
        proto_field="ragged_dot_dimension_numbers.rhs_group_dimensions",
    ),
    AttributeRow(
        "operand_precision",
        Kind.PRECISIONS,
        "how exact the product of each operand has to be",
        label="precision",
        proto_field="precision_config.operand_precision",
        usual=("default",),
    ),
    AttributeRow(
        "algorithm", Kind.RANDOM_ALGORITHM, "how the bits are made", "rng-bit-generator", proto_field="rng_algorithm"
    ),
    AttributeRow(
        "algorithm",
        Kind.ALGORITHM,
        "the arithmetic: types of operands, accumulator and result",
        proto_field="precision_config.algorithm",
        usual=("unset",),
    ),
    AttributeRow("sparsity_config", Kind.SPARSITY, "which operands are sparse, and how"),
    AttributeRow("sparsity", Kind.SPARSITY, "which operand is sparse; an old spelling", is_old=True),
    AttributeRow(
        "fft_type",
        Kind.FFT_TYPE,
        "which transform",
        words={
            "FFT": "complex to complex",
            "IFFT": "complex to complex, inverse",
            "RFFT": "real to complex",
            "IRFFT": "complex to real, inverse",
        },
    ),
    AttributeRow("fft_length", Kind.INTS, "how many points each transform has"),
    AttributeRow(
        "left_side",
        Kind.BOOL,
        "whether the triangular matrix stands on the left of the unknown",
        proto_field="triangular_solve_options.left_side",
    ),
    AttributeRow(
        "lower",
        Kind.BOOL,
        "whether the lower triangle counts, else the upper",
        proto_field="triangular_solve_options.lower",
    ),
    AttributeRow(
        "lower",
        Kind.BOOL,
        "whether the lower triangle counts, else the upper",
        "cholesky",
        proto_field="cholesky_options.lower",
    ),
    AttributeRow(
        "unit_diagonal",
        Kind.BOOL,
        "whether the diagonal counts as ones",
        proto_field="triangular_solve_options.unit_diagonal",
    ),
    AttributeRow(
        "transpose_a",
        Kind.TRANSPOSE,
        "whether the triangular matrix is turned first",
        words={
            "NO_TRANSPOSE": "the matrix as it is",
            "TRANSPOSE": "transposed",
            "ADJOINT": "transposed and conjugated",
        },
        proto_field="triangular_solve_options.transpose_a",
        usual=("TRANSPOSE_INVALID",),
    ),
    AttributeRow("epsilon", Kind.FLOAT, "added to the variance, so that nothing is divided by zero"),
    AttributeRow("feature_index", Kind.INT, "which dimension counts the features"),
)
