"""The events of a line of an xplane: their numbers as columns, their statistics compact until a name is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli import wire
from hlo_cli.ir.traces.trace import ABSENT, Coded, Events, Integers, Value
from hlo_cli.syntax.traces.columns import CHUNK, Fields, Reader, Words

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

MAX_EVENTS: Final = 1 << 26
"""The most events of a line."""
_EVENT: Final = 0x22
_KIND, _OFFSET, _DURATION, _OCCURRENCES, _STATISTIC = 0x08, 0x10, 0x18, 0x28, 0x22
_ID: Final = 0x08
DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE = 0x11, 0x18, 0x20, 0x2A, 0x32, 0x38
_BLOCK: Final = 1 << 10
_DENSE: Final = 4


def find_events(data: Buffer, at: int, end: int, others: list[wire.Field]) -> array[int]:
    """Where the events of a line have their tags; its other fields are added to `others`.

    CorruptError where the line cannot be read.
    """
    found = array("q")
    add, last = found.append, end - 2
    while at < end:
        if at < last and data[at] == _EVENT:
            length, second = data[at + 1], data[at + 2]
            if length < 128:
                add(at)
                at += length + 2
                continue
            if second < 128:
                add(at)
                at += (second << 7) + length - 125
                continue
        field = wire.field_at(data, at, end)
        if field[0] == _EVENT:
            add(at)
        else:
            others.append(field)
        at = field[2]
    if at > end:
        raise wire.CorruptError(found[-1], is_truncated=True)
    if len(found) > MAX_EVENTS:
        raise wire.CorruptError(found[MAX_EVENTS])
    return found


def read_events(reader: Reader, tags_at: array[int], names: Names) -> Events:
    """The events with tags at some offsets; `names` are those of statistics. CorruptError if one cannot be read."""
    starts, ends = reader.spans(np.frombuffer(tags_at, np.int64))
    columns = np.zeros((4, len(starts)), np.int64)
    counts = np.zeros(len(starts) + 1, np.int64)
    pieces: list[Statistics] = []
    for first in range(0, len(starts), CHUNK):
        part = slice(first, first + CHUNK)
        found = reader.fields(starts[part], ends[part])
        _fill(columns[:, part], found)
        own = found.select(_STATISTIC)
        if len(own.owners):
            counts[1:][part] += np.bincount(own.owners, minlength=len(starts[part]))
            pieces.append(read_statistics(reader, own.values.view(np.int64), own.ends))
    own_statistics = OwnStatistics(reader.data, np.cumsum(counts), Statistics.joined(pieces), names)
    kinds, offsets, durations, occurrences = columns
    return Events(kinds, offsets, durations, occurrences, own_statistics.of, own_statistics.at)


def _fill(columns: Integers, found: Fields) -> None:
    """Sets the numbers of events. Offset and number of occurrences exclude each other: the later one counts."""
    for tag, row in ((_KIND, 0), (_DURATION, 2)):
        chosen = found.tags == tag
        columns[row, found.owners[chosen]] = found.values[chosen].view(np.int64)
    times = found.tags == _OFFSET
    sums = found.tags == _OCCURRENCES
    columns[1, found.owners[times]] = found.values[times].view(np.int64)
    if sums.any():
        columns[3, found.owners[sums]] = found.values[sums].view(np.int64)
        either = np.flatnonzero(times | sums)
        last = np.zeros(columns.shape[1], np.uint8)
        last[found.owners[either]] = found.tags[either]
        columns[1, last == _OCCURRENCES] = 0
        columns[3, last == _OFFSET] = 0


class Statistics:
    """Statistics as four columns: id of the name, tag of the value, its bits or its place, and the length of a text.

    The tag is 0 if there is no value.
    """

    __slots__ = ("ids", "lengths", "tags", "values")

    def __init__(
        self, ids: Integers | NDArray[np.int32], tags: NDArray[np.uint8], values: Words, lengths: NDArray[np.uint32]
    ) -> None:
        self.ids, self.tags, self.values, self.lengths = ids, tags, values, lengths

    @staticmethod
    def joined(pieces: list[Statistics]) -> Statistics:
        """One after the other; the pieces are used up."""
        if not pieces:
            none = np.zeros(0, np.int64)
            return Statistics(none, none.astype(np.uint8), none.astype(np.uint64), none.astype(np.uint32))
        columns = []
        for name in ("ids", "tags", "values", "lengths"):
            columns.append(np.concatenate([getattr(piece, name) for piece in pieces]))
            for piece in pieces:
                delattr(piece, name)
        return Statistics(*columns)


def read_statistics(reader: Reader, starts: Integers, ends: Integers) -> Statistics:
    """The statistics between some offsets; the last of several values counts."""
    count = len(starts)
    ids = np.zeros(count, np.int64)
    tags = np.zeros(count, np.uint8)
    values = np.zeros(count, np.uint64)
    lengths = np.zeros(count, np.uint32)
    found, keys, left = reader.pairs(starts, ends)
    ids[found.owners] = keys.view(np.int64)
    rest = reader.fields(starts[left], ends[left]) if len(left) else found.at(found.tags == 0)
    is_id = rest.tags == _ID
    ids[left[rest.owners[is_id]]] = rest.values[is_id].view(np.int64)
    for part, owners in ((found, found.owners), (rest, left[rest.owners])):
        valued = _IS_VALUE[part.tags]
        tags[owners[valued]] = part.tags[valued]
        values[owners[valued]] = part.values[valued]
        is_long = (part.tags == TEXT) | (part.tags == BYTES)
        if is_long.any():
            spans = part.ends[is_long] - part.values[is_long].view(np.int64)
            lengths[owners[is_long]] = np.minimum(spans, 0xFFFFFFFF).astype(np.uint32)
    small = ids.astype(np.int32)
    return Statistics(small if np.array_equal(small, ids) else ids, tags, values, lengths)


_IS_VALUE: Final = np.isin(np.arange(256), (DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE))
_IS_OTHER: Final = np.isin(np.arange(256), (0, DOUBLE, TEXT, BYTES))


def values_of(data: Buffer, found: Statistics, names: Mapping[int, str]) -> list[Value | None]:
    """The values of statistics, None where there is none."""
    values: list[Value | None] = found.values.view(np.int64).tolist()
    for at in np.flatnonzero(found.tags == REFERENCE).tolist():
        values[at] = names.get(values[at], "")  # type: ignore[arg-type]
    large = (found.tags == UNSIGNED) & (found.values >> np.uint64(63) != 0)
    for at in np.flatnonzero(large | _IS_OTHER[found.tags]).tolist():
        tag, bits = int(found.tags[at]), int(found.values[at])
        if tag == UNSIGNED:
            values[at] = bits
        elif tag == DOUBLE:
            values[at] = float(found.values[at : at + 1].view(np.float64)[0])
        elif tag == 0:
            values[at] = None
        else:
            text = data[bits : bits + int(found.lengths[at])]
            values[at] = text if tag == BYTES else text.decode("utf-8", "replace")
    return values


class Names(dict[int, str]):
    """The names of statistics by id; a text that statistics refer to is among them."""

    def __init__(self, *given: Iterable[tuple[int, str]]) -> None:
        super().__init__(*given)
        self._ids: dict[str, list[int]] = {}

    def ids_of(self, name: str) -> Sequence[int]:
        """The ids of a name; nothing may be added afterwards."""
        if not self._ids:
            for id, each in self.items():
                self._ids.setdefault(each, []).append(id)
        return self._ids.get(name, ())


class OwnStatistics:
    """The own statistics of the events of a line: those of event i are from `firsts[i]` to `firsts[i + 1]`."""

    def __init__(self, data: Buffer, firsts: Integers, found: Statistics, names: Names) -> None:
        self._data, self._firsts, self._found, self._names = data, firsts, found, names
        self._block = -1
        self._values: list[Value | None] = []
        self._labels: list[str | None] = []

    def at(self, event: int) -> Sequence[tuple[str, Value]]:
        """The statistics of an event, by name; those without a name or a value are left out."""
        if event < 0 or event + 1 >= len(self._firsts):
            raise IndexError(event)
        block = event // _BLOCK
        first = int(self._firsts[block * _BLOCK])
        if block != self._block:
            stop = int(self._firsts[min((block + 1) * _BLOCK, len(self._firsts) - 1)])
            part = _slice(self._found, first, stop)
            self._values = values_of(self._data, part, self._names)
            self._labels = list(map(self._names.get, part.ids.tolist()))
            self._block = block
        low, high = int(self._firsts[event]) - first, int(self._firsts[event + 1]) - first
        pairs = zip(self._labels[low:high], self._values[low:high], strict=True)
        return [(name, value) for name, value in pairs if name is not None and value is not None]

    def of(self, name: str) -> Coded:
        """The statistic of a name; of several in one event, the last."""
        codes = np.full(len(self._firsts) - 1, ABSENT, np.int64)
        values: list[Value] = []
        ids = self._names.ids_of(name)
        chosen = self._found.ids == ids[0] if len(ids) == 1 else np.isin(self._found.ids, ids)
        at = np.flatnonzero(chosen & (self._found.tags != 0)) if ids else np.zeros(0, np.int64)
        if len(at):
            owners = np.searchsorted(self._firsts, at, side="right") - 1
            codes[owners], values = self._coded(at)
        return Coded(codes, values)

    def _coded(self, at: Integers) -> tuple[Integers, list[Value]]:
        """Codes of some statistics into their distinct values."""
        tags = self._found.tags[at]
        codes = np.zeros(len(at), np.int64)
        values: list[Value] = []
        for tag in np.flatnonzero(np.bincount(tags)).tolist():
            here = np.flatnonzero(tags == tag) if tags[0] != tag or tags.min() != tags.max() else slice(None)
            if tag in (TEXT, BYTES):
                found, own = self._coded_text(at[here], tag)
            else:
                distinct, found = distinct_of(self._found.values[at[here]])
                nothing = np.zeros(len(distinct), np.uint32)
                tags_of = np.full(len(distinct), tag, np.uint8)
                part = Statistics(nothing.astype(np.int64), tags_of, distinct, nothing)
                own = [value for value in values_of(self._data, part, self._names) if value is not None]
            codes[here] = found + len(values)
            values += own
        return codes, values

    def _coded_text(self, at: Integers, tag: int) -> tuple[Integers, list[Value]]:
        data, known = self._data, dict[bytes, int]()
        starts = self._found.values[at].view(np.int64)
        ends = starts + self._found.lengths[at]
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        codes = np.fromiter((known.setdefault(data[a:b], len(known)) for a, b in pairs), np.int64, len(at))
        return codes, [each.decode("utf-8", "replace") if tag == TEXT else each for each in known]


def distinct_of(values: Words) -> tuple[Words, Integers]:
    """The distinct values in order, and the index of each value among them; no sort if they are close together."""
    low, high = values.min(), values.max()
    width = int(high) - int(low)
    if width > _DENSE * len(values) + 1000:
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes.astype(np.int64, copy=False)
    places = (values - low).astype(np.int64)
    present = np.zeros(width + 1, np.bool_)
    present[places] = True
    return np.flatnonzero(present).astype(np.uint64) + low, (np.cumsum(present) - 1)[places]


def _slice(found: Statistics, first: int, stop: int) -> Statistics:
    part = slice(first, stop)
    return Statistics(found.ids[part], found.tags[part], found.values[part], found.lengths[part])
