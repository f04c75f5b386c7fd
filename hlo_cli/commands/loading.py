"""A module as the user chose it, with the input it came from, and what every report says of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo_cli.analysis.omitted_shape import omitted_shape
from hlo_cli.analysis.target import target_of
from hlo_cli.commands.options import Reading
from hlo_cli.inputs.input import Input, choose_one, read_inputs
from hlo_cli.ir.module import Module
from hlo_cli.render.numbers import counted
from hlo_cli.report.cell import Cell
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.read import read_module


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module with the input it was read from, and all inputs that there were to choose from."""

    module: Module
    input: Input
    inputs: tuple[Input, ...]


def load_one(arguments: Sequence[str], reading: Reading) -> Loaded:
    """The one module that the arguments name; of several the largest, which a note then says."""
    inputs = read_inputs(arguments, stage=reading.stage, module=reading.module)
    chosen = choose_one(inputs)
    module = read_module(chosen.source, chosen.proto, strict=reading.strict, infer=omitted_shape)
    return Loaded(module, chosen, inputs)


def load_running(arguments: Sequence[str], reading: Reading) -> Loaded:
    """The same for what runs as a whole; HloError where the text ends before its entry computation does.

    What lives when, and what overlaps, cannot be told from a part: the last computation there may be any.
    """
    loaded = load_one(arguments, reading)
    module = loaded.module
    if module.errors and (module.entry.root is None or "ENTRY" not in module.source.text):
        cut = Diagnostic("error", "the entry computation is not whole, so what runs when cannot be told")
        raise HloError.of((cut, *module.errors))
    return loaded


def input_facts(loaded: Loaded) -> dict[str, Cell]:
    """What a machine should know of the input that a report is about."""
    return {
        "path": loaded.input.path or "-",
        "module": loaded.module.name,
        "stage": loaded.input.stage,
        "target": target_of(loaded.module),
    }


def notes_of(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Facts about the reading: what was chosen, and what was kept as text."""
    return (*(Diagnostic("note", note) for note in loaded.input.notes), *loaded.module.notes)


def what_was_read(module: Module) -> str:
    """What to say beside errors: how much was read in spite of them."""
    return f"{counted(module.instruction_count, 'instructions')} were read" if module.errors else ""
