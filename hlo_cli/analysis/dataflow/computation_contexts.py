"""Contexts of computations: executed as control flow, embedded (applied per element), or fused.

Mirrors xla/service/call_graph.cc and `GatherComputationsByAllocationType` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

Context = Literal["global", "embedded", "fused"]

CONTROL_FLOW: Final = operations.CONTROL_FLOW | {"call-start", "call-update", "call-done"}
"""Opcodes that execute the instructions of the computations that they call."""


@dataclass(frozen=True, slots=True)
class ComputationContexts:
    """The context of each computation reachable from the entry, and the callers of each.

    `global` computations are reached from the entry through control flow only, and execute instruction by
    instruction. `embedded` ones are applied, such as reducers, as are all computations that they reach. `fused` ones
    are bodies of fusions.
    """

    context_of: Mapping[Computation, Context]
    callers: Mapping[Computation, tuple[Instruction, ...]]


def contexts_of(module: Module) -> ComputationContexts:
    """Returns the contexts of a module's computations.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(p, z), to_apply=f }'''
    >>> list(contexts_of(parse_module(text)).context_of.values())
    ['embedded', 'global']
    """
    return cached_per_module(_contexts, module)


def _contexts(module: Module) -> ComputationContexts:
    """Computes the contexts from the entry downward."""
    found: dict[Computation, Context] = {module.entry: "global"}
    callers: dict[Computation, dict[Instruction, None]] = {}
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop()
        for caller in computation.instructions:
            for called in caller.called_computations:
                callers.setdefault(called, {})[caller] = None
                context = _context(caller, found[computation])
                # buffer_assignment.cc rejects a computation that is both; here the global context wins.
                if called not in found or (found[called] == "embedded" and context == "global"):
                    found[called] = context
                    waiting.append(called)
    ordered = {computation: found[computation] for computation in module.computations if computation in found}
    return ComputationContexts(ordered, {computation: tuple(calling) for computation, calling in callers.items()})


def _context(caller: Instruction, around: Context) -> Context:
    """Returns the context of a computation from its caller and the caller's own context."""
    if caller.opcode == opcodes.FUSION:
        return "fused"
    return around if caller.opcode in CONTROL_FLOW and around != "fused" else "embedded"
