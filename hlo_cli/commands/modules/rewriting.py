"""What did a command change in a module, and does it still compute the same? The diff, and `--verify`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.report.diff import Diff, line_diff
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.source import Diagnostic, HloError, Severity

if TYPE_CHECKING:
    from hlo_cli.analysis.comparison.two_runs import RunComparison
    from hlo_cli.analysis.evaluate.settings import Limits
    from hlo_cli.report.report import Report


# --- the diff of the text ---
# The line diff of two modules as text: the effect of a transformation on a dump.


_INSTRUCTION: Final = re.compile(r" +(?:ROOT )?%?([^\s=]+) = ")
_COMPUTATION: Final = re.compile(r"(?:ENTRY )?%?([^\s(]+) (?:\(.*)?\{$")


def module_diff(old: Module, new: Module, *, old_name: str, new_name: str) -> Diff:
    """The diff of the canonical texts of two modules; instructions and computations are matched by name.

    >>> from hlo_cli import parse_module
    >>> old, new = (parse_module(f"HloModule m  ENTRY e {{ ROOT p = f32[{n}] parameter(0) }}") for n in (8, 9))
    >>> for hunk in module_diff(old, new, old_name="a", new_name="b").hunks:
    ...     for line in hunk.lines: print(line.sign, line.text)
      HloModule m
    <BLANKLINE>
    ~ ENTRY %e (p: f32[9]) -> f32[9] {
    ~   ROOT %p = f32[9]{0} parameter(0)
      }
    <BLANKLINE>
    """
    return line_diff(
        "changed_lines", _lines(old), _lines(new), key=_name, heading=_computation, old_name=old_name, new_name=new_name
    )


def _lines(module: Module) -> list[str]:
    return "".join(module.chunks()).removesuffix("\n").split("\n")


def _name(line: str) -> str | None:
    """The name that a line defines: of an instruction or, with a mark, of a computation."""
    found = _INSTRUCTION.match(line)
    if found is not None:
        return found[1]
    name = _computation(line)
    return None if name is None else f"{name} {{"


def _computation(line: str) -> str | None:
    found = _COMPUTATION.match(line)
    return None if found is None else found[1]


# --- --verify: both modules run ---
# `--verify`: a rewritten module runs next to the original on made-up arguments, and the report states the verdict.


# `--verify` is an extra of another command: beyond these limits it says "not verified" instead of going on
_MAX_BYTES: Final = 2 << 30  # all arrays that are live at once
_MAX_OPERATIONS: Final = 2_000_000_000  # some seconds, see `_SECONDS_PER_OPERATION` of `hlo run`
_MAX_ITERATIONS: Final = 100_000  # each has a cost of its own in Python, however small its arrays
_MAX_SECONDS: Final = 60.0  # if the estimate was wrong
_MAX_NAMES: Final = 3
"""The largest number of names in a sentence, so that it fits a line."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a rewritten module as a word and as a sentence; the word is None if the module cannot run.

    Without a sentence, nothing was verified; `is_assumed` if results of unknown functions were made up.
    """

    verdict: str | None
    sentence: str
    is_assumed: bool = False

    @property
    def exit_code(self) -> int:
        """1 if the rewritten module computes something else."""
        return int(self.verdict in ("approximation", "discontinuity", "different"))

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The sentence as a note, for commands that write the module instead of a report."""
        severity: Severity = "warning" if self.exit_code else "note"
        return (Diagnostic(severity, self.sentence),) if self.sentence else ()

    def added_to(self, report: Report) -> Report:
        """A report with the verdict in its answer and its numbers.

        In a note as well if there is more to it than that results agree, as pipes get no answer.
        """
        if not self.sentence:
            return report
        numbers = {**report.numbers, "verified": self.verdict}
        answer = report.answer if self.verdict is None else f"{report.answer}; {self.sentence}"
        notes = self.notes if self.verdict is None or self.exit_code or self.is_assumed else ()
        return replace(report, answer=answer, numbers=numbers, notes=(*notes, *report.notes))


NOT_ASKED: Final = Verification(None, "")
"""The verification of a command without `--verify`."""


def is_refuted(report: Report) -> int:
    """1 if the report has the verdict that a rewritten module computes something else, as exit code."""
    return Verification(str(report.numbers.get("verified")), "").exit_code


def verify_if(is_asked: bool, old: Module, new: Module) -> Verification:
    """The verification of a rewritten module if it is asked for."""
    return verify(old, new) if is_asked else NOT_ASKED


def verify(old: Module, new: Module) -> Verification:
    """Runs a module and its rewritten form on the same made-up arguments.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> verify(module, module)
    Verification(verdict='identical', sentence='verified: results are identical', is_assumed=False)
    """

    def compared() -> RunComparison:
        from hlo_cli.analysis.comparison.two_runs import compare_runs

        return compare_runs(old, new, limits=_limits(), is_rewrite=True)

    return _verification(compared)


def verify_part(module: Module, computation: Computation, part: Module) -> Verification:
    """Runs a module, and a part of it on the values that its parameters have in the module.

    >>> from hlo_cli import extract, parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    >>> verify_part(module, module.entry, extract(module, module.entry.root)).verdict
    'identical'
    """

    def compared() -> RunComparison:
        from hlo_cli.analysis.comparison.two_runs import compare_part

        return compare_part(module, computation, part, limits=_limits())

    return _verification(compared)


def _limits() -> Limits:
    from hlo_cli.analysis.evaluate.settings import Limits

    return Limits(_MAX_BYTES, _MAX_OPERATIONS, _MAX_ITERATIONS, _MAX_SECONDS)


def _verification(compared: Callable[[], RunComparison]) -> Verification:
    try:
        found = compared()
    except HloError as error:
        return Verification(None, f"not verified: {error.diagnostics[0].message}")
    assumed = f", with made-up results of {', '.join(found.assumed)}" if found.assumed else ""
    worst = max((each.exact for each in found.distances), default=0.0)
    verdict = found.verdict
    if verdict == "uncovered":
        if not found.coverage.missing and not found.coverage.uncompared:
            left = "one module alone does not finish with other arguments"
            if found.coverage.undecided:
                left = f"{found.coverage.undecided[0][1].name} has another direction and never compared equal operands"
            return Verification(verdict, f"verified in part: results agree, but {left}{assumed}", is_assumed=True)
        names = list(dict.fromkeys(each.name for each in found.coverage.missing)) or ["elements of results"]
        listed = ", ".join(names[:_MAX_NAMES]) + (
            f" and {len(names) - _MAX_NAMES} others" if len(names) > _MAX_NAMES else ""
        )
        left = f"{listed} never ran" if found.coverage.missing else f"{listed} are NaN in both modules"
        return Verification(verdict, f"verified in part: results agree, but {left}{assumed}", is_assumed=True)
    match verdict:
        case "identical":
            return Verification("identical", f"verified: results are identical{assumed}", bool(assumed))
        case "rounding":
            return Verification(
                "rounding", f"verified: results differ by rounding only (at most {worst:.1e}){assumed}", bool(assumed)
            )
        case "overflow":
            words = "verified without rounding; with it, results have NaN or Inf in one module only"
            return Verification("overflow", f"{words}{assumed}", is_assumed=True)
        case "unknown":
            return Verification("unknown", "not verified: the place of results on devices is unknown", is_assumed=True)
        case _:
            count = sum(each.verdict in ("approximation", "different") for each in found.distances)
            first = found.first_difference
            where = "" if first is None else f", first at {first.instruction.name}"
            of = format_count(len(found.distances), "results")
            return Verification(verdict, f"not the same: {count:,} of {of} {verb(count, 'differs', 'differ')}{where}")
