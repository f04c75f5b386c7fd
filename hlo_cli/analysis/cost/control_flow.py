"""Cost of operations that run computations: calls, loops, conditionals, async operations, and custom calls.

Mirrors `HandleCall`, `HandleWhile`, `HandleConditional`, `HandleAsyncStart`, and `HandleCustomCall` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OPTIMAL_SECONDS, OUTPUT_BYTES, UNKNOWN, Properties, operand_key
from hlo_cli.analysis.cost.counting import CostCounter, Handler
from hlo_cli.analysis.cost.data_movement import free
from hlo_cli.analysis.cost.library_calls import custom_call_properties
from hlo_cli.analysis.dataflow.executions import loop_runs
from hlo_cli.ir.instruction import Instruction

_CALL_MARKER_TARGETS: Final = ("__xla_internal_call_marker_before", "__xla_internal_call_marker_after")


def call(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the callee, and nothing for the call."""
    properties.clear()
    properties |= _callee(instruction, counter, 0)


def async_start(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the callee; update and done count the default bytes of their operands and results."""
    call(instruction, properties, counter)
    properties[OPTIMAL_SECONDS] = 0


def while_(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts body and condition once or, with `trip_counts`, as often as they run.

    With `trip_counts`, a loop of unknown trip count counts once and adds one operation of unknown cost.
    """
    parts = (_callee(instruction, counter, 0), _callee(instruction, counter, 1))
    runs = loop_runs(instruction) if counter.rules.trip_counts else None
    properties.clear()
    for part, often in zip(parts, runs or (1, 1), strict=True):
        counter.add(
            properties,
            {name: value if name == UNKNOWN else counter.times(value, often) for name, value in part.items()},
        )
    if runs is None and counter.rules.trip_counts:
        properties[UNKNOWN] = properties.get(UNKNOWN, 0) + 1


def conditional(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the maximum over all branches for each property.

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
    call(instruction, properties, counter)
    for branch in range(1, len(instruction.called_computations)):
        for name, value in _callee(instruction, counter, branch).items():
            # HandleConditional takes the maximum with properties that are present only: -1 of a later branch loses to
            # 0.
            present = properties.get(name, 0)
            properties[name] = value if present < value else present


def custom_call(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a custom call, whose cost is unknown in general.

    Every property is -1 for XLA; otherwise 0, or derived from the backend configuration with `known_calls`.

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
    rules = counter.rules
    if rules.call_markers_are_free and instruction.string("custom_call_target") in _CALL_MARKER_TARGETS:
        free(instruction, properties, counter)
    elif rules.known_calls and (known := custom_call_properties(instruction, counter)) is not None:
        properties |= known
    elif rules.minus_one:
        properties |= {FLOPS: -1, BYTES: -1, OUTPUT_BYTES: -1, OPTIMAL_SECONDS: -1, UNKNOWN: 1}
        properties |= {operand_key(number): -1 for number in range(len(instruction.operands))}
    else:
        properties[UNKNOWN] = 1
        if not rules.known_calls:
            free(instruction, properties, counter)


def _callee(instruction: Instruction, counter: CostCounter, number: int) -> Properties:
    called = instruction.called_computations
    return counter.totals.get(called[number], {}) if number < len(called) else {}


HANDLERS: Final[dict[str, Handler]] = {
    "async-start": async_start,
    "call": call,
    "conditional": conditional,
    "custom-call": custom_call,
    "while": while_,
}
"""What counts the cost of each opcode of this family."""
