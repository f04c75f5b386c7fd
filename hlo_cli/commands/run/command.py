"""`hlo run`: evaluates a module without XLA, or shows that two modules compute the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, io_of, io_options
from hlo_cli.commands.options.writing import (
    print_diagnostics,
    print_quoted,
    removed_on_signals,
    write_bytes,
    write_report,
)
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.inputs.files import is_folder
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.program import Observer
    from hlo_cli.analysis.evaluate.run import Run
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module
    from hlo_cli.report.report import Report
    from hlo_cli.syntax.proto.read_snapshot import Snapshot


# --- bounds of the process ---
# Bounds of the process while a module runs: memory that the system refuses, and an end that leaves nothing behind.


SLACK: Final = 1 << 30
"""Bytes of memory for the program itself and the text."""


@contextmanager
def bounded(max_bytes: int) -> Iterator[None]:
    """Ends cleanly on SIGTERM and SIGHUP, and limits the memory to twice what a module may take, where the system can.

    Estimates are of values and of large temporary arrays; what exceeds them is an error, not a frozen machine.

    >>> with bounded(1 << 30): print("runs")
    runs
    """
    with removed_on_signals(), _limited_memory(SLACK + 2 * max_bytes):
        yield


@contextmanager
def _limited_memory(more: int) -> Iterator[None]:
    """Lets the process allocate so many bytes more; systems without such limits are left alone."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError, ValueError):
        yield
        return
    limit = now + more
    if soft != resource.RLIM_INFINITY and soft <= limit:
        yield
        return
    from hlo_cli.analysis.evaluate.limits import reserve_for_products

    reserve_for_products()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ValueError, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# --- one run or two ---
# Runs of `hlo run`: of one module, of a module whose values are watched, and of two modules that are compared.


def _check_writable(path: str | None) -> None:
    """HloError, before anything runs, for a file in a folder that does not exist or cannot be written to."""
    if path is None or os.path.exists(path):
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise HloError(f"cannot write {path}: the directory {os.path.dirname(path)} does not exist")
    if not os.access(folder, os.W_OK):
        raise HloError(f"cannot write {path}: the directory is read-only")


def _run_module(
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
    from hlo_cli.commands.run.argument_files import arguments_of, checked_stubs, feed_from
    from hlo_cli.commands.run.report import shown_progress

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


def _watch_values(loaded: Loaded, options: RunOptions, output: OutputOptions) -> int:
    """Follows values through loops."""
    from hlo_cli.analysis.evaluate.run import Watch
    from hlo_cli.commands.modules.loading import what_was_read
    from hlo_cli.commands.run.report import report_of_watch, watch_archive

    module = loaded.module
    read = what_was_read(module)
    instructions = tuple(dict.fromkeys(module.instruction(name) for name in options.watch))
    is_saved = output.format == "npz"
    watch = Watch(instructions, options.limits.max_bytes if is_saved else None)
    run = _run_module(module, options, output, observe=watch, iterations=watch.iterations)
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
) -> int:
    """Compares a module with that of --against, or two stages of one dump."""
    from hlo_cli.commands.modules.loading import load_main, what_was_read
    from hlo_cli.commands.run.against import report_of_comparison

    other = [options.against] if options.against is not None else inputs
    first, second = options.stages or _stage_of_directories(reading.stage, inputs, other)
    new = load_main(other, replace(reading, stage=second))
    # one module at two stages, whichever costs most at the first
    if options.stages is not None and new.input.dump is not None:
        reading = replace(reading, module=reading.module or new.input.dump.label)
    old = load_main(inputs, replace(reading, stage=first))
    if errors := (*old.module.errors, *new.module.errors):
        raise HloError.of(errors)
    report, mark = report_of_comparison(old, new, options, quiet=output.quiet)
    code = write_report(report, output, (), read=what_was_read(old.module))
    if mark is not None:
        print_quoted(mark, output)
    return code or int(not report.numbers["same"])


def _stage_of_directories(stage: str | None, *sides: Sequence[str]) -> tuple[str | None, ...]:
    """The stage of --stage for each side: it is not that of a file that is compared with a directory."""
    have_stages = [any(map(is_folder, names)) for names in sides]
    return tuple(stage if has or not any(have_stages) else None for has in have_stages)


# --- the command ---


HELP = """\
Evaluate a module without XLA, or compare what two modules compute.

INPUT is a dump: a file, a directory written by --xla_dump_to, or - for stdin.
Optimized modules of any target run as well: layouts, fusions, and loops.
"""
EXAMPLES = (
    "hlo run dump/",
    "hlo run dump/ --args arguments.npz --at fusion.2",
    "hlo run dump/ --stage before_optimizations..after_optimizations",
    "hlo run old/ --against new/",
    "hlo run dump/ --probe nan",
    "hlo run dump/ --watch add.3",
    "hlo run dump/ --stub my_op=my_op.py",
    "hlo run dump/ -o results.npz",
    "hlo run dump/ --args 'raw:x.bin@f32[8,9]{1,0:T(8,128)}' --save-raw y.bin",
)
DETAILS = """\
Without --args, arguments are made up by type, and are the same for the same
seed: floats are standard normal, integers 0 to 3. A snapshot of XLA
(*snapshot.pb) runs with the arguments in it, and its result is compared.

--against runs both modules with the same arguments twice: with floats of their
types, and with every float as an f64 that is never rounded. Two compilations of
a program agree in the second run even if they round at different places. Each
element is judged by the sizes of what it was computed of. See
`hlo help comparing`.

Modules are the same only if each computation ran: random arguments change
until all branches and loop bodies of both have run. Those that did not are
named, and the exit code is 1, unless --allow-uncovered is given.

raw:FILE@SHAPE reads the bytes of an array in the memory of a device: in the
layout of SHAPE, with tiles and padding, or in that of the parameter without
@SHAPE. --save-raw writes such bytes.

Partitioned modules run on simulated devices: arguments are those of the whole
program, cut and put together by the shardings of the dump.

Custom calls whose meaning is unknown are refused before anything runs. --stub
runs FILE.py as Python, with all rights of the user, and calls its function
stub(*operands, shape=SHAPE), or with FILE.py:NAME another, for each execution.
Infeeds read the arrays of --feed one after another.

Exits with code 1 if results differ by more than rounding or cannot be compared,
if a computation never ran, or if a result has an element of --probe.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(RunOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, evaluates, and reports."""
    output, reading = io_of(given, writes=("npz",))
    seed = given.pop("seed")
    fills = seed is not None and bool(given["args"])
    options = RunOptions(**given, seed=seed or 0, fills=fills, stages=_two_stages(reading.stage))
    options.check()

    for path in (output.path, options.save_raw):
        _check_writable(path)
    with bounded(options.limits.max_bytes):
        return _run(inputs, options, reading, output, takes_recorded=seed is None and not options.args)


def _two_stages(stage: str | None) -> tuple[str, str] | None:
    """The stages of `--stage A..B`, None for a single stage; HloError if one is missing, or both are the same."""
    first, is_range, second = (stage or "").partition("..")
    if is_range and (not first or not second or first == second):
        raise HloError("--stage A..B requires two different stages")
    return (first, second) if is_range else None


def _run(
    inputs: tuple[str, ...],
    options: RunOptions,
    reading: InputOptions,
    output: OutputOptions,
    *,
    takes_recorded: bool,
) -> int:
    """Runs what the inputs name; with `takes_recorded`, with the arguments in them if they are a snapshot."""
    from hlo_cli.commands.modules.loading import load_main, what_was_read

    if options.passes:
        from hlo_cli.commands.run.against import report_of_passes

        report = report_of_passes(inputs, reading, options, quiet=output.quiet)
        return write_report(report, output) or int(not report.numbers["same"])
    if options.against is not None or options.stages is not None:
        return compare(inputs, options, reading, output)
    loaded = load_main(inputs, reading)
    module = loaded.module
    if module.errors:
        raise HloError.of(module.errors)
    read = what_was_read(module)
    snapshot = _snapshot_of(loaded, options) if takes_recorded else None
    if snapshot is not None:
        options = replace(options, args=(str(loaded.input.path),))
    if options.probe is not None:
        from hlo_cli.analysis.evaluate.run import Probe
        from hlo_cli.commands.run.report import notes_on_run, report_of_probe

        probe = Probe(options.probe)
        run = _run_module(module, options, output, observe=probe)
        probed = report_of_probe(loaded, run, probe, notes_on_run(module, options))
        return write_report(probed, output, module.errors, read=read) or int(bool(probed.numbers["reaches_result"]))
    if options.watch:
        return _watch_values(loaded, options, output)
    watched = tuple(dict.fromkeys(module.instruction(name) for name in options.at))
    run = _run_module(module, options, output, watch=watched)
    if options.save_raw is not None:
        from hlo_cli.commands.run.argument_files import raw_value

        write_bytes((raw_value(run, module, watched),), options.save_raw)
    if output.format == "npz":
        from hlo_cli.commands.run.argument_files import archive
        from hlo_cli.commands.run.report import notes_on_devices, notes_on_run

        write_bytes(archive(run, module, watched, options.limits.max_bytes), output.path)
        notes = (*notes_on_devices(run, options), *notes_on_run(module, options))
        return print_diagnostics(notes, module.errors, output, read=read)
    from hlo_cli.commands.run.report import report_of_run

    report = report_of_run(loaded, run, options, watched)
    if snapshot is not None:
        report = _with_recorded(report, run, module, snapshot)
    return write_report(report, output, module.errors, read=read)


def _snapshot_of(loaded: Loaded, options: RunOptions) -> Snapshot | None:
    """The values recorded in the file of a module, if it is a snapshot of XLA."""
    from hlo_cli.commands.run.argument_files import snapshot_of

    path = loaded.input.path if loaded.input.proto is not None else None
    return snapshot_of(path, max_bytes=options.limits.max_bytes)


def _with_recorded(report: Report, run: Run, module: Module, snapshot: Snapshot) -> Report:
    """The report with notes on the recorded arguments and result."""
    from hlo_cli.commands.run.argument_files import recorded_words

    words = recorded_words(run, module, snapshot)
    notes = [Diagnostic("note", "the arguments are those in the snapshot; --seed N makes up others")]
    notes += [Diagnostic("note", words)] if words else []
    return replace(report, notes=(*notes, *report.notes))
