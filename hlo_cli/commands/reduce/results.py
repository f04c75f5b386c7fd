"""What a reduction leaves: a folder with the module, its arguments, a page on what failed, and a test that fails today.

The folder is written next to its place and moved there, so that it is whole or absent. Until then, `DIR.part` has the
verdicts on candidates, from which a search that was stopped goes on.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Final

from hlo_cli.analysis.comparison.entry_values import named_arrays
from hlo_cli.analysis.evaluate.arguments import npz_bytes
from hlo_cli.commands.reduce.failures import FailingCommand, Failure, HighPeak, ReportedFinding, WrongValues
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError
from hlo_cli.transform.reduction.search import Reduction

# --- verdicts that outlive the process ---

_VERDICTS: Final = "verdicts"


@dataclass(slots=True)
class Journal:
    """Verdicts by the key of their candidate, in a file that is written line by line; removed unless `is_kept`."""

    folder: str
    known: dict[str, bool]
    file: IO[str]
    is_kept: bool = False

    def note(self, key: str, fails: bool) -> None:
        """Adds a verdict, which is on disk when this returns, as far as the system has it."""
        self.file.write(f"{key} {int(fails)}\n")
        # Without it, verdicts would be lost when the process is killed.
        self.file.flush()


def unfinished(place: str) -> str:
    """The folder of a search that has not ended.

    >>> unfinished("out/")
    'out.part'
    """
    return f"{place.rstrip(os.sep)}.part"


@contextmanager
def journal_of(place: str, question: str) -> Iterator[Journal]:
    """The verdicts of an earlier search for the same question that was stopped, and the file for more.

    The folder stays if the search is stopped, whatever stops it, and is removed when the search has ended.
    """
    folder = unfinished(place)
    path = os.path.join(folder, _VERDICTS)
    try:
        os.makedirs(folder, exist_ok=True)
        known = _read_verdicts(path, question)
        file = open(path, "a" if known else "w", encoding="ascii")  # noqa: SIM115 - closed below
    except OSError as error:
        raise HloError(f"cannot write {folder}: {error.strerror or error}") from None
    with file:
        if not known:
            file.write(f"{question}\n")
        yield (journal := Journal(folder, known, file))
    if not journal.is_kept:
        shutil.rmtree(folder, ignore_errors=True)


def _read_verdicts(path: str, question: str) -> dict[str, bool]:
    """The verdicts in a file of the same question; the last line may be cut off."""
    known: dict[str, bool] = {}
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        if file.readline() != f"{question}\n":
            return {}
        for line in file:
            key, _, verdict = line.partition(" ")
            if verdict in ("0\n", "1\n"):
                known[key] = verdict == "1\n"
    return known


# --- the folder ---


def check_place(place: str) -> None:
    """HloError, before anything runs, for a folder that exists and has files, or that cannot be made."""
    parent = os.path.dirname(os.path.abspath(place.rstrip(os.sep)))
    if os.path.isdir(place) and not os.listdir(place):
        return
    if os.path.exists(place):
        raise HloError(f"cannot write {place}: it exists", hint="use -o with a directory that does not exist")
    if not os.path.isdir(parent):
        raise HloError(f"cannot write {place}: the directory {parent} does not exist")
    if not os.access(parent, os.W_OK):
        raise HloError(f"cannot write {place}: the directory is read-only")


def write_folder(place: str, files: Mapping[str, bytes], journal: Journal) -> None:
    """Writes all files, or none: they are moved to their place together."""
    made = os.path.join(journal.folder, "result")
    try:
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(made)
        for name, content in files.items():
            with open(os.path.join(made, name), "wb") as file:
                file.write(content)
        # An empty folder may be in the place, which not every system replaces.
        with suppress(FileNotFoundError):
            os.rmdir(place)
        os.rename(made, place)
    except OSError as error:
        raise HloError(f"cannot write {place}: {error.strerror or error}") from None


def files_of(found: Reduction, failure: Failure, command: Sequence[str], answer: str) -> dict[str, bytes]:
    """The files of the folder by name."""
    case = found.case
    files = {"reduced.hlo": case.texts[-1].encode()}
    if len(case.drafts) > 1:
        files["reference.hlo"] = case.texts[0].encode()
    if case.arguments is not None:
        files["args.npz"] = npz_bytes(dict(named_arrays(case.arguments)))
    files["test_reduced.py"] = _test(failure, answer).encode()
    files["README.md"] = _page(found, failure, command, answer, sorted(files)).encode()
    return files


_CONTENTS: Final = {
    "reduced.hlo": "the smallest module found that fails",
    "reference.hlo": "the other module, reduced in the same way, which is right",
    "args.npz": "the arguments of both, by the names of their parameters",
    "test_reduced.py": "a test for pytest that fails until this is fixed",
}


def _page(found: Reduction, failure: Failure, command: Sequence[str], answer: str, files: Sequence[str]) -> str:
    """The page on what failed and how it was found."""
    kept = "\n".join(f"| {each.steps:,} | {each.instructions:,} | {each.words} |" for each in found.kept)
    listed = "\n".join(f"- `{name}`: {_CONTENTS[name]}" for name in files)
    again = "" if found.is_minimal else "A limit ended the search, so it may be possible to remove more.\n\n"
    return f"""# {found.case.draft.name}

{answer[0].upper()}{answer[1:]}.

    {shlex.join(command)}

{_how(failure)}

{again}{listed}

```
{found.case.texts[-1].strip()}
```

| step | instructions | kept change |
|---:|---:|---|
{kept}
"""


def _how(failure: Failure) -> str:
    """How to see the failure."""
    match failure:
        case WrongValues(question) if question.wanted is None:
            floats = "rounded to their types" if question.floats == "exact" else "of 64 bits without rounding"
            return (
                "To see it: `hlo run reference.hlo --against reduced.hlo --args args.npz`. Values are compared with "
                f"floats {floats}; a relative difference above {question.tolerance:g} is a failure."
            )
        case WrongValues(question):
            return f"To see it: `hlo run reduced.hlo --args args.npz --probe {question.wanted}`."
        case FailingCommand(command):
            return f"To see it: `{command.line}` with reduced.hlo as the module."
        case ReportedFinding(code):
            return f"To see it: `hlo lint reduced.hlo --select {code}`."
        case _:
            return "To see it: `hlo memspace reduced.hlo`."


def summary_of(found: Reduction, before: int, failure: Failure, seconds: float | None = None) -> str:
    """The answer in one line.

    >>> from hlo_cli.transform.reduction.draft import Draft, Body, Line
    >>> from hlo_cli import TokenShape
    >>> from hlo_cli.transform.reduction.search import Case
    >>> draft = Draft("m", (Body("e", (Line("t", TokenShape(), "after-all"),), "t"),))
    >>> summary_of(Reduction(Case((draft,)), (), 3, True), 12, HighPeak(8), 6.25)
    'reduced 12 instructions to 1 in 3 steps, 6 s; still needs more than 8 bytes at the peak'
    """
    time = "" if seconds is None else f", {seconds:.0f} s"
    return (
        f"reduced {format_count(before, 'instructions')} to {found.case.draft.size:,} in "
        f"{format_count(found.steps, 'steps')}{time}; still {failure.words}"
    )


# --- the test ---

_HEAD: Final = '''"""{answer}.

This test fails until that is fixed. Run it with pytest.
"""

from pathlib import Path

{imports}
HERE = Path(__file__).parent

'''
_ARGUMENTS: Final = '''
def argument(arrays, name, shape):
    """The argument of a parameter; a tuple is made of the arrays of its elements."""
    if name in arrays:
        return arrays[name]
    parts = enumerate(getattr(shape, "elements", ()))
    return tuple(argument(arrays, f"{name}{{{at}}}", part) for at, part in parts)


def arguments_of(module):
    """The arguments of a module, in the order of its parameters."""
    arrays = np.load(HERE / "args.npz")
    return [argument(arrays, each.name, each.shape) for each in module.entry.parameters]

'''


def _test(failure: Failure, answer: str) -> str:
    """The text of a test that fails as long as the module does."""
    match failure:
        case WrongValues(question) if question.wanted is None:
            head, body = (
                "import hlo_cli\nimport numpy as np\n",
                _ARGUMENTS + _DIFFERENCE.format(floats=question.floats, tolerance=question.tolerance),
            )
        case WrongValues(question):
            head, body = (
                "import hlo_cli\nimport numpy as np\n",
                _ARGUMENTS
                + _ELEMENTS.format(
                    bad={"nan": "np.isnan(array)", "inf": "np.isinf(array)"}.get(
                        question.wanted or "", "~np.isfinite(array)"
                    )
                ),
            )
        case FailingCommand():
            head, body = "import re\nimport shlex\nimport subprocess\n", _command_test(failure)
        case ReportedFinding(code):
            head, body = "import hlo_cli\n", _FINDING.format(code=code)
        case HighPeak(most):
            head, body = "import hlo_cli\n", _PEAK.format(most=most)
        case _:
            raise AssertionError(failure)
    return _HEAD.format(answer=answer.replace("\\", "\\\\").replace('"', "'"), imports=head) + body


_DIFFERENCE: Final = '''
def leaves(value):
    """The arrays of a result."""
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [np.asarray(value)]


def results_of(module):
    """The result on each device."""
    found = {{}}

    def observe(instruction, device, value, operands):
        if instruction is module.entry.root:
            found[device] = value

    result = hlo_cli.run(module, arguments_of(module), floats="{floats}", observe=observe).result
    return tuple(found[device] for device in sorted(found)) or (result,)


def test_results_agree():
    reduced, reference = (hlo_cli.load(HERE / name) for name in ("reduced.hlo", "reference.hlo"))
    results = [results_of(module) for module in (reduced, reference)]
    for found, expected in zip(*map(leaves, results), strict=True):
        assert found.shape == expected.shape
        if found.dtype.kind in "biu":
            assert (found == expected).all()
        else:
            np.testing.assert_allclose(found, expected, rtol={tolerance!r}, atol=1e-12)
'''
_ELEMENTS: Final = '''
def leaves(value):
    """The arrays of a result."""
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [np.asarray(value)]


def test_results_are_numbers():
    reduced = hlo_cli.load(HERE / "reduced.hlo")
    for array in leaves(hlo_cli.run(reduced, arguments_of(reduced), floats="exact").result):
        assert not ({bad}).any()
'''
_FINDING: Final = """
def test_nothing_is_found():
    assert "{code}" not in {{found.code for found in hlo_cli.lint_module(hlo_cli.load(HERE / "reduced.hlo"))}}
"""
_PEAK: Final = """
def test_peak_is_below_the_limit():
    assert hlo_cli.memory_analysis(hlo_cli.load(HERE / "reduced.hlo")).peak_bytes <= {most}
"""


def _command_test(failure: FailingCommand) -> str:
    line = failure.command.line if "{}" in failure.command.line else failure.command.line + " {}"
    if failure.pattern is not None:
        verdict = f"assert not re.search({failure.pattern!r}, done.stdout, re.MULTILINE)"
    elif failure.first.limit:
        verdict = "assert done is not None  # it ends before its limit"
    else:
        verdict = f"assert done.returncode != {failure.first.code}, done.stdout"
    return f"""
def test_command_succeeds(tmp_path):
    line = {line!r}.replace("{{}}", shlex.quote(str(HERE / "reduced.hlo")))
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, text=True, errors="replace", timeout={failure.command.seconds:g},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    {verdict}
"""
