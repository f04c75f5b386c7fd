"""Modules edited at random, with the differences that a comparison should find: for tests and measurements.

A `Draft` is a module's text taken apart just as far as needed to rename, reorder and edit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Tile
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.ir.shape import ArrayShape, Shape

_LIKE = (
    ("add", "subtract", "multiply", "maximum", "minimum"),
    ("abs", "negate", "exponential", "tanh", "sqrt", "rsqrt"),
)
"""Opcodes that one can put in place of each other."""
_NAME = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*)")


@dataclass(eq=False)
class Line:
    """One instruction of a draft; `operands` are the lines whose values it takes, with the elements taken."""

    name: str
    shape: Shape
    opcode: str
    operands: list[tuple[Line, str]]
    argument: str
    attributes: list[tuple[str, str]]
    is_root: bool

    def text(self, renamed: dict[str, str]) -> str:
        """The line, its own name and all others replaced where the mapping says so."""
        taken = self.argument or ", ".join(f"%{renamed.get(o.name, o.name)}{e}" for o, e in self.operands)
        attributes = "".join(f", {name}={_renamed(name, value, renamed)}" for name, value in self.attributes)
        root = "ROOT " if self.is_root else ""
        return f"  {root}%{renamed.get(self.name, self.name)} = {self.shape} {self.opcode}({taken}){attributes}"


def _renamed(name: str, value: str, renamed: dict[str, str]) -> str:
    if name not in NAMING_ATTRIBUTES:
        return value
    return _NAME.sub(lambda match: f"%{renamed.get(match[1], match[1])}", value)


@dataclass
class Expected:
    """What a comparison should find, by names: those of the original for what changed, those of the draft for what is new."""

    changed: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many edits there are."""
        return len(self.changed) + len(self.added) + len(self.removed)


class Draft:
    """A module as lines that can be edited; `expected` says what the edits so far should be reported as."""

    def __init__(self, module: Module) -> None:
        self.header = ", ".join((f"HloModule {module.name}", *map(str, module.header)))
        self.tables = module.stack_tables
        self.expected = Expected()
        self.computations: list[tuple[str, str, list[Line]]] = []
        for computation in module.computations:
            lines: dict[Instruction, Line] = {}
            for i in computation.instructions:
                lines[i] = _line(i, lines)
            head = f"{'ENTRY ' if computation.is_entry else ''}%"
            thread = computation.execution_thread
            end = "}" if thread == "main" else f'}}, execution_thread="{thread}"'
            self.computations.append((f"{head}\0{computation.name}\0{end}", computation.name, list(lines.values())))

    def text(self, renamed: dict[str, str] | None = None) -> str:
        """The module's text, with other names where the mapping says so."""
        names = renamed or {}
        parts = [self.header, *([self.tables] if self.tables else ())]
        for form, name, lines in self.computations:
            head, _, end = form.split("\0")
            parts.append("\n".join((f"{head}{names.get(name, name)} {{", *(line.text(names) for line in lines), end)))
        return "\n\n".join(parts) + "\n"

    def names(self, random: Random) -> dict[str, str]:
        """New names for everything that has one."""
        old = [name for _, name, _ in self.computations] + [line.name for line in self.lines()]
        numbers = random.sample(range(10 * len(old)), len(old))
        return {name: f"n.{number}" for name, number in zip(dict.fromkeys(old), numbers, strict=False)}

    def lines(self) -> Iterator[Line]:
        """All instructions."""
        for _, _, lines in self.computations:
            yield from lines

    def shuffle(self, random: Random) -> None:
        """Another order of each computation's lines in which operands still come first; computations stay."""
        for _, _, lines in self.computations:
            lines[:] = _in_random_order(lines, random)

    def edit(self, random: Random, kinds: tuple[str, ...] = ("layout", "attribute", "copy", "drop")) -> bool:
        """One edit of a random instruction, recorded in `expected`; whether there was one to make."""
        edits: dict[str, Callable[[Random, list[Line], Line], bool]] = {
            "layout": self._change_layout,
            "attribute": self._change_attribute,
            "copy": self._insert_copy,
            "drop": self._drop,
            "opcode": self._replace,
        }
        everything = [(lines, line) for _, _, lines in self.computations for line in lines]
        kind = random.choice(kinds)
        for lines, line in random.sample(everything, min(200, len(everything))):
            fresh = line.name not in self.expected.changed | self.expected.added
            if fresh and edits[kind](random, lines, line):
                return True
        return False

    def _change_layout(self, random: Random, _: list[Line], line: Line) -> bool:
        if not isinstance(line.shape, ArrayShape):
            return False
        layout = line.shape.layout
        ways = [replace(layout, memory_space=layout.memory_space ^ 1)]
        if len(layout.minor_to_major) > 1:
            order = (*layout.minor_to_major[1:], layout.minor_to_major[0])
            ways += [replace(layout, minor_to_major=order), replace(layout, tiles=(Tile((4, 64)),))]
        line.shape = replace(line.shape, layout=random.choice(ways))
        self.expected.changed.add(line.name)
        return True

    def _change_attribute(self, random: Random, _: list[Line], line: Line) -> bool:
        able = [n for n, (name, value) in enumerate(line.attributes) if _is_able(name, value)]
        if not able:
            return False
        at = random.choice(able)
        name, value = line.attributes[at]
        place = random.choice(list(re.finditer(r"[0-9]", value)))
        digit = random.choice([d for d in "123456789" if d != place[0]])
        line.attributes[at] = name, value[: place.start()] + digit + value[place.end() :]
        self.expected.changed.add(line.name)
        return True

    def _replace(self, random: Random, _: list[Line], line: Line) -> bool:
        others = next((each for each in _LIKE if line.opcode in each), ())
        if not others or not isinstance(line.shape, ArrayShape) or line.shape.element_type.name == "pred":
            return False
        line.opcode = random.choice([opcode for opcode in others if opcode != line.opcode])
        self.expected.changed.add(line.name)
        return True

    def _insert_copy(self, random: Random, lines: list[Line], line: Line) -> bool:
        slots = [n for n, (o, e) in enumerate(line.operands) if isinstance(o.shape, ArrayShape) and not e]
        if not slots:
            return False
        slot = random.choice(slots)
        operand = line.operands[slot][0]
        copy = Line(f"inserted.{len(self.expected.added)}", operand.shape, "copy", [(operand, "")], "", [], False)
        line.operands[slot] = copy, ""
        lines.insert(lines.index(line), copy)
        self.expected.added.add(copy.name)
        return True

    def _drop(self, random: Random, lines: list[Line], line: Line) -> bool:
        sources = [o for o, e in line.operands if o.shape.to_string(layout=False) == line.shape.to_string(layout=False)]
        named = any(
            line.name in value for other in lines for name, value in other.attributes if name in NAMING_ATTRIBUTES
        )
        if line.is_root or not sources or named or line.opcode == "parameter":
            return False
        source = random.choice(sources)
        if source.name in self.expected.added:
            return False
        for other in lines:
            other.operands = [(source, e) if o is line else (o, e) for o, e in other.operands]
        lines.remove(line)
        self.expected.removed.add(line.name)
        return True


def _is_able(name: str, value: str) -> bool:
    return (
        name not in (*NAMING_ATTRIBUTES, "metadata", "index", "frontend_attributes")
        and re.search(r"[0-9]", value) is not None
    )


def _line(i: Instruction, lines: dict[Instruction, Line]) -> Line:
    operands = [(lines[o], "".join(f"#{n}" for n in i.operand_index(k))) for k, o in enumerate(i.operands)]
    attributes = [(a.name, a.value) for a in i.attributes]
    return Line(i.name, i.shape, i.opcode, operands, i.raw[0], attributes, i.is_root)


def _in_random_order(lines: list[Line], random: Random) -> list[Line]:
    named = {line.name: line for line in lines}
    before = {
        id(line): [
            *(o for o, _ in line.operands),
            *(named[n] for name, v in line.attributes if name == "control-predecessors" for n in _NAME.findall(v)),
        ]
        for line in lines
    }
    waits = {id(line): len(before[id(line)]) for line in lines}
    users: dict[int, list[Line]] = {}
    for line in lines:
        for operand in before[id(line)]:
            users.setdefault(id(operand), []).append(line)
    ready, order = [line for line in lines if not waits[id(line)]], []
    while ready:
        at = random.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        order.append(line := ready.pop())
        for user in users.get(id(line), ()):
            waits[id(user)] -= 1
            if not waits[id(user)]:
                ready.append(user)
    return order
