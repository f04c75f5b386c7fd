"""Drawings of arrays: the worked pictures, and that each cell says what the layout arithmetic says."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, settings

from hlo_cli.analysis.layout.addresses import plane_of, visible_positions
from hlo_cli.commands.layout.shape import report_of_shape
from hlo_cli.commands.shape.explained import MAX_LINES, figure_of, grid_for
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.render.registry import renderer
from hlo_cli.render.style import Style
from hlo_cli.report.text import plain_text
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import every, examples
from strategies import an_array, seeds
from test_layout_steps import small_array

SHAPES = (
    "f32[3,5]{1,0:T(2,2)}",
    "bf16[300,70]{1,0:T(8,128)(2,1)}",
    "bf16[4,8]{1,0:T(2,4)(2,1)}",
    "f32[2,3,130]{2,1,0:T(8,128)}",
    "f32[2,3,130]{0,2,1:T(8,128)}",
    "s4[100,300]{1,0:T(64,128)(8,1)E(4)}",
    "bf16[5000]{0:T(1024)(128)(2,1)}",
    "f32[3000]{0:T(1024)}",
    "bf16[2,3,4]{2,1,0:T(2,*,2)}",
    "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
    "f32[7,129]{1,0:T(8,128)(3,1)}",
    "f32[4,256]{1,0:T(128)}",
    "f32[<=20,7]{1,0:T(8,128)}",
    "f32[100,200]{0,1}",
    "pred[1000000000,4000000]{1,0:T(32,128)(4,1)}",
    "u32[]{:T(128)}",
    "f32[8]{0:T(2,2)}",
    "f32[]",
)


def array(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def picture(text: str, width: int = 80, *, ascii_only: bool = False) -> str:
    report = report_of_shape(text, draw=True)
    return "".join(renderer("table", person=True)(report, Style(width=width, ascii=ascii_only)))


def test_the_figure_of_xlas_page_on_tiled_layout() -> None:
    assert picture("f32[3,5]{1,0:T(2,2)}").startswith("""\
24 positions for 15 elements; boxes are 2 × 2 tiles; · marks padding

x        0   1     2   3     4  ·5
 y   ┌─────────┬─────────┬─────────┐
   0 │   0   1 │   4   5 │   8  ·9 │
   1 │   2   3 │   6   7 │  10 ·11 │
     ├─────────┼─────────┼─────────┤
   2 │  12  13 │  16  17 │  20 ·21 │
  ·3 │ ·14 ·15 │ ·18 ·19 │ ·22 ·23 │
     └─────────┴─────────┴─────────┘
""")


def test_the_same_in_ascii() -> None:
    assert picture("f32[3,5]{1,0:T(2,2)}", ascii_only=True).splitlines()[2:10] == [
        "x        0   1     2   3     4  .5",
        " y   +---------+---------+---------+",
        "   0 |   0   1 |   4   5 |   8  .9 |",
        "   1 |   2   3 |   6   7 |  10 .11 |",
        "     +---------+---------+---------+",
        "   2 |  12  13 |  16  17 |  20 .21 |",
        "  .3 | .14 .15 | .18 .19 | .22 .23 |",
        "     +---------+---------+---------+",
    ]


def test_tiles_in_tiles() -> None:
    assert picture("bf16[4,8]{1,0:T(2,4)(2,1)}").startswith("""\
32 positions, no padding; tiles 2 × 4, ┊ 2 × 1

x      0    1    2    3    4    5    6    7
 y  ┌───────────────────┬───────────────────┐
  0 │  0 ┊  2 ┊  4 ┊  6 │  8 ┊ 10 ┊ 12 ┊ 14 │
  1 │  1 ┊  3 ┊  5 ┊  7 │  9 ┊ 11 ┊ 13 ┊ 15 │
    ├───────────────────┼───────────────────┤
  2 │ 16 ┊ 18 ┊ 20 ┊ 22 │ 24 ┊ 26 ┊ 28 ┊ 30 │
  3 │ 17 ┊ 19 ┊ 21 ┊ 23 │ 25 ┊ 27 ┊ 29 ┊ 31 │
    └───────────────────┴───────────────────┘
""")


def test_a_large_array_is_shown_by_its_corners() -> None:
    lines = picture("bf16[300,70]{1,0:T(8,128)(2,1)}").splitlines()
    assert lines[0] == "38,912 positions for 21,000 elements; tiles 8 × 128, ┊ 2 × 1; · marks padding"
    rows = [line.split("│")[0].strip() for line in lines if "│" in line]
    assert rows == ["0", "1", "…", "7", "8", "…", "299", "", "·300", "…", "·303"]
    assert re.search(r" 299 │ 38145 ┊ 38147 ┊ 38149 .* 38283 ┊·38285  …  ·38399 │", "\n".join(lines))
    assert "not shown: 297 of 304 rows; 120 of 128 columns" in lines
    assert len(lines) <= 30


def test_planes_that_are_left_out_are_named() -> None:
    assert "1 of 2 planes (all except z 0)" in picture("f32[2,3,130]{2,1,0:T(8,128)}")


def test_padding_that_no_plane_shows_is_counted() -> None:
    assert "256 more padding positions are not shown" in picture("f32[7,129]{1,0:T(8,128)(3,1)}")


def test_rows_of_a_one_dimensional_array_begin_with_its_positions() -> None:
    lines = picture("bf16[2048]{0:T(1024)(128)(2,1)}").splitlines()
    assert lines[0] == "2,048 positions, no padding; tiles of 1,024 in rows of 128, ┊ 2 × 1"
    assert lines[4].startswith("     0 │    0 ┊    2 ┊")
    assert lines[5].startswith("   128 │    1 ┊    3 ┊")


def test_nothing_is_drawn_of_nothing() -> None:
    assert picture("f32[0,5]{1,0:T(8,128)}").startswith("Empty array")


def test_elements_that_were_asked_for_are_marked() -> None:
    shape = array("bf16[300,70]{1,0:T(8,128)(2,1)}")
    text = "\n".join(plain_text(line) for line in figure_of(shape, elements=((37, 5),)).draw(80))
    assert "[4619]" in text
    shape = array("f32[2,3,130]{2,1,0:T(8,128)}")
    text = "\n".join(plain_text(line) for line in figure_of(shape, elements=((1, 2, 129), (0, 0, 0))).draw(80))
    assert "[3329]" in text
    assert "all except z 1" in text
    assert "1 requested element is in other planes" in text


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("width", every(3, [40, 61, 80, 120, 200]))
def test_a_drawing_fits_one_screen(text: str, width: int) -> None:
    lines = [line for line in picture(text, width).splitlines() if not line.startswith(("next:", "      hlo"))]
    assert len(lines) <= (28 if width >= 80 else 31)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("text", SHAPES)
def test_ascii_has_the_same_geometry(text: str) -> None:
    drawn = [plain_text(line) for line in figure_of(array(text)).draw(80)]
    in_ascii = [Style(ascii=True).show_figure(line) for line in drawn]
    assert [len(line) for line in drawn] == [len(line) for line in in_ascii]
    assert all(line.isascii() for line in in_ascii)


def check(shape: ArrayShape, width: int) -> None:
    """Cells hold slots that no other cell has, padding is what lies outside, and all stand under each other."""
    plane, tiling = plane_of(shape), shape.tiling
    grid = grid_for(shape, plane, width)
    assert grid.width <= width or len(grid.columns.labels) == 1
    assert grid.height <= MAX_LINES + 1
    assert len({len(plain_text(line)) for line in list(grid.lines())[1:]}) == 1
    slots = [cell.number for row in grid.cells for cell in row]
    assert len(slots) == len(set(slots))
    for row in grid.cells:
        for cell in row:
            index = tiling.element(cell.number)
            inside = all(0 <= i < size for i, size in zip(index, shape.sizes, strict=True))
            assert cell.is_padding != (inside and tiling.linear_index(index) == cell.number)


@settings(max_examples=examples(300))
@given(seeds)
def test_every_cell_of_a_small_array_is_right(seed: int) -> None:
    shape = small_array(seed)
    for width in (30, 80):
        check(shape, width)


@settings(max_examples=examples(300))
@given(seeds)
def test_every_cell_of_any_array_is_right(seed: int) -> None:
    random = Random(seed)
    shape = an_array(random, random.randrange(5))
    if shape.problem is None and shape.slots:
        check(shape, 80)


def test_all_of_a_small_array_is_drawn() -> None:
    shape = array("f32[3,5]{1,0:T(2,2)}")
    grid = grid_for(shape, plane_of(shape), 80)
    assert sorted(cell.number for row in grid.cells for cell in row) == list(range(24))


def test_one_that_is_alone_between_others_is_not_left_out() -> None:
    axis = plane_of(array("f32[9,9]")).rows
    assert visible_positions(axis, 8) == tuple(range(9))
