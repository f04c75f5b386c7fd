"""Trees: tables whose first column is indented by depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import ClassVar, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Table

DEPTH = Column("depth", "depth", "count", person=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """One row of a tree and its children.

    >>> Branch(("main",), (Branch(("while.10",)), Branch(("cond.2",)))).size
    3
    """

    cells: Row
    children: tuple[Branch, ...] = ()

    @property
    def size(self) -> int:
        """The number of rows, including itself."""
        return sum(1 for _ in walk((self,)))


@dataclass(frozen=True, slots=True)
class Tree:
    """Nested rows. A screen shows `limit` rows, those nearest to the roots.

    >>> tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    >>> tree.as_table().rows
    ((0, 'main'), (1, 'body'))
    """

    kind: ClassVar[Literal["tree"]] = "tree"
    name: str
    columns: tuple[Column, ...]
    roots: tuple[Branch, ...]
    _: KW_ONLY
    title: str = ""
    noun: str = "rows"
    limit: int = ROWS_FOR_A_PERSON

    def as_table(self) -> Table:
        """All rows in the order of drawing, each preceded by its depth."""
        rows = tuple((depth, *branch.cells) for depth, branch in walk(self.roots))
        return Table(self.name, (DEPTH, *self.columns), rows, title=self.title, noun=self.noun, limit=self.limit)


def walk(roots: tuple[Branch, ...]) -> Iterator[tuple[int, Branch]]:
    """Every branch with its depth, parents before children; no recursion, so depth is not limited.

    >>> [(depth, branch.cells) for depth, branch in walk((Branch((1,), (Branch((2,)),)), Branch((3,))))]
    [(0, (1,)), (1, (2,)), (0, (3,))]
    """
    waiting = [(0, root) for root in reversed(roots)]
    while waiting:
        depth, branch = waiting.pop()
        yield depth, branch
        waiting.extend((depth + 1, child) for child in reversed(branch.children))
