"""How far are measured times from peak rates: the constants of the time model, and estimates with a band?

The band of an estimate holds most measured times. Measured times themselves are in `measured_times.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final, Literal

from hlo_cli.dataclass import dataclass

# --- constants of the time model ---
# `python tests/fit_time_model.py` prints the bands of collectives and of matmuls.
#
# Other kernels: 27 models that were measured on one MI350X took about 1.2 times the roofline of their kernels, and
# 2.95 µs for each kernel. Of estimates whose constants were fitted on the other models, 64% were within 25%, and 96%
# within a factor of 2.


Band = tuple[float, float]
"""Lower and upper end relative to an estimate: the 10% and 90% quantile of measured over estimated time."""

SHAPE_BAND: Final[Band] = (0.77, 1.40)
"""The band of the model of matmuls alone: of H100, B200, and MI350X, fitted on two and judged on the third."""

KERNEL_SLOWDOWN: Final = 1.2
"""Measured time of kernels on a GPU over their roofline, launches aside."""
LAUNCH_SECONDS: Final = 2.95e-6
"""What each kernel on a GPU takes in addition to its work."""
KERNEL_BAND: Final[Band] = (0.7, 1.45)
"""The band of kernels on a GPU: with 64% within 25% and 96% within a factor of 2, about 80% are within it."""
CONVOLUTION_FACTORS: Final[Mapping[str, tuple[float, Band]]] = MappingProxyType(
    {
        "forward": (1.7, (0.59, 1.9)),
        "grouped": (3.2, (0.53, 1.9)),
        "backward data": (3.2, (0.53, 1.9)),
        "backward filter": (3.2, (0.53, 1.9)),
        "depthwise": (6.0, (0.53, 1.5)),
    }
)
"""Times of convolutions over those of the equivalent matmuls, with the band, on GPUs of AMD.

In whole models on one MI350X, convolutions took 1.7 to 6 times what their flops would at the rate of matmuls: least in
inference, most in training and depthwise. What is between is the geometric mean of both ends; each band reaches to the
neighbor below and above.
"""
UNMEASURED_CONVOLUTIONS: Final[Band] = (0.77, 3.2)
"""The band of convolutions elsewhere, where none were measured: from that of matmuls to what training took there."""
ATTENTION_BAND: Final[Band] = (0.77, 2.0)
"""The band of attention in a library: from that of its matmuls to twice that, since softmax may not overlap them."""
LONG_LOOP: Final = 100  # executions; chosen: after so many, the host is ahead of the device
LOOP_LAUNCH_SECONDS: Final = 2.1e-6
"""What each kernel of a long loop takes in addition to its work: 1.8 to 2.4 µs in models on one MI350X."""
TPU_BAND: Final[Band] = (1.0, 1.92)
"""The band of kernels on a TPU around the roofline: from it to what the one measured program took, on v5p."""
# The following are from profiles of v5p in public, by XProf's categories.
TPU_FLOOR_SECONDS: Final = 1.2e-6
"""What every operation of a TPU takes at least."""
TPU_MATMUL_FACTOR: Final = 1.24
"""Measured time of matmuls and convolutions with what is fused into them, over their roofline: 1.08 to 1.42."""
TPU_MATMUL_MOST: Final = 1.42
"""The upper end of that."""
TPU_VMEM_RATE: Final = 22.0
"""The rate of VMEM over that of HBM on v5e: https://jax-ml.github.io/scaling-book/roofline/; others have no source.

What a kernel does with values in VMEM may take longer than to read them, so that its band ends at the rate of HBM:
cycles that libtpu 0.0.52 writes for such kernels are between a seventh and seven times of that.
"""
TPU_TOUCHED_FACTOR: Final = 2.1
"""Measured time of updates of parts of tiles over that of reading and writing the whole tiles: 2.0, 2.0, and 2.3."""
TPU_TOUCHED_BAND: Final[Band] = (0.8, 1.3)
"""The band of that; three updates of one program are no distribution, so it is wider than they are."""

COLLECTIVE_BANDS: Final[Mapping[str, tuple[Band, Band]]] = MappingProxyType(
    {
        "b200": ((0.82, 1.14), (0.76, 1.57)),
        "gb200": ((0.87, 1.04), (0.94, 1.09)),
        "gb300": ((0.85, 1.03), (0.93, 1.08)),
        "h100": ((0.83, 1.12), (0.61, 1.86)),
        "mi350x": ((0.91, 1.01), (0.86, 1.16)),
    }
)
"""Bands of collectives between measured ones by measured chip: of 1 MiB or more, and of less.

Quantiles of measured over interpolated time, if each size is left out of the table in turn.
"""
OTHER_COLLECTIVE_BANDS: Final[tuple[Band, Band]] = ((0.83, 2.02), (0.53, 3.38))
"""Bands of collectives estimated from another chip with other links: H100 judged on all others, MI350X among them."""
LINKS_BAND: Final[Band] = (1.0, 2.3)
"""The band of bytes over links without latency, on TPUs: to the 90% quantile of GPUs from 128 MiB on."""

TF32_ON_REQUEST: Final = frozenset(("mi300x", "mi325x", "mi350x", "mi355x"))
"""Chips on which XLA multiplies f32 in f32: `GetBlasComputationType` of gpu_blas_lt.cc selects TF32 on CUDA only."""


# --- estimates with a band ---


EstimateSource = Literal[
    "table", "shape model", "launch floor", "roofline", "XLA model", "links", "convolution", "calibration"
]
"""Measured times, interpolated; a model of the shape, fitted to measured times; the minimum time of a kernel that the
host launches; peak rates with the share that is usually reached; XLA's own model of kernels that it generates for GPUs;
bytes over links with a share that is usually reached; matmuls with the factor that convolutions take;
what kernels of the same class took in a trace.
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


def longest(first: Estimate, second: Estimate) -> Estimate:
    """Returns the estimate of two activities of which the longer one counts, with the sources of that.

    >>> longest(Estimate(1.0, 4.0, 5.0), Estimate(2.0, 3.0, 9.0))
    Estimate(low=2.0, seconds=4.0, high=9.0, sources=frozenset())
    """
    longer = first if first.seconds >= second.seconds else second
    # The longer of two cannot be shorter than the lower end of either, nor longer than both upper ends.
    low, high = max(first.low, second.low), max(first.high, second.high)
    return Estimate(min(low, longer.seconds), longer.seconds, high, longer.sources, longer.launch_seconds)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Returns the sum of estimates.

    >>> total([]), total([Estimate(1.0, 2.0, 3.0), Estimate(1.0, 1.0, 1.0)]).high
    (Estimate(low=0.0, seconds=0.0, high=0.0, sources=frozenset()), 4.0)
    """
    low = seconds = high = launch = 0.0
    sources: set[EstimateSource] = set()
    for estimate in estimates:
        low += estimate.low
        seconds += estimate.seconds
        high += estimate.high
        launch += estimate.launch_seconds
        sources |= estimate.sources
    return Estimate(low, seconds, high, frozenset(sources), launch)
