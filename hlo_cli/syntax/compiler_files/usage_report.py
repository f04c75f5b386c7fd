"""What XLA's memory usage report says: read and written; sizes as in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.out_of_memory import AllocationUsage, CountedShape, MemoryUsageReport, SpaceUsage, UsageRow
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.compiler_files.memory_files import NUMBER, cut_short, lines_outside, stretches, unknown_lines

# --- sizes as XLA formats them ---
# Sizes in bytes as XLA formats them: parsed and printed.
#
# Mirrors `HumanReadableNumBytes` of tsl/platform/numbers.cc; TPU compilers write `2.00G` for `2.00GiB`.


BYTES: Final = r"-?[0-9]{1,19}+(?:\.[0-9]{1,9}+)?(?:[KMGTPE]i?)?B?"
"""A number of bytes as a regular expression."""

_UNITS: Final = "KMGTPE"
_BYTES = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([KMGTPE]?)i?B?")


def byte_text(number: int) -> str:
    """A number of bytes with three or four digits.

    >>> byte_text(512), byte_text(419528), byte_text(3474844), byte_text(2**63 - 1)
    ('512B', '409.7KiB', '3.31MiB', '8.00EiB')
    """
    sign, number = "-" * (number < 0), abs(number)
    if number < 1024:
        return f"{sign}{number}B"
    unit = 0
    while number >= 1 << 20 and unit < len(_UNITS) - 1:
        number >>= 10
        unit += 1
    return f"{sign}{number / 1024:.{1 if unit == 0 else 2}f}{_UNITS[unit]}iB"


def byte_number(text: str) -> int:
    """The number of bytes in a text, as exact as its digits are.

    >>> byte_number("0B"), byte_number("12.0K"), byte_number("3.31MiB"), byte_number("100")
    (0, 12288, 3470787, 100)
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        raise ValueError(f"not a number of bytes: {text}")
    power = _UNITS.index(match[2]) + 1 if match[2] else 0
    return int((Decimal(match[1]) * (1 << 10 * power)).to_integral_value(ROUND_HALF_EVEN))


# --- the report ---
# `-memory-usage-report.txt`, read and written.
#
# Mirrors `BufferAssignment::MemoryUsageReport` and `BufferAllocation::MemoryUsageReport` of
# xla/service/buffer_assignment.cc.


_WHAT: Final = "a memory usage report"
_HEAD: Final = "  cumulative_size;       size;       offset; used_by_n_values; shapes_list"
_RULE: Final = "  " + "-" * 60  # as `MemoryUsageReport` of xla/service/buffer_assignment.cc prints it
_LESS_THAN: Final = "less than 5% of the total size and not shown."
_SPACE = re.compile(
    rf"^Memory Space: (\S+) \(color=(-?{NUMBER})\)\nTotal bytes: ({NUMBER}) \([^)\n]*+\)\n", re.MULTILINE
)
_ALLOCATION = re.compile(rf"^{re.escape(_HEAD)}\n{_RULE}\n", re.MULTILINE)
_ROW = re.compile(
    rf"^  +({BYTES})\( *(-?nan|{NUMBER})%\); +({BYTES}); +({NUMBER}); +({NUMBER}); ([^\n]*+)\n", re.MULTILINE
)
_REST = re.compile(rf"^  The rest ({NUMBER}) values are {re.escape(_LESS_THAN)}\n", re.MULTILINE)
_COUNT = re.compile(rf"({NUMBER})×")
_BRACKET_OR_COMMA = re.compile(r"[(\[{]|[)\]}]|, ")


@no_garbage_collection()
def parse_memory_usage_report(source: Source) -> MemoryUsageReport:
    """Parses a memory usage report; sizes except totals are as rounded in the text.

    >>> report = MemoryUsageReport((SpaceUsage("vmem", 1, 4096, (AllocationUsage((_ONE_ROW,)),)),))
    >>> parse_memory_usage_report(Source("a.txt", print_memory_usage_report(report))) == report
    True
    """
    text = source.text
    spaces = list(_SPACE.finditer(text))
    if not spaces:
        line = text.partition("\n")[0]
        raise HloError(f"expected {_WHAT} that starts with Memory Space:", Span(0, len(line)), source=source)
    if not text.endswith("\n\n"):
        raise cut_short(source, _WHAT)
    unknown = list(lines_outside(source, 0, spaces[0].start(), ()))
    found = tuple(_read_space(source, match, end, unknown) for match, end in stretches(spaces, len(text)))
    return MemoryUsageReport(found, unknown_lines(source, unknown, _WHAT))


def print_memory_usage_report(report: MemoryUsageReport) -> str:
    """The report as XLA prints it.

    >>> print(print_memory_usage_report(MemoryUsageReport((SpaceUsage("default", 0, 8, ()),))).rstrip())
    Memory Space: default (color=0)
    Total bytes: 8 (8B)
    """
    return "".join(f"{line}\n" for space in report.spaces for line in _space_lines(space))


def _read_space(source: Source, head: re.Match[str], end: int, unknown: list[Span]) -> SpaceUsage:
    allocations = list(_ALLOCATION.finditer(source.text, head.end(), end))
    unknown.extend(lines_outside(source, head.end(), allocations[0].start() if allocations else end, ()))
    usages = (_read_usage(source, match.end(), last, unknown) for match, last in stretches(allocations, end))
    return SpaceUsage(head[1], int(head[2]), int(head[3]), tuple(usages))


def _read_usage(source: Source, start: int, end: int, unknown: list[Span]) -> AllocationUsage:
    rows = list(_ROW.finditer(source.text, start, end))
    rest = _REST.search(source.text, rows[-1].end() if rows else start, end)
    known = [match.span() for match in rows] + ([rest.span()] if rest else [])
    unknown.extend(lines_outside(source, start, end, known))
    return AllocationUsage(tuple(map(_row, rows)), int(rest[1]) if rest else 0)


def _row(match: re.Match[str]) -> UsageRow:
    cumulative, percent, size, offset, count, shapes = match.groups()
    return UsageRow(
        byte_number(cumulative),
        int(percent) if percent.isdigit() else None,
        byte_number(size),
        int(offset),
        int(count),
        tuple(_counted(shape) for shape in _listed(shapes)),
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
    shapes = ", ".join(f"{shape.count}×{shape.shape}" if shape.count > 1 else shape.shape for shape in row.shapes)
    return (
        f"  {byte_text(row.cumulative_bytes):>9}({percent}%); {byte_text(row.size_bytes):>10}; "
        f"{row.offset_bytes:12d}; {row.value_count:16d}; {shapes}"
    )


_ONE_ROW: Final = UsageRow(4096, 100, 4096, 0, 2, (CountedShape(2, "f32[8,128]"),))
