"""Diffs in unified format, which `patch` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from hlo_cli.render.sanitize import sanitize
from hlo_cli.report.diff import Diff, DiffLine, Hunk


def unified_lines(diff: Diff) -> Iterator[str]:
    """The diff in unified format, empty if nothing changed; control characters are escaped.

    >>> added, changed = DiffLine("+", None, "c", None, 6), DiffLine("~", "b = 1", "b = 2", 5, 5)
    >>> hunk = Hunk((DiffLine(" ", "a", "a", 4, 4), changed, added), "main", folded=3)
    >>> for line in unified_lines(Diff("text", (hunk,), old_name="x", new_name="y")): print(line)
    --- x
    +++ y
    @@ -4,2 +4,3 @@ main
     a
    -b = 1
    +b = 2
    +c
    """
    if diff.hunks:
        yield f"--- {sanitize(diff.old_name)}"
        yield f"+++ {sanitize(diff.new_name)}"
    line = new_line = 1
    for hunk in diff.hunks:
        line, new_line = line + hunk.folded, new_line + hunk.folded
        lines, new_lines = _count(hunk, "+>"), _count(hunk, "-<")
        places = f"@@ -{_range(line, lines)} +{_range(new_line, new_lines)} @@"
        yield f"{places} {sanitize(hunk.heading)}" if hunk.heading else places
        for is_context, group in groupby(hunk.lines, lambda each: each.sign == " "):
            together = tuple(group)
            yield from (" " + sanitize(each.text) for each in together) if is_context else _replaced(together)
        line, new_line = line + lines, new_line + new_lines


def _count(hunk: Hunk, other_side: str) -> int:
    return sum(line.sign not in other_side for line in hunk.lines)


def _range(first: int, lines: int) -> str:
    """The range of a hunk header; for no lines, the line before them."""
    return f"{first},{lines}" if lines else f"{first - 1},0"


def _replaced(lines: Iterable[DiffLine]) -> Iterator[str]:
    """The old lines, then the new ones."""
    together = tuple(lines)
    yield from ("-" + sanitize(line.old) for line in together if line.old is not None and line.sign not in "+>")
    yield from ("+" + sanitize(line.new) for line in together if line.new is not None and line.sign not in "-<")
