"""Does standard input have content, and how long is it awaited? A note on a terminal, as it may be slow.

The front screens import this file, so it imports next to nothing.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

    from _typeshed import WriteableBuffer


_PATIENCE: Final = 1.0
"""Seconds before a note is shown."""
_INTERVAL: Final = 0.1
"""Seconds between two notes."""
_MIB: Final = 1 << 20  # bytes in a MiB
_ERASE: Final = "\r\x1b[K"


def watch_stdin(arguments: Collection[str]) -> None:
    """Makes `sys.stdin` show a note on standard error, a terminal, while it is awaited.

    Nothing is shown if `arguments` have `-q`, and for a terminal or a file, which never make anyone wait.
    """
    if os.name == "nt" or os.environ.get("TERM") == "dumb" or not {"-q", "--quiet"}.isdisjoint(arguments):
        return
    if not _is_stream():
        return
    if isinstance(getattr(sys.stdin.buffer, "raw", None), _WatchedInput):
        return
    dots = "…" if (sys.stderr.encoding or "").lower().startswith("utf") and "--ascii" not in arguments else "..."
    watched = _WatchedInput(sys.stdin.fileno(), dots)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(watched), encoding=sys.stdin.encoding, errors=sys.stdin.errors)


def has_content() -> bool:
    """Whether standard input is a pipe or a file with content; waits for the first byte of a pipe.

    A socket is awaited for a second only: servers hand them to programs that expect no input.
    """
    if not _is_stream():
        return is_redirected()
    try:
        if _is_socket() and not _is_ready(sys.stdin.fileno(), _PATIENCE):
            return False
        buffer = sys.stdin.buffer
        return isinstance(buffer, io.BufferedReader) and bool(buffer.peek(1))
    except (OSError, ValueError):
        return False


def is_redirected() -> bool:
    """Whether standard input is a pipe, a socket, or a file that is not empty, without waiting for its content."""
    stream = sys.stdin
    if stream is None or stream.closed:
        return False
    if _is_stream():
        return True
    try:
        buffer = stream.buffer
        if not buffer.seekable() or stream.isatty():
            return False
        here = buffer.tell()
        end = buffer.seek(0, os.SEEK_END)
        buffer.seek(here)
    except (AttributeError, OSError, ValueError):
        return False
    return here < end


def _is_stream() -> bool:
    """Whether standard input is a pipe or a socket."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_socket() -> bool:
    import stat

    return stat.S_ISSOCK(os.fstat(sys.stdin.fileno()).st_mode)


def _is_ready(descriptor: int, seconds: float) -> bool:
    """Whether a read would not wait, after that many seconds at most."""
    from select import select

    return bool(select([descriptor], [], [], seconds)[0])


class _WatchedInput(io.RawIOBase):
    """The bytes of a file descriptor; a note on standard error says how many have arrived."""

    def __init__(self, descriptor: int, dots: str) -> None:
        from time import monotonic

        self._descriptor = descriptor
        self._dots = dots
        self._clock = monotonic
        self._began = 0.0
        self._noted = 0.0
        self._text = ""
        self._count = 0

    def fileno(self) -> int:
        """The file descriptor."""
        return self._descriptor

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Reads what has arrived, after a wait for it; 0 at the end."""
        data = memoryview(buffer).cast("B")
        self._began = self._began or self._clock()
        try:
            while not _is_ready(self._descriptor, self._pause):
                self._note()
            count = os.readv(self._descriptor, [data])
        except BaseException:
            self._erase()
            raise
        self._count += count
        if not count:
            self._erase()
        elif self._clock() >= self._noted + self._pause:
            self._note()
        return count

    @property
    def _pause(self) -> float:
        """Seconds until the next note."""
        now = self._clock()
        return max(self._began + _PATIENCE - now, 0.0) or _INTERVAL

    def _note(self) -> None:
        """Shows the note, if it is time to."""
        now = self._clock()
        if now < self._began + _PATIENCE or now < self._noted + _INTERVAL:
            return
        size = f"{self._count / _MIB:,.1f} MiB" if self._count >= _MIB // 10 else f"{self._count / 1024:,.1f} KiB"
        text = f"reading stdin: {size}{self._dots}" if self._count else "waiting for stdin; press Ctrl-C to stop"
        self._noted = now
        if text != self._text:
            self._text = text
            self._write(f"{_ERASE}{text}")

    def _erase(self) -> None:
        if self._text:
            self._text = ""
            self._write(_ERASE)

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # the terminal is gone; the report may still be written to a file
