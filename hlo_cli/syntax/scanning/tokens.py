"""What XLA's lexer sees in a text: its tokens, and the small grammars of attribute values that move over them.

Mirrors xla/hlo/parser/hlo_lexer.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, NoReturn, TypeVar

from hlo_cli.ir.layout import COMBINE, PRIMITIVE_TYPES, Tile
from hlo_cli.ir.notation import end_of_dictionary, unquote
from hlo_cli.ir.shape import ArrayShape, Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, did_you_mean, joined_by_or, quoted_token
from hlo_cli.syntax.scanning.error_help import like
from hlo_cli.syntax.scanning.scanner import STRAY, Scanner
from hlo_cli.syntax.scanning.shape_reader import read_shape

# --- tokens ---
# Tokens exactly as in XLA's lexer, for strict reading.
#
# Mirrors xla/hlo/parser/hlo_lexer.h. A token's kind is its own text for signs and keywords, else one of NAME,
# ATTRIBUTE, TYPE, IDENT, STRING, INT, DECIMAL, DXD, PAD, DIM_LABELS, END and ERROR.


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
# the pattern of xla/hlo/parser/hlo_lexer.cc: two dimensions at least
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
PAYLOAD: Final = re.compile(r"\(0x([0-9a-fA-F]++)\)")
# The mantissa of a float64; whether a narrower type holds it is known with the shape.
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
            # strings, integers, and numbers with a payload: the pattern alone cannot tell whether they hold
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
        return value - 2**64 if value >= 2**63 else value  # XLA's lexer reads uint64 too, which then wraps to int64

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
            token = quoted_token("" if self.kind == END else self.text[:60])
            hint = STRAY.get(self.text, hint)
            raise HloError(
                f"{message.removesuffix(',')}, found {token}", Span(self.start, self.end), source=self.source, hint=hint
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
            # 2^64 has 20 digits; Python's int takes quadratic time for long ones
            holds = group == 11 or (len(text) < 25 and -(2**63) <= int(text) < 2**64)
        if not holds:
            self.kind = ERROR

    def _payload(self) -> None:
        if self._scanner.text.startswith("(", self.end, self._scanner.end):
            match = PAYLOAD.match(self._scanner.text, self.end, self._scanner.end)
            # 52 bits are 13 hex digits, and some leading zeros
            if match is None or len(match[1]) > 20 or not 0 < int(match[1], 16) <= _LARGEST_PAYLOAD:
                self.kind = ERROR
                return
            self.text, self.end = self.text + match[0], match.end()


# --- small grammars over tokens ---
# The grammars of attribute values, each a small function that moves over a value or fails at the wrong token.
#
# Mirrors `ParseAttributeHelper` of xla/hlo/parser/hlo_parser.cc and the functions it calls.


Reader = Callable[[Tokens], object]
_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=StrEnum)
LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep127")  # FLT_MAX; parts of c64 are compared with it unrounded


def read_bool(tokens: Tokens) -> bool:
    """`true` or `false`."""
    if tokens.kind not in ("true", "false"):
        tokens.fail("expected true or false")
    value = tokens.kind == "true"
    tokens.advance()
    return value


def read_int(tokens: Tokens) -> int:
    """An integer of 64 bits."""
    return tokens.integer()


def read_int32(tokens: Tokens) -> int:
    """An integer of 32 bits."""
    start, end = tokens.start, tokens.end
    value = read_int(tokens)
    if not -(2**31) <= value < 2**31:
        tokens.fail(f"{value} does not fit in 32 bits", start, end)
    return value


def read_number(tokens: Tokens) -> float:
    """A number, an infinity, or NaN; an error for numbers that overflow to infinity."""
    text, kind = tokens.text, tokens.kind
    if kind == INT:
        return float(read_int(tokens))
    if kind not in (DECIMAL, "inf"):
        tokens.fail("expected a number")
    value = float(text.partition("(")[0])  # the parentheses hold the payload of a NaN
    if kind == DECIMAL and value in (float("inf"), float("-inf")) and "inf" not in text:
        tokens.fail(f"{text} does not fit in 64 bits", tokens.start, tokens.end)
    tokens.advance()
    return value


def read_string(tokens: Tokens) -> str:
    """The contents of a string."""
    hint = f'strings need quotes: "{tokens.text}"' if tokens.kind == IDENT else None
    return unquote(tokens.expect(STRING, hint=hint))


def read_string_or_json(tokens: Tokens) -> str:
    """The contents of a string, or a dictionary with its braces."""
    return tokens.json() if tokens.kind == "{" else unquote(tokens.expect(STRING, "or a dictionary"))


def read_name(tokens: Tokens, what: str) -> str:
    """A name with or without %, but not a bare keyword or type."""
    if tokens.kind == ATTRIBUTE:
        tokens.fail(f"expected a space between '{tokens.text}' and '='", tokens.start, tokens.end)
    if tokens.kind not in (NAME, IDENT):
        reserved = tokens.kind == TYPE or tokens.kind in KEYWORDS
        tokens.fail(f"expected {what}" + (" (reserved words need %)" if reserved else ""))
    name = tokens.text
    tokens.advance()
    return name


def at_shape(tokens: Tokens) -> bool:
    """Whether a shape comes next."""
    return tokens.kind in (TYPE, "(") or (tokens.kind == IDENT and tokens.text == "b" and tokens.peek() == "(")


def take_shape(tokens: Tokens) -> Shape:
    """A shape with known types only."""
    if not at_shape(tokens):
        tokens.fail("expected a shape")
    start, scanner = tokens.start, tokens.scanner()
    shape = read_shape(scanner)
    unknown = next((leaf for _, leaf in shape.leaves if isinstance(leaf, UnknownShape)), None)
    if unknown is not None:
        tokens.fail(f"'{unknown.text}' is not a shape", start, scanner.pos)
    if (problem := _problem(shape)) is not None:
        tokens.fail(problem, start, scanner.pos)
    tokens.move(scanner.pos)
    return shape


@lru_cache(maxsize=8192)
def _problem(shape: Shape) -> str | None:
    """The reason why XLA fails to parse a shape: it checks elements of tuples closely, and little else."""
    for index, leaf in shape.leaves:
        if not isinstance(leaf, ArrayShape):
            continue
        if leaf.layout.tail_padding_alignment_in_elements < 1:
            return "L(n) must be at least 1"
        if index and (problem := layout_problem(leaf)):
            return f"{leaf}: {problem}"
    return None


def layout_problem(array: ArrayShape) -> str | None:
    """The reason why the layout does not fit; unlike this tool, XLA accepts `*` anywhere in a tile."""
    layout = array.layout
    tiles = tuple(Tile(tuple(1 if d == COMBINE else d for d in tile.dimensions)) for tile in layout.tiles)
    return replace(array, layout=replace(layout, tiles=tiles)).problem


def read_list(tokens: Tokens, item: Callable[[Tokens], _T], brackets: str = "{}", comma: str = ",") -> tuple[_T, ...]:
    """Items between brackets, separated by commas or by `comma`; the list may be empty."""
    tokens.expect(brackets[0], "before a list")
    items: list[_T] = []
    if tokens.kind != brackets[1]:
        items.append(item(tokens))
        while tokens.accept(comma):
            items.append(item(tokens))
    tokens.expect(brackets[1], f"or '{comma}' in a list")
    return tuple(items)


def read_ints(tokens: Tokens) -> tuple[int, ...]:
    """`{0, 1}`."""
    return read_list(tokens, read_int)


def read_int_lists(tokens: Tokens) -> tuple[tuple[int, ...], ...]:
    """`{{0, 1}, {2, 3}}`."""
    return read_list(tokens, read_ints)


def read_bools(tokens: Tokens) -> tuple[bool, ...]:
    """`{true, false}`."""
    return read_list(tokens, read_bool)


def read_shape_index(tokens: Tokens) -> tuple[int, ...]:
    """`{0, 1}`, with an optional trailing comma."""
    tokens.expect("{", "before an index")
    index = []
    while tokens.kind != "}":
        index.append(read_int(tokens))
        if not tokens.accept(","):
            break
    tokens.expect("}", "after an index")
    return tuple(index)


def fields(
    kinds: Mapping[str, Reader], required: tuple[str, ...] = (), *, loose: bool = False
) -> Callable[[Tokens], dict[str, object]]:
    """The grammar of `{name=value name=value}`.

    Each name occurs once, with an optional comma before it; loosely, names repeat and there are no commas.
    """

    def read(tokens: Tokens) -> dict[str, object]:
        start = tokens.start
        tokens.expect("{", "before its fields")
        seen: dict[str, object] = {}
        while tokens.kind != "}":
            if not loose:
                tokens.accept(",")
            at, name, end = (
                tokens.start,
                tokens.expect(ATTRIBUTE, "between the braces"),
                tokens.previous_end,
            )
            if name in seen and not loose:
                tokens.fail(f"duplicate field {name}", at, end)
            if name not in kinds:
                tokens.fail(f"unknown field '{name}'; expected one of {joined_by_or(sorted(kinds))}", at, end)
            seen[name] = kinds[name](tokens)
        for name in required:
            if name not in seen:
                tokens.fail(f"missing field {name}", start, tokens.end)
        tokens.advance()
        return seen

    return read


def one_of(kind: type[_Word], *, any_case: bool = False) -> Callable[[Tokens], _Word]:
    """The grammar of an enumeration: one of its words."""
    known = {member.value.lower() if any_case else member.value: member for member in kind}

    def read(tokens: Tokens) -> _Word:
        member = known.get(tokens.text.lower() if any_case else tokens.text)
        if tokens.kind != IDENT or member is None:
            alike = {word.lower(): word for word in known}
            hint = did_you_mean(alike.get(tokens.text.lower())) or like(tokens.text, known)
            tokens.fail(f"expected {joined_by_or(known)}", hint=hint)
        tokens.advance()
        return member

    return read


def read_float(tokens: Tokens) -> float:
    """A number in the range of 32-bit floats."""
    start, end = tokens.start, tokens.end
    value = read_number(tokens)
    if abs(value) > LARGEST_FLOAT:
        tokens.fail(f"{value} does not fit in 32 bits", start, end)
    return value


def read_bools_or_bool(tokens: Tokens) -> bool | tuple[bool, ...]:
    """`{true, false}` or `true`."""
    return read_bools(tokens) if tokens.kind == "{" else read_bool(tokens)


def read_shapes(tokens: Tokens) -> tuple[Shape, ...]:
    """`{f32[2]{0}, s32[]}`."""
    return read_list(tokens, take_shape)
