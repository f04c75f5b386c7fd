"""Converts integer arrays to the bytes of .npy files (version 1.0 of numpy.lib.format) and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO

import numpy as np

from hlo_cli.analysis.layout.index_functions import IntArray
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
        array = np.load(BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise HloError(f"'{name}' is not a .npy file: {error}") from None
    if not np.issubdtype(array.dtype, np.integer):
        raise HloError(f"'{name}' contains {array.dtype}, expected integers")
    found: IntArray = array
    return found
