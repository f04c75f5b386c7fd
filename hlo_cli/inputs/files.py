"""What a path or a stream holds: bytes are read, decompressed within bounds, and decoded, or an error says why."""

from __future__ import annotations

import codecs
import importlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from hlo_cli.source import HloError, did_you_mean, nearest

# --- decompression ---
# The format is detected from the first bytes, and the size of the result is bounded.


# Above dumps of the largest models; gzip packs this into 1 MB (1,032 : 1), so a small file may be a bomb.
MAXIMUM_BYTES = 1 << 30
_LEVELS = 2  # an archive packed again by a tool or a server; more is a bomb, not a habit
_CHUNK = 1 << 20
"""Bytes that are decompressed at once: a limit on the size of the text is checked after each."""
_ZSTD_CHUNK = 1 << 12  # a block of 4 bytes may become 128 KiB, and the limit is checked only between chunks

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    # zlib's fastest, usual, and best; the fourth begins like text, `x^`, and Python never writes it unasked
    (b"\x78\x01", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
)


def compression_of(data: bytes) -> str | None:
    """The name of the compression format of data, detected from its content.

    >>> import gzip
    >>> compression_of(gzip.compress(b"HloModule m")), compression_of(b"HloModule m")
    ('gzip', None)
    """
    for magic, name in _MAGIC:
        if data.startswith(magic) and (name != "bzip2" or data[3:4] in b"123456789"):
            return name
    return None


def decompress(data: bytes, name: str, *, maximum_bytes: int = MAXIMUM_BYTES) -> bytes:
    """The decompressed bytes; at most two nested compressions are undone. `name` is for messages.

    >>> import bz2, gzip
    >>> decompress(bz2.compress(gzip.compress(b"HloModule m")), "m.txt")
    b'HloModule m'
    """
    for _ in range(_LEVELS):
        kind = compression_of(data)
        if kind is None:
            return data
        data = _expanded(kind, data, name, maximum_bytes)
    if compression_of(data):
        raise HloError(f"{name} has more than two layers of compression", hint="decompress it first")
    return data


def _expanded(kind: str, data: bytes, name: str, maximum_bytes: int) -> bytes:
    chunks, size = [], 0
    try:
        for chunk in _CHUNKS[kind](data):
            size += len(chunk)
            if size > maximum_bytes:
                raise HloError(
                    f"{name} decompresses to more than {_size(maximum_bytes)}",
                    hint="if this is intended, decompress it first; plain files may be larger",
                )
            chunks.append(chunk)
    except EOFError:  # all four decompressors raise it where data ends early
        raise HloError(f"truncated {kind} data in {name}", hint="copy the file again") from None
    except (OSError, ValueError) as error:
        raise HloError(f"invalid {kind} data in {name}: {error}", hint="copy the file again") from None
    return b"".join(chunks)


def _file_chunks(file: Any) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


# decompressors are imported when needed: most dumps are plain


def _gzip_chunks(data: bytes) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            yield from _file_chunks(file)
    except zlib.error as error:
        raise ValueError(error) from None


def _zlib_chunks(data: bytes) -> Iterator[bytes]:
    import zlib

    while data:
        reader = zlib.decompressobj()
        try:
            while data and not reader.eof:
                yield reader.decompress(data, _CHUNK)
                data = reader.unconsumed_tail
        except zlib.error as error:
            raise ValueError(error) from None
        if not reader.eof:
            raise EOFError
        data = reader.unused_data


def _xz_chunks(data: bytes) -> Iterator[bytes]:
    import lzma

    try:
        with lzma.LZMAFile(io.BytesIO(data)) as file:
            yield from _file_chunks(file)
    except lzma.LZMAError as error:
        raise ValueError(error) from None


def _bzip2_chunks(data: bytes) -> Iterator[bytes]:
    import bz2

    with bz2.BZ2File(io.BytesIO(data)) as file:
        yield from _file_chunks(file)


def _zstd_chunks(data: bytes) -> Iterator[bytes]:
    try:
        zstd = importlib.import_module("compression.zstd")  # in the standard library since Python 3.14
    except ImportError:
        yield from _zstandard_chunks(data)
        return
    try:
        yield from _file_chunks(zstd.ZstdFile(io.BytesIO(data)))
    except zstd.ZstdError as error:
        raise ValueError(error) from None


def _zstandard_chunks(data: bytes) -> Iterator[bytes]:
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        raise HloError("zstd support is not installed", hint="run `pip install zstandard`") from None
    reader = zstandard.ZstdDecompressor().decompressobj()
    try:
        for start in range(0, len(data), _ZSTD_CHUNK):
            rest = data[start : start + _ZSTD_CHUNK]
            while rest:
                if reader.eof:
                    reader = zstandard.ZstdDecompressor().decompressobj()
                yield reader.decompress(rest)
                rest = reader.unused_data
    except zstandard.ZstdError as error:
        raise ValueError(error) from None
    if not reader.eof:
        raise EOFError


def _size(count: int) -> str:
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count:,} bytes"


_CHUNKS: Final = {
    "gzip": _gzip_chunks,
    "xz": _xz_chunks,
    "bzip2": _bzip2_chunks,
    "zstd": _zstd_chunks,
    "zlib": _zlib_chunks,
}


# --- files and streams ---
# A path or a stream to text or to a proto: reading, decompression, decoding, and their errors.


STDIN = "<stdin>"
MAX_FILE_BYTES: Final = 1 << 31
"""Bytes of a regular file that are read: as many as a proto may have; the memory for a text is a multiple of it."""
MAX_SETTINGS_BYTES: Final = 1 << 26
"""Bytes of a file that people or programs write for `hlo`: settings, assertions, baselines, chips, code."""
_HEAD = 1 << 16  # enough to tell text from an image or a core dump without reading the rest
_REPLACED: Final = "\ufffd".encode()
"""What editors write for bytes that are not text."""
_ZEROS: Final = 1 << 12
"""Zero bytes at the begin of a stream after which it is given up: the least that a device or a pipe gives at once."""
_PART: Final = 1 << 20
"""Bytes that are read of a pipe at once."""
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))

_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "an ELF object file"),
    (b"\x89PNG", "a PNG image"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O object file"),
)
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,20}+)://")
_LONGEST_URL: Final = 500  # a longer one, such as a signed link with its keys, is of no use in a command to copy
_DOWNLOADS: Final = {
    "gs": "gcloud storage cat {}",
    "s3": "aws s3 cp {} -",
    "hdfs": "hdfs dfs -cat {}",
    "http": "curl -fsSL {}",
    "https": "curl -fsSL {}",
    "ftp": "curl -fsSL {}",
}
"""The commands that write what a URL names to standard output, by scheme."""
_COPIES: Final = {
    "gs": "gcloud storage cp -r {} dump/",
    "s3": "aws s3 cp --recursive {} dump/",
    "hdfs": "hdfs dfs -get {} dump/",
    "http": "wget -r -np {}",
    "https": "wget -r -np {}",
    "ftp": "wget -r -np {}",
}
"""The commands that copy a directory."""
_PASS_A_DUMP = "pass the HLO dump, such as *after_optimizations.txt"
_FIRST_FIELD = b"\n"
"""First bytes of protos that hold a module: field 1, length-delimited; the name or a message."""
AS_TEXT = "to dump text, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text'"


def read_file(path: str, *, maximum_bytes: int = MAXIMUM_BYTES) -> str | bytes:
    """The text of a file, or the bytes of a proto, decompressed; line ends are normalized to a newline.

    >>> read_file("/no/such/file.txt")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: directory '/no/such' not found
    """
    try:
        with open_bounded(path, stream_bytes=maximum_bytes) as file:
            head = file.read(_HEAD)
            _check_text_or_proto(head, path)  # before the rest of a large image, or of /dev/zero, is read
            data = head + file.read()
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return decode(data, path, maximum_bytes=maximum_bytes)


@contextmanager
def open_bounded(path: str, *, limit: int = MAX_FILE_BYTES, stream_bytes: int | None = None) -> Iterator[BoundedFile]:
    """Opens any file that `hlo` reads: no more than `limit` bytes are read, of a pipe or a device `stream_bytes`.

    HloError for a file that is larger, before anything is read of a regular one. OSError if it cannot be opened.

    >>> with open_bounded("/dev/zero", limit=8) as file: file.read(4)
    b'\\x00\\x00\\x00\\x00'
    """
    if not os.path.lexists(path) and (error := url_error(path)) is not None:
        raise error
    with open(path, "rb", buffering=0) as file:  # a buffer would need the memory of a second copy
        status = os.fstat(file.fileno())
        is_regular = stat.S_ISREG(status.st_mode)
        if is_regular and status.st_size > limit:
            raise _too_large(path, limit, f"{status.st_size:,} bytes")
        yield BoundedFile(file, path, limit if is_regular or stream_bytes is None else min(limit, stream_bytes))


class BoundedFile:
    """The bytes of a file up to a limit; HloError where it goes on."""

    def __init__(self, file: io.FileIO, path: str, limit: int) -> None:
        self._file, self._path, self._limit, self._left = file, path, limit, limit

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, or fewer at the end; -1 reads all that are left."""
        if count < 0 and os.fstat(self._file.fileno()).st_size:  # of pipes, devices, and files of /proc it is 0
            data = self._file.readall()
        else:
            data = self._collect(self._left + 1 if count < 0 else count)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._path, self._limit)
        return data

    def _collect(self, count: int) -> bytes:
        """As many bytes, from a pipe that gives them in parts."""
        collected = io.BytesIO()  # whose value is not copied
        while (left := count - collected.tell()) and (part := self._file.read(min(left, _PART))):
            if self._left == self._limit and not collected.tell():
                _check_begin(part, self._path)
            collected.write(part)
        return collected.getvalue()


def read_bytes(path: str, *, limit: int = MAX_SETTINGS_BYTES) -> bytes:
    """All bytes of a file within a limit, of a pipe at most 1 GiB; HloError for more, OSError if it cannot be read.

    >>> len(read_bytes("fixtures/golden/layout/bad_order.txt")) > 100
    True
    """
    with open_bounded(path, limit=limit, stream_bytes=MAXIMUM_BYTES) as file:
        return file.read()


def read_utf8(path: str, *, limit: int = MAX_SETTINGS_BYTES) -> str:
    """The text of a file in UTF-8, with line ends as newlines; UnicodeDecodeError for other bytes."""
    text = read_bytes(path, limit=limit).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _check_begin(data: bytes, name: str) -> None:
    """Raises HloError for a stream that begins as `/dev/zero` does: no format does, and it may have no end."""
    if len(data) >= _ZEROS and not data.strip(b"\0"):
        raise HloError(f"{name} begins with {len(data):,} zero bytes", hint="pass a regular file")


def _too_large(name: str, limit: int, found: str = "") -> HloError:
    """The error for a file with more bytes than are read of such files."""
    if found:
        return HloError(f"{name} has {found}; the limit is {limit:,}", hint="pass a smaller file")
    return HloError(f"{name} has more than {limit:,} bytes", hint="save a part of it to a file, and pass that")


def read_stdin(stream: BinaryIO | None, *, maximum_bytes: int = MAXIMUM_BYTES) -> str | bytes:
    """The content of standard input, or of the stream given in its place.

    >>> import io
    >>> read_stdin(io.BytesIO(b"HloModule m"))
    'HloModule m'
    """
    if stream is None:
        stream = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise HloError("stdin is not available", hint="pass a file or directory")
    if stream.isatty():
        raise HloError("stdin is a terminal", hint="pass a file or directory, or pipe a dump to stdin")
    try:
        data = read_bounded(stream, STDIN, maximum_bytes)
    except (OSError, ValueError) as error:
        raise unreadable("stdin", error) from None
    return decode(data, STDIN, maximum_bytes=maximum_bytes)


def decode(data: bytes, name: str, *, maximum_bytes: int = MAXIMUM_BYTES) -> str | bytes:
    """Text from bytes: decompressed, by its byte order mark or as UTF-8; stray bytes become lone surrogates.

    Binary protos stay bytes.

    >>> decode("HloModule m\\r\\n".encode("utf-16"), "m.txt")
    'HloModule m\\n'
    """
    data = decompress(data, name, maximum_bytes=maximum_bytes)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    else:
        if _is_binary(data[:_HEAD], name):
            return data
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if not text or text.isspace():
        raise HloError(f"{name} is empty")
    if text.startswith("HloModule ") or not ("b'" in text or 'b"' in text):
        return text
    from hlo_cli.inputs.pasted.unwrapping import bytes_literal  # rarely needed

    literal = bytes_literal(text)
    return text if literal is None else decode(literal, name, maximum_bytes=maximum_bytes)


def missing(path: str) -> HloError:
    """The error for a missing path, with the nearest existing name."""
    if (error := url_error(path)) is not None:
        return error
    folder, base = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return HloError(f"directory '{folder}' not found")
    try:
        # for a suggestion: a folder on a network may have millions of names
        names = sorted(set(os.listdir(folder or ".")) - {base})[:5000]
    except OSError:
        names = []
    longer = [name for name in names if base and name.startswith(base)]
    near = longer[0] if longer else nearest(base[:255], names)
    hint = did_you_mean(os.path.join(folder, near) if near else None)
    return HloError(f"file '{path}' not found" if path else "empty file name", hint=hint)


def url_error(path: str) -> HloError | None:
    """The error for a URL in place of a path, with the command that pipes its content; None for other names.

    >>> url_error("gs://bucket/dump/module.txt").diagnostic.hint
    'run `gcloud storage cat gs://bucket/dump/module.txt | hlo parse -`'
    >>> url_error("dump/module.txt")
    """
    if (match := _URL.match(path)) is None:
        return None
    from shlex import quote  # rarely needed

    message = f"{path[:_LONGEST_URL]} is a URL, and hlo reads local files"
    scheme = match[1].lower()
    if scheme == "file":
        return HloError(message, hint=f"pass {quote(path[match.end() :] or '/')}")
    if (tool := _DOWNLOADS.get(scheme)) is None or len(path) > _LONGEST_URL:
        return HloError(message, hint="copy the file to this machine first")
    if path.endswith("/") or "*" in path:
        return HloError(message, hint=f"copy it first: run `{_COPIES[scheme].format(quote(path))}`")
    return HloError(message, hint=f"run `{tool.format(quote(path))} | hlo parse -`")


def unreadable(path: str, error: Exception) -> HloError:
    """The error for an existing path that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return HloError(f"cannot read {path}: {reason[:1].lower() + reason[1:]}")


def read_bounded(stream: BinaryIO, name: str, maximum_bytes: int) -> bytes:
    """All bytes of a stream; HloError if there are too many."""
    data = stream.read(min(_HEAD, maximum_bytes + 1))
    _check_begin(data, name)
    if len(data) == _HEAD:
        data += stream.read(maximum_bytes + 1 - _HEAD)
    if len(data) > maximum_bytes:
        raise HloError(f"{name} produced more than {maximum_bytes:,} bytes", hint="save it to a file first")
    return data


def _extracting(name: str, command: str) -> str:
    """The hint for an archive, whose dumps have their names and siblings only in a directory."""
    from shlex import quote  # rarely needed

    shown = "FILE" if name == STDIN else quote(name)
    return f"pass the HLO dumps in it: run `{command.format(shown)}`, and pass dump/"


def _check_text_or_proto(head: bytes, name: str) -> None:
    """Raises HloError for the first bytes of what is neither text, nor a proto, nor compressed."""
    if compression_of(head) is None and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        _is_binary(head, name)


def _is_binary(head: bytes, name: str) -> bool:
    """Whether data is a proto, by its first field; HloError for other binary data."""
    for magic, what in _BINARY:
        if head.startswith(magic):
            hint = _extracting(name, "unzip -d dump {}") if what == "a zip archive" else _PASS_A_DUMP
            raise HloError(f"{name} is not HLO text; it looks like {what}", hint=hint)
    if head[257:262] == b"ustar":  # the magic of a tar archive is at the end of its first header
        raise HloError(f"{name} is a tar archive", hint=_extracting(name, "mkdir dump && tar -xf {} -C dump"))
    if _REPLACED in head:
        from hlo_cli.wire import DECODED_HINT, is_decoded  # rarely needed

        if is_decoded(head):
            raise HloError(f"{name} is not a binary file any more: bytes were replaced by U+FFFD", hint=DECODED_HINT)
    sample = head[:4096]  # control characters of a binary file show in its first page
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    if b"\0" not in head and controls * 50 <= len(sample):  # logs have colors and bells; 2% is more than any text
        return False
    if head[:1] == _FIRST_FIELD:
        return True
    from hlo_cli.inputs.executables import looks_like_executable  # rarely needed
    from hlo_cli.inputs.stablehlo import looks_like_artifact

    if not looks_like_executable(head) and not looks_like_artifact(head):
        raise HloError(f"{name} is a binary file, not HLO", hint=AS_TEXT)
    return True


# --- lines of the user's program ---
# The line of Python that made an instruction, if the program that was compiled is on this machine.


_MAX_PROGRAM_BYTES: Final = 1 << 22
"""Bytes of a file of Python that is read: written by hand none is longer, and a generated one explains nothing."""
_DEFINITION: Final = re.compile(r"(?:async\s+)?def\s+(\w+)|class\s")
_CLOSING: Final = frozenset(")]},: ")
"""Characters of a line that only ends an expression."""
_BRACKETS: Final = ("()", "[]", "{}")


class ProgramLines:
    """Lines of the files that a dump names; a file is looked for once, as named and then below the working directory.

    A dump may come from another machine, or from before the file was edited. A line counts only if it is in the
    function that the dump names, and has an expression at its columns.

    >>> first = ProgramLines.of.__code__.co_firstlineno
    >>> ProgramLines().of("/build/7/hlo_cli/inputs/files.py", first, "ProgramLines.of")
    'def of(self, file: str, line: int, function: str = "", columns: tuple[int, int] = (0, 0)) -> str:'
    >>> ProgramLines().of("/build/7/hlo_cli/inputs/files.py", first, "read"), ProgramLines().of("/no/such/file.py", 3)
    ('', '')
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, ...]] = {}

    def of(self, file: str, line: int, function: str = "", columns: tuple[int, int] = (0, 0)) -> str:
        """The text of a line without its indentation; empty if it is not at hand. Only Python is read."""
        if (listed := self._files.get(file)) is None:
            listed = self._files[file] = _program(file)
        if not 1 <= line <= len(listed) or not _is_expression(listed[line - 1], *columns):
            return ""
        # `train.<locals>.step.<locals>.<lambda>` is in `step`; `<module>` is in no function.
        name = next((part for part in reversed(function.split(".")) if not part.startswith("<")), "")
        return listed[line - 1].strip() if not name or name in _functions_around(listed, line) else ""


def _is_expression(text: str, start: int, end: int) -> bool:
    """Whether a line may have an expression between two columns, which cuts no name; 0 for an unknown end.

    >>> line = "y = jax.nn.relu(x) + 1"
    >>> [_is_expression(line, *columns) for columns in ((4, 18), (5, 18), (4, 17), (4, 99))]
    [True, False, False, False]
    """
    inner = text[start : end or None].strip()
    if not inner or inner.startswith("#") or _CLOSING.issuperset(inner) or end > len(text.rstrip()):
        return False
    # Columns of Python count bytes of UTF-8: other characters before them shift the places.
    if not text.isascii():
        return True
    cuts = (text[edge - 1 : edge + 1] for edge in (start, end) if edge)
    is_cut = any(len(pair) == 2 and pair.isidentifier() for pair in cuts)
    return not is_cut and (not end or all(inner.count(begin) == inner.count(close) for begin, close in _BRACKETS))


def _functions_around(lines: Sequence[str], line: int) -> Iterator[str]:
    """The names of the functions that a line is in, innermost first, by indentation."""
    indent = 1 + len(lines[line - 1])  # the line itself may begin a function
    for text in reversed(lines[:line]):
        stripped = text.lstrip()
        here = len(text) - len(stripped)
        if here < indent and (match := _DEFINITION.match(stripped)) is not None:
            indent = here
            yield match[1] or ""
        elif text is lines[line - 1]:
            indent = here


def _program(file: str) -> tuple[str, ...]:
    """The lines of a file of Python, as named, else with as much of its path as is below the working directory."""
    if not file.endswith(".py"):
        return ()
    parts = file.replace("\\", "/").split("/")
    for path in (file, *("/".join(parts[index:]) for index in range(1, len(parts)))):
        try:
            # A name in a dump may be that of a pipe, which would wait for ever.
            if path and stat.S_ISREG(os.stat(path).st_mode):
                return tuple(read_utf8(path, limit=_MAX_PROGRAM_BYTES).split("\n"))
        except (OSError, ValueError, HloError):
            continue
    return ()
