"""Which types, attributes, and locations MLIR has, and how it writes each.

The text of a value is that of MLIR's printer, so that any MLIR parser reads it as the same value. Floats differ in
form: MLIR has rules of its own for digits, and this is the shortest text that reads back as the same bits.

Mirrors mlir/lib/IR/AsmPrinter.cpp, BuiltinTypes.td, and BuiltinAttributes.td.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isfinite, prod
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import FLOAT_FORMATS
from hlo_cli.lazy_regex import lazy_regex

DYNAMIC: Final = -(2**63)
"""The size of a dimension that is known at run time only, written `?` (`ShapedType::kDynamic`)."""

# --- types ---


@dataclass(frozen=True, slots=True)
class IntegerType:
    """An integer; `sign` is empty for a signless one, which operations interpret.

    >>> str(IntegerType(32)), str(IntegerType(8, "u"))
    ('i32', 'ui8')
    """

    width: int
    sign: str = ""

    def __str__(self) -> str:
        return f"{self.sign}i{self.width}"

    @property
    def bits(self) -> int:
        """The bits of a value."""
        return self.width


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type without parts: `f32`, `index`, `none`.

    >>> str(NamedType("bf16")), NamedType("bf16").bits, NamedType("f8E4M3FN").bits, NamedType("none").bits
    ('bf16', 16, 8, None)
    """

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int | None:
        """The bits of a value; None if it has none, or no fixed number."""
        if (known := FLOAT_FORMATS.get(self.name.lower())) is not None:
            return known.bits
        # the attributes of an index are numbers of 64 bits (`IndexType::kInternalStorageBitWidth`)
        return {"index": 64, "tf32": 19, "f80": 80, "f128": 128}.get(self.name)


@dataclass(frozen=True, slots=True)
class ComplexType:
    """A complex number."""

    element: Type

    def __str__(self) -> str:
        return f"complex<{self.element}>"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """The types that a function takes and returns.

    >>> i32 = IntegerType(32)
    >>> str(FunctionType((i32,), (i32, i32))), str(FunctionType((), (i32,)))
    ('(i32) -> (i32, i32)', '() -> i32')
    """

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        is_plain = len(self.results) == 1 and not isinstance(self.results[0], FunctionType)
        return f"({', '.join(map(str, self.inputs))}) -> {results if is_plain else f'({results})'}"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A `vector`, `tensor`, or `memref`, as `kind` says; `shape` is None for one without a rank.

    `layout` and `space` are those of a memref, `layout` the encoding of a tensor too; a vector's dimensions that are in
    `scalable` grow with the machine.

    >>> f32 = NamedType("f32")
    >>> str(ArrayType("memref", (8, DYNAMIC), f32, space=TextAttribute("#tpu.memory_space<vmem>")))
    'memref<8x?xf32, #tpu.memory_space<vmem>>'
    >>> str(ArrayType("vector", (), f32)), str(ArrayType("tensor", None, f32))
    ('vector<f32>', 'tensor<*xf32>')
    """

    kind: str
    shape: tuple[int, ...] | None
    element: Type
    layout: Attribute | None = None
    space: Attribute | None = None
    scalable: tuple[bool, ...] = ()

    def __str__(self) -> str:
        parts = [self._sizes() + str(self.element)]
        if self.layout is not None and not is_identity(self.layout):
            parts.append(str(self.layout))
        if self.space is not None:
            parts.append(str(self.space))
        return f"{self.kind}<{', '.join(parts)}>"

    def _sizes(self) -> str:
        if self.shape is None:
            return "*x"
        flags = self.scalable or (False,) * len(self.shape)
        sizes = ["?" if size == DYNAMIC else str(size) for size in self.shape]
        return "".join(f"[{size}]x" if flag else f"{size}x" for size, flag in zip(sizes, flags, strict=True))

    @property
    def elements(self) -> int | None:
        """The number of elements; None if a size is not known.

        >>> ArrayType("vector", (8, 128), NamedType("f32")).elements
        1024
        """
        if self.shape is None or DYNAMIC in self.shape or any(self.scalable):
            return None
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of types."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.parts))}>"


@dataclass(frozen=True, slots=True)
class TextType:
    """A type of a dialect, which bytecode keeps as text: `!tpu.dma_semaphore`."""

    text: str

    def __str__(self) -> str:
        return self.text


# --- attributes ---


@dataclass(frozen=True, slots=True)
class StringAttribute:
    r"""A string.

    >>> str(StringAttribute('say "hi"'))
    '"say \\22hi\\22"'
    """

    value: str
    type: Type | None = None

    def __str__(self) -> str:
        return quoted(self.value) + (f" : {self.type}" if self.type is not None else "")


@dataclass(frozen=True, slots=True)
class SymbolAttribute:
    """The name of a function or another operation, and of those in it.

    >>> str(SymbolAttribute(("main", "in it")))
    '@main::@"in it"'
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "::".join(f"@{name}" if _SYMBOL.fullmatch(name) else f"@{quoted(name)}" for name in self.names)


@dataclass(frozen=True, slots=True)
class UnitAttribute:
    """An attribute that says all by being there."""

    def __str__(self) -> str:
        return "unit"


@dataclass(frozen=True, slots=True)
class TypeAttribute:
    """A type as an attribute."""

    type: Type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class IntegerAttribute:
    """An integer with its type; `true` and `false` are of type i1.

    >>> str(IntegerAttribute(3, IntegerType(32))), str(IntegerAttribute(-1, IntegerType(1)))
    ('3 : i32', 'true')
    """

    value: int
    type: Type

    def __str__(self) -> str:
        return self.bare if self.type == _BOOLEAN else f"{self.value} : {self.type}"

    @property
    def bare(self) -> str:
        """The number without its type."""
        return _integer_text(self.value, self.type)


@dataclass(frozen=True, slots=True)
class FloatAttribute:
    """A floating-point number: its bits, as the type has them.

    >>> one = FloatAttribute(0x3F800000, NamedType("f32"))
    >>> str(one), one.value, str(FloatAttribute(0x7FC00000, NamedType("f32")))
    ('1.0 : f32', 1.0, '0x7FC00000 : f32')
    """

    bits: int
    type: Type

    def __str__(self) -> str:
        return f"{self.bare} : {self.type}"

    @property
    def value(self) -> float | None:
        """The number; None for a type that Python cannot hold."""
        known = FLOAT_FORMATS.get(str(self.type).lower())
        return None if known is None else known.value(self.bits)

    @property
    def bare(self) -> str:
        """The number without its type."""
        return float_text(self.bits, str(self.type))


@dataclass(frozen=True, slots=True)
class ListAttribute:
    """A list of attributes.

    >>> str(ListAttribute((IntegerAttribute(1, IntegerType(64)), IntegerAttribute(1, IntegerType(8)))))
    '[1, 1 : i8]'
    """

    items: tuple[Attribute, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(_in_list, self.items))}]"


def _in_list(item: Attribute) -> str:
    """An item of a list: MLIR omits the types that a number has without one."""
    if isinstance(item, IntegerAttribute | FloatAttribute) and str(item.type) in ("i64", "f64"):
        return item.bare
    return attribute_text(item)


def attribute_text(value: Attribute) -> str:
    """An attribute as in a dictionary, where locations stand in parentheses.

    >>> attribute_text(NamedLocation("add"))
    'loc("add")'
    """
    is_location = isinstance(value, FileLocation | NamedLocation | CallLocation | FusedLocation)
    return f"loc({value})" if is_location else str(value)


@dataclass(frozen=True, slots=True)
class DictionaryAttribute:
    """Attributes by name, in the order of their names.

    >>> str(DictionaryAttribute((("a", UnitAttribute()), ("b c", StringAttribute("x")))))
    '{a, "b c" = "x"}'
    """

    entries: tuple[tuple[str, Attribute], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(entry_text(name, value) for name, value in self.entries) + "}"

    def get(self, name: str) -> Attribute | None:
        """The attribute of a name; None without one."""
        return next((value for key, value in self.entries if key == name), None)


def entry_text(name: str, value: Attribute) -> str:
    """An entry of a dictionary."""
    key = name if _BARE.fullmatch(name) else quoted(name)
    return key if isinstance(value, UnitAttribute) else f"{key} = {attribute_text(value)}"


@dataclass(frozen=True, slots=True)
class DenseArray:
    """Numbers of one type: `array<i64: 1, 2>`; `data` has each in whole bytes, the lowest first.

    >>> array = DenseArray(IntegerType(64), bytes((3,)) + bytes(7))
    >>> str(array), array.values
    ('array<i64: 3>', (3,))
    """

    element: Type
    data: bytes

    def __str__(self) -> str:
        words = [_number_text(number, self.element) for number in _stored(self.data, self.element)]
        return f"array<{self.element}{': ' if words else ''}{', '.join(words)}>"

    @property
    def values(self) -> tuple[int, ...]:
        """The integers; the bits of floats."""
        return tuple(_stored(self.data, self.element))


@dataclass(frozen=True, slots=True)
class DenseElements:
    """The elements of a vector or a tensor; `data` has one if all are equal.

    >>> vector = ArrayType("vector", (2, 2), IntegerType(8))
    >>> str(DenseElements(vector, bytes((1, 2, 3, 4)))), str(DenseElements(vector, bytes((7,))))
    ('dense<[[1, 2], [3, 4]]> : vector<2x2xi8>', 'dense<7> : vector<2x2xi8>')
    """

    type: Type
    data: bytes

    def __str__(self) -> str:
        return f"dense<{self._body()}> : {self.type}"

    @property
    def is_splat(self) -> bool:
        """Whether one number is stored for all elements."""
        kind = self.type
        if not isinstance(kind, ArrayType) or kind.elements == 1:
            return True
        if kind.element == _BOOLEAN:
            return self.data in (b"\x00", b"\xff") and kind.elements != _BITS_OF_A_BYTE
        return len(self.data) == _bytes_of(kind.element)

    @property
    def numbers(self) -> list[int]:
        """What is stored, in row-major order: integers, and the bits of floats; one number for a splat."""
        kind = self.type
        if not isinstance(kind, ArrayType):
            return []
        if kind.element != _BOOLEAN:
            return list(_stored(self.data, kind.element))
        if self.is_splat:
            return [int(self.data[:1] != b"\x00")]
        bits = [byte >> bit & 1 for byte in self.data for bit in range(_BITS_OF_A_BYTE)]
        return bits[: kind.elements]

    def _body(self) -> str:
        kind = self.type
        if not isinstance(kind, ArrayType):
            return ""
        element = kind.element.element if isinstance(kind.element, ComplexType) else kind.element
        words = [_number_text(number, element) for number in self.numbers]
        if isinstance(kind.element, ComplexType):
            words = [f"({', '.join(words[at : at + 2])})" for at in range(0, len(words), 2)]
        if self.is_splat:
            return "".join(words[:1])
        return _nested(words, kind.shape or ())


def _nested(words: list[str], shape: Sequence[int]) -> str:
    """The words as lists in lists; the innermost dimension first."""
    for size in reversed(shape):
        if not size:
            return ""
        words = [f"[{', '.join(words[at : at + size])}]" for at in range(0, len(words), size)]
    return "".join(words)


@dataclass(frozen=True, slots=True)
class StridedLayout:
    """Where the elements of a memref are, in elements.

    >>> str(StridedLayout((128, 1), 0)), str(StridedLayout((DYNAMIC, 1), 4))
    ('strided<[128, 1]>', 'strided<[?, 1], offset: 4>')
    """

    strides: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        strides, offset = ", ".join(map(_size_text, self.strides)), _size_text(self.offset)
        return f"strided<[{strides}]{f', offset: {offset}' if self.offset else ''}>"


def _size_text(size: int) -> str:
    return "?" if size == DYNAMIC else str(size)


@dataclass(frozen=True, slots=True)
class AffineMap:
    """A function of dimensions and symbols; `results` are expressions as MLIR writes them.

    >>> str(AffineMap(2, 1, ("d1", "d0 floordiv s0")))
    'affine_map<(d0, d1)[s0] -> (d1, d0 floordiv s0)>'
    """

    dimensions: int
    symbols: int
    results: tuple[str, ...]

    def __str__(self) -> str:
        dimensions = ", ".join(f"d{number}" for number in range(self.dimensions))
        symbols = f"[{', '.join(f's{number}' for number in range(self.symbols))}]" if self.symbols else ""
        return f"affine_map<({dimensions}){symbols} -> ({', '.join(self.results)})>"


@dataclass(frozen=True, slots=True)
class TextAttribute:
    """An attribute of a dialect, which bytecode keeps as text: `#tpu.memory_space<vmem>`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Unread:
    """A type or an attribute of an unknown form: `data` has its bytes, `at` the offset in the bytecode."""

    dialect: str
    data: bytes
    at: int

    def __str__(self) -> str:
        return f"#unread<{quoted(self.dialect)}, 0x{self.data.hex().upper()}>"


# --- locations ---


@dataclass(frozen=True, slots=True)
class FileLocation:
    """`"file":line:column to :column`; the end is 0 if it is not known.

    >>> str(FileLocation("a.py", 3, 1)), str(FileLocation("a.py", 3, 1, 3, 9)), str(FileLocation("a.py", 3, 1, 4, 9))
    ('"a.py":3:1', '"a.py":3:1 to :9', '"a.py":3:1 to 4:9')
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        start = f"{quoted(self.file)}:{self.line}:{self.column}"
        if not self.end_line or (self.end_line, self.end_column) == (self.line, self.column):
            return start
        return f"{start} to {self.end_line if self.end_line != self.line else ''}:{self.end_column}"


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """`"name"(location)`.

    >>> str(NamedLocation("add", FileLocation("a.py", 3, 1))), str(NamedLocation("add"))
    ('"add"("a.py":3:1)', '"add"')
    """

    name: str
    inner: Location | None = None

    def __str__(self) -> str:
        return quoted(self.name) + ("" if self.inner is None else f"({self.inner})")


@dataclass(frozen=True, slots=True)
class CallLocation:
    """`callsite(callee at caller)`."""

    callee: Location | None
    caller: Location | None

    def __str__(self) -> str:
        return f"callsite({location_text(self.callee)} at {location_text(self.caller)})"


@dataclass(frozen=True, slots=True)
class FusedLocation:
    """Several locations of one operation, in the order of MLIR."""

    parts: tuple[Location | None, ...]
    metadata: Attribute | None = None

    def __str__(self) -> str:
        metadata = "" if self.metadata is None else f"<{self.metadata}>"
        return f"fused{metadata}[{', '.join(map(location_text, self.parts))}]"


Location: TypeAlias = FileLocation | NamedLocation | CallLocation | FusedLocation
"""Where an operation is from; unknown ones are None."""
NO_LOCATION: Final = TextAttribute("loc(unknown)")
"""An unknown location where an attribute is expected."""


def location_text(location: Location | None) -> str:
    """A location as between the parentheses of `loc(…)`."""
    return "unknown" if location is None else str(location)


def files_of(location: Location | None) -> Iterator[FileLocation]:
    """The places in files that a location names, the innermost call first.

    >>> inner, outer = FileLocation("k.py", 3), FileLocation("m.py", 9)
    >>> [place.file for place in files_of(NamedLocation("add", CallLocation(inner, outer)))]
    ['k.py', 'm.py']
    """
    match location:
        case FileLocation():
            yield location
        case NamedLocation():
            yield from files_of(location.inner)
        case CallLocation():
            yield from files_of(location.callee)
            yield from files_of(location.caller)
        case FusedLocation():
            for part in location.parts:
                yield from files_of(part)


Type: TypeAlias = (
    IntegerType | NamedType | ComplexType | FunctionType | ArrayType | TupleType | TextType | Unread
)  # fmt: skip
"""A type of MLIR."""
Attribute: TypeAlias = (
    StringAttribute
    | SymbolAttribute
    | UnitAttribute
    | TypeAttribute
    | IntegerAttribute
    | FloatAttribute
    | ListAttribute
    | DictionaryAttribute
    | DenseArray
    | DenseElements
    | StridedLayout
    | AffineMap
    | TextAttribute
    | Unread
    | Location
)
"""An attribute of MLIR; locations are attributes too."""

# --- text ---

_BARE: Final = re.compile(r"[A-Za-z_][\w$.]*+", re.ASCII)
_SYMBOL: Final = re.compile(r"[A-Za-z_][\w$.]*+", re.ASCII)
_ESCAPED: Final = lazy_regex(rb"[^ !#-\[\]-~]")
_IDENTITY: Final = re.compile(r"affine_map<\((.*)\) -> \((.*)\)>")
_BOOLEAN: Final = IntegerType(1)
_BITS_OF_A_BYTE: Final = 8  # booleans are packed from the lowest bit on


def quoted(text: str) -> str:
    r"""A string in quotes, with MLIR's escapes: the bytes that are not printable ASCII, in hexadecimal.

    >>> quoted("a\\b\n\u00e9")
    '"a\\\\b\\0A\\C3\\A9"'
    """
    data = text.encode("utf-8", "surrogateescape")
    escaped = _ESCAPED.sub(lambda match: b"\\\\" if match[0] == b"\\" else b"\\%02X" % match[0][0], data)
    return f'"{escaped.decode("ascii")}"'


def is_identity(layout: Attribute) -> bool:
    """Whether a memref's layout is the one that it has without any: row-major.

    >>> is_identity(AffineMap(2, 0, ("d0", "d1"))), is_identity(TextAttribute("affine_map<(d0) -> (0)>"))
    (True, False)
    """
    match = _IDENTITY.fullmatch(str(layout)) if isinstance(layout, AffineMap | TextAttribute) else None
    return match is not None and match[1] == match[2]


def _bytes_of(element: Type) -> int:
    """The bytes in which a number is stored: each begins at one."""
    if isinstance(element, ComplexType):
        return 2 * _bytes_of(element.element)
    bits = getattr(element, "bits", None) or _BITS_OF_A_BYTE
    return -(-bits // _BITS_OF_A_BYTE)


def _stored(data: bytes, element: Type) -> Iterator[int]:
    """The numbers in the bytes of an attribute: integers as their type has them, and the bits of floats."""
    part = element.element if isinstance(element, ComplexType) else element
    step = _bytes_of(part)
    for at in range(0, len(data) - step + 1, step):
        yield wrapped(int.from_bytes(data[at : at + step], "little"), part)


def wrapped(number: int, kind: Type) -> int:
    """The value that a type has for the lowest bits of a number: signless integers are read as signed.

    >>> wrapped(255, IntegerType(8)), wrapped(255, IntegerType(8, "u")), wrapped(1, IntegerType(1))
    (-1, 255, 1)
    """
    if not isinstance(kind, IntegerType):
        bits = kind.bits if isinstance(kind, NamedType) else None
        if bits is None:
            return number
        number &= (1 << bits) - 1
        return number - (1 << bits) if str(kind) == "index" and number >> (bits - 1) else number
    number &= (1 << kind.width) - 1
    is_negative = kind.sign != "u" and kind.width > 1 and number >> (kind.width - 1)
    return number - (1 << kind.width) if is_negative else number


def _number_text(number: int, element: Type) -> str:
    is_integer = isinstance(element, IntegerType) or str(element) == "index"
    return _integer_text(number, element) if is_integer else float_text(number, str(element))


def _integer_text(number: int, kind: Type) -> str:
    return ("true" if number else "false") if kind == _BOOLEAN else str(number)


@lru_cache(maxsize=4096)
def float_text(bits: int, name: str) -> str:
    """The shortest text that MLIR reads as these bits of a type; hexadecimal for what is no finite number.

    >>> float_text(0x3727C5AC, "f32"), float_text(0x3DCD, "bf16"), float_text(0x7E967699, "f32")
    ('1.0e-05', '0.1', '1.0e+38')
    """
    known = FLOAT_FORMATS.get(name.lower())
    if known is None:
        return f"0x{bits:X}"
    value = known.value(bits)
    if not isfinite(value) or not known.sign:
        return f"0x{bits:0{known.bits // 4}X}"
    # what is nearer to this value than to the ones below and above it is rounded to it
    neighbors = [known.value(bits + step) for step in (1, -1) if known.value(bits & ~known.sign)]
    gaps = [abs(other - value) for other in neighbors if isfinite(other)]
    limit = min(gaps, default=0.0) / 2
    texts = (f"{value:.{digits}g}" for digits in range(1, known.digits + 1))
    shortest = next((text for text in texts if abs(float(text) - value) < limit or float(text) == value), repr(value))
    return _with_point(shortest)


def _with_point(number: str) -> str:
    """A number as MLIR takes it for a float: with a point before the exponent."""
    mantissa, e, exponent = number.partition("e")
    return mantissa + ("" if "." in mantissa else ".0") + e + exponent
