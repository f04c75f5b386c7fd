"""The table of fields, read on first use: the number and type of a field name, and the words of enumerations."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from hlo_cli.source import HloError, joined_by_or
from hlo_cli.syntax.proto.tables import ENUM_PREFIXES, ENUMS, IRREGULAR_NAMES, MESSAGES

NUMBERS: Final = frozenset(("int", "uint", "bool"))
"""The types encoded as varints, without enumerations."""
FLOATS: Final = {"float": "<f", "double": "<d"}
"""The types of fixed width, with their format in `struct`."""
TEXTS: Final = frozenset(("string", "bytes"))


class FieldType(NamedTuple):
    """One row of the table."""

    number: int
    type: str
    repeated: bool

    @property
    def is_number(self) -> bool:
        """Whether the value is a varint."""
        return self.type in NUMBERS or self.type in _enums()

    @property
    def is_message(self) -> bool:
        """Whether the value is a message of its own."""
        return not self.is_number and self.type not in FLOATS and self.type not in TEXTS


@cache
def fields_of(message: str) -> dict[str, FieldType]:
    """The fields of a message by name.

    >>> fields_of("SourceTarget")["target"].number
    2
    """
    fields = {}
    for column in _rows(MESSAGES)[message]:
        number, name, kind = column.split(":")
        fields[name] = FieldType(int(number), kind.removeprefix("*"), kind.startswith("*"))
    return fields


def word_of(enum: str, number: int) -> str:
    """The word in HLO text for a value of an enumeration.

    >>> word_of("Precision", 2), word_of("PrimitiveType", 11)
    ('highest', 'f32')
    """
    words = _enums()[enum]
    if not 0 <= number < len(words):
        raise HloError(f"unknown {enum} value {number}")
    return words[number]


def number_of_word(enum: str, word: str) -> int:
    """The value of a word, ignoring case.

    >>> number_of_word("CustomCallSchedule", "SCHEDULE_LATEST")
    1
    """
    words = _enums()[enum]
    if word in words:
        return words.index(word)
    folded = [known.casefold() for known in words]
    if word.casefold() not in folded:
        raise HloError(f"unknown {enum} '{word}'", hint=f"expected one of {joined_by_or(words)}")
    return folded.index(word.casefold())


@cache
def enum_names(enum: str) -> dict[str, int]:
    """The values of an enumeration by their names in protos, and by those of their words.

    >>> enum_names("PrimitiveType")["OPAQUE_TYPE"], enum_names("Algorithm")["ALG_UNSET"]
    (14, 0)
    """
    prefix = ENUM_PREFIXES.get(enum, "")
    words = {word.upper().replace("-", "_"): number for number, word in enumerate(_enums()[enum])}
    irregular = {name: words[word] for name, word in IRREGULAR_NAMES.get(enum, {}).items()}
    return irregular | {prefix + word: number for word, number in words.items()} | words


@cache
def _enums() -> dict[str, list[str]]:
    return _rows(ENUMS)


@cache
def _rows(table: str) -> dict[str, list[str]]:
    lines = table.replace("\n  ", " ").splitlines()
    return {name: columns for name, *columns in map(str.split, lines)}
