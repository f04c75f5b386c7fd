"""Who calls what: the kinds of computations, and the tree of loops, branches and calls below the entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode

Kind = Literal["entry", "fused", "body", "condition", "branch", "called", "asynchronous", "applied", "unused"]

_KIND_OF_CALLER: Final[dict[str, Kind]] = {
    opcodes.FUSION: "fused",
    opcodes.CONDITIONAL: "branch",
    opcodes.CALL: "called",
    opcodes.ASYNC_START: "asynchronous",
    opcodes.ASYNC_UPDATE: "asynchronous",
    opcodes.ASYNC_DONE: "asynchronous",
}
_MOST_NODES: Final = 100_000


@dataclass(frozen=True, slots=True)
class CallTreeNode:
    """One computation in the tree of calls, and what it calls in turn.

    `caller` runs it, None for the entry; `branch` numbers the branches of a conditional. `trips` says how often
    a loop's body runs, None if the text does not tell or it is no loop.
    """

    computation: Computation | None
    caller: Instruction | None = None
    branch: int | None = None
    trips: int | None = None
    children: tuple[CallTreeNode, ...] = ()


def computation_kinds(module: Module) -> dict[Computation, Kind]:
    """What every computation is for, after the first instruction that calls it."""
    kinds: dict[Computation, Kind] = {module.entry: "entry"}
    for instruction in module.instructions:
        for position, called in enumerate(instruction.called_computations):
            if called not in kinds:
                kinds[called] = _kind(instruction, position)
    return {computation: kinds.get(computation, "unused") for computation in module.computations}


def loop_computations(module: Module) -> frozenset[Computation]:
    """What runs again and again: the bodies and conditions of loops, and whatever these call.

    >>> from hlo_cli import parse_module
    >>> loop_computations(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    waiting = [
        called for loop in module.instructions if loop.opcode == opcodes.WHILE for called in loop.called_computations
    ]
    found = set(waiting)
    while waiting:
        called = {each for instruction in waiting.pop().instructions for each in instruction.called_computations}
        waiting.extend(called - found)
        found |= called
    return frozenset(found)


def call_tree(module: Module) -> CallTreeNode:
    """The entry with the loops, branches and calls below it; fused and applied computations are left out."""
    budget = iter(range(_MOST_NODES))
    return CallTreeNode(module.entry, children=tuple(_children(module.entry, budget, ())))


def _kind(caller: Instruction, position: int) -> Kind:
    opcode = wrapped_opcode(caller.opcode) or caller.opcode
    if opcode == opcodes.WHILE:
        return "body" if position == 0 else "condition"
    if opcode == opcodes.CALL != caller.opcode:
        return "asynchronous"
    return _KIND_OF_CALLER.get(opcode, "applied")


def _children(
    computation: Computation, budget: Iterator[int], above: tuple[Computation, ...]
) -> Iterator[CallTreeNode]:
    path = (*above, computation)
    for instruction in computation.instructions:
        called = instruction.called_computations
        if not called or (kind := _kind(instruction, 0)) in ("fused", "applied"):
            continue
        if instruction.opcode in ASYNC_CONTINUATIONS or next(budget, None) is None:
            continue
        if kind == "branch":
            branches = (CallTreeNode(c, None, i, None, _below(c, budget, path)) for i, c in enumerate(called))
            yield CallTreeNode(None, instruction, children=tuple(branches))
        else:
            trips = trip_count(instruction) if kind == "body" else None
            yield CallTreeNode(called[0], instruction, None, trips, _below(called[0], budget, path))


def _below(computation: Computation, budget: Iterator[int], path: tuple[Computation, ...]) -> tuple[CallTreeNode, ...]:
    """The children of a computation; none where it calls itself, which only broken modules do."""
    return () if computation in path else tuple(_children(computation, budget, path))
