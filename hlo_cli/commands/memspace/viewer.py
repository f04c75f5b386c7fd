"""The peak of XProf's memory viewer next to that of `hlo memspace`, which counts live values only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage, ViewerPeak
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.source import Diagnostic


def viewer_numbers(memory: MemoryAnalysis, peaks: Sequence[ViewerPeak]) -> dict[str, Cell]:
    """Which values the peaks count, and the peaks of the memory viewer by memory space, if known.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> memory = memory_analysis(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }"))
    >>> peak = ViewerPeak(0, 48, 32, 0, 32, 48, 40, 0, None, ())
    >>> viewer_numbers(memory, ()), viewer_numbers(memory, (peak,))["xprof_peak_bytes"]
    ({'peak_counts': 'live values'}, {'main memory': 48})
    """
    numbers: dict[str, Cell] = {"peak_counts": "live values"}
    found: dict[str, Cell] = {space.name: peak.peak_bytes for space, peak in _of_spaces(memory.spaces, peaks)}
    return {**numbers, "xprof_peak_bytes": found} if found else numbers


def viewer_tables(memory: MemoryAnalysis, peaks: Sequence[ViewerPeak]) -> tuple[Table, ...]:
    """The numbers of the memory viewer, for programs and `--table memory_viewer`; no table if they are unknown."""
    columns = (
        Column("space", "space"),
        Column("memory_space", "S(n)", "count", person=False),
        Column("xprof_peak_bytes", "XProf peak", "bytes"),
        Column("xprof_unpadded_bytes", "unpadded", "bytes"),
        Column("always_bytes", "always live", "bytes"),
        Column("argument_bytes", "arguments", "bytes", from_width=120),
        Column("output_bytes", "outputs", "bytes", from_width=120),
        Column("xprof_total_bytes", "XProf total", "bytes"),
        Column("peak_event", "event", "count"),
        Column("peak_instruction", "at instruction", "name", role="name"),
    )
    rows = tuple(_row(space, peak) for space, peak in _of_spaces(memory.spaces, peaks))
    if not rows:
        return ()
    return (Table("memory_viewer", columns, rows, noun="spaces", main=False, person=False, limit=0),)


def viewer_notes(spaces: Sequence[MemorySpaceUsage], peaks: Sequence[ViewerPeak]) -> Iterator[Diagnostic]:
    """The difference between the two peaks, for the memory spaces of the report in which they differ."""
    differing = [
        f"{format_bytes(peak.peak_bytes)} of {space.name} ({format_bytes(abs(more))} {'more' if more > 0 else 'less'})"
        for space, peak in _of_spaces(spaces, peaks)
        if (more := peak.peak_bytes - space.peak_bytes)
    ]
    if differing:
        yield Diagnostic(
            "note",
            "peaks count live values only; XProf's memory viewer adds all arguments, results, and constants to the "
            f"peak of the heap: {', '.join(differing)}",
        )


def _of_spaces(
    spaces: Sequence[MemorySpaceUsage], peaks: Sequence[ViewerPeak]
) -> Iterator[tuple[MemorySpaceUsage, ViewerPeak]]:
    by_color = {peak.color: peak for peak in peaks}
    return ((space, by_color[space.number]) for space in spaces if space.number in by_color)


def _row(space: MemorySpaceUsage, peak: ViewerPeak) -> Row:
    return (
        space.name,
        space.number,
        peak.peak_bytes,
        peak.unpadded_bytes,
        peak.always_bytes,
        peak.argument_bytes,
        peak.output_bytes,
        peak.total_bytes,
        peak.position,
        peak.instruction,
    )
