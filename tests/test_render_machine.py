"""Formats for machines: what goes in comes out, raw and whole."""

from __future__ import annotations

import csv
import io
import json
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.render.registry import format_names, renderer
from hlo_cli.render.style import Style
from hlo_cli.report.figure import Figure, fixed
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Branch, Cell, Column, LazyRows, Table, Tree
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError, Source, Span

COLUMNS = (
    Column("value", "value", "name"),
    Column("padded_bytes", "padded", "bytes"),
    Column("padding", "pad", "percent", machine=False),
    Column("index", "index", "index"),
    Column("shape", "shape", "shape"),
)

LONG = "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)S(1)}" * 4
TABLE = Table(
    "values",
    COLUMNS,
    (("fusion.2", 2883584, 0.97, (2, 3), LONG), ("add|1", None, UNKNOWN, (), "s32[]"), ("c", UNKNOWN, None, None, "")),
    title="VMEM at step 17",
    limit=1,
)


def written(report: Report, format_name: str, style: Style = Style()) -> str:  # noqa: B008
    return "".join(renderer(format_name, person=False)(report, style))


def one(*parts: Table | Tree | Figure | Passage) -> Report:
    return Report("memspace", "It fits", parts=parts, next=("hlo parse x",))


plain_text = st.text(st.characters(exclude_categories=["C", "Z", "M"], include_characters=" ,\"'|"), max_size=20)
rows = st.lists(st.tuples(plain_text, st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))))


@given(rows)
def test_csv_reads_back_as_the_raw_rows(raw: list[tuple[str, float]]) -> None:
    table = Table("t", (Column("a", "A", "text"), Column("b", "B", "bytes")), tuple(raw))
    header, *records = csv.reader(io.StringIO(written(one(table), "csv")))
    assert header == ["a", "b"]
    assert records == [[text, str(number)] for text, number in raw]


@given(rows)
def test_tabs_and_lines_separate_fields_and_records(raw: list[tuple[str, float]]) -> None:
    table = Table("t", (Column("a", "A", "text"), Column("b", "B", "bytes")), tuple(raw))
    for format_name in ("tsv", "table"):
        header, *records = written(one(table), format_name).split("\n")[:-1]
        assert header.lstrip("#") == "a\tb"
        assert [record.split("\t") for record in records] == [[text, str(number)] for text, number in raw]


@given(st.lists(st.tuples(st.text(), st.one_of(st.none(), st.integers(), st.booleans(), st.text()))))
def test_json_reads_back_as_the_raw_rows(raw: list[tuple[str, Cell]]) -> None:
    table = Table("t", (Column("a", "A", "text"), Column("b", "B", "text")), tuple(raw))
    expected = [{"a": text, "b": value} for text, value in raw]
    assert json.loads(written(one(table), "json"))["tables"]["t"]["rows"] == expected
    assert [json.loads(line) for line in written(one(table), "jsonl").splitlines()] == expected


def test_the_envelope_of_json() -> None:
    note = Diagnostic("note", "stage taken", Source("a.txt", "HloModule a\nx"), Span(12, 13), code="stage")
    report = Report(
        "memspace", "It fits", version=3, numbers={"peak_bytes": 3, "limit_bytes": UNKNOWN},
        parts=(TABLE, Figure("chart", fixed("▁▂"), data={"steps": (1, 2)}), Passage("advice", ("none",))),
        notes=(note,), input={"path": "a.txt", "stage": None},
    )  # fmt: skip
    read = json.loads(written(report, "json"))
    assert list(read) == ["schema", "input", "answer", "tables", "figures", "text", "notes"]
    assert read["schema"] == "hlo.memspace/3"
    assert read["input"] == {"path": "a.txt", "stage": None}
    assert read["answer"] == {"peak_bytes": 3, "limit_bytes": None}
    assert read["tables"]["values"]["columns"][1] == {"name": "padded_bytes", "unit": "bytes"}
    assert read["tables"]["values"]["rows"] == [
        {"value": "fusion.2", "padded_bytes": 2883584, "index": [2, 3], "shape": LONG},
        {"value": "add|1", "padded_bytes": None, "index": [], "shape": "s32[]"},
        {"value": "c", "padded_bytes": None, "index": None, "shape": ""},
    ]
    assert read["figures"] == {"chart": {"steps": [1, 2]}}
    assert read["notes"] == [
        {"severity": "note", "message": "stage taken", "code": "stage", "path": "a.txt", "line": 2, "column": 1}
        | {"end_line": 2, "end_column": 2}
    ]


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    table = Table("t", (Column("a", "A", "ratio"),), ((float("nan"),), (float("inf"),), ({"deep": (float("-inf"),)},)))
    rows_read = json.loads(written(one(table), "json"))["tables"]["t"]["rows"]
    assert rows_read == [{"a": None}, {"a": None}, {"a": {"deep": [None]}}]


def test_a_pipe_gets_records_and_nothing_else() -> None:
    chart = Figure("chart", fixed("▁▂"))
    assert written(one(TABLE, chart, Passage("advice", ("none",))), "table", Style(width=40)) == (
        f"#value\tpadded_bytes\tindex\tshape\nfusion.2\t2883584\t2,3\t{LONG}\nadd|1\t-\t\ts32[]\nc\t?\t-\t\n"
    )
    assert written(one(chart), "table") == "▁▂\n"
    assert written(Report("diff", "No difference"), "table") == "No difference\n"


def test_a_pipe_gets_the_rows_of_the_main_table_alone() -> None:
    tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    side = Table("spaces", (Column("space", "space"),), (("HBM",), ("VMEM",)), main=False)
    assert written(one(side, tree), "table", Style(top=1)) == "#depth\tname\n0\tmain\n"
    chosen = one(side, tree).only("spaces", as_rows=True)
    assert written(chosen, "table") == "#space\nHBM\nVMEM\n"
    assert written(chosen, "table", Style(top=1)) == "#space\nHBM\n"


@pytest.mark.parametrize("name", ["table", "csv", "tsv"])
def test_the_header_can_be_left_out(name: str) -> None:
    whole = written(one(TABLE), name)
    assert written(one(TABLE), name, Style(header=False)) == whole.partition("\n")[2]


def test_the_limit_for_people_is_not_for_machines() -> None:
    for format_name in set(format_names()) - {"screen", "svg"}:
        assert "s32[]" in written(one(TABLE), format_name)
        assert "s32[]" not in written(one(TABLE), format_name, Style(top=1))


def test_selected_columns_are_all_that_is_written() -> None:
    report = one(TABLE).arrange(columns=["padding", "value"])
    assert written(report, "csv") == "padding,value\n0.97,fusion.2\n?,add|1\n,c\n"


def test_markdown_is_whole_and_its_tables_hold_together() -> None:
    text = written(one(TABLE, Figure("chart", fixed("```", "▁▂"))), "md", Style(width=40))
    assert "| value | padded (KiB) | pad (%) | index | shape |\n" in text
    assert f"| `fusion.2` | 2,816 | 97 | (2,3) | `{LONG}` |\n" in text
    assert "| `add\\|1` | - | ? | () | `s32[]` |\n" in text
    assert "````text\n```\n▁▂\n````\n" in text
    assert text.startswith("**It fits**\n\nVMEM at step 17\n\n| ")
    assert text.endswith("\nNext:\n\n```sh\nhlo parse x\n```\n")


def test_unknown_formats_are_errors() -> None:
    with pytest.raises(HloError, match="unknown format 'jsonn'") as caught:
        renderer("jsonn", person=True)
    assert caught.value.diagnostic.hint == "did you mean 'json'?"


@pytest.mark.parametrize("name", ["table", "json", "jsonl", "csv", "tsv"])
def test_rows_are_written_as_they_are_made(name: str) -> None:
    rows = LazyRows(10**12, lambda: ((n,) for n in count()))
    report = Report("tile-index", "many", parts=(Table("slots", (Column("slot", "slot", "count"),), rows),))
    begun = list(islice(renderer(name, person=False)(report, Style()), 30))
    assert any("7" in chunk for chunk in begun)
