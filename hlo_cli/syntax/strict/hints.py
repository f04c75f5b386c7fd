"""Errors of strict reading for the most common mistakes, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from hlo_cli.source import Span, did_you_mean
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.suggestions import (
    FORM,
    computed_below,
    defined_below,
    like,
    opcode_like,
    type_like,
)
from hlo_cli.syntax.scanning.tokens import Tokens


def no_opcode(tokens: Tokens, *, after_shape: bool) -> NoReturn:
    """Fails if the current token is not an opcode; in place of a shape it may be a misspelled element type."""
    word, after = tokens.text, tokens.peek()
    if tokens.kind == tk.IDENT and after == "(":
        hint = did_you_mean(opcode_like(word))
        tokens.fail(f"unknown opcode '{word}'", tokens.start, tokens.end, hint=hint)
    if tokens.kind == tk.IDENT and after == "[" and not after_shape:
        hint = did_you_mean(type_like(word))
        tokens.fail(f"unknown element type '{word}'", tokens.start, tokens.end, hint=hint)
    tokens.fail("expected an opcode", hint=FORM)


def no_instruction(tokens: Tokens, name: str, span: Span, above: Iterable[str]) -> NoReturn:
    """Fails for an undefined instruction name; it may be defined below, or be misspelled."""
    hint = defined_below(tokens.source, name, span.end) or like(name, above)
    tokens.fail(f"undefined instruction '{name}'", span.start, span.end, hint=hint)


def no_computation(tokens: Tokens, name: str, span: Span, above: Iterable[str]) -> NoReturn:
    """Fails for an undefined computation name; it may be defined below, or be misspelled."""
    hint = computed_below(tokens.source, name, span.end) or like(name, above)
    tokens.fail(f"undefined computation '{name}'", span.start, span.end, hint=hint)


def check_comma(tokens: Tokens, known: Mapping[str, object]) -> None:
    """Fails if the current token is one of the known attributes: the comma before it is missing."""
    if tokens.kind == tk.ATTRIBUTE and tokens.text in known and "\n" not in tokens.gap:
        tokens.fail(f"expected a comma before attribute {tokens.text}", tokens.start, tokens.end)


def check_stray(tokens: Tokens, closing: str) -> None:
    """Fails if the current token is an unmatched closing bracket."""
    if tokens.kind and tokens.kind in closing:
        tokens.fail(f"unmatched '{tokens.kind}'", tokens.start, tokens.end)
