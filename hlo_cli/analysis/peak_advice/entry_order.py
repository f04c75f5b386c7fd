"""Which instructions of the entry must run before others, whatever order a compiler chooses.

Copies that protect an argument are inserted before the schedule is made, by data dependencies alone
(`DependencyHloOrdering` of xla/hlo/analysis/hlo_ordering.cc).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape

_DONE: Final = "-done"
_COPYING: Final = frozenset((opcodes.COPY, opcodes.COPY_START, opcodes.COPY_DONE, opcodes.BITCAST))
_FORWARDING: Final = frozenset((opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT))


class EntryOrder:
    """Dependencies among the instructions of the entry, by their indices there.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] negate(p)  b = f32[2] sine(p)  ROOT r = f32[2] add(a,a) }"
    >>> order = EntryOrder(order_independent_facts(parse_module(text)), (2, 3))
    >>> sorted(order.readers(0)), order.is_before(1, 3), order.is_before(1, 2)
    ([1, 2], True, False)
    """

    __slots__ = ("_bits", "_facts", "_reached", "_users")

    def __init__(self, facts: OrderIndependentFacts, targets: Iterable[int]) -> None:
        """Computes from which instructions each of the `targets` can be reached."""
        self._facts = facts
        self._users = users_of_values(facts)
        self._bits = {target: 1 << n for n, target in enumerate(dict.fromkeys(targets))}
        self._reached = _reached(facts.module.entry.instructions, self._bits)

    def is_before(self, index: int, target: int) -> bool:
        """Returns whether `target`, one of the targets, depends on an instruction or is that instruction."""
        return bool(self._reached[index] & self._bits[target])

    def copies(self, value: int) -> list[Instruction]:
        """Returns the instructions that copy a value without changing its layout."""
        users = (self._facts.module.entry.instructions[index] for index in self._users.get(value, ()))
        return [user for user in users if user.opcode == opcodes.COPY and user.shape == user.operand_shape(0)]

    def is_only_fetched(self, value: int) -> bool:
        """Returns whether a value is used, and only to move it or parts of it into fast memory of a TPU."""
        instructions = self._facts.module.entry.instructions
        users = (instructions[index] for index in self._users.get(value, ()))
        starts = [user for user in users if not user.opcode.endswith(_DONE)]
        return bool(starts) and all(map(_fetches, starts))

    def readers(self, value: int, excluded: Collection[int] = ()) -> set[int]:
        """Returns the instructions that read a value, or a copy of it instead of the value, but for those excluded."""
        instructions, found = self._facts.module.entry.instructions, set[int]()
        waiting, seen = [value], {value}
        while waiting:
            for index in self._users.get(waiting.pop(), ()):
                if index in excluded:
                    continue
                instruction = instructions[index]
                if instruction.opcode not in _COPYING:
                    found.add(index)
                    continue
                first = self._facts.places.first_of(instruction)
                for place in range(first, first + len(self._facts.places.parts(instruction))):
                    if place not in seen:
                        seen.add(place)
                        waiting.append(place)
        return found


def _fetches(user: Instruction) -> bool:
    """Returns whether an instruction moves an array or a part of it into fast memory of a TPU."""
    root = user.called_computations[0].root if user.called_computations else None
    moving = root.opcode if root is not None else wrapped_opcode(user.opcode) or user.opcode.removesuffix("-start")
    if moving not in BLOCK_MOVES:
        return False
    spaces = {leaf.memory_space for _, leaf in user.shape.leaves if isinstance(leaf, ArrayShape)}
    return any(space in spaces for space in TpuMemorySpace if space.is_prefetched)


def users_of_values(facts: OrderIndependentFacts) -> dict[int, list[int]]:
    """Returns the instructions of the entry that use each value, those aside that only pass it on.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] negate(p)  ROOT t = (f32[2], f32[2]) tuple(a, p) }"
    >>> {value: users for value, users in users_of_values(order_independent_facts(parse_module(text))).items() if users}
    {0: [1]}
    """
    places, at, first = facts.places, facts.dataflow.value, facts.places.first
    found: dict[int, list[int]] = defaultdict(list)
    for index, instruction in enumerate(facts.module.entry.instructions):
        if instruction.opcode in _FORWARDING:
            continue
        for position, operand in enumerate(instruction.operands):
            place = places.operand_place(instruction, position)
            for used in range(place, first[places.number(operand) + 1]):
                if not found[at[used]] or found[at[used]][-1] != index:
                    found[at[used]].append(index)
    return found


def _reached(instructions: Sequence[Instruction], bits: dict[int, int]) -> list[int]:
    """Returns for each instruction the bits of the targets that can be reached from it, itself included."""
    reached = [0] * len(instructions)
    for index in range(len(instructions) - 1, -1, -1):
        reached[index] |= bits.get(index, 0)
        for operand in instructions[index].operands:
            reached[operand.index] |= reached[index]
    return reached
