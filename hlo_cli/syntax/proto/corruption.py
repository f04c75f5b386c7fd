"""The location of corruption in a proto, searched only after reading failed, as it needs a pass over all bytes."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from hlo_cli.source import HloError
from hlo_cli.syntax.proto.messages import FLOATS, FieldType, fields_of
from hlo_cli.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    LONGEST_VARINT,
    VARINT,
    WIDTHS,
    WireError,
    number_at,
    read_numbers,
)

NO_MODULE: Final = "not an HLO module proto"
CUT: Final = "the file may be truncated or corrupted"
_HOLDERS: Final = ("HloModuleProto", "HloProto", "HloSnapshot")
"""The messages of a file by the depth of its first string, which is the module's name."""
_ENDS: Final = "end of file inside this field"
_FIRST_FIELD: Final = 0x0A  # the tag of field 1 with bytes: `name` of a module, `hlo_module`, and `hlo` of a snapshot
_MOST_NESTED: Final = 200  # deeper than any shape that XLA makes; C++ stops at 100 messages


class Damage(NamedTuple):
    """The problem with the bytes at an offset, and the field that they belong to."""

    offset: int
    path: str
    what: str

    def __str__(self) -> str:
        return f"byte {self.offset:,}{', ' if self.path else ''}{self.path}: {self.what}"


class _Damaged(Exception):
    """Ends the search."""


def find_damage(data: bytes) -> Damage | None:
    """The first corrupt place in the bytes of a file, or None.

    >>> str(find_damage(bytes((0x0A, 0x01, 0x6D, 0x1A, 0x05, 0x0A, 0x09)) + b"entry"))
    'byte 5, computations[0].name: field of 9 bytes, but only 3 bytes left'
    """
    search = _Search(data)
    try:
        search.look(_holder(data), 0, len(data), ())
    except _Damaged:
        return search.found
    return None


def with_place(error: HloError, data: bytes) -> HloError:
    """The same error or, if the file is corrupt, one that names the place."""
    damage = find_damage(data)
    if damage is None:
        return error
    known = damage.path.startswith(("computations[", "hlo_module", "hlo."))
    return HloError(str(damage) if known else f"{NO_MODULE}; {damage}", hint=CUT if known else error.diagnostic.hint)


class _Search:
    """A walk through all messages of a file. Parts that were intact before, such as most shapes, are skipped."""

    def __init__(self, data: bytes) -> None:
        self.found: Damage | None = None
        self._data = data
        self._whole: set[tuple[str, bytes]] = set()

    def look(self, kind: str, at: int, end: int, path: tuple[str, ...]) -> None:
        """Checks one message; raises _Damaged at the first problem."""
        if len(path) > _MOST_NESTED:
            self._fail(at, (), f"messages are nested too deeply (limit {_MOST_NESTED})")
        known = _by_number(kind)
        counts: dict[int, int] = {}
        while at < end:
            start = at
            tag, at = self._number(at, end, path)
            number, wire = tag >> 3, tag & 7
            name, field = known.get(number, ("", None))
            if field is not None and field.repeated:
                counts[number] = counts.get(number, -1) + 1
                name = f"{name}[{counts[number]}]"
            inner = (*path, name or f"field {number}")
            if wire == VARINT:
                _, at = self._number(at, end, inner)
            elif wire == BYTES:
                length, at = self._number(at, end, inner)
                self._check_length(start, at, length, end, inner, field)
                if field is not None:
                    self._look_into(field, at, at + length, inner)
                at += length
            elif wire in WIDTHS:
                at += WIDTHS[wire]
                if at > end:
                    self._fail(start, inner, "truncated number")
            else:  # or a group, which reading skips: XLA writes none, so in a damaged file this is the damage
                self._fail(start, inner, "invalid field tag")
            if field is not None and not _fits(field, wire):
                self._fail(start, inner, f"expected {field.type}, found {_KINDS[wire]}")

    def _look_into(self, field: FieldType, at: int, end: int, path: tuple[str, ...]) -> None:
        if field.is_message:
            part = self._data[at:end]
            if (field.type, part) not in self._whole:
                self.look(field.type, at, end, path)
                if len(part) < _SHORT:
                    self._whole.add((field.type, part))
        elif field.is_number:
            try:
                read_numbers(self._data[at:end])
            except WireError as error:
                self._fail(at, path, error.diagnostic.message)
        elif field.type in FLOATS and (end - at) % WIDTHS[FIXED64 if field.type == "double" else FIXED32]:
            self._fail(at, path, f"expected {field.type} numbers, found {end - at} bytes")

    def _check_length(
        self, start: int, at: int, length: int, end: int, path: tuple[str, ...], field: FieldType | None
    ) -> None:
        if length <= end - at:
            return
        if end == len(self._data):
            if field is not None and field.is_message:
                self.look(field.type, at, end, path)
            self._fail(end, path, _ENDS)
        self._fail(start, path, f"field of {length:,} bytes, but only {end - at:,} bytes left")

    def _number(self, at: int, end: int, path: tuple[str, ...]) -> tuple[int, int]:
        try:
            return number_at(self._data, at, end)
        except WireError as error:
            # a number that could go on after the end of the file
            is_cut = end == len(self._data) and end - at < LONGEST_VARINT
            self._fail(end if is_cut else at, path, _ENDS if is_cut else error.diagnostic.message)
            raise

    def _fail(self, at: int, path: tuple[str, ...], what: str) -> None:
        self.found = Damage(at, ".".join(path), what)
        raise _Damaged


_SHORT: Final = 4096
"""The longest message for which repetition is checked."""
_KINDS: Final = {VARINT: "a number", BYTES: "bytes", FIXED32: "four bytes", FIXED64: "eight bytes"}


@cache
def _by_number(kind: str) -> dict[int, tuple[str, FieldType]]:
    return {field.number: (name, field) for name, field in fields_of(kind).items()}


def _fits(field: FieldType, wire: int) -> bool:
    """Whether a field may have this wire type; repeated numbers may be packed or not."""
    if field.is_number:
        return wire == VARINT or (field.repeated and wire == BYTES)
    if field.type in FLOATS:
        return wire == (FIXED64 if field.type == "double" else FIXED32) or (field.repeated and wire == BYTES)
    return wire == BYTES


def _holder(data: bytes) -> str:
    """The type of the message in a file: a module begins with its name, others with the message that contains it."""
    at = 0
    for holder in _HOLDERS:
        if data[at : at + 1] != bytes((_FIRST_FIELD,)):
            return holder
        try:
            _, at = number_at(data, at + 1, len(data))
        except WireError:
            return holder
        if data[at : at + 1] != bytes((_FIRST_FIELD,)):
            return holder
    return _HOLDERS[-1]
