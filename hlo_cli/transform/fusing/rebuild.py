"""Modules written anew from nodes: what was fused has a computation of its own, the rest is copied.

Mirrors `HloModule::Clone` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hlo_cli.analysis.fusion.code_duplication import users_first
from hlo_cli.analysis.fusion.graph import FusionBody, Graph, Node
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Attribute, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.transform.clone import CopyReader
from hlo_cli.transform.fusing.names import Names, name_of_clone

_WAITS: Final = "control-predecessors"
_OF_THE_ROOT: Final = ("sharding", "origin", "frontend_attributes", "metadata")
"""What a fusion says as its root does."""
_OF_A_TUPLE: Final = ("origin", "frontend_attributes", "metadata")
_OF_AN_ELEMENT: Final = ("frontend_attributes", "metadata")
"""What a get-tuple-element says as the fusion does that it takes from."""


def written(module: Module, graphs: Mapping[Computation, Graph]) -> Module:
    """The module with these computations as their graphs have them; fused computations that nobody calls are left out.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] not(p) }")
    >>> written(module, {module.entry: graph_of(module.entry)}).to_string() == module.to_string()
    True
    """
    return _Writer(module, graphs).module_written()


@dataclass(slots=True)
class _Writer:
    """A module while it is written; `new` are the computations in place of the old ones."""

    module: Module
    graphs: Mapping[Computation, Graph]
    new: dict[Computation, Computation] = field(default_factory=dict)
    computations: list[Computation] = field(default_factory=list)
    held: frozenset[Instruction] = field(init=False)
    unused: set[Computation] = field(default_factory=set)
    called_inside: set[Computation] | None = None
    names: Names | None = None

    def __post_init__(self) -> None:
        self.held = frozenset[Instruction]().union(*(graph.controlled for graph in self.graphs.values()))
        for old in self.module.computations:
            self.new[old] = Computation(
                old.name, is_entry=old.is_entry, execution_thread=old.execution_thread, span=old.span
            )

    def module_written(self) -> Module:
        """The new module."""
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
        """Bodies of fusions that are no more, or are written anew."""
        fused = {called for old in self.graphs for i in old.instructions if i.opcode == "fusion"
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
        """A computation, and before it the bodies that are new in it."""
        old = graph.computation
        lines = _Lines(self.new[old], old)
        made: dict[Node, Instruction] = {}
        for node in graph.nodes:
            made[node] = self._write(
                node, lines, made, [other.name for other in graph.control_predecessors.get(node, ())]
            )
        root = None if graph.root is None else made[graph.root]
        by_number = {node.number: instruction for node, instruction in made.items() if node.opcode == "parameter"}
        lines.finish(root, (by_number[number] for number in sorted(by_number)))
        self.computations.append(self.new[old])

    def _write(self, node: Node, lines: _Lines, made: Mapping[Node, Instruction], waits: list[str]) -> Instruction:
        called = [self.new[each] for each in node.instruction.called_computations]
        if node.body is not None:
            is_nested = lines.computation is not self.new[lines.original]
            called = [self._computation_of(node.body, lines.original, is_nested=is_nested)]
        elif node.opcode != node.instruction.opcode:
            called = []
        calls = called[0].name if node.body is not None else ""
        text = _text_of(node, waits, calls, is_held=node.instruction in self.held)
        new = lines.add(node.instruction, node.name, [made[operand] for operand in node.operands], called, text)
        new.opcode, new.shape = node.opcode, node.shape
        return new

    def _computation_of(self, body: FusionBody, around: Computation, *, is_nested: bool) -> Computation:
        """The computation of a fusion's body: that which it was read from, or a new one."""
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
        """Whether no fusion inside of another calls the body of a fusion yet: it has one caller."""
        if self.called_inside is None:
            copied = (old for old in self.module.computations if old not in self.unused and old not in self.graphs)
            fusions = (each for old in copied for each in old.instructions if each.opcode == "fusion")
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
    """The instructions of a new computation, each of which is read where another stands."""

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


def _text_of(node: Node, waits: list[str], calls: str, *, is_held: bool) -> InstructionText | None:
    """What a node says where that is not what its instruction says."""
    source = node.instruction
    if node.opcode == "parameter" and source.parameter_number != node.number:
        return InstructionText((), str(node.number))
    said = source.attributes
    if node.opcode == source.opcode:
        if node.body is not None and (node.body.computation is None or node.body.name != calls):
            said = tuple(_of_changed(node, calls))
        elif not is_held and not waits:
            return None
        return InstructionText(tuple(_attributes(said, waits)), source.text.argument, source.span)
    if node.opcode == "fusion" and node.body is not None:
        own = (Attribute("kind", node.kind), Attribute("calls", f"%{calls}"))
        of_root = _OF_A_TUPLE if node.has_several_results else _OF_THE_ROOT
        return InstructionText(tuple(_attributes((*own, *_these(of_root, said)), waits)))
    if node.opcode == "get-tuple-element":
        own_index = Attribute("index", str(node.number))
        return InstructionText(tuple(_attributes((own_index, *_these(_OF_AN_ELEMENT, said)), waits)))
    return InstructionText(()) if node.opcode == "tuple" else None


def _these(names: Iterable[str], said: Iterable[Attribute]) -> Iterator[Attribute]:
    """The attributes of these names, in the order of the names."""
    found = {attribute.name: attribute for attribute in said}
    return (found[name] for name in names if name in found)


def _of_changed(fusion: Node, calls: str) -> Iterator[Attribute]:
    """What is said of a fusion that has taken something in, or is a copy of another."""
    is_other_shape = fusion.shape != fusion.instruction.shape
    for attribute in fusion.instruction.attributes:
        match attribute.name:
            case "kind":
                yield Attribute("kind", fusion.kind)
            case "calls":
                yield Attribute("calls", f"%{calls}")
            case "output_to_operand_aliasing":
                yield Attribute(attribute.name, "{" + ", ".join(map(str, fusion.aliasing)) + "}")
            case "sharding" if is_other_shape:
                pass
            case _:
                yield attribute


def _attributes(attributes: Iterable[Attribute], waits: list[str]) -> Iterator[Attribute]:
    """Attributes with the names that are waited for now, before the metadata."""
    others = [attribute for attribute in attributes if attribute.name != _WAITS]
    last = [attribute for attribute in others if attribute.name in ("metadata", "backend_config")]
    yield from (attribute for attribute in others if attribute not in last)
    if waits:
        yield Attribute(_WAITS, "{" + ", ".join(f"%{name}" for name in waits) + "}")
    yield from last
