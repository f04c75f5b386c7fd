"""What the text files say that XLA writes about a dump's memory: buffer assignments, values, and live ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import (
    AssignedBuffer,
    BufferAllocation,
    BufferAssignment,
    BufferPlace,
    DumpedLiveRanges,
    DumpedRange,
    LogicalBuffer,
    PeakValue,
    ScheduledPlace,
    StackNode,
    UsedValue,
    UsedValues,
    ValueUse,
)
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import read_index
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- names to places ---
# Common parts of the readers of XLA's memory files: names to places, and notes on unknown lines.


NAME: Final = r"[^\s{},<>]++"
NUMBER: Final = r"[0-9]{1,19}+"
INDEX: Final = r"(?:[0-9]{1,9}+(?:,[0-9]{1,9}+)*+)?+"
"""The text between the braces of a shape index."""

_LINE = re.compile(r"[^\n]++")
_MOST_NOTES: Final = 50  # a file of another version can have a note for every line, and nobody reads more
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
        index = self._indices.get(text)
        if index is None:
            index = self._indices[text] = read_index(text)
        return index


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
                shape = UnknownShape(text)  # a type of a newer XLA: sizes are in the file, the shape is not needed
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


def _refuse_other(source: Source, first: re.Pattern[str], what: str) -> int:
    """The offset after the first line of such a file; HloError if the file begins otherwise."""
    if match := first.match(source.text):
        return match.end()
    line = _LINE.search(source.text)
    if line is None:
        raise HloError(f"{source.name or 'the text'} is empty; expected {what}", Span(0, 0), source=source)
    raise HloError(f"expected {what}", Span(*line.span()), source=source)


# --- buffer assignments ---
# Reader of `-buffer-assignment.txt`: allocations, and the values in each with their offsets.
#
# Mirrors `BufferAssignment::ToString` and `BufferAllocation::ToString` of xla/service/buffer_assignment.cc, including
# old releases, which print addresses and append the values to the same file.


_ASSIGNMENT: Final = "a buffer assignment"
_FIRST_OF_ASSIGNMENT = re.compile(r"\s*BufferAssignment:[ \t]*(?:\n|\Z)")
# old releases print the address of the object
_ALLOCATION = re.compile(rf"^allocation ({NUMBER}): (?:0x[0-9a-f]++, )?size ({NUMBER})([^\n]*+)\n?", re.MULTILINE)
_ASSIGNED_VALUE = re.compile(
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
    start = _refuse_other(source, _FIRST_OF_ASSIGNMENT, f"{_ASSIGNMENT} that starts with BufferAssignment:")
    following = _AFTER.search(source.text, start)
    reader = _AssignmentReader(source, module)
    allocations = tuple(reader.allocations(start, following.start() if following else len(source.text)))
    if following is None and not source.text.endswith("\n"):  # XLA ends each line, so a last one without an end was cut
        raise cut_short(source, _ASSIGNMENT)
    return BufferAssignment(
        tuple(sorted(reader.buffers, key=lambda buffer: buffer.id)),
        allocations,
        notes=unknown_lines(source, reader.unknown, _ASSIGNMENT),
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


class _AssignmentReader:
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
        allocations = list(_ALLOCATION.finditer(self.source.text, start, end))
        self.unknown.extend(lines_outside(self.source, start, allocations[0].start() if allocations else end, ()))
        for match, last in stretches(allocations, end):
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
        others = list(_OTHER_COLOR.finditer(self.source.text, start, end))
        self.unknown.extend(lines_outside(self.source, start, end, (match.span() for match in others)))
        return tuple(int(match[1]) for match in others)

    def _assigned(self, start: int, end: int) -> tuple[AssignedBuffer, ...]:
        """The values of one allocation; each becomes a logical buffer too."""
        text, assigned = self.source.text, []
        for number, name, index, phi, color, size, offset, shape in _ASSIGNED_VALUE.findall(text, start, end):
            place = self._places.of(name, index)
            buffer = LogicalBuffer(int(number), int(size), int(color or 0), place, bool(phi), self._shapes.of(shape))
            self.buffers.append(buffer)
            assigned.append(AssignedBuffer(buffer.id, int(offset), buffer.size_bytes))
        if text.count("\n", start, end) != len(assigned):  # a look at each line is needed only if some were not values
            known = (match.span() for match in _ASSIGNED_VALUE.finditer(text, start, end))
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


# --- places and uses of values ---
# Reader of `-buffer-assignment-values.txt`: the place of every value, and its uses.
#
# Mirrors `BufferAssignment::ValuesToString` of xla/service/buffer_assignment.cc and `HloValue::ToString` of
# xla/service/hlo_value.cc. Old releases append the same to the buffer assignment, in its file.


_LIST_OF_VALUES: Final = "a list of values"
_TOTAL = re.compile(rf"^Total bytes used: ({NUMBER})[^\n]*+\n\s*Used values:\n", re.MULTILINE)
_LINES: Final = r"((?:  [^\n]*+\n)*+)"
_LISTED_VALUE = re.compile(
    rf"^<({NUMBER}) ({NAME})(?:\{{({INDEX})\}})?( \(phi\))?(?: @(-?{NUMBER}))?>\n"
    rf" positions:\n{_LINES} uses:\n{_LINES} from instruction: ([^\n]*+\n)",
    re.MULTILINE,
)
_START = re.compile(rf"^<{NUMBER} ", re.MULTILINE)
_POSITION = re.compile(rf"^  ({NAME})(?: \{{({INDEX})\}})?$", re.MULTILINE)
_USE = re.compile(rf"^  ({NAME}), operand ({NUMBER})(?: \{{({INDEX})\}})?$", re.MULTILINE)
_NO_USES: Final = "  (none)\n"


@no_garbage_collection()
def parse_buffer_values(source: Source, module: Module | None = None) -> UsedValues:
    """The values of a buffer assignment, resolved to instructions of `module` if given.

    >>> text = "Total bytes used: 4 (4B)\\n\\nUsed values:\\n<0 p @0>\\n positions:\\n  p\\n  t {0}\\n uses:\\n"
    >>> text += "  t, operand 0\\n from instruction: %p = f32[] parameter(0)\\n"
    >>> [value] = parse_buffer_values(Source("a.txt", text)).values
    >>> [str(place) for place in value.positions], value.uses[0].operand_number
    (['p', 't{0}'], 0)
    """
    total = _TOTAL.search(source.text)
    if total is None:
        raise HloError(
            f"expected {_LIST_OF_VALUES} with the lines Total bytes used: and Used values:", Span(0, 0), source=source
        )
    reader = _ValuesReader(source, module)
    values = tuple(reader.values(total.end()))
    return UsedValues(int(total[1]), values, unknown_lines(source, reader.unknown, _LIST_OF_VALUES))


class _ValuesReader:
    """Reads one text and collects the unknown lines."""

    def __init__(self, source: Source, module: Module | None) -> None:
        self.source = source
        self.unknown: list[Span] = []
        self._places = Places(module)

    def values(self, start: int) -> Iterator[UsedValue]:
        """The values from an offset to the end; HloError if the text ends within one."""
        text, known = self.source.text, []
        for match in _LISTED_VALUE.finditer(text, start):
            known.append(match.span())
            yield self._value(match)
        last = known[-1][1] if known else start
        if _START.search(text, last) or not text.endswith("\n"):
            raise cut_short(self.source, _LIST_OF_VALUES)
        self.unknown.extend(lines_outside(self.source, start, len(text), known))

    def _value(self, match: re.Match[str]) -> UsedValue:
        number, name, index, phi, color = match.group(1, 2, 3, 4, 5)
        return UsedValue(
            int(number),
            int(color or 0),
            self._places.of(name, index or ""),
            phi is not None,
            tuple(self._positions(match)),
            tuple(self._uses(match)),
            Span(match.start(8), match.end(8) - 1),
        )

    def _positions(self, match: re.Match[str]) -> Iterator[BufferPlace]:
        positions = _POSITION.findall(match[6])
        self._compare(match, 6, _POSITION, len(positions))
        return (self._places.of(name, index) for name, index in positions)

    def _uses(self, match: re.Match[str]) -> Iterator[ValueUse]:
        uses = _USE.findall(match[7])
        if match[7] != _NO_USES:
            self._compare(match, 7, _USE, len(uses))
        for name, number, index in uses:
            yield ValueUse(self._places.of(name), int(number), self._places.index(index))

    def _compare(self, match: re.Match[str], group: int, pattern: re.Pattern[str], count: int) -> None:
        """Records the lines of a part that its pattern did not match."""
        if match[group].count("\n") != count:
            start, end = match.span(group)
            known = [match.span() for match in pattern.finditer(self.source.text, start, end)]
            self.unknown.extend(lines_outside(self.source, start, end, known))


# --- live ranges ---
# Reader of `-live-range.txt`: the flattened schedule, the live range of every value, and the values live at the peak.
#
# Mirrors `HloLiveRange::ToString` of xla/hlo/utils/hlo_live_range.cc.


_T = TypeVar("_T")
_LIVE_RANGES: Final = "live ranges"
_GROUPED: Final = rf"({NUMBER}(?: {NUMBER})*+)"
_FIRST_OF_LIVE_RANGES = re.compile(rf"\s*HloLiveRange \(max ({NUMBER})\):[ \t]*(?:\n|\Z)")
_SECTION = re.compile(
    rf"^  (?:(InstructionSequence):|(BufferLiveRange):|Live ranges at ({NUMBER}) \((peak)\):"
    rf"|(Stack) trace breakdown for peak usage: {_GROUPED} bytes)\n?",
    re.MULTILINE,
)
_PLACE: Final = rf"({NAME})(?:\{{({INDEX})\}})?"
_SCHEDULED = re.compile(rf"^    ({NUMBER}):({NAME})\n", re.MULTILINE)
_RANGE = re.compile(rf"^    {_PLACE}:({NUMBER})-({NUMBER})\n", re.MULTILINE)
_PEAK = re.compile(rf"^    {_PLACE}: ({NUMBER}) bytes \(cumulative: ({NUMBER}) bytes\)\n", re.MULTILINE)
_STACK = re.compile(
    rf"^    ((?:  )?(?:│   |    )*+(?:├── |└── )?+)([^\n]*?) \(([0-9]{{1,9}}+\.[0-9]|-?nan)%, "
    rf"total: {_GROUPED} bytes, current: {_GROUPED} bytes, remaining: {_GROUPED} bytes\)\n",
    re.MULTILINE,
)


@no_garbage_collection()
def parse_live_ranges(source: Source, module: Module | None = None) -> DumpedLiveRanges:
    """Parses a file of live ranges; its values are resolved to instructions of `module` if given.

    >>> text = "HloLiveRange (max 2):\\n  InstructionSequence:\\n    0:p\\n  BufferLiveRange:\\n    p{}:0-2\\n"
    >>> text += "  Live ranges at 0 (peak):\\n    p{}: 4 bytes (cumulative: 4 bytes)\\n"
    >>> ranges = parse_live_ranges(Source("a.txt", text))
    >>> ranges.ranges[0].end, ranges.peak_time, ranges.peak[0].size_bytes
    (2, 0, 4)
    """
    start = _refuse_other(source, _FIRST_OF_LIVE_RANGES, "live ranges that start with HloLiveRange")
    reader = _LiveRangeReader(source, module, start)
    if not source.text.endswith("\n") or "BufferLiveRange" not in reader.sections:
        raise cut_short(source, _LIVE_RANGES)
    peak, stack = reader.heads.get("peak"), reader.heads.get("Stack")
    first = _FIRST_OF_LIVE_RANGES.match(source.text)
    return DumpedLiveRanges(
        int(first[1]) if first else 0,
        reader.items("InstructionSequence", _SCHEDULED, reader.scheduled),
        reader.items("BufferLiveRange", _RANGE, reader.range),
        None if peak is None else int(peak[3]),
        reader.items("peak", _PEAK, reader.peak),
        None if stack is None else _number(stack[6]),
        reader.items("Stack", _STACK, _stack_node),
        unknown_lines(source, reader.unknown, _LIVE_RANGES),
    )


class _LiveRangeReader:
    """Splits one text into its sections, and collects the unknown lines."""

    def __init__(self, source: Source, module: Module | None, start: int) -> None:
        self.source = source
        self.unknown: list[Span] = []
        self._places = Places(module)
        sections = list(_SECTION.finditer(source.text, start))
        self.heads: dict[str, re.Match[str]] = {}
        self.sections: dict[str, tuple[int, int]] = {}
        for match, end in stretches(sections, len(source.text)):
            kind = next(filter(None, match.group(1, 2, 4, 5)))
            if kind in self.heads:
                self.unknown.append(Span(*match.span()))
                continue
            self.heads[kind], self.sections[kind] = match, (match.end(), end)
        self.unknown.extend(lines_outside(source, start, sections[0].start() if sections else len(source.text), ()))

    def items(self, section: str, pattern: re.Pattern[str], make: Callable[[tuple[str, ...]], _T]) -> tuple[_T, ...]:
        """The parsed lines of a section; empty if the text does not have it."""
        start, end = self.sections.get(section, (0, 0))
        matches = pattern.findall(self.source.text, start, end)
        if self.source.text.count("\n", start, end) != len(matches):
            known = [match.span() for match in pattern.finditer(self.source.text, start, end)]
            self.unknown.extend(lines_outside(self.source, start, end, known))
        return tuple(map(make, matches))

    def scheduled(self, groups: tuple[str, ...]) -> ScheduledPlace:
        """A line of the schedule."""
        return ScheduledPlace(int(groups[0]), self._places.of(groups[1]))

    def range(self, groups: tuple[str, ...]) -> DumpedRange:
        """A live range."""
        return DumpedRange(self._places.of(groups[0], groups[1]), int(groups[2]), int(groups[3]))

    def peak(self, groups: tuple[str, ...]) -> PeakValue:
        """A value that is live at the peak."""
        return PeakValue(self._places.of(groups[0], groups[1]), int(groups[2]), int(groups[3]))


def _stack_node(groups: tuple[str, ...]) -> StackNode:
    rails, name, percent, total, current, remaining = groups
    depth = (len(rails) - 2) // 4 if rails else 0
    return StackNode(depth, name, float(percent), _number(total), _number(current), _number(remaining))


def _number(digits: str) -> int:
    """A number whose digits are grouped by blanks.

    >>> _number("417 520")
    417520
    """
    return int(digits.replace(" ", ""))
