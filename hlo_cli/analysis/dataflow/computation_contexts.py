"""In which way each computation is run: step by step, applied element by element, or fused into one kernel.

Mirrors xla/service/call_graph.cc and `GatherComputationsByAllocationType` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

Context = Literal["global", "embedded", "fused"]

CONTROL_FLOW: Final = operations.CONTROL_FLOW | {"call-start", "call-update", "call-done"}
"""Opcodes that run the computations they call as they stand."""


@dataclass(frozen=True, slots=True)
class ComputationContexts:
    """How computations are run, and the instructions that call each.

    `global` ones run instruction by instruction, reached from the entry through control flow alone; `embedded` ones
    are applied, as in a reduction, and so is all they reach; `fused` ones are bodies of fusions. What the entry does
    not reach is in none.
    """

    of: Mapping[Computation, Context]
    callers: Mapping[Computation, tuple[Instruction, ...]]


def contexts_of(module: Module) -> ComputationContexts:
    """The contexts of a module's computations.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(p, z), to_apply=f }'''
    >>> list(contexts_of(parse_module(text)).of.values())
    ['embedded', 'global']
    """
    return cached_per_module(_contexts, module)


def _contexts(module: Module) -> ComputationContexts:
    found: dict[Computation, Context] = {module.entry: "global"}
    callers: dict[Computation, dict[Instruction, None]] = {}
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop()
        for caller in computation.instructions:
            for called in caller.called_computations:
                callers.setdefault(called, {})[caller] = None
                context = _context(caller, found[computation])
                if called not in found or (found[called] == "embedded" and context == "global"):
                    found[called] = context
                    waiting.append(called)
    ordered = {computation: found[computation] for computation in module.computations if computation in found}
    return ComputationContexts(ordered, {computation: tuple(calling) for computation, calling in callers.items()})


def _context(caller: Instruction, around: Context) -> Context:
    if caller.opcode == opcodes.FUSION:
        return "fused"
    return around if caller.opcode in CONTROL_FLOW and around != "fused" else "embedded"
