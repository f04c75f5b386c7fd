"""Whether fusing a producer keeps an operation that overwrites an operand from reading it too late.

Mirrors `ShouldFuseInPlaceOp` of xla/service/instruction_fusion.cc and `GetInPlaceInputOutputPairs` of
xla/hlo/analysis/alias_info.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.fusion.rules import IN_PLACE, IN_PLACE_TWICE, Rule
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

_MOVES_NOTHING: Final = frozenset((opcodes.BITCAST, opcodes.PARAMETER))


def in_place_rule(producer: Node, consumer: Node) -> Rule | None:
    """The rule that keeps the two apart because the consumer works in place; None if nothing does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)  u = f32[9] reverse(a), dimensions={0}
    ... ROOT r = f32[9] dynamic-update-slice(a, u, i) }'''
    >>> root = graph_of(parse_module(text).entry).root
    >>> in_place_rule(root.operands[1], root).name
    'in-place'
    """
    for number, result in in_place_operands(consumer):
        overwritten = consumer.operands[number]
        if consumer.operands.count(overwritten) > 1:
            return IN_PLACE_TWICE
        if overwritten is producer or overwritten in producer.operands:
            return None if _is_safe(producer, consumer, result) else IN_PLACE
    return None


def in_place_operands(node: Node) -> Iterator[tuple[int, Node]]:
    """The operands that are overwritten, each with what gives the result in its place, maybe inside a fusion."""
    match node.opcode:
        case opcodes.DYNAMIC_UPDATE_SLICE:
            yield 0, node
        case opcodes.SCATTER:
            yield from ((number, node) for number in range(len(node.operands) // 2))
        case opcodes.ALL_REDUCE_START:
            yield from ((number, node) for number in range(len(node.operands)))
        case opcodes.FUSION if node.body is not None:
            for index, leaf in node.shape.leaves:
                if isinstance(leaf, ArrayShape):
                    result, inner = _handed_out(node.body.root, index)
                    number = _overwritten(result, inner)
                    if number is not None:
                        yield number, result


def _handed_out(node: Node, index: ShapeIndex) -> tuple[Node, ShapeIndex]:
    """The operation that gives an element of a result, behind tuples."""
    while True:
        if node.opcode == opcodes.TUPLE and index:
            node, index = node.operands[index[0]], index[1:]
        elif node.opcode == opcodes.GET_TUPLE_ELEMENT:
            node, index = node.operands[0], (node.element, *index)
        else:
            return node, index


def _overwritten(node: Node, index: ShapeIndex) -> int | None:
    """The number of the parameter that an operation overwrites, bitcasts before and behind it aside."""
    node = _before_bitcasts(node)
    if node.opcode not in (opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER) or len(index) > 1:
        return None
    taken = _before_bitcasts(node.operands[index[0] if index else 0])
    return taken.number if taken.opcode == opcodes.PARAMETER else None


def _before_bitcasts(node: Node) -> Node:
    while node.opcode == opcodes.BITCAST:
        node = node.operands[0]
    return node


def _is_safe(producer: Node, consumer: Node, result: Node) -> bool:
    """Whether the producer reads an element before it is overwritten."""
    inside = [producer] if producer.body is None else list(producer.body.operations)
    moving = [node for node in inside if not is_elementwise(node) and node.opcode not in _MOVES_NOTHING]
    if len(moving) > 1:
        return False
    if not moving:
        return consumer.body is None or not _is_moved_elsewhere(producer, consumer, result)
    within = [consumer] if consumer.body is None else list(consumer.body.operations)
    updates = [node for node in within if node.opcode == opcodes.DYNAMIC_UPDATE_SLICE]
    if not updates:
        return True
    return (
        len(updates) == 1
        and _takes_what_is_updated(moving[0], producer, updates[0], consumer)
        and (consumer.body is None or not _is_moved_elsewhere(producer, consumer, result))
    )


def _is_moved_elsewhere(producer: Node, fusion: Node, result: Node) -> bool:
    """Whether the fusion moves elements of the producer about, other than where it writes the result in place."""
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node is not result and node.opcode not in _MOVES_NOTHING and not is_elementwise(node):
            return True
        waiting.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return False


def _takes_what_is_updated(taking: Node, producer: Node, update: Node, consumer: Node) -> bool:
    """Whether a slice is the very part that is updated."""
    if taking.shape != update.operands[1].shape:
        return False
    starts = [_outside(node, consumer) for node in update.operands[2:]]
    if taking.opcode == opcodes.DYNAMIC_SLICE:
        own = [_outside(node, producer) for node in taking.operands[1:]]
        return len(own) == len(starts) and all(map(_are_equal, own, starts))
    if taking.opcode == opcodes.SLICE:
        cuts = _cuts(taking)
        return len(cuts) == len(starts) and all(
            stride == 1 and _number(start) == first for start, (first, stride) in zip(starts, cuts, strict=True)
        )
    return False


def _outside(node: Node, around: Node) -> Node:
    """What a parameter of a fusion stands for."""
    is_inner = node.opcode == opcodes.PARAMETER and around.body is not None and node in around.body.nodes
    return around.operands[node.number] if is_inner else node


def _are_equal(one: Node, other: Node) -> bool:
    return one is other or ((number := _number(one)) is not None and number == _number(other))


def _number(node: Node) -> int | None:
    text = node.instruction.raw[0].strip() if node.opcode == opcodes.CONSTANT else ""
    return int(text) if text.removeprefix("-").isdecimal() else None


def _cuts(node: Node) -> list[tuple[int, int]]:
    from hlo_cli.ir.attributes.window import Slice

    cut = node.instruction.value_of("slice", Slice)
    return [] if cut is None else [(dimension.start, dimension.stride) for dimension in cut.dimensions]
