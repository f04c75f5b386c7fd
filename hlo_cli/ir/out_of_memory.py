"""What an out-of-memory message says: the memory, sizes, the largest allocations, and its usage report."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import AllocationStats, BufferPlace
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import Diagnostic, Span

# --- the memory usage report ---
# XLA's memory usage report: the allocations of each memory space, and the values at each offset.
#
# Mirrors `MemoryUsageReportProto` of xla/service/buffer_assignment.proto.


@dataclass(frozen=True, slots=True)
class CountedShape:
    """A shape without layout, and the number of values in a row that have it."""

    count: int
    shape: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One offset in an allocation: the values that are there at different times, and the size of the largest.

    `percent` is the cumulative share up to this row; None where XLA divides zero by zero.
    """

    cumulative_bytes: int
    percent: int | None
    size_bytes: int
    offset_bytes: int
    value_count: int
    shapes: tuple[CountedShape, ...]

    @property
    def shapes_text(self) -> str:
        """The shapes as XLA prints them.

        >>> UsageRow(4096, 100, 4096, 0, 3, (CountedShape(2, "f32[8,128]"), CountedShape(1, "s32[]"))).shapes_text
        '2×f32[8,128], s32[]'
        """
        return ", ".join(f"{shape.count}×{shape.shape}" if shape.count > 1 else shape.shape for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """One row of a report in an error: the values at one offset of an allocation, one after another.

    `space` is XLA's name for the memory space, empty if the text does not have it; `allocation` the position of the
    allocation in its space. `shapes` are the counts and shapes of the values. `is_alone` if the allocation has no other
    row.
    """

    space: str
    allocation: int
    offset_bytes: int
    value_count: int
    shapes: tuple[tuple[int, Shape], ...] = ()
    is_alone: bool = False

    @property
    def is_one_value(self) -> bool:
        """Whether the allocation holds a single value, such as an argument, a result, or a constant.

        >>> MemoryRange("default", 0, 0, 1, is_alone=True).is_one_value, MemoryRange("default", 0, 0, 1).is_one_value
        (True, False)
        """
        return self.is_alone and self.value_count == 1 and self.offset_bytes == 0


@dataclass(frozen=True, slots=True)
class AllocationUsage:
    """The rows of one allocation; XLA omits the smallest of very many, and gives their number."""

    rows: tuple[UsageRow, ...]
    omitted: int = 0

    @property
    def listed_bytes(self) -> int:
        """The sum of the listed sizes."""
        return sum(row.size_bytes for row in self.rows)


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """One memory space. XLA's `name` for it is right for some targets only; `color` is the number n of `S(n)`.

    Unless the total `is_stated`, as in a part of a report, it is the sum of the listed sizes.
    """

    name: str
    color: int
    total_bytes: int
    allocations: tuple[AllocationUsage, ...]
    is_stated: bool = True

    @property
    def listed_bytes(self) -> int:
        """The sum of the listed sizes."""
        return sum(allocation.listed_bytes for allocation in self.allocations)


@dataclass(frozen=True, slots=True)
class MemoryUsageReport:
    """The complete report. If read from text, sizes except the totals are as rounded there."""

    spaces: tuple[SpaceUsage, ...]
    notes: tuple[Diagnostic, ...] = ()


# --- the message ---
# Out-of-memory messages of XLA: the memory, the sizes, and the largest allocations.
#
# Mirrors `BufferAssignment::ToVerboseString` of xla/service/buffer_assignment.cc and the messages of TPU compilers, GPU
# allocators and runtimes. Parts that a message lacks are None or empty.


OomStage = Literal["compile", "load", "run"]
"""The stage of the failure: the program does not fit at compile time, it fails to load, or an allocation fails."""

OomKind = Literal[
    "tpu-hbm",
    "tpu-vmem-scoped",
    "tpu-vmem-stack",
    "tpu-vmem",
    "tpu-smem",
    "tpu-cmem",
    "tpu-sparse-core",
    "tpu-host",
    "tpu-other",
    "tpu-load",
    "tpu-buffer",
    "gpu-allocator",
    "gpu-buffer-assignment",
    "gpu-driver",
    "gpu-shared-memory",
    "device",
    "rematerialization",
    "arguments",
    "gpu-constant",
    "cpu",
    "linux-oom-killer",
    "kubernetes",
    "slurm",
    "ray",
    "process",
    "pytorch",
    "tensorflow",
]
"""The memory that was exhausted, and who reports it.

- `tpu-…` by memory space at compile time: `tpu-vmem-scoped` is a kernel's scoped allocation over its limit,
  `tpu-vmem-stack` an allocation on the stack without figures, `tpu-other` a space without a kind of its own.
  `tpu-load` is a program that does not fit beside the buffers, `tpu-buffer` a buffer that does not.
- `gpu-allocator`: BFC or `cuda_malloc_async`; `gpu-driver`: the driver; `gpu-buffer-assignment`: an execution, with
  the report of its buffer assignment.
- `device`: an allocation on a device that the message does not name; `cpu`: XLA's allocations on the host.
- `rematerialization` and `arguments`: warnings of compilers; `constant`: no room for a constant.
- Not XLA: `linux-oom-killer`, `kubernetes`, `slurm`, `ray`, `process` (an allocation of Python or C++ on the host),
  `pytorch`, `tensorflow`.
"""

OTHER_REPORTERS: Final[frozenset[OomKind]] = frozenset(
    ("linux-oom-killer", "kubernetes", "slurm", "ray", "process", "pytorch", "tensorflow")
)
"""The kinds of messages that are not XLA's."""

WARNINGS: Final[frozenset[OomKind]] = frozenset(("rematerialization", "arguments"))
"""The kinds after which the compiler goes on."""

KERNEL_SPACES: Final[dict[OomKind, TpuMemorySpace]] = {
    "tpu-vmem": TpuMemorySpace.VMEM,
    "tpu-vmem-scoped": TpuMemorySpace.VMEM,
    "tpu-vmem-stack": TpuMemorySpace.VMEM,
    "tpu-smem": TpuMemorySpace.SMEM,
}
"""The kinds of messages that a kernel may cause, with the memory that ran out."""

OOM_REQUESTS: Final[frozenset[OomKind]] = frozenset(("device", "gpu-buffer-assignment"))
"""The kinds of failed requests of the runtime, which an allocator's own message may come before."""

LimitMeaning = Literal["capacity", "limit", "free", "reservable", ""]
"""The meaning of `OutOfMemory.limit_bytes`: all of the memory, a part set as limit, what is free, or what can be
reserved in one piece; empty if the message has none.
"""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the used memory; the size is None if the message calls it unknown."""

    name: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class TempUsage:
    """The utilization of the memory of temporary values: in percent, and in bytes with and without padding."""

    utilization_percent: float | None = None
    unpadded_bytes: int | None = None
    padded_bytes: int | None = None
    fragmentation_percent: float | None = None
    fragmentation_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Chunks of one size that an allocator has handed out."""

    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """The statistics of an allocator when it failed, in bytes but for `num_allocs`; None if not printed.

    Mirrors `AllocatorStats::DebugString` of xla/tsl/framework/allocator.cc.
    """

    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    max_in_use_bytes: int | None = None
    num_allocs: int | None = None
    max_alloc_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    largest_free_block_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class OomProcess:
    """A process that was killed or failed: its memory in bytes, and the group whose limit it exceeded.

    `resident_bytes` is the sum of its anonymous, file-backed, and shared pages. `reason` is the word of the reporter,
    such as `CONSTRAINT_MEMCG` or `OOMKilled`; `group` the container, job, pod, or control group.
    """

    name: str = ""
    pid: int | None = None
    virtual_bytes: int | None = None
    resident_bytes: int | None = None
    anonymous_bytes: int | None = None
    group: str = ""
    reason: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class OomAllocation:
    """One of the largest allocations. `place` is its instruction; `label` the message's name for it.

    `kind` is the compiler's word, such as `HLO temp`; sizes are as rounded in the message. `tag` is the purpose in few
    words, such as `input window` of operand `operand_number`, and `tag_text` its text in the message. `kernel` is the
    name of a custom kernel, `target` its custom_call_target; `window` is the block of an operand that the kernel keeps,
    and `buffering` the number of its copies. `range` is set if it is a range of an allocation that several values may
    use one after another; its size is that of the largest of them.
    """

    size_bytes: int | None = None
    shape: Shape | None = None
    unpadded_bytes: int | None = None
    extra_bytes: int | None = None
    label: str = ""
    place: BufferPlace | None = None
    opcode: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int | None = None
    kind: str = ""
    tag: str = ""
    is_entry_parameter: bool = False
    tag_text: str = ""
    operand_number: int | None = None
    kernel: str = ""
    target: str = ""
    window: Shape | None = None
    buffering: int | None = None
    range: MemoryRange | None = None

    @property
    def has_padding(self) -> bool:
        """Whether the padding is known; for other allocations than ranges, messages leave it out if there is none."""
        return self.range is None or self.extra_bytes is not None

    @property
    def padding_bytes(self) -> int:
        """The padding: from the message, else by the tiles of the shape; 0 if neither is known.

        >>> OomAllocation(4096, unpadded_bytes=1024).padding_bytes, OomAllocation(4096).padding_bytes
        (3072, 0)
        """
        if self.extra_bytes is not None:
            return self.extra_bytes
        if self.unpadded_bytes is not None and self.size_bytes is not None:
            return max(self.size_bytes - self.unpadded_bytes, 0)
        if isinstance(self.shape, ArrayShape) and self.shape.layout.tiles:
            return self.shape.padded_bytes - self.shape.logical_bytes
        return 0


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """One message. `space` is the memory's name in it: hbm, vmem, smem …; empty for a device with only one.

    `used_bytes` is the total that would be used; for a failed allocation, the requested size, and `limit_bytes` what
    `limit_meaning` states. `exceeded_by_bytes` is from the message, else the difference of the two. `usage` and
    `program` are the two tables of TPU compilers, `stats` that of a buffer assignment, `chunks` and `allocator` those
    of a GPU's allocator. `module` and `executable` are the names of the HLO module and of the loaded program, `failed`
    the allocation that did not fit, `repetitions` the number of times that the text has the message. `spaces` are
    the totals of a report on all memory spaces, `other_ranges` its ranges in other spaces than the one that ran out.
    """

    stage: OomStage
    span: Span
    space: str = ""
    target: Literal["tpu", "gpu", "cpu"] | None = None
    used_bytes: int | None = None
    limit_bytes: int | None = None
    exceeded_by_bytes: int | None = None
    code: str = ""
    device: str = ""
    module: str = ""
    cause: BufferPlace | None = None
    usage: tuple[MemoryPart, ...] = ()
    output_bytes: int | None = None
    output_shared_bytes: int | None = None
    program: tuple[MemoryPart, ...] = ()
    temp: TempUsage | None = None
    stats: AllocationStats | None = None
    chunks: tuple[ChunkGroup, ...] = ()
    allocations: tuple[OomAllocation, ...] = ()
    kind: OomKind = "device"
    limit_meaning: LimitMeaning = ""
    executable: str = ""
    failed: OomAllocation | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    original_bytes: int | None = None
    allocator: AllocatorStats | None = None
    process: OomProcess | None = None
    repetitions: int = 1
    spaces: tuple[MemoryPart, ...] = ()
    other_ranges: tuple[OomAllocation, ...] = ()

    @property
    def culprits(self) -> tuple[OomAllocation, ...]:
        """The allocations to blame, the most to blame first: the one that failed, then the listed by size.

        >>> small, large = OomAllocation(4), OomAllocation(8)
        >>> OutOfMemory("run", Span(0, 0), allocations=(small, large)).culprits[0] is large
        True
        >>> OutOfMemory("run", Span(0, 0), allocations=(small, large), failed=small).culprits[0] is small
        True
        """
        listed = sorted(self.allocations, key=lambda allocation: allocation.size_bytes or 0, reverse=True)
        return tuple(listed) if self.failed is None else (self.failed, *(x for x in listed if x is not self.failed))

    @property
    def is_xla(self) -> bool:
        """Whether XLA or its runtime reports it, rather than the system or another framework."""
        return self.kind not in OTHER_REPORTERS

    @property
    def is_warning(self) -> bool:
        """Whether the compiler goes on after it."""
        return self.kind in WARNINGS

    @property
    def has_ranges(self) -> bool:
        """Whether the listed allocations are ranges, which overlap: their sizes have no meaningful sum."""
        return any(allocation.range is not None for allocation in self.allocations)

    @property
    def allocated_bytes(self) -> int | None:
        """The total size of the allocations that the message lists; None for ranges, which overlap.

        >>> OutOfMemory("run", Span(0, 0), allocations=(OomAllocation(8), OomAllocation(4))).allocated_bytes
        12
        """
        return None if self.has_ranges else sum(allocation.size_bytes or 0 for allocation in self.allocations)

    @property
    def padding_bytes(self) -> int | None:
        """The padding in these allocations; None for ranges, which overlap."""
        return None if self.has_ranges else sum(allocation.padding_bytes for allocation in self.allocations)


# --- windows of kernels ---
# A window of a kernel's operand or result: the block of an array that is in VMEM or SMEM at a time.


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """The block of an operand or result of a kernel, the whole array, and the number of buffers of the block."""

    role: Literal["input", "output"]
    number: int
    block: ArrayShape
    whole: ArrayShape
    buffers: int
