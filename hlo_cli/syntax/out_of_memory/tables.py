"""Tables in out-of-memory messages: usage by TPU compilers, a buffer assignment's statistics, an allocator's chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import AllocationStats
from hlo_cli.ir.out_of_memory import AllocatorStats, ChunkGroup, MemoryPart, TempUsage
from hlo_cli.syntax.compiler_files.byte_texts import BYTES, byte_number
from hlo_cli.syntax.compiler_files.names import NUMBER
from hlo_cli.syntax.out_of_memory.squeezed import Squeezed, squeeze

_SIZE: Final = rf"({BYTES}|unknown(?:size)?)"
_UTILIZED: Final = r"(?:\((?:[^()]|\([^()]{0,60}\)){0,200}\))?"
_PART_NAME: Final = r"(reserved(?:\([^()]{1,60}\))?|heapallocations(?:\([^()]{1,60}\))?|program|arguments)"
_USAGE = re.compile(rf"Total\w{{2,8}}usage(?:>=|[^0-9]{{0,30}}){BYTES}:?((?:[-•]?{_PART_NAME}:?{_SIZE})*+)")
_USAGE_PART = re.compile(rf"{_PART_NAME}:?{_SIZE}")
_OUTPUT = re.compile(rf"Outputsize:?({BYTES})(?:;shares({BYTES})witharguments)?")
_WITH_UNIT: Final = r"[0-9]{1,12}+(?:\.[0-9]{1,6}+)?(?:[KMGTPE]i?B?|B)"
_ONE_PART: Final = rf"[-•]?([A-Za-z][A-Za-z/_]{{0,24}}?):?({_WITH_UNIT}){_UTILIZED}"
_PROGRAM = re.compile(rf"Program\w{{2,8}}requirement:?{BYTES}:?((?:{_ONE_PART})*+)")
_PROGRAM_PART = re.compile(_ONE_PART)
_PERCENT: Final = r"[0-9]{1,9}+(?:\.[0-9]{1,9}+)?"
_TEMP = re.compile(
    rf"({_PERCENT})%utilization(?::Unpadded\(({BYTES})\)Padded\(({BYTES})\))?"
    rf"(?:,({_PERCENT})%fragmentation(?:\(({BYTES})\))?)?"
)
_STATS: Final = {
    "parameterallocation": "parameter_bytes",
    "constantallocation": "constant_bytes",
    "maybe_live_outallocation": "maybe_live_out_bytes",
    "preallocatedtempallocation": "preallocated_temp_bytes",
    "totalallocation": "total_bytes",
    "preallocatedtempfragmentation": "preallocated_temp_fragmentation_bytes",
    "totalfragmentation": "total_fragmentation_bytes",
}
_NEEDED: Final = ("parameter_bytes", "constant_bytes", "maybe_live_out_bytes", "preallocated_temp_bytes", "total_bytes")
_STAT = re.compile(rf"({'|'.join(_STATS)}):({BYTES})")
_CHUNKS = re.compile(rf"Chunksofsize({NUMBER})totalling")
_COUNT = re.compile(r"(?<![0-9])([0-9]{1,19})\s*\Z")
_COUNT_BEFORE: Final = 40
_HISTOGRAM = re.compile(r"Histogram of current allocation")
_HISTOGRAM_ROW = re.compile(r"^[ \t]*([0-9]{1,19}), ([0-9]{1,12})[ \t]*$", re.MULTILINE)
_ALLOCATOR: Final = {
    "Limit": "limit_bytes",
    "InUse": "in_use_bytes",
    "MaxInUse": "max_in_use_bytes",
    "NumAllocs": "num_allocs",
    "MaxAllocSize": "max_alloc_bytes",
    "Reserved": "reserved_bytes",
    "PeakReserved": "peak_reserved_bytes",
    "LargestFreeBlock": "largest_free_block_bytes",
}
_ALLOCATOR_FIELD = re.compile(rf"^[ \t]*(?:Stats:\s*)?({'|'.join(_ALLOCATOR)}):\s*([0-9]{{1,19}})\b", re.MULTILINE)
_CUDA_FREE = re.compile(rf"Freememory/Totalmemory:({NUMBER})/({NUMBER})")


@dataclass(frozen=True, slots=True)
class Details:
    """The part of a text that belongs to one message."""

    squeezed: Squeezed
    start: int
    end: int

    @property
    def source(self) -> str:
        """The part with its whitespace."""
        return self.squeezed.source[self.squeezed.origin(self.start) : self.squeezed.origin(self.end)]

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in the part without whitespace."""
        return pattern.search(self.squeezed.text, self.start, self.end)

    def finditer(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The matches in the part without whitespace."""
        return pattern.finditer(self.squeezed.text, self.start, self.end)


def details_of(text: str) -> Details:
    """All of a text.

    >>> details_of("a b").source
    'a b'
    """
    squeezed = squeeze(text)
    return Details(squeezed, 0, len(squeezed.text))


def usage_parts(details: Details) -> tuple[MemoryPart, ...]:
    """The parts of a device's memory: reserved, the program, its arguments.

    >>> usage_parts(details_of("Total hbm usage >= 2.00G:\\n    reserved   1.00G\\n    program unknown size\\n"))
    (MemoryPart(name='reserved', size_bytes=1073741824), MemoryPart(name='program', size_bytes=None))
    """
    table = details.search(_USAGE)
    return tuple(_parts(details.squeezed, _USAGE_PART, table)) if table else ()


def program_parts(details: Details) -> tuple[MemoryPart, ...]:
    """The parts of a program's memory: global and scoped allocations, temporary values.

    >>> text = "Program hbm requirement 1.50G:\\n    global  512.00M\\n    HLO temp  1.00G (99% utilization)"
    >>> program_parts(details_of(text))
    (MemoryPart(name='global', size_bytes=536870912), MemoryPart(name='HLO temp', size_bytes=1073741824))
    """
    table = details.search(_PROGRAM)
    return tuple(_parts(details.squeezed, _PROGRAM_PART, table)) if table else ()


def output_bytes(details: Details) -> tuple[int | None, int | None]:
    """The size of the output, and how much of it is shared with the arguments.

    >>> output_bytes(details_of("Output size 4.0K; shares 0B with arguments."))
    (4096, 0)
    """
    found = details.search(_OUTPUT)
    if found is None:
        return None, None
    return byte_number(found[1]), byte_number(found[2]) if found[2] else None


def temp_usage(details: Details) -> TempUsage | None:
    """The utilization of the memory of temporary values.

    >>> text = "Program hbm requirement 2M: HLO temp 1M (92.8% utilization, 0.3% fragmentation (3.0K))"
    >>> temp_usage(details_of(text)).fragmentation_bytes
    3072
    """
    table = details.search(_PROGRAM)
    found = _TEMP.search(table[0]) if table else None
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


def assignment_stats(details: Details) -> AllocationStats | None:
    """The table of a buffer assignment; fields that old releases did not print are 0.

    >>> assignment_stats(details_of("BufferAssignment stats:\\n   total allocation:    1.0KiB\\n")).total_bytes
    1024
    """
    found = {_STATS[match[1]]: byte_number(match[2]) for match in details.finditer(_STAT)}
    return AllocationStats(**(dict.fromkeys(_NEEDED, 0) | found)) if found else None


def chunk_groups(details: Details) -> tuple[ChunkGroup, ...]:
    """The chunks that a GPU's allocator has handed out, by size.

    >>> chunk_groups(details_of("2 Chunks of size 256 totalling 512B\\n1 Chunks of size 1024 totalling 1.0KiB"))
    (ChunkGroup(count=2, size_bytes=256), ChunkGroup(count=1, size_bytes=1024))
    """
    groups = []
    for match in details.finditer(_CHUNKS):
        end = details.squeezed.origin(match.start())
        count = _COUNT.search(details.squeezed.source, max(0, end - _COUNT_BEFORE), end)
        if count is not None:
            groups.append(ChunkGroup(int(count[1]), int(match[1])))
    return tuple(groups) or tuple(_histogram(details.source))


def allocator_stats(details: Details) -> AllocatorStats | None:
    """The statistics of an allocator; the first table of a text.

    >>> allocator_stats(details_of("Stats: \\nLimit:    64\\nInUse:    32\\n")).in_use_bytes
    32
    """
    found: dict[str, int] = {}
    for match in _ALLOCATOR_FIELD.finditer(details.source):
        found.setdefault(_ALLOCATOR[match[1]], int(match[2]))
    if cuda := details.search(_CUDA_FREE):
        found["largest_free_block_bytes"] = int(cuda[1])
        found["limit_bytes"] = int(cuda[2])
    return AllocatorStats(**found) if found.keys() & {"limit_bytes", "in_use_bytes"} else None


def free_bytes(details: Details) -> int | None:
    """The bytes that the driver or the pool of an allocator reports as free."""
    found = details.search(_CUDA_FREE)
    return int(found[1]) if found else None


def _histogram(source: str) -> Iterator[ChunkGroup]:
    """The allocations of `cuda_malloc_async`; each thread prints them, in lines that mix."""
    if begin := _HISTOGRAM.search(source):
        rows = {int(match[1]): int(match[2]) for match in _HISTOGRAM_ROW.finditer(source, begin.end())}
        yield from (ChunkGroup(count, size) for size, count in rows.items())


def _parts(squeezed: Squeezed, pattern: re.Pattern[str], table: re.Match[str]) -> Iterator[MemoryPart]:
    for match in pattern.finditer(squeezed.text, table.start(1), table.end(1)):
        size = match[2]
        yield MemoryPart(squeezed.words(*match.span(1)), None if size.startswith("unknown") else byte_number(size))
