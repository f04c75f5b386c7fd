"""What a device memory profile says: which arrays and executables are in device memory, and who made them.

Mirrors `jax.profiler.save_device_memory_profile`, which writes `Profile` of github.com/google/pprof/proto/profile.proto
behind gzip (xla/python/pprof_profile_builder.cc and `HeapProfile` of xla/python/py_client.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.source import HloError
from hlo_cli.wire import Field, WireError, all_bytes, number_in, packed_field, read_fields, read_numbers

_Row = TypeVar("_Row")
BUFFER: Final = "buffer"
"""The kind of a sample whose bytes are those of arrays."""


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """What one call stack holds on one device: `count` arrays or executables with `size_bytes` in all.

    `kind` is `buffer` or `executable`. `frames` are the innermost first. An array that is replicated counts on each
    device.
    """

    kind: str
    device: str
    count: int
    size_bytes: int
    frames: tuple[SourceLocation, ...]


def read_memory_profile(data: bytes, name: str) -> tuple[HeldMemory, ...]:
    """What a profile holds, in its order; HloError for bytes that are none.

    >>> read_memory_profile(b"\\x08", "m.prof")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: m.prof is a corrupt memory profile (at byte 1)
      help: save it again
    """
    try:
        return tuple(_Reader(data).samples())
    except WireError as error:
        raise HloError(f"{name} is a corrupt memory profile (at byte {error.at:,})", hint="save it again") from None


class _Reader:
    """The tables of a profile: strings, and functions and locations by their ids."""

    def __init__(self, data: bytes) -> None:
        self._fields = read_fields(data)
        self._strings = [text.decode("utf-8", "replace") for text in all_bytes(self._fields, 6)]
        self._functions = self._table(5, self._function)
        self._frames = self._table(4, self._location)

    def samples(self) -> Iterator[HeldMemory]:
        units = [self._string(_last(read_fields(message), 1)) for message in all_bytes(self._fields, 1)]
        if "space" not in units:
            raise WireError("no sizes")
        space, count = units.index("space"), units.index("allocations") if "allocations" in units else None
        for encoded in all_bytes(self._fields, 2):
            fields = read_fields(encoded)
            values = read_numbers(packed_field(fields, 2))
            if len(values) != len(units):
                raise WireError("a sample without all values")
            labels = dict(self._label(message) for message in all_bytes(fields, 3))
            stack = read_numbers(packed_field(fields, 1))
            frames = tuple(frame for number in stack for frame in self._frames.get(number, ()))
            number = 1 if count is None else values[count]
            yield HeldMemory(labels.get("kind", BUFFER), labels.get("device", ""), number, values[space], frames)

    def _table(self, number: int, read: Callable[[Sequence[Field]], _Row]) -> dict[int, _Row]:
        rows = (read_fields(message) for message in all_bytes(self._fields, number))
        return {_last(fields, 1): read(fields) for fields in rows}

    def _function(self, fields: Sequence[Field]) -> tuple[str, str]:
        return self._string(_last(fields, 2)), self._string(_last(fields, 4))

    def _location(self, fields: Sequence[Field]) -> tuple[SourceLocation, ...]:
        """The frames of an address: several where calls were inlined."""
        lines = [read_fields(message) for message in all_bytes(fields, 4)]
        named = ((self._functions.get(_last(line, 1), ("", "")), _last(line, 2)) for line in lines)
        return tuple(SourceLocation(file, line, function) for (function, file), line in named)

    def _label(self, encoded: bytes) -> tuple[str, str]:
        fields = read_fields(encoded)
        return self._string(_last(fields, 1)), self._string(_last(fields, 2))

    def _string(self, place: int) -> str:
        if place >= len(self._strings):
            raise WireError("a text that is not in the table")
        return self._strings[place]


def _last(fields: Sequence[Field], number: int) -> int:
    return number_in(dict(fields), number)
