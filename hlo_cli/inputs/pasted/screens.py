"""Text copied from a screen, a page, or a document: its characters, line numbers, and lines that a terminal wrapped."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from hlo_cli.inputs.logs import BEGINNING, HEAD, WIDEST
from hlo_cli.lazy_regex import lazy_regex

_CHARACTERS: Final = {
    **dict.fromkeys(
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
    ),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
    **dict.fromkeys("\u201c\u201d\u201e", '"'),
    "\u2026": "...",
}
"""What web pages and word processors write for the spaces and quotes of ASCII, or add where words may break."""
_TAG: Final = lazy_regex(
    r"</?(?:span|pre|div|code|samp|br|p|b|i|em|strong|a|td|tr|th|table|tbody|font)\b[^<>\n]{0,2000}+>"
)
"""Tags around code on web pages; other words in angle brackets are part of jaxprs and shardings."""
_NUMBER: Final = lazy_regex(
    r"^(?:[\w./\-]{1,200}[:\-])?[ \t]{0,10}+([0-9]{1,7})(?:[:.)|\u2502\t\-]|[ ]{1,4}[|\u2502])(?![ "
    r"]?k[A-Z])[ ]?(?![0-9]{2}[:.])",
    re.MULTILINE,
)
"""The number of a line, after the file that grep names; not that of a thunk (`000: kCopy`), nor the hour of a time."""
_LINE: Final = lazy_regex(r"^[ \t]*+[^\s]", re.MULTILINE)
_LEAST_NUMBERED: Final = 0.75
"""The share of lines with a number: an editor numbers all, but lines that it wrapped and words around have none."""
_MARGIN: Final = lazy_regex(
    r"^(?:[ \t]*+[\u2502\u2503\u2551](?! {0,3}+[\u251c\u2514])|(?:[\w.\-]{1,40}[ ]{1,12})?\|(?![^\n]*\|[ \t]*$))",
    re.MULTILINE,
)
"""A bar that makes lines those of a box or a log: not a branch of a tree, nor a table of Markdown with bars around."""
_LEFT_MARGIN: Final = lazy_regex(
    r"^(?:[ \t]*+[\u2502\u2503\u2551\u250c\u2514\u256d\u2570\u2554\u255a]|(?:[\w.\-]{1,40}[ ]{1,12})?\|)[ ]?",
    re.MULTILINE,
)
"""What is removed: also the corners of the box, and the service that `docker compose` names before its bar."""
_RIGHT_MARGIN: Final = lazy_regex(r"[ \t]*[\u2502\u2503\u2551\u2510\u2518\u256e\u256f]$", re.MULTILINE)
"""The right side of a box; a plain bar may end a line of Markdown, and stays."""
_LEAST_BARRED: Final = 0.6
"""The share of lines with a bar: words around a box have none, and a diagram inside of a text has fewer."""
_NARROWEST: Final = 40
"""Columns of the narrowest terminal: shorter lines that are equally long are lines of a list."""
_PREFIX: Final = 8
"""A length: lines that begin with the same characters are lines of a log or a table."""
_STARTS: Final = lazy_regex(
    r"[ \t]{2}|[ \t]*+(?:$|(?:File|Function)Names|FileLocations|StackFrames|[0-9]++[ ][{\"]|/\*|\{[ ]"
    r"|(?:ROOT[ ]++)?%?[A-Za-z_][\w.\-]*+[ ]=[ ]|HloModule[ ]|ENTRY[ ]|\}[ \t]*+$|//"
    r"|%?[A-Za-z_][\w.\-]*+[ ](?:\([^\n]*)?\{[ \t]*+$|%?[A-Za-z_][\w.\-]*+[ ]\([^\n]*(?:->|:[ ]))"
)
"""How lines of XLA begin: such a line is not the rest of the one before it."""


def plain_characters(text: str) -> str:
    """The text with the spaces and quotes of ASCII, and without invisible characters and tags of HTML.

    >>> plain_characters("%a\u00a0= f32[8] add(%b, %c), metadata={op_name=\u201cx\u201d}\u200b")
    '%a = f32[8] add(%b, %c), metadata={op_name="x"}'
    >>> plain_characters('<span class="n">%a</span> = f32[]'), plain_characters("add(%b, \u2026)")
    ('%a = f32[]', 'add(%b, ...)')
    """
    if not text.isascii():
        for character, plain in _CHARACTERS.items():
            text = text.replace(character, plain)
    return _TAG.sub("", text) if "</" in text else text


def without_margins(text: str) -> str:
    r"""The text without the bars that Julia's logs, boxes, and `docker compose` put before or around each line.

    >>> boxed = "\u250c Info: m\n\u2502 a = f32[] add(b, c)\n\u2502 d = f32[] add(a, a)\n\u2514 @ Main b.jl:3\n"
    >>> without_margins(boxed).split("\n")[1:3]
    ['a = f32[] add(b, c)', 'd = f32[] add(a, a)']
    """
    head = text[:HEAD]
    if not any(bar in head for bar in "\u2502\u2503\u2551|"):
        return text
    if not _MARGIN.search(head) or len(_LEFT_MARGIN.findall(head)) < _LEAST_BARRED * len(_LINE.findall(head)):
        return text
    return _RIGHT_MARGIN.sub("", _LEFT_MARGIN.sub("", text))


def without_line_numbers(text: str) -> str:
    r"""The text without the numbers that an editor, `cat -n`, or `grep -n` puts before each line.

    >>> without_line_numbers("  8 | a = f32[] add(b, c)\n  9 | d = f32[] add(a, a)\n 10 | e = f32[] add(d, d)\n")
    'a = f32[] add(b, c)\nd = f32[] add(a, a)\ne = f32[] add(d, d)\n'
    """
    head = text[:HEAD]
    numbers = [int(match[1]) for match in _NUMBER.finditer(head)]
    if len(numbers) < 2 or len(numbers) < _LEAST_NUMBERED * len(_LINE.findall(head)):
        return text
    rising = sum(later > earlier for earlier, later in pairwise(numbers))
    return _NUMBER.sub("", text) if rising >= _LEAST_NUMBERED * (len(numbers) - 1) else text


def rejoined_lines(text: str) -> str:
    """The text with the lines that a terminal broke at its width joined; line breaks follow, so that lines stay.

    >>> wide = "%add.1 = f32[128,256]{1,0} add(f32[128,256]{1,0} %a, f32[128,256]{1,0} %b), metadata={}"
    >>> wrapped = chr(10).join((wide[:50], wide[50:], wide[:50], wide[50:]))
    >>> rejoined_lines(wrapped).split() == f"{wide} {wide}".split()
    True
    """
    lines = text.split("\n")
    width = max(map(len, lines))
    if not _NARROWEST <= width <= WIDEST or not _is_wrapped(lines, width):
        return text
    parts = [lines[0]]
    waiting = 0
    for one, other in pairwise(lines):
        if _goes_on(one, other, width):
            waiting += 1
        else:
            parts.append("\n" * (waiting + 1))
            waiting = 0
        parts.append(other)
    return "".join(parts) + "\n" * waiting


def _goes_on(one: str, other: str, width: int) -> bool:
    """Whether a line is as wide as the terminal and the next one neither is a line of HLO nor has the same prefix."""
    if len(one) != width or one[:_PREFIX] == other[:_PREFIX]:
        return False
    return one.count("{") > one.count("}") if other.rstrip() == "}" else not _STARTS.match(other)


def _is_wrapped(lines: list[str], width: int) -> bool:
    """Whether a line of a module, or two of any, are as long as the longest line and go on in the next line."""
    broken = [one for one, other in pairwise(lines) if _goes_on(one, other, width)]
    return len(broken) > 1 or any(
        "HloModule " in line or (" = " in line and line.count("{") > line.count("}")) for line in broken
    )


def is_wrapped_module(text: str) -> bool:
    """Whether a terminal broke a line in the beginning of a module; a dump is told from it at little cost.

    >>> is_wrapped_module("HloModule jit_f, is_scheduled=true, entry_computati\\non_layout={()->f32[8]{0}}\\n\\n")
    True
    >>> is_wrapped_module("HloModule jit_f, is_scheduled=true\\n\\nENTRY e {\\n")
    False
    """
    lines = text[:BEGINNING].split("\n")[:-1]
    width = max(map(len, lines), default=0)
    if not _NARROWEST <= width <= WIDEST:
        return False
    return any(_goes_on(one, other, width) for one, other in pairwise(lines))
