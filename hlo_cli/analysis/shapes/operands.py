"""Helpers of shape inference: operand shapes of a required kind, with errors for violations.

Mirrors the helpers at the top of xla/service/shape_inference.cc.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout, PrimitiveType, default_layout
from hlo_cli.ir.operations import FIRST_DIMENSION
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape, UnknownShape, same_type_but_precision
from hlo_cli.source import HloError, counted

PRED: Final = PRIMITIVE_TYPES["pred"]
S32: Final = PRIMITIVE_TYPES["s32"]
U32: Final = PRIMITIVE_TYPES["u32"]
TOKEN: Final = TokenShape()
U32_SCALAR: Final = ArrayShape(U32, (), (), default_layout(0))
INTEGERS: Final = ("signed", "unsigned")

# bf16 before f16: `HigherPrecisionType` compares the range before the mantissa.
_WIDEST_FIRST: Final = """c128 c64 f64 f32 bf16 f8e8m0fnu f16 f8e5m2 f8e5m2fnuz f8e4m3fn f8e4m3 f8e4m3fnuz f8e4m3b11fnuz
    f6e3m2fn f8e3m4 f6e2m3fn f4e2m1fn s64 u64 s32 u32 s16 u16 s8 u8 s4 u4 s2 u2 s1 u1 pred""".split()
"""Element types by descending precision."""
_KIND_NAMES: Final = {
    "pred": "pred",
    "signed": "signed integers",
    "unsigned": "unsigned integers",
    "float": "floats",
    "complex": "complex numbers",
}


def fail(instruction: Instruction, message: str) -> NoReturn:
    """Raises HloError: the instruction violates the rule of its opcode."""
    raise HloError(f"{instruction.written_opcode} %{instruction.name}: {message}", instruction.span)


def operand_name(instruction: Instruction, position: int) -> str:
    """Returns an operand in HLO text."""
    elements = "".join(f"#{i}" for i in instruction.operand_index(position))
    return f"%{instruction.operands[position].name}{elements}"


def sizes_of(shape: Shape) -> str:
    """Returns the text of a shape without layout."""
    return shape.to_string(layout=False)


def described(instruction: Instruction, *positions: int) -> str:
    """Returns operands with their shapes, for messages: `%a is f32[2], %b is f32[3]`."""
    shapes = (sizes_of(instruction.operand_shape(position)) for position in positions)
    return ", ".join(f"{operand_name(instruction, p)} is {shape}" for p, shape in zip(positions, shapes, strict=True))


def array(instruction: Instruction, position: int) -> ArrayShape:
    """Returns the shape of an operand, which must be an array."""
    shape = instruction.operand_shape(position)
    if not isinstance(shape, ArrayShape):
        fail(instruction, f"expected an array as operand {position}; {described(instruction, position)}")
    return shape


def arrays(instruction: Instruction) -> list[ArrayShape]:
    """Returns the shapes of all operands, which must be arrays."""
    return [array(instruction, position) for position in range(len(instruction.operands))]


def operand_shapes(instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the shapes of all operands, of any kind."""
    # Nearly always; asking for each operand would double the time of a check.
    if instruction.index not in instruction.computation.operand_indices:
        return tuple([operand.shape for operand in instruction.operands])
    return tuple([instruction.operand_shape(position) for position in range(len(instruction.operands))])


def declared(instruction: Instruction) -> Shape:
    """Returns the declared shape, for results that cannot be inferred."""
    if isinstance(instruction.shape, UnknownShape):
        fail(instruction, "the result shape cannot be inferred and must be given")
    return instruction.shape


def declared_array(instruction: Instruction) -> ArrayShape:
    """Returns the declared shape, which must be an array."""
    shape = declared(instruction)
    if not isinstance(shape, ArrayShape):
        fail(instruction, f"expected an array as the result; the given shape is {sizes_of(shape)}")
    return shape


def declared_tuple(instruction: Instruction, least: int) -> tuple[Shape, ...]:
    """Returns the elements of the declared shape, which must be a tuple of at least `least` elements."""
    shape = declared(instruction)
    if not isinstance(shape, TupleShape) or len(shape.elements) < least:
        written = sizes_of(shape)
        fail(instruction, f"expected a tuple of at least {least} elements as the result; the given shape is {written}")
    return shape.elements


def array_of(
    element_type: PrimitiveType,
    dimensions: Sequence[int],
    dynamic: Sequence[bool] | None = None,
    layout: Layout | None = None,
) -> ArrayShape:
    """Returns an array shape; static and in the default layout unless given."""
    flags = (False,) * len(dimensions) if dynamic is None else tuple(dynamic)
    return ArrayShape(element_type, tuple(dimensions), flags, layout or default_layout(len(dimensions)))


def with_type(shape: ArrayShape, element_type: PrimitiveType) -> ArrayShape:
    """Returns the array with another element type; its layout stays, except for the element size."""
    return shape if element_type is shape.element_type else made_of(shape, element_type)


def made_of(shape: ArrayShape, element_type: PrimitiveType) -> ArrayShape:
    """Returns a new array of this element type; the layout has its element size if it is below a byte.

    Mirrors `ShapeUtil::ChangeElementType`. A shape whose type does not change may declare another element size.
    """
    bits = element_type.bits if element_type.is_sub_byte else 0
    layout = shape.layout
    # Sub-byte types state their width in the layout, others must not.
    if layout.element_size_in_bits != bits:
        layout = replace(layout, element_size_in_bits=bits)
    return ArrayShape(element_type, shape.dimensions, shape.dynamic_dimensions, layout)


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """Returns a single shape, or the tuple of several."""
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def wider(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType:
    """Returns the type with higher precision; of floats first the larger range, then the larger mantissa.

    Mirrors `primitive_util::HigherPrecisionType`.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES as types
    >>> wider(types["f16"], types["bf16"]).name, wider(types["s32"], types["u32"]).name
    ('bf16', 's32')
    """
    return a if _WIDEST_FIRST.index(a.name) <= _WIDEST_FIRST.index(b.name) else b


def need_kind(instruction: Instruction, position: int, kinds: Collection[str]) -> ArrayShape:
    """Returns the shape of an operand whose element type must be of one of these kinds."""
    shape = array(instruction, position)
    if shape.element_type.kind not in kinds:
        expected = " or ".join(name for kind, name in _KIND_NAMES.items() if kind in kinds)
        fail(instruction, f"expected {expected}; {described(instruction, position)}")
    return shape


def need_same_type(instruction: Instruction, first: int, second: int) -> None:
    """Checks that two operands have the same element type; all float types count as equal."""
    if not same_type_but_precision(array(instruction, first).element_type, array(instruction, second).element_type):
        fail(instruction, f"expected operands of the same element type; {described(instruction, first, second)}")


def need_scalar(instruction: Instruction, position: int) -> ArrayShape:
    """Returns the shape of an operand, which must be a scalar."""
    shape = array(instruction, position)
    if shape.dimensions:
        fail(instruction, f"expected a scalar as operand {position}; {described(instruction, position)}")
    return shape


def need_at_least(instruction: Instruction, count: int) -> None:
    """Checks that there are at least `count` operands."""
    if len(instruction.operands) < count:
        fail(instruction, f"expected at least {counted(count, 'operands')}, found {len(instruction.operands)}")


def need_dimensions(instruction: Instruction, dimensions: Iterable[int], rank: int, noun: str) -> None:
    """Checks that dimension numbers are unique and below `rank`."""
    earlier: set[int] = set()
    for dimension in dimensions:
        if not 0 <= dimension < rank:
            fail(instruction, f"dimension {dimension} in {noun} is out of range (rank {rank})")
        if dimension in earlier:
            fail(instruction, f"duplicate dimension {dimension} in {noun}")
        earlier.add(dimension)


def only_dimension(instruction: Instruction, rank: int) -> int:
    """Returns the single dimension in `dimensions`; for some opcodes XLA reads the first and ignores the others."""
    dimensions = instruction.integers("dimensions")
    # hlo_parser.cc reads dimensions(0) of these and drops the rest.
    if instruction.written_opcode in FIRST_DIMENSION:
        dimensions = dimensions[:1]
    if len(dimensions) != 1:
        fail(instruction, f"expected one number in dimensions, found {len(dimensions)}")
    need_dimensions(instruction, dimensions, rank, "dimensions")
    return dimensions[0]


def callee(instruction: Instruction, position: int = 0) -> tuple[Computation, Shape]:
    """Returns a called computation and the shape of its result."""
    called = instruction.called_computations
    if position >= len(called):
        fail(instruction, f"expected {counted(position + 1, 'called computations')}, found {len(called)}")
    root = called[position].root
    if root is None:
        fail(instruction, f"called computation {called[position].name} has no result")
    return called[position], root.shape


def parameters_of(instruction: Instruction, computation: Computation, count: int) -> tuple[Shape, ...]:
    """Returns the shapes of the `count` parameters of a computation."""
    found = len(computation.parameters)
    if found != count:
        fail(instruction, f"expected {counted(count, 'parameters')} in {computation.name}, found {found}")
    return tuple([parameter.shape for parameter in computation.parameters])
