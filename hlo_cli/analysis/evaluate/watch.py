"""A value followed through the iterations of loops: summaries are taken as values pass, and values are not kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.summary import Summary, summary_of
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value, arrays_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.source import HloError

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
    """An array of a value in all executions; `omitted` of them are not in `kept`.

    `constant_from` is the execution since which the array has not changed; None if the last two differ.
    """

    instruction: Instruction
    index: ShapeIndex
    kept: tuple[Execution, ...]
    executions: int
    constant_from: int | None

    @property
    def omitted(self) -> int:
        """The number of executions without a summary."""
        return self.executions - len(self.kept)

    def selected(self, ends: int) -> tuple[Execution, ...]:
        """The first and the last executions, and those with an event or since which the array is constant."""
        last = self.executions - ends
        return tuple(
            each
            for each in self.kept
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

    def add(self, made: Execution, array: Array) -> None:
        digest = blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest()
        if digest != self._digest:
            self.changed, self._digest = made, digest
        self.seen.update(made.events)
        self.executions += 1
        if len(self.first) < MAX_FIRST_EXECUTIONS:
            self.first.append(made)
            return
        if len(self.last) == MAX_LAST_EXECUTIONS and self.last[0].events:
            self.notable.append(self.last[0])
        self.last.append(made)

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
    found: dict[str, Array] = {}
    for (instruction, index), arrays in watch.saved.items():
        name = "_".join((instruction.name, *map(str, index)))
        if len({each.shape for each in arrays}) == 1:
            found[name] = np.stack(arrays)
        else:
            found |= {f"{name}_{at}": each for at, each in enumerate(arrays)}
    for instruction, iterations in watch.saved_iterations.items():
        depths = {len(each) for each in iterations}
        if len(depths) == 1:
            found[f"{instruction.name}_iterations"] = np.array(iterations, np.int64).reshape(
                len(iterations), depths.pop()
            )
    return found
