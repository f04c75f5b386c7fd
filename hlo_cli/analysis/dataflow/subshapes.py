"""The parts of a shape, tuples and leaves, in pre-order. Mirrors xla/shape_tree.h."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape


@dataclass(frozen=True, slots=True)
class Subshapes:
    """The parts of a shape in pre-order: each tuple before its elements.

    `ordinals` is the inverse of `indices`. `elements[i]` is the ordinal of element i of a tuple shape, with one
    further entry for the end.
    """

    indices: tuple[ShapeIndex, ...]
    shapes: tuple[Shape, ...]
    elements: tuple[int, ...]
    ordinals: Mapping[ShapeIndex, int]

    def __len__(self) -> int:
        return len(self.indices)

    def below(self, index: ShapeIndex) -> range:
        """Returns the ordinals of the part at an index and of all its subparts; empty if there is no such part."""
        first = self.ordinals.get(index)
        if first is None:
            return range(0)
        depth, last = len(index), first + 1
        while last < len(self.indices) and self.indices[last][:depth] == index and len(self.indices[last]) > depth:
            last += 1
        return range(first, last)


def subshapes_of(shape: Shape) -> Subshapes:
    """Returns the parts of a shape.

    >>> from hlo_cli import parse_shape
    >>> parts = subshapes_of(parse_shape("(f32[], (s8[2], token[]))"))
    >>> parts.indices, parts.elements, parts.below((1,))
    (((), (0,), (1,), (1, 0), (1, 1)), (1, 2, 5), range(2, 5))
    """
    if not isinstance(shape, TupleShape):
        return Subshapes(((),), (shape,), (), {(): 0})
    indices: list[ShapeIndex] = []
    shapes: list[Shape] = []
    elements: list[int] = []
    pending: list[tuple[ShapeIndex, Shape]] = [((), shape)]
    while pending:
        index, part = pending.pop()
        if len(index) == 1:
            elements.append(len(indices))
        indices.append(index)
        shapes.append(part)
        if isinstance(part, TupleShape):
            pending.extend(((*index, i), e) for i, e in reversed(tuple(enumerate(part.elements))))
    elements.append(len(indices))
    return Subshapes(tuple(indices), tuple(shapes), tuple(elements), {index: n for n, index in enumerate(indices)})
