"""`--table`: the one table of a report that is written, the list of its tables, and the note about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.shared.io_options import OutputOptions, is_terminal
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.table_meanings import table_meaning
from hlo_cli.source import Diagnostic, HloError

LIST: Final = "help"
"""The value of `--table` that lists the tables."""

_SHEETS: Final = ("csv", "tsv")
_ROW_FORMATS: Final = ("csv", "tsv", "jsonl")


def with_table(report: Report, output: OutputOptions) -> Report:
    """The report reduced to the table that `--table` names, or to a list of its tables; itself without the option.

    >>> report = Report("lint", "", parts=(Table("rules", (Column("code", "rule"),), (("HLO101",),)),))
    >>> with_table(report, OutputOptions(table="help")).main_table.rows
    (('rules', 1, 'rules'),)
    """
    if output.table is None:
        return report
    if output.table == LIST:
        return _list_of(report)
    return report.only(output.table, as_rows=writes_rows(output) or bool(output.columns or output.sort))


def writes_rows(output: OutputOptions) -> bool:
    """Whether the output has only rows: one record a line, of one table."""
    return output.format in _ROW_FORMATS or (output.format == "table" and not output.is_for_person)


def check_table_options(output: OutputOptions, *, has_findings: bool) -> None:
    """Raises HloError for `--no-header`, `--spreadsheet`, and `--table` in a format without headers or tables.

    >>> check_table_options(OutputOptions(format="json", header=False), has_findings=False)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --no-header cannot be used with --format json
    """
    if not output.header and (not writes_rows(output) or output.format == "jsonl"):
        if output.format == "table":
            raise HloError("--no-header requires output to a pipe or a file", hint="use --format tsv or --format csv")
        raise HloError(f"--no-header cannot be used with --format {output.format}")
    if output.spreadsheet and output.format not in _SHEETS:
        raise HloError("--spreadsheet requires --format csv or tsv", hint="use -o FILE.csv")
    if output.table is not None and has_findings and output.format not in ("table", "full"):
        from hlo_cli.render.registry import format_names

        if output.format in format_names("findings"):
            raise HloError(f"--table cannot be used with --format {output.format}")


def other_tables(report: Report, output: OutputOptions) -> Sequence[Diagnostic]:
    """A note that names the tables with rows that a pipe or a row format omits.

    It is for people: written if standard error is a terminal, or with `--verbose`, never into the log of a script.

    >>> tables = tuple(Table(name, (Column("code", "rule"),), (("HLO101",),)) for name in ("findings", "rules"))
    >>> note, = other_tables(Report("lint", "", parts=tables), OutputOptions(format="csv", verbose=True))
    >>> note.message
    'showing table findings; use --table NAME for 1 other table: rules'
    """
    if output.table is not None or not writes_rows(output) or not (is_terminal(2) or output.verbose):
        return ()
    if len(report.parts_with_rows) < 2:
        return ()
    main = report.main_table.name
    others = [table.name for table in report.tables if table.rows and table.name != main]
    if not others:
        return ()
    counted = format_count(len(others), "other tables")
    return (Diagnostic("note", f"showing table {main}; use --table NAME for {counted}: {', '.join(others)}"),)


def formula_note(report: Report, output: OutputOptions) -> Sequence[Diagnostic]:
    """A note on the texts in a csv or tsv file that a spreadsheet would run; a program reads them as they are.

    >>> report = Report("parse", "", parts=(Table("rows", (Column("op_name", "op_name"),), (("=1+1",), ("add",))),))
    >>> formula_note(report, OutputOptions(format="csv", path="x.csv"))[0].message
    '1 text in x.csv begins like a formula, which a spreadsheet runs'
    """
    if output.format not in _SHEETS or output.path is None or output.spreadsheet:
        return ()
    from hlo_cli.render.machine import field_of, rows_of, runs_in_spreadsheets

    rows = rows_of(report.main_table, output.style(1))
    count = sum(runs_in_spreadsheets(cell, field_of(cell)) for row in rows for cell in row if isinstance(cell, str))
    if not count:
        return ()
    verb, pronoun = ("begins", "a formula") if count == 1 else ("begin", "formulas")
    message = f"{format_count(count, 'texts')} in {output.path} {verb} like {pronoun}, which a spreadsheet runs"
    return (Diagnostic("note", message, hint="use --spreadsheet to quote such text"),)


def _list_of(report: Report) -> Report:
    """The tables of a report, the main one first."""
    main = report.main_table.name if report.tables else ""
    columns = (Column("table", "table"), Column("rows", "rows", "count"), Column("content", "content"))
    tables = sorted(report.tables, key=lambda table: table.name != main)
    rows = tuple((table.name, len(table.rows), table_meaning(report.command, table.name)) for table in tables)
    answer = format_count(len(rows), "tables") + (f"; the main table is {main}" if main else "")
    table = Table("tables", columns, rows, noun="tables", limit=0)
    return replace(report, command=f"{report.command}-tables", answer=answer, numbers={}, parts=(table,), next=())
