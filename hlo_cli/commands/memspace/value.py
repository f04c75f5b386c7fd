"""`hlo memspace DUMP --value NAME`: the live range of one value, its users, and the values that share its memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.dataflow.async_chains import async_chains
from hlo_cli.analysis.dataflow.positions import places_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow, dataflow_of
from hlo_cli.analysis.dataflow.value_uses import uses_of_value, value_at
from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.facts import Amount, Fact, Facts
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import HloError

_NAME: Final = re.compile(r"%?+([^{}\s]++)(?:\{([0-9, ]*+)\})?+")


def report_of_value(loaded: Loaded, memory: MemoryAnalysis, name: str) -> Report:
    """The definition, uses, and end of a value; its aliases, and the values in the same memory at other times."""
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
            _holders_table(memory, value),
            _neighbours_table(memory, value),
        ),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _chosen(memory: MemoryAnalysis, dataflow: Dataflow, text: str) -> tuple[MemorySpaceUsage, LiveValue]:
    match = _NAME.fullmatch(text)
    if match is None:
        raise HloError(f"expected the name of a value, found {text}", hint="fusion.2, or fusion.2{1} for an element")
    instruction = memory.module.instruction(match[1])
    index = tuple(int(part) for part in match[2].split(",")) if match[2] else ()
    found = [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction and not v.is_phi]
    found = found or [(s, v) for s in memory.spaces for v in s.values if v.instruction is instruction]
    exact = [pair for pair in found if pair[1].index == index]
    if exact or (found and not match[2]):
        return max(exact or found, key=lambda pair: pair[1].padded_bytes)
    handed_on = _made_elsewhere(memory, dataflow, instruction, index)
    if handed_on is not None:
        return handed_on
    if found:
        raise HloError(f"{text} is no value", hint=f"there are {', '.join(str(value) for _, value in found[:5])}")
    raise HloError(f"{instruction.name} makes no value that is in memory", hint="--at NAME shows what is alive then")


def _made_elsewhere(
    memory: MemoryAnalysis, dataflow: Dataflow, instruction: Instruction, index: ShapeIndex
) -> tuple[MemorySpaceUsage, LiveValue] | None:
    """The value that an instruction only passes on, at an index of its result."""
    value = value_at(dataflow, instruction, index)
    if value is None:
        return None
    maker, there = dataflow.places.instructions[dataflow.places.owner[value]], dataflow.places.index(value)
    return next(((s, v) for s in memory.spaces for v in s.values if (v.instruction, v.index) == (maker, there)), None)


def _uses(memory: MemoryAnalysis, dataflow: Dataflow, value: LiveValue) -> tuple[Instruction, ...]:
    made = value_at(dataflow, value.instruction, value.index)
    uses = uses_of_value(dataflow, made) if made is not None else ()
    return tuple(sorted((use for use in uses if use in memory.positions), key=memory.positions.__getitem__))


def _answer(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue, uses: Sequence[Instruction]) -> str:
    size = format_bytes(value.padded_bytes)
    life = f"{value} takes {size} of {space.name} from step {value.start} to {value.end} of {len(memory.sequence)}"
    if value.end >= len(memory.sequence) - 1:
        return f"{life}: it lives to the end"
    return f"{life}: {uses[-1].name} uses it last" if uses else f"{life}: nothing uses it"


def _facts(memory: MemoryAnalysis, space: MemorySpaceUsage, value: LiveValue) -> Facts:
    instruction = value.instruction
    location = memory.module.location(instruction)
    allocation = memory.allocation_of(value)
    place = "" if value.offset is None else f"at byte {value.offset:,}"
    facts = [
        Fact(
            "defined", (Amount("step", value.start, "step"),), f"{instruction.opcode} in {instruction.computation.name}"
        ),
        Fact(
            "freed", (Amount("step", value.end, "step"),), f"{format_count(value.end - value.start + 1, 'steps')} later"
        ),
        Fact("kind", (), f"{value.kind} in {space.name}"),
        Fact("shape", (Amount("bytes", value.padded_bytes, "bytes"),), str(value.shape)),
        Fact("data", (Amount("bytes", value.logical_bytes, "bytes"),)),
    ]
    if allocation is not None:
        of_it = (Amount("bytes", allocation.size, "bytes"),)
        facts.append(Fact("allocation", of_it, f"number {allocation.index} {place}".rstrip()))
    if instruction.metadata.op_name:
        facts.append(Fact("from", (), instruction.metadata.op_name))
    if location is not None:
        facts.append(Fact("source", (), str(location)))
    return Facts("live_range", tuple(facts))


def _uses_table(memory: MemoryAnalysis, uses: Sequence[Instruction]) -> Table:
    columns = (
        Column("step", "step", "step"),
        Column("use", "used by", "name", role="name"),
        Column("opcode", "opcode", "opcode"),
        Column("computation", "in", "name", rank=3),
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


def _holders_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    rows = tuple(_value_row(other) for other in memory.holders_of(value) if other is not value)
    title = "The same memory under other names"
    return Table("aliases", _VALUE_COLUMNS, rows, title=title, noun="values", main=False, limit=10, person=bool(rows))


def _neighbours_table(memory: MemoryAnalysis, value: LiveValue) -> Table:
    """Values of other buffers in the same memory at other times."""
    allocation = memory.allocation_of(value)
    others = allocation.values if allocation is not None else ()
    rows = tuple(_value_row(other) for other in others if _overlaps(value, other))
    title = "In the same place at other times"
    return Table(
        "memory_reuses", _VALUE_COLUMNS, rows, title=title, noun="values", main=False, limit=5, person=bool(rows)
    )


def _overlaps(value: LiveValue, other: LiveValue) -> bool:
    if other.buffer == value.buffer or value.offset is None or other.offset is None:
        return False
    return other.offset < value.offset + value.padded_bytes and value.offset < other.offset + other.padded_bytes


def _value_row(value: LiveValue) -> Row:
    return value.start, value.end, value.padded_bytes, value.kind, str(value), str(value.shape)
