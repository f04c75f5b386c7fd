"""Operand sharing: whether an instruction may write its result over an operand whose live range ends there.

Mirrors `CanShareOperandBufferWithUser` of xla/hlo/analysis/hlo_dataflow_analysis.cc and the hint for fusions in
xla/service/gpu/alias_info.cc. On TPU, `aliasing_operands` of the dump lists further pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Users, is_elementwise_on, users_of
from hlo_cli.analysis.dataflow.flat_schedule import InPlace
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.listed_aliases import listed_aliases, operand_leaf, result_leaf
from hlo_cli.analysis.memory.operand_sharing_gpu import gpu_fusion_shares
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

_FULLY_LISTED: Final = frozenset((opcodes.ALL_REDUCE, opcodes.FUSION))
"""Opcodes for which TPU compilers share every pair in `aliasing_operands`; for others, such as sort, only some."""


class OperandSharing:
    """Sharing queries on the instructions of one module; results for fused computations are cached."""

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
        """Returns whether `user` may write its result at `user_index` over its operand at `operand_place`.

        `user` must use the instruction of `operand_place` directly.
        """
        places = self._dataflow.places
        operand = places.instructions[places.owner[operand_place]]
        if operand.opcode == opcodes.CONSTANT:
            return False
        user_place = places.first_of(user) + places.parts(user).ordinals[user_index]
        equal = places.shape(operand_place) == places.shape(user_place) and not (
            self._target == "tpu" and is_copied_to_smem(operand)
        )
        if equal and self._overwrites(operand_place, user, user_index):
            return True
        position = self.first_operand_number(user, operand)
        assert position is not None
        # gpu/alias_info.cc, GpuAliasInfo::MayAlias: the answer for a fusion is final, also for unequal shapes.
        if user.opcode == opcodes.FUSION and self._target == "gpu":
            return self._gpu_fusion(user, position, operand_place, user_place, user_index)
        listed = self._is_listed(operand_place, user, user_index, position) if self._target == "tpu" else None
        if listed is not None and (not listed or user.opcode in _FULLY_LISTED):
            return listed
        return equal and self._by_opcode(operand, operand_place, user, user_index, position)

    def first_operand_number(self, user: Instruction, operand: Instruction) -> int | None:
        """Returns the first operand number at which `user` uses `operand`, or None."""
        if self._first[0] is not user:
            positions = enumerate(reversed(user.operands), 1)
            self._first = user, {each: len(user.operands) - n for n, each in positions}
        return self._first[1].get(operand)

    def users(self, computation: Computation) -> Users:
        """Returns the users of each instruction in a computation; cached."""
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation]

    def _overwrites(self, operand_place: int, user: Instruction, user_index: ShapeIndex) -> bool:
        """Returns whether an in-place pair of `user` connects the operand and the result."""
        places, at = self._dataflow.places, self._dataflow.value
        for number, index, output_index in self._in_place.pairs(user):
            if output_index == user_index and number < len(user.operands):
                below = places.parts(user.operands[number]).ordinals.get(index)
                if below is not None and at[places.first_of(user.operands[number]) + below] == at[operand_place]:
                    return True
        return False

    def _is_listed(self, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int) -> bool | None:
        """Returns whether `aliasing_operands` groups operand and result; None if the dump has no such lists."""
        if user not in self._listed:
            self._listed[user] = listed_aliases(user)
        listed = self._listed[user]
        if not listed:
            return None if listed is None else False
        operand_leaf_number = operand_leaf(user, position, self._dataflow.places.index(operand_place))
        result_leaf_number = result_leaf(user, user_index)
        return any(operand_leaf_number in together and result_leaf_number in together for together in listed)

    def _gpu_fusion(
        self, user: Instruction, position: int, operand_place: int, user_place: int, user_index: ShapeIndex
    ) -> bool:
        """Returns whether a GPU fusion may overwrite the operand."""
        places = self._dataflow.places
        called = _body(user, position)
        if called is None:
            return False
        key = (called, position, user_index)
        if key not in self._fused:
            operand_shape, user_shape = places.shape(operand_place), places.shape(user_place)
            self._fused[key] = gpu_fusion_shares(
                user, position, user_index, self.users(called), operand_shape, user_shape
            )
        return self._fused[key]

    def _by_opcode(
        self, operand: Instruction, operand_place: int, user: Instruction, user_index: ShapeIndex, position: int
    ) -> bool:
        """Returns whether an instruction of this opcode may overwrite an operand of equal shape."""
        match user.opcode:
            case opcodes.FUSION:
                return self._fusion(user, position)
            case opcodes.WHILE | opcodes.CONDITIONAL:
                return True
            case opcodes.DYNAMIC_UPDATE_SLICE | opcodes.SCATTER | "set-dimension-size":
                return _single_operand_number(user, operand) == 0
            case "triangular-solve":
                return _single_operand_number(user, operand) == 1
            case opcodes.SORT:
                if len(self.users(operand.computation)[operand]) != 1:
                    return False
                return len(user.operands) == 1 or user_index[:1] == (_single_operand_number(user, operand),)
            case opcodes.CALL:
                return self._call(user, operand_place)
        return is_elementwise_on(user, position)

    def _fusion(self, fusion: Instruction, position: int) -> bool:
        """Returns whether a fusion on CPU or TPU may overwrite the operand."""
        called = _body(fusion, position)
        if called is None:
            return False
        key = (called, position, ())
        if key not in self._fused:
            self._fused[key] = self._fusion_by_kind(fusion, called, position)
        return self._fused[key]

    def _fusion_by_kind(self, fusion: Instruction, called: Computation, position: int) -> bool:
        """Returns whether a fusion of its kind may overwrite the operand."""
        users, parameter, root = self.users(called), called.parameters[position], called.root
        kind = fusion.attribute("kind")
        if kind in ("kLoop", "kInput"):
            return _all_elementwise(users, parameter)
        # hlo_dataflow_analysis.cc: of kOutput fusions, only the addend of a dot or convolution may be overwritten.
        if kind == "kOutput" and root is not None and root.opcode == "add":
            product = next((o for o in root.operands if o.opcode in (opcodes.DOT, opcodes.CONVOLUTION)), None)
            if product is None:
                return False
            other = root.operands[1] if product is root.operands[0] else root.operands[0]
            return users.get(parameter) == (root,) and other is parameter and root.operands.count(parameter) == 1
        return is_elementwise_on(fusion, position)

    def _call(self, call: Instruction, operand_place: int) -> bool:
        """Returns whether the value has exactly two uses: the call and an elementwise root of the callee."""
        uses = self._uses_of(self._dataflow.value[operand_place])
        body = _body(call)
        root = body.root if body is not None else None
        found = [use for use in uses if use[0] is root and is_elementwise_on(*use)]
        return len(uses) == 2 and len(found) == 1 and any(user is call for user, _ in uses)

    def _uses_of(self, value: int) -> list[tuple[Instruction, int]]:
        """Returns the uses of a value as a whole operand, computed once for all values; tuples do not count."""
        if self._uses is None:
            self._uses = {}
            places, at = self._dataflow.places, self._dataflow.value
            for user in places.instructions:
                for n in range(len(user.operands)) if user.opcode != opcodes.TUPLE else ():
                    self._uses.setdefault(at[places.operand_place(user, n)], []).append((user, n))
        return self._uses.get(value, [])


def is_copied_to_smem(instruction: Instruction) -> bool:
    """Returns whether an instruction copies a scalar parameter to scalar memory (SMEM) of a TPU.

    >>> from hlo_cli import parse_module
    >>> text = "p = f32[]{:T(128)} parameter(0)  c = f32[]{:T(128)S(6)} copy(p)  ROOT r = f32[]{:T(128)S(6)} negate(c)"
    >>> [i.name for i in parse_module(f"ENTRY e {{ {text} }}").instructions if is_copied_to_smem(i)]
    ['c']
    """
    # When libtpu assigns buffers, only the copies that it inserted for parameters have S(6) in their layouts; all other
    # values get it afterwards. The shapes of the copy and its user are therefore unequal, which rules out sharing
    # (hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser). Seen in dumps before and after the assignment.
    return (
        instruction.opcode == opcodes.COPY
        and isinstance(instruction.shape, ArrayShape)
        and instruction.shape.layout.memory_space == TpuMemorySpace.SMEM
        and bool(instruction.operands)
        and instruction.operands[0].opcode == opcodes.PARAMETER
    )


def _body(user: Instruction, position: int = -1) -> Computation | None:
    """Returns the called computation if it has a parameter for the operand number; malformed modules may not."""
    called = user.called_computations
    return called[0] if called and position < len(called[0].parameters) else None


def _single_operand_number(user: Instruction, operand: Instruction) -> int | None:
    """Returns the operand number of an operand that is used once, else None."""
    return user.operands.index(operand) if user.operands.count(operand) == 1 else None


def _all_elementwise(users: Users, parameter: Instruction) -> bool:
    """Returns whether all transitive users of a parameter are elementwise or tuples."""
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
