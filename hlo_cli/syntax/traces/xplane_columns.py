"""What the messages of an xplane hold, read many at once: their fields as columns, and their statistics.

A million events are read by some hundred array operations.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlo_cli import wire
from hlo_cli.ir.traces.trace import ABSENT, Coded, Integers, Value, distinct_of

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer


# --- fields as columns ---
# The fields of many messages at once, as columns: a million events are read by some hundred array operations.
#
# Each round reads one field of every message that has one left. A number of up to seven bytes and its tag are one load
# of eight bytes, whose seven-bit groups are then moved together. What is rare (long tags, groups, damage, the end of
# the file) is left to `hlo_cli.wire`, message by message.


Words = NDArray[np.uint64]
CHUNK: Final = 1 << 13
"""How many messages are read at once, so that the columns stay in the cache of the processor."""
_MARGIN: Final = 24
"""Bytes before the end of the file in which no eight bytes are loaded."""
_FEW: Final = 24
"""With fewer messages left, reading them one by one is faster."""
_MAX_ROUNDS: Final = 64
"""Fields of a message that are read in rounds; the few messages that have more are read one by one."""
MAX_FIELDS: Final = 1 << 22
"""The most fields of messages that are read one by one at once: those of files that are not hostile are few."""
_LONGEST: Final = 1 << 62  # a length as int64, whose sum with an offset does not overflow; damage is found by the end
_BYTE: Final = np.uint64(0xFF)
_EACH_HIGH: Final = np.uint64(0x8080808080808080)
_EACH_LOW: Final = np.uint64(0x0101010101010101)
_SEVEN: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_STEPS: Final = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_FIRST_NUMBER: Final = np.uint64(0x08)
_BITS: Final = np.uint64(0x7F)
_ONE, _TOP, _EIGHT, _NINTH, _TENTH = (np.uint64(number) for number in (1, 56, 8, 56, 63))


class Fields(NamedTuple):
    """The fields of messages, in their order: which message, the tag, the value, and the end of its bytes.

    The value of a number is itself, and so are the bits of a fixed one; that of bytes is the offset of the first.
    Fields with numbers over 15 are left out.
    """

    owners: Integers
    tags: NDArray[np.uint8]
    values: Words
    ends: Integers

    def select(self, tag: int) -> Fields:
        """The fields with a tag."""
        return self.at(np.flatnonzero(self.tags == tag))

    def at(self, chosen: Integers | NDArray[np.bool_]) -> Fields:
        """The fields at some places."""
        return Fields(self.owners[chosen], self.tags[chosen], self.values[chosen], self.ends[chosen])


class Reader:
    """Reads messages of one file.

    >>> reader = Reader(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab")
    >>> found = reader.fields(np.array([0]), np.array([7]))
    >>> found.tags.tolist(), found.values.tolist(), found.ends.tolist()
    ([8, 18], [150, 5], [3, 7])
    """

    def __init__(self, data: Buffer) -> None:
        self.data, self.size = data, len(data)
        self.bytes = np.frombuffer(data, np.uint8)
        self._words: Words = np.ndarray((max(self.size - 7, 0),), "<u8", data, 0, (1,))

    def fields(self, starts: Integers, ends: Integers) -> Fields:
        """All fields of the messages between some offsets; WireError if one is malformed."""
        odd = ends > self.size - _MARGIN
        owners = np.flatnonzero((starts < ends) & ~odd)
        rounds: list[Fields] = []
        at = starts[owners]
        while len(owners) > _FEW and len(rounds) < _MAX_ROUNDS:
            fields, is_good = self._round(owners, at, ends[owners])
            if not is_good.all():
                odd[owners[~is_good]] = True
                fields = fields.at(is_good)
            rounds.append(fields)
            left = np.flatnonzero(fields.ends < ends[fields.owners])
            owners, at = fields.owners[left], fields.ends[left]
        odd[owners] = True
        if odd.any():
            rounds = [fields.at(~odd[fields.owners]) for fields in rounds]
            rounds.append(self._one_by_one(np.flatnonzero(odd), starts, ends))
        return _in_order(rounds, len(starts))

    def spans(self, tags_at: Integers) -> tuple[Integers, Integers]:
        """Where the bytes of fields begin and end that have a tag of one byte at some offsets."""
        starts, ends = np.empty_like(tags_at), np.empty_like(tags_at)
        for first in range(0, len(tags_at), CHUNK):
            part = slice(first, first + CHUNK)
            at = tags_at[part]
            good = at <= self.size - _MARGIN
            lengths, sizes = _varints(self._words[at[good] + 1]) if good.any() else (at[:0], at[:0])
            starts[part][good] = at[good] + 1 + sizes
            ends[part][good] = starts[part][good] + lengths.astype(np.int64)
            for place in np.flatnonzero(~good).tolist():
                _, start, end = wire.field_span_at(self.data, int(at[place]), self.size)
                starts[part][place], ends[part][place] = start, end
        return starts, ends

    def pairs(self, starts: Integers, ends: Integers) -> tuple[Fields, Words, Integers]:
        """Messages of exactly a number in field 1 and one other field: that field, the number, and what is left.

        The number is below 2 ** 14, the other one a number, a double, or up to 127 bytes. All other messages are left.
        """
        good = ends <= self.size - _MARGIN
        starts = np.where(good, starts, 0)
        words = self._words[starts] if self.size >= _MARGIN else np.zeros(len(starts), np.uint64)
        first, second = (words >> _EIGHT) & _BYTE, (words >> np.uint64(16)) & _BYTE
        is_wide = first > 127
        keys = np.where(is_wide, (first & _BITS) | (second << np.uint64(7)), first)
        good &= ((words & _BYTE) == _FIRST_NUMBER) & ~(is_wide & (second > 127))
        at = starts + 3 + is_wide
        # after the tag and two bytes of the id comes the second tag
        tags = np.where(is_wide, words >> np.uint64(24), second).astype(np.uint8)
        words = self._words[np.where(good, at, 0)]
        values, sizes = _varints(words)
        long = np.flatnonzero(good & ((words & _EACH_HIGH) == _EACH_HIGH))
        if len(long):
            values[long], sizes[long] = self._long_varints(at[long])
        kinds = tags & 7
        is_fixed, is_bytes = kinds == wire.FIXED64, kinds == wire.BYTES
        values = np.where(is_fixed, words, values)
        stops = at + np.where(is_fixed, 8, sizes)
        short = is_bytes & (values < 128)
        stops[short] += values[short].astype(np.int64)
        values[short] = (at[short] + 1).view(np.uint64)
        good &= (stops == ends) & ((kinds == wire.VARINT) | is_fixed | short) & (tags < 128) & (tags > 15)
        owners = np.flatnonzero(good)
        return Fields(owners, tags[owners], values[owners], ends[owners]), keys[owners], np.flatnonzero(~good)

    def _round(self, owners: Integers, at: Integers, ends: Integers) -> tuple[Fields, NDArray[np.bool_]]:
        """The field of each message at an offset, and whether it could be read."""
        words = self._words[at]
        tags = words & _BYTE
        kinds = (tags & np.uint64(7)).astype(np.uint8)
        values, sizes = _varints(words >> _EIGHT)
        long = np.flatnonzero(sizes == 8)
        bad = (
            (tags < 8) | (tags > 127) | (kinds == wire.START_GROUP) | (kinds == wire.END_GROUP) | (kinds > wire.FIXED32)
        )
        if len(long):
            values[long], sizes[long] = self._long_varints(at[long] + 1)
            bad |= (sizes > wire.VARINT + 10) & (kinds != wire.FIXED64) & (kinds != wire.FIXED32)
        stops = at + sizes + 1
        is_bytes = kinds == wire.BYTES
        if is_bytes.any():
            lengths = np.minimum(values, np.uint64(_LONGEST)).astype(np.int64)
            values = np.where(is_bytes, stops.astype(np.uint64), values)
            stops = np.where(is_bytes, stops + lengths, stops)
        fixed = np.flatnonzero((kinds == wire.FIXED64) | (kinds == wire.FIXED32))
        if len(fixed):
            is_wide = kinds[fixed] == wire.FIXED64
            loaded = self._words[at[fixed] + 1]
            # the lower four bytes of the eight that were loaded
            values[fixed] = np.where(is_wide, loaded, loaded & np.uint64(0xFFFFFFFF))
            stops[fixed] = at[fixed] + np.where(is_wide, 9, 5)  # with the tag
        return Fields(owners, tags.astype(np.uint8), values, stops), ~(bad | (stops > ends))

    def _long_varints(self, at: Integers) -> tuple[Words, Integers]:
        """Numbers of up to ten bytes, and their sizes; 99 for those that are longer."""
        words = self._words[at]
        values, sizes = _varints(words)
        more = np.flatnonzero((words & _EACH_HIGH) == _EACH_HIGH)
        if len(more):
            # eight groups of seven bits fill 56: two bytes may follow the loaded word
            ninth, tenth = (self.bytes[at[more] + place].astype(np.uint64) for place in (8, 9))
            all_eight = _together(words[more] & _SEVEN)
            ends_there = ninth < 128
            top = np.where(ends_there, np.uint64(0), (tenth & _ONE) << _TENTH)
            values[more] = all_eight | ((ninth & _BITS) << _NINTH) | top
            sizes[more] = np.where(ends_there, 9, np.where(tenth < 128, 10, 99))
        return values, sizes

    def _one_by_one(self, owners: Integers, starts: Integers, ends: Integers) -> Fields:
        columns = array("q"), array("B"), array("Q"), array("q")
        add_owner, add_tag, add_value, add_end = (column.append for column in columns)
        for owner in owners.tolist():
            for tag, value, end in wire.field_spans(self.data, int(starts[owner]), int(ends[owner])):
                if tag > 127:  # no field of events and statistics has a number above 15
                    continue
                kind = tag & 7
                is_fixed = kind in (wire.FIXED64, wire.FIXED32)
                add_owner(owner)
                add_tag(tag)
                add_value(int.from_bytes(self.data[value:end], "little") if is_fixed else value)
                add_end(end)
                if len(columns[0]) > MAX_FIELDS:
                    raise wire.WireError("too many fields", int(starts[owner]))
        types = (np.int64, np.uint8, np.uint64, np.int64)
        arrays = [np.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return Fields(arrays[0], arrays[1], arrays[2], arrays[3])


def _varints(words: Words) -> tuple[Words, Integers]:
    """The numbers in the lowest bytes of words, and their sizes; 8 if the last byte of a word ends it or none does."""
    ends = ~words & _EACH_HIGH
    below = (ends & (~ends + _ONE)) - _ONE
    sizes = (((below & _EACH_LOW) * _EACH_LOW) >> _TOP).astype(np.int64)
    return _together(words & below & _SEVEN), sizes


def _together(groups: Words) -> Words:
    """Numbers from groups of seven bits, one in each byte."""
    for low, high, shift in _STEPS:
        groups = (groups & low) | ((groups & high) >> shift)
    return groups


def _in_order(rounds: list[Fields], count: int) -> Fields:
    """The fields of all rounds, message by message; each round has at most one field of a message, or all of it."""
    if not rounds:
        none = np.zeros(0, np.int64)
        return Fields(none, none.astype(np.uint8), none.astype(np.uint64), none)
    if len(rounds) == 1:
        return rounds[0]
    owners, tags, values, ends = (np.concatenate(columns) for columns in zip(*rounds, strict=True))
    narrow = owners.astype(np.uint16) if count <= 1 << 16 else owners  # of which numpy sorts in linear time
    order = np.argsort(narrow, kind="stable")
    return Fields(owners[order], tags[order], values[order], ends[order])


# --- statistics ---
# Statistics of xplanes, compact until a name is asked for: four numbers each, and texts where they are in the file.


DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE = 0x11, 0x18, 0x20, 0x2A, 0x32, 0x38
"""The tags of values."""
Narrow = NDArray[np.signedinteger]
_ID: Final = 0x08  # `metadata_id` of XStat: field 1, a varint
_BLOCK: Final = 1 << 10  # events asked for one by one are next to each other: their statistics are read together


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
    pairs, keys, left = reader.pairs(starts, ends)
    ids[pairs.owners] = keys.view(np.int64)
    rest = reader.fields(starts[left], ends[left]) if len(left) else pairs.at(pairs.tags == 0)
    is_id = rest.tags == _ID
    ids[left[rest.owners[is_id]]] = rest.values[is_id].view(np.int64)
    for part, owners in ((pairs, pairs.owners), (rest, left[rest.owners])):
        valued = _IS_VALUE[part.tags]
        tags[owners[valued]] = part.tags[valued]
        values[owners[valued]] = part.values[valued]
        is_long = (part.tags == TEXT) | (part.tags == BYTES)
        if is_long.any():
            lengths[owners[is_long]] = part.ends[is_long] - part.values[is_long].view(np.int64)
    return Statistics(narrow(ids), tags, narrow(values.view(np.int64)), narrow(lengths))


_IS_VALUE: Final = np.isin(np.arange(256), (DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE))
_IS_OTHER: Final = np.isin(np.arange(256), (0, DOUBLE, TEXT, BYTES))


def values_of(data: Buffer, statistics: Statistics, names: Mapping[int, str]) -> list[Value | None]:
    """The values of statistics, None where there is none."""
    values: list[Value | None] = statistics.values.tolist()
    for at in np.flatnonzero(statistics.tags == REFERENCE).tolist():
        values[at] = names.get(values[at], "")  # type: ignore[arg-type]
    large = (statistics.tags == UNSIGNED) & (statistics.values < 0)
    for at in np.flatnonzero(large | _IS_OTHER[statistics.tags]).tolist():
        tag, bits = int(statistics.tags[at]), int(statistics.values[at])
        if tag == UNSIGNED:
            values[at] = bits + (1 << 64)
        elif tag == DOUBLE:
            values[at] = float(statistics.bits(slice(at, at + 1)).view(np.float64)[0])
        elif tag == 0:
            values[at] = None
        else:
            text = data[bits : bits + int(statistics.lengths[at])]
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

    def __init__(self, data: Buffer, firsts: Integers, statistics: Statistics, names: Names) -> None:
        self._data, self._firsts, self._found, self._names = data, firsts, statistics, names
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
                texts, own = self._coded_text(at[here], tag)
            else:
                distinct, texts = distinct_of(self._found.bits(at[here]))
                nothing = np.zeros(len(distinct), np.int64)
                part = Statistics(nothing, np.full(len(distinct), tag, np.uint8), distinct.view(np.int64), nothing)
                own = [value for value in values_of(self._data, part, self._names) if value is not None]
            codes[here] = texts + len(values)
            values += own
        return codes, values

    def _coded_text(self, at: Integers, tag: int) -> tuple[Integers, list[Value]]:
        data, known = self._data, dict[bytes, int]()
        starts = self._found.bits(at).view(np.int64)
        ends = starts + self._found.lengths[at]
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        codes = np.fromiter((known.setdefault(data[a:b], len(known)) for a, b in pairs), np.int64, len(at))
        return codes, [value.decode("utf-8", "replace") if tag == TEXT else value for value in known]
