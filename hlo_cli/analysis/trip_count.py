"""How often a loop runs, where its text tells. Mirrors xla/service/while_loop_analysis.h."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

_KNOWN: Final = re.compile(r'"known_trip_count":\{"n":"?([0-9]{1,18})"?')
_PASSED_ON: Final = frozenset(("copy", "bitcast", "copy-start", "copy-done", "convert", "reshape"))
_MIRRORED: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_MOST_STEPS: Final = 100


@dataclass(frozen=True, slots=True)
class _Test:
    """That a loop goes on while element `index` of what it carries compares so to `limit`."""

    index: int
    direction: str
    limit: int


def trip_count(loop: Instruction) -> int | None:
    """How often the body of a while loop runs, or None where that hangs on a computed value.

    Reads what the compiler noted in backend_config, else the counter: its start, its step and the loop's condition.

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
    test = _test_of(condition)
    if test is None:
        return None
    start, step = _integer(_element(loop.operands[0], test.index)), _step_of(body, test.index)
    return _count(start, step, test) if start is not None and step else None


def _count(start: int, step: int, test: _Test) -> int | None:
    limit, direction = test.limit, test.direction
    if step < 0:
        start, step, limit, direction = -start, -step, -limit, _MIRRORED[direction]
    if direction == "LE":
        limit, direction = limit + 1, "LT"
    if direction == "NE" and start <= limit and (limit - start) % step == 0:
        direction = "LT"
    return max(-((start - limit) // step), 0) if direction == "LT" else None


def _test_of(condition: Computation) -> _Test | None:
    root = condition.root
    outer: tuple[Instruction, ...] = ()
    if root is not None and root.opcode == "fusion" and root.called_computations:
        outer, root = root.operands, root.called_computations[0].root
    if root is None or root.opcode != "compare" or len(root.operands) != 2:
        return None
    direction = root.attribute("direction") or ""
    left, right = (_outside(operand, outer) for operand in root.operands)
    for counter, limit, way in ((left, right, direction), (right, left, _MIRRORED.get(direction, ""))):
        index, value = _carried_index(counter), _integer(limit)
        if index is not None and value is not None and way:
            return _Test(index, way, value)
    return None


def _outside(operand: Instruction, outer: tuple[Instruction, ...]) -> Instruction:
    """What a parameter of a fused computation stands for in the computation around it."""
    number = operand.parameter_number
    return outer[number] if number is not None and number < len(outer) else operand


def _step_of(body: Computation, index: int) -> int | None:
    """What a body adds to an element of what it carries."""
    root = body.root
    added = _origin(_element(root, index)) if root is not None else None
    outer: tuple[Instruction, ...] = ()
    if added is not None and added.opcode == "fusion" and added.called_computations:
        outer, added = added.operands, added.called_computations[0].root
    if added is None or added.opcode not in ("add", "subtract") or len(added.operands) != 2:
        return None
    left, right = (_outside(operand, outer) for operand in added.operands)
    if added.opcode == "add" and _carried_index(left) != index:
        left, right = right, left
    step = _integer(right)
    if _carried_index(left) != index or step is None:
        return None
    return step if added.opcode == "add" else -step


def _carried_index(instruction: Instruction | None) -> int | None:
    """Which element of the computation's parameter this is, if it is one."""
    found = _origin(instruction)
    if found is None or found.opcode != "get-tuple-element" or not found.operands:
        return None
    index = found.attribute("index") or ""
    return int(index) if found.operands[0].opcode == "parameter" and index.isdecimal() and len(index) < 10 else None


def _element(value: Instruction, index: int) -> Instruction | None:
    found = _origin(value)
    is_tuple = found is not None and found.opcode == "tuple" and index < len(found.operands)
    return found.operands[index] if is_tuple and found is not None else None


def _integer(instruction: Instruction | None) -> int | None:
    found = _origin(instruction)
    if found is None or found.opcode != "constant":
        return None
    argument = found.text.argument
    return int(argument) if argument.removeprefix("-").isdecimal() and len(argument) < 20 else None


def _origin(instruction: Instruction | None) -> Instruction | None:
    """The instruction behind copies and bitcasts."""
    for _ in range(_MOST_STEPS):
        if instruction is None or instruction.opcode not in _PASSED_ON or not instruction.operands:
            break
        instruction = instruction.operands[0]
    return instruction
