"""Plants changes in the text of modules: opcodes, operands, constants, directions, slices, dimensions, and elements.

Some are of a part of an array only, or drop an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

_OPCODES = {
    "add": "subtract", "subtract": "add", "multiply": "add", "divide": "multiply", "maximum": "minimum",
    "minimum": "maximum", "and": "or", "or": "and", "sine": "cosine", "cosine": "sine", "exponential": "tanh",
    "tanh": "negate", "negate": "abs", "rsqrt": "sqrt", "floor": "ceil", "log": "exponential", "xor": "or",
    "shift-left": "shift-right-logical", "shift-right-logical": "shift-left",
}  # fmt: skip
_DIRECTIONS = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT", "EQ": "NE", "NE": "EQ"}
_ORDERED = ("subtract", "divide", "power", "remainder", "atan2")
_LINE = re.compile(
    r"(?P<front>\s*(?:ROOT )?%?)(?P<name>[\w.\-]+) = (?P<shape>.*?) (?P<opcode>[a-z][a-z0-9\-]*)"
    r"\((?P<operands>(?:[^()]|\([^()]*\))*)\)(?P<rest>.*)"
)
_DIMENSIONS = re.compile(r"(?<=, )dimensions=\{([\d,]+)\}")


@dataclass(frozen=True, slots=True)
class Planted:
    """A changed text, and the kind and the instruction of the change."""

    kind: str
    name: str
    text: str


def planted(text: str, random: Random, *, with_parts: bool = False) -> Iterator[Planted]:
    """Texts with one change each, of each kind in turn; many of them are not valid, or compute the same.

    With `with_parts`, also those that change the half of an array beside large values, and that drop an instruction.
    """
    lines = text.split("\n")
    kinds: dict[str, list[tuple[str, int, str]]] = {}
    for at, line in enumerate(lines):
        if (match := _LINE.fullmatch(line)) is not None:
            for kind, changed in (*_changes(match), *(_changes_of_parts(match) if with_parts else ())):
                if changed != line:
                    kinds.setdefault(kind, []).append((match["name"], at, changed))
    for each in kinds.values():
        random.shuffle(each)
    while kinds:
        for kind in list(kinds):
            name, at, changed = kinds[kind].pop()
            if not kinds[kind]:
                del kinds[kind]
            yield Planted(kind, name, "\n".join((*lines[:at], changed, *lines[at + 1 :])))


def _changes(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    opcode, operands, rest = match["opcode"], match["operands"], match["rest"]
    if opcode in _OPCODES:
        yield "opcode", _line(match, opcode=_OPCODES[opcode])
    if opcode in _ORDERED and len(parts := operands.split(", ")) == 2:
        yield "operands", _line(match, operands=f"{parts[1]}, {parts[0]}")
    if direction := re.search(r"direction=(\w\w)", rest):
        yield "direction", _line(match, rest=rest.replace(direction[0], f"direction={_DIRECTIONS[direction[1]]}", 1))
    if opcode == "constant" and re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", operands):
        is_whole = re.fullmatch(r"-?\d+", operands) and not match["shape"].startswith(("f", "bf"))
        yield "constant", _line(match, operands=str(int(operands) + 1 if is_whole else float(operands) * 1.5 + 0.25))
    if opcode == "get-tuple-element" and (index := re.search(r"index=(\d+)", rest)):
        for other in (int(index[1]) + 1, int(index[1]) - 1):
            yield "element", _line(match, rest=rest.replace(index[0], f"index={other}", 1))
    if opcode == "slice" and (taken := re.search(r"\[(\d+):(\d+)", rest)) and int(taken[1]):
        yield "slice", _line(match, rest=rest.replace(taken[0], f"[{int(taken[1]) - 1}:{int(taken[2]) - 1}", 1))
    if opcode == "iota" and (along := re.search(r"iota_dimension=(\d+)", rest)):
        yield "dimensions", _line(match, rest=rest.replace(along[0], f"iota_dimension={1 - int(along[1])}", 1))
    if opcode in ("broadcast", "reduce", "reverse", "transpose") and (listed := _DIMENSIONS.search(rest)):
        numbers = [int(each) for each in listed[1].split(",")]
        others = numbers[::-1] if len(numbers) > 1 else [1 - numbers[0]]
        written = ",".join(map(str, others))
        yield "dimensions", _line(match, rest=rest.replace(listed[0], f"dimensions={{{written}}}", 1))


def _changes_of_parts(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    """The second half of the first dimension computed by another opcode, and a copy instead of the instruction."""
    opcode, operands, name, shape = match["opcode"], match["operands"], match["name"], match["shape"]
    sizes = re.fullmatch(r"\w+\[(\d+)([\d,]*)\](\{[\d,]*\})?", shape)
    if opcode in _OPCODES and operands.startswith("%"):
        yield "dropped", _line(match, opcode="copy", operands=operands.split(", ")[0])
    if opcode not in _OPCODES or sizes is None or int(sizes[1]) < 2 or shape.startswith("pred"):
        return
    places = shape.replace(shape.split("[")[0], "s32", 1), shape.replace(shape.split("[")[0], "pred", 1)
    root = "ROOT " if "ROOT" in match["front"] else ""
    yield (
        "part",
        "\n".join(
            (
                f"  %planted.own = {shape} {opcode}({operands})",
                f"  %planted.other = {shape} {_OPCODES[opcode]}({operands})",
                f"  %planted.place = {places[0]} iota(), iota_dimension=0",
                f"  %planted.half = s32[] constant({int(sizes[1]) // 2})",
                f"  %planted.bound = {places[0]} broadcast(%planted.half), dimensions={{}}",
                f"  %planted.left = {places[1]} compare(%planted.place, %planted.bound), direction=LT",
                f"  {root}%{name} = {shape} select(%planted.left, %planted.own, %planted.other)",
            )
        ),
    )


def _line(match: re.Match[str], *, opcode: str = "", operands: str | None = None, rest: str | None = None) -> str:
    given = match["operands"] if operands is None else operands
    after = match["rest"] if rest is None else rest
    return f"{match['front']}{match['name']} = {match['shape']} {opcode or match['opcode']}({given}){after}"
