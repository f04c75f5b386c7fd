"""Kept answers: the second run writes the same bytes, and no change of what an answer depends on goes unnoticed."""

from __future__ import annotations

import ast
import io
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import pytest

import golden
import in_process
from hlo_cli.cli import main
from hlo_cli.commands.front import kept_answers
from parsed import PACKAGE, files, nodes_of, text_of

TEXT = """HloModule m, is_scheduled=true

ENTRY e {
  p = f32[1024]{0} parameter(0)
  a = f32[1024]{0} add(p, p)
  ROOT r = f32[1024]{0} multiply(a, p)
}
"""


class Runs:
    """Runs command lines with a cache of their own, and counts those that were computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch, self.cache, self.computed = monkeypatch, folder / "cache" / "hlo", 0

    def __call__(self, *words: str) -> tuple[int, bytes, bytes]:
        """The exit code and what was written."""
        streams = io.BytesIO(), io.BytesIO()
        self.patch.setattr(sys, "stdout", io.TextIOWrapper(streams[0], encoding="utf-8"))
        self.patch.setattr(sys, "stderr", io.TextIOWrapper(streams[1], encoding="utf-8"))
        code = kept_answers.answer(words, self._run)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return code, streams[0].getvalue(), streams[1].getvalue()

    def _run(self, words: Sequence[str]) -> int:
        self.computed += 1
        return main(list(words), standalone=False)

    def is_new(self, *words: str) -> bool:
        """Whether a command line is computed; if not, the kept answer is compared with a computed one."""
        before = self.computed
        found = self(*words)
        is_new = self.computed > before
        if not is_new:
            shutil.rmtree(self.cache)
            assert found == self(*words)
        return is_new

    @property
    def answers(self) -> list[Path]:
        """The files of the cache."""
        return sorted(self.cache.iterdir()) if self.cache.exists() else []


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    """A cache that keeps answers of any length, about files of any age."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("_LEAST_SECONDS", "_LEAST_BYTES", "_RACY"):
        monkeypatch.setattr(kept_answers, name, 0)
    work = tmp_path / "work"
    work.mkdir()
    (work / "m.txt").write_text(TEXT)
    monkeypatch.chdir(work)
    return Runs(monkeypatch, tmp_path)


COMMANDS = (
    ("memspace", "m.txt"),
    ("memspace", "m.txt", "--chip", "v5e", "--json"),
    ("schedule", "m.txt", "--chip", "v5e"),
    ("fuse", "m.txt"),
    ("lint", "m.txt"),
    ("overview", "m.txt"),
    ("diff", "m.txt", "m.txt"),
    ("m.txt",),
    ("parse", "."),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_second_answer_is_the_same(runs: Runs, words: tuple[str, ...]) -> None:
    first = runs(*words)
    assert runs(*words) == first
    assert runs.computed == 1
    assert first[0] in (0, 1)


def test_a_changed_byte_is_a_new_answer(runs: Runs) -> None:
    runs("memspace", "m.txt")
    Path("m.txt").write_text(TEXT.replace("add(", "sub(").replace("sub(", "and("))
    assert runs.is_new("memspace", "m.txt")
    status = os.stat("m.txt")
    runs("memspace", "m.txt")
    Path("m.txt").write_text(TEXT.replace("multiply", "subtract"))  # of the same size, and with the same time
    os.utime("m.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert runs.is_new("memspace", "m.txt")


def test_a_file_next_to_the_dump_is_a_new_answer(runs: Runs) -> None:
    name = "module_0001.m.after_optimizations"
    Path(f"{name}.txt").write_text(TEXT)
    runs("memspace", f"{name}.txt")
    assert not runs.is_new("memspace", f"{name}.txt")
    Path(f"{name}-buffer-assignment.txt").write_text("BufferAssignment:\n")
    assert runs.is_new("memspace", f"{name}.txt")
    runs("parse", ".")
    Path("module_0002.n.after_optimizations.txt").write_text(TEXT)
    assert runs.is_new("parse", ".")


def test_settings_above_are_a_new_answer(runs: Runs) -> None:
    runs("lint", "m.txt")
    Path("../hlo.toml").write_text("")
    assert runs.is_new("lint", "m.txt")


def test_what_else_decides_is_a_new_answer(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs("memspace", "m.txt")
    assert runs.is_new("memspace", "m.txt", "--json")
    runs("memspace", "m.txt")
    monkeypatch.setenv("COLUMNS", "120")
    assert runs.is_new("memspace", "m.txt")
    runs("memspace", "m.txt")
    monkeypatch.setattr(kept_answers, "_package_state", lambda: "another")
    assert runs.is_new("memspace", "m.txt")


@pytest.mark.parametrize("words", [("memspace", "m.txt", "-o", "out.json"), ("memspace", "no.txt", "m.txt")])
def test_files_that_are_written_and_errors_are_not_kept(runs: Runs, words: tuple[str, ...]) -> None:
    runs(*words)
    runs(*words)
    assert runs.computed == 2
    assert not runs.answers


def test_standard_input_is_not_kept(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    runs("diff", "m.txt", "-")
    assert not runs.answers


def test_short_work_and_new_files_are_not_kept(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "_RACY", 10**11)
    runs("memspace", "m.txt")
    monkeypatch.setattr(kept_answers, "_RACY", 0)
    monkeypatch.setattr(kept_answers, "_LEAST_SECONDS", 100)
    runs("memspace", "m.txt")
    assert not runs.answers


def _damaged(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    kind = chance.randrange(4)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    return data + data[at:] if kind == 2 else data[:at] + chance.randbytes(9) + data[at:]


def _check_damage(runs: Runs, count: int) -> None:
    first = runs("memspace", "m.txt")
    (path,) = runs.answers
    whole, chance = path.read_bytes(), random.Random(count)
    for _ in range(count):
        damaged = _damaged(whole, chance)
        path.write_bytes(damaged)
        found = kept_answers._kept(str(path), kept_answers._key(("memspace", "m.txt")))
        assert found is None
    path.write_bytes(_damaged(whole, chance))
    assert runs("memspace", "m.txt") == first
    assert runs.computed == 2


def test_a_damaged_answer_is_computed_again(runs: Runs) -> None:
    _check_damage(runs, 50)


@pytest.mark.slow
def test_many_damaged_answers(runs: Runs) -> None:
    _check_damage(runs, 2000)


def test_the_answer_of_another_command_line_is_none(runs: Runs) -> None:
    runs("memspace", "m.txt")
    (path,) = runs.answers
    runs("fuse", "m.txt")
    other = next(each for each in runs.answers if each != path)
    shutil.copy(other, path)
    assert runs.is_new("memspace", "m.txt")


def test_the_cache_is_private_and_bounded(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs("memspace", "m.txt")
    (path,) = runs.answers
    assert path.stat().st_mode & 0o777 == 0o600
    assert runs.cache.stat().st_mode & 0o777 == 0o700
    runs("fuse", "m.txt")
    (other,) = set(runs.answers) - {path}
    both = path.stat().st_size + other.stat().st_size
    other.unlink()
    os.utime(path, (1, 1))
    abandoned = runs.cache / "x.part"
    abandoned.write_text("")
    os.utime(abandoned, (1, 1))
    monkeypatch.setattr(kept_answers, "_MAX_BYTES", both - 1)
    runs("fuse", "m.txt")
    assert runs.answers == [other]


@pytest.mark.parametrize("kind", ["a file", "a link", "open to all"])
def test_a_directory_that_cannot_be_used_is_no_error(runs: Runs, kind: str) -> None:
    runs.cache.parent.mkdir()
    if kind == "a file":
        runs.cache.write_text("")
    elif kind == "a link":
        runs.cache.symlink_to(Path.cwd())
    else:
        runs.cache.mkdir()
        runs.cache.chmod(0o777)
    assert runs("memspace", "m.txt") == runs("memspace", "m.txt")
    assert runs.computed == 2


def test_a_full_disk_is_no_error(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert runs("memspace", "m.txt") == runs("memspace", "m.txt")
    assert not runs.answers


_PROGRAM = """
import sys
from hlo_cli.commands.front import kept_answers
kept_answers._LEAST_SECONDS = kept_answers._LEAST_BYTES = kept_answers._RACY = 0
from hlo_cli.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_killed_in_the_middle_and_two_at_once(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("HLO_CACHE", "CI")}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    dump = tmp_path / "m.txt"
    dump.write_text(TEXT)
    line = (sys.executable, "-c", _PROGRAM, "memspace", str(dump))
    without = subprocess.run(line, env={**environment, "HLO_CACHE": "0"}, capture_output=True, check=True, timeout=60)
    chance = random.Random(4)
    for turn in range(40):
        if turn % 4 == 0:
            shutil.rmtree(tmp_path / "hlo", ignore_errors=True)
        killed = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        beside = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(chance.random() * 0.3)
        killed.kill()
        killed.wait(60)
        assert beside.communicate(timeout=60) == (without.stdout, without.stderr)
        found = subprocess.run(line, env=environment, capture_output=True, check=True, timeout=60)
        assert (found.stdout, found.stderr) == (without.stdout, without.stderr)


def test_the_terminal_of_standard_input_may_be_asked_but_not_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, the width of the screen is asked of it; the key has that."""
    for number, name in ((1, "stdout"), (2, "stderr"), (0, "stdin")):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(b"" if number else b"text")))
    for ask, is_lasting in ((lambda: sys.stdin.isatty(), True), (lambda: sys.stdin.read(), False)):
        with kept_answers._recorded([]) as record:
            ask()
        assert record.is_lasting == is_lasting


# --- doors ---
# Python reports files that are opened and directories that are listed; whoever asks for the kind, the size, or the time
# of a file has to report that.


DOORS = (
    *COMMANDS,
    ("overview", "."),
    ("lint", "m.txt", "--select", "HLO1"),
    ("parse", "m.txt:a"),
    ("layout", "m.txt", "--by", "source"),
    ("memspace", "dump"),
    ("memspace", "dump/*.txt"),
    ("schedule", "dump"),
    ("shard", "dump"),
    ("fuse", "dump", "a"),
    ("diff", "dump", "m.txt"),
    ("parse", "dump.tar/m.txt"),
    ("lint", "dump.tar"),
)


@pytest.mark.parametrize("words", DOORS, ids=" ".join)
def test_whatever_is_asked_of_files_is_a_fact_of_the_answer(
    runs: Runs, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    located = TEXT.replace("add(p, p)", 'add(p, p), metadata={op_name="f/add" source_file="model.py" source_line=1}')
    stem = "module_0001.jit_f.after_optimizations"
    for name, text in (
        (f"dump/{stem}.txt", located),
        (f"dump/{stem}-memory-usage-report.txt", ""),
        ("model.py", "a\n"),
    ):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    subprocess.run(["tar", "cf", "dump.tar", "m.txt"], check=True)
    records, asked = list[kept_answers.Recording](), list[tuple[str, str]]()
    listen = kept_answers._listen_to

    def note(ask: Callable[..., object]) -> Callable[..., object]:
        def noted(path: object, *more: object, **named: object) -> object:
            if records and records[0].is_running and isinstance(path, str) and path and (caller := caller_in_package()):
                asked.append((path, caller))
            return ask(path, *more, **named)

        return noted

    def listen_to(record: kept_answers.Recording) -> None:
        records.append(record)
        listen(record)

    monkeypatch.setattr(kept_answers, "_listen_to", listen_to)
    for name in ("stat", "lstat", "access", "readlink"):
        monkeypatch.setattr(os, name, note(getattr(os, name)))
    runs(*words)
    record = records[0]
    facts = {os.path.abspath(path) for path in (*record.files, *record.kinds, *record.folders)}
    folders = {os.path.abspath(path) for path in record.folders}
    unreported = [
        (path, caller) for path, caller in asked
        if os.path.abspath(path) not in facts and os.path.dirname(os.path.abspath(path)) not in folders
    ]  # fmt: skip
    assert asked, "nothing was asked: the test sees no questions any more"
    assert not record.is_lasting or unreported == []


def caller_in_package() -> str:
    """The nearest function of the package that is running; empty if Python's import or the cache itself asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or name.endswith("kept_answers.py"):
            return ""
        if "/hlo_cli/" in name:
            return f"{name.rpartition('/hlo_cli/')[2]}:{frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def test_goldens_are_the_same_cold_and_kept(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_commands = ("diff", "fuse", "layout", "lint", "memspace", "overview", "parse", "schedule", "shard")
    monkeypatch.setattr(kept_answers, "_RACY", 0)
    computed = list[Sequence[str]]()

    def run(words: list[str], *, standalone: bool) -> int:
        def compute(line: Sequence[str]) -> int:
            computed.append(line)
            return main(list(line), standalone=standalone)

        return kept_answers.answer(words, compute)

    monkeypatch.setattr(in_process, "main", run)
    cases = [case for case in golden.cases() if case.parent.name in kept_commands][::15]
    for case in cases:
        cold, kept = golden.answered(case), golden.answered(case)
        assert cold == kept == case.read_text(encoding="utf-8"), golden.name_of(case)
    assert len(computed) < 1.5 * len(cases), "hardly any answer was kept"


_ASKING = frozenset((
    *("exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "getctime", "samefile", "stat", "lstat"),
    *("access", "readlink", "is_file", "is_dir", "is_symlink"),
))  # fmt: skip
_NEVER_KEPT = (
    *(f"commands/{room}/" for room in ("bisect", "graph", "help", "profile", "reduce", "report", "run", "tile_index")),
    *("read_traces.py", "library.py", "commands/options/writing.py", "commands/options/completion.py"),
    "commands/front/kept_answers.py",
)
"""Rooms of commands that are not kept, what they read, what writes files, and what only Python programs call."""
_REPORTED_BY_OTHERS = {
    "commands/fuse/command.py:_input_and_name": "an argument, which is a fact of each answer",
    "commands/kernel/command.py:_input_and_name": "an argument",
    "commands/overview/command.py:command": "an argument",
    "commands/shape/argument.py:shape_text": "an argument",
    "commands/shape/argument.py:is_plain_shape": "an argument",
    "commands/shape/argument.py:resolve_name": "an argument, and the part before its colon",
    "commands/shard/command.py:_of_dump": "an argument",
    "commands/shard/reshard.py:_text_of": "an argument",
    "analysis/evaluate/arguments.py:arrays_in": "members of an archive that was opened",
    "inputs/containers.py:_zip": "members of an archive that was opened",
    "inputs/containers.py:_top": "an archive that is opened next",
    "inputs/files.py:opened": "a file that is opened next",
    "inputs/files.py:paths_matching": "a directory that is listed next",
    "inputs/input.py:glob_paths": "names in a directory that was listed",
    "inputs/input.py:_is_broken": "names in a directory that was listed",
    "inputs/dumps.py:read_directory": "names in a directory that was listed",
    "inputs/dumps.py:_can_be_read": "names in a directory that was listed",
    "inputs/dumps.py:_is_folder": "names in a directory that was listed",
    "inputs/dumps.py:kinds_in": "names in a directory that was listed",
    "inputs/forms.py:is_remote": "reported by its callers in inputs/files.py",
    "inputs/forms.py:archive_above": "reported by its callers in inputs/files.py; parents are part of the kind of a path",
}
"""Functions that ask for the kind of a path without reporting it, and who does."""


@pytest.mark.code
def test_no_other_function_asks_for_a_file_without_reporting_it() -> None:
    found = set[str]()
    for path in files():
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(_NEVER_KEPT) or not any(f".{name}(" in text_of(path) for name in _ASKING):
            continue
        for function in nodes_of(path):
            if isinstance(function, ast.FunctionDef):
                called = [each.func for each in ast.walk(function) if isinstance(each, ast.Call)]
                methods = {each.attr for each in called if isinstance(each, ast.Attribute)}
                is_reported = "audit" in methods or any(
                    isinstance(each, ast.Name) and each.id == "_report" for each in called
                )
                if methods & _ASKING and not is_reported:  # plain names are the doors of inputs/files.py
                    found.add(f"{place}:{function.name}")
    assert found == set(_REPORTED_BY_OTHERS)
