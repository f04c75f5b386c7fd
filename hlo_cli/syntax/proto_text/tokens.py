"""Tokens of protobuf's text format. Mirrors google/protobuf/io/tokenizer.cc, and reads its JSON too.

All expressions take linear time on any text.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, Source, Span, quoted_token
from hlo_cli.syntax.scanning.error_recovery import MAX_ERRORS

BLANK: Final = r"(?:[\s,;]++|#[^\n]*+)*+"
"""What may be between fields."""
START: Final = rf"(?:\s*+goo\.gle/debug[a-z]++)?+{BLANK}"
"""What may be before the first field, such as the mark of new versions of protobuf for a text that only people read."""

_SPACE: Final = r"(?:\s++|#[^\n]*+)*+"
_FLAT: Final = r"""[^{}"'#]*+(?:"[^"\\\n]*+"[^{}"'#]*+)*+"""
_PLAIN: Final = r"-?[A-Za-z0-9_.][A-Za-z0-9_.+\-]*+(?![^\s,;}>\]#])"
STATEMENT: Final = lazy_regex(
    rf"""{BLANK}(?:"?([A-Za-z0-9_]++)"?\s*+(?::[ ]?+({_PLAIN}|"[^"\\\n]*+"(?!\s*+["'#]))|:?\s*+([{{<]))"""
    r"|([{}<\]]|>(?!>>)))"
)
"""A field with a plain value; a field that begins a message; a bracket. The group that matched last tells which."""
NAME: Final = lazy_regex(rf"""{BLANK}(?:"([^"\\\n]*+)"|([A-Za-z0-9_]++)|\[[\w./\s]*+\])""")
"""The name of a field: of JSON in quotes, of an extension in brackets."""
FIELD: Final = lazy_regex(rf"{BLANK}(?:[A-Za-z0-9_]++|\"[^\"\n]*+\"){_SPACE}(?:[:{{<]|\Z)")
"""What begins like a field, or may if the text ended later."""
COLON: Final = lazy_regex(rf"{_SPACE}(:)?{_SPACE}")
ELEMENT: Final = lazy_regex(rf"{BLANK}({_PLAIN})")
"""A plain value in a list."""
BLOCK: Final = lazy_regex(rf"{_FLAT}(?:\{{{_FLAT}(?:\{{{_FLAT}\}}{_FLAT})*+\}}{_FLAT})*+\}}")
"""A message up to its closing bracket, if it is short and simple; messages such as shapes recur often."""
_FIRST: Final = lazy_regex(START)

_VALUE: Final = lazy_regex(r"""-\s*+[\w.]++|[\w.][\w.+\-]*+|"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'""")
_NEXT_PART: Final = lazy_regex(rf"""{_SPACE}(?=["'])""")
_SKIPPED: Final = lazy_regex(BLANK)
_WORD: Final = lazy_regex(r"[\w.+\-]++|\S")
_LONGEST_WORD: Final = 50


class Stop(Exception):
    """Ends the reading of a text after an error that was recorded."""


class Cut(Stop):
    """Ends the reading of a text that ends too early."""


@dataclass(slots=True, eq=False)
class Tokens:
    """The values of a text from a place on, and the errors so far; `last` is the end of the last value."""

    source: Source
    at: int = 0
    last: int = 0
    errors: list[Diagnostic] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """The next character; empty at the end."""
        return self.source.text[self.at : self.at + 1]

    def begin(self, start: int) -> None:
        """Moves to an offset, and over what may be before the first field."""
        first = _FIRST.match(self.source.text, start)
        self.at = first.end() if first else start

    def skip(self) -> None:
        """Moves over what may be between fields."""
        skipped = _SKIPPED.match(self.source.text, self.at)
        self.at = skipped.end() if skipped else self.at

    def value(self, name: str) -> list[str]:
        """The value of a field; of a string, all its parts."""
        parts: list[str] = []
        text = self.source.text
        while True:
            found = _VALUE.match(text, self.at)
            if found is None:
                raise self.unexpected(f"expected a value for {name}")
            self.at = self.last = found.end()
            parts.append(found[0])
            if found[0][0] not in "\"'":
                break
            more = _NEXT_PART.match(text, self.at)
            if more is None:
                return parts
            self.at = more.end()
        return ["".join(parts[0].split())] if parts[0][0] == "-" else parts

    def unexpected(self, expected: str) -> Stop:
        """The end of reading, at something else than what is expected."""
        self.skip()
        text = self.source.text
        found = _WORD.match(text, self.at)
        if found is None:
            return Cut()
        if found[0] in ('"', "'"):
            line_end = text.find("\n", self.at)
            if line_end < 0 or not text[line_end:].strip():
                return Cut()
            return self.fail("unterminated string", self.at, line_end)
        return self.fail(f"{expected}, found {quoted_token(found[0][:_LONGEST_WORD])}", self.at, found.end())

    def fail(self, message: str, start: int, end: int) -> Stop:
        """The end of reading, with an error."""
        self.report(message, start, end)
        return Stop()

    def report(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        """Records an error; too many end the reading."""
        self.errors.append(Diagnostic("error", message, self.source, Span(start, end), hint))
        if len(self.errors) >= MAX_ERRORS:
            raise Stop
