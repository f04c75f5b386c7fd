"""Do the assertions of `--expect` hold in a module? Also compared with a golden dump."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.query.assertions import (
    AssertionResult,
    GoldenValues,
    check_assertions,
    check_expectation,
    golden_values,
)
from hlo_cli.commands.modules.loading import Loaded, every_module
from hlo_cli.commands.modules.many import map_inputs, short_paths
from hlo_cli.commands.options.io_options import InputOptions, requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import read_utf8
from hlo_cli.inputs.input import Input
from hlo_cli.ir.expressions import Expectation, Number
from hlo_cli.ir.module import Module
from hlo_cli.lint.rules.expectations import failed_assertion, misleading_assertion
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Check
from hlo_cli.report.numbers import format_amount, format_count
from hlo_cli.report.table import KEEP, ROWS_FOR_A_PERSON, Cell, Column, Table, rows_from_tuples
from hlo_cli.source import Diagnostic, HloError, Severity, Source
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
from hlo_cli.syntax.expectations import read_expectations

# --- reading and evaluating ---
# `hlo lint --expect FILE`: reads assertions, evaluates them on modules, and reports the results.


_RESULT_WORDS: Final[dict[bool | None, str]] = {False: "failed", None: "skipped", True: "passed"}
"""The words for results of assertions, in the order of the rows."""
_HINT: Final = "run `hlo help expect` for an example of an assertions file"
_UNITS: Final = {"bytes": "bytes", "share": "fraction"}
NO_MODULE: Final = "no module matches its section"
"""The reason why an assertion was not evaluated."""
_COLUMNS_OF_INPUTS: Final = ("module", "dump")
"""Columns that are the same in all rows of a single input."""


@dataclass(frozen=True, slots=True)
class AssertionOutcome:
    """The result of one assertion in one module; `expectation` is its index in the list of all.

    `is_helper` tells that the module is one of JAX's own functions.
    """

    expectation: int
    is_met: bool | None
    found: int | float | None
    kind: str
    remark: str
    limit: int | float | None
    module: str
    path: str
    unmatched: tuple[str, ...] = ()
    is_helper: bool = False

    @property
    def is_folded(self) -> bool:
        """Whether nothing is to be done about it, in a module that the user did not write."""
        return self.is_helper and self.is_met is not False


def expectations_in(paths: Iterable[str]) -> tuple[Expectation, ...]:
    """The assertions in files; HloError with all problems of a file.

    >>> expectations_in(["/no/such/expect.toml"])
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: assertions file '/no/such/expect.toml' not found
      help: run `hlo help expect` for an example of an assertions file
    """
    return tuple(each for path in paths for each in _expectations_in(path))


def with_expectations(settings: LintSettings) -> LintSettings:
    """The settings with the rules that report assertions added to the selected ones; they can still be ignored.

    With `strict`, an assertion that cannot fail is an error.

    >>> from hlo_cli.lint.settings import LintSettings
    >>> with_expectations(LintSettings(select=("HLO1",))).select
    ('HLO1', 'HLO901', 'HLO902')
    """
    severity = settings.severity
    if settings.strict:
        severity = {misleading_assertion.code: "error", **severity}
    select = (*(settings.select or ("HLO",)), failed_assertion.code, misleading_assertion.code)
    return replace(settings, select=select, severity=severity)


def evaluate(
    module: Module, dump: Input, expectations: Sequence[Expectation], golden: GoldenValues | None = None
) -> tuple[tuple[AssertionResult, ...], tuple[AssertionOutcome, ...]]:
    """The results for a module, as verdicts for the rules and as rows; `golden` are the values to compare with."""
    results = check_assertions(
        module, expectations, attributes=ATTRIBUTE_NAMES, memory=lambda: _memory_of(module, dump), golden=golden
    )
    places = {id(each): number for number, each in enumerate(expectations)}
    outcomes = (
        AssertionOutcome(
            places[id(each.expectation)],
            each.is_met,
            each.found,
            each.kind,
            each.remark,
            each.limit if each.has_computed_limit else None,
            module.name,
            dump.source.name,
            each.unmatched,
        )
        for each in results
    )
    return results, tuple(outcomes)


_COLUMNS: Final[tuple[Column[Expectation, AssertionOutcome, str], ...]] = (
    Column("result", "result", of=lambda stated, each, dump: _RESULT_WORDS[each.is_met]),
    Column("actual", "actual", person=False, of=lambda stated, each, dump: each.found),
    Column("unit", "unit", person=False, of=lambda stated, each, dump: _UNITS.get(each.kind, "count")),
    Column("amount", "actual", machine=False, align="right",
           of=lambda stated, each, dump: None if each.found is None else format_amount(each.found, each.kind)),
    Column("limit", "limit", person=False, of=lambda stated, each, dump: _limit_of(stated, each)),
    Column("limit_amount", "limit", machine=False, align="right", rank=1,
           of=lambda stated, each, dump: None if each.limit is None else format_amount(each.limit, each.kind)),
    Column("assertion", "assertion", of=lambda stated, each, dump: str(stated)),
    Column("section", "section", rank=1, from_width=120,
           of=lambda stated, each, dump: ", ".join(map(str, stated.sections)) or None),
    Column("module", "module", "name", rank=2, of=lambda stated, each, dump: each.module or None),
    Column("is_helper", "helper", "flag", person=False, of=lambda stated, each, dump: each.is_helper),
    Column("dump", "dump", "name", rank=3, machine=False, of=lambda stated, each, dump: dump or None),
    Column("path", "path", "source", person=False, of=lambda stated, each, dump: each.path or None),
    Column("note", "note", rank=1, from_width=120, of=lambda stated, each, dump: each.remark or None),
    Column("location", "location", "source", rank=1, from_width=120, of=lambda stated, each, dump: stated.place),
    Column("why", "why", rank=1, from_width=200, of=lambda stated, each, dump: stated.why or None),
)  # fmt: skip


def table_of(expectations: Sequence[Expectation], outcomes: Sequence[AssertionOutcome]) -> Table:
    """A row for every assertion and module, failed ones first, and one for each assertion without a module.

    Those that helper modules do not fail are last; a screen counts them.
    """
    evaluated = {each.expectation for each in outcomes}
    never = (
        AssertionOutcome(number, None, None, "count", NO_MODULE, None, "", "")
        for number in range(len(expectations))
        if number not in evaluated
    )
    order = list(_RESULT_WORDS)
    rows = sorted((*outcomes, *never), key=lambda each: (each.is_folded, order.index(each.is_met)))
    is_one = len({each.path for each in outcomes}) < 2
    hidden = {
        *(_COLUMNS_OF_INPUTS if is_one else ()),
        *(("limit_amount",) if all(each.limit is None for each in rows) else ()),
    }
    columns = tuple(replace(each, person=False) if each.name in hidden else each for each in _COLUMNS)
    if not is_one:  # rows of several modules are told apart by it
        columns = tuple(replace(each, rank=KEEP) if each.name == "module" else each for each in columns)
    short = short_paths([each.path for each in rows])
    stated = ((expectations[each.expectation], each, dump) for each, dump in zip(rows, short, strict=True))
    table = Table("assertions", columns, rows_from_tuples(columns, stated), noun="assertions", main=False)
    shown = sum(not each.is_folded for each in rows)
    has_folded = 0 < shown < len(rows) and shown <= ROWS_FOR_A_PERSON
    return replace(table, limit=shown, folded="assertions on helper modules") if has_folded else table


def checks_of(expectations: Sequence[Expectation], outcomes: Sequence[AssertionOutcome]) -> tuple[Check, ...]:
    """Assertions that passed or were skipped in a module, for the formats that list all assertions."""
    return tuple(
        Check(str(expectations[each.expectation]), each.path, bool(each.is_met), each.remark)
        for each in outcomes
        if each.is_met is not False
    )


def answer_of(expectations: Sequence[Expectation], outcomes: Sequence[AssertionOutcome]) -> str:
    """How many of the assertions passed, in a few words."""
    failed = {each.expectation for each in outcomes if each.is_met is False}
    evaluated = {each.expectation for each in outcomes if each.is_met is not None}
    modules = {(each.path, each.module) for each in outcomes}
    broken = {(each.path, each.module) for each in outcomes if each.is_met is False}
    if failed:
        where = f" in {len(broken):,} of {format_count(len(modules), 'modules')}" if len(modules) > 1 else ""
        return f"{len(failed):,} of {format_count(len(expectations), 'assertions')} failed{where}"
    if len(evaluated) == len(expectations):
        return f"{format_count(len(evaluated), 'assertions')} passed"
    return f"{len(evaluated):,} of {format_count(len(expectations), 'assertions')} passed, the rest were skipped"


def numbers_of(expectations: Sequence[Expectation], outcomes: Sequence[AssertionOutcome]) -> dict[str, Cell]:
    """The number of assertions, and how often they passed and failed over all modules."""
    results = [each.is_met for each in outcomes]
    return {"assertions": len(expectations), "times_passed": results.count(True), "times_failed": results.count(False)}


def notes_on_skipped(
    expectations: Sequence[Expectation], outcomes: Sequence[AssertionOutcome], *, strict: bool = False
) -> tuple[Diagnostic, ...]:
    """A note for every assertion without a result, such as one with an unknown cost.

    An assertion that no module was checked for is a warning, with `strict` an error: its section may be misspelled. So
    is one with a condition that no operation of any module meets.
    """
    applied = {each.expectation for each in outcomes}
    evaluated = {each.expectation for each in outcomes if each.is_met is not None}
    remarks = {each.expectation: each.remark for each in outcomes if each.is_met is None and each.remark}
    never: Severity = "error" if strict else "warning"
    skipped = (
        Diagnostic(
            "note" if number in applied else never,
            f"skipped '{each}': {remarks.get(number, _reason(each))}",
            each.source,
            each.span,
        )
        for number, each in enumerate(expectations)
        if number not in evaluated
    )
    unmatched = (
        Diagnostic(never, f"'{each}' has no effect: no operation matches {condition}", each.source, each.span)
        for number, each in enumerate(expectations)
        for condition in _never_matched([one.unmatched for one in outcomes if one.expectation == number])
    )
    return *skipped, *unmatched


def _never_matched(by_module: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The conditions that nothing matches in any module."""
    first = by_module[0] if by_module else ()
    return tuple(each for each in first if all(each in unmatched for unmatched in by_module))


def _reason(stated: Expectation) -> str:
    return NO_MODULE if stated.sections else "no module was checked"


def _expectations_in(path: str) -> tuple[Expectation, ...]:
    try:
        source = Source(path, read_utf8(path))
    except FileNotFoundError as error:
        raise HloError(f"assertions file '{path}' not found", hint=_HINT) from error
    except OSError as error:
        raise HloError(
            f"cannot read {path}: {error.strerror or error}",
            hint=_HINT,
        ) from error
    except UnicodeDecodeError as error:
        raise HloError(f"cannot read {path}: not valid UTF-8") from error
    return read_expectations(source, check=partial(check_expectation, attributes=ATTRIBUTE_NAMES))


def _memory_of(module: Module, dump: Input) -> MemoryAnalysis:
    """Memory analysis by the compiler's buffer assignment, if it is next to the dump."""
    from hlo_cli.commands.memspace.compiler_files import compiler_memory

    return compiler_memory(Loaded(module, dump))


def _limit_of(stated: Expectation, outcome: AssertionOutcome) -> int | float | None:
    """The limit as a number: as written, or computed."""
    return stated.limit.value if isinstance(stated.limit, Number) else outcome.limit


# --- --golden: values of assertions in a golden dump ---


@dataclass(frozen=True, slots=True)
class GoldenModules:
    """Values of assertions in the modules of the golden dump, by the module's name."""

    by_name: Mapping[str, GoldenValues]

    def of(self, name: str) -> GoldenValues | None:
        """The values in the module of a name, or in the only module; None if there is none.

        >>> values = {}
        >>> GoldenModules({"jit_f": values}).of("jit_g") is values, GoldenModules({}).of("jit_g")
        (True, None)
        """
        if len(self.by_name) == 1:
            return next(iter(self.by_name.values()))
        return self.by_name.get(name)


def golden_modules(
    path: str | None, expectations: Sequence[Expectation], reading: InputOptions, *, default: str | None = None
) -> GoldenModules | None:
    """Measures the golden dump; HloError if it cannot be read, or if it is missing or not needed.

    `default` is the dump that settings name, which need not be used.
    """
    using = [each for each in expectations if each.uses_golden]
    if path is None and using:
        path = default
    if path is None:
        if using:
            raise _missing(using[0])
        return None
    if not using:
        hint = "for example, peak.hbm <= golden * 1.02"
        raise HloError("--golden has no effect: no assertion refers to golden", hint=hint)
    measure = _Measure(tuple(expectations))
    found: dict[str, GoldenValues] = {}
    for each in map_inputs(every_module([path], reading), replace(reading, strict=False), None, measure):
        if each.answer is None:
            named = Source(path, "")
            raise HloError.of(one if one.source is not None else replace(one, source=named) for one in each.errors)
        found.setdefault(*each.answer)
    return GoldenModules(found)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Measures one golden module; called for every module."""

    expectations: tuple[Expectation, ...]

    def __call__(self, module: Module, dump: Input) -> tuple[str, GoldenValues]:
        def memory() -> MemoryAnalysis:
            return _memory_of(module, dump)

        return module.name, golden_values(module, self.expectations, attributes=ATTRIBUTE_NAMES, memory=memory)


def _missing(expectation: Expectation) -> HloError:
    error = requirement_error("golden", "--golden DUMP").diagnostic
    return HloError(error.message, expectation.span, source=expectation.source, hint=error.hint)
