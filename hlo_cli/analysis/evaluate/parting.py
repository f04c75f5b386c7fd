"""The first instruction at which two programs part, found by the values that they compute.

Names do not survive compilers, values do: with floats widened, each array has a fingerprint that layouts, reshapes, and
transposes leave alone. A value of the new program is explained if the old one has a value with its fingerprint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ShapeIndex

Fingerprint = tuple[float, ...]

_TOLERANCE: Final = 1e-6
_OF_SCALARS: Final = frozenset(
    ("all-reduce", "map", opcodes.REDUCE, "reduce-scatter", "reduce-window", opcodes.SCATTER, "sort")
)
_MAX_ROUNDS: Final = 10_000
"""The largest number of executions of one instruction whose fingerprints are kept."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The instruction that computes a value which the other program does not have, though it has all of its operands.

    `execution` counts the runs of the instruction from 0; `callers` are the instructions around it, the outermost
    first.
    """

    instruction: Instruction
    execution: int
    callers: tuple[Instruction, ...]


def fingerprint(array: Array) -> Fingerprint:
    """Numbers of an array that do not depend on the order of its elements.

    >>> fingerprint(np.array([[1.0, 2.0]])) == fingerprint(np.array([2.0, 1.0]))
    True
    """
    values = np.asarray(array)
    parts = [np.real(values), np.imag(values)] if values.dtype.kind == "c" else [values]
    wide = np.concatenate([part.astype(np.float64).reshape(-1) for part in parts])
    finite = wide[np.isfinite(wide)]
    other = float(np.isnan(wide).sum()) + 0.25 * float(np.isposinf(wide).sum()) + 0.375 * float(np.isneginf(wide).sum())
    if not finite.size:
        return (float(wide.size), other, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    magnitudes = np.abs(finite)
    sums = finite.sum(), magnitudes.sum(), (finite * finite).sum(), finite.max(), finite.min(), np.sin(magnitudes).sum()
    return (float(wide.size), other, *map(float, sums))


class Recorder:
    """Keeps the fingerprints of all values of a program, in the order in which they were computed."""

    def __init__(self) -> None:
        self.runs: dict[Instruction, list[tuple[Fingerprint, ...]]] = {}

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        kept = self.runs.setdefault(instruction, [])
        if len(kept) < _MAX_ROUNDS:
            kept.append(tuple(map(fingerprint, _arrays(value))))


def _arrays(value: Value) -> Iterator[Array]:
    if isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)
    elif value is not None:
        yield np.asarray(value)


class Known:
    """The fingerprints of a program, for looking up."""

    def __init__(self, recorded: Recorder, arguments: Sequence[Value]) -> None:
        found = {each for runs in recorded.runs.values() for run in runs for each in run}
        found |= {fingerprint(array) for value in arguments for array in _arrays(value)}
        self._by_squares = sorted(found, key=_key)
        self._keys = list(map(_key, self._by_squares))

    def explains(self, wanted: Fingerprint) -> bool:
        """Whether the program has a value with this fingerprint, within rounding."""
        size, other, squares = wanted[0], wanted[1], wanted[4]
        slack = _TOLERANCE * 4 * max(abs(squares), 1e-300)
        at = bisect_left(self._keys, (size, other, squares - slack))
        while at < len(self._keys) and self._keys[at] <= (size, other, squares + slack):
            if _is_close(self._by_squares[at], wanted):
                return True
            at += 1
        return False


def _key(each: Fingerprint) -> tuple[float, float, float]:
    """The number of elements, of those that are not finite, and the sum of squares."""
    return each[0], each[1], each[4]


def _is_close(a: Fingerprint, b: Fingerprint) -> bool:
    scale = max(a[3], b[3], 1e-300)
    largest = max(abs(a[5]), abs(a[6]), abs(b[5]), abs(b[6]), 1e-300)
    return (
        abs(a[2] - b[2]) <= _TOLERANCE * scale
        and abs(a[3] - b[3]) <= _TOLERANCE * scale
        and abs(a[5] - b[5]) <= _TOLERANCE * largest
        and abs(a[6] - b[6]) <= _TOLERANCE * largest
        and abs(a[7] - b[7]) <= _TOLERANCE * max(scale, 1.0)
    )


def first_parting(root: Instruction, index: ShapeIndex, recorded: Recorder, known: Known) -> Parting | None:
    """From a result that differs, back to the earliest value that the other program does not explain.

    None if every value on the way is explained. Inside a call, a fusion, or a loop, the search goes on in its body, in
    the first execution with an unexplained value.
    """
    start = root
    if root.opcode == opcodes.TUPLE and index and index[0] < len(root.operands):
        start = root.operands[index[0]]
    callers: list[Instruction] = []
    found = _earliest(start, recorded, known)
    while found is not None and found.called_computations:
        inner = _inside(found.called_computations, recorded, known)
        if inner is None:
            break
        callers.append(found)
        found = inner
    if found is not None and (reducer := _reducer_root(found)) is not None:
        callers.append(found)
        return Parting(reducer, 0, tuple(callers))
    return None if found is None else Parting(found, _first_execution(found, recorded, known), tuple(callers))


def _reducer_root(instruction: Instruction) -> Instruction | None:
    """The operation of a computation of scalars, such as the sum of a reduce, whose values are not recorded."""
    if instruction.opcode not in _OF_SCALARS or not instruction.called_computations:
        return None
    return instruction.called_computations[-1].root


def _first_execution(instruction: Instruction, recorded: Recorder, known: Known) -> int:
    for at, run in enumerate(recorded.runs.get(instruction, ())):
        if not all(map(known.explains, run)):
            return at
    return 0


def _is_explained(instruction: Instruction, recorded: Recorder, known: Known) -> bool:
    runs = recorded.runs.get(instruction)
    return runs is None or all(known.explains(each) for run in runs for each in run)


def _earliest(start: Instruction, recorded: Recorder, known: Known) -> Instruction | None:
    """The unexplained value before `start`, or itself, whose operands are all explained."""
    if _is_explained(start, recorded, known):
        return None
    seen = {start}
    at = start
    while True:
        for operand in at.operands:
            if operand not in seen and not _is_explained(operand, recorded, known):
                seen.add(operand)
                at = operand
                break
        else:
            return at


def _inside(computations: Sequence[Computation], recorded: Recorder, known: Known) -> Instruction | None:
    """The unexplained instruction of called computations that runs first, in the first execution that has one."""
    best: tuple[int, int, Instruction] | None = None
    for computation in computations:
        for place, instruction in enumerate(computation.instructions):
            for at, run in enumerate(recorded.runs.get(instruction, ())):
                if not all(map(known.explains, run)):
                    if best is None or (at, place) < best[:2]:
                        best = at, place, instruction
                    break
    return None if best is None else best[2]
