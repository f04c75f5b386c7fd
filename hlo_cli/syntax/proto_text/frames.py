"""Messages that are open while a text is read, and the kinds of the outermost one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.syntax.proto.wire import varint
from hlo_cli.syntax.proto_text.tokens import STATEMENT
from hlo_cli.syntax.proto_text.values import Slot, slots_of

CLOSERS: Final = {"{": "}", "<": ">"}
"""The brackets of messages."""
WRAPPER: Final = ""
"""The kind of an unknown message that may contain a `HloProto`'s fields at any depth."""

_PARENTS: Final = {
    "HloInstructionProto": ("HloComputationProto", "instructions"),
    "HloComputationProto": ("HloModuleProto", "computations"),
    "HloModuleProto": ("HloProto", "hlo_module"),
    "HloProto": ("HloSnapshot", "hlo"),
}
_ESSENTIAL: Final = {
    "HloInstructionProto": "opcode",
    "HloComputationProto": "instructions",
    "HloModuleProto": "computations",
    "HloProto": "hlo_module",
    "HloSnapshot": "hlo",
}
_OUTERMOST: Final = ("HloModuleProto", "HloComputationProto", "HloInstructionProto")
_NOUNS: Final = {"HloInstructionProto": "instruction", "HloComputationProto": "computation"}
_NO_SLOTS: Final[Mapping[str, Slot]] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Frame:
    """A message or list that is open, with the field that it is the value of, and its parts so far.

    The kind is None for what is skipped. An `is_inner` frame is a list, a map of JSON, or a wrapper: it adds to the
    parts of the message that contains it. `key` is the key of a value in a map, `block` the expected text
    from `start` to the closing bracket.
    """

    slot: Slot | None
    kind: str | None
    closer: str
    parts: list[bytes] = field(default_factory=list)
    is_inner: bool = False
    key: bytes = b""
    block: str = ""
    start: int = 0
    packed: dict[bytes, list[bytes]] = field(default_factory=dict)

    @property
    def is_list(self) -> bool:
        """Whether this is a list of messages."""
        return self.closer == "]"

    @property
    def is_map(self) -> bool:
        """Whether this is a map of JSON, whose names are keys."""
        return self.is_inner and bool(self.kind)

    @property
    def slots(self) -> Mapping[str, Slot]:
        """The fields of the message by name."""
        if self.kind is None or self.is_list or self.is_map:
            return _NO_SLOTS
        return slots_of(self.kind or "HloProto")

    @property
    def is_worth_keeping(self) -> bool:
        """Whether an incomplete message has what it takes to be read."""
        if (kind := "HloProto" if self.kind == WRAPPER else self.kind) not in _ESSENTIAL:
            return False
        tag = slots_of(kind)[_ESSENTIAL[kind]].tag
        return any(part.startswith(tag) for part in self.parts)

    @property
    def label(self) -> str:
        """The kind and the name of an instruction or computation; empty for others, and before the name."""
        if self.kind not in _NOUNS:
            return ""
        tag = slots_of(self.kind)["name"].tag
        name = next((part[2:] for part in self.parts if part.startswith(tag) and len(part) < _LONG), b"")
        return f"{_NOUNS[self.kind]} {name.decode('utf-8', 'replace')}" if name else ""

    def data(self) -> bytes:
        """The bytes of the message."""
        for tag, values in self.packed.items():
            joined = b"".join(values)
            self.parts.append(tag + varint(len(joined)) + joined)
        return b"".join(self.parts)


_LONG: Final = 128
"""The length from which a field's length has two bytes."""


def outermost_kind(text: str, at: int) -> str:
    """The kind of the outermost message that begins at an offset, from its first fields.

    >>> outermost_kind('name: "a" opcode: "add"', 0), outermost_kind('name: "m" entry_computation_name: "e"', 0)
    ('HloInstructionProto', 'HloModuleProto')
    """
    kinds: Sequence[str] = _OUTERMOST
    while len(kinds) > 1 and (found := STATEMENT.match(text, at)) is not None and found[1]:
        kinds = [kind for kind in kinds if found[1] in slots_of(kind)]
        if found.lastindex == 3:  # the first message decides
            break
        at = found.end()
    return kinds[0] if kinds else WRAPPER


def parent_of(frame: Frame) -> Frame | None:
    """The message around a complete one, of which the text has no more; None if nothing is worth keeping."""
    if not frame.is_worth_keeping:
        return None
    if frame.kind not in _PARENTS:
        return Frame(None, frame.kind, "", [frame.data()])
    kind, name = _PARENTS[frame.kind]
    data = frame.data()
    return Frame(None, kind, "", [slots_of(kind)[name].tag + varint(len(data)) + data])


def innermost_of(stack: Sequence[Frame]) -> str:
    """Where reading is: the words after an error, such as ` in instruction n of computation e`, or nothing."""
    labels = [label for frame in reversed(stack) if (label := frame.label)]
    return f" in {' of '.join(labels)}" if labels else ""


def unknown_message(frame: Frame, closer: str) -> Frame:
    """The frame of a message in an unknown field."""
    if frame.kind == WRAPPER:
        return Frame(None, WRAPPER, closer, frame.parts, is_inner=True)
    return Frame(None, None, closer)
