"""Which nodes and edges does a graph of a module show: their kinds, what is seen through, and the part in view?

A view is all nodes, those around one, the paths between two, or computations as clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import cache
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.dataflow.dependencies import callees_first, control_predecessors
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

# --- kinds, by which nodes are colored ---
# Mirrors `HloDotDumper::GetInstructionColor` of xla/service/hlo_graph_dumper.cc: each of its colors is one kind or
# more. A fusion, which is gray in XLA, has the kind of the most costly operation in it.


Kind: TypeAlias = Literal[
    "matmul",
    "reduction",
    "elementwise",
    "slicing or sorting",
    "data movement",
    "precision",
    "fusion",
    "control flow",
    "custom call",
    "collective",
    "parameter",
    "small parameter",
    "constant",
    "scalar",
    "free",
    "other",
]
"""`collective` includes transfers to other devices and to the host; `free` needs no kernel, such as a tuple."""

SMALL_ELEMENTS: Final = 4096
"""A parameter with fewer elements is small (`IsSmall` of hlo_graph_dumper.cc)."""

_FREE: Final = frozenset(
    (
        *(opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY),
        opcodes.OPT_BARRIER,
    )
)
_REDUCTIONS: Final = frozenset(
    (
        *(opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.SCATTER, opcodes.SELECT_AND_SCATTER, opcodes.TOPK),
        *("batch-norm-grad", "batch-norm-inference", "batch-norm-training", "scan"),
    )
)
_CREATED: Final = operations.RANDOM_STATE | {opcodes.IOTA, opcodes.RNG_BIT_GENERATOR}
_MOVING_OPCODES: Final = frozenset(
    (
        *(opcodes.CONCATENATE, opcodes.PAD, opcodes.DYNAMIC_RESHAPE, opcodes.GATHER, opcodes.DYNAMIC_SLICE),
        *(opcodes.DYNAMIC_UPDATE_SLICE, opcodes.COPY_START, opcodes.COPY_DONE),
    )
)
_TARGET: Final = "custom_call_target"
# TPU fusions that begin and end a collective have these roots.
_COLLECTIVE_TARGETS: Final = (operations.ASYNC_COLLECTIVE_START, operations.ASYNC_COLLECTIVE_DONE)
# By cost: a matmul in a fusion takes its time, whatever else is there. XLA colors all fusions gray.
_IN_FUSIONS: Final[tuple[Kind, ...]] = ("matmul", "collective", "custom call", "reduction")
"""The kinds of instructions that give a fusion theirs, the most important first."""
# They take no time, so they do not make a fusion mixed.
_IGNORED: Final[frozenset[Kind]] = frozenset((opcodes.PARAMETER, "small parameter", opcodes.CONSTANT, "scalar", "free"))


@cache
def kind_of_opcode(opcode: str) -> Kind:
    """The kind of an opcode, whatever its shape; that of the wrapped operation for `slice-start` and others.

    >>> kind_of_opcode("dot"), kind_of_opcode("all-gather-start"), kind_of_opcode("slice-start")
    ('matmul', 'collective', 'slicing or sorting')
    """
    # An async form has the kind of what it runs.
    if (wrapped := operations.wrapped_opcode(opcode)) is not None:
        opcode = wrapped
    base = opcode.removesuffix("-start").removesuffix("-done")
    if base in operations.COLLECTIVES | operations.CHANNEL_OPCODES | operations.HOST_FEEDS:
        return "collective"
    if opcode in operations.DEVICE_IDS:
        return "collective"
    for kind, named in _OPCODES_OF_KINDS.items():
        if opcode in named:
            return kind
    return "other"


def kinds_of(computations: Iterable[Computation]) -> Mapping[Instruction, Kind]:
    """The kind of every instruction of the computations, and of those that they call.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { p = f32[8,8] parameter(0) d = f32[8,8] dot(p, p)  ROOT e = f32[8,8] negate(d) }
    ... ENTRY e { a = f32[8,8] parameter(0)  ROOT r = f32[8,8] fusion(a), kind=kOutput, calls=f }'''
    >>> module = parse_module(text)
    >>> [kind for instruction, kind in kinds_of(module.computations).items() if instruction.computation is module.entry]
    ['small parameter', 'matmul']
    """
    found: dict[Instruction, Kind] = {}
    dominant: dict[Computation, Kind] = {}
    listed = tuple(callees_first(computations))
    fused = {
        called
        for computation in listed
        for instruction in computation.instructions
        if instruction.opcode == opcodes.FUSION
        for called in instruction.called_computations
    }
    for computation in listed:
        for instruction in computation.instructions:
            found[instruction] = _kind(instruction, found, dominant, is_fused=computation in fused)
        dominant[computation] = _dominant(found[each] for each in computation.instructions)
    return found


def _is_free_call(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call that launches nothing, such as the joining of adjacent buffers.

    >>> from hlo_cli import parse_module
    >>> _is_free_call(parse_module('r = f32[8] custom-call(a, b), custom_call_target="ConcatBitcast"').entry.root)
    True
    """
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string(_TARGET) in operations.NO_KERNEL_TARGETS


def _is_scalar(shape: Shape) -> bool:
    """Whether a shape is an array of one element (`ShapeUtil::IsEffectiveScalar`).

    >>> from hlo_cli import parse_module
    >>> [_is_scalar(parse_module(f"r = {shape} negate(p)").entry.root.shape) for shape in ("s32[1,1]", "s32[2]")]
    [True, False]
    """
    return isinstance(shape, ArrayShape) and all(size == 1 for size in shape.dimensions)


def _kind(
    instruction: Instruction,
    kinds_before: Mapping[Instruction, Kind],
    dominant: Mapping[Computation, Kind],
    *,
    is_fused: bool,
) -> Kind:
    """The kind of an instruction, after those of the instructions before it, and of what its computation calls."""
    opcode, shape = instruction.opcode, instruction.shape
    if opcode == opcodes.PARAMETER:
        return "small parameter" if _elements(shape) < SMALL_ELEMENTS else opcodes.PARAMETER
    if opcode in operations.ASYNCHRONOUS:
        # The done and the updates name the computation of their start, or continue it.
        if not instruction.called_computations and opcode in operations.ASYNC_CONTINUATIONS and instruction.operands:
            before = instruction.operands[0]
            return kinds_before.get(before, "other") if before.opcode in operations.ASYNCHRONOUS else "other"
        kinds = [dominant[called] for called in instruction.called_computations if called in dominant]
        return kinds[0] if kinds else "other"
    kind = kind_of_opcode(opcode)
    if kind == "custom call":
        target = instruction.string(_TARGET)
        # The call alone shows no work, but these targets are known.
        return (
            "free"
            if target in operations.NO_KERNEL_TARGETS
            else "collective"
            if target in _COLLECTIVE_TARGETS
            else kind
        )
    if kind == opcodes.FUSION:
        kinds = [dominant[called] for called in instruction.called_computations if called in dominant]
        return kinds[0] if kinds and kinds[0] in (*_IN_FUSIONS, "data movement") else opcodes.FUSION
    # Arithmetic on scalars is of loop counters and indices; graphs show it pale, as XLA does.
    if kind in ("elementwise", "slicing or sorting", "data movement") and _is_scalar(shape):
        return "scalar"
    # Within a fusion a reshape or broadcast only changes the index at which elements are read.
    if kind == "data movement" and is_fused and opcode not in (opcodes.COPY, opcodes.DYNAMIC_UPDATE_SLICE):
        return "free"
    return kind


def _elements(shape: Shape) -> int:
    match shape:
        case ArrayShape():
            return shape.elements
        case TupleShape():
            return sum(_elements(leaf) for _, leaf in shape.leaves)
        case _:
            return 0


def _dominant(kinds: Iterable[Kind]) -> Kind:
    """The kind of a computation: its most important one, or the one that all of its work has."""
    present = set(kinds)
    for kind in _IN_FUSIONS:
        if kind in present:
            return kind
    work = present - _IGNORED
    if len(work) == 1:
        return work.pop()
    # A computation that only hands values on moves data.
    return opcodes.FUSION if work else "data movement"


_OPCODES_OF_KINDS: Final[Mapping[Kind, frozenset[str]]] = {
    "matmul": operations.MATMULS | (operations.OWN_KERNELS - {opcodes.SORT}),
    "reduction": _REDUCTIONS,
    "precision": frozenset((opcodes.REDUCE_PRECISION,)),
    "slicing or sorting": frozenset((opcodes.SLICE, opcodes.SORT)),
    "free": _FREE,
    "elementwise": (operations.ELEMENTWISE - {opcodes.COPY}) | _CREATED,
    "data movement": operations.MOVES | _MOVING_OPCODES,
    opcodes.FUSION: frozenset((opcodes.FUSION,)),
    "control flow": operations.CONTROL_FLOW - operations.ASYNCHRONOUS,
    "custom call": frozenset((opcodes.CUSTOM_CALL,)),
    opcodes.PARAMETER: frozenset((opcodes.PARAMETER,)),
    opcodes.CONSTANT: frozenset((opcodes.CONSTANT,)),
}


# --- what is seen through: values without work of their own, and transfers between memories ---
# An instruction that is seen through has no node; its users have edges from what it depends on. So that a graph has no
# more edges than about the operands of the module, an instruction through which many edges would pass stays.


# As many as XLA shows users of a node: below it a reader can follow the edges. Chosen, not measured.
MOST_PASSED: Final = 16
"""An instruction that depends on more nodes than this is seen through only if a single instruction uses it."""

# Seen through with any number of users, as they have one operand or none.
_ENDLESS: Final = frozenset((opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))
_ENDS: Final = ("-done", "-update")  # parts of an async operation after its start
_BLOCK_MOVES: Final = operations.BLOCK_MOVES | {opcodes.COPY_START, opcodes.COPY_DONE}


@dataclass(frozen=True, slots=True)
class Hidden:
    """The instructions without nodes: those always seen through, and transfers, which are edges if folded."""

    always: frozenset[Instruction]
    transfers: frozenset[Instruction]


def _hidden_instructions(computations: Sequence[Computation]) -> Hidden:
    """What is seen through in a folded graph: constants, scalar parameters, tuples, their elements, and bitcasts.

    Custom calls that launch nothing are seen through too. Roots stay. Transfers are copies and slices from one memory
    to another, synchronous or asynchronous.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  c = f32[] constant(2)
    ...   s = (f32[8]{0:S(1)}, f32[8], u32[]) copy-start(p)
    ...   d = f32[8]{0:S(1)} copy-done(s)
    ...   b = f32[2,4] bitcast(d)
    ...   ROOT r = f32[2,4] negate(b) }'''
    >>> found = _hidden_instructions(parse_module(text).computations)
    >>> sorted(each.name for each in found.always), sorted(each.name for each in found.transfers)
    (['b', 'c'], ['d', 's'])
    """
    always: set[Instruction] = set()
    transfers: set[Instruction] = set()
    for computation in computations:
        _find(computation, always, transfers)
    return Hidden(frozenset(always), frozenset(transfers))


def _find(computation: Computation, always: set[Instruction], transfers: set[Instruction]) -> None:
    users = _users(computation)
    passed: dict[Instruction, int] = {}
    starts: dict[Instruction, Instruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith(_ENDS) and instruction.operands:
            before = instruction.operands[0]
            starts[instruction] = starts.get(before, before)
        if instruction is computation.root:
            continue
        used = users.get(instruction, ())
        chosen = (
            always if _is_seen_through(instruction, used) else transfers if _is_transfer(instruction, starts) else None
        )
        if chosen is None:
            continue
        count = sum(passed.get(operand, 1) for operand in instruction.operands)
        # Otherwise a tuple of n values with m users would become n · m edges.
        if count > MOST_PASSED and (len(used) > 1 or any(user.opcode in _PASSING for user in used)):
            continue
        chosen.add(instruction)
        passed[instruction] = count


_PASSING: Final = _ENDLESS | _BLOCK_MOVES | operations.ASYNCHRONOUS | {opcodes.TUPLE}
"""Opcodes that may be seen through themselves."""


def _users(computation: Computation) -> Mapping[Instruction, Sequence[Instruction]]:
    """The distinct users of each instruction; of more than two, only two, as no rule needs more."""
    users: dict[Instruction, list[Instruction]] = {}
    for instruction in computation.instructions:
        for operand in instruction.operands:
            found = users.setdefault(operand, [])
            # Operands of one user follow each other, so that the last entry is enough to see a repetition.
            if not found or found[-1] is not instruction:
                found.append(instruction)
    return users


def _is_seen_through(instruction: Instruction, users: Sequence[Instruction]) -> bool:
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _ENDLESS:
        return True
    if opcode == opcodes.PARAMETER:
        # Scalar parameters are loop counters and learning rates; they would draw edges to everything.
        return isinstance(shape, ArrayShape) and not shape.dimensions
    if opcode == opcodes.CUSTOM_CALL:
        return _is_free_call(instruction)
    return opcode == opcodes.TUPLE and bool(users)


def _is_transfer(instruction: Instruction, starts: Mapping[Instruction, Instruction]) -> bool:
    """Whether an instruction only moves data from one memory to another: a copy or slice, its start, or its done."""
    start = starts.get(instruction, instruction)
    if not start.operands or not _moves_a_block(start):
        return False
    sources = _spaces(start.operands[0].shape)
    targets = _spaces(start.shape)
    # A copy within one memory is work of a kernel, and stays a node.
    return bool(sources) and bool(targets - sources)


def _moves_a_block(start: Instruction) -> bool:
    opcode = start.opcode
    if opcode in _BLOCK_MOVES or operations.wrapped_opcode(opcode) in operations.BLOCK_MOVES:
        return True
    if opcode != opcodes.ASYNC_START or not start.called_computations:
        return False
    inner = [each for each in start.called_computations[0].instructions if each.opcode != opcodes.PARAMETER]
    return bool(inner) and all(
        each.opcode in operations.BLOCK_MOVES or each.opcode == opcodes.CONSTANT for each in inner
    )


def _spaces(shape: Shape) -> set[int]:
    """The memory spaces of the arrays in a shape with at least one dimension, as others are contexts of transfers."""
    if isinstance(shape, ArrayShape):
        return {shape.layout.memory_space}
    return {leaf.layout.memory_space for _, leaf in shape.leaves if isinstance(leaf, ArrayShape) and leaf.dimensions}


# --- instructions as numbered nodes: what each depends on, calls, and holds ---


Change: TypeAlias = Literal["added", "removed", "changed", "moved"]

EXPANDABLE: frozenset[str] = operations.RUNNERS | {opcodes.FUSION, opcodes.CUSTOM_CALL}
"""Opcodes of instructions in place of which a graph can show what they call."""


@dataclass(frozen=True, slots=True)
class DataflowGraph:
    """The nodes of all computations, by number; operands precede their users.

    - `computation[n]` is the index of the computation of node n, `members[c]` the nodes of computation c in order.
    - `operands`, `control` (predecessors), and `calls` (indices of computations) refer to nodes without repetition.
    - `bytes` is the size of each result, with padding.
    - `hidden` nodes are seen through in folded graphs, and so are `transfers` unless they are to be shown.
    - `changes` is what happened to nodes between two modules.
    """

    module: Module
    instructions: tuple[Instruction, ...]
    computations: tuple[Computation, ...]
    computation: Sequence[int]
    members: Sequence[Sequence[int]]
    operands: Sequence[tuple[int, ...]]
    control: Mapping[int, tuple[int, ...]]
    calls: Mapping[int, tuple[int, ...]]
    bytes: Sequence[int]
    hidden: frozenset[int]
    transfers: frozenset[int]
    changes: Mapping[int, Change]

    def predecessors(self, node: int) -> tuple[int, ...]:
        """The nodes that must run before a node: operands, and control predecessors."""
        control = self.control.get(node)
        return self.operands[node] if control is None else (*self.operands[node], *control)

    def is_expandable(self, node: int) -> bool:
        """Whether a cluster in place of a node shows more than it: a fusion, loop, call, or async wrapper.

        >>> from hlo_cli import parse_module
        >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
        >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
        >>> graph = dataflow_graph(parse_module(text))
        >>> [instruction.name for n, instruction in enumerate(graph.instructions) if graph.is_expandable(n)]
        ['r']
        """
        if self.instructions[node].opcode not in EXPANDABLE:
            return False
        return any(len(self.members[called]) > 1 for called in self.calls.get(node, ()))


def dataflow_graph(module: Module) -> DataflowGraph:
    """The graph of a module.

    >>> from hlo_cli import parse_module
    >>> graph = dataflow_graph(parse_module("ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] multiply(a, a) }"))
    >>> graph.operands, graph.bytes
    (((), (0,)), (8, 8))
    """
    instructions = tuple(module.instructions)
    numbers = {instruction: at for at, instruction in enumerate(instructions)}
    indices = {computation: at for at, computation in enumerate(module.computations)}
    hidden = _hidden_instructions(module.computations)
    sizes: dict[int, int] = {}
    bytes_: list[int] = []
    for instruction in instructions:
        shape = instruction.shape
        if (size := sizes.get(id(shape))) is None:
            # By identity: shapes are shared within a module, and padding is slow to compute.
            size = sizes[id(shape)] = shape.padded_bytes
        bytes_.append(size)
    members: list[range] = []
    control: dict[int, tuple[int, ...]] = {}
    for computation in module.computations:
        first = members[-1].stop if members else 0
        members.append(range(first, first + len(computation.instructions)))
        for at, before in control_predecessors(computation).items():
            # Only backwards, so that damaged texts make no circle.
            control[first + at] = tuple([first + n for n in before if n < at])
    return DataflowGraph(
        module,
        instructions,
        module.computations,
        [at for at, found in enumerate(members) for _ in found],
        members,
        tuple(
            [
                tuple([numbers[each] for each in dict.fromkeys(instruction.operands) if numbers.get(each, at) < at])
                for at, instruction in enumerate(instructions)
            ]
        ),
        control,
        {
            numbers[instruction]: tuple([indices[each] for each in instruction.called_computations if each in indices])
            for instruction in instructions
            if instruction.called_computations
        },
        tuple(bytes_),
        frozenset([numbers[each] for each in hidden.always]),
        frozenset([numbers[each] for each in hidden.transfers]),
        {},
    )


# --- folded graphs ---
# `render/web/js/folding.js` folds by the same rules on the page.


EdgeKind: TypeAlias = Literal["data", "transfer", "control", "indirect"]
"""An edge of data; of data that is copied between memories on the way; a control dependency; a dependency through
instructions that are not shown."""

Reach: TypeAlias = dict[int, tuple[int, int]]
"""The visible nodes on which a node depends, with the bytes of each, and the index of its kind in `_KINDS`."""

_KINDS: Final[tuple[EdgeKind, ...]] = ("control", "transfer", "data")
"""Of several ways between two nodes, the last kind counts."""
_CONTROL, _TRANSFER, _DATA = range(3)


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between visible nodes, with the bytes that the target reads of the source; 0 if unknown."""

    source: int
    target: int
    bytes: int
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Folded:
    """The visible nodes of a computation, in order, and their edges, by target."""

    nodes: tuple[int, ...]
    edges: tuple[Edge, ...]


def fold(
    graph: DataflowGraph, computation: int, *, transfers: bool = False, kept: Collection[int] = frozenset()
) -> Folded:
    """Folds a computation, whose transfers are nodes with `transfers`; nodes that are `kept` are visible in any case.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)
    ...   s = (f32[8]{0:S(1)}, f32[8], u32[]) copy-start(p)
    ...   d = f32[8]{0:S(1)} copy-done(s)
    ...   ROOT r = f32[8] negate(d) }'''
    >>> graph = dataflow_graph(parse_module(text))
    >>> [(edge.source, edge.target, edge.bytes, edge.kind) for edge in fold(graph, 0).edges]
    [(0, 3, 32, 'transfer')]
    """
    members = graph.members[computation]
    gone = {
        node
        for node in members
        if (node in graph.hidden or (node in graph.transfers and not transfers)) and node not in kept
    }
    used = {before for node in members for before in graph.predecessors(node)}
    nodes = [
        node
        for node in members
        if node not in gone and (node in kept or node in used or not _is_idle_parameter(graph, node))
    ]
    reach: dict[int, Reach] = {}
    edges: list[Edge] = []
    for node in members:
        found = _behind(graph, node, reach)
        if node in gone:
            most, best = graph.bytes[node], _TRANSFER if node in graph.transfers else _DATA
            reach[node] = {source: (min(size, most), min(kind, best)) for source, (size, kind) in found.items()}
        else:
            edges += [Edge(source, node, size, _KINDS[kind]) for source, (size, kind) in found.items()]
    return Folded(tuple(nodes), tuple(edges))


def _is_idle_parameter(graph: DataflowGraph, node: int) -> bool:
    instruction = graph.instructions[node]
    return instruction.opcode == opcodes.PARAMETER and not instruction.is_root


def _behind(graph: DataflowGraph, node: int, reach: Mapping[int, Reach]) -> Reach:
    """The visible nodes behind a node: those of its operands, whose bytes add up, and its control predecessors."""
    found: Reach = {}
    for operand in graph.operands[node]:
        behind = reach.get(operand)
        if behind is None:
            behind = {operand: (graph.bytes[operand], _DATA)}
        for source, (size, kind) in behind.items():
            known = found.get(source)
            found[source] = (size, kind) if known is None else (size + known[0], max(kind, known[1]))
    for before in graph.control.get(node, ()):
        for source in reach.get(before, (before,)):
            found.setdefault(source, (0, _CONTROL))
    return found


def fold_among(graph: DataflowGraph, computation: int, shown: Collection[int]) -> Folded:
    """Folds a computation to the nodes `shown`: dependencies through all others are indirect.

    An edge is indirect if it passes any instruction that an ordinary folded graph shows.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "ENTRY e { a = f32[2] parameter(0)  b = f32[2] negate(a)  ROOT r = f32[2] sine(b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> [(edge.source, edge.target, edge.kind) for edge in fold_among(graph, 0, {0, 2}).edges]
    [(0, 2, 'indirect')]
    """
    members = graph.members[computation]
    nodes = [node for node in members if node in shown]
    places = {node: at for at, node in enumerate(nodes)}
    direct = [edge for edge in fold(graph, computation, kept=shown).edges if edge.source in places]
    edges: dict[int, list[Edge]] = {}
    for edge in direct:
        if edge.target in places:
            edges.setdefault(edge.target, []).append(edge)
    behind: dict[int, int] = {}  # by node, the shown nodes nearest to it as the bits of a number
    found: list[Edge] = []
    for node in members:
        mask = 0
        for before in graph.predecessors(node):
            place = places.get(before)
            # Sets as integers: a union is one operation, whatever their sizes.
            mask |= behind[before] if place is None else 1 << place
        behind[node] = mask
        if node in places:
            own = edges.get(node, [])
            for edge in own:
                mask &= ~(1 << places[edge.source])
            found += own
            found += [Edge(nodes[at], node, 0, "indirect") for at in _bits(mask)]
    return Folded(tuple(nodes), tuple(found))


def _bits(mask: int) -> Iterable[int]:
    """The numbers of the bits that are set, in order, in time linear in the digits of the number."""
    # Through the text, as shifting a number of thousands of bits once for each bit is quadratic.
    digits = bin(mask)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


# --- the neighborhood of a node, and all paths from one node to another ---
# Mirrors `MakeNodeRadiusAroundFilter` and `MakeNodeFromToFilter` of xla/service/hlo_graph_dumper.cc.


MOST_USERS: Final = 16
"""Users of a node with more than this are not followed, unless it is the center (`kMaxUsers`)."""


def neighborhood(edges: Iterable[Edge], centers: Sequence[int], depth: int) -> frozenset[int]:
    """The nodes at a distance of at most `depth` edges in either direction from any of the centers.

    >>> edges = [Edge(0, 1, 8, "data"), Edge(0, 2, 8, "data"), Edge(2, 3, 8, "data")]
    >>> sorted(neighborhood(edges, [1], 1)), sorted(neighborhood(edges, [1], 2))
    ([0, 1], [0, 1, 2])
    """
    operands: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for edge in edges:
        operands.setdefault(edge.target, []).append(edge.source)
        users.setdefault(edge.source, []).append(edge.target)
    found = set(centers)
    border = list(centers)
    for step in range(depth):
        near = [each for node in border for each in _next(node, is_center=not step, operands=operands, users=users)]
        border = [each for each in dict.fromkeys(near) if each not in found]
        if not border:
            break
        found.update(border)
    return frozenset(found)


def _next(
    node: int, *, is_center: bool, operands: Mapping[int, list[int]], users: Mapping[int, list[int]]
) -> list[int]:
    # hlo_graph_dumper.cc omits users of a node with many, but not of the center: the question is about that one.
    used_by = users.get(node, [])
    return operands.get(node, []) + (used_by if is_center or len(used_by) <= MOST_USERS else [])


def nodes_between(graph: DataflowGraph, source: int, target: int) -> frozenset[int]:
    """The nodes of all paths from one node to another of the same computation; empty if there is no path.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "ENTRY e { a = f32[2] parameter(0)  b = f32[2] negate(a)  ROOT r = f32[2] add(a, b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> sorted(nodes_between(graph, 0, 2)), sorted(nodes_between(graph, 2, 0))
    ([0, 1, 2], [])
    """
    members = graph.members[graph.computation[source]]
    after = {source}
    for node in members:
        if not after.isdisjoint(graph.predecessors(node)):
            after.add(node)
    if target not in after:
        return frozenset()
    before = {target}
    for node in reversed(members):
        if node in before:
            before.update(graph.predecessors(node))
    return frozenset(after & before)


def callers_of(graph: DataflowGraph) -> Mapping[int, int]:
    """The first node that calls each computation."""
    found: dict[int, int] = {}
    for node, called in graph.calls.items():
        for computation in called:
            found.setdefault(computation, node)
    return found


def enclosing(graph: DataflowGraph, node: int, callers: Mapping[int, int]) -> Sequence[int]:
    """A node, the node that calls its computation, and so on to the outermost.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "f { ROOT p = s8[] parameter(0) }  ENTRY e { a = s8[] parameter(0)  ROOT r = s8[] call(a), to_apply=f }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> enclosing(graph, 0, callers_of(graph))
    [0, 2]
    """
    found = [node]
    while (caller := callers.get(graph.computation[found[-1]])) is not None and caller not in found:
        found.append(caller)
    return found


# --- which nodes a graph shows, and which of them as clusters ---


@dataclass(frozen=True, slots=True)
class View:
    """What a graph shows.

    `computation` is the outermost one, `folded` the nodes and edges of each computation that is shown, and `opened` the
    computations in each node that is shown as a cluster. `focus` are the nodes of interest. With `is_limited`, parts
    of computations are shown; with `is_induced`, their edges are those of the whole computation between them.
    """

    computation: int
    folded: Mapping[int, Folded]
    opened: Mapping[int, tuple[int, ...]]
    _: KW_ONLY
    focus: tuple[int, ...] = ()
    is_limited: bool = False
    is_induced: bool = True

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that are shown, in the order of the module."""
        return tuple(sorted(node for folded in self.folded.values() for node in folded.nodes))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges that are shown."""
        return tuple(edge for folded in self.folded.values() for edge in folded.edges)


def whole(
    graph: DataflowGraph, computation: int, *, transfers: bool = False, opened: Collection[int] | None = frozenset()
) -> View:
    """A whole computation, folded; `opened` are the nodes to show as clusters, None for all.

    A computation with several callers is shown in the first one that is opened.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> len(whole(graph, 1).nodes), len(whole(graph, 1, opened=None).nodes)
    (2, 4)
    """
    kept = frozenset(opened or ())
    folded = {computation: fold(graph, computation, transfers=transfers, kept=kept)}
    return View(computation, *_expanded(graph, folded, opened, transfers=transfers))


def _expanded(
    graph: DataflowGraph, folded: Mapping[int, Folded], opened: Collection[int] | None, *, transfers: bool
) -> tuple[Mapping[int, Folded], Mapping[int, tuple[int, ...]]]:
    found = dict(folded)
    clusters: dict[int, tuple[int, ...]] = {}
    kept = frozenset(opened or ())
    waiting = [node for each in folded.values() for node in reversed(each.nodes)]
    while waiting:
        node = waiting.pop()
        if not graph.is_expandable(node) or not (opened is None or node in kept):
            continue
        called = tuple([each for each in graph.calls[node] if each not in found])
        if called:
            clusters[node] = called
        for each in called:
            found[each] = fold(graph, each, transfers=transfers, kept=kept)
            waiting += reversed(found[each].nodes)
    return found, clusters


def around(
    graph: DataflowGraph,
    centers: Sequence[int],
    depth: int,
    *,
    transfers: bool = False,
    opened: Collection[int] | None = frozenset(),
) -> View:
    """The neighborhoods of nodes of one computation.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "ENTRY e { a = s8[2] parameter(0)  b = s8[2] abs(a)  c = s8[2] not(b)  ROOT r = s8[2] abs(c) }"
    >>> around(dataflow_graph(parse_module(text)), [1], 1).nodes
    (0, 1, 2)
    """
    computation = graph.computation[centers[0]]
    folded = fold(graph, computation, transfers=transfers, kept=frozenset(centers))
    part = {computation: _part_of(folded, neighborhood(folded.edges, centers, depth))}
    found = _expanded(graph, part, opened, transfers=transfers)
    return View(computation, *found, focus=tuple(centers), is_limited=True)


def _part_of(folded: Folded, nodes: Collection[int]) -> Folded:
    return Folded(
        tuple([node for node in folded.nodes if node in nodes]),
        tuple([edge for edge in folded.edges if edge.source in nodes and edge.target in nodes]),
    )


def between(graph: DataflowGraph, source: int, target: int, *, transfers: bool = False) -> View | None:
    """All paths from one node to another, or None if there is none.

    If they are in different computations, the paths are those of the innermost computation around both, in whose
    callers they go on: from the source to the root, and from the parameters to the target.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "ENTRY e { a = s8[2] parameter(0)  b = s8[2] not(a)  c = s8[2] abs(a)  ROOT r = s8[2] add(a, b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> view = between(graph, 0, 3)
    >>> view.nodes if view else None, between(graph, 3, 0)
    ((0, 1, 3), None)
    """
    callers = callers_of(graph)
    sources, targets = list(enclosing(graph, source, callers)), list(enclosing(graph, target, callers))
    outer = {graph.computation[node]: node for node in targets}
    at = next((at for at, node in enumerate(sources) if graph.computation[node] in outer), None)
    if at is None:
        return None
    common = graph.computation[sources[at]]
    # The innermost computation that contains both: the paths of outer ones run through its caller.
    first, last = sources[at], outer[common]
    if first == last and source != target:
        return None
    parts: dict[int, frozenset[int]] = {common: nodes_between(graph, first, last)}
    for node in sources[:at]:
        parts[graph.computation[node]] = _to_root(graph, node)
    for node in targets[: targets.index(last)]:
        parts[graph.computation[node]] = _from_parameters(graph, node)
    if not all(parts.values()):
        return None
    ends = frozenset((source, target, *sources[: at + 1], *targets[: targets.index(last) + 1]))
    folded = {
        computation: _part_of(fold(graph, computation, transfers=transfers, kept=ends), nodes)
        for computation, nodes in parts.items()
    }
    opened = {
        caller: tuple([each for each in graph.calls[caller] if each in parts])
        for caller in (*sources[1 : at + 1], *targets[1 : targets.index(last) + 1])
    }
    return View(common, folded, opened, focus=(source, target), is_limited=True)


def _to_root(graph: DataflowGraph, node: int) -> frozenset[int]:
    """The nodes of all paths from a node to the root of its computation."""
    members = graph.members[graph.computation[node]]
    root = next(
        (each for each in members if graph.instructions[each].is_root and graph.changes.get(each) != "removed"), None
    )
    return frozenset() if root is None else nodes_between(graph, node, root)


def _from_parameters(graph: DataflowGraph, node: int) -> frozenset[int]:
    """A node and the nodes of all paths to it from parameters of its computation."""
    members = graph.members[graph.computation[node]]
    found: set[int] = {node}
    for each in reversed(members):
        if each in found:
            found.update(graph.predecessors(each))
    useful: set[int] = set()
    for each in members:
        if each in found and (_is_parameter(graph, each) or not useful.isdisjoint(graph.predecessors(each))):
            useful.add(each)
    return frozenset(useful | {node}) if node in useful else frozenset()


def _is_parameter(graph: DataflowGraph, node: int) -> bool:
    return graph.instructions[node].parameter_number is not None


def matching(graph: DataflowGraph, computation: int, matches: Iterable[int]) -> View:
    """The given nodes within a computation, clusters around those in the computations it calls, and their edges.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.views import dataflow_graph
    >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
    >>> view = matching(dataflow_graph(parse_module(text)), 1, [1])
    >>> view.nodes, dict(view.opened)
    ((1, 3), {3: (0,)})
    """
    callers = callers_of(graph)
    shown: dict[int, set[int]] = {}
    opened: dict[int, set[int]] = {}
    wanted = tuple(matches)
    for match in wanted:
        chain = enclosing(graph, match, callers)
        within = next((at for at, node in enumerate(chain) if graph.computation[node] == computation), None)
        if within is None:
            continue
        for at, node in enumerate(chain[: within + 1]):
            shown.setdefault(graph.computation[node], set()).add(node)
            if at:
                opened.setdefault(node, set()).add(graph.computation[chain[at - 1]])
    return View(
        computation,
        {each: fold_among(graph, each, nodes) for each, nodes in shown.items()},
        {node: tuple(sorted(called)) for node, called in opened.items()},
        focus=tuple([match for match in wanted if match in shown.get(graph.computation[match], ())]),
        is_limited=True,
        is_induced=False,
    )
