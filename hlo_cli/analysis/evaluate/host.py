"""What a run takes that its text does not say: omitted constants, unknown functions, stubs, infeeds, trips.

Asynchronous collectives within fusions are told here from functions of unknown meaning.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import is_boundary, made_up
from hlo_cli.analysis.semantics.rules import rule_of_target, target_of_call
from hlo_cli.analysis.semantics.typed_values import Array, Computed, Floats, Kernel, Value, carrier, settle, zeros_of
from hlo_cli.analysis.sharding.meshes import collective_kind
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_COLLECTIVE_DONE, ASYNC_COLLECTIVE_START, CHANNEL_OPCODES, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

# --- constants that a text omits ---
# Values of constants that a text omits, from other texts of the same program that have them.


def omitted_constants(module: Module, related: Module | None = None) -> dict[Instruction, Literal]:
    """The values of constants that the text omits, as far as they are known.

    They are those of the constants of the same name, type, and sizes in the proto next to the text, in the dump before
    optimizations, or in `related`, another stage of the program, and its proto.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { ROOT c = f32[2] constant({1, 2}) }"
    >>> elided = parse_module(text.replace("{1, 2}", "{...}"))
    >>> [literal] = omitted_constants(elided, parse_module(text)).values()
    >>> print(literal)
    f32[2]{0} {1, 2}
    """
    missing = {each.name: each for each in _constants(module) if _is_omitted(each)}
    literals: dict[Instruction, Literal] = {}
    # The name is not enough: passes number constants anew, hence the shape as well, and the nearest source first.
    for source in _sources(module, related) if missing else ():
        for each in _constants(source):
            wanted, literal = missing.get(each.name), each.literal
            if wanted is not None and literal is not None and not literal.is_elided and _has_same_shape(each, wanted):
                literals.setdefault(wanted, literal)
        if len(literals) == len(missing):
            break
    return literals


def _is_omitted(instruction: Instruction) -> bool:
    """Whether an instruction is a constant whose values the text omits."""
    if instruction.opcode != opcodes.CONSTANT:
        return False
    literal = instruction.literal
    return literal is None or literal.is_elided


def _constants(module: Module) -> Iterator[Instruction]:
    for computation in executions_of(module):
        for each in computation.instructions:
            if each.opcode == opcodes.CONSTANT:
                yield each


def _sources(module: Module, related: Module | None) -> Iterator[Module]:
    """The proto first: it is the same module, the others are other stages."""
    for each in (module.proto, module.program, related, None if related is None else related.proto):
        if each is not None and each is not module:
            yield each


def _has_same_shape(a: Instruction, b: Instruction) -> bool:
    return a.shape.to_string(layout=False) == b.shape.to_string(layout=False)


Constants = Mapping[Instruction, Literal]
"""The values of constants that a text omits."""


# --- asynchronous collectives in fusions ---
# Asynchronous collectives of TPU programs that are parts of fusions, on simulated devices.
#
# A compiler prints the whole collective in each fusion that takes part: in the one whose root is an
# `AsyncCollectiveStart`, in those that compute meanwhile, and in the one whose root is the `AsyncCollectiveDone`. Each
# gives the same result.


Lockstep: TypeAlias = "Callable[[Sequence[Sequence[Value]]], list[Value]]"
"""From the arguments of each device to the result of each."""


def is_fused_part(instruction: Instruction) -> bool:
    """Whether an instruction starts or ends a collective of a fusion."""
    return instruction.opcode == opcodes.CUSTOM_CALL and target_of_call(instruction) in (
        ASYNC_COLLECTIVE_START,
        ASYNC_COLLECTIVE_DONE,
    )


def fused_problem(instruction: Instruction) -> str:
    """Why the value of such an instruction is unknown; empty if it is known."""
    target = target_of_call(instruction)
    collective = _collective(instruction)
    if collective is None:
        return f"the collective of its {target} is unknown"
    expected: Sequence[Shape] = (collective.shape,)
    actual: Sequence[Shape] = (instruction.shape,)
    if target == ASYNC_COLLECTIVE_START:
        shape = instruction.shape
        expected = (*(collective.operand_shape(at) for at in range(len(collective.operands))), collective.shape)
        # The operands of the start come first in its value, then the result, then contexts without meaning here.
        actual = shape.elements[: len(expected)] if isinstance(shape, TupleShape) else ()
    is_same = len(expected) == len(actual) and all(map(_are_arrays_alike, expected, actual))
    return "" if is_same else f"the results of its {target} are not those of {collective.name}"


def _collective(instruction: Instruction) -> Instruction | None:
    """The collective of a start, which is its operand, and of a done, which has one as operand."""
    found = [each for each in instruction.operands if collective_kind(each.opcode) == each.opcode]
    return found[0] if len(found) == 1 else None


# Layouts differ between the fused copies of one collective.
def _are_arrays_alike(old: Shape, new: Shape) -> bool:
    return (
        isinstance(old, ArrayShape)
        and isinstance(new, ArrayShape)
        and old.dimensions == new.dimensions
        and old.element_type is new.element_type
    )


def inputs_of(instruction: Instruction) -> tuple[Instruction, ...]:
    """The values that an instruction takes: its operands, and of a start those of its collective, which it hands on."""
    if not is_fused_part(instruction):
        return tuple(instruction.operands)
    collective = _collective(instruction)
    if collective is None:
        return tuple(instruction.operands)
    return (
        (*collective.operands, collective) if target_of_call(instruction) == ASYNC_COLLECTIVE_START else (collective,)
    )


def fused_part(instruction: Instruction, computed: Computed) -> Lockstep | None:
    """What a start or a done makes of the values of `inputs_of`; None for other instructions."""
    if not is_fused_part(instruction):
        return None
    if target_of_call(instruction) == ASYNC_COLLECTIVE_DONE:
        return lambda given: [each[0] for each in given]
    shape = instruction.shape
    assert isinstance(shape, TupleShape)
    others = [zeros_of(each, computed) for each in shape.elements]
    return lambda given: [(*each, *others[len(each) :]) for each in given]


# --- functions of unknown meaning ---
# Functions of unknown meaning that two programs have in common: equal operands give equal results.
#
# Kernels without a body in the dump, callbacks of Python, and libraries that are not known have no meaning here, but
# two programs that call them with the same operands, and go on in the same way with what they return, are the same
# program. Results are made up: those of a call in the second program are those of the call in the first that has its
# operands.


Function: TypeAlias = "tuple[str, str, tuple[str, ...]]"
"""A target or opcode, what else tells functions of one target apart, and the shapes of operands and results."""

_TOLERANCE: Final = 1e-6  # rounding of operands, as in `verdict.ROUNDING`, of which sums here are made alike
_SEND_DONE: Final = "send-done"
_RENDEZVOUS: Final = "_xla_host_transfer_rendezvous"


def _functions_of(module: Module) -> frozenset[Function]:
    """The functions of unknown meaning that a module calls.

    >>> from hlo_cli import parse_module
    >>> _functions_of(parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"'))
    frozenset({('my_op', '', ('f32[8]', 'f32[8]'))})
    """
    return frozenset(
        function
        for computation in executions_of(module)
        for instruction in computation.instructions
        if (function := _function(instruction)) is not None
    )


def _function(instruction: Instruction) -> Function | None:
    if instruction.opcode == opcodes.CUSTOM_CALL:
        if rule_of_target(instruction) is not None or is_boundary(instruction) or is_fused_part(instruction):
            return None
        operands = [instruction.operand_shape(at) for at in range(len(instruction.operands))]
        return target_of_call(instruction), _configuration(instruction), _texts((*operands, instruction.shape))
    if instruction.opcode == opcodes.RECV_DONE and instruction.flag("is_host_transfer"):
        name = instruction.frontend_attributes.get(_RENDEZVOUS) or ""
        return instruction.opcode, name, _texts((instruction.shape,))
    return None


def _texts(shapes: Sequence[Shape]) -> tuple[str, ...]:
    return tuple(shape.to_string(layout=False) for shape in shapes)


def _configuration(instruction: Instruction) -> str:
    """What a compiler was told of a call: of a TPU kernel its body, since compilers add settings of their own."""
    # Next to the Mosaic body there are flags and cost estimates, which change from version to version.
    text = instruction.attribute("backend_config") or ""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    inner = found.get("custom_call_config") if isinstance(found, dict) else None
    body = inner.get("body") if isinstance(inner, dict) else None
    return body if isinstance(body, str) else text


class UnknownFunctions:
    """The calls of one run. Those of the second program take the results of the first, which is `first`.

    `constants` are the values of constants that the text of the program omits.
    """

    def __init__(
        self, functions: frozenset[Function], constants: Constants | None = None, first: UnknownFunctions | None = None
    ) -> None:
        self.constants = constants
        self._functions = functions
        self._first = first
        self._calls: dict[Function, list[Array]] = {}
        self._numbers: dict[tuple[Function, bytes], int] = {}
        self._times: dict[tuple[Function, int, int], int] = {}

    def has_meaning(self, instruction: Instruction) -> bool:
        """Whether a call is of one of the functions, or takes part in an exchange with the host."""
        if instruction.opcode in CHANNEL_OPCODES and instruction.opcode != opcodes.RECV_DONE:
            # A host transfer has a meaning as a pair only: what is received depends on what was sent.
            return instruction.flag("is_host_transfer")
        function = _function(instruction)
        return function is not None and function in self._functions

    def kernel(self, instruction: Instruction, floats: Floats, device: Callable[[], int]) -> Kernel:
        """What a call returns. What is sent to the host goes on as the value of tokens, to what is received next."""
        if instruction.opcode == opcodes.SEND:
            return lambda value, token: (value, None, value)
        if instruction.opcode == _SEND_DONE:
            return lambda sent: sent[2]
        if instruction.opcode == opcodes.RECV:
            return lambda token: (None, None, token)
        function = _function(instruction)
        assert function is not None
        has_effect = instruction.flag("custom_call_has_side_effect") or instruction.opcode == opcodes.RECV_DONE
        # Without effects, equal operands give equal results; with effects, the results of each call are new ones.
        seed = crc32(repr(function).encode())  # `hash` of a text differs from run to run

        def kernel(*operands: Value) -> Value:
            number = self._number(function, _sample(operands), floats)
            times = 0
            if has_effect:
                at = function, number, device()
                times = self._times.get(at, 0)
                self._times[at] = times + 1
            return made_up(instruction.shape, 1000 * number + times, seed=seed, floats=floats)

        return kernel

    def _number(self, function: Function, sample: Array, floats: Floats) -> int:
        """The number of the results for operands; the same for the same operands."""
        exactly = function, sample.tobytes()
        if exactly not in self._numbers:
            found = None if self._first is None else self._first.nearest(function, sample, floats)
            calls = self._calls.setdefault(function, [])
            calls.append(sample)
            self._numbers[exactly] = found if found is not None else self._fresh(function, len(calls))
        return self._numbers[exactly]

    def _fresh(self, function: Function, count: int) -> int:
        return count - 1 if self._first is None else count + len(self._first._calls.get(function, ()))

    def nearest(self, function: Function, sample: Array, floats: Floats) -> int | None:
        """The number of the call with these operands; rounding tells none apart if floats are rounded."""
        exactly = function, sample.tobytes()
        if exactly in self._numbers:
            return self._numbers[exactly]
        calls = [each for each in self._calls.get(function, ()) if each.shape == sample.shape]
        if not calls:
            return None
        known = np.stack(calls)
        # Relative to the magnitude of each array; 1e-300 for arrays of zeros.
        scale = np.maximum(np.maximum(known[..., 1], sample[..., 1]), 1e-300)
        apart = np.max(np.abs(known - sample).max(axis=-1, initial=0) / scale, axis=-1, initial=0)
        # The nearest call: with rounding, operands of two programs are never equal to the last bit.
        best = int(np.argmin(apart))
        is_same = floats == "exact" or apart[best] <= _TOLERANCE
        return self._numbers[function, calls[best].tobytes()] if is_same else None


class Shared(NamedTuple):
    """What two programs that are compared have in common, and what one knows of the other.

    `functions` are those of unknown meaning that both call, `constants` the values that each text omits.
    """

    functions: frozenset[Function]
    constants: tuple[Constants, Constants]

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets and opcodes of the functions."""
        return tuple(sorted({each[0] for each in self.functions}))

    def pair(self) -> tuple[UnknownFunctions, UnknownFunctions]:
        """The calls of both programs, in one mode of arithmetic."""
        first = UnknownFunctions(self.functions, self.constants[0])
        return first, UnknownFunctions(self.functions, self.constants[1], first)


def shared_by(old: Module, new: Module) -> Shared:
    """What two programs have in common.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"')
    >>> shared_by(module, module).targets
    ('my_op',)
    """
    constants = omitted_constants(old, new), omitted_constants(new, old)
    return Shared(_functions_of(old) & _functions_of(new), constants)


def _sample(operands: Sequence[Value]) -> Array:
    """Numbers of each array: one that depends on elements and their places, magnitudes, and the non-finite ones."""
    rows = [_numbers_of(array) for operand in operands for array in _arrays(operand)]
    return np.array(rows, np.float64).reshape(len(rows), 3)


def _arrays(value: Value) -> list[Array]:
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [] if value is None else [np.asarray(value)]


def _numbers_of(array: Array) -> tuple[float, float, float]:
    flat = array.reshape(-1)
    parts = np.concatenate((flat.real, flat.imag)) if flat.dtype.kind == "c" else flat
    wide = parts.astype(np.float64)
    finite = np.isfinite(wide)
    wide = np.where(finite, wide, 0)
    # No multiple of 0.7 is a whole turn, so the weights have no period; chosen, not measured.
    weights = np.cos(0.7 * np.arange(wide.size) + 0.3)
    return float(wide @ weights), float(np.abs(wide).sum()), float((~finite).sum())


# --- the host of a run ---
# Stubs for custom calls, the data of infeeds, the values of outfeeds, and iterations of loops.


Stub: TypeAlias = Callable[..., object]
"""Computes the result of a custom call from its operands; see `hlo help running`."""

INFEED = "infeed"


class Host:
    """What one run exchanges with its host. A host belongs to one run: infeeds consume its data.

    `stubs` are functions by custom call target. `feed` are the arrays of infeeds, in the order in which they run: an
    array with one more dimension than an infeed has the data of several executions. `unknown` makes up results of
    functions that two programs have in common, and has the values of constants that the text omits. `iterations` counts
    the iterations of the loops around the instruction that runs, the outermost first, if it is a list. `met` collects
    the comparisons that met equal whole numbers, if it is a set. `skipped` are instructions that do not run, since no
    result depends on them.
    """

    def __init__(
        self,
        stubs: Mapping[str, Stub] | None = None,
        feed: Sequence[Array] | None = None,
        *,
        iterations: list[int] | None = None,
        unknown: UnknownFunctions | None = None,
        met: set[Instruction] | None = None,
    ) -> None:
        self.unknown = unknown
        self.met = met
        self.constants: Constants | None = None if unknown is None else unknown.constants
        self.stubs = stubs or {}
        self.skipped: frozenset[Instruction] = frozenset()
        self.has_feed = feed is not None
        self.iterations = iterations
        self.outfed: list[tuple[Instruction, Value]] = []
        self._feed = [np.asarray(each) for each in feed or ()]
        self._used: dict[int, tuple[int, int]] = {}
        self._executions: dict[int, int] = {}

    def has_meaning(self, instruction: Instruction) -> bool:
        """Whether the host says what an instruction does: a stub, data, or that it takes data."""
        if instruction in self.skipped:
            return True
        if instruction.opcode == opcodes.CUSTOM_CALL and target_of_call(instruction) in self.stubs:
            return True
        if self.unknown is not None and self.unknown.has_meaning(instruction):
            return True
        if instruction.opcode == opcodes.CONSTANT:
            return instruction in (self.constants or ())
        return instruction.opcode in HOST_FEEDS and (self.has_feed or instruction.opcode != INFEED)

    def kernel(
        self, instruction: Instruction, floats: Floats, device: Callable[[], int], keep: Callable[[Value], Value]
    ) -> Kernel:
        """The kernel of an instruction to which the host gives a meaning; `keep` returns values that may be kept."""
        if instruction in self.skipped:
            return lambda *operands: None
        if instruction.opcode == opcodes.CUSTOM_CALL and (stub := self.stubs.get(target_of_call(instruction))):
            return _stub_kernel(instruction, stub, floats)
        if self.unknown is not None and self.unknown.has_meaning(instruction):
            return self.unknown.kernel(instruction, floats, device)
        if instruction.opcode == INFEED:
            return lambda *tokens: (self._next(instruction, floats, device()), None)

        def outfeed(value: Value, *tokens: Value) -> Value:
            # Of several devices, device 0 stands for all, as with watched values.
            if device() == 0:
                self.outfed.append((instruction, keep(value)))
            return None

        return outfeed

    @property
    def unused(self) -> int:
        """The number of arrays of the feed that no infeed has read, or not to the end."""
        return len(self._feed) - min((at for at, _ in self._used.values()), default=0)

    def _next(self, instruction: Instruction, floats: Floats, device: int) -> Value:
        shape = instruction.shape
        data = shape.elements[0] if isinstance(shape, TupleShape) else shape
        leaves = [leaf for _, leaf in data.leaves if isinstance(leaf, ArrayShape)]
        execution = self._executions[device] = self._executions.get(device, -1) + 1
        first_array, row = self._used.get(device, (0, 0))
        arrays = self._feed[first_array : first_array + len(leaves)]
        name = f"infeed {instruction.name} (number {execution} of all executions)"
        if len(arrays) < len(leaves):
            raise HloError(
                f"no data is left for {name}",
                instruction.span,
                hint=f"--feed has {len(self._feed)} arrays; use --feed FILE with more",
            )
        if all(array.shape == leaf.dimensions for array, leaf in zip(arrays, leaves, strict=True)):
            self._used[device] = first_array + len(leaves), 0
            taken = arrays
        # An array with one more dimension has the data of several executions, row by row.
        elif all(array.shape[1:] == leaf.dimensions for array, leaf in zip(arrays, leaves, strict=True)) and (
            row < min(len(array) if array.ndim else 0 for array in arrays)
        ):
            taken = [array[row] for array in arrays]
            is_last = row + 1 >= min(map(len, arrays))
            self._used[device] = (first_array + len(leaves), 0) if is_last else (first_array, row + 1)
        else:
            sizes = ", ".join("[" + ",".join(map(str, array.shape)) + "]" for array in arrays)
            raise HloError(f"{name} requires {data}, but the data of --feed has sizes {sizes}", instruction.span)
        pending = iter(taken)
        return _value(data, lambda leaf: _in_carrier(next(pending), leaf, floats, f"the data for {name}", instruction))


def check_host(modules: Sequence[Module], stubs: Mapping[str, Stub]) -> None:
    """HloError for stubs of targets that no module calls, and for those of partitioner annotations."""
    calls = [
        each
        for module in modules
        for computation in executions_of(module)
        for each in computation.instructions
        if each.opcode == opcodes.CUSTOM_CALL
    ]
    for target in stubs:
        calls_of_target = [each for each in calls if target_of_call(each) == target]
        if not calls_of_target:
            listed = ", ".join(sorted({target_of_call(each) for each in calls})[:8])
            hint = f"custom call targets: {listed}" if listed else "the module has no custom calls"
            raise HloError(f"no custom call has the target {target}", hint=hint)
        if is_boundary(calls_of_target[0]):
            raise HloError(f"{target} marks a manual computation, and cannot have a stub", calls_of_target[0].span)


def check_outfeeds(module: Module) -> None:
    """HloError if a module has an outfeed: comparisons are of results alone."""
    for computation in executions_of(module):
        for instruction in computation.instructions:
            if instruction.opcode in HOST_FEEDS and instruction.opcode != INFEED:
                raise HloError(
                    f"cannot compare {instruction.name}: values of {instruction.opcode} are not results",
                    instruction.span,
                    source=module.source,
                )


def _stub_kernel(instruction: Instruction, stub: Stub, floats: Floats) -> Kernel:
    target = target_of_call(instruction)
    keywords = _keywords(stub, instruction)
    name = f"the stub of {target}"

    def kernel(*operands: Value) -> Value:
        try:
            result = stub(*map(_read_only, operands), **keywords)
        except (Exception, SystemExit) as error:
            # HloError of a stub is meant for the user as it is.
            if isinstance(error, HloError):
                raise
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise HloError(
                f"{name} failed in {instruction.name}: {words}", instruction.span, hint=_place(error)
            ) from error
        pending = iter(_parts(result, instruction.shape, name, instruction))
        return _value(
            instruction.shape,
            lambda leaf: _in_carrier(
                next(pending), leaf, floats, f"the result of {name} for {instruction.name}", instruction
            ),
        )

    return kernel


def _keywords(stub: Stub, instruction: Instruction) -> dict[str, object]:
    """The keyword arguments that a stub accepts: `shape` and `instruction`."""
    offered: dict[str, object] = {"shape": instruction.shape, "instruction": instruction}
    try:
        parameters = inspect.signature(stub).parameters.values()
    except (TypeError, ValueError):
        return {}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return offered
    return {each.name: offered[each.name] for each in parameters if each.name in offered}


def _place(error: BaseException) -> str | None:
    """The line of the stub's file in which an error was raised."""
    own = Path(__file__).parents[2]
    # The first frame outside of this package is the stub's.
    frames = [each for each in traceback.extract_tb(error.__traceback__) if own not in Path(each.filename).parents]
    return f"raised in {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else None


def _read_only(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_read_only, value))
    if value is None:
        return None
    view = np.asarray(value).view()
    view.setflags(write=False)
    return view


def _parts(returned: object, shape: Shape, name: str, instruction: Instruction) -> list[object]:
    """The arrays of what a stub returned, for each array of a shape."""
    if not isinstance(shape, TupleShape):
        return [returned] if isinstance(shape, ArrayShape) else []
    if not isinstance(returned, tuple | list) or len(returned) != len(shape.elements):
        count = f"{len(returned)} values" if isinstance(returned, tuple | list) else type(returned).__name__
        raise HloError(
            f"{name} returned {count} for {instruction.name}, expected a tuple of {len(shape.elements)} values",
            instruction.span,
        )
    return [
        part
        for each, inner in zip(returned, shape.elements, strict=True)
        for part in _parts(each, inner, name, instruction)
    ]


def _value(shape: Shape, array_of_leaf: Callable[[ArrayShape], Array]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_value(each, array_of_leaf) for each in shape.elements)
    return array_of_leaf(shape) if isinstance(shape, ArrayShape) else None


_ACCEPTED = {"pred": "b", "signed": "biu", "unsigned": "biu", "float": "biuf"}
"""Kinds of numpy types for an element type; the others, which have two parts, take any number."""


def _in_carrier(data: object, shape: ArrayShape, floats: Floats, name: str, instruction: Instruction) -> Array:
    """What came from the host as a value of a shape; HloError for other sizes, types, and integers out of range."""
    try:
        array = np.asarray(data)
        # ml_dtypes are of kind V, and f32 holds all of their numbers.
        if array.dtype.kind == "V" and array.dtype.type is not np.void:
            array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise HloError(f"{name} is not an array: {error}", instruction.span) from None
    kind = shape.element_type
    if array.dtype.kind not in _ACCEPTED.get(kind.kind, "biufc"):
        raise HloError(f"{name} has elements of type {array.dtype}, expected {kind}", instruction.span)
    if array.shape != shape.dimensions:
        sizes = ",".join(map(str, array.shape))
        raise HloError(f"{name} has sizes [{sizes}], expected {shape}", instruction.span)
    converted = settle(array, kind, floats) if kind.kind != "pred" else array
    converted = converted.astype(carrier(kind, floats))
    # Wrapped integers would be a silent change of the data.
    if kind.kind in ("signed", "unsigned") and array.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise HloError(f"{name} has integers that exceed the range of {kind}", instruction.span)
    return converted
