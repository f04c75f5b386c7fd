"""Modules with one thing changed at random, right or wrong: for comparing what XLA's verifier says of them with ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from edits import Draft, Line
from hlo_cli.ir.layout import PRIMITIVE_TYPES, default_layout
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, TupleShape

_TYPES: Final = tuple(PRIMITIVE_TYPES[name] for name in ("pred", "s8", "s32", "u32", "f16", "f32", "f64", "c64"))
_OPCODES: Final = (
    ("add", "subtract", "multiply", "maximum", "remainder", "and", "atan2", "complex", "shift-left"),
    ("negate", "abs", "sqrt", "floor", "not", "is-finite", "real", "popcnt", "copy", "opt-barrier", "sign"),
)


def mutated(module: Module, random: Random) -> str:
    """The module's text with one thing changed in what runs: a shape, an opcode, an operand, a number."""
    draft = Draft(module)
    called = {each.name for caller in module.entry.instructions for each in caller.called_computations}
    lines = [line for _, name, lines in draft.computations for line in lines if name in called | {module.entry.name}]
    change: Callable[[list[Line], Random], bool] = random.choice(
        (_size, _rank, _type, _tuple, _opcode, _operand, _number)
    )
    while not change(lines, random):
        change = random.choice((_size, _rank, _type, _operand))
    return draft.text()


def _some_array(lines: list[Line], random: Random) -> tuple[Line, ArrayShape] | None:
    able = [(line, line.shape) for line in lines if isinstance(line.shape, ArrayShape) and line.opcode != "constant"]
    return random.choice(able) if able else None


def _size(lines: list[Line], random: Random) -> bool:
    found = _some_array(lines, random)
    if found is None or not found[1].dimensions:
        return False
    line, shape = found
    sizes, at = list(shape.dimensions), random.randrange(shape.rank)
    sizes[at] = random.choice((1, sizes[at] + 1, max(sizes[at] - 1, 0), 2 * sizes[at]))
    line.shape = replace(shape, dimensions=tuple(sizes))
    return True


def _rank(lines: list[Line], random: Random) -> bool:
    found = _some_array(lines, random)
    if found is None:
        return False
    line, shape = found
    sizes = shape.dimensions[:-1] if shape.rank and random.random() < 0.5 else (*shape.dimensions, 1)
    line.shape = ArrayShape(shape.element_type, sizes, (False,) * len(sizes), default_layout(len(sizes)))
    return True


def _type(lines: list[Line], random: Random) -> bool:
    found = _some_array(lines, random)
    if found is not None:
        found[0].shape = replace(found[1], element_type=random.choice(_TYPES))
    return found is not None


def _tuple(lines: list[Line], random: Random) -> bool:
    line = random.choice(lines)
    line.shape = TupleShape(random.choice(((line.shape,), (line.shape, line.shape), ())))
    return line.opcode not in ("constant", "parameter")


def _opcode(lines: list[Line], random: Random) -> bool:
    able = [(line, group) for line in lines for group in _OPCODES if line.opcode in group]
    if able:
        line, group = random.choice(able)
        line.opcode = random.choice(group)
    return bool(able)


def _operand(lines: list[Line], random: Random) -> bool:
    line = random.choice([line for line in lines if line.operands] or lines)
    before = lines[: lines.index(line)]
    if not line.operands:
        return False
    at = random.randrange(len(line.operands))
    others = [
        other for other in before if any(other is taken for taken, _ in line.operands) or other.opcode == "parameter"
    ]
    match random.randrange(3):
        case 0:
            line.operands[at] = (random.choice(others or before), "")
        case 1:
            del line.operands[at]
        case 2:
            line.operands.insert(at, (random.choice(others or before), ""))
    return True


def _number(lines: list[Line], random: Random) -> bool:
    able = [(line, n) for line in lines for n, (_, value) in enumerate(line.attributes) if re.search(r"\d", value)]
    if not able:
        return False
    line, at = random.choice(able)
    name, value = line.attributes[at]
    place = random.choice(list(re.finditer(r"\d+", value)))
    least = int(name.endswith("group_count"))  # for XLA's proto none is one
    number = random.choice((least, 1, int(place[0]) + 1, 9))
    line.attributes[at] = name, f"{value[: place.start()]}{number}{value[place.end() :]}"
    return True
