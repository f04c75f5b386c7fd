"""What XLA's memory usage report says, complete or a part of it that was copied: read and written; sizes as in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.out_of_memory import AllocationUsage, CountedShape, MemoryUsageReport, SpaceUsage, UsageRow
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.byte_sizes import SIZE, byte_text, size_of
from hlo_cli.syntax.compiler_files.memory_files import NUMBER, cut_short, lines_outside, stretches, unknown_lines

# --- the total ---


_TOTAL: Final = lazy_regex(r"Total bytes(?: used)?: (\d[\d,]{0,24})")


def stated_total(text: str) -> int | None:
    """The total bytes that a file about buffers states; None without them.

    >>> stated_total("Total bytes used: 4,096 (4.0KiB)")
    4096
    """
    match = _TOTAL.search(text)
    return int(match[1].replace(",", "")) if match is not None else None


# --- the report ---
# `-memory-usage-report.txt`, read and written.
#
# Mirrors `BufferAssignment::MemoryUsageReport` and `BufferAllocation::MemoryUsageReport` of
# xla/service/buffer_assignment.cc. Copied text is often indented, and lacks its begin or end.


_WHAT: Final = "a memory usage report"
_HEAD: Final = "  cumulative_size;       size;       offset; used_by_n_values; shapes_list"
_RULE: Final = "  " + "-" * 60  # as `MemoryUsageReport` of xla/service/buffer_assignment.cc prints it
_LESS_THAN: Final = "less than 5% of the total size and not shown."
_SPACE: Final = lazy_regex(
    rf"^[ \t]*Memory Space: (\S+) \(color=(-?{NUMBER})\)\s*Total bytes: (\d[\d,]{{0,24}})[^\n]*+\n?", re.MULTILINE
)
_ALLOCATION: Final = lazy_regex(r"^[ \t]*cumulative_size;[^\n]*offset;[^\n]*\n(?:[ \t]*-{3,}[ \t]*\n)?", re.MULTILINE)
_ROW: Final = lazy_regex(
    rf"^[ \t]*({SIZE})\( *(-?nan|\d{{1,18}})%\); +({SIZE}); +(\d{{1,18}}); +(\d{{1,18}}); ?([^\n]*)\n?", re.MULTILINE
)
_REST: Final = lazy_regex(r"^[ \t]*The rest (\d{1,18}) values are less than[^\n]*\n?", re.MULTILINE)
_COUNT = re.compile(rf"({NUMBER})×")
_BRACKET_OR_COMMA = re.compile(r"[(\[{]|[)\]}]|, ")


@no_garbage_collection()
def parse_memory_usage_report(source: Source, *, is_part: bool = False) -> MemoryUsageReport:
    """Parses a memory usage report; sizes except totals are as rounded in the text.

    With `is_part`, the text may lack its begin and its end. HloError for a text that is no such report.

    >>> report = MemoryUsageReport((SpaceUsage("vmem", 1, 4096, (AllocationUsage((_ONE_ROW,)),)),))
    >>> parse_memory_usage_report(Source("a.txt", print_memory_usage_report(report))) == report
    True
    """
    text = source.text
    spaces = list(_SPACE.finditer(text))
    if is_part and not spaces:
        return MemoryUsageReport((_space_without_head(source),))
    if not spaces:
        line = text.partition("\n")[0]
        raise HloError(f"expected {_WHAT} that starts with Memory Space:", Span(0, len(line)), source=source)
    if not is_part and not text.endswith("\n\n"):
        raise cut_short(source, _WHAT)
    unknown = list(lines_outside(source, 0, spaces[0].start(), ()))
    usages = tuple(_read_space(source, match, end, unknown) for match, end in stretches(spaces, len(text)))
    return MemoryUsageReport(usages, unknown_lines(source, unknown, _WHAT))


def print_memory_usage_report(report: MemoryUsageReport) -> str:
    """The report as XLA prints it.

    >>> print(print_memory_usage_report(MemoryUsageReport((SpaceUsage("default", 0, 8, ()),))).rstrip())
    Memory Space: default (color=0)
    Total bytes: 8 (8B)
    """
    return "".join(f"{line}\n" for space in report.spaces for line in _space_lines(space))


def _read_space(source: Source, head: re.Match[str], end: int, unknown: list[Span]) -> SpaceUsage:
    usages = tuple(_usages(source, head.end(), end, unknown))
    return SpaceUsage(head[1], int(head[2]), int(head[3].replace(",", "")), usages)


def _space_without_head(source: Source) -> SpaceUsage:
    """The space of a report that was copied without its first lines."""
    usages = tuple(_usages(source, 0, len(source.text), []))
    total = stated_total(source.text)
    listed = sum(usage.listed_bytes for usage in usages)
    return SpaceUsage("default", 0, listed if total is None else total, usages, is_stated=total is not None)


def _usages(source: Source, start: int, end: int, unknown: list[Span]) -> Iterator[AllocationUsage]:
    allocations = list(_ALLOCATION.finditer(source.text, start, end))
    unknown.extend(lines_outside(source, start, allocations[0].start() if allocations else end, ()))
    return (_read_usage(source, match.end(), last, unknown) for match, last in stretches(allocations, end))


def _read_usage(source: Source, start: int, end: int, unknown: list[Span]) -> AllocationUsage:
    rows = list(_ROW.finditer(source.text, start, end))
    rest = _REST.search(source.text, rows[-1].end() if rows else start, end)
    known = [match.span() for match in rows] + ([rest.span()] if rest else [])
    unknown.extend(lines_outside(source, start, end, known))
    return AllocationUsage(tuple(map(_row, rows)), int(rest[1]) if rest else 0)


def _row(match: re.Match[str]) -> UsageRow:
    cumulative, percent, size, offset, count, shapes = match.groups()
    return UsageRow(
        size_of(cumulative),
        int(percent) if percent.isdigit() else None,
        size_of(size),
        int(offset),
        int(count),
        tuple(_counted(shape) for shape in _listed(shapes.strip())),
    )


def _listed(shapes: str) -> Iterator[str]:
    """The shapes of a row, split at the commas outside brackets.

    >>> list(_listed("(f32[2,3], s32[]), 2×f32[4,5]"))
    ['(f32[2,3], s32[])', '2×f32[4,5]']
    """
    start = depth = 0
    for match in _BRACKET_OR_COMMA.finditer(shapes):
        if match[0] != ", ":
            depth += 1 if match[0] in "([{" else -1
        elif depth == 0:
            yield shapes[start : match.start()]
            start = match.end()
    yield shapes[start:]


def _counted(shape: str) -> CountedShape:
    count = _COUNT.match(shape)
    return CountedShape(int(count[1]), shape[count.end() :]) if count else CountedShape(1, shape)


def _space_lines(space: SpaceUsage) -> Iterator[str]:
    yield f"Memory Space: {space.name} (color={space.color})"
    yield f"Total bytes: {space.total_bytes} ({byte_text(space.total_bytes)})"
    for allocation in space.allocations:
        yield _HEAD
        yield _RULE
        yield from map(_row_line, allocation.rows)
        if allocation.omitted:
            yield f"  The rest {allocation.omitted} values are {_LESS_THAN}"
        yield ""
    yield ""


def _row_line(row: UsageRow) -> str:
    percent = "-nan" if row.percent is None else f"{row.percent:3d}"
    return (
        f"  {byte_text(row.cumulative_bytes):>9}({percent}%); {byte_text(row.size_bytes):>10}; "
        f"{row.offset_bytes:12d}; {row.value_count:16d}; {row.shapes_text}"
    )


_ONE_ROW: Final = UsageRow(4096, 100, 4096, 0, 2, (CountedShape(2, "f32[8,128]"),))
