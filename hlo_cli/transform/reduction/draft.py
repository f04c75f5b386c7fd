"""A module that a reducer may edit: its lines as values, from which a text is made that any reader of HLO takes.

Instructions refer to each other by name, and nothing is resolved: an edit may leave a line without its operands, which
the strict reader then refuses. So edits are short, and what is valid is decided in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, header_attributes_with
from hlo_cli.ir.shape import Shape, annotate_indices

OF_THE_WHOLE: Final = header_attributes_with("of the whole")
"""Header attributes that list the parameters or results of the entry: they do not survive a change of these."""
_NAME: Final = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*+)")


# --- the lines ---


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction: operands by name, with the element that is used of a tuple (`t#0`), and attributes as text.

    `argument` is the literal of a constant; the number of a parameter is its place among the parameters.
    """

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    argument: str = ""
    called: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the operands."""
        return tuple(operand.partition("#")[0] for operand in self.operands)

    @property
    def is_parameter(self) -> bool:
        return self.opcode == opcodes.PARAMETER

    def without(self, names: Collection[str]) -> Line:
        """The line without the attributes of these names."""
        return replace(self, attributes=tuple(each for each in self.attributes if each.name not in names))

    def to_string(self, number: int) -> str:
        """The line as text, without ROOT; `number` is that of a parameter."""
        taken = str(number) if self.is_parameter else self.argument
        taken = taken or annotate_indices([f"%{operand}" for operand in self.operands])
        attributes = "".join(f", {attribute}" for attribute in self.attributes)
        return f"%{self.name} = {self.shape} {self.opcode}({taken}){attributes}"


@dataclass(frozen=True, slots=True)
class Body:
    """A computation: its lines in the order of the text, and the name of its root."""

    name: str
    lines: tuple[Line, ...]
    root: str
    thread: str = "main"

    def __getitem__(self, name: str) -> Line:
        return next(line for line in self.lines if line.name == name)

    @property
    def parameters(self) -> tuple[Line, ...]:
        """The parameters, by number."""
        return tuple(line for line in self.lines if line.is_parameter)

    def cone(self, name: str) -> frozenset[str]:
        """The names of all that a value depends on, itself included.

            >>> from hlo_cli import TokenShape
        >>> one, two = Line("a", TokenShape(), "after-all"), Line("b", TokenShape(), "after-all")
            >>> sorted(Body("e", (one, two), "b").cone("b"))
            ['b']
        """
        needed = {name}
        for line in reversed(self.lines):
            if line.name in needed:
                needed.update(line.used)
        return frozenset(needed)

    def replaced(self, lines: Mapping[str, Line | None]) -> Body:
        """The body with other lines at the places of those of these names; None removes one."""
        changed = (lines.get(line.name, line) for line in self.lines)
        return replace(self, lines=tuple(line for line in changed if line is not None))

    def redirected(self, names: Mapping[str, str]) -> Body:
        """The body in which other values are used instead of those of these names."""
        lines = tuple(replace(line, operands=tuple(_instead(o, names) for o in line.operands)) for line in self.lines)
        return replace(self, lines=lines, root=names.get(self.root, self.root))

    def chunks(self, *, is_entry: bool) -> Iterator[str]:
        """The text of the body, line by line."""
        ends = "".join(f"{p.name}: {p.shape.to_string(layout=False)}, " for p in self.parameters)[:-2]
        result = self[self.root].shape.to_string(layout=False)
        yield f"{'ENTRY ' if is_entry else ''}%{self.name} ({ends}) -> {result} {{\n"
        number = 0
        for line in self.lines:
            yield f"  {'ROOT ' if line.name == self.root else ''}{line.to_string(number)}\n"
            number += line.is_parameter
        yield "}" + ("" if self.thread == "main" else f', execution_thread="{self.thread}"') + "\n\n"


def _instead(operand: str, names: Mapping[str, str]) -> str:
    name, mark, index = operand.partition("#")
    return names.get(name, name) + mark + index


@dataclass(frozen=True, slots=True)
class Draft:
    """A module as lines; the last of `bodies` is the entry, and each stands before those that call it."""

    name: str
    bodies: tuple[Body, ...]
    header: tuple[Attribute, ...] = ()
    tables: str = ""

    @property
    def entry(self) -> Body:
        return self.bodies[-1]

    @property
    def size(self) -> int:
        """The number of instructions of all computations."""
        return sum(len(body.lines) for body in self.bodies)

    def __getitem__(self, name: str) -> Body:
        return next(body for body in self.bodies if body.name == name)

    def with_body(self, body: Body) -> Draft:
        """The draft with another body of the same name, and without what nothing uses any more."""
        changed = tuple(body if each.name == body.name else each for each in self.bodies)
        return replace(self, bodies=changed).pruned()

    def with_entry(self, entry: Body) -> Draft:
        """The draft with another entry, and a header that does not describe the parameters and results of the old."""
        # Aliases and layouts by number would be those of other parameters.
        header = tuple(each for each in self.header if each.name not in OF_THE_WHOLE)
        return replace(self, bodies=(*self.bodies[:-1], entry), header=header).pruned()

    def mapped(self, change: Callable[[Line], Line]) -> Draft:
        """The draft with every line changed."""
        bodies = tuple(replace(body, lines=tuple(map(change, body.lines))) for body in self.bodies)
        return replace(self, bodies=bodies)

    def pruned(self) -> Draft:
        """The draft without values that no result depends on, and without computations that nothing calls.

        Parameters stay: callers give a value for each. Those of the entry that nothing uses are removed by a step of
        their own, as another module of a pair may use them.
        """
        bodies = {body.name: _pruned(body) for body in self.bodies}
        reached = {self.entry.name}
        for body in reversed(self.bodies):
            if body.name in reached:
                reached.update(name for line in bodies[body.name].lines for name in line.called)
        return replace(self, bodies=tuple(bodies[body.name] for body in self.bodies if body.name in reached))

    def to_string(self) -> str:
        """The module as HLO text.

        >>> from hlo_cli import parse_module
        >>> text = "HloModule m  ENTRY e { p = f32[2]{0} parameter(0)  q = f32[2]{0} negate(p)  ROOT r = copy(q) }"
        >>> print(draft_of(parse_module(text)).to_string().rstrip())
        HloModule m
        <BLANKLINE>
        ENTRY %e (p: f32[2]) -> f32[2] {
          %p = f32[2]{0} parameter(0)
          %q = f32[2]{0} negate(%p)
          ROOT %r = f32[2]{0} copy(%q)
        }
        """
        head = ", ".join((f"HloModule {self.name}", *map(str, self.header))) + "\n\n"
        tables = f"{self.tables}\n\n\n" if self.tables else ""
        last = len(self.bodies) - 1
        bodies = ("".join(body.chunks(is_entry=at == last)) for at, body in enumerate(self.bodies))
        return head + tables + "".join(bodies)


def _pruned(body: Body) -> Body:
    needed = {body.root}
    kept: list[Line] = []
    for line in reversed(body.lines):
        # An effect on a host or on other devices may be what fails; a token orders it.
        if line.name in needed or line.is_parameter or "has_side_effect" in {each.name for each in line.attributes}:
            needed.update(line.used)
            kept.append(line)
    if len(kept) == len(body.lines):
        return body
    names = {line.name for line in kept}
    return replace(body, lines=tuple(_ordered(line, names) for line in reversed(kept)))


def _ordered(line: Line, names: Collection[str]) -> Line:
    """The line without control predecessors that are not there any more."""
    found = next((each for each in line.attributes if each.name == CONTROL_PREDECESSORS), None)
    if found is None:
        return line
    left = [name for name in _NAME.findall(found.value) if name in names]
    value = "{" + ", ".join(f"%{name}" for name in left) + "}"
    if not left:
        return line.without((CONTROL_PREDECESSORS,))
    return replace(
        line, attributes=tuple(Attribute(each.name, value) if each is found else each for each in line.attributes)
    )


# --- from a module ---


def draft_of(module: Module) -> Draft:
    """The lines of a module; parameters stand first in each computation, in the order of their numbers."""
    bodies = [_body(computation) for computation in module.computations if computation is not module.entry]
    order = callees_first({body.name: body for body in bodies})
    return Draft(module.name, (*order, _body(module.entry)), tuple(module.header), module.stack_tables).pruned()


def callees_first(bodies: Mapping[str, Body]) -> tuple[Body, ...]:
    """Bodies before those that call them, however the text has them."""
    ordered: dict[str, Body] = {}
    for start in bodies:
        stack = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                ordered[name] = bodies[name]
            elif name in bodies and name not in ordered:
                stack.append((name, True))
                stack += [(called, False) for line in bodies[name].lines for called in line.called]
    return tuple(ordered.values())


def _body(computation: Computation) -> Body:
    parameters = computation.parameters
    # Dumps have parameters anywhere; new ones are then added at one place.
    others = (each for each in computation.instructions if each.parameter_number is None)
    root = computation.root or computation.instructions[-1]
    lines = tuple(_line(each) for each in (*parameters, *others))
    return Body(computation.name, lines, root.name, computation.execution_thread)


def _line(instruction: Instruction) -> Line:
    operands = tuple(
        operand.name + "".join(f"#{at}" for at in instruction.operand_index(position))
        for position, operand in enumerate(instruction.operands)
    )
    text = instruction.text
    return Line(
        instruction.name,
        instruction.shape,
        instruction.written_opcode,
        operands,
        tuple(Attribute(each.name, each.value) for each in text.attributes),
        "" if instruction.opcode == opcodes.PARAMETER else text.argument,
        tuple(called.name for called in instruction.called_computations),
    )


# --- edits that several steps need ---


def as_parameters(body: Body, names: Collection[str]) -> Body:
    """The body with parameters instead of the values of these names, after the parameters that it has.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[] parameter(0)  q = f32[] negate(p)  ROOT r = f32[] copy(q) }"
    >>> print("".join(as_parameters(draft_of(parse_module(text)).entry, {"q"}).chunks(is_entry=True)).rstrip())
    ENTRY %e (p: f32[], q: f32[]) -> f32[] {
      %p = f32[] parameter(0)
      %q = f32[] parameter(1)
      ROOT %r = f32[] copy(%q)
    }
    """
    changed = [Line(each.name, each.shape, opcodes.PARAMETER) if each.name in names else each for each in body.lines]
    return replace(body, lines=parameters_first(changed))


def parameters_first(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines with all parameters before the others, in their order."""
    found = tuple(lines)
    return (*(line for line in found if line.is_parameter), *(line for line in found if not line.is_parameter))


def inlined(body: Body, caller: Line, callee: Body, arguments: tuple[str, ...]) -> Body:
    """The body in which a line is replaced by the lines of a computation that it calls.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = f32[] parameter(0)  ROOT b = f32[] negate(a) }
    ... ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f }'''
    >>> draft = draft_of(parse_module(text))
    >>> [line.name for line in inlined(draft.entry, draft.entry["r"], draft["f"], ("p",)).lines]
    ['p', 'b']
    """
    taken = {line.name for line in body.lines}
    numbers: dict[str, int] = {}
    names = dict(zip((each.name for each in callee.parameters), arguments, strict=True))
    new: list[Line] = []
    for line in callee.lines:
        if line.is_parameter:
            continue
        name = free_name(line.name, taken, numbers)
        taken.add(name)
        # Names are unique in a computation only, so those of the callee may be taken in the caller.
        operands = tuple(_composed(operand, names) for operand in line.operands)
        new.append(replace(line.without((CONTROL_PREDECESSORS,)), name=name, operands=operands))
        names[line.name] = name
    at = body.lines.index(caller)
    lines = (*body.lines[:at], *new, *body.lines[at + 1 :])
    root, mark, _ = names[callee.root].partition("#")
    if mark:  # an element of an argument has no line of its own
        return body
    return replace(body, lines=lines).redirected({caller.name: root})


def _composed(operand: str, names: Mapping[str, str]) -> str:
    """The argument for an operand in a called computation; an element of an element keeps both indices."""
    name, mark, index = operand.partition("#")
    return names.get(name, name) + mark + index


def entering(name: str, draft: Draft) -> Draft:
    """The draft whose entry is a computation that the old entry calls.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { ROOT a = f32[] parameter(0) }
    ... ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f }'''
    >>> [body.name for body in entering("f", draft_of(parse_module(text))).bodies]
    ['f']
    """
    names = [body.name for body in draft.bodies]
    entry = replace(draft[name], thread="main")
    return replace(draft, bodies=(*draft.bodies[: names.index(name)], entry)).with_entry(entry)
