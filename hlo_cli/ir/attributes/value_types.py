"""What an attribute's value is: dimension numbers, windows, aliases, accuracies, constants, or another type."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import ResultAccuracyMode
from hlo_cli.ir.notation import UnparsedText, index_text, quoted
from hlo_cli.ir.shape import (
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    ShapeIndex,
    TokenShape,
    TupleShape,
    UnknownShape,
    annotate_indices,
)
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hlo_cli.ir.attributes.metadata import (
        BackendConfig,
        DebuggedArray,
        FrontendAttributes,
        Metadata,
        OriginalValue,
        RecoveryTable,
        StatisticsViz,
    )
    from hlo_cli.ir.attributes.sharding import (
        CollectiveDeviceList,
        Domain,
        IotaReplicaGroupList,
        MeshAxesReplicaGroupList,
        NamedSharding,
        Sharding,
        TupleSharding,
    )


# --- dimension numbers ---
# The roles of dimensions in the operands and results of dot, convolution, gather, and scatter.
#
# Mirrors the messages of the same names in xla/xla_data.proto and how xla/hlo/ir/hlo_instructions.cc prints them. The
# numbers of most are spread over several attributes, which the functions here collect from an instruction.


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


# --- windows, paddings, and slices ---
# The elements selected in each dimension of an array.
#
# Mirrors `Window` and `PaddingConfig` of xla/xla_data.proto, xla/window_util.cc and `HloSliceInstruction`.


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """The movement of a window along one dimension of its operand."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    window_reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """The extent of the window, including the gaps of its dilation.

        >>> WindowDimension(3, window_dilation=2).dilated_size
        5
        """
        return dilated(self.size, self.window_dilation)

    def positions(self, size: int) -> int:
        """The number of positions of the window along a dimension of this size, which is the size of the result.

        >>> WindowDimension(3, stride=2, padding_low=1, padding_high=1).positions(8)
        4
        """
        padded = dilated(size, self.base_dilation) + self.padding_low + self.padding_high
        free = padded - self.dilated_size
        return 0 if padded <= 0 or free < 0 else free // self.stride + 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window over an array: `lhs_dilate` in the text is the base dilation, `rhs_dilate` the window's own.

    >>> str(Window((WindowDimension(3, padding_low=1, padding_high=1), WindowDimension(5, stride=2))))
    '{size=3x5 stride=1x2 pad=1_1x0_0}'
    """

    dimensions: tuple[WindowDimension, ...]

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        dimensions = self.dimensions
        if not dimensions:
            return "{}"
        fields = [f"size={_by(d.size for d in dimensions)}"]
        if any(d.stride != 1 for d in dimensions):
            fields.append(f"stride={_by(d.stride for d in dimensions)}")
        if any(d.padding_low or d.padding_high for d in dimensions):
            fields.append("pad=" + "x".join(f"{d.padding_low}_{d.padding_high}" for d in dimensions))
        if any(d.base_dilation != 1 for d in dimensions):
            fields.append(f"lhs_dilate={_by(d.base_dilation for d in dimensions)}")
        if any(d.window_dilation != 1 for d in dimensions):
            fields.append(f"rhs_dilate={_by(d.window_dilation for d in dimensions)}")
        if any(d.window_reversal for d in dimensions):
            fields.append(f"rhs_reversal={_by(int(d.window_reversal) for d in dimensions)}")
        return "{" + " ".join(fields) + "}"


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """The padding before, after, and between the elements of one dimension; negative numbers remove elements."""

    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int = 0


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """The padding of every dimension.

    >>> str(PaddingConfig((PaddingDimension(1, 0, 2), PaddingDimension(0, -1))))
    '1_0_2x0_-1_0'
    """

    dimensions: tuple[PaddingDimension, ...]

    def __str__(self) -> str:
        inner = any(d.interior_padding for d in self.dimensions)
        return "x".join(
            f"{d.edge_padding_low}_{d.edge_padding_high}" + (f"_{d.interior_padding}" if inner else "")
            for d in self.dimensions
        )


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """Every `stride`-th element from `start` up to `limit`, exclusive."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """The range of every dimension of a slice.

    >>> str(Slice((SliceDimension(0, 4), SliceDimension(1, 9))))
    '{[0:4], [1:9]}'
    """

    dimensions: tuple[SliceDimension, ...]

    def __str__(self) -> str:
        strided = any(d.stride != 1 for d in self.dimensions)
        parts = (f"[{d.start}:{d.limit}" + (f":{d.stride}]" if strided else "]") for d in self.dimensions)
        return "{" + ", ".join(parts) + "}"


def dilated(size: int, dilation: int) -> int:
    """The size of a dimension whose elements are `dilation` apart.

    >>> dilated(3, 2), dilated(0, 2)
    (5, 0)
    """
    return (size - 1) * dilation + 1 if size else 0


def _by(numbers: Iterable[int]) -> str:
    return "x".join(map(str, numbers))


# --- shared buffers ---
# Values that share a buffer: results with parameters, results with operands, and donated buffers.
#
# Mirrors xla/hlo/ir/hlo_input_output_alias_config.h and `OutputOperandAliasing` of xla/xla_data.proto.


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry of `input_output_alias`: this element of the result aliases that element of a parameter.

    >>> str(Alias((0,), 1, ()))
    '{0}: (1, {}, may-alias)'
    """

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"

    def __str__(self) -> str:
        place = f"{self.parameter_number}, {index_text(self.parameter_index)}, {self.kind}"
        return f"{index_text(self.output_index)}: ({place})"


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """An element of a parameter whose buffer any result may use.

    >>> str(BufferDonor(0, (1,)))
    '(0, {1})'
    """

    parameter_number: int
    parameter_index: ShapeIndex

    def __str__(self) -> str:
        return f"({self.parameter_number}, {index_text(self.parameter_index)})"


@dataclass(frozen=True, slots=True)
class OutputOperandAlias:
    """One entry of `output_to_operand_aliasing`: this element of the result aliases that element of an operand.

    >>> str(OutputOperandAlias((), 1, (0, 2)))
    '{}: (1, {0,2})'
    """

    output_index: ShapeIndex
    operand_number: int
    operand_index: ShapeIndex

    def __str__(self) -> str:
        return f"{index_text(self.output_index)}: ({self.operand_number}, {index_text(self.operand_index)})"


@dataclass(frozen=True, slots=True)
class ComputationLayout:
    """The shapes of the entry's parameters and result, with their layouts.

    >>> from hlo_cli import parse_shape
    >>> str(ComputationLayout((parse_shape("f32[2]{0}"),), parse_shape("f32[]")))
    '{(f32[2]{0})->f32[]}'
    """

    parameters: tuple[Shape, ...]
    result: Shape

    def __str__(self) -> str:
        return f"{{({annotate_indices([str(shape) for shape in self.parameters])})->{self.result}}}"


# --- accuracy and sparsity ---
# The accuracy of results, and the sparsity and the scales of operands.
#
# Mirrors `ResultAccuracy`, `SparsityConfig`, and `BlockScalingConfig` of xla/xla_data.proto.


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed error of a result: absolute, relative, and in units of the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __str__(self) -> str:
        return f"{{atol={self.atol:g},rtol={self.rtol:g},ulps={self.ulps}}}"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """The required accuracy of an elementary function.

    >>> str(ResultAccuracy(ResultAccuracyMode.HIGHEST)), str(ResultAccuracy(Tolerance(0.5, 1.0, 2)))
    ('{mode=highest}', '{tolerance={atol=0.5,rtol=1,ulps=2}}')
    """

    required: ResultAccuracyMode | Tolerance

    def __str__(self) -> str:
        name = "tolerance" if isinstance(self.required, Tolerance) else "mode"
        return f"{{{name}={self.required}}}"


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """The number of nonzero elements in each block along a dimension; `idx` is the operand with their positions."""

    num_non_zero: int = 0
    block_size: int = 0
    dimension: int = 0
    stride: int = 0
    idx: int = 0

    def __str__(self) -> str:
        block = f"sparsity={self.num_non_zero}x{self.block_size}"
        return f"{{{block} dimension={self.dimension} stride={self.stride} idx={self.idx}}}"


@dataclass(frozen=True, slots=True)
class SparsityConfig:
    """The sparse operands of a dot or a convolution.

    >>> str(SparsityConfig(rhs=TensorSparsity(2, 4, 1, 1, 2)))
    '{rhs={sparsity=2x4 dimension=1 stride=1 idx=2}}'
    """

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None

    def __str__(self) -> str:
        return _sides(self.lhs, self.rhs)


@dataclass(frozen=True, slots=True)
class TensorBlockScaling:
    """The scales of an operand: `scale_idx` is the operand with the scales, `zero_idx` the one with the zero points.

    `strides` and `steps` have one number for each dimension of the operand that is scaled.
    """

    scale_idx: int = 0
    zero_idx: int | None = None
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"scale_idx={self.scale_idx}"]
        parts += [f"zero_idx={self.zero_idx}"] if self.zero_idx is not None else []
        sizes = {"strides": self.strides, "steps": self.steps}
        parts += [f"{name}={'x'.join(map(str, size))}" for name, size in sizes.items() if size]
        return "{" + " ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class BlockScalingConfig:
    """The operands of a dot or a convolution that are scaled in blocks.

    >>> str(BlockScalingConfig(TensorBlockScaling(2, 3, (1, 32), (1, 1))))
    '{lhs={scale_idx=2 zero_idx=3 strides=1x32 steps=1x1}}'
    """

    lhs: TensorBlockScaling | None = None
    rhs: TensorBlockScaling | None = None

    def __str__(self) -> str:
        return _sides(self.lhs, self.rhs)


def _sides(lhs: object | None, rhs: object | None) -> str:
    sides = {"lhs": lhs, "rhs": rhs}
    return "{" + " ".join(f"{name}={side}" for name, side in sides.items() if side is not None) + "}"


# --- constants ---
# Literals: the values of constants. Mirrors `LiteralBase` of xla/literal.h.
#
# Values are read from their text or bytes on demand.


_ELIDED: Final = "{...}"
LARGE_CONSTANTS: Final = "dump again with XLA_FLAGS=--xla_dump_large_constants; protocol buffers have all constants"
"""How to get the values that a text omits: xla.proto, `xla_dump_large_constants`; protos hold them always."""
_MOST_SHORT: Final = 10
"""The most elements of an array that is printed where large constants are omitted."""


class LiteralValues(Protocol):
    """The values of an array literal in any storage; unreadable ones raise HloError with their span."""

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits, one element each, in logical order."""

    def array(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as numbers."""

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """The values of an array. `values` is None if a dump omits them, as `{...}`.

    >>> from hlo_cli import parse_module
    >>> literal = parse_module("c = s32[2,2]{1,0} constant({{1, 2}, {3, 4}})").entry.root.literal
    >>> literal.array().tolist()
    [[1, 2], [3, 4]]
    >>> literal.to_string(), literal.is_elided
    ('{ { 1, 2 }, { 3, 4 } }', False)
    >>> print(literal)
    s32[2,2]{1,0} { { 1, 2 }, { 3, 4 } }
    """

    shape: ArrayShape
    values: LiteralValues | None

    def __str__(self) -> str:
        return f"{self.shape} {self.to_string()}"

    @property
    def is_elided(self) -> bool:
        """Whether the values are unknown, because the dump omits them."""
        return self.values is None

    def array(self) -> npt.NDArray[np.generic]:
        """The values as numbers: narrow integers as 8 bits, floats that numpy lacks as the equal float32."""
        return self._known().array(self.shape)

    def stored(self) -> npt.NDArray[np.generic]:
        """The values as stored bits: like `array`, but bf16 as uint16 and floats of 8 bits and less as uint8 codes."""
        return self._known().stored(self.shape)

    def to_string(self, *, print_large_constants: bool = True) -> str:
        """The text XLA prints: on one line, without the shape; optionally as in dumps, which omit large arrays."""
        if self.values is None or (not print_large_constants and self.shape.elements > _MOST_SHORT):
            return _ELIDED
        return self.values.to_string(self.shape)

    def _known(self) -> LiteralValues:
        if self.values is None:
            raise HloError(
                f"the dump omits the values of this {self.shape} constant",
                hint=LARGE_CONSTANTS,
            )
        return self.values


@dataclass(frozen=True, slots=True)
class TupleLiteral:
    """The values of a tuple.

    >>> from hlo_cli import parse_module
    >>> literal = parse_module("c = (f32[], (s8[2])) constant((1.5, ({1, 2})))").entry.root.literal
    >>> literal.to_string(), literal.to_string(print_large_constants=False)
    ('( 1.5, ( {1, 2} ) )', '{...}')
    """

    shape: TupleShape
    elements: tuple[Literal, ...]

    def __str__(self) -> str:
        return "( " + ", ".join(map(str, self.elements)) + " )"

    @property
    def is_elided(self) -> bool:
        """Whether the dump omits any values."""
        return any(element.is_elided for element in self.elements)

    def to_string(self, *, print_large_constants: bool = True) -> str:
        """The text XLA prints; dumps omit the values of every tuple."""
        if not print_large_constants:
            return _ELIDED
        return "( " + ", ".join(element.to_string() for element in self.elements) + " )"


Literal = ArrayLiteral | TupleLiteral


# --- any value ---
# Attribute values: every type of value, and its text in XLA.
#
# Mirrors the printing in xla/hlo/ir/hlo_instruction.cc and xla/hlo/ir/hlo_instructions.cc.


@dataclass(frozen=True, slots=True)
class Name:
    """A computation or an instruction by its name, without its %.

    >>> str(Name("add.1"))
    '%add.1'
    """

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


Scalar: TypeAlias = """(
    bool | int | float | str | StrEnum | Name
    | ArrayLiteral | TupleLiteral
    | ArrayShape | BufferShape | OpaqueShape | TokenShape | TupleShape | UnknownShape
    | Alias | BufferDonor | ComputationLayout | DebuggedArray | OutputOperandAlias
    | CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList
    | Sharding | NamedSharding | TupleSharding | Domain
    | ConvolutionDimensionNumbers | PaddingConfig | Slice | Window
    | BackendConfig | FrontendAttributes | Metadata | OriginalValue | RecoveryTable
    | BlockScalingConfig | ResultAccuracy | SparsityConfig | StatisticsViz
)"""
"""A single value. A `str` that is neither an enumeration nor unparsed is the text between quotes."""

AttributeValue: TypeAlias = "Scalar | tuple[AttributeValue, ...]"
"""The value of an attribute: one value, or several between braces."""

_CLOSE: tuple[type, ...] = (bool, int, StrEnum, tuple)
"""Lists without a space after the comma."""


def value_text(value: AttributeValue) -> str:
    r"""A value as XLA prints it after `name=`.

    >>> value_text(((0, 1), (2, 3))), value_text((Name("a"), Name("b"))), value_text(True), value_text('"')
    ('{{0,1},{2,3}}', '{%a, %b}', 'true', '"\\""')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple():
            comma = "," if not value or isinstance(value[0], _CLOSE) else ", "
            listed = comma.join(map(value_text, value))
            return f"{{ {listed} }}" if value and isinstance(value[0], Alias | BufferDonor) else f"{{{listed}}}"
        case UnparsedText() | StrEnum():
            return str(value)
        case str():
            return quoted(value)
    return str(value)
