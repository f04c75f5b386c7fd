"""Limits of an evaluation: what a module would take, estimated before it runs, and time while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from math import prod

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluations import evaluations
from hlo_cli.analysis.semantics.number_types import Floats, carrier
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an evaluation takes: scalar operations, and bytes of the values that are live at once at most.

    `is_bound` tells that a trip count is unknown, so that the operations are only a lower bound.
    """

    operations: int
    live_bytes: int
    is_bound: bool


def estimate(module: Module, floats: Floats = "exact") -> Estimate:
    """What an evaluation of a module takes, from shapes and trip counts.

    >>> from hlo_cli import parse_module
    >>> estimate(parse_module("r = f32[8] add(f32[8] a, f32[8] b)"))
    Estimate(operations=8, live_bytes=96, is_bound=False)
    """
    executions = executions_of(module)
    operations = sum(
        (evaluations(instruction) or 0) * found.count
        for computation, found in executions.items()
        for instruction in computation.instructions
        if instruction.opcode not in _FREE and (not instruction.called_computations or instruction.opcode in _SELF)
    )
    live = dict[Computation, int]()
    for computation in reversed(list(executions)):
        live[computation] = _live_bytes(computation, live, floats)
    is_bound = any(not found.is_known for found in executions.values())
    return Estimate(operations, live.get(module.entry, 0), is_bound)


_FREE = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, "get-tuple-element", opcodes.BITCAST))
_SELF = frozenset((opcodes.REDUCE, "reduce-window", "select-and-scatter", opcodes.SCATTER, "sort", "map"))


def check(module: Module, floats: Floats, limits: Limits, devices: int = 1) -> Estimate:
    """The estimate for all devices; HloError if it is beyond a limit."""
    single = estimate(module, floats)
    found = Estimate(single.operations * devices, single.live_bytes * devices, single.is_bound)
    if found.live_bytes > limits.max_bytes:
        raise HloError(
            f"evaluation needs {found.live_bytes / 2**30:,.1f} GiB of memory, above the limit of "
            f"{limits.max_bytes / 2**30:g} GiB",
            hint="use --max-memory SIZE to raise the limit",
        )
    if found.operations > limits.max_operations:
        raise HloError(
            f"evaluation needs {_count(found.operations)} scalar operations, "
            f"above the limit of {_count(limits.max_operations)}",
            hint="use --max-operations N to raise the limit",
        )
    return found


def _count(operations: int) -> str:
    """A number of operations, short if it is long.

    >>> _count(16), _count(40_000_000_000)
    ('16', '4e+10')
    """
    return f"{operations:,}" if operations < 1_000_000 else f"{operations:.3g}"


class Clock:
    """Raises HloError, with the instruction, once the time is over."""

    def __init__(self, limits: Limits) -> None:
        self._end = time.monotonic() + limits.max_seconds
        self._seconds = limits.max_seconds

    def __call__(self, instruction: Instruction) -> None:
        """Checks the time before an instruction runs."""
        if time.monotonic() > self._end:
            raise HloError(
                f"evaluation exceeds the limit of {self._seconds:g} seconds",
                instruction.span,
                hint="use --max-seconds N to raise the limit",
            )


def _live_bytes(computation: Computation, live: Mapping[Computation, int], floats: Floats) -> int:
    last = {operand: at for at, each in enumerate(computation.instructions) for operand in each.operands}
    ends: dict[int, int] = {}
    now = most = 0
    for at, instruction in enumerate(computation.instructions):
        own = sum(_sizes(instruction, floats))
        inner = max((live.get(called, 0) for called in instruction.called_computations), default=0)
        now += own
        most = max(most, now + inner)
        if (end := last.get(instruction)) is not None:
            ends[end] = ends.get(end, 0) + own
        now -= ends.pop(at, 0)
    return most


def _sizes(instruction: Instruction, floats: Floats) -> Iterator[int]:
    if instruction.opcode in (
        "get-tuple-element",
        opcodes.TUPLE,
        opcodes.BITCAST,
        opcodes.RESHAPE,
        opcodes.BROADCAST,
        "copy",
    ):
        return
    for _, leaf in instruction.shape.leaves:
        if isinstance(leaf, ArrayShape):
            yield prod(leaf.dimensions) * carrier(leaf.element_type, floats).itemsize
