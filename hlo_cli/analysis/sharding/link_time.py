"""Duration of a collective: a latency, and its bytes over the links that its axis has.

On GPUs in one host, all links of a device reach all others through switches. Latencies and the share of the links'
bandwidth that is reached are medians of measured collectives (default_collective_perf_table of
xla/service/gpu/model: up to 8 devices of H100, B200, GB200, and B300). Of 1,294, 89% take half to twice the estimate.

A TPU has a pair of links in each dimension of its torus, and a ring along one axis uses those of one dimension. Which
dimension that is, or whether the ring is closed, is not in a dump. No latency is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.estimate import Estimate, around
from hlo_cli.analysis.hardware.rates import ChipSpec
from hlo_cli.analysis.sharding.collectives import Collective
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

_MEASURED: Final = frozenset(("h100", "h200", "b200", "b300", "gb200", "gb300"))
"""Chips whose links are those that were measured."""
_LATENCIES: Final[Mapping[str, float]] = {
    opcodes.ALL_GATHER: 17.8e-6,
    opcodes.ALL_REDUCE: 28.2e-6,
    opcodes.ALL_TO_ALL: 23.0e-6,
    opcodes.COLLECTIVE_PERMUTE: 13.2e-6,
    opcodes.REDUCE_SCATTER: 4.1e-6,
}
"""Seconds of collectives of at most 32 KiB, the medians."""
_SLOWDOWN: Final = 1.48
"""Measured time of collectives of at least 128 MiB over that of their bytes at the bandwidth of the links."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """Seconds of one run: at least, over all links of a device, and as estimated.

    `has_latency` is whether the estimate includes a latency; `links_share` is the share of the links that it uses.
    """

    at_least_seconds: float
    seconds: float
    has_latency: bool
    links_share: float = 1.0


def collective_time(collective: Collective, chip: ChipSpec) -> CollectiveTime | None:
    """The duration of one run; None if its groups or the bandwidth of the links are unknown.

    >>> from hlo_cli import chip_spec, collectives_of, parse_module
    >>> text = "r = f32[1048576] all-gather(f32[131072] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = collectives_of(parse_module(text))
    >>> [f"{collective_time(found, chip_spec(chip)).seconds * 1e6:.1f} µs" for chip in ("h100", "v5e", "v5p")]
    ['29.9 µs', '36.7 µs', '18.4 µs']
    """
    sent = collective.wire_bytes
    if sent is None or chip.links is None:
        return None
    at_least = (
        float(min(sent, _through_switches(collective)) if chip.adds_in_switches else sent) / chip.links.per_second
    )
    if not sent:
        return CollectiveTime(0.0, 0.0, has_latency=True)
    if chip.chip in _MEASURED:
        latency = _LATENCIES.get(collective.kind, 0.0)
        return CollectiveTime(at_least, latency + _SLOWDOWN * at_least, has_latency=latency > 0)
    share = _share_of_links(collective, chip)
    seconds = float(_through_torus(collective, sent)) / (chip.links.per_second * share) if share < 1 else at_least
    return CollectiveTime(at_least, max(seconds, at_least), has_latency=False, links_share=share)


def is_measured(chip: ChipSpec) -> bool:
    """Whether collectives were measured on links such as those of a chip."""
    return chip.chip in _MEASURED


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
    return None if found is None else around(found.seconds, (0.5, 2.0), "links").at_least(found.at_least_seconds)
