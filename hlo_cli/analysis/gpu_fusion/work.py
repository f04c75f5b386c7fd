"""Work of an operation or fusion on a GPU: cycles, bytes of operands and results, and how often elements are used.

Mirrors `GpuHloCostAnalysis` of xla/service/gpu/model/gpu_hlo_cost_analysis.cc with `count_multiple_input_accesses`, and
xla/service/hlo_cost_analysis.cc: an operand counts every access, and arithmetic is in single precision.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

from hlo_cli.analysis.fusion.code_duplication import users_first
from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.analysis.gpu_fusion.durations import f32
from hlo_cli.analysis.gpu_fusion.operation_work import OperationWork
from hlo_cli.analysis.gpu_fusion.shapes import arrays_of, bytes_of, elements_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_ONE: Final = 1.0


@dataclass(slots=True, eq=False)
class Work:
    """Work of one instruction: `flops` are clock cycles, `reads` and `utilization` belong to the operands in order.

    `size` is the number of emitted operations. `groups` are, of a fusion, the roots of the elementwise groups of each
    parameter, and `root_groups` those of its root; `group_use` is how often each root is computed.
    """

    flops: int
    reads: tuple[int, ...]
    written: int
    utilization: tuple[float, ...]
    size: int = 1
    copies: tuple[int, ...] = ()
    groups: tuple[dict[Node, None], ...] = ()
    root_groups: dict[Node, None] | None = None
    group_use: dict[Node, float] | None = None

    def common(self, one: dict[Node, None], other: dict[Node, None]) -> float:
        """Utilization that two values of a fusion share (`CommonElementwiseUtilization`)."""
        total = 0.0
        assert self.group_use is not None
        for root in one:
            if root in other:
                total = f32(total + self.group_use[root])
        return total


class WorkCounter:
    """Work of nodes on a GPU with a table of cycles.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> root = graph_of(parse_module("r = f32[8,9] broadcast(f32[9] a), dimensions={1}").entry).root
    >>> work = WorkCounter("sm_90").of(root)
    >>> work.reads, work.written, work.utilization
    ((288,), 288, (8.0,))
    """

    __slots__ = ("_operations",)

    def __init__(self, profile: str) -> None:
        self._operations = OperationWork(profile)

    def of(self, node: Node) -> Work:
        """Work of an operation, or of a fusion with its current body."""
        if node.body is not None:
            return self._of_fusion(node, node.body)
        basic = self._operations.of(node)
        reads, written = self._operations.bytes_of(node)
        return Work(int(basic.flops), tuple(int(b) for b in reads), int(written), basic.utilization)

    def _of_fusion(self, fusion: Node, body: FusionBody) -> Work:
        """Visits a body from the root: groups of elementwise operations share how often they are computed."""
        order = users_first(body)
        groups: dict[Node, dict[Node, None]] = {node: {} for node in order}
        use = dict.fromkeys(order, 0.0)
        copies = dict.fromkeys(order, 0)
        root = body.root
        use[root], copies[root] = _ONE, 1
        groups[root][root] = None
        updated = _written_by_updates(root)
        of_node: dict[Node, tuple[float, int]] = {}
        flops, size = 0.0, 0
        for node in order:
            times, emitted = 0.0, 0
            for group in groups[node]:
                times = f32(times + use[group])
                emitted += copies[group]
            of_node[node] = times, emitted
            size += emitted
            if node.opcode == opcodes.PARAMETER:
                continue
            basic = self._operations.of(node)
            flops = f32(flops + f32(times * basic.flops))
            if _hands_groups_on(node):
                for operand in node.operands:
                    groups[operand].update(groups[node])
                continue
            for place, operand in enumerate(node.operands):
                share = 0.0 if place == 0 and node in updated else basic.utilization[place]
                groups[operand][operand] = None
                use[operand] = f32(use[operand] + _whole(f32(times * share), elements_of(operand.shape)))
                copies[operand] += emitted
        none = (0.0, 0)
        parameters = [(p, of_node.get(p, none)) for p in body.parameters]
        return Work(
            int(flops),
            tuple(_rounded(f32(f32(bytes_of(p.shape)) * times)) for p, (times, _) in parameters),
            sum(updated.get(result, bytes_of(shape)) for result, shape in _results(root)),
            tuple(times for _, (times, _) in parameters),
            size,
            tuple(emitted for _, (_, emitted) in parameters),
            tuple(groups.get(p, {}) for p in body.parameters),
            groups[root],
            use,
        )


def _hands_groups_on(node: Node) -> bool:
    """Whether the operands of an operation are used as its result is."""
    if node.opcode in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT):
        return True
    if node.opcode == opcodes.BITCAST:
        given, result = node.operands[0].shape, node.shape
        return (
            isinstance(given, ArrayShape)
            and isinstance(result, ArrayShape)
            and given.dimensions == result.dimensions
            and given.layout == result.layout
        )
    return is_elementwise(node)


def _results(root: Node) -> list[tuple[Node, ArrayShape]]:
    """Nodes that compute the arrays of a result, with their shapes."""
    if root.opcode == opcodes.TUPLE:
        return [found for operand in root.operands for found in _results(operand)]
    return [(root, array) for array in arrays_of(root.shape)]


def _written_by_updates(root: Node) -> dict[Node, int]:
    """Bytes that results write which are dynamic-update-slices: those of the update."""
    return {
        result: bytes_of(result.operands[1].shape)
        for result, _ in _results(root)
        if result.opcode == opcodes.DYNAMIC_UPDATE_SLICE
    }


def _whole(utilization: float, elements: int) -> float:
    """A utilization rounded up to whole elements."""
    return f32(ceil(f32(utilization * f32(elements))) / elements) if elements else 0.0


def _rounded(value: float) -> int:
    """Nearest integer, halves up (`std::llround`)."""
    return floor(value + 0.5)
