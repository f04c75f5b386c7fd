"""Windows, paddings, and slices: the elements selected in each dimension of an array.

Mirrors `Window` and `PaddingConfig` of xla/xla_data.proto, xla/window_util.cc and `HloSliceInstruction`.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """The movement of a window along one dimension of its operand."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    window_reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """The extent of the window, including the gaps of its dilation.

        >>> WindowDimension(3, window_dilation=2).dilated_size
        5
        """
        return dilated(self.size, self.window_dilation)

    def positions(self, size: int) -> int:
        """The number of positions of the window along a dimension of this size, which is the size of the result.

        >>> WindowDimension(3, stride=2, padding_low=1, padding_high=1).positions(8)
        4
        """
        padded = dilated(size, self.base_dilation) + self.padding_low + self.padding_high
        free = padded - self.dilated_size
        return 0 if padded <= 0 or free < 0 else free // self.stride + 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window over an array: `lhs_dilate` in the text is the base dilation, `rhs_dilate` the window's own.

    >>> str(Window((WindowDimension(3, padding_low=1, padding_high=1), WindowDimension(5, stride=2))))
    '{size=3x5 stride=1x2 pad=1_1x0_0}'
    """

    dimensions: tuple[WindowDimension, ...]

    def __str__(self) -> str:
        dimensions = self.dimensions
        if not dimensions:
            return "{}"
        fields = [f"size={_by(d.size for d in dimensions)}"]
        if any(d.stride != 1 for d in dimensions):
            fields.append(f"stride={_by(d.stride for d in dimensions)}")
        if any(d.padding_low or d.padding_high for d in dimensions):
            fields.append("pad=" + "x".join(f"{d.padding_low}_{d.padding_high}" for d in dimensions))
        if any(d.base_dilation != 1 for d in dimensions):
            fields.append(f"lhs_dilate={_by(d.base_dilation for d in dimensions)}")
        if any(d.window_dilation != 1 for d in dimensions):
            fields.append(f"rhs_dilate={_by(d.window_dilation for d in dimensions)}")
        if any(d.window_reversal for d in dimensions):
            fields.append(f"rhs_reversal={_by(int(d.window_reversal) for d in dimensions)}")
        return "{" + " ".join(fields) + "}"


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """The padding before, after, and between the elements of one dimension; negative numbers remove elements."""

    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int = 0


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """The padding of every dimension.

    >>> str(PaddingConfig((PaddingDimension(1, 0, 2), PaddingDimension(0, -1))))
    '1_0_2x0_-1_0'
    """

    dimensions: tuple[PaddingDimension, ...]

    def __str__(self) -> str:
        inner = any(d.interior_padding for d in self.dimensions)
        return "x".join(
            f"{d.edge_padding_low}_{d.edge_padding_high}" + (f"_{d.interior_padding}" if inner else "")
            for d in self.dimensions
        )


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """Every `stride`-th element from `start` up to `limit`, exclusive."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """The range of every dimension of a slice.

    >>> str(Slice((SliceDimension(0, 4), SliceDimension(1, 9))))
    '{[0:4], [1:9]}'
    """

    dimensions: tuple[SliceDimension, ...]

    def __str__(self) -> str:
        strided = any(d.stride != 1 for d in self.dimensions)
        parts = (f"[{d.start}:{d.limit}" + (f":{d.stride}]" if strided else "]") for d in self.dimensions)
        return "{" + ", ".join(parts) + "}"


def dilated(size: int, dilation: int) -> int:
    """The size of a dimension whose elements are `dilation` apart.

    >>> dilated(3, 2), dilated(0, 2)
    (5, 0)
    """
    return (size - 1) * dilation + 1 if size else 0


def _by(numbers: Iterable[int]) -> str:
    return "x".join(map(str, numbers))
