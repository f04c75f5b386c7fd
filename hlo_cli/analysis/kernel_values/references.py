"""Which memory a kernel reads and writes: arrays, parts of them, and the same bits as elements of another type.

A reference is a view: a part shares its memory with the whole. Elements are held as in `typed_values`; semaphores are
counters. What is read is a copy, as memory changes while vectors do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from hlo_cli.analysis.semantics.typed_values import Array, Floats, carrier, from_bits, to_bits
from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.mlir.mlir_values import ArrayType, IntegerType, NamedType, Type
from hlo_cli.source import HloError

Slices: TypeAlias = "tuple[slice, ...]"

_INDEX_BITS = 64  # as `IndexType::kInternalStorageBitWidth`


def element_kind(kind: Type) -> PrimitiveType | None:
    """The element type that XLA has for a type of MLIR; None for semaphores and others without numbers.

    Integers without a sign are read as signed, those of one bit as booleans.

    >>> [str(element_kind(each)) for each in (IntegerType(1), IntegerType(8), NamedType("f8E5M2"), NamedType("index"))]
    ['pred', 's8', 'f8e5m2', 's64']
    """
    if isinstance(kind, ArrayType):
        return element_kind(kind.element)
    if isinstance(kind, IntegerType):
        name = "pred" if kind.width == 1 else f"{'u' if kind.sign == 'u' else 's'}{kind.width}"
        return PRIMITIVE_TYPES.get(name)
    if isinstance(kind, NamedType):
        return PRIMITIVE_TYPES.get(f"s{_INDEX_BITS}" if kind.name == "index" else kind.name.lower())
    return None


def sizes_of(kind: Type) -> tuple[int, ...]:
    """The sizes of a vector or a memref; () for a scalar."""
    return kind.shape or () if isinstance(kind, ArrayType) else ()


class Reference:
    """Memory that a kernel sees as an array; `kind` is None for semaphores."""

    __slots__ = ("array", "kind")

    def __init__(self, array: Array, kind: PrimitiveType | None) -> None:
        self.array = array
        self.kind = kind

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.array.shape

    def within(self, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int] = ()) -> Slices:
        """Slices of a part; HloError if it is not inside, where a chip would stop.

        >>> Reference(np.zeros((8, 4)), None).within((6, 0), (4, 4))
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: elements 6 to 9 of dimension 0 are outside of an array of shape [8,4]
        """
        steps = strides or (1,) * len(sizes)
        slices = []
        for at, (start, size, step, whole) in enumerate(zip(starts, sizes, steps, self.shape, strict=True)):
            last = start + (size - 1) * step
            if start < 0 or last >= whole:
                shape = ",".join(map(str, self.shape))
                raise HloError(
                    f"elements {start} to {last} of dimension {at} are outside of an array of shape [{shape}]"
                )
            slices.append(slice(start, last + 1, step))
        return tuple(slices)

    def part(self, slices: Slices) -> Reference:
        """The memory of a part."""
        return Reference(self.array[slices], self.kind)

    def read(self, slices: Slices) -> Array:
        """The elements of a part."""
        return self.array[slices].copy()

    def write(self, slices: Slices, values: Array) -> None:
        """Replaces the elements of a part."""
        self.array[slices] = values

    def reshaped(self, sizes: tuple[int, ...]) -> Reference:
        """The same memory with other sizes; HloError if its elements do not follow each other in memory.

        >>> Reference(np.zeros((2, 4)), None).reshaped((8,)).shape
        (8,)
        """
        array = self.array.reshape(sizes)
        if array.size and not np.shares_memory(array, self.array):
            raise HloError("a reshaped part of an array with gaps in memory is not supported")
        return Reference(array, self.kind)


class Repacked(Reference):
    """The same memory as elements of another width, which lie one after another along the rows.

    So do TPUs pack narrow elements: a word has those of several rows of one column.
    """

    __slots__ = ("_slices", "base", "floats", "ratio")

    def __init__(self, base: Reference, kind: PrimitiveType, floats: Floats, sizes: tuple[int, ...]) -> None:
        assert base.kind is not None
        self.base = base
        self.floats = floats
        self.ratio = kind.bits / base.kind.bits
        super().__init__(np.broadcast_to(np.zeros((), carrier(kind, floats)), sizes), kind)

    def part(self, slices: Slices) -> Reference:
        """The memory of a part, of whole rows of the wider of the two types."""
        assert self.kind is not None
        return Repacked(self.base.part(self._base_slices(slices)), self.kind, self.floats, self.array[slices].shape)

    def _base_slices(self, slices: Slices) -> Slices:
        """The part of the memory below; HloError if it begins or ends within an element there, or has gaps."""
        if len(slices) < 2:
            raise HloError("a bitcast of memory of less than two dimensions is not supported")
        *lead, rows, columns = slices
        first, last = rows.start * self.ratio, rows.stop * self.ratio
        if rows.step not in (None, 1) or first % 1 or last % 1:
            raise HloError("a part of a bitcast of memory that is not of whole rows is not supported")
        return (*lead, slice(int(first), int(last)), columns)

    def read(self, slices: Slices) -> Array:
        """The elements of a part."""
        assert self.kind is not None
        assert self.base.kind is not None
        rows = slices[-2]
        if rows.step not in (None, 1):  # of rows with gaps, all between are read
            whole = (*slices[:-2], slice(rows.start, rows.stop, 1), slices[-1])
            return self.read(whole)[..., :: rows.step, :]
        return repacked(self.base.read(self._base_slices(slices)), self.base.kind, self.kind, self.floats)

    def write(self, slices: Slices, values: Array) -> None:
        """Replaces the elements of a part."""
        assert self.kind is not None
        assert self.base.kind is not None
        values = np.broadcast_to(values, self.array[slices].shape)
        self.base.write(self._base_slices(slices), repacked(values, self.kind, self.base.kind, self.floats))

    def reshaped(self, sizes: tuple[int, ...]) -> Reference:
        """HloError."""
        raise HloError("a reshaped bitcast of memory is not supported")


def repacked(values: Array, source: PrimitiveType, target: PrimitiveType, floats: Floats) -> Array:
    """The bits of an array as elements of another width; rows are packed into wider ones, the first lowest.

    >>> types = PRIMITIVE_TYPES
    >>> repacked(np.array([[1, 2], [3, 4]], np.int16), types["s16"], types["s32"], "exact").tolist()
    [[196609, 262146]]
    """
    bits = to_bits(np.ascontiguousarray(values), source)
    if source.bits == target.bits:
        return from_bits(bits, target, floats)
    lead, rows, columns = bits.shape[:-2], bits.shape[-2], bits.shape[-1]
    held = np.dtype(f"u{max(source.byte_width, target.byte_width)}")
    if source.bits < target.bits:
        ratio = target.bits // source.bits
        apart = bits.astype(held).reshape(*lead, rows // ratio, ratio, columns)
        places = (np.arange(ratio) * source.bits).astype(held).reshape(ratio, 1)
        return from_bits(np.asarray(np.bitwise_or.reduce(apart << places, axis=-2)), target, floats)
    ratio = source.bits // target.bits
    places = (np.arange(ratio) * target.bits).astype(held).reshape(ratio, 1)
    mask = held.type((1 << target.bits) - 1)
    apart = (bits.astype(held).reshape(*lead, rows, 1, columns) >> places) & mask
    flat = apart.reshape(*lead, rows * ratio, columns).astype(f"u{target.byte_width}")
    return from_bits(flat, target, floats)
