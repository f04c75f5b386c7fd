"""Likeness: instructions of one operation of the user's program, which compilers repeat by the hundred.

Unrolled layers, clones in several fusions, and rematerialization repeat an operation. Two instructions are alike if
their opcodes and the stems of their names are equal, and their operands and users come from the same places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

_COPIED: Final = re.compile(r"\.\.?(?:clone|remat|sunk)")
_NUMBER: Final = "0123456789."
_KEYS: Final = 5


Place: TypeAlias = tuple[str, ...]
"""A source location, and possibly a scope."""


_Signature: TypeAlias = tuple[str, str, int, int, bool, bool]
"""Shape, value of a constant, numbers of the places of operands and of users, and whether any are known."""


class Surroundings(NamedTuple):
    """Where the operands of an instruction come from, in order, and its users, as a set; None where unknown."""

    operands: tuple[Place | None, ...]
    users: frozenset[Place]


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
    """Known instructions, to be found by those that are alike; each kind is compared when it is first asked for."""

    def __init__(
        self,
        known: Iterable[Instruction],
        place: Callable[[Instruction], Hashable],
        surroundings: Callable[[Instruction], Surroundings],
    ) -> None:
        """Takes the instructions whose places are known, their places, and the surroundings of all."""
        self._known: dict[str, list[Instruction]] = {}
        for each in known:
            self._known.setdefault(each.opcode, []).append(each)
        self._place = place
        self._surroundings = surroundings
        self._signatures: dict[Instruction, _Signature] = {}
        self._numbers: dict[Hashable, int] = {}
        self._stems: dict[tuple[str, str], list[Instruction]] = {}
        self._found: dict[Hashable, dict[Hashable, list[Instruction]]] = {}

    def find(self, instruction: Instruction, keys: Sequence[int] = range(_KEYS)) -> Sequence[Instruction]:
        """The known instructions like this one by the first of some keys, if all that are come from one place."""
        stem = instruction.opcode, stem_of(instruction.name)
        known = self._of_stem(stem)
        for number in keys if known else ():
            if (key := self._key(number, instruction)) is not None:
                if (found := self._found.get((number, stem))) is None:
                    found = self._found[number, stem] = self._compared(number, known)
                if alike := found.get(key):
                    return alike
        return ()

    def _compared(self, number: int, known: Iterable[Instruction]) -> dict[Hashable, list[Instruction]]:
        """Instructions by a key; none for a key that instructions from two places have."""
        found: dict[Hashable, list[Instruction]] = {}
        for each in known:
            if (key := self._key(number, each)) is None:
                continue
            if (alike := found.get(key)) is None:
                found[key] = [each]
            elif alike and self._place(alike[0]) == self._place(each):
                alike.append(each)
            else:
                alike.clear()  # alike, and yet from two places
        return found

    def _key(self, number: int, instruction: Instruction) -> Hashable | None:
        if number == 0:
            return copied_name(instruction.name)
        if (signature := self._signatures.get(instruction)) is None:
            shape = instruction.shape.to_string(layout=False)
            argument = instruction.raw[0] if instruction.opcode == opcodes.CONSTANT else ""
            operands, users = self._surroundings(instruction)
            has_operands = any(each is not None for each in operands)
            signature = shape, argument, self._number(operands), self._number(users), has_operands, bool(users)
            self._signatures[instruction] = signature
        return _key(number, signature)

    def _number(self, near: Hashable) -> int:
        """A number for what is near, which is faster to compare."""
        return self._numbers.setdefault(near, len(self._numbers))

    def _of_stem(self, stem: tuple[str, str]) -> list[Instruction]:
        """The known instructions with an opcode and a stem, compared when they are first asked for."""
        for each in self._known.pop(stem[0], ()):
            self._stems.setdefault((each.opcode, stem_of(each.name)), []).append(each)
        return self._stems.get(stem, [])


def _key(number: int, signature: _Signature) -> Hashable | None:
    """What instructions of one opcode and stem have in common that are alike, from the strictest at number 0."""
    shape, argument, operands, users, has_operands, has_users = signature
    match number:
        case 1 if has_operands or has_users:
            return shape, argument, operands, users
        case 2 if has_operands or has_users:
            return operands, users
        case 3 if has_operands:
            return shape, operands
        case 4 if has_users or argument:
            return shape, argument, users
        case _:
            return None
