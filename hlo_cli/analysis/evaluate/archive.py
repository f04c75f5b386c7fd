"""Arrays in `.npz` and `.npy` files; the same values give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.source import HloError


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


def arrays_in(data: bytes, name: str) -> Iterator[tuple[str | None, Array]]:
    """The arrays of a file with their names; the one of a `.npy` file has none. HloError for other content.

    >>> [(name, array.tolist()) for name, array in arrays_in(npz_bytes({"p0": np.arange(2)}), "a.npz")]
    [('p0', [0, 1])]
    """
    try:
        loaded = np.load(BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            yield None, loaded
            return
        with loaded:
            for each in loaded.files:
                yield each, loaded[each]
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        reason = "it is not an archive of arrays" if "allow_pickle" in str(error) else str(error)
        raise HloError(f"cannot read {name}: {reason}", hint="supported: .npz, .npy, .json") from None


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
