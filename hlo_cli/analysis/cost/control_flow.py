"""Operations that run computations as they stand: calls, loops, branches, asynchronous ones, and calls out of XLA.

Mirrors `HandleCall`, `HandleWhile`, `HandleConditional`, `HandleAsyncStart` and `HandleCustomCall` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OPTIMAL_SECONDS, OUTPUT_BYTES, UNKNOWN, Figures, operand_key
from hlo_cli.analysis.cost.counting import CostCounter
from hlo_cli.analysis.cost.data_movement import free
from hlo_cli.analysis.cost.library_calls import known_call
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.ir.instruction import Instruction

_CALL_MARKERS: Final = ("__xla_internal_call_marker_before", "__xla_internal_call_marker_after")


def call(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """All that the callee costs, and nothing of its own."""
    figures.clear()
    figures |= _callee(instruction, count, 0)


def async_start(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """All that the callee costs; the update and the end cost what they hand on."""
    call(instruction, figures, count)
    figures[OPTIMAL_SECONDS] = 0


def while_(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body and the condition once, or as often as they run if the rules want that and the text tells.

    A loop of unknown length counts once, and then among the operations of unknown cost.
    """
    parts = (_callee(instruction, count, 0), _callee(instruction, count, 1))
    trips = trip_count(instruction) if count.rules.trip_counts else None
    figures.clear()
    for part, runs in zip(parts, (1, 1) if trips is None else (trips, trips + 1), strict=True):
        count.add(
            figures, {name: value if name == UNKNOWN else count.times(value, runs) for name, value in part.items()}
        )
    if trips is None and count.rules.trip_counts:
        figures[UNKNOWN] = figures.get(UNKNOWN, 0) + 1


def conditional(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Of every figure the largest of all branches.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''a { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }
    ... b { p = f32[9] parameter(0)  ROOT r = f32[9] tanh(p) }
    ... ENTRY e { i = s32[] parameter(0)  x = f32[9] parameter(1)
    ...   ROOT c = f32[9] conditional(i, x, x), branch_computations={a, b} }'''
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.flops, cost.transcendentals
    (9, 9)
    """
    call(instruction, figures, count)
    for branch in range(1, len(instruction.called_computations)):
        for name, value in _callee(instruction, count, branch).items():
            present = figures.get(name, 0)
            figures[name] = value if present < value else present


def custom_call(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Nobody knows: for XLA minus one of everything, else nothing, or what the text tells.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.cost import EXACT, XLA
    >>> root = parse_module('r = f32[2] custom-call(f32[2] a), custom_call_target="f"').entry.root
    >>> for rules in EXACT, XLA:
    ...     cost = cost_of(root, rules=rules)
    ...     cost.bytes_accessed, cost.unknown
    (0, 1)
    (-1.0, 1)
    """
    rules = count.rules
    if rules.call_markers_are_free and instruction.string("custom_call_target") in _CALL_MARKERS:
        free(instruction, figures, count)
    elif rules.known_calls and (known := known_call(instruction, count)) is not None:
        figures |= known
    elif rules.minus_one:
        figures |= {FLOPS: -1, BYTES: -1, OUTPUT_BYTES: -1, OPTIMAL_SECONDS: -1, UNKNOWN: 1}
        figures |= {operand_key(number): -1 for number in range(len(instruction.operands))}
    else:
        figures[UNKNOWN] = 1
        if not rules.known_calls:
            free(instruction, figures, count)


def _callee(instruction: Instruction, count: CostCounter, number: int) -> Figures:
    called = instruction.called_computations
    return count.totals.get(called[number], {}) if number < len(called) else {}
