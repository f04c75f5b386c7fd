"""How notebooks, rich, and data frames show values: each as the command that explains it would.

`displayed.py` finds this file by its name, so that no value depends on how it is shown.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import hlo_cli
from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.usage import band_of
from hlo_cli.displayed import Tabular
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.library import loaded
from hlo_cli.library import report as page_of
from hlo_cli.render.draw.diagnostics import render_diagnostics
from hlo_cli.render.machine import columns_of, field_of
from hlo_cli.render.style import Style, sanitize
from hlo_cli.report.numbers import format_bytes, format_count, format_shown
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Row, Share, Table, is_missing
from hlo_cli.report.timeline import Timeline, Track
from hlo_cli.source import HloError, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.fusion.kernels import FusionList, KernelList
    from hlo_cli.analysis.matching.module_diff import ModuleDiff
    from hlo_cli.analysis.profile.profile import Profile
    from hlo_cli.analysis.profile.profile_diff import ProfileComparison
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
    from hlo_cli.commands.profile.measured import LoadedProfile
    from hlo_cli.displayed import Record
    from hlo_cli.ir.instruction import Computation, Instruction
    from hlo_cli.lint.run import FindingList
    from hlo_cli.report.findings import Finding


# --- an example of a layout ---
# An array that shows its order and its tiles.


_TYPES: Final = {4: "s4", 8: "s8", 16: "bf16", 32: "f32", 64: "s64"}
"""A type for each number of bits of an element."""
_WORD_BITS: Final = 32  # a sublane of a TPU holds 32 bits: in T(8,128)(2,1) two bf16, in (4,1) four s8
_WIDEST: Final = 128
"""Two tiles in a dimension, if they have no more elements in it than this; else one."""
_UNTILED: Final = (2, 3)
"""The sizes of the two minor dimensions of an array without tiles."""


def _example_of(layout: Layout) -> ArrayShape:
    """An array with this layout: a tile or two in each of the minor dimensions, and 2 elements in the others.

    >>> from hlo_cli import parse_shape
    >>> print(_example_of(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}").layout))
    bf16[16,128]{1,0:T(8,128)(2,1)}
    >>> print(_example_of(parse_shape("f32[9,9,9]{0,2,1}").layout))
    f32[3,2,2]{0,2,1}
    """
    minor_to_major = layout.minor_to_major
    sizes = [2] * len(minor_to_major)
    tile = [size for size in layout.tiles[0].dimensions if size > 0] if layout.tiles else []
    window_sizes = [2 * size for size in reversed(tile)] or list(reversed(_UNTILED))
    for dimension, size in zip(minor_to_major, window_sizes, strict=False):
        sizes[dimension] = size if size <= _WIDEST else size // 2
    element = PRIMITIVE_TYPES[_TYPES.get(_bits_of(layout), "f32")]
    return ArrayShape(element, tuple(sizes), (False,) * len(sizes), layout)


def _bits_of(layout: Layout) -> int:
    """The bits of an element: given, or such that the inner tile of (n,1) fills a word, as on TPUs."""
    if layout.element_size_in_bits:
        return layout.element_size_in_bits
    inner = layout.tiles[-1].dimensions if len(layout.tiles) > 1 else ()
    return _WORD_BITS // inner[0] if len(inner) == 2 and inner[0] > 0 and inner[1] == 1 else _WORD_BITS


# --- one memory space ---
# The report of one memory space, which does not know its module: its chart, and the values at its peak.


_COLUMNS = (
    Column("bytes", "", "bytes", total="sum"),
    Column("logical_bytes", "data", "bytes", total="sum", person=False),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
    Column("start", "start", "step"),
    Column("end", "end", "step"),
    Column("kind", "kind"),
    Column("value", "value", "name", role="name"),
    Column("shape", "shape", "shape"),
    Column("opcode", "opcode", "opcode"),
    Column("op_name", "op_name", "op_name", rank=2),
    Column("allocation", "allocation", "count", person=False),
    Column("offset", "offset", "address", person=False),
)


def _report_of_space(space: MemorySpaceUsage) -> Report:
    """The chart of a memory space, and the values live at its peak.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[256] parameter(0)  ROOT n = f32[256] negate(p) }"
    >>> _report_of_space(memory_analysis(parse_module(text)).spaces[0]).answer
    'main memory: 2 KiB live at the peak, step 1; 2 values'
    """
    live = space.live_at(space.peak_step)
    count = format_count(len(space.values), "values")
    return Report(
        "memspace",
        f"{space.name}: {format_bytes(space.peak_bytes)} live at the peak, step {space.peak_step:,}; {count}",
        parts=(
            Table("live_values", _COLUMNS, tuple(map(_row, live)), title=_title(space, live), noun="values", limit=10),
            # The last position is the end, at which nothing runs.
            Timeline(
                "buffers",
                (
                    Track(
                        space.name,
                        space.timeline[:-1],
                        tuple([band_of(*occupancy) for occupancy in space.occupancies()]),
                    ),
                ),
            ),
        ),
    )


def _title(space: MemorySpaceUsage, live: tuple[LiveValue, ...]) -> str:
    return f"Live in {space.name} at step {space.peak_step:,}: {format_count(len(live), 'values')}"


def _row(value: LiveValue) -> Row:
    return (
        value.padded_bytes,
        value.logical_bytes,
        1 - value.logical_bytes / value.padded_bytes if value.padded_bytes else 0.0,
        value.start,
        value.end,
        value.kind,
        str(value),
        str(value.shape),
        value.instruction.opcode,
        value.instruction.metadata.op_name or None,
        value.allocation,
        value.offset,
    )


# --- the report of a value ---
# That of the command which answers the same question about a dump.


def report_of(value: object) -> Report:
    """The report of a displayed value; HloError if the value is too damaged for one.

    >>> from hlo_cli import parse_shape
    >>> report_of(parse_shape("f32[3,5]{1,0:T(2,2)}")).answer
    'Needs 96 bytes for 60 bytes of data (38% padding)'
    """
    return _found(_REPORTS, value)(value)


def _data_report_of(value: object) -> Report:
    """The report with the tables of a value; for some values they are more than what is shown.

    >>> from hlo_cli import parse_shape
    >>> _data_report_of(parse_shape("f32[3,5]{1,0:T(2,2)}")).main_table.rows
    (((), 15, 60, 96, 0.375, 0, 'f32[3,5]{1,0:T(2,2)}'),)
    """
    return _found({**_REPORTS, **_DATA}, value)(value)


def _found(reports: Mapping[str, Callable[[Any], Report]], value: object) -> Callable[[Any], Report]:
    for kind in type(value).__mro__:
        if kind.__name__ in reports:
            return reports[kind.__name__]
    raise HloError(f"a value of type {type(value).__name__} has no report")


def _of_module(module: Module) -> Report:
    from hlo_cli.commands.parse.overview import report_of_module

    return report_of_module(loaded(module), "")


def _rows_of_module(module: Module) -> Report:
    """The instructions, and the tables of the summary."""
    from hlo_cli.commands.parse.instruction_list import report_of_instructions

    report = report_of_instructions(loaded(module))
    return replace(report, parts=(*report.parts, *_of_module(module).tables))


def _of_instruction(instruction: Instruction) -> Report:
    """What `hlo parse DUMP --explain NAME` says."""
    from hlo_cli.commands.parse.explain import explain_instruction

    return explain_instruction(_module_around(instruction.computation), instruction)


def _of_computation(computation: Computation) -> Report:
    """Its instructions."""
    from hlo_cli.commands.parse.instruction_list import report_of_instructions

    return report_of_instructions(loaded(_module_around(computation)), computation=computation.name)


def _module_around(computation: Computation) -> Module:
    """A module of a computation and of all that it calls, as instructions do not know the module that they are in."""
    called, pending = {computation: None}, [computation]
    while pending:
        found = [
            each for instruction in pending.pop() for each in instruction.called_computations if each not in called
        ]
        called.update(dict.fromkeys(found))
        pending += found
    return Module(computation.name, (*called,), computation, Source("", ""))


def _of_shape(shape: Shape) -> Report:
    """The explanation of a shape, with its drawing first."""
    from hlo_cli.commands.layout.shape import report_of_shape

    text = str(shape)
    explained = report_of_shape(text)
    drawn = [part for part in report_of_shape(text, draw=True).parts if part.kind in ("figure", "passage")]
    rest = [part for part in explained.parts if part.kind != "passage"]
    return replace(explained, parts=(*drawn, *rest), next=())


def _rows_of_shape(shape: Shape) -> Report:
    """The leaves; an array is one."""
    from hlo_cli.commands.layout.shape import leaves_answer, leaves_table

    return Report("layout", leaves_answer(shape), parts=(leaves_table(shape),))


def _of_layout(layout: Layout) -> Report:

    shape = _example_of(layout)
    report = _of_shape(shape)
    return replace(report, answer=f"Layout {layout}, shown for {shape}")


def _of_memory(memory: MemoryAnalysis) -> Report:
    return _memory_report(memory, None)


def _rows_of_memory(memory: MemoryAnalysis) -> Report:
    """The values at the peak of every memory space; all values are `buffers`."""
    return _memory_report(memory, "all")


def _memory_report(memory: MemoryAnalysis, space: str | None) -> Report:
    from hlo_cli.commands.memspace.report import report_of_memory

    return report_of_memory(loaded(memory.module), memory, MemspaceOptions(space=space), "")


def _of_space(space: MemorySpaceUsage) -> Report:

    return _report_of_space(space)


def _of_overlap(overlap: OverlapAnalysis) -> Report:
    from hlo_cli.commands.schedule.async_table import report_of_pairs

    return report_of_pairs(loaded(overlap.module), overlap, within=None, where=None, argument="")


def _of_diff(found: ModuleDiff) -> Report:
    from hlo_cli.commands.diff.conditions import View
    from hlo_cli.commands.diff.report import DiffSide, report_of_diff

    before, after = (
        DiffSide(side.module, side.input.path or "-", side.input.stage)
        for side in map(loaded, (found.before, found.after))
    )
    report, _ = report_of_diff(found, before, after, View("statements", (), with_schedule=False), ())
    return report


def _of_profile(profile: Profile) -> Report:
    from hlo_cli.commands.profile.by_operation import report_of_operations
    from hlo_cli.commands.profile.measured import Measured

    return report_of_operations(Measured(_loaded_profile(profile)))


def _of_comparison(found: ProfileComparison) -> Report:
    from hlo_cli.commands.profile.against import report_of_comparison

    return report_of_comparison(found, _loaded_profile(found.after), _loaded_profile(found.before))


def _loaded_profile(profile: Profile) -> LoadedProfile:
    from hlo_cli.commands.profile.measured import LoadedProfile

    return LoadedProfile(profile, profile.traces[0].name if profile.traces else "", "")


def _of_fusions(fusions: FusionList) -> Report:
    return _listed(_fuse_report(fusions.context), "fusions", "fusion", [fusion.name for fusion in fusions])


def _of_kernels(kernels: KernelList) -> Report:
    report = _fuse_report(kernels.context)
    names = [kernel.instruction.name for kernel in kernels]
    report = _listed(report, "kernels", "instruction", names)
    return replace(report, parts=tuple(part for part in report.parts if part.name != "fusions"))


def _fuse_report(module: Module) -> Report:
    from hlo_cli.commands.fuse.fusion_table import report_of_fusions

    report = report_of_fusions(loaded(module), within=None, where=None, timing=None, argument="")
    return replace(report, parts=tuple(part for part in report.parts if part.kind == "table"))


def _listed(report: Report, table: str, column: str, names: Sequence[str]) -> Report:
    """A report with the rows of a table that have these names, as its main table."""
    parts: list[Part] = []
    kept_names = frozenset(names)
    whole = True
    for part in report.parts:
        if part.kind == "table" and part.name == table:
            index = part.column_index(column)
            rows = tuple(row for row in part.rows if row[index] in kept_names)
            whole = len(rows) == len(part.rows)
            parts.insert(0, replace(part, rows=rows, main=True, person=True))
        else:
            parts.append(replace(part, main=False) if part.kind == "table" else part)
    if whole:
        return replace(report, parts=tuple(parts))
    count = f"{len(names):,} of the {table} of the module"
    return replace(report, answer=count, numbers={table: len(names)}, parts=tuple(parts[:1]))


def _of_findings(found: FindingList) -> Report:
    from hlo_cli.commands.lint.checking import LintedModule, LintResult
    from hlo_cli.commands.lint.report import in_order, report_of
    from hlo_cli.lint.settings import LintSettings

    checked = found.context
    module = LintedModule(checked.path, checked.name, None, checked.instructions)
    result = LintResult(tuple(found), (), (), (), (module,))
    return replace(report_of(result, in_order(found, "cost"), LintSettings(select=checked.rules), ""), next=())


def _of_finding(found: Finding) -> Report:
    from hlo_cli.commands.lint.report import texts_of
    from hlo_cli.lint.run import rule_of
    from hlo_cli.report.findings import Findings

    rules = (texts_of(rule_of(found.code)),)
    return Report("lint", str(found), parts=(Findings("findings", (found,), rules, (found.path,)),))


def _of_report(report: Report) -> Report:
    return report


_REPORTS: Final[Mapping[str, Callable[[Any], Report]]] = {
    "Report": _of_report,
    "Module": _of_module,
    "Computation": _of_computation,
    "Instruction": _of_instruction,
    "ArrayShape": _of_shape,
    "BufferShape": _of_shape,
    "TupleShape": _of_shape,
    "Layout": _of_layout,
    "MemoryAnalysis": _of_memory,
    "MemorySpaceUsage": _of_space,
    "OverlapAnalysis": _of_overlap,
    "ModuleDiff": _of_diff,
    "Profile": _of_profile,
    "ProfileComparison": _of_comparison,
    "FusionList": _of_fusions,
    "KernelList": _of_kernels,
    "FindingList": _of_findings,
    "Finding": _of_finding,
}
"""The report of each class of values, by its name."""
_DATA: Final[Mapping[str, Callable[[Any], Report]]] = {
    "Module": _rows_of_module,
    "ArrayShape": _rows_of_shape,
    "BufferShape": _rows_of_shape,
    "TupleShape": _rows_of_shape,
    "MemoryAnalysis": _rows_of_memory,
}
"""The report with the tables of a class, where it differs."""


# --- displays by media type ---
# Displays of a value by media type, as notebooks ask for them, and what rich prints.


WIDTH: Final = 100
"""Cells of a line of text; notebooks and most terminals show as many."""
ROWS: Final = 10
"""Rows of a table; the rest is counted and summed."""
_COMMAND_HINT: Final = "; use --top 0 to show all"
_RECORDS_HINT: Final = "; to_records() has all"
MAX_PICTURE: Final = 60_000
"""Characters of a picture; a larger one is left out, because the page has it too."""
MAX_BUNDLE: Final = 200_000
"""Characters of all displays; beyond it, the picture is left out."""
MAX_SPANS: Final = 500
"""Rows of a schedule that is drawn."""


def bundle(value: object, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, str]:
    """The displays of a value by media type: text, HTML, and a picture if there is something to draw.

    `include` and `exclude` select media types. A value without a report is shown as its text.

    >>> from hlo_cli import parse_shape
    >>> sorted(bundle(parse_shape("f32[3,5]{1,0:T(2,2)}"), None, None))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    media_types = [name for name in _DISPLAYS if (include is None or name in include) and name not in (exclude or ())]
    if not media_types:
        return {}
    try:
        report = _read_once(report_of(value))
    except HloError:
        # a display must not fail: an error in a cell would hide the value itself
        return {"text/plain": _plain(value)} if "text/plain" in media_types else {}
    hint = _RECORDS_HINT if isinstance(value, Tabular) else ""
    shown = {name: _DISPLAYS[name](report).replace(_COMMAND_HINT, hint) for name in media_types}
    if sum(map(len, shown.values())) > MAX_BUNDLE:
        shown.pop("image/svg+xml", None)
    return {name: text for name, text in shown.items() if text}


def _plain(value: object) -> str:
    """The text of a value without a report."""
    # `str` of a value with tables asks for its report, which it does not have.
    return repr(value) if type(value).__str__ is Tabular.__str__ else str(value)


def write_page(value: object, path: str) -> None:
    """Writes a value as a page with all rows: a module as `hlo report` does, others as the report of their command."""
    from hlo_cli.commands.options import writing

    with sharing():  # tables are computed when they are written
        report = page_of(value) if isinstance(value, Module) else report_of(value)
        writing.write_page(report, path, ascii=False)


def renderable(value: object) -> object:
    """What rich prints: the screen of the report, as wide as the console."""
    from hlo_cli.render.formats.screen import Screen

    try:
        return Screen(report_of(value))
    except HloError:
        return sanitize(_plain(value)).replace("[", r"\[")  # rich would read brackets as markup


def _read_once(report: Report) -> Report:
    """A report of what people see, whose charts do not make their buffers again for each display."""
    parts = (
        replace(part, tracks=tuple(replace(track, bands=tuple(track.bands)) for track in part.tracks))
        if part.kind == "timeline"
        else part
        for part in report.seen_parts
    )
    return replace(report, parts=tuple(parts))


def _text(report: Report) -> str:
    from hlo_cli.render.formats.screen import render_screen

    return "".join(render_screen(report, Style(width=WIDTH))).rstrip("\n")


def _html(report: Report) -> str:
    from hlo_cli.render.web.page import fragment

    parts = tuple(_first_rows(part) if part.kind == "table" else part for part in report.parts)
    return fragment(replace(report, parts=parts), top=ROWS)


def _first_rows(table: Table) -> Table:
    """A table with the rows that are shown, and the totals of all; the charts of a schedule have every row."""
    if len(table.rows) <= ROWS + 1 or _has_spans(table):
        return table
    total = table.total_row or (table.total_of(table.rows) if table.has_totals else None)
    footnote = " ".join(text for text in (format_shown(ROWS, len(table.rows), table.noun), table.footnote) if text)
    return replace(table, rows=tuple(table.rows[:ROWS]), total_row=total, footnote=footnote)


def _has_spans(table: Table) -> bool:
    return any(column.unit == "span" for column in table.columns)


def _picture(report: Report) -> str:
    """The drawings as SVG; empty if there is nothing to draw, or too much."""
    from hlo_cli.render.formats.drawing import render_svg

    if any(part.kind == "table" and _has_spans(part) and len(part.rows) > MAX_SPANS for part in report.parts):
        return ""
    try:
        picture = "".join(render_svg(report, Style()))
    except HloError:
        return ""
    return picture if len(picture) <= MAX_PICTURE else ""


_DISPLAYS: Final[dict[str, Callable[[Report], str]]] = {
    "text/plain": _text,
    "text/html": _html,
    "image/svg+xml": _picture,
}


# --- tables as records ---
# Tables of values as records: a dict for each row, with plain values, as data frames take them.


def records(value: object, table: str | None) -> list[Record]:
    """The rows of the main table of a value, or of the one with that name, as records.

    >>> from hlo_cli import parse_shape
    >>> records(parse_shape("(f32[8], s8[2])"), None)[1]["padded_bytes"]
    2
    """
    report = _data_report_of(value)
    chosen = report.main_table if table is None else report.only(table, as_rows=True).main_table
    return records_of(chosen)


def records_of(table: Table) -> list[Record]:
    """The rows of a table; keys are the columns for programs.

    >>> from hlo_cli.report.table import UNKNOWN
    >>> from hlo_cli.report.table import Column
    >>> records_of(Table("a", (Column("bytes", "", "bytes"), Column("at", "", "index")), ((UNKNOWN, (0, 5)),)))
    [{'bytes': None, 'at': '0,5'}]
    """
    columns = columns_of(table)
    places = [table.columns.index(column) for column in columns]
    names = [column.name for column in columns]
    return [dict(zip(names, (plain(row[at]) for at in places), strict=True)) for row in table.rows]


def plain(cell: Cell) -> bool | int | float | str | None:
    """A cell as a plain value: None if it is missing or unknown, the text of csv for an index or a record.

    >>> from hlo_cli.report.table import UNKNOWN
    >>> [plain(cell) for cell in (3, 0.5, "a", True, None, UNKNOWN, (1, 2), float("nan"))]
    [3, 0.5, 'a', True, None, None, '1,2', None]
    """
    if is_missing(cell):
        return None
    return field_of(cell) if isinstance(cell, tuple | Mapping) else _value(cell)


def _value(cell: Cell) -> bool | int | float | str | None:
    return cell if isinstance(cell, bool | int | float | str) else None


# --- errors ---
# Errors as notebooks show them: the line that raised it, the place in the text, and help, without our own frames.


_OURS = os.path.dirname(hlo_cli.__file__) + os.sep


def lines_of(error: HloError) -> list[str]:
    """The last line of the user's program that was running, and the diagnostics.

    >>> lines_of(HloError("no module found", hint="pass a dump"))
    ['error: no module found', '  help: pass a dump']
    """
    text = "".join(render_diagnostics(error.diagnostics, Style(width=100)))
    return [*_place(error), *text.splitlines()]


def _place(error: HloError) -> list[str]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    line = (frames[-1].line or "").strip() if frames else ""
    return [f"HloError in line {frames[-1].lineno}: {sanitize(line)}"] if line else []
