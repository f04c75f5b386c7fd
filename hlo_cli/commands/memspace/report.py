"""How much memory does a module need, what lives at the peak, and how is the peak reduced? Also in many dumps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    MemoryFit,
    MemorySpaceUsage,
    Offsets,
    ViewerPeak,
    allocated_bytes,
    memory_fits,
    needed_bytes,
)
from hlo_cli.analysis.origin.origins import By, Key, Keys, keys_of
from hlo_cli.analysis.query.module_summary import ProgramStage
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.suggestions import advice_parts
from hlo_cli.commands.memspace.usage import (
    chosen_spaces,
    decisive_fit,
    format_kind,
    kernel_notes,
    kernel_tables,
    live_values_table,
    memory_spaces_table,
    memory_timeline,
    named_space,
    scratch_notes,
    step_label,
    step_of,
)
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    Group,
    KeyCost,
    describe_costs,
    group_by,
    key_columns,
    keys_for,
    next_command,
    with_origins,
)
from hlo_cli.commands.modules.instruction_tables import matching_rows, rows_where
from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    bounded,
    check_running,
    devices_together,
    input_facts,
    part_error,
    partition_notes,
    program_notes,
    stage_numbers,
    stage_of,
    text_order_note,
)
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs, ranking_of
from hlo_cli.commands.options.chips import mismatch
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, format_options
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import STDIN
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    UNKNOWN,
    Cell,
    Column,
    DeferredRows,
    Row,
    Share,
    Table,
    Unit,
    columns_of_part,
    rows_from,
    rows_from_tuples,
    unknown_if_none,
)
from hlo_cli.report.text import Passage, Run
from hlo_cli.scan_modules import ScanResult
from hlo_cli.source import Diagnostic, HloError

# --- --by: live values in groups ---
# `hlo memspace DUMP --by GROUP`: the live values, summed up by what makes them or by a property.


_UNITS: Final[Mapping[str, Unit]] = {"op_name": "op_name", "shape": "shape", "opcode": "opcode"}
_PROPERTIES: Final[Mapping[str, Callable[[MemoryAnalysis, LiveValue], str]]] = {
    "op_name": lambda _memory, value: value.instruction.metadata.op_name or "(unknown)",
    "kind": lambda memory, value: format_kind(memory, value),
    "shape": lambda _memory, value: str(value.shape),
    "opcode": lambda _memory, value: value.instruction.opcode,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The values of a memory space that are summed up, and the identities of those live at the step of the report."""

    space: MemorySpaceUsage
    values: tuple[LiveValue, ...]
    live: frozenset[int]

    def live_among(self, values: Iterable[LiveValue]) -> list[LiveValue]:
        """The values that are live at the step of the report."""
        return [value for value in values if id(value) in self.live]


def _select_values(
    memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], step: int | None, where: str | None
) -> tuple[tuple[Selection, ...], tuple[Diagnostic, ...]]:
    """The values of memory spaces that match an expression; those that are live at a step, by default at the peak."""
    live = {space.number: space.live_at(space.peak_step if step is None else step) for space in spaces}
    identities = {number: frozenset(map(id, values)) for number, values in live.items()}
    if where is None:
        # Without a condition, the table of all values is not needed.
        return tuple(Selection(space, space.values, identities[space.number]) for space in spaces), ()
    values = [(space, value) for space in spaces for value in space.values]
    table = live_values_table(memory, values, title="", marked=frozenset())
    places = [(value.instruction, value.index) for _, value in values]
    matching, notes = matching_rows(where, with_origins(table, places, memory.module, where))
    chosen = [values[row] for row in matching]
    return (
        tuple(
            Selection(space, tuple(value for where, value in chosen if where is space), identities[space.number])
            for space in spaces
        ),
        notes,
    )


def _totals_table(
    memory: MemoryAnalysis,
    selections: Sequence[Selection],
    grouping: str,
    *,
    keys: Keys | None,
    title: str = "",
) -> Table:
    """One row for each key: its live bytes first, then the bytes of all its values; `keys` are those of a cause."""
    groups = _groups(memory, selections, grouping, keys)
    total_bytes = sum(_bytes(selection.live_among(selection.values)) for selection in selections)
    live_groups = (
        _LiveGroup(selection, group, selection.live_among(group.members), total_bytes) for selection, group in groups
    )
    has_inferred = any(selection.live_among(group.inferred) for selection, group in groups)
    key: tuple[Column[KeyCost], ...] = (
        key_columns(keys.by, "bytes", [group for _, group in groups], has_inferred=has_inferred)
        if keys is not None
        else (Column(grouping, grouping, _UNITS.get(grouping, "text"), of=lambda key: key.group.key),)
    )
    columns = _group_columns(key, several=len(selections) > 1)
    rows = rows_from(columns, live_groups)
    return Table(f"by_{grouping}", columns, rows, title=title, noun="rows", limit=10)


def _deferred_totals(memory: MemoryAnalysis, selections: Sequence[Selection], cause: By) -> Table:
    """The same table for programs, whose rows are computed when they are read."""

    def rows() -> Sequence[Row]:
        return _totals_table(memory, selections, cause, keys=keys_of(memory.module, cause)).rows

    return Table(
        f"by_{cause}",
        _group_columns(key_columns(cause, "bytes", (), has_inferred=False), several=len(selections) > 1),
        DeferredRows(rows),
        noun="rows",
        limit=10,
        main=False,
        person=False,
    )


def _describe_totals(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], table: Table, step: int | None) -> str:
    """Which key holds most of the memory space with the highest peak; empty for groupings by a property."""
    grouping = table.name.removeprefix("by_")
    cause = cause_of(grouping)
    if cause is None or not spaces:
        return ""
    # One sentence names one memory space: the fullest, as the others cannot be why the program is large.
    space = max(spaces, key=lambda space: space.peak_bytes if step is None else space.timeline[step])
    names, sizes, keys = (table.column_index(name) for name in ("space", "bytes", grouping))
    costs = [(str(row[keys]), _count_in(row[sizes])) for row in table.rows if row[names] == space.name]
    if not any(size for _, size in costs):
        return f"No values are live in {space.name}"
    place = f"at the {space.name} peak" if step is None else f"in {space.name} at {step_label(memory, step)}"
    return describe_costs(costs, cause, noun="values", verb=("hold", "holds"), amount=IN_BYTES, place=place)


def _groups(
    memory: MemoryAnalysis, selections: Sequence[Selection], grouping: str, keys: Keys | None
) -> list[tuple[Selection, Group[LiveValue]]]:
    """The groups of each memory space, those with most live bytes first."""
    if keys is None:
        property_of = _PROPERTIES[grouping]

        def key_of(value: LiveValue) -> Key:
            text = property_of(memory, value)
            return Key(text, text)
    else:

        def key_of(value: LiveValue) -> Key:
            return keys.of(value.instruction, value.index)

    groups = [(selection, group) for selection in selections for group in group_by(selection.values, key_of)]
    return sorted(groups, key=lambda each: _rank(*each))


def _rank(selection: Selection, group: Group[LiveValue]) -> tuple[int, int, str]:
    # What is live at the peak is what must shrink; a key with more bytes at other steps is second to it.
    return -_bytes(selection.live_among(group.members)), -_bytes(group.members), group.key


def _group_columns(key: Sequence[Column[KeyCost]], *, several: bool) -> tuple[Column[_LiveGroup], ...]:
    return (
        Column("space", "space", person=several, of=lambda group: group.selection.space.name),
        Column("bytes", "live", "bytes", total="sum", of=lambda group: group.live_bytes),
        Column("logical_bytes", "data", "bytes", total="sum", person=False, of=lambda group: group.logical_bytes),
        Column("share", "", "percent", total="sum",
               of=lambda group: group.live_bytes / group.whole if group.whole else 0.0),
        Column("padding_bytes", "padding", "bytes", total="sum", role="waste", from_width=120,
               of=lambda group: group.live_bytes - group.logical_bytes),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True),
               of=lambda group: 1 - group.logical_bytes / group.live_bytes if group.live_bytes else 0.0),
        Column("values", "values", "count", total="sum", of=lambda group: len(group.live)),
        Column("all_bytes", "all values", "bytes", total="sum", from_width=120,
               of=lambda group: _bytes(group.group.members)),
        Column("all_values", "all values", "count", total="sum", from_width=120,
               of=lambda group: len(group.group.members)),
        *columns_of_part(key, lambda group: group.key),
        Column("largest", "largest", "name", role="name", rank=7, of=lambda group: str(group.largest)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _LiveGroup:
    """The values with a key, and those of them that are live at the step, whose bytes are part of a `whole`."""

    selection: Selection
    group: Group[LiveValue]
    live: Sequence[LiveValue]
    whole: int

    @property
    def live_bytes(self) -> int:
        """Those of live values."""
        return _bytes(self.live)

    @property
    def logical_bytes(self) -> int:
        """Those without padding."""
        return sum(value.logical_bytes for value in self.live)

    @property
    def largest(self) -> LiveValue:
        """The largest live value, else the largest one."""
        return max(self.live or self.group.members, key=lambda value: value.padded_bytes)

    @property
    def key(self) -> KeyCost:
        """The key, and the live bytes that are attributed to it by inference."""
        return KeyCost(self.group, self.live_bytes, _bytes(self.selection.live_among(self.group.inferred)))


def _bytes(values: Iterable[LiveValue]) -> int:
    return sum(value.padded_bytes for value in values)


def _count_in(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


# --- XProf's memory viewer ---
# Its peak next to that of `hlo memspace`, which counts live values only.


def _viewer_numbers(memory: MemoryAnalysis, peaks: Sequence[ViewerPeak]) -> dict[str, Cell]:
    """Which values the peaks count, and the peaks of the memory viewer by memory space, if known.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> memory = memory_analysis(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    >>> peak = ViewerPeak(0, 48, 32, 0, 32, 48, 40, 0, None, ())
    >>> _viewer_numbers(memory, ()), _viewer_numbers(memory, (peak,))["xprof_peak_bytes"]
    ({'peak_counts': 'live values'}, {'main memory': 48})
    """
    numbers: dict[str, Cell] = {"peak_counts": "live values"}
    peak_bytes: dict[str, Cell] = {space.name: peak.peak_bytes for space, peak in _peaks_by_space(memory.spaces, peaks)}
    return {**numbers, "xprof_peak_bytes": peak_bytes} if peak_bytes else numbers


def _viewer_tables(memory: MemoryAnalysis, peaks: Sequence[ViewerPeak]) -> tuple[Table, ...]:
    """The numbers of the memory viewer, for programs and `--table memory_viewer`; no table if they are unknown."""
    columns: tuple[Column[MemorySpaceUsage, ViewerPeak], ...] = (
        Column("space", "space", of=lambda space, peak: space.name),
        Column("memory_space", "S(n)", "count", person=False, of=lambda space, peak: space.number),
        Column("xprof_peak_bytes", "XProf peak", "bytes", of=lambda space, peak: peak.peak_bytes),
        Column("xprof_unpadded_bytes", "unpadded", "bytes", of=lambda space, peak: peak.unpadded_bytes),
        Column("always_bytes", "always live", "bytes", of=lambda space, peak: peak.always_bytes),
        Column("argument_bytes", "arguments", "bytes", from_width=120, of=lambda space, peak: peak.argument_bytes),
        Column("output_bytes", "outputs", "bytes", from_width=120, of=lambda space, peak: peak.output_bytes),
        Column("xprof_total_bytes", "XProf total", "bytes", of=lambda space, peak: peak.total_bytes),
        Column("peak_event", "event", "count", of=lambda space, peak: peak.position),
        Column("peak_instruction", "at instruction", "name", role="name", of=lambda space, peak: peak.instruction),
    )
    rows = rows_from_tuples(columns, _peaks_by_space(memory.spaces, peaks))
    if not rows:
        return ()
    return (Table("memory_viewer", columns, rows, noun="spaces", main=False, person=False, limit=0),)


def _viewer_notes(spaces: Sequence[MemorySpaceUsage], peaks: Sequence[ViewerPeak]) -> Iterator[Diagnostic]:
    """The difference between the two peaks, for the memory spaces of the report in which they differ."""
    differing = [
        f"{format_bytes(peak.peak_bytes)} of {space.name} ({format_bytes(abs(more))} {'more' if more > 0 else 'less'})"
        for space, peak in _peaks_by_space(spaces, peaks)
        if (more := peak.peak_bytes - space.peak_bytes)
    ]
    if differing:
        yield Diagnostic(
            "note",
            f"XProf's memory viewer shows {', '.join(differing)}: it counts all arguments, results, and constants",
        )


def _peaks_by_space(
    spaces: Sequence[MemorySpaceUsage], peaks: Sequence[ViewerPeak]
) -> Iterator[tuple[MemorySpaceUsage, ViewerPeak]]:
    by_color = {peak.color: peak for peak in peaks}
    return ((space, by_color[space.number]) for space in spaces if space.number in by_color)


# --- one dump ---
# `hlo memspace DUMP`: usage of each memory space, the values live at the peak, and how to reduce it.


_MOSTLY_PADDING = 0.5  # from here on, padding is most of the memory, so the answer names it
_MAX_SPACES = 2
"""The number of memory spaces in the answer."""
_MAX_NAMES_IN_ANSWER = 2
"""The number of values named in a sentence."""
_ACCURACY: Final[Mapping[Offsets, str]] = {"exact": "", "estimated": "about ", "unknown": "at least "}


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
    chip = options.limiting_chip(loaded.input)
    fits = memory_fits(memory, options.limit_bytes, chip)
    fit = decisive_fit(fits)
    too_large = fit.name if fit is not None and fit.excess_bytes > 0 else None
    spaces = chosen_spaces(memory, options.space or too_large)
    stage, devices = stage_of(loaded), devices_together(loaded)
    is_verdict = options.is_verdict(stage)
    cause = cause_of(options.grouping)
    keys = None if cause is None else keys_for(loaded, cause)
    limits = {each.space: each.limit_bytes for each in fits}
    parts = _module_parts(memory, spaces, fit, options, step, keys, limits=limits, is_verdict=is_verdict)
    if fit is not None and step is None and not (stage == "optimized" and devices == 1):
        answer = _fit_of_bound(fit, chip, stage, devices, is_verdict=is_verdict)
    else:
        words = _module_answer(memory, spaces, fits, fit, step, chip)
        answer = bounded(words[:1].upper() + words[1:], stage, devices=devices)
    if words := _totals_in_words(memory, spaces, options, step, parts):
        answer = words if fit is None else f"{answer}. {words}"
    return Report(
        "memspace",
        answer,
        numbers={
            **_module_numbers(memory, fit, chip, is_verdict=is_verdict),
            **_viewer_numbers(memory, viewer),
            **stage_numbers(stage, devices),
        },
        parts=(*parts, *_viewer_tables(memory, viewer)),
        next=_next_of_cause(parts, cause, argument, options)
        if cause is not None
        else _next_commands(memory, spaces, argument),
        notes=(
            *partition_notes(loaded),
            *_notes(memory, chip),
            *kernel_notes(memory, spaces, options.space),
            *(_viewer_notes(spaces, viewer) if step is None else ()),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


def _module_answer(
    memory: MemoryAnalysis,
    spaces: Sequence[MemorySpaceUsage],
    fits: Sequence[MemoryFit],
    fit: MemoryFit | None,
    step: int | None,
    chip: Chip | None,
) -> str:
    if not memory.spaces:
        return "No values are stored in memory"
    if step is not None:
        live = [space.timeline[step] for space in spaces]
        names = " and ".join(f"{format_bytes(b)} of {s.name}" for b, s in zip(live, spaces, strict=True))
        return f"{names} live at {step_label(memory, step)} (step {step:,} of {len(memory.sequence):,})"
    if fit is None:
        other = f"Unknown whether it fits: {words}. " if (words := mismatch(chip, memory.target)) else ""
        return other + "; ".join(_peak_in_words(memory, space) for space in _reported_spaces(memory, spaces))
    if fit.excess_bytes > 0:
        return f"Does not fit: {_excess_in_words(fit)}"
    limited = {each.space for each in fits}
    others = [
        _peak_in_words(memory, space) for space in _reported_spaces(memory, spaces) if space.number not in limited
    ]
    name = "" if chip is None else f" {chip.name}"
    return ". ".join((f"Fits{name}: {', '.join(map(fit_in_words, fits))}", *others))


def _fit_of_bound(fit: MemoryFit, chip: Chip | None, stage: ProgramStage, devices: int, *, is_verdict: bool) -> str:
    """Whether a program fits that the compiler still optimizes or partitions, which lowers what it needs.

    >>> fit = MemoryFit(0, "HBM", 64 << 30, 16 << 30, "estimated")
    >>> _fit_of_bound(fit, find_chip("v5e"), "before optimization", 8, is_verdict=False)
    'Upper bound 64 GiB of HBM (not partitioned, ÷ 8 at best); v5e has 16 GiB; it may still fit once optimized'
    >>> _fit_of_bound(fit, None, "before optimization", 1, is_verdict=True)
    'Does not fit at the pre-optimization upper bound of 64 GiB: the limit is 16 GiB (48 GiB over)'
    """
    needed, limit = format_bytes(fit.needed_bytes), format_bytes(fit.limit_bytes)
    has = f"{chip.name} has {limit}" if chip is not None else f"the limit is {limit}"
    parts = f" (not partitioned, ÷ {devices:,} at best)" if devices > 1 else ""
    early = {"before optimization": "pre-optimization ", "during optimization": "mid-optimization "}.get(stage, "")
    if fit.excess_bytes <= 0:
        return f"Fits even at the {early}upper bound of {needed}{parts}: {has}"
    if not is_verdict:
        return f"Upper bound {needed} of {fit.name}{parts}; {has}; it may still fit once optimized"
    over = format_bytes(fit.excess_bytes)
    return f"Does not fit at the {early}upper bound of {needed}{parts}: {has} ({over} over)"


def fit_in_words(fit: MemoryFit) -> str:
    """The bytes needed of those that a memory space has.

    >>> fit_in_words(MemoryFit(0, "HBM", 3 << 20, 16 << 30, "estimated"))
    'about 3 MiB of 16 GiB HBM'
    >>> fit_in_words(MemoryFit(1, "VMEM", 3 << 20, 128 << 20, "exact"))
    '3 of 128 MiB VMEM'
    """
    needed, unit = format_bytes(fit.needed_bytes).split(" ")
    limit, unit_of_limit = format_bytes(fit.limit_bytes).split(" ")
    amount = needed if unit == unit_of_limit else f"{needed} {unit}"
    return f"{_ACCURACY[fit.offsets]}{amount} of {limit} {unit_of_limit} {fit.name}"


def need_in_words(memory: MemoryAnalysis, space: MemorySpaceUsage, *, is_bound: bool) -> str:
    """The bytes that a program needs in a memory space, fragmentation included, such as `needs 3 MiB of HBM`."""
    accuracy = "at most " if is_bound else _ACCURACY[space.offsets]
    return f"needs {accuracy}{format_bytes(needed_bytes(memory, space))} of {space.name}"


def _excess_in_words(fit: MemoryFit) -> str:
    needed, limit = format_bytes(fit.needed_bytes), format_bytes(fit.limit_bytes)
    excess = format_bytes(fit.excess_bytes)
    return f"{fit.name} needs {_ACCURACY[fit.offsets]}{needed} but only {limit} is available ({excess} over)"


def _reported_spaces(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage]) -> list[MemorySpaceUsage]:
    """Main memory, the spaces that the report covers, and the fullest one next to main memory alone."""
    others = (*spaces, memory.fullest) if spaces == (memory.main,) else spaces
    return [space for space in memory.spaces if not space.number or space in others][:_MAX_SPACES]


def _peak_in_words(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    return f"{space.name} usage peaks at {peak_and_place(memory, space)}"


def peak_and_place(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    """The live bytes of a memory space at the peak, the instruction there, and the padding if it is most of them."""
    live = space.live_at(space.peak_step)
    padded = sum(value.padded_bytes for value in live)
    padding = 1 - sum(value.logical_bytes for value in live) / padded if padded else 0.0
    share = f" ({format_percent(padding)}% padding)" if padding > _MOSTLY_PADDING else ""
    return f"{format_bytes(space.peak_bytes)} at {step_label(memory, space.peak_step)}{share}"


def _module_numbers(
    memory: MemoryAnalysis, fit: MemoryFit | None, chip: Chip | None, *, is_verdict: bool
) -> dict[str, Cell]:
    peaks = {space.name: space.peak_bytes for space in memory.spaces}
    numbers: dict[str, Cell] = {"steps": len(memory.sequence), "order": memory.order, "release": memory.release}
    if chip is not None:
        numbers |= {"chip": chip.name, **({"fits": None} if mismatch(chip, memory.target) else {})}
    if fit is not None:
        # None is unknown: fusion and scheduling still shrink a module that is not optimized.
        fits = fit.excess_bytes <= 0 or (False if is_verdict else None)
        numbers |= {"fits": fits, "limit_bytes": fit.limit_bytes, "needed_bytes": fit.needed_bytes}
    return {**numbers, "peak_bytes": peaks}


def _module_parts(
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
    # Without a verdict nothing is marked as too much: the program may fit once it is optimized.
    failing = fit if is_verdict else None
    live = [(space, value) for space in spaces for value in space.live_at(space.peak_step if step is None else step)]
    table = live_values_table(
        memory, live, title=_title_of_live_values(spaces, step), marked=_excess_values(live, failing)
    )
    if options.where is not None:
        places = [(value.instruction, value.index) for _, value in live]
        table = _narrowed(with_origins(table, places, memory.module, options.where), options.where)
    selections, skipped = _select_values(memory, spaces, step, options.where if options.grouping != "value" else None)
    if options.grouping == "value":
        # Programs that read JSON get both causes without asking; screens have no room for them.
        sums = [_deferred_totals(memory, selections, "scope"), _deferred_totals(memory, selections, "source")]
    else:
        summed = _totals_table(memory, selections, options.grouping, keys=keys, title=table.title)
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
        *kernel_tables(memory, spaces, options.space),
    ]
    if step is None and len(spaces) == 1:
        # Advice is on main memory, even if another space is the fullest; one that is asked for instead has none.
        main = memory.main if options.space is None else None
        parts += advice_parts(memory, main or spaces[0], failing)
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
    return _describe_totals(memory, spaces, next(tables), step) if options.grouping != "value" and memory.spaces else ""


def _narrowed(table: Table, where: str) -> Table:
    """The rows that match an expression; the title gives the number of matches."""
    narrowed = rows_where(where, table)
    # The number of values in the title is that before the filter.
    place = table.title.partition(":")[0]
    return replace(
        narrowed, title=f"{place} ({len(narrowed.rows):,} of {format_count(len(table.rows), 'values')} match)"
    )


def _title_of_live_values(spaces: Sequence[MemorySpaceUsage], step: int | None) -> str:
    number = sum(len(space.live_at(space.peak_step if step is None else step)) for space in spaces)
    if len(spaces) == 1:
        place = f"Live in {spaces[0].name} at step {spaces[0].peak_step if step is None else step:,}"
    else:
        place = "Live at the peak of each memory space" if step is None else f"Live at step {step:,}"
    return f"{place}: {format_count(number, 'values')}"


def _excess_values(live: Sequence[tuple[MemorySpaceUsage, LiveValue]], fit: MemoryFit | None) -> frozenset[int]:
    """The indices of the largest buffers that together exceed the excess over the limit."""
    excess_bytes = fit.excess_bytes if fit is not None else 0
    marked: set[int] = set()
    for row, (space, value) in enumerate(live):
        if excess_bytes <= 0:
            break
        # `live` is sorted by size, so these are the fewest values whose removal would suffice.
        if fit is not None and space.number == fit.space:
            marked.add(row)
            excess_bytes -= value.padded_bytes
    return frozenset(marked)


def _excess_advice(table: Table, fit: MemoryFit | None) -> tuple[Passage, ...]:
    """Whether the program would fit without its largest live values."""
    if fit is None or fit.excess_bytes <= 0 or not table.marked or not table.person:
        return ()
    name, size = table.column_index("value"), table.column_index("bytes")
    rows = [table.rows[position] for position in sorted(table.marked)]
    bytes_ = sum(number for row in rows if isinstance(number := row[size], int))
    words: list[str | Run] = ["Removing "]
    for position, row in enumerate(rows[:_MAX_NAMES_IN_ANSWER]):
        separator = "" if not position else ", " if len(rows) > _MAX_NAMES_IN_ANSWER else " and "
        words += [separator, Run(str(row[name]), "name")]
    words.append(
        f", and {format_count(len(rows) - _MAX_NAMES_IN_ANSWER, 'more values')}"
        if len(rows) > _MAX_NAMES_IN_ANSWER
        else ""
    )
    would = "would make it fit" if bytes_ >= fit.excess_bytes else "would not be enough"
    return (Passage("excess", ((*words, f" ({format_bytes(bytes_)}) {would}."),)),)


def _next_commands(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or len(spaces) != 1 or not (live := spaces[0].live_at(spaces[0].peak_step)):
        return ()
    other = next((s for s in sorted(memory.spaces, key=lambda s: -s.peak_bytes) if s not in spaces), None)
    more = (f"hlo memspace {argument} --space {other.name}",) if other is not None else ()
    return (f"hlo memspace {argument} --value {live[0]}", *more)


def _next_of_cause(parts: Sequence[Part], cause: By, argument: str, options: MemspaceOptions) -> tuple[str, ...]:
    tables = [part for part in parts if part.kind == "table" and part.name == f"by_{cause}"]
    if not argument or argument == "-" or not tables:
        return ()
    column, live = tables[0].column_index(cause), tables[0].column_index("values")
    view = format_options((("--at", options.at), ("--space", options.space)))
    keys = [str(row[column]) for row in tables[0].rows if row[live]]
    return next_command(f"hlo memspace {argument} {view}".rstrip(), cause, keys)


def _fallback_warning(memory: MemoryAnalysis, limit: int) -> str:
    """The warning that a TPU compiler changes its usual strategy because main memory is nearly full; else empty."""
    # The first strategy that TPU compilers try (`TPU_STRATEGIES`): nothing was given up.
    if memory.strategy == "FAST_MERGE":
        return ""
    usual = f"HBM would need more than {format_bytes(limit)} with FAST_MERGE ({memory.generation} HBM less 2.5 GiB)"
    return f"{usual}; assuming that the compiler falls back to {memory.strategy}"


def _notes(memory: MemoryAnalysis, chip: Chip | None) -> Iterator[Diagnostic]:
    if memory.target == "tpu" and not memory.is_generation_known:
        yield Diagnostic("note", f"assuming TPU generation {memory.generation}; use --chip NAME to set it")
    if memory.limit is not None and (warning := _fallback_warning(memory, memory.limit)):
        yield Diagnostic("warning", warning)
    if memory.order == "text":
        yield text_order_note()
    yield from scratch_notes(memory)
    if other := mismatch(chip, memory.target):
        yield Diagnostic("note", f"{other}; sizes are for {(memory.target or '').upper()}")
    if chip is not None and chip.target == "tpu" and memory.target is None:
        yield Diagnostic("note", "shapes are not tiled; TPU padding is not included")


# --- many dumps: memory usage of each module, and whether it fits ---


@dataclass(frozen=True, slots=True)
class _Usage:
    """Usage of the critical memory space of one module; `fits` is None if unknown or without a limit."""

    module: str
    stage: ProgramStage
    space: str | None
    logical_bytes: int
    peak_bytes: int
    allocated_bytes: int | None
    needed_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    peak_instruction: str | None
    steps: int
    devices: int

    @property
    def share(self) -> float | None:
        """The share of the limit that is used; above 1 if the module does not fit."""
        return self.needed_bytes / self.limit_bytes if self.limit_bytes and self.needed_bytes is not None else None

    @property
    def in_words(self) -> str:
        """The bytes that the module needs, and the limit."""
        return f"{self.module} needs {format_bytes(self.needed_bytes or 0)} of {format_bytes(self.limit_bytes or 0)}"


@dataclass(frozen=True, slots=True)
class _UsageOfModule:
    """Computes the memory usage of one module as numbers; called for every module."""

    options: MemspaceOptions

    def __call__(self, module: Module, given: Input) -> _Usage:
        check_running(module)
        loaded = Loaded(module, given)
        stage = stage_of(loaded)
        memory = compiler_memory(loaded, chip=self.options.chip, release=self.options.release)
        fits = memory_fits(memory, self.options.limit_bytes, self.options.limiting_chip(given))
        fit = decisive_fit(fits)
        if module.is_part and self._verdict(fit, stage):
            # A part of a module needs less than the whole, so that it fits proves nothing.
            raise HloError.of((part_error(given.path or STDIN),))
        space = self._space(memory, fit)
        live = space.live_at(space.peak_step) if space is not None else ()
        return _Usage(
            module.name,
            stage,
            space.name if space is not None else None,
            sum(value.logical_bytes for value in live),
            space.peak_bytes if space is not None else 0,
            allocated_bytes(memory, space) if space is not None else 0,
            fit.needed_bytes if fit is not None else None,
            fit.limit_bytes if fit is not None else None,
            self._verdict(fit, stage),
            step_label(memory, space.peak_step) if space is not None else None,
            len(memory.sequence),
            devices_together(loaded),
        )

    def _space(self, memory: MemoryAnalysis, fit: MemoryFit | None) -> MemorySpaceUsage | None:
        """The selected space, else one above its limit, else main memory; None without any."""
        if self.options.space is not None:
            return named_space(memory, self.options.space)
        if fit is not None:
            return next(space for space in memory.spaces if space.number == fit.space)
        return memory.main

    def _verdict(self, fit: MemoryFit | None, stage: ProgramStage) -> bool | None:
        if fit is None or (fit.excess_bytes > 0 and not self.options.is_verdict(stage)):
            return None
        return fit.excess_bytes <= 0


def memspace_each(many: Many, reading: InputOptions, options: MemspaceOptions, output: OutputOptions) -> int:
    """Writes the table and returns the exit code."""
    if options.chip is not None:
        find_chip(options.chip)
    results = list(map_inputs(many, reading, options.jobs, _UsageOfModule(options)))
    usages = [result.answer for result in results if result.answer is not None]
    if options.space is not None and usages and all(usage.space is None for usage in usages):
        raise HloError(
            f"no module has values in memory space '{options.space}'",
            hint="remove --space to show main memory",
        )
    # A dump may name its chip, as one of a TPU does.
    has_limit = options.has_limit or any(usage.limit_bytes is not None for usage in usages)
    return finish_each(
        "memspace",
        many,
        reading,
        results,
        Rows(
            _module_columns(has_limit=has_limit, has_bounds=any(usage.stage != "optimized" for usage in usages)),
            fails=lambda usage: usage.fits is False,
            devices=lambda usage: usage.devices,
        ),
        answer=_modules_answer(usages, _main_usage(results), has_limit=has_limit),
        numbers=_modules_numbers(usages, has_limit=has_limit),
        unfinished=sum(usage.stage != "optimized" for usage in usages),
        output=output,
    )


def _module_columns(*, has_limit: bool, has_bounds: bool) -> tuple[Column[_Usage], ...]:
    return (
        Column("program_stage", "program", from_width=120, person=has_bounds, of=lambda usage: usage.stage),
        Column("upper_bound", "upper bound", "flag", person=has_bounds, of=lambda usage: usage.stage != "optimized"),
        Column("space", "space", of=lambda usage: usage.space),
        Column("logical_bytes", "data", "bytes", person=False, of=lambda usage: usage.logical_bytes),
        Column("peak_bytes", "live peak", "bytes", of=lambda usage: usage.peak_bytes),
        Column("padding", "padding", "percent", role="waste", from_width=120,
               of=lambda usage: 1 - usage.logical_bytes / usage.peak_bytes if usage.peak_bytes else 0.0),
        Column("allocated_bytes", "allocated", "bytes", person=not has_limit,
               of=lambda usage: unknown_if_none(usage.allocated_bytes)),
        Column("needed_bytes", "needed", "bytes", person=has_limit, of=lambda usage: usage.needed_bytes),
        Column("limit_bytes", "limit", "bytes", person=has_limit, of=lambda usage: usage.limit_bytes),
        Column("limit_share", "of limit", "percent", person=has_limit, from_width=120, of=lambda usage: usage.share),
        Column("fits", "fits", "flag", person=has_limit,
               of=lambda usage: UNKNOWN if usage.fits is None and usage.space is not None else usage.fits),
        Column("steps", "steps", "count", from_width=120, of=lambda usage: usage.steps),
        Column("peak_instruction", "at instruction", "name", rank=4, of=lambda usage: usage.peak_instruction),
    )  # fmt: skip


def _main_usage(results: Sequence[ScanResult[_Usage]]) -> _Usage | None:
    """The usage of the main module; None if no module can be read."""
    ranking, read = ranking_of(results)
    return next((results[read[at]].answer for at in ranking.order), None)


def _modules_answer(usages: Sequence[_Usage], main: _Usage | None, *, has_limit: bool) -> str:
    number = format_count(len(usages), "modules")
    if has_limit and (limited := [usage for usage in usages if usage.share is not None]):
        return _verdict(usages, limited)
    fullest = max(usages, key=lambda usage: usage.peak_bytes, default=None)
    if fullest is None or fullest.space is None:
        return f"{number}: no values are stored in memory"
    if main is None or main.peak_bytes == fullest.peak_bytes or main.space is None:
        return f"{number}: highest peak is {format_bytes(fullest.peak_bytes)} of {fullest.space} in {fullest.module}"
    # A helper, which runs once before the step, may have the highest peak.
    return (
        f"{number}: {main.module} peaks at {format_bytes(main.peak_bytes)} of {main.space}; "
        f"highest peak is {format_bytes(fullest.peak_bytes)} of {fullest.space} in {fullest.module}"
    )


def _verdict(usages: Sequence[_Usage], limited: Sequence[_Usage]) -> str:
    """How many modules fit, and the usage of one: the worst that does not or may not fit, else the fullest."""
    failing = [usage for usage in limited if usage.fits is False]
    unknown = [usage for usage in usages if usage.fits is None and usage.space is not None]
    words = max(
        failing or [usage for usage in unknown if usage in limited] or limited, key=lambda usage: usage.share or 0.0
    ).in_words
    number = format_count(len(usages), "modules")
    undecided = f"; unknown for {len(unknown):,}" if unknown else ""
    if failing:
        verb = "does" if len(failing) == 1 else "do"
        return f"{len(failing):,} of {number} {verb} not fit: {words}{undecided}"
    fitting = len(usages) - len(unknown)
    all_of = f"All {number}" if fitting == len(usages) > 1 else f"{fitting:,} of {number}"
    return f"{all_of} {'fits' if fitting == 1 else 'fit'}{undecided}: {words} at most"


def _modules_numbers(usages: Sequence[_Usage], *, has_limit: bool) -> dict[str, Cell]:
    if not has_limit:
        return {}
    verdicts = {usage.fits for usage in usages if usage.limit_bytes is not None}
    fits = False if False in verdicts else None if None in verdicts else True
    return {"fits": fits, "failing": sum(usage.fits is False for usage in usages)}
