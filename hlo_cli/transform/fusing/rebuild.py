"""Builds a module from graphs of nodes: fused nodes get computations, other instructions are copied.

Mirrors `HloModule::Clone` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, users_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.transform.clone import CopyReader
from hlo_cli.transform.fusing.names import Names, name_of_clone

_CONTROL: Final = "control-predecessors"
_ROOT_ATTRIBUTES: Final = ("sharding", "origin", "frontend_attributes", "metadata")
"""Attributes that a fusion takes from its root."""
_TUPLE_ROOT_ATTRIBUTES: Final = ("origin", "frontend_attributes", "metadata")
_ELEMENT_ATTRIBUTES: Final = ("frontend_attributes", "metadata")
"""Attributes that a get-tuple-element takes from its fusion."""


def rebuild(module: Module, graphs: Mapping[Computation, Graph]) -> Module:
    """Module with computations replaced by their graphs; fused computations without a caller are omitted.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] not(p) }")
    >>> rebuild(module, {module.entry: graph_of(module.entry)}).to_string() == module.to_string()
    True
    """
    return _Writer(module, graphs).run()


@dataclass(slots=True)
class _Writer:
    """Module that is being built; `new` maps old computations to new ones."""

    module: Module
    graphs: Mapping[Computation, Graph]
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
        lines.finish(None if old.root is None else copies[old.root], (copies[each] for each in old.parameters))
        self.new[old].operand_indices = old.operand_indices
        self.computations.append(self.new[old])

    def _write_graph(self, graph: Graph) -> None:
        """Adds a computation, preceded by the new fused computations in it."""
        old = graph.computation
        lines = _Lines(self.new[old], old)
        made: dict[Node, Instruction] = {}
        for node in graph.nodes:
            made[node] = self._write(
                node, lines, made, [other.name for other in graph.control_predecessors.get(node, ())]
            )
        root = None if graph.root is None else made[graph.root]
        by_number = {node.number: instruction for node, instruction in made.items() if node.opcode == opcodes.PARAMETER}
        lines.finish(root, (by_number[number] for number in sorted(by_number)))
        self.computations.append(self.new[old])

    def _write(self, node: Node, lines: _Lines, made: Mapping[Node, Instruction], controls: list[str]) -> Instruction:
        called = [self.new[each] for each in node.instruction.called_computations]
        if node.body is not None:
            is_nested = lines.computation is not self.new[lines.original]
            called = [self._computation_of(node.body, lines.original, is_nested=is_nested)]
        elif node.opcode != node.instruction.opcode:
            called = []
        calls = called[0].name if node.body is not None else ""
        text = _text_of(node, controls, calls, is_controlled=node.instruction in self.controlled)
        new = lines.add(node.instruction, node.name, [made[operand] for operand in node.operands], called, text)
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
        needed = users_first(body)[::-1]
        for node in (*(p for p in body.parameters if p not in set(needed)), *needed):
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

    def finish(self, root: Instruction | None, parameters: Iterable[Instruction]) -> None:
        self.computation.instructions = tuple(self.instructions)
        self.computation.parameters = tuple(parameters)
        self.computation.root = root


def _text_of(node: Node, controls: list[str], calls: str, *, is_controlled: bool) -> InstructionText | None:
    """Text of a node if it differs from that of its instruction, else None."""
    source = node.instruction
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
    others = [attribute for attribute in attributes if attribute.name != _CONTROL]
    last = [attribute for attribute in others if attribute.name in ("metadata", "backend_config")]
    yield from (attribute for attribute in others if attribute not in last)
    if controls:
        yield Attribute(_CONTROL, "{" + ", ".join(f"%{name}" for name in controls) + "}")
    yield from last
