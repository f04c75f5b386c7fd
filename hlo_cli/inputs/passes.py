"""Per-pass dumps: the files that `--xla_dump_hlo_pass_re` adds, in a dump's directory or in `passes` below it."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from hlo_cli.inputs.directory import read_directory
from hlo_cli.inputs.dumps import DumpName
from hlo_cli.lazy_regex import lazy_regex

_STAGE: Final = lazy_regex(r"(?P<number>\d+)\.(?P<pipeline>.*?)(?:\.after_(?P<after>.+?))?(?:\.before_(?P<before>.+))?")
_FOLDER: Final = "passes"
_FIRST_STAGE: Final = "before_optimizations"


class PassName(NamedTuple):
    """A pass: the number of the first dump after it, its name, and the pipeline that runs it; None if unknown."""

    number: int | None
    name: str
    pipeline: str | None


def pass_between(before: str, stage: str) -> PassName:
    """The pass between two consecutive dumps, given their stages: the one after which the second was made.

    >>> pass_between("0006.simplification.after_pipeline-start.before_algsimp", "0007.simplification.after_algsimp")
    PassName(number=7, name='algsimp', pipeline='simplification')
    """
    now, then = _STAGE.fullmatch(stage), _STAGE.fullmatch(before)
    if now is None:
        return PassName(None, f"to {stage}", None)
    after = now["after"]
    if after in (None, "pipeline-start") and then is not None and then["before"] not in (None, "pipeline-end"):
        return PassName(int(now["number"]), then["before"], then["pipeline"])
    name = now["pipeline"] if after in (None, "pipeline-start") else after
    return PassName(int(now["number"]), name or stage, now["pipeline"])


def pass_number(stage: str) -> str | None:
    """The number that a stage begins with, as written; None if it is not a pass.

    >>> pass_number("0007.simplification.after_algsimp"), pass_number("after_optimizations")
    ('0007', None)
    """
    found = _STAGE.fullmatch(stage)
    return found["number"] if found is not None else None


def earlier_dumps(path: str, dump: DumpName) -> list[tuple[str, str]]:
    """Paths and stages of the per-pass dumps of a module from before one of its dumps, the earliest first.

    Those next to the dump are preferred to those in the directory `passes`; empty without any, or for a dump that is
    not a file.
    """
    if not os.path.isfile(path):
        return []
    here = os.path.dirname(path)
    for folder in (here, os.path.join(here, _FOLDER)):
        if not os.path.isdir(folder):
            continue
        dumps = [(name, each) for name, each in read_directory(folder).dumps if each.group == dump.group]
        order = dump.order if dump.order[0] == 1 else (2, 0)
        passes = sorted((each.order, name, each.stage) for name, each in dumps if each.order[0] == 1)
        found = [(os.path.join(folder, name), stage) for made, name, stage in passes if made < order]
        if found:
            return found if dump.order != (0, 0) else []
    return []


def first_dump(path: str, dump: DumpName) -> str | None:
    """The path of the dump of the same module before optimizations, in the directory of the dump or above `passes`.

    None without one, for that dump itself, and for a dump that is not a file.

    >>> from hlo_cli.inputs.dumps import parse_dump_name
    >>> first_dump("/no/such/after_optimizations.txt", parse_dump_name("after_optimizations.txt")) is None
    True
    """
    if dump.stage == _FIRST_STAGE or not os.path.isfile(path):
        return None
    here = os.path.dirname(path)
    folders = (here, os.path.join(here, os.pardir)) if os.path.basename(os.path.abspath(here)) == _FOLDER else (here,)
    for folder in folders:
        dumps = [
            name
            for name, each in read_directory(folder).dumps
            if each.group == dump.group and each.stage == _FIRST_STAGE
        ]
        if dumps:
            return os.path.normpath(os.path.join(folder, dumps[0]))
    return None
