"""Tables in out-of-memory messages: usage by TPU compilers, a buffer assignment's statistics, an allocator's chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.ir.compiler_files.buffers import AllocationStats
from hlo_cli.ir.compiler_files.out_of_memory import ChunkGroup, MemoryPart, TempUsage
from hlo_cli.syntax.compiler_files.byte_texts import BYTES, byte_number
from hlo_cli.syntax.compiler_files.names import NUMBER

_SIZE: Final = rf"({BYTES}|unknown(?: size)?)"
_USAGE = re.compile(rf"Total \w+ usage >= {BYTES}:((?:\s+(?:reserved|program|arguments)\s+{_SIZE})*+)")
_USAGE_PART = re.compile(rf"(reserved|program|arguments)\s+{_SIZE}")
_OUTPUT = re.compile(rf"Output size ({BYTES}); shares ({BYTES}) with arguments")
_PROGRAM = re.compile(rf"Program \w+ requirement {BYTES}:[ \t]*\n((?: +[A-Za-z][\w ]*? +{BYTES}[^\n]*+\n)*+)")
_PROGRAM_PART = re.compile(rf"^ +([A-Za-z][\w ]*?) +({BYTES})", re.MULTILINE)
_PERCENT: Final = r"[0-9]{1,9}+(?:\.[0-9]{1,9}+)?"
_TEMP = re.compile(
    rf"({_PERCENT})% utilization(?:: Unpadded \(({BYTES})\) Padded \(({BYTES})\))?"
    rf"(?:, ({_PERCENT})% fragmentation(?: \(({BYTES})\))?)?"
)
_STATS: Final = {
    "parameter allocation": "parameter_bytes",
    "constant allocation": "constant_bytes",
    "maybe_live_out allocation": "maybe_live_out_bytes",
    "preallocated temp allocation": "preallocated_temp_bytes",
    "total allocation": "total_bytes",
    "preallocated temp fragmentation": "preallocated_temp_fragmentation_bytes",
    "total fragmentation": "total_fragmentation_bytes",
}
_NEEDED: Final = ("parameter_bytes", "constant_bytes", "maybe_live_out_bytes", "preallocated_temp_bytes", "total_bytes")
_STAT = re.compile(rf"^[ \t]*({'|'.join(_STATS)}): +({BYTES})", re.MULTILINE)
_CHUNKS = re.compile(rf"\b({NUMBER}) Chunks of size ({NUMBER}) totalling ")
_LIMIT = re.compile(rf"^Limit: +({NUMBER})$", re.MULTILINE)


def usage_parts(text: str) -> tuple[MemoryPart, ...]:
    """The parts of a device's memory: reserved, the program, its arguments.

    >>> usage_parts("Total hbm usage >= 2.00G:\\n    reserved   1.00G\\n    program unknown size\\n")
    (MemoryPart(name='reserved', size_bytes=1073741824), MemoryPart(name='program', size_bytes=None))
    """
    table = _USAGE.search(text)
    return tuple(_parts(_USAGE_PART, table[1])) if table else ()


def program_parts(text: str) -> tuple[MemoryPart, ...]:
    """The parts of a program's memory: global and scoped allocations, temporary values.

    >>> program_parts("Program hbm requirement 1.50G:\\n    global  512.00M\\n    HLO temp  1.00G (99% utilization)\\n")
    (MemoryPart(name='global', size_bytes=536870912), MemoryPart(name='HLO temp', size_bytes=1073741824))
    """
    table = _PROGRAM.search(text)
    return tuple(_parts(_PROGRAM_PART, table[1])) if table else ()


def output_bytes(text: str) -> tuple[int | None, int | None]:
    """The size of the output, and how much of it is shared with the arguments.

    >>> output_bytes("Output size 4.0K; shares 0B with arguments.")
    (4096, 0)
    """
    found = _OUTPUT.search(text)
    return (byte_number(found[1]), byte_number(found[2])) if found else (None, None)


def temp_usage(text: str) -> TempUsage | None:
    """The utilization of the memory of temporary values.

    >>> temp_usage("(92.8% utilization, 0.3% fragmentation (3.0K))").fragmentation_bytes
    3072
    """
    found = _TEMP.search(text)
    if found is None:
        return None
    utilization, unpadded, padded, fragmentation, fragmented = found.groups()
    return TempUsage(
        float(utilization),
        byte_number(unpadded) if unpadded else None,
        byte_number(padded) if padded else None,
        float(fragmentation) if fragmentation else None,
        byte_number(fragmented) if fragmented else None,
    )


def assignment_stats(text: str) -> AllocationStats | None:
    """The table of a buffer assignment; fields that old releases did not print are 0.

    >>> assignment_stats("BufferAssignment stats:\\n   total allocation:    1.0KiB\\n").total_bytes
    1024
    """
    if "BufferAssignment stats:" not in text:
        return None
    found = {_STATS[name]: byte_number(size) for name, size in _STAT.findall(text)}
    return AllocationStats(**(dict.fromkeys(_NEEDED, 0) | found))


def chunk_groups(text: str) -> tuple[ChunkGroup, ...]:
    """The chunks that a GPU's allocator has handed out, by size.

    >>> chunk_groups("2 Chunks of size 256 totalling 512B\\n1 Chunks of size 1024 totalling 1.0KiB")
    (ChunkGroup(count=2, size_bytes=256), ChunkGroup(count=1, size_bytes=1024))
    """
    return tuple(ChunkGroup(int(count), int(size)) for count, size in _CHUNKS.findall(text))


def allocator_limit(text: str) -> int | None:
    """The limit of a GPU's allocator in total."""
    found = _LIMIT.search(text)
    return int(found[1]) if found else None


def _parts(pattern: re.Pattern[str], text: str) -> Iterator[MemoryPart]:
    for name, size in pattern.findall(text):
        yield MemoryPart(name, None if size.startswith("unknown") else byte_number(size))
