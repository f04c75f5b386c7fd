"""Which module does a command read, one or many, and what holds for every number of it?

Inputs that hold one module get the full report on it, as does the only module of a dump that is not a helper; inputs
that hold several, or `--each`, get a row for each. An option that requires one module takes the main one of a dump. A
note names it, so that no module is ignored silently. Numbers of a module that is not optimized or not partitioned yet
are upper bounds, and say so.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.query.module_summary import ProgramStage, program_stage
from hlo_cli.commands.options.declaring import timeout_given
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import no_dumps_error, parse_dump_name
from hlo_cli.inputs.files import is_folder
from hlo_cli.inputs.input import Input, ModuleRef, list_modules, read_inputs, read_module_ref, text_beside
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.read_input import read_input
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.query.main_module import ModuleCost
    from hlo_cli.scan_modules import ScanResult
    from hlo_cli.syntax.compiler_files.flags import Settings

Answer = TypeVar("Answer")

# --- one module or many ---
# The selection that all commands share.
#
# The rule: inputs that hold one module get the full report on it, and so does a dump of which all other modules are
# helpers of JAX; inputs that hold several, or `--each`, get a row for each. An option that requires one module takes
# the main one of a dump, as `graph` and `run` do, and is an error for several inputs: each of them was asked for.


_MAX_INPUTS_IN_ERROR = 3
"""How many inputs an error names."""


@dataclass(frozen=True, slots=True)
class Many:
    """The modules of several inputs: files to read later, or the modules found in one file."""

    arguments: tuple[str, ...]
    pieces: tuple[ModuleRef, ...] = ()
    inputs: tuple[Input, ...] = ()

    @property
    def place(self) -> str:
        """The place of the modules, in words.

        >>> Many(("dump/",)).place, Many(("a.txt", "b.txt")).place
        ('dump/', 'these 2 inputs')
        """
        return self.arguments[0] if len(self.arguments) == 1 else f"these {len(self.arguments)} inputs"

    @property
    def number(self) -> str:
        """The number of files to read, in words; `several` if it is unknown which of them hold HLO."""
        return "several" if any(piece.is_guess for piece in self.pieces) else f"{len(self.pieces):,}"


def every_module(arguments: Sequence[str], reading: InputOptions) -> Many:
    """All modules that the arguments name.

    >>> [piece.path for piece in every_module(["a.txt", "b.txt"], InputOptions()).pieces]
    ['a.txt', 'b.txt']
    """
    pieces = list_modules(arguments, stage=reading.stage, module=reading.module)
    return Many(tuple(arguments) or ("-",), tuple(pieces))


def one_or_many(
    arguments: Sequence[str],
    reading: InputOptions,
    *,
    each: bool = False,
    jobs: int | None = None,
    about_one: Sequence[str] = (),
    checks: bool = False,
) -> Input | Many:
    """The module that the arguments name, or all of them if there are several or `--each` or `--jobs` is given.

    `about_one` are the given options that require a single module: the main one of a single input that holds several;
    HloError if there are several inputs, if rows are selected too, or with `checks`, which every module has to pass.
    """
    if each or jobs is not None or timeout_given() is not None:
        if about_one:
            raise HloError(f"{about_one[0]} cannot be used with {'--each' if each else '--jobs'}")
        return every_module(arguments, reading)
    found = _found(every_module(arguments, reading), reading)
    if isinstance(found, Many):
        if not about_one:
            return found
        if len(arguments) > 1 or checks:
            raise _single_module_error(about_one[0], found, reading)
        return main_of(found, reading)
    return found


def no_module(many: Many, reading: InputOptions) -> HloError:
    """The error for inputs that hold no module, or none of the given name."""
    arguments = many.arguments
    if reading.module is None and reading.stage is None and len(arguments) == 1 and is_folder(arguments[0]):
        return no_dumps_error(arguments[0])
    place = " ".join(arguments[:_MAX_INPUTS_IN_ERROR]) + (" …" if len(arguments) > _MAX_INPUTS_IN_ERROR else "")
    stage = "" if reading.stage is None else f" of stage '{reading.stage}'"
    if reading.module is None:
        return HloError(f"no modules{stage} found in {place}")
    hint = f"run `hlo parse {place} --each` to list all modules"
    return HloError(f"module '{reading.module}'{stage} not found in {place}", hint=hint)


def _found(many: Many, reading: InputOptions) -> Input | Many:
    """The modules in the files, read only as far as needed to tell one from many."""
    if sum(piece.is_certain for piece in many.pieces) > 1:
        return many
    found: list[Input] = []
    for piece in many.pieces:
        try:
            found += read_module_ref(piece)
        except (HloError, OSError):
            if len(many.pieces) > 1:
                return many  # unreadable files get a row of their own
            raise
        if len(found) > 1 and len(many.pieces) > 1:
            return many
    if not found:
        raise no_module(many, reading)
    return found[0] if len(found) == 1 else Many(many.arguments, inputs=tuple(found))


def _single_module_error(option: str, many: Many, reading: InputOptions) -> HloError:
    """The error for an option that requires one module of several; its hint selects the main one."""
    found, main = main_among(many, reading)
    name = unique_name(found, main)
    choice = f"use --module {shlex.quote(name)}" if name else f"pass only {shlex.quote(found[main].path)}"
    contain = "contain" if len(many.arguments) > 1 else "contains"
    number = many.number if many.pieces else f"{len(found):,}"
    message = f"{option} requires a single module, but {many.place} {contain} {number} modules"
    return HloError(message, hint=f"{choice} to select the one that {reason_among(found, main)}")


# --- the main module of many ---


def load_main(arguments: Sequence[str], reading: InputOptions) -> Loaded:
    """The module that the arguments name, read; of several, the main one, with a note that names it."""
    chosen = one_or_many(arguments, reading)
    return read_one(main_of(chosen, reading) if isinstance(chosen, Many) else chosen, reading)


def main_of(many: Many, reading: InputOptions) -> Input:
    """The main module of many, with a note; the error of the first input that cannot be read, if none can."""
    found, main = main_among(many, reading)
    chosen = input_of(many, found, main, reading)
    why = reason_among(found, main)
    if reading.module is None:
        note = f"using {module_words(found, main)}, which {why} in {many.place}"
        return replace(chosen, module_choice=f"{note}; use --module to select another of {len(found):,}")
    note = f"using {module_words(found, main)}, which {why} of {len(found):,} modules of this name"
    return replace(chosen, module_choice=f"{note}; use --module NUMBER to select another")


def _only_program(many: Many, reading: InputOptions) -> Input | None:
    """The main module of an input, with a note, if all others are helpers; None if another may be the user's.

    None as well if a module cannot be read: the row of each has the reason.
    """
    from hlo_cli.analysis.query.main_module import rank_modules

    # Helpers are small, so the two largest modules are the user's if any two are, and the rest need not be read.
    many = replace(many, pieces=tuple(sorted(many.pieces, key=lambda piece: _file_size(piece.path), reverse=True)))
    found: list[ScanResult[ModuleCost]] = []
    others, largest = -1, 2 if many.pieces and _file_size(many.pieces[0].path) else 0
    for each in _costs_of(many, reading):
        if each.answer is None or each.problem:
            return None
        # one of unknown origin is the user's if it is large: dumps of other frameworks do not show who wrote a module
        others += each.answer.is_users or (each.answer.is_users is None and len(found) < largest)
        if others > 0:
            return None
        found.append(each)
    ranking = rank_modules([each.answer for each in found if each.answer is not None])
    if len(found) < 2 or len(ranking.helpers) < len(found) - 1:
        return None
    chosen = input_of(many, found, ranking.main, reading)
    helpers = f"the other {len(found) - 1:,} are helpers" if len(found) > 2 else "the other one is a helper"
    note = f"using {module_words(found, ranking.main)}, one of {len(found):,} modules in {many.place}; {helpers}"
    return replace(chosen, module_choice=f"{note} (--each shows all)")


def _file_size(path: str) -> int:
    """The size of a file in bytes; 0 for a member of an archive and for what cannot be read."""
    sys.audit("hlo_cli.size", path)  # so that `kept_answers` knows that the answer depends on it
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def input_of(many: Many, found: Sequence[ScanResult[Answer]], at: int, reading: InputOptions) -> Input:
    """The input of one result among many, to be read once more."""
    path = found[at].path
    return many.inputs[at] if many.inputs else read_inputs([path], stage=None if "#" in path else reading.stage)[0]


def main_among(many: Many, reading: InputOptions) -> tuple[Sequence[ScanResult[ModuleCost]], int]:
    """What each of many modules costs, and the index of the main one; HloError if none can be read."""
    from hlo_cli.analysis.query.main_module import rank_modules

    found = [*_costs_of(many, reading)]
    costs = {at: each.answer for at, each in enumerate(found) if each.answer is not None}
    if not costs:
        raise HloError.of(found[0].errors) if found else no_module(many, reading)
    main = tuple(costs)[rank_modules(tuple(costs.values()), [found[at].path for at in costs]).main]
    return [replace(each, cost=each.answer) for each in found], main


def reason_among(found: Sequence[ScanResult[Answer]], main: int) -> str:
    """Why a result is the main one of many, in a few words; those that could not be read do not count."""
    from hlo_cli.analysis.query.main_module import reason_of_main

    read = [at for at, each in enumerate(found) if each.cost is not None]
    return reason_of_main([cost for each in found if (cost := each.cost) is not None], read.index(main))


def _costs_of(many: Many, reading: InputOptions) -> Iterator[ScanResult[ModuleCost]]:
    """What each of many modules costs, with a progress bar on a terminal."""
    from hlo_cli.render.progress import watched
    from hlo_cli.scan_modules import Reader, map_modules

    if many.inputs:
        return map(Reader(_cost, reading.strict).ask_of, many.inputs)
    asked = map_modules(many.pieces, _cost, strict=reading.strict)
    return watched(asked, len(many.pieces), "dumps", quiet=reading.quiet)


def _cost(module: Module, _input: Input) -> ModuleCost:
    from hlo_cli.analysis.query.main_module import cost_of_module

    return cost_of_module(module)


def unique_name(found: Sequence[ScanResult[Answer]], at: int) -> str | None:
    """The name that selects one of several modules: its own if no other has it, else XLA's number if it has one."""
    names = sorted(names_of(found[at]), key=lambda name: (name != found[at].module, len(name)))
    return next((name for name in names if sum(name in names_of(each) for each in found) == 1), None)


def names_of(found: ScanResult[Answer]) -> tuple[str, ...]:
    """The names that select a module, its own first.

    >>> from hlo_cli.scan_modules import ScanResult
    >>> names_of(ScanResult("d/module_0062.jit_f.after_optimizations.txt", "jit_f"))
    ('jit_f', 'module_0062.jit_f', '0062')
    """
    dump = parse_dump_name(os.path.basename(found.path))
    return dump.names if dump is not None else (found.module,) if found.module else ()


def number_of_module(path: str) -> str | None:
    """XLA's number of the module in a file, as the name of the file has it."""
    dump = parse_dump_name(os.path.basename(path))
    return dump.id if dump is not None else None


def module_words(found: Sequence[ScanResult[Answer]], at: int) -> str:
    """The name of a module, and XLA's number if other modules have the name.

    >>> from hlo_cli.scan_modules import ScanResult
    >>> paths = ["module_0001.jit_f.after_optimizations.txt", "module_0062.jit_f.after_optimizations.txt"]
    >>> module_words([ScanResult(path, "jit_f") for path in paths], 1)
    'jit_f (0062)'
    """
    name, number = found[at].module or found[at].path, number_of_module(found[at].path)
    is_shared = sum(each.module == name for each in found) > 1
    return f"{name} ({number})" if is_shared and number else name


# --- the selected module ---
# The selected module with its input, and the facts on both in every report.


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
    checks: bool = False,
) -> Loaded | Many:
    """The module that the arguments name, read; or all of them, not read yet, if each gets a row.

    With `checks`, the answer is whether the modules pass, so that helpers get their rows too.
    """
    chosen = one_or_many(arguments, reading, each=each, jobs=jobs, about_one=about_one, checks=checks)
    is_selected = each or jobs is not None or timeout_given() is not None or checks
    if isinstance(chosen, Many) and len(arguments) == 1 and not is_selected:
        chosen = _only_program(chosen, reading) or chosen
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


# --- what a stage says about numbers ---
# Notes that numbers are bounds or assumptions because the module is not optimized, partitioned, or scheduled yet.


def stage_of(loaded: Loaded) -> ProgramStage:
    """The compilation stage of a module, by its text and the name of its file."""
    return program_stage(loaded.module, loaded.input.stage)


def devices_together(loaded: Loaded) -> int:
    """The number of devices whose work the module holds together: more than 1 before it is partitioned.

    XLA partitions first of all, so an optimized module is the program of one device.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> parameter = "ROOT p = f32[8] parameter(0), sharding={devices=[8]<=[8]}"
    >>> module = parse_module(f"HloModule m, num_partitions=8  ENTRY e {{ {parameter} }}")
    >>> loaded = Loaded(module, Input(module.source, None))
    >>> devices_together(loaded), partition_notes(loaded)[0].message
    (8, 'the module is not partitioned: upper bound, work ÷ 8 at best; `hlo shard` shows the shards of each device')
    """
    if stage_of(loaded) == "optimized":
        return 1
    from hlo_cli.analysis.sharding.entry_arrays import (
        devices_in_shapes,  # not needed by the dumps that most people have
    )

    return devices_in_shapes(loaded.module)


def not_partitioned(devices: int) -> str:
    """What holds for every number of a module with the work of several devices.

    >>> not_partitioned(8)
    'not partitioned: upper bound, work ÷ 8 at best'
    """
    return f"not partitioned: upper bound, work ÷ {devices:,} at best"


def partition_notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """A note if one device is given the work of several, because the module is not partitioned yet."""
    return partition_notes_on((devices_together(loaded),))


def partition_notes_on(devices: Sequence[int]) -> tuple[Diagnostic, ...]:
    """Notes on the modules that hold the work of several devices; `devices` are those of each module.

    >>> [note.message for note in partition_notes_on((1, 8, 8))]
    ['2 modules are not partitioned: upper bound, work ÷ 8 at best']
    """
    if len(devices) == 1 and devices[0] > 1:
        words = f"the module is {not_partitioned(devices[0])}; `hlo shard` shows the shards of each device"
        return (Diagnostic("note", words),)
    counts = sorted(Counter(each for each in devices if each > 1).items())
    return tuple(
        Diagnostic("note", f"{format_count(n, 'modules')} {'is' if n == 1 else 'are'} {not_partitioned(number)}")
        for number, n in counts
    )


def text_order_note() -> Diagnostic:
    """The note on numbers that take the order of the text for the schedule, which the module does not have."""
    return Diagnostic("note", "the module is not scheduled; using the order of the text")


def bounded(answer: str, stage: ProgramStage, *, name: str = "", is_upper: bool = True, devices: int = 1) -> str:
    """An answer about a program, as an upper bound if the module is not optimized or not partitioned yet.

    `name` is the module's; its case is kept if the answer begins with it. Without `is_upper`, only the stage is named.
    `devices` are those of `devices_together`.

    >>> bounded("HBM needs 3 GiB", "optimized")
    'HBM needs 3 GiB'
    >>> bounded("No async operations in 9 steps", "before optimization")
    'Before optimization (upper bounds): no async operations in 9 steps'
    >>> bounded("HBM usage peaks at 3 GiB", "during optimization", devices=8)
    'During optimization, not partitioned (upper bounds, ÷ 8 at best): HBM usage peaks at 3 GiB'
    """
    if stage == "optimized" and devices == 1:
        return answer
    is_word = (answer[1:2].islower() or answer[1:2] == " ") and not (name and answer.startswith(name))
    rest = f"{answer[:1].lower()}{answer[1:]}" if is_word else answer
    head = f"{stage[:1].upper()}{stage[1:]}"
    if devices > 1:
        return f"{head}, not partitioned (upper bounds, ÷ {devices:,} at best): {rest}"
    return f"{head}{' (upper bounds)' if is_upper else ''}: {rest}"


def bounded_report(report: Report, loaded: Loaded, *, has_times: bool = True) -> Report:
    """A report with costs or times, with a note if the module is not partitioned yet.

    With times, the answer is an upper bound if the module is not optimized yet, nor fused by rule.
    """
    is_share = report.numbers.get("undivided_seconds") is not None  # of one device, as a note of the report says
    notes = (*(() if is_share else partition_notes(loaded)), *report.notes)
    if not has_times:
        return replace(report, notes=notes)
    stage, devices = stage_of(loaded), 1 if is_share else devices_together(loaded)
    is_upper = not report.numbers.get("is_fused_by_rule") or devices > 1
    numbers = {**report.numbers, **stage_numbers(stage, devices), **({} if is_upper else {"upper_bound": False})}
    answer = bounded(report.answer, stage, name=loaded.module.name, is_upper=is_upper, devices=devices)
    return replace(report, answer=answer, numbers=numbers, notes=notes)


def stage_numbers(stage: ProgramStage, devices: int = 1) -> Mapping[str, Cell]:
    """The stage, the number of devices whose work is that of the module, and the bound, for programs.

    >>> stage_numbers("before optimization")
    {'program_stage': 'before optimization', 'devices_together': 1, 'upper_bound': True}
    """
    is_upper = stage != "optimized" or devices > 1
    return {"program_stage": stage, "devices_together": devices, "upper_bound": is_upper}


# --- the flags of a compilation ---


_TPU_FLAGS: Final = "tpu_comp_env.txt"
"""The end of the name of the file with the flags of libtpu; those of XLA are in `debug_options`."""


def flags_of(given: Input, *, with_tpu: bool = False) -> Settings | None:
    """The flags of a compilation by name, from the executable or the files next to a dump; None if not known.

    Those of libtpu come `with_tpu`.
    """
    from hlo_cli.syntax.compiler_files.flags import settings_in_options, settings_in_text  # few answers need flags
    from hlo_cli.syntax.compiler_files.text_format import read_text_message

    if given.options is not None:
        return settings_in_options(given.options)
    texts = [text_beside(given, kind) for kind in ("debug_options", *((_TPU_FLAGS,) if with_tpu else ()))]
    found = [settings_in_text(read_text_message(text)) for text in texts if text is not None]
    return {name: value for each in found for name, value in each.items()} if found else None
