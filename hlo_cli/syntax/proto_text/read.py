"""A module from one of XLA's messages as text, whole or in part: `.pbtxt` files, `print(proto)`, `MessageToJson`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from hlo_cli.ir.module import Findings, Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.read import read_proto
from hlo_cli.syntax.proto_text.encoder import Encoded, encode_text
from hlo_cli.syntax.proto_text.partial import completed
from hlo_cli.syntax.proto_text.tokens import BLANK, START

_LOOKED_AT: Final = 1 << 16
"""The most characters from which a text is recognized."""
_FIELD: Final = r"\"?[A-Za-z0-9_]++\"?\s*+"
_HEAD: Final = lazy_regex(
    rf"{START}(?:\{{{BLANK})?+(?:{_FIELD}(?::|[{{<]{BLANK}(?:{_FIELD}[:{{<\[]|[}}>]))|[}}>]{BLANK}(?:{_FIELD}[:{{<]|[}}>]))"
)
_EVIDENCE: Final = lazy_regex(
    r"\b(?:(?:computations|instructions|hlo_?[mM]odule)\"?\s*+:?\s*+(?:\[\s*+)?+[{<]|opcode\"?\s*+:\s*+[\"'])"
)


def looks_like_proto_text(text: str) -> bool:
    """Whether a text is a message with HLO in it, or part of one, as protobuf prints it; reads its first 64 KiB only.

    >>> looks_like_proto_text('computations { name: "e" }'), looks_like_proto_text("e { p = f32[] parameter(0) }")
    (True, False)
    """
    return _HEAD.match(text, 0, _LOOKED_AT) is not None and _EVIDENCE.search(text, 0, _LOOKED_AT) is not None


def read_proto_text(source: Source) -> Module:
    """The module in a message given as text; of parts of one, a module of what there is.

    Errors of a text that is truncated or malformed are in `module.errors`; HloError if nothing is readable.

    >>> text = 'instructions { name: "p" opcode: "parameter" shape { element_type: F32 dimensions: 2 } }'
    >>> read_proto_text(Source("m.pbtxt", text)).entry.root.name
    'p'
    """
    encoded = encode_text(source)
    is_partial = encoded.is_partial or not _has_entry(encoded)
    try:
        data = completed(encoded.kind, encoded.data) if is_partial else encoded.data
        module = read_proto(data, source, is_partial=is_partial)
    except HloError as error:
        raise HloError.of(encoded.errors) if encoded.errors else error from None
    module.read_errors += encoded.errors
    module.check = partial(_findings, module.check, encoded.notes)
    return module


def _has_entry(encoded: Encoded) -> bool:
    """Whether a message is a module, and all of it, or contains one."""
    if encoded.kind != "HloModuleProto":
        return encoded.kind not in ("HloComputationProto", "HloInstructionProto")
    module = Message(encoded.kind, encoded.data)
    return module.has("entry_computation_id") or module.has("entry_computation_name")


def _findings(check: Callable[[Module], Findings] | None, notes: tuple[Diagnostic, ...], module: Module) -> Findings:
    """The findings in a proto, and the notes on its text."""
    found = check(module) if check is not None else Findings()
    return Findings(found.errors, (*notes, *found.notes))
