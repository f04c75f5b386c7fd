"""`hlo run DUMP --probe nan`: the first instruction that makes such a number, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.evaluate.probe import Occurrence, Probe
from hlo_cli.analysis.evaluate.run import Run
from hlo_cli.analysis.evaluate.settings import PROBES
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.ir import opcodes
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic

_DEVICE: Final = Column("device", "device", "count")
_COLUMNS: Final = (
    Column("value", "value", "name"),
    Column("opcode", "opcode", "opcode"),
    Column("count", "count", "count"),
    Column("elements", "of", "count"),
    Column("execution", "run", "count"),
    _DEVICE,
    Column("origin", "why"),
    Column("computation", "computation", "name"),
    Column("source", "source", "source"),
)


def report_of_probe(loaded: Loaded, run: Run, probe: Probe, notes: Sequence[Diagnostic]) -> Report:
    """Every instruction with such elements, in the order in which they ran, the first that makes them first."""
    seen = list(probe.found.values())
    if (first := probe.first) is not None:
        seen.remove(first)
        seen.insert(0, first)
    rows = tuple(_row(each, loaded) for each in seen)
    hidden = replace(_DEVICE, person=False)
    columns = tuple(hidden if each is _DEVICE and run.devices == 1 else each for each in _COLUMNS)
    return Report(
        "run",
        _answer(probe, run),
        version=1,
        numbers={
            "probe": probe.wanted,
            "values": len(rows),
            "first": None if first is None else first.instruction.name,
            "executed_instructions": run.executed,
        },
        parts=(Table("sightings", columns, rows, noun="values"),),
        notes=(*notes, *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _answer(probe: Probe, run: Run) -> str:
    what = PROBES[probe.wanted]
    first = probe.first
    executed = format_count(run.executed, "instructions")
    if run.devices > 1:
        executed = f"{executed} on {run.devices:,} devices"
    if first is None:
        return f"No {what} elements in {executed}"
    verb = "makes" if first.made else "is the first with"
    return (
        f"{first.instruction.name} {verb} {what} elements ({first.count:,} of {first.elements:,}); checked {executed}"
    )


def _row(occurrence: Occurrence, loaded: Loaded) -> Row:
    instruction = occurrence.instruction
    location = loaded.module.location(instruction)
    return (
        instruction.name,
        instruction.opcode,
        occurrence.count,
        occurrence.elements,
        occurrence.execution,
        occurrence.device,
        _why(occurrence),
        instruction.computation.name,
        str(location) if location is not None else None,
    )


def _why(occurrence: Occurrence) -> str:
    if occurrence.operands:
        return f"from {', '.join(operand.name for operand in occurrence.operands)}"
    return opcodes.CONSTANT if occurrence.instruction.opcode == opcodes.CONSTANT else "made here"
