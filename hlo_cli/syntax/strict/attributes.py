"""Strict reader of attributes: known names, each once, all required ones, and every value by its grammar.

Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.source import Span, did_you_mean, nearest
from hlo_cli.syntax.attributes.row import AttributeRow, Kind
from hlo_cli.syntax.attributes.table import Rules
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import Reader

Values = tuple[dict[str, object], dict[str, Span]]
"""The values of the attributes, and their spans."""


def read_rules(tokens: Tokens, rules: Rules, grammars: Mapping[Kind, Reader], of: str) -> Values:
    """The attributes that come next, each after a comma."""
    values: dict[str, object] = {}
    spans: dict[str, Span] = {}
    while tokens.accept(","):
        start, name, end = tokens.start, tokens.text, tokens.end
        if tokens.kind != tk.ATTRIBUTE:
            tokens.fail("expected an attribute, such as name=value,")
        rule = rules.get(name)
        if rule is None or rule.is_old:
            _unknown(tokens, Span(start, end), name, rules, of)
        elif name in values:
            tokens.fail(f"duplicate attribute {name}", start, end)
        else:
            tokens.advance()
            values[name] = grammars[rule.kind](tokens)
            spans[name] = Span(start, tokens.previous_end)
    return values, spans


def check_required(tokens: Tokens, rules: Rules, values: Mapping[str, object], of: str, span: Span) -> None:
    """Fails at `span` if an attribute is missing."""
    for name, rule in rules.items():
        if rule.required and name not in values:
            tokens.fail(f"missing attribute {name} on {of}", span.start, span.end)


def _unknown(tokens: Tokens, span: Span, name: str, rules: Mapping[str, AttributeRow], of: str) -> None:
    close = nearest(name, (rule.name for rule in rules.values() if not rule.is_old))
    what = f"{of} has no attribute '{name}'" + (" (removed from XLA)" if name in rules else "")
    tokens.fail(what, span.start, span.end, hint=did_you_mean(close))
