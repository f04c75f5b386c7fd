"""The values that go into one execution of an instruction, and come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hlo_cli.analysis.evaluate.program import Observer
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction


class Place(NamedTuple):
    """One execution of an instruction on a device; executions of each instruction are counted from 0."""

    instruction: Instruction
    device: int
    execution: int


@dataclass(frozen=True, slots=True)
class ExecutionValues:
    """The values of the operands and of the result of one execution."""

    place: Place
    operands: tuple[Value, ...]
    result: Value


@dataclass(frozen=True, slots=True)
class DifferingValues:
    """The values at the first instruction that differs; `old` are those of its counterpart, None without one."""

    old: ExecutionValues | None
    new: ExecutionValues | None


def values_at(run: Callable[[Observer], object], place: Place) -> ExecutionValues | None:
    """The values of an execution, from one more run; None if it does not run."""
    found: list[ExecutionValues] = []
    executions = 0

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        nonlocal executions
        if instruction is place.instruction and device == place.device:
            if executions == place.execution:
                found.append(ExecutionValues(place, tuple(operands), value))
            executions += 1

    run(observe)
    return found[0] if found else None
