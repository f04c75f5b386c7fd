"""What shape a value has: its type, sizes, and layout; its text as XLA prints it; and when two shapes are equal.

Mirrors xla/shape.h and xla/shape_util.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Final, cast

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.displayed import Tabular, library
from hlo_cli.ir.layout import Layout, PrimitiveType, Tiling, largest_split, slots_of, tiling_of
from hlo_cli.source import HloError, wrong_type

# --- shapes as text ---
# Shapes as XLA prints them. Mirrors `ShapeUtil::HumanStringWithLayout` of xla/shape_util.cc.


UNBOUNDED: Final = -(2**63)
"""The size of a dimension written as `?`: dynamic without a bound (`Shape::kUnboundedSize`)."""


def annotate_indices(texts: Sequence[str]) -> str:
    """Texts joined by commas, with XLA's `/*index=5*/` before every fifth.

    >>> annotate_indices("abcdefg")
    'a, b, c, d, e, /*index=5*/f, g'
    """
    if len(texts) <= 5:  # `ShapeUtil::HumanString` of xla/shape_util.cc: a comment before each fifth element
        return ", ".join(texts)
    return ", ".join(f"/*index={i}*/{text}" if i and i % 5 == 0 else text for i, text in enumerate(texts))


@lru_cache(maxsize=8192)
def array_text(
    element_type: PrimitiveType, sizes: tuple[int, ...], dynamic: tuple[bool, ...], layout: Layout | None, _prefix: int
) -> str:
    """The text of an array; the prefix is an argument because layouts that differ only in it are equal."""
    text = f"{element_type.name}[{','.join(map(_dimension, sizes, dynamic))}]"
    if layout is None or (not sizes and not layout.properties()):
        return text
    return text + str(layout)


def _dimension(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size == UNBOUNDED else f"<={size}"


# --- shapes ---
# Shapes of values, with type, sizes, and layout. Mirrors xla/shape.h and xla/shape_util.h.


_INT64_MAX: Final = 2**63 - 1  # XLA's `ShapeUtil::ValidateShape` refuses sizes that overflow int64

ShapeIndex = tuple[int, ...]
"""A path into nested tuples; () is the shape itself."""


class _Computed(Tabular):
    """What is computed of an array once: a module has a few hundred shapes, each of them asked for in every table."""

    __slots__ = ("_hash", "_padded_bytes", "_text")

    _hash: int
    _padded_bytes: int
    _text: str


@dataclass(frozen=True, slots=True)
class ArrayShape(_Computed):
    """An array: element type, sizes, which of them are dynamic (then the size is the bound), and layout.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> str(ArrayShape(PRIMITIVE_TYPES["f32"], (10, 7), (True, False), Layout((1, 0))))
    'f32[<=10,7]{1,0}'
    """

    element_type: PrimitiveType
    dimensions: tuple[int, ...]
    dynamic_dimensions: tuple[bool, ...]
    layout: Layout

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def elements(self) -> int:
        """Number of elements; a bounded dynamic dimension counts its bound, an unbounded one counts as 1."""
        return prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions with unbounded ones as 1, for arithmetic."""
        dimensions = self.dimensions
        return tuple(1 if d == UNBOUNDED else d for d in dimensions) if UNBOUNDED in dimensions else dimensions

    @property
    def is_dynamic(self) -> bool:
        """Whether the size of any dimension is known only at run time."""
        return any(self.dynamic_dimensions)

    @property
    def memory_space(self) -> int:
        """The number n of `S(n)`; 0 is the device's main memory."""
        return self.layout.memory_space

    @property
    def element_bits(self) -> int:
        """Bits of one element in memory: `E(n)` if given, else the type's whole bytes."""
        return self.layout.element_size_in_bits or 8 * self.element_type.byte_width

    @property
    def logical_bytes(self) -> int:
        """Bytes of the elements alone, without tiles (`ShapeUtil::ByteSizeOfElements`)."""
        return -(-self.elements * self.element_bits // 8)

    @property
    def is_oversized(self) -> bool:
        """Whether there are 2^63 or more elements or bytes, beyond 64-bit sizes."""
        return max(self.logical_bytes, self.elements) > _INT64_MAX

    @property
    def problem(self) -> str | None:
        """The reason why no buffer can hold this array, or None (`ShapeUtil::ValidateShape`)."""
        if self.is_oversized:
            return "array size exceeds 2^63 - 1 elements or bytes"
        return self.layout.problem(self.sizes)

    @property
    def tiling(self) -> Tiling:
        """The steps by which the layout orders the elements; HloError if the layout does not fit the shape."""
        if problem := self.problem:
            raise HloError(f"{self}: {problem}")
        return tiling_of(self.sizes, self.layout)

    @property
    def sizes_in_memory(self) -> tuple[int, ...]:
        """The sizes that are allocated: if `SC` splits a dimension of a tiled array, its largest part."""
        return largest_split(self.sizes, self.layout) if self.layout.tiles else self.sizes

    @property
    def slots(self) -> int:
        """Number of positions in memory: tiled, and rounded up to `L(n)`; of elements if the layout does not fit."""
        return slots_of(self.sizes, self.layout) if self.layout.tiles else self.elements

    @property
    def metadata_bytes(self) -> int:
        """Bytes of the run-time sizes of a dynamic array: `M(n)` before the data, or 4 per dimension after it."""
        prefix = self.layout.dynamic_shape_metadata_prefix_bytes
        return prefix or (4 * self.rank if self.is_dynamic and not self.layout.tiles else 0)

    @property
    def padded_bytes(self) -> int:
        """Bytes of the array's buffer, including padding of tiles and the sizes of dynamic arrays.

        Mirrors `ShapeUtil::ArraySize`, but counts the positions of all tiles, not of the first alone, and
        `CpuExecutable::ShapeSizeBytes` for dynamic arrays.
        """
        try:
            return self._padded_bytes
        except AttributeError:
            size = -(-self.slots * self.element_bits // 8) + self.metadata_bytes
            object.__setattr__(self, "_padded_bytes", size)
            return size

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """The shape itself: an array is its own only leaf."""
        yield (), self

    def to_string(self, *, layout: bool = True) -> str:
        """The text XLA prints, with or without the layout."""
        return str(self) if layout else self._made_text(None)

    def _made_text(self, shown: Layout | None) -> str:
        prefix = self.layout.dynamic_shape_metadata_prefix_bytes
        return array_text(self.element_type, self.dimensions, self.dynamic_dimensions, shown, prefix)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((self.element_type, self.dimensions, self.dynamic_dimensions, self.layout))
            object.__setattr__(self, "_hash", value)
            return value

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            object.__setattr__(self, "_text", text := self._made_text(self.layout))
            return text


@dataclass(frozen=True, slots=True)
class TupleShape(Tabular):
    """A tuple of shapes. Its bytes are those of its leaves; the table of pointers depends on the backend.

    >>> str(TupleShape((TokenShape(), TupleShape(()))))
    '(token[], ())'
    """

    elements: tuple[Shape, ...]

    @property
    def logical_bytes(self) -> int:
        """Sum over the leaves."""
        return sum(element.logical_bytes for element in self.elements)

    @property
    def padded_bytes(self) -> int:
        """Sum over the leaves."""
        return sum(element.padded_bytes for element in self.elements)

    @property
    def distinct(self) -> Iterator[Leaf]:
        """Every leaf once, even if elements share an object.

        >>> array = TokenShape()
        >>> pair = TupleShape((array, array))
        >>> list(TupleShape((pair, pair)).distinct)
        [TokenShape()]
        """
        pending: list[Shape] = [self]
        seen: set[int] = set()
        while pending:
            shape = pending.pop()
            if id(shape) in seen:
                continue
            seen.add(id(shape))
            if isinstance(shape, TupleShape):
                pending.extend(reversed(shape.elements))
            else:
                yield shape

    @property
    def layout(self) -> None:
        """Tuples have no layout; their elements do."""
        return None

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """Every leaf with its shape index, in order."""
        pending: list[tuple[ShapeIndex, Shape]] = [((), self)]
        while pending:
            index, shape = pending.pop()
            if isinstance(shape, TupleShape):
                pending.extend(((*index, i), e) for i, e in reversed(tuple(enumerate(shape.elements))))
            else:
                yield index, shape

    def to_string(self, *, layout: bool = True) -> str:
        """The text XLA prints, with `/*index=5*/` before every fifth element."""
        return "(" + annotate_indices([element.to_string(layout=layout) for element in self.elements]) + ")"

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        return self.to_string()


@dataclass(frozen=True, slots=True)
class BufferShape(Tabular):
    """A buffer that is modified in place, such as `b(f32[4]{0})`."""

    array: ArrayShape

    @property
    def logical_bytes(self) -> int:
        """The bytes of the array."""
        return self.array.logical_bytes

    @property
    def padded_bytes(self) -> int:
        """The bytes of the array."""
        return self.array.padded_bytes

    @property
    def layout(self) -> Layout:
        """The layout of the array."""
        return self.array.layout

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """The shape itself."""
        yield (), self

    def to_string(self, *, layout: bool = True) -> str:
        """The text XLA prints."""
        return f"b({self.array.to_string(layout=layout)})"

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        return self.to_string()


class _Weightless:
    """The common part of shapes of unknown size."""

    __slots__ = ()
    logical_bytes: Final = 0
    padded_bytes: Final = 0
    layout: Final = None

    def to_string(self, *, layout: bool = True) -> str:
        """The text XLA prints."""
        return str(self)


@dataclass(frozen=True, slots=True)
class TokenShape(_Weightless):
    """A token, which orders side effects and has no data."""

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """The shape itself."""
        yield (), self

    def __str__(self) -> str:
        return "token[]"


@dataclass(frozen=True, slots=True)
class OpaqueShape(_Weightless):
    """A value with contents known only to its producer and consumers."""

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """The shape itself."""
        yield (), self

    def __str__(self) -> str:
        return "opaque[]"


@dataclass(frozen=True, slots=True)
class UnknownShape(_Weightless):
    """A shape that the text omits (then it prints as nothing), or one of a type unknown to XLA's version.

    >>> str(UnknownShape("f5e2[8]{0}")), str(UnknownShape())
    ('f5e2[8]{0}', '')
    """

    text: str = ""

    @property
    def leaves(self) -> Iterator[tuple[ShapeIndex, Leaf]]:
        """The shape itself."""
        yield (), self

    def __str__(self) -> str:
        return self.text


Leaf = ArrayShape | BufferShape | TokenShape | OpaqueShape | UnknownShape
Shape = Leaf | TupleShape


def as_shape(shape: Shape | str) -> Shape:
    """The shape itself, or that in a text, as `parse_shape` reads it; TypeError if it is something else.

    >>> as_shape("f32[2,3]").rank
    2
    """
    if isinstance(shape, str):
        return cast(Shape, library().parse_shape(shape))
    if not isinstance(shape, Shape):
        raise wrong_type("a shape or its text", shape, 'such as "f32[8,128]{1,0}"')
    return shape


def subshape(shape: Shape, index: ShapeIndex) -> Shape | None:
    """The shape at an index of nested tuples, or None if there is no such element (`ShapeUtil::GetSubshape`)."""
    for i in index:
        if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.elements):
            return None
        shape = shape.elements[i]
    return shape


# --- equality of shapes ---
# Equality of shapes, with or without layouts, precision, and dynamic sizes.
#
# Mirrors `Shape::Equal` of xla/shape.h and `ShapeUtil::Compatible` of xla/shape_util.h.


def compatible(a: Shape, b: Shape, *, any_precision: bool = False) -> bool:
    """Whether types and sizes agree, ignoring layouts and dynamic dimensions; `?` agrees with every size.

    With `any_precision` all float types are equal (`ShapeUtil::CompatibleIgnoringFpPrecision`).

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> a, b = parse_shape("f32[2,?]{0,1}"), parse_shape("bf16[<=2,3]{1,0}")
    >>> compatible(a, b), compatible(a, b, any_precision=True)
    (False, True)
    """
    if a is b:  # common, as equal texts give the same object
        return True
    match a, b:
        case ArrayShape(), ArrayShape():
            same_type = a.element_type is b.element_type or (
                any_precision and same_type_but_precision(a.element_type, b.element_type)
            )
            return same_type and same_sizes(a.dimensions, b.dimensions)
        case TupleShape(elements=left), TupleShape(elements=right):
            if len(left) != len(right):
                return False
            return all(compatible(x, y, any_precision=any_precision) for x, y in zip(left, right, strict=True))
        case BufferShape(array=left_array), BufferShape(array=right_array):
            return compatible(left_array, right_array, any_precision=any_precision)
    return a == b


def same_sizes(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether sizes agree one by one; `?` agrees with every size.

    >>> same_sizes((2, UNBOUNDED), (2, 3)), same_sizes((2,), (2, 3))
    (True, False)
    """
    return a == b or (len(a) == len(b) and all(x == y or UNBOUNDED in (x, y) for x, y in zip(a, b, strict=True)))


def same_type_but_precision(a: PrimitiveType, b: PrimitiveType) -> bool:
    """Whether two types are the same, or both floats (`SameElementTypeIgnoringFpPrecision`).

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES as types
    >>> same_type_but_precision(types["f32"], types["bf16"]), same_type_but_precision(types["s32"], types["s8"])
    (True, False)
    """
    return a is b or a.kind == b.kind == "float"


def same_order(a: Shape, b: Shape) -> bool:
    """Whether shapes agree and have the same dimension order, ignoring tiles and memory spaces.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> same_order(parse_shape("f32[2,3]{1,0:T(8,128)}"), parse_shape("f32[2,3]{1,0:S(1)}"))
    True
    """
    return a is b or (compatible(a, b) and _orders(a) == _orders(b))


def _orders(shape: Shape) -> list[tuple[int, ...]]:
    return [leaf.layout.minor_to_major for _, leaf in shape.leaves if isinstance(leaf, ArrayShape | BufferShape)]
