"""Numbers, shortened text and cell widths: laws over any value."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hlo_cli.render.draw.cells import cell_text, writing_of
from hlo_cli.render.draw.prose import fill
from hlo_cli.render.style import ASCII, figure_to_ascii, sanitize, to_ascii
from hlo_cli.render.width import (
    _ONE_CELL_EACH,
    SHORTENERS,
    cell_width,
    elements_of,
    shorten_name,
    shorten_shape,
    shorten_text,
    take,
    take_last,
)
from hlo_cli.report.numbers import (
    BYTE_UNITS,
    ROUNDING,
    byte_unit,
    format_bytes,
    format_count,
    format_percent,
    format_scaled,
)
from hlo_cli.report.table import UNKNOWN, Cell, Column
from hlo_cli.report.text import Run, plain_text

text = st.text(max_size=80)
printable = text.map(sanitize)
sizes = st.integers(0, 2**62)


@given(sizes)
def test_the_unit_of_a_column_leaves_at_most_four_digits(largest: int) -> None:
    unit = byte_unit(largest)
    shown = format_scaled(largest, 1024**unit, 1)
    assert len(shown.partition(".")[0].replace(",", "")) <= 4
    assert unit == 0 or largest / 1024 ** (unit - 1) >= 9999


@given(st.integers(-(2**62), 2**62), st.integers(0, 6), st.integers(0, 2))
def test_scaled_numbers_are_right_to_the_last_digit(value: int, unit: int, decimals: int) -> None:
    divisor = 1024**unit
    shown = format_scaled(value, divisor, decimals)
    assert (shown == "0") == (value == 0)
    if shown[0] in "<>":
        assert 0 < abs(value) / divisor < 10**-decimals
    else:
        error = abs(
            int(shown.replace(",", "").replace(".", "") or 0) * divisor
            - value * 10 ** (decimals if "." in shown or not decimals else 0)
        )
        assert not value or 2 * error <= divisor


@given(sizes)
def test_sizes_in_words_stay_below_1024(value: int) -> None:
    number, unit = format_bytes(value).split(" ")
    assert unit in BYTE_UNITS
    assert number[0] == "<" or float(number.replace(",", "")) < 1024 or unit == BYTE_UNITS[-1]


@given(st.floats(0, 1))
def test_percent_is_exact_at_both_ends(fraction: float) -> None:
    shown = format_percent(fraction)
    assert (shown == "0") == (fraction == 0)
    assert (shown == "100") == (fraction >= 1 - ROUNDING)


@pytest.mark.parametrize(
    ("values", "sums", "expected"),
    [
        ((2816 * 1024, 420 * 1024, 0), (9804 * 1024,), ["2,816", "420", "0"]),
        ((2816 * 1024, 38912, 51), (), ["2,816.0", "38.0", "<0.1"]),
        ((16 * 2**30, 1024), (), ["16.0", "<0.1"]),
        ((512, 4096), (), ["512", "4,096"]),
        ((None, UNKNOWN, 1024), (10**8,), ["-", "?", "<0.1"]),
        ((-1536, 10240), (), ["-1,536", "10,240"]),
    ],
)
def test_byte_columns_have_one_unit(values: tuple[Cell, ...], sums: tuple[Cell, ...], expected: list[str]) -> None:
    writing = writing_of(Column("b", "", "bytes"), values, sums)
    shown = [cell_text(value, writing) for value in values]
    if values == (-1536, 10240):
        expected = ["-1.5", "10.0"]
    if values == (None, UNKNOWN, 1024):
        assert writing.unit == "MiB"
    assert shown == expected


def test_nouns_are_counted() -> None:
    assert [format_count(number, "shapes") for number in (0, 1, 2000)] == ["0 shapes", "1 shape", "2,000 shapes"]


@pytest.mark.parametrize("unit", [*SHORTENERS, "text"])
@given(value=printable, room=st.integers(1, 90))
def test_shortened_text_fits_and_what_fits_is_whole(unit: str, value: str, room: int) -> None:
    shortened = SHORTENERS.get(unit, shorten_text)(value, room, "…")
    assert cell_width(shortened) <= room
    assert cell_width(value) > room or shortened == value


@given(st.from_regex(r"[a-z_-]{1,40}\.[0-9]{1,6}(\{[0-9]\})?", fullmatch=True), st.integers(12, 30))
def test_names_keep_their_numbers(name: str, room: int) -> None:
    assert shorten_name(name, room).endswith(re.sub(r".*(\.[0-9]+.*)", r"\1", name))


@given(st.lists(st.sampled_from(["f32[2,3]{1,0}", "s32[]", "(pred[], token[])"]), max_size=9), st.integers(14, 60))
def test_tuples_say_how_many_elements_they_lost(elements: list[str], room: int) -> None:
    shape = f"({', '.join(elements)})"
    assert elements_of(shape) == elements
    shown = shorten_shape(shape, room)
    lost = re.search(r"… ([0-9]+) more\)$", shown)
    assert shown == shape or not lost or len(elements_of(shown)) - 1 + int(lost[1]) == len(elements)


@given(text)
def test_cells_are_counted_as_the_terminal_library_counts_them(value: str) -> None:
    assert cell_width(sanitize(value)) == cell_len(sanitize(value))


def test_our_own_glyphs_take_one_cell() -> None:
    for glyph in ASCII:
        assert _ONE_CELL_EACH.fullmatch(glyph)
        assert cell_len(glyph) == 1
        assert to_ascii(glyph).isascii()


@given(printable, st.integers(0, 90))
def test_beginnings_and_ends_are_as_long_as_they_can_be(value: str, room: int) -> None:
    first, last = take(value, room), take_last(value, room)
    assert value.startswith(first)
    assert value.endswith(last)
    assert max(cell_width(first), cell_width(last)) <= room


@given(text)
def test_clean_text_is_printable_and_stays_as_it_is(value: str) -> None:
    cleaned = sanitize(value)
    assert cleaned.isprintable()
    assert sanitize(cleaned) == cleaned
    assert to_ascii(cleaned).isascii()
    assert figure_to_ascii(cleaned).isascii()


@pytest.mark.parametrize(
    "character", ["\x1b", "\x9b", "\n", "\t", "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800"]
)
def test_characters_that_act_are_written_out(character: str) -> None:
    code = ord(character)
    assert sanitize(f"a{character}b") == (f"a\\x{code:02x}b" if code < 256 else f"a\\u{code:04x}b")


@given(st.lists(printable), st.integers(1, 60))
def test_filling_loses_no_word(words: list[str], room: int) -> None:
    lines = [plain_text(line) for line in fill(tuple(Run(word) for word in words), max(room, 2))]
    assert all(cell_width(line) <= max(room, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(words).replace(" ", "")


def test_numbers_that_are_not_finite_are_unknown() -> None:
    writing = writing_of(Column("r", "", "ratio"), (math.inf, 2.0))
    assert [cell_text(value, writing) for value in (math.inf, math.nan, 2.0)] == ["?", "?", "× 2.0"]
