"""Sums over collectives: bytes by an algorithm, and seconds on a chip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Estimate
    from hlo_cli.analysis.sharding.collectives import Algorithm, Collective, CollectiveTime
    from hlo_cli.ir.module import Module

_Number = TypeVar("_Number", int, float, Fraction, "Estimate")


@dataclass(frozen=True, slots=True)
class Pricing:
    """How bytes and times are computed: the algorithm, and the chip if there is one."""

    algorithm: Algorithm
    chip: ChipSpec | None = None

    def time(self, collective: Collective) -> CollectiveTime | None:
        """The duration of one run; None without a chip, or if it is unknown."""
        if self.chip is None:
            return None
        from hlo_cli.analysis.sharding.collectives import collective_time

        return collective_time(collective, self.chip)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The sums over some collectives in one execution of the module; None if a trip count or a group is unknown.

    `known_wire_bytes` leaves out what is unknown; `run_wire_bytes` counts each collective once.
    """

    sites: int
    async_sites: int
    runs: int | None
    payload_bytes: int | None
    wire_bytes: Fraction | None
    known_wire_bytes: Fraction
    run_wire_bytes: Fraction
    devices: int | None
    estimate: Estimate | None
    at_least_seconds: float | None

    @property
    def seconds(self) -> float | None:
        """The estimated time."""
        return None if self.estimate is None else self.estimate.seconds

    @property
    def times(self) -> tuple[float | None, ...]:
        """The estimated time, the ends of its band, and the lower bound."""
        found = self.estimate
        band = (None, None, None) if found is None else (found.seconds, found.low, found.high)
        return (*band, self.at_least_seconds)

    @property
    def named_times(self) -> Mapping[str, float | None]:
        """The same times with the names of their columns."""
        return dict(zip(("seconds", "low_seconds", "high_seconds", "at_least_seconds"), self.times, strict=True))


def traffic_of(collectives: Iterable[Collective], pricing: Pricing) -> Traffic:
    """The sums over collectives, each with its runs."""
    found = tuple(collectives)
    runs = [each.runs.known for each in found]
    payloads = [each.payload_bytes for each in found]
    wires = [each.wire(pricing.algorithm) for each in found]
    times = [pricing.time(each) for each in found]
    counts = {each.devices for each in found}
    return Traffic(
        sites=len(found),
        async_sites=sum(each.is_async for each in found),
        runs=None if None in runs else sum(each for each in runs if each is not None),
        payload_bytes=_total(payloads, runs),
        wire_bytes=_total(wires, runs),
        known_wire_bytes=sum(
            (w * r for w, r in zip(wires, runs, strict=True) if w is not None and r is not None), Fraction(0)
        ),
        run_wire_bytes=sum((wire for wire in wires if wire is not None), Fraction(0)),
        devices=counts.pop() if len(counts) == 1 else None,
        estimate=_total([None if time is None else time.estimate for time in times], runs),
        at_least_seconds=_total([None if time is None else time.at_least_seconds for time in times], runs),
    )


def _total(values: Sequence[_Number | None], runs: Sequence[int | None]) -> _Number | None:
    """The sum of values times runs; None if any is unknown."""
    total: _Number | None = None
    for value, times in zip(values, runs, strict=True):
        if value is None or times is None:
            return None
        total = value * times if total is None else total + value * times
    return total


def time_remarks(chip: ChipSpec, module: Module) -> Iterator[Diagnostic]:
    """How times are estimated on a chip."""
    from hlo_cli.analysis.sharding.collectives import is_measured, torus_dimensions
    from hlo_cli.commands.options.chips import time_notes

    dimensions = torus_dimensions(chip)
    if chip.links is None:
        words = f"the bandwidth of the links of {chip.chip} is unknown"
    elif is_measured(chip):
        words = "times are interpolated in measured ones of the same kind, in one host or NVLink domain"
    elif dimensions is not None:
        words = (
            f"times are without latency; an axis has the links of 1 of {dimensions} dimensions of the torus, as a ring"
        )
    elif chip.cores:
        words = "times are those of h100, scaled to the bandwidth of the links"
    else:
        words = "times are lower bounds: without latency, over all links"
    yield Diagnostic("note", words)
    yield from time_notes(chip, module)
