"""Several shapes in a table: the leaves of a tuple, or shapes to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, OpaqueShape, Shape, TokenShape, TupleShape
from hlo_cli.report.numbers import format_count, format_percent
from hlo_cli.report.table import Cell, Column, Share, Table

_SUMMED = (
    Column("elements", "elements", "count", rank=6),
    Column("logical_bytes", "data", "bytes", total="sum", exact=True),
    Column("padded_bytes", "padded", "bytes", total="sum", exact=True),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True)),
    Column("memory_space", "space", "count", person=False),
)
_INDEX = Column("index", "element", "index", align="left")
_SHAPE = Column("shape", "shape", "shape")


def leaves_table(shape: Shape) -> Table:
    """The leaves of a tuple with their sizes."""
    rows = tuple((index, *_cells(leaf), str(leaf)) for index, leaf in shape.leaves)
    return Table("leaves", (_INDEX, *_SUMMED, _SHAPE), rows, noun="leaves")


def shapes_table(shapes: Sequence[Shape]) -> Table:
    """Shapes in the given order; layouts of one array are compared, not summed."""
    rows = tuple((*_cells(shape), str(shape)) for shape in shapes)
    if not _is_comparison(shapes):
        return Table("shapes", (*_SUMMED, _SHAPE), rows, noun="shapes")
    sizes = [shape.padded_bytes for shape in shapes]
    columns = tuple(replace(column, total=None) for column in _SUMMED)
    return Table("shapes", (*columns, _SHAPE), rows, noun="shapes", marked=frozenset((sizes.index(min(sizes)),)))


def leaves_numbers(shapes: Sequence[Shape]) -> dict[str, Cell]:
    """Totals over shapes."""
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves]
    logical, padded = sum(s.logical_bytes for s in shapes), sum(s.padded_bytes for s in shapes)
    return {
        "shapes": len(shapes),
        "leaves": len(leaves),
        "elements": sum(_elements(leaf) or 0 for leaf in leaves),
        "logical_bytes": logical,
        "padded_bytes": padded,
        "padding_bytes": padded - logical,
    }


def leaves_answer(shape: Shape) -> str:
    """A sentence about a shape that is not an array.

    >>> leaves_answer(TokenShape())
    'Token: orders side effects, holds no data'
    """
    match shape:
        case TokenShape():
            return "Token: orders side effects, holds no data"
        case OpaqueShape():
            return "Opaque value: contents known only to its producer and consumers"
        case TupleShape():
            leaves = sum(1 for _ in shape.leaves)
            return _total_size([shape], f"{leaves:,} {'leaf' if leaves == 1 else 'leaves'}")
        case _:
            return f"Unknown type in {shape}: its size is unknown"


def shapes_answer(shapes: Sequence[Shape]) -> str:
    """A sentence about several shapes: the smallest layout of an array, or the total size."""
    sizes = [shape.padded_bytes for shape in shapes]
    if _is_comparison(shapes):
        best = shapes[sizes.index(min(sizes))]
        return f"{best.layout or best} is smallest: {min(sizes):,} bytes (largest: {max(sizes):,})"
    return _total_size(shapes, format_count(len(shapes), "shapes"))


def stored_size_text(array: ArrayShape) -> str:
    """The size of an array, and the share of its padding.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> stored_size_text(parse_shape("u32[]{:T(128)}"))
    '512 bytes for 4 bytes of data (99% padding)'
    """
    padded, data = array.padded_bytes, array.logical_bytes + array.metadata_bytes
    if not padded:
        return "0 bytes (empty array)"
    if array.layout.split_configs:
        return f"{padded:,} bytes for the largest part of {format_count(data, 'bytes')} of data"
    if padded == data:
        elements = format_count(array.elements, f"{array.element_type} elements")
        sizes = f" and {format_count(array.metadata_bytes, 'bytes')} of dynamic sizes" if array.metadata_bytes else ""
        return f"{format_count(padded, 'bytes')} for {elements}{sizes}, no padding"
    return f"{padded:,} bytes for {format_count(data, 'bytes')} of data ({format_percent(1 - data / padded)}% padding)"


def _is_comparison(shapes: Sequence[Shape]) -> bool:
    sizes = {shape.padded_bytes for shape in shapes}
    return len({shape.to_string(layout=False) for shape in shapes}) == 1 and len(sizes) > 1


def _total_size(shapes: Sequence[Shape], noun: str) -> str:
    numbers = leaves_numbers(shapes)
    logical, padded = numbers["logical_bytes"], numbers["padded_bytes"]
    assert isinstance(logical, int)
    assert isinstance(padded, int)
    if logical == padded:
        return f"{format_count(padded, 'bytes')} in {noun}, no padding"
    share = format_percent(1 - logical / padded)
    return f"{padded:,} bytes for {format_count(logical, 'bytes')} of data in {noun} ({share}% padding)"


def _cells(shape: Shape) -> tuple[Cell, ...]:
    logical, padded = shape.logical_bytes, shape.padded_bytes
    leaf = shape if not isinstance(shape, TupleShape) else None
    elements = _elements(leaf) if leaf is not None else None
    space = shape.layout.memory_space if shape.layout is not None else None
    if elements is None and leaf is not None:
        return (None, None, None, None, None)
    return (elements, logical, padded, 1 - logical / padded if padded else 0.0, space)


def _elements(leaf: Leaf) -> int | None:
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    return array.elements if isinstance(array, ArrayShape) else None
