"""Reader of `-live-range.txt`: the flattened schedule, the live range of every value, and the values live at the peak.

Mirrors `HloLiveRange::ToString` of xla/hlo/utils/hlo_live_range.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from hlo_cli.ir.buffer_assignment import DumpedLiveRanges, DumpedRange, PeakValue, ScheduledPlace, StackNode
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.source import Source, Span
from hlo_cli.syntax.compiler_files.names import (
    INDEX,
    NAME,
    NUMBER,
    Places,
    cut_short,
    lines_outside,
    refuse_other,
    stretches,
    unknown_lines,
)

_T = TypeVar("_T")
_WHAT: Final = "live ranges"
_GROUPED: Final = rf"({NUMBER}(?: {NUMBER})*+)"
_FIRST = re.compile(rf"\s*HloLiveRange \(max ({NUMBER})\):[ \t]*(?:\n|\Z)")
_SECTION = re.compile(
    rf"^  (?:(InstructionSequence):|(BufferLiveRange):|Live ranges at ({NUMBER}) \((peak)\):"
    rf"|(Stack) trace breakdown for peak usage: {_GROUPED} bytes)\n?",
    re.MULTILINE,
)
_PLACE: Final = rf"({NAME})(?:\{{({INDEX})\}})?"
_SCHEDULED = re.compile(rf"^    ({NUMBER}):({NAME})\n", re.MULTILINE)
_RANGE = re.compile(rf"^    {_PLACE}:({NUMBER})-({NUMBER})\n", re.MULTILINE)
_PEAK = re.compile(rf"^    {_PLACE}: ({NUMBER}) bytes \(cumulative: ({NUMBER}) bytes\)\n", re.MULTILINE)
_STACK = re.compile(
    rf"^    ((?:  )?(?:│   |    )*+(?:├── |└── )?+)([^\n]*?) \(([0-9]{{1,9}}+\.[0-9]|-?nan)%, "
    rf"total: {_GROUPED} bytes, current: {_GROUPED} bytes, remaining: {_GROUPED} bytes\)\n",
    re.MULTILINE,
)


@no_garbage_collection()
def parse_live_ranges(source: Source, module: Module | None = None) -> DumpedLiveRanges:
    """Parses a file of live ranges; its values are resolved to instructions of `module` if given.

    >>> text = "HloLiveRange (max 2):\\n  InstructionSequence:\\n    0:p\\n  BufferLiveRange:\\n    p{}:0-2\\n"
    >>> text += "  Live ranges at 0 (peak):\\n    p{}: 4 bytes (cumulative: 4 bytes)\\n"
    >>> ranges = parse_live_ranges(Source("a.txt", text))
    >>> ranges.ranges[0].end, ranges.peak_time, ranges.peak[0].size_bytes
    (2, 0, 4)
    """
    start = refuse_other(source, _FIRST, "live ranges that start with HloLiveRange")
    reader = _Reader(source, module, start)
    if not source.text.endswith("\n") or "BufferLiveRange" not in reader.sections:
        raise cut_short(source, _WHAT)
    peak, stack = reader.heads.get("peak"), reader.heads.get("Stack")
    first = _FIRST.match(source.text)
    return DumpedLiveRanges(
        int(first[1]) if first else 0,
        reader.items("InstructionSequence", _SCHEDULED, reader.scheduled),
        reader.items("BufferLiveRange", _RANGE, reader.range),
        None if peak is None else int(peak[3]),
        reader.items("peak", _PEAK, reader.peak),
        None if stack is None else _number(stack[6]),
        reader.items("Stack", _STACK, _stack_node),
        unknown_lines(source, reader.unknown, _WHAT),
    )


class _Reader:
    """Splits one text into its sections, and collects the unknown lines."""

    def __init__(self, source: Source, module: Module | None, start: int) -> None:
        self.source = source
        self.unknown: list[Span] = []
        self._places = Places(module)
        found = list(_SECTION.finditer(source.text, start))
        self.heads: dict[str, re.Match[str]] = {}
        self.sections: dict[str, tuple[int, int]] = {}
        for match, end in stretches(found, len(source.text)):
            kind = next(filter(None, match.group(1, 2, 4, 5)))
            if kind in self.heads:
                self.unknown.append(Span(*match.span()))
                continue
            self.heads[kind], self.sections[kind] = match, (match.end(), end)
        self.unknown.extend(lines_outside(source, start, found[0].start() if found else len(source.text), ()))

    def items(self, section: str, pattern: re.Pattern[str], make: Callable[[tuple[str, ...]], _T]) -> tuple[_T, ...]:
        """The parsed lines of a section; empty if the text does not have it."""
        start, end = self.sections.get(section, (0, 0))
        found = pattern.findall(self.source.text, start, end)
        if self.source.text.count("\n", start, end) != len(found):
            known = [match.span() for match in pattern.finditer(self.source.text, start, end)]
            self.unknown.extend(lines_outside(self.source, start, end, known))
        return tuple(map(make, found))

    def scheduled(self, groups: tuple[str, ...]) -> ScheduledPlace:
        """A line of the schedule."""
        return ScheduledPlace(int(groups[0]), self._places.of(groups[1]))

    def range(self, groups: tuple[str, ...]) -> DumpedRange:
        """A live range."""
        return DumpedRange(self._places.of(groups[0], groups[1]), int(groups[2]), int(groups[3]))

    def peak(self, groups: tuple[str, ...]) -> PeakValue:
        """A value that is live at the peak."""
        return PeakValue(self._places.of(groups[0], groups[1]), int(groups[2]), int(groups[3]))


def _stack_node(groups: tuple[str, ...]) -> StackNode:
    rails, name, percent, total, current, remaining = groups
    depth = (len(rails) - 2) // 4 if rails else 0
    return StackNode(depth, name, float(percent), _number(total), _number(current), _number(remaining))


def _number(digits: str) -> int:
    """A number whose digits are grouped by blanks.

    >>> _number("417 520")
    417520
    """
    return int(digits.replace(" ", ""))
