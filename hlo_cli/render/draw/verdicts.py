"""How is it shown what matters most: the verdicts of an overview, and the groups of findings with their costs?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.render.draw.diagnostics import TAB, diagnostic_lines
from hlo_cli.render.draw.prose import fill
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, shorten_text
from hlo_cli.report.findings import Finding, Findings, Group
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds, format_shown
from hlo_cli.report.overview import Overview, Tone, Verdict
from hlo_cli.report.text import Line, Role, Run

# --- overviews ---
# The facts, and for each verdict its sign, title, headline, and sentence.


SIGNS: Final[dict[Tone, str]] = {"good": "✓", "warning": "▲", "bad": "✕", "neutral": "·"}
_ROLES: Final[dict[Tone, Role]] = {"good": "saving", "warning": "waste", "bad": "alarm", "neutral": "plain"}
_BETWEEN: Final = "  "


def lines_of_overview(overview: Overview, style: Style) -> Iterator[Line]:
    """The lines of an overview, without its title, which begins the answer.

    >>> from hlo_cli.report.text import plain_text
    >>> verdict = Verdict("Memory", "good", "Fits v5e: 1.8 of 15.8 GiB", "HBM needs 1.8 GiB.", section="memory")
    >>> overview = Overview("overview", "jit_step on TPU v5e", "4,619 instructions", (verdict,), ())
    >>> for line in lines_of_overview(overview, Style()): print(plain_text(line))
    4,619 instructions
    <BLANKLINE>
    ✓  Memory  Fits v5e: 1.8 of 15.8 GiB
               HBM needs 1.8 GiB.
    """
    yield from fill((Run(style.show(overview.details), "quiet"),), style.prose_room)
    yield ()
    wide = max((cell_width(style.show(verdict.title)) for verdict in overview.verdicts), default=0)
    for verdict in overview.verdicts:
        yield from _verdict(verdict, wide, style)


def _verdict(verdict: Verdict, wide: int, style: Style) -> Iterator[Line]:
    sign, title = style.show(SIGNS[verdict.tone]), style.show(verdict.title)
    begin = Run(f"{sign}{_BETWEEN}", _ROLES[verdict.tone]), Run(f"{title:<{wide}}{_BETWEEN}")
    indent = cell_width("".join(run.text for run in begin))
    headline = fill((Run(style.show(verdict.headline), "strong"),), style.prose_room - indent)
    sentence = fill((Run(style.show(verdict.sentence)),), style.prose_room - indent) if verdict.sentence else iter(())
    for at, line in enumerate((*headline, *sentence)):
        yield (*(begin if not at else (Run(" " * indent),)), *line)


# --- findings ---
# The groups that matter most, each with its cost, its place, and help, and the rest counted.


MAX_GROUPS = 10  # each finding has three or four lines: ten are about a screen


def lines_of_findings(findings: Findings, style: Style) -> Iterator[Line]:
    """The first groups: errors first, then those that cost most; with a verbose style, all findings of each.

    The text of the dump is quoted for findings about its form, and for others if the style is verbose: what they
    waste is seen in the cost. The line of the user's program is quoted wherever it is at hand.
    """
    names, hints = {rule.code: rule.name for rule in findings.rules}, set[str]()
    for group in _shown(findings, style):
        # One change may be the fix of several groups, such as donating all arguments; an assertion has its own reason.
        hint = "as above" if group.worst.hint in hints and not group.worst.expectation else group.worst.hint
        head = replace(group.worst, message=group.message, hint=hint)
        hints.add(group.worst.hint or "")
        is_quoted = style.verbose or group.cost_bytes is None
        details = _details(group, findings.share((group,)), names, findings.measured_per)
        program = _program_line(group.worst, style)
        yield from diagnostic_lines(head, style, details=details, is_quoted=is_quoted, program=program)
        if style.verbose and len(group.found) > 1:
            yield from (_member(each, group.code, style) for each in group.found)


def footer_of_findings(findings: Findings, style: Style) -> tuple[str, ...]:
    """The number of shown groups, unless all are shown, what the rest costs, and what is folded."""
    shown, own = _shown(findings, style), findings.own_groups
    lines: list[str] = []
    if hidden := own[len(shown) :]:
        rest = sum(group.cost_bytes or 0 for group in hidden)
        part = findings.share(hidden)
        share = f" ({format_percent(part)}%)" if part is not None else ""
        lines += [f"{format_count(len(hidden), 'more groups')}: {format_bytes(rest)}{share}"] if rest else []
        lines.append(format_shown(len(shown), len(own), "groups"))
    if style.top != 0 and (words := findings.folded_words):
        lines.append(f"{words}; use --top 0 to show them")
    return tuple(lines)


def _shown(findings: Findings, style: Style) -> tuple[Group, ...]:
    """The groups that are shown; those of libraries are folded, unless all groups are asked for."""
    listed = findings.groups if style.top == 0 else findings.own_groups
    return listed[: style.rows_shown(MAX_GROUPS, len(listed))]


def _program_line(found: Finding, style: Style) -> Line | None:
    """The line of the user's program, with its place; None if it is not at hand."""
    if not found.line or found.location is None:
        return None
    place = found.location.replace("\\", "/").rpartition("/")[2]
    begin = f"{style.show(place)} {style.show('│')} "
    text = style.show(found.line.replace("\t", TAB))
    room = style.room - cell_width(f"  {begin}")
    return Run(begin, "quiet"), Run(shorten_text(text, room, style.dots) if style.wraps else text)


def _details(group: Group, part: float | None, names: dict[str, str], per: str) -> str:
    """The cost of a group, its share in the total, the measured time, and the other rules on its values."""
    share = f" ({format_percent(part)}%)" if part is not None else ""
    also = [
        f"also {code} {names.get(code, '')}".rstrip() + (f" ({cost})" if (cost := group.larger_cost_of(code)) else "")
        for code in group.other_codes
    ]
    costs = [f"costs {group.cost}{group.cost_time}{share}"] if group.cost else []
    if group.measured_seconds is not None:
        costs.append(f"measured {format_seconds(group.measured_seconds)} {per}")
    return " · ".join([*costs, *also])


def _member(each: Finding, code: str, style: Style) -> Line:
    """One finding of a group: its place, its instruction, and its cost."""
    rule = f"{each.code} " if each.code != code else ""
    cost = f"  {format_bytes(each.cost_bytes)}" if each.cost_bytes else ""
    name = f"  {each.instruction}" if each.instruction and each.position is not None else ""
    return (Run(f"    {rule}{style.show(each.where)}{style.show(name)}{cost}", "quiet"),)
