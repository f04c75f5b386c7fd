"""The collectives of a module with their mesh axes, and the bytes that a device sends for them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.executions import Executions
from hlo_cli.analysis.sharding.axes import AxisShift, axes_of_groups, axes_of_pairs, axes_text
from hlo_cli.analysis.sharding.collective_sites import CollectiveSite, collective_sites
from hlo_cli.analysis.sharding.device_groups import Devices, Pairs, device_groups, device_pairs, devices_of
from hlo_cli.analysis.sharding.inference import inferred_mesh
from hlo_cli.analysis.sharding.meshes import KnownMesh, known_mesh
from hlo_cli.analysis.sharding.wire_bytes import Algorithm, payload_bytes, wire_factor
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AxisRef, Groups, Mesh
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

NOTHING: Final = "-"
"""Stands for the axes of a collective in which every device has only itself to communicate with."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a module, once for all its runs.

    - `instruction` has the attributes; `caller` is in the schedule: the same, or an async-start or fusion around it.
    - `kind` is the opcode of what it does, such as `reduce-scatter` for a fusion of an all-reduce with a slice of it.
    - `groups` holds flattened device ids, None if they are unknown, for which `problem` is the reason; `pairs` are the
      sources and targets of a permute, which has no groups. `device_count` is that of the module.
    - `axes` are those of the mesh, None without a mesh or if no axes of it make the groups; `shifts` are of a permute.
    - `operand_bytes` are the data bytes of the operands on one device, an upper bound if `is_bound`.
    - `runs` is how often it runs per execution of the module.
    """

    instruction: Instruction
    caller: Instruction
    kind: str
    groups: Groups | None
    pairs: Pairs
    device_count: int
    axes: tuple[AxisRef, ...] | None
    shifts: tuple[AxisShift, ...]
    operand_bytes: int
    runs: Executions
    is_async: bool
    is_bound: bool = False
    problem: str = ""

    @property
    def devices(self) -> int | None:
        """The largest number of devices that communicate with each other; None if the groups are unknown."""
        if self.groups is None:
            return None
        return _largest_chain(self.pairs) if self.pairs else max(map(len, self.groups), default=1)

    @property
    def axis(self) -> str | None:
        """The axes as text, such as `data`, `data:(1)2`, or `data,model`; `-` if nothing is sent; None if unknown."""
        return None if self.axes is None else axes_text(self.axes) or NOTHING

    @property
    def payload_bytes(self) -> int | None:
        """The bytes of one run: the operands; of an all-gather, the result. None if the groups are unknown."""
        return None if self.devices is None else payload_bytes(self.kind, self.operand_bytes, self.devices)

    @property
    def wire_bytes(self) -> Fraction | None:
        """The bytes that a device sends in one run, if none travels more often than it must; the mean over devices."""
        return self.wire("ring")

    def wire(self, algorithm: Algorithm) -> Fraction | None:
        """The bytes that a device sends in one run by an algorithm, the mean over devices; None if unknown."""
        if self.groups is None:
            return None
        if self.pairs or not self.groups:
            return self.operand_bytes * Fraction(_moving(self.pairs), self.device_count)
        return self.operand_bytes * _mean_factor(self.kind, self.groups, self.device_count, algorithm)


def collectives_of(module: Module, mesh: Mesh | None = None) -> tuple[Collective, ...]:
    """The collectives that a module runs, in the order of the text, with their axes on a mesh.

    Without `mesh`, it is the one that the text names, else the coarsest one that explains all groups.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> groups = "replica_groups={{0,2},{1,3}}, dimensions={0}, channel_id=1, use_global_device_ids=true"
    >>> entry = f"ENTRY e {{ p = f32[8] parameter(0)  ROOT r = f32[16] all-gather(p), {groups} }}"
    >>> module = parse_module("HloModule m, num_partitions=4  " + entry)
    >>> [found] = collectives_of(module, Mesh((MeshAxis("data", 2), MeshAxis("model", 2))))
    >>> found.axis, found.devices, found.payload_bytes, found.wire_bytes
    ('data', 2, 64, Fraction(32, 1))
    """
    return cached_per_module(_on_known_mesh, module) if mesh is None else _on_mesh(module, mesh)


def _on_known_mesh(module: Module) -> tuple[Collective, ...]:
    known = mesh_of(module)
    return _on_mesh(module, None if known is None else known.mesh)


def _on_mesh(module: Module, mesh: Mesh | None) -> tuple[Collective, ...]:
    count = devices_of(module).count
    return tuple(_collective(site, each, count, mesh) for site, each in cached_per_module(_communications, module))


def mesh_of(module: Module, given: Mesh | None = None, siblings: Sequence[Module] | None = None) -> KnownMesh | None:
    """The mesh of a module: the known one, else the coarsest one that explains all groups; None without either.

    `siblings` are other stages of the program, by default that before optimizations, if its dump is next to this one.
    HloError if the given mesh has another number of devices.

    >>> from hlo_cli import parse_module
    >>> exchange = "all-to-all(p), dimensions={0}, replica_groups={{0,2},{1,3}}"
    >>> entry = f"ENTRY e {{ p = f32[8] parameter(0)  ROOT r = f32[8] {exchange} }}"
    >>> print(mesh_of(parse_module("HloModule m, replica_count=4  " + entry)).mesh)
    mesh['axis0'=2,'axis1'=2]
    """
    communications = [each for _, each in cached_per_module(_communications, module)]
    distinct = tuple(dict.fromkeys(each.groups for each in communications if each.groups))
    pairs = dict.fromkeys(each.pairs for each in communications if each.pairs)
    if siblings is None:
        siblings = () if module.program is None else (module.program,)
    known = known_mesh(
        module, given, siblings, lambda mesh: all(axes_of_groups(each, mesh) is not None for each in distinct)
    )
    return known or inferred_mesh(distinct, pairs, devices_of(module).count)


@dataclass(frozen=True, slots=True)
class _Communication:
    """The groups, or the pairs of a permute; no groups and the reason if they are not understood."""

    groups: Groups | None
    pairs: Pairs = ()
    problem: str = ""


def _communications(module: Module) -> tuple[tuple[CollectiveSite, _Communication], ...]:
    devices = devices_of(module)
    return tuple((site, _communication(site.instruction, devices)) for site in collective_sites(module))


def _communication(instruction: Instruction, devices: Devices) -> _Communication:
    try:
        return _Communication(device_groups(instruction, devices), device_pairs(instruction, devices))
    except HloError as error:
        return _Communication(None, problem=error.diagnostic.message)


def _collective(site: CollectiveSite, found: _Communication, device_count: int, mesh: Mesh | None) -> Collective:
    groups, pairs = found.groups, found.pairs
    axes: tuple[AxisRef, ...] | None = None
    shifts: tuple[AxisShift, ...] = ()
    if mesh is not None and groups is not None:
        if groups:
            axes = axes_of_groups(groups, mesh)
        elif (moved := axes_of_pairs(pairs, mesh)) is not None:
            shifts, axes = moved, tuple(each.axis for each in moved)
    return Collective(
        site.instruction,
        site.caller,
        site.kind,
        groups,
        pairs,
        device_count,
        axes,
        shifts,
        site.operand_bytes,
        site.runs,
        site.is_async,
        site.is_bound,
        found.problem,
    )


@lru_cache(maxsize=1024)
def _moving(pairs: Pairs) -> int:
    """The number of pairs of different devices."""
    return sum(source != target for source, target in pairs)


@lru_cache(maxsize=1024)
def _mean_factor(kind: str, groups: Groups, device_count: int, algorithm: Algorithm) -> Fraction:
    """The mean over devices of what each sends for a byte of its operands."""
    sizes = [len(group) for group in groups]
    if len(set(sizes)) == 1 and sum(sizes) == device_count:
        return wire_factor(kind, sizes[0], algorithm)
    sent = sum((size * wire_factor(kind, size, algorithm) for size in sizes), Fraction(0))
    return sent / max(device_count, sum(sizes))


@lru_cache(maxsize=1024)
def _largest_chain(pairs: Pairs) -> int:
    """The number of devices in the largest set of devices that pairs connect."""
    parent = {device: device for pair in pairs for device in pair}

    def root_of(device: int) -> int:
        while parent[device] != device:
            parent[device] = device = parent[parent[device]]
        return device

    for source, target in pairs:
        parent[root_of(source)] = root_of(target)
    sizes = dict[int, int]()
    for device in parent:
        sizes[root_of(device)] = sizes.get(root_of(device), 0) + 1
    return max(sizes.values(), default=1)
