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
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

_MOVES_NOTHING: Final = frozenset(("bitcast", "parameter"))


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
    for number, writer in in_place_operands(consumer):
        overwritten = consumer.operands[number]
        if consumer.operands.count(overwritten) > 1:
            return IN_PLACE_TWICE
        if overwritten is producer or overwritten in producer.operands:
            return None if _is_safe(producer, consumer, writer) else IN_PLACE
    return None


def in_place_operands(node: Node) -> Iterator[tuple[int, Node]]:
    """The operands that are overwritten, each with the operation that does it, which may be inside a fusion."""
    match node.opcode:
        case "dynamic-update-slice":
            yield 0, node
        case "scatter":
            yield from ((number, node) for number in range(len(node.operands) // 2))
        case "all-reduce-start":
            yield from ((number, node) for number in range(len(node.operands)))
        case "fusion" if node.body is not None:
            for index, leaf in node.shape.leaves:
                if isinstance(leaf, ArrayShape) and (found := _written_in_place(node.body.root, index)) is not None:
                    yield found


def _written_in_place(root: Node, index: ShapeIndex) -> tuple[int, Node] | None:
    """The parameter that a result of a fusion overwrites, and the operation that does it."""
    writer, index = _origin(root, index)
    if writer.opcode not in ("dynamic-update-slice", "scatter") or len(index) > 1:
        return None
    taken = writer.operands[index[0] if index else 0]
    while taken.opcode == "bitcast":
        taken = taken.operands[0]
    return (taken.number, writer) if taken.opcode == "parameter" else None


def _origin(node: Node, index: ShapeIndex) -> tuple[Node, ShapeIndex]:
    """The operation that makes an element, behind what only hands it on."""
    while True:
        if node.opcode == "tuple" and index:
            node, index = node.operands[index[0]], index[1:]
        elif node.opcode == "get-tuple-element":
            node, index = node.operands[0], (node.instruction.integer("index") or 0, *index)
        elif node.opcode == "bitcast":
            node = node.operands[0]
        else:
            return node, index


def _is_safe(producer: Node, consumer: Node, writer: Node) -> bool:
    """Whether the producer reads an element before it is overwritten."""
    inside = [producer] if producer.body is None else list(producer.body.operations)
    moving = [node for node in inside if not is_elementwise(node) and node.opcode not in _MOVES_NOTHING]
    if len(moving) > 1:
        return False
    if not moving:
        return consumer.body is None or not _is_moved_elsewhere(producer, consumer, writer)
    within = [consumer] if consumer.body is None else list(consumer.body.operations)
    updates = [node for node in within if node.opcode == "dynamic-update-slice"]
    if not updates:
        return True
    return (
        len(updates) == 1
        and _takes_what_is_updated(moving[0], producer, updates[0], consumer)
        and (consumer.body is None or not _is_moved_elsewhere(producer, consumer, updates[0], even_by_bitcasts=True))
    )


def _is_moved_elsewhere(producer: Node, fusion: Node, writer: Node, *, even_by_bitcasts: bool = False) -> bool:
    """Whether the fusion moves elements of the producer about, other than where it writes in place."""
    harmless = {"parameter"} if even_by_bitcasts else _MOVES_NOTHING
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node is not writer and not is_elementwise(node) and node.opcode not in harmless:
            return True
        waiting.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return False


def _takes_what_is_updated(taking: Node, producer: Node, update: Node, consumer: Node) -> bool:
    """Whether a slice is the very part that is updated."""
    if taking.shape != update.operands[1].shape:
        return False
    starts = [_outside(node, consumer) for node in update.operands[2:]]
    if taking.opcode == "dynamic-slice":
        own = [_outside(node, producer) for node in taking.operands[1:]]
        return len(own) == len(starts) and all(map(_are_equal, own, starts))
    if taking.opcode == "slice":
        cuts = _cuts(taking)
        return len(cuts) == len(starts) and all(
            stride == 1 and _number(start) == first for start, (first, stride) in zip(starts, cuts, strict=True)
        )
    return False


def _outside(node: Node, around: Node) -> Node:
    """What a parameter of a fusion stands for."""
    is_inner = node.opcode == "parameter" and around.body is not None and node in around.body.nodes
    return around.operands[node.number] if is_inner else node


def _are_equal(one: Node, other: Node) -> bool:
    return one is other or ((number := _number(one)) is not None and number == _number(other))


def _number(node: Node) -> int | None:
    text = node.instruction.raw[0].strip() if node.opcode == "constant" else ""
    return int(text) if text.removeprefix("-").isdecimal() else None


def _cuts(node: Node) -> list[tuple[int, int]]:
    from hlo_cli.ir.window import Slice

    cut = node.instruction.value_of("slice", Slice)
    return [] if cut is None else [(dimension.start, dimension.stride) for dimension in cut.dimensions]
