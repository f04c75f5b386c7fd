"""With which arguments was the program in a snapshot run, and what did it return?

`--xla_dump_hlo_snapshots` writes a `HloSnapshot` with literals, `--xla_dump_hlo_unoptimized_snapshots` a
`HloUnoptimizedSnapshot`: with literals of each partition, or behind its length and with the arguments of all partitions
behind it, of each the length and the shape, then its elements (xla/service/dump.cc, `Literal::Serialize` of
xla/literal.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.messages import Message, fields_of
from hlo_cli.syntax.proto.read_values import literal_of, shape_of
from hlo_cli.wire import WireError, all_bytes, first_span, number_at, number_in, read_fields


@dataclass(frozen=True, slots=True)
class RawArray:
    """An array as its bytes, in the order of the layout of its shape."""

    shape: ArrayShape
    data: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The arguments of a run of one device, and what it returned; None if that was not recorded."""

    arguments: tuple[Literal | RawArray, ...]
    result: Literal | None = None


_HLO, _ARGUMENTS, _RESULT = (fields_of("HloSnapshot")[name].number for name in ("hlo", "arguments", "result"))
_PARTITIONS: Final = fields_of("HloUnoptimizedSnapshot")["partitions"].number
_LITERALS, _DESCRIPTORS, _LENGTH = 1, 2, 2
"""Fields of a partition, and of the descriptor of one of its arguments."""
_BYTES_TAG: Final = 0x0A
"""Field 1 with bytes: the module of a snapshot, and in it its name."""
_HEADER: Final = 8  # the length of the shape, a fixed number of 64 bits


def read_snapshot(data: bytes) -> Snapshot | None:
    """The values in a snapshot; None for bytes that are something else, and for a snapshot without arguments.

    HloError for a snapshot that is corrupt or truncated, and for the arguments of several partitions.

    >>> read_snapshot(b"HloModule m") is None
    True
    """
    with suppress(WireError):
        length, start = number_at(data, 0, len(data))
        if start == 1 and data[0] == _BYTES_TAG == length:
            return _with_literals(*(_recorded(data) if _is_snapshot(data) else _of_partitions(data)))
        if data[start : start + 1] == bytes([_BYTES_TAG]) and start + length <= len(data):
            return _with_raw_arrays(data, start, start + length)
    return None


def _is_snapshot(data: bytes) -> bool:
    """Whether a message has arguments and a module in a `HloProto`, which begins with that module and its name."""
    first = first_span(data, (0, len(data)), _BYTES_TAG)
    inner = number_at(data, first[0] + 1, len(data))[1]
    return data[first[0]] == data[inner] == _BYTES_TAG and any(number == _ARGUMENTS for number, _ in read_fields(data))


def _recorded(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The literals of the arguments and of the result in a `HloSnapshot`."""
    fields = read_fields(data)
    return all_bytes(fields, _ARGUMENTS), all_bytes(fields, _RESULT)


def _of_partitions(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The literals of the arguments in a `HloUnoptimizedSnapshot`; none in a module, which has a name in that field."""
    partitions = [all_bytes(read_fields(each), _LITERALS) for each in all_bytes(read_fields(data), _PARTITIONS)]
    _check_one(partitions)
    return (partitions[0] if partitions else []), []


def _with_literals(arguments: list[bytes], results: list[bytes]) -> Snapshot | None:
    try:
        literals = tuple(literal_of(Message("LiteralProto", each)) for each in arguments)
        result = literal_of(Message("LiteralProto", results[0])) if results else None
    except WireError as error:
        raise HloError(f"the arguments in the snapshot are corrupt: {error.diagnostic.message}", hint=_AGAIN) from None
    return Snapshot(literals, result) if literals else None


def _check_one(partitions: Sequence[Sequence[object]]) -> None:
    """HloError for the arguments of several devices."""
    if len(partitions) > 1 and any(partitions):
        raise HloError(
            f"the snapshot has the arguments of {len(partitions)} partitions; a run takes those of one device",
            hint="pass the arguments with --args",
        )


def _with_raw_arrays(data: bytes, start: int, end: int) -> Snapshot | None:
    partitions = all_bytes(read_fields(data[start:end]), _PARTITIONS)
    sizes = [
        [number_in(dict(read_fields(each)), _LENGTH) for each in all_bytes(read_fields(partition), _DESCRIPTORS)]
        for partition in partitions
    ]
    if not any(sizes):
        return None
    _check_one(sizes)
    arrays, at = list[RawArray](), end
    for size in sizes[0]:
        arrays.append(_raw_array(data[at : at + size], size))
        at += size
    return Snapshot(tuple(arrays))


def _raw_array(data: bytes, size: int) -> RawArray:
    length = int.from_bytes(data[:_HEADER], "little")
    elements = _HEADER + length
    if len(data) < size or elements > size:
        raise HloError("the arguments in the snapshot are truncated", hint=_AGAIN)
    shape = shape_of(Message("ShapeProto", data[_HEADER:elements]))
    if not isinstance(shape, ArrayShape):
        raise HloError(f"an argument in the snapshot is {shape}; only arrays are read", hint="pass --args")
    return RawArray(shape, data[elements:])


_AGAIN: Final = "copy the file again; it may be truncated"
