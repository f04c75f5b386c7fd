"""The host of a run: stubs for custom calls, the data of infeeds, the values of outfeeds, and iterations of loops."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.boundaries import is_boundary
from hlo_cli.analysis.evaluate.omitted_constants import Constants
from hlo_cli.analysis.evaluate.unknown_functions import UnknownFunctions
from hlo_cli.analysis.semantics.custom_calls import target_of_call
from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, settle
from hlo_cli.analysis.semantics.values import Kernel, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

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
        at, row = self._used.get(device, (0, 0))
        arrays = self._feed[at : at + len(leaves)]
        name = f"infeed {instruction.name} (number {execution} of all executions)"
        if len(arrays) < len(leaves):
            raise HloError(
                f"no data is left for {name}",
                instruction.span,
                hint=f"--feed has {len(self._feed)} arrays; use --feed FILE with more",
            )
        if all(array.shape == leaf.dimensions for array, leaf in zip(arrays, leaves, strict=True)):
            self._used[device] = at + len(leaves), 0
            taken = arrays
        elif all(array.shape[1:] == leaf.dimensions for array, leaf in zip(arrays, leaves, strict=True)) and (
            row < min(len(array) if array.ndim else 0 for array in arrays)
        ):
            taken = [array[row] for array in arrays]
            is_last = row + 1 >= min(map(len, arrays))
            self._used[device] = (at + len(leaves), 0) if is_last else (at, row + 1)
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
        found = [each for each in calls if target_of_call(each) == target]
        if not found:
            listed = ", ".join(sorted({target_of_call(each) for each in calls})[:8])
            hint = f"custom call targets: {listed}" if listed else "the module has no custom calls"
            raise HloError(f"no custom call has the target {target}", hint=hint)
        if is_boundary(found[0]):
            raise HloError(f"{target} marks a manual computation, and cannot have a stub", found[0].span)


def check_outfeeds(module: Module) -> None:
    """HloError if a module has an outfeed: comparisons are of results alone."""
    for computation in executions_of(module):
        for each in computation.instructions:
            if each.opcode in HOST_FEEDS and each.opcode != INFEED:
                raise HloError(
                    f"cannot compare {each.name}: values of {each.opcode} are not results",
                    each.span,
                    source=module.source,
                )


def _stub_kernel(instruction: Instruction, stub: Stub, floats: Floats) -> Kernel:
    target = target_of_call(instruction)
    keywords = _keywords(stub, instruction)
    name = f"the stub of {target}"

    def kernel(*operands: Value) -> Value:
        try:
            found = stub(*map(_read_only, operands), **keywords)
        except (Exception, SystemExit) as error:
            if isinstance(error, HloError):
                raise
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise HloError(
                f"{name} failed in {instruction.name}: {words}", instruction.span, hint=_place(error)
            ) from error
        pending = iter(_parts(found, instruction.shape, name, instruction))
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


def _parts(found: object, shape: Shape, name: str, instruction: Instruction) -> list[object]:
    """The arrays of what a stub returned, for each array of a shape."""
    if not isinstance(shape, TupleShape):
        return [found] if isinstance(shape, ArrayShape) else []
    if not isinstance(found, tuple | list) or len(found) != len(shape.elements):
        count = f"{len(found)} values" if isinstance(found, tuple | list) else type(found).__name__
        raise HloError(
            f"{name} returned {count} for {instruction.name}, expected a tuple of {len(shape.elements)} values",
            instruction.span,
        )
    return [
        part
        for each, inner in zip(found, shape.elements, strict=True)
        for part in _parts(each, inner, name, instruction)
    ]


def _value(shape: Shape, array_of_leaf: Callable[[ArrayShape], Array]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_value(each, array_of_leaf) for each in shape.elements)
    return array_of_leaf(shape) if isinstance(shape, ArrayShape) else None


_ACCEPTED = {"pred": "b", "signed": "biu", "unsigned": "biu", "float": "biuf"}
"""Kinds of numpy types for an element type; the others, which have two parts, take any number."""


def _in_carrier(found: object, shape: ArrayShape, floats: Floats, name: str, instruction: Instruction) -> Array:
    """What came from the host as a value of a shape; HloError for other sizes, types, and integers out of range."""
    try:
        array = np.asarray(found)
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
    held = settle(array, kind, floats) if kind.kind != "pred" else array
    held = held.astype(carrier(kind, floats))
    if kind.kind in ("signed", "unsigned") and array.dtype.kind in "iu" and not np.array_equal(held, array):
        raise HloError(f"{name} has integers that exceed the range of {kind}", instruction.span)
    return held
