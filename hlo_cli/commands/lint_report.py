"""`hlo lint`: reads every input, lets the rules look at it, and reports what they find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo_cli.analysis.omitted_shape import omitted_shape
from hlo_cli.commands.options import Reading
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lint.catalog import chosen_rules
from hlo_cli.lint.fingerprint import fingerprint
from hlo_cli.lint.registry import Rule
from hlo_cli.lint.run import Found, findings_in
from hlo_cli.lint.settings import Settings
from hlo_cli.render.numbers import counted
from hlo_cli.report.findings import Findings, ReportedFinding, RuleWords
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.read import read_module


@dataclass(frozen=True, slots=True)
class Looked:
    """What there is after looking through all inputs: findings, what could not be read at all, and how much was."""

    found: tuple[ReportedFinding, ...]
    errors: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    paths: tuple[str, ...]
    instructions: int


def look_through(arguments: Sequence[str], reading: Reading, settings: Settings) -> Looked:
    """The findings in every module that the arguments name; what cannot be read is told and does not stop the rest."""
    found: list[ReportedFinding] = []
    errors: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    paths: dict[str, None] = {}
    times: Counter[tuple[str, str]] = Counter()
    instructions = 0
    for each in read_inputs(arguments, stage=reading.stage, module=reading.module):
        notes.extend(Diagnostic("note", note) for note in each.notes)
        paths[each.source.name] = None
        try:
            found_here, count = _look_at(each, settings)
        except HloError as error:
            errors.extend(_named(diagnostic, each) for diagnostic in error.diagnostics)
            continue
        instructions += count
        for one in found_here:
            reported = _reported(one)
            times[one.rule.code, reported.fingerprint] += 1
            found.append(replace(reported, nth=times[one.rule.code, reported.fingerprint]))
    return Looked(tuple(found), tuple(errors), tuple(notes), tuple(paths), instructions)


def report_of(looked: Looked, found: Sequence[ReportedFinding], settings: Settings, argument: str) -> Report:
    """The report of those findings that are new; the others are counted as known."""
    rules = chosen_rules(settings)
    findings = Findings("findings", tuple(found), tuple(map(words_of, rules)), looked.paths)
    known = len(looked.found) - len(found)
    severities = Counter(each.diagnostic.severity for each in found)
    return Report(
        "lint",
        _answer(looked, findings, rules, known),
        numbers={
            "findings": len(found),
            "errors": severities["error"],
            "warnings": severities["warning"],
            "notes": severities["note"],
            "known": known,
            "rules": len(rules),
            "inputs": len(looked.paths),
            "instructions": looked.instructions,
        },
        parts=(findings,),
        next=_next(findings, argument),
        notes=looked.notes,
        input={"paths": looked.paths},
    )


def report_of_writing(looked: Looked, path: str) -> Report:
    """What is said when findings were written to a baseline."""
    answer = f"{counted(len(looked.found), 'findings')} written to {path}"
    return Report("lint-baseline", answer, numbers={"findings": len(looked.found)}, notes=looked.notes)


def words_of(rule: Rule) -> RuleWords:
    """What there is to say of a rule wherever its findings go."""
    page = rule.page
    return RuleWords(rule.code, rule.name, rule.severity, page.what, page.why, page.mend, page.reference)


def _look_at(each: Input, settings: Settings) -> tuple[tuple[Found, ...], int]:
    module = read_module(each.source, each.proto, infer=omitted_shape)
    rejections: tuple[Diagnostic, ...] = ()
    if each.proto is None and any(rule.reads_again for rule in chosen_rules(settings)):
        from hlo_cli.syntax.strict.module import check_strictly

        rejections = check_strictly(each.source)
    return findings_in(module, settings, rejections=rejections), module.instruction_count


def _reported(found: Found) -> ReportedFinding:
    at, module = found.finding.at, found.module
    diagnostic, print_ = found.diagnostic, fingerprint(found)
    match at:
        case Instruction():
            location = module.location(at)
            return ReportedFinding(
                diagnostic,
                print_,
                instruction=at.name,
                computation=at.computation.name,
                op_name=at.metadata.op_name or None,
                location=str(location) if location is not None else None,
            )
        case Computation():
            return ReportedFinding(diagnostic, print_, computation=at.name)
    return ReportedFinding(diagnostic, print_)


def _named(diagnostic: Diagnostic, each: Input) -> Diagnostic:
    """An error that says in which of several inputs it is."""
    return diagnostic if diagnostic.source is not None else replace(diagnostic, source=each.source)


def _answer(looked: Looked, findings: Findings, rules: Sequence[Rule], known: int) -> str:
    besides = f"; {counted(known, 'known findings')} left out" if known else ""
    if findings.found:
        return f"{findings.summary}{besides}"
    nothing = "Nothing new" if known else "Nothing found"
    where = f" in {counted(len(looked.paths), 'inputs')}" if len(looked.paths) != 1 else ""
    looked_at = f"{counted(looked.instructions, 'instructions')}{where}, {counted(len(rules), 'rules')}"
    return f"{nothing}: {looked_at}{besides}"


def _next(findings: Findings, argument: str) -> tuple[str, ...]:
    if not findings.found:
        return ()
    most = findings.statistics().rows[0][0]
    explain = f"hlo lint --explain {most}"
    return (explain, f"hlo lint {argument} --write-baseline FILE") if argument and argument != "-" else (explain,)
