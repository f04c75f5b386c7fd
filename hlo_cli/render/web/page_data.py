"""A report as the data of a page: the JSON of the report, with texts once, columns in place of records, compressed."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Final

from hlo_cli.render.machine import Json, diagnostic_value, json_value
from hlo_cli.render.sanitize import sanitize
from hlo_cli.report.cell import UNKNOWN, Cell
from hlo_cli.report.column import Column
from hlo_cli.report.findings import Findings
from hlo_cli.report.graph import Graph
from hlo_cli.report.overview import Overview
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.timeline import Timeline
from hlo_cli.report.tree import Tree

TEXT: Final = "text"
TEXTS: Final = "texts"
PLAIN: Final = "plain"


def encoded_data(report: Report) -> str:
    """The data as ASCII that cannot end its element: gzip in base64; the same report gives the same text.

    >>> encoded_data(Report("report", "")) == encoded_data(Report("report", ""))
    True
    """
    text = json.dumps(page_data(report), allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def page_data(report: Report) -> dict[str, Json]:
    """What `js/data.js` reads. `strings` has every text once, sanitized; an unknown number is `"?"`.

    A column of a table has its name, title, unit, and `cells`: with the form `text`, indices into `strings`; with
    `texts`, lists of them; else raw values.

    >>> table = Table("sizes", (Column("value", "value", "name"), Column("bytes", "", "bytes")), (("b", 4),))
    >>> data = page_data(Report("memspace", "It fits", parts=(table,)))
    >>> data["strings"], [column["cells"] for column in data["tables"]["sizes"]["columns"]]
    (['b'], [[0], [4]])
    """
    strings: dict[str, int] = {}
    tables: dict[str, Json] = {}
    timelines: dict[str, Json] = {}
    overview: Json = None
    graph: Json = None
    for part in report.parts:
        if isinstance(part, Overview):
            overview = _clean(json_value(part.data))
        if isinstance(part, Graph):
            graph = _clean(json_value(part.data))
        if isinstance(part, Timeline):
            timelines[part.name] = _clean(json_value(part.data))
        table = part.as_table() if isinstance(part, Table | Tree | Timeline | Findings) else None
        if isinstance(part, Graph):
            table = part.nodes
        elif report.has_graph:
            continue  # the page folds by itself
        if table is not None:
            tables[table.name] = _table(table, strings)
    return {
        "schema": report.schema,
        "input": _clean(json_value(report.input)),
        "answer": sanitize(report.answer),
        "numbers": _clean(json_value(report.numbers)),
        "overview": overview,
        "graph": graph,
        "tables": tables,
        "timelines": timelines,
        "next": [sanitize(line) for line in report.next],
        "notes": [_clean(diagnostic_value(note)) for note in report.notes],
        "strings": list(strings),
    }


def _table(table: Table, strings: dict[str, int]) -> dict[str, Json]:
    rows = list(table.rows)
    columns = [
        _column(column, [row[at] for row in rows], strings) for at, column in enumerate(table.columns)
    ]  # fmt: skip
    return {
        "title": sanitize(table.title),
        "noun": table.noun,
        "rows": len(rows),
        "columns": columns,
    }


def _column(column: Column, cells: list[Cell], strings: dict[str, int]) -> Json:
    form = _form(cells)
    values: list[Json]
    if form == TEXT:
        values = [_index(cell, strings) for cell in cells]
    elif form == TEXTS:
        values = [[_index(each, strings) for each in cell] if isinstance(cell, tuple) else None for cell in cells]
    else:
        values = ["?" if cell is UNKNOWN else _clean(json_value(cell)) for cell in cells]
    described: dict[str, Json] = {"name": column.name, "title": column.title, "unit": column.unit, "form": form}
    if column.group:
        described["group"] = column.group
    if column.total is not None:
        described["total"] = True
    return {**described, "cells": values}


def _form(cells: list[Cell]) -> str:
    if any(isinstance(cell, str) for cell in cells) and all(isinstance(cell, str | None) for cell in cells):
        return TEXT
    if any(cells) and all(isinstance(cell, tuple) and all(isinstance(each, str) for each in cell) for cell in cells):
        return TEXTS
    return PLAIN


def _index(text: Cell, strings: dict[str, int]) -> int | None:
    return strings.setdefault(sanitize(text), len(strings)) if isinstance(text, str) else None


def _clean(value: Json) -> Json:
    """A JSON value with its texts sanitized, keys included."""
    match value:
        case str():
            return sanitize(value)
        case list():
            return [_clean(each) for each in value]
        case dict():
            return {sanitize(key): _clean(each) for key, each in value.items()}
        case _:
            return value
