"""Executions of computations: how often each runs per execution of the module.

XLA has no counterpart: its cost analysis counts each computation once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.analysis.dataflow.post_order import depth_first
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode

MAX_EXECUTIONS: Final = 10**18
"""Execution count from which on it is not plausible, even at a nanosecond per iteration."""


@dataclass(frozen=True, slots=True)
class Executions:
    """How often a computation runs per execution of the module.

    `count` is the product of the trip counts around it, summed over its callers. A loop of unknown trip count counts
    as one iteration; then, and for more than `MAX_EXECUTIONS`, `is_known` is False. With `in_branch`, a caller is in a
    branch of a conditional, or is the conditional: it may run less often, as `count` takes every branch as taken.
    """

    count: int = 0
    is_known: bool = True
    in_branch: bool = False

    @property
    def known(self) -> int | None:
        """The count, or None if a trip count is unknown.

        >>> Executions(7).known, Executions(7, is_known=False).known
        (7, None)
        """
        return self.count if self.is_known else None


NO_EXECUTIONS: Final = Executions()
"""Those of a computation that the entry does not reach."""


def executions_of(module: Module) -> Mapping[Computation, Executions]:
    """Executions of all computations that the entry reaches, in the order of the text.

    The body of a loop runs as often as its trip count, the condition once more, and callees of all other instructions
    once for each run of the caller: functions, branches, async computations, bodies of fusions, and reducers.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  c = s8[9] call(p), to_apply=f  ROOT d = s8[9] call(c), to_apply=f }'''
    >>> list(executions_of(parse_module(text)).values())
    [Executions(count=2, is_known=True, in_branch=False), Executions(count=1, is_known=True, in_branch=False)]
    """
    return cached_per_module(_executions, module)


def sequential_executions(module: Module) -> Mapping[Computation, Executions]:
    """Executions of the computations that run instruction by instruction: without bodies of fusions and reducers.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }'''
    >>> [computation.name for computation in sequential_executions(parse_module(text))]
    ['e']
    """
    contexts = contexts_of(module).context_of
    return {each: found for each, found in executions_of(module).items() if contexts.get(each) == "global"}


def loop_runs(loop: Instruction) -> tuple[int, int] | None:
    """Runs of the body and of the condition per run of a loop; None if the trip count is unknown.

    >>> from hlo_cli import parse_module
    >>> config = 'backend_config={"known_trip_count":{"n":"7"}}'
    >>> loop_runs(parse_module(f"w = f32[] while(f32[] p), condition=c, body=b, {config}").entry.root)
    (7, 8)
    """
    trips = trip_count(loop)
    return None if trips is None else (trips, trips + 1)


def runs_per_call(caller: Instruction, called: Computation) -> int | None:
    """Runs of a computation per run of an instruction that calls it; None if a trip count is unknown.

    >>> from hlo_cli import parse_module
    >>> text = "f { ROOT a = s8[] parameter(0) }  ENTRY e { p = s8[] parameter(0)  ROOT c = s8[] call(p), to_apply=f }"
    >>> root = parse_module(text).entry.root
    >>> runs_per_call(root, root.called_computations[0])
    1
    """
    if caller.opcode != opcodes.WHILE:
        return 1
    runs = loop_runs(caller)
    return None if runs is None else runs[called in caller.called_computations[1:]]


def _executions(module: Module) -> Mapping[Computation, Executions]:
    """Computes the executions from the entry downward."""
    callees_first = depth_first(
        (module.entry,), lambda c: [called for i in c.instructions for called in i.called_computations]
    )
    found = {module.entry: Executions(1)}
    for computation in reversed(list(callees_first)):
        around = found[computation]
        for caller in computation.instructions:
            for called in caller.called_computations:
                before = found.get(called, NO_EXECUTIONS)
                found[called] = before if _continues(caller) else _sum(before, around, caller, called)
    return {computation: found[computation] for computation in module.computations if computation in found}


def _continues(caller: Instruction) -> bool:
    """Returns whether a caller names the computation that its async-start runs."""
    opcode = caller.opcode
    return opcode in ASYNC_CONTINUATIONS or (opcode.endswith(("-update", "-done")) and bool(wrapped_opcode(opcode)))


def _sum(before: Executions, around: Executions, caller: Instruction, called: Computation) -> Executions:
    """Adds the runs by one caller, which runs as often as the computation `around` it."""
    runs = runs_per_call(caller, called)
    never_runs = around.is_known and not around.count
    count = before.count + around.count * (1 if runs is None else runs)
    return Executions(
        min(count, MAX_EXECUTIONS),
        before.is_known and around.is_known and (runs is not None or never_runs) and count <= MAX_EXECUTIONS,
        before.in_branch or around.in_branch or caller.opcode == opcodes.CONDITIONAL,
    )
