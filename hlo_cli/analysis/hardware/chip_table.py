"""What is known of a chip: the types of a row of the chip tables, and the TPUs, one row each?

GPUs have their rows in `gpus.py`; `chips.py` finds a row by any name and loads a table when it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.dataclass import brief_name, dataclass
from hlo_cli.ir.memory_space import GpuMemorySpace, MemorySpace, TpuMemorySpace

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.target import Target


# --- peak rates ---


Published: TypeAlias = tuple[str, float]
"""Source of a rate, and the rate in units of 10¹² per second."""

_NARROW: Final = ("bf16", "f16", "f32")  # what a chip without units for a narrow type converts to, the fastest first
_SUBSTITUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", *_NARROW),
    "f6": ("f6", "f8", *_NARROW),
    "f8": ("f8", *_NARROW),
    "f16": ("f16", "bf16", "f32"),
    "bf16": ("bf16", "f32"),
    "tf32": ("tf32", "f32", "bf16"),
    "f64": ("f64", "f32", "bf16"),
    "c128": ("f64", "f32", "bf16"),
    "s2": ("s4", "s8", *_NARROW),
    "s4": ("s4", "s8", *_NARROW),
    "s8": ("s8", *_NARROW),
    "f32 high": ("tf32", "f32", "bf16 x3"),
    "f32 highest": ("f32", "bf16 x6"),
}
"""Types in which a chip multiplies, in order of preference; `x3` takes three matmuls of that type for one."""


@dataclass(frozen=True, slots=True)
class Rate:
    """FLOP/s or bytes per second, and the public source of the number."""

    per_second: float
    source: str


MatmulShape: TypeAlias = tuple[int, int, int, int]
"""Batch, m, n, and k."""
MatmulTimes: TypeAlias = Mapping[MatmulShape, float]
"""Seconds by shape."""
CollectiveTimes: TypeAlias = Mapping[int, float]
"""Seconds by bytes of the payload, smallest first."""
Series: TypeAlias = Mapping[tuple[int, int], CollectiveTimes]
"""Times by number of groups and devices in a group; of a permute, by 0 and the number of pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTimes:
    """Measured times of one chip: of matmuls by their types, and of collectives by their opcode.

    Types are written as in XLA's tables, such as `bf16xbf16->f32`, or as the name of one type that stands for all
    matmuls of its kind. `source` names where the times are from.
    """

    matmuls: Mapping[str, MatmulTimes]
    collectives: Mapping[str, Series]
    source: str


@dataclass(frozen=True, slots=True)
class ClassTime:
    """What kernels of a class take: `seconds` a call, and `factor` times the time of the model without calibration.

    8 of 10 of the `kernels` that were measured, by their time, are between `low` and `high` times that.
    """

    kernels: int
    seconds: float
    factor: float
    low: float
    high: float


FEW_KERNELS: Final = 5  # fewer have no 10% quantile, not even roughly
"""The number of kernels of a class below which its range is wide."""
_FACTOR_OF_TWO: Final = (0.5, 2.0)  # the range of a class that was not measured; chosen
_NOT_MEASURED: Final = ClassTime(0, 0.0, 1.0, *_FACTOR_OF_TWO)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Measured times of the kernels of one machine by class, the costliest first; `source` names what was measured.

    `seconds_per_kernel` is what every kernel takes in addition to its work.
    """

    classes: Mapping[str, ClassTime]
    seconds_per_kernel: float
    source: str

    def of(self, kind: str) -> ClassTime:
        """The times of a class; without any, those of the nearest one with a wide range.

        >>> found = Calibration({"memory, small": ClassTime(9, 1e-6, 3.0, 0.9, 1.1)}, 1e-6, "a trace")
        >>> found.of("memory, large")
        ClassTime(kernels=0, seconds=1e-06, factor=3.0, low=0.5, high=2.0)
        """
        if kind in self.classes:
            return self.classes[kind]
        # Of the same kind but another size or direction; else of whatever took the most time.
        beginning = kind.partition(",")[0]
        like = [found for name, found in self.classes.items() if name.partition(",")[0] == beginning]
        nearest = (like or [*self.classes.values(), _NOT_MEASURED])[0]
        return ClassTime(0, self.seconds_per_kernel, nearest.factor, *_FACTOR_OF_TWO)


@dataclass(frozen=True, slots=True)
class ChipSpec:
    """Peak rates of a chip: FLOP/s by element type, and bytes per second of main memory, links, and host connection.

    Unpublished rates are None. `fastest` are measured matmul rates above the peak. `cache_bytes` is the size of
    caches or scratch memory in addition to main memory. If `adds_in_switches`, switches reduce, so that each byte of an
    all-reduce leaves a device once. `cores` are those of a GPU
    that matmuls share: streaming multiprocessors or compute units; 0 for other chips. `measured` are times of the user,
    from a file, and `calibration` those of its kernels by class; None if there are none.
    `domain` is the number of devices that links connect, and `network` the rate to others, as a file has them.
    """

    chip: str
    flops: Mapping[str, Rate]
    memory: Rate
    links: Rate | None = None
    host: Rate | None = None
    fastest: Mapping[str, Rate] = field(default_factory=dict)
    cache_bytes: int = 0
    adds_in_switches: bool = False
    cores: int = 0
    measured: MeasuredTimes | None = field(default=None, compare=False)
    calibration: Calibration | None = field(default=None, compare=False)
    domain: int = field(default=0, compare=False)
    network: Rate | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<ChipSpec {brief_name(self.chip)}: {self.memory.per_second:.4g} bytes/s of memory>"

    def flops_of(self, element_type: str) -> Rate | None:
        """Returns the peak for matmuls of a type, or of the type that the chip uses instead; None if there is none.

        TPUs multiply f32 as bf16 unless a higher precision is requested. `tf32`, `f32 high`, `f32 highest`, and `bf16
        x3` are f32 matmuls with higher precision, as returned by `matmul_type`.

        >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
        >>> v5e, h100 = chip_spec("v5e"), chip_spec("h100")
        >>> v5e.flops_of("f32").per_second == v5e.flops_of("f8e5m2").per_second == 197e12
        True
        >>> h100.flops_of("f8e4m3fn").per_second, h100.flops_of("u8").per_second, h100.flops_of("c64").per_second
        (1978900000000000.0, 1978900000000000.0, 66900000000000.0)
        >>> h100.flops_of("f64").per_second
        66900000000000.0
        >>> h100.flops_of("tf32").per_second, 197e12 / v5e.flops_of("f32 highest").per_second
        (494700000000000.0, 6.0)
        """
        return _rate_of(self.flops, element_type)

    def rated_type(self, element_type: str) -> str:
        """Returns the type whose rate `flops_of` returns, as data sheets name it; the same type if there is none.

        >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
        >>> [chip_spec(name).rated_type("tf32") for name in ("v5e", "h100", "t4")]
        ['bf16', 'tf32', 'f32']
        """
        rate = self.flops_of(element_type)
        return next((name for name, each in self.flops.items() if each is rate), element_type)

    def at_most(self, element_type: str) -> Rate | None:
        """Returns the upper bound of the rate: the peak, or the measured rate if that is higher."""
        peak, measured = self.flops_of(element_type), self.fastest.get(_plain(element_type))
        return peak if peak is None or measured is None or measured.per_second <= peak.per_second else measured


def _rate_of(flops: Mapping[str, Rate], element_type: str) -> Rate | None:
    """Returns the rate of a type or of its substitute."""
    name, _, times = _plain(element_type).partition(" x")
    if times and name in flops:
        # A product in several parts is as many products.
        return Rate(flops[name].per_second / int(times), flops[name].source)
    # Types that no chip multiplies, such as s32, are taken for f32: a rate that is too high, hence a lower bound of
    # time.
    for each in _SUBSTITUTES.get(name, ("f32", "bf16")):
        kind, _, several = each.partition(" x")
        if kind in flops:
            return _rate_of(flops, each) if several else flops[kind]
    return None


def _plain(element_type: str) -> str:
    """Returns the type as a key of the rates: all 8-bit floats are one, signed and unsigned integers are one."""
    # Units multiply signed and unsigned integers at one rate.
    name = element_type.replace("u", "s", 1) if element_type.startswith("u") else element_type
    return name[:2] if name[:3] in ("f4e", "f6e", "f8e") else name


def rates_from(source: str, numbers: Mapping[str, float]) -> dict[str, Rate]:
    """Returns rates of one source; numbers are in units of 10¹² per second."""
    return {kind: rate_from(source, number) for kind, number in numbers.items()}


def rate_from(source: str, number: float) -> Rate:
    """Returns one rate; the number is in units of 10¹² per second.

    >>> rate_from("a page", 0.819)
    Rate(per_second=819000000000.0, source='a page')
    """
    # Rounded to whole units, so that 0.716e12 does not end in digits of binary fractions.
    return Rate(float(round(number * 1e12)), source)


def _spec_from(
    flops: Mapping[str, Rate], memory: Published, links: Published | None = None, host: Published | None = None
) -> ChipSpec:
    """Returns peak rates without a chip name, which the caller adds."""
    links_rate, host_rate = (None if each is None else rate_from(*each) for each in (links, host))
    return ChipSpec("", flops, rate_from(*memory), links_rate, host_rate)


def matmul_rates(source: str, both: float, **others: float) -> dict[str, Rate]:
    """Returns matmul rates of one source; `both` is the rate of bf16 and f16."""
    return rates_from(source, {"bf16": both, "f16": both, **others})


def part_of(spec: ChipSpec, parts: int = 2) -> ChipSpec:
    """Returns the specification of one of the devices of a chip; each has an equal part of every rate."""

    def share(rate: Rate | None) -> Rate | None:
        """Returns the part of a rate that one device has."""
        # The devices of a chip share links and memory evenly, as vendors state only the sum.
        return None if rate is None else Rate(rate.per_second / parts, rate.source)

    flops = {kind: Rate(rate.per_second / parts, rate.source) for kind, rate in spec.flops.items()}
    memory = Rate(spec.memory.per_second / parts, spec.memory.source)
    return ChipSpec(spec.chip, flops, memory, share(spec.links), share(spec.host))


# --- rows of the tables ---
# All numbers are per device as XLA counts them: one core of TPU v2, v3, and 7x, one die of an AMD MI250, otherwise a
# whole chip. Nominal capacity is the vendor's; usable capacity is what XLA can allocate, which is less.


KIB: Final = 1 << 10  # capacities are powers of two, whatever vendors call them
MIB: Final = 1 << 20  # the same
GIB: Final = 1 << 30  # the same
_SPECS: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"
AMD_PAGES: Final = "https://www.amd.com/en/products/accelerators/instinct/"


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

    A Pallas kernel may hold `kernel_bytes` of VMEM by default (`CompileTimeScopedVmemOom` names them), and on request
    all of it but `kernel_reserve`; the compiler may add scratch of so many rows of 128 words. With `splits_grids`, two
    cores share the steps of a parallel dimension; with `has_tall_scratch`, scratch of 16 bits has tiles of 16 rows.
    """

    name: str
    table_granule: int
    heap_limit: int | None
    prefetched: TpuMemorySpace | None = TpuMemorySpace.VMEM
    has_large_tiles: bool = False
    has_sparse_core: bool = False
    torus_dimensions: int = 2
    kernel_bytes: int = 16 * MIB
    kernel_reserve: int = 0
    internal_scratch_rows: int = 72
    splits_grids: bool = False
    has_tall_scratch: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chip:
    """A chip: its names, its capacity by memory space, and its peak rates.

    `meaning` distinguishes several chips of one name. Of a TPU, `cores` share the rates of a device, such as 2 of a
    megacore.
    """

    name: str
    aliases: tuple[str, ...]
    target: Target
    memories: Mapping[int, Capacity]
    spec: ChipSpec
    usable: Capacity | None = None
    tpu: TpuGeneration | None = None
    meaning: str = ""
    cores: int = 1

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
        # What can be allocated is what programs fail on; the rest is the runtime's.
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
    whole = _spec_from(flops, bandwidth, links, host)
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


# --- TPUs ---
# TPUs, one row each: everything that differs between generations and chips.
#
# Granule of tuple tables, heap limit (capacity less 2.5 GiB), and prefetched memory were measured on libtpu 0.0.51 and
# 0.0.52 or read from its log.


_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_PALLAS: Final = "https://docs.jax.dev/en/latest/pallas/tpu/hardware.html"
_JAX: Final = "https://github.com/jax-ml/jax/blob/main/jax/_src/pallas/mosaic/tpu_info.py"
_BOOK: Final = "https://jax-ml.github.io/scaling-book/tpus"
_COMPILER: Final = "libtpu 0.0.51: memory that error E1000 reports as available"
_BOTH_CORES: Final = "libtpu: memory that error E1000 reports as available when both cores are one device"


def _tpu(
    name: str,
    aliases: str,
    generation: TpuGeneration,
    hbm: Capacity,
    usable_gib: float,
    spec: ChipSpec,
    *,
    vmem: int,
    smem: int = MIB,
    cmem: int = 0,
    origin: str = _COMPILER,
    cores: int = 1,
) -> Chip:
    """Returns the row of a TPU."""
    memories: dict[int, Capacity] = {TpuMemorySpace.HBM: hbm, TpuMemorySpace.VMEM: Capacity(vmem, _PALLAS)}
    memories[TpuMemorySpace.SMEM] = Capacity(smem, _PALLAS)
    if cmem:
        memories[TpuMemorySpace.CMEM] = Capacity(cmem, _PALLAS)
    return Chip(
        name,
        tuple(aliases.split(", ")),
        "tpu",
        MappingProxyType(memories),
        replace(spec, chip=name, cache_bytes=vmem + cmem),
        Capacity(round(usable_gib * GIB), origin),
        generation,
        cores=cores,
    )


# Granule and limit from libtpu's log, as above; v4 alone prefetches into CMEM.
_V4: Final = TpuGeneration(
    "v4", table_granule=512, heap_limit=13_688_631_296, prefetched=TpuMemorySpace.CMEM, torus_dimensions=3
)
_V4_RATES: Final = _spec_from(
    rates_from(f"{_CLOUD}v4", {"bf16": 275, "s8": 275}),
    memory=(f"{_CLOUD}v4", 1.2),
    # Six links of a 3D torus, 45 GB/s each way.
    links=(_BOOK, 0.045 * 6),
    host=(_BOOK, 0.016),
)

TPUS: Final = (
    _tpu(
        "v2",
        "v2 core",
        TpuGeneration("v2", 1024, heap_limit=5_349_826_560, prefetched=None, has_large_tiles=True),
        Capacity(8 * GIB, f"{_CLOUD}v2"),
        7.48,
        part_of(_spec_from(rates_from(_JAX, {"bf16": 46}), memory=(_JAX, 0.716))),
        vmem=16 * MIB,
        smem=16 * KIB,
    ),
    _tpu(
        "v3",
        "v3 core",
        TpuGeneration("v3", 1024, heap_limit=13_939_761_152, prefetched=None, has_large_tiles=True),
        Capacity(16 * GIB, f"{_CLOUD}v3"),
        15.48,
        part_of(_spec_from(rates_from(f"{_CLOUD}v3", {"bf16": 123}), (f"{_CLOUD}v3", 0.9), links=(_BOOK, 0.1 * 4))),
        vmem=16 * MIB,
        smem=16 * KIB,
    ),
    _tpu(
        "v4",
        "v4 megacore",
        _V4,
        Capacity(32 * GIB, f"{_CLOUD}v4"),
        30.75,
        _V4_RATES,
        vmem=16 * MIB,
        cmem=134_000_000,
        origin=_BOTH_CORES,
        cores=2,
    ),
    _tpu(
        "v4-core",
        "v4 one core",
        _V4,
        Capacity(16 * GIB, f"{_CLOUD}v4"),
        15.25,
        part_of(_V4_RATES),
        vmem=16 * MIB,
        cmem=67_000_000,
    ),
    _tpu(
        "v5e",
        "v5 lite, v5litepod",
        TpuGeneration("v5e", 512, heap_limit=14_224_979_968),
        Capacity(16 * GIB, f"{_CLOUD}v5e"),
        15.75,
        _spec_from(
            rates_from(f"{_CLOUD}v5e", {"bf16": 197, "s8": 393}) | rates_from(_JAX, {"s4": 788}),
            memory=(f"{_CLOUD}v5e", 0.819),
            links=(f"{_CLOUD}v5e", 0.2),
            host=(_BOOK, 0.015),
        ),
        vmem=128 * MIB,
    ),
    _tpu(
        "v5p",
        "v5p chip",
        TpuGeneration(
            "v5p", 32, heap_limit=100_102_305_792, torus_dimensions=3, kernel_reserve=64 * KIB, splits_grids=True
        ),
        Capacity(103_000_000_000, _PALLAS),
        95.73,
        _spec_from(
            rates_from(f"{_CLOUD}v5p", {"bf16": 459, "f8": 459}) | rates_from(_JAX, {"s8": 918, "s4": 1840}),
            memory=(f"{_CLOUD}v5p", 2.765),
            links=(f"{_CLOUD}v5p", 0.6),
            host=(_BOOK, 0.015),
        ),
        vmem=64 * MIB,
        cores=2,
    ),
    _tpu(
        "v6e",
        "v6 lite, trillium",
        TpuGeneration(
            "v6e",
            32,
            heap_limit=30_861_686_784,
            has_sparse_core=True,
            kernel_bytes=32 * MIB,
            kernel_reserve=64 * KIB,
            internal_scratch_rows=144,
        ),
        Capacity(32 * GIB, f"{_CLOUD}v6e"),
        31.24,
        _spec_from(
            rates_from(f"{_CLOUD}v6e", {"bf16": 918, "s8": 1836})
            | rates_from(f"{_CLOUD}tpu7x", {"f8": 918})
            | rates_from(_JAX, {"s4": 3680}),
            memory=(f"{_CLOUD}v6e", 1.638),
            links=(f"{_CLOUD}v6e", 0.4),
            host=(_BOOK, 0.032),
        ),
        vmem=128 * MIB,
    ),
    _tpu(
        "7x",
        "tpu7x, v7x, v7, ironwood",
        TpuGeneration(
            "7x",
            32,
            heap_limit=99_040_096_256,
            has_sparse_core=True,
            torus_dimensions=3,
            kernel_bytes=32 * MIB,
            kernel_reserve=64 * KIB,
            internal_scratch_rows=144,
            has_tall_scratch=True,
        ),
        Capacity(96 * GIB, f"{_CLOUD}tpu7x"),
        94.74,
        part_of(
            _spec_from(
                rates_from(f"{_CLOUD}tpu7x", {"bf16": 2307, "f8": 4614}),
                memory=(_JAX, 7.4),
                links=(f"{_CLOUD}tpu7x", 0.6),
            )
        ),
        vmem=64 * MIB,
    ),
)

LIBTPU_VERSIONS: Final = MappingProxyType(
    {
        ("JELLYFISH", ""): "v2",
        ("DRAGONFISH", ""): "v3",
        ("PUFFERFISH", ""): "v4",
        ("VIPERFISH", "lite"): "v5e",
        ("VIPERFISH", ""): "v5p",
        ("GHOSTLITE", ""): "v6e",
        ("6acc60406", ""): "7x",  # libtpu 0.0.52 has no word for it
    }
)
"""The chip of each version and variant in the target arguments that libtpu 0.0.52 writes next to a dump."""
