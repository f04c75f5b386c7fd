"""Texts that are not modules: the files that XLA wrote about a dump's memory, and pasted error messages."""

from __future__ import annotations

import sys
from typing import BinaryIO

from hlo_cli.inputs.compression import MAXIMUM_BYTES, decompress
from hlo_cli.inputs.dumps import SiblingKind
from hlo_cli.inputs.files import STDIN, missing, open_bounded, read_bounded, unreadable
from hlo_cli.inputs.input import Input
from hlo_cli.source import HloError, Source


def read_sibling(dump: Input, kind: SiblingKind, *, maximum_bytes: int = MAXIMUM_BYTES) -> Source | None:
    """The text of a file that XLA wrote about this dump, read now; None if there is no such file.

    >>> read_sibling(Input(Source("m.txt", "HloModule m"), None), "live-range") is None
    True
    """
    path = dump.siblings.get(kind)
    return None if path is None else read_plain(path, maximum_bytes=maximum_bytes)


def read_plain(path: str, *, stdin: BinaryIO | None = None, maximum_bytes: int = MAXIMUM_BYTES) -> Source:
    """A text of any kind, decompressed; `-` is standard input, or the stream given in its place.

    >>> import io
    >>> read_plain("-", stdin=io.BytesIO(b"Out of memory allocating 64 bytes.\\r\\n")).text
    'Out of memory allocating 64 bytes.\\n'
    """
    name = STDIN if path == "-" else path
    try:
        data = _bytes_of(path, stdin, maximum_bytes)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None
    data = decompress(data, name, maximum_bytes=maximum_bytes)
    if b"\0" in data:
        raise HloError(f"{name} is a binary file, not text")
    text = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n")
    if not text.strip():
        raise HloError(f"{name} is empty")
    return Source(name, text)


def _bytes_of(path: str, stdin: BinaryIO | None, maximum_bytes: int) -> bytes:
    """The bytes of standard input or of a file, bounded; of a pipe at most `maximum_bytes`."""
    if path == "-":
        return read_bounded(sys.stdin.buffer if stdin is None else stdin, STDIN, maximum_bytes)
    with open_bounded(path, stream_bytes=maximum_bytes) as file:
        return file.read()
