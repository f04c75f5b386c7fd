r"""Parses dictionaries of MLIR attributes, the text form of the attributes of typed custom calls.

Mirrors the attribute grammar of mlir/lib/AsmParser/AttributeParser.cpp as far as xla/ffi/attribute_map.cc accepts it.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.dataclass import dataclass

_MAX_DEPTH: Final = 64
_SPACE: Final = re.compile(r"\s*+")
_NAME: Final = re.compile(r'[A-Za-z_][\w.$-]*+|"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+(?:[eE][+-]?\d++)?)?+)(?![\w.])")
_WORD: Final = re.compile(r"(?:true|false|unit)(?![\w.<])")
_ARRAY: Final = re.compile(r"array<\s*+(\w++)\s*+(?::([^<>]*+))?+>")
_TENSOR: Final = re.compile(r"\s*+(?:tensor|vector)<((?:\d++x)*+)(\w++)>")
_PIECE: Final = re.compile(r'[^"\[\](){}<>,-]++|"(?:[^"\\]++|\\.)*+"|->|.', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-9A-Fa-f]{2}|[nt\"\\])")
_LETTERS: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class MlirScalar:
    """Boolean or number; `type` is `i1`, `ui8`, `f32`, or another type, `i64` or `f64` if the text has none."""

    value: bool | int | float
    type: str

    def __str__(self) -> str:
        return str(self.value).lower() if self.type == "i1" else str(self.value)


@dataclass(frozen=True, slots=True)
class MlirText:
    """String without escapes; invalid UTF-8 is kept as surrogates."""

    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class MlirArray:
    """Numbers of one type: `array<i64: 1, 2>`, or `dense<…>` without its dimensions, which FFI drops."""

    type: str
    count: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class MlirOther:
    """Text of an attribute that FFI does not accept: types, lists, symbols, maps, and attributes of other dialects."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class MlirDictionary:
    """Attributes by name."""

    entries: tuple[tuple[str, MlirAttribute], ...]

    def get(self, name: str) -> MlirAttribute | None:
        """Attribute of a name, or None."""
        return dict(self.entries).get(name)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name} = {value}" for name, value in self.entries) + "}"


MlirAttribute = MlirScalar | MlirText | MlirArray | MlirOther | MlirDictionary


def read_dictionary(text: str) -> MlirDictionary | None:
    """Dictionary in a text; None if the whole text is not one.

    >>> found = read_dictionary('{uplo = 76 : ui8, sizes = array<i64: 1, 2>, deep = {on = true}, name = "a\\\\22"}')
    >>> found.get("uplo"), found.get("sizes").count, found.get("deep").get("on").value, found.get("name").value
    (MlirScalar(value=76, type='ui8'), 2, True, 'a"')
    >>> read_dictionary('{"a": 1}') is None
    True
    """
    text = text.strip()
    if not text.startswith("{"):
        return None
    try:
        found, end = _dictionary(text, 0, 0)
    except _NotMlirError:
        return None
    return found if end == len(text) else None


class _NotMlirError(Exception):
    """Raised if the text is not a dictionary of attributes."""


def _dictionary(text: str, pos: int, depth: int) -> tuple[MlirDictionary, int]:
    entries: list[tuple[str, MlirAttribute]] = []
    pos = _after_space(text, pos + 1)
    while not text.startswith("}", pos):
        if (name := _NAME.match(text, pos)) is None:
            raise _NotMlirError
        pos = _after_space(text, name.end())
        value: MlirAttribute = MlirOther("unit")
        if text.startswith("=", pos):
            value, pos = _value(text, _after_space(text, pos + 1), depth + 1)
            pos = _after_space(text, pos)
        entries.append((_unescaped(name[0][1:-1]) if name[0][0] == '"' else name[0], value))
        if text.startswith(",", pos):
            pos = _after_space(text, pos + 1)
        elif not text.startswith("}", pos):
            raise _NotMlirError
    return MlirDictionary(tuple(entries)), pos + 1


def _value(text: str, pos: int, depth: int) -> tuple[MlirAttribute, int]:
    """Attribute at a position, including its type, and the position after it."""
    if text.startswith("{", pos) and depth < _MAX_DEPTH:
        return _dictionary(text, pos, depth)
    end = _end_of_value(text, pos)
    whole = text[pos:end].strip()
    if (match := _WORD.match(text, pos)) is not None and match[0] != "unit":
        return MlirScalar(match[0] == "true", "i1"), end
    if (match := _NUMBER.match(text, pos)) is not None:
        return _number(match[0], text[match.end() : end].strip().removeprefix(":").strip(), whole), end
    if (match := _STRING.match(text, pos)) is not None:
        return MlirText(_unescaped(match[1])), end
    if (match := _ARRAY.fullmatch(whole)) is not None:
        return MlirArray(match[1], len(match[2].split(",")) if (match[2] or "").strip() else 0, whole), end
    if whole.startswith("dense<") and (match := _TENSOR.fullmatch(whole.rpartition(":")[2])) is not None:
        return MlirArray(match[2], _elements(match[1]), whole), end
    if not whole:
        raise _NotMlirError
    return MlirOther(whole), end


def _number(digits: str, type_name: str, whole: str) -> MlirAttribute:
    if "." in digits or (type_name.startswith(("f", "bf")) and "0x" not in digits):
        return MlirScalar(float(digits), type_name or "f64")
    if len(digits) > 40 or type_name.startswith(("f", "bf")):
        return MlirOther(whole)
    return MlirScalar(int(digits, 0) if "0x" in digits else int(digits), type_name or "i64")


def _elements(sizes: str) -> int:
    count = 1
    for size in sizes.split("x")[:-1]:
        count *= int(size[:20])
    return count


def _end_of_value(text: str, pos: int) -> int:
    """Position after the value: of a comma or closing brace outside all brackets."""
    depth = 0
    while (match := _PIECE.match(text, pos)) is not None:
        piece = match[0]
        if depth == 0 and piece in ",}":
            return pos
        depth += (piece in "[({<") - (piece in "])}>")
        if depth < 0:
            raise _NotMlirError
        pos = match.end()
    raise _NotMlirError


def _after_space(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match is not None else pos


def _unescaped(text: str) -> str:
    r"""String without escapes; two hexadecimal digits are a byte.

    >>> _unescaped(r"\C3\A9\n"), _unescaped(r"\FF")
    ('é\n', '\udcff')
    """
    if "\\" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape").decode("latin-1")
    undone = _ESCAPE.sub(lambda match: _LETTERS.get(match[1]) or chr(int(match[1], 16)), data)
    return undone.encode("latin-1").decode("utf-8", "surrogateescape")
