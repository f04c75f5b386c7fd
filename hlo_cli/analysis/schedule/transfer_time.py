"""Duration of a transfer: its bytes divided by the bandwidth of the link that carries them.

Collectives and device sends use the interconnect of the chip as rings over all links in one direction. Transfers on
the chip use main memory. Transfers with one end in host memory use the host link. These durations are lower bounds.
Estimates of collectives know more: the links along their mesh axes, and latencies that were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate
from hlo_cli.analysis.hardware.time_model import LINKS_BAND
from hlo_cli.analysis.schedule.async_bytes import UPDATE_AT, endpoints_of
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective

Link = Literal["links", "memory", "host"]

_PURE_TRANSFERS: Final = BLOCK_MOVES | {opcodes.GATHER, opcodes.SCATTER}
"""Operations whose duration is that of their bytes alone."""


def _remote_share(devices: int) -> float:
    """Returns the share of the bytes that leaves each device of a ring."""
    return (devices - 1) / devices


_RINGS: Final[Mapping[str, Callable[[int], float]]] = {
    opcodes.ALL_GATHER: _remote_share,
    opcodes.ALL_REDUCE: lambda devices: 2 * _remote_share(devices),
    opcodes.ALL_TO_ALL: _remote_share,
    opcodes.RAGGED_ALL_TO_ALL: _remote_share,
    opcodes.REDUCE_SCATTER: _remote_share,
}
"""The number of times that each byte of a collective leaves a device, by ring size."""
_UNKNOWN_SIZE: Final = 1 << 62
"""Stands for a group of unknown size: its ring factor is the upper limit."""


@dataclass(frozen=True, slots=True)
class TransferTime:
    """The link of a transfer and the bytes that cross it; None for an operation that is more than a transfer.

    `devices` is the size of the group, None if unknown or irrelevant. `seconds` is None if the link, its bandwidth,
    or a size is unknown; `least_seconds` and `most_seconds` are its band.
    """

    link: Link | None
    link_bytes: float
    devices: int | None
    seconds: float | None
    least_seconds: float | None = field(default=None, compare=False)
    most_seconds: float | None = field(default=None, compare=False)


def transfer_time(pair: AsyncPair, moved_bytes: int, chip: ChipSpec, module: Module) -> TransferTime:
    """Returns the duration of one execution of a pair that has its link to itself.

    In a ring of n devices, (n - 1)/n of the bytes of an all-gather, reduce-scatter, or all-to-all leave each device;
    twice that for an all-reduce, unless switches reduce. For other collectives and sends, all bytes leave once. A
    copy within main memory counts each byte twice, for the read and the write.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m
    ... sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = f32[256] all-reduce-start(p), replica_groups={{0,1,2,3}}, to_apply=sum
    ...   ROOT d = f32[256] all-reduce-done(s) }''')
    >>> found = transfer_time(async_pairs(module).pairs[0], 1024, chip_spec("v5e"), module)
    >>> found.link, found.link_bytes, found.devices, f"{found.seconds:.2e}"
    ('links', 1536.0, 4, '7.68e-09')
    """
    link, devices = _link(pair), None
    link_bytes = float(moved_bytes)
    if pair.operation in _RINGS:
        devices = _devices(pair, module)
        link_bytes *= _RINGS[pair.operation](max(devices, 1) if devices is not None else _UNKNOWN_SIZE)
        if chip.adds_in_switches:
            link_bytes = min(link_bytes, float(moved_bytes))
    elif link == "memory":
        link_bytes *= max(_spaces(pair).count(MemorySpace.MAIN), 1)
    rate = None if _is_unbounded(pair) else bandwidth_of(link, chip)
    if rate is None:
        return TransferTime(link, link_bytes, devices, None)
    seconds = link_bytes / rate.per_second
    return TransferTime(link, link_bytes, devices, seconds, seconds * LINKS_BAND[0], seconds * LINKS_BAND[1])


def estimated_transfer_time(pair: AsyncPair, moved_bytes: int, chip: ChipSpec, module: Module) -> TransferTime:
    """Returns the bound of `transfer_time`, for a collective with the estimate of `collective_time`, if there is one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m, replica_count=4
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = (f32[256], f32[1024]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[1024] all-gather-done(s) }''')
    >>> pair, v5e = async_pairs(module).pairs[0], chip_spec("v5e")
    >>> [f"{found(pair, 4096, v5e, module).seconds:.2e}" for found in (transfer_time, estimated_transfer_time)]
    ['1.54e-08', '3.07e-08']
    """
    bound = transfer_time(pair, moved_bytes, chip, module)
    if bound.seconds is None or pair.operation not in COLLECTIVES:
        return bound
    from hlo_cli.analysis.sharding.link_time import collective_time  # large imports that only collectives need

    collective = cached_per_module(_collectives_by_caller, module).get(pair.start)
    found = None if collective is None else collective_time(collective, chip)
    if found is None:
        return bound
    estimate = found.estimate
    return replace(bound, seconds=estimate.seconds, least_seconds=estimate.low, most_seconds=estimate.high)


def bandwidth_of(link: Link | None, chip: ChipSpec) -> Rate | None:
    """Returns the bandwidth of a link of a chip, None if unknown.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> bandwidth_of("links", chip_spec("v5e")).per_second, bandwidth_of("links", chip_spec("t4"))
    (200000000000.0, None)
    """
    match link:
        case "links":
            return chip.links
        case "memory":
            return chip.memory
        case "host":
            return chip.host
    return None


def _collectives_by_caller(module: Module) -> Mapping[Instruction, Collective]:
    from hlo_cli.analysis.sharding.collectives import collectives_of

    return {each.caller: each for each in collectives_of(module)}


def _link(pair: AsyncPair) -> Link | None:
    """Returns the link that a pair uses, None if it is more than a transfer."""
    if pair.operation in COLLECTIVES:
        return "links"
    if pair.operation in CHANNEL_STARTS:
        return "host" if pair.is_host_transfer else "links"
    if pair.operation in HOST_FEEDS:
        return "host"
    if pair.operation in _PURE_TRANSFERS:
        return "host" if MemorySpace.HOST in _spaces(pair) else "memory"
    return None


def _is_unbounded(pair: AsyncPair) -> bool:
    """Returns whether a transferred array has an unbounded dimension."""
    given, result = endpoints_of(pair)
    leaves = (leaf for end in (*given, *([result] if result is not None else [])) for _, leaf in end.leaves)
    return any(isinstance(leaf, ArrayShape) and UNBOUNDED in leaf.dimensions for leaf in leaves)


def _spaces(pair: AsyncPair) -> list[int]:
    """Returns the memory spaces of source and destination."""
    given, result = endpoints_of(pair)
    at = UPDATE_AT.get(pair.operation, 0)
    ends: list[Shape | None] = [given[min(at, len(given) - 1)] if given else None, result]
    return [end.layout.memory_space for end in ends if isinstance(end, ArrayShape)]


def _devices(pair: AsyncPair, module: Module) -> int | None:
    """Returns the group size of a collective, None if unknown."""
    try:
        return subgroup_size(pair.wrapped or pair.start, module)
    except HloError:
        return None
