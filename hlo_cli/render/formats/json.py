"""A report as one JSON object, with a schema, raw numbers, and every row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from hlo_cli.render.machine import Json, columns_of, diagnostic_value, json_value, rows_of
from hlo_cli.render.style import Style
from hlo_cli.report.anatomy import Anatomy, letter
from hlo_cli.report.cell import Row
from hlo_cli.report.diff import Diff, DiffLine
from hlo_cli.report.facts import Facts
from hlo_cli.report.figure import Figure
from hlo_cli.report.findings import Findings
from hlo_cli.report.graph import Graph
from hlo_cli.report.overview import Overview
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.report.timeline import Timeline
from hlo_cli.report.tree import Tree
from hlo_cli.source import Diagnostic

FIGURE_ROOM = 80


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The object, one row per line. Parts other than tables have their own keys, named by their kind.

    Trees are tables with the depth of every row; the buffers of timelines are tables too.

    >>> "".join(render(Report("diff", "No difference", numbers={"changes": 0}), Style()))
    '{"schema": "hlo.diff/2",\n "input": {},\n "answer": {"changes": 0},\n "tables": {},\n "notes": []}\n'
    """
    yield f'{{"schema": {dumps(report.schema)},\n "input": {dumps(json_value(report.input))},\n'
    yield f' "answer": {dumps(json_value(report.numbers))},\n "tables": '
    tables = [
        part.as_table() if isinstance(part, Tree | Timeline | Findings | Graph) else part for part in report.parts
    ]
    yield from _members((table.name, _table(table, style)) for table in tables if isinstance(table, Table))
    for key, members in _others(report).items():
        yield f",\n {dumps(key)}: "
        yield from _members((name, iter((dumps(value),))) for name, value in members.items())
    yield f',\n "notes": {_diagnostics(report.notes)}'
    yield f',\n "errors": {_diagnostics(report.errors)}}}\n' if report.errors else "}\n"


def errors_object(errors: Iterable[Diagnostic]) -> str:
    """The object written instead of a report if the command fails.

    >>> print(errors_object([Diagnostic("error", "no such file")]), end="")
    {"schema": "hlo.error/1",
     "errors": [
      {"severity": "error", "message": "no such file"}]}
    """
    return f'{{"schema": "hlo.error/1",\n "errors": {_diagnostics(errors)}}}\n'


def dumps(value: Json) -> str:
    r"""A value as JSON of ASCII characters only.

    >>> dumps(["\x1b", 1.5])
    '["\\u001b", 1.5]'
    """
    return json.dumps(value, allow_nan=False)


def _diagnostics(diagnostics: Iterable[Diagnostic]) -> str:
    lines = [f"\n  {dumps(diagnostic_value(diagnostic))}" for diagnostic in diagnostics]
    return f"[{','.join(lines)}]"


def _members(members: Iterable[tuple[str, Iterator[str]]]) -> Iterator[str]:
    before = "{"
    for name, value in members:
        yield f"{before}{dumps(name)}: "
        yield from value
        before = ",\n  "
    yield "{}" if before == "{" else "}"


def _table(table: Table, style: Style) -> Iterator[str]:
    columns = columns_of(table)
    described: list[Json] = [
        {"name": column.name, "unit": "fraction" if column.unit == "percent" else column.unit} for column in columns
    ]
    yield f'{{\n   "columns": {dumps(described)},\n   "rows": ['
    before = "\n    "
    for row in rows_of(table, style):
        yield before + dumps(_record([column.name for column in columns], row))
        before = ",\n    "
    yield "]}"


def _record(names: Iterable[str], row: Row) -> dict[str, Json]:
    return {name: json_value(cell) for name, cell in zip(names, row, strict=True)}


def _others(report: Report) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    for part in report.parts:
        match part:
            case Facts():
                found.setdefault("facts", {})[part.name] = _facts(part)
            case Anatomy():
                found.setdefault("anatomies", {})[part.name] = _anatomy(part)
            case Figure():
                found.setdefault("figures", {})[part.name] = json_value(part.data) or _drawing(part)
            case Passage():
                found.setdefault("text", {})[part.name] = [plain_text(line_of(each)) for each in part.paragraphs]
            case Diff():
                found.setdefault("diffs", {})[part.name] = _diff(part)
            case Timeline():
                found.setdefault("timelines", {})[part.name] = json_value(part.data)
            case Overview():
                found.setdefault("overviews", {})[part.name] = json_value(part.data)
            case Graph():
                found.setdefault("graphs", {})[part.name] = json_value(part.data)
            case Table() | Tree() | Findings():
                pass
    return found


def _facts(facts: Facts) -> Json:
    value: dict[str, Json] = {}
    for fact in facts.facts:
        amounts: dict[str, Json] = {amount.name: json_value(amount.value) for amount in fact.amounts}
        value[fact.label] = amounts | ({"note": fact.remark} if fact.remark else {})
    return value


def _anatomy(anatomy: Anatomy) -> Json:
    parts: list[Json] = []
    for each in anatomy.explanations:
        part: dict[str, Json] = {
            "letter": None if each.part is None else letter(each.part),
            "label": each.label,
            "value": each.value,
            "meaning": plain_text(line_of(each.meaning)),
        }
        details = zip((column.name for column in anatomy.columns), each.details, strict=False)
        parts.append(part | {name: json_value(cell) for name, cell in details})
    return {"text": anatomy.text, "parts": parts}


def _diff(diff: Diff) -> Json:
    """The hunks with their context; moved lines are at their new position."""
    hunks: list[Json] = [
        {"computation": hunk.heading or None, "lines": [_diff_line(line) for line in hunk.lines]}
        for hunk in diff.seen.hunks
    ]
    counts: dict[str, Json] = {"unchanged": diff.unchanged, **diff.counts}
    return {"old": diff.old_name, "new": diff.new_name, **counts, "hunks": hunks}


def _diff_line(line: DiffLine) -> Json:
    value: dict[str, Json] = {"change": line.sign.strip() or None, "old_line": line.old_line, "new_line": line.new_line}
    if line.old == line.new:
        return value | {"text": line.text}
    pieces: list[Json] = [{"old": piece.old, "new": piece.new} for piece in line.pieces if piece.is_changed]
    return value | {"old": line.old, "new": line.new} | ({"pieces": pieces} if pieces else {})


def _drawing(figure: Figure) -> Json:
    return [plain_text(line) for line in figure.draw(FIGURE_ROOM)]
