"""The four searches: over the passes of a compilation, the changes between two modules, flags, and versions of jaxlib.

Each judges few candidates, one at a time, and returns rows for a table and the sentence that answers.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Final

from hlo_cli.commands.bisect.judging import (
    ModuleJudge,
    Verdict,
    command_verdict,
    first_that_fails,
    judge_of,
)
from hlo_cli.commands.bisect.options import BisectOptions
from hlo_cli.commands.diff.inputs import pass_dumps
from hlo_cli.commands.modules.loading import Loaded, flags_of, load_main
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.reduce.checks import Scratch
from hlo_cli.commands.reduce.failures import (
    FailingCommand,
    NoFailureError,
    broken_rules,
    failing_command,
    is_accepted,
    read,
)
from hlo_cli.commands.reduce.results import Journal, journal_of
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import DumpName, PassName, pass_between
from hlo_cli.inputs.files import is_folder
from hlo_cli.inputs.input import read_inputs, read_plain
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.render.progress import counted
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_files.flags import Settings, compiler_flags, settings_of
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.subsets import LineChange, changes_between, first_failing, smallest_failing

# --- passes ---


@dataclass(frozen=True, slots=True)
class PassTrial:
    """A pass dump with its verdict; None for one that was not checked."""

    name: PassName
    stage: str
    path: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class PassSearch:
    """The dumps in their order, the numbers of the last that passes and of the first that fails, and what fails."""

    trials: tuple[PassTrial, ...]
    last_good: int
    first_bad: int
    words: str

    @property
    def checked(self) -> tuple[PassTrial, ...]:
        """The dumps that were checked."""
        return tuple(trial for trial in self.trials if trial.verdict is not None)

    @property
    def passes_again(self) -> tuple[PassTrial, ...]:
        """The dumps after the first bad one that pass: the cause is undone there, or is another one."""
        return tuple(t for t in self.trials[self.first_bad :] if t.verdict is not None and t.verdict.fails is False)

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        first = self.trials[self.first_bad].name.name
        place = f"{self.words} after {first} (dump {self.first_bad + 1} of {len(self.trials)})"
        if self.first_bad == self.last_good + 1:
            return f"The module {place}, and not before"
        between = format_count(self.first_bad - self.last_good - 1, "dumps")
        return f"The module {place}, and not after {self.trials[self.last_good].name.name}; {between} cannot be judged"


def search_passes(
    inputs: Sequence[str], reading: InputOptions, options: BisectOptions, folder: Scratch, *, quiet: bool
) -> PassSearch:
    """The first pass dump that fails, and the last one before it that does not."""
    if len(inputs) != 1 or not is_folder(inputs[0]):
        raise HloError(
            "--passes requires a directory of per-pass dumps",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    dumps = pass_dumps(inputs[0], reading)
    load = _Dumps(inputs[0], tuple(dumps))
    reference = _reference(options, reading) or (load(0), "the first dump")
    if not any((options.check, options.finding, options.oom, options.probe, options.against)) and len(dumps) < 2:
        raise HloError(f"no per-pass dumps in {inputs[0]}")
    loaders = [(lambda at=at: load(at)) for at in range(len(dumps))]
    last, judge = first_that_fails(
        loaders, lambda module: judge_of(module, reference, options, folder, noun="the last dump")
    )
    known: dict[int, Verdict] = {last: Verdict(True)}
    keys: dict[str, Verdict] = {}
    until = time.monotonic() + options.max_seconds
    with _journal(options, judge.words, [name for name, _ in dumps]) as journal, counted("dumps", quiet=quiet) as show:

        def fails(at: int) -> bool | None:
            if at > last:
                return None
            if at not in known:
                if time.monotonic() > until:
                    raise _out_of_time(options)
                # Most passes change nothing: the same text has the same verdict.
                key = _key(load.text(at))
                if key not in keys:
                    keys[key] = _remembered(journal, key, lambda: judge(load(at)))
                known[at] = keys[key]
                if show is not None:
                    show(len(known))
            return known[at].fails

        found = first_failing(len(dumps), fails)
        if found is None:
            raise NoFailureError(f"the first dump, {dumps[0][1].stage}, fails already")
        if options.every:
            for at in range(last):
                fails(at)
            # With every verdict known, the first one that fails is the answer, whatever passes after it.
            first = next(at for at in range(len(dumps)) if known.get(at, Verdict(None)).fails)
            good = next((at for at in reversed(range(first)) if known[at].fails is False), None)
            found = found if good is None else (good, first)
    names = [pass_between(dumps[max(at - 1, 0)][1].stage, dump.stage) for at, (_, dump) in enumerate(dumps)]
    trials = tuple(
        PassTrial(names[at], dump.stage, os.path.join(inputs[0], name), known.get(at))
        for at, (name, dump) in enumerate(dumps)
    )
    return PassSearch(trials, *found, judge.words)


class _Dumps:
    """Pass dumps that are read when they are asked for; those of a partitioned program know the whole one."""

    def __init__(self, folder: str, dumps: tuple[tuple[str, DumpName], ...]) -> None:
        self._folder = folder
        self._names = [name for name, _ in dumps]
        self._read = cache(self._load)

    def _load(self, at: int) -> Module:
        return read_input(read_inputs([os.path.join(self._folder, self._names[at])])[0])

    def text(self, at: int) -> str:
        """The text without its header, which names the dump."""
        return self._read(at).source.text.partition("\n")[2]

    def __call__(self, at: int) -> Module:
        """The module of a dump; HloError if it has errors."""
        module = self._read(at)
        if module.errors:
            raise HloError.of(module.errors)
        if module.spmd_output_sharding is None:
            # The sharding of the result is stated from its propagation up to the partitioner.
            roots = (self._read(before).entry.root for before in reversed(range(at)))
            module.spmd_output_sharding = next((r.sharding for r in roots if r is not None and r.sharding), None)
        if module.program is None and at:
            module.program = self._read(0)
        return module


def _reference(options: BisectOptions, reading: InputOptions) -> tuple[Module, str] | None:
    if options.against is None:
        return None
    loaded = load_main([options.against], replace(reading, module=None))
    if loaded.module.errors:
        raise HloError.of(loaded.module.errors)
    return loaded.module, options.against


def _out_of_time(options: BisectOptions) -> HloError:
    hint = "use --resume DIR to keep verdicts, or raise --max-seconds"
    return HloError(f"the search took more than {options.max_seconds:g} s", hint=hint)


# --- verdicts that are known from a search that was stopped ---


def _key(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def _journal(options: BisectOptions, *asked: object) -> Iterator[Journal | None]:
    """The verdicts of a stopped search for the same question, if they are to be kept."""
    if options.resume is None:
        yield None
        return
    question = (options.check, options.matching, options.finding, options.oom, options.probe, options.against, asked)
    with journal_of(options.resume, _key(repr(question))) as journal:
        yield journal


def _remembered(journal: Journal | None, key: str, judge: Callable[[], Verdict]) -> Verdict:
    """The verdict that is known, or that of the judge, which is then known; what cannot be judged is asked again."""
    if journal is not None and key in journal.known:
        return Verdict(journal.known[key], "known from the stopped search")
    found = judge()
    if journal is not None and found.fails is not None:
        journal.note(key, found.fails)
        journal.known[key] = found.fails
    return found


# --- changes between two modules ---


@dataclass(frozen=True, slots=True)
class ChangeSearch:
    """The changes between two modules, those of them that make the first one fail, and the module with only these."""

    old: Loaded
    new: Loaded
    all: tuple[LineChange, ...]
    needed: tuple[LineChange, ...]
    words: str
    steps: int
    is_minimal: bool
    text: str

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        count = f"{len(self.needed):,} of {format_count(len(self.all), 'changes')}"
        names = ", ".join(change.name or change.kind for change in self.needed[:_NAMED])
        more = f", and {len(self.needed) - _NAMED:,} more" if len(self.needed) > _NAMED else ""
        return f"The first module with {count} {self.words}: {names}{more}"


_NAMED: Final = 3
"""Changes or flags that a sentence names: the table has all."""


def search_changes(
    inputs: Sequence[str], reading: InputOptions, options: BisectOptions, folder: Scratch, *, quiet: bool
) -> ChangeSearch:
    """The least set of the changes between OLD and NEW with which OLD fails as NEW does."""
    old, new = (load_main([name], reading) for name in inputs)
    for each in (old, new):
        if each.module.errors:
            raise HloError.of(each.module.errors)
    changes = changes_between(old.module, new.module)
    if not changes.all:
        raise NoFailureError("no instruction differs between the two modules")
    # Commands see all modules in the form that candidates have.
    first, second = (read(draft_of(each.module).to_string()) for each in (old, new))
    judge = judge_of(second, _reference(options, reading) or (first, inputs[0]), options, folder, noun=inputs[1])
    if judge(first).fails:
        raise NoFailureError(f"{inputs[0]} fails already")
    allowed = frozenset(code for each in (old, new) for code in broken_rules(each.module.source.text))
    is_strict = all(is_accepted(each.module.source.text) for each in (old, new))
    until, steps = time.monotonic() + options.max_seconds, 0
    known: dict[str, bool] = {}
    with _journal(options, judge.words, *map(str, changes.all)) as journal, counted("checks", quiet=quiet) as show:

        def fails(some: Sequence[LineChange]) -> bool:
            nonlocal steps
            draft = changes.applied(some)
            if draft is None:
                return False
            key = _key(text := draft.to_string())
            if key not in known:
                known[key] = bool(
                    _remembered(journal, key, lambda: _valid_verdict(text, judge, allowed, is_strict)).fails
                )
                steps += 1
                if show is not None:
                    show(steps)
            return known[key]

        if not fails(changes.all):
            raise HloError(
                f"{inputs[0]} with all changes does not fail as {inputs[1]} does",
                hint=f"run `hlo reduce {inputs[1]}` with the same options",
            )
        needed, is_minimal = smallest_failing(changes.all, fails, lambda: time.monotonic() > until)
        if journal is not None:
            journal.is_kept = not is_minimal
    draft = changes.applied(needed)
    assert draft is not None
    return ChangeSearch(old, new, changes.all, needed, judge.words, steps, is_minimal, draft.to_string())


def _valid_verdict(text: str, judge: ModuleJudge, allowed: frozenset[str], is_strict: bool) -> Verdict:
    """The verdict on a text; one that XLA's parser or verifier would refuse does not fail in the way asked for."""
    try:
        if (is_strict and not is_accepted(text)) or broken_rules(text) - allowed:
            return Verdict(False, "not valid")
        return judge(read(text))
    except HloError as error:
        return Verdict(False, error.diagnostic.message)


# --- flags ---


@dataclass(frozen=True, slots=True)
class FlagSearch:
    """The flags that were set, those of them that make the command fail, and how it does."""

    all: tuple[tuple[str, str], ...]
    needed: tuple[tuple[str, str], ...]
    defaults: int
    words: str
    steps: int
    is_minimal: bool

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        verb_ = "makes" if len(self.needed) == 1 else "make"
        flags = " ".join(f"--{name}={value}" for name, value in self.needed)
        return f"{len(self.needed):,} of {format_count(len(self.all), 'flags')} {verb_} the command fail: {flags}"


def search_flags(
    inputs: Sequence[str], reading: InputOptions, options: BisectOptions, folder: Scratch, *, quiet: bool
) -> FlagSearch:
    """The least set of flags with which the command fails as with all of them."""
    assert options.flags is not None
    found = _flags(options.flags, reading)
    settings = tuple((name, value) for name, value in found.items() if not _is_default(name, value))
    if not settings:
        raise NoFailureError("no flag differs from its default")
    text = load_main(inputs, reading).module.source.text if inputs else None
    _check_line(options, text)
    failure = failing_command(options, folder, text, _environment(settings))
    until, steps, known = time.monotonic() + options.max_seconds, 0, dict[str, bool]()
    with _journal(options, text, settings) as journal, counted("runs", quiet=quiet) as show:

        def fails(some: Sequence[tuple[str, str]]) -> bool:
            nonlocal steps
            key = _key(repr(some))
            if key not in known:
                known[key] = bool(
                    _remembered(journal, key, lambda: command_verdict(failure, text, _environment(some))).fails
                )
                steps += 1
                if show is not None:
                    show(steps)
            return known[key]

        if fails(()):
            raise NoFailureError("the command fails without flags too")
        needed, is_minimal = smallest_failing(settings, fails, lambda: time.monotonic() > until)
        if journal is not None:
            journal.is_kept = not is_minimal
    return FlagSearch(settings, needed, len(found) - len(settings), failure.words, steps, is_minimal)


def _check_line(options: BisectOptions, text: str | None) -> None:
    if text is None and "{}" in (options.check or ""):
        raise HloError("{} in --check requires INPUT", hint="add the dump whose path {} is")


def _flags(given: str, reading: InputOptions) -> Settings:
    """The flags of a list, of a file, or of the compilation of a dump; HloError if there are none."""
    if given.lstrip().startswith("-"):
        found: Settings | None = settings_of(given.lstrip())
    elif is_folder(given):
        found = flags_of(load_main([given], reading).input)
    else:
        found = settings_of(read_plain(given, maximum_bytes=_MOST_BYTES).text)
    if not found:
        raise HloError(f"no flags found in {given}", hint="such as --flags '--xla_a=1 --xla_b=2', or a flagfile")
    return found


_MOST_BYTES: Final = 1 << 22
"""Bytes of a file of flags at most: one with all flags of XLA and libtpu has a hundred kilobytes."""
_OF_OUTPUT: Final = ("xla_dump_", "xla_gpu_dump_", "xla_enable_dumping")
"""The begins of flags that write files and do not change the program."""
_SETTABLE: Final = ("flag", "deprecated", "tpu", "tpu-option", "no-effect")


def _is_default(name: str, value: str) -> bool:
    """Whether a flag has no effect on the program: it has its default, writes files, or no command line sets it."""
    flag = compiler_flags().get(name)
    if name.startswith(_OF_OUTPUT) or not name.isidentifier():
        return True
    if flag is None:
        return False
    return flag.status not in _SETTABLE or value in (flag.defaults if any(flag.defaults) else ())


def _environment(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables with these flags: those of libtpu have one of their own, as XLA ends at a flag that it lacks.

    >>> _environment([("xla_cpu_enable_fast_math", "true")])
    {'XLA_FLAGS': '--xla_cpu_enable_fast_math=true', 'LIBTPU_INIT_ARGS': ''}
    """
    table = compiler_flags()
    of_tpu = {name for name, _ in settings if name in table and table[name].status.startswith("tpu")}

    def words(is_of_tpu: bool) -> str:
        return " ".join(f"--{name}={value}" for name, value in settings if (name in of_tpu) == is_of_tpu)

    return {"XLA_FLAGS": words(False), "LIBTPU_INIT_ARGS": words(True)}


# --- versions ---


@dataclass(frozen=True, slots=True)
class VersionTrial:
    """A virtual environment with the version of its jaxlib, empty if there is none, and the verdict."""

    place: str
    version: str
    verdict: Verdict

    @property
    def label(self) -> str:
        """The version, or the place if that is not known."""
        return f"jaxlib {self.version}" if self.version else self.place


@dataclass(frozen=True, slots=True)
class VersionSearch:
    """Every version with its verdict, the oldest first, and how the command fails."""

    trials: tuple[VersionTrial, ...]
    words: str

    @property
    def first_bad(self) -> int:
        """The number of the first version that fails."""
        return next(at for at, trial in enumerate(self.trials) if trial.verdict.fails)

    @property
    def passes_again(self) -> tuple[VersionTrial, ...]:
        """The versions after the first bad one that pass."""
        return tuple(trial for trial in self.trials[self.first_bad :] if trial.verdict.fails is False)

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        first = self.trials[self.first_bad]
        if all(trial.verdict.fails for trial in self.trials):
            return (
                f"The command fails with each of {format_count(len(self.trials), 'versions')} ({first.verdict.words})"
            )
        words = f"The command fails first with {first.label} ({first.verdict.words})"
        good = next((t for t in reversed(self.trials[: self.first_bad]) if t.verdict.fails is False), None)
        return f"{words}; it passes with {good.label}" if good is not None else f"{words}; no older version passes"


def search_versions(
    inputs: Sequence[str], reading: InputOptions, options: BisectOptions, folder: Scratch, *, quiet: bool
) -> VersionSearch:
    """The first version of jaxlib with which the command fails; each is tried, as faults come and go."""
    text = load_main(inputs, reading).module.source.text if inputs else None
    _check_line(options, text)
    found = [(place, _version_in(place), _variables(place)) for place in options.python]
    if all(version for _, version, _ in found):
        found.sort(key=lambda each: _as_numbers(each[1]))
    failure: FailingCommand | None = None
    verdicts: list[Verdict] = []
    with counted("versions", quiet=quiet) as show:
        for number, (_, _, variables) in reversed(list(enumerate(found))):
            # The newest one that fails says how: a version that fails in another way is not the first of these.
            if failure is not None:
                verdicts.insert(0, command_verdict(failure, text, variables))
            else:
                try:
                    failure = failing_command(options, folder, text, variables)
                    verdicts.insert(0, Verdict(True, str(failure.first)))
                except NoFailureError:
                    verdicts.insert(0, Verdict(False, "succeeds"))
            if show is not None:
                show(len(found) - number)
    if failure is None:
        raise NoFailureError(f"the command succeeds with each of {format_count(len(found), 'versions')}")
    trials = (
        VersionTrial(place, version, verdict) for (place, version, _), verdict in zip(found, verdicts, strict=True)
    )
    return VersionSearch(tuple(trials), failure.words)


_OF_JAXLIB: Final = re.compile(r"jaxlib-([0-9][\w.+!]*)\.dist-info")


def _version_in(place: str) -> str:
    """The version of jaxlib in a virtual environment, without starting its Python; empty without one."""
    for library in ("lib", "Lib", "lib64"):
        folder = os.path.join(place, library)
        packages = [os.path.join(folder, name, "site-packages") for name in _names_in(folder)]
        for packages_folder in (*packages, os.path.join(folder, "site-packages")):
            found = (match for name in _names_in(packages_folder) if (match := _OF_JAXLIB.fullmatch(name)))
            if (match := next(found, None)) is not None:
                return match[1]
    return ""


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _as_numbers(version: str) -> tuple[tuple[int, str], ...]:
    """A version for sorting: 0.10.2 comes after 0.9.1.

    >>> sorted(["0.10.2", "0.9.1"], key=_as_numbers)
    ['0.9.1', '0.10.2']
    """
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"[.+]|(?<=\d)(?=[a-z])", version)
    )


def _variables(place: str) -> Mapping[str, str]:
    """The environment in which `python` is that of a virtual environment; HloError if it has none."""
    folder = next((each for name in ("bin", "Scripts") if os.path.isdir(each := os.path.join(place, name))), None)
    if folder is None or not any(name.startswith("python") for name in _names_in(folder)):
        raise HloError(
            f"{place} is not a virtual environment", hint="such as --python .venv; create one with `python -m venv`"
        )
    path = os.path.abspath(folder)
    return {
        "PATH": os.pathsep.join((path, os.environ.get("PATH", ""))),
        "VIRTUAL_ENV": os.path.abspath(place),
        "PYTHONHOME": "",
    }


Found = PassSearch | ChangeSearch | FlagSearch | VersionSearch
