"""Writes traces in the format of tsl/profiler/protobuf/xplane.proto: `File`, with planes of lines of events."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Unsigned:
    """A statistic that is written as unsigned integer; plain ones are signed."""

    value: int


@dataclass(frozen=True)
class Reference:
    """A statistic that is written as reference to the name of another one."""

    name: str


Statistic = int | float | str | bytes | Unsigned | Reference


def varint(value: int) -> bytes:
    """An integer on the wire; negative ones take ten bytes."""
    value &= _MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(tag: int, value: int) -> bytes:
    """A field that holds an integer; nothing for 0."""
    return varint(tag << 3) + varint(value) if value else b""


def chunk(tag: int, value: bytes | str) -> bytes:
    """A field that holds bytes, text, or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(data)) + data


@dataclass(frozen=True)
class Event:
    """An event of a kind; times count in picoseconds from the begin of its line."""

    kind: int
    offset_ps: int
    duration_ps: int
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    occurrences: int = 0


@dataclass
class PlaneWriter:
    """Collects the kinds and the lines of one plane."""

    name: str
    id: int = 0
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)

    def kind(
        self,
        name: str,
        display_name: str = "",
        statistics: Mapping[str, Statistic] | None = None,
        *,
        id: int | None = None,
        key: str = "",
    ) -> int:
        """The id of a kind of events, which is written when it is first asked for; `key` tells apart equal names."""
        known = self.kinds.get((name, key))
        if known is not None:
            return known
        id = len(self.kinds) + 1 if id is None else id
        self.kinds[name, key] = id
        data = number(1, id) + chunk(2, name) + (chunk(4, display_name) if display_name else b"")
        data += self._statistics(5, statistics or {})
        self.parts.append(chunk(4, number(1, id) + chunk(2, data)))
        return id

    def line(self, name: str, events: Iterable[Event], *, id: int = 1, timestamp_ns: int = 0) -> None:
        """Adds a line."""
        data = number(1, id) + chunk(2, name) + number(3, timestamp_ns)
        for event in events:
            times = number(5, event.occurrences) if event.occurrences else number(2, event.offset_ps)
            body = number(1, event.kind) + times + number(3, event.duration_ps)
            data += chunk(4, body + self._statistics(4, event.statistics))
        self.parts.append(chunk(3, data))

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names) + 1)

    def _statistics(self, tag: int, statistics: Mapping[str, Statistic]) -> bytes:
        return b"".join(chunk(tag, number(1, self._name(name)) + self._value(v)) for name, v in statistics.items())

    def _value(self, value: Statistic) -> bytes:
        match value:
            case Unsigned(whole):
                return varint(3 << 3) + varint(whole)
            case Reference(name):
                return varint(7 << 3) + varint(self._name(name))
            case float():
                return varint(2 << 3 | 1) + struct.pack("<d", value)
            case int():
                return varint(4 << 3) + varint(value)
            case str():
                return chunk(5, value)
            case _:
                return chunk(6, value)

    def content(self) -> bytes:
        """The message of the plane."""
        own = self._statistics(6, self.statistics)
        names = [chunk(5, number(1, id) + chunk(2, number(1, id) + chunk(2, name))) for name, id in self.names.items()]
        return number(1, self.id) + chunk(2, self.name) + b"".join([*self.parts, *names]) + own


def file_of(planes: Iterable[PlaneWriter], hostname: str = "host") -> bytes:
    """The whole file."""
    return b"".join(chunk(1, plane.content()) for plane in planes) + chunk(4, hostname)
