"""Which elements of a result somebody reads; those that nobody does are memory for the time of the call."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex


def unread_elements(made: Instruction, users: Users, leaves: Iterable[ShapeIndex]) -> frozenset[ShapeIndex]:
    """Of the leaves of a result those that no instruction reads, however they are taken out of it.

    What is handed on whole counts as read, and so does what the computation returns.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.users import users_of
    >>> text = '''ENTRY e { c = (f32[2], f32[4]) custom-call(), custom_call_target="f"
    ... ROOT g = f32[2] get-tuple-element(c), index=0 }'''
    >>> entry = parse_module(text).entry
    >>> unread_elements(entry.instructions[0], users_of(entry), ((0,), (1,)))
    frozenset({(1,)})
    """
    read = set(_read_parts(made, users))
    return frozenset(leaf for leaf in leaves if not any(leaf[:depth] in read for depth in range(len(leaf) + 1)))


def _read_parts(made: Instruction, users: Users) -> Iterable[ShapeIndex]:
    """The parts of a result that are read whole; they may hold each other."""
    waiting: list[tuple[Instruction, ShapeIndex]] = [(made, ())]
    while waiting:
        value, index = waiting.pop()
        if value.is_root:
            yield index
        for user in users.get(value, ()):
            for taken in _taken(user, value):
                part = user.integer("index") if user.opcode == opcodes.GET_TUPLE_ELEMENT else None
                if part is None:
                    yield (*index, *taken)
                else:
                    waiting.append((user, (*index, *taken, part)))


def _taken(user: Instruction, value: Instruction) -> set[ShapeIndex]:
    """The elements of a value that a user takes directly, as `%t#0` says; () where it takes the whole."""
    places = user.computation.operand_indices.get(user.index)
    if places is None:
        return {()}
    return {place for operand, place in zip(user.operands, places, strict=True) if operand is value}
