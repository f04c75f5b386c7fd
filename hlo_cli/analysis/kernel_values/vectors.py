"""What the operations of a kernel make of whole vectors: products, reductions, parts, and other orders of elements.

Mirrors mlir/include/mlir/Dialect/Vector/IR/VectorOps.td and mosaic/dialect/tpu/tpu_ops.td.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hlo_cli.analysis.kernel_values.arithmetic import (
    Function,
    Operand,
    Rule,
    as_array,
    integer_attribute,
    is_integer,
    number_kind,
    result_type,
    unsupported,
)
from hlo_cli.analysis.kernel_values.references import sizes_of
from hlo_cli.analysis.semantics.elementwise import converted, elementwise_function
from hlo_cli.analysis.semantics.products import contracted
from hlo_cli.analysis.semantics.typed_values import Array, Floats, carrier, from_bits, settle, to_bits
from hlo_cli.ir.attributes.value_types import DotDimensionNumbers
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.mlir.mlir_operations import Operation
from hlo_cli.mlir.mlir_values import Attribute, DenseArray, IntegerAttribute, ListAttribute, TextAttribute


def integers(attribute: Attribute | None) -> tuple[int, ...]:
    """The numbers of an attribute: one, a list, or an array; () without it."""
    if isinstance(attribute, IntegerAttribute):
        return (attribute.value,)
    if isinstance(attribute, DenseArray):
        return attribute.values
    if isinstance(attribute, ListAttribute):
        return tuple(each.value for each in attribute.items if isinstance(each, IntegerAttribute))
    return ()


def word_of(attribute: Attribute | None) -> str:
    """The word between the brackets of a dialect's attribute, such as `add` of `#vector.kind<add>`."""
    match = re.search(r"<(\w+)>", attribute.text) if isinstance(attribute, TextAttribute) else None
    return match[1] if match else ""


# --- the same elements with other sizes, in another order, and parts ---


def _broadcast(operation: Operation, floats: Floats) -> Function:
    """`vector.broadcast`: repeated along new and single dimensions."""
    sizes, kind = sizes_of(result_type(operation)), number_kind(result_type(operation))
    return lambda x: np.broadcast_to(as_array(x, kind, floats), sizes)


def _shape_cast(operation: Operation, floats: Floats) -> Function:
    """`vector.shape_cast`: the same elements in row-major order."""
    sizes = sizes_of(result_type(operation))
    return lambda x: np.reshape(x, sizes)


def _extract(operation: Operation, floats: Floats) -> Function:
    """`vector.extract`: an element or a part at positions of the first dimensions."""
    if len(operation.operands) > 1:
        raise unsupported(operation, "its position is dynamic")
    position = integers(operation.attributes.get("static_position") or operation.attributes.get("position"))
    if is_integer(result_type(operation)):
        return lambda x: int(x[position])
    return lambda x: x[position]


def _strided_slice(operation: Operation, floats: Floats) -> Function:
    """`vector.extract_strided_slice`."""
    found = [integers(operation.attributes.get(name)) for name in ("offsets", "sizes", "strides")]
    slices = tuple(slice(at, at + (size - 1) * step + 1, step) for at, size, step in zip(*found, strict=True))
    return lambda x: x[slices]


def _insert_strided_slice(operation: Operation, floats: Floats) -> Function:
    """`vector.insert_strided_slice`: the second operand with the first in the place of a part."""
    offsets = integers(operation.attributes.get("offsets"))

    def run(part: Array, whole: Array) -> Array:
        result = whole.copy()
        sizes = (1,) * (whole.ndim - part.ndim) + part.shape
        result[tuple(slice(at, at + size) for at, size in zip(offsets, sizes, strict=True))] = part
        return result

    return run


def _concatenate(operation: Operation, floats: Floats) -> Function:
    """`tpu.concatenate`."""
    dimension = integer_attribute(operation, "dimension")
    return lambda *parts: np.concatenate(parts, axis=dimension)


def _transpose(operation: Operation, floats: Floats) -> Function:
    """`tpu.transpose`, `vector.transpose`."""
    permutation = integers(operation.attributes.get("permutation"))
    return lambda x: np.transpose(x, permutation)


def _repeat(operation: Operation, floats: Floats) -> Function:
    """`tpu.repeat`: the whole vector, several times."""
    dimension, times = integer_attribute(operation, "dimension"), integer_attribute(operation, "times", 1)
    return lambda x: np.concatenate((x,) * times, axis=dimension)


def _rotate(operation: Operation, floats: Floats) -> Function:
    """`tpu.rotate`, `tpu.dynamic_rotate`: to higher indices; with a stride, row n of another dimension n of it more."""
    dimension = integer_attribute(operation, "dimension")
    amount = integer_attribute(operation, "amount")
    stride = operation.attributes.get("stride")
    if not isinstance(stride, IntegerAttribute):
        return lambda x, by=amount: np.roll(x, by, axis=dimension)
    along, more = integer_attribute(operation, "stride_dimension"), stride.value

    def run(x: Array, by: int = amount) -> Array:
        rows = [np.take(x, [at], axis=along) for at in range(x.shape[along])]
        return np.concatenate([np.roll(row, by + at * more, axis=dimension) for at, row in enumerate(rows)], axis=along)

    return run


def _iota(operation: Operation, floats: Floats) -> Function:
    """`tpu.iota`: the row-major number of an element in some dimensions, or its index in one of them."""
    sizes, kind = sizes_of(result_type(operation)), number_kind(result_type(operation))
    attributes = operation.attributes
    chosen = integers(attributes.get("dimensions") or attributes.get("dimension")) or tuple(range(len(sizes)))
    shape = [sizes[at] if at in chosen else 1 for at in range(len(sizes))]

    def run() -> Array:
        numbers = np.arange(prod(sizes[at] for at in chosen)).astype(carrier(kind, floats))
        apart = numbers.reshape([sizes[at] for at in chosen])
        # The named dimensions in the order of the vector; the others repeat them.
        return np.broadcast_to(np.transpose(apart, np.argsort(chosen)).reshape(shape), sizes)

    return run


def _gather(operation: Operation, floats: Floats) -> Function:
    """`tpu.dynamic_gather`: along some dimensions, the element at the index of each place."""
    attributes = operation.attributes
    dimensions = integers(attributes.get("dimensions") or attributes.get("dimension"))
    if len(dimensions) != 1:
        raise unsupported(operation, "it has several dimensions")
    axis = dimensions[0]
    # Indices outside wrap around: the hardware looks at the low bits (tpu_ops.td, TPU_DynamicGatherOp).
    return lambda x, indices: np.take_along_axis(x, indices.astype(np.int64) % x.shape[axis], axis=axis)


# --- sums ---


_KINDS: Final = {
    "add": "add", "mul": "multiply", "minui": "minimum", "minsi": "minimum", "minimumf": "minimum",
    "maxui": "maximum", "maxsi": "maximum", "maximumf": "maximum", "and": "and", "or": "or", "xor": "xor",
    "minnumf": "minimum", "maxnumf": "maximum", "sum": "add", "max": "maximum", "min": "minimum",
}  # fmt: skip
"""The opcode of HLO for each kind of reduction (`vector.kind`, `tpu.reduction_kind`)."""
_UFUNCS: Final[dict[str, np.ufunc]] = {
    "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _reduced(x: Array, opcode: str, axes: tuple[int, ...], floats: Floats) -> Array:
    """A reduction; sums and products of floats are made in f64 and rounded once."""
    wide = x.astype(np.float64) if x.dtype.kind == "f" and opcode in ("add", "multiply") else x
    kept = None if x.dtype.kind == "f" else x.dtype
    return np.asarray(_UFUNCS[opcode].reduce(wide, axis=axes, dtype=kept))


def _multi_reduction(operation: Operation, floats: Floats) -> Function:
    """`vector.multi_reduction`: over some dimensions, with an accumulator."""
    word = word_of(operation.attributes.get("kind"))
    opcode = _KINDS.get(word)
    if opcode is None or word in ("minui", "maxui"):
        raise unsupported(operation, f"the kind {word or 'of the reduction'} is unknown")
    axes = integers(operation.attributes.get("reduction_dims"))
    kind = number_kind(result_type(operation))
    combine = elementwise_function(opcode, kind)
    is_number = is_integer(result_type(operation))

    def run(x: Array, accumulator: Operand) -> Any:
        found = settle(_reduced(x, opcode, axes, floats), kind, floats)
        result = settle(np.asarray(combine(found, as_array(accumulator, kind, floats))), kind, floats)
        return int(result) if is_number else result

    return run


def _reduce_index(operation: Operation, floats: Floats) -> Function:
    """`tpu.reduce_index`: the place of the first maximum or minimum."""
    axis = integer_attribute(operation, "axis")
    kind = number_kind(result_type(operation))
    function = {"arg_max": np.argmax, "arg_min": np.argmin}.get(word_of(operation.attributes.get("kind")))
    if function is None:
        raise unsupported(operation, "its kind is unknown")
    return lambda x: function(x, axis=axis).astype(carrier(kind, floats))


def _all_reduce(operation: Operation, floats: Floats) -> Function:
    """`tpu.all_reduce`: a reduction along one dimension, repeated along it."""
    axis = integer_attribute(operation, "dim")
    word = word_of(operation.attributes.get("kind"))
    kind = number_kind(result_type(operation))
    if word not in _KINDS:
        raise unsupported(operation, f"the kind {word or 'of the reduction'} is unknown")
    sizes = sizes_of(result_type(operation))

    def run(x: Array) -> Array:
        found = np.expand_dims(_reduced(x, _KINDS[word], (axis,), floats), axis)
        return np.broadcast_to(settle(found, kind, floats), sizes)

    return run


_LISTS: Final = re.compile(r"\[([\d, ]*)\]")


def _matmul(operation: Operation, floats: Floats) -> Function:
    """`tpu.matmul`: products summed in f64, rounded once, and added to the accumulator."""
    kind = number_kind(result_type(operation))
    numbers = operation.attributes.get("dimension_numbers")
    if isinstance(numbers, TextAttribute):
        found = [tuple(map(int, each.split(","))) if each else () for each in _LISTS.findall(numbers.text)]
        left, right, left_free, right_free, order, left_batch, right_batch = (*found, *((),) * 7)[:7]
    else:  # before dimension numbers: rows by columns, or either transposed
        is_set = [integer_attribute(operation, name) != 0 for name in ("transpose_lhs", "transpose_rhs")]
        left, right = (0 if is_set[0] else 1,), (1 if is_set[1] else 0,)
        left_free, right_free, left_batch, right_batch, order = (1 - left[0],), (1 - right[0],), (), (), ()
    natural = [(0, at) for at in (*left_batch, *left_free)] + [(1, at) for at in right_free]
    wanted = list(zip(order[::2], order[1::2], strict=False)) or natural
    permutation = [natural.index(each) for each in wanted if each in natural]
    if len(permutation) != len(natural):
        raise unsupported(operation, "the order of its dimensions is unknown")
    dimensions = DotDimensionNumbers(left, right, left_batch, right_batch)

    def run(x: Array, y: Array, accumulator: Array) -> Array:
        product = np.transpose(contracted(x, y, dimensions), permutation)
        with np.errstate(over="ignore", invalid="ignore"):
            return settle(settle(product, kind, floats) + accumulator, kind, floats)

    return run


# --- several narrow elements in a wide one ---


def _pack(operation: Operation, floats: Floats) -> Function:
    """`tpu.pack_elementwise`: each element of the result has one of every operand, the first lowest."""
    kinds = [number_kind(each.type) for each in operation.operands]
    target, packed = number_kind(result_type(operation)), _packed_kind(operation, "target_type")

    def run(*parts: Array) -> Array:
        result = np.zeros(parts[0].shape, np.uint64)
        for at, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
            bits = to_bits(np.ascontiguousarray(converted(part, kind, packed, "exact")), packed)
            result |= bits.astype(np.uint64) << np.uint64(at * packed.bits)
        return from_bits(result.astype(f"u{target.byte_width}"), target, floats)

    return run


def _unpack(operation: Operation, floats: Floats) -> Function:
    """`tpu.unpack_elementwise`: the part with a number of each element, as a wider type."""
    source, target = number_kind(operation.operands[0].type), number_kind(result_type(operation))
    packed, at = _packed_kind(operation, "source_type"), integer_attribute(operation, "index")

    def run(x: Array) -> Array:
        bits = to_bits(np.ascontiguousarray(x), source).astype(np.uint64) >> np.uint64(at * packed.bits)
        narrow = (bits & np.uint64((1 << packed.bits) - 1)).astype(f"u{packed.byte_width}")
        return converted(from_bits(narrow, packed, floats), packed, target, floats)

    return run


def _packed_kind(operation: Operation, name: str) -> Any:
    kind = getattr(operation.attributes.get(name), "type", None)
    if kind is None:
        raise unsupported(operation, f"it has no {name}")
    return number_kind(kind)


def _from_elements(operation: Operation, floats: Floats) -> Function:
    """`vector.from_elements`: numbers in row-major order."""
    sizes, kind = sizes_of(result_type(operation)), number_kind(result_type(operation))
    return lambda *x: np.array(x, carrier(kind, floats)).reshape(sizes)


def _mask(operation: Operation, floats: Floats) -> Function:
    """`tpu.create_mask`: true within bounds, which are the lower ones of all dimensions and then the upper ones."""
    sizes = sizes_of(result_type(operation))

    def run(*bounds: int) -> Array:
        result = np.zeros(sizes, PRIMITIVE_BOOL)
        lows: Sequence[int] = bounds[: len(sizes)]
        highs: Sequence[int] = bounds[len(sizes) :]
        result[tuple(slice(max(low, 0), max(high, 0)) for low, high in zip(lows, highs, strict=True))] = True
        return result

    return run


PRIMITIVE_BOOL: Final = carrier(PRIMITIVE_TYPES["pred"])

VECTORS: Final[dict[str, Rule]] = {
    "tpu.all_reduce": _all_reduce,
    "tpu.concatenate": _concatenate,
    "tpu.create_mask": _mask,
    "tpu.dynamic_gather": _gather,
    "tpu.dynamic_rotate": _rotate,
    "tpu.iota": _iota,
    "tpu.matmul": _matmul,
    "tpu.pack_elementwise": _pack,
    "tpu.reduce_index": _reduce_index,
    "tpu.repeat": _repeat,
    "tpu.reshape": _shape_cast,
    "tpu.rotate": _rotate,
    "tpu.transpose": _transpose,
    "tpu.unpack_elementwise": _unpack,
    "vector.broadcast": _broadcast,
    "vector.extract": _extract,
    "vector.extract_strided_slice": _strided_slice,
    "vector.from_elements": _from_elements,
    "vector.insert_strided_slice": _insert_strided_slice,
    "vector.multi_reduction": _multi_reduction,
    "vector.shape_cast": _shape_cast,
    "vector.splat": _broadcast,
    "vector.transpose": _transpose,
}
"""The rule of each operation on vectors."""
