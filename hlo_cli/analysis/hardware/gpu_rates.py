"""How much GPUs can calculate and move in a second, as their vendors say and as XLA's target files have it.

The bandwidth of a main memory is that of XLA's file where it has the chip, which is the clock that the driver reports
times the width of the bus, where vendors round. Of two peaks for products the higher counts, so that a bound is one:
XLA's file has the A100 PCIe at 1.11 GHz, but it boosts to the 1.41 GHz of the vendor's page. Two exceptions: the f64
peak of B300 and GB300 is the vendor's, as XLA's files repeat the units of B200, which these chips do not have; and what
XLA's files say of the way to the host (2 GiB/s for GB200) is passed over for what the vendor says of the bus.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.hardware.rates import ChipSpec, part_of, products, rate_from, rates_from

_XLA: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"
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
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_HIP: Final = "https://github.com/ROCm/hipBLASLt/releases/tag/rocm-7.0.0"
_XE: Final = (
    "https://www.intel.com/content/www/us/en/docs/oneapi/optimization-guide-gpu/2024-1/intel-xe-gpu-architecture.html"
)
_B580: Final = "https://www.intel.com/content/www/us/en/products/sku/241598/intel-arc-b580-graphics/specifications.html"


_V100_FLOPS: Final = rates_from(_VOLTA, {"f16": 125, "f32": 15.7, "f64": 7.8})
_A100_FLOPS: Final = products(_A100, 312, s8=624, tf32=156, f32=19.5, f64=19.5) | rates_from(_AMPERE, {"s4": 1248})
_HOPPER: Final = products(_H100, 989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9, f64=66.9)
_FASTER: Final = rates_from(_MEASURED, {"f8": 2620.5})
"""What XLA has measured on `sm_90`, although no peak explains it."""


def _xla(spec: str) -> str:
    return f"{_XLA}{spec}.txtpb"


_MI250X: Final = ChipSpec(
    "mi250x",
    products(f"{_AMD}mi200/mi250x.html", 383, s8=383, f32=95.7, f64=95.7),
    rate_from(_xla("mi200"), 1.6384 * 2),
)
_MI250: Final = ChipSpec(
    "mi250",
    products(f"{_AMD}mi200/mi250.html", 362.1, s8=362.1, f32=90.5, f64=90.5),
    rate_from(_xla("mi200"), 1.6384 * 2),
)


def _mi300(name: str, memory: float) -> ChipSpec:
    page = f"{_AMD}mi300/{name}.html"
    flops = products(page, 1307.4, f8=2614.9, s8=2614.9, tf32=653.7, f32=163.4, f64=163.4)
    return ChipSpec(name, flops, rate_from(page, memory), rate_from(page, 0.448), rate_from(page, 0.064))


def _mi350(name: str, bf16: float, f4: float, f32: float, f64: float) -> ChipSpec:
    page = f"{_AMD}mi350/{name}.html"
    flops = products(page, bf16, f8=2 * bf16, f6=f4, f4=f4, s8=2 * bf16, f32=f32, f64=f64)
    flops |= rates_from(_HIP, {"tf32": bf16 / 3})  # emulated, by three products
    return ChipSpec(name, flops, rate_from(_xla("mi350"), 7.782), rate_from(page, 0.5376), rate_from(page, 0.064))


GPUS: Final = (
    ChipSpec(
        "p100",
        rates_from(_PASCAL, {"f16": 21.2, "f32": 10.6, "f64": 5.3}),
        rate_from(_xla("p100"), 0.73216),
        rate_from(_PASCAL, 0.08),
        rate_from(_PASCAL, 0.016),
    ),
    ChipSpec(
        "v100-16gb",
        _V100_FLOPS,
        rate_from(_xla("v100"), 0.898048),
        rate_from(_VOLTA, 0.15),
        rate_from(_VOLTA, 0.016),
    ),
    ChipSpec("v100-32gb", _V100_FLOPS, rate_from(_VOLTA, 0.9), rate_from(_VOLTA, 0.15), rate_from(_VOLTA, 0.016)),
    ChipSpec(
        "t4",
        rates_from(_T4, {"f16": 65, "f32": 8.1, "s8": 130, "s4": 260}),
        rate_from(_T4, 0.32),
        None,
        rate_from(_T4, 0.016),
    ),
    ChipSpec(
        "l4",
        products(_L4, 121, f8=242.5, s8=242.5, tf32=60, f32=30.3),
        rate_from(_L4, 0.3),
        None,
        rate_from(_L4, 0.032),
    ),
    ChipSpec(
        "a6000",
        products(_GA102, 154.8, s8=309.7, s4=619.3, tf32=77.4, f32=38.7),
        rate_from(_xla("a6000"), 0.768096),
        rate_from(_GA102, 0.05625),
        rate_from(_GA102, 0.032),
    ),
    ChipSpec(
        "a100-40gb",
        _A100_FLOPS,
        rate_from(_xla("a100_sxm_40"), 1.5552),
        rate_from(_A100, 0.3),
        rate_from(_A100, 0.032),
    ),
    ChipSpec(
        "a100-80gb",
        _A100_FLOPS,
        rate_from(_xla("a100_sxm_80"), 2.03904),
        rate_from(_A100, 0.3),
        rate_from(_A100, 0.032),
    ),
    ChipSpec(
        "a100-pcie-80gb",
        _A100_FLOPS,
        rate_from(_xla("a100_pcie_80"), 2.039),
        rate_from(_A100, 0.3),
        rate_from(_A100, 0.032),
    ),
    ChipSpec(
        "h100",
        _HOPPER,
        rate_from(_xla("h100_sxm"), 3.35232),
        rate_from(_H100, 0.45),
        rate_from(_H100, 0.064),
        _FASTER,
    ),
    ChipSpec(
        "h100-pcie",
        products(_xla("h100_pcie"), 757.2, f8=1514.4, s8=1514.4, tf32=378.6, f32=51.22, f64=51.22),
        rate_from(_xla("h100_pcie"), 2.03904),
        rate_from(_H100, 0.3),
        rate_from(_H100, 0.064),
        _FASTER,
    ),
    ChipSpec(
        "h200",
        _HOPPER,
        rate_from(_xla("h200"), 4.8),
        rate_from(_H200, 0.45),
        rate_from(_H200, 0.064),
        _FASTER,
    ),
    ChipSpec(
        "b200",
        products(_HGX, 2250, f8=4500, f6=4500, f4=9000, s8=4500, tf32=1125, f32=75)
        | rates_from(_xla("b200"), {"f64": 37.22}),
        rate_from(_xla("b200"), 7.67232),
        rate_from(_HGX, 0.9),
        rate_from(_HGX, 0.064),
    ),
    ChipSpec(
        "b300",
        products(_xla("b300"), 2375.6, f8=4751.3, f6=4751.3, s8=4751.3, tf32=1187.8, f32=79.48)
        | rates_from(_HGX, {"f4": 14_000, "f64": 1.3}),
        rate_from(_xla("b300"), 7.936),
        rate_from(_HGX, 0.9),
        rate_from(_HGX, 0.128),
    ),
    ChipSpec(
        "gb200",
        products(_GB200, 2500, f8=5000, f6=5000, f4=10_000, s8=5000, tf32=1250)
        | rates_from(_xla("gb200"), {"f32": 80.24, "f64": 40.12}),
        rate_from(_xla("gb200"), 7.928064),
        rate_from(_GB200, 0.9),
        rate_from(_GB200, 0.45),
        adds_in_switches=True,
    ),
    ChipSpec(
        "gb300",
        products(_GB300, 2500, f8=5000, f6=5000, f4=15_300, tf32=1250, f32=83.4, f64=1.4)
        | rates_from(_xla("gb300"), {"s8": 4814}),
        rate_from(_xla("gb300"), 7.928064),
        rate_from(_GB300, 0.9),
        rate_from(_GB300, 0.45),
        adds_in_switches=True,
    ),
    ChipSpec(
        "rtx6000pro",
        products(_PRO6000, 503.8, f8=1007.6, f6=1007.6, f4=2015.2, s8=1007.6, tf32=251.9, f32=126, f64=1.97),
        rate_from(_xla("rtx6000pro"), 1.792),
        None,
        rate_from(_PRO6000, 0.064),
    ),
    part_of(_MI250, "mi250"),
    part_of(_MI250X, "mi250x"),
    _mi300("mi300x", 5.3),
    _mi300("mi325x", 6),
    _mi350("mi350x", 2306.9, 9227.5, 144.2, 72.1),
    _mi350("mi355x", 2516.6, 10066.3, 157.3, 78.6),
    ChipSpec(
        "gpu-max-1100",
        products(_XE, 355.5, s8=711, tf32=177.7, f32=22.2, f64=22.2),
        rate_from(_xla("pvc"), 1.2288),
    ),
    ChipSpec(
        "arc-b580",
        products(_B580, 116.7, s8=233.5, f32=14.6),
        rate_from(_xla("bmg_g21"), 0.456),
    ),
    ChipSpec("gfx1250", rates_from(_xla("mi450"), {"f32": 39.3}), rate_from(_xla("mi450"), 0.64)),
)
