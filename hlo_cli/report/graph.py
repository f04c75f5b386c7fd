"""Graphs: the instructions of a module as nodes with operands, and which part of them to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import ClassVar, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.table import Table


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, one row each, operands before users, in computations; `entry` is the index of the first one to show.

    `focus` are the nodes that the view is centered on, `shown` those that it is limited to; both are indices of rows,
    and empty for a whole computation.

    >>> from hlo_cli.report.column import Column
    >>> nodes = Table("nodes", (Column("name", "name", "name"),), (("p",), ("n",)))
    >>> Graph("graph", "jit_f", "2 instructions", nodes, ("main",)).data["entry"]
    0
    """

    kind: ClassVar[Literal["graph"]] = "graph"
    name: str
    title: str
    details: str
    nodes: Table
    computations: Sequence[str]
    _: KW_ONLY
    entry: int = 0
    focus: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()

    def as_table(self) -> Table:
        """The nodes."""
        return self.nodes

    @property
    def data(self) -> Mapping[str, Cell]:
        """What is not in the rows."""
        return {
            "title": self.title,
            "details": self.details,
            "computations": tuple(self.computations),
            "entry": self.entry,
            "focus": self.focus,
            "shown": self.shown,
        }
