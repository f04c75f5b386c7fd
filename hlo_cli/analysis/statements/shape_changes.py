"""How the sizes of dimensions and the element types of two shapes differ, place by place."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape

SizePair = tuple[int, int]
"""A size of the old module and the size in its place in the new one."""


@dataclass(frozen=True, slots=True)
class ShapeDelta:
    """The sizes and the types that take the place of others in a shape.

    `is_rearranged` says that an array has the same sizes in another order.
    """

    sizes: frozenset[SizePair]
    types: frozenset[tuple[str, str]]
    is_rearranged: bool = False


def shape_delta(before: Shape, after: Shape) -> ShapeDelta | None:
    """The differences of two shapes of one structure; None if ranks or the numbers of elements differ.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape_delta(parse_shape("f32[8,256]"), parse_shape("bf16[8,320]"))
    ShapeDelta(sizes=frozenset({(256, 320)}), types=frozenset({('f32', 'bf16')}), is_rearranged=False)
    >>> shape_delta(parse_shape("f32[8,256]"), parse_shape("f32[8]")) is None
    True
    """
    ones, twos = list(before.leaves), list(after.leaves)
    if len(ones) != len(twos):
        return None
    sizes: set[SizePair] = set()
    types: set[tuple[str, str]] = set()
    is_rearranged = False
    for (index, one), (other, two) in zip(ones, twos, strict=True):
        x, y = _array(one), _array(two)
        if index != other or (x is None) != (y is None):
            return None
        if x is None or y is None:
            continue
        if x.rank != y.rank:
            return None
        if sorted(x.dimensions) == sorted(y.dimensions):
            is_rearranged = is_rearranged or x.dimensions != y.dimensions
        else:
            sizes.update((a, b) for a, b in zip(x.dimensions, y.dimensions, strict=True) if a != b)
        if x.element_type is not y.element_type:
            types.add((str(x.element_type), str(y.element_type)))
    return ShapeDelta(frozenset(sizes), frozenset(types), is_rearranged)


def _array(leaf: Leaf) -> ArrayShape | None:
    if isinstance(leaf, BufferShape):
        return leaf.array
    return leaf if isinstance(leaf, ArrayShape) else None
