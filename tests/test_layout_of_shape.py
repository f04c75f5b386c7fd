"""`hlo layout SHAPE`: the worked screens, every number, the places of errors, and laws that hold for any shape."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings

from hlo_cli.analysis.layout.layout_steps import true_rank
from hlo_cli.commands.layout.shape import explained_of, report_of_shape, report_of_shapes
from hlo_cli.commands.shape.argument import is_hlo_text
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.render.registry import renderer
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import examples
from strategies import shapes


def screen(report: Report, width: int = 80, *, ascii_only: bool = False) -> str:
    return "".join(renderer("table", person=True)(report, Style(width=width, ascii=ascii_only)))


def test_the_worked_screen() -> None:
    text = screen(report_of_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    assert text.startswith("""\
Needs 77,824 bytes for 42,000 bytes of data (46% padding); dimension order {0,1}
would need 55,296

bf16[300,70]{1,0:T(8,128)(2,1)}
─┬── ──┬───  ─┬─ ───┬─── ──┬──
 a     b      c     d      e

a type   bf16      2 bytes per element
b sizes  300 70    y is 300, x is 70: 21,000 elements
c order  1 0       x is minor: row-major, the default
d tile   T(8,128)  tiles of 8 (y) × 128 (x): 38 × 1 tiles
e tile   (2,1)     within each tile, pairs of rows are interleaved: two bf16 per
                   32-bit word

step          sizes                  elements   bytes
────────────  ─────────────────────  ────────  ──────
array         [300, 70]                21,000  42,000
pad           [304, 128]               38,912  77,824  y + 4, x + 58
tile (8,128)  [38, 1, 8, 128]          38,912  77,824  38 × 1 tiles
tile (2,1)    [38, 1, 4, 128, 2, 1]    38,912  77,824  4 × 128 per tile

tile (8,128): reshape to [38, 8, 1, 128], transpose (0, 2, 1, 3)
tile (2,1): reshape to [38, 1, 4, 2, 128, 1], transpose (0, 1, 2, 4, 3, 5)
physical strides: [2048, 2048, 512, 4, 2, 2] bytes
stride of x: 4 bytes
""")
    assert "hlo layout --draw 'bf16[300,70]{1,0:T(8,128)(2,1)}'" in text
    assert "hlo layout --for v5e 'bf16[300,70]'" in text
    assert "--for" not in screen(report_of_shape("bf16[300,70]{0,1:T(8,128)(2,1)}")), "it is what a v5e chooses"
    assert text.count("\n") <= 32


def test_the_numbers_for_machines() -> None:
    numbers = report_of_shape("bf16[300,70]{1,0:T(8,128)(2,1)S(1)}").numbers
    assert numbers == {
        "type": "bf16",
        "dimensions": (300, 70),
        "dynamic_dimensions": (False, False),
        "minor_to_major": (1, 0),
        "tiles": ((8, 128), (2, 1)),
        "elements": 21000,
        "positions": 38912,
        "logical_bytes": 42000,
        "padded_bytes": 77824,
        "padding_bytes": 35824,
        "metadata_bytes": 0,
        "physical_dimensions": (38, 1, 4, 128, 2, 1),
        "tile_counts": ((38, 1), (4, 128)),
        "stride_bytes": (None, 4),
        "physical_stride_bytes": (2048, 2048, 512, 4, 2, 2),
        "true_rank": 2,
        "memory_space": 1,
        "element_size_in_bits": 16,
    }


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("f32[3,5]", "Needs 60 bytes for 15 f32 elements, no padding"),
        ("f32[]", "Needs 4 bytes for 1 f32 element, no padding"),
        ("u32[]{:T(128)}", "Needs 512 bytes for 4 bytes of data (99% padding)"),
        ("f32[0,5]{1,0:T(8,128)}", "Empty array: 0 bytes"),
        ("s4[64,128]{1,0:E(4)}", "Needs 4,096 bytes for 8,192 s4 elements, no padding"),
        ("s4[9216,6144]{1,0:T(64,128)(8,1)E(4)}", "Needs 28,311,552 bytes for 56,623,104 s4 elements, no padding"),
        ("pred[8,8,8]{0,2,1:T(8,128)E(32)}", "Needs 32,768 bytes for 2,048 bytes of data (94% padding)"),
        ("f32[7,129]{1,0:T(8,128)(3,1)}", "Needs 9,216 bytes for 3,612 bytes of data (61% padding)"),
        ("f32[<=10,7]", "Needs 288 bytes for 70 f32 elements and 8 bytes of dynamic sizes, no padding"),
        ("b(f32[4,5]{1,0:T(4,128)})", "Needs 2,048 bytes for 80 bytes of data (96% padding)"),
        ("token[]", "Token: orders side effects, holds no data"),
        ("(f32[4]{0}, (token[], bf16[2]{0:T(256)(128)(2,1)}))", "528 bytes for 20 bytes of data in 3 leaves (96% padding)"),
        ("ROOT %a.1 = f32[3,5]{0,1} add(%b, %c), metadata={op_name=\"x\"}", "Needs 60 bytes for 15 f32 elements, no padding"),
        ("f32[3,5] add(f32[3,5] b, f32[3,5] c)", "Needs 60 bytes for 15 f32 elements, no padding"),
    ],
)  # fmt: skip
def test_answers(text: str, answer: str) -> None:
    assert report_of_shape(text).answer.startswith(answer)


def test_a_layout_that_is_not_written_is_named() -> None:
    text = screen(report_of_shape("f32[3,5]"))
    assert "f32[3,5]\n─┬─ ─┬─\n a   b\n" in text
    assert "  order  not specified  x is minor: row-major, the default" in text
    assert "stride of y: 20 bytes; of x: 4 bytes" in text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("bf16[300,70]", "v5e uses {0,1:T(8,128)(2,1)}: 55,296 bytes for 42,000 bytes of data (24% padding)"),
        (
            "bf16[300,70]{1,0}",
            "{1,0:T(8,128)(2,1)}: 77,824 bytes for 42,000 bytes of data (46% padding); v5e would use {0,1} (55,296 bytes)",
        ),
        (
            "f32[64,10]{0,1}",
            "{0,1:T(8,128)}: 8,192 bytes for 2,560 bytes of data (69% padding); v5e would use the same",
        ),
        ("f32[8,128]", "v5e uses {1,0:T(8,128)}: 4,096 bytes for 1,024 f32 elements, no padding"),
        ("f32[]{:T(256)}", "v5e uses {:T(128)}: 512 bytes for 4 bytes of data (99% padding)"),
        ("b(f32[0,5])", "v5e uses {1,0}: 0 bytes (empty array)"),
        (
            "f32[?,7]",
            "{1,0:T(1,128)}: 512 bytes for 28 bytes of data (95% padding); the order that v5e uses is unknown",
        ),
        (
            "s8[64,40,1]",
            "v5e uses {0,1,2:T(8,128)(4,1)}: 5,120 bytes for 2,560 bytes of data (50% padding)",
        ),
    ],
)
def test_what_a_tpu_would_choose(text: str, answer: str) -> None:
    assert report_of_shape(text, generation="v5e").answer == answer


def test_every_order_is_priced_and_the_choice_is_marked() -> None:
    report = report_of_shape("f32[8,28,28,3]{3,0,1,2}", generation="v4")
    table = report.main_table
    records = [dict(zip([c.name for c in table.columns], row, strict=True)) for row in table.rows]
    assert {record["minor_to_major"] for record in records} == set(permutations(range(4)))
    assert [record["minor_to_major"] for record in records if record["is_default"]] == [(2, 0, 3, 1)]
    assert [record["minor_to_major"] for record in records if record["is_given"]] == [(3, 0, 1, 2)]
    assert table.marked == {0}
    for record in records:
        alone = report_of_shape(f"f32[8,28,28,3]{record['layout']}")
        assert (alone.numbers["minor_to_major"], alone.numbers["padded_bytes"]) == (
            record["minor_to_major"],
            record["padded_bytes"],
        )
    assert report.numbers["default_padded_bytes"] == report.numbers["smallest_padded_bytes"] == 344064
    assert "13 of 24 orders" in screen(report)


def test_of_many_orders_those_are_listed_that_stand_for_the_others() -> None:
    report = report_of_shape("f32[2,1,1,1,1,1,1,3]", generation="v6e")
    assert len(report.main_table.rows) == 8 * 7
    assert report.notes[0].message.startswith("40,264 orders")


@pytest.mark.parametrize("name", ["v5e", "V5E", "TPU v5 lite", "v5litepod", "5e"])
def test_generations_by_any_name(name: str) -> None:
    assert report_of_shape("f32[]", generation=name).numbers["generation"] == "v5e"


def test_unknown_generations() -> None:
    for name, near in (("v5", "did you mean 'v5p'? "), ("h100", "")):
        with pytest.raises(HloError, match=f"unknown TPU generation '{name}'") as raised:
            report_of_shape("f32[]", generation=name)
        assert raised.value.diagnostic.hint == f"{near}available: v2, v3, v4, v5e, v5p, v6e, 7x"


def test_leaves_are_laid_out_one_by_one() -> None:
    report = report_of_shape("(f32[300,20], bf16[300,70]{1,0})", generation="v4")
    assert [row[-1] for row in report.main_table.rows] == [
        "f32[300,20]{0,1:T(8,128)}",
        "bf16[300,70]{1,0:T(8,128)(2,1)}",
    ]


def test_negative_dimension_numbers_count_from_the_end() -> None:
    report = report_of_shape("f32[3,5,7]{-1,0,-2}")
    assert report.numbers["minor_to_major"] == (2, 0, 1)
    assert "f32[3,5,7]{2,0,1}" in report.notes[0].message


def test_the_order_of_dimensions_is_a_step_of_its_own() -> None:
    text = screen(report_of_shape("f32[2,3,130]{0,2,1:T(8,128)}"))
    assert "minor to major: z is minor, y is major; in physical order" in text
    assert "order {0,2,1}  [3, 130, 2]" in text
    assert "stride of z: 4 bytes; of y: 69,632 bytes; of x: 512 bytes" in text


def test_true_rank() -> None:
    assert true_rank(parse_shape_of_array("f32[8,1,128]")) == 2
    assert "true rank 2 (without dimensions of size 1)" in " ".join(screen(report_of_shape("f32[8,1,128]")).split())


def parse_shape_of_array(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("f32[3,5]{2,1,0}", "layout has 3 dimensions, but the shape has 2", "{2,1,0}"),
        ("f32[3,5]{1,1}", "duplicate layout dimension 1", "1,1"),
        ("f32[3,5]{ 1,0 : T(8,128)( 0,1)}", r"tile \(0,1\) must have positive sizes", "( 0,1)"),
        ("f32[2]{0:T(*)}", r"tile \(\*\) must have positive sizes", "T(*)"),
        ("f32[3,5]{1,0:L(0)}", r"L\(n\) must be at least 1", "L(0)"),
        ("f32[3,5]{1,0:#(u32)}", "index and pointer types", "#(u32)"),
        ("f32[3,5]{1,0:*(u32)}", "index and pointer types", "*(u32)"),
        ("f32[3,5]{1,0:SC(0:7)}", "split points", "SC(0:7)"),
        ("f32[3,5]{1,0:E(-4)}", "must be a positive number of bits", "E(-4)"),
        ("f32[99999999999,99999999999]", "exceeds 2\\^63 - 1", "99999999999,99999999999"),
        ("(f32[2]{0}, f32[3,5]{1,1})", "duplicate layout dimension 1", "1,1"),
        ("a.1 = f32[3,5]{0,0} add(b, c)", "duplicate layout dimension 0", "0,0"),
        ("f32[3,5", r"expected '\]' after the sizes", ""),
        ("f32[2] x y", "expected the end of the shape, found 'x'", "x"),
        ("foo", "expected a shape, found 'foo'", "foo"),
        ("", "expected a shape", ""),
    ],
)
def test_what_does_not_fit_is_an_error_with_its_place(text: str, message: str, place: str) -> None:
    with pytest.raises(HloError, match=message) as raised:
        report_of_shape(text)
    found = raised.value.diagnostic
    assert found.source is not None
    assert found.span is not None
    assert found.source.slice(found.span) == place


def test_layouts_of_one_array_are_compared() -> None:
    report = report_of_shapes(["bf16[300,70]{1,0:T(8,128)(2,1)}", "bf16[300,70]{0,1:T(8,128)(2,1)}"])
    assert report.answer == "{0,1:T(8,128)(2,1)} is smallest: 55,296 bytes (largest: 77,824)"
    table = report.main_table
    assert table.marked == {1}
    assert not table.has_totals


def test_different_shapes_are_summed() -> None:
    report = report_of_shapes(["f32[3]{0:T(128)}", "s8[4]"])
    assert report.numbers["padded_bytes"] == 516
    assert report.main_table.has_totals


def test_a_tuple_is_a_table_of_its_leaves() -> None:
    report = report_of_shape("(f32[64,128]{1,0:T(8,128)}, s32[], token[], (bf16[3,4]{1,0:T(4,128)(2,1)S(1)}))")
    assert [row[0] for row in report.main_table.rows] == [(0,), (1,), (2,), (3, 0)]
    assert report.main_table.total_of(report.main_table.rows)[2:4] == (32796, 33796)


def test_huge_sizes_are_counted_exactly() -> None:
    report = report_of_shape("f32[1152921504606846976,1]{1,0:T(8,128)}")
    assert report.numbers["padded_bytes"] == 2**60 * 128 * 4
    assert "64-bit" in report.notes[0].message


def error_of(text: str) -> HloError | None:
    try:
        report_of_shape(text)
    except HloError as error:
        return error
    return None


@settings(max_examples=examples(150))
@given(shapes)
def test_any_shape_is_explained_or_refused_with_a_place(shape: Shape) -> None:
    if (error := error_of(str(shape))) is not None:
        assert error.diagnostic.span is not None
        return
    for draw in (False, True):
        report = report_of_shape(str(shape), draw=draw)
        for width in (40, 80, 200):
            lines = screen(replace(report, next=()), width).splitlines()  # a command is never wrapped
            assert all(cell_width(line) <= width for line in lines)
        for format_name in ("json", "md"):
            assert "".join(renderer(format_name, person=False)(report, Style()))
        if isinstance(shape, ArrayShape):
            assert report.numbers["padded_bytes"] == shape.padded_bytes


def test_every_worked_size_of_the_reference() -> None:
    for text, positions in (
        ("f32[3,5]{0,1:T(2,2)}", 24), ("bf16[2048]{0:T(1024)(128)(2,1)}", 2048), ("f32[2,3,130]{0,1,2:T(8,128)}", 133120),
        ("f32[8]{0:T(2,2)}", 16), ("f32[3]{0:T(8,128)}", 1024), ("u32[]{:T(128)}", 128),
        ("f32[6,4]{1,0:T(2,2)(2,1,2,2)}", 32), ("f32[10,256]{1,0:T(8,128)(2,1)(1,2)}", 8192),
        ("bf16[2,3,4]{2,1,0:T(2,*,2)}", 24), ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", 12432),
    ):  # fmt: skip
        assert report_of_shape(text).numbers["positions"] == positions, text


def test_screens_say_nothing_twice() -> None:
    for text in ("f32[8,128]{1,0:T(8,128)}", "f32[3]", "bf16[2,3,4]{2,1,0:T(2,*,2)}"):
        lines = [line for line in screen(report_of_shape(text)).splitlines() if re.search(r"\w", line)]
        assert len(lines) == len(set(lines))


def test_the_parts_are_the_main_table_and_the_steps_another() -> None:
    report = report_of_shape("f32[3,5]{1,0:T(2,2)}")
    assert report.main_table.name == report_of_shape("f32[3,5]").main_table.name == "shape"
    table = report.only("steps", as_rows=True).main_table
    assert isinstance(table, Table)
    assert [row[table.column_index("kind")] for row in table.rows] == ["array", "pad", "tile"]


@pytest.mark.parametrize("text", ["F32[3,5]{1,0:T(2,2)}", "(BF16[8,128]{1,0:T(8,128)(2,1)}, PRED[7])", "U8[4]"])
def test_element_types_as_the_documents_on_layouts_spell_them(text: str) -> None:
    """xla/docs/shapes.md and tiled_layout.md write F32[3,5]; XLA prints f32[3,5]."""
    assert parse_shape(text) == parse_shape(text.lower().replace(":t", ":T"))
    assert explained_of(text).shape == parse_shape(text)
    assert is_hlo_text(text)


def test_other_words_in_capitals_are_no_types() -> None:
    assert not is_hlo_text("README[x].md")
    assert not is_hlo_text("Dump[12].txt")
    assert str(parse_shape("F33[3]")) == "F33[3]"


def test_a_size_that_is_not_known_is_said_to_be_assumed() -> None:
    from hlo_cli.commands.layout.shape import report_of_shape

    answers = {text: report_of_shape(text).answer for text in ("f32[?,128]", "f32[<=8,128]")}
    assert {text: answer.endswith("? is unknown and assumed to be 1") for text, answer in answers.items()} == {
        "f32[?,128]": True,
        "f32[<=8,128]": False,
    }
