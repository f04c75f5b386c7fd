"""How are errors, findings, and notes shown: the message, the quoted line with carets, and help?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hlo_cli.render.draw.prose import fill, painter
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, shorten_text, take, take_last
from hlo_cli.report.numbers import format_count
from hlo_cli.report.text import Line, Role, Run
from hlo_cli.source import SEVERITIES, Diagnostic, Severity, Source, Span

# --- the quoted line ---
# A quoted source line, cut to the screen around its span, with carets below.


TAB = " " * 4  # narrower than a terminal's 8, as carets below count cells
CARET = "^"
MIN_ROOM = 16  # on a narrower screen a quoted line is cut by the terminal, not to nothing


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


# --- messages ---
# Errors, findings, and notes for standard error: message, quoted line with carets, and help.


MAX_DIAGNOSTICS = 20  # about a screen; the first errors cause the others, and all are counted
MAX_NOTES = 3  # notes come before the answer's end and must not push it off the screen; --verbose shows all
MAX_MESSAGE_LENGTH = 2000  # a screen full: a message that quotes a compiler may have many MB
COMMAND = "hlo "
COLORS: dict[Severity, Role] = {"error": "alarm", "warning": "waste", "note": "quiet"}


def render_diagnostics(
    diagnostics: Iterable[Diagnostic], style: Style, *, most: int = MAX_DIAGNOSTICS, summary: str = ""
) -> Iterator[str]:
    r"""The diagnostics, at most `most` of them, and a line that counts them all if there are several or a `summary`.

    >>> from hlo_cli.source import Source, Span
    >>> error = Diagnostic("error", "no root", Source("m.hlo", "HloModule m\nENTRY e {}"), Span(18, 19), "mark a ROOT")
    >>> print("".join(render_diagnostics([error], Style(), summary="the rest was read")), end="")
    error: no root
      m.hlo:2:7
      │
    2 │ ENTRY e {}
      │       ^
      help: mark a ROOT
    1 error; the rest was read
    """
    paint = painter(color=style.color)
    left = iter(diagnostics)
    shown = list(islice(left, most))
    for diagnostic in shown:
        for line in diagnostic_lines(diagnostic, style):
            yield paint(line) + "\n"
    counts = Counter(each.severity for each in shown)
    more = Counter(each.severity for each in left)
    if more:
        yield paint((Run(f"{style.dots} and {more.total():,} more", "quiet"),)) + "\n"
    counts += more
    if counts.total() > 1 or summary:
        total = ", ".join(format_count(number, f"{severity}s") for severity, number in counts.items())
        words = "; ".join(part for part in (total, style.show(summary)) if part)
        for line in _broken((Run(words),), style.room, style):
            yield paint(line) + "\n"


def render_notes(notes: Sequence[Diagnostic], style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The notes: at most three unless `verbose`, and equal notes once with their count; warnings come first.

    A fourth note is shown: a line that counts it would take as much room.

    >>> notes = [Diagnostic("note", f"attribute {name} kept as text") for name in "abcdea"]
    >>> print("".join(render_notes(notes, Style())), end="")
    note: attribute a kept as text (2 times)
    note: attribute b kept as text
    note: attribute c kept as text
    note: 2 more notes; use --verbose to show all
    """
    paint = painter(color=style.color)
    ordered = sorted(notes, key=lambda note: SEVERITIES.index(note.severity))
    times = Counter((note.severity, _note(note)) for note in ordered)
    shown = len(times) if verbose or len(times) == MAX_NOTES + 1 else MAX_NOTES
    for (severity, text), number in islice(times.items(), shown):
        again = f" ({number:,} times)" if number > 1 else ""
        role = "quiet" if severity == "note" else COLORS[severity]
        words = (Run(f"{severity}:", role), Run(f" {_message(text, style)}{again}"))
        for line in _broken(words, style.prose_room, style):
            yield paint(line) + "\n"
    if len(times) > shown:
        more = format_count(len(times) - shown, "more notes")
        yield paint((Run("note:", "quiet"), Run(f" {more}; use --verbose to show all"))) + "\n"


def diagnostic_lines(
    diagnostic: Diagnostic, style: Style, *, details: str = "", is_quoted: bool = True, program: Line | None = None
) -> Iterator[Line]:
    """The lines of one diagnostic: message, details, place, quotation, help; without text, the place is a name.

    `program` is the line of the user's program that it is about.
    """
    role = COLORS[diagnostic.severity]
    head = " ".join(part for part in (diagnostic.severity, style.show(diagnostic.code)) if part)
    message = (Run(f"{head}:", role), Run(f" {_message(diagnostic.message, style)}", "strong"))
    yield from _broken(message, style.room, style)
    if program is not None:
        yield (Run("  "), *program)
    source, span, named = diagnostic.source, diagnostic.span, diagnostic.name
    if source is not None and source.name and (span is not None or named or source.name not in diagnostic.message):
        place = diagnostic.position
        where = f":{place.line}:{place.column}" if place else style.show(f":{named}" if named else "")
        at = f"{style.show(source.name)}{where}"
        if details and len(details) + len(at) + 5 <= style.room:
            details, at = "", f"{style.show(details)} · {at}"
        yield from ((Run("  "), *line) for line in _details(details, style))
        yield (Run(f"  {at}"),)
    else:
        yield from ((Run("  "), *line) for line in _details(details, style))
    if source is not None and span is not None and is_quoted:
        yield from quotation(source, span, style, role)
    if diagnostic.hint:
        yield from ((Run("  "), *line) for line in _help(diagnostic.hint, style))


def _details(details: str, style: Style) -> Iterator[Line]:
    yield from _broken((Run(style.show(details)),), style.room - 2, style) if details else ()


def _help(hint: str, style: Style) -> Iterator[Line]:
    """The lines of a hint; a command stays on one line, so that it can be pasted."""
    line = (Run("help:", "saving"), Run(f" {_message(hint, style)}"))
    yield from (line,) if hint.startswith(COMMAND) else _broken(line, style.room - 2, style)


def _broken(line: Line, room: int, style: Style) -> Iterator[Line]:
    """A message broken into lines between words; unbroken if a program reads it."""
    return fill(line, room, whole=True) if style.wraps else iter((line,))


def _note(note: Diagnostic) -> str:
    place, hint = note.position, f"; {note.hint}" if note.hint else ""
    if note.source is None or place is None:
        return note.message + hint
    return f"{note.message} ({note.source.name}:{place.line}){hint}"


def _message(text: str, style: Style) -> str:
    return style.show(shorten_text(text[: MAX_MESSAGE_LENGTH + 1], MAX_MESSAGE_LENGTH))
