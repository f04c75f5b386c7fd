"""How the body of a kernel runs: loops and branches, loads and stores, and copies, which are done at once.

A block becomes a list of steps once; a step takes values out of numbered slots and puts its results there. Semaphores
of copies are not waited for, as each copy is done when it is started; those of the kernel itself are counters.

Mirrors mlir/include/mlir/Dialect/SCF/IR/SCFOps.td, MemRef/IR/MemRefOps.td, and mosaic/dialect/tpu/tpu_ops.td.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from hlo_cli.analysis.kernel_values.arithmetic import (
    ARITHMETIC,
    Function,
    Rule,
    is_integer,
    number_kind,
    result_type,
    unsupported,
)
from hlo_cli.analysis.kernel_values.references import Reference, Repacked, element_kind, sizes_of
from hlo_cli.analysis.kernel_values.vectors import VECTORS, integers
from hlo_cli.analysis.kernels.kernel_body import kind_of
from hlo_cli.analysis.semantics.typed_values import Array, Floats, carrier, from_bits
from hlo_cli.mlir.mlir_operations import Block, Operation, Region, Value
from hlo_cli.mlir.mlir_values import (
    DYNAMIC,
    Attribute,
    DenseElements,
    FloatAttribute,
    IntegerAttribute,
    Type,
)
from hlo_cli.source import HloError

Slots: TypeAlias = "list[Any]"
Block_: TypeAlias = Callable[[Slots, Sequence[Any]], tuple[Any, ...]]
"""Runs a block on values of its arguments; what its last operation passes on."""


class Settings(NamedTuple):
    """How a kernel runs: its floats, how often a loop may run, and what checks the time now and then."""

    floats: Floats
    max_iterations: int
    check: Callable[[], None]


# --- constants ---


def _constant(value: Attribute | None, kind: Type, floats: Floats) -> Any:
    """The value of `arith.constant`."""
    if isinstance(value, IntegerAttribute):
        return value.value & 1 if str(kind) == "i1" else value.value
    element = number_kind(kind)
    if isinstance(value, FloatAttribute):
        return from_bits(np.array(value.bits, f"u{element.byte_width}"), element, floats)
    if isinstance(value, DenseElements):
        mask = (1 << 8 * element.byte_width) - 1
        bits = np.array([number & mask for number in value.numbers], np.uint64).astype(f"u{element.byte_width}")
        found = from_bits(bits, element, floats)
        return np.broadcast_to(found[0], sizes_of(kind)) if value.is_splat else found.reshape(sizes_of(kind))
    raise HloError(f"a constant of type {kind} is not evaluated")


# --- memory ---


def _load(operation: Operation, floats: Floats) -> Function:
    """Operations such as `vector.load`: a part of memory; with a mask, zeros where it is not set."""
    sizes = sizes_of(result_type(operation))
    strides = integers(operation.attributes.get("strides"))
    segments = integers(operation.attributes.get("operandSegmentSizes"))
    is_masked = len(segments) > 2 and segments[2] > 0

    def run(reference: Reference, *starts: Any) -> Any:
        if is_masked:
            *starts_only, mask = starts
            found = reference.read(reference.within(starts_only, sizes, strides))
            return np.where(mask, found, np.zeros_like(found))
        return reference.read(reference.within(starts, sizes, strides))

    return run


def _load_number(operation: Operation, floats: Floats) -> Function:
    """`memref.load`: one element."""
    is_whole = is_integer(result_type(operation))

    def run(reference: Reference, *position: int) -> Any:
        found = reference.read(reference.within(position, (1,) * len(position))).reshape(())
        return int(found) if is_whole else found

    return run


def _store_number(operation: Operation, floats: Floats) -> Function:
    """`memref.store`."""

    def run(value: Any, reference: Reference, *position: int) -> None:
        reference.write(reference.within(position, (1,) * len(position)), value)

    return run


def _store(operation: Operation, floats: Floats) -> Function:
    """Operations such as `vector.store`: replaces a part of memory, or adds to it, all of it or where a mask is set."""
    sizes = sizes_of(operation.operands[0].type)
    strides = integers(operation.attributes.get("strides"))
    segments = integers(operation.attributes.get("operandSegmentSizes"))
    is_masked = len(segments) > 3 and segments[3] > 0
    adds = getattr(operation.attributes.get("add"), "value", 0)

    def run(value: Array, reference: Reference, *starts: Any) -> None:
        starts, mask = (starts[:-1], starts[-1]) if is_masked else (starts, True)
        part = reference.within(starts, sizes, strides)
        if adds or is_masked:
            old = reference.read(part)
            value = np.where(mask, old + value if adds else value, old)
        reference.write(part, value)

    return run


def _slice(operation: Operation, floats: Floats) -> Function:
    """`tpu.memref_slice`: a part of memory; sizes that are not in the type are operands."""
    sizes = sizes_of(result_type(operation))
    rank = len(sizes)

    def run(reference: Reference, *numbers: int) -> Reference:
        given = iter(numbers[rank:])
        found = [next(given) if size == DYNAMIC else size for size in sizes]
        return reference.part(reference.within(numbers[:rank], found))

    return run


def _squeeze(operation: Operation, floats: Floats) -> Function:
    """`tpu.memref_squeeze`: without some dimensions of size 1."""
    old, new = sizes_of(operation.operands[0].type), sizes_of(result_type(operation))
    chosen: list[Any] = []
    left = list(new)
    for size in old:
        is_kept = bool(left) and size == left[0]
        if not is_kept and size != 1:
            raise unsupported(operation, f"{list(old)} has other sizes than {list(new)}")
        chosen.append(slice(None) if is_kept else 0)
        left = left[1:] if is_kept else left
    return lambda reference: _indexed(reference, tuple(chosen))


def _indexed(reference: Reference, chosen: tuple[Any, ...]) -> Reference:
    if isinstance(reference, Repacked):
        raise HloError("a bitcast of memory with squeezed dimensions is not supported")
    return Reference(np.asarray(reference.array[(*chosen, ...)]), reference.kind)


def _reshape(operation: Operation, floats: Floats) -> Function:
    """`tpu.memref_reshape`: the same elements in row-major order."""
    sizes = sizes_of(result_type(operation))
    return lambda reference: reference.reshaped(sizes)


def _bitcast(operation: Operation, floats: Floats) -> Function:
    """`tpu.memref_bitcast`: the same memory as elements of another type."""
    sizes, kind = sizes_of(result_type(operation)), number_kind(result_type(operation))
    return lambda reference: Repacked(reference, kind, floats, sizes)


def _allocated(operation: Operation, floats: Floats) -> Function:
    """`memref.alloca`, `tpu.sem_alloc`: new memory, of zeros."""
    kind = result_type(operation)
    return lambda: memory_of(kind, floats)


def memory_of(kind: Type, floats: Floats) -> Reference:
    """New memory of a type; what a chip has in it is unknown, here it is zero."""
    sizes = sizes_of(kind)
    if DYNAMIC in sizes:
        raise HloError(f"memory of the type {kind} has no fixed size")
    element = element_kind(kind)
    return Reference(np.zeros(sizes, np.int64 if element is None else carrier(element, floats)), element)


def _copy(operation: Operation, floats: Floats) -> Function:
    """`tpu.enqueue_dma`: copies at once; from other devices not."""
    # source, its semaphore, target, its semaphore, device, core, subcore (tpu_ops.td, EnqueueDMAOp)
    segments = integers(operation.attributes.get("operandSegmentSizes"))
    if not segments or any(segments[4:]):
        raise unsupported(operation, "it copies to another device or core")
    target = segments[0] + segments[1]

    def run(*operands: Any) -> None:
        source, goal = operands[0], operands[target]
        whole = tuple(slice(0, size) for size in goal.shape)
        goal.write(whole, source.read(tuple(slice(0, size) for size in source.shape)))

    return run


def _signal(operation: Operation, floats: Floats) -> Function:
    """`tpu.sem_signal`: adds to a semaphore of this core."""
    if len(operation.operands) > 2:
        raise unsupported(operation, "it signals another device or core")

    def run(semaphore: Reference, amount: int) -> None:
        semaphore.array[...] += amount

    return run


def _wait(operation: Operation, floats: Floats) -> Function:
    """`tpu.sem_wait`: takes from a semaphore; HloError if that would wait forever, as nothing else runs."""

    def run(semaphore: Reference, amount: int) -> None:
        if int(semaphore.array) < amount:
            raise HloError(f"takes {amount} from a semaphore that has {int(semaphore.array)}, so it would never end")
        semaphore.array[...] -= amount

    return run


def _ignored(operation: Operation, floats: Floats) -> Function:
    """What has no effect on values: traces, delays, waiting for copies."""
    return lambda *operands: None


def _first(operation: Operation, floats: Floats) -> Function:
    return lambda reference, *others: reference


def _single_device(operation: Operation, floats: Floats) -> Function:
    """`tpu.device_id`: a kernel runs on one device here."""
    return lambda: 0


def _asserted(operation: Operation, floats: Floats) -> Function:
    """`cf.assert`: HloError if a condition does not hold."""
    message = getattr(operation.attributes.get("msg"), "value", "")

    def run(holds: int) -> None:
        if not holds:
            raise HloError(f"an assertion of the kernel failed: {message}")

    return run


_MEMORY: Final[dict[str, Rule]] = {
    "cf.assert": _asserted,
    "memref.alloca": _allocated,
    "memref.cast": _first,
    "memref.load": _load_number,
    "memref.store": _store_number,
    "tpu.delay": _ignored,
    "tpu.device_id": _single_device,
    "tpu.enqueue_dma": _copy,
    "tpu.erase_memref_layout": _first,
    "tpu.log": _ignored,
    "tpu.memref_bitcast": _bitcast,
    "tpu.memref_reshape": _reshape,
    "tpu.memref_slice": _slice,
    "tpu.memref_squeeze": _squeeze,
    "tpu.sem_alloc": _allocated,
    "tpu.sem_read": lambda operation, floats: lambda semaphore: int(semaphore.array),
    "tpu.sem_signal": _signal,
    "tpu.sem_wait": _wait,
    "tpu.strided_load": _load,
    "tpu.strided_store": _store,
    "tpu.trace_start": _ignored,
    "tpu.trace_stop": _ignored,
    "tpu.trace_value": _ignored,
    "tpu.vector_load": _load,
    "tpu.vector_store": _store,
    "tpu.wait_dma": _ignored,
    "tpu.wait_dma2": _ignored,
    "vector.load": _load,
    "vector.store": _store,
}
"""The rule of each operation that reads, writes, or names memory."""

RULES: Final[dict[str, Rule]] = {**ARITHMETIC, **VECTORS, **_MEMORY}

_TERMINATORS: Final = frozenset(("func.return", "scf.yield", "scf.condition", "tpu.yield", "scf.reduce"))
CONTROL: Final = frozenset(("scf.for", "scf.if", "scf.while", "scf.index_switch", "tpu.region"))
"""Operations with regions, which run as often as they say."""


# --- blocks as steps ---


class Body:
    """A function of a kernel as steps; `run` calls it with the values of its arguments."""

    def __init__(self, function: Operation, settings: Settings, constants: Sequence[int | None] = ()) -> None:
        self._settings = settings
        self._bounds = constants
        self._slots: dict[Value, int] = {}
        self._initial: list[Any] = []
        self._run = self._block(function.regions[0])

    def run(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """What the function returns."""
        return self._run(self._initial.copy(), arguments)

    def _slot(self, value: Value) -> int:
        if value not in self._slots:
            self._slots[value] = len(self._initial)
            self._initial.append(None)
        return self._slots[value]

    def _block(self, region: Region) -> Block_:
        """A region of one block; without blocks, it passes on nothing."""
        if len(region.blocks) > 1:
            raise HloError("a region of several blocks is not evaluated")
        block = region.blocks[0] if region.blocks else Block(region)
        arguments = [self._slot(each) for each in block.arguments]
        steps: list[Callable[[Slots], None]] = []
        passed: list[int] = []
        for operation in block.operations:
            if kind_of(operation) in _TERMINATORS:
                passed = [self._slot(each) for each in operation.operands]
            elif (step := self._step(operation)) is not None:
                steps.append(step)

        def run(slots: Slots, values: Sequence[Any]) -> tuple[Any, ...]:
            for slot, value in zip(arguments, values, strict=True):
                slots[slot] = value
            for step in steps:
                step(slots)
            return tuple([slots[slot] for slot in passed])

        return run

    def _step(self, operation: Operation) -> Callable[[Slots], None] | None:
        """A step; None for a constant, which is in its slot before."""
        name = kind_of(operation)
        inputs = [self._slot(each) for each in operation.operands]
        results = [self._slot(each) for each in operation.results]
        if name == "arith.constant":
            kind = result_type(operation)
            self._initial[results[0]] = _constant(operation.attributes.get("value"), kind, self._settings.floats)
            return None
        if name == "tpu.iteration_bound":
            self._initial[results[0]] = self._bounds[integers(operation.attributes.get("dim"))[0]]
            return None
        if name in CONTROL:
            return self._control(operation, name, inputs, results)
        rule = RULES.get(name)
        if rule is None:
            raise unsupported(operation)
        return _assigning(_placed(rule(operation, self._settings.floats), operation), inputs, results)

    def _control(
        self, operation: Operation, name: str, inputs: Sequence[int], results: Sequence[int]
    ) -> Callable[[Slots], None]:
        blocks = [self._block(region) for region in operation.regions]
        match name:
            case "scf.if":
                run = _branch(blocks)
            case "scf.for":
                run = _counted(blocks[0], self._settings)
            case "scf.while":
                run = _while(blocks, self._settings)
            case "scf.index_switch":
                run = _switch(blocks, integers(operation.attributes.get("cases")))
            case _:
                run = lambda slots, values: blocks[0](slots, ())  # noqa: E731

        def step(slots: Slots) -> None:
            found = run(slots, [slots[each] for each in inputs])
            for slot, value in zip(results, found, strict=True):
                slots[slot] = value

        return step


def _placed(function: Function, operation: Operation) -> Function:
    """The function of an operation, whose errors name it."""

    def run(*operands: Any) -> Any:
        try:
            return function(*operands)
        except HloError as error:
            raise HloError(f"{kind_of(operation)}: {error.diagnostic.message}") from error

    return run if kind_of(operation) in _MEMORY else function


def _assigning(function: Function, inputs: Sequence[int], results: Sequence[int]) -> Callable[[Slots], None]:
    """A step that calls a function; the usual numbers of operands without a list."""
    if len(results) > 1:
        raise HloError("an operation of several results is not evaluated")
    target = results[0] if results else -1
    match len(inputs):
        case 1:
            (first,) = inputs

            def step(slots: Slots) -> None:
                slots[target] = function(slots[first])

        case 2:
            first, second = inputs

            def step(slots: Slots) -> None:
                slots[target] = function(slots[first], slots[second])

        case _:

            def step(slots: Slots) -> None:
                slots[target] = function(*[slots[each] for each in inputs])

    return step


Control: TypeAlias = Callable[[Slots, "list[Any]"], tuple[Any, ...]]


def _branch(blocks: Sequence[Block_]) -> Control:
    def run(slots: Slots, values: list[Any]) -> tuple[Any, ...]:
        return blocks[0 if values[0] else 1](slots, ()) if values[0] or len(blocks) > 1 else ()

    return run


def _counted(body: Block_, settings: Settings) -> Control:
    """`scf.for`: from a lower bound up to an upper one."""

    def run(slots: Slots, values: list[Any]) -> tuple[Any, ...]:
        start, stop, step, *carried = values
        if step <= 0:
            raise HloError(f"scf.for: the step is {step}, not positive")
        state = tuple(carried)
        for at in range(start, stop, step):
            settings.check()
            state = body(slots, (at, *state))
        return state

    return run


def _while(blocks: Sequence[Block_], settings: Settings) -> Control:
    """`scf.while`: as long as the first region says."""

    def run(slots: Slots, values: list[Any]) -> tuple[Any, ...]:
        state = tuple(values)
        for _ in range(settings.max_iterations):
            settings.check()
            goes_on, *passed = blocks[0](slots, state)
            if not goes_on:
                return tuple(passed)
            state = blocks[1](slots, passed)
        raise HloError(
            f"scf.while runs more than {settings.max_iterations:,} iterations",
            hint="use --max-iterations N to raise the limit",
        )

    return run


def _switch(blocks: Sequence[Block_], cases: Sequence[int]) -> Control:
    """`scf.index_switch`: the region of a case; the first one is for all others."""

    def run(slots: Slots, values: list[Any]) -> tuple[Any, ...]:
        chosen = 1 + cases.index(values[0]) if values[0] in cases else 0
        return blocks[chosen](slots, ())

    return run
