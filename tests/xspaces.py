"""Traces in the wire format of protocol buffers: a writer, random ones, and a plain reader to compare with."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from random import Random

Value = int | float | str | bytes
Event = tuple[int, int, int, int, list[tuple[str, Value]]]
Lines = list[tuple[int, str, int, list[Event]]]
FIELDS_OF_PLANES = {"id": 1, "name": 2, "line": 3, "kind": 4, "statistic_name": 5, "statistic": 6}


def varint(value: int, size: int = 0) -> bytes:
    """A number, as long as it takes or as `size` says."""
    value &= (1 << 64) - 1
    groups: list[int] = []
    while value or not groups or len(groups) < size:
        groups.append(value & 127)
        value >>= 7
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def field(number: int, value: Value) -> bytes:
    """A field: numbers are varints, floats doubles, all else is bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, Value]) -> bytes:
    """A message of numbered fields."""
    return b"".join(field(number, value) for number, value in fields)


def entry(key: int, *fields: tuple[int, Value]) -> bytes:
    """An entry of one of the maps of a plane, whose value has its key as id."""
    return message((1, key), (2, message((1, key), *fields)))


def statistic(id: int, number: int, value: Value) -> bytes:
    """A statistic; `number` is 2 for a double, 3 unsigned, 4 signed, 5 text, 6 bytes, 7 a reference to a name."""
    return message((1, id), (number, value))


def plane(name: str, lines: Sequence[bytes], kinds: Sequence[bytes], names: Sequence[str], *more: bytes) -> bytes:
    """A plane as a field of a trace; the ids of the names of statistics count from 1."""
    named = [entry(at, (2, each)) for at, each in enumerate(names, 1)]
    parts = [(3, each) for each in lines] + [(4, each) for each in kinds] + [(5, each) for each in named]
    return field(1, message((2, name), *parts, *((6, each) for each in more)))


def random_xspace(seed: int) -> bytes:
    """A trace that is valid and unusual: fields missing, repeated, unknown, and out of order, and extreme numbers."""
    random = Random(seed)
    planes = [field(1, _plane(random)) for _ in range(random.randrange(4))]
    return field(4, "host") + _shuffled(random, [*planes, field(3, "a warning")])


def _plane(random: Random) -> bytes:
    ids = [random.choice((0, 1, 2, 3, 7, 200, 1 << 40, -1)) for _ in range(random.randrange(8))]
    parts = [field(3, _line(random)) for _ in range(random.randrange(4))]
    parts += [field(4, _map_entry(random, id, _kind(random))) for id in ids]
    parts += [field(5, _map_entry(random, id, _named(random))) for id in [*ids, 1, 2, 3]]
    parts += [field(6, _statistic(random)) for _ in range(random.randrange(4))]
    parts += [field(2, _text(random)) for _ in range(random.randrange(3))]
    return _shuffled(random, parts)


def _map_entry(random: Random, key: int, value: bytes) -> bytes:
    parts = [field(1, key)] * (random.random() < 0.9) + [field(2, value)] * (random.random() < 0.95)
    if random.random() < 0.1:
        parts.append(field(2, message((4, "again"))))
    return _shuffled(random, parts)


def _kind(random: Random) -> bytes:
    parts = [field(1, 5), field(2, _text(random))] * (random.random() < 0.9)
    parts += [field(4, _text(random))] * (random.random() < 0.5) + [field(3, b"\0\xff")] * (random.random() < 0.3)
    parts += [field(5, _statistic(random)) for _ in range(random.randrange(3))]
    parts += [field(6, random.randrange(300)) for _ in range(random.randrange(3))]
    parts += [field(6, varint(3) + varint(-1))] * (random.random() < 0.2)
    return _shuffled(random, parts)


def _named(random: Random) -> bytes:
    return _shuffled(random, [field(2, _text(random))] * (random.random() < 0.95) + [field(3, "what it means")])


def _line(random: Random) -> bytes:
    events = random.choice((0, 1, 3, 40, 300))
    parts = [field(4, _event(random)) for _ in range(events)]
    if random.random() < 0.2:
        event = _event(random)
        parts.append(varint(4 << 3 | 2, 3) + varint(len(event)) + event)  # a tag that is longer than needed
    parts += [field(1, _number(random)), field(2, _text(random))] * (random.random() < 0.9)
    parts += [field(3, random.choice((0, 5000, 1 << 40, (1 << 63) - 1 - random.randrange(1000))))]
    parts += [field(10, 4), field(11, "shown"), field(9, _number(random))] * (random.random() < 0.3)
    return _shuffled(random, parts)


def _event(random: Random) -> bytes:
    parts = [field(1, random.choice((0, 1, 2, 3, 7, 200, 1 << 40, -1)))] * (random.random() < 0.9)
    parts += [field(2, _number(random))] * (random.random() < 0.8)
    parts += [field(5, random.randrange(1000))] * (random.random() < 0.1)
    parts += [field(3, _number(random))] * (random.random() < 0.8)
    parts += [field(4, _statistic(random)) for _ in range(random.choice((0, 0, 1, 3, 9)))]
    if random.random() < 0.1:
        parts.append(
            random.choice((field(4, b"")[:1] + varint(0, 3), b"\x88\x80\x00\x01", varint(9 << 3 | 5) + b"abcd"))
        )
    return _shuffled(random, parts)


def _statistic(random: Random) -> bytes:
    kind = random.randrange(2, 8)
    value: Value = _number(random)
    if kind == 2:
        value = random.choice((0.0, -1.5, 1e300, float("inf")))
    elif kind > 4:
        value = _text(random) if kind < 7 else random.choice((0, 1, 2, 3, 7, 99))
    parts = [field(1, random.choice((0, 1, 2, 3, 7, 99, -1)))] * (random.random() < 0.95) + [field(kind, value)]
    if random.random() < 0.1:
        parts.append(field(4, _number(random)))
    return _shuffled(random, parts)


def _number(random: Random) -> int:
    """Of every length of a varint, and negative ones, which take ten bytes."""
    return random.choice((1, -1)) * random.getrandbits(random.randrange(1, 63))


def _text(random: Random) -> str:
    return random.choice(("", "a", "fusion.1", "näme", "x" * random.randrange(300), "hlo_op", "/device:TPU:0"))


def _shuffled(random: Random, parts: list[bytes]) -> bytes:
    """The fields of a message, sometimes out of order and with unknown ones between."""
    if random.random() < 0.2:
        random.shuffle(parts)
    if random.random() < 0.2:
        unknown = (field(9999, "?"), field(13, -5), field(14, 2.5), b"\x7d\1\2\3\4", b"\x73\x08\x01\x74")
        parts.insert(random.randrange(len(parts) + 1), random.choice(unknown))
    return b"".join(parts)


def plain_lines(data: bytes) -> list[tuple[str, Lines]]:
    """The planes and lines of a trace, event by event: id, name, begin in ns, and events of name, numbers, statistics."""
    return [_plain_plane(value) for number, value in _fields(data) if number == 1 and isinstance(value, bytes)]


def _plain_plane(data: bytes) -> tuple[str, Lines]:
    found = list(_fields(data))
    names = {key: _bytes_in(value, 2) for key, value in _map(found, 5)}
    kinds = {key: _bytes_in(value, 2) for key, value in _map(found, 4)}
    lines = []
    for value in (value for number, value in found if number == 3):
        assert isinstance(value, bytes)
        events = [_plain_event(each, names, kinds) for number, each in _fields(value) if number == 4]
        lines.append((_number_in(value, 1), _bytes_in(value, 2).decode(), _number_in(value, 3), events))
    return _bytes_in(data, 2).decode(), lines


def _plain_event(data: Value, names: dict[int, bytes], kinds: dict[int, bytes]) -> Event:
    assert isinstance(data, bytes)
    times = [(number, value) for number, value in _fields(data) if number in (2, 5)]
    number, time = times[-1] if times else (2, 0)
    offset, occurrences = (_signed(time), 0) if number == 2 else (0, _signed(time))
    own = []
    for at, value in _fields(data):
        if at == 4 and isinstance(value, bytes):
            statistic = list(_fields(value))
            id = _number_in(value, 1)
            values = [each for each in statistic if each[0] in (2, 3, 4, 5, 6, 7)]
            if id in names and values:
                own.append((names[id].decode(), _plain_value(*values[-1], names)))
    return _number_in(data, 1), offset, _number_in(data, 3), occurrences, own


def _plain_value(number: int, value: Value, names: dict[int, bytes]) -> Value:
    match number, value:
        case 4, int():
            return _signed(value)
        case 5, bytes():
            return value.decode()
        case 7, int():
            return names.get(_signed(value), b"").decode()
    return value


def _map(found: list[tuple[int, Value]], number: int) -> Iterator[tuple[int, bytes]]:
    for at, value in found:
        if at == number and isinstance(value, bytes):
            parts = [each for of, each in _fields(value) if of == 2 and isinstance(each, bytes)]
            yield _number_in(value, 1), b"".join(parts)


def _number_in(data: bytes, number: int) -> int:
    return next((_signed(value) for at, value in reversed([*_fields(data)]) if at == number), 0)


def _bytes_in(data: bytes, number: int) -> bytes:
    found = [value for at, value in _fields(data) if at == number and isinstance(value, bytes)]
    return found[-1] if found else b""


def _signed(value: Value) -> int:
    assert isinstance(value, int)
    return value - (1 << 64) if value >> 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, struct.unpack("<d", data[at : at + 8])[0]
                at += 8
            case 2:
                length, at = _varint(data, at)
                yield tag >> 3, data[at : at + length]
                at += length
            case 5:
                at += 4
            case 3:  # the only group that is written here has one number
                at += 3


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value & (1 << 64) - 1, at
        shift += 7
