"""Reads `*.xplane.pb`, the traces of JAX, TensorFlow, and PyTorch/XLA.

Mirrors tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from hlo_cli.ir.traces.trace import (
    ABSENT,
    Coded,
    EventMetadata,
    Events,
    Line,
    Plane,
    Trace,
    TracedProgram,
    Value,
)
from hlo_cli.source import HloError

_WIDTHS: Final = {1: 8, 5: 4}
_PROGRAMS: Final = "/host:metadata"
_UNSIGNED: Final = (1 << 64) - 1
Field = tuple[int, int | bytes]


def read_xplane(data: bytes, name: str) -> Trace:
    """Reads a trace; HloError if it is corrupt."""
    try:
        planes: list[Plane] = []
        texts: dict[int, list[str]] = {2: [], 3: [], 4: []}
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                planes.append(_plane(value))
            elif number in texts and isinstance(value, bytes):
                texts[number].append(value.decode("utf-8", "replace"))
    except ValueError:
        raise HloError(
            f"{name} is a corrupt profiler trace", hint="record it again; the file may be truncated"
        ) from None
    return Trace(
        name,
        "xplane",
        planes,
        errors=tuple(texts[2]),
        warnings=tuple(texts[3]),
        hostnames=tuple(texts[4]),
        programs=partial(_programs, planes),
    )


def _programs(planes: Sequence[Plane]) -> Sequence[TracedProgram]:
    found = []
    for plane in planes:
        if plane.name != _PROGRAMS:
            continue
        for kind in plane.kinds.values():
            proto = kind.statistics.get("Hlo Proto", kind.statistics.get("hlo_proto"))
            if isinstance(proto, bytes):
                id = kind.statistics.get("program_id", kind.id)
                found.append(TracedProgram(id & _UNSIGNED if isinstance(id, int) else kind.id, kind.name, proto))
    return found


def _plane(data: bytes) -> Plane:
    id, name, lines, kinds, names, statistics = 0, "", [], [], {}, []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            id = value
        elif isinstance(value, bytes):
            if number == 2:
                name = value.decode("utf-8", "replace")
            elif number == 3:
                lines.append(value)
            elif number == 4:
                kinds.append(value)
            elif number == 5:
                entry = dict(_fields(value))
                inner = dict(_fields(entry.get(2, b"")))  # type: ignore[arg-type]
                names[entry.get(1, 0)] = _text(inner.get(2, b""))
            elif number == 6:
                statistics.append(value)
    read_kinds = partial(_kinds, kinds, names)
    cache: list[Mapping[int, EventMetadata]] = []

    def once() -> Mapping[int, EventMetadata]:
        if not cache:
            cache.append(read_kinds())
        return cache[0]

    return Plane(
        id,
        name,
        [_line(each, names, once) for each in lines],
        once,
        lambda: dict(_statistic(s, names) for s in statistics),
    )


def _kinds(entries: list[bytes], names: Mapping[int | bytes, str]) -> Mapping[int, EventMetadata]:
    found = {}
    for entry in entries:
        key = 0
        for number, value in _fields(entry):
            if number == 1 and isinstance(value, int):
                key = value
            elif number == 2 and isinstance(value, bytes):
                found[key] = _kind(key, value, names)
    return found


def _kind(key: int, data: bytes, names: Mapping[int | bytes, str]) -> EventMetadata:
    name = display = ""
    statistics: dict[str, Value] = {}
    for number, value in _fields(data):
        if isinstance(value, bytes):
            if number == 2:
                name = _text(value)
            elif number == 4:
                display = _text(value)
            elif number == 5:
                inner, found = _statistic(value, names)
                statistics[inner] = found
    return EventMetadata(key, name, display, statistics=statistics)


def _statistic(data: bytes, names: Mapping[int | bytes, str]) -> tuple[str, Value]:
    name, found = "", None
    for number, value in _fields(data):
        if number == 1:
            name = names.get(value, str(value))
        elif number == 2 and isinstance(value, bytes):
            (found,) = struct.unpack("<d", value)
        elif number == 4 and isinstance(value, int):
            found = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            found = _text(value)
        elif number == 7:
            found = names.get(value, "")
        else:
            found = value
    return name, found if found is not None else 0


def _line(data: bytes, names: Mapping[int | bytes, str], kinds: object) -> Line:
    numbers: dict[int, int] = {}
    texts: dict[int, str] = {}
    events: list[bytes] = []
    for number, value in _fields(data):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 4:
            events.append(value)
        else:
            texts[number] = _text(value)
    return Line(
        numbers.get(1, 0),
        texts.get(2, ""),
        partial(_events, events, names),
        kinds=kinds,  # type: ignore[arg-type]
        display_id=numbers.get(10, 0),
        display_name=texts.get(11, ""),
        timestamp_ns=numbers.get(3, 0),
        duration_ps=numbers.get(9, 0),
    )


def _events(data: list[bytes], names: Mapping[int | bytes, str]) -> Events:
    columns = np.zeros((4, len(data)), np.int64)
    own: list[list[tuple[str, Value]]] = []
    for at, each in enumerate(data):
        statistics = []
        for number, value in _fields(each):
            if isinstance(value, int):
                value = value - (1 << 64) if value >> 63 else value
                columns[{1: 0, 2: 1, 3: 2, 5: 3}[number], at] = value
            else:
                statistics.append(_statistic(value, names))
        own.append(statistics)

    def statistic(name: str) -> Coded:
        values: dict[Value, int] = {}
        codes = np.full(len(own), ABSENT, np.int64)
        for at, statistics in enumerate(own):
            for key, value in statistics:
                if key == name:
                    codes[at] = values.setdefault(value, len(values))
        return Coded(codes, tuple(values))

    return Events(columns[0], columns[1], columns[2], columns[3], statistic, own.__getitem__)


def _text(data: object) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""


def _fields(data: bytes) -> Iterator[Field]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            length, at = _varint(data, at)
        elif wire in _WIDTHS:
            length = _WIDTHS[wire]
        else:
            raise ValueError
        if length > end - at:
            raise ValueError
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7
    raise ValueError
