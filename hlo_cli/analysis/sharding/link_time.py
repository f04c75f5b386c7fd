"""Duration of a collective on a chip, with a band.

On GPUs in one host or NVLink domain, all links of a device reach all others through switches. Times of H100, B200,
GB200, and GB300 were measured (see `interpolated`). Other GPUs are estimated as an H100 with other links.

A TPU has a pair of links in each dimension of its torus, and a ring along one axis uses those of one dimension. Which
dimension that is, or whether the ring is closed, is not in a dump. No latency is published.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import (
    COLLECTIVE_BANDS,
    LINKS_BAND,
    LINKS_MEASURED_AS,
    NO_TIME,
    OTHER_COLLECTIVE_BANDS,
    Estimate,
    around,
    chip_spec,
    collective_times,
)
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.sharding.collective_time import LIKE, Series, interpolated, smoothed
from hlo_cli.analysis.sharding.collectives import Collective
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

_SMALL: Final = 1 << 20
"""Payload bytes below which latency dominates."""
_REFERENCE: Final = "h100"
"""The measured chip that stands for GPUs that were not measured."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """Seconds of one run: at least, over all links of a device, and as estimated, with a band.

    `has_latency` is whether the estimate includes a latency; `links_share` is the share of the links that it uses.
    """

    at_least_seconds: float
    estimate: Estimate
    has_latency: bool
    links_share: float = 1.0

    @property
    def seconds(self) -> float:
        """The estimate without its band."""
        return self.estimate.seconds


def collective_time(collective: Collective, chip: ChipSpec) -> CollectiveTime | None:
    """The duration of one run; None if its groups or the bandwidth of the links are unknown.

    >>> from hlo_cli import chip_spec, collectives_of, parse_module
    >>> text = "r = f32[1048576] all-gather(f32[131072] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = collectives_of(parse_module(text))
    >>> [f"{collective_time(found, chip_spec(chip)).seconds * 1e6:.1f} µs" for chip in ("h100", "v5e", "v5p")]
    ['47.1 µs', '36.7 µs', '18.4 µs']
    """
    sent = collective.wire_bytes
    if sent is None or chip.links is None:
        return None
    at_least = (
        float(min(sent, _through_switches(collective)) if chip.adds_in_switches else sent) / chip.links.per_second
    )
    if not sent:
        return CollectiveTime(0.0, NO_TIME, has_latency=True)
    if (found := _like_measured(collective, chip)) is not None:
        return CollectiveTime(at_least, found.at_least(at_least), has_latency=True)
    share = _share_of_links(collective, chip)
    seconds = float(_through_torus(collective, sent)) / (chip.links.per_second * share) if share < 1 else at_least
    estimate = around(max(seconds, at_least), LINKS_BAND, "links").at_least(at_least)
    return CollectiveTime(at_least, estimate, has_latency=False, links_share=share)


def predicted_collective_time(collective: Collective, chip: ChipSpec) -> Estimate | None:
    """The predicted time of one run of a collective with its band; None if groups or bandwidth are unknown.

    >>> from hlo_cli import chip_spec, collectives_of, parse_module
    >>> text = "r = f32[1048576] all-gather(f32[131072] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = collectives_of(parse_module(text))
    >>> estimate = predicted_collective_time(found, chip_spec("h100"))
    >>> estimate.low < estimate.seconds < estimate.high
    True
    """
    found = collective_time(collective, chip)
    return None if found is None else found.estimate


def _like_measured(collective: Collective, chip: ChipSpec) -> Estimate | None:
    """The estimate from measured times, those of the reference if the chip was not measured; None if there are none."""
    measured = LINKS_MEASURED_AS.get(chip.chip)
    kind = LIKE.get(collective.kind, collective.kind)
    series = _series(measured or _REFERENCE, kind)
    payload, devices = collective.payload_bytes, collective.devices
    if not chip.cores or chip.links is None or series is None or payload is None or devices is None:
        return None
    shape = (0, len(collective.pairs)) if collective.pairs else (len(collective.groups or ()), devices)
    if (shape[0] == 0) != (collective.kind == opcodes.COLLECTIVE_PERMUTE):
        return None
    seconds = interpolated(series, payload, *shape)
    links, is_small = _measured_links(measured or _REFERENCE), payload < _SMALL
    if measured is not None and devices <= max(size for _, size in series) and links == chip.links.per_second:
        return around(seconds, COLLECTIVE_BANDS[is_small], "table")
    latency = min(interpolated(series, 1, *shape), seconds)
    scaled = latency + (seconds - latency) * links / chip.links.per_second
    return around(scaled, OTHER_COLLECTIVE_BANDS[is_small], "links")


@cache
def _series(chip: str, kind: str) -> Series | None:
    """The smoothed times of a kind on a measured chip."""
    found = collective_times().get((chip, kind))
    return None if found is None else {shape: smoothed(times) for shape, times in found.items()}


def _measured_links(chip: str) -> float:
    """The bandwidth of the links of a measured chip."""
    links = chip_spec(chip).links
    assert links is not None
    return links.per_second


def is_measured(chip: ChipSpec) -> bool:
    """Whether collectives were measured on links such as those of a chip."""
    return chip.chip in LINKS_MEASURED_AS


def torus_dimensions(chip: ChipSpec) -> int | None:
    """The number of dimensions of the torus of a TPU; None for other chips.

    >>> from hlo_cli import chip_spec
    >>> torus_dimensions(chip_spec("v5p")), torus_dimensions(chip_spec("h100"))
    (3, None)
    """
    return next((each.tpu.torus_dimensions for each in known_chips() if each.tpu and each.name == chip.chip), None)


def _through_switches(collective: Collective) -> Fraction:
    """The bytes that leave a device if switches add."""
    return (
        Fraction(collective.operand_bytes)
        if collective.kind == opcodes.ALL_REDUCE
        else collective.wire_bytes or Fraction(0)
    )


def _share_of_links(collective: Collective, chip: ChipSpec) -> float:
    """The share of the links of a device that lie in the dimensions of its axes, one dimension for each axis."""
    dimensions = torus_dimensions(chip)
    axes = len({axis.name for axis in collective.axes or ()})
    if dimensions is None or not axes:
        return 1.0
    return min(axes, dimensions) / dimensions


def _through_torus(collective: Collective, sent: Fraction) -> Fraction:
    """The bytes of the links that a device has in a ring: both directions of it."""
    if collective.kind == opcodes.COLLECTIVE_PERMUTE:
        return 2 * sent  # data goes one way
    return 2 * (collective.wire("bidirectional") or Fraction(0))
