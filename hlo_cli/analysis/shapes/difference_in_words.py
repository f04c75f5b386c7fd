"""Two shapes compared leaf by leaf, with the difference in words."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape

Difference = tuple[ShapeIndex, Shape | None, Shape | None, str]
"""A leaf by its index, both shapes there, None for a missing one, and the difference in words."""


def shape_differences(expected: Shape, found: Shape, index: ShapeIndex = ()) -> Iterator[Difference]:
    """The elements in which two shapes differ; layouts count only if nothing else differs.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> one, other = parse_shape("(f32[2], s32[])"), parse_shape("(f32[3], s32[], u8[])")
    >>> [(index, words) for index, _, _, words in shape_differences(one, other)]
    [((0,), 'dimension 0 is 3, not 2'), ((2,), 'an element too many')]
    """
    if isinstance(expected, TupleShape) and isinstance(found, TupleShape):
        for at in range(max(len(expected.elements), len(found.elements))):
            one = expected.elements[at] if at < len(expected.elements) else None
            other = found.elements[at] if at < len(found.elements) else None
            if one is None or other is None:
                yield (*index, at), one, other, "an element too many" if one is None else "an element is missing"
            else:
                yield from shape_differences(one, other, (*index, at))
    elif words := difference_in_words(expected, found):
        yield index, expected, found, words


def difference_in_words(expected: Shape, found: Shape) -> str:
    """How the second shape differs from the first; empty if it does not.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> difference_in_words(parse_shape("f32[20,64]"), parse_shape("f32[64,20]"))
    'sizes of dimensions 0 and 1 are swapped'
    >>> difference_in_words(parse_shape("f32[2,3,5]"), parse_shape("f16[3,5,2]"))
    'type is f16, not f32; sizes are in the order of dimensions 1, 2, 0'
    """
    if isinstance(expected, TupleShape) != isinstance(found, TupleShape):
        return f"a tuple, not {_kind(expected)}" if isinstance(found, TupleShape) else f"{_kind(found)}, not a tuple"
    if not isinstance(expected, ArrayShape) or not isinstance(found, ArrayShape):
        return "" if str(expected) == str(found) else f"{_kind(found)}, not {_kind(expected)}"
    parts = [_type(expected, found), _sizes(expected, found), _dynamic(expected, found)]
    words = "; ".join(part for part in parts if part)
    if not words and expected.layout != found.layout:
        return f"layout is {found.layout}, not {expected.layout}"
    return words


def _kind(shape: Shape) -> str:
    return "an array" if isinstance(shape, ArrayShape) else "a tuple" if isinstance(shape, TupleShape) else str(shape)


def _type(expected: ArrayShape, found: ArrayShape) -> str:
    one, other = expected.element_type.name, found.element_type.name
    return f"type is {other}, not {one}" if one != other else ""


def _sizes(expected: ArrayShape, found: ArrayShape) -> str:
    one, other = expected.sizes, found.sizes
    if one == other:
        return ""
    if not one:
        return f"an array of {found.elements:,} {'element' if found.elements == 1 else 'elements'}, not a scalar"
    if not other:
        return "a scalar, not an array"
    if len(one) != len(other):
        same = ", with as many elements" if expected.elements == found.elements else ""
        return f"{len(other)} {'dimension' if len(other) == 1 else 'dimensions'}, not {len(one)}{same}"
    different = [at for at in range(len(one)) if one[at] != other[at]]
    if sorted(one) != sorted(other):
        return ", ".join(f"dimension {at} is {other[at]:,}, not {one[at]:,}" for at in different)
    if len(different) == 2:
        return f"sizes of dimensions {different[0]} and {different[1]} are swapped"
    if len(set(one)) == len(one):
        return f"sizes are in the order of dimensions {', '.join(str(one.index(size)) for size in other)}"
    return f"sizes {index_text(other, '[]')} are in another order than {index_text(one, '[]')}"


def _dynamic(expected: ArrayShape, found: ArrayShape) -> str:
    if len(expected.dimensions) != len(found.dimensions):
        return ""
    pairs = list(zip(expected.dynamic_dimensions, found.dynamic_dimensions, strict=True))
    added = [str(at) for at, (one, other) in enumerate(pairs) if other and not one]
    lost = [str(at) for at, (one, other) in enumerate(pairs) if one and not other]
    words = [f"dimension {', '.join(added)} is dynamic (<=)"] if added else []
    words += [f"dimension {', '.join(lost)} is not dynamic"] if lost else []
    return "; ".join(words)
