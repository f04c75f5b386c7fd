"""Directories of dumps: the modules in one, those of its subdirectories, and the error if there are none.

A directory with dumps, as `--xla_dump_to` writes it, stands for these alone; any other for all of its subdirectories.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import (
    DumpName,
    is_auxiliary_file,
    matching_stages,
    not_found_error,
    parse_dump_name,
    select_stages,
    split_extension,
)
from hlo_cli.inputs.files import AS_TEXT, open_bounded, unreadable
from hlo_cli.source import HloError, did_you_mean

MAX_DIRECTORIES: Final = 10_000
"""The most directories that one argument may stand for."""
MAX_DEPTH: Final = 32
"""The deepest subdirectory that is read."""
_SHOWN = 5
_TEXTS: Final = (".txt", ".log", ".err", ".out")
_HEAD: Final = 1 << 16
_SUBDIRECTORY: Final = "pass one of its subdirectories"


@dataclass(frozen=True, slots=True)
class Directory:
    """The dumps of a directory, the names of other files that might hold HLO, and those of its subdirectories.

    `is_unreadable` if the directory cannot be listed; `remark` is a note on dumps below it that are not read.
    """

    path: str
    dumps: tuple[tuple[str, DumpName], ...] = ()
    others: tuple[str, ...] = ()
    subdirectories: tuple[str, ...] = ()
    is_unreadable: bool = False
    remark: str | None = None

    @property
    def place(self) -> str:
        """The path with a slash, for messages."""
        return self.path.rstrip("/") + "/"


def read_directory(path: str) -> Directory:
    """Lists a directory: text is preferred to protos; links to directories and hidden directories are left out."""
    files, folders = _entries(path)
    parsed = [(name, dump) for name in files if (dump := parse_dump_name(name)) is not None]
    texts = {split_extension(name)[0] for name, dump in parsed if dump.is_text}
    dumps = tuple((name, dump) for name, dump in parsed if dump.is_text or split_extension(name)[0] not in texts)
    loose = [name for name in files if split_extension(name)[1] and not is_auxiliary_file(name)]
    others = tuple(name for name in loose if split_extension(name)[1] != "pb") or tuple(loose)
    inside = tuple(
        name for name in folders if not name.startswith(".") and not os.path.islink(os.path.join(path, name))
    )
    return Directory(path, dumps, others, inside)


def walk_directories(path: str) -> Iterator[Directory]:
    """The directory and, if it has no dumps, its subdirectories, in their natural order; each in the same way.

    HloError for a directory that cannot be listed, unless it is a subdirectory, and for trees that are too large.
    """
    pending, count = [(path, 0)], 0
    while pending:
        each, depth = pending.pop()
        count += 1
        if count > MAX_DIRECTORIES:
            raise HloError(f"{path} contains too many directories (limit {MAX_DIRECTORIES:,})", hint=_SUBDIRECTORY)
        if depth > MAX_DEPTH:
            raise HloError(f"{path} is nested too deeply (limit {MAX_DEPTH} directories)", hint=_SUBDIRECTORY)
        try:
            found = read_directory(each)
        except HloError:
            if not depth:
                raise
            yield Directory(each, is_unreadable=True)
            continue
        inner = [(os.path.join(each, name), depth + 1) for name in reversed(found.subdirectories)]
        if not found.dumps:
            yield found
            pending += inner
            continue
        remark = _remark(found.place, _count_dump_directories(inner))
        yield Directory(each, found.dumps, found.others, found.subdirectories, remark=remark)


def select_dumps(
    directory: Directory, stage: str | None, module: str | None
) -> tuple[list[tuple[str, str | None]], list[DumpName]]:
    """One dump of each module, as its path and a note on the stage; and the dumps of other stages and modules.

    If some names do not contain a module, `module` is not applied.
    """
    named, dumps = directory.dumps, [dump for _, dump in directory.dumps]
    kept = list(range(len(dumps)))
    if module is not None and names_modules(directory):
        kept = matching_stages(module, [dump.names for dump in dumps])
    if stage is not None:
        kept = [kept[i] for i in matching_stages(stage, [dumps[i].aliases for i in kept])]
    selected = select_stages([dumps[i] for i in kept], stage, directory.place) if kept else []
    paths = [(os.path.join(directory.path, named[kept[index]][0]), choice) for index, choice in selected]
    return paths, [dump for i, dump in enumerate(dumps) if i not in set(kept)]


def names_modules(directory: Directory) -> bool:
    """Whether the file names of all dumps contain a module."""
    return all(dump.label for _, dump in directory.dumps)


def not_selected_error(skipped: Sequence[DumpName], stage: str | None, module: str | None, place: str) -> HloError:
    """The error for a stage or module that no dump has, if all were skipped."""
    has_module = module is None or bool(matching_stages(module, [dump.names for dump in skipped]))
    if stage is not None and has_module:
        return not_found_error("stage", stage, [dump.stage for dump in skipped], place)
    return not_found_error("module", module or "", [dump.module for dump in skipped], place)


def no_dumps_error(folder: str) -> HloError:
    """The error for a directory without HLO: its content, and where dumps may be."""
    files, folders = _entries(folder)
    endings = Counter(os.path.splitext(name)[1] or name for name in files).most_common(_SHOWN)
    found = [f"{count:,} {ending}" for ending, count in endings]
    if folders:
        noun = "directory" if len(folders) == 1 else "directories"
        found.append(f"{len(folders):,} {noun}: {_listed(folders)}")
    if not found:
        what = "contains no regular files" if os.listdir(folder) else "is empty"
        return HloError(f"directory {_shown(folder)} {what}", hint=AS_TEXT)
    inside = next((name for name in folders if _has_dumps(os.path.join(folder, name))), None)
    hint = did_you_mean(f"{os.path.join(folder, inside)}/") if inside else _hint_for_texts(folder, files) or AS_TEXT
    return HloError(f"no HLO dumps in {_shown(folder)} (contains {', '.join(found)})", hint=hint)


def _hint_for_texts(folder: str, files: Iterable[str]) -> str | None:
    """The command for the first file that is an error message or another text that can be explained."""
    from shlex import quote  # rarely needed

    from hlo_cli.inputs.pasted.recognize import kind_of

    paths = (os.path.join(folder, name) for name in sorted(files) if name.endswith(_TEXTS))
    for path in islice(filter(os.path.isfile, paths), _SHOWN):
        with suppress(OSError, HloError), open_bounded(path) as file:
            if kind_of(file.read(_HEAD).decode("utf-8", "replace")) is not None:
                return f"to explain the message in a file, run `hlo {quote(path)}`"
    return None


def _remark(place: str, count: int) -> str | None:
    """The note on directories below one with dumps of its own."""
    if not count:
        return None
    if count == 1:
        return f"1 subdirectory of {place} also contains dumps and is not read; pass it as an argument to read it"
    more = f"{count:,} subdirectories of {place} also contain dumps and are not read"
    return f"{more}; pass them as arguments to read them"


def _count_dump_directories(pending: list[tuple[str, int]]) -> int:
    """The number of directories with dumps in some directories, as far as these can be read."""
    found, count, pending = 0, 0, list(pending)
    while pending and count < MAX_DIRECTORIES:
        path, depth = pending.pop()
        count += 1
        try:
            directory = read_directory(path)
        except HloError:
            continue
        found += bool(directory.dumps)
        if depth < MAX_DEPTH:
            pending += [(os.path.join(path, name), depth + 1) for name in directory.subdirectories]
    return found


def _entries(folder: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(folder) as entries:
            listed = ((entry.name, _is_folder(entry)) for entry in entries if _can_be_read(entry))
            found = sorted(listed, key=lambda entry: _natural(entry[0]))
    except OSError as error:
        raise unreadable(folder, error) from None
    return [name for name, is_folder in found if not is_folder], [name for name, is_folder in found if is_folder]


def _can_be_read(entry: os.DirEntry[str]) -> bool:
    """Whether a name in a directory is a file or a directory; of a pipe with a dump's name, nothing may ever come."""
    try:
        mode = entry.stat().st_mode if entry.is_symlink() or not entry.is_file() else stat.S_IFREG
    except OSError:
        return True  # a link that leads nowhere: an error when it is read
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _has_dumps(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(parse_dump_name(name) is not None for name in names)


def _natural(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d{0,18})", name)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _shown(folder: str) -> str:
    return folder.rstrip("/") + "/"
