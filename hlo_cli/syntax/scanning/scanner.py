"""The scanner: words, strings, comments, and brackets of HLO text, each found in time linear in its length.

Mirrors xla/hlo/parser/hlo_lexer.h. Every regular expression is possessive, so none backtracks.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, quoted_token

STRING: Final = r'(?:"(?:[^"\\]++|\\.)*+"|\'(?:[^\'\\]++|\\.)*+\')'
SPACE: Final = r"(?:[ \t\n\r]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n\r]*+)*+"
_SPACE = lazy_regex(SPACE)
# white space and comments, `/*…*/` and `//`, as in xla/hlo/parser/hlo_lexer.cc
_SPACE_STARTS: Final = frozenset(" \t\n\r/")
_STRING = lazy_regex(STRING, re.DOTALL)
# wider than XLA, which refuses `%1`: parts of texts that people number are still read
_NAME = lazy_regex(r"%?([A-Za-z_][A-Za-z0-9_.\-]*+|(?<=%)[A-Za-z0-9_.\-]*+)")
_WORD = lazy_regex(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_INTEGER = re.compile(r"-?[0-9]++")
_BRACKET = lazy_regex(r"[\"'()\[\]{}]|/[*/]")  # quotes and comments too: brackets inside of them do not count
_JSON_BRACKET = re.compile(r"[\"{}]")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_MOST_DIGITS: Final = 40  # 2^64 has 20 digits, and Python's int takes quadratic time; some leading zeros are allowed
STRAY: Final = {
    "#": "comments start with // or are enclosed in /* */",
    ";": "remove the character at the end of the line",
}
"""Hints on invalid characters."""


class Scanner:
    """A position in a source that moves forward over tokens; unexpected ones raise an HloError with their span."""

    __slots__ = ("end", "pos", "source", "text")

    def __init__(self, source: Source, pos: int = 0, end: int | None = None) -> None:
        self.source = source
        self.text = source.text
        self.pos = pos
        self.end = len(source.text) if end is None else end

    def skip(self) -> int:
        """Moves over white space and comments; returns the new position."""
        if self.text[self.pos : self.pos + 1] in _SPACE_STARTS and (
            match := _SPACE.match(self.text, self.pos, self.end)
        ):
            self.pos = match.end()
        return self.pos

    def at_end(self) -> bool:
        """Whether only white space and comments are left."""
        return self.skip() >= self.end

    def at(self, literal: str) -> bool:
        """Whether the next token begins with these characters."""
        return self.text.startswith(literal, self.skip(), self.end)

    def accept(self, literal: str) -> bool:
        """Moves over these characters if they come next."""
        if not self.at(literal):
            return False
        self.pos += len(literal)
        return True

    def expect(self, literal: str, where: str, *, hint: str | None = None) -> None:
        """Moves over these characters; an error if they do not come next."""
        if not self.accept(literal):
            raise self.error(f"expected '{literal}' {where}", hint=hint)

    def accept_word(self, word: str) -> bool:
        """Moves over a word if it comes next and is not the start of a longer word, nor a name before `=`."""
        match = _WORD.match(self.text, self.skip(), self.end)
        if match is None or match[0] != word:
            return False
        if _SPACE.match(self.text, match.end()) and self.text.startswith("=", _after_space(self.text, match.end())):
            return False
        self.pos = match.end()
        return True

    def word(self) -> str | None:
        """The next word, or None; moves over it."""
        return self._take(_WORD)

    def integer(self, what: str) -> int:
        """The next integer; an error if there is none."""
        digits = self._take(_INTEGER)
        if digits is None:
            raise self.error(f"expected {what}, an integer,")
        if len(digits) > 20:  # 2^64 has 20 digits; Python's int takes quadratic time for long ones
            raise self.error(beyond_64_bits(digits), self.pos - len(digits), self.pos)
        return int(digits)

    def name(self, what: str) -> str:
        """The next name without its %; an error if there is none. As in XLA, a name without % takes a colon with it."""
        match = _NAME.match(self.text, self.skip(), self.end)
        if match is None:
            raise self.error(f"expected {what}")
        self.pos = match.end() + (self.text[match.end() : match.end() + 1] == ":" and self.text[match.start()] != "%")
        return match[1]

    def string(self, what: str) -> str:
        """The next quoted string, with its quotes; an error if there is none."""
        taken = self._take(_STRING)
        if taken is None:
            unclosed = self.pos < self.end and self.text[self.pos] in "\"'"
            raise self.error("unclosed string" if unclosed else f"expected {what}, a string,")
        return taken

    def balanced(self, *, json: bool = False) -> tuple[int, int]:
        """Moves over a bracket with its contents; returns its start and end.

        In JSON only braces and double quotes count, as in XLA's dictionaries.
        """
        start, expected, pos = self.skip(), [], self.pos
        pattern = _JSON_BRACKET if json else _BRACKET
        while (match := pattern.search(self.text, pos, self.end)) is not None:
            token, pos = match[0], match.end()
            if token in _CLOSING:
                expected.append(_CLOSING[token])
            elif token in ")]}":
                if token != (closing := expected.pop() if expected else None):
                    message = f"expected '{closing}' before '{token}'" if closing else f"unmatched '{token}'"
                    raise self.error(message, match.start(), pos)
                if not expected:
                    self.pos = pos
                    return start, pos
            else:
                pos = self._end_of_quoted(match.start())
        raise self.error(f"unclosed '{self.text[start]}'", start, start + 1)

    def error(
        self, message: str, start: int | None = None, end: int | None = None, *, hint: str | None = None
    ) -> HloError:
        """An error at a span, or at the next token, which the message then gives as found."""
        if start is not None:
            return HloError(message, Span(start, end if end is not None else start + 1), source=self.source, hint=hint)
        start = self.skip()
        if self.text.startswith("/*", start, self.end):
            return HloError("unclosed comment", Span(start, start + 2), source=self.source)
        end, token = self._token()
        hint = STRAY.get(token, hint)
        message = f"{message.removesuffix(',')}, found {quoted_token(token)}"
        return HloError(message, Span(start, end), source=self.source, hint=hint)

    def _token(self) -> tuple[int, str]:
        if self.pos >= self.end:
            return self.pos, ""
        match = _WORD.match(self.text, self.pos, self.end) or _INTEGER.match(self.text, self.pos, self.end)
        end = min(match.end() if match else self.pos + 1, self.pos + 60)  # of a token that an error quotes
        return end, self.text[self.pos : end]

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.skip(), self.end)
        if match is None:
            return None
        self.pos = match.end()
        return match[0]

    def _end_of_quoted(self, start: int) -> int:
        match = (_SPACE if self.text[start] == "/" else _STRING).match(self.text, start, self.end)
        if match is None or match.end() == start:
            what = "comment" if self.text[start] == "/" else "string"
            raise self.error(f"unclosed {what}", start, start + 1)
        return match.end()


def int64(digits: str, base: int = 10) -> int | None:
    """The integer of these digits; None if it fits 64 bits neither signed nor unsigned.

    >>> int64("-12"), int64("0x1a40", 16), int64("9" * 5000)
    (-12, 6720, None)
    """
    value = int(digits, base) if len(digits) <= _MOST_DIGITS else 2**64
    return value if -(2**63) <= value < 2**64 else None


def beyond_64_bits(digits: str) -> str:
    """The message for such a number.

    >>> beyond_64_bits("9" * 5000)
    '99999999999999999999… does not fit in 64 bits'
    """
    return f"{digits if len(digits) <= _MOST_DIGITS else digits[:20] + '…'} does not fit in 64 bits"


def _after_space(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match else pos
