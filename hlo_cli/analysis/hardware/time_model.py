"""Constants of the time model, and the bands around its estimates.

`python tests/fit_time_model.py` fits the constants of matmuls on three quarters of the measured shapes, and prints them
with the quantiles of measured over estimated time on the other quarter, which are the bands.

Other kernels: 27 models that were measured on one MI350X took about 1.2 times the roofline of their kernels, and
2.95 µs for each kernel. Of estimates whose constants were fitted on the other models, 64% were within 25%, and 96%
within a factor of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass

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
