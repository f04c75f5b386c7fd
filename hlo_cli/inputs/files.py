"""What a path or a stream holds: bytes are read, decompressed within bounds, and decoded, or an error says why."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final

from hlo_cli.inputs.forms import (
    ARCHIVE_NAME,
    ELF,
    MAXIMUM_BYTES,
    OpenFile,
    archive_above,
    beginning,
    compression_of,
    decompress,
    is_packed,
    is_remote,
    scheme_of,
)
from hlo_cli.source import HloError, did_you_mean, nearest

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
    (b"\x89PNG", "a PNG image"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O object file"),
)
_LONGEST_URL: Final = 500  # a longer one, such as a signed link with its keys, is of no use in a command to copy
_ARCHIVE: Final = "save it as dump.zip or dump.tar, and pass that file"
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
    with opened(path) as file:
        if file.size is not None and file.size > limit:
            raise _too_large(path, limit, f"{file.size:,} bytes")
        is_endless = file.size is None and stream_bytes is not None
        yield BoundedFile(file, path, min(limit, stream_bytes or limit) if is_endless else limit)


class BoundedFile:
    """The bytes of a file up to a limit; HloError where it goes on."""

    def __init__(self, file: OpenFile, path: str, limit: int) -> None:
        self._file, self._path, self._limit, self._left = file.stream, path, limit, limit
        self._size = file.size

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, or fewer at the end; -1 reads all that are left."""
        if count < 0 and self._size and isinstance(self._file, io.FileIO):  # of files of /proc, it is 0
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
        raise HloError(f"{name} is empty", hint=_NO_KERNELS if name.endswith(".ptx") else None)
    if text.startswith("HloModule ") or not ("b'" in text or 'b"' in text):
        return text
    from hlo_cli.inputs.pasted.unwrapping import bytes_literal  # rarely needed

    literal = bytes_literal(text)
    return text if literal is None else decode(literal, name, maximum_bytes=maximum_bytes)


def missing(path: str) -> HloError:
    """The error for a missing path, with the nearest existing name, else with what there is instead."""
    if scheme_of(path) == "file":
        from shlex import quote  # rarely needed

        local = quote(path.partition("://")[2] or "/")
        return HloError(f"{path[:_LONGEST_URL]} is the URL of a local file", hint=f"pass {local}")
    folder, base = os.path.split(path)
    if not is_folder(folder or "."):
        parent, name = os.path.split(folder)
        # Of a URL without a folder, there is no directory above.
        near = nearest(name[:255], _neighbors(parent, name)) if name and not is_elsewhere(folder) else None
        hint = did_you_mean(os.path.join(parent, near) if near else None)
        return HloError(f"directory '{folder}' not found", hint=hint)
    names = _neighbors(folder, base)
    dumps = [name for name in names if _DUMP.search(name)]
    # `module_0030.jit_step.txt` is a stage away from a name of XLA's.
    stem = base.removesuffix(os.path.splitext(base)[1]) if _EXTENSION.search(base) else base
    longer = [name for found in (dumps, names) for name in found if stem and name.startswith(stem)]
    near = longer[0] if longer else nearest(base[:255], names)
    hint = did_you_mean(os.path.join(folder, near) if near else None) or _dumps_in_words(folder, dumps)
    return HloError(f"file '{path}' not found" if path else "empty file name", hint=hint)


_DUMP: Final = re.compile(r"\.(?:hlo|mlir|hlo\.pb)(?:\.gz)?$|(?:before|after)_optimizations\.txt(?:\.gz)?$")
"""Names of files that have modules, which hints prefer."""
_EXTENSION: Final = re.compile(r"\.(?:hlo|txt|pb|mlir|gz)$")


def _dumps_in_words(folder: str, dumps: Sequence[str]) -> str | None:
    """How to read the dumps of a folder; None without any."""
    if not dumps:
        return None
    if len(dumps) == 1:
        return f"the only dump there is '{os.path.join(folder, dumps[0])}'"
    return f"pass '{folder or '.'}' to read its {len(dumps):,} dumps"


def _neighbors(folder: str, base: str) -> list[str]:
    """The names in a directory for a suggestion: a folder on a network may have millions."""
    try:
        names = names_in(folder)[0] if is_elsewhere(folder) else os.listdir(folder or ".")
    except (OSError, HloError):
        return []
    return sorted(set(names) - {base})[:5000]


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


_NO_KERNELS: Final = (
    "XLA compiled no kernel for this module: libraries, copies, or an autotuning cache do its work; pass the HLO "
    "dump next to it"
)
"""What an empty PTX file means, which XLA writes for a module that has constants alone or none."""


def _check_text_or_proto(head: bytes, name: str) -> None:
    """Raises HloError for the first bytes of what is neither text, nor a proto, nor compressed."""
    if compression_of(head) is None and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        _is_binary(head, name)


def _is_binary(head: bytes, name: str) -> bool:
    """Whether data is a proto, by its name or its first field; HloError for other binary data."""
    if name.endswith(".pb") and not name.endswith((".hlo.pb", "-report.pb")):
        from hlo_cli.inputs.pasted.binary_messages import is_message_name  # most files are text

        if is_message_name(name):
            return True
    for magic, what in _BINARY:
        if head.startswith(magic):
            hint = _ARCHIVE if what == "a zip archive" else _PASS_A_DUMP
            raise HloError(f"{name} is not HLO text; it looks like {what}", hint=hint)
    if head[257:262] == b"ustar":  # the magic of a tar archive is at the end of its first header
        raise HloError(f"{name} is a tar archive", hint=_ARCHIVE)
    if _REPLACED in head:
        from hlo_cli.wire import DECODED_HINT, is_decoded  # rarely needed

        if is_decoded(head):
            raise HloError(f"{name} is not a binary file any more: bytes were replaced by U+FFFD", hint=DECODED_HINT)
    sample = head[:4096]  # control characters of a binary file show in its first page
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    if b"\0" not in head and controls * 50 <= len(sample):  # logs have colors and bells; 2% is more than any text
        return False
    if head[:1] == _FIRST_FIELD or head.startswith(ELF):
        return True
    from hlo_cli.inputs.executables import looks_like_executable  # rarely needed
    from hlo_cli.inputs.stablehlo import looks_like_artifact

    if not looks_like_executable(head) and not looks_like_artifact(head):
        raise HloError(f"{name} is a binary file, not HLO", hint=AS_TEXT)
    return True


# --- what a path may be ---
# A file or a directory on this machine, a place in an archive, or a URL; every command asks here.
#
# An archive stands for the directory that was packed into it: `dump.zip` lists its modules, and
# `dump.zip/passes/0007.dce.txt` is one file in it. It is read in place.


_LONGEST_PATH: Final = 1 << 12
"""Characters of a path (PATH_MAX of Linux): a longer argument is a pasted text."""
_ARCHIVE_HEAD: Final = 1 << 9
"""Bytes that tell an archive: the first header of a tar."""


def exists(path: str) -> bool:
    """Whether there is something at a path. A URL counts without being asked for, unless it has a wildcard.

    >>> exists("hlo_cli"), exists("no/such.txt"), exists("https://example.org/m.txt"), exists("gs://bucket/*.txt")
    (True, False, True, False)
    """
    _report(path)
    if os.path.lexists(path):
        return True
    if is_remote(path):
        return scheme_of(path) in ("http", "https") or not _is_pattern(path)
    return _is_within(path) and _kind(path) is not None


def is_folder(path: str) -> bool:
    """Whether a path is a directory, an archive, or a directory in one; HloError for a URL that does not answer.

    >>> is_folder("hlo_cli"), is_folder("pyproject.toml")
    (True, False)
    """
    _report(path)
    return os.path.isdir(path) or (_is_within(path) and _kind(path) == "folder")


def is_file(path: str) -> bool:
    """Whether a path is a regular file or a file in an archive. A URL of http is none before it is read.

    >>> is_file("pyproject.toml"), is_file("hlo_cli"), is_file("https://example.org/m.txt")
    (True, False, False)
    """
    _report(path)
    if os.path.isfile(path):
        return True
    if not _is_within(path) or (scheme_of(path) in ("http", "https") and not ARCHIVE_NAME.search(path)):
        return False
    from hlo_cli.inputs.containers import has_file  # most inputs are on the disk

    return has_file(path)


def _report(path: str) -> None:
    """Reports that the kind of a path is asked for, as Python reports files that are opened; see `kept_answers`."""
    sys.audit("hlo_cli.path", path)


def is_elsewhere(path: str) -> bool:
    """Whether a path is not on the disk of this machine: a URL, an archive, or a place in one."""
    _report(path)
    return not os.path.isdir(path) and _is_within(path)


def names_in(path: str) -> tuple[list[str], list[str]]:
    """The names of the files and of the directories in an archive or at a URL; HloError if it cannot be listed."""
    from hlo_cli.inputs.containers import listing  # most inputs are on the disk

    return listing(path)


@contextmanager
def opened(path: str) -> Iterator[OpenFile]:
    """Opens a file of any place; OSError or HloError if that is not possible.

    >>> with opened("pyproject.toml") as file: file.stream.read(14)
    b'[build-system]'
    """
    if not os.path.lexists(path) and _is_within(path):
        from hlo_cli.inputs.containers import open_inside  # most inputs are on the disk

        with open_inside(path) as file:
            yield file
        return
    with open(path, "rb", buffering=0) as raw:  # a buffer would need the memory of a second copy
        status = os.fstat(raw.fileno())
        yield OpenFile(raw, status.st_size if stat.S_ISREG(status.st_mode) else None)


def paths_matching(pattern: str) -> Sequence[str] | None:
    """The paths in an archive or at a URL that a glob matches; None if the pattern is not about these.

    >>> paths_matching("fixtures/*.md") is None
    True
    """
    base = _fixed_part(pattern)
    if not is_remote(pattern) and (not base or os.path.isdir(base) or not _is_within(base)):
        return None
    from hlo_cli.inputs.containers import matches  # most inputs are on the disk

    return matches(base, pattern[len(base) :].strip("/"))


# --- places in archives and at servers ---


def _kind(path: str) -> str | None:
    from hlo_cli.inputs.containers import kind_of  # most inputs are on the disk

    return kind_of(path)


def _is_within(path: str) -> bool:
    """Whether a path is a URL, an archive, or may be in an archive: an existing file above it is one."""
    if len(path) > _LONGEST_PATH or "\0" in path:
        return False
    if is_remote(path):
        return True
    outer = archive_above(path)
    return bool(outer) and (outer != path or not _is_plainly_named(path)) and _begins_as_archive(outer)


_PLAIN: Final = re.compile(r"\.(?:txt|pb|hlo|mlir|json|log|csv)(?:\.(?:gz|xz|bz2|zstd?))?$", re.IGNORECASE)


def _is_plainly_named(path: str) -> bool:
    """Whether a name is one of dumps, which are not opened to look for an archive."""
    return _PLAIN.search(path) is not None


def _begins_as_archive(path: str) -> bool:
    """Whether the first bytes of a file are those of an archive, compressed or not."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_ARCHIVE_HEAD) or b""
            if is_packed(head):
                return True
            if compression_of(head) is None:
                return False
            return is_packed(beginning(head + (file.read(_COMPRESSED_HEAD) or b""), _ARCHIVE_HEAD))
    except OSError:  # its error is that of reading it
        return False


_COMPRESSED_HEAD: Final = 1 << 20
"""Bytes of a compressed file from which its begin is made: a block of bzip2 has up to 900,000."""


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def _fixed_part(pattern: str) -> str:
    """The directories before the first wildcard of a pattern.

    >>> _fixed_part("a.zip/dump/*.txt"), _fixed_part("*.txt"), _fixed_part("gs://bucket/*/m.txt")
    ('a.zip/dump', '', 'gs://bucket')
    """
    parts = pattern.split("/")
    at = next((index for index, part in enumerate(parts) if _is_pattern(part)), len(parts))
    return "/".join(parts[:at])


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
        _report(path)
        try:
            # A name in a dump may be that of a pipe, which would wait for ever.
            if path and stat.S_ISREG(os.stat(path).st_mode):
                return tuple(read_utf8(path, limit=_MAX_PROGRAM_BYTES).split("\n"))
        except (OSError, ValueError, HloError):
            continue
    return ()
