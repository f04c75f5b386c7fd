"""Shardings and device groups in their most common forms, read without the full grammars.

The full grammars use pyparsing, which takes longer to import than most modules take to read. Other forms are left
to `grammars.py`, which returns equal values for the common ones.

Mirrors `ParseSingleSharding` and `ParseCollectiveDeviceList` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.attributes.sharding import (
    AxisRef,
    IotaReplicaGroupList,
    IotaTransform,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    Sharding,
    ShardingType,
    TileAssignment,
)
from hlo_cli.ir.notation import read_index
from hlo_cli.lazy_regex import lazy_regex

_SIZE: Final = "[1-9][0-9]{0,8}+"
_SIZES: Final = rf"{_SIZE}(?:,{_SIZE})*+"
_IDS: Final = rf"(?:0|{_SIZE})(?:,(?:0|{_SIZE}))*+"
_IOTA: Final = rf"<=\[({_SIZES})\](?:T\(({_IDS})\))?+"
_NAME: Final = "'[A-Za-z_][A-Za-z0-9_]*+'"
_IOTA_GROUPS: Final = lazy_regex(rf"\[({_SIZE}),({_SIZE})\]{_IOTA}")
_MESH_GROUPS: Final = lazy_regex(rf"mesh\[({_NAME}={_SIZE}(?:,{_NAME}={_SIZE})*+)\] \{{({_NAME}(?:,{_NAME})*+)\}}")
_TILED: Final = lazy_regex(rf"\{{devices=\[({_SIZES})\](?:{_IOTA}|({_IDS}))( last_tile_dim_replicate)?+\}}")
_WHOLE: Final = re.compile(rf"\{{(?:(replicated|manual)|maximal device=(0|{_SIZE}))\}}")


def plain_groups(text: str) -> IotaReplicaGroupList | MeshAxesReplicaGroupList | None:
    """Groups made by an iota or by the axes of a mesh, or None for all other text.

    >>> str(plain_groups("[2,4]<=[4,2]T(1,0)")), str(plain_groups("mesh['x'=2,'y'=4] {'y'}")), plain_groups("{{0,1}}")
    ('[2,4]<=[4,2]T(1,0)', "mesh['x'=2,'y'=4] {'y'}", None)
    """
    if (match := _IOTA_GROUPS.fullmatch(text)) is not None:
        transform = _transform(match[3], match[4])
        return None if transform is None else IotaReplicaGroupList(int(match[1]), int(match[2]), transform)
    if (match := _MESH_GROUPS.fullmatch(text)) is None:
        return None
    sizes = [axis.split("=") for axis in match[1].split(",")]
    mesh = Mesh(tuple(MeshAxis(name.strip("'"), int(size)) for name, size in sizes))
    axes = tuple(AxisRef(name.strip("'")) for name in match[2].split(","))
    names = {axis.name for axis in mesh.axes}
    are_there = len(names) == len(mesh.axes) and all(axis.name in names for axis in axes)
    return MeshAxesReplicaGroupList(mesh, axes) if are_there and mesh.problem_with([axes]) is None else None


def plain_sharding(text: str) -> Sharding | None:
    """One sharding without metadata or group, or None for all other text.

    >>> str(plain_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")), str(plain_sharding("{maximal device=3}"))
    ('{devices=[2,1,2]<=[4] last_tile_dim_replicate}', '{maximal device=3}')
    >>> plain_sharding("{{replicated}, {manual}}") is plain_sharding("{devices=[1]0}") is None
    True
    """
    if (match := _WHOLE.fullmatch(text)) is not None:
        if match[1] is None:
            return Sharding(ShardingType.MAXIMAL, device=int(match[2]))
        return Sharding(ShardingType(match[1]))
    if (match := _TILED.fullmatch(text)) is None:
        return None
    devices = _transform(match[2], match[3]) if match[4] is None else read_index(match[4])
    if devices is None:
        return None
    tiles = TileAssignment(read_index(match[1]), devices)
    sharding = Sharding(ShardingType.TILED, tiles, replicate_on_last_tile_dim=match[5] is not None)
    return sharding if sharding.problem is None else None


def _transform(dims: str, order: str | None) -> IotaTransform | None:
    """An iota; the order of its dimensions is required if there are several."""
    if order is None:
        return None if "," in dims else IotaTransform((int(dims),))
    transform = IotaTransform(read_index(dims), read_index(order))
    return transform if "," in dims and transform.is_permutation else None
