"""Figures: lines of glyphs for people, and their data for machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.text import Line, Text, line_of

Draw: TypeAlias = Callable[[int], tuple[Line, ...]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing. `draw(room)` returns its lines, at most `room` cells wide; wider lines are cut.

    `data` is the content for machine formats; without it they get the lines.

    >>> figure = Figure("tile", fixed("0 1", "2 3"))
    >>> [run.text for line in figure.draw(80) for run in line]
    ['0 1', '2 3']
    """

    kind: ClassVar[Literal["figure"]] = "figure"
    name: str
    draw: Draw
    title: str = ""
    data: Mapping[str, Cell] = field(default_factory=dict)

    def as_table(self) -> None:
        """None: a figure has no rows."""


def fixed(*lines: Text) -> Draw:
    """A drawing that is the same at any width.

    >>> fixed("= 17")(40)
    ((Run(text='= 17', role='plain'),),)
    """
    drawn = tuple(line_of(line) for line in lines)
    return lambda _room: drawn
