"""How two paired instructions, or two headers, differ, by kind, without what follows from other changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Final, Literal, get_args

from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.matching.graph import CONTENT, FULL, ModuleGraph, Node
from hlo_cli.analysis.matching.pairs import NONE, ElementMap, Pairs, is_passed_on
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Json, Metadata
from hlo_cli.ir.attributes.value_types import Alias, BufferDonor
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, NAMING_ATTRIBUTES
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape, TupleShape

# --- kinds of changes ---
# Differences of two paired instructions, by kind: layout, tiling, memory space, attributes, and others.
#
# The kinds are finer than those of xla/hlo/tools/hlo_diff/hlo_diff_summary.h, and a change has both values as text.


Kind = Literal[
    "opcode",
    "shape",
    "layout",
    "tiling",
    "memory_space",
    "operands",
    "attributes",
    "sharding",
    "constants",
    "backend_config",
    "fusion",  # fused or not, or with what
    "computation",  # in another one, neither of them fused
    "metadata",
    "header",
]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
"""Kinds of changes, in the order of the reports."""
FUSED: Final[Kind] = "fusion"
PLACE_KINDS: Final[tuple[Kind, ...]] = (FUSED, "computation")
"""Kinds of changes of what an instruction is in: a fusion, or another computation."""


@dataclass(frozen=True, slots=True)
class Change:
    """One changed property with its text in both modules.

    `name` is the attribute, configuration key, operand, or tuple element; it is empty where `kind` identifies the
    property.

    >>> str(Change("attributes", "direction", "LT", "GT"))
    'direction LT → GT'
    """

    kind: Kind
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.label} {self.before or 'none'} → {self.after or 'none'}"

    @property
    def label(self) -> str:
        """Changed property in words.

        >>> Change("memory_space", "{1}", "S(0)", "S(1)").label, Change("metadata", "op_name", "a", "b").label
        ('memory space {1}', 'op_name')
        """
        if self.name and not self.name.startswith("{"):
            return self.name
        return f"{self.kind.replace('_', ' ')} {self.name}".rstrip()


def shape_changes(before: Shape, after: Shape) -> Iterator[Change]:
    """Yields the differences of two shapes: type and dimensions, or else layout, tiling, and memory space of each leaf.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [str(c) for c in shape_changes(parse_shape("f32[8,16]{0,1}"), parse_shape("f32[8,16]{1,0:T(8,128)}"))]
    ['layout {0,1} → {1,0}', 'tiling none → T(8,128)']
    """
    if before == after:
        return
    if before.to_string(layout=False) != after.to_string(layout=False):
        yield Change("shape", "", before.to_string(layout=False), after.to_string(layout=False))
        return
    for (index, one), (_, two) in zip(before.leaves, after.leaves, strict=True):
        name = index_suffix(index)
        yield from _layout_changes(one, two, name)


def _layout_changes(one: Leaf, two: Leaf, name: str) -> Iterator[Change]:
    x, y = _array(one), _array(two)
    if x is None or y is None or str(x) == str(y):
        return
    order, tiles = (_order(x), _order(y)), (_tiles(x), _tiles(y))
    # Order, tiles, and memory space are changes of their own; the rest of a layout shows only without them.
    if order[0] != order[1]:
        yield Change("layout", name, *order)
    if tiles[0] != tiles[1]:
        yield Change("tiling", name, *tiles)
    if x.memory_space != y.memory_space:
        yield Change("memory_space", name, f"S({x.memory_space})", f"S({y.memory_space})")
    elif order[0] == order[1] and tiles[0] == tiles[1]:
        yield Change("layout", name, str(x.layout), str(y.layout))


def _array(leaf: Leaf) -> ArrayShape | None:
    if isinstance(leaf, BufferShape):
        return leaf.array
    return leaf if isinstance(leaf, ArrayShape) else None


def _order(shape: ArrayShape) -> str:
    return index_text(shape.layout.minor_to_major)


def _tiles(shape: ArrayShape) -> str:
    tiles = "".join(map(str, shape.layout.tiles))
    return f"T{tiles}" if tiles else ""


def content_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields the differences of two instructions themselves, without their operands, names, and metadata."""
    # The opcode as given: XLA's sugar for async operations is a change of text, not of the program.
    if before.written_opcode != after.written_opcode:
        yield Change("opcode", "", before.written_opcode, after.written_opcode)
    yield from shape_changes(before.shape, after.shape)
    yield from _argument_changes(before, after)
    yield from _element_changes(before, after)
    old, new = _compared_attributes(before), _compared_attributes(after)
    for name in dict.fromkeys((*old, *new)):
        one, two = old.get(name, ""), new.get(name, "")
        if one == two:
            continue
        if name == "backend_config":
            yield from _config_changes(before, after, one, two)
        else:
            yield Change("sharding" if name == "sharding" else "attributes", name, one, two)


def _compared_attributes(instruction: Instruction) -> dict[str, str]:
    """Attributes without names of other objects, metadata, and the index of a tuple element, which can shift."""
    is_element = instruction.opcode == opcodes.GET_TUPLE_ELEMENT
    return {
        name: value
        for name, value in instruction.pairs
        # An index shifts with every element before it, so indices are compared with the tuples, see `OperandDiff`.
        if name not in NAMING_ATTRIBUTES and name != "metadata" and not (is_element and name == "index")
    }


def _argument_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields other values of constants, and other texts in place of operands that could not be read."""
    one, two = before.raw[0].strip(), after.raw[0].strip()
    # The argument of a parameter is its number, which `_reordered_arguments` compares.
    if one == two or opcodes.PARAMETER in (before.opcode, after.opcode):
        return
    if opcodes.CONSTANT in (before.opcode, after.opcode):
        yield Change("constants", "value", one, two)
    elif not (before.operands or after.operands):
        yield Change("operands", "", one, two)


def _element_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields differences of tuple elements that operands select with `#`, such as `%a#1`."""
    for position in range(min(len(before.operands), len(after.operands))):
        one, two = before.operand_index(position), after.operand_index(position)
        if one != two:
            yield Change("operands", f"operand {position}", _index(one), _index(two))


def _index(index: tuple[int, ...]) -> str:
    return "".join(f"#{i}" for i in index)


def _config_changes(before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
    """Yields differences of two backend configurations, by key if both are JSON objects."""
    old, new = before.backend_config, after.backend_config
    # A configuration that is no JSON object is one text; the other way round keys would be empty on one side.
    if old is None or new is None or not isinstance(old.json, Mapping) or not isinstance(new.json, Mapping):
        if old is None or new is None or old != new:
            yield Change("backend_config", "backend_config", one, two)
        return
    ones, twos = dict(_keys(old.json)), dict(_keys(new.json))
    for key in dict.fromkeys((*ones, *twos)):
        if ones.get(key) != twos.get(key):
            yield Change("backend_config", key, ones.get(key, ""), twos.get(key, ""))


def _keys(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields every value that is not an object, with its dotted path of keys."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _keys(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, _json_text(value)


def _json_text(value: Json) -> str:
    from json import dumps

    return dumps(_plain(value), separators=(",", ":"))


def _plain(value: Json) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


class MetadataDiff:
    """Compares the metadata of instructions; stack frame ids are resolved, as they are valid in one module only."""

    __slots__ = ("_known", "_one", "_same_tables", "_two")

    def __init__(self, one: Module, two: Module) -> None:
        self._one = one
        self._two = two
        # Equal tables make equal stack_frame_ids equal stacks, which saves resolving them.
        self._same_tables = one.stack_tables == two.stack_tables
        self._known: dict[tuple[str, str], tuple[Change, ...]] = {}

    def changes(self, before: Instruction, after: Instruction, one: str, two: str) -> tuple[Change, ...]:
        """Differences of metadata; `one` and `two` are the text of the metadata."""
        if one == two and (self._same_tables or "stack_frame_id" not in one):
            return ()
        if (found := self._known.get((one, two))) is None:
            found = self._known[one, two] = tuple(self._differences(before, after, one, two))
        return found

    def _differences(self, before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
        old, new = before.metadata, after.metadata
        found_any = False
        for entry in fields(Metadata):
            if entry.name not in _LOCATION_FIELDS:
                x, y = getattr(old, entry.name), getattr(new, entry.name)
                if x != y:
                    found_any = True
                    yield Change("metadata", entry.name, str(x or ""), str(y or ""))
        x, y = self._location(self._one, before), self._location(self._two, after)
        if x != y:
            yield Change("metadata", "source", x, y)
        # A field that `Metadata` does not know still is a difference of the texts.
        elif not found_any and one != two and not (old.stack_frame_id or new.stack_frame_id):
            yield Change("metadata", "metadata", one, two)

    @staticmethod
    def _location(module: Module, instruction: Instruction) -> str:
        frames = module.stack_frames.stack(instruction.metadata.stack_frame_id)
        if frames:
            return " < ".join(map(str, frames))
        return str(module.location(instruction) or "")


_LOCATION_FIELDS: Final = (
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "stack_frame_id",
)


# --- operands and callees ---
# Changes of operands, control predecessors, and callees, without those that follow from other changes.
#
# A user of a removed instruction now uses its operand, and a user of a copied value uses the copy: neither is changed.


_MAX_VISITED: Final = 512  # far more than what one pass inserts between two paired values; chosen, not measured


@dataclass(frozen=True, slots=True)
class OperandDiff:
    """Compares operands, control predecessors, and callees under given pairs of instructions and computations."""

    pairs: Pairs
    computations: Mapping[Computation, Computation]
    _named: dict[Computation, dict[str, Instruction]] = field(default_factory=dict)

    def changes(self, a: Node, b: Node) -> Iterator[Change]:
        """Yields the changes of operands, callees, and control predecessors of a pair."""
        # Nearly all pairs of two similar modules end here.
        if self.has_identical_operands(a, b):
            return
        pairs = self.pairs
        one, two = pairs.one.nodes[a], pairs.two.nodes[b]
        yield from self._operand_changes(one, two)
        if one.called_computations or two.called_computations:
            yield from self._call_changes(one, two)
        if a in pairs.one.controlled or b in pairs.two.controlled:
            yield from self._control_changes(one, two)

    def has_identical_operands(self, a: Node, b: Node) -> bool:
        """Whether all operands are paired by position, and all callees identical: the usual case, tested first."""
        pairs, (one, two) = self.pairs, self.pairs.plain
        if tuple(map(pairs.after.__getitem__, one.operands[a])) != two.operands[b]:
            return False
        if one.tuple_index[a] >= 0 and not pairs.is_same_element(a, b):
            return False
        called, others = one.nodes[a].called_computations, two.nodes[b].called_computations
        if (called or others) and not self._are_identical(called, others):
            return False
        return a not in one.controlled and b not in two.controlled

    def _are_identical(self, called: Sequence[Computation], others: Sequence[Computation]) -> bool:
        pairs, pair_of = self.pairs, self.computations.get
        return len(called) == len(others) and all(
            pair_of(x) is y and pairs.are_identical(x, y) for x, y in zip(called, others, strict=True)
        )

    def _operand_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        # Tuples, fusions, and calls first: positions of their operands mean nothing by themselves.
        if one.opcode == two.opcode == opcodes.TUPLE:
            yield from self._tuple_changes(one, two)
            return
        if one.opcode == two.opcode == opcodes.GET_TUPLE_ELEMENT:
            yield from self._index_changes(one, two)
        by_parameter = self._operands_by_parameter(one, two)
        # With another number of operands and an equal opcode no position corresponds: the lists are shown.
        if by_parameter is None and len(one.operands) != len(two.operands):
            if one.opcode == two.opcode:
                yield Change("operands", "", _names(one.operands), _names(two.operands))
            return
        for position, (x, y) in enumerate(
            zip(one.operands, two.operands, strict=True) if by_parameter is None else by_parameter
        ):
            if not self._are_same_value(x, y):
                yield Change("operands", f"operand {position}", x.name, y.name)

    def _index_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields the index of a tuple element if it is another element of the same tuple."""
        pairs = self.pairs
        a, b = pairs.one.node(one), pairs.two.node(two)
        ones, twos = pairs.plain[0].operands[a], pairs.plain[1].operands[b]
        if not ones or not twos or pairs.after[ones[0]] != twos[0] or pairs.is_same_element(a, b):
            return
        index, other = one.attribute("index") or "", two.attribute("index") or ""
        if index != other:
            yield Change("attributes", "index", index, other)
        else:
            names = one.operands[0].name, two.operands[0].name
            yield Change("operands", "operand 0", f"{names[0]}{{{index}}}", f"{names[1]}{{{other}}}")

    def _tuple_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields the elements of two tuples that differ, apart from those that were added or removed themselves."""
        pairs = self.pairs
        elements, is_carried = self._elements(one, two)
        places = [j for j in elements.after if j >= 0]
        # A minimal set of moved elements explains the order: those outside of a longest increasing subsequence.
        stays = longest_increasing(places) if not is_carried and not elements.is_identity else range(len(places))
        nodes, others = (g.operands[g.node(each)] for g, each in zip(pairs.plain, (one, two), strict=True))
        place = -1
        for i, j in enumerate(elements.after[: len(nodes)]):
            if j >= len(others):
                continue
            if j < 0:
                if pairs.after[nodes[i]] >= 0:
                    yield Change("operands", f"operand {i}", one.operands[i].name, "")
                continue
            place += 1
            if pairs.after[nodes[i]] != others[j] and not self._are_same_value(one.operands[i], two.operands[j]):
                yield Change("operands", f"operand {i}", one.operands[i].name, two.operands[j].name)
            elif place not in stays:
                yield Change("operands", one.operands[i].name, f"operand {i}", f"operand {j}")
        for j, i in enumerate(elements.before):
            if i < 0 and j < len(two.operands) and pairs.before[pairs.two.node(two.operands[j])] >= 0:
                yield Change("operands", f"operand {j}", "", two.operands[j].name)

    def _elements(self, one: Instruction, two: Instruction) -> tuple[ElementMap, bool]:
        """Elements of two tuples that correspond, and whether their order means nothing, as their users follow it."""
        pairs = self.pairs
        x, y = (graph.node(instruction) for graph, instruction in zip(pairs.plain, (one, two), strict=True))
        if not (one.is_root and two.is_root):
            return pairs.elements.of(x, y), is_passed_on(pairs.plain[0], x) and is_passed_on(pairs.plain[1], y)
        # The order of the results of the entry is the interface; that of a loop's tuple follows its body.
        return pairs.elements.of(x, y), not one.computation.is_entry

    def _operands_by_parameter(
        self, one: Instruction, two: Instruction
    ) -> list[tuple[Instruction, Instruction]] | None:
        """Operands of two fusions or calls for the same parameters, whatever their numbers; None for other
        instructions.
        """
        graph = self.pairs.one
        # Fusion parameters are numbered in the order in which the pass met their operands, so numbers change freely.
        is_call = one.opcode == two.opcode == opcodes.CALL and len(one.operands) != len(two.operands)
        called = next((c for c in one.called_computations if c in graph.bodies or is_call), None)
        if called is None or self.computations.get(called) not in two.called_computations:
            return None
        if len(called.parameters) != len(one.operands):
            return None
        by_parameter = []
        for parameter, x in zip(called.parameters, one.operands, strict=True):
            b = self.pairs.after[graph.node(parameter)]
            other = self.pairs.two.nodes[b] if b >= 0 else None
            number = other.parameter_number if other is not None else None
            if number is not None and number < len(two.operands):
                by_parameter.append((x, two.operands[number]))
        return by_parameter

    def _are_same_value(self, x: Instruction, y: Instruction) -> bool:
        """Whether two operands are paired, forward the same value, or differ only by another reported change."""
        one, two = self.pairs.one, self.pairs.two
        a, b = one.node(x), two.node(y)
        if self.pairs.after[a] == b or self._are_same_value_in(*self.pairs.plain, a, b):
            return True
        # The flattened graphs know that a fused parameter is the operand, which `plain` ones do not.
        return one is not self.pairs.plain[0] and self._are_same_value_in(one, two, one.value[a], two.value[b])

    def _are_same_value_in(self, one: ModuleGraph, two: ModuleGraph, a: Node, b: Node) -> bool:
        """Whether two operands are one value in these graphs: equal expressions, or one replaces the other.

        An added or removed operand replaces the other one if both derive from one pair.
        """
        after, before = self.pairs.after, self.pairs.before
        # Equal expressions are the same value, and two unpaired operands are reported as removed and added already.
        if after[a] == b or 0 <= one.comparable[a] == two.comparable[b] or (after[a] < 0 and before[b] < 0):
            return True
        if after[a] >= 0 and before[b] >= 0:
            return False
        sources = {after[node] for node in _nearest_paired(a, one.operands, after)}
        return not sources.isdisjoint(_nearest_paired(b, two.operands, before))

    def _call_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        ones, twos = one.called_computations, two.called_computations
        if len(ones) == len(twos) and all(map(self._is_same_callee, ones, twos)):
            return
        if one.opcode == two.opcode:
            yield Change("attributes", "calls", ", ".join(c.name for c in ones), ", ".join(c.name for c in twos))

    def _is_same_callee(self, x: Computation, y: Computation) -> bool:
        one, two = self.pairs.one, self.pairs.two
        if self.computations.get(x) is y:
            return True
        return x in one.unit_of and y in two.unit_of and one.unit_of[x].content == two.unit_of[y].content

    def _control_changes(self, one: Instruction, two: Instruction) -> Iterator[Change]:
        """Yields control predecessors that both modules have, but that precede the instruction in one only."""
        pairs = self.pairs
        ones, twos = self._control_predecessors(one), self._control_predecessors(two)
        before = {pairs.after[pairs.one.node(i)] for i in ones}
        now = {b for b in map(pairs.two.node, twos) if pairs.before[b] >= 0}
        # Predecessors that only one module has are added or removed themselves.
        if before - {NONE} != now:
            yield Change("attributes", CONTROL_PREDECESSORS, _names(ones), _names(twos))

    def _control_predecessors(self, instruction: Instruction) -> list[Instruction]:
        computation = instruction.computation
        if (named := self._named.get(computation)) is None:
            named = self._named[computation] = {i.name: i for i in computation.instructions}
        return [named[name] for name in instruction.control_predecessors if name in named]


def _names(instructions: Sequence[Instruction]) -> str:
    return ", ".join(instruction.name for instruction in instructions)


def _nearest_paired(node: Node, operands: Sequence[tuple[Node, ...]], partners: Sequence[Node]) -> set[Node]:
    """Nearest paired nodes that a node is computed from; itself if it is paired."""
    paired, waiting, visited = set(), [node], {node}
    while waiting and len(visited) < _MAX_VISITED:
        current = waiting.pop()
        if partners[current] >= 0:
            paired.add(current)
            continue
        new = [operand for operand in operands[current] if operand not in visited]
        visited.update(new)
        waiting.extend(new)
    return paired


# --- paired instructions ---


class InstructionDiff:
    """Compares paired instructions; operands and callees are compared under the current pairs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.match_modules import match
    >>> before = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] add(p, p) }")
    >>> after = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] subtract(p, p) }")
    >>> matching = match(before, after)
    >>> [str(change) for change in InstructionDiff(matching.pairs, matching.computations).changes(1, 1)]
    ['opcode add → subtract']
    """

    __slots__ = ("_computations", "_content_diffs", "_metadata_diff", "_operand_diff", "_pairs", "_same_frames")

    def __init__(self, pairs: Pairs, computations: Mapping[Computation, Computation]) -> None:
        self._pairs = pairs
        self._computations = computations
        self._same_frames = pairs.one.module.stack_tables == pairs.two.module.stack_tables
        self._metadata_diff = MetadataDiff(pairs.one.module, pairs.two.module)
        self._content_diffs: dict[tuple[Node, Node], tuple[Change, ...]] = {}
        self._operand_diff = OperandDiff(pairs, computations)

    def changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """All changes of a pair."""
        one, two = self._pairs.one, self._pairs.two
        before, after = one.nodes[a], two.nodes[b]
        # The usual case needs four comparisons of integers.
        if (
            self._same_frames
            and one.keys[FULL][a] == two.keys[FULL][b]
            and self._computations.get(before.computation) is after.computation
            and self._operand_diff.has_identical_operands(a, b)
        ):
            return ()
        changes = list(self._content_changes(a, b)) if one.keys[CONTENT][a] != two.keys[CONTENT][b] else []
        changes += self._operand_diff.changes(a, b)
        changes += self._computation_changes(before, after)
        changes += self._metadata_diff.changes(before, after, one.metadata[a], two.metadata[b])
        return tuple(changes)

    def unchanged_nodes(self) -> set[Node]:
        """Nodes without calls in computations that are identical in both modules; they need no comparison."""
        pairs, (one, _) = self._pairs, self._pairs.plain
        if not self._same_frames:
            return set()
        same: set[Node] = set()
        for x, y in self._computations.items():
            if pairs.are_identical(x, y):
                first = one.first_nodes[x]
                same.update([first + i.index for i in x.instructions if not i.called_computations])
        return same - one.controlled

    def _content_changes(self, a: Node, b: Node) -> tuple[Change, ...]:
        """Changes of content, cached as they do not depend on other pairs."""
        if (found := self._content_diffs.get((a, b))) is None:
            one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
            found = self._content_diffs[a, b] = tuple(content_changes(one, two))
        return found

    def _computation_changes(self, before: Instruction, after: Instruction) -> Iterator[Change]:
        """Yields a change if the instruction moved to another computation: fused, unfused, or in a different fusion."""
        old, new = before.computation, after.computation
        if self._computations.get(old) is new:
            return
        was_fused, is_fused = _is_fused(self._pairs.one, old), _is_fused(self._pairs.two, new)
        if not (was_fused or is_fused):
            yield Change("computation", "", old.name, new.name)
            return
        how = "different fusion" if was_fused and is_fused else "fused" if is_fused else "unfused"
        yield Change(FUSED, how, old.name, new.name)


def is_inlined_parameter(graph: ModuleGraph, node: Node) -> bool:
    """Whether a node is a parameter of a computation with a single fusion or call as caller: it only forwards an
    operand.
    """
    instruction = graph.nodes[node]
    return instruction.opcode == opcodes.PARAMETER and instruction.computation in graph.bodies


def _is_fused(graph: ModuleGraph, computation: Computation) -> bool:
    caller = graph.bodies.get(computation)
    return caller is not None and caller.opcode == opcodes.FUSION


# --- headers ---
# Changes of header attributes, apart from those that follow from arguments and results that were added or removed.
#
# Header attributes list arguments and results by number. An argument in the middle shifts the numbers after it, so each
# attribute is compared for every argument and result that both modules have.


_Items = dict[Hashable, tuple[str, str]]
"""Parts of an attribute by what they are about: the part that is compared, and its text."""

# gpu_hlo_schedule.cc puts it on modules before its latency hiding scheduler: it differs if anything does.
_DERIVED: Final = "fingerprint_before_lhs"
"""A frontend attribute that XLA computes from the text of the module."""


def header_changes(pairs: Pairs, *, is_equal: bool) -> Iterator[Change]:
    """Yields changed header attributes; `is_equal` means that no instruction differs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.match_modules import match
    >>> text = "HloModule m, buffer_donor={{ ({}, {{}}) }} ENTRY e {{ {} ROOT p = s8[4] parameter({}) }}"
    >>> one, two = (parse_module(text.format(*each)) for each in ((0, "", 0), (1, "q = s8[] parameter(0)", 1)))
    >>> list(header_changes(match(one, two).pairs, is_equal=False))
    []
    """
    modules = [graph.module for graph in pairs.plain]
    old, new = ({attribute.name: attribute.value for attribute in module.header} for module in modules)
    one, two = _interfaces(pairs)
    is_whole = not any(module.is_truncated for module in modules)
    is_shifted = is_whole and not (one.is_identity and two.is_identity)
    for name in dict.fromkeys((*old, *new)):
        before, after, items_of = old.get(name, ""), new.get(name, ""), _BY_NUMBER.get(name)
        if before == after and (items_of is None or not is_shifted):
            continue
        if items_of is not None and before and after:
            # Numbers that shift because an argument was inserted are no change of the attribute.
            ones, twos = items_of(one), items_of(two)
            if ones is not None and twos is not None:
                ignored = () if is_equal else (_DERIVED,)
                before, after = _differing(ones, twos, ignored), _differing(twos, ones, ignored)
        if before != after:
            yield Change("header", name, before, after)


def _differing(items: _Items, other_items: _Items, ignored: tuple[str, ...]) -> str:
    """Text of the items that the other module has not, or not so."""
    texts = [
        text for key, (value, text) in items.items() if key not in ignored and other_items.get(key, ("",))[0] != value
    ]
    return ", ".join(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class _Interface:
    """Arguments and results of one module.

    `arguments` and `results` have the number of each in the old module; NONE for one that the other module has not.
    """

    module: Module
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    is_tuple: bool

    @property
    def is_identity(self) -> bool:
        """Whether all arguments and results are those of the old module."""
        return all(number == at for numbers in (self.arguments, self.results) for at, number in enumerate(numbers))

    def result(self, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """Index of a part of the result in the old module, or None if that has no such part."""
        if not self.is_tuple or not index:
            return (self.results[0], *index) if self.results[0] >= 0 else None
        number = self.results[index[0]] if index[0] < len(self.results) else NONE
        return (number, *index[1:]) if number >= 0 else None


def _interfaces(pairs: Pairs) -> tuple[_Interface, _Interface]:
    one, two = (graph.module for graph in pairs.plain)
    arguments = [NONE] * len(one.entry.parameters), [NONE] * len(two.entry.parameters)
    numbers = {parameter: number for number, parameter in enumerate(two.entry.parameters)}
    for number, parameter in enumerate(one.entry.parameters):
        other = pairs.after[pairs.one.node(parameter)]
        if other >= 0 and (new := numbers.get(pairs.two.nodes[other])) is not None:
            arguments[0][number] = arguments[1][new] = number
    results = _results(pairs)
    return (
        _Interface(one, tuple(arguments[0]), results[0], _is_tuple(one)),
        _Interface(two, tuple(arguments[1]), results[1], _is_tuple(two)),
    )


def _is_tuple(module: Module) -> bool:
    return module.entry.root is not None and isinstance(module.entry.root.shape, TupleShape)


def _results(pairs: Pairs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers in the old module of the elements of both results; one array is element 0."""
    roots = [graph.module.entry.root for graph in pairs.plain]
    if roots[0] is None or roots[1] is None:
        return (NONE,), (NONE,)
    a, b = pairs.one.node(roots[0]), pairs.two.node(roots[1])
    shapes = [root.shape for root in roots if root is not None]
    if all(isinstance(shape, TupleShape) for shape in shapes):
        elements = pairs.elements.of(a, b)
        return tuple([i if j >= 0 else NONE for i, j in enumerate(elements.after)]), elements.before
    if not any(isinstance(shape, TupleShape) for shape in shapes):
        return (0,), (0,)
    if isinstance(shapes[0], TupleShape):
        # An array that became the only element of a tuple, or the other way round.
        kept = [pairs.after[x] == b for x in pairs.plain[0].operands[a]]
        return tuple([i if is_kept else NONE for i, is_kept in enumerate(kept)]), (_first(kept),)
    kept = [pairs.before[y] == a for y in pairs.plain[1].operands[b]]
    return (0 if any(kept) else NONE,), tuple([0 if is_kept else NONE for is_kept in kept])


def _first(flags: list[bool]) -> int:
    return flags.index(True) if any(flags) else NONE


def _layout_items(side: _Interface) -> _Items | None:
    """Shapes of arguments and results where they are not those of the instructions, whose changes are listed."""
    layout, entry = side.module.entry_computation_layout, side.module.entry
    if layout is None or len(layout.parameters) != len(entry.parameters) or entry.root is None:
        return None
    items: _Items = {}
    for number, (shape, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        _add_shape(items, "argument", number, side.arguments[number], (shape, parameter.shape))
    shapes = _elements(layout.result), _elements(entry.root.shape)
    # A layout with other counts than the entry is of a text that was edited: it is compared as a whole.
    if len(shapes[0]) != len(side.results) or len(shapes[1]) != len(side.results):
        return None
    for number, both in enumerate(zip(*shapes, strict=True)):
        _add_shape(items, "result", number, side.results[number], both)
    return items


def _add_shape(items: _Items, noun: str, number: int, old: int, shapes: tuple[Shape, Shape]) -> None:
    if old >= 0:
        text = str(shapes[0])
        items[noun, old] = "" if text == str(shapes[1]) else text, f"{noun} {number} {text}"


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _alias_items(side: _Interface) -> _Items | None:
    items: _Items = {}
    for alias in side.module.header_items("input_output_alias", Alias):
        argument, result = _old(side, alias.parameter_number), side.result(alias.output_index)
        if argument >= 0 and result is not None:
            items[result, argument, alias.parameter_index] = (
                alias.kind,
                f"{alias} {_name(side, alias.parameter_number)}",
            )
    return items


def _donor_items(side: _Interface) -> _Items | None:
    donors = side.module.header_items("buffer_donor", BufferDonor)
    return {
        (_old(side, each.parameter_number), each.parameter_index): (
            "donated",
            f"{each} {_name(side, each.parameter_number)}",
        )
        for each in donors
        if _old(side, each.parameter_number) >= 0
    }


def _name(side: _Interface, number: int) -> str:
    """The op_name of an argument, or its name."""
    parameter = side.module.entry.parameters[number]
    return parameter.metadata.op_name or parameter.name


def _old(side: _Interface, number: int) -> int:
    return side.arguments[number] if 0 <= number < len(side.arguments) else NONE


def _flag_items(flags: tuple[bool, ...], numbers: tuple[int, ...], noun: str) -> _Items | None:
    """Flags of arguments or results; a single flag is that of all."""
    # A single flag holds for all arguments or results (xla.proto, ExecutionOptions).
    if len(flags) == 1:
        flags *= len(numbers)
    if len(flags) != len(numbers):
        return None
    texts = [str(flag).lower() for flag in flags]
    return {
        (noun, old): (text, f"{noun} {number} {text}")
        for number, (old, text) in enumerate(zip(numbers, texts, strict=True))
        if old >= 0
    }


def _argument_flags(side: _Interface) -> _Items | None:
    flags = side.module.allow_spmd_sharding_propagation_to_parameters
    return _flag_items(flags, side.arguments, "argument")


def _result_flags(side: _Interface) -> _Items | None:
    flags = side.module.allow_spmd_sharding_propagation_to_output
    return _flag_items(flags, side.results, "result")


def _frontend_items(side: _Interface) -> _Items | None:
    """Frontend attributes; those with a text for each argument or result, by these."""
    items: _Items = {}
    for name, text in side.module.frontend_attributes.entries:
        # Such attributes list a text for each argument or result; with other counts they are one text.
        numbers = next(
            (n for prefix, n in (("arg_", side.arguments), ("out_", side.results)) if name.startswith(prefix)), ()
        )
        parts = text.split(";")
        if len(parts) != len(numbers):
            items[name] = text, f"{name}={text}"
            continue
        for number, (old, part) in enumerate(zip(numbers, parts, strict=True)):
            if old >= 0:
                items[name, old] = part, f"{name} {number} {part}"
    return items


_BY_NUMBER: Final[Mapping[str, Callable[[_Interface], _Items | None]]] = {
    "entry_computation_layout": _layout_items,
    "input_output_alias": _alias_items,
    "buffer_donor": _donor_items,
    "allow_spmd_sharding_propagation_to_parameters": _argument_flags,
    "allow_spmd_sharding_propagation_to_output": _result_flags,
    "frontend_attributes": _frontend_items,
}
"""Header attributes that list arguments or results."""
