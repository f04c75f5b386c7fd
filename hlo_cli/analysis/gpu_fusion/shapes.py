"""Sizes of shapes as XLA:GPU counts them."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_POINTER_BYTES: Final = 8


def elements_of(shape: Shape) -> int:
    """Number of elements; of a tuple, of all leaves (`ShapeUtil::ElementsInRecursive`).

    >>> from hlo_cli.ir.shape import TokenShape, TupleShape
    >>> elements_of(TupleShape((TokenShape(),)))
    0
    """
    if isinstance(shape, ArrayShape):
        return shape.elements
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


def bytes_of(shape: Shape) -> int:
    """Bytes of an array; of a tuple, of its table of pointers (`GpuCompiler::ShapeSizeBytesFunction`).

    >>> from hlo_cli import parse_module
    >>> bytes_of(parse_module("a = f32[3] parameter(0)").entry.root.shape)
    12
    """
    return len(shape.elements) * _POINTER_BYTES if isinstance(shape, TupleShape) else shape.logical_bytes


class Sizes:
    """Bytes of shapes, remembered by shape object: a module has few.

    >>> from hlo_cli import parse_module
    >>> Sizes().of(parse_module("a = f32[3] parameter(0)").entry.root.shape)
    12
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, int]] = {}

    def of(self, shape: Shape) -> int:
        """The same as `bytes_of`."""
        found = self._known.get(id(shape))
        if found is None:
            found = self._known[id(shape)] = shape, bytes_of(shape)
        return found[1]


def arrays_of(shape: Shape) -> list[ArrayShape]:
    """Arrays of a shape: itself, or those of a tuple."""
    return [leaf for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)]


def first_array(shape: Shape) -> Shape:
    """The shape itself, or the first element of a tuple."""
    while isinstance(shape, TupleShape) and shape.elements:
        shape = shape.elements[0]
    return shape


def sizes_of(node: Node) -> tuple[int, ...]:
    """Dimensions of the array that a node computes; empty for others."""
    return node.shape.sizes if isinstance(node.shape, ArrayShape) else ()


def layout_of(node: Node) -> Layout | None:
    """Layout of the array that a node computes."""
    return node.shape.layout if isinstance(node.shape, ArrayShape) else None


def type_of(node: Node) -> str:
    """Element type of the array that a node computes; empty for others."""
    return node.shape.element_type.name if isinstance(node.shape, ArrayShape) else ""


def bits_of(shape: Shape) -> int:
    """Bits of an element (`primitive_util::BitWidth`, where pred has 8 in memory); 0 if not an array."""
    if not isinstance(shape, ArrayShape):
        return 0
    return 8 if shape.element_type.kind == "pred" else shape.element_type.bits
