"""Anatomies: a quoted text in parts, each with a letter under it and a line that explains it."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.column import Column
from hlo_cli.report.table import Table
from hlo_cli.report.text import Text, line_of, plain_text

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
