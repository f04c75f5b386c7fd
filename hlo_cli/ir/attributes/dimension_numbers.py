"""The roles of dimensions in the operands and results of dot, convolution, gather, and scatter.

Mirrors the messages of the same names in xla/xla_data.proto and how xla/hlo/ir/hlo_instructions.cc prints them. The
numbers of most are spread over several attributes, which the functions here collect from an instruction.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.index_text import index_text

Dimensions = tuple[int, ...]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """The role of each dimension of the input, the kernel, and the output; spatial ones in their own order.

    >>> str(ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,)))
    'b0f_0io->b0f'
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: Dimensions
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: Dimensions
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: Dimensions

    def __str__(self) -> str:
        inputs = _labels(
            {self.input_batch_dimension: "b", self.input_feature_dimension: "f"}, self.input_spatial_dimensions
        )
        kernel = _labels(
            {self.kernel_input_feature_dimension: "i", self.kernel_output_feature_dimension: "o"},
            self.kernel_spatial_dimensions,
        )
        output = _labels(
            {self.output_batch_dimension: "b", self.output_feature_dimension: "f"}, self.output_spatial_dimensions
        )
        return f"{inputs}_{kernel}->{output}"


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """The batch and contracting dimensions of a dot's operands.

    >>> str(DotDimensionNumbers((1,), (0,)))
    'lhs_contracting_dims={1}, rhs_contracting_dims={0}'
    """

    lhs_contracting_dimensions: Dimensions = ()
    rhs_contracting_dimensions: Dimensions = ()
    lhs_batch_dimensions: Dimensions = ()
    rhs_batch_dimensions: Dimensions = ()

    def __str__(self) -> str:
        lhs_batch, rhs_batch = self.lhs_batch_dimensions, self.rhs_batch_dimensions
        return ", ".join(
            (
                *([f"lhs_batch_dims={index_text(lhs_batch)}"] if lhs_batch else []),
                f"lhs_contracting_dims={index_text(self.lhs_contracting_dimensions)}",
                *([f"rhs_batch_dims={index_text(rhs_batch)}"] if rhs_batch else []),
                f"rhs_contracting_dims={index_text(self.rhs_contracting_dimensions)}",
            )
        )


@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers:
    """A dot's dimensions, and the ragged and group dimensions.

    >>> str(RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,)))
    'lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}'
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Dimensions = ()
    rhs_group_dimensions: Dimensions = ()

    def __str__(self) -> str:
        parts = [str(self.dot_dimension_numbers), f"lhs_ragged_dims={index_text(self.lhs_ragged_dimensions)}"]
        if self.rhs_group_dimensions:
            parts.append(f"rhs_group_dims={index_text(self.rhs_group_dimensions)}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers:
    """The dimensions by which a gather's indices select slices of its operand, and those of the slices in the result.

    >>> str(GatherDimensionNumbers((1,), (0,), (0,), 1))
    'offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1'
    """

    offset_dims: Dimensions
    collapsed_slice_dims: Dimensions
    start_index_map: Dimensions
    index_vector_dim: int
    operand_batching_dims: Dimensions = ()
    start_indices_batching_dims: Dimensions = ()

    def __str__(self) -> str:
        batching = {
            "operand_batching_dims": self.operand_batching_dims,
            "start_indices_batching_dims": self.start_indices_batching_dims,
        }
        dims = {
            "offset_dims": self.offset_dims,
            "collapsed_slice_dims": self.collapsed_slice_dims,
            "start_index_map": self.start_index_map,
        }
        return _printed(dims, batching, self.index_vector_dim)


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers:
    """The dimensions by which a scatter's indices select slices of its operand, and those of the slices in the updates.

    >>> str(ScatterDimensionNumbers((1,), (0,), (0,), 1))
    'update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1'
    """

    update_window_dims: Dimensions
    inserted_window_dims: Dimensions
    scatter_dims_to_operand_dims: Dimensions
    index_vector_dim: int
    input_batching_dims: Dimensions = ()
    scatter_indices_batching_dims: Dimensions = ()

    def __str__(self) -> str:
        batching = {
            "input_batching_dims": self.input_batching_dims,
            "scatter_indices_batching_dims": self.scatter_indices_batching_dims,
        }
        dims = {
            "update_window_dims": self.update_window_dims,
            "inserted_window_dims": self.inserted_window_dims,
            "scatter_dims_to_operand_dims": self.scatter_dims_to_operand_dims,
        }
        return _printed(dims, batching, self.index_vector_dim)


class Attributed(Protocol):
    """The part of an instruction's interface that is needed to read dimension numbers."""

    @property
    def written_opcode(self) -> str:
        """The opcode."""

    def integer(self, name: str) -> int | None:
        """The number of an attribute."""

    def integers(self, name: str) -> tuple[int, ...]:
        """The numbers of an attribute."""

    def value_of(self, name: str, kind: type[_T]) -> _T | None:
        """The value of an attribute, if it is of this kind."""


def dot_dimension_numbers(instruction: Attributed) -> DotDimensionNumbers | None:
    """The dimension numbers of a dot, scaled-dot, or ragged-dot; None for every other opcode.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot_dimension_numbers(parse_module(text).entry.root).lhs_contracting_dimensions
    (1,)
    """
    if instruction.written_opcode not in (opcodes.DOT, opcodes.SCALED_DOT, opcodes.RAGGED_DOT):
        return None
    return DotDimensionNumbers(
        instruction.integers("lhs_contracting_dims"),
        instruction.integers("rhs_contracting_dims"),
        instruction.integers("lhs_batch_dims"),
        instruction.integers("rhs_batch_dims"),
    )


def ragged_dot_dimension_numbers(instruction: Attributed) -> RaggedDotDimensionNumbers | None:
    """The dimension numbers of a ragged-dot; None for every other opcode."""
    dot = dot_dimension_numbers(instruction)
    if dot is None or instruction.written_opcode != "ragged-dot":
        return None
    return RaggedDotDimensionNumbers(
        dot, instruction.integers("lhs_ragged_dims"), instruction.integers("rhs_group_dims")
    )


def convolution_dimension_numbers(instruction: Attributed) -> ConvolutionDimensionNumbers | None:
    """The dimension numbers of a convolution, or of a custom call for one; None without any."""
    return instruction.value_of("dim_labels", ConvolutionDimensionNumbers)


def gather_dimension_numbers(instruction: Attributed) -> GatherDimensionNumbers | None:
    """The dimension numbers of a gather; None for every other opcode. The slice sizes are `integers("slice_sizes")`.

    >>> from hlo_cli import parse_module
    >>> names = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    >>> text = f"r = f32[4,3] gather(f32[9,3] a, s32[4,1] i), {names}, slice_sizes={{1,3}}"
    >>> str(gather_dimension_numbers(parse_module(text).entry.root)) == names
    True
    """
    if instruction.written_opcode != "gather":
        return None
    return GatherDimensionNumbers(
        instruction.integers("offset_dims"),
        instruction.integers("collapsed_slice_dims"),
        instruction.integers("start_index_map"),
        instruction.integer("index_vector_dim") or 0,
        instruction.integers("operand_batching_dims"),
        instruction.integers("start_indices_batching_dims"),
    )


def scatter_dimension_numbers(instruction: Attributed) -> ScatterDimensionNumbers | None:
    """The dimension numbers of a scatter; None for every other opcode."""
    if instruction.written_opcode != opcodes.SCATTER:
        return None
    return ScatterDimensionNumbers(
        instruction.integers("update_window_dims"),
        instruction.integers("inserted_window_dims"),
        instruction.integers("scatter_dims_to_operand_dims"),
        instruction.integer("index_vector_dim") or 0,
        instruction.integers("input_batching_dims"),
        instruction.integers("scatter_indices_batching_dims"),
    )


def _labels(named: dict[int, str], spatial: Dimensions) -> str:
    """A letter or number for every dimension up to the last named one, ? for unnamed ones between."""
    named = named | {dimension: str(i) for i, dimension in enumerate(spatial)}
    return "".join(named.get(dimension, "?") for dimension in range(max(named) + 1))


def _printed(dims: dict[str, Dimensions], batching: dict[str, Dimensions], index_vector_dim: int) -> str:
    """The dimension numbers as text; batching dimensions only if there are any."""
    shown = dims | {name: dimensions for name, dimensions in batching.items() if dimensions}
    return ", ".join((*(f"{n}={index_text(d)}" for n, d in shown.items()), f"index_vector_dim={index_vector_dim}"))
