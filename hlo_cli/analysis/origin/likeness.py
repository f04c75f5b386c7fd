"""Likeness: instructions of one operation of the user's program, which compilers repeat by the hundred.

Unrolled layers, clones in several fusions, and rematerialization repeat an operation. Two instructions are alike if
their opcodes and the stems of their names are equal, and their operands and users come from the same places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

_COPIED: Final = re.compile(r"\.\.?(?:clone|remat|sunk)")
_NUMBER: Final = "0123456789."


class Surroundings(NamedTuple):
    """Where the operands of an instruction come from, in order, and its users, as a set; None where unknown."""

    operands: tuple[Hashable, ...]
    users: frozenset[Hashable]


def copied_name(name: str) -> str:
    """The name of the instruction that was cloned.

    >>> copied_name("add.12.clone.3"), copied_name("constant.1064..sunk.5"), copied_name("add.12")
    ('add.12', 'constant.1064', 'add.12')
    """
    found = _COPIED.search(name)
    return name[: found.start()] if found else name


def stem_of(name: str) -> str:
    """The name without the number that makes it unique: what the compiler named it after.

    >>> stem_of("convert_element_type.818.clone.1"), stem_of("fusion")
    ('convert_element_type', 'fusion')
    """
    return copied_name(name).rstrip(_NUMBER)


class Likeness:
    """Places of known instructions, to be found by those that are alike."""

    def __init__(self, wanted: Iterable[Instruction]) -> None:
        """Prepares for the instructions whose places are wanted; others are not kept."""
        self._kinds = {(stem_of(each.name), each.opcode) for each in wanted}
        self._found: dict[Hashable, tuple[Hashable, Instruction] | None] = {}

    def learn(self, known: Instruction, place: Hashable, surroundings: Callable[[Instruction], Surroundings]) -> None:
        """Takes an instruction whose place is known."""
        if (stem_of(known.name), known.opcode) not in self._kinds:
            return
        for key in _keys(known, surroundings(known)):
            first = self._found.setdefault(key, (place, known))
            if first is not None and first[0] != place:
                self._found[key] = None  # alike, and yet from two places

    def find(self, instruction: Instruction, surroundings: Surroundings, tiers: slice) -> Instruction | None:
        """A known instruction like this one, if all that are alike come from one place."""
        for key in list(_keys(instruction, surroundings))[tiers]:
            if (found := self._found.get(key)) is not None:
                return found[1]
        return None


def _keys(instruction: Instruction, surroundings: Surroundings) -> Iterator[Hashable]:
    """What instructions have in common that are alike, from the strictest."""
    stem, opcode = stem_of(instruction.name), instruction.opcode
    operands, users = surroundings
    shape = instruction.shape.to_string(layout=False)
    argument = instruction.raw[0] if opcode == opcodes.CONSTANT else ""
    yield "clone", copied_name(instruction.name), opcode
    yield stem, opcode, shape, argument, operands, users
    yield stem, opcode, operands, users
    yield stem, opcode, shape, operands, bool(operands)
    yield stem, opcode, shape, argument, users
