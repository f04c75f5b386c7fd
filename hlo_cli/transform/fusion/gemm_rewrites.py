"""How does XLA:GPU rewrite dots next to making kernels of Triton: split-K, bitcasts, and swapped operands?

The passes change graphs of nodes. What they make has no instruction in the module, so `NodeMaker` makes one for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.gemm_tiles import (
    Zeros,
    accumulator_type,
    dot_sizes,
    operand_dimensions,
    padded_contraction,
    split_of,
)
from hlo_cli.analysis.fusion.gpu_emitters import inverse, sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import FusionBody, MutableGraph, Node, is_elementwise, users_first
from hlo_cli.analysis.fusion.triton_model import Tiling
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.layout import PRIMITIVE_TYPES, default_layout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.transform.rewriting import CopyReader, ModuleNames

# --- instructions that a pass makes ---


class _MadeReader(CopyReader):
    """Reads what made instructions have of their sources; constants are zeros."""

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant."""
        shape = instruction.shape
        assert isinstance(shape, ArrayShape)
        return ArrayLiteral(shape, Zeros())


class NodeMaker:
    """Makes nodes, with instructions of their own, for passes over the computations of a module.

    `computations` are those that were made; the module needs them before it is built from the graphs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> module = parse_module("ENTRY e { ROOT p = s8[2] parameter(0) }")
    >>> graph = mutable_graph_of(module.entry)
    >>> node = NodeMaker(ModuleNames(module)).node("not", graph.root.shape, [graph.root], source=graph.root)
    >>> node, node.instruction.attributes, [each.name for each in graph.root.users]
    (<node not not>, (), ['not'])
    """

    __slots__ = ("_holders", "computations", "names")

    def __init__(self, names: ModuleNames) -> None:
        self.names = names
        self.computations: list[Computation] = []
        self._holders: dict[Computation, tuple[Computation, list[Instruction]]] = {}

    def instruction(
        self,
        opcode: str,
        shape: Shape,
        source: Instruction,
        attributes: Iterable[Attribute] = (),
        *,
        name: str = "",
        argument: str = "",
    ) -> Instruction:
        """An instruction that is in no module; `source` is what it is made for."""
        if source.computation not in self._holders:
            # What is made for what was made belongs to the same computation.
            known = next((pair for pair in self._holders.values() if pair[0] is source.computation), None)
            sources = known[1] if known is not None else list[Instruction]()
            holder = known[0] if known is not None else Computation(source.computation.name)
            holder.reader = known[0].reader if known is not None else _MadeReader(source.computation, sources)
            self._holders[source.computation] = holder, sources
        holder, sources = self._holders[source.computation]
        text = InstructionText(tuple(attributes), argument, source.span)
        made = Instruction(name or opcode, shape, opcode, (), holder, len(sources), text)
        sources.append(source)
        return made

    def node(
        self,
        opcode: str,
        shape: Shape,
        operands: Sequence[Node],
        *,
        source: Node,
        attributes: Iterable[Attribute] = (),
        name: str = "",
        argument: str = "",
    ) -> Node:
        """A node that is still in no graph."""
        name = self.names.instructions.new(name or opcode)
        made = self.instruction(opcode, shape, source.instruction, attributes, name=name, argument=argument)
        return Node(made, operands)

    def set_attributes(self, node: Node, changed: dict[str, str], shape: Shape) -> None:
        """Gives a node another shape and other values of attributes; those that it does not have are appended."""
        old = node.instruction
        kept = [Attribute(each.name, changed.get(each.name, each.value)) for each in old.attributes]
        known = {each.name for each in kept}
        added = [Attribute(name, value) for name, value in changed.items() if name not in known]
        node.instruction = self.instruction(node.opcode, shape, old, (*added, *kept), name=old.name)
        node.instruction.called_computations = old.called_computations
        node.shape = shape

    def sum_computation(self, name: str, element: str) -> Computation:
        """A computation that adds two scalars."""
        shape = array_shape(element, ())
        made = Computation(self.names.computations.new(name))
        parameters = [
            Instruction(
                self.names.instructions.new(wanted),
                shape,
                opcodes.PARAMETER,
                (),
                made,
                number,
                InstructionText((), str(number)),
            )
            for number, wanted in enumerate(("lhs", "rhs"))
        ]
        place = len(parameters)
        root = Instruction(self.names.instructions.new(opcodes.ADD), shape, opcodes.ADD, tuple(parameters), made, place,
                           InstructionText(()))  # fmt: skip
        made.instructions, made.parameters, made.root = (*parameters, root), tuple(parameters), root
        self.computations.append(made)
        return made


def set_block_config(fusion: Node, tiling: Tiling, maker: NodeMaker) -> None:
    """Writes the tile and the warps of a fusion of Triton into its backend_config."""
    config = {
        "fusion_backend_config": {
            "kind": "__triton",
            "block_level_fusion_config": {
                "num_warps": str(tiling.warps),
                "output_tiles": [{"sizes": [str(side) for side in tiling.tile]}],
                "num_ctas": 1,
                "num_stages": 1,
                "is_tma_allowed": False,
                "is_warp_specialization_allowed": False,
                "waves_per_eu": 0,
            },
        }
    }
    text = json.dumps(config, separators=(",", ":"))
    if fusion.instruction.opcode == opcodes.FUSION:
        maker.set_attributes(fusion, {"backend_config": text}, _array(fusion))
        return
    # A fusion of an operation has no instruction of its own yet.
    attributes = (Attribute("kind", fusion.kind), Attribute("calls", ""), *_metadata(fusion.instruction))
    made = maker.instruction(
        opcodes.FUSION,
        fusion.shape,
        fusion.instruction,
        (*attributes, Attribute("backend_config", text)),
        name=fusion.name,
    )
    fusion.instruction = made


def array_shape(element: str, sizes: Sequence[int], minor_to_major: Sequence[int] | None = None) -> ArrayShape:
    """A shape of an element type, in the default layout unless another is given.

    >>> print(array_shape("f32", (2, 3)))
    f32[2,3]{1,0}
    """
    layout = default_layout(len(sizes))
    if minor_to_major is not None:
        layout = replace(layout, minor_to_major=tuple(minor_to_major))
    return ArrayShape(PRIMITIVE_TYPES[element], tuple(sizes), (False,) * len(sizes), layout)


def _resized(shape: ArrayShape, sizes: Sequence[int], minor_to_major: Sequence[int]) -> ArrayShape:
    """Other dimensions of the same elements."""
    layout = replace(shape.layout, minor_to_major=tuple(minor_to_major))
    return replace(shape, dimensions=tuple(sizes), dynamic_dimensions=(False,) * len(sizes), layout=layout)


def _list(name: str, numbers: Iterable[int]) -> Attribute:
    return Attribute(name, index_text(numbers))


# --- split-K ---
# A dot of few rows and columns becomes a batch of dots, each of a part of the contracting dimension, and their sum.
#
# Mirrors xla/backends/gpu/transforms/splitk_rewriter.cc.


_DOT_DIMENSIONS: Final = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")


class SplitDot(NamedTuple):
    """A dot that was split: its name, the new dot, the number of parts, and the padded contracting size."""

    dot: str
    made: str
    parts: int
    contracted: int


def split_dots(graph: MutableGraph, device: GpuDevice, maker: NodeMaker) -> list[SplitDot]:
    """Splits the dots of a graph that XLA splits.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = '''ENTRY e { a = bf16[64,8192] parameter(0)  b = bf16[8192,64] parameter(1)
    ... ROOT d = bf16[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> split_dots(graph, gpu_device("h100"), NodeMaker(ModuleNames(module)))
    [SplitDot(dot='d', made='dot', parts=64, contracted=8192)]
    >>> graph.root.opcode, print(graph.root.operands[0].operands[0].shape)
    f32[64,64,64]{2,1,0}
    ('convert', None)
    """
    found = []
    for dot in [node for node in graph.sorted_nodes() if node.opcode == opcodes.DOT]:
        parts = split_of(dot, device)
        if parts > 1:
            size = padded_contraction(dot, parts)
            found.append(SplitDot(dot.name, _split(graph, dot, parts, size, maker), parts, size))
    if found:
        graph.sort_topologically()
    return found


def _split(graph: MutableGraph, dot: Node, parts: int, size: int, maker: NodeMaker) -> str:
    """Splits a dot; returns the name of the dot of the parts."""
    source = dot.instruction
    places = [operand_dimensions(dot, number).contracting[0] for number in (0, 1)]
    operands = [_split_operand(graph, dot.operands[number], places[number], parts, size, maker) for number in (0, 1)]
    # The new dimension takes the contracting one's place, which moves up with all after it.
    batches = []
    at: int | None = None
    for number, place in enumerate(places):
        batch = [d + (d >= place) for d in operand_dimensions(dot, number).batch]
        # The batch dimensions of both operands correspond, so the place in the list is that of the left one.
        at = sum(d < place for d in batch) if at is None else at
        batch.insert(at, place)
        batches.append(batch)
    assert at is not None
    element = accumulator_type(dot)
    own = [
        [d for d in range(len(sizes_of(operand))) if d not in batch and d != place + 1]
        for operand, batch, place in zip(operands, batches, places, strict=True)
    ]
    sizes = [sizes_of(operands[0])[d] for d in (*batches[0], *own[0])] + [sizes_of(operands[1])[d] for d in own[1]]
    dimensions = (_list("lhs_batch_dims", batches[0]), _list("lhs_contracting_dims", [places[0] + 1]),
                  _list("rhs_batch_dims", batches[1]), _list("rhs_contracting_dims", [places[1] + 1]))  # fmt: skip
    others = [each for each in source.attributes if each.name not in _DOT_DIMENSIONS]
    made = maker.node(opcodes.DOT, array_shape(element, sizes), operands, source=dot, attributes=(*dimensions, *others))
    zero = maker.node(opcodes.CONSTANT, array_shape(element, ()), (), source=dot, argument="0")
    assert isinstance(dot.shape, ArrayShape)
    summed = replace(dot.shape, element_type=PRIMITIVE_TYPES[element])
    adding = maker.sum_computation(f"{made.name}.reduce_sub_computation", element)
    attributes = (_list("dimensions", [at]), Attribute("to_apply", f"%{adding.name}"), *_metadata(source))
    result = maker.node(opcodes.REDUCE, summed, (made, zero), source=dot, attributes=attributes)
    result.instruction.called_computations = (adding,)
    new = [made, zero, result]
    if element != type_of(dot):
        result = maker.node(opcodes.CONVERT, dot.shape, (result,), source=dot, attributes=_metadata(source))
        new.append(result)
    _replace(graph, dot, new)
    return made.name


def _split_operand(graph: MutableGraph, operand: Node, place: int, parts: int, size: int, maker: NodeMaker) -> Node:
    """The operand with its contracting dimension padded and as two dimensions, over the same bytes."""
    shape = operand.shape
    assert isinstance(shape, ArrayShape)
    if (missing := size - shape.dimensions[place]) > 0:
        padded = _resized(shape, [*shape.dimensions[:place], size, *shape.dimensions[place + 1 :]],
                          shape.layout.minor_to_major)  # fmt: skip
        zero = maker.node(opcodes.CONSTANT, array_shape(shape.element_type.name, ()), (), source=operand, argument="0")
        padding = "x".join(f"0_{missing if d == place else 0}" for d in range(shape.rank))
        graph.add(zero)
        operand = maker.node(
            opcodes.PAD, padded, (operand, zero), source=operand, attributes=[Attribute("padding", padding)]
        )
        graph.add(operand)
        shape = padded
    sizes = [*shape.dimensions[:place], parts, size // parts, *shape.dimensions[place + 1 :]]
    order: list[int] = []
    for d in shape.layout.minor_to_major:
        order += [d + 1] if d >= place else []
        order += [d] if d <= place else []
    made = maker.node(opcodes.RESHAPE, _resized(shape, sizes, order), (operand,), source=operand)
    graph.add(made)
    return made


def _metadata(source: Instruction) -> list[Attribute]:
    return [each for each in source.attributes if each.name == "metadata"]


def _replace(graph: MutableGraph, old: Node, new: Sequence[Node]) -> None:
    """Replaces a node by the last of others, which are added to the graph."""
    for node in new[:-1]:
        graph.add(node)
    graph.replace(new[-1], old)


# --- bitcasts out of kernels ---
# Bitcasts and reshapes that keep bytes in place move out of the kernel of a dot, to its operands and its result.
#
# Mirrors xla/backends/gpu/transforms/hoist_fused_bitcasts.cc. A bitcast at the result moves up through the kernel, so
# one that cancels those on the way is put there first.


_RESHAPES: Final = (opcodes.BITCAST, opcodes.RESHAPE)
_TRITON_GEMM: Final = '"kind":"__triton_gemm"'


class _Stays(Exception):
    """A bitcast cannot move past an operation."""


def is_dot_kernel(node: Node) -> bool:
    """Whether a node is the kernel of a dot that Triton compiles."""
    if node.kind != "kCustom" or node.body is None:
        return False
    return _TRITON_GEMM in (node.instruction.attribute("backend_config") or "").replace(" ", "")


def hoist_bitcasts(graph: MutableGraph, maker: NodeMaker) -> list[str]:
    """Moves bitcasts out of the kernels of dots; returns the names of the fusions that changed.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { p = f32[64,64] parameter(0)  r = f32[4096] parameter(1)  q = f32[64,64] bitcast(r)
    ... ROOT d = f32[64,64] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
    ... ENTRY e { a = f32[64,64] parameter(0)  b = f32[4096] parameter(1)
    ... ROOT k = f32[64,64] fusion(a, b), kind=kCustom, calls=f,
    ... backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}} }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> hoist_bitcasts(graph, NodeMaker(ModuleNames(module))), graph.root.operands
    (['k'], [<node parameter a>, <node bitcast bitcast>])
    """
    changed = [node.name for node in graph.sorted_nodes() if is_dot_kernel(node) and _Hoist(graph, node, maker).run()]
    if changed:
        graph.sort_topologically()
    return changed


class _Hoist:
    """Bitcasts of one kernel."""

    def __init__(self, graph: MutableGraph, fusion: Node, maker: NodeMaker) -> None:
        assert fusion.body is not None
        self.graph = graph
        self.fusion = fusion
        self.body: FusionBody = fusion.body
        self.maker = maker

    def run(self) -> bool:
        """Moves what can be moved; returns whether anything was."""
        changed = self._add_root_bitcast()
        # The order is that before any moves: those that follow from one are not visited.
        for node in users_first(self.body):
            if node.opcode not in _RESHAPES or node not in self.body.nodes:
                continue
            try:
                plan = self._plan(node)
            except _Stays:
                continue
            self._apply(node, plan)
            changed = True
        if changed:
            self.body.computation = None
            self.body.insertions = []
        return changed

    def _add_root_bitcast(self) -> bool:
        """Puts a bitcast at the result that cancels those after the dot, and its opposite after the fusion."""
        dot = next(node for node in self.body.nodes if node.opcode == opcodes.DOT)
        try:
            shape = self._shape_without_bitcasts(dot)
        except _Stays:
            return False
        root = self.body.root
        if root.shape == shape:
            return False
        self.body.root = self.maker.node(opcodes.BITCAST, shape, (root,), source=root)
        self.body.add(self.body.root)
        outside = self.maker.node(opcodes.BITCAST, self.fusion.shape, (), source=self.fusion)
        self.fusion.replace_by(outside)
        outside.operands = [self.fusion]
        self.fusion.users.add(outside)
        if self.graph.root is self.fusion:
            self.graph.root = outside
        self.graph.add(outside)
        self.fusion.shape = shape
        return True

    def _shape_without_bitcasts(self, dot: Node) -> ArrayShape:
        """Shape of the result if nothing after the dot changed dimensions by bitcasts."""
        given: dict[Node, ArrayShape] = {}
        node, shape = dot, _array(dot)
        waiting = [(dot, shape)]
        reached = {dot}
        while waiting:
            node, shape = waiting.pop(0)
            if node is self.body.root:
                return _typed(shape, _array(node))
            for user in node.users:
                wanted = _typed(shape, _array(user.operands[0]))
                if given.setdefault(user, wanted) != wanted:
                    raise _Stays
                if user not in reached:
                    reached.add(user)
                    waiting.append((user, _shape_after(user, wanted)))
        raise _Stays

    def _plan(self, bitcast: Node) -> list[tuple[Node, ArrayShape]]:
        """New shapes of what a bitcast is computed from, users first."""
        producers = set[Node]()
        waiting = list(bitcast.operands)
        while waiting:
            node = waiting.pop()
            if node not in producers:
                producers.add(node)
                waiting += node.operands
        if any(user is not bitcast and user not in producers for node in producers for user in node.users):
            raise _Stays
        if type_of(bitcast) != type_of(bitcast.operands[0]):
            raise _Stays
        shapes: dict[Node, ArrayShape] = {}
        _assign(shapes, bitcast.operands, _array(bitcast))
        plan = []
        for node in users_first(self.body):
            if node not in shapes or node.shape == shapes[node]:
                continue
            plan.append((node, shapes[node]))
            if not node.operands or node.opcode in _RESHAPES:
                continue
            if node.opcode == opcodes.BROADCAST:
                _assign(shapes, node.operands, _before_broadcast(node, shapes[node])[0])
            elif node.opcode == opcodes.TRANSPOSE:
                _assign(shapes, node.operands, _before_transpose(node, shapes[node])[0])
            elif is_elementwise(node):
                _assign(shapes, node.operands, shapes[node])
            else:
                raise _Stays
        return plan

    def _apply(self, bitcast: Node, plan: list[tuple[Node, ArrayShape]]) -> None:
        for node, shape in plan:
            if node.opcode == opcodes.PARAMETER:
                outer = self.maker.node(
                    opcodes.BITCAST, shape, (self.fusion.operands[node.number],), source=self.fusion
                )
                self.graph.add(outer)
                self.fusion.replace_operand(node.number, outer)
            elif node.opcode == opcodes.BROADCAST:
                self._set_dimensions(node, _before_broadcast(node, shape)[1], shape)
            elif node.opcode == opcodes.TRANSPOSE:
                self._set_dimensions(node, _before_transpose(node, shape)[1], shape)
            node.shape = shape
        (operand,) = bitcast.operands
        bitcast.replace_by(operand)
        if self.body.root is bitcast:
            self.body.root = operand
        bitcast.detach()
        self.body.remove(bitcast)

    def _set_dimensions(self, node: Node, dimensions: Sequence[int], shape: ArrayShape) -> None:
        self.maker.set_attributes(node, {"dimensions": index_text(dimensions)}, shape)


def _array(node: Node) -> ArrayShape:
    assert isinstance(node.shape, ArrayShape)
    return node.shape


def _typed(shape: ArrayShape, like: ArrayShape) -> ArrayShape:
    """The dimensions of one shape with the element type of another."""
    layout = replace(shape.layout, element_size_in_bits=like.layout.element_size_in_bits)
    return replace(shape, element_type=like.element_type, layout=layout)


def _assign(shapes: dict[Node, ArrayShape], nodes: Iterable[Node], shape: ArrayShape) -> None:
    """Notes new dimensions of nodes; they stay if another user needs other ones."""
    for node in nodes:
        wanted = _typed(shape, _array(node))
        if shapes.setdefault(node, wanted) != wanted:
            raise _Stays


def _shape_after(node: Node, operand: ArrayShape) -> ArrayShape:
    """Shape of an operation whose operand has other dimensions, before it is typed."""
    if node.opcode in _RESHAPES or is_elementwise(node):
        return operand
    try:
        if node.opcode == opcodes.BROADCAST:
            return _after_broadcast(node, operand)
        if node.opcode == opcodes.TRANSPOSE:
            given = _array(node.operands[0])
            return _transposed(operand, given, _array(node), inverse(node.instruction.integers("dimensions")))[0]
    except _Stays:
        return _array(node)
    raise _Stays


def _physical(shape: ArrayShape) -> list[int]:
    """Sizes of dimensions from minor to major."""
    return [shape.dimensions[d] for d in shape.layout.minor_to_major]


def common_factors(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Places at which the products of the sizes before them are equal (`CommonFactors` of xla/util.cc).

    >>> common_factors((6, 4), (2, 3, 4))
    [(0, 0), (1, 2), (2, 3)]
    """
    if list(one) == list(other):
        return [(place, place) for place in range(len(one) + 1)]
    bounds: list[tuple[int, int]] = []
    i = j = 0
    left = right = 1
    while True:
        if left == right and (i, j) != (bounds[-1] if bounds else None):
            bounds.append((i, j))
            continue
        has_left, has_right = i < len(one), j < len(other)
        if not has_left and not has_right:
            return bounds
        both = has_left and has_right and left == right
        takes_left = left < right or (both and one[i] <= other[j]) or not has_right
        takes_right = right < left or (both and other[j] <= one[i]) or not has_left
        if takes_left:
            left, i = left * one[i], i + 1
        if takes_right:
            right, j = right * other[j], j + 1


def _merged_factors(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """The same, without parts that are empty on a side (`CommonFactorsMergingTrivialRanges`)."""
    bounds = common_factors(one, other)
    at = 0
    while at + 1 < len(bounds) and len(bounds) > 2:  # a single part has nothing to merge with
        (i, j), (next_i, next_j) = bounds[at], bounds[at + 1]
        if i != next_i and j != next_j:
            at += 1
        elif at + 2 == len(bounds):
            del bounds[at]
        else:
            del bounds[at + 1]
    return bounds


def _before_broadcast(node: Node, result: ArrayShape) -> tuple[ArrayShape, list[int]]:
    """Shape of the operand, and dimensions of a broadcast whose result has other dimensions."""
    shape = _array(node)
    kept = set(node.instruction.integers("dimensions"))
    sizes = _physical(shape)
    bounds = common_factors(_physical(result), sizes)
    dimensions: list[int] = []
    for (start, begin), (stop, end) in pairwise(bounds):
        of_operand = [shape.layout.minor_to_major[j] in kept for j in range(begin, end) if sizes[j] != 1]
        if not any(of_operand):
            continue
        if not all(of_operand):
            raise _Stays  # it would mix elements of the operand with repeated ones
        dimensions += (result.layout.minor_to_major[j] for j in range(start, stop))
    dimensions.sort()
    order = [dimensions.index(d) for d in result.layout.minor_to_major if d in dimensions]
    return _resized(result, [result.dimensions[d] for d in dimensions], order), dimensions


def _after_broadcast(node: Node, operand: ArrayShape) -> ArrayShape:
    """Shape of a broadcast whose operand has other dimensions."""
    given, result = _array(node.operands[0]), _array(node)
    places = inverse(result.layout.minor_to_major)
    ranges: dict[int, tuple[int, int]] = {}
    bounds = common_factors(_physical(given), _physical(operand))
    dimensions = node.instruction.integers("dimensions")
    for (start, begin), (stop, end) in pairwise(bounds):
        found = []
        for j in range(start, stop):
            index = dimensions[given.layout.minor_to_major[j]]
            ranges[index] = (begin, end)  # all with the most minor one, none with the others
            begin = end
            found.append(places[index])
        if found and (found[-1] - found[0] >= stop - start or found != sorted(found)):
            raise _Stays
    rank = operand.rank + result.rank - given.rank
    sizes = [0] * rank
    order: list[int] = []
    added = operand.rank
    for index in result.layout.minor_to_major:
        if index in ranges:
            for place in range(*ranges[index]):
                d = operand.layout.minor_to_major[place]
                sizes[d] = operand.dimensions[d]
                order.append(d)
        else:
            sizes[added] = result.dimensions[index]
            order.append(added)
            added += 1
    return _resized(operand, sizes, order)


def _before_transpose(node: Node, result: ArrayShape) -> tuple[ArrayShape, list[int]]:
    """Shape of the operand, and dimensions of a transpose whose result has other dimensions."""
    given = _array(node.operands[0])
    shape, dimensions = _transposed(result, _array(node), given, node.instruction.integers("dimensions"))
    return shape, list(inverse(tuple(dimensions)))


def _transposed(
    result: ArrayShape, shape: ArrayShape, operand: ArrayShape, dimensions: Sequence[int]
) -> tuple[ArrayShape, list[int]]:
    """Shape of the other side of a transpose from `operand` to `shape`, if that becomes `result`, and the mapping."""
    if shape.layout.minor_to_major != operand.layout.minor_to_major:
        raise _Stays
    ranges = [(0, 0)] * operand.rank
    places = inverse(operand.layout.minor_to_major)
    bounds = _merged_factors(_physical(result), _physical(shape))
    for (start, begin), (stop, end) in pairwise(bounds):
        found = []
        for j in range(begin, end):
            d = shape.layout.minor_to_major[j]
            place = places[dimensions[d]]
            if shape.dimensions[d] == 1:
                ranges[place] = (start, start)
                continue
            ranges[place] = (start, stop)
            start = stop
            found.append(place)
        if found and (found[-1] - found[0] >= len(found) or found != sorted(found)):
            raise _Stays
    sizes, mapping = [0] * result.rank, [0] * result.rank
    new = iter(result.layout.minor_to_major)
    for begin, end in ranges:
        for place in range(begin, end):
            index, source = next(new), result.layout.minor_to_major[place]
            sizes[index] = result.dimensions[source]
            mapping[index] = source
    return _resized(result, sizes, result.layout.minor_to_major), mapping


# --- swapped operands ---
# A kernel takes few rows, and rows that are copied as they are, as columns: the product of the transposes.
#
# Mirrors xla/backends/gpu/transforms/gemm_fusion_swap_operands.cc.


_FEW_ROWS: Final = 64  # gemm_fusion_swap_operands.cc: wgmma computes 64 rows at once, but any power of two of columns
_NO_CODE: Final = frozenset(
    (*_RESHAPES, opcodes.BROADCAST, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TRANSPOSE)
)
"""Operations that only say where elements are."""


def swap_operands(graph: MutableGraph, maker: NodeMaker) -> list[str]:
    """Swaps the operands of dots in kernels where XLA does; returns the names of the fusions.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { p = f32[8,64] parameter(0)  q = f32[64,64] parameter(1)
    ... ROOT d = f32[8,64] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
    ... ENTRY e { a = f32[8,64] parameter(0)  b = f32[64,64] parameter(1)
    ... ROOT k = f32[8,64] fusion(a, b), kind=kCustom, calls=f,
    ... backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}} }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> swap_operands(graph, NodeMaker(ModuleNames(module))), print(graph.root.body.root.operands[0].shape)
    f32[64,8]{0,1}
    (['k'], None)
    """
    changed = []
    for fusion in graph.nodes:
        if not is_dot_kernel(fusion):
            continue
        body = fusion.body
        assert body is not None
        dot = next((node for node in body.nodes if node.opcode == opcodes.DOT), None)
        if dot is not None and _is_better_swapped(dot):
            _swap(body, dot, maker)
            changed.append(fusion.name)
    return changed


def _is_better_swapped(dot: Node) -> bool:
    _, rows, columns, _ = dot_sizes(dot)
    if columns < _FEW_ROWS:
        return False
    # What an operand computes stays in registers at the left, but is stored and loaded again at the right.
    return rows < _FEW_ROWS or (_computes(dot.operands[1]) and not _computes(dot.operands[0]))


def _computes(node: Node) -> bool:
    while node.operands:
        if node.opcode not in _NO_CODE:
            return True
        node = node.operands[0]
    return False


def _swap(body: FusionBody, dot: Node, maker: NodeMaker) -> None:
    left = operand_dimensions(dot, 0)
    batch, rows = len(left.batch), len(left.own)
    shape = _array(dot)
    order = [*range(batch), *range(batch + rows, shape.rank), *range(batch, batch + rows)]
    # The layout takes the swap back, so that the bytes of the result stay.
    swapped = _resized(
        shape, [shape.dimensions[d] for d in order], [order.index(d) for d in shape.layout.minor_to_major]
    )
    swaps = dict(zip(_DOT_DIMENSIONS, (*_DOT_DIMENSIONS[2:], *_DOT_DIMENSIONS[:2]), strict=True))
    values = {each.name: each.value for each in dot.instruction.attributes}
    attributes = [Attribute(name, values[swaps[name]]) for name in _DOT_DIMENSIONS if swaps[name] in values]
    for each in dot.instruction.attributes:
        if each.name == "operand_precision":
            attributes.append(Attribute(each.name, _reversed_list(each.value)))
        elif each.name not in swaps:
            attributes.append(each)
    made = maker.node(opcodes.DOT, swapped, reversed_operands(dot), source=dot, attributes=attributes)
    bitcast = maker.node(opcodes.BITCAST, shape, (made,), source=dot)
    dot.replace_by(bitcast)
    if body.root is dot:
        body.root = bitcast
    dot.detach()
    body.remove(dot)
    body.add(made)
    body.add(bitcast)
    body.computation = None
    body.insertions = []


def reversed_operands(dot: Node) -> list[Node]:
    """The two operands of a dot, the right one first."""
    left, right = dot.operands[:2]
    return [right, left]


def _reversed_list(text: str) -> str:
    return "{" + ",".join(reversed(text.strip("{}").split(","))) + "}"
