"""Arrays in `.npz` and `.npy` files; the same values give the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Final
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from hlo_cli.analysis.layout.relayout import NpyHeader, array_of, npy_header
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.source import HloError

Check = Callable[[str, tuple[int, ...]], None]
"""Raises HloError for the name or the shape of an array that is not wanted."""

_GIB: Final = 2**30
_HEADER: Final = 1 << 14
"""Bytes that hold the header of any array: numpy reads at most 10,000 characters."""


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The archive; numpy reads it with `load`.

    >>> np.load(BytesIO(npz_bytes({"result": np.arange(3)})))["result"].tolist()
    [0, 1, 2]
    """
    found = BytesIO()
    with ZipFile(found, "w") as file:
        for name, array in arrays.items():
            data = BytesIO()
            np.save(data, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            file.writestr(ZipInfo(f"{name.replace('/', '_')}.npy"), data.getvalue())
    return found.getvalue()


def arrays_in(
    data: bytes, name: str, *, check: Check | None = None, max_bytes: int | None = None
) -> Iterator[tuple[str | None, Array]]:
    """The arrays of a file with their names; the one of a `.npy` file has none. HloError for other content.

    An archive of a few MB may hold terabytes of zeros: `check` is called with all names and shapes, and their size is
    compared with `max_bytes`, before anything is inflated.

    >>> [(name, array.tolist()) for name, array in arrays_in(npz_bytes({"p0": np.arange(2)}), "a.npz")]
    [('p0', [0, 1])]
    """
    try:
        if not data.startswith(b"PK"):
            yield None, array_of(data)
            return
        with ZipFile(BytesIO(data)) as file:
            headers = {each: _header_in(file, each) for each in file.infolist() if not each.is_dir()}
            total = sum(header.size for header in headers.values()) / _GIB
            for each, header in headers.items():
                if check is not None:
                    check(_array_name(each), header.shape)
            if max_bytes is not None and total * _GIB > max_bytes:
                raise HloError(
                    f"the arrays in {name} have {total:.3g} GiB, above the limit of {max_bytes / _GIB:.3g} GiB",
                    hint="use --max-memory SIZE to raise the limit",
                )
            for each, header in headers.items():
                with file.open(each) as member:
                    yield _array_name(each), array_of(member.read(header.begin + header.size + 1))
    except (ValueError, OSError, EOFError, BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise HloError(f"cannot read {name}: {error}", hint="supported: .npz, .npy, .json") from None


def _header_in(file: ZipFile, member: ZipInfo) -> NpyHeader:
    """The header of an array in an archive, of which no more is inflated."""
    with file.open(member) as stream:
        header = npy_header(stream.read(_HEADER))
    if header.begin + header.size != member.file_size:
        found = member.file_size - header.begin
        raise ValueError(f"the header of {member.filename} states {header.size:,} bytes of data, found {found:,}")
    return header


def _array_name(member: ZipInfo) -> str:
    """The name of an array as numpy gives it."""
    return member.filename.removesuffix(".npy")


def array_of_numbers(value: object) -> Array:
    """Numbers in nested lists as an array; HloError for anything else.

    >>> array_of_numbers([[1, 2]]).shape
    (1, 2)
    """
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise HloError("expected lists of equal lengths") from error
    if found.dtype.kind not in "biufc":
        raise HloError(f"expected numbers, found {type(value).__name__}")
    return found
