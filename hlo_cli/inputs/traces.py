"""The traces of profilers that an argument names: a file, the directory of a profile, or a glob pattern.

`jax.profiler` writes `DIR/plugins/profile/DATE/HOST.xplane.pb`, one file for each host, and next to it the same events
as `HOST.trace.json.gz`; `DIR` may hold several profiles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.directory import MAX_DEPTH, MAX_DIRECTORIES
from hlo_cli.inputs.files import missing, unreadable
from hlo_cli.inputs.input import glob_paths
from hlo_cli.source import HloError

_SUBDIRECTORY: Final = "pass one of its subdirectories"
_COMPRESSED: Final = (".gz", ".xz", ".bz2", ".zst")
_ENDINGS: Final = (
    ".xplane.pb",
    ".trace.json",
    "perfetto_trace.json",
    ".sqlite",
    "nvtx_gpu_proj_trace.csv",
    "_kernel_trace.csv",
    "cuda_gpu_trace.csv",
    "_kernel_stats.csv",
    ".stats.csv",
)
"""How the names of traces end, the best form first: the others hold the same events or fewer."""
_OF_HOSTS: Final = 2
"""The first forms are one file for each host; of the others, only the best are read."""
_DATE: Final = re.compile(r"\d{4}_\d\d_\d\d_")
RECORD: Final = "to record a trace, use `with jax.profiler.trace(DIR)`; see `hlo help profiles`"


@dataclass(frozen=True, slots=True)
class FoundTraces:
    """The paths of the traces that an argument names, and a note on those that were not selected."""

    paths: tuple[str, ...]
    note: str | None = None


def find_traces(argument: str) -> FoundTraces:
    """The traces that an argument names: of a directory, those of all hosts in its latest profile.

    HloError, with a hint, if there are none.

    >>> find_traces("fixtures/traces/cpu_steps").paths
    ('fixtures/traces/cpu_steps/trace.xplane.pb',)
    """
    if argument == "-" or os.path.isfile(argument):
        return FoundTraces((argument,))
    if os.path.isdir(argument):
        return _in_directory(argument)
    if os.path.lexists(argument):
        return FoundTraces((argument,))  # a pipe
    paths = glob_paths(argument)
    if paths is None:
        raise missing(argument)
    found = [find_traces(path) for path in paths]
    return FoundTraces(tuple(dict.fromkeys(path for each in found for path in each.paths)))


def _in_directory(folder: str) -> FoundTraces:
    """The traces of the latest profile in a directory, by date in the name of its directory, or by time."""
    profiles = [(path, paths) for path, names in _walk(folder) if (paths := _best_of(path, names))]
    place = folder.rstrip("/") + "/"
    if not profiles:
        raise HloError(f"no traces found in {place}", hint=RECORD)
    path, paths = max(profiles, key=lambda each: _age(each[0], each[1][0]))
    if len(profiles) == 1:
        return FoundTraces(paths)
    name = os.path.relpath(path, folder)
    return FoundTraces(paths, f"using {name}, the latest of {len(profiles)} profiles in {place}")


def _age(folder: str, path: str) -> tuple[str, float]:
    name = os.path.basename(folder)
    with suppress(OSError):
        return name if _DATE.match(name) else "", os.stat(path).st_mtime
    return "", 0.0


def _walk(folder: str) -> Iterator[tuple[str, list[str]]]:
    """The directories with the names of their files; hidden ones and links to directories are left out."""
    pending, count = [(folder, 0)], 0
    while pending:
        path, depth = pending.pop()
        count += 1
        if count > MAX_DIRECTORIES:
            raise HloError(f"{folder} contains too many directories (limit {MAX_DIRECTORIES:,})", hint=_SUBDIRECTORY)
        names = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        names += [entry.name] * entry.is_file()  # of a pipe, nothing may ever come
                    elif depth < MAX_DEPTH and not entry.name.startswith("."):
                        pending.append((entry.path, depth + 1))
        except OSError as error:
            if not depth:
                raise unreadable(path, error) from None
        yield path, sorted(names)


def _best_of(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    """The traces in a directory: of each host in the best form; files of other profilers only without these."""
    hosts: dict[str, tuple[int, str]] = {}
    for name in names:
        rank, host = _rank_and_host(name)
        if rank < len(_ENDINGS) and (host not in hosts or rank < hosts[host][0]):
            hosts[host] = rank, name
    best = min((rank for rank, _ in hosts.values()), default=0)
    limit = max(best, _OF_HOSTS - 1)
    return tuple(os.path.join(folder, name) for rank, name in sorted(hosts.values()) if rank <= limit)


def _rank_and_host(name: str) -> tuple[int, str]:
    """How good the form of a file is, by its name, and the host: the name without its ending.

    >>> _rank_and_host("vm.xplane.pb.gz"), _rank_and_host("vm.trace.json.gz"), _rank_and_host("README")[0]
    ((0, 'vm'), (1, 'vm'), 9)
    """
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    for rank, ending in enumerate(_ENDINGS):
        if name.endswith(ending):
            return rank, name.removesuffix(ending)
    return len(_ENDINGS), name
