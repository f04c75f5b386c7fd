"""A file of expectations: TOML with `expect`, `max_peak`, and sections for some modules or targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from hlo_cli.ir.expressions import EVERYTHING, Expectation, Number, Quantity, Section, Term, Where
from hlo_cli.ir.memory_space import space_words
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean, nearest
from hlo_cli.syntax.queries.assertion import parse_computed_limit, parse_expectation
from hlo_cli.syntax.queries.sizes import parse_size
from hlo_cli.syntax.queries.terms import GOLDEN
from hlo_cli.syntax.queries.toml_spans import Path, Place, place_in_string, toml_places

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
    return _Reader(source, check).read()


class _Reader:
    """Reads one file; errors are collected, so that one run reports all of them."""

    def __init__(self, source: Source, check: Check | None) -> None:
        self._source = source
        self._check = check
        self._content = _load(source)
        self._places = toml_places(source)
        self._errors: list[Diagnostic] = []

    def read(self) -> tuple[Expectation, ...]:
        found = tuple(self._section(self._content, (), ()))
        if self._errors:
            raise HloError.of(sorted(self._errors, key=lambda each: each.span.start if each.span else 0))
        if not found:
            raise HloError(f"{self._source.name} contains no assertions", hint=_HINT)
        return found

    def _section(self, table: Mapping[str, Toml], path: Path, sections: tuple[Section, ...]) -> Iterator[Expectation]:
        for key, value in table.items():
            inside = (*path, key)
            match key, value:
                case "expect", [*listed]:
                    for number, each in enumerate(listed):
                        yield from self._stated(each, (*inside, number), sections)
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
        found = self._places.get(path)
        return found or next(place for known, place in self._places.items() if known[: len(path)] == path)

    def _wrong(self, message: str, place: Place, hint: str) -> None:
        self._errors.append(Diagnostic("error", message, self._source, place.key or place.value, hint))


def _peak_limit(text: str, place: Span) -> Term:
    """The limit of a peak: a size, or computed from `golden`."""
    if GOLDEN in text:
        return parse_computed_limit(text)
    return Number(parse_size(text), "bytes", text, place)


def _in_file(error: HloError, source: Source, string: Span, *, is_text: bool = True) -> HloError:
    """An error in a string of a file, with its span in the file."""
    each = error.diagnostic
    span = each.span
    if span is None or not is_text:
        return HloError(each.message, string, source=source, hint=each.hint)
    start, end = (place_in_string(source, string, at) for at in (span.start, max(span.start, span.end - 1)))
    return HloError(each.message, Span(start, max(start, end) + 1), source=source, hint=each.hint)


def _load(source: Source) -> Mapping[str, Toml]:
    import tomllib

    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        message = _AT.sub("", str(error))
        at = _AT.search(str(error))
        end = len(source.text)
        start = source.line_span(int(at[1]))[0] + int(at[2]) - 1 if at and at[1] else max(0, end - 1)
        lowered = message[:1].lower() + message[1:]
        raise HloError(lowered, Span(start, start + 1), source=source, hint=_HINT) from None
    except RecursionError:
        raise HloError(f"{source.name} is nested too deeply") from None
