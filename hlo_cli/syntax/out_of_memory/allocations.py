"""What fills the memory, by lists and tables in a message: usage, allocations, ranges, windows of kernels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import AllocationStats
from hlo_cli.ir.out_of_memory import (
    AllocatorStats,
    ChunkGroup,
    KernelWindow,
    MemoryPart,
    MemoryRange,
    OomAllocation,
    OutOfMemory,
    TempUsage,
)
from hlo_cli.ir.shape import ArrayShape, Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError
from hlo_cli.syntax.byte_sizes import BYTES, SIZE, byte_number, size_of
from hlo_cli.syntax.compiler_files.memory_files import INDEX, NUMBER, Places, Shapes, stretches
from hlo_cli.syntax.out_of_memory.message_heads import Squeezed, one_line, squeeze
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- labels and tags ---
# Labels and tags in out-of-memory messages: the instruction, its shape, and the purpose of an allocation.


_NAME = re.compile(r"(?:ROOT)?%?([\w.\-]{1,400}+)=")
_ARRAY = re.compile(r"[a-z][a-z0-9]{0,20}+\[[^\]\[]{0,400}\](?:\{[^{}]{0,200}\})?")
_OPCODE = re.compile(r"([a-z][a-z0-9\-]{0,60}+)\(")
_ONLY_OPCODE = re.compile(r"[a-z][a-z0-9-]{0,60}")
_ONLY_NAME = re.compile(r"%([\w.\-]{1,400}?)(?:\.\.\.|…)")
_TARGET = re.compile(r'custom_call_target="([^"]{1,200})"')
_NUMBERED = re.compile(r"\.[0-9]{1,9}\Z")
_KERNELS: Final = ("tpu_custom_call", "mosaic_gpu", "mosaic_gpu_v2", "triton_kernel_call", "__gpu$xla.gpu.triton")
# A tuple of thousands of arrays, the state of a training step; cut messages never close it.
_LONGEST_TUPLE: Final = 100_000
_BRACKET = re.compile(r"[()]")
_OUTPUT_OF = re.compile(rf"output of ([^\s@{{}}]++)(?:@?\{{({INDEX})\}})?")
_SCOPED_FOR = re.compile(r"scoped memory for ([^\s'{}]++)")
_PURPOSE = re.compile(
    r"(?P<what>(?:input|output|in/out) window|(?:prefetched|scratch|input|output)(?: SMEM| VMEM)? operand"
    r"|[^.,(]{1,120}?)"
    r"(?: allocation)?(?: for operator (?:input|output))?(?:,? operand)?(?: (?P<number>[0-9]{1,6}))?(?=[.,(]|\s\(|\Z)"
)
_BUFFERING = re.compile(r"has ([0-9]{1,4}) buffering levels|is single buffered")
_WINDOW_TAG = re.compile(
    r"(?P<which>input|output|in/out) ?window ?allocation ?for ?operator ?(?P<role>input|output) ?(?P<number>[0-9]{1,6})"
)
_WINDOW_SENTENCE = re.compile(r"\. ?The ?window ?shape ?is ?(?=[a-z])|, ?while ?the ?full ?shape ?is ?(?=[a-z])")
_WINDOW_SHAPE = re.compile(r"window shape is ([a-z][a-z0-9]{0,20}+\[[0-9, ]{0,200}\])")


def shape_end(text: str, start: int, end: int) -> int:
    """The end of a shape in a text without whitespace; `start` if there is none.

    >>> shape_end("(f32[2]{0},u32[])fusion", 0, 23), shape_end("f32[2]{0:T(8)}add", 0, 17), shape_end("3", 0, 1)
    (17, 14, 0)
    """
    if text.startswith("(", start):
        depth = 0
        for bracket in _BRACKET.finditer(text, start, min(end, start + _LONGEST_TUPLE)):
            depth += 1 if bracket[0] == "(" else -1
            if depth == 0:
                return bracket.end()
        return start
    match = _ARRAY.match(text, start, end)
    return match.end() if match else start


def label_parts(text: str) -> tuple[str, str, str, str]:
    """The instruction's name, opcode, shape, and custom_call_target in a label without whitespace.

    Labels of buffer assignments have only an opcode, truncated ones may lack any part.

    >>> label_parts("%copy.2=f32[8]{0:T(256)}copy(f32[8]{0}%p),metadata={}")
    ('copy.2', 'copy', 'f32[8]{0:T(256)}', '')
    >>> label_parts("fusion")
    ('', 'fusion', '', '')
    """
    named = _NAME.match(text)
    if named is None:
        if match := _ONLY_NAME.fullmatch(text):
            return match[1], "", "", ""
        return "", text if _ONLY_OPCODE.fullmatch(text) else "", "", ""
    end = shape_end(text, named.end(), len(text))
    opcode = _OPCODE.match(text, end)
    target = _TARGET.search(text)
    return named[1], opcode[1] if opcode else "", text[named.end() : end], target[1] if target else ""


def custom_kernel(name: str, target: str, op_name: str) -> str:
    """The name of a custom kernel: of its op_name, else of its instruction; empty for other instructions.

    >>> custom_kernel("kernel.1", "tpu_custom_call", "jit(f)/my_kernel/pallas_call"), custom_kernel("add.1", "", "")
    ('my_kernel', '')
    >>> custom_kernel("kernel.1", "tpu_custom_call", "")
    'kernel'
    """
    path = op_name.split("/")
    if len(path) > 1 and path[-1].startswith("pallas_call") and "(" not in path[-2]:
        return path[-2]
    return _NUMBERED.sub("", name) if target in _KERNELS else ""


def purpose_of(tag: str) -> tuple[str, int | None]:
    """The purpose of an allocation from its tag, and the number of the operand.

    >>> purpose_of("input window allocation for operator input 2. The window shape is f32[8].")
    ('input window', 2)
    >>> purpose_of("prefetched SMEM operand 0"), purpose_of("output of fusion.9@{1}")
    (('prefetched SMEM operand', 0), ('output of fusion.9{1}', None))
    """
    if not tag:
        return "", None
    if place := tagged_place(tag):
        name, index = place
        if tag.startswith("output of"):
            return f"output of {name}" + (f"{{{index}}}" if index else ""), None
        return f"scoped memory for {name}", None
    match = _PURPOSE.match(tag)
    if match is None:
        return tag, None
    return match["what"].strip(), int(match["number"]) if match["number"] else None


def tagged_place(tag: str) -> tuple[str, str] | None:
    """The instruction that a tag names, with a shape index.

    >>> tagged_place("output of fusion.9@{1}"), tagged_place("scratch operand")
    (('fusion.9', '1'), None)
    """
    if output := _OUTPUT_OF.match(tag):
        return output[1], output[2] or ""
    scoped = _SCOPED_FOR.match(tag)
    return (scoped[1], "") if scoped else None


def spaced_tag(text: str) -> str:
    """The tag of a window with the compiler's blanks, which broken lines lack.

    >>> spaced_tag("input window allocation foroperator input 0. The window shapeis f32[8]")
    'input window allocation for operator input 0. The window shape is f32[8]'
    """
    match = _WINDOW_TAG.match(text)
    if match is None:
        return text
    head = f"{match['which']} window allocation for operator {match['role']} {match['number']}"
    return head + _WINDOW_SENTENCE.sub(_spaced_sentence, text[match.end() :])


def _spaced_sentence(match: re.Match[str]) -> str:
    return ". The window shape is " if match[0].startswith(".") else ", while the full shape is "


def window_shape_of(tag: str) -> tuple[str, int | None]:
    """The shape of the window of an operand, and the number of its buffers, from the text of a tag.

    >>> window_shape_of("input window for operator input 0. The window shape is f32[8]. The buffer is single buffered.")
    ('f32[8]', 1)
    """
    shape, levels = _WINDOW_SHAPE.search(tag), _BUFFERING.search(tag)
    number = int(levels[1] or 1) if levels else None
    return shape[1].replace(" ", "") if shape else "", number


# --- windows of kernels ---
# The texts with which TPU compilers tag the windows of a kernel's operands and results.


_SHAPE: Final = r"([a-z][a-z0-9]{0,15}\[[0-9, ]{0,400}\])"
_KERNEL_WINDOW = lazy_regex(
    r"(input|output) window allocation for\s++operator (?:input|output) ([0-9]{1,6})\.\s++The window\s++shape is\s++"
    rf"{_SHAPE}(?:,\s++while\s++the\s++full\s++shape\s++is\s++{_SHAPE})?"
)
_BUFFERS = lazy_regex(r"has\s++([0-9]{1,3})\s++buffering\s++levels")


def window_of(tag: str) -> KernelWindow | None:
    """The window in the tag of an allocation; None if it has no window. It has one buffer unless the tag has more.

    >>> tag = "input window allocation for operator input 0. The window shape is f32[8192,8192], while the full "
    >>> window = window_of(tag + "shape is f32[32768,8192]. This allocation has 2 buffering levels.")
    >>> window.role, window.number, str(window.block), window.buffers
    ('input', 0, 'f32[8192,8192]{1,0}', 2)
    """
    if (match := _KERNEL_WINDOW.search(tag)) is None:
        return None
    role: Literal["input", "output"] = "input" if match[1] == "input" else "output"
    block = _array(match[3])
    whole = _array(match[4]) if match[4] else block
    if block is None or whole is None:
        return None
    buffers = _BUFFERS.search(tag, match.end())
    return KernelWindow(role, int(match[2]), block, whole, int(buffers[1]) if buffers else 1)


def _array(text: str) -> ArrayShape | None:
    try:
        shape = parse_shape(text)
    except HloError:
        return None
    return shape if isinstance(shape, ArrayShape) else None


# --- tables ---
# Tables in out-of-memory messages: usage by TPU compilers, a buffer assignment's statistics, an allocator's chunks.


_SIZE_TEXT: Final = rf"({BYTES}|unknown(?:size)?)"
_UTILIZED: Final = r"(?:\((?:[^()]|\([^()]{0,60}\)){0,200}\))?"
_PART_NAME: Final = r"(reserved(?:\([^()]{1,60}\))?|heapallocations(?:\([^()]{1,60}\))?|program|arguments)"
_USAGE = re.compile(rf"Total\w{{2,8}}usage(?:>=|[^0-9]{{0,30}}){BYTES}:?((?:[-•]?{_PART_NAME}:?{_SIZE_TEXT})*+)")
_USAGE_PART = re.compile(rf"{_PART_NAME}:?{_SIZE_TEXT}")
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
_COUNT_AT_END = re.compile(r"(?<![0-9])([0-9]{1,19})\s*\Z")
_COUNT_BEFORE: Final = 40  # 19 digits of a count and the white space that logs put between it and the word
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
    match = details.search(_OUTPUT)
    if match is None:
        return None, None
    return byte_number(match[1]), byte_number(match[2]) if match[2] else None


def temp_usage(details: Details) -> TempUsage | None:
    """The utilization of the memory of temporary values.

    >>> text = "Program hbm requirement 2M: HLO temp 1M (92.8% utilization, 0.3% fragmentation (3.0K))"
    >>> temp_usage(details_of(text)).fragmentation_bytes
    3072
    """
    table = details.search(_PROGRAM)
    match = _TEMP.search(table[0]) if table else None
    if match is None:
        return None
    utilization, unpadded, padded, fragmentation, fragmented = match.groups()
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
    sizes = {_STATS[match[1]]: byte_number(match[2]) for match in details.finditer(_STAT)}
    return AllocationStats(**(dict.fromkeys(_NEEDED, 0) | sizes)) if sizes else None


def chunk_groups(details: Details) -> tuple[ChunkGroup, ...]:
    """The chunks that a GPU's allocator has handed out, by size.

    >>> chunk_groups(details_of("2 Chunks of size 256 totalling 512B\\n1 Chunks of size 1024 totalling 1.0KiB"))
    (ChunkGroup(count=2, size_bytes=256), ChunkGroup(count=1, size_bytes=1024))
    """
    groups = []
    for match in details.finditer(_CHUNKS):
        end = details.squeezed.origin(match.start())
        count = _COUNT_AT_END.search(details.squeezed.source, max(0, end - _COUNT_BEFORE), end)
        if count is not None:
            groups.append(ChunkGroup(int(count[1]), int(match[1])))
    if groups:
        return tuple(groups)
    listed = Counter(size for is_used, size in _listed_chunks(details.source) if is_used)
    return tuple(ChunkGroup(listed[size], size) for size in sorted(listed)) or tuple(_histogram(details.source))


def allocator_stats(details: Details) -> AllocatorStats | None:
    """The statistics of an allocator; the first table of a text.

    What the table lacks comes from the list of chunks, which is the only one with the size of the largest free piece:
    the table has 0 for it in most releases.

    >>> allocator_stats(details_of("Stats: \\nLimit:    64\\nInUse:    32\\n")).in_use_bytes
    32
    >>> chunks = "Free  at 7f00 of size 8 next 2\\nInUse at 7f08 of size 16 next 3\\nFree  at 7f18 of size 4 next 9"
    >>> stats = allocator_stats(details_of(chunks))
    >>> stats.in_use_bytes, stats.largest_free_block_bytes, stats.limit_bytes
    (16, 8, 28)
    """
    counts: dict[str, int] = {}
    for match in _ALLOCATOR_FIELD.finditer(details.source):
        counts.setdefault(_ALLOCATOR[match[1]], int(match[2]))
    counts = {**_pool(details.source), **{name: size for name, size in counts.items() if size or name != _LARGEST_FREE}}
    if cuda := details.search(_CUDA_FREE):
        counts[_LARGEST_FREE] = int(cuda[1])
        counts["limit_bytes"] = int(cuda[2])
    return AllocatorStats(**counts) if counts.keys() & {"limit_bytes", "in_use_bytes"} else None


_LARGEST_FREE: Final = "largest_free_block_bytes"
_CHUNK_LINE = re.compile(r"(InUse|Free) {1,2}at (?:0x)?[0-9a-f]{1,16} of size ([0-9]{1,19})(?![0-9])")
_FREE_IN_BIN = re.compile(rf"\bSize: ({SIZE}) \| Requested Size: {SIZE} \| in_use: 0\b")
_POOL = re.compile(r"Total bytes in pool: ([0-9]{1,19}) memory_limit_: ([0-9]{1,19})\b")
_IN_USE = re.compile(rf"Sum Total of in-use chunks: ({SIZE})")
_SUMMARY = re.compile(
    rf"total free in pool ({SIZE}), largest free chunk usable by \w{{1,20}} end ({SIZE}), unallocated bytes ({SIZE}), "
    rf"pool size ({SIZE}), pool limit ({SIZE})"
)


def _listed_chunks(source: str) -> Iterator[tuple[bool, int]]:
    """The chunks of all regions, as whether each is in use and its size: `BFCAllocator::DumpMemoryLog`."""
    return ((match[1] == "InUse", int(match[2])) for match in _CHUNK_LINE.finditer(source))


def _pool(source: str) -> dict[str, int]:
    """What the dump of a best-fit allocator has besides its statistics; its own sums are rounded, chunks are exact.

    Mirrors `BFCAllocator::DumpMemoryLog` of xla/tsl/framework/bfc_allocator.cc.
    """
    found: dict[str, int] = {}
    chunks = list(_listed_chunks(source))
    if summary := _SUMMARY.search(source):
        free, largest, unused, pool, limit = (size_of(each) for each in summary.groups())
        found |= {"limit_bytes": limit, "in_use_bytes": pool - free, _LARGEST_FREE: max(largest, unused)}
    if used := _IN_USE.search(source):
        found["in_use_bytes"] = size_of(used[1])
    if pool_line := _POOL.search(source):
        found["limit_bytes"] = int(pool_line[2])
    # A request fails if no bin above its own has a free chunk: the largest one is in this bin, if it has any.
    in_bin = [size_of(match[1]) for match in _FREE_IN_BIN.finditer(source)]
    if in_bin:
        found[_LARGEST_FREE] = max(in_bin)
    if chunks:
        found["in_use_bytes"] = sum(size for is_used, size in chunks if is_used)
        found.setdefault("limit_bytes", sum(size for _, size in chunks))
        if largest := max((size for is_used, size in chunks if not is_used), default=0):
            found[_LARGEST_FREE] = largest
    return found


def free_bytes(details: Details) -> int | None:
    """The bytes that the driver or the pool of an allocator reports as free."""
    match = details.search(_CUDA_FREE)
    return int(match[1]) if match else None


def _histogram(source: str) -> Iterator[ChunkGroup]:
    """The allocations of `cuda_malloc_async`; each thread prints them, in lines that mix."""
    if begin := _HISTOGRAM.search(source):
        rows = {int(match[1]): int(match[2]) for match in _HISTOGRAM_ROW.finditer(source, begin.end())}
        yield from (ChunkGroup(count, size) for size, count in rows.items())


def _parts(squeezed: Squeezed, pattern: re.Pattern[str], table: re.Match[str]) -> Iterator[MemoryPart]:
    for match in pattern.finditer(squeezed.text, table.start(1), table.end(1)):
        size = match[2]
        yield MemoryPart(squeezed.words(*match.span(1)), None if size.startswith("unknown") else byte_number(size))


# --- the largest allocations ---
# Lists of the largest allocations in out-of-memory messages of TPU compilers and of buffer assignments.


_LIST = re.compile(r"Largestprogramallocationsin\w{1,12}?:|Peakbuffers:")
_LISTED = re.compile(
    rf"(?:Buffer{NUMBER}:|{NUMBER}\\?\.)?Size:{BYTES}(?=Operator:|Shape:|Unpaddedsize:|XLA[Ll]abel:|EntryParameterSubshape:|Tag:)"
)
_TOKEN = re.compile(
    r"(?P<end>={8,})|(?P<number>Buffer[0-9]{1,6}+:|[0-9]{1,6}+\\?\.)(?=Size:|XLA[Ll]abel:|Operator:|Shape:|\Z)"
    r"|(?P<key>Size|Operator|Shape|Unpaddedsize|Extramemoryduetopadding|XLA[Ll]abel|Allocationtype"
    r"|EntryParameterSubshape|Tag):"
)
_TYPES: Final = (
    "HLOtemp",
    "Arguments",
    "arguments",
    "Output",
    "scoped",
    "global",
    "overlays",
    "reserved",
    "stack",
    "heap",
)
_TYPE = re.compile(rf"{'|'.join(_TYPES)}|[A-Za-z_]{{4,24}}")
_BYTE: Final = 8  # sizes of narrower types depend on packing, which the message does not tell
_ROUNDED: Final = 1.02  # sizes are printed with three digits, so 1.00G may be 1% less than its shape
_ALLOCATED_SIZE = re.compile(BYTES)
_ASSIGNED = re.compile(r"\w{1,30}=")
_EXPANSION = re.compile(r"\([0-9.]{1,20}xexpansion\)")
_BLANK_LINE = re.compile(r"\n[ \t]*\n|={8,}")
OP_NAME = re.compile(r'\bop_name="((?:[^"\\]++|\\.)*+)')
SOURCE_FILE = re.compile(r'\bsource_file="((?:[^"\\]++|\\.)*+)')
_SOURCE_LINE = re.compile(rf"\bsource_line=({NUMBER})")
_OPEN, _CLOSED = re.compile(r"[\[({]"), re.compile(r"[\])}]")


@dataclass(frozen=True, slots=True)
class _Field:
    """A value of an entry: its place in the text without whitespace, and itself on one line."""

    start: int
    end: int
    text: str


def allocations_of(details: Details, places: Places, shapes: Shapes) -> Iterator[OomAllocation]:
    """The allocations that a message lists, in its order, the largest first.

    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> text = "Peak buffers:\\n\\tBuffer 1:\\n\\t\\tSize: 6.00MiB\\n\\t\\tXLA Label: fusion\\n"
    >>> text += "\\t\\tShape: f32[4096,384]\\n"
    >>> [allocation] = allocations_of(details_of(text), Places(None), Shapes())
    >>> allocation.size_bytes, allocation.opcode, str(allocation.shape)
    (6291456, 'fusion', 'f32[4096,384]{1,0}')
    """
    begin = details.search(_LIST)
    start = begin.end() if begin is not None else None
    if start is None and (match := details.search(_LISTED)):
        start = match.start()
    if start is not None:
        for entry in _entries(details.squeezed, start, details.end):
            allocation = _listed(details.squeezed, entry, places, shapes)
            if allocation.size_bytes is not None or allocation.shape is not None or allocation.label:
                yield allocation


def _entries(squeezed: Squeezed, start: int, end: int) -> Iterator[dict[str, _Field]]:
    """The entries of a list as keys and values, up to the first text that is not an entry."""
    entry: dict[str, _Field] = {}
    at = start
    numbered, is_numbered = -1, False
    for token in _TOKEN.finditer(squeezed.text, start, end):
        first = _number_start(squeezed, token)
        if first < at:
            continue
        if not _is_key(squeezed, token, end):
            continue
        if squeezed.text[at:first].strip("-•"):
            break
        key = (token["key"] or "").lower()
        if entry and (not key or key in entry or key == "size"):
            yield entry
            entry = {}
        if token["number"]:
            numbered, is_numbered = token.end(), True
        elif key == "size" and is_numbered and token.start() != numbered and not _has_more(squeezed, token.end(), end):
            return
        at = token.end()
        if key:
            value = _value(squeezed, key, token.end(), end)
            entry[key] = value
            at = value.end
    if entry:
        yield entry


def _number_start(squeezed: Squeezed, token: re.Match[str]) -> int:
    """The start of an entry's number, without digits of the value before it."""
    if not token["number"]:
        return token.start()
    start = token.start()
    source, origin = squeezed.source, squeezed.origin(token.end("number") - 1)
    digits = (
        len(source[:origin].rstrip("\\"))
        if origin < 64
        else len(source[origin - 64 : origin].rstrip("\\")) + origin - 64
    )
    first = digits
    while first > 0 and source[first - 1].isdigit():
        first -= 1
    return max(start, token.end("number") - 1 - (origin - first)) if token["number"][0] != "B" else start


def _has_more(squeezed: Squeezed, start: int, end: int) -> bool:
    """Whether another key comes right after a size; a size alone may belong to other text."""
    size = _ALLOCATED_SIZE.match(squeezed.text, start, end)
    token = _TOKEN.match(squeezed.text, size.end(), end) if size else None
    return token is not None and bool(token["key"])


def _is_key(squeezed: Squeezed, token: re.Match[str], end: int) -> bool:
    """Whether a key has a value of its kind after it."""
    text, at = squeezed.text, token.end()
    match token["key"]:
        case "Size" | "Unpaddedsize" | "Extramemoryduetopadding":
            return text[at : at + 1].isdigit() or at >= end
        case "Shape" | "EntryParameterSubshape":
            return shape_end(text, at, end) > at or at >= end
        case "Operator":
            return _ASSIGNED.match(text, at) is not None or at >= end
        case _:
            return True


def _value(squeezed: Squeezed, key: str, start: int, end: int) -> _Field:
    """The value of a key, from the text after it."""
    text = squeezed.text
    if key in ("size", "unpaddedsize", "extramemoryduetopadding"):
        match = _ALLOCATED_SIZE.match(text, start, end)
        stop = match.end() if match else start
        note = _EXPANSION.match(text, stop, end)
        return _Field(start, note.end() if note else stop, text[start:stop])
    if key in ("shape", "entryparametersubshape"):
        stop = shape_end(text, start, end)
        return _Field(start, stop, text[start:stop])
    if key == "allocationtype":
        match = _TYPE.match(text, start, end)
        stop = match.end() if match else start
        words = squeezed.words(start, stop) if text[start:stop] in _TYPES else squeezed.first_word(start, stop)
        return _Field(start, start + len(words.replace(" ", "")), words)
    return _free_text(squeezed, start, end)


def _free_text(squeezed: Squeezed, start: int, end: int) -> _Field:
    """A label, operator, or tag: to the next key, blank line, or line that does not continue it."""
    stop = end
    for token in _TOKEN.finditer(squeezed.text, start, end):
        first = _number_start(squeezed, token)
        if _is_key(squeezed, token, end) and _begins_line(squeezed, first):
            stop = first
            break
    if stop <= start:
        return _Field(start, start, "")
    origin, source_end = squeezed.origin(start), squeezed.end_origin(stop)
    size = _length(squeezed.source, origin, source_end)
    after = max(start, min(stop, squeezed.index_of(origin + size)))
    return _Field(start, after, one_line(squeezed.source[origin : origin + size]))


def _begins_line(squeezed: Squeezed, offset: int) -> bool:
    """Whether there is whitespace before a token in the source, or nothing that could be a word it belongs to."""
    origin = squeezed.origin(offset)
    return origin == 0 or not (squeezed.source[origin - 1].isalnum() or squeezed.source[origin - 1] in "_\"'=(/.")


def _length(source: str, start: int, end: int) -> int:
    """The length of a value: it goes on after a line break only while brackets or quotes are open."""
    blank = _BLANK_LINE.search(source, start, end)
    end = blank.start() if blank else end
    depth, quotes, at = 0, 0, start
    while at < end:
        stop = source.find("\n", at, end)
        stop = end if stop < 0 else stop
        line = source[at:stop]
        depth += len(_OPEN.findall(line)) - len(_CLOSED.findall(line))
        quotes += line.count('"') - line.count('\\"')
        at = stop + 1
        if line.rstrip().endswith("...") or (depth <= 0 and quotes % 2 == 0):
            return stop - start
    return end - start


def _listed(squeezed: Squeezed, entry: dict[str, _Field], places: Places, shapes: Shapes) -> OomAllocation:
    entry = _consistent(entry, shapes)
    label, operator = entry.get("xlalabel"), entry["operator"].text if "operator" in entry else ""
    place, opcode, label_shape, target = None, "", "", ""
    if label is not None:
        name, opcode, label_shape, target = label_parts(squeezed.text[label.start : label.end])
        place = places.of(name) if name else None
        opcode = opcode if name or " " not in label.text else ""
    parameter = entry.get("entryparametersubshape")
    shape = entry.get("shape", parameter)
    shape_text = shape.text if shape is not None and shape.text else label_shape
    label_text = label.text if label is not None else ""
    op_name = _quoted(OP_NAME, operator) or _quoted(OP_NAME, label_text)
    line = _SOURCE_LINE.search(operator) or _SOURCE_LINE.search(label_text)
    tag_text = entry["tag"].text if "tag" in entry else ""
    tag, operand = purpose_of(tag_text)
    return OomAllocation(
        _size(entry.get("size")),
        shapes.of(shape_text) if shape_text else None,
        _size(entry.get("unpaddedsize")),
        _size(entry.get("extramemoryduetopadding")),
        label_text,
        place,
        "parameter" if parameter else opcode,
        op_name,
        _quoted(SOURCE_FILE, operator) or _quoted(SOURCE_FILE, label_text),
        int(line[1]) if line else None,
        entry["allocationtype"].text if "allocationtype" in entry else "",
        tag,
        parameter is not None,
        tag_text,
        operand,
        custom_kernel(place.name if place is not None else "", target, op_name),
        target,
    )


def _consistent(entry: dict[str, _Field], shapes: Shapes) -> dict[str, _Field]:
    """An entry without the facts of another one, of which text is missing: no value is larger than its allocation."""
    size, unpadded = _size(entry.get("size")), _size(entry.get("unpaddedsize"))
    if size is None:
        return entry
    shape = shapes.of(entry["shape"].text) if "shape" in entry and entry["shape"].text else None
    if isinstance(shape, ArrayShape) and shape.element_type.bits >= _BYTE and shape.logical_bytes > _ROUNDED * size:
        return {key: field for key, field in entry.items() if key in ("size", "operator")}
    if unpadded is not None and unpadded > _ROUNDED * size:
        return {key: field for key, field in entry.items() if key in ("size", "operator", "shape")}
    return entry


def _quoted(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _size(field: _Field | None) -> int | None:
    return byte_number(field.text) if field is not None and field.text else None


# --- ranges of allocations ---
# The report on memory usage in errors of TPU compilers: ranges of allocations, and the shapes of the values in them.
#
# Mirrors `BufferAllocation::MemoryUsageReport` of xla/service/buffer_assignment.cc, which the compiler logs after an
# error; the text may be wrapped, and cut at its start or end.


_ROW: Final = (
    r"[0-9.]{1,10}+[KMGTPE]?i?B\((?:-?nan|[0-9]{1,3})%\);"
    rf"(?P<size>{BYTES});(?P<offset>{NUMBER});(?P<count>{NUMBER});"
)
_EVENT = re.compile(
    rf"MemorySpace:(?P<space>\w{{1,40}}?)\(color=(?P<color>{NUMBER})\)|Totalbytes:(?P<total>{NUMBER})\("
    rf"|(?P<table>cumulative_size;size;offset;)|{_ROW}"
)
_TIMES = re.compile(rf"({NUMBER})(?:×|x|&times;|Ã.|\\{{1,8}}u00d7|(?:\\{{1,8}}x(?:c3|97|d7)){{1,2}})")
_MAIN: Final = "default"
_MAIN_MEMORY: Final = "hbm"
_FIRST_COLORS: Final = ("0", "1")


@dataclass(frozen=True, slots=True)
class UsageText:
    """A report in a text: the totals of the memory spaces, and the ranges of all of them in the text's order."""

    spaces: tuple[MemoryPart, ...] = ()
    ranges: tuple[OomAllocation, ...] = ()


def usage_text(details: Details, shapes: Shapes) -> UsageText:
    """The report in a part of a text; empty if there is none.

    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> text = "Memory Space: default (color=0)\\nTotal bytes: 8192 (8.0KiB)\\n"
    >>> text += "cumulative_size; size; offset; used_by_n_values; shapes_list\\n---\\n"
    >>> text += "8.0KiB(100%); 8.0KiB; 512; 3; f32[16,128], 2×(s32[8], u32[])\\n"
    >>> [found] = usage_text(details_of(text), Shapes()).ranges
    >>> found.size_bytes, found.range.offset_bytes, [(count, str(shape)) for count, shape in found.range.shapes]
    (8192, 512, [(1, 'f32[16,128]{1,0}'), (2, '(s32[8]{0}, u32[])')])
    """
    text = details.squeezed.text
    space, allocation = "", 0
    totals: dict[str, int | None] = {}
    ranges: list[OomAllocation] = []
    for event, end in stretches(list(details.finditer(_EVENT)), details.end):
        if event["space"]:
            if ranges and not totals and event["color"] in _FIRST_COLORS:
                totals[_MAIN] = None
                ranges = [_in_space(range_, _MAIN) for range_ in ranges]
            space, allocation = event["space"], 0
            totals[space] = None
        elif event["total"]:
            totals[space] = int(event["total"])
        elif event["table"]:
            allocation += 1
        else:
            listed = tuple(_shapes(text, event.end(), end, shapes))
            place = MemoryRange(space, allocation, int(event["offset"]), int(event["count"]), listed)
            ranges.append(OomAllocation(byte_number(event["size"]), _only_shape(listed), range=place))
    rows = Counter(_table_key(range_) for range_ in ranges)
    last = (space, allocation)
    marked = (
        _marked(range_, is_alone=rows[_table_key(range_)] == 1 and _table_key(range_) not in (last, ("", 0)))
        for range_ in ranges
    )
    return UsageText(tuple(MemoryPart(name, size) for name, size in totals.items()), tuple(marked))


def with_usage(message: OutOfMemory, usage: UsageText) -> OutOfMemory:
    """A message with a report: the ranges of the memory space that ran out are its allocations.

    The main memory is `default`; ranges whose space is unknown count as in it if there is no other text.

    >>> from hlo_cli.source import Span
    >>> row = OomAllocation(64, range=MemoryRange("default", 1, 0, 1))
    >>> found = with_usage(OutOfMemory("compile", Span(0, 0), "hbm", "tpu"), UsageText((), (row,)))
    >>> found.allocations == (row,), found.other_ranges
    (True, ())
    """
    if not usage.ranges and not usage.spaces:
        return message
    name = _MAIN if message.space == _MAIN_MEMORY else message.space
    names = {name} if usage.spaces else {name, ""}
    here = tuple(range_ for range_ in usage.ranges if range_.range is not None and range_.range.space in names)
    others = tuple(range_ for range_ in usage.ranges if range_.range is not None and range_.range.space not in names)
    return replace(message, allocations=message.allocations or here, spaces=usage.spaces, other_ranges=others)


def _shapes(text: str, start: int, end: int, shapes: Shapes) -> Iterator[tuple[int, Shape]]:
    """The counts and shapes of a row, up to the first text that is not one."""
    at = start
    while at < end:
        count = _TIMES.match(text, at, end)
        begin = count.end() if count else at
        stop = shape_end(text, begin, end)
        shape = shapes.of(text[begin:stop]) if stop > begin else None
        if shape is None or isinstance(shape, UnknownShape):
            return
        yield int(count[1]) if count else 1, shape
        if not text.startswith(",", stop):
            return
        at = stop + 1


def _only_shape(listed: tuple[tuple[int, Shape], ...]) -> Shape | None:
    return listed[0][1] if len(listed) == 1 else None


def _table_key(allocation: OomAllocation) -> tuple[str, int]:
    place = allocation.range
    return (place.space, place.allocation) if place is not None else ("", 0)


def _in_space(allocation: OomAllocation, space: str) -> OomAllocation:
    place = allocation.range
    return replace(allocation, range=replace(place, space=space)) if place is not None else allocation


def _marked(allocation: OomAllocation, *, is_alone: bool) -> OomAllocation:
    place = allocation.range
    return replace(allocation, range=replace(place, is_alone=is_alone)) if place is not None else allocation
