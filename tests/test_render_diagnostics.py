"""Errors on standard error: the worked screens, carets that point at what is meant, and bounds on everything."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.render.draw.diagnostics import render_diagnostics, render_notes
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.source import Diagnostic, Source, Span

LINE = "  add.7 = f32[32,128]{1,0:T(8,128)S(1)} add(%convolution.12, %ad.6)"
EDITED = Source("edited.hlo", "\n" * 89 + LINE + "\nend")


def at(source: Source, quoted: str, message: str = "oops", hint: str | None = None, code: str = "") -> Diagnostic:
    start = source.text.index(quoted)
    return Diagnostic("error", message, source, Span(start, start + len(quoted)), hint, code)


def shown(*diagnostics: Diagnostic, style: Style = Style(), most: int = 20, summary: str = "") -> str:  # noqa: B008
    return "".join(render_diagnostics(diagnostics, style, most=most, summary=summary))


def test_the_worked_screen_of_a_broken_dump() -> None:
    error = at(EDITED, "%ad.6", "%ad.6 is not defined in fused_computation.6", "add.6 is defined on line 89")
    assert (
        shown(error, style=Style(width=66), summary="the other 394 instructions were read")
        == """\
error: %ad.6 is not defined in fused_computation.6
  edited.hlo:90:62
   │
90 │ … = f32[32,128]{1,0:T(8,128)S(1)} add(%convolution.12, %ad.6)
   │                                                        ^^^^^
  help: add.6 is defined on line 89
1 error; the other 394 instructions were read
"""
    )


def test_the_worked_screen_of_a_shape_on_the_command_line() -> None:
    typed = Source("", "f32[3,5]{2,1,0}")
    error = at(typed, "2,1,0", "layout has 3 dimensions, but the shape has 2", "row-major is {1,0}")
    assert (
        shown(error)
        == """\
error: layout has 3 dimensions, but the shape has 2
  f32[3,5]{2,1,0}
           ^^^^^
  help: row-major is {1,0}
"""
    )


def test_color_marks_severity_and_carets() -> None:
    text = shown(at(EDITED, "%ad.6", "oops", "mend", "HLO101"), style=Style(color=True))
    assert text.startswith("\x1b[31merror HLO101:\x1b[0m \x1b[1moops\x1b[0m\n")
    assert "\x1b[31m^^^^^\x1b[0m" in text
    assert "\x1b[32mhelp:\x1b[0m mend" in text


def test_a_diagnostic_without_a_place_is_one_line() -> None:
    assert shown(Diagnostic("error", "no command layuot; did you mean layout?")) == (
        "error: no command layuot; did you mean layout?\n"
    )
    assert shown(Diagnostic("error", "is empty", Source("a.txt", ""))) == "error: is empty\n  a.txt\n"


def test_more_than_enough_diagnostics_are_counted() -> None:
    errors = [Diagnostic("error", f"e{number}") for number in range(25)]
    assert shown(*errors, Diagnostic("warning", "w"), most=2).splitlines() == [
        "error: e0",
        "error: e1",
        "… and 24 more",
        "25 errors, 1 warning",
    ]


def test_three_notes_are_enough() -> None:
    notes = [Diagnostic("note", f"n{number}") for number in range(15)]
    assert (
        "".join(render_notes(notes, Style()))
        == "note: n0\nnote: n1\nnote: n2\nnote: 12 more notes; use --verbose to show all\n"
    )
    assert "".join(render_notes(notes, Style(), verbose=True)).count("\n") == 15
    placed = replace(at(EDITED, "%ad.6", "kept as text"), severity="note")
    assert "".join(render_notes([placed], Style())) == "note: kept as text (edited.hlo:90)\n"


def test_a_huge_line_is_quoted_without_being_copied() -> None:
    source = Source("big", "a" * 20_000_000 + "X" * 10 + "b" * 20_000_000)
    source.position(0)
    everything = Diagnostic("error", "all", source, Span(0, len(source.text)))
    tracemalloc.start()
    text = shown(at(source, "X" * 10), everything, Diagnostic("error", "end", source, Span(10**9, 10**9)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert max(map(len, text.splitlines())) <= 80
    assert "aXXXXXXXXXXb" in text


def test_paths_stay_whole() -> None:
    for length in range(30, 200):
        path = f"/{'d' * length}/known.json"
        first, *others = shown(Diagnostic("error", f"{path} is no baseline", hint=f"see {path}")).splitlines()
        assert first.startswith(f"error: {path}")
        assert any(path in line for line in others)


def test_a_huge_message_is_cut() -> None:
    assert len(shown(Diagnostic("error", "x" * 10_000_000, hint="y" * 10_000_000))) < 5000


@given(
    st.text(max_size=120), st.text(min_size=1, max_size=40), st.text(max_size=120),
    st.integers(40, 250), st.booleans(), st.sampled_from(["", "a.txt"]),
)  # fmt: skip
def test_carets_stand_under_what_is_meant(
    before: str, meant: str, after: str, width: int, ascii_only: bool, name: str
) -> None:
    source = Source(name, before + meant + after)
    span = Span(len(before), len(before) + len(meant))
    text = shown(Diagnostic("error", before, source, span, after), style=Style(width=width, ascii=ascii_only))
    lines = text.splitlines()
    for line in lines:
        assert cell_width(line) <= width or max(map(cell_width, line.split(" "))) > width * 3 / 5
    assert "\x1b" not in text
    assert all(line.isprintable() for line in lines)
    carets = next(at for at, line in enumerate(lines) if line.strip(" │|") and set(line) <= set(" │|^") and "^" in line)
    first_line = meant.partition("\n")[0]
    if (
        first_line.isascii()
        and first_line.isprintable()
        and 0 < len(first_line) < 20
        and first_line.strip() == first_line
    ):
        column = lines[carets].index("^")
        quoted = lines[carets - 1]
        prefix = next(end for end in range(len(quoted) + 1) if cell_width(quoted[:end]) == column)
        assert quoted[prefix:].startswith(first_line[: len(quoted) - prefix])
