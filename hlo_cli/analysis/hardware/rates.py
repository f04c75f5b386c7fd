"""Peak rates of a chip, and the rate that applies to matmuls of an element type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass

Published: TypeAlias = tuple[str, float]
"""Source of a rate, and the rate in units of 10¹² per second."""

_NARROW: Final = ("bf16", "f16", "f32")
_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", *_NARROW),
    "f6": ("f6", "f8", *_NARROW),
    "f8": ("f8", *_NARROW),
    "f16": ("f16", "bf16", "f32"),
    "bf16": ("bf16", "f32"),
    "tf32": ("tf32", "f32", "bf16"),
    "f64": ("f64", "f32", "bf16"),
    "c128": ("f64", "f32", "bf16"),
    "s2": ("s4", "s8", *_NARROW),
    "s4": ("s4", "s8", *_NARROW),
    "s8": ("s8", *_NARROW),
    "f32 high": ("tf32", "f32", "bf16 x3"),
    "f32 highest": ("f32", "bf16 x6"),
}
"""Types in which a chip multiplies, in order of preference; `x3` takes three matmuls of that type for one."""


@dataclass(frozen=True, slots=True)
class Rate:
    """FLOP/s or bytes per second, and the public source of the number."""

    per_second: float
    source: str


@dataclass(frozen=True, slots=True)
class ChipSpec:
    """Peak rates of a chip: FLOP/s by element type, and bytes per second of main memory, links, and host connection.

    Unpublished rates are None. `fastest` are measured matmul rates above the peak. `cache_bytes` is the size of
    caches or scratch memory in addition to main memory. If `adds_in_switches`, switches reduce, so that each byte of an
    all-reduce leaves a device once. `cores` are those of a GPU
    that matmuls share: streaming multiprocessors or compute units; 0 for other chips.
    """

    chip: str
    flops: Mapping[str, Rate]
    memory: Rate
    links: Rate | None = None
    host: Rate | None = None
    fastest: Mapping[str, Rate] = field(default_factory=dict)
    cache_bytes: int = 0
    adds_in_switches: bool = False
    cores: int = 0

    def flops_of(self, element_type: str) -> Rate | None:
        """Returns the peak for matmuls of a type, or of the type that the chip uses instead; None if there is none.

        TPUs multiply f32 as bf16 unless a higher precision is requested. `tf32`, `f32 high`, `f32 highest`, and `bf16
        x3` are f32 matmuls with higher precision, as returned by `matmul_type`.

        >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
        >>> v5e, h100 = chip_spec("v5e"), chip_spec("h100")
        >>> v5e.flops_of("f32").per_second == v5e.flops_of("f8e5m2").per_second == 197e12
        True
        >>> h100.flops_of("f8e4m3fn").per_second, h100.flops_of("u8").per_second, h100.flops_of("c64").per_second
        (1978900000000000.0, 1978900000000000.0, 66900000000000.0)
        >>> h100.flops_of("f64").per_second
        66900000000000.0
        >>> h100.flops_of("tf32").per_second, 197e12 / v5e.flops_of("f32 highest").per_second
        (494700000000000.0, 6.0)
        """
        return _of(self.flops, element_type)

    def at_most(self, element_type: str) -> Rate | None:
        """Returns the upper bound of the rate: the peak, or the measured rate if that is higher."""
        peak, seen = self.flops_of(element_type), self.fastest.get(_plain(element_type))
        return peak if peak is None or seen is None or seen.per_second <= peak.per_second else seen


def _of(flops: Mapping[str, Rate], element_type: str) -> Rate | None:
    """Returns the rate of a type or of its substitute."""
    name, _, times = _plain(element_type).partition(" x")
    if times and name in flops:
        return Rate(flops[name].per_second / int(times), flops[name].source)
    for each in _INSTEAD.get(name, ("f32", "bf16")):
        kind, _, several = each.partition(" x")
        if kind in flops:
            return _of(flops, each) if several else flops[kind]
    return None


def _plain(element_type: str) -> str:
    """Returns the type as a key of the rates: all 8-bit floats are one, signed and unsigned integers are one."""
    name = element_type.replace("u", "s", 1) if element_type.startswith("u") else element_type
    return name[:2] if name[:3] in ("f4e", "f6e", "f8e") else name


def rates_from(source: str, numbers: Mapping[str, float]) -> dict[str, Rate]:
    """Returns rates of one source; numbers are in units of 10¹² per second."""
    return {kind: rate_from(source, number) for kind, number in numbers.items()}


def rate_from(source: str, number: float) -> Rate:
    """Returns one rate; the number is in units of 10¹² per second.

    >>> rate_from("a page", 0.819)
    Rate(per_second=819000000000.0, source='a page')
    """
    return Rate(float(round(number * 1e12)), source)


def spec_from(
    flops: Mapping[str, Rate], memory: Published, links: Published | None = None, host: Published | None = None
) -> ChipSpec:
    """Returns peak rates without a chip name, which the caller adds."""
    links_rate, host_rate = (None if each is None else rate_from(*each) for each in (links, host))
    return ChipSpec("", flops, rate_from(*memory), links_rate, host_rate)


def matmul_rates(source: str, both: float, **others: float) -> dict[str, Rate]:
    """Returns matmul rates of one source; `both` is the rate of bf16 and f16."""
    return rates_from(source, {"bf16": both, "f16": both, **others})


def part_of(whole: ChipSpec, parts: int = 2) -> ChipSpec:
    """Returns the specification of one of the devices of a chip; each has an equal part of every rate."""

    def share(rate: Rate | None) -> Rate | None:
        """Returns the part of a rate that one device has."""
        return None if rate is None else Rate(rate.per_second / parts, rate.source)

    flops = {kind: Rate(rate.per_second / parts, rate.source) for kind, rate in whole.flops.items()}
    memory = Rate(whole.memory.per_second / parts, whole.memory.source)
    return ChipSpec(whole.chip, flops, memory, share(whole.links), share(whole.host))
