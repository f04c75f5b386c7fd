"""Was this command line answered before? Output that took long is kept in the user's cache, for as long as it holds.

What is kept is what was written to standard output and standard error, with the exit code. It depends on the command
line, the terminal, the environment, and the package, which are its key, and on every file and directory that was read
or looked for, which are its facts: Python itself reports those (`sys.addaudithook`), whichever code reads them, and
`inputs.files` those whose existence alone was asked. An answer is used only if all facts hold; files are compared by
their content. It is not kept if anything else may have decided it: standard input, another process, a network, a file
that was written, a file that changed within the last seconds. Whatever goes wrong with the cache, the command runs.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import process_time, time, time_ns
from typing import TYPE_CHECKING, Final, TextIO
from zlib import crc32

from hlo_cli._version import __version__

if TYPE_CHECKING:
    from types import FrameType

# --- which command lines, and where ---

_LEAST_BYTES: Final = 1 << 19
"""Bytes of the files that a command line names, for which an answer is looked up: less is answered sooner than
`_LEAST_SECONDS` by nearly all commands, and recording takes some 10 ms."""
_PACKED: Final = 10
"""How many times its size a compressed dump is: HLO packs that well."""
_LEAST_SECONDS: Final = 0.3
"""Processor time of an answer that is kept: what is shorter nobody waits for."""
_MAX_ANSWER_BYTES: Final = 1 << 24
"""Bytes of an answer that is kept; a longer one is written to a file or a pipe, and not looked at."""
_MAX_BYTES: Final = 200_000_000
"""Bytes of all answers together; the least recently used are deleted first."""
_MAX_FACTS: Final = 10_000
"""Files and directories that an answer may depend on: comparing more takes as long as an answer."""
_RACY: Final = 2_000_000_000
"""Nanoseconds for which the time of a change may stay the same, though the file changed again: FAT counts in 2 s."""
_ABANDONED: Final = 3600
"""Seconds after which a file that was not finished is deleted: whoever wrote it was killed."""
_ENVIRONMENT: Final = ("COLUMNS", "CI", "FORCE_COLOR", "HOME", "LANG", "LANGUAGE", "NO_COLOR", "SOURCE_DATE_EPOCH")
_ENVIRONMENT_MORE: Final = ("TERM", "TZ", "COLORTERM", "XDG_CONFIG_HOME")
_PREFIXES: Final = ("HLO_", "LC_", "PYTHON", "XLA_", "JAX_")
"""Beginnings of the variables that are part of the key."""
_MAGIC: Final = b"hlo answer 1\n"
_DIGEST_BYTES: Final = 32
"""Bytes of the digest of an answer: no damage keeps 256 bits of BLAKE2."""


def cache_directory() -> str:
    """The directory of the kept answers: `$XDG_CACHE_HOME/hlo`, else that of the system for caches.

    >>> os.path.basename(cache_directory())
    'hlo'
    """
    if (given := os.environ.get("XDG_CACHE_HOME", "")) and os.path.isabs(given):
        return os.path.join(given, "hlo")
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
        return os.path.join(local, "hlo")
    if sys.platform == "darwin":
        return os.path.join(os.path.expanduser("~"), "Library", "Caches", "hlo")
    return os.path.join(os.path.expanduser("~"), ".cache", "hlo")


def answer(arguments: Sequence[str], run: Callable[[list[str]], int]) -> int:
    """Writes the kept answer of a command line, or runs it and keeps its answer; returns the exit code."""
    if not _may_be_kept(arguments):
        return run(list(arguments))
    try:
        key = _key(arguments)
    except OSError:  # the working directory was deleted
        return run(list(arguments))
    path = os.path.join(cache_directory(), f"{crc32(key.encode()):08x}{crc32(key[::-1].encode()):08x}.answer")
    kept = _kept(path, key)
    if kept is not None:
        return _replay(*kept)
    with _recorded(arguments) as record:
        code = run(list(arguments))
    if record.is_lasting and code in (0, 1):
        _keep(path, key, code, record)
    return code


def _may_be_kept(arguments: Sequence[str]) -> bool:
    """Whether the command line names files of some size, and neither standard input nor another machine."""
    size = 0
    for word in arguments:
        if word == "-" or "://" in word or "\0" in word or word.startswith(("/dev/", "/proc/")):
            return False
        with suppress(OSError, ValueError):
            status = os.stat(word)
            is_packed = word.endswith((".gz", ".xz", ".bz2", ".zst", ".zip"))
            own = status.st_size * (_PACKED if is_packed else 1)
            size += _LEAST_BYTES if stat.S_ISDIR(status.st_mode) else own
    return size >= _LEAST_BYTES and all(getattr(stream, "buffer", None) for stream in (sys.stdout, sys.stderr))


def _key(arguments: Sequence[str]) -> str:
    """All that decides an answer besides files and the package, as text."""
    named = (*_ENVIRONMENT, *_ENVIRONMENT_MORE)
    variables = sorted(
        (name, value) for name, value in os.environ.items() if name in named or name.startswith(_PREFIXES)
    )
    streams = [
        (stream.encoding, stream.errors, stream.isatty(), _size_of_terminal(number))
        for number, stream in ((1, sys.stdout), (2, sys.stderr))
    ]
    streams.append(("", "", bool(sys.stdin and sys.stdin.isatty()), _size_of_terminal(0)))
    return ascii((__version__, sys.version, sys.flags, os.getcwd(), list(arguments), variables, streams))


def _size_of_terminal(stream: int) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(stream)
        return size.columns, size.lines
    except OSError:
        return (0, 0)


def _package_state() -> str:
    """The names, sizes, and times of the package's files, and the times of the directories with other packages."""
    from hashlib import blake2b

    found = blake2b()
    for folder in sys.path:
        with suppress(OSError):
            found.update(ascii((folder, os.stat(folder).st_mtime_ns)).encode())
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for here, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(here, name)
            status = os.stat(path)
            found.update(ascii((path, status.st_size, status.st_mtime_ns)).encode())
    return found.hexdigest()


# --- recording ---


class Recording:
    """What a command wrote and read: `chunks` of streams, and the state of each path when it was used first."""

    def __init__(self) -> None:
        self.chunks = list[tuple[int, bytes]]()
        self.files = dict[str, tuple[int, ...]]()
        self.folders = dict[str, str]()
        self.kinds = dict[str, str]()
        self.is_lasting = True
        self.is_running = True
        self.seconds = process_time()
        self._size = 0

    def add(self, stream: int, data: bytes) -> None:
        """Adds what is written to a stream; a progress bar is nothing to keep."""
        self._size += len(data)
        if self._size > _MAX_ANSWER_BYTES or (stream == 2 and (b"\r" in data or b"\x1b[2K" in data)):
            self.is_lasting = False
        if self.is_lasting:
            self.chunks.append((stream, data))

    def notice(self, event: str, arguments: tuple[object, ...]) -> None:
        """Hears of an event of Python's: a file is opened, a directory is listed, a process is started."""
        if not self.is_running or not self.is_lasting or event not in _EVENTS:
            return
        path = arguments[0] if arguments else None
        if event in ("open", "hlo_cli.size"):
            flags = arguments[2] if len(arguments) > 2 else 0
            self._open(path, flags if isinstance(flags, int) else 0)
        elif event in ("os.listdir", "os.scandir"):
            if not _is_import(sys._getframe(2)):
                self._list("." if path is None else path)
        elif event == "hlo_cli.path" and isinstance(path, str):
            self.kinds.setdefault(path, _kind(path))
        else:
            self.is_lasting = False

    def _open(self, path: object, flags: int) -> None:
        if _is_import(sys._getframe(3)):
            return
        if not isinstance(path, str | bytes | os.PathLike) or flags & _WRITES:
            self.is_lasting = False
            return
        name = os.fsdecode(path)
        if name in self.files:
            return
        try:
            status = os.stat(name)
        except (OSError, ValueError):
            self.kinds[name] = _kind(name)
            return
        newest = max(status.st_mtime_ns, status.st_ctime_ns)
        if not stat.S_ISREG(status.st_mode) or newest > time_ns() - _RACY or len(self.files) > _MAX_FACTS:
            self.is_lasting = False
        self.files[name] = _state(status)

    def _list(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            self.is_lasting = False
            return
        name = os.fsdecode(path)
        if name not in self.folders:
            self.is_running = False  # the listing is not one of the command's
            self.folders[name] = _listing(name)
            self.is_running = True


_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS: Final = frozenset(
    (
        *("open", "os.listdir", "os.scandir", "hlo_cli.path", "hlo_cli.size", "hlo_cli.time_of_file"),
        "hlo_cli.stdin",
        *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.spawn"),
        *("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "sqlite3.connect"),
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime"),
        *("shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp", "webbrowser.open", "os.startfile"),
    )
)
"""The events that are looked at: after those that are not files and directories, an answer is not kept."""


def _is_import(frame: FrameType) -> bool:
    """Whether Python's import asks: modules are the package's state."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


@contextmanager
def _recorded(arguments: Sequence[str]) -> Iterator[Recording]:
    """Records what is written and read until the end."""
    record = Recording()
    # Commands ask what is at an argument, at that before its `:INSTRUCTION`, and at the value of an option.
    for word in arguments:
        for path in (word, word.rpartition(":")[0], word.partition("=")[2]):
            if path:
                record.kinds[path] = _kind(path)
    streams = sys.stdout, sys.stderr, sys.stdin
    sys.stdout, sys.stderr = _tee(streams[0], 1, record), _tee(streams[1], 2, record)
    sys.stdin = _Stdin(streams[2])
    _listen_to(record)
    try:
        yield record
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        record.is_running = False
        with suppress(OSError, ValueError):  # the error of a closed pipe is that which is on its way
            sys.stdout.flush()
            sys.stderr.flush()
        sys.stdout, sys.stderr, sys.stdin = streams
        record.seconds = process_time() - record.seconds


_listening = list[Recording]()


def _listen_to(record: Recording) -> None:
    """Passes events to a recording; Python can remove no hook, so that there is one for all recordings."""
    is_first = not _listening
    _listening[:] = [record]
    if is_first:
        sys.addaudithook(lambda event, arguments: _listening[0].notice(event, arguments))


_ABOUT_THE_TERMINAL: Final = ("closed", "fileno", "isatty")
"""What of standard input is asked for the width of the screen, which is part of the key."""


class _Stdin:
    """Standard input, on whose content an answer must not depend."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        if name not in _ABOUT_THE_TERMINAL:
            sys.audit("hlo_cli.stdin")
        return getattr(self._stream, name)


class _Tee(io.RawIOBase):
    """A stream that passes on what it is given, and records it."""

    def __init__(self, stream: TextIO, number: int, record: Recording) -> None:
        self._buffer, self._number, self._record = stream.buffer, number, record

    def writable(self) -> bool:
        """Always true."""
        return True

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._buffer.isatty()

    def fileno(self) -> int:
        """The number of the stream."""
        return self._buffer.fileno()

    def write(self, data: object, /) -> int:
        """Writes bytes at once."""
        content = bytes(data)  # type: ignore[call-overload]
        self._record.add(self._number, content)
        self._buffer.write(content)
        self._buffer.flush()
        return len(content)


def _tee(stream: TextIO, number: int, record: Recording) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_Tee(stream, number, record), 1 << 16)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, line_buffering=number == 2)


# --- facts ---


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _kind(path: str) -> str:
    """What is at a path; if it is absent, also what its nearest directory is, which may be an archive one day."""
    absent = ""
    while path:
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                with suppress(OSError):
                    mode = os.stat(path).st_mode
            return f"{absent}{stat.S_IFMT(mode):o}"
        except (OSError, ValueError):
            absent += f"no {os.path.basename(path)} in "
            above = os.path.dirname(path)
            path = "" if above == path else above
    return absent


def _listing(folder: str) -> str:
    """The names in a directory with their kinds, as one digest; empty if it cannot be listed."""
    from hashlib import blake2b

    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, entry.is_symlink(), entry.is_dir(), entry.is_file()) for entry in entries)
    except (OSError, ValueError):
        return ""
    return blake2b(ascii(names).encode()).hexdigest()


def _content(path: str, expected: tuple[int, ...] | None = None) -> str:
    """The digest of a file's content; OSError if it is no file, or not in the expected state before and after."""
    from hashlib import blake2b

    found = blake2b()
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode) or (expected is not None and _state(before) != expected):
            raise OSError("not the file that was read")
        while part := file.read(1 << 20):
            found.update(part)
        if _state(os.fstat(file.fileno())) != _state(before):
            raise OSError("the file is changing")
    return found.hexdigest()


def _hold(folders: Mapping[str, str], kinds: Mapping[str, str]) -> bool:
    """Whether directories have the same names, and paths the same kinds, as when they were asked for."""
    return all(_kind(name) == kind for name, kind in kinds.items()) and all(
        _listing(name) == found for name, found in folders.items()
    )


# --- keeping and finding ---


def _keep(path: str, key: str, code: int, record: Recording) -> None:
    """Writes an answer if it took long; nothing is written, and nothing is said, where that is not possible."""
    if record.seconds < _LEAST_SECONDS:
        return
    import json
    from hashlib import blake2b

    folder = os.path.dirname(path)
    with suppress(OSError, ValueError):
        facts = {
            "files": {name: _content(name, expected) for name, expected in record.files.items()},
            "folders": record.folders,
            "kinds": record.kinds,
        }
        if not _hold(record.folders, record.kinds):
            return
        lengths = [(stream, len(data)) for stream, data in record.chunks]
        head = json.dumps({"key": key, "package": _package_state(), "code": code, "chunks": lengths, **facts}).encode()
        body = b"".join((b"%d\n" % len(head), head, *(data for _, data in record.chunks)))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if _is_own(folder):
            _write(path, b"".join((_MAGIC, blake2b(body, digest_size=_DIGEST_BYTES).digest(), body)))
            _delete_oldest(folder)


def _write(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.urandom(8).hex()}.part"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _is_own(folder: str) -> bool:
    """Whether a directory is the user's, and no one else can put files there."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return False
    return os.name == "nt" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _delete_oldest(folder: str) -> None:
    """Deletes the answers that were not used for longest until the others have the size of the cache."""
    found = list[tuple[float, int, str]]()
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if entry.name.endswith(".answer"):
                found.append((status.st_mtime, status.st_size, entry.path))
            elif entry.name.endswith(".part") and status.st_mtime < time() - _ABANDONED:
                os.unlink(entry.path)
    size = sum(each[1] for each in found)
    for _, bytes_of_answer, path in sorted(found):
        if size <= _MAX_BYTES:
            return
        with suppress(OSError):
            os.unlink(path)
            size -= bytes_of_answer


def _kept(path: str, key: str) -> tuple[int, list[tuple[int, bytes]]] | None:
    """The exit code and the output of a kept answer, None if there is none, or if it is damaged or does not hold."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        if not _is_own(os.path.dirname(path)):
            return None
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > 2 * _MAX_ANSWER_BYTES:
                return None
            data = file.read()
        found = _read(data, key)
        if found is not None:
            os.utime(path)
        return found
    return None


def _read(data: bytes, key: str) -> tuple[int, list[tuple[int, bytes]]] | None:
    import json
    from hashlib import blake2b

    begin = len(_MAGIC) + _DIGEST_BYTES
    body = memoryview(data)[begin:]
    if data[: len(_MAGIC)] != _MAGIC:
        return None
    if blake2b(body, digest_size=_DIGEST_BYTES).digest() != data[len(_MAGIC) : begin]:
        return None
    line = data.index(b"\n", begin)
    at = line + 1 + int(data[begin:line])
    head = json.loads(data[line + 1 : at])
    if head["key"] != key or head["package"] != _package_state():
        return None
    if not _hold(head["folders"], head["kinds"]):
        return None
    if any(_content(name) != found for name, found in head["files"].items()):
        return None
    chunks = list[tuple[int, bytes]]()
    for stream, length in head["chunks"]:
        chunks.append((stream, data[at : at + length]))
        at += length
    return int(head["code"]), chunks


def _replay(code: int, chunks: Sequence[tuple[int, bytes]]) -> int:
    for number, data in chunks:
        stream = sys.stdout if number == 1 else sys.stderr
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    return code
