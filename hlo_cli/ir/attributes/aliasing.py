"""Values that share a buffer: results with parameters, results with operands, and donated buffers.

Mirrors xla/hlo/ir/hlo_input_output_alias_config.h and `OutputOperandAliasing` of xla/xla_data.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.shape import Shape, ShapeIndex
from hlo_cli.ir.shape_text import annotate_indices


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
