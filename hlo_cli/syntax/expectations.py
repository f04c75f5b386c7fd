"""What an expectation of a team asks of modules: quantities and limits, one by one or in a file with sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import (
    EVERYTHING,
    ArithmeticOperator,
    Calculation,
    Expectation,
    Field,
    Function,
    Golden,
    Limit,
    Number,
    Operand,
    Quantity,
    Section,
    Term,
    Where,
    golden_in,
)
from hlo_cli.ir.memory_space import space_words
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean, nearest, quoted_token
from hlo_cli.syntax.byte_sizes import parse_size
from hlo_cli.syntax.conditions import parse_operand, parse_where

# --- terms ---
# Terms of assertions: quantities, numbers, and `golden`, joined by `*`, `/`, `+`, and `-`; products bind first.


MEASURED: Final[dict[str, Function]] = {"count": "count", "sum": "sum", "max": "max", "min": "min"}
WHOLE: Final = ("none", "exists")
"""Functions that are true or false, and cannot be part of a term."""
FUNCTIONS: Final = (*WHOLE, *MEASURED)
PEAKS: Final = ("peak", "max_peak")
GOLDEN: Final = "golden"

_MOST_NESTED: Final = 20  # as in conditions: the parser recurses once per parenthesis
_SYMBOLS: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_NAME: Final = re.compile(r"\s*+([A-Za-z_]\w*+)?+\s*+")
_BLANK: Final = re.compile(r"\s*+")
_NUMBER: Final = re.compile(
    r"-?(?:\d[\d_]*+(?:,\d{3})*+(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?:\s*+(?:%|[A-Za-z]++))?+"
)
_PEAK: Final = re.compile(r"(?:max_)?peak\.(\w*+)")
_PIECE: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[^()\"',]++|.", re.DOTALL)
_FIELD: Final = re.compile(r"\s*+([A-Za-z_][\w.\-]*+)(?:\[([^\[\]\s]*+)\])?+\s*+\Z")
_COMPUTED_TERM: Final = re.compile(r"[*/+(]|\s-\s")
_WHERE: Final = re.compile(r"\s*+where\b")
_COUNT: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]{1,30}")


def _parse_limit(text: str) -> Number:
    """A number with its unit: bytes, percent, or none.

    >>> _parse_limit("14GiB").value == 14 * 2**30, _parse_limit("50%").value, _parse_limit("1_000").value
    (True, 0.5, 1000)
    """
    bare = text.replace("_", "").replace(",", "")
    share = bare.removesuffix("%").rstrip()
    if _COUNT.fullmatch(share):
        value = float(share) if any(mark in share for mark in ".eE") else int(share)
        is_share = share != bare
        return Number(value / 100 if is_share else value, "percent" if is_share else "", text, Span(0, len(text)))
    return Number(parse_size(text), "bytes", text, Span(0, len(text)))


class Terms:
    """Reader of the terms in a text, from a position on."""

    def __init__(self, source: Source, at: int = 0) -> None:
        """Begins at a position."""
        self._source = source
        self._depth = 0
        self.at = at

    def term(self) -> Term:
        """Reads a sum of products; `at` is then the position after it.

        >>> Terms(Source("", "2 * sum(bytes) + 1 <= 3")).term().operator
        '+'
        """
        product = self._product()
        while (symbol := self._symbol("+-")) is not None:
            product = self._joined(symbol, product, self._product())
        return product

    def whole(self) -> Term:
        """Reads a term that ends with the text."""
        term = self.term()
        rest = self._source.text[self._skip() :].split()
        if rest:
            message = f"expected an operator or end of input, found {quoted_token(rest[0])}"
            raise self._error(message, Span(self.at, self.at + len(rest[0])))
        return term

    def condition(self) -> tuple[Where, int]:
        """Reads the condition in parentheses of `none` and `exists`, and the position of the closing one."""
        _, opened = self._function()
        _, closed = self._closed(opened)
        self.at = closed + 1
        return self._where(Span(opened + 1, closed)), closed

    def _product(self) -> Term:
        atom = self._atom()
        while (symbol := self._symbol("*/")) is not None:
            atom = self._joined(symbol, atom, self._atom())
        return atom

    def _joined(self, symbol: ArithmeticOperator, left: Term, right: Term) -> Calculation:
        return Calculation(symbol, left, right, Span(left.span.start, self.at))

    def _symbol(self, symbols: str) -> ArithmeticOperator | None:
        at = self._skip()
        character = self._source.text[at : at + 1]
        if not character or character not in symbols:
            return None
        self.at = at + 1
        return _SYMBOLS[character]

    def _atom(self) -> Term:
        at, text = self._skip(), self._source.text
        if text[at : at + 1] == "(":
            return self._group(at)
        if match := _NUMBER.match(text, at):
            self.at = match.end()
            return number_at(self._source, Span(at, match.end()))
        if match := _PEAK.match(text, at):
            return self._peak(match)
        name = _NAME.match(text, at)
        if name is not None and name[1] == GOLDEN:
            self.at = name.end(1)
            return Golden(Span(*name.span(1)))
        return self._quantity()

    def _group(self, opened: int) -> Term:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self._error(f"too many nested parentheses (limit {_MOST_NESTED})", Span(opened, opened + 1))
        self.at = opened + 1
        term = self.term()
        at = self._skip()
        if self._source.text[at : at + 1] != ")":
            raise self._error("unclosed '('", Span(opened, opened + 1))
        self.at = at + 1
        self._depth -= 1
        return term

    def _peak(self, match: re.Match[str]) -> Quantity:
        span, known = Span(*match.span()), space_words()
        if match[1].lower() not in known:
            meant = did_you_mean(nearest(match[1].lower(), known))
            raise self._error(f"unknown memory space '{match[1]}'", span, meant or f"available: {', '.join(known)}")
        self.at = match.end()
        return Quantity("max_peak", Where(self._source, EVERYTHING), space=match[1].lower(), span=span)

    def _quantity(self) -> Quantity:
        start = self.at
        name, opened = self._function()
        comma, closed = self._closed(opened)
        if name in WHOLE:
            message = f"{name}() is true or false, not a number"
            raise self._error(message, Span(opened - len(name), closed + 1), "use count(…)")
        inner = Span(opened + 1, closed)
        measured: Operand | None = None
        if name != "count":
            measured = self._measured(Span(inner.start, comma or inner.end))
            inner = Span((comma or inner.end) + 1, inner.end)
        where = self._where(inner) if inner.start <= inner.end else Where(self._source, EVERYTHING)
        self.at = closed + 1
        return Quantity(MEASURED[name], where, measured, span=Span(start, closed + 1))

    def _function(self) -> tuple[str, int]:
        """The name of the function, and the position of its opening parenthesis."""
        match = _NAME.match(self._source.text, self.at)
        assert match is not None
        name, hint = match[1] or "", f"available: {', '.join(FUNCTIONS)}"
        if name not in FUNCTIONS:
            if not name:
                raise self._error("expected a function", Span(self.at, self.at + 1), hint)
            if name in PEAKS:
                raise self._error(f"expected a memory space after {name}", Span(*match.span(1)), "such as peak.hbm")
            meant = did_you_mean(nearest(name, (*FUNCTIONS, GOLDEN)))
            raise self._error(f"unknown function '{name}'", Span(*match.span(1)), meant or hint)
        if self._source.text[match.end() : match.end() + 1] != "(":
            raise self._error(f"expected '(' after '{name}'", Span(match.end(), match.end() + 1))
        return name, match.end()

    def _closed(self, opened: int) -> tuple[int | None, int]:
        """The positions of the first comma outside other parentheses and of the closing parenthesis."""
        depth, comma = 0, None
        for piece in _PIECE.finditer(self._source.text, opened):
            if piece[0] == "(":
                depth += 1
            elif piece[0] == ")":
                depth -= 1
                if not depth:
                    return comma, piece.start()
            elif piece[0] == "," and depth == 1 and comma is None:
                comma = piece.start()
        raise self._error("unclosed '('", Span(opened, opened + 1))

    def _measured(self, span: Span) -> Operand:
        """The number that `sum`, `max`, or `min` takes of each operation: a field, or computed from fields."""
        match = _FIELD.match(self._source.text, span.start, span.end)
        if match is not None:
            end = match.end(2) + 1 if match[2] is not None else match.end(1)
            return Field(match[1], Span(match.start(1), end), match[2])
        if not _COMPUTED_TERM.search(self._source.text, span.start, span.end):
            hint = "for example, sum(padded_bytes, opcode == copy)"
            raise self._error("expected a field, then a comma", self._stripped(span), hint)
        try:
            return parse_operand(" " * span.start + self._source.slice(span))
        except HloError as error:
            raise self._moved(span, error) from None

    def _where(self, span: Span) -> Where:
        """The condition, with spans in the whole text; it may begin with the word `where`."""
        if word := _WHERE.match(self._source.text, span.start, span.end):
            span = Span(word.end(), span.end)
        try:
            where = parse_where(" " * span.start + self._source.slice(span))
        except HloError as error:
            raise self._moved(span, error) from None
        return Where(self._source, where.condition)

    def _moved(self, span: Span, error: HloError) -> HloError:
        """The error of a part, with its span in the whole; for a missing part, where it should be."""
        diagnostic = error.diagnostic
        at = (
            diagnostic.span
            if diagnostic.span is not None and diagnostic.span.start >= span.start
            else Span(span.start, span.start + 1)
        )
        return self._error(diagnostic.message, at, diagnostic.hint)

    def _stripped(self, span: Span) -> Span:
        text = self._source.slice(span)
        start = span.start + len(text) - len(text.lstrip())
        return Span(start, max(start + 1, span.start + len(text.rstrip())))

    def _skip(self) -> int:
        match = _BLANK.match(self._source.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def _error(self, message: str, span: Span, hint: str | None = None) -> HloError:
        return HloError(message, span, source=self._source, hint=hint)


def number_at(source: Source, span: Span) -> Number:
    """The number at a span; HloError if it is none.

    >>> number_at(Source("", "peak.hbm <= 2 KiB"), Span(12, 17)).value
    2048
    """
    text = source.slice(span)
    try:
        number = _parse_limit(text)
    except HloError as error:
        raise HloError(error.diagnostic.message, span, source=source, hint=error.diagnostic.hint) from None
    return Number(number.value, number.unit, text, span)


# --- one expectation ---
# One expectation as text: `count(opcode == all-gather) <= 12`, `peak.hbm <= golden * 1.02`.
#
# The language in the parentheses is that of `--where`.


_WHOLE: Final[dict[str, tuple[Function, Limit, int]]] = {"none": ("none", "==", 0), "exists": ("exists", ">=", 1)}
_LIMITS: Final[dict[str, Limit]] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_BEGINS_WHOLE: Final = re.compile(rf"\s*+(?:{'|'.join(WHOLE)})\s*+\(")
_LIMIT: Final = re.compile(r"\s*+([=!<>~]++)?+\s*+(.*\S)?", re.DOTALL)
_COMPUTED_SIDE: Final = re.compile(rf"[*/(]|\s[+-]\s|{GOLDEN}\b|peak\.")
_SEVERAL: Final = "write each assertion as a separate string"


def parse_expectation(text: str) -> tuple[Term, Limit, Term]:
    """The quantity, the comparison, and the limit; HloError with the span of the error.

    >>> quantity, operator, limit = parse_expectation("sum(padded_bytes, opcode == copy) <= 2MiB")
    >>> quantity.function, str(quantity.field), operator, limit.value
    ('sum', 'padded_bytes', '<=', 2097152)
    >>> parse_expectation("count(fused)")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:13: error: expected a limit such as <= 12, found end of input
    """
    source = Source("", text)
    if _BEGINS_WHOLE.match(text):
        return _whole(source)
    reader = Terms(source)
    quantity = reader.term()
    if (golden := golden_in(quantity)) is not None:
        raise HloError("golden is not a quantity", golden.span, source=source, hint="write it after the comparison")
    operator, limit = _limit(source, reader.at)
    return quantity, operator, limit


def _parse_computed_limit(text: str) -> Term:
    """A limit that can be computed from `golden` and other quantities.

    >>> _parse_computed_limit("golden * 1.02").operator
    '*'
    """
    return _limit_at(Source("", text), Span(0, len(text)))


def _whole(source: Source) -> tuple[Term, Limit, Term]:
    """An assertion without a limit: none or exists."""
    reader = Terms(source)
    where, closed = reader.condition()
    name = source.text.split("(")[0].strip()
    function, operator, limit = _WHOLE[name]
    if rest := source.text[closed + 1 :].strip():
        at = source.text.index(rest, closed + 1)
        hint = f"use count(…) {rest}" if rest[0] in "=!<>" else _SEVERAL
        raise HloError(f"{name}() takes no limit", Span(at, at + len(rest)), source=source, hint=hint)
    span = Span(source.text.index(name), closed + 1)
    return Quantity(function, where, span=span), operator, Number(limit, "", str(limit), Span(closed, closed + 1))


def _limit(source: Source, at: int) -> tuple[Limit, Term]:
    match = _LIMIT.match(source.text, at)
    assert match is not None
    sign, text = match[1], match[2]
    if sign is None:
        word = text.split()[0] if text else ""
        start = match.start(2) if text else len(source.text)
        message = f"expected a limit such as <= 12, found {quoted_token(word)}"
        raise HloError(message, Span(start, start + len(word)), source=source, hint=_SEVERAL if word else None)
    if sign not in _LIMITS:
        hint = "use ==" if sign == "=" else f"available: {', '.join(_LIMITS)}"
        raise HloError(f"expected a comparison, found '{sign}'", Span(*match.span(1)), source=source, hint=hint)
    if not text:
        end = len(source.text)
        raise HloError(f"expected a number after {sign}, found end of input", Span(end, end), source=source)
    return _LIMITS[sign], _limit_at(source, Span(match.start(2), match.start(2) + len(text)))


def _limit_at(source: Source, span: Span) -> Term:
    """The limit in a span that ends with the text: one number, or a term."""
    if _COMPUTED_SIDE.search(source.slice(span)):
        return Terms(source, span.start).whole()
    return number_at(source, span)


# --- places in TOML ---
# The spans of keys and values in a TOML file, which TOML parsers do not report.


Path: TypeAlias = "tuple[str | int, ...]"
"""The keys and array indices that lead to a value."""

_TOML_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r"|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_\-]++")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\n]++")
_CHARACTER: Final = re.compile(r"(\\[ \t]*+\n\s*+)|\\u.{4}|\\U.{8}|\\?.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """The spans of a key, or of the header of its table, and of its value; elements of arrays have no key."""

    key: Span | None
    value: Span


def toml_places(source: Source) -> Mapping[Path, Place]:
    """The spans of all keys and values of a valid TOML text.

    >>> source = Source("a.toml", 'a.b = ["x", {c = 3}]\\n[[t]]\\nd = "y"  # why')
    >>> {path: source.slice(place.value) for path, place in toml_places(source).items() if place.key is None}
    {('a', 'b', 0): '"x"', ('a', 'b', 1): '{c = 3}'}
    >>> source.slice(toml_places(source)["t", 0, "d"].value)
    '"y"'
    """
    reader = _TomlReader(source.text)
    reader.read()
    return reader.places


def place_in_string(source: Source, string: Span, at: int) -> int:
    """The offset of a character of a string's value in the source, with escapes taken into account.

    >>> place_in_string(Source("", r'a = "x \\"y\\" z"'), Span(4, 15), 6)
    13
    """
    text = source.slice(string)
    marks = 3 if text[:3] in ('"""', "'''") else 1
    start = string.start + marks
    if marks == 3 and source.text[start] == "\n":
        start += 1
    if text[0] == "'":
        return start + at
    for match in _CHARACTER.finditer(source.text, start, string.end - marks):
        if match[1] is None:
            if not at:
                return match.start()
            at -= 1
    return string.end - marks


class _TomlReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lengths: dict[Path, int] = {}
        self.places: dict[Path, Place] = {}

    def read(self) -> None:
        """Reads all statements: headers of tables, and keys with their values."""
        table: Path = ()
        while self._skip() < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 1 + is_array
        path = self._within(self._key())
        self._skip()
        self._at += 1 + is_array
        if is_array:
            self._lengths[path] = self._lengths.get(path, -1) + 1
            path = (*path, self._lengths[path])
        self.places[path] = Place(Span(start, self._at), Span(start, self._at))
        return path

    def _within(self, path: Path) -> Path:
        """The path with the index of the last element of every array of tables on it."""
        keys: Path = ()
        for key in path[:-1]:
            keys = (*keys, key)
            if keys in self._lengths:
                keys = (*keys, self._lengths[keys])
        return (*keys, path[-1])

    def _pair(self, table: Path) -> None:
        start = self._skip()
        path = (*table, *self._key())
        key = Span(start, self._at)
        self._skip()
        self._at += 1  # the =
        self.places[path] = Place(key, self._value(path))

    def _key(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            self._skip()
            names.append(self._name())
            end = self._at
            if self._text[self._skip()] != ".":
                self._at = end
                return tuple(names)
            self._at += 1

    def _name(self) -> str:
        import tomllib

        match = _STRING.match(self._text, self._at) or _BARE_KEY.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return next(iter(tomllib.loads(f"{match[0]} = 0")))

    def _value(self, path: Path) -> Span:
        start = self._skip()
        opened = self._text[start]
        if opened == "[":
            self._elements(path)
        elif opened == "{":
            self._members(path)
        else:
            match = _STRING.match(self._text, start) or _BARE_VALUE.match(self._text, start)
            assert match is not None
            self._at = start + len(match[0].rstrip())
        return Span(start, self._at)

    def _elements(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._text[self._skip()] != "]":
            self.places[(*path, number)] = Place(None, self._value((*path, number)))
            number += 1
            self._comma()
        self._at += 1

    def _members(self, path: Path) -> None:
        self._at += 1
        while self._text[self._skip()] != "}":
            self._pair(path)
            self._comma()
        self._at += 1

    def _comma(self) -> None:
        if self._text[self._skip()] == ",":
            self._at += 1

    def _skip(self) -> int:
        match = _TOML_BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at


# --- a file of expectations ---
# TOML with `expect`, `max_peak`, and sections for some modules or targets.


Check: TypeAlias = "Callable[[Expectation], None]"
Toml: TypeAlias = "bool | int | float | str | Sequence[Toml] | Mapping[str, Toml]"

TARGETS: Final = ("tpu", "gpu", "cpu")

_KEYS: Final = ("expect", "max_peak", "module", "target")
_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_HINT: Final = "see `hlo help expect`"


def read_expectations(source: Source, check: Check | None = None) -> tuple[Expectation, ...]:
    """The expectations of a file, in the order of its keys; HloError with all errors in it, and their spans.

    `check` raises HloError for valid syntax with invalid meaning, with a span in the expectation.

    >>> text = 'max_peak.hbm = "14GiB"\\n[target.tpu]\\nexpect = ["none(opcode == copy and loop)"]'
    >>> for each in read_expectations(Source("e.toml", text)): print(each.place, each, *each.sections)
    e.toml:1 max_peak.hbm <= 14GiB
    e.toml:3 none(opcode == copy and loop) target tpu
    """
    return _FileReader(source, check).read()


class _FileReader:
    """Reads one file; errors are collected, so that one run reports all of them."""

    def __init__(self, source: Source, check: Check | None) -> None:
        self._source = source
        self._check = check
        self._content = _load(source)
        self._places = toml_places(source)
        self._errors: list[Diagnostic] = []

    def read(self) -> tuple[Expectation, ...]:
        expectations = tuple(self._section(self._content, (), ()))
        if self._errors:
            raise HloError.of(sorted(self._errors, key=lambda error: error.span.start if error.span else 0))
        if not expectations:
            raise HloError(f"{self._source.name} contains no assertions", hint=_HINT)
        return expectations

    def _section(self, table: Mapping[str, Toml], path: Path, sections: tuple[Section, ...]) -> Iterator[Expectation]:
        for key, value in table.items():
            inside = (*path, key)
            match key, value:
                case "expect", [*listed]:
                    for number, item in enumerate(listed):
                        yield from self._stated(item, (*inside, number), sections)
                case "max_peak", Mapping():
                    for space, limit in value.items():
                        yield from self._peak(space, limit, (*inside, space), sections)
                case ("module" | "target") as kind, Mapping():
                    for pattern, inner in value.items():
                        yield from self._inner(Section(kind, pattern), inner, (*inside, pattern), sections)
                case _:
                    self._wrong_key(key, inside)

    def _inner(self, section: Section, table: Toml, path: Path, around: tuple[Section, ...]) -> Iterator[Expectation]:
        if section.kind == "target" and section.pattern not in TARGETS:
            self._wrong(f"unknown target '{section.pattern}'", self._place(path), f"available: {', '.join(TARGETS)}")
        elif isinstance(table, Mapping):
            yield from self._section(table, path, (*around, section))
        else:
            self._wrong(
                f"{section} must be a section", self._place(path), f'write [{section.kind}."{section.pattern}"]'
            )

    def _stated(self, value: Toml, path: Path, sections: tuple[Section, ...]) -> Iterator[Expectation]:
        """An expectation: a string, or a table with the string and its reason."""
        match value:
            case str():
                yield from self._parsed(value, self._place(path).value, "", sections)
            case {"that": str(text), "why": str(why), **others} if not others:
                yield from self._parsed(text, self._place((*path, "that")).value, why, sections)
            case {"that": str(text), **others} if not others:
                yield from self._parsed(text, self._place((*path, "that")).value, "", sections)
            case _:
                hint = 'a table must have the form {that = "…", why = "…"}'
                self._wrong("expected a string or a table", self._place(path), hint)

    def _parsed(self, text: str, place: Span, why: str, sections: tuple[Section, ...]) -> Iterator[Expectation]:
        try:
            quantity, operator, limit = parse_expectation(text)
            stated = Expectation(" ".join(text.split()), quantity, operator, limit, self._source, place, why, sections)
            if self._check is not None:
                self._check(stated)
        except HloError as error:
            self._errors.append(_in_file(error, self._source, place).diagnostic)
        else:
            yield stated

    def _peak(self, space: str, limit: Toml, path: Path, sections: tuple[Section, ...]) -> Iterator[Expectation]:
        place = self._place(path)
        known = space_words()
        if space.lower() not in known:
            meant = did_you_mean(nearest(space.lower(), known))
            self._wrong(f"unknown memory space '{space}'", place, meant or f"available: {', '.join(known)}")
        elif isinstance(limit, bool) or not isinstance(limit, int | str):
            self._wrong(f"expected a size, found {limit}", place, f'for example, max_peak.{space} = "14GiB"')
        else:
            text = f"max_peak.{space} <= {limit}"
            quantity = Quantity("max_peak", Where(Source("", text), EVERYTHING), space=space.lower())
            try:
                term = _peak_limit(str(limit), place.value)
                span = place.key or place.value
                stated = Expectation(text, quantity, "<=", term, self._source, span, "", sections)
                if self._check is not None:
                    self._check(stated)
            except HloError as error:
                is_text = isinstance(limit, str)
                self._errors.append(_in_file(error, self._source, place.value, is_text=is_text).diagnostic)
            else:
                yield stated

    def _wrong_key(self, key: str, path: Path) -> None:
        if key in _KEYS:
            hint = 'for example, expect = ["none(opcode == copy and loop)"]' if key == "expect" else _HINT
            kind = "a list of strings" if key == "expect" else "a table"
            self._wrong(f"{key} must be {kind}", self._place(path), hint)
            return
        meant = did_you_mean(nearest(key, _KEYS))
        self._wrong(f"unknown key '{key}'", self._place(path), meant or f"available: {', '.join(_KEYS)}")

    def _place(self, path: Path) -> Place:
        """The span of a key or value; of a table that only prefixes others, the span of the first of these."""
        span = self._places.get(path)
        return span or next(place for known, place in self._places.items() if known[: len(path)] == path)

    def _wrong(self, message: str, place: Place, hint: str) -> None:
        self._errors.append(Diagnostic("error", message, self._source, place.key or place.value, hint))


def _peak_limit(text: str, place: Span) -> Term:
    """The limit of a peak: a size, or computed from `golden`."""
    if GOLDEN in text:
        return _parse_computed_limit(text)
    return Number(parse_size(text), "bytes", text, place)


def _in_file(error: HloError, source: Source, string: Span, *, is_text: bool = True) -> HloError:
    """An error in a string of a file, with its span in the file."""
    diagnostic = error.diagnostic
    span = diagnostic.span
    if span is None or not is_text:
        return HloError(diagnostic.message, string, source=source, hint=diagnostic.hint)
    start, end = (place_in_string(source, string, at) for at in (span.start, max(span.start, span.end - 1)))
    return HloError(diagnostic.message, Span(start, max(start, end) + 1), source=source, hint=diagnostic.hint)


def _load(source: Source) -> Mapping[str, Toml]:
    import tomllib

    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        message = _AT.sub("", str(error))
        match = _AT.search(str(error))
        end = len(source.text)
        start = source.line_span(int(match[1]))[0] + int(match[2]) - 1 if match and match[1] else max(0, end - 1)
        lowered = message[:1].lower() + message[1:]
        raise HloError(lowered, Span(start, start + 1), source=source, hint=_HINT) from None
    except RecursionError:  # tomllib recurses once for each nested array
        raise HloError(f"{source.name} is nested too deeply") from None
