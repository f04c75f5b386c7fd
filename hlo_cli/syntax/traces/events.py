"""The events of a line of an xplane: their numbers as columns, their statistics compact until a name is asked for."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from hlo_cli import wire
from hlo_cli.ir.traces.trace import Events, Integers
from hlo_cli.syntax.traces.columns import CHUNK, Fields, Reader
from hlo_cli.syntax.traces.statistics import Names, OwnStatistics, Statistics, read_statistics

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

MAX_EVENTS: Final = 1 << 25
"""The most events of a line."""
MAX_OTHERS: Final = 1 << 18
"""The most fields in a piece of a line that are not short events."""
_PIECE: Final = 1 << 22
"""Bytes after which the number of events is checked."""
_EVENT: Final = 0x22
_KIND, _OFFSET, _DURATION, _OCCURRENCES, _STATISTIC = 0x08, 0x10, 0x18, 0x28, 0x22


def find_events(data: Buffer, at: int, end: int, others: dict[int, wire.Field]) -> array[int]:
    """Where the events of a line have their tags; of its other fields, the last of each tag is added to `others`.

    CorruptError where the line cannot be read, or if it has too many events.
    """
    found = array("q")
    while at < end:
        if len(found) > MAX_EVENTS:
            raise wire.CorruptError(found[MAX_EVENTS])
        at = _find_some(data, at, min(end, at + _PIECE), end, found, others)
    if at > end:
        raise wire.CorruptError(found[-1], is_truncated=True)
    return found


def _find_some(data: Buffer, at: int, stop: int, end: int, found: array[int], others: dict[int, wire.Field]) -> int:
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
                at += (second << 7) + length - 125
                continue
        field = wire.field_at(data, at, end)
        if field[0] == _EVENT:
            add(wire.varint_at(data, at, end)[1] - 1)  # the last byte of a tag that may be longer than needed
        else:
            others[field[0]] = field
        at = field[2]
        count += 1
        if count > MAX_OTHERS:
            raise wire.CorruptError(at)
    return at


_NONE: Final = np.zeros(0, np.int64)
_OWN: Final = OwnStatistics(b"", np.zeros(1, np.int64), Statistics.joined([]), Names())
EMPTY: Final = Events(_NONE, _NONE, _NONE, _NONE, _OWN.of, _OWN.at)


def read_events(reader: Reader, tags_at: array[int], names: Names) -> Events:
    """The events with tags at some offsets; `names` are those of statistics. CorruptError if one cannot be read."""
    if not tags_at:
        return EMPTY
    starts, ends = reader.spans(np.frombuffer(tags_at, np.int64))
    columns = [np.zeros(len(starts), np.int64) for _ in range(4)]
    counts = np.zeros(len(starts) + 1, np.int64)
    pieces: list[Statistics] = []
    for first in range(0, len(starts), CHUNK):
        part = slice(first, first + CHUNK)
        found = reader.fields(starts[part], ends[part])
        _fill([column[part] for column in columns], found)
        own = found.select(_STATISTIC)
        if len(own.owners):
            counts[1:][part] += np.bincount(own.owners, minlength=len(starts[part]))
            pieces.append(read_statistics(reader, own.values.view(np.int64), own.ends))
    own_statistics = OwnStatistics(reader.data, np.cumsum(counts), Statistics.joined(pieces), names)
    kinds, offsets, durations, occurrences = columns
    if not occurrences.any():
        occurrences = np.broadcast_to(np.int64(0), len(starts))
    return Events(kinds, offsets, durations, occurrences, own_statistics.of, own_statistics.at)


def _fill(columns: list[Integers], found: Fields) -> None:
    """Sets the numbers of events. Offset and number of occurrences exclude each other: the later one counts."""
    for tag, row in ((_KIND, 0), (_DURATION, 2)):
        chosen = found.tags == tag
        columns[row][found.owners[chosen]] = found.values[chosen].view(np.int64)
    times = found.tags == _OFFSET
    sums = found.tags == _OCCURRENCES
    columns[1][found.owners[times]] = found.values[times].view(np.int64)
    if sums.any():
        columns[3][found.owners[sums]] = found.values[sums].view(np.int64)
        either = np.flatnonzero(times | sums)
        last = np.zeros(len(columns[0]), np.uint8)
        last[found.owners[either]] = found.tags[either]
        columns[1][last == _OCCURRENCES] = 0
        columns[3][last == _OFFSET] = 0
