"""Arrays as a `.npz` archive, the same bytes for the same values."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from zipfile import ZipFile, ZipInfo

import numpy as np

from hlo_cli.analysis.evaluate.number_types import Array


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
