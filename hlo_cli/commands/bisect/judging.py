"""Does a module fail? The same failures as for `hlo reduce`, with a third verdict: it cannot be known.

A pass dump may not be evaluated, and a command may end with exit code 125; such a module is passed by, as by
`git bisect skip`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from hlo_cli.analysis.comparison.argument_sets import compare_once
from hlo_cli.analysis.comparison.coverage import Choice
from hlo_cli.analysis.comparison.two_runs import RunComparison, compare_runs, with_program_of
from hlo_cli.analysis.comparison.verdict import verdict_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.commands.bisect.options import BisectOptions
from hlo_cli.commands.reduce.checks import Scratch
from hlo_cli.commands.reduce.failures import WRONG, FailingCommand, Failure, NoFailureError, failing_command, failure_of
from hlo_cli.commands.run.argument_files import arguments_of
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.search import Case


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something fails, None if that cannot be known, and why or how."""

    fails: bool | None
    words: str = ""

    def __str__(self) -> str:
        return {True: "fails", False: "passes", None: "unknown"}[self.fails]


@dataclass(frozen=True, slots=True)
class ModuleJudge:
    """Judges modules as one that fails was judged; `words` are what fails, such as `has a finding of HLO102`."""

    failure: Failure | OtherResults
    arguments: tuple[Value, ...] | None = None

    @property
    def words(self) -> str:
        """What fails, after the name of a module."""
        return self.failure.words

    def __call__(self, module: Module) -> Verdict:
        """The verdict on a module."""
        try:
            match self.failure:
                case OtherResults():
                    return self.failure.verdict(module)
                case FailingCommand():
                    return command_verdict(self.failure, module.source.text)
                case failure:
                    return Verdict(failure.fails(self._case(module)))
        except HloError as error:
            return Verdict(None, error.diagnostic.message)

    def _case(self, module: Module) -> Case:
        """The module with the arguments of the one that fails, by position: passes give parameters new names."""
        parameters = module.entry.parameters
        if self.arguments is None:
            return Case((draft_of(module),))
        if len(parameters) != len(self.arguments):
            raise HloError(f"the module has {len(parameters)} parameters, not {len(self.arguments)}")
        names = [parameter.name for parameter in parameters]
        return Case((draft_of(module),), dict(zip(names, self.arguments, strict=True)))


def command_verdict(
    failure: FailingCommand, text: str | None, environment: Mapping[str, str] = MappingProxyType({})
) -> Verdict:
    """The verdict of a command on the text of a module, or in an environment."""
    outcome = failure.command.run(text, environment)
    return Verdict(failure.verdict(outcome), str(outcome))


# --- results that differ ---


@dataclass(frozen=True, slots=True)
class OtherResults:
    """Results that differ from those of a reference, by more than rounding, with one set of arguments."""

    reference: Module
    name: str
    arguments: tuple[Value, ...] | None
    seed: int
    choice: Choice | None
    limits: Limits

    @property
    def words(self) -> str:
        """What is wrong with the results."""
        return f"computes other results than {self.name}"

    def verdict(self, module: Module) -> Verdict:
        """The verdict on a module, which may be partitioned where the reference is not."""
        distances, _ = compare_once(
            self.reference,
            with_program_of(module, self.reference),
            self.arguments,
            seed=self.seed,
            limits=self.limits,
            choice=self.choice,
        )
        found = verdict_of(distances)
        if found == "unknown":
            return Verdict(None, "the place of results on devices is unknown")
        largest = max((each.widened for each in distances if each.is_known), default=0.0)
        return Verdict(found in WRONG, f"differs by {largest:.1e}" if found in WRONG else found)


def _other_results(reference: Module, module: Module, name: str, options: BisectOptions, *, noun: str) -> OtherResults:
    """The comparison with which a module fails; HloError if its results are the same with all arguments tried."""
    given = arguments_of(RunOptions(args=options.args, seed=options.seed), reference) if options.args else None
    compared: RunComparison = compare_runs(
        reference, module, given, seed=options.seed, limits=options.limits, allow_uncovered=True
    )
    if compared.verdict not in WRONG:
        same = "computes the same as" if compared.coverage.is_whole else "agrees, as far as it was compared, with"
        raise NoFailureError(f"{noun} {same} {name}")
    return OtherResults(reference, name, given, options.seed, compared.choice, options.limits)


def judge_of(
    module: Module,
    reference: tuple[Module, str] | None,
    options: BisectOptions,
    folder: Scratch,
    *,
    noun: str,
) -> ModuleJudge:
    """The judge for which a module fails; HloError if it does not. Without another failure, results are compared."""
    if options.check is not None:
        return ModuleJudge(failing_command(options, folder, module.source.text))
    if reference is not None and not any((options.finding, options.oom, options.probe)):
        return ModuleJudge(_other_results(*reference[:1], module, reference[1], options, noun=noun))
    failure, case = failure_of(Case((draft_of(module),)), replace(options, against=None), folder)
    return ModuleJudge(failure, None if case.arguments is None else _in_order(module, case))


def _in_order(module: Module, case: Case) -> tuple[Value, ...]:
    assert case.arguments is not None
    return tuple(case.arguments[parameter.name] for parameter in module.entry.parameters)


def first_that_fails(
    modules: Sequence[Callable[[], Module]], make: Callable[[Module], ModuleJudge]
) -> tuple[int, ModuleJudge]:
    """The last of several modules that can be judged, by number, and its judge; HloError of the last if none can."""
    failed: HloError | None = None
    for number in reversed(range(len(modules))):
        try:
            return number, make(modules[number]())
        except NoFailureError:
            raise
        except HloError as error:
            failed = failed or error
    assert failed is not None
    raise failed
