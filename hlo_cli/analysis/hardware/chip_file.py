"""Chip specifications read from a TOML file: new chips, and other rates for known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.source import HloError

_BANDWIDTHS: Final = ("memory", "links", "host")
_MAX_RATE: Final = 1e30
_MAX_CORES: Final = 1_000_000
_KEYS: Final = ("flops", *_BANDWIDTHS, "cores", "source")


def read_throughputs(text: str, source: str = "the given file") -> Mapping[str, ChipSpec]:
    """Reads chip specifications from TOML text; raises HloError if it is invalid.

    Each table `[chip.NAME]` has `flops` (a table of FLOP/s by element type, such as `f32`, `bf16`, `f8`, or `s8`),
    `memory`, `links`, and `host` in bytes per second, `cores` of a GPU, and `source`. Keys that the table of a known
    chip omits keep their known values; for other chips, `memory` is required.

    >>> own = read_throughputs('''
    ... [chip.mine]
    ... flops = { f32 = 1.2e12 }
    ... memory = 50e9
    ... source = "measured"
    ... [chip.h100]
    ... links = 25e9
    ... ''')
    >>> own["mine"].flops_of("bf16"), own["mine"].links
    (Rate(per_second=1200000000000.0, source='measured'), None)
    >>> own["h100"].links.per_second, own["h100"].memory.per_second
    (25000000000.0, 3352320000000.0)
    """
    import tomllib

    try:
        chips = tomllib.loads(text).get("chip", {})
    except tomllib.TOMLDecodeError as error:
        raise HloError(f"{source}: {error}") from error
    if not isinstance(chips, dict):
        raise HloError(f"{source}: expected a [chip.NAME] table")
    read = (_read_chip(name, table, source) for name, table in chips.items())
    return {throughput.chip: throughput for throughput in read}


def _read_chip(name: str, table: object, source: str) -> ChipSpec:
    """Reads the table of one chip."""
    where = f"{source}: [chip.{name}]"
    if not isinstance(table, dict):
        raise HloError(f"{where} must be a table")
    if unknown := set(table) - set(_KEYS):
        keys = f"unknown {'key' if len(unknown) == 1 else 'keys'} {', '.join(sorted(unknown))}"
        raise HloError(f"{where}: {keys}; expected flops, memory, links, host, cores, or source")
    origin = str(table.get("source", source))
    flops = table.get("flops", {})
    if not isinstance(flops, dict):
        raise HloError(f"{where}: flops must be a table by element type, such as flops = {{ bf16 = 197e12 }}")
    rates = {kind: _read_rate(f"flops.{kind}", value, where, origin) for kind, value in flops.items()}
    bandwidths = {key: _read_rate(key, table[key], where, origin) for key in _BANDWIDTHS if key in table}
    cores = _read_cores(table["cores"], where) if "cores" in table else None
    known = _known(name)
    if known is None:
        memory = bandwidths.get("memory") or _read_rate("memory", None, where, origin)
        return ChipSpec(name, rates, memory, bandwidths.get("links"), bandwidths.get("host"), cores=cores or 0)
    return replace(
        known,
        flops={**known.flops, **rates},
        memory=bandwidths.get("memory", known.memory),
        links=bandwidths.get("links", known.links),
        host=bandwidths.get("host", known.host),
        cores=known.cores if cores is None else cores,
        fastest={kind: rate for kind, rate in known.fastest.items() if kind not in rates},
    )


def _known(name: str) -> ChipSpec | None:
    """Returns the specification of a known chip, None for other names."""
    try:
        return find_chip(name).spec
    except HloError:
        return None


def _read_cores(value: object, where: str) -> int:
    """Reads the number of cores of a GPU."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_CORES:
        raise HloError(f"{where}: expected an integer from 1 to {_MAX_CORES} for cores, found {value}")
    return value


def _read_rate(name: str, value: object, where: str, origin: str) -> Rate:
    """Reads a positive number as a rate."""
    if value is None:
        raise HloError(f"{where}: missing {name}", hint=f"add {name} = RATE, in bytes per second")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MAX_RATE:
        raise HloError(f"{where}: expected a number from 1 to 1e30 for {name}, found {value}")
    return Rate(float(value), origin)
