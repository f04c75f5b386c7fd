"""Findings as JUnit XML, for CI servers: one suite for each input, one case for each group or assertion.

Notes do not fail, as with the exit code; an unreadable input is an error, not a passing case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from xml.sax.saxutils import quoteattr

from hlo_cli.dataclass import dataclass
from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Check, Findings, stopped_by
from hlo_cli.report.groups import Group
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic


def render(report: Report, style: Style) -> Iterator[str]:
    """The document; an input without findings has one passing case.

    >>> print("".join(render(Report("lint", "", parts=(Findings("findings", (), (), ("a.txt",)),)), Style())), end="")
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
    yield from _unread(errors)
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
        return sum(group.severity != "note" for group in self.found)

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
    """A case that fails, unless it is a note; a failed assertion has the same name as a passed one.

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
    if each.severity == "note":
        yield f"      <system-out>{words}</system-out>\n    </testcase>\n"
        return
    kind = f"{each.severity} {each.code}"
    yield f"      <failure type={_quoted(kind)} message={_quoted(group.message)}>{words}</failure>\n"
    yield "    </testcase>\n"


def _unread(errors: Sequence[Diagnostic]) -> Iterator[str]:
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
