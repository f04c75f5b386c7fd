"""Damaged files of every kind that `hlo FILE` answers: pasted texts, files next to dumps, code, caches, and archives."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from random import Random

from strategies import FIXTURES
from xspaces import varint

DATA = Path(__file__).parent / "data"
FOLDERS = ("wild", "pasted", "dump_files", "code_files", "snapshots", "caches", "strict")
MAX_BYTES = 150_000  # a larger file is mostly more of the same, and slower to read
_NUMBER = re.compile(rb"\d+")
_ODD = (
    b"\x00",
    b"\xff\xfe",
    b"\x1b[31m",
    b"9" * 40,
    b"-1",
    b"nan",
    b"1e400",
    b"{",
    b"}",
    b"(",
    b"]",
    b'"',
    b"\\",
    b"> ",
    b"\r",
)


@cache
def whole_files() -> tuple[tuple[str, bytes], ...]:
    """Names and contents of files that are not damaged."""
    paths = [path for folder in FOLDERS for path in sorted((DATA / folder).rglob("*")) if path.is_file()]
    found = [(path.name, path.read_bytes()) for path in paths if path.suffix != ".py"]
    found += [(name.removesuffix(".gz"), gzip.decompress(data)) for name, data in found if name.endswith(".gz")]
    dump = (FIXTURES / "tpu" / "v5e_conv" / "after_optimizations.txt").read_bytes()
    found += [(f"a{ending}", data) for ending, data in _archives(dump).items()]
    return tuple((name, data) for name, data in found if 0 < len(data) <= MAX_BYTES)


def _archives(dump: bytes) -> dict[str, bytes]:
    """Archives with a dump and a file next to it, by their ending."""
    name = "module_0001.jit_f.after_optimizations.txt"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"dump/{name}", dump)
        file.writestr("dump/module_0001.jit_f.debug_options", 'xla_dump_to: "d"\n')
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w") as archive:
        member = tarfile.TarInfo(f"dump/{name}")
        member.size = len(dump)
        archive.addfile(member, io.BytesIO(dump))
    return {
        ".zip": packed.getvalue(),
        ".tar": tape.getvalue(),
        ".tar.gz": gzip.compress(tape.getvalue()),
        ".txt.gz": gzip.compress(dump),
    }


def damaged_file(random: Random) -> tuple[str, bytes]:
    """A file with some changes: its name, which is kept, and its bytes."""
    name, data = random.choice(whole_files())
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        data = _changed(data, random) if b"\0" in data or random.random() < 0.4 else _changed_text(data, random)
    return name, data


def _changed(data: bytes, random: Random) -> bytes:
    """Bytes with one change anywhere."""
    broken = bytearray(data or b"\n")
    at = random.randrange(len(broken))
    match random.randrange(6):
        case 0:
            broken[at] = random.randrange(256)
        case 1:
            del broken[at : at + random.randrange(200)]
        case 2:
            broken[at:at] = varint(random.getrandbits(random.randrange(1, 64)))
        case 3:
            broken[at:at] = random.choice(_ODD)
        case 4:
            other = random.randrange(len(broken))
            broken[at : at + 40] = broken[other : other + 40]
        case _:
            del broken[at:]
    return bytes(broken)


def _changed_text(data: bytes, random: Random) -> bytes:
    """Text with one change of a line or a number, or with a piece of another text."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    match random.randrange(7):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[random.randrange(len(lines))])
        case 2:
            lines[at] = _NUMBER.sub(random.choice((b"0", b"9" * 25, b"-7", b"1.5e300", b"")), lines[at])
        case 3:
            lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
        case 4:
            lines = lines[random.randrange(len(lines)) :]
        case 5:
            lines = [
                random.choice((b"> ", b"E   ", b"[rank0]: ", b"2026-11-02T08:11:40.129Z stderr F ")) + line
                for line in lines
            ]
        case _:
            _, other = random.choice(whole_files())
            lines[at:at] = other[: random.randrange(2000)].split(b"\n")
    return b"\n".join(lines)
