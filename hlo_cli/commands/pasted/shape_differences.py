"""The table of the elements in which the shapes of an error differ."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from hlo_cli.analysis.shapes.difference_in_words import shape_differences
from hlo_cli.ir.compiler_files.compiler_error import CompilerError
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.table import Table
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shapes import parse_shape

_COLUMNS: Final = (
    Column("element", "element"),
    Column("expected", "expected", "shape"),
    Column("part", "in"),
    Column("found", "found", "shape"),
    Column("difference", "difference"),
)
_SHAPE: Final = lazy_regex(r"(?<![\w.])[a-z][a-z0-9]{0,15}\[[0-9,<=?]{0,400}+\](?:\{[^{}\n]{1,200}+\})?+")
_MOST_SHAPES: Final = 20
_TITLES: Final = {
    "actual": "text",
    "first": "branch 0",
    "other": "other branch",
    "left": "left operand",
    "right": "right operand",
    "initial": "initial value",
    "condition": "condition parameter",
    "body": "body parameter",
    "result": "body result",
}


def differences_table(error: CompilerError) -> Table | None:
    """The elements that differ from the first shape, or from that which most of several have; None if none do."""
    shapes = shapes_of(error)
    if len(shapes) < 2:
        return None
    expected = expected_of(shapes)
    rows = list[Row]()
    for label, shape in shapes.items():
        for index, one, other, words in shape_differences(shapes[expected], shape) if label != expected else ():
            shown = (_text(one, words), _TITLES.get(label, label), _text(other, words), words)
            rows.append((index_text(index) if index else None, *shown))
    return Table("shape_differences", _COLUMNS, tuple(rows), noun="differences", main=False) if rows else None


def shapes_of(error: CompilerError) -> dict[str, Shape]:
    """The shapes of an error that can be read, by the names of their fields."""
    found = dict[str, Shape]()
    for field in error.rule.shapes if error.rule is not None else ():
        try:
            shape = parse_shape(error.fields.get(field, ""))
        except (HloError, RecursionError):
            continue
        if not isinstance(shape, UnknownShape):
            found[field] = shape
    return found


def shapes_in(message: str) -> list[Shape]:
    """The distinct array shapes in a message, in order.

    >>> [str(shape) for shape in shapes_in("got f32[2,3] and bf16[<=8]{0}, not f32[2,3] or x[1]")]
    ['f32[2,3]{1,0}', 'bf16[<=8]{0}']
    """
    found = dict[str, Shape]()
    for match in islice(_SHAPE.finditer(message), _MOST_SHAPES):
        try:
            shape = parse_shape(match[0])
        except HloError:
            continue
        if not isinstance(shape, UnknownShape):
            found.setdefault(match[0], shape)
    return list(found.values())


def expected_of(shapes: dict[str, Shape]) -> str:
    """The field of the shape that most fields have; the first of equals."""
    counts = Counter(
        {
            label: sum(next(shape_differences(shape, other), None) is None for other in shapes.values())
            for label, shape in shapes.items()
        }
    )
    return counts.most_common(1)[0][0]


def _text(shape: Shape | None, words: str) -> str | None:
    """The shape, with its layout only where that is the difference."""
    return None if shape is None else shape.to_string(layout=words.startswith("layout"))
