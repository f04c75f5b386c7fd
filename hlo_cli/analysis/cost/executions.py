"""Executions of each computation per execution of the module, those of fusions and reducers too."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.cost.kernel_costs import MAX_EXECUTIONS
from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS

Executions = Mapping[Computation, tuple[int, bool]]
"""How often each computation runs, and whether the number is known; if not, unknown loops count as one iteration."""


def executions_of(module: Module) -> Executions:
    """Executions of the computations that run; a loop condition runs once more than the body.

    Every branch of a conditional counts as taken. Computations that are applied to elements, such as reducers, count
    as often as their caller.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  c = s8[9] call(p), to_apply=f  ROOT d = s8[9] call(c), to_apply=f }'''
    >>> list(executions_of(parse_module(text)).values())
    [(1, True), (2, True)]
    """
    found: dict[Computation, tuple[int, bool]] = {module.entry: (1, True)}
    for computation in reversed(list(callees_first((module.entry,)))):
        number, is_known = found[computation]
        for caller in computation.instructions:
            if not (called := caller.called_computations) or caller.opcode in ASYNC_CONTINUATIONS:
                continue
            trips = trip_count(caller) if caller.opcode == opcodes.WHILE else 1
            for position, each in enumerate(called):
                more = int(position == 1 and caller.opcode == opcodes.WHILE and trips is not None)
                before, was_known = found.get(each, (0, True))
                runs = number * ((1 if trips is None else trips) + more)
                is_countable = before + runs <= MAX_EXECUTIONS
                known = was_known and is_known and trips is not None and is_countable
                found[each] = before + runs if is_countable else 1, known
    return found
