"""The mesh of a module: given by the user, named in the text, or known from a sibling stage.

Axis names survive partitioning only in shardings over a mesh, and in `xla.sdy.meshes` of the header before it.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.mesh import Mesh


@dataclass(frozen=True, slots=True)
class KnownMesh:
    """A mesh, and where it is from, in words: "--mesh", "before_optimizations", "inferred from 12 groups"."""

    mesh: Mesh
    origin: str
    is_inferred: bool = False
