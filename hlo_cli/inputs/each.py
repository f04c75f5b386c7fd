"""Every module that the user names, in any number of files: the files are listed first and read one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.directory import (
    names_modules,
    no_dumps_error,
    not_selected_error,
    select_dumps,
    walk_directories,
)
from hlo_cli.inputs.dumps import DumpName, matching_stages, parse_dump_name, skip_auxiliary
from hlo_cli.inputs.input import Input, glob_paths, read_inputs
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A file to read modules from; `stage` and `module` select among several in it.

    With `is_guess`, the file may hold no HLO and is then skipped; `choice` is the rank of the selected stage in its
    directory, and `remark` is a note on dumps in it that are not read.
    """

    path: str
    stage: str | None = None
    module: str | None = None
    choice: str | None = None
    is_guess: bool = False
    remark: str | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it counts as a module before it is read: it is not a guess, and no module is selected in it.

        >>> ModuleRef("a.txt").is_certain, ModuleRef("a.txt", module="jit_step").is_certain
        (True, False)
        """
        return not self.is_guess and self.module is None


def list_modules(
    arguments: Sequence[str], *, stage: str | None = None, module: str | None = None
) -> Iterator[ModuleRef]:
    """The files that the arguments name: of a directory with dumps, the latest stage of each module.

    A directory without dumps stands for all of its subdirectories, each a directory of dumps of its own.

    No argument means standard input. HloError if a directory holds no dumps, or if no file name has the requested
    stage or module.

    >>> [piece.path for piece in list_modules(["a.txt", "a-buffer-assignment.txt", "-"])]
    ['a.txt', '-']
    """
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once")
    skipped: list[DumpName] = []
    count = 0
    for argument in skip_auxiliary(arguments) if arguments else ["-"]:
        for piece in _in_argument(argument, stage, module, skipped):
            count += 1
            yield piece
    if not count and skipped:
        raise not_selected_error(skipped, stage, module, " ".join(arguments))


def read_module_ref(piece: ModuleRef) -> tuple[Input, ...]:
    """The modules in a file, none if it was a wrong guess; HloError if it cannot be read.

    >>> read_module_ref(ModuleRef("/no/such/file.txt", is_guess=True))
    ()
    """
    try:
        found = read_inputs([piece.path], stage=piece.stage)
    except HloError:
        if piece.is_guess:
            return ()
        raise
    if piece.is_guess:
        found = tuple(each for each in found if each.looks_like_hlo)
    if piece.module is not None:
        found = tuple(found[i] for i in matching_stages(piece.module, [each.names for each in found]))
    if piece.choice is not None:
        found = tuple(replace(each, choice=piece.choice) for each in found)
    return (replace(found[0], remark=piece.remark), *found[1:]) if found and piece.remark else found


def _in_argument(argument: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterator[ModuleRef]:
    if os.path.isdir(argument):
        found = list(_in_folder(argument, stage, module, skipped))
        if not found and not skipped:
            raise no_dumps_error(argument)
        yield from found
    elif not os.path.lexists(argument) and (paths := glob_paths(argument)) is not None:
        for path in paths:
            yield from (
                _in_folder(path, stage, module, skipped) if os.path.isdir(path) else _file(path, stage, module, skipped)
            )
    else:
        yield from _file(argument, stage, module, skipped)


def _file(path: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterable[ModuleRef]:
    """A file given as an argument, unless its name has another stage or module."""
    dump = parse_dump_name(os.path.basename(path))
    if dump is None:
        return [ModuleRef(path, stage, module)]
    if stage is not None and not matching_stages(stage, [dump.aliases]):
        skipped.append(dump)
        return []
    if module is not None and dump.label and not matching_stages(module, [dump.names]):
        skipped.append(dump)
        return []
    return [ModuleRef(path, module=None if dump.label else module)]


def _in_folder(folder: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterator[ModuleRef]:
    """The dumps of a directory; if it has none, its other files and the dumps of its subdirectories."""
    for directory in walk_directories(folder):
        if directory.is_unreadable:
            yield ModuleRef(directory.path)  # an error when it is read
            continue
        if not directory.dumps:
            paths = (os.path.join(directory.path, name) for name in directory.others)
            yield from (ModuleRef(path, stage, module, is_guess=True) for path in paths)
        selected, others = select_dumps(directory, stage, module)
        skipped += others
        within = None if names_modules(directory) else module
        for number, (path, choice) in enumerate(selected):
            yield ModuleRef(path, module=within, choice=choice, remark=None if number else directory.remark)
