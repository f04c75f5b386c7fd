"""Two profiles: their kernels matched by the differences of the programs, with the times of both.

The programs decide what changed, and times only measure it: kernels of unchanged code differ by the machine, unless one
differs from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli.analysis.profile.call_times import (
    Drift,
    KernelTime,
    Ranges,
    Unit,
    has_steps,
    ranges_of,
    unit_times,
)
from hlo_cli.analysis.profile.profile import MeasuredProgram, Operation, Profile
from hlo_cli.analysis.profile_diff.matched_kernels import Body, BodyDifference, ProgramPair, matched_kernels
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular

CHANGED: tuple[Body, ...] = ("changed", "new", "gone")
"""What the code of a kernel is if the program changed it."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedKernel:
    """A kernel of two profiles, or of one; the time of a side is None if it did not run in a whole step there.

    `ranges` says how the ranges of its calls lie, None for a kernel of one profile. `is_outlier` is True for unchanged
    code whose time differs from that of the rest by the test of `Drift`.
    """

    before: Operation | None
    after: Operation | None
    body: Body
    difference: BodyDifference
    time_before: KernelTime | None
    time_after: KernelTime | None
    ranges: Ranges | None
    is_outlier: bool

    @property
    def operation(self) -> Operation:
        """The kernel after, else the one before."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def is_renamed(self) -> bool:
        """Whether the names of the two sides differ."""
        return self.before is not None and self.after is not None and self.before.name != self.after.name

    @property
    def seconds(self) -> tuple[float, float]:
        """The time before and after, per unit; 0 where it did not run."""
        one, two = ((0.0 if each is None else each.time) for each in (self.time_before, self.time_after))
        return one, two

    @property
    def difference_seconds(self) -> float:
        """How much longer it took after, per unit."""
        one, two = self.seconds
        return two - one


@dataclass(frozen=True, slots=True, eq=False)
class KernelSum:
    """How many kernels, with the sums of their times before and after, in seconds per unit."""

    kernels: int
    before: float
    after: float

    @property
    def difference(self) -> float:
        """How much longer they took after."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, eq=False)
class ProfileComparison(Tabular):
    """Two profiles in times per `unit`, of which they have `units_before` and `units_after`.

    `drift` is the common ratio of times after to times before of unchanged code.
    """

    before: Profile
    after: Profile
    unit: Unit
    units_before: int
    units_after: int
    programs: tuple[ProgramPair, ...]
    kernels: tuple[ComparedKernel, ...]
    drift: float

    def of(self, *bodies: Body) -> Iterator[ComparedKernel]:
        """The kernels whose code is one of these."""
        return (each for each in self.kernels if each.body in bodies)

    def sum_of(self, *bodies: Body) -> KernelSum:
        """The sum of the kernels whose code is one of these."""
        return self._sum(self.of(*bodies))

    def sum_of_changed_code(self) -> KernelSum:
        """The sum of the changed, new, and gone kernels of programs that both profiles have."""
        alone = self._alone
        return self._sum(each for each in self.of(*CHANGED) if each.operation.program not in alone)

    def sum_of_program(self, program: MeasuredProgram) -> KernelSum:
        """The sum of the kernels of a program of one of the profiles."""
        return self._sum(each for each in self.kernels if each.operation.program is program)

    @property
    def _alone(self) -> frozenset[MeasuredProgram | None]:
        """The programs that only one of the profiles has."""
        return frozenset(p.before or p.after for p in self.programs if p.before is None or p.after is None)

    @staticmethod
    def _sum(kernels: Iterable[ComparedKernel]) -> KernelSum:
        found = list(kernels)
        seconds = [each.seconds for each in found]
        return KernelSum(len(found), sum(each[0] for each in seconds), sum(each[1] for each in seconds))

    @property
    def is_same_program(self) -> bool:
        """Whether all programs have modules that are equal but for names, metadata, and order."""
        return all(each.difference is not None and each.difference.is_empty for each in self.programs) and not any(
            self.of(*CHANGED, "unknown")
        )

    @property
    def has_few_calls(self) -> bool:
        """Whether no kernel of unchanged code has enough calls on both sides to be tested."""
        tested = [each.ranges for each in self.of("same", "unknown") if each.ranges is not None]
        return bool(tested) and all(each == "too few calls" for each in tested)


def compare_profiles(before: Profile, after: Profile) -> ProfileComparison:
    """Compares two profiles: per whole step if both have some, else per run of their largest program.

    Time and memory are linear in the events, besides the cost of `diff` for each pair of programs.

    >>> from hlo_cli import profile
    >>> found = profile("fixtures/traces/cpu/trace.xplane.pb")
    >>> compared = compare_profiles(found, found)
    >>> compared.is_same_program, compared.unit, [each.body for each in compared.kernels], compared.has_few_calls
    (True, 'run', ['same', 'same', 'same'], True)
    """
    per_step = has_steps(before) and has_steps(after)
    one, two = unit_times(before, per_step=per_step), unit_times(after, per_step=per_step)
    programs, pairs = matched_kernels(before, after)
    rows = [
        (
            pair,
            None if pair.before is None else one.times[pair.before],
            None if pair.after is None else two.times[pair.after],
        )
        for pair in pairs
    ]
    calm = [(x.durations_ps, y.durations_ps) for pair, x, y in rows if pair.body in ("same", "unknown") and x and y]
    drift = Drift(calm)
    kernels = tuple(
        ComparedKernel(
            None if pair.before is None else before.operations[pair.before],
            None if pair.after is None else after.operations[pair.after],
            pair.body,
            pair.difference,
            x,
            y,
            None if x is None or y is None else ranges_of(x.durations_ps, y.durations_ps),
            pair.body in ("same", "unknown")
            and x is not None
            and y is not None
            and drift.is_outlier(x.durations_ps, y.durations_ps),
        )
        for pair, x, y in rows
    )
    unit: Unit = one.unit if one.unit == two.unit else "trace"
    return ProfileComparison(before, after, unit, one.count, two.count, programs, kernels, drift.ratio)
