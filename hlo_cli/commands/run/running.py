"""Runs of `hlo run`: of one module, of a module whose values are watched, and of two modules that are compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.commands.options.io_options import conflict_error
from hlo_cli.commands.options.writing import print_diagnostics, print_quoted, write_bytes, write_report
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.program import Observer
    from hlo_cli.analysis.evaluate.run import Run
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module


def check_writable(path: str | None) -> None:
    """HloError, before anything runs, for a file in a folder that does not exist or cannot be written to."""
    if path is None or os.path.exists(path):
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise HloError(f"cannot write {path}: the directory {os.path.dirname(path)} does not exist")
    if not os.access(folder, os.W_OK):
        raise HloError(f"cannot write {path}: the directory is read-only")


def run_module(
    module: Module,
    options: RunOptions,
    output: OutputOptions,
    *,
    watch: Sequence[Instruction] = (),
    observe: Observer | None = None,
    iterations: list[int] | None = None,
) -> Run:
    """Runs a module with the arguments, stubs, data, and limits of the options."""
    from hlo_cli.analysis.evaluate.run import run
    from hlo_cli.commands.run.arguments import arguments_of
    from hlo_cli.commands.run.progress import shown_progress
    from hlo_cli.commands.run.stubs import checked_stubs, feed_from

    arguments = arguments_of(options, module)
    stubs, feed = checked_stubs(options.stub, module), feed_from(options.feed)
    with shown_progress([module], quiet=output.quiet) as progress:
        return run(
            module,
            arguments,
            seed=options.seed,
            floats=options.floats,
            devices=options.devices,
            watch=watch,
            observe=observe,
            limits=options.limits,
            progress=progress,
            stubs=stubs,
            feed=feed,
            iterations=iterations,
        )


def watch_values(loaded: Loaded, options: RunOptions, output: OutputOptions) -> int:
    """Follows values through loops."""
    from hlo_cli.analysis.evaluate.run import Watch
    from hlo_cli.commands.modules.loading import what_was_read
    from hlo_cli.commands.run.watch import report_of_watch, watch_archive

    module = loaded.module
    read = what_was_read(module)
    instructions = tuple(dict.fromkeys(module.instruction(name) for name in options.watch))
    is_saved = output.format == "npz"
    watch = Watch(instructions, options.limits.max_bytes if is_saved else None)
    run = run_module(module, options, output, observe=watch, iterations=watch.iterations)
    report = report_of_watch(loaded, run, watch, instructions, options)
    if is_saved:
        write_bytes(watch_archive(watch), output.path)
        return print_diagnostics(report.notes, module.errors, output, read=read)
    return write_report(report, output, module.errors, read=read)


def compare(
    inputs: tuple[str, ...],
    options: RunOptions,
    reading: InputOptions,
    output: OutputOptions,
    stages: tuple[str | None, str | None] | None,
) -> int:
    """Compares a module with that of --against, or two stages of one dump."""
    from dataclasses import replace

    from hlo_cli.commands.modules.loading import load_one, what_was_read
    from hlo_cli.commands.run.against import report_of_comparison

    for name, is_given in (
        ("--at", options.at), ("--probe", options.probe), ("--save-raw", options.save_raw),
        ("--floats widen", options.floats == "widen"), ("--watch", options.watch),
    ):  # fmt: skip
        if stages is not None and is_given:
            raise conflict_error("--stage A..B", name)
    other = [options.against] if options.against is not None else inputs
    first, second = stages or _stage_of_directories(reading.stage, inputs, other)
    old = load_one(inputs, replace(reading, stage=first))
    new = load_one(other, replace(reading, stage=second))
    if errors := (*old.module.errors, *new.module.errors):
        raise HloError.of(errors)
    report, mark = report_of_comparison(old, new, options, quiet=output.quiet)
    code = write_report(report, output, (), read=what_was_read(old.module))
    if mark is not None:
        print_quoted(mark, output)
    return code or int(not report.numbers["same"])


def _stage_of_directories(stage: str | None, *sides: Sequence[str]) -> tuple[str | None, ...]:
    """The stage of --stage for each side: it is not that of a file that is compared with a directory."""
    have_stages = [any(map(os.path.isdir, names)) for names in sides]
    return tuple(stage if has or not any(have_stages) else None for has in have_stages)
