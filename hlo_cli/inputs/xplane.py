"""The modules in a trace: a profiler stores the programs that ran in the plane `/host:metadata`.

Mirrors tsl/profiler/protobuf/xplane.proto. A trace is an `XSpace` of planes, whose maps hold the names of events and of
statistics; each program is an event there, with its `HloProto` as the statistic `Hlo Proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hlo_cli.source import HloError

_METADATA: Final = b"/host:metadata"
_STATISTIC: Final = (b"Hlo Proto", b"hlo_proto")
_PLANES, _PLANE_NAME, _EVENTS, _STATISTICS = 1, 2, 4, 5
_KEY, _VALUE = 1, 2
_NAME, _EVENT_STATISTICS, _STATISTIC_ID, _BYTES = 2, 5, 1, 6
_MODULE, _MODULE_NAME = 1, 1
_WIDTHS: Final = {1: 8, 5: 4}
_VARINT, _LENGTH = 0, 2

Field = tuple[int, int | bytes]


class TracedModule(NamedTuple):
    """A program of a trace: its name, and the bytes of its `HloProto`."""

    name: str
    proto: bytes


def is_trace(data: bytes) -> bool:
    """Whether bytes look like a profiler's trace, not like the proto of one module.

    >>> is_trace(b"\\n\\x10\\x12\\x0e/host:metadata"), is_trace(b"\\n\\x05jit_f")
    (True, False)
    """
    if _METADATA not in data and b"/host:CPU" not in data and b"/device:" not in data:
        return False
    try:
        return any(_text(plane, _PLANE_NAME).startswith((b"/", b"Task ")) for plane in _messages(data, _PLANES))
    except ValueError:
        return False


def modules_in(data: bytes, name: str) -> tuple[TracedModule, ...]:
    """The programs in a trace, in its order; HloError if there is none, or if the trace is corrupt."""
    try:
        found = tuple(module for plane in _messages(data, _PLANES) for module in _modules_of(plane))
    except ValueError:
        raise HloError(
            f"{name} is a corrupt profiler trace", hint="record it again; the file may be truncated"
        ) from None
    if not found:
        hint = "record it with jax.profiler.trace, which stores the HLO of all executed programs"
        raise HloError(f"{name} is a profiler trace without HLO modules", hint=hint)
    return found


def _modules_of(plane: bytes) -> Iterator[TracedModule]:
    """The programs in a plane; only the metadata plane has any."""
    if _text(plane, _PLANE_NAME) != _METADATA:
        return
    named = {_number(entry, _KEY): _text(_text(entry, _VALUE), _NAME) for entry in _messages(plane, _STATISTICS)}
    for entry in _messages(plane, _EVENTS):
        event = _text(entry, _VALUE)
        for statistic in _messages(event, _EVENT_STATISTICS):
            proto = _text(statistic, _BYTES)
            if proto and named.get(_number(statistic, _STATISTIC_ID)) in _STATISTIC:
                name = _text(_text(proto, _MODULE), _MODULE_NAME) or _text(event, _NAME)
                yield TracedModule(name.decode("utf-8", "replace"), proto)


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    return (value for at, value in _fields(data) if at == number and isinstance(value, bytes))


def _text(data: bytes, number: int) -> bytes:
    return next(_messages(data, number), b"")


def _number(data: bytes, number: int) -> int:
    return next((value for at, value in _fields(data) if at == number and isinstance(value, int)), 0)


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message; ValueError if it is malformed."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == _LENGTH:
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
