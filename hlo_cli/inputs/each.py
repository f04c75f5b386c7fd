"""Every module that the user names, however many files they are in: the files are listed first and read one by one."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hlo_cli.inputs.directory import dumps_in, folders_in, without_dumps
from hlo_cli.inputs.dumps import DumpName, chosen_stages, matching, no_such, parse_dump_name
from hlo_cli.inputs.input import Input, read_inputs, without_asides
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class Piece:
    """A file to be read for its modules; `stage` and `module` choose among several in it.

    `is_guess` says that nobody knows yet whether there is HLO in it, so that it may be passed over; `choice` tells
    which stage was taken of those in a directory.
    """

    path: str
    stage: str | None = None
    module: str | None = None
    choice: str | None = None
    is_guess: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether it counts as a module before it is read: it is no guess, and no module is looked for in it.

        >>> Piece("a.txt").is_certain, Piece("a.txt", module="jit_step").is_certain
        (True, False)
        """
        return not self.is_guess and self.module is None


def pieces_of(arguments: Sequence[str], *, stage: str | None = None, module: str | None = None) -> Iterator[Piece]:
    """The files that the arguments name: of a directory with dumps, the newest stage of each module.

    In a directory without any, those in it are looked into.

    No argument means standard input. HloError where a directory holds no dumps at all, and where nothing has the wanted
    stage or module by its file's name.

    >>> [piece.path for piece in pieces_of(["a.txt", "a-buffer-assignment.txt", "-"])]
    ['a.txt', '-']
    """
    if list(arguments).count("-") > 1:
        raise HloError("standard input can be read only once")
    passed: list[DumpName] = []
    count = 0
    for argument in without_asides(arguments) if arguments else ["-"]:
        for piece in _in_argument(argument, stage, module, passed):
            count += 1
            yield piece
    if not count and passed:
        kind, wanted = ("stage", stage) if stage is not None else ("module", module)
        known = (dump.stage if kind == "stage" else dump.module for dump in passed)
        raise no_such(kind, wanted or "", known, " ".join(arguments))


def read_piece(piece: Piece) -> tuple[Input, ...]:
    """The modules in a file, none if it is a guess that was wrong; HloError for what cannot be read.

    >>> read_piece(Piece("/no/such/file.txt", is_guess=True))
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
        found = tuple(found[i] for i in matching(piece.module, [each.names for each in found]))
    return found if piece.choice is None else tuple(replace(each, choice=piece.choice) for each in found)


def _in_argument(argument: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterator[Piece]:
    if os.path.isdir(argument):
        found = list(_in_folder(argument, stage, module, passed))
        if not found and not passed:
            raise without_dumps(argument)
        yield from found
    elif not os.path.lexists(argument) and glob.has_magic(argument):
        paths = without_asides(sorted(glob.glob(argument, recursive=True)))
        if not paths:
            raise HloError(f"nothing matches {argument}")
        for path in paths:
            yield from (
                _in_folder(path, stage, module, passed) if os.path.isdir(path) else _file(path, stage, module, passed)
            )
    else:
        yield from _file(argument, stage, module, passed)


def _file(path: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterable[Piece]:
    """A file that is named itself, unless its name says that it is of another stage or module."""
    dump = parse_dump_name(os.path.basename(path))
    if dump is None:
        return [Piece(path, stage, module)]
    if stage is not None and not matching(stage, [dump.aliases]):
        passed.append(dump)
        return []
    if module is not None and dump.label and not matching(module, [dump.names]):
        passed.append(dump)
        return []
    return [Piece(path, module=None if dump.label else module)]


def _in_folder(folder: str, stage: str | None, module: str | None, passed: list[DumpName]) -> Iterator[Piece]:
    """The dumps of a folder; where there are none, its loose files, and what is in the folders in it."""
    named, others = dumps_in(folder)
    if named:
        yield from _chosen(folder, named, stage, module, passed)
        return
    yield from (Piece(os.path.join(folder, name), stage, module, is_guess=True) for name in others)
    for inner in folders_in(folder):
        yield from _in_folder(os.path.join(folder, inner), stage, module, passed)


def _chosen(
    folder: str, named: Sequence[tuple[str, DumpName]], stage: str | None, module: str | None, passed: list[DumpName]
) -> Iterator[Piece]:
    dumps = [dump for _, dump in named]
    is_told = all(dump.label for dump in dumps)
    kept = range(len(dumps)) if module is None or not is_told else matching(module, [dump.names for dump in dumps])
    wanted = list(kept)
    if stage is not None:
        wanted = [wanted[i] for i in matching(stage, [dumps[i].aliases for i in kept])]
    passed += [dump for i, dump in enumerate(dumps) if i not in set(wanted)]
    if not wanted:
        return
    for index, choice in chosen_stages([dumps[i] for i in wanted], stage, folder.rstrip("/") + "/"):
        path = os.path.join(folder, named[wanted[index]][0])
        yield Piece(path, module=None if is_told else module, choice=choice)
