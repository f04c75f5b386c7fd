"""The table of blocks that moved between two orders: old and new steps, and the reason for each move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo_cli.analysis.memory.assignment import memory_delta
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.schedule.async_overlap import is_end, is_start
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.transform.reorder import MovedBlock

_COLUMNS = (
    Column("from_step", "from", "step"),
    Column("to_step", "to", "step"),
    Column("distance", "distance", "count", from_width=120),
    Column("instructions", "count", "count", rank=4),
    Column("first", "first", "name", role="name"),
    Column("last", "last", "name", rank=2),
    Column("reason", "reason", rank=5),
    Column("new_predecessor", "now after", "name", rank=3),
    Column("growth_bytes", "memory change", "bytes", person=False),
    Column("computation", "computation", "name", from_width=120),
    Column("op_name", "op_name", "op_name", from_width=200, rank=1),
)


def moved_table(old: Module, new: Module, blocks: Sequence[MovedBlock]) -> Table:
    """One row for each block, with the steps of its first instruction in both orders."""
    before, after = memory_delta(order_independent_facts(old)).positions, memory_delta(order_independent_facts(new))
    users: dict[Instruction, Instruction] = {}
    for user in new.instructions:
        for operand in user.operands:
            users.setdefault(operand, user)

    def row(block: MovedBlock) -> Row:
        start, end = before.get(block.before[0]), after.positions.get(block.instructions[0])
        distance = None if start is None or end is None else end - start
        first, last = block.instructions[0], block.instructions[-1]
        growth = sum(after.bytes.get(instruction, 0) for instruction in block.instructions)
        cells: tuple[Cell, ...] = (
            start,
            end,
            distance,
            len(block.instructions),
            first.name,
            last.name if last is not first else None,
            None if not distance else _reason(block, growth, users, is_sooner=distance < 0),
            block.follows.name if block.follows is not None else None,
            growth,
            first.computation.name,
            first.metadata.op_name or None,
        )
        return cells

    several = any(len(block.instructions) > 1 for block in blocks)
    columns = tuple(replace(each, person=several) if each.name == "last" else each for each in _COLUMNS)
    return Table("moved_blocks", columns, tuple(map(row, blocks)), noun="blocks", title="Moved blocks")


def _reason(block: MovedBlock, growth: int, users: Mapping[Instruction, Instruction], *, is_sooner: bool) -> str | None:
    """The likely reason for a move, judged by the block alone."""
    when = "sooner" if is_sooner else "later"
    if any(map(is_start, block.instructions)):
        return f"starts {when}"
    if any(map(is_end, block.instructions)):
        return f"ends {when}"
    if growth and (growth < 0) == is_sooner:
        return f"{'frees' if growth < 0 else 'allocates'} {format_bytes(abs(growth))} {when}"
    user = users.get(block.instructions[-1])
    return f"for {user.name}" if is_sooner and user is not None else None
