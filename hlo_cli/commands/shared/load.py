"""The selected module with its input, and the facts on both in every report."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.shared.io_options import InputOptions
from hlo_cli.commands.shared.selection import Many, one_or_many
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.read_input import read_input
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic, HloError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module with the input it was read from."""

    module: Module
    input: Input


def load(
    arguments: Sequence[str],
    reading: InputOptions,
    *,
    each: bool = False,
    jobs: int | None = None,
    about_one: Sequence[str] = (),
) -> Loaded | Many:
    """The module that the arguments name, read; or all of them, not read yet, if each gets a row."""
    chosen = one_or_many(arguments, reading, each=each, jobs=jobs, about_one=about_one)
    return chosen if isinstance(chosen, Many) else read_one(chosen, reading)


def load_one(arguments: Sequence[str], reading: InputOptions, *, about: str = "this") -> Loaded:
    """The one module that the arguments name; HloError if there are several. `about` is the option that needs one."""
    loaded = load(arguments, reading, about_one=(about,))
    assert isinstance(loaded, Loaded)
    return loaded


def read_one(chosen: Input, reading: InputOptions) -> Loaded:
    """The module of an input."""
    return Loaded(read_input(chosen, strict=reading.strict), chosen)


def check_running(module: Module) -> None:
    """Raises HloError for reports on the whole program if the text ends before its entry computation does.

    Live ranges and overlap need the entry; in a truncated text the last computation may be any. A part of a module is
    reported on as far as it goes (`program_notes`), unless no shape in it is known.
    """
    if module.is_part:
        if all(instruction.shape == UnknownShape() for instruction in module.entry.instructions):
            raise HloError(f"the shapes of {module.entry.name} are not in this text")
        return
    if module.errors and (module.entry.root is None or "ENTRY" not in module.source.text):
        cut = Diagnostic("error", "the entry computation is incomplete, so the schedule is unknown")
        raise HloError.of((cut, *module.errors))


def input_facts(loaded: Loaded) -> dict[str, Cell]:
    """Facts on the input of a report, for programs."""
    return {
        "path": loaded.input.path or "-",
        "module": loaded.module.name,
        "stage": loaded.input.stage,
        "target": target_of(loaded.module),
    }


def notes_of(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Notes on the reading: which module was selected, and which parts were kept as text."""
    return (*(Diagnostic("note", note) for note in loaded.input.notes), *loaded.module.notes)


def program_notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Notes of a report on the whole program: those on the reading, after one that the text is part of a module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> part = parse_module("a = f32[8] negate(p)")
    >>> program_notes(Loaded(part, Input(part.source, None)))[0].message
    'this is part of a module; live ranges and the schedule end where the text ends'
    """
    words = "this is part of a module; live ranges and the schedule end where the text ends"
    return (*((Diagnostic("note", words),) if loaded.module.is_part else ()), *notes_of(loaded))


def part_error(path: str) -> Diagnostic:
    """The error for part of a module, given at a path, in which a check finds nothing: the rest may fail.

    >>> part_error("tail.txt").message
    'tail.txt is part of a module, so it cannot pass the check'
    """
    return Diagnostic("error", f"{path} is part of a module, so it cannot pass the check", hint="pass the whole dump")


def what_was_read(module: Module) -> str:
    """A note next to errors: how much was read in spite of them."""
    if not module.errors:
        return ""
    count = format_count(module.instruction_count, "instructions")
    return f"{count} {'was' if module.instruction_count == 1 else 'were'} parsed"
