"""May an instruction write its result where its operand lies, if that dies there? What XLA's backends allow.

Mirrors `CanShareOperandBufferWithUser` of xla/hlo/analysis/hlo_dataflow_analysis.cc and the hint of
xla/backends/gpu for fusions; what those for TPUs share besides stands in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.dataflow.elementwise import is_elementwise_on
from hlo_cli.analysis.dataflow.in_place import InPlace
from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.listed_aliases import listed_aliases, operand_leaf, result_leaf
from hlo_cli.analysis.memory.operand_sharing_gpu import gpu_fusion_shares
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex

_AS_LISTED: Final = frozenset((opcodes.ALL_REDUCE, opcodes.FUSION))
"""Where compilers for TPUs share all that they list; of others, such as sorts, they share less."""


class OperandSharing:
    """Answers for the instructions of one module; what fused computations do is found out once."""

    __slots__ = ("_dataflow", "_first", "_fused", "_in_place", "_listed", "_target", "_users", "_uses")

    def __init__(self, dataflow: Dataflow, in_place: InPlace, target: Target | None) -> None:
        self._dataflow = dataflow
        self._in_place = in_place
        self._target = target
        self._first: tuple[Instruction | None, Mapping[Instruction, int]] = None, {}
        self._users: dict[Computation, Users] = {}
        self._uses: dict[int, list[tuple[Instruction, int]]] | None = None
        self._fused: dict[tuple[Computation, int, ShapeIndex], bool] = {}
        self._listed: dict[Instruction, tuple[frozenset[int], ...] | None] = {}

    def may_share(self, operand_place: int, user: Instruction, user_index: ShapeIndex) -> bool:
        """Whether `user`, which uses the instruction of a place directly, may put its result there."""
        places = self._dataflow.places
        operand = places.instructions[places.owner[operand_place]]
        if operand.opcode == opcodes.CONSTANT:
            return False
        user_place = places.first_of(user) + places.parts(user).ordinals[user_index]
        equal = places.shape(operand_place) == places.shape(user_place)
        if equal and self._overwrites(operand_place, user, user_index):
            return True
        position = self.first_at(user, operand)
        assert position is not None
        if user.opcode == opcodes.FUSION and self._target == "gpu":
            return self._gpu_fusion(user, position, operand_place, user_place, user_index)
        listed = self._is_listed(operand_place, user, user_index, position) if self._target == "tpu" else None
        if listed is not None and (not listed or user.opcode in _AS_LISTED):
            return listed
        return equal and self._by_opcode(operand, operand_place, user, user_index, position)

    def first_at(self, user: Instruction, operand: Instruction) -> int | None:
        """The first position at which an instruction takes another as it stands, if it does."""
        if self._first[0] is not user:
            positions = enumerate(reversed(user.operands), 1)
            self._first = user, {each: len(user.operands) - n for n, each in positions}
        return self._first[1].get(operand)

    def users(self, computation: Computation) -> Users:
        """The users of a computation's instructions."""
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation]

    def _overwrites(self, operand_place: int, user: Instruction, user_index: ShapeIndex) -> bool:
        """Whether the user overwrites the value in any case."""
        places, at = self._dataflow.places, self._dataflow.value
        for number, index, output_index in self._in_place.pairs(user):
            if output_index == user_index and number < len(user.operands):
                below = places.parts(user.operands[number]).ordinals.get(index)
                if below is not None and at[places.first_of(user.operands[number]) + below] == at[operand_place]:
                    return True
        return False

    def _is_listed(self, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int) -> bool | None:
        """Whether the compiler's configuration names operand and result together; None if it names nothing at all."""
        if user not in self._listed:
            self._listed[user] = listed_aliases(user)
        listed = self._listed[user]
        if not listed:
            return None if listed is None else False
        given = operand_leaf(user, position, self._dataflow.places.index(operand_place))
        made = result_leaf(user, user_index)
        return any(given in together and made in together for together in listed)

    def _gpu_fusion(
        self, user: Instruction, position: int, operand_place: int, user_place: int, user_index: ShapeIndex
    ) -> bool:
        places = self._dataflow.places
        called = _body(user, position)
        if called is None:
            return False
        key = (called, position, user_index)
        if key not in self._fused:
            given, made = places.shape(operand_place), places.shape(user_place)
            self._fused[key] = gpu_fusion_shares(user, position, user_index, self.users(called), given, made)
        return self._fused[key]

    def _by_opcode(
        self, operand: Instruction, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int
    ) -> bool:
        match user.opcode:
            case opcodes.FUSION:
                return self._fusion(user, position)
            case opcodes.WHILE | opcodes.CONDITIONAL:
                return True
            case opcodes.DYNAMIC_UPDATE_SLICE | opcodes.SCATTER | "set-dimension-size":
                return _only_at(user, operand) == 0
            case "triangular-solve":
                return _only_at(user, operand) == 1
            case opcodes.SORT:
                if len(self.users(operand.computation)[operand]) != 1:
                    return False
                return len(user.operands) == 1 or user_index[:1] == (_only_at(user, operand),)
            case opcodes.CALL:
                return self._call(user, operand_place)
        return is_elementwise_on(user, position)

    def _fusion(self, fusion: Instruction, position: int) -> bool:
        called = _body(fusion, position)
        if called is None:
            return False
        key = (called, position, ())
        if key not in self._fused:
            self._fused[key] = self._fusion_by_kind(fusion, called, position)
        return self._fused[key]

    def _fusion_by_kind(self, fusion: Instruction, called: Computation, position: int) -> bool:
        users, parameter, root = self.users(called), called.parameters[position], called.root
        kind = fusion.attribute("kind")
        if kind in ("kLoop", "kInput"):
            return _all_elementwise(users, parameter)
        if kind == "kOutput" and root is not None and root.opcode == "add":
            product = next((o for o in root.operands if o.opcode in (opcodes.DOT, opcodes.CONVOLUTION)), None)
            if product is None:
                return False
            other = root.operands[1] if product is root.operands[0] else root.operands[0]
            return users.get(parameter) == (root,) and other is parameter and root.operands.count(parameter) == 1
        return is_elementwise_on(fusion, position)

    def _call(self, call: Instruction, operand_place: int) -> bool:
        """Whether the call and an elementwise root of what it calls are the only two uses."""
        uses = self._uses_of(self._dataflow.value[operand_place])
        body = _body(call)
        root = body.root if body is not None else None
        found = [use for use in uses if use[0] is root and is_elementwise_on(*use)]
        return len(uses) == 2 and len(found) == 1 and any(user is call for user, _ in uses)

    def _uses_of(self, value: int) -> list[tuple[Instruction, int]]:
        """The instructions that use a value as a whole operand, found for all values at once; tuples do not count."""
        if self._uses is None:
            self._uses = {}
            places, at = self._dataflow.places, self._dataflow.value
            for user in places.instructions:
                for n in range(len(user.operands)) if user.opcode != opcodes.TUPLE else ():
                    self._uses.setdefault(at[places.operand_place(user, n)], []).append((user, n))
        return self._uses.get(value, [])


def _body(user: Instruction, position: int = -1) -> Computation | None:
    """What a fusion or call runs, if it has a parameter for the operand at a position; broken modules may not."""
    called = user.called_computations
    return called[0] if called and position < len(called[0].parameters) else None


def _only_at(user: Instruction, operand: Instruction) -> int | None:
    """At which position the operand stands, if at one alone."""
    return user.operands.index(operand) if user.operands.count(operand) == 1 else None


def _all_elementwise(users: Users, parameter: Instruction) -> bool:
    """Whether whatever follows a parameter is elementwise or a tuple."""
    waiting, seen = [parameter], {parameter}
    while waiting:
        instruction = waiting.pop()
        for user in users.get(instruction, ()):
            if user.opcode != opcodes.TUPLE:
                positions = [n for n, operand in enumerate(user.operands) if operand is instruction]
                if not all(is_elementwise_on(user, n) for n in positions):
                    return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True
