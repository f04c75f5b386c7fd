"""Suggestions that lower the peak, in words: what to change in the user's program, and the peak that is left."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.memory.donation import Argument, Donor
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.memory.peak_advice import (
    Change,
    ChangeLayouts,
    Donate,
    EntryLayout,
    RecomputeScan,
    Suggestion,
    suggestions,
)
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.origin.scopes_and_moves import generalize
from hlo_cli.commands.shared.memory_timeline import step_label
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import Column, Table
from hlo_cli.report.text import Passage, Run, Text, line_of, plain_text

_MAX_NAMES: Final = 4
"""The number of arguments named in a sentence."""
_KINDS: Final[dict[type[Change], str]] = {Donate: "donation", ChangeLayouts: "layout", RecomputeScan: "recomputation"}
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
            _KINDS[type(each.change)],
            ", ".join(_subjects(each.change, memory.module)),
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


def change_in_words(change: Change, module: Module) -> Text:
    """What to change, as an instruction to the reader."""
    match change:
        case Donate():
            return _donated(change)
        case ChangeLayouts():
            return _ordered(change, _subjects(change, module))
        case RecomputeScan(stored=stored):
            return ("Recompute the body of the scan ", *_place_of(stored.forward, module), " for the gradient")


def _in_words(memory: MemoryAnalysis, suggestion: Suggestion) -> Text:
    at = step_label(memory, suggestion.peak)
    before, after = format_bytes(suggestion.before_bytes), format_bytes(suggestion.peak_bytes)
    edit = _edit(suggestion.change)
    what = "allocated memory" if suggestion.is_allocated else "peak"
    return (
        *line_of(change_in_words(suggestion.change, memory.module)),
        f" with {edit}" if edit else "",
        f": {what} drops from {before} to {after}",
        f" at {at}" if at is not None and not suggestion.is_allocated else "",
    )


def _subjects(change: Change, module: Module) -> list[str]:
    """The arguments or results that a change concerns; equal ones of several layers once."""
    match change:
        case Donate(donors=donors):
            return [donor.name for donor in donors]
        case ChangeLayouts(layouts=layouts):
            return list(dict.fromkeys(_array_name(each) for each in layouts))
        case RecomputeScan(stored=stored):
            return [plain_text(line_of(_place_of(stored.forward, module)))]


def _array_name(change: EntryLayout) -> str:
    array = change.array
    if isinstance(array, Argument):
        return generalize(array.label)
    return f"result {index_text(array.index)}" if array.index else "the result"


def _place_of(loop: Instruction, module: Module) -> tuple[str | Run, ...]:
    """Where the program has a loop: its source line, else its name in the dump."""
    source = origins_of(module).of(loop).source
    return ("at ", Run(source, "name")) if source else (Run(loop.name, "name"),)


def _donated(change: Donate) -> Text:
    """The arguments to donate, with the number of their arrays that then hold results."""
    words: list[str | Run] = ["Donate "]
    for at, donor in enumerate(change.donors[:_MAX_NAMES]):
        is_last = at == len(change.donors) - 1
        words += [("" if not at else " and " if is_last else ", "), Run(_donor_name(donor), "name")]
    if (others := len(change.donors) - _MAX_NAMES) > 0:
        words.append(f" and {format_count(others, 'more arguments')}")
    if len(change.pairs) > len(change.donors):
        words.append(f" ({format_count(len(change.pairs), 'arrays')})")
    return tuple(words)


def _donor_name(donor: Donor) -> str:
    """The argument as the user calls it, else its number."""
    first = donor.arguments[0]
    return donor.name if first.root_name else f"argument {first.number} ({donor.name})"


def _ordered(change: ChangeLayouts, names: list[str]) -> Text:
    """The arguments to pass, or results to return, in another dimension order."""
    first = change.layouts[0]
    is_argument = isinstance(first.array, Argument)
    words: list[str | Run] = ["Pass " if is_argument else "Return "]
    several = len(change.layouts) > len(names)
    words.append(f"{len(change.layouts):,} × " if several else "")
    for at, name in enumerate(names[:_MAX_NAMES]):
        words += [("" if not at else " and " if at == len(names) - 1 else ", "), Run(name, "name")]
    if (others := len(names) - _MAX_NAMES) > 0:
        words.append(f" and {format_count(others, 'more')}")
    words.append(f" in dimension order {index_text(first.layout.minor_to_major)}")
    return tuple(words)


def _edit(change: Change) -> str:
    """The argument of jax.jit that makes the change; empty if the dump does not have the names of the arguments."""
    match change:
        case Donate(donors=donors):
            if not all(donor.arguments[0].root_name for donor in donors):
                return ""
            names = [f'"{donor.name}"' for donor in donors]
            return f"donate_argnames={names[0]}" if len(names) == 1 else f"donate_argnames=({', '.join(names)})"
        case ChangeLayouts(layouts=layouts):
            first = layouts[0]
            order = ", ".join(map(str, reversed(first.layout.minor_to_major)))
            where = "in_shardings" if isinstance(first.array, Argument) else "out_shardings"
            return f"Format(Layout(({order})), sharding) in {where}"
        case RecomputeScan():
            return "jax.checkpoint"
