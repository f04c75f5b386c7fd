"""A quoted source line, cut to the screen around its span, with carets below."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, take, take_last
from hlo_cli.report.text import Line, Role, Run
from hlo_cli.source import Source, Span

TAB = " " * 4
CARET = "^"
MIN_ROOM = 16


def quotation(source: Source, span: Span, style: Style, role: Role) -> Iterator[Line]:
    """The line in which a span begins, and carets under the span; text typed on the command line has no line numbers.

    Only as much of the line is read as the screen can hold, however long it is.

    >>> from hlo_cli.report.text import plain_text
    >>> typed = Source("", "f32[3,5]{2,1,0}")
    >>> for line in quotation(typed, Span(9, 14), Style(), "alarm"): print(plain_text(line))
      f32[3,5]{2,1,0}
               ^^^^^
    """
    position = source.position(span.start)
    number = f"{position.line} " if source.name else ""
    bar = style.show("│")
    blank = f"{' ' * len(number)}{bar} " if source.name else "  "
    room = max(style.room - len(blank), MIN_ROOM)
    before, meant, after = _cut(*_around(source, span, room, style), room, style.dots)
    carets = CARET * max(1, cell_width(meant))
    if source.name:
        yield (Run(blank.rstrip(), "quiet"),)
    yield (Run(f"{number}{bar} " if source.name else blank, "quiet"), Run((before + meant + after).rstrip()))
    yield (Run(blank, "quiet"), Run(" " * cell_width(before)), Run(carets, role))


def _around(source: Source, span: Span, room: int, style: Style) -> tuple[str, str, str]:
    """The text before, in, and after the span, each at most one cell wider than `room`."""
    line_start, line_end = source.line_span(source.position(span.start).line)
    if line_end > line_start and source.text[line_end - 1] == "\r":
        line_end -= 1
    start = min(max(span.start, line_start), line_end)
    end = min(max(span.end, start), line_end)
    reach = room + 1
    before = source.text[max(line_start, start - reach) : start]
    meant = source.text[start : min(end, start + reach)]
    after = source.text[end : min(line_end, end + reach)]
    return _shown(before, style), _shown(meant, style), _shown(after, style)


def _cut(before: str, meant: str, after: str, room: int, dots: str) -> tuple[str, str, str]:
    """The three texts cut to fit `room` together; the span has priority, then the text before it."""
    if not meant and not after:
        room -= len(CARET)  # which is then after the end of the line
    if cell_width(before + meant + after) <= room:
        return before, meant, after
    if cell_width(meant) > room // 2:
        kept = take(meant, room // 2)
        meant, after = kept, dots
    left = room - cell_width(meant)
    after_room = left // 4 if cell_width(before) > left - left // 4 else left - cell_width(before)
    if cell_width(after) > after_room:
        after = take(after, max(0, after_room - len(dots))) + dots
    before_room = left - cell_width(after)
    if cell_width(before) > before_room:
        before = dots + take_last(before, max(0, before_room - len(dots)))
    return before, meant, after


def _shown(text: str, style: Style) -> str:
    return style.show(text.replace("\t", TAB))
