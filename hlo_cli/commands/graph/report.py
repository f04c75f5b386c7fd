"""`hlo graph DUMP`: a module, a computation, or a part of one as nodes and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.graphs.views import DataflowGraph, View, dataflow_graph
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.graph.drawing import drawing_of, edge_table
from hlo_cli.commands.graph.nodes import COLUMNS, NodeFacts
from hlo_cli.commands.graph.options import DEFAULT_DEPTH, GraphOptions
from hlo_cli.commands.graph.selection import view_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.chips import chosen_throughput, time_model, time_notes
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.report.graph import Drawing, Graph
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, DeferredRows, Table

_KIND_COLUMNS: Final = (
    Column("kind", "kind"),
    Column("nodes", "nodes", "count", total="sum"),
    Column("bytes", "result", "bytes", total="sum"),
)
_NODES_ON_A_SCREEN: Final = 8
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
    drawing = drawing_of(graph, view, facts, options.heat)
    edges, kinds = _tables(view, drawing)
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
        parts=(kinds, graph_part(loaded, graph, view, drawing, facts, options), edges),
        notes=time_notes(throughput, loaded.module) if throughput is not None else (),
        input=input_facts(loaded),
    )


def graph_part(
    loaded: Loaded, graph: DataflowGraph, view: View, drawing: Drawing, facts: NodeFacts, options: GraphOptions
) -> Graph:
    """The drawing with the rows of its nodes, and of all nodes for pages."""
    shown = view.nodes
    everything = range(len(graph.instructions))
    return Graph(
        "graph",
        loaded.module.name,
        _details(loaded, graph),
        Table("nodes", COLUMNS, DeferredRows(lambda: facts.rows(everything)), noun="instructions"),
        Table(
            "nodes",
            _view_columns(has_times=bool(options.chip or options.chip_file)),
            DeferredRows(lambda: tuple([(*row, node) for row, node in zip(facts.rows(shown), shown, strict=True)])),
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


def _view_columns(*, has_times: bool) -> tuple[Column, ...]:
    """The columns of the nodes that are shown; people see times only if a chip is given."""
    times = (replace(each, person=has_times) if each.name == "seconds" else each for each in COLUMNS)
    return (*times, Column("id", "id", "count", person=False))


def _details(loaded: Loaded, graph: DataflowGraph) -> str:
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


def _tables(view: View, drawing: Drawing) -> tuple[Table, Table]:
    """The edges, and the nodes by kind."""
    names: Mapping[int, str] = {node.number: node.name for node in drawing.nodes}
    counted = Counter(node.kind for node in drawing.nodes)
    sizes: Counter[str] = Counter()
    for node in drawing.nodes:
        sizes[node.kind] += node.bytes
    rows: list[tuple[Cell, ...]] = [(kind, number, sizes[kind]) for kind, number in counted.most_common()]
    is_summary = not view.is_limited
    return (
        edge_table(view.edges, names, is_summary=is_summary),
        Table("kinds", _KIND_COLUMNS, tuple(rows), noun="kinds", main=False, person=is_summary),
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
