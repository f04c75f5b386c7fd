"""Which lines of the package each test executes: measured with coverage.py, kept in `.cache/`, and brought up to date.

A test is measured again when its file has changed; where a module has, its lines are followed. What a test does in
processes of its own does not count.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import _lru_cache_wrapper, partial
from pathlib import Path
from typing import Any, TextIO

import pytest
from _pytest.runner import runtestprotocol

from forks import Fork

ROOT = Path(__file__).parent.parent
_KEPT = ROOT / ".cache" / "executed.pickle"
_OWN = tuple(f"--ignore=tests/{name}.py" for name in ("executed", "forks", "mutants", "mutate"))
"""What is imported already, and not from the copy."""
SELECTED = ("-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not (slow or oracle or long)", *_OWN)
"""Options of pytest for the tests of `make test`, in one process."""

Lines = dict[str, int]
"""For each module a number that has a bit for each of its lines, the first of them being 2."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a test executes, and how long that takes: seconds of processor time under coverage.py."""

    seconds: float
    lines: Lines


@dataclass(frozen=True, slots=True)
class Executed:
    """What each test that passes executes, and what is executed when modules are imported."""

    tests: dict[str, Execution]
    imported: Lines
    texts: dict[str, str]
    """Each file of the package and each file of tests, as they were, and the names of golden cases."""
    measured: frozenset[str]
    """The files and folders whose tests have been measured."""


class Session:
    """A part of pytest that does something else with the tests than to run each."""

    def __init__(self, work: Callable[[Sequence[pytest.Item]], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Takes the place of pytest's own loop."""
        assert not session.testsfailed, "tests cannot be collected"
        self._work(session.items)
        return True


def executed(copy: Path, among: Sequence[str] = (), *, anew: bool = False) -> Executed:
    """What each test executes, or each in some files, measured in a copy of the tree as far as it is not known."""
    known = pickle.loads(_KEPT.read_bytes()) if _KEPT.exists() and not anew else Executed({}, {}, {}, frozenset())
    modules, tests = copy.glob("hlo_cli/**/*.py"), copy.glob("tests/test_*.py")
    texts = {str(path.relative_to(copy)): path.read_text(encoding="utf-8") for path in sorted((*modules, *tests))}
    texts[_CASES] = "\n".join(str(path.relative_to(copy)) for path in sorted(copy.glob(f"{_CASES}/*/*.txt")))
    if among:  # what is not measured now stays as it was
        others = {path for path in texts if path.startswith("tests/") and path not in among}
        texts |= {path: known.texts.get(path, "") for path in others}
    changed = {path for path in {*texts, *known.texts} if texts.get(path) != known.texts.get(path, "")}
    measured = known.measured | set(among or (_ALL,))
    if not changed and (_ALL in known.measured or known.measured == measured):
        return known
    moved = {path: sources(known.texts[path], texts[path]) for path in changed & texts.keys() & known.texts.keys()}
    still = {
        name: replace(execution, lines=_moved(execution.lines, moved))
        for name, execution in known.tests.items()
        if name.partition("::")[0] not in changed or name.startswith("hlo_cli/")
    }
    answer = Fork(lambda: _measured(copy, among, still)).answer()
    if answer is None:
        raise failure(copy, "the tests cannot be measured")
    found = Executed(*answer, texts, frozenset(measured))
    _KEPT.parent.mkdir(exist_ok=True)
    _KEPT.write_bytes(pickle.dumps(found))
    return found


_CASES = "fixtures/golden"
"""Files that are tests, though no file of tests changes when there are more of them."""

_ALL = "all"
"""Stands for all files of tests."""


def sources(before: str, after: str) -> list[int]:
    """For each line of a text the line that it was in the text before; for a new one, the one above it, whose tests it gets.

    >>> sources("a\\nb\\nc\\n", "a\\nnew\\nc\\nd\\n")
    [1, 1, 3, 3]
    """
    was: dict[int, int] = {}
    for block in SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_matching_blocks():
        was |= {block.b + at + 1: block.a + at + 1 for at in range(block.size)}
    found, above = [], 0
    for line in range(1, len(after.splitlines()) + 1):
        above = was.get(line, above)
        found.append(above)
    return found


def _moved(lines: Lines, moved: Mapping[str, Sequence[int]]) -> Lines:
    """What a test executes of the modules as they are now."""
    return {
        path: bits([line for line, source in enumerate(moved[path], 1) if executed >> source & 1])
        if path in moved
        else executed
        for path, executed in lines.items()
    }


def enter(copy: Path) -> TextIO:
    """Makes a copy of the tree the one whose modules are imported and whose tests are run; only the result is the screen."""
    screen = os.fdopen(os.dup(1), "w", buffering=1)
    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "tests")]
    os.environ["PYTHONPATH"] = str(copy)
    written = os.open(copy.parent / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(written, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return screen


def failure(copy: Path, message: str) -> SystemExit:
    """An error of the tool, with the end of what pytest has written."""
    lines = (copy.parent / "output").read_text(encoding="utf-8", errors="replace").splitlines()
    return SystemExit("\n".join((*lines[-_SHOWN:], f"error: {message}")))


_SHOWN = 60
"""Lines of what pytest has written: its summary and a traceback."""


def import_all(copy: Path) -> None:
    """Imports each module of the package: what is imported late is there from the start."""
    for path in sorted(copy.glob("hlo_cli/**/*.py")):
        if path.stem != "__main__":
            parts = path.relative_to(copy).with_suffix("").parts
            importlib.import_module(".".join(parts[: -1 if path.stem == "__init__" else None]))


def caches() -> list[_lru_cache_wrapper[Any]]:
    """The functions of the package that remember their results."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("hlo_cli")]
    return [value for module in modules for value in vars(module).values() if isinstance(value, _lru_cache_wrapper)]


def _measured(copy: Path, among: Sequence[str], known: dict[str, Execution]) -> tuple[dict[str, Execution], Lines]:
    """What tests execute, those that are known among them, and what is executed by imports."""
    enter(copy)
    tests = known if among else {}
    watch = _Watch(copy)

    def measure(items: Sequence[pytest.Item]) -> None:
        import_all(copy)
        watch.imported = watch.lines()
        tests.update({item.nodeid: known[item.nodeid] for item in items if item.nodeid in known})
        others = [item for item in items if item.nodeid not in known]
        for part in [Fork(partial(_executions, part, watch)) for part in _parts(others)]:
            measured = part.answer()
            assert measured is not None, "tests ended the process that runs them"
            tests.update(measured)

    code = pytest.main([*SELECTED, f"--basetemp={copy.parent / 'temporary'}", *among], [Session(measure)])
    assert not code, f"pytest ended with {code}"
    return tests, watch.imported


def _parts(items: Sequence[pytest.Item]) -> Iterable[list[pytest.Item]]:
    """The tests in a part for each core: whole files, as tests of a file share what they prepare."""
    cores = os.cpu_count() or 1
    files = list(dict.fromkeys(item.path for item in items))
    parts = ([item for item in items if item.path in set(files[core::cores])] for core in range(cores))
    return filter(None, parts)


def _executions(items: Sequence[pytest.Item], watch: _Watch) -> dict[str, Execution]:
    """What each of the tests executes; nothing of those that do not pass."""
    found, forgetful = {}, caches()
    for item, following in zip(items, [*items[1:], None], strict=False):  # there may be none
        for cached in forgetful:  # else only the first test to ask would execute the answer
            cached.cache_clear()
        watch.lines()
        started = time.process_time()
        reports = runtestprotocol(item, log=False, nextitem=following)
        if all(report.passed for report in reports):
            found[item.nodeid] = Execution(time.process_time() - started, watch.lines())
    return found


class _Watch:
    """coverage.py from now on.

    Its contexts would be one for each test, but it writes all modules into a database for each of them, which takes
    an hour: here the lines are taken from where it collects them.
    """

    def __init__(self, copy: Path) -> None:
        import coverage  # not where tests are only run

        self.imported: Lines = {}
        self._root = f"{copy}/"
        self._coverage = coverage.Coverage(data_file=None, include=[f"{copy}/hlo_cli/*"], config_file=False)
        self._coverage.start()

    def lines(self) -> Lines:
        """What has been executed since the last time this was asked for."""
        assert self._coverage._collector is not None
        found: Lines = {}
        for name, lines in self._coverage._collector.data.items():
            if lines:
                found[name.removeprefix(self._root)] = bits(lines)
                lines.clear()
        return found


def bits(lines: Collection[Any]) -> int:
    """A number that has a bit for each of the lines.

    >>> bits([1, 3])
    10
    """
    total = 0
    for line in lines:
        total |= 1 << line
    return total
