"""The tables of `hlo diff`: one row per change, with both shapes in one text, and one row per computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hlo_cli.analysis.matching.changes import FUSED, Change
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff, RowCosts, is_quiet
from hlo_cli.commands.diff.view import View
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import Shape
from hlo_cli.report.diff import pieces_of
from hlo_cli.report.table import Column, Row, Table

_COLUMNS = (
    Column("change", "", "change"),
    Column("name", "instruction", "name", role="name"),
    Column("opcode", "opcode", "opcode", rank=2, from_width=120),
    Column("shape", "shape", "shape"),
    Column("before_bytes", "before", "bytes", exact=True, rank=4),
    Column("after_bytes", "after", "bytes", exact=True, rank=4),
    Column("change_kinds", "change"),
    Column("cost_bytes", "cost", "bytes", rank=3, from_width=120),
    Column("computation", "computation", "name", rank=1, from_width=120),
    Column("details", "from → to", rank=0, from_width=200),
    Column("name_before", "name before", "name", person=False),
    Column("computation_before", "computation before", "name", person=False),
    Column("changes", "changes", person=False),
)


def change_table(comparison: ModuleDiff, view: View) -> Table:
    """One row for each instruction that changed, was added or removed, or moved if that counts.

    The most bytes written or no longer written come first, then instructions without memory: fused, or applied to
    single elements. Equals are in the order of the new module, its entry first; changes in metadata alone come last.
    """
    rows = sorted(_rows(comparison, with_schedule=view.with_schedule), key=lambda row: row[0])
    counts = Counter(str(row[0]) for _, row in rows)
    words = {"~": "changed", "+": "added", "-": "removed", ">": "moved"}
    footnote = "  ".join(f"{sign} {counts[sign]:,} {word}" for sign, word in words.items() if counts[sign])
    return Table("changes", _COLUMNS, tuple(row for _, row in rows), noun="changes", footnote=footnote)


def _rows(
    comparison: ModuleDiff, *, with_schedule: bool
) -> Iterator[tuple[tuple[bool, bool, int, bool, int, int], Row]]:
    places = {c: (not c.is_entry, at) for at, c in enumerate(comparison.after.computations)}
    first = {c: (not c.is_entry, at) for at, c in enumerate(comparison.before.computations)}
    costs = RowCosts(comparison)

    def place(instruction: Instruction, cost: int) -> tuple[bool, int, bool, int, int]:
        computation = instruction.computation
        pair = comparison.computations.get(computation)
        outer = places.get(computation) or (places[pair] if pair is not None else first[computation])
        return not costs.is_in_memory(instruction), -cost, *outer, instruction.index

    for each in comparison.changed:
        cost = costs.of_changed(each)
        yield (is_quiet(each.changes), *place(each.after, cost)), _changed_row(each, cost)
    for instruction in comparison.added:
        cost = costs.of(instruction)
        yield (False, *place(instruction, cost)), _row("+", instruction, cost)
    for instruction in comparison.removed:
        cost = costs.of(instruction)
        yield (False, *place(instruction, cost)), _row("-", instruction, cost)
    for moved in comparison.moved if with_schedule else ():
        yield (False, *place(moved.after, 0)), _row(">", moved.after, 0, moved.before)


def _changed_row(each: Changed, cost: int) -> Row:
    before, after = each.before, each.after
    kinds = dict.fromkeys(_word(change) for change in each.changes)
    return (
        "~",
        after.name,
        after.opcode if before.opcode == after.opcode else f"{before.opcode} → {after.opcode}",
        _shape(before.shape, after.shape),
        before.shape.padded_bytes,
        after.shape.padded_bytes,
        ", ".join(kinds),
        cost,
        after.computation.name,
        "; ".join(map(str, each.changes)),
        before.name,
        before.computation.name,
        tuple({"kind": c.kind, "name": c.name or None, "before": c.before, "after": c.after} for c in each.changes),
    )


def _row(sign: str, instruction: Instruction, cost: int, before: Instruction | None = None) -> Row:
    size, name, computation = instruction.shape.padded_bytes, instruction.name, instruction.computation.name
    old = instruction if sign == "-" else before
    return (
        sign,
        name,
        instruction.opcode,
        str(instruction.shape),
        size if sign != "+" else None,
        size if sign != "-" else None,
        instruction.opcode if before is None else f"step {before.index} → {instruction.index}",
        cost,
        computation,
        None,
        old.name if old is not None else None,
        old.computation.name if old is not None else None,
        (),
    )


def _shape(before: Shape, after: Shape) -> str:
    """The new shape, with the old text before an arrow where it changed.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _shape(parse_shape("f32[8,16]{0,1}"), parse_shape("f32[8,16]{1,0:T(8,128)}"))
    'f32[8,16]{0,1 → 1,0:T(8,128)}'
    """
    old, new = str(before), str(after)
    if old == new:
        return new
    return "".join(
        f"{piece.old} → {piece.new}" if piece.is_changed and piece.old and piece.new else piece.new or piece.old
        for piece in pieces_of(old, new)
    )


_SHORT_KINDS = {"layout": "order", "tiling": "tile", "memory_space": "space", "backend_config": "backend_config"}


def _word(change: Change) -> str:
    """The change in a word or two: attributes by their names."""
    if change.kind in ("attributes", FUSED):
        return change.name
    return _SHORT_KINDS.get(change.kind, change.kind)


def header_table(comparison: ModuleDiff) -> Table:
    """The fields of the header that differ."""
    columns = (Column("field", "header field", role="name"), Column("before", "before"), Column("after", "after"))
    rows = tuple((c.name, c.before or None, c.after or None) for c in comparison.header)
    return Table("header_fields", columns, rows, noun="fields", main=False, limit=8)


def stat_table(comparison: ModuleDiff) -> Table:
    """The number of changes in each computation, most first, without computations that are equal."""
    counts: dict[Computation, Counter[str]] = {}

    def count(computation: Computation, what: str) -> None:
        computation = comparison.computations.get(computation, computation)
        counts.setdefault(computation, Counter())[what] += 1

    for each in comparison.changed:
        count(each.after.computation, "changed")
    for instruction in comparison.added:
        count(instruction.computation, "added")
    for instruction in comparison.removed:
        count(instruction.computation, "removed")
    for moved in comparison.moved:
        count(moved.after.computation, "moved")
    there = set(comparison.computations.values())
    added = set(comparison.after.computations) - there
    rows: tuple[Row, ...] = tuple(
        (
            "~" if c in there else "+" if c in added else "-",
            c.name,
            len(c.instructions),
            *(found[what] for what in ("changed", "added", "removed", "moved")),
        )
        for c, found in sorted(counts.items(), key=lambda item: (-item[1].total(), item[0].name))
    )
    columns = (
        Column("change", "", "change"),
        Column("computation", "computation", "name", role="name"),
        Column("instructions", "instructions", "count", total="sum"),
        *(Column(what, what, "count", total="sum") for what in ("changed", "added", "removed", "moved")),
    )
    return Table("computations", columns, rows, noun="computations")
