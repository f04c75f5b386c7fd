"""Two modules run with the same arguments: whether they compute the same, and where they begin to differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final, NamedTuple

from hlo_cli.analysis.comparison.compare import MODES, ROUNDING, Distance, Verdict, distance, distances, verdict_of
from hlo_cli.analysis.comparison.differing_values import DifferingValues, values_at
from hlo_cli.analysis.comparison.fingerprints import TOLERANCE, Prints
from hlo_cli.analysis.comparison.first_difference import MIN_SHARE, FirstDifference, first_difference
from hlo_cli.analysis.comparison.repairs import Runner, find_repair, is_healed, runner_of
from hlo_cli.analysis.comparison.rounding import rounding_of
from hlo_cli.analysis.comparison.scalar_computations import scalar_difference
from hlo_cli.analysis.comparison.trace import Trace, arrays_in
from hlo_cli.analysis.comparison.variants import Variant, material_of
from hlo_cli.analysis.evaluate.arguments import made_up_arguments
from hlo_cli.analysis.evaluate.device_choice import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.host import Stub, check_outfeeds
from hlo_cli.analysis.evaluate.program import Observer
from hlo_cli.analysis.evaluate.run import Run, run
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.sharded import whole_arguments
from hlo_cli.analysis.evaluate.unknown_functions import Shared, UnknownFunctions, shared_by
from hlo_cli.analysis.matching.matching import match
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value, arrays_of
from hlo_cli.analysis.sharding.device_groups import devices_of
from hlo_cli.analysis.sharding.stages import is_partitioned
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape
from hlo_cli.source import HloError

_OTHER_SEEDS: Final = (1, 2)
"""Added to the seed to repeat a comparison with other arguments."""
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

    def run_both(
        self, floats: Floats, *, observe: tuple[Observer | None, Observer | None] = (None, None)
    ) -> tuple[Run, Run]:
        first, second = self.shared.pair()
        return self._run(0, floats, first, observe[0]), self._run(1, floats, second, observe[1])

    def run_old(self, observer: Observer | None = None) -> Run:
        return self._run(0, "widen", self.shared.pair()[0], observer)

    def observe_new(self, observer: Observer) -> None:
        if self.shared.functions:  # what they return in the second program depends on the first
            self.run_both("widen", observe=(None, observer))
        else:
            self._run(1, "widen", self.shared.pair()[1], observer)

    def _run(self, at: int, floats: Floats, unknown: UnknownFunctions | None, observe: Observer | None) -> Run:
        return run(
            self.modules[at],
            self.args,
            seed=self.seed,
            floats=floats,
            devices=self.devices,
            observe=observe,
            limits=self.limits,
            progress=self.progress,
            stubs=self.stubs,
            feed=self.feed,
            unknown=unknown,
        )


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The distance of each result, in the order of the results, and the first instruction at which the modules part.

    `first_difference` is None if the modules compute the same, and if the instruction is unknown; `values` are what
    goes into it and comes out. `executed` counts the instructions of all runs. `other_seeds` are the largest widened
    distances with other made-up arguments, where a comparison, a sort, or a conversion to integers may decide.
    `assumed` are the targets of unknown meaning that both call, whose results were made up: the same for equal
    operands.
    """

    distances: tuple[Distance, ...]
    first_difference: FirstDifference | None
    executed: int
    values: DifferingValues | None = None
    other_seeds: Mapping[int, float] | None = None
    assumed: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on all results: that of the worst.

        If the results agree with all other seeds, a discontinuity may make them differ.
        """
        found = verdict_of(self.distances)
        if found == "different" and self.other_seeds and max(self.other_seeds.values()) <= ROUNDING:
            return "discontinuity"
        return found

    @property
    def is_same(self) -> bool:
        """Whether the results are identical, or differ by rounding only, which may make one of them overflow."""
        return self.verdict in ("identical", "rounding", "overflow")


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
) -> RunComparison:
    """Runs two modules with the same arguments, made-up ones by default, and compares their results.

    Each module runs twice: with floats of their types, and with every float as an f64 that is never rounded. Two
    compilations of a program agree in the second run even if they round at different places. With `is_rewrite`, the
    results are on the same devices, even if the place of a result is unknown. `stubs` and `feed` are for both modules,
    as for `run`. Custom calls of unknown meaning that both modules have return made-up values, the same in both for
    equal operands. HloError as for `run`, for outfeeds, and if the modules have other numbers of parameters or results.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[2] parameter(0)  q = f32[2] multiply(p, p)  ROOT r = f32[2] negate(q) }"
    >>> old, new = parse_module(text), parse_module(text.replace("multiply", "add"))
    >>> compare_runs(old, old).verdict
    'identical'
    >>> found = compare_runs(old, new)
    >>> found.verdict, found.first_difference.instruction
    ('different', <add q>)
    """
    shapes = tuple(_result_shape(each) for each in (old, new))
    parameters = [len(each.entry.parameters) for each in (old, new)]
    if parameters[0] != parameters[1]:
        raise HloError(f"the modules have {parameters[0]} and {parameters[1]} parameters")
    results = [sum(1 for _ in shape.leaves) for shape in shapes]
    if results[0] != results[1]:
        raise HloError(f"the modules have {results[0]} and {results[1]} results")
    for module in (old, new):
        check_outfeeds(module)

    old, new = _with_program_of(old, new), _with_program_of(new, old)
    is_rewrite = is_rewrite or _check_interfaces(old, new)
    shared = shared_by(old, new)
    stated = {each.count for each in map(devices_of, (old, new)) if each.is_stated}
    devices = min(stated) if devices is None and len(stated) == 1 else devices
    setting = _Setting((old, new), args, seed, devices, limits, progress, stubs, feed, shared)
    exact, widened = map(setting.run_both, MODES)
    both = shapes[0], shapes[1]
    found = distances(exact, widened, both, is_rewrite=is_rewrite, expected=rounding_of(new))
    difference = values = repeated = None
    verdict = verdict_of(found)
    if verdict in ("approximation", "different"):
        difference = _first_difference(setting, found)
        values = None if difference is None else _values(setting, difference)
    if verdict == "different" and args is None and (_has_discontinuity(old) or _has_discontinuity(new)):
        repeated = {seed + more: _widened(setting, both, seed + more) for more in _OTHER_SEEDS}
    executed = sum(each.executed for each in (*exact, *widened))
    assumed = tuple(each for each in shared.targets if each not in (stubs or {}))
    return RunComparison(found, difference, executed, values, repeated, assumed)


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


def _with_program_of(module: Module, other: Module) -> Module:
    """A partitioned module with the program before partitioning of another that has the same parts, or with the other
    if that is not partitioned.

    A module in a file alone, such as an edited copy of a dump, has no shardings: they are in the dump next to it.
    """
    if not runs_on_devices(module) or module.program is not None:
        return module
    if is_partitioned(module) and not is_partitioned(other) and module.num_partitions == other.num_partitions:
        found = copy(module)
        found.read_program = lambda: other
        vars(found).pop("program", None)
        return found
    if other.program is None:
        return module
    one, two = ([str(each.shape) for each in (*m.entry.parameters, m.entry.root) if each] for m in (module, other))
    if one != two or module.num_partitions != other.num_partitions:
        return module
    found = copy(module)
    found.read_program = other.read_program
    vars(found).pop("program", None)  # read before
    return found


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


def _widened(setting: _Setting, shapes: tuple[Shape, Shape], seed: int) -> float:
    """The largest widened distance with another seed."""
    runs = setting._replace(seed=seed).run_both("widen")
    arrays = zip(*(arrays_of(each.result, shape) for each, shape in zip(runs, shapes, strict=True)), strict=True)
    unknown = runs[0].unknown | runs[1].unknown
    return max((distance(a, b) for (index, a, _), (_, b, _) in arrays if index not in unknown), default=0.0)


def _result_shape(module: Module) -> Shape:
    root = module.entry.root
    if root is None:
        raise HloError(f"the entry of {module.name} has no instructions")
    return root.shape


_LARGEST_TOLERANCE: Final = 3e-5
"""Far above what constants in f32 and approximations of functions do to values on the way, after some amplification."""
_SHARE_OF_DISTANCE: Final = 1e-3
"""Values that differ by so little of what the results differ by are equal: the cause is larger than its effects."""
_MAX_GRAFT_BYTES: Final = 1 << 28


def _first_difference(setting: _Setting, found: Sequence[Distance]) -> FirstDifference | None:
    """Where the values of the new module begin to differ; None if that is unknown, or nothing proves it."""
    old, new = setting.modules
    largest = max((each.widened for each in found if each.verdict in ("approximation", "different")), default=0.0)
    prints = Prints(min(_LARGEST_TOLERANCE, max(TOLERANCE, largest * _SHARE_OF_DISTANCE)))
    traces = Trace(prints), Trace(prints)
    runs = setting.run_both("widen", observe=traces)
    pairs = match(old, new).pairs
    olds, news = (each.nodes for each in pairs.plain)
    paired = {news[b]: olds[a] for a, b in pairs.found}
    is_one_text = len(paired) >= MIN_SHARE * max(len(olds), len(news))
    if not is_one_text and not all(each.is_whole for each in traces):
        return None
    if traces[0].devices != traces[1].devices or (not is_one_text and traces[1].devices > 1):
        traces[1].explain_by(traces[0])
    worse = [at for at, each in enumerate(found) if each.verdict in ("approximation", "different")]
    ends = [node for node in traces[1].nodes if node.instruction is new.entry.root]
    wrong = [node.makers[at] for node in ends for at in worse]
    is_alone = not (setting.shared.functions or setting.stubs or setting.feed)
    trials = _Trials(setting, runs, found, max((node.execution for node in traces[1].nodes), default=0))
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

    def __init__(self, setting: _Setting, runs: tuple[Run, Run], found: Sequence[Distance], executions: int) -> None:
        self._setting = setting
        self._old, self._new = setting.modules
        results = [each for _, each, _ in arrays_of(runs[0].result, _result_shape(self._old))]
        self._expected = [each if known.is_known else None for each, known in zip(results, found, strict=True)]
        self._executions = executions
        self._operations = runs[1].estimate.operations

    def _runner(self) -> Runner:
        devices = chosen_devices(self._new, self._setting.devices) if runs_on_devices(self._new) else None
        whole = self._setting.args
        if whole is None:
            made = made_up_arguments if devices is None else whole_arguments
            whole = made(self._new, seed=self._setting.seed, floats="widen")
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
