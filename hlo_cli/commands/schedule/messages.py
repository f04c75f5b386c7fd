"""Sentences about async operations for `hlo schedule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.report.numbers import format_bytes, format_count, format_part, plural, singular


def describe_overlap(
    overlap: OverlapAnalysis, intervals: Sequence[AsyncInterval], synchronous: Mapping[Instruction, int]
) -> str:
    """The pairs that overlap no kernel, their bytes, and the synchronous transfers."""
    if intervals:
        words = _pairs_in_words(intervals)
    else:
        words = f"No async operations in {format_count(len(overlap.sequence), 'steps')}"
    is_scheduled = overlap.module.is_scheduled
    if not is_scheduled:
        words = f"Not scheduled; assuming text order, {words[0].lower()}{words[1:]}"
    return words + _synchronous_in_words(synchronous, is_scheduled=is_scheduled)


def _synchronous_in_words(synchronous: Mapping[Instruction, int], *, is_scheduled: bool) -> str:
    """The end of an answer: the synchronous transfers or, before scheduling, those that can become asynchronous."""
    # Before scheduling every collective is synchronous, and those that stay so are not known yet.
    opcodes = [each.opcode for each in synchronous if is_scheduled or each.opcode in COLLECTIVES]
    if not opcodes:
        return ""
    moved = format_bytes(sum(size for each, size in synchronous.items() if each.opcode in opcodes))
    state = f"{is_or_are(len(opcodes))} synchronous" if is_scheduled else "can become asynchronous"
    return f"; {count_synchronous(opcodes)} ({moved}) {state}"


def count_synchronous(opcodes: Sequence[str]) -> str:
    """The number and kind of synchronous instructions.

    >>> count_synchronous(["infeed"]), count_synchronous(["all-reduce"] * 2), count_synchronous(["infeed", "outfeed"])
    ('1 infeed', '2 collectives', '2 transfers')
    """
    kinds = {"collective" if each in COLLECTIVES else each for each in opcodes}
    return format_count(len(opcodes), f"{kinds.pop() if len(kinds) == 1 else 'transfer'}s")


def _pairs_in_words(every: Sequence[AsyncInterval]) -> str:
    """How many pairs overlap no compute, and how many have no done."""
    intervals = [interval for interval in every if interval.done_step is not None]
    if not intervals:
        return f"No done found for {format_count(len(every), _nouns(every))}"
    without_done = len(every) - len(intervals)
    return _overlap_in_words(intervals) + (
        f"; {without_done:,} more {'has' if without_done == 1 else 'have'} no done" if without_done else ""
    )


def _overlap_in_words(intervals: Sequence[AsyncInterval]) -> str:
    """How many pairs, and how many of their bytes, overlap no kernel."""
    alone = [interval for interval in intervals if interval.is_unoverlapped]
    total, bytes_alone = (sum(interval.total_bytes for interval in each) for each in (intervals, alone))
    # A loop of unknown trip count counts once.
    least = "at least " if any(interval.times is None for interval in intervals) else ""
    if alone and len(alone) < len(intervals):
        number = f"{len(alone):,} of {len(intervals):,} {pair_noun(intervals)}"
        return f"{number} {overlap_or_overlaps(len(alone))} no kernel ({least}{format_part(bytes_alone, total)})"
    what = "no kernel" if alone else "kernels"
    verb = overlap_or_overlaps(len(intervals))
    return f"{quantified_noun(intervals)} {verb} {what} ({least}{format_bytes(total)})"


def quantified_noun(intervals: Sequence[AsyncInterval]) -> str:
    """All pairs with a quantifier: `Both all-reduces`."""
    every = {1: "The only", 2: "Both"}.get(len(intervals), f"All {len(intervals):,}")
    return f"{every} {pair_noun(intervals)}"


def pair_noun(intervals: Sequence[AsyncInterval]) -> str:
    """The noun for the pairs: `all-reduces`, plural unless there is one."""
    return singular(_nouns(intervals)) if len(intervals) == 1 else _nouns(intervals)


def _nouns(intervals: Sequence[AsyncInterval]) -> str:
    operations = {interval.pair.operation for interval in intervals}
    noun = operations.pop() if len(operations) == 1 else "async operation"
    return plural(noun)


def overlap_or_overlaps(number: int) -> str:
    """The verb for what overlaps a number of things.

    >>> overlap_or_overlaps(1), overlap_or_overlaps(2)
    ('overlaps', 'overlap')
    """
    return "overlaps" if number == 1 else "overlap"


def is_or_are(number: int) -> str:
    """The verb for a number of things.

    >>> is_or_are(1), is_or_are(0)
    ('is', 'are')
    """
    return "is" if number == 1 else "are"
