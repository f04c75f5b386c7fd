"""Which message of JAX, or of a library on it, is a text, and what stands in its holes?

`message_index.txt` has a row for each message that jax, jaxlib, flax, optax, orbax, equinox, chex, and haiku raise or
warn of (`tests/make_message_index.py` makes it from their sources): the family, the system, the function, and the words
as hashes of two characters with holes between them, so that it has no sentence of theirs. A text is a message of the
index if all words of a row follow each other in it; what is between them are the values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final
from zlib import crc32

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

# --- rows ---

WORD: Final = re.compile(r"\w+")
_DIGITS: Final = "0123456789BCDFGHJKLMNPQRSTVWXZbcdfghjklmnpqrstvwxz!#$%&+-/:;<=>?"
"""64 characters without vowels, so that no hash is a word."""
HOLE: Final = "*"
"""What begins a hole; the character after it is its role."""
LEAST_WORDS: Final = 4
"""Words that a row has at least: with fewer, texts of other systems have them, too."""
MOST_WORDS: Final = 16
"""Words of a message that are kept: its first ones tell it from all others."""
SYSTEMS: Final = {
    "j": "JAX",
    "p": "Pallas",
    "f": "Flax",
    "t": "Optax",
    "o": "Orbax",
    "e": "Equinox",
    "c": "Chex",
    "h": "Haiku",
}
"""The letters of a row's system."""
ROLES: Final = {
    "s": "shape",
    "t": "type",
    "a": "axis",
    "n": "rank",
    "c": "count",
    "N": "name",
    "h": "sharding",
    "p": "tree",
    "v": "value",
}
"""The letters of what stands in a hole."""


def word_hash(word: str) -> str:
    """The two characters of a word: 4,096 values are enough, as four words or more follow each other in a row.

    >>> word_hash("shape") == word_hash("Shape"), len(word_hash("shape"))
    (True, 2)
    """
    value = crc32(word.lower().encode())
    return _DIGITS[value & 63] + _DIGITS[(value >> 6) & 63]


def row_text(family: str, system: str, words: Sequence[str], anchor: int, function: str) -> str:
    """A row of the file; `anchor` is the place of the two words that are the rarest of the row.

    >>> row_text("ax", "j", ["01", "23", "*a"], 0, "rev")
    'axj00123*a rev'
    """
    return f"{family}{system}{_DIGITS[anchor]}{''.join(words)} {function}".rstrip()


@cache
def _rows_by_anchor() -> dict[str, list[str]]:
    """The rows by their rarest two words that follow each other."""
    text = (files("hlo_cli") / "syntax" / "compiler_messages" / "message_index.txt").read_text("ascii")
    found: dict[str, list[str]] = {}
    for row in text.splitlines():
        at = _FIRST_WORD + 2 * _DIGITS.index(row[_ANCHOR])
        found.setdefault(row[at : at + 4], []).append(row)
    return found


_ANCHOR: Final = 3  # a family has two characters, a system one
_FIRST_WORD: Final = 4  # after the place of the anchor

# --- texts ---


@dataclass(frozen=True, slots=True)
class IndexedMessage:
    """A message of the index in a text: its family, system, and function, the values in its holes with their roles, and
    how many words tell that it is this one.

    >>> text = "rev dimensions must all be less than operand ndim, got dimensions (2,) for operand ndim 1."
    >>> found = indexed_message(text)
    >>> found.family, found.system, found.holes
    ('ax', 'JAX', (('axis', '(2,)'), ('rank', '1')))
    """

    family: str
    system: str
    function: str
    holes: tuple[tuple[str, str], ...]
    words: int


_MOST_IN_HOLE: Final = 60
"""Words of one value; a tree of parameters has more, which a message quotes last."""
_MOST_TEXT: Final = 4000
"""Characters of a text that are compared: a message of JAX with its values."""
_MOST_IN_VALUE: Final = 200
"""Characters of a value that are kept."""
_PYTEST: Final = lazy_regex(r"^E {1,8}", re.MULTILINE)
"""What pytest writes before each line of an exception; a blank line of the same length keeps offsets."""


def indexed_message(text: str) -> IndexedMessage | None:
    """The message of the index that is in the begin of a text; None if there is none.

    Of several rows, that with the most words.
    """
    text = _PYTEST.sub(lambda match: " " * len(match[0]), text[:_MOST_TEXT])
    spans = [match.span() for match in WORD.finditer(text)]
    hashes = [word_hash(text[start:end]) for start, end in spans]
    rows = _rows_by_anchor()
    best, words = "", LEAST_WORDS - 1
    holes: list[tuple[str, int, int]] = []
    for at in range(len(hashes) - 1):
        for row in rows.get(hashes[at] + hashes[at + 1], ()):
            sequence = row.partition(" ")[0][_FIRST_WORD:]
            parts = [sequence[index : index + 2] for index in range(0, len(sequence), 2)]
            count = len(parts) - sequence.count(HOLE)
            if count > words and (found := _aligned_around(parts, _DIGITS.index(row[_ANCHOR]), hashes, at)) is not None:
                best, words, holes = row, count, found
    if not best:
        return None
    values = tuple((ROLES[role], _value(text, spans, first, last)) for role, first, last in holes)
    kept = tuple(each for each in values if each[1])
    return IndexedMessage(best[:2], SYSTEMS[best[2]], best.partition(" ")[2], kept, words)


def _aligned_around(parts: list[str], anchor: int, hashes: list[str], at: int) -> list[tuple[str, int, int]] | None:
    """The holes of a row whose anchor is at a word of a text, as role and range of words; None if a word differs."""
    after = _aligned(parts[anchor:], hashes, at, set())
    if after is None:
        return None
    before = _aligned(parts[:anchor][::-1], hashes[:at][::-1], 0, set())
    if before is None:
        return None
    return [*((role, at - last, at - first) for role, first, last in reversed(before)), *after]


def _aligned(
    parts: list[str], hashes: list[str], at: int, failed: set[tuple[int, int]]
) -> list[tuple[str, int, int]] | None:
    """The holes between words that follow each other from a place on; `failed` are the ends that were tried."""
    found = list[tuple[str, int, int]]()
    for index, part in enumerate(parts):
        if part[0] != HOLE:
            if at >= len(hashes) or hashes[at] != part:
                return None
            at += 1
            continue
        if index + 1 == len(parts):
            return [*found, (part[1], at, len(hashes))]
        for end in range(at, min(at + _MOST_IN_HOLE, len(hashes))):
            if hashes[end] == parts[index + 1] and (len(parts) - index, end) not in failed:
                rest = _aligned(parts[index + 1 :], hashes, end, failed)
                if rest is not None:
                    return [*found, (part[1], at, end), *rest]
                failed.add((len(parts) - index, end))
        return None
    return found


def _value(text: str, spans: list[tuple[int, int]], first: int, last: int) -> str:
    """What is between the words before and after a hole, without punctuation; the last ends with its line."""
    start = spans[first - 1][1] if first else 0
    end = spans[last][0] if last < len(spans) else len(text)
    value = text[start:end].strip(" \n\t,;:='\"`")[:_MOST_IN_VALUE]
    if last >= len(spans):
        value = value.partition("\n")[0].partition(". ")[0].partition("; ")[0]
    return value.rstrip(".,:; ") if value.count("(") >= value.count(")") else value.rstrip(".,:; )")
