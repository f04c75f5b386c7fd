"""Which chip is meant, by name, by a file, or by what compilers and profilers write, and how fast is it?

Peak rates, the figures of GPUs in XLA's cost model, times that were measured, and the constants of the time model; an
estimated time carries the band that most measured times are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cache
from math import log
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from hlo_cli.analysis.hardware.chip_table import GIB, LIBTPU_VERSIONS, ChipSpec, Rate
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- peak rates by name ---
# Peak rates of chips, known or read from a file.
#
# All numbers are per device as XLA counts them, as in `chip_table.py`. FLOP/s are peaks of dense matmuls, not sparse.
# Link rates are the sum of all links in one direction; the rate to the host is in one direction too.


__all__ = ["ChipSpec", "Rate", "chip_spec"]


def chip_spec(chip: str, own: Mapping[str, ChipSpec] | None = None) -> ChipSpec:
    """Returns the specification of a chip by any of its names; `own` takes precedence over the known ones.

    >>> chip_spec("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    known = find_chip(chip)
    return own[known.name] if own and known.name in own else known.spec


# --- peak rates from a file ---
# Chip specifications read from a TOML file: new chips, and other rates for known ones.


_BANDWIDTHS: Final = ("memory", "links", "host")
_MAX_RATE: Final = 1e30  # far above any chip: catches a unit that was applied twice, and infinity
_MAX_CORES: Final = 1_000_000  # far above any chip: a number beyond is a rate in the wrong place
_KEYS: Final = ("flops", *_BANDWIDTHS, "cores", "source")


def read_throughputs(text: str, source: str = "the given file") -> Mapping[str, ChipSpec]:
    """Reads chip specifications from TOML text; raises HloError if it is invalid.

    Each table `[chip.NAME]` has `flops` (a table of FLOP/s by element type, such as `f32`, `bf16`, `f8`, or `s8`),
    `memory`, `links`, and `host` in bytes per second, `cores` of a GPU, and `source`. Keys that the table of a known
    chip omits keep their known values; for other chips, `memory` is required.

    >>> own = read_throughputs('''
    ... [chip.mine]
    ... flops = { f32 = 1.2e12 }
    ... memory = 50e9
    ... source = "measured"
    ... [chip.h100]
    ... links = 25e9
    ... ''')
    >>> own["mine"].flops_of("bf16"), own["mine"].links
    (Rate(per_second=1200000000000.0, source='measured'), None)
    >>> own["h100"].links.per_second, own["h100"].memory.per_second
    (25000000000.0, 3352320000000.0)
    """
    import tomllib

    try:
        chips = tomllib.loads(text).get("chip", {})
    except tomllib.TOMLDecodeError as error:
        raise HloError(f"{source}: {error}") from error
    if not isinstance(chips, dict):
        raise HloError(f"{source}: expected a [chip.NAME] table")
    read = (_read_chip(name, table, source) for name, table in chips.items())
    return {throughput.chip: throughput for throughput in read}


def _read_chip(name: str, table: object, source: str) -> ChipSpec:
    """Reads the table of one chip."""
    where = f"{source}: [chip.{name}]"
    if not isinstance(table, dict):
        raise HloError(f"{where} must be a table")
    if unknown := set(table) - set(_KEYS):
        keys = f"unknown {'key' if len(unknown) == 1 else 'keys'} {', '.join(sorted(unknown))}"
        raise HloError(f"{where}: {keys}; expected flops, memory, links, host, cores, or source")
    origin = str(table.get("source", source))
    flops = table.get("flops", {})
    if not isinstance(flops, dict):
        raise HloError(f"{where}: flops must be a table by element type, such as flops = {{ bf16 = 197e12 }}")
    # A rate keeps the file as its source, so that screens do not show the vendor's page for it.
    rates = {kind: _read_rate(f"flops.{kind}", value, where, origin) for kind, value in flops.items()}
    bandwidths = {key: _read_rate(key, table[key], where, origin) for key in _BANDWIDTHS if key in table}
    cores = _read_cores(table["cores"], where) if "cores" in table else None
    known = _known(name)
    if known is None:
        memory = bandwidths.get("memory") or _read_rate("memory", None, where, origin)
        return ChipSpec(name, rates, memory, bandwidths.get("links"), bandwidths.get("host"), cores=cores or 0)
    return replace(
        known,
        flops={**known.flops, **rates},
        memory=bandwidths.get("memory", known.memory),
        links=bandwidths.get("links", known.links),
        host=bandwidths.get("host", known.host),
        cores=known.cores if cores is None else cores,
        # A measured rate above the peak refers to the peak that it exceeds; a rate of the user ends that.
        fastest={kind: rate for kind, rate in known.fastest.items() if kind not in rates},
    )


def _known(name: str) -> ChipSpec | None:
    """Returns the specification of a known chip, None for other names."""
    try:
        return find_chip(name).spec
    except HloError:
        return None


def _read_cores(value: object, where: str) -> int:
    """Reads the number of cores of a GPU."""
    # TOML has booleans of their own, which are integers in Python.
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_CORES:
        raise HloError(f"{where}: expected an integer from 1 to {_MAX_CORES} for cores, found {value}")
    return value


def _read_rate(name: str, value: object, where: str, origin: str) -> Rate:
    """Reads a positive number as a rate."""
    if value is None:
        raise HloError(f"{where}: missing {name}", hint=f"add {name} = RATE, in bytes per second")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MAX_RATE:
        raise HloError(f"{where}: expected a number from 1 to 1e30 for {name}, found {value}")
    return Rate(float(value), origin)


# --- the chip that compilers and profilers name ---
# Which chip is it: the one that a module was compiled for, by the texts that compilers write about their target; and
# the GPU of a trace, by what the profiler writes about its devices.


_VERSION: Final = lazy_regex(r"\bversion: TPU_VERSION_(\w+)")  # the enum of libtpu's target, with code names
_VARIANT: Final = lazy_regex(r'\bvariant: "(\w*)"')
# The length is bounded, as the file may be a made-up one.
_DEVICE: Final = lazy_regex(r'\bdevice_description_str: "([^"\n]{0,200})"')


def chip_in(texts: Iterable[str]) -> str | None:
    """The name of the chip in the first text that names a target; None if none does, or it is not known.

    Mirrors `target_arguments.txt` of libtpu, and `GpuTargetConfigProto` of xla/stream_executor.

    >>> chip_in(['version: TPU_VERSION_VIPERFISH  variant: "lite"'])
    'v5e'
    """
    for text in texts:
        if version := _VERSION.search(text):
            variant = _VARIANT.search(text)
            return LIBTPU_VERSIONS.get((version[1], variant[1] if variant else ""))
        if device := _DEVICE.search(text):
            return _gpu_named(device[1])
    return None


def _gpu_named(description: str) -> str | None:
    """The GPU whose name is the longest that a description contains.

    >>> _gpu_named("NVIDIA H100 80GB HBM3"), _gpu_named("H100 SXM"), _gpu_named("unknown")
    ('h100', 'h100', None)
    """
    words = frozenset(description.lower().replace("-", " ").split())
    found = [chip.name for chip in known_chips() if chip.target == "gpu" and chip.name in words]
    return max(found, key=len, default=None)


# --- GPUs of traces ---


class TracedGpu(NamedTuple):
    """A GPU as profilers describe it, with its peak rates: FLOP/s of dense bf16 or f16 matmuls, and bytes per second.

    `chip` is whether `name` is that of a known chip; of the others, traces are all that is needed.
    """

    name: str
    vendor: str
    capability: tuple[int, int]
    cores: int
    memory_bytes: float
    flops: float
    memory_rate: float
    source: str
    is_chip: bool = True


_KNOWN: Final = (
    ("nvidia", (6, 0), ("p100",)),
    ("nvidia", (7, 0), ("v100-16gb", "v100-32gb")),
    ("nvidia", (7, 5), ("t4",)),
    ("nvidia", (8, 0), ("a100-40gb", "a100-80gb", "a100-pcie-80gb")),
    ("nvidia", (8, 6), ("a6000",)),
    ("nvidia", (8, 9), ("l4",)),
    ("nvidia", (9, 0), ("h100", "h100-pcie", "h200")),
    ("nvidia", (10, 0), ("b200", "gb200")),
    ("nvidia", (10, 3), ("b300", "gb300")),
    ("nvidia", (12, 0), ("rtx6000pro",)),
    # ROCm's profiler writes the major and minor version of the architecture: gfx90a is 9.0, gfx942 is 9.4
    ("amd", (9, 0), ("mi250", "mi250x")),
    ("amd", (9, 4), ("mi300x", "mi325x")),
    ("amd", (9, 5), ("mi350x", "mi355x")),
)
"""Vendor and compute capability of the chips in the tables; their cores, memory, and rates are there."""
_NVIDIA: Final = "https://www.nvidia.com/en-us/"
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_OTHERS: Final = (
    # name, vendor, capability, cores, GiB, Tflop/s, TB/s, the vendor's page
    ("a10", "nvidia", (8, 6), 72, 24, 125, 0.6, f"{_NVIDIA}data-center/products/a10-gpu/"),
    ("a30", "nvidia", (8, 0), 56, 24, 165, 0.933, f"{_NVIDIA}data-center/products/a30-gpu/"),
    ("a40", "nvidia", (8, 6), 84, 48, 149.7, 0.696, f"{_NVIDIA}data-center/a40/"),
    ("l40s", "nvidia", (8, 9), 142, 48, 362.05, 0.864, f"{_NVIDIA}data-center/l40s/"),
    ("rtx 6000 ada", "nvidia", (8, 9), 142, 48, 364.25, 0.96, f"{_NVIDIA}design-visualization/rtx-6000/"),
    ("h20", "nvidia", (9, 0), 78, 96, 148, 4.0, f"{_NVIDIA}data-center/hgx/"),
    ("h100 nvl", "nvidia", (9, 0), 132, 94, 835.5, 3.9, f"{_NVIDIA}data-center/h100/"),
    ("gh200 96gb", "nvidia", (9, 0), 132, 96, 989.4, 4.0, f"{_NVIDIA}data-center/grace-hopper-superchip/"),
    ("gh200 144gb", "nvidia", (9, 0), 132, 144, 989.4, 4.9, f"{_NVIDIA}data-center/grace-hopper-superchip/"),
    ("mi100", "amd", (9, 0), 120, 32, 184.6, 1.2288, f"{_AMD}mi100.html"),
    ("mi300a", "amd", (9, 4), 228, 128, 980.6, 5.3, f"{_AMD}mi300/mi300a.html"),
)
"""GPUs without a row in the tables of chips, by which times are estimated: rates of traces need less than estimates."""
_SEPARATORS: Final = lazy_regex(r"[^a-z0-9]")
_SAME_SIZE: Final = 0.2
"""How far the memory in a trace may be from the nominal one: drivers keep some, and 288 GB are 268 GiB or 288 GiB."""


def traced_gpus() -> tuple[TracedGpu, ...]:
    """All GPUs that are known by what a trace has of them."""
    found = []
    for vendor, capability, names in _KNOWN:
        for name in names:
            chip = find_chip(name)
            # Chips before Ampere have no bf16; profilers then state the rate of f16.
            flops = chip.spec.flops.get("bf16") or chip.spec.flops["f16"]
            size, memory = chip.memories[0].bytes, chip.spec.memory
            rates = flops.per_second, memory.per_second
            found.append(TracedGpu(name, vendor, capability, chip.spec.cores, size, *rates, memory.source))
    for name, vendor, capability, cores, gib, tera_flops, tera_bytes, source in _OTHERS:
        rates = tera_flops * 1e12, tera_bytes * 1e12
        found.append(TracedGpu(name, vendor, capability, cores, gib * GIB, *rates, source, is_chip=False))
    return tuple(found)


def gpu_in_trace(
    vendor: str,
    capability: tuple[int, int],
    cores: int,
    *,
    name: str = "",
    memory_bytes: float = 0.0,
    memory_rate: float = 0.0,
    flops: float = 0.0,
) -> TracedGpu | None:
    """The GPU of a trace by vendor, compute capability, and cores; None if it is not known.

    Several GPUs may have them: the name decides, else the size of the memory, else the rates in the trace, of which
    that of memory may be half of the true one. 0 stands for what the trace does not have.

    >>> gpu_in_trace("AMD", (9, 4), 304, memory_rate=2.6624e12).name, gpu_in_trace("AMD", (9, 4), 228).name
    ('mi300x', 'mi300a')
    >>> gpu_in_trace("Nvidia", (9, 0), 132, memory_bytes=151e9).name, gpu_in_trace("Nvidia", (9, 0), 16)
    ('h200', None)
    """
    key = vendor.casefold(), capability, cores
    found = [each for each in traced_gpus() if (each.vendor, each.capability, each.cores) == key]
    words = frozenset(_SEPARATORS.sub(" ", name.casefold()).split())
    named = [each for each in found if words.issuperset(_SEPARATORS.sub(" ", each.name).split())]
    if named:
        return max(named, key=lambda each: len(each.name))
    # The size decides before the rates: boards of one chip differ in memory, not in cores.
    if memory_bytes:
        found = [each for each in found if abs(memory_bytes / each.memory_bytes - 1) <= _SAME_SIZE]

    def distance(each: TracedGpu) -> tuple[float, ...]:
        """How far the memory and the rates are: clocks of AMD are exact, and those of NVIDIA are of a higher boost."""
        size = abs(log(memory_bytes / each.memory_bytes)) if memory_bytes else 0.0
        # ROCm reports the memory clock without the double data rate for some boards.
        ways = (1, 2) if each.vendor == "amd" else (1,)
        rate = min(abs(log(way * memory_rate / each.memory_rate)) for way in ways) if memory_rate else 0.0
        peak = abs(log(flops / each.flops)) if flops else 0.0
        # Rounded, so that a near tie is left to the next figure: sizes are nominal, and clocks vary.
        return round(size, 1), *((round(peak, 2), rate) if each.vendor == "amd" else (round(rate, 2), peak))

    return min(found, key=distance, default=None)


# --- figures of GPUs in XLA's cost model ---
# Figures of GPUs that XLA's cost model for fusion uses, from XLA's target files.
#
# Mirrors `DeviceDescription` of xla/stream_executor/device_description.h; the rows are those of
# xla/backends/gpu/target_config/specs. Bytes of L1 cache and of memory transactions are constants of the vendor there.


_KIB: Final = 1 << 10  # caches are counted in powers of two
_INTEL: Final = "xe"  # XLA has no compute capability for these


class GpuDevice(NamedTuple):
    """Figures of a GPU: memory bandwidth in bytes per second, caches and shared memory in bytes, clock in GHz.

    `profile` is the compute capability, such as `sm_90` or `gfx942`; `spec` the name of XLA's target file.
    """

    spec: str
    profile: str
    core_count: int
    fpus_per_core: int
    threads_per_core: int
    clock_rate_ghz: float
    memory_bandwidth: int
    l2_cache_bytes: int
    shared_memory_per_block: int = 49_152
    threads_per_warp: int = 32
    l1_cache_bytes_per_core: int = 2 * _KIB
    dram_transaction_bytes: int = 64
    transaction_bytes_per_clock: int = 32

    @property
    def is_rocm(self) -> bool:
        """Whether it is a GPU of AMD."""
        return self.profile.startswith("gfx")

    @property
    def is_checked(self) -> bool:
        """Whether times and fusions were compared with those of a compiler for it; jaxlib has none for Intel."""
        return self.profile != _INTEL

    @property
    def is_blackwell(self) -> bool:
        """Whether it has compute capability 10 (`CudaComputeCapability::IsBlackwell`)."""
        return self.profile.startswith("sm_10")


def gpu_device(chip: str) -> GpuDevice:
    """Returns the figures of a GPU by any name of its chip; raises HloError for chips without a target file of XLA.

    >>> gpu_device("NVIDIA H100 80GB HBM3").core_count, gpu_device("a100-40gb").profile
    (132, 'sm_80')
    """
    name = find_chip(chip).name
    if name not in _DEVICES:
        known = ", ".join(_DEVICES)
        raise HloError(f"no figures of {name} for GPU fusion", hint=f"available: {known}")
    return _DEVICES[name]


def device_of(chip: ChipSpec) -> GpuDevice | None:
    """The figures of a GPU that XLA's model uses; None for other chips, and for those with rates of the user.

    Links do not count: no kernel that XLA generates uses them.

    >>> from hlo_cli import chip_spec
    >>> device_of(chip_spec("h100")).core_count, device_of(chip_spec("v5e")), device_of(chip_spec("t4"))
    (132, None, None)
    """
    if not chip.cores:
        return None
    known = next((each for each in known_chips() if each.name == chip.chip), None)
    # XLA's figures belong to the published chip; with other rates they would contradict them.
    if known is None or known.spec != replace(chip, links=known.spec.links):
        return None
    return _DEVICES.get(known.name)


def gpu_devices() -> Mapping[str, GpuDevice]:
    """Returns all devices by the names of their chips.

    >>> [name for name, device in gpu_devices().items() if not device.is_checked]
    ['gpu-max-1100', 'arc-b580']
    """
    return _DEVICES


def gpu_with(core_count: int, memory_bandwidth: int) -> str | None:
    """Returns the chip with a number of cores and a memory bandwidth; None if no row has them.

    >>> gpu_with(132, 3_352_320_000_000), gpu_with(1, 2)
    ('h100', None)
    """
    figures = core_count, memory_bandwidth
    return next(
        (name for name, device in _DEVICES.items() if (device.core_count, device.memory_bandwidth) == figures), None
    )


def _amd(spec: str, profile: str, cores: int, clock: float, bandwidth: int, l2: int, shared: int) -> GpuDevice:
    """Row of an AMD GPU; caches and buses of the MI300 series, to which the MI350 (gfx950) belongs, differ."""
    # device_description.h: L1 and the width of the memory bus are constants by architecture there.
    is_mi300_series = profile in ("gfx942", "gfx950")
    l1 = 32 * _KIB if is_mi300_series else 16 * _KIB
    bus, clocked = (128, 16) if is_mi300_series else (64, 32)
    return GpuDevice(spec, profile, cores, 128, 2048, clock, bandwidth, l2, shared, 64, l1, bus, clocked)


_MI200: Final = _amd("mi200", "gfx90a", 110, 1.7, 1_638_400_000_000, 8_388_608, 65_536)
# Figures as XLA's .txtpb files have them, not as vendors round them: the model's times depend on each digit.
_DEVICES: Final = {
    "p100": GpuDevice("p100", "sm_60", 56, 64, 2048, 1.4805, 732_160_000_000, 4_194_304),
    "v100-16gb": GpuDevice("v100", "sm_70", 80, 64, 2048, 1.53, 898_048_000_000, 6_291_456),
    "a6000": GpuDevice("a6000", "sm_86", 84, 128, 1536, 1.8, 768_096_000_000, 6_291_456),
    "a100-40gb": GpuDevice("a100_sxm_40", "sm_80", 108, 64, 2048, 1.41, 1_555_200_000_000, 41_943_040),
    "a100-80gb": GpuDevice("a100_sxm_80", "sm_80", 108, 64, 2048, 1.41, 2_039_040_000_000, 41_943_040),
    "a100-pcie-80gb": GpuDevice("a100_pcie_80", "sm_80", 108, 64, 2048, 1.1105, 2_039_000_000_000, 41_943_040),
    "h100": GpuDevice("h100_sxm", "sm_90", 132, 128, 2048, 1.98, 3_352_320_000_000, 52_428_800),
    "h100-pcie": GpuDevice("h100_pcie", "sm_90", 114, 128, 2048, 1.755, 2_039_040_000_000, 52_428_800),
    "h200": GpuDevice("h200", "sm_90", 132, 128, 2048, 1.98, 4_800_000_000_000, 52_428_800),
    "b200": GpuDevice("b200", "sm_100", 148, 128, 2048, 1.965, 7_672_320_000_000, 132_644_864),
    "b300": GpuDevice("b300", "sm_103", 158, 128, 2048, 1.965, 7_936_000_000_000, 135_528_448),
    "gb200": GpuDevice("gb200", "sm_100", 152, 128, 2048, 2.062, 7_928_064_000_000, 135_528_448),
    "gb300": GpuDevice("gb300", "sm_103", 152, 128, 2048, 2.07, 7_928_064_000_000, 135_528_448),
    "rtx6000pro": GpuDevice("rtx6000pro", "sm_120", 188, 128, 1536, 2.6, 1_792_000_000_000, 134_217_728),
    "mi250": _MI200,
    "mi250x": _MI200,
    "mi300x": _amd("mi300", "gfx942", 304, 2.1, 6_810_000_000_000, 4_194_304, 65_536),
    "mi350x": _amd("mi350", "gfx950", 256, 2.2, 6_810_000_000_000, 4_194_304, 163_840),
    "gfx1250": GpuDevice(
        "gfx1250", "gfx1250", 64, 128, 1024, 2.4, 640_000_000_000, 8_388_608, shared_memory_per_block=65_536
    ),
    "gpu-max-1100": GpuDevice(
        "pvc", _INTEL, 56, 128, 1024, 1.55, 1_228_800_000_000, 201_326_592, shared_memory_per_block=131_072
    ),
    "arc-b580": GpuDevice(
        "bmg_g21", _INTEL, 20, 128, 1024, 2.85, 456_000_000_000, 18_874_368, shared_memory_per_block=131_072
    ),
}


# --- measured times of matmuls and collectives ---
# Measured times of matmuls and collectives, from XLA's tables; `tests/make_time_tables.py` made the files.
#
# Mirrors default_matmul_perf_table and default_collective_perf_table of xla/service/gpu/model.


MatmulTimes: TypeAlias = Mapping[tuple[int, int, int, int], float]
"""Seconds by batch, m, n, and k."""
CollectiveTimes: TypeAlias = Mapping[int, float]
"""Seconds by bytes of the payload, smallest first."""

MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "h100": "h100",
        "h100-pcie": "h100",
        "h200": "h100",
        "b200": "b200",
        "gb200": "b200",
        "b300": "b200",
        "gb300": "b200",
    }
)
"""The measured chip with the same kind of cores."""
LINKS_MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {"h100": "h100", "h200": "h100", "b200": "b200", "gb200": "gb200", "b300": "gb300", "gb300": "gb300"}
)
"""The measured chip with the same links."""


@cache
def matmul_times() -> Mapping[tuple[str, str], MatmulTimes]:
    """Returns the measured times of matmuls by chip and type: bf16, f32 (which uses TF32), or f8.

    >>> f"{matmul_times()['h100', 'bf16'][1, 4096, 4096, 4096]:.2e}"
    '1.76e-04'
    """
    head, *lines = _lines("matmul_times.csv")
    columns = [(chip, kind) for chip, _, kind in (name.partition(" ") for name in head[4:])]
    found: dict[tuple[str, str], dict[tuple[int, int, int, int], float]] = {column: {} for column in columns}
    for batch, m, n, k, *cells in lines:
        for column, cell in zip(columns, cells, strict=True):
            if cell:
                # The tables are in microseconds, as XLA's are.
                found[column][int(batch), int(m), int(n), int(k)] = float(cell) / 1e6
    return found


@cache
def collective_times() -> Mapping[tuple[str, str], Mapping[tuple[int, int], CollectiveTimes]]:
    """Returns the measured times of f32 collectives by chip and opcode, then by groups and devices in a group.

    For a collective-permute, these are 0 and the number of pairs. Devices are in one host or NVLink domain.

    >>> times = collective_times()["h100", "all-gather"]
    >>> sorted(times), f"{times[1, 8][1 << 20]:.2e}"
    ([(1, 8), (2, 4), (4, 2)], '3.11e-05')
    """
    found: dict[tuple[str, str], dict[tuple[int, int], CollectiveTimes]] = {}
    for chip, opcode, groups, devices, pairs in _lines("collective_times.csv")[1:]:
        times = (pair.split(":") for pair in pairs.split())
        key = (0 if groups == "pairs" else int(groups), int(devices))
        found.setdefault((chip, opcode), {})[key] = {int(size): float(time) / 1e6 for size, time in times}
    return found


def _lines(name: str) -> list[list[str]]:
    # Only matmuls and collectives of measured chips need the tables.
    from importlib.resources import files  # slow to import

    text = (files("hlo_cli.analysis.hardware") / name).read_text("utf-8")
    return [line.split(",") for line in text.splitlines()]


# --- constants of the time model ---
# Constants of the time model, and the bands around its estimates.
#
# `python tests/fit_time_model.py` fits the constants of matmuls on three quarters of the measured shapes, and prints
# them with the quantiles of measured over estimated time on the other quarter, which are the bands.
#
# Other kernels: 27 models that were measured on one MI350X took about 1.2 times the roofline of their kernels, and
# 2.95 µs for each kernel. Of estimates whose constants were fitted on the other models, 64% were within 25%, and 96%
# within a factor of 2.


Band = tuple[float, float]
"""Lower and upper end relative to an estimate: the 10% and 90% quantile of measured over estimated time."""


@dataclass(frozen=True, slots=True)
class MatmulModel:
    """How a chip computes matmuls, for any number of cores and peak rate.

    Each core computes one tile of the result at a time, in waves. `launch_seconds` is what every kernel takes,
    `tile_seconds` what every wave takes in addition to its flops at `share` of the peak rate of a core. While a core
    computes one flop at its peak rate, it reads at most `bytes_per_flop`. Main memory reaches `memory_share` of its
    peak.
    """

    launch_seconds: float
    share: float
    bytes_per_flop: float
    tile_seconds: float
    memory_share: float


MATMUL_MODELS: Final[Mapping[tuple[str, str], MatmulModel]] = MappingProxyType(
    {
        ("h100", "bf16"): MatmulModel(4.84e-6, 0.824, 0.0166, 0.728e-6, 0.803),
        ("h100", "f32"): MatmulModel(5.62e-6, 0.672, 0.0143, 0.371e-6, 0.589),
        ("h100", "f8"): MatmulModel(4.67e-6, 1.45, 0.0235, 1.56e-6, 0.95),  # more than the published peak
        ("b200", "bf16"): MatmulModel(4.55e-6, 0.749, 0.015, 1.42e-6, 0.763),
        ("b200", "f32"): MatmulModel(6.55e-6, 0.749, 0.0343, 1.07e-6, 0.731),
        ("b200", "f8"): MatmulModel(5.59e-6, 0.746, 0.00684, 0.331e-6, 0.723),
    }
)
TABLE_BANDS: Final[Mapping[tuple[str, str], Band]] = MappingProxyType(
    {
        ("h100", "bf16"): (0.95, 1.04),
        ("h100", "f32"): (0.90, 1.12),
        ("h100", "f8"): (0.89, 1.06),
        ("b200", "bf16"): (0.94, 1.02),
        ("b200", "f32"): (0.96, 1.04),
        ("b200", "f8"): (0.94, 1.05),
    }
)
"""Bands of matmuls near measured ones."""
OTHER_MATMULS: Final = MatmulModel(5.24e-6, 0.773, 0.0146, 0.751e-6, 0.95)
"""The model of matmuls on chips that were not measured."""
SHAPE_BAND: Final[Band] = (0.80, 1.25)
"""The band of the model alone: fitted on one of two chips, judged on the other."""

KERNEL_SLOWDOWN: Final = 1.2
"""Measured time of kernels on a GPU over their roofline, launches aside."""
LAUNCH_SECONDS: Final = 2.95e-6
"""What each kernel on a GPU takes in addition to its work."""
KERNEL_BAND: Final[Band] = (0.7, 1.45)
"""The band of kernels on a GPU: with 64% within 25% and 96% within a factor of 2, about 80% are within it."""
TPU_BAND: Final[Band] = (1.0, 1.92)
"""The band of kernels on a TPU around the roofline: from it to what the one measured program took, on v5p."""

COLLECTIVE_BANDS: Final[tuple[Band, Band]] = ((0.82, 1.12), (0.87, 1.25))
"""Bands of collectives between measured ones: of 1 MiB or more, and of less."""
OTHER_COLLECTIVE_BANDS: Final[tuple[Band, Band]] = ((0.80, 1.28), (0.51, 1.61))
"""Bands of collectives estimated from another chip with other links; H100 judged on the others."""
LINKS_BAND: Final[Band] = (1.0, 2.3)
"""The band of bytes over links without latency, on TPUs: to the 90% quantile of GPUs from 128 MiB on."""

TF32_ON_REQUEST: Final = frozenset(("mi300x", "mi325x", "mi350x", "mi355x"))
"""Chips on which XLA multiplies f32 in f32: `GetBlasComputationType` of gpu_blas_lt.cc selects TF32 on CUDA only."""


# --- estimates with a band ---
# An estimated time with the band that most measured times are in, and the source of the estimate.


EstimateSource = Literal["table", "shape model", "launch floor", "roofline", "XLA model", "links"]
"""Measured times, interpolated; a model of the shape, fitted to measured times; the minimum time of a kernel that the
host launches; peak rates with the share that is usually reached; XLA's own model of kernels that it generates for GPUs;
bytes over links with a share that is usually reached.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds, and the band from `low` to `high` that 8 of 10 measured times are in; `sources` name the models.

    `launch_seconds` is the part of `seconds` in which kernels are launched; 0 if it is not known apart.

    The bands of a sum are sums of the bands, as if all errors went the same way: kernels of one model on one chip are
    wrong together, so the errors of many do not cancel. A band therefore never becomes narrower than that of its parts.

    >>> kernel = Estimate(2e-6, 3e-6, 6e-6, frozenset(["roofline"]))
    >>> kernel + kernel * 2
    Estimate(low=6e-06, seconds=9e-06, high=1.8e-05, sources=frozenset({'roofline'}))
    """

    low: float
    seconds: float
    high: float
    sources: frozenset[EstimateSource] = frozenset()
    launch_seconds: float = field(default=0.0, repr=False)

    @property
    def kernel_seconds(self) -> float:
        """The time of the kernels without their launches."""
        return self.seconds - self.launch_seconds

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.low + other.low,
            self.seconds + other.seconds,
            self.high + other.high,
            self.sources | other.sources,
            self.launch_seconds + other.launch_seconds,
        )

    def __mul__(self, times: float) -> Estimate:
        numbers = (self.low * times, self.seconds * times, self.high * times)
        return Estimate(*numbers, self.sources, self.launch_seconds * times)

    def at_least(self, seconds: float) -> Estimate:
        """The estimate, with no number below a lower bound that is certain.

        >>> Estimate(1.0, 2.0, 3.0).at_least(2.5)
        Estimate(low=2.5, seconds=2.5, high=3.0, sources=frozenset())
        """
        if seconds <= self.low:
            return self
        # A bound that is certain also lifts the upper end, lest the band be empty.
        numbers = (seconds, max(self.seconds, seconds), max(self.high, seconds))
        return Estimate(*numbers, self.sources, self.launch_seconds)


NO_TIME: Final = Estimate(0.0, 0.0, 0.0)
"""The estimate of what runs no kernel."""


def around(seconds: float, band: tuple[float, float], source: EstimateSource) -> Estimate:
    """Returns an estimate with a band relative to it.

    >>> around(2.0, (0.5, 1.5), "roofline")
    Estimate(low=1.0, seconds=2.0, high=3.0, sources=frozenset({'roofline'}))
    """
    return Estimate(seconds * band[0], seconds, seconds * band[1], frozenset((source,)))


def longest(one: Estimate, other: Estimate) -> Estimate:
    """Returns the estimate of two activities of which the longer one counts, with the sources of that.

    >>> longest(Estimate(1.0, 4.0, 5.0), Estimate(2.0, 3.0, 9.0))
    Estimate(low=2.0, seconds=4.0, high=9.0, sources=frozenset())
    """
    longer = one if one.seconds >= other.seconds else other
    # The longer of two cannot be shorter than the lower end of either, nor longer than both upper ends.
    low, high = max(one.low, other.low), max(one.high, other.high)
    return Estimate(min(low, longer.seconds), longer.seconds, high, longer.sources, longer.launch_seconds)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Returns the sum of estimates.

    >>> total([]), total([Estimate(1.0, 2.0, 3.0), Estimate(1.0, 1.0, 1.0)]).high
    (Estimate(low=0.0, seconds=0.0, high=0.0, sources=frozenset()), 4.0)
    """
    low = seconds = high = launch = 0.0
    sources: set[EstimateSource] = set()
    for each in estimates:
        low += each.low
        seconds += each.seconds
        high += each.high
        launch += each.launch_seconds
        sources |= each.sources
    return Estimate(low, seconds, high, frozenset(sources), launch)
