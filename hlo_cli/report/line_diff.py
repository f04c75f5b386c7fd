"""The diff of two texts, computed from their lines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from hlo_cli.alignment import Pair, aligned
from hlo_cli.report.diff import Diff, DiffLine, Hunk, Sign

Named: TypeAlias = Callable[[str], str | None]
CONTEXT: Final = 3


def line_diff(
    name: str,
    old: Sequence[str],
    new: Sequence[str],
    *,
    key: Named = lambda line: None,
    heading: Named = lambda line: None,
    context: int = CONTEXT,
    old_name: str = "old",
    new_name: str = "new",
) -> Diff:
    """The diff of two sequences of lines, with `context` unchanged lines around changes.

    Lines with the same `key`, such as the name of an instruction, are one line that changed or moved; a line
    without a key is added or removed, or moved if its text is unique. `heading` returns the name of the block that a
    line begins, such as a computation.

    >>> old, new = ["a = 1", "b = 2", "c = 3", "d = 4"], ["b = 2", "c = 5", "a = 1", "e = 6"]
    >>> for hunk in line_diff("text", old, new, key=lambda line: line[0]).hunks:
    ...     for line in hunk.lines: print(line.sign, line.old_line, line.new_line, line.text)
    < 1 3 a = 1
      2 1 b = 2
    ~ 3 2 c = 5
    - 4 None d = 4
    > 1 3 a = 1
    + None 4 e = 6
    """
    same = aligned(old, new)
    changed = _by_key(old, new, same, key)
    moved = _moved(old, new, sorted(same + changed), key)
    lines = tuple(_merged(old, new, sorted(same + changed), moved))
    headings = _headings(old, heading), _headings(new, heading)
    hunks, folded = _hunks(lines, headings, context)
    return Diff(name, hunks, folded=folded, old_name=old_name, new_name=new_name)


def _by_key(old: Sequence[str], new: Sequence[str], same: Sequence[Pair], key: Named) -> list[Pair]:
    """Changed lines: pairs with the same key between unchanged lines."""
    found: list[Pair] = []
    at = new_at = 0
    for next_at, next_new in [*same, (len(old), len(new))]:
        if at < next_at and new_at < next_new:
            keys = [_key_or_none(old[place], key, 0, place) for place in range(at, next_at)]
            new_keys = [_key_or_none(new[place], key, 1, place) for place in range(new_at, next_new)]
            found += [(at + here, new_at + there) for here, there in aligned(keys, new_keys)]
        at, new_at = next_at + 1, next_new + 1
    return found


def _key_or_none(line: str, key: Named, side: int, place: int) -> Hashable:
    """The key, or a unique value if the line has none."""
    found = key(line)
    return (side, place) if found is None else found


def _moved(old: Sequence[str], new: Sequence[str], stays: Sequence[Pair], key: Named) -> list[Pair]:
    """Moved lines: pairs whose key, or text, occurs exactly once among removed and once among added lines."""
    kept, new_kept = {pair[0] for pair in stays}, {pair[1] for pair in stays}
    gone = _single((at, old[at]) for at in range(len(old)) if at not in kept)
    come = _single((at, new[at]) for at in range(len(new)) if at not in new_kept)
    found = {place: come[text] for text, place in gone.items() if text in come}
    taken = set(found.values())
    gone = _single((at, each) for text, at in gone.items() if at not in found and (each := key(text)) is not None)
    come = _single((at, each) for text, at in come.items() if at not in taken and (each := key(text)) is not None)
    return [*found.items(), *((place, come[each]) for each, place in gone.items() if each in come)]


def _single(places: Iterable[tuple[int, str]]) -> dict[str, int]:
    """The position of each text that occurs exactly once."""
    found: dict[str, int] = {}
    several: set[str] = set()
    for place, text in places:
        if text in found:
            several.add(text)
        found[text] = place
    return {text: place for text, place in found.items() if text not in several}


def _merged(old: Sequence[str], new: Sequence[str], stays: Sequence[Pair], moved: Sequence[Pair]) -> Iterator[DiffLine]:
    """All lines of both texts; between two unmoved lines, removed lines come before added ones."""
    went, came = dict(moved), {there: here for here, there in moved}
    at = new_at = 0
    for next_at, next_new in [*stays, (len(old), len(new))]:
        for here in range(at, next_at):
            there = went.get(here)
            if there is None:
                yield DiffLine("-", old[here], None, here + 1, None)
            else:
                yield DiffLine("<", old[here], new[there], here + 1, there + 1)
        for there in range(new_at, next_new):
            origin = came.get(there)
            if origin is None:
                yield DiffLine("+", None, new[there], None, there + 1)
            else:
                yield DiffLine(">", old[origin], new[there], origin + 1, there + 1)
        if next_at < len(old) and next_new < len(new):
            sign: Sign = " " if old[next_at] == new[next_new] else "~"
            yield DiffLine(sign, old[next_at], new[next_new], next_at + 1, next_new + 1)
        at, new_at = next_at + 1, next_new + 1


def _headings(lines: Sequence[str], heading: Named) -> list[str]:
    """For each line, the last heading up to it."""
    return list(accumulate(lines, lambda last, line: heading(line) or last, initial=""))[1:]


def _hunks(
    lines: Sequence[DiffLine], headings: tuple[Sequence[str], Sequence[str]], context: int
) -> tuple[tuple[Hunk, ...], int]:
    """The lines near changes as hunks, and the number of lines after the last."""
    hunks: list[Hunk] = []
    changed = [at for at, line in enumerate(lines) if line.sign != " "]
    end = 0
    for first, last in _stretches(changed, 2 * context):
        begin, stop = max(first - context, end), min(last + context + 1, len(lines))
        hunks.append(Hunk(tuple(lines[begin:stop]), _heading(lines[first], *headings), begin - end))
        end = stop
    return tuple(hunks), len(lines) - end


def _heading(line: DiffLine, old: Sequence[str], new: Sequence[str]) -> str:
    if line.sign in "-<" and line.old_line is not None:
        return old[line.old_line - 1]
    return new[line.new_line - 1] if line.new_line is not None else ""


def _stretches(places: Sequence[int], between: int) -> Iterator[Pair]:
    """Groups positions with at most `between` others between neighbors; yields first and last."""
    first = 0
    for at, place in enumerate(places):
        if at + 1 == len(places) or places[at + 1] - place > between + 1:
            yield places[first], place
            first = at + 1
