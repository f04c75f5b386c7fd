"""How does a module look as nodes and edges? The selected part, its nodes with their costs, its drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost_analysis import main_costs_among
from hlo_cli.analysis.cost.counting import BYTES, FLOPS, RUN, Properties
from hlo_cli.analysis.cost.counting import UNKNOWN as UNKNOWN_COST
from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.graphs.views import (
    DataflowGraph,
    Edge,
    Kind,
    View,
    around,
    between,
    callers_of,
    dataflow_graph,
    enclosing,
    kinds_of,
    matching,
    whole,
)
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.commands.graph.options import DEFAULT_DEPTH, GraphOptions, Heat
from hlo_cli.commands.modules.instruction_tables import chosen, instructions_where
from hlo_cli.commands.modules.loading import Loaded, check_running, input_facts, program_notes
from hlo_cli.commands.options.chips import chosen_throughput, time_model, time_notes
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.report.graph import Drawing, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, DeferredRows, Row, Table, rows_from, rows_from_tuples
from hlo_cli.source import Diagnostic, HloError, did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec


# --- the selected part ---
# The part of a module that the options of `hlo graph` select.


def view_of(graph: DataflowGraph, options: GraphOptions) -> tuple[View, tuple[Diagnostic, ...]]:
    """The selected nodes, and notes on the selection; HloError for unknown names, and if nothing is selected."""
    module = graph.module
    within = module.computation(options.computation) if options.computation is not None else None
    computation = graph.computations.index(within or module.entry)
    if options.where is not None:
        return _matching(graph, options.where, computation, is_whole=within is None)
    if options.between is not None:
        source, target = (_named_node(graph, name, within) for name in options.between)
        found = between(graph, source, target, transfers=options.transfers)
        if found is None:
            raise _no_path(graph, source, target)
        return found, ()
    opened = _opened(graph, options, within)
    if options.around is not None:
        center = _named_node(graph, options.around, within)
        depth = DEFAULT_DEPTH if options.depth is None else options.depth
        return around(graph, [center], depth, transfers=options.transfers, opened=opened), ()
    if options.depth is not None:
        return _near_changes(graph, options, computation, opened), ()
    return whole(graph, computation, transfers=options.transfers, opened=opened), ()


def _node_of(graph: DataflowGraph, instruction: Instruction) -> int:
    """The node of an instruction."""
    members = graph.members[graph.computations.index(instruction.computation)]
    return next(node for node in members if graph.instructions[node] is instruction)


def _named_node(graph: DataflowGraph, name: str, within: Computation | None) -> int:
    """The node of this name; within a computation if one is given."""
    if within is None:
        try:
            return _node_of(graph, graph.module.instruction(name))
        except HloError:
            gone = (node for node, change in graph.changes.items() if change == "removed")
            plain = name.removeprefix("%")
            if (removed := next((n for n in gone if graph.instructions[n].name == plain), None)) is not None:
                return removed
            raise
    if (found := within.instruction(name)) is None:
        known = [instruction.name for instruction in within.instructions]
        hint = did_you_mean(nearest(name.removeprefix("%"), known)) or "omit --computation to search all computations"
        raise HloError(f"instruction '{name.removeprefix('%')}' not found in {within.name}", hint=hint)
    return _node_of(graph, found)


def _opened(graph: DataflowGraph, options: GraphOptions, within: Computation | None) -> frozenset[int] | None:
    """The nodes to show as clusters, and those around them; None for all."""
    names = options.expanded
    if names is None:
        return None
    found: set[int] = set()
    for name in sorted(names):
        instruction = graph.module.instruction(name)
        if within is not None:
            instruction = within.instruction(name) or instruction
        node = _node_of(graph, instruction)
        if not graph.is_expandable(node):
            raise HloError(
                f"'{name}' cannot be expanded: {instruction.written_opcode} has no computation of its own",
                hint="expand fusions, loops, calls, conditionals, and async operations",
            )
        found.update(_with_callers(graph, node))
    return frozenset(found)


def _with_callers(graph: DataflowGraph, node: int) -> Sequence[int]:

    return enclosing(graph, node, callers_of(graph))


def _near_changes(graph: DataflowGraph, options: GraphOptions, computation: int, opened: frozenset[int] | None) -> View:
    """The changed nodes of a computation with their neighbors."""
    centers = [node for node in graph.members[computation] if node in graph.changes and node not in graph.hidden]
    if not centers:
        name = graph.computations[computation].name
        raise HloError(f"no changes in {name}", hint="omit --depth to draw the whole computation")
    return around(graph, centers, options.depth or 0, transfers=options.transfers, opened=opened)


def _matching(
    graph: DataflowGraph, expression: str, computation: int, *, is_whole: bool
) -> tuple[View, tuple[Diagnostic, ...]]:
    """The nodes that match an expression, in a computation and all that it calls."""
    test = instructions_where(expression, graph.module)
    known = [node for node in range(len(graph.instructions)) if graph.changes.get(node) != "removed"]
    numbers = {graph.instructions[node]: node for node in known}
    found, notes = chosen(test, [graph.instructions[node] for node in known], "instructions")
    view = matching(graph, computation, [numbers[each] for each in found])
    if not view.nodes:
        name = graph.computations[computation].name
        where = f"in {name} or its callees" if found or not is_whole else f"in {graph.module.name}"
        hint = None
        if found:
            hint = f"{format_count(len(found), 'matches')} elsewhere: use --computation {found[0].computation.name}"
        raise HloError(f"no instruction {where} matches '{expression}'", hint=hint)
    return view, notes


def _no_path(graph: DataflowGraph, source: int, target: int) -> HloError:
    """The error for nodes without a path; the hint is the other direction if there is a path."""
    first, last = graph.instructions[source].name, graph.instructions[target].name
    message = f"no path from {first} to {last}"
    if between(graph, target, source) is not None:
        hint = f"{first} depends on {last}: use --between {last} {first}"
        return HloError(message, hint=hint)
    return HloError(message, hint=f"they are independent; see --around {first}")


# --- the nodes ---
# A row for each instruction, with what it costs and how it is drawn.


_MOST_LITERAL: Final = 24
"""The longest constant that is a label."""


class NodeFacts:
    """What is known of the nodes of a graph; costs, times, and live bytes are computed when a row needs them."""

    def __init__(
        self, loaded: Loaded, graph: DataflowGraph, throughput: ChipSpec | None, old: Module | None = None
    ) -> None:
        """`old` is the module of removed nodes, if the graph compares two."""
        self._loaded, self.graph, self.throughput, self._old = loaded, graph, throughput, old
        self._target = target_of(loaded.module)
        self._labels: dict[int, tuple[str, str, int, int]] = {}

    def kind(self, node: int) -> Kind:
        """The kind of a node, by which it is colored."""
        return self._kinds[self.graph.instructions[node]]

    def sizes(self, node: int) -> tuple[str, str, int, int]:
        """The shape of a node in full and in short, and its bytes with and without padding."""
        shape = self.graph.instructions[node].shape
        if (sized := self._labels.get(id(shape))) is None:
            sized = (str(shape), _short_shape(shape, self._target), shape.padded_bytes, shape.logical_bytes)
            self._labels[id(shape)] = sized
        return sized

    def origins_of(self, node: int) -> Origins:
        """The origins of the module that a node is of."""
        is_removed = self.graph.changes.get(node) == "removed"
        return self._old_origins if is_removed and self._old_origins is not None else self._origins

    def literal(self, node: int) -> str | None:
        """A constant as text if it is short."""
        instruction = self.graph.instructions[node]
        if instruction.opcode != opcodes.CONSTANT:
            return None
        text = instruction.raw[0].strip()
        return text if len(text) <= _MOST_LITERAL else None

    def trips(self, node: int) -> int | None:
        """The trip count of a loop."""
        instruction = self.graph.instructions[node]
        return trip_count(instruction) if instruction.opcode == opcodes.WHILE else None

    def heat(self, nodes: Sequence[int], heat: Heat) -> Sequence[float | None]:
        """The number by which each node is colored; None if unknown."""
        match heat:
            case "bytes" | "flops":
                costs = self._costs(nodes)
                name = BYTES if heat == "bytes" else FLOPS
                return [None if cost.get(UNKNOWN_COST) else round(cost[name]) for cost in costs]
            case "padding":
                return [padded - data for _, _, padded, data in map(self.sizes, nodes)]
            case "live":
                return [self.live(node) for node in nodes]
            case "time":
                return [self.seconds.get(self.graph.instructions[node]) for node in nodes]

    def rows(self, nodes: Sequence[int], columns: Sequence[Column[NodeRow]] = ()) -> tuple[Row, ...]:
        """The rows of nodes for some columns, by default `COLUMNS`."""
        return rows_from(
            columns or COLUMNS,
            (NodeRow(self, node, cost) for node, cost in zip(nodes, self._costs(nodes), strict=True)),
        )

    def _costs(self, nodes: Sequence[int]) -> Iterator[Properties]:
        return main_costs_among([self.graph.instructions[node] for node in nodes], rules=RUN)

    def live(self, node: int) -> int | None:
        step = self.schedule.steps.get(self.graph.instructions[node])
        return None if step is None else self.schedule.live[step]

    @cached_property
    def _kinds(self) -> Mapping[Instruction, Kind]:
        return kinds_of((*self.graph.computations, *(self._old.computations if self._old is not None else ())))

    @cached_property
    def _origins(self) -> Origins:
        return origins_of(self._loaded.module)

    @cached_property
    def _old_origins(self) -> Origins | None:
        return None if self._old is None else origins_of(self._old)

    @cached_property
    def schedule(self) -> _Schedule:
        """The memory analysis, which a part of a module or an incomplete text may not have."""
        from hlo_cli.commands.memspace.compiler_files import compiler_memory

        try:
            check_running(self._loaded.module)
            memory = compiler_memory(self._loaded)
        except HloError:
            return _Schedule({}, ())
        main = memory.space(0)
        return _Schedule(memory.positions, main.timeline if main is not None else [0] * len(memory.sequence))

    @cached_property
    def seconds(self) -> Mapping[Instruction, float]:
        """The estimated time of each instruction on its own; that of a loop includes all that it runs."""
        if self.throughput is None:
            return {}
        from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
        from hlo_cli.analysis.schedule.step_time import estimate_time, path_seconds

        try:
            check_running(self._loaded.module)
            overlap = analyze_overlap(self._loaded.module)
        except HloError:
            return {}
        return path_seconds(estimate_time(overlap, self.throughput), overlap)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Steps of instructions, and the live bytes of the main memory at each."""

    steps: Mapping[Instruction, int]
    live: Sequence[int]


def _short_shape(shape: Shape, target: str | None) -> str:
    """A shape without its layout but for the memory space, if it is not the main one.

    >>> from hlo_cli import parse_module
    >>> texts = ("f32[8,128]{1,0:T(8,128)S(1)}", "(f32[2], f32[3], f32[4])")
    >>> [_short_shape(parse_module(f"r = {text} negate(p)").entry.root.shape, "tpu") for text in texts]
    ['f32[8,128] VMEM', '(f32[2], … 2 more)']
    """
    if isinstance(shape, ArrayShape):
        space = shape.layout.memory_space
        text = shape.to_string(layout=False)
        return f"{text} {space_name(space, target)}" if space else text
    leaves = [leaf for _, leaf in shape.leaves]
    if not leaves:
        return "()"
    first = _short_shape(leaves[0], target) if isinstance(leaves[0], ArrayShape) else str(leaves[0])
    return f"({first}, … {len(leaves) - 1:,} more)" if len(leaves) > 1 else first


# --- the drawing ---
# A view as nodes with their labels, and edges.


_MOST_CONSTANTS: Final = 2
"""The number of constants that a label names."""


def _drawing_of(graph: DataflowGraph, view: View, facts: NodeFacts, heat: Heat | None) -> Drawing:
    """The nodes of a view, clusters before their contents, and all edges."""
    order = list(_in_order(view))
    places = {node: at for at, (node, _, _) in enumerate(order)}
    numbers: Sequence[float | None] = [None] * len(order)
    if heat is not None:
        numbers = facts.heat([node for node, _, _ in order], heat)
    focus = frozenset(view.focus)
    nodes = tuple(
        _drawn_node(graph, view, facts, node, number, None if parent is None else places[parent], part, focus)
        for (node, parent, part), number in zip(order, numbers, strict=True)
    )
    edges = tuple(GraphEdge(places[each.source], places[each.target], each.bytes, each.kind) for each in view.edges)
    return Drawing(nodes, edges, heat or "")


def _in_order(view: View) -> list[tuple[int, int | None, int]]:
    """Every node with the node whose cluster it is in, and the number of its computation there."""
    found: list[tuple[int, int | None, int]] = []
    waiting: list[tuple[int, int | None, int]] = (
        [(node, None, 0) for node in reversed(view.folded[view.computation].nodes)]
        if view.computation in view.folded
        else []
    )
    while waiting:
        each = waiting.pop()
        found.append(each)
        inner = [
            (node, each[0], part)
            for part, computation in enumerate(view.opened.get(each[0], ()))
            for node in view.folded[computation].nodes
        ]
        waiting += reversed(inner)
    return found


def _drawn_node(
    graph: DataflowGraph,
    view: View,
    facts: NodeFacts,
    node: int,
    heat: float | None,
    parent: int | None,
    part: int,
    focus: Collection[int],
) -> GraphNode:
    instruction = graph.instructions[node]
    shape, label, size, _ = facts.sizes(node)
    return GraphNode(
        node,
        instruction.name,
        _operation(instruction.opcode, facts, node),
        facts.kind(node),
        label,
        shape,
        size,
        literals=_literals(graph, facts, node),
        is_loop=instruction.opcode == opcodes.WHILE,
        heat=heat,
        change=graph.changes.get(node),
        parent=parent,
        part=part,
        clusters=tuple([graph.computations[each].name for each in view.opened.get(node, ())]),
        is_expandable=graph.is_expandable(node),
        is_focus=node in focus,
    )


def _operation(opcode: str, facts: NodeFacts, node: int) -> str:
    """The opcode; of fusions what is in them, of loops how often."""
    kind, trips = facts.kind(node), facts.trips(node)
    name = f"{kind} {opcode}" if opcode == opcodes.FUSION != kind else opcode
    return name if trips is None else f"{name} × {trips:,}"


def _literals(graph: DataflowGraph, facts: NodeFacts, node: int) -> tuple[str, ...]:
    """The value of a short constant, or the first short constants among the operands."""
    if (literal := facts.literal(node)) is not None:
        return (literal,)
    found = (text for operand in graph.operands[node] if (text := facts.literal(operand)) is not None)
    return tuple(islice(found, _MOST_CONSTANTS))


def _edge_table(edges: Sequence[Edge], names: Mapping[int, str], *, is_summary: bool) -> Table:
    """The edges as a table, those with most bytes first."""
    ranked = sorted(edges, key=lambda edge: (-edge.bytes, edge.target, edge.source))
    columns = (
        Column("source", "source", "name", role="name", of=lambda edge: names[edge.source]),
        Column("target", "target", "name", role="name", of=lambda edge: names[edge.target]),
        Column("bytes", "read", "bytes", total="sum", of=lambda edge: edge.bytes),
        Column("kind", "kind", of=lambda edge: edge.kind),
        Column("source_id", "source id", "count", person=False, of=lambda edge: edge.source),
        Column("target_id", "target id", "count", person=False, of=lambda edge: edge.target),
    )
    rows = rows_from(columns, ranked)
    return Table(
        "edges",
        columns,
        rows,
        noun="edges",
        main=False,
        person=is_summary,
        limit=5,
        title="Edges with most bytes",
    )


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with its cost."""

    facts: NodeFacts
    node: int
    cost: Properties

    @property
    def instruction(self) -> Instruction:
        """The instruction that the node stands for."""
        return self.facts.graph.instructions[self.node]

    @property
    def change(self) -> str | None:
        """Whether it changed, if the graph compares two modules."""
        return self.facts.graph.changes.get(self.node)

    @property
    def origin(self) -> Origin:
        """Where the user's program has it; a removed one, where the old program had it."""
        return self.facts.origins_of(self.node).own(self.instruction)

    def figure(self, name: str) -> Cell:
        """A part of the cost."""
        return UNKNOWN if self.cost.get(UNKNOWN_COST) else round(self.cost[name])


COLUMNS: Final[tuple[Column[NodeRow], ...]] = (
    Column("name", "name", "name", role="name", of=lambda row: row.instruction.name),
    Column("opcode", "opcode", "opcode", person=False, of=lambda row: row.instruction.opcode),
    Column("kind", "kind", rank=6, of=lambda row: row.facts.kind(row.node)),
    Column("shape", "shape", "shape", rank=5, of=lambda row: row.facts.sizes(row.node)[0]),
    Column("label", "label", person=False, of=lambda row: row.facts.sizes(row.node)[1]),
    Column("computation", "computation", "count", person=False, of=lambda row: row.facts.graph.computation[row.node]),
    Column("operands", "operands", "index", person=False, of=lambda row: row.facts.graph.operands[row.node]),
    Column("control", "control", "index", person=False, of=lambda row: row.facts.graph.control.get(row.node, ())),
    Column("calls", "calls", "index", person=False, of=lambda row: row.facts.graph.calls.get(row.node, ())),
    Column("is_root", "root", "flag", person=False, of=lambda row: row.instruction.is_root and row.change != "removed"),
    Column("bytes", "result", "bytes", of=lambda row: row.facts.sizes(row.node)[2]),
    Column("logical_bytes", "data", "bytes", person=False, of=lambda row: row.facts.sizes(row.node)[3]),
    Column("bytes_accessed", "accessed", "bytes", of=lambda row: row.figure(BYTES)),
    Column("flops", "flops", "flops", of=lambda row: row.figure(FLOPS)),
    Column("live_bytes", "live", "bytes", person=False, of=lambda row: row.facts.live(row.node)),
    Column("seconds", "est.", "seconds", of=lambda row: row.facts.seconds.get(row.instruction)),
    Column("step", "step", "step", person=False, of=lambda row: row.facts.schedule.steps.get(row.instruction)),
    Column("literal", "literal", person=False, of=lambda row: row.facts.literal(row.node)),
    Column("trips", "trips", "count", person=False, of=lambda row: row.facts.trips(row.node)),
    Column("source", "source", "source", rank=4, of=lambda row: row.origin.source or None),
    Column("op_name", "op_name", "op_name", person=False, of=lambda row: row.origin.op_name or None),
    Column("change", "change", "change", person=False, of=lambda row: row.change),
    Column("is_hidden", "hidden", "flag", person=False, of=lambda row: row.node in row.facts.graph.hidden),
    Column("is_transfer", "transfer", "flag", person=False, of=lambda row: row.node in row.facts.graph.transfers),
    Column("expandable", "expandable", "flag", person=False, of=lambda row: row.facts.graph.is_expandable(row.node)),
)


# --- one module ---
# `hlo graph DUMP`: a module, a computation, or a part of one as nodes and edges.


_KIND_COLUMNS: Final[tuple[Column[str, int, int], ...]] = (
    Column("kind", "kind", of=lambda kind, nodes, size: kind),
    Column("nodes", "nodes", "count", total="sum", of=lambda kind, nodes, size: nodes),
    Column("bytes", "result", "bytes", total="sum", of=lambda kind, nodes, size: size),
)
_NODES_ON_A_SCREEN: Final = 8  # the edges and kinds are to fit below them
_TARGETS: Final = {"tpu": "TPU", "gpu": "GPU", "cpu": "CPU"}


def report_of_graph(loaded: Loaded, options: GraphOptions, argument: str) -> Report:
    """The selected part of a module: nodes with their costs, and edges with their bytes."""
    graph = dataflow_graph(loaded.module)
    facts = NodeFacts(loaded, graph, chosen_throughput(options.chip, options.chip_file))
    view, notes = view_of(graph, options)
    report = report_of_view(loaded, graph, view, facts, options)
    return replace(
        report,
        next=_next(view, options, argument),
        notes=(*notes, *program_notes(loaded), *report.notes),
    )


def report_of_view(loaded: Loaded, graph: DataflowGraph, view: View, facts: NodeFacts, options: GraphOptions) -> Report:
    """The report on a view, with notes on its times alone, and without next commands."""
    throughput = facts.throughput
    drawing = _drawing_of(graph, view, facts, options.heat)
    edges, kinds = _node_and_edge_tables(view, drawing)
    return Report(
        "graph",
        answer_of(graph, view, options),
        version=1,
        numbers={
            "computation": graph.computations[view.computation].name,
            "nodes": len(drawing.nodes),
            "edges": len(drawing.edges),
            "instructions": len(graph.instructions),
            **({"model": time_model(throughput)} if throughput is not None else {}),
        },
        parts=(kinds, _graph_part(loaded, graph, view, drawing, facts, options), edges),
        notes=time_notes(throughput, loaded.module) if throughput is not None else (),
        input=input_facts(loaded),
    )


def _graph_part(
    loaded: Loaded, graph: DataflowGraph, view: View, drawing: Drawing, facts: NodeFacts, options: GraphOptions
) -> Graph:
    """The drawing with the rows of its nodes, and of all nodes for pages."""
    shown, columns = view.nodes, _view_columns(has_times=bool(options.chip or options.chip_file))
    everything = range(len(graph.instructions))
    return Graph(
        "graph",
        loaded.module.name,
        _facts_line(loaded, graph),
        Table("nodes", COLUMNS, DeferredRows(lambda: facts.rows(everything)), noun="instructions"),
        Table(
            "nodes",
            columns,
            DeferredRows(lambda: facts.rows(shown, columns)),
            title="Nodes with most bytes accessed",
            noun="nodes",
            limit=_NODES_ON_A_SCREEN,
        ),
        tuple(computation.name for computation in graph.computations),
        drawing,
        entry=view.computation,
        focus=view.focus,
        shown=shown if view.is_limited else (),
        depth=(DEFAULT_DEPTH if options.depth is None else options.depth) if options.around else None,
        opened=tuple(view.opened),
        links=None if view.is_induced else tuple((e.source, e.target, e.bytes, e.kind) for e in view.edges),
        has_transfers=options.transfers,
        is_limited=view.is_limited,
    )


def _view_columns(*, has_times: bool) -> tuple[Column[NodeRow], ...]:
    """The columns of the nodes that are shown; people see times only if a chip is given."""
    times = (replace(each, person=has_times) if each.name == "seconds" else each for each in COLUMNS)
    return (*times, Column("id", "id", "count", person=False, of=lambda row: row.node))


def _facts_line(loaded: Loaded, graph: DataflowGraph) -> str:
    """The target, the stage, and the size of the module, and its file without directories."""
    target = target_of(loaded.module)
    path = (loaded.input.path or "").rstrip("/").rpartition("/")[2]
    words = (
        _TARGETS.get(target or "", ""),
        (loaded.input.stage or "").replace("_", " "),
        format_count(len(graph.instructions), "instructions"),
        format_count(len(graph.computations), "computations"),
        path,
    )
    return " · ".join(word for word in words if word)


def answer_of(graph: DataflowGraph, view: View, options: GraphOptions) -> str:
    """The numbers of nodes and edges, and what they are."""
    counts = f"{format_count(len(view.nodes), 'nodes')} and {format_count(len(view.edges), 'edges')}"
    focus = [graph.instructions[node].name for node in view.focus]
    if options.around is not None:
        depth = DEFAULT_DEPTH if options.depth is None else options.depth
        return f"{counts} within {format_count(depth, 'edges')} of {focus[0]}"
    if options.between is not None:
        return f"{counts} on the paths from {focus[0]} to {focus[1]}"
    if options.where is not None:
        return f"{counts}: {format_count(len(focus), 'matches')} of {options.where}"
    name = graph.computations[view.computation].name
    size = sum(len(graph.members[computation]) for computation in view.folded)
    return f"{name} has {counts} after folding {format_count(size, 'instructions')}"


def _node_and_edge_tables(view: View, drawing: Drawing) -> tuple[Table, Table]:
    """The edges, and the nodes by kind."""
    names: Mapping[int, str] = {node.number: node.name for node in drawing.nodes}
    counted = Counter(node.kind for node in drawing.nodes)
    sizes: Counter[str] = Counter()
    for node in drawing.nodes:
        sizes[node.kind] += node.bytes
    rows = rows_from_tuples(_KIND_COLUMNS, ((kind, number, sizes[kind]) for kind, number in counted.most_common()))
    is_summary = not view.is_limited
    return (
        _edge_table(view.edges, names, is_summary=is_summary),
        Table("kinds", _KIND_COLUMNS, rows, noun="kinds", main=False, person=is_summary),
    )


def _next(view: View, options: GraphOptions, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    if view.is_limited and options.around is None:
        return ()
    depth = None if options.depth is None else str(options.depth)
    chosen = format_options(
        (
            ("--computation", options.computation),
            ("--around", options.around),
            ("--depth", depth),
            ("--heat", options.heat),
            ("--chip", options.chip),
            ("--chip-file", options.chip_file),
        )
    )
    return (" ".join(filter(None, ("hlo graph", argument, chosen, "-o graph.html"))),)
