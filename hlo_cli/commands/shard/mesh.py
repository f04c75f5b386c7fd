"""`--mesh data=2,fsdp=4`: the axes of the mesh, named by the user."""

from __future__ import annotations

from hlo_cli.ir.attributes.sharding import Mesh, MeshAxis
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

_AXIS = lazy_regex(r"\s*+['\"]?([\w.\-]++)['\"]?\s*+[=:]\s*+([0-9]{1,9})\s*+")


def read_mesh(text: str) -> Mesh:
    """The mesh in a text such as data=2,fsdp=4, major axis first; HloError if it is none.

    >>> print(read_mesh("data=2, fsdp=4"))
    mesh['data'=2,'fsdp'=4]
    """
    axes = list[MeshAxis]()
    for item in text.strip().strip("{}[]()").split(","):
        match = _AXIS.fullmatch(item)
        if match is None or int(match[2]) < 1:
            raise HloError(f"--mesh {text}: expected axes such as data=2,fsdp=4")
        if any(axis.name == match[1] for axis in axes):
            raise HloError(f"--mesh {text}: axis {match[1]} is named twice")
        axes.append(MeshAxis(match[1], int(match[2])))
    return Mesh(tuple(axes))
