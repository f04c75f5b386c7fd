"""A module from one of XLA's messages as text, whole or in part: `.pbtxt` files, `print(proto)`, `MessageToJson`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hlo_cli.ir.module import Findings, Module
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.read import read_proto
from hlo_cli.syntax.proto_text.encoder import Encoded, encode_text
from hlo_cli.syntax.proto_text.partial import completed
from hlo_cli.syntax.proto_text.recognize import find_proto_text, unwrapped


def proto_text_to_bytes(source: Source) -> bytes:
    """The wire format of a message in text format or JSON; HloError if it is truncated or malformed.

    >>> proto_text_to_bytes(Source("m.pbtxt", 'name: "m"  computations { id: 7 }')).hex(" ")
    '0a 01 6d 1a 02 28 07'
    """
    encoded = encode_text(source, find_proto_text(source.text) or 0)
    if encoded.errors:
        raise HloError.of(encoded.errors)
    return encoded.data


def read_proto_text(source: Source) -> Module:
    """The module in a message given as text; of parts of one, a module of what there is.

    Errors of a text that is truncated or malformed are in `module.errors`; HloError if nothing is readable.

    >>> text = 'instructions { name: "p" opcode: "parameter" shape { element_type: F32 dimensions: 2 } }'
    >>> read_proto_text(Source("m.pbtxt", text)).entry.root.name
    'p'
    """
    source = Source(source.name, unwrapped(source.text), source.first_line)
    encoded = encode_text(source, find_proto_text(source.text) or 0)
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
