"""Whether a fusion keeps an in-place operation from overwriting elements before they are read.

Mirrors `ShouldFuseInPlaceOp` of xla/service/instruction_fusion.cc and `GetInPlaceInputOutputPairs` of
xla/hlo/analysis/alias_info.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.fusion.rules import IN_PLACE, IN_PLACE_READS_OPERAND, Rule
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.value_types import SliceDimension

_TRANSPARENT: Final = frozenset((opcodes.BITCAST, opcodes.PARAMETER))


def in_place_rule(producer: Node, consumer: Node) -> Rule | None:
    """Rule that forbids the fusion because the consumer updates an operand in place; None if no rule does.

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
            return IN_PLACE_READS_OPERAND
        if overwritten is producer or overwritten in producer.operands:
            return None if _reads_before_write(producer, consumer, result) else IN_PLACE
    return None


def in_place_operands(node: Node) -> Iterator[tuple[int, Node]]:
    """Yields the numbers of operands that are updated in place, each with the node that computes the result."""
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
                    result, inner = _producer_of_leaf(node.body.root, index)
                    number = _overwritten_parameter(result, inner)
                    if number is not None:
                        yield number, result


def _producer_of_leaf(node: Node, index: ShapeIndex) -> tuple[Node, ShapeIndex]:
    """Node that computes the element `index` of a value, through tuples and get-tuple-elements."""
    while True:
        if node.opcode == opcodes.TUPLE and index:
            node, index = node.operands[index[0]], index[1:]
        elif node.opcode == opcodes.GET_TUPLE_ELEMENT:
            node, index = node.operands[0], (node.element, *index)
        else:
            return node, index


def _overwritten_parameter(node: Node, index: ShapeIndex) -> int | None:
    """Number of the parameter that an operation updates in place, through bitcasts before and after it."""
    node = _without_bitcasts(node)
    if node.opcode not in (opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER) or len(index) > 1:
        return None
    taken = _without_bitcasts(node.operands[index[0] if index else 0])
    return taken.number if taken.opcode == opcodes.PARAMETER else None


def _without_bitcasts(node: Node) -> Node:
    while node.opcode == opcodes.BITCAST:
        node = node.operands[0]
    return node


def _reads_before_write(producer: Node, consumer: Node, result: Node) -> bool:
    """Whether each element of the updated buffer is read before it is overwritten."""
    inside = [producer] if producer.body is None else list(producer.body.operations)
    moving = [node for node in inside if not is_elementwise(node) and node.opcode not in _TRANSPARENT]
    if len(moving) > 1:
        return False
    if not moving:
        return consumer.body is None or not _is_moved_by_others(producer, consumer, result)
    within = [consumer] if consumer.body is None else list(consumer.body.operations)
    updates = [node for node in within if node.opcode == opcodes.DYNAMIC_UPDATE_SLICE]
    if not updates:
        return True
    return (
        len(updates) == 1
        and _slices_update_region(moving[0], producer, updates[0], consumer)
        and (consumer.body is None or not _is_moved_by_others(producer, consumer, result))
    )


def _is_moved_by_others(producer: Node, fusion: Node, result: Node) -> bool:
    """Whether a non-elementwise operation other than `result` uses the producer's value in the fusion."""
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node is not result and node.opcode not in _TRANSPARENT and not is_elementwise(node):
            return True
        waiting.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return False


def _slices_update_region(slice_node: Node, producer: Node, update: Node, consumer: Node) -> bool:
    """Whether a slice reads exactly the region that the dynamic-update-slice writes."""
    if slice_node.shape != update.operands[1].shape:
        return False
    starts = [_outer_value(node, consumer) for node in update.operands[2:]]
    if slice_node.opcode == opcodes.DYNAMIC_SLICE:
        own = [_outer_value(node, producer) for node in slice_node.operands[1:]]
        return len(own) == len(starts) and all(map(_are_equal, own, starts))
    if slice_node.opcode == opcodes.SLICE:
        bounds = slice_bounds(slice_node)
        return len(bounds) == len(starts) and all(
            bound.stride == 1 and _constant_value(start) == bound.start
            for start, bound in zip(starts, bounds, strict=True)
        )
    return False


def _outer_value(node: Node, around: Node) -> Node:
    """Operand of a fusion for one of its parameters; other nodes unchanged."""
    is_inner = node.opcode == opcodes.PARAMETER and around.body is not None and node in around.body.nodes
    return around.operands[node.number] if is_inner else node


def _are_equal(one: Node, other: Node) -> bool:
    return one is other or ((number := _constant_value(one)) is not None and number == _constant_value(other))


def _constant_value(node: Node) -> int | None:
    text = node.instruction.raw[0].strip() if node.opcode == opcodes.CONSTANT else ""
    return int(text) if text.removeprefix("-").isdecimal() else None


def slice_bounds(node: Node) -> tuple[SliceDimension, ...]:
    """Start, limit, and stride of each dimension of a slice."""
    from hlo_cli.ir.attributes.value_types import Slice

    sliced = node.instruction.value_of("slice", Slice)
    return () if sliced is None else sliced.dimensions
