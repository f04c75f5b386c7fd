"""Progress of `hlo run`: on a terminal alone, the estimate first, then the number of executed instructions."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest

from hlo_cli import cli
from hlo_cli.render.progress import counted

TEXT = "HloModule m\nENTRY e {\n x = f32[1000] parameter(0)\n ROOT r = f32[1000] negate(x)\n}\n"


class Terminal(StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Puts a terminal in the place of standard error."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_numbers_of_several_runs_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with counted("instructions", expect=lambda: "Evaluating much") as show:
        assert show is not None
        for done in (512, 1024, 256, 512):
            show(done)
    assert stream.getvalue().startswith("Evaluating much\n")
    assert "1,536 instructions" in stream.getvalue()


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with counted("instructions", expect=str) as show:
        assert show is not None
        show(512)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("options", "is_shown"), [((), True), (("-q",), False)])
def test_long_runs_say_what_they_take(
    options: tuple[str, ...], is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = terminal(monkeypatch)
    monkeypatch.setattr("hlo_cli.commands.run.report._SECONDS_PER_OPERATION", 0.01)
    (tmp_path / "m.txt").write_text(TEXT)
    assert cli.main(["run", str(tmp_path / "m.txt"), *options], standalone=False) == 0
    assert ("Evaluating 1.0e+03 scalar operations, in about 10 s" in stream.getvalue()) is is_shown
    assert ("executed instructions" in stream.getvalue()) is is_shown
