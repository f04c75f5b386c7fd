"""`hlo graph DUMP`: every instruction as a node."""

from __future__ import annotations

from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.graph import Graph
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

_COLUMNS = (
    Column("name", "name", "name"),
    Column("opcode", "opcode", "opcode"),
    Column("shape", "shape", "shape"),
    Column("computation", "computation", "count", person=False),
    Column("operands", "operands", "index", person=False),
    Column("calls", "calls", "index", person=False),
)


def report_of_graph(loaded: Loaded, options: GraphOptions) -> Report:
    """The graph of a module."""
    module = loaded.module
    computations = {computation: at for at, computation in enumerate(module.computations)}
    nodes: dict[Instruction, int] = {}
    for computation in computations:
        for instruction in computation.instructions:
            nodes[instruction] = len(nodes)
    rows: list[Row] = [
        (
            each.name,
            each.opcode,
            str(each.shape),
            computations[each.computation],
            tuple(nodes[operand] for operand in each.operands if operand in nodes),
            tuple(computations[called] for called in each.called_computations if called in computations),
        )
        for each in nodes
    ]
    count = format_count(len(rows), "instructions")
    graph = Graph(
        "graph",
        module.name,
        count,
        Table("nodes", _COLUMNS, tuple(rows), noun="instructions"),
        tuple(computation.name for computation in computations),
        entry=computations[module.entry],
    )
    return Report("graph", count, version=1, parts=(graph,), notes=program_notes(loaded), input=input_facts(loaded))
