"""With which flags were two programs compiled, and what gave two entries of JAX's compilation cache different keys?

The key is a hash of the program, the versions of jaxlib and the platform, the flags, the compile options, the devices,
and the compression (jax/_src/cache_key.py, `get`). An entry holds the optimized program, the flags, and the compile
options; what it does not hold is named as unknown, with the log that has it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Final, Literal, TypeAlias, TypeVar

from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.statements import statements_of
from hlo_cli.analysis.statements.user_program import op_name_of
from hlo_cli.commands.diff.sentences import headline
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import cache_entry
from hlo_cli.inputs.files import read_bytes
from hlo_cli.inputs.forms import MAXIMUM_BYTES, compression_of
from hlo_cli.inputs.input import Input, ModuleRef, read_module_ref
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count, list_first, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Table, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_files.flags import (
    build_settings,
    flags_in_options,
    overrides_in_options,
)

# --- flags ---
# The flags of a compilation are in an executable, and in the file `debug_options` beside a dump.


_MOST_FLAGS: Final = 4  # each takes about half a line of a terminal
_DUMP_FLAGS: Final = "xla_dump_"
"""The begin of flags that do not change the program, and that differ between any two directories."""


Flags: TypeAlias = "Mapping[str, str]"
"""The flags of a compilation that differ from the defaults, by name."""


def different_flags(before: Flags, after: Flags) -> str:
    """The flags that two compilations had with different values, in words; empty if they are equal.

    >>> different_flags({"xla_a": "1", "xla_dump_to": "old/"}, {"xla_dump_to": "new/"})
    '--xla_a 1 → default'
    """
    changed = [
        f"--{name} {_value(before, name)} → {_value(after, name)}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and not name.startswith(_DUMP_FLAGS)
    ]
    more = [f"{len(changed) - _MOST_FLAGS:,} more"] if len(changed) > _MOST_FLAGS else []
    return ", ".join([*changed[:_MOST_FLAGS], *more])


def _value(flags: Flags, name: str) -> str:
    return flags.get(name, "default") or "''"


# --- entries of the cache ---


Entry: TypeAlias = tuple[Input, str]
"""The module of an entry, and its key."""


def entries_of(old: Input, new: Input) -> tuple[Entry, Entry] | None:
    """Both inputs with their keys, if both are entries of JAX's compilation cache."""
    found = [(each, key) for each in (old, new) if (key := _key_of(each)) is not None]
    return (found[0], found[1]) if len(found) == 2 else None


def _key_of(given: Input) -> str | None:
    entry = cache_entry(os.path.basename(given.path)) if given.path and given.options is not None else None
    return None if entry is None else entry[1]


Piece = TypeVar("Piece")


def by_program(old: Mapping[str, Piece], new: Mapping[str, Piece]) -> tuple[Mapping[str, Piece], Mapping[str, Piece]]:
    """The files of two caches by the name that joins them: by key if both have it, else by module, numbered.

    Other files keep their names.

    >>> a, b, c = (f"jit_f-{digit * 64}-cache" for digit in "abc")
    >>> [list(side) for side in by_program({a: 0, b: 1}, {a: 0, c: 2})] == [[a, "jit_f"], [a, "jit_f"]]
    True
    """
    return _by_program(old, new), _by_program(new, old)


def _by_program(side: Mapping[str, Piece], other: Mapping[str, Piece]) -> Mapping[str, Piece]:
    found: dict[str, Piece] = {}
    for name, piece in side.items():
        folder, file_name = os.path.split(name)
        entry = None if name in other else cache_entry(file_name)
        number = 1
        joined = name if entry is None else os.path.join(folder, entry[0])
        while (key := joined if number == 1 else f"{joined} #{number}") in found:
            number += 1
        found[key] = piece
    return found


# --- what differs in a key ---


State = Literal["same", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of the key, whether it differs between two entries, and how."""

    name: str
    state: State
    details: str = ""


_COLUMNS: tuple[Column[KeyPart], ...] = (
    Column("key_part", "part of the key", of=lambda part: part.name),
    Column("state", "", of=lambda part: part.state),
    Column("details", "from → to", of=lambda part: part.details or None),
)
_NOT_IN_KEY: Final = frozenset(
    (
        *("xla_force_host_platform_device_count", "xla_gpu_cuda_data_dir", "xla_gpu_experimental_autotune_cache_mode"),
        *("xla_tpu_sdc_checker_streamz_metric", "xla_tpu_sdc_checker_enable_sdc_event_callbacks"),
        *("xla_tpu_sdc_checker_enable_coresweep_ng_callbacks",),
        *("xla_tpu_sdc_checker_no_logging_if_callbacks_are_present",),
    )
)
"""Flags that jax/_src/cache_key.py clears, besides those of dumps."""
_PROGRAM: Final = "program"
_DEVICES: Final = "xla_force_host_platform_device_count"
_FOLDER: Final = "xla_gpu_per_fusion_autotune_cache_dir"
_SEPARATE: Final = _NOT_IN_KEY | {_FOLDER}
"""Flags that are not compared with the others: those outside of the key, and the path of the cache, which is long."""
_OF_DEVICES: Final = frozenset(
    ("device_assignment", "num_replicas", "num_partitions", "process_index", "process_count")
)


def with_cache_keys(report: Report, entries: tuple[Entry, Entry], comparison: ModuleDiff) -> Report:
    """The report on two modules with what gave their entries different keys."""
    (old, key), (new, other) = entries
    if key == other:
        return replace(report, answer=f"Same cache key. {report.answer}")
    parts = key_parts(old, new, comparison)
    differing = [part for part in parts if part.state == "differs"]
    # the answer on the modules says what differs in the program
    is_told = not comparison.is_same_program
    cause = "; ".join(
        part.name if is_told and part.name == _PROGRAM else f"{part.name}: {part.details}" for part in differing
    )
    answer = f"The cache keys differ by the {cause}" if differing else "The cache keys differ by what no entry holds"
    table = Table("cache_key", _COLUMNS, rows_from(_COLUMNS, parts), noun="parts")
    advice = _advice(differing)
    passage = (Passage("advice", advice),) if advice else ()
    numbers = {**report.numbers, "cache_key_differs": tuple(part.name for part in differing)}
    return replace(report, answer=f"{answer}. {report.answer}", numbers=numbers, parts=(table, *passage, *report.parts))


def key_parts(old: Input, new: Input, comparison: ModuleDiff) -> tuple[KeyPart, ...]:
    """The parts of the keys of two entries, in the order in which they are hashed."""
    overrides = [overrides_in_options(each.options or b"") for each in (old, new)]
    before, after = (flags_in_options(each.options or b"") for each in (old, new))
    kept = [{name: value for name, value in flags.items() if name not in _SEPARATE} for flags in (before, after)]
    flags = [different_flags(*kept)] if different_flags(*kept) else []
    if before.get(_FOLDER) != after.get(_FOLDER):
        flags.append(f"--{_FOLDER} (the path of the cache)")
    builds = [build_settings(each.options or b"") for each in (old, new)]
    names = [name for name in {**builds[0], **builds[1]} if builds[0].get(name) != builds[1].get(name)]
    options = [_changed_setting(name, builds) for name in names if name not in _OF_DEVICES]
    if overridden := different_flags(*overrides):
        options.append(f"compiler_options {overridden}")
    devices = [_changed_setting(name, builds) for name in names if name in _OF_DEVICES]
    if before.get(_DEVICES) != after.get(_DEVICES):
        devices.append(f"{before.get(_DEVICES, 'default')} → {after.get(_DEVICES, 'default')} CPU devices")
    compressions = [compression_of(read_bytes(each.path or "", limit=MAXIMUM_BYTES)) or "none" for each in (old, new)]
    return (
        _program(comparison),
        KeyPart("jaxlib version", "unknown"),
        KeyPart("platform version", "unknown"),
        KeyPart("flags", "differs" if flags else "same", ", ".join(flags)),
        KeyPart("compile options", "differs" if options else "same", ", ".join(options)),
        KeyPart("devices", "differs" if devices else "unknown", ", ".join(devices)),
        KeyPart(
            "compression",
            "same" if compressions[0] == compressions[1] else "differs",
            " → ".join(dict.fromkeys(compressions)) if compressions[0] != compressions[1] else "",
        ),
    )


def _changed_setting(name: str, settings: Sequence[Mapping[str, str]]) -> str:
    before, after = (each.get(name, "default") for each in settings)
    # messages are hexadecimal
    return name if max(len(before), len(after)) > _LONGEST_VALUE else f"{name} {before} → {after}"


_LONGEST_VALUE: Final = 20  # a number; longer ones are bytes


def _program(comparison: ModuleDiff) -> KeyPart:
    """Whether the programs differed as they came in, by what is left of them after optimizations."""
    if not comparison.is_same_program:
        return KeyPart(_PROGRAM, "differs", headline(statements_of(comparison)) or "the header")
    before, after = (_functions(module) for module in (comparison.before, comparison.after))
    gone, new = [name for name in before if name not in after], [name for name in after if name not in before]
    if gone or new:
        # names of functions are symbols of the StableHLO, and stay when its locations are removed
        words = f"function {list_first(gone, 3) or 'none'} → {list_first(new, 3) or 'none'}"
        return KeyPart(_PROGRAM, "differs", words)
    return KeyPart(_PROGRAM, "unknown", "the same after optimizations")


_FUNCTION: Final = re.compile(r"(?:^|/)(?:p?jit)\(([^()/]+)\)")


def _functions(module: Module) -> list[str]:
    """The jitted functions that the op_names of a module name."""
    names = (each for instruction in module.instructions for each in _FUNCTION.findall(op_name_of(instruction)))
    return list(dict.fromkeys(names))


def _advice(differing: Sequence[KeyPart]) -> tuple[str, ...]:
    """What keeps the key, or which log has the part that an entry does not hold."""
    if any(_FOLDER in part.details for part in differing):
        folder = f"--{_FOLDER} is the path of the cache and part of the key: keep one path, or set"
        return (f"{folder} jax_persistent_cache_enable_xla_caches to 'none'.",)
    if differing:
        return ()
    log = "JAX_DEBUG_LOG_MODULES=jax._src.cache_key"
    words = "The program before optimizations, versions, and devices are not in an entry. To see which part differs"
    return (f"{words}, run both programs with {log}, which logs a hash for each part.",)


# --- two caches ---


Source: TypeAlias = "ModuleRef | Input"


@dataclass(frozen=True, slots=True)
class _EntryPair:
    """A program in two caches: `state` says whether its key is the same, and `parts` what differs in it."""

    module: str
    state: Literal["same key", "other key", "only in OLD", "only in NEW"]
    parts: tuple[KeyPart, ...] = ()
    paths: tuple[str, str] = ("", "")


_PAIR_COLUMNS: tuple[Column[_EntryPair], ...] = (
    Column("module", "module", "name", role="name", of=lambda pair: pair.module),
    Column("state", "", of=lambda pair: pair.state),
    Column("key_part", "part of the key", of=lambda pair: ", ".join(part.name for part in pair.parts) or None),
    Column("details", "from → to", of=lambda pair: "; ".join(part.details for part in pair.parts) or None),
)


def are_caches(*sides: Mapping[str, Source]) -> bool:
    """Whether all files of both sides are entries of JAX's compilation cache.

    >>> are_caches({"jit_f.txt": ModuleRef("jit_f.txt")}, {})
    False
    """
    return all(cache_entry(os.path.basename(name)) is not None for side in sides for name in side)


def report_of_caches(
    old: Mapping[str, Source], new: Mapping[str, Source], compare: Callable[[Input, Input], ModuleDiff]
) -> tuple[Report, bool, tuple[Diagnostic, ...]]:
    """A row for each program whose key differs between two caches, and whether there is any; entries join by module."""
    before, after = by_program(old, new)
    pairs, problems = list[_EntryPair](), list[Diagnostic]()
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            pairs.append(_EntryPair(name, "only in OLD" if name in before else "only in NEW"))
        elif name in old:  # the name of a file, with the key, is in both
            pairs.append(_EntryPair(name, "same key"))
        else:
            try:
                one, other = _read(before[name]), _read(after[name])
                parts = key_parts(one, other, compare(one, other))
            except (HloError, OSError) as error:
                message = error.diagnostic.message if isinstance(error, HloError) else str(error)
                problems.append(Diagnostic("error", f"{name}: {message}"))
                continue
            kept = tuple(part for part in parts if part.state == "differs")
            pairs.append(_EntryPair(name, "other key", kept, (one.path or "", other.path or "")))
    shown = sorted((pair for pair in pairs if pair.state != "same key"), key=lambda pair: pair.state != "other key")
    report = Report(
        "diff",
        _answer_of_caches(shown, len(pairs)),
        numbers={
            "modules": len(pairs),
            "same_key": len(pairs) - len(shown),
            "other_key": sum(pair.state == "other key" for pair in shown),
        },
        parts=(
            Table(
                "cache_keys", _PAIR_COLUMNS, rows_from(_PAIR_COLUMNS, shown), noun="modules", limit=ROWS_FOR_A_PERSON
            ),
            *(Passage("advice", advice) for pair in shown[:1] if (advice := _advice(pair.parts)) and pair.paths[0]),
        ),
        next=tuple(f"hlo diff {quote(pair.paths[0])} {quote(pair.paths[1])}" for pair in shown[:1] if pair.paths[0]),
    )
    return report, bool(shown), tuple(problems)


def _read(source: Source) -> Input:
    return source if isinstance(source, Input) else read_module_ref(source)[-1]


def _answer_of_caches(shown: Sequence[_EntryPair], count: int) -> str:
    programs = format_count(count, "programs")
    other = [pair for pair in shown if pair.state == "other key"]
    alone = len(shown) - len(other)
    only = f"; {alone:,} only in one cache" if alone else ""
    if not other:
        return f"Same cache keys ({programs}){only}"
    parts = Counter(part.name for pair in other for part in pair.parts)
    why = ", ".join(f"{name} ({number:,})" for name, number in parts.most_common()) or "what no entry holds"
    return f"{len(other):,} of {programs} {verb(len(other), 'has', 'have')} another cache key, by {why}{only}"
