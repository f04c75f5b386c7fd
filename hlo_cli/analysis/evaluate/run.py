"""Runs a module, and says what cannot run; meanwhile values are watched, summed up, and searched for NaN."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from math import prod, sqrt
from typing import Final

import numpy as np

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import (
    Ranges,
    assembled,
    check_count,
    checked,
    device_arguments,
    made_up_arguments,
    whole_arguments,
)
from hlo_cli.analysis.evaluate.devices import DeviceProgram, chosen_devices, runs_on_devices, transfer_problem
from hlo_cli.analysis.evaluate.host import (
    INFEED,
    Host,
    Stub,
    UnknownFunctions,
    fused_problem,
    inputs_of,
    is_fused_part,
    omitted_constants,
)
from hlo_cli.analysis.evaluate.limits import Estimate, check, start
from hlo_cli.analysis.evaluate.program import Noise, Observer, Program
from hlo_cli.analysis.evaluate.settings import Limits, Wanted
from hlo_cli.analysis.semantics.rules import has_rule, is_kernel_call, rule_of_target, target_of_call
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.analysis.shapes.inference import shape_difference, shape_difference_key
from hlo_cli.analysis.sharding.meshes import Devices, collective_kind
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import LARGE_CONSTANTS
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import FLOAT_FORMATS
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import CHANNEL_OPCODES, DEVICE_IDS, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError, expect

# --- what cannot be evaluated ---
# What cannot be evaluated, told before anything runs: instructions of unknown meaning, and shapes that break rules.


def refusals(
    module: Module, *, has_devices: bool = False, host: Host | None = None
) -> tuple[tuple[Instruction, str], ...]:
    """The instructions that cannot be evaluated, in the order of the text, each with the reason.

    `host` may give custom calls, infeeds, and outfeeds a meaning.

    >>> from hlo_cli import parse_module
    >>> [(instruction, reason)] = refusals(parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"'))
    >>> reason
    'the meaning of the custom call target my_op is unknown'
    """
    reached = executions_of(module)
    # Thousands of instructions have the same shapes and attributes: each kind is checked once.
    valid: set[Hashable] = set()
    return tuple(
        (instruction, reason)
        for computation in module.computations
        if computation in reached
        for instruction in computation.instructions
        if (reason := _reason(instruction, has_devices, host) or _misfit(instruction, module, valid))
    )


def _unneeded(module: Module) -> frozenset[Instruction]:
    """The instructions whose values no result depends on, and that exchange nothing with a host or other devices.

    Compilers leave them behind between passes, also ones that break rules.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  d = f32[2] negate(p)  ROOT r = f32[2] copy(p) }")
    >>> _unneeded(module)
    frozenset({<negate d>})
    """
    needed: set[Instruction] = set()
    reached, computations = {module.entry}, [module.entry]
    while computations:
        computation = computations.pop()
        # Parameters are values of callers, whether they are used or not.
        pending = [each for each in computation.instructions if _has_effect(each) or each.parameter_number is not None]
        pending += [] if computation.root is None else [computation.root]
        needed.update(pending)
        while pending:
            each = pending.pop()
            new = set(inputs_of(each)) - needed
            needed |= new
            pending += new
            called = set(each.called_computations) - reached
            reached |= called
            computations += called
    return frozenset(module.instructions) - needed


def _has_effect(instruction: Instruction) -> bool:
    return instruction.opcode in HOST_FEEDS or instruction.opcode in CHANNEL_OPCODES


def _reason(instruction: Instruction, has_devices: bool, host: Host | None) -> str:
    opcode = instruction.opcode
    # The host comes first: stubs and data are there to replace what is refused below.
    if host is not None and host.has_meaning(instruction):
        return ""
    if opcode == opcodes.CONSTANT:
        literal = instruction.literal
        return "the dump omits the values of the constant" if literal is None or literal.is_elided else ""
    if opcode == opcodes.CUSTOM_CALL and has_devices and is_fused_part(instruction):
        return fused_problem(instruction)
    if opcode == opcodes.CUSTOM_CALL and is_kernel_call(instruction):
        from hlo_cli.analysis.kernel_values.grid import problem_of_call  # most modules have no kernels

        problem = problem_of_call(instruction)
        return f"the kernel cannot be evaluated: {problem}" if problem else ""
    if opcode == opcodes.CUSTOM_CALL:
        known = rule_of_target(instruction) is not None
        return "" if known else f"the meaning of the custom call target {target_of_call(instruction)} is unknown"
    if opcode in HOST_FEEDS:
        return f"{opcode} exchanges data with the host, which a dump does not have"
    if opcode in CHANNEL_OPCODES and (problem := transfer_problem(instruction)):
        return problem
    if (
        # Collectives come before the question whether a rule exists: the rules are those of one device.
        opcode in DEVICE_IDS
        or opcode in CHANNEL_OPCODES
        or collective_kind(opcode.removesuffix("-done")) is not None
        or collective_kind(opcode) is not None
    ):
        return "" if has_devices else f"{opcode} requires several devices; pass the whole module"
    return "" if opcode == opcodes.PARAMETER or has_rule(opcode) else f"{opcode} is not supported"


def _hint_of(instruction: Instruction) -> str | None:
    """The option of `hlo run` that gives an instruction a meaning, or of XLA that dumps its values."""
    if instruction.opcode == opcodes.CONSTANT:
        return LARGE_CONSTANTS
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return f"use --stub {target_of_call(instruction)}=FILE.py to define it in Python"
    return "use --feed FILE to give its data" if instruction.opcode == INFEED else None


def _misfit(instruction: Instruction, module: Module, valid: set[Hashable]) -> str:
    """What is wrong with the shapes of an instruction; `valid` are keys of those that are known to be right."""
    if any(
        isinstance(leaf, ArrayShape) and min(leaf.dimensions, default=0) < 0
        for _, leaf in instruction.shape.leaves
        # -1 is an unbounded dimension, which no array has.
    ):
        return f"the sizes of {instruction.shape} are unknown"
    if (key := shape_difference_key(instruction)) in valid:
        return ""
    try:
        # Mixed precision is legal after XLA's passes (hlo_verifier.cc, allow_mixed_precision), so it is no reason to
        # refuse.
        difference = shape_difference(instruction, module, allow_mixed_precision=True)
    except HloError as error:
        # The rule itself may fail on a malformed attribute.
        return error.diagnostic.message
    if difference is None and key is not None:
        valid.add(key)
    return difference or ""


# --- the run ---
# Runs a module: the values of its results, and of any instruction, for given arguments.


@dataclass(frozen=True, slots=True)
class Run(WithItems):
    """The result of a run, the values of the instructions that were asked for, and what it took.

    `watched` are values of device 0. `ran` are the computations that ran one instruction after another, such as bodies
    of loops and branches, and `met` the comparisons that met equal whole numbers, if that was asked for. `unknown` are
    the arrays of the result of several devices whose place on them is unknown: the part of device 0. `outfed` are the
    values of outfeeds of device 0, and `unread` is the number of arrays for infeeds that were not used.
    """

    result: Value
    watched: Mapping[Instruction, tuple[Value, ...]]
    executed: int
    estimate: Estimate
    unknown: frozenset[ShapeIndex] = frozenset()
    ran: frozenset[Computation] = frozenset()
    met: frozenset[Instruction] = frozenset()
    devices: int = 1
    outfed: tuple[tuple[Instruction, Value], ...] = ()
    unread: int = 0

    def __post_init__(self) -> None:
        WithItems.__post_init__(self)
        if isinstance(self.result, tuple):
            # For `jax.tree`, an instance of any other class than tuple itself is a leaf.
            object.__setattr__(self, "result", tuple(self.result))


@of_module
def run(
    module: Module,
    args: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    devices: int | None = None,
    watch: Iterable[Instruction | str] = (),
    observe: Observer | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
    stubs: Mapping[str, Stub] | None = None,
    feed: Sequence[Array] | None = None,
    iterations: list[int] | None = None,
    unknown: UnknownFunctions | None = None,
    noise: Noise | None = None,
    ranges: Ranges | None = None,
    with_met: bool = False,
) -> Run:
    """Runs a module: on one device, or on simulated ones if it is partitioned or its devices exchange data.

    `args` are those of the whole program, made-up ones by default; `devices` is the number of devices if a module does
    not state it. Of several devices, `watch`, instructions or their names, keeps the values of device 0. `stubs` are
    functions for custom calls by target, called with arrays, and with `shape` and `instruction` if they have parameters
    of these names. `feed` are the arrays for infeeds, in the order in which they run. While `observe` is called,
    `iterations` has those of the loops around the instruction. `unknown` makes up results of functions that two
    programs have in common. `noise` is an error of every float that an instruction rounds. `ranges` are those of
    made-up arguments, by default what the module needs. `with_met` asks which comparisons met equal whole numbers.
    Values of constants that the text omits are taken from the proto or the dump before optimizations next to it.
    HloError as for `evaluate`.

    >>> from hlo_cli import parse_module
    >>> run(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }"), [[1, 2]]).result.tolist()
    [-1.0, -2.0]
    """
    expect_run_options(args, seed=seed, devices=devices, stubs=stubs, feed=feed)
    expect(str | Iterable, "instructions to watch, or their names", watch)
    expect(Limits | None, "Limits", limits)
    expect(UnknownFunctions | None, "UnknownFunctions", unknown)
    expect(Mapping | None, "ranges of arguments by number", ranges)
    host = Host(stubs, feed, iterations=iterations, unknown=unknown, met=set() if with_met else None)
    return evaluate(
        module,
        args,
        seed=seed,
        floats=floats,
        devices=chosen_devices(module, devices) if runs_on_devices(module) else None,
        watch=[module.instruction(each) for each in ((watch,) if isinstance(watch, str) else watch)],
        observe=observe,
        limits=limits,
        progress=progress,
        host=host,
        noise=noise,
        ranges=ranges,
    )


def expect_run_options(args: object, *, seed: object, devices: object, stubs: object, feed: object) -> None:
    """Raises TypeError, which says what to pass, for options of runs that have another type.

    >>> expect_run_options(3, seed=0, devices=None, stubs=None, feed=None)
    Traceback (most recent call last):
        ...
    TypeError: expected a sequence of arguments, found the int 3: one for each parameter of the entry
    """
    expect(Sequence | None, "a sequence of arguments", args, "one for each parameter of the entry")
    expect(int, "a number as the seed", seed)
    expect(int | None, "a number of devices", devices)
    expect(Mapping | None, "functions for custom calls by target", stubs, 'such as {"my_op": function}')
    expect(Sequence | None, "the arrays of infeeds", feed)


def evaluate(
    module: Module,
    arguments: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    devices: Devices | None = None,
    watch: Iterable[Instruction] = (),
    observe: Observer | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
    host: Host | None = None,
    noise: Noise | None = None,
    ranges: Ranges | None = None,
) -> Run:
    """Runs the entry of a module on arguments, made-up ones by default: on one device, or on simulated `devices`.

    With floats `widen`, every float is an f64 that is never rounded, so that two compilations of one program agree
    even if they round at different places. `watch` are instructions whose values are kept, one for each time that they
    run. On devices, arguments are those of the whole program: the shardings of the parameters divide them, and those of
    the results assemble the results; without shardings, all devices get the same. HloError, before anything runs, for
    instructions that cannot be evaluated and for modules beyond the limits; while running, for loops and times beyond
    them, and if devices go different ways where a collective waits.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] add(p, p) }")
    >>> evaluate(module, [np.float32([1, 2])]).result.tolist()
    [2.0, 4.0]
    >>> text = '''HloModule m, num_partitions=2
    ... f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
    ...   ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    ...     to_apply=f }'''
    >>> evaluate(parse_module(text), [np.float32([1, 2, 3, 4])], devices=Devices(1, 2)).result.tolist()
    [4.0, 6.0]
    """
    limits, host = limits or Limits(), _with_constants(host, module)
    count = 1 if devices is None else devices.count
    _check_module(module, has_devices=devices is not None, host=host)
    estimate = check(module, floats, limits, count)
    clock = start(module, limits, count, makes_arguments=arguments is None)
    with _exhaustion(module):
        if arguments is None:
            make = made_up_arguments if devices is None else whole_arguments
            arguments = make(module, seed=seed, floats=floats, ranges=ranges, before_each=clock)
    check_count(arguments, module)
    program = Program(
        floats, watch=frozenset(watch), observe=observe, clock=clock, limits=limits, progress=progress, host=host,
        noise=noise,
    )  # fmt: skip
    unknown: frozenset[ShapeIndex] = frozenset()
    with _exhaustion(module):
        if devices is None:
            result = program.function(module.entry)(_in_carriers(arguments, module, floats))
        else:
            given = [_in_carriers(each, module, floats) for each in device_arguments(module, arguments, count)]
            result, unknown = assembled(module, DeviceProgram(program, devices, module).function(module.entry)(given))
    watched = {instruction: tuple(values) for instruction, values in program.watched.items()}
    outfed, unread, met = tuple(program.host.outfed), program.host.unused, frozenset(program.host.met or ())
    return Run(result, watched, program.executed, estimate, unknown, frozenset(program.ran), met, count, outfed, unread)


def _in_carriers(arguments: Sequence[Value], module: Module, floats: Floats) -> list[Value]:
    """Arguments in the carriers of the parameters."""
    return [
        checked(value, parameter.shape, f"argument {number}", floats)
        for number, (value, parameter) in enumerate(zip(arguments, module.entry.parameters, strict=True))
    ]


def _with_constants(host: Host | None, module: Module) -> Host:
    host = host or Host()
    if host.constants is None:
        host.constants = omitted_constants(module)
    return host


def _check_module(module: Module, *, has_devices: bool = False, host: Host | None = None) -> None:
    if module.errors:
        raise HloError.of(module.errors)
    # Parameter numbers are indices of the arguments.
    numbers = sorted(parameter.parameter_number or 0 for parameter in module.entry.parameters)
    if numbers != list(range(len(numbers))):
        listed = ", ".join(map(str, numbers))
        raise HloError(f"the parameters of the entry have the numbers {listed}, not 0 to {len(numbers) - 1}")
    refused = refusals(module, has_devices=has_devices, host=host)
    # Only if something is refused, as the search visits the whole module.
    if refused and host is not None:
        host.skipped = _unneeded(module)
    for instruction, reason in refused:
        if host is not None and instruction in host.skipped:
            continue
        raise HloError(
            f"cannot evaluate {instruction.name}: {reason}",
            instruction.span,
            source=module.source,
            hint=_hint_of(instruction),
        )


@contextmanager
def _exhaustion(module: Module) -> Iterator[None]:
    """Ignores overflows and the like, tells what exhausts the stack or the memory, and adds places to errors."""
    try:
        # Overflow, NaN, and division by zero are results of HLO, not errors.
        with np.errstate(all="ignore"):
            yield
    # Spans of a kernel's error belong to the module that runs.
    except HloError as error:
        placed = [replace(each, source=each.source or module.source) for each in error.diagnostics]
        raise HloError.of(placed) from error
    except RecursionError as error:
        raise HloError("computations call each other too deeply to be evaluated") from error
    except MemoryError as error:
        raise HloError("not enough memory to evaluate the module", hint="use smaller shapes") from error


# --- where NaN and infinities come from ---
# Where NaN, infinities, overflows, and denormal numbers come from.


_PASSING: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.OPT_BARRIER))
"""Opcodes that pass values on: what is in them was made elsewhere."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An instruction whose value has elements of the kind that was asked for, the first time that it had.

    `execution` counts the runs of the instruction on the device, from 0. `operands` are those that have such elements,
    and `inside` are the instructions of the called computations that make them. Without either, the instruction itself
    makes them. `reaches_result` tells whether such elements of a result come from it.
    """

    instruction: Instruction
    device: int
    execution: int
    count: int
    elements: int
    operands: tuple[Instruction, ...]
    inside: tuple[Instruction, ...] = ()
    reaches_result: bool = False

    @property
    def is_maker(self) -> bool:
        """Whether the instruction itself makes the elements."""
        return not self.operands and not self.inside


class Probe:
    """Collects occurrences while a program runs."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._found: dict[Instruction, Occurrence] = {}
        self._arguments: dict[Instruction, Occurrence] = {}
        self._sources: dict[Instruction, dict[Instruction, None]] = {}
        self._runs: dict[tuple[Instruction, int], int] = {}

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        execution = self._runs.get((instruction, device), 0)
        self._runs[instruction, device] = execution + 1
        count = count_of(value, self.wanted, instruction.shape)
        if not count:
            return
        source_operands = []
        for number, (operand, operand_value) in enumerate(zip(instruction.operands, operands, strict=True)):
            if operand_count := count_of(operand_value, self._cause, instruction.operand_shape(number)):
                # An argument has no instruction that computes it: its first user stands for it.
                source_operands.append(operand)
                if operand.opcode == opcodes.PARAMETER and operand not in self._arguments:
                    size = _size(operand_value, operand.shape)
                    self._arguments[operand] = Occurrence(operand, device, 0, operand_count, size, ())
        self._sources.setdefault(instruction, {}).update(dict.fromkeys(source_operands))
        # The first execution is kept: later ones inherit what went wrong.
        if instruction not in self._found and instruction.opcode not in _PASSING:
            size = _size(value, instruction.shape)
            self._found[instruction] = Occurrence(instruction, device, execution, count, size, tuple(source_operands))

    @property
    def _cause(self) -> Wanted:
        """What an operand must have to be the cause: an overflow is made of finite operands."""
        return "inf" if self.wanted == "overflow" else self.wanted

    def occurrences(self, module: Module) -> tuple[Occurrence, ...]:
        """What was found while the module ran: first what reaches a result, in the order of the run.

        Arguments that have such elements are found as parameters of the entry.
        """
        root = module.entry.root
        reached = self._sources_of(root, module) if root in self._sources else set()
        arguments = [each for each in module.entry.parameters if each in self._arguments]
        found = [
            replace(each, inside=self._inside(each), reaches_result=each.instruction in reached)
            for each in (*map(self._arguments.__getitem__, arguments), *self._found.values())
        ]
        return tuple(sorted(found, key=lambda each: not each.reaches_result))

    def _inside(self, occurrence: Occurrence) -> tuple[Instruction, ...]:
        """The instructions of the called computations that make what an instruction has, if its operands have none."""
        roots = () if occurrence.operands else self._roots(occurrence.instruction)
        inner = {each for root in roots for each in self._sources_of(root)}
        return tuple(each for each, found in self._found.items() if each in inner and self._makes(found))

    def _makes(self, occurrence: Occurrence) -> bool:
        """Whether neither operands nor called computations have what an instruction has."""
        return not occurrence.operands and not self._roots(occurrence.instruction)

    def _roots(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The roots of called computations that have such elements."""
        roots = (each.root for each in instruction.called_computations)
        return tuple(root for root in roots if root is not None and root in self._sources)

    def _sources_of(self, value: Instruction | None, module: Module | None = None) -> set[Instruction]:
        """An instruction, and all that its elements come from; with a module, through parameters to their callers."""
        callers: dict[Computation, list[Instruction]] = {}
        for instruction in () if module is None else module.instructions:
            for computation in instruction.called_computations:
                callers.setdefault(computation, []).append(instruction)
        visited: set[Instruction] = set()
        pending = [] if value is None else [value]
        while pending:
            instruction = pending.pop()
            if instruction in visited:
                continue
            visited.add(instruction)
            pending += (*self._sources.get(instruction, ()), *self._roots(instruction))
            # A parameter has what any caller gives it; the body of a loop has that of the iteration before, too.
            for caller in callers.get(instruction.computation, ()) if instruction.opcode == opcodes.PARAMETER else ():
                pending += (*self._sources.get(caller, ()), *self._roots(caller))
        return visited


def count_of(value: Value, wanted: Wanted, shape: Shape) -> int:
    """The number of elements of a kind, in all arrays of a tuple.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> count_of(np.array([np.nan, 1.0]), "nan", parse_shape("f64[2]"))
    1
    """
    return sum(_count(array, wanted, leaf) for array, leaf in _arrays(value, shape))


def _size(value: Value, shape: Shape) -> int:
    return sum(array.size for array, _ in _arrays(value, shape))


def _arrays(value: Value, shape: Shape) -> Iterator[tuple[Array, ArrayShape]]:
    """The arrays of a value; asynchronous operations have parts without a value."""
    if isinstance(shape, TupleShape) and isinstance(value, tuple):
        for part, inner in zip(value, shape.elements, strict=False):
            yield from _arrays(part, inner)
    elif isinstance(shape, ArrayShape) and value is not None and not isinstance(value, tuple):
        yield np.asarray(value), shape


def _count(array: Array, wanted: Wanted, shape: ArrayShape) -> int:
    if array.dtype.kind not in "fc":
        return 0
    if wanted == "denormal":
        parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
        return int(np.logical_or.reduce([_denormals(each, shape) for each in parts]).sum())
    return int(_TESTS[wanted](array).sum())


def _denormals(array: Array, shape: ArrayShape) -> Array:
    name = shape.element_type.name
    form = FLOAT_FORMATS.get({"c64": "f32", "c128": "f64"}.get(name, name))
    if form is None:
        return np.zeros(array.shape, bool)
    # 2^(1 - bias) is the smallest normal number; without a format, a type has no denormal ones.
    least = 2.0 ** (1 - form.bias)
    magnitude = np.abs(array)
    return np.asarray((magnitude > 0) & (magnitude < least))


_TESTS: Final[dict[str, Callable[[Array], Array]]] = {"nan": np.isnan, "inf": np.isinf, "overflow": np.isinf}


# --- summaries of arrays ---
# Extremes, mean, and what is not finite.


MAX_FIRST = 4  # the numbers that fit next to a name on a line; all others are summed up
_BLOCK: Final = 1 << 22
"""Elements that are looked at together: 32 MiB of f64."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Numbers of an array; those of the finite elements are None if there are none. Complex ones by magnitude."""

    least: float | None
    most: float | None
    mean: float | None
    rms: float | None
    zeros: int
    nan: int
    inf: int
    first: tuple[complex, ...]

    @property
    def first_text(self) -> str:
        """The first elements with four digits; integers have all.

        >>> summary_of(np.array([123456, 7])).first_text, summary_of(np.array([1 / 3, 3 - 4j])).first_text
        ('123456 7', '0.3333+0j 3-4j')
        """
        return " ".join(str(each) if isinstance(each, int) else f"{each:.4g}" for each in self.first)


def summary_of(array: Array) -> Summary:
    """The summary of an array; a broadcast one is as fast as what was broadcast.

    >>> summary_of(np.array([1.0, np.nan, 3.0, 0.0]))
    Summary(least=0.0, most=3.0, mean=1.3333333333333333, rms=1.8257418583505538, zeros=1, nan=1, inf=0, \
first=(1.0, nan, 3.0, 0.0))
    >>> summary_of(np.broadcast_to(0.0, (1 << 40,))).zeros == 1 << 40
    True
    """
    # Dimensions of stride 0 repeat one element, so they are counted and not visited.
    once = array[tuple(slice(0, 1) if not stride else slice(None) for stride in array.strides)]
    times = prod(array.shape) // max(1, once.size) if once.size else 0
    beginning = _beginning(array)
    first = tuple((beginning.astype(int) if beginning.dtype.kind == "b" else beginning).tolist())
    least, most, total, squares = float("inf"), float("-inf"), 0.0, 0.0
    count = zeros = nan = inf = 0
    for block in _blocks(once):
        values = _magnitudes(block)
        finite = values[np.isfinite(values)]
        zeros += int((values == 0).sum())
        nan, inf = nan + int(np.isnan(values).sum()), inf + int(np.isinf(values).sum())
        if finite.size:
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
            total, squares = total + float(finite.sum()), squares + float((finite * finite).sum())
            count += finite.size
    zeros, nan, inf = zeros * times, nan * times, inf * times
    if not count:
        return Summary(None, None, None, None, zeros, nan, inf, first)
    return Summary(least, most, total / count, sqrt(squares / count), zeros, nan, inf, first)


def _magnitudes(array: Array) -> Array:
    return np.abs(array).astype(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)


def _beginning(array: Array) -> Array:
    """The first elements in row-major order."""
    while array.ndim > 1 and array.size:
        # Only rows that hold the first elements are touched, as a reshape of a transposed array copies it.
        rows = -(-MAX_FIRST // max(1, prod(array.shape[1:])))
        if array.shape[0] > rows:
            array = array[:rows]
        if prod(array.shape[1:]) <= _BLOCK:
            break
        array = array[0]
    return array[:MAX_FIRST] if array.ndim == 1 else array.reshape(-1)[:MAX_FIRST]


def _blocks(array: Array) -> Iterator[Array]:
    """The elements in parts of limited size, in any order."""
    if array.size <= _BLOCK or not array.ndim:
        yield array.reshape(-1)
        return
    # Blocks are taken along the longest dimension, as any other may have one element.
    along = max(range(array.ndim), key=lambda at: array.shape[at])
    moved = np.moveaxis(array, along, 0)
    rows = max(1, _BLOCK // max(1, array.size // array.shape[along]))
    for at in range(0, array.shape[along], rows):
        part = moved[at : at + rows]
        yield from (part.reshape(-1),) if rows > 1 or part.size <= _BLOCK else _blocks(part)


# --- values followed through loops ---
# A value followed through the iterations of loops: summaries are taken as values pass, and values are not kept.


MAX_FIRST_EXECUTIONS: Final = 5_000
"""Executions of an array whose summaries are kept from the beginning."""
MAX_LAST_EXECUTIONS: Final = 5_000
"""The same at the end; of the others, only those with an event are kept."""


@dataclass(frozen=True, slots=True)
class Execution:
    """An array of one execution: the iterations of the loops around it, the outermost first, and its summary.

    `events` are what is new: `first NaN`, `first Inf`, `overflow` if no operand has an Inf.
    """

    execution: int
    iterations: tuple[int, ...]
    shape: ArrayShape
    summary: Summary
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Track:
    """An array of a value in all executions; `omitted` of them are not in `recorded`.

    `constant_from` is the execution since which the array has not changed; None if the last two differ.
    """

    instruction: Instruction
    index: ShapeIndex
    recorded: tuple[Execution, ...]
    executions: int
    constant_from: int | None

    @property
    def omitted(self) -> int:
        """The number of executions without a summary."""
        return self.executions - len(self.recorded)

    def selected(self, ends: int) -> tuple[Execution, ...]:
        """The first and the last executions, and those with an event or since which the array is constant."""
        last = self.executions - ends
        return tuple(
            each
            for each in self.recorded
            if each.execution < ends or each.execution >= last or each.events or each.execution == self.constant_from
        )


class _Track:
    """An array while the program runs."""

    def __init__(self) -> None:
        self.first: list[Execution] = []
        self.notable: list[Execution] = []
        self.last: deque[Execution] = deque(maxlen=MAX_LAST_EXECUTIONS)
        self.executions = 0
        self.changed: Execution | None = None
        self.seen: set[str] = set()
        self._digest = b""

    def add(self, execution: Execution, array: Array) -> None:
        # 16 bytes: two different values have one digest with a probability of 2^-64 after 2^32 values.
        digest = blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest()
        if digest != self._digest:
            self.changed, self._digest = execution, digest
        self.seen.update(execution.events)
        self.executions += 1
        if len(self.first) < MAX_FIRST_EXECUTIONS:
            self.first.append(execution)
            return
        # What leaves the window of the last executions is dropped, but for events.
        if len(self.last) == MAX_LAST_EXECUTIONS and self.last[0].events:
            self.notable.append(self.last[0])
        self.last.append(execution)

    def finished(self, instruction: Instruction, index: ShapeIndex) -> Track:
        changed = self.changed
        kept = {each.execution: each for each in (*self.first, *self.notable, *self.last)}
        since = None
        if changed is not None and changed.execution < self.executions - 1:
            since = changed.execution
            kept[since] = changed
        ordered = tuple(kept[at] for at in sorted(kept))
        return Track(instruction, index, ordered, self.executions, since)


class Watch:
    """Collects summaries of some instructions while a program runs; on several devices, those of device 0.

    With `max_bytes`, the values are kept too, up to that size; HloError beyond it.
    """

    def __init__(self, instructions: Iterable[Instruction], max_bytes: int | None = None) -> None:
        self.iterations: list[int] = []
        self.saved: dict[tuple[Instruction, ShapeIndex], list[Array]] = {}
        self.saved_iterations: dict[Instruction, list[tuple[int, ...]]] = {}
        self._tracks: dict[Instruction, dict[ShapeIndex, _Track]] = {each: {} for each in instructions}
        self._max_bytes = max_bytes
        self._bytes = 0

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        if device != 0 or instruction not in self._tracks:
            return
        iterations = tuple(self.iterations)
        if self._max_bytes is not None:
            self.saved_iterations.setdefault(instruction, []).append(iterations)
        for index, array, shape in arrays_of(value, instruction.shape):
            track = self._tracks[instruction].setdefault(index, _Track())
            summary = summary_of(array)
            events = [
                f"first {name}"
                for name, count in (("NaN", summary.nan), ("Inf", summary.inf))
                if count and f"first {name}" not in track.seen
            ]
            # An infinity of finite operands is an overflow; others are passed on.
            if "first Inf" in events and not any(map(_has_infinity, operands)):
                events.append("overflow")
            track.add(Execution(track.executions, iterations, shape, summary, tuple(events)), array)
            if self._max_bytes is not None:
                self._save(instruction, index, array, self._max_bytes)

    def _save(self, instruction: Instruction, index: ShapeIndex, array: Array, most: int) -> None:
        self._bytes += array.nbytes
        if self._bytes > most:
            raise HloError(
                f"the values of {instruction.name} exceed the memory limit of {most / 2**30:g} GiB",
                instruction.span,
                hint="use --max-memory SIZE to raise the limit, or --watch without -o FILE.npz",
            )
        self.saved.setdefault((instruction, index), []).append(np.array(array))

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The arrays of all instructions, in the order in which they were given; without executions none."""
        return tuple(
            track.finished(instruction, index)
            for instruction, arrays in self._tracks.items()
            for index, track in arrays.items()
        )


def _has_infinity(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_infinity, value))
    if value is None:
        return False
    array = np.asarray(value)
    return array.dtype.kind in "fc" and bool(np.isinf(array).any())


def stacked(watch: Watch) -> dict[str, Array]:
    """The values of all executions by name, one array along a new first dimension, and `NAME_iterations`.

    `NAME_iterations` has the iterations of the loops around. Values of different sizes are arrays of their own.
    """
    arrays_by_name: dict[str, Array] = {}
    for (instruction, index), arrays in watch.saved.items():
        name = "_".join((instruction.name, *map(str, index)))
        if len({each.shape for each in arrays}) == 1:
            arrays_by_name[name] = np.stack(arrays)
        # Sizes at run time may change from one execution to the next.
        else:
            arrays_by_name |= {f"{name}_{number}": each for number, each in enumerate(arrays)}
    for instruction, iterations in watch.saved_iterations.items():
        depths = {len(each) for each in iterations}
        if len(depths) == 1:
            arrays_by_name[f"{instruction.name}_iterations"] = np.array(iterations, np.int64).reshape(
                len(iterations), depths.pop()
            )
    return arrays_by_name
