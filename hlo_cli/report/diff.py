"""In which lines, and in which words of a line, do two texts differ?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, replace
from itertools import accumulate
from typing import ClassVar, Final, Literal, TypeAlias

from hlo_cli.alignment import Pair, aligned
from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Row, Table

# --- the diff as a part of a report ---
# Common and changed lines of two texts, and the changed words within a line.


Sign = Literal[" ", "~", "+", "-", ">", "<"]
"""Unchanged, changed, added, removed, moved to here, moved away from here."""

SIGNS: Final[dict[Sign, str]] = {"~": "changed", "+": "added", "-": "removed", ">": "moved"}
"""The signs that count as changes, with their names; a moved line counts once, at its new position."""

_WORDS: Final = re.compile(r"(?<=\{)[^{}\s]+(?=\})|(?<=\[)[^\[\]\s]+(?=\])|%?[\w.\-]+|\s+|.", re.DOTALL)
_JOINTS: Final = frozenset(".,:=-")  # changes on both sides of one of them read as one change
_COLUMNS: Final = (
    Column("change", "", "change"),
    Column("old_line", "old", "line"),
    Column("new_line", "new", "line"),
    Column("computation", "computation", "name"),
    Column("old", "old"),
    Column("new", "new"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The old and the new text of a piece of a line: equal if unchanged, empty on a side that does not have it.

    >>> Piece("0,1", "1,0").is_changed
    True
    """

    old: str
    new: str

    @property
    def is_changed(self) -> bool:
        """Whether the old and the new text differ."""
        return self.old != self.new


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: its old and new text, None on a side that does not have it, and its line numbers, from 1.

    A moved line has both sides, also at its old position.

    >>> line = DiffLine("~", "%a = f32[8]{0} copy(%p)", "%a = f32[16]{0} copy(%p)", 3, 3)
    >>> [piece for piece in line.pieces if piece.is_changed]
    [Piece(old='8', new='16')]
    """

    sign: Sign
    old: str | None
    new: str | None
    old_line: int | None = None
    new_line: int | None = None

    @property
    def text(self) -> str:
        """The new text, or the old text of a removed line."""
        return (self.old if self.new is None else self.new) or ""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The line in changed and unchanged pieces."""
        if self.old is None or self.new is None or self.old == self.new:
            return (Piece(self.text, self.text),)
        return pieces_of(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Consecutive lines: changes and their context.

    `heading` names the enclosing block, such as a computation; `folded` is the number of unchanged lines omitted
    before the hunk. Lines are in the order of the new text; removed lines are at their old position.

    >>> Hunk((DiffLine("+", None, "a", None, 7),), "main.17").heading
    'main.17'
    """

    lines: tuple[DiffLine, ...]
    heading: str = ""
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Diff:
    """The hunks in which two texts differ, `folded` unchanged lines after the last, and the names of the texts.

    A screen shows `limit` changed lines by default; `noun` is the name of the changed items.

    >>> line = DiffLine("+", None, "%a = f32[] copy(%p)", None, 7)
    >>> diff = Diff("text", (Hunk((line,), "main"),), folded=5)
    >>> diff.as_table().rows, diff.unchanged
    ((('+', None, 7, 'main', None, '%a = f32[] copy(%p)'),), 5)
    """

    kind: ClassVar[Literal["diff"]] = "diff"
    name: str
    hunks: tuple[Hunk, ...]
    _: KW_ONLY
    folded: int = 0
    old_name: str = "old"
    new_name: str = "new"
    title: str = ""
    noun: str = "changed lines"
    limit: int = ROWS_FOR_A_PERSON

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of changed, added, removed, and moved lines.

        >>> Diff("text", ()).counts
        {'changed': 0, 'added': 0, 'removed': 0, 'moved': 0}
        """
        found = Counter(line.sign for hunk in self.hunks for line in hunk.lines)
        return {word: found[sign] for sign, word in SIGNS.items()}

    @property
    def changes(self) -> int:
        """The total number of changed lines."""
        return sum(self.counts.values())

    @property
    def unchanged(self) -> int:
        """The number of unchanged lines, including omitted ones."""
        seen = sum(line.sign == " " for hunk in self.hunks for line in hunk.lines)
        return seen + self.folded + sum(hunk.folded for hunk in self.hunks)

    @property
    def seen(self) -> Diff:
        """The diff without the old positions of moved lines, for readers who see the new ones.

        >>> away, here = DiffLine("<", "b", "b", 1, 9), DiffLine(">", "b", "b", 1, 9)
        >>> Diff("text", (Hunk((away, DiffLine(" ", "a", "a", 2, 1))), Hunk((here,), folded=7))).seen.hunks
        (Hunk(lines=(DiffLine(sign='>', old='b', new='b', old_line=1, new_line=9),), heading='', folded=8),)
        """
        hunks: list[Hunk] = []
        folded = 0
        for hunk in self.hunks:
            lines = tuple(line for line in hunk.lines if line.sign != "<")
            folded += hunk.folded
            if any(line.sign in SIGNS for line in lines):
                hunks.append(Hunk(lines, hunk.heading, folded))
                folded = 0
            else:
                folded += len(lines)
        return replace(self, hunks=tuple(hunks), folded=folded + self.folded)

    def first(self, most: int) -> Diff:
        """The diff up to the first `most` changes; itself if it has no more.

        >>> Diff("text", (Hunk((DiffLine("+", None, "a", None, 1),) * 30),)).first(20).changes
        20
        """
        if most >= self.changes:
            return self
        hunks: list[Hunk] = []
        for hunk in self.hunks if most else ():
            hunks.append(replace(hunk, lines=tuple(_first(hunk.lines, most))))
            most -= sum(line.sign in SIGNS for line in hunks[-1].lines)
            if not most:
                break
        return replace(self, hunks=tuple(hunks), folded=0)

    def as_table(self) -> Table:
        """One row for each change."""
        rows: tuple[Row, ...] = tuple(
            (line.sign, line.old_line, line.new_line, hunk.heading or None, line.old, line.new)
            for hunk in self.hunks
            for line in hunk.lines
            if line.sign in SIGNS
        )
        return Table(self.name, _COLUMNS, rows, title=self.title, noun=self.noun, main=False, limit=self.limit)


def _first(lines: Iterable[DiffLine], most: int) -> Iterator[DiffLine]:
    """The lines up to change number `most`."""
    for line in lines:
        if not most:
            return
        most -= line.sign in SIGNS
        yield line


def pieces_of(old: str, new: str) -> tuple[Piece, ...]:
    """Two lines in pieces of whole words; a dimension order or a list of sizes is one word.

    >>> for piece in pieces_of("d = f32[8,16]{0,1} dot(a, b)", "d = f32[8,16]{1,0:T(8,128)} dot(a, b)"): print(piece)
    Piece(old='d = f32[8,16]{', new='d = f32[8,16]{')
    Piece(old='0,1', new='1,0:T(8,128)')
    Piece(old='} dot(a, b)', new='} dot(a, b)')
    """
    words, new_words = _WORDS.findall(old), _WORDS.findall(new)
    pieces: list[Piece] = []
    at = new_at = 0
    for next_at, next_new in [*aligned(words, new_words), (len(words), len(new_words))]:
        _extend(pieces, Piece("".join(words[at:next_at]), "".join(new_words[new_at:next_new])))
        _extend(pieces, Piece("".join(words[next_at : next_at + 1]), "".join(new_words[next_new : next_new + 1])))
        at, new_at = next_at + 1, next_new + 1
    return tuple(pieces)


def _extend(pieces: list[Piece], piece: Piece) -> None:
    """Adds a piece; merges it into the previous one if both are of one kind, or only a separator is between them."""
    if not (piece.old or piece.new):
        return
    if len(pieces) > 1 and piece.is_changed and pieces[-2].is_changed and pieces[-1].new in _JOINTS:
        piece = Piece(pieces[-1].old + piece.old, pieces.pop().new + piece.new)
    if pieces and pieces[-1].is_changed == piece.is_changed:
        piece = Piece(pieces[-1].old + piece.old, pieces.pop().new + piece.new)
    pieces.append(piece)


# --- the diff of lines ---
# The diff of two texts, computed from their lines.


Named: TypeAlias = Callable[[str], str | None]
CONTEXT: Final = 3  # as in diff -u and git


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
