"""How long do kernels of each class take on the machine of a trace, relative to the time model?

Each class has a factor and what every call takes in addition, as far as the operations of the trace tell. The best step
counts: others wait for what else the machine does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.hardware.chip_table import FEW_KERNELS, Calibration, ChipSpec, ClassTime, Rate
from hlo_cli.analysis.hardware.time_model import LAUNCH_SECONDS
from hlo_cli.analysis.profile.measure import is_inner
from hlo_cli.analysis.profile.profile import Floats, Operation, Profile
from hlo_cli.analysis.schedule.kernel_classes import (
    SMALL,
    SMALL_SHARE,
    ModeledCollective,
    is_collective,
    kernel_class,
    synchronous_collectives,
)
from hlo_cli.analysis.schedule.kernel_times import KernelTimes, matmuls_within
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS
from hlo_cli.source import HloError

WIDE: Final = (0.5, 2.0)
"""The range of a class with few kernels, and of those that the trace does not have: a factor of 2, chosen."""
_NOMINAL_FLOPS: Final = 1e11  # of a few cores with vector units; only the ratio to it is fitted
_NOMINAL_BYTES: Final = 1e10  # of one channel of memory; the same


_LITTLE_WORK: Final = 2e-6  # of a kernel whose time is mostly that of its launch; less than a launch on a GPU takes


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A kernel or collective of a trace: the best time of a call in seconds, calls, class, and time by the model."""

    operation: Operation
    seconds: float
    calls: float
    kind: str
    modeled: float

    @property
    def total(self) -> float:
        """The time of all calls."""
        return self.seconds * self.calls

    @property
    def weight(self) -> float:
        """How much it counts in the fit: costly kernels more, but no single one decides."""
        return sqrt(self.total)


def calibrate(profile: Profile, chip: ChipSpec | None, name: str, source: str) -> tuple[ChipSpec, Sequence[Sample]]:
    """The chip of a profile with measured times of classes, and what they are fitted to; HloError without kernels.

    Without `chip`, the rates are those that the fastest matmuls and the median of other kernels reach, and `name` is
    that of the chip. Expects the programs of the profile to be at hand.
    """
    times = best_times(profile)
    costs = costs_of_kernels([each.instruction for each in times if each.instruction is not None])
    measured = {each: seconds for each, seconds in times.items() if each.instruction in costs and not is_inner(each)}
    if not measured:
        hint = "pass a dump of the program after the trace"
        raise HloError("no kernel of the trace has an instruction", hint=hint)
    modules = _modules(measured)
    base = replace(chip, calibration=None) if chip is not None else _rates(name, source, measured, costs, modules)
    samples = _samples(measured, costs, base, synchronous_collectives(modules, base), _calls(profile))
    launch = _launch_seconds(samples, LAUNCH_SECONDS if base.cores else 0.0)
    by_class: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        is_small = sample.modeled <= SMALL_SHARE * launch and not is_collective(sample.kind)
        by_class[SMALL if is_small else sample.kind].append(sample)
    classes = {kind: class_time(found, launch, is_small=kind == SMALL) for kind, found in by_class.items()}
    heaviest_first = sorted(classes, key=lambda kind: -sum(each.total for each in by_class[kind]))
    fitted = {kind: classes[kind] for kind in heaviest_first}
    return replace(base, calibration=Calibration(fitted, launch, source)), samples


def best_times(profile: Profile) -> Mapping[Operation, float]:
    """The time of one call of each operation in seconds, in the step in which it was shortest."""
    rows, codes = profile.occurrences, np.asarray(profile.codes)
    weights = np.ones(len(codes)) if profile.call_weights is None else np.asarray(profile.call_weights)
    steps = np.asarray(profile.step_codes) + 1
    keys = codes * (int(steps.max(initial=0)) + 1) + steps
    distinct, numbers = np.unique(keys, return_inverse=True)
    seconds = np.bincount(numbers, np.asarray(rows.self_ps)) * PS
    calls = np.bincount(numbers, weights)
    best: dict[Operation, float] = {}
    for key, time, count in zip(distinct.tolist(), seconds.tolist(), calls.tolist(), strict=True):
        operation = profile.operations[key // (int(steps.max(initial=0)) + 1)]
        if count > 0 and time > 0:
            best[operation] = min(best.get(operation, time / count), time / count)
    return best


def _calls(profile: Profile) -> Mapping[Operation, float]:
    """How often each operation was called."""
    weights = None if profile.call_weights is None else np.asarray(profile.call_weights)
    counts = np.bincount(np.asarray(profile.codes), weights, len(profile.operations)).tolist()
    return dict(zip(profile.operations, counts, strict=True))


def _modules(measured: Iterable[Operation]) -> Sequence[Module]:
    """The modules of operations."""
    found = (program.module for each in measured if (program := each.program) is not None)
    return tuple(dict.fromkeys(module for module in found if module is not None))


def _rates(
    name: str,
    source: str,
    measured: Mapping[Operation, float],
    costs: Mapping[Instruction, Cost],
    modules: Sequence[Module],
) -> ChipSpec:
    """A chip with the rates that a machine without a row in the tables reaches."""
    nominal = ChipSpec(name, {}, Rate(_NOMINAL_BYTES, source))
    collectives = synchronous_collectives(modules, nominal)
    flops, accessed, sent = list[float](), list[float](), list[float]()
    for operation, seconds in measured.items():
        instruction = operation.instruction
        if instruction is None:
            continue
        if (collective := collectives.get(instruction)) is not None:
            sent.append(collective.sent_bytes / seconds)
        elif matmuls_within(instruction):
            flops.append(costs[instruction].flops / seconds)
        else:
            accessed.append(costs[instruction].bytes_accessed / seconds)
    rate = Rate(_middle(flops, _NOMINAL_FLOPS), source)
    links = Rate(_middle(sent, _NOMINAL_BYTES), source) if any(sent) else None
    return ChipSpec(name, {"f32": rate}, Rate(_middle(accessed, _NOMINAL_BYTES), source), links)


def _middle(rates: Sequence[float], nominal: float) -> float:
    """The median of the positive rates, with three digits."""
    positive = [each for each in rates if each > 0]
    return float(f"{np.median(positive) if positive else nominal:.3g}")


def _samples(
    measured: Mapping[Operation, float],
    costs: Mapping[Instruction, Cost],
    chip: ChipSpec,
    collectives: Mapping[Instruction, ModeledCollective],
    calls: Mapping[Operation, float],
) -> list[Sample]:
    """What is known of each kernel; kernels without a time by the model are left out."""
    times = KernelTimes(chip)
    samples = []
    for operation, seconds in measured.items():
        instruction = operation.instruction
        if instruction is None:
            continue
        collective = collectives.get(instruction)
        if collective is not None:
            if collective.seconds:
                samples.append(Sample(operation, seconds, calls[operation], collective.kind, collective.seconds))
            continue
        prediction = times.known(instruction, costs[instruction])
        if prediction is None or not prediction.estimate.seconds:
            continue
        kind = kernel_class(instruction, costs[instruction], matmuls_within(instruction))
        modeled = prediction.estimate.kernel_seconds
        samples.append(Sample(operation, seconds, calls[operation], kind, modeled))
    return samples


def _launch_seconds(samples: Sequence[Sample], usual: float) -> float:
    """What every call takes: the median of the smallest tenth of the kernels by the model, at least of three.

    Only kernels with little work tell; without any, it is what is `usual`.
    """
    kernels = sorted((each for each in samples if not is_collective(each.kind)), key=lambda each: each.modeled)
    smallest = [each for each in kernels[: max(len(kernels) // 10, 3)] if each.modeled <= _LITTLE_WORK]
    if not smallest:
        return usual
    # The work of the smallest kernels is part of what they take.
    rest = [max(each.seconds - each.modeled, 0.0) for each in smallest]
    return float(f"{np.median(rest):.3g}")


def class_time(samples: Sequence[Sample], launch: float, *, is_small: bool = False) -> ClassTime:
    """The fit of one class: what every call takes, the factor, and the range that 8 of 10 of its time is in.

    Of small kernels and collectives, nearly all is latency, so that it is what every call takes.
    """
    seconds = np.array([each.seconds for each in samples])
    modeled = np.array([each.modeled for each in samples])
    weights = np.array([each.weight for each in samples])
    kind, added = samples[0].kind, launch
    if is_small or (is_collective(kind) and kind.endswith("small")):
        added = max(float(np.median(seconds - modeled)), 0.0)
        ratios = seconds / (added + modeled)
        return _class_time(samples, added, 1.0, ratios)
    # A kernel below the launch still took some time for its work.
    factors = np.maximum(seconds - added, 0.05 * seconds) / modeled
    factor = float(f"{_quantile(factors, weights, 0.5):.3g}")
    return _class_time(samples, added, factor, seconds / (added + factor * modeled))


def _class_time(samples: Sequence[Sample], added: float, factor: float, ratios: Floats) -> ClassTime:
    """The fit of a class with the range of these ratios of measured to fitted times."""
    weights = np.array([each.weight for each in samples])
    low, high = (_quantile(ratios, weights, share) for share in (0.1, 0.9))
    if len(samples) < FEW_KERNELS:
        low, high = min(low, WIDE[0]), max(high, WIDE[1])
    low, high = (float(f"{each:.3g}") for each in (min(low, 1.0), max(high, 1.0)))
    return ClassTime(len(samples), float(f"{added:.3g}"), factor, low, high)


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """The value below which this share of the weights is."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(passed, share * passed[-1])), len(values) - 1)])


# --- as a file ---


def calibration_text(chip: ChipSpec, *, is_known: bool) -> str:
    """The TOML text that `--chip-file` reads; a known chip keeps its rates."""
    calibration = chip.calibration
    assert calibration is not None
    lines = [f"[chip.{_key(chip.chip)}]", f"source = {_string(calibration.source)}"]
    if not is_known:
        rates = ", ".join(f"{_key(kind)} = {rate.per_second:g}" for kind, rate in chip.flops.items())
        lines += [f"flops = {{ {rates} }}", f"memory = {chip.memory.per_second:g}"]
        lines += [f"links = {chip.links.per_second:g}"] if chip.links is not None else []
    lines.append(f"seconds_per_kernel = {calibration.seconds_per_kernel:g}")
    for kind, found in calibration.classes.items():
        kernels = f"{found.kernels} kernel{'s' if found.kernels != 1 else ''}"
        remark = f"{kernels}: wide" if found.kernels < FEW_KERNELS else kernels
        lines += [
            "",
            f"[chip.{_key(chip.chip)}.classes.{_string(kind)}]  # {remark}",
            f"kernels = {found.kernels}",
            f"seconds = {found.seconds:g}",
            f"factor = {found.factor:g}",
            f"low = {found.low:g}",
            f"high = {found.high:g}",
        ]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A name as a key of TOML: bare if it can be."""
    is_bare = bool(name) and name.isascii() and all(each.isalnum() or each in "-_" for each in name)
    return name if is_bare else _string(name)


def _string(text: str) -> str:
    """A string of TOML: names are data, so control characters are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'
