"""The two maps of a plane of an xplane: metadata of events, and names of statistics, each by id."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hlo_cli import wire
from hlo_cli.ir.traces.trace import EventMetadata, Integers, Value
from hlo_cli.syntax.traces.columns import CHUNK, Fields, Reader
from hlo_cli.syntax.traces.statistics import Names, read_statistics, values_of

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

_KEY, _VALUE = 0x08, 0x12
_NAME, _METADATA, _DISPLAY_NAME, _STATISTIC, _CHILD, _CHILDREN = 0x12, 0x1A, 0x22, 0x2A, 0x30, 0x32


def read_names(reader: Reader, spans: array[int]) -> Names:
    """The names of statistics by id, from the entries of their map; of several with the same id, the last."""
    names = Names()
    for entries in _entries(reader, spans):
        own = [""] * len(entries.keys)
        found = reader.fields(entries.starts, entries.ends).select(_NAME)
        for owner, start, end in zip(entries.owners_of(found), found.values.tolist(), found.ends.tolist(), strict=True):
            own[owner] = reader.data[start:end].decode("utf-8", "replace")
        names.update(zip(entries.keys, own, strict=True))
    return names


def read_kinds(reader: Reader, spans: array[int], names: Mapping[int, str]) -> Mapping[int, EventMetadata]:
    """The metadata of events by id, from the entries of their map; of several with the same id, the last."""
    known: dict[int, EventMetadata] = {}
    for entries in _entries(reader, spans):
        found = reader.fields(entries.starts, entries.ends)
        texts = {tag: [b""] * len(entries.keys) for tag in (_NAME, _METADATA, _DISPLAY_NAME)}
        children: dict[int, list[int]] = {}
        columns = (found.tags.tolist(), found.values.tolist(), found.ends.tolist())
        for owner, tag, value, end in zip(entries.owners_of(found), *columns, strict=True):
            if tag in texts:
                texts[tag][owner] = reader.data[value:end]
            elif tag == _CHILD:
                children.setdefault(owner, []).append(wire.signed(value))
            elif tag == _CHILDREN:
                children.setdefault(owner, []).extend(_packed(reader.data, value, end))
        statistics = _statistics(reader, entries, found.select(_STATISTIC), names)
        for at, key in enumerate(entries.keys):
            name, display = (texts[tag][at].decode("utf-8", "replace") for tag in (_NAME, _DISPLAY_NAME))
            known[key] = EventMetadata(
                key, name, display, texts[_METADATA][at], statistics[at], tuple(children.get(at, ()))
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

    def owners_of(self, found: Fields) -> list[int]:
        """The entries that fields of values belong to."""
        owners: list[int] = self.owners[found.owners].tolist()
        return owners


def _entries(reader: Reader, spans: array[int]) -> Iterator[_Entries]:
    both = np.array(spans, np.int64).reshape(-1, 2)  # of each entry, where it begins and ends
    for first in range(0, len(both), CHUNK):
        part = both[first : first + CHUNK]
        found = reader.fields(part[:, 0], part[:, 1])
        keys = np.zeros(len(part), np.int64)
        own = found.select(_KEY)
        keys[own.owners] = own.values.view(np.int64)
        own = found.select(_VALUE)
        yield _Entries(keys.tolist(), own.owners, own.values.view(np.int64), own.ends)


def _statistics(
    reader: Reader, entries: _Entries, found: Fields, names: Mapping[int, str]
) -> Sequence[Mapping[str, Value]]:
    statistics: list[dict[str, Value]] = [{} for _ in entries.keys]
    read = read_statistics(reader, found.values.view(np.int64), found.ends)
    labels = map(names.get, read.ids.tolist())
    for owner, name, value in zip(entries.owners_of(found), labels, values_of(reader.data, read, names), strict=True):
        if name is not None and value is not None:
            statistics[owner][name] = value
    return statistics


def _packed(data: Buffer, at: int, end: int) -> Iterator[int]:
    while at < end:
        value, at = wire.varint_at(data, at, end)
        yield wire.signed(value)
