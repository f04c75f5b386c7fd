"""The laws of rendering: they hold for every report, width and kind of reader."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.cli import main
from hlo_cli.render import formats, registry
from hlo_cli.render.draw.diagnostics import render_diagnostics
from hlo_cli.render.formats.screen import render_screen, screen_lines
from hlo_cli.render.registry import FORMATS, Format, format_names, renderer
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.figure import Anatomy, Explanation, Figure, Segment, fixed
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Amount, Branch, Cell, Column, Fact, Facts, Loop, Table, Tree, Unit
from hlo_cli.report.text import Passage, plain_text
from hlo_cli.report.timeline import Band, Mark, Timeline, Track
from hlo_cli.source import Diagnostic, HloError
from sample_reports import DRAWING, LAYOUT, REPORTS, screen


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.answer[:12])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_ever_wider_than_the_screen(report: Report, ascii_only: bool) -> None:
    for width in range(40 + len(report.answer) % 3, 251, 3):  # a third, another one for each report
        for line in screen(replace(report, next=()), Style(width=width, ascii=ascii_only)).splitlines():
            assert cell_width(line) <= width, (width, line)
            assert line == line.rstrip()
            assert line.isascii() or not ascii_only


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("format_name", ["screen", "md", "html"])
def test_a_next_command_is_one_line_at_any_width(format_name: str, width: int) -> None:
    commands = (f"hlo memspace '{'dump/' * 60}' --value 'x y' --limit 2MiB", "hlo parse 'a b' --tree")
    report = Report("memspace", "It fits", parts=(Table("t", (Column("n", "n"),), ((1,),)),), next=commands)
    lines = "".join(renderer(format_name, person=True)(report, Style(width=width))).splitlines()
    for command in commands:
        (line,) = (line for line in map(unescape, lines) if command in line)
        before, _, after = line.partition(command)
        assert before in (
            "",
            "next: ",
            "      ",
            '<pre class="quiet" tabindex="0" role="group" aria-label="Next commands">next: ',
        )
        assert after in ("", "</pre>")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_command_in_a_hint_is_on_one_line(width: int) -> None:
    command = f"hlo fuse {'dump/' * 30} --why-not 'a b' --top 0"
    for hint in (command, f"run `{command}` to list all pairs, or use `--top 0`"):
        text = "".join(render_diagnostics([Diagnostic("error", "unknown pair 'x'", hint=hint)], Style(width=width)))
        assert sum(command in line for line in text.splitlines()) == 1


@pytest.mark.parametrize("width", range(40, 251, 7))
def test_columns_stand_under_each_other(width: int) -> None:
    lines = [plain_text(line) for line in screen_lines(replace(LAYOUT, parts=LAYOUT.parts[:1], next=()), Style(width))]
    rule = next(line for line in lines if line.startswith("─"))
    footer = next(at for at, line in enumerate(lines) if line.startswith("Showing"))
    table = lines[lines.index(rule) - 2 : footer]
    gaps = [at for at, glyph in enumerate(rule) if glyph == " "]
    for line in table:
        assert all(line[at] == " " for at in gaps if at < len(line)), line
    assert all(line[rule.index("  ", 4) - 1] not in " …" for line in table[3:]), "numbers end at the edge"


def test_numbers_and_the_sorted_column_stay_when_it_gets_narrow() -> None:
    header = screen(LAYOUT, Style(width=40)).splitlines()
    table = next(line for line in header if "KiB" in line and "shape" in line)
    assert table.split() == ["n", "KiB", "%", "KiB", "shape"]


units: st.SearchStrategy[Unit] = st.sampled_from(get_args(Unit))
texts = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("(){}[],./…·層\x1b\t\n")), max_size=60)
values: st.SearchStrategy[Cell] = st.one_of(
    st.none(), st.just(UNKNOWN), st.integers(-(10**15), 10**15), st.floats(-1e12, 1e12), st.booleans(), texts,
    st.tuples(st.integers(), st.integers()), st.just(float("nan")),
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> Table:
    totals: list[None] = [None]
    columns = tuple(
        Column(
            f"c{at}", draw(st.text(max_size=12)), draw(units), rank=draw(st.integers(1, 9)),
            total=draw(st.sampled_from([*totals, "sum"])), inline=draw(st.booleans()),
            group=draw(st.sampled_from(["", "group"])),
        )
        for at in range(draw(st.integers(1, 6)))
    )  # fmt: skip
    rows = draw(st.lists(st.tuples(*(values for _ in columns)), max_size=6))
    return Table(
        "t", columns, tuple(rows), title=draw(texts), noun=draw(st.text(max_size=8)), limit=draw(st.integers(1, 4))
    )


def test_spans_are_no_labels_and_have_no_sum() -> None:
    columns = (Column("n", "n", "count", total="sum"), Column("when", "step", "span", total="sum", steps=9))
    table = Table("t", columns, ((1, (0, 3, True)), (2, (4, 8, False))))
    assert table.label_index(range(2)) is None
    assert table.total_of(table.rows) == (3, None)


@given(tables(), texts, st.integers(40, 250), st.booleans())
def test_whatever_a_table_holds_it_fits_and_harms_nothing(
    table: Table, answer: str, width: int, ascii_only: bool
) -> None:
    report = Report("x", answer, parts=(table, Passage("p", (answer,))))
    for line in render_screen(report, Style(width=width, ascii=ascii_only)):
        assert line.endswith("\n")
        assert cell_width(line[:-1]) <= width
        assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in line[:-1])
        assert line.isascii() or not ascii_only


def test_a_table_of_pages_alone_is_drawn() -> None:
    """The page of a row is a link of its name, and has no column of its own but where there is nothing else."""
    table = Table("t", (Column("p", "p", "page"),), ((None,), ("a.html",)))
    for format_name in format_names():
        if format_name != "svg":
            assert "".join(renderer(format_name, person=True)(Report("x", "y", parts=(table,)), Style()))


@given(tables(), texts)
def test_no_format_lets_control_characters_through(table: Table, text: str) -> None:
    tree = Tree("tree", table.columns, tuple(Branch(row) for row in table.rows))
    facts = Facts("facts", (Fact(text, (Amount("count", 3),), text),))
    anatomy = Anatomy("anatomy", (Segment(text, 0),), (Explanation(0, text, text, text),))
    band = Band(text, 0, 1, 8, kind=text, shape=text, op_name=text, source=text)
    track = Track(text, (8, 8), (band,), marks=(Mark(1, text),))
    timeline = Timeline("timeline", (track,), (Loop(text, 0, 1, 3),), instructions=(text, text), title=text)
    parts = (table, tree, facts, anatomy, Figure("figure", fixed(text)), Passage("words", (text,)), timeline)
    report = Report("x", text, parts=parts, next=(text,), input={"path": text})
    for format_name in format_names():
        for person in (True, False):
            written = "".join(renderer(format_name, person=person)(report, Style()))
            assert "\x1b" not in written
            assert not any(
                unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in written if each not in "\n\t"
            )


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.answer[:12])
@pytest.mark.parametrize("format_name", format_names())
def test_the_same_report_is_always_the_same_bytes(report: Report, format_name: str) -> None:
    if (report is DRAWING and format_name in ("csv", "tsv", "jsonl")) or (
        report is not DRAWING and format_name == "svg"
    ):
        with pytest.raises(HloError, match=r"no table rows|no figure"):
            list(renderer(format_name, person=False)(report, Style()))
        return
    widths = (40, 200) if format_name != "screen" else (80, 80)
    assert len({"".join(renderer(format_name, person=False)(report, Style(width=width))) for width in widths}) == 1


def test_every_file_of_formats_is_registered() -> None:
    folder = Path(formats.__file__).parent
    files = {f"{formats.__name__}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert {each.module for each in FORMATS} == files
    for each in FORMATS:
        assert callable(each.render)


def test_a_format_is_one_row_and_one_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def render(report: Report, style: Style) -> Iterator[str]:
        yield f"- {report.answer}\n"

    module = ModuleType("hlo_cli.render.formats.yaml")
    monkeypatch.setattr(module, "render_yaml", render, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "FORMATS", (*FORMATS, Format("yaml", "data", "yaml")))
    assert registry.format_of("report.yaml") == "yaml"
    assert registry.format_names()[-2:] == ("svg", "yaml")
    done = main(["layout", "f32[3]", "-o", str(tmp_path / "report.yaml")], standalone=False)
    assert done == 0
    assert (tmp_path / "report.yaml").read_text().startswith("- ")
