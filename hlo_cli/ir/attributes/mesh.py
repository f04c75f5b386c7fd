"""Devices in order: iota with a reshape and a transpose, and meshes with named axes.

Mirrors `IotaTileAssignment` of xla/hlo/ir/tile_assignment.h and xla/hlo/ir/mesh_and_axis.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text, tuple_text
from hlo_cli.source import HloError

MAX_DEVICES: Final = 1 << 22
"""The longest list of devices that is expanded; no machine has so many."""


@dataclass(frozen=True, slots=True)
class IotaTransform:
    """The numbers from 0 on, reshaped to `dims` and transposed.

    >>> transform = IotaTransform((2, 3), (1, 0))
    >>> str(transform), transform.devices()
    ('[2,3]T(1,0)', (0, 3, 1, 4, 2, 5))
    """

    reshape_dims: tuple[int, ...]
    transpose_perm: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        dims = index_text(self.reshape_dims, "[]")
        return dims if len(self.reshape_dims) == 1 else f"{dims}T{tuple_text(self.transpose_perm)}"

    @property
    def is_permutation(self) -> bool:
        """Whether the new order is a permutation of the dimensions."""
        return sorted(self.transpose_perm) == list(range(len(self.reshape_dims)))

    def devices(self) -> tuple[int, ...]:
        """The numbers one by one; HloError if the order is invalid, or there are too many."""
        if not self.is_permutation:
            raise HloError(f"{self} is not a permutation")
        return permuted(range(check_count(prod(self.reshape_dims))), self.reshape_dims, self.transpose_perm)


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"'{self.name}'={self.size}"


@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh by name, or a part of it: `size` devices, after `pre_size` of them.

    >>> str(AxisRef("x")), str(AxisRef("x", 2, 4))
    ("'x'", "'x':(2)4")
    """

    name: str
    pre_size: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        return f"'{self.name}'" if self.size is None else f"'{self.name}':({self.pre_size}){self.size}"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices in a grid with named axes; `device_ids` lists them if they are not in ascending order.

    >>> mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 2)), IotaTransform((2, 2), (1, 0)))
    >>> str(mesh), mesh.devices()
    ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0))", (0, 2, 1, 3))
    """

    axes: tuple[MeshAxis, ...]
    device_ids: tuple[int, ...] | IotaTransform | None = None

    def __str__(self) -> str:
        mesh = f"mesh[{','.join(map(str, self.axes))}]"
        if self.device_ids is None:
            return mesh
        ids = self.device_ids
        listed = str(ids) if isinstance(ids, IotaTransform) else ",".join(map(str, ids))
        return f"{mesh}, device_ids=({listed})"

    @property
    def device_count(self) -> int:
        """The number of devices in the mesh."""
        return prod(axis.size for axis in self.axes)

    def size_of(self, axis: AxisRef) -> int:
        """The number of devices along an axis, or along a part of one."""
        return axis.size or next(whole.size for whole in self.axes if whole.name == axis.name)

    def devices(self) -> tuple[int, ...]:
        """The devices in the order of the grid, the last axis minor."""
        match self.device_ids:
            case None:
                return tuple(range(check_count(self.device_count)))
            case IotaTransform() as transform:
                return transform.devices()
            case listed:
                return listed

    def groups(self, axes: Sequence[AxisRef]) -> tuple[tuple[int, ...], ...]:
        """The devices that differ only along these axes, in the order of the axes.

        >>> Mesh((MeshAxis("x", 2), MeshAxis("y", 4))).groups([AxisRef("y", 2, 2)])
        ((0, 1), (2, 3), (4, 5), (6, 7))
        """
        if (problem := self.problem_with([axes])) is not None:
            raise HloError(f"{self}: {problem}")
        devices = self.arranged(axes)
        length = prod(self.size_of(axis) for axis in axes)
        return tuple(devices[at : at + length] for at in range(0, len(devices), length))

    def arranged(self, axes: Sequence[AxisRef]) -> tuple[int, ...]:
        """All devices in row-major order with these axes last, in the given order; the others keep theirs.

        HloError if the mesh lists another number of devices than it has positions, or has an axis of size 0.

        >>> Mesh((MeshAxis("x", 2), MeshAxis("y", 2))).arranged([AxisRef("x")])
        (0, 2, 1, 3)
        """
        if (empty := next((axis for axis in self.axes if axis.size < 1), None)) is not None:
            raise HloError(f"axis {empty.name} of the mesh has no devices")
        devices = self.devices()
        if len(devices) != self.device_count:
            raise HloError(f"{self} has {self.device_count} positions but {len(devices)} devices")
        parts = self._parts(axes)
        used = [parts.index((axis.name, axis.pre_size or 1, self.size_of(axis))) for axis in axes]
        order = [*(i for i in range(len(parts)) if i not in used), *used]
        return permuted(devices, [size for _, _, size in parts], order)

    def problem_with(self, used: Sequence[Sequence[AxisRef]]) -> str | None:
        """The reason why these lists of axes conflict, or None: none may overlap, and adjacent parts must be merged.

        >>> Mesh((MeshAxis("x", 2),)).problem_with([[AxisRef("x")], [AxisRef("x")]])
        'axis x is used more than once'
        """
        for axes in used:
            for a, b in pairwise(axes):
                if a.name == b.name and (a.pre_size or 1) * self.size_of(a) == (b.pre_size or 1):
                    return f"{a}, {b} must be written as one axis, {self._merged(a, b)}"
        parts = sorted((a.name, a.pre_size or 1, self.size_of(a)) for axes in used for a in axes)
        for (name, pre, size), (other, next_pre, _) in pairwise(parts):
            if name == other and pre * size > next_pre:
                return f"axis {name} is used more than once"
        return None

    def _merged(self, a: AxisRef, b: AxisRef) -> AxisRef:
        """Adjacent parts of an axis as one."""
        whole, size = AxisRef(a.name), self.size_of(a) * self.size_of(b)
        return whole if size == self.size_of(whole) else AxisRef(a.name, a.pre_size, size)

    def _parts(self, used: Sequence[AxisRef]) -> list[tuple[str, int, int]]:
        """Every axis split at the ends of the used parts: name, size before the part, size of the part."""
        found: list[tuple[str, int, int]] = []
        for axis in self.axes:
            refs = [ref for ref in used if ref.name == axis.name and ref.size is not None]
            ends = {(ref.pre_size or 1) * self.size_of(ref) for ref in refs}
            cuts = sorted({1, axis.size, *(ref.pre_size or 1 for ref in refs), *ends})
            found.extend((axis.name, pre, end // pre) for pre, end in pairwise(cuts))
            if axis.size == 1:
                found.append((axis.name, 1, 1))
        return found


def permuted(values: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The values of an array of these dimensions in row-major order, after a transpose."""
    strides = [prod(dims[d + 1 :]) for d in range(len(dims))]
    offsets = [0]
    for d in order:
        stride, size = strides[d], dims[d]
        offsets = [offset + i * stride for offset in offsets for i in range(size)]
    return tuple([values[offset] for offset in offsets])


def check_count(count: int) -> int:
    """The count itself; HloError if it is too large to be expanded."""
    if count > MAX_DEVICES:
        raise HloError(f"{count:,} devices are too many to list")
    return count
