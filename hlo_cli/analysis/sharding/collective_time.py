"""Time of a collective on GPUs, interpolated in measured times of the same kind.

The tables hold f32 collectives of up to 8 devices of H100 and B200, and up to 72 of GB200 and GB300, in one
NVLink domain. Between measured sizes, the logarithm of the time is linear in that of the bytes; likewise between
group sizes. Below the smallest size, the time is that of the smallest; above the largest, it grows with the bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from math import exp, log
from statistics import median
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import CollectiveTimes
from hlo_cli.ir import opcodes

Series = Mapping[tuple[int, int], CollectiveTimes]
"""Times by number of groups and devices in a group; for a permute, by 0 and the number of pairs."""

_SMALL: Final = 1 << 18
"""Payload bytes below which the latency is nearly all of the time."""
LIKE: Final[Mapping[str, str]] = {opcodes.RAGGED_ALL_TO_ALL: opcodes.ALL_TO_ALL}
"""Kinds that are estimated as another kind."""


def interpolated(series: Series, payload: float, groups: int, devices: int) -> float:
    """The seconds of a collective of so many payload bytes, among `groups` groups of so many devices.

    For a permute, `groups` is 0 and `devices` the number of pairs.

    >>> interpolated({(1, 8): {1024: 1e-5, 4096: 4e-5}}, 2048, 1, 8)
    2e-05
    >>> interpolated({(1, 8): {1024: 1e-5, 4096: 4e-5}}, 8192, 1, 8), interpolated({(1, 8): {1024: 1e-5}}, 1, 1, 8)
    (8e-05, 1e-05)
    """
    sizes = sorted({size for _, size in series})
    at = bisect_left(sizes, devices)
    near = sizes[max(at - 1, 0) : at + 1] if at == len(sizes) or sizes[at] != devices else [devices]
    times = [_along(series[_nearest(series, groups, size)], payload) for size in near]
    if len(near) == 1 or devices >= near[-1]:
        return times[-1]
    return _between(log(devices), log(near[0]), log(near[1]), times[0], times[1])


def smoothed(times: CollectiveTimes) -> CollectiveTimes:
    """Times in which each small size has the median of itself and its neighbors.

    Latency hardly depends on the size; single times of it that are several times as long are artifacts.

    >>> smoothed({1024: 9e-5, 2048: 1e-5, 4096: 1.1e-5, 8192: 8e-5, 16384: 1.2e-5})
    {1024: 1.1e-05, 2048: 1.1e-05, 4096: 1.1e-05, 8192: 1.2e-05, 16384: 1.2e-05}
    """
    sizes, seconds = list(times), list(times.values())
    found = dict(times)
    for at, size in enumerate(sizes):
        if size < _SMALL and 0 < at < len(sizes) - 1:
            found[size] = median(seconds[at - 1 : at + 2])
    if len(sizes) > 2 and sizes[0] < _SMALL:
        found[sizes[0]] = min(seconds[0], median(seconds[:3]))
    return found


def _nearest(series: Series, groups: int, devices: int) -> tuple[int, int]:
    """The measured number of groups of this size that is nearest."""
    known: Iterable[int] = sorted(number for number, size in series if size == devices)
    return min(known, key=lambda number: abs(log(max(number, 1) / max(groups, 1)))), devices


def _along(times: CollectiveTimes, payload: float) -> float:
    sizes = list(times)
    if payload <= sizes[0]:
        return times[sizes[0]]
    if payload >= sizes[-1]:
        return times[sizes[-1]] * payload / sizes[-1]
    at = bisect_left(sizes, payload)
    low, high = sizes[at - 1], sizes[at]
    return _between(log(payload), log(low), log(high), times[low], times[high])


def _between(at: float, low: float, high: float, first: float, last: float) -> float:
    """The value at a place between two others, on a line through their logarithms."""
    part = (at - low) / (high - low)
    return float(f"{exp((1 - part) * log(first) + part * log(last)):.6g}")
