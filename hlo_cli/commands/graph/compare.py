"""`hlo graph OLD NEW`: the new module with what changed, and the removed instructions among its nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.graphs.marked_changes import compared_graph
from hlo_cli.analysis.graphs.views import DataflowGraph, View
from hlo_cli.analysis.matching.module_diff import diff
from hlo_cli.commands.diff.report import answer_of
from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.graph.report import NodeFacts, report_of_view, view_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.chips import chosen_throughput
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from

_SIGNS: Final = {"changed": "~", "added": "+", "removed": "-", "moved": ">"}


def report_of_comparison(old: Loaded, new: Loaded, options: GraphOptions, arguments: str) -> Report:
    """The graph of the new module, with changes in the colors and signs of `hlo diff`."""
    comparison = diff(old.module, new.module)
    graph = compared_graph(comparison)
    facts = NodeFacts(new, graph, chosen_throughput(options.chip, options.chip_file), old.module)
    view, notes = view_of(graph, options)
    report = report_of_view(new, graph, view, facts, options)
    counts = Counter(graph.changes.values())
    words = f"No differences ({format_count(comparison.matched, 'instructions')})"
    table = _changes(graph, view)
    return replace(
        report,
        answer=words if comparison.is_empty and not comparison.moved else answer_of(comparison),
        numbers={
            **report.numbers,
            "matched": comparison.matched,
            **{name: counts[name] for name in ("changed", "added", "removed", "moved")},
        },
        parts=(table, *report.parts) if not view.is_limited else report.parts,
        notes=(*notes, *program_notes(old), *program_notes(new), *report.notes),
        next=(f"hlo graph {arguments} --depth 1 -o graph.html",) if table.rows else (),
        input={"before": input_facts(old), "after": input_facts(new)},
    )


def _changes(graph: DataflowGraph, view: View) -> Table:
    """The changed nodes that are shown."""
    columns = (
        Column("change", "", "change", of=lambda node: _SIGNS[graph.changes[node]]),
        Column("name", "name", "name", role="name", of=lambda node: graph.instructions[node].name),
        Column("opcode", "opcode", "opcode", of=lambda node: graph.instructions[node].opcode),
        Column("shape", "shape", "shape", of=lambda node: str(graph.instructions[node].shape)),
        Column("computation", "computation", "name", of=lambda node: graph.computations[graph.computation[node]].name),
    )
    rows = rows_from(columns, (node for node in view.nodes if node in graph.changes))
    return Table("changes", columns, rows, noun="changes", main=False, title="Changes", limit=8)
