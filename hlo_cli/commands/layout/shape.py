"""How is a shape laid out? Step by step, as a drawing, in a table with others, and in every dimension order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import factorial
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generation
from hlo_cli.analysis.layout.layout_steps import overflows
from hlo_cli.analysis.layout.tpu_layout import OrderCost, best_order, default_order, default_tpu_layout, order_costs
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.shape.argument import is_plain_shape
from hlo_cli.commands.shape.explained import (
    Explained,
    arrays_of,
    drawing_answer,
    drawing_parts,
    explaining_parts,
    has_layout,
    shape_numbers,
    typed_shape,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Leaf,
    OpaqueShape,
    Shape,
    ShapeIndex,
    TokenShape,
    TupleShape,
)
from hlo_cli.report.numbers import format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    ROWS_FOR_A_PERSON,
    UNKNOWN,
    Cell,
    Column,
    Share,
    Table,
    columns_of_part,
    rows_from,
    rows_from_tuples,
)
from hlo_cli.source import Diagnostic

# --- several shapes in a table ---
# The leaves of a tuple, or shapes to compare.


_SIZE_COLUMNS: Final[tuple[Column[Shape], ...]] = (
    Column("elements", "elements", "count", rank=6, of=lambda shape: _of_array(shape, _elements_of(shape))),
    Column("logical_bytes", "data", "bytes", total="sum", exact=True,
           of=lambda shape: _of_array(shape, shape.logical_bytes)),
    Column("padded_bytes", "padded", "bytes", total="sum", exact=True,
           of=lambda shape: _of_array(shape, shape.padded_bytes)),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True),
           of=lambda shape: (
               _of_array(shape, 1 - shape.logical_bytes / shape.padded_bytes
               if shape.padded_bytes else 0.0))),
    Column("memory_space", "space", "count", person=False,
           of=lambda shape: _of_array(shape, shape.layout.memory_space if shape.layout is not None else None)),
)  # fmt: skip
_SHAPE_COLUMN: Final[Column[Shape]] = Column("shape", "shape", "shape", of=str)


def leaves_table(shape: Shape) -> Table:
    """The leaves of a tuple with their sizes."""
    columns: tuple[Column[ShapeIndex, Shape], ...] = (
        Column("index", "element", "index", align="left", of=lambda index, leaf: index),
        *columns_of_part((*_SIZE_COLUMNS, _SHAPE_COLUMN), lambda index, leaf: leaf),
    )
    return Table("leaves", columns, rows_from_tuples(columns, shape.leaves), noun="leaves")


def shapes_table(shapes: Sequence[Shape]) -> Table:
    """Shapes in the given order; layouts of one array are compared, not summed."""
    rows = rows_from((*_SIZE_COLUMNS, _SHAPE_COLUMN), shapes)
    if not _is_comparison(shapes):
        return Table("shapes", (*_SIZE_COLUMNS, _SHAPE_COLUMN), rows, noun="shapes")
    sizes = [shape.padded_bytes for shape in shapes]
    columns = tuple(replace(column, total=None) for column in _SIZE_COLUMNS)
    return Table("shapes", (*columns, _SHAPE_COLUMN), rows, noun="shapes", marked=frozenset((sizes.index(min(sizes)),)))


def _leaves_numbers(shapes: Sequence[Shape]) -> dict[str, Cell]:
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


def _shapes_answer(shapes: Sequence[Shape]) -> str:
    """A sentence about several shapes: the smallest layout of an array, or the total size."""
    sizes = [shape.padded_bytes for shape in shapes]
    if _is_comparison(shapes):
        best = shapes[sizes.index(min(sizes))]
        return f"{best.layout or best} is smallest: {min(sizes):,} bytes (largest: {max(sizes):,})"
    return _total_size(shapes, format_count(len(shapes), "shapes"))


def _stored_size_text(array: ArrayShape) -> str:
    """The size of an array, and the share of its padding.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _stored_size_text(parse_shape("u32[]{:T(128)}"))
    '512 bytes for 4 bytes of data (99% padding)'
    """
    padded, data = array.padded_bytes, array.logical_bytes + array.metadata_bytes
    if not padded:
        return "0 bytes (empty array)"
    # the share of padding would be that of one part in the data of all
    if array.layout.split_configs:
        return f"{padded:,} bytes for the largest part of {format_count(data, 'bytes')} of data"
    if padded == data:
        elements = format_count(array.elements, f"{array.element_type} elements")
        sizes = f" and {format_count(array.metadata_bytes, 'bytes')} of dynamic sizes" if array.metadata_bytes else ""
        return f"{format_count(padded, 'bytes')} for {elements}{sizes}, no padding"
    return f"{padded:,} bytes for {format_count(data, 'bytes')} of data ({format_percent(1 - data / padded)}% padding)"


def _is_comparison(shapes: Sequence[Shape]) -> bool:
    # shapes of one array in several layouts are alternatives, whose sum means nothing
    sizes = {shape.padded_bytes for shape in shapes}
    return len({shape.to_string(layout=False) for shape in shapes}) == 1 and len(sizes) > 1


def _total_size(shapes: Sequence[Shape], noun: str) -> str:
    numbers = _leaves_numbers(shapes)
    logical, padded = numbers["logical_bytes"], numbers["padded_bytes"]
    assert isinstance(logical, int)
    assert isinstance(padded, int)
    if logical == padded:
        return f"{format_count(padded, 'bytes')} in {noun}, no padding"
    share = format_percent(1 - logical / padded)
    return f"{padded:,} bytes for {format_count(logical, 'bytes')} of data in {noun} ({share}% padding)"


def _elements_of(shape: Shape) -> int | None:
    return None if isinstance(shape, TupleShape) else _elements(shape)


def _of_array(shape: Shape, cell: Cell) -> Cell:
    """A cell of an array or a tuple; None for what has no elements, such as a token."""
    return None if _elements_of(shape) is None and not isinstance(shape, TupleShape) else cell


def _elements(leaf: Leaf) -> int | None:
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    return array.elements if isinstance(array, ArrayShape) else None


# --- --for: every dimension order ---
# `hlo layout --for TPU SHAPE`: the size in each dimension order, and the order that the compiler chooses.


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """An array laid out for one TPU, and all its orders: the compiler's, then the given one, then the rest.

    `array` has the given order, else the compiler's, else, if that is unknown, row-major. `best` is the smallest; among
    equals it is the compiler's, then the given one.
    """

    array: ArrayShape
    generation: str
    default: OrderCost | None
    given: OrderCost | None
    best: OrderCost
    every: tuple[OrderCost, ...]


def tiled_for(array: ArrayShape, generation: str, *, is_given: bool) -> ArrayShape:
    """The array with the default layout of a TPU; a given order is kept.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(tiled_for(parse_shape("bf16[300,70]"), "v5e", is_given=False))
    bf16[300,70]{0,1:T(8,128)(2,1)}
    """
    order = None if is_given else default_order(array, generation=generation)
    return replace(array, layout=default_tpu_layout(array, generation=generation, minor_to_major=order))


def _choice_of(array: ArrayShape, generation: str, *, is_given: bool) -> OrderChoice:
    """The orders of an array with their sizes; `is_given` if its order was given explicitly.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> choice = _choice_of(parse_shape("f32[64,10]"), "v4", is_given=False)
    >>> str(choice.array), [each.padded_bytes for each in choice.every]
    ('f32[64,10]{0,1:T(8,128)}', [8192, 32768])
    """
    is_given = is_given and array.rank > 1
    priced = order_costs(array, generation=generation)
    by_order = {each.layout.minor_to_major: each for each in priced}
    tiled = tiled_for(array, generation, is_given=is_given)
    order = default_order(array, generation=generation)
    default = by_order[order] if order is not None else None
    given_order = None
    if is_given:
        # with many dimensions only the orders that differ in size are priced, and the given one may be another
        as_given = OrderCost(tiled.layout, tiled.padded_bytes, is_normal=False)
        given_order = by_order.get(tiled.layout.minor_to_major, as_given)
    # min takes the first of equals, and so prefers the compiler's order, then the given one
    every = tuple(dict.fromkeys(each for each in (default, given_order, *priced) if each))
    best = min(every, key=lambda each: each.padded_bytes)
    return OrderChoice(tiled, tpu_generation(generation).name, default, given_order, best, every)


def _choice_answer(choice: OrderChoice) -> str:
    """The compiler's order and its size, and the best order if it is another.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(_choice_answer(_choice_of(parse_shape("bf16[300,70]"), "v5e", is_given=False)))
    v5e uses {0,1:T(8,128)(2,1)}: 55,296 bytes for 42,000 bytes of data (24% padding)
    >>> print(_choice_answer(_choice_of(parse_shape("bf16[300,70]{1,0}"), "v5e", is_given=True)))
    {1,0:T(8,128)(2,1)}: 77,824 bytes for 42,000 bytes of data (46% padding); v5e would use {0,1} (55,296 bytes)
    """
    array, default, best = choice.array, choice.default, choice.best
    uses = f"{choice.generation} uses " if default and not choice.given else ""
    parts = [f"{uses}{array.layout}: {_stored_size_text(array)}"]
    if default is None:
        parts.append(f"the order that {choice.generation} uses is unknown")
    elif choice.given:
        parts.append(f"{choice.generation} would use {_instead(default, array)}")
    if best.padded_bytes < min((each.padded_bytes for each in (default, choice.given) if each), default=0):
        parts.append(f"order {index_text(best.layout.minor_to_major)} would need {best.padded_bytes:,} bytes")
    return "; ".join(parts)


def _orders_table(choice: OrderChoice) -> Table:
    """Every order with its size."""
    columns: tuple[Column[OrderCost], ...] = (
        Column("shown_order", "order", machine=False, of=lambda order: index_text(order.layout.minor_to_major)),
        Column("minor_to_major", "order", person=False, of=lambda order: order.layout.minor_to_major),
        Column("tiles", "tile",
               of=lambda order: "T" + "".join(map(str, order.layout.tiles)) if order.layout.tiles else "none"),
        Column("padded_bytes", "padded", "bytes", exact=True, of=lambda order: order.padded_bytes),
        Column("padding", "padding", "percent", role="waste",
               of=lambda order: (
                   1 - (choice.array.logical_bytes + choice.array.metadata_bytes) / order.padded_bytes
                   if order.padded_bytes else 0.0)),
        Column("remark", "", machine=False, of=lambda order: ", ".join(_remarks(order, choice))),
        Column("is_default", "default", "flag", person=False,
               of=lambda order: order == choice.default if choice.default else UNKNOWN),
        Column("is_given", "given", "flag", person=False, of=lambda order: order == choice.given),
        Column("layout", "layout", person=False, of=lambda order: str(order.layout)),
    )  # fmt: skip
    rows = rows_from(columns, choice.every)
    # orders of the same two minor dimensions need as much: a person sees one of them
    distinct = sum(each.is_normal or each == choice.given for each in choice.every)
    return Table(
        "orders",
        columns,
        rows,
        noun="orders",
        limit=min(distinct, ROWS_FOR_A_PERSON),
        person=len(rows) > 1,
        footnote="Only the two minor-most dimensions affect the size." if len(rows) > distinct else "",
        marked=frozenset((0,)) if choice.default else frozenset(),
    )


def _choice_numbers(choice: OrderChoice) -> dict[str, Cell]:
    """The numbers of the answer, for programs."""
    default, best = choice.default, choice.best
    return {
        "generation": choice.generation,
        "default_minor_to_major": default.layout.minor_to_major if default else UNKNOWN,
        "default_padded_bytes": default.padded_bytes if default else UNKNOWN,
        "smallest_minor_to_major": best.layout.minor_to_major if default else UNKNOWN,
        "smallest_padded_bytes": best.padded_bytes if default else UNKNOWN,
    }


def _choice_notes(choice: OrderChoice) -> tuple[Diagnostic, ...]:
    """A note that not all orders are listed, if there are too many."""
    omitted = factorial(choice.array.rank) - len(choice.every)
    if not omitted:
        return ()
    return (Diagnostic("note", f"{omitted:,} orders that differ only in major dimensions are not shown"),)


def _remarks(order: OrderCost, choice: OrderChoice) -> Iterator[str]:
    if order == choice.default:
        yield f"chosen by {choice.generation}"
    if order == choice.given:
        yield "given"
    if choice.default and order == choice.best != choice.default:
        yield "smallest"


def _instead(default: OrderCost, array: ArrayShape) -> str:
    order = default.layout.minor_to_major
    if order == array.layout.minor_to_major:
        return "the same"
    return f"{index_text(order)} ({default.padded_bytes:,} bytes)"


# --- one shape ---
# `hlo layout SHAPE`: the layout of a shape step by step with all numbers, or as a drawing.


Elements = Sequence[tuple[int, ...]]


def plain_answer(shapes: Sequence[str]) -> int | None:
    """Answers shapes without options, and returns the exit code; None if there is something else among them."""
    if not all(map(is_plain_shape, shapes)):
        return None
    return write_report(report_of_shapes(shapes), OutputOptions(is_format_given=False))


def report_of_shapes(texts: Sequence[str], *, draw: bool = False, generation: str | None = None) -> Report:
    """The report on one shape, or a table that compares several.

    >>> report_of_shapes(["f32[3,5]{1,0:T(2,2)}", "f32[3,5]{0,1:T(2,2)}"]).answer
    '192 bytes for 120 bytes of data in 2 shapes (38% padding)'
    """
    if len(texts) == 1:
        return report_of_shape(texts[0], draw=draw, generation=generation)
    explained = [explained_of(text, generation=generation) for text in texts]
    shapes = [each.shape for each in explained]
    arrays = [("", array) for shape in shapes for array in arrays_of(shape)]
    return Report(
        "layout",
        _shapes_answer(shapes),
        numbers=_leaves_numbers(shapes),
        parts=tuple(drawing_parts(arrays)) if draw else (shapes_table(shapes),),
        notes=tuple(note for each in explained for note in each.notes),
    )


def report_of_shape(text: str, *, draw: bool = False, generation: str | None = None, elements: Elements = ()) -> Report:
    """Explains a shape, or the shape of an instruction; `draw` adds its picture, with `elements` marked in it.

    `generation` names a TPU whose default layout the shape gets, in the given order if there is one. HloError, with
    its span, for text that is not a shape and for a layout that does not fit.

    >>> report_of_shape("bf16[300,70]{1,0:T(8,128)(2,1)}").answer
    'Needs 77,824 bytes for 42,000 bytes of data (46% padding); dimension order {0,1} would need 55,296'
    """
    explained = explained_of(text, generation=generation)
    shape = explained.shape
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        return _of_leaves(explained, draw=draw)
    numbers, notes = shape_numbers(array), explained.notes
    if draw:
        answer, parts = drawing_answer(array), drawing_parts([("", array)], elements)
    else:
        answer, parts = _shape_answer(array), explaining_parts(explained, array)
    if generation is not None and not draw:
        choice = _choice_of(array, generation, is_given=explained.is_layout_given)
        answer, parts = _choice_answer(choice), [_orders_table(choice), *parts]
        numbers, notes = numbers | _choice_numbers(choice), (*notes, *_choice_notes(choice))
    return Report(
        "layout",
        answer,
        numbers=numbers,
        parts=tuple(parts),
        next=_next_commands(explained, array, draw=draw),
        notes=notes,
    )


def explained_of(text: str, *, generation: str | None = None) -> Explained:
    """The shape in a text, checked, with the tiles of a TPU generation if one is named.

    >>> print(explained_of("y = f32[3,5]{-1,-2} negate(x)").shape)
    f32[3,5]{1,0}
    """
    typed = typed_shape(text)
    shape, notes = typed.shape, list(typed.notes)
    if generation is not None:
        shape = _tiled_for(shape, generation, typed.text)
    if any(overflows(array) for array in arrays_of(shape)):
        notes.append(Diagnostic("note", "the array is too large for XLA's 64-bit sizes"))
    return Explained(shape, has_layout(typed.given, typed.text), generation, tuple(notes))


def _of_leaves(explained: Explained, *, draw: bool) -> Report:
    """A table of the leaves of a tuple; a sentence for tokens and similar shapes."""
    shape = explained.shape
    arrays = [(index_suffix(index), array) for index, leaf in shape.leaves for array in arrays_of(leaf)]
    parts: list[Part] = [leaves_table(shape)] if isinstance(shape, TupleShape) else []
    if draw and arrays:
        parts = drawing_parts(arrays)
    return Report(
        "layout", leaves_answer(shape), numbers=_leaves_numbers([shape]), parts=tuple(parts), notes=explained.notes
    )


def _tiled_for(shape: Shape, generation: str, text: str) -> Shape:
    match shape:
        case TupleShape(elements=elements):
            return TupleShape(tuple(_tiled_for(element, generation, text) for element in elements))
        case BufferShape(array=array):
            return BufferShape(tiled_for(array, generation, is_given=has_layout(array, text)))
        case ArrayShape():
            return tiled_for(shape, generation, is_given=has_layout(shape, text))
        case _:
            return shape


def _shape_answer(shape: ArrayShape) -> str:
    if not shape.padded_bytes:
        return "Empty array: 0 bytes"
    better = best_order(shape)
    # a size that is unknown could make any order the best
    if better is None or UNBOUNDED in shape.dimensions:
        unknown = "; ? is unknown and assumed to be 1" if UNBOUNDED in shape.dimensions else ""
        return f"Needs {_stored_size_text(shape)}{unknown}"
    alternative = f"dimension order {index_text(better.layout.minor_to_major)}"
    if better.layout.minor_to_major == shape.layout.minor_to_major:
        alternative = "the default tile T" + "".join(map(str, better.layout.tiles))
    return f"Needs {_stored_size_text(shape)}; {alternative} would need {better.padded_bytes:,}"


def _next_commands(explained: Explained, array: ArrayShape, *, draw: bool) -> tuple[str, ...]:
    shape, bare = explained.shape, array.to_string(layout=False)
    other = f"hlo layout '{shape}'" if draw else f"hlo layout --draw '{shape}'"
    # what the usual TPU would do is news only if it differs
    if explained.generation or draw or tiled_for(array, USUAL_TPU, is_given=False) == array:
        last = ",".join(str(size - 1) for size in array.sizes)
        return (other, f"hlo tile-index '{array}' {last}") if last and array.elements else (other,)
    return (other, f"hlo layout --for {USUAL_TPU} '{bare}'")
