"""Does a candidate still fail? Each way in which a module can fail is a class with the same three questions.

`failure_of` makes one of the options, with arguments with which the whole module fails; `hlo bisect` asks the same.

A candidate is judged in a process of its own if several are at the same time, so these classes can be pickled. One that
XLA's parser or verifier would refuse is no candidate, whatever a command says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from hlo_cli.analysis.comparison.argument_sets import compare_once
from hlo_cli.analysis.comparison.two_runs import compare_runs, with_program_of
from hlo_cli.analysis.comparison.verdict import ROUNDING, verdict_of
from hlo_cli.analysis.evaluate.arguments import made_up_arguments, whole_arguments
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.semantics.typed_values import Floats, Value
from hlo_cli.commands.reduce.checks import Command, Outcome, Scratch, has_match
from hlo_cli.commands.reduce.options import FailureOptions
from hlo_cli.commands.run.argument_files import arguments_of
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.byte_sizes import parse_size
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.reduction.cuts import Question, cuts, pair_of, together
from hlo_cli.transform.reduction.draft import Draft, draft_of
from hlo_cli.transform.reduction.search import Case, Judge, Stage, stages_of


def read(text: str) -> Module:
    """The module of a text that the strict reader accepts."""
    return parse_module(text)


class Failure(Protocol):
    """What must keep failing."""

    def fails(self, case: Case) -> bool:
        """Whether a valid case fails; HloError if that cannot be known."""
        ...

    @property
    def words(self) -> str:
        """What fails, after `still`: such as `computes other results than reference.hlo`."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The changes to try."""
        ...


@dataclass(frozen=True, slots=True)
class WrongValues:
    """Results that differ from those of another module, or that have elements of a kind."""

    question: Question

    def fails(self, case: Case) -> bool:
        """Whether the results are wrong."""
        return self.question.fails(case)

    @property
    def words(self) -> str:
        """What is wrong with the results."""
        if self.question.wanted is not None:
            kind = {"nan": "NaN", "inf": "infinity"}.get(self.question.wanted, self.question.wanted)
            return f"computes {kind}"
        return "computes other results than reference.hlo"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Cuts where values are known, then what both modules of a pair can do without."""
        return (*cuts(self.question), *together(stages_of(pairs=True)))


_CANNOT_TELL: Final = 125
"""The exit code with which a command of `git bisect run` says that a revision cannot be tested."""


@dataclass(frozen=True, slots=True)
class FailingCommand:
    """A command that ends as it did for the whole module, or prints what matches."""

    command: Command
    pattern: str | None
    first: Outcome

    def fails(self, case: Case) -> bool:
        """Whether the command ends in the same way."""
        return bool(self.verdict(self.command.run(case.texts[-1])))

    def verdict(self, outcome: Outcome) -> bool | None:
        """Whether a command that ended so has failed in the same way; None if it says that it cannot tell.

        >>> from hlo_cli.commands.reduce.checks import scratch
        >>> with scratch() as place:
        ...     failure = FailingCommand(Command("false", 9, 1 << 32, place), None, Outcome(1))
        >>> [failure.verdict(Outcome(code)) for code in (1, 0, 2, 125)]
        [True, False, False, None]
        """
        if self.pattern is not None:
            return has_match(self.pattern, outcome)
        # Another exit code or signal is another failure.
        if (outcome.code, outcome.limit) == (self.first.code, self.first.limit):
            return True
        return None if outcome.code == _CANNOT_TELL else False

    @property
    def words(self) -> str:
        """How the command ends."""
        if self.pattern is not None:
            return f"makes the command print a match of '{self.pattern}'"
        return f"makes the command fail ({self.first})"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All edits."""
        return stages_of()


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding of a rule of `hlo lint`."""

    code: str

    def fails(self, case: Case) -> bool:
        """Whether the rule reports anything."""
        settings = LintSettings(select=(self.code,))
        return any(found.code == self.code for found in lint_module(read(case.texts[-1]), settings))

    @property
    def words(self) -> str:
        """What is found."""
        return f"has a finding of {self.code}"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All edits."""
        return stages_of()


@dataclass(frozen=True, slots=True)
class HighPeak:
    """A peak of a memory above a limit."""

    max_bytes: int

    def fails(self, case: Case) -> bool:
        """Whether the fullest memory has a peak above the limit."""
        from hlo_cli.analysis.memory.memory_analysis import memory_analysis

        return memory_analysis(read(case.texts[-1])).peak_bytes > self.max_bytes

    @property
    def words(self) -> str:
        """How much memory is needed."""
        return f"needs more than {self.max_bytes:,} bytes at the peak"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All edits."""
        return stages_of()


# --- candidates ---

_VERIFIER: Final = LintSettings(select=("HLO0",), min_severity="error")
"""The rules that mirror XLA's verifier, and of these what it refuses."""
_SPARE: Final = 30.0
"""Seconds beyond its own limits after which the process that judges a candidate is replaced."""


def broken_rules(text: str) -> frozenset[str]:
    """The codes of the verifier's rules that a module breaks."""
    return frozenset(found.code for found in lint_module(read(text), _VERIFIER))


def is_accepted(text: str) -> bool:
    """Whether XLA's parser accepts a text."""
    return not check_strictly(Source("m", text))


@dataclass(frozen=True, slots=True)
class Oracle:
    """Judges candidates: valid ones that still fail. `allowed` are rules that the whole module breaks already.

    With `is_strict` false, XLA's parser refuses the whole module, and so it may each candidate.
    """

    failure: Failure
    allowed: frozenset[str]
    is_strict: bool = True

    def __call__(self, case: Case) -> bool:
        """Whether a candidate is valid and still fails.

        >>> from hlo_cli.transform.reduction.draft import draft_of
        >>> case = Case((draft_of(parse_module("ENTRY e { ROOT p = f32[9] parameter(0) }")),))
        >>> [Oracle(HighPeak(limit), frozenset())(case) for limit in (35, 36)]
        [True, False]
        """
        try:
            for text in case.texts:
                # A compiler that refuses a malformed module fails as well, but not in the way that was asked for.
                if self.is_strict and not is_accepted(text):
                    return False
                if broken_rules(text) - self.allowed:
                    return False
            return self.failure.fails(case)
        except HloError:
            return False

    def judge(self, *, jobs: int, seconds: float) -> Judge:
        """Judges several candidates at the same time, each for so many seconds at most."""

        def judge(cases: Sequence[Case]) -> Iterator[bool]:
            count = min(jobs, len(cases))
            if count <= 1:
                return map(self, cases)
            return in_order(partial(_judged, self), cases, jobs=count, lost=_lost, timeout=seconds + _SPARE)

        return judge


def _judged(oracle: Oracle, case: Case) -> bool:
    return oracle(case)


def _lost(case: Case) -> bool:
    """A candidate whose process was killed is none: another limit than that of the failure was reached."""
    del case
    return False


def checked_pattern(pattern: str | None) -> str | None:
    """The regular expression; HloError if it is none."""
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise HloError(f"--matching '{pattern}' is not a regular expression: {error}") from None
    return pattern


# --- what the options ask for ---


def question_of(options: FailureOptions, tolerance: float | None = None) -> Question:
    """How values are computed and judged."""

    if tolerance is not None:
        return Question(read, floats="exact", tolerance=tolerance, limits=options.limits)
    # NaN is what a program computes with the types that it has: without rounding, nothing overflows.
    floats: Floats = "widen" if options.probe is None else "exact"
    return Question(read, options.probe, floats, ROUNDING, options.limits)


def made_up_by_name(module: Module, seed: int) -> dict[str, Value]:
    """Made-up arguments of a module, of the whole program if it is partitioned."""
    make = whole_arguments if runs_on_devices(module) else made_up_arguments
    return _named(module, make(module, seed=seed))


def _named(module: Module, values: Sequence[Value]) -> dict[str, Value]:
    return {parameter.name: value for parameter, value in zip(module.entry.parameters, values, strict=True)}


def fails_with(question: Question, case: Case, arguments: dict[str, Value]) -> bool:
    """Whether a case fails with these arguments."""
    return question.fails(replace(case, arguments=arguments))


def failure_of(
    case: Case, options: FailureOptions, folder: Scratch, *, tolerance: float | None = None
) -> tuple[Failure, Case]:
    """What fails, and the case with the arguments with which it does; HloError if it does not fail."""
    if options.check is not None:
        return failing_command(options, folder, case.texts[-1]), case
    failure: Failure
    if options.finding is not None:
        failure = ReportedFinding(options.finding)
        if not failure.fails(case):
            raise NoFailureError(f"no finding of {options.finding}")
        return failure, case
    if options.oom is not None:
        failure = HighPeak(parse_size(options.oom))
        if not failure.fails(case):
            raise NoFailureError(f"the peak is not above {options.oom}")
        return failure, case
    question = question_of(options, tolerance)
    module = question.read(case.texts[-1])
    case = replace(case, arguments=_arguments(case, module, question, options))
    return WrongValues(question), case


def failing_command(
    options: FailureOptions, folder: Scratch, text: str | None, environment: Mapping[str, str] = MappingProxyType({})
) -> FailingCommand:
    """The command of --check, as it fails for a module, or without one; HloError if it does not."""
    pattern = checked_pattern(options.matching)
    check = Command(options.check or "", options.check_seconds, options.limits.max_bytes, folder)
    first = check.run(text, environment)
    if first.code == 0 if pattern is None else not has_match(pattern, first):
        raise NoFailureError("the command succeeds" if pattern is None else "the command prints no match of --matching")
    return FailingCommand(check, pattern, first)


WRONG: Final = ("approximation", "different")
"""The verdicts of a comparison that fail: others are rounding, or the place of results on devices is unknown."""


class NoFailureError(HloError):
    """Nothing fails that a search could look for the cause of."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words}: there is nothing to look for")


_SEEDS = 4
"""Seeds that are tried before the search for arguments that `hlo run --against` makes."""


def _arguments(case: Case, module: Module, question: Question, options: FailureOptions) -> dict[str, Value]:
    """Arguments with which a case fails: those of files, made-up ones, or what `hlo run --against` finds."""
    given = arguments_of(RunOptions(args=options.args, seed=options.seed), module) if options.args else None
    if given is not None:
        if not fails_with(question, case, _named(module, given)):
            raise NoFailureError("the module does not fail with these arguments")
        return _named(module, given)
    for seed in range(options.seed, options.seed + _SEEDS):
        if fails_with(question, case, found := made_up_by_name(module, seed)):
            return found
    if len(case.drafts) > 1:
        compared = compare_runs(question.read(case.texts[0]), module, seed=options.seed, limits=options.limits)
        if compared.choice is not None:
            made = made_up_by_name(module, compared.choice.seed)
            found = _named(module, compared.choice.applied(tuple(made.values())))
            if fails_with(question, case, found):
                return found
        raise NoFailureError("the results do not differ by more than rounding")
    raise NoFailureError(f"no result has an element of --probe {options.probe}")


# --- a whole program and its partitioned one ---
# Their values have other shapes, so that they are not cut together. But if one instruction of the partitioned program
# is the cause, the program without it is a reference with the same parts.


def pair_in(old: Module, new: Module, options: FailureOptions) -> tuple[Draft, Draft]:
    """Two modules as a pair; the first may be whole where the second is partitioned, see `_mended`.

    HloError if the parameters are others, or no single change of an instruction makes the results agree.
    """
    try:
        return pair_of(draft_of(old), draft_of(new))
    except HloError:
        if not runs_on_devices(new) or runs_on_devices(old):
            raise
    draft = draft_of(new)
    return _mended(old, new, draft, options), draft


def _mended(old: Module, new: Module, draft: Draft, options: FailureOptions) -> Draft:
    """The partitioned program with the first instruction that differs changed, so that it computes what `old` does."""
    compared = compare_runs(old, new, seed=options.seed, limits=options.limits, allow_uncovered=True)
    if compared.verdict not in WRONG:
        raise NoFailureError("the results do not differ by more than rounding")
    difference = compared.first_difference
    for candidate in () if difference is None else _without_fault(draft, difference.instruction.name):
        with suppress(HloError):
            text = candidate.to_string()
            distances, _ = compare_once(
                old,
                with_program_of(read(text), old),
                seed=options.seed,
                limits=options.limits,
                choice=compared.choice,
            )
            if is_accepted(text) and verdict_of(distances) not in WRONG:
                return candidate
    where = "" if difference is None else f", first at {difference.instruction.name}"
    raise HloError(
        f"the results differ{where}, but no change of one instruction makes the partitioned program agree",
        hint="reduce the partitioned program with --check",
    )


def _without_fault(draft: Draft, name: str) -> Iterator[Draft]:
    """Drafts in which an instruction of this name is one of its operands, or has them in another order."""
    for body in draft.bodies:
        line = next((each for each in body.lines if each.name == name), None)
        if line is None:
            continue
        shapes = {each.name: each.shape.to_string(layout=False) for each in body.lines}
        same = [each for each in line.operands if shapes.get(each) == line.shape.to_string(layout=False)]
        changed = [body.replaced({name: None}).redirected({name: each}) for each in same]
        if len(line.operands) > 1:
            swapped = replace(line, operands=(*line.operands[1::-1], *line.operands[2:]))
            changed.append(body.replaced({name: swapped}))
        yield from (replace(draft, bodies=tuple(new if b is body else b for b in draft.bodies)) for new in changed)
