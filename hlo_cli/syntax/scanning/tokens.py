"""Tokens exactly as in XLA's lexer, for strict reading.

Mirrors xla/hlo/parser/hlo_lexer.h. A token's kind is its own text for signs and keywords, else one of NAME, ATTRIBUTE,
TYPE, IDENT, STRING, INT, DECIMAL, DXD, PAD, DIM_LABELS, END and ERROR.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.notation import end_of_dictionary
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, quoted_token
from hlo_cli.syntax.scanning.scanner import STRAY, Scanner

NAME: Final = "a name"
ATTRIBUTE: Final = "a name and '='"
TYPE: Final = "a type"
IDENT: Final = "a word"
STRING: Final = "a string"
INT: Final = "an integer"
DECIMAL: Final = "a decimal number"
DXD: Final = "sizes such as 2x3"
PAD: Final = "padding such as 0_0x1_1"
DIM_LABELS: Final = "dimension labels such as b0f_0io->b0f"
END: Final = "end of input"
ERROR: Final = "no token"

KEYWORDS: Final = frozenset(
    """true false inf HloModule ENTRY ROOT FileLocations FileNames FunctionNames StackFrames maximal replicated manual
    last_tile_dim_replicate shard_as shard_like unknown unreduced""".split()
)
"""Reserved words, which cannot be bare names."""

_LONGEST: Final = 300
"""The most characters of a text in messages; names and shapes may have any length."""
_TYPES: Final = frozenset((*PRIMITIVE_TYPES, "token", "opaque"))
_LABELS: Final = r"[0-9bf?]{2,}+_[0-9io?]{2,}+->[0-9bf?]{2,}+"
_TOKEN: Final = re.compile(
    rf"""[ \t\n\r]*+(?:
    ([A-Za-z_][A-Za-z0-9_.\-]*+)([:=]?+)                                          # 1 word, 2 what it takes with it
    |%([A-Za-z_][A-Za-z0-9_.\-]*+)                                                # 3 name
    |("(?:[^"\\]++|\\[^\n])*+"|'(?:[^'\\]++|\\[^\n])*+')                          # 4 string
    |(?=[0-9\-])(-?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)[eE][+\-]?+[0-9]++|[0-9]++\.[0-9]*+|\.[0-9]++))   # 5 decimal
    |({_LABELS})                                                                  # 6 dimension labels
    |([0-9]++(?:x[0-9]++)++)                                                      # 7 DxD
    |(-?+[0-9]++_-?+[0-9]++(?:_[0-9]++)?+(?:x-?+[0-9]++_-?+[0-9]++(?:_[0-9]++)?+)*+)   # 8 pad
    |(-?+[0-9]++)                                                                 # 9 int
    |(->|<=|\.\.\.|[=,:*?\#+~\[\]{{}}()])                                         # 10 sign
    |(-inf|-nan))                                                                 # 11
    """,
    re.VERBOSE,
)
_KINDS: Final = (ERROR, IDENT, IDENT, NAME, STRING, DECIMAL, DIM_LABELS, DXD, PAD, INT, ERROR, DECIMAL)
_DIM_LABELS: Final = re.compile(_LABELS)
_PAYLOAD: Final = re.compile(r"\(0x([0-9a-fA-F]++)\)")
_LARGEST_PAYLOAD: Final = 2**52 - 1
_ESCAPED: Final = lazy_regex(
    r"(?:[^\\]++|\\(?:[abfnrtv\\?'\"]|[0-3][0-7]{0,2}+|[4-7][0-7]?+(?![0-7])|x0*+[0-9a-fA-F]{0,2}+(?<!x)(?![0-9a-fA-F])"
    r"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|U00(?:0(?!0[dD][89a-fA-F])[0-9a-fA-F]|10)[0-9a-fA-F]{4}))*+"
)
"""The contents of a string: only escapes that `absl::CUnescape` accepts, and no byte above 255."""


class Tokens:
    """The tokens of a text from an offset on: `kind`, `text`, `start`, and `end` are those of the current one."""

    __slots__ = ("_scanner", "end", "kind", "previous_end", "source", "start", "text")

    def __init__(self, source: Source, pos: int = 0, end: int | None = None) -> None:
        self.source = source
        self._scanner = Scanner(source, pos, end)
        self.kind = self.text = ""
        self.start = self.end = self.previous_end = pos
        self.advance()

    def advance(self) -> None:
        """Moves to the next token."""
        scanner, end = self._scanner, self.end
        self.previous_end = end
        match = _TOKEN.match(scanner.text, end, scanner.end)
        if match is None:
            scanner.pos = end
            self.start = start = scanner.skip()
            match = _TOKEN.match(scanner.text, start, scanner.end)
            if match is None:
                self.kind, self.text = (END, "") if start >= scanner.end else (ERROR, scanner.text[start : start + 1])
                self.end = min(start + 1, scanner.end)
                return
        group = match.lastindex or 0
        self.end, self.text = match.end(), match[group]
        if group == 2:
            self.start = match.start(1)
            self._word(match[1], match[2])
            return
        self.start = match.start(group)
        if group == 10:
            self.kind = self.text
        else:
            self.kind = _KINDS[group]
            if group in (4, 9, 11):
                self._check(group)

    @property
    def gap(self) -> str:
        """The text between the previous token and the current one."""
        return self._scanner.text[self.previous_end : self.start]

    def move(self, pos: int) -> None:
        """Makes the first token at or after an offset the current one."""
        self.end = pos
        self.advance()

    def peek(self) -> str:
        """The kind of the token after the current one."""
        return Tokens(self.source, self.end, self._scanner.end).kind

    def accept(self, kind: str) -> bool:
        """Moves over the current token if it is of this kind."""
        if self.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, where: str = "", *, hint: str | None = None) -> str:
        """Moves over the current token and returns its text; an error if it is not of this kind."""
        if self.kind != kind:
            self.fail(f"expected {kind if ' ' in kind else repr(kind)} {where}".rstrip(), hint=hint)
        text = self.text
        self.advance()
        return text

    def integer(self, where: str = "") -> int:
        """The integer that comes next, as an int64 of XLA."""
        value = int(self.expect(INT, where))
        return value - 2**64 if value >= 2**63 else value

    def json(self) -> str:
        """Moves over a dictionary, which begins at the current brace; only braces and double quotes count in it."""
        start, text = self.start, self._scanner.text
        end = end_of_dictionary(text, start, self._scanner.end)
        if end is None:
            self.fail("unclosed dictionary", start)
        self.move(end)
        return text[start:end]

    def scanner(self) -> Scanner:
        """A scanner at the current token, for the lenient readers that agree with XLA; `move` to where it stops."""
        return Scanner(self.source, self.start, self._scanner.end)

    def fail(
        self, message: str, start: int | None = None, end: int | None = None, *, hint: str | None = None
    ) -> NoReturn:
        """Raises an error at a span, or at the current token, which the message then gives as found."""
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        if start is None:
            if (opened := self._unclosed()) is not None:
                raise HloError(f"unclosed {opened}", Span(self.start, self.end), source=self.source)
            found = quoted_token("" if self.kind == END else self.text[:60])
            hint = STRAY.get(self.text, hint)
            raise HloError(
                f"{message.removesuffix(',')}, found {found}", Span(self.start, self.end), source=self.source, hint=hint
            )
        raise HloError(message, Span(start, end if end is not None else start + 1), source=self.source, hint=hint)

    def _unclosed(self) -> str | None:
        """The unclosed string or comment at the current token, or None."""
        if self.kind != ERROR:
            return None
        if self.text in "\"'":
            return "string"
        return "comment" if self._scanner.text.startswith("/*", self.start) else None

    def _word(self, word: str, mark: str) -> None:
        self.text = word
        if mark:
            self.kind = NAME if mark == ":" else ATTRIBUTE
        elif word in _TYPES:
            self.kind = TYPE
        elif word == "nan":
            self.kind = DECIMAL
            self._payload()
        elif word in KEYWORDS:
            self.kind = word
        elif word[0] in "bf" and (match := _DIM_LABELS.match(self._scanner.text, self.start, self._scanner.end)):
            self.kind, self.text, self.end = DIM_LABELS, match[0], match.end()
        else:
            self.kind = IDENT

    def _check(self, group: int) -> None:
        """Checks beyond regular expressions: invalid escapes, numbers beyond 64 bits, payloads of NaN."""
        text = self.text
        if text == "-nan":
            self._payload()
            return
        if group == 4:
            holds = "\\" not in text or _ESCAPED.fullmatch(text, 1, len(text) - 1) is not None
        else:
            holds = group == 11 or (len(text) < 25 and -(2**63) <= int(text) < 2**64)
        if not holds:
            self.kind = ERROR

    def _payload(self) -> None:
        if self._scanner.text.startswith("(", self.end, self._scanner.end):
            match = _PAYLOAD.match(self._scanner.text, self.end, self._scanner.end)
            if match is None or len(match[1]) > 20 or not 0 < int(match[1], 16) <= _LARGEST_PAYLOAD:
                self.kind = ERROR
                return
            self.text, self.end = self.text + match[0], match.end()
