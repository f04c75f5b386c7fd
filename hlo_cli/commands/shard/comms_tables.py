"""Tables of collectives: a row for each axis and kind, each axis, each cause, or each collective."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.query.collective_facts import axis_of, rounded
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.keys import Keys
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.analysis.sharding.wire_bytes import Algorithm
    from hlo_cli.ir.module import Module

_Number = TypeVar("_Number", int, float, Fraction)

MAX_DEVICES: Final = 16
"""The number of devices in a cell before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """How bytes and times are computed: the algorithm, and the seconds of one run if there is a chip."""

    algorithm: Algorithm
    seconds: Callable[[Collective], float | None] | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The sums over some collectives in one execution of the module; None if a trip count or a group is unknown.

    `known_wire_bytes` leaves out what is unknown; `run_wire_bytes` counts each collective once.
    """

    sites: int
    async_sites: int
    runs: int | None
    payload_bytes: int | None
    wire_bytes: Fraction | None
    known_wire_bytes: Fraction
    run_wire_bytes: Fraction
    devices: int | None
    seconds: float | None


def traffic_of(collectives: Iterable[Collective], pricing: Pricing) -> Traffic:
    """The sums over collectives, each with its runs."""
    found = tuple(collectives)
    runs = [each.runs.known for each in found]
    payloads = [each.payload_bytes for each in found]
    wires = [each.wire(pricing.algorithm) for each in found]
    times = [None if pricing.seconds is None else pricing.seconds(each) for each in found]
    counts = {each.devices for each in found}
    return Traffic(
        sites=len(found),
        async_sites=sum(each.is_async for each in found),
        runs=None if None in runs else sum(each for each in runs if each is not None),
        payload_bytes=_total(payloads, runs),
        wire_bytes=_total(wires, runs),
        known_wire_bytes=sum(
            (w * r for w, r in zip(wires, runs, strict=True) if w is not None and r is not None), Fraction(0)
        ),
        run_wire_bytes=sum((wire for wire in wires if wire is not None), Fraction(0)),
        devices=counts.pop() if len(counts) == 1 else None,
        seconds=_total(times, runs),
    )


def _total(values: Sequence[_Number | None], runs: Sequence[int | None]) -> _Number | None:
    """The sum of values times runs; None if any is unknown."""
    total: _Number | None = None
    for value, times in zip(values, runs, strict=True):
        if value is None or times is None:
            return None
        total = value * times if total is None else total + value * times
    return total


def kinds_table(collectives: Sequence[Collective], pricing: Pricing) -> Table:
    """One row for each axis, kind, and group size; those of unknown trip count apart, and most bytes first."""
    groups: dict[tuple[str, str, int | None, bool], list[Collective]] = {}
    for each in collectives:
        is_known = each.runs.known is not None and each.groups is not None
        groups.setdefault((axis_of(each), each.kind, each.devices, is_known), []).append(each)
    found = [(traffic_of(members, pricing), axis, kind) for (axis, kind, *_), members in groups.items()]
    found.sort(key=lambda row: (*_rank(row[0]), row[1], row[2]))
    columns = (
        Column("axis", "axis"),
        Column("kind", "collective", "opcode"),
        *_columns([t for t, *_ in found], pricing),
    )
    rows = tuple((axis, kind, *_cells(traffic, pricing)) for traffic, axis, kind in found)
    return Table("collectives", columns, rows, noun="groups of collectives")


def axes_table(collectives: Sequence[Collective], pricing: Pricing) -> Table:
    """One row for each axis, or set of axes."""
    groups: dict[str, list[Collective]] = {}
    for each in collectives:
        groups.setdefault(axis_of(each), []).append(each)
    found = [(traffic_of(members, pricing), axis) for axis, members in groups.items()]
    found.sort(key=lambda row: (*_rank(row[0]), row[1]))
    columns = (Column("axis", "axis"), *_columns([t for t, *_ in found], pricing))
    rows = tuple((axis, *_cells(traffic, pricing)) for traffic, axis in found)
    return Table("axes", columns, rows, noun="axes")


def causes_table(collectives: Sequence[Collective], keys: Keys, pricing: Pricing) -> Table:
    """One row for each source line, scope, argument, or pass."""
    from hlo_cli.commands.by.groups import group_by, key_cells, key_columns

    groups = group_by(collectives, lambda each: keys.of(each.caller))
    found = [(traffic_of(group.members, pricing), group) for group in groups]
    found.sort(key=lambda row: (*_rank(row[0]), row[1].key))
    columns = (
        *_columns([t for t, _ in found], pricing),
        Column("axes", "axes"),
        *key_columns(keys.by, "wire_bytes", groups, has_inferred=any(group.inferred for group in groups)),
    )
    rows = tuple(
        (
            *_cells(traffic, pricing),
            ", ".join(sorted({axis_of(each) for each in group.members})),
            *key_cells(
                group, rounded(traffic.known_wire_bytes), rounded(traffic_of(group.inferred, pricing).known_wire_bytes)
            ),
        )
        for traffic, group in found
    )
    return Table(f"{keys.by}s" if keys.by != "pass" else "passes", columns, rows, noun="rows")


def instructions_table(collectives: Sequence[Collective], module: Module, pricing: Pricing) -> Table:
    """One row for each collective, with its groups, its op_name, and its source line."""
    found = [(traffic_of((each,), pricing), each) for each in collectives]
    found.sort(key=lambda row: (*_rank(row[0]), row[1].instruction.name))
    has_branch = any(each.runs.in_branch for each in collectives)
    columns = (
        Column("axis", "axis"),
        Column("kind", "collective", "opcode"),
        *(each for each in _columns([t for t, _ in found], pricing) if each.name not in ("sites", "async_sites")),
        Column("async", "async", "flag", from_width=120),
        Column("branch", "branch", "flag", person=has_branch, from_width=120),
        Column("shift", "shift", from_width=120, person=any(each.shifts for each in collectives)),
        Column("name", "name", "name", role="name"),
        Column("caller", "caller", "name", person=False),
        Column("source", "source", "source", rank=6),
        Column("op_name", "op_name", "op_name", rank=5),
        Column("groups", "groups", from_width=200),
    )
    rows = tuple(
        (
            axis_of(each),
            each.kind,
            *_cells(traffic, pricing)[2:],
            each.is_async,
            each.runs.in_branch,
            ", ".join(map(str, each.shifts)) or None,
            each.instruction.name,
            each.caller.name,
            _source(each, module),
            each.instruction.metadata.op_name or each.caller.metadata.op_name or None,
            groups_text(each),
        )
        for traffic, each in found
    )
    return Table("instructions", columns, rows, noun="collectives")


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
        return _listed([index_text(pair) for pair in collective.pairs], MAX_DEVICES // 2)
    groups = collective.groups
    if sum(map(len, groups)) <= MAX_DEVICES:
        return ",".join(map(index_text, groups))
    first = _listed(list(map(str, groups[0])), MAX_DEVICES)
    sizes = {len(group) for group in groups}
    size = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    more = ", \N{HORIZONTAL ELLIPSIS}" if len(groups) > 1 else ""
    return f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} of {size}: {{{first}}}{more}"


def _listed(items: Sequence[str], limit: int) -> str:
    return ",".join(items[:limit]) + (",\N{HORIZONTAL ELLIPSIS}" if len(items) > limit else "")


def _source(collective: Collective, module: Module) -> str | None:
    location = module.location(collective.instruction) or module.location(collective.caller)
    return None if location is None else str(location)


def _columns(found: Sequence[Traffic], pricing: Pricing) -> tuple[Column, ...]:
    """The columns of `_cells`; bytes of a single run are shown if trip counts are unknown."""
    has_unknown = any(each.wire_bytes is None for each in found)
    has_async = any(each.async_sites for each in found)
    times = (Column("seconds", "est.", "seconds", total="sum"),) if pricing.seconds is not None else ()
    return (
        Column("sites", "sites", "count", total="sum"),
        Column("async_sites", "async", "count", total="sum", person=has_async, from_width=120),
        Column("runs", "runs", "count", total="sum"),
        Column("payload_bytes", "payload", "bytes", total="sum", rank=7),
        Column("wire_bytes", "wire", "bytes", total="sum"),
        Column("run_wire_bytes", "wire once", "bytes", total="sum", person=has_unknown),
        *times,
        Column("devices", "n", "count"),
    )


def _cells(traffic: Traffic, pricing: Pricing) -> Row:
    return (
        traffic.sites,
        traffic.async_sites,
        _known(traffic.runs),
        _known(traffic.payload_bytes),
        UNKNOWN if traffic.wire_bytes is None else rounded(traffic.wire_bytes),
        rounded(traffic.run_wire_bytes),
        *((_known(traffic.seconds),) if pricing.seconds is not None else ()),
        traffic.devices,
    )


def _known(value: float | None) -> Cell:
    return UNKNOWN if value is None else value


def _rank(traffic: Traffic) -> tuple[bool, Fraction, Fraction]:
    """Known sums first, most bytes first."""
    return traffic.wire_bytes is None, -traffic.known_wire_bytes, -traffic.run_wire_bytes
