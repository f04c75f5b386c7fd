"""Indices as text: `3,5`, `(3, 5)`, `0:4,128`, `:,5`; positions and bytes as `17`, `0x1a40`, `0:64`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import read_index
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, counted
from hlo_cli.syntax.scanning.scanner import beyond_64_bits, int64

_PART = re.compile(r"\s*+([^,]*?)\s*+(?:,|\Z)")
_NUMBER = lazy_regex(r"[+-]?(?:0[xX]_*+[0-9a-fA-F][0-9a-fA-F_]*+|[0-9][0-9_]*+)\Z")
_PLAIN = re.compile(r"[0-9]{1,18}(?:,[0-9]{1,18})*+\Z")
_OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The elements whose coordinates are in a range for each dimension; in row-major order.

    >>> selection = read_selection("1:3,-1", (3, 5))
    >>> selection.count, list(selection.indices)
    (2, [(1, 4), (2, 4)])
    """

    ranges: tuple[range, ...]

    @property
    def count(self) -> int:
        """The number of selected elements."""
        return prod(map(len, self.ranges))

    @property
    def indices(self) -> Iterator[tuple[int, ...]]:
        """The indices of the elements, generated one by one."""
        if not self.ranges:
            yield ()
            return
        for lead in Selection(self.ranges[:-1]).indices:
            for last in self.ranges[-1]:
                yield (*lead, last)


def read_selection(text: str, sizes: tuple[int, ...], *, name: str = "", line: int = 1) -> Selection:
    """The elements that a text selects in an array of these sizes; HloError, with its span, for indices out of range.

    >>> read_selection("(2, 3)", (3, 5)).ranges
    (range(2, 3), range(3, 4))
    """
    if _PLAIN.match(text):  # most lines of a long file
        numbers = read_index(text)
        if len(numbers) == len(sizes) and all(0 <= n < size for n, size in zip(numbers, sizes, strict=True)):
            return Selection(tuple(range(n, n + 1) for n in numbers))
    source = Source(name, text, line)
    parts = _parts(text)
    dots = [at for at, (part, _) in enumerate(parts) if part in ("...", "…")]
    if len(dots) > 1:
        raise HloError("only one ... is allowed in an index", parts[dots[1]][1], source=source)
    if dots:
        at, span = dots[0], parts[dots[0]][1]
        parts[at : at + 1] = [(":", span)] * (len(sizes) - len(parts) + 1)
    if len(parts) != len(sizes):
        raise HloError(
            f"expected {counted(len(sizes), 'numbers')} for {list(sizes)}, found {len(parts)}",
            Span(0, len(text)),
            source=source,
        )
    return Selection(tuple(_range(part, size, span, source) for (part, span), size in zip(parts, sizes, strict=True)))


def read_slots(text: str, count: int, *, name: str = "", line: int = 1) -> range:
    """The positions or bytes that a text selects: one number, or a slice; `count` is the number available.

    >>> read_slots("0x10", 64), read_slots("60:", 64)
    (range(16, 17), range(60, 64))
    """
    return _range(text.strip(), count, Span(0, len(text)), Source(name, text, line), negative=False)


def _parts(text: str) -> list[tuple[str, Span]]:
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if text[start : start + 1] in _OPENING and text[end - 1 : end] == _OPENING[text[start]]:
        start, end = start + 1, end - 1
    parts = []
    while start < end:
        match = _PART.match(text, start, end)
        assert match is not None
        parts.append((match[1], Span(match.start(1), max(match.end(1), match.start(1) + 1))))
        start = match.end()
    return parts


def _range(part: str, size: int, span: Span, source: Source, *, negative: bool = True) -> range:
    pieces = [piece.strip() for piece in part.split(":")]
    if len(pieces) > 3 or any(piece and not _NUMBER.match(piece) for piece in pieces) or pieces == [""]:
        raise HloError(f"expected a number or a slice, such as 3 or 0:4, found '{part[:40]}'", span, source=source)
    numbers = [_number(piece, span, source) if piece else None for piece in pieces]
    if len(numbers) > 1:
        if numbers[2:] == [0]:
            raise HloError("slice step cannot be 0", span, source=source)
        return range(*slice(*numbers).indices(size))
    number = numbers[0]
    assert number is not None
    if not (-size if negative else 0) <= number < size:
        ends = f"valid: 0 to {size - 1}" if size > 1 else "valid: 0" if size else "the dimension is empty"
        raise HloError(f"index {number} is out of range ({ends})", span, source=source)
    return range(number % size, number % size + 1)


def _number(text: str, span: Span, source: Source) -> int:
    digits = text.replace("_", "")
    if (number := int64(digits, 16 if "x" in digits.lower() else 10)) is None:
        raise HloError(beyond_64_bits(digits), span, source=source)
    return number
