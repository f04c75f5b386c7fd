"""Call tree: kinds of computations, and the nested loops, branches, and calls below the entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Computation, Instruction
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
_MAX_NODES: Final = 100_000
"""Limit on the size of the tree."""


@dataclass(frozen=True, slots=True)
class CallTreeNode:
    """A computation in the call tree, and its callees.

    `caller` is None for the entry. `branch` is the index of a branch of a conditional. `trips` is the trip count of a
    loop body, None if unknown or not a loop.
    """

    computation: Computation | None
    caller: Instruction | None = None
    branch: int | None = None
    trips: int | None = None
    children: tuple[CallTreeNode, ...] = ()


def computation_kinds(module: Module) -> dict[Computation, Kind]:
    """Returns the kind of each computation, by the first instruction that calls it."""
    kinds: dict[Computation, Kind] = {module.entry: "entry"}
    for instruction in module.instructions:
        for position, called in enumerate(instruction.called_computations):
            if called not in kinds:
                kinds[called] = _kind(instruction, position)
    return {computation: kinds.get(computation, "unused") for computation in module.computations}


def loop_computations(module: Module) -> frozenset[Computation]:
    """Returns the bodies and conditions of loops, and all computations reachable from them.

    >>> from hlo_cli import parse_module
    >>> loop_computations(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    return _reached_from(module, (opcodes.WHILE,))


def asynchronous_computations(module: Module) -> frozenset[Computation]:
    """Returns the computations that async operations run, and all reachable from them: they run beside the program.

    >>> from hlo_cli import parse_module
    >>> asynchronous_computations(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    return _reached_from(module, (opcodes.ASYNC_START, "call-start"))


def _reached_from(module: Module, callers: Sequence[str]) -> frozenset[Computation]:
    """Returns the computations that instructions with these opcodes call, and all reachable from them."""
    waiting = [
        called for caller in module.instructions if caller.opcode in callers for called in caller.called_computations
    ]
    found = set(waiting)
    while waiting:
        called = {each for instruction in waiting.pop().instructions for each in instruction.called_computations}
        waiting.extend(called - found)
        found |= called
    return frozenset(found)


def call_tree(module: Module) -> CallTreeNode:
    """Returns the call tree of the entry; fused computations and reducers are omitted."""
    budget = iter(range(_MAX_NODES))
    return CallTreeNode(module.entry, children=run_deep(_children(module.entry, budget, set())))


def _kind(caller: Instruction, position: int) -> Kind:
    """Returns the kind of the computation that `caller` calls at a position."""
    opcode = wrapped_opcode(caller.opcode) or caller.opcode
    if opcode == opcodes.WHILE:
        return "body" if position == 0 else "condition"
    if opcode == opcodes.CALL != caller.opcode:
        return "asynchronous"
    return _KIND_OF_CALLER.get(opcode, "applied")


def _children(
    computation: Computation, budget: Iterator[int], above: set[Computation]
) -> DeepCall[tuple[CallTreeNode, ...]]:
    """Returns the tree nodes of the callees of a computation; none if it is recursive, as only malformed ones are."""
    if computation in above:
        return ()
    above.add(computation)
    found: list[CallTreeNode] = []
    for instruction in computation.instructions:
        called = instruction.called_computations
        if not called or (kind := _kind(instruction, 0)) in ("fused", "applied"):
            continue
        if instruction.opcode in ASYNC_CONTINUATIONS or next(budget, None) is None:
            continue
        if kind == "branch":
            branches: list[CallTreeNode] = []
            for number, branch in enumerate(called):
                below = yield _children(branch, budget, above)
                branches.append(CallTreeNode(branch, None, number, None, below))
            found.append(CallTreeNode(None, instruction, children=tuple(branches)))
        else:
            trips = trip_count(instruction) if kind == "body" else None
            below = yield _children(called[0], budget, above)
            found.append(CallTreeNode(called[0], instruction, None, trips, below))
    above.discard(computation)
    return tuple(found)
