"""The rule of every opcode and custom call: how a kernel for an instruction is made.

Rules of arithmetic stand in the chapters beside this one; those that call computations, pass on tuples and
tokens, start asynchronous operations, or depend on the target of a custom call stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics import elementwise, linear_algebra, products, rearranging, scatter_and_reduce
from hlo_cli.analysis.semantics.linear_algebra import LAPACK_CALLS, TPU_FACTORIZATIONS
from hlo_cli.analysis.semantics.products import LIBRARY_CALLS
from hlo_cli.analysis.semantics.rearranging import largest_first
from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Kernel,
    Rule,
    Taken,
    Taking,
    Value,
    array_of,
    carrier,
    settled,
    zeros_of,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Name
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE, OPCODE_ARITY, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError

# --- calls, tuples, and tokens ---
# Opcodes that call computations, and those of tuples and tokens.
#
# Mirrors xla/hlo/evaluator/hlo_evaluator.cc.


def called(instruction: Instruction, attribute: str) -> Computation:
    """The computation that an attribute names."""
    name = instruction.value_of(attribute, Name)
    for computation in instruction.called_computations:
        if name is not None and computation.name == name.name:
            return computation
    raise HloError(f"{instruction.opcode} {instruction.name} has no {attribute}", instruction.span)


def _tuple_(instruction: Instruction, computed: Computed) -> Kernel:
    """The operands as one value."""
    return lambda *parts: parts


def get_tuple_element(instruction: Instruction, computed: Computed) -> Kernel:
    """One element of a tuple."""
    at = instruction.integer("index") or 0
    return lambda parts: parts[at]


def elements_first(computation: Computation) -> list[Instruction]:
    """The instructions with parameters first, and then their elements, so that a tuple does not hold them for long."""

    def place(instruction: Instruction) -> int:
        if instruction.parameter_number is not None:
            return 0
        # Elements of parameters first, so that the tuple is let go.
        is_element = instruction.opcode == opcodes.GET_TUPLE_ELEMENT
        return 1 if is_element and instruction.operands[0].parameter_number is not None else 2

    return sorted(computation.instructions, key=place)


def call(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the called computation: of a call, a fusion, or an asynchronous start."""
    function = computed.function(instruction.called_computations[0])
    return Taking(function)


def _map_(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs a computation of scalars on all elements at once."""
    function = computed.vectorized(instruction.called_computations[0])
    return lambda *operands: function(operands)[0]


_OFTEN: Final = 24  # chosen: to write and compile the function takes as long as so many iterations
"""After how many iterations a loop is computed by a function of its own, if it can be."""


def _while_(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the body while the condition holds."""
    condition = computed.function(called(instruction, "condition"))
    body = computed.function(called(instruction, "body"))
    most = computed.max_iterations
    ran = 0
    advance: Callable[[Value, int], tuple[Value, int]] | None = None

    def take(state: list[Value]) -> Value:
        nonlocal ran, advance
        rounds, is_advanced = 0, False
        while True:
            if advance is not None and not is_advanced:
                # What is left, an iteration that it cannot compute or the last condition, is for the rules.
                value, rounds = advance(state[0], rounds)
                state, is_advanced = Taken((value,)), True
                del value
            if not bool(condition([state[0]])):
                return state[0]
            if rounds == most:
                raise iterations_error(instruction, most)
            # The list is handed over, so that the body may overwrite the state.
            state = Taken((body(state),))
            rounds += 1
            ran += 1
            if ran == _OFTEN:
                advance = computed.advance(instruction)

    return Taking(take)


def iterations_error(instruction: Instruction, most: int) -> HloError:
    """The error for a loop that goes on after its last permitted iteration."""
    return HloError(
        f"{instruction.name} runs more than {most:,} iterations",
        instruction.span,
        hint="use --max-iterations N to raise the limit",
    )


def scan(instruction: Instruction, computed: Computed) -> Kernel:
    """Applies a computation to slices one after another, with carried values; backwards, results keep their places."""
    function = computed.function(called(instruction, "to_apply"))
    carries = instruction.integer("num_carries") or 0
    [along] = instruction.integers("dimensions")
    is_reverse = instruction.flag("is_reverse")
    is_tuple = isinstance(instruction.shape, TupleShape)
    leaves = [leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape)]

    def kernel(*operands: Value) -> Value:
        inputs = [array_of(each) for each in operands[: len(operands) - carries]]
        carried = list(operands[len(inputs) :])
        rows: list[tuple[Value, ...]] = []
        length = inputs[0].shape[along] if inputs else leaves[0].dimensions[along]
        # Results of a backward scan keep their places.
        for position in reversed(range(length)) if is_reverse else range(length):
            found = function([*(np.take(each, position, along) for each in inputs), *carried])
            parts = found if isinstance(found, tuple) else (found,)
            carried = list(parts[len(parts) - carries :])
            rows.append(parts[: len(parts) - carries])
        if is_reverse:
            rows.reverse()
        stacked: list[Value] = [
            np.stack([array_of(each) for each in column], axis=along) for column in zip(*rows, strict=True)
        ]
        if not rows:
            kinds = leaves[: len(leaves) - carries]
            stacked = [np.zeros(each.dimensions, carrier(each.element_type, computed.floats)) for each in kinds]
        result = (*stacked, *carried)
        return result if is_tuple else result[0]

    return kernel


def conditional(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs one branch: true the first of two; an index outside of all branches the last."""
    branches = [computed.function(each) for each in instruction.called_computations]

    def kernel(chosen: Array, *operands: Value) -> Value:
        index = int(chosen)
        if chosen.dtype == np.bool_:
            index = 1 - index
        # Clamping to the last branch: xla/hlo/evaluator/hlo_evaluator.cc, HandleConditional.
        if not 0 <= index < len(branches):
            index = len(branches) - 1
        return branches[index]([operands[index]])

    return kernel


def identity(instruction: Instruction, computed: Computed) -> Kernel:
    """The first operand."""
    return lambda value, *others: value


def copy(instruction: Instruction, computed: Computed) -> Kernel:
    """The operand, as the type of the result: mixed precision allows another float."""
    given, shape = instruction.operand_shape(0), instruction.shape
    if isinstance(given, ArrayShape) and isinstance(shape, ArrayShape) and given.element_type != shape.element_type:
        return settled(instruction, computed.floats)
    return identity(instruction, computed)


def token(instruction: Instruction, computed: Computed) -> Kernel:
    """No value."""
    return lambda *operands: None


def copy_start(instruction: Instruction, computed: Computed) -> Kernel:
    """The copy, the source, and a context."""
    return lambda value, *others: (value, value, None)


def copy_done(instruction: Instruction, computed: Computed) -> Kernel:
    """The copy."""
    return lambda started: started[0]


def scalar(value: Value) -> int:
    """The number in a scalar."""
    return int(array_of(value))


CONTROL_RULES: Final[dict[str, Rule]] = {
    "add-dependency": identity,
    "after-all": token,
    "call": call,
    "conditional": conditional,
    "copy": copy,
    "copy-done": copy_done,
    "copy-start": copy_start,
    "domain": identity,
    opcodes.FUSION: call,
    "get-tuple-element": get_tuple_element,
    "map": _map_,
    "scan": scan,
    "opt-barrier": lambda instruction, computed: lambda *values: values[0] if len(values) == 1 else values,
    opcodes.TUPLE: _tuple_,
    "while": _while_,
}
"""The rule of each opcode that calls or passes on."""


# --- asynchronous operations ---
# They run at their start, or with the update that brings the last operand; done unpacks.
#
# Mirrors `HandleAsyncStart`, `HandleAsyncUpdate`, and `HandleAsyncDone` of xla/hlo/evaluator/hlo_evaluator.cc, and the
# sugar of xla/hlo/parser/hlo_parser.cc: `slice-start` is an async-start of a computation with one slice.


def async_start(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the wrapped computation, if all of its operands are there."""
    return _starting(*_wrapped_computation(instruction, computed))


def async_update(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the wrapped computation with operands that come late; else passes on."""
    return _updating(*_wrapped_computation(start_of(instruction), computed))


def async_done(instruction: Instruction, computed: Computed) -> Kernel:
    """The result."""
    # Element 1 of a started operation is its result.
    return lambda started: started[1]


def sugared(instruction: Instruction, rule: Rule) -> Rule:
    """The rule of a sugared asynchronous operation, such as slice-start, by the rule of the operation in it."""
    if instruction.opcode.endswith("-done"):
        return async_done
    begins = instruction.opcode.endswith("-start")

    def made(instruction: Instruction, computed: Computed) -> Kernel:
        start = instruction if begins else start_of(instruction)
        opcode = wrapped_opcode(start.opcode)
        assert opcode is not None
        kernel = rule(_operation_in(start, opcode), computed)
        # The operation runs when it has as many operands as it takes: SparseCore starts have none at first.
        least = max(OPCODE_ARITY[opcode] or 0, len(start.operands))
        return (_starting if begins else _updating)(lambda operands: kernel(*operands), least)

    return made


def start_of(instruction: Instruction) -> Instruction:
    """The start that an update belongs to; HloError if it is passed on by another instruction."""
    start = instruction
    while start.opcode.endswith("-update") and start.operands:
        start = start.operands[0]
    if start.opcode.endswith("-start"):
        return start
    raise HloError(f"cannot evaluate {instruction.name}: no start found for it", instruction.span)


def _wrapped_computation(start: Instruction, computed: Computed) -> tuple[Callable[[Sequence[Value]], Value], int]:
    computation = start.called_computations[0]
    return computed.function(computation), len(computation.parameters)


def _starting(function: Callable[[Sequence[Value]], Value], count: int) -> Kernel:
    """The operands, and the result if all `count` of them are there."""
    return lambda *operands: (operands, function(operands) if len(operands) >= count else None)


def _updating(function: Callable[[Sequence[Value]], Value], count: int) -> Kernel:
    def kernel(started: Value, *more: Value) -> Value:
        assert isinstance(started, tuple)
        given = started[0]
        assert isinstance(given, tuple)
        if not more:
            return started
        operands: Sequence[Value] = (*given, *more)
        return (tuple(operands), function(operands) if len(operands) >= count else None)

    return kernel


def _operation_in(start: Instruction, opcode: str) -> Instruction:
    """The operation that a sugared start stands for."""
    shape = start.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        raise HloError(f"{start.opcode} {start.name} has no tuple of operands and results", start.span)
    inner = Instruction(
        start.name, shape.elements[1], opcode, start.operands, start.computation, start.index, start.text
    )
    inner.called_computations = start.called_computations
    return inner


ASYNCHRONOUS_RULES: Final[dict[str, Rule]] = {
    "async-done": async_done,
    "async-start": async_start,
    "async-update": async_update,
}
"""The rule of each asynchronous operation that is not sugared."""


# --- custom calls ---
# Custom calls whose meaning is known: annotations, pieces of TPU and GPU compilers, and LAPACK.
#
# Targets are those of `analysis/custom_calls/targets.py`; each rule says where its meaning is from.


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


def is_kernel_call(instruction: Instruction) -> bool:
    """Whether an instruction calls a Pallas kernel for TPUs, whose body is in the text (`kernel_values`)."""
    return target_of_call(instruction) == "tpu_custom_call"


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
    # Eigenvectors of complex matrices have a phase of their own.
    if target == "Eigh" and _is_complex(instruction):
        return None  # its vectors are unique only up to factors, which depend on the method
    if target in _RULES:
        return _RULES[target]
    if instruction.called_computations and (target == "HostExecute" or target.startswith("TODO")):
        return _called
    # Calls without arrays act on something else; nothing depends on them.
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
            # A part that ends within a tile would have padding in the middle.
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
        # With equal physical sizes the padding of the operand becomes elements.
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
    # Element t goes to bin t mod the number of bins, as approx_top_k on TPUs does; seen in two pairs of dumps.
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
            # The comparison says whether the new element replaces that of its bin.
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
                # X64SplitLow of an f64 is the leading float, X64SplitHigh the rest; of integers, low is low.
                leading = x.astype(np.float32)
                # Widened, the leading part holds everything.
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

CUSTOM_CALL_RULES: Final[dict[str, Rule]] = {"custom-call": custom_call}
"""The rule of custom calls."""


# --- the rule of an opcode ---
# The rule of every opcode: how a kernel for an instruction is made.


NEUTRAL: Final = frozenset((opcodes.BITCAST, opcodes.BROADCAST, "copy", opcodes.RESHAPE, opcodes.TRANSPOSE))
"""Opcodes that do nothing to a scalar, so that computations of scalars can run on arrays; see `rule_of`."""


_FAMILIES: Final = (
    ASYNCHRONOUS_RULES,
    products.DOT_RULES,
    CONTROL_RULES,
    elementwise.CONVERSION_RULES,
    products.CONVOLUTION_RULES,
    CUSTOM_CALL_RULES,
    elementwise.ELEMENTWISE_RULES,
    scatter_and_reduce.INDEXING_RULES,
    linear_algebra.NORMALIZING_RULES,
    rearranging.SORTING_RULES,
    products.RAGGED_DOT_RULES,
    elementwise.RANDOM_RULES,
    scatter_and_reduce.REDUCING_RULES,
    rearranging.SHAPING_RULES,
    linear_algebra.SOLVING_RULES,
)
"""The rules of each chapter, by opcode."""


@cache
def rules() -> dict[str, Rule]:
    """The rules by opcode."""
    found: dict[str, Rule] = {}
    for family in _FAMILIES:
        found |= family
    return found


def rule_of(instruction: Instruction, *, on_arrays: bool = False) -> Rule:
    """The rule of an instruction; HloError with its place if its opcode has none.

    With `on_arrays`, an instruction of scalars runs on whole arrays, so bitcasts change the type of each element.
    """
    # Scalars in reducers and comparators may change type by a bitcast, which is no reshape there.
    if on_arrays and instruction.opcode in (opcodes.BITCAST, opcodes.BITCAST_CONVERT):
        return elementwise.elementwise_bitcast
    rule = rules().get(instruction.opcode)
    if rule is None:
        wrapped = rules().get(wrapped_opcode(instruction.opcode) or "")
        if wrapped is None:
            raise HloError(f"cannot evaluate {instruction.opcode} ({instruction.name})", instruction.span)
        return sugared(instruction, wrapped)
    if _mixes_sizes(instruction):
        return _of_common_size(rule)
    return rule


def has_rule(opcode: str) -> bool:
    """Whether instructions of an opcode can be evaluated on one device.

    >>> has_rule("slice-start"), has_rule("all-reduce")
    (True, False)
    """
    return opcode in rules() or wrapped_opcode(opcode) in rules()


def _mixes_sizes(instruction: Instruction) -> bool:
    """Whether operands of an elementwise opcode may have the bound of a dynamic size, or the size at run time."""
    if instruction.opcode not in ELEMENTWISE or len(instruction.operands) < 2:
        return False
    # An operand may have the bound while another has the size at run time.
    return isinstance(instruction.shape, ArrayShape) and instruction.shape.is_dynamic


def _of_common_size(rule: Rule) -> Rule:
    """The rule on the elements that all operands have at run time; scalars are operands of any size."""

    def made(instruction: Instruction, computed: Computed) -> Kernel:
        kernel = rule(instruction, computed)

        def run(*operands: Array) -> Value:
            shapes = [each.shape for each in operands if each.ndim]
            if len(set(shapes)) < 2:
                return kernel(*operands)
            common = tuple(slice(0, min(sizes)) for sizes in zip(*shapes, strict=True))
            return kernel(*(each[common] if each.ndim else each for each in operands))

        return run

    return made
