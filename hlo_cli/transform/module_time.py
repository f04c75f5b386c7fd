"""How long does one execution of a module take, also before optimization, or with measured trip counts?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.dataflow.executions import executions_of, trip_count
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.time_model import Estimate, total
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import KernelTimes
from hlo_cli.analysis.schedule.step_time import TimeEstimate, estimate_time, time_band, time_bound
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.rewriting import begin_copies, copied_calls, with_computations

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective

# --- measured trip counts ---
# Gives loops the trip counts that a profile measured, where the module does not determine them.
#
# Mirrors `WhileLoopTripCountAnnotator` of xla/service/while_loop_trip_count_annotator.cc, which writes what it finds
# into the same configuration.


# The key under which XLA's annotator and all readers of trip counts look.
_CONFIG: Final = "backend_config"


def unknown_loops(module: Module) -> tuple[Instruction, ...]:
    """The while loops whose trip count the module does not determine."""
    loops = (each for each in module.instructions if each.opcode == opcodes.WHILE)
    return tuple(each for each in loops if trip_count(each) is None)


def with_trip_counts(module: Module, trips: Mapping[str, int]) -> Module:
    """The module with trip counts for loops of unknown trip count, by name; itself if none of them has one.

    HloError if an instruction is used before it is defined.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m
    ... c { p = (s32[]) parameter(0)  ROOT r = pred[] custom-call(p), custom_call_target="f" }
    ... b { ROOT p = (s32[]) parameter(0) }
    ... ENTRY e { t = (s32[]) parameter(0)  ROOT w = (s32[]) while(t), condition=c, body=b }''')
    >>> trip_count(with_trip_counts(module, {"w": 7}).entry.root)
    7
    """
    chosen = {each: trips[each.name] for each in unknown_loops(module) if each.name in trips}
    if not chosen:
        return module
    copies = begin_copies(module)
    computations = []
    for computation in module.computations:
        copy = copies[computation]
        for each in computation.instructions:
            attributes = _attributes(each, chosen[each]) if each in chosen else None
            copy.copy(each, copy.operands(each), copied_calls(each, copies), attributes=attributes)
        computations.append(copy.finish())
    return with_computations(module, computations, copies)


def _attributes(loop: Instruction, trips: int) -> tuple[Attribute, ...]:
    """The attributes of a loop, with the trip count in its configuration."""
    # A configuration that is not JSON cannot be extended, so it is replaced.
    config = loop.attribute(_CONFIG)
    try:
        known = json.loads(config) if config else {}
    except ValueError:
        known = {}
    known = (known if isinstance(known, dict) else {}) | {"known_trip_count": {"n": str(trips)}}
    kept = tuple(each for each in loop.attributes if each.name != _CONFIG)
    return (*kept, Attribute(_CONFIG, json.dumps(known, separators=(",", ":"))))


# --- predicted duration ---
# Predicted duration of one execution of a module, also before optimization.
#
# A module that is not optimized is fused first by the rules of the CPU compiler, and for a GPU by the passes of XLA:GPU
# after that; operations that are not fused would each count as a kernel. The rules of the CPU compiler stand for the
# passes that simplify a module before fusion: of nine modules for H100 and A100 with the result of the compiler, the
# passes of XLA:GPU alone leave up to 3.5 times its kernels, the rules alone up to 1.8 times, both together up to 1.7
# times, and in none is the number of both further from it than that of the rules. Its kernels have the time of their
# roofline, as those of the measured models did: XLA's model of GPU kernels knows only fusions that XLA would make.


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What is left to each of `devices` of a module that is not partitioned yet.

    `undivided` is the duration if one device did all the work, which is divided by `divisor` on average. `collectives`
    are those that the partitioner adds, as predicted, and `exchange` is their duration; the part of those whose
    duration is unknown is not in it.
    """

    devices: int
    undivided: Estimate
    divisor: float
    collectives: tuple[Collective, ...]
    exchange: Estimate


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """The predicted duration of one execution with its band, its compute, and the number of kernels, each counted once.

    `launch_seconds` is the part of the compute in which kernels are launched, as far as it is known apart.
    `at_least_seconds` is a lower bound that holds for any schedule; None before optimization, when operations may
    still be removed. `is_fused` is whether the module was fused by rule for the prediction. `is_known` is whether all
    parts of it have a time. Of a module that is not partitioned, all are of one device, and `share` says how.
    """

    estimate: Estimate
    compute_seconds: float
    kernels: int
    at_least_seconds: float | None
    is_fused: bool
    is_known: bool
    launch_seconds: float = 0.0
    share: DeviceShare | None = None


def module_time(
    module: Module,
    chip: ChipSpec,
    *,
    is_optimized: bool,
    overlap: OverlapAnalysis | None = None,
    step: TimeEstimate | None = None,
) -> ModuleTime:
    """Returns the predicted duration; `overlap` and `step` are those of the module, if they are at hand.

    >>> from hlo_cli import chip_spec, parse_module
    >>> entry = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT t = f32[9] tanh(n) }"
    >>> found = module_time(parse_module("HloModule m  " + entry), chip_spec("mi350"), is_optimized=False)
    >>> found.kernels, found.is_fused, f"{found.estimate.seconds * 1e6:.2f} µs"
    (1, True, '2.95 µs')
    """
    fused = None if is_optimized else _fused(module, chip)
    if fused is not None or overlap is None:
        overlap, step = analyze_overlap(fused or module), None
    if step is None or not is_optimized:
        step = estimate_time(overlap, chip, by_roofline=not is_optimized)
    # Rates of a machine that was measured are what its kernels reach, so no bound follows from them.
    at_least = time_bound(overlap, chip) if is_optimized and chip.calibration is None else None
    # A bound is not stated before optimization: the compiler may remove work.
    estimate = time_band(overlap, step).at_least(at_least or 0.0)
    is_fused, kernels, compute = fused is not None, len(step.predicted), step.compute_seconds
    share = None if is_optimized else _share_of_device(module, chip, estimate, compute, step.launch_seconds)
    if share is not None:
        compute = (compute - step.launch_seconds) / share.divisor + step.launch_seconds
        estimate = _divided(share.undivided, share.divisor, step.launch_seconds) + share.exchange
    return ModuleTime(estimate, compute, kernels, at_least, is_fused, step.is_known, step.launch_seconds, share)


def _share_of_device(
    module: Module, chip: ChipSpec, undivided: Estimate, compute: float, launch: float
) -> DeviceShare | None:
    """What is left to a device; None for a module that is partitioned already."""
    from hlo_cli.analysis.sharding.entry_arrays import devices_in_shapes

    if devices_in_shapes(module) < 2 or not compute:
        return None
    from hlo_cli.analysis.sharding.collectives import collective_time
    from hlo_cli.analysis.sharding.partitioning import predicted_partitioning

    found = predicted_partitioning(module)
    if found is None:
        return None
    times = [(each, collective_time(each, chip)) for each in found.collectives]
    exchange = total(time.estimate * each.runs.count for each, time in times if time is not None)
    return DeviceShare(found.devices, undivided, _divisor(module, chip, found.parts), found.collectives, exchange)


def _divisor(module: Module, chip: ChipSpec, parts: Mapping[Instruction, int]) -> float:
    """By how much the work of a module is divided on average: operations count with their time, each on its own."""
    executions, times = executions_of(module), KernelTimes(chip, by_roofline=True)
    whole = share = 0.0
    for instruction, cost in costs_of_kernels(module.instructions).items():
        prediction = times.least(instruction, cost)
        runs = executions.get(instruction.computation)
        if prediction is not None and runs is not None:
            seconds = prediction.roofline.seconds * runs.count
            whole += seconds
            share += seconds / parts.get(instruction, 1)
    return whole / share if share else 1.0


def _divided(estimate: Estimate, divisor: float, launch: float) -> Estimate:
    """A part of the work in as many kernels: their launches are not divided."""

    def part(seconds: float) -> float:
        """The part of a time, of which launches are at most all."""
        whole = min(launch, seconds)
        return (seconds - whole) / divisor + whole

    return Estimate(part(estimate.low), part(estimate.seconds), part(estimate.high), estimate.sources, launch)


def _fused(module: Module, chip: ChipSpec) -> Module | None:
    """The module after fusion; None if it cannot be rewritten, or if that takes too many steps."""
    from hlo_cli.transform.fusion.cpu_fusion import fuse  # large imports that only such modules need

    try:
        fused = fuse(module)
    except HloError:
        return None
    return None if fused.undecided else _fused_for_gpu(fused.module, chip)


def _fused_for_gpu(module: Module, chip: ChipSpec) -> Module:
    """The module after the fusion passes of XLA:GPU; itself for a chip that they do not know, or after many steps."""
    from hlo_cli.analysis.hardware.gpu_devices import device_of

    if device_of(chip) is None:
        return module
    from hlo_cli.transform.fusion.gpu_fusion import gpu_fused_module

    try:
        return gpu_fused_module(module, chip.chip) or module
    except HloError:
        return module
