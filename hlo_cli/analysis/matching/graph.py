"""What of a module is compared: instructions as nodes of a graph, their content as hashes of text without names.

Mirrors xla/hlo/tools/hlo_diff/graph.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field
from itertools import count
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import callees_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, NAMING_ATTRIBUTES, attributes_with

# --- content of instructions ---
# Content of an instruction as text: the argument, and the attributes without names of other objects and metadata.
#
# Compilers rename instructions and computations in every run, so the content contains no name: not its own, nor those
# of operands, called computations, and control predecessors. Metadata is separate, as it does not affect the computed
# value.


_NAMES = re.compile(
    # The value of a naming attribute is a name or names in braces; anything else means that the expression does not
    # fit.
    rf", (?:{'|'.join(map(re.escape, sorted(NAMING_ATTRIBUTES)))})="
    r"(?:%?[A-Za-z_][A-Za-z0-9_.\-]*+(?![^,])|\{[^{}=\"]*+\})"
)
_ANNOTATION = re.compile(rf", (?:{'|'.join(map(re.escape, attributes_with('annotates')))})=")
_METADATA_REST = re.compile(r'[^{}"\\]*+(?:"[^"\\]*+"[^{}"\\]*+)*+\}')
_INSTRUCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_OP_NAME = re.compile(r'(?<![a-z_])op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')


class InstructionContent(NamedTuple):
    """Argument of an instruction, attributes without names and metadata, metadata, and whether it has control
    predecessors.
    """

    argument: str
    attributes: str
    metadata: str
    is_controlled: bool = False


def content_of(instruction: Instruction) -> InstructionContent:
    """Content of an instruction.

    >>> from hlo_cli import parse_module
    >>> text = 'r = s8[2] slice(s8[9] a), slice={[1:9:4]}, control-predecessors={a}, metadata={op_name="f"}'
    >>> content_of(parse_module(text).entry.root)
    InstructionContent(argument='', attributes=', slice={[1:9:4]}', metadata='{op_name="f"}', is_controlled=True)
    """
    argument, attributes = instruction.raw
    if not attributes:
        return InstructionContent(argument, "", "")
    before, has_metadata, rest = attributes.partition(", metadata={")
    metadata = ""
    if has_metadata:
        # A brace or comma in a string would cut the text in two: then the parser of attributes decides.
        match = None if _may_be_quoted(before) else _METADATA_REST.match(rest)
        if match is None:
            return _content_from_attributes(instruction)
        metadata, attributes = f"{{{match[0]}", before + rest[match.end() :]
    is_controlled = CONTROL_PREDECESSORS in attributes
    if is_controlled or instruction.called_computations:
        names = [match.start() for match in _NAMES.finditer(attributes)]
        if names and _may_be_quoted(attributes[: names[-1]]):
            return _content_from_attributes(instruction)
        attributes = _NAMES.sub("", attributes)
    return InstructionContent(argument, attributes, metadata, is_controlled)


def _essential_attributes(attributes: str) -> str:
    """Attributes up to the first annotation, such as sharding: XLA prints those of the operation itself first.

    >>> _essential_attributes(", dimensions={0}, sharding={replicated}")
    ', dimensions={0}'
    """
    # PrintExtraAttributes of xla/hlo/ir/hlo_instruction.cc writes an opcode's own attributes before the common ones.
    match = _ANNOTATION.search(attributes)
    return attributes if match is None else attributes[: match.start()]


def renamed_value(value: str, names: Mapping[str, str]) -> str:
    """Value of an attribute that names other objects, with its names replaced.

    >>> renamed_value("{%f, %g}", {"f": "h"})
    '{%h, %g}'
    """
    return _INSTRUCTION_NAME.sub(lambda match: names.get(match[0], match[0]), value)


def op_name_in(metadata: str) -> str:
    """The op_name in a metadata text, with its escapes; empty if there is none.

    >>> op_name_in('{op_type="add" op_name="jit(f)/add" source_line=3}')
    'jit(f)/add'
    """
    match = _OP_NAME.search(metadata)
    return match[1] if match is not None else ""


def _may_be_quoted(before: str) -> bool:
    """Whether the text after `before` can be inside a string."""
    return "\\" in before or before.count('"') % 2 == 1


def _content_from_attributes(instruction: Instruction) -> InstructionContent:
    """Content of an instruction from its parsed attributes, for texts that a regular expression cannot split safely."""
    kept = [f", {a}" for a in instruction.attributes if a.name not in NAMING_ATTRIBUTES and a.name != "metadata"]
    is_controlled = any(a.name == CONTROL_PREDECESSORS for a in instruction.attributes)
    return InstructionContent(instruction.raw[0], "".join(kept), instruction.attribute("metadata") or "", is_controlled)


# --- the graph ---
# Graph of a module: operands and users of each instruction within its computation, and hashed content.
#
# Nodes and content are integers, so that modules are compared by comparing integers. Mirrors
# xla/hlo/tools/hlo_diff/graph.


Node = int
"""Index of an instruction in its module: computations one after the other, each in the order of the text."""
Key = int
"""Integer for compared content; equal content has equal keys in both modules."""

LEVELS: Final = 4  # one key for each level below
FULL, CONTENT, ESSENTIAL, SHAPELESS = range(LEVELS)
"""Levels of detail of a key.

FULL covers content and origin, CONTENT all but the origin. ESSENTIAL omits layouts and attributes that do not define
the computed value. SHAPELESS omits the shape as well.
"""
_INLINED_OPCODES: Final = frozenset((opcodes.FUSION, opcodes.CALL))
_MAX_INLINE_DEPTH: Final = 50  # recursion over nested fusions; far below the 1,000 calls of Python
TUPLE_INDEX: Final = re.compile(r", index=([0-9]{1,9})(?![0-9])")
"""First attribute of a get-tuple-element."""


class Text(NamedTuple):
    """Keys of an attribute text (all attributes, essential ones), the metadata, and its comparable part."""

    content: Key
    essential: Key
    metadata: str
    origin: str
    is_controlled: bool


class Line(NamedTuple):
    """Keys of an instruction that calls nothing at every level of detail, the index of a get-tuple-element (else -1),
    and the text of its attributes.
    """

    full: Key
    content: Key
    essential: Key
    shapeless: Key
    tuple_index: int
    text: Text


class Keys:
    """Interning table that gives equal keys to equal content; both modules share one.

    `of` returns the key of a hashable object. `reduced` maps a key of level CONTENT to those of ESSENTIAL and
    SHAPELESS. `plain` and `calling` cache attribute texts, the latter for instructions that call computations. `lines`
    caches the keys of whole lines.
    """

    __slots__ = ("calling", "lines", "of", "plain", "reduced")

    def __init__(self) -> None:
        self.of: Callable[[object], Key] = defaultdict[object, Key](count().__next__).__getitem__
        self.reduced: dict[Key, tuple[Key, Key]] = {}
        self.plain: dict[str, Text] = {}
        self.calling: dict[str, Text] = {}
        self.lines: dict[tuple[str, Key, str, str], Line] = {}


@dataclass(slots=True, eq=False)
class Unit:
    """Computation as a part of a graph, with its nodes in topological order.

    `content` is equal for computations that compute the same, and `full` if all their instructions have equal FULL
    keys. `twin` is the computation of the other module with identical text and identical callees.
    """

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    content: Key = -1
    full: Key = -1
    twin: Computation | None = None


class ModuleGraph:
    """Nodes with their `operands` and `users`; a user comes with the position of the operand.

    - `keys[level][n]` is the key of node n at one of four levels of detail.
    - `expression[n]` is equal for nodes of two modules that compute the same from the same parameters. `comparable[n]`
      is the same where equal keys mean equal values, else -1.
    - `bodies` maps each computation with a single fusion or call as caller to that caller.
    - `value[n]` is the node whose value n forwards: n itself, unless the graph is flattened.
    - `controlled` has the nodes with control predecessors.
    - `order` has the computations, callees first.
    - `tuple_index[n]` is the index of a get-tuple-element, which its keys do not contain; else -1.
    - `first_nodes` has the node of the first instruction of each computation.
    """

    __slots__ = (
        *(
            "bodies",
            "comparable",
            "controlled",
            "expression",
            "keys",
            "metadata",
            "module",
            "nodes",
            "numbers",
            "operands",
            "order",
        ),
        *("roots", "first_nodes", "tuple_index", "unit_of", "users", "value"),
    )

    def __init__(self, module: Module, numbers: Keys) -> None:
        self.module = module
        self.numbers = numbers
        self.nodes: list[Instruction] = list(module.instructions)
        size = len(self.nodes)
        self.keys: list[list[Key]] = [[-1] * size for _ in range(LEVELS)]
        self.metadata: list[str] = [""] * size
        self.tuple_index: list[int] = [-1] * size
        self.controlled: set[Node] = set()
        self.first_nodes = _first_nodes(module)
        self.order = tuple(callees_first(module.computations))
        self.bodies = _bodies(module, self.order)
        self.unlink()

    def unlink(self) -> None:
        """Removes all edges and what is derived from them."""
        size = len(self.nodes)
        self.operands: list[tuple[Node, ...]] = [()] * size
        self.users: list[list[tuple[Node, int]]] = [[] for _ in range(size)]
        self.value: list[Node] = list(range(size))
        self.expression: list[Key] = [-1] * size
        self.comparable: list[Key] = [-1] * size
        self.roots: set[Node] = set()
        self.unit_of: dict[Computation, Unit] = {}

    def node(self, instruction: Instruction) -> Node:
        """Node of an instruction."""
        return self.first_nodes[instruction.computation] + instruction.index

    def link(self, node: Node, operands: list[Node]) -> None:
        """Sets the operands of a node; the operands are linked already."""
        self.operands[node] = tuple(operands)
        expression, users = self.expression, self.users
        for position, operand in enumerate(operands):
            users[operand].append((node, position))
        made = [expression[operand] for operand in operands]
        # Its keys have no index, see `_NO_INDEX`, so that an inserted element changes none of the others.
        if (index := self.tuple_index[node]) >= 0:
            made.append(index)
        expression[node] = self.numbers.of((self.keys[CONTENT][node], *made))

    def finish(self, unit: Unit) -> None:
        """Computes the content of a computation whose nodes are all linked."""
        # Instructions without users count as well, in any order: they may be sends or outfeeds.
        ends = sorted([self.expression[node] for node in unit.nodes if not self.users[node]])
        root, made = unit.computation.root, -1
        if root is not None:
            value = self.value[self.node(root)]
            self.roots.add(value)
            made = self.expression[value]
        unit.content = self.numbers.of(("computation", made, *ends))
        self.unit_of[unit.computation] = unit


def _first_nodes(module: Module) -> dict[Computation, Node]:
    first, at = {}, 0
    for computation in module.computations:
        first[computation] = at
        at += len(computation.instructions)
    return first


def _bodies(module: Module, order: Sequence[Computation]) -> dict[Computation, Instruction]:
    """Computations with a single fusion or call as caller, with that caller, up to a nesting depth of 50."""
    calls: Counter[Computation] = Counter()
    callers: dict[Computation, Instruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                calls[called] += 1
                callers[called] = instruction
    bodies = {c: caller for c, caller in callers.items() if calls[c] == 1 and _can_inline(module, c, caller)}
    depth: dict[Computation, int] = {}
    for computation in order:
        below = [depth.get(c, _MAX_INLINE_DEPTH) for i in computation.instructions for c in i.called_computations]
        depth[computation] = max(below, default=0) + 1
        # A deeper nesting starts anew: its computations are compared as those of other callers are.
        if depth[computation] > _MAX_INLINE_DEPTH:
            bodies.pop(computation, None)
            depth[computation] = 1
    return bodies


def _can_inline(module: Module, computation: Computation, caller: Instruction) -> bool:
    return (
        caller.opcode in _INLINED_OPCODES
        # An operand that selects an element with `#` is not a whole value, which inlining would need.
        and caller.index not in caller.computation.operand_indices
        and computation is not module.entry
        and computation.root is not None
        and len(computation.parameters) == len(caller.operands)
        and caller.computation.execution_thread == computation.execution_thread
    )


# --- computations of identical text ---


class IdenticalComputations:
    """Copies graph data of computations from one graph to another where their text is identical.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = "HloModule m\\n\\nENTRY e {\\n  p = s8[2] parameter(0)\\n  ROOT n = s8[2] not(p)\\n}\\n"
    >>> one = module_graph_of(parse_module(text), numbers := Keys())
    >>> two = ModuleGraph(module := parse_module(text), numbers)
    >>> IdenticalComputations(one, two).reuse(module.entry), two.keys == one.keys, two.operands
    (True, True, [(), (0,)])
    """

    __slots__ = ("_by_text", "_one", "_two")

    def __init__(self, one: ModuleGraph, two: ModuleGraph) -> None:
        self._one = one
        self._two = two
        self._by_text = {text: c for c in one.module.computations if (text := c.reader.whole())}

    def reuse(self, computation: Computation) -> bool:
        """Copies the data of a computation if the other module has it with identical text and callees; whether it
        has.
        """
        text = computation.reader.whole()
        twin = self._by_text.get(text) if text else None
        # Equal text proves equal keys only if all callees are equal, too.
        if twin is None or not self._are_both_inlined(twin, computation) or not self._callees_agree(twin, computation):
            return False
        self._copy(twin, computation)
        return True

    def _are_both_inlined(self, twin: Computation, computation: Computation) -> bool:
        return (twin in self._one.bodies) == (computation in self._two.bodies)

    def _callees_agree(self, twin: Computation, computation: Computation) -> bool:
        """Whether all callees of the same names have equal keys."""
        ones, twos = self._one.unit_of, self._two.unit_of
        for old, new in zip(twin.instructions, computation.instructions, strict=True):
            if old.called_computations or new.called_computations:
                called = [_unit_keys(ones.get(c)) for c in old.called_computations]
                if called != [_unit_keys(twos.get(c)) for c in new.called_computations]:
                    return False
        return True

    def _copy(self, twin: Computation, computation: Computation) -> None:
        one, two, count = self._one, self._two, len(computation.instructions)
        old, new = one.first_nodes[twin], two.first_nodes[computation]
        shift, end, last = new - old, old + count, new + count
        for level, keys in zip(two.keys, one.keys, strict=True):
            level[new:last] = keys[old:end]
        two.metadata[new:last] = one.metadata[old:end]
        two.tuple_index[new:last] = one.tuple_index[old:end]
        two.expression[new:last] = one.expression[old:end]
        two.comparable[new:last] = one.comparable[old:end]
        two.controlled.update([node + shift for node in one.controlled.intersection(range(old, end))])
        two.operands[new:last] = [tuple([o + shift for o in operands]) for operands in one.operands[old:end]]
        two.users[new:last] = [[(user + shift, position) for user, position in users] for users in one.users[old:end]]
        if computation.root is not None:
            two.roots.add(two.node(computation.root))
        unit = one.unit_of[twin]
        two.unit_of[computation] = Unit(computation, list(range(new, last)), unit.content, unit.full, twin)


def _unit_keys(unit: Unit | None) -> tuple[Key, Key] | None:
    return None if unit is None else (unit.content, unit.full)


# --- the graph of a module ---
# Builds the graph of a module; each distinct attribute text and shape is processed once.
#
# Computations whose text is identical in the other module are copied from the graph of that module.


_NO_INDEX: Final = "\0"
"""Prefix of the attributes of a get-tuple-element, whose keys do not contain its index."""


def module_graph_of(
    module: Module, numbers: Keys, *, same_frames: bool = True, earlier: ModuleGraph | None = None
) -> ModuleGraph:
    """Builds the graph of a module.

    `same_frames` means that both modules have the same table of stack frames. `earlier` is the graph of the other
    module, if it exists already.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT n = s8[] not(p) }")
    >>> graph = module_graph_of(module, Keys())
    >>> graph.operands, graph.users, graph.roots
    ([(), (0,)], [[(1, 0)], []], {1})
    """
    graph = ModuleGraph(module, numbers)
    # Lines of equal opcode, shape, and text have equal keys: thousands of instructions are looked up, not hashed anew.
    key_builder = _KeyBuilder(graph, same_frames=same_frames)
    identical = IdenticalComputations(earlier, graph) if earlier is not None else None
    for computation in graph.order:
        if identical is not None and identical.reuse(computation):
            continue
        first, unit = graph.first_nodes[computation], Unit(computation)
        for instruction in computation.instructions:
            node = first + instruction.index
            key_builder.add(node, instruction)
            unit.nodes.append(node)
            graph.link(node, [first + operand.index for operand in instruction.operands])
        graph.finish(unit)
        unit.full = numbers.of((unit.content, *sorted([graph.keys[FULL][node] for node in unit.nodes])))
        _set_comparable(graph, unit)
    return graph


def _set_comparable(graph: ModuleGraph, unit: Unit) -> None:
    """Sets `graph.comparable` for the nodes of a computation.

    In a fused computation it stays -1 for values that depend on parameters, because a compiler can renumber these.
    """
    if unit.computation not in graph.bodies:
        for node in unit.nodes:
            graph.comparable[node] = graph.expression[node]
        return
    # A renumbered parameter would make other values equal; constants and what is made of them stay comparable.
    for node in unit.nodes:
        is_closed = all(graph.comparable[operand] >= 0 for operand in graph.operands[node])
        if is_closed and graph.nodes[node].opcode != opcodes.PARAMETER:
            graph.comparable[node] = graph.expression[node]


class _KeyBuilder:
    """Computes the keys of instructions and caches those of shapes and attribute texts."""

    __slots__ = ("_graph", "_same_frames", "_shapes")

    def __init__(self, graph: ModuleGraph, *, same_frames: bool) -> None:
        self._graph = graph
        self._same_frames = same_frames
        self._shapes: dict[int, tuple[Key, Key]] = {}

    def add(self, node: Node, instruction: Instruction) -> None:
        """Stores the keys of an instruction at every level of detail, with the content of the computations that it
        calls.
        """
        graph, computation = self._graph, instruction.computation
        # Callees and `#` indices are not in the text of the line, so such lines are not kept.
        if instruction.called_computations or computation.operand_indices:
            line = self._line(instruction, *instruction.raw)
        else:
            argument, attributes = instruction.raw
            shape, _ = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
            written = instruction.opcode, shape, argument, attributes
            if (known := graph.numbers.lines.get(written)) is None:
                known = graph.numbers.lines[written] = self._line(instruction, argument, attributes)
            line = known
        full, content, essential, shapeless = graph.keys
        full[node], content[node], essential[node], shapeless[node], graph.tuple_index[node], text = line
        graph.metadata[node] = text.metadata
        if text.is_controlled:
            graph.controlled.add(node)

    def _line(self, instruction: Instruction, argument: str, attributes: str) -> Line:
        graph, opcode, called = self._graph, instruction.written_opcode, instruction.called_computations
        tuple_index = -1
        if opcode == opcodes.GET_TUPLE_ELEMENT and (match := TUPLE_INDEX.match(attributes)) is not None:
            tuple_index = int(match[1])
            attributes = f"{_NO_INDEX}{attributes}"
        texts = graph.numbers.calling if called else graph.numbers.plain
        if (text := texts.get(attributes)) is None:
            text = texts[attributes] = self._text(instruction)
        shape, bare_shape = self._shapes.get(id(instruction.shape)) or self._shape(instruction)
        element_indices = instruction.computation.operand_indices
        indices = element_indices.get(instruction.index) if element_indices else None
        units = [graph.unit_of[c] for c in called if c in graph.unit_of] if called else ()
        callees = tuple([unit.content for unit in units]) if units else ()
        # The argument of a parameter may have spaces around its number.
        number = argument.strip() if opcode == opcodes.PARAMETER else argument
        numbers = graph.numbers
        full = content = numbers.of((opcode, shape, text.content, number, indices, callees))
        if (reduced := numbers.reduced.get(content)) is None:
            reduced = numbers.reduced[content] = (
                numbers.of((opcode, bare_shape, text.essential, number, indices)),
                numbers.of((opcode, text.essential, number if opcode == opcodes.PARAMETER else "")),
            )
        if text.origin or units:
            full = numbers.of((content, text.origin, *[unit.full for unit in units]))
        return Line(full, content, *reduced, tuple_index, text)

    def _shape(self, instruction: Instruction) -> tuple[Key, Key]:
        shape, of = instruction.shape, self._graph.numbers.of
        found = self._shapes[id(shape)] = of(str(shape)), of(shape.to_string(layout=False))
        return found

    def _text(self, instruction: Instruction) -> Text:
        of = self._graph.numbers.of
        _, attributes, metadata, is_controlled = content_of(instruction)
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            attributes = TUPLE_INDEX.sub("", attributes, count=1)
        # Frame ids are numbers in a table of one module: without equal tables only the op_name is compared.
        is_own = not self._same_frames and "stack_frame_id" in metadata
        origin = op_name_in(metadata) if is_own else metadata
        return Text(of(attributes), of(_essential_attributes(attributes)), metadata, origin, is_controlled)


# --- computations inlined into their caller ---
# Graph in which computations with a single caller are inlined into it.
#
# xla/hlo/tools/hlo_diff/graph/hlo_gumgraph.h inlines the same computations before it matches two modules.


def flattened(graph: ModuleGraph) -> ModuleGraph:
    """Copy of a graph with edges from value to value across fusions and calls.

    The fusion, the parameters of its computation, and the elements of its result tuple only forward a value.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = '''f { a = s8[] parameter(0)  ROOT n = s8[] not(a) }
    ... ENTRY e { p = s8[] parameter(0)  ROOT r = s8[] fusion(p), kind=kLoop, calls=f }'''
    >>> flat = flattened(module_graph_of(parse_module("HloModule m " + text), Keys()))
    >>> flat.value, flat.operands[1]
    ([2, 1, 2, 1], (2,))
    """
    flat = copy(graph)
    flat.unlink()
    for computation in graph.order:
        if computation not in flat.bodies:
            unit = Unit(computation)
            _add(flat, computation, unit)
            flat.finish(unit)
    flat.comparable = flat.expression
    return flat


def _add(graph: ModuleGraph, computation: Computation, unit: Unit) -> None:
    """Links the nodes of a computation and of all computations inlined in it."""
    first, value, bodies = graph.first_nodes[computation], graph.value, graph.bodies
    if (caller := bodies.get(computation)) is not None:
        graph.unit_of[computation] = unit
        for parameter, argument in zip(computation.parameters, caller.operands, strict=True):
            value[first + parameter.index] = value[graph.node(argument)]
    for instruction in computation.instructions:
        node = first + instruction.index
        body = next((c for c in instruction.called_computations if c in bodies), None)
        if body is not None:
            _add(graph, body, unit)
            assert body.root is not None
            value[node] = value[graph.node(body.root)]
        elif instruction.opcode == opcodes.GET_TUPLE_ELEMENT and instruction.operands:
            value[node] = _element(graph, instruction, node)
        if value[node] == node:
            unit.nodes.append(node)
            graph.link(node, [value[first + operand.index] for operand in instruction.operands])
        else:
            graph.expression[node] = graph.expression[value[node]]


def _element(graph: ModuleGraph, instruction: Instruction, node: Node) -> Node:
    """Node of a tuple element of an inlined computation; `node` itself for elements of other tuples."""
    operand = graph.node(instruction.operands[0])
    made = graph.value[operand]
    if made == operand or graph.nodes[made].opcode != opcodes.TUPLE:
        return node
    elements, index = graph.operands[made], graph.tuple_index[node]
    return elements[index] if 0 <= index < len(elements) else node
