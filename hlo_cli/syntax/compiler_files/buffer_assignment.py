"""Reader of `-buffer-assignment.txt`: allocations, and the values in each with their offsets.

Mirrors `BufferAssignment::ToString` and `BufferAllocation::ToString` of xla/service/buffer_assignment.cc, including
old releases, which print addresses and append the values to the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import AssignedBuffer, BufferAllocation, BufferAssignment, LogicalBuffer
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import read_index
from hlo_cli.ir.shape import ShapeIndex, TupleShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Source, Span
from hlo_cli.syntax.compiler_files.names import (
    INDEX,
    NAME,
    NUMBER,
    Places,
    Shapes,
    cut_short,
    lines_outside,
    refuse_other,
    stretches,
    unknown_lines,
)

_WHAT: Final = "a buffer assignment"
_FIRST = re.compile(r"\s*BufferAssignment:[ \t]*(?:\n|\Z)")
_ALLOCATION = re.compile(rf"^allocation ({NUMBER}): (?:0x[0-9a-f]++, )?size ({NUMBER})([^\n]*+)\n?", re.MULTILINE)
_VALUE = re.compile(
    rf"^ value: <({NUMBER}) ({NAME})(?:\{{({INDEX})\}})?( \(phi\))?(?: @(-?{NUMBER}))?> "
    rf"\(size=({NUMBER}),offset=({NUMBER})\): ([^\n]++)\n?",
    re.MULTILINE,
)
_OTHER_COLOR = lazy_regex(rf"^  value: <({NUMBER}) {NAME}[^\n]*?> \(color=-?[0-9]++\)\n?", re.MULTILINE)
_OTHER_COLORS: Final = "\n reused by buffers of a different color:\n"
_AFTER = re.compile(r"^(?:Total bytes used: |Used values:|BufferAssignment stats:)", re.MULTILINE)
_PART = re.compile(
    rf", (?:color (?P<color>-?{NUMBER})|page (?P<page>{NUMBER})"
    rf"|parameter (?P<parameter>{NUMBER}), shape \|(?P<parameter_shape>[^|]*+)\| at ShapeIndex \{{(?P<index>{INDEX})\}}"
    r"|output shape is \|(?P<output_shape>[^|]*+)\|"
    r"|(?P<flag>constant|thread-local|maybe-live-out|preallocated-temp))(?=[,:])"
)


@no_garbage_collection()
def parse_buffer_assignment(source: Source, module: Module | None = None) -> BufferAssignment:
    """Parses a buffer assignment; its values are resolved to instructions of `module` if given.

    >>> text = "BufferAssignment:\\nallocation 0: size 64, color 1, preallocated-temp:\\n"
    >>> text += " value: <3 dot{0} @1> (size=64,offset=0): f32[16]{0}\\n"
    >>> assignment = parse_buffer_assignment(Source("a.txt", text))
    >>> assignment.allocation(0).size_bytes, str(assignment.logical_buffer(3).defined_at)
    (64, 'dot{0}')
    """
    start = refuse_other(source, _FIRST, f"{_WHAT} that starts with BufferAssignment:")
    following = _AFTER.search(source.text, start)
    reader = _Reader(source, module)
    allocations = tuple(reader.allocations(start, following.start() if following else len(source.text)))
    if following is None and not source.text.endswith("\n"):
        raise cut_short(source, _WHAT)
    return BufferAssignment(
        tuple(sorted(reader.buffers, key=lambda buffer: buffer.id)),
        allocations,
        notes=unknown_lines(source, reader.unknown, _WHAT),
    )


@dataclass(frozen=True, slots=True)
class _Header:
    """The fields after the size in the first line of an allocation."""

    color: int
    page: int | None
    parameter_number: int | None
    parameter_shape: str | None
    index: ShapeIndex
    output_shape: str | None
    flags: frozenset[str]


class _Reader:
    """Reads one text; collects the logical buffers and the unknown lines."""

    def __init__(self, source: Source, module: Module | None) -> None:
        self.source = source
        self.buffers: list[LogicalBuffer] = []
        self.unknown: list[Span] = []
        self._places = Places(module)
        self._shapes = Shapes()
        aliases = () if module is None else module.input_output_alias
        self._aliased = {(alias.parameter_number, alias.parameter_index) for alias in aliases}

    def allocations(self, start: int, end: int) -> Iterator[BufferAllocation]:
        """The allocations between two offsets of the text."""
        found = list(_ALLOCATION.finditer(self.source.text, start, end))
        self.unknown.extend(lines_outside(self.source, start, found[0].start() if found else end, ()))
        for match, last in stretches(found, end):
            yield self._allocation(match, last)

    def _allocation(self, match: re.Match[str], end: int) -> BufferAllocation:
        header, text = self._header(match), self.source.text
        others = text.find(_OTHER_COLORS, match.end() - 1, end)
        assigned = self._assigned(match.end(), others + 1 if others >= 0 else end)
        here = self.buffers[len(self.buffers) - len(assigned) :]
        return BufferAllocation(
            int(match[1]),
            int(match[2]),
            header.color,
            assigned,
            header.parameter_number,
            header.index,
            is_parameter_aliased_with_output=(header.parameter_number, header.index) in self._aliased,
            is_thread_local="thread-local" in header.flags,
            is_tuple=_is_tuple(header, assigned, here),
            is_constant="constant" in header.flags,
            maybe_live_out="maybe-live-out" in header.flags,
            page=header.page,
            parameter_shape=None if header.parameter_shape is None else self._shapes.of(header.parameter_shape),
            output_shape=None if header.output_shape is None else self._shapes.of(header.output_shape),
            other_color_buffer_ids=self._other_ids(others + len(_OTHER_COLORS), end) if others >= 0 else (),
        )

    def _other_ids(self, start: int, end: int) -> tuple[int, ...]:
        """The ids of values of other colors that use holes of one allocation."""
        found = list(_OTHER_COLOR.finditer(self.source.text, start, end))
        self.unknown.extend(lines_outside(self.source, start, end, (match.span() for match in found)))
        return tuple(int(match[1]) for match in found)

    def _assigned(self, start: int, end: int) -> tuple[AssignedBuffer, ...]:
        """The values of one allocation; each becomes a logical buffer too."""
        text, assigned = self.source.text, []
        for number, name, index, phi, color, size, offset, shape in _VALUE.findall(text, start, end):
            place = self._places.of(name, index)
            buffer = LogicalBuffer(int(number), int(size), int(color or 0), place, bool(phi), self._shapes.of(shape))
            self.buffers.append(buffer)
            assigned.append(AssignedBuffer(buffer.id, int(offset), buffer.size_bytes))
        if text.count("\n", start, end) != len(assigned):
            known = (match.span() for match in _VALUE.finditer(text, start, end))
            self.unknown.extend(lines_outside(self.source, start, end, known))
        return tuple(assigned)

    def _header(self, match: re.Match[str]) -> _Header:
        """The parts of a header, which XLA prints in a fixed order; anything else is an unknown line."""
        parts: dict[str, str] = {}
        flags = set()
        text, at, end = self.source.text, *match.span(3)
        while part := _PART.match(text, at, end):
            parts.update({name: value for name, value in part.groupdict().items() if value is not None})
            if part["flag"]:
                flags.add(part["flag"])
            at = part.end()
        if text[at:end] != ":":
            self.unknown.append(Span(match.start(), end))
        number, page, index = parts.get("parameter"), parts.get("page"), parts.get("index")
        return _Header(
            int(parts.get("color", 0)),
            None if page is None else int(page),
            None if number is None else int(number),
            parts.get("parameter_shape"),
            read_index(index or ""),
            parts.get("output_shape"),
            frozenset(flags),
        )


def _is_tuple(header: _Header, assigned: Sequence[AssignedBuffer], buffers: Sequence[LogicalBuffer]) -> bool:
    """Whether XLA marks the allocation as a tuple's, inferred as the text does not contain it.

    Allocations with a parameter or a constant, and thread-local ones, are marked as such first. The temporary
    allocation is a tuple's if the first of all allocations packed into it is, and that one begins at offset 0.
    """
    if header.parameter_number is not None or not header.flags.isdisjoint({"constant", "thread-local"}):
        return False
    return any(
        place.offset_bytes == 0 and isinstance(buffer.shape, TupleShape)
        for place, buffer in zip(assigned, buffers, strict=True)
    )
