"""The attributes of dots, convolutions, and their windows; of transforms and of solvers in linear algebra.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

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
