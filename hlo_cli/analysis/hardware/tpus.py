"""TPUs, one row each: everything that differs between generations and chips.

Granule of tuple tables, heap limit (capacity less 2.5 GiB), and prefetched memory were measured on libtpu 0.0.51 and
0.0.52 or read from its log.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.hardware.chip import GIB, KIB, MIB, Capacity, Chip, TpuGeneration
from hlo_cli.analysis.hardware.rates import ChipSpec, part_of, rates_from, spec_from
from hlo_cli.ir.memory_space import TpuMemorySpace

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
    )


_V4: Final = TpuGeneration(
    "v4", table_granule=512, heap_limit=13_688_631_296, prefetched=TpuMemorySpace.CMEM, torus_dimensions=3
)
_V4_RATES: Final = spec_from(
    rates_from(f"{_CLOUD}v4", {"bf16": 275, "s8": 275}),
    memory=(f"{_CLOUD}v4", 1.2),
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
        part_of(spec_from(rates_from(_JAX, {"bf16": 46}), memory=(_JAX, 0.716))),
        vmem=16 * MIB,
        smem=16 * KIB,
    ),
    _tpu(
        "v3",
        "v3 core",
        TpuGeneration("v3", 1024, heap_limit=13_939_761_152, prefetched=None, has_large_tiles=True),
        Capacity(16 * GIB, f"{_CLOUD}v3"),
        15.48,
        part_of(spec_from(rates_from(f"{_CLOUD}v3", {"bf16": 123}), (f"{_CLOUD}v3", 0.9), links=(_BOOK, 0.1 * 4))),
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
        spec_from(
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
        TpuGeneration("v5p", 32, heap_limit=100_102_305_792, torus_dimensions=3),
        Capacity(103_000_000_000, _PALLAS),
        95.73,
        spec_from(
            rates_from(f"{_CLOUD}v5p", {"bf16": 459, "f8": 459}) | rates_from(_JAX, {"s8": 918, "s4": 1840}),
            memory=(f"{_CLOUD}v5p", 2.765),
            links=(f"{_CLOUD}v5p", 0.6),
            host=(_BOOK, 0.015),
        ),
        vmem=64 * MIB,
    ),
    _tpu(
        "v6e",
        "v6 lite, trillium",
        TpuGeneration("v6e", 32, heap_limit=30_861_686_784, has_sparse_core=True),
        Capacity(32 * GIB, f"{_CLOUD}v6e"),
        31.24,
        spec_from(
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
        TpuGeneration("7x", 32, heap_limit=99_040_096_256, has_sparse_core=True, torus_dimensions=3),
        Capacity(96 * GIB, f"{_CLOUD}tpu7x"),
        94.74,
        part_of(
            spec_from(
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
    }
)
"""The chip of each version and variant in the target arguments that libtpu 0.0.51 writes next to a dump."""
