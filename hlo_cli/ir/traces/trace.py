"""A profiler's trace: planes (devices, hosts) of lines (streams, threads) of events, with statistics.

Mirrors tsl/profiler/protobuf/xplane.proto. Traces of other profilers are brought into the same form. The events of a
line are columns, because a trace has millions: one array for each number, and statistics as codes into their distinct
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hlo_cli.dataclass import brief_name, dataclass

Value: TypeAlias = int | float | str | bytes
"""The value of a statistic; a reference to a name is that name, and what is not UTF-8 in a text is U+FFFD."""
Integers: TypeAlias = NDArray[np.int64]
PS: Final = 1e-12
"""Seconds of a picosecond."""
PS_PER_NS: Final = 1000  # lines of an xplane begin in nanoseconds, events count picoseconds from there
ABSENT: Final = -1
"""The code of an event without the statistic."""
_UNSIGNED: Final = (1 << 64) - 1  # more picoseconds passed since 1970 than 64 bits hold: sums wrap around, as in C++


Integer = TypeVar("Integer", bound="np.integer[Any]")
_DENSE: Final = 4
"""Values in a range of at most so many times their number are counted in a table, which is faster than a sort."""


def distinct_of(values: NDArray[Integer]) -> tuple[NDArray[Integer], Integers]:
    """The distinct values in order, and the index of each value among them.

    >>> [each.tolist() for each in distinct_of(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if not len(values):
        return values, np.zeros(0, np.int64)
    low, high = values.min(), values.max()
    width = int(high) - int(low)
    if width > _DENSE * len(values) + 1000:  # a small table is always faster than a sort
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes.astype(np.int64, copy=False)
    places = (values - low).astype(np.int64, copy=False)
    present = np.zeros(width + 1, np.bool_)
    present[places] = True
    return np.flatnonzero(present).astype(values.dtype) + low, (np.cumsum(present) - 1)[places]


def first_places(codes: Integers, count: int) -> Integers:
    """Where each of `count` codes occurs first; each occurs.

    >>> first_places(np.array([1, 0, 1]), 2).tolist()
    [1, 0]
    """
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several, the last assignment counts
    return first


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """One statistic of all events of a line: `values[codes[i]]`, or none where the code is `ABSENT`.

    >>> column = Coded(np.array([0, -1, 0]), ("fusion.1",))
    >>> column.of(0), column.of(1)
    ('fusion.1', None)
    """

    codes: Integers
    values: Sequence[Value]

    def of(self, at: int) -> Value | None:
        """The value of event `at`; None if it has none."""
        code = int(self.codes[at])
        return None if code == ABSENT else self.values[code]


@dataclass(frozen=True, slots=True)
class EventMetadata:
    """What all events of one kind share: `name`, the shorter `display_name`, and statistics.

    On TPUs, `name` is the text of the whole instruction, `display_name` its name.
    """

    id: int
    name: str
    display_name: str = ""
    metadata: bytes = b""
    statistics: Mapping[str, Value] = field(default_factory=dict)
    children: tuple[int, ...] = ()

    @property
    def short_name(self) -> str:
        """The display name, or the name if it has none."""
        return self.display_name or self.name


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of a line, in the order of the file.

    `kinds` are ids of `EventMetadata`; `offsets_ps` count from the begin of the line. An event with `occurrences`,
    which are 0 elsewhere, is the sum of that many, without a time. `statistic` returns the events' own statistic of a
    name; `statistics_of` all own statistics of one event, in the order of the file, where a name may occur twice.
    """

    kinds: Integers
    offsets_ps: Integers
    durations_ps: Integers
    occurrences: Integers
    statistic: Callable[[str], Coded]
    statistics_of: Callable[[int], Sequence[tuple[str, Value]]]

    def __len__(self) -> int:
        return len(self.kinds)


class Line:
    """A line of a plane: a thread, a stream, or a kind of steps. Events are read when they are first asked for."""

    def __init__(
        self,
        id: int,
        name: str,
        read: Callable[[], Events],
        *,
        kinds: Callable[[], Mapping[int, EventMetadata]],
        display_id: int = 0,
        display_name: str = "",
        timestamp_ns: int = 0,
        duration_ps: int = 0,
        origin_ns: int = 0,
    ) -> None:
        self.id, self.name, self.display_id, self.display_name = id, name, display_id, display_name
        self.timestamp_ns, self.duration_ps, self.origin_ns = timestamp_ns, duration_ps, origin_ns
        self._read, self._kinds = read, kinds

    def __repr__(self) -> str:
        return f"<Line {brief_name(self.name)}>"

    @property
    def kinds(self) -> Mapping[int, EventMetadata]:
        """The metadata of its events by id."""
        return self._kinds()

    @cached_property
    def events(self) -> Events:
        """All events; HloError if the file is corrupt here."""
        return self._read()

    @cached_property
    def begins_ps(self) -> Integers:
        """When each event begins, in picoseconds of the clock of its plane.

        They count from `origin_ns`, which is 0 unless the clock counts from 1970, since when more picoseconds passed
        than 64 bits hold. Times of two lines can be compared if their origins are equal. What still exceeds 64 bits
        wraps around.
        """
        begin = (self.timestamp_ns - self.origin_ns) * PS_PER_NS & _UNSIGNED
        return (self.events.offsets_ps.view(np.uint64) + np.uint64(begin)).view(np.int64)

    def forget(self) -> None:
        """Frees the memory of the events, which are read again when they are next asked for."""
        for name in ("events", "begins_ps"):
            self.__dict__.pop(name, None)

    def statistic(self, name: str) -> Coded:
        """A statistic of all events: their own, else that of their kind."""
        own = self.events.statistic(name)
        missing = own.codes == ABSENT
        if not missing.any():
            return own
        kinds = self._kinds()
        if not any(name in kind.statistics for kind in kinds.values()):
            return own
        distinct, inverse = distinct_of(self.events.kinds[missing])
        values = list(own.values)
        codes_of_kinds = np.full(len(distinct), ABSENT, np.int64)
        for index, kind in enumerate(distinct.tolist()):
            value = kinds[kind].statistics.get(name) if kind in kinds else None
            if value is not None:
                codes_of_kinds[index] = len(values)
                values.append(value)
        codes = own.codes.copy()
        codes[missing] = codes_of_kinds[inverse]
        return Coded(codes, values)


class Plane:
    """A device or a host: `kinds` are the events' metadata by id. What is costly is read when asked for."""

    def __init__(
        self,
        id: int,
        name: str,
        lines: Sequence[Line],
        kinds: Callable[[], Mapping[int, EventMetadata]],
        statistics: Callable[[], Mapping[str, Value]] = dict,
    ) -> None:
        self.id, self.name, self.lines = id, name, lines
        self._kinds, self._statistics = kinds, statistics

    def __repr__(self) -> str:
        return f"<Plane {brief_name(self.name)}>"

    @cached_property
    def kinds(self) -> Mapping[int, EventMetadata]:
        """The metadata of events by id."""
        return self._kinds()

    @cached_property
    def statistics(self) -> Mapping[str, Value]:
        """The statistics of the plane, such as the peak rates of the device."""
        return self._statistics()


@dataclass(frozen=True, slots=True, eq=False)
class TracedProgram:
    """A program that a trace contains: its id as unsigned 64-bit integer, its name, and the bytes of its `HloProto`."""

    id: int
    name: str
    proto: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One file of a profiler: `errors` and `warnings` are its own, `notes` what the reader had to leave out.

    `programs` reads the programs that it contains; `format` is the name of the format in words. A truncated or damaged
    file `is_whole` no longer.
    """

    name: str
    format: str
    planes: Sequence[Plane]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    programs: Callable[[], Sequence[TracedProgram]] = tuple
    is_whole: bool = True

    def forget(self) -> None:
        """Frees the memory of all events, which are read again when they are next asked for."""
        for plane in self.planes:
            for line in plane.lines:
                line.forget()

    @property
    def event_count(self) -> int:
        """The number of events of all lines, which are read for it."""
        return sum(len(line.events) for plane in self.planes for line in plane.lines)

    def plane(self, name: str) -> Plane | None:
        """The first plane of a name."""
        return next((plane for plane in self.planes if plane.name == name), None)
