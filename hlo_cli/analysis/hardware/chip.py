"""What a row of the tables of chips holds: names, memories, what compilers do alike for a TPU generation, and rates.

All numbers are of one device as XLA counts them: one core of TPU v2, v3 and 7x, one die of an AMD MI250, else a whole
chip. Nominal is what the vendor states; usable is what XLA takes for itself to work with, which is less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.rates import ChipSpec, Published, Rate, part_of, spec_from
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import GpuMemorySpace, MemorySpace, TpuMemorySpace

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.target import Target

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
_SPECS: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"


@dataclass(frozen=True, slots=True)
class Capacity:
    """A number of bytes, and where it is published."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class TpuGeneration:
    """What compilers for a generation of TPUs do. It is not public: it was measured, or stands in libtpu's log.

    Tables of pointers are rounded up to `table_granule` bytes. All allocations of the main memory together may take
    `heap_limit` bytes before the next way of filling it is tried; None if that is not known. `prefetched` is the memory
    that is filled ahead of time. Smallest tiles that are large are two words high, and narrow types take a byte there.
    """

    name: str
    table_granule: int
    heap_limit: int | None
    prefetched: TpuMemorySpace | None = TpuMemorySpace.VMEM
    has_large_tiles: bool = False
    has_sparse_core: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chip:
    """A chip, what else it is called, its memories by memory space, and what it can do in a second.

    `fast_bytes` are what a kernel can find or leave beside the main memory: the last cache of a GPU, VMEM and CMEM of a
    TPU. `meaning` says which of several chips of this name it is.
    """

    name: str
    aliases: tuple[str, ...]
    target: Target
    memories: Mapping[int, Capacity]
    spec: ChipSpec
    usable: Capacity | None = None
    tpu: TpuGeneration | None = None
    meaning: str = ""

    @property
    def fast_bytes(self) -> int:
        """The bytes that a kernel can keep beside the main memory."""
        return self.spec.cache_bytes

    @property
    def generation(self) -> str | None:
        """Which TPU it is, as far as compilers make a difference; None for others.

        >>> from hlo_cli.analysis.hardware.chips import find_chip
        >>> find_chip("v4-core").generation, find_chip("7x").generation, find_chip("h100").generation
        ('v4', '7x', None)
        """
        return self.tpu.name if self.tpu is not None else None

    def limit(self, space: int = MemorySpace.MAIN) -> Capacity | None:
        """How much a program can have of a memory space; None where the chip has no such space, or nobody says.

        >>> from hlo_cli.analysis.hardware.chips import find_chip
        >>> find_chip("v5e").limit().bytes, find_chip("v5e").limit(1).bytes, find_chip("v5e").limit(3)
        (16911433728, 134217728, None)
        """
        if space == MemorySpace.MAIN and self.usable is not None:
            return self.usable
        return self.memories.get(space)


def xla_spec(spec: str) -> str:
    """Where XLA's file on a GPU is published.

    >>> xla_spec("b200").rpartition("/")[2]
    'b200.txtpb'
    """
    return f"{_SPECS}{spec}.txtpb"


def gpu(
    name: str,
    aliases: str,
    memory: tuple[float, str],
    usable: tuple[int, str] | None,
    flops: dict[str, Rate],
    bandwidth: Published,
    *,
    links: Published | None = None,
    host: Published | None = None,
    l2_mib: int,
    parts: int = 1,
    fastest: dict[str, Rate] | None = None,
    adds_in_switches: bool = False,
    meaning: str = "",
) -> Chip:
    """The row of a GPU: its main memory in GiB and where that is published, what XLA's file of a name calls usable, and
    what all `parts` of it can do in a second, of which the device is one.
    """
    whole = spec_from(flops, bandwidth, links, host)
    return Chip(
        name,
        tuple(aliases.split(", ")),
        "gpu",
        MappingProxyType({GpuMemorySpace.HBM: Capacity(round(memory[0] * GIB), memory[1])}),
        replace(
            part_of(whole, parts) if parts > 1 else whole,
            chip=name,
            fastest=fastest or {},
            cache_bytes=l2_mib * MIB,
            adds_in_switches=adds_in_switches,
        ),
        Capacity(usable[0], xla_spec(usable[1])) if usable is not None else None,
        meaning=meaning,
    )
