"""Likeness: instructions of one operation of the user's program, which compilers repeat by the hundred.

Unrolled layers, clones in several fusions, and rematerialization repeat an operation. Two instructions are alike if
their opcodes and the stems of their names are equal, and their operands and users come from the same places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

_COPIED: Final = re.compile(r"\.\.?(?:clone|remat|sunk)")
_NUMBER: Final = "0123456789."
_ALL_TIERS: Final = slice(0, None)


Place: TypeAlias = tuple[str, ...]
"""A source location, and possibly a scope."""


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

    def __init__(self, known: Iterable[Instruction]) -> None:
        """Takes the instructions whose places are known."""
        self._known: dict[str, list[Instruction]] = {}
        for each in known:
            self._known.setdefault(each.opcode, []).append(each)
        self._stems: dict[tuple[str, str], list[Instruction]] = {}
        self._found: dict[Hashable, tuple[Hashable, dict[str, Instruction], dict[str, int]] | None] = {}

    def find(
        self,
        instruction: Instruction,
        place: Callable[[Instruction], Hashable],
        layer: Callable[[Instruction], str],
        surroundings: Callable[[Instruction], Surroundings],
        tiers: slice = _ALL_TIERS,
    ) -> Mapping[str, Instruction]:
        """A known instruction like this one of each layer, the most frequent first, if all come from one place."""
        for known in self._not_yet_compared(instruction):
            for key in filter(None, _keys(known, surroundings(known))):
                if key not in self._found:
                    self._found[key] = (place(known), {layer(known): known}, {layer(known): 1})
                elif (first := self._found[key]) is not None and first[0] == place(known):
                    first[1].setdefault(layer(known), known)
                    first[2][layer(known)] = first[2].get(layer(known), 0) + 1
                else:
                    self._found[key] = None  # alike, and yet from two places
        for key in _keys(instruction, surroundings(instruction))[tiers]:
            if key is not None and (found := self._found.get(key)) is not None:
                _, twins, count = found
                return {layer: twins[layer] for layer in sorted(count, key=count.__getitem__, reverse=True)}
        return {}

    def _not_yet_compared(self, instruction: Instruction) -> list[Instruction]:
        """The known instructions with the opcode and the stem of an instruction, when they are first asked for."""
        opcode = instruction.opcode
        for each in self._known.pop(opcode, ()):
            self._stems.setdefault((opcode, stem_of(each.name)), []).append(each)
        return self._stems.pop((opcode, stem_of(instruction.name)), [])


def _keys(instruction: Instruction, surroundings: Surroundings) -> tuple[Hashable | None, ...]:
    """What instructions have in common that are alike, from the strictest."""
    stem, opcode = stem_of(instruction.name), instruction.opcode
    operands, users = surroundings
    shape = instruction.shape.to_string(layout=False)
    argument = instruction.raw[0] if opcode == opcodes.CONSTANT else ""
    has_operands = any(each is not None for each in operands)
    is_near = has_operands or bool(users)
    return (
        (copied_name(instruction.name), opcode),
        (stem, opcode, shape, argument, operands, users) if is_near else None,
        (stem, opcode, operands, users) if is_near else None,
        (stem, opcode, shape, operands) if has_operands else None,
        (stem, opcode, shape, argument, users) if users or argument else None,
    )
