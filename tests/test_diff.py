"""Diffs of texts: `patch` makes the new text of the old one, and every renderer shows what changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.alignment import aligned
from hlo_cli.render import html, jsonl, md, plain
from hlo_cli.render import json as json_format
from hlo_cli.render.style import Style
from hlo_cli.render.unified import unified_lines
from hlo_cli.report.diff import SIGNS, Diff, pieces_of
from hlo_cli.report.line_diff import line_diff
from hlo_cli.report.report import Report
from sample_reports import screen

texts = st.lists(
    st.sampled_from(["%a = f32[] p()", "%a = f32[8] p()", "%b = 1", "%c = 2", "}", "", "%d = 3"]), max_size=12
)


def name_of(line: str) -> str | None:
    """What a line of these tests is called."""
    name, equals, _ = line.partition(" = ")
    return name if equals else None


def diff_of(old: Sequence[str], new: Sequence[str], *, context: int = 3) -> Diff:
    """The diff of two texts by the names of their lines."""
    return line_diff("text", old, new, key=name_of, context=context)


def patched(old: Sequence[str], diff: Diff) -> list[str]:
    """The new text, as the unified format says."""
    made: list[str] = []
    at = 0
    for line in unified_lines(diff):
        if line.startswith(("--- ", "+++ ")):
            continue
        if line.startswith("@@"):
            first, count = (int(number) for number in line.split()[1].removeprefix("-").split(","))
            start = first - 1 if count else first
            made += old[at:start]
            assert int(line.split()[2].removeprefix("+").split(",")[0]) in (len(made), len(made) + 1)
            at = start
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert old[at] == line[1:]
            at += 1
            made += [line[1:]] if line.startswith(" ") else []
    return [*made, *old[at:]]


@given(texts, texts, st.integers(0, 3))
def test_the_new_text_follows_from_the_old_and_the_diff(old: list[str], new: list[str], context: int) -> None:
    diff = diff_of(old, new, context=context)
    assert patched(old, diff) == new
    assert bool(diff.hunks) == (old != new)


@given(texts, texts)
def test_every_line_is_in_the_diff_once(old: list[str], new: list[str]) -> None:
    diff = diff_of(old, new, context=99)
    for seen in (diff, diff.seen):
        lines = [line for hunk in seen.hunks for line in hunk.lines]
        numbers = [line.new_line for line in lines if line.sign in " ~+>"]
        assert numbers == (list(range(1, len(new) + 1)) if lines else [])
        olds = sorted(line.old_line or 0 for line in lines if line.sign in " ~->")
        assert olds == (list(range(1, len(old) + 1)) if lines else [])
        assert seen.unchanged == sum(line.sign == " " for line in lines) + seen.folded


@given(texts, texts, st.integers(0, 12))
def test_what_is_left_out_is_counted(old: list[str], new: list[str], most: int) -> None:
    diff = diff_of(old, new, context=1)
    assert diff.unchanged == diff_of(old, new, context=9).unchanged == diff.seen.unchanged
    assert diff.first(most).changes == min(most, diff.changes)


@given(st.text("ab{}[],0 (=\n", max_size=30), st.text("ab{}[],0 (=\n", max_size=30))
def test_pieces_are_both_lines(old: str, new: str) -> None:
    pieces = pieces_of(old, new)
    assert ("".join(piece.old for piece in pieces), "".join(piece.new for piece in pieces)) == (old, new)
    assert all(before.is_changed != after.is_changed for before, after in pairwise(pieces))


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_aligned_elements_are_equal_and_in_order(old: list[int], new: list[int]) -> None:
    pairs = aligned(old, new)
    assert all(old[at] == new[there] for at, there in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert bool(pairs) == bool(set(old) & set(new))
    assert aligned(old, old) == [(at, at) for at in range(len(old))]


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program patch")
def test_patch_reads_it(tmp_path: Path) -> None:
    random = Random(7)
    old = [f"%i.{n} = f32[{n}] add(%i.{n - 1})" for n in range(400)]
    new = [line.replace("add", "sub") if random.random() < 0.1 else line for line in old if random.random() > 0.05]
    new[200:200] = new[20:30]
    del new[20:30]
    (tmp_path / "old").write_text("".join(f"{line}\n" for line in old))
    diff = "".join(f"{line}\n" for line in unified_lines(diff_of(old, new)))
    subprocess.run(["patch", "-s", "old"], input=diff, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "old").read_text().splitlines() == new


def test_the_time_is_that_of_sorting() -> None:
    def seconds(count: int) -> float:
        old = [f"%i.{n} = f32[{n % 7}] add(%i.{n - 1})" if n % 5 else "}" for n in range(count)]
        new = [line if n % 3 else f"{line} x" for n, line in enumerate(reversed(old))]
        start = perf_counter()
        assert diff_of(old, new).changes
        return perf_counter() - start

    small = min(seconds(2_000) for _ in range(3))
    assert seconds(32_000) < 16 * 6 * max(small, 0.005)


def test_names_keep_changed_lines_together() -> None:
    old = [f"  %i.{n} = f32[8]{{0}} copy(%p)" for n in range(50)]
    diff = diff_of(old, [line.replace("{0}", "{0:T(128)}") for line in old])
    assert diff.counts == {"changed": 50, "added": 0, "removed": 0, "moved": 0}
    only = diff.hunks[0].lines[7].pieces
    assert [(piece.old, piece.new) for piece in only if piece.is_changed] == [("0", "0:T(128)")]


OLD = ["HloModule m", "", "ENTRY %main {", *(f"  %i.{n} = f32[8]{{0}} copy(%p), meta=<{n}>" for n in range(30)), "}"]
NEW = [*OLD[:6], "  %new = f32[8]{0} copy(%p)", *OLD[8:20], OLD[20].replace("{0}", "{0:T(128)}"), *OLD[21:], OLD[7]]
DIFF = line_diff("text", OLD, NEW, key=name_of, heading=lambda line: "main" if line.endswith("{") else None)
REPORT = Report("diff", "4 lines differ", parts=(DIFF,))


def test_a_screen_shows_signs_numbers_and_what_is_left_out() -> None:
    assert screen(REPORT) == (
        "4 lines differ\n"
        "\n"
        "main\n"
        "       … 5 lines\n"
        " 6     %i.2 = f32[8]{0} copy(%p), meta=<2>\n"
        " 7 -   %i.3 = f32[8]{0} copy(%p), meta=<3>\n"
        " 7 +   %new = f32[8]{0} copy(%p)\n"
        " 8     %i.5 = f32[8]{0} copy(%p), meta=<5>\n"
        "       … 10 lines\n"
        "19     %i.16 = f32[8]{0} copy(%p), meta=<16>\n"
        "20 ~   %i.17 = f32[8]{0 → 0:T(128)} copy(%p), meta=<17>\n"
        "21     %i.18 = f32[8]{0} copy(%p), meta=<18>\n"
        "       … 11 lines\n"
        "33   }\n"
        "34 >   %i.4 = f32[8]{0} copy(%p), meta=<4>  from line 8\n"
        "~ 1 changed · + 1 added · - 1 removed · > 1 moved\n"
    )


def test_long_blocks_are_folded() -> None:
    shown = screen(Report("diff", "", parts=(line_diff("text", ["a"], [*map(str, range(99)), "a"]),)))
    assert shown == (
        "  1 + 0\n  2 + 1\n  3 + 2\n        … 96 more added\n100   a\n"
        "3 of 99 changed lines · --top 0 shows all · + 99 added\n"
    )


def test_a_screen_counts_what_it_does_not_show() -> None:
    shown = screen(REPORT, Style(top=2, ascii=True))
    assert "2 of 4 changed lines, --top 0 shows all, ~ 1 changed" in shown
    assert "%i.17" not in shown


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_changes_are_seen_however_narrow_the_screen(width: int) -> None:
    old = f"  %a = f32[8]{{0}} custom-call(%p), config={'x' * 300}, y=1, metadata={'z' * 300}"
    shown = screen(Report("diff", "", parts=(diff_of([old], [old.replace("y=1", "y=2")]),)), Style(width=width))
    assert max(map(len, shown.splitlines()[:1])) <= width
    assert width < 80 or "y=1 → 2" in shown


def test_a_pipe_gets_what_patch_reads() -> None:
    lines = "".join(plain.render(REPORT, Style())).splitlines()
    assert lines[:2] == ["--- old", "+++ new"]
    assert patched(OLD, DIFF) == NEW
    assert list(plain.render(Report("diff", "No difference", parts=(diff_of(OLD, OLD),)), Style())) == [
        "No difference\n"
    ]


def test_markdown_has_a_block_of_it() -> None:
    text = "".join(md.render(REPORT, Style()))
    assert "```diff\n--- old\n+++ new\n@@ -4,8 +4,7 @@ main\n" in text


def test_json_has_every_change() -> None:
    found = json.loads("".join(json_format.render(REPORT, Style())))["diffs"]["text"]
    lines = [line for hunk in found["hunks"] for line in hunk["lines"]]
    assert [line["change"] for line in lines if line["change"]] == ["-", "+", "~", ">"]
    assert (found["changed"], found["unchanged"]) == (1, len(OLD) - 3)
    assert next(line for line in lines if line["change"] == "~")["pieces"] == [{"old": "0", "new": "0:T(128)"}]
    rows = [json.loads(line) for line in jsonl.render(REPORT, Style())]
    assert [(row["change"], row["old_line"], row["new_line"]) for row in rows] == [
        ("-", 7, None), ("+", None, 7), ("~", 21, 20), (">", 8, 34),
    ]  # fmt: skip


def test_a_page_says_what_went_and_what_came() -> None:
    page = "".join(html.render(REPORT, Style()))
    assert "{<del>0</del><ins>0:T(128)</ins>} copy(%p), meta=&lt;17&gt;" in page
    HTMLParser().feed(page)


def test_no_text_acts_on_a_terminal() -> None:
    report = Report("diff", "", parts=(diff_of(["\x1b[31m"], ["\x1b[32m x", "\x07"]),))
    for written in (screen(report), "".join(plain.render(report, Style())), "".join(md.render(report, Style()))):
        assert "\x1b" not in written
        assert "\x07" not in written


def test_signs_are_those_of_the_screens() -> None:
    assert "".join(SIGNS) == "~+->"
