"""Holds the arithmetic of an array's addresses against doing the tiling."""

from __future__ import annotations

import numpy as np

from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.layout.inverse_map import inverse_map
from hlo_cli.analysis.layout.reference_tiling import in_memory
from hlo_cli.ir.shape import ArrayShape


def verify_index_map(shape: ArrayShape) -> bool:
    """Whether padding, reshaping and transposing the array puts every element where its address says, and back.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> verify_index_map(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    True
    """
    memory = in_memory(shape.sizes, shape.layout).ravel()
    forward = np.array_equal(memory[address_map(shape).ravel()], np.arange(shape.elements))
    return forward and np.array_equal(inverse_map(shape)[: memory.size], memory)
