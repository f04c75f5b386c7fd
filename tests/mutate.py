"""Mutation testing: plants bugs in one module at a time and says which of them no test of that module notices.

    python tests/mutate.py hlo_cli/analysis/memory/heaps.py            # a sample of its mutants
    python tests/mutate.py hlo_cli/lint --sample 60 --seed 2   # a sample of a package

The tree is copied to a temporary directory, and only the copy is changed. Which tests are run for a module, and in
which order, follows from which of them import it and how often they name it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from random import Random

from mutants import Mutant, edits_of, planted

ROOT = Path(__file__).parent.parent
COPIED = ("hlo_cli", "tests", "fixtures", "pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile")
TIMEOUT = "timeout"
"""What is said of a mutant whose tests do not end in their processor time: it is not counted."""
PACKAGES = ("analysis", "lint", "transform")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant; `by` is the test file that noticed it, nothing if none did."""

    path: str
    mutant: Mutant
    by: str

    def __str__(self) -> str:
        return f"{self.path}:{self.mutant.line}: - {self.mutant.before.strip()}  + {self.mutant.after.strip()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs mutants and prints the survivors, one line each, and the score; 1 if it is below what is asked for."""
    options = _options(arguments)
    paths = [path for given in options.paths for path in _modules(given)]
    random = Random(options.seed)
    candidates = [(path, edit) for path in paths for edit in edits_of((ROOT / path).read_text(encoding="utf-8"))]
    chosen = random.sample(candidates, min(options.sample, len(candidates)))
    started, outcomes = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = _Copy(Path(directory), options.timeout)
        for path, edit in chosen:
            mutant = planted((ROOT / path).read_text(encoding="utf-8"), edit)
            if mutant is None:
                continue
            if time.monotonic() - started > options.seconds:
                break
            outcome = copy.try_out(path, mutant, options.files)
            outcomes.append(outcome)
            if not outcome.by:
                print(f"survived {outcome}", flush=True)
            elif options.verbose:
                print(f"{outcome.by}: {outcome}", flush=True)
    late = sum(each.by == TIMEOUT for each in outcomes)
    judged = len(outcomes) - late
    killed = sum(bool(each.by) for each in outcomes) - late
    share = killed / judged if judged else 1.0
    score = f"{killed} of {judged} killed ({share:.0%})"
    print(f"{score}, {late} took too long to tell; {len(candidates):,} possible, seed {options.seed}")
    return int(share < options.at_least / 100)


class _Copy:
    """A copy of the tree in which one module at a time is changed."""

    def __init__(self, root: Path, timeout: int) -> None:
        self._root = root
        self._timeout = timeout
        self._failing: dict[tuple[str, ...], tuple[str, ...]] = {}
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, root / name)

    def try_out(self, path: str, mutant: Mutant, most: int) -> Outcome:
        """Plants a mutant, runs the tests of its module until one fails, and takes it away again."""
        files = (path, *tests_of(path)[:most])
        target = self._root / path
        original = target.read_text(encoding="utf-8")
        try:
            if files not in self._failing:  # a test that fails without a bug notices none
                self._failing[files] = self._run(files, ())[1]
            self._write(target, mutant.text)
            code, failed = self._run(files, ["-x", *(f"--deselect={each}" for each in self._failing[files])])
        except subprocess.TimeoutExpired:
            return Outcome(path, mutant, TIMEOUT)
        finally:
            self._write(target, original)
        return Outcome(path, mutant, "" if code in _PASSED else (*failed, f"exit code {code}")[0])

    def _write(self, target: Path, text: str) -> None:
        target.write_text(text, encoding="utf-8")
        Path(cache_from_source(str(target))).unlink(missing_ok=True)  # else a text of the same second and size is stale

    def _run(self, files: Sequence[str], options: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        """Runs the examples of a module and test files; the exit code, and the tests that fail."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *options]
        command += ["-m", "not slow and not oracle and not long", "--doctest-modules", "--no-header", *files]
        environment = {**os.environ, "PYTHONPATH": str(self._root), "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.run(
            command,
            cwd=self._root,
            env=environment,
            capture_output=True,
            timeout=_ON_THE_WALL * self._timeout,
            check=False,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (self._timeout, self._timeout + 1)),
        )
        if done.returncode == -signal.SIGXCPU:
            raise subprocess.TimeoutExpired(command, self._timeout)
        found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout.decode(errors="replace"), re.MULTILINE)
        return done.returncode, tuple(found)


_PASSED = (0, 5)
"""Exit codes of pytest: all tests pass, and there are none."""
_ON_THE_WALL = 10
"""Seconds on the wall for one of the processor, as on a machine with many processes for each core."""


def tests_of(path: str) -> list[str]:
    """The test files that tell something of a module: by how often they name it and what it defines.

    >>> tests_of("hlo_cli/analysis/memory/heaps.py")[0]
    'tests/test_heap.py'
    """
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    words = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    words |= {str(each) for node in ast.walk(tree) if isinstance(node, ast.Call) for each in _rule_codes(node)}
    words = {word for word in words if not word.startswith("_")}
    stem = Path(path).stem
    scores = {}
    for test in sorted((ROOT / "tests").glob("test_*.py")):
        text = _with_helpers(test)
        named = len(words & set(re.findall(r"\w+", text)))
        dotted = path.removesuffix(".py").replace("/", ".")
        score = 100 * (test.stem == f"test_{stem}") + 20 * (f"{dotted} import" in text) + named
        scores[f"tests/{test.name}"] = score + 3 * any(part in test.stem.split("_") for part in stem.split("_"))
    for package, usual in _USUAL.items():
        if path.startswith(f"hlo_cli/{package}"):
            weight = 2 + 20 * ("/" in package)  # what is named for a chapter comes before what is for a whole package
            scores |= {f"tests/{name}.py": scores.get(f"tests/{name}.py", 0) + weight for name in usual}
    return sorted((name for name, score in scores.items() if score), key=lambda name: (-scores[name], name))


_USUAL = {
    "lint": ("test_lint_rules", "test_lint_costs", "test_lint", "test_lint_programs"),
    "lint/finding_facts": ("test_lint_cost_of_findings", "test_lint_groups", "test_lint_order"),
    "lint/advice": ("test_boundaries", "test_lint_order"),
    "lint/rules/communication": ("test_shard_lint",),
    "lint/rules/memory": ("test_lint_costs", "test_lint_order"),
    "analysis/shapes": ("test_shape_inference", "test_strict"),
    "analysis/cost": ("test_cost", "test_compilers_costs"),
    "analysis/schedule": ("test_schedule", "test_sugar"),
    "transform/fusion/gpu": ("test_gpu_fuse",),
    "transform/fusion": ("test_fuse_pass", "test_fuse_by_hand", "test_fuse_several"),
    "transform/schedule": ("test_reorder",),
    "analysis": ("test_golden",),
}
"""Tests that look at many modules of a package, which they do not name."""


def _with_helpers(test: Path) -> str:
    """The text of a test, with that of the helpers in `tests/` which it imports."""
    text = test.read_text(encoding="utf-8")
    helpers = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    found = (ROOT / "tests" / f"{name}.py" for name in helpers if not name.startswith("test_"))
    return text + "".join(path.read_text(encoding="utf-8") for path in found if path.exists())


def _rule_codes(call: ast.Call) -> Iterator[str]:
    match call:
        case ast.Call(func=ast.Name("rule"), args=[ast.Constant(value=str(code)), *_]):
            yield code


def _modules(given: str) -> list[str]:
    path = ROOT / given
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(file.relative_to(ROOT)) for file in files if file.name != "__init__.py"]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant bugs in modules and say which of them no test notices.")
    packages = [f"hlo_cli/{name}" for name in PACKAGES]
    parser.add_argument("paths", nargs="*", default=packages, help="modules or packages; analysis, lint, transform")
    parser.add_argument("--sample", type=int, default=30, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--seconds", type=float, default=1800, help="begin no other mutant after this time")
    parser.add_argument(
        "--timeout",
        type=int,
        default=120,
        help="processor time in seconds for the tests of one mutant; more is not counted",
    )
    parser.add_argument("--files", type=int, default=5, help="how many test files to run for one mutant")
    parser.add_argument("--at-least", type=float, default=0, help="exit with 1 if fewer percent are killed")
    parser.add_argument("--verbose", action="store_true", help="say what noticed the others")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
