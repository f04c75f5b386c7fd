"""Metadata, configurations and other attributes that any instruction or a module may have.

Mirrors `ParseMetadata`, `ParseEntryComputationLayout` and `ParseFrontendAttributes` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Final

from hlo_cli.ir.attributes.metadata import BackendConfig, FrontendAttributes, Metadata
from hlo_cli.ir.attributes.value_types import ComputationLayout
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import (
    fields,
    read_int32,
    read_ints,
    read_list,
    read_string,
    read_string_or_json,
    take_shape,
)

_PROFILE_TYPES: Final = range(4)
_KEPT: Final = tuple(field.name for field in fields_of(Metadata))


def read_metadata(tokens: Tokens) -> Metadata:
    """`{op_name="jit(f)/add" source_line=3}`."""
    found = _METADATA(tokens)
    return Metadata(**{name: found[name] for name in _KEPT if name in found})  # type: ignore[arg-type]


def read_metadata_or_list(tokens: Tokens) -> tuple[Metadata, ...]:
    """`{…}` or `{{…}, {…}}`."""
    if tokens.kind == "{" and tokens.peek() == "{":
        return read_list(tokens, read_metadata)
    return (read_metadata(tokens),)


def read_frontend_attributes(tokens: Tokens) -> FrontendAttributes:
    """`{key="text",other={a=1}}`."""
    return FrontendAttributes(tuple(sorted(read_list(tokens, _read_frontend_attribute))))  # as XLA keeps them


def read_backend_config(tokens: Tokens) -> BackendConfig:
    """`{"key":"value"}`, or anything between quotes."""
    return BackendConfig(read_string_or_json(tokens))


def read_computation_layout(tokens: Tokens) -> ComputationLayout:
    """`{(f32[2]{0})->f32[2]{0}}`."""
    tokens.expect("{", "before the layout of the entry computation")
    tokens.expect("(", "before the parameters")
    parameters = []
    while tokens.kind != ")":
        parameters.append(take_shape(tokens))
        if tokens.kind != ")":
            tokens.expect(",", "between parameters")
    tokens.advance()
    tokens.expect("->", "before the result")
    shape = take_shape(tokens)
    tokens.expect("}", "after the layout of the entry computation")
    return ComputationLayout(tuple(parameters), shape)


def _read_frontend_attribute(tokens: Tokens) -> tuple[str, str]:
    return tokens.expect(tk.ATTRIBUTE, "in frontend_attributes"), read_string_or_json(tokens)


def _read_profile_types(tokens: Tokens) -> tuple[int, ...]:
    start = tokens.start
    types = read_ints(tokens)
    if any(number not in _PROFILE_TYPES for number in types):
        tokens.fail(f"expected a profile type from 0 to {_PROFILE_TYPES[-1]}", start, tokens.previous_end)
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
