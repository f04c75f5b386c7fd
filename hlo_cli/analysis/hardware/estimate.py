"""An estimated time with the band that most measured times are in, and the source of the estimate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final, Literal

from hlo_cli.dataclass import dataclass

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


def longest(one: Estimate, other: Estimate) -> Estimate:
    """Returns the estimate of two activities of which the longer one counts, with the sources of that.

    >>> longest(Estimate(1.0, 4.0, 5.0), Estimate(2.0, 3.0, 9.0))
    Estimate(low=2.0, seconds=4.0, high=9.0, sources=frozenset())
    """
    longer = one if one.seconds >= other.seconds else other
    low, high = max(one.low, other.low), max(one.high, other.high)
    return Estimate(min(low, longer.seconds), longer.seconds, high, longer.sources, longer.launch_seconds)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Returns the sum of estimates.

    >>> total([]), total([Estimate(1.0, 2.0, 3.0), Estimate(1.0, 1.0, 1.0)]).high
    (Estimate(low=0.0, seconds=0.0, high=0.0, sources=frozenset()), 4.0)
    """
    low = seconds = high = launch = 0.0
    sources: set[EstimateSource] = set()
    for each in estimates:
        low += each.low
        seconds += each.seconds
        high += each.high
        launch += each.launch_seconds
        sources |= each.sources
    return Estimate(low, seconds, high, frozenset(sources), launch)
