"""Types of the chip tables: names, memories, properties of TPU generations, and peak rates.

All numbers are per device as XLA counts them: one core of TPU v2, v3, and 7x, one die of an AMD MI250, otherwise a
whole chip. Nominal capacity is the vendor's; usable capacity is what XLA can allocate, which is less.
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
    """A number of bytes and its public source."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class TpuGeneration:
    """Properties of the compiler for a TPU generation, measured or taken from libtpu's log.

    Tuple tables are rounded up to `table_granule` bytes. If main-memory allocations exceed `heap_limit` bytes, the
    next strategy is tried; None if unknown. `prefetched` is the memory that memory-space assignment fills. With
    `has_large_tiles`, the smallest tile is two words high, and narrow types take a byte. Chips are connected in a torus
    of `torus_dimensions`.
    """

    name: str
    table_granule: int
    heap_limit: int | None
    prefetched: TpuMemorySpace | None = TpuMemorySpace.VMEM
    has_large_tiles: bool = False
    has_sparse_core: bool = False
    torus_dimensions: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class Chip:
    """A chip: its names, its capacity by memory space, and its peak rates.

    `fast_bytes` is the size of the memory near the cores: the last-level cache of a GPU, VMEM and CMEM of a TPU.
    `meaning` distinguishes several chips of one name.
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
        """The bytes of cache or scratch memory in addition to main memory."""
        return self.spec.cache_bytes

    @property
    def generation(self) -> str | None:
        """The TPU generation, None for other chips.

        >>> from hlo_cli.analysis.hardware.chips import find_chip
        >>> find_chip("v4-core").generation, find_chip("7x").generation, find_chip("h100").generation
        ('v4', '7x', None)
        """
        return self.tpu.name if self.tpu is not None else None

    def limit(self, space: int = MemorySpace.MAIN) -> Capacity | None:
        """Returns the bytes available in a memory space; None if the chip does not have it or its size is unknown.

        >>> from hlo_cli.analysis.hardware.chips import find_chip
        >>> find_chip("v5e").limit().bytes, find_chip("v5e").limit(1).bytes, find_chip("v5e").limit(3)
        (16911433728, 134217728, None)
        """
        if space == MemorySpace.MAIN and self.usable is not None:
            return self.usable
        return self.memories.get(space)


def xla_spec(spec: str) -> str:
    """Returns the address of XLA's target file for a GPU.

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
    cores: int,
    parts: int = 1,
    fastest: dict[str, Rate] | None = None,
    adds_in_switches: bool = False,
    meaning: str = "",
) -> Chip:
    """Returns the row of a GPU.

    `memory` is in GiB with its source, `usable` in bytes with the name of XLA's target file. Rates are those of all
    `parts`, of which a device is one; `cores` are those of a device.
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
            cores=cores,
        ),
        Capacity(usable[0], xla_spec(usable[1])) if usable is not None else None,
        meaning=meaning,
    )
