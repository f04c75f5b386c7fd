"""Numbers on pages: `js/units.js` writes the same text as Python for the same number."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from browser import browser, opened
from hlo_cli.render.draw.cells import cell_text, writing_of
from hlo_cli.render.web.page import script
from hlo_cli.report import numbers
from hlo_cli.report.table import UNKNOWN, Cell, Column

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.oracle
COUNT = 1500
EDGES = (0, 1, 9, 10, 99, 999, 1000, 1023, 1024, 9999, 10240, 2**20 - 1, 2**20, 25 << 18, 2**40, 2**53 - 1, 2**53)
FRACTIONS = (0.0, 1.0, 0.5, 0.005, 0.995, 0.9949999, 0.9999999, 0.9999999999, 1e-12, 1 - 1e-9, sum([0.1] * 10), 1.2)
_EDGES = {"whole": EDGES, "any": EDGES, "seconds": EDGES[:-2], "fraction": FRACTIONS}
FUNCTIONS: dict[str, tuple[Callable[..., str], str]] = {
    "formatScaled": (numbers.format_scaled, "scaled"),
    "formatCount": (numbers.count, "any"),
    "formatBytes": (numbers.format_bytes, "whole"),
    "formatSeconds": (numbers.format_seconds, "seconds"),
    "formatFlops": (numbers.format_flops, "whole"),
    "formatPercent": (numbers.format_percent, "fraction"),
    "formatRatio": (numbers.format_ratio, "any"),
}
UNITS = {"bytes": "whole", "seconds": "seconds", "percent": "fraction", "count": "any", "flops": "any", "step": "whole",
         "ratio": "any", "address": "whole", "line": "whole"}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """An empty page that has the functions of `units.js` as globals."""
    path = tmp_path_factory.mktemp("units") / "units.html"
    path.write_text("<!DOCTYPE html><title>units</title>")
    code = script("units").replace('"use strict";\n(() => {\n', "").removesuffix("})();\n")
    with browser() as chromium, opened(chromium, path) as found:
        found.page.add_script_tag(content=code)
        yield found.page
        assert not found.messages


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_write_what_python_writes(page: Page, name: str) -> None:
    """Thousands of seeded numbers of all magnitudes, and the limits between units."""
    function, kind = FUNCTIONS[name]
    arguments = [_argument(kind, random.Random(f"{name} {at}")) for at in range(COUNT)]
    arguments += [(each,) for each in _EDGES.get(kind, ())]
    found = page.evaluate(f"given => given.map(each => {name}(...each))", arguments)
    assert found == [function(*each) for each in arguments]


@pytest.mark.parametrize("unit", UNITS)
def test_columns_are_written_as_python_writes_them(page: Page, unit: str) -> None:
    """Columns of random length share one unit and one number of decimals, sums count for the unit only."""
    chance = random.Random(unit)
    columns = [_column(UNITS[unit], chance) for _ in range(COUNT // 5)]
    found = page.evaluate(
        """([unit, columns]) => columns.map(({cells, sums}) => {
          const writing = writingOf(unit, cells, sums);
          return [writing.unit, ...[...cells, ...sums].map(writing.textOf)];
        })""",
        [unit, [{"cells": [_for_page(cell) for cell in cells], "sums": sums} for cells, sums in columns]],
    )
    assert found == [_python_column(unit, cells, sums) for cells, sums in columns]


@pytest.mark.parametrize("noun", ["instructions", "copies", "branches", "losses", "boxes", "S"])
def test_nouns_have_their_singular(page: Page, noun: str) -> None:
    """`1 copy`, `2 copies`."""
    found = page.evaluate("noun => [0, 1, 2, 3652].map(each => countOf(each, noun))", noun)
    assert found == [numbers.format_count(each, noun) for each in (0, 1, 2, 3652)]


def test_values_without_a_unit_are_written_as_python_writes_them(page: Page) -> None:
    """Texts, booleans, indices, and records."""
    cells: list[Cell] = ["add", True, False, 126, (0, 5), ((1, 2), 3), {"a": 1, "b": "c"}, UNKNOWN, None, -7]
    found = page.evaluate("cells => cells.map(plainText)", [_for_page(cell) for cell in cells])
    assert found == [cell_text(cell, writing_of(Column("x", "x"), (cell,))) for cell in cells]


def _argument(kind: str, chance: random.Random) -> tuple[int | float, ...]:
    """Arguments of a function: magnitudes are spread evenly, and some numbers are negative."""
    sign = -1 if chance.random() < 0.1 else 1
    whole = sign * chance.randrange(2 ** chance.randint(1, 53))
    match kind:
        case "whole":
            return (whole,)
        case "scaled":
            value: int | float = whole if chance.random() < 0.6 else chance.random() * 10.0 ** chance.randint(-3, 12)
            return (value, 1024 ** chance.randint(0, 4), chance.randint(0, 3))
        case "seconds":
            return (sign * chance.random() * 10.0 ** chance.randint(-12, 4),)
        case "fraction":
            return (chance.random() if chance.random() < 0.8 else 1 - 10.0 ** chance.randint(-12, -1),)
        case _:
            return (whole if chance.random() < 0.5 else sign * chance.random() * 10.0 ** chance.randint(-3, 9),)


def _column(kind: str, chance: random.Random) -> tuple[list[Cell], list[int | float]]:
    cells: list[Cell] = [_argument(kind, chance)[0] for _ in range(chance.randint(1, 6))]
    if chance.random() < 0.3:
        cells.append(chance.choice((None, UNKNOWN)))
    sums = [_argument(kind, chance)[0]] if chance.random() < 0.5 else []
    return cells, sums


def _python_column(unit: str, cells: list[Cell], sums: list[int | float]) -> list[str]:
    writing = writing_of(Column("x", "x", unit), cells, sums)  # type: ignore[arg-type]
    return [writing.unit, *(cell_text(cell, writing) for cell in (*cells, *sums))]


def _for_page(cell: Cell) -> object:
    """A cell as `render/web/interactive.py` writes it."""
    return "?" if cell is UNKNOWN else json.loads(json.dumps(cell))
