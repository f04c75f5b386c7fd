"""What an `*.xplane.pb` of JAX, TensorFlow, or PyTorch/XLA recorded: planes, lines, and events."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from hlo_cli import wire
from hlo_cli.ir.traces.trace import EventMetadata, Events, Integers, Line, Plane, Trace, TracedProgram, Value
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.traces.xplane_columns import (
    CHUNK,
    Fields,
    Names,
    OwnStatistics,
    Reader,
    Statistics,
    read_statistics,
    values_of,
)

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer


# --- metadata of events ---
# The two maps of a plane of an xplane: metadata of events, and names of statistics, each by id.


_KEY, _VALUE = 0x08, 0x12
_EVENT_NAME, _METADATA, _EVENT_DISPLAY_NAME, _EVENT_STATISTIC, _CHILD, _CHILDREN = 0x12, 0x1A, 0x22, 0x2A, 0x30, 0x32


def _read_names(reader: Reader, spans: array[int]) -> Names:
    """The names of statistics by id, from the entries of their map; of several with the same id, the last."""
    names = Names()
    for entries in _entries(reader, spans):
        own = [""] * len(entries.keys)
        fields = reader.fields(entries.starts, entries.ends).select(_EVENT_NAME)
        for owner, start, end in zip(
            entries.owners_of(fields), fields.values.tolist(), fields.ends.tolist(), strict=True
        ):
            own[owner] = reader.data[start:end].decode("utf-8", "replace")
        names.update(zip(entries.keys, own, strict=True))
    return names


def _read_kinds(reader: Reader, spans: array[int], names: Mapping[int, str]) -> Mapping[int, EventMetadata]:
    """The metadata of events by id, from the entries of their map; of several with the same id, the last."""
    known: dict[int, EventMetadata] = {}
    for entries in _entries(reader, spans):
        fields = reader.fields(entries.starts, entries.ends)
        texts = {tag: [b""] * len(entries.keys) for tag in (_EVENT_NAME, _METADATA, _EVENT_DISPLAY_NAME)}
        children: dict[int, list[int]] = {}
        columns = (fields.tags.tolist(), fields.values.tolist(), fields.ends.tolist())
        for owner, tag, value, end in zip(entries.owners_of(fields), *columns, strict=True):
            if tag in texts:
                texts[tag][owner] = reader.data[value:end]
            elif tag == _CHILD:
                children.setdefault(owner, []).append(wire.signed(value))
            elif tag == _CHILDREN:
                children.setdefault(owner, []).extend(_packed(reader.data, value, end))
        statistics = _statistics(reader, entries, fields.select(_EVENT_STATISTIC), names)
        for index, key in enumerate(entries.keys):
            name, display = (texts[tag][index].decode("utf-8", "replace") for tag in (_EVENT_NAME, _EVENT_DISPLAY_NAME))
            known[key] = EventMetadata(
                key, name, display, texts[_METADATA][index], statistics[index], tuple(children.get(index, ()))
            )
    return known


class _Entries(NamedTuple):
    """Some entries of a map: their keys, and the spans of values with the entries they belong to.

    An entry may have no value, or several, which are then one message in parts.
    """

    keys: list[int]
    owners: Integers
    starts: Integers
    ends: Integers

    def owners_of(self, fields: Fields) -> list[int]:
        """The entries that fields of values belong to."""
        owners: list[int] = self.owners[fields.owners].tolist()
        return owners


def _entries(reader: Reader, spans: array[int]) -> Iterator[_Entries]:
    both = np.array(spans, np.int64).reshape(-1, 2)  # of each entry, where it begins and ends
    for first in range(0, len(both), CHUNK):
        part = both[first : first + CHUNK]
        fields = reader.fields(part[:, 0], part[:, 1])
        keys = np.zeros(len(part), np.int64)
        own = fields.select(_KEY)
        keys[own.owners] = own.values.view(np.int64)
        own = fields.select(_VALUE)
        yield _Entries(keys.tolist(), own.owners, own.values.view(np.int64), own.ends)


def _statistics(
    reader: Reader, entries: _Entries, fields: Fields, names: Mapping[int, str]
) -> Sequence[Mapping[str, Value]]:
    statistics: list[dict[str, Value]] = [{} for _ in entries.keys]
    read = read_statistics(reader, fields.values.view(np.int64), fields.ends)
    labels = map(names.get, read.ids.tolist())
    for owner, name, value in zip(entries.owners_of(fields), labels, values_of(reader.data, read, names), strict=True):
        if name is not None and value is not None:
            statistics[owner][name] = value
    return statistics


def _packed(data: Buffer, at: int, end: int) -> Iterator[int]:
    while at < end:
        value, at = wire.number_at(data, at, end)
        yield wire.signed(value)


# --- events of a line ---
# The events of a line of an xplane: their numbers as columns, their statistics compact until a name is asked for.


MAX_EVENTS: Final = 1 << 25
"""The most events of a line."""
MAX_OTHERS: Final = 1 << 18
"""The most fields in a piece of a line that are not short events."""
_PIECE: Final = 1 << 22
"""Bytes after which the number of events is checked."""
_EVENT: Final = 0x22  # `events` of XLine: field 4 with bytes
_EVENT_KIND, _OFFSET, _DURATION, _OCCURRENCES, _OWN_STATISTIC = 0x08, 0x10, 0x18, 0x28, 0x22


def _find_events(data: Buffer, at: int, end: int, others: dict[int, wire.FieldSpan]) -> array[int]:
    """Where the events of a line have their tags; of its other fields, the last of each tag is added to `others`.

    WireError where the line cannot be read, or if it has too many events.
    """
    tags_at = array("q")
    while at < end:
        if len(tags_at) > MAX_EVENTS:
            raise wire.WireError("too many events", tags_at[MAX_EVENTS])
        at = _find_some(data, at, min(end, at + _PIECE), end, tags_at, others)
    if at > end:
        raise wire.WireError("truncated field", tags_at[-1], is_truncated=True)
    return tags_at


def _find_some(data: Buffer, at: int, stop: int, end: int, found: array[int], others: dict[int, wire.FieldSpan]) -> int:
    """Adds the events that begin before `stop`; returns where the next field begins."""
    add, last, count = found.append, end - 2, 0
    while at < stop:
        if at < last and data[at] == _EVENT:
            length, second = data[at + 1], data[at + 2]
            if length < 128:
                add(at)
                at += length + 2
                continue
            if second < 128:
                add(at)
                # a tag, a length of two bytes whose first has its upper bit set, and the event: 3 - 128
                at += (second << 7) + length - 125
                continue
        field = wire.field_span_at(data, at, end)
        if field[0] == _EVENT:
            add(wire.number_at(data, at, end)[1] - 1)  # the last byte of a tag that may be longer than needed
        else:
            others[field[0]] = field
        at = field[2]
        count += 1
        if count > MAX_OTHERS:
            raise wire.WireError("too many fields", at)
    return at


_NONE: Final = np.zeros(0, np.int64)
_OWN: Final = OwnStatistics(b"", np.zeros(1, np.int64), Statistics.joined([]), Names())
EMPTY: Final = Events(_NONE, _NONE, _NONE, _NONE, _OWN.of, _OWN.at)


def _read_events(reader: Reader, tags_at: array[int], names: Names) -> Events:
    """The events with tags at some offsets; `names` are those of statistics. WireError if one cannot be read."""
    if not tags_at:
        return EMPTY
    starts, ends = reader.spans(np.frombuffer(tags_at, np.int64))
    columns = [np.zeros(len(starts), np.int64) for _ in range(4)]
    counts = np.zeros(len(starts) + 1, np.int64)
    pieces: list[Statistics] = []
    for first in range(0, len(starts), CHUNK):
        part = slice(first, first + CHUNK)
        fields = reader.fields(starts[part], ends[part])
        _fill([column[part] for column in columns], fields)
        own = fields.select(_OWN_STATISTIC)
        if len(own.owners):
            counts[1:][part] += np.bincount(own.owners, minlength=len(starts[part]))
            pieces.append(read_statistics(reader, own.values.view(np.int64), own.ends))
    own_statistics = OwnStatistics(reader.data, np.cumsum(counts), Statistics.joined(pieces), names)
    kinds, offsets, durations, occurrences = columns
    if not occurrences.any():
        occurrences = np.broadcast_to(np.int64(0), len(starts))
    return Events(kinds, offsets, durations, occurrences, own_statistics.of, own_statistics.at)


def _fill(columns: list[Integers], fields: Fields) -> None:
    """Sets the numbers of events. Offset and number of occurrences exclude each other: the later one counts."""
    for tag, row in ((_EVENT_KIND, 0), (_DURATION, 2)):
        chosen = fields.tags == tag
        columns[row][fields.owners[chosen]] = fields.values[chosen].view(np.int64)
    times = fields.tags == _OFFSET
    sums = fields.tags == _OCCURRENCES
    columns[1][fields.owners[times]] = fields.values[times].view(np.int64)
    if sums.any():
        columns[3][fields.owners[sums]] = fields.values[sums].view(np.int64)
        either = np.flatnonzero(times | sums)
        last = np.zeros(len(columns[0]), np.uint8)
        last[fields.owners[either]] = fields.tags[either]
        columns[1][last == _OCCURRENCES] = 0
        columns[3][last == _OFFSET] = 0


# --- a file ---
# Reads `*.xplane.pb`, the traces of JAX, TensorFlow, and PyTorch/XLA.
#
# Mirrors tsl/profiler/protobuf/xplane.proto. Events of a line are read when it is first asked for them; what the reader
# keeps of the others is where they are in the file.


PROGRAMS: Final = "/host:metadata"
_RECORD_AGAIN: Final = "record it again; the file may be truncated"
_UNSIGNED: Final = (1 << 64) - 1  # program ids are fingerprints of 64 bits, which statistics hold signed or unsigned
MAX_TEXTS: Final = 1000
"""The most errors, warnings, and host names that are kept."""
MAX_ENTRIES: Final = 1 << 22
"""The most entries of a map of a plane."""
MAX_LINES: Final = 100_000
"""The most planes and lines of a trace."""
_FAR: Final = 1 << 53
"""Nanoseconds: a clock beyond counts since 1970, and its picoseconds have more than 64 bits."""
_PLANE, _ERROR, _WARNING, _HOSTNAME = 0x0A, 0x12, 0x1A, 0x22
_ID, _NAME, _LINE, _KIND, _STATISTIC_NAME, _STATISTIC = 0x08, 0x12, 0x1A, 0x22, 0x2A, 0x32
_TIMESTAMP, _LINE_DURATION, _DISPLAY_ID, _DISPLAY_NAME = 0x18, 0x48, 0x50, 0x5A

T = TypeVar("T")


def read_xplane(data: Buffer, name: str) -> Trace:
    """Reads a trace; of a truncated or damaged one the planes before the damage, with a note.

    HloError if nothing can be read; where events are damaged, it is raised when they are asked for.
    """
    reading = _Reading(data, name)
    reading.read()
    planes = [plane.plane() for plane in reading.planes]
    if reading.cut is not None and not any(plane.lines or plane.kinds for plane in planes):
        raise _corrupt(name, reading.cut)
    return Trace(
        name,
        "xplane",
        planes,
        errors=tuple(reading.texts[_ERROR]),
        warnings=tuple(reading.texts[_WARNING]),
        hostnames=tuple(reading.texts[_HOSTNAME]),
        notes=tuple(reading.notes),
        programs=partial(_programs, planes),
        is_whole=reading.cut is None,
    )


def _corrupt(name: str, error: wire.WireError) -> HloError:
    what = "truncated" if error.is_truncated else "corrupt"
    return HloError(f"{name} is a {what} profiler trace (at byte {error.at:,})", hint=_RECORD_AGAIN)


def _programs(planes: Sequence[Plane]) -> Sequence[TracedProgram]:
    """The programs; the id of the metadata is that of the program only if no statistic tells it."""
    programs = []
    for plane in planes:
        if plane.name != PROGRAMS:
            continue
        for kind in plane.kinds.values():
            proto = kind.statistics.get("Hlo Proto", kind.statistics.get("hlo_proto"))
            if isinstance(proto, bytes):
                id = kind.statistics.get("program_id", kind.id)
                programs.append(TracedProgram((id if isinstance(id, int) else kind.id) & _UNSIGNED, kind.name, proto))
    return programs


class _Reading:
    """The top of a file: its planes, its texts, and where it is cut."""

    def __init__(self, data: Buffer, name: str) -> None:
        self.data, self.name = data, name
        self.reader = Reader(data)
        self.planes: list[_PlaneSpans] = []
        self.texts: dict[int, list[str]] = {_ERROR: [], _WARNING: [], _HOSTNAME: []}
        self.notes: list[str] = []
        self.cut: wire.WireError | None = None
        self.origin_ns = 0
        self._lines = 0

    def read(self) -> None:
        at, end = 0, len(self.data)
        while at < end and self.cut is None:
            try:
                tag, value, stop = wire.field_span_at(self.data, at, end)
                self.count(at)
            except wire.WireError as error:
                self.cut = error
                tag, value, stop = self._rest(at, end)
            if tag == _PLANE:
                self._add(_PlaneSpans(self, value, stop))
            elif tag in self.texts and len(self.texts[tag]) < MAX_TEXTS:
                self.texts[tag].append(_text(self.data, value, stop))
            at = stop
        if self.cut is not None and not self.notes:
            what = "truncated" if self.cut.is_truncated else "corrupt"
            self.notes.append(f"{self.name} is {what} at byte {self.cut.at:,}; what follows is omitted")
        far = [line.numbers[_TIMESTAMP] for plane in self.planes for line in plane.lines]
        self.origin_ns = min((origin for origin in far if origin > _FAR), default=0)

    def count(self, at: int) -> None:
        """Counts a plane or a line; WireError if there are too many."""
        self._lines += 1
        if self._lines > MAX_LINES:
            raise wire.WireError("too many lines", at)

    def _rest(self, at: int, end: int) -> wire.FieldSpan:
        """The last plane of a truncated file, up to the end of the file."""
        try:
            tag, value = wire.number_at(self.data, at, end)
            if tag == _PLANE and self.cut is not None and self.cut.is_truncated:
                return tag, wire.number_at(self.data, value, end)[1], end
        except wire.WireError:
            pass
        return 0, at, end

    def _add(self, plane: _PlaneSpans) -> None:
        """Keeps a plane; of a damaged one the lines before, unless their events have no names."""
        self.cut = plane.cut or self.cut
        if self.cut is None:
            self.planes.append(plane)
            return
        what = "truncated" if self.cut.is_truncated else "corrupt"
        shown = f"plane {plane.name}" if plane.name else "a plane"
        if plane.kinds or plane.statistics:
            self.planes.append(plane)
            self.notes.append(f"{self.name} is {what} at byte {self.cut.at:,}; {shown} is incomplete")
        else:
            # The names of a plane's events follow all of its events.
            events = sum(len(line.events) for line in plane.lines)
            missing = f": the names of its {counted(events, 'events')} are missing" if events else ""
            self.notes.append(f"{self.name} is {what} at byte {self.cut.at:,}; {shown} is omitted{missing}")


class _PlaneSpans:
    """Where a plane has its parts; they are read when asked for."""

    def __init__(self, reading: _Reading, start: int, end: int) -> None:
        self.reading, self.data = reading, reading.data
        self.id, self.name = 0, ""
        self.lines: list[_LineSpans] = []
        self.kinds, self.statistic_names, self.statistics = array("q"), array("q"), array("q")
        self.cut: wire.WireError | None = None
        try:
            self._read(start, end)
        except wire.WireError as error:
            self.cut = error

    def _read(self, start: int, end: int) -> None:
        spans = {_KIND: self.kinds, _STATISTIC_NAME: self.statistic_names, _STATISTIC: self.statistics}
        for count, (tag, value, stop) in enumerate(wire.field_spans(self.data, start, end)):
            if count > 2 * MAX_ENTRIES:
                raise wire.WireError("too many fields", value)
            if tag == _LINE:
                self.reading.count(value)
                self.lines.append(_LineSpans(self.data, value, stop))
            elif tag in spans:
                spans[tag].extend((value, stop))
                if len(spans[tag]) > 2 * MAX_ENTRIES:
                    raise wire.WireError("too many fields", value)
            elif tag == _ID:
                self.id = wire.signed(value)
            elif tag == _NAME:
                self.name = _text(self.data, value, stop)

    def plane(self) -> Plane:
        """The plane, whose lines share what they have read."""
        origin_ns = self.reading.origin_ns
        lines: list[Line] = []
        plane = Plane(self.id, self.name, lines, self._event_metadata, self._own_statistics)
        lines += [
            Line(
                wire.signed(line.numbers[_ID]),
                line.texts[_NAME],
                partial(self._events, line),
                kinds=lambda: plane.kinds,
                display_id=wire.signed(line.numbers[_DISPLAY_ID]),
                display_name=line.texts[_DISPLAY_NAME],
                timestamp_ns=wire.signed(line.numbers[_TIMESTAMP]),
                duration_ps=wire.signed(line.numbers[_LINE_DURATION]),
                origin_ns=origin_ns if origin_ns <= line.numbers[_TIMESTAMP] <= _UNSIGNED >> 1 else 0,
            )
            for line in self.lines
        ]
        return plane

    def _guard(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except wire.WireError as error:
            raise _corrupt(self.reading.name, error) from None

    @cached_property
    def _names(self) -> Names:
        return _read_names(self.reading.reader, self.statistic_names)

    def _event_metadata(self) -> Mapping[int, EventMetadata]:
        return self._guard(lambda: _read_kinds(self.reading.reader, self.kinds, self._names))

    def _own_statistics(self) -> Mapping[str, Value]:
        def read() -> Mapping[str, Value]:
            if not self.statistics:
                return {}
            spans = np.frombuffer(self.statistics, np.int64).reshape(-1, 2)
            statistics = read_statistics(self.reading.reader, spans[:, 0], spans[:, 1])
            values = values_of(self.data, statistics, self._names)
            named = zip(map(self._names.get, statistics.ids.tolist()), values, strict=True)
            return {name: value for name, value in named if name is not None and value is not None}

        return self._guard(read)

    def _events(self, line: _LineSpans) -> Events:
        return self._guard(lambda: _read_events(self.reading.reader, line.events, self._names))


class _LineSpans:
    """Where the events of a line are, and what it has besides."""

    def __init__(self, data: Buffer, start: int, end: int) -> None:
        self.numbers = {_ID: 0, _TIMESTAMP: 0, _LINE_DURATION: 0, _DISPLAY_ID: 0}
        self.texts = {_NAME: "", _DISPLAY_NAME: ""}
        others: dict[int, wire.FieldSpan] = {}
        self.events = _find_events(data, start, end, others)
        for tag, value, stop in others.values():
            if tag in self.numbers:
                self.numbers[tag] = value
            elif tag in self.texts:
                self.texts[tag] = _text(data, value, stop)


def _text(data: Buffer, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "replace")
