"""Converts integer arrays to the bytes of .npy files (version 1.0 of numpy.lib.format) and back; reads any others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from hlo_cli.analysis.layout.index_functions import IntArray
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError


def npy_bytes(blocks: Iterable[IntArray], sizes: Sequence[int]) -> Iterator[bytes]:
    """Yields the bytes of a .npy file with an int64 array, from blocks of elements in row-major order.

    >>> np.load(BytesIO(b"".join(npy_bytes([np.arange(4), np.arange(2)], (2, 3)))))
    array([[0, 1, 2],
           [3, 0, 1]])
    """
    header = BytesIO()
    description = {"descr": "<i8", "fortran_order": False, "shape": tuple(sizes)}
    np.lib.format.write_array_header_1_0(header, description)
    yield header.getvalue()
    for block in blocks:
        yield np.ascontiguousarray(block, "<i8").tobytes()


def integers_of(data: bytes, name: str) -> IntArray:
    """Integer array in a .npy file; HloError if it has other content.

    >>> integers_of(b"".join(npy_bytes([np.arange(3)], (3,))), "x.npy")
    array([0, 1, 2])
    """
    try:
        array = array_of(data)
    except ValueError as error:
        raise HloError(f"'{name}' is not a .npy file: {error}") from None
    if not np.issubdtype(array.dtype, np.integer):
        raise HloError(f"'{name}' contains {array.dtype}, expected integers")
    found: IntArray = array
    return found


def array_of(data: bytes) -> np.ndarray[Any, Any]:
    """The array in the bytes of a .npy file; ValueError, which says why, if they hold none.

    >>> array_of(b"".join(npy_bytes([np.arange(3)], (3,)))).shape
    (3,)
    """
    header = npy_header(data)
    if header.size != len(data) - header.begin:
        raise ValueError(f"its header states {header.size:,} bytes of data, found {len(data) - header.begin:,}")
    flat = np.frombuffer(data, header.dtype, offset=header.begin)
    return flat.reshape(header.shape, order="F" if header.is_column_major else "C").copy(order="K")


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """Shape and type of the array in a .npy file, and where its elements begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_column_major: bool
    begin: int

    @property
    def size(self) -> int:
        """Bytes of the elements."""
        return prod(self.shape) * self.dtype.itemsize


def npy_header(data: bytes) -> NpyHeader:
    """The header in the first bytes of a .npy file; ValueError, which says why, if there is none.

    >>> npy_header(b"".join(npy_bytes([np.arange(3)], (3,)))).shape
    (3,)
    """
    stream = BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_column_major, dtype = read(stream)
        header = NpyHeader(tuple(map(int, shape)), np.dtype(dtype), bool(is_column_major), stream.tell())
    except Exception as error:  # noqa: BLE001 - numpy's reader evaluates Python text, which may raise anything
        reason = "it is not an array" if not isinstance(error, ValueError) else " ".join(str(error).split())
        raise ValueError(reason) from None
    if header.dtype.hasobject:
        raise ValueError("it contains pickled Python objects, which are not read")
    if min(header.shape, default=0) < 0 or header.size >= 1 << 63:
        raise ValueError(f"invalid shape {list(header.shape)}")
    return header
