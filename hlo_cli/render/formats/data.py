"""What do programs read: the report as one JSON object, or its main table as JSON lines, CSV, or with tabs?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import chain

from hlo_cli.render.machine import Json, columns_of, diagnostic_value, field_of, json_value, rows_of, spreadsheet_field
from hlo_cli.render.style import Style, sanitize
from hlo_cli.report.diff import Diff, DiffLine
from hlo_cli.report.figure import Anatomy, Figure, letter
from hlo_cli.report.findings import Findings
from hlo_cli.report.graph import Graph
from hlo_cli.report.overview import Overview
from hlo_cli.report.report import Report
from hlo_cli.report.table import Facts, Row, Table, Tree
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.report.timeline import Timeline
from hlo_cli.source import Diagnostic

# --- JSON ---
# One object, with a schema, raw numbers, and every row.


FIGURE_ROOM = 80  # an output for programs does not depend on the terminal: the usual width


def render_json(report: Report, style: Style) -> Iterator[str]:
    r"""The object, one row per line. Parts other than tables have their own keys, named by their kind.

    Trees are tables with the depth of every row; the buffers of timelines are tables too.

    >>> "".join(render_json(Report("diff", "No difference", numbers={"changes": 0}), Style()))
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


# --- JSON lines ---
# The rows of the main table, one per line.


def render_jsonl(report: Report, style: Style) -> Iterator[str]:
    r"""One object for each row; its keys are the names of the columns.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("shapes", (Column("shape", "shape", "shape"), Column("count", "n", "count")), (("f32[3]", 2),))
    >>> list(render_jsonl(Report("layout", "no padding", parts=(table,)), Style()))
    ['{"shape": "f32[3]", "count": 2}\n']
    """
    table = report.main_table
    names = [column.name for column in columns_of(table)]
    for row in rows_of(table, style):
        record = {name: json_value(cell) for name, cell in zip(names, row, strict=True)}
        yield json.dumps(record, allow_nan=False) + "\n"


# --- CSV ---
# The main table: a header with the names of the columns, then raw values.


def render_csv(report: Report, style: Style) -> Iterator[str]:
    r"""One record for each row; an empty field does not apply, `?` is unknown. Control characters are escaped.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("shapes", (Column("shape", "shape", "shape"), Column("count", "n", "count")), (("f32[3,5]", 2),))
    >>> list(render_csv(Report("layout", "no padding", parts=(table,)), Style()))
    ['shape,count\n', '"f32[3,5]",2\n']
    """
    table = report.main_table
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    header = [column.name for column in columns_of(table)]
    field = spreadsheet_field if style.spreadsheet else field_of
    for record in chain((header,) if style.header else (), rows_of(table, style)):
        writer.writerow([sanitize(field(cell)) for cell in record])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


# --- tabs ---
# The main table with tabs between the fields: a header with the names of the columns, then raw values.


def render_tsv(report: Report, style: Style) -> Iterator[str]:
    r"""One record for each row, never quoted: control characters, including tabs, are escaped.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("values", (Column("value", "value", "name"), Column("count", "n", "count")), (("add.1", None),))
    >>> list(render_tsv(Report("layout", "no padding", parts=(table,)), Style()))
    ['value\tcount\n', 'add.1\t\n']
    """
    table = report.main_table
    header = [column.name for column in columns_of(table)]
    field = spreadsheet_field if style.spreadsheet else field_of
    for record in chain((header,) if style.header else (), rows_of(table, style)):
        yield "\t".join(sanitize(field(cell)) for cell in record) + "\n"
