"""Files that attack: without an end, of terabytes that are not there, pipes with the names of dumps, planted links."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import pytest

from hlo_cli import cli
from hlo_cli.commands.options import declaring
from hlo_cli.commands.options.writing import atomic_write
from hlo_cli.inputs import parallel
from hlo_cli.inputs.files import read_bytes
from hlo_cli.inputs.parallel import in_order
from hlo_cli.source import HloError
from parsed import PACKAGE, files, nodes_of, text_of

MODULE = "HloModule m\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  ROOT r = f32[8]{0} negate(p)\n}\n"
ROOT = Path(cli.__file__).parent.parent
GIB = 1 << 30

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/zero and limits of memory")


def hlo(*arguments: str) -> int:
    return cli.main(list(arguments), standalone=False)


def started(*arguments: str, cwd: Path, code: str = "", memory: int = 0) -> subprocess.CompletedProcess[str]:
    """A process of its own; `code` runs first in it, and `memory` bounds it."""
    import resource

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nfrom hlo_cli.cli import main\nmain(sys.argv[1:])", *arguments],
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        text=True,
        check=False,
        timeout=100,
        preexec_fn=bound if memory else None,
    )


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return path


READERS = {
    "dump": ("parse", "FILE"),
    "out of memory": ("memspace", "--oom", "FILE"),
    "trace": ("profile", "FILE"),
    "assertions": ("lint", "m.hlo", "--expect", "FILE"),
    "baseline": ("lint", "m.hlo", "--baseline", "FILE"),
    "arguments": ("run", "m.hlo", "--args", "FILE"),
    "raw arguments": ("run", "m.hlo", "--args", "raw:FILE"),
    "code": ("run", "m.hlo", "--stub", "target=FILE"),
    "chips": ("schedule", "m.hlo", "--chip-file", "FILE"),
    "comparison": ("diff", "m.hlo", "FILE"),
    "profile of a report": ("report", "m.hlo", "--profile", "FILE"),
}
"""Every kind of file that a command line names, and a command that reads it."""


@linux_only
@pytest.mark.parametrize("name", READERS)
def test_no_file_is_read_without_limit(name: str, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """/dev/zero has no end; a sparse file has 3 GB on no disk. Each is one error, before much is read."""
    sparse = dump.parent / "sparse"
    with open(sparse, "wb") as file:
        file.write(b"HloModule m\nENTRY e {")
        file.truncate(3 * GIB)
    for path in ("/dev/zero", "sparse"):
        limits = ("--max-memory", "1GiB") if name.endswith("arguments") else ()
        assert hlo(*(word.replace("FILE", path) for word in READERS[name]), *limits) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert any(words in error for words in ("zero bytes", "binary", "limit", "not a profiler trace")), error


@pytest.mark.slow
@linux_only
def test_an_endless_stream_of_other_bytes_ends_too(dump: Path) -> None:
    done = started("lint", "m.hlo", "--expect", "/dev/urandom", cwd=dump.parent, memory=2 * GIB)
    assert done.returncode == 2
    assert done.stderr.startswith("error: /dev/urandom has more than 67,108,864 bytes\n")


def header(shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def bomb(path: Path, name: str, shape: tuple[int, ...], size: int) -> None:
    """An archive of a few MB whose array has a size of GB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open(name, "w", force_zip64=True) as member:
        member.write(header(shape))
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("zzz.npy", (60, 1 << 18), "unknown parameter 'zzz'"),
        ("p.npy", (60, 1 << 18), "array 'p' in bomb.npz is [60, 262144], but p is f32[8]{0}"),
        ("p.npy", (8,), "the header of p.npy states 32 bytes of data, found 62,914,560"),
        ("p.npy", (1 << 40, 1 << 40), "invalid shape"),
    ],
)
def test_arrays_are_inflated_only_if_name_and_shape_fit(
    name: str, shape: tuple[int, ...], words: str, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tracemalloc

    bomb(dump.parent / "bomb.npz", name, shape, 60 << 20)
    tracemalloc.start()
    try:
        assert hlo("run", "m.hlo", "--args", "bomb.npz") == 2
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("given", [("tile-index", "f32[3,4]"), ("run", "m.hlo", "--args")])
@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3, ",  # does not tokenize
        "{'descr': '<i8', 'fortran_order': False, 'shape': 'x'}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': " + "[" * 3000,
        "\x00\x00",
    ],
)
def test_headers_of_arrays_may_be_anything(
    given: tuple[str, ...], text: str, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = text.encode() + b" " * 60 + b"\n"
    (dump.parent / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data + bytes(48))
    assert hlo(*given, "x.npy") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "internal" not in error


# --- directories ---


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize(
    "line",
    [
        ("memspace", "d"),
        ("parse", "d", "--each"),
        ("lint", "d/*.txt"),
        ("layout", "d", "--jobs", "2"),
        ("diff", "d", "d"),
        ("d",),
    ],
)
def test_pipes_with_names_of_dumps_are_passed_over(line: tuple[str, ...], dump: Path) -> None:
    """Nothing ever comes of a pipe in a directory; of one that is named, what is written to it."""
    folder = dump.parent / "d"
    folder.mkdir()
    (folder / "module_0001.jit_f.after_optimizations.txt").write_text(MODULE)
    for name in ("module_0002.jit_g.after_optimizations", "module_0001.jit_f.after_optimizations-buffer-assignment"):
        os.mkfifo(folder / f"{name}.txt")
    done = started(*line, cwd=dump.parent)
    assert done.returncode in (0, 1), done.stderr
    assert "jit_g" not in done.stdout


@linux_only
def test_a_folder_of_pipes_has_no_dumps(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = dump.parent / "d"
    folder.mkdir()
    for name in ("a.after_optimizations.txt", "vm.xplane.pb"):
        os.mkfifo(folder / name)
    assert hlo("parse", "d") == 2
    assert "contains no regular files" in capsys.readouterr().err
    assert hlo("profile", "d") == 2
    assert "no traces found in d/" in capsys.readouterr().err


@linux_only
def test_a_named_pipe_is_read(dump: Path) -> None:
    os.mkfifo(dump.parent / "pipe")
    writes = [sys.executable, "-c", f"open('pipe', 'w').write({MODULE!r})"]
    with subprocess.Popen(writes, cwd=dump.parent) as writer:
        try:
            done = started("memspace", "pipe", cwd=dump.parent)
        finally:
            writer.kill()  # it would wait for a reader that never came
    assert done.returncode == 0, done.stderr


# --- writing ---


def test_nobody_can_plant_the_file_that_is_written(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link with the name that an unfinished file would get is neither followed nor written to."""
    victim, folder = dump.parent / "victim", dump.parent / "out"
    victim.write_text("precious")
    folder.mkdir()
    guesses = [bytes(8), bytes(8), bytes([1]) * 8]
    (folder / f".hlo-{bytes(8).hex()}.part").symlink_to(victim)
    (folder / f"x.json.{os.getpid()}.part").symlink_to(victim)
    monkeypatch.setattr(os, "urandom", lambda count: guesses.pop(0))
    assert hlo("layout", "f32[8]", "-o", "out/x.json") == 0
    assert victim.read_text() == "precious"
    assert (folder / "x.json").read_text().startswith("{")
    assert sorted(os.listdir(folder)) == sorted([f".hlo-{bytes(8).hex()}.part", "x.json", f"x.json.{os.getpid()}.part"])


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """As two processes with one number, in containers with one volume: each writes a file of its own."""
    target = tmp_path / "x"

    def slowly() -> object:
        yield b"a" * 100
        atomic_write([b"b" * 50], str(target))
        yield b"a" * 100

    atomic_write(slowly(), str(target))  # type: ignore[arg-type]
    assert target.read_bytes() == b"a" * 200
    assert os.listdir(tmp_path) == ["x"]


def test_modes_stay(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for path in (new, old):
            atomic_write([b"x"], str(path))
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, old)] == [0o640, 0o640]


KILLED = """
import os, signal
from hlo_cli.commands.{place} import {name} as written
import hlo_cli.commands.{place} as place

def killed(*given, **named):
    os.kill(os.getpid(), {number})
    return written(*given, **named)

place.{name} = killed
"""


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize(
    ("line", "place", "name"),
    [
        (("parse", "m.hlo", "-o", "x.json"), "options.writing", "_new_file"),
        (("report", "m.hlo", "m.hlo", "-o", "out/index.html"), "report.index", "summary_of"),
    ],
)
def test_signals_leave_nothing_behind(line: tuple[str, ...], place: str, name: str, number: int, dump: Path) -> None:
    (dump.parent / "out").mkdir()
    done = started(*line, cwd=dump.parent, code=KILLED.format(place=place, name=name, number=int(number)))
    assert (done.returncode, done.stderr) == (128 + number, "")
    assert sorted(os.listdir(dump.parent)) == ["m.hlo", "out"]
    assert os.listdir(dump.parent / "out") == []


@pytest.mark.slow
@linux_only
def test_a_hangup_that_is_ignored_stays_so(dump: Path) -> None:
    """As under `nohup`."""
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    code += KILLED.format(place="options.writing", name="_new_file", number=int(signal.SIGHUP))
    done = started("parse", "m.hlo", "-o", "x.json", cwd=dump.parent, code=code)
    assert (done.returncode, (dump.parent / "x.json").exists()) == (0, True)


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("line", [("--version",), ("--help",), ("help", "layout"), ("parse", "m.hlo", "--json")])
def test_a_closed_stdout_is_an_error(line: tuple[str, ...], dump: Path) -> None:
    words = f'"{sys.executable}" -m hlo_cli {" ".join(line)} >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (2, "error: stdout is closed: Bad file descriptor\n")


@linux_only
def test_with_a_closed_stdout_files_are_written(dump: Path) -> None:
    words = f'"{sys.executable}" -m hlo_cli parse m.hlo -o x.json >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", words], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=100
    )
    assert (done.returncode, (dump.parent / "x.json").read_text()[0]) == (0, "{")


# --- what is no file ---


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("gs://bucket/m.txt", "gcloud storage cat gs://bucket/m.txt | hlo -"),
        ("s3://bucket/a b.txt", "aws s3 cp 's3://bucket/a b.txt' - | hlo -"),
        ("gs://bucket/dump/", "gcloud storage cp -r gs://bucket/dump/ dump/"),
        ("gs://bucket/*.txt", "gcloud storage cp -r 'gs://bucket/*.txt' dump/"),
        ("cns://cell/m.txt", ""),
    ],
)
@pytest.mark.parametrize(
    "line", [(), ("memspace",), ("profile",), ("lint", "m.hlo", "--expect"), ("run", "m.hlo", "--args")]
)
def test_urls_of_stores_need_fsspec(
    path: str,
    hint: str,
    line: tuple[str, ...],
    dump: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert hlo(*line, path) == 2
    other = f", or `{hint}`" if hint else ""
    found = capsys.readouterr().err
    assert (
        found
        == f"error: {path} needs fsspec, which is not installed\n  help: run `pip install 'hlo-cli[remote]'`{other}\n"
    )


def test_url_of_a_local_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert hlo("memspace", "file:///tmp/a b.txt") == 2
    words = "error: file:///tmp/a b.txt is the URL of a local file\n  help: pass '/tmp/a b.txt'\n"
    assert capsys.readouterr().err == words


INTERRUPTING = """
import builtins, os, signal
imported = builtins.__import__

def interrupted(name, globals=None, locals=None, fromlist=(), level=0):
    if name == {name!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, globals, locals, fromlist, level)

builtins.__import__ = interrupted
import weakref

class Left: pass

def interrupt_in_a_callback(_):
    if {name!r} == "callback":
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(10))

import sys
sys.argv[1:] = ["layout", "f32[8]", *(["-q"] if "plain" not in {name!r} else [])]
from hlo_cli.__main__ import main
if {name!r} == "callback":
    import hlo_cli.cli

    def with_callback(*_, **__):
        left = Left()
        kept = weakref.ref(left, interrupt_in_a_callback)
        del left
        return 0

    hlo_cli.cli.main = with_callback
main()
"""


@linux_only
@pytest.mark.parametrize(
    "name",
    ["hlo_cli.cli", "hlo_cli.commands.front.plain_shapes", "click", "hlo_cli.commands.front.command_table", "callback"],
)
def test_an_interrupt_during_imports_is_quiet(name: str, dump: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTING.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# --- workers ---


def _signaled(path: str, number: int) -> int:
    """The number; those of three and seven are stopped first, and five is killed."""
    if number in (3, 7):
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGSTOP)
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _large(number: int) -> bytes:
    """An answer larger than a pipe, in the middle of which the process is stopped by its child."""
    if number == 2 and os.fork() == 0:
        waits, end = Path(f"/proc/{os.getppid()}/wchan"), time.monotonic() + 5
        # The socket is full, and most of the answer is not in it.
        while "sock_alloc" not in waits.read_text() and time.monotonic() < end:
            pass
        os.kill(os.getppid(), signal.SIGSTOP)
        os._exit(0)
    return bytes(1 << 27) if number == 2 else bytes(1)


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_is_stopped_is_replaced(jobs: int, tmp_path: Path) -> None:
    stopped, late, lost = tmp_path / "stopped", list[int](), list[int]()

    def noted(numbers: list[int], number: int) -> int:
        numbers.append(number)
        return -number

    found = in_order(
        partial(_signaled, str(stopped)),
        range(12),
        jobs=jobs,
        timeout=1.5,
        late=partial(noted, late),
        lost=partial(noted, lost),
    )
    assert list(found) == [0, 1, 2, -3, 4, -5, 6, -7, 8, 9, 10, 11]
    assert (sorted(late), lost) == ([3, 7], [5])
    for line in stopped.read_text().split():
        assert not Path(f"/proc/{line}").exists() or "Z" in Path(f"/proc/{line}/stat").read_text()


@pytest.mark.slow
@linux_only
def test_a_worker_may_be_stopped_in_the_middle_of_an_answer() -> None:
    found = in_order(_large, range(1, 5), jobs=2, timeout=2, late=lambda _: b"late", lost=lambda _: b"lost")
    assert list(found) == [bytes(1), b"late", bytes(1), bytes(1)]


def _stopped_at_once(_: object) -> int:
    return 0


@pytest.mark.slow
@linux_only
def test_a_worker_that_does_not_read_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The item is larger than a pipe, and its process is stopped before it reads it."""
    serve = parallel._serve

    def stopped(pipe: object, copied: object) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        serve(pipe, copied)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel, "_serve", stopped)
    found = in_order(_stopped_at_once, [bytes(1 << 24)] * 2, jobs=2, timeout=1.5, late=lambda _: 7, lost=lambda _: 8)
    assert list(found) == [7, 7]


STOPPING = """
import os, signal
from hlo_cli import scan_modules
read = scan_modules.read_module_ref

def stopping(piece):
    if piece.path in {paths}:
        os.kill(os.getpid(), {number})
    return read(piece)

scan_modules.read_module_ref = stopping
"""


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("line", [("memspace",), ("lint",), ("diff", "--each", "a", "b")])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_input_of_a_lost_worker_is_reported(line: tuple[str, ...], number: int, dump: Path) -> None:
    for folder in ("a", "b"):
        (dump.parent / folder).mkdir()
        for name in ("module_0001.jit_f", "module_0002.jit_g"):
            (dump.parent / folder / f"{name}.after_optimizations.txt").write_text(MODULE)
    inputs = () if "diff" in line else ("a",)
    code = STOPPING.format(paths=["a/module_0002.jit_g.after_optimizations.txt"], number=int(number))
    done = started(*line, *inputs, "--jobs", "2", "--timeout", "2", cwd=dump.parent, code=code)
    words = "no answer within 2 seconds (--timeout)" if number == signal.SIGSTOP else "worker process died"
    assert (done.returncode, words in done.stderr, "jit_g" in done.stderr) == (2, True, True), done.stderr


def test_a_timeout_without_jobs_applies_to_one_process(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hlo("parse", "m.hlo", "--timeout", "60") == 0
    assert capsys.readouterr().out.startswith("#module\t")
    assert hlo("parse", "m.hlo", "--timeout", "0") == 2
    assert "--timeout: expected an integer of at least 1" in capsys.readouterr().err
    assert f"{parallel.DEFAULT_TIMEOUT:g} with --jobs" == declaring.DEFAULT_TIMEOUT_TEXT


def test_the_limit_is_named(tmp_path: Path) -> None:
    (tmp_path / "three").write_bytes(b"abc")
    with pytest.raises(HloError, match="has 3 bytes; the limit is 2"):
        read_bytes(str(tmp_path / "three"), limit=2)


OPENERS = {
    "cli.py": "opens the null device in place of closed streams",
    "inputs/containers.py": "reads archives, within limits",
    "inputs/files.py": "reads, within limits",
    "commands/options/writing.py": "writes, atomically",
    "commands/reduce/checks.py": "writes the module for a command in its own directory, and reads /proc",
    "commands/reduce/results.py": "writes into a directory of its own, and reads what it wrote of an earlier search",
    "commands/run/command.py": "reads /proc",
    "commands/front/kept_answers.py": "reads and writes the cache, and compares files with what was read, block by block",
}
"""The only files of the package that open others."""


@pytest.mark.code
def test_every_file_is_opened_in_one_place() -> None:
    """Whatever else calls `open` or numpy's `load` has no limits."""
    import ast

    for path in files():
        if path.relative_to(PACKAGE).as_posix() in OPENERS or "open(" not in text_of(path):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert ast.unparse(node.func) not in ("np.load", "io.open", "os.open"), f"{path}:{node.lineno}"
