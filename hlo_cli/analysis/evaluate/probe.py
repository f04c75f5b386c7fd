"""Where NaN, infinities, overflows, and denormal numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.settings import Wanted
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.primitive import FLOAT_FORMATS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_PASSING: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.OPT_BARRIER))
"""Opcodes that pass values on: what is in them was made elsewhere."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An instruction whose value has elements of the kind that was asked for, the first time that it had.

    `execution` counts the runs of the instruction on the device, from 0. `made` tells that no operand has such
    elements, so that the instruction makes them; `operands` are those that have some.
    """

    instruction: Instruction
    device: int
    execution: int
    count: int
    elements: int
    made: bool
    operands: tuple[Instruction, ...]


class Probe:
    """Collects occurrences while a program runs."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.found: dict[Instruction, Occurrence] = {}
        self._runs: dict[tuple[Instruction, int], int] = {}

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        execution = self._runs.get((instruction, device), 0)
        self._runs[instruction, device] = execution + 1
        if instruction in self.found or instruction.opcode in _PASSING:
            return
        count = count_of(value, self.wanted, instruction.shape)
        if not count:
            return
        given = tuple(
            operand
            for at, (operand, each) in enumerate(zip(instruction.operands, operands, strict=True))
            if count_of(each, self._cause, instruction.operand_shape(at))
        )
        size = sum(array.size for array, _ in _arrays(value, instruction.shape))
        self.found[instruction] = Occurrence(instruction, device, execution, count, size, not given, given)

    @property
    def _cause(self) -> Wanted:
        """What an operand must have to be the cause: an overflow is made of finite operands."""
        return "inf" if self.wanted == "overflow" else self.wanted

    @property
    def first(self) -> Occurrence | None:
        """The first instruction, as they run, that makes such elements; else the first that has some."""
        return next((each for each in self.found.values() if each.made), next(iter(self.found.values()), None))


def count_of(value: Value, wanted: Wanted, shape: Shape) -> int:
    """The number of elements of a kind, in all arrays of a tuple.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> count_of(np.array([np.nan, 1.0]), "nan", parse_shape("f64[2]"))
    1
    """
    return sum(_count(array, wanted, leaf) for array, leaf in _arrays(value, shape))


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
