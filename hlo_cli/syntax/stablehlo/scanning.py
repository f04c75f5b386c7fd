"""Which tokens an MLIR text has, and which types, attributes, and locations: all that is smaller than an operation.

Mirrors mlir/lib/AsmParser, as far as the texts of StableHLO need it: what it does not know stays text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, quoted_token

MAX_DEPTH: Final = 64
"""Regions, attributes, and types inside of each other: programs have ten; each level takes some of Python's stack."""

# --- attributes ---


@dataclass(frozen=True, slots=True)
class Text:
    """A string, without its quotes and escapes."""

    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, with its type: `8 : i64`."""

    text: str
    type: str = ""

    @property
    def value(self) -> int | None:
        """The integer; None for others, and for more digits than any type holds.

        >>> Number("0x10").value, Number("1.5").value
        (16, None)
        """
        return integer_of(self.text)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or several in a row, such as `true`, `LT`, `unit`, or `@main`."""

    text: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list in brackets, or an `array<i64: 1, 2>`."""

    items: tuple[AttributeOf, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """A dictionary in braces, or the fields in the angle brackets of an attribute of a dialect.

    `kind` is the attribute's name, such as `stablehlo.gather`.
    """

    fields: Mapping[str, AttributeOf]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Dense:
    """A `dense<…> : tensor<…>`: `body` is the span between the angle brackets; `is_elided` if the text omits it."""

    body: Span
    type: str
    is_elided: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else, as text."""

    text: str


AttributeOf: TypeAlias = Text | Number | Word | ListOf | Entries | Dense | Other
"""An attribute of MLIR."""
Attributes: TypeAlias = Mapping[str, AttributeOf]

# --- locations ---


@dataclass(frozen=True, slots=True)
class FileLocation:
    """`"file":line:column to :column`."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """`"name"(location)`."""

    name: str
    inner: Location | None = None


@dataclass(frozen=True, slots=True)
class CallLocation:
    """`callsite(callee at caller)`."""

    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class AliasLocation:
    """`#loc7`, which is defined elsewhere in the text."""

    name: str


Location: TypeAlias = FileLocation | NamedLocation | CallLocation | AliasLocation
"""Where an operation is from; unknown ones are None."""

# --- the scanner ---

_SPACE: Final = re.compile(r"(?:[ \t\n\r\f]++|//[^\n]*+)*+")
_BARE: Final = re.compile(r"[A-Za-z_][\w$.\-]*+(?<!-)")
_VALUE_NAME: Final = re.compile(r"%([\w$.\-]++)(?:#([0-9]{1,9}))?+")
_STRING: Final = re.compile(r'"((?:[^"\\\n]++|\\.)*+)"')
_SYMBOL: Final = re.compile(r'@(?:"((?:[^"\\\n]++|\\.)*+)"|([\w$.\-]++))(?:::@(?:"(?:[^"\\\n]++|\\.)*+"|[\w$.\-]++))*+')
_NUMBER: Final = re.compile(r"[+-]?+(?:0x[0-9A-Fa-f]++|[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?+[0-9]++)?+)")
_SIMPLE_TYPE: Final = re.compile(r"tensor<[\w?]*+(?:complex<\w++>)?>|[a-z]\w*+(?![\w.<])")
_TYPE_NAME: Final = re.compile(r"!?[A-Za-z_][\w$.]*+")
_BRACKET: Final = re.compile(r'"(?:[^"\\\n]++|\\.)*+"|->|[<>()\[\]{}]')
_CLOSES: Final = {")": "(", "]": "[", "}": "{", ">": "<"}
_HASH: Final = re.compile(r"#([A-Za-z_][\w$.\-]*+|[0-9]++)")
_ESCAPE: Final = lazy_regex(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_LONGEST_INTEGER: Final = 40  # digits: more than any type holds; Python takes quadratic time for millions
_WORD_ENDS: Final = ",>]})"
_ELIDED: Final = "__elided__"


def integer_of(text: str) -> int | None:
    """The integer in a text, decimal or hexadecimal; None if there is none."""
    if len(text) > _LONGEST_INTEGER or "." in text:
        return None
    try:
        return int(text, 0) if "x" in text else int(text)
    except ValueError:
        return None


class Scanner:
    """Reads tokens, types, attributes, and locations of one text from `pos` on; errors have the place.

    >>> scanner = Scanner(Source("a.mlir", 'array<i64: 1, 2> : tensor<2x3xf32>'))
    >>> scanner.attribute()
    ListOf(items=(Number(text='1', type=''), Number(text='2', type='')))
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.pos = 0
        self.aliases: dict[str, AttributeOf] = {}
        self.locations: dict[str, Location | None] = {}
        self.types: dict[str, str] = {}

    # --- tokens ---

    def skip(self) -> int:
        """The offset of the next token, where reading continues."""
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()
        return self.pos

    def peek(self, count: int = 1) -> str:
        """The next characters, which begin a token."""
        at = self.skip()
        return self.text[at : at + count]

    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return self.skip() >= len(self.text)

    def accept(self, token: str) -> bool:
        """Reads a token of punctuation if it is next."""
        if not self.text.startswith(token, self.skip()):
            return False
        self.pos += len(token)
        return True

    def expect(self, token: str, where: str = "") -> None:
        """Reads a token; an error if it is not next."""
        if not self.accept(token):
            raise self.error(f"expected '{token}'{where and f' {where}'}")

    def word(self) -> str:
        """The next bare word, which is not read; empty if there is none."""
        match = _BARE.match(self.text, self.skip())
        return match[0] if match else ""

    def accept_word(self, word: str) -> bool:
        """Reads a bare word if it is next."""
        if self.word() != word:
            return False
        self.pos += len(word)
        return True

    def string(self) -> str:
        """Reads a string."""
        match = _STRING.match(self.text, self.skip())
        if match is None:
            raise self.error("expected a string")
        self.pos = match.end()
        return unescape(match[1])

    def symbol(self) -> str:
        """Reads the name of a function or a mesh: `@main`."""
        match = _SYMBOL.match(self.text, self.skip())
        if match is None:
            raise self.error("expected a name that begins with @")
        self.pos = match.end()
        return unescape(match[1]) if match[1] is not None else match[2]

    def value(self) -> tuple[str, int] | None:
        """Reads the name of a value, with the number of the result; None if none is next."""
        match = _VALUE_NAME.match(self.text, self.skip())
        if match is None:
            return None
        self.pos = match.end()
        return match[1], int(match[2] or 0)

    def number(self) -> str | None:
        """Reads a number; None if none is next."""
        match = _NUMBER.match(self.text, self.skip())
        if match is None:
            return None
        self.pos = match.end()
        return match[0]

    def error(self, message: str, start: int | None = None, hint: str | None = None) -> HloError:
        """The error at an offset, or at the next token, which it names."""
        at = self.skip() if start is None else start
        if start is None:
            match = re.compile(r"[%@#!]?[\w$.\-]{1,60}|.?").match(self.text, at)
            message += f", found {quoted_token(match[0] if match else '')}"
        return HloError(message, Span(at, min(at + 1, len(self.text))), source=self.source, hint=hint)

    def balanced(self) -> str:
        """Reads from an opening bracket to the one that closes it; its text without both."""
        start = self.skip()
        opened: list[tuple[str, int]] = []
        for match in _BRACKET.finditer(self.text, start):
            bracket = match[0]
            if bracket in _CLOSES:
                if not opened or opened[-1][0] != _CLOSES[bracket]:
                    raise self._unbalanced(opened, start)
                opened.pop()
                if not opened:
                    self.pos = match.end()
                    return self.text[start + 1 : match.start()]
            elif len(bracket) == 1:
                opened.append((bracket, match.start()))
            if not opened:
                break
        raise self._unbalanced(opened, start)

    def _unbalanced(self, opened: list[tuple[str, int]], start: int) -> HloError:
        """The error for the innermost bracket that is not closed."""
        bracket, at = opened[-1] if opened else (self.text[start : start + 1], start)
        return self.error(f"unclosed '{bracket}'", at)

    # --- types ---

    def type(self, depth: int = 0) -> str:
        """Reads a type, as text; aliases are replaced."""
        match = _SIMPLE_TYPE.match(self.text, self.skip())
        if match is not None:
            self.pos = match.end()
            return match[0]
        start = self.pos
        if self.peek() == "(":
            self.balanced()
            self.expect("->", "in the type of a function")
            self._check_depth(depth)
            if self.peek() == "(":
                self.balanced()
            else:
                self.type(depth + 1)
            return self.text[start : self.pos]
        match = _TYPE_NAME.match(self.text, start)
        if match is None:
            raise self.error("expected a type")
        self.pos = match.end()
        if self.text.startswith("<", self.pos):
            self.balanced()
        name = self.text[start : self.pos]
        return self.types.get(name, name)

    def type_list(self) -> tuple[str, ...]:
        """Reads one type, or several in parentheses."""
        if self.peek() != "(":
            return (self.type(),)
        types = list[str]()
        self.expect("(")
        while not self.accept(")"):
            types.append(self.type())
            self._after_type()
            if not self.accept(",") and self.peek() != ")":
                raise self.error("expected ',' or ')' after a type")
        return tuple(types)

    def _after_type(self) -> None:
        """Skips the attributes of a result: `tensor<f32> {jax.result_info = ""}`."""
        if self.peek() == "{":
            self.dictionary()
        self.location()

    # --- attributes ---

    def attribute(self, depth: int = 0, *, typed: bool = True) -> AttributeOf:
        """Reads an attribute, with the type after it if it may be `typed`."""
        self._check_depth(depth)
        first = self.peek()
        if first == '"':
            text = self.string()
            if typed and self.accept(":"):
                self.type()
            return Text(text)
        if first == "[":
            return ListOf(self._items("[", "]", depth))
        if first == "{":
            return Entries(self.dictionary(depth))
        if first == "@":
            start = self.pos
            self.symbol()
            return Word(self.text[start : self.pos])
        if first == "#":
            return self._hash(depth)
        if (number := self.number()) is not None:
            return Number(number, self.type() if typed and self.accept(":") else "")
        if first and first in "<(":
            start = self.pos
            self.balanced()
            if self.accept("->"):
                self.type_list()
            return Other(self.text[start : self.pos])
        return self._named(depth, typed)

    def _named(self, depth: int, typed: bool) -> AttributeOf:
        """An attribute that begins with a word: `dense<…>`, `array<…>`, `true`, `loc(…)`, or a type."""
        start, word = self.skip(), self.word()
        if not word:
            if self.peek() == "!":
                return Other(self.type())
            raise self.error("expected an attribute")
        if word in ("dense", "dense_resource", "sparse"):
            return self._dense(word)
        if word == "array" and self.text.startswith("<", start + 5):
            self.pos = start + 5
            self.expect("<")
            self.type()
            return ListOf(self._items(":", ">", depth) if self.peek() == ":" else self._items("", ">", depth))
        if word == "loc":
            self.pos += 3
            self.balanced()
            return Other("loc")
        if self.text.startswith("<", start + len(word)):
            self.pos = start + len(word)
            self.balanced()
            return Other(self.text[start : self.pos])
        self.pos += len(word)
        if word in ("true", "false", "unit") and typed and self.peek() == ":":
            self.accept(":")
            self.type()
        return Word(word)

    def _dense(self, word: str) -> Dense:
        self.pos += len(word)
        start = self.skip() + 1
        body = self.balanced()
        span = Span(start, self.pos - 1)
        type_ = self.type() if self.accept(":") else ""
        return Dense(span, type_, word != "dense" or body == _ELIDED)

    def _items(self, opened: str, closed: str, depth: int) -> tuple[AttributeOf, ...]:
        self.expect(opened)
        items = list[AttributeOf]()
        while not self.accept(closed):
            items.append(self.attribute(depth + 1))
            if not self.accept(",") and self.peek() != closed:
                raise self.error(f"expected ',' or '{closed}' in a list")
        return tuple(items)

    def dictionary(self, depth: int = 0) -> dict[str, AttributeOf]:
        """Reads a dictionary in braces; a name without a value is `unit`."""
        self._check_depth(depth)
        self.expect("{")
        entries: dict[str, AttributeOf] = {}
        while not self.accept("}"):
            key = self.key()
            entries[key] = self.attribute(depth + 1) if self.accept("=") else Word("unit")
            if not self.accept(",") and self.peek() != "}":
                raise self.error("expected ',' or '}' after an attribute")
        return entries

    def key(self) -> str:
        """Reads the name of an attribute, bare or quoted."""
        if self.peek() == '"':
            return self.string()
        word = self.word()
        if not word:
            raise self.error("expected the name of an attribute")
        self.pos += len(word)
        return word

    def _hash(self, depth: int) -> AttributeOf:
        """An attribute of a dialect, `#stablehlo.gather<…>`, or an alias."""
        start = self.skip()
        match = _HASH.match(self.text, start)
        if match is None:
            raise self.error("expected an attribute")
        self.pos = match.end()
        name = match[1]
        if not self.text.startswith("<", self.pos):
            if "." not in name and name in self.aliases:
                return self.aliases[name]
            return Word(f"#{name}")
        body = self.pos
        self.balanced()
        end = self.pos
        self.pos = body
        try:
            fields = self.fields(depth + 1)
        except HloError:  # of a dialect that is not known here
            fields = None
        self.pos = end
        return Other(self.text[start:end]) if fields is None else Entries(fields, name)

    def fields(self, depth: int = 0) -> dict[str, AttributeOf] | None:
        """Reads `<name = value, …>`, or `<kind WORD>` as a single field; None if it is neither."""
        self.expect("<")
        entries: dict[str, AttributeOf] = {}
        while not self.accept(">"):
            key = self.word()
            if not key:
                return None
            self.pos += len(key)
            if self.accept("="):
                entries[key] = self.attribute(depth + 1)
            elif not entries and (word := self.word()):
                self.pos += len(word)
                entries[key] = Word(word)
            elif self.peek() in _WORD_ENDS:
                entries[key] = Word(key)
            else:
                return None
            if not self.accept(",") and self.peek() != ">":
                return None
        return entries

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.error(f"nested too deeply (limit {MAX_DEPTH})", self.pos)

    # --- locations ---

    def location(self) -> Location | None:
        """Reads `loc(…)` if it is next; None without one, and for an unknown one."""
        if self.peek(4) != "loc(":
            return None
        self.pos += 4
        location = self._location(0)
        self.expect(")", "after a location")
        return location

    def _location(self, depth: int) -> Location | None:
        self._check_depth(depth)
        first = self.peek()
        if first == "#":
            match = _HASH.match(self.text, self.pos)
            if match is None:
                raise self.error("expected a location")
            self.pos = match.end()
            return AliasLocation(match[1])
        if first == '"':
            return self._file_or_name(depth)
        if self.accept_word("unknown"):
            return None
        if self.accept_word("callsite"):
            self.expect("(")
            callee = self._location(depth + 1)
            self.expect("at", "between the locations of a call")
            caller = self._location(depth + 1)
            self.expect(")")
            return caller if callee is None else callee if caller is None else CallLocation(callee, caller)
        if self.accept_word("fused"):
            if self.peek() == "<":
                self.balanced()
            self.expect("[")
            locations = list[Location | None]()
            while not self.accept("]"):
                locations.append(self._location(depth + 1))
                self.accept(",")
            return next((location for location in locations if location is not None), None)
        raise self.error("expected a location")

    def _file_or_name(self, depth: int) -> Location:
        text = self.string()
        if not self.text.startswith(":", self.pos):
            inner = None
            if self.text.startswith("(", self.pos):
                self.pos += 1
                inner = self._location(depth + 1)
                self.expect(")", "after a location")
            return NamedLocation(text, inner)
        numbers = [0, 0, 0, 0]
        match = _PLACE.match(self.text, self.pos)
        if match is None:
            raise self.error("expected the line and the column of a location")
        self.pos = match.end()
        numbers = [int(match[n] or 0) for n in (1, 2, 3, 4)]
        return FileLocation(text, numbers[0], numbers[1], numbers[2] or numbers[0], numbers[3] or numbers[1])


_PLACE: Final = re.compile(r":([0-9]{1,9}):([0-9]{1,9})(?:[ ]to[ ]([0-9]{1,9})?+:([0-9]{1,9}))?+")


def unescape(text: str) -> str:
    r"""The text of a string without MLIR's escapes: two hexadecimal digits, or one character.

    >>> unescape(r"a\22b\\c\n")
    'a"b\\c\n'
    """
    if "\\" not in text:
        return text
    data = _ESCAPE.sub(lambda match: _unescaped(match[1]), text)
    try:
        return data.encode("latin-1").decode("utf-8")  # bytes that are not ASCII are written as escapes, one by one
    except (UnicodeEncodeError, UnicodeDecodeError):
        return data


def _unescaped(escaped: str) -> str:
    if len(escaped) == 2:
        return chr(int(escaped, 16))
    return {"n": "\n", "t": "\t"}.get(escaped, escaped)
