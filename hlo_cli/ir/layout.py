"""Layouts: the order, the tiles, and the memory space of an array's elements.

Mirrors xla/layout.h; the text is what `Layout::ToString` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Displayed
from hlo_cli.source import counted

if TYPE_CHECKING:
    from hlo_cli.ir.primitive import PrimitiveType

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
            if tile.dimensions[-1] == COMBINE:
                return f"tile {tile} ends in *, which needs a more minor dimension to combine with"
        return self._split_problem(dimensions) if self.split_configs else None

    def _split_problem(self, dimensions: Sequence[int]) -> str | None:
        seen: set[int] = set()
        for split in self.split_configs:
            at = split.dimension
            if not 0 <= at < len(dimensions) or at in seen:
                return f"SC dimension {at} is out of range or duplicate"
            seen.add(at)
            cuts = (0, *split.split_indices, dimensions[self.minor_to_major[::-1][at]])
            if any(a >= b for a, b in pairwise(cuts)):
                return f"split points {split} must be increasing and within the dimension"
        return None

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
        if self.memory_space:
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
