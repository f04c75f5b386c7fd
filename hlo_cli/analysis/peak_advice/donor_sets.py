"""Which arguments to donate together: sets of donors whose pairs with results are all certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hlo_cli.analysis.peak_advice.donation import DonationPair, Donations, Donor
from hlo_cli.analysis.peak_advice.interface import Argument
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios

_MAX_SINGLE_DONORS = 4
_MAX_TRIED_DONORS = 64
_SMALL = 0.01
"""Share of the peak below which the arrays of a donor do not matter."""


def certain_sets(
    donations: Donations, donors: Sequence[Donor], scenarios: MemoryScenarios, peak_bytes: int, *, is_strict: bool
) -> Iterator[tuple[Donor, ...]]:
    """Yields sets of donors whose pairs are all certain: the largest one first, then single donors.

    If `is_strict`, no pair may need a copy.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.analysis.peak_advice.donation import donors_of
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[64] parameter(0)  b = f32[64] parameter(1)
    ...   n = f32[64] negate(b)  s = f32[64] sine(a)  ROOT t = (f32[64], f32[64]) tuple(n, s) }'''
    >>> scenarios = MemoryScenarios(memory_analysis(parse_module(text)))
    >>> sets = certain_sets(Donations(scenarios), donors_of(scenarios.facts), scenarios, 1024, is_strict=False)
    >>> [[donor.name for donor in each] for each in sets]
    [['b']]
    """

    def is_sure(pair: DonationPair) -> bool:
        return pair.kind == "free" or (pair.kind in ("copied", "fetched") and not is_strict)

    some = tuple(donors)
    while some:
        pairs = donations.pairs(some)
        uncertain = {pair.argument for pair in pairs if not is_sure(pair)}
        paired = _paired_bytes(pairs, scenarios)
        large = {d for d in some if sum(paired[each] for each in set(d.arguments)) >= _SMALL * peak_bytes}
        left = tuple(d for d in some if d in large and not uncertain.intersection(d.arguments))
        if left == some:
            yield some
            break
        some = left
    singles = [(donor, donations.pairs([donor])) for donor in donors[:_MAX_TRIED_DONORS]]
    sure = [(d, pairs) for d, pairs in singles if (d,) != some and pairs and all(map(is_sure, pairs))]
    sure.sort(key=lambda each: -sum(_paired_bytes(each[1], scenarios).values()))
    yield from ((donor,) for donor, _ in sure[:_MAX_SINGLE_DONORS])


def _paired_bytes(pairs: Sequence[DonationPair], scenarios: MemoryScenarios) -> Counter[Argument]:
    """Returns the bytes of each argument that is in a pair; a pair is hashed once, not once for each donor."""
    found: Counter[Argument] = Counter()
    for pair in pairs:
        found[pair.argument] += scenarios.bytes_of(pair.argument.place)
    return found
