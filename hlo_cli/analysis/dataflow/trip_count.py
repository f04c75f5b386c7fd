"""Trip counts of while loops. Mirrors xla/service/while_loop_analysis.h."""

from __future__ import annotations

from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.lazy_regex import lazy_regex

_KNOWN: Final = lazy_regex(r'"known_trip_count":\{"n":"?([0-9]{1,18})"?')
_FORWARDING: Final = frozenset(
    (opcodes.COPY, opcodes.BITCAST, opcodes.COPY_START, opcodes.COPY_DONE, opcodes.CONVERT, opcodes.RESHAPE)
)
_MIRRORED: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_MAX_STEPS: Final = 100
"""Limit on the number of forwarding instructions to follow."""

Place = tuple[Instruction, ShapeIndex]
"""An instruction and an index of its shape."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """The loop condition: carried element `index` compared with a constant `limit`."""

    index: int
    direction: str
    limit: int


def trip_count(loop: Instruction) -> int | None:
    """Returns the trip count of a while loop, or None if it depends on computed values.

    Reads `known_trip_count` from backend_config, else derives it from the induction variable: initial value, step,
    and condition.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m
    ... c { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
    ...     ROOT r = pred[] compare(i, n), direction=LT }
    ... b { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(2)
    ...     j = s32[] add(i, n) ROOT r = (s32[]) tuple(j) }
    ... ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z) ROOT w = (s32[]) while(t), condition=c, body=b }''')
    >>> trip_count(module.entry.root)
    5
    """
    if (known := _KNOWN.search(loop.attribute("backend_config") or "")) is not None:
        return int(known[1])
    if len(loop.called_computations) != 2 or len(loop.operands) != 1:
        return None
    body, condition = loop.called_computations
    test = _condition_of(condition)
    if test is None:
        return None
    begin = (loop.operands[0], (*loop.operand_index(0), test.index))
    start, step = _integer(begin), _step_of(body, test.index)
    return _count(start, step, test) if start is not None and step else None


def _count(start: int, step: int, test: _Condition) -> int | None:
    """Returns the number of values from `start` by `step` that meet the condition, None if it is unsupported."""
    limit, direction = test.limit, test.direction
    if step < 0:
        start, step, limit, direction = -start, -step, -limit, _MIRRORED[direction]
    if direction == "LE":
        limit, direction = limit + 1, "LT"
    if direction == "NE" and start <= limit and (limit - start) % step == 0:
        direction = "LT"
    return max(-((start - limit) // step), 0) if direction == "LT" else None


def _condition_of(condition: Computation) -> _Condition | None:
    """Returns the condition of a loop, or None if it is not a comparison with a constant."""
    root = condition.root
    outer: Instruction | None = None
    if root is not None and root.opcode == opcodes.FUSION and root.called_computations:
        outer, root = root, root.called_computations[0].root
    if root is None or root.opcode != opcodes.COMPARE or len(root.operands) != 2:
        return None
    direction = root.attribute("direction") or ""
    left, right = (_outside_fusion(_operand(root, position), outer) for position in (0, 1))
    for counter, limit, comparison in ((left, right, direction), (right, left, _MIRRORED.get(direction, ""))):
        index, value = _carried_index(counter), _integer(limit)
        if index is not None and value is not None and comparison:
            return _Condition(index, comparison, value)
    return None


def _step_of(body: Computation, index: int) -> int | None:
    """Returns the constant that a body adds to a carried element, or None."""
    if body.root is None:
        return None
    added, rest = _origin((body.root, (index,)))
    outer: Instruction | None = None
    if added.opcode == opcodes.FUSION and added.called_computations and added.called_computations[0].root is not None:
        outer, (added, rest) = added, _origin((added.called_computations[0].root, rest))
    if rest or added.opcode not in ("add", "subtract") or len(added.operands) != 2:
        return None
    left, right = (_outside_fusion(_operand(added, position), outer) for position in (0, 1))
    if added.opcode == "add" and _carried_index(left) != index:
        left, right = right, left
    step = _integer(right)
    if _carried_index(left) != index or step is None:
        return None
    return step if added.opcode == "add" else -step


def _outside_fusion(place: Place, outer: Instruction | None) -> Place:
    """Replaces a parameter of a fused computation by the operand of the fusion."""
    instruction, index = _origin(place)
    number = instruction.parameter_number
    if outer is None or number is None or number >= len(outer.operands):
        return place
    return outer.operands[number], (*outer.operand_index(number), *index)


def _carried_index(place: Place) -> int | None:
    """Returns the index of the carried element at a place, or None."""
    instruction, index = _origin(place)
    return index[0] if instruction.opcode == opcodes.PARAMETER and len(index) == 1 else None


def _integer(place: Place) -> int | None:
    """Returns the value of an integer constant, or None."""
    instruction, index = _origin(place)
    if instruction.opcode != opcodes.CONSTANT or index:
        return None
    argument = instruction.text.argument
    return int(argument) if argument.removeprefix("-").isdecimal() and len(argument) < 20 else None


def _operand(instruction: Instruction, position: int) -> Place:
    """Returns the place of an operand."""
    return instruction.operands[position], instruction.operand_index(position)


def _origin(place: Place) -> Place:
    """Follows a place through copies, conversions, and tuples to its producer."""
    for _ in range(_MAX_STEPS):
        instruction, index = place
        if not instruction.operands:
            break
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            number = instruction.attribute("index") or ""
            if not number.isdecimal() or len(number) > 9:
                break
            place = (instruction.operands[0], (*instruction.operand_index(0), int(number), *index))
        elif instruction.opcode == opcodes.TUPLE and index and index[0] < len(instruction.operands):
            place = (instruction.operands[index[0]], (*instruction.operand_index(index[0]), *index[1:]))
        elif instruction.opcode in _FORWARDING:
            place = (instruction.operands[0], (*instruction.operand_index(0), *index))
        else:
            break
    return place
