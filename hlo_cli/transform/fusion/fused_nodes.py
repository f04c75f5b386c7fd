"""How are nodes of a graph put into one fusion as XLA does it, and how does a module come of the graphs?

All fusion passes, of CPU and GPU and on request, change graphs with these functions, and end with `rebuild`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Insertion, MutableGraph, Node, users_first
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.transform.rewriting import CopyReader, ModuleNames, Names, name_of_clone
from hlo_cli.transform.schedule.constraints import Effects

# --- fusions of one result ---
# Creates and extends fusions, with XLA's names and operand order.
#
# Mirrors `CloneAndAppendInstructionIntoCalledComputation` and `AddCallOperand` of xla/hlo/ir/hlo_instructions.cc and
# `RemoveParameter` of xla/hlo/ir/hlo_computation.cc.


def create_fusion(graph: MutableGraph, root: Node, kind: str, names: ModuleNames, *, name: str, body_name: str) -> Node:
    """Creates a fusion of one operation, which it replaces."""
    # Duplicate operands become one parameter, as in HloFusionInstruction's constructor.
    fusion = Node(
        root.instruction, dict.fromkeys(root.operands), opcode=opcodes.FUSION, name=names.instructions.new(name)
    )
    fusion.shape, fusion.kind = root.shape, kind
    clone = _clone(root, names)
    fusion.body = FusionBody(clone, {clone: None}, name=names.computations.new(body_name))
    # Names are taken in XLA's order (fusion, clone, computation, parameters), since each may take the next free number.
    fusion.body.parameters = [_parameter(fusion, number, names) for number in range(len(fusion.operands))]
    _connect(clone, root.operands, fusion, names)
    graph.replace(fusion, root)
    return fusion


def merge_producer(graph: MutableGraph, fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """Fuses an operand into a fusion and returns its clone.

    The producer is removed from the graph if it has no other users; the fusion takes over its control predecessors.
    """
    clone = _clone_into_fusion(fusion, producer, names)
    # The root has no users in its computation but is used by the caller.
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)
    return clone


def merge_fusion(graph: MutableGraph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """Fuses the operations of a fusion, an operand of another, into the other one, users first.

    The producer is removed from the graph if it has no other users.
    """
    body, into = producer.body, fusion.body
    assert body is not None
    assert into is not None
    _join_repeats(fusion, producer, names)
    outside = dict(zip(body.parameters, producer.operands, strict=False))
    order = [node for node in users_first(body) if node.opcode != opcodes.PARAMETER]
    # XLA copies the operations into the graph, operands first; until the end, the copies are users there. An operation
    # stands for its copy, and a clone for the parameter that the copy would have in the fusion.
    for node in reversed(order):
        for operand in node.operands:
            if operand in outside:
                outside[operand].users.add(node)
    for position, operand in enumerate(fusion.operands):
        if operand is producer and body.root in outside:
            fusion.replace_operand(position, outside[body.root])
        elif operand is producer:
            fusion.operands[position] = body.root
            producer.users.remove(fusion)
    # The fusing goes users first, which numbers the parameters.
    for node in order:
        number = fusion.operands.index(node)
        parameter = clone = into.parameters[number]
        if parameter.opcode == opcodes.PARAMETER:
            clone = _copy_of(node)
            parameter.replace_by(clone)
            into.root = clone if into.root is parameter else into.root
        clone.name = names.instructions.new(node.name)
        into.add(clone)
        _remove_operand(fusion, number, names)
        for operand in node.operands:
            clone.operands.append(_operand_inside(fusion, outside.get(operand), operand, names))
            clone.operands[-1].users.add(clone)
        _note_insertion(into, parameter, clone)
    into.computation = None
    for node in order:
        for operand in node.operands:
            if operand in outside:
                outside[operand].users.remove(node)
    if not producer.users and producer is not graph.root:
        graph.add_control_dependencies(fusion, graph.control_predecessors.get(producer, ()))
        graph.remove(producer)


def _join_repeats(fusion: Node, producer: Node, names: ModuleNames) -> None:
    """Makes a producer that is an operand several times one only once, as in all fusions that XLA makes."""
    body = fusion.body
    assert body is not None
    aliased = {alias.operand_number for alias in fusion.aliasing}
    places = [at for at, operand in enumerate(fusion.operands) if operand is producer]
    kept = next((at for at in places if at in aliased), places[0])
    for number in reversed(places):
        if number != kept:
            body.parameters[number].replace_by(body.parameters[kept])
            _remove_operand(fusion, number, names)
            body.insertions = []


def _operand_inside(fusion: Node, given: Node | None, inner: Node, names: ModuleNames) -> Node:
    """The parameter for an operand, or the clone for an operation that is still to be fused, if none is given."""
    assert fusion.body is not None
    wanted, parameters = given or inner, fusion.body.parameters
    if wanted in fusion.operands:
        return parameters[fusion.operands.index(wanted)]
    fusion.operands.append(wanted)
    if given is None:
        names.instructions.new(f"param_{len(parameters)}")
        parameters.append(_copy_of(inner))
    else:
        given.users.add(fusion)
        parameters.append(_parameter(fusion, len(parameters), names))
    return parameters[-1]


def _copy_of(node: Node) -> Node:
    """A copy of a fused operation without operands; its name is still to be given."""
    copy = Node(node.instruction, (), opcode=node.opcode)
    copy.shape, copy.body, copy.kind = node.shape, node.body, node.kind
    return copy


def _note_insertion(body: FusionBody, parameter: Node | None, clone: Node) -> None:
    is_result = body.root is clone or any(user.opcode == opcodes.TUPLE for user in clone.users)
    if parameter is None or is_result:
        body.insertions = []
    else:
        body.insertions.append(Insertion(parameter, clone, tuple(clone.operands)))


def _clone_into_fusion(fusion: Node, producer: Node, names: ModuleNames) -> Node:
    """Adds a clone of `producer` to a fusion, and replaces the operand if it is one; the producer itself stays."""
    body = fusion.body
    assert body is not None
    clone = _clone(producer, names)
    body.add(clone)
    parameter = None
    if producer in fusion.operands:
        number = fusion.operands.index(producer)
        parameter = body.parameters[number]
        parameter.replace_by(clone)
        body.root = clone if body.root is parameter else body.root
        _remove_operand(fusion, number, names)
    _connect(clone, producer.operands, fusion, names)
    body.computation = None
    _note_insertion(body, parameter, clone)
    return clone


def _clone(node: Node, names: ModuleNames) -> Node:
    """Clone of an operation without operands."""
    clone = Node(node.instruction, (), opcode=node.opcode, name=names.instructions.new(node.name))
    clone.body, clone.kind, clone.shape, clone.aliasing = node.body, node.kind, node.shape, node.aliasing
    return clone


def _connect(clone: Node, operands: list[Node], fusion: Node, names: ModuleNames) -> None:
    """Gives a clone parameters as operands; new operands of the fusion are appended."""
    body = fusion.body
    assert body is not None
    # New operands go to the end, so operands have the order in which producers were fused.
    for operand in operands:
        if operand not in fusion.operands:
            fusion.operands.append(operand)
            operand.users.add(fusion)
            body.parameters.append(_parameter(fusion, len(fusion.operands) - 1, names))
        parameter = body.parameters[fusion.operands.index(operand)]
        clone.operands.append(parameter)
        parameter.users.add(clone)


def _parameter(fusion: Node, number: int, names: ModuleNames) -> Node:
    assert fusion.body is not None
    operand = fusion.operands[number]
    parameter = Node(operand.instruction, (), opcode=opcodes.PARAMETER, name=names.instructions.new(f"param_{number}"))
    parameter.shape, parameter.number = operand.shape, number
    fusion.body.nodes[parameter] = None
    return parameter


def _renumbered(number: int, alias: OutputOperandAlias) -> OutputOperandAlias:
    """Alias after the operand `number` is removed."""
    assert alias.operand_number != number
    return replace(alias, operand_number=alias.operand_number - (alias.operand_number > number))


def _remove_operand(fusion: Node, number: int, names: ModuleNames) -> None:
    """Removes an operand; later parameters become new ones with decremented numbers and names."""
    body = fusion.body
    assert body is not None
    gone = fusion.operands.pop(number)
    fusion.aliasing = tuple(_renumbered(number, alias) for alias in fusion.aliasing)
    if gone not in fusion.operands:
        gone.users.remove(fusion)
    removed = body.parameters.pop(number)
    # In place of a parameter there may be a clone: see `merge_fusion`.
    if removed.opcode == opcodes.PARAMETER:
        del body.nodes[removed]
    # hlo_computation.cc makes a new parameter for each after a removed one, with another number and name.
    for place in range(number, len(body.parameters)):
        parameter, operand = body.parameters[place], fusion.operands[place]
        name = names.instructions.new(f"param_{place}")
        if parameter.opcode != opcodes.PARAMETER:
            continue
        parameter.instruction, parameter.shape, parameter.number = operand.instruction, operand.shape, place
        parameter.name = name
        del body.nodes[parameter]
        body.nodes[parameter] = None


# --- fusions of several results ---
# Adds results to multi-output fusions; their users use a get-tuple-element of the fusion.
#
# Mirrors `FuseInstructionIntoMultiOutput` and `MergeFusionInstructionIntoMultiOutput` of
# xla/hlo/ir/hlo_instructions.cc.


def make_multi_output(graph: MutableGraph, fusion: Node, sibling: Node, names: ModuleNames) -> None:
    """Adds the results of `sibling` to those of `fusion`, which can use them.

    Call `graph.sort_topologically` afterwards.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''f { a = s8[9] parameter(0)  ROOT b = s8[9] not(a) }  ENTRY e { p = s8[9] parameter(0)
    ... x = s8[9] fusion(p), kind=kLoop, calls=f  y = s8[9] negate(p)  ROOT r = (s8[9], s8[9]) tuple(x, y) }'''
    >>> module = parse_module(text)
    >>> graph = mutable_graph_of(module.entry)
    >>> nodes = {node.name: node for node in graph.nodes}
    >>> make_multi_output(graph, nodes["x"], nodes["y"], ModuleNames(module))
    >>> graph.sort_topologically()
    >>> print(nodes["x"].shape, [node.name for node in graph.nodes])
    (s8[9]{0}, s8[9]{0}) ['p', 'x', 'get-tuple-element', 'get-tuple-element.1', 'r']
    """
    before, successors = graph.control_predecessors.get(sibling, ()), list(graph.control_successors.get(sibling, ()))
    # Control edges of both become those of the fusion.
    graph.add_control_dependencies(fusion, before)
    if sibling.body is None:
        _add_result(graph, fusion, sibling, names)
        graph.remove(sibling)
    else:
        _merge(graph, fusion, sibling, names)
    for successor in successors:
        graph.add_control_dependencies(successor, (fusion,))


def _add_result(graph: MutableGraph, fusion: Node, producer: Node, names: ModuleNames) -> None:
    """Adds a clone of the producer as a result; the producer stays without users."""
    clone = _clone_into_fusion(fusion, producer, names)
    if producer.users or producer is graph.root:
        _add_output(graph, fusion, clone, producer, names)


def _add_output(graph: MutableGraph, fusion: Node, clone: Node, old: Node, names: ModuleNames) -> None:
    """Makes a fused operation a result of the fusion that replaces `old` in its users."""
    body = fusion.body
    assert body is not None
    root = body.root
    is_first = root.opcode != opcodes.TUPLE
    elements = [root, clone] if is_first else [*root.operands, clone]
    if not is_first:
        root.detach()
        body.remove(root)
    body.root = Node(fusion.instruction, elements, opcode=opcodes.TUPLE, name=names.instructions.new(opcodes.TUPLE))
    body.add(body.root)
    body.insertions = []
    fusion.shape = body.root.shape = TupleShape(tuple(element.shape for element in elements))
    # The first output of a single-result fusion becomes element 0, and so do its aliases.
    if is_first:
        fusion.aliasing = tuple(replace(a, output_index=(0, *a.output_index)) for a in fusion.aliasing)
        users = list(fusion.users)
        first = _element(graph, fusion, 0, root.shape, names)
        _redirect(graph, fusion, first, users)
    _redirect(graph, old, _element(graph, fusion, len(elements) - 1, clone.shape, names), list(old.users))


def _element(graph: MutableGraph, fusion: Node, number: int, shape: Shape, names: ModuleNames) -> Node:
    name = names.instructions.new(opcodes.GET_TUPLE_ELEMENT)
    element = Node(fusion.instruction, (fusion,), opcode=opcodes.GET_TUPLE_ELEMENT, name=name)
    element.shape, element.number = shape, number
    graph.add(element)
    return element


def _redirect(graph: MutableGraph, old: Node, new: Node, users: list[Node]) -> None:
    """Replaces `old` with `new` in these users and as root."""
    for user in users:
        for position, operand in enumerate(user.operands):
            if operand is old:
                user.replace_operand(position, new)
    if graph.root is old:
        graph.root = new


def _merge(graph: MutableGraph, fusion: Node, merged: Node, names: ModuleNames) -> None:
    """Fuses the operations of one fusion into another, users first, with its results."""
    body = merged.body
    assert body is not None
    outside, copies = _copies_outside(body, merged.operands, names)
    results = set()
    if merged.has_several_results:
        for user in list(merged.users):
            result = outside[body.root.operands[user.element]]
            # An element that only this fusion reads becomes an inner value.
            if user is graph.root or any(other is not fusion for other in user.users):
                results.add(result)
            _redirect(graph, user, result, list(user.users))
            _remove_element(graph, user, fusion)
    else:
        results.add(outside[body.root])
        _redirect(graph, merged, outside[body.root], list(merged.users))
    graph.remove(merged)
    # Users first, as in `merge_fusion`.
    for copy in reversed(copies):
        if copy in results:
            _add_result(graph, fusion, copy, names)
        elif copy in fusion.operands:
            _clone_into_fusion(fusion, copy, names)
        copy.detach()


def _remove_element(graph: MutableGraph, element: Node, fusion: Node) -> None:
    """Removes a get-tuple-element; its control successors depend on the fusion instead."""
    successors = list(graph.control_successors.get(element, ()))
    graph.remove(element)
    for successor in successors:
        graph.add_control_dependencies(successor, (fusion,))


def _copies_outside(body: FusionBody, operands: list[Node], names: ModuleNames) -> tuple[dict[Node, Node], list[Node]]:
    """Nodes outside a fusion for the nodes of its body, and those that are copies, operands before users."""
    outside = dict(zip(body.parameters, operands, strict=False))
    copies: list[Node] = []
    for node in reversed(users_first(body)):
        if node.opcode == opcodes.PARAMETER or (node is body.root and node.opcode == opcodes.TUPLE):
            continue
        name = names.instructions.new(name_of_clone(node.name))
        copy = Node(node.instruction, [outside[operand] for operand in node.operands], opcode=node.opcode, name=name)
        copy.shape, copy.body, copy.kind, copy.number = node.shape, node.body, node.kind, node.number
        outside[node] = copy
        copies.append(copy)
    return outside, copies


# --- dead code ---
# Removes unused instructions and computations, as the compiler does after multi-output fusion.
#
# Mirrors xla/hlo/transforms/simplifiers/hlo_dce.cc.


def without_dead(graph: MutableGraph, effects: Effects) -> None:
    """Removes the nodes without users and side effects.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] not(a)  ROOT c = s8[] negate(p)"
    >>> graph = mutable_graph_of(parse_module(f"ENTRY e {{ {text} }}").entry)
    >>> without_dead(graph, {})
    >>> list(graph.nodes)
    [<node parameter p>, <node negate c>]
    """
    for node in reversed(graph.sorted_nodes()):
        # HloDCE keeps what has side effects and what control edges name.
        is_needed = (
            node.users or node is graph.root or node in graph.control_predecessors or node in graph.control_successors
        )
        if not is_needed and node.opcode != opcodes.PARAMETER and node.instruction not in effects:
            graph.remove(node)


def without_uncalled(module: Module, *, names: frozenset[str] = frozenset()) -> Module:
    """Module without computations that are not reachable from the entry or from those named in `names`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("f { ROOT p = s8[] parameter(0) }  ENTRY e { ROOT q = s8[] parameter(0) }")
    >>> [computation.name for computation in without_uncalled(module).computations]
    ['e']
    """
    waiting = [module.entry, *(each for each in module.computations if each.name in names)]
    called = set(waiting)
    while waiting:
        for instruction in waiting.pop().instructions:
            new = [each for each in instruction.called_computations if each not in called]
            called.update(new)
            waiting.extend(new)
    return replace(module, computations=tuple(each for each in module.computations if each in called))


def uncalled_names(module: Module) -> frozenset[str]:
    """Names of computations that no instruction calls, other than the entry.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("f { ROOT p = s8[] parameter(0) }  ENTRY e { ROOT q = s8[] parameter(0) }")
    >>> sorted(uncalled_names(module))
    ['f']
    """
    called = {each for instruction in module.instructions for each in instruction.called_computations}
    return frozenset(each.name for each in module.computations if each not in called and each is not module.entry)


# --- the module of the graphs ---
# Builds a module from graphs of nodes: fused nodes get computations, other instructions are copied.
#
# Mirrors `HloModule::Clone` of xla/hlo/ir/hlo_module.cc.


# XLA copies these from the fused root (HloInstruction::SetupDerivedInstruction).
_ROOT_ATTRIBUTES: Final = ("sharding", "origin", "frontend_attributes", "metadata")
"""Attributes that a fusion takes from its root."""
# No sharding: it would have to be one of the tuple.
_TUPLE_ROOT_ATTRIBUTES: Final = ("origin", "frontend_attributes", "metadata")
_ELEMENT_ATTRIBUTES: Final = ("frontend_attributes", "metadata")
"""Attributes that a get-tuple-element takes from its fusion."""


def rebuild(module: Module, graphs: Mapping[Computation, MutableGraph]) -> Module:
    """Module with computations replaced by their graphs; fused computations without a caller are omitted.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] not(p) }")
    >>> rebuild(module, {module.entry: mutable_graph_of(module.entry)}).to_string() == module.to_string()
    True
    """
    return _Writer(module, graphs).run()


@dataclass(slots=True)
class _Writer:
    """Module that is being built; `new` maps old computations to new ones."""

    module: Module
    graphs: Mapping[Computation, MutableGraph]
    new: dict[Computation, Computation] = field(default_factory=dict)
    computations: list[Computation] = field(default_factory=list)
    controlled: frozenset[Instruction] = field(init=False)
    unused: set[Computation] = field(default_factory=set)
    called_inside: set[Computation] | None = None
    names: Names | None = None

    def __post_init__(self) -> None:
        self.controlled = frozenset[Instruction]().union(*(graph.controlled for graph in self.graphs.values()))
        for old in self.module.computations:
            self.new[old] = Computation(
                old.name,
                is_entry=old.is_entry,
                execution_thread=old.execution_thread,
                backend_config=old.backend_config,
                span=old.span,
            )

    def run(self) -> Module:
        """Builds the module."""
        self.unused = self._unused()
        for old in self.module.computations:
            if old in self.unused:
                continue
            if old in self.graphs:
                self._write_graph(self.graphs[old])
            else:
                self._copy(old)
        return replace(self.module, computations=tuple(self.computations), entry=self.new[self.module.entry])

    def _unused(self) -> set[Computation]:
        """Fused computations whose fusions are removed or changed."""
        # A fused computation has a single caller (hlo_verifier.cc), so it goes with its fusion.
        fused = {called for old in self.graphs for i in old.instructions if i.opcode == opcodes.FUSION
                 for called in i.called_computations}  # fmt: skip
        bodies = (node.body for graph in self.graphs.values() for node in graph.nodes if node.body is not None)
        waiting = list(bodies)
        while waiting:
            body = waiting.pop()
            if body.computation is not None:
                fused.discard(body.computation)
            else:
                waiting.extend(node.body for node in body.nodes if node.body is not None)
        return fused

    def _copy(self, old: Computation) -> None:
        lines = _Lines(self.new[old], old)
        copies: dict[Instruction, Instruction] = {}
        for instruction in old.instructions:
            operands = [copies[operand] for operand in instruction.operands]
            called = [self.new[each] for each in instruction.called_computations]
            copies[instruction] = lines.add(instruction, instruction.name, operands, called)
        assert old.root is not None  # `check_rewritable` refuses a module with a computation without root
        lines.finish(copies[old.root], (copies[each] for each in old.parameters))
        self.new[old].operand_indices = old.operand_indices
        self.computations.append(self.new[old])

    def _write_graph(self, graph: MutableGraph) -> None:
        """Adds a computation, preceded by the new fused computations in it."""
        old = graph.computation
        lines = _Lines(self.new[old], old)
        written: dict[Node, Instruction] = {}
        for node in graph.nodes:
            written[node] = self._write(
                node, lines, written, [other.name for other in graph.control_predecessors.get(node, ())]
            )
        # By number, as parameters may stand in any order in the text.
        by_number = {
            node.number: instruction for node, instruction in written.items() if node.opcode == opcodes.PARAMETER
        }
        assert graph.root is not None
        lines.finish(written[graph.root], (by_number[number] for number in sorted(by_number)))
        self.computations.append(self.new[old])

    def _write(
        self, node: Node, lines: _Lines, written: Mapping[Node, Instruction], controls: list[str]
    ) -> Instruction:
        called = [self.new[each] for each in node.instruction.called_computations]
        if node.body is not None:
            is_nested = lines.computation is not self.new[lines.original]
            called = [self._computation_of(node.body, lines.original, is_nested=is_nested)]
        # An opcode that a pass made has no source to take the called computations of.
        elif node.opcode != node.instruction.opcode:
            called = []
        calls = called[0].name if node.body is not None else ""
        text = _text_of(node, controls, calls, is_controlled=node.instruction in self.controlled)
        new = lines.add(node.instruction, node.name, [written[operand] for operand in node.operands], called, text)
        new.opcode, new.shape = node.opcode, node.shape
        return new

    def _computation_of(self, body: FusionBody, around: Computation, *, is_nested: bool) -> Computation:
        """Computation of a fusion body: the original one, or a new one."""
        name = body.name
        if body.computation is not None:
            if not is_nested or self._is_first_to_call(body.computation):
                return self.new[body.computation]
            name = self._name_of_clone(name)
        new = Computation(name, execution_thread=around.execution_thread)
        lines = _Lines(new, around)
        made: dict[Node, Instruction] = {}
        # Parameters without use come first; XLA prints the body in post-order.
        needed = dict.fromkeys(users_first(body)[::-1])
        for node in (*(p for p in body.parameters if p not in needed), *needed):
            made[node] = self._write(node, lines, made, [])
        lines.finish(made[body.root], (made[parameter] for parameter in body.parameters))
        self.computations.append(new)
        return new

    def _is_first_to_call(self, nested: Computation) -> bool:
        """Whether no nested fusion calls this fused computation yet, as it must have a single caller."""
        if self.called_inside is None:
            copied = (old for old in self.module.computations if old not in self.unused and old not in self.graphs)
            fusions = (each for old in copied for each in old.instructions if each.opcode == opcodes.FUSION)
            self.called_inside = {called for fusion in fusions for called in fusion.called_computations}
        is_first = nested not in self.called_inside
        self.called_inside.add(nested)
        return is_first

    def _name_of_clone(self, name: str) -> str:
        if self.names is None:
            made = (node.body.name for graph in self.graphs.values() for node in graph.nodes if node.body is not None)
            self.names = Names({*made, *(old.name for old in self.module.computations)})
        return self.names.new(name_of_clone(name))


class _Lines:
    """Instructions of a new computation; each reads its text from a source instruction."""

    __slots__ = ("computation", "instructions", "original", "sources")

    def __init__(self, computation: Computation, original: Computation) -> None:
        self.computation = computation
        self.original = original
        self.instructions: list[Instruction] = []
        self.sources: list[Instruction] = []
        computation.reader = CopyReader(original, self.sources)

    def add(
        self,
        source: Instruction,
        name: str,
        operands: Iterable[Instruction],
        called: Iterable[Computation],
        text: InstructionText | None = None,
    ) -> Instruction:
        index = len(self.instructions)
        new = Instruction(name, source.shape, source.opcode, tuple(operands), self.computation, index, text)
        new.called_computations = tuple(called)
        self.instructions.append(new)
        self.sources.append(source)
        return new

    def finish(self, root: Instruction, parameters: Iterable[Instruction]) -> None:
        self.computation.instructions = Items(self.instructions)
        self.computation.parameters = tuple(parameters)
        self.computation.root = root


def _text_of(node: Node, controls: list[str], calls: str, *, is_controlled: bool) -> InstructionText | None:
    """Text of a node if it differs from that of its instruction, else None."""
    source = node.instruction
    # A parameter has no attributes of the value that it stands for.
    if node.opcode == opcodes.PARAMETER and source.parameter_number != node.number:
        return InstructionText((), str(node.number))
    attributes = source.attributes
    if node.opcode == source.opcode:
        if node.body is not None and (node.body.computation is None or node.body.name != calls):
            attributes = tuple(_updated_attributes(node, calls))
        elif not is_controlled and not controls:
            return None
        return InstructionText(tuple(_attributes(attributes, controls)), source.text.argument, source.span)
    if node.opcode == opcodes.FUSION and node.body is not None:
        own = (Attribute("kind", node.kind), Attribute("calls", f"%{calls}"))
        of_root = _TUPLE_ROOT_ATTRIBUTES if node.has_several_results else _ROOT_ATTRIBUTES
        return InstructionText(tuple(_attributes((*own, *_select(of_root, attributes)), controls)))
    if node.opcode == opcodes.GET_TUPLE_ELEMENT:
        own_index = Attribute("index", str(node.number))
        return InstructionText(tuple(_attributes((own_index, *_select(_ELEMENT_ATTRIBUTES, attributes)), controls)))
    return InstructionText(()) if node.opcode == opcodes.TUPLE else None


def _select(names: Iterable[str], attributes: Iterable[Attribute]) -> Iterator[Attribute]:
    """Attributes of these names, in the order of the names."""
    found = {attribute.name: attribute for attribute in attributes}
    return (found[name] for name in names if name in found)


def _updated_attributes(fusion: Node, calls: str) -> Iterator[Attribute]:
    """Yields the attributes of a fusion that was extended or copied."""
    is_other_shape = fusion.shape != fusion.instruction.shape
    for attribute in fusion.instruction.attributes:
        match attribute.name:
            case "kind":
                yield Attribute("kind", fusion.kind)
            case "calls":
                yield Attribute("calls", f"%{calls}")
            case "output_to_operand_aliasing":
                yield Attribute(attribute.name, "{" + ", ".join(map(str, fusion.aliasing)) + "}")
            # FuseInstructionIntoMultiOutput drops the sharding, which does not fit the new tuple.
            case "sharding" if is_other_shape:
                pass
            case _:
                yield attribute


def _attributes(attributes: Iterable[Attribute], controls: list[str]) -> Iterator[Attribute]:
    """Yields attributes with the current control predecessors, which precede the metadata."""
    # The order of HloInstruction::PrintExtraAttributes, after which metadata and backend_config are printed.
    others = [attribute for attribute in attributes if attribute.name != CONTROL_PREDECESSORS]
    last = [attribute for attribute in others if attribute.name in ("metadata", "backend_config")]
    yield from (attribute for attribute in others if attribute not in last)
    if controls:
        yield Attribute(CONTROL_PREDECESSORS, "{" + ", ".join(f"%{name}" for name in controls) + "}")
    yield from last
