"""The modules in a trace: a profiler stores the programs that ran in the plane `/host:metadata`.

Mirrors tsl/profiler/protobuf/xplane.proto. A trace is an `XSpace` of planes, whose maps hold the names of events and of
statistics; each program is an event there, with its `HloProto` as the statistic `Hlo Proto`. Of a trace of hundreds of
MB, nothing but the programs is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hlo_cli.source import HloError
from hlo_cli.wire import WireError, first_span, spans_of

_METADATA: Final = b"/host:metadata"
_STATISTIC: Final = (b"Hlo Proto", b"hlo_proto")
_PLANES, _PLANE_NAME, _EVENTS, _STATISTICS = 0x0A, 0x12, 0x22, 0x2A
_KEY, _VALUE = 0x08, 0x12
_NAME, _EVENT_STATISTICS, _STATISTIC_ID, _BYTES = 0x12, 0x2A, 0x08, 0x32
_MODULE, _MODULE_NAME = 0x0A, 0x0A

Span = tuple[int, int]


class TracedModule(NamedTuple):
    """A program of a trace: the name of its module, the bytes of its `HloProto`, and its name, such as `jit_f(8)`."""

    name: str
    proto: bytes
    program: str


def is_trace(data: bytes) -> bool:
    """Whether bytes look like a profiler's trace, not like the proto of one module.

    >>> is_trace(b"\\n\\x10\\x12\\x0e/host:metadata"), is_trace(b"\\n\\x05jit_f")
    (True, False)
    """
    if _METADATA not in data and b"/host:CPU" not in data and b"/device:" not in data:
        return False
    try:
        names = (first_span(data, plane, _PLANE_NAME) for plane in spans_of(data, (0, len(data)), _PLANES))
        return any(data[slice(*name)].startswith((b"/", b"Task ")) for name in names)
    except WireError:
        return False


def modules_in(data: bytes, name: str) -> tuple[TracedModule, ...]:
    """The programs in a trace, in its order; HloError if there is none, or if the trace is corrupt."""
    try:
        planes = spans_of(data, (0, len(data)), _PLANES)
        found = tuple(module for plane in planes for module in _modules_of(data, plane))
    except WireError as error:
        raise HloError(
            f"{name} is a corrupt profiler trace (at byte {error.at:,})",
            hint="record it again; the file may be truncated",
        ) from None
    if not found:
        hint = "record it with jax.profiler.trace, which stores the HLO of all executed programs"
        raise HloError(f"{name} is a profiler trace without HLO modules", hint=hint)
    return found


def _modules_of(data: bytes, plane: Span) -> Iterator[TracedModule]:
    """The programs in a plane; only the metadata plane has any."""
    if data[slice(*first_span(data, plane, _PLANE_NAME))] != _METADATA:
        return
    named = set()
    for entry in spans_of(data, plane, _STATISTICS):
        if data[slice(*first_span(data, first_span(data, entry, _VALUE), _NAME))] in _STATISTIC:
            named.add(first_span(data, entry, _KEY)[0])
    for entry in spans_of(data, plane, _EVENTS):
        event = first_span(data, entry, _VALUE)
        for statistic in spans_of(data, event, _EVENT_STATISTICS):
            proto = first_span(data, statistic, _BYTES)
            if proto != (0, 0) and first_span(data, statistic, _STATISTIC_ID)[0] in named:
                name = _text(data, first_span(data, first_span(data, proto, _MODULE), _MODULE_NAME))
                program = _text(data, first_span(data, event, _NAME))
                yield TracedModule(name or program, data[slice(*proto)], program)


def _text(data: bytes, span: Span) -> str:
    return data[slice(*span)].decode("utf-8", "replace")
