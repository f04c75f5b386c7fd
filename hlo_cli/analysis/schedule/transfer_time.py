"""How long a transfer takes at least: its bytes over the wire that they take.

Collectives and sends to other devices go over the links of the chip, as rings that use all links in one direction;
what stays on the chip goes through the main memory; what has one end in the memory of the host goes to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate
from hlo_cli.analysis.schedule.async_bytes import UPDATE_AT, endpoints_of
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.shape_text import UNBOUNDED
from hlo_cli.source import HloError

Wire = Literal["links", "memory", "host"]

_MOVES: Final = BLOCK_MOVES | {opcodes.GATHER, opcodes.SCATTER}
"""Operations of which nothing but the bytes that they move takes time."""


def _all_but_ones_own(devices: int) -> float:
    return (devices - 1) / devices


_RINGS: Final[Mapping[str, Callable[[int], float]]] = {
    opcodes.ALL_GATHER: _all_but_ones_own,
    opcodes.ALL_REDUCE: lambda devices: 2 * _all_but_ones_own(devices),
    opcodes.ALL_TO_ALL: _all_but_ones_own,
    opcodes.RAGGED_ALL_TO_ALL: _all_but_ones_own,
    opcodes.REDUCE_SCATTER: _all_but_ones_own,
}
"""How often each byte of a collective leaves a device, in a ring of so many."""
_ENDLESS: Final = 1 << 62
"""The devices of a group of unknown size: every ring is at most as long."""


@dataclass(frozen=True, slots=True)
class TransferTime:
    """Over which wire a transfer goes, None for one that is more than a transfer, and how many bytes cross it there.

    `devices` take part in it together, None where the text does not tell or it does not matter. `seconds` is None
    where the wire, its rate, or a size of what is moved is not known.
    """

    wire: Wire | None
    wire_bytes: float
    devices: int | None
    seconds: float | None


def transfer_time(pair: AsyncPair, moved_bytes: int, throughput: ChipSpec, module: Module) -> TransferTime:
    """How long a pair takes once, if it moves so many bytes and has its wire to itself.

    In a ring of n devices, (n - 1)/n of the bytes of an all-gather, reduce-scatter or all-to-all leave each device, and
    twice as many of an all-reduce, unless switches add up on the way; of other collectives and sends all do, once. What
    moves within the main memory is read and written, so that each byte counts twice.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_pairs import async_pairs
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module('''HloModule m
    ... sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[256] parameter(0)
    ...   s = f32[256] all-reduce-start(p), replica_groups={{0,1,2,3}}, to_apply=sum
    ...   ROOT d = f32[256] all-reduce-done(s) }''')
    >>> found = transfer_time(async_pairs(module).pairs[0], 1024, chip_spec("v5e"), module)
    >>> found.wire, found.wire_bytes, found.devices, f"{found.seconds:.2e}"
    ('links', 1536.0, 4, '7.68e-09')
    """
    wire, devices = _wire(pair), None
    crossing = float(moved_bytes)
    if pair.operation in _RINGS:
        devices = _devices(pair, module)
        crossing *= _RINGS[pair.operation](max(devices, 1) if devices is not None else _ENDLESS)
        if throughput.adds_in_switches:
            crossing = min(crossing, float(moved_bytes))
    elif wire == "memory":
        crossing *= max(_spaces(pair).count(MemorySpace.MAIN), 1)
    rate = None if _is_unbounded(pair) else rate_of(wire, throughput)
    return TransferTime(wire, crossing, devices, None if rate is None else crossing / rate.per_second)


def rate_of(wire: Wire | None, throughput: ChipSpec) -> Rate | None:
    """How fast a wire of a chip is.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> rate_of("links", chip_spec("v5e")).per_second, rate_of("links", chip_spec("t4"))
    (200000000000.0, None)
    """
    match wire:
        case "links":
            return throughput.links
        case "memory":
            return throughput.memory
        case "host":
            return throughput.host
    return None


def _wire(pair: AsyncPair) -> Wire | None:
    if pair.operation in COLLECTIVES:
        return "links"
    if pair.operation in CHANNEL_STARTS:
        return "host" if pair.is_host_transfer else "links"
    if pair.operation in HOST_FEEDS:
        return "host"
    if pair.operation in _MOVES:
        return "host" if MemorySpace.HOST in _spaces(pair) else "memory"
    return None


def _is_unbounded(pair: AsyncPair) -> bool:
    """Whether a size of what is moved is not known, nor a bound of it."""
    given, result = endpoints_of(pair)
    leaves = (leaf for end in (*given, *([result] if result is not None else [])) for _, leaf in end.leaves)
    return any(isinstance(leaf, ArrayShape) and UNBOUNDED in leaf.dimensions for leaf in leaves)


def _spaces(pair: AsyncPair) -> list[int]:
    """The memory spaces between which something is moved."""
    given, result = endpoints_of(pair)
    at = UPDATE_AT.get(pair.operation, 0)
    ends: list[Shape | None] = [given[min(at, len(given) - 1)] if given else None, result]
    return [end.layout.memory_space for end in ends if isinstance(end, ArrayShape)]


def _devices(pair: AsyncPair, module: Module) -> int | None:
    try:
        return subgroup_size(pair.wrapped or pair.start, module)
    except HloError:
        return None
