"""Which GPUs are known: those of NVIDIA, AMD, and Intel, one row each, with the source of every number?"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.hardware.chip_table import (
    AMD_PAGES,
    GIB,
    Chip,
    Published,
    gpu,
    matmul_rates,
    rates_from,
    xla_spec,
)

# --- GPUs of NVIDIA ---
# Main memory bandwidth is XLA's if available: the memory clock that the driver reports times the bus width, whereas
# vendors round. Of two matmul peaks the higher counts, so that it is an upper bound: XLA's file has the A100 PCIe at
# 1.11 GHz, but it boosts to the 1.41 GHz of the vendor's page. Exceptions: the f64 peak of B300 and GB300 is the
# vendor's, because XLA's files repeat the units of B200, which these chips do not have; and the host bandwidth in XLA's
# files (2 GiB/s for GB200) is replaced by the vendor's bus rate.


_MEASURED: Final = "https://github.com/openxla/xla/tree/main/xla/service/gpu/model/default_matmul_perf_table"
_NVIDIA: Final = "https://www.nvidia.com/en-us/data-center/"
_PASCAL: Final = "https://images.nvidia.com/content/pdf/tesla/whitepaper/pascal-architecture-whitepaper.pdf"
_VOLTA: Final = "https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
_T4: Final = f"{_NVIDIA}tesla-t4/"
_L4: Final = f"{_NVIDIA}l4/"
_AMPERE: Final = (
    "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf"
)
_GA102: Final = "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_A100: Final = f"{_NVIDIA}a100/"
_H100: Final = f"{_NVIDIA}h100/"
_H200: Final = f"{_NVIDIA}h200/"
_HGX: Final = f"{_NVIDIA}hgx/"
_GB200: Final = f"{_NVIDIA}gb200-nvl72/"
_GB300: Final = f"{_NVIDIA}gb300-nvl72/"
_PRO6000: Final = (
    "https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/"
    "NVIDIA-RTX-Blackwell-PRO-GPU-Architecture-v1.0.pdf"
)
_V100_FLOPS: Final = rates_from(_VOLTA, {"f16": 125, "f32": 15.7, "f64": 7.8})
_A100_FLOPS: Final = matmul_rates(_A100, 312, s8=624, tf32=156, f32=19.5, f64=19.5) | rates_from(_AMPERE, {"s4": 1248})
_HOPPER: Final = matmul_rates(_H100, 989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9, f64=66.9)
_FASTER: Final = rates_from(_MEASURED, {"f8": 2620.5})
"""Rate that XLA has measured on `sm_90`, above the published peak."""

NVIDIA_GPUS: Final = (
    gpu(
        "p100",
        "p100 sxm2, p100 sxm2 16gb",
        (16, _PASCAL),
        (17_066_885_120, "p100"),
        rates_from(_PASCAL, {"f16": 21.2, "f32": 10.6, "f64": 5.3}),
        (xla_spec("p100"), 0.73216),
        links=(_PASCAL, 0.08),
        host=(_PASCAL, 0.016),
        l2_mib=4,
        cores=56,
        meaning="SXM2 board",
    ),
    gpu(
        "v100-16gb",
        "v100 sxm2 16gb",
        (16, _VOLTA),
        (16_935_682_048, "v100"),
        _V100_FLOPS,
        (xla_spec("v100"), 0.898048),
        links=(_VOLTA, 0.15),
        host=(_VOLTA, 0.016),
        l2_mib=6,
        cores=80,
    ),
    gpu(
        "v100-32gb",
        "v100 sxm2 32gb",
        (32, _VOLTA),
        None,
        _V100_FLOPS,
        (_VOLTA, 0.9),
        links=(_VOLTA, 0.15),
        host=(_VOLTA, 0.016),
        l2_mib=6,
        cores=80,
    ),
    gpu(
        "t4",
        "tesla t4",
        (16, _T4),
        None,
        rates_from(_T4, {"f16": 65, "f32": 8.1, "s8": 130, "s4": 260}),
        (_T4, 0.32),
        host=(_T4, 0.016),
        l2_mib=4,
        cores=40,
    ),
    gpu(
        "l4",
        "nvidia l4",
        (24, _L4),
        None,
        matmul_rates(_L4, 121, f8=242.5, s8=242.5, tf32=60, f32=30.3),
        (_L4, 0.3),
        host=(_L4, 0.032),
        l2_mib=48,
        cores=58,
    ),
    gpu(
        "a6000",
        "rtx a6000",
        (48, _GA102),
        (51_041_271_808, "a6000"),
        matmul_rates(_GA102, 154.8, s8=309.7, s4=619.3, tf32=77.4, f32=38.7),
        (xla_spec("a6000"), 0.768096),
        links=(_GA102, 0.05625),
        host=(_GA102, 0.032),
        l2_mib=6,
        cores=84,
    ),
    gpu(
        "a100-40gb",
        "a100 sxm4 40gb, a100 sxm 40",
        (40, _A100),
        (42_331_013_120, "a100_sxm_40"),
        _A100_FLOPS,
        (xla_spec("a100_sxm_40"), 1.5552),
        links=(_A100, 0.3),
        host=(_A100, 0.032),
        l2_mib=40,
        cores=108,
    ),
    gpu(
        "a100-80gb",
        "a100 sxm4 80gb, a100 sxm 80",
        (80, _A100),
        (85_100_068_864, "a100_sxm_80"),
        _A100_FLOPS,
        (xla_spec("a100_sxm_80"), 2.03904),
        links=(_A100, 0.3),
        host=(_A100, 0.032),
        l2_mib=40,
        cores=108,
        meaning="SXM board; for the PCIe card, use a100-pcie-80gb",
    ),
    gpu(
        "a100-pcie-80gb",
        "a100 80gb pcie, a100 pcie 80",
        (80, _A100),
        (79_050_250_240, "a100_pcie_80"),
        _A100_FLOPS,
        (xla_spec("a100_pcie_80"), 2.039),
        links=(_A100, 0.3),
        host=(_A100, 0.032),
        l2_mib=40,
        cores=108,
    ),
    gpu(
        "h100",
        "h100 80gb hbm3, h100 sxm, h100 sxm5",
        (80, _H100),
        (84_942_979_072, "h100_sxm"),
        _HOPPER,
        (xla_spec("h100_sxm"), 3.35232),
        links=(_H100, 0.45),
        host=(_H100, 0.064),
        l2_mib=50,
        cores=132,
        fastest=_FASTER,
        meaning="SXM board; for the PCIe card, use h100-pcie",
    ),
    gpu(
        "h100-pcie",
        "h100 pcie card",
        (80, _H100),
        (84_942_979_072, "h100_pcie"),
        matmul_rates(xla_spec("h100_pcie"), 757.2, f8=1514.4, s8=1514.4, tf32=378.6, f32=51.22, f64=51.22),
        (xla_spec("h100_pcie"), 2.03904),
        links=(_H100, 0.3),
        host=(_H100, 0.064),
        l2_mib=50,
        cores=114,
        fastest=_FASTER,
    ),
    gpu(
        "h200",
        "h200 141gb hbm3e, h200 sxm",
        (141, _H200),
        (151_397_597_184, "h200"),
        _HOPPER,
        (xla_spec("h200"), 4.8),
        links=(_H200, 0.45),
        host=(_H200, 0.064),
        l2_mib=50,
        cores=132,
        fastest=_FASTER,
    ),
    gpu(
        "b200",
        "nvidia b200",
        (180, _HGX),
        (191_514_411_008, "b200"),
        matmul_rates(_HGX, 2250, f8=4500, f6=4500, f4=9000, s8=4500, tf32=1125, f32=75)
        | rates_from(xla_spec("b200"), {"f64": 37.22}),
        (xla_spec("b200"), 7.67232),
        links=(_HGX, 0.9),
        host=(_HGX, 0.064),
        l2_mib=127,
        cores=148,
    ),
    gpu(
        "b300",
        "nvidia b300",
        (288, _HGX),
        (297_021_865_984, "b300"),
        matmul_rates(xla_spec("b300"), 2375.6, f8=4751.3, f6=4751.3, s8=4751.3, tf32=1187.8, f32=79.48)
        | rates_from(_HGX, {"f4": 14_000, "f64": 1.3}),
        (xla_spec("b300"), 7.936),
        links=(_HGX, 0.9),
        host=(_HGX, 0.128),
        l2_mib=130,
        cores=158,
    ),
    gpu(
        "gb200",
        "nvidia gb200",
        (186, _GB200),
        (197_897_748_480, "gb200"),
        matmul_rates(_GB200, 2500, f8=5000, f6=5000, f4=10_000, s8=5000, tf32=1250)
        | rates_from(xla_spec("gb200"), {"f32": 80.24, "f64": 40.12}),
        (xla_spec("gb200"), 7.928064),
        links=(_GB200, 0.9),
        host=(_GB200, 0.45),
        l2_mib=130,
        cores=152,
        adds_in_switches=True,
    ),
    gpu(
        "gb300",
        "nvidia gb300",
        (288, _GB300),
        (297_021_079_552, "gb300"),
        matmul_rates(_GB300, 2500, f8=5000, f6=5000, f4=15_300, tf32=1250, f32=83.4, f64=1.4)
        | rates_from(xla_spec("gb300"), {"s8": 4814}),
        (xla_spec("gb300"), 7.928064),
        links=(_GB300, 0.9),
        host=(_GB300, 0.45),
        l2_mib=130,
        cores=152,
        adds_in_switches=True,
    ),
    gpu(
        "rtx6000pro",
        "rtx pro 6000, rtx pro 6000 blackwell",
        (96, _PRO6000),
        (103_079_215_104, "rtx6000pro"),
        matmul_rates(_PRO6000, 503.8, f8=1007.6, f6=1007.6, f4=2015.2, s8=1007.6, tf32=251.9, f32=126, f64=1.97),
        (xla_spec("rtx6000pro"), 1.792),
        host=(_PRO6000, 0.064),
        l2_mib=128,
        cores=188,
    ),
)


# --- GPUs of AMD and Intel ---
# The same holds as for those of NVIDIA.


_HIP: Final = "https://github.com/ROCm/hipBLASLt/releases/tag/rocm-7.0.0"
_INTEL: Final = "https://www.intel.com/content/www/us/en/products/sku/"
_MAX1100: Final = f"{_INTEL}232876/intel-data-center-gpu-max-1100/specifications.html"
_B580: Final = f"{_INTEL}241598/intel-arc-b580-graphics/specifications.html"
_XE: Final = (
    "https://www.intel.com/content/www/us/en/docs/oneapi/optimization-guide-gpu/2024-1/intel-xe-gpu-architecture.html"
)


def _mi300(name: str, aliases: str, memory_gib: int, bandwidth: float) -> Chip:
    """Returns the row of a chip of the MI300 series."""
    page = f"{AMD_PAGES}mi300/{name}.html"
    flops = matmul_rates(page, 1307.4, f8=2614.9, s8=2614.9, tf32=653.7, f32=163.4, f64=163.4)
    links, host = (page, 0.448), (page, 0.064)
    memory = (memory_gib, page)
    return gpu(name, aliases, memory, None, flops, (page, bandwidth), links=links, host=host, l2_mib=256, cores=304)


def _mi350(
    name: str,
    aliases: str,
    usable: tuple[int, str] | None,
    bandwidth: Published,
    bf16: float,
    *,
    f4: float,
    f32: float,
    f64: float,
) -> Chip:
    """Returns the row of a chip of the MI350 series.

    Two rates are measured ones above the peaks. XLA's table of MI350X has an f8 matmul at 5.23 Pflop/s, 1.14 times the
    peak at its clock. It has f32 matmuls of default precision at 1.02 Pflop/s, more than three of bf16 for one could
    reach; so no more than one bf16 matmul for one of f32 is certain.
    """
    page = f"{AMD_PAGES}mi350/{name}.html"
    flops = matmul_rates(page, bf16, f8=2 * bf16, f6=f4, f4=f4, s8=2 * bf16, f32=f32, f64=f64)
    flops |= rates_from(_HIP, {"tf32": bf16 / 3})  # emulated, by three matmuls
    memory, links, host = (288e9 / GIB, page), (page, 0.5376), (page, 0.064)
    fastest = rates_from(_MEASURED, {"f8": 1.14 * 2 * bf16, "tf32": bf16})
    return gpu(
        name,
        aliases,
        memory,
        usable,
        flops,
        bandwidth,
        links=links,
        host=host,
        l2_mib=256,
        cores=256,
        fastest=fastest,
    )


AMD_AND_INTEL_GPUS: Final = (
    gpu(
        "mi250",
        "mi200",
        (64, f"{AMD_PAGES}mi200/mi250.html"),
        (67_628_957_696, "mi200"),
        matmul_rates(f"{AMD_PAGES}mi200/mi250.html", 362.1, s8=362.1, f32=90.5, f64=90.5),
        (xla_spec("mi200"), 1.6384 * 2),
        l2_mib=8,
        cores=104,
        parts=2,
    ),
    gpu(
        "mi250x",
        "instinct mi250x",
        (64, f"{AMD_PAGES}mi200/mi250x.html"),
        (67_628_957_696, "mi200"),
        matmul_rates(f"{AMD_PAGES}mi200/mi250x.html", 383, s8=383, f32=95.7, f64=95.7),
        (xla_spec("mi200"), 1.6384 * 2),
        l2_mib=8,
        cores=110,
        parts=2,
    ),
    _mi300("mi300x", "instinct mi300x", 192, 5.3),
    _mi300("mi325x", "mi325", 256, 6),
    # as XLA's file had it in August 2026, when products and models were measured; a later state has 7.782, AMD's page 8
    _mi350(
        "mi350x", "mi350", (270_566_162_432, "mi350"), (xla_spec("mi350"), 6.81), 2306.9, f4=9227.5, f32=144.2, f64=72.1
    ),
    _mi350("mi355x", "mi355", None, (f"{AMD_PAGES}mi350/mi355x.html", 8), 2516.6, f4=10066.3, f32=157.3, f64=78.6),
    gpu(
        "gpu-max-1100",
        "pvc, intel(r) data center gpu max 1100, max 1100",
        (48, _MAX1100),
        (48_946_688_000, "pvc"),
        matmul_rates(_XE, 355.5, s8=711, tf32=177.7, f32=22.2, f64=22.2),
        (xla_spec("pvc"), 1.2288),
        l2_mib=192,
        cores=56,
    ),
    gpu(
        "arc-b580",
        "bmg g21, b580, intel(r) arc(tm) b580 graphics",
        (12, _B580),
        (12_168_933_376, "bmg_g21"),
        matmul_rates(_B580, 116.7, s8=233.5, f32=14.6),
        (xla_spec("bmg_g21"), 0.456),
        l2_mib=18,
        cores=20,
    ),
    gpu(
        "gfx1250",
        "amd gfx1250",
        (16, xla_spec("mi450")),
        None,
        rates_from(xla_spec("mi450"), {"f32": 39.3}),
        (xla_spec("mi450"), 0.64),
        l2_mib=8,
        cores=64,
        meaning="placeholder values from XLA's file",
    ),
)
