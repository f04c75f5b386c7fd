"""Which devices meet, and along which axes of which mesh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from re import Match
from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.shapes.replica_groups import collective_op_group_mode, lists_groups
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.enumerations import CollectiveOpGroupMode as Mode
from hlo_cli.ir.attributes.sharding import (
    MAX_DEVICES,
    AxisRef,
    Groups,
    IotaTransform,
    Mesh,
    MeshAxis,
    ReplicaGroups,
    check_count,
)
from hlo_cli.ir.attributes.value_types import AttributeValue
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import unravel
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, PERMUTES, wrapped_opcode
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- groups of devices ---
# A module runs as R replicas of P partitions; the flattened id of a device is replica * P + partition. Mirrors
# `GetParticipatingDevicesGroups` of xla/service/collective_ops_utils.cc.


Pairs = tuple[tuple[int, int], ...]
"""Sources and targets."""

_PAIRS: Final = "source_target_pairs"
# 4 Mi ids, over 100 MB of Python integers: beyond any real fleet, but a text can state any number.
_MAX_DEVICE_IDS: Final = 1 << 22
"""Limit on the places in the flattened groups of one collective."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that run a module; if the header does not state them, as many as its collectives name.

    >>> Devices(2, 4).count
    8
    """

    replicas: int
    partitions: int
    is_stated: bool = True

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions


def devices_of(module: Module) -> Devices:
    """The devices that run a module.

    >>> from hlo_cli import parse_module
    >>> header = "HloModule m, replica_count=2, num_partitions=4"
    >>> devices_of(parse_module(header + " ENTRY e { ROOT p = f32[] parameter(0) }"))
    Devices(replicas=2, partitions=4, is_stated=True)
    >>> devices_of(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}")).count
    4
    """
    return cached_per_module(_devices_of, module)


def _devices_of(module: Module) -> Devices:
    replicas, partitions = module.replica_count, module.num_partitions
    if replicas * partitions > 1:
        return Devices(replicas, partitions)
    # Parts of texts state no counts; the ids that are named are the best lower bound.
    return Devices(1 + max(map(_largest_id, filter(is_collective, module.instructions)), default=0), 1, is_stated=False)


def _largest_id(instruction: Instruction) -> int:
    try:
        named = device_pairs(instruction, _UNSTATED_DEVICES) or device_groups(instruction, _UNSTATED_DEVICES)
    except HloError:
        return 0
    return max(chain.from_iterable(named), default=0)


_UNSTATED_DEVICES: Final = Devices(1, 1, is_stated=False)


def is_collective(instruction: Instruction) -> bool:
    """Whether an instruction is a collective or the start of one with the attributes of the collective on it.

    >>> from hlo_cli import parse_module
    >>> is_collective(parse_module("s = ((f32[4]), f32[4], u32[]) all-to-all-start(f32[4] p)").entry.root)
    True
    """
    return collective_kind(instruction.opcode) is not None


@lru_cache(maxsize=1024)
def collective_kind(opcode: str) -> str | None:
    """The collective of an opcode, or of the start of it; None for other opcodes.

    >>> collective_kind("all-gather-start"), collective_kind("all-gather-done"), collective_kind("copy-start")
    ('all-gather', None, None)
    """
    if opcode in COLLECTIVES:
        return opcode
    kind = opcode.removesuffix("-start")
    # An async op around the opcode, as in async-start(...), calls=%wrapped_all_reduce, is a collective too.
    return kind if kind != opcode and (kind in COLLECTIVES or wrapped_opcode(opcode) in COLLECTIVES) else None


def device_groups(instruction: Instruction, devices: Devices) -> Groups:
    """The groups of a collective as flattened ids, in the order of its ranks; empty for a permute, which has pairs.

    HloError if the groups cannot be read, or name a device that does not exist.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[4] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1}}"
    >>> device_groups(parse_module(text).entry.root, Devices(2, 2))
    ((0, 2), (1, 3))
    """
    if collective_kind(instruction.opcode) in PERMUTES:
        return ()
    mode = collective_op_group_mode(instruction)
    if not lists_groups(instruction):
        text = instruction.attribute("replica_groups")
        if text is not None and instruction.replica_groups is None:
            raise HloError(f"cannot read the replica groups {text[:80]}", instruction.span)
        return _flattened(None, mode, devices)
    return _flattened(instruction.replica_groups, mode, devices)


def device_pairs(instruction: Instruction, devices: Devices) -> Pairs:
    """The source–target pairs of a permute as flattened ids; empty for other collectives.

    HloError if the pairs cannot be read, or name a device that does not exist.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2] collective-permute(f32[2] a), channel_id=1, source_target_pairs={{0,1}}"
    >>> device_pairs(parse_module(text).entry.root, Devices(2, 2))
    ((0, 1), (2, 3))
    """
    if collective_kind(instruction.opcode) not in PERMUTES:
        return ()
    value = instruction.value(_PAIRS)
    pairs = _read_pairs(value) if isinstance(value, tuple) or value is None else None
    if pairs is None:
        text = instruction.attribute(_PAIRS) or ""
        raise HloError(f"cannot read the source_target_pairs {text[:80]}", instruction.span)
    is_partition = collective_op_group_mode(instruction) is Mode.CROSS_PARTITION
    return _flattened_pairs(pairs, devices, is_partition=is_partition)


@lru_cache(maxsize=1024)
def _read_pairs(value: tuple[AttributeValue, ...] | None) -> Pairs | None:
    """The pairs in the value of an attribute, None if it has another form."""
    pairs = list[tuple[int, int]]()
    for pair in value or ():
        match pair:
            case (int(source), int(target)):
                pairs.append((source, target))
            case _:
                return None
    return tuple(pairs)


@lru_cache(maxsize=1024)
def _flattened(groups: ReplicaGroups | None, mode: Mode, devices: Devices) -> Groups:
    """The groups as flattened ids; None stands for one group of all ids of the mode."""
    replicas, partitions = devices.replicas, devices.partitions
    # Mode decides what the numbers count: see GetCollectiveOpGroupMode in xla/service/collective_ops_utils.cc.
    limit = {Mode.CROSS_PARTITION: partitions, Mode.FLATTENED_ID: devices.count}.get(mode, replicas)
    if not devices.is_stated:
        limit = check_count(devices.count)
        return (tuple(range(limit)),) if groups is None else groups.groups(limit)
    check_count(devices.count)
    listed = (tuple(range(limit)),) if groups is None else groups.groups(limit)
    _check_ids(listed, limit, mode)
    match mode:
        case Mode.CROSS_REPLICA:
            return _repeated_for_each(listed, partitions, lambda replica, partition: replica * partitions + partition)
        case Mode.CROSS_PARTITION:
            return _repeated_for_each(listed, replicas, lambda partition, replica: replica * partitions + partition)
        case Mode.CROSS_REPLICA_AND_PARTITION:
            every = range(partitions)
            # A channel without use_global_device_ids: replica ids, and every partition of these replicas takes part.
            return tuple(tuple(id * partitions + each for id in group for each in every) for group in listed)
    return listed


def _repeated_for_each(groups: Groups, count: int, flattened: Callable[[int, int], int]) -> Groups:
    """The groups once for each of the ids of the other kind."""
    return tuple(tuple(flattened(id, other) for id in group) for group in groups for other in range(count))


@lru_cache(maxsize=1024)
def _flattened_pairs(pairs: Pairs, devices: Devices, *, is_partition: bool) -> Pairs:
    replicas, partitions = devices.replicas, devices.partitions
    if not devices.is_stated:
        return pairs
    check_count(devices.count)
    if is_partition:
        # A device may be source of one pair and target of another, so repeats across pairs are no error.
        _check_ids(pairs, partitions, Mode.CROSS_PARTITION, repeats=True)
        return tuple((r * partitions + a, r * partitions + b) for r in range(replicas) for a, b in pairs)
    _check_ids(pairs, replicas, Mode.CROSS_REPLICA, repeats=True)
    return tuple((a * partitions + p, b * partitions + p) for p in range(partitions) for a, b in pairs)


_ID_NOUNS: Final = {Mode.CROSS_PARTITION: "partitions", Mode.FLATTENED_ID: "devices"}


def _check_ids(groups: Sequence[Sequence[int]], limit: int, mode: Mode, *, repeats: bool = False) -> None:
    """Raises HloError for an id that does not exist, or is in two groups."""
    ids = [id for group in groups for id in group]
    if len(ids) > _MAX_DEVICE_IDS:
        raise HloError(f"{len(ids):,} devices are too many to list")
    wrong = next((id for id in ids if not 0 <= id < limit), None)
    if wrong is not None:
        raise HloError(f"a group names device {wrong}, but the module has {limit:,} {_ID_NOUNS.get(mode, 'replicas')}")
    if not repeats and len(set(ids)) < len(ids):
        twice = next(id for id, times in Counter(ids).items() if times > 1)
        raise HloError(f"device {twice} is in more than one group")


# --- axes of groups ---
# Mesh axes along which the devices of a group differ, and shifts of permutes along them.
#
# The answer is exact: the groups along the axes found are compared with the given ones as sets of sets.


@dataclass(frozen=True, slots=True)
class Progression:
    """The numbers 0, stride, 2 * stride, … of which there are `count`."""

    stride: int
    count: int


@dataclass(frozen=True, slots=True)
class AxisShift:
    """An axis along which a permute moves data, and by how many places, modulo the axis; None if it differs."""

    axis: AxisRef
    shift: int | None

    def __str__(self) -> str:
        return axes_text((self.axis,)) + (f" {self.shift:+}" if self.shift is not None else "")


def axes_text(axes: Iterable[AxisRef]) -> str:
    """Axes as tables show them: `data`, `data:(1)2` for a part of one, `data,model` for several.

    >>> axes_text((AxisRef("data", 1, 2), AxisRef("model")))
    'data:(1)2,model'
    """
    return ",".join(axis.name + ("" if axis.size is None else f":({axis.pre_size}){axis.size}") for axis in axes)


@lru_cache(maxsize=1024)
def axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[AxisRef, ...] | None:
    """The axes, or parts of axes, that make these groups, major first; None if no axes of this mesh do.

    No axes if every group is a single device. Axes of size 1 are never among them, so the answer is unique.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("data", 4), MeshAxis("model", 2)))
    >>> axes_text(axes_of_groups(((0, 2, 4, 6), (1, 3, 5, 7)), mesh))
    'data'
    >>> axes_text(axes_of_groups(((0, 4), (1, 5), (2, 6), (3, 7)), mesh)), axes_of_groups(((0, 3), (1, 2)), mesh)
    ('data:(1)2', None)
    """
    coordinates = coordinates_by_device(mesh)
    members = [frozenset(group) for group in groups]
    if sum(map(len, members)) != mesh.device_count or not all(id in coordinates for group in members for id in group):
        # Groups that leave devices out are no product of axes.
        return None
    first = mesh.devices()[0]
    origin = next((group for group in members if first in group), frozenset[int]())
    axes = list[AxisRef]()
    for dimension, axis in enumerate(mesh.axes):
        places = {coordinates[id][dimension] for id in origin}
        progressions = _progressions_of(places)
        if progressions is None or any(axis.size % (each.stride * each.count) for each in progressions):
            return None
        for each in reversed(progressions):
            is_whole = each.count == axis.size
            pre_size = axis.size // (each.stride * each.count)
            axes.append(AxisRef(axis.name) if is_whole else AxisRef(axis.name, pre_size, each.count))
    made = mesh.groups(axes) if axes else [(id,) for id in mesh.devices()]
    return tuple(axes) if {frozenset(group) for group in made} == set(members) else None


@lru_cache(maxsize=1024)
def axes_of_pairs(pairs: Pairs, mesh: Mesh) -> tuple[AxisShift, ...] | None:
    """The axes in which sources and targets differ, with the shift; None if a device is not in the mesh.

    A shift by more than half an axis counts backwards. Without a pair of different devices, there are no axes.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("stage", 4), MeshAxis("data", 2)))
    >>> [str(each) for each in axes_of_pairs(((0, 2), (2, 4), (4, 6), (6, 0)), mesh)]
    ['stage +1']
    """
    coordinates = coordinates_by_device(mesh)
    if not all(id in coordinates for pair in pairs for id in pair):
        return None
    moves = [(coordinates[a], coordinates[b]) for a, b in pairs if a != b]
    shifts = list[AxisShift]()
    for dimension, axis in enumerate(mesh.axes):
        distances = {(b[dimension] - a[dimension]) % axis.size for a, b in moves}
        if distances - {0}:
            shift = distances.pop() if len(distances) == 1 else None
            # The shorter way around the ring: 7 of 8 is shown as -1.
            is_backwards = shift is not None and shift > axis.size // 2
            shifts.append(AxisShift(AxisRef(axis.name), shift - axis.size if shift and is_backwards else shift))
    return tuple(shifts)


def _progressions_of(numbers: Iterable[int]) -> tuple[Progression, ...] | None:
    """The progressions whose sums are these numbers, smallest stride first; None if there are none.

    The numbers have to begin with 0. Progressions are as long as can be: none continues another.

    >>> _progressions_of({0, 1, 4, 5}), _progressions_of({0, 3, 4})
    ((Progression(stride=1, count=2), Progression(stride=4, count=2)), None)
    """
    ordered = sorted(set(numbers))
    if not ordered or ordered[0]:
        return None
    reached, known, progressions = [0], set(ordered), list[Progression]()
    while len(reached) < len(ordered):
        # The smallest number not yet reached must be the next stride, so the greedy choice is the only one. It is no
        # multiple that the stride before would have reached: an axis of the mesh is as coarse as possible.
        stride, count = ordered[len(reached)], 1
        while all(count * stride + number in known for number in reached):
            count += 1
        reached = [step * stride + number for step in range(count) for number in reached]
        if count == 1 or reached != ordered[: len(reached)]:
            return None
        progressions.append(Progression(stride, count))
    return tuple(progressions)


@lru_cache(maxsize=64)
def coordinates_by_device(mesh: Mesh) -> Mapping[int, tuple[int, ...]]:
    """The place of each device in the mesh; HloError if the mesh lists another number of devices than it has places.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> coordinates_by_device(Mesh((MeshAxis("x", 2), MeshAxis("y", 4))))[5]
    (1, 1)
    """
    devices = mesh.devices()
    if len(devices) != mesh.device_count:
        raise HloError(f"{mesh} has {mesh.device_count} positions but {len(devices)} devices")
    sizes = tuple(axis.size for axis in mesh.axes)
    return {device: unravel(position, sizes) for position, device in enumerate(devices)}


# --- known meshes ---
# The mesh of a module: given by the user, named in the text, or known from a sibling stage.
#
# Axis names survive partitioning only in shardings over a mesh, and in `xla.sdy.meshes` of the header before it. The
# partitioner makes meshes of its own for single instructions, with axes such as `axis_0`; those are not the user's.


_SHARDY_MESHES: Final = "xla.sdy.meshes"
_SHARDY_MESH: Final = lazy_regex(r"#sdy\.mesh<\[([^\[\]]*+)\](?:\s*+,\s*+device_ids\s*+=\s*+\[([0-9, ]*+)\])?+")
_SHARDY_AXIS: Final = lazy_regex(r'\s*+"([^"]++)"\s*+=\s*+([0-9]{1,9})\s*+')
_MESH_START: Final = "mesh["
_NAMED_MESH: Final = lazy_regex(
    r"mesh\[([^\[\]]*+)\](?:\s*+,\s*+device_ids=\((?:([0-9, ]++)|(\[[0-9, ]++\](?:T\([0-9, ]*+\))?+))\))?+"
)
_NAMED_AXIS: Final = lazy_regex(r"\s*+'?([^'=]++)'?\s*+=\s*+([0-9]{1,9})\s*+")
# The iota of device_ids, as in xla/hlo/ir/tile_assignment.cc; possessive quantifiers since texts reach gigabytes.
_IOTA: Final = lazy_regex(r"\[([0-9, ]++)\](?:T\(([0-9, ]*+)\))?+")
# Names that the partitioner gives to meshes of single instructions (spmd_partitioner, V3 groups); no user's.
_SYNTHETIC_AXIS: Final = lazy_regex(r"axis_[0-9]++")


@dataclass(frozen=True, slots=True)
class KnownMesh:
    """A mesh, and where it is from, in words: "--mesh", "before_optimizations", "inferred from 12 groups"."""

    mesh: Mesh
    origin: str
    is_inferred: bool = False
    others: tuple[Mesh, ...] = ()
    """Other meshes of the same number of devices in the same place."""

    @property
    def remark(self) -> str:
        """Which mesh it is and where it is from, for a note.

        >>> KnownMesh(Mesh((MeshAxis("data", 4),)), "the header").remark
        'mesh data=4 from the header'
        """
        named = mesh_words(self.mesh)
        if self.is_inferred:
            return f"mesh {named} is {self.origin}; the program may have more axes; name them with --mesh"
        also = f", which also names {', '.join(map(mesh_text, self.others))}" if self.others else ""
        return f"mesh {named} from {self.origin}{also}"


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
        _check_device_count(given, devices)
        return KnownMesh(given, "--mesh")
    for origin, meshes in _places_of_meshes(module, siblings):
        fitting = tuple(dict.fromkeys(mesh for mesh in meshes if _fits(mesh, devices)))
        if fitting:
            # With several meshes of the right size, the first that explains all groups.
            chosen = next((mesh for mesh in fitting if explains is None or explains(mesh)), fitting[0])
            return KnownMesh(chosen, origin, others=tuple(mesh for mesh in fitting if mesh != chosen))
    return None


def mesh_text(mesh: Mesh) -> str:
    """The axes with their sizes, as `--mesh` takes them.

    >>> mesh_text(Mesh((MeshAxis("data", 4), MeshAxis("model", 2))))
    'data=4,model=2'
    """
    return ",".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


def mesh_words(mesh: Mesh) -> str:
    """The axes that divide anything, with their sizes, and the number of the others, for a sentence.

    >>> axes = [MeshAxis("data", 4), *(MeshAxis(f"axis{number}", 1) for number in range(11))]
    >>> mesh_words(Mesh(tuple(axes))), mesh_words(Mesh(tuple(axes[:2]))), mesh_words(Mesh(tuple(axes[1:2])))
    ('data=4 and 11 axes of size 1', 'data=4,axis0=1', 'axis0=1')
    """
    divided = tuple(axis for axis in mesh.axes if axis.size > 1)
    others = len(mesh.axes) - len(divided)
    if not divided or others <= 1:
        return mesh_text(mesh)
    return f"{','.join(f'{axis.name}={axis.size}' for axis in divided)} and {others:,} axes of size 1"


def _check_device_count(mesh: Mesh, devices: Devices) -> None:
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


def _places_of_meshes(module: Module, siblings: Sequence[Module]) -> Iterator[tuple[str, Iterable[Mesh]]]:
    """The places where a mesh may be named, in the order of preference, each with the meshes named there."""
    yield "the header", header_meshes(module)
    for sibling in siblings:
        yield "before_optimizations", header_meshes(sibling)
    yield "the shardings", _named_meshes(module)
    for sibling in siblings:
        yield "shardings of before_optimizations", _named_meshes(sibling)


def header_meshes(module: Module) -> tuple[Mesh, ...]:
    """The meshes that Shardy names in the header of a module, without those of a single device.

    >>> from hlo_cli import parse_module
    >>> header = 'xla.sdy.meshes={m = #sdy.mesh<["x"=2], device_ids=[1,0]>, one = #sdy.mesh<[], device_ids=[0]>}'
    >>> text = f"HloModule m, frontend_attributes={{{header}}}  ENTRY e {{ ROOT p = f32[] parameter(0) }}"
    >>> print(*header_meshes(parse_module(text)))
    mesh['x'=2], device_ids=(1,0)
    """
    # Quotes in the attribute are escaped as \22 by MLIR's printer and as \" by HLO's.
    text = (module.frontend_attributes.get(_SHARDY_MESHES) or "").replace("\\22", '"').replace('\\"', '"')
    meshes = list[Mesh]()
    for match in _SHARDY_MESH.finditer(text):
        axes = _axes(_SHARDY_AXIS.fullmatch(item) for item in match[1].split(",") if item.strip())
        if axes:
            meshes.append(Mesh(axes, _numbers(match[2]) if match[2] else None))
    return tuple(meshes)


def _named_meshes(module: Module) -> tuple[Mesh, ...]:
    """The meshes of shardings and device groups in the text of a module, without those that the partitioner made.

    >>> from hlo_cli import parse_module
    >>> print(*_named_meshes(parse_module("r = f32[4] negate(f32[4] p), sharding={mesh['x'=2,'y'=4], [{'x'}]}")))
    mesh['x'=2,'y'=4]
    """
    text = module.source.text
    meshes = dict[tuple[str | None, ...], Mesh]()
    start = text.find(_MESH_START)
    while start >= 0:  # faster than a search by the expression
        match = _NAMED_MESH.match(text, start)
        start = text.find(_MESH_START, start + 1)
        if match is None or match.groups() in meshes:
            continue
        axes = _axes(_NAMED_AXIS.fullmatch(item) for item in match[1].split(","))
        # One such name may be a user's; all of them are not.
        if axes and not all(_SYNTHETIC_AXIS.fullmatch(axis.name) for axis in axes):
            meshes[match.groups()] = Mesh(axes, _device_ids(match[2], match[3]))
    return tuple(meshes.values())


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


# --- meshes that explain all groups ---
# For a module that names no mesh: the coarsest row-major one that explains all groups of devices.
#
# Axes over which no collective communicates alone stay joined, and part of an axis looks like an axis, so a mesh found
# here has *at least* these axes. If no mesh explains all groups, there is none.


def inferred_mesh(groups: Iterable[Groups], pairs: Iterable[Pairs], device_count: int) -> KnownMesh | None:
    """The coarsest mesh whose whole axes make all of these groups, with axes named axis0, axis1, … from major to minor.

    Permutes between neighbors in a ring or a line show an axis too, if it fits the groups. None if no mesh explains
    all groups, or nothing is sent.

    >>> rows, columns = ((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 2, 4, 6), (1, 3, 5, 7))
    >>> print(inferred_mesh([rows, columns], [], 8).mesh, inferred_mesh([((0, 3), (1, 2))], [], 4))
    mesh['axis0'=4,'axis1'=2] None
    """
    if device_count > MAX_DEVICES:
        # The limit on all lists of devices; groups of more are shown as they are.
        return None
    distinct = [each for each in dict.fromkeys(groups) if any(len(group) > 1 for group in each)]
    # Borders are the strides at which axes begin or end: 1, the number of devices, and both ends of every progression.
    borders: set[int] | None = {1, device_count}
    for each in distinct:
        borders = _with_borders(borders, each)
    if borders is None or (mesh := _mesh_of(borders)) is None or not _explains(mesh, distinct):
        return None
    permutes = [rings for each in dict.fromkeys(pairs) if (rings := _rings_of(each, device_count))]
    # Pairs are weaker evidence than groups, as a shift can skip: each ring may only refine the mesh, never refuse it.
    refused = set[frozenset[int]]()
    for rings in permutes:
        finer = _with_borders(borders, rings)
        if finer is None or finer == borders or finer in refused:
            continue
        candidate = _mesh_of(finer)
        if candidate is None or not _explains(candidate, distinct):
            refused.add(frozenset(finer))
        elif _explains(candidate, [rings]):
            borders, mesh = finer, candidate
    number = len(distinct) + len(permutes)
    origin = f"inferred from {number} {'group' if number == 1 else 'groups'}"
    return KnownMesh(mesh, origin, is_inferred=True) if number else None


def _with_borders(borders: set[int] | None, groups: Groups) -> set[int] | None:
    """The borders with those of one set of groups; None if the group of device 0 is not a sum of progressions."""
    origin = next((group for group in groups if 0 in group), ())
    progressions = _progressions_of(origin)
    if borders is None or progressions is None:
        return None
    return borders.union(*((each.stride, each.stride * each.count) for each in progressions))


def _mesh_of(borders: set[int]) -> Mesh | None:
    """The mesh whose axes end at these borders; None if one does not divide the next."""
    ordered = sorted(borders)
    if any(after % before for before, after in pairwise(ordered)):
        return None
    sizes = [after // before for before, after in pairwise(ordered)]
    return Mesh(tuple(MeshAxis(f"axis{number}", size) for number, size in enumerate(reversed(sizes))))


def _explains(mesh: Mesh, groups: Iterable[Groups]) -> bool:
    """Whether whole axes of a mesh make each set of groups."""
    axes_found = [axes_of_groups(each, mesh) for each in groups]
    return all(axes is not None and all(axis.size is None for axis in axes) for axes in axes_found)


def _rings_of(pairs: Pairs, device_count: int) -> Groups:
    """The rings or lines of devices in which each sends to the next, or each to the one before; empty if others do."""
    target_of = {source: target for source, target in pairs if source != target}
    # Two sources with one target are no ring, and ids beyond the devices are invalid.
    if len(set(target_of.values())) < len(target_of) or max(chain(*pairs, (0,))) >= device_count:
        return ()
    starts = target_of.keys() - target_of.values()
    rings, visited = list[tuple[int, ...]](), set[int]()
    for first in (*sorted(starts), *sorted(target_of)):
        ring, device = list[int](), first
        while device not in visited:
            visited.add(device)
            ring.append(device)
            device = target_of.get(device, device)
        if ring:
            rings.append(_ascending(ring))
    rings += [(device,) for device in range(device_count) if device not in visited]
    return tuple(rings) if all(rings) and any(len(ring) > 1 for ring in rings) else ()


def _ascending(ring: list[int]) -> tuple[int, ...]:
    """The devices of a ring in ascending order; empty if they do not send to the next one in this order, or back."""
    ordered = sorted(ring)
    turned = ring[ring.index(ordered[0]) :] + ring[: ring.index(ordered[0])]
    backwards = [turned[0], *reversed(turned[1:])]
    return tuple(ordered) if ordered in (turned, backwards) else ()
