"""Out-of-memory messages of XLA: the memory, the sizes, and the largest allocations.

Mirrors `BufferAssignment::ToVerboseString` of xla/service/buffer_assignment.cc and the messages of TPU compilers, GPU
allocators and runtimes. Parts that a message lacks are None or empty.
"""

from __future__ import annotations

from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_files.buffers import AllocationStats, BufferPlace
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import Span

OomStage = Literal["compile", "load", "run"]
"""The stage of the failure: the program does not fit at compile time, it fails to load, or an allocation fails."""


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
class OomAllocation:
    """One of the largest allocations. `place` is its instruction; `label` the message's name for it.

    `kind` is the compiler's word, such as `HLO temp`; `tag` is its purpose; sizes are as rounded in the message.
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

    `used_bytes` is the total that would be used; for a failed allocation, the requested size, and `limit_bytes` what is
    free. `usage` and `program` are the two tables of TPU compilers, `stats` that of a buffer assignment, `chunks` that
    of a GPU's allocator.
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

    @property
    def allocated_bytes(self) -> int:
        """The total size of the allocations that the message lists.

        >>> OutOfMemory("run", Span(0, 0), allocations=(OomAllocation(8), OomAllocation(4))).allocated_bytes
        12
        """
        return sum(allocation.size_bytes or 0 for allocation in self.allocations)

    @property
    def padding_bytes(self) -> int:
        """The padding in these allocations."""
        return sum(allocation.padding_bytes for allocation in self.allocations)
