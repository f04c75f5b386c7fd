"""How much memory known chips have, with the public source of every number.

All numbers are of one device as XLA counts them: one core of TPU v2, v3 and 7x, one die of an AMD MI250, else a whole
chip. Nominal is what the vendor states; usable is what XLA takes for itself to work with, which is less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, get_args

from hlo_cli.analysis.buffer_sizes import Generation
from hlo_cli.analysis.target import Target
from hlo_cli.source import HloError, nearest

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_PALLAS: Final = "https://docs.jax.dev/en/latest/pallas/tpu/hardware.html"
_XLA: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"
_GARDEN: Final = "https://glennklockwood.com/garden/processors/"
_V100: Final = "https://huggingface.co/RajBhope/gpu-runtime-predictor/blob/main/gpu_catalog.json"
_T4: Final = (
    "https://heise.de/news/Nvidia-Tesla-P4-K-I-Beschleuniger-mit-8-TFlops-bei-75-Watt-Leistungsaufnahme-4164684.html"
)
_L4: Final = "https://fpsbench.com/compare/gpu/nvidia-l4-vs-nvidia-tesla-m40"
_ACCELERATORS: Final = "https://rooflinenotes.dev/accelerators/"
_ROCM: Final = "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html"
_COMPILER: Final = "libtpu 0.0.51: what error E1000 calls available"
_V4_MESSAGE: Final = "https://github.com/erfanzar/EasyDeL/issues/166"
_VENDORS = re.compile(r"google|cloud|tpu|nvidia|tesla|amd|instinct|geforce|[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class Capacity:
    """A number of bytes, and where it is published."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip, what else it is called, and its memories by memory space: `{0: main memory, 1: VMEM, …}`."""

    name: str
    aliases: tuple[str, ...]
    target: Target
    memories: Mapping[int, Capacity]
    usable: Capacity | None = None

    @property
    def generation(self) -> Generation | None:
        """Which TPU it is, as far as sizes of buffers depend on that; None for others.

        >>> find_chip("v4-core").generation, find_chip("7x").generation, find_chip("h100").generation
        ('v4', 'v7x', None)
        """
        if self.target != "tpu":
            return None
        bare = self.name.removeprefix("v").removesuffix("-core")
        return next(known for known in get_args(Generation) if known == f"v{bare}")

    def limit(self, space: int = 0) -> Capacity | None:
        """How much a program can have of a memory space; None where the chip has no such space, or nobody says.

        >>> find_chip("v5e").limit().bytes, find_chip("v5e").limit(1).bytes, find_chip("v5e").limit(3)
        (16911433728, 134217728, None)
        """
        if space == 0 and self.usable is not None:
            return self.usable
        return self.memories.get(space)


def find_chip(name: str) -> Chip:
    """The chip of this name, however it is written; HloError with the nearest name, or all that it may mean.

    >>> find_chip("TPU v5 lite").name, find_chip("NVIDIA H100 80GB HBM3").name
    ('v5e', 'h100')
    >>> find_chip("v5")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: v5 may be v5e or v5p
    """
    word = _plain(name)
    if (chip := _BY_NAME.get(word)) is not None:
        return chip
    longer = dict.fromkeys(chip.name for known, chip in _BY_NAME.items() if word and known.startswith(word))
    if len(longer) > 1:
        raise HloError(f"{name} may be {' or '.join(longer)}")
    near = next(iter(longer), None) or nearest(word, _BY_NAME)
    hint = f"did you mean {_BY_NAME[_plain(near)].name}?" if near else None
    raise HloError(f"no chip is called {name}; known are {', '.join(chip.name for chip in CHIPS)}", hint=hint)


def _plain(name: str) -> str:
    return _VENDORS.sub("", name.casefold())


def _tpu(  # one row of the table below
    name: str,
    aliases: str,
    page: str,
    hbm: int,
    usable_gib: str,
    *,
    vmem: int,
    smem: int = _MIB,
    cmem: int = 0,
    told: str = _COMPILER,
) -> Chip:
    memories = {0: Capacity(hbm, page), 1: Capacity(vmem, _PALLAS), 6: Capacity(smem, _PALLAS)}
    if cmem:
        memories[3] = Capacity(cmem, _PALLAS)
    usable = Capacity(round(float(usable_gib) * _GIB), told)
    return Chip(name, tuple(aliases.split(", ")), "tpu", MappingProxyType(memories), usable)


def _gpu(name: str, aliases: str, page: str, memory: int, usable: int = 0, spec: str = "") -> Chip:
    told = Capacity(usable, f"{_XLA}{spec}.txtpb") if usable else None
    return Chip(name, tuple(aliases.split(", ")), "gpu", MappingProxyType({0: Capacity(memory, page)}), told)


CHIPS: Final = (
    _tpu("v2", "v2 core", f"{_CLOUD}v2", 8 * _GIB, "7.48", vmem=16 * _MIB, smem=16 * _KIB),
    _tpu("v3", "v3 core", f"{_CLOUD}v3", 16 * _GIB, "15.48", vmem=16 * _MIB, smem=16 * _KIB),
    _tpu("v4", "v4 megacore", f"{_CLOUD}v4", 32 * _GIB, "30.75", vmem=16 * _MIB, cmem=134_000_000, told=_V4_MESSAGE),
    _tpu("v4-core", "v4 one core", f"{_CLOUD}v4", 16 * _GIB, "15.25", vmem=16 * _MIB, cmem=67_000_000),
    _tpu("v5e", "v5 lite, v5litepod", f"{_CLOUD}v5e", 16 * _GIB, "15.75", vmem=128 * _MIB),
    _tpu("v5p", "v5p chip", _PALLAS, 103_000_000_000, "95.73", vmem=64 * _MIB),
    _tpu("v6e", "v6 lite, trillium", f"{_CLOUD}v6e", 32 * _GIB, "31.24", vmem=128 * _MIB),
    _tpu("7x", "tpu7x, v7x, v7, ironwood", f"{_CLOUD}tpu7x", 96 * _GIB, "94.74", vmem=64 * _MIB),
    _gpu("v100-16gb", "v100 sxm2 16gb", f"{_XLA}v100.txtpb", 16 * _GIB, 16_935_682_048, "v100"),
    _gpu("v100-32gb", "v100 sxm2 32gb", _V100, 32 * _GIB),
    _gpu("t4", "tesla t4", _T4, 16 * _GIB),
    _gpu("l4", "nvidia l4", _L4, 24 * _GIB),
    _gpu("a100-40gb", "a100 sxm4 40gb, a100 sxm 40", f"{_GARDEN}A100", 40 * _GIB, 42_331_013_120, "a100_sxm_40"),
    _gpu("a100-80gb", "a100 sxm4 80gb, a100 sxm 80", f"{_GARDEN}A100", 80 * _GIB, 85_100_068_864, "a100_sxm_80"),
    _gpu("h100", "h100 80gb hbm3, h100 sxm, h100 pcie", f"{_GARDEN}h100", 80 * _GIB, 84_942_979_072, "h100_sxm"),
    _gpu("h200", "h200 141gb hbm3e", f"{_XLA}h200.txtpb", 141 * _GIB, 151_397_597_184, "h200"),
    _gpu("b200", "nvidia b200", _ACCELERATORS, 180 * _GIB, 191_514_411_008, "b200"),
    _gpu("b300", "nvidia b300", f"{_GARDEN}B300", 288 * _GIB, 297_021_865_984, "b300"),
    _gpu("mi250", "mi250x, mi200", _ROCM, 64 * _GIB, 67_628_957_696, "mi200"),
    _gpu("mi300x", "mi300", _ROCM, 192 * _GIB),
    _gpu("mi325x", "mi325", _ROCM, 256 * _GIB),
    _gpu("mi350x", "mi350, mi355x, mi355", _ROCM, 288 * _GIB),
)


def _named() -> Iterator[tuple[str, Chip]]:
    for chip in CHIPS:
        for name in (chip.name, *chip.aliases):
            yield _plain(name), chip


_BY_NAME: Final = dict(_named())
