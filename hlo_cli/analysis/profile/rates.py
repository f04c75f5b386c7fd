"""Achieved rates of operations next to the peaks of the device: what bounds them, and how close they come.

Mirrors `SetRooflineMetrics` of xprof/convert/op_metrics_to_record.h and xprof/convert/op_stats_to_roofline_model.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.profile.columns import real, text, whole
from hlo_cli.analysis.profile.measures import Measure
from hlo_cli.analysis.profile.profile import PS, Operation, Peaks, Profile, Traffic
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.traces.trace import Plane, Value

COMPUTE: Final = "compute"
MAIN: Final = TpuMemorySpace.HBM.label
CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE = "CMEM read", "CMEM write", "VMEM read", "VMEM write"
SHARED: Final = "shared memory"
_INNER: Final = (opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE, "megacore fusion")
"""The categories of operations whose costs are those of others that ran inside them."""
_TERA, _GIGA, _KILO = 1e12, 1e9, 1e3
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
}
"""FLOPs of one core in one cycle by compute capability: dense products of fp16, as hardware_type_utils.cc has them."""
_AMD: Final = {"gfx908": (1024, 128), "gfx90a": (2048, 128), "gfx942": (2048, 128), "gfx950": (4096, 256)}
"""The same by architecture, with bytes of shared memory in a cycle."""
_AMD_NAMES: Final = {(9, 4): "gfx942", (9, 5): "gfx950"}


def peaks_of(plane: Plane) -> Peaks | None:
    """The peaks of a device that a trace states; None if it states none."""
    statistics = plane.statistics
    found = {name: real(value) or 0.0 for name, value in statistics.items() if real(value) is not None}
    clock, cores = found.get("clock_rate", 0.0) * _KILO, found.get("core_count", 0.0)
    per_cycle, shared = _per_cycle(statistics)
    flops = found.get("peak_teraflops_per_second", 0.0) * _TERA or per_cycle * clock * cores
    main = found.get("peak_hbm_bw_gigabytes_per_second", 0.0) * _GIGA or found.get("memory_bandwidth", 0.0)
    if flops <= 0 or main <= 0:
        return None

    def near(name: str) -> float:
        return found.get(f"peak_{name}_bw_gigabytes_per_second", 0.0) * _GIGA

    return Peaks(
        flops,
        main,
        "the trace",
        near("cmem_rd"),
        near("cmem_wr"),
        near("vmem_rd"),
        near("vmem_wr"),
        shared * clock * cores,
        has_merged_vmem=bool(found.get("has_merged_vmem")),
    )


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
    """Why an operation exceeds the roofline, in words; empty if it does not.

    >>> over_peak(Operation("c", None, None, "custom-call"), Rates(efficiency=3.3))
    'the custom call declares more than it does'
    """
    if rates.efficiency is None or rates.efficiency <= 1:
        return ""
    if operation.category.endswith(("-start", "-done")) or operation.name.partition(".")[0].endswith(
        ("-start", "-done")
    ):
        return "its bytes are transferred after it ends"
    if operation.category == opcodes.CUSTOM_CALL:
        return "the custom call declares more than it does"
    return "its declared cost is higher than what it does"
