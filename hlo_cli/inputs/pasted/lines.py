"""Lines without what surrounds them in logs, messages, and terminals; line numbers stay."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

_COLOR: Final = r"\x1b\[[0-9;]*+[A-Za-z]"
_PREFIX = lazy_regex(
    rf"^(?:{_COLOR}|[IWEF][0-9]{{4,8}} [0-9:.]{{8,20}} +[0-9]++ [^\s\]]++\] ?"
    r"|\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9:.,]{8,20}(?:Z|[+-][0-9:]{4,5})?(?: (?:stdout|stderr) [FP](?= |$)"
    r"|[ ]{1,3}-[ ]{1,3}[\w.]{1,80}[ ]{1,3}-[ ]{1,3}(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)[ ]{1,3}-(?= |$)"
    r"|,? (?:\[[\w.]{1,80}\]?)?\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\]?(?= "
    r"[\w./-]{1,200}:[0-9]{1,6}\b| {2}|:)[ :]?)?"
    r"(?:\]|: [IWEF] (?: *[0-9]++ )?[^\s\]]++\])? ?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})? "
    r"|[IWEF] [\w./-]++:[0-9]++\] ?|(?:INFO|WARNING|ERROR|DEBUG)(?::[\w.]{0,40}+)?: ?"
    r"|\[[\w.\-]{1,80}/[\w./\-]{1,120}\](?: |$)"
    r"|[ ]{2,8}\|[ ]|\((?:[\w. -]{1,80} )?pid=[^)\n]{0,80}\) ?|\[rank[0-9]++\]: ?)++",
    re.MULTILINE,
)
_COLORS = lazy_regex(_COLOR)
_SUFFIX = lazy_regex(rf"(?<!\r)(?:(?<! ) *\[repeated [0-9]++x[^\]\n]*+\]|{_COLOR}|\r)++$", re.MULTILINE)
_ENTITY = lazy_regex(r"&(?:gt|lt|quot|amp|#39|#x27|nbsp);")
_FENCE = lazy_regex(r"^[ \t>]*+(?:```|~~~)[ \w+\-.{}=]{0,40}+$", re.MULTILINE)
_FENCED = lazy_regex(r"^[ \t]*+```(?=HloModule |ENTRY |ROOT |%)|(?<=[\]})])```[ \t]*+$", re.MULTILINE)
_QUOTE = lazy_regex(r"^(?:[ ]{0,3}>(?!>> )(?<!>>>)[ ]?)++", re.MULTILINE)
_LINE = lazy_regex(r"^[ \t]*+[^\s]", re.MULTILINE)
_LEAST_QUOTED = 0.5
_RAW_STRING = lazy_regex(r"^[^\n]{0,200}?R\"[a-z]{0,16}\((?=[ \t]*+HloModule )", re.MULTILINE)
_INDENTED_HEADER = lazy_regex(r"^([ \t]++)HloModule [^\n]*+$", re.MULTILINE)


def plain_lines(text: str) -> str:
    """The lines without colors, log prefixes, quote marks, and fences.

    >>> plain_lines("> I0521 12:04:45.883 1509 a.cc:186] %a = f32[] add(%b, %c)")
    '%a = f32[] add(%b, %c)'
    """
    text = _without_quote_marks(without_entities(text))
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", _FENCED.sub("", text))
    text = _PREFIX.sub("", text)
    return _SUFFIX.sub("", text) if any(mark in text for mark in ("[repeated ", "\x1b", "\r")) else text


def without_entities(text: str) -> str:
    """The text with the characters that HTML writes as names, such as `&gt;`.

    >>> without_entities("f -&gt; g")
    'f -> g'
    """
    if _ENTITY.search(text) is None:
        return text
    from html import unescape  # rarely needed

    return unescape(text)


def without_colors(text: str) -> str:
    """The text without the color codes of a terminal.

    >>> without_colors("\\x1b[32mf32\\x1b[0m")
    'f32'
    """
    return _COLORS.sub("", text)


def dedented(text: str) -> str:
    """The text without the indentation of `HloModule`, and without the C++ raw string around it.

    >>> dedented('hlo = R"(\\n  HloModule m\\n  ENTRY e {')
    'hlo = R"(\\nHloModule m\\nENTRY e {'
    """
    text = _RAW_STRING.sub("", text)
    header = _INDENTED_HEADER.search(text)
    return text if header is None else text.replace(f"\n{header[1]}", "\n")


def _without_quote_marks(text: str) -> str:
    """The text without the `>` of quotes, if most of its lines have one."""
    if not (text.startswith(">") or "\n>" in text or "\n >" in text):
        return text
    is_quoted = len(_QUOTE.findall(text)) >= _LEAST_QUOTED * len(_LINE.findall(text))
    return _QUOTE.sub("", text) if is_quoted else text
