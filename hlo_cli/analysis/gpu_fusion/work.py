"""Work of an operation or fusion on a GPU: cycles, bytes of operands and results, and how often elements are used.

Mirrors `GpuHloCostAnalysis` of xla/service/gpu/model/gpu_hlo_cost_analysis.cc with `count_multiple_input_accesses`, and
xla/service/hlo_cost_analysis.cc: an operand counts every access, and arithmetic is in single precision.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

from hlo_cli.analysis.fusion.code_duplication import users_first
from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.analysis.gpu_fusion.durations import f32
from hlo_cli.analysis.gpu_fusion.operation_work import OperationWork
from hlo_cli.analysis.gpu_fusion.shapes import Sizes, arrays_of, bytes_of, elements_of
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

    __slots__ = ("_operations", "_sizes")

    def __init__(self, profile: str, sizes: Sizes | None = None) -> None:
        self._sizes = sizes or Sizes()
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
        root = body.root
        groups: dict[Node, dict[Node, None]] = {root: {root: None}}
        use, copies = {root: _ONE}, {root: 1}
        updated = _written_by_updates(root)
        of_parameter: dict[Node, tuple[float, int]] = {}
        flops, size = 0.0, 0
        for node in users_first(body):
            own = groups[node]
            times, emitted = 0.0, 0
            for group in own:
                times = f32(times + use[group]) if times else use[group]
                emitted += copies[group]
            size += emitted
            if node.opcode == opcodes.PARAMETER:
                of_parameter[node] = times, emitted
                continue
            basic = self._operations.of(node)
            if basic.flops:
                flops = f32(flops + (basic.flops if times == _ONE else f32(times * basic.flops)))
            if basic.hands_groups_on:
                for operand in node.operands:
                    _join(groups, operand, own)
                continue
            for place, operand in enumerate(node.operands):
                share = 0.0 if place == 0 and node in updated else basic.utilization[place]
                _join(groups, operand, {operand: None})
                use[operand] = f32(use.get(operand, 0.0) + _whole(f32(times * share), elements_of(operand.shape)))
                copies[operand] = copies.get(operand, 0) + emitted
        none = (0.0, 0)
        parameters = [(p, of_parameter.get(p, none)) for p in body.parameters]
        return Work(
            int(flops),
            tuple([_rounded(f32(f32(self._sizes.of(p.shape)) * times)) for p, (times, _) in parameters]),
            sum(updated.get(result, bytes_of(shape)) for result, shape in _results(root)),
            tuple([times for _, (times, _) in parameters]),
            size,
            tuple([emitted for _, (_, emitted) in parameters]),
            tuple([groups.get(p, {}) for p in body.parameters]),
            groups[root],
            use,
        )


def _join(groups: dict[Node, dict[Node, None]], node: Node, more: dict[Node, None]) -> None:
    """Adds groups to those of a node; nodes in the same groups share them, so no dict is changed."""
    known = groups.get(node)
    if known is None:
        groups[node] = more
    elif known is not more:
        groups[node] = {**known, **more}


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
