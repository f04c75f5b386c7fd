"""Statistics of xplanes, compact until a name is asked for: four numbers each, and texts where they are in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.ir.traces.trace import ABSENT, Coded, Integers, Value
from hlo_cli.syntax.traces.columns import Reader, Words

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE = 0x11, 0x18, 0x20, 0x2A, 0x32, 0x38
"""The tags of values."""
Narrow = NDArray[np.signedinteger]
_ID: Final = 0x08
_BLOCK: Final = 1 << 10
_DENSE: Final = 4


class Statistics:
    """Statistics as four columns: id of the name, tag of the value, its bits or its place, and the length of a text.

    The tag is 0 if there is no value. Integers are as narrow as they can be.
    """

    __slots__ = ("ids", "lengths", "tags", "values")

    def __init__(self, ids: Narrow, tags: NDArray[np.uint8], values: Narrow, lengths: Narrow) -> None:
        self.ids, self.tags, self.values, self.lengths = ids, tags, values, lengths

    @staticmethod
    def joined(pieces: list[Statistics]) -> Statistics:
        """One after the other; the pieces are used up."""
        if not pieces:
            none = np.zeros(0, np.int64)
            return Statistics(none, none.astype(np.uint8), none, none)
        columns = []
        for name in ("ids", "tags", "values", "lengths"):
            columns.append(np.concatenate([getattr(piece, name) for piece in pieces]))
            for piece in pieces:
                delattr(piece, name)
        if not columns[3].any():  # no texts: one number for all
            columns[3] = np.broadcast_to(np.int64(0), len(columns[0]))
        return Statistics(*columns)

    def part(self, first: int, stop: int) -> Statistics:
        """Those from one place to another."""
        part = slice(first, stop)
        return Statistics(self.ids[part], self.tags[part], self.values[part], self.lengths[part])

    def bits(self, at: Integers | NDArray[np.bool_] | slice) -> Words:
        """The bits of some values."""
        return self.values[at].astype(np.int64).view(np.uint64)


def narrow(column: Integers) -> Narrow:
    """The same integers in the fewest bits.

    >>> narrow(np.array([1, -2])).dtype, narrow(np.array([1, 40_000])).dtype
    (dtype('int16'), dtype('int32'))
    """
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return column.astype(kind)
    return column


def read_statistics(reader: Reader, starts: Integers, ends: Integers) -> Statistics:
    """The statistics between some offsets; the last of several values counts."""
    count = len(starts)
    ids = np.zeros(count, np.int64)
    tags = np.zeros(count, np.uint8)
    values = np.zeros(count, np.uint64)
    lengths = np.zeros(count, np.int64)
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
            lengths[owners[is_long]] = part.ends[is_long] - part.values[is_long].view(np.int64)
    return Statistics(narrow(ids), tags, narrow(values.view(np.int64)), narrow(lengths))


_IS_VALUE: Final = np.isin(np.arange(256), (DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE))
_IS_OTHER: Final = np.isin(np.arange(256), (0, DOUBLE, TEXT, BYTES))


def values_of(data: Buffer, found: Statistics, names: Mapping[int, str]) -> list[Value | None]:
    """The values of statistics, None where there is none."""
    values: list[Value | None] = found.values.tolist()
    for at in np.flatnonzero(found.tags == REFERENCE).tolist():
        values[at] = names.get(values[at], "")  # type: ignore[arg-type]
    large = (found.tags == UNSIGNED) & (found.values < 0)
    for at in np.flatnonzero(large | _IS_OTHER[found.tags]).tolist():
        tag, bits = int(found.tags[at]), int(found.values[at])
        if tag == UNSIGNED:
            values[at] = bits + (1 << 64)
        elif tag == DOUBLE:
            values[at] = float(found.bits(slice(at, at + 1)).view(np.float64)[0])
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
            part = self._found.part(first, stop)
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
                distinct, found = distinct_of(self._found.bits(at[here]))
                nothing = np.zeros(len(distinct), np.int64)
                part = Statistics(nothing, np.full(len(distinct), tag, np.uint8), distinct.view(np.int64), nothing)
                own = [value for value in values_of(self._data, part, self._names) if value is not None]
            codes[here] = found + len(values)
            values += own
        return codes, values

    def _coded_text(self, at: Integers, tag: int) -> tuple[Integers, list[Value]]:
        data, known = self._data, dict[bytes, int]()
        starts = self._found.bits(at).view(np.int64)
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
