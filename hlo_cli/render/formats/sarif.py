"""Findings as SARIF 2.1.0, which GitHub, GitLab, and Visual Studio read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from hlo_cli._version import __version__
from hlo_cli.render.formats.json import dumps
from hlo_cli.render.machine import Json
from hlo_cli.render.style import Style
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Findings, RuleWords
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT: Final = "hloStructure/v1"


def render(report: Report, style: Style) -> Iterator[str]:
    """One run, with every enabled rule and a result for each finding.

    >>> import json
    >>> text = "".join(render(Report("lint", "", parts=(Findings("findings", (), ()),)), Style()))
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
