"""How a computation becomes steps for one device, run one after the other, each value freed when it is dead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from hlo_cli.analysis.evaluate.host import Host
from hlo_cli.analysis.evaluate.limits import FREE, Clock, Work, callee_of, operations_error, work_of
from hlo_cli.analysis.evaluate.scalar_loops import Advance, scalar_loop
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.rules import NEUTRAL, called, elements_first, is_kernel_call, rule_of
from hlo_cli.analysis.semantics.scatter_and_reduce import SUMS, plain_reducer
from hlo_cli.analysis.semantics.typed_values import (
    MISFITS,
    Array,
    Computed,
    Floats,
    Form,
    Kernel,
    Taken,
    Taking,
    Value,
    carrier,
    form_of,
    has_form,
    shape_problem,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ASYNCHRONOUS, CHANNEL_OPCODES, DONES, ELEMENTWISE, NATIVE_DONES, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.source import HloError

# --- iterations of the loops around ---
# Iterations of the loops around the instruction that runs, counted while a value is followed through them.


S = TypeVar("S")
T = TypeVar("T")

_LOOPS: Final = {opcodes.WHILE: "condition", "scan": "to_apply"}
"""Opcodes that run a computation once for each iteration, with the attribute that names it."""


class LoopIterations:
    """Keeps the iteration of each loop in a list, the outermost first; without a list, nothing is counted."""

    def __init__(self, numbers: list[int] | None) -> None:
        self._numbers = numbers

    def is_counted(self, instruction: Instruction) -> bool:
        """Whether an instruction is a loop whose iterations are counted."""
        return self._numbers is not None and instruction.opcode in _LOOPS

    @contextmanager
    def loop(self) -> Iterator[None]:
        """One execution of a loop."""
        if self._numbers is None:
            yield
            return
        # The condition counts before it runs, so the first iteration is 0.
        self._numbers.append(-1)
        try:
            yield
        finally:
            self._numbers.pop()

    def counting(self, function: Callable[[S], T]) -> Callable[[S], T]:
        """The function of the computation that begins an iteration: of a while loop, its condition."""
        numbers = self._numbers
        if numbers is None:
            return function

        def counted(arguments: S) -> T:
            numbers[-1] += 1
            return function(arguments)

        return counted

    def kernel(self, instruction: Instruction, computed: Computed) -> Kernel:
        """The kernel of a loop whose iterations are counted."""
        counted = called(instruction, _LOOPS[instruction.opcode])
        kernel = rule_of(instruction)(instruction, _Counting(self, computed, counted))

        # Only the computation that begins an iteration counts; the rule of the loop sees the rest unchanged.
        def run(*operands: Value) -> Value:
            with self.loop():
                return kernel(*operands)

        return run


class _Counting:
    """A program as the rule of a loop sees it: calls of one computation begin iterations."""

    def __init__(self, iterations: LoopIterations, computed: Computed, counted: Computation) -> None:
        self.floats = computed.floats
        self.max_iterations = computed.max_iterations
        self.states = computed.states
        self._iterations = iterations
        self._computed = computed
        self._counted = counted

    def advance(self, instruction: Instruction) -> Advance | None:
        """No function: every iteration is counted."""
        return None

    def function(self, computation: Computation) -> Callable[[Sequence[Value]], Value]:
        """Runs a computation on the values of its parameters."""
        found = self._computed.function(computation)
        return self._iterations.counting(found) if computation is self._counted else found

    def vectorized(self, computation: Computation) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
        """Runs a computation of scalars on whole arrays, element by element."""
        return self._computed.vectorized(computation)

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The kernel of an instruction."""
        return self._computed.kernel(instruction, on_arrays=on_arrays)


# --- steps of a computation ---
# Computations compiled to lists of steps: attributes are read once, and values are freed when they are dead.


# Often enough to end on time: 256 instructions of small arrays take half a millisecond.
_CHECKED: Final = 256
"""After how many instructions the time is checked, and progress shown."""
# Below it, asking for the time at each kernel would cost a part of the run.
_LONG: Final = 1e-3
"""Seconds from which on the time is checked before each kernel."""


Observer: TypeAlias = "Callable[[Instruction, int, Value, Sequence[Value]], None]"
"""Called with every value that was just computed, the device, and the operands, but not in computations of scalars."""


class Step(NamedTuple):
    """The slot of the result, its kernel, the slots of the operands, those that are dead afterwards, and the source.

    `take` is what runs instead of the kernel if operands may be overwritten that are dead. `form` is that of
    the result if it is an array of fixed size.
    """

    slot: int
    kernel: Kernel
    operands: tuple[int, ...]
    ended: tuple[int, ...]
    instruction: Instruction
    take: Callable[[list[Value]], Value] | None
    form: Form


def misfit(instruction: Instruction, error: Exception) -> HloError:
    """The error for an instruction whose kernel failed."""
    return HloError(
        f"cannot evaluate {instruction.name}: its sizes or attributes contradict each other ({error})",
        instruction.span,
        hint="use hlo lint to see what is wrong with the module",
    )


def _check_value(instruction: Instruction, value: Value, floats: Floats) -> None:
    """HloError if a value does not have the shape of its instruction: nothing that follows would be true."""
    problem = shape_problem(value, instruction.shape, floats, is_pending=_is_pending(instruction))
    if problem:
        raise HloError(
            f"cannot evaluate {instruction.name}: evaluation of {instruction.opcode} gave {problem}",
            instruction.span,
            hint="if hlo lint finds no error in the module, this is a bug in hlo; please report it",
        )


def _is_pending(instruction: Instruction) -> bool:
    """Whether a value is on its way: contexts, and what a done or an update will bring, are not there."""
    opcode = instruction.opcode
    if opcode in CHANNEL_OPCODES or opcode in NATIVE_DONES:
        return opcode not in DONES
    return (opcode in ASYNCHRONOUS or wrapped_opcode(opcode) is not None) and not opcode.endswith("-done")


class Noise(NamedTuple):
    """A relative error of the result of each instruction that rounds; each stream has other signs."""

    size: float
    stream: int = 0


class Program:
    """The computations of a module as functions, compiled on first use."""

    def __init__(
        self,
        floats: Floats = "exact",
        *,
        watch: Collection[Instruction] = (),
        observe: Observer | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        progress: Callable[[int], None] | None = None,
        host: Host | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.floats: Floats = floats
        self.ran: set[Computation] = set()
        self._noise = noise
        self.limits = limits or Limits()
        self.max_iterations = self.limits.max_iterations
        self.watched: dict[Instruction, list[Value]] = {each: [] for each in watch}
        self.executed = 0
        self.device = 0
        self.states: dict[str, int] = {}
        self.host = host or Host()
        self.iterations = LoopIterations(self.host.iterations)
        self._kept_bytes = 0
        self._operations = 0
        self._works: dict[Instruction, Work] = {}
        self._observe = observe
        self._clock = clock or Clock(self.limits)
        self._progress = progress
        self._functions: dict[Computation, Callable[[Sequence[Value]], Value]] = {}
        self._vectorized: dict[Computation, Callable[[Sequence[Array]], tuple[Array, ...]]] = {}

    def function(self, computation: Computation) -> Callable[[Sequence[Value]], Value]:
        """Runs a computation on the values of its parameters."""
        if computation not in self._functions:
            self._functions[computation] = self._compiled(computation)
        return self._functions[computation]

    def vectorized(self, computation: Computation) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
        """Runs a computation of scalars on whole arrays, element by element."""
        if computation not in self._vectorized:
            run = self._compiled(computation, on_arrays=True)

            def function(arguments: Sequence[Array]) -> tuple[Array, ...]:
                # Scalars become arrays of one shape, so that constants of the computation broadcast as the rest does.
                found = run(list(np.broadcast_arrays(*arguments)))
                parts = found if isinstance(found, tuple) else (found,)
                sizes = np.broadcast_shapes(*(each.shape for each in arguments))
                return tuple(
                    np.broadcast_to(part, sizes) for part in parts if isinstance(part, np.ndarray | np.generic)
                )

            self._vectorized[computation] = function
        return self._vectorized[computation]

    def _compiled(self, computation: Computation, *, on_arrays: bool = False) -> Callable[[Sequence[Value]], Value]:
        slots: dict[Instruction, int] = {}
        steps: list[Step] = []
        parameters: list[tuple[int, int]] = []
        last_use: dict[int, int] = {}
        # Observers see values in the order of the text, and may keep them: nothing is overwritten or reordered then.
        is_plain = on_arrays or not self.is_seen(computation)
        for instruction in elements_first(computation) if is_plain else computation.instructions:
            slot = slots[instruction] = len(slots)
            if (number := instruction.parameter_number) is not None:
                parameters.append((slot, number))
                continue
            kernel = self.kernel(instruction, on_arrays=on_arrays)
            operands = tuple(slots[operand] for operand in instruction.operands)
            for operand in operands:
                last_use[operand] = len(steps)
            take = kernel.take if is_plain and isinstance(kernel, Taking) else None
            steps.append(Step(slot, kernel, operands, (), instruction, take, form_of(instruction.shape, self.floats)))
        last = computation.root
        if last is None:
            raise HloError(f"cannot evaluate the computation {computation.name}: it has no instructions")
        root = slots[last]
        steps = _with_ends(steps, {slot: at for slot, at in last_use.items() if slot != root})
        size = len(slots)

        operations = self.operations_of(computation)

        def run(arguments: Sequence[Value]) -> Value:
            values: list[Value] = [None] * size
            for slot, number in parameters:
                values[slot] = arguments[number]
            if not is_plain:
                self._see_parameters(computation, arguments)
            if isinstance(arguments, Taken):
                arguments.clear()
            self.ran.add(computation)
            instruction, operand_values = last, list[Value]()
            try:
                for slot, kernel, operands, ended, instruction, take, form in steps:
                    # Taken out of the table first: numpy may write only into what nothing else refers to.
                    if take is not None:
                        operand_values, value = Taken([values[operand] for operand in operands]), None
                        for each in ended:
                            values[each] = None
                        value = values[slot] = take(operand_values)
                    else:
                        operand_values = [values[operand] for operand in operands]
                        value = values[slot] = kernel(*operand_values)
                    if not on_arrays and not has_form(value, form):
                        self.check(instruction, value)
                    if not is_plain:
                        self.see(instruction, value, operand_values)
                    for each in ended:
                        values[each] = None
            except MISFITS as error:
                raise misfit(instruction, error) from error
            self.count(len(steps), computation, operations)
            return values[root]

        return run

    def advance(self, instruction: Instruction) -> Advance | None:
        """A function that computes iterations of a loop of numbers at once; None if rules have to."""
        return None if self._noise is not None else scalar_loop(instruction, self)

    def operations_of(self, computation: Computation) -> int:
        """Scalar operations of one run of a computation, without those that it calls."""
        return sum(self._work(each).operations for each in computation.instructions if each.parameter_number is None)

    @property
    def operations_left(self) -> int:
        """Scalar operations up to the limit."""
        return self.limits.max_operations - self._operations

    def check(self, instruction: Instruction, value: Value) -> None:
        """HloError if the value of an instruction that ran does not have its shape."""
        if instruction not in self.host.skipped:
            _check_value(instruction, value, self.floats)

    def is_seen(self, computation: Computation) -> bool:
        """Whether values of a computation are observed or watched."""
        return self._observe is not None or any(each in self.watched for each in computation.instructions)

    def see(self, instruction: Instruction, value: Value, operands: Sequence[Value]) -> None:
        """Shows a value to the observer, and keeps it if it is watched; of several devices, those of device 0 are."""
        if self.device == 0 and instruction in self.watched:
            self.watched[instruction].append(self.keep(value))
        if self._observe is not None:
            self._observe(instruction, self.device, value, operands)

    def _see_parameters(self, computation: Computation, arguments: Sequence[Value]) -> None:
        """Shows parameters that are watched or followed through loops; other observers are shown what is computed."""
        # Parameters are no computed values, so observers that count executions do not get them.
        for each in computation.parameters:
            if each in self.watched or self.host.iterations is not None:
                self.see(each, arguments[each.parameter_number or 0], ())

    def keep(self, value: Value) -> Value:
        """A value that is kept until the end of the run; HloError if all of them together exceed the memory limit."""
        self._kept_bytes += _bytes_of(value)
        if self._kept_bytes > self.limits.max_bytes:
            raise HloError(
                f"values to keep exceed the memory limit of {self.limits.max_bytes / 2**30:g} GiB",
                hint="use --watch NAME without -o, or --max-memory SIZE to raise the limit",
            )
        return value

    def count(self, steps: int, computation: Computation, operations: int = 0) -> None:
        """Counts executed instructions and their operations; checks the time, and shows progress, now and then."""
        before, self.executed = self.executed, self.executed + steps
        self._operations += operations
        if self._operations > self.limits.max_operations:
            raise operations_error(self.limits, computation.root)
        if before // _CHECKED != self.executed // _CHECKED:
            self._clock(computation.instructions[0])
            if self._progress is not None:
                self._progress(self.executed)

    def check_time(self, computation: Computation) -> None:
        """HloError once the time is over, while a computation runs."""
        self._clock(computation.instructions[0])

    def _guarded(self, kernel: Kernel, instruction: Instruction) -> Kernel:
        """The kernel; a long one begins only if there is time for it."""
        if instruction.opcode in FREE or (instruction.called_computations and callee_of(instruction) is None):
            return kernel
        seconds = self._work(instruction).seconds
        if seconds < _LONG:
            return kernel
        check = self._clock
        if isinstance(kernel, Taking):
            inner = kernel.take

            def take(operands: list[Value]) -> Value:
                check(instruction, seconds)
                return inner(operands)

            return Taking(take)

        def run(*operands: Value) -> Value:
            check(instruction, seconds)
            return kernel(*operands)

        return run

    def _work(self, instruction: Instruction) -> Work:
        """The work of an instruction, which is computed once."""
        if (known := self._works.get(instruction)) is None:
            callee = callee_of(instruction)
            known = self._works[instruction] = work_of(instruction, 1 if callee is None else len(callee.instructions))
        return known

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction; with `on_arrays`, one of scalars on arrays of any shape."""
        if instruction.opcode == opcodes.CONSTANT and instruction not in self.host.skipped:
            value = self.constant_of(instruction)
            # Constants are rounded numbers of the source like others.
            if self._noise is not None:
                value = _disturbed(value, self._noise)
            return lambda: value
        # On whole arrays, scalar reshapes and broadcasts change nothing; a bitcast to another type does.
        if on_arrays and instruction.opcode in NEUTRAL and not _changes_type(instruction):
            return lambda x: x
        # Compiling a kernel may take long as well: maps of addresses are made here.
        self._clock(instruction)
        try:
            # The host decides first: a stub replaces even a target whose meaning is known.
            if self.host.has_meaning(instruction):
                kernel = self.host.kernel(instruction, self.floats, lambda: self.device, self.keep)
            elif self.iterations.is_counted(instruction):
                kernel = self.iterations.kernel(instruction, self)
            else:
                kernel = self._kernel_by_rule(instruction, on_arrays=on_arrays)
                if self._noise is not None:
                    kernel = _noisy(kernel, instruction, self._noise)
                if self.host.met is not None and instruction.opcode == opcodes.COMPARE:
                    kernel = _meeting(kernel, instruction, self.host.met)
        except MISFITS as error:
            raise misfit(instruction, error) from error
        kernel = self._guarded(kernel, instruction)
        indices = [instruction.operand_index(at) for at in range(len(instruction.operands))]
        return _selecting(kernel, indices) if any(indices) else kernel

    def _kernel_by_rule(self, instruction: Instruction, *, on_arrays: bool) -> Kernel:
        if is_kernel_call(instruction):
            from hlo_cli.analysis.kernel_values.grid import kernel_of_call  # most modules have no kernels

            return kernel_of_call(instruction, self.floats, self.max_iterations, lambda: self._clock(instruction))
        return rule_of(instruction, on_arrays=on_arrays)(instruction, self)

    def constant_of(self, instruction: Instruction) -> Value:
        """The value of a constant; HloError if it has none."""
        literal = (self.host.constants or {}).get(instruction) or instruction.literal
        if literal is None:
            raise HloError(f"constant {instruction.name} has no values", instruction.span)
        return constant(literal, self.floats)


def _with_ends(steps: Sequence[Step], last_use: Mapping[int, int]) -> list[Step]:
    """Steps with the slots that nothing reads after them."""
    dead: dict[int, list[int]] = {}
    for slot, at in last_use.items():
        dead.setdefault(at, []).append(slot)
    return [each._replace(ended=tuple(dead.get(at, ()))) for at, each in enumerate(steps)]


# --- noise: what an error of every step would do to a result ---

_CHOOSING: Final = frozenset(
    (
        "abs", "and", "bitcast-convert", "ceil", "clamp", "compare", opcodes.COMPLEX, "convert", "copy", "floor",
        "imag", "is-finite", "map", "maximum", "minimum", "negate", "not", "or", "real", "reduce-precision", "select",
        "sign", "round-nearest-afz", "round-nearest-even", "xor",
    )
)  # fmt: skip
_ROUNDING: Final = ELEMENTWISE - _CHOOSING
"""Elementwise opcodes whose results are rounded; the others only choose, or change a sign."""
_SUMMING: Final = frozenset(
    (
        opcodes.DOT, "scaled-dot", "ragged-dot", opcodes.CONVOLUTION, "fft", "cholesky", "triangular-solve",
        "batch-norm-training", "batch-norm-inference", "batch-norm-grad", opcodes.CUSTOM_CALL,
    )
)  # fmt: skip
"""Opcodes that add many terms inside, which cancel where the result does not show it: their operands are disturbed."""
_REDUCING: Final = frozenset((opcodes.REDUCE, opcodes.REDUCE_WINDOW))
_MIXERS: Final = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""The multipliers of splitmix64, which spread every bit of a number over all others."""


def _noisy(kernel: Kernel, instruction: Instruction, noise: Noise) -> Kernel:
    """The kernel of an instruction that rounds, with a relative error in its result; others as they are.

    Sums have it in their operands as well. A sum of integers has none.
    """
    opcode = instruction.opcode
    is_sum = opcode in _SUMMING or (
        opcode in _REDUCING
        and len(instruction.operands) == 2
        and plain_reducer(instruction.called_computations[0]) in SUMS
    )
    # A kernel that overwrites its operand updates in place and does not round.
    if isinstance(kernel, Taking) or not (is_sum or opcode in _ROUNDING):
        return kernel

    def run(*operands: Value) -> Value:
        operand_values = [_disturbed(each, noise) for each in operands] if is_sum else operands
        return _disturbed(kernel(*operand_values), noise)

    return run


def _disturbed(value: Value, noise: Noise) -> Value:
    """Floats with a relative error of size/2 to 2 sizes, by a hash of their bits: equal numbers stay equal everywhere.

    Integral numbers stay as they are: every program has them exactly, and a floor or a comparison may follow.
    """
    if isinstance(value, tuple):
        return tuple(_disturbed(each, noise) for each in value)
    if value is None or np.asarray(value).dtype.kind not in "fc":
        return value
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind == "c":
        parts = [_disturbed(each, noise) for each in (array.real, array.imag)]
        complex_array = np.empty(array.shape, array.dtype)
        complex_array.real, complex_array.imag = (np.asarray(each) for each in parts)
        return complex_array
    wide = array.astype(np.float64, copy=False).reshape(-1)
    disturbed = np.empty(wide.shape)
    room = np.empty(min(wide.size, CACHED))
    with np.errstate(invalid="ignore"):  # constants are made before a run begins
        for start in range(0, wide.size, CACHED):
            part = slice(start, start + CACHED)
            _disturb(wide[part], noise, disturbed[part], room[: wide[part].size])
    return disturbed.reshape(array.shape)


CACHED: Final = 1 << 14
"""So many elements of f64 stay in the nearest caches through all steps of a hash or a sum, a third of the time then."""
_LEAST_BROKEN: Final = 1e-290
"""Numbers that are nearer to an integer have no error: far above those whose bits are no longer in proportion."""


def _disturb(array: Array, noise: Noise, disturbed: Array, room: Array) -> None:
    """Writes the numbers with errors by their bits: some units in the last place are added, 2^(count - 1) at least."""
    bits, mixed, moved = array.view(np.int64), disturbed.view(np.uint64), room.view(np.uint64)
    count = int(np.log2(noise.size)) + 53
    # One round of a splitmix64-like mixer; no stream flips the lowest bit of the odd multiplier.
    np.multiply(array.view(np.uint64), _MIXERS[0] ^ np.uint64(noise.stream << 1), out=mixed)
    np.right_shift(mixed, np.uint64(29), out=moved)
    mixed ^= moved
    mixed *= _MIXERS[1]
    units = disturbed.view(np.int64)
    units >>= 64 - count  # the highest bit is the sign
    units ^= 1 << (count - 1)  # and the next one its opposite, so that no number of units is small
    units += bits
    np.rint(array, out=room)
    np.subtract(array, room, out=room)
    np.abs(room, out=room)
    is_kept = room >= _LEAST_BROKEN
    np.logical_not(is_kept, out=is_kept)  # infinities and NaN too
    np.copyto(disturbed, array, where=is_kept)


# --- parts of kernels ---


def _changes_type(instruction: Instruction) -> bool:
    """Whether a bitcast makes another type of the same bits, as compilers write total orders."""
    old, new = instruction.operand_shape(0), instruction.shape
    return isinstance(old, ArrayShape) and isinstance(new, ArrayShape) and old.element_type is not new.element_type


def constant(literal: Literal, floats: Floats) -> Value:
    """The values of a constant."""
    if isinstance(literal, ArrayLiteral):
        return literal.array().astype(carrier(literal.shape.element_type, floats), copy=False)
    return tuple(constant(element, floats) for element in literal.elements)


def _bytes_of(value: Value) -> int:
    return sum(map(_bytes_of, value)) if isinstance(value, tuple) else int(np.asarray(value).nbytes)


def _meeting(kernel: Kernel, instruction: Instruction, met: set[Instruction]) -> Kernel:
    """The kernel of a comparison that joins those that `met` as soon as operands are equal whole numbers.

    Other equal numbers prove nothing: rounding may make them unequal in one of two programs.
    """

    def run(x: Array, y: Array) -> Value:
        if instruction not in met and _have_equal_wholes(x, y):
            met.add(instruction)
        return kernel(x, y)

    return run


def _have_equal_wholes(x: Array, y: Array) -> bool:
    is_equal = np.asarray(np.equal(x, y))
    if not is_equal.any() or x.dtype.kind in "biu":
        return bool(is_equal.any())
    values = np.broadcast_to(x, is_equal.shape)[is_equal]
    return bool((np.isfinite(values) & (values == np.rint(values))).any())


def _selecting(kernel: Kernel, indices: Sequence[ShapeIndex]) -> Kernel:
    def run(*operands: Value) -> Value:
        return kernel(*(element_of(value, index) for value, index in zip(operands, indices, strict=True)))

    return run


def element_of(value: Value, index: ShapeIndex) -> Value:
    """The element of a tuple at an index."""
    for at in index:
        assert isinstance(value, tuple)
        value = value[at]
    return value
