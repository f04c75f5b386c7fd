"""What to change in the user's program to lower the peak of main memory, in words and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.memory.donation import Argument, Donor, argnums_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemoryFit, MemorySpaceUsage
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
from hlo_cli.commands.memspace.usage import step_label
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import Column, Table, rows_from
from hlo_cli.report.text import Passage, Run, Text, line_of, plain_text

_MAX_NAMES_IN_ADVICE: Final = 4
"""The number of arguments named in a sentence."""
_KINDS: Final[dict[type[Change], str]] = {Donate: "donation", ChangeLayouts: "layout", RecomputeScan: "recomputation"}


def advice_parts(memory: MemoryAnalysis, space: MemorySpaceUsage, failing: MemoryFit | None) -> tuple[Part, ...]:
    """The suggestions for the main memory as a passage for people and a table for machines, which may be empty."""
    # `suggestions` changes what main memory holds; the compiler alone decides what is in the others.
    if space.number:
        return ()
    changes = suggestions(memory)
    limit = failing.limit_bytes if failing is not None and failing.space == space.number else None
    lines = tuple(_suggestion_in_words(memory, suggestion, limit) for suggestion in changes)
    columns = (
        Column("kind", "kind", "text", of=lambda suggestion: _KINDS[type(suggestion.change)]),
        Column("subject", "subject", "text",
               of=lambda suggestion: ", ".join(_subjects(suggestion.change, memory.module))),
        Column("edit", "edit", "text", of=lambda suggestion: _edit_of_program(suggestion.change)),
        Column("before_bytes", "before", "bytes", of=lambda suggestion: suggestion.before_bytes),
        Column("after_bytes", "after", "bytes", of=lambda suggestion: suggestion.peak_bytes),
        Column("peak_instruction", "at instruction", "name",
               of=lambda suggestion: step_label(memory, suggestion.peak_step)),
    )  # fmt: skip
    rows = rows_from(columns, changes)
    title = f"To reduce peak {space.name}"
    table = Table("suggestions", columns, rows, title=title, noun="suggestions", main=False, person=False)
    return (Passage("advice", lines, title=title), table) if changes else (table,)


def _change_in_words(change: Change, module: Module) -> Text:
    """What to change, as an instruction to the reader."""
    match change:
        case Donate():
            return _donation_in_words(change)
        case ChangeLayouts():
            return _order_in_words(change, _subjects(change, module))
        case RecomputeScan(stored=stored):
            return ("Recompute the body of the scan ", *_place_of(stored.forward, module), " for the gradient")


def _suggestion_in_words(memory: MemoryAnalysis, suggestion: Suggestion, limit_bytes: int | None) -> Text:
    instruction = step_label(memory, suggestion.peak_step)
    before, after = format_bytes(suggestion.before_bytes), format_bytes(suggestion.peak_bytes)
    after = f"at most {after}" if suggestion.is_bound else after
    edit = _edit_of_program(suggestion.change)
    condition = suggestion.change.condition if isinstance(suggestion.change, Donate) else ""
    quantity, rest = "allocated memory" if suggestion.is_allocated else "peak", ""
    if limit_bytes is not None:
        over = suggestion.peak_bytes - limit_bytes
        rest = f", still {format_bytes(over)} above the limit" if over > 0 else ", below the limit"
    return (
        *line_of(_change_in_words(suggestion.change, memory.module)),
        f" with {edit}" if edit else "",
        f": {quantity} drops from {before} to {after}",
        f" at {instruction}" if instruction is not None and not suggestion.is_allocated else "",
        rest,
        f". {condition}" if condition else "",
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


def _donation_in_words(change: Donate) -> Text:
    """The arguments to donate, with the number of their arrays that then hold results."""
    names = [_donor_name(donor) for donor in change.donors]
    words: list[str | Run] = ["Donate ", *_series(names, "more arguments")]
    if len(change.pairs) > len(change.donors):
        words.append(f" ({format_count(len(change.pairs), 'arrays')})")
    return tuple(words)


def _series(names: Sequence[str], more: str) -> Iterator[str | Run]:
    """The first names as a series with `and` before the last, and how many `more` there are."""
    shown, others = names[:_MAX_NAMES_IN_ADVICE], len(names) - _MAX_NAMES_IN_ADVICE
    comma = "," if len(shown) + (others > 0) > 2 else ""
    for position, name in enumerate(shown):
        is_last = position == len(names) - 1
        yield "" if not position else f"{comma} and " if is_last else ", "
        yield Run(name, "name")
    if others > 0:
        yield f"{comma} and {format_count(others, more)}"


def _donor_name(donor: Donor) -> str:
    """The argument as the user calls it, else its number."""
    first = donor.arguments[0]
    # Where the dump lacks the names of the user's program, the number is what donate_argnums takes.
    return donor.name if first.root_name else f"argument {first.number} ({donor.name})"


def _order_in_words(change: ChangeLayouts, names: list[str]) -> Text:
    """The arguments to pass, or results to return, in another dimension order."""
    first = change.layouts[0]
    is_argument = isinstance(first.array, Argument)
    words: list[str | Run] = ["Pass " if is_argument else "Return "]
    # Equal arguments of several layers are one name, such as layers_*, so their number is told.
    several = len(change.layouts) > len(names)
    words.append(f"{len(change.layouts):,} × " if several else "")
    words += _series(names, "more")
    words.append(f" in dimension order {index_text(first.layout.minor_to_major)}")
    return tuple(words)


def _edit_of_program(change: Change) -> str:
    """The argument of jax.jit that makes the change; empty if the dump does not have the names of the arguments."""
    match change:
        case Donate(donors=donors):
            if not all(donor.arguments[0].root_name for donor in donors):
                return ""
            if numbers := argnums_of([donor.name for donor in donors]):
                return f"donate_argnums={numbers[0] if len(numbers) == 1 else numbers}"
            names = [f'"{donor.name}"' for donor in donors]
            return f"donate_argnames={names[0]}" if len(names) == 1 else f"donate_argnames=({', '.join(names)})"
        case ChangeLayouts(layouts=layouts):
            first = layouts[0]
            # jax's Layout lists dimensions the most major first, XLA the most minor.
            order = ", ".join(map(str, reversed(first.layout.minor_to_major)))
            where = "in_shardings" if isinstance(first.array, Argument) else "out_shardings"
            return f"Format(Layout(({order})), sharding) in {where}"
        case RecomputeScan():
            return "jax.checkpoint"
