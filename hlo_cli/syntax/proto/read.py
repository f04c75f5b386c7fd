"""A module from the bytes of any of XLA's messages that contain one.

Compilers pass on a `HloModuleProto`; dumps contain it in a `HloProto`, with the buffer assignment if there is one,
and snapshots contain that. Mirrors the messages of xla/service/hlo.proto.

No package for protocol buffers is used: the wire format is a page of code (`wire.py`), and the fields of XLA's messages
are a table (`tables.py`). The package would require generated code for these messages, which XLA does not publish,
and a runtime of the same version as that code, and it would create an object for every field, while most fields are
never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.proto.buffers import buffer_assignment_of
from hlo_cli.syntax.proto.corruption import NO_MODULE, with_place
from hlo_cli.syntax.proto.field_scan import KIND
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.module import module_of
from hlo_cli.syntax.proto.wire import WireError, all_bytes, read_fields

AS_PROTO: Final = "to dump a proto, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'"

_OPCODE: Final = re.compile(rb"[a-z][a-z0-9\-]*+")
_MODULE, _ASSIGNMENT = (fields_of("HloProto")[name].number for name in ("hlo_module", "buffer_assignment"))
_INSTRUCTIONS: Final = fields_of("HloComputationProto")["instructions"].number
_LEVELS: Final = 3
"""A module, the proto around it, and the snapshot around that."""


def read_proto(data: bytes, source: Source, *, is_partial: bool = False) -> Module:
    """The module in a `HloModuleProto`, `HloProto`, `HloSnapshot` or `HloUnoptimizedSnapshot`.

    Calls of computations that are not in it are an error, unless it `is_partial`.

    >>> read_proto(b"", Source("m.hlo.pb", ""))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: m.hlo.pb: error: not an HLO module proto
    """
    try:
        message, assignment = _unwrapped(data)
        module = module_of(message, source, data, is_partial=is_partial)
    except HloError as error:
        placed = with_place(error, data).diagnostic
        raise HloError(placed.message, source=source, hint=placed.hint) from None
    module.source = PrintedSource(source.name, module.to_string)
    if assignment is not None:
        module.read_buffer_assignment = partial(buffer_assignment_of, assignment)
    return module


def _unwrapped(data: bytes) -> tuple[Message, bytes | None]:
    """The module, and the buffer assignment next to it."""
    assignment = None
    for level in range(_LEVELS):
        try:
            module = Message("HloModuleProto", data)
        except WireError:
            if level == 0:
                raise
            break
        if _holds_instructions(module):
            return module, assignment
        fields = read_fields(data)
        inner = next((value for number, value in fields if number == _MODULE), b"")
        if not isinstance(inner, bytes) or not inner:
            break
        other = next((value for number, value in fields if number == _ASSIGNMENT), None)
        data, assignment = inner, other if isinstance(other, bytes) else None
    raise HloError(NO_MODULE, hint=AS_PROTO)


def _holds_instructions(module: Message) -> bool:
    """Whether this looks like a module: its name is followed by computations, which contain operations."""
    with suppress(HloError):
        for computation in module.all_data("computations"):
            for instruction in all_bytes(read_fields(computation), _INSTRUCTIONS):
                return _OPCODE.fullmatch(Message(KIND, instruction).data("opcode")) is not None
    return False


class PrintedSource(Source):
    """A source whose text is printed on first use; nothing in the module has a span in it.

    >>> source = PrintedSource("m.hlo.pb", lambda: "HloModule m")
    >>> source.text
    'HloModule m'
    """

    __slots__ = ("_print", "_printed")

    def __init__(self, name: str, print_: Callable[[], str]) -> None:
        self._print = print_
        self._printed: str | None = None
        super().__init__(name, "")

    @property
    def text(self) -> str:
        """The text of the module as XLA prints it."""
        if self._printed is None:
            self._printed = self._print()
        return self._printed

    @text.setter
    def text(self, _: str) -> None:
        """Ignores assignments: the text is always that of the module."""
