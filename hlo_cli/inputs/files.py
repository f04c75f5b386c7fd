"""A path or a stream to text or to a proto: reading, decompression, decoding, and their errors."""

from __future__ import annotations

import codecs
import os
import sys
from typing import BinaryIO

from hlo_cli.inputs.compression import MAXIMUM_BYTES, decompress
from hlo_cli.source import HloError, did_you_mean, nearest
from hlo_cli.wire import DECODED_HINT, is_decoded

STDIN = "<stdin>"
_HEAD = 1 << 16
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))

_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "an ELF object file"),
    (b"\x89PNG", "a PNG image"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"ML\xefR", "MLIR bytecode"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O object file"),
)
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
        with open(path, "rb") as file:
            data = file.read() if os.path.isfile(path) else read_bounded(file, path, maximum_bytes)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return decode(data, path, maximum_bytes=maximum_bytes)


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
    from hlo_cli.inputs.pasted.strings import bytes_literal  # rarely needed

    literal = bytes_literal(text)
    return text if literal is None else decode(literal, name, maximum_bytes=maximum_bytes)


def missing(path: str) -> HloError:
    """The error for a missing path, with the nearest existing name."""
    folder, base = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return HloError(f"directory '{folder}' not found")
    try:
        names = sorted(set(os.listdir(folder or ".")) - {base})[:5000]
    except OSError:
        names = []
    longer = [name for name in names if base and name.startswith(base)]
    near = longer[0] if longer else nearest(base[:255], names)
    hint = did_you_mean(os.path.join(folder, near) if near else None)
    return HloError(f"file '{path}' not found" if path else "empty file name", hint=hint)


def unreadable(path: str, error: Exception) -> HloError:
    """The error for an existing path that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return HloError(f"cannot read {path}: {reason[:1].lower() + reason[1:]}")


def read_bounded(stream: BinaryIO, name: str, maximum_bytes: int) -> bytes:
    """All bytes of a stream; HloError if there are too many."""
    data = stream.read(maximum_bytes + 1)
    if len(data) > maximum_bytes:
        raise HloError(f"{name} produced more than {maximum_bytes:,} bytes", hint="save it to a file first")
    return data


def _is_binary(head: bytes, name: str) -> bool:
    """Whether data is a proto, by its first field; HloError for other binary data."""
    for magic, what in _BINARY:
        if head.startswith(magic):
            raise HloError(f"{name} is not HLO text; it looks like {what}", hint=_PASS_A_DUMP)
    if head[257:262] == b"ustar":
        raise HloError(f"{name} is a tar archive", hint="extract it and pass a file or directory")
    if is_decoded(head):
        raise HloError(f"{name} is not a binary file any more: bytes were replaced by U+FFFD", hint=DECODED_HINT)
    sample = head[:4096]
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    if b"\0" not in head and controls * 50 <= len(sample):
        return False
    if head[:1] != _FIRST_FIELD:
        raise HloError(f"{name} is a binary file, not HLO", hint=AS_TEXT)
    return True
