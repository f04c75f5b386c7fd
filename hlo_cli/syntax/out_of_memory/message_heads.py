"""Where out-of-memory messages are in a text: the first sentence of each kind, and the figures in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import LimitMeaning, OomKind, OomStage
from hlo_cli.syntax.byte_sizes import BYTES, byte_number
from hlo_cli.syntax.compiler_files.memory_files import NUMBER

# --- texts without whitespace ---
# Texts without whitespace, in which messages are found however their lines were broken.


_TOKEN = re.compile(r"(?:[^\s*`]|(?<!\*)\*(?!\*))++")
_BLANKS = re.compile(r"(?:\s|\\n)++")
_NAMES: Final = {"BYTES": BYTES, "NUMBER": NUMBER, "MANY": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,6}}+|{BYTES})"}
_NAME = re.compile(r"<(BYTES|NUMBER|MANY)>")


def _squeezed_pattern(text: str) -> str:
    """A regular expression for texts without whitespace, from one that is written with blanks for reading.

    `<BYTES>` is a size, `<NUMBER>` digits, `<MANY>` a size or digits with thousands separators.

    >>> re.fullmatch(_squeezed_pattern("out of (<BYTES>) left"), "outof1.5Gleft")[1]
    '1.5G'
    """
    return _NAME.sub(lambda match: _NAMES[match[1]], text.replace(" ", ""))


@dataclass(frozen=True, slots=True)
class Squeezed:
    """A text without whitespace, backticks, and double asterisks; offsets lead back to the text."""

    source: str
    text: str
    _starts: tuple[int, ...]
    _origins: tuple[int, ...]

    def origin(self, offset: int) -> int:
        """The offset in the source of a character; after the last one, the end of the source.

        >>> squeeze("a b c").origin(2), squeeze("a b c").origin(3)
        (4, 5)
        """
        if offset >= len(self.text):
            return len(self.source)
        token = bisect_right(self._starts, offset) - 1
        return self._origins[token] + offset - self._starts[token]

    def end_origin(self, end: int) -> int:
        """The offset in the source after the last character before `end`."""
        return self.origin(end - 1) + 1 if end > 0 else 0

    def index_of(self, origin: int) -> int:
        """The number of characters of this text before an offset of the source.

        >>> squeeze("a  b c").index_of(2), squeeze("a  b c").index_of(4)
        (1, 2)
        """
        token = bisect_right(self._origins, origin - 1) - 1
        if token < 0:
            return 0
        after = self._starts[token + 1] if token + 1 < len(self._starts) else len(self.text)
        return min(self._starts[token] + origin - self._origins[token], after)

    def words(self, start: int, end: int) -> str:
        r"""The source between two offsets of this text, on one line.

        >>> squeeze("a  b\n c").words(0, 3)
        'a b c'
        """
        return one_line(self.source[self.origin(start) : self.end_origin(end)]) if start < end else ""

    def first_word(self, start: int, end: int) -> str:
        """The part up to the first whitespace in the source, which may be shorter than a match without it."""
        return self.words(start, end).partition(" ")[0]


def squeeze(text: str) -> Squeezed:
    """A text without whitespace.

    >>> squeeze("out of `memory`").text
    'outofmemory'
    """
    pieces, starts, origins, at = [], [], [], 0
    for token in _TOKEN.finditer(text):
        pieces.append(token[0])
        starts.append(at)
        origins.append(token.start())
        at += token.end() - token.start()
    return Squeezed(text, "".join(pieces), tuple(starts), tuple(origins))


def one_line(text: str) -> str:
    r"""A text with one blank for each stretch of whitespace and for line breaks written as `\n`.

    >>> one_line(" a\n  b")
    'a b'
    """
    return _BLANKS.sub(" ", text).strip()


# --- first sentences of XLA ---
# The first sentences of XLA's out-of-memory messages, one pattern each, and the meaning of their numbers.


WORD_BYTES: Final = 4
"""The bytes of a word, in which SparseCore counts its memory."""

Target = Literal["tpu", "gpu", "cpu"]
TPU_SPACE: Final = "tpu-other"
"""The kind of a TPU message before its memory space is known."""


@dataclass(frozen=True, slots=True)
class Head:
    """A pattern with groups `used`, `limit`, `over`, `free`, `reserved`, `space`, `device`, and others, if known.

    Its blanks are for reading only: it matches text without whitespace. It begins with plain text, which is quick to
    find; `before` is a pattern for the text before it. `is_weak` patterns count only if no other does.
    """

    kind: OomKind
    stage: OomStage
    target: Target | None
    pattern: str
    space: str = ""
    meaning: LimitMeaning = ""
    unit: int = 1
    is_weak: bool = False
    before: str = ""
    needs_before: bool = False


_SPACE: Final = (
    r"(?P<space>hbm|vmem|smem|cmem|sflag|host|tile_?spmem|spmem|imem"
    r"|[a-z_]{1,24}?(?=\.|while allocating|Used|[^a-z_]|\Z))"
)
_PROGRAM: Final = (
    r"(?:Error loading program (?:'(?P<executable>[^'\n]{0,300})')?: "
    r"|Error (?:allocating device buffer|preparing computation): )"
)
_AT_DEVICE: Final = r"(?:[.;,] *;? \((?P<device>[^()\n]{1,60})\))?"

TPU_HEADS: Final = (
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        rf"Ran out of memory in memory space {_SPACE} while allocating on stack for (?P<stack>)",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        rf"Ran out of memory in memory space {_SPACE} \.? (?:Used (?P<used><BYTES>) of (?P<limit><BYTES>) [a-z_]+ \.?)?"
        r"(?:Exceeded [a-z_]+ capacity by (?P<over><BYTES>) \.?)?",
        meaning="capacity",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        r"Used (?P<used><BYTES>) of (?P<limit><BYTES>) (?P<space>hbm|vmem|smem|cmem|sflag|host) \.?"
        r"(?:Exceeded [a-z_]+ capacity by (?P<over><BYTES>) \.?)?",
        meaning="capacity",
    ),
    Head(
        "tpu-vmem-scoped",
        "compile",
        "tpu",
        r"Scoped allocation (?:with size|of) (?P<used><BYTES>) (?:and limit (?P<limit><BYTES>))?"
        r"(?:exceeded scoped \w{1,20}? limit (?:by (?P<over><BYTES>))?)?",
        "vmem",
        "limit",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"HLO temporaries "
        r"\((?P<used><BYTES>)\) exceeds available \w{1,8}? \((?P<limit><BYTES>)\) \.? (?:HLO module: (?P<module>))?",
        "hbm",
        "capacity",
        before=r"(?:Ran out of memory on (?P<space>\w{1,8}?),)? (?:the total memory required for)?",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"Hbm usage:? (?P<tensor_core><BYTES>), (?:SparseCore|SC) Hbm usage:? "
        r"(?P<sparse_core><BYTES>), exceeding available bytes:? (?P<limit><BYTES>)",
        "hbm",
        "capacity",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"unlikely to have enough memory\. Requires (?P<used><BYTES>), has (?P<limit><BYTES>) available",
        "hbm",
        "capacity",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        r"Allocation (?P<record>)(?:\(size=(?P<used><NUMBER>)\))? would exceed memory \(size=(?P<limit><NUMBER>)\)",
        meaning="capacity",
    ),
    Head(
        "tpu-sparse-core",
        "compile",
        "tpu",
        r"allocation offset upper bound \((?P<used><NUMBER>) words\)"
        r"(?:exceeds [^(]{0,100} \((?P<limit><NUMBER>) words\)"
        r"(?:in memory space (?P<space>tile_?spmem|spmem|smem|hbm|sflag|vmem|[0-9]{1,3}(?=[^0-9])))?"
        r"(?:when allocating (?P<request><NUMBER>) words)?)?",
        "SparseCore",
        "limit",
        WORD_BYTES,
        before="current",
    ),
    Head(
        "tpu-sparse-core",
        "compile",
        "tpu",
        r"fixed_size_allocation_bytes = (?P<tensor_core><NUMBER>), row_dependent_size_allocation_bytes = "
        r"(?P<sparse_core><NUMBER>), total_spmem_size_bytes = (?P<limit><NUMBER>)",
        "spmem",
        "capacity",
    ),
    Head(
        "tpu-buffer",
        "run",
        "tpu",
        r"Attempting to allocate (?P<used><BYTES>) (?:[.…]{1,5} (?:That was not possible\.?)?)?"
        r"(?:(?:There are|Only) (?P<limit><BYTES>) free (?:on (?P<device2>HBM[0-9]+(?=[^0-9]|\Z)))? \.? "
        rf"{_AT_DEVICE})?",
        "hbm",
        "free",
        before=_PROGRAM,
    ),
    Head(
        "tpu-load",
        "load",
        "tpu",
        r"Attempting to reserve (?P<used><BYTES>) (?:at the (?:bottom|top) of memory)? \.?"
        r"(?:That was not possible\.?)? (?:There are (?P<free><BYTES>) free, (?P<reserved><BYTES>) reserved, and "
        rf"(?P<limit><BYTES>) reservable \.? {_AT_DEVICE})?",
        "hbm",
        "reservable",
        before=_PROGRAM,
    ),
    Head(
        "tpu-load",
        "load",
        "tpu",
        r"trying to reserve (?P<used><BYTES>) with (?P<limit><BYTES>) reservable",
        "hbm",
        "reservable",
    ),
)

_REFUSED_REQUEST: Final = r"(?:\((?P<used><NUMBER>)B\))? (?:on device ordinal (?P<device>[0-9]{1,4}+))?"
_EXECUTABLE: Final = r"(?:\.? \[executable_name='(?P<executable>[^'\n]{0,300})'\])?"

GPU_HEADS: Final = (
    Head("device", "run", None, rf"Out of memory while trying to allocate (?P<used><MANY>) (?:bytes)? {_EXECUTABLE}"),
    Head(
        "device",
        "run",
        None,
        rf"Failed to allocate request for (?P<approximate><BYTES>) {_REFUSED_REQUEST} {_EXECUTABLE}",
    ),
    Head(
        "gpu-allocator",
        "run",
        "gpu",
        r"ran out of memory trying to allocate (?P<approximate><BYTES>) (?:\(rounded to (?P<used><NUMBER>)\))?",
        before=r"(?:Allocator \((?P<device>\w{1,60})\)|(?P<device2>(?:GPU|gpu|xla)\w{0,40}_bfc))",
    ),
    Head("gpu-allocator", "run", "gpu", r"Ran out of memory trying to allocate (?P<used><BYTES>)"),
    Head(
        "gpu-allocator",
        "run",
        "gpu",
        r"cuMemAlloc\w{0,20}? failed to allocate (?P<used><MANY>) bytes",
        before=r"(?P<device>gpu_async_[0-9]{1,4})",
    ),
    Head(
        "gpu-driver",
        "run",
        "gpu",
        r"failed to allocate (?P<approximate><BYTES>) \((?P<used><NUMBER>) bytes\) from device",
    ),
    Head("gpu-driver", "run", "gpu", r"Failed to allocate device memory of (?P<used><BYTES>)"),
    Head("gpu-driver", "run", "gpu", r"failed to alloc (?P<used><NUMBER>) bytes on host", "host"),
    Head("gpu-driver", "run", "gpu", r"ailed to allocate (?P<used><NUMBER>) bytes of (?:pinned )?host memory", "host"),
    Head("gpu-driver", "run", "gpu", r"failed to alloc (?P<used><NUMBER>) bytes unified memory", "unified"),
    Head("gpu-driver", "run", "gpu", r"could not allocate pinned host memory of size: (?P<used><BYTES>)", "host"),
    Head("gpu-driver", "run", "gpu", r"could not allocate (?:CUDA|ROCM) stream for device (?P<device>[0-9]{1,3}): \w+"),
    Head("gpu-driver", "run", "gpu", r"Failed to instantiate (?:HIP|CUDA) graph: \w*(?:OutOfMemory|OUT_OF_MEMORY)"),
    Head("gpu-constant", "load", "gpu", r"Failed to allocate (?P<used><MANY>) bytes for new constant"),
    Head("cpu", "run", "cpu", r"ut of memory allocating (?P<used><MANY>) (?:bytes)?", "host", before="[Oo]"),
    Head(
        "rematerialization",
        "compile",
        None,
        r"reduce memory use below (?P<about><BYTES>) (?:\((?P<limit><NUMBER>) bytes\))? by rematerialization "
        r"(?:; only reduced to (?P<approximate><BYTES>) (?:\((?P<used><NUMBER>) bytes\))?"
        r"(?:, down from (?P<before><BYTES>) (?:\((?P<original><NUMBER>) bytes\))?)?)?",
        meaning="limit",
        before="Can.{0,5}?t",
    ),
    Head(
        "arguments",
        "compile",
        "gpu",
        r"byte size of input/output arguments \((?P<used><NUMBER>)\) exceeds the base limit \((?P<limit><NUMBER>)\)",
        meaning="limit",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"hared memory size limit exceeded: requested (?P<used><NUMBER>) (?:, available: (?P<limit><NUMBER>))?",
        "shared memory",
        "capacity",
        before="[Ss]",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"out of resources?: (?P<space>shared memory|[a-z ]{1,30}?), Required: (?P<used><NUMBER>), Hardware limit: "
        r"(?P<limit><NUMBER>)",
        "shared memory",
        "capacity",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"uses too much shared data \((?P<used>0x[0-9a-f]{1,16}) bytes, (?P<limit>0x[0-9a-f]{1,16}) max\)",
        "shared memory",
        "capacity",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"exceeds available shared memory: (?:\w{1,30}=)? (?P<used><NUMBER>) [>] (?:\w{1,30}=)? (?P<limit><NUMBER>)",
        "shared memory",
        "capacity",
    ),
)


# --- first sentences of others ---
# Out-of-memory messages that are not XLA's: other frameworks, the kernel, containers, and schedulers; weak signs.


_TORCH_OLD: Final = (
    r"\(GPU (?P<device>[0-9]{1,4}); (?P<capacity><BYTES>) total capacity; (?P<in_use><BYTES>) already allocated; "
    r"(?P<limit><BYTES>) (?:bytes)? free; (?P<reserved><BYTES>) reserved"
)
_TORCH_NEW: Final = (
    r"GPU (?P<device2>[0-9]{1,4}) has a total capacity of (?P<capacity2><BYTES>) of which "
    r"(?P<limit2><BYTES>) (?:bytes)? is free"
)

OTHER_HEADS: Final = (
    Head(
        "pytorch",
        "run",
        "gpu",
        rf"out of memory\. (?:Tried to allocate (?P<used><BYTES>) \.? (?:{_TORCH_OLD}|{_TORCH_NEW})?)?",
        meaning="free",
        before="(?:CUDA|HIP|XPU)",
        needs_before=True,
    ),
    Head(
        "pytorch",
        "run",
        "gpu",
        r"MPS backend out of memory (?:\(MPS allocated: (?P<in_use><BYTES>), other allocations: (?P<other><BYTES>), "
        r"max allowed: (?P<limit><BYTES>)\))? \.? (?:Tried to allocate (?P<used><BYTES>))?",
        meaning="capacity",
    ),
    Head(
        "pytorch",
        "run",
        "cpu",
        r"DefaultCPUAllocator: (?:can.?t allocate|not enough) memory: you tried to allocate (?P<used><NUMBER>) bytes",
        "host",
    ),
    Head(
        "tensorflow",
        "run",
        None,
        r"OOM when allocating tensor with shape \[(?P<dimensions>[0-9, ]{0,200})\]"
        r"(?:and type (?P<type>u?int[0-9]{1,2}|bfloat16|float|half|double|bool|complex64|complex128"
        r"|[a-z0-9_]{1,12}?(?=on/))"
        r"(?:on (?P<place>/job:[\w/:]{1,200}?) (?:by allocator (?P<device>\w{1,12}_bfc|\w{1,40}))?(?=[^\w/:]|\Z))?)?",
    ),
    Head(
        "linux-oom-killer",
        "run",
        "cpu",
        r"Kill(?:ed)? process (?P<pid>[0-9]{1,9}) "
        r"\((?P<process>[^\n]{1,40}?)\),? (?:UID:? [0-9]{1,9},?)? (?:score [0-9]{1,5} or sacrifice child)?"
        r"(?:total-vm:(?P<virtual>[0-9,]{1,20})kB, anon-rss:(?P<anonymous>[0-9,]{1,20})kB"
        r", file-rss:(?P<file>[0-9,]{1,20})kB"
        r"(?:, shmem-rss:(?P<shared>[0-9,]{1,20})kB)?)?",
        "host",
        "limit",
        before="(?:(?P<group>Memory cgroup)? [Oo]ut of memory:)",
    ),
    Head(
        "linux-oom-killer",
        "run",
        "cpu",
        r"oom-kill: constraint=(?P<reason>CONSTRAINT_[A-Z_]{1,30}),"
        r"(?:[^\n]{0,1200}?task_memcg=(?P<memcg>[^,\n]{0,600}))?"
        r"(?:[^\n]{0,400}?task=(?P<process>[^,\n]{1,60}),pid=(?P<pid>[0-9]{1,9}))?",
        "host",
        "limit",
    ),
    Head(
        "slurm",
        "run",
        "cpu",
        r"Detected (?P<events>[0-9]{1,9}) oom[-_]kill event (?:\(s\)|s)? in (?P<step>(?:StepId=|step))",
        "host",
    ),
    Head("slurm", "run", "cpu", r"(?:Exceeded (?:job|step) memory limit|State: OUT_OF_MEMORY)", "host", is_weak=True),
    Head(
        "ray",
        "run",
        "cpu",
        r"Memory on the node (?:[^\n]{0,600}?name=(?P<process>[^,\n]{1,200}),pid=(?P<pid>[0-9]{1,9}),"
        r"memory used=(?P<resident><BYTES>))?[^\n]{0,300}? was (?:running was)? "
        r"(?P<used><BYTES>)/(?P<capacity><BYTES>) "
        r"\([0-9.]{1,12}\)(?:, which exceeds the memory usage threshold of (?P<threshold>[0-9](?:\.[0-9]{1,6})?))?",
        "host",
        "capacity",
    ),
    Head(
        "ray",
        "run",
        "cpu",
        r"Workers (?:\(tasks/actors\))? killed due to memory pressure",
        "host",
        is_weak=True,
    ),
    Head("ray", "run", "cpu", r"Task was killed due to the node running low on memory", "host", is_weak=True),
    Head(
        "ray",
        "run",
        "cpu",
        r"of the memory on node [\w.-]{1,80}? is used \((?P<used><BYTES>)/(?P<limit><BYTES>)\)",
        "host",
        "capacity",
    ),
    Head("kubernetes", "run", "cpu", r"OOMKilled", "host", is_weak=True),
    Head(
        "kubernetes",
        "run",
        "cpu",
        r"OOM killed \(container exceeded memory limit\)|Container was OOM killed",
        "host",
        is_weak=True,
    ),
    Head("process", "run", "cpu", r"Unable to allocate (?P<used><BYTES>) for an array with shape", "host"),
    Head("process", "run", "cpu", r"std::bad_alloc", "host", is_weak=True),
    Head("process", "run", "cpu", r"MemoryError(?=:|\Z)", "host", is_weak=True),
)
"""Messages of other programs."""

WEAK_HEADS: Final = (
    Head("tpu-hbm", "compile", "tpu", r"CompileTimeHbmOom", "hbm", "capacity", is_weak=True),
    Head("tpu-vmem-scoped", "compile", "tpu", r"CompileTimeScopedVmemOom", "vmem", "limit", is_weak=True),
    Head("tpu-sparse-core", "compile", "tpu", r"CompileTimeSparseCoreAllocationFailure", "SparseCore", is_weak=True),
    Head("tpu-load", "load", "tpu", r"RuntimeProgramAllocationFailure", "hbm", "reservable", is_weak=True),
    Head("tpu-buffer", "run", "tpu", r"RuntimeBufferAllocationFailure", "hbm", "free", is_weak=True),
    Head("linux-oom-killer", "run", "cpu", r"invoked oom-killer", "host", is_weak=True),
    Head("process", "run", "cpu", r"line [0-9]{1,6}: (?P<pid>[0-9]{1,9}) (?P<reason>Killed)", "host", is_weak=True),
    Head("gpu-driver", "run", "gpu", r"CUDA_ERROR_OUT_OF_MEMORY|HIP_ERROR_OutOfMemory", is_weak=True),
    Head("gpu-buffer-assignment", "run", "gpu", r"BufferAssignment OOM Debugging", is_weak=True),
    Head("gpu-allocator", "run", "gpu", r"RESOURCE_EXHAUSTED: failed to allocate memory", is_weak=True),
    Head("device", "run", None, r"(?:RESOURCE_EXHAUSTED|Resource exhausted): [Oo]ut of memory", is_weak=True),
)
"""Signs of a failure whose message is missing or was retold; they count if the text has no message."""


# --- messages and their figures ---
# The places of out-of-memory messages in a text, and the figures in their first sentences.


MESSAGES: Final = tuple(head for head in (*TPU_HEADS, *GPU_HEADS, *OTHER_HEADS) if not head.is_weak)
SIGNS: Final = tuple(head for head in (*OTHER_HEADS, *WEAK_HEADS) if head.is_weak)
SPARSE_CORE_SPACES: Final = {"0": "smem", "201": "tile_spmem", "202": "spmem", "203": "hbm", "204": "sflag"}
"""Memory spaces of SparseCore by their numbers."""

_PLAIN = re.compile(r"[A-Za-z_:,'/-]+(?![?*+{|])")
_LONGEST_BEFORE: Final = 400  # the sentence before a head names the program; without spaces it is shorter than this
_NO_FAILURE = re.compile(r".{0,200}?Thecallerindicatesthatthisisnotafailure")
_KILOBYTES: Final = ("virtual", "anonymous", "file", "shared")
_TPU_LIST = re.compile(
    r"Largestprogramallocationsin(\w{1,12}?):|(?:[0-9]{1,4}\\?\.)?Size:[0-9.]{1,20}[KMGT]?i?B?(?:Operator:[^\n]{0,2000}?)?Shape:"
    r"[^\n]{0,400}?(?:Unpaddedsize:|Allocationtype:)"
)
_GPU_LIST = re.compile(r"Peakbuffers:|Buffer[0-9]{1,6}:Size:[0-9]|BufferAssignmentstats:")
_TOLD_USED = re.compile(
    r"(?:requested|requires?|required|needs?|needed)(?:HBM|VMEM|memory)?:?[~≈]?(?P<used>[0-9]{1,9}(?:\.[0-9]{1,6})?[KMGT]i?B?)"
)
_TOLD_LIMIT = re.compile(
    r"(?:againsta?|available(?:HBM|VMEM|memory)?:?|limit(?:of|:)?)[~≈]?(?P<limit>[0-9]{1,9}(?:\.[0-9]{1,6})?[KMGT]i?B?)"
)
_TOLD_WITHIN: Final = 300  # people write the two figures in the sentence after the sign
_CODE = re.compile(r"(E[0-9]{4}):\w{1,60}:(?:XLA:TPUcompilepermanenterror\.)?\Z|\b(E[0-9]{4}):\Z")
_CODE_BEFORE: Final = 120  # `E1000: CompileTimeHbmOom: XLA:TPU compile permanent error.` without spaces is half as long


@dataclass(frozen=True, slots=True)
class FoundHead:
    """The first sentence of a message: its place in the text without whitespace, and its named parts."""

    head: Head
    start: int
    end: int
    groups: dict[str, str]
    ends: dict[str, int]
    code: str = ""

    def size(self, *names: str) -> int | None:
        """The first known of several sizes, in bytes."""
        for name in names:
            if text := self.groups.get(name):
                return number_of(text) * (1024 if name in _KILOBYTES else self.head.unit)
        return None


def number_of(text: str) -> int:
    """A number of bytes, decimal with or without thousands separators, or hexadecimal.

    >>> number_of("0x10"), number_of("1,024"), number_of("2.0K")
    (16, 1024, 2048)
    """
    return int(text, 16) if text.startswith("0x") else byte_number(text.replace(",", ""))


def found_heads(squeezed: Squeezed) -> list[FoundHead]:
    """The messages in a text, without retries that are not failures; weak signs only if there is nothing else.

    >>> from hlo_cli.syntax.out_of_memory.message_heads import squeeze
    >>> [found] = found_heads(squeeze("E: Out of memory allocating 64 bytes."))
    >>> found.head.target, found.size("used")
    ('cpu', 64)
    """
    strong = [match for match in _matches(squeezed, MESSAGES) if not _is_below_limit(match)]
    if strong:
        return strong
    sign = next(_matches(squeezed, SIGNS), None)
    return [_retold(sign, squeezed)] if sign is not None else []


def _matches(squeezed: Squeezed, heads: tuple[Head, ...]) -> Iterator[FoundHead]:
    """The matches in order; of overlapping ones the first and longest."""
    text = squeezed.text
    spans = [(match.start(), -match.end(), number) for number, match in _candidates(text, heads)]
    end = 0
    for start, _, number in sorted(spans):
        head, (pattern, before, _) = heads[number], _patterns(heads)[number]
        match = pattern.match(text, start)
        if match is None or start < end or (head.kind == "gpu-allocator" and _NO_FAILURE.match(text, match.end())):
            continue
        end = match.end()
        groups, ends = _groups(match)
        if before is not None and (earlier := before.search(text, max(0, start - _LONGEST_BEFORE), start)):
            more, more_ends = _groups(earlier)
            groups, ends, start = more | groups, more_ends | ends, earlier.start()
        elif head.needs_before:
            continue
        for name in groups.keys() & {"device", "device2"}:
            groups[name] = squeezed.first_word(ends[name] - len(groups[name]), ends[name])
        code = _CODE.search(text, max(0, start - _CODE_BEFORE), start)
        yield FoundHead(head, start, match.end(), groups, ends, (code[1] or code[2]) if code else "")


def _candidates(text: str, heads: tuple[Head, ...]) -> Iterator[tuple[int, re.Match[str]]]:
    for number, (pattern, _, literal) in enumerate(_patterns(heads)):
        if literal in text:
            yield from ((number, match) for match in pattern.finditer(text))


def _groups(match: re.Match[str]) -> tuple[dict[str, str], dict[str, int]]:
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    return groups, {name: match.end(name) for name in groups}


def _is_below_limit(head: FoundHead) -> bool:
    """Whether a sentence `Used 1G of 2G hbm` by itself is no failure."""
    used, limit = head.size("used"), head.size("limit")
    is_usage = head.head.pattern.startswith("Used") and "over" not in head.groups
    return is_usage and used is not None and limit is not None and used <= limit


def _retold(head: FoundHead, squeezed: Squeezed) -> FoundHead:
    """A sign with the figures that a person wrote after it."""
    end = head.end + _TOLD_WITHIN
    retold: dict[str, str] = {}
    for pattern in (_TOLD_USED, _TOLD_LIMIT):
        if match := pattern.search(squeezed.text, head.end, end):
            retold |= match.groupdict()
    return FoundHead(head.head, head.start, head.end, head.groups | retold, head.ends, head.code)


@cache
def _patterns(heads: tuple[Head, ...]) -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None, str], ...]:
    """For each head its pattern, the one for the text before it, and the plain text with which it begins."""
    return tuple(
        (
            re.compile(_squeezed_pattern(head.pattern)),
            re.compile(f"(?:{_squeezed_pattern(head.before)})\\Z") if head.before else None,
            _plain_start(_squeezed_pattern(head.pattern)),
        )
        for head in heads
    )


def _plain_start(pattern: str) -> str:
    match = _PLAIN.match(pattern)
    return match[0].rstrip("\\") if match else ""


def headless(squeezed: Squeezed) -> list[FoundHead]:
    """A message whose first sentence is missing, if a list of allocations or a buffer assignment is there.

    >>> from hlo_cli.syntax.out_of_memory.message_heads import squeeze
    >>> [found] = headless(squeeze("  2. Size: 8.00G\\n  Shape: f32[8]{0}\\n  Allocation type: HLO temp"))
    >>> found.head.kind
    'tpu-hbm'
    """
    text = squeezed.text
    if match := _TPU_LIST.search(text):
        space = match[1] or "hbm"
        head = Head("tpu-other" if space != "hbm" else "tpu-hbm", "compile", "tpu", "", space)
    elif match := _GPU_LIST.search(text):
        head = Head("gpu-buffer-assignment", "run", "gpu", "")
    else:
        return []
    return [FoundHead(head, match.start(), match.start(), {}, {})]
