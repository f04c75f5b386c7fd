"""A module from an input, text or proto."""

from __future__ import annotations

from hlo_cli.ir.module import Module
from hlo_cli.source import Source
from hlo_cli.syntax.text.omitted_shapes import Infer
from hlo_cli.syntax.text.parser import parse_module


def read_module(
    source: Source, proto: bytes | None = None, *, strict: bool = False, infer: Infer | None = None
) -> Module:
    """The module in a source, or in the bytes of a proto of that name; with `strict`, as XLA's parser accepts it.

    `infer` returns the shapes that a text omits; protos omit none.

    A proto has no lines, so nothing in its module has a span; in strict mode its printed text is read.

    >>> read_module(Source("m.txt", "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")).name
    'm'
    """
    if proto is None:
        return parse_module(source, strict=strict, infer=infer)
    from hlo_cli.syntax.proto.read import read_proto

    module = read_proto(proto, source)
    return parse_module(Source(source.name, str(module)), strict=True, infer=infer) if strict else module
