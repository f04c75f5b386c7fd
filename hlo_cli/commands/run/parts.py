"""The parts of a comparison that tell where two programs part."""

from __future__ import annotations

from hlo_cli.analysis.evaluate.parting import Parting
from hlo_cli.ir.module import Module
from hlo_cli.report.cell import Cell
from hlo_cli.report.facts import Fact, Facts
from hlo_cli.report.report import Part


def parting_facts(parting: Parting, new: Module) -> Part:
    """The instruction, what it is called by, and its operands, which the other program has as well."""
    instruction = parting.instruction
    location = new.location(instruction)
    facts = [
        Fact("instruction", (), f"{instruction.name} = {instruction.shape} {instruction.opcode}"),
        *([Fact("in", (), " > ".join(each.name for each in parting.callers))] if parting.callers else []),
        *([Fact("execution", (), f"{parting.execution:,}, from 0")] if parting.execution else []),
        Fact("operands", (), ", ".join(each.name for each in instruction.operands) or "none"),
        *([Fact("op_name", (), instruction.metadata.op_name)] if instruction.metadata.op_name else []),
        *([Fact("source", (), str(location))] if location is not None else []),
    ]
    return Facts("first_difference", tuple(facts), title="First instruction that differs")


def parting_numbers(parting: Parting | None) -> dict[str, Cell]:
    """The same for programs."""
    if parting is None:
        return {"first_difference": None}
    return {
        "first_difference": {
            "instruction": parting.instruction.name,
            "computation": parting.instruction.computation.name,
            "execution": parting.execution,
            "callers": tuple(each.name for each in parting.callers),
        }
    }
