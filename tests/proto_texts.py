"""Prints protos as protobuf's text format and as its JSON, in the styles of several printers; for tests only.

The wire format is read here again, with nothing of the package but its table of fields.
"""

from __future__ import annotations

import base64
import math
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from hlo_cli.syntax.proto.messages import FieldType, fields_of

NAMES = {
    "PrimitiveType": """PRIMITIVE_TYPE_INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 TUPLE OPAQUE_TYPE C64 BF16
        TOKEN C128 F8E5M2 F8E4M3FN S4 U4 F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S2 U2 F8E4M3 F8E3M4 S1 U1 F4E2M1FN
        F8E8M0FNU BUFFER F6E3M2FN F6E2M3FN""",
    "Algorithm": """ALG_UNSET ALG_DOT_ANY_F8_ANY_F8_F32 ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM ALG_DOT_F16_F16_F16
        ALG_DOT_F16_F16_F32 ALG_DOT_BF16_BF16_BF16 ALG_DOT_BF16_BF16_F32 ALG_DOT_BF16_BF16_F32_X3
        ALG_DOT_BF16_BF16_F32_X6 ALG_DOT_TF32_TF32_F32 ALG_DOT_TF32_TF32_F32_X3 ALG_DOT_F32_F32_F32 ALG_DOT_F64_F64_F64
        ALG_DOT_BF16_BF16_F32_X9""",
    "AliasKind": "UNDEFINED_ALIAS MAY_ALIAS MUST_ALIAS",
    "AccuracyMode": "DEFAULT HIGHEST",
    "ConvolutionKind": "CONVOLUTION_KIND_UNSET CONVOLUTION_KIND_FPROP CONVOLUTION_KIND_DGRAD CONVOLUTION_KIND_WGRAD",
    "CustomCallApiVersion": """API_VERSION_UNSPECIFIED API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING
        API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI""",
    "CustomCallSchedule": "SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST",
    "DebugLogMode": "NONE DEFAULT FUSION_DEBUGGER NO_FUSION GUARANTEED",
    "DimLevelType": "DIM_DENSE DIM_COMPRESSED DIM_SINGLETON DIM_LOOSE_COMPRESSED",
    "EventKind": "ALLOC FREE SHARE_WITH",
    "FftType": "FFT IFFT RFFT IRFFT",
    "PaddingType": "PADDING_INVALID PADDING_VALID PADDING_SAME",
    "Precision": "DEFAULT HIGH HIGHEST",
    "ProfileType": "INVALID WINDOW FLAG INTEGER",
    "RandomAlgorithm": "RNG_DEFAULT RNG_THREE_FRY RNG_PHILOX",
    "RandomDistribution": "RNG_INVALID RNG_UNIFORM RNG_NORMAL",
    "ReductionOpProto": "SUM MAX MIN",
    "ShardGroupType": "AS LIKE",
    "ShardingType": "REPLICATED MAXIMAL TUPLE OTHER MANUAL UNKNOWN UNREDUCED",
    "Transpose": "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT",
    "TriState": "TRI_STATE_UNSPECIFIED TRI_STATE_TRUE TRI_STATE_FALSE",
}
"""The names of enumeration values in xla/xla_data.proto and xla/service/hlo.proto, counted from 0."""

Value = int | float | str | bytes | list[tuple[str, FieldType, "Value"]]
Tree = list[tuple[str, FieldType, Value]]


def tree_of(kind: str, data: bytes) -> Tree:
    """The fields of a message in their order: name, row of the table, value; words for enumerations."""
    rows = {row.number: (name, row) for name, row in fields_of(kind).items()}
    found: Tree = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        raw: int | bytes
        if wire == 0:
            raw, at = _varint(data, at)
        else:
            length, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            raw, at = data[at : at + length], at + length
        if tag >> 3 in rows:
            name, row = rows[tag >> 3]
            found += [(name, row, value) for value in _values(row, raw)]
    return found


def _values(row: FieldType, raw: int | bytes) -> Iterator[Value]:
    if row.type in ("float", "double") and isinstance(raw, bytes):
        yield from struct.unpack(f"<{len(raw) // (4 if row.type == 'float' else 8)}{row.type[0]}", raw)
    elif isinstance(raw, int):
        yield _number(row, raw)
    elif row.type in ("string", "bytes"):
        yield raw
    elif row.is_number:
        at = 0
        while at < len(raw):
            number, at = _varint(raw, at)
            yield _number(row, number)
    else:
        yield tree_of(row.type, raw)


def _number(row: FieldType, number: int) -> Value:
    if row.type == "bool":
        return "true" if number else "false"
    if row.type in NAMES:
        return NAMES[row.type].split()[number]
    return number - (1 << 64) if row.type != "uint" and number >> 63 else number


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


@dataclass
class Style:
    """How texts look; each choice is made anew for each field if `random` is given."""

    newline: str = "\n"
    random: random.Random | None = None

    def choice(self, *among: str) -> str:
        """The first, or any."""
        return self.random.choice(among) if self.random else among[0]

    def text(self, tree: Tree, indent: str = "") -> str:
        """A message without its brackets."""
        return "".join(self._fields(tree, indent))

    def _fields(self, tree: Tree, indent: str) -> Iterator[str]:
        inner = indent + "  " if self.newline == "\n" else ""
        at = 0
        while at < len(tree):
            name, row, value = tree[at]
            at += 1
            end = self.choice("", "", ",", ";", " # a comment: {") + self.newline
            if isinstance(value, list):
                opening, closing = self.choice("{ }", "{ }", "< >").split()
                colon = self.choice(" ", ": ", "", " :\n")
                yield f"{indent}{name}{colon}{opening}{self.newline}{self.text(value, inner)}{indent}{closing}{end}"
                continue
            values: list[Value] = [value]
            if row.repeated and self.choice("alone", "list") == "list":
                while at < len(tree) and tree[at][0] == name:
                    values.append(tree[at][2])
                    at += 1
                listed = self.choice(", ", ",", " , # next\n").join(self._scalar(row, each) for each in values)
                yield f"{indent}{name}: [{listed}{self.choice('', ' ')}]{end}"
            else:
                yield f"{indent}{name}:{self.choice(' ', '', '  ')}{self._scalar(row, value)}{end}"

    def _scalar(self, row: FieldType, value: Value) -> str:
        if isinstance(value, bytes):
            return self._string(value)
        if isinstance(value, float):
            return self._float(value, row)
        if isinstance(value, str) and value in ("true", "false"):
            return self.choice(value, value[0], value.capitalize(), "1" if value == "true" else "0")
        if isinstance(value, str):
            return self.choice(value, str(NAMES[row.type].split().index(value)))
        if isinstance(value, int) and value >= 0:
            return self.choice(str(value), hex(value), f"0{value:o}", f'"{value}"')
        return self.choice(str(value), f"- {-value}" if isinstance(value, int) else str(value))

    def _float(self, value: float, row: FieldType) -> str:
        if math.isnan(value):
            return self.choice("nan", "NaN")
        if math.isinf(value):
            return ("-" if value < 0 else "") + self.choice("inf", "Infinity", "INF")
        digits = f"{value:.9g}" if row.type == "float" else repr(value)
        return self.choice(digits, digits + "f", digits.upper())

    def _string(self, value: bytes) -> str:
        quote = self.choice('"', "'")
        if self.random and len(value) > 1 and self.random.random() < 0.2:
            half = self.random.randrange(len(value))
            return self._string(value[:half]) + self.choice(" ", "\n", " # more\n") + self._string(value[half:])
        escape = self.choice("octal", "hex", "utf-8")
        if escape == "utf-8":
            try:
                text = value.decode()
            except UnicodeDecodeError:
                escape = "octal"
            else:
                plain = {"\\": "\\\\", quote: "\\" + quote, "\n": "\\n", "\r": "\\r", "\t": "\\t"}
                return quote + "".join(plain.get(each, each) for each in text) + quote
        form = "\\{:03o}" if escape == "octal" else "\\x{:02x}"
        special = {ord("\\"), ord(quote)}
        # a digit after a hexadecimal escape would belong to it
        parts = [
            chr(byte) if 32 <= byte < 127 and byte not in special and escape == "octal" else form.format(byte)
            for byte in value
        ]
        return quote + "".join(parts) + quote


def json_of(tree: Tree, *, camel: bool = True) -> dict[str, object]:
    """A message as `MessageToJson` gives it."""
    found: dict[str, object] = {}
    for name, row, value in tree:
        key = name
        if camel:
            first, *others = name.split("_")
            key = first + "".join(each.capitalize() for each in others)
        one = _json_value(row, value, camel)
        if row.type in ("MapEntry", "SequencesEntry") and isinstance(one, dict):
            entries = found.setdefault(key, {})
            assert isinstance(entries, dict)
            entries[str(one.get("key", "0" if row.type == "SequencesEntry" else ""))] = one.get(
                "value", {} if row.type == "SequencesEntry" else ""
            )
        elif row.repeated:
            values = found.setdefault(key, [])
            assert isinstance(values, list)
            values.append(one)
        else:
            found[key] = one
    return found


def _json_value(row: FieldType, value: Value, camel: bool) -> object:
    if isinstance(value, list):
        return json_of(value, camel=camel)
    if isinstance(value, bytes):
        return value.decode() if row.type == "string" else base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value in ("true", "false"):
        return value == "true"
    return str(value) if isinstance(value, int) else value
