"""The parts of a comparison that tell where two programs part."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.evaluate.compare import Distance
from hlo_cli.analysis.evaluate.parting import Known, Parting, Recorder, first_parting
from hlo_cli.analysis.evaluate.run import evaluate, made_up_arguments, runs_on_devices
from hlo_cli.commands.run.arguments import arguments_from
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.ir.module import Module
from hlo_cli.report.cell import Cell
from hlo_cli.report.facts import Fact, Facts
from hlo_cli.report.report import Part


def parting_of(old: Module, new: Module, found: Sequence[Distance], options: RunOptions) -> Parting | None:
    """Where the values of the new module begin to differ, from its worst result back; None if that cannot be told."""
    worst = max(found, key=lambda each: each.widened)
    known, recorded = Recorder(), Recorder()
    given = [arguments_from(options.args, each) if options.args else None for each in (old, new)]
    for module, recorder, arguments in zip((old, new), (known, recorded), given, strict=True):
        if runs_on_devices(module):
            return None
        evaluate(module, arguments, seed=options.seed, floats="widen", observe=recorder, limits=options.limits)
    root = new.entry.root
    assert root is not None
    return first_parting(
        root, worst.index, recorded, Known(known, given[0] or made_up_arguments(old, seed=options.seed, floats="widen"))
    )


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
    return Facts("parting", tuple(facts), title="First instruction with a value that the other module does not have")


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
