"""Uses of a value at all its places: through forwarding instructions, tuples, and called computations.

Mirrors `HloValue::GetUses` of xla/service/hlo_value.cc, without uses that only forward the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.positions import Positions
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ShapeIndex

NO_USE: Final = frozenset((opcodes.TUPLE, opcodes.DOMAIN))
"""Opcodes that do not use their operands, unless the result is the root."""

TOP_ONLY: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.COPY))
"""Opcodes that use only the table of an operand tuple."""


class FirstUsers(NamedTuple):
    """The number of the instructions that use a value, and the first of them."""

    number: int
    first: tuple[Instruction, ...]


_NO_USERS: Final = FirstUsers(0, ())


def value_at(dataflow: Dataflow, instruction: Instruction, index: ShapeIndex) -> int | None:
    """Returns the value at an index of an instruction's result; None if there is no such place.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> facts = order_independent_facts(parse_module("ENTRY e { p = f32[] parameter(0)  ROOT t = (f32[]) tuple(p) }"))
    >>> value_at(facts.dataflow, facts.module.entry.root, (0,)), value_at(facts.dataflow, facts.module.entry.root, (1,))
    (0, None)
    """
    places = dataflow.places
    if instruction.computation not in places.base:
        return None
    ordinal = places.parts(instruction).ordinals.get(index)
    return None if ordinal is None else dataflow.value[places.first_of(instruction) + ordinal]


def uses_of_value(dataflow: Dataflow, value: int) -> tuple[Instruction, ...]:
    """Returns the instructions that use a value, in the order of the text.

    Forwarding instructions do not count, except the root of the computation that defines the value.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[] parameter(0)  q = f32[] parameter(1)  t = (f32[], f32[]) tuple(p, q)
    ...   a = f32[] get-tuple-element(t), index=0  b = f32[] get-tuple-element(t), index=1
    ...   c = f32[] negate(a)  ROOT d = f32[] add(b, c) }'''
    >>> dataflow = order_independent_facts(parse_module(text)).dataflow
    >>> [uses_of_value(dataflow, value) for value in dataflow.values[:2]]
    [(<negate c>,), (<add d>,)]
    """
    places, at, found = dataflow.places, dataflow.value, dict[int, Instruction]()
    holders = {places.owner[place] for place, value_there in enumerate(at) if value_there == value}
    defined_in = places.instructions[places.owner[value]].computation
    inside = dict.fromkeys(places.instructions[number].computation for number in holders)
    for computation in inside:
        for number, user in enumerate(computation.instructions, places.base[computation]):
            is_result = user is computation.root and computation is defined_in
            if not is_result and (number in holders or user.opcode in NO_USE):
                continue
            if any(_uses(dataflow, user, n, value) for n in range(len(user.operands))):
                found[number] = user
    return tuple(found[number] for number in sorted(found))


def first_users(dataflow: Dataflow, order: Iterable[Instruction], most: int) -> dict[int, FirstUsers]:
    """Returns the users of every value among the instructions in `order`: their number, and the first `most` of them.

    The users are those of `uses_of_value`, found in one pass over the module; values without users have no entry.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> module = parse_module("ENTRY e { p = f32[] parameter(0)  a = f32[] add(p, p)  ROOT b = f32[] add(a, p) }")
    >>> first_users(order_independent_facts(module).dataflow, module.entry.instructions, 1)
    {0: FirstUsers(number=2, first=(<add a>,)), 1: FirstUsers(number=1, first=(<add b>,))}
    """
    at, places, found = dataflow.value, dataflow.places, dict[int, FirstUsers]()
    for user in order:
        is_root = user is user.computation.root
        if not user.operands or (user.opcode in NO_USE and not is_root):
            continue
        used = {
            value for position in range(len(user.operands)) for value in at[_operand_places(places, user, position)]
        }
        held = at[places.first_of(user) : places.first[places.number(user) + 1]]
        used -= {value for value in held if not (is_root and _is_defined_in(places, value, user.computation))}
        if user.opcode in NO_USE:
            used = {value for value in used if _is_defined_in(places, value, user.computation)}
        for value in used:
            number, first = found.get(value, _NO_USERS)
            found[value] = FirstUsers(number + 1, (*first, user) if number < most else first)
    return found


def _is_defined_in(places: Positions, value: int, computation: Computation) -> bool:
    """Returns whether a value is defined by an instruction of a computation."""
    return places.instructions[places.owner[value]].computation is computation


def _uses(dataflow: Dataflow, user: Instruction, position: int, value: int) -> bool:
    """Returns whether an instruction uses the value in its operand at a position."""
    return value in dataflow.value[_operand_places(dataflow.places, user, position)]


def _operand_places(places: Positions, user: Instruction, position: int) -> slice:
    """Returns the places of an operand that its user reads."""
    place = places.operand_place(user, position)
    end = place + 1 if user.opcode in TOP_ONLY else places.first[places.number(user.operands[position]) + 1]
    return slice(place, end)
