"""`hlo memspace DUMP`: usage of each memory space, the values live at the peak, and how to reduce it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    MemoryFit,
    MemorySpaceUsage,
    Offsets,
    memory_fits,
)
from hlo_cli.commands.memspace.options import MemspaceOptions, step_of
from hlo_cli.commands.memspace.peak_advice import advice_parts
from hlo_cli.commands.memspace.tables import live_values_table, memory_spaces_table
from hlo_cli.commands.memspace.totals import deferred_totals, describe_totals, select_values, totals_table
from hlo_cli.commands.memspace.viewer import viewer_notes, viewer_numbers, viewer_tables
from hlo_cli.commands.modules.by import next_command, with_origins
from hlo_cli.commands.modules.loading import (
    Loaded,
    bounded,
    devices_together,
    input_facts,
    partition_notes,
    program_notes,
    stage_numbers,
    stage_of,
    text_order_note,
)
from hlo_cli.commands.options.chips import mismatch
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.shared.memory_timeline import chosen_spaces, memory_timeline, step_label
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Table
from hlo_cli.report.text import Passage, Run
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.memory_analysis import ViewerPeak
    from hlo_cli.analysis.origin.origins import By, Keys

_MOSTLY_PADDING = 0.5
_MAX_SPACES = 2
"""The number of memory spaces in the answer."""
_MAX_NAMES = 2
"""The number of values named in a sentence."""
_NEEDS: Final[dict[Offsets, str]] = {"exact": "needs", "estimated": "needs about", "unknown": "needs at least"}


def report_of_memory(
    loaded: Loaded,
    memory: MemoryAnalysis,
    options: MemspaceOptions,
    argument: str,
    viewer: Sequence[ViewerPeak] = (),
) -> Report:
    """The spaces, the values live at the peak or at the selected step, the chart, and advice.

    `viewer` are the peaks of XProf's memory viewer, if known.
    """
    step = None if options.at is None else step_of(memory, options.at)
    chip = find_chip(options.chip) if options.chip is not None else None
    fits = memory_fits(memory, options.limit_bytes, chip)
    fit = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes, default=None)
    too_large = fit.name if fit is not None and fit.excess_bytes > 0 else None
    spaces = chosen_spaces(memory, options.space or too_large)
    stage, devices = stage_of(loaded), devices_together(loaded)
    is_verdict = options.is_verdict(stage)
    cause = cause_of(options.grouping)
    keys: Keys | None = None
    if cause is not None:
        from hlo_cli.commands.modules.by import keys_for

        keys = keys_for(loaded, cause)
    limits = {each.space: each.limit_bytes for each in fits}
    parts = _parts(memory, spaces, fit, options, step, keys, limits=limits, is_verdict=is_verdict)
    answer = _sentence(_answer(memory, spaces, fits, fit, step, is_verdict=is_verdict))
    if words := _totals_in_words(memory, spaces, options, step, parts):
        answer = words if fit is None else f"{answer}. {words}"
    return Report(
        "memspace",
        bounded(answer, stage, devices=devices),
        numbers={
            **_numbers(memory, fit, chip, is_verdict=is_verdict),
            **viewer_numbers(memory, viewer),
            **stage_numbers(stage, devices),
        },
        parts=(*parts, *viewer_tables(memory, viewer)),
        next=_next_of_cause(parts, cause, argument, options) if cause is not None else _next(memory, spaces, argument),
        notes=(
            *partition_notes(loaded),
            *_notes(memory, chip),
            *(viewer_notes(spaces, viewer) if step is None else ()),
            *program_notes(loaded),
        ),
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
        return "No values are stored in memory"
    if step is not None:
        live = [space.timeline[step] for space in spaces]
        names = " and ".join(f"{format_bytes(b)} of {s.name}" for b, s in zip(live, spaces, strict=True))
        return f"{names} live at {step_label(memory, step)} (step {step:,} of {len(memory.sequence):,})"
    if fit is None:
        return "; ".join(_peak_in_words(memory, space) for space in _reported_spaces(memory, spaces))
    if fit.excess_bytes > 0 and not is_verdict:
        return f"{_fit_in_words(fit)}; whether the program fits is unknown"
    if fit.excess_bytes > 0:
        return f"Does not fit: {_excess_in_words(fit)}"
    limited = {each.space for each in fits}
    others = [
        _peak_in_words(memory, space) for space in _reported_spaces(memory, spaces) if space.number not in limited
    ]
    return ". ".join((f"Fits: {', '.join(map(_fit_in_words, fits))}", *others))


def _fit_in_words(fit: MemoryFit) -> str:
    return f"{fit.name} {_NEEDS[fit.offsets]} {format_bytes(fit.needed_bytes)} of {format_bytes(fit.limit_bytes)}"


def _excess_in_words(fit: MemoryFit) -> str:
    needed, limit = format_bytes(fit.needed_bytes), format_bytes(fit.limit_bytes)
    excess = format_bytes(fit.excess_bytes)
    return f"{fit.name} {_NEEDS[fit.offsets]} {needed} but only {limit} is available ({excess} over)"


def _reported_spaces(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage]) -> list[MemorySpaceUsage]:
    """Main memory, and the spaces that the report covers."""
    return [space for space in memory.spaces if not space.number or space in spaces][:_MAX_SPACES]


def _peak_in_words(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    live = space.live_at(space.peak)
    padded = sum(value.padded_bytes for value in live)
    padding = 1 - sum(value.logical_bytes for value in live) / padded if padded else 0.0
    share = f" ({format_percent(padding)}% padding)" if padding > _MOSTLY_PADDING else ""
    peak = format_bytes(space.peak_bytes)
    return f"{space.name} usage peaks at {peak} at {step_label(memory, space.peak)}{share}"


def _numbers(memory: MemoryAnalysis, fit: MemoryFit | None, chip: Chip | None, *, is_verdict: bool) -> dict[str, Cell]:
    peaks = {space.name: space.peak_bytes for space in memory.spaces}
    numbers: dict[str, Cell] = {"steps": len(memory.sequence), "order": memory.order, "release": memory.release}
    if chip is not None:
        numbers["chip"] = chip.name
    if fit is not None:
        fits = fit.excess_bytes <= 0 or (False if is_verdict else None)
        numbers |= {"fits": fits, "limit_bytes": fit.limit_bytes, "needed_bytes": fit.needed_bytes}
    return {**numbers, "peak_bytes": peaks}


def _parts(
    memory: MemoryAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    fit: MemoryFit | None,
    options: MemspaceOptions,
    step: int | None,
    keys: Keys | None,
    *,
    limits: Mapping[int, int],
    is_verdict: bool,
) -> tuple[Part, ...]:
    failing = fit if is_verdict else None
    live = [(space, value) for space in spaces for value in space.live_at(space.peak if step is None else step)]
    table = live_values_table(memory, live, title=_title(spaces, step), marked=_excess_values(live, failing))
    if options.where is not None:
        places = [(value.instruction, value.index) for _, value in live]
        table = _narrowed(with_origins(table, places, memory.module, options.where), options.where)
    selections, skipped = select_values(memory, spaces, step, options.where if options.grouping != "value" else None)
    if options.grouping == "value":
        sums = [deferred_totals(memory, selections, "scope"), deferred_totals(memory, selections, "source")]
    else:
        summed = totals_table(memory, selections, options.grouping, keys=keys, title=table.title)
        sums = [replace(summed, notes=skipped)]
        table = replace(table, main=False, person=False, notes=())
    nothing = [Passage("nothing", (table.title,))] if not table.rows else []
    chart = memory_timeline(memory, spaces, limits=limits, marked=step)
    parts: list[Part] = [
        memory_spaces_table(memory, limits=limits),
        *sums,
        *nothing,
        table,
        *_excess_advice(table, failing),
        chart,
    ]
    if step is None and len(spaces) == 1:
        main = memory.space(MemorySpace.MAIN) if options.space is None else None
        parts += advice_parts(memory, main or spaces[0])
    return tuple(parts) if memory.spaces else (table,)


def _totals_in_words(
    memory: MemoryAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    options: MemspaceOptions,
    step: int | None,
    parts: Sequence[Part],
) -> str:
    """Which key has most of the memory, for `--by` a cause; else empty."""
    tables = (part for part in parts if part.kind == "table" and part.name == f"by_{options.grouping}")
    return describe_totals(memory, spaces, next(tables), step) if options.grouping != "value" and memory.spaces else ""


def _narrowed(table: Table, where: str) -> Table:
    """The rows that match an expression; the title gives the number of matches."""
    narrowed = rows_where(where, table)
    place = table.title.partition(":")[0]
    return replace(
        narrowed, title=f"{place} ({len(narrowed.rows):,} of {format_count(len(table.rows), 'values')} match)"
    )


def _title(spaces: Sequence[MemorySpaceUsage], step: int | None) -> str:
    number = sum(len(space.live_at(space.peak if step is None else step)) for space in spaces)
    if len(spaces) == 1:
        place = f"Live in {spaces[0].name} at step {spaces[0].peak if step is None else step:,}"
    else:
        place = "Live at the peak of each memory space" if step is None else f"Live at step {step:,}"
    return f"{place}: {format_count(number, 'values')}"


def _excess_values(live: Sequence[tuple[MemorySpaceUsage, LiveValue]], fit: MemoryFit | None) -> frozenset[int]:
    """The indices of the largest buffers that together exceed the excess over the limit."""
    left = fit.excess_bytes if fit is not None else 0
    marked: set[int] = set()
    for at, (space, value) in enumerate(live):
        if left <= 0:
            break
        if fit is not None and space.number == fit.space:
            marked.add(at)
            left -= value.padded_bytes
    return frozenset(marked)


def _excess_advice(table: Table, fit: MemoryFit | None) -> tuple[Passage, ...]:
    """Whether the program would fit without its largest live values."""
    if fit is None or fit.excess_bytes <= 0 or not table.marked or not table.person:
        return ()
    name, size = table.column_index("value"), table.column_index("bytes")
    rows = [table.rows[at] for at in sorted(table.marked)]
    bytes_ = sum(number for row in rows if isinstance(number := row[size], int))
    words: list[str | Run] = ["Removing "]
    for at, row in enumerate(rows[:_MAX_NAMES]):
        separator = "" if not at else ", " if len(rows) > _MAX_NAMES else " and "
        words += [separator, Run(str(row[name]), "name")]
    words.append(f", and {format_count(len(rows) - _MAX_NAMES, 'more values')}" if len(rows) > _MAX_NAMES else "")
    would = "would make it fit" if bytes_ >= fit.excess_bytes else "would not be enough"
    return (Passage("excess", ((*words, f" ({format_bytes(bytes_)}) {would}."),)),)


def _next(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or len(spaces) != 1 or not (live := spaces[0].live_at(spaces[0].peak)):
        return ()
    other = next((s for s in sorted(memory.spaces, key=lambda s: -s.peak_bytes) if s not in spaces), None)
    more = (f"hlo memspace {argument} --space {other.name}",) if other is not None else ()
    return (f"hlo memspace {argument} --value {live[0]}", *more)


def _next_of_cause(parts: Sequence[Part], cause: By, argument: str, options: MemspaceOptions) -> tuple[str, ...]:
    tables = [part for part in parts if part.kind == "table" and part.name == f"by_{cause}"]
    if not argument or argument == "-" or not tables:
        return ()
    at = tables[0].column_index(cause)
    view = format_options((("--at", options.at), ("--space", options.space)))
    return next_command(f"hlo memspace {argument} {view}".rstrip(), cause, [str(row[at]) for row in tables[0].rows])


def _fallback(memory: MemoryAnalysis, limit: int) -> str:
    """The warning that a TPU compiler changes its usual strategy because main memory is nearly full; else empty."""
    if memory.strategy == "FAST_MERGE":
        return ""
    usual = f"HBM would need more than {format_bytes(limit)} with FAST_MERGE ({memory.generation} HBM less 2.5 GiB)"
    return f"{usual}; assuming that the compiler falls back to {memory.strategy}"


def _notes(memory: MemoryAnalysis, chip: Chip | None) -> Iterator[Diagnostic]:
    if memory.target == "tpu" and not memory.is_generation_known:
        yield Diagnostic("note", f"assuming TPU generation {memory.generation}; use --chip NAME to set it")
    if memory.limit is not None and (warning := _fallback(memory, memory.limit)):
        yield Diagnostic("warning", warning)
    if memory.order == "text":
        yield text_order_note()
    if other := mismatch(chip, memory.target):
        yield Diagnostic("note", f"{other}; sizes are for {(memory.target or '').upper()}")
    if chip is not None and chip.target == "tpu" and memory.target is None:
        yield Diagnostic("note", "shapes are not tiled; TPU padding is not included")
