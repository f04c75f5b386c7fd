"""How much of what its devices could multiply did a program use? MFU and HFU, as MaxText and XProf define them.

Model FLOPs are those of matmuls and convolutions, without what is computed again to save memory; hardware FLOPs are all
that ran. Both are divided by what the devices could have done at their peak from the begin of each step to that of the
next one. Elementwise work counts in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.matmuls import Matmul, matmul_of, matmul_type
from hlo_cli.analysis.dataflow.dependencies import callees_first
from hlo_cli.analysis.dataflow.executions import MAX_EXECUTIONS, continues_async, runs_per_call
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
_MATMUL_CATEGORIES: Final = (opcodes.CONVOLUTION, opcodes.DOT, "matmul", opcodes.CUSTOM_CALL, "custom fusion")
"""Beginnings of XProf's categories of operations whose FLOPs are those of matmuls, where no module is at hand."""


@dataclass(frozen=True, slots=True)
class Utilization:
    """The FLOPs of matmuls in `seconds` of all devices together, and the parts of the peak that they are.

    `mfu` and `hfu` are None if the peak is unknown. `flops_of_type` are the hardware FLOPs by the type in which they
    are multiplied. `operations` are those that count, `unknown` those custom calls whose work is unknown. `guesses` say
    what is unknown of loops and conditionals without events inside, and what counts instead.
    """

    seconds: float
    model_flops: float
    hardware_flops: float
    mfu: float | None
    hfu: float | None
    flops_of_type: Mapping[str, float]
    operations: int
    unknown: tuple[str, ...]
    guesses: tuple[str, ...] = ()

    @property
    def recomputed_flops(self) -> float:
        """The FLOPs of what is computed again, which are no model FLOPs."""
        return self.hardware_flops - self.model_flops

    @property
    def model_flop_rate(self) -> float:
        """Model FLOPs per second and device."""
        return self.model_flops / self.seconds if self.seconds else 0.0

    @property
    def hardware_flop_rate(self) -> float:
        """The same with what is computed again."""
        return self.hardware_flops / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class _MatmulFlops:
    """The FLOPs of matmuls in one call of an operation in one type, and whether they are computed again."""

    kind: str
    flops: float
    is_recomputed: bool


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
    matmuls, unknown = _matmuls_of_operations(profile)
    calls = _calls(profile, np.where(rows, profile.codes, -1), len(profile.operations))
    counted = [(each, calls[number]) for number, several in matmuls.items() for each in several if calls[number]]
    if not counted or not seconds:
        return None
    of_type: dict[str, float] = {}
    for each, count in counted:
        of_type[each.kind] = of_type.get(each.kind, 0.0) + each.flops * count
    peaks = {kind: peak_of(kind) for kind in of_type}
    model, hardware = (
        sum(each.flops * count for each, count in counted if not (is_model and each.is_recomputed))
        for is_model in (True, False)
    )
    mfu = hfu = None
    if all(peaks.values()):
        mfu, hfu = (
            sum(
                each.flops * count / (peaks[each.kind] or 1.0)
                for each, count in counted
                if not (is_model and each.is_recomputed)
            )
            / seconds
            for is_model in (True, False)
        )
    names = tuple(
        dict.fromkeys(
            profile.operations[number].name for number, words in unknown.items() if calls[number] and not words
        )
    )
    guesses = tuple(dict.fromkeys(words for number, words in unknown.items() if calls[number] and words))
    number = sum(bool(calls[number]) for number in matmuls)
    return Utilization(seconds, model, hardware, mfu, hfu, of_type, number, names, guesses)


def utilization_by_step(
    profile: Profile, budget: StepBudget | None, peak_of: PeakOf
) -> Sequence[tuple[float, float | None]]:
    """The model FLOPs of each step, on all devices together, and its MFU; None for steps that are not whole."""
    count = len(profile.steps)
    matmuls, _ = _matmuls_of_operations(profile)
    model, at_peak = [0.0] * len(profile.operations), [0.0] * len(profile.operations)
    for number, several in matmuls.items():
        for each in several:
            if not each.is_recomputed:
                model[number] += each.flops
                at_peak[number] += each.flops / (peak_of(each.kind) or float("nan"))
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


@dataclass(frozen=True, slots=True)
class _Events:
    """What has events of its own: the instructions, and the computations that have some of them or reach them."""

    instructions: Set[Instruction]
    computations: Set[Computation]


def _events_of(profile: Profile) -> _Events:
    timed = {each.instruction for each in profile.operations if each.instruction is not None}
    reached: set[Computation] = set()
    modules = dict.fromkeys(each.program.module for each in profile.operations if each.program is not None)
    for module in filter(None, modules):
        for computation in callees_first((module.entry,)):
            if any(
                each in timed or not reached.isdisjoint(each.called_computations) for each in computation.instructions
            ):
                reached.add(computation)
    return _Events(timed, reached)


def _matmuls_of_operations(profile: Profile) -> tuple[Mapping[int, Sequence[_MatmulFlops]], Mapping[int, str]]:
    """The matmuls in one call of each operation that has some, and why those of others are not known, in words."""
    found: dict[int, Sequence[_MatmulFlops]] = {}
    unknown: dict[int, str] = {}
    events = _events_of(profile)
    for number, operation in enumerate(profile.operations):
        matmuls, doubt = _matmuls_of_operation(operation, events)
        if matmuls:
            found[number] = matmuls
        elif operation.instruction is not None and operation.instruction.opcode == opcodes.CUSTOM_CALL:
            unknown |= {number: ""} if operation.flops is None else {}
        if doubt:
            unknown[number] = doubt
    return found, unknown


def _matmuls_of_operation(operation: Operation, events: _Events) -> tuple[Sequence[_MatmulFlops], str]:
    instruction = operation.instruction
    if instruction is None:
        # The trace declares what a call does; rematerialization is known by its name alone.
        if not operation.flops or not operation.category.startswith(_MATMUL_CATEGORIES):
            return (), ""
        model = operation.flops if operation.model_flops is None else operation.model_flops
        recomputed = max(operation.flops - model, 0.0)
        is_recomputed = "rematted_computation/" in operation.op_name
        parts = (
            _MatmulFlops(_BF16, operation.flops - recomputed, is_recomputed),
            _MatmulFlops(_BF16, recomputed, True),
        )
        return [part for part in parts if part.flops], ""
    runs, doubt = _matmuls_of_call(instruction, events)
    found = [
        _MatmulFlops(matmul_type(matmul), matmul.flops * times, _is_recomputed(matmul.instruction, instruction))
        for matmul, times in runs
    ]
    # Attention and other kernels of libraries have the work that they declare.
    if not found and instruction.opcode == opcodes.CUSTOM_CALL and operation.flops:
        return [_MatmulFlops(compute_type(instruction), operation.flops, is_rematerialized(instruction))], ""
    return found, doubt


def _is_recomputed(matmul: Instruction, around: Instruction) -> bool:
    """Whether a matmul is computed again; a fusion has the op_name of its root, which may be another operation's."""
    if is_rematerialized(matmul):
        return True
    return (not matmul.metadata.op_name or ".remat" in around.name) and is_rematerialized(around)


def _matmuls_of_call(instruction: Instruction, events: _Events) -> tuple[Sequence[tuple[Matmul, int]], str]:
    """The matmuls of one call, each with how often it runs, and what of that is a guess, in words.

    Computations with events count by these. A loop that runs as one kernel, as small ones do on CPUs, has the matmuls
    of its body by its trip count, which is 1 if unknown, as in `executions_of`; a conditional has those of the branch
    with the fewest flops.
    """
    around = _async_start(instruction, events) if continues_async(instruction) else instruction
    if around is None:
        return (), ""
    own = matmul_of(instruction)
    computations = list(callees_first(around.called_computations))
    flops: dict[Computation, int] = {}
    doubts: list[str] = []

    def runs_of(caller: Instruction) -> Mapping[Computation, int]:
        """How often a call of an instruction runs the computations without events that it calls."""
        called = dict.fromkeys(caller.called_computations)
        if continues_async(caller) and caller is not around:
            return {}
        if caller.opcode == opcodes.CONDITIONAL:
            return _branches(caller, events, flops)
        return {
            each: min(1 if (runs := runs_per_call(caller, each)) is None else runs, MAX_EXECUTIONS)
            for each in called
            if each not in events.computations
        }

    for computation in computations:
        if computation in events.computations:
            continue
        matmuls = [each for each in map(matmul_of, computation.instructions) if each is not None]
        flops[computation] = sum(each.flops for each in matmuls) + sum(
            flops[called] * runs
            for each in computation.instructions
            if each.called_computations
            for called, runs in runs_of(each).items()
        )
    runs: dict[Computation, int] = {}

    def add_callees(caller: Instruction, times: int) -> None:
        counted = runs_of(caller)
        doubts.extend(_doubts(caller, counted, events, flops))
        for called, each in counted.items():
            runs[called] = min(runs.get(called, 0) + times * each, MAX_EXECUTIONS)

    add_callees(around, 1)
    found = [] if own is None else [(own, 1)]
    for computation in reversed(computations):
        if times := runs.get(computation, 0):
            for each in computation.instructions:
                if (matmul := matmul_of(each)) is not None:
                    found.append((matmul, times))
                if each.called_computations:
                    add_callees(each, times)
    return found, next(iter(doubts), "")


def _async_start(done: Instruction, events: _Events) -> Instruction | None:
    """The start whose work counts for a done: one without events of its own. None for an update."""
    start = done
    while continues_async(start) and start.operands:
        start = start.operands[0]
    return start if start not in events.instructions and done.opcode.endswith("-done") else None


def _branches(caller: Instruction, events: _Events, flops: Mapping[Computation, int]) -> Mapping[Computation, int]:
    """The branches that count for a conditional: none if those that ran have events, else the one of fewest flops."""
    branches = caller.called_computations
    if not branches or not events.computations.isdisjoint(branches):
        return {}
    return {min(branches, key=lambda each: flops.get(each, 0)): 1}


def _doubts(
    caller: Instruction, counted: Mapping[Computation, int], events: _Events, flops: Mapping[Computation, int]
) -> Iterator[str]:
    """Why the matmuls of a caller are a guess, in words; nothing if they are not."""
    if caller.opcode == opcodes.CONDITIONAL:
        if len({flops.get(each, 0) for each in caller.called_computations if counted}) > 1:
            yield f"which branch of {caller.name} ran, counted as that of fewest flops"
    elif caller.opcode == opcodes.WHILE and any(flops.get(each) for each in counted):
        is_known = runs_per_call(caller, caller.called_computations[0]) is not None
        yield from () if is_known else (f"the trip count of {caller.name}, counted as 1",)
