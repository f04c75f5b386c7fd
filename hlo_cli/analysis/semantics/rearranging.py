"""What opcodes compute that move elements and leave each as it is: reshapes, transposes, pads, bitcasts, sorts.

Elements move by their positions, by the layout in memory, or by keys that a comparison sorts by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.semantics.elementwise import ordered, reinterpreted
from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Floats,
    Kernel,
    Rule,
    Value,
    array_of,
    array_shape,
    carrier,
    from_bits,
    operand_array_shape,
    settle,
    to_bits,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import ShuffleMode
from hlo_cli.ir.attributes.value_types import ArrayLiteral, PaddingConfig, Slice, dilated
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

# --- arrays as bytes in memory ---
# Arrays as the bytes that they have in memory: in the order of their layout, with tiles, padding, and packed elements.
#
# Where each element is comes from `analysis.layout.address_map`; the bits of an element are those of its type, the
# lowest byte first. Mirrors the buffers of `ShapedBuffer` after `TransferManager::TransferLiteralToDevice`.


def bytes_in_memory(values: Array, shape: ArrayShape) -> bytes:
    """The bytes of an array in memory; padding is zero. `values` are in logical order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> list(bytes_in_memory(np.array([[1, 2, 3], [4, 5, 6]]), parse_shape("s8[2,3]{0,1:T(2)}")))
    [1, 4, 2, 5, 3, 6]
    >>> bytes_in_memory(np.array([1, 2, 3]), parse_shape("s4[3]{0:E(4)}")).hex()
    '2103'
    """
    _check_shape(shape)
    if values.shape != shape.dimensions:
        raise HloError(f"the value has sizes {list(values.shape)}, but the layout is that of {shape}")
    kind = shape.element_type
    carried = np.ascontiguousarray(values, carrier(kind)).reshape(-1)
    addresses = address_map(shape).reshape(-1)
    if shape.element_bits < 8:
        return _packed(to_bits(carried, kind), addresses, shape)
    # Complex numbers are their two parts one after another.
    bits = carried if carried.dtype.kind == "c" else to_bits(carried, kind)
    memory = np.zeros((shape.padded_bytes // kind.byte_width, kind.byte_width), np.uint8)
    memory[addresses] = bits.view(np.uint8).reshape(-1, kind.byte_width)
    return memory.tobytes()


def array_in_memory(data: bytes, shape: ArrayShape, floats: Floats = "exact") -> Array:
    """The array, in logical order, whose bytes in memory are given; HloError for another number of bytes.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> array_in_memory(bytes([1, 4, 2, 5, 3, 6]), parse_shape("s8[2,3]{0,1:T(2)}")).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    _check_shape(shape)
    if len(data) != shape.padded_bytes:
        raise HloError(f"{shape} takes {shape.padded_bytes:,} bytes, found {len(data):,}")
    kind = shape.element_type
    memory = np.frombuffer(data, np.uint8)
    addresses = address_map(shape)
    if shape.element_bits < 8:
        # Narrow elements are packed, the first in the lowest bits of a byte.
        bits = shape.element_bits
        first = addresses * bits
        narrow = (memory[first // 8] >> (first % 8).astype(np.uint8)) & np.uint8((1 << bits) - 1)
        return from_bits(narrow, kind, floats)
    bytes_ = np.ascontiguousarray(memory.reshape(-1, kind.byte_width)[addresses])
    if carrier(kind).kind == "c":
        return bytes_.view(carrier(kind)).reshape(shape.dimensions).astype(carrier(kind, floats), copy=False)
    return from_bits(bytes_.view(f"u{kind.byte_width}").reshape(shape.dimensions), kind, floats)


def _check_shape(shape: ArrayShape) -> None:
    """HloError for dynamic arrays, and for elements of other sizes than whole bytes or a part of one."""
    bits = shape.element_bits
    if shape.is_dynamic:
        raise HloError(f"{shape} is dynamic; its bytes in memory are those of an unknown size")
    # Elements wider than their type would leave bits without meaning.
    if bits != 8 * shape.element_type.byte_width and (bits not in (1, 2, 4) or bits < shape.element_type.bits):
        raise HloError(f"elements of {bits} bits cannot be read from bytes, as in {shape}")


def _packed(bits: Array, addresses: Array, shape: ArrayShape) -> bytes:
    """Elements narrower than a byte, the first in the lowest bits."""
    size = shape.element_bits
    memory = np.zeros(shape.padded_bytes, np.uint8)
    first = addresses * size
    np.bitwise_or.at(memory, first // 8, (bits << (first % 8).astype(np.uint8)).astype(np.uint8))
    return memory.tobytes()


# --- moves by position ---
# Opcodes that make arrays of positions, or move elements without looking at them.
#
# Mirrors the handlers of the same names in xla/hlo/evaluator/hlo_evaluator.cc.


def iota(instruction: Instruction, computed: Computed) -> Kernel:
    """The position along one dimension, as a number of the type."""
    shape = array_shape(instruction)
    dimension = instruction.integer("iota_dimension") or 0
    numpy_type = carrier(shape.element_type, computed.floats)
    if 0 in shape.dimensions:  # another dimension may be huge
        return lambda: np.zeros(shape.dimensions, numpy_type)
    sizes = [1] * len(shape.dimensions)
    sizes[dimension] = shape.dimensions[dimension]
    counted = settle(np.arange(shape.dimensions[dimension]).astype(numpy_type), shape.element_type, computed.floats)
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
    # With one dynamic dimension its size is what the others leave.
    if sum(shape.dynamic_dimensions) == 1:
        dimension = shape.dynamic_dimensions.index(True)
        result[dimension] = prod(sizes) // max(1, prod(result[:dimension] + result[dimension + 1 :]))
        return result
    begins, ends = [0, 0], [0, 0]
    while ends[0] < len(bounds) and ends[1] < shape.rank:
        ends = [ends[0] + 1, ends[1] + 1]
        # Runs of dimensions with equal numbers of elements correspond.
        while (left := prod(bounds[begins[0] : ends[0]])) != (right := prod(shape.dimensions[begins[1] : ends[1]])):
            side = 0 if left < right else 1
            ends[side] += 1
            if ends[side] > (len(bounds), shape.rank)[side]:
                return result
        dynamic = [dimension for dimension in range(begins[1], ends[1]) if shape.dynamic_dimensions[dimension]]
        if dynamic:
            others = prod(result[dimension] for dimension in range(begins[1], ends[1]) if dimension != dynamic[0])
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
    # A positive shift moves toward index 0, the opposite of numpy's.
    return lambda x: np.roll(x, [-shift for shift in shifts], dimensions)


def concatenate(instruction: Instruction, computed: Computed) -> Kernel:
    """The operands one after another along a dimension."""
    at = instruction.integers("dimensions")[0]
    return lambda *parts: np.concatenate(parts, at)


def _slice_(instruction: Instruction, computed: Computed) -> Kernel:
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
        # Negative low padding removes elements after the interior padding was inserted.
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
    # Equal tiles on equal sizes keep each element in its place within the tile.
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
    if _is_row_major(old) and _is_row_major(new):
        if types[0] is types[1]:
            return lambda x: x.reshape(new.dimensions)
        return lambda x: reinterpreted(x, *types, new.dimensions, computed.floats)
    if types[0].bits == types[1].bits and (view := _view_of_memory(old, new)) is not None:
        if types[0] is types[1]:
            return view
        return lambda x: reinterpreted(view(x), *types, new.dimensions, computed.floats)
    # With other widths only bytes are common to both types.
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
    return (_is_row_major(old) and _is_row_major(new)) or (
        old.element_type.bits == new.element_type.bits and _view_of_memory(old, new) is not None
    )


def set_dimension_size(instruction: Instruction, computed: Computed) -> Kernel:
    """An array whose dimension has a size computed at run time: it is cut to that size, or filled up with zeros."""
    dimension = instruction.integers("dimensions")[0]

    def kernel(x: Array, size: Array) -> Array:
        if int(size) < 0:
            raise ValueError(f"the size of dimension {dimension} is {int(size)}")
        cut = x[tuple(slice(0, int(size)) if place == dimension else slice(None) for place in range(x.ndim))]
        # Elements beyond the current size are undefined in XLA; zeros here.
        if (missing := min(int(size), bound) - cut.shape[dimension]) > 0:
            return np.pad(cut, [(0, missing if place == dimension else 0) for place in range(x.ndim)])
        return cut

    bound = array_shape(instruction).dimensions[dimension]
    return kernel


def get_dimension_size(instruction: Instruction, computed: Computed) -> Kernel:
    """The size of a dimension at run time."""
    at = instruction.integers("dimensions")[0]
    return lambda x: np.array(x.shape[at], np.int32)


def _is_row_major(shape: ArrayShape) -> bool:
    """Whether elements are stored in logical order, without tiles; dimensions of one element do not matter."""
    layout = shape.layout
    # A dimension of one element has the same address in any place.
    order = [at for at in layout.minor_to_major if shape.dimensions[at] != 1]
    return not layout.tiles and order == sorted(order, reverse=True)


def elements_of(shape: ArrayShape) -> int:
    """The number of elements of an array."""
    return prod(shape.dimensions)


SHAPING_RULES: Final[dict[str, Rule]] = {
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
    opcodes.SLICE: _slice_,
    opcodes.TRANSPOSE: transpose,
}
"""The rule of each opcode that moves elements by fixed rules."""


# --- keys of comparisons ---
# The keys by which a comparison of two elements sorts, so that they are computed once and not for each comparison.


Order: TypeAlias = npt.NDArray[np.int64]

_MAX_COMPARATOR_INSTRUCTIONS: Final = 400
"""The largest comparison, in instructions, that is looked at: each may be nested in the next."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value computed from one element of each operand, and how two of them are compared."""

    value: Instruction
    is_ascending: bool
    is_total: bool


def sort_keys(computation: Computation) -> tuple[SortKey, ...] | None:
    """The keys of a comparison, the first of which decides unless it is equal; None if it compares otherwise.

    A comparison has keys if both sides are the same function of one element and the other, as in all that JAX writes.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }"
    >>> sort_keys(parse_module(text).entry)
    (SortKey(value=<parameter a>, is_ascending=False, is_total=False),)
    """
    root = computation.root
    # Each instruction may be nested in the next, and walking them is quadratic.
    if root is None or len(computation.instructions) > _MAX_COMPARATOR_INSTRUCTIONS:
        return None
    found: list[SortKey] = []
    rest = root
    while (parts := _alternatives(rest)) is not None:
        key, rest = parts
        found.append(key)
    last = _strict(rest)
    return _keys_by_truth(root) if last is None else (*found, last)


def _alternatives(root: Instruction) -> tuple[SortKey, Instruction] | None:
    """The key of `less or (equal and rest)`, with the rest."""
    # Lexicographic comparators of several operands are `a < b or (a == b and rest)`, as JAX emits them.
    if root.opcode != "or":
        return None
    for less, both in (root.operands, root.operands[::-1]):
        if both.opcode != opcodes.AND or (key := _strict(less)) is None:
            continue
        for same, rest in (both.operands, both.operands[::-1]):
            if _is_equality(same, key):
                return key, rest
    return None


def _strict(instruction: Instruction) -> SortKey | None:
    """The key of a strict comparison of an element with the other one."""
    direction = instruction.attribute("direction")
    if instruction.opcode != opcodes.COMPARE or direction not in ("LT", "GT"):
        return None
    left, right = instruction.operands
    if not _is_mirrored(left, right):
        return None
    sides = _sides(left)
    if len(sides) != 1:
        return None
    is_ascending = (direction == "LT") == (sides == {0})
    return SortKey(left, is_ascending, instruction.attribute("type") == "TOTALORDER")


def _is_equality(instruction: Instruction, key: SortKey) -> bool:
    if instruction.opcode != opcodes.COMPARE or instruction.attribute("direction") != "EQ":
        return False
    if (instruction.attribute("type") == "TOTALORDER") != key.is_total:
        return False
    left, right = instruction.operands
    return _is_mirrored(left, right) and (_is_same(left, key.value) or _is_same(right, key.value))


_MAX_KEYS: Final = 4
"""The most keys whose cases are looked at: three for each, so 81."""
_DIRECTIONS: Final = {"EQ": (0,), "NE": (-1, 1), "LT": (-1,), "LE": (-1, 0), "GT": (1,), "GE": (0, 1)}
"""For each direction, the signs of a difference for which it holds."""
_EXACT_DIFFERENCES: Final = ("bf16", "f16", "f32", "f64")
"""Types whose differences are 0 for equal numbers alone, and have the sign of the order."""


def _keys_by_truth(root: Instruction) -> tuple[SortKey, ...] | None:
    """The keys of a comparison by what it is in each case, each key less, equal, or greater; None if it has none."""
    keys: list[SortKey] = []
    tests: dict[Instruction, tuple[int, tuple[int, ...]]] = {}
    pending, seen = [root], {root}
    while pending:
        each = pending.pop()
        if (test := _test(each, keys)) is not None:
            tests[each] = test
            continue
        operands = {*each.operands} - seen
        if each.opcode not in _LOGIC or len(keys) > _MAX_KEYS or not all(map(_is_predicate, each.operands)):
            return None
        seen |= operands
        pending += operands
    if len(keys) > _MAX_KEYS:
        return None
    cases = list(product((-1, 0, 1), repeat=len(keys)))
    truth = {case: _holds(root, case, tests, {}) for case in cases}
    return _lexicographic(keys, truth) or None


_LOGIC: Final = (opcodes.AND, "not", "or", "xor", "select", opcodes.COMPARE, opcodes.CONSTANT)


def _is_predicate(value: Instruction) -> bool:
    return isinstance(value.shape, ArrayShape) and value.shape.element_type.kind == "pred"


def _test(instruction: Instruction, keys: list[SortKey]) -> tuple[int, tuple[int, ...]] | None:
    """The place of the key that a comparison is of, which joins the others, and the signs for which it holds."""
    signs = _DIRECTIONS.get(instruction.attribute("direction") or "")
    if instruction.opcode != opcodes.COMPARE or signs is None:
        return None
    (left, right), is_total = instruction.operands, instruction.attribute("type") == "TOTALORDER"
    # The difference of two infinities is no number, so it is equal to none.
    if 0 not in signs and len(signs) == 1 and not is_total and (parts := _difference(left, right)) is not None:
        left, right = parts
    if not _is_mirrored(left, right) or len(sides := _sides(left)) != 1:
        return None
    if sides == {1}:
        signs, left = tuple(-each for each in signs), right
    for at, key in enumerate(keys):
        if key.is_total == is_total and _is_same(key.value, left):
            return at, signs
    keys.append(SortKey(left, is_ascending=True, is_total=is_total))
    return len(keys) - 1, signs


def _difference(left: Instruction, right: Instruction) -> tuple[Instruction, Instruction] | None:
    """The two numbers whose difference is compared with zero, as if they were compared."""
    swapped = left.opcode == opcodes.CONSTANT
    found, zero = (right, left) if swapped else (left, right)
    if found.opcode != "subtract" or zero.opcode != opcodes.CONSTANT or not isinstance(zero.literal, ArrayLiteral):
        return None
    shape = found.shape
    # Integers wrap, and narrower floats have no infinity for what is too large.
    if not isinstance(shape, ArrayShape) or shape.element_type.name not in _EXACT_DIFFERENCES:
        return None
    if any(operand.shape != shape for operand in found.operands) or zero.literal.array().any():
        return None
    first, second = found.operands
    return (second, first) if swapped else (first, second)


def _holds(
    instruction: Instruction,
    case: tuple[int, ...],
    tests: Mapping[Instruction, tuple[int, tuple[int, ...]]],
    known: dict[Instruction, bool],
) -> bool:
    """What a condition is if the keys of two elements compare as in a case."""
    if instruction in known:
        return known[instruction]
    if instruction in tests:
        at, signs = tests[instruction]
        found = case[at] in signs
    elif instruction.opcode == opcodes.CONSTANT:
        literal = instruction.literal
        found = isinstance(literal, ArrayLiteral) and bool(literal.array().all())
    else:
        x, *others = (_holds(each, case, tests, known) for each in instruction.operands)
        found = _logic(instruction, x, *others)
    known[instruction] = found
    return found


def _logic(instruction: Instruction, x: bool, y: bool = False, z: bool = False) -> bool:
    match instruction.opcode:
        case opcodes.AND:
            return x and y
        case "or":
            return x or y
        case "xor":
            return x != y
        case "not":
            return not x
        case "select":
            return y if x else z
    return (x > y) - (x < y) in _DIRECTIONS[instruction.attribute("direction") or "EQ"]


def _lexicographic(keys: Sequence[SortKey], truth: Mapping[tuple[int, ...], bool]) -> tuple[SortKey, ...] | None:
    """Keys in the order in which they decide, ascending or descending; None if cases are no such order."""
    if not any(truth.values()):
        return ()
    for at, key in enumerate(keys):
        found = {sign: {holds for case, holds in truth.items() if case[at] == sign} for sign in (-1, 0, 1)}
        if (found[-1], found[1]) in (({True}, {False}), ({False}, {True})):
            rest = _lexicographic(keys, {case: holds for case, holds in truth.items() if case[at] == 0})
            return None if rest is None else (replace(key, is_ascending=found[-1] == {True}), *rest)
    return None


def _is_mirrored(left: Instruction, right: Instruction) -> bool:
    """Whether two values are the same function of the two elements, each of the other one."""
    return _agree(left, right, 1)


def _is_same(left: Instruction, right: Instruction) -> bool:
    return _agree(left, right, 0)


def _agree(left: Instruction, right: Instruction, swapped: int) -> bool:
    """Whether two values are made alike, of parameters whose numbers are the same, or those of the other element."""
    visited: set[tuple[Instruction, Instruction]] = set()
    pending = [(left, right)]
    while pending:
        a, b = pair = pending.pop()
        if pair in visited:
            continue
        visited.add(pair)
        if a.opcode != b.opcode or a.shape != b.shape or len(a.operands) != len(b.operands) or a.called_computations:
            return False
        if (number := a.parameter_number) is not None:
            # Parameters 2k and 2k + 1 are the elements of operand k.
            if b.parameter_number != number ^ swapped:
                return False
        elif a is not b and (_attributes(a) != _attributes(b) or _constant(a) != _constant(b)):
            return False
        pending += zip(a.operands, b.operands, strict=True)
    return True


def _attributes(instruction: Instruction) -> list[tuple[str, str]]:
    return [pair for pair in instruction.pairs if pair[0] not in ("metadata", "backend_config")]


def _constant(instruction: Instruction) -> str:
    return instruction.raw[0] if instruction.opcode == opcodes.CONSTANT else ""


def _sides(value: Instruction) -> set[int]:
    """0 for the first element, 1 for the second one: those that a value is made of."""
    return {each.parameter_number % 2 for each in _made_of(value) if each.parameter_number is not None}


def _made_of(value: Instruction) -> set[Instruction]:
    seen, pending = {value}, [value]
    while pending:
        new = set(pending.pop().operands) - seen
        seen |= new
        pending += new
    return seen


def _key_function(key: SortKey, computation: Computation, computed: Computed) -> Callable[[Sequence[Array]], Array]:
    """Computes a key of all elements from the operands of the sort, element by element."""
    needed = _made_of(key.value)
    steps = [
        (each, computed.kernel(each, on_arrays=True))
        for each in computation.instructions
        if each in needed and each.parameter_number is None
    ]
    given = [(each, each.parameter_number // 2) for each in needed if each.parameter_number is not None]

    def run(operands: Sequence[Array]) -> Array:
        values = {each: operands[at] for each, at in given}
        for each, kernel in steps:
            values[each] = array_of(kernel(*(values[operand] for operand in each.operands)))
        return values[key.value]

    return run


def _order_by(keys: Sequence[tuple[SortKey, Array]]) -> Order | None:
    """The stable order of the last dimension by keys and their values; None for values without order, such as NaN.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = s8[] parameter(0)  b = s8[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }"
    >>> [key] = sort_keys(parse_module(text).entry)
    >>> _order_by([(key, np.array([1, 3, 3, 2]))]).tolist()
    [1, 2, 3, 0]
    """
    order: Order | None = None
    for key, values in reversed(keys):
        numbers = _numbers(key, values)
        if numbers is None:
            return None
        if order is None:
            order = stable_order(numbers)
        else:
            order = np.take_along_axis(order, stable_order(np.take_along_axis(numbers, order, -1)), -1)
    return order


def _numbers(key: SortKey, values: Array) -> Array | None:
    """Integers that are in the order of a key."""
    # NaN is not ordered by LT: such sorts depend on the algorithm.
    if values.dtype.kind == "c" or (values.dtype.kind == "f" and not key.is_total and bool(np.isnan(values).any())):
        return None
    if values.dtype.kind == "f":
        # Without TOTALORDER -0 equals +0.
        values = ordered(values if key.is_total else values + values.dtype.type(0))  # zeros are equal: -0 becomes +0
    return values if key.is_ascending else np.invert(values)


def stable_order(numbers: Array) -> Order:
    """The order of integers along the last dimension, equal ones as they are.

    Numbers of 32 bits are sorted as one number of 64 bits with their position, which is faster than a stable sort.

    >>> stable_order(np.array([3, 1, 3, -1])).tolist()
    [3, 1, 0, 2]
    """
    if numbers.dtype.itemsize > 4 or numbers.dtype.itemsize < 4 or numbers.shape[-1] < _PACKED:
        return np.argsort(numbers, axis=-1, kind="stable")
    wide = np.uint64 if numbers.dtype.kind == "u" else np.int64
    # Value and position in one integer: numpy's plain sort of 64 bits is faster than its stable one of 32.
    high = numbers.astype(wide) << wide(32)
    high |= np.arange(numbers.shape[-1], dtype=wide)
    high.sort(axis=-1)
    high &= wide(0xFFFFFFFF)
    return high.astype(np.int64)


_PACKED: Final = 64  # packing takes some calls of numpy, whatever the length; chosen, not measured
"""The shortest dimension for which that pays."""


# --- sorts ---
# Sorting by any comparison, and the largest elements.
#
# Mirrors `HandleSort` and `HandleTopK` of the evaluator. Sorting is stable, whatever the text says.


Less = Callable[[Sequence[Array]], tuple[Array, ...]]


def sort(instruction: Instruction, computed: Computed) -> Kernel:
    """Sorts the operands along a dimension by a comparison of their elements."""
    dimension = instruction.integers("dimensions")[0]
    computation = instruction.called_computations[0]
    keys = [(key, _key_function(key, computation, computed)) for key in sort_keys(computation) or ()]
    less = computed.vectorized(computation)

    def kernel(*operands: Value) -> Value:
        moved = [np.moveaxis(array_of(each), dimension, -1) for each in operands]
        sizes = moved[0].shape
        order = _order_by([(key, np.broadcast_to(value(moved), sizes)) for key, value in keys]) if keys else None
        if order is None:
            order = sorted_order(moved, less)
        taken = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, dimension) for x in moved)
        return taken[0] if len(taken) == 1 else taken

    return kernel


def sorted_order(keys: Sequence[Array], less: Less) -> Order:
    """The stable order of the last dimension: runs of doubling length are merged, all rows at once."""
    length = keys[0].shape[-1]
    # All rows at once: each level is a few calls of numpy, whatever the comparison is.
    rows = [x.reshape(-1, length) for x in keys]
    count = rows[0].shape[0]
    order = np.broadcast_to(np.arange(length), (count, length)).copy()
    width = 1
    while width < length:
        order = _merged(rows, order, width, less)
        width *= 2
    return order.reshape(keys[0].shape)


def _merged(rows: Sequence[Array], order: Order, width: int, less: Less) -> Order:
    """Merges each pair of neighboring runs: every element of the left one finds by binary search what goes before it.

    The elements of the right runs take the places that are left.
    """
    count, length = order.shape
    place = np.arange(length)
    is_left = (place // width % 2 == 0) & (place // width * width + width < length)
    left = place[is_left]
    begin = left // width * width + width
    low = np.zeros((count, len(left)), np.int64)
    high = low + np.minimum(width, length - begin)
    row, mine = np.arange(count)[:, np.newaxis], order[:, is_left]
    values = [x[row, mine] for x in rows]
    while (open_ := low < high).any():
        middle = (low + high) // 2
        other = order[row, np.minimum(begin + middle, length - 1)]
        pairs = [each for x, value in zip(rows, values, strict=True) for each in (x[row, other], value)]
        before = less(pairs)[0]
        low, high = np.where(open_ & before, middle + 1, low), np.where(open_ & ~before, middle, high)
    # a comparison that contradicts itself must not send two elements to one place
    low = np.maximum.accumulate(low.reshape(count, -1, width), axis=-1).reshape(low.shape)
    is_taken = np.zeros(order.shape, bool)
    is_taken[row, left + low] = True
    result = np.empty_like(order)
    result[row, left + low] = mine
    result[~is_taken] = order[:, ~is_left].reshape(-1)
    return result


def top_k(instruction: Instruction, computed: Computed) -> Kernel:
    """The largest, or the smallest, elements of the last dimension with their indices; ties by lower index."""
    count = instruction.integer("k") or 0
    if instruction.attribute("largest") == "false":
        return lambda x: _first_of(x, stable_order(ordered(x)), count)
    return lambda x: largest_first(x, count)


def largest_first(x: Array, count: int) -> Value:
    """The largest elements of the last dimension and their indices; NaN is larger than all numbers.

    >>> [each.tolist() for each in largest_first(np.array([1, 3, 3, 2]), 2)]
    [[3, 3], [1, 2]]
    """
    return _first_of(x, stable_order(np.invert(ordered(x))), count)


def _first_of(x: Array, order: Order, count: int) -> Value:
    taken = order[..., :count]
    return np.take_along_axis(x, taken, -1), taken.astype(np.int32)


SORTING_RULES: Final[dict[str, Rule]] = {"sort": sort, "topk": top_k}
"""The rule of each opcode that orders."""
