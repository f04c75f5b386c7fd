"""The mesh of a module: given by the user, named in the text, or known from a sibling stage.

Axis names survive partitioning only in shardings over a mesh, and in `xla.sdy.meshes` of the header before it. The
partitioner makes meshes of its own for single instructions, with axes such as `axis_0`; those are not the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from re import Match
from typing import Final

from hlo_cli.analysis.sharding.device_groups import Devices, devices_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import IotaTransform, Mesh, MeshAxis
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

_SHARDY_MESHES: Final = "xla.sdy.meshes"
_SHARDY_MESH: Final = lazy_regex(r"#sdy\.mesh<\[([^\[\]]*+)\](?:\s*+,\s*+device_ids\s*+=\s*+\[([0-9, ]*+)\])?+")
_SHARDY_AXIS: Final = lazy_regex(r'\s*+"([^"]++)"\s*+=\s*+([0-9]{1,9})\s*+')
_MESH: Final = "mesh["
_NAMED: Final = lazy_regex(
    r"mesh\[([^\[\]]*+)\](?:\s*+,\s*+device_ids=\((?:([0-9, ]++)|(\[[0-9, ]++\](?:T\([0-9, ]*+\))?+))\))?+"
)
_NAMED_AXIS: Final = lazy_regex(r"\s*+'?([^'=]++)'?\s*+=\s*+([0-9]{1,9})\s*+")
_IOTA: Final = lazy_regex(r"\[([0-9, ]++)\](?:T\(([0-9, ]*+)\))?+")
_SYNTHETIC: Final = lazy_regex(r"axis_[0-9]++")


@dataclass(frozen=True, slots=True)
class KnownMesh:
    """A mesh, and where it is from, in words: "--mesh", "before_optimizations", "inferred from 12 groups"."""

    mesh: Mesh
    origin: str
    is_inferred: bool = False
    others: tuple[Mesh, ...] = ()
    """Other meshes of the same number of devices in the same place."""


def known_mesh(
    module: Module,
    given: Mesh | None = None,
    siblings: Sequence[Module] = (),
    explains: Callable[[Mesh], bool] | None = None,
) -> KnownMesh | None:
    """The mesh that names the axes of a module; None if no text names one.

    In this order: the given one, `xla.sdy.meshes` of the header, that of a sibling stage, and named shardings. Only a
    mesh of as many devices as the module has counts; of several in one place, the first for which `explains` holds.
    HloError if the given mesh has another number of devices.

    >>> from hlo_cli import parse_module
    >>> header = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
    >>> module = parse_module(f"HloModule m, num_partitions=8, {header}  ENTRY e {{ ROOT p = f32[] parameter(0) }}")
    >>> found = known_mesh(module)
    >>> print(found.mesh, found.origin)
    mesh['data'=4,'model'=2] the header
    """
    devices = devices_of(module)
    if given is not None:
        _check_count(given, devices)
        return KnownMesh(given, "--mesh")
    for origin, meshes in _places(module, siblings):
        fitting = tuple(dict.fromkeys(mesh for mesh in meshes if _fits(mesh, devices)))
        if fitting:
            chosen = next((mesh for mesh in fitting if explains is None or explains(mesh)), fitting[0])
            return KnownMesh(chosen, origin, others=tuple(mesh for mesh in fitting if mesh != chosen))
    return None


def mesh_text(mesh: Mesh) -> str:
    """The axes with their sizes, as `--mesh` takes them.

    >>> mesh_text(Mesh((MeshAxis("data", 4), MeshAxis("model", 2))))
    'data=4,model=2'
    """
    return ",".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


def _check_count(mesh: Mesh, devices: Devices) -> None:
    if mesh.device_count != devices.count and (devices.is_stated or mesh.device_count < devices.count):
        raise HloError(f"{mesh_text(mesh)} is {mesh.device_count:,} devices, the module has {devices.count:,}")


def _fits(mesh: Mesh, devices: Devices) -> bool:
    """Whether a mesh has the devices of a module, each at one place."""
    if mesh.device_count != devices.count or not mesh.axes:
        return False
    try:
        return sorted(mesh.devices()) == list(range(devices.count))
    except HloError:
        return False


def _places(module: Module, siblings: Sequence[Module]) -> Iterator[tuple[str, Iterable[Mesh]]]:
    """The places where a mesh may be named, in the order of preference, each with the meshes named there."""
    yield "the header", header_meshes(module)
    for sibling in siblings:
        yield "before_optimizations", header_meshes(sibling)
    yield "the shardings", named_meshes(module)
    for sibling in siblings:
        yield "shardings of before_optimizations", named_meshes(sibling)


def header_meshes(module: Module) -> tuple[Mesh, ...]:
    """The meshes that Shardy names in the header of a module, without those of a single device.

    >>> from hlo_cli import parse_module
    >>> header = 'xla.sdy.meshes={m = #sdy.mesh<["x"=2], device_ids=[1,0]>, one = #sdy.mesh<[], device_ids=[0]>}'
    >>> text = f"HloModule m, frontend_attributes={{{header}}}  ENTRY e {{ ROOT p = f32[] parameter(0) }}"
    >>> print(*header_meshes(parse_module(text)))
    mesh['x'=2], device_ids=(1,0)
    """
    text = (module.frontend_attributes.get(_SHARDY_MESHES) or "").replace("\\22", '"').replace('\\"', '"')
    found = list[Mesh]()
    for match in _SHARDY_MESH.finditer(text):
        axes = _axes(_SHARDY_AXIS.fullmatch(item) for item in match[1].split(",") if item.strip())
        if axes:
            found.append(Mesh(axes, _numbers(match[2]) if match[2] else None))
    return tuple(found)


def named_meshes(module: Module) -> tuple[Mesh, ...]:
    """The meshes of shardings and device groups in the text of a module, without those that the partitioner made.

    >>> from hlo_cli import parse_module
    >>> print(*named_meshes(parse_module("r = f32[4] negate(f32[4] p), sharding={mesh['x'=2,'y'=4], [{'x'}]}")))
    mesh['x'=2,'y'=4]
    """
    text = module.source.text
    found = dict[tuple[str | None, ...], Mesh]()
    at = text.find(_MESH)
    while at >= 0:  # faster than a search by the expression
        match = _NAMED.match(text, at)
        at = text.find(_MESH, at + 1)
        if match is None or match.groups() in found:
            continue
        axes = _axes(_NAMED_AXIS.fullmatch(item) for item in match[1].split(","))
        if axes and not all(_SYNTHETIC.fullmatch(axis.name) for axis in axes):
            found[match.groups()] = Mesh(axes, _device_ids(match[2], match[3]))
    return tuple(found.values())


def _device_ids(listed: str | None, iota: str | None) -> tuple[int, ...] | IotaTransform | None:
    if listed:
        return _numbers(listed)
    if iota and (match := _IOTA.fullmatch(iota)) is not None:
        return IotaTransform(_numbers(match[1]), _numbers(match[2]) if match[2] else (0,))
    return None


def _axes(matches: Iterable[Match[str] | None]) -> tuple[MeshAxis, ...]:
    """The axes; none if one cannot be read, or two have the same name."""
    axes = [MeshAxis(match[1], int(match[2])) if match is not None else None for match in matches]
    read = tuple(axis for axis in axes if axis is not None and axis.size)
    return read if len({axis.name for axis in read}) == len(axes) else ()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in text.split(",") if item.strip().isdecimal() and len(item.strip()) < 10)
