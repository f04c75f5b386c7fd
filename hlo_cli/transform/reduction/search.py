"""Which edits keep a failure? Delta debugging: every kind of edit, larger ones first, until no single one is left.

The sequence depends only on the case: several candidates are judged at the same time, and the first that fails is kept,
as one process would. So a search that was stopped is resumed by repeating it with the verdicts that are known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import TypeAlias

from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.transform.reduction.draft import Draft
from hlo_cli.transform.reduction.steps import PLAIN_TYPES, STEPS, Step

# --- what is reduced ---


@dataclass(frozen=True)
class Case:
    """A module, or two that should compute the same, with the arguments with which they fail, by parameter name."""

    drafts: tuple[Draft, ...]
    arguments: Mapping[str, Value] | None = None

    @property
    def draft(self) -> Draft:
        """The module that fails; of two, the second."""
        return self.drafts[-1]

    @property
    def measure(self) -> tuple[int, ...]:
        """What gets less with every step: instructions of the failing module, then of both, unusual types, elements,
        and characters.
        """
        lines = [line for draft in self.drafts for body in draft.bodies for line in body.lines]
        arrays = [leaf for line in lines for _, leaf in line.shape.leaves if isinstance(leaf, ArrayShape)]
        unusual = sum(leaf.element_type.name in PLAIN_TYPES for leaf in arrays)
        elements = sum(leaf.elements for leaf in arrays)
        return self.draft.size, len(lines), unusual, elements, sum(map(len, self.texts))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The modules as text."""
        return tuple(draft.to_string() for draft in self.drafts)

    @cached_property
    def key(self) -> str:
        """A digest of the content."""
        found = blake2b("\0".join(self.texts).encode(), digest_size=16)
        for name, value in sorted((self.arguments or {}).items()):
            found.update(name.encode())
            _add_value(value, found.update)
        return found.hexdigest()

    def edited(self, edit: Callable[[Draft], Draft | None]) -> Case | None:
        """The case with all modules edited; None if the edit changes none of them, or one has no result left."""
        drafts = tuple(edit(draft) or draft for draft in self.drafts)
        return None if drafts == self.drafts else replace(self, drafts=drafts)


def _add_value(value: Value, add: Callable[[bytes], object]) -> None:
    if isinstance(value, tuple):
        for each in value:
            _add_value(each, add)
    elif value is not None:
        add(value.tobytes())


Judge: TypeAlias = Callable[[Sequence[Case]], Iterable[bool]]
"""Whether each case is valid and still fails, in order; not all may be asked for."""
Change: TypeAlias = Callable[[Case], "Case | None"]
"""Makes a smaller case of a case; None where it does not apply."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A kind of change, in words, and the changes that a case offers."""

    words: str
    changes: Callable[[Case], Iterable[Change]]


def stages_of(steps: Sequence[Step] = STEPS, *, pairs: bool = False) -> tuple[Stage, ...]:
    """The steps as stages of a search; with `pairs`, those that two modules can take together."""

    def of(step: Step) -> Stage:
        def changes(case: Case) -> Iterator[Change]:
            for edit in step.edits(case.draft):
                yield lambda now, edit=edit: now.edited(edit)  # type: ignore[misc]

        return Stage(step.words, changes)

    return tuple(of(step) for step in steps if step.is_for_pairs or not pairs)


# --- the search ---


@dataclass(frozen=True, slots=True)
class Kept:
    """A change that was kept: in words, and the number of instructions after it."""

    words: str
    instructions: int
    steps: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """The smallest case found, what was kept on the way, and the number of cases that were judged.

    `is_minimal` if no single change of any stage keeps the failure; a limit may have ended the search before.
    """

    case: Case
    kept: tuple[Kept, ...]
    steps: int
    is_minimal: bool


class Search:
    """Tries changes until none is left that keeps the failure, or a limit is reached."""

    def __init__(
        self,
        judge: Judge,
        *,
        known: MutableMapping[str, bool] | None = None,
        note: Callable[[str, bool], None] = lambda key, fails: None,
        progress: Callable[[int, int], None] = lambda instructions, steps: None,
        jobs: int = 1,
        max_steps: int,
        max_seconds: float,
    ) -> None:
        self._judge = judge
        self._known = {} if known is None else known
        self._note = note
        self._progress = progress
        self._jobs = max(jobs, 1)
        self._max_steps = max_steps
        self._until = time.monotonic() + max_seconds
        self.steps = 0
        self.kept: list[Kept] = []

    @property
    def is_over(self) -> bool:
        """Whether a limit is reached."""
        return self.steps >= self._max_steps or time.monotonic() >= self._until

    def reduce(self, case: Case, stages: Sequence[Stage]) -> Reduction:
        """The smallest case that still fails; `case` itself is known to fail."""
        before = None
        while before != case.key and not self.is_over:
            before = case.key
            # What a later stage removes may make an edit of an earlier one possible.
            for stage in stages:
                case = self._through(case, stage)
        return Reduction(case, tuple(self.kept), self.steps, not self.is_over)

    def _through(self, case: Case, stage: Stage) -> Case:
        """The case after all changes of a stage that keep the failure."""
        changes = iter(stage.changes(case))
        waiting = list(islice(changes, self._jobs))
        while waiting and not self.is_over:
            at, smaller = self._first_kept(case, waiting)
            if smaller is not None:
                case = smaller
                self.kept.append(Kept(stage.words, case.draft.size, self.steps))
                self._progress(case.draft.size, self.steps)
            # Those after the one that was kept are tried on what it made, as a single process would.
            waiting = [*waiting[at + 1 :], *islice(changes, at + 1)]
        return case

    def _first_kept(self, case: Case, changes: Sequence[Change]) -> tuple[int, Case | None]:
        """The first of the changes that keeps the failure, by number; the last number and None without one."""
        asked: list[tuple[int, Case]] = []
        for at, change in enumerate(changes):
            smaller = change(case)
            # Without a measure, zeros for values and values for zeros would follow each other for ever.
            if smaller is not None and smaller.measure < case.measure:
                asked.append((at, smaller))
        for (at, smaller), fails in zip(asked, self._verdicts([each for _, each in asked]), strict=False):
            self.steps += 1
            if fails:
                return at, smaller
            if self.is_over:
                break
        return len(changes) - 1, None

    def _verdicts(self, cases: Sequence[Case]) -> Iterator[bool]:
        """Whether each case fails: what is known, and what the judge says of the others."""
        unknown = {case.key: case for case in cases if case.key not in self._known}
        judged = iter(self._judge(tuple(unknown.values()))) if unknown else iter(())
        for case in cases:
            if case.key not in self._known:
                self._known[case.key] = fails = next(judged)
                self._note(case.key, fails)
            yield self._known[case.key]
