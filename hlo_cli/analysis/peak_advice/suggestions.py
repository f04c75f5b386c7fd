"""Suggestions that lower the peak of main memory, and the peak that each one leaves.

The peak is computed anew for each: aliases, live ranges, sharing, and allocations of the changed program. What depends
on choices of the compiler is not suggested; the tests compile changed programs and compare. Other layouts are suggested
on TPU alone, because the CPU compiler copies arguments into the row-major order. On GPU, for which nothing could be
compiled, only donation is suggested that needs no copies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.peak_advice.donation import DonationPair, Donations, Donor, donatable_bytes, donors_of
from hlo_cli.analysis.peak_advice.donor_sets import certain_sets
from hlo_cli.analysis.peak_advice.entry_layouts import EntryLayout, entry_layouts, has_relayouts, scenario_of
from hlo_cli.analysis.peak_advice.interface import Argument, Result
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


Change: TypeAlias = Donate | ChangeLayouts


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change, and the peak and its step after it and all earlier ones."""

    change: Change
    before_bytes: int
    peak_bytes: int
    peak: int


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
    can_donate = donatable_bytes(memory) >= _MIN_SAVING * space.peak_bytes
    if not can_donate and not (memory.target == "tpu" and has_relayouts(memory)):
        return ()
    return tuple(_Search(memory, space.peak_bytes).found(most, can_donate=can_donate))


def _is_certain(memory: MemoryAnalysis) -> bool:
    """Returns whether the program is as the compiler left it: scheduled, whole, and for a known target."""
    module = memory.module
    return memory.order == "schedule" and memory.target is not None and not module.is_part and not module.errors


class _Search:
    """The greedy search for changes: at each turn, the one that saves most on top of the earlier ones."""

    __slots__ = ("_before", "_memory", "_peak_bytes", "_scenarios")

    def __init__(self, memory: MemoryAnalysis, peak_bytes: int) -> None:
        self._memory = memory
        self._peak_bytes = peak_bytes
        self._scenarios = MemoryScenarios(memory)
        self._before: Outcome = self._scenarios.outcome(Scenario())

    def found(self, most: int, *, can_donate: bool) -> list[Suggestion]:
        """Returns the changes in their order."""
        donation = self._donation() if can_donate else None
        candidates: list[Change] = [*self._layouts(), *([donation] if donation is not None else [])]
        found: list[Suggestion] = []
        base, left = Scenario(), self._before
        while candidates and len(found) < most:
            tried = [(self._scenarios.outcome(self._with(base, change)), n) for n, change in enumerate(candidates)]
            after, number = min(tried, key=lambda each: (each[0].peak_bytes, each[0].allocated_bytes, each[1]))
            if left.peak_bytes - after.peak_bytes < _MIN_SAVING * self._peak_bytes:
                break
            change = candidates.pop(number)
            if after.allocated_bytes >= left.allocated_bytes:
                continue
            base = self._with(base, change)
            offset = self._peak_bytes - self._before.peak_bytes
            found.append(Suggestion(change, left.peak_bytes + offset, after.peak_bytes + offset, after.peak))
            left = after
            candidates = [each for each in candidates if not _touches(each, change)]
        return found

    def _with(self, base: Scenario, change: Change) -> Scenario:
        """Returns the scenario with a change too."""
        match change:
            case ChangeLayouts(layouts=layouts):
                return scenario_of(self._scenarios, layouts, base)
            case Donate(pairs=pairs):
                free = (pair.alias for pair in pairs if pair.kind == "free")
                return replace(
                    base,
                    aliases=(*self._memory.module.input_output_alias, *free),
                    copied=tuple(pair.alias for pair in pairs if pair.kind == "copied"),
                    joined=tuple((pair.argument.place, copy) for pair in pairs for copy in pair.joined),
                )

    def _donation(self) -> Donate | None:
        """Returns the donation that lowers the peak most, of those that need nothing unknown."""
        donors = donors_of(self._scenarios.facts)
        if not donors:
            return None
        donations = Donations(self._scenarios)
        best: tuple[int, Donate] | None = None
        is_strict = self._memory.target == "gpu"
        for some in certain_sets(donations, donors, self._scenarios, self._peak_bytes, is_strict=is_strict):
            pairs = donations.pairs(some)
            if sum(self._scenarios.bytes_of(pair.argument.place) for pair in pairs) < _MIN_SAVING * self._peak_bytes:
                continue
            change = Donate(some, pairs)
            after = self._scenarios.outcome(self._with(Scenario(), change)).peak_bytes
            if best is None or after < best[0]:
                best = after, change
            if self._before.peak_bytes - after >= _MIN_SAVING * self._peak_bytes:
                break
        return best[1] if best is not None else None

    def _layouts(self) -> list[Change]:
        """Returns the layouts of arguments and results in groups of one shape and layout, the largest first."""
        if self._memory.target != "tpu":
            return []
        groups: dict[object, list[EntryLayout]] = {}
        for each in entry_layouts(self._scenarios):
            key = isinstance(each.array, Argument), each.array.shape, each.layout
            groups.setdefault(key, []).append(each)
        sizes = {key: sum(map(self._saved_bytes, group)) for key, group in groups.items()}
        large = sorted((key for key in groups if sizes[key] >= _MIN_SAVING * self._peak_bytes), key=lambda k: -sizes[k])
        return [ChangeLayouts(tuple(groups[key])) for key in large[:_MAX_LAYOUTS]]

    def _saved_bytes(self, change: EntryLayout) -> int:
        """Returns at most how many bytes a layout saves."""
        removed = sum(map(self._scenarios.bytes_of, change.removed))
        array = change.array
        return removed + (self._scenarios.bytes_of(array.place) - change.size if isinstance(array, Argument) else 0)


def _touches(change: Change, other: Change) -> bool:
    """Returns whether two changes concern the same argument or result."""
    return bool(_arrays(change) & _arrays(other))


def _arrays(change: Change) -> set[Argument | Result]:
    match change:
        case ChangeLayouts(layouts=layouts):
            return {each.array for each in layouts}
        case Donate(pairs=pairs):
            return {array for pair in pairs for array in (pair.argument, pair.result)}
