"""The help of every command: both pages, the words of every option, and the options that all commands have."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

import in_process
from hlo_cli.cli import COMMANDS, main
from hlo_cli.commands.diff.options import IGNORABLE_KINDS
from hlo_cli.commands.fuse.options import SWITCHES
from hlo_cli.commands.help.catalog import TOPICS
from hlo_cli.commands.options.click_command import SCREEN_LINES, Command, Option
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.schedule.command import ORDERS
from hlo_cli.render import progress

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODULE = str(FIXTURES / "golden" / "lint" / "wrong.hlo")
SHAPE = "f32[3,5]{1,0:T(2,2)}"
ALL_NAMES = tuple(COMMANDS)
NAMES = tuple(name for name in COMMANDS if name != "help")
LINES = {
    **dict.fromkeys(NAMES, (MODULE,)),
    "layout": (SHAPE,),
    "tile-index": (SHAPE, "2,3"),
    "diff": (MODULE, MODULE),
    "shard": (MODULE,),
    "profile": (str(FIXTURES / "traces" / "cpu" / "trace.xplane.pb"),),
}
"""Arguments with which each command has something to report."""
VERBS = frozenset(
    "Apply Assume Check Color Compare Control Draw Estimate Exit Expand Explain Extract Find Follow Fuse Group Hide Ignore"
    " Include Keep List Make Map Name Override Print Read Omit Record Refuse Reject Reproduce Reschedule Round Run Set Show"
    " Simulate Skip Sort Stop Treat Use Write Change".split()
)
"""The words with which the help of an option can begin."""
MOST_LETTERS = 90

Capture = pytest.CaptureFixture[str]


def command_of(name: str) -> Command:
    """The click command of that name."""
    command = import_module(COMMANDS[name][0]).command
    assert isinstance(command, Command)
    return command


def options() -> list[tuple[str, Option]]:
    """Every option of every command."""
    listed = [(name, each) for name in ALL_NAMES for each in command_of(name).params if isinstance(each, click.Option)]
    assert all(isinstance(each, Option) for _, each in listed)
    return [(name, each) for name, each in listed if isinstance(each, Option)]


def page(name: str, option: str, capsys: Capture) -> str:
    """The help that an option shows."""
    capsys.readouterr()
    assert main([name, option], standalone=False) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def listed(text: str) -> set[str]:
    """The options that have a row of their own in a page."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_both_pages(name: str, capsys: Capture) -> None:
    """The short page is a screen of common options, the long one begins with the same screen and has every option."""
    short, long = page(name, "-h", capsys), page(name, "--help", capsys)
    assert len(short.splitlines()) <= SCREEN_LINES
    for text in (short, long):
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= 80
        assert "\n\n\n" not in text
        head = re.match(rf"Usage: hlo {name} \[OPTIONS\] .+\n\n[A-Z].+\.\n\n[\s\S]+?\n\nExamples:\n  hlo {name} ", text)
        assert head is not None
    if short != long:
        screen, _, last = short.rstrip("\n").rpartition("\n\n")
        assert last == f"Run `hlo {name} --help` to list all options."
        assert long.startswith(f"{screen}\n\nMore options\n\n")
    every = {max(each.opts, key=len) for of, each in options() if of == name and not each.hidden}
    assert listed(long) == every
    assert (
        listed(short) == {max(each.opts, key=len) for of, each in options() if of == name and each.is_common}
        or short == long
    )


@pytest.mark.parametrize("name", [name for name in ALL_NAMES if name not in TOPICS])
def test_help_shows_what_hlo_help_shows(name: str, capsys: Capture) -> None:
    long = page(name, "--help", capsys)
    assert main(["help", name], standalone=False) == 0
    assert capsys.readouterr().out == long


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_summary_is_the_one_of_the_front_screen(name: str) -> None:
    first = (command_of(name).help or "").partition("\n")[0]
    assert first.endswith(".")
    assert not COMMANDS[name][1].endswith(".")
    assert first.split()[0] == COMMANDS[name][1].split()[0]


@pytest.mark.parametrize(
    ("name", "option"), options(), ids=lambda each: each if isinstance(each, str) else each.opts[-1]
)
def test_words_of_an_option(name: str, option: Option) -> None:
    """An imperative with its object, one sentence, a period; defaults in one form, at most two lines."""
    text = option.text
    assert option.group
    assert text.split()[0] in VERBS
    assert text.endswith(".")
    assert not re.search(r"\. [A-Z]", text), "one sentence"
    assert len(re.sub(r": [^:]+, (?:and|or) [\w-]+\.$", ".", text)) <= MOST_LETTERS
    assert not re.search(r"\b(what|it|one that|none|nobody|beside|alive|told)\b", text)
    record = option.get_help_record(click.Context(command_of(name)))
    assert (record is None) is option.hidden
    default = option.get_default(click.Context(command_of(name)))
    if record is not None and isinstance(default, str) and default:
        assert f"[default: {default}]" in record[1]
    assert option.is_flag or option.metavar or option.flag_value


@pytest.mark.parametrize("name", ALL_NAMES)
def test_no_option_has_two_lines_too_many(name: str, capsys: Capture) -> None:
    rows = re.findall(r"^  \S.*(?:\n {10,}.*)*", page(name, "--help", capsys), re.M)
    assert max(row.count("\n") for row in rows if row.startswith("  -") and "--format" not in row) <= 1


@pytest.mark.parametrize(("name", "values"), [("fuse", SWITCHES), ("schedule", ORDERS), ("diff", IGNORABLE_KINDS)])
def test_values_of_lists_are_explained(name: str, values: tuple[str, ...]) -> None:
    assert set(values) <= set(re.findall(r"[\w-]+", command_of(name).details))


@pytest.mark.parametrize("name", NAMES)
def test_json_is_short_for_a_format(name: str, capsys: Capture) -> None:
    answers = []
    for options_ in (("--json",), ("--format", "json"), ("--json", "--format=json")):
        main([name, *LINES[name], *options_], standalone=False)
        answers.append(capsys.readouterr())
    assert answers[0] == answers[1] == answers[2]
    assert json.loads(answers[0].out)
    assert main([name, *LINES[name], "--json", "--format", "csv"], standalone=False) == 2
    out, err = capsys.readouterr()
    assert err == "error: --json cannot be used with --format csv\n  help: use only one of them\n"
    assert json.loads(out)["errors"][0]["message"] == "--json cannot be used with --format csv"


@pytest.mark.parametrize("name", NAMES)
def test_quiet_hides_notes_and_hints(name: str, capsys: Capture, tmp_path: Path) -> None:
    """What is on standard output and the exit code stay; of standard error only errors are left."""
    ways: tuple[tuple[str, ...], ...] = ((), ("-q",), ("--quiet",), ("-v",), ("--verbose",))
    codes = [(main([name, *LINES[name], *way], standalone=False), capsys.readouterr()) for way in ways]
    assert len({(code, said.out) for code, said in codes}) == 1
    for _, said in codes[1:3]:
        assert not re.search("^ *(note|help):", said.err, re.M)
    assert main([name, *LINES[name], "-q", "-v"], standalone=False) == 2
    assert capsys.readouterr().err == "error: --quiet cannot be used with --verbose\n"
    missing = str(tmp_path / "no.hlo")
    arguments = [f"{missing}:x"] if name == "tile-index" else [missing] * (2 if name == "diff" else 1)
    assert main([name, *arguments, "-q"], standalone=False) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "help:" not in err
    assert main([name, "--nope", "-q"], standalone=False) == 2
    assert capsys.readouterr().err == "error: unknown option '--nope'\n"


@pytest.mark.parametrize(
    ("terminal", "term", "quiet", "is_shown"),
    [
        (True, "xterm", False, True),
        (True, "xterm", True, False),
        (True, "dumb", False, False),
        (False, "xterm", False, False),
    ],
)
def test_a_bar_is_drawn_only_where_it_can_be_and_may_be(
    terminal: bool, term: str, quiet: bool, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def draw(items: Iterator[int], done: int, count: int, what: str) -> Iterator[int]:
        drawn.append(done)
        yield from items

    monkeypatch.setattr(progress, "_SECONDS_BEFORE_BAR", -1.0)
    monkeypatch.setattr(progress, "_with_bar", draw)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", term)
    assert list(progress.watched(range(3), 3, "dumps", quiet=quiet)) == [0, 1, 2]
    assert bool(drawn) is is_shown


@pytest.mark.parametrize(("term", "is_plain"), [("xterm-256color", False), ("dumb", True)])
def test_a_dumb_terminal_gets_plain_text(term: str, is_plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No color, and no glyphs beyond ASCII, on both streams."""
    monkeypatch.setenv("TERM", term)
    for name in ("NO_COLOR", "FORCE_COLOR", "HLO_ASCII"):
        monkeypatch.delenv(name, raising=False)
    for number, stream in ((1, "stdout"), (2, "stderr")):
        terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, stream, terminal)
        style = OutputOptions().style(number)
        assert (style.color, style.ascii) == (not is_plain, is_plain)


@pytest.mark.parametrize(("word", "entry"), [("kv-cache", "KV cache"), ("ynn", "YNNPACK"), ("ynn_fusion", "YNNPACK")])
def test_words_of_decoding_and_of_cpu_kernels_have_an_entry(word: str, entry: str, tmp_path: Path) -> None:
    out, _, code = in_process.run(["help", word], folder=tmp_path, settings={})
    assert code == 0
    assert f"- {entry}" in out
