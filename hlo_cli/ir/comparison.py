"""Equality of shapes, with or without layouts, precision, and dynamic sizes.

Mirrors `Shape::Equal` of xla/shape.h and `ShapeUtil::Compatible` of xla/shape_util.h.
"""

from __future__ import annotations

from hlo_cli.ir.primitive import PrimitiveType
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape
from hlo_cli.ir.shape_text import UNBOUNDED


def compatible(a: Shape, b: Shape, *, any_precision: bool = False) -> bool:
    """Whether types and sizes agree, ignoring layouts and dynamic dimensions; `?` agrees with every size.

    With `any_precision` all float types are equal (`ShapeUtil::CompatibleIgnoringFpPrecision`).

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> a, b = parse_shape("f32[2,?]{0,1}"), parse_shape("bf16[<=2,3]{1,0}")
    >>> compatible(a, b), compatible(a, b, any_precision=True)
    (False, True)
    """
    if a is b:  # common, as equal texts give the same object
        return True
    match a, b:
        case ArrayShape(), ArrayShape():
            same_type = a.element_type is b.element_type or (
                any_precision and same_type_but_precision(a.element_type, b.element_type)
            )
            return same_type and same_sizes(a.dimensions, b.dimensions)
        case TupleShape(elements=left), TupleShape(elements=right):
            if len(left) != len(right):
                return False
            return all(compatible(x, y, any_precision=any_precision) for x, y in zip(left, right, strict=True))
        case BufferShape(array=left_array), BufferShape(array=right_array):
            return compatible(left_array, right_array, any_precision=any_precision)
    return a == b


def same_sizes(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether sizes agree one by one; `?` agrees with every size.

    >>> same_sizes((2, UNBOUNDED), (2, 3)), same_sizes((2,), (2, 3))
    (True, False)
    """
    return a == b or (len(a) == len(b) and all(x == y or UNBOUNDED in (x, y) for x, y in zip(a, b, strict=True)))


def same_type_but_precision(a: PrimitiveType, b: PrimitiveType) -> bool:
    """Whether two types are the same, or both floats (`SameElementTypeIgnoringFpPrecision`).

    >>> from hlo_cli.ir.primitive import PRIMITIVE_TYPES as types
    >>> same_type_but_precision(types["f32"], types["bf16"]), same_type_but_precision(types["s32"], types["s8"])
    (True, False)
    """
    return a is b or a.kind == b.kind == "float"


def same_order(a: Shape, b: Shape) -> bool:
    """Whether shapes agree and have the same dimension order, ignoring tiles and memory spaces.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> same_order(parse_shape("f32[2,3]{1,0:T(8,128)}"), parse_shape("f32[2,3]{1,0:S(1)}"))
    True
    """
    return a is b or (compatible(a, b) and _orders(a) == _orders(b))


def _orders(shape: Shape) -> list[tuple[int, ...]]:
    return [leaf.layout.minor_to_major for _, leaf in shape.leaves if isinstance(leaf, ArrayShape | BufferShape)]
