"""Metadata, origins and other attributes that any instruction or a module may have.

Mirrors `ParseMetadata`, `ParseOriginalValueImpl` and `ParseFrontendAttributes` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.strict import tokens as tk
from hlo_cli.syntax.strict.tokens import Tokens
from hlo_cli.syntax.strict.values import (
    fields,
    one_of,
    read_bool,
    read_int,
    read_int32,
    read_ints,
    read_list,
    read_shape_index,
    read_string,
    read_string_or_json,
    take_shape,
)

_PROFILE_TYPES: Final = range(4)


def read_metadata(tokens: Tokens) -> object:
    """`{op_name="jit(f)/add" source_line=3}`."""
    return _METADATA(tokens)


def read_metadata_or_list(tokens: Tokens) -> object:
    """`{…}` or `{{…}, {…}}`."""
    if tokens.kind == "{" and tokens.peek() == "{":
        return read_list(tokens, _METADATA)
    return _METADATA(tokens)


def read_frontend_attributes(tokens: Tokens) -> object:
    """`{key="text",other={a=1}}`."""
    return read_list(tokens, _read_frontend_attribute)


def read_origin(tokens: Tokens) -> object:
    """`{{"a" {0}}}`, `{({"a"}, {"b"})}` or `{[synthetic_call]}`."""
    tokens.expect("{", "before the origin")
    if tokens.accept("["):
        if tokens.kind != tk.IDENT or tokens.text != "synthetic_call":
            tokens.fail("expected synthetic_call")
        tokens.advance()
        tokens.expect("]", "after synthetic_call")
    else:
        _read_tree(tokens)
    tokens.expect("}", "after the origin")
    return None


def read_origin_array(tokens: Tokens) -> None:
    """`{"a" {0}}` or `{}`."""
    tokens.expect("{", "before the name of an original instruction")
    if tokens.accept(tk.STRING) and tokens.kind == "{":
        read_shape_index(tokens)
    tokens.expect("}", "after an original instruction")


def read_computation_layout(tokens: Tokens) -> object:
    """`{(f32[2]{0})->f32[2]{0}}`: the shape of the result."""
    tokens.expect("{", "before the layout of the entry computation")
    tokens.expect("(", "before the parameters")
    while tokens.kind != ")":
        take_shape(tokens)
        if tokens.kind != ")":
            tokens.expect(",", "between parameters")
    tokens.advance()
    tokens.expect("->", "before the result")
    shape = take_shape(tokens)
    tokens.expect("}", "after the layout of the entry computation")
    return shape


def read_debug_attributes(tokens: Tokens) -> object:
    """`{ {"a" {0}}:({log_mode=default}, {op_id=3}) }`."""
    return read_list(tokens, _read_debug_attribute)


def _read_debug_attribute(tokens: Tokens) -> object:
    read_origin_array(tokens)
    tokens.expect(":", "after the instruction")
    return read_list(tokens, _DEBUG, "()") if tokens.kind == "(" else _DEBUG(tokens)


def _read_frontend_attribute(tokens: Tokens) -> object:
    tokens.expect(tk.ATTRIBUTE, "of a frontend attribute, as name=")
    return read_string_or_json(tokens)


def _read_tree(tokens: Tokens) -> None:
    depth = 0
    while tokens.kind != "}":
        if tokens.kind == "{":
            read_origin_array(tokens)
        elif tokens.kind == "(":
            depth += 1
            tokens.advance()
        elif tokens.kind == ")" or (tokens.kind == "," and depth > 0):
            depth -= tokens.kind == ")"
            tokens.advance()
        else:
            tokens.fail("expected a tree of original instructions")


def _read_profile_types(tokens: Tokens) -> object:
    start = tokens.start
    types = read_ints(tokens)
    if any(number not in _PROFILE_TYPES for number in types):
        tokens.fail(f"profile types are 0 to {_PROFILE_TYPES[-1]}", start, tokens.previous_end)
    return types


_METADATA: Final = fields(
    {
        "op_type": read_string,
        "op_name": read_string,
        "source_file": read_string,
        "source_line": read_int32,
        "source_end_line": read_int32,
        "source_column": read_int32,
        "source_end_column": read_int32,
        "profile_type": _read_profile_types,
        "deduplicated_name": read_string,
        "scheduling_name": read_string,
        "stack_frame_id": read_int32,
        "metadata_payload": read_string,
    }
)
_DEBUG: Final = fields(
    {
        "log_mode": one_of("default fusion_debugger", any_case=True),
        "callback_id": read_int,
        "partitioned": read_bool,
        "op_id": read_int,
    }
)
