"""The command line around the commands: screens, lazy imports, completion, errors and exit codes."""

from __future__ import annotations

import ast
import csv
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from hlo_cli import __version__, cli
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import flag, option
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, Source, Span

FIXTURES = Path(__file__).parent.parent / "fixtures"
HEAVY = ("numpy", "rich", "pyparsing")

Run = Callable[..., int]


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The options of `hlo probe`."""

    size: int | None = option("--size", "N", group="Probe", least=0, help="Set the size.")
    format: str | None = option(
        "--format", "FORMAT", group="Probe", choices=("table", "json"), default=None, help="Set the format."
    )
    draw: bool = flag("--draw", group="Probe", help="Draw the probe.")


def interpreter(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python apart from this process, so that what it imported can be seen."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parent.parent), **environment},
    )


def hlo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `hlo` as a shell would."""
    return interpreter("-m", "hlo_cli", *arguments, **environment)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], Run]:
    """Gives a runner of `hlo` whose command `probe` does what the test says."""

    def with_body(body: Callable[[], object]) -> Run:
        @click.command("probe", cls=Command, help="Do what a test says.")
        @with_options(ProbeOptions)
        @click.argument("inputs", nargs=-1, required=True)
        def command(size: int | None, format: str | None, draw: bool, inputs: tuple[str, ...]) -> object:
            return body()

        module = types.ModuleType("probe_command")
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setitem(cli.COMMANDS, "probe", ("probe_command", "Do what a test says"))
        return lambda *arguments: cli.main(list(arguments), standalone=False)

    return with_body


def nothing() -> None:
    """A command that finds nothing to say."""


def failing(error: BaseException) -> Callable[[], None]:
    """A command that ends in an error."""

    def body() -> None:
        raise error

    return body


def test_alone_it_lists_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([], standalone=False) == 0
    out = capsys.readouterr().out
    assert out.startswith("hlo explains XLA HLO dumps: ")
    assert "hlo layout SHAPE" in out


def test_questions_name_commands_that_exist() -> None:
    assert {line.split()[1] for _, line in cli.QUESTIONS} <= cli.COMMANDS.keys()


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([option], standalone=False) == 0
    out = capsys.readouterr().out
    for name, (_, summary) in cli.COMMANDS.items():
        assert f"  {name:<12}{summary}\n" in out


def test_screens_fit_eighty_columns_of_ascii() -> None:
    for screen in (cli.questions_screen(), cli.help_screen()):
        assert screen.isascii()
        assert max(map(len, screen.splitlines())) <= 80


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    import hlo_cli

    for option_name in ("--version", "-V"):
        assert cli.main([option_name], standalone=False) == 0
        assert capsys.readouterr().out == f"hlo {hlo_cli.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["-V"]])
def test_screens_import_next_to_nothing(arguments: list[str]) -> None:
    done = interpreter(
        "-c",
        "import sys; from hlo_cli.cli import main\n"
        f"main({arguments!r}, standalone=False)\n"
        f"print(sorted({{*{HEAVY!r}, 'click', 'typing', 're', 'dataclasses'}} & sys.modules.keys()))",
    )
    assert done.stdout.endswith("\n[]\n"), done.stdout + done.stderr


def test_help_of_a_command_imports_nothing_heavy() -> None:
    """Of one after the other: what is imported is so by the first command after whose help it is there."""
    done = interpreter(
        "-c",
        "import sys; from hlo_cli.cli import main\n"
        f"for name in {[*cli.COMMANDS]!r}:\n"
        "    main([name, '--help'], standalone=False)\n"
        f"    print('imported:', name, sorted({set(HEAVY)!r} & sys.modules.keys()))",
    )
    told = [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("imported:")]
    assert told == [f"{name} []" for name in cli.COMMANDS], done.stderr
    pages = re.split(r"(?m)^imported: .*\n", done.stdout)
    for name, page in zip(cli.COMMANDS, pages, strict=False):
        assert f"Usage: hlo {name} " in page
        assert "Examples:" in page


def test_library_imports_nothing_heavy() -> None:
    heavy = f"sorted({{*{HEAVY!r}, 'click', 'typing'}} & sys.modules.keys())"
    assert interpreter("-c", f"import sys, hlo_cli; print({heavy})").stdout == "[]\n"


def test_library_gives_every_public_name() -> None:
    """And `dir` shows no other, but for those of the language."""
    listed = "print(sorted({each for each in dir(hlo_cli) if each[:2] != '__'} ^ {*hlo_cli.__all__} - {'__version__'}))"
    done = interpreter("-c", f"from hlo_cli import *; import hlo_cli; {listed}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_type_checkers_see_the_public_names() -> None:
    import hlo_cli

    tree = ast.parse(Path(hlo_cli.__file__).read_text(encoding="utf-8"))
    [block] = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    homes = vars(hlo_cli)["_HOMES"]
    called = {"lint": "hlo_cli.lint.run.lint_module", "report": "hlo_cli.library.report"}  # what the packages call
    seen |= {
        target.id: seen[node.value.id]
        for node in block.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert seen == {name: f"hlo_cli.{home}.{name}" for name, home in homes.items()} | called
    assert hlo_cli.__all__ == ["__version__", *homes]
    assert list(homes) == sorted(homes)


def test_library_knows_no_other_name() -> None:
    import hlo_cli

    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(hlo_cli, "nothing")  # noqa: B009


@pytest.mark.parametrize(
    ("line", "offered"),
    [("", [*cli.COMMANDS]), ("la", ["layout"]), ("--v", ["--version"]), ("x", ["x"])],
)
def test_completion_offers_what_can_follow(line: str, offered: list[str]) -> None:
    done = hlo(_HLO_COMPLETE="bash_complete", COMP_WORDS=f"hlo {line}", COMP_CWORD="1")
    assert [row.split(",")[1] for row in done.stdout.split()] == offered


def test_completion_reaches_into_commands() -> None:
    done = hlo(_HLO_COMPLETE="bash_complete", COMP_WORDS="hlo help --h", COMP_CWORD="2")
    assert done.stdout == "plain,--help\n"


def test_command_is_run(probe: Callable[[Callable[[], object]], Run], capsys: pytest.CaptureFixture[str]) -> None:
    run = probe(lambda: click.echo("ran"))
    assert run("probe", "x") == 0
    assert capsys.readouterr() == ("ran\n", "")


def test_what_a_command_returns_is_the_exit_code(probe: Callable[[Callable[[], object]], Run]) -> None:
    assert probe(lambda: 1)("probe", "x") == 1


def test_a_command_can_end_early(probe: Callable[[Callable[[], object]], Run]) -> None:
    assert probe(lambda: click.get_current_context().exit(1))("probe", "x") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prboe", "x"], "error: 'prboe' is not a command, a file, or a directory\n  help: did you mean 'probe'?\n"),
        (
            ["zzz"],
            """error: 'zzz' is not a command, a file, or a directory
  help: run `hlo --help` to list all commands; `hlo help dump` shows how to create a dump
""",
        ),
        (["--nope"], "error: unknown option '--nope'\n  help: put options after the command, or run `hlo --help`\n"),
        (["probe", "x", "--sise", "1"], "error: unknown option '--sise'\n  help: did you mean '--size'?\n"),
        (["probe", "--nope"], "error: unknown option '--nope'\n  help: run `hlo probe --help` to list all options\n"),
        (["probe", "x", "-size", "1"], "error: unknown option '-size'\n  help: did you mean '--size'?\n"),
        (["probe"], "error: missing argument INPUTS\n  help: run `hlo probe -h` for examples\n"),
        (["probe", "x", "--size", "big"], "error: invalid value 'big' for --size: expected an integer of at least 0\n"),
        (["probe", "x", "--size", "-1"], "error: invalid value '-1' for --size: expected an integer of at least 0\n"),
        (["probe", "x", "--size"], "error: --size requires a value\n  help: use --size N\n"),
        (["probe", "x", "--format"], "error: --format requires a value\n  help: available: table, json\n"),
        (["probe", "x", "--draw=1"], "error: --draw does not take a value\n  help: remove the value\n"),
        (
            ["probe", "x", "--format", "xml"],
            "error: invalid value 'xml' for --format\n  help: available: table, json\n",
        ),
        (
            ["probe", "x", "--format", "jsno"],
            "error: invalid value 'jsno' for --format\n  help: did you mean 'json'?\n",
        ),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    probe: Callable[[Callable[[], object]], Run],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert probe(nothing)(*arguments) == 2
    assert capsys.readouterr() == ("", message)


def test_an_error_shows_its_place(
    probe: Callable[[Callable[[], object]], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    source = Source("m.hlo", "HloModule m\nENTRY e {}\n")
    run = probe(failing(HloError("no root", Span(18, 19), source=source, hint="mark one ROOT")))
    assert run("probe", "x") == 2
    out, err = capsys.readouterr()
    assert out == ""
    for part in ("no root", "m.hlo:2:7", "help: mark one ROOT"):
        assert part in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 2, "error: out of memory\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
        (OSError(28, "No space left on device"), 2, "error: output: No space left on device\n"),
        (PermissionError(13, "Permission denied", "out.json"), 2, "error: out.json: Permission denied\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_machine_refuses(
    error: BaseException,
    code: int,
    message: str,
    probe: Callable[[Callable[[], object]], Run],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert probe(failing(error))("probe", "x") == code
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("error", [RecursionError(), ZeroDivisionError()], ids=lambda error: type(error).__name__)
def test_bugs_have_a_line_and_a_code_of_their_own(
    error: Exception,
    probe: Callable[[Callable[[], object]], Run],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1 would be read as findings. The traceback is for those who ask for it."""
    monkeypatch.delenv("HLO_TRACEBACK", raising=False)
    assert probe(failing(error))("probe", "x\x1b[31m") == 70
    out, err = capsys.readouterr()
    name = type(error).__name__
    assert out == ""
    assert err.startswith(f"error: internal error, please report: hlo {__version__}")
    assert err.endswith(f"({name}), command: hlo probe 'x\\x1b[31m'; HLO_TRACEBACK=1 shows the traceback\n")
    assert err.count("\n") == 1
    monkeypatch.setenv("HLO_TRACEBACK", "1")
    assert probe(failing(error))("probe", "x" * 1000) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert len(err.splitlines()[-1]) < 500


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "hlo_cli", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
    )
    os.close(writing)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hlo_cli", "--help"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: output: ")


@pytest.mark.skipif(os.name == "nt", reason="POSIX shell")
@pytest.mark.parametrize(("redirection", "code"), [("nothing 2>&-", 2), ("--help <&-", 0)])
def test_closed_streams_are_no_bug(redirection: str, code: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m hlo_cli {redirection}', sys.executable], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, b"")
    assert b"error:" not in done.stdout


def test_standing_alone_it_ends_the_process_with_the_code() -> None:
    done = hlo("nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 'nothing' is not a command, a file, or a directory\n")


def test_help_lists_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"], standalone=False) == 0
    assert "  dump  " in capsys.readouterr().out


def test_help_explains_how_to_make_a_dump(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "dump"], standalone=False) == 0
    out = capsys.readouterr().out
    for words in ("--xla_dump_to=DIR", ".compile().as_text()", "PyTorch/XLA", "TensorFlow"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_of_a_command_is_its_own(
    probe: Callable[[Callable[[], object]], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    run = probe(nothing)
    assert run("probe", "--help") == 0
    own = capsys.readouterr().out
    assert own.startswith("Usage: hlo probe [OPTIONS] INPUTS...\n")
    assert run("help", "probe") == 0
    assert capsys.readouterr().out == own


def test_help_of_nothing_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "dmup"], standalone=False) == 2
    assert capsys.readouterr().err == "error: unknown topic 'dmup'\n  help: did you mean 'dump'?\n"


def test_a_result_is_written_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links are followed, modes are kept, and what is no plain file is written to, not replaced."""
    target, link, pipe = tmp_path / "shape.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    assert cli.main(["layout", "f32[3,5]", "--format", "json", "-o", str(link)], standalone=False) == 0
    assert link.is_symlink()
    assert '"padded_bytes": 60' in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert cli.main(["layout", "f32[3,5]", "--format", "json", "-o", str(pipe)], standalone=False) == 0
    assert b'"padded_bytes": 60' in os.read(reader, 1 << 16)
    os.close(reader)
    assert not target.is_fifo()
    assert pipe.is_fifo()
    assert cli.main(["layout", "f32[3,5]", "-o", str(tmp_path / "no" / "such")], standalone=False) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "pipe", "shape.json"]


@pytest.mark.parametrize(
    "line",
    [
        "layout f32[3",
        "layout f32[-1]",
        "layout f32[3,5] --by source",
        "layout f32[3,5] --computation x",
        "parse x --tree --instructions",
        "parse x --tree --computation y",
        "parse --explain=",
    ],
)
def test_what_makes_no_sense_is_said_so(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split(), standalone=False) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "nothing matches" not in error
    assert "no such file" not in error


def sorted_by(column: str, shown: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The cells of a column of a real dump's shapes, in the order that `--sort` gives."""
    dump = str(FIXTURES / "tpu" / "v5e_conv")
    arguments = ["layout", dump, "--format", "csv", "--columns", shown, "--sort", column]
    assert cli.main(arguments, standalone=False) == 0
    return [row[0] for row in csv.reader(capsys.readouterr().out.splitlines())][1:]


def test_a_minus_turns_the_order_of_any_column(capsys: pytest.CaptureFixture[str]) -> None:
    shapes, turned_shapes = (sorted_by(column, "shape", capsys) for column in ("shape", "-shape"))
    assert len(set(shapes)) > 2
    assert turned_shapes == shapes[::-1]
    assert shapes[0].startswith("bf16")
    assert turned_shapes[0].startswith("f32")
    sizes, turned_sizes = (
        [int(size) for size in sorted_by(column, "padded_bytes", capsys)]
        for column in ("padded_bytes", "-padded_bytes")
    )
    assert sizes == sorted(sizes, reverse=True)
    assert turned_sizes == sorted(sizes)
