"""Where NaN, infinities, overflows, and denormal numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.settings import Wanted
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import FLOAT_FORMATS
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

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
    def made(self) -> bool:
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
        given = []
        for at, (operand, each) in enumerate(zip(instruction.operands, operands, strict=True)):
            if found := count_of(each, self._cause, instruction.operand_shape(at)):
                given.append(operand)
                if operand.opcode == opcodes.PARAMETER and operand not in self._arguments:
                    size = _size(each, operand.shape)
                    self._arguments[operand] = Occurrence(operand, device, 0, found, size, ())
        self._sources.setdefault(instruction, {}).update(dict.fromkeys(given))
        if instruction not in self._found and instruction.opcode not in _PASSING:
            size = _size(value, instruction.shape)
            self._found[instruction] = Occurrence(instruction, device, execution, count, size, tuple(given))

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
        for each in () if module is None else module.instructions:
            for computation in each.called_computations:
                callers.setdefault(computation, []).append(each)
        seen: set[Instruction] = set()
        pending = [] if value is None else [value]
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            pending += (*self._sources.get(each, ()), *self._roots(each))
            # A parameter has what any caller gives it; the body of a loop has that of the iteration before, too.
            for caller in callers.get(each.computation, ()) if each.opcode == opcodes.PARAMETER else ():
                pending += (*self._sources.get(caller, ()), *self._roots(caller))
        return seen


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
    least = 2.0 ** (1 - form.bias)
    magnitude = np.abs(array)
    return np.asarray((magnitude > 0) & (magnitude < least))


_TESTS: Final[dict[str, Callable[[Array], Array]]] = {"nan": np.isnan, "inf": np.isinf, "overflow": np.isinf}
