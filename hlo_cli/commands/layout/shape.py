"""`hlo layout SHAPE`: the layout of a shape step by step with all numbers, or as a drawing."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.default_layout import best_order
from hlo_cli.analysis.layout.layout_steps import overflows
from hlo_cli.commands.layout.orders import (
    choice_answer,
    choice_notes,
    choice_numbers,
    choice_of,
    orders_table,
    tiled_for,
)
from hlo_cli.commands.layout.tables import (
    leaves_answer,
    leaves_numbers,
    leaves_table,
    shapes_answer,
    shapes_table,
    stored_size_text,
)
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
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, Shape, TupleShape
from hlo_cli.report.report import Part, Report
from hlo_cli.source import Diagnostic

Elements = Sequence[tuple[int, ...]]


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
        shapes_answer(shapes),
        numbers=leaves_numbers(shapes),
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
        answer, parts = _answer(array), explaining_parts(explained, array)
    if generation is not None and not draw:
        choice = choice_of(array, generation, is_given=explained.is_layout_given)
        answer, parts = choice_answer(choice), [orders_table(choice), *parts]
        numbers, notes = numbers | choice_numbers(choice), (*notes, *choice_notes(choice))
    return Report(
        "layout",
        answer,
        numbers=numbers,
        parts=tuple(parts),
        next=_next(explained, array, draw=draw),
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
        "layout", leaves_answer(shape), numbers=leaves_numbers([shape]), parts=tuple(parts), notes=explained.notes
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


def _answer(shape: ArrayShape) -> str:
    if not shape.padded_bytes:
        return "Empty array: 0 bytes"
    better = best_order(shape)
    if better is None or UNBOUNDED in shape.dimensions:
        unknown = "; ? is unknown and assumed to be 1" if UNBOUNDED in shape.dimensions else ""
        return f"Needs {stored_size_text(shape)}{unknown}"
    what = f"dimension order {index_text(better.layout.minor_to_major)}"
    if better.layout.minor_to_major == shape.layout.minor_to_major:
        what = "the default tile T" + "".join(map(str, better.layout.tiles))
    return f"Needs {stored_size_text(shape)}; {what} would need {better.padded_bytes:,}"


def _next(explained: Explained, array: ArrayShape, *, draw: bool) -> tuple[str, ...]:
    shape, bare = explained.shape, array.to_string(layout=False)
    other = f"hlo layout '{shape}'" if draw else f"hlo layout --draw '{shape}'"
    if explained.generation or draw or tiled_for(array, USUAL_TPU, is_given=False) == array:
        last = ",".join(str(size - 1) for size in array.sizes)
        return (other, f"hlo tile-index '{array}' {last}") if last and array.elements else (other,)
    return (other, f"hlo layout --for {USUAL_TPU} '{bare}'")
