"""Decompression: the format is detected from the first bytes, and the size of the result is bounded."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from typing import Any, Final

from hlo_cli.source import HloError

MAXIMUM_BYTES = 1 << 30
_LEVELS = 2
_CHUNK = 1 << 20
"""Bytes that are decompressed at once: a limit on the size of the text is checked after each."""
_ZSTD_CHUNK = 1 << 12

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
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
    except EOFError:
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
        zstd = importlib.import_module("compression.zstd")
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


_CHUNKS: Final = {"gzip": _gzip_chunks, "xz": _xz_chunks, "bzip2": _bzip2_chunks, "zstd": _zstd_chunks}
