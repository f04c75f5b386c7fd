"""Suggestions that lower the peak of main memory, and the peak that each one leaves.

The peak is computed anew for each: aliases, live ranges, sharing, and allocations of the changed program. What depends
on choices of the compiler is not suggested; the tests compile changed programs and compare. Other layouts are suggested
on TPU alone, because the CPU compiler copies arguments into the row-major order. On GPU, for which nothing could be
compiled, only donation is suggested that needs no copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from hlo_cli.analysis.memory.memory_limits import allocated_bytes
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.peak_advice import entry_layouts, recomputation
from hlo_cli.analysis.peak_advice.donation import DonationPair, Donations, Donor, donatable_bytes, donors_of
from hlo_cli.analysis.peak_advice.donor_sets import certain_sets
from hlo_cli.analysis.peak_advice.entry_layouts import EntryLayout, relayout_bytes
from hlo_cli.analysis.peak_advice.interface import Argument, Result
from hlo_cli.analysis.peak_advice.recomputation import StoredValues, has_scan_gradient
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios, Outcome, Scenario
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import MemorySpace

_MIN_SAVING = 0.05
"""Minimum share of the peak that a suggestion saves."""
_MAX_LAYOUTS = 6
"""Number of groups of layouts to try."""


@dataclass(frozen=True, slots=True)
class Donate:
    """Arguments of the user's function to donate, and the pairs of arrays that then share memory."""

    donors: tuple[Donor, ...]
    pairs: tuple[DonationPair, ...]


@dataclass(frozen=True, slots=True)
class ChangeLayouts:
    """Arguments or results of one shape to pass or return in another dimension order."""

    layouts: tuple[EntryLayout, ...]


@dataclass(frozen=True, slots=True)
class RecomputeScan:
    """A scan whose body to compute again in the backward pass of its gradient, instead of storing its values."""

    stored: StoredValues


Change: TypeAlias = Donate | ChangeLayouts | RecomputeScan


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change, and the peak and its step after it and all earlier ones.

    If `is_allocated`, the peak of live bytes stays, and `before_bytes` and `peak_bytes` are what the program allocates:
    results have memory during the whole execution, even if they are live at its end alone.
    """

    change: Change
    before_bytes: int
    peak_bytes: int
    peak: int
    is_allocated: bool = False


def suggestions(memory: MemoryAnalysis, *, most: int = 3) -> tuple[Suggestion, ...]:
    """Returns up to `most` changes, each of which lowers the peak of main memory by at least 5%, on top of the earlier.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e {
    ...   w = f32[8,1024]{1,0:T(8,128)} parameter(0), metadata={op_name="w"}
    ...   ROOT n = f32[8,1024]{1,0:T(8,128)} negate(w) }'''
    >>> [found] = suggestions(memory_analysis(parse_module(text)))
    >>> [donor.name for donor in found.change.donors], found.before_bytes, found.peak_bytes
    (['w'], 65536, 32768)
    """
    space = memory.space(MemorySpace.MAIN)
    if space is None or not space.peak_bytes or not _is_certain(memory):
        return ()
    least = _MIN_SAVING * space.peak_bytes
    can_donate = donatable_bytes(memory) >= least
    can_reorder = memory.target == "tpu" and relayout_bytes(memory) >= least
    if (not can_donate and not can_reorder and not has_scan_gradient(memory)) or memory.module.errors:
        return ()
    return tuple(_Search(memory, space.peak_bytes).found(most, can_donate=can_donate))


def _is_certain(memory: MemoryAnalysis) -> bool:
    """Returns whether the program is as the compiler left it: scheduled, whole, and for a known target."""
    module = memory.module
    return memory.order == "schedule" and memory.target is not None and not module.is_part


class _Search:
    """The greedy search for changes: at each turn, the one that saves most on top of the earlier ones."""

    __slots__ = ("_before", "_known", "_memory", "_peak_bytes", "_scenarios")

    def __init__(self, memory: MemoryAnalysis, peak_bytes: int) -> None:
        self._memory = memory
        self._peak_bytes = peak_bytes
        self._scenarios = MemoryScenarios(memory)
        self._known: list[tuple[Scenario, Outcome]] = []
        self._before: Outcome = self._outcome(Scenario())

    def found(self, most: int, *, can_donate: bool) -> list[Suggestion]:
        """Returns the changes in their order."""
        donation = self._donation() if can_donate else None
        candidates: list[Change] = [*([donation] if donation is not None else []), *self._layouts(), *self._scans()]
        found: list[Suggestion] = []
        base, left = Scenario(), self._before
        while candidates and len(found) < most:
            tried = [(self._outcome(self._with(base, change)), n) for n, change in enumerate(candidates)]
            after, number = min(tried, key=lambda each: (each[0].peak_bytes, each[0].allocated_bytes or 0, each[1]))
            if left.peak_bytes - after.peak_bytes < _MIN_SAVING * self._peak_bytes:
                break
            change = candidates.pop(number)
            if after.allocated_bytes is not None and after.allocated_bytes >= (left.allocated_bytes or 0):
                continue
            base = self._with(base, change)
            offset = self._peak_bytes - self._before.peak_bytes
            found.append(Suggestion(change, left.peak_bytes + offset, after.peak_bytes + offset, after.peak))
            left = after
            candidates = [each for each in candidates if not _touches(each, change)]
        return [*found, *self._allocated_less(candidates, base, left, most - len(found))]

    def _allocated_less(
        self, candidates: list[Change], base: Scenario, left: Outcome, most: int
    ) -> Iterator[Suggestion]:
        """Yields changes that lower the total of all allocations by at least 5%, though not the peak."""
        space = self._memory.space(MemorySpace.MAIN)
        now = allocated_bytes(self._memory, space) if space is not None else None
        candidates = [each for each in candidates if _has_known_allocations(each)]
        while candidates and most > 0 and now is not None and left.allocated_bytes is not None:
            tried = [self._outcome(self._with(base, change)) for change in candidates]
            number = min(range(len(tried)), key=lambda n: tried[n].allocated_bytes or 0)
            change, after = candidates.pop(number), tried[number]
            saved = left.allocated_bytes - (after.allocated_bytes or 0)
            if saved < _MIN_SAVING * now:
                return
            if after.peak_bytes > left.peak_bytes:
                continue
            before = now - ((self._before.allocated_bytes or 0) - left.allocated_bytes)
            yield Suggestion(change, before, before - saved, after.peak, is_allocated=True)
            base, left, most = self._with(base, change), after, most - 1
            candidates = [each for each in candidates if not _touches(each, change)]

    def _outcome(self, scenario: Scenario) -> Outcome:
        found = next((outcome for known, outcome in self._known if known == scenario), None)
        if found is None:
            found = self._scenarios.outcome(scenario)
            self._known.append((scenario, found))
        return found

    def _with(self, base: Scenario, change: Change) -> Scenario:
        """Returns the scenario with a change too."""
        match change:
            case ChangeLayouts(layouts=layouts):
                return entry_layouts.scenario_of(self._scenarios, layouts, base)
            case RecomputeScan(stored=stored):
                return recomputation.scenario_of(self._scenarios, stored, base)
            case Donate(pairs=pairs):
                free = (pair.alias for pair in pairs if pair.kind == "free")
                return replace(
                    base,
                    aliases=(*self._memory.module.input_output_alias, *free),
                    copied=tuple(pair.alias for pair in pairs if pair.kind in ("copied", "fetched")),
                    joined=tuple((pair.argument.place, copy) for pair in pairs for copy in pair.joined),
                )

    def _donation(self) -> Donate | None:
        """Returns the donation that lowers the peak most, of those that need nothing unknown."""
        donors = donors_of(self._scenarios.facts)
        if not donors:
            return None
        donations = Donations(self._scenarios)
        best: tuple[int, int, Donate] | None = None
        is_strict = self._memory.target == "gpu"
        for some in certain_sets(donations, donors, self._scenarios, self._peak_bytes, is_strict=is_strict):
            pairs = donations.pairs(some)
            if sum(self._scenarios.bytes_of(pair.argument.place) for pair in pairs) < _MIN_SAVING * self._peak_bytes:
                continue
            change = Donate(some, pairs)
            after = self._outcome(self._with(Scenario(), change))
            cost = after.peak_bytes, after.allocated_bytes or 0
            if best is None or cost < best[:2]:
                best = *cost, change
            if self._before.peak_bytes - after.peak_bytes >= _MIN_SAVING * self._peak_bytes:
                break
        return best[2] if best is not None else None

    def _layouts(self) -> list[Change]:
        """Returns the layouts of arguments and results in groups of one shape and layout, the largest first."""
        if self._memory.target != "tpu":
            return []
        groups: dict[object, list[EntryLayout]] = {}
        for each in entry_layouts.entry_layouts(self._scenarios):
            key = isinstance(each.array, Argument), each.array.shape, each.layout
            groups.setdefault(key, []).append(each)
        sizes = {key: sum(map(self._saved_bytes, group)) for key, group in groups.items()}
        large = sorted((key for key in groups if sizes[key] >= _MIN_SAVING * self._peak_bytes), key=lambda k: -sizes[k])
        return [ChangeLayouts(tuple(groups[key])) for key in large[:_MAX_LAYOUTS]]

    def _scans(self) -> list[Change]:
        """Returns the scans whose values of one iteration are small."""
        if self._memory.target == "gpu" or not has_scan_gradient(self._memory):
            return []
        found = recomputation.stored_values(self._scenarios)
        return [RecomputeScan(each) for each in found if recomputation.is_sure(each, self._peak_bytes)]

    def _saved_bytes(self, change: EntryLayout) -> int:
        """Returns at most how many bytes a layout saves."""
        removed = sum(map(self._scenarios.bytes_of, change.removed))
        array = change.array
        return removed + (self._scenarios.bytes_of(array.place) - change.size if isinstance(array, Argument) else 0)


def _has_known_allocations(change: Change) -> bool:
    """Returns whether the allocations after a change are certain: no copies, whose place in a heap is unknown."""
    match change:
        case Donate(pairs=pairs):
            return all(pair.kind == "free" for pair in pairs)
        case ChangeLayouts():
            return True
        case RecomputeScan():
            return False


def _touches(change: Change, other: Change) -> bool:
    """Returns whether two changes concern the same argument or result."""
    return bool(_arrays(change) & _arrays(other))


def _arrays(change: Change) -> set[Argument | Result]:
    match change:
        case ChangeLayouts(layouts=layouts):
            return {each.array for each in layouts}
        case Donate(pairs=pairs):
            return {array for pair in pairs for array in (pair.argument, pair.result)}
        case RecomputeScan():
            return set()
