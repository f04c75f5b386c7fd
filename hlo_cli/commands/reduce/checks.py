"""A user's command run on a candidate: in a folder of its own, with limits, and with nothing left behind.

The command may hang, fork, fill the disk, or print without end. It gets its own process group and a mark in its
environment, which its children inherit: all of them are killed when it ends or a limit is reached.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass

_KEPT_OUTPUT: Final = 1 << 20
"""Bytes of output that are searched: a message of a compiler that quotes a module of a megabyte is found whole."""
_MOST_OUTPUT: Final = 1 << 26
"""Bytes of output after which a command is killed: 64 MiB, a thousand times what a compiler prints."""
_MOST_FILE_BYTES: Final = 1 << 28
"""Bytes of one file that a command writes: dumps of a module as large as its input by far."""
_MOST_FOLDER_BYTES: Final = 1 << 30
"""Bytes of all files in its folder, looked at every `_LOOK` seconds."""
_LOOK: Final = 0.2  # a disk writes 100 MB in that time: what is over the limit then is gone a moment later
_ROUNDS: Final = 50  # of kills: a process that forks all the time is hit when it waits for its turn
_MARK: Final = "HLO_REDUCE_CHECK"
_PREFIX: Final = "hlo-reduce-"
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code, negative for a signal; or the limit that it reached; and what it printed."""

    code: int | None
    limit: str = ""
    output: str = ""

    def __str__(self) -> str:
        if self.limit:
            return f"{self.limit} limit reached"
        return f"exit code {self.code}" if self.code is None or self.code >= 0 else f"ended by signal {-self.code}"


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder in which commands get their own ones, and the mark of all their processes."""

    folder: str
    mark: str

    def kill(self) -> None:
        """Kills what is left of commands whose own process was killed."""
        _kill_marked(self.mark)


@contextmanager
def scratch(parent: str | None = None) -> Iterator[Scratch]:
    """A folder for commands, in a parent if there is one, which is removed at the end with all processes.

    What an earlier process that was killed has left in the parent is removed, and the parent itself if it is empty.
    """
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
        for name in os.listdir(parent):
            if name.startswith(_PREFIX):
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    # Commands run in folders of their own, where a relative path would be another.
    folder = os.path.abspath(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    found = Scratch(folder, os.urandom(8).hex())
    try:
        yield found
    finally:
        found.kill()
        shutil.rmtree(folder, ignore_errors=True)
        if parent is not None:
            with suppress(OSError):  # it has the verdicts of a search that was stopped
                os.rmdir(parent)


@dataclass(frozen=True, slots=True)
class Command:
    """A command line for a shell, in which `{}` is the path of the module; without it, the path is its last word."""

    line: str
    seconds: float
    max_bytes: int
    scratch: Scratch

    def run(self, text: str | None, environment: Mapping[str, str] = MappingProxyType({})) -> Outcome:
        """How the command ends for a module, or without one, with further variables in its environment.

        >>> with scratch() as place:
        ...     Command("grep -q HloModule {}; exit 3", 10, 1 << 32, place).run("HloModule m").code
        3
        """
        folder = tempfile.mkdtemp(dir=self.scratch.folder)
        try:
            line = self.line
            if text is not None:
                path = os.path.join(folder, "module.hlo")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                given = shlex.quote(path)
                line = line.replace("{}", given) if "{}" in line else f"{line} {given}"
            return self._run(line, folder, environment)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, line: str, folder: str, more: Mapping[str, str]) -> Outcome:
        mark = f"{self.scratch.mark}.{os.urandom(8).hex()}"
        environment = {**os.environ, **more, _MARK: mark, "TMPDIR": folder}
        process = subprocess.Popen(
            line,
            shell=True,
            cwd=folder,
            env=environment,
            # A command that asks a question would wait for its answer.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if sys.platform == "win32" else self._set_limits,
        )
        try:
            return self._watch(process, folder)
        finally:
            _kill_all(process, mark)

    def _set_limits(self) -> None:
        """Limits of the new process, set before the command begins."""
        import resource

        for kind, most in (
            (resource.RLIMIT_AS, self.max_bytes),
            (resource.RLIMIT_FSIZE, _MOST_FILE_BYTES),
            # A compiler that crashes a thousand times would leave as many core files.
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):
                hard = resource.getrlimit(kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (most, most))
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # so that it does not outlive a process that was killed
                import ctypes

                ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)

    def _watch(self, process: subprocess.Popen[bytes], folder: str) -> Outcome:
        """Reads what the command prints until it ends or reaches a limit."""
        assert process.stdout is not None
        until, next_look = time.monotonic() + self.seconds, time.monotonic() + _LOOK
        head, tail, count = bytearray(), bytearray(), 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(min(_LOOK, max(until - time.monotonic(), 0)))
                data = os.read(process.stdout.fileno(), 1 << 16) if ready else None
                if data:
                    count += len(data)
                    tail += data
                    if len(head) < _KEPT_OUTPUT:
                        head += data
                    del tail[: max(len(tail) - _KEPT_OUTPUT, 0)]
                limit = "time" if time.monotonic() >= until else "output" if count > _MOST_OUTPUT else ""
                if not limit and time.monotonic() >= next_look:
                    limit = "disk" if _bytes_in(folder) > _MOST_FOLDER_BYTES else ""
                    next_look = time.monotonic() + _LOOK
                output = (head if count <= _KEPT_OUTPUT else head + tail).decode(errors="replace")
                if limit:
                    return Outcome(None, limit, output)
                # A child may hold the pipe after the command has ended: what it would print does not count.
                if data == b"" or (not data and process.poll() is not None):
                    with suppress(subprocess.TimeoutExpired):
                        return Outcome(process.wait(max(until - time.monotonic(), 0)), "", output)
                    return Outcome(None, "time", output)


def _bytes_in(folder: str) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _kill_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kills the command, its process group, and all processes with its mark."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    _kill_marked(mark)
    if process.stdout is not None:
        process.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LOOK * _ROUNDS)


def _kill_marked(mark: str) -> None:
    """Kills all processes whose mark begins so, and waits until none is left."""
    for _ in range(_ROUNDS):
        marked = _marked(mark)
        if not marked:
            break
        for number in marked:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(_LOOK / _ROUNDS)  # what was killed needs a moment to end


def _marked(mark: str) -> list[int]:
    """The processes whose environment has the mark; a zombie has none any more. Known on Linux alone."""
    if sys.platform != "linux":
        return []
    found, wanted = [], f"\0{_MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in b"\0" + file.read():
                    found.append(int(name))
    return found


def has_match(pattern: str, outcome: Outcome) -> bool:
    """Whether the output of a command has a match."""
    return re.search(pattern, outcome.output, re.MULTILINE) is not None
