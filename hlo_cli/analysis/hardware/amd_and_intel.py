"""GPUs of AMD and Intel, one row each, with the public source of every number; as in `nvidia.py`."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.hardware.chip import GIB, Chip, gpu, xla_spec
from hlo_cli.analysis.hardware.rates import Published, matmul_rates, rates_from

_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_HIP: Final = "https://github.com/ROCm/hipBLASLt/releases/tag/rocm-7.0.0"
_INTEL: Final = "https://www.intel.com/content/www/us/en/products/sku/"
_MAX1100: Final = f"{_INTEL}232876/intel-data-center-gpu-max-1100/specifications.html"
_B580: Final = f"{_INTEL}241598/intel-arc-b580-graphics/specifications.html"
_XE: Final = (
    "https://www.intel.com/content/www/us/en/docs/oneapi/optimization-guide-gpu/2024-1/intel-xe-gpu-architecture.html"
)


def _mi300(name: str, aliases: str, memory_gib: int, bandwidth: float) -> Chip:
    """Returns the row of a chip of the MI300 series."""
    page = f"{_AMD}mi300/{name}.html"
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
    """Returns the row of a chip of the MI350 series."""
    page = f"{_AMD}mi350/{name}.html"
    flops = matmul_rates(page, bf16, f8=2 * bf16, f6=f4, f4=f4, s8=2 * bf16, f32=f32, f64=f64)
    flops |= rates_from(_HIP, {"tf32": bf16 / 3})  # emulated, by three matmuls
    memory, links, host = (288e9 / GIB, page), (page, 0.5376), (page, 0.064)
    return gpu(name, aliases, memory, usable, flops, bandwidth, links=links, host=host, l2_mib=256, cores=256)


AMD_AND_INTEL_GPUS: Final = (
    gpu(
        "mi250",
        "mi200",
        (64, f"{_AMD}mi200/mi250.html"),
        (67_628_957_696, "mi200"),
        matmul_rates(f"{_AMD}mi200/mi250.html", 362.1, s8=362.1, f32=90.5, f64=90.5),
        (xla_spec("mi200"), 1.6384 * 2),
        l2_mib=8,
        cores=104,
        parts=2,
    ),
    gpu(
        "mi250x",
        "instinct mi250x",
        (64, f"{_AMD}mi200/mi250x.html"),
        (67_628_957_696, "mi200"),
        matmul_rates(f"{_AMD}mi200/mi250x.html", 383, s8=383, f32=95.7, f64=95.7),
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
    _mi350("mi355x", "mi355", None, (f"{_AMD}mi350/mi355x.html", 8), 2516.6, f4=10066.3, f32=157.3, f64=78.6),
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
