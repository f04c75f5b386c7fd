"""Raw values for machines: cells as JSON values and as fields of text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from hlo_cli.render.style import Style
from hlo_cli.report.table import Cell, Column, Row, Table, is_missing
from hlo_cli.source import Diagnostic

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


_FORMULA: Final = frozenset("=+-@\t\r＝＋－＠")
"""Characters that begin a formula in a spreadsheet, by OWASP's page on CSV injection."""


def json_value(cell: Cell) -> Json:
    """A cell as JSON; null if it is missing or unknown, so that a number field never holds text.

    >>> from hlo_cli.report.table import UNKNOWN
    >>> [json_value(cell) for cell in ((2, 3), None, UNKNOWN, float("inf"), {"tile": (2, 2)})]
    [[2, 3], None, None, None, {'tile': [2, 2]}]
    """
    match cell:
        case int() | str() | None:  # most cells
            return cell
        case tuple():
            return [json_value(part) for part in cell]
        case Mapping():
            return {key: json_value(part) for key, part in cell.items()}
        case float() if not math.isfinite(cell):
            return None
        case float():
            return cell
        case _:
            return None


def field_of(cell: Cell, absent: str = "") -> str:
    """A cell as a text field: "?" if it is unknown, `absent` if it does not apply.

    >>> from hlo_cli.report.table import UNKNOWN
    >>> [field_of(cell, "-") for cell in ((2, 3), None, UNKNOWN, True, 2883584, {"tile": (2, 2)})]
    ['2,3', '-', '?', 'true', '2883584', '{"tile": [2, 2]}']
    """
    if cell is None:
        return absent
    if is_missing(cell):
        return "?"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        return f"{cell:d}" if isinstance(cell, int) else float.__repr__(cell)
    if isinstance(cell, tuple) and not any(isinstance(part, tuple | Mapping) for part in cell):
        return ",".join(map(field_of, cell))
    import json

    return json.dumps(json_value(cell), allow_nan=False)


def spreadsheet_field(cell: Cell) -> str:
    """A cell as a field for spreadsheets, in which a text that would run as a formula begins with `'` (OWASP).

    >>> [spreadsheet_field(cell) for cell in ('=HYPERLINK("http://x")', "@dot", -5, "-", "-0.5", "fusion.1", None)]
    ['\\'=HYPERLINK("http://x")', "'@dot", '-5', '-', '-0.5', 'fusion.1', '']
    """
    field = field_of(cell)
    return f"'{field}" if runs_in_spreadsheets(cell, field) else field


def runs_in_spreadsheets(cell: Cell, field: str) -> bool:
    """Whether a spreadsheet takes a field for a formula: a text that begins like one, and is not a number."""
    if isinstance(cell, int | float) or field[:1] not in _FORMULA or len(field) < 2:
        return False
    try:
        float(field)
    except ValueError:
        return True
    return False


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns for machine formats."""
    return tuple(table.columns[at] for at in table.visible(person=False))


def rows_of(table: Table, style: Style) -> Iterator[Row]:
    """The rows for machine formats: all, unless the user limited the rows of the main table."""
    visible = table.visible(person=False)
    rows = table.rows[: style.top] if style.top and table.main else table.rows
    for row in rows:
        yield tuple(row[at] for at in visible)


def diagnostic_value(note: Diagnostic) -> Json:
    """A note or an error as JSON, its end after its last character; missing fields are omitted.

    >>> diagnostic_value(Diagnostic("note", "2 attributes kept as text"))
    {'severity': 'note', 'message': '2 attributes kept as text'}
    """
    value: dict[str, Json] = {"severity": note.severity, "message": note.message}
    if note.code:
        value["code"] = note.code
    if note.source:
        value["path"] = note.source.name
    if note.position:
        value |= {"line": note.position.line, "column": note.position.column}
    elif note.name:
        value |= {"instruction": note.instruction, "computation": note.computation}
    if note.source and note.span:
        end = note.source.position(note.span.end)
        value |= {"end_line": end.line, "end_column": end.column}
    if note.hint:
        value["hint"] = note.hint
    return value
