"""Do the results of two modules agree for a set of arguments, and for all sets that it takes to compare everything?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.comparison.coverage import Choice, Coverage, Side, choices, missing_in, undecided_among, unmet_in
from hlo_cli.analysis.comparison.verdict import (
    MODES,
    NOISES,
    ROUNDING,
    Distance,
    Magnitude,
    Rounding,
    Steady,
    are_compared,
    closeness,
    distances,
    larger,
    magnitudes,
    rounding_of,
    verdict_of,
    with_magnitudes,
)
from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import (
    Ranges,
    argument_ranges,
    common_ranges,
    made_up_arguments,
    whole_arguments,
)
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.evaluate.host import Shared, Stub, UnknownFunctions, shared_by
from hlo_cli.analysis.evaluate.program import Noise, Observer
from hlo_cli.analysis.evaluate.run import Probe, Run, run
from hlo_cli.analysis.evaluate.settings import DEFAULT_LIMITS, Limits
from hlo_cli.analysis.matching.match_modules import match
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, ShapeIndex
from hlo_cli.source import HloError

# --- the runs of both modules ---


AGREEING: Final = ("identical", "rounding", "overflow")
"""The verdicts on results of one program."""


class RunSetting(NamedTuple):
    """What all runs of a comparison share; `choice` changes made-up arguments."""

    modules: tuple[Module, Module]
    args: Sequence[Value] | None
    seed: int
    devices: int | None
    limits: Limits | None
    progress: Callable[[int], None] | None
    stubs: Mapping[str, Stub] | None
    feed: Sequence[Array] | None
    shared: Shared
    ranges: Ranges
    choice: Choice | None = None

    def run_both(
        self,
        floats: Floats,
        *,
        observe: tuple[Observer | None, Observer | None] = (None, None),
        noise: Noise | None = None,
    ) -> tuple[Run, Run]:
        """A run of each module; both of a pair of observers see the values of their own one."""
        first, second = self.shared.pair()
        return self._run(0, floats, first, observe[0], noise), self._run(1, floats, second, observe[1], noise)

    def arguments(self, number: int, floats: Floats) -> Sequence[Value] | None:
        """Those of one module; None if they are made up by seed alone."""
        if self.choice is None:
            return self.args
        made = whole_arguments if runs_on_devices(self.modules[number]) else made_up_arguments
        arguments = made(self.modules[number], seed=self.choice.seed, floats=floats, ranges=self.ranges)
        return self.choice.applied(arguments)

    def run_one(self, number: int, noise: Noise) -> Run:
        """A run of one module with errors; made-up functions of the second one need the first to run before it."""
        if self.shared.functions and number:
            return self.run_both("widen", noise=noise)[1]
        return self._run(number, "widen", self.shared.pair()[number], None, noise)

    def run_old(self, observer: Observer | None = None) -> Run:
        """A widened run of the first module."""
        return self._run(0, "widen", self.shared.pair()[0], observer)

    def observe_new(self, observer: Observer) -> None:
        """Shows an observer the values of a widened run of the second module."""
        if self.shared.functions:  # what they return in the second program depends on the first
            self.run_both("widen", observe=(None, observer))
        else:
            self._run(1, "widen", self.shared.pair()[1], observer)

    def _run(
        self,
        number: int,
        floats: Floats,
        unknown: UnknownFunctions | None,
        observe: Observer | None,
        noise: Noise | None = None,
    ) -> Run:
        return run(
            self.modules[number],
            self.arguments(number, floats),
            seed=self.seed,
            floats=floats,
            devices=self.devices,
            observe=observe,
            limits=self.limits,
            progress=self.progress,
            stubs=self.stubs,
            feed=self.feed,
            unknown=unknown,
            noise=noise,
            ranges=self.ranges,
            with_met=floats == "widen" and noise is None,
        )


def result_shape(module: Module) -> Shape:
    """The shape of the result; HloError if the entry has no instructions."""
    root = module.entry.root
    if root is None:
        raise HloError(f"the entry of {module.name} has no instructions")
    return root.shape


# --- one set of arguments ---


class ComparedRuns(NamedTuple):
    """The runs of both modules with one set of arguments, and the distances of their results."""

    setting: RunSetting
    shapes: tuple[Shape, Shape]
    is_rewrite: bool
    expected: Mapping[ShapeIndex, Rounding]
    exact: tuple[Run, Run]
    widened: tuple[Run, Run]
    distances: tuple[Distance, ...]

    @property
    def executed(self) -> int:
        """The executed instructions of all runs."""
        return sum(each.executed for each in (*self.exact, *self.widened))


def compared_runs(
    setting: RunSetting,
    shapes: tuple[Shape, Shape],
    is_rewrite: bool,
    expected: Mapping[ShapeIndex, Rounding],
    runs: Sequence[tuple[Run, Run]] | None = None,
) -> ComparedRuns:
    """Runs both modules in both modes; finds what elements are computed of if more than their rounding differs."""
    exact, widened = runs or map(setting.run_both, MODES)
    samples = _Samples(setting, widened, shapes)
    results = distances(exact, widened, shapes, is_rewrite=is_rewrite, expected=expected)
    # Each sample takes runs: they are added while they may still change the verdict.
    while verdict_of(results) in ("approximation", "different"):
        if not samples.add(max((each.widened for each in results if each.is_known), default=0.0)):
            break
        results = with_magnitudes(results, widened, shapes, samples.known)
    return ComparedRuns(setting, shapes, is_rewrite, expected, exact, widened, results)


def compare_once(
    old: Module,
    new: Module,
    args: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    devices: int | None = None,
    limits: Limits | None = None,
    is_rewrite: bool = False,
    stubs: Mapping[str, Stub] | None = None,
    feed: Sequence[Array] | None = None,
    choice: Choice | None = None,
    ranges: Ranges | None = None,
    runs: Sequence[tuple[Run, Run]] | None = None,
) -> tuple[tuple[Distance, ...], tuple[frozenset[Computation], frozenset[Computation]]]:
    """The distances of the results of two modules with one set of arguments, and the computations of each that ran.

    `runs` are those of both modules in both modes, if they have been made; `ranges` are those of made-up arguments, by
    default what both modules need. Else as `compare_runs`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> [each.verdict for each in compare_once(module, module)[0]]
    ['identical']
    """
    ranges = common_ranges(old, new) if ranges is None else ranges
    shared = shared_by(old, new)
    setting = RunSetting((old, new), args, seed, devices, limits, None, stubs, feed, shared, ranges, choice)
    found = compared_runs(setting, (result_shape(old), result_shape(new)), is_rewrite, rounding_of(new), runs)
    return found.distances, (found.exact[0].ran | found.widened[0].ran, found.exact[1].ran | found.widened[1].ran)


def revealing_choices(
    module: Module, ran: frozenset[Computation], *, seed: int = 0, limits: Limits | None = None, before: int = 0
) -> tuple[Choice, ...]:
    """The made-up arguments that run what has not run yet of a module, those that run nothing new left out.

    `before` are the instructions that were executed with the arguments of the seed.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> revealing_choices(module, frozenset())
    ()
    """
    ran_so_far, revealing = set(ran), []

    def missing() -> tuple[Computation, ...]:
        return missing_in(module, ran_so_far)

    shared, ranges = shared_by(module, module), argument_ranges(module)
    setting = _finite(RunSetting((module, module), None, seed, None, limits, None, None, None, shared, ranges), before)
    executed = 0
    for choice in choices((module,), seed, lambda: (missing(),), lambda: False):
        left = missing()
        if not left or executed > _MAX_EXECUTED:
            break
        chosen = setting._replace(choice=choice)
        try:
            run = chosen.run_old()
        except HloError:
            continue
        ran_so_far |= run.ran
        executed += run.executed
        if missing() != left:
            revealing.append(choice)
    return tuple(revealing)


def _finite(setting: RunSetting, executed: int) -> RunSetting:
    """A setting for arguments that may make loops endless, and those in them: a run is given up early.

    `executed` are the instructions of a run with the arguments of the seed.
    """
    limits, report = setting.limits or DEFAULT_LIMITS, setting.progress

    def progress(count: int) -> None:
        if count > _most_executed(executed):
            raise HloError("with random arguments, a loop does not end in time")
        if report is not None:
            report(count)

    limits = replace(limits, max_iterations=min(limits.max_iterations, _MAX_ITERATIONS))
    return setting._replace(limits=limits, progress=progress)


def _most_executed(executed: int) -> int:
    return _MAX_EXECUTED + _LONGER * executed


def _runs_or_endless(setting: RunSetting, executed: int) -> tuple[Run, Run] | Side | None:
    """The widened runs of both modules with arguments that may be bad for both, or which module alone does not finish.

    The other one has to be done long before its run is given up, as the same program may take a few more instructions.
    """
    runs: list[Run | None] = []
    unknown = setting.shared.pair()
    for number in (0, 1):
        try:
            runs.append(setting._run(number, "widen", unknown[number], None))
        except HloError:  # a loop without an end, or devices that go different ways: not what arguments are for
            if setting.shared.functions:  # what they return in the second program depends on the first
                return None
            runs.append(None)
    match runs:
        case Run() as one, Run() as two:
            return one, two
        case Run() as done, None if done.executed * _LONGER <= _most_executed(executed):
            return "second"
        case None, Run() as done if done.executed * _LONGER <= _most_executed(executed):
            return "first"
    return None


class _Samples:
    """Runs with errors, which show what the elements of results are computed of; `known` are their magnitudes."""

    def __init__(self, setting: RunSetting, widened: tuple[Run, Run], shapes: tuple[Shape, Shape]) -> None:
        self.known: Mapping[ShapeIndex, Magnitude] = {}
        self._setting = setting
        self._widened = widened
        self._shapes = shapes
        self._runs: tuple[list[list[Run]], list[list[Run]]] = ([[] for _ in NOISES], [[] for _ in NOISES])
        self._found: list[Mapping[ShapeIndex, Magnitude]] = [{}, {}]
        # Unsteady elements are known after the first sample of each size, magnitudes only after more.
        self._steps = list(_STEPS)

    def add(self, worst: float) -> bool:
        """Adds runs of one module that may explain the worst distance; False if none is left.

        The first module comes first: what explains the distance there needs no run of the second, as the larger
        magnitude counts. False as well if a run with errors goes another way and fails; before both have been looked
        at, nothing is known then.
        """
        # A first sample may bring a distance so far down that the next ones explain the rest of it: none is dropped.
        step = next((each for each in self._steps if each.is_first or worst <= _HOPELESS), None)
        if step is None:
            return False
        self._steps.remove(step)
        runs = self._runs[step.module]
        try:
            for at in step.sizes:
                run = self._setting.run_one(step.module, Noise(NOISES[at], len(runs[at]) + _STREAM * at))
                runs[at].append(run)
        except HloError:
            if any(each.is_first for each in (step, *self._steps)):
                self.known = {}
            self._steps = []
            return False
        disturbed = [[each.result for each in run] for run in runs]
        at = step.module
        self._found[at] = magnitudes(self._widened[at].result, disturbed, self._shapes[at])
        self.known = larger(*self._found)
        return True


class _SampleStep(NamedTuple):
    """Runs of one module with errors of some of the sizes `NOISES`; the first of each size cannot be done without."""

    module: int
    sizes: tuple[int, ...]
    is_first: bool = False


_STEPS: Final = (
    _SampleStep(0, (0,), is_first=True),
    _SampleStep(0, (1,), is_first=True),  # a large error says whether small ones may be trusted; one says enough
    _SampleStep(0, (0,)),
    _SampleStep(1, (0, 1), is_first=True),
    _SampleStep(1, (0,)),
    _SampleStep(0, (0,)),
    _SampleStep(1, (0,)),
)
"""Small errors six times, three in each module: all of them show less than a tenth of a magnitude once in a million
times."""
_STREAM: Final = 64
"""The first stream of large errors, which have other signs than small ones and are a sample of their own."""
_HOPELESS: Final = 1e-2
"""The distance from which on no further sample will explain it: a magnitude is not missed by a factor of 10,000."""


def widened_distance(compared: ComparedRuns, seed: int) -> float:
    """The largest widened distance with another seed."""
    setting = compared.setting._replace(seed=seed)
    runs = setting.run_both("widen")
    samples = _Samples(setting, runs, compared.shapes)
    while (apart := _apart(runs, compared.shapes, samples.known)) > ROUNDING and samples.add(apart):
        pass
    return apart


def _apart(
    runs: tuple[Run, Run],
    shapes: tuple[Shape, Shape],
    magnitudes: Mapping[ShapeIndex, Magnitude],
    *,
    is_rewrite: bool = False,
    steady: Steady | None = None,
) -> float:
    """The largest widened distance of all results whose place is known."""
    arrays = zip(*(arrays_of(each.result, shape) for each, shape in zip(runs, shapes, strict=True)), strict=True)
    unknown = frozenset() if is_rewrite else runs[0].unknown | runs[1].unknown
    return max(
        (
            closeness(a, b, magnitudes.get(index), steady=steady)
            for (index, a, _), (_, b, _) in arrays
            if index not in unknown
        ),
        default=0.0,
    )


# --- more sets of arguments, until everything was compared ---

_MAX_EXECUTED: Final = 300_000  # with the next limit a few seconds, as far as nothing slows numpy down
_MAX_OPERATIONS: Final = 4_000_000_000
"""The instructions and scalar operations of all runs with further arguments: a few seconds."""
_FIRST_TWO: Final = 2
"""The choices after which infinite elements are finite, if they ever are."""
_SHARE: Final = 4
"""Which part of that is spent although everything has run."""
_LEAST_CHOICES: Final = 5
"""So many choices are tried in any case if something did not run, as one may be enough."""
_LONGER: Final = 10
"""By which factor a run may take longer than that of the seed, as arguments decide on iterations."""
_MAX_ITERATIONS: Final = 10_000
"""The iterations of a loop with arguments that may make it endless."""


class _Evidence:
    """What ran and was compared with all arguments so far."""

    def __init__(self, compared: ComparedRuns) -> None:
        self._modules = compared.setting.modules
        self._ran: list[set[Computation]] = [set(), set()]
        self._met: list[set[Instruction]] = [set(), set()]
        self._met_with_nan: list[set[Instruction]] = [set(), set()]
        self._left: dict[ShapeIndex, Array] = {}
        self._shapes = compared.shapes
        self._is_given = compared.setting.args is not None
        self._kept = 0
        self.endless: tuple[Side, Choice] | None = None
        self._pairs: list[tuple[Instruction, Instruction]] | None = None
        self.is_infinite = any(
            bool(np.isinf(array).any())
            for _, array, _ in arrays_of(compared.widened[0].result, compared.shapes[0])
            if array.dtype.kind in "fc"
        )
        self.is_large = any(
            float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) > 1 / ROUNDING
            for _, array, _ in arrays_of(compared.widened[0].result, compared.shapes[0])
            if array.dtype.kind in "fc"
        )
        """Whether a term of the size of an argument would be taken for rounding in a result."""
        self.argument_sets = 0
        self.executed = 0
        self.operations = 0.0
        for runs in (compared.exact, compared.widened):
            self.add(runs, is_widened=runs is compared.widened, is_proof=True)
        self._first = self.executed, self.operations

    def add(
        self, runs: tuple[Run, Run], *, is_widened: bool = True, is_proof: bool, is_revealing: bool = False
    ) -> None:
        """Adds the runs of both modules; elements are compared by widened ones.

        What comparisons met counts with `is_proof`: if the results agree without regard to rounding, which may hide the
        other course that one of the modules takes, and if none of their elements is NaN in both. With `is_revealing`,
        only in computations that have not run before: what decides was changed, such as the trip count of a loop, whose
        other conditions no longer matter.
        """
        known_before = [frozenset(ran) if is_revealing else frozenset[Computation]() for ran in self._ran]
        for ran, ended in zip(self._ran, runs, strict=True):
            # NaN in both is compared by nobody; where constants make it, it is as good as a number.
            ran |= ended.ran
            self.executed += ended.executed
            self.operations += ended.estimate.operations
        # Both modes run the same computations; only widened values are free of rounding.
        if not is_widened:
            return
        self.argument_sets += 1
        is_compared = self._add_compared(runs)
        for met, met_with_nan, ended, before in zip(self._met, self._met_with_nan, runs, known_before, strict=True):
            found = {one for one in ended.met if is_proof and one.computation not in before}
            met_with_nan |= found
            if is_compared:
                met |= found

    def _add_compared(self, runs: tuple[Run, Run]) -> bool:
        """Adds the elements of results that are compared; returns whether all are."""
        is_whole = True
        pairs = (arrays_of(run.result, shape) for run, shape in zip(runs, self._shapes, strict=True))
        for (index, old, leaf), (_, new, _) in zip(*pairs, strict=True):
            left = ~are_compared(old, new) if old.size or not leaf.elements else np.ones((), bool)
            before = self._left.get(index)
            self._left[index] = left if before is None else _left_by_both(before, left)
            is_whole = is_whole and not left.any()
        return is_whole

    def has_time(self, number: int) -> bool:
        """Whether another set of arguments, of this number, is worth its time."""
        executed, operations = self.executed - self._first[0], self.operations - self._first[1]
        # Infinite results are compared after the first two choices, which make values small: time is well spent.
        if self.is_infinite and number <= _FIRST_TWO + self.is_large:
            return True
        if self.is_large and number == 1:  # those that make results smaller
            return True
        if not self.coverage.is_whole:
            # Five sets in any case: a run of a large module alone may use up the limits.
            return number <= _LEAST_CHOICES or (executed <= _MAX_EXECUTED and operations <= _MAX_OPERATIONS)
        most = _MAX_EXECUTED // _SHARE, _MAX_OPERATIONS // _SHARE
        # Half of the first runs counts, so that modules of which one run is slow are not run four more times.
        return executed + self._first[0] // 2 <= most[0] and operations + self._first[1] / 2 <= most[1]

    def keep_nan(self) -> None:
        """Takes NaN for numbers like others, as they are those of constants, but for results that are nothing else."""
        self._kept = sum(int(left.sum()) for left in self._left.values() if not left.all())
        self._left = {index: left for index, left in self._left.items() if left.all()}
        if not self._left:
            self._met = self._met_with_nan

    @property
    def coverage(self) -> Coverage:
        """The coverage so far."""
        missing = self.missing
        count = sum(len(executions_of(each)) for each in self._modules)
        absent = sum(map(len, missing))
        unmet = self.unmet
        return Coverage(
            count - absent,
            count,
            self.argument_sets,
            (*missing[0], *missing[1]),
            self.uncompared,
            (*unmet[0], *unmet[1]),
            self._undecided() if all(unmet) else (),
            self.endless,
            self._is_given,
            self._kept,
        )

    @property
    def missing(self) -> tuple[tuple[Computation, ...], tuple[Computation, ...]]:
        """The computations of each module that did not run."""
        one, two = (missing_in(module, ran) for module, ran in zip(self._modules, self._ran, strict=True))
        return one, two

    @property
    def unmet(self) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...]]:
        """The comparisons by order of each module whose operands were never equal."""
        one, two = (unmet_in(*each) for each in zip(self._modules, self._ran, self._met, strict=True))
        return one, two

    def _undecided(self) -> tuple[tuple[Instruction, Instruction], ...]:
        if self._pairs is None:
            pairs = match(*self._modules).pairs
            olds, news = (each.nodes for each in pairs.plain)
            self._pairs = [(olds[a], news[b]) for a, b in pairs.found]
        return undecided_among(self._pairs, self._ran, self._met)

    @property
    def uncompared(self) -> tuple[ShapeIndex, ...]:
        """The results with elements that were never compared."""
        return tuple(index for index, left in self._left.items() if left.any())


def _left_by_both(first: Array, second: Array) -> Array:
    """The elements that are left by both; arrays of sizes at run time may have any size, and then one is enough."""
    if first.shape == second.shape:
        return first & second
    return np.asarray(bool(first.all()) and bool(second.all()) and bool(first.size) and bool(second.size))


def cover(compared: ComparedRuns) -> tuple[ComparedRuns | None, Coverage]:
    """Changes arguments until everything has run and was compared, if results agree and arguments are made up.

    Returns the comparison with the first arguments with which results differ, None without any, and the coverage.
    """
    evidence, setting = _Evidence(compared), compared.setting
    is_known = verdict_of(compared.distances) in AGREEING
    # Given arguments are not to be changed, and without parameters there is nothing to change.
    if is_known and setting.args is None and setting.modules[0].entry.parameters:
        other = _vary(compared, evidence)
        if other is not None:
            return other, evidence.coverage
    # NaN of constants that no arguments replace by a number is as good as one, unless there is nothing else.
    if evidence.uncompared and _has_constant_nan(setting):
        evidence.keep_nan()
    return None, evidence.coverage


def _vary(compared: ComparedRuns, evidence: _Evidence) -> ComparedRuns | None:
    """Adds runs with other arguments; returns the first ones with which results differ, None without any."""
    setting = compared.setting
    executed = max(each.executed for each in compared.widened)
    finite = _finite(setting, executed)
    further = choices(
        setting.modules,
        setting.seed,
        lambda: evidence.missing,
        lambda: bool(evidence.uncompared),
        is_infinite=evidence.is_infinite,
        is_large=evidence.is_large,
        unmet=lambda: evidence.unmet,
    )
    for choice in further:
        if not evidence.has_time(choice.number):
            break
        chosen = setting._replace(choice=choice)
        runs = _runs_or_endless(finite._replace(choice=choice), executed)
        if not isinstance(runs, tuple):
            evidence.endless = evidence.endless or (runs and (runs, choice))
            continue
        agrees = _apart(runs, compared.shapes, {}, is_rewrite=compared.is_rewrite) <= ROUNDING
        if not agrees and _differs(chosen, runs, compared):
            other = compared_runs(chosen, compared.shapes, compared.is_rewrite, compared.expected)
            if verdict_of(other.distances) not in AGREEING:
                evidence.add(runs, is_proof=False)
                return other
        # A changed trip count or branch changes what conditions meet, hence only computations that are new count.
        evidence.add(runs, is_proof=agrees, is_revealing=bool(choice.deciding) and choice.sums is None)
    return None


def _has_constant_nan(setting: RunSetting) -> bool:
    """Whether constants are all that makes NaN, in both modules."""
    probes = Probe("nan"), Probe("nan")
    setting.run_both("widen", observe=probes)
    found = (each for probe, module in zip(probes, setting.modules, strict=True) for each in probe.occurrences(module))
    return all(each.instruction.opcode == opcodes.CONSTANT for each in found if each.is_maker)


def _differs(setting: RunSetting, runs: tuple[Run, Run], compared: ComparedRuns) -> bool:
    """Whether results differ where errors of rounding cannot be the reason: arguments may meet a bound exactly."""
    shapes, is_rewrite = compared.shapes, compared.is_rewrite
    samples = _Samples(setting, runs, shapes)
    # At whole numbers a quotient by an exact zero may be NaN in one program and infinite in the other.
    steady: Steady = "finite" if setting.choice is not None and setting.choice.is_whole else "all"
    apart = float("inf")
    while apart > ROUNDING and samples.add(0.0 if not samples.known else apart):
        apart = _apart(runs, shapes, samples.known, is_rewrite=is_rewrite, steady=steady)
    return bool(samples.known) and apart > ROUNDING
