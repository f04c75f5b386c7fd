"""The tables of a resharding warning: bytes on a device, the sizes of each dimension, and all warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.analysis.sharding.placement import placement_of, sharded_array
from hlo_cli.commands.shard.grid import grid_figure
from hlo_cli.commands.shard.reshard_tables import short_text
from hlo_cli.commands.shard.warned import WarnedReshard, is_maximal
from hlo_cli.ir.attributes.sharding import Mesh, NamedSharding, Sharding
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Figure
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Row, Table
from hlo_cli.source import HloError

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


def cost_facts(first: WarnedReshard) -> Facts:
    """The bytes on each device before, between, and after, with both shardings."""
    where = f"device {_device(first.before)} only" if is_maximal(first.before) else ""
    facts = [
        _fact("from", first.part, short_text(first.warning.before), where),
        _fact("gathered", first.whole, "", "every device"),
        _fact("to", first.part_after, short_text(first.warning.after)),
    ]
    if received := first.received_bytes:
        facts.append(Fact("received", (Amount("bytes", received, "bytes"),), "by every device"))
    return Facts("cost", tuple(facts))


def _device(sharding: Sharding | NamedSharding | None) -> int | None:
    return sharding.device if isinstance(sharding, Sharding) else None


def _fact(label: str, part: ArrayShape | None, sharding: str, where: str = "") -> Fact:
    if part is None:
        return Fact(label, (Amount("bytes", UNKNOWN, "bytes"),), sharding, is_whole=True)
    remark = "  ".join(filter(None, (part.to_string(layout=False), where and f"on {where}", sharding)))
    return Fact(label, (Amount("bytes", part.logical_bytes, "bytes"),), remark, is_whole=True)


def drawings(first: WarnedReshard, mesh: Mesh | None) -> list[Figure]:
    """Both shardings, drawn as grids of devices."""
    found = list[Figure]()
    if first.whole is None:
        return found
    for label, sharding in (("from", first.before), ("to", first.after)):
        if sharding is None:
            continue
        try:
            array = sharded_array(first.whole, sharding, mesh)
            figure = grid_figure(array, array.shards())
        except HloError:
            continue
        if figure is not None:
            found.append(replace(figure, name=label, title=label))
    return found


def dimensions_table(first: WarnedReshard) -> Table:
    """The size and the number of parts of each dimension before and after."""
    sizes = first.whole.sizes if first.whole is not None else ()
    rows = tuple(
        (
            str(d),
            size,
            _parts(first.before, d),
            _size(first.part, d),
            _parts(first.after, d),
            _size(first.part_after, d),
        )
        for d, size in enumerate(sizes)
    )
    return Table("dimensions", _DIMENSIONS, rows, noun="dimensions", main=False, person=False)


def _parts(sharding: Sharding | NamedSharding | None, dimension: int) -> Cell:
    if sharding is None:
        return UNKNOWN
    parts = placement_of(sharding).parts
    return parts[dimension] if dimension < len(parts) else 1


def _size(part: ArrayShape | None, dimension: int) -> Cell:
    return UNKNOWN if part is None else part.sizes[dimension]


def warnings_table(groups: Sequence[WarnedReshard], *, person: bool) -> Table:
    """One row for equal warnings."""
    return Table("warnings", _WARNINGS, tuple(map(_row, groups)), noun="kinds", limit=10, person=person)


def _row(group: WarnedReshard) -> Row:
    found, shape = group.found, group.whole or (group.found.array if group.found is not None else None)
    after = group.part_after
    return (
        group.count,
        group.whole.logical_bytes if group.whole is not None else UNKNOWN,
        group.part.logical_bytes if group.part is not None else UNKNOWN,
        after.logical_bytes if after is not None else UNKNOWN,
        found.name or found.instruction.opcode if found is not None else None,
        shape.to_string(layout=False) if shape is not None else None,
        group.warning.before or None,
        group.warning.after or None,
        found.op_name or None if found is not None else None,
        found.source or None if found is not None else None,
    )
