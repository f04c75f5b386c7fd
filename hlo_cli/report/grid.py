"""Grids: an array drawn as cells in boxes, like the figures of XLA's page on tiled layout.

A grid has the content of each cell and the separators between cells; this file draws its lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.text import Line, Role, Run

Joint = Literal["none", "part", "tile", "gap"]


@dataclass(frozen=True, slots=True)
class GridCell:
    """One element of memory: its linear index, whether it is padding or marked, and its color in the checkerboard.

    A cell of another kind has a `label` in place of the index.

    >>> GridCell(9, is_padding=True).text, GridCell(17, is_marked=True).text, GridCell(0, label="0 4").text
    ('·9', '[17]', '0 4')
    """

    number: int
    is_padding: bool = False
    is_marked: bool = False
    is_odd: bool = False
    label: str = ""

    @property
    def text(self) -> str:
        """The index or the label, with a dot if it is padding and in brackets if it is marked."""
        shown = self.label or str(self.number)
        text = f"·{shown}" if self.is_padding else shown
        return f"[{text}]" if self.is_marked else text

    @property
    def role(self) -> Role:
        """The role that selects its style."""
        if self.is_marked:
            return "strong"
        return "waste" if self.is_padding else "odd" if self.is_odd else "even"


@dataclass(frozen=True, slots=True)
class Side:
    """The labels along one side of a grid, and the joints between neighbors, one fewer than labels."""

    name: str
    labels: tuple[str, ...]
    joints: tuple[Joint, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells with the names and positions along both sides. `has_parts` adds space for the marks between parts.

    >>> from hlo_cli.report.text import plain_text
    >>> rows = Side("y", ("0", "·1"), ("none",))
    >>> columns = Side("x", ("0", "1", "2"), ("none", "tile"))
    >>> cells = tuple(tuple(GridCell(3 * y + x, is_padding=y == 1) for x in range(3)) for y in range(2))
    >>> for line in Grid(rows, columns, cells).lines(): print(plain_text(line))
    x       0  1    2
     y   ┌───────┬────┐
       0 │  0  1 │  2 │
      ·1 │ ·3 ·4 │ ·5 │
         └───────┴────┘
    """

    rows: Side
    columns: Side
    cells: tuple[tuple[GridCell, ...], ...]
    has_parts: bool = False
    has_dashes: bool = True

    @property
    def width(self) -> int:
        """The width of the widest line in screen cells."""
        return len(self._frame("┌", "┬", "┐")) + self._margin

    @property
    def height(self) -> int:
        """The number of lines."""
        return 3 + len(self.rows.labels) + sum(joint in self._ruled for joint in self.rows.joints)

    def lines(self) -> Iterator[Line]:
        """The drawing: column labels, the frame, a line per row, rules between tiles, and dots for omitted rows."""
        yield self._header()
        name = Run(f" {self.rows.name}".ljust(self._margin))
        yield (name, Run(self._frame("┌", "┬", "┐")))
        for at, label in enumerate(self.rows.labels):
            if at and (rule := self._rule(self.rows.joints[at - 1])) is not None:
                yield rule
            yield self._row(label, self.cells[at])
        yield (Run(" " * self._margin), Run(self._frame("└", "┴", "┘")))

    @property
    def _ruled(self) -> tuple[Joint, ...]:
        return ("tile", "part", "gap") if self.has_dashes else ("tile", "gap")

    @property
    def _margin(self) -> int:
        return max(len(label) for label in (*self.rows.labels, self.rows.name)) + 3

    @property
    def _cell_width(self) -> int:
        """The width of all cells: that of the widest, with space for the dot of padding."""
        digits = max(len(cell.text) - cell.is_padding for row in self.cells for cell in row)
        dotted = self.has_parts or any(cell.is_padding for row in self.cells for cell in row)
        return max(digits + dotted, *(len(label) for label in self.columns.labels))

    @property
    def _lead(self) -> str:
        return "" if self.has_parts else " "

    def _joint(self, joint: Joint) -> str:
        after = "  " if self.has_parts else ""
        return {"none": after, "part": " ┊", "tile": " │", "gap": "  …" + after}[joint]

    def _blocks(self, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
        """For each column, the separator before its cell, and the cell."""
        width = self._cell_width if texts else 0
        for at, text in enumerate(texts):
            yield (self._joint(self.columns.joints[at - 1]) if at else "") + self._lead, text.rjust(width)

    def _header(self) -> Line:
        texts = "".join(
            (" " * len(before) if "…" not in before else before) + label
            for before, label in self._blocks(self.columns.labels)
        )
        return (Run((self.columns.name.ljust(self._margin + 1) + texts).rstrip()),)

    def _row(self, label: str, cells: Sequence[GridCell]) -> Line:
        runs = [Run(label.rjust(self._margin - 1) + " │")]
        for (before, text), cell in zip(self._blocks([cell.text for cell in cells]), cells, strict=True):
            runs += [Run(before)] if before else []
            runs.append(Run(text, cell.role))
        return (*runs, Run(" │"))

    def _frame(self, left: str, middle: str, right: str) -> str:
        return left + "".join(
            "─" * (len(before) + len(text)) if "│" not in before else before.replace(" ", "─").replace("│", middle)
            + "─" * len(text)
            for before, text in self._blocks(self.columns.labels)
        ) + "─" + right  # fmt: skip

    def _rule(self, joint: Joint) -> Line | None:
        if joint not in self._ruled:
            return None
        margin = " " * self._margin
        if joint == "tile":
            return (Run(margin), Run(self._frame("├", "┼", "┤")))
        if joint == "gap":
            return (Run("…".rjust(self._margin - 1) + " "), Run(self._empty("│")))
        return (Run(margin), Run(_dashed(self._empty("┊"))))

    def _empty(self, part: str) -> str:
        blank = (before.replace("…", " ").replace("┊", part if part == "┊" else " ") + " " * len(text)
                 for before, text in self._blocks(self.columns.labels))  # fmt: skip
        return "│" + "".join(blank) + " │"


def _dashed(line: str) -> str:
    """The line with every other blank replaced by a dash; other characters keep a blank on both sides."""
    dashed = [
        "─" if glyph == " " and at % 2 == 0 and line[at - 1] == line[at + 1] == " " else glyph
        for at, glyph in enumerate(line[:-1])
    ]
    return "".join(dashed) + line[-1]
