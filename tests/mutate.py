"""Mutation testing: plants bugs one at a time and says which of them no test notices.

    python tests/mutate.py hlo_cli/lint --sample 200 --seed 2       # a sample of a package
    python tests/mutate.py hlo_cli/analysis/memory/heaps.py         # a sample of a module
    python tests/mutate.py hlo_cli/analysis/memory/heaps.py:120     # what is on a line

A mutant is tried with the tests that execute its line (`tests/executed.py`), the quickest first, in a copy of one
process that has collected all tests: there the functions get the code of the mutant. What runs at import
instead (a table, a default) is tried in a process that imports the mutant. Both see a copy of the tree.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.util
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import TextIO

import click
import hypothesis
import markdown_it
import numpy
import pyparsing
import pytest
import rich.table
from _pytest.runner import runtestprotocol

from executed import ROOT, SELECTED, Executed, Session, bits, caches, enter, executed, failure, import_all
from forks import Fork, end_after
from mutants import Mutant, edits_of, planted

COPIED = (
    *("hlo_cli", "tests", "fixtures", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"),
    *("LICENSE", "action.yml", "hatch_build.py", ".ci", ".pre-commit-hooks.yaml", ".gitignore"),
)
PACKAGES = ("analysis", "commands", "lint", "transform")
IMPORTED = (click, hypothesis, markdown_it, numpy, pyparsing, rich.table)
"""What each process has from the start; nothing of the package, of which each has its own."""

TIMEOUT = "endless"
"""What is said to notice a mutant with which a test does not end that ends well without it."""

_OF_EACH_FILE = 5
"""Tests of a file before its next ones count as twice as slow, then three times: those of a file are alike."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant of a module, and the tests that may notice it."""

    path: str
    mutant: Mutant
    tests: tuple[str, ...]
    times: tuple[float, ...]
    """What the tests take without the mutant, under coverage.py: twice what they take here."""
    is_imported: bool
    """Whether the line is executed by imports or before the first test, too."""

    def __str__(self) -> str:
        return f"{self.path}:{self.mutant.line}: - {self.mutant.before.strip()}  + {self.mutant.after.strip()}"

    @property
    def limits(self) -> dict[str, float]:
        """Seconds of processor time after which a test does not end: six times what it takes, and two more."""
        return {test: 2 + 3 * seconds for test, seconds in zip(self.tests, self.times, strict=True)}

    @property
    def limit(self) -> int:
        """Seconds of processor time after which all tests together do not end."""
        return int(sum(self.times)) + _TO_IMPORT


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries mutants and prints the survivors, one line each, and the score; 1 if it is below what is asked for."""
    options = _options(arguments)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory) / "tree"
        _copy_tree(copy)
        known = executed(copy, options.tests_in, anew=options.measure)
        texts = _texts(copy)
        chosen, possible = _chosen(texts, options)
        trials = [_trial(path, mutant, texts, known, options) for path, mutant in chosen]
        by = Counter[str]()
        prepared = time.monotonic()
        for trial, test in _tried(copy, trials, options):
            by["killed" if test else "survived" if trial.tests else "not run by any test"] += 1
            by["endless"] += test == TIMEOUT
    tried = time.monotonic() - prepared
    total = len(trials)
    share = by["killed"] / total if total else 1.0
    print(
        f"{by['killed']} of {total} killed ({share:.1%}), {by['endless']} of them by not ending; {by['survived']} survive, "
        f"{by['not run by any test']} are not run by any test; {possible:,} possible, seed {options.seed}; "
        f"{tried / max(total, 1):.1f} s each, {prepared - started:.0f} s before"
    )
    return int(share < options.at_least / 100)


# --- what is tried ---


Texts = dict[str, str]
"""The modules of the package by their paths, as they are in the copy: the tree may change while mutants are tried."""


def _chosen(texts: Texts, options: argparse.Namespace) -> tuple[list[tuple[str, Mutant]], int]:
    """A sample of the mutants of modules and lines, in the order of the tree, and how many there could be."""
    candidates = []
    for given in options.paths:
        path, _, line = given.partition(":")
        for module in _modules(texts, path):
            edits = edits_of(texts[module])
            candidates += [(module, edit) for edit in edits if not line or edit[0].lineno == int(line)]
    Random(options.seed).shuffle(candidates)
    chosen: list[tuple[str, Mutant]] = []
    for module, edit in candidates:
        if len(chosen) == options.sample:
            break
        mutant = planted(texts[module], edit)
        chosen += [(module, mutant)] if mutant is not None else []
    return sorted(chosen, key=lambda each: (each[0], each[1].line)), len(candidates)


def _trial(path: str, mutant: Mutant, texts: Texts, known: Executed, options: argparse.Namespace) -> Trial:
    line = bits([mutant.line])
    among = {
        name: execution
        for name, execution in known.tests.items()
        if not options.tests_in or name.startswith(tuple(options.tests_in))
    }
    tests = [name for name, execution in among.items() if execution.lines.get(path, 0) & line]
    where = _uses(texts, path, mutant.line, is_executed=bool(tests))
    uses = [
        name
        for name, execution in (among.items() if where else ())
        if any(execution.lines.get(module, 0) & lines for module, lines in where.items())
    ]
    chosen: list[str] = []
    seconds = 0.0
    around = _function_around(texts[path], mutant.line)
    first = _quick_first(tests, known, lambda name: known.tests[name].lines[path] & around)
    for name in dict.fromkeys((*first, *_quick_first(uses, known))):
        seconds += known.tests[name].seconds
        if (chosen and seconds > options.test_seconds) or len(chosen) == options.tests:
            break
        chosen.append(name)
    times = tuple(known.tests[name].seconds for name in chosen)
    return Trial(path, mutant, tuple(chosen), times, bool(known.imported.get(path, 0) & line))


def _quick_first(tests: Iterable[str], known: Executed, executes: Callable[[str], int] = lambda name: 0) -> list[str]:
    """The quickest tests first, but not too many of a file, or that execute the same lines, before others."""
    files, alike = defaultdict[str, int](int), defaultdict[int, int](int)
    price = {}
    for name in sorted(tests, key=lambda name: (known.tests[name].seconds, name)):
        file, lines = name.partition("::")[0], executes(name)
        times = max(1 + files[file] // _OF_EACH_FILE, alike[lines] if lines else 1)
        price[name] = known.tests[name].seconds * times
        files[file] += 1
        alike[lines] += 1
    return sorted(price, key=lambda name: (price[name], name))


def _function_around(text: str, line: int) -> int:
    """The lines of the function that a line is part of: tests that execute the same of them tell the same bugs."""
    around = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return bits(min(around, key=len)) if around else 0


def _uses(texts: Texts, path: str, line: int, *, is_executed: bool) -> dict[str, int]:
    """The lines that name what is defined on a line when its module is imported.

    All lines of the module if nothing is and no test executes the line: it is part of a class or of a decorator.
    """
    names = set(_defined(ast.parse(texts[path]), line))
    if not names:
        return {} if is_executed else {path: -1}
    named = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    found = {}
    for module, text in texts.items():
        if named.search(text):
            found[module] = bits([at for at, line_text in enumerate(text.splitlines(), 1) if named.search(line_text)])
    return found


def _defined(tree: ast.Module | ast.ClassDef, line: int) -> Iterator[str]:
    """The name that the statement on a line defines in a module or a class: of a value, or of what has it as a default."""
    for node in tree.body:
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        match node:
            case ast.ClassDef():
                yield from _defined(node, line)
            case ast.FunctionDef(name=name, body=[first, *_]) if line < first.lineno:
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _texts(copy: Path) -> Texts:
    files = sorted(copy.glob("hlo_cli/**/*.py"))
    return {
        str(file.relative_to(copy)): file.read_text(encoding="utf-8") for file in files if file.name != "__init__.py"
    }


def _modules(texts: Texts, given: str) -> list[str]:
    """A module, or all modules below a package."""
    found = [path for path in texts if path == given or path.startswith(f"{given.rstrip('/')}/")]
    if not found:
        raise SystemExit(f"error: module or package '{given}' not found")
    return found


def _copy_tree(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name)
        elif source.exists():
            shutil.copy(source, copy / name)


# --- how ---


def _tried(copy: Path, trials: Sequence[Trial], options: argparse.Namespace) -> Iterator[tuple[Trial, str]]:
    """The trials, each with the test that notices its mutant or nothing; they are printed as they are found."""

    def tell(trial: Trial, test: str, screen: TextIO) -> None:
        if not test or options.verbose:
            print(f"{test or ('survived' if trial.tests else 'not run by any test')}: {trial}", file=screen, flush=True)

    inside = [trial for trial in trials if trial.tests]
    outcomes = Fork(partial(_tried_in_session, copy, options.tests_in, inside, tell)).answer()
    if outcomes is None or len(outcomes) < len(inside):
        raise failure(copy, "the tests cannot be collected")
    known = {trial: test for trial, test in zip(inside, outcomes, strict=True) if test is not None}
    for trial in trials:
        test = known.get(trial, "")
        if trial.tests and trial not in known:
            test = _noticed(partial(_imported_with, copy, trial), trial.limit)
        if trial not in known:
            tell(trial, test, sys.stdout)
        yield trial, test


_TO_IMPORT = 30
"""Seconds of processor time for importing the package and for collecting tests of a few files."""


def _noticed(work: Callable[[], str], seconds: int) -> str:
    """The test that fails in a copy of this process."""
    fork = Fork(work, seconds)
    answer = fork.answer()
    return TIMEOUT if fork.late else "the process died" if answer is None else answer


def _tried_in_session(
    copy: Path, among: Sequence[str], trials: Sequence[Trial], tell: Callable[[Trial, str, TextIO], None]
) -> list[str | None]:
    """For each trial the test that notices it, or nothing; None where that takes a process that imports the mutant."""
    outcomes: list[str | None] = []
    screen = enter(copy)

    def try_all(items: Sequence[pytest.Item]) -> None:
        import_all(copy)
        tests = {item.nodeid: item for item in items}
        functions = _functions(copy)
        for trial in trials:
            changes = _changes(copy, trial, functions)
            chosen = [(tests[name], limit) for name, limit in trial.limits.items() if name in tests]
            test = None if changes is None else _noticed(partial(_failing, changes, chosen), trial.limit)
            if not test and trial.is_imported:  # what has been imported does not change with the functions
                test = None
            outcomes.append(test)
            if test is not None:
                tell(trial, test, screen)

    pytest.main([*SELECTED, f"--basetemp={copy.parent / 'temporary'}", *among], [Session(try_all)])
    return outcomes


Functions = dict[tuple[str, str, int], list[FunctionType]]
"""Functions by file, name and first line."""


def _functions(copy: Path) -> Functions:
    """The functions of the package."""
    gc.unfreeze()
    found: Functions = defaultdict(list)
    root = f"{copy}/"
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(root):
            code = each.__code__
            found[code.co_filename.removeprefix(root), code.co_qualname, code.co_firstlineno].append(each)
    gc.freeze()
    return found


def _changes(copy: Path, trial: Trial, functions: Functions) -> list[tuple[FunctionType, CodeType]] | None:
    """The code that functions get, from the inside to the outside; None where that does not do."""
    found: list[tuple[FunctionType, CodeType]] = []
    line, names = trial.mutant.line, set()
    for code in _codes(compile(trial.mutant.text, str(copy / trial.path), "exec", dont_inherit=True)):
        name = (trial.path, code.co_qualname, code.co_firstlineno)
        last = max((at for *_, at in code.co_lines() if at), default=0)
        if code.co_name == "<module>" or not code.co_firstlineno <= line <= last:
            continue
        if name in names or any(len(each.__code__.co_freevars) != len(code.co_freevars) for each in functions[name]):
            return None
        names.add(name)
        found += [(each, code) for each in functions[name]]
    return found or None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _failing(changes: Sequence[tuple[FunctionType, CodeType]], items: Sequence[tuple[pytest.Item, float]]) -> str:
    """The first of the tests that fails with functions of other code, or within its seconds; nothing if all pass."""
    for function, code in changes:
        function.__code__ = code
    for cached in caches():
        cached.cache_clear()
    for (item, limit), following in zip(items, [*(item for item, _ in items[1:]), None], strict=False):
        end_after(limit)
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return item.nodeid
    return ""


def _imported_with(copy: Path, trial: Trial) -> str:
    """The first of the tests that fails where a module is imported as its mutant; nothing if all pass."""
    enter(copy)
    module, original, failing = str(copy / trial.path), SourceFileLoader.get_code, "the import"

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path == module:
            return compile(trial.mutant.text, module, "exec", dont_inherit=True)
        return original(loader, name)

    def try_all(items: Sequence[pytest.Item]) -> None:
        nonlocal failing
        tests = {item.nodeid: item for item in items}
        failing = _failing((), [(tests[name], limit) for name, limit in trial.limits.items() if name in tests])

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010
    importlib.invalidate_caches()
    files = dict.fromkeys(name.partition("::")[0] for name in trial.tests)
    pytest.main([*SELECTED, f"--basetemp={copy.parent / 'temporary'}", *files], [Session(try_all)])
    return failing


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant bugs in modules and say which of them no test notices.")
    packages = [f"hlo_cli/{name}" for name in PACKAGES]
    parser.add_argument(
        "paths", nargs="*", default=packages, help=f"modules, MODULE:LINE, packages; {', '.join(PACKAGES)}"
    )
    parser.add_argument("--sample", type=int, default=200, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument(
        "--tests-in", nargs="+", default=(), metavar="FILE", help="only tests in these files and folders"
    )
    parser.add_argument("--tests", type=int, default=1000, help="how many tests to run for one mutant")
    parser.add_argument("--test-seconds", type=float, default=10, help="how long they may take without it")
    parser.add_argument("--measure", action="store_true", help="measure anew which tests execute which line")
    parser.add_argument("--at-least", type=float, default=0, help="exit with 1 if fewer percent are killed")
    parser.add_argument("--verbose", action="store_true", help="say what noticed the others")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
