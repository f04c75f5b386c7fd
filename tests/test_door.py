"""The door: `hlo` with an input and no command, what is piped to it, and standard input that is slow."""

from __future__ import annotations

import io
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

import hlo_cli
from hlo_cli import cli
from hlo_cli.commands.front.first_word import with_command
from processes import until
from timing import soon

FIXTURES = Path(__file__).parent.parent / "fixtures"
DUMP = FIXTURES / "tpu" / "v5e_kernel"
TRACE = FIXTURES / "traces" / "cpu_steps" / "trace.xplane.pb"
TEXT = DUMP / "after_optimizations.txt"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(hlo_cli.__file__).parent.parent), "TERM": "xterm"}
HLO = [sys.executable, "-m", "hlo_cli"]
LIMIT = 60.0

Answer = tuple[int, str, str]


@pytest.fixture
def hlo(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def run(*arguments: str) -> Answer:
        code = cli.main(list(arguments), standalone=False)
        return code, *capsys.readouterr()

    return run


def piped(*arguments: str, text: bytes) -> subprocess.CompletedProcess[str]:
    """`hlo` with a text on standard input."""
    done = subprocess.run([*HLO, *arguments], input=text, capture_output=True, timeout=LIMIT, env=ENVIRONMENT)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ([str(TEXT)], ["overview", str(TEXT)]),
        ([str(DUMP), "--stage", "after"], ["overview", str(DUMP), "--stage", "after"]),
        ([str(DUMP), "--tree"], ["parse", str(DUMP), "--tree"]),
        ([str(DUMP), "-o", "new.pb"], ["parse", str(DUMP), "-o", "new.pb"]),
        ([str(DUMP), "--format=hlo"], ["parse", str(DUMP), "--format=hlo"]),
        ([str(TRACE)], ["profile", str(TRACE)]),
        ([str(TRACE.parent)], ["profile", str(TRACE.parent)]),
        ([f"{FIXTURES}/tpu/v4_*"], ["overview", f"{FIXTURES}/tpu/v4_*"]),
        (["f32[8,128]{1,0}"], ["layout", "f32[8,128]{1,0}"]),
        (["(f32[8], s32[])"], ["layout", "(f32[8], s32[])"]),
        (["bf16[8]", "--draw"], ["layout", "bf16[8]", "--draw"]),
        (["--draw", "bf16[8]"], ["layout", "--draw", "bf16[8]"]),
        (["--json", "--top", "2", str(TEXT)], ["overview", "--json", "--top", "2", str(TEXT)]),
        (["a = f32[8]{0} add(b, c)"], ["parse", "--explain", "a = f32[8]{0} add(b, c)"]),
        (["torch.float16[8]"], ["layout", "torch.float16[8]"]),
        (["tensor<8x128xbf16>"], ["layout", "tensor<8x128xbf16>"]),
        (["f32[8]{0} add(b, c)"], ["parse", "--explain", "f32[8]{0} add(b, c)"]),
        ([f"{DUMP}:k3.1"], ["parse", str(DUMP), "--explain", "k3.1"]),
        ([f"{DUMP}:k3.1{{0}}"], ["layout", f"{DUMP}:k3.1{{0}}"]),
        ([str(DUMP), str(TEXT)], ["parse", str(DUMP), str(TEXT)]),
    ],
    ids=lambda each: " ".join(each)[-24:],
)
def test_an_input_without_a_command(short: list[str], whole: list[str]) -> None:
    assert with_command(short, cli.COMMANDS) == whole


@pytest.mark.parametrize(
    "arguments",
    [["parse", str(TEXT)], ["zzz"], ["--nope"], ["--json", "layout", "f32[8]"], ["x=1"], ["no/such/file"], ["*.nope"]],
    ids=" ".join,
)
def test_other_command_lines_are_kept(arguments: list[str]) -> None:
    assert with_command(arguments, cli.COMMANDS) == arguments


def test_a_command_wins_over_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lint").write_text("HloModule m")
    assert with_command(["lint"], cli.COMMANDS) == ["lint"]
    assert with_command(["./lint"], cli.COMMANDS) == ["overview", "./lint"]


def test_a_file_whose_name_could_be_a_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f328").touch()  # matched by the pattern f32[8]
    assert with_command(["f32[8]"], cli.COMMANDS)[0] == "overview"
    assert with_command(["f32[9]"], cli.COMMANDS)[0] == "layout"


@pytest.mark.parametrize("arguments", [["f32[3,5]{0,1}"], [str(DUMP)], ["a = f32[8]{0} add(b, c)"]])
def test_the_answer_is_that_of_the_command(arguments: list[str], hlo: Callable[..., Answer]) -> None:
    assert hlo(*arguments) == hlo(*with_command(arguments, cli.COMMANDS))
    assert hlo(*arguments)[0] == 0


def test_a_text_as_an_argument(hlo: Callable[..., Answer]) -> None:
    text = TEXT.read_text()
    code, out, _ = hlo(text, "--json")
    assert code == 0
    assert '"instructions": 13' in out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("compare", "run `hlo diff OLD NEW`"),
        ("OOM", "run `hlo memspace DUMP`"),
        ("explain", "run `hlo parse DUMP --explain NAME`"),
        ("memory", "run `hlo help memory` to read this topic"),
        ("hlo101", "run `hlo lint --explain HLO101`"),
        ("all-gather", "to list these instructions, run `hlo parse DUMP --where 'opcode == all-gather'`"),
        ("v6e", "run `hlo help chips` to list the data of all chips"),
        ("torch.float16", "for a shape of this type, run `hlo layout 'f16[8,128]'`"),
        ("bf16", "for a shape of this type, run `hlo layout 'bf16[8,128]'`"),
        ("exposed", "run `hlo help glossary exposed`"),
    ],
)
def test_a_word_that_is_nothing_names_a_command(word: str, hint: str, hlo: Callable[..., Answer]) -> None:
    assert hlo(word) == (2, "", f"error: unknown command '{word}'\n  help: {hint}\n")


@pytest.mark.parametrize(("word", "command"), [("Layout", "layout"), ("schedul", "schedule"), ("nofile", "profile")])
def test_a_word_that_resembles_a_command_may_be_a_missing_file(
    word: str, command: str, hlo: Callable[..., Answer]
) -> None:
    message = f"error: '{word}' is not a command, a file, or a directory\n  help: did you mean '{command}'?\n"
    assert hlo(word) == (2, "", message)


def test_questions_and_commands_are_columns(hlo: Callable[..., Answer]) -> None:
    """The longest question is apart from its command, and all commands begin in one column, within 80 characters."""
    lines = [line for line in cli.questions_screen().splitlines() if line.startswith("  ")]
    assert len(lines) == len(cli.QUESTIONS)
    assert all("?  " in line for line in lines)
    assert len({line.index("hlo ") for line in lines}) == 1
    assert max(map(len, lines)) <= 80


def test_a_command_after_its_input_is_told_where_it_goes(hlo: Callable[..., Answer]) -> None:
    message = f"error: 'memspace' is after its input\n  help: run `hlo memspace {DUMP} --top 3`\n"
    assert hlo(str(DUMP), "memspace", "--top", "3") == (2, "", message)


def test_the_name_of_a_rule_leads_to_its_code(hlo: Callable[..., Answer]) -> None:
    message = "error: unknown rule 'mostly padding'\n  help: did you mean 'HLO101'?\n"
    assert hlo("lint", "--explain", "mostly padding") == (2, "", message)


def test_a_word_that_may_be_a_missing_dump_is_called_neither(hlo: Callable[..., Answer]) -> None:
    assert hlo("qwxz")[2].startswith("error: 'qwxz' is not a command, a file, or a directory\n  help: run `hlo --help`")


@pytest.mark.parametrize("word", ["no_such_dump.txt", "no/such/dump", "no_such*"])
def test_a_missing_file_is_no_unknown_command(word: str, hlo: Callable[..., Answer]) -> None:
    code, _, err = hlo(word)
    assert (code, "unknown command" in err) == (2, False)


def test_every_word_with_a_hint_names_a_command_that_exists() -> None:
    from hlo_cli.commands.front.first_word import _SYNONYMS

    assert {line.split()[0] for line in _SYNONYMS} <= cli.COMMANDS.keys()
    words = [word for words in _SYNONYMS.values() for word in words.split()]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("arguments", [(), ("-",), ("--json",)], ids=str)
def test_a_dump_is_piped_to_it(arguments: tuple[str, ...]) -> None:
    done = piped(*arguments, text=TEXT.read_bytes())
    whole = overview_of_a_pipe(*(arguments or ("-",)))
    assert (done.returncode, done.stdout, done.stderr) == (0, whole.stdout, whole.stderr)


@cache
def overview_of_a_pipe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return piped("overview", *arguments, text=TEXT.read_bytes())


@pytest.mark.parametrize("redirection", ["< /dev/null", "<&-", "< empty", "| true"])
def test_without_content_the_questions_are_shown(redirection: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    line = f'printf "" | "$0" -m hlo_cli {redirection}' if "|" not in redirection else 'printf "" | "$0" -m hlo_cli'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, cli.questions_screen(), "")


def test_a_file_as_standard_input() -> None:
    with TEXT.open("rb") as file:
        done = subprocess.run(HLO, stdin=file, capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT)
    assert done.returncode == 0
    assert done.stdout.startswith("#share")


def test_a_stream_in_memory(monkeypatch: pytest.MonkeyPatch, hlo: Callable[..., Answer]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.read_bytes())))
    assert hlo()[1].startswith("#share")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert hlo()[1] == cli.questions_screen()


@contextmanager
def on_a_terminal(
    *arguments: str, stdin: int = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """`hlo` with a pipe for standard input and a terminal for standard error; ends with the block."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*HLO, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=theirs, env=ENVIRONMENT)
    os.close(theirs)
    os.set_blocking(ours, False)
    shown: list[bytes] = []

    def seen() -> str:
        try:
            while part := os.read(ours, 4096):
                shown.append(part)
        except OSError:  # nothing is there, or the process has ended
            pass
        return b"".join(shown).decode()

    try:
        yield process, seen
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=LIMIT)
    return process.returncode, out.decode()


WAITING = "waiting for stdin; press Ctrl-C to stop"


def _until_waiting(seen: Callable[[], str]) -> None:
    until(lambda: WAITING in seen())


def test_a_writer_that_never_writes() -> None:
    """A note is shown until Ctrl-C, which ends quietly; several processes wait at the same time."""
    with ExitStack() as stack:
        lines = [(), ("parse", "-"), ("memspace", "-"), ("parse", "--explain", "-")]
        for process, seen in [stack.enter_context(on_a_terminal(*line)) for line in lines]:
            _until_waiting(seen)
            process.send_signal(signal.SIGINT)
            assert ended(process) == (130, "")
            assert seen().endswith(f"{WAITING}\r\x1b[K")


def test_a_slow_writer() -> None:
    text = TEXT.read_bytes()
    padding = b"// " + b"x" * 3_000_000 + b"\n"
    with on_a_terminal("--json") as (process, seen):
        assert process.stdin is not None
        until(lambda: WAITING in seen())
        process.stdin.write(padding)
        process.stdin.flush()
        until(lambda: "reading stdin: 2.9 MiB" in seen())
        process.stdin.write(text[:1000])
        time.sleep(0.2)
        process.stdin.write(text[1000:])
        code, out = ended(process)
        assert code == 0
        assert '"instructions": 13' in out
        assert seen().rpartition("\r\x1b[K")[2] == ""


def test_quiet_hides_the_note() -> None:
    with on_a_terminal("parse", "-", "-q") as one, on_a_terminal("parse", "-", "--quiet") as other:
        with on_a_terminal("parse", "-") as (_, seen):
            _until_waiting(seen)
        time.sleep(0.5)
        for process, seen in (one, other):
            assert process.stdin is not None
            process.stdin.write(TEXT.read_bytes())
            assert ended(process)[0] == 0
            assert seen() == ""


def test_a_fast_writer_shows_nothing() -> None:
    reading, writing = os.pipe()
    os.write(writing, TEXT.read_bytes())  # fits the buffer of a pipe
    os.close(writing)
    with on_a_terminal("parse", "-", stdin=reading) as (process, seen):
        os.close(reading)
        assert ended(process)[0] == 0
        assert "stdin" not in seen()


def test_in_pipes_nothing_is_shown() -> None:
    line = f'(sleep 1.3; cat "{TEXT}") | "$0" -m hlo_cli'
    done = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, timeout=LIMIT, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"#share")


@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
def test_a_writer_that_is_stopped_or_killed(sent: signal.Signals) -> None:
    """A stopped writer is awaited; of a killed one, what it wrote is read."""
    with on_a_terminal() as (process, seen):
        assert process.stdin is not None
        writer = subprocess.Popen(
            ["sh", "-c", f'cat "{TEXT}"; exec sleep 600'], stdin=subprocess.DEVNULL, stdout=process.stdin
        )
        process.stdin.close()
        process.stdin = None
        try:
            until(lambda: "reading stdin: " in seen())
            writer.send_signal(sent)
            if sent is signal.SIGSTOP:
                assert process.poll() is None
                writer.kill()
            code, out = ended(process)
        finally:
            writer.kill()
            writer.wait()
        assert (code, out[:6]) == (0, "#share"), seen()


def test_a_socket_is_not_awaited_for_long() -> None:
    """A server that starts `hlo` with a silent socket gets the questions."""
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            HLO, stdin=theirs.fileno(), capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT
        )
    assert done.stdout == cli.questions_screen()


def test_a_socket_with_content() -> None:
    import socket

    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(TEXT.read_bytes()[:60_000])
        done = subprocess.run(
            HLO, stdin=theirs.fileno(), capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT
        )
    assert done.stdout.startswith("#share")


@pytest.fixture
def many_modules(tmp_path: Path) -> Path:
    """A directory of dumps of 150 modules; module 77 has few instructions and the largest arrays."""
    folder = tmp_path / "my dumps"
    folder.mkdir()
    for number in range(150):
        name, size = f"jit_f_{number}", 4_000_000 if number == 77 else 8 + number
        chain = "".join(f"  x{at + 1} = f32[{size}] negate(x{at})\n" for at in range(1 if number == 77 else number % 9))
        text = f"HloModule {name}\n\nENTRY e {{\n  x0 = f32[{size}] parameter(0)\n{chain}  ROOT r = f32[] constant(0)\n}}\n"
        (folder / f"module_{number:04d}.{name}.cpu_after_optimizations.txt").write_text(text)
    return folder


def test_a_directory_of_many_modules(many_modules: Path, hlo: Callable[..., Answer]) -> None:
    """The module that costs most is reported, and the next commands select it; `parse` lists all."""
    code, out, _ = hlo(str(many_modules), "--format", "screen")
    assert (code, out.split(":")[0]) == (0, "jit_f_77 (0077)")
    assert " 150; run once each, this one accesses " in out
    lines = [line.removeprefix("next:").strip() for line in out.splitlines() if "hlo " in line]
    assert [line.split(" ", 2)[2] for line in lines] == [
        f"'{many_modules}' --module jit_f_77",
        f"'{many_modules}' --module jit_f_77 -o report.html",
    ]
    code, out, _ = hlo("parse", str(many_modules), "--format", "screen", "--top", "5")
    first = out.splitlines()[0]
    assert (code, first.split(":")[0], "jit_f_77 costs most" in out.replace("\n", " ")) == (0, "150 modules", True)
    lines = [line.removeprefix("next:").strip() for line in out.splitlines() if "hlo " in line]
    assert lines == [f"hlo parse '{many_modules}' --module jit_f_77", f"hlo memspace '{many_modules}'"]
    code, out, _ = hlo(*shlex.split(lines[0])[1:], "--format", "screen")
    assert (code, out.split(":")[0]) == (0, "jit_f_77")


def test_rows_are_sorted_by_cost(many_modules: Path, hlo: Callable[..., Answer]) -> None:
    _, out, _ = hlo("parse", str(many_modules))
    header, *rows = [line.split("\t") for line in out.splitlines()]
    shares = [float(row[header.index("cost_share")]) for row in rows]
    assert (len(rows), shares) == (150, sorted(shares, reverse=True))
    assert sum(shares) == pytest.approx(1)
    assert [row[header.index("id")] for row in rows[:1]] == ["0077"]


def test_two_dumps_name_the_comparison(hlo: Callable[..., Answer]) -> None:
    other = FIXTURES / "tpu" / "v5e_conv"
    _, out, _ = hlo(str(DUMP), str(other), "--format", "screen")
    assert f"next: hlo diff {DUMP} {other}\n" in out


@pytest.mark.parametrize("dump", [DUMP, FIXTURES / "tpu" / "v5e_collectives", FIXTURES / "cpu" / "names"])
def test_a_dump_names_the_other_questions(
    dump: Path, hlo: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every next command of the first screen can be run as it stands; there are two at most."""
    _, out, _ = hlo(str(dump), "--format", "screen")
    lines = [line.removeprefix("next:").strip() for line in out[out.index("next: ") :].splitlines()]
    assert 1 <= len(lines) <= 2
    assert {line.split()[1] for line in lines} <= {"memspace", "lint", "schedule", "report"}
    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert hlo(*shlex.split(line)[1:])[0] in (0, 1)


@pytest.mark.parametrize("word", ["[" * 60_000, "*" * 60_000, "a[" * 30_000])
def test_a_long_word_is_refused_soon(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with soon(2):
        assert [cli.main([*command, word], standalone=False) for command in ([], ["parse"])] == [2, 2]
    assert "error: " in capsys.readouterr().err


def test_a_directory_of_messages_names_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "b.log"
    message.write_text("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    (tmp_path / "a.txt").write_text("step 1")
    assert cli.main([str(tmp_path)], standalone=False) == 2
    assert f"to explain the message in a file, run `hlo {message}`" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "term"), [("recompile", "recompilation"), ("retrace", "retracing")])
def test_another_form_of_a_word_has_its_entry(word: str, term: str, hlo: Callable[..., Answer]) -> None:
    code, out, _ = hlo("help", word)
    assert code == 0
    assert term in out


def test_a_word_that_is_like_none_has_no_suggestion(hlo: Callable[..., Answer]) -> None:
    error = "error: unknown topic 'nosuch'\n  help: run `hlo help` to list all topics\n"
    assert hlo("help", "nosuch") == (2, "", error)


@pytest.mark.parametrize(
    "end",
    [
        'FileNames\n1 "/a',
        'FileNames\n1 "/a.py"\n',
        "StackFrames\n",
        "StackFrames\n9",
        'FunctionNames\n2 "f"\n3',
    ],
)
def test_a_dump_that_is_cut_in_its_tables_is_truncated(end: str, tmp_path: Path, hlo: Callable[..., Answer]) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(f"HloModule jit_f, is_scheduled=true\n\n{end}")
    code, _, err = hlo("memspace", str(path))
    assert code == 2
    assert err.startswith("error: unexpected end of input in the tables of stack frames, before the first computation")
    assert "help: the file is truncated: copy or dump it again" in err


@pytest.mark.parametrize("arguments", [("help",), ("--help",), (), *((name, "--help") for name in cli.COMMANDS)])
def test_help_fits_a_terminal_of_80_columns(arguments: tuple[str, ...], hlo: Callable[..., Answer]) -> None:
    _, out, err = hlo(*arguments)
    assert [line for line in (out or err).splitlines() if len(line) > 80] == []
