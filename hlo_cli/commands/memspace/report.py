"""`hlo memspace DUMP`: usage of each memory, the values live at the peak, and how to lower it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chip import Chip
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.analysis.memory.memory_limits import MemoryFit, memory_fits
from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis, MemorySpaceUsage, Offsets
from hlo_cli.analysis.memory.peak_reduction import LayoutSuggestion, suggestions
from hlo_cli.commands.memspace.options import MemspaceOptions, step_of
from hlo_cli.commands.memspace.tables import live_values_table, memory_spaces_table, totals_table
from hlo_cli.commands.shared.chips import mismatch
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.memory_timeline import chosen_spaces, memory_timeline, step_label
from hlo_cli.commands.shared.stage_notes import bounded, stage_numbers, stage_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.ir.index_text import index_text
from hlo_cli.report.cell import Cell
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage, Run, Text
from hlo_cli.source import Diagnostic

_MOSTLY_PADDING = 0.5
_IN_ANSWER = 2
_NAMED = 2
_TAKES: Final[dict[Offsets, str]] = {"exact": "takes", "estimated": "takes about", "unknown": "takes at least"}


def report_of_memory(loaded: Loaded, memory: MemoryAnalysis, options: MemspaceOptions, argument: str) -> Report:
    """The spaces, the values live at the peak or at the selected step, the chart, and advice."""
    step = None if options.at is None else step_of(memory, options.at)
    chip = find_chip(options.chip) if options.chip is not None else None
    fits = memory_fits(memory, options.limit_bytes, chip)
    fit = max(fits, key=lambda fit: fit.taken_bytes / fit.limit_bytes, default=None)
    too_large = fit.name if fit is not None and fit.excess_bytes > 0 else None
    spaces = chosen_spaces(memory, options.space or too_large)
    stage = stage_of(loaded)
    is_verdict = options.is_verdict(stage)
    return Report(
        "memspace",
        bounded(_sentence(_answer(memory, spaces, fits, fit, step, is_verdict=is_verdict)), stage),
        numbers={**_numbers(memory, fit, is_verdict=is_verdict), **stage_numbers(stage)},
        parts=_parts(memory, spaces, fit, options, step, is_verdict=is_verdict),
        next=_next(memory, spaces, argument),
        notes=(*_notes(memory, chip), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answer(
    memory: MemoryAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    fits: Sequence[MemoryFit],
    fit: MemoryFit | None,
    step: int | None,
    *,
    is_verdict: bool,
) -> str:
    if not memory.spaces:
        return "No value is put into memory here"
    if step is not None:
        alive = [space.timeline[step] for space in spaces]
        names = " and ".join(f"{format_bytes(b)} of {s.name}" for b, s in zip(alive, spaces, strict=True))
        return f"{names} alive at {step_label(memory, step)}, step {step} of {len(memory.sequence)}"
    if fit is None:
        return "; ".join(_peak_in_words(memory, space) for space in _worth_saying(memory, spaces))
    if fit.excess_bytes > 0 and not is_verdict:
        return f"{_fit_in_words(fit)}; whether the program fits is unknown"
    if fit.excess_bytes > 0:
        return f"Does not fit: {_fit_in_words(fit)}; {format_bytes(fit.excess_bytes)} must go"
    limited = {each.space for each in fits}
    others = [_peak_in_words(memory, space) for space in _worth_saying(memory, spaces) if space.number not in limited]
    return ". ".join((f"Fits: {', '.join(map(_fit_in_words, fits))}", *others))


def _fit_in_words(fit: MemoryFit) -> str:
    return f"{fit.name} {_TAKES[fit.offsets]} {format_bytes(fit.taken_bytes)} of {format_bytes(fit.limit_bytes)}"


def _worth_saying(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage]) -> list[MemorySpaceUsage]:
    """Main memory, and the spaces that the report covers."""
    return [space for space in memory.spaces if not space.number or space in spaces][:_IN_ANSWER]


def _peak_in_words(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    alive = space.live_at(space.peak)
    padded = sum(value.padded_bytes for value in alive)
    padding = 1 - sum(value.logical_bytes for value in alive) / padded if padded else 0.0
    of_it = f", {format_percent(padding)}% of it padding" if padding > _MOSTLY_PADDING else ""
    return f"{space.name} peaks at {format_bytes(space.peak_bytes)}, at {step_label(memory, space.peak)}{of_it}"


def _numbers(memory: MemoryAnalysis, fit: MemoryFit | None, *, is_verdict: bool) -> dict[str, Cell]:
    peaks = {space.name: space.peak_bytes for space in memory.spaces}
    numbers: dict[str, Cell] = {"steps": len(memory.sequence), "order": memory.order, "release": memory.release}
    if fit is not None:
        fits = fit.excess_bytes <= 0 or (False if is_verdict else None)
        numbers |= {"fits": fits, "limit_bytes": fit.limit_bytes, "taken_bytes": fit.taken_bytes}
    return {**numbers, "peak_bytes": peaks}


def _parts(
    memory: MemoryAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    fit: MemoryFit | None,
    options: MemspaceOptions,
    step: int | None,
    *,
    is_verdict: bool,
) -> tuple[Part, ...]:
    judged = fit if is_verdict else None
    alive = [(space, value) for space in spaces for value in space.live_at(space.peak if step is None else step)]
    table = live_values_table(memory, alive, title=_title(memory, spaces, step), marked=_must_go(alive, judged))
    table = table if options.where is None else _narrowed(table, options.where)
    groupings = ("scope", "source") if options.grouping == "value" else (options.grouping,)
    sums = [totals_table(memory, alive, name, is_main=name == options.grouping) for name in groupings]
    if options.grouping != "value":
        sums = [replace(sums[0], title=table.title)]
        table = replace(table, main=False, person=False)
    nothing = [Passage("nothing", (table.title,))] if not table.rows else []
    limits = {} if fit is None else {fit.space: fit.limit_bytes}
    chart = memory_timeline(memory, spaces, limits=limits, marked=step)
    parts: list[Part] = [memory_spaces_table(memory), *sums, *nothing, table, *_what_must_go(table, judged), chart]
    if step is None and len(spaces) == 1 and (advice := _advice(memory, spaces[0])) is not None:
        parts.append(advice)
    return tuple(parts) if memory.spaces else (table,)


def _narrowed(table: Table, where: str) -> Table:
    """The rows that match an expression; the title gives how many of how many."""
    narrowed = rows_where(where, table)
    place, _, number = table.title.partition(": ")
    return replace(narrowed, title=f"{place}: {f'{len(narrowed.rows):,}' if narrowed.rows else 'none'} of {number}")


def _title(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], step: int | None) -> str:
    number = sum(len(space.live_at(space.peak if step is None else step)) for space in spaces)
    if len(spaces) == 1:
        place = f"{spaces[0].name} at step {spaces[0].peak if step is None else step}"
    else:
        place = "At the peak of each space" if step is None else f"At step {step}"
    return f"{place}: {format_count(number, 'values')}"


def _must_go(alive: Sequence[tuple[MemorySpaceUsage, LiveValue]], fit: MemoryFit | None) -> frozenset[int]:
    """The largest buffers without which the program would fit."""
    left = fit.excess_bytes if fit is not None else 0
    marked: set[int] = set()
    for at, (space, value) in enumerate(alive):
        if left <= 0:
            break
        if fit is not None and space.number == fit.space:
            marked.add(at)
            left -= value.padded_bytes
    return frozenset(marked)


def _what_must_go(table: Table, fit: MemoryFit | None) -> tuple[Passage, ...]:
    """The live values without which the program would fit."""
    if fit is None or fit.excess_bytes <= 0 or not table.marked or not table.person:
        return ()
    name, size = table.column_index("value"), table.column_index("bytes")
    rows = [table.rows[at] for at in sorted(table.marked)]
    bytes_ = sum(number for row in rows if isinstance(number := row[size], int))
    words: list[str | Run] = ["Without "]
    for at, row in enumerate(rows[:_NAMED]):
        words += [", " if at else "", Run(str(row[name]), "name")]
    words.append(f" and {format_count(len(rows) - _NAMED, 'more values')}" if len(rows) > _NAMED else "")
    would = "it would fit" if bytes_ >= fit.excess_bytes else "it would still not fit"
    return (Passage("must_go", ((*words, f", {format_bytes(bytes_)}, {would}."),)),)


def _advice(memory: MemoryAnalysis, space: MemorySpaceUsage) -> Passage | None:
    found = suggestions(space, orders_of(memory.module, data_values(memory.module)))
    if not found:
        return None
    lines = tuple(_in_words(memory, suggestion, is_first=not at) for at, suggestion in enumerate(found))
    return Passage("advice", lines, title=f"To lower the {space.name} peak")


def _in_words(memory: MemoryAnalysis, suggestion: LayoutSuggestion, *, is_first: bool) -> Text:
    first = suggestion.reordered[0]
    same = [other for other in suggestion.reordered if other.better.layout == first.better.layout]
    order = index_text(first.better.layout.minor_to_major)
    line: list[str | Run] = [] if is_first else ["and "]
    for at, other in enumerate(same[:_NAMED]):
        line += [", "] if at else []
        line.append(Run(str(other.value), "name"))
    line += [f" in order {order}: {format_bytes(first.better.padded_bytes)}", " each" if len(same) > 1 else ""]
    if others := len(suggestion.reordered) - len(same[:_NAMED]):
        line.append(f", and {format_count(others, 'more values')}")
    return (
        *line,
        f"; the peak falls to {format_bytes(suggestion.peak_bytes)}, at {step_label(memory, suggestion.peak)}",
    )


def _next(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or len(spaces) != 1 or not (alive := spaces[0].live_at(spaces[0].peak)):
        return ()
    other = next((s for s in sorted(memory.spaces, key=lambda s: -s.peak_bytes) if s not in spaces), None)
    more = (f"hlo memspace {argument} --space {other.name}",) if other is not None else ()
    return (f"hlo memspace {argument} --value {alive[0]}", *more)


def _fallback(memory: MemoryAnalysis, limit: int) -> str:
    """The note for TPU compilers changing their usual strategy when main memory is nearly full."""
    if memory.strategy == "FAST_MERGE":
        return ""
    usual = f"HBM would take more than {format_bytes(limit)}, 2.5 GiB less than a {memory.generation} has"
    return f"{usual}: the compiler falls back from FAST_MERGE, to {memory.strategy} as computed"


def _notes(memory: MemoryAnalysis, chip: Chip | None) -> Iterator[Diagnostic]:
    if memory.target == "tpu" and not memory.is_generation_told:
        yield Diagnostic("note", f"TPU generation assumed: {memory.generation}; --chip NAME sets it")
    if memory.limit is not None and (warning := _fallback(memory, memory.limit)):
        yield Diagnostic("warning", warning)
    if memory.order == "text":
        yield Diagnostic("note", "the module is not scheduled: lives are those of the order of its text")
    if other := mismatch(chip, memory.target):
        yield Diagnostic("note", f"{other}: sizes are those of the latter")
    if chip is not None and chip.target == "tpu" and memory.target is None:
        yield Diagnostic("note", "shapes have no tiles here: what a TPU pads them by is not counted")
