"""`hlo graph DUMP`: every instruction as a node."""

from __future__ import annotations

from hlo_cli.commands.graph.nodes import COLUMNS, node_rows
from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.shared.chips import chosen_throughput
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.report.graph import Graph
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table


def report_of_graph(loaded: Loaded, options: GraphOptions) -> Report:
    """The graph of a module."""
    module = loaded.module
    computations = {computation: at for at, computation in enumerate(module.computations)}
    throughput = chosen_throughput(options.chip, options.chip_file)
    _, rows = node_rows(loaded, throughput)
    count = format_count(len(rows), "instructions")
    graph = Graph(
        "graph",
        module.name,
        count,
        Table("nodes", COLUMNS, rows, noun="instructions"),
        tuple(computation.name for computation in computations),
        entry=computations[module.entry],
    )
    return Report("graph", count, version=1, parts=(graph,), notes=program_notes(loaded), input=input_facts(loaded))
