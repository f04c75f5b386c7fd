"""Does a candidate still fail? Each way in which a module can fail is a class with the same three questions.

A candidate is judged in a process of its own if several are at the same time, so these classes can be pickled. One that
XLA's parser or verifier would refuse is no candidate, whatever a command says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from hlo_cli.commands.reduce.checks import Command, Outcome, has_match
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.reduction.cuts import Question, cuts, together
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


@dataclass(frozen=True, slots=True)
class FailingCommand:
    """A command that ends as it did for the whole module, or prints what matches."""

    command: Command
    pattern: str | None
    first: Outcome

    def fails(self, case: Case) -> bool:
        """Whether the command ends in the same way."""
        outcome = self.command.run(case.texts[-1])
        if self.pattern is not None:
            return has_match(self.pattern, outcome)
        # Another exit code or signal is another failure.
        return (outcome.code, outcome.limit) == (self.first.code, self.first.limit)

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
