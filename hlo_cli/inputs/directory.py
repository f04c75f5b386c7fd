"""A directory as `--xla_dump_to` writes it: which of its files are modules, and the error if none is."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from hlo_cli.inputs.dumps import DumpName, is_auxiliary_file, parse_dump_name, split_extension
from hlo_cli.inputs.files import AS_TEXT, unreadable
from hlo_cli.source import HloError

_SHOWN = 5


def dumps_in(folder: str) -> tuple[list[tuple[str, DumpName]], list[str]]:
    """The dumps of a directory, text preferred to protos, and other files that might hold HLO."""
    files, _ = _entries(folder)
    parsed = [(name, dump) for name in files if (dump := parse_dump_name(name)) is not None]
    texts = {split_extension(name)[0] for name, dump in parsed if dump.is_text}
    dumps = [(name, dump) for name, dump in parsed if dump.is_text or split_extension(name)[0] not in texts]
    loose = [name for name in files if split_extension(name)[1] and not is_auxiliary_file(name)]
    others = [name for name in loose if split_extension(name)[1] != "pb"] or loose
    return dumps, others


def dump_subdirectories(folder: str) -> list[str]:
    """The names of the folders in a folder, in their natural order; links are not followed.

    >>> dump_subdirectories("/no/such/folder")
    []
    """
    if not os.path.isdir(folder):
        return []
    return [name for name in _entries(folder)[1] if not os.path.islink(os.path.join(folder, name))]


def no_dumps_error(folder: str) -> HloError:
    """The error for a directory without HLO text: its content, and where dumps may be."""
    files, folders = _entries(folder)
    endings = Counter(os.path.splitext(name)[1] or name for name in files).most_common(_SHOWN)
    found = [f"{count:,} {ending}" for ending, count in endings]
    if folders:
        found.append(f"{_counted(len(folders), 'directory', 'directories')} ({_listed(folders)})")
    holds = f"; it holds {', '.join(found)}" if found else "; it is empty"
    inside = next((name for name in folders if _has_dumps(os.path.join(folder, name))), None)
    hint = f"did you mean {os.path.join(folder, inside)}/?" if inside else AS_TEXT
    return HloError(f"there are no HLO dumps in {_shown(folder)}{holds}", hint=hint)


def _entries(folder: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(((entry.name, _is_folder(entry)) for entry in entries), key=lambda entry: _natural(entry[0]))
    except OSError as error:
        raise unreadable(folder, error) from None
    return [name for name, is_folder in found if not is_folder], [name for name, is_folder in found if is_folder]


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


def _counted(count: int, one: str, many: str = "") -> str:
    return f"one {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def _shown(folder: str) -> str:
    return folder.rstrip("/") + "/"
