"""What a program computed, instruction by instruction in the order of time: fingerprints, and which made which."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.comparison.fingerprints import Print, Prints
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction

NONE: Final = -1
_MAX_NODES: Final = 300_000
"""The largest number of executed instructions that a trace keeps."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that an execution takes: its fingerprint, and the place in the trace of what made it.

    The place is NONE for arguments.
    """

    print: Print
    maker: int


@dataclass(frozen=True, slots=True)
class Node:
    """One execution of an instruction; `execution` counts those of one instruction on one device, from 0.

    `operands` has the arrays of each operand, and `results` those of the result with the places in the trace of what
    made them. `is_passing` means that other instructions made all of them: in tuples, calls, fusions, and loops.
    """

    instruction: Instruction
    device: int
    execution: int
    operands: tuple[tuple[Leaf, ...], ...]
    results: tuple[Print, ...]
    makers: tuple[int, ...]
    is_passing: bool

    @property
    def leaves(self) -> Iterator[Leaf]:
        """The arrays of all operands."""
        return (leaf for operand in self.operands for leaf in operand)


class Trace:
    """Records the executions of a program as an observer of its run.

    Values of computations of scalars, such as that of a reduce, are not recorded. `parts` are the fingerprints of the
    parts that each array has on so many devices, if `devices` is above 1.
    """

    def __init__(self, prints: Prints, devices: int = 1) -> None:
        self.nodes: list[Node] = []
        self.is_whole = True
        self.parts: set[int] = set()
        self._devices = devices
        self._prints = prints
        self._counts: dict[tuple[Instruction, int], int] = {}
        self._seen: dict[int, tuple[object, Print, int]] = {}

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Records a value that was just computed."""
        if len(self.nodes) >= _MAX_NODES:
            self.is_whole = False
            return
        given = tuple(tuple(map(self.leaf_of, arrays_in(each))) for each in operands)
        execution = self._counts.get((instruction, device), 0)
        self._counts[instruction, device] = execution + 1
        scale = max((leaf.print.largest for operand in given for leaf in operand), default=0.0)
        found, makers = [], []
        for array in arrays_in(value):
            known = None if type(array).__name__ == "bool" else self._lookup(array)
            if known is None:
                print_ = self._prints.of(array, scale)
                self._keep(array, print_, len(self.nodes))
                self.parts.update(self._prints.of(part).free for part in parts_of(array, self._devices))
                known = Leaf(print_, len(self.nodes))
            found.append(known.print)
            makers.append(known.maker)
        is_passing = len(self.nodes) not in makers and bool(given)
        self.nodes.append(Node(instruction, device, execution, given, tuple(found), tuple(makers), is_passing))

    def leaf_of(self, array: Array) -> Leaf:
        """The fingerprint and the maker of an array; one that was not recorded is an argument."""
        known = self._lookup(array)
        if known is not None:
            return known
        print_ = self._prints.of(array)
        self._keep(array, print_, NONE)
        self.parts.update(self._prints.of(part).free for part in parts_of(array, self._devices))
        return Leaf(print_, NONE)

    def _lookup(self, array: Array) -> Leaf | None:
        """The array itself, not an equal one; of scalars that numpy shares, such as True, the latest."""
        kept = self._seen.get(id(array))
        if kept is None:
            return None
        holder, print_, maker = kept
        held = holder() if isinstance(holder, weakref.ref) else holder
        return Leaf(print_, maker) if held is array else None

    def _keep(self, array: Array, print_: Print, maker: int) -> None:
        holder: object = weakref.ref(array) if type(array) is np.ndarray else array
        self._seen[id(array)] = holder, print_, maker

    def callers_of(self, at: int) -> tuple[tuple[Instruction, int], ...]:
        """The instructions around an execution, the outermost first, each with the iteration that it was in, from 0."""
        found: list[tuple[Instruction, int]] = []
        inner = at
        while (outer := self._caller(inner)) is not None:
            node, start = self.nodes[inner], self._before(outer)
            iteration = sum(
                each.instruction is node.instruction and each.device == node.device
                for each in self.nodes[start + 1 : inner]
            )
            found.append((self.nodes[outer].instruction, iteration))
            inner = outer
        return tuple(reversed(found))

    def _caller(self, at: int) -> int | None:
        """The execution that called the computation of an execution: the first afterwards that calls it."""
        node = self.nodes[at]
        computation = node.instruction.computation
        for place in range(at + 1, len(self.nodes)):
            other = self.nodes[place]
            if other.device == node.device and computation in other.instruction.called_computations:
                return place
        return None

    def _before(self, at: int) -> int:
        """The previous execution of the same instruction on the same device; -1 if there is none."""
        node = self.nodes[at]
        for place in range(at - 1, -1, -1):
            other = self.nodes[place]
            if other.instruction is node.instruction and other.device == node.device:
                return place
        return NONE


def arrays_in(value: Value) -> Iterator[Array]:
    """The arrays of a value, those in tuples included."""
    if isinstance(value, tuple):
        for part in value:
            yield from arrays_in(part)
    elif value is not None:
        yield value


def parts_of(array: Array, devices: int) -> Iterator[Array]:
    """The parts of an array that so many devices may have: cut along one dimension, or along two.

    >>> [part.tolist() for part in parts_of(np.array([[1, 2], [3, 4], [5, 6]]), 2)]
    [[[1], [3], [5]], [[2], [4], [6]]]
    """
    counts = [count for count in range(2, devices + 1) if devices % count == 0]
    for along, count, rest in _cuts(array.shape, counts):
        for part in np.split(array, count, along):
            yield part
            if count < devices:
                for other, more, _ in _cuts(part.shape, [each for each in counts if count * each <= devices]):
                    if other > along and rest:
                        yield from np.split(part, more, other)


def _cuts(sizes: Sequence[int], counts: Sequence[int]) -> list[tuple[int, int, bool]]:
    return [
        (at, count, at + 1 < len(sizes))
        for at, size in enumerate(sizes)
        for count in counts
        if size % count == 0 < size
    ]
