"""Suggestions that lower the peak, in words: what to change in the user's program, and the peak that is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.origin.scopes import generalize
from hlo_cli.analysis.peak_advice.donation import Donor
from hlo_cli.analysis.peak_advice.suggestions import Donate, Suggestion, suggestions
from hlo_cli.commands.shared.memory_timeline import step_label
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage, Run, Text

_MAX_NAMES: Final = 4
"""The number of arguments named in a sentence."""
_COLUMNS: Final = (
    Column("kind", "kind", "text"),
    Column("subject", "subject", "text"),
    Column("edit", "edit", "text"),
    Column("before_bytes", "before", "bytes"),
    Column("after_bytes", "after", "bytes"),
    Column("peak_instruction", "at instruction", "name"),
)


def advice_parts(memory: MemoryAnalysis, space: MemorySpaceUsage) -> tuple[Part, ...]:
    """The suggestions for the main memory as a passage for people and a table for machines; nothing without any."""
    found = () if space.number else suggestions(memory)
    if not found:
        return ()
    lines = tuple(_in_words(memory, each) for each in found)
    rows = tuple(
        (
            "donation",
            ", ".join(donor.name for donor in each.change.donors),
            _edit(each.change),
            each.before_bytes,
            each.peak_bytes,
            step_label(memory, each.peak),
        )
        for each in found
    )
    title = f"To reduce peak {space.name}"
    table = Table("suggestions", _COLUMNS, rows, title=title, noun="suggestions", main=False, person=False)
    return Passage("advice", lines, title=title), table


def _in_words(memory: MemoryAnalysis, suggestion: Suggestion) -> Text:
    at = step_label(memory, suggestion.peak)
    before, after = format_bytes(suggestion.before_bytes), format_bytes(suggestion.peak_bytes)
    edit = _edit(suggestion.change)
    words = _donated(suggestion.change)
    return (
        *words,
        f" with {edit}" if edit else "",
        f": peak drops from {before} to {after}",
        f" at {at}" if at is not None else "",
    )


def _donated(change: Donate) -> Sequence[str | Run]:
    """The arguments to donate, with the number of their arrays that then hold results."""
    words: list[str | Run] = ["Donate "]
    for at, donor in enumerate(change.donors[:_MAX_NAMES]):
        is_last = at == len(change.donors) - 1
        words += [("" if not at else " and " if is_last else ", "), Run(_name(donor), "name")]
    if others := len(change.donors) - _MAX_NAMES:
        words += [f" and {format_count(others, 'more arguments')}"] if others > 0 else []
    arrays = {generalize(pair.argument.label) for pair in change.pairs}
    if len(change.pairs) > len(change.donors):
        several = f" in {len(arrays):,} places" if len(arrays) < len(change.pairs) else ""
        words.append(f" ({format_count(len(change.pairs), 'arrays')}{several})")
    return words


def _name(donor: Donor) -> str:
    """The argument as the user calls it, else its number."""
    first = donor.arguments[0]
    return donor.name if first.root_name else f"argument {first.number} ({donor.name})"


def _edit(change: Donate) -> str:
    """The argument of jax.jit that makes the change; empty if the dump does not have the names of the arguments."""
    if not all(donor.arguments[0].root_name for donor in change.donors):
        return ""
    names = [f'"{donor.name}"' for donor in change.donors]
    return f"donate_argnames={names[0]}" if len(names) == 1 else f"donate_argnames=({', '.join(names)})"
