"""What is drawn of glyphs: any figure, the grid of an array, and an anatomy, which explains a text part by part?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import ClassVar, Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.report.text import Line, Role, Run, Text, line_of, plain_text

# --- figures ---
# Lines of glyphs for people, and their data for machines.


Draw: TypeAlias = Callable[[int], tuple[Line, ...]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing. `draw(room)` returns its lines, at most `room` cells wide; wider lines are cut.

    `data` is the content for machine formats; without it they get the lines. With `on_pages=False`, web pages omit it,
    because they have a picture of the same.

    >>> figure = Figure("tile", fixed("0 1", "2 3"))
    >>> [run.text for line in figure.draw(80) for run in line]
    ['0 1', '2 3']
    """

    kind: ClassVar[Literal["figure"]] = "figure"
    name: str
    draw: Draw
    title: str = ""
    data: Mapping[str, Cell] = field(default_factory=dict)
    on_pages: bool = True

    def as_table(self) -> None:
        """None: a figure has no rows."""


def fixed(*lines: Text) -> Draw:
    """A drawing that is the same at any width.

    >>> fixed("= 17")(40)
    ((Run(text='= 17', role='plain'),),)
    """
    drawn = tuple(line_of(line) for line in lines)
    return lambda _room: drawn


# --- grids ---
# An array drawn as cells in boxes, like the figures of XLA's page on tiled layout.
#
# A grid has the content of each cell and the separators between cells; this file draws its lines.


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


# --- anatomies ---
# A quoted text in parts, each with a letter under it and a line that explains it.


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Break(IntEnum):
    """Whether a line may break before a segment: never, where needed, or always when one line is not enough."""

    NEVER = 0
    MAY = 1
    SHOULD = 2


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the quoted text; `part` is the number of its part, None for text between parts.

    >>> Segment("bf16", 1).part
    1
    """

    text: str
    part: int | None = None
    break_before: Break = Break.NEVER


@dataclass(frozen=True, slots=True)
class Explanation:
    """A line below the quotation: the name of a part, its value, and the meaning.

    `part` is None for facts that are not in the text. `details` fills the further columns of the anatomy; a line that
    has them keeps its meaning on one line.

    >>> Explanation(1, "type", "bf16", "2 bytes an element").label
    'type'
    """

    part: int | None
    label: str
    value: str
    meaning: Text = ""
    details: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A text in segments and the explanations of its parts. Parts count from 0 in the order of the text.

    >>> segments = (Segment("f32", 0), Segment("["), Segment("3,5", 1), Segment("]"))
    >>> Anatomy("shape", segments, (Explanation(0, "type", "f32"), Explanation(1, "sizes", "3 5"))).text
    'f32[3,5]'
    """

    kind: ClassVar[Literal["anatomy"]] = "anatomy"
    name: str
    segments: tuple[Segment, ...]
    explanations: tuple[Explanation, ...]
    columns: tuple[Column, ...] = ()

    @property
    def text(self) -> str:
        """The complete quoted text."""
        return "".join(segment.text for segment in self.segments)

    def as_table(self) -> Table:
        """One row for each explanation."""
        columns = (
            Column("letter", "letter"), Column("label", "label"), Column("value", "value"),
            Column("meaning", "meaning"), *self.columns,
        )  # fmt: skip
        return Table(self.name, columns, tuple(self._row(each) for each in self.explanations), noun="parts", main=False)

    def _row(self, each: Explanation) -> tuple[Cell, ...]:
        details = each.details + (None,) * (len(self.columns) - len(each.details))
        letter_or_none = None if each.part is None else letter(each.part)
        return (letter_or_none, each.label, each.value, plain_text(line_of(each.meaning)), *details)


def letter(part: int) -> str:
    """The letter of a part: a to z, then a1 to z1, a2, and so on.

    >>> [letter(part) for part in (0, 25, 26, 53)]
    ['a', 'z', 'a1', 'b2']
    """
    round_, index = divmod(part, len(_LETTERS))
    return _LETTERS[index] + (str(round_) if round_ else "")
