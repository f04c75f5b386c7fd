"""Notes on runs: made-up arguments, arithmetic, and values of one device out of several."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.semantics.elementwise import UNSTATED_DRAWS
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.run import Run
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module


def notes_on_run(module: Module, options: RunOptions) -> tuple[Diagnostic, ...]:
    """Notes on the arguments and the arithmetic of a run."""
    floats = (Diagnostic("note", "every float is an f64 that is never rounded"),) if options.floats == "widen" else ()
    return (*notes_on_arguments(options), *notes_on_ranges(module, options), *floats, *notes_on_draws(module))


def notes_on_ranges(module: Module, options: RunOptions) -> tuple[Diagnostic, ...]:
    """A note on made-up arguments that are not any numbers: the program takes their root, or uses them as indices."""
    from hlo_cli.analysis.evaluate.arguments import argument_ranges

    count = 0 if options.args and not options.fills else sum(map(len, argument_ranges(module).values()))
    if not count:
        return ()
    are, their = ("is", "its") if count == 1 else ("are", "their")
    words = f"{format_count(count, 'made-up arguments')} {are} within the range of {their} use, such as a square root"
    return (Diagnostic("note", words),)


def notes_on_draws(*modules: Module) -> tuple[Diagnostic, ...]:
    """A note on random numbers that no dump states, if a module has them."""
    found = sorted(
        {each.opcode for module in modules for computation in module.computations for each in computation.instructions}
        & UNSTATED_DRAWS
    )
    if not found:
        return ()
    words = f"the numbers of {' and '.join(found)} are the same each time, but not those of the compiled program"
    return (Diagnostic("note", words),)


def notes_on_arguments(options: RunOptions, *, sets: int = 1) -> tuple[Diagnostic, ...]:
    """A note on made-up arguments; `sets` is the number of those that a comparison used.

    >>> notes_on_arguments(RunOptions(), sets=3)[0].message
    'arguments are made up with seed 0: floats standard normal, integers 0 to 3, and in 2 more sets other numbers; use \
--args FILE for real ones'
    """
    if options.args and not options.fills:
        return ()
    from hlo_cli.analysis.evaluate.arguments import MAX_INTEGER

    which = "arguments that --args does not have" if options.fills and options.args else "arguments"
    words = f"{which} are made up with seed {options.seed}: floats standard normal, integers 0 to {MAX_INTEGER}"
    words += f", and in {format_count(sets - 1, 'more sets')} other numbers" if sets > 1 else ""
    return (Diagnostic("note", words if options.args else f"{words}; use --args FILE for real ones"),)


def notes_on_assumed(targets: Sequence[str]) -> tuple[Diagnostic, ...]:
    """A note on functions of unknown meaning that two programs have in common."""
    if not targets:
        return ()
    words = f"the meaning of {', '.join(targets)} is unknown: results are made up, the same for equal operands"
    return (Diagnostic("note", words),)


def notes_on_missing(instructions: Iterable[Instruction], seen: Container[Instruction]) -> tuple[Diagnostic, ...]:
    """Notes on instructions without values."""
    return tuple(
        Diagnostic("note", f"{each.name} has no value: it does not run, or runs on whole arrays inside of another")
        for each in instructions
        if each not in seen
    )


def notes_on_devices(run: Run, options: RunOptions) -> tuple[Diagnostic, ...]:
    """Notes on what is shown of device 0 only, and on what had no effect."""
    notes = []
    if options.devices is not None and run.devices == 1:
        notes.append(Diagnostic("note", "--devices has no effect: the module exchanges nothing between devices"))
    if options.feed and run.unread:
        count, was = format_count(run.unread, "arrays"), verb(run.unread, "was", "were")
        notes.append(Diagnostic("note", f"{count} of --feed {was} not read to the end"))
    if run.unknown:
        results = format_count(len(run.unknown), "results")
        are, its = ("is", "its") if len(run.unknown) == 1 else ("are", "their")
        words = f"{results} {are} shown for device 0 of {run.devices:,}: the dump does not state {its} sharding"
        notes.append(Diagnostic("note", words))
    for name, is_given in (("--at", options.at), ("--watch", options.watch), ("outfeeds", run.outfed)):
        if is_given and run.devices > 1:
            notes.append(Diagnostic("note", f"values of {name} are those of device 0 of {run.devices:,}"))
    return tuple(notes)
