"""Iterations of the loops around the instruction that runs, counted while a value is followed through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.semantics.control import called
from hlo_cli.analysis.semantics.rules import rule_of
from hlo_cli.analysis.semantics.values import Computed, Kernel, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction

if TYPE_CHECKING:
    from hlo_cli.analysis.semantics.number_types import Array

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
