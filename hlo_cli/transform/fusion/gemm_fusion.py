"""Which operations around a dot does XLA:GPU put into the dot's kernel of Triton, and why does it stop where it does?

Mirrors xla/backends/gpu/transforms/gemm_fusion.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.dimension_order import (
    NO_SPLIT,
    DimensionOrder,
    Iteration,
    Refusal,
    Side,
    combine_splits,
    has_type,
    join_as_input,
    join_as_output,
    orders_of_operands,
)
from hlo_cli.analysis.fusion.gemm_tiles import dot_sizes, operand_dimensions
from hlo_cli.analysis.fusion.gpu_emitters import sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import FusionBody, MutableGraph, Node
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.fusion.gemm_rewrites import NodeMaker

# --- what was decided on a dot ---


class Stop(NamedTuple):
    """An operation that did not join, at operand 0 or 1 of the dot or at its result (2), and why, in XLA's words."""

    operation: str
    side: int
    reason: str


@dataclass(frozen=True, slots=True)
class FusedDot:
    """A dot that became a kernel of Triton: the fusion, the operations that it computes, and where it stopped.

    `reason` is why the dot stays as it is; then there is no fusion.
    """

    dot: str
    fusion: str = ""
    operations: tuple[str, ...] = ()
    stops: tuple[Stop, ...] = ()
    reason: str = ""


# --- which dots ---
# Mirrors `IsTritonSupportedInstruction` of xla/backends/gpu/codegen/triton/support_legacy.cc for dots, and
# `IsMatrixMultiplicationTooSmallForRewriting` of xla/service/gpu/matmul_utils.cc.


TINY: Final = "Too small: XLA's loop emitter computes it"
_MIN_SIZE: Final = 100
"""xla_gpu_gemm_rewrite_size_threshold: smaller dots are computed without a library."""
_LOOP_TYPES: Final = ("f16", "bf16", "f32")
"""Results of dots that the loop emitter computes."""
_RESULTS: Final = ("f16", "bf16", "f32", "f64", "s32")
_UNSET_TYPES: Final = ("f16", "bf16", "f32", "f64", "s8", "f8e5m2", "f8e4m3fn")
_BYTE_FLOATS: Final = frozenset(("f8e5m2", "f8e4m3fn"))
_ALGORITHMS: Final = frozenset(
    "dot_f16_f16_f32 dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_bf16_bf16_f32_x9 "
    "dot_tf32_tf32_f32 dot_tf32_tf32_f32_x3 dot_f32_f32_f32 dot_f64_f64_f64".split()
)
_MAX_PARAMETERS: Final = 4
"""`TritonFusionAnalysis::kMaxParameterPerDotOperand`: arguments that the operations at one operand may have."""
_KIND: Final = '{"fusion_backend_config":{"kind":"__triton_gemm"}}'


def reason_against(dot: Node, device: GpuDevice) -> str:
    """Why Triton does not compute a dot; empty if it does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "r = f32[2,4] dot(f32[2,3] a, f32[3,4] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> reason_against(mutable_graph_of(parse_module(text).entry).root, gpu_device("h100"))
    "Too small: XLA's loop emitter computes it"
    """
    _, rows, columns, contracted = dot_sizes(dot)
    if (rows + columns) * contracted < _MIN_SIZE and type_of(dot) in _LOOP_TYPES:
        return TINY
    left, right = operand_dimensions(dot, 0), operand_dimensions(dot, 1)
    if not left.own or not right.own:
        return "No non-contracting dimensions."
    if len(left.contracting) != 1 or len(left.own) != 1 or len(right.own) != 1:
        return "Several dimensions of one kind."
    return _reason_of_types(dot, device)


def _reason_of_types(dot: Node, device: GpuDevice) -> str:
    result = type_of(dot)
    one, other = (type_of(operand) for operand in dot.operands[:2])
    algorithm = dot.instruction.attribute("algorithm") or ""
    if algorithm not in ("", "dot_any_f8_any_f8_f32", *_ALGORITHMS):
        return f"Unsupported algorithm on the current device(s): {algorithm}"
    if result not in _RESULTS and not (result in _BYTE_FLOATS and has_type(result, device)):
        return "Unsupported output data type for Dot op."
    for each in (one, other):
        if each != "f64" and not has_type(each, device):
            return "Unsupported input data type for Dot op."
    if one != other and {one, other} != _BYTE_FLOATS:
        return "Different operand types."
    if (result == "s32") != (one == "s8"):
        return "Currently, S32 output is only supported for 8-bit integral inputs."
    if not algorithm and one not in _UNSET_TYPES:
        return "Unsupported input data type for Dot op."
    if (one == "f64") != (result == "f64"):
        return "Unsupported output data type for Dot op."
    return ""


# --- the kernel of a dot ---


def fuse_dots(graph: MutableGraph, device: GpuDevice, maker: NodeMaker) -> list[FusedDot]:
    """Makes kernels of Triton of the dots of a graph, with the operations around them.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> from hlo_cli.transform.rewriting import ModuleNames
    >>> text = '''ENTRY e { a = bf16[64,64] parameter(0)  b = s8[64,64] parameter(1)  c = bf16[64,64] convert(b)
    ... d = bf16[64,64] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ... ROOT n = bf16[64,64] negate(d) }'''
    >>> module = parse_module(text)
    >>> fuse_dots(mutable_graph_of(module.entry), gpu_device("h100"), NodeMaker(ModuleNames(module)))
    [FusedDot(dot='d', fusion='gemm_fusion_d', operations=('c', 'd', 'n'), stops=(), reason='')]
    """
    found = []
    for dot in [node for node in graph.sorted_nodes() if node.opcode == opcodes.DOT]:
        if reason := reason_against(dot, device):
            found.append(FusedDot(dot.name, reason=reason))
            continue
        kernel = _Kernel(graph, dot, device, maker)
        kernel.grow()
        if kernel.has_minor_batch:
            reason = "Fusion is not possible because the parameter with the type S4 has minor batch dimension."
            found.append(FusedDot(dot.name, reason=reason))
            continue
        found.append(kernel.replace())
    if any(each.fusion for each in found):
        graph.sort_topologically()
    return found


@dataclass(slots=True)
class _Planned:
    """A value that the kernel computes or reads, as it is walked in one order."""

    node: Node
    order: DimensionOrder
    joins: bool = False
    operands: list[_Planned] = field(default_factory=list)
    inner: Node | None = None


@dataclass(slots=True)
class _Kernel:
    """The kernel of a dot while operations join it."""

    graph: MutableGraph
    dot: Node
    device: GpuDevice
    maker: NodeMaker
    arguments: list[Node] = field(default_factory=list)
    nodes: dict[Node, None] = field(default_factory=dict)
    parameters: list[Node] = field(default_factory=list)
    taken: list[Node] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    has_minor_batch: bool = False
    output: Node = field(init=False)
    root: Node = field(init=False)

    def grow(self) -> None:
        """Lets operations join: at the left operand, at the right one, then at the result."""
        split = NO_SPLIT
        operands = []
        for number in (0, 1):
            own = operand_dimensions(self.dot, number)
            # Only rows may be split, and only without a batch.
            side = Side(own.own[0], own.own[0] if number == 0 and not own.batch else -1)
            operand = self.dot.operands[number]
            shape = operand.shape
            assert isinstance(shape, ArrayShape)
            order = DimensionOrder.of_tensor(shape)
            inner, required = self._join_operands(operand, order, side, NO_SPLIT, number, _MAX_PARAMETERS)
            operands.append(inner)
            split = required if number == 0 else split
        self.root = self._clone(self.dot, operands)
        self.output = self.dot
        shape = self.dot.shape
        assert isinstance(shape, ArrayShape)
        # The result has batch dimensions first, but a split dimension only without any.
        self._join_users(DimensionOrder.of_tensor(shape), Side(splittable=0 if split > 1 else -1), split)

    def _join_operands(
        self, node: Node, order: DimensionOrder, side: Side, split: int, number: int, limit: int | None
    ) -> tuple[Node, int]:
        """Lets a value and what it is computed from join; returns the inner value and the required split."""
        first = _Planned(node, order)
        known: dict[tuple[Node, Iteration], _Planned] = {(node, order.iteration()): first}
        edge = {id(first)}
        queue = deque([first])
        passed = 0  # operations in a row that would exceed the limit
        while len(queue) > passed:
            planned = queue.popleft()
            if limit is not None and len(edge) + _added_arguments(planned.node) > limit:
                queue.append(planned)
                passed += 1
                continue
            passed = 0
            if planned.node.opcode in (opcodes.PARAMETER, opcodes.DYNAMIC_SLICE):
                continue
            try:
                orders, required = join_as_input(planned.node, planned.order, side, self.device)
                split = combine_splits(split, required)
            except Refusal as refusal:
                self.stops.append(Stop(planned.node.name, number, refusal.reason))
                continue
            edge.discard(id(planned))
            for operand in planned.node.operands:
                key = operand, orders[operand].iteration()
                if key not in known:
                    known[key] = _Planned(operand, orders[operand])
                    edge.add(id(known[key]))
                    queue.append(known[key])
                planned.operands.append(known[key])
            planned.joins = True
        reason = f"more than {limit} arguments at this operand"
        self.stops.extend(Stop(each.node.name, number, reason) for each in queue)
        return self._build(first, number), split

    def _join_users(self, order: DimensionOrder, side: Side, split: int) -> None:
        """Lets the users of the result join, as long as there is one."""
        while len(self.output.users) == 1:
            (user,) = self.output.users
            try:
                result, required = join_as_output(
                    user, self.output, order, side, self.device, is_last=self._is_last(user)
                )
                split = combine_splits(split, required)
                operands = []
                orders = dict[Node, DimensionOrder]()
                if len(user.operands) > 1:
                    orders, required = orders_of_operands(user, result, side)
                    split = combine_splits(split, required)
            except Refusal as refusal:
                self.stops.append(Stop(user.name, 2, refusal.reason))
                return
            for operand in user.operands:
                if operand is self.output:
                    operands.append(self.root)
                else:
                    inner, split = self._join_operands(operand, orders[operand], side, split, 2, None)
                    operands.append(inner)
            self.root = self._clone(user, operands)
            self.output, order = user, result
        if len(self.output.users) > 1:
            self.stops.append(Stop(self.output.name, 2, "Has several users"))

    def _is_last(self, node: Node) -> bool:
        """Whether no user of a node could join."""
        if node is self.graph.root:
            return True
        users = list(node.users)
        return len(users) == 1 and users[0] is self.graph.root and users[0].opcode == opcodes.TUPLE

    def _build(self, planned: _Planned, number: int) -> Node:
        """The inner node of a planned value; operands first."""
        waiting = [planned]
        while waiting:
            each = waiting[-1]
            missing = [operand for operand in each.operands if operand.inner is None] if each.joins else []
            if each.inner is not None or not missing:
                waiting.pop()
                if each.inner is None:
                    each.inner = self._inner(each, number)
            else:
                waiting.append(missing[0])
        assert planned.inner is not None
        return planned.inner

    def _inner(self, planned: _Planned, number: int) -> Node:
        if planned.joins:
            return self._clone(planned.node, [each.inner for each in planned.operands if each.inner is not None])
        place = len(self.arguments)
        self.arguments.append(planned.node)
        name = self.maker.names.instructions.new(f"parameter_{place}")
        made = Node(planned.node.instruction, (), opcode=opcodes.PARAMETER, name=name)
        made.shape, made.number = planned.node.shape, place
        self.parameters.append(made)
        self.nodes[made] = None
        batch = operand_dimensions(self.dot, number).batch if number < 2 else ()
        if batch and type_of(planned.node) == "s4":
            runs = dict(planned.order.iteration()).get(batch[0], ())
            self.has_minor_batch |= bool(runs) and runs[0].stride == 1
        return made

    def _clone(self, node: Node, operands: Iterable[Node]) -> Node:
        self.taken.append(node)
        name = self.maker.names.instructions.new(node.name)
        clone = Node(node.instruction, operands, opcode=node.opcode, name=name)
        clone.shape, clone.body, clone.kind, clone.number = node.shape, node.body, node.kind, node.number
        self.nodes[clone] = None
        return clone

    def replace(self) -> FusedDot:
        """Replaces the result in the graph by a fusion, and removes what nothing else uses."""
        wanted = f"gemm_fusion_{self.dot.name}"
        body_name = self.maker.names.computations.new(f"{wanted}_computation")
        metadata = [each for each in self.dot.instruction.attributes if each.name == "metadata"]
        attributes = (Attribute("kind", "kCustom"), Attribute("calls", f"%{body_name}"), *metadata,
                      Attribute("backend_config", _KIND))  # fmt: skip
        fusion = self.maker.node(
            opcodes.FUSION, self.root.shape, self.arguments, source=self.dot, attributes=attributes, name=wanted
        )
        fusion.kind = "kCustom"
        fusion.body = FusionBody(self.root, self.nodes, self.parameters, None, body_name)
        operands = list(self.output.operands)
        self.graph.replace(fusion, self.output)
        remove_unused(self.graph, operands)
        names = dict.fromkeys(node.name for node in self.taken)
        return FusedDot(self.dot.name, fusion.name, tuple(names), tuple(self.stops))


def remove_unused(graph: MutableGraph, nodes: Iterable[Node]) -> None:
    """Removes nodes without users, and operands that only they used (`RemoveInstructionAndUnusedOperands`)."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.users or node is graph.root or node.opcode == opcodes.PARAMETER or node not in graph.position:
            continue
        operands = list(dict.fromkeys(node.operands))
        graph.remove(node)
        waiting += operands


def _added_arguments(node: Node) -> int:
    """Arguments that a kernel gains when a value is computed inside."""
    # A constant that is no scalar is read like an argument.
    if node.opcode == opcodes.PARAMETER or (node.opcode == opcodes.CONSTANT and sizes_of(node)):
        return 0
    return len(node.operands) - 1
