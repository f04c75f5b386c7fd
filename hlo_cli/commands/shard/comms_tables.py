"""Tables of collectives: a row for each axis and kind, each axis, each cause, or each collective."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from hlo_cli.analysis.query.fields import axis_of, rounded
from hlo_cli.analysis.sharding.collectives import groups_text
from hlo_cli.commands.shard.comms_pricing import Pricing, Traffic, traffic_of
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import Keys
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.ir.module import Module


def kinds_table(collectives: Sequence[Collective], pricing: Pricing) -> Table:
    """One row for each axis, kind, and group size; those of unknown trip count apart, and most bytes first.

    Groups that no axes make have a row each.
    """
    rows_of: dict[tuple[str, str, int | None, bool, str | None], list[Collective]] = {}
    for each in collectives:
        is_known = each.runs.known is not None and each.groups is not None
        groups = groups_text(each) if each.axis is None else None
        rows_of.setdefault((axis_of(each), each.kind, each.devices, is_known, groups), []).append(each)
    found = [
        (traffic_of(members, pricing), axis, kind, groups) for (axis, kind, _, _, groups), members in rows_of.items()
    ]
    found.sort(key=lambda row: (*_rank(row[0]), row[1], row[2]))
    columns = (
        Column("axis", "axis"),
        Column("kind", "collective", "opcode"),
        *_columns([traffic for traffic, *_ in found], pricing),
        Column("groups", "groups", person=any(groups is not None for *_, groups in found), machine=False),
    )
    rows = tuple((axis, kind, *_cells(traffic, pricing), groups) for traffic, axis, kind, groups in found)
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
    from hlo_cli.commands.modules.by import group_by, key_cells, key_columns

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
        Column("source", "source", "source", rank=5),
        Column("op_name", "op_name", "op_name"),
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


def _source(collective: Collective, module: Module) -> str | None:
    location = module.location(collective.instruction) or module.location(collective.caller)
    return None if location is None else str(location)


def _columns(found: Sequence[Traffic], pricing: Pricing) -> tuple[Column, ...]:
    """The columns of `_cells`; bytes of a single run are shown if trip counts are unknown."""
    has_unknown = any(each.wire_bytes is None for each in found)
    has_async = any(each.async_sites for each in found)
    times = (
        Column("seconds", "est.", "seconds", total="sum"),
        Column("low_seconds", "low", "seconds", total="sum", person=False),
        Column("high_seconds", "high", "seconds", total="sum", person=False),
        Column("at_least_seconds", "at least", "seconds", total="sum", person=False),
    )
    return (
        Column("sites", "sites", "count", total="sum"),
        Column("async_sites", "async", "count", total="sum", person=has_async, from_width=120),
        Column("runs", "runs", "count", total="sum"),
        Column("payload_bytes", "payload", "bytes", total="sum", rank=4),
        Column("wire_bytes", "sent", "bytes", total="sum"),
        Column("run_wire_bytes", "sent per run", "bytes", total="sum", person=has_unknown),
        *(times if pricing.chip is not None else ()),
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
        *(map(_known, traffic.times) if pricing.chip is not None else ()),
        traffic.devices,
    )


def _known(value: float | None) -> Cell:
    return UNKNOWN if value is None else value


def _rank(traffic: Traffic) -> tuple[bool, Fraction, Fraction]:
    """Known sums first, most bytes first."""
    return traffic.wire_bytes is None, -traffic.known_wire_bytes, -traffic.run_wire_bytes
