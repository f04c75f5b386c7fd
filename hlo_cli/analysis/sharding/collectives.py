"""Which collectives a module has, along which axes, with how many bytes, and how long they take."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from math import exp, log
from statistics import median
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.dependencies import target_of_root, users_of
from hlo_cli.analysis.dataflow.executions import Executions, executions_of
from hlo_cli.analysis.dataflow.flat_schedule import is_async_start
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chip_table import ChipSpec, CollectiveTimes, MeasuredTimes, Series
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.measured_times import (
    LINKS_MEASURED_AS,
    band_of,
    collective_times,
)
from hlo_cli.analysis.hardware.time_model import (
    COLLECTIVE_BANDS,
    LINKS_BAND,
    NO_TIME,
    OTHER_COLLECTIVE_BANDS,
    TF32_ON_REQUEST,
    Band,
    Estimate,
    around,
)
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.analysis.sharding.meshes import (
    AxisShift,
    Devices,
    KnownMesh,
    Pairs,
    axes_of_groups,
    axes_of_pairs,
    axes_text,
    collective_kind,
    device_groups,
    device_pairs,
    devices_of,
    inferred_mesh,
    known_mesh,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import NamedItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AxisRef, Groups, Mesh, MeshAxis
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import ASYNC_COLLECTIVE_START, PERMUTES
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

# --- sites in the text ---
# Every collective in the text of a module, in every form and wrapper, once.
#
# A collective is a single instruction, a start with a done, the body of an async computation, or part of a fusion. A
# TPU compiler prints one transfer in each fusion that takes part in it, so those count once; and it writes a reduce-
# scatter as a fusion of an all-reduce and the slice of its result that a device keeps.


_ASYNC_FUSION: Final = "async_collective_fusion_config"
# xla/service/gpu/backend_configs.proto: CollectiveBackendConfig.is_sync, in the spelling of its JSON.
_IS_SYNC: Final = '"is_sync":true'
# What may stand between an all-reduce and its slice inside a TPU fusion without using the sum in another way.
_PASSING_OPCODES: Final = frozenset(
    (opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.COPY, opcodes.CONVERT, opcodes.RESHAPE)
)
_UNKNOWN_RUNS: Final = Executions(0, is_known=False)


@dataclass(frozen=True, slots=True)
class CollectiveSite:
    """A collective in the text.

    `instruction` has its attributes; `caller` is the instruction of the schedule that runs it: itself, or the
    async-start or fusion around it. `kind` is the opcode of what it does. `operand_bytes` are the data bytes of all
    operands on one device; only a bound if `is_bound`, as for a ragged exchange.
    """

    instruction: Instruction
    caller: Instruction
    kind: str
    operand_bytes: int
    runs: Executions
    is_async: bool
    is_bound: bool = False


def _collective_sites(module: Module) -> tuple[CollectiveSite, ...]:
    """The collectives that a module runs, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> [site] = _collective_sites(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}"))
    >>> site.kind, site.operand_bytes, site.is_async, site.runs.known
    ('all-gather', 8, False, 1)
    """
    return cached_per_module(_read_sites, module)


def _read_sites(module: Module) -> tuple[CollectiveSite, ...]:
    executions = executions_of(module)
    sites = list[CollectiveSite]()
    shared = dict[tuple[str | None, str | None], list[tuple[int, CollectiveSite]]]()
    callers: Mapping[Computation, Instruction] | None = None
    for computation in module.computations:
        runs = executions.get(computation)
        # Code that the entry never reaches runs no collective; a part of a module has no entry to reach it from.
        if runs is None and not module.is_part:
            continue
        collectives = [each for each in computation.instructions if collective_kind(each.opcode) is not None]
        if not collectives:
            continue
        # Most modules have no collective, so the callers are collected only when the first one is found.
        callers = _callers(module, executions) if callers is None else callers
        for instruction in collectives:
            site = _site_of(instruction, callers, runs or _UNKNOWN_RUNS, module)
            if _is_fused_async(instruction) and site.caller is not instruction:
                # channel_id alone is no key: all collectives of a shard_map share one (24 of 24 chains agree with this
                # pair of keys).
                key = instruction.frontend_attributes.get("chain_id"), instruction.attribute("channel_id")
                shared.setdefault(key, []).append((len(sites), site))
            sites.append(site)
    repeats = {number for parts in shared.values() for number in _repeats(parts)}
    return tuple(site for number, site in enumerate(sites) if number not in repeats)


def malformed_collectives(module: Module) -> int:
    """The number of collectives that the reader has marked as malformed; they are in no other count.

    >>> from hlo_cli import parse_module
    >>> malformed_collectives(parse_module("ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] all-reduce(p) }"))
    1
    """
    return sum(
        each.opcode.endswith(opcodes.OPAQUE) and collective_kind(each.written_opcode) is not None
        for each in module.instructions
    )


def _repeats(parts: Sequence[tuple[int, CollectiveSite]]) -> Iterator[int]:
    """The places of sites that print the same transfer again: all but those in the fusions that start it."""
    starts = [number for number, site in parts if _starts_async_collective(site.caller)] or [parts[0][0]]
    return (number for number, _ in parts if number not in starts)


def _is_fused_async(instruction: Instruction) -> bool:
    """Whether an instruction is part of a collective that several fusions of a TPU program carry out."""
    return _ASYNC_FUSION in (instruction.attribute("backend_config") or "")


def _starts_async_collective(instruction: Instruction) -> bool:
    """Whether an instruction is the fusion that starts an async collective of a TPU program."""
    return target_of_root(instruction) == ASYNC_COLLECTIVE_START


def _callers(module: Module, executions: Mapping[Computation, Executions]) -> Mapping[Computation, Instruction]:
    """The first fusion or async start that runs each computation."""
    callers = dict[Computation, Instruction]()
    for computation in module.computations if module.is_part else executions:
        for instruction in computation.instructions:
            called = instruction.called_computations
            if called and (instruction.opcode == opcodes.FUSION or is_async_start(instruction.opcode)):
                for each in called:
                    callers.setdefault(each, instruction)
    return callers


def _site_of(
    instruction: Instruction, callers: Mapping[Computation, Instruction], runs: Executions, module: Module
) -> CollectiveSite:
    kind = collective_kind(instruction.opcode) or instruction.opcode
    around = list[Instruction]()
    while (caller := callers.get((around[-1] if around else instruction).computation)) is not None:
        around.append(caller)
    starts = [each for each in around if is_async_start(each.opcode)]
    is_async = kind != instruction.opcode or bool(starts) or _is_fused_async(instruction)
    is_async = is_async or any(map(_starts_async_collective, around))
    # A start that is synchronous is printed as async by XLA:GPU and only marked in its backend_config.
    if any(_IS_SYNC in (each.attribute("backend_config") or "").replace(" ", "") for each in (instruction, *starts)):
        is_async = False
    # TPU has no plain reduce-scatter: it prints a fusion `all-reduce-scatter` of an all-reduce and a dynamic-slice.
    if len(around) > len(starts) and kind == opcodes.ALL_REDUCE and _keeps_a_slice(instruction, module):
        kind = opcodes.REDUCE_SCATTER
    return CollectiveSite(
        instruction,
        around[-1] if around else instruction,
        kind,
        _operand_bytes(instruction, kind),
        runs,
        is_async,
        # Its sizes are values at run time, so the input is all that could be sent.
        is_bound=kind == opcodes.RAGGED_ALL_TO_ALL,
    )


def _keeps_a_slice(all_reduce: Instruction, module: Module) -> bool:
    """Whether each device of a group keeps another slice of the sum, and nothing else uses it."""
    users = users_of(all_reduce.computation)
    waiting, visited, kept = [all_reduce], {all_reduce}, 0
    while waiting:
        for user in users[waiting.pop()]:
            if user.opcode == opcodes.DYNAMIC_SLICE:
                kept += _elements(user.shape)
            elif user.opcode not in _PASSING_OPCODES:
                return False
            elif user not in visited:
                visited.add(user)
                waiting.append(user)
    devices = subgroup_size(all_reduce, module)
    elements = _elements(all_reduce.shape)
    # Without the number of devices, a slice of any smaller size is taken as the part of one device.
    return kept > 0 and (kept * devices == elements if devices is not None else kept < elements)


def _elements(shape: Shape) -> int:
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


def _operand_bytes(instruction: Instruction, kind: str) -> int:
    """The data bytes of the operands that are sent, without offsets, sizes, and the array to write into."""
    operands = [instruction.operand_shape(position) for position in range(len(instruction.operands))]
    if kind == opcodes.RAGGED_ALL_TO_ALL:
        # The others are the output to write into, and the offsets and sizes for each peer (hlo_verifier.cc,
        # ragged-all-to-all).
        operands = operands[:1]
    # input, output, input offset, output offset: the form that hlo_verifier.cc calls in-place.
    elif kind in PERMUTES and len(operands) >= 4:
        return _sliced_bytes(instruction, operands[0])
    return sum(_data_bytes(shape) for shape in operands)


def _sliced_bytes(instruction: Instruction, operand: Shape) -> int:
    """The bytes of the slices that an in-place permute sends."""
    arrays = [leaf for _, leaf in operand.leaves if isinstance(leaf, ArrayShape)]
    sliced_bytes = 0
    for array, sizes in zip(arrays, instruction.integer_lists("slice_sizes"), strict=False):
        elements = 1
        for size in sizes:
            elements *= size
        sliced_bytes += elements * array.element_bits // 8
    return sliced_bytes or _data_bytes(operand)


def padding_bytes(collective: Instruction) -> int:
    """The padding in the results of a collective, which its data bytes are without.

    >>> from hlo_cli import parse_module
    >>> padding_bytes(parse_module("r = f32[]{:T(128)} all-reduce(f32[]{:T(128)} a), replica_groups={}").entry.root)
    508
    """
    return sum(leaf.padded_bytes - leaf.logical_bytes for _, leaf in collective.shape.leaves)


def _data_bytes(shape: Shape) -> int:
    return sum(leaf.logical_bytes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


# --- bytes that are sent ---
# B is the data of all operands on one device, n the number of devices in a group. Factors as in NVIDIA/nccl-tests
# doc/PERFORMANCE.md and xla/service/gpu/model/sol_gpu_cost_model.cc; which algorithm runs is not in the text.


Algorithm = Literal["ring", "bidirectional", "oneshot"]
"""`ring`: what a device sends if no byte travels more often than it must. `bidirectional`: what each link of a ring
carries in each direction. `oneshot`: what a device reads if each takes all it needs from the others at once."""

Factor = Callable[[int], Fraction]
"""Bytes per byte of the operands, for n devices."""


@dataclass(frozen=True, slots=True)
class _Factors:
    """The factors of one kind of collective, and whether its result, n times the operands, is its payload."""

    ring: Factor
    bidirectional: Factor
    oneshot: Factor
    gathers: bool = False


def _halved(factor: Factor) -> Factor:
    return lambda n: factor(n) / 2


def _others(n: int) -> Fraction:
    return Fraction(n - 1)


def _share_of_others(n: int) -> Fraction:
    return Fraction(n - 1, n)


def _twice_the_share(n: int) -> Fraction:
    return 2 * _share_of_others(n)


def _both_ways(n: int) -> Fraction:
    """The load of a link if blocks travel the shorter way around: the sum of distances over the 2n directed links."""
    return Fraction(n, 8) if n % 2 == 0 else Fraction(n * n - 1, 8 * n)


def _once(n: int) -> Fraction:
    return Fraction(int(n > 1))


# In one shot, data goes straight to its device, so it equals what any algorithm must send.
_EXCHANGE_FACTORS: Final = _Factors(_share_of_others, _both_ways, _share_of_others)
_FACTORS: Final[Mapping[str, _Factors]] = {
    opcodes.ALL_REDUCE: _Factors(_twice_the_share, _share_of_others, _others),
    opcodes.ALL_GATHER: _Factors(_others, _halved(_others), _others, gathers=True),
    opcodes.REDUCE_SCATTER: _Factors(_share_of_others, _halved(_share_of_others), _share_of_others),
    opcodes.ALL_TO_ALL: _EXCHANGE_FACTORS,
    opcodes.RAGGED_ALL_TO_ALL: _EXCHANGE_FACTORS,
    opcodes.COLLECTIVE_PERMUTE: _Factors(_once, _once, _once),
}
# Of n devices one sends to n - 1 others, as in NCCL's broadcast.
_ONE_TO_ALL_FACTORS: Final = _Factors(_once, _halved(_once), _others)
"""Of a collective in which one device sends to all others: it sends its data once, and in one shot to each."""


def wire_factor(kind: str, devices: int, algorithm: Algorithm = "ring") -> Fraction:
    """The bytes that a device sends for each byte of its operands.

    >>> wire_factor("all-reduce", 4), wire_factor("all-to-all", 4, "bidirectional"), wire_factor("all-gather", 1)
    (Fraction(3, 2), Fraction(1, 2), Fraction(0, 1))
    """
    # A group of one device: XLA keeps such a collective in the text, but nothing leaves the device.
    if devices < 2:
        return Fraction(0)
    traffic = _FACTORS.get(kind, _ONE_TO_ALL_FACTORS)
    factors = {"ring": traffic.ring, "bidirectional": traffic.bidirectional, "oneshot": traffic.oneshot}
    return factors[algorithm](devices)


def payload_bytes(kind: str, operand_bytes: int, devices: int) -> int:
    """The bytes that a collective is said to handle: its operands; of an all-gather, its result.

    >>> payload_bytes("all-gather", 64, 4), payload_bytes("all-reduce", 64, 4)
    (256, 64)
    """
    return operand_bytes * (devices if _FACTORS.get(kind, _ONE_TO_ALL_FACTORS).gathers else 1)


def wire_bytes(kind: str, operand_bytes: int, devices: int, algorithm: Algorithm = "ring") -> Fraction:
    """The bytes that a device sends in one run of a collective, exactly.

    >>> wire_bytes("all-reduce", 1_572_864, 4), wire_bytes("all-gather", 262_144, 8)
    (Fraction(2359296, 1), Fraction(1835008, 1))
    """
    return operand_bytes * wire_factor(kind, devices, algorithm)


# --- collectives ---


ONE_DEVICE: Final = "-"
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
        # Pairs of a permute form chains and rings; their connected sets are its groups.
        return _largest_chain(self.pairs) if self.pairs else max(map(len, self.groups), default=1)

    @property
    def axis(self) -> str | None:
        """The axes as text, such as `data`, `data:(1)2`, or `data,model`; `-` if nothing is sent; None if unknown."""
        return None if self.axes is None else axes_text(self.axes) or ONE_DEVICE

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
            # The mean over all devices, as not every device of a permute sends.
            return self.operand_bytes * Fraction(_moving(self.pairs), self.device_count)
        return self.operand_bytes * _mean_factor(self.kind, self.groups, self.device_count, algorithm)


@of_module
def collectives_of(module: Module, mesh: Mesh | Mapping[str, int] | None = None) -> NamedItems[Collective]:
    """The collectives that a module runs, in the order of the text, with their axes on a mesh.

    Without `mesh`, it is the one that the text names, else the coarsest one that explains all groups. A mesh can be a
    dict of the sizes of its axes, major first.

    >>> from hlo_cli import parse_module
    >>> groups = "replica_groups={{0,2},{1,3}}, dimensions={0}, channel_id=1, use_global_device_ids=true"
    >>> entry = f"ENTRY e {{ p = f32[8] parameter(0)  ROOT r = f32[16] all-gather(p), {groups} }}"
    >>> module = parse_module("HloModule m, num_partitions=4  " + entry)
    >>> [found] = collectives_of(module, {"data": 2, "model": 2})
    >>> found.axis, found.devices, found.payload_bytes, found.wire_bytes
    ('data', 2, 64, Fraction(32, 1))
    """
    if isinstance(mesh, Mapping):
        mesh = Mesh(tuple(MeshAxis(name, size) for name, size in mesh.items()))
    return cached_per_module(_on_known_mesh, module) if mesh is None else _on_mesh(module, mesh)


def _on_known_mesh(module: Module) -> NamedItems[Collective]:
    known = mesh_of(module)
    return _on_mesh(module, None if known is None else known.mesh)


def _on_mesh(module: Module, mesh: Mesh | None) -> NamedItems[Collective]:
    count = devices_of(module).count
    return NamedItems(_collective(site, each, count, mesh) for site, each in cached_per_module(_communications, module))


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
    # Few texts of groups differ in a module, so each is explained once, not once per collective.
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
    return tuple((site, _communication(site.instruction, devices)) for site in _collective_sites(module))


def _communication(instruction: Instruction, devices: Devices) -> _Communication:
    try:
        return _Communication(device_groups(instruction, devices), device_pairs(instruction, devices))
    except HloError as error:
        # Groups that break a rule of XLA are shown with the reason in their row; one bad row must not stop the table.
        return _Communication(None, problem=error.diagnostic.message)


def _collective(
    site: CollectiveSite, communication: _Communication, device_count: int, mesh: Mesh | None
) -> Collective:
    groups, pairs = communication.groups, communication.pairs
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
        communication.problem,
    )


# The lists of groups repeat: a few dozen distinct ones in a module of thousands of collectives.
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
    # Devices in no group send nothing, but they are part of the mean.
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


# --- groups as text ---


MAX_SHOWN_DEVICES: Final = 16
"""The number of devices in a text before the rest is counted."""


def groups_text(collective: Collective) -> str | None:
    """The groups or pairs of flattened device ids, cut with a count; None if they are unknown.

    >>> from hlo_cli import collectives_of, parse_module
    >>> text = "r = f32[64] all-gather(f32[2] a), dimensions={0}, replica_groups=[2,32]<=[64]"
    >>> groups_text(collectives_of(parse_module(text))[0])
    '2 groups of 32: {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,…}, …'
    """
    if collective.groups is None:
        return None
    if collective.pairs:
        return _cut_list([index_text(pair) for pair in collective.pairs], MAX_SHOWN_DEVICES // 2, ", ")
    groups = collective.groups
    if sum(map(len, groups)) <= MAX_SHOWN_DEVICES:
        return ", ".join(map(index_text, groups))
    first = _cut_list(list(map(str, groups[0])), MAX_SHOWN_DEVICES)
    sizes = {len(group) for group in groups}
    size = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    more = ", \N{HORIZONTAL ELLIPSIS}" if len(groups) > 1 else ""
    return f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} of {size}: {{{first}}}{more}"


def _cut_list(items: Sequence[str], limit: int, comma: str = ",") -> str:
    return comma.join([*items[:limit], *(["\N{HORIZONTAL ELLIPSIS}"] if len(items) > limit else [])])


# --- measured times ---
# Time of a collective on GPUs, interpolated in measured times of the same kind.
#
# The tables hold f32 collectives of up to 8 devices of H100 and B200, and up to 72 of GB200 and GB300, in one
# NVLink domain. Between measured sizes, the logarithm of the time is linear in that of the bytes; likewise between
# group sizes. Below the smallest size, the time is that of the smallest; above the largest, it grows with the bytes.


# 256 KiB: up to it XLA's own model takes the one-shot all-reduce, which is for latency (sol_gpu_cost_model.cc). Chosen,
# not fitted.
_MOSTLY_LATENCY_BYTES: Final = 1 << 18
"""Payload bytes below which the latency is nearly all of the time."""
# No measured table has ragged ones; at most, all data goes as in an all-to-all.
ESTIMATED_AS: Final[Mapping[str, str]] = {opcodes.RAGGED_ALL_TO_ALL: opcodes.ALL_TO_ALL}
"""Kinds that are estimated as another kind."""


def interpolated(series: Series, payload: float, groups: int, devices: int) -> float:
    """The seconds of a collective of so many payload bytes, among `groups` groups of so many devices.

    For a permute, `groups` is 0 and `devices` the number of pairs.

    >>> interpolated({(1, 8): {1024: 1e-5, 4096: 4e-5}}, 2048, 1, 8)
    2e-05
    >>> interpolated({(1, 8): {1024: 1e-5, 4096: 4e-5}}, 8192, 1, 8), interpolated({(1, 8): {1024: 1e-5}}, 1, 1, 8)
    (8e-05, 1e-05)
    """
    sizes = sorted({size for _, size in series})
    position = bisect_left(sizes, devices)
    near = (
        sizes[max(position - 1, 0) : position + 1]
        if position == len(sizes) or sizes[position] != devices
        else [devices]
    )
    times = [_seconds_along(series[_nearest_shape(series, groups, size)], payload) for size in near]
    # Larger groups than measured are given the time of the largest: on switches, latency grows slowly with devices.
    if len(near) == 1 or devices >= near[-1]:
        return times[-1]
    return _log_interpolated(log(devices), log(near[0]), log(near[1]), times[0], times[1])


def smoothed(times: CollectiveTimes) -> CollectiveTimes:
    """Times in which each small size has the median of itself and its neighbors.

    Latency hardly depends on the size; single times of it that are several times as long are artifacts.

    >>> smoothed({1024: 9e-5, 2048: 1e-5, 4096: 1.1e-5, 8192: 8e-5, 16384: 1.2e-5})
    {1024: 1.1e-05, 2048: 1.1e-05, 4096: 1.1e-05, 8192: 1.2e-05, 16384: 1.2e-05}
    """
    sizes, seconds = list(times), list(times.values())
    smooth_times = dict(times)
    for number, size in enumerate(sizes):
        if size < _MOSTLY_LATENCY_BYTES and 0 < number < len(sizes) - 1:
            smooth_times[size] = median(seconds[number - 1 : number + 2])
    if len(sizes) > 2 and sizes[0] < _MOSTLY_LATENCY_BYTES:
        # The first size has one neighbor only, and a cold first run can only be too long: hence the minimum.
        smooth_times[sizes[0]] = min(seconds[0], median(seconds[:3]))
    return smooth_times


def _nearest_shape(series: Series, groups: int, devices: int) -> tuple[int, int]:
    """The measured number of groups of this size that is nearest."""
    known: Iterable[int] = sorted(number for number, size in series if size == devices)
    return min(known, key=lambda number: abs(log(max(number, 1) / max(groups, 1)))), devices


def _seconds_along(times: CollectiveTimes, payload: float) -> float:
    sizes = list(times)
    if payload <= sizes[0]:
        return times[sizes[0]]
    if payload >= sizes[-1]:
        # Above the tables the bandwidth is saturated: time grows as the bytes do.
        return times[sizes[-1]] * payload / sizes[-1]
    position = bisect_left(sizes, payload)
    low, high = sizes[position - 1], sizes[position]
    return _log_interpolated(log(payload), log(low), log(high), times[low], times[high])


def _log_interpolated(place: float, low: float, high: float, first: float, last: float) -> float:
    """The value at a place between two others, on a line through their logarithms."""
    share = (place - low) / (high - low)
    return float(f"{exp((1 - share) * log(first) + share * log(last)):.6g}")


# --- durations ---
# On GPUs in one host or NVLink domain, all links of a device reach all others through switches. Times of H100, B200,
# GB200, and GB300 were measured (see `interpolated`). Other GPUs are estimated as an H100 with other links.
#
# A TPU has a pair of links in each dimension of its torus, and a ring along one axis uses those of one dimension. Which
# dimension that is, or whether the ring is closed, is not in a dump. No latency is published.


# 1 MiB: the bands of `time_model` were measured below and above this border.
_LATENCY_BYTES: Final = 1 << 20
"""Payload bytes below which latency dominates."""
# The only measured chip that is not Blackwell, so the nearest to the older GPUs that were not measured.
_REFERENCE_CHIP: Final = "h100"
"""The measured chip that stands for GPUs that were not measured."""
# Of AMD: a collective of RCCL takes three times as long as one of NCCL in a host of 8, on links that are alike.
_AMD_REFERENCE: Final = "mi350x"
"""The measured chip that stands for GPUs of AMD that were not measured."""
_FEW: Final = 10  # fewer errors have no 10% quantile
"""The number of sizes below which a table says nothing of its own errors."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """Seconds of one run: at least, over all links of a device, and as estimated, with a band.

    `has_latency` is whether the estimate includes a latency; `links_share` is the share of the links that it uses.
    """

    at_least_seconds: float
    estimate: Estimate
    has_latency: bool
    links_share: float = 1.0

    @property
    def seconds(self) -> float:
        """The estimate without its band."""
        return self.estimate.seconds


def collective_time(collective: Collective, chip: ChipSpec) -> CollectiveTime | None:
    """The duration of one run; None if its groups or the bandwidth of the links are unknown.

    On a machine that was calibrated, it is what collectives of the kind and size took there.

    >>> from hlo_cli import chip_spec, collectives_of, parse_module
    >>> text = "r = f32[1048576] all-gather(f32[131072] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = collectives_of(parse_module(text))
    >>> [f"{collective_time(found, chip_spec(chip)).seconds * 1e6:.1f} µs" for chip in ("h100", "v5e", "v5p")]
    ['47.1 µs', '36.7 µs', '18.4 µs']
    """
    found = _collective_time(collective, chip)
    if found is None or chip.calibration is None or not found.estimate.seconds:
        return found
    measured = chip.calibration.of(collective_class(collective.kind, collective.payload_bytes or 0))
    seconds = measured.seconds + measured.factor * found.estimate.seconds
    band = measured.low, measured.high
    return CollectiveTime(0.0, around(seconds, band, "calibration"), has_latency=True, links_share=found.links_share)


def collective_class(kind: str, payload_bytes: int) -> str:
    """The class of a collective, so that its kind and size can have a measured time of their own.

    >>> collective_class("all-reduce", 1 << 20), collective_class("all-gather", 1024)
    ('all-reduce, large', 'all-gather, small')
    """
    return f"{kind}, {'small' if payload_bytes < _LATENCY_BYTES else 'large'}"


def _collective_time(collective: Collective, chip: ChipSpec) -> CollectiveTime | None:
    """The duration by the model, without what was measured on a machine."""
    sent = collective.wire_bytes
    if sent is None or chip.links is None:
        return None
    # NVLink switches that add (NVLS) let each byte of an all-reduce leave a device once, not 2(n - 1) / n times.
    at_least = (
        float(min(sent, _bytes_through_switches(collective)) if chip.adds_in_switches else sent) / chip.links.per_second
    )
    if not sent:
        return CollectiveTime(0.0, NO_TIME, has_latency=True)
    if (estimate_of_measured := _estimate_like_measured(collective, chip)) is not None:
        return CollectiveTime(at_least, estimate_of_measured.at_least(at_least), has_latency=True)
    share = _share_of_links(collective, chip)
    seconds = float(_bytes_through_torus(collective, sent)) / (chip.links.per_second * share) if share < 1 else at_least
    estimate = around(max(seconds, at_least), LINKS_BAND, "links").at_least(at_least)
    return CollectiveTime(at_least, estimate, has_latency=False, links_share=share)


def predicted_collective_time(collective: Collective, chip: ChipSpec) -> Estimate | None:
    """The predicted time of one run of a collective with its band; None if groups or bandwidth are unknown.

    >>> from hlo_cli import chip_spec, collectives_of, parse_module
    >>> text = "r = f32[1048576] all-gather(f32[131072] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = collectives_of(parse_module(text))
    >>> estimate = predicted_collective_time(found, chip_spec("h100"))
    >>> estimate.low < estimate.seconds < estimate.high
    True
    """
    time = collective_time(collective, chip)
    return None if time is None else time.estimate


def _estimate_like_measured(collective: Collective, chip: ChipSpec) -> Estimate | None:
    """The estimate from measured times, those of the reference if the chip was not measured; None if there are none."""
    own = chip.measured.collectives if chip.measured is not None else {}
    kind = ESTIMATED_AS.get(collective.kind, collective.kind)
    measured = LINKS_MEASURED_AS.get(chip.chip)
    reference = measured or (_AMD_REFERENCE if chip.chip in TF32_ON_REQUEST else _REFERENCE_CHIP)
    series = smoothed_series(chip.measured, kind) if kind in own else _measured_series(reference, kind)
    payload, devices = collective.payload_bytes, collective.devices
    if not chip.cores or chip.links is None or series is None or payload is None or devices is None:
        return None
    shape = (0, len(collective.pairs)) if collective.pairs else (len(collective.groups or ()), devices)
    # Tables of permutes have keys with 0 groups; another kind with pairs has no row of its own.
    if (shape[0] == 0) != (collective.kind == opcodes.COLLECTIVE_PERMUTE):
        return None
    seconds, is_small = interpolated(series, payload, *shape), payload < _LATENCY_BYTES
    is_inside = devices <= max(size for _, size in series)
    if kind in own and is_inside and chip.measured is not None:
        return around(seconds, _own_bands(chip.measured)[is_small], "table")
    links = _measured_links(reference) if kind not in own else chip.links.per_second
    if measured is not None and is_inside and links == chip.links.per_second:
        return around(seconds, COLLECTIVE_BANDS[measured][is_small], "table")
    # The time of one byte is latency, which other links do not shorten; only the rest scales with the bandwidth.
    latency = min(interpolated(series, 1, *shape), seconds)
    scaled = latency + (seconds - latency) * links / chip.links.per_second
    return around(scaled, OTHER_COLLECTIVE_BANDS[is_small], "links")


# Kinds of collectives of the measured chips, and of a file.
@lru_cache(maxsize=64)
def smoothed_series(measured: MeasuredTimes, kind: str) -> Series:
    """The smoothed times of a kind in measurements of the user."""
    return {shape: smoothed(times) for shape, times in measured.collectives[kind].items()}


@cache
def _measured_series(chip: str, kind: str) -> Series | None:
    """The smoothed times of a kind on a measured chip."""
    series = collective_times().get((chip, kind))
    return None if series is None else {shape: smoothed(times) for shape, times in series.items()}


@lru_cache(maxsize=8)  # a command reads one file
def _own_bands(measured: MeasuredTimes) -> tuple[Band, Band]:
    """The bands of large and of small payloads in measurements of the user; those of other chips if they are few."""
    errors = [each for series in measured.collectives.values() for each in left_out_errors(series)]
    if min(sum((size >= _LATENCY_BYTES) == is_large for size, _ in errors) for is_large in (True, False)) < _FEW:
        return OTHER_COLLECTIVE_BANDS
    return bands_of(errors)


def left_out_errors(series: Series) -> list[tuple[int, float]]:
    """Bytes, and the logarithm of measured over interpolated time, of each size of a kind without itself in the table.

    >>> times = {1 << power: 1e-6 * (1 << power - 20) for power in range(20, 25)}
    >>> [(size >> 20, round(error, 6)) for size, error in left_out_errors({(1, 8): times})][1:4]
    [(2, 0.0), (4, 0.0), (8, 0.0)]
    """
    smooth = {shape: smoothed(times) for shape, times in series.items()}
    found = []
    for shape, times in series.items():
        for size, seconds in times.items():
            if rest := {other: time for other, time in times.items() if other != size}:
                estimate = interpolated({**smooth, shape: smoothed(rest)}, size, *shape)
                found.append((size, log(seconds / estimate)))
    return found


def bands_of(errors: Iterable[tuple[int, float]]) -> tuple[Band, Band]:
    """The bands of large and of small payloads: quantiles of measured over estimated time, from their logarithms.

    >>> bands_of([(1 << 20, log(2)), (1, 0.0)])
    ((1.0, 2.0), (1.0, 1.0))
    """
    large, small = list[float](), list[float]()
    for size, error in errors:
        (large if size >= _LATENCY_BYTES else small).append(error)
    return band_of(large), band_of(small)


def _measured_links(chip: str) -> float:
    """The bandwidth of the links of a measured chip."""
    links = chip_spec(chip).links
    assert links is not None
    return links.per_second


def is_measured(chip: ChipSpec) -> bool:
    """Whether collectives were measured on links such as those of a chip."""
    return chip.chip in LINKS_MEASURED_AS or bool(chip.measured is not None and chip.measured.collectives)


def torus_dimensions(chip: ChipSpec) -> int | None:
    """The number of dimensions of the torus of a TPU; None for other chips.

    >>> from hlo_cli import chip_spec
    >>> torus_dimensions(chip_spec("v5p")), torus_dimensions(chip_spec("h100"))
    (3, None)
    """
    return next((each.tpu.torus_dimensions for each in known_chips() if each.tpu and each.name == chip.chip), None)


def _bytes_through_switches(collective: Collective) -> Fraction:
    """The bytes that leave a device if switches add."""
    return (
        Fraction(collective.operand_bytes)
        if collective.kind == opcodes.ALL_REDUCE
        else collective.wire_bytes or Fraction(0)
    )


def _share_of_links(collective: Collective, chip: ChipSpec) -> float:
    """The share of the links of a device that lie in the dimensions of its axes, one dimension for each axis."""
    dimensions = torus_dimensions(chip)
    # Each axis is taken to be laid along a dimension of the torus of its own, since no text has the physical layout.
    axes = len({axis.name for axis in collective.axes or ()})
    if dimensions is None or not axes:
        # Without axes all links are assumed to be used: the least time, so that an estimate is never above the truth
        # for it.
        return 1.0
    return min(axes, dimensions) / dimensions


def _bytes_through_torus(collective: Collective, sent: Fraction) -> Fraction:
    """The bytes of the links that a device has in a ring: both directions of it."""
    if collective.kind == opcodes.COLLECTIVE_PERMUTE:
        return 2 * sent  # data goes one way
    return 2 * (collective.wire("bidirectional") or Fraction(0))
