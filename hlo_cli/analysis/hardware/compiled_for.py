"""Which chip is it: the one that a module was compiled for, by the texts that compilers write about their target; and
the GPU of a trace, by what the profiler writes about its devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Final, NamedTuple

from hlo_cli.analysis.hardware.chip import GIB
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.analysis.hardware.tpus import LIBTPU_VERSIONS
from hlo_cli.lazy_regex import lazy_regex

_VERSION: Final = lazy_regex(r"\bversion: TPU_VERSION_(\w+)")
_VARIANT: Final = lazy_regex(r'\bvariant: "(\w*)"')
_DEVICE: Final = lazy_regex(r'\bdevice_description_str: "([^"\n]{0,200})"')


def chip_in(texts: Iterable[str]) -> str | None:
    """The name of the chip in the first text that names a target; None if none does, or it is not known.

    Mirrors `target_arguments.txt` of libtpu, and `GpuTargetConfigProto` of xla/stream_executor.

    >>> chip_in(['version: TPU_VERSION_VIPERFISH  variant: "lite"'])
    'v5e'
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
    found = [chip.name for chip in known_chips() if chip.target == "gpu" and chip.name in words]
    return max(found, key=len, default=None)


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


_KNOWN: Final = (
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
_NVIDIA: Final = "https://www.nvidia.com/en-us/"
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct/"
_OTHERS: Final = (
    # name, vendor, capability, cores, GiB, Tflop/s, TB/s, the vendor's page
    ("a10", "nvidia", (8, 6), 72, 24, 125, 0.6, f"{_NVIDIA}data-center/products/a10-gpu/"),
    ("a30", "nvidia", (8, 0), 56, 24, 165, 0.933, f"{_NVIDIA}data-center/products/a30-gpu/"),
    ("a40", "nvidia", (8, 6), 84, 48, 149.7, 0.696, f"{_NVIDIA}data-center/a40/"),
    ("l40s", "nvidia", (8, 9), 142, 48, 362.05, 0.864, f"{_NVIDIA}data-center/l40s/"),
    ("rtx 6000 ada", "nvidia", (8, 9), 142, 48, 364.25, 0.96, f"{_NVIDIA}design-visualization/rtx-6000/"),
    ("h20", "nvidia", (9, 0), 78, 96, 148, 4.0, f"{_NVIDIA}data-center/hgx/"),
    ("h100 nvl", "nvidia", (9, 0), 132, 94, 835.5, 3.9, f"{_NVIDIA}data-center/h100/"),
    ("gh200 96gb", "nvidia", (9, 0), 132, 96, 989.4, 4.0, f"{_NVIDIA}data-center/grace-hopper-superchip/"),
    ("gh200 144gb", "nvidia", (9, 0), 132, 144, 989.4, 4.9, f"{_NVIDIA}data-center/grace-hopper-superchip/"),
    ("mi100", "amd", (9, 0), 120, 32, 184.6, 1.2288, f"{_AMD}mi100.html"),
    ("mi300a", "amd", (9, 4), 228, 128, 980.6, 5.3, f"{_AMD}mi300/mi300a.html"),
)
"""GPUs without a row in the tables of chips, by which times are estimated: rates of traces need less than estimates."""
_SEPARATORS: Final = lazy_regex(r"[^a-z0-9]")
_SAME_SIZE: Final = 0.2
"""How far the memory in a trace may be from the nominal one: drivers keep some, and 288 GB are 268 GiB or 288 GiB."""


def traced_gpus() -> tuple[TracedGpu, ...]:
    """All GPUs that are known by what a trace has of them."""
    found = []
    for vendor, capability, names in _KNOWN:
        for name in names:
            chip = find_chip(name)
            flops = chip.spec.flops.get("bf16") or chip.spec.flops["f16"]
            size, memory = chip.memories[0].bytes, chip.spec.memory
            rates = flops.per_second, memory.per_second
            found.append(TracedGpu(name, vendor, capability, chip.spec.cores, size, *rates, memory.source))
    for name, vendor, capability, cores, gib, tera_flops, tera_bytes, source in _OTHERS:
        rates = tera_flops * 1e12, tera_bytes * 1e12
        found.append(TracedGpu(name, vendor, capability, cores, gib * GIB, *rates, source, is_chip=False))
    return tuple(found)


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
    found = [each for each in traced_gpus() if (each.vendor, each.capability, each.cores) == key]
    words = frozenset(_SEPARATORS.sub(" ", name.casefold()).split())
    named = [each for each in found if words.issuperset(_SEPARATORS.sub(" ", each.name).split())]
    if named:
        return max(named, key=lambda each: len(each.name))
    if memory_bytes:
        found = [each for each in found if abs(memory_bytes / each.memory_bytes - 1) <= _SAME_SIZE]

    def distance(each: TracedGpu) -> tuple[float, ...]:
        """How far the memory and the rates are: clocks of AMD are exact, and those of NVIDIA are of a higher boost."""
        size = abs(log(memory_bytes / each.memory_bytes)) if memory_bytes else 0.0
        ways = (1, 2) if each.vendor == "amd" else (1,)
        rate = min(abs(log(way * memory_rate / each.memory_rate)) for way in ways) if memory_rate else 0.0
        peak = abs(log(flops / each.flops)) if flops else 0.0
        return round(size, 1), *((round(peak, 2), rate) if each.vendor == "amd" else (round(rate, 2), peak))

    return min(found, key=distance, default=None)
