"""How far are measured times from peak rates? Times of matmuls and collectives, the constants of the time model, and
estimates that carry the band that most measured times are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass

# --- measured times of matmuls and collectives ---
# From XLA's tables; `tests/make_time_tables.py` made the files.
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
    head, *lines = _rows_of_table("matmul_times.csv")
    columns = [(chip, kind) for chip, _, kind in (name.partition(" ") for name in head[4:])]
    times: dict[tuple[str, str], dict[tuple[int, int, int, int], float]] = {column: {} for column in columns}
    for batch, m, n, k, *cells in lines:
        for column, cell in zip(columns, cells, strict=True):
            if cell:
                # The tables are in microseconds, as XLA's are.
                times[column][int(batch), int(m), int(n), int(k)] = float(cell) / 1e6
    return times


@cache
def collective_times() -> Mapping[tuple[str, str], Mapping[tuple[int, int], CollectiveTimes]]:
    """Returns the measured times of f32 collectives by chip and opcode, then by groups and devices in a group.

    For a collective-permute, these are 0 and the number of pairs. Devices are in one host or NVLink domain.

    >>> times = collective_times()["h100", "all-gather"]
    >>> sorted(times), f"{times[1, 8][1 << 20]:.2e}"
    ([(1, 8), (2, 4), (4, 2)], '3.11e-05')
    """
    times_by_kind: dict[tuple[str, str], dict[tuple[int, int], CollectiveTimes]] = {}
    for chip, opcode, groups, devices, pairs in _rows_of_table("collective_times.csv")[1:]:
        times = (pair.split(":") for pair in pairs.split())
        key = (0 if groups == "pairs" else int(groups), int(devices))
        times_by_kind.setdefault((chip, opcode), {})[key] = {int(size): float(time) / 1e6 for size, time in times}
    return times_by_kind


def _rows_of_table(name: str) -> list[list[str]]:
    # Only matmuls and collectives of measured chips need the tables.
    from importlib.resources import files  # slow to import

    text = (files("hlo_cli.analysis.hardware") / name).read_text("utf-8")
    return [line.split(",") for line in text.splitlines()]


# --- constants of the time model ---
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
