"""Kinds of advice after an out-of-memory message, each with the numbers that support it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.out_of_memory import ChunkGroup, KernelWindow, OomAllocation
from hlo_cli.ir.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class _Smaller:
    """A size before and after a change that saves memory."""

    before_bytes: int
    after_bytes: int

    @property
    def saved_bytes(self) -> int:
        """The difference of the sizes."""
        return self.before_bytes - self.after_bytes


@dataclass(frozen=True, slots=True)
class Reorder(_Smaller):
    """Arguments of one shape that need fewer bytes in another dimension order; sizes are sums over all of them.

    Also scratch operands of a kernel.
    """

    allocations: tuple[OomAllocation, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Narrow(_Smaller):
    """An allocation that would need fewer bytes with a narrower element type, because it was made wide on purpose."""

    allocation: OomAllocation
    element_type: str


@dataclass(frozen=True, slots=True)
class Donate:
    """Arguments that could hold results: `saved_bytes` is the upper limit, `shared_bytes` is shared already."""

    argument_bytes: int
    output_bytes: int
    shared_bytes: int
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """Values that alone exceed the memory, and the smallest number of devices that could hold them.

    They are the arguments, unless there is an `allocation`.
    """

    size_bytes: int
    available_bytes: int
    devices: int
    allocation: OomAllocation | None = None


@dataclass(frozen=True, slots=True)
class ShardValues:
    """Allocations with one value each that together exceed the memory, and the devices that could hold them."""

    count: int
    size_bytes: int
    available_bytes: int
    devices: int


@dataclass(frozen=True, slots=True)
class ShrinkRange:
    """The largest range, which is as large as the largest of its values, and a smaller layout of that value."""

    allocation: OomAllocation
    better: ArrayShape | None

    @property
    def size_bytes(self) -> int:
        """The size of the range."""
        return self.allocation.size_bytes or 0


@dataclass(frozen=True, slots=True)
class Shrink:
    """A part of memory, such as `HLO temp`, that would fit if it were smaller by `excess_bytes`.

    `is_compiler_limit` if the limit is one that rematerialization computed, not the memory of the device.
    """

    part: str
    size_bytes: int
    excess_bytes: int
    is_compiler_limit: bool = False

    @property
    def percent(self) -> int:
        """The smallest whole number of percent that is enough.

        >>> Shrink("HLO temp", 1000, 101).percent
        11
        """
        return -(-100 * self.excess_bytes // self.size_bytes)


@dataclass(frozen=True, slots=True)
class Recompute:
    """Allocations of the forward pass of a gradient, which are kept for the backward pass."""

    allocations: tuple[OomAllocation, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SmallerBlock:
    """A block of a kernel's operand that fits, or a scratch operand; `size_bytes` includes all of its buffers."""

    window: KernelWindow | None
    before: ArrayShape
    block: ArrayShape
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SingleBuffer:
    """A block of a kernel's operand that fits with one buffer."""

    window: KernelWindow
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RaiseScopedLimit:
    """A higher limit of scoped VMEM, in whole MiB, and the VMEM of the chips that have more."""

    limit_bytes: int
    is_kernel: bool
    vmem_bytes: tuple[tuple[str, int], ...]

    @property
    def limit_kib(self) -> int:
        """The limit in the unit of the compiler's flag."""
        return self.limit_bytes // 1024


@dataclass(frozen=True, slots=True)
class FewerElements:
    """An array in a small memory, and the number of its elements that fit beside what else is there.

    `elements` counts padding, `data_elements` does not.
    """

    allocation: OomAllocation
    element_type: str
    most: int
    elements: int
    data_elements: int


@dataclass(frozen=True, slots=True)
class FreeBuffers:
    """Bytes of arrays to delete before a program is loaded or a buffer is allocated."""

    size_bytes: int
    is_load: bool


@dataclass(frozen=True, slots=True)
class FreeOthers:
    """A program that is much smaller than the memory of any device, which other arrays or programs must fill."""

    program_bytes: int


@dataclass(frozen=True, slots=True)
class FreeChunks:
    """Bytes that an allocator lacks, and the largest chunks that are in use, if they are listed."""

    size_bytes: int
    chunks: ChunkGroup | None


@dataclass(frozen=True, slots=True)
class Defragment:
    """Enough memory is free, but not in one piece; `largest_bytes` is the largest piece, None if unknown."""

    free_bytes: int
    requested_bytes: int
    largest_bytes: int | None
    is_tpu: bool


@dataclass(frozen=True, slots=True)
class RaiseHostLimit:
    """A limit of host memory that is too low for a process, and who sets it; sizes are None if unknown."""

    setter: Literal["group", "container", "job", "node", "machine"]
    used_bytes: int | None
    limit_bytes: int | None
    excess_bytes: int | None


@dataclass(frozen=True, slots=True)
class ListProcesses:
    """Memory that the driver of a GPU refuses, which other processes may hold."""

    requested_bytes: int


@dataclass(frozen=True, slots=True)
class Dump:
    """The largest buffers are not in the text, or not with their live ranges, but in a dump."""

    has_rows: bool


Advice: TypeAlias = (
    Reorder
    | Narrow
    | Donate
    | Shard
    | ShardValues
    | ShrinkRange
    | Shrink
    | Recompute
    | SmallerBlock
    | SingleBuffer
    | RaiseScopedLimit
    | FewerElements
    | FreeBuffers
    | FreeOthers
    | FreeChunks
    | Defragment
    | RaiseHostLimit
    | ListProcesses
    | Dump
)
