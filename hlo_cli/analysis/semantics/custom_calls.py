"""Custom calls whose meaning is known: annotations, pieces of TPU and GPU compilers, and LAPACK.

Targets are those of `analysis/custom_calls/targets.py`; each rule says where its meaning is from.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.lapack_calls import LAPACK_CALLS
from hlo_cli.analysis.semantics.library_calls import LIBRARY_CALLS
from hlo_cli.analysis.semantics.number_types import Array, carrier
from hlo_cli.analysis.semantics.ordering import largest_first
from hlo_cli.analysis.semantics.tpu_factorizations import TPU_FACTORIZATIONS
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, zeros_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError

_IDENTITIES: Final = frozenset(
    (
        "AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked", "LayoutConstraint", "MoveToDevice", "MoveToHost",
        "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding", "annotate_device_placement",
        "xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape",
    )
)  # fmt: skip
"""Targets that return their first operand on one device."""


def target_of_call(instruction: Instruction) -> str:
    """The target of a custom call."""
    return instruction.string("custom_call_target") or ""


def custom_call(instruction: Instruction, computed: Computed) -> Kernel:
    """The kernel of a known target; HloError that names an unknown one."""
    rule = rule_of_target(instruction)
    if rule is None:
        target = target_of_call(instruction)
        raise HloError(
            f"cannot evaluate the custom call {instruction.name}: the meaning of {target} is unknown", instruction.span
        )
    return rule(instruction, computed)


def rule_of_target(instruction: Instruction) -> Rule | None:
    """The rule of the target of a custom call; None if it is unknown."""
    target = target_of_call(instruction)
    if target in _IDENTITIES:
        return _identity
    if target == "ConcatBitcast":
        return None if _joined_dimension(instruction) is None else _joined_in_memory
    if target == "ZeroCrop":
        return _cropped if _has_same_places(instruction) else None
    if target == "Eigh" and _is_complex(instruction):
        return None  # its vectors are unique only up to factors, which depend on the method
    if target in _RULES:
        return _RULES[target]
    if instruction.called_computations and (target == "HostExecute" or target.startswith("TODO")):
        return _called
    if not any(isinstance(leaf, ArrayShape) for _, leaf in instruction.shape.leaves):
        return _zeros  # it acts on something else, such as a log
    return None


def _identity(instruction: Instruction, computed: Computed) -> Kernel:
    return lambda value, *others: value


def _joined_dimension(instruction: Instruction) -> int | None:
    """The dimension along which a ConcatBitcast joins its operands, whose buffers lie one after another in memory.

    It is the most major one that is not of size 1, and pieces are whole tiles; None if that does not hold, since where
    elements are would then be a guess.
    """
    shape = instruction.shape
    parts = [instruction.operand_shape(at) for at in range(len(instruction.operands))]
    if not isinstance(shape, ArrayShape):
        return None
    sizes = shape.dimensions
    order = [at for at in reversed(shape.layout.minor_to_major) if sizes[at] != 1]
    if not order or not parts:
        return None
    first = order[0]
    tile = shape.layout.tiles[0].dimensions if shape.layout.tiles else ()
    place = shape.layout.minor_to_major.index(first)
    whole = tile[-1 - place] if place < len(tile) else 1
    total = 0
    for part in parts:
        if (
            not isinstance(part, ArrayShape)
            or part.element_type is not shape.element_type
            or part.layout.minor_to_major != shape.layout.minor_to_major
            or part.layout.tiles != shape.layout.tiles
            or total % whole
            or any(a != b for at, (a, b) in enumerate(zip(part.dimensions, sizes, strict=True)) if at != first)
        ):
            return None
        total += part.dimensions[first]
    return first if total == sizes[first] else None


def _joined_in_memory(instruction: Instruction, computed: Computed) -> Kernel:
    """Pieces that lie one after another in memory, as one array."""
    dimension = _joined_dimension(instruction)
    assert dimension is not None
    return lambda *parts: np.concatenate(parts, axis=dimension)


def _is_complex(instruction: Instruction) -> bool:
    shape = instruction.operand_shape(0)
    return isinstance(shape, ArrayShape) and shape.element_type.is_complex


def _has_same_places(instruction: Instruction) -> bool:
    """Whether the result has the elements of the operand where they are: it takes the padding of its tiles in."""
    old, new = instruction.operand_shape(0) if instruction.operands else None, instruction.shape
    if not isinstance(old, ArrayShape) or not isinstance(new, ArrayShape):
        return False
    return (
        old.element_type is new.element_type
        and len(old.dimensions) == len(new.dimensions)
        and old.layout.minor_to_major == new.layout.minor_to_major
        and old.layout.tiles == new.layout.tiles
        and all(a <= b for a, b in zip(old.dimensions, new.dimensions, strict=True))
        and old.tiling.physical == new.tiling.physical
    )


def _cropped(instruction: Instruction, computed: Computed) -> Kernel:
    """The elements of an array, and zeros where it has padding, which becomes part of the array."""
    shape = instruction.shape
    assert isinstance(shape, ArrayShape)

    def kernel(x: Array) -> Value:
        result = np.zeros(shape.dimensions, x.dtype)
        result[tuple(map(slice, x.shape))] = x
        return result

    return kernel


def _called(instruction: Instruction, computed: Computed) -> Kernel:
    function = computed.function(instruction.called_computations[0])
    return lambda *operands: function(operands)


def _zeros(instruction: Instruction, computed: Computed) -> Kernel:
    """A buffer with undefined contents."""
    value = zeros_of(instruction.shape, computed)
    return lambda *operands: value


def _top_k(instruction: Instruction, computed: Computed) -> Kernel:
    """Values and indices of the largest elements of the last dimension."""
    assert isinstance(instruction.shape, TupleShape)
    shape = instruction.shape.elements[0]
    assert isinstance(shape, ArrayShape)
    count = shape.dimensions[-1]
    return lambda x, *others: largest_first(x, count)


def _partial_reduce(instruction: Instruction, computed: Computed) -> Kernel:
    """The first step of an approximate top-k on TPU: element t competes for bin t modulo the number of bins."""
    assert isinstance(instruction.shape, TupleShape)
    shape = instruction.shape.elements[0]
    assert isinstance(shape, ArrayShape)
    dimension = _number_in(instruction, "reduction_dim", len(shape.dimensions) - 1)
    count = len(instruction.operands) // 2
    bins = shape.dimensions[dimension]
    replaces = computed.vectorized(instruction.called_computations[0])

    def kernel(*given: Value) -> Value:
        arrays = [np.moveaxis(np.asarray(each), dimension, -1) for each in given[:count]]
        best = [np.broadcast_to(np.asarray(each), (*arrays[0].shape[:-1], bins)) for each in given[count:]]
        length = arrays[0].shape[-1]
        for start in range(0, length, bins):
            block = [x[..., start : start + bins] for x in arrays]
            width = block[0].shape[-1]
            held = [x[..., :width] for x in best]
            pairs: list[Array] = []
            for new, old in zip(block, held, strict=True):
                pairs += [new, old]
            takes = replaces(pairs)[0].astype(bool)
            best = [
                np.concatenate((np.where(takes, new, old[..., :width]), old[..., width:]), axis=-1)
                for new, old in zip(block, best, strict=True)
            ]
        return tuple(np.moveaxis(x, -1, dimension) for x in best)

    return kernel


def _number_in(instruction: Instruction, name: str, default: int) -> int:
    """A number in the JSON of backend_config."""
    import json

    text = instruction.attribute("backend_config") or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        return default
    value = found.get(name, default) if isinstance(found, dict) else default
    return int(value)


def _split(low: bool) -> Rule:
    """Half of a wide value: of an f64 its leading float, or what that leaves; of a u64 its low or its high word."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        source = instruction.operand_shape(0)
        assert isinstance(source, ArrayShape)
        kind = source.element_type

        def kernel(x: Array) -> Array:
            if kind.is_complex:
                return (np.real(x) if low else np.imag(x)).copy()
            if kind.kind == "float":
                leading = x.astype(np.float32)
                if computed.floats == "widen":
                    return x if low else np.zeros_like(x)
                with np.errstate(invalid="ignore"):
                    rest = np.where(np.isfinite(leading), x - leading.astype(np.float64), 0)
                return leading if low else rest.astype(np.float32)
            bits = x.view(np.uint64)
            return (bits & np.uint64(0xFFFFFFFF) if low else bits >> np.uint64(32)).astype(np.uint32)

        return kernel

    return rule


def _combine(instruction: Instruction, computed: Computed) -> Kernel:
    """A wide value of its two halves."""
    shape = instruction.shape
    assert isinstance(shape, ArrayShape)
    kind = shape.element_type

    def kernel(low: Array, high: Array) -> Array:
        if kind.is_complex:
            result = np.empty(low.shape, carrier(kind, computed.floats))
            result.real, result.imag = low, high
            return result
        if kind.kind == "float":
            return low.astype(np.float64) + high.astype(np.float64)
        words = low.view(np.uint32).astype(np.uint64) | (high.view(np.uint32).astype(np.uint64) << np.uint64(32))
        return words.view(carrier(kind))

    return kernel


def _pad_to_static(instruction: Instruction, computed: Computed) -> Kernel:
    """An array at its true size becomes one of the largest size, and the true sizes."""
    assert isinstance(instruction.shape, TupleShape)
    shape = instruction.shape.elements[0]
    assert isinstance(shape, ArrayShape)

    def kernel(x: Array) -> Value:
        result = np.zeros(shape.dimensions, x.dtype)
        result[tuple(map(slice, x.shape))] = x
        return (result, *(np.array(size, np.int32) for size in x.shape))

    return kernel


def _slice_to_dynamic(instruction: Instruction, computed: Computed) -> Kernel:
    """An array of the largest size is cut to its true sizes."""
    return lambda x, *sizes: x[tuple(slice(0, int(size)) for size in sizes)]


_RULES: Final[dict[str, Rule]] = {
    **LAPACK_CALLS,
    **LIBRARY_CALLS,
    **TPU_FACTORIZATIONS,
    "AllocateBuffer": _zeros,
    "PadToStatic": _pad_to_static,
    "PartialReduce": _partial_reduce,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _top_k,
    "X64Combine": _combine,
    "X64SplitHigh": _split(False),
    "X64SplitLow": _split(True),
    "__gpu$TopK": _top_k,
}
"""The rule of each target that has a meaning of its own."""

HANDLERS: Final[dict[str, Rule]] = {"custom-call": custom_call}
"""The rule of custom calls."""
