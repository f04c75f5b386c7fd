"""Arrays as the bytes that they have in memory: in the order of their layout, with tiles, padding, and packed elements.

Where each element is comes from `analysis.layout.address_map`; the bits of an element are those of its type, the
lowest byte first. Mirrors the buffers of `ShapedBuffer` after `TransferManager::TransferLiteralToDevice`.
"""

from __future__ import annotations

import numpy as np

from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, from_bits, to_bits
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError


def bytes_in_memory(values: Array, shape: ArrayShape) -> bytes:
    """The bytes of an array in memory; padding is zero. `values` are in logical order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> list(bytes_in_memory(np.array([[1, 2, 3], [4, 5, 6]]), parse_shape("s8[2,3]{0,1:T(2)}")))
    [1, 4, 2, 5, 3, 6]
    >>> bytes_in_memory(np.array([1, 2, 3]), parse_shape("s4[3]{0:E(4)}")).hex()
    '2103'
    """
    check_shape(shape)
    if values.shape != shape.dimensions:
        raise HloError(f"the value has sizes {list(values.shape)}, but the layout is that of {shape}")
    kind = shape.element_type
    held = np.ascontiguousarray(values, carrier(kind)).reshape(-1)
    at = address_map(shape).reshape(-1)
    if shape.element_bits < 8:
        return _packed(to_bits(held, kind), at, shape)
    bits = held if held.dtype.kind == "c" else to_bits(held, kind)
    memory = np.zeros((shape.padded_bytes // kind.byte_width, kind.byte_width), np.uint8)
    memory[at] = bits.view(np.uint8).reshape(-1, kind.byte_width)
    return memory.tobytes()


def array_in_memory(data: bytes, shape: ArrayShape, floats: Floats = "exact") -> Array:
    """The array, in logical order, whose bytes in memory are given; HloError for another number of bytes.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> array_in_memory(bytes([1, 4, 2, 5, 3, 6]), parse_shape("s8[2,3]{0,1:T(2)}")).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    check_shape(shape)
    if len(data) != shape.padded_bytes:
        raise HloError(f"{shape} takes {shape.padded_bytes:,} bytes, found {len(data):,}")
    kind = shape.element_type
    memory = np.frombuffer(data, np.uint8)
    at = address_map(shape)
    if shape.element_bits < 8:
        bits = shape.element_bits
        first = at * bits
        found = (memory[first // 8] >> (first % 8).astype(np.uint8)) & np.uint8((1 << bits) - 1)
        return from_bits(found, kind, floats)
    bytes_ = np.ascontiguousarray(memory.reshape(-1, kind.byte_width)[at])
    if carrier(kind).kind == "c":
        return bytes_.view(carrier(kind)).reshape(shape.dimensions).astype(carrier(kind, floats), copy=False)
    return from_bits(bytes_.view(f"u{kind.byte_width}").reshape(shape.dimensions), kind, floats)


def check_shape(shape: ArrayShape) -> None:
    """HloError for dynamic arrays, and for elements of other sizes than whole bytes or a part of one."""
    bits = shape.element_bits
    if shape.is_dynamic:
        raise HloError(f"{shape} is dynamic; its bytes in memory are those of an unknown size")
    if bits != 8 * shape.element_type.byte_width and (bits not in (1, 2, 4) or bits < shape.element_type.bits):
        raise HloError(f"elements of {bits} bits cannot be read from bytes, as in {shape}")


def _packed(bits: Array, at: Array, shape: ArrayShape) -> bytes:
    """Elements narrower than a byte, the first in the lowest bits."""
    size = shape.element_bits
    memory = np.zeros(shape.padded_bytes, np.uint8)
    first = at * size
    np.bitwise_or.at(memory, first // 8, (bits << (first % 8).astype(np.uint8)).astype(np.uint8))
    return memory.tobytes()
