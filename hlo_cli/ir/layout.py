"""How the elements of an array lie in memory: element types, layouts, tiles, and the arithmetic of all of them.

A layout is a short list of steps from a logical index to a position; ints and numpy arrays go the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil, log10, prod
from typing import Any, Final, Literal

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.displayed import Displayed
from hlo_cli.source import counted

# --- element types ---
# Primitive types: the element types of arrays, and their widths in bits.
#
# Mirrors `PrimitiveType` of xla/xla_data.proto and xla/primitive_util.h.


Kind = Literal["pred", "signed", "unsigned", "float", "complex"]


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """An element type: its name as XLA prints it, its width in bits, and its kind of values.

    >>> PRIMITIVE_TYPES["bf16"].bits, PRIMITIVE_TYPES["s4"].byte_width
    (16, 1)
    """

    name: str
    bits: int
    kind: Kind

    @property
    def byte_width(self) -> int:
        """The default size of an element in bytes; narrow types take a whole byte."""
        return (self.bits + 7) // 8

    @property
    def is_sub_byte(self) -> bool:
        """Whether several elements fit in a byte; they are packed only if the layout has `E(bits)`."""
        return self.bits < 8 and self.name != "pred"

    @property
    def is_complex(self) -> bool:
        """Whether values have a real and an imaginary part."""
        return self.kind == "complex"

    def __str__(self) -> str:
        return self.name


_FLOATS = {
    4: "f4e2m1fn",
    6: "f6e2m3fn f6e3m2fn",
    8: "f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f8e8m0fnu",
    16: "f16 bf16",
    32: "f32",
    64: "f64",
}

PRIMITIVE_TYPES: dict[str, PrimitiveType] = {
    kind.name: kind
    for kind in (
        PrimitiveType("pred", 1, "pred"),  # stored in a byte, as a C++ bool
        *(PrimitiveType(f"s{bits}", bits, "signed") for bits in (1, 2, 4, 8, 16, 32, 64)),
        *(PrimitiveType(f"u{bits}", bits, "unsigned") for bits in (1, 2, 4, 8, 16, 32, 64)),
        *(PrimitiveType(name, bits, "float") for bits, names in _FLOATS.items() for name in names.split()),
        PrimitiveType("c64", 64, "complex"),
        PrimitiveType("c128", 128, "complex"),
    )
}
"""All array element types of XLA, by printed name."""

Special = Literal["ieee", "fn", "fnuz", "finite", "scale"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The bits of a float type, and the codes that are not finite numbers.

    `ieee` has infinities and NaN with payloads; `fn` has one NaN of either sign, `fnuz` one NaN in place of negative
    zero, `finite` none, and `scale` is a bare exponent with one NaN.

    >>> FLOAT_FORMATS["f8e5m2"].payload_bits, FLOAT_FORMATS["f8e4m3fn"].payload_bits
    (2, 0)
    >>> FLOAT_FORMATS["bf16"].digits
    4
    """

    bits: int
    mantissa_bits: int
    bias: int
    special: Special

    @property
    def payload_bits(self) -> int:
        """The number of bits in the payload of a NaN; 0 if there is only one NaN."""
        return self.mantissa_bits if self.special == "ieee" else 0

    @property
    def digits(self) -> int:
        """Decimal digits that distinguish any two values (`std::numeric_limits::max_digits10`)."""
        return 1 + ceil((self.mantissa_bits + 1) * log10(2))

    @property
    def sign(self) -> int:
        """The sign bit of a code; 0 without one."""
        return 0 if self.special == "scale" else 1 << (self.bits - 1)

    def nan(self, payload: int) -> int:
        """The code of a positive NaN with a payload, which must fit."""
        return self.sign - (1 << self.mantissa_bits) + payload

    def value(self, code: int) -> float:
        """The value of a code.

        >>> [FLOAT_FORMATS["f8e4m3fn"].value(code) for code in (0x38, 0xB8, 0x7E, 0x7F)]
        [1.0, -1.0, 448.0, nan]
        """
        magnitude = code & ~self.sign
        if self.special == "scale":
            return 2.0 ** (code - self.bias) if code != (1 << self.bits) - 1 else float("nan")
        if self.special == "fnuz" and code == self.sign:
            return float("nan")
        exponent, fraction = magnitude >> self.mantissa_bits, magnitude & ((1 << self.mantissa_bits) - 1)
        sign = -1.0 if code & self.sign else 1.0
        if self.special == "ieee" and magnitude >= self.nan(0):
            return sign * float("inf") if magnitude == self.nan(0) else float("nan")
        if self.special == "fn" and magnitude == self.sign - 1:
            return float("nan")
        significand = fraction + (1 << self.mantissa_bits) if exponent else fraction
        return sign * significand * 2.0 ** (max(exponent, 1) - self.bias - self.mantissa_bits)


FLOAT_FORMATS: Final = {
    "f4e2m1fn": FloatFormat(4, 1, 1, "finite"),
    "f6e2m3fn": FloatFormat(6, 3, 1, "finite"),
    "f6e3m2fn": FloatFormat(6, 2, 3, "finite"),
    "f8e3m4": FloatFormat(8, 4, 3, "ieee"),
    "f8e4m3": FloatFormat(8, 3, 7, "ieee"),
    "f8e4m3b11fnuz": FloatFormat(8, 3, 11, "fnuz"),
    "f8e4m3fn": FloatFormat(8, 3, 7, "fn"),
    "f8e4m3fnuz": FloatFormat(8, 3, 8, "fnuz"),
    "f8e5m2": FloatFormat(8, 2, 15, "ieee"),
    "f8e5m2fnuz": FloatFormat(8, 2, 16, "fnuz"),
    "f8e8m0fnu": FloatFormat(8, 0, 127, "scale"),
    "f16": FloatFormat(16, 10, 15, "ieee"),
    "bf16": FloatFormat(16, 7, 127, "ieee"),
    "f32": FloatFormat(32, 23, 127, "ieee"),
    "f64": FloatFormat(64, 52, 1023, "ieee"),
}
"""Every float type of XLA."""


# --- layouts ---
# The order, the tiles, and the memory space of an array's elements.
#
# Mirrors xla/layout.h; the text is what `Layout::ToString` prints.


COMBINE: Final = -(2**63)
"""The tile dimension written `*`: fold this dimension into the next more minor one (`Tile::kCombineDimension`)."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of a layout; COMBINE, written `*`, folds a dimension into the next more minor one.

    >>> str(Tile((COMBINE, 128)))
    '(*,128)'
    """

    dimensions: tuple[int, ...]

    def __str__(self) -> str:
        return "(" + ",".join("*" if d == COMBINE else str(d) for d in self.dimensions) + ")"


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """The positions where the data of one physical dimension is split between memories.

    `dimension` counts physical dimensions, 0 the most major; `split_indices` are element positions.

    >>> str(SplitConfig(1, (0, 4)))
    '(1:0,4)'
    """

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"


@dataclass(frozen=True, slots=True)
class Layout(Displayed):
    """The layout of an array in memory; every field is one that XLA prints between the braces.

    `minor_to_major` lists logical dimensions, the most minor first. `element_size_in_bits` is 0
    if elements have their type's width in bytes. Equality ignores `dynamic_shape_metadata_prefix_bytes`, as in XLA.

    >>> str(Layout((1, 0), (Tile((8, 128)), Tile((2, 1))), memory_space=1))
    '{1,0:T(8,128)(2,1)S(1)}'
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...] = ()
    tail_padding_alignment_in_elements: int = 1
    index_primitive_type: PrimitiveType | None = None
    pointer_primitive_type: PrimitiveType | None = None
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    dynamic_shape_metadata_prefix_bytes: int = 0

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return (
            self.minor_to_major,
            self.tiles,
            self.tail_padding_alignment_in_elements,
            self.index_primitive_type,
            self.pointer_primitive_type,
            self.element_size_in_bits,
            self.memory_space,
            self.split_configs,
        )

    def problem(self, dimensions: Sequence[int]) -> str | None:
        """Why this layout does not fit an array of these sizes, or None (`LayoutUtil::ValidateLayoutForShape`).

        >>> Layout((1, 1)).problem((2, 3))
        'duplicate layout dimension 1'
        """
        order, rank = self.minor_to_major, len(dimensions)
        if len(order) != rank:
            return f"layout has {counted(len(order), 'dimensions')}, but the shape has {rank}"
        # the sort is the quick test; only a bad order is looked at one by one
        for i, d in enumerate(order if sorted(order) != list(range(rank)) else ()):
            if not 0 <= d < rank:
                return f"layout dimension {d} is out of range (rank {rank})"
            if d in order[:i]:
                return f"duplicate layout dimension {d}"
        if self.tail_padding_alignment_in_elements <= 0:
            return "L(n) must be at least 1"
        if self.index_primitive_type is not None or self.pointer_primitive_type is not None:
            return "index and pointer types belong to sparse arrays, which XLA no longer supports"
        for tile in self.tiles:
            if not split_sizes(tile) or any(d <= 0 and d != COMBINE for d in tile.dimensions):
                return f"tile {tile} must have positive sizes"
            if tile.dimensions[-1] == COMBINE:  # nothing is left to fold it into
                return f"tile {tile} ends in *, which needs a more minor dimension to combine with"
        return self._split_problem(dimensions) if self.split_configs else None

    def _split_problem(self, dimensions: Sequence[int]) -> str | None:
        seen: set[int] = set()
        for split in self.split_configs:
            dimension = split.dimension
            if not 0 <= dimension < len(dimensions) or dimension in seen:
                return f"SC dimension {dimension} is out of range or duplicate"
            seen.add(dimension)
            cuts = (0, *split.split_indices, dimensions[self.minor_to_major[::-1][dimension]])
            if any(a >= b for a, b in pairwise(cuts)):
                return f"split points {split} must be increasing and within the dimension"
        return None

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        properties = self.properties()
        return "{" + ",".join(map(str, self.minor_to_major)) + (":" if properties else "") + properties + "}"

    def properties(self) -> str:
        """The text after the colon: tiles, padding, types, element size, space, splits, metadata prefix.

        >>> Layout((0,), element_size_in_bits=4, memory_space=5).properties()
        'E(4)S(5)'
        """
        parts = []
        if self.tiles:
            parts.append("T" + "".join(map(str, self.tiles)))
        if self.tail_padding_alignment_in_elements != 1:
            parts.append(f"L({self.tail_padding_alignment_in_elements})")
        if self.index_primitive_type is not None:
            parts.append(f"#({self.index_primitive_type})")
        if self.pointer_primitive_type is not None:
            parts.append(f"*({self.pointer_primitive_type})")
        if self.element_size_in_bits:
            parts.append(f"E({self.element_size_in_bits})")
        if self.memory_space:  # S(0) is the default and never printed
            parts.append(f"S({self.memory_space})")
        if self.split_configs:
            parts.append("SC" + "".join(map(str, self.split_configs)))
        if self.dynamic_shape_metadata_prefix_bytes:
            parts.append(f"M({self.dynamic_shape_metadata_prefix_bytes})")
        return "".join(parts)


def default_layout(rank: int) -> Layout:
    """The row-major layout that XLA gives to a shape written without one (`LayoutUtil::GetDefaultLayoutForRank`).

    >>> str(default_layout(3))
    '{2,1,0}'
    """
    return Layout(tuple(range(rank - 1, -1, -1)))


def split_sizes(tile: Tile) -> tuple[int, ...]:
    """The tile sizes, without `*` entries.

    >>> split_sizes(Tile((COMBINE, 8, 128)))
    (8, 128)
    """
    return tuple(size for size in tile.dimensions if size != COMBINE)


# --- layout arithmetic ---
# A layout as a short list of steps from a logical index to a position in memory.
#
# Each step maps an index and its bounds. The steps work for Python ints and for numpy
# arrays alike: they only add, multiply, divide, and take remainders. Mirrors
# `LayoutUtil::LinearIndexForNestedTiling` of xla/layout_util.h and docs/tiled_layout.md, and adds `*`,
# which XLA's own routines do not support.


Bounds = tuple[int, ...]
"""One size per dimension."""
Index = tuple[Any, ...]
"""One coordinate per dimension: Python ints, or numpy arrays that broadcast together."""


@dataclass(frozen=True, slots=True)
class Permute:
    """Logical dimensions into physical order, most major first.

    >>> Permute((1, 0)).forward((2, 3), (4, 5)), Permute((1, 0)).bounds((4, 5))
    ((3, 2), (5, 4))
    """

    order: tuple[int, ...]

    def bounds(self, bounds: Bounds) -> Bounds:
        return tuple(bounds[d] for d in self.order)

    def forward(self, index: Index, bounds: Bounds) -> Index:
        return tuple(index[d] for d in self.order)

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        return tuple(index[self.order.index(d)] for d in range(len(self.order)))


@dataclass(frozen=True, slots=True)
class Extend:
    """Adds leading dimensions of size 1 for a tile with more dimensions than the array.

    >>> Extend(1).forward((5,), (8,)), Extend(1).bounds((8,))
    ((0, 5), (1, 8))
    """

    count: int

    def bounds(self, bounds: Bounds) -> Bounds:
        return (1,) * self.count + bounds

    def forward(self, index: Index, bounds: Bounds) -> Index:
        return (0,) * self.count + index

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        """Positions outside the leading dimensions are padding: they map beyond the first dimension of the array."""
        kept = index[self.count :]
        return (kept[0] + sum(index[: self.count]) * max(bounds[0], 1), *kept[1:]) if kept else ()


@dataclass(frozen=True, slots=True)
class Combine:
    """Folds the dimension at `position` into the next more minor one, for `*` in a tile.

    >>> Combine(0).forward((1, 2), (3, 4)), Combine(0).bounds((3, 4))
    ((6,), (12,))
    """

    position: int

    def bounds(self, bounds: Bounds) -> Bounds:
        position = self.position
        return (*bounds[:position], bounds[position] * bounds[position + 1], *bounds[position + 2 :])

    def forward(self, index: Index, bounds: Bounds) -> Index:
        position = self.position
        return (*index[:position], index[position] * bounds[position + 1] + index[position + 1], *index[position + 2 :])

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        position, minor = self.position, max(bounds[self.position + 1], 1)
        return (*index[:position], index[position] // minor, index[position] % minor, *index[position + 1 :])


@dataclass(frozen=True, slots=True)
class Split:
    """Splits the last dimensions into tiles: the index of the tile, then the index in it.

    >>> Split((2, 2)).forward((2, 3), (3, 5)), Split((2, 2)).bounds((3, 5))
    ((1, 1, 0, 1), (2, 3, 2, 2))
    """

    sizes: tuple[int, ...]

    def bounds(self, bounds: Bounds) -> Bounds:
        kept = len(bounds) - len(self.sizes)
        return (*bounds[:kept], *(-(-d // t) for d, t in zip(bounds[kept:], self.sizes, strict=True)), *self.sizes)

    def forward(self, index: Index, bounds: Bounds) -> Index:
        kept = len(bounds) - len(self.sizes)
        pairs = tuple(zip(index[kept:], self.sizes, strict=True))
        return (*index[:kept], *(i // t for i, t in pairs), *(i % t for i, t in pairs))

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        """Positions beyond the tile, which an inner tile may add, are padding: they map beyond the dimension."""
        rank, count = len(bounds), len(self.sizes)
        parts = zip(index[rank - count : rank], self.sizes, index[rank:], bounds[rank - count :], strict=True)
        return (*index[: rank - count], *(i * t + j + j // t * d for i, t, j, d in parts))


Step = Permute | Extend | Combine | Split


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layout for an array of given sizes, with the bounds before each step and after the last.

    >>> from hlo_cli.ir.layout import Tile
    >>> tiling = tiling_of((3, 5), Layout((1, 0), (Tile((2, 2)),)))
    >>> tiling.linear_index((2, 3)), tiling.slots, tiling.element(17)
    (17, 24, (2, 3))
    """

    steps: tuple[Step, ...]
    bounds: tuple[Bounds, ...]

    @property
    def physical(self) -> Bounds:
        """The sizes of the dimensions in memory, most major first."""
        return self.bounds[-1]

    @property
    def slots(self) -> int:
        """The number of positions of the tiled array, including padding, before any tail alignment."""
        return prod(self.physical)

    def linear_index(self, index: Index) -> Any:
        """The position, counted in elements, of the element at a logical index."""
        for step, bounds in zip(self.steps, self.bounds, strict=False):
            index = step.forward(index, bounds)
        return ravel(index, self.physical)

    def element(self, linear: Any) -> Index:
        """The logical index at position `linear`; out of the array's bounds for padding."""
        index = unravel(linear, self.physical)
        for step, bounds in zip(reversed(self.steps), self.bounds[-2::-1], strict=True):
            index = step.inverse(index, bounds)
        return index

    def holds(self, linear: Any) -> Any:
        """Whether a position holds an element, not padding: the element found there must map back to it.

        >>> from hlo_cli.ir.layout import Tile
        >>> tiling = tiling_of((), Layout((), (Tile((128,)),)))
        >>> tiling.holds(0), tiling.holds(1)
        (True, False)
        """
        index = self.element(linear)
        is_element = self.linear_index(index) == linear
        for position, bound in zip(index, self.bounds[0], strict=True):
            is_element = is_element & (position < bound)
        return is_element


@lru_cache(maxsize=1024)
def tiling_of(dimensions: Bounds, layout: Layout) -> Tiling:
    """The steps by which `layout` orders an array of sizes `dimensions`.

    The layout's minor_to_major must be a permutation of the dimensions, tiles positive or `*`.

    >>> from hlo_cli.ir.layout import Tile
    >>> tiling_of((300, 70), Layout((1, 0), (Tile((8, 128)), Tile((2, 1))))).physical
    (38, 1, 4, 128, 2, 1)
    """
    steps: list[Step] = [Permute(layout.minor_to_major[::-1])]
    bounds = [tuple(dimensions)]

    def push(step: Step) -> None:
        steps.append(step)
        bounds.append(step.bounds(bounds[-1]))

    bounds.append(steps[0].bounds(bounds[0]))
    for tile in layout.tiles:
        if len(tile.dimensions) > len(bounds[-1]):
            push(Extend(len(tile.dimensions) - len(bounds[-1])))
        dimension = len(bounds[-1]) - len(tile.dimensions)
        for size in tile.dimensions:
            if size == COMBINE:
                push(Combine(dimension))
            else:
                dimension += 1
        push(Split(split_sizes(tile)))
    return Tiling(tuple(steps), tuple(bounds))


@lru_cache(maxsize=8192)
def slots_of(sizes: Bounds, layout: Layout) -> int:
    """Positions of an array in memory, rounded up to `L(n)`; its elements if the layout does not fit.

    >>> from hlo_cli.ir.layout import Tile
    >>> slots_of((3, 130), Layout((1, 0), (Tile((8, 128)),)))
    2048
    """
    if layout.problem(sizes):
        return prod(sizes)
    align = layout.tail_padding_alignment_in_elements
    return -(-tiling_of(largest_split(sizes, layout), layout).slots // align) * align


def largest_split(sizes: Bounds, layout: Layout) -> Bounds:
    """Sizes with every split dimension at its largest part, as in `ShapeUtil::ArraySize`."""
    largest = list(sizes)
    for split in layout.split_configs:
        logical = layout.minor_to_major[::-1][split.dimension]
        cuts = (0, *split.split_indices, sizes[logical])
        largest[logical] = max(b - a for a, b in pairwise(cuts))
    return tuple(largest)


def ravel(index: Index, bounds: Bounds) -> Any:
    """The row-major position of an index within bounds.

    >>> ravel((1, 1, 0, 1), (2, 3, 2, 2))
    17
    """
    linear: Any = 0
    for position, bound in zip(index, bounds, strict=True):
        linear = linear * bound + position
    return linear


def unravel(linear: Any, bounds: Bounds) -> Index:
    """The index at a row-major position within bounds; the inverse of `ravel`.

    >>> unravel(17, (2, 3, 2, 2))
    (1, 1, 0, 1)
    """
    index = []
    for bound in reversed(bounds):
        index.append(linear % max(bound, 1))
        linear = linear // max(bound, 1)
    return tuple(reversed(index))
