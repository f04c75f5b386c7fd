"""Reasons against fusing into an operation that updates an operand in place.

Mirrors `ShouldFuseInPlaceOp` of xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.fusion.in_place import in_place_operands, slice_bounds
from hlo_cli.analysis.gpu_fusion import reasons
from hlo_cli.ir import opcodes

_TRANSPARENT: Final = frozenset((opcodes.FUSION, opcodes.BITCAST, opcodes.PARAMETER))


def in_place_reason(producer: Node, consumer: Node) -> str | None:
    """Reason against the fusion because the consumer updates an operand in place; None if there is none.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)  u = f32[9] reverse(a), dimensions={0}
    ... ROOT r = f32[9] dynamic-update-slice(a, u, i) }'''
    >>> root = graph_of(parse_module(text).entry).root
    >>> in_place_reason(root.operands[1], root)
    'unrecognized inplace update non-elementwise output pair'
    """
    for number, _ in in_place_operands(consumer):
        overwritten = consumer.operands[number]
        if consumer.operands.count(overwritten) > 1:
            return reasons.IN_PLACE_TWICE
        if overwritten is producer or overwritten in producer.operands:
            return _reason(producer, consumer)
    return None


def _reason(producer: Node, consumer: Node) -> str | None:
    moves = [node for node in _operations(producer) if _moves(node)]
    if len(moves) > 1:
        return reasons.SEVERAL_MOVES
    if not moves:
        is_moved = consumer.body is not None and _reaches_move(producer, consumer, consumer.body.root)
        return reasons.IN_PLACE_CONFLICT if is_moved else None
    updates = [node for node in _operations(consumer) if node.opcode == opcodes.DYNAMIC_UPDATE_SLICE]
    if not updates:
        return None
    if len(updates) > 1:
        return reasons.SEVERAL_UPDATES
    update, (move,) = updates[0], moves
    if move.opcode == opcodes.SLICE:
        return _slice_reason(move, update, producer, consumer)
    if move.opcode == opcodes.DYNAMIC_SLICE:
        return _dynamic_slice_reason(move, update, producer, consumer)
    return reasons.UNRECOGNIZED


def _slice_reason(move: Node, update: Node, producer: Node, consumer: Node) -> str | None:
    if move.shape != update.operands[1].shape:
        return reasons.SLICE_SHAPE
    for start, bound in zip(update.operands[2:], slice_bounds(move), strict=False):
        if _constant(_outside(start, consumer)) != bound.start or bound.stride != 1:
            return reasons.SLICE_INDEX
    is_shared = consumer.body is not None and _reaches_move(producer, consumer, update)
    return reasons.SLICE_SHARED if is_shared else None


def _dynamic_slice_reason(move: Node, update: Node, producer: Node, consumer: Node) -> str | None:
    if move.shape != update.operands[1].shape:
        return reasons.DYNAMIC_SLICE_SHAPE
    for own, start in zip(move.operands[1:], update.operands[2:], strict=False):
        one, other = _outside(own, producer), _outside(start, consumer)
        first, second = _constant(one), _constant(other)
        if first != second or (first is None and one is not other):
            return reasons.DYNAMIC_SLICE_INDEX
    is_shared = consumer.body is not None and _reaches_move(producer, consumer, update)
    return reasons.DYNAMIC_SLICE_SHARED if is_shared else None


def _operations(node: Node) -> list[Node]:
    """The node itself, or the operations of a fusion."""
    return [node] if node.body is None else list(node.body.operations)


def _moves(node: Node) -> bool:
    return node.opcode not in _TRANSPARENT and not is_elementwise(node)


def _reaches_move(producer: Node, fusion: Node, excepted: Node) -> bool:
    """Whether an operation of the fusion that moves elements, other than `excepted`, uses the producer's value."""
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    seen = set(waiting)
    for node in waiting:
        if node is not excepted and _moves(node):
            return True
        waiting.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return False


def _outside(node: Node, around: Node) -> Node:
    """Operand of a fusion for one of its parameters; other nodes unchanged."""
    is_inner = node.opcode == opcodes.PARAMETER and around.body is not None and node in around.body.nodes
    return around.operands[node.number] if is_inner else node


def _constant(node: Node) -> int | None:
    text = node.instruction.raw[0].strip() if node.opcode == opcodes.CONSTANT else ""
    return int(text) if text.removeprefix("-").isdecimal() else None
