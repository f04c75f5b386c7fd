"""How many bytes a buffer takes: the elements alone, or what the target makes of them.

Mirrors `ShapeUtil::ByteSizeOf` of xla/shape_util.h and the backends' size functions.
"""

from __future__ import annotations

from hlo_cli.ir.shape import Shape, TupleShape

_POINTER = 8


def logical_bytes(shape: Shape) -> int:
    """The bytes of the elements without padding; of a tuple, those of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> logical_bytes(parse_shape("f32[3]{0:T(128)}")), logical_bytes(parse_shape("(f32[3], token[])"))
    (12, 16)
    """
    return _POINTER * len(shape.elements) if isinstance(shape, TupleShape) else shape.logical_bytes
