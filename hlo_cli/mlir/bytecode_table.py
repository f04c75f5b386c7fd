"""Which strings, types, attributes, and locations MLIR bytecode has: its sections and numbers, decoded on use.

The codes of types and attributes are those of the dialect `builtin`; other dialects write text, or bytes of their own,
which are kept. A code that is not known costs that attribute, and nothing else: producers change the codes without
changing the version.

Mirrors mlir/lib/Bytecode/Reader/BytecodeReader.cpp and mlir/lib/IR/BuiltinDialectBytecode.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, cast

from hlo_cli.dataclass import dataclass
from hlo_cli.mlir.mlir_values import (
    NO_LOCATION,
    AffineMap,
    ArrayType,
    Attribute,
    CallLocation,
    ComplexType,
    DenseArray,
    DenseElements,
    DictionaryAttribute,
    FileLocation,
    FloatAttribute,
    FunctionType,
    FusedLocation,
    IntegerAttribute,
    IntegerType,
    ListAttribute,
    Location,
    NamedLocation,
    NamedType,
    StridedLayout,
    StringAttribute,
    SymbolAttribute,
    TextAttribute,
    TextType,
    TupleType,
    Type,
    TypeAttribute,
    UnitAttribute,
    Unread,
    wrapped,
)
from hlo_cli.source import HloError, counted

MAX_DEPTH: Final = 100  # programs have ten; each level takes some of Python's stack
"""Regions, attributes, and types inside of each other."""
MAX_SIZE: Final = 1 << 24  # characters: 16 MB; attributes may name each other, and so be far larger than their bytes
"""The size of one attribute or type with all that it contains."""

# the order in which the sections are numbered (`bytecode::Section::ID`)
STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR, _, _, _, PROPERTIES = range(9)
# the versions in which the format changed (`bytecode::BytecodeVersion`)
WITH_VERSIONS, WITH_LAZY_REGIONS, WITH_USES, WITHOUT_LOCATIONS, WITH_PROPERTIES, _ = range(1, 7)
_ALIGNED: Final = 0x80  # the bit of a section's number that an alignment follows
_PADDING: Final = 0xCB  # the byte that fills the room up to it


class BytecodeError(HloError):
    """Bytes that are not MLIR bytecode, or are damaged.

    `at` is the offset of the first that cannot be read, `version` and `producer` are what the header has of them.
    """

    def __init__(self, message: str, at: int, version: int | None = None, producer: str = "") -> None:
        made = f", version {version}" if version is not None else ""
        made += f" by {producer}" if producer else ""
        super().__init__(f"{message} (MLIR bytecode{made}, byte {at:,})")
        self.at, self.version, self.producer = at, version, producer


# --- numbers and sections ---

Bounds = tuple[int, int]
"""The offsets of the first byte and after the last."""


class Reader:
    """Reads numbers from `at` up to `end`; errors have the offset."""

    __slots__ = ("at", "data", "end", "table")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None, table: Table | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.table = table

    def error(self, message: str, at: int | None = None) -> BytecodeError:
        """The error with its place, which is here by default."""
        version, producer = (self.table.version, self.table.producer) if self.table else (None, "")
        return BytecodeError(message, self.at if at is None else at, version, producer)

    def within(self, bounds: Bounds) -> Reader:
        """A reader of a part of the same bytes."""
        return Reader(self.data, *bounds, self.table)

    def byte(self) -> int:
        """The next byte."""
        if self.at >= self.end:
            raise self.error("unexpected end")
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        start = self.at
        if count > self.end - start:
            raise self.error(f"expected {counted(count, 'bytes')}, found {self.end - start:,}")
        self.at += count
        return self.data[start : self.at]

    def varint(self) -> int:
        """An unsigned number: the zeros at the end of its first byte count the bytes that follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if not first:
            return int.from_bytes(self.bytes(8), "little")
        follow = (first & -first).bit_length() - 1
        return (first | int.from_bytes(self.bytes(follow), "little") << 8) >> (follow + 1)

    def signed(self) -> int:
        """A signed number, in zigzag order."""
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def flagged(self) -> tuple[int, bool]:
        """A number and a flag in one."""
        number = self.varint()
        return number >> 1, bool(number & 1)

    def number_below(self, limit: int, what: str) -> int:
        """The number of one of so many things."""
        start = self.at
        number = self.varint()
        if number >= limit:
            raise self.error(f"{what} {number:,} not found", start)
        return number

    def count(self, what: str, width: int = 1) -> int:
        """How many things follow, of at least `width` bytes each: no more than there is room for."""
        start = self.at
        number = self.varint()
        if number * width > self.end - self.at:
            raise self.error(f"{number:,} {what} do not fit in {self.end - self.at:,} bytes", start)
        return number

    def text(self) -> str:
        """The text up to a zero byte."""
        stop = self.data.find(0, self.at, self.end)
        if stop < 0:
            raise self.error("unterminated text")
        start, self.at = self.at, stop + 1
        return self.data[start:stop].decode("utf-8", "surrogateescape")

    def section(self) -> tuple[int, Bounds]:
        """A section's number and where its content is; goes on after it."""
        number = self.byte()
        length = self.varint()
        if number & _ALIGNED:
            self.varint()
            while self.at < self.end and self.data[self.at] == _PADDING:
                self.at += 1
        start = self.at
        self.bytes(length)
        return number & ~_ALIGNED, (start, start + length)

    def sections(self) -> dict[int, Bounds]:
        """All sections up to the end, by number."""
        found: dict[int, Bounds] = {}
        while self.at < self.end:
            start = self.at
            number, bounds = self.section()
            if number > PROPERTIES or number in found:
                raise self.error(f"unexpected section {number}", start)
            found[number] = bounds
        return found


# --- strings, dialects, and where attributes and types are ---


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where the bytes of an attribute or a type are, and whether they are a code with its data, or text."""

    dialect: str
    bounds: Bounds
    is_binary: bool


_V = TypeVar("_V", Attribute, Type)


class Table:
    """What operations refer to by number; types and attributes are decoded on first use.

    `foreign` are the codes of dialects besides `builtin`, whose attributes and types are `Unread` without them.
    """

    def __init__(self, data: bytes, version: int, foreign: Mapping[str, ForeignCodes] | None = None) -> None:
        self.data = data
        self.version = version
        self.foreign = foreign or {}
        self.producer = ""
        self.strings: list[str] = []
        self.dialects: list[str] = []
        self.operation_names: list[str] = []
        self._attributes: list[_Entry] = []
        self._types: list[_Entry] = []
        self._properties: list[Bounds] = []
        self._read_attributes: dict[int, Attribute] = {}
        self._read_types: dict[int, Type] = {}
        self._dictionaries: dict[int, Mapping[str, Attribute]] = {}
        self._sizes: dict[tuple[bool, int], int] = {}
        self._room = MAX_SIZE
        self._depth = 0

    # --- what the sections have ---

    def read_strings(self, reader: Reader) -> None:
        """The strings: their lengths, from the last to the first, then all bytes."""
        count = reader.count("strings")
        lengths = [reader.varint() for _ in range(count)]
        for length in reversed(lengths):
            if not length:
                raise reader.error("a string without its end")
            self.strings.append(reader.bytes(length)[:-1].decode("utf-8", "surrogateescape"))

    def read_dialects(self, reader: Reader) -> None:
        """The names of dialects, and of their operations."""
        for _ in range(reader.count("dialects")):
            name, has_version = reader.flagged() if self.version >= WITH_VERSIONS else (reader.varint(), False)
            self.dialects.append(self._string(reader, name))
            if has_version:
                reader.section()
        if self.version >= WITHOUT_LOCATIONS:
            reader.varint()  # the number of operations
        while reader.at < reader.end:
            dialect = self._dialect(reader)
            for _ in range(reader.count("operation names")):
                name, _ = reader.flagged() if self.version >= WITH_PROPERTIES else (reader.varint(), False)
                self.operation_names.append(f"{dialect}.{self._string(reader, name)}")

    def _string(self, reader: Reader, number: int) -> str:
        if number >= len(self.strings):  # no `number_below`, as a flag may stand with it
            raise reader.error(f"string {number:,} not found")
        return self.strings[number]

    def string(self, reader: Reader) -> str:
        """The string whose number is next."""
        return self._string(reader, reader.varint())

    def _dialect(self, reader: Reader) -> str:
        return self.dialects[reader.number_below(len(self.dialects), "dialect")]

    def read_offsets(self, reader: Reader, bounds: Bounds) -> None:
        """Where each attribute and each type is, of those in `bounds`, one after the other."""
        counts = (reader.count("attributes"), reader.count("types"))
        at, end = bounds
        for entries, count in zip((self._attributes, self._types), counts, strict=True):
            while len(entries) < count:
                dialect = self._dialect(reader)
                for _ in range(reader.count("entries")):
                    size, is_binary = reader.flagged()
                    if size > end - at or len(entries) >= count:
                        raise reader.error("the attributes and types do not fit in their section")
                    entries.append(_Entry(dialect, (at, at + size), is_binary))
                    at += size

    def read_properties(self, reader: Reader) -> None:
        """Where the properties of operations are, which only their dialects can read."""
        for _ in range(reader.count("properties")):
            length = reader.varint()
            start = reader.at
            reader.bytes(length)
            self._properties.append((start, start + length))

    def properties(self, reader: Reader) -> bytes:
        """The properties whose number is next."""
        start, end = self._properties[reader.number_below(len(self._properties), "set of properties")]
        return self.data[start:end]

    @property
    def attribute_count(self) -> int:
        """The number of attributes."""
        return len(self._attributes)

    @property
    def type_count(self) -> int:
        """The number of types."""
        return len(self._types)

    # --- decoding on use ---

    def attribute(self, number: int) -> Attribute:
        """An attribute by its number; BytecodeError if it is malformed."""
        forms = (ATTRIBUTE_CODES, TextAttribute)
        return self._decoded(number, self._attributes, self._read_attributes, forms, is_type=False)

    def type(self, number: int) -> Type:
        """A type by its number; BytecodeError if it is malformed."""
        return self._decoded(number, self._types, self._read_types, (TYPE_CODES, TextType), is_type=True)

    def _decoded(
        self,
        number: int,
        entries: Sequence[_Entry],
        known: dict[int, _V],
        of_form: tuple[Mapping[int, Callable[[Decoder], _V]], Callable[[str], _V]],
        *,
        is_type: bool,
    ) -> _V:
        """An entry; `_room` is what may still be added to the outermost one, of which this may be a part."""
        self._take(self._sizes.get((is_type, number), 0), number)
        if number in known:
            return known[number]
        entry = entries[number]
        room, self._depth = self._room, self._depth + 1
        try:
            self._take(entry.bounds[1] - entry.bounds[0] + 1, number)
            if self._depth > MAX_DEPTH:
                message = f"attributes and types are nested too deeply (limit {MAX_DEPTH})"
                raise BytecodeError(message, entry.bounds[0], self.version, self.producer)
            known[number] = self._read(entry, *of_form, is_type=is_type)
            self._sizes[is_type, number] = room - self._room
        finally:
            self._depth -= 1
            if not self._depth:
                self._room = MAX_SIZE
        return known[number]

    def _take(self, size: int, number: int) -> None:
        """Counts what is added to the attribute that is being decoded."""
        if self._depth:
            self._room -= size
            if self._room < 0:
                message = f"attribute or type {number:,} is larger than {MAX_SIZE:,} characters"
                raise BytecodeError(message, 0, self.version, self.producer)

    def _read(
        self,
        entry: _Entry,
        codes: Mapping[int, Callable[[Decoder], _V]],
        of_text: Callable[[str], _V],
        *,
        is_type: bool,
    ) -> _V:
        reader = Decoder(self, *entry.bounds)
        if not entry.is_binary:
            return of_text(reader.text())
        unread = Unread(entry.dialect, self.data[slice(*entry.bounds)], entry.bounds[0])
        if entry.dialect != "builtin":
            if (foreign := self.foreign.get(entry.dialect)) is None:
                return unread
            codes = cast(Mapping[int, Callable[[Decoder], _V]], foreign.types if is_type else foreign.attributes)
        decode = codes.get(reader.varint())
        if decode is None:
            return unread
        value = decode(reader)
        # bytes that are left over are those of a form that is not known, so what was read is not the value
        return value if reader.at == reader.end else unread

    def dictionary(self, number: int) -> Mapping[str, Attribute]:
        """A dictionary by its number; empty for -1. An entry that is malformed is kept as `Unread`."""
        if number < 0:
            return {}
        if number not in self._dictionaries:
            value = self.attribute(number)
            self._dictionaries[number] = dict(value.entries) if isinstance(value, DictionaryAttribute) else {"": value}
        return self._dictionaries[number]

    def location(self, number: int) -> Location | None:
        """A location by its number; None if it is unknown."""
        return location_of(self.attribute(number))


def location_of(value: Attribute) -> Location | None:
    """The location that an attribute is; None if it is none."""
    return value if isinstance(value, FileLocation | NamedLocation | CallLocation | FusedLocation) else None


@dataclass(frozen=True, slots=True)
class ForeignCodes:
    """How attributes and types of a dialect besides `builtin` are read, by their codes."""

    attributes: Mapping[int, Callable[[Decoder], Attribute]]
    types: Mapping[int, Callable[[Decoder], Type]]


# --- attributes and types of `builtin` ---


class Decoder(Reader):
    """Reads the parts of one attribute or type."""

    __slots__ = ("owner",)

    def __init__(self, owner: Table, at: int, end: int) -> None:
        super().__init__(owner.data, at, end, owner)
        self.owner = owner

    def type(self) -> Type:
        """The type whose number is next."""
        return self.owner.type(self.number_below(self.owner.type_count, "type"))

    def types(self) -> tuple[Type, ...]:
        """A list of types."""
        return tuple([self.type() for _ in range(self.count("types"))])

    def attribute(self) -> Attribute:
        """The attribute whose number is next."""
        return self.owner.attribute(self.number_below(self.owner.attribute_count, "attribute"))

    def attributes(self) -> tuple[Attribute, ...]:
        """A list of attributes."""
        return tuple([self.attribute() for _ in range(self.count("attributes"))])

    def name(self) -> str:
        """The string in the attribute whose number is next."""
        start = self.at
        value = self.attribute()
        match value:
            case StringAttribute():
                return value.value
            case SymbolAttribute(names=(name,)):
                return name
        raise self.error("expected a string", start)

    def integers(self) -> tuple[int, ...]:
        """A list of signed numbers."""
        return tuple([self.signed() for _ in range(self.count("numbers"))])

    def blob(self) -> bytes:
        """Bytes after their number."""
        return self.bytes(self.varint())

    def number(self, bits: int) -> int:
        """The bits of a number of a type (`APInt`): unsigned."""
        if bits <= 8:
            return self.byte()
        if bits <= 64:
            return self.signed() & (1 << bits) - 1
        words = [self.signed() & (1 << 64) - 1 for _ in range(self.count("words"))]
        return sum(word << 64 * place for place, word in enumerate(words)) & (1 << bits) - 1

    def bits_of(self, kind: Type, start: int) -> int:
        """The bits of a number of a type."""
        bits = kind.bits if isinstance(kind, IntegerType | NamedType) else None
        if not bits:
            raise self.error("expected a type of numbers", start)
        return bits


def read_dictionary(reader: Decoder) -> Attribute:
    """A dictionary: how many entries, and a name and an attribute for each."""
    count = reader.count("entries", 2)
    return DictionaryAttribute(tuple([(reader.name(), reader.attribute()) for _ in range(count)]))


def _integer(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    return IntegerAttribute(wrapped(reader.number(reader.bits_of(kind, start)), kind), kind)


def _float(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    bits = reader.bits_of(kind, start)
    return FloatAttribute(reader.number(bits) & (1 << bits) - 1, kind)


def _nested_symbol(reader: Decoder) -> Attribute:
    root = reader.name()
    return SymbolAttribute((root, *[reader.name() for _ in range(reader.count("names"))]))


def _dense_array(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    reader.bits_of(kind, start)
    count = reader.varint()
    found = DenseArray(kind, reader.blob())
    if len(found.values) != count:
        raise reader.error(f"expected {counted(count, 'numbers')}, found {len(found.values):,}", start)
    return found


def _dense_elements(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    found = DenseElements(kind, reader.blob())
    expected = kind.elements if isinstance(kind, ArrayType) else None
    if expected is None or not (found.is_splat or len(found.numbers) == expected * _parts(kind)):
        raise reader.error(f"the bytes are not those of a {kind}", start)
    return found


def _parts(kind: Type) -> int:
    """The numbers in an element."""
    return 2 if isinstance(kind, ArrayType) and isinstance(kind.element, ComplexType) else 1


def _file(reader: Decoder) -> Attribute:
    return FileLocation(reader.name(), reader.varint(), reader.varint())


def _file_range(reader: Decoder) -> Attribute:
    name = reader.name()
    start = reader.at
    numbers = [reader.varint() for _ in range(reader.count("numbers"))]
    if len(numbers) > 4:
        raise reader.error("expected at most 4 numbers", start)
    # line; column; the last column, of the same line; or the last line, and its column
    line, column, *end = (*numbers, 0, 0)[: max(len(numbers), 2)]
    end_line, end_column = {0: (0, 0), 1: (line, *end)}.get(len(end), tuple(end))
    return FileLocation(name, line, column, end_line, end_column)


def _fused(reader: Decoder, *, has_metadata: bool) -> Attribute:
    parts = tuple([location_of(part) for part in reader.attributes()])
    return FusedLocation(parts, reader.attribute() if has_metadata else None)


def _memref(reader: Decoder, *, has_space: bool) -> Type:
    space = reader.attribute() if has_space else None
    return ArrayType("memref", reader.integers(), reader.type(), reader.attribute(), space)


def _tensor(reader: Decoder, *, has_encoding: bool) -> Type:
    encoding = reader.attribute() if has_encoding else None
    return ArrayType("tensor", reader.integers(), reader.type(), encoding)


def _unranked_memref(reader: Decoder, *, has_space: bool) -> Type:
    space = reader.attribute() if has_space else None
    return ArrayType("memref", None, reader.type(), None, space)


def _scalable(reader: Decoder) -> Type:
    flags = tuple([bool(reader.byte()) for _ in range(reader.count("flags"))])
    start = reader.at
    shape = reader.integers()
    if len(flags) != len(shape):
        raise reader.error("expected a flag for each dimension", start)
    return ArrayType("vector", shape, reader.type(), scalable=flags)


def _integer_type(reader: Decoder) -> Type:
    code = reader.varint()
    return IntegerType(code >> 2, ("", "s", "u", "")[code & 3])


def _affine_map(reader: Decoder) -> Attribute:
    """An affine map, as binary since the MLIR of jax 0.12; before, it was text."""
    start = reader.at
    dimensions, form = divmod(reader.varint(), 4)
    if dimensions > MAX_DEPTH:
        raise reader.error(f"an affine map of {dimensions:,} dimensions", start)
    match form:
        case 0:
            return AffineMap(dimensions, 0, tuple([f"d{number}" for number in range(dimensions)]))
        case 1:
            return AffineMap(dimensions, 0, tuple([f"d{reader.varint()}" for _ in range(dimensions)]))
        case 2:
            return AffineMap(dimensions, 0, tuple([f"d{reader.varint()}" for _ in range(reader.count("results"))]))
    symbols = reader.count("symbols", 0)
    results = tuple([_expression(reader, 0)[0] for _ in range(reader.count("results"))])
    if symbols > MAX_DEPTH:
        raise reader.error(f"an affine map of {symbols:,} symbols", start)
    return AffineMap(dimensions, symbols, results)


def _strided(reader: Decoder) -> Attribute:
    offset = reader.signed()
    return StridedLayout(reader.integers(), offset)


_BINARY: Final = ("+", "*", "mod", "floordiv", "ceildiv")


def _expression(reader: Decoder, depth: int) -> tuple[str, bool]:
    """An expression in prefix form, and whether it is a sum, which is in parentheses inside of others."""
    start = reader.at
    code = reader.varint()
    if depth > MAX_DEPTH:
        raise reader.error(f"expressions are nested too deeply (limit {MAX_DEPTH})", start)
    if code < 2:
        return f"{'ds'[code]}{reader.varint()}", False
    if code == 2:
        return str(reader.signed()), False
    if code - 3 >= len(_BINARY):
        raise reader.error(f"unknown expression {code}", start)
    parts = [_expression(reader, depth + 1) for _ in range(2)]
    word = _BINARY[code - 3]
    left, right = (f"({text})" if is_inner else text for text, is_inner in parts)
    if word == "+":
        return f"{parts[0][0]} + {right}", True
    return f"{left} {word} {right}", True


TYPE_CODES: Final[Mapping[int, Callable[[Decoder], Type]]] = {
    0: _integer_type,
    1: lambda _: NamedType("index"),
    2: lambda reader: FunctionType(reader.types(), reader.types()),
    **{
        code: lambda _, name=name: NamedType(name)  # type: ignore[misc]  # the default keeps each name
        for code, name in (
            *enumerate("bf16 f16 f32 f64 f80 f128".split(), 3),
            (12, "none"),
            *enumerate(
                "tf32 f8E5M2 f8E4M3 f8E4M3FN f8E5M2FNUZ f8E4M3FNUZ f8E4M3B11FNUZ f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN "
                "f8E8M0FNU".split(),
                21,
            ),
        )
    },
    9: lambda reader: ComplexType(reader.type()),
    10: lambda reader: _memref(reader, has_space=False),
    11: lambda reader: _memref(reader, has_space=True),
    13: lambda reader: _tensor(reader, has_encoding=False),
    14: lambda reader: _tensor(reader, has_encoding=True),
    15: lambda reader: TupleType(reader.types()),
    16: lambda reader: _unranked_memref(reader, has_space=False),
    17: lambda reader: _unranked_memref(reader, has_space=True),
    18: lambda reader: ArrayType("tensor", None, reader.type()),
    19: lambda reader: ArrayType("vector", reader.integers(), reader.type()),
    20: _scalable,
}
"""How the rest of a type is read, by its code (`builtin_encoding::TypeCode`)."""

ATTRIBUTE_CODES: Final[Mapping[int, Callable[[Decoder], Attribute]]] = {
    0: lambda reader: ListAttribute(reader.attributes()),
    1: read_dictionary,
    2: lambda reader: StringAttribute(reader.owner.string(reader)),
    3: lambda reader: StringAttribute(reader.owner.string(reader), reader.type()),
    4: lambda reader: SymbolAttribute((reader.name(),)),
    5: _nested_symbol,
    6: lambda reader: TypeAttribute(reader.type()),
    7: lambda _: UnitAttribute(),
    8: _integer,
    9: _float,
    10: lambda reader: CallLocation(location_of(reader.attribute()), location_of(reader.attribute())),
    11: _file,
    12: lambda reader: _fused(reader, has_metadata=False),
    13: lambda reader: _fused(reader, has_metadata=True),
    14: lambda reader: NamedLocation(reader.name(), location_of(reader.attribute())),
    15: lambda _: NO_LOCATION,
    17: _dense_array,
    18: _dense_elements,
    22: _file_range,
    23: _affine_map,
    25: _strided,
}
"""How the rest of an attribute is read, by its code (`builtin_encoding::AttributeCode`)."""
