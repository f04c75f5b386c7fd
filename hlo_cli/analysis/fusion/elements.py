"""Properties of operations that decide whether they can be fused: elementwise, reuse of operand elements, fusibility.

Mirrors `IsElementwise`, `ReusesOperandElements`, and `IsFusible` of xla/hlo/ir/hlo_instruction.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.shape import ArrayShape, Shape

ELEMENTWISE: Final = (operations.ELEMENTWISE | {opcodes.CONSTANT, opcodes.RNG}) - {opcodes.BITCAST_CONVERT}
"""Opcodes that compute each element of the result from the operand elements at the same index."""

_PLAIN: Final = (ELEMENTWISE | {opcodes.PARAMETER}) - {opcodes.MAP, opcodes.FUSION}
"""Opcodes of fused operations that need no look at the operation; fusions of a thousand are asked about often."""

_SINGLE_USE: Final = frozenset("bitcast concatenate reshape reverse slice transpose gather".split())
_ALWAYS_FUSIBLE: Final = frozenset((opcodes.FUSION, opcodes.MAP, opcodes.REDUCE, opcodes.REDUCE_WINDOW))
_LAYOUT_CONSTRAINED: Final = operations.taking("constrain_layout") & operations.COLLECTIVES
_NEVER_FUSIBLE: Final = (
    (operations.SIDE_EFFECTS - {"rng"})
    | (operations.CONTROL_FLOW - operations.ASYNCHRONOUS)
    | {opcodes.DOMAIN, opcodes.PARAMETER}
)


def sizes_of(shape: Shape) -> tuple[int, ...]:
    """Dimensions of an array; empty for other shapes."""
    return shape.dimensions if isinstance(shape, ArrayShape) else ()


def is_effective_scalar(shape: Shape) -> bool:
    """Whether an array has one element, whatever its rank (`ShapeUtil::IsEffectiveScalar`)."""
    return isinstance(shape, ArrayShape) and all(size == 1 for size in shape.dimensions)


def is_elementwise(node: Node) -> bool:
    """Whether each element of the result is computed from the operand elements at the same index.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> root = graph_of(parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry).root
    >>> is_elementwise(root), reuses_operand(root, 1), reuses_operand(root, 2)
    (False, False, True)
    """
    match node.opcode:
        case "bitcast-convert":
            operand_shape, result_shape = node.operands[0].shape, node.shape
            return (
                isinstance(operand_shape, ArrayShape)
                and isinstance(result_shape, ArrayShape)
                and operand_shape.element_type.bits == result_shape.element_type.bits
            )
        case opcodes.MAP:
            return node.instruction.integers("dimensions") == tuple(range(len(sizes_of(node.shape))))
        case opcodes.FUSION:
            return node.body is not None and all(
                inner.opcode in _PLAIN or is_elementwise(inner) for inner in node.body.nodes
            )
    return node.opcode in ELEMENTWISE


def reuses_operand(node: Node, position: int) -> bool:
    """Whether an element of the operand can be used for more than one element of the result."""
    match node.opcode:
        case opcodes.PAD:
            return position > 0
        case opcodes.REDUCE:
            return position >= len(node.operands) // 2
        case opcodes.DYNAMIC_UPDATE_SLICE:
            return position > 1
        case opcodes.DOT:
            partner = node.operands[1 - position] if position < 2 else node
            return len(sizes_of(node.shape)) > 1 or len(sizes_of(partner.shape)) > 1
        case opcodes.FUSION:
            return node.body is None or position in _reused_parameters(node.body)
    return node.opcode not in _SINGLE_USE and not is_elementwise(node)


def reused_operands(node: Node) -> set[Node]:
    """Operands whose elements can be used for more than one element of the result."""
    if node.opcode == opcodes.FUSION and node.body is not None:
        reused = _reused_parameters(node.body)
        return {operand for position, operand in enumerate(node.operands) if position in reused}
    return {operand for position, operand in enumerate(node.operands) if reuses_operand(node, position)}


def _reused_parameters(body: FusionBody) -> set[int]:
    """Numbers of the parameters with a path to the root through an operation that reuses elements."""
    reused: dict[Node, bool] = {body.root: False}
    waiting = [body.root]
    while waiting:
        node = waiting.pop()
        for position, operand in enumerate(node.operands):
            again = reused[node] or reuses_operand(node, position)
            if operand not in reused or (again and not reused[operand]):
                reused[operand] = again
                waiting.append(operand)
    return {node.number for node, again in reused.items() if again and node.opcode == opcodes.PARAMETER}


def is_fusible(node: Node) -> bool:
    """Whether XLA can fuse the operation: it has no side effects.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> [is_fusible(node) for node in graph_of(parse_module("r = f32[] sine(f32[] a)").entry).nodes]
    [False, True]
    """
    if node.opcode in _ALWAYS_FUSIBLE:
        return True
    match node.opcode:
        case "rng":
            return len(node.users) <= 1
        case opcodes.CUSTOM_CALL:
            return not node.instruction.flag("custom_call_has_side_effect")
    if node.opcode in _LAYOUT_CONSTRAINED:
        return not node.instruction.flag("constrain_layout")
    return node.opcode not in _NEVER_FUSIBLE
