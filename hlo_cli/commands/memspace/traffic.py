"""`hlo memspace DUMP --traffic`: transfers between memory spaces, and their distance from the first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.schedule.transfers import Transfer, transfers_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.report.text import Passage

_ONCE = 2


def report_of_traffic(loaded: Loaded, memory: MemoryAnalysis, where: str | None) -> Report:
    """One row for each pair of memory spaces, and one for each transfer."""
    transfers = transfers_of(memory.sequence)
    everything = _transfer_table(memory, transfers)
    table = everything if where is None else rows_where(where, everything)
    checked = Passage("nothing", (f"Checked {format_count(len(memory.sequence), 'instructions')}.",))
    parts = _directions_table(memory, transfers), table, _several_table(memory, transfers)
    return Report(
        "memspace",
        _answer(memory, transfers),
        numbers={
            "transfers": len(transfers),
            "bytes": sum(transfer.shape.padded_bytes for transfer in transfers),
            "prefetches": sum(transfer.is_prefetch for transfer in transfers),
            "values_in_several_spaces": len({transfer.source for transfer in transfers}),
        },
        parts=parts if transfers else (checked, table),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _answer(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> str:
    if not transfers:
        return "No transfers between memory spaces" + _only_space(memory)
    moved = format_bytes(sum(transfer.shape.padded_bytes for transfer in transfers))
    prefetched = [transfer for transfer in transfers if transfer.is_prefetch]
    late = sum(transfer.done_step == transfer.start_step + 1 for transfer in transfers)
    words = f"{format_count(len(transfers), 'transfers')} {'moves' if len(transfers) == 1 else 'move'} {moved}"
    if prefetched:
        words += f"; {len(prefetched):,} {'is a prefetch' if len(prefetched) == 1 else 'are prefetches'}"
    if late:
        words += f"; {format_count(late, 'transfers')} {'has' if late == 1 else 'have'} no step between start and done"
    return words


def _only_space(memory: MemoryAnalysis) -> str:
    spaces = [space.name for space in memory.spaces]
    return f": all values are in {spaces[0]}" if len(spaces) == 1 else ""


def _several_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    """Values that are copied more than once, with the memory spaces that hold each, in the order of the copies."""
    spaces: dict[Instruction, list[int]] = {}
    for transfer in transfers:
        visited = spaces.setdefault(transfer.source, [transfer.from_space])
        visited.append(transfer.to_space)
    columns = (
        Column("value", "value", "name", role="name"),
        Column("spaces", "spaces"),
        Column("copies", "copies", "count"),
    )
    rows = tuple(
        (
            source.name,
            " → ".join(space_name(space, memory.target) for space in dict.fromkeys(visited)),
            len(visited) - 1,
        )
        for source, visited in spaces.items()
        if len(visited) > _ONCE
    )
    title = "Copied more than once"
    return Table("repeated_copies", columns, rows, title=title, noun="values", main=False, limit=5, person=bool(rows))


def _directions_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    directions: dict[tuple[int, int], list[Transfer]] = {}
    for transfer in transfers:
        directions.setdefault((transfer.from_space, transfer.to_space), []).append(transfer)
    columns = (
        Column("from", "from"),
        Column("to", "to"),
        Column("transfers", "transfers", "count", total="sum"),
        Column("values", "values", "count"),
        Column("bytes", "", "bytes", total="sum"),
        Column("opcodes", "opcodes"),
    )
    rows = [_direction_row(memory, *spaces, moved) for spaces, moved in directions.items()]
    rows.sort(key=lambda row: (str(row[0]), str(row[1])))
    return Table("directions", columns, tuple(rows), noun="directions", main=False)


def _direction_row(memory: MemoryAnalysis, from_space: int, to_space: int, moved: Sequence[Transfer]) -> Row:
    opcodes = Counter(transfer.instruction.opcode for transfer in moved)
    return (
        space_name(from_space, memory.target),
        space_name(to_space, memory.target),
        len(moved),
        len({transfer.source for transfer in moved}),
        sum(transfer.shape.padded_bytes for transfer in moved),
        ", ".join(f"{opcode} {number}" for opcode, number in opcodes.most_common()),
    )


def _transfer_table(memory: MemoryAnalysis, transfers: Sequence[Transfer]) -> Table:
    columns = (
        Column("start", "start", "step"),
        Column("done", "done", "step"),
        Column("first_use_step", "first use", "step"),
        Column("prefetch_distance", "distance", "count"),
        Column("bytes", "", "bytes", total="sum"),
        Column("from", "from"),
        Column("to", "to"),
        Column("instruction", "instruction", "name", role="name"),
        Column("source_value", "value", "name", role="name"),
        Column("shape", "shape", "shape", rank=5),
        Column("source", "source", "source", from_width=120, rank=4),
    )
    return Table("transfers", columns, tuple(_transfer_row(memory, each) for each in transfers), noun="transfers")


def _transfer_row(memory: MemoryAnalysis, transfer: Transfer) -> Row:
    location = memory.module.location(transfer.instruction)
    return (
        transfer.start_step,
        transfer.done_step,
        transfer.used_step,
        transfer.prefetch_distance,
        transfer.shape.padded_bytes,
        space_name(transfer.from_space, memory.target),
        space_name(transfer.to_space, memory.target),
        transfer.instruction.name,
        transfer.source.name if transfer.source is not transfer.instruction else None,
        str(transfer.shape),
        str(location) if location is not None else None,
    )
