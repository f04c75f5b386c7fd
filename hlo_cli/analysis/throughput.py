"""How much known chips can calculate and move in a second, with the public source of every number.

All numbers are of one device as XLA counts them, as in `chips.py`: one core of TPU v2, v3 and 7x, one die of an AMD
MI250, else a whole chip. Flops are peaks of dense products, without sparsity; links count one direction, all together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.chips import find_chip
from hlo_cli.source import HloError

_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_NVIDIA: Final = "https://www.nvidia.com/en-us/data-center/"
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_TRAINING: Final = "https://doi.org/10.1145/3360307"  # a domain-specific supercomputer for training: TPU v2 and v3

_NARROW: Final = ("bf16", "f16", "f32")
_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", *_NARROW),
    "f6": ("f6", "f8", *_NARROW),
    "f8": ("f8", *_NARROW),
    "f16": ("f16", "bf16", "f32"),
    "bf16": ("bf16", "f32"),
    "f64": ("f64", "f32", "bf16"),
    "c128": ("f64", "f32", "bf16"),
    "s2": ("s4", "s8", *_NARROW),
    "s4": ("s4", "s8", *_NARROW),
    "s8": ("s8", *_NARROW),
}


@dataclass(frozen=True, slots=True)
class Rate:
    """Flops or bytes a second, and where the number is published."""

    per_second: float
    source: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a chip can do in a second: flops by element type, bytes of its main memory, bytes over its links."""

    chip: str
    flops: Mapping[str, Rate]
    memory: Rate
    links: Rate | None = None

    def flops_of(self, element_type: str) -> Rate | None:
        """The peak for products of this type, or of the type that the chip multiplies instead; None if there is none.

        TPUs multiply f32 as bf16 unless more precision is asked for.

        >>> v5e, h100 = throughput_of("v5e"), throughput_of("h100")
        >>> v5e.flops_of("f32").per_second == v5e.flops_of("f8e5m2").per_second == 197e12
        True
        >>> h100.flops_of("f8e4m3fn").per_second, h100.flops_of("u8").per_second, h100.flops_of("c64").per_second
        (1979000000000000.0, 1979000000000000.0, 67000000000000.0)
        """
        name = element_type.replace("u", "s") if element_type.startswith("u") else element_type
        name = name[:2] if name[:2] in ("f4", "f6", "f8") else name
        return next((self.flops[n] for n in _INSTEAD.get(name, ("f32", "bf16")) if n in self.flops), None)


def throughput_of(chip: str, own: Mapping[str, Throughput] | None = None) -> Throughput:
    """The throughput of a chip, however its name is written; `own` goes before what is known here.

    >>> throughput_of("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    name = find_chip(chip).name
    return own[name] if own and name in own else THROUGHPUTS[name]


def read_throughputs(text: str, source: str = "the given file") -> Mapping[str, Throughput]:
    """Chips of one's own, or better numbers for known ones, as TOML; HloError for what cannot be read.

    A table `[chip.NAME]` for each, with `flops`, a table of flops a second by element type (`f32`, `bf16`, `f8`, `s8`
    …), `memory` and perhaps `links` in bytes a second, and perhaps `source`.

    >>> own = read_throughputs('''
    ... [chip.mine]
    ... flops = { f32 = 1.2e12 }
    ... memory = 50e9
    ... source = "measured"
    ... ''')
    >>> throughput_of("mine", own).flops_of("bf16")
    Rate(per_second=1200000000000.0, source='measured')
    """
    import tomllib

    try:
        chips = tomllib.loads(text).get("chip", {})
    except tomllib.TOMLDecodeError as error:
        raise HloError(f"{source}: {error}") from error
    if not isinstance(chips, dict):
        raise HloError(f"{source}: expected tables such as [chip.mine]")
    return {name: _read_chip(name, table, source) for name, table in chips.items()}


def _read_chip(name: str, table: object, source: str) -> Throughput:
    where = f"{source}: [chip.{name}]"
    if not isinstance(table, dict):
        raise HloError(f"{where} is no table")
    if unknown := set(table) - {"flops", "memory", "links", "source"}:
        raise HloError(f"{where} has {', '.join(sorted(unknown))}, expected flops, memory, links and source")
    told = str(table.get("source", source))
    flops = table.get("flops", {})
    if not isinstance(flops, dict):
        raise HloError(f"{where} has no table of flops by element type, such as flops = {{ bf16 = 197e12 }}")
    rates = {kind: _read_rate(f"flops.{kind}", value, where, told) for kind, value in flops.items()}
    links = _read_rate("links", table["links"], where, told) if "links" in table else None
    return Throughput(name, rates, _read_rate("memory", table.get("memory"), where, told), links)


def _read_rate(name: str, value: object, where: str, told: str) -> Rate:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise HloError(f"{where}: expected a number above 0 for {name}, found {value}")
    return Rate(float(value), told)


def _chip(  # one row of the tables below; rates in units of 10^12
    name: str,
    page: str,
    flops: Mapping[str, float],
    memory: float,
    links: float | None,
    *,
    cores: int = 1,
    wires: str = "",
) -> Throughput:
    rates = {kind: Rate(value * 1e12 / cores, page) for kind, value in flops.items()}
    linked = Rate(links * 1e12 / cores, wires or page) if links is not None else None
    return Throughput(name, MappingProxyType(rates), Rate(memory * 1e12 / cores, page), linked)


def _bf16_and_f16(both: float, **others: float) -> dict[str, float]:
    return {"bf16": both, "f16": both, **others}


_HOPPER: Final = _bf16_and_f16(989.5, f8=1979, s8=1979, f32=67, f64=67)
_CDNA3: Final = _bf16_and_f16(1307.4, f8=2614.9, s8=2614.9, f32=163.4, f64=163.4)

THROUGHPUTS: Final[Mapping[str, Throughput]] = MappingProxyType(
    {
        throughput.chip: throughput
        for throughput in (
            _chip("v2", f"{_CLOUD}v2", {"bf16": 45}, 0.7, 0.248, cores=2, wires=_TRAINING),
            _chip("v3", f"{_CLOUD}v3", {"bf16": 123}, 0.9, 0.328, cores=2, wires=_TRAINING),
            _chip("v4", f"{_CLOUD}v4", {"bf16": 275, "s8": 275}, 1.2, 0.3),
            _chip("v4-core", f"{_CLOUD}v4", {"bf16": 275, "s8": 275}, 1.2, 0.3, cores=2),
            _chip("v5e", f"{_CLOUD}v5e", {"bf16": 197, "s8": 393}, 0.819, 0.2),
            _chip("v5p", f"{_CLOUD}v5p", {"bf16": 459, "s8": 918, "f8": 459}, 2.765, 0.6),
            _chip("v6e", f"{_CLOUD}v6e", {"bf16": 918, "s8": 1836, "f8": 918}, 1.638, 0.4),
            _chip("7x", f"{_CLOUD}tpu7x", {"bf16": 2307, "f8": 4614}, 7.38, 0.6, cores=2),
            _chip("v100-16gb", f"{_NVIDIA}v100/", {"f16": 125, "f32": 15.7, "f64": 7.8}, 0.9, 0.15),
            _chip("v100-32gb", f"{_NVIDIA}v100/", {"f16": 125, "f32": 15.7, "f64": 7.8}, 0.9, 0.15),
            _chip("t4", f"{_NVIDIA}tesla-t4/", {"f16": 65, "f32": 8.1, "s8": 130, "s4": 260}, 0.32, 0.016),
            _chip("l4", f"{_NVIDIA}l4/", _bf16_and_f16(121, f8=242.5, s8=242.5, f32=30.3), 0.3, 0.032),
            _chip("a100-40gb", f"{_NVIDIA}a100/", _bf16_and_f16(312, s8=624, f32=19.5, f64=19.5), 1.555, 0.3),
            _chip("a100-80gb", f"{_NVIDIA}a100/", _bf16_and_f16(312, s8=624, f32=19.5, f64=19.5), 2.039, 0.3),
            _chip("h100", f"{_NVIDIA}h100/", _HOPPER, 3.35, 0.45),
            _chip("h200", f"{_NVIDIA}h200/", _HOPPER, 4.8, 0.45),
            _chip("b200", f"{_NVIDIA}hgx/", _bf16_and_f16(2250, f8=4500, f4=9000, s8=4500, f32=75, f64=37), 8, 0.9),
            _chip("b300", f"{_NVIDIA}hgx/", _bf16_and_f16(2250, f8=4500, f4=13500, f32=75, f64=1.25), 8, 0.9),
            _chip("mi250", f"{_AMD}mi200/mi250x.html", _bf16_and_f16(383, f32=95.7, f64=95.7), 3.2768, None, cores=2),
            _chip("mi300x", f"{_AMD}mi300/mi300x.html", _CDNA3, 5.3, 0.448),
            _chip("mi325x", f"{_AMD}mi300/mi325x.html", _CDNA3, 6, 0.448),
            _chip("mi350x", f"{_AMD}mi350/mi350x.html", _bf16_and_f16(2307, f8=4614, f4=9228, f32=144.2), 8, 0.5376),
        )
    }
)
"""What every chip of `CHIPS` can do."""
