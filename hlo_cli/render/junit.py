"""Findings as the XML of JUnit, which every CI server shows: one suite an input, one case a finding.

Notes do not fail, as they do not with the exit code; what could not be read is an error, not a case that passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import quoteattr

from hlo_cli.render.clean import clean
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings, ReportedFinding
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic


def render(report: Report, style: Style) -> Iterator[str]:
    """The document; an input without a finding has one case, which passes.

    >>> print("".join(render(Report("lint", "", parts=(Findings("findings", (), (), ("a.txt",)),)), Style())), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="hlo lint" tests="1" failures="0">
      <testsuite name="a.txt" tests="1" failures="0">
        <testcase classname="a.txt" name="no findings"/>
      </testsuite>
    </testsuites>
    """
    by_path: dict[str, list[ReportedFinding]] = {}
    for part in report.parts:
        if isinstance(part, Findings):
            by_path |= {path: [] for path in part.paths}
            for each in part.found:
                by_path.setdefault(each.path, []).append(each)
    errors = report.errors
    tests = sum(max(1, len(found)) for found in by_path.values()) + len(errors)
    more = f' errors="{len(errors)}"' if errors else ""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="hlo lint" tests="{tests}" failures="{sum(map(_failures, by_path.values()))}"{more}>\n'
    for path, found in by_path.items():
        yield from _suite(path, found)
    yield from _unread(errors)
    yield "</testsuites>\n"


def _suite(path: str, found: Sequence[ReportedFinding]) -> Iterator[str]:
    name = _quoted(path)
    yield f'  <testsuite name={name} tests="{max(1, len(found))}" failures="{_failures(found)}">\n'
    if not found:
        yield f'    <testcase classname={name} name="no findings"/>\n'
    for each in found:
        diagnostic = each.diagnostic
        place = diagnostic.position
        at = f":{place.line}:{place.column}" if place else ""
        case = _quoted(f"{diagnostic.code}{at} {each.instruction or ''}".rstrip())
        yield f"    <testcase classname={name} name={case}>\n"
        help_line = f"\nhelp: {diagnostic.hint}" if diagnostic.hint else ""
        words = _quoted(f"{path}{at}: {diagnostic.message}", help_line)[1:-1]
        if diagnostic.severity == "note":
            yield f"      <system-out>{words}</system-out>\n    </testcase>\n"
            continue
        kind = f"{diagnostic.severity} {diagnostic.code}"
        yield f"      <failure type={_quoted(kind)} message={_quoted(diagnostic.message)}>{words}</failure>\n"
        yield "    </testcase>\n"
    yield "  </testsuite>\n"


def _failures(found: Sequence[ReportedFinding]) -> int:
    return sum(each.diagnostic.severity != "note" for each in found)


def _unread(errors: Sequence[Diagnostic]) -> Iterator[str]:
    if not errors:
        return
    yield f'  <testsuite name="cannot be read" tests="{len(errors)}" failures="0" errors="{len(errors)}">\n'
    for each in errors:
        name = _quoted(each.source.name if each.source is not None else "-")
        yield f'    <testcase classname={name} name="cannot be read">\n'
        yield f"      <error message={_quoted(each.message)}/>\n    </testcase>\n"
    yield "  </testsuite>\n"


def _quoted(text: str, line: str = "") -> str:
    """A text as an attribute, without the characters that XML has no way to write."""
    return quoteattr(clean(text) + line.replace(line[1:], clean(line[1:])), {'"': "&quot;"})
