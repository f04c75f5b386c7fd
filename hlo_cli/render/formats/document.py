"""What is a report as a document to send on: Markdown, or one self-contained page?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hlo_cli.render.draw.cells import cell_text, writing_of
from hlo_cli.render.draw.diffs import unified_lines
from hlo_cli.render.formats.screen import part_lines
from hlo_cli.render.style import Style
from hlo_cli.render.web.interactive import interactive_page, memory_page, memory_timeline_of
from hlo_cli.render.web.markup import encoded
from hlo_cli.render.web.page import page
from hlo_cli.report.diff import Diff
from hlo_cli.report.findings import Findings
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import CODE_UNITS, Cell, Column, Table
from hlo_cli.report.text import Passage, Text, line_of, plain_text

# --- Markdown ---
# Complete tables with units in the header, drawings as fenced blocks.


DRAWING_WIDTH = 100  # about what GitHub shows of a code block without scrolling
_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")


def render_md(report: Report, style: Style) -> Iterator[str]:
    r"""The answer in bold, the parts, and the next commands as code.

    >>> from hlo_cli.report.table import Column
    >>> columns = (Column("padded_bytes", "padded", "bytes"), Column("shape", "shape", "shape"))
    >>> report = Report("layout", "Half is padding", parts=(Table("shapes", columns, ((2048, "f32[3]{0}"),)),))
    >>> print("".join(render_md(report, Style())), end="")
    **Half is padding**
    <BLANKLINE>
    | padded (B) | shape |
    | ---: | :--- |
    | 2,048 | `f32[3]{0}` |
    """
    yield from [f"**{words(report.answer, style)}**\n"] if report.answer else []
    begun = bool(report.answer)
    for part in report.seen_parts:
        yield "\n" if begun else ""
        begun = True
        yield from _part(part, style)
    if report.next:
        yield "\nNext:\n\n"
        yield from _fenced("sh", list(map(style.show, report.next)))


def words(text: Text, style: Style) -> str:
    r"""Prose with only names marked.

    >>> from hlo_cli.report.text import Run
    >>> print(words((Run("fusion.2", "name"), " in order {1,0}"), Style()))
    `fusion.2` in order {1,0}
    """
    return "".join(
        code(run.text, style) if run.role == "name" else _MARKS.sub(r"\\\1", style.show(run.text))
        for run in line_of(text)
    )


def code(text: str, style: Style) -> str:
    """Text as code, in more backquotes than it contains; bars are escaped for tables.

    >>> code("a|b", Style())
    '`a\\\\|b`'
    """
    shown = style.show(text).replace("|", "\\|")
    longest = max((len(ticks) for ticks in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"`{shown}`"


def _part(part: Part, style: Style) -> Iterator[str]:
    match part:
        case Table():
            yield from _table(part, style)
        case Findings():
            is_folded = bool(part.folded_words) and style.top != 0
            shown = part.own_groups if is_folded else part.groups
            yield from _table(part.groups_table(person=True, among=shown), style) if shown or not is_folded else ()
            gap = "\n" if shown else ""
            yield from [f"{gap}{words(part.folded_words, style)}; use --top 0 to show them\n"] if is_folded else []
        case Passage():
            yield from [f"{words(part.title, style)}\n\n"] if part.title else []
            yield "\n\n".join(words(each, style) for each in part.paragraphs) + "\n"
        case Diff():
            yield from [f"{words(part.title, style)}\n\n"] if part.title else []
            lines = unified_lines(part.first(style.top or part.changes))
            yield from _fenced("diff", list(map(style.show, lines)))
        case _:
            drawing = Style(DRAWING_WIDTH, ascii=style.ascii, top=0)
            yield from _fenced("text", [plain_text(line) for line in part_lines(part, drawing)])


def _fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines unchanged, between more backquotes than any of them contains."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`{3,}", line)), default=2)
    fence = "`" * (longest + 1)
    yield f"{fence}{language}\n" + "".join(f"{line}\n" for line in lines) + f"{fence}\n"


def _table(table: Table, style: Style) -> Iterator[str]:
    if table.title:
        yield f"{words(table.title, style)}\n\n"
    visible = table.visible(person=True)
    rows = table.rows[: style.top] if style.top and table.main else table.rows
    columns = [table.columns[at] for at in visible]
    written = [_cells(table.columns[at], [row[at] for row in rows], table.alike(at, rows), style) for at in visible]
    yield _row([title for title, _ in written])
    yield _row(["---:" if column.is_right_aligned else ":---" for column in columns])
    for cells in zip(*(texts for _, texts in written), strict=True):
        yield _row(cells)


def _cells(column: Column, cells: Sequence[Cell], alike: Sequence[Cell], style: Style) -> tuple[str, list[str]]:
    writing = writing_of(column, cells, alike)
    title = " ".join(part for part in (column.group, column.title) if part)
    unit = f" ({writing.unit})" if writing.unit and title else writing.unit
    as_code = column.unit in CODE_UNITS
    texts = [
        code(cell, style) if as_code and isinstance(cell, str) and cell else words(cell_text(cell, writing), style)
        for cell in cells
    ]
    return words(title, style) + unit, texts


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |\n"


# --- HTML ---
# One self-contained page: answer, charts, tables, and drawings.
#
# Its security policy allows only the page's own script, by its hash, even if text from a dump were not escaped.


WHOLE = 250  # the width from which no column is omitted


def render_html(report: Report, style: Style) -> Iterator[str]:
    r"""The page, line by line.

    >>> written = "".join(render_html(Report("diff", "No <difference>", next=("hlo parse a",)), Style()))
    >>> written[written.index("<main>"):written.index("<script>")]
    '<main>\n<pre class="quiet" tabindex="0" role="group" aria-label="Next commands">next: hlo parse a</pre>\n</main>\n'
    """
    overview = next((part for part in report.parts if part.kind == "overview"), None)
    graph = next((part for part in report.parts if part.kind == "graph"), None)
    if overview is not None:
        lines = interactive_page(report, "report", overview.title, overview.details)
    elif graph is not None:
        lines = interactive_page(report, "graph", graph.title, graph.details)
    elif (timeline := memory_timeline_of(report)) is not None:
        lines = memory_page(report, timeline, Style(width=WHOLE, top=style.top))
    else:
        lines = page(report, Style(width=WHOLE, top=style.top))
    for line in lines:
        yield encoded(line, ascii=style.ascii)
