"""Whether two modules compute the same for the same arguments, or a part what it computes in the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.comparison.coverage import Choice, Coverage, Side, choices, missing_in, undecided_among, unmet_in
from hlo_cli.analysis.comparison.fingerprints import TOLERANCE, Prints, Trace, arrays_in
from hlo_cli.analysis.comparison.first_difference import (
    MIN_SHARE,
    DifferingValues,
    FirstDifference,
    first_difference,
    scalar_difference,
    values_at,
)
from hlo_cli.analysis.comparison.repairs import Runner, Variant, find_repair, is_healed, material_of, runner_of
from hlo_cli.analysis.comparison.verdict import (
    MODES,
    NOISES,
    ROUNDING,
    Distance,
    Magnitude,
    Rounding,
    Steady,
    Verdict,
    are_compared,
    closeness,
    distance,
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
from hlo_cli.analysis.evaluate.devices import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.host import Shared, Stub, UnknownFunctions, check_outfeeds, shared_by
from hlo_cli.analysis.evaluate.program import Noise, Observer
from hlo_cli.analysis.evaluate.run import Probe, Run, evaluate, run
from hlo_cli.analysis.evaluate.settings import DEFAULT_LIMITS, Limits
from hlo_cli.analysis.matching.match_modules import match
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, check_module, of_module
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TokenShape
from hlo_cli.source import HloError

# --- two modules ---
# Two modules run with the same arguments: whether they compute the same, and where they begin to differ.


_OTHER_SEEDS: Final = (1, 2)
"""Added to the seed to repeat a comparison with other arguments."""
AGREEING: Final = ("identical", "rounding", "overflow")
"""The verdicts on results of one program."""
_DISCONTINUOUS: Final = frozenset(
    (opcodes.COMPARE, opcodes.SORT, opcodes.TOPK, "ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign")
)


class _Setting(NamedTuple):
    """What all runs of a comparison share."""

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
        return self._run(0, "widen", self.shared.pair()[0], observer)

    def observe_new(self, observer: Observer) -> None:
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


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The distance of each result, in the order of the results, and the first instruction at which the modules part.

    `first_difference` is None if the modules compute the same, and if the instruction is unknown; `values` are what
    goes into it and comes out. `executed` counts the instructions of all runs. `other_seeds` are the largest widened
    distances with other made-up arguments, where a comparison, a sort, or a conversion to integers may decide.
    `assumed` are the targets of unknown meaning that both call, whose results were made up: the same for equal
    operands. `coverage` is what ran; if it is not whole, results that agree are `uncovered`, unless that is allowed.
    `choice` made the arguments, if it is not the seed alone.
    """

    distances: tuple[Distance, ...]
    first_difference: FirstDifference | None
    executed: int
    values: DifferingValues | None = None
    other_seeds: Mapping[int, float] | None = None
    assumed: tuple[str, ...] = ()
    coverage: Coverage = Coverage()
    choice: Choice | None = None
    allow_uncovered: bool = False

    def __repr__(self) -> str:
        counts = f"{brief_count(len(self.distances), 'results')}, {brief_count(self.executed, 'instructions')} executed"
        return f"<RunComparison {self.verdict}: {counts}>"

    @property
    def verdict(self) -> Verdict:
        """The verdict on all results: that of the worst.

        If the results agree with all other seeds, a discontinuity may make them differ. `uncovered` if they agree as
        far as they are compared.
        """
        on_results = self.verdict_on_results
        if on_results in AGREEING and not (self.allow_uncovered or self.coverage.is_whole):
            return "uncovered"
        # A result that agrees with two other seeds is no other program: rounding decided a comparison once.
        if on_results == "different" and self.other_seeds and max(self.other_seeds.values()) <= ROUNDING:
            return "discontinuity"
        return on_results

    @property
    def verdict_on_results(self) -> Verdict:
        """The worst verdict on a result, whatever ran."""
        return verdict_of(self.distances)

    @property
    def is_same(self) -> bool:
        """Whether all was compared, and the results are identical, or differ by rounding only, which may make one of
        them overflow.
        """
        return self.verdict in AGREEING


@of_module
def compare_runs(
    old: Module,
    new: Module,
    args: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    devices: int | None = None,
    limits: Limits | None = None,
    is_rewrite: bool = False,
    progress: Callable[[int], None] | None = None,
    stubs: Mapping[str, Stub] | None = None,
    feed: Sequence[Array] | None = None,
    allow_uncovered: bool = False,
) -> RunComparison:
    """Runs two modules with the same arguments, made-up ones by default, and compares their results.

    Each module runs twice: with floats of their types, and with every float as an f64 that is never rounded. Two
    compilations of a program agree in the second run even if they round at different places. With `is_rewrite`, the
    results are on the same devices, even if the place of a result is unknown. `stubs` and `feed` are for both modules,
    as for `run`. Custom calls of unknown meaning that both modules have return made-up values, the same in both for
    equal operands. HloError as for `run`, for outfeeds, and if the modules have other numbers of parameters or results.

    If the results agree, made-up arguments are changed until each computation of both modules has run, and numbers were
    equal that are compared; what has not run then makes the verdict `uncovered`, unless `allow_uncovered`.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[2] parameter(0)  q = f32[2] multiply(p, p)  ROOT r = f32[2] negate(q) }"
    >>> old, new = parse_module(text), parse_module(text.replace("multiply", "add"))
    >>> compare_runs(old, old).verdict
    'identical'
    >>> found = compare_runs(old, new)
    >>> found.verdict, found.first_difference.instruction
    ('different', <add q>)
    """
    check_module(new, "compare_runs")
    shapes = _checked_shapes(old, new)
    old, new = _with_program_of(old, new), _with_program_of(new, old)
    is_rewrite = is_rewrite or _check_interfaces(old, new)
    shared = shared_by(old, new)
    stated = {each.count for each in map(devices_of, (old, new)) if each.is_stated}
    devices = min(stated) if devices is None and len(stated) == 1 else devices
    setting = _Setting((old, new), args, seed, devices, limits, progress, stubs, feed, shared, common_ranges(old, new))
    compared = _compare(setting, shapes, is_rewrite, rounding_of(new))
    executed = compared.executed
    changed, coverage = _cover(compared)
    if changed is not None:
        compared = changed
        executed += changed.executed
    setting, distances = compared.setting, compared.distances
    difference = values = repeated = None
    verdict = verdict_of(distances)
    if verdict in ("approximation", "different"):
        difference = _first_difference(setting, distances)
        values = None if difference is None else _values(setting, difference)
    if verdict == "different" and args is None and changed is None and any(map(_has_discontinuity, (old, new))):
        repeated = {seed + more: _widened(compared, seed + more) for more in _OTHER_SEEDS}
    assumed = tuple(each for each in shared.targets if each not in (stubs or {}))
    return RunComparison(
        distances, difference, executed, values, repeated, assumed, coverage, setting.choice, allow_uncovered
    )


# --- one set of arguments ---


class _Compared(NamedTuple):
    """The runs of both modules with one set of arguments, and the distances of their results."""

    setting: _Setting
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


def _compare(
    setting: _Setting,
    shapes: tuple[Shape, Shape],
    is_rewrite: bool,
    expected: Mapping[ShapeIndex, Rounding],
    runs: Sequence[tuple[Run, Run]] | None = None,
) -> _Compared:
    """Runs both modules in both modes; finds what elements are computed of if more than their rounding differs."""
    exact, widened = runs or map(setting.run_both, MODES)
    samples = _Samples(setting, widened, shapes)
    results = distances(exact, widened, shapes, is_rewrite=is_rewrite, expected=expected)
    # Each sample takes runs: they are added while they may still change the verdict.
    while verdict_of(results) in ("approximation", "different"):
        if not samples.add(max((each.widened for each in results if each.is_known), default=0.0)):
            break
        results = with_magnitudes(results, widened, shapes, samples.known)
    return _Compared(setting, shapes, is_rewrite, expected, exact, widened, results)


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
    setting = _Setting((old, new), args, seed, devices, limits, None, stubs, feed, shared, ranges, choice)
    found = _compare(setting, (_result_shape(old), _result_shape(new)), is_rewrite, rounding_of(new), runs)
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
    setting = _finite(_Setting((module, module), None, seed, None, limits, None, None, None, shared, ranges), before)
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


def _finite(setting: _Setting, executed: int) -> _Setting:
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


def _runs_or_endless(setting: _Setting, executed: int) -> tuple[Run, Run] | Side | None:
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

    def __init__(self, setting: _Setting, widened: tuple[Run, Run], shapes: tuple[Shape, Shape]) -> None:
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
        if worst > _HOPELESS:
            self._steps = [each for each in self._steps if each.is_first]
        if not self._steps:
            return False
        step = self._steps.pop(0)
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


def _widened(compared: _Compared, seed: int) -> float:
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

    def __init__(self, compared: _Compared) -> None:
        self._modules = compared.setting.modules
        self._ran: list[set[Computation]] = [set(), set()]
        self._met: list[set[Instruction]] = [set(), set()]
        self._left: dict[ShapeIndex, Array] = {}
        self._shapes = compared.shapes
        self._is_nan_kept = False
        self.endless: tuple[Side, Choice] | None = None
        self._pairs: list[tuple[Instruction, Instruction]] | None = None
        self.is_infinite = any(
            bool(np.isinf(array).any())
            for _, array, _ in arrays_of(compared.widened[0].result, compared.shapes[0])
            if array.dtype.kind in "fc"
        )
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
        if not (self._is_nan_kept or self._add_compared(runs)):
            is_proof = False
        for met, ended, before in zip(self._met, runs, known_before, strict=True):
            met |= {one for one in ended.met if is_proof and one.computation not in before}

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
        if self.is_infinite and number <= _FIRST_TWO:
            return True
        if not self.coverage.is_whole:
            # Five sets in any case: a run of a large module alone may use up the limits.
            return number <= _LEAST_CHOICES or (executed <= _MAX_EXECUTED and operations <= _MAX_OPERATIONS)
        most = _MAX_EXECUTED // _SHARE, _MAX_OPERATIONS // _SHARE
        # Half of the first runs counts, so that modules of which one run is slow are not run four more times.
        return executed + self._first[0] // 2 <= most[0] and operations + self._first[1] / 2 <= most[1]

    def keep_nan(self) -> None:
        """Takes NaN for numbers like others, as they are those of constants."""
        self._left.clear()
        self._is_nan_kept = True

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


def _cover(compared: _Compared) -> tuple[_Compared | None, Coverage]:
    """Changes arguments until everything has run and was compared, if results agree and arguments are made up.

    Returns the comparison with the first arguments with which results differ, None without any, and the coverage.
    """
    evidence, setting = _Evidence(compared), compared.setting
    is_known = verdict_of(compared.distances) in AGREEING
    # NaN of constants is there with any arguments; others may be numbers with other arguments.
    if evidence.uncompared and _has_constant_nan(setting):
        evidence.keep_nan()
    # Given arguments are not to be changed, and without parameters there is nothing to change.
    if not is_known or setting.args is not None or not setting.modules[0].entry.parameters:
        return None, evidence.coverage
    executed = max(each.executed for each in compared.widened)
    finite = _finite(setting, executed)
    further = choices(
        setting.modules,
        setting.seed,
        lambda: evidence.missing,
        lambda: bool(evidence.uncompared),
        is_infinite=evidence.is_infinite,
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
            other = _compare(chosen, compared.shapes, compared.is_rewrite, compared.expected)
            if verdict_of(other.distances) not in AGREEING:
                evidence.add(runs, is_proof=False)
                return other, evidence.coverage
        # A changed trip count or branch changes what conditions meet, hence only computations that are new count.
        evidence.add(runs, is_proof=agrees, is_revealing=bool(choice.deciding) and choice.sums is None)
    return None, evidence.coverage


def _has_constant_nan(setting: _Setting) -> bool:
    """Whether constants are all that makes NaN, in both modules."""
    probes = Probe("nan"), Probe("nan")
    setting.run_both("widen", observe=probes)
    found = (each for probe, module in zip(probes, setting.modules, strict=True) for each in probe.occurrences(module))
    return all(each.instruction.opcode == opcodes.CONSTANT for each in found if each.is_maker)


def _differs(setting: _Setting, runs: tuple[Run, Run], compared: _Compared) -> bool:
    """Whether results differ where errors of rounding cannot be the reason: arguments may meet a bound exactly."""
    shapes, is_rewrite = compared.shapes, compared.is_rewrite
    samples = _Samples(setting, runs, shapes)
    # At whole numbers a quotient by an exact zero may be NaN in one program and infinite in the other.
    steady: Steady = "finite" if setting.choice is not None and setting.choice.is_whole else "all"
    apart = float("inf")
    while apart > ROUNDING and samples.add(0.0 if not samples.known else apart):
        apart = _apart(runs, shapes, samples.known, is_rewrite=is_rewrite, steady=steady)
    return bool(samples.known) and apart > ROUNDING


# --- what two modules have in common ---


def _checked_shapes(old: Module, new: Module) -> tuple[Shape, Shape]:
    """The shapes of the results; HloError for other numbers of parameters or results, and for outfeeds."""
    shapes = _result_shape(old), _result_shape(new)
    parameters = [len(each.entry.parameters) for each in (old, new)]
    if parameters[0] != parameters[1]:
        raise HloError(f"the modules have {parameters[0]} and {parameters[1]} parameters")
    results = [sum(1 for _ in shape.leaves) for shape in shapes]
    if results[0] != results[1]:
        raise HloError(f"the modules have {results[0]} and {results[1]} results")
    for module in (old, new):
        check_outfeeds(module)
    return shapes


def _check_interfaces(old: Module, new: Module) -> bool:
    """HloError if parameters or results of programs on one device have other types or sizes.

    Returns whether both are the programs of single devices, with the same parts.
    """
    interfaces = []
    for module in (old, new):
        roots = ((opcodes.PARAMETER, each) for each in module.entry.parameters)
        values = (*roots, ("result", module.entry.root))
        interfaces.append([(role, leaf) for role, each in values if each for _, leaf in each.shape.leaves])
    texts = [[(role, leaf.to_string(layout=False)) for role, leaf in interface] for interface in interfaces]
    if any(map(runs_on_devices, (old, new))):
        return texts[0] == texts[1] and all(map(is_partitioned, (old, new)))
    for at, ((role, one), (_, two)) in enumerate(zip(*texts, strict=False)):
        if one != two and not isinstance(interfaces[0][at][1], TokenShape):
            number = sum(each == role for each, _ in texts[0][:at])
            raise HloError(f"{role} {number} is {one} in the first module, and {two} in the second")
    return False


def _with_program_of(module: Module, counterpart: Module) -> Module:
    """A partitioned module with the program before partitioning of another that has the same parts, or with the other
    if that is not partitioned.

    A module in a file alone, such as an edited copy of a dump, has no shardings: they are in the dump next to it.
    """
    if not runs_on_devices(module) or module.program is not None:
        return module
    if (
        is_partitioned(module)
        and not is_partitioned(counterpart)
        and module.num_partitions == counterpart.num_partitions
    ):
        completed = copy(module)
        completed.read_program = lambda: counterpart
        vars(completed).pop("program", None)
        return completed
    if counterpart.program is None:
        return module
    shapes, other_shapes = (
        [str(each.shape) for each in (*m.entry.parameters, m.entry.root) if each] for m in (module, counterpart)
    )
    if shapes != other_shapes or module.num_partitions != counterpart.num_partitions:
        return module
    completed = copy(module)
    completed.read_program = counterpart.read_program
    vars(completed).pop("program", None)  # read before
    return completed


def _has_discontinuity(module: Module) -> bool:
    """Whether rounding may decide between values that are far apart: a comparison of floats, or a conversion."""
    return any(
        _is_float(instruction.operand_shape(0))
        and (
            instruction.opcode in _DISCONTINUOUS
            or (instruction.opcode == opcodes.CONVERT and not _is_float(instruction.shape))
        )
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.operands
    )


def _is_float(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.element_type.kind == "float"


def _result_shape(module: Module) -> Shape:
    root = module.entry.root
    if root is None:
        raise HloError(f"the entry of {module.name} has no instructions")
    return root.shape


_LARGEST_TOLERANCE: Final = 3e-5
"""Far above what constants in f32 and approximations of functions do to values on the way, after some amplification."""
_SHARE_OF_DISTANCE: Final = 1e-3
"""Values that differ by so little of what the results differ by are equal: the cause is larger than its effects."""
_MAX_GRAFT_BYTES: Final = 1 << 28  # 256 MiB: values of all executions and devices are kept at the same time


def _first_difference(setting: _Setting, results: Sequence[Distance]) -> FirstDifference | None:
    """Where the values of the new module begin to differ; None if that is unknown, or nothing proves it."""
    old, new = setting.modules
    largest = max((each.widened for each in results if each.verdict in ("approximation", "different")), default=0.0)
    # The tolerance grows with the distance, else values that carry the difference in small parts would hide where it
    # begins.
    prints = Prints(min(_LARGEST_TOLERANCE, max(TOLERANCE, largest * _SHARE_OF_DISTANCE)))
    traces = Trace(prints), Trace(prints)
    runs = setting.run_both("widen", observe=traces)
    pairs = match(old, new).pairs
    olds, news = (each.nodes for each in pairs.plain)
    paired = {news[b]: olds[a] for a, b in pairs.found}
    # Fewer pairs than MIN_SHARE: another compilation, whose values have to be in the traces.
    is_one_text = len(paired) >= MIN_SHARE * max(len(olds), len(news))
    if not is_one_text and not all(each.is_whole for each in traces):
        return None
    if traces[0].devices != traces[1].devices or (not is_one_text and traces[1].devices > 1):
        traces[1].explain_by(traces[0])
    worse = [at for at, each in enumerate(results) if each.verdict in ("approximation", "different")]
    ends = [node for node in traces[1].nodes if node.instruction is new.entry.root]
    wrong = [node.makers[at] for node in ends for at in worse]
    # Made-up functions answer by operands of both programs, which another form would change.
    is_alone = not (setting.shared.functions or setting.stubs or setting.feed)
    trials = _Trials(setting, runs, results, max((node.execution for node in traces[1].nodes), default=0))
    return first_difference(
        *traces,
        wrong,
        paired,
        is_one_text=is_one_text,
        scalar_difference=scalar_difference,
        repair=trials.repair if is_alone else None,
        heals=trials.heals if is_alone else None,
    )


class _Trials:
    """Runs the new module with other forms of an instruction, and looks whether all results agree."""

    def __init__(
        self, setting: _Setting, runs: tuple[Run, Run], result_distances: Sequence[Distance], executions: int
    ) -> None:
        self._setting = setting
        self._old, self._new = setting.modules
        results = [each for _, each, _ in arrays_of(runs[0].result, _result_shape(self._old))]
        self._expected = [
            each if known.is_known else None for each, known in zip(results, result_distances, strict=True)
        ]
        self._executions = executions
        self._operations = runs[1].estimate.operations

    def _runner(self) -> Runner:
        devices = chosen_devices(self._new, self._setting.devices) if runs_on_devices(self._new) else None
        whole = self._setting.arguments(1, "widen")
        if whole is None:
            made = made_up_arguments if devices is None else whole_arguments
            whole = made(self._new, seed=self._setting.seed, floats="widen", ranges=self._setting.ranges)
        return runner_of(self._new, whole, devices)

    def repair(self, suspects: Sequence[Instruction]) -> tuple[Instruction, Variant] | None:
        """The first of some instructions with a form with which all results agree, and that form."""
        return find_repair(
            self._runner(),
            self._expected,
            suspects,
            material_of(self._old),
            executions=self._executions,
            operations=self._operations,
        )

    def heals(self, suspect: Instruction, counterpart: Instruction) -> bool | None:
        """Whether all results agree with the values of the counterpart, as often as it runs and on each device."""
        if suspect.shape.to_string(layout=False) != counterpart.shape.to_string(layout=False):
            return None
        values: dict[tuple[int, int], Value] = {}
        executions: dict[int, int] = {}
        size = 0

        def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
            nonlocal size
            if instruction is counterpart and size <= _MAX_GRAFT_BYTES:
                at = executions[device] = executions.get(device, -1) + 1
                values[device, at] = value
                size += sum(array.nbytes for array in arrays_in(value))

        self._setting.run_old(observe)
        return None if size > _MAX_GRAFT_BYTES else is_healed(self._runner(), self._expected, suspect, values)


def _values(setting: _Setting, difference: FirstDifference) -> DifferingValues:
    """What goes into the first instruction that differs and comes out, and the same of its counterpart."""
    old_values = None
    if difference.counterpart_place is not None:
        old_values = values_at(setting.run_old, difference.counterpart_place)
    new_values = values_at(setting.observe_new, difference.place)
    return DifferingValues(old_values, new_values)


# --- a part and the whole ---
# A part of a module that was extracted as a module: whether it computes what it computes in the whole.


class _FirstExecution:
    """Keeps the values of a computation, those of its operands included, when it runs for the first time."""

    def __init__(self, computation: Computation, wanted: frozenset[str]) -> None:
        self.values: dict[str, Value] = {}
        self._computation = computation
        self._wanted = wanted

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        if instruction.computation is not self._computation or instruction.name not in self._wanted:
            return
        for operand, given in zip(instruction.operands, operands, strict=True):
            self.values.setdefault(operand.name, given)
        self.values.setdefault(instruction.name, value)


def compare_part(
    module: Module, computation: Computation, part: Module, *, seed: int = 0, limits: Limits | None = None
) -> RunComparison:
    """Runs a module on made-up arguments, and a part of one of its computations on the values that it has there.

    The values are those of the first time that the computation runs. HloError as for `evaluate`, for modules of several
    devices, and if the computation does not run.

    >>> from hlo_cli import extract, parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  q = f32[2] negate(p)  ROOT r = f32[2] add(q, p) }")
    >>> part = extract(module, module.entry.root, operands=0)
    >>> compare_part(module, module.entry, part).verdict
    'identical'
    """
    if runs_on_devices(module):
        raise HloError("a part of a program of several devices cannot be run alone")
    root = part.entry.root
    assert root is not None
    exact, widened = (_values_in_both(module, computation, part, floats, seed, limits) for floats in MODES)
    found = [
        Distance(index, distance(old, new), closeness(old_wide, new_wide))
        for (index, old, new), (_, old_wide, new_wide) in zip(exact[0], widened[0], strict=True)
    ]
    return RunComparison(tuple(found), None, exact[1] + widened[1])


def _values_in_both(
    module: Module, computation: Computation, part: Module, floats: Floats, seed: int, limits: Limits | None
) -> tuple[list[tuple[tuple[int, ...], Array, Array]], int]:
    """Each array of the results of the part, with its value in the whole and in the part; and executed instructions."""
    watched = _FirstExecution(computation, frozenset(each.name for each in part.entry.instructions))
    if computation is module.entry:
        arguments = made_up_arguments(module, seed=seed, floats=floats)
        watched.values |= {p.name: value for p, value in zip(module.entry.parameters, arguments, strict=True)}
    whole = evaluate(module, seed=seed, floats=floats, observe=watched, limits=limits)
    missing = [each.name for each in part.entry.parameters if each.name not in watched.values]
    if missing:
        raise HloError(f"{computation.name} does not run with the values of {missing[0]}")
    given = [watched.values[each.name] for each in part.entry.parameters]
    run = evaluate(part, given, floats=floats, limits=limits)
    root = part.entry.root
    assert root is not None
    expected = _expected(root, watched.values)
    old, new = (arrays_of(value, root.shape) for value in (expected, run.result))
    pairs = [(index, before, after) for (index, before, _), (_, after, _) in zip(old, new, strict=True)]
    return pairs, whole.executed + run.executed


def _expected(instruction: Instruction, values: dict[str, Value]) -> Value:
    """The value in the whole of an instruction of the part, through tuples and copies that were added to the part."""
    if instruction.name in values:
        return values[instruction.name]
    if instruction.opcode == opcodes.TUPLE:
        return tuple(_expected(each, values) for each in instruction.operands)
    if instruction.opcode == "copy":
        return _expected(instruction.operands[0], values)
    raise HloError(f"{instruction.name} does not run in the module")
