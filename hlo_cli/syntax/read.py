"""A module from an input, text or proto."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.text.build import Infer
from hlo_cli.syntax.text.parser import parse_module

_LOOKED_AT: Final = 1 << 16
_PROTO_WORDS: Final = ("computations", "instructions", "opcode", "hlo_module", "hloModule")
"""Names of fields of which every recognized proto text has one."""


def read_module(
    source: Source, proto: bytes | None = None, *, strict: bool = False, infer: Infer | None = None
) -> Module:
    """The module in a source, or in the bytes of a proto of that name; with `strict`, as XLA's parser accepts it.

    A source may hold a proto as text.

    `infer` returns the shapes that a text omits; protos omit none.

    A proto has no lines, so nothing in its module has a span; in strict mode its printed text is read.

    >>> read_module(Source("m.txt", "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")).name
    'm'
    """
    if proto is None and not _is_proto_text(source.text):
        return parse_module(source, strict=strict, infer=infer)
    if proto is None:
        from hlo_cli.syntax.proto.read_proto_text import read_proto_text

        module = read_proto_text(source)
        if strict and module.errors:
            raise HloError.of(module.errors)
    else:
        from hlo_cli.syntax.proto.read_module import read_proto

        module = read_proto(proto, source)
    return parse_module(Source(source.name, str(module)), strict=True, infer=infer) if strict else module


def _is_proto_text(text: str) -> bool:
    """Whether to read a text as a proto; costs nothing for most dumps."""
    if text.startswith("HloModule") or not any(word in text[:_LOOKED_AT] for word in _PROTO_WORDS):
        return False
    from hlo_cli.syntax.proto.read_proto_text import looks_like_proto_text

    return looks_like_proto_text(text)
