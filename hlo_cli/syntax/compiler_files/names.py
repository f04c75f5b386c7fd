"""Common parts of the readers of XLA's memory files: names to places, and notes on unknown lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hlo_cli.ir.buffer_assignment import BufferPlace
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import read_index
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.scanning.shapes import parse_shape

NAME: Final = r"[^\s{},<>]++"
NUMBER: Final = r"[0-9]{1,19}+"
INDEX: Final = r"(?:[0-9]{1,9}+(?:,[0-9]{1,9}+)*+)?+"
"""The text between the braces of a shape index."""

_LINE = re.compile(r"[^\n]++")
_MOST_NOTES: Final = 50
_COPY_AGAIN: Final = "copy or regenerate the file"


class Places:
    """Finds the instructions of a module by the names that XLA's texts use; without a module, keeps the names.

    >>> place = Places(None).of("fusion.3", "0,1")
    >>> place.name, place.shape_index, place.instruction
    ('fusion.3', (0, 1), None)
    """

    def __init__(self, module: Module | None) -> None:
        listed = () if module is None else (*reversed(list(module.instructions)), *module.entry.instructions)
        self._instructions = {instruction.name: instruction for instruction in listed}
        self._indices: dict[str, ShapeIndex] = {"": ()}

    def of(self, name: str, index: str = "") -> BufferPlace:
        """The place for a name and a shape index without braces."""
        return BufferPlace(self._instructions.get(name), self._indices.get(index) or self.index(index), name)

    def index(self, text: str) -> ShapeIndex:
        """The shape index between braces."""
        found = self._indices.get(text)
        if found is None:
            found = self._indices[text] = read_index(text)
        return found


class Shapes:
    """Parses shapes, each distinct text once; a text outside XLA's grammar is kept as text."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def of(self, text: str) -> Shape:
        """The shape in a text."""
        shape = self._known.get(text)
        if shape is None:
            try:
                shape = parse_shape(text)
            except HloError:
                shape = UnknownShape(text)
            self._known[text] = shape
        return shape


def stretches(matches: Sequence[re.Match[str]], end: int) -> Iterator[tuple[re.Match[str], int]]:
    """Each match with the start of the next one; for the last match, the given end.

    >>> [(match[0], end) for match, end in stretches(list(re.finditer("[ab]", "a-b--")), 5)]
    [('a', 2), ('b', 5)]
    """
    for number, match in enumerate(matches, 1):
        yield match, matches[number].start() if number < len(matches) else end


def lines_outside(source: Source, start: int, end: int, known: Iterable[tuple[int, int]]) -> Iterator[Span]:
    """The lines between two offsets outside the known spans, which are sorted; without empty lines.

    >>> [(span.start, span.end) for span in lines_outside(Source("", "ab\\ncd\\nef"), 0, 8, [(3, 5)])]
    [(0, 2), (6, 8)]
    """
    for first, last in (*known, (end, end)):
        if start < first:
            yield from (Span(*line.span()) for line in _LINE.finditer(source.text, start, first))
        start = max(start, last)


def unknown_lines(source: Source, spans: Iterable[Span], what: str) -> tuple[Diagnostic, ...]:
    """Notes on unknown lines; at most the first few."""
    notes = []
    for span in spans:
        message = f"unexpected line in {what}: {source.slice(span).strip()}"
        notes.append(Diagnostic("note", message, source, span))
        if len(notes) == _MOST_NOTES:
            break
    return tuple(notes)


def cut_short(source: Source, what: str) -> HloError:
    """The error for a truncated file; its span is the last line."""
    text = source.text
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    return HloError(f"unexpected end of {what}", Span(start, end), source=source, hint=_COPY_AGAIN)


def refuse_other(source: Source, first: re.Pattern[str], what: str) -> int:
    """The offset after the first line of such a file; HloError if the file begins otherwise."""
    if match := first.match(source.text):
        return match.end()
    line = _LINE.search(source.text)
    if line is None:
        raise HloError(f"{source.name or 'the text'} is empty; expected {what}", Span(0, 0), source=source)
    raise HloError(f"expected {what}", Span(*line.span()), source=source)
