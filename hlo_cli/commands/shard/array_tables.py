"""Tables of parameters and results: a row for each shape and sharding, each array, each cause, or each mesh axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.sharding.entry_arrays import divided
from hlo_cli.commands.shard.arrays import definer_of, name_of, spec_cell, spec_of
from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import KEEP, UNKNOWN, Cell, Column, Share, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import Keys
    from hlo_cli.analysis.sharding.entry_arrays import EntryArray
    from hlo_cli.ir.attributes.sharding import Mesh
    from hlo_cli.ir.shape import ArrayShape


MIN_SAVING: Final = 0.01
"""The smallest share of the bytes of a device that an answer calls a saving."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of some arrays on each device and in all, and what dividing the replicated ones would save.

    `unknown` arrays have shardings that are not in the text; they count nowhere else.
    """

    arrays: int
    unknown: int
    data_bytes: int
    shard_bytes: int
    whole_bytes: int | None
    saving_bytes: int
    copies_unknown: int
    is_estimated: bool

    @property
    def is_replicated(self) -> bool:
        """Whether dividing the replicated arrays would save bytes that matter: 1% of those of a device."""
        return self.saving_bytes > 0 and self.saving_bytes >= MIN_SAVING * self.shard_bytes


def totals_of(arrays: Iterable[EntryArray]) -> Totals:
    """The sums over arrays; the bytes in all are unknown if those of any array are."""
    found = tuple(arrays)
    known = [each for each in found if each.shard is not None]
    wholes = [each.whole.logical_bytes for each in known if each.whole is not None]
    return Totals(
        arrays=len(found),
        unknown=len(found) - len(known),
        data_bytes=sum(each.data_bytes or 0 for each in known),
        shard_bytes=sum(each.shard_bytes or 0 for each in known),
        whole_bytes=sum(wholes) if len(wholes) == len(known) else None,
        saving_bytes=sum(each.saving_bytes or 0 for each in known),
        copies_unknown=sum(each.replication is None for each in known),
        is_estimated=any(each.is_estimated for each in known),
    )


def size_cells(totals: Totals) -> tuple[Cell, ...]:
    """Bytes of data and in all on each device, the share of padding, and what dividing copies would save."""
    if totals.unknown:
        return (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    share = 1 - totals.data_bytes / totals.shard_bytes if totals.shard_bytes else 0.0
    return (
        totals.data_bytes,
        totals.shard_bytes,
        share,
        UNKNOWN if totals.copies_unknown else totals.saving_bytes,
    )


def shapes_table(name: str, arrays: Sequence[EntryArray], mesh: Mesh | None, *, person: bool = True) -> Table:
    """One row for each whole shape and the way in which it is divided; what would save most is first, if it matters."""
    groups: dict[tuple[str, str, str, int | None], list[EntryArray]] = {}
    for each in arrays:
        key = (_text(each.whole), spec_cell(each, mesh), _text(each.shard), each.replication)
        groups.setdefault(key, []).append(each)
    rows = [(totals_of(members), *key, members[0]) for key, members in groups.items()]
    by_saving = totals_of(arrays).is_replicated
    rows.sort(key=lambda row: (by_saving * -row[0].saving_bytes, -row[0].shard_bytes, row[1], row[2]))
    is_estimated = any(row[0].is_estimated for row in rows)
    is_known = any(each.whole is not None for each in arrays)
    columns = (
        Column("count", "count", "count", total="sum", rank=5),
        *_size_columns(is_estimated=is_estimated, has_saving=any(row[0].saving_bytes for row in rows)),
        Column("shape", "shape", "shape", person=is_known),
        Column("spec", "sharding", person=is_known),
        Column("shard", "shard", "shape"),
        Column("replication", "copies", "count", person=is_known),
        Column("example", "example", "name", role="name", from_width=120, rank=3),
        Column("annotation", "annotation", from_width=200, rank=2),
    )
    cells = tuple(
        (
            totals.arrays,
            *size_cells(totals),
            whole or UNKNOWN,
            spec,
            shard or UNKNOWN,
            UNKNOWN if copies is None else copies,
            name_of(example),
            None if example.sharding is None else str(example.sharding),
        )
        for totals, whole, spec, shard, copies, example in rows
    )
    return Table(name, columns, cells, noun="shapes", person=person)


def instructions_table(name: str, arrays: Sequence[EntryArray], mesh: Mesh | None, *, person: bool = True) -> Table:
    """One row for each array, with its name in the program; what saves most is first."""
    by_saving = totals_of(arrays).is_replicated
    rows = sorted(
        arrays, key=lambda each: (by_saving * -(each.saving_bytes or 0), -(each.shard_bytes or 0), each.number)
    )
    is_estimated = any(each.is_estimated for each in rows)
    is_known = any(each.whole is not None for each in rows)
    columns = (
        *_size_columns(is_estimated=is_estimated, has_saving=any(each.saving_bytes for each in rows)),
        Column("instruction", "instruction", "name", person=False),
        Column("role", "role", person=False),
        Column("number", "number", "count", person=False),
        Column("op_name", "name", "op_name"),
        Column("shape", "shape", "shape", person=is_known),
        Column("spec", "sharding", person=is_known),
        Column("shard", "shard", "shape", rank=6 if is_known else KEEP),
        Column("replication", "copies", "count", person=is_known),
        Column("annotation", "annotation", from_width=200, rank=2),
    )
    cells = tuple(
        (
            *size_cells(totals_of([each])),
            definer_of(each)[0].name,
            each.role,
            each.number,
            name_of(each),
            _text(each.whole) or UNKNOWN,
            spec_cell(each, mesh),
            _text(each.shard) or UNKNOWN,
            UNKNOWN if each.replication is None else each.replication,
            None if each.sharding is None else str(each.sharding),
        )
        for each in rows
    )
    return Table(name, columns, cells, noun="arrays", person=person)


def causes_table(arrays: Sequence[EntryArray], keys: Keys) -> Table:
    """One row for each source line, scope, argument, or pass; what saves most is first.

    Parameters have the source line and the scope of the nearest instructions that use them.
    """
    from hlo_cli.commands.modules.by import group_by, key_cells, key_columns

    groups = group_by(arrays, lambda each: keys.of_use(*definer_of(each)))
    rows = [(totals_of(group.members), totals_of(group.inferred), group) for group in groups]
    rows.sort(key=lambda row: (-row[0].saving_bytes, -row[0].shard_bytes, row[2].key))
    is_estimated = any(row[0].is_estimated for row in rows)
    columns = (
        Column("count", "count", "count", total="sum"),
        *_size_columns(is_estimated=is_estimated, has_saving=any(row[0].saving_bytes for row in rows)),
        *key_columns(keys.by, "shard_bytes", groups, has_inferred=any(group.inferred for group in groups)),
    )
    cells = tuple(
        (totals.arrays, *size_cells(totals), *key_cells(group, totals.shard_bytes, inferred.shard_bytes))
        for totals, inferred, group in rows
    )
    return Table(f"{keys.by}s" if keys.by != "pass" else "passes", columns, cells, noun="rows")


def axes_table(arrays: Sequence[EntryArray], mesh: Mesh) -> Table:
    """One row for each axis: the arrays that are divided along it, and those with a copy at each of its positions."""
    columns = (
        Column("axis", "axis", "name", role="name"),
        Column("size", "size", "count"),
        Column("divided_count", "arrays", "count", group="divided"),
        Column("divided_bytes", "per device", "bytes", group="divided"),
        Column("replicated_count", "arrays", "count", group="replicated"),
        Column("replicated_bytes", "per device", "bytes", group="replicated", like="divided_bytes", role="waste"),
        Column("saving_bytes", "saving", "bytes", role="saving", like="divided_bytes"),
    )
    rows = tuple(_axis_row(axis.name, axis.size, arrays, mesh) for axis in mesh.axes if axis.size > 1)
    return Table("axes", columns, rows, noun="axes")


def _axis_row(name: str, size: int, arrays: Sequence[EntryArray], mesh: Mesh) -> tuple[Cell, ...]:
    along: list[EntryArray] = []
    over: list[EntryArray] = []
    for each in arrays:
        spec = spec_of(each, mesh)
        if spec is not None and each.shard is not None:
            is_divided = any(axis.name == name for axes in spec for axis in axes)
            (along if is_divided else over).append(each)
    saved = [
        max(0, each.shard.padded_bytes - divided(each.shard, size).padded_bytes)
        for each in over
        if each.shard is not None
    ]
    return (
        name,
        size,
        len(along),
        sum(each.shard_bytes or 0 for each in along),
        len(over),
        sum(each.shard_bytes or 0 for each in over),
        sum(saved),
    )


def _size_columns(*, is_estimated: bool, has_saving: bool) -> tuple[Column, ...]:
    title, width = "per device", 120 if has_saving else 0
    whole = Share("data_bytes", "shard_bytes", rest=True)
    return (
        Column("data_bytes", "data", "bytes", total="sum", person=False),
        Column("shard_bytes", "est. size" if is_estimated else "size", "bytes", total="sum", group=title),
        Column("padding", "padding", "percent", role="waste", total=whole, group=title, from_width=width),
        Column("saving_bytes", "saving", "bytes", role="saving", total="sum", person=has_saving, group=title),
    )


def _text(shape: ArrayShape | None) -> str:
    return "" if shape is None else shape.to_string(layout=False)
