"""Which figures of a GPU does XLA's cost model for fusion use? One row each, from XLA's target files.

Mirrors `DeviceDescription` of xla/stream_executor/device_description.h; the rows are those of
xla/backends/gpu/target_config/specs. Bytes of L1 cache and of memory transactions are constants of the vendor there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from hlo_cli.analysis.hardware.chip_table import KIB, ChipSpec
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.source import HloError

_NO_CAPABILITY: Final = "xe"  # XLA has no compute capability for these
BLOCK_REGISTERS: Final = 65_536
"""Registers of 32 bits that a block can have, on all NVIDIA GPUs that XLA compiles for."""


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
    l1_cache_bytes_per_core: int = 2 * KIB
    dram_transaction_bytes: int = 64
    transaction_bytes_per_clock: int = 32

    @property
    def is_rocm(self) -> bool:
        """Whether it is a GPU of AMD."""
        return self.profile.startswith("gfx")

    @property
    def capability(self) -> int:
        """Compute capability of a GPU of NVIDIA, such as 90 for 9.0; 0 for others."""
        digits = self.profile.removeprefix("sm_")
        return int(digits) if digits.isdecimal() else 0

    @property
    def is_checked(self) -> bool:
        """Whether times and fusions were compared with those of a compiler for it; jaxlib has none for Intel."""
        return self.profile != _NO_CAPABILITY

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
    if known is None or known.spec != replace(chip, links=known.spec.links):  # measured times are not compared
        return None
    return _DEVICES.get(known.name)


def chips_of_table(device: str) -> tuple[str, ...]:
    """The chips that a device of XLA's tables can be: by its compute capability, and by the name after that.

    Mirrors `HloOpProfiles::GetProfileName` of xla/service/gpu/model/hlo_op_profiles.cc.

    >>> chips_of_table("sm_100_B200"), chips_of_table("gfx950"), chips_of_table("sm_30")
    (('b200',), ('mi350x', 'mi355x'), ())
    """
    # MI355X has no file of its own, but is the same architecture.
    profiles = {name: row.profile for name, row in _DEVICES.items()} | {"mi355x": _DEVICES["mi350x"].profile}
    matching = [name for name, profile in profiles.items() if device == profile or device.startswith(f"{profile}_")]
    named = [name for name in matching if device.lower().endswith(f"_{name}")]
    return tuple(named or matching)


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


def _amd_device(spec: str, profile: str, cores: int, clock: float, bandwidth: int, l2: int, shared: int) -> GpuDevice:
    """Row of an AMD GPU; caches and buses of the MI300 series, to which the MI350 (gfx950) belongs, differ."""
    # device_description.h: L1 and the width of the memory bus are constants by architecture there.
    is_mi300_series = profile in ("gfx942", "gfx950")
    l1 = 32 * KIB if is_mi300_series else 16 * KIB
    bus, clocked = (128, 16) if is_mi300_series else (64, 32)
    return GpuDevice(spec, profile, cores, 128, 2048, clock, bandwidth, l2, shared, 64, l1, bus, clocked)


_MI200: Final = _amd_device("mi200", "gfx90a", 110, 1.7, 1_638_400_000_000, 8_388_608, 65_536)
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
    "mi300x": _amd_device("mi300", "gfx942", 304, 2.1, 6_810_000_000_000, 4_194_304, 65_536),
    "mi350x": _amd_device("mi350", "gfx950", 256, 2.2, 6_810_000_000_000, 4_194_304, 163_840),
    "gfx1250": GpuDevice(
        "gfx1250", "gfx1250", 64, 128, 1024, 2.4, 640_000_000_000, 8_388_608, shared_memory_per_block=65_536
    ),
    "gpu-max-1100": GpuDevice(
        "pvc", _NO_CAPABILITY, 56, 128, 1024, 1.55, 1_228_800_000_000, 201_326_592, shared_memory_per_block=131_072
    ),
    "arc-b580": GpuDevice(
        "bmg_g21", _NO_CAPABILITY, 20, 128, 1024, 2.85, 456_000_000_000, 18_874_368, shared_memory_per_block=131_072
    ),
}
