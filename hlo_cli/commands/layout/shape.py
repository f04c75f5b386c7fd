"""`hlo layout SHAPE`: what a shape's layout means, step by step and with every number, or drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.layout.padding import better_order
from hlo_cli.analysis.layout.shape_tokens import ShapeToken, piece_spans, shape_pieces
from hlo_cli.analysis.layout.steps import overflow_source, overflows
from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
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
from hlo_cli.commands.shared.shape_parts import (
    Explained,
    drawing_answer,
    drawing_parts,
    explaining_parts,
    shape_numbers,
)
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape
from hlo_cli.ir.shape_text import UNBOUNDED
from hlo_cli.report.report import Part, Report
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.parser import parse_module
from hlo_cli.syntax.scanner import Scanner
from hlo_cli.syntax.shapes import read_shape, with_small_types

_NAMED = re.compile(r"[ \t\n\r]*+(?:ROOT[ \t\n\r]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+=")
_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*+[ \t\n\r]*+\(")

Elements = Sequence[tuple[int, ...]]


def report_of_shapes(texts: Sequence[str], *, draw: bool = False, generation: str | None = None) -> Report:
    """The report of one shape, or a table that sets several beside each other.

    >>> report_of_shapes(["f32[3,5]{1,0:T(2,2)}", "f32[3,5]{0,1:T(2,2)}"]).answer
    '192 bytes hold 120 in 2 shapes: 38% is padding'
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
    """What a shape, or the shape of an instruction, means; with `draw` its picture, `elements` marked in it.

    `generation` names a TPU whose default layout the shape gets, in the order that is written if one is. HloError,
    with the place, for what is no shape or has a layout that does not fit.

    >>> report_of_shape("bf16[300,70]{1,0:T(8,128)(2,1)}").answer
    '77,824 bytes hold 42,000: 46% is padding; order {0,1} would take 55,296'
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
        choice = choice_of(array, generation, is_written=explained.is_layout_written)
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
    """The shape that a text writes, checked, with what there is to say about the reading.

    >>> print(explained_of("y = f32[3,5]{-1,-2} negate(x)").shape)
    f32[3,5]{1,0}
    """
    text = with_small_types(text)
    source = Source("", text)
    given = _read(source)
    shape = _from_the_end(given)
    notes = []
    if shape != given:
        notes.append(Diagnostic("note", f"negative numbers count from the last dimension: {shape}"))
    for index, leaf in shape.leaves:
        for array in arrays_of(leaf):
            _check(array, subshape(given, index) or given, source)
    if generation is not None:
        shape = _tiled_for(shape, generation, text)
    if any(overflows(array) for array in arrays_of(shape)):
        notes.append(Diagnostic("note", "XLA counts slots and bytes in 64 bits, which are too few for this array"))
    return Explained(shape, _has_layout(given, text), generation, tuple(notes))


def _of_leaves(explained: Explained, *, draw: bool) -> Report:
    """Tuples as a table of their leaves; tokens and the like in a sentence."""
    shape = explained.shape
    arrays = [(_at(index), array) for index, leaf in shape.leaves for array in arrays_of(leaf)]
    parts: list[Part] = [leaves_table(shape)] if isinstance(shape, TupleShape) else []
    if draw and arrays:
        parts = drawing_parts(arrays)
    return Report(
        "layout", leaves_answer(shape), numbers=leaves_numbers([shape]), parts=tuple(parts), notes=explained.notes
    )


def _read(source: Source) -> Shape:
    """The shape in a text that is one, or an instruction of that shape."""
    scanner = Scanner(source)
    if not _NAMED.match(source.text):
        shape = read_shape(scanner)
        if scanner.at_end():
            return shape
        if not _OPERATION.match(source.text, scanner.pos):
            raise scanner.error("expected the end of the shape")
    module = parse_module(source, infer=omitted_shape)
    if module.errors:
        raise HloError.of(module.errors)
    root = module.entry.root or module.entry.instructions[-1]
    if root.shape == UnknownShape():
        raise HloError(f"{root.name} is written without its shape", Span(0, len(source.text)), source=source)
    return root.shape


def _from_the_end(shape: Shape) -> Shape:
    """The shape with negative dimension numbers in its orders counted from the last dimension, as in Python."""
    match shape:
        case TupleShape(elements=elements):
            return TupleShape(tuple(map(_from_the_end, elements)))
        case ArrayShape(layout=layout):
            order = tuple(d + shape.rank if -shape.rank <= d < 0 else d for d in layout.minor_to_major)
            return replace(shape, layout=replace(layout, minor_to_major=order))
        case _:
            return shape


def arrays_of(shape: Shape) -> list[ArrayShape]:
    """The arrays among the leaves of a shape, those of buffers too."""
    leaves = [leaf.array if isinstance(leaf, BufferShape) else leaf for _, leaf in shape.leaves]
    return [leaf for leaf in leaves if isinstance(leaf, ArrayShape)]


def _check(array: ArrayShape, given: Shape, source: Source) -> None:
    """HloError if the layout does not fit the array; `given` is what was written for it, somewhere in the source."""
    problem, (role, number) = array.problem, overflow_source(array)
    if problem is None and array.layout.element_size_in_bits < 0:
        problem, role = "E(n) must be a positive number of bits", "element_size"
    if problem is None:
        return
    hint = f"row-major is {_braces(range(array.rank - 1, -1, -1))}" if role == "order" else None
    for pieces in (shape_pieces(given), shape_pieces(given, layout=False)):
        for at, spans in _places(source.text, pieces):
            found = (s for p, s in zip(pieces, spans, strict=True) if p.role == role and p.number == number)
            span = next(found, Span(0, spans[-1].end))
            raise HloError(problem, Span(at + span.start, at + span.end), source=source, hint=hint)
    raise HloError(problem, Span(0, len(source.text)), source=source, hint=hint)


def _places(text: str, pieces: Sequence[ShapeToken]) -> Iterator[tuple[int, tuple[Span, ...]]]:
    """Where in a text the pieces stand, and the spans of each, counted from there."""
    at = text.find(pieces[0].text)
    while at >= 0:
        if (spans := piece_spans(text[at:], pieces)) is not None:
            yield at, spans
        at = text.find(pieces[0].text, at + 1)


def _tiled_for(shape: Shape, generation: str, text: str) -> Shape:
    match shape:
        case TupleShape(elements=elements):
            return TupleShape(tuple(_tiled_for(element, generation, text) for element in elements))
        case BufferShape(array=array):
            return BufferShape(tiled_for(array, generation, is_written=_has_layout(array, text)))
        case ArrayShape():
            return tiled_for(shape, generation, is_written=_has_layout(shape, text))
        case _:
            return shape


def _has_layout(shape: Shape, text: str) -> bool:
    """Whether the text writes a layout behind the shape."""
    bare = "".join(shape.to_string(layout=False).split()).removesuffix(")")
    return bare + "{" in "".join(text.split())


def _answer(shape: ArrayShape) -> str:
    if not shape.padded_bytes:
        return "No bytes: a size is 0"
    better = better_order(shape)
    if better is None or UNBOUNDED in shape.dimensions:
        return stored_size_text(shape)
    what = f"order {_braces(better.layout.minor_to_major)}"
    if better.layout.minor_to_major == shape.layout.minor_to_major:
        what = "the default tile T" + "".join(map(str, better.layout.tiles))
    return f"{stored_size_text(shape)}; {what} would take {better.padded_bytes:,}"


def _next(explained: Explained, array: ArrayShape, *, draw: bool) -> tuple[str, ...]:
    shape, bare = explained.shape, array.to_string(layout=False)
    other = f"hlo layout '{shape}'" if draw else f"hlo layout --draw '{shape}'"
    if explained.generation or draw or tiled_for(array, "v5e", is_written=False) == array:
        last = ",".join(str(size - 1) for size in array.sizes)
        return (other, f"hlo tile-index '{array}' {last}") if last and array.elements else (other,)
    return (other, f"hlo layout --for v5e '{bare}'")


def _at(index: tuple[int, ...]) -> str:
    return _braces(index) if index else ""


def _braces(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
