"""Reads `*.trace.json`, which profilers write for the trace viewer and for Perfetto, event by event.

Mirrors xla/tsl/profiler/convert/trace_events_to_json.cc. All statistics are texts there; those known to be numbers
become numbers. Times are microseconds with decimals, of which no picosecond is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from hlo_cli.ir.traces.trace import PS_PER_NS, Plane, Trace, Value
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.traces.builder import PlaneBuilder, Texts, origin_ps, printable

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

LIMITS: Final = (1_000_000, 5_000_000)
"""The most events that XLA writes, before 2025 and since."""
_PIECE: Final = 1 << 20  # decoded at once: files of many GB are read without a copy of them
_BETWEEN: Final = re.compile(r"[ \t\r\n,]*")
_FAR: Final = 9 * 10**12
"""Microseconds: a clock beyond counts since 1970, and its picoseconds have more than 64 bits."""
_EXACT: Final = 10  # with fewer digits before the point, a float64 of microseconds is exact to the picosecond
_PS_PER_US: Final = 10**6  # the trace event format counts microseconds, traces picoseconds
_BYTE_ORDER_MARK: Final = "\ufeff"
# phases of the trace event format that are no complete events: metadata, flows, counters, and more
_IGNORED: Final = frozenset("CMPstfabenNODSTFRcv(){}=")
"""Phases without a duration: counters, flows, asynchronous events, marks."""


def is_json(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a trace in JSON.

    >>> is_json(b'{"displayTimeUnit":"ns"'), is_json(b'[{"ph":'), is_json(bytes((10, 123, 18)))
    (True, True, False)
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb'[{\[]\s*(?:[{"\]}]|\Z)', text) is not None


def read_trace_json(data: Buffer, name: str) -> Trace:
    """Reads a trace, also one that is truncated; HloError if it holds no events."""
    events = _Events()
    cursor = _Cursor(data)
    damage = None
    try:
        cursor.read(events)
    except (ValueError, RecursionError):  # a truncated file: what was read before is a trace
        damage = cursor.offset
    if damage is not None and not events.count:
        raise HloError(f"{name} is a corrupt trace in JSON (at byte {damage:,})", hint="record it again")
    if not events.count and not events.was_list:
        raise HloError(
            f"{name} is JSON without traceEvents", hint="pass the *.xplane.pb or *.trace.json.gz of a profiler"
        )
    notes = []
    if damage is not None:
        notes.append(f"{name} is truncated or corrupt at byte {damage:,}; events after it are omitted")
    if events.count in LIMITS:
        notes.append(f"{name} has {events.count:,} events, the limit of the format; others are probably missing")
    if events.unread:
        notes.append(f"omitted {counted(events.unread, 'events')} of {name} without a valid time")
    return Trace(name, "trace.json", events.planes(), notes=tuple(notes))


class _Float(str):
    """The digits of a number that is not an integer."""

    __slots__ = ()


class _Cursor:
    """Walks through JSON by decoding a piece of the file at a time."""

    def __init__(self, data: Buffer) -> None:
        self._data, self._next, self._size = data, 0, _PIECE
        self._text, self._at = "", 0
        self._base = 0
        self._rest = b""
        self._decode = json.JSONDecoder(parse_float=_Float).raw_decode

    @property
    def offset(self) -> int:
        """The byte at which the next value begins."""
        return self._base + len(self._text[: self._at].encode())

    def read(self, events: _Events) -> None:
        """Adds all events; ValueError where the text is not JSON."""
        self._extend()
        self._text = self._text.removeprefix(_BYTE_ORDER_MARK)
        opening = self._peek()
        self._at += 1
        if opening == "[":
            self._read_list(events)
            return
        if opening != "{":
            raise ValueError
        while self._peek() != "}":
            key = self._value()
            if self._peek() != ":":
                raise ValueError
            self._at += 1
            if key == "traceEvents" and self._peek() == "[":
                self._at += 1
                self._read_list(events)
            else:
                self._value()

    def _read_list(self, events: _Events) -> None:
        events.was_list = True
        while self._peek() != "]":
            event = self._value()
            if isinstance(event, dict):
                events.add(event)
            if self._text.startswith(",{", self._at):
                self._at += 1
                self._read_run(events)
        self._at += 1

    def _read_run(self, events: _Events) -> None:
        """Adds the events of a piece that follow each other without white space, which is the most common form."""
        text, at, decode, add = self._text, self._at, self._decode, events.add
        with suppress(ValueError):  # the last one goes on in the next piece, or is damaged
            while True:
                event, end = decode(text, at)
                add(event)
                self._at = end
                if not text.startswith(",{", end):
                    break
                at = end + 1

    def _peek(self) -> str:
        """The next character that is not white space or a comma; ValueError at the end."""
        while True:
            match = _BETWEEN.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._extend():
                raise ValueError

    def _value(self) -> Any:
        """The next value; one that is longer than the piece makes the piece longer."""
        while True:
            self._peek()
            try:
                value, at = self._decode(self._text, self._at)
            except ValueError:  # the value may go on in the next piece
                if not self._extend():
                    raise
                continue
            if at == len(self._text) and isinstance(value, int | str) and self._extend():
                continue  # a number may go on
            self._at = at
            return value

    def _extend(self) -> bool:
        """Reads the next piece; False at the end of the file."""
        if self._next >= len(self._data):
            return False
        self._base = self.offset
        kept = self._text[self._at :]
        self._size = max(_PIECE, len(kept))
        raw = self._rest + self._data[self._next : self._next + self._size]
        self._next += self._size
        cut = _end_of_characters(raw) if self._next < len(self._data) else len(raw)
        self._text, self._at, self._rest = kept + raw[:cut].decode("utf-8", "replace"), 0, raw[cut:]
        return True


def _end_of_characters(raw: bytes) -> int:
    """Where the last whole character ends, in at most three bytes from the end."""
    for back in range(1, min(4, len(raw) + 1)):
        byte = raw[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:  # the first byte of a character of UTF-8 that the piece has cut
            return len(raw) - back
    return len(raw)


class _Events:
    """Collects events by process and thread, whose names may come later."""

    def __init__(self) -> None:
        self.count = self.unread = 0
        self.was_list = False
        self._texts = Texts()
        self._planes: dict[object, PlaneBuilder] = {}
        self._names: dict[object, str] = {}
        self._origin_ps: int | None = None

    def add(self, event: Mapping[str, Any]) -> None:
        """Adds an event of the list; other phases than complete ones name things or have no duration."""
        phase = event.get("ph")
        if phase == "M":
            self._name(event)
        elif phase == "X" or phase in ("I", "i"):
            self.count += 1
            self._add(event)
        elif event and phase not in _IGNORED:
            self.unread += 1

    def _name(self, event: Mapping[str, Any]) -> None:
        args = event.get("args")
        name = args.get("name") if isinstance(args, dict) else None
        if isinstance(name, str):
            pid, tid = _id(event.get("pid")), _id(event.get("tid"))
            if event.get("name") == "process_name":
                self._names[pid] = printable(name)
            elif event.get("name") == "thread_name":
                self._names[pid, tid] = printable(name)

    def _add(self, event: Mapping[str, Any]) -> None:
        pid, tid = _id(event.get("pid")), _id(event.get("tid"))
        plane = self._planes.get(pid)
        if plane is None:
            plane = self._planes[pid] = PlaneBuilder(pid if isinstance(pid, int) else 0, "", self._texts)
        line = plane.lines.get(tid) or plane.line(tid, tid if isinstance(tid, int) else 0)
        args = event.get("args")
        own: dict[str, Value] = args if isinstance(args, dict) else {}
        for key, value in own.items():
            if type(value) is not str and type(value) is not int:
                own[key] = _value(value)
        full = own.pop("long_name", None)
        name = _text(event.get("name"))
        kind = plane.kinds.id_of(full, name) if isinstance(full, str) else plane.kinds.id_of(name)
        try:
            begin, duration = picoseconds(event["ts"]), picoseconds(event.get("dur", 0))
            duration = 0 if duration == 1 else duration  # the least that is written
            line.add(kind, begin - self._origin(begin), duration, own)
        except (KeyError, OverflowError, ValueError):
            self.unread += 1

    def _origin(self, begin_ps: int) -> int:
        """What times count from: 0, or the begin of the first event if that counts from 1970."""
        if self._origin_ps is None:
            self._origin_ps = origin_ps(begin_ps, _FAR * _PS_PER_US)
        return self._origin_ps

    def planes(self) -> list[Plane]:
        """The planes, with the names of processes and threads."""
        for pid, plane in self._planes.items():
            plane.name = self._names.get(pid, "")
            for tid, line in plane.lines.items():
                line.name = self._names.get((pid, tid), "")
        return [plane.plane((self._origin_ps or 0) // PS_PER_NS) for plane in self._planes.values()]


def picoseconds(us: object) -> int:
    """Microseconds as an integer or a text in decimals, exactly; ValueError if it is not a number.

    >>> picoseconds("29.524999999999999"), picoseconds("1795453653675443.111111"), picoseconds(3)
    (29525000, 1795453653675443111111, 3000000)
    """
    if isinstance(us, int):
        return us * _PS_PER_US
    if not isinstance(us, str):
        raise ValueError
    if us.find(".") < _EXACT or "e" in us or "E" in us:
        return round(float(us) * _PS_PER_US)
    try:
        return int((Decimal(us) * _PS_PER_US).to_integral_value())
    except InvalidOperation:
        raise ValueError from None


def _value(value: object) -> Value:
    """A statistic that is no text or integer: a float, or its JSON."""
    return float(value) if isinstance(value, _Float | float) else json.dumps(value)


def _id(value: object) -> object:
    return value if isinstance(value, int | str) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
