"""Timelines: what machines and screens get is what the numbers say, whatever they and the names are."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.render.draw.charts import CHART_ROWS, EIGHTHS, Axis, first_step, loop_levels
from hlo_cli.render.registry import renderer
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Column, Loop, Table
from hlo_cli.report.timeline import Band, Mark, Timeline, Track, changes_of, totals_of
from sample_reports import screen
from strategies import seeds

HOSTILE = "<script>alert('&\")</script>]]>\x1b[31m\x00\n層\u202e\ud800"


def a_timeline(random: Random, *, names: str = "fusion.1", most_steps: int = 300) -> Timeline:
    """Any number of steps, buffers of any sizes and lives, loops within and across each other."""
    steps = random.randrange(1, random.choice((2, 40, most_steps)))
    largest = 2 ** random.randrange(1, 50)
    bands = tuple(
        Band(f"{names}{at}", start, random.randrange(start, steps), random.randrange(largest), kind=names, source=names)
        for at in range(random.randrange(40))
        for start in [random.randrange(steps)]
    )
    totals = totals_of(bands, steps)
    if random.random() < 0.5:
        totals = tuple(total + random.randrange(largest) for total in totals)
    loops = tuple(
        Loop(names, start, random.randrange(start, steps), random.choice((None, UNKNOWN, 32)))
        for _ in range(random.randrange(6))
        for start in [random.randrange(steps)]
    )
    limit = random.choice((None, random.randrange(1, 3 * (max(totals) + 1))))
    marks = tuple(Mark(random.randrange(steps), names) for _ in range(random.randrange(3)))
    tracks = [Track(names, totals, bands, limit_bytes=limit, marks=marks)]
    tracks += [Track("VMEM", tuple(total // 3 for total in totals))] * random.randrange(2)
    return Timeline("timeline", tuple(tracks), loops, instructions=[names] * random.randrange(steps + 1), title=names)


def one(*parts: Part) -> Report:
    return Report("memspace", "It fits", parts=parts)


def written(report: Report, format_name: str, style: Style = Style()) -> str:  # noqa: B008
    return "".join(renderer(format_name, person=False)(report, style))


# The numbers


@given(seeds)
def test_totals_and_changes_are_those_of_every_step(seed: int) -> None:
    timeline = a_timeline(Random(seed))
    bands = timeline.tracks[0].bands
    totals = totals_of(bands, timeline.steps)
    assert totals == tuple(
        sum(band.bytes for band in bands if band.start <= step <= band.end) for step in range(timeline.steps)
    )
    changes = dict(changes_of(totals))
    again: list[int] = []
    for step in range(timeline.steps):
        again.append(changes.get(step, again[-1] if again else -1))
    assert tuple(again) == totals
    assert len(changes) == 1 + sum(before != after for before, after in pairwise(totals))


@given(seeds)
def test_machines_get_every_buffer_and_every_total(seed: int) -> None:
    timeline = a_timeline(Random(seed))
    read = json.loads(written(one(timeline), "json"))
    data = read["timelines"]["timeline"]
    assert data["steps"] == timeline.steps
    assert [loop["trip_count"] for loop in data["loops"]] == [
        None if loop.trips is UNKNOWN else loop.trips for loop in timeline.loops
    ]
    for track, found in zip(timeline.tracks, data["tracks"], strict=True):
        assert found["totals"] == [list(change) for change in changes_of(track.totals)]
        assert found["peak_bytes"] == max(track.totals)
        assert found["peak_step"] is None or track.totals[found["peak_step"]] == max(track.totals)
    rows = read["tables"].get("timeline", {"rows": []})["rows"]
    bands = [band for track in timeline.tracks for band in track.bands]
    assert [(row["value"], row["start"], row["end"], row["bytes"]) for row in rows] == [
        (band.label, band.start, band.end, band.bytes) for band in bands
    ]


@given(st.integers(1, 500), st.integers(1, 500))
def test_every_step_is_in_one_column(steps: int, columns: int) -> None:
    columns = min(steps, columns)
    axis = Axis(0, columns, steps)
    bounds = [first_step(column, columns, steps) for column in range(columns + 1)]
    assert [axis.cell(step) for step in range(steps)] == [
        column for column in range(columns) for _ in range(bounds[column], bounds[column + 1])
    ]
    assert len(set(bounds)) == columns + 1


# On a screen


def chart_of(track: Track, style: Style) -> tuple[list[str], int]:
    """The rows of a chart, the lowest first, from the axis on; and the cell in which the first column stands."""
    lines = screen(one(Timeline("t", (track,))), style).splitlines()
    rows = [line for line in lines if "┤" in line]
    margin = rows[0].index("┤") + 1
    return [row[margin:] for row in reversed(rows)], margin


def axis_of(track: Track, style: Style) -> Axis:
    """Where the columns of a chart stand, as its lowest line has it."""
    lines = screen(one(Timeline("t", (track,))), style).splitlines()
    rule = next(line for line in lines if "└" in line)
    return Axis(rule.index("└") + 1, len(rule) - rule.index("└") - 1, len(track.totals))


def near_limit(track: Track) -> int:
    """The limit if it is in the picture, else nothing."""
    limit = track.limit_bytes or 0
    return limit if limit <= 2 * max(track.totals) else 0


def height_of(rows: list[str], column: int) -> int:
    """How many eighths of a row a column is high; it has no holes."""
    glyphs = [row[column] if column < len(row) else " " for row in rows]
    glyphs = [" " if glyph == "─" or glyph in " limt" else glyph for glyph in glyphs]
    heights = [EIGHTHS.index(glyph) for glyph in glyphs]
    assert all(below == 8 or not above for below, above in pairwise(heights))
    return sum(heights)


@given(seeds, st.integers(40, 200))
def test_columns_are_as_high_as_the_largest_of_their_steps(seed: int, width: int) -> None:
    track = a_timeline(Random(seed), most_steps=1000).tracks[0]
    rows, _ = chart_of(track, Style(width))
    peak = max(track.totals)
    if not peak:
        assert rows == [""]
        return
    top = max(peak, near_limit(track))
    columns = axis_of(track, Style(width)).columns
    assert columns == len(track.totals) or width - columns < 20, "a column for each step, else all the room"
    for column in range(columns):
        start, end = first_step(column, columns, len(track.totals)), first_step(column + 1, columns, len(track.totals))
        value = max(track.totals[start:end])
        height = height_of(rows, column)
        assert (height > 0) == (value > 0)
        assert abs(height * top - value * CHART_ROWS * 8) <= (top / 2 if value * CHART_ROWS * 16 >= top else top)


@given(seeds, st.integers(40, 200))
def test_the_peak_is_below_its_mark(seed: int, width: int) -> None:
    track = a_timeline(Random(seed), most_steps=1000).tracks[0]
    track = Track("HBM", track.totals)
    rows, margin = chart_of(track, Style(width))
    lines = screen(one(Timeline("t", (track,))), Style(width)).splitlines()
    pointed = next((line.index("▼") for line in lines if "▼" in line), None)
    if not max(track.totals):
        assert pointed is None
        return
    axis = axis_of(track, Style(width))
    assert pointed == axis.cell(track.totals.index(max(track.totals)))
    assert axis.margin == margin
    assert [row[pointed - margin] for row in rows] == ["█"] * CHART_ROWS


@given(seeds, st.integers(20, 200), st.booleans(), st.sampled_from(["fusion.1", "層" * 30, HOSTILE]))
def test_no_line_is_wider_than_the_screen(seed: int, width: int, ascii_only: bool, names: str) -> None:
    timeline = a_timeline(Random(seed), names=names)
    for line in screen(one(timeline), Style(width, ascii=ascii_only)).splitlines():
        assert cell_width(line) <= width
        assert line == line.rstrip()
        assert line.isascii() or not ascii_only
        assert line.isprintable()


@given(seeds, st.integers(20, 120), st.sampled_from(["at", "fusion.1" * 30, HOSTILE]))
def test_every_mark_is_seen(seed: int, width: int, label: str) -> None:
    random = Random(seed)
    steps = random.randrange(1, 200)
    marks = tuple(Mark(random.randrange(steps), label) for _ in range(random.randrange(5)))
    lines = screen(one(Timeline("t", (Track("HBM", (7,) * steps, marks=marks),))), Style(width))
    assert lines.count("▼") == 1 + len(marks)


@given(seeds)
def test_ascii_stands_in_the_same_columns(seed: int) -> None:
    timeline = Timeline("t", a_timeline(Random(seed)).tracks)
    pairs = zip(
        screen(one(timeline), Style(90)).splitlines(),
        screen(one(timeline), Style(90, ascii=True)).splitlines(),
        strict=True,
    )
    for drawn, ascii_drawn in pairs:
        if "┤" in drawn:
            low = "-" if "limit" in drawn else " "
            expected = re.sub("[▄▅▆▇█]", "#", re.sub("[▁▂▃]", low, drawn)).replace("┤", "+").replace("─", "-")
            assert ascii_drawn == expected.rstrip()


def test_the_chart_of_the_design() -> None:
    kib = [0, *[97] * 6, 200, 250, *[97] * 5, 640, 720, 800, 3594, 2980, 3100, 3290, 3270, *[800] * 5, 2800, 2870]
    totals = tuple(1024 * each for each in kib)
    loops = (Loop("while.10", 4, 21, 32), Loop("while.3", 5, 8, UNKNOWN))
    assert (
        screen(one(Timeline("t", (Track("VMEM", totals),), loops)))
        == """\
It fits

MiB                   ▼ peak
3.5 ┤                 █▁▃▅▄
2.8 ┤                 █████     ▇█
2.1 ┤                 █████     ██
1.4 ┤                ▁█████▁▁▁▁▁██
0.7 ┤ ▁▁▁▁▁▁▂▃▁▁▁▁▁▇██████████████
    └┬─────────┬─────────┬────────
     0        10        20 of 29
         └ while.10 × 32 ─┘
          └──┘ while.3 × ?
"""
    )


def test_a_limit_is_a_line_where_it_is_near() -> None:
    def chart(limit: int) -> str:
        return screen(one(Timeline("t", (Track("HBM", (2, 8, 4, 9), limit_bytes=limit),))), Style(40))

    assert (
        chart(10)
        == """\
It fits

 B     ▼ peak
10 ┤───▄ limit
 8 ┤ █ █
 6 ┤ █ █
 4 ┤ ███
 2 ┤████
   └┬───
    0 of 4
"""
    )
    assert "\n7 ┤─█─█ limit\n" in chart(6)
    assert "limit" not in chart(19)


@given(seeds)
def test_loops_are_bracketed_or_counted(seed: int) -> None:
    random = Random(seed)
    steps = random.randrange(1, 60)
    loops, at = [], 0
    while at < steps:
        end = min(at + random.randrange(1, 20), steps - 1)
        loops.append(Loop(f"while.{at}", at, end, 3))
        at = end + 1 + random.randrange(3)
    lines = screen(one(Timeline("t", (Track("HBM", (1,) * steps),), tuple(loops)))).splitlines()
    axis = next(at for at, line in enumerate(lines) if "└" in line)
    margin = lines[axis].index("└") + 1
    brackets = lines[axis + 2]
    for loop in loops:
        start, end = margin + loop.start, margin + loop.end
        assert (brackets[start], brackets[end]) == (("└", "┘") if end > start else ("│", "│"))
    assert len(lines) == axis + 3


@given(seeds)
def test_a_loop_is_below_those_it_lies_in_and_beside_none(seed: int) -> None:
    timeline = a_timeline(Random(seed))
    levels = loop_levels(timeline.loops, timeline.steps)
    assert sum(map(len, levels)) == len(timeline.loops)
    for depth, level in enumerate(levels):
        for before, after in pairwise(level):
            assert before.end < after.start
        for loop in level:
            for below in levels[:depth]:
                assert not any(loop.start <= other.start and other.end < loop.end for other in below)


@pytest.mark.parametrize(
    "totals", [(0,), (0, 0, 0), (7,), (2**70, 1), (5,) * 10**6], ids=["0", "000", "7", "2**70", "flat"]
)
def test_odd_totals_are_drawn_in_every_format(totals: tuple[int, ...]) -> None:
    report = one(Timeline("t", (Track("HBM", totals),)))
    for format_name in ("screen", "svg", "html", "md", "json"):
        assert written(report, format_name)
    assert ("▼" in screen(report)) == any(totals)


def test_nothing_is_drawn_of_no_steps() -> None:
    assert screen(one(Timeline("t", (Track("HBM", ()),), (Loop("while", 0, 3),)))) == "It fits\n\n"


@given(seeds, st.integers(60, 200))
def test_bars_stand_over_their_steps(seed: int, width: int) -> None:
    random = Random(seed)
    steps = random.randrange(1, 400)
    spans = [
        (start, random.randrange(start, steps), random.random() < 0.5)
        for start in (random.randrange(steps) for _ in range(9))
    ]
    columns = (Column("name", "pair", "name"), Column("span", "step", "span", steps=steps))
    table = Table("pairs", columns, tuple((f"all-reduce.{at}", span) for at, span in enumerate(spans)))
    lines = screen(one(table), Style(width)).splitlines()
    rule = next(at for at, line in enumerate(lines) if "─" in line)
    margin = lines[rule].index("  ") + 2
    drawn = len(lines[rule]) - margin
    axis = Axis(margin, min(drawn, steps), steps)
    assert drawn >= min(steps, width - margin)
    for line, (start, end, is_busy) in zip(lines[rule + 1 :], spans, strict=True):
        bar = "━" * (axis.cell(end) - axis.cell(start) + 1) if is_busy else "│"
        assert line[margin:] == " " * (axis.cell(start) - margin) + bar


def test_pairs_in_a_schedule_as_the_design_has_them() -> None:
    columns = (
        Column("start", "start", "step"), Column("done", "done", "step"),
        Column("name", "all-reduce-start", "name"), Column("span", "step", "span", steps=285, machine=False),
    )  # fmt: skip
    pairs = (("", 6, 7, False), (".3", 65, 68, True), (".6", 198, 249, True), (".7", 284, 284, False))
    rows = tuple((start, end, f"all-reduce-start{name}", (start, end, busy)) for name, start, end, busy in pairs)
    assert (
        screen(one(Table("pairs", columns, rows)), Style(70))
        == """\
It fits

start  done  all-reduce-start    0              step               284
─────  ────  ──────────────────  ─────────────────────────────────────
    6     7  all-reduce-start    │
   65    68  all-reduce-start.3          ━
  198   249  all-reduce-start.6                           ━━━━━━━━
  284   284  all-reduce-start.7                                      │
"""
    )


def test_kinds_of_measured_events_are_text_in_the_legend() -> None:
    """Names and kinds are those of a trace: nothing in them becomes markup, wherever they are drawn."""
    columns = (
        Column("instruction", "instruction", "name"),
        Column("category", "category"),
        Column("lane", "line", is_lane=True),
        Column("span", "time", "span", steps=100, seconds=1e-3, is_measured=True),
    )
    rows = (
        (HOSTILE, HOSTILE, HOSTILE, (0, 50, True)),
        ("b", None, HOSTILE, (60, 70, True)),
        (HOSTILE, None, "c", (0, 9, True)),
    )
    for form in ("html", "svg"):
        text = written(one(Table("timeline", columns, rows)), form)
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "alert(" in text


def test_every_color_of_measured_events_is_in_the_legend_of_a_small_screen() -> None:
    """In as many lines as that takes: the colors of bars that are not explained say nothing."""
    columns = (
        Column("instruction", "instruction", "name"),
        Column("category", "category"),
        Column("lane", "line", is_lane=True),
        Column("span", "time", "span", steps=100, seconds=1e-3, is_measured=True),
    )
    kinds = [f"kind of fusion {at:02}" for at in range(13)]
    rows = tuple((f"i.{at}", kind, "CPU:0", (at * 7, at * 7 + 6, True)) for at, kind in enumerate(kinds))
    narrow = written(one(Table("timeline", columns, rows)), "html").split('class="hlo narrow"')[1]
    legend = re.findall(r'<rect class="(\w+)"[^>]* y="([\d.]+)" width="11" height="11"/>\s*<text[^>]*>([^<]*)', narrow)
    assert [words for _, _, words in legend] == [*kinds[:10], "other"]
    assert len({looks for looks, _, _ in legend}) == len(legend)
    assert len({y for _, y, _ in legend}) > 3
    bars = re.findall(r'<rect class="\w+"[^>]* y="([\d.]+)"(?! width="11" height="11")', narrow)
    assert max(float(y) for _, y, _ in legend) < min(map(float, bars))
