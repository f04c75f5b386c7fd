"""The static part of interactive pages: what can be read without a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.web.markup import safe, short
from hlo_cli.report.numbers import format_bytes, format_part
from hlo_cli.report.overview import Gauge, Overview, Section, Tone, Verdict
from hlo_cli.report.report import Report

SIGNS: Final[dict[Tone, str]] = {"good": "✓", "warning": "▲", "bad": "✕", "neutral": ""}
"""The sign of a verdict, so that its color is not needed to tell it."""

_MOST_GAUGES: Final = 3
_COMMANDS: Final = {
    "report": ("hlo memspace", "hlo schedule", "hlo fuse", "hlo layout", "hlo lint"),
    "graph": ("hlo graph --format svg", "hlo graph --format tree", "hlo parse --tree"),
}


def verdict_list(overview: Overview) -> str:
    """The verdicts as a list of links to their sections.

    >>> import re
    >>> verdict = Verdict("Memory", "good", "Fits v5e", section="memory", gauges=(Gauge("HBM", 1 << 30, 4 << 30),))
    >>> markup = verdict_list(Overview("overview", "", "", (verdict,), ()))
    >>> print(re.sub("<[^>]*>", "", markup))
    <BLANKLINE>
    Memory ✓ Fits v5e
    HBM  1 of 4 GiB
    <BLANKLINE>
    >>> 'href="#memory"' in markup, "width:25%" in markup
    (True, True)
    """
    if not overview.verdicts:
        return ""
    return "\n".join(('<ul class="verdicts">', *map(_verdict, overview.verdicts), "</ul>"))


def navigation(sections: tuple[Section, ...]) -> str:
    """The links to the sections, in a bar to which scripts add their controls."""
    links = "".join(f'<a href="#{safe(section.key)}">{safe(section.title)}</a>' for section in sections)
    return f'<nav id="nav" aria-label="Sections"><div><div class="links">{links}</div></div></nav>'


def section_skeleton(section: Section) -> str:
    """A section with its title and sentence; scripts add its controls and what it shows.

    >>> print(section_skeleton(Section("padding", "Padding", "No padding.")))
    <section id="padding" aria-labelledby="padding-title">
    <div class="lead"><h2 id="padding-title">Padding</h2><p>No padding.</p></div></section>
    """
    key = safe(section.key)
    title = f'<h2 id="{key}-title">{safe(section.title)}</h2>'
    lead = f'<div class="lead">{title}<p>{safe(section.sentence)}</p></div>'
    return f'<section id="{key}" aria-labelledby="{key}-title">\n{lead}</section>'


def script_notice(kind: str) -> str:
    """For readers without scripts: the commands that print what the page would draw.

    >>> script_notice("graph")[:60]
    '<noscript><p>Charts and tables on this page need JavaScript.'
    """
    commands = ", ".join(f"<code>{command}</code>" for command in _COMMANDS[kind])
    text = f"Charts and tables on this page need JavaScript. These commands print the same numbers: {commands}."
    return f"<noscript><p>{text}</p></noscript>"


def ending(report: Report) -> Iterator[str]:
    """The notes about the reading of the dump."""
    yield '<footer id="foot">\n'
    for note in report.notes:
        yield f"<p>{safe(note.severity)}: {safe(note.message)}</p>\n"
    yield "</footer>\n"


def _verdict(verdict: Verdict) -> str:
    tone = verdict.tone
    sign = f'<span class="sign" role="img" aria-label="{tone}">{SIGNS[tone]}</span> ' if SIGNS[tone] else ""
    headline = f"<strong>{sign}{safe(verdict.headline)}</strong>"
    gauges = _gauges(verdict.gauges)
    sentence = f'\n<span class="sentence">{safe(verdict.sentence)}</span>' if verdict.sentence else ""
    title = f'<span class="title">{safe(verdict.title)}</span>'
    return f'<li class="{tone}"><a href="#{safe(verdict.section)}">{title} {headline}{gauges}{sentence}</a></li>'


def _gauges(gauges: tuple[Gauge, ...]) -> str:
    """The gauges with limits, else the first ones; the section has the others."""
    limited = tuple(gauge for gauge in gauges if gauge.limit_bytes is not None)
    shown = (limited or gauges)[:_MOST_GAUGES]
    return f'\n<span class="gauges">{"".join(map(_gauge, shown))}</span>' if shown else ""


def _gauge(gauge: Gauge) -> str:
    """A name, a track, and the numbers; without a limit there is nothing to fill."""
    name = f"<span>{safe(gauge.name)}</span>"
    if gauge.limit_bytes is None:
        return f'<span class="gauge">{name} <span></span> <span>{format_bytes(gauge.used_bytes)}</span></span>'
    share = min(100.0, 100 * gauge.used_bytes / max(1, gauge.limit_bytes))
    over = ' class="over"' if gauge.used_bytes > gauge.limit_bytes else ""
    track = f'<span class="track"><span{over} style="width:{short(share)}%"></span></span>'
    return f'<span class="gauge">{name} {track} <span>{format_part(gauge.used_bytes, gauge.limit_bytes)}</span></span>'
