"""Do all hosts of a job run the same program, and if not, which host differs, where, and which collective hangs?

`hlo diff HOST0/ HOST1/ HOST2/ …`. Modules are joined by name and by order among those of one name: XLA's numbers
differ once a host has compiled one program more. Hosts with the same text share one class; texts are compared as they
are, then without names and metadata, and only what still differs is parsed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from shlex import quote
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.analysis.statements.hosts import (
    NOISE,
    CollectiveMismatch,
    Divergence,
    collective_steps,
    digest_of_text,
    digest_of_texts,
    divergence_of,
    source_of,
)
from hlo_cli.analysis.statements.statements import statements_of
from hlo_cli.commands.diff.cache_keys import Flags, different_flags
from hlo_cli.commands.diff.inputs import DiffOutcome
from hlo_cli.commands.diff.sentences import headline
from hlo_cli.commands.modules.loading import flags_of
from hlo_cli.commands.options.declaring import processes, timeout_given
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import first_dump, hosts_in, parse_dump_name
from hlo_cli.inputs.files import is_folder, read_bytes, unreadable
from hlo_cli.inputs.forms import MAXIMUM_BYTES
from hlo_cli.inputs.input import Input, ModuleRef, list_modules, read_module_ref
from hlo_cli.inputs.parallel import in_order
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_module
from hlo_cli.render.progress import watched
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Column, Table, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.scan_modules import late_problem
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.transform.normalize import normalize

# --- hosts ---
# A host is an input, a subdirectory, or the files with one process index in their names.


_MIN_PARALLEL: Final = 32  # measured: 32 dumps of 1 MB are read in 0.3 s, which is what processes need to start


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its name, and its modules by the name that joins them, in the order in which they were compiled."""

    name: str
    modules: Mapping[str, ModuleRef | Input]


def _read_hosts(arguments: Sequence[str], reading: InputOptions) -> list[Host]:
    """The hosts that the arguments name; HloError if one of them has no module."""
    if len(arguments) == 1:
        found = hosts_in(arguments[0])
        return [_host(name, paths, reading, os.path.commonpath(paths)) for name, paths in found]
    names = _distinct_parts(arguments)
    return [_host(name, (each,), reading, each) for name, each in zip(names, arguments, strict=True)]


def _distinct_parts(paths: Sequence[str]) -> list[str]:
    """The paths without the folders that all share at their begin and at their end.

    >>> _distinct_parts(["dump/host0/xla/", "dump/host1/xla/"])
    ['host0', 'host1']
    """
    parts = [os.path.normpath(path).split(os.sep) for path in paths]
    if len(set(map(tuple, parts))) < len(parts):
        return list(paths)
    first = (
        next(at for at, level in enumerate(zip(*parts, strict=False)) if len(set(level)) > 1) if _differ(parts) else 0
    )
    last = 0
    while all(len(each) - last - 1 > first for each in parts) and len({each[-1 - last] for each in parts}) == 1:
        last += 1
    return [os.sep.join(each[first : len(each) - last]) for each in parts]


def _differ(parts: Sequence[Sequence[str]]) -> bool:
    return any(len(set(level)) > 1 for level in zip(*parts, strict=False))


def _host(name: str, paths: Sequence[str], reading: InputOptions, folder: str) -> Host:
    """A host with its modules, those of one name numbered in the order of their files."""
    pieces = list(list_modules(paths, stage=reading.stage, module=reading.module))
    keyed: dict[str, ModuleRef | Input] = {}
    for piece in pieces:
        dump = parse_dump_name(os.path.basename(piece.path))
        if dump is None and (len(pieces) > 1 or not is_folder(folder)):
            found: Iterable[tuple[str, ModuleRef | Input]] = (
                (each.module or "", each) for each in read_module_ref(piece)
            )
        else:
            found = ((dump.module or "" if dump else "", piece),)
        for module, source in found:
            number = 1
            while (key := module if number == 1 else f"{module} #{number}") in keyed:
                number += 1
            keyed[key] = source
    if not keyed:
        raise HloError(f"no modules found on host {name}", hint="pass the directory of dumps of each host")
    return Host(name, keyed)


# --- classes ---
# The hosts whose module is the same, by stages that read and compare more and more of it.


_Source: TypeAlias = "ModuleRef | Input"


@dataclass(frozen=True, slots=True)
class _Class:
    """The hosts with one program under one name, and one of its files."""

    hosts: tuple[int, ...]
    source: _Source


@dataclass(frozen=True, slots=True)
class _Digest:
    """The digest of a file at a level, as a function that another process can call; errors are its texts."""

    level: int
    strict: bool

    def __call__(self, source: _Source) -> bytes | str:
        try:
            if self.level == 0:
                return _content_digest(source)
            found = (source,) if isinstance(source, Input) else read_module_ref(source)
            return digest_of_texts(text for each in found for text in self._texts(each))
        except (HloError, OSError) as error:
            message, path = error.diagnostic.message if isinstance(error, HloError) else str(error), _path_of(source)
            return message if path in message else f"{path}: {message}"

    def _texts(self, found: Input) -> Iterator[str]:
        if found.proto is None and self.level < _PARSED:
            yield digest_of_text(found.source.text, with_names=self.level == 1).hex()
            return
        module = read_module(found.source, found.proto, strict=self.strict, infer=omitted_shape)
        if module.errors:
            raise HloError.of(module.errors)
        # the order of the collectives is part of the program here, as it is not for a golden file
        yield repr([step.key for step in collective_steps(module)])
        yield from (NOISE.sub("", chunk) for chunk in normalize(module).chunks())


def _content_digest(source: _Source) -> bytes:
    """The digest of a file as it is, or of a module in one."""
    if isinstance(source, ModuleRef):
        try:
            return blake2b(read_bytes(source.path, limit=MAXIMUM_BYTES), digest_size=16).digest()
        except OSError as error:
            raise unreadable(source.path, error) from None
    return digest_of_texts((source.source.text, (source.proto or b"").hex()))


_MIN_PROBED: Final = 4  # of three files or fewer, the two that are read for this are most
_PARSED: Final = 3
"""The level at which modules are parsed, behind the bytes of the file and the two of `digest_of_text`."""


@dataclass(frozen=True, slots=True)
class _Classes:
    """The classes of each module, that of most hosts first; the hosts whose file cannot be read, and why."""

    by_module: Mapping[str, Sequence[_Class]]
    unread: Mapping[str, frozenset[int]]
    problems: tuple[Diagnostic, ...]


def _classes_of(hosts: Sequence[Host], reading: InputOptions, jobs: int | None) -> _Classes:
    classes: dict[str, list[_Class]] = {}
    for number, host in enumerate(hosts):
        for name, source in host.modules.items():
            classes.setdefault(name, []).append(_Class((number,), source))
    unread: dict[str, frozenset[int]] = {}
    problems: dict[str, Diagnostic] = {}
    levels = iter(range(_PARSED + 1))
    for level in levels:
        several = [(name, each) for name, found in classes.items() if len(found) > 1 or not level for each in found]
        if level == 1 and not _differ_in_metadata(classes, reading):
            level = next(levels)
        digests = _digests([each.source for _, each in several], level, reading, jobs)
        merged: dict[str, dict[bytes, _Class]] = {}
        for (name, each), digest in zip(several, digests, strict=True):
            same = merged.setdefault(name, {})
            if isinstance(digest, str):
                problems.setdefault(digest, Diagnostic("error", digest))
                unread[name] = unread.get(name, frozenset()).union(each.hosts)
                continue
            known = same.get(digest)
            same[digest] = each if known is None else replace(known, hosts=(*known.hosts, *each.hosts))
        classes |= {name: list(same.values()) for name, same in merged.items()}
    # the first of equal ones is that of the first host, as the sort is stable
    largest_first = {name: sorted(found, key=lambda each: -len(each.hosts)) for name, found in classes.items() if found}
    return _Classes(largest_first, unread, tuple(problems.values()))


def _differ_in_metadata(classes: Mapping[str, Sequence[_Class]], reading: InputOptions) -> bool:
    """Whether two files of the module with most classes differ in metadata alone, as those of all hosts then do.

    If they do not, the digest without names is next: one more reading of all files shows nothing.
    """
    most = max(classes.values(), key=len, default=())
    if len(most) < _MIN_PROBED:
        return True
    one, other = (_Digest(1, reading.strict)(each.source) for each in most[:2])
    return one == other


def _digests(sources: Sequence[_Source], level: int, reading: InputOptions, jobs: int | None) -> list[bytes | str]:
    timeout = timeout_given()
    number = processes(0 if jobs is None and len(sources) >= _MIN_PARALLEL else jobs, len(sources))
    results = in_order(
        _Digest(level, reading.strict),
        sources,
        jobs=number,
        lost=partial(_lost, "worker process died, possibly out of memory"),
        timeout=timeout,
        late=partial(_lost, late_problem(timeout)),
    )
    return list(watched(results, len(sources), "modules", quiet=reading.quiet))


def _lost(problem: str, source: _Source) -> str:
    return f"{_path_of(source)}: {problem}"


def _path_of(source: _Source) -> str:
    return source.path if isinstance(source, ModuleRef) else source.source.name


def _module_of(source: _Source, reading: InputOptions) -> Module:
    """The module of a class, the first of a file with several."""
    found = source if isinstance(source, Input) else read_module_ref(source)[0]
    return read_module(found.source, found.proto, strict=reading.strict, infer=omitted_shape)


# --- divergences ---


Effect = Literal["hang", "program", "results", "missing", "compilation", "flags", "extra"]
_SEVERITY: Final[tuple[Effect, ...]] = ("hang", "program", "missing", "results", "compilation", "flags", "extra")
"""Effects, the worst first. `missing`: a module without collectives that most hosts have; `extra`: that few have, and
`program` if some hosts have no module in common with the others."""
_EFFECT_WORDS: Final[Mapping[Effect, str]] = {
    "hang": "hang",
    "program": "other program",
    "missing": "missing module",
    "results": "other results",
    "compilation": "other code",
    "flags": "other flags",
    "extra": "extra module",
}


@dataclass(frozen=True, slots=True)
class _Finding:
    """One divergence: the hosts that have it, against `others`, the hosts with the program that most have."""

    effect: Effect
    module: str
    hosts: tuple[str, ...]
    others: tuple[str, ...]
    difference: str = ""
    instruction: str | None = None
    source: str | None = None
    cause: str | None = None
    collective: str | None = None
    collective_source: str | None = None
    reason: str | None = None
    position: int | None = None
    stuck: str = ""
    paths: tuple[str, str] | None = None


_COLUMNS: tuple[Column[_Finding], ...] = (
    Column("effect", "effect", of=lambda found: _EFFECT_WORDS[found.effect]),
    Column("module", "module", "name", role="name", of=lambda found: found.module),
    Column("hosts", "hosts", rank=9, of=lambda found: ", ".join(found.hosts)),
    Column("host_count", "hosts", "count", person=False, of=lambda found: len(found.hosts)),
    Column("other_host_count", "other hosts", "count", person=False, of=lambda found: len(found.others)),
    Column("instruction", "instruction", "name", of=lambda found: found.instruction),
    Column("source", "source", rank=3, of=lambda found: found.source),
    Column("difference", "difference", rank=8, of=lambda found: found.difference or None),
    Column("collective", "collective", "name", from_width=120, of=lambda found: found.collective),
    Column("mismatch", "mismatch", from_width=200, of=lambda found: found.reason),
    Column("collective_index", "at", "line", person=False, of=lambda found: found.position),
    Column("stuck", "stuck hosts", person=False, of=lambda found: found.stuck or None),
    Column("cause", "cause", from_width=200, of=lambda found: found.cause),
)


def report_of_hosts(
    arguments: Sequence[str], reading: InputOptions, ignored: Sequence[str], *, jobs: int | None = None
) -> DiffOutcome:
    """Whether all hosts run the same program, and for each divergence the hosts, the place, and the effect.

    `ignored` are the kinds of changes of `--ignore`. HloError for a host without modules.
    """
    hosts = _read_hosts(arguments, reading)
    classes = _classes_of(hosts, reading, jobs)
    names = [host.name for host in hosts]
    found = list[_Finding]()
    for module, same in classes.by_module.items():
        found += _differing(module, same, names, reading, ignored)
        found += _on_some(module, same, names, classes.unread.get(module, frozenset()), reading)
    groups = _groups_with_modules_in_common(hosts)
    if len(groups) > 1:
        found = [replace(each, effect="program") if each.effect == "extra" else each for each in found]
    found += _other_orders(hosts, classes.by_module, reading)
    found += _other_flags(hosts)
    found.sort(key=lambda each: (_SEVERITY.index(each.effect), -len(each.others)))
    diverging = [each for each in found if each.effect != "extra"]
    report = Report(
        "diff-hosts",
        _answer(found, groups, len(classes.by_module)),
        numbers={
            "hosts": len(hosts),
            "modules": len(classes.by_module),
            "diverging_hosts": len({host for each in diverging for host in each.hosts}),
            **{effect: sum(each.effect == effect for each in found) for effect in _SEVERITY},
            "problems": len(classes.problems),
        },
        parts=(*_passages(found), _table(found)),
        next=tuple(f"hlo diff {quote(each.paths[0])} {quote(each.paths[1])}" for each in found[:1] if each.paths),
    )
    return report, bool(diverging), classes.problems


def _table(found: Sequence[_Finding]) -> Table:
    rows = rows_from(_COLUMNS, found)
    # a column without a cell is for programs only
    columns = tuple(
        replace(column, person=column.person and any(row[at] is not None for row in rows))
        for at, column in enumerate(_COLUMNS)
    )
    return Table("divergences", columns, rows, noun="divergences", limit=ROWS_FOR_A_PERSON)


def _differing(
    module: str, same: Sequence[_Class], names: Sequence[str], reading: InputOptions, ignored: Sequence[str]
) -> Iterator[_Finding]:
    """The hosts whose program of one name differs from that of most hosts."""
    if len(same) < 2:
        return
    most = same[0]
    expected = _module_of(most.source, reading)
    for other in same[1:]:
        module_there = _module_of(other.source, reading)
        divergence = divergence_of(expected, module_there, ignored)
        if divergence is None:
            continue
        hosts, others = (tuple(names[at] for at in each.hosts) for each in (other, most))
        yield _finding(module, hosts, others, divergence, (_path_of(most.source), _path_of(other.source)))


def _finding(
    module: str, hosts: tuple[str, ...], others: tuple[str, ...], divergence: Divergence, paths: tuple[str, str]
) -> _Finding:
    comparison, mismatch = divergence.comparison, divergence.mismatch
    first, side = divergence.found, comparison.after
    if first is None:
        first, side = divergence.expected, comparison.before
    finding = _Finding(
        divergence.effect,
        module,
        hosts,
        others,
        _difference(divergence),
        first.name if first is not None else None,
        source_of(first, side) if first is not None else None,
        _cause(paths),
        paths=paths,
    )
    if mismatch is None:
        return finding
    step = mismatch.expected or mismatch.found
    assert step is not None  # a mismatch is of at least one
    holder = comparison.before if mismatch.expected else comparison.after
    place = source_of(step.instruction, holder)
    if mismatch.reason == "order":
        words = f"starts {mismatch.found} before {mismatch.expected}"
        finding = replace(finding, instruction=step.instruction.name, source=place, difference=words)
    elif first is None:
        finding = replace(finding, instruction=step.instruction.name, source=place)
    return replace(
        finding,
        source=finding.source or place,
        difference=finding.difference or " / ".join(mismatch.difference),
        collective=step.instruction.name,
        collective_source=place,
        reason=mismatch.reason,
        position=mismatch.position,
        stuck=_stuck(hosts, others, mismatch, place),
    )


def _difference(divergence: Divergence) -> str:
    """The change of the first instruction; of several changes, the statement on them."""
    comparison = divergence.comparison
    if len(comparison.changed) + len(comparison.added) + len(comparison.removed) < 2:
        return divergence.difference
    text = headline(statements_of(comparison)) or divergence.difference
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _stuck(hosts: Sequence[str], others: Sequence[str], mismatch: CollectiveMismatch, place: str | None) -> str:
    """Who is stuck where, and what the others of the group do in place of it."""
    here, a, b = _listed(hosts), mismatch.expected, mismatch.found
    if a is None:
        return f"{_stuck_in(hosts, str(b), place)}: {_counted(others)} {_end(others)}"
    stuck, starts = _stuck_in(others, str(a), place), verb(len(hosts), "starts", "start")
    if b is None:
        return f"{stuck}: {here} {_end(hosts)}"
    if mismatch.reason in ("shape", "groups", "channel", "runs"):
        old, new = mismatch.difference
        return f"{stuck}: {here} {starts} {b.instruction.name} with {new}, expected {old}"
    return f"{stuck}: {here} {starts} {b}"


def _stuck_in(hosts: Sequence[str], collective: str, place: str | None) -> str:
    where = f" ({place})" if place else ""
    return f"{_counted(hosts)} {verb(len(hosts), 'is', 'are')} stuck in {collective}{where}"


def _end(hosts: Sequence[str]) -> str:
    return verb(len(hosts), "has no further collective", "have no further collective")


def _cause(paths: tuple[str, str]) -> str | None:
    """Whether programs already differ before optimizations; None if these dumps are not there."""
    dumps = [parse_dump_name(os.path.basename(path)) for path in paths]
    if any(dump is None for dump in dumps):
        return None
    if all(dump is not None and dump.stage == _FIRST for dump in dumps):
        return "program"
    firsts = [first_dump(path, dump) for path, dump in zip(paths, dumps, strict=True) if dump is not None]
    digests = [_Digest(_PARSED, strict=False)(ModuleRef(first)) for first in firsts if first is not None]
    if len(digests) < 2 or any(isinstance(each, str) for each in digests):
        return None
    return "compiler" if digests[0] == digests[1] else "program"


_FIRST: Final = "before_optimizations"


# --- modules that some hosts lack ---


def _on_some(
    module: str, same: Sequence[_Class], names: Sequence[str], unread: frozenset[int], reading: InputOptions
) -> Iterator[_Finding]:
    """A module that is not on all hosts: a hang if it has collectives. A file that cannot be read is there."""
    has = unread.union(*(each.hosts for each in same))
    if len(has) == len(names):
        return
    with_it = tuple(name for at, name in enumerate(names) if at in has)
    without = tuple(name for at, name in enumerate(names) if at not in has)
    program = _module_of(same[0].source, reading)
    steps = collective_steps(program)
    is_missing = len(without) < len(with_it)
    hosts, others = (without, with_it) if is_missing else (with_it, without)
    words = f"not on {_listed(without)}" if is_missing else f"only on {_listed(with_it)}"
    if not steps:
        yield _Finding("missing" if is_missing else "extra", module, hosts, others, words)
        return
    place = source_of(steps[0].instruction, program)
    lack = verb(len(without), "does not have", "do not have")
    yield _Finding(
        "hang",
        module,
        hosts,
        others,
        words,
        steps[0].instruction.name,
        place,
        collective=steps[0].instruction.name,
        collective_source=place,
        reason="module",
        position=0,
        stuck=f"{_stuck_in(with_it, str(steps[0]), place)}: {_listed(without)} {lack} {module}",
    )


def _groups_with_modules_in_common(hosts: Sequence[Host]) -> list[tuple[str, ...]]:
    """The hosts in groups between which no module is shared, the largest group first; one group for a job.

    >>> hosts = [Host(name, dict.fromkeys(modules)) for name, modules in (("a", "xy"), ("b", "z"), ("c", "yw"))]
    >>> _groups_with_modules_in_common(hosts)
    [('a', 'c'), ('b',)]
    """
    groups: list[tuple[set[str], tuple[str, ...]]] = []
    for host in hosts:
        joined = [each for each in groups if not each[0].isdisjoint(host.modules)]
        modules = set(host.modules)
        names: tuple[str, ...] = (host.name,)
        for group in reversed(joined):
            groups.remove(group)
            modules, names = modules | group[0], group[1] + names
        groups.append((modules, names))
    return sorted((names for _, names in groups), key=lambda names: -len(names))


# --- the order of modules ---


def _other_orders(
    hosts: Sequence[Host], classes: Mapping[str, Sequence[_Class]], reading: InputOptions
) -> Iterator[_Finding]:
    """Hosts that compiled the modules with collectives in another order, if all have the same ones."""
    shared = [name for name, same in classes.items() if sum(len(each.hosts) for each in same) == len(hosts)]
    orders = [tuple(name for name in host.modules if name in shared) for host in hosts]
    if len(set(orders)) < 2:
        return
    # only if orders differ at all, as this reads each module once more
    communicating = {name for name in shared if collective_steps(_module_of(classes[name][0].source, reading))}
    kept = [tuple(name for name in order if name in communicating) for order in orders]
    counts = Counter(kept)
    most = max(counts, key=counts.__getitem__)
    others = tuple(host.name for host, order in zip(hosts, kept, strict=True) if order == most)
    for order in counts:
        if order == most:
            continue
        diverging = tuple(host.name for host, each in zip(hosts, kept, strict=True) if each == order)
        a, b = next((a, b) for a, b in zip(most, order, strict=True) if a != b)
        words = f"compiled before {a}, on others {a} before {b}"
        yield _Finding(
            "hang",
            b,
            diverging,
            others,
            words,
            reason="module order",
            stuck=f"{_stuck_in(others, a, None)}: {_listed(diverging)} {verb(len(diverging), 'runs', 'run')} {b} first",
        )


# --- flags ---


def _other_flags(hosts: Sequence[Host]) -> Iterator[_Finding]:
    """Hosts that compiled a module with other flags than most; those of one module, if others say the same."""
    told: set[tuple[tuple[str, ...], str]] = set()
    for module in dict.fromkeys(name for host in hosts for name in host.modules):
        known = [(host, host.modules[module]) for host in hosts if module in host.modules]
        settings = [(host.name, flags) for host, source in known if (flags := _flags(source)) is not None]
        counts = Counter(repr(sorted(flags.items())) for _, flags in settings)
        if len(counts) < 2:
            continue
        most = max((flags for _, flags in settings), key=lambda flags: counts[repr(sorted(flags.items()))])
        others = tuple(name for name, flags in settings if flags == most)
        by_words: dict[str, list[str]] = {}
        for name, flags in settings:
            if words := different_flags(most, flags):
                by_words.setdefault(words, []).append(name)
        for words, diverging in by_words.items():
            if (key := (tuple(diverging), words)) not in told:
                told.add(key)
                yield _Finding("flags", module, tuple(diverging), others, words)


def _flags(source: _Source) -> Flags | None:
    """The flags of a module's compilation without those that differ between healthy hosts; None if not known."""
    if isinstance(source, ModuleRef):
        dump = parse_dump_name(os.path.basename(source.path))
        source = Input(Source(source.path, ""), source.path, dump=dump)
    found = flags_of(source)
    return None if found is None else {name: value for name, value in found.items() if name not in _FLAGS_OF_A_PROCESS}


# jax/_src/compiler.py: process 0 updates the autotuning cache, the others read it
_FLAGS_OF_A_PROCESS: Final = frozenset(
    ("xla_gpu_experimental_autotune_cache_mode", "xla_gpu_per_fusion_autotune_cache_dir")
)


# --- words ---


_MAX_LISTED: Final = 3  # more host names are a line of their own, and all are in the table


def _listed(hosts: Sequence[str]) -> str:
    """Names of hosts, counted from the fourth.

    >>> _listed(["host0", "host1"]), _listed([f"host{n}" for n in range(9)])
    ('host0 and host1', 'host0, host1, host2, and 6 more')
    """
    if len(hosts) > _MAX_LISTED + 1:
        return f"{', '.join(hosts[:_MAX_LISTED])}, and {len(hosts) - _MAX_LISTED:,} more"
    return " and ".join(hosts) if len(hosts) < 3 else f"{', '.join(hosts[:-1])}, and {hosts[-1]}"


def _counted(hosts: Sequence[str]) -> str:
    """Few hosts by name, many by number."""
    return _listed(hosts) if len(hosts) < 3 else f"{len(hosts):,} hosts"


def _answer(found: Sequence[_Finding], groups: Sequence[tuple[str, ...]], modules: int) -> str:
    hosts = sum(map(len, groups))
    count = f"{hosts:,} hosts"
    if len(groups) == hosts > 1:
        return f"Nothing in common: no module is on more than one host ({count}, {format_count(modules, 'modules')})"
    diverging = [each for each in found if each.effect != "extra"]
    extra = [each for each in found if each.effect == "extra"]
    if not diverging:
        more = f"; {format_count(len(extra), 'modules')} without collectives only on some" if extra else ""
        return f"Same program on {count} ({format_count(modules - len(extra), 'modules')}){more}"
    worst = diverging[0]
    rest = f"; {format_count(len(diverging) - 1, 'more divergences')}" if len(diverging) > 1 else ""
    names, plural = _listed(worst.hosts), len(worst.hosts) != 1
    alike = len(worst.hosts) == len(worst.others) and len(worst.hosts) + len(worst.others) == hosts
    others = "the other half" if alike else _counted(worst.others)
    if len(worst.others) > 2 and len(worst.hosts) + len(worst.others) == hosts and not alike:
        others = f"the other {others}"
    place = _place(worst.instruction, worst.source)
    match worst.effect:
        case "hang" if worst.collective is None:
            what = f"The job may hang: {worst.module} is {worst.difference}"
        case "hang" if worst.reason == "module":
            where = _place(worst.collective, worst.collective_source)
            what = f"The job hangs at {where} of {worst.module}, which is {worst.difference}"
        case "hang":
            where = _place(worst.collective, worst.collective_source)
            what = (
                f"The job hangs at {where} of {worst.module}: {names} {'differ' if plural else 'differs'} from {others}"
            )
            what += f" at {place}" if worst.instruction != worst.collective else ""
            what += f": {worst.difference}"
        case "program":
            what = f"{_listed(groups[-1])} {verb(len(groups[-1]), 'has', 'have')} no module in common with "
            what += f"{_counted([name for group in groups[:-1] for name in group])}"
            rest = ""  # the modules of both sides are no more than that
        case "results":
            what = (
                f"No hang, but {names} {'compute' if plural else 'computes'} other results than {others}, from {place}"
            )
            what += f" of {worst.module}: {worst.difference}"
        case "compilation":
            what = f"No hang: {names} {'run' if plural else 'runs'} other code for the same values, from {place}"
            what += f" of {worst.module}: {worst.difference}"
        case "flags":
            what = f"Same program on {count}, but {names} {'have' if plural else 'has'} other flags: {worst.difference}"
        case _:
            what = f"{worst.module}, which has no collectives, is {worst.difference} ({count})"
    return what + rest


def _place(instruction: str | None, source: str | None) -> str:
    return f"{instruction or 'the header'} ({source})" if source else instruction or "the header"


def _passages(found: Sequence[_Finding]) -> Iterator[Passage]:
    """Who is stuck and why, and where the worst divergence comes from."""
    stuck = [each.stuck for each in found if each.stuck]
    if stuck:
        more = [f"{len(stuck) - _MAX_LISTED:,} more collectives differ"] if len(stuck) > _MAX_LISTED else []
        yield Passage("stuck", (*stuck[:_MAX_LISTED], *more))
    worst = found[0] if found else None
    if worst is not None and worst.cause is not None:
        yield Passage("cause", (_CAUSES[worst.cause].format(module=worst.module),))


_CAUSES: Final[Mapping[str, str]] = {
    "program": (
        "{module} already differs before optimizations: the Python code differs, such as a branch on "
        "jax.process_index(), a seed, or the order of a set."
    ),
    "compiler": (
        "{module} is the same before optimizations: compare XLA_FLAGS, the versions of jaxlib, and autotuning results."
    ),
}


def is_of_hosts(arguments: Sequence[str], reading: InputOptions) -> bool:
    """Whether the inputs of `hlo diff` are the hosts of a job: three or more, or a directory with several hosts.

    >>> is_of_hosts(["a.txt", "b.txt", "c.txt"], InputOptions()), is_of_hosts(["a.txt", "b.txt"], InputOptions())
    (True, False)
    """
    return len(arguments) > 2 or (
        len(arguments) == 1 and ".." not in (reading.stage or "") and len(hosts_in(arguments[0])) > 1
    )
