"""XLA's messages in protobuf's text format, or in its JSON, to the bytes of the same message.

Mirrors `TextFormat::Parser` of google/protobuf/text_format.cc: what `--xla_dump_hlo_as_proto` writes as `.pbtxt`, what
`print(proto)` and `ShortDebugString` print, and what people type. Unlike there, a text that is truncated gives the
parts that are complete, and unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hlo_cli.source import Diagnostic, HloError, Source, Span, quoted_token
from hlo_cli.syntax.proto.wire import varint
from hlo_cli.syntax.proto_text.blocks import Blocks
from hlo_cli.syntax.proto_text.frames import (
    CLOSERS,
    WRAPPER,
    Frame,
    innermost_of,
    outermost_kind,
    parent_of,
    unknown_message,
)
from hlo_cli.syntax.proto_text.tokens import COLON, ELEMENT, FIELD, NAME, STATEMENT, Cut, Stop, Tokens
from hlo_cli.syntax.proto_text.unknown_fields import UnknownFields
from hlo_cli.syntax.proto_text.values import Slot, encode, slots_of

_MOST_NESTED: Final = 200


class Encoded(NamedTuple):
    """The bytes of a message of a kind; with errors, of its complete parts. `is_partial` if something is missing."""

    kind: str
    data: bytes
    errors: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    is_partial: bool


def encode_text(source: Source, start: int = 0) -> Encoded:
    """The message that begins at an offset of a text, of the kind that its fields tell, with all errors.

    >>> encode_text(Source("m.pbtxt", 'instructions { name: "p" opcode: "parameter" } instr')).kind
    'HloComputationProto'
    """
    return _Encoder(source).run(start)


class _Encoder:
    """Reads one text; the stack holds the open messages, the outermost first."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self.source = source
        self.tokens = Tokens(source)
        self.unknown = UnknownFields(source)
        self.blocks = Blocks(source.text)
        self.rest: tuple[Diagnostic, ...] = ()
        self.is_json = self.is_partial = False
        self.unmatched = 0
        self.stack: list[Frame] = []

    def run(self, start: int) -> Encoded:
        """The text from an offset on."""
        tokens = self.tokens
        tokens.begin(start)
        closer = CLOSERS.get(tokens.mark, "")
        self.is_json = closer == "}"
        tokens.at += len(closer)
        self.stack.append(Frame(None, outermost_kind(self.text, tokens.at), closer))
        try:
            self._read()
        except Stop as stop:
            if isinstance(stop, Cut):
                self._report_end()
            self._close_all()
        top = self.stack[0]
        return Encoded(
            top.kind or "HloProto",
            top.data(),
            tuple(tokens.errors),
            (*self.unknown.notes(), *self.rest),
            self.is_partial,
        )

    def _read(self) -> None:
        match, text, stack, tokens = STATEMENT.match, self.text, self.stack, self.tokens
        frame = stack[-1]
        slots = frame.slots
        while True:
            found = match(text, tokens.at)
            if found is not None and (what := found.lastindex) == 2:
                name, token = found.group(1, 2)
                slot = slots.get(name)
                if slot is not None and (known := slot.known.get(token)) is not None:
                    if slot.is_packed:
                        frame.packed.setdefault(slot.tag, []).append(known)
                    else:
                        frame.parts.append(known)
                else:
                    self._add_value(frame, name, slot, [token], found.start(2))
                tokens.at = tokens.last = found.end()
                continue
            if found is None:
                if self._is_at_end() or self._is_other_text():
                    return
                self._read_field(frame)
            else:
                tokens.at = found.end()
                if what == 3:
                    self._open(frame, found[1], slots.get(found[1]), found[3], found.start(1))
                else:
                    self._bracket(frame, found[4])
            if stack[-1] is not frame:
                frame = stack[-1]
                slots = frame.slots

    def _is_at_end(self) -> bool:
        self.tokens.skip()
        if self.tokens.mark:
            return False
        if len(self.stack) > 1 or self.stack[0].closer:
            raise Cut
        return True

    def _is_other_text(self) -> bool:
        """Whether the message is complete, and something else follows."""
        top, at = self.stack[0], self.tokens.at
        if len(self.stack) > 1 or top.closer or not top.is_worth_keeping or FIELD.match(self.text, at):
            return False
        message = "ignored the text after the message"
        self.rest = (Diagnostic("note", message, self.source, Span(at, at + 1), code="other-text"),)
        return True

    def _report_end(self) -> None:
        """Records that the text ends too early, and where."""
        end = len(self.text.rstrip())
        errors = [each for each in self.tokens.errors if each.span is None or each.span.end < end]
        if self.tokens.last == len(self.text):  # the last value may be truncated too
            del self.stack[-1].parts[-1:]
        message = f"unexpected end of input{innermost_of(self.stack)}"
        self.tokens.errors = [*errors, Diagnostic("error", message, self.source, Span(max(end - 1, 0), end))]

    def _close_all(self) -> None:
        """Closes the open messages; those that lack parts are dropped, except the ones that contain instructions."""
        self.is_partial = True
        while len(self.stack) > 1:
            frame = self.stack.pop()
            if frame.is_worth_keeping and frame.kind != "HloInstructionProto":
                self._add(frame)

    def _add(self, frame: Frame) -> None:
        """Adds a message that is complete to the one that contains it."""
        if frame.is_inner or frame.slot is None or frame.kind is None:
            return
        parent = self.stack[-1]
        data = frame.data()
        data = frame.slot.tag + varint(len(data)) + data
        if frame.key and parent.slot is not None:
            data = parent.slot.tag + varint(len(frame.key) + len(data)) + frame.key + data
        parent.parts.append(data)
        if len(frame.block) == self.tokens.at - frame.start:
            last = self.tokens.errors[-1].span if self.tokens.errors else None
            if self.unknown.last < frame.start and (last is None or last.start < frame.start):
                self.blocks.add(frame.slot, frame.block, data)

    def _open(self, frame: Frame, name: str, slot: Slot | None, opener: str, at: int) -> None:
        """Begins a message; reading is after its bracket."""
        tokens = self.tokens
        if len(self.stack) > _MOST_NESTED:
            raise tokens.fail(f"messages are nested too deeply (limit {_MOST_NESTED})", at, tokens.at)
        key, block = b"", ""
        if frame.is_list:
            slot = frame.slot
        elif frame.is_map:
            key, slot = self._key(frame, name, at), slots_of(frame.kind or "")["value"]
        if slot is None:
            if frame.kind:
                self.unknown.add(frame.kind, name, at)
            self.stack.append(unknown_message(frame, CLOSERS[opener]))
            return
        if not slot.is_message and slot.field.type != "bytes":  # the type of messages that nothing reads
            tokens.report(f"expected a value for {slot.name}, found '{opener}'", tokens.at - 1, tokens.at)
        kind = slot.field.type if slot.is_message else None
        is_map = self.is_json and slot.is_map and not frame.is_list
        if opener == "{" and not key and not is_map:
            block, data = self.blocks.find(slot, tokens.at)
            if data is not None:
                frame.parts.append(data)
                tokens.at += len(block)
                return
        self.stack.append(
            Frame(slot, kind, CLOSERS[opener], frame.parts if is_map else [], is_map, key, block, tokens.at)
        )

    def _bracket(self, frame: Frame, mark: str) -> None:
        """A bracket without a field's name; reading is after it."""
        tokens = self.tokens
        place = tokens.at - 1, tokens.at
        if mark in CLOSERS:
            if not frame.is_list:
                raise tokens.fail(f"expected a field name, found '{mark}'", *place)
            self._open(frame, "", frame.slot, mark, place[0])
        elif frame.closer == mark:
            if len(self.stack) > 1:
                self._add(self.stack.pop())
            frame.closer = ""
        elif len(self.stack) > 1 or frame.closer:
            raise tokens.fail(f"expected '{frame.closer}', found '{mark}'", *place)
        else:
            if not self.is_partial:
                tokens.report(f"unmatched '{mark}'; the beginning of the message may be missing", *place)
            self.is_partial = True
            self.unmatched += 1
            if self.unmatched > _MOST_NESTED:
                raise Stop
            kind = outermost_kind(self.text, tokens.at)
            self.stack[0] = parent_of(frame) or Frame(None, kind, "")

    def _read_field(self, frame: Frame) -> None:
        """A field in a form that printers seldom write: strings with escapes, lists, comments before the value."""
        tokens = self.tokens
        found = NAME.match(self.text, tokens.at)
        if found is None or frame.is_list:
            raise tokens.unexpected("expected '{' or ']'" if frame.is_list else "expected a field name")
        name = found[1] or found[2] or found[0].strip()
        slot = frame.slots.get(name)
        colon = COLON.match(self.text, found.end())
        assert colon is not None
        tokens.at = colon.end()
        mark = tokens.mark
        if mark and mark in CLOSERS:
            tokens.at += 1
            self._open(frame, name, slot, mark, found.start())
        elif mark == "[":
            tokens.at += 1
            self._read_list(frame, name, slot, found.start())
        elif not colon[1] and mark:
            raise tokens.unexpected(f"expected ':' after {name}")
        else:
            start = tokens.at
            self._add_value(frame, name, slot, tokens.value(name), start)

    def _read_list(self, frame: Frame, name: str, slot: Slot | None, at: int) -> None:
        """Values up to the end of a list, or the beginning of a list of messages."""
        text, tokens = self.text, self.tokens
        if slot is None and frame.kind:
            self.unknown.add(frame.kind, name, at)
        while True:
            found = ELEMENT.match(text, tokens.at)
            if found is not None:
                token, start = found[1], found.start(1)
                if slot is not None and slot.is_packed and (known := slot.known.get(token)) is not None:
                    frame.packed.setdefault(slot.tag, []).append(known)
                elif slot is not None:
                    self._add_value(frame, name, slot, [token], start)
                tokens.at = tokens.last = found.end()
                continue
            tokens.skip()
            mark = tokens.mark
            if mark == "]":
                tokens.at += 1
                return
            if mark and mark in CLOSERS:
                kind = WRAPPER if slot is None and frame.kind == WRAPPER else None
                self.stack.append(Frame(slot, kind, "]", frame.parts, is_inner=True))
                return
            start = tokens.at
            value = tokens.value(name)
            if slot is not None:
                self._add_value(frame, name, slot, value, start)

    def _add_value(self, frame: Frame, name: str, slot: Slot | None, value: Sequence[str], at: int) -> None:
        """Adds a value that is not a message."""
        if frame.is_list:
            raise self.tokens.fail(f"expected '{{' or ']', found {quoted_token(name[:50])}", at, at + 1)
        if self.is_json and value[0] == "null":
            return
        try:
            if frame.is_map and frame.slot is not None:
                pair = self._key(frame, name, at) + encode(slots_of(frame.kind or "")["value"], value, is_json=True)
                frame.parts.append(frame.slot.tag + varint(len(pair)) + pair)
            elif slot is None:
                if frame.kind:
                    self.unknown.add(frame.kind, name, max(self.text.rfind(name, 0, at), 0))
            elif slot.is_packed:
                frame.packed.setdefault(slot.tag, []).append(encode(slot, value))
            else:
                frame.parts.append(encode(slot, value, is_json=self.is_json))
        except HloError as error:
            self.tokens.report(error.diagnostic.message, at, at + len(value[0]), error.diagnostic.hint)

    def _key(self, frame: Frame, name: str, at: int) -> bytes:
        """The key of an entry in a map."""
        try:
            return encode(slots_of(frame.kind or "")["key"], [f'"{name}"'])
        except HloError as error:
            raise self.tokens.fail(error.diagnostic.message, at, at + len(name)) from None
