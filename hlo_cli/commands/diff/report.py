"""Do two modules differ, in what, and with which effect on memory and cost?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeAlias

from hlo_cli.analysis.cost.cost_analysis import KernelCost, kernel_costs
from hlo_cli.analysis.dataflow.executions import sequential_executions
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.matching.changes import FUSED, KINDS, Change
from hlo_cli.analysis.matching.graph import renamed_value
from hlo_cli.analysis.matching.module_diff import ModuleDiff, RowCosts, is_quiet
from hlo_cli.analysis.origin.origins import By, Keys, keys_of
from hlo_cli.analysis.statements.operations import Renaming, is_same_text, omitted_constants, renaming_of
from hlo_cli.analysis.statements.statement import Collectives, Fold
from hlo_cli.analysis.statements.statements import ModuleMetrics, ModuleNumbers, Statements, statements_of
from hlo_cli.commands.diff.conditions import (
    View,
    answer_of_failures,
    failures_of,
    in_words,
    numbers_against,
    numbers_between,
    parts_of_failures,
    without_form,
    worth_showing,
)
from hlo_cli.commands.diff.sentences import headline, passage_of, records_of, statement_table, with_statements
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.ir.shape import Shape
from hlo_cli.report.diff import Diff, DiffLine, Hunk, Sign, pieces_of
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, Unit, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError

# --- dumps that end too early ---
# `hlo diff` of dumps that end too early: only what both texts have is compared, and no cause is reported.


def _truncated_sides(comparison: ModuleDiff) -> tuple[str, ...]:
    """The sides whose text is truncated: OLD, NEW, or both."""
    sides = (("OLD", comparison.before), ("NEW", comparison.after))
    return tuple(name for name, module in sides if module.is_truncated)


def answer_of_parts(comparison: ModuleDiff, *, checks_conditions: bool = False) -> str:
    """Which side is truncated, and what differs in the part that both have; empty if both modules are whole.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m\\n\\nENTRY e {\\n  p = s8[2] parameter(0)\\n  ROOT n = s8[2] not(p)\\n}\\n"
    >>> answer_of_parts(diff(parse_module(text), parse_module(text[: text.index("  ROOT")])))
    'NEW is truncated; no differences in the 1 instruction that both have'
    """
    sides = _truncated_sides(comparison)
    if not sides:
        return ""
    start = f"{' and '.join(sides)} {'are' if len(sides) > 1 else 'is'} truncated"
    if checks_conditions:
        return f"{start}; conditions cannot be checked"
    parts = {"added": len(comparison.added), "removed": len(comparison.removed)}
    both = format_count(comparison.matched, "instructions")
    changed = f"{len(comparison.changed):,} changed" if comparison.changed else "no differences"
    more = "".join(f"; {number:,} {word}" for word, number in parts.items() if number)
    return f"{start}; {changed} in the {both} that both have{more}"


# --- metrics of both modules ---
# Tables that compare the metrics of two modules: bytes and counts.


def _summary_tables(old: ModuleNumbers, new: ModuleNumbers, target: Target | None) -> tuple[Table, Table]:
    """Tables of memory and of counts, with the rows that differ; costs are those of all iterations of loops."""
    memory = (*_byte_metrics(old, new), *_peak_metrics(old.metrics, new.metrics, target))
    return _metrics_table("memory", "bytes", memory), _metrics_table("costs", "count", _count_metrics(old, new))


def _collective_table(old: ModuleNumbers, new: ModuleNumbers) -> Table:
    """The collectives by kind: how many, and the bytes of their results."""

    def of(side: ModuleNumbers, kind: str) -> Collectives:
        return side.collectives.get(kind, Collectives(kind, 0, 0))

    columns: tuple[Column[str], ...] = (
        Column("kind", "collective", of=lambda kind: kind),
        Column("before", "before", "count", of=lambda kind: of(old, kind).count),
        Column("after", "after", "count", of=lambda kind: of(new, kind).count),
        Column("before_bytes", "before", "bytes", of=lambda kind: of(old, kind).bytes),
        Column("after_bytes", "after", "bytes", like="before_bytes", of=lambda kind: of(new, kind).bytes),
    )
    rows = rows_from(columns, sorted({*old.collectives, *new.collectives}))
    return Table("collectives", columns, rows, noun="kinds", main=False)


def _record_of(numbers: ModuleNumbers, target: Target | None) -> Mapping[str, Cell]:
    """All numbers of a module, for programs."""
    metrics = numbers.metrics
    cells: dict[str, Cell] = {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "peak_bytes"}
    cells |= {"executed_flops": numbers.flops, "executed_bytes_accessed": numbers.bytes_accessed}
    return {**cells, "peak_bytes": {space_name(space, target): n for space, n in metrics.peak_bytes.items()}}


_Metric: TypeAlias = tuple[str, int, int]
"""The name of a metric, and its values before and after."""


def _metrics_table(name: str, unit: str, metrics: Iterable[_Metric]) -> Table:
    """A row for each metric that differs, with the ratio if neither number is zero."""
    suffix = "_bytes" if unit == "bytes" else ""
    differing = [(metric, before, after) for metric, before, after in metrics if before != after]
    has_ratio = any(before and after for _, before, after in differing)
    columns: tuple[Column[str, int, int], ...] = (
        Column("metric", "metric", of=lambda metric, before, after: metric),
        Column(f"before{suffix}", "before", "bytes" if suffix else "count", of=lambda metric, before, after: before),
        Column(f"after{suffix}", "after", "bytes" if suffix else "count", like=f"before{suffix}",
               of=lambda metric, before, after: after),
        Column("ratio", "", "ratio", person=has_ratio,
               of=lambda metric, before, after: after / before if before and after else None),
    )  # fmt: skip
    return Table(name, columns, rows_from_tuples(columns, differing), noun="metrics", main=False)


def _byte_metrics(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[_Metric]:
    before, after = old.metrics, new.metrics
    yield "arguments", before.argument_bytes, after.argument_bytes
    yield "all values", before.value_bytes, after.value_bytes
    yield "padding", before.padding_bytes, after.padding_bytes
    yield "bytes accessed", old.bytes_accessed, new.bytes_accessed


def _peak_metrics(old: ModuleMetrics, new: ModuleMetrics, target: Target | None) -> Iterator[_Metric]:
    for space in sorted({*old.peak_bytes, *new.peak_bytes}):
        yield f"peak {space_name(space, target)}", old.peak_bytes.get(space, 0), new.peak_bytes.get(space, 0)


def _count_metrics(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[_Metric]:
    before, after = old.metrics, new.metrics
    yield "flops", old.flops, new.flops
    yield "kernels", before.kernels, after.kernels
    yield "collectives", before.collectives, after.collectives
    yield "computations", before.computations, after.computations
    yield "instructions", before.instructions, after.instructions


# --- one row per change ---
# The tables of `hlo diff`: one row per change, with both shapes in one text, and one row per computation.


@dataclass(frozen=True, slots=True)
class _ChangeRow:
    """An instruction that changed (`~`), was added or removed, or moved (`>`), with what it costs.

    `before` is the instruction in the old module, None if it was added; `changes` are those of a changed one.
    """

    sign: str
    instruction: Instruction
    cost: int
    before: Instruction | None
    changes: tuple[Change, ...] = ()

    @property
    def change_kinds(self) -> str:
        """What changed, in a word or two each; the opcode of an instruction that was added or removed."""
        if self.sign == "~":
            return ", ".join(dict.fromkeys(_kind_word(change) for change in self.changes))
        # of a moved instruction only its steps differ, which are its positions in the computation
        moved = self.before if self.sign == ">" else None
        return self.instruction.opcode if moved is None else f"step {moved.index} → {self.instruction.index}"

    @property
    def opcode(self) -> str:
        """The opcode, or both."""
        old, new = self.before, self.instruction.opcode
        return new if self.sign != "~" or old is None or old.opcode == new else f"{old.opcode} → {new}"

    @property
    def shape(self) -> str:
        """The shape, and where it differs, what it was."""
        old, new = self.before, self.instruction.shape
        return str(new) if self.sign != "~" or old is None else _shape_change(old.shape, new)

    @property
    def bytes_before(self) -> int | None:
        """The size of the old instruction; one that moved has the shape that it had."""
        measured = self.before if self.sign == "~" else None if self.sign == "+" else self.instruction
        return None if measured is None else measured.shape.padded_bytes


_CHANGE_COLUMNS: tuple[Column[_ChangeRow], ...] = (
    Column("change", "", "change", of=lambda row: row.sign),
    Column("name", "instruction", "name", role="name", of=lambda row: row.instruction.name),
    Column("opcode", "opcode", "opcode", rank=2, from_width=120, of=lambda row: row.opcode),
    Column("shape", "shape", "shape", of=lambda row: row.shape),
    Column("before_bytes", "before", "bytes", exact=True, rank=4, of=lambda row: row.bytes_before),
    Column(
        "after_bytes",
        "after",
        "bytes",
        exact=True,
        rank=4,
        of=lambda row: None if row.sign == "-" else row.instruction.shape.padded_bytes,
    ),
    Column("change_kinds", "change", of=lambda row: row.change_kinds),
    Column("cost_bytes", "cost", "bytes", rank=3, from_width=120, of=lambda row: row.cost),
    Column(
        "computation",
        "computation",
        "name",
        rank=1,
        from_width=120,
        of=lambda row: row.instruction.computation.name,
    ),
    Column(
        "details",
        "from → to",
        rank=0,
        from_width=200,
        of=lambda row: "; ".join(map(str, row.changes)) if row.sign == "~" else None,
    ),
    Column("name_before", "name before", "name", person=False, of=lambda row: row.before.name if row.before else None),
    Column(
        "computation_before",
        "computation before",
        "name",
        person=False,
        of=lambda row: row.before.computation.name if row.before else None,
    ),
    Column(
        "changes",
        "changes",
        person=False,
        of=lambda row: tuple(
            {"kind": c.kind, "name": c.name or None, "before": c.before, "after": c.after} for c in row.changes
        ),
    ),
)


def _change_table(comparison: ModuleDiff, view: View) -> Table:
    """One row for each instruction that changed, was added or removed, or moved if that counts.

    The most bytes written or no longer written come first, then instructions without memory: fused, or applied to
    single elements. Equals are in the order of the new module, its entry first; changes in metadata alone come last.
    """
    ranked = sorted(_change_rows(comparison, with_schedule=view.with_schedule), key=lambda row: row[0])
    rows = [row for _, row in ranked]
    counts = Counter(row.sign for row in rows)
    words = {"~": "changed", "+": "added", "-": "removed", ">": "moved"}
    footnote = "  ".join(f"{sign} {counts[sign]:,} {word}" for sign, word in words.items() if counts[sign])
    return Table("changes", _CHANGE_COLUMNS, rows_from(_CHANGE_COLUMNS, rows), noun="changes", footnote=footnote)


def _change_rows(
    comparison: ModuleDiff, *, with_schedule: bool
) -> Iterator[tuple[tuple[bool, bool, int, bool, int, int], _ChangeRow]]:
    order_after = {c: (not c.is_entry, position) for position, c in enumerate(comparison.after.computations)}
    order_before = {c: (not c.is_entry, position) for position, c in enumerate(comparison.before.computations)}
    costs = RowCosts(comparison)

    def place(instruction: Instruction, cost: int) -> tuple[bool, int, bool, int, int]:
        computation = instruction.computation
        pair = comparison.computations.get(computation)
        # what was removed stands where the computation that replaced its own is
        outer = order_after.get(computation) or (order_after[pair] if pair is not None else order_before[computation])
        return not costs.is_in_memory(instruction), -cost, *outer, instruction.index

    for each in comparison.changed:
        cost = costs.of_changed(each)
        row = _ChangeRow("~", each.after, cost, each.before, tuple(each.changes))
        yield (is_quiet(each.changes), *place(each.after, cost)), row
    for instruction in comparison.added:
        cost = costs.of(instruction)
        yield (False, *place(instruction, cost)), _ChangeRow("+", instruction, cost, None)
    for instruction in comparison.removed:
        cost = costs.of(instruction)
        yield (False, *place(instruction, cost)), _ChangeRow("-", instruction, cost, instruction)
    for moved in comparison.moved if with_schedule else ():
        yield (False, *place(moved.after, 0)), _ChangeRow(">", moved.after, 0, moved.before)


def _shape_change(before: Shape, after: Shape) -> str:
    """The new shape, with the old text before an arrow where it changed.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _shape_change(parse_shape("f32[8,16]{0,1}"), parse_shape("f32[8,16]{1,0:T(8,128)}"))
    'f32[8,16]{0,1 → 1,0:T(8,128)}'
    """
    old, new = str(before), str(after)
    if old == new:
        return new
    return "".join(
        f"{piece.old} → {piece.new}" if piece.is_changed and piece.old and piece.new else piece.new or piece.old
        for piece in pieces_of(old, new)
    )


# short, so that the column stays narrow
_SHORT_KINDS = {"layout": "order", "tiling": "tile", "memory_space": "space", "backend_config": "backend_config"}


def _kind_word(change: Change) -> str:
    """The change in a word or two: attributes by their names."""
    if change.kind in ("attributes", FUSED):
        return change.name
    return _SHORT_KINDS.get(change.kind, change.kind)


def _header_table(comparison: ModuleDiff) -> Table:
    """The fields of the header that differ."""
    columns = (
        Column("field", "header field", role="name", of=lambda field: field.name),
        Column("before", "before", of=lambda field: field.before or None),
        Column("after", "after", of=lambda field: field.after or None),
    )
    rows = rows_from(columns, comparison.header)
    return Table("header_fields", columns, rows, noun="fields", main=False, limit=8)


def _stat_table(comparison: ModuleDiff) -> Table:
    """The number of changes in each computation, most first, without computations that are equal."""
    counts: dict[Computation, Counter[str]] = {}

    def count(computation: Computation, change: str) -> None:
        computation = comparison.computations.get(computation, computation)
        counts.setdefault(computation, Counter())[change] += 1

    for each in comparison.changed:
        count(each.after.computation, "changed")
    for instruction in comparison.added:
        count(instruction.computation, "added")
    for instruction in comparison.removed:
        count(instruction.computation, "removed")
    for moved in comparison.moved:
        count(moved.after.computation, "moved")
    in_both = set(comparison.computations.values())
    added = set(comparison.after.computations) - in_both
    columns: tuple[Column[Computation, Counter[str]], ...] = (
        Column("change", "", "change", of=lambda c, changes: "~" if c in in_both else "+" if c in added else "-"),
        Column("computation", "computation", "name", role="name", of=lambda c, changes: c.name),
        Column("instructions", "instructions", "count", total="sum", of=lambda c, changes: len(c.instructions)),
        Column("changed", "changed", "count", total="sum", of=lambda c, changes: changes["changed"]),
        Column("added", "added", "count", total="sum", of=lambda c, changes: changes["added"]),
        Column("removed", "removed", "count", total="sum", of=lambda c, changes: changes["removed"]),
        Column("moved", "moved", "count", total="sum", of=lambda c, changes: changes["moved"]),
    )
    # most changes first, as --stat of git does not: computations have no order that a reader knows
    ranked = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0].name))
    return Table("computations", columns, rows_from_tuples(columns, ranked), noun="computations")


# --- changed lines ---
# The changed lines of two modules, by computation.
#
# Old lines have the names of the new module, so that only real changes show.


_CONTEXT_LINES = 1  # unchanged lines around a change: one on each side says where it is


def _text_diff(comparison: ModuleDiff, before: str, after: str, *, with_schedule: bool = False) -> Diff:
    """One hunk for each computation that differs: its new lines, each preceded by the lines removed there.

    With `with_schedule`, lines that moved in the schedule are shown in both places.
    """
    return _TextDiff(comparison, with_schedule=with_schedule).diff(before, after)


class _TextDiff:
    """Writes instructions; those of the old module get the names of their counterparts."""

    def __init__(self, comparison: ModuleDiff, *, with_schedule: bool) -> None:
        self._comparison = comparison
        self._changed = {each.after: each for each in comparison.changed}
        self._added = frozenset(comparison.added)
        self._names = {old.name: new.name for old, new in comparison.pairs.items()}
        self._names |= {old.name: new.name for old, new in comparison.computations.items()}
        self._before: dict[Instruction, Instruction] = {new: old for old, new in comparison.pairs.items()}
        self._moved = {each.before: each.after for each in comparison.moved} if with_schedule else {}
        self._moved_to = frozenset(self._moved.values())
        self._removed: dict[Computation, list[Instruction]] = {}
        for instruction in sorted((*comparison.removed, *self._moved), key=lambda each: each.index):
            self._removed.setdefault(instruction.computation, []).append(instruction)

    def diff(self, before: str, after: str) -> Diff:
        """The whole diff."""
        hunks: list[Hunk] = []
        folded = 0
        old_of = {new: old for old, new in self._comparison.computations.items()}
        for computation in sorted(
            self._comparison.after.computations, key=lambda computation: not computation.is_entry
        ):
            lines = list(self._lines(computation, old_of.get(computation)))
            folded = _add_hunks(hunks, lines, computation.name, folded)
        for computation, gone in self._removed.items():
            if computation not in self._comparison.computations:
                folded = _add_hunks(hunks, [self._line_gone(i) for i in gone], computation.name, folded)
        return Diff("changed_lines", tuple(hunks), folded=folded, old_name=before, new_name=after)

    def _lines(self, computation: Computation, old: Computation | None) -> Iterator[DiffLine]:
        """The lines of a computation; removed lines come before the first kept line that followed them."""
        gone = self._removed.get(old, []) if old is not None else []
        next_gone = 0
        for instruction in computation.instructions:
            pair = self._before.get(instruction) if instruction not in self._moved_to else None
            # an old line stands before the first line that followed it in the old module
            while (
                next_gone < len(gone)
                and pair is not None
                and pair.computation is old
                and gone[next_gone].index < pair.index
            ):
                yield self._line_gone(gone[next_gone])
                next_gone += 1
            yield self._line(instruction)
        yield from map(self._line_gone, gone[next_gone:])

    def _line(self, instruction: Instruction) -> DiffLine:
        number = _line_number(self._comparison.after, instruction)
        if instruction in self._added:
            return DiffLine("+", None, _text(instruction, {}), None, number)
        if instruction in self._moved_to:
            return self._line_of_both(">", self._before[instruction], instruction)
        if instruction in self._changed:
            return self._line_of_both("~", self._before[instruction], instruction)
        return DiffLine(" ", _text(instruction, {}), _text(instruction, {}), number, number)

    def _line_gone(self, instruction: Instruction) -> DiffLine:
        """The line of an instruction that was removed or moved away."""
        if (new := self._moved.get(instruction)) is not None:
            return self._line_of_both("<", instruction, new)
        text = _text(instruction, self._names)
        return DiffLine("-", text, None, _line_number(self._comparison.before, instruction), None)

    def _line_of_both(self, sign: Sign, before: Instruction, after: Instruction) -> DiffLine:
        changed = self._changed.get(after)
        with_metadata = changed is not None and any(change.kind == "metadata" for change in changed.changes)
        old = _text(before, self._names, with_metadata=with_metadata)
        new = _text(after, {}, with_metadata=with_metadata)
        numbers = _line_number(self._comparison.before, before), _line_number(self._comparison.after, after)
        return DiffLine(sign, old, new, *numbers)


def _line_number(module: Module, instruction: Instruction) -> int | None:
    span = instruction.span
    return module.source.position(span.start).line if span is not None and module.source.text else None


def _text(instruction: Instruction, names: Mapping[str, str], *, with_metadata: bool = False) -> str:
    """The text of an instruction with other names, and with metadata only if `with_metadata`."""
    taken = ", ".join(
        names.get(operand.name, operand.name) + "".join(f"#{i}" for i in instruction.operand_index(at))
        for at, operand in enumerate(instruction.operands)
    )
    attributes = "".join(
        # names of computations in attributes change in every compilation, and are no change
        f", {a.name}={renamed_value(a.value, names) if a.name in NAMING_ATTRIBUTES else a.value}"
        for a in instruction.attributes
        if a.name != "metadata" or with_metadata
    )
    name = names.get(instruction.name, instruction.name)
    root = "ROOT " if instruction.is_root else ""
    return f"{root}{name} = {instruction.shape} {instruction.opcode}({instruction.raw[0] or taken}){attributes}"


def _add_hunks(hunks: list[Hunk], lines: Sequence[DiffLine], heading: str, folded: int) -> int:
    """Adds the visible lines of a computation, in as many hunks as needed; returns the number of lines omitted."""
    near = {
        position
        for changed, line in enumerate(lines)
        if line.sign != " "
        for position in range(max(changed - _CONTEXT_LINES, 0), min(changed + _CONTEXT_LINES + 1, len(lines)))
    }
    visible: list[DiffLine] = []
    for position, line in enumerate(lines):
        if position in near:
            visible.append(line)
            continue
        if visible:
            hunks.append(Hunk(tuple(visible), heading, folded))
            visible, folded = [], 0
        folded += 1
    if visible:
        hunks.append(Hunk(tuple(visible), heading, folded))
        folded = 0
    return folded


# --- changes by cause ---
# `hlo diff OLD NEW --by source`: changes and costs for each line, scope, or argument of the user's program.


_KEY_UNITS: Mapping[By, Unit] = {"source": "source", "scope": "op_name", "argument": "op_name"}


def report_of_causes(comparison: ModuleDiff, by: By, input_facts: Mapping[str, Mapping[str, str | None]]) -> Report:
    """A row for each key whose instructions or costs differ, the largest change of bytes accessed first."""
    if by == "pass":
        raise HloError(
            "hlo diff does not support --by pass", hint="use --passes for the changes of each pass of one directory"
        )
    keys = keys_of(comparison.before, by), keys_of(comparison.after, by)
    costs = _costs_by_key(comparison.before, keys[0]), _costs_by_key(comparison.after, keys[1])
    changed, added, removed = _changes_by_key(comparison, keys)
    all_keys = sorted({*changed, *added, *removed, *costs[0], *costs[1]})
    none = KernelCost()
    causes = [
        _Cause(key, changed[key], added[key], removed[key], costs[0].get(key, none), costs[1].get(key, none))
        for key in all_keys
    ]
    differing = [cause for cause in causes if cause.differs]
    # bytes rather than counts: one large array matters more than ten renamed scalars
    differing.sort(key=lambda cause: (-abs(cause.change_bytes), -cause.changes, cause.key))
    columns = _cause_columns(by)
    table = Table("causes", columns, rows_from(columns, differing), noun=f"{by}s")
    return Report(
        "diff",
        _causes_answer(differing, by, len(all_keys)),
        numbers={"by": by, "keys": len(all_keys), "differing": len(differing)},
        parts=(table,),
        input=input_facts,
    )


@dataclass(frozen=True, slots=True)
class _Cause:
    """A key: the instructions with it that changed, were added, and were removed, and the costs before and after."""

    key: str
    changed: int
    added: int
    removed: int
    before: KernelCost
    after: KernelCost

    @property
    def changes(self) -> int:
        """The number of instructions that differ."""
        return self.changed + self.added + self.removed

    @property
    def change_bytes(self) -> int:
        """The bytes accessed that were added."""
        return self.after.bytes - self.before.bytes

    @property
    def differs(self) -> bool:
        """Whether an instruction or a cost does."""
        return bool(self.changes) or _figures(self.before) != _figures(self.after)


def _figures(cost: KernelCost) -> tuple[int, int, int]:
    return cost.flops, cost.bytes, cost.kernels


def _cause_columns(by: By) -> tuple[Column[_Cause], ...]:
    return (
        Column(by, by, _KEY_UNITS[by], role="name", of=lambda cause: cause.key),
        Column("changed", "changed", "count", total="sum", rank=6, of=lambda cause: cause.changed),
        Column("added", "added", "count", total="sum", rank=6, of=lambda cause: cause.added),
        Column("removed", "removed", "count", total="sum", rank=6, of=lambda cause: cause.removed),
        Column("change_bytes", "change", "bytes", total="sum", of=lambda cause: cause.change_bytes),
        Column("before_bytes", "before", "bytes", total="sum", group="accessed", rank=7,
               of=lambda cause: cause.before.bytes),
        Column("after_bytes", "after", "bytes", total="sum", group="accessed", like="before_bytes", rank=7,
               of=lambda cause: cause.after.bytes),
        Column("before_flops", "before", "flops", total="sum", group="flops", from_width=120, rank=4,
               of=lambda cause: cause.before.flops),
        Column("after_flops", "after", "flops", total="sum", group="flops", from_width=120, rank=4,
               of=lambda cause: cause.after.flops),
        Column("before_kernels", "before", "count", total="sum", group="kernels", from_width=120, rank=3,
               of=lambda cause: cause.before.kernels),
        Column("after_kernels", "after", "count", total="sum", group="kernels", from_width=120, rank=3,
               of=lambda cause: cause.after.kernels),
    )  # fmt: skip


def _costs_by_key(module: Module, keys: Keys) -> dict[str, KernelCost]:
    """The costs of the kernels with each key, loops as often as they run; an unknown trip count counts as 1."""
    costs: dict[str, KernelCost] = {}
    for computation, executions in sequential_executions(module).items():
        for kernel, cost in kernel_costs(computation.instructions).items():
            key = keys(kernel)
            # as often as it runs, so that a change in a loop has its weight
            costs[key] = costs.get(key, KernelCost()) + cost * executions.count
    return costs


def _changes_by_key(comparison: ModuleDiff, keys: tuple[Keys, Keys]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How many instructions with each key changed, were added, and were removed."""
    return (
        Counter(keys[1](each.after) for each in comparison.changed),
        Counter(map(keys[1], comparison.added)),
        Counter(map(keys[0], comparison.removed)),
    )


def _causes_answer(causes: Sequence[_Cause], by: By, keys: int) -> str:
    if not causes:
        return f"No differences by {by} ({format_count(keys, f'{by}s')})"
    key, size = causes[0].key, causes[0].change_bytes
    verb = "more" if size > 0 else "less"
    words = f"{len(causes):,} of {format_count(keys, f'{by}s')} differ"
    return f"{words}; {key} most: {format_bytes(abs(size))} {verb} accessed" if size else words


# --- the report ---
# `hlo diff OLD NEW`: whether two modules differ, the changes, and their effect on memory and cost.


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One of the two modules, with the name of its file and its stage."""

    module: Module
    path: str
    stage: str | None


def report_of_diff(
    comparison: ModuleDiff, before: DiffSide, after: DiffSide, view: View, arguments: Sequence[str]
) -> tuple[Report, bool]:
    """The answer, the numbers before and after, and the changes in the selected view; and whether there is any.

    With conditions, whether any does not hold.
    """
    facts = {"before": _side_facts(before), "after": _side_facts(after)}
    if view.by is not None:
        report = report_of_causes(comparison, view.by, facts)
        return replace(report, answer=answer_of_parts(comparison) or report.answer), view.is_finding(comparison)
    if view.conditions:
        comparison = without_form(comparison)
    differs = view.differs(comparison)
    fails = False
    parts: tuple[Part, ...] = () if differs else _nothing_changed(comparison, view)
    metrics: Mapping[str, Cell] = {}
    answer = answer_of(comparison) if differs else answer_of_same(comparison, view)
    is_partial = bool(_truncated_sides(comparison))
    if is_partial:
        answer = answer_of_parts(comparison, checks_conditions=bool(view.conditions))
    # what follows the end is missing on one side only, and would be the cause of every statement
    if is_partial and differs and view.name in ("statements", "rows"):
        parts = (_change_table(comparison, view),)
    elif differs and view.name in ("statements", "rows"):
        statements = statements_of(comparison)
        numbers = numbers_against(comparison, view)
        parts, metrics = _in_full(comparison, statements, numbers, view)
        answer = headline(statements) or answer
        if comparison.is_same_program:
            answer = _of_same_program(answer, _caveats_of(comparison, view))
        if view.conditions:
            failed = failures_of(view.conditions, comparison, statements, numbers)
            answer, fails = answer_of_failures(view.conditions, failed), bool(failed)
            parts = (*parts_of_failures(view.conditions, failed), *parts)
    elif differs:
        parts = (_in_brief(comparison, before, after, view),)
    report = Report(
        "diff",
        answer,
        numbers={
            "matched": comparison.matched,
            "changed": len(comparison.changed),
            "added": len(comparison.added),
            "removed": len(comparison.removed),
            "moved": len(comparison.moved),
            "header": len(comparison.header),
            "same_program": comparison.is_same_program,
            "same_text": is_same_text(comparison),
            **metrics,
        },
        parts=parts,
        next=_next_command(arguments, view, has_statements=bool(metrics.get("statements"))) if differs else (),
        notes=tuple(_notes(comparison, view)),
        input=facts,
    )
    return report, fails if view.conditions else view.is_finding(comparison)


def _side_facts(side: DiffSide) -> Mapping[str, str | None]:
    facts = {"path": side.path, "module": side.module.name, "stage": side.stage}
    return facts | {"problem": "truncated"} if side.module.is_truncated else facts


def _nothing_changed(comparison: ModuleDiff, view: View) -> tuple[Part, ...]:
    """The tables of a view without rows, so that a pipe has the same columns as with differences."""
    changes = _change_table(comparison, view)
    if view.name not in ("statements", "rows"):
        return (changes,)
    statements = Statements((), Fold())
    changes = with_statements(statements, changes)
    table = statement_table(statements, changes)
    if renaming_of(comparison).count:  # the only statement there is, for programs
        row = (1, "names", 0, None, None, answer_of_same(comparison, view), None)
        table = replace(table, rows=(row,))
    return (table, changes) if view.name == "statements" else (changes,)


def _in_full(
    comparison: ModuleDiff, statements: Statements, numbers: tuple[ModuleNumbers, ModuleNumbers], view: View
) -> tuple[tuple[Part, ...], Mapping[str, Cell]]:
    """Statements, the numbers, and every change, which people see in their own view; and all numbers."""
    old, new = numbers
    target = target_of(comparison.after) or target_of(comparison.before)
    changes = with_statements(statements, _change_table(comparison, view))
    tables = (
        *_summary_tables(old, new, target),
        _collective_table(old, new),
        _kind_table(comparison),
        *((_header_table(comparison),) if comparison.header else ()),
    )
    metrics: Mapping[str, Cell] = {
        "statements": records_of(statements),
        "before": _record_of(old, target),
        "after": _record_of(new, target),
    }
    statements_rows = statement_table(statements, changes)
    if view.name == "rows":
        return (*tables, changes, replace(statements_rows, main=False)), metrics
    lines = Passage("numbers", tuple(in_words(worth_showing(tuple(numbers_between(old, new, target))))))
    moved = len(comparison.moved) if view.with_schedule else 0
    passage = passage_of(statements, moved, lines, with_first=bool(view.conditions))
    listed = statements.unexplained.rows + sum(
        each.fold.rows for each in statements.ordered if each.fold.rows < _MIN_FOLD
    )
    # statements that explain less than half of the rows would be most of the screen and little of the answer
    is_open = 2 * listed > len(changes.rows) or not statements.ordered
    quiet = (replace(table, person=False) for table in tables)
    return (*((passage,) if passage else ()), statements_rows, lines, *quiet, replace(changes, person=is_open)), metrics


_MIN_FOLD = 3  # chosen: the sentence would take as much room
"""Statements of fewer rows fold nothing: a reader wants to see the rows."""


def _in_brief(comparison: ModuleDiff, before: DiffSide, after: DiffSide, view: View) -> Part:
    match view.name:
        case "stat":
            return _stat_table(comparison)
        case "name-only":
            return _change_table(comparison, view).select(["name"])

    return _text_diff(comparison, before.path, after.path, with_schedule=view.with_schedule)


def answer_of(comparison: ModuleDiff) -> str:
    """The numbers of matched, changed, added, removed, and moved instructions, with the most frequent changes."""
    changed, matched = len(comparison.changed), comparison.matched
    instructions = format_count(matched, "instructions")
    kinds = _kind_counts(comparison)
    if not changed:
        words = f"{instructions} matched, 0 changed"
    else:
        amount = "all" if changed == matched else f"{changed:,}"
        words = f"{instructions} matched, {amount} changed ({_describe_kinds(kinds, matched)})"
    moved = f", {len(comparison.moved):,} moved" if comparison.moved else ""
    header = f"; header changed: {', '.join(c.name for c in comparison.header)}" if comparison.header else ""
    return f"{words}; {len(comparison.added):,} added, {len(comparison.removed):,} removed{moved}{header}"


def _notes(comparison: ModuleDiff, view: View) -> Iterator[Diagnostic]:
    """Notes on names that matter, and on words of --ignore that name neither a kind of change nor anything there."""
    before, after = comparison.before, comparison.after
    renaming = renaming_of(comparison)
    if comparison.is_same_program and renaming.changes_cache_key:
        words = f"names of functions are part of JAX's compilation cache key: {_names_of(renaming)}"
        # two runs of the same program then compile twice
        yield Diagnostic("note", words, hint="see https://github.com/jax-ml/jax/issues/38828")
    texts = (before.source.text, after.source.text)
    for word in view.ignored if all(texts) else ():  # a proto has no text
        if word not in KINDS and not any(word in text for text in texts):
            kinds = ", ".join(kind.replace("_", " ") for kind in KINDS)
            yield Diagnostic("note", f"--ignore {word} has no effect", hint=f"it takes an attribute, or one of {kinds}")


def answer_of_same(comparison: ModuleDiff, view: View) -> str:
    """The answer if nothing differs, or nothing but names; what could not be compared is said.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> one, two = (parse_module(f"ENTRY e {{ ROOT {name} = s8[2] parameter(0) }}") for name in "pq")
    >>> answer_of_same(diff(one, two), View("statements", (), with_schedule=False))
    'Same program, but not the same text: instruction p → q (1 instruction)'
    """
    instructions = format_count(comparison.matched, "instructions")
    renaming = renaming_of(comparison)
    caveats = _caveats_of(comparison, view)
    if renaming.count:
        words = f"{'No differences' if caveats else 'Same program'}, but not the same text: {_names_of(renaming)}"
        words = f"{words} ({instructions})"
    elif view.exact and not is_same_text(comparison):
        words = f"Same program, but not the same text: order of lines or annotations ({instructions})"
    else:
        words = f"No differences ({instructions})"
    if comparison.moved:
        words += f"; {len(comparison.moved):,} at a different schedule position"
    return words + caveats


def _caveats_of(comparison: ModuleDiff, view: View) -> str:
    """What was not compared, in the words that an answer ends with; empty if everything was."""
    caveats = [f"ignoring {', '.join(view.ignored).replace('_', ' ')}"] if view.ignored else []
    if number := omitted_constants(comparison):
        caveats.append(f"{format_count(number, 'omitted constants')} not compared")
    if comparison.before.errors or comparison.after.errors:
        caveats.append("lines with errors not compared")
    return "".join(f"; {each}" for each in caveats)


def _of_same_program(answer: str, caveats: str) -> str:
    """An answer about names: that the program is the same is only said if everything was compared."""
    _, prefix, words = answer.rpartition("Same program: ")
    if caveats:
        return f"No differences but names: {words}{caveats}" if prefix else f"{answer}{caveats}"
    return answer if prefix else f"Same program: {answer[:1].lower()}{answer[1:]}"


def _names_of(renaming: Renaming) -> str:
    """The names that differ: of the module, of computations, and of instructions."""
    texts = [f"module {renaming.module}"] if renaming.module is not None else []
    for noun, changes in (("computation", renaming.computations), ("instruction", renaming.instructions)):
        if len(changes) == 1:
            texts.append(f"{noun} {changes[0]}")
        elif changes:
            texts.append(f"{format_count(len(changes), f'{noun}s')}, such as {changes[0]}")
    return "; ".join(texts)


def _kind_counts(comparison: ModuleDiff) -> Counter[str]:
    """The number of changed instructions by kind of change."""
    counts = Counter(kind for each in comparison.changed for kind in {change.kind for change in each.changes})
    return Counter({kind: counts[kind] for kind in sorted(counts, key=KINDS.index)})


def _describe_kinds(kinds: Counter[str], of: int) -> str:
    def words(kind: str, number: int) -> str:
        return kind.replace("_", " ") + (f" {number:,}" if number < of else "")

    ranked = kinds.most_common()
    listed = [words(*each) for each in ranked[:_MAX_KINDS]]
    more = f", and {format_count(len(ranked) - _MAX_KINDS, 'other kinds')}" if len(ranked) > _MAX_KINDS else ""
    return ", ".join(listed) + more


_MAX_KINDS = 3  # the answer is one line


def _kind_table(comparison: ModuleDiff) -> Table:
    columns = (
        Column("kind", "change", of=lambda kind, number: kind.replace("_", " ")),
        Column("instructions", "instructions", "count", of=lambda kind, number: number),
    )
    rows = rows_from_tuples(columns, _kind_counts(comparison).most_common())
    return Table("change_kinds", columns, rows, noun="kinds", main=False, person=False)


def _next_command(arguments: Sequence[str], view: View, *, has_statements: bool) -> tuple[str, ...]:
    if "-" in arguments or not arguments:
        return ()
    paths = " ".join(arguments)
    other = "--rows" if view.name == "statements" and has_statements else "--text" if view.name != "text" else "--stat"
    return (f"hlo diff {paths} {other}",) if len(arguments) == 2 else ()
