"""The tables of a resharding: both shardings, the sizes of each dimension, and all warnings."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.full_rematerialization import FullRematerialization
from hlo_cli.analysis.sharding_tiles import sharding_tiles
from hlo_cli.commands.pasted.resharding_groups import Resharding
from hlo_cli.commands.pasted.sharding_words import describe_sharding
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding, ShardingType
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.facts import Amount, Fact, Facts
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage

AnySharding = Sharding | NamedSharding

_DIMENSIONS = (
    Column("dimension", "dimension", "name"),
    Column("size", "size", "count"),
    Column("parts_before", "parts", "count", group="from"),
    Column("part_before", "size", "count", group="from"),
    Column("parts_after", "parts", "count", group="to"),
    Column("part_after", "size", "count", group="to"),
)
_WARNINGS = (
    Column("warnings", "warnings", "count", total="sum"),
    Column("whole_bytes", "whole", "bytes"),
    Column("part_bytes_before", "part from", "bytes"),
    Column("part_bytes_after", "part to", "bytes"),
    Column("instruction", "instruction", "name", role="name"),
    Column("shape", "whole shape", "shape"),
    Column("before", "from", rank=5),
    Column("after", "to", rank=5),
    Column("op_name", "op_name", "op_name", rank=3),
    Column("source", "source", "source", rank=4),
)


def sharding_words(before: AnySharding | None, after: AnySharding | None) -> Passage:
    """Both shardings in words."""
    words = (
        f"{label} {sharding}: {describe_sharding(sharding)}"
        if sharding is not None
        else f"{label} a sharding that is not in the text, or elided in it"
        for label, sharding in (("From", before), ("To", after))
    )
    return Passage("shardings", tuple(words))


def cost_facts(before: AnySharding | None, cost: FullRematerialization) -> Facts:
    """The bytes on each device before, between, and after."""
    is_on_one = isinstance(before, Sharding) and before.type is ShardingType.MAXIMAL
    where = f"on device {before.device} only" if is_on_one and isinstance(before, Sharding) else "per device"
    facts = [
        _fact("from", cost.before, where),
        _fact("gathered", cost.whole, "on every device"),
        _fact("to", cost.after),
    ]
    if received := cost.received_bytes:
        facts.append(Fact("received", (Amount("bytes", received, "bytes"),), "by every device"))
    return Facts("cost", tuple(facts))


def _fact(label: str, part: ArrayShape | None, where: str = "per device") -> Fact:
    if part is None:
        return Fact(label, (Amount("bytes", UNKNOWN, "bytes"),))
    size = Amount("bytes", part.logical_bytes, "bytes")
    return Fact(label, (size,), f"{part.to_string(layout=False)} {where}")


def dimensions_table(before: AnySharding | None, after: AnySharding | None, cost: FullRematerialization) -> Table:
    """The size and the number of parts of each dimension before and after."""
    rows = tuple(
        (str(d), size, _parts(before, d), _size(cost.before, d), _parts(after, d), _size(cost.after, d))
        for d, size in enumerate(cost.whole.sizes)
    )
    return Table("dimensions", _DIMENSIONS, rows, noun="dimensions", main=False)


def _parts(sharding: AnySharding | None, dimension: int) -> Cell:
    if sharding is None:
        return UNKNOWN
    parts = sharding_tiles(sharding).parts
    return parts[dimension] if dimension < len(parts) else 1


def _size(part: ArrayShape | None, dimension: int) -> Cell:
    return UNKNOWN if part is None else part.sizes[dimension]


def warnings_table(groups: Sequence[Resharding], *, person: bool) -> Table:
    """One row for equal warnings."""
    return Table("warnings", _WARNINGS, tuple(map(_row, groups)), noun="kinds", limit=10, person=person)


def _row(group: Resharding) -> Row:
    cost, found = group.cost, group.found
    is_known = cost is not None and cost.before is not None
    return (
        group.count,
        cost.whole.logical_bytes if cost is not None and is_known else UNKNOWN,
        cost.before.logical_bytes if cost is not None and cost.before is not None else UNKNOWN,
        cost.after.logical_bytes if cost is not None and cost.after is not None and is_known else UNKNOWN,
        found.name or found.instruction.opcode if found is not None else None,
        cost.whole.to_string(layout=False) if cost is not None else None,
        group.warning.before or None,
        group.warning.after or None,
        found.op_name or None if found is not None else None,
        found.source or None if found is not None else None,
    )
