"""Shardings over the named axes of a mesh. Mirrors xla/hlo/ir/named_sharding.h."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from math import prod

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.mesh import AxisRef, Mesh
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.words import ReductionKind


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The axes along which one dimension is partitioned; an open one may be partitioned further.

    >>> str(DimensionSharding((AxisRef("x"),), is_closed=False))
    "{'x', ?}"
    """

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True

    def __str__(self) -> str:
        return _listed([*map(str, self.axes), *([] if self.is_closed else ["?"])])


@dataclass(frozen=True, slots=True)
class MaximalMesh:
    """A mesh of a single device; `word` is its name in text, which XLA of 2026 changed to single_device.

    >>> str(MaximalMesh(3))
    'maximal_mesh[device_id=3]'
    """

    device_id: int
    word: str = field(default="maximal_mesh", compare=False)

    def __str__(self) -> str:
        return f"{self.word}[device_id={self.device_id}]"


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """A mesh, the axes of each dimension, and the replicated, unreduced, and manual axes.

    `whole` is the keyword of a sharding without partitioned dimensions: replicated, unreduced, or manual.

    >>> from hlo_cli.ir.attributes.mesh import MeshAxis
    >>> mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    >>> sharding = NamedSharding(mesh, (DimensionSharding((AxisRef("x"),)), DimensionSharding()))
    >>> str(sharding), sharding.tile_counts(2)
    ("{mesh['x'=2,'y'=4], [{'x'}, {}]}", (2, 1))
    """

    mesh: Mesh | MaximalMesh
    dim_shardings: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    reduction: ReductionKind | None = None
    whole: str = ""
    metadata: tuple[Metadata, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.mesh)]
        reduction = self.reduction or ""
        if self.whole:
            parts.append(f"{self.whole}={reduction}" if reduction else self.whole)
        elif isinstance(self.mesh, Mesh):
            parts.append(f"[{', '.join(map(str, self.dim_shardings))}]")
        if self.replicated_axes:
            parts.append(f"replicated={_listed(self.replicated_axes)}")
        if self.unreduced_axes:
            parts.append(f"unreduced={reduction}{_listed(self.unreduced_axes)}")
        if self.manual_axes:
            parts.append(f"manual={_listed(self.manual_axes)}")
        if self.metadata:
            parts.append(f"metadata={{{', '.join(map(str, self.metadata))}}}")
        return "{" + ", ".join(parts) + "}"

    def tile_counts(self, rank: int) -> tuple[int, ...]:
        """The number of partitions of each dimension of an array of this rank."""
        if isinstance(self.mesh, MaximalMesh):
            return (1,) * rank
        size_of = self.mesh.size_of
        counts = tuple(prod(size_of(axis) for axis in dimension.axes) for dimension in self.dim_shardings[:rank])
        return counts + (1,) * (rank - len(counts))

    @property
    def problem(self) -> str | None:
        """The reason why XLA rejects the sharding, or None."""
        if isinstance(self.mesh, MaximalMesh):
            return None
        names = [axis.name for axis in self.mesh.axes]
        lists = {"replicated": self.replicated_axes, "unreduced": self.unreduced_axes, "manual": self.manual_axes}
        for name, axes in lists.items():
            positions = [(names.index(axis.name), axis.pre_size or 1) for axis in axes]
            if any(a >= b for a, b in pairwise(positions)):
                return f"axes of {name} must be in mesh order"
        return self.mesh.problem_with([*(dimension.axes for dimension in self.dim_shardings), *lists.values()])


def _listed(items: list[str] | tuple[AxisRef, ...]) -> str:
    return "{" + ", ".join(map(str, items)) + "}"
