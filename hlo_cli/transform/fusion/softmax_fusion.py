"""Which normalizations does XLA:GPU make one kernel of Triton, with which tile, and why not the others?

Mirrors xla/backends/gpu/transforms/softmax_rewriter_triton.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.dimension_order import has_type, is_bitcast_reshape, is_elementwise_in_triton
from hlo_cli.analysis.fusion.gpu_emitters import Part, View, type_of
from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.gpu_rules import NO_TILING
from hlo_cli.analysis.fusion.mutable_graph import FusionBody, MutableGraph, Node, is_elementwise
from hlo_cli.analysis.fusion.triton_model import NotTiled, Tiling, TritonModel, TritonTiles
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.layout import default_layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.fusion.gemm_fusion import remove_unused
from hlo_cli.transform.fusion.gemm_rewrites import NodeMaker, set_block_config
from hlo_cli.transform.fusion.gpu_passes import GpuMultiOutputFusion
from hlo_cli.transform.fusion.gpu_priority_fusion import PriorityFusion
from hlo_cli.transform.rewriting import ModuleNames

# --- diamonds ---
# An elementwise operation of a value and of what a reduction of the rows of the same value gives.


class Diamond(NamedTuple):
    """The operation at the end, and the value at the begin, which is reduced and read again."""

    root: Node
    producer: Node


def diamonds_of(graph: MutableGraph, device: GpuDevice) -> list[Diamond]:
    """The diamonds of a graph, in XLA's order of operations."""
    found = []
    for node in graph.sorted_nodes():
        producer = _producer_of(node, device)
        if producer is not None:
            found.append(Diamond(node, producer))
    return found


def _producer_of(root: Node, device: GpuDevice) -> Node | None:
    """The value at the begin of the diamond that ends in an operation, None without one."""
    if len(root.operands) != 2 or not _is_supported(root, device):
        return None
    broadcast = _trivially_above(root.operands[1], opcodes.BROADCAST, device)
    if broadcast is None:
        return None
    reduce = _trivially_above(broadcast.operands[0], opcodes.REDUCE, device)
    if reduce is None or not _is_row_reduction(reduce, device):
        return None
    if not (_has_default_layout(broadcast) and _has_default_layout(reduce)):
        return None
    if len(broadcast.users) != 1 or len(reduce.users) != 1:
        return None
    shape = broadcast.shape
    assert isinstance(shape, ArrayShape)
    if shape.rank - 1 in broadcast.instruction.integers("dimensions"):
        return None
    producer = reduce.operands[0]
    while _is_trivial(producer, device):
        producer = _value_of(producer)
    if not _has_default_layout(producer) or not _leads_to(root.operands[0], producer, device):
        return None
    if producer is not root.operands[0] and len(root.operands[0].users) != 1:
        return None
    return producer


def _leads_to(node: Node, producer: Node, device: GpuDevice) -> bool:
    """Whether a value is computed from another by trivial operations alone."""
    while node is not producer:
        if not _is_trivial(node, device):
            return False
        node = _value_of(node)
    return True


def _trivially_above(node: Node, opcode: str, device: GpuDevice) -> Node | None:
    while node.opcode != opcode:
        if not _is_trivial(node, device):
            return None
        node = _value_of(node)
    return node


def _is_trivial(node: Node, device: GpuDevice) -> bool:
    """Whether an operation is computed on the way, from one value."""
    if len(node.users) > 1 or not isinstance(node.shape, ArrayShape) or not _has_default_layout(node):
        return False
    # XLA makes bitcasts of such reshapes before.
    if node.opcode == opcodes.BITCAST or (node.opcode == opcodes.RESHAPE and is_bitcast_reshape(node)):
        return _has_types(node, device)
    if not node.operands or not _is_supported(node, device):
        return False
    if len(node.operands) == 1:
        return True
    if len(node.operands) != 2:
        return False
    one, other = node.operands
    return one is other or _is_splat(one) != _is_splat(other)


def _value_of(node: Node) -> Node:
    """The operand of a trivial operation that is not repeated for all elements."""
    if len(node.operands) == 2 and _is_splat(node.operands[0]):
        return node.operands[1]
    return node.operands[0]


def _is_splat(node: Node) -> bool:
    """Whether a value is a broadcast of a constant scalar or of an argument."""
    if node.opcode != opcodes.BROADCAST:
        return False
    source = node.operands[0]
    is_scalar = isinstance(source.shape, ArrayShape) and not source.shape.dimensions
    return source.opcode == opcodes.PARAMETER or (source.opcode == opcodes.CONSTANT and is_scalar)


def _is_supported(node: Node, device: GpuDevice) -> bool:
    return (
        is_elementwise(node)
        and bool(node.operands)
        and is_elementwise_in_triton(node.opcode, type_of(node.operands[0]))
        and _has_types(node, device)
    )


def _has_types(node: Node, device: GpuDevice) -> bool:
    return all(type_of(each) == "f64" or has_type(type_of(each), device) for each in (node, *node.operands))


def _is_row_reduction(reduce: Node, device: GpuDevice) -> bool:
    """Whether a reduction is of the last dimension alone, from a constant."""
    operand = reduce.operands[0].shape
    if len(reduce.operands) != 2 or not isinstance(operand, ArrayShape) or not _has_types(reduce, device):
        return False
    initial = reduce.operands[1]
    if initial.opcode == opcodes.CONVERT:
        initial = initial.operands[0]
    is_last = reduce.instruction.integers("dimensions") == (operand.rank - 1,)
    return is_last and initial.opcode == opcodes.CONSTANT


def _has_default_layout(node: Node) -> bool:
    shape = node.shape
    return isinstance(shape, ArrayShape) and shape.layout.minor_to_major == default_layout(shape.rank).minor_to_major


# --- one kernel or several ---


SLOWER: Final = "slower as one kernel"


@dataclass(frozen=True, slots=True)
class FusedSoftmax:
    """A diamond, the fusion that it became, and XLA's two times in ticks; without a fusion, `reason` says why.

    `tilings` is the number of tilings, `valid` how many of them a block can hold. The times have no launches.
    """

    root: str
    producer: str
    fusion: str = ""
    reason: str = ""
    tilings: int = 0
    valid: int = 0
    tiling: Tiling | None = None
    unfused_ticks: int | None = None


def fuse_softmax(graph: MutableGraph, device: GpuDevice, maker: NodeMaker) -> list[FusedSoftmax]:
    """Makes kernels of Triton of the diamonds of a graph, the last first, where XLA does."""
    model = TritonModel(device)
    found = [_Attempt(graph, diamond, device, maker, model).run() for diamond in reversed(diamonds_of(graph, device))]
    if any(each.fusion for each in found):
        graph.sort_topologically()
    return found


class _Attempt:
    """One diamond."""

    def __init__(
        self, graph: MutableGraph, diamond: Diamond, device: GpuDevice, maker: NodeMaker, model: TritonModel
    ) -> None:
        self.graph = graph
        self.root, self.producer = diamond
        self.device = device
        self.maker = maker
        self.model = model
        self.arguments: list[Node] = [self.producer]

    def run(self) -> FusedSoftmax:
        """Tries the diamond as one kernel."""
        fusion = self._fusion()
        try:
            tiles = TritonTiles(View(Part(fusion)))
        except NotTiled as problem:
            fusion.detach()
            return self._left(str(problem))
        tried = self.model.tilings(tiles)
        valid = [tiling for tiling in tried if tiling is not None]
        if not valid:
            fusion.detach()
            return self._left(NO_TILING, len(tried))
        best = min(valid, key=lambda tiling: tiling.ticks)
        apart = self._unfused_ticks()
        if apart < best.ticks:
            fusion.detach()
            return self._left(SLOWER, len(tried), len(valid), best, apart)
        set_block_config(fusion, best, self.maker)
        operands = list(self.root.operands)
        self.graph.replace(fusion, self.root)
        remove_unused(self.graph, operands)
        counts = len(tried), len(valid)
        return FusedSoftmax(self.root.name, self.producer.name, fusion.name, "", *counts, best, apart)

    def _left(
        self, reason: str, tilings: int = 0, valid: int = 0, best: Tiling | None = None, apart: int | None = None
    ) -> FusedSoftmax:
        return FusedSoftmax(self.root.name, self.producer.name, "", reason, tilings, valid, best, apart)

    def _order(self) -> list[Node]:
        """Operations of the diamond, operands first; arguments are among them."""
        order: list[Node] = []
        done = {self.producer}
        waiting = [self.root]
        while waiting:
            node = waiting[-1]
            missing = [operand for operand in node.operands if operand not in done]
            if missing and node not in done:
                waiting += reversed(missing)
                continue
            waiting.pop()
            if node not in done:
                done.add(node)
                order.append(node)
        return order

    def _fusion(self) -> Node:
        """The diamond as a fusion that is in no graph."""
        names = self.maker.names
        body_name = names.computations.new("triton_softmax_computation")
        nodes: dict[Node, None] = {}
        parameters: list[Node] = []

        def parameter(node: Node) -> Node:
            made = Node(node.instruction, (), opcode=opcodes.PARAMETER,
                        name=names.instructions.new(f"parameter_{len(parameters)}"))  # fmt: skip
            made.shape, made.number = node.shape, len(parameters)
            parameters.append(made)
            return made

        inner = {self.producer: parameter(self.producer)}
        nodes[inner[self.producer]] = None
        for node in self._order():
            if node.opcode == opcodes.PARAMETER:
                self.arguments.append(node)
                inner[node] = parameter(node)
            else:
                inner[node] = clone_of(node, [inner[operand] for operand in node.operands], names)
            nodes[inner[node]] = None
        attributes = (Attribute("kind", "kCustom"), Attribute("calls", f"%{body_name}"),
                      *(each for each in self.root.instruction.attributes if each.name == "metadata"))  # fmt: skip
        fusion = self.maker.node(opcodes.FUSION, self.root.shape, self.arguments, source=self.root,
                                 attributes=attributes, name="triton_softmax")  # fmt: skip
        fusion.kind = "kCustom"
        fusion.body = FusionBody(inner[self.root], nodes, parameters, None, body_name)
        return fusion

    def _unfused_ticks(self) -> int:
        """Time of the diamond as XLA's other passes fuse it, without launches."""
        names = self.maker.names
        outside: dict[Node, Node] = {}
        order: list[Node | None] = []
        for number, argument in enumerate(self.arguments):
            outside[argument] = made = Node(argument.instruction, (), opcode=opcodes.PARAMETER, name=argument.name)
            made.shape, made.number = argument.shape, number
            order.append(made)
        for node in self._order():
            if node not in outside:
                outside[node] = clone_of(node, [outside[operand] for operand in node.operands], names)
                order.append(outside[node])
        position = {node: place for place, node in enumerate(order) if node is not None}
        graph = MutableGraph(self.graph.computation, order, outside[self.root], position, {})
        model = KernelModel(self.device)
        PriorityFusion(graph, model, names, dict(position)).run()
        GpuMultiOutputFusion(graph, model, names).run()
        free = (opcodes.PARAMETER, opcodes.CONSTANT, opcodes.BITCAST, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT)
        return sum(model.time(node).ticks for node in graph.nodes if node.opcode not in free)


def clone_of(node: Node, operands: Sequence[Node], names: ModuleNames) -> Node:
    """A copy of a node with other operands, which is in no graph."""
    clone = Node(node.instruction, operands, opcode=node.opcode, name=names.instructions.new(node.name))
    clone.shape, clone.body, clone.kind, clone.number = node.shape, node.body, node.kind, node.number
    return clone
