"""Reader of `-buffer-assignment-values.txt`: the place of every value, and its uses.

Mirrors `BufferAssignment::ValuesToString` of xla/service/buffer_assignment.cc and `HloValue::ToString` of
xla/service/hlo_value.cc. Old releases append the same to the buffer assignment, in its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.ir.buffer_assignment import BufferPlace, UsedValue, UsedValues, ValueUse
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.compiler_files.names import INDEX, NAME, NUMBER, Places, cut_short, lines_outside, unknown_lines

_WHAT: Final = "a list of values"
_TOTAL = re.compile(rf"^Total bytes used: ({NUMBER})[^\n]*+\n\s*Used values:\n", re.MULTILINE)
_LINES: Final = r"((?:  [^\n]*+\n)*+)"
_VALUE = re.compile(
    rf"^<({NUMBER}) ({NAME})(?:\{{({INDEX})\}})?( \(phi\))?(?: @(-?{NUMBER}))?>\n"
    rf" positions:\n{_LINES} uses:\n{_LINES} from instruction: ([^\n]*+\n)",
    re.MULTILINE,
)
_START = re.compile(rf"^<{NUMBER} ", re.MULTILINE)
_POSITION = re.compile(rf"^  ({NAME})(?: \{{({INDEX})\}})?$", re.MULTILINE)
_USE = re.compile(rf"^  ({NAME}), operand ({NUMBER})(?: \{{({INDEX})\}})?$", re.MULTILINE)
_NO_USES: Final = "  (none)\n"


@no_garbage_collection()
def parse_buffer_values(source: Source, module: Module | None = None) -> UsedValues:
    """The values of a buffer assignment, resolved to instructions of `module` if given.

    >>> text = "Total bytes used: 4 (4B)\\n\\nUsed values:\\n<0 p @0>\\n positions:\\n  p\\n  t {0}\\n uses:\\n"
    >>> text += "  t, operand 0\\n from instruction: %p = f32[] parameter(0)\\n"
    >>> [value] = parse_buffer_values(Source("a.txt", text)).values
    >>> [str(place) for place in value.positions], value.uses[0].operand_number
    (['p', 't{0}'], 0)
    """
    total = _TOTAL.search(source.text)
    if total is None:
        raise HloError(f"expected {_WHAT} with the lines Total bytes used: and Used values:", Span(0, 0), source=source)
    reader = _Reader(source, module)
    values = tuple(reader.values(total.end()))
    return UsedValues(int(total[1]), values, unknown_lines(source, reader.unknown, _WHAT))


class _Reader:
    """Reads one text and collects the unknown lines."""

    def __init__(self, source: Source, module: Module | None) -> None:
        self.source = source
        self.unknown: list[Span] = []
        self._places = Places(module)

    def values(self, start: int) -> Iterator[UsedValue]:
        """The values from an offset to the end; HloError if the text ends within one."""
        text, known = self.source.text, []
        for match in _VALUE.finditer(text, start):
            known.append(match.span())
            yield self._value(match)
        last = known[-1][1] if known else start
        if _START.search(text, last) or not text.endswith("\n"):
            raise cut_short(self.source, _WHAT)
        self.unknown.extend(lines_outside(self.source, start, len(text), known))

    def _value(self, match: re.Match[str]) -> UsedValue:
        number, name, index, phi, color = match.group(1, 2, 3, 4, 5)
        return UsedValue(
            int(number),
            int(color or 0),
            self._places.of(name, index or ""),
            phi is not None,
            tuple(self._positions(match)),
            tuple(self._uses(match)),
            Span(match.start(8), match.end(8) - 1),
        )

    def _positions(self, match: re.Match[str]) -> Iterator[BufferPlace]:
        found = _POSITION.findall(match[6])
        self._compare(match, 6, _POSITION, len(found))
        return (self._places.of(name, index) for name, index in found)

    def _uses(self, match: re.Match[str]) -> Iterator[ValueUse]:
        found = _USE.findall(match[7])
        if match[7] != _NO_USES:
            self._compare(match, 7, _USE, len(found))
        for name, number, index in found:
            yield ValueUse(self._places.of(name), int(number), self._places.index(index))

    def _compare(self, match: re.Match[str], group: int, pattern: re.Pattern[str], found: int) -> None:
        """Records the lines of a part that its pattern did not match."""
        if match[group].count("\n") != found:
            start, end = match.span(group)
            known = [each.span() for each in pattern.finditer(self.source.text, start, end)]
            self.unknown.extend(lines_outside(self.source, start, end, known))
