"""Opcodes that make arrays of positions, or move elements without looking at them.

Mirrors the handlers of the same names in xla/hlo/evaluator/hlo_evaluator.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.semantics.conversions import reinterpreted
from hlo_cli.analysis.semantics.memory_image import array_in_memory, bytes_in_memory
from hlo_cli.analysis.semantics.number_types import Array, carrier, settle
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, array_shape, operand_array_shape
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import ShuffleMode
from hlo_cli.ir.attributes.value_types import PaddingConfig, Slice, dilated
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError


def iota(instruction: Instruction, computed: Computed) -> Kernel:
    """The position along one dimension, as a number of the type."""
    shape = array_shape(instruction)
    at = instruction.integer("iota_dimension") or 0
    held = carrier(shape.element_type, computed.floats)
    if 0 in shape.dimensions:  # another dimension may be huge
        return lambda: np.zeros(shape.dimensions, held)
    sizes = [1] * len(shape.dimensions)
    sizes[at] = shape.dimensions[at]
    counted = settle(np.arange(shape.dimensions[at]).astype(held), shape.element_type, computed.floats)
    return lambda: np.broadcast_to(counted.reshape(sizes), shape.dimensions)


def broadcast(instruction: Instruction, computed: Computed) -> Kernel:
    """Each dimension of the operand becomes one of the result, in any order; the others repeat it."""
    dimensions, shape = instruction.integers("dimensions"), array_shape(instruction)
    order = sorted(range(len(dimensions)), key=lambda at: dimensions[at])
    places = sorted(dimensions)

    def kernel(x: Array) -> Array:
        placed, sizes = [1] * shape.rank, list(shape.dimensions)
        for at, place in zip(order, places, strict=True):
            placed[place] = x.shape[at]
            if shape.dynamic_dimensions[place]:
                sizes[place] = x.shape[at]
        return np.broadcast_to(x.transpose(order).reshape(placed), sizes)

    return kernel


def reshape(instruction: Instruction, computed: Computed) -> Kernel:
    """The same elements in row-major order."""
    shape = array_shape(instruction)
    if shape.is_dynamic:
        bounds = operand_array_shape(instruction, 0).dimensions
        return lambda x: x.reshape(_sizes_at_run_time(bounds, x.shape, shape))
    return lambda x: x.reshape(shape.dimensions)


def dynamic_reshape(instruction: Instruction, computed: Computed) -> Kernel:
    """The same elements with sizes that are operands."""
    return lambda x, *sizes: x.reshape([int(each) for each in sizes])


def _sizes_at_run_time(bounds: tuple[int, ...], sizes: tuple[int, ...], shape: ArrayShape) -> list[int]:
    """The sizes of a dynamic reshape: of each run of dimensions with as many elements, the dynamic one follows."""
    result = list(shape.dimensions)
    if sum(shape.dynamic_dimensions) == 1:
        at = shape.dynamic_dimensions.index(True)
        result[at] = prod(sizes) // max(1, prod(result[:at] + result[at + 1 :]))
        return result
    begins, ends = [0, 0], [0, 0]
    while ends[0] < len(bounds) and ends[1] < shape.rank:
        ends = [ends[0] + 1, ends[1] + 1]
        while (left := prod(bounds[begins[0] : ends[0]])) != (right := prod(shape.dimensions[begins[1] : ends[1]])):
            side = 0 if left < right else 1
            ends[side] += 1
            if ends[side] > (len(bounds), shape.rank)[side]:
                return result
        dynamic = [at for at in range(begins[1], ends[1]) if shape.dynamic_dimensions[at]]
        if dynamic:
            others = prod(result[at] for at in range(begins[1], ends[1]) if at != dynamic[0])
            result[dynamic[0]] = prod(sizes[begins[0] : ends[0]]) // max(1, others)
        begins = ends
    return result


def transpose(instruction: Instruction, computed: Computed) -> Kernel:
    """The dimensions in another order."""
    order = instruction.integers("dimensions")
    return lambda x: x.transpose(order)


def reverse(instruction: Instruction, computed: Computed) -> Kernel:
    """Elements in the opposite order along some dimensions."""
    dimensions = instruction.integers("dimensions")
    return lambda x: np.flip(x, dimensions)


def shuffle(instruction: Instruction, computed: Computed) -> Kernel:
    """Elements rotated along some dimensions, towards index 0 for a positive shift (`ShuffleExpander` of XLA)."""
    if instruction.value("mode") is not ShuffleMode.ROTATE:
        raise HloError(f"cannot evaluate {instruction.name}: unknown mode", instruction.span)
    dimensions, shifts = instruction.integers("dimensions"), instruction.integers("shifts")
    return lambda x: np.roll(x, [-shift for shift in shifts], dimensions)


def concatenate(instruction: Instruction, computed: Computed) -> Kernel:
    """The operands one after another along a dimension."""
    at = instruction.integers("dimensions")[0]
    return lambda *parts: np.concatenate(parts, at)


def slice_(instruction: Instruction, computed: Computed) -> Kernel:
    """Every stride-th element of a range of each dimension."""
    given = instruction.value_of(opcodes.SLICE, Slice)
    assert given is not None
    ranges = tuple(slice(each.start, each.limit, each.stride) for each in given.dimensions)
    return lambda x: x[ranges]


def pad(instruction: Instruction, computed: Computed) -> Kernel:
    """Elements around an array and between its elements; negative edges remove elements, after padding inside."""
    config = instruction.value_of("padding", PaddingConfig)
    assert config is not None

    def kernel(x: Array, value: Array) -> Array:
        return padded(
            x, value, [(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in config.dimensions]
        )

    return kernel


def padded(x: Array, value: Array, config: list[tuple[int, int, int]]) -> Array:
    """An array with `(low, high, interior)` padding in each dimension.

    >>> padded(np.array([1, 2]), np.array(0), [(1, -1, 2)]).tolist()
    [0, 1, 0, 0]
    """
    spread = [dilated(size, inside + 1) for size, (_, _, inside) in zip(x.shape, config, strict=True)]
    sizes = [max(0, low + size + high) for size, (low, high, _) in zip(spread, config, strict=True)]
    result = np.full(sizes, value, x.dtype)
    into, of = [], []
    for size, count, (low, _, inside) in zip(sizes, x.shape, config, strict=True):
        step = inside + 1
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(count, (size - low + step - 1) // step) if size > low else 0
        last = max(last, first)
        into.append(
            slice(low + first * step, low + (last - 1) * step + 1 if last > first else low + first * step, step)
        )
        of.append(slice(first, last))
    result[tuple(into)] = x[tuple(of)]
    return result


def _view_of_memory(old: ArrayShape, new: ArrayShape) -> Callable[[Array], Array] | None:
    """A bitcast as a change of the order of dimensions: of layouts whose tiles, and the sizes in them, are the same."""
    layouts = old.layout, new.layout
    if layouts[0].tiles != layouts[1].tiles or any(each.split_configs for each in layouts):
        return None
    before, after = (each.minor_to_major[::-1] for each in layouts)
    sizes = [old.dimensions[at] for at in before], [new.dimensions[at] for at in after]
    tiles = [each.dimensions for each in layouts[0].tiles]
    tiled = len(tiles[0]) if tiles else 0
    if any(COMBINE in each or len(each) > tiled for each in tiles):
        return None
    if tiled > min(map(len, sizes)) or sizes[0][len(before) - tiled :] != sizes[1][len(after) - tiled :]:
        return None
    if prod(sizes[0]) != prod(sizes[1]):
        return None
    back = np.argsort(after) if after else ()
    if sizes[0] == sizes[1]:
        return lambda x: x.transpose(before).transpose(back)
    return lambda x: x.transpose(before).reshape(sizes[1]).transpose(back)


def bitcast(instruction: Instruction, computed: Computed) -> Kernel:
    """Another shape for the same bytes of memory."""
    old, new = operand_array_shape(instruction, 0), array_shape(instruction)
    types = old.element_type, new.element_type
    if is_row_major(old) and is_row_major(new):
        if types[0] is types[1]:
            return lambda x: x.reshape(new.dimensions)
        return lambda x: reinterpreted(x, *types, new.dimensions, computed.floats)
    if types[0].bits == types[1].bits and (view := _view_of_memory(old, new)) is not None:
        if types[0] is types[1]:
            return view
        return lambda x: reinterpreted(view(x), *types, new.dimensions, computed.floats)
    if types[0].bits != types[1].bits:
        return lambda x: array_in_memory(bytes_in_memory(x, old), new, computed.floats)
    read, write = address_map(old).reshape(-1), address_map(new).reshape(-1)
    room = max(int(read.max(initial=-1)), int(write.max(initial=-1))) + 1

    def kernel(x: Array) -> Array:
        memory = np.zeros(room, x.dtype)
        memory[read] = x.reshape(-1)
        moved = memory[write].reshape(new.dimensions)
        if types[0] is types[1]:
            return moved
        return reinterpreted(moved, *types, new.dimensions, computed.floats)

    return kernel


def keeps_order(old: ArrayShape, new: ArrayShape) -> bool:
    """Whether a bitcast is a view or a reshape; others have two maps of addresses, which take 8 bytes an element."""
    return (is_row_major(old) and is_row_major(new)) or (
        old.element_type.bits == new.element_type.bits and _view_of_memory(old, new) is not None
    )


def set_dimension_size(instruction: Instruction, computed: Computed) -> Kernel:
    """An array whose dimension has a size computed at run time: it is cut to that size, or filled up with zeros."""
    at = instruction.integers("dimensions")[0]

    def kernel(x: Array, size: Array) -> Array:
        if int(size) < 0:
            raise ValueError(f"the size of dimension {at} is {int(size)}")
        found = x[tuple(slice(0, int(size)) if place == at else slice(None) for place in range(x.ndim))]
        if (missing := min(int(size), bound) - found.shape[at]) > 0:
            return np.pad(found, [(0, missing if place == at else 0) for place in range(x.ndim)])
        return found

    bound = array_shape(instruction).dimensions[at]
    return kernel


def get_dimension_size(instruction: Instruction, computed: Computed) -> Kernel:
    """The size of a dimension at run time."""
    at = instruction.integers("dimensions")[0]
    return lambda x: np.array(x.shape[at], np.int32)


def is_row_major(shape: ArrayShape) -> bool:
    """Whether elements are stored in logical order, without tiles; dimensions of one element do not matter."""
    layout = shape.layout
    order = [at for at in layout.minor_to_major if shape.dimensions[at] != 1]
    return not layout.tiles and order == sorted(order, reverse=True)


def elements_of(shape: ArrayShape) -> int:
    """The number of elements of an array."""
    return prod(shape.dimensions)


HANDLERS: Final[dict[str, Rule]] = {
    opcodes.BITCAST: bitcast,
    opcodes.BROADCAST: broadcast,
    opcodes.CONCATENATE: concatenate,
    opcodes.DYNAMIC_RESHAPE: dynamic_reshape,
    "get-dimension-size": get_dimension_size,
    "iota": iota,
    "pad": pad,
    opcodes.RESHAPE: reshape,
    "reverse": reverse,
    "set-dimension-size": set_dimension_size,
    "shuffle": shuffle,
    opcodes.SLICE: slice_,
    opcodes.TRANSPOSE: transpose,
}
"""The rule of each opcode that moves elements by fixed rules."""
