"""How much of what its devices could multiply did a program use? MFU and HFU, as MaxText and XProf define them.

Model FLOPs are those of matmuls and convolutions, without what is computed again to save memory; hardware FLOPs are all
that ran. Both are divided by what the devices could have done at their peak from the begin of each step to that of the
next one. Elementwise work counts in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.matmuls import Matmul, matmul_of, matmul_type
from hlo_cli.analysis.dataflow.dependencies import callees_first
from hlo_cli.analysis.dataflow.executions import runs_per_call
from hlo_cli.analysis.origin.scopes_and_moves import is_rematerialized
from hlo_cli.analysis.profile.profile import NO_STEP, Floats, Operation, Profile
from hlo_cli.analysis.profile.step_budget import StepBudget
from hlo_cli.analysis.schedule.kernel_times import compute_type
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.traces.trace import PS, Integers

PeakOf = Callable[[str], float | None]
"""The FLOP/s of a device for an element type, as `matmul_type` has it; None if unknown."""
_BF16: Final = "bf16"  # the type of the peak that traces state
_MATMUL_CATEGORIES: Final = ("convolution", "dot", "matmul", "custom-call", "custom fusion")
"""Beginnings of XProf's categories of operations whose FLOPs are those of matmuls, where no module is at hand."""


@dataclass(frozen=True, slots=True)
class Utilization:
    """The FLOPs of matmuls in `seconds` of all devices together, and the parts of the peak that they are.

    `mfu` and `hfu` are None if the peak is unknown. `flops_of_type` are the hardware FLOPs by the type in which they
    are multiplied. `operations` are those that count, `unknown` those custom calls whose work is unknown.
    """

    seconds: float
    model_flops: float
    hardware_flops: float
    mfu: float | None
    hfu: float | None
    flops_of_type: Mapping[str, float]
    operations: int
    unknown: tuple[str, ...]

    @property
    def recomputed_flops(self) -> float:
        """The FLOPs of what is computed again, which are no model FLOPs."""
        return self.hardware_flops - self.model_flops

    @property
    def model_flop_rate(self) -> float:
        """Model FLOPs per second and device."""
        return self.model_flops / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class _Work:
    """The FLOPs of one call of an operation in one type, and whether they are computed again."""

    kind: str
    flops: float
    is_again: bool


def utilization_of(profile: Profile, budget: StepBudget | None, peak_of: PeakOf) -> Utilization | None:
    """The utilization in all whole steps; without steps, in the whole trace. None if no matmul ran.

    >>> from hlo_cli import profile
    >>> from hlo_cli.analysis.profile.step_budget import step_budget
    >>> traced = profile("fixtures/traces/cpu_steps/trace.xplane.pb")
    >>> found = utilization_of(traced, step_budget(traced), lambda kind: 100e9)
    >>> found.model_flops == found.hardware_flops, 0 < found.mfu < 1
    (True, True)
    """
    rows = np.ones(len(profile.codes), bool)
    seconds = profile.total_ps * PS
    if budget is not None and len(budget.steps):
        seconds = float(budget.parts_ps.sum()) * PS
        rows = np.isin(profile.step_codes, np.unique(budget.steps))
    works, unknown = _works(profile)
    calls = _calls(profile, np.where(rows, profile.codes, -1), len(profile.operations))
    counted = [(work, calls[number]) for number, each in works.items() for work in each if calls[number]]
    if not counted or not seconds:
        return None
    of_type: dict[str, float] = {}
    for work, count in counted:
        of_type[work.kind] = of_type.get(work.kind, 0.0) + work.flops * count
    peaks = {kind: peak_of(kind) for kind in of_type}
    model, hardware = (
        sum(work.flops * count for work, count in counted if not (is_model and work.is_again))
        for is_model in (True, False)
    )
    mfu = hfu = None
    if all(peaks.values()):
        mfu, hfu = (
            sum(
                work.flops * count / (peaks[work.kind] or 1.0)
                for work, count in counted
                if not (is_model and work.is_again)
            )
            / seconds
            for is_model in (True, False)
        )
    names = tuple(dict.fromkeys(profile.operations[number].name for number in unknown if calls[number]))
    number = sum(bool(calls[number]) for number in works)
    return Utilization(seconds, model, hardware, mfu, hfu, of_type, number, names)


def utilization_by_step(
    profile: Profile, budget: StepBudget | None, peak_of: PeakOf
) -> Sequence[tuple[float, float | None]]:
    """The model FLOPs of each step, on all devices together, and its MFU; None for steps that are not whole."""
    count = len(profile.steps)
    works, _ = _works(profile)
    model, at_peak = [0.0] * len(profile.operations), [0.0] * len(profile.operations)
    for number, each in works.items():
        for work in each:
            if not work.is_again:
                model[number] += work.flops
                at_peak[number] += work.flops / (peak_of(work.kind) or float("nan"))
    weights = _row_calls(profile)
    inside = profile.step_codes != NO_STEP
    steps = profile.step_codes[inside]
    flops, needed = (
        np.bincount(steps, (np.array(each)[profile.codes] * weights)[inside], count).tolist()
        for each in (model, at_peak)
    )
    seconds = [0.0] * count
    if budget is not None:
        seconds = (np.bincount(budget.steps, budget.parts_ps.sum(1), count) * PS).tolist()
    return [
        (step_flops, peak_seconds / step_seconds if step_seconds and peak_seconds == peak_seconds else None)
        for step_flops, peak_seconds, step_seconds in zip(flops, needed, seconds, strict=True)
    ]


def _row_calls(profile: Profile) -> Floats | Integers:
    return profile.occurrences.counts if profile.call_weights is None else profile.call_weights


def _calls(profile: Profile, codes: Integers, count: int) -> Sequence[float]:
    """The calls of each operation; rows with a code below 0 are left out."""
    kept = codes >= 0
    result: list[float] = np.bincount(codes[kept], _row_calls(profile)[kept], count).tolist()
    return result


def _works(profile: Profile) -> tuple[Mapping[int, Sequence[_Work]], Sequence[int]]:
    """The matmuls in one call of each operation that has some, and the custom calls whose work is unknown."""
    works: dict[int, Sequence[_Work]] = {}
    unknown = []
    timed = {each.instruction for each in profile.operations if each.instruction is not None}
    for number, operation in enumerate(profile.operations):
        if found := _works_of(operation, timed):
            works[number] = found
        elif operation.instruction is not None and operation.instruction.opcode == opcodes.CUSTOM_CALL:
            unknown += [number] if operation.flops is None else []
    return works, unknown


def _works_of(operation: Operation, timed: set[Instruction]) -> Sequence[_Work]:
    instruction = operation.instruction
    if instruction is None:
        # The trace declares what a call does; rematerialization is known by its name alone.
        if not operation.flops or not operation.category.startswith(_MATMUL_CATEGORIES):
            return ()
        model = operation.flops if operation.model_flops is None else operation.model_flops
        again = max(operation.flops - model, 0.0)
        is_again = "rematted_computation/" in operation.op_name
        parts = (_Work(_BF16, operation.flops - again, is_again), _Work(_BF16, again, True))
        return [part for part in parts if part.flops]
    found = [
        _Work(matmul_type(matmul), matmul.flops * runs, _is_again(matmul.instruction, instruction))
        for matmul, runs in _matmuls(instruction, timed)
    ]
    # Attention and other kernels of libraries have the work that they declare.
    if not found and instruction.opcode == opcodes.CUSTOM_CALL and operation.flops:
        return [_Work(compute_type(instruction), operation.flops, is_rematerialized(instruction))]
    return found


def _is_again(matmul: Instruction, around: Instruction) -> bool:
    """Whether a matmul is computed again; a fusion has the op_name of its root, which may be another operation's."""
    if is_rematerialized(matmul):
        return True
    return (not matmul.metadata.op_name or ".remat" in around.name) and is_rematerialized(around)


def _matmuls(instruction: Instruction, timed: set[Instruction]) -> Iterator[tuple[Matmul, int]]:
    """The matmuls of one call, each with how often it runs; those of computations with timed operations are theirs.

    A loop that runs as one kernel, as small ones do on CPUs, has those of its body by its trip count.
    """
    if (own := matmul_of(instruction)) is not None:
        yield own, 1
    runs: dict[Computation, int] = {}

    def add_callees(caller: Instruction, times: int) -> None:
        for called in caller.called_computations:
            if not any(each in timed for each in called.instructions):
                runs[called] = runs.get(called, 0) + times * (runs_per_call(caller, called) or 1)

    add_callees(instruction, 1)
    for computation in reversed(list(callees_first(instruction.called_computations))):
        if times := runs.get(computation, 0):
            for each in computation.instructions:
                if (matmul := matmul_of(each)) is not None:
                    yield matmul, times
                add_callees(each, times)
