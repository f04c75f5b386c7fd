"""Every module that the user names, in any number of files: the files are listed first and read one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.directory import dump_subdirectories, dumps_in, no_dumps_error
from hlo_cli.inputs.dumps import DumpName, matching_stages, not_found_error, parse_dump_name, select_stages
from hlo_cli.inputs.input import Input, glob_paths, read_inputs, skip_auxiliary
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A file to read modules from; `stage` and `module` select among several in it.

    With `is_guess`, the file may hold no HLO and is then skipped; `choice` names the stage that was selected in a
    directory.
    """

    path: str
    stage: str | None = None
    module: str | None = None
    choice: str | None = None
    is_guess: bool = False

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
    """The files that the arguments name: of a directory with dumps, the newest stage of each module.

    A directory without dumps is searched one level deep.

    No argument means standard input. HloError if a directory holds no dumps, or if no file name has the requested
    stage or module.

    >>> [piece.path for piece in list_modules(["a.txt", "a-buffer-assignment.txt", "-"])]
    ['a.txt', '-']
    """
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once")
    passed: list[DumpName] = []
    count = 0
    for argument in skip_auxiliary(arguments) if arguments else ["-"]:
        for piece in _in_argument(argument, stage, module, passed):
            count += 1
            yield piece
    if not count and passed:
        kind, wanted = ("stage", stage) if stage is not None else ("module", module)
        known = (dump.stage if kind == "stage" else dump.module for dump in passed)
        raise not_found_error(kind, wanted or "", known, " ".join(arguments))


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
    return found if piece.choice is None else tuple(replace(each, choice=piece.choice) for each in found)


def _in_argument(argument: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterator[ModuleRef]:
    if os.path.isdir(argument):
        found = list(_in_folder(argument, stage, module, passed))
        if not found and not passed:
            raise no_dumps_error(argument)
        yield from found
    elif not os.path.lexists(argument) and (paths := glob_paths(argument)) is not None:
        for path in paths:
            yield from (
                _in_folder(path, stage, module, passed) if os.path.isdir(path) else _file(path, stage, module, passed)
            )
    else:
        yield from _file(argument, stage, module, passed)


def _file(path: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterable[ModuleRef]:
    """A file given as an argument, unless its name has another stage or module."""
    dump = parse_dump_name(os.path.basename(path))
    if dump is None:
        return [ModuleRef(path, stage, module)]
    if stage is not None and not matching_stages(stage, [dump.aliases]):
        passed.append(dump)
        return []
    if module is not None and dump.label and not matching_stages(module, [dump.names]):
        passed.append(dump)
        return []
    return [ModuleRef(path, module=None if dump.label else module)]


def _in_folder(folder: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterator[ModuleRef]:
    """The dumps of a folder; if it has none, its other files and the dumps of its subfolders."""
    named, others = dumps_in(folder)
    if named:
        yield from _chosen(folder, named, stage, module, passed)
        return
    yield from (ModuleRef(os.path.join(folder, name), stage, module, is_guess=True) for name in others)
    for inner in dump_subdirectories(folder):
        yield from _in_folder(os.path.join(folder, inner), stage, module, passed)


def _chosen(
    folder: str, named: Sequence[tuple[str, DumpName]], stage: str | None, module: str | None, passed: list[DumpName]
) -> Iterator[ModuleRef]:
    dumps = [dump for _, dump in named]
    is_told = all(dump.label for dump in dumps)
    kept = (
        range(len(dumps)) if module is None or not is_told else matching_stages(module, [dump.names for dump in dumps])
    )
    wanted = list(kept)
    if stage is not None:
        wanted = [wanted[i] for i in matching_stages(stage, [dumps[i].aliases for i in kept])]
    passed += [dump for i, dump in enumerate(dumps) if i not in set(wanted)]
    if not wanted:
        return
    for index, choice in select_stages([dumps[i] for i in wanted], stage, folder.rstrip("/") + "/"):
        path = os.path.join(folder, named[wanted[index]][0])
        yield ModuleRef(path, module=None if is_told else module, choice=choice)
