"""`hlo memspace --oom FILE [DUMP]`: an out-of-memory error as a table."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.memory.oom_instructions import candidate_instructions
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.ir.compiler_files.out_of_memory import MemoryPart, OomAllocation, OutOfMemory
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column, Share
from hlo_cli.report.facts import Amount, Fact, Facts
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.source import Source
from hlo_cli.syntax.compiler_files.oom import newest, parse_out_of_memory

_LONGEST_ABBREVIATION = 5
_WHEN = {"compile": "during compilation", "load": "while loading the program", "run": "during execution"}


def report_of_message(source: Source, loaded: Loaded | None) -> Report:
    """The last message in a text: requested and available sizes, the program's parts, and the largest allocations."""
    messages = parse_out_of_memory(source, loaded.module if loaded is not None else None)
    message = newest(messages)
    return Report(
        "memspace",
        _answer(message),
        numbers={
            "messages": len(messages),
            "space": message.space or None,
            "stage": message.stage,
            "used_bytes": message.used_bytes,
            "limit_bytes": message.limit_bytes,
            "exceeded_by_bytes": message.exceeded_by_bytes,
            "listed_bytes": message.allocated_bytes,
            "padding_bytes": message.padding_bytes,
        },
        parts=_parts(message, loaded),
        next=("hlo help memory",),
        notes=notes_of(loaded) if loaded is not None else (),
        input=input_facts(loaded) if loaded is not None else {"path": source.name, "line": _line(source, message)},
    )


def _line(source: Source, message: OutOfMemory) -> int:
    return source.position(message.span.start).line


def _answer(message: OutOfMemory) -> str:
    space = message.space.upper() if len(message.space) <= _LONGEST_ABBREVIATION else message.space.capitalize()
    space = space or "memory"
    words = f"Out of {space} {_WHEN[message.stage]}"
    if message.used_bytes is not None:
        words += f": {format_bytes(message.used_bytes)} requested"
        words += f" of {format_bytes(message.limit_bytes)}" if message.limit_bytes is not None else ""
    if message.exceeded_by_bytes:
        words += f" ({format_bytes(message.exceeded_by_bytes)} over the limit)"
    if message.allocations and message.padding_bytes:
        share = format_percent(message.padding_bytes / max(message.allocated_bytes, 1))
        words += f"; {share}% of the {format_count(len(message.allocations), 'listed allocations')} is padding"
    return words


def _parts(message: OutOfMemory, loaded: Loaded | None) -> tuple[Part, ...]:
    parts: list[Part] = []
    for name, title, facts in (
        ("usage", "", _facts(message.usage)),
        ("program", "Program allocations", _facts(message.program) + _fragmentation(message)),
        ("assignment", "", _stats(message)),
    ):
        parts += [Facts(name, facts, title=title)] if facts else []
    if message.chunks:
        parts.append(_chunks_table(message))
    return (*parts, _allocations_table(message, loaded))


def _facts(parts: Sequence[MemoryPart]) -> tuple[Fact, ...]:
    return tuple(_fact(part.name, part.size_bytes) for part in parts)


def _fact(name: str, size_bytes: int | None) -> Fact:
    return Fact(name, (Amount("bytes", UNKNOWN if size_bytes is None else size_bytes, "bytes"),))


def _fragmentation(message: OutOfMemory) -> tuple[Fact, ...]:
    temp = message.temp
    if temp is None or temp.fragmentation_bytes is None:
        return ()
    return (_fact("fragmentation", temp.fragmentation_bytes),)


def _stats(message: OutOfMemory) -> tuple[Fact, ...]:
    stats = message.stats
    if stats is None:
        return ()
    return (
        _fact("parameters", stats.parameter_bytes),
        _fact("constants", stats.constant_bytes),
        _fact("live-out", stats.maybe_live_out_bytes),
        _fact("temporaries", stats.preallocated_temp_bytes),
        _fact("total", stats.total_bytes),
    )


def _chunks_table(message: OutOfMemory) -> Table:
    """The chunks that were allocated when the allocation failed, grouped by size, the largest total first."""
    columns = (
        Column("chunks", "chunks", "count", total="sum"),
        Column("chunk_bytes", "chunk size", "bytes"),
        Column("bytes", "", "bytes", total="sum"),
    )
    groups = sorted(message.chunks, key=lambda group: -group.count * group.size_bytes)
    rows = tuple((group.count, group.size_bytes, group.count * group.size_bytes) for group in groups)
    return Table("chunks", columns, rows, title="In use", noun="sizes", main=False, limit=10)


def _allocations_table(message: OutOfMemory, loaded: Loaded | None) -> Table:
    columns = (
        Column("bytes", "", "bytes", total="sum"),
        Column("logical_bytes", "data", "bytes", total="sum", person=False),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
        Column("kind", "kind", rank=6),
        Column("instruction", "instruction", "name", role="name"),
        Column("shape", "shape", "shape"),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", rank=4),
    )
    rows = tuple(_row(allocation, loaded) for allocation in message.allocations)
    return Table("allocations", columns, rows, noun="allocations", limit=10, person=bool(rows))


def _row(allocation: OomAllocation, loaded: Loaded | None) -> Row:
    candidates = candidate_instructions(allocation, loaded.module) if loaded is not None else ()
    named = str(allocation.place) if allocation.place is not None else allocation.label or allocation.opcode
    source = f"{allocation.source_file}:{allocation.source_line}" if allocation.source_line else allocation.source_file
    if candidates and loaded is not None:
        named = named if len(candidates) > 1 else candidates[0].name
        location = loaded.module.location(candidates[0])
        source = source or (str(location) if location is not None else "")
    size, padding = allocation.size_bytes, allocation.padding_bytes
    return (
        size,
        None if size is None else size - padding,
        padding / size if size else None,
        allocation.kind or allocation.tag or None,
        named or None,
        str(allocation.shape) if allocation.shape is not None else None,
        allocation.op_name or None,
        source or None,
    )
