"""Markup: text from a dump escaped for SVG and HTML, and short numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.truncate import shorten_name
from hlo_cli.report.text import Run


def safe(text: str) -> str:
    r"""A text as content or as the value of an attribute; control characters are escaped.

    >>> print(safe("<script>\x1b'\""))
    &lt;script&gt;\x1b&#x27;&quot;
    """
    return escape(sanitize(text))


def shortened(name: str, length: int) -> str:
    r"""A name as it is shown, without its middle if it is longer than `length` characters, which escapes count for.

    >>> shortened("a\x1b" * 9, 10), shortened("fusion.2", 10)
    ('a\\x1ba…x1b', 'fusion.2')
    """
    return shorten_name(sanitize(name), length)


def safe_lines(lines: Sequence[str]) -> str:
    """Lines as the content of an element, with line breaks only between them.

    >>> safe_lines(["a<b", "c"])
    'a&lt;b\\nc'
    """
    return "\n".join(map(safe, lines))


def spans(line: Iterable[Run], tag: str = "span") -> str:
    """The runs of a line, each with its role as its class.

    >>> spans((Run("fusion.2", "name"), Run(" is big")))
    '<span class="name">fusion.2</span> is big'
    """
    return "".join(
        safe(run.text) if run.role == "plain" else f'<{tag} class="{run.role}">{safe(run.text)}</{tag}>' for run in line
    )


def short(value: float) -> str:
    """A coordinate to a tenth, without a zero fraction.

    >>> short(12.04), short(12.55), short(-0.01)
    ('12', '12.6', '0')
    """
    tenths = int(value * 10 + (0.5 if value > 0 else -0.5))
    whole, rest = divmod(abs(tenths), 10)
    return ("-" if tenths < 0 else "") + str(whole) + (f".{rest}" if rest else "")


def encoded(text: str, *, ascii: bool) -> str:
    """Markup for output: with `ascii`, other characters as numeric references.

    >>> encoded("<p>32 × 11</p>", ascii=True)
    '<p>32 &#215; 11</p>'
    """
    return text.encode("ascii", "xmlcharrefreplace").decode() if ascii else text
