"""The places next to an instruction: those of its operands, its users, its caller, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.origin.layers import Neighbor
from hlo_cli.analysis.origin.likeness import Place, Surroundings
from hlo_cli.analysis.origin.moves import Value
from hlo_cli.analysis.origin.nearest import nearest_users, operand_values
from hlo_cli.analysis.origin.scopes import all_general, scope_of
from hlo_cli.analysis.origin.walks import Arguments, Tellers
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module


class Nearby:
    """The surroundings of instructions, looked up on demand."""

    def __init__(
        self, module: Module, arguments: Arguments, tellers: Tellers, place: Mapping[Instruction, tuple[str, str]]
    ) -> None:
        """Takes the source and the path of instructions with their own, and finds the nearest users of all values."""
        self._moves = arguments.moves
        self._arguments = arguments
        self._tellers = tellers
        self._place = place
        self._users: dict[Computation, Users] = {}
        self._found: dict[Instruction, Surroundings] = {}
        self.down = nearest_users(module, arguments.moves, place)

    def surroundings(self, instruction: Instruction) -> Surroundings:
        """The places of operands and users, with their scopes."""
        if (found := self._found.get(instruction)) is None:
            place = self._place
            values = self.reads(instruction)
            tellers = [self._tellers.upward(each) for each in values]
            users = [place[each] for each in self.users_of(instruction) if each in place]
            if not users and (teller := self.down.get((instruction, ()))) is not None:
                users = [place[teller]]
            caller = self._moves.first_caller.get(instruction.computation)
            if tellers and not users and not any(tellers) and caller is not None and caller[0] in place:
                users = [place[caller[0]]]
            operands = tuple(map(self._from, tellers, values))
            found = self._found[instruction] = Surroundings(operands, frozenset(users))
        return found

    def sources(self, instruction: Instruction) -> Surroundings:
        """The source locations of operands and users; of arguments their names without numbers."""
        operands, users = self.surroundings(instruction)
        told = tuple([each if each is None else each[:1] if each[0] else ("", each[-1]) for each in operands])
        return Surroundings(told, frozenset([each[:1] for each in users]))

    def neighbors(self, instruction: Instruction) -> list[Neighbor]:
        """The scopes of operands, users, and caller, and the names of arguments that are moved or read."""
        near = self.surroundings(instruction)
        operands = [(at, each) for at, each in enumerate(near.operands) if each is not None and each[0]]
        found = [Neighbor(at, scope_at(each)) for at, each in operands]
        found += [Neighbor(("user", each[0]), scope_at(each)) for each in sorted(near.users)]
        caller = self._moves.first_caller.get(instruction.computation)
        if caller is not None and caller[0] in self._place:
            found.append(Neighbor("caller", scope_at(self._place[caller[0]])))
        for value in ((instruction, ()), *operand_values(instruction)):
            if label := self._label(value):
                found.append(Neighbor(("argument", all_general(label)), label, is_label=True))
        return found

    def users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The users within the computation."""
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation].get(instruction, ())

    def reads(self, instruction: Instruction) -> list[Value]:
        """The values that an instruction reads; of a get-tuple-element the element."""
        if (
            instruction.opcode == opcodes.GET_TUPLE_ELEMENT
            and (step := self._moves.step((instruction, ()))) is not None
        ):
            return [step.value]
        return operand_values(instruction)

    def _from(self, teller: Instruction | None, value: Value) -> Place | None:
        """The place of an operand; for a constant or an array filled with one, its value; else its argument."""
        if teller is not None:
            return self._place[teller]
        operand = value[0]
        if operand.opcode == opcodes.BROADCAST and operand.operands:
            operand = operand.operands[0]
        if operand.opcode == opcodes.CONSTANT:
            return "", operand.raw[0]
        label = self._label(value)
        return ("", label, all_general(label)) if label else None

    def _label(self, value: Value) -> str:
        argument = self._arguments.argument(value)
        return argument.metadata.op_name if argument is not None else ""


def scope_at(place: Place) -> str:
    """The scope of a source and a path of scopes.

    >>> scope_at(("model.py:92", "jit(f)/jvp(layers_3)/mlp"))
    'layers_3/mlp'
    """
    return scope_of(f"{place[1]}/")
