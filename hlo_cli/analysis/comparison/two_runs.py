"""Whether two modules compute the same for the same arguments, or a part what it computes in the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final, Literal

from hlo_cli.analysis.comparison.argument_sets import (
    AGREEING,
    RunSetting,
    compared_runs,
    cover,
    result_shape,
    widened_distance,
)
from hlo_cli.analysis.comparison.coverage import Choice, Coverage
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
    ROUNDING,
    Distance,
    Verdict,
    closeness,
    distance,
    rounding_of,
    verdict_of,
)
from hlo_cli.analysis.evaluate.arguments import (
    common_ranges,
    made_up_arguments,
    whole_arguments,
)
from hlo_cli.analysis.evaluate.devices import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.host import Stub, check_outfeeds, shared_by
from hlo_cli.analysis.evaluate.run import Probe, Run, evaluate, expect_run_options
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.matching.match_modules import match
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, check_module, of_module
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape
from hlo_cli.source import HloError

# --- two modules ---


_OTHER_SEEDS: Final = (1, 2)
"""Added to the seed to repeat a comparison with other arguments."""
_DISCONTINUOUS: Final = frozenset(
    (opcodes.COMPARE, opcodes.SORT, opcodes.TOPK, "ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign")
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
    invalid_origin: InvalidOrigin | None = None
    """What makes NaN or infinity that the other module does not have, if the results agree without rounding."""

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
        """Whether all was compared, and the results are identical, or differ by rounding only.

        That may make a result of made-up arguments overflow. NaN and infinity of the new module alone are a difference
        where the arguments are given, as those are what the program is for.
        """
        origin = self.invalid_origin
        is_worse = origin is not None and origin.is_of_given and origin.module == 1
        return self.verdict in AGREEING and not is_worse


@dataclass(frozen=True, slots=True)
class InvalidOrigin:
    """The module, 0 or 1, whose results have more elements that are NaN or infinite, and where the first one is made.

    `count` is by how many more. `maker` is None if it is unknown. `sign_operand` is an operand of the maker that has
    negative elements by rounding alone, which is what is left where a subtraction cancels. `is_of_given` tells whether
    the arguments were given, not made up.
    """

    module: int
    wanted: Literal["nan", "inf"]
    count: int
    maker: Instruction | None
    sign_operand: Instruction | None = None
    is_of_given: bool = False


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
    expect_run_options(args, seed=seed, devices=devices, stubs=stubs, feed=feed)
    shapes = _checked_shapes(old, new)
    old, new = with_program_of(old, new), with_program_of(new, old)
    is_rewrite = is_rewrite or _check_interfaces(old, new)
    shared = shared_by(old, new)
    stated = {each.count for each in map(devices_of, (old, new)) if each.is_stated}
    devices = min(stated) if devices is None and len(stated) == 1 else devices
    ranges = common_ranges(old, new)
    setting = RunSetting((old, new), args, seed, devices, limits, progress, stubs, feed, shared, ranges)
    compared = compared_runs(setting, shapes, is_rewrite, rounding_of(new))
    executed = compared.executed
    changed, coverage = cover(compared)
    if changed is not None:
        compared, executed = changed, executed + changed.executed
    setting, distances = compared.setting, compared.distances
    difference = values = repeated = None
    if (verdict := verdict_of(distances)) in ("approximation", "different"):
        difference = _first_difference(setting, distances)
        values = None if difference is None else _values(setting, difference)
    if verdict == "different" and args is None and changed is None and any(map(_has_discontinuity, (old, new))):
        repeated = {seed + more: widened_distance(compared, seed + more) for more in _OTHER_SEEDS}
    assumed = tuple(each for each in shared.targets if each not in (stubs or {}))
    how = coverage, setting.choice, allow_uncovered, _invalid_origin(setting, distances)
    return RunComparison(distances, difference, executed, values, repeated, assumed, *how)


# --- what two modules have in common ---


def _checked_shapes(old: Module, new: Module) -> tuple[Shape, Shape]:
    """The shapes of the results; HloError for other numbers of parameters or results, and for outfeeds."""
    shapes = result_shape(old), result_shape(new)
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


def with_program_of(module: Module, counterpart: Module) -> Module:
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


# --- what is not a number in one of them ---


_OF_POSITIVE: Final = frozenset(("rsqrt", "sqrt", "log", "power"))
"""Opcodes whose results are NaN where operand 0 is negative, for a power where the exponent is no integer."""


def _invalid_origin(setting: RunSetting, results: Sequence[Distance]) -> InvalidOrigin | None:
    """Where one module makes NaN, or else infinity, that the other does not, if the results agree without rounding.

    None if both have as many.
    """
    if verdict_of(results) not in ("overflow", "approximation"):
        return None
    kinds: tuple[Literal["nan", "inf"], ...] = ("nan", "inf")
    for wanted in kinds:
        before, after = (sum(getattr(each, wanted)[side] for each in results) for side in (0, 1))
        if before == after:
            continue
        number = int(after > before)
        probe = Probe(wanted)
        setting.run_both("exact", observe=(None, probe) if number else (probe, None))
        found = (each for each in probe.occurrences(setting.modules[number]) if each.reaches_result)
        maker = next((each.instruction for each in found if each.is_maker), None)
        operand = maker.operands[0] if maker is not None and maker.opcode in _OF_POSITIVE else None
        if maker is not None and operand is not None and not _is_negative_by_rounding(setting, number, maker):
            operand = None
        return InvalidOrigin(number, wanted, abs(after - before), maker, operand, setting.args is not None)
    return None


def _is_negative_by_rounding(setting: RunSetting, number: int, maker: Instruction) -> bool:
    """Whether operand 0 of an instruction has negative elements as written, and none without rounding."""
    is_negative = []
    for floats in MODES:
        signs: list[bool] = []

        def observe(
            instruction: Instruction, device: int, value: Value, operands: Sequence[Value], signs: list[bool] = signs
        ) -> None:
            if instruction is maker:
                signs += [bool((array < 0).any()) for array in arrays_in(operands[0]) if array.dtype.kind == "f"]

        setting.run_both(floats, observe=(None, observe) if number else (observe, None))
        is_negative.append(any(signs))
    exact, widened = is_negative
    return exact and not widened


# --- where they begin to differ ---


_LARGEST_TOLERANCE: Final = 3e-5
"""Far above what constants in f32 and approximations of functions do to values on the way, after some amplification."""
_SHARE_OF_DISTANCE: Final = 1e-3
"""Values that differ by so little of what the results differ by are equal: the cause is larger than its effects."""
_MAX_GRAFT_BYTES: Final = 1 << 28  # 256 MiB: values of all executions and devices are kept at the same time


def _first_difference(setting: RunSetting, results: Sequence[Distance]) -> FirstDifference | None:
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
        self, setting: RunSetting, runs: tuple[Run, Run], result_distances: Sequence[Distance], executions: int
    ) -> None:
        self._setting = setting
        self._old, self._new = setting.modules
        results = [each for _, each, _ in arrays_of(runs[0].result, result_shape(self._old))]
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


def _values(setting: RunSetting, difference: FirstDifference) -> DifferingValues:
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
