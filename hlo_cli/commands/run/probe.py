"""`hlo run DUMP --probe nan`: the first instruction that makes such a number, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.evaluate.run import Occurrence, Probe, Run, count_of
from hlo_cli.analysis.evaluate.settings import PROBES
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.ir import opcodes
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
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
    Column("reaches_result", "in result", "flag"),
    Column("computation", "computation", "name"),
    Column("source", "source", "source"),
)
_SOURCES: Final = {opcodes.CONSTANT: opcodes.CONSTANT, opcodes.PARAMETER: "argument"}
"""Where elements come from that no operation makes."""


def report_of_probe(loaded: Loaded, run: Run, probe: Probe, notes: Sequence[Diagnostic]) -> Report:
    """Every instruction with such elements: what reaches a result before the rest, and of that, what makes them."""
    seen = list(probe.occurrences(loaded.module))
    first = _first(seen)
    if first is not None:
        seen.remove(first)
        seen.insert(0, first)
    root = loaded.module.entry.root
    reaches = root is not None and count_of(run.result, probe.wanted, root.shape) > 0
    reaches = reaches or any(each.reaches_result for each in seen)
    rows = tuple(_row(each, loaded) for each in seen)
    hidden = replace(_DEVICE, person=False)
    columns = tuple(hidden if each is _DEVICE and run.devices == 1 else each for each in _COLUMNS)
    return Report(
        "run",
        _answer(probe, first, run, len(rows), reaches=reaches),
        version=1,
        numbers={
            "probe": probe.wanted,
            "values": len(rows),
            "first": None if first is None else first.instruction.name,
            "reaches_result": reaches,
            "executed_instructions": run.executed,
        },
        parts=(Table("sightings", columns, rows, noun="values"),),
        notes=(*notes, *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _first(seen: Sequence[Occurrence]) -> Occurrence | None:
    """The first instruction that makes such elements; of those that reach a result if there are any."""
    reaching = [each for each in seen if each.reaches_result] or seen
    return next((each for each in reaching if each.made), next(iter(reaching), None))


def _answer(probe: Probe, first: Occurrence | None, run: Run, values: int, *, reaches: bool) -> str:
    what = PROBES[probe.wanted]
    executed = format_count(run.executed, "instructions")
    if run.devices > 1:
        executed = f"{executed} on {run.devices:,} devices"
    if first is None and not reaches:
        return f"No {what} elements in {executed}"
    if first is None or (reaches and not first.reaches_result):
        return f"A result has {what} elements; no instruction makes them; checked {executed}"
    if not first.reaches_result:
        others = format_count(values, "intermediate values")
        return f"No result has {what} elements ({others} {verb(values, 'does', 'do')}); checked {executed}"
    has = "has" if first.instruction.opcode in _SOURCES else "makes" if first.made else "is the first with"
    counted = f"({first.count:,} of {first.elements:,})"
    return f"{first.instruction.name} {has} {what} elements {counted} that reach a result; checked {executed}"


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
        occurrence.reaches_result,
        instruction.computation.name,
        str(location) if location is not None else None,
    )


def _why(occurrence: Occurrence) -> str:
    if occurrence.operands:
        return f"from {', '.join(operand.name for operand in occurrence.operands)}"
    if occurrence.inside:
        return f"contains {', '.join(each.name for each in occurrence.inside)}"
    return _SOURCES.get(occurrence.instruction.opcode, "made here")
