"""Suggestions that lower the peak of main memory, and the peak that each one leaves.

The peak is computed anew for each: aliases, live ranges, sharing, and allocations of the changed program. What depends
on choices of the compiler is not suggested; the tests compile changed programs and compare. On GPU, for which nothing
could be compiled, only donation is suggested that needs no copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.peak_advice.donation import DonationPair, Donations, Donor, donatable_bytes, donors_of
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios, Outcome, Scenario
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import MemorySpace

_MIN_SAVING = 0.05
"""Minimum share of the peak that a suggestion saves."""
_MAX_SINGLE_DONORS = 4
_SMALL = 0.01
"""Share of the peak below which the arrays of a donor do not matter."""


@dataclass(frozen=True, slots=True)
class Donate:
    """Arguments of the user's function to donate, and the pairs of arrays that then share memory."""

    donors: tuple[Donor, ...]
    pairs: tuple[DonationPair, ...]


Change = Donate


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
    if space is None or not space.peak_bytes or not _is_certain(memory) or most < 1:
        return ()
    return tuple(_suggestions(memory, space.peak_bytes))[:most]


def _is_certain(memory: MemoryAnalysis) -> bool:
    """Returns whether the program is as the compiler left it: scheduled, whole, and for a known target."""
    module = memory.module
    return memory.order == "schedule" and memory.target is not None and not module.is_part and not module.errors


def _suggestions(memory: MemoryAnalysis, peak_bytes: int) -> Iterator[Suggestion]:
    if donatable_bytes(memory) < _MIN_SAVING * peak_bytes:
        return
    scenarios = MemoryScenarios(memory)
    least = _MIN_SAVING * peak_bytes
    found = _donation(scenarios, memory, peak_bytes)
    if found is not None and peak_bytes - found.peak_bytes >= least:
        yield found


def _donation(scenarios: MemoryScenarios, memory: MemoryAnalysis, peak_bytes: int) -> Suggestion | None:
    """Returns the donation that lowers the peak most, of those that need nothing unknown."""
    donors = donors_of(scenarios.facts)
    if not donors:
        return None
    donations = Donations(scenarios)
    before = scenarios.outcome(Scenario())
    best: Suggestion | None = None
    for some in _certain_sets(donations, donors, memory, scenarios, peak_bytes):
        pairs = donations.pairs(some)
        if sum(scenarios.bytes_of(pair.argument.place) for pair in pairs) < _MIN_SAVING * peak_bytes:
            continue
        after = scenarios.outcome(_scenario(memory, pairs))
        left = peak_bytes - (before.peak_bytes - after.peak_bytes)
        if after.allocated_bytes < before.allocated_bytes and (best is None or left < best.peak_bytes):
            best = Suggestion(Donate(some, pairs), peak_bytes, left, after.peak)
        if best is not None and peak_bytes - best.peak_bytes >= _MIN_SAVING * peak_bytes:
            break
    return best


def _scenario(memory: MemoryAnalysis, pairs: Sequence[DonationPair]) -> Scenario:
    free = (pair.alias for pair in pairs if pair.kind == "free")
    copied = tuple(pair.alias for pair in pairs if pair.kind == "copied")
    joined = tuple((pair.argument.place, copy) for pair in pairs for copy in pair.joined)
    return Scenario((*memory.module.input_output_alias, *free), copied, joined)


def _certain_sets(
    donations: Donations,
    donors: Sequence[Donor],
    memory: MemoryAnalysis,
    scenarios: MemoryScenarios,
    peak_bytes: int,
) -> Iterator[tuple[Donor, ...]]:
    """Yields sets of donors whose pairs are all certain: the largest one, or else single donors."""

    def bytes_in(donor: Donor, pairs: Sequence[DonationPair]) -> int:
        inside = set(donor.arguments)
        return sum(scenarios.bytes_of(pair.argument.place) for pair in pairs if pair.argument in inside)

    some = tuple(donors)
    while some:
        pairs = donations.pairs(some)
        uncertain = {pair.argument for pair in pairs if not _is_sure(pair, memory)}
        small = [d for d in some if bytes_in(d, pairs) < _SMALL * peak_bytes]
        left = tuple(d for d in some if d not in small and not uncertain.intersection(d.arguments))
        if left == some:
            yield some
            break
        some = left
    singles = [(donor, donations.pairs([donor])) for donor in donors[:64]]
    sure = [(d, pairs) for d, pairs in singles if pairs and all(_is_sure(pair, memory) for pair in pairs)]
    sure.sort(key=lambda each: -bytes_in(*each))
    yield from ((donor,) for donor, _ in sure[:_MAX_SINGLE_DONORS])


def _is_sure(pair: DonationPair, memory: MemoryAnalysis) -> bool:
    """Returns whether a pair's memory is certain on the target."""
    return pair.kind == "free" or (pair.kind == "copied" and memory.target != "gpu")


__all__ = ["Change", "Donate", "Outcome", "Suggestion", "suggestions"]
