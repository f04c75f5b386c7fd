"""Achieved rates of operations next to the peaks of the device: what bounds them, and how close they come.

Mirrors `SetRooflineMetrics` of xprof/convert/op_metrics_to_record.h and xprof/convert/op_stats_to_roofline_model.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.columns import real, text, whole
from hlo_cli.analysis.profile.measures import Measure
from hlo_cli.analysis.profile.profile import PS, Operation, Peaks, Profile, Traffic
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.traces.trace import Plane, Value

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import TracedGpu

COMPUTE: Final = "compute"
MAIN: Final = TpuMemorySpace.HBM.label
CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE = "CMEM read", "CMEM write", "VMEM read", "VMEM write"
SHARED: Final = "shared memory"
_INNER: Final = (opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE, "megacore fusion")
"""The categories of operations whose costs are those of others that ran inside them."""
_TERA, _GIGA, _KILO = 1e12, 1e9, 1e3
_MOST_DIFFERENT: Final = 0.2
"""How far a rate in a trace may be from that of the chip: boost clocks differ by less, wrong formulas by more."""
_NVIDIA: Final = {
    (2, 0): 64,
    (3, 0): 384,
    (5, 0): 256,
    (6, 0): 256,
    (7, 0): 1024,
    (8, 0): 2048,
    (8, 6): 1024,
    (9, 0): 4096,
    (10, 0): 8192,
    (12, 0): 1024,
}
"""FLOPs of one core in one cycle by compute capability: dense products of fp16, as hardware_type_utils.cc has them.

It has none for 12.0, and so those of 10.0: the cards of Blackwell have the cores of Ada, by the page of RTX PRO 6000.
"""
_AMD: Final = {"gfx908": (1024, 128), "gfx90a": (2048, 128), "gfx942": (2048, 128), "gfx950": (4096, 256)}
"""The same by architecture, with bytes of shared memory in a cycle."""
_AMD_NAMES: Final = {(9, 4): "gfx942", (9, 5): "gfx950"}


def peaks_of(plane: Plane) -> Peaks | None:
    """The peaks of a device that a trace states, or those of the chip that it is; None if neither is known.

    Where the trace and the table of chips differ by over 20%, the table counts: ROCm's profiler computes the rate of
    memory as 2 × clock × width (rocm_collector.cc), which is half of that of HBM3.
    """
    statistics = plane.statistics
    found = {name: real(value) or 0.0 for name, value in statistics.items() if real(value) is not None}
    clock, cores = found.get("clock_rate", 0.0) * _KILO, found.get("core_count", 0.0)
    per_cycle, shared = _per_cycle(statistics)
    flops = found.get("peak_teraflops_per_second", 0.0) * _TERA or per_cycle * clock * cores
    main = found.get("peak_hbm_bw_gigabytes_per_second", 0.0) * _GIGA or found.get("memory_bandwidth", 0.0)

    def near(name: str) -> float:
        return found.get(f"peak_{name}_bw_gigabytes_per_second", 0.0) * _GIGA

    stated = Peaks(
        max(flops, 0.0),
        max(main, 0.0),
        "the trace",
        near("cmem_rd"),
        near("cmem_wr"),
        near("vmem_rd"),
        near("vmem_wr"),
        shared * clock * cores,
        has_merged_vmem=bool(found.get("has_merged_vmem")),
    )
    stated = _by_chip(stated, statistics)
    return stated if stated.flops > 0 and stated.main_bytes > 0 else None


def _by_chip(stated: Peaks, statistics: Mapping[str, Value]) -> Peaks:
    """The peaks of a GPU that the table of chips knows, where the trace has none or very different ones."""
    chip = _gpu(stated, statistics)
    if chip is None:
        return stated
    flops, is_flops = _closer(stated.flops, chip.flops)
    main, is_main = _closer(stated.main_bytes, chip.memory_rate)
    sources = {"the trace": is_flops or is_main, chip.name: not (is_flops and is_main)}
    return replace(
        stated,
        flops=flops,
        main_bytes=main,
        source=" and ".join(name for name, is_used in sources.items() if is_used),
        chip=chip.name if chip.is_chip else "",
        traced_flops=0.0 if is_flops else stated.flops,
        traced_bytes=0.0 if is_main else stated.main_bytes,
    )


def _gpu(stated: Peaks, statistics: Mapping[str, Value]) -> TracedGpu | None:
    """The GPU by its vendor, capability, cores, and memory; None for TPUs and for GPUs that are not known."""
    vendor = text(statistics.get("device_vendor"))
    if not vendor:
        return None
    from hlo_cli.analysis.hardware.chip_specs import gpu_in_trace

    version = whole(statistics.get("compute_cap_major")) or 0, whole(statistics.get("compute_cap_minor")) or 0
    return gpu_in_trace(
        vendor,
        version,
        whole(statistics.get("core_count")) or 0,
        name=next(filter(None, (text(statistics.get(each)) for each in ("gpu_device_name", "device_name"))), ""),
        memory_bytes=max(real(statistics.get("memory_size")) or 0.0, 0.0),
        memory_rate=stated.main_bytes,
        flops=stated.flops,
    )


def _closer(stated: float, known: float) -> tuple[float, bool]:
    """The rate in the trace, and True, if it is near the known one; else the known one, and False."""
    is_near = stated > 0 and abs(stated / known - 1) <= _MOST_DIFFERENT
    return (stated, True) if is_near else (known, False)


def is_inner(operation: Operation) -> bool:
    """Whether the costs of an operation are those of others that run inside it, such as those of a loop."""
    return operation.category in _INNER


def _per_cycle(statistics: Mapping[str, Value]) -> tuple[int, int]:
    """The FLOPs of a GPU's core in a cycle, and the bytes of its shared memory; zeros if the core is unknown."""
    version = whole(statistics.get("compute_cap_major")) or 0, whole(statistics.get("compute_cap_minor")) or 0
    vendor = text(statistics.get("device_vendor"))
    if vendor == "Nvidia":
        known = [flops for least, flops in _NVIDIA.items() if least <= version]
        return known[-1] if known else 0, 256 if version >= (3, 0) else 64
    if vendor == "AMD":
        name = text(statistics.get("device_name", statistics.get("gpu_device_name"))).partition(":")[0]
        return _AMD.get(name, _AMD.get(_AMD_NAMES.get(version, ""), (0, 0)))
    return 0, 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates over the total time of an operation: FLOP/s and bytes/s; None where the costs are unknown.

    `intensity` is FLOPs per byte. `bound_by` is the resource with the greatest part of its peak in use, empty if none
    is. `efficiency` is the greatest part of a peak that counts for the roofline; it may exceed 1.
    """

    flops: float | None = None
    model_flops: float | None = None
    bytes: float | None = None
    main_bytes: float | None = None
    intensity: float | None = None
    bound_by: str = ""
    efficiency: float | None = None
    compute_use: float | None = None
    memory_use: float | None = None


NO_RATES: Final = Rates()


def rates_of(operation: Operation, measure: Measure, peaks: Peaks | None = None) -> Rates:
    """The rates that the calls of an operation achieved."""
    return _rates(operation.flops, operation.model_flops, operation.traffic, measure.calls, measure.total, peaks)


def rates(profile: Profile, measured: Sequence[Measure]) -> Sequence[Rates]:
    """The rates of each operation of a profile, from the measures of all operations."""
    return [rates_of(each, found, profile.peaks) for each, found in zip(profile.operations, measured, strict=True)]


def program_rates(profile: Profile, measured: Sequence[Measure]) -> Rates:
    """The rates of everything that ran, over the time of all devices, idle time included."""
    flops = model_flops = 0.0
    sums = [0.0] * 6
    for operation, found in zip(profile.operations, measured, strict=True):
        if is_inner(operation):
            continue
        flops += (operation.flops or 0.0) * found.calls
        model_flops += (operation.model_flops or operation.flops or 0.0) * found.calls
        sums = [total + each * found.calls for total, each in zip(sums, _bytes(operation.traffic), strict=True)]
    return _rates(flops, model_flops, Traffic(*sums), 1, profile.total_ps * PS, profile.peaks)


def _bytes(traffic: Traffic | None) -> tuple[float, ...]:
    if traffic is None:
        return (0.0,) * 6
    near = traffic.cmem_read, traffic.cmem_written, traffic.vmem_read, traffic.vmem_written
    return (traffic.all, traffic.main, *near)


def _rates(
    flops: float | None,
    model_flops: float | None,
    traffic: Traffic | None,
    calls: int,
    seconds: float,
    peaks: Peaks | None,
) -> Rates:
    if (flops is None and traffic is None) or seconds <= 0:
        return NO_RATES
    scale = calls / seconds
    flop_rate = (flops or 0.0) * scale
    all_bytes, main, *near = (each * scale for each in _bytes(traffic))
    found = Rates(
        flop_rate,
        (model_flops or flops or 0.0) * scale,
        all_bytes,
        main,
        flop_rate / all_bytes if all_bytes else None,
    )
    if peaks is None:
        return found
    near_peaks = peaks.cmem_read, peaks.cmem_written, peaks.vmem_read, peaks.vmem_written
    uses = {
        COMPUTE: flop_rate / peaks.flops if peaks.flops else 0.0,
        MAIN: main / peaks.main_bytes if peaks.main_bytes else 0.0,
        **{
            name: rate / peak if peak else 0.0
            for name, rate, peak in zip((CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE), near, near_peaks, strict=True)
        },
        SHARED: main / peaks.shared if peaks.shared else 0.0,
    }
    greatest = max(uses, key=lambda name: uses[name])
    counted = [MAIN]
    if peaks.cmem_read > 0 or peaks.cmem_written > 0:
        counted += [CMEM_READ, CMEM_WRITE]
    elif peaks.has_merged_vmem:
        counted += [VMEM_READ, VMEM_WRITE]
    memory = max(uses[name] for name in counted)
    return replace(
        found,
        bound_by=greatest if uses[greatest] > 0 else "",
        efficiency=max(memory, uses[COMPUTE]),
        compute_use=uses[COMPUTE],
        memory_use=memory,
    )


def over_peak(operation: Operation, rates: Rates) -> str:
    """Why an operation may exceed the roofline, in words; empty if it does not.

    Neither the declared cost nor the peak is certain, so both are named.

    >>> over_peak(Operation("c", None, None, "custom-call"), Rates(efficiency=3.3))
    'the custom call may declare more than it does, or the peak rate is too low'
    >>> over_peak(Operation("a", None, None), Rates(efficiency=1.2, bound_by="HBM"))
    'some bytes may come from a cache, or the peak rate is too low'
    """
    if rates.efficiency is None or rates.efficiency <= 1:
        return ""
    if operation.category.endswith(("-start", "-done")) or operation.name.partition(".")[0].endswith(
        ("-start", "-done")
    ):
        return "its bytes are transferred after it ends"
    if operation.category == opcodes.CUSTOM_CALL:
        return "the custom call may declare more than it does, or the peak rate is too low"
    if rates.bound_by == COMPUTE:
        return "it may need fewer flops than XLA counts, or the peak rate is too low"
    return "some bytes may come from a cache, or the peak rate is too low"
