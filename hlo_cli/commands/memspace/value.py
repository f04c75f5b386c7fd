"""`hlo memspace DUMP --value NAME`: the live range of one value, its users, and the values that share its memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.dataflow.flat_schedule import async_chains, places_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow, dataflow_of, uses_of_value, value_at
from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Amount, Column, Fact, Facts, Row, Table
from hlo_cli.source import HloError

_NAME: Final = re.compile(r"%?+([^{}\s]++)(?:\{([0-9, ]*+)\})?+")


def report_of_value(loaded: Loaded, memory: MemoryAnalysis, name: str) -> Report:
    """The live range and uses of a value, its aliases, and the values in the same memory at other times."""
    places = places_of(memory.module)
    dataflow = dataflow_of(places, async_chains(places.instructions))
    space, value = _chosen(memory, dataflow, name)
    uses = _uses(memory, dataflow, value)
    return Report(
        "memspace",
        _answer(memory, space, value, uses),
        numbers={
            "value": str(value),
            "space": space.name,
            "kind": value.kind,
            "start": value.start,
            "end": value.end,
            "logical_bytes": value.logical_bytes,
            "padded_bytes": value.padded_bytes,
            "uses": len(uses),
        },
        parts=(
            _facts(memory, space, value),
            _uses_table(memory, uses),
            _aliases_table(memory, value),
            _same_memory_table(memory, value),
        ),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _chosen(memory: MemoryAnalysis, dataflow: Dataflow, text: str) -> tuple[MemorySpaceUsage, LiveValue]:
    match = _NAME.fullmatch(text)
    if match is None:
        raise HloError(
            f"invalid value name '{text}'", hint="use a name such as fusion.2, or fusion.2{1} for a tuple element"
        )
    instruction = memory.module.instruction(match[1])
    index = tuple(int(part) for part in match[2].split(",")) if match[2] else ()
    found = [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction and not v.is_phi]
    found = found or [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction]
    exact = [pair for pair in found if pair[1].index == index]
    if exact or (found and not match[2]):
        return max(exact or found, key=lambda pair: pair[1].padded_bytes)
    forwarded = _forwarded_value(memory, dataflow, instruction, index)
    if forwarded is not None:
        return forwarded
    if found:
        raise HloError(
            f"value '{text}' not found", hint=f"available: {', '.join(str(value) for _, value in found[:5])}"
        )
    is_executed = instruction in memory.positions
    hint = f"use --at {instruction.name} to list values live at that point" if is_executed else None
    raise HloError(f"'{instruction.name}' does not define a value in memory", hint=hint)


def _forwarded_value(
    memory: MemoryAnalysis, dataflow: Dataflow, instruction: Instruction, index: ShapeIndex
) -> tuple[MemorySpaceUsage, LiveValue] | None:
    """The value that an instruction only forwards, at an index of its result."""
    value = value_at(dataflow, instruction, index)
    if value is None:
        return None
    definition = dataflow.places.instructions[dataflow.places.owner[value]], dataflow.places.index(value)
    return next(((s, v) for s in memory.spaces for v in s.values if (v.instruction, v.index) == definition), None)


def _uses(memory: MemoryAnalysis, dataflow: Dataflow, value: LiveValue) -> tuple[Instruction, ...]:
    definition = value_at(dataflow, value.instruction, value.index)
    uses = uses_of_value(dataflow, definition) if definition is not None else ()
    return tuple(sorted((use for use in uses if use in memory.positions), key=memory.positions.__getitem__))


def _answer(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue, uses: Sequence[Instruction]) -> str:
    size = format_bytes(value.padded_bytes)
    steps = f"steps {value.start:,}–{value.end:,} of {len(memory.sequence):,}"
    live_range = f"{value} occupies {size} of {space.name} in {steps}"
    if value.end >= len(memory.sequence) - 1:
        return f"{live_range}; live until the end"
    return f"{live_range}; last used by {uses[-1].name}" if uses else f"{live_range}; never used"


def _facts(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue) -> Facts:
    instruction = value.instruction
    location = memory.module.location(instruction)
    allocation = memory.allocation_of(value)
    offset = "" if value.offset is None else f", offset {value.offset:,}"
    facts = [
        Fact(
            "defined", (Amount("step", value.start, "step"),), f"{instruction.opcode} in {instruction.computation.name}"
        ),
        Fact(
            "freed",
            (Amount("step", value.end, "step"),),
            f"live for {format_count(value.end - value.start + 1, 'steps')}",
        ),
        Fact("kind", (), f"{value.kind} in {space.name}"),
        Fact("shape", (Amount("bytes", value.padded_bytes, "bytes"),), str(value.shape)),
        Fact("data", (Amount("bytes", value.logical_bytes, "bytes"),)),
    ]
    if allocation is not None:
        amount = (Amount("bytes", allocation.size, "bytes"),)
        facts.append(Fact("allocation", amount, f"index {allocation.index}{offset}"))
    if instruction.metadata.op_name:
        facts.append(Fact("from", (), instruction.metadata.op_name))
    if location is not None:
        facts.append(Fact("source", (), str(location)))
    return Facts("live_range", tuple(facts))


def _uses_table(memory: MemoryAnalysis, uses: Sequence[Instruction]) -> Table:
    columns = (
        Column("step", "step", "step"),
        Column("user", "used by", "name", role="name"),
        Column("opcode", "opcode", "opcode"),
        Column("computation", "computation", "name", rank=3),
        Column("op_name", "op_name", "op_name", rank=2),
    )
    rows = tuple(
        (memory.positions[use], use.name, use.opcode, use.computation.name, use.metadata.op_name or None)
        for use in uses
    )
    return Table("uses", columns, rows, noun="uses", limit=10, person=bool(rows))


_VALUE_COLUMNS: Final = (
    Column("start", "start", "step"),
    Column("end", "end", "step"),
    Column("bytes", "", "bytes"),
    Column("kind", "kind"),
    Column("value", "value", "name", role="name"),
    Column("shape", "shape", "shape"),
)


def _aliases_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    rows = tuple(_value_row(other) for other in memory.holders_of(value) if other is not value)
    title = "Aliased values (same buffer)"
    return Table("aliases", _VALUE_COLUMNS, rows, title=title, noun="values", main=False, limit=10, person=bool(rows))


def _same_memory_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    """Values of other buffers in the same memory at other times."""
    allocation = memory.allocation_of(value)
    others = allocation.values if allocation is not None else ()
    rows = tuple(_value_row(other) for other in others if _overlaps(value, other))
    title = "Same memory at other times"
    return Table(
        "memory_reuses", _VALUE_COLUMNS, rows, title=title, noun="values", main=False, limit=5, person=bool(rows)
    )


def _overlaps(value: LiveValue, other: LiveValue) -> bool:
    if other.buffer == value.buffer or value.offset is None or other.offset is None:
        return False
    return other.offset < value.offset + value.padded_bytes and value.offset < other.offset + other.padded_bytes


def _value_row(value: LiveValue) -> Row:
    return value.start, value.end, value.padded_bytes, value.kind, str(value), str(value.shape)
