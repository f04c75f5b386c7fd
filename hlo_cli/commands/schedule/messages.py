"""Sentences about asynchronous operations for `hlo schedule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.report.numbers import format_bytes, format_count, format_part, singular


def describe_overlap(
    overlap: OverlapAnalysis, flights: Sequence[AsyncInterval], blocking: Mapping[Instruction, int]
) -> str:
    """The exposed pairs and bytes of an overlap analysis, and the synchronous transfers."""
    if flights:
        words = _pairs_in_words(flights)
    else:
        words = f"Nothing is asynchronous in {format_count(len(overlap.sequence), 'steps')}"
    is_scheduled = overlap.module.is_scheduled
    if not is_scheduled:
        words = f"Not scheduled; in the order of the text {words[0].lower()}{words[1:]}"
    return words + _blocking_in_words(blocking, is_scheduled=is_scheduled)


def _blocking_in_words(blocking: Mapping[Instruction, int], *, is_scheduled: bool) -> str:
    """The end of an answer: the synchronous transfers or, before scheduling, those that may become asynchronous."""
    opcodes = [each.opcode for each in blocking if is_scheduled or each.opcode in COLLECTIVES]
    if not opcodes:
        return ""
    moved = format_bytes(sum(size for each, size in blocking.items() if each.opcode in opcodes))
    move = "moves" if len(opcodes) == 1 else "move"
    still = f"{_is(len(opcodes))} not" if is_scheduled else "may become"
    return f"; {blocking_number(opcodes)}, which {move} {moved}, {still} asynchronous"


def blocking_number(opcodes: Sequence[str]) -> str:
    """The number and kind of synchronous instructions.

    >>> blocking_number(["infeed"]), blocking_number(["all-reduce"] * 2), blocking_number(["infeed", "outfeed"])
    ('1 infeed', '2 collectives', '2 transfers')
    """
    kinds = {"collective" if each in COLLECTIVES else each for each in opcodes}
    return format_count(len(opcodes), f"{kinds.pop() if len(kinds) == 1 else 'transfer'}s")


def _pairs_in_words(every: Sequence[AsyncInterval]) -> str:
    """How many pairs overlap no compute, and how many have no done."""
    flights = [flight for flight in every if flight.done_step is not None]
    if not flights:
        return f"The text does not tell when {format_count(len(every), _nouns(every))} {_is(len(every))} waited for"
    lost = len(every) - len(flights)
    return _exposed_in_words(flights) + (f"; nothing waits for {lost:,} more" if lost else "")


def _exposed_in_words(flights: Sequence[AsyncInterval]) -> str:
    """How many pairs, and how many of their bytes, are exposed."""
    exposed = [flight for flight in flights if flight.is_exposed]
    total, waited = (sum(flight.total_bytes for flight in each) for each in (flights, exposed))
    least = "at least " if any(flight.times is None for flight in flights) else ""
    verb = "overlaps" if len(flights if len(exposed) in (0, len(flights)) else exposed) == 1 else "overlap"
    if exposed and len(exposed) < len(flights):
        number = f"{len(exposed):,} of {len(flights):,} {pair_noun(flights)}"
        return f"{number} {verb} nothing: {least}{format_part(waited, total)} is exposed"
    what = "nothing: all" if exposed else "other work: none"
    return f"{quantified_noun(flights)} {verb} {what} of {least}{format_bytes(total)} is exposed"


def quantified_noun(flights: Sequence[AsyncInterval]) -> str:
    """All pairs with a quantifier: `Both all-reduces`."""
    every = {1: "The only", 2: "Both"}.get(len(flights), f"All {len(flights):,}")
    return f"{every} {pair_noun(flights)}"


def pair_noun(flights: Sequence[AsyncInterval]) -> str:
    """The noun for the pairs: `all-reduces`, plural unless there is one."""
    return singular(_nouns(flights)) if len(flights) == 1 else _nouns(flights)


def _nouns(flights: Sequence[AsyncInterval]) -> str:
    operations = {flight.pair.operation for flight in flights}
    noun = operations.pop() if len(operations) == 1 else "asynchronous operation"
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
