"""Which chip is meant, by name, by a file, or by what compilers and profilers write, and what are its peak rates?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Final, NamedTuple

from hlo_cli.analysis.hardware.chip_table import (
    AMD_PAGES,
    GIB,
    LIBTPU_VERSIONS,
    Calibration,
    ChipSpec,
    ClassTime,
    MeasuredTimes,
    Rate,
)
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, expect, wrong_type

# --- peak rates by name ---
# All numbers are per device as XLA counts them, as in `chip_table.py`. FLOP/s are peaks of dense matmuls, not sparse.
# Link rates are the sum of all links in one direction; the rate to the host is in one direction too.


__all__ = ["ChipSpec", "Rate", "chip_spec"]


def chip_spec(chip: str | ChipSpec, own: Mapping[str, ChipSpec] | None = None) -> ChipSpec:
    """Returns the specification of a chip by any of its names; `own` takes precedence over the known ones.

    A specification is returned itself. HloError, with the nearest name, if the chip is unknown.

    >>> chip_spec("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if isinstance(chip, ChipSpec):
        return chip
    if not isinstance(chip, str):
        raise wrong_type("a chip or its name", chip, 'such as "h100"')
    expect(Mapping | None, "a mapping of names to ChipSpecs", own)
    if own and chip in own:
        return own[chip]
    known = find_chip(chip)
    return own[known.name] if own and known.name in own else known.spec


# --- peak rates from a file ---
# Chip specifications read from a TOML file: new chips, and other rates for known ones.


_BANDWIDTHS: Final = ("memory", "links", "host", "network")
_MAX_RATE: Final = 1e30  # far above any chip: catches a unit that was applied twice, and infinity
_MAX_CORES: Final = 1_000_000  # far above any chip: a number beyond is a rate in the wrong place
_KEYS: Final = ("flops", *_BANDWIDTHS, "cores", "domain", "tables", "seconds_per_kernel", "classes", "source")


def read_throughputs(
    text: str, source: str = "the given file", tables: Callable[[str, Sequence[str]], MeasuredTimes] | None = None
) -> Mapping[str, ChipSpec]:
    """Reads chip specifications from TOML text; raises HloError if it is invalid.

    `tables` reads measured times of a chip from the files that the text names.

    Each table `[chip.NAME]` has `flops` (a table of FLOP/s by element type, such as `f32`, `bf16`, `f8`, or `s8`),
    `memory`, `links`, `host`, and `network` in bytes per second, `cores` of a GPU, `domain` (the devices that links
    connect), `tables`, and `source`. Keys that the table of a known chip omits keep their known values; for other
    chips, `memory` is required. `seconds_per_kernel` and the tables `[chip.NAME.classes.CLASS]` are what
    `hlo profile --calibrate` writes.

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
    read = (_read_chip(name, table, source, tables) for name, table in chips.items())
    return {throughput.chip: throughput for throughput in read}


def _read_chip(
    name: str, table: object, source: str, tables: Callable[[str, Sequence[str]], MeasuredTimes] | None
) -> ChipSpec:
    """Reads the table of one chip."""
    where = f"{source}: [chip.{name}]"
    if not isinstance(table, dict):
        raise HloError(f"{where} must be a table")
    if unknown := set(table) - set(_KEYS):
        keys = f"unknown {'key' if len(unknown) == 1 else 'keys'} {', '.join(sorted(unknown))}"
        raise HloError(f"{where}: {keys}; expected {', '.join(_KEYS[:-1])}, or {_KEYS[-1]}")
    origin = str(table.get("source", source))
    flops = table.get("flops", {})
    if not isinstance(flops, dict):
        raise HloError(f"{where}: flops must be a table by element type, such as flops = {{ bf16 = 197e12 }}")
    # A rate keeps the file as its source, so that screens do not show the vendor's page for it.
    rates = {kind: _read_rate(f"flops.{kind}", value, where, origin) for kind, value in flops.items()}
    bandwidths = {key: _read_rate(key, table[key], where, origin) for key in _BANDWIDTHS if key in table}
    cores = _read_count("cores", table["cores"], where) if "cores" in table else None
    domain = _read_count("domain", table["domain"], where) if "domain" in table else 0
    known = _known_spec(name)
    files = _read_files(table["tables"], where) if "tables" in table else ()
    measured = tables(name, files) if tables is not None and files else None
    calibration = _read_calibration(table, where, origin) if "classes" in table else None
    if known is None:
        memory = bandwidths.get("memory") or _read_rate("memory", None, where, origin)
        others = bandwidths.get("links"), bandwidths.get("host")
        own = ChipSpec(name, rates, memory, *others, cores=cores or 0)
        known = replace(own, domain=domain, network=bandwidths.get("network"))
        return replace(known, measured=measured, calibration=calibration)
    return replace(
        known,
        flops={**known.flops, **rates},
        memory=bandwidths.get("memory", known.memory),
        links=bandwidths.get("links", known.links),
        host=bandwidths.get("host", known.host),
        cores=known.cores if cores is None else cores,
        # A measured rate above the peak refers to the peak that it exceeds; a rate of the user ends that.
        fastest={kind: rate for kind, rate in known.fastest.items() if kind not in rates},
        measured=measured,
        calibration=calibration,
        domain=domain,
        network=bandwidths.get("network"),
    )


_CLASS_KEYS: Final = {"kernels": 0.0, "seconds": 0.0, "factor": 0.0, "low": 0.0, "high": 1.0}
"""The keys of a class, and their least values: a range begins below its estimate, and ends above it."""


def _read_calibration(table: Mapping[str, object], where: str, origin: str) -> Calibration:
    """Reads the measured times of classes of kernels."""
    classes = table["classes"]
    if not isinstance(classes, dict) or not all(isinstance(each, dict) for each in classes.values()):
        raise HloError(f"{where}: classes must be tables, such as [chip.NAME.classes.matmul]")
    seconds = _read_number(table.get("seconds_per_kernel", 0), "seconds_per_kernel", where, 0.0)
    return Calibration({name: _read_class(name, each, where) for name, each in classes.items()}, seconds, origin)


def _read_class(name: str, table: Mapping[str, object], where: str) -> ClassTime:
    """Reads the times of one class."""
    place = f"{where}: class {name}"
    if unknown := set(table) - set(_CLASS_KEYS):
        raise HloError(f"{place}: unknown key {min(unknown)}; expected {', '.join(_CLASS_KEYS)}")
    if "factor" not in table:
        raise HloError(f"{place}: missing factor", hint="run `hlo profile TRACE --calibrate` to measure it")
    defaults = {"kernels": 0, "seconds": 0, "low": 0.5, "high": 2}
    read = {key: _read_number(table.get(key, defaults.get(key)), key, place, low) for key, low in _CLASS_KEYS.items()}
    if read["low"] > 1:
        raise HloError(f"{place}: expected a number from 0 to 1 for low, found {read['low']:g}")
    return ClassTime(int(read["kernels"]), read["seconds"], read["factor"], read["low"], read["high"])


def _read_number(value: object, name: str, where: str, least: float) -> float:
    """Reads a number that is not below a limit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _MAX_RATE:
        raise HloError(f"{where}: expected a number from {least:g} to 1e30 for {name}, found {value}")
    return float(value)


def _read_files(value: object, where: str) -> tuple[str, ...]:
    """Reads the names of files of measured times: one, or a list."""
    names = tuple(value) if isinstance(value, list) else (value,)
    if not all(isinstance(name, str) and name for name in names):
        raise HloError(f"{where}: expected a file name, or a list of them, for tables, found {value}")
    return tuple(map(str, names))


def _known_spec(name: str) -> ChipSpec | None:
    """Returns the specification of a known chip, None for other names."""
    try:
        return find_chip(name).spec
    except HloError:
        return None


def _read_count(name: str, value: object, where: str) -> int:
    """Reads the number of cores of a GPU, or of devices that links connect."""
    # TOML has booleans of their own, which are integers in Python.
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_CORES:
        raise HloError(f"{where}: expected an integer from 1 to {_MAX_CORES} for {name}, found {value}")
    return value


def _read_rate(name: str, value: object, where: str, origin: str) -> Rate:
    """Reads a positive number as a rate."""
    if value is None:
        raise HloError(f"{where}: missing {name}", hint=f"add {name} = RATE, in bytes per second")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MAX_RATE:
        raise HloError(f"{where}: expected a number from 1 to 1e30 for {name}, found {value}")
    return Rate(float(value), origin)


# --- the chip that compilers and profilers name ---


_VERSION: Final = lazy_regex(r"\bversion: TPU_VERSION_(\w+)")  # the enum of libtpu's target, with code names
_VARIANT: Final = lazy_regex(r'\bvariant: "(\w*)"')
# The length is bounded, as the file may be a made-up one.
_DEVICE: Final = lazy_regex(r'\bdevice_description_str: "([^"\n]{0,200})"')


def chip_in(texts: Iterable[str]) -> str | None:
    """The name of the chip in the first text that names a target; None if none does, or it is not known.

    Mirrors `target_arguments.txt` of libtpu, and `GpuTargetConfigProto` of xla/stream_executor.

    >>> chip_in(['version: TPU_VERSION_VIPERFISH  variant: "lite"']), chip_in(["version: TPU_VERSION_6acc60406"])
    ('v5e', '7x')
    """
    for text in texts:
        if version := _VERSION.search(text):
            variant = _VARIANT.search(text)
            return LIBTPU_VERSIONS.get((version[1], variant[1] if variant else ""))
        if device := _DEVICE.search(text):
            return _gpu_named(device[1])
    return None


def _gpu_named(description: str) -> str | None:
    """The GPU whose name is the longest that a description contains.

    >>> _gpu_named("NVIDIA H100 80GB HBM3"), _gpu_named("H100 SXM"), _gpu_named("unknown")
    ('h100', 'h100', None)
    """
    words = frozenset(description.lower().replace("-", " ").split())
    names = [chip.name for chip in known_chips() if chip.target == "gpu" and chip.name in words]
    return max(names, key=len, default=None)


# --- GPUs of traces ---


class TracedGpu(NamedTuple):
    """A GPU as profilers describe it, with its peak rates: FLOP/s of dense bf16 or f16 matmuls, and bytes per second.

    `chip` is whether `name` is that of a known chip; of the others, traces are all that is needed.
    """

    name: str
    vendor: str
    capability: tuple[int, int]
    cores: int
    memory_bytes: float
    flops: float
    memory_rate: float
    source: str
    is_chip: bool = True


_GPUS_OF_TABLES: Final = (
    ("nvidia", (6, 0), ("p100",)),
    ("nvidia", (7, 0), ("v100-16gb", "v100-32gb")),
    ("nvidia", (7, 5), ("t4",)),
    ("nvidia", (8, 0), ("a100-40gb", "a100-80gb", "a100-pcie-80gb")),
    ("nvidia", (8, 6), ("a6000",)),
    ("nvidia", (8, 9), ("l4",)),
    ("nvidia", (9, 0), ("h100", "h100-pcie", "h200")),
    ("nvidia", (10, 0), ("b200", "gb200")),
    ("nvidia", (10, 3), ("b300", "gb300")),
    ("nvidia", (12, 0), ("rtx6000pro",)),
    # ROCm's profiler writes the major and minor version of the architecture: gfx90a is 9.0, gfx942 is 9.4
    ("amd", (9, 0), ("mi250", "mi250x")),
    ("amd", (9, 4), ("mi300x", "mi325x")),
    ("amd", (9, 5), ("mi350x", "mi355x")),
)
"""Vendor and compute capability of the chips in the tables; their cores, memory, and rates are there."""
_NVIDIA_PAGES: Final = "https://www.nvidia.com/en-us/"
_OTHER_GPUS: Final = (
    # name, vendor, capability, cores, GiB, Tflop/s, TB/s, the vendor's page
    ("a10", "nvidia", (8, 6), 72, 24, 125, 0.6, f"{_NVIDIA_PAGES}data-center/products/a10-gpu/"),
    ("a30", "nvidia", (8, 0), 56, 24, 165, 0.933, f"{_NVIDIA_PAGES}data-center/products/a30-gpu/"),
    ("a40", "nvidia", (8, 6), 84, 48, 149.7, 0.696, f"{_NVIDIA_PAGES}data-center/a40/"),
    ("l40s", "nvidia", (8, 9), 142, 48, 362.05, 0.864, f"{_NVIDIA_PAGES}data-center/l40s/"),
    ("rtx 6000 ada", "nvidia", (8, 9), 142, 48, 364.25, 0.96, f"{_NVIDIA_PAGES}design-visualization/rtx-6000/"),
    ("h20", "nvidia", (9, 0), 78, 96, 148, 4.0, f"{_NVIDIA_PAGES}data-center/hgx/"),
    ("h100 nvl", "nvidia", (9, 0), 132, 94, 835.5, 3.9, f"{_NVIDIA_PAGES}data-center/h100/"),
    ("gh200 96gb", "nvidia", (9, 0), 132, 96, 989.4, 4.0, f"{_NVIDIA_PAGES}data-center/grace-hopper-superchip/"),
    ("gh200 144gb", "nvidia", (9, 0), 132, 144, 989.4, 4.9, f"{_NVIDIA_PAGES}data-center/grace-hopper-superchip/"),
    ("mi100", "amd", (9, 0), 120, 32, 184.6, 1.2288, f"{AMD_PAGES}mi100.html"),
    ("mi300a", "amd", (9, 4), 228, 128, 980.6, 5.3, f"{AMD_PAGES}mi300/mi300a.html"),
)
"""GPUs without a row in the tables of chips, by which times are estimated: rates of traces need less than estimates."""
_SEPARATORS: Final = lazy_regex(r"[^a-z0-9]")
_SIZE_TOLERANCE: Final = 0.2
"""How far the memory in a trace may be from the nominal one: drivers keep some, and 288 GB are 268 GiB or 288 GiB."""


def traced_gpus() -> tuple[TracedGpu, ...]:
    """All GPUs that are known by what a trace has of them."""
    gpus = []
    for vendor, capability, names in _GPUS_OF_TABLES:
        for name in names:
            chip = find_chip(name)
            # Chips before Ampere have no bf16; profilers then state the rate of f16.
            flops = chip.spec.flops.get("bf16") or chip.spec.flops["f16"]
            size, memory = chip.memories[0].bytes, chip.spec.memory
            rates = flops.per_second, memory.per_second
            gpus.append(TracedGpu(name, vendor, capability, chip.spec.cores, size, *rates, memory.source))
    for name, vendor, capability, cores, gib, tera_flops, tera_bytes, source in _OTHER_GPUS:
        rates = tera_flops * 1e12, tera_bytes * 1e12
        gpus.append(TracedGpu(name, vendor, capability, cores, gib * GIB, *rates, source, is_chip=False))
    return tuple(gpus)


def gpu_in_trace(
    vendor: str,
    capability: tuple[int, int],
    cores: int,
    *,
    name: str = "",
    memory_bytes: float = 0.0,
    memory_rate: float = 0.0,
    flops: float = 0.0,
) -> TracedGpu | None:
    """The GPU of a trace by vendor, compute capability, and cores; None if it is not known.

    Several GPUs may have them: the name decides, else the size of the memory, else the rates in the trace, of which
    that of memory may be half of the true one. 0 stands for what the trace does not have.

    >>> gpu_in_trace("AMD", (9, 4), 304, memory_rate=2.6624e12).name, gpu_in_trace("AMD", (9, 4), 228).name
    ('mi300x', 'mi300a')
    >>> gpu_in_trace("Nvidia", (9, 0), 132, memory_bytes=151e9).name, gpu_in_trace("Nvidia", (9, 0), 16)
    ('h200', None)
    """
    key = vendor.casefold(), capability, cores
    matching = [each for each in traced_gpus() if (each.vendor, each.capability, each.cores) == key]
    words = frozenset(_SEPARATORS.sub(" ", name.casefold()).split())
    named = [each for each in matching if words.issuperset(_SEPARATORS.sub(" ", each.name).split())]
    if named:
        return max(named, key=lambda each: len(each.name))
    # The size decides before the rates: boards of one chip differ in memory, not in cores.
    if memory_bytes:
        matching = [each for each in matching if abs(memory_bytes / each.memory_bytes - 1) <= _SIZE_TOLERANCE]

    def distance(each: TracedGpu) -> tuple[float, ...]:
        """How far the memory and the rates are: clocks of AMD are exact, and those of NVIDIA are of a higher boost."""
        size = abs(log(memory_bytes / each.memory_bytes)) if memory_bytes else 0.0
        # ROCm reports the memory clock without the double data rate for some boards.
        factors = (1, 2) if each.vendor == "amd" else (1,)
        rate = min(abs(log(way * memory_rate / each.memory_rate)) for way in factors) if memory_rate else 0.0
        peak = abs(log(flops / each.flops)) if flops else 0.0
        # Rounded, so that a near tie is left to the next figure: sizes are nominal, and clocks vary.
        return round(size, 1), *((round(peak, 2), rate) if each.vendor == "amd" else (round(rate, 2), peak))

    return min(matching, key=distance, default=None)
