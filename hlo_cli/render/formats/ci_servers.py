"""What do servers of continuous integration read of findings: GitHub, GitLab, JUnit, and SARIF?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from itertools import chain
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from hlo_cli._version import __version__
from hlo_cli.dataclass import dataclass
from hlo_cli.render.formats.data import dumps
from hlo_cli.render.machine import Json
from hlo_cli.render.style import Style, sanitize
from hlo_cli.report.findings import Check, Finding, Findings, Group, RuleWords, stopped_by
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, Severity

# --- GitHub ---
# Findings as workflow commands, with which GitHub annotates the lines of a change.


# GitHub's word for a note
_COMMANDS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "note": "notice"}


def render_github(report: Report, style: Style) -> Iterator[str]:
    r"""One command for each group, at its worst finding, and one for each input that cannot be read.

    >>> from hlo_cli.report.findings import Finding
    >>> from hlo_cli.source import Source, Span
    >>> finding = Finding("error", "97% is padding", Source("a.txt", "x = 1"), Span(0, 1), "{0,1}", "HLO101")
    >>> report = Report("lint", "", parts=(Findings("findings", (finding,), ()),))
    >>> list(render_github(report, Style()))
    ['::error title=HLO101,file=a.txt,line=1,endLine=1,col=1,endColumn=2::97%25 is padding%0Ahelp: {0,1}\n']
    """
    for part in report.parts:
        if isinstance(part, Findings):
            names = {rule.code: f"{rule.code} {rule.name}" for rule in part.rules}
            for group in part.groups[: style.top or None]:
                each, more = group.worst, f" ({group.remark})" if group.remark else ""
                title = names.get(each.code, each.code)
                yield _command(each, group.named_message + more, {"title": title, "file": each.path}) + "\n"
    for error in report.errors:
        file = {"file": error.source.name} if error.source is not None else {}
        yield _command(error, error.message, {"title": stopped_by(error), **file}) + "\n"


def _command(diagnostic: Diagnostic, message: str, properties: dict[str, str]) -> str:
    if diagnostic.source is not None and diagnostic.span is not None:
        start, end = (diagnostic.source.position(at) for at in (diagnostic.span.start, diagnostic.span.end))
        properties |= {"line": str(start.line), "endLine": str(end.line)}
        if start.line == end.line:  # GitHub accepts columns only within one line
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    message += f"\nhelp: {diagnostic.hint}" if diagnostic.hint else ""
    written = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{_COMMANDS[diagnostic.severity]} {written}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """The text with characters that end a command or a property percent-encoded, and control characters escaped."""
    text = "\n".join(map(sanitize, text.split("\n")))
    for character in f"%\r\n{more}":  # % first, as the others become escapes with it
        text = text.replace(character, f"%{ord(character):02X}")
    return text


# --- GitLab ---
# Findings as a Code Quality report for GitLab.


# GitLab has five; critical and blocker are left to what stops the tool itself
_SEVERITIES: Final[dict[Severity, str]] = {"error": "major", "warning": "minor", "note": "info"}


def render_gitlab(report: Report, style: Style) -> Iterator[str]:
    r"""A JSON array with an object for each finding, and one of severity blocker for each input that cannot be read.

    Each has its own fingerprint, as GitLab requires.

    >>> "".join(render_gitlab(Report("lint", "", parts=(Findings("findings", (), ()),)), Style()))
    '[]\n'
    """
    before = "["
    found = (each for part in report.parts if isinstance(part, Findings) for each in part.first(style.top))
    for issue in chain(map(_issue, found), map(_unread_issue, report.errors)):
        yield f"{before}\n {dumps(issue)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _issue(each: Finding) -> Json:
    place = each.position
    return {
        "description": each.named_message,
        "check_name": each.code,
        # the same finding must have the same one in each run, or GitLab calls it new
        "fingerprint": f"{each.code}-{each.identity}",
        "severity": _SEVERITIES[each.severity],
        "location": {"path": each.path, "lines": {"begin": place.line if place else 1}},  # GitLab requires a line
    }


def _unread_issue(error: Diagnostic) -> Json:
    path = error.source.name if error.source is not None and error.source.name else "-"
    place = error.position
    line = place.line if place else 1
    digest = sha256(f"{path}:{line}:{error.message}".encode(errors="replace")).hexdigest()
    return {
        "description": f"{stopped_by(error)}: {error.message}",
        "check_name": "unreadable",
        "fingerprint": f"unreadable-{digest[:16]}",  # 64 bits: enough for the inputs of one run
        "severity": "blocker",
        "location": {"path": path, "lines": {"begin": line}},
    }


# --- JUnit ---
# Findings as JUnit XML, for CI servers: one suite for each input, one case for each group or assertion.
#
# What does not change the exit code does not fail; an unreadable input is an error, not a passing case.


def render_junit(report: Report, style: Style) -> Iterator[str]:
    """The document; an input without findings has one passing case.

    >>> report = Report("lint", "", parts=(Findings("findings", (), (), ("a.txt",)),))
    >>> print("".join(render_junit(report, Style())), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="hlo lint" tests="1" failures="0">
      <testsuite name="a.txt" tests="1" failures="0">
        <testcase classname="a.txt" name="no findings"/>
      </testsuite>
    </testsuites>
    """
    suites = _suites((part for part in report.parts if isinstance(part, Findings)), style.top)
    errors = report.errors
    tests = sum(suite.tests for suite in suites) + len(errors)
    failures = sum(suite.failures for suite in suites)
    more = f' errors="{len(errors)}"' if errors else ""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="hlo lint" tests="{tests}" failures="{failures}"{more}>\n'
    for suite in suites:
        yield from suite.lines()
    yield from _unread_cases(errors)
    yield "</testsuites>\n"


@dataclass(slots=True)
class _Suite:
    """The cases of one input."""

    path: str
    found: list[Group] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def tests(self) -> int:
        return max(len(self.found), 1) + len(self.checks)

    @property
    def failures(self) -> int:
        return sum(group.fails for group in self.found)

    def lines(self) -> Iterator[str]:
        """The suite with its cases."""
        skipped = sum(not check.has_passed for check in self.checks)
        more = f' skipped="{skipped}"' if skipped else ""
        name = _quoted(self.path)
        yield f'  <testsuite name={name} tests="{self.tests}" failures="{self.failures}"{more}>\n'
        if not self.found:
            yield f'    <testcase classname={name} name="no findings"/>\n'
        for group in self.found:
            yield from _finding(group)
        for check in self.checks:
            case = f"    <testcase classname={name} name={_quoted(f'assertion: {check.assertion}')}"
            reason = f"      <skipped message={_quoted(check.reason)}/>\n    </testcase>\n"
            yield f"{case}/>\n" if check.has_passed else f"{case}>\n{reason}"
        yield "  </testsuite>\n"


def _suites(parts: Iterator[Findings], most: int | None) -> Sequence[_Suite]:
    """One suite for each path, in the order in which the inputs were read."""
    suites: dict[str, _Suite] = {}
    for part in parts:
        found = part.groups[: most or None]
        for path in (*part.paths, *(group.worst.path for group in found)):
            suites.setdefault(path, _Suite(path))
        for group in found:
            suites[group.worst.path].found.append(group)
        for check in part.checks:
            suites.setdefault(check.path, _Suite(check.path)).checks.append(check)
    return tuple(suites.values())


def _finding(group: Group) -> Iterator[str]:
    """A case that fails if the group does; a failed assertion has the same name as a passed one.

    The text lists all findings of the group.
    """
    each = group.worst
    place = each.position
    at = f":{place.line}:{place.column}" if place else ""
    name = (each.instruction or "") if place else each.name
    case = f"{each.code}{at} {name}".rstrip()
    if each.expectation is not None:
        case = f"assertion: {each.expectation}"
    yield f"    <testcase classname={_quoted(each.path)} name={_quoted(case)}>\n"
    remark = f" ({group.remark})" if group.remark else ""
    places = group.found[1:] if len(group.found) > 1 else ()
    words = _words(f"{each.where}: {group.message}{remark}", each.hint, places)
    if not group.fails:
        yield f"      <system-out>{words}</system-out>\n    </testcase>\n"
        return
    kind = f"{each.severity} {each.code}"
    yield f"      <failure type={_quoted(kind)} message={_quoted(group.message)}>{words}</failure>\n"
    yield "    </testcase>\n"


def _unread_cases(errors: Sequence[Diagnostic]) -> Iterator[str]:
    if not errors:
        return
    yield f'  <testsuite name="{stopped_by(errors[0])}" tests="{len(errors)}" failures="0" errors="{len(errors)}">\n'
    for each in errors:
        name = _quoted(each.source.name if each.source is not None else "-")
        place = each.position
        at = f":{place.line}:{place.column}" if place else ""
        words = _words(f"{each.source.name}{at}: {each.message}" if each.source and at else each.message, each.hint)
        yield f'    <testcase classname={name} name="{stopped_by(each)}{at}">\n'
        yield f"      <error message={_quoted(each.message)}>{words}</error>\n    </testcase>\n"
    yield "  </testsuite>\n"


def _words(message: str, hint: str | None, more: Sequence[Finding] = ()) -> str:
    """A message as the text of an element, with the hint and more findings on lines of their own."""
    lines = [message, *([f"help: {hint}"] if hint else []), *(f"{each.where}: {each.message}" for each in more)]
    return _quoted(*lines)[1:-1]


def _quoted(*lines: str) -> str:
    """Lines as an attribute, without characters that XML cannot represent."""
    return quoteattr("\n".join(map(sanitize, lines)), {'"': "&quot;"})


# --- SARIF ---
# Findings as SARIF 2.1.0, which GitHub, GitLab, and Visual Studio read.


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT: Final = "hloStructure/v1"


def render_sarif(report: Report, style: Style) -> Iterator[str]:
    """One run, with every enabled rule and a result for each finding.

    >>> import json
    >>> text = "".join(render_sarif(Report("lint", "", parts=(Findings("findings", (), ()),)), Style()))
    >>> json.loads(text)["runs"][0]["results"]
    []
    """
    rules = {rule.code: rule for part in report.parts if isinstance(part, Findings) for rule in part.rules}
    driver: dict[str, Json] = {"name": "hlo", "version": __version__, "rules": [_rule(rule) for rule in rules.values()]}
    index = {code: number for number, code in enumerate(rules)}
    yield f'{{"$schema": {dumps(SCHEMA)},\n "version": "2.1.0",\n "runs": [{{\n'
    yield f'  "tool": {{"driver": {dumps(driver)}}},\n  "columnKind": "unicodeCodePoints",\n'
    yield f'  "invocations": [{dumps(_invocation(report.errors))}],\n  "results": ['
    before = "\n   "
    for part in report.parts:
        for number, each in _numbered(part, style.top) if isinstance(part, Findings) else ():
            yield before + dumps(_result(each, index, number))
            before = ",\n   "
    yield "]}]}\n"


def _numbered(part: Findings, most: int | None) -> Iterator[tuple[int, Finding]]:
    """The findings with the numbers of their groups."""
    numbers = {id(each): number for number, group in enumerate(part.groups, 1) for each in group.found}
    return ((numbers[id(each)], each) for each in part.first(most))


def _invocation(errors: Sequence[Diagnostic]) -> Json:
    """Whether all inputs were checked, and which were not; without it, unreadable inputs would seem to pass."""
    notices: list[Json] = []
    for each in errors:
        words = each.message + (f"\nhelp: {each.hint}" if each.hint else "")
        notice: dict[str, Json] = {"level": "error", "message": {"text": words}}
        if each.source is not None and each.source.name:
            notice["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": _uri(each.source.name)}}}]
        notices.append(notice)
    return {"executionSuccessful": not errors, **({"toolExecutionNotifications": notices} if notices else {})}


def _rule(rule: RuleWords) -> Json:
    found: dict[str, Json] = {
        "id": rule.code,
        "name": "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", rule.name)),
        "shortDescription": {"text": rule.name},
        "fullDescription": {"text": rule.summary},
        "defaultConfiguration": {"level": rule.severity},
    }
    if rule.why or rule.fix:
        found["help"] = {"text": f"Why: {rule.why}\nHow to fix: {rule.fix}"}
    if rule.reference.startswith("https://"):
        found["helpUri"] = rule.reference.split(";")[0]
    return found


def _result(each: Finding, index: Mapping[str, int], group: int) -> Json:
    message = each.message + (f"\nhelp: {each.hint}" if each.hint else "")
    result: dict[str, Json] = {
        "ruleId": each.code,
        "level": each.severity,
        "message": {"text": message},
        "locations": [_location(each)],
        "partialFingerprints": {FINGERPRINT: each.identity},
    }
    if each.code in index:
        result["ruleIndex"] = index[each.code]
    properties: dict[str, Json] = {"group": group}
    if each.cost_bytes is not None:
        properties |= {"costBytes": each.cost_bytes, "executions": each.executions}
    if each.seconds is not None:
        properties["seconds"] = each.seconds
    if each.measured is not None:
        properties["measuredSeconds"] = each.measured.seconds
    return result | {"properties": properties}


def _location(each: Finding) -> Json:
    place: dict[str, Json] = {"artifactLocation": {"uri": _uri(each.path)}}
    if each.source is not None and each.span is not None:
        start, end = (each.source.position(at) for at in (each.span.start, each.span.end))
        place["region"] = {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        }
    location: dict[str, Json] = {"physicalLocation": place}
    if each.name:
        location["logicalLocations"] = [{"fullyQualifiedName": each.name, "kind": "function"}]
    return location


def _uri(path: str) -> str:
    """A path as a SARIF artifact URI: relative paths unchanged, others as file: URIs."""
    escaped = quote(path.replace("\\", "/"), errors="surrogateescape")
    return f"file://{escaped}" if path.startswith("/") else escaped
