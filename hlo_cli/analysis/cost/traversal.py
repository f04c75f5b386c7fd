"""Orders in which costs are summed: callees before callers, and operands before users.

Mirrors `HloComputation::Accept` of xla/hlo/ir/hlo_computation.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli.analysis.dataflow.post_order import control_predecessors, depth_first
from hlo_cli.ir.instruction import Computation, Instruction


def callees_first(computations: Iterable[Computation]) -> Iterator[Computation]:
    """These computations and all their callees, callees first.

    >>> from hlo_cli import parse_module
    >>> text = '''f { ROOT p = f32[] parameter(0) }
    ... ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] call(a), to_apply=f }'''
    >>> [computation.name for computation in callees_first([parse_module(text).entry])]
    ['f', 'e']
    """
    return depth_first(computations, lambda c: [called for i in c.instructions for called in i.called_computations])


def post_order(computation: Computation) -> Iterator[Instruction]:
    """Instructions in XLA's visiting order: those without users, in the order of the text, with all before them; then
    the root.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { b = s8[] parameter(1)  a = s8[] parameter(0)  d = s8[] not(a)  ROOT r = s8[] add(a, b) }"
    >>> [instruction.name for instruction in post_order(parse_module(text).entry)]
    ['a', 'd', 'b', 'r']
    """
    instructions = computation.instructions
    controlled = {
        instructions[at]: [instructions[n] for n in before] for at, before in control_predecessors(computation).items()
    }
    root = computation.root
    used = {operand for i in computation.instructions for operand in (*i.operands, *controlled.get(i, ()))}
    ends = [i for i in computation.instructions if i not in used and i is not root]
    last = computation.instructions if root is None else (root, *computation.instructions)  # circles have no end
    return depth_first((*ends, *last), lambda i: [*i.operands, *controlled.get(i, ())])
