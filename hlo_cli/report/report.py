"""The report: the results of a command, for all renderers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, field, replace
from typing import TYPE_CHECKING, TypeAlias

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.displayed import Tabular
from hlo_cli.report.table import Cell, Facts, Table, Tree
from hlo_cli.report.table_meanings import table_names
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:  # each part names its kind, so that kinds that a report does not have are not imported
    from hlo_cli.report.diff import Diff
    from hlo_cli.report.figure import Anatomy, Figure
    from hlo_cli.report.findings import Findings
    from hlo_cli.report.graph import Graph
    from hlo_cli.report.overview import Overview
    from hlo_cli.report.text import Passage
    from hlo_cli.report.timeline import Timeline

Part: TypeAlias = "Table | Tree | Facts | Anatomy | Figure | Findings | Passage | Timeline | Diff | Overview | Graph"


@dataclass(frozen=True, slots=True)
class Report(Tabular):
    """An answer in one sentence, its numbers, and the parts that support it.

    `next` are commands to run next, `notes` remarks on the inputs, `errors` the inputs that could not be read, and
    `input` describes what was read.

    >>> report = Report("layout", "no padding in 3 values", numbers={"values": 3, "padding_bytes": 0})
    >>> report.schema
    'hlo.layout/2'
    """

    command: str
    answer: str
    _: KW_ONLY
    version: int = 2
    numbers: Mapping[str, Cell] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    next: tuple[str, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    input: Mapping[str, Cell] = field(default_factory=dict)

    def __repr__(self) -> str:
        return text_in_brackets(self, self.command, self.answer)

    @property
    def schema(self) -> str:
        """The name and version of the JSON output; the version grows when a field changes its meaning."""
        return f"hlo.{self.command}/{self.version}"

    @property
    def seen_parts(self) -> tuple[Part, ...]:
        """The parts shown to people: none for machines alone, and none without rows, changes, or findings."""
        return tuple(part for part in self.parts if _is_seen(part))

    @property
    def parts_with_rows(self) -> tuple[Part, ...]:
        """The parts that are tables or can become one."""
        return tuple(part for part in self.parts if _has_rows(part))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The parts that are tables or can become one, as tables."""
        return tuple(table for part in self.parts_with_rows if (table := part.as_table()) is not None)

    @property
    def has_findings(self) -> bool:
        """Whether it has lint findings, which have their own formats."""
        return any(part.kind == "findings" for part in self.parts)

    @property
    def has_graph(self) -> bool:
        """Whether it has a graph, which has its own formats."""
        return any(part.kind == "graph" for part in self.parts)

    @property
    def main_table(self) -> Table:
        """The table for row formats: the first main one, else the rows of the first part that has rows."""
        part = self._main_part
        if part is None:
            raise HloError("this report has no table rows", hint="use --format json")
        return _main_table_of(part)

    @property
    def _main_part(self) -> Part | None:
        parts = self.parts_with_rows
        return next((part for part in parts if _is_main(part)), parts[0] if parts else None)

    def only(self, name: str, *, as_rows: bool) -> Report:
        """The report with only the part of that name, which `--sort`, `--columns`, and `--top` then apply to.

        With `as_rows`, a part of another kind becomes a table. HloError if no part of that name has rows; a table of
        other reports of the command is not unknown, but missing.

        >>> Report("diff", "No difference").only("changes", as_rows=True)
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: this report has no tables
        """
        parts = {part.name: part for part in self.parts_with_rows}
        if not parts:
            raise HloError("this report has no tables")
        if name not in parts and name in table_names(self.command):
            raise HloError(f"this report has no table '{name}'", hint=f"available: {', '.join(parts)}")
        if name not in parts:
            raise unknown_choice_error("table", name, parts)
        part = parts[name]
        chosen = replace(_main_table_of(part), person=True) if as_rows or part.kind == "table" else part
        return replace(self, parts=(chosen,))

    def arrange(self, *, columns: Iterable[str] = (), sort: str | None = None) -> Report:
        """The report with its main table sorted and reduced to the given columns; a part of another kind becomes one.

        A minus before the name of the sort column reverses the order.

        >>> Report("schedule", "No async operations").arrange(sort="bytes")
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: this report has no table, so --columns and --sort do not apply
        """
        wanted = tuple(columns)
        if not wanted and sort is None:
            return self
        found = self._main_part
        if found is None:
            raise HloError("this report has no table, so --columns and --sort do not apply")
        table = _main_table_of(found)
        arranged = table if sort is None else table.sort(sort.removeprefix("-"), reverse=sort.startswith("-"))
        arranged = arranged.select(wanted) if wanted else arranged
        return replace(self, parts=tuple(arranged if part is found else part for part in self.parts))


def _has_rows(part: Part) -> bool:
    """Whether a part can be a table; a timeline of totals alone cannot."""
    if part.kind == "timeline":
        return any(track.bands for track in part.tracks)
    return part.kind not in ("figure", "overview", "passage")


def _is_main(part: Part) -> bool:
    """Whether row formats, `--sort`, and `--columns` prefer this part to those before it."""
    return part.kind in ("findings", "graph", "tree") or (part.kind == "table" and part.main)


def _main_table_of(part: Part) -> Table:
    table = part.as_table()
    assert table is not None
    return table if table.main else replace(table, main=True)


def _is_seen(part: Part) -> bool:
    if part.kind == "diff":
        return bool(part.hunks)
    if part.kind == "findings":
        return bool(part.found)
    if part.kind == "timeline":
        return part.person
    return part.kind != "table" or bool(part.person and part.rows)
