"""The first line of a report by cause: which key costs most, and how much of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.analysis.origin.origins import (
    ARGUMENTS_KEY,
    COMPUTED_KEY,
    LATER_KEY,
    NO_SCOPE_KEY,
    OTHER_KEYS,
    PROGRAM_KEY,
    UNKNOWN_KEY,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_bytes, format_part, format_percent, format_seconds

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By


Verb: TypeAlias = tuple[str, str]
"""A verb in the plural and in the singular."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How costs are formatted: one alone, and one out of the sum of all."""

    alone: Callable[[float], str]
    of: Callable[[float, float], str]


BYTES: Final = Amount(lambda cost: format_bytes(int(cost)), lambda cost, whole: format_part(int(cost), int(whole)))
SECONDS: Final = Amount(
    format_seconds, lambda cost, whole: f"{format_seconds(cost)} of the estimated {format_seconds(whole)}"
)


def describe_costs(
    costs: Sequence[tuple[str, float]], by: By, *, noun: str, verb: Verb, amount: Amount, place: str = ""
) -> str:
    """Which keys have the highest cost; `costs` are sorted, highest first, and `amount` formats them.

    If the first key names no cause, such as `(arguments)`, the first one that does is added. `noun` is that of the
    members of a key, in the plural, and `verb` what members do and what a key does.

    >>> costs = (("(arguments)", 300), ("a/b.py:3", 60), ("c.py:1", 40))
    >>> describe_costs(costs, "source", noun="values", verb=("hold", "holds"), amount=BYTES, place="at the HBM peak")
    'Arguments hold 300 of 400 B at the HBM peak (75%); b.py:3 holds 60 B (15%)'
    """
    whole = sum(cost for _, cost in costs)
    first, *others = costs
    words = (_subject(first[0], by, noun, verb), amount.of(first[1], whole), *([place] if place else []))
    lead = f"{' '.join(words)}{_share(first[1], whole)}"
    lead = f"{lead[0].upper()}{lead[1:]}" if first[0] in OTHER_KEYS else lead
    if first[0] not in OTHER_KEYS:
        return lead
    named = next(((key, cost) for key, cost in others if key not in OTHER_KEYS and cost), None)
    if named is None:
        return lead
    return f"{lead}; {_subject(named[0], by, noun, verb)} {amount.alone(named[1])}{_share(named[1], whole)}"


def _share(cost: float, whole: float) -> str:
    return f" ({format_percent(cost / whole)}%)" if whole else ""


def _subject(key: str, by: By, noun: str, verb: Verb) -> str:
    """A key as the subject of a sentence, with its verb."""
    match key:
        case _ if key == UNKNOWN_KEY:
            return f"{noun} of unknown {by} {verb[0]}"
        case _ if key == ARGUMENTS_KEY:
            return f"arguments {verb[0]}"
        case _ if key == COMPUTED_KEY:
            return f"{'computed values' if noun == 'values' else f'{noun} of computed values'} {verb[0]}"
        case _ if key == PROGRAM_KEY:
            return f"{noun} of the program before the first pass {verb[0]}"
        case _ if key == LATER_KEY:
            return f"{noun} of passes after the last pass dump {verb[0]}"
        case _ if key == NO_SCOPE_KEY:
            return f"{noun} without a scope {verb[0]}"
        case _:
            return f"{key.rpartition('/')[2] if by == 'source' else key} {verb[1]}"
