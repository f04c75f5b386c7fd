"""Operand sharing of fusions on GPU: allowed if each element is read before its location is written.

Mirrors the buffer sharing hint of xla/service/gpu/alias_info.cc. Emitters that depend on the device are
approximated.
"""

from __future__ import annotations

from hlo_cli.analysis.dataflow.dependencies import Users, is_elementwise_on
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.opcodes import COPY, PARAMETER, REDUCE, TRANSPOSE, TUPLE
from hlo_cli.ir.operations import UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex


def gpu_fusion_shares(
    fusion: Instruction, position: int, output_index: ShapeIndex, users: Users, given: Shape, made: Shape
) -> bool:
    """Returns whether the result of a fusion at `output_index` may overwrite the operand at `position`."""
    called = fusion.called_computations[0]
    if called.root is None or position >= len(called.parameters) or not _same_size(given, made):
        return False
    output, index = called.root, output_index
    while output.opcode == TUPLE and index:
        output, index = output.operands[index[0]], index[1:]
    # gpu/alias_info.cc, FusionCanShareBufferHint: the reduction emitter computes the reduction before it writes any
    # output, so users of the reduction cannot overwrite its input too early.
    hero = _reduction_hero(called) if fusion.attribute("kind") != "kCustom" else None
    roots = set(_roots(called))
    waiting, seen = [called.parameters[position]], {called.parameters[position]}
    for instruction in waiting:  # breadth first: grows while iterated
        for user in users.get(instruction, ()):
            if user is hero:
                continue
            if not _keeps_order(user, instruction, output, index):
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    reached = roots & seen
    if output not in reached:
        return False
    if len(reached) == 1:
        return True
    elementwise = output.opcode == PARAMETER or all(is_elementwise_on(output, n) for n in range(len(output.operands)))
    return elementwise and not any(_hero(root, (TRANSPOSE, COPY)) for root in reached)


def _same_size(given: Shape, made: Shape) -> bool:
    """Returns whether two shapes are equal, or arrays of as many elements of the same width."""
    if given == made:
        return True
    if not isinstance(given, ArrayShape) or not isinstance(made, ArrayShape):
        return False
    return given.elements == made.elements and given.element_type.bits == made.element_type.bits


def _keeps_order(user: Instruction, operand: Instruction, output: Instruction, index: ShapeIndex) -> bool:
    """Returns whether `user` reads its operand in the order in which the output is written."""
    last = output.operands[0] if output.opcode == "bitcast" else output
    if last.opcode == "dynamic-update-slice" and _is_same_slice(user, last):
        return True
    at = user.operands.index(operand)
    if user.opcode in ("bitcast", TUPLE) or (user.opcode != COPY and is_elementwise_on(user, at)):
        return True
    if user is not last:
        return False
    match user.opcode:
        case "dynamic-update-slice":
            return at == 1
        case "scatter":
            return user.operands.count(operand) == 1
        case "sort":
            return user.operands.count(operand) == 1 and index in ((), (at,))
    return False


def _is_same_slice(slice_: Instruction, update: Instruction) -> bool:
    """Returns whether a dynamic-slice reads exactly the elements that the update overwrites."""
    if slice_.opcode != "dynamic-slice" or slice_.operands[0] is not update.operands[0]:
        return False
    if slice_.shape != update.operands[1].shape:
        return False
    is_scalar = isinstance(slice_.shape, ArrayShape) and slice_.shape.elements == 1
    return is_scalar or slice_.operands[1:] == update.operands[2:]


def _roots(called: Computation) -> tuple[Instruction, ...]:
    """Returns the elements of a fusion's root tuple, or its root."""
    root = called.root
    assert root is not None
    return root.operands if root.opcode == TUPLE else (root,)


def _reduction_hero(called: Computation) -> Instruction | None:
    """Returns the reduction hero: the reduce that the first root with one is computed from."""
    return next((found for root in _roots(called) if (found := _hero(root, (REDUCE,)))), None)


def _hero(root: Instruction, opcodes: tuple[str, ...]) -> Instruction | None:
    """Returns the instruction with one of `opcodes` below unary operations and bitcasts of a root, or None."""
    while root.opcode not in opcodes:
        if len(root.operands) != 1 or (root.opcode not in UNARY and root.opcode != "bitcast"):
            return None
        root = root.operands[0]
    return root
