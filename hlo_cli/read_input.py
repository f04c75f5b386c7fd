"""Which module an input is: text of HLO or StableHLO, or a proto.

It knows the dump of the same program before optimizations.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.inputs.dumps import FIRST_STAGE, LAST_STAGE, dump_of_stage, proto_of
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.text.build import Infer
from hlo_cli.syntax.text.parser import parse_module

# --- text or proto ---
# A module from an input, text or proto.


_LOOKED_AT: Final = 1 << 16  # protobuf text names its fields from the first line on
# one of them is in any part of a module in protobuf's text format; not worth a parse without
_PROTO_WORDS: Final = ("computations", "instructions", "opcode", "hlo_module", "hloModule")
"""Names of fields of which every recognized proto text has one."""


def read_module(
    source: Source, proto: bytes | None = None, *, strict: bool = False, infer: Infer | None = None
) -> Module:
    """The module in a source, or in the bytes of a proto of that name; with `strict`, as XLA's parser accepts it.

    A source may hold StableHLO, whose module has its places in that text, or a proto as text.

    `infer` returns the shapes that a text omits; protos omit none.

    A proto has no lines, so nothing in its module has a span; in strict mode its printed text is read, as is that of
    StableHLO.

    >>> read_module(Source("m.txt", "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")).name
    'm'
    """
    is_mlir = proto is None and _is_mlir(source.text)
    if proto is None and not is_mlir and not _is_proto_text(source.text):
        return parse_module(source, strict=strict, infer=infer)
    if is_mlir:
        from hlo_cli.syntax.stablehlo.read_stablehlo import read_stablehlo

        module = read_stablehlo(source)
    elif proto is None:
        from hlo_cli.syntax.proto.read_proto_text import read_proto_text

        module = read_proto_text(source)
        if strict and module.errors:
            raise HloError.of(module.errors)
    else:
        from hlo_cli.syntax.proto.read_module import read_proto

        module = read_proto(proto, source)
    return parse_module(Source(source.name, str(module)), strict=True, infer=infer) if strict else module


def _is_mlir(text: str) -> bool:
    """Whether to read a text as StableHLO; costs nothing for most dumps."""
    if text.startswith("HloModule"):
        return False
    from hlo_cli.inputs.stablehlo import is_stablehlo

    return is_stablehlo(text)


def _is_proto_text(text: str) -> bool:
    """Whether to read a text as a proto; costs nothing for most dumps."""
    if text.startswith("HloModule") or not any(word in text[:_LOOKED_AT] for word in _PROTO_WORDS):
        return False
    from hlo_cli.syntax.proto.read_proto_text import looks_like_proto_text

    return looks_like_proto_text(text)


# --- an input and what is next to it ---
# The module of an input, which knows the dump of the same program before optimizations.


def read_input(given: Input, *, strict: bool = False) -> Module:
    """The module of an input; `program`, `generated`, and `proto` of it are read from files next to it, when asked for.

    >>> from hlo_cli.source import Source
    >>> module = read_input(Input(Source("m.txt", "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }"), None))
    >>> module.name, module.program
    ('m', None)
    """
    module = read_module(given.source, given.proto, strict=strict, infer=omitted_shape)
    if given.path is not None and given.dump is not None:
        module.read_program = partial(_read_stage, given, FIRST_STAGE)
        module.read_generated = partial(_read_stage, given, LAST_STAGE)
        module.read_proto = partial(_read_proto, given.path)
    return module


def _read_stage(given: Input, stage: str) -> Module | None:
    """The module in another dump of the same program; None without one, or if it cannot be read."""
    assert given.path is not None
    assert given.dump is not None
    with suppress(HloError, OSError):
        path = dump_of_stage(given.path, given.dump, stage)
        for input_ in [] if path is None else read_inputs([path])[:1]:
            return read_module(input_.source, input_.proto, infer=omitted_shape)
    return None


def _read_proto(path: str) -> Module | None:
    """The module in the proto next to a text; None without one, or if it cannot be read."""
    with suppress(HloError, OSError):
        proto = proto_of(path)
        for input_ in [] if proto is None else read_inputs([proto])[:1]:
            return read_module(input_.source, input_.proto)
    return None
