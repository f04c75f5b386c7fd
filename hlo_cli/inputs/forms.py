"""Which form a file has, by its name and its first bytes: a URL, an archive, compressed; and what is decompressed.

The format of compressed bytes is detected from the first of them, and the size of the result is bounded.
"""

from __future__ import annotations

import importlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- URLs and archives ---


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{1,20}+)://")
ELF: Final = b"\x7fELF"
"""How an object file begins."""
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip archive begins, the second if it is empty."""
_TAR_AT: Final = 257
"""Where the first header of a tar names its format (POSIX ustar)."""
_TAR: Final = b"ustar"


ARCHIVE_NAME: Final = lazy_regex(r"(?i)\.(?:zip|tar|tgz|tbz2?|txz|tzst|tar\.(?:gz|bz2|xz|zstd?))(?=[/?#]|\Z)")
"""The end of the name of an archive at a URL or in another archive, which are not opened to look."""


class Readable(Protocol):
    """What is read of an open file."""

    def read(self, size: int = -1, /) -> bytes | None:
        """The next bytes; fewer at the end."""
        ...


class OpenFile(NamedTuple):
    """An open file and its number of bytes; None for a pipe or a device, which may never end."""

    stream: Readable
    size: int | None


def scheme_of(path: str) -> str:
    """The scheme of a URL in lower case; empty for any other path.

    >>> scheme_of("gs://bucket/dump/"), scheme_of("dump/m.txt"), scheme_of("C://m.txt")
    ('gs', '', '')
    """
    found = _URL.match(path)
    return found[1].lower() if found is not None else ""


def is_remote(path: str) -> bool:
    """Whether a path is a URL of another machine, unless a file here has this name."""
    return scheme_of(path) not in ("", "file") and not os.path.lexists(path)


def is_packed(head: bytes) -> bool:
    """Whether bytes begin as a zip or a tar archive.

    >>> is_packed(b"PK\\x03\\x04..."), is_packed(b"HloModule m")
    (True, False)
    """
    return head.startswith(_ZIP) or head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


def is_archive_name(name: str) -> bool:
    """Whether a file is named as an archive.

    >>> is_archive_name("dump.tar.gz"), is_archive_name("m.txt.gz")
    (True, False)
    """
    return ARCHIVE_NAME.search(name) is not None


def archive_above(path: str) -> str:
    """The longest part of a path that is a regular file; empty if there is none.

    >>> archive_above("pyproject.toml/dump/m.txt"), archive_above("hlo_cli/no/such")
    ('pyproject.toml', '')
    """
    outer = path
    while outer and not os.path.lexists(outer):
        outer = os.path.dirname(outer)
    return outer if os.path.isfile(outer) else ""


# --- decompression ---


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
    zstandard = _zstandard()
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


# --- streams ---


def beginning(data: bytes, count: int) -> bytes:
    """The first decompressed bytes of data that may be cut; as many as there are, none of damaged data.

    >>> import gzip
    >>> beginning(gzip.compress(b"HloModule m")[:-4], 9)
    b'HloModule'
    """
    with suppress(HloError, *damage_errors()):
        return decompressed_stream(io.BytesIO(data), compression_of(data) or "").read(count)
    return b""


def decompressed_stream(file: BinaryIO, kind: str) -> BinaryIO:
    """A compressed stream as a stream of its content, which raises one of `damage_errors`; `kind` is the format."""
    if kind == "gzip":
        import gzip

        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if kind == "bzip2":
        import bz2

        return cast("BinaryIO", bz2.BZ2File(file))
    if kind == "xz":
        import lzma

        return cast("BinaryIO", lzma.LZMAFile(file))
    return _zstd_stream(file) if kind == "zstd" else file


def _zstd_stream(file: BinaryIO) -> BinaryIO:
    try:
        return cast("BinaryIO", importlib.import_module("compression.zstd").ZstdFile(file))
    except ImportError:
        zstandard = _zstandard()
        return cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise HloError("zstd support is not installed", hint="run `pip install zstandard`") from None


def damage_errors() -> tuple[type[Exception], ...]:
    """What the decompressors of the standard library and of zstd raise for damaged data."""
    import lzma
    import zlib

    found: list[type[Exception]] = [EOFError, OSError, ValueError, zlib.error, lzma.LZMAError]
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            found.append(importlib.import_module(name).ZstdError)
    return tuple(found)
