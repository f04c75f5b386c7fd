"""What is in the configuration of a custom call: JSON, MLIR attributes, a program, or the task of a library?"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal

from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import BackendConfig, Json
from hlo_cli.ir.instruction import Instruction

# --- dictionaries of MLIR attributes ---
# Parses dictionaries of MLIR attributes, the text form of the attributes of typed custom calls.
#
# Mirrors the attribute grammar of mlir/lib/AsmParser/AttributeParser.cpp as far as xla/ffi/attribute_map.cc accepts
# it.


# Far deeper than configurations nest; the bound keeps made-up texts off Python's recursion limit.
_MAX_DEPTH: Final = 64
# Possessive quantifiers throughout: a configuration of megabytes must not be scanned twice.
_SPACE: Final = re.compile(r"\s*+")
_NAME: Final = re.compile(r'[A-Za-z_][\w.$-]*+|"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+(?:[eE][+-]?\d++)?)?+)(?![\w.])")
_WORD: Final = re.compile(r"(?:true|false|unit)(?![\w.<])")
_ARRAY: Final = re.compile(r"array<\s*+(\w++)\s*+(?::([^<>]*+))?+>")
_TENSOR: Final = re.compile(r"\s*+(?:tensor|vector)<((?:\d++x)*+)(\w++)>")
_PIECE: Final = re.compile(r'[^"\[\](){}<>,-]++|"(?:[^"\\]++|\\.)*+"|->|.', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-9A-Fa-f]{2}|[nt\"\\])")
# The escapes that MLIR's printer writes besides two hexadecimal digits.
_LETTERS: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class MlirScalar:
    """Boolean or number; `type` is `i1`, `ui8`, `f32`, or another type, `i64` or `f64` if the text has none."""

    value: bool | int | float
    type: str

    def __str__(self) -> str:
        return str(self.value).lower() if self.type == "i1" else str(self.value)


@dataclass(frozen=True, slots=True)
class MlirText:
    """String without escapes; invalid UTF-8 is kept as surrogates."""

    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class MlirArray:
    """Numbers of one type: `array<i64: 1, 2>`, or `dense<…>` without its dimensions, which FFI drops."""

    type: str
    count: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class MlirOther:
    """Text of an attribute that FFI does not accept: types, lists, symbols, maps, and attributes of other dialects."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class MlirDictionary:
    """Attributes by name."""

    entries: tuple[tuple[str, MlirAttribute], ...]

    def get(self, name: str) -> MlirAttribute | None:
        """Attribute of a name, or None."""
        return dict(self.entries).get(name)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name} = {value}" for name, value in self.entries) + "}"


MlirAttribute = MlirScalar | MlirText | MlirArray | MlirOther | MlirDictionary


def read_dictionary(text: str) -> MlirDictionary | None:
    """Dictionary in a text; None if the whole text is not one.

    >>> found = read_dictionary('{uplo = 76 : ui8, sizes = array<i64: 1, 2>, deep = {on = true}, name = "a\\\\22"}')
    >>> found.get("uplo"), found.get("sizes").count, found.get("deep").get("on").value, found.get("name").value
    (MlirScalar(value=76, type='ui8'), 2, True, 'a"')
    >>> read_dictionary('{"a": 1}') is None
    True
    """
    text = text.strip()
    if not text.startswith("{"):
        return None
    try:
        found, end = _dictionary(text, 0, 0)
    except _NotMlirError:
        return None
    return found if end == len(text) else None


class _NotMlirError(Exception):
    """Raised if the text is not a dictionary of attributes."""


def _dictionary(text: str, pos: int, depth: int) -> tuple[MlirDictionary, int]:
    entries: list[tuple[str, MlirAttribute]] = []
    pos = _after_space(text, pos + 1)
    while not text.startswith("}", pos):
        if (name := _NAME.match(text, pos)) is None:
            raise _NotMlirError
        pos = _after_space(text, name.end())
        value: MlirAttribute = MlirOther("unit")
        if text.startswith("=", pos):
            value, pos = _value(text, _after_space(text, pos + 1), depth + 1)
            pos = _after_space(text, pos)
        entries.append((_unescaped(name[0][1:-1]) if name[0][0] == '"' else name[0], value))
        if text.startswith(",", pos):
            pos = _after_space(text, pos + 1)
        elif not text.startswith("}", pos):
            raise _NotMlirError
    return MlirDictionary(tuple(entries)), pos + 1


def _value(text: str, pos: int, depth: int) -> tuple[MlirAttribute, int]:
    """Attribute at a position, including its type, and the position after it."""
    if text.startswith("{", pos) and depth < _MAX_DEPTH:
        return _dictionary(text, pos, depth)
    end = _end_of_value(text, pos)
    whole = text[pos:end].strip()
    if (match := _WORD.match(text, pos)) is not None and match[0] != "unit":
        return MlirScalar(match[0] == "true", "i1"), end
    if (match := _NUMBER.match(text, pos)) is not None:
        return _number(match[0], text[match.end() : end].strip().removeprefix(":").strip(), whole), end
    if (match := _STRING.match(text, pos)) is not None:
        return MlirText(_unescaped(match[1])), end
    if (match := _ARRAY.fullmatch(whole)) is not None:
        return MlirArray(match[1], len(match[2].split(",")) if (match[2] or "").strip() else 0, whole), end
    if whole.startswith("dense<") and (match := _TENSOR.fullmatch(whole.rpartition(":")[2])) is not None:
        return MlirArray(match[2], _elements(match[1]), whole), end
    if not whole:
        raise _NotMlirError
    return MlirOther(whole), end


def _number(digits: str, type_name: str, whole: str) -> MlirAttribute:
    if "." in digits or (type_name.startswith(("f", "bf")) and "0x" not in digits):
        return MlirScalar(float(digits), type_name or "f64")
    # No type of MLIR in these dictionaries has numbers of so many digits; Python refuses to read them from 4,300 on.
    if len(digits) > 40 or type_name.startswith(("f", "bf")):
        return MlirOther(whole)
    return MlirScalar(int(digits, 0) if "0x" in digits else int(digits), type_name or "i64")


def _elements(sizes: str) -> int:
    count = 1
    for size in sizes.split("x")[:-1]:
        # Cut so that a made-up size cannot cost time; an honest one has at most 19 digits.
        count *= int(size[:20])
    return count


def _end_of_value(text: str, pos: int) -> int:
    """Position after the value: of a comma or closing brace outside all brackets."""
    depth = 0
    while (match := _PIECE.match(text, pos)) is not None:
        piece = match[0]
        if depth == 0 and piece in ",}":
            return pos
        depth += (piece in "[({<") - (piece in "])}>")
        if depth < 0:
            raise _NotMlirError
        pos = match.end()
    raise _NotMlirError


def _after_space(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match is not None else pos


def _unescaped(text: str) -> str:
    r"""String without escapes; two hexadecimal digits are a byte.

    >>> _unescaped(r"\C3\A9\n"), _unescaped(r"\FF")
    ('é\n', '\udcff')
    """
    if "\\" not in text:
        return text
    # Escapes are bytes: characters are taken apart, replaced byte by byte, and put together again.
    data = text.encode("utf-8", "surrogateescape").decode("latin-1")
    undone = _ESCAPE.sub(lambda match: _LETTERS.get(match[1]) or chr(int(match[1], 16)), data)
    return undone.encode("latin-1").decode("utf-8", "surrogateescape")


# --- MLIR bytecode ---
# Reads the header, dialects, and operation names of MLIR bytecode.
#
# Mirrors mlir/lib/Bytecode/Reader/BytecodeReader.cpp: a header and sections, of which strings and dialects are read.


MAGIC: Final = b"ML\xefR"  # "MLïR" in mlir/lib/Bytecode/Encoding.h

_STRINGS: Final = 0  # `Section::kString`
_DIALECTS: Final = 1  # `Section::kDialect`
_VERSIONED_DIALECTS: Final = 1  # `kDialectVersioning`: from this version on a bit marks a version section
_COUNTED_OPERATIONS: Final = 4  # `kElideUnknownBlockArgLocation`: from here on the number of names comes first
_REGISTERED_FLAGS: Final = 5  # `kNativePropertiesEncoding`: from here on a bit marks registered names


@dataclass(frozen=True, slots=True)
class MlirBytecode:
    """Version of the format, producer, dialects, and operation names.

    `operations` are full names in the order of the file; both lists are empty if they cannot be read.
    """

    version: int
    producer: str
    dialects: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


def read_bytecode(data: bytes) -> MlirBytecode | None:
    """Header of MLIR bytecode, or None for other data.

    >>> read_bytecode(MAGIC + bytes([0x01]) + b"MLIR21" + bytes([0])).producer
    'MLIR21'
    >>> read_bytecode(b"other") is None
    True
    """
    if not data.startswith(MAGIC):
        return None
    reader = _Reader(data, len(MAGIC))
    try:
        version = reader.number()
        producer = reader.text()
    except IndexError:
        return None
    try:
        sections = dict(reader.sections())
        strings = _strings(sections[_STRINGS])
        dialects, operations = _dialects(_Reader(sections[_DIALECTS]), strings, version)
    except (IndexError, KeyError):
        return MlirBytecode(version, producer)
    return MlirBytecode(version, producer, dialects, operations)


class _Reader:
    """Bytes with a read position; IndexError at the end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Reads an integer of up to 64 bits; the trailing zero bits of the first byte are the number of further
        bytes.
        """
        first = self.byte()
        # Encoding.h: a first byte of 0 announces eight bytes as they are.
        more = (first & -first).bit_length() - 1 if first else 8
        if more == 8:
            return int.from_bytes(self.take(8), "little")
        return int.from_bytes(bytes((first,)) + self.take(more), "little") >> (more + 1)

    def text(self) -> str:
        """Reads a null-terminated string."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise IndexError(end)
        found = self.data[self.at : end].decode("utf-8", "surrogateescape")
        self.at = end + 1
        return found

    def sections(self) -> list[tuple[int, bytes]]:
        """Reads the remaining sections with their ids; the highest bit of an id marks an aligned section."""
        sections: list[tuple[int, bytes]] = []
        while self.at < len(self.data):
            number = self.byte()
            length = self.number()
            if number & 0x80:
                alignment = self.number()
                self.at += -self.at % alignment if alignment else 0
            sections.append((number & 0x7F, self.take(length)))
        return sections


def _strings(section: bytes) -> list[str]:
    """Strings of the string section, which starts with their lengths in reverse order."""
    reader = _Reader(section)
    count = reader.number()
    # Each string takes a byte at least; a larger count is damage, and would make a list of any size.
    if count > len(section):
        raise IndexError(count)
    lengths = [reader.number() for _ in range(count)]
    # Strings end in a null byte, which their lengths count.
    return [reader.take(length)[:-1].decode("utf-8", "surrogateescape") for length in reversed(lengths)]


def _dialects(reader: _Reader, strings: list[str], version: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of dialects, and full names of operations."""
    names: list[str] = []
    for _ in range(reader.number()):
        number = reader.number()
        if version >= _VERSIONED_DIALECTS:
            has_version, number = number & 1, number >> 1
            if has_version:
                reader.byte()
                reader.take(reader.number())
        names.append(strings[number])
    if version >= _COUNTED_OPERATIONS:
        reader.number()
    operations: list[str] = []
    while reader.at < len(reader.data):
        dialect = names[reader.number()]
        for _ in range(reader.number()):
            number = reader.number()
            operations.append(f"{dialect}.{strings[number >> 1 if version >= _REGISTERED_FLAGS else number]}")
    return tuple(names), tuple(operations)


# --- embedded programs ---
# Programs embedded in custom calls: their kind, size, and producer, recognized by magic bytes.


_MAX_INFLATED: Final = 1 << 24  # 16 MiB, chosen: far more than a kernel takes, and a zlib bomb has no end
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]++={0,2}\s*+")
_MIN_BASE64: Final = 16  # shorter texts are words by chance made of these letters, such as names
_MODULE: Final = re.compile(rb"\s*+(?:#[\w!]|builtin\.module|module\b)")
_OPERATION: Final = re.compile(r'"?([a-z_]\w*+(?:\.\w++)++)')
_BINARIES: Final = (  # first bytes of files, as `file` and the drivers know them
    (b"\x7fELF", "ELF"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"//\n// Generated by LLVM NVPTX", "PTX"),
    (b"//\n// Generated by NVIDIA", "PTX"),
    (b".version", "PTX"),
)


@dataclass(frozen=True, slots=True)
class EmbeddedProgram:
    """Embedded program: its kind, and its size in bytes and SHA-256 after `packing` is undone.

    `version` and `producer` are those of MLIR bytecode; `operations` the names of the MLIR operations in the program.
    `packing` is the encoding in the text: `base64`, `zlib`, `base64, zlib`, or empty.
    """

    kind: str
    bytes: int
    digest: str
    packing: str = ""
    version: int | None = None
    producer: str = ""
    operations: tuple[str, ...] = ()


# One kernel is called from many places; hashing and inflating it once is enough. The bound is chosen, not measured.
@lru_cache(maxsize=1024)
def embedded_program(text: str) -> EmbeddedProgram | None:
    """Program in a string, or None if no known kind is recognized.

    >>> from base64 import b64encode
    >>> body = embedded_program(b64encode(b"module { func.func @f() { return } }").decode())
    >>> body.kind, body.bytes, body.packing, body.operations
    ('MLIR text', 36, 'base64', ('func.func',))
    >>> embedded_program("a text") is None
    True
    """
    data = text.encode("utf-8", "surrogateescape")
    if (body := _unpacked(data, "")) is not None:
        return body
    if len(text) < _MIN_BASE64 or _BASE64.fullmatch(text) is None:
        return None
    try:
        return _unpacked(a2b_base64(data), "base64")
    except Base64Error:
        return None


def _digest_of(data: bytes) -> str:
    """SHA-256 of `data` in hexadecimal."""
    return sha256(data).hexdigest()


def _unpacked(data: bytes, packing: str) -> EmbeddedProgram | None:
    if (inflated := _inflated(data)) is not None:
        packed = f"{packing}, zlib".removeprefix(", ")
        return _recognized(inflated, packed) or EmbeddedProgram("unknown", len(inflated), _digest_of(inflated), packed)
    return _recognized(data, packing)


def _recognized(data: bytes, packing: str) -> EmbeddedProgram | None:
    """Program recognized by its first bytes, or None."""
    size, digest = len(data), _digest_of(data)
    if data.startswith(MAGIC):
        read = read_bytecode(data) or MlirBytecode(-1, "")
        version = read.version if read.version >= 0 else None
        return EmbeddedProgram("MLIR bytecode", size, digest, packing, version, read.producer, read.operations)
    if _MODULE.match(data) is not None and b"{" in data:
        return EmbeddedProgram("MLIR text", size, digest, packing, operations=_operations_in(data))
    for begins, kind in _BINARIES:
        if data.startswith(begins):
            return EmbeddedProgram(kind, size, digest, packing)
    return None


def _operations_in(data: bytes) -> tuple[str, ...]:
    """Names of the operations in MLIR text: each at the beginning of a line or after `=`."""
    operations: dict[str, None] = {}
    for piece in re.split(r"[\n{;]", data.decode("utf-8", "surrogateescape")):
        before, equals, after = piece.partition(" = ")
        operation = after if equals and before.lstrip().startswith("%") else piece
        if (match := _OPERATION.match(operation.lstrip())) is not None:
            operations[match[1]] = None
    return tuple(operations)


def _inflated(data: bytes) -> bytes | None:
    """Data decompressed by zlib, up to a limit; None if it is not zlib data."""
    # RFC 1950: method 8, a window of at most 32 KiB, and a check sum of the two bytes. Cheaper than a failed attempt.
    if len(data) < 2 or data[0] & 15 != 8 or data[0] >> 4 > 7 or (data[0] << 8 | data[1]) % 31:
        return None
    import zlib

    try:
        return zlib.decompressobj().decompress(data, _MAX_INFLATED)
    except zlib.error:
        return None


# --- configurations ---
# Configuration of a custom call, decoded if its format is known.
#
# Mirrors how xla/service/gpu and xla/service/cpu read `backend_config`: as JSON of a compiler's own fields, as a
# dictionary of MLIR attributes for typed calls, or as opaque bytes for the function.


ConfigKind = Literal["none", "JSON", "MLIR dictionary", "program", "text", "bytes"]

_CALL_CONFIG_KEY = "custom_call_backend_config"


@dataclass(frozen=True, slots=True)
class ConfigField:
    """Value of a configuration with its path, such as `custom_call_config.body`, and its embedded program, if any.

    `type` is the MLIR type, empty for JSON. A list of plain values is one value.
    """

    path: str
    value: bool | int | float | str | None
    type: str = ""
    program: EmbeddedProgram | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the value is an empty list, object, or text."""
        return self.value in ("", None)


@dataclass(frozen=True, slots=True)
class CustomCallConfig:
    """Configuration of a call: its kind, size in bytes, and values.

    `attributes` are those of a typed call; `opaque` is the text that other calls pass to their function.
    """

    kind: ConfigKind
    bytes: int = 0
    digest: str = ""
    fields: tuple[ConfigField, ...] = ()
    attributes: MlirDictionary | None = None
    opaque: str = ""

    @property
    def programs(self) -> tuple[ConfigField, ...]:
        """Values that are embedded programs."""
        return tuple(field for field in self.fields if field.program is not None)


def read_config(config: BackendConfig | None) -> CustomCallConfig:
    """Decodes a backend configuration.

    >>> read_config(BackendConfig("{uplo = 76 : ui8}")).fields
    (ConfigField(path='uplo', value=76, type='ui8', program=None),)
    >>> payload = read_config(BackendConfig('{"a":{"b":["1","2"]},"custom_call_backend_config":{"opaque":"x"}}'))
    >>> [(field.path, field.value) for field in payload.fields], payload.opaque
    ([('a.b', '1, 2'), ('custom_call_backend_config.opaque', 'x')], 'x')
    """
    return CustomCallConfig("none") if config is None or not config.text else _decode(config.text)


@lru_cache(maxsize=4096)
def _decode(text: str) -> CustomCallConfig:
    config = BackendConfig(text)
    data = text.encode("utf-8", "surrogateescape")
    size, digest = len(data), _digest_of(data)
    # An empty dictionary is empty in JSON and MLIR alike; it says nothing of the kind.
    if not config.json and text.strip() == "{}":
        return CustomCallConfig("none", size, digest, attributes=MlirDictionary(()))
    # JSON first: a dictionary of MLIR has `=` where JSON has `:`, so that no text is both.
    if isinstance(config.json, Mapping):
        fields = tuple(_json_fields(config.json))
        opaque, attributes = (config.get(_CALL_CONFIG_KEY, name) for name in ("opaque", "attributes"))
        dictionary = read_dictionary(attributes) if isinstance(attributes, str) else None
        return CustomCallConfig("JSON", size, digest, fields, dictionary, opaque if isinstance(opaque, str) else "")
    if (dictionary := read_dictionary(text)) is not None:
        return CustomCallConfig("MLIR dictionary", size, digest, tuple(_mlir_fields("", dictionary)), dictionary)
    if (body := embedded_program(text)) is not None:
        return CustomCallConfig("program", size, digest, (ConfigField("", text, program=body),), opaque=text)
    return CustomCallConfig("text" if text.isprintable() else "bytes", size, digest, opaque=text)


def _json_fields(config: Mapping[str, Json]) -> Iterator[ConfigField]:
    """Yields every value in the order of the text, at any depth."""
    pending: list[tuple[str, Json]] = [("", config)]
    while pending:
        path, value = pending.pop()
        match value:
            case Mapping() if value:
                inner = [(f"{path}.{key}" if path else key, each) for key, each in value.items()]
                pending.extend(reversed(inner))
            case tuple() if value and any(isinstance(each, tuple | Mapping) for each in value):
                pending.extend(reversed([(f"{path}[{n}]", each) for n, each in enumerate(value)]))
            case tuple():
                yield ConfigField(path, ", ".join(map(_plain, value)))
            case Mapping():
                yield ConfigField(path, "")
            case str():
                yield from _text_fields(path, value)
            case _:
                yield ConfigField(path, value)


def _text_fields(path: str, text: str) -> Iterable[ConfigField]:
    """Fields of a text: its entries if it is a dictionary of MLIR attributes, else the text."""
    if text.startswith("{") and (dictionary := read_dictionary(text)) is not None and dictionary.entries:
        return _mlir_fields(path, dictionary)
    return (ConfigField(path, text, program=embedded_program(text)),)


def _mlir_fields(path: str, dictionary: MlirDictionary) -> Iterator[ConfigField]:
    """Yields every attribute in the order of the text, at any depth."""
    pending: list[tuple[str, MlirAttribute]] = [(path, dictionary)]
    while pending:
        field_path, value = pending.pop()
        match value:
            case MlirDictionary(entries=entries):
                pending.extend(
                    (f"{field_path}.{name}" if field_path else name, each) for name, each in reversed(entries)
                )
            case MlirScalar(value=number, type=type_name):
                yield ConfigField(field_path, number, type_name)
            case _:
                text = str(value)
                yield ConfigField(field_path, text, _type_name(value), embedded_program(text))


def _type_name(attribute: MlirAttribute) -> str:
    """Type of an attribute, such as `array of i64` or `string`; empty if FFI does not accept it."""
    match attribute:
        case MlirScalar(type=type_name):
            return type_name
        case MlirArray(type=type_name):
            return f"array of {type_name}"
        case MlirText():
            return "string"
        case MlirDictionary():
            return "dictionary"
    return ""


def _plain(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


# --- what cuBLAS and cuDNN compute ---
# Describes the computation of cuBLAS and cuDNN calls from their configurations.
#
# Mirrors `GemmBackendConfig`, `CudnnConvBackendConfig`, `CudnnNormBackendConfig`, and `CudnnfMHABackendConfig` of
# xla/service/gpu/backend_configs.proto.


# Messages whose scalar fields read well by their own names.
_PLAIN_CONFIGS: Final = ("cudnn_norm_backend_config", "cudnn_fmha_backend_config", "block_scaled_dot_backend_config")
_EPILOGUES: Final = {  # `GemmBackendConfig.Epilogue`
    "": "",
    "DEFAULT": "",
    "BIAS": " + bias",
    "RELU": " + ReLU",
    "BIAS_RELU": " + bias + ReLU",
    "GELU": " + GELU",
    "GELU_AUX": " + GELU (auxiliary output)",
    "BIAS_GELU": " + bias + GELU",
    "BIAS_GELU_AUX": " + bias + GELU (auxiliary output)",
    "SILU": " + SiLU",
    "BIAS_SILU": " + bias + SiLU",
}
# `stream_executor::dnn::ActivationMode`.
_ACTIVATIONS: Final = {"relu": "ReLU", "relu6": "ReLU6", "elu": "ELU", "leakyrelu": "leaky ReLU"}
# `scale_mode`: 1 scales a tensor of fp8, 2 blocks of it; 0 is none.
_SCALES: Final = {"1": "per-operand scale", "2": "per-block scale"}


def describe_library_call(call: Instruction) -> tuple[tuple[str, str], ...]:
    """Labels and descriptions of the computation; empty for other calls.

    >>> from hlo_cli import parse_module
    >>> dims = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    >>> gemm = f'"gemm_backend_config":{{"alpha_real":2,"beta":1,"epilogue":"BIAS_GELU",{dims}}}'
    >>> text = f'custom-call(f32[2,3] a, f32[3,5] b), custom_call_target="__cublas$gemm", backend_config={{{gemm}}}'
    >>> root = parse_module(f"r = (f32[2,5], s8[9]) {text}").entry.root
    >>> for line in describe_library_call(root): print(*line, sep=": ")
    matmul: m 2, n 5, k 3
    computes: 2 × lhs × rhs + 1 × operand 2 + bias + GELU
    algorithm: library default
    """
    config = call.backend_config
    if config is None or not isinstance(config.json, Mapping):
        return ()
    if isinstance(gemm := config.get("gemm_backend_config"), Mapping):
        return tuple(_gemm(call, gemm))
    if isinstance(convolution := config.get("cudnn_conv_backend_config"), Mapping):
        return tuple(_convolution(call, convolution))
    return tuple(_others(config))


def _gemm(call: Instruction, config: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    yield from _matmul(call)
    epilogue = str(config.get("epilogue") or "")
    after = _EPILOGUES.get(epilogue, f" + {epilogue}")
    factor = f"{_format_number(config.get('alpha_real', 1))}"
    if _format_number(config.get("alpha_imag", 0)) != "0":
        factor = f"({factor} + {_format_number(config.get('alpha_imag'))} i)"
    beta = _format_number(config.get("beta", 0))
    # matmul_utils.cc: the matrix that beta scales is operand 2.
    added = f" + {beta} × operand 2" if beta != "0" else ""
    yield "computes", f"{factor} × lhs × rhs{added}{after}"
    if scaling := _SCALES.get(_format_number(config.get("scale_mode", 0))):
        yield "scaling", scaling
    # Absent without autotuning; cuBLAS then takes its own default.
    algorithm = config.get("selected_algorithm")
    yield "algorithm", "library default" if algorithm is None else f"{_format_number(algorithm)}"


def _convolution(call: Instruction, config: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    yield from _matmul(call)
    for attribute in ("window", "dim_labels", "feature_group_count", "batch_group_count"):
        if (text := call.attribute(attribute)) is not None:
            yield attribute, text.strip("{}")
    side = _format_number(config.get("side_input_scale", 0))
    added = f" + {side} × side input" if side != "0" else ""
    activation = str(config.get("activation_mode") or "kNone").removeprefix("k").lower()
    after = "" if activation == "none" else f" + {_ACTIVATIONS.get(activation, activation)}"
    yield "computes", f"{_format_number(config.get('conv_result_scale', 1))} × convolution{added}{after}"
    algorithm = config.get("algorithm")
    if not isinstance(algorithm, Mapping):
        yield "algorithm", "chosen at run time (autotuned)"
        return
    cores = " (tensor cores)" if algorithm.get("math_type") == "TENSOR_OP_MATH" else ""
    yield "algorithm", f"{_format_number(algorithm.get('algo_id', 0))}{cores}"


def _others(config: BackendConfig) -> Iterator[tuple[str, str]]:
    """Yields the scalar settings of normalization and attention by their names."""
    for name in _PLAIN_CONFIGS:
        settings = config.get(name)
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield key, _format_number(value)


def _matmul(call: Instruction) -> Iterator[tuple[str, str]]:
    if (matmul := matmul_of(call)) is not None:
        batch = f"batch {matmul.batch:,}, " if matmul.batch != 1 else ""
        yield "matmul", f"{batch}m {matmul.m:,}, n {matmul.n:,}, k {matmul.k:,}"


def _format_number(value: Json) -> str:
    """Shortest decimal form of a number."""
    return f"{value:g}" if isinstance(value, float) else str(value)
