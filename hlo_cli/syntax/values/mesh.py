"""Grammar of meshes with named axes and of the device lists and shardings written over them.

Mirrors `ParseMesh` and `ParseAxisRef` of xla/hlo/parser/hlo_parser.cc and the checks of xla/hlo/ir/named_sharding.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.sharding import (
    AxisRef,
    DimensionSharding,
    IotaReplicaGroupList,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    NamedSharding,
)
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values import grammar_tools as gt


class _Axis(NamedTuple):
    """An axis as written, and its span; it may be missing in the mesh."""

    at: int
    name: str
    part: tuple[int, ...]


class _Axes(NamedTuple):
    """A list of axes after a keyword."""

    word: str
    reduction: ReductionKind | None
    axes: tuple[_Axis, ...]


_OPEN: Final = "?"


def _transform(text: str, at: int, found: pp.ParseResults) -> IotaTransform:
    dims, order = found[0], (found[1] if len(found) > 1 else (0,))
    if not all(0 <= d < len(dims) for d in order):
        raise gt.fail(text, at, f"expected a permutation of the {len(dims)} dimensions")
    return IotaTransform(dims, order)


_ORDER: Final = (
    gt.symbol(r"T[ \t\n\r]*+(?=\()", "T(permutation)").suppress()
    - gt.suppress_literal("(")
    - gt.INTS
    - gt.suppress_literal(")")
)
_ONE: Final = gt.symbol(r"(?=\[[ \t\n\r]*+[0-9\-]++[ \t\n\r]*+\])", "one number in brackets").suppress()
IOTA: Final = (_ONE + gt.SIZES | gt.SIZES - _ORDER).set_parse_action(_transform)
"""`[8]` or `[2,4]T(1,0)`."""


def _mesh(text: str, at: int, found: pp.ParseResults) -> Mesh:
    axes = tuple(item for item in found if isinstance(item, MeshAxis))
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise gt.fail(text, at, f"duplicate mesh axis '{next(name for name in names if names.count(name) > 1)}'")
    ids = found[-1] if found and not isinstance(found[-1], MeshAxis) else None
    mesh = Mesh(axes, ids)
    if isinstance(ids, tuple):
        if len(ids) != mesh.device_count or sorted(ids) != list(range(len(ids))):
            raise gt.fail(text, at, f"expected a permutation of the {mesh.device_count} devices of the mesh")
        if list(ids) == sorted(ids):
            raise gt.fail(text, at, "omit the device list if it is in order")
    return mesh


_MESH_AXIS: Final = ((gt.STRING - gt.suppress_literal("=") | gt.ATTRIBUTE) - gt.INT).set_parse_action(
    lambda found: MeshAxis(found[0], found[1])
)
_DEVICE_IDS: Final = (
    gt.symbol(r",[ \t\n\r]*+device_ids=", ", device_ids=").suppress()
    - gt.suppress_literal("(")
    - (IOTA | gt.INTS)
    - gt.suppress_literal(")")
)
MESH: Final = (
    (
        gt.word("mesh").suppress()
        - gt.suppress_literal("[")
        - gt.listed(_MESH_AXIS)
        - gt.suppress_literal("]")
        + pp.Opt(_DEVICE_IDS)
    )
    .set_parse_action(_mesh)
    .set_name("a mesh")
)
_MAXIMAL_MESH: Final = (
    (gt.word("maximal_mesh") | gt.word("single_device"))
    - gt.suppress_literal("[")
    - gt.named("device_id")
    - gt.INT
    - gt.suppress_literal("]")
).set_parse_action(lambda found: MaximalMesh(found[1], found[0]))

_AXIS_NAME: Final = gt.symbol(r"%?+[A-Za-z_][A-Za-z0-9_.\-]*+", "an axis name")
_AXIS: Final = (
    (gt.STRING | _AXIS_NAME)
    + pp.Opt(gt.suppress_literal(":"))
    + pp.Opt(gt.suppress_literal("(") - gt.INT - gt.suppress_literal(")") - gt.INT)
).set_parse_action(lambda text, at, found: _Axis(at, found[0].removeprefix("%"), tuple(found[1:])))
_AXES: Final = (
    gt.suppress_literal("{") - gt.listed(_AXIS) - gt.suppress_literal("}", "'}' or an axis")
).set_parse_action(lambda found: [tuple(found)])
_DIMENSION: Final = (
    gt.suppress_literal("{") - gt.listed(_AXIS | pp.Literal(_OPEN)) - gt.suppress_literal("}", "'}' or an axis")
).set_parse_action(lambda found: [tuple(found)])


def _resolved(text: str, axis: _Axis, mesh: Mesh) -> AxisRef:
    """The axis of the mesh, by name or by number."""
    names = [whole.name for whole in mesh.axes]
    name = axis.name
    if name not in names and name.isdecimal() and len(name) < 10 and int(name) < len(names):
        name = names[int(name)]
    if name not in names:
        raise gt.fail(text, axis.at, f"unknown mesh axis '{name}'")
    if not axis.part:
        return AxisRef(name)
    (pre, size), whole = axis.part, mesh.axes[names.index(name)].size
    if pre < 1 or size < 2 or size >= whole or whole % (pre * size):
        raise gt.fail(text, axis.at, f"({pre}){size} is not a valid sub-axis of size {whole}")
    return AxisRef(name, pre, size)


def _dimension_sharding(text: str, items: tuple[_Axis | str, ...], mesh: Mesh, at: int) -> DimensionSharding:
    axes = tuple(_resolved(text, item, mesh) for item in items if isinstance(item, _Axis))
    if _OPEN in items[:-1]:
        raise gt.fail(text, at, "? must come last")
    return DimensionSharding(axes, is_closed=_OPEN not in items)


def _named_axes(found: pp.ParseResults) -> _Axes:
    return _Axes(found[0], found[1] if len(found) > 2 else None, found[-1])


_REDUCTION: Final = gt.one_of(ReductionKind)
_WITH_METADATA: Final = (gt.named("metadata") - gt.METADATA).set_parse_action(lambda found: [("metadata", found[0])])
_WITH_AXES: Final = (
    (gt.symbol("(?:replicated|manual)=", "replicated= or manual=") - _AXES)
    | (gt.symbol("unreduced=", "unreduced=") - pp.Opt(_REDUCTION) - _AXES)
).set_parse_action(lambda found: _named_axes(found))
_REST: Final = pp.ZeroOrMore(
    gt.suppress_literal(",") - (_WITH_METADATA | _WITH_AXES).set_name("replicated=, unreduced=, manual=, or metadata=")
)
_WHOLE: Final = gt.symbol(r"unreduced=", "unreduced=") - _REDUCTION | gt.word("(?:replicated|unreduced|manual)")
_DIMENSIONS: Final = (
    gt.suppress_literal("[", "'[' or one of replicated, unreduced, or manual")
    - gt.listed(_DIMENSION)
    - gt.suppress_literal("]")
).set_parse_action(lambda found: [list(found)])


def _sharding(text: str, at: int, found: pp.ParseResults) -> NamedSharding:
    mesh, *rest = found
    metadata = next((item[1] for item in rest if isinstance(item, tuple) and item[0] == "metadata"), ())
    if isinstance(mesh, MaximalMesh):
        return NamedSharding(mesh, metadata=metadata)
    if isinstance(rest[0], str):
        reduction = rest[1] if len(rest) > 1 and isinstance(rest[1], ReductionKind) else None
        return NamedSharding(mesh, whole=rest[0].removesuffix("="), reduction=reduction, metadata=metadata)
    axes: dict[str, tuple[AxisRef, ...]] = {}
    reduction = None
    for item in rest:
        if isinstance(item, _Axes):
            axes[item.word[:-1]] = tuple(_resolved(text, axis, mesh) for axis in item.axes)
            reduction = item.reduction or reduction
    sharding = NamedSharding(
        mesh,
        tuple(_dimension_sharding(text, items, mesh, at) for items in rest[0]),
        axes.get("replicated", ()),
        axes.get("unreduced", ()),
        axes.get("manual", ()),
        reduction,
        metadata=metadata,
    )
    if (problem := sharding.problem) is not None:
        raise gt.fail(text, max(text.find("{", at), at), problem)  # the first list of axes
    return sharding


NAMED_SHARDING: Final = (
    MESH
    + pp.Opt(gt.suppress_literal(","))
    - ((_WHOLE + pp.Opt(gt.suppress_literal(",") - _WITH_METADATA)) | (_DIMENSIONS + _REST))
    | _MAXIMAL_MESH + pp.Opt(gt.suppress_literal(",") - _WITH_METADATA)
).set_parse_action(_sharding)
"""The contents of the braces of a sharding with a mesh."""


def _mesh_groups(text: str, at: int, found: pp.ParseResults) -> MeshAxesReplicaGroupList:
    mesh, axes = found
    if not axes:
        raise gt.fail(text, at, "expected at least one axis")
    groups = MeshAxesReplicaGroupList(mesh, tuple(_resolved(text, axis, mesh) for axis in axes))
    if (problem := mesh.problem_with([groups.axes])) is not None:
        raise gt.fail(text, at, problem)
    return groups


def _iota_groups(text: str, at: int, found: pp.ParseResults) -> IotaReplicaGroupList:
    (count, size), transform = found
    return IotaReplicaGroupList(count, size, transform)


_PAIR: Final = gt.symbol(r"(?=\[[^\[\],]*+,[^\[\],]*+\])", "the number of groups and their size").suppress() + gt.SIZES
_GROUPS: Final = (MESH + pp.Opt(gt.suppress_literal(",")) - _AXES).set_parse_action(_mesh_groups) | (
    _PAIR - gt.suppress_literal("<=") - IOTA
).set_parse_action(_iota_groups)
read_group_list: Final[Callable[[Tokens], IotaReplicaGroupList | MeshAxesReplicaGroupList]] = gt.reader(
    _GROUPS, "replica_groups"
)
"""`[2,2]<=[4]` or `mesh['x'=2] {'x'}`."""
