"""Texts and places in them: sources, spans, errors, and diagnostics, shared by parser, lint, and command line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import KW_ONLY, field, replace
from itertools import islice
from types import UnionType
from typing import Final, Literal, NamedTuple, Self

from hlo_cli._version import __version__
from hlo_cli.dataclass import brief, brief_count, brief_name, dataclass, text_in_brackets

_MOST_COMPARED: Final = 2000  # difflib takes 3 to 9 µs a word (measured), and a module may have 100,000 names
# Some lines of a terminal; names and tokens of the input in a message have no limit of their own.
_LONGEST_MESSAGE: Final = 500
_LONGEST_NAME: Final = 60
"""Characters of a wrong argument in a message: most names of instructions fit."""
_KEPT_AFTER_SPAN: Final = 1000
"""Characters of a line kept after the span: as many as any screen shows."""

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""Severities, the highest first."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets in one source.

    >>> Span(3, 7).length
    4
    """

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of characters covered."""
        return self.end - self.start


class Position(NamedTuple):
    """A place as shown by editors: line and column both start at 1."""

    line: int
    column: int


@dataclass(slots=True, eq=False)
class Source:
    """A text and its name for the user; `first_line` is the line at which a part begins in its file.

    >>> source = Source("m.hlo", "HloModule m\\nENTRY e {")
    >>> source.position(12)
    Position(line=2, column=1)
    >>> source.line(2)
    'ENTRY e {'
    >>> Source("m.hlo", "HloModule m\\nENTRY e {", first_line=40).position(12)
    Position(line=41, column=1)
    """

    name: str
    text: str
    first_line: int = 1
    _line_starts: list[int] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<Source {brief_name(self.name)}: {brief_count(len(self.text), 'characters')}>"

    def position(self, offset: int) -> Position:
        """The line and column of a character offset; offsets past the end count as the end."""
        starts = self._starts()
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(starts, offset)
        return Position(line + self.first_line - 1, offset - starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line, counted as in the file, without its line break."""
        start, end = self.line_span(number)
        return self.text[start:end].removesuffix("\r")

    def line_span(self, number: int) -> tuple[int, int]:
        """The offsets at which a line, counted as in the file, starts and ends."""
        starts = self._starts()
        index = number - self.first_line
        end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        return starts[index], end

    def slice(self, span: Span) -> str:
        """The text that a span covers."""
        return self.text[span.start : span.end]

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            starts, newline, text = [0], self.text.find("\n"), self.text
            while newline >= 0:
                starts.append(newline + 1)
                newline = text.find("\n", newline + 1)
            self._line_starts = starts
        return self._line_starts


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message about a source, with its place and a hint.

    `code` names a lint rule or a kind of note; it is empty for plain syntax errors. Diagnostics of one instruction or
    computation name it too, because a proto has no lines.
    """

    severity: Severity
    message: str
    source: Source | None = None
    span: Span | None = None
    hint: str | None = None
    code: str = ""
    _: KW_ONLY
    instruction: str | None = None
    computation: str | None = None

    def __post_init__(self) -> None:
        if len(self.message) > _LONGEST_MESSAGE:
            object.__setattr__(self, "message", self.message[:_LONGEST_MESSAGE] + "…")

    @property
    def position(self) -> Position | None:
        """Line and column where the span starts, or None when the diagnostic has no place."""
        if self.source is None or self.span is None:
            return None
        return self.source.position(self.span.start)

    @property
    def name(self) -> str:
        """The computation and the instruction, such as `e/add.3`; empty if there is neither."""
        return "/".join(name for name in (self.computation, self.instruction) if name)

    def excerpt(self) -> Self:
        """A copy whose source holds only the lines of its span, so that a long text can be freed.

        >>> whole = Diagnostic("error", "no root", Source("m.hlo", "HloModule m\\nENTRY e {}\\n"), Span(18, 19))
        >>> part = whole.excerpt()
        >>> part.source.text, str(part) == str(whole)
        ('ENTRY e {}', True)
        """
        source, span = self.source, self.span
        if source is None or span is None:
            return self if source is None else replace(self, source=Source(source.name, ""))
        line = source.position(span.start).line
        start, end = source.line_span(line)[0], source.line_span(source.position(span.end).line)[1]
        text = source.text[start : min(end, span.end + _KEPT_AFTER_SPAN)]
        return replace(
            self, source=Source(source.name, text, first_line=line), span=Span(span.start - start, span.end - start)
        )

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        """The diagnostic on one line, as `file:line:column: severity: message`.

        >>> print(Diagnostic("error", "no module", Source("a.txt", ""), Span(0, 0)))
        a.txt:1:1: error: no module
        >>> print(Diagnostic("error", "no done", Source("a.pb", ""), instruction="s", computation="e"))
        a.pb:e/s: error: no done
        """
        where = ""
        if self.source is not None:
            place = self.position
            name = f"{self.source.name}:" if self.source.name else ""
            location = f"{place.line}:{place.column}" if place else self.name
            where = f"{name}{location}: " if location else f"{name} "
        return f"{where}{self.severity}: {self.message}"


class HloError(Exception):
    """An error that the user can fix: bad input, a bad option, a missing name.

    Carries one diagnostic or, if a file was read past its first error, all of them.

    >>> raise HloError("layout has 3 dimensions, but the shape has 2")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: layout has 3 dimensions, but the shape has 2
    """

    diagnostics: tuple[Diagnostic, ...]

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        source: Source | None = None,
        hint: str | None = None,
    ) -> None:
        self.diagnostics = (Diagnostic("error", message, source, span, hint),)
        super().__init__(self.diagnostics[0].message)

    @classmethod
    def of(cls, diagnostics: Iterable[Diagnostic]) -> HloError:
        """An error that carries several diagnostics; the first one is its message."""
        listed = tuple(diagnostics)
        error = cls(listed[0].message)
        error.diagnostics = listed
        return error

    @property
    def diagnostic(self) -> Diagnostic:
        """The first, and usually the only, diagnostic."""
        return self.diagnostics[0]

    def __str__(self) -> str:
        """The diagnostics, each followed by its hint: all that a traceback or a log shows of it."""
        return "\n".join(
            f"{diagnostic}\n  help: {diagnostic.hint}" if diagnostic.hint else str(diagnostic)
            for diagnostic in self.diagnostics
        )

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows instead of a traceback: where it was raised, the place in the text, and help."""
        from importlib import import_module

        lines: list[str] = import_module("hlo_cli.notebook").lines_of(self)  # found by name, as by `displayed`
        return lines


def counted(number: int, noun: str) -> str:
    """A number and a noun, which is given in the plural; for messages of packages that cannot use `report`.

    >>> counted(1, "operands"), counted(2, "operands")
    ('1 operand', '2 operands')
    """
    return f"{number} {noun.removesuffix('s') if number == 1 else noun}"


def quoted_token(text: str) -> str:
    """A found token for messages: quoted, or the words for the end.

    >>> quoted_token("}"), quoted_token("")
    ("'}'", 'end of input')
    """
    return f"'{text}'" if text else "end of input"


def joined_by_and(words: Iterable[str]) -> str:
    """Words with `and` before the last one.

    >>> joined_by_and(["a", "b", "c"]), joined_by_and(["a", "b"]), joined_by_and(["a"])
    ('a, b, and c', 'a and b', 'a')
    """
    return _joined(words, "and")


def joined_by_or(words: Iterable[str]) -> str:
    """Words as a list of alternatives.

    >>> joined_by_or(["a", "b", "c"]), joined_by_or(["a", "b"])
    ('a, b, or c', 'a or b')
    """
    return _joined(words, "or")


def _joined(words: Iterable[str], last_by: str) -> str:
    *most, last = words
    return f"{', '.join(most)}, {last_by} {last}" if len(most) > 1 else f" {last_by} ".join((*most, last))


def did_you_mean(word: str | None) -> str | None:
    """The hint that suggests a word, or None; a message never holds the suggestion.

    >>> did_you_mean("add"), did_you_mean(None)
    ("did you mean 'add'?", None)
    """
    return None if word is None else f"did you mean '{word}'?"


FORMER_NAMES: Final = {"exposed": "unoverlapped", "exposed_bytes": "unoverlapped_bytes"}
"""Names that fields and columns had, and those that they have: files of assertions and scripts outlive a release."""
_SHORT: Final = 8  # letters; in shorter words a few in common are chance: `nosuch` is like `cosh` by 0.6
_LEAST_ALIKE: Final = 0.61  # by the 0.6 of difflib, `nosuchthing` is like `launching`


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most similar to `word`, or None if none is similar. Compares a bounded number of words.

    >>> nearest("layuot", ["parse", "layout"]), nearest("x", ["parse", "layout"])
    ('layout', None)
    """
    from difflib import get_close_matches

    similar = (other for other in known if abs(len(other) - len(word)) <= 1 + len(word) // 4)
    least = 0.65 if len(word) < _SHORT else _LEAST_ALIKE
    close = get_close_matches(word, list(islice(similar, _MOST_COMPARED)), 1, least)
    return close[0] if close else None


def missing(noun: str, name: object, names: Iterable[str], *, otherwise: str = "") -> KeyError:
    """The error of a name that selects nothing, with the nearest of the names that would, else what to do `otherwise`.

    >>> missing("instruction", "ad", ["add", "tuple"])
    KeyError("no instruction 'ad'; did you mean 'add'?")
    """
    hint = (did_you_mean(nearest(name, names)) if isinstance(name, str) else None) or otherwise
    return KeyError("; ".join(filter(None, (f"no {noun} {brief(name, _LONGEST_NAME)}", hint))))


def wrong_type(expected: str, value: object, hint: str | None = None, *, function: str = "") -> TypeError:
    """The error of an argument of another type: what was expected, what was found, and what to pass.

    >>> wrong_type("a module", "dump/", "use hlo_cli.load(path)")
    TypeError("expected a module, found the str 'dump/': use hlo_cli.load(path)")
    """
    found = f"the {type(value).__name__} {brief(value, _LONGEST_NAME)}" if value is not None else "None"
    place = f"{function}: " if function else ""
    return TypeError(f"{place}expected {expected}, found {found}" + (f": {hint}" if hint else ""))


def expect(kind: type | UnionType, expected: str, value: object, hint: str | None = None) -> None:
    """Raises TypeError, which says what was expected, if a value is not of this type.

    >>> expect(int, "a number of devices", "4")
    Traceback (most recent call last):
        ...
    TypeError: expected a number of devices, found the str '4'
    """
    if not isinstance(value, kind):
        raise wrong_type(expected, value, hint)


def expect_one_of(noun: str, value: object, known: Iterable[str]) -> None:
    """Raises HloError, with the nearest known name, or with all of them, if a value is not a known name.

    >>> expect_one_of("goal", "memroy", ["memory", "latency"])
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: unknown goal 'memroy'
      help: did you mean 'memory'?
    """
    listed = tuple(known)
    if value not in listed:
        close = did_you_mean(nearest(value, listed)) if isinstance(value, str) else None
        raise HloError(f"unknown {noun} '{value}'", hint=close or f"available: {', '.join(listed)}")


# --- internal errors ---

INTERNAL_ERROR: Final = "internal error, please report"
"""How the line about a bug begins."""
INTERNAL_ERROR_CODE: Final = 70
"""The exit code for a bug, `EX_SOFTWARE` of sysexits.h: 1 would be read as findings, 2 as unreadable input."""
_LONGEST_REASON: Final = 200
"""Characters of an exception's own text in the line about it."""


def internal_error(error: BaseException) -> str:
    """The line about an exception that is no `HloError`, a bug: the version, the exception, and its place in the code.

    >>> internal_error(ValueError("negative shift count")).split("(")[1]
    'ValueError: negative shift count)'
    """
    frame, place = error.__traceback__, ""
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename.replace("\\", "/")
        if "/hlo_cli/" in name:
            place = f" at {name.rpartition('/hlo_cli/')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    reason = printable(" ".join(str(error).split())[:_LONGEST_REASON])
    named = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return f"{INTERNAL_ERROR}: hlo {__version__}{place} ({named})"


def printable(text: str) -> str:
    r"""A text in which characters that may control a terminal are escaped; `render.sanitize` is for reports.

    >>> print(printable("a\x1b[31m"))
    a\x1b[31m
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def print_traceback(error: BaseException) -> None:
    """Writes the traceback of a bug to standard error if `HLO_TRACEBACK` is set; of an `HloError`, nothing."""
    import os
    import sys

    if isinstance(error, HloError) or sys.stderr is None or os.environ.get("HLO_TRACEBACK", "") in ("", "0"):
        return
    from traceback import print_exception

    print_exception(error)
