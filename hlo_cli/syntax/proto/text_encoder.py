"""How a message in protobuf's text format or JSON becomes the bytes of the same message.

Mirrors google/protobuf/io/tokenizer.cc and google/protobuf/text_format.cc.
"""

from __future__ import annotations

import re
import struct
from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import text_bytes, unquote
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean, joined_by_or, nearest, quoted_token
from hlo_cli.syntax.proto.messages import FLOATS, RENAMED_FIELDS, TEXTS, FieldType, enum_names, fields_of
from hlo_cli.syntax.scanning.error_help import MAX_ERRORS
from hlo_cli.wire import BYTES, FIXED32, FIXED64, VARINT, varint

# --- tokens ---
# Tokens of protobuf's text format. Mirrors google/protobuf/io/tokenizer.cc, and reads its JSON too.
#
# All expressions take linear time on any text.


BLANK: Final = r"(?:[\s,;]++|#[^\n]*+)*+"
"""What may be between fields."""
START: Final = rf"(?:\s*+goo\.gle/debug[a-z]++)?+{BLANK}"
"""What may be before the first field, such as the mark of new versions of protobuf for a text that only people read."""

_SPACE: Final = r"(?:\s++|#[^\n]*+)*+"
_FLAT: Final = r"""[^{}"'#]*+(?:"[^"\\\n]*+"[^{}"'#]*+)*+"""  # strings without escapes; others are read token by token
# a number or a word up to white space or a bracket: nothing that protobuf would cut in two
_PLAIN: Final = r"-?[A-Za-z0-9_.][A-Za-z0-9_.+\-]*+(?![^\s,;}>\]#])"
STATEMENT: Final = lazy_regex(
    rf"""{BLANK}(?:"?([A-Za-z0-9_]++)"?\s*+(?::[ ]?+({_PLAIN}|"[^"\\\n]*+"(?!\s*+["'#]))|:?\s*+([{{<]))"""
    r"|([{}<\]]|>(?!>>)))"
)
"""A field with a plain value; a field that begins a message; a bracket. The group that matched last tells which."""
NAME: Final = lazy_regex(rf"""{BLANK}(?:"([^"\\\n]*+)"|([A-Za-z0-9_]++)|\[[\w./\s]*+\])""")
"""The name of a field: of JSON in quotes, of an extension in brackets."""
FIELD: Final = lazy_regex(rf"{BLANK}(?:[A-Za-z0-9_]++|\"[^\"\n]*+\"){_SPACE}(?:[:{{<]|\Z)")
"""What begins like a field, or may if the text ended later."""
COLON: Final = lazy_regex(rf"{_SPACE}(:)?{_SPACE}")
ELEMENT: Final = lazy_regex(rf"{BLANK}({_PLAIN})")
"""A plain value in a list."""
BLOCK: Final = lazy_regex(rf"{_FLAT}(?:\{{{_FLAT}(?:\{{{_FLAT}\}}{_FLAT})*+\}}{_FLAT})*+\}}")
"""A message up to its closing bracket, if it is short and simple; messages such as shapes recur often."""
_FIRST: Final = lazy_regex(START)

_VALUE: Final = lazy_regex(r"""-\s*+[\w.]++|[\w.][\w.+\-]*+|"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'""")
_NEXT_PART: Final = lazy_regex(rf"""{_SPACE}(?=["'])""")  # adjacent strings are one, as in C
_SKIPPED: Final = lazy_regex(BLANK)
_WORD: Final = lazy_regex(r"[\w.+\-]++|\S")
_LONGEST_WORD: Final = 50  # of what an error quotes; a token can be a string of many MB


class Stop(Exception):
    """Ends the reading of a text after an error that was recorded."""


class Cut(Stop):
    """Ends the reading of a text that ends too early."""


@dataclass(slots=True, eq=False)
class Tokens:
    """The values of a text from a place on, and the errors so far; `last` is the end of the last value."""

    source: Source
    at: int = 0
    last: int = 0
    errors: list[Diagnostic] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """The next character; empty at the end."""
        return self.source.text[self.at : self.at + 1]

    def begin(self, start: int) -> None:
        """Moves to an offset, and over what may be before the first field."""
        first = _FIRST.match(self.source.text, start)
        self.at = first.end() if first else start

    def skip(self) -> None:
        """Moves over what may be between fields."""
        skipped = _SKIPPED.match(self.source.text, self.at)
        self.at = skipped.end() if skipped else self.at

    def value(self, name: str) -> list[str]:
        """The value of a field; of a string, all its parts."""
        parts: list[str] = []
        text = self.source.text
        while True:
            match = _VALUE.match(text, self.at)
            if match is None:
                raise self.unexpected(f"expected a value for {name}")
            self.at = self.last = match.end()
            parts.append(match[0])
            if match[0][0] not in "\"'":
                break
            more = _NEXT_PART.match(text, self.at)
            if more is None:
                return parts
            self.at = more.end()
        return ["".join(parts[0].split())] if parts[0][0] == "-" else parts

    def unexpected(self, expected: str) -> Stop:
        """The end of reading, at something else than what is expected."""
        self.skip()
        text = self.source.text
        match = _WORD.match(text, self.at)
        if match is None:
            return Cut()
        if match[0] in ('"', "'"):
            line_end = text.find("\n", self.at)
            if line_end < 0 or not text[line_end:].strip():
                return Cut()
            return self.fail("unterminated string", self.at, line_end)
        return self.fail(f"{expected}, found {quoted_token(match[0][:_LONGEST_WORD])}", self.at, match.end())

    def fail(self, message: str, start: int, end: int) -> Stop:
        """The end of reading, with an error."""
        self.report(message, start, end)
        return Stop()

    def report(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        """Records an error; too many end the reading."""
        self.errors.append(Diagnostic("error", message, self.source, Span(start, end), hint))
        if len(self.errors) >= MAX_ERRORS:
            raise Stop


# --- values ---
# Values of protobuf's text format, and of its JSON, in wire format: numbers, words, and strings.
#
# Mirrors `TextFormat::Parser` of google/protobuf/text_format.cc, and `JsonStringToMessage` of its JSON.


# 16 hex digits and 20 decimal ones are 64 bits; leading zeros are octal and need a few more
_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,24})")
_WHOLE: Final = lazy_regex(r"(-?[0-9]{1,24})\.0*+")
_HEXADECIMAL: Final = lazy_regex(r"0[xX][0-9a-fA-F]{1,16}")
_FLOAT: Final = lazy_regex(
    r"-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fF]?|-?inf(?:inity)?f?|-?nanf?", re.IGNORECASE
)
_SURROGATES: Final = lazy_regex(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_TRUTHS: Final = MappingProxyType({"true": 1, "t": 1, "1": 1, "false": 0, "f": 0, "0": 0})
_LONGEST_FLOAT: Final = 1000  # Python's float reads any length, and no writer prints more than some hundred digits
_MOST_NAMES: Final = 8
"""The most names of an enumeration that an error lists."""
_MOST_KEPT: Final = 1 << 16  # a bound on the memory of texts that are all different, such as ids
_LONGEST_KEPT: Final = 200  # words and numbers recur; longer texts, such as op_names, seldom do


@dataclass(slots=True, eq=False)
class Slot:
    """A field as texts give it: its wire type and, by text, the values that were encoded, as most occur often.

    `is_packed` fields are repeated numbers, which share one wire field; their values have no tag.
    """

    name: str
    field: FieldType
    is_message: bool
    is_packed: bool
    is_map: bool
    tag: bytes
    known: dict[str, bytes]


@cache
def slots_of(kind: str) -> Mapping[str, Slot]:
    """The fields of a message by name, by JSON's name, and by number, as unknown fields are printed."""
    slots: dict[str, Slot] = {}
    for name, declared in fields_of(kind).items():
        is_text = declared.type in TEXTS
        wire = VARINT if declared.is_number else BYTES
        if declared.type in FLOATS:
            wire = FIXED64 if declared.type == "double" else FIXED32
        is_packed = declared.repeated and not is_text and not declared.is_message
        tag = varint(declared.number << 3 | (BYTES if is_packed else wire))
        is_map = declared.is_message and set(fields_of(declared.type)) == {"key", "value"}
        slot = Slot(name, declared, declared.is_message, is_packed, is_map, tag, {})
        slots |= {name: slot, _json_name(name): slot, str(declared.number): slot}
    older = RENAMED_FIELDS.get(kind, {})
    return slots | {name: slots[today] for name, today in older.items()}


def _json_name(name: str) -> str:
    """The name of a field in JSON.

    >>> _json_name("entry_computation_id")
    'entryComputationId'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def encode(slot: Slot, tokens: Sequence[str], *, is_json: bool = False) -> bytes:
    r"""The wire field of one value, without a tag if its field is packed; several tokens are parts of one string.

    HloError, without a place, for a value of the wrong kind.

    >>> encode(slots_of("HloInstructionProto")["name"], ['"a"', r"'\142'"]).hex(" ")
    '0a 02 61 62'
    >>> encode(slots_of("ShapeProto")["elementType"], ["F32"]).hex(" ")
    '10 0b'
    """
    first = tokens[0]
    is_quoted = first[0] in "\"'"
    if slot.field.type in TEXTS:
        if not is_quoted:
            raise HloError(f"expected a string for {slot.name}, found {_short(first)}")
        data = b"".join([_string(token) for token in tokens])
        if is_json and slot.field.type == "bytes":
            data = _base64(data, slot)
        return slot.tag + varint(len(data)) + data
    text = unquote(first) if is_quoted else first
    if slot.is_message:
        raise HloError(f"expected '{{' after {slot.name}, found {_short(text)}")
    data = _number(slot, text)
    if not slot.is_packed:
        data = slot.tag + data
    if len(first) < _LONGEST_KEPT and len(slot.known) < _MOST_KEPT:
        slot.known[first] = data
    return data


def _number(slot: Slot, text: str) -> bytes:
    kind = slot.field.type
    if kind in FLOATS:
        return _float(slot, text)
    if kind == "bool":
        if (truth := _TRUTHS.get(text.casefold())) is None:
            raise HloError(f"expected true or false for {slot.name}, found {_short(text)}")
        return varint(truth)
    if _INTEGER.fullmatch(text) is None and (whole := _WHOLE.fullmatch(text)) is not None:
        text = whole[1]
    if _INTEGER.fullmatch(text) is None:
        if kind in ("int", "uint"):
            raise HloError(f"expected an integer for {slot.name}, found {_short(text)}")
        return varint(_enum_value(slot, text))
    base = 16 if "x" in text.lower() else 8 if text.lstrip("-").startswith("0") and not set(text) & set("89") else 10
    number = int(text, base)
    least, most = (0, 1 << 64) if kind == "uint" else (-1 << 63, 1 << 63)
    if not least <= number < most:
        raise HloError(f"{slot.name} is out of range: {_short(text)}")
    return varint(number)


def _enum_value(slot: Slot, text: str) -> int:
    names = enum_names(slot.field.type)
    if (number := names.get(text, names.get(text.upper()))) is not None:
        return number
    hint = did_you_mean(nearest(text.upper()[:_LONGEST_KEPT], names))
    if hint is None and len(names) <= _MOST_NAMES:
        hint = f"expected one of {joined_by_or(names)}"
    raise HloError(f"unknown {slot.name} {_short(text)}", hint=hint)


def _float(slot: Slot, text: str) -> bytes:
    """A number of fixed width; hexadecimal ones are its bits, as in unknown fields that are printed."""
    format_ = FLOATS[slot.field.type]
    if _HEXADECIMAL.fullmatch(text):
        width = struct.calcsize(format_)
        return (int(text, 16) & (1 << 8 * width) - 1).to_bytes(width, "little")
    if len(text) > _LONGEST_FLOAT or not _FLOAT.fullmatch(text):
        raise HloError(f"expected a number for {slot.name}, found {_short(text)}")
    is_suffixed = text[-1] in "fF" and not text.lower().endswith("inf")
    number = float(text[:-1] if is_suffixed else text)
    try:
        return struct.pack(format_, number)
    except OverflowError:  # struct refuses what protobuf's text format reads as infinity
        return struct.pack(format_, float("-inf" if number < 0 else "inf"))


def _string(token: str) -> bytes:
    if "\\u" in token or "\\U" in token:
        token = _SURROGATES.sub(_joined, token)
    return text_bytes(unquote(token))


def _joined(pair: re.Match[str]) -> str:
    """Two escapes that are one character in UTF-16."""
    high, low = int(pair[0][2:6], 16), int(pair[0][8:12], 16)
    # the UTF-16 of JSON and of protobuf's strings: ten bits in each surrogate
    return chr(0x10000 + (high - 0xD800 << 10) + (low - 0xDC00))


def _base64(data: bytes, slot: Slot) -> bytes:
    try:
        # JSON of protobuf may omit the padding; more of it does no harm
        return a2b_base64(data.translate(_URL_SAFE) + b"==")
    except Error:
        raise HloError(f"expected base64 for {slot.name}") from None


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _short(text: str) -> str:
    return f"'{text[:_LONGEST_KEPT]}…'" if len(text) > _LONGEST_KEPT else f"'{text}'"


# --- messages that recur ---
# Messages that recur in a text, such as shapes: each distinct text is encoded once.


_LARGE: Final = frozenset(("HloInstructionProto", "HloComputationProto", "HloModuleProto", "HloProto", "LiteralProto"))
"""The messages that do not recur."""
_LONGEST: Final = 4096  # shapes and layouts recur and are short; what is longer is nearly always unique
_MOST: Final = 1 << 15  # a bound on the memory of messages that do not recur


@dataclass(slots=True, eq=False)
class Blocks:
    """The encoded messages of a text, by field and by their text up to the closing bracket."""

    text: str
    _known: dict[tuple[Slot, str], bytes] = field(default_factory=dict)

    def find(self, slot: Slot, at: int) -> tuple[str, bytes | None]:
        """The text of the simple message that begins at an offset, empty if there is none; its field if it is known."""
        if not slot.is_message or slot.field.type in _LARGE or (match := BLOCK.match(self.text, at)) is None:
            return "", None
        block = match[0]
        return block, self._known.get((slot, block))

    def add(self, slot: Slot, block: str, data: bytes) -> None:
        """Keeps a field that was encoded without a problem."""
        if len(block) <= _LONGEST and len(self._known) < _MOST:
            self._known[slot, block] = data


# --- unknown fields ---
# Fields of other versions of XLA in a text, which are skipped, and the note on them.


_MOST_NAMED: Final = 10
"""The most fields that the note names."""
_MOST_COUNTED: Final = 1000  # a text of another kind has any number of unknown names; the note lists ten


@dataclass(slots=True, eq=False)
class UnknownFields:
    """Counts unknown fields by message and name; `last` is the offset of the last one.

    >>> unknown = UnknownFields(Source("m.pbtxt", "format: DENSE"))
    >>> unknown.add("LayoutProto", "format", 0)
    >>> unknown.notes()[0].message
    'unknown fields skipped: LayoutProto.format'
    """

    source: Source
    last: int = -1
    _first: int = -1
    _times: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, name: str, at: int) -> None:
        """Counts a field of a kind of message."""
        name = f"{kind}.{name}"
        if name in self._times or len(self._times) < _MOST_COUNTED:
            self._times[name] = self._times.get(name, 0) + 1
        self.last = at
        if self._first < 0:
            self._first = at

    def notes(self) -> tuple[Diagnostic, ...]:
        """One note on all of them, at the first; none if there are none."""
        if not self._times:
            return ()
        names = [name if times == 1 else f"{name} ({times} times)" for name, times in self._times.items()]
        more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        message = f"unknown fields skipped: {', '.join(names[:_MOST_NAMED])}{more}"
        return (Diagnostic("note", message, self.source, Span(self._first, self._first + 1), code="unknown-field"),)


# --- open messages ---
# Messages that are open while a text is read, and the kinds of the outermost one.


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
_ESSENTIAL: Final = {  # without this field, a truncated message says nothing
    "HloInstructionProto": "opcode",
    "HloComputationProto": "instructions",
    "HloModuleProto": "computations",
    "HloProto": "hlo_module",
    "HloSnapshot": "hlo",
}
# what the text of a part may be a message of, the largest first
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


def _outermost_kind(text: str, at: int) -> str:
    """The kind of the outermost message that begins at an offset, from its first fields.

    >>> _outermost_kind('name: "a" opcode: "add"', 0), _outermost_kind('name: "m" entry_computation_name: "e"', 0)
    ('HloInstructionProto', 'HloModuleProto')
    """
    kinds: Sequence[str] = _OUTERMOST
    while len(kinds) > 1 and (match := STATEMENT.match(text, at)) is not None and match[1]:
        kinds = [kind for kind in kinds if match[1] in slots_of(kind)]
        if match.lastindex == 3:  # the first message decides
            break
        at = match.end()
    return kinds[0] if kinds else WRAPPER


def _parent_of(frame: Frame) -> Frame | None:
    """The message around a complete one, of which the text has no more; None if nothing is worth keeping."""
    if not frame.is_worth_keeping:
        return None
    if frame.kind not in _PARENTS:
        return Frame(None, frame.kind, "", [frame.data()])
    kind, name = _PARENTS[frame.kind]
    data = frame.data()
    return Frame(None, kind, "", [slots_of(kind)[name].tag + varint(len(data)) + data])


def _innermost_of(stack: Sequence[Frame]) -> str:
    """Where reading is: the words after an error, such as ` in instruction n of computation e`, or nothing."""
    labels = [label for frame in reversed(stack) if (label := frame.label)]
    return f" in {' of '.join(labels)}" if labels else ""


def _unknown_message(frame: Frame, closer: str) -> Frame:
    """The frame of a message in an unknown field."""
    if frame.kind == WRAPPER:
        return Frame(None, WRAPPER, closer, frame.parts, is_inner=True)
    return Frame(None, None, closer)


# --- the encoder ---
# XLA's messages in protobuf's text format, or in its JSON, to the bytes of the same message.
#
# Mirrors `TextFormat::Parser` of google/protobuf/text_format.cc: what `--xla_dump_hlo_as_proto` writes as `.pbtxt`,
# what `print(proto)` and `ShortDebugString` print, and what people type. Unlike there, a text that is truncated gives
# the parts that are complete, and unknown fields are skipped.


_MOST_NESTED: Final = 200  # as in damaged protos: deeper than any shape that XLA makes


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
        self.stack.append(Frame(None, _outermost_kind(self.text, tokens.at), closer))
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
            matched = match(text, tokens.at)
            if matched is not None and (what := matched.lastindex) == 2:
                name, token = matched.group(1, 2)
                slot = slots.get(name)
                if slot is not None and (known := slot.known.get(token)) is not None:
                    if slot.is_packed:
                        frame.packed.setdefault(slot.tag, []).append(known)
                    else:
                        frame.parts.append(known)
                else:
                    self._add_value(frame, name, slot, [token], matched.start(2))
                tokens.at = tokens.last = matched.end()
                continue
            if matched is None:
                if self._is_at_end() or self._is_other_text():
                    return
                self._read_field(frame)
            else:
                tokens.at = matched.end()
                if what == 3:
                    self._open(frame, matched[1], slots.get(matched[1]), matched[3], matched.start(1))
                else:
                    self._bracket(frame, matched[4])
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
        errors = [error for error in self.tokens.errors if error.span is None or error.span.end < end]
        if self.tokens.last == len(self.text):  # the last value may be truncated too
            del self.stack[-1].parts[-1:]
        message = f"unexpected end of input{_innermost_of(self.stack)}"
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
            self.stack.append(_unknown_message(frame, CLOSERS[opener]))
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
            kind = _outermost_kind(self.text, tokens.at)
            self.stack[0] = _parent_of(frame) or Frame(None, kind, "")

    def _read_field(self, frame: Frame) -> None:
        """A field in a form that printers seldom write: strings with escapes, lists, comments before the value."""
        tokens = self.tokens
        match = NAME.match(self.text, tokens.at)
        if match is None or frame.is_list:
            raise tokens.unexpected("expected '{' or ']'" if frame.is_list else "expected a field name")
        name = match[1] or match[2] or match[0].strip()
        slot = frame.slots.get(name)
        colon = COLON.match(self.text, match.end())
        assert colon is not None
        tokens.at = colon.end()
        mark = tokens.mark
        if mark and mark in CLOSERS:
            tokens.at += 1
            self._open(frame, name, slot, mark, match.start())
        elif mark == "[":
            tokens.at += 1
            self._read_list(frame, name, slot, match.start())
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
            match = ELEMENT.match(text, tokens.at)
            if match is not None:
                token, start = match[1], match.start(1)
                if slot is not None and slot.is_packed and (known := slot.known.get(token)) is not None:
                    frame.packed.setdefault(slot.tag, []).append(known)
                elif slot is not None:
                    self._add_value(frame, name, slot, [token], start)
                tokens.at = tokens.last = match.end()
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
