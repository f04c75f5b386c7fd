"""A shape or the shape of an instruction, given as text: read and checked against its layout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.layout.layout_steps import ShapeToken, overflow_source, shape_tokens, token_spans
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shape_reader import read_shape, with_small_types

NAMED = re.compile(r"[ \t\n\r]*+(?:ROOT[ \t\n\r]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+=")
"""The name of an instruction, as its text begins."""
_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*+[ \t\n\r]*+\(")


@dataclass(frozen=True, slots=True)
class TypedShape:
    """A shape and its `text`; `given` is as written, `shape` has no negative dimension numbers."""

    text: str
    given: Shape
    shape: Shape
    notes: tuple[Diagnostic, ...] = ()


def typed_shape(text: str) -> TypedShape:
    """The shape in a text; HloError, with its span, for text that is not a shape or has a layout that does not fit.

    >>> print(typed_shape("y = f32[3,5]{-1,-2} negate(x)").shape)
    f32[3,5]{1,0}
    """
    text = with_small_types(text)
    source = Source("", text)
    given = _checked(source)
    shape = _with_positive_dimensions(given)
    for index, leaf in shape.leaves:
        for array in arrays_of(leaf):
            _check(array, subshape(given, index) or given, source)
    notes = [note for _, leaf in shape.leaves if (note := _type_note(leaf)) is not None]
    if shape != given:
        notes.append(Diagnostic("note", f"negative dimension numbers count from the end: {shape}"))
    return TypedShape(text, given, shape, tuple(notes))


def arrays_of(shape: Shape) -> list[ArrayShape]:
    """The arrays among the leaves of a shape, including those in buffers."""
    leaves = [leaf.array if isinstance(leaf, BufferShape) else leaf for _, leaf in shape.leaves]
    return [leaf for leaf in leaves if isinstance(leaf, ArrayShape)]


def has_layout(shape: Shape, text: str) -> bool:
    """Whether the text has a layout after the shape."""
    bare = "".join(shape.to_string(layout=False).split()).removesuffix(")")
    return bare + "{" in "".join(text.split())


def _checked(source: Source) -> Shape:
    """The shape in a text; a type with a framework's name is the error that is reported first."""
    try:
        shape = _read(source)
    except HloError:
        _check_types(source.text)
        raise
    if any(isinstance(leaf, UnknownShape) for _, leaf in shape.leaves):
        _check_types(source.text)
    return shape


def _check_types(text: str) -> None:
    from hlo_cli.syntax.scanning.error_help import check_types

    check_types(text)


def _type_note(leaf: Shape) -> Diagnostic | None:
    """A note on an element type that XLA does not have, if there is a similar one."""
    if not isinstance(leaf, UnknownShape):
        return None
    from hlo_cli.syntax.scanning.error_help import shape_like

    if (meant := shape_like(leaf.text)) is None:
        return None
    return Diagnostic("note", f"unknown element type '{leaf.text.partition('[')[0]}'", hint=did_you_mean(meant))


def _read(source: Source) -> Shape:
    """The shape in a text that is a shape, or an instruction of that shape."""
    scanner = Scanner(source)
    if not NAMED.match(source.text):
        shape = read_shape(scanner)
        if scanner.at_end():
            return shape
        if not _OPERATION.match(source.text, scanner.pos):
            raise scanner.error("expected the end of the shape")
    return _of_instruction(source)


def _of_instruction(source: Source) -> Shape:
    """The shape of the instruction in a text; the module parser is imported only here."""
    from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
    from hlo_cli.syntax.text.parser import parse_module

    module = parse_module(source, infer=omitted_shape)
    if module.errors:
        raise HloError.of(module.errors)
    root = module.entry.root or module.entry.instructions[-1]
    if root.shape == UnknownShape():
        raise HloError(f"'{root.name}' has no shape", Span(0, len(source.text)), source=source)
    return root.shape


def _with_positive_dimensions(shape: Shape) -> Shape:
    """The shape with negative dimension numbers of its orders counted from the last dimension, as in Python."""
    match shape:
        case TupleShape(elements=elements):
            return TupleShape(tuple(map(_with_positive_dimensions, elements)))
        case ArrayShape(layout=layout):
            order = tuple(d + shape.rank if -shape.rank <= d < 0 else d for d in layout.minor_to_major)
            return replace(shape, layout=replace(layout, minor_to_major=order))
        case _:
            return shape


def _check(array: ArrayShape, given: Shape, source: Source) -> None:
    """Raises HloError if the layout does not fit the array; `given` is its written form, somewhere in the source."""
    problem, (role, number) = array.problem, overflow_source(array)
    if problem is None and array.layout.element_size_in_bits < 0:
        problem, role = "E(n) must be a positive number of bits", "element_size"
    if problem is None:
        return
    hint = f"the row-major order is {index_text(range(array.rank - 1, -1, -1))}" if role == "order" else None
    for pieces in (shape_tokens(given), shape_tokens(given, layout=False)):
        for at, spans in _places(source.text, pieces):
            found = (s for p, s in zip(pieces, spans, strict=True) if p.role == role and p.number == number)
            span = next(found, Span(0, spans[-1].end))
            raise HloError(problem, Span(at + span.start, at + span.end), source=source, hint=hint)
    raise HloError(problem, Span(0, len(source.text)), source=source, hint=hint)


def _places(text: str, pieces: Sequence[ShapeToken]) -> Iterator[tuple[int, tuple[Span, ...]]]:
    """The positions of tokens in a text, and the spans of each, relative to its position."""
    at = text.find(pieces[0].text)
    while at >= 0:
        if (spans := token_spans(text[at:], pieces)) is not None:
            yield at, spans
        at = text.find(pieces[0].text, at + 1)
