"""The model of a report: what is selected, sorted and summed, before anything is drawn."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.report.figure import Anatomy, Explanation, Figure, Segment, fixed, letter
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Amount, Branch, Cell, Column, Fact, Facts, Share, Table, Tree
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from parsed import PACKAGE

COLUMNS = (
    Column("value", "value", "name"),
    Column("logical_bytes", "data", "bytes", total="sum"),
    Column("padded_bytes", "padded", "bytes", total="sum"),
    Column("padding", "pad", "percent", total=Share("logical_bytes", "padded_bytes", rest=True), machine=False),
    Column("debug", "debug", person=False),
)
ROWS = (("b", 1, 4, 0.75, "x"), ("a", 3, 4, 0.25, "y"), ("c", 2, 2, 0.0, "z"))
TABLE = Table("values", COLUMNS, ROWS)


def test_people_and_machines_see_their_columns() -> None:
    assert TABLE.visible(person=True) == (0, 1, 2, 3)
    assert TABLE.visible(person=False) == (0, 1, 2, 4)


def test_selected_columns_are_for_everyone_in_the_order_asked() -> None:
    chosen = TABLE.select(["debug", "padding", "debug"])
    assert chosen.visible(person=True) == chosen.visible(person=False) == (4, 3)
    assert chosen.rows == TABLE.rows


@pytest.mark.parametrize("change", [lambda t: t.select(["padded"]), lambda t: t.sort("padded")])
def test_unknown_columns_are_errors_with_the_names(change: object) -> None:
    assert callable(change)
    with pytest.raises(HloError, match="unknown column 'padded'") as caught:
        change(TABLE)
    assert caught.value.diagnostic.hint == "did you mean 'padded_bytes'?"
    with pytest.raises(HloError, match="unknown column 'x'") as caught:
        TABLE.select(["x"])
    assert caught.value.diagnostic.hint == "available: value, logical_bytes, padded_bytes, padding, debug"


def test_numbers_fall_texts_rise_and_ties_go_by_name() -> None:
    assert [row[0] for row in TABLE.sort("padded_bytes").rows] == ["a", "b", "c"]
    assert [row[0] for row in TABLE.sort("padded_bytes", reverse=True).rows] == ["c", "a", "b"]
    assert [row[0] for row in TABLE.sort("value").rows] == ["a", "b", "c"]
    assert [row[0] for row in TABLE.sort("value", reverse=True).rows] == ["c", "b", "a"]
    assert TABLE.sort("value").sorted_by == "value"


def test_marked_rows_move_with_their_rows() -> None:
    table = Table("values", COLUMNS, ROWS, marked=frozenset({0}))
    assert table.sort("value").marked == {1}


cells: st.SearchStrategy[Cell] = st.one_of(
    st.none(),
    st.just(UNKNOWN),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(),
    st.tuples(st.integers(), st.text()),
    st.dictionaries(st.text(), st.integers()),
)


@given(st.lists(st.tuples(st.text(), cells)), st.booleans())
def test_any_cells_sort_with_those_that_have_no_value_last(rows: list[tuple[str, Cell]], descending: bool) -> None:
    table = Table("t", (Column("name", "", "name"), Column("n", "", "count")), tuple(rows))
    placed = table.sort("n", reverse=not descending)
    assert sorted(map(repr, placed.rows)) == sorted(map(repr, rows))
    missing = [row[1] is None or row[1] is UNKNOWN or row[1] != row[1] for row in placed.rows]
    numbers = [row[1] for row in placed.rows if isinstance(row[1], int)]
    assert missing == sorted(missing) or any(isinstance(row[1], float) for row in rows)
    assert numbers == sorted(numbers, reverse=descending)


def test_sums_and_shares() -> None:
    assert TABLE.total_of(ROWS) == (None, 6, 10, 0.4, None)
    assert TABLE.total_of(()) == (None, 0, 0, None, None)


def test_a_sum_of_something_unknown_is_unknown() -> None:
    rows = (*ROWS, ("d", UNKNOWN, 8, None, ""), ("e", None, 2, None, ""))
    assert TABLE.total_of(rows) == (None, UNKNOWN, 20, UNKNOWN, None)


def test_every_part_says_whether_it_has_rows() -> None:
    tree = Tree("tree", (Column("name", "", "name"),), (Branch(("a",), (Branch(("b",)),)),))
    facts = Facts("facts", (Fact("results", (Amount("count", 62),), "all"), Fact("stage", (), "last")))
    anatomy = Anatomy(
        "shape", (Segment("f32", 0),), (Explanation(0, "type", "f32", "4 bytes", (1,)),), (Column("n", ""),)
    )
    report = Report("x", "y", parts=(Passage("p", ("",)), Figure("f", fixed()), tree, facts, anatomy))
    assert [table.rows for table in report.tables] == [
        ((0, "a"), (1, "b")),
        (("results", 62, "all"), ("stage", None, "last")),
        (("a", "type", "f32", "4 bytes", 1),),
    ]


def test_the_main_table_is_what_row_formats_write() -> None:
    facts = Facts("facts", (Fact("results"),))
    side = Table("side", COLUMNS, ROWS, main=False)
    assert Report("x", "y", parts=(facts, side, TABLE)).main_table is TABLE
    assert Report("x", "y", parts=(side, facts)).main_table == replace(side, main=True)
    with pytest.raises(HloError, match="this report has no table rows"):
        _ = Report("x", "y", parts=(Passage("p", ("",)),)).main_table


def test_arranging_changes_the_main_table_alone() -> None:
    side = Table("side", COLUMNS, ROWS, main=False)
    report = Report("x", "y", parts=(side, TABLE)).arrange(columns=["value"], sort="value")
    assert report.parts[0] is side
    assert report.main_table.selected == ("value",)
    assert [row[0] for row in report.main_table.rows] == ["a", "b", "c"]
    assert Report("x", "y").arrange() == Report("x", "y")


def test_one_table_is_chosen_by_its_name() -> None:
    facts = Facts("facts", (Fact("results"),))
    side = Table("side", COLUMNS, ROWS, main=False, person=False)
    report = Report("x", "y", parts=(facts, side, TABLE))
    assert report.only("facts", as_rows=False).parts == (facts,)
    assert report.only("facts", as_rows=True).main_table.rows == facts.as_table().rows
    (chosen,) = report.only("side", as_rows=False).parts
    assert chosen == replace(side, main=True, person=True)
    with pytest.raises(HloError, match="unknown table 'sides'") as caught:
        report.only("sides", as_rows=False)
    assert caught.value.diagnostic.hint == "did you mean 'side'?"


def test_deep_trees_have_rows_too() -> None:
    branch = Branch(("leaf",))
    for _ in range(5000):
        branch = Branch(("node",), (branch,))
    assert branch.size == 5001
    assert Tree("deep", (Column("name", "", "name"),), (branch,)).as_table().rows[-1] == (5000, "leaf")


@given(st.integers(0, 10_000))
def test_letters_are_different(part: int) -> None:
    assert letter(part) != letter(part + 1)
    assert letter(part + 26)[0] == letter(part)[0]


def test_numbers_are_written_in_one_place() -> None:
    """No other file divides bytes into units or makes hundredths of a fraction for a sentence."""
    home = {"numbers.py", "usage_report.py"}  # the latter writes as XLA's own reports do
    writes = re.compile(r"""\{[^{}]*:[.,0-9]*%\}|"KiB", *"MiB\"""")
    others = [
        f"{path.name}:{number}: {line.strip()}"
        for package in ("commands", "analysis", "transform", "report", "render", "inputs", "syntax", "ir")
        for path in sorted((PACKAGE / package).rglob("*.py"))
        if path.name not in home
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if writes.search(line)
    ]
    assert others == []


def test_the_head_of_a_column_leads_to_its_name() -> None:
    table = Table("kernels", (Column("execution_count", "executions", "count"), Column("kind", "kind")), ())
    with pytest.raises(HloError, match="unknown column 'executions'") as caught:
        table.sort("executions")
    assert caught.value.diagnostic.hint == "did you mean 'execution_count'?"
