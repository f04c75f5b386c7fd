"""In which order should the axes of a mesh be laid over devices, so that collectives take the least time?

Devices are numbered along the mesh, the last axis first, and as many neighbors as a host or an NVLink domain has are
connected by links; others reach each other over the network only. An axis near the end therefore has links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations, product
from math import prod
from types import MappingProxyType
from typing import Final, Literal

from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate
from hlo_cli.analysis.hardware.time_model import LINKS_BAND, NO_TIME, Estimate, around, total
from hlo_cli.analysis.sharding.collectives import Collective, collective_time, collectives_of, mesh_of, wire_factor
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import Mesh
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

# --- devices that links connect, and the network between them ---


_DOMAINS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("v100-16gb", "v100-32gb", "a100-40gb", "a100-80gb", "h100", "h200", "b200", "b300"), 8),
        **dict.fromkeys(("mi250", "mi250x"), 8),  # four modules of two devices
        **dict.fromkeys(("mi300x", "mi325x", "mi350x", "mi355x"), 8),
        **dict.fromkeys(("gb200", "gb300"), 72),
    }
)
"""How many devices the links of a host or rack connect, as vendors sell them; others need `domain` in a file."""
_DGX: Final = "https://docs.nvidia.com/dgx/dgx"
_NETWORKS: Final[Mapping[str, Rate]] = MappingProxyType(
    {
        # one network card for each device: of 200, 400, and 800 Gb/s
        **dict.fromkeys(("a100-40gb", "a100-80gb"), Rate(25e9, f"{_DGX}a100-user-guide")),
        **dict.fromkeys(("h100", "h200"), Rate(50e9, f"{_DGX}h100-user-guide")),
        "b200": Rate(50e9, f"{_DGX}b200-user-guide"),
        "gb200": Rate(50e9, "https://www.nvidia.com/en-us/data-center/gb200-nvl72/"),
        **dict.fromkeys(("b300", "gb300"), Rate(100e9, "https://www.nvidia.com/en-us/data-center/gb300-nvl72/")),
    }
)
"""Bytes per second of a device over the network in one direction, in the vendor's own systems."""

MAX_AXES: Final = 6  # 720 orders
"""Axes of a mesh whose orders are compared; more than any program has."""


def domain_of(chip: ChipSpec) -> int:
    """How many devices the links of a chip connect: of a file, else of the vendor's systems; 0 if unknown.

    >>> from hlo_cli import chip_spec
    >>> domain_of(chip_spec("gb200")), domain_of(chip_spec("v5e"))
    (72, 0)
    """
    return chip.domain or _DOMAINS.get(chip.chip, 0)


def network_of(chip: ChipSpec) -> Rate | None:
    """The rate of a device over the network: of a file, else of the vendor's systems; None if unknown."""
    return chip.network or _NETWORKS.get(chip.chip)


# --- orders ---


Reach = Literal["links", "both", "network"]
"""Whether devices along an axis are connected by links, by the network, or some by each."""


@dataclass(frozen=True, slots=True)
class MeshOrder:
    """An order of the axes, the last ones nearest, the time of all collectives, and what each axis goes over."""

    axes: tuple[str, ...]
    estimate: Estimate
    reaches: tuple[tuple[str, Reach], ...]
    is_given: bool


@dataclass(frozen=True, slots=True, eq=False)
class MeshOrders:
    """All orders of the axes of a mesh, the fastest first.

    `unplaced` are collectives along no known axes, whose time is not in any order; `unknown` those without a time.
    """

    mesh: Mesh
    domain: int
    network: Rate
    orders: tuple[MeshOrder, ...]
    collectives: int
    unplaced: int
    unknown: int


def mesh_orders(module: Module, chip: ChipSpec, given: Mesh | None = None) -> MeshOrders:
    """The orders of the axes of a module's mesh, the fastest first.

    `given` is the mesh, if it is not the one that the module names. HloError without a mesh of two axes, or if it is
    not known how many devices the links of the chip connect, or how fast the network between those is.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = '''HloModule m, num_partitions=16
    ... sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ... ENTRY e_spmd { p = f32[1048576] parameter(0)
    ...   ROOT r = f32[1048576] all-reduce(p), replica_groups=[2,8]<=[8,2]T(1,0), to_apply=sum, channel_id=1,
    ...     use_global_device_ids=true }'''
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("model", 8), MeshAxis("data", 2)))
    >>> found = mesh_orders(parse_module(text), chip_spec("h100"), mesh)
    >>> [(order.axes, dict(order.reaches)["model"], order.is_given) for order in found.orders]
    [(('data', 'model'), 'links', False), (('model', 'data'), 'both', True)]
    """
    known = mesh_of(module, given)
    mesh = given if given is not None else known.mesh if known is not None else None
    axes = () if mesh is None else tuple(each for each in mesh.axes if each.size > 1)
    if mesh is None or len(axes) < 2:
        raise HloError("no mesh of two or more axes to order", hint="run `hlo shard DUMP --comms` to see its axes")
    if len(axes) > MAX_AXES:
        raise HloError(f"the mesh has {len(axes)} axes; at most {MAX_AXES} are ordered")
    domain, network = domain_of(chip), network_of(chip)
    if not domain or network is None:
        missing = "domain = DEVICES" if not domain else "network = RATE"
        what = "how many devices the links connect" if not domain else "how fast the network between hosts is"
        hint = f"add {missing} to [chip.{chip.chip}] in a file for --chip-file"
        raise HloError(f"unknown for {chip.chip}: {what}", hint=hint)
    collectives = collectives_of(module, mesh)
    sizes = {axis.name: axis.size for axis in axes}
    placed = [each for each in collectives if _axes_of(each, sizes) is not None]
    unknown = sum(collective_time(each, chip) is None for each in placed)
    usual = tuple(sizes)
    orders = []
    for order in permutations(sizes):
        times = [_time_in(order, sizes, each, chip, domain, network) for each in placed]
        reaches = tuple((name, _reach(order, sizes, (name,), domain)) for name in order)
        orders.append(MeshOrder(order, total(times), reaches, order == usual))
    # The given order first among equals, so that no change is proposed without a reason.
    orders.sort(key=lambda each: (float(f"{each.estimate.seconds:.6g}"), not each.is_given))
    return MeshOrders(mesh, domain, network, tuple(orders), len(placed), len(collectives) - len(placed), unknown)


def _axes_of(collective: Collective, sizes: Mapping[str, int]) -> tuple[str, ...] | None:
    """The axes that a collective runs along; None if they are unknown or a part of one."""
    if collective.axes is None or any(axis.size is not None for axis in collective.axes):
        return None
    names = tuple(dict.fromkeys(axis.name for axis in collective.axes))
    return names if all(name in sizes for name in names) else None


@lru_cache(maxsize=4096)  # orders times the distinct axes of collectives
def _near(order: tuple[str, ...], sizes: tuple[int, ...], along: tuple[str, ...], domain: int) -> int:
    """How many devices of a group along some axes are in one domain, in an order of axes, the last ones nearest."""
    strides, stride = {}, 1
    for name, size in zip(reversed(order), reversed(sizes), strict=True):
        strides[name] = size, stride
        stride *= size
    places = product(*(range(0, strides[name][0] * strides[name][1], strides[name][1]) for name in along))
    return sum(sum(place) < domain for place in places)


def _reach(order: Sequence[str], sizes: Mapping[str, int], along: tuple[str, ...], domain: int) -> Reach:
    near = _near(tuple(order), tuple(sizes[name] for name in order), along, domain)
    if near == 1:
        return "network"
    return "links" if near == prod(sizes[name] for name in along) else "both"


def _time_in(
    order: Sequence[str],
    sizes: Mapping[str, int],
    collective: Collective,
    chip: ChipSpec,
    domain: int,
    network: Rate,
) -> Estimate:
    """The time of all runs of a collective in an order of the axes."""
    along = _axes_of(collective, sizes) or ()
    count = prod(sizes[name] for name in along)
    near = _near(tuple(order), tuple(sizes[name] for name in order), along, domain)
    if count < 2:
        return NO_TIME
    # A group that does not divide evenly is as slow as its smallest part.
    near = near if count % near == 0 else 1
    return _hierarchical(collective, chip, near, count // near, network) * collective.runs.count


def _hierarchical(collective: Collective, chip: ChipSpec, near: int, far: int, network: Rate) -> Estimate:
    """The time of a collective in groups of `near` devices with links, of which `far` are connected by the network.

    As NCCL does it: within each domain first, so that each byte crosses the network once for each domain.
    """
    size = collective.operand_bytes
    if far == 1:
        return _within(collective, chip, collective.kind, near, size)
    match collective.kind:
        case opcodes.ALL_REDUCE:
            inside = _within(collective, chip, opcodes.REDUCE_SCATTER, near, size)
            back = _within(collective, chip, opcodes.ALL_GATHER, near, size // near)
            return inside + _across(opcodes.ALL_REDUCE, far, size / near, network) + back
        case opcodes.ALL_GATHER:
            return _across(opcodes.ALL_GATHER, far, size, network) + _within(
                collective, chip, opcodes.ALL_GATHER, near, size * far
            )
        case opcodes.REDUCE_SCATTER:
            inside = _within(collective, chip, opcodes.REDUCE_SCATTER, near, size)
            return inside + _across(opcodes.REDUCE_SCATTER, far, size / near, network)
        case opcodes.COLLECTIVE_PERMUTE:
            return _across(opcodes.COLLECTIVE_PERMUTE, far, size, network)
    # Of an exchange, the share for devices elsewhere crosses the network, all of it once.
    elsewhere = around(size * (far - 1) / far / network.per_second, LINKS_BAND, "links")
    return elsewhere + _within(collective, chip, collective.kind, near, size // far)


def _within(collective: Collective, chip: ChipSpec, kind: str, devices: int, operand_bytes: int) -> Estimate:
    """The time of a collective of some devices with links."""
    if devices < 2:
        return NO_TIME
    groups = max(collective.device_count // devices, 1)
    listed = tuple(tuple(range(number * devices, (number + 1) * devices)) for number in range(groups))
    pairs = collective.pairs if kind == opcodes.COLLECTIVE_PERMUTE else ()
    part = replace(collective, kind=kind, groups=listed, pairs=pairs, operand_bytes=operand_bytes)
    found = collective_time(part, chip)
    return NO_TIME if found is None else found.estimate


def _across(kind: str, devices: int, operand_bytes: float, network: Rate) -> Estimate:
    """The time of a collective of some devices over the network, as a ring without latency."""
    sent = operand_bytes * float(wire_factor(kind, devices))
    return around(sent / network.per_second, LINKS_BAND, "links") if sent else NO_TIME
