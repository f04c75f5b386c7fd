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

from hlo_cli.analysis.hardware.buffer_sizes import Generation
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.source import HloError, nearest

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_PALLAS: Final = "https://docs.jax.dev/en/latest/pallas/tpu/hardware.html"
_XLA: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"
_NVIDIA: Final = "https://www.nvidia.com/en-us/data-center/"
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_VOLTA: Final = "https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
_PASCAL: Final = "https://images.nvidia.com/content/pdf/tesla/whitepaper/pascal-architecture-whitepaper.pdf"
_GA102: Final = "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_PRO6000: Final = (
    "https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/"
    "NVIDIA-RTX-Blackwell-PRO-GPU-Architecture-v1.0.pdf"
)
_INTEL: Final = "https://www.intel.com/content/www/us/en/products/sku/"
_MAX1100: Final = f"{_INTEL}232876/intel-data-center-gpu-max-1100/specifications.html"
_B580: Final = f"{_INTEL}241598/intel-arc-b580-graphics/specifications.html"
_COMPILER: Final = "libtpu 0.0.51: what error E1000 calls available"
_BOTH_CORES: Final = "libtpu: what error E1000 calls available where both cores are one device"
_VENDORS = re.compile(r"google|cloud|tpu|gpu|intel|nvidia|tesla|amd|instinct|geforce|[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class Capacity:
    """A number of bytes, and where it is published."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip, what else it is called, and its memories by memory space: `{0: main memory, 1: VMEM, …}`.

    `fast_bytes` are what a kernel can find or leave beside the main memory: the last cache of a GPU, VMEM and CMEM of a
    TPU. `meaning` says which of several chips of this name it is.
    """

    name: str
    aliases: tuple[str, ...]
    target: Target
    memories: Mapping[int, Capacity]
    usable: Capacity | None = None
    fast_bytes: int = 0
    meaning: str = ""

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
    shortest = min(longer, key=len, default="")
    if not all(_plain(each).startswith(_plain(shortest)) for each in longer):
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
    return Chip(name, tuple(aliases.split(", ")), "tpu", MappingProxyType(memories), usable, fast_bytes=vmem + cmem)


def _gpu(
    name: str,
    aliases: str,
    page: str,
    memory_gib: float,
    usable: int = 0,
    spec: str = "",
    *,
    l2_mib: int,
    meaning: str = "",
) -> Chip:
    told = Capacity(usable, f"{_XLA}{spec}.txtpb") if usable else None
    memories = MappingProxyType({0: Capacity(round(memory_gib * _GIB), page)})
    fast = l2_mib * _MIB
    return Chip(name, tuple(aliases.split(", ")), "gpu", memories, told, fast_bytes=fast, meaning=meaning)


CHIPS: Final = (
    _tpu("v2", "v2 core", f"{_CLOUD}v2", 8 * _GIB, "7.48", vmem=16 * _MIB, smem=16 * _KIB),
    _tpu("v3", "v3 core", f"{_CLOUD}v3", 16 * _GIB, "15.48", vmem=16 * _MIB, smem=16 * _KIB),
    _tpu("v4", "v4 megacore", f"{_CLOUD}v4", 32 * _GIB, "30.75", vmem=16 * _MIB, cmem=134_000_000, told=_BOTH_CORES),
    _tpu("v4-core", "v4 one core", f"{_CLOUD}v4", 16 * _GIB, "15.25", vmem=16 * _MIB, cmem=67_000_000),
    _tpu("v5e", "v5 lite, v5litepod", f"{_CLOUD}v5e", 16 * _GIB, "15.75", vmem=128 * _MIB),
    _tpu("v5p", "v5p chip", _PALLAS, 103_000_000_000, "95.73", vmem=64 * _MIB),
    _tpu("v6e", "v6 lite, trillium", f"{_CLOUD}v6e", 32 * _GIB, "31.24", vmem=128 * _MIB),
    _tpu("7x", "tpu7x, v7x, v7, ironwood", f"{_CLOUD}tpu7x", 96 * _GIB, "94.74", vmem=64 * _MIB),
    _gpu("p100", "p100 sxm2, p100 sxm2 16gb", _PASCAL, 16, 17_066_885_120, "p100", l2_mib=4, meaning="the SXM2 board"),
    _gpu("v100-16gb", "v100 sxm2 16gb", _VOLTA, 16, 16_935_682_048, "v100", l2_mib=6),
    _gpu("v100-32gb", "v100 sxm2 32gb", _VOLTA, 32, l2_mib=6),
    _gpu("t4", "tesla t4", f"{_NVIDIA}tesla-t4/", 16, l2_mib=4),
    _gpu("l4", "nvidia l4", f"{_NVIDIA}l4/", 24, l2_mib=48),
    _gpu("a6000", "rtx a6000", _GA102, 48, 51_041_271_808, "a6000", l2_mib=6),
    _gpu("a100-40gb", "a100 sxm4 40gb, a100 sxm 40", f"{_NVIDIA}a100/", 40, 42_331_013_120, "a100_sxm_40", l2_mib=40),
    _gpu(
        "a100-80gb",
        "a100 sxm4 80gb, a100 sxm 80",
        f"{_NVIDIA}a100/",
        80,
        85_100_068_864,
        "a100_sxm_80",
        l2_mib=40,
        meaning="the SXM board; the card is a100-pcie-80gb",
    ),
    _gpu(
        "a100-pcie-80gb",
        "a100 80gb pcie, a100 pcie 80",
        f"{_NVIDIA}a100/",
        80,
        79_050_250_240,
        "a100_pcie_80",
        l2_mib=40,
    ),
    _gpu(
        "h100",
        "h100 80gb hbm3, h100 sxm, h100 sxm5",
        f"{_NVIDIA}h100/",
        80,
        84_942_979_072,
        "h100_sxm",
        l2_mib=50,
        meaning="the SXM board; the card is h100-pcie",
    ),
    _gpu("h100-pcie", "h100 pcie card", f"{_NVIDIA}h100/", 80, 84_942_979_072, "h100_pcie", l2_mib=50),
    _gpu("h200", "h200 141gb hbm3e, h200 sxm", f"{_NVIDIA}h200/", 141, 151_397_597_184, "h200", l2_mib=50),
    _gpu("b200", "nvidia b200", f"{_NVIDIA}hgx/", 180, 191_514_411_008, "b200", l2_mib=127),
    _gpu("b300", "nvidia b300", f"{_NVIDIA}hgx/", 288, 297_021_865_984, "b300", l2_mib=130),
    _gpu("gb200", "nvidia gb200", f"{_NVIDIA}gb200-nvl72/", 186, 197_897_748_480, "gb200", l2_mib=130),
    _gpu("gb300", "nvidia gb300", f"{_NVIDIA}gb300-nvl72/", 288, 297_021_079_552, "gb300", l2_mib=130),
    _gpu(
        "rtx6000pro",
        "rtx pro 6000, rtx pro 6000 blackwell",
        _PRO6000,
        96,
        103_079_215_104,
        "rtx6000pro",
        l2_mib=128,
    ),
    _gpu("mi250", "mi200", f"{_AMD}mi200/mi250.html", 64, 67_628_957_696, "mi200", l2_mib=8),
    _gpu("mi250x", "instinct mi250x", f"{_AMD}mi200/mi250x.html", 64, 67_628_957_696, "mi200", l2_mib=8),
    _gpu("mi300x", "instinct mi300x", f"{_AMD}mi300/mi300x.html", 192, l2_mib=256),
    _gpu("mi325x", "mi325", f"{_AMD}mi300/mi325x.html", 256, l2_mib=256),
    _gpu("mi350x", "mi350", f"{_AMD}mi350/mi350x.html", 288e9 / _GIB, 270_566_162_432, "mi350", l2_mib=256),
    _gpu("mi355x", "mi355", f"{_AMD}mi350/mi355x.html", 288e9 / _GIB, l2_mib=256),
    _gpu(
        "gpu-max-1100",
        "pvc, intel(r) data center gpu max 1100, max 1100",
        _MAX1100,
        48,
        48_946_688_000,
        "pvc",
        l2_mib=192,
    ),
    _gpu("arc-b580", "bmg g21, b580, intel(r) arc(tm) b580 graphics", _B580, 12, 12_168_933_376, "bmg_g21", l2_mib=18),
    _gpu(
        "gfx1250",
        "amd gfx1250",
        f"{_XLA}mi450.txtpb",
        16,
        l2_mib=8,
        meaning="as in XLA's file, whose values stand in for others",
    ),
)


def _named() -> Iterator[tuple[str, Chip]]:
    for chip in CHIPS:
        for name in (chip.name, *chip.aliases):
            yield _plain(name), chip


_BY_NAME: Final = dict(_named())
