"""How is a figure cut to a screen, and how is a quoted text broken above the explanations of its parts?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hlo_cli.render.draw.cells import GAP, Entry, fit, in_words, lane_of, row_line
from hlo_cli.render.draw.prose import cut_line, fill, text_lines
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, pad, shorten_name
from hlo_cli.report.figure import Anatomy, Break, Explanation, Figure, Segment, letter
from hlo_cli.report.table import Column
from hlo_cli.report.text import Line, Role, Run, line_of, plain_text

# --- figures ---
# Their lines, cut to the width of the screen.


def lines_of_figure(figure: Figure, style: Style) -> Iterator[Line]:
    """The title and the lines of a figure, drawn for the width of the screen.

    >>> from hlo_cli.report.figure import fixed
    >>> from hlo_cli.report.text import plain_text
    >>> [plain_text(line) for line in lines_of_figure(Figure("tile", fixed("│ 0 ·1 │")), Style(ascii=True))]
    ['| 0 .1 |']
    """
    if figure.title:
        yield from text_lines(figure.title, style)
    for line in figure.draw(style.room):
        shown = tuple(Run(style.show_figure(run.text), run.role) for run in line)
        yield cut_line(shown, style.room, style.dots)


# --- anatomies ---
# The quotation, broken so that no underline wraps, then a line for every part.


Quoted = list[Segment]
MIN_MEANING_WIDTH = 12  # about two words a line: narrower, meanings are columns of single words


def lines_of_anatomy(anatomy: Anatomy, style: Style) -> Iterator[Line]:
    """The quotation with underlines and letters, a blank line, and the explanations.

    >>> from hlo_cli.report.text import plain_text
    >>> parts = (Segment("f32", 0), Segment("["), Segment("3,5", 1), Segment("]{"), Segment("1,0", 2), Segment("}"))
    >>> rows = (Explanation(0, "type", "f32", "4 bytes an element"), Explanation(2, "order", "1 0", "row-major"))
    >>> for line in lines_of_anatomy(Anatomy("shape", parts, rows), Style()): print(plain_text(line))
    f32[3,5]{1,0}
    ─┬─ ─┬─  ─┬─
     a   b    c
    <BLANKLINE>
    a type   f32  4 bytes an element
    c order  1 0  row-major
    """
    for quoted in _quoted_lines(anatomy.segments, style):
        yield tuple(Run(segment.text, _role(segment.part)) for segment in quoted)
        if any(segment.part is not None for segment in quoted):
            yield from _underlines(quoted, style)
    if anatomy.explanations:
        yield ()
        yield from _explanations(anatomy, style)


def _quoted_lines(segments: Iterable[Segment], style: Style) -> list[Quoted]:
    """The segments in lines: one if they fit, else broken where the segments allow it or it is needed."""
    shown = [replace(each, text=shorten_name(style.show(each.text), style.room, style.dots)) for each in segments]
    shown = [segment for segment in shown if segment.text]
    if _width(shown) <= style.room:
        return [shown]
    lines: list[Quoted] = [[]]
    for atom in _atoms(shown, Break.MAY):
        current = lines[-1]
        if current and (atom[0].break_before == Break.SHOULD or _width(_trimmed(current + atom)) > style.room):
            lines.append([])
        for segment in atom:
            if lines[-1] and _width(_trimmed([*lines[-1], segment])) > style.room:
                lines.append([])
            lines[-1].append(segment)
    return [trimmed for line in lines if (trimmed := _trimmed(line))]


def _atoms(segments: Quoted, at_least: Break) -> list[Quoted]:
    atoms: list[Quoted] = []
    for segment in segments:
        if not atoms or segment.break_before >= at_least:
            atoms.append([])
        atoms[-1].append(segment)
    return atoms


def _trimmed(line: Quoted) -> Quoted:
    kept = list(line)
    while kept and kept[0].part is None and not kept[0].text.strip():
        kept = kept[1:]
    while kept and kept[-1].part is None and not kept[-1].text.strip():
        kept = kept[:-1]
    if kept and kept[0].part is None:
        kept[0] = replace(kept[0], text=kept[0].text.lstrip())
    if kept and kept[-1].part is None:
        kept[-1] = replace(kept[-1], text=kept[-1].text.rstrip())
    return kept


def _width(line: Quoted) -> int:
    return sum(cell_width(segment.text) for segment in line)


def _role(part: int | None) -> Role:
    if part is None:
        return "plain"
    return "odd" if part % 2 else "even"


def _underlines(quoted: Quoted, style: Style) -> Iterator[Line]:
    rules: list[Run] = []
    letters: list[Run] = []
    at = written = 0
    for segment, following in zip(quoted, [*quoted[1:], None], strict=True):
        wide = cell_width(segment.text)
        if segment.part is None:
            rules.append(Run(" " * wide))
        else:
            touches = wide > 1 and following is not None and following.part is not None
            length = wide - 1 if touches else wide
            middle = (length - 1) // 2
            rule = "─" * middle + "┬" + "─" * (length - middle - 1)
            rules += [Run(style.show(rule), _role(segment.part)), Run(" " * (wide - length))]
            name = letter(segment.part)
            start = max(written, min(at + middle, style.room - len(name)))
            letters += [Run(" " * (start - written)), Run(name, _role(segment.part))]
            written = start + len(name)
        at += wide
    yield _stripped(rules)
    yield _stripped(letters)


def _stripped(runs: list[Run]) -> Line:
    kept = list(runs)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return tuple(kept)


def _explanations(anatomy: Anatomy, style: Style) -> Iterator[Line]:
    rows = anatomy.explanations
    letters = max((len(letter(row.part)) + 1 for row in rows if row.part is not None), default=0)
    labels = max(cell_width(style.show(row.label)) for row in rows)
    most = max(8, (style.room - letters - labels - 2 * GAP - MIN_MEANING_WIDTH) // 2)
    deciding = [row for row in rows if row.details] or rows
    values = min(most, max(cell_width(style.show(row.value)) for row in deciding))
    indent = letters + labels + GAP + values + GAP
    detailed = _detailed(anatomy, style, style.room - indent)
    for row in rows:
        head = (
            Run(pad("" if row.part is None else letter(row.part), letters), _role(row.part)),
            Run(pad(style.show(row.label), labels + GAP)),
        )
        yield from _explanation(head, row, values, indent, detailed.get(id(row)), style)


def _explanation(
    head: Line, row: Explanation, values: int, indent: int, detailed: Line | None, style: Style
) -> Iterator[Line]:
    role = _role(row.part)
    value = style.show(row.value)
    meaning = tuple(Run(style.show(run.text), run.role) for run in line_of(row.meaning))
    if detailed is not None:
        yield (*head, Run(pad(shorten_name(value, values, style.dots), values + GAP), role), *detailed)
        return
    over = max(0, cell_width(value) - values)
    if over and over + indent + cell_width(plain_text(meaning)) > style.prose_room:
        room = style.room - indent + values + GAP
        yield (*head, Run(shorten_name(value, room, style.dots), role))
        yield from (
            (Run(" " * indent), *line) for line in fill(meaning, max(style.prose_room - indent, MIN_MEANING_WIDTH))
        )
        return
    first, *others = list(fill(meaning, max(style.prose_room - indent - over, MIN_MEANING_WIDTH))) or [()]
    yield (*head, Run(pad(value, values + over + GAP) if first else value, role), *first)
    for line in others:
        yield (Run(" " * indent), *line)


def _detailed(anatomy: Anatomy, style: Style, room: int) -> dict[int, Line]:
    """The meanings and details of the rows with details, aligned."""
    rows = [row for row in anatomy.explanations if row.details]
    if not rows:
        return {}
    meanings = [Entry("".join(style.show(run.text) for run in line_of(row.meaning))) for row in rows]
    lanes = [lane_of(Column("meaning", "", "shape"), (), meanings)]
    for at, column in enumerate(anatomy.columns):
        cells = [row.details[at] if at < len(row.details) else "" for row in rows]
        lanes.append(lane_of(column, (), [Entry(style.show(in_words(column, cell))) for cell in cells]))
    fitted = fit(lanes, room, label="meaning")
    return {id(row): row_line(fitted, at, style) for at, row in enumerate(rows)}
