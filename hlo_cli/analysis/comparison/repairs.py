"""Which other form of an instruction would make two programs agree: the proof that it is the one that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain, combinations, islice, permutations
from math import prod
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from hlo_cli.analysis.comparison.verdict import ROUNDING, distance
from hlo_cli.analysis.dataflow.executions import loop_runs
from hlo_cli.analysis.evaluate.arguments import assembled, device_arguments
from hlo_cli.analysis.evaluate.devices import DeviceProgram, Exchange, Groups, Lockstep, exchange_of
from hlo_cli.analysis.evaluate.limits import Clock
from hlo_cli.analysis.evaluate.program import Program, constant
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.rules import rules
from hlo_cli.analysis.semantics.typed_values import (
    MISFITS,
    Array,
    Computed,
    Kernel,
    Value,
    array_of,
    arrays_of,
    carrier,
    operand_array_shape,
)
from hlo_cli.analysis.sharding.meshes import Devices, collective_kind, device_groups, device_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import PaddingConfig, Slice
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import BINARY, PERMUTES, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

# --- other forms of an instruction ---
# Another opcode, direction, order of operands, constant, element, or dimension.


_DIRECTIONS: Final[Mapping[str, Callable[..., Array]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_ARITHMETIC: Final = (opcodes.ADD, "subtract", "multiply", "divide", "maximum", "minimum")
_LOGIC: Final = (opcodes.AND, "or", "xor", "shift-left", "shift-right-logical")
_FUNCTIONS: Final = (
    "negate", "abs", "exponential", "log", "sine", "cosine", "tanh", "sqrt", "rsqrt", "floor", "ceil", "logistic",
)  # fmt: skip
# Twelve forms for each instruction: those of the other program that are most frequent; chosen, not measured.
_MAX_CONSTANTS: Final = 12
_PLACED: Final = frozenset((opcodes.BROADCAST, opcodes.DOT, opcodes.IOTA, opcodes.TRANSPOSE))
_TAKING: Final = frozenset((opcodes.CONCATENATE, opcodes.DOT, opcodes.REDUCE))


Exchanging: TypeAlias = "Callable[[Exchange, Sequence[Sequence[Value]]], list[Value]]"
"""From what an instruction does on all devices, and the operands of each, to the result of each."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Another form of an instruction, in words that go after "with", and what it computes from the kernel as it is.

    `computation` is the one that it calls instead of its own, if any. One that `is_unlikely` has another opcode than
    the name of the instruction begins with, which is that of the opcode that the compiler made it with. `exchange` is
    what it does on all devices together, instead of the kernel.
    """

    words: str
    kernel: Callable[[Kernel, Sequence[Value]], Value]
    computation: Computation | None = None
    is_unlikely: bool = False
    exchange: Exchanging | None = None


class OnDevices(NamedTuple):
    """The devices that run a program, and the one that runs now."""

    devices: Devices
    current: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Material:
    """What other forms are made of: the scalar constants of the other program by element type, the most frequent first,
    and its computations of scalars.
    """

    constants: Mapping[str, Sequence[Array]]
    computations: Sequence[Computation] = ()


def material_of(module: Module) -> Material:
    """The constants and the computations of a module, few of each type."""
    constants_by_type: dict[str, dict[float | int | complex | bool, tuple[int, Array]]] = {}
    scalar: dict[str, Computation] = {}
    for computation in module.computations:
        if computation.parameters and all(_is_scalar(each.shape) for each in computation.parameters):
            text = " ".join(f"{each.opcode}{each.attribute('direction')}" for each in computation.instructions)
            # One computation of each form: modules repeat their adders and comparators by the dozen.
            scalar.setdefault(f"{_signature(computation)} {text}", computation)
        for instruction in computation.instructions:
            shape, literal = instruction.shape, instruction.literal
            if instruction.opcode != opcodes.CONSTANT or not isinstance(shape, ArrayShape) or literal is None:
                continue
            if shape.elements == 1:
                value = np.asarray(constant(literal, "widen")).reshape(())
                times = constants_by_type.setdefault(shape.element_type.name, {})
                times[value.item()] = times.get(value.item(), (0, value))[0] + 1, value
    constants: dict[str, list[Array]] = {
        # The most frequent constants first, as trials end at a limit.
        kind: [value for _, value in sorted(times.values(), key=lambda each: -each[0])[:_MAX_CONSTANTS]]
        for kind, times in constants_by_type.items()
    }
    for values in constants.values():  # compilers multiply by the reciprocal of a divisor
        values += [np.reciprocal(each) for each in values if each.dtype.kind == "f" and each != 0]
    return Material(constants, tuple(scalar.values()))


def _is_scalar(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dimensions


def _signature(computation: Computation) -> str:
    """The types of the parameters and of the result."""
    root = computation.root
    shapes = [each.shape for each in computation.parameters] + ([] if root is None else [root.shape])
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
    return " ".join(leaf.element_type.name for leaf in leaves)


def _variants(
    instruction: Instruction, computed: Computed, material: Material, on: OnDevices | None = None
) -> Iterator[Variant]:
    """The other forms of an instruction; on several devices, also of what they exchange."""
    opcode, shape = instruction.opcode, instruction.shape
    if on is not None:
        yield from _on_devices(instruction, computed, on)
    if collective_kind(opcode) is not None:
        return
    if len(instruction.called_computations) == 1:
        yield from _calls(instruction, computed, material)
    if opcode == opcodes.GET_TUPLE_ELEMENT:
        yield from _elements(instruction)
    elif not isinstance(shape, ArrayShape):
        # An all-reduce or all-to-all has no other opcode; its groups are tried above.
        return
    elif opcode == opcodes.CONSTANT:
        if shape.elements == 1:
            usual = [np.array(each).astype(carrier(shape.element_type, computed.floats)) for each in (0, 1, -1)]
            for value in (*material.constants.get(shape.element_type.name, ()), *usual):
                yield Variant(f"constant {value.item():g}", _always(value.reshape(shape.dimensions)))
    elif opcode == opcodes.COMPARE:
        for direction, function in _DIRECTIONS.items():
            if direction != instruction.attribute("direction"):
                yield Variant(f"direction {direction}", _calling(function))
        yield Variant("operands swapped", _swapped)
    elif opcode in BINARY:
        yield Variant("operands swapped", _swapped)
        yield from _opcodes(instruction, computed, _ARITHMETIC)
        if not _is_real_or_complex(shape):
            yield from _opcodes(instruction, computed, _LOGIC)
    elif opcode in UNARY and _is_real_or_complex(shape):
        # Of complex numbers, `abs` and `real` make real ones, and what most others make does not fit in their place.
        if operand_array_shape(instruction, 0).element_type == shape.element_type:
            yield from _opcodes(instruction, computed, _FUNCTIONS)
    else:
        yield from _moves(instruction, shape)


def _is_real_or_complex(shape: ArrayShape) -> bool:
    return shape.element_type.kind == "float" or shape.element_type.is_complex


def _always(value: Array) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: value


def _calling(function: Callable[..., Value]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: function(*operands)


def _swapped(kernel: Kernel, operands: Sequence[Value]) -> Value:
    return kernel(*reversed(operands))


def _opcodes(instruction: Instruction, computed: Computed, others: Sequence[str]) -> Iterator[Variant]:
    # Names keep the opcode that the framework made: `add.5` that is a subtract is suspicious, `add.5` that is an add is
    # not.
    is_unlikely = instruction.name.startswith(instruction.opcode)
    for other in others:
        if other != instruction.opcode:
            yield Variant(other, _calling(rules()[other](instruction, computed)), is_unlikely=is_unlikely)


def _calls(instruction: Instruction, computed: Computed, material: Material) -> Iterator[Variant]:
    """Other computations of scalars with the same types."""
    [own] = instruction.called_computations
    if not all(_is_scalar(each.shape) for each in own.parameters):
        return
    # The computation of the other program that the edit removed is among these.
    for computation in material.computations:
        if _signature(computation) == _signature(own):
            altered = copy(instruction)
            altered.called_computations = (computation,)
            kernel = rules()[instruction.opcode](altered, computed)
            yield Variant(f"{computation.name} of the first module", _calling(kernel), computation)


def _elements(instruction: Instruction) -> Iterator[Variant]:
    whole = instruction.operand_shape(0)
    if not isinstance(whole, TupleShape):
        return
    for at, each in enumerate(whole.elements):
        # XLA infers the shape from the index, so only elements of the same shape parse.
        if at != instruction.integer("index") and str(each) == str(instruction.shape):
            yield Variant(f"index {at}", _element(at))


def _element(index: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        [whole] = operands
        assert isinstance(whole, tuple)
        return whole[index]

    return kernel


def _moves(instruction: Instruction, shape: ArrayShape) -> Iterator[Variant]:
    """Dimensions of equal sizes in another order, other ends of slices and paddings."""
    opcode = instruction.opcode
    rank = len(shape.dimensions)
    if opcode == opcodes.IOTA:
        for dimension in range(rank):
            if dimension != instruction.integer("iota_dimension"):
                yield Variant(f"iota_dimension {dimension}", _counting(dimension))
    elif opcode in _PLACED:
        # Dimensions of other sizes cannot be exchanged without another shape.
        for i, j in _equal(shape.dimensions):
            yield Variant(f"dimensions {i} and {j} swapped", _result(partial(np.swapaxes, axis1=i, axis2=j)))
    if opcode in _TAKING and isinstance(given := instruction.operand_shape(0), ArrayShape):
        for i, j in _equal(given.dimensions):
            yield Variant(f"dimensions {i} and {j} of operand 0 swapped", _operand(i, j))
    if opcode == "reverse":
        for axes in (*((dimension,) for dimension in range(rank)), *combinations(range(rank), 2)):
            yield Variant("other dimensions", _result(partial(np.flip, axis=axes)))
    if opcode == opcodes.SLICE and (taken := instruction.value_of(opcodes.SLICE, Slice)) is not None:
        yield from _slices(instruction, taken)
    if opcode == opcodes.PAD and (config := instruction.value_of("padding", PaddingConfig)) is not None:
        for dimension, padding in enumerate(config.dimensions):
            # A roll is the padding with its ends exchanged where the cut-off values are padding again.
            if padding.edge_padding_low != padding.edge_padding_high:
                by = padding.edge_padding_high - padding.edge_padding_low
                yield Variant("low and high swapped", _result(partial(np.roll, shift=by, axis=dimension)))


def _equal(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((i, j) for i, j in combinations(range(len(sizes)), 2) if sizes[i] == sizes[j] > 1)


def _result(change: Callable[[Array], Array]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: change(array_of(kernel(*operands)))


def _operand(i: int, j: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: kernel(np.swapaxes(array_of(operands[0]), i, j), *operands[1:])


def _counting(dimension: int) -> Callable[[Kernel, Sequence[Value]], Value]:
    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        as_is = array_of(own(*operands))
        sizes = [as_is.shape[dimension] if each == dimension else 1 for each in range(as_is.ndim)]
        return np.broadcast_to(np.arange(as_is.shape[dimension], dtype=as_is.dtype).reshape(sizes), as_is.shape)

    return kernel


def _slices(instruction: Instruction, taken: Slice) -> Iterator[Variant]:
    operand_shape = instruction.operand_shape(0)
    assert isinstance(operand_shape, ArrayShape)
    for dimension, bounds in enumerate(taken.dimensions):
        # One off in either direction is the usual mistake in bounds; others change the shape.
        for offset in (1, -1):
            if bounds.start + offset >= 0 and bounds.limit + offset <= operand_shape.dimensions[dimension]:
                ranges = [slice(d.start, d.limit, d.stride) for d in taken.dimensions]
                ranges[dimension] = slice(bounds.start + offset, bounds.limit + offset, bounds.stride)
                yield Variant(f"start {bounds.start + offset}", _ranges(tuple(ranges)))


def _ranges(ranges: tuple[slice, ...]) -> Callable[[Kernel, Sequence[Value]], Value]:
    return lambda kernel, operands: array_of(operands[0])[ranges]


# --- other forms of what devices exchange ---

_MAX_ORDERS: Final = 64  # every ordered selection of the 4 axes of 16 devices: 4 + 12 + 24 + 24
_SUMMING: Final = frozenset((opcodes.DOT, opcodes.REDUCE, opcodes.CONVOLUTION, opcodes.SCATTER, opcodes.FUSION))
"""Opcodes after which compilers add up what the devices have computed of a sum."""


def _on_devices(instruction: Instruction, computed: Computed, on: OnDevices) -> Iterator[Variant]:
    devices, kind = on.devices, collective_kind(instruction.opcode)
    if kind in PERMUTES:
        own = device_pairs(instruction, devices)
        for pairs in _other_pairs(own, devices.count):
            is_idle = all(source == target for source, target in pairs)
            # The identity is tried in words of its own, as the collective has no effect then.
            words = "no exchange" if is_idle else f"source_target_pairs={_braces(pairs)}"
            yield _exchanged(words, exchange_of(instruction, computed, devices, pairs))
    elif kind is not None:
        groups = device_groups(instruction, devices)
        if kind == opcodes.ALL_REDUCE:
            yield _exchanged("no all-reduce", lambda given: list(map(_unreduced, given)))
        for other in _other_groups(groups, devices.count, is_sum=kind == opcodes.ALL_REDUCE):
            yield _exchanged(f"replica_groups={_braces(other)}", exchange_of(instruction, computed, devices, other))
    elif instruction.opcode == opcodes.DYNAMIC_SLICE:
        yield from _other_starts(instruction, on)
    # A collective that is missing has no instruction: it is tried after what it would add up.
    elif instruction.opcode in _SUMMING and _is_float_array(instruction.shape):
        for other in _other_groups((), devices.count, is_sum=True):
            yield Variant(f"an all-reduce over {_braces(other)} after it", _always_own, exchange=_summed(other))


def _is_float_array(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and _is_real_or_complex(shape)


def _exchanged(words: str, exchange: Exchange) -> Variant:
    return Variant(words, _always_own, exchange=lambda own, given: exchange(given))


def _always_own(kernel: Kernel, operands: Sequence[Value]) -> Value:
    return kernel(*operands)


def _unreduced(operands: Sequence[Value]) -> Value:
    return operands[0] if len(operands) == 1 else tuple(operands)


def _summed(groups: Groups) -> Exchanging:
    def exchange(own: Exchange, operands: Sequence[Sequence[Value]]) -> list[Value]:
        results = own(operands)
        for group in groups:
            total = np.sum([array_of(results[device]) for device in group], axis=0)
            for device in group:
                results[device] = total
        return results

    return exchange


def _braces(lists: Groups) -> str:
    return "{" + ",".join(index_text(tuple(each)) for each in lists) + "}"


def _axes(count: int) -> list[int]:
    """The sizes of a mesh of so many devices with as many axes as there can be: the prime factors."""
    # Every mesh of so many devices is coarser than that of the prime factors, so its groups are among these.
    factors, factor = [], 2
    while count > 1:
        while count % factor == 0:
            factors.append(factor)
            count //= factor
        factor += 1
    return factors


def _over(axes: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """The groups of devices that differ along some axes of the finest mesh, in the order of these axes."""
    mesh = np.arange(count).reshape(_axes(count))
    rest = [each for each in range(mesh.ndim) if each not in axes]
    rows = mesh.transpose(*rest, *axes).reshape(-1, prod(mesh.shape[each] for each in axes))
    return [tuple(map(int, row)) for row in rows]


def _other_groups(own: Groups, count: int, *, is_sum: bool) -> Iterator[Groups]:
    """Groups over each set of axes of the finest mesh; of the same size, and in each order, if results depend on it."""
    number, tried = len(_axes(count)), {tuple(map(tuple, own))}
    # Sums do not depend on the order in a group; gathers and exchanges do.
    arrange = combinations if is_sum else permutations
    orders = (axes for length in range(1, number + 1) for axes in arrange(range(number), length))
    for axes in islice(orders, _MAX_ORDERS):
        groups = tuple(_over(axes, count))
        if groups not in tried and (is_sum or len(groups[0]) == len(own[0])):
            tried.add(groups)
            yield groups


def _other_pairs(own: Groups, count: int) -> Iterator[Groups]:
    """The identity, the way back, rings and lines along axes, exchanged axes, the own pairs with a change or two."""
    seen = {tuple(sorted(map(tuple, own)))}
    for pairs in chain(_regular_pairs(own, count), _changed_pairs(own, count)):
        found = tuple(sorted(map(tuple, pairs)))
        # A source may send once (`source_target_pairs` of a collective-permute): other pairs are no program of XLA.
        if found not in seen and len({source for source, *_ in found}) == len(found):
            seen.add(found)
            yield found


def _regular_pairs(own: Groups, count: int) -> Iterator[Groups]:
    yield [(device, device) for device in range(count)]
    yield [(target, source) for source, target in own]
    sizes = _axes(count)
    for length in range(1, len(sizes) + 1):
        for axes in combinations(range(len(sizes)), length):
            groups = _over(axes, count)
            # Rings as jnp.roll and ring attention make, by each number of places.
            for by in range(1, len(groups[0])):
                yield [(group[at], group[(at + by) % len(group)]) for group in groups for at in range(len(group))]
            # Lines as halo exchanges make: the ends have no partner and get zeros.
            for by in (1, -1):
                yield [
                    (group[at], group[at + by])
                    for group in groups
                    for at in range(len(group))
                    if 0 <= at + by < len(group)
                ]
    mesh = np.arange(count).reshape(sizes)
    # The first permutation is the identity, which is tried first of all.
    for order in islice(permutations(range(len(sizes))), 1, _MAX_ORDERS):
        if [sizes[each] for each in order] == sizes:
            # Exchanged axes of equal sizes are what an all-to-all over the wrong axis does.
            yield [(source, int(target)) for source, target in enumerate(mesh.transpose(order).reshape(-1))]


def _changed_pairs(own: Groups, count: int) -> Iterator[Groups]:
    sources, targets = ({each[changed] for each in own} for changed in (0, 1))
    for changed, (source, target) in enumerate(own):
        others = [*own[:changed], *own[changed + 1 :]]
        for free in range(count):
            if free not in targets:
                yield [*others, (source, free)]
            if free not in sources:
                yield [*others, (free, target)]
    for i, j in combinations(range(len(own)), 2):
        others = [each for changed, each in enumerate(own) if changed not in (i, j)]
        yield [*others, (own[i][0], own[j][1]), (own[j][0], own[i][1])]


def _other_starts(instruction: Instruction, on: OnDevices) -> Iterator[Variant]:
    """Slices whose start is the place of a device along axes of the finest mesh, as partitioners take them.

    Small arrays of integers are tables of such places, and not what is divided.
    """
    operand_shape, count = instruction.operand_shape(0), on.devices.count
    assert isinstance(operand_shape, ArrayShape)
    assert isinstance(instruction.shape, ArrayShape)
    # The partitioner's tables of offsets, an element a device, are looked up by partition-id.
    if operand_shape.elements <= count and not _is_real_or_complex(operand_shape):
        return
    number = len(_axes(count))
    for dimension, (whole, size) in enumerate(zip(operand_shape.dimensions, instruction.shape.dimensions, strict=True)):
        if not size or whole % size or whole == size:
            continue
        orders = (axes for length in range(1, number + 1) for axes in permutations(range(number), length))
        for axes in islice(orders, _MAX_ORDERS):
            groups = _over(axes, count)
            if len(groups[0]) == whole // size:
                starts = {device: size * place for group in groups for place, device in enumerate(group)}
                listed = ",".join(str(starts[device]) for device in range(count))
                yield Variant(
                    f"start {{{listed}}} along dimension {dimension}", _starting(dimension, starts, on.current)
                )


def _starting(
    dimension: int, starts: Mapping[int, int], current: Callable[[], int]
) -> Callable[[Kernel, Sequence[Value]], Value]:
    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        changed = list(operands)
        changed[dimension + 1] = np.asarray(starts[current()], array_of(operands[dimension + 1]).dtype)
        return own(*changed)

    return kernel


# --- the values of another program ---


def _graft_of(values: Mapping[tuple[int, int], Value], current: Callable[[], int]) -> Variant:
    """The values of the other program in place of those of an instruction, by device and execution."""
    executions: dict[int, int] = {}

    def kernel(own: Kernel, operands: Sequence[Value]) -> Value:
        device = current()
        execution = executions.get(device, 0)
        executions[device] = execution + 1
        return values[device, execution]

    return Variant("the values of the first module", kernel)


# --- forms that heal ---
# Tries other forms of instructions until two programs agree: the proof that an instruction is the one that differs.


_MAX_EXECUTED: Final = 4_000_000
"""The largest number of instructions that all attempts execute together: some ten seconds, of large modules."""
_MAX_OPERATIONS: Final = 1e10
"""The largest number of scalar operations of all attempts: some seconds."""
_MORE_ITERATIONS: Final = 16  # a loop of another form may run somewhat longer; chosen, not measured
_MAX_SECONDS: Final = 60.0
"""A last resort, as what is found must not depend on how busy the machine is."""


class _Exhausted(Exception):
    """All attempts together have executed as much as they may."""


class _Varied(Program):
    """A program in which one instruction at a time has another form."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("widen", limits=limits, clock=Clock(limits))
        self.varied: Instruction | None = None
        self.variant: Variant | None = None
        self.devices: Devices | None = None
        self.together: set[Instruction] = set()

    def current(self) -> int:
        """The device that runs now."""
        return self.device

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction, or its other form."""
        # The kernel is looked up once, the form chosen at each call: a program is built once for all attempts.
        own = super().kernel(instruction, on_arrays=on_arrays)

        def run(*operands: Value) -> Value:
            if instruction is not self.varied or self.variant is None:
                return own(*operands)
            return self.variant.kernel(own, operands)

        return run

    def count(self, steps: int, computation: Computation, operations: int = 0) -> None:
        """Counts executed instructions, and ends all attempts after too many."""
        try:
            super().count(steps, computation, operations)
        except HloError as error:
            raise _Exhausted from error
        if self.executed > _MAX_EXECUTED:
            raise _Exhausted


class _VariedDevices(DeviceProgram):
    """The same on several devices: an instruction may exchange other parts, or have another form on each."""

    def __init__(self, program: Program, devices: Devices, module: Module) -> None:
        super().__init__(program, devices, module)
        loops = (each for each in module.instructions if each.opcode == opcodes.WHILE and loop_runs(each))
        self._counted = {computation for each in loops for computation in each.called_computations}

    def is_lockstep(self, computation: Computation) -> bool:
        """Also loops of a known trip count, in which a sum over devices may be missing."""
        # A known trip count is the same on all devices, so they stay in step whatever the condition computes.
        return super().is_lockstep(computation) or computation in self._counted

    def _is_pure(self, instruction: Instruction) -> bool:
        # No value may be kept between attempts: each has another form.
        return False

    def _step(self, instruction: Instruction) -> Lockstep:
        own, program = super()._step(instruction), self.program
        assert isinstance(program, _Varied)
        program.together.add(instruction)

        def run(operands: Sequence[Sequence[Value]]) -> list[Value]:
            if instruction is not program.varied or program.variant is None or program.variant.exchange is None:
                return own(operands)
            return program.variant.exchange(own, operands)

        return run


Runner: TypeAlias = "Callable[[_Varied], Callable[[], Iterable[Array]]]"
"""From a program to a function that runs it and returns the arrays of its results."""


def runner_of(module: Module, arguments: Sequence[Value], devices: Devices | None) -> Runner:
    """Runs the entry of a module, on several devices if they are given."""
    root = module.entry.root
    assert root is not None

    def on_one(program: _Varied) -> Callable[[], Iterable[Array]]:
        function = program.function(module.entry)
        return lambda: [each for _, each, _ in arrays_of(function(arguments), root.shape)]

    def on_several(program: _Varied) -> Callable[[], Iterable[Array]]:
        assert devices is not None
        program.devices = devices
        given = device_arguments(module, arguments, devices.count)
        function = _VariedDevices(program, devices, module).function(module.entry)
        return lambda: [each for _, each, _ in arrays_of(assembled(module, function(given))[0], root.shape)]

    return on_one if devices is None else on_several


def find_repair(
    runner: Runner,
    expected: Sequence[Array | None],
    suspects: Sequence[Instruction],
    material: Material,
    *,
    executions: int = 1,
    operations: float = 0.0,
) -> tuple[Instruction, Variant] | None:
    """The first suspect that has a form with which all results are the expected ones, and that form.

    `executions` is how often one instruction runs as it is, and loops may not run much longer; `operations` are those
    of one run. Expected ones that are
    None may be anything. None if there is no such suspect, and if finding it takes too much.

    >>> from hlo_cli import parse_module
    >>> new = parse_module("ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT n = f32[2] negate(a) }")
    >>> runner = runner_of(new, [np.array([2.0, 3.0])], None)
    >>> suspect, variant = find_repair(runner, [np.array([-4.0, -9.0])], new.entry.instructions[1:], Material({}))
    >>> suspect, variant.words
    (<add a>, 'multiply')
    """
    program = _Varied(Limits(max_iterations=executions + _MORE_ITERATIONS, max_seconds=_MAX_SECONDS))
    attempts = int(_MAX_OPERATIONS / max(operations, 1.0))
    try:
        with np.errstate(all="ignore"):
            run = runner(program)
            # Names that fit first: forms with another opcode than the name are tried when nothing else heals.
            for is_unlikely in (False, True):
                for suspect in dict.fromkeys(suspects):
                    for variant in _variants_of(suspect, program, material):
                        if variant.is_unlikely is not is_unlikely:
                            continue
                        if (attempts := attempts - 1) < 0:
                            return None
                        program.varied, program.variant = suspect, variant
                        # Random generators start each attempt with the same state.
                        program.states.clear()
                        if _agrees(run, expected):
                            return suspect, variant
    # Deep recursion and memory are as final as the limits: further attempts would end alike.
    except (_Exhausted, RecursionError, MemoryError):
        pass
    return None


def is_healed(
    runner: Runner,
    expected: Sequence[Array | None],
    suspect: Instruction,
    values: Mapping[tuple[int, int], Value],
) -> bool | None:
    """Whether all results agree if an instruction has the values of the other program, by device and execution.

    If they do not, something else is wrong too, or instead. None if it cannot be tried.
    """
    program = _Varied(Limits(max_seconds=_MAX_SECONDS))
    program.varied, program.variant = suspect, _graft_of(values, program.current)
    with np.errstate(all="ignore"):
        try:
            results = list(runner(program)())
        except (_Exhausted, HloError, RecursionError, MemoryError, *MISFITS):
            return None
    return _are_as_expected(results, expected)


def _variants_of(suspect: Instruction, program: _Varied, material: Material) -> Sequence[Variant]:
    on = None if program.devices is None else OnDevices(program.devices, program.current)
    try:
        found = _variants(suspect, program, material, on)
        return [each for each in found if each.exchange is None or suspect in program.together]
    except (HloError, *MISFITS):
        return ()


def _agrees(run: Callable[[], Iterable[Array]], expected: Sequence[Array | None]) -> bool:
    try:
        return _are_as_expected(run(), expected)
    except (HloError, *MISFITS):
        return False


def _are_as_expected(results: Iterable[Array], expected: Sequence[Array | None]) -> bool:
    return all(
        # Integers do not round; floats are widened on both sides, see ROUNDING.
        old is None or distance(old, new) <= (0 if old.dtype.kind in "biu" else ROUNDING)
        for old, new in zip(expected, results, strict=True)
    )
