"""`hlo schedule DUMP --desugar` and `--sugar`: async operations expanded or shortened, as a diff."""

from __future__ import annotations

from typing import Literal

from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.modules.rewriting import module_diff
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.text import Passage
from hlo_cli.transform.sugar import desugar, sugar

Direction = Literal["desugar", "sugar"]


def with_sugar(module: Module, direction: Direction) -> Module:
    """Expands or shortens the async operations of a module.

    `t#0`, an element of a tuple, is expanded too, but never introduced: fewer readers of HLO know it.
    """
    return desugar(module) if direction == "desugar" else sugar(module, elements=False)


def report_of_sugar(loaded: Loaded, new: Module, *, direction: Direction, argument: str) -> Report:
    """The diff, and how many operations were expanded or shortened."""
    old, path = loaded.module, loaded.input.path or "-"
    before, after = (_count(module, direction) for module in (old, new))
    elements = _elements(new) - _elements(old)
    words = "expanded" if direction == "desugar" else "shortened"
    diff = module_diff(old, new, old_name=path, new_name=f"{path} ({words})")
    return Report(
        "schedule",
        _answer(direction, before - after, before, elements, old.instruction_count),
        numbers={
            "operations": before - after,
            "operations_left": after,
            "elements": elements,
            "computations_before": len(old.computations),
            "computations_after": len(new.computations),
        },
        parts=(diff,) if diff.hunks else (Passage("nothing", (_why_nothing(direction, before),)), diff),
        next=_next(argument, direction) if diff.hunks else (),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _count(module: Module, direction: Direction) -> int:
    """The number of async operations that can be expanded or may be shortened."""
    form = "sugared" if direction == "desugar" else "generic"
    return sum(pair.form == form for pair in async_pairs(module).pairs)


def _elements(module: Module) -> int:
    return sum(instruction.opcode == opcodes.GET_TUPLE_ELEMENT for instruction in module.instructions)


def _answer(direction: Direction, done: int, of: int, elements: int, instructions: int) -> str:
    if direction == "sugar":
        if not done:
            return f"Nothing to shorten in {format_count(instructions, 'instructions')}"
        part = f"{done:,} of {format_count(of, 'async-starts')}" if done < of else format_count(done, "async-starts")
        return f"{part} shortened; wrapped {'computation' if done == 1 else 'computations'} removed"
    if not (done or elements):
        return f"No short forms to expand in {format_count(instructions, 'instructions')}"
    operations = format_count(done, "async operations") if done else ""
    expanded_elements = format_count(elements, "tuple elements") if elements else ""
    return f"{' and '.join(part for part in (operations, expanded_elements) if part)} expanded"


def _why_nothing(direction: Direction, left: int) -> str:
    if direction == "desugar":
        return "Short forms are, for example, slice-start and t#0 (a tuple element)."
    if not left:
        return "Only an async-start that wraps a single operation has a short form."
    starts = "The async-start wraps" if left == 1 else f"Each of the {left:,} async-starts wraps"
    return f"{starts} several operations, or one whose short form would be ambiguous."


def _next(argument: str, direction: Direction) -> tuple[str, ...]:
    known = argument and argument != "-"
    return (f"hlo schedule {argument} --{direction} -o new.hlo",) if known else ()
