"""Texts without whitespace, in which messages are found however their lines were broken."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.syntax.compiler_files.byte_texts import BYTES
from hlo_cli.syntax.compiler_files.names import NUMBER

_TOKEN = re.compile(r"(?:[^\s*`]|(?<!\*)\*(?!\*))++")
_BLANKS = re.compile(r"(?:\s|\\n)++")
_NAMES: Final = {"BYTES": BYTES, "NUMBER": NUMBER, "MANY": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,6}}+|{BYTES})"}
_NAME = re.compile(r"<(BYTES|NUMBER|MANY)>")


def squeezed_pattern(text: str) -> str:
    """A regular expression for texts without whitespace, from one that is written with blanks for reading.

    `<BYTES>` is a size, `<NUMBER>` digits, `<MANY>` a size or digits with thousands separators.

    >>> re.fullmatch(squeezed_pattern("out of (<BYTES>) left"), "outof1.5Gleft")[1]
    '1.5G'
    """
    return _NAME.sub(lambda found: _NAMES[found[1]], text.replace(" ", ""))


@dataclass(frozen=True, slots=True)
class Squeezed:
    """A text without whitespace, backticks, and double asterisks; offsets lead back to the text."""

    source: str
    text: str
    _starts: tuple[int, ...]
    _origins: tuple[int, ...]

    def origin(self, offset: int) -> int:
        """The offset in the source of a character; after the last one, the end of the source.

        >>> squeeze("a b c").origin(2), squeeze("a b c").origin(3)
        (4, 5)
        """
        if offset >= len(self.text):
            return len(self.source)
        token = bisect_right(self._starts, offset) - 1
        return self._origins[token] + offset - self._starts[token]

    def end_origin(self, end: int) -> int:
        """The offset in the source after the last character before `end`."""
        return self.origin(end - 1) + 1 if end > 0 else 0

    def index_of(self, origin: int) -> int:
        """The number of characters of this text before an offset of the source.

        >>> squeeze("a  b c").index_of(2), squeeze("a  b c").index_of(4)
        (1, 2)
        """
        token = bisect_right(self._origins, origin - 1) - 1
        if token < 0:
            return 0
        after = self._starts[token + 1] if token + 1 < len(self._starts) else len(self.text)
        return min(self._starts[token] + origin - self._origins[token], after)

    def words(self, start: int, end: int) -> str:
        r"""The source between two offsets of this text, on one line.

        >>> squeeze("a  b\n c").words(0, 3)
        'a b c'
        """
        return one_line(self.source[self.origin(start) : self.end_origin(end)]) if start < end else ""

    def first_word(self, start: int, end: int) -> str:
        """The part up to the first whitespace in the source, which may be shorter than a match without it."""
        return self.words(start, end).partition(" ")[0]


def squeeze(text: str) -> Squeezed:
    """A text without whitespace.

    >>> squeeze("out of `memory`").text
    'outofmemory'
    """
    pieces, starts, origins, at = [], [], [], 0
    for token in _TOKEN.finditer(text):
        pieces.append(token[0])
        starts.append(at)
        origins.append(token.start())
        at += token.end() - token.start()
    return Squeezed(text, "".join(pieces), tuple(starts), tuple(origins))


def one_line(text: str) -> str:
    r"""A text with one blank for each stretch of whitespace and for line breaks written as `\n`.

    >>> one_line(" a\n  b")
    'a b'
    """
    return _BLANKS.sub(" ", text).strip()
