"""One module or many: the selection that all commands share.

The rule: inputs that hold one module get the full report on it; inputs that hold several, or `--each`, get a row
for each, and every module is checked. An option that requires one module is an error if there are several, so that
no module is ignored silently.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.commands.shared.io_options import InputOptions
from hlo_cli.commands.shared.per_module_options import timeout_given
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import no_dumps_error, parse_dump_name
from hlo_cli.inputs.input import Input, ModuleRef, list_modules, read_module_ref
from hlo_cli.source import HloError

_NAMED = 3
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
) -> Input | Many:
    """The module that the arguments name, or all of them if there are several or `--each` or `--jobs` is given.

    `about_one` are the given options that require a single module: HloError if there are several, or if rows are
    selected too.
    """
    if each or jobs is not None or timeout_given() is not None:
        if about_one:
            raise HloError(f"{about_one[0]} cannot be used with {'--each' if each else '--jobs'}")
        return every_module(arguments, reading)
    found = _found(every_module(arguments, reading), reading)
    if isinstance(found, Many):
        if about_one:
            raise _single_module_error(about_one[0], found)
        return found
    return _with_note(found, arguments, reading)


def no_module(many: Many, reading: InputOptions) -> HloError:
    """The error for inputs that hold no module, or none of the given name."""
    arguments = many.arguments
    if reading.module is None and reading.stage is None and len(arguments) == 1 and os.path.isdir(arguments[0]):
        return no_dumps_error(arguments[0])
    place = " ".join(arguments[:_NAMED]) + (" …" if len(arguments) > _NAMED else "")
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


def _with_note(chosen: Input, arguments: Sequence[str], reading: InputOptions) -> Input:
    """Adds a note that names a module, if `--module` selected it among several."""
    if reading.module is None:
        return chosen
    there = every_module(arguments, replace(reading, module=None))
    note = f"using {chosen.module or chosen.source.name}, one of {there.number} modules in {there.place}"
    return replace(chosen, module_choice=note) if len(there.pieces) > 1 else chosen


def _single_module_error(option: str, many: Many) -> HloError:
    """The error for an option that requires one module of several; its hint selects the largest."""
    if many.inputs:
        names = [(each.names, each.source.name, each.size) for each in many.inputs]
    else:
        dumps = ((piece.path, parse_dump_name(os.path.basename(piece.path))) for piece in many.pieces)
        names = [(dump.names if dump else (), path, _size(path)) for path, dump in dumps]
    shared = [name for known, _, _ in names for name in known]
    known, path, _ = max(names, key=lambda each: each[2])
    name = next((name for name in known if shared.count(name) == 1), None)
    choice = f"use --module {shlex.quote(name)}" if name else f"pass only {shlex.quote(path)}"
    contain = "contain" if len(many.arguments) > 1 else "contains"
    number = many.number if many.pieces else f"{len(names):,}"
    message = f"{option} requires a single module, but {many.place} {contain} {number} modules"
    return HloError(message, hint=f"{choice} to select the largest")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
