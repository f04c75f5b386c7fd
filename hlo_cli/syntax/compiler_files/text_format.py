"""Which fields a message in protobuf's text format has, for messages whose kinds are not in our table.

Mirrors google/protobuf/text_format.cc, as far as compilers write it. A text that was cut is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.notation import unquote
from hlo_cli.source import HloError, Source, Span

_STRING: Final = r'"(?:[^"\\\n]|\\[^\n])*+"'
TOKEN: Final = re.compile(
    rf"(?:[\s,;]++|#[^\n]*+)*+(?:(\w++)\s*+(?::\s*+({_STRING}(?:\s*+{_STRING})*+|[^\s\"{{}}<>#,;]++)|:?\s*+([{{<]))|([}}>])|(\Z))"
)
"""A field with a value, the name and the bracket of a message, its closing bracket, or the end."""
_BLANK: Final = re.compile(r"(?:[\s,;]++|#[^\n]*+)*+")
_PART = re.compile(_STRING)
_MAX_DIGITS: Final = 20  # 2^64 has 20: the last digit would need a comparison, and no field needs it
_MAX_DEPTH: Final = 100
"""The deepest nesting, as in the C++ reader."""


class TextMessage:
    """A message: the values of each field, as they are written, and the messages in it.

    >>> read_text_message('name: "a" size: 3 part { id: 1 } part { id: 2 }').number("size")
    3
    """

    __slots__ = ("_messages", "_values")

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._messages: dict[str, list[TextMessage]] = {}

    def messages(self, name: str) -> Sequence[TextMessage]:
        """The messages of a field, in their order."""
        return self._messages.get(name, ())

    def message(self, name: str) -> TextMessage:
        """The last message of a field; an empty one without any."""
        return self._messages[name][-1] if name in self._messages else TextMessage()

    def text(self, name: str) -> str:
        """The last value of a field, a string without its quotes; empty without one."""
        return value_text(self._values[name][-1]) if name in self._values else ""

    def texts(self, name: str) -> Sequence[str]:
        """The values of a field, strings without their quotes."""
        return tuple(map(value_text, self._values.get(name, ())))

    def number(self, name: str) -> int:
        """The last value of a field as a whole number; 0 without one, and for what is none."""
        return whole_number(self._values[name][-1]) if name in self._values else 0

    def values(self) -> Iterator[tuple[str, str]]:
        """The fields that are no messages, each with a value."""
        return ((name, value_text(value)) for name, values in self._values.items() for value in values)

    def add(self, name: str, value: str) -> None:
        """Adds a value as it is written."""
        self._values.setdefault(name, []).append(value)

    def open(self, name: str) -> TextMessage:
        """Adds a message, and returns it."""
        self._messages.setdefault(name, []).append(inner := TextMessage())
        return inner


@no_garbage_collection()
def read_text_message(text: str) -> TextMessage:
    """The message in a text, up to where it is no text of protobuf any more.

    >>> message = read_text_message('pass { name: "a" "b" } pass { name: "c" } part {')
    >>> [each.text("name") for each in message.messages("pass")], len(message.messages("part"))
    (['ab', 'c'], 1)
    """
    return _read_until(text)[0]


@no_garbage_collection()
def read_whole_message(source: Source) -> TextMessage:
    """The message in a text that is nothing else; raises HloError where it is not, or ends too early.

    >>> read_whole_message(Source("t.txtpb", "part { id: 1  = 2 }"))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: t.txtpb:1:15: error: expected a field of a protobuf message
    """
    message, at, depth = _read_until(source.text)
    end = len(source.text)
    rest = _BLANK.match(source.text, at)
    start = rest.end() if rest else at
    if start < end:
        raise HloError("expected a field of a protobuf message", Span(start, start + 1), source=source)
    if depth:
        raise HloError("unexpected end of input: a '}' is missing", Span(max(end - 1, 0), end), source=source)
    return message


def _read_until(text: str) -> tuple[TextMessage, int, int]:
    """The message in a text, where reading ended, and the number of messages that are open there."""
    whole = TextMessage()
    open_messages, at = [whole], 0
    while (match := TOKEN.match(text, at)) is not None and match[5] is None:
        name, value, opening, closing, _ = match.groups()
        if opening is not None:
            if len(open_messages) > _MAX_DEPTH:
                break
            open_messages.append(open_messages[-1].open(name))
        elif closing is None:
            open_messages[-1].add(name, value)
        elif len(open_messages) > 1:
            open_messages.pop()
        else:
            break
        at = match.end()
    return whole, at, len(open_messages) - 1


def value_text(value: str) -> str:
    """The content of a string, which may be in several parts; other values as they are."""
    return "".join(unquote(part) for part in _PART.findall(value)) if value.startswith('"') else value


def whole_number(digits: str) -> int:
    """A whole number of at most 64 bits; 0 for what is none.

    >>> whole_number("12"), whole_number("1.5"), whole_number("9" * 40)
    (12, 0, 0)
    """
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < _MAX_DIGITS else 0
