"""Attribute values read from their texts: each distinct text once, by the grammar of its kind.

Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc; a text outside its grammar stays text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from hlo_cli.ir.attributes.value_types import AttributeValue, Name
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attributes.row import Kind
from hlo_cli.syntax.attributes.table import HEADER_ATTRIBUTES, attributes_of
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import read_list, read_name
from hlo_cli.syntax.values.grammars import GRAMMARS, ValueReader
from hlo_cli.syntax.values.metadata import parse_metadata
from hlo_cli.syntax.values.plain_values import plain_groups, plain_sharding

_PLAIN_NAME: Final = lazy_regex(r"%([A-Za-z_][A-Za-z0-9_.\-]*+)")


def read_attribute_value(opcode: str, attribute: str, text: str) -> AttributeValue:
    """The value of an instruction's attribute; its text if the attribute is unknown or the text unreadable.

    >>> read_attribute_value("reduce", "dimensions", "{0,1}"), read_attribute_value("reduce", "dimensions", "{0,x}")
    ((0, 1), '{0,x}')
    """
    rule = attributes_of(opcode).get(attribute)
    return UnparsedText(text) if rule is None else read_value_text(rule.kind, text)


def read_header_value(attribute: str, text: str) -> AttributeValue:
    """The value of a header attribute.

    >>> read_header_value("num_partitions", "4")
    4
    """
    rule = HEADER_ATTRIBUTES.get(attribute)
    return UnparsedText(text) if rule is None else read_value_text(rule.kind, text)


@lru_cache(maxsize=1 << 16)
def read_value_text(kind: Kind, text: str) -> AttributeValue:
    """The value in a text, by the grammar of a kind.

    >>> str(read_value_text(Kind.WINDOW, "{size=3 stride=1 pad=0_1}"))
    '{size=3 pad=0_1}'
    """
    if kind is Kind.METADATA:
        return parse_metadata(text)
    if kind is Kind.COMPUTATION and (match := _PLAIN_NAME.fullmatch(text)) is not None:
        return Name(match[1])
    if kind is Kind.REPLICA_GROUPS and (groups := plain_groups(text)) is not None:
        return groups
    if kind is Kind.SHARDING and (sharding := plain_sharding(text)) is not None:
        return sharding
    try:
        tokens = Tokens(Source("", text))
        value = _readers()[kind](tokens)
        return value if tokens.kind == tk.END else UnparsedText(text)
    except HloError:
        return UnparsedText(text)


def parse_failure(kind: Kind, text: str) -> str | None:
    """The error in a text that is not a value of this kind, and a hint; None if it is one.

    >>> parse_failure(Kind.INTS, "[0]"), parse_failure(Kind.DIRECTION, "lt")
    ("expected '{' before a list, found '['", "did you mean 'LT'?")
    """
    tokens = Tokens(Source("", text))
    try:
        _readers()[kind](tokens)
    except HloError as error:
        return error.diagnostic.hint or error.diagnostic.message
    return None if tokens.kind == tk.END else f"expected end of value, found '{tokens.text}'"


@cache
def _readers() -> Mapping[Kind, ValueReader]:
    return MappingProxyType({**GRAMMARS, **_NAMES})


def _read_computation(tokens: Tokens) -> Name:
    return Name(read_name(tokens, "a computation"))


def _read_computations(tokens: Tokens) -> tuple[Name, ...]:
    return read_list(tokens, _read_computation)


def _read_instructions(tokens: Tokens) -> tuple[Name, ...]:
    return read_list(tokens, lambda tokens: Name(read_name(tokens, "an instruction")))


_NAMES: Final[Mapping[Kind, ValueReader]] = MappingProxyType(
    {
        Kind.COMPUTATION: _read_computation,
        Kind.COMPUTATIONS: _read_computations,
        Kind.INSTRUCTIONS: _read_instructions,
    }
)
