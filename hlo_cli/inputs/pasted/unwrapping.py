"""What surrounds HLO in logs, terminals, pages, and strings, and is taken off; line numbers stay.

Protobufs that are no modules are recognized here as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Final

from hlo_cli.inputs.forms import ELF
from hlo_cli.inputs.logs import BEGINNING, HEAD, WIDEST
from hlo_cli.inputs.pasted.envelopes import ENVELOPES, PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.wire import VARINT, Field, WireError, all_bytes, field_span_at, number_in, read_fields

# --- prefixes of lines ---
# Lines without what surrounds them in logs, messages, and terminals; line numbers stay.


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
    r"|E[ ]{3,7}|[ ]{2,8}\|[ ]|\((?:[\w. -]{1,80} )?pid=[^)\n]{0,80}\) ?|\[rank[0-9]++\]: ?)++",
    re.MULTILINE,
)
_COLORS = lazy_regex(_COLOR)
_SUFFIX = lazy_regex(rf"(?<!\r)(?:(?<! ) *\[repeated [0-9]++x[^\]\n]*+\]|{_COLOR}|\r)++$", re.MULTILINE)
_ENTITY = lazy_regex(r"&(?:gt|lt|quot|amp|#39|#x27|nbsp);")
_FENCE = lazy_regex(r"^[ \t>]*+(?:```|~~~)[ \w+\-.{}=]{0,40}+$", re.MULTILINE)
_FENCED = lazy_regex(r"^[ \t]*+```(?=HloModule |ENTRY |ROOT |%)|(?<=[\]})])```[ \t]*+$", re.MULTILINE)
_QUOTE = lazy_regex(r"^(?:[ ]{0,3}>(?!>> )(?<!>>>)[ ]?)++", re.MULTILINE)
_WRITTEN_LINE = lazy_regex(r"^[ \t]*+[^\s]", re.MULTILINE)
_LEAST_QUOTED = 0.5  # in a mail, answers stand between quoted lines; HLO itself has no line that begins with `>`
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
    is_quoted = len(_QUOTE.findall(text)) >= _LEAST_QUOTED * len(_WRITTEN_LINE.findall(text))
    return _QUOTE.sub("", text) if is_quoted else text


# --- screens and documents ---
# Text copied from a screen, a page, or a document: its characters, line numbers, and lines that a terminal wrapped.


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
_SAME_CHARACTERS: Final = 8
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
    if not _MARGIN.search(head) or len(_LEFT_MARGIN.findall(head)) < _LEAST_BARRED * len(_WRITTEN_LINE.findall(head)):
        return text
    return _RIGHT_MARGIN.sub("", _LEFT_MARGIN.sub("", text))


def without_line_numbers(text: str) -> str:
    r"""The text without the numbers that an editor, `cat -n`, or `grep -n` puts before each line.

    >>> without_line_numbers("  8 | a = f32[] add(b, c)\n  9 | d = f32[] add(a, a)\n 10 | e = f32[] add(d, d)\n")
    'a = f32[] add(b, c)\nd = f32[] add(a, a)\ne = f32[] add(d, d)\n'
    """
    head = text[:HEAD]
    numbers = [int(match[1]) for match in _NUMBER.finditer(head)]
    if len(numbers) < 2 or len(numbers) < _LEAST_NUMBERED * len(_WRITTEN_LINE.findall(head)):
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
    if len(one) != width or one[:_SAME_CHARACTERS] == other[:_SAME_CHARACTERS]:
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


# --- strings of programs ---
# Text inside of strings: what Python, JSON, and shells print of a text with line breaks.


_STRING = lazy_regex(
    r"""(?<!\\)("(?:[^"\\\n]|\\.){12,}+"|'(?:[^'\\\n]|\\.){12,}+')""",
    re.DOTALL,
)
_HLO = lazy_regex(r"(?:^|\n)[ \t]*+(?:HloModule |ENTRY |(?:ROOT )?%?[A-Za-z_][\w.\-]*+ = )|%[\w.\-]++ = ")
_HEADER_IN_STRING = lazy_regex(r"[\"'][ ]{0,40}HloModule (?:[^\\\n\"']|\\(?!n)[^\n]){1,20000}+(?:\\n){1,4}+[\"']")
_LINE_IN_STRING = lazy_regex(r"(?<!\\)[\"']((?:[^\"'\\\n]++|\\(?!n)[^\n]|'(?![,\n]))*+(?:\\n){1,4}+)[\"']")
_BYTES = lazy_regex(
    r"""^(?:[ \t>]|Out\[[0-9]{1,5}\]:)*+(b(?:"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+'))[ \t]*+$""", re.MULTILINE
)
_IN_BYTES: Final = ("b'\\n", 'b"\\n', "b'HloModule ", 'b"HloModule ')
"""How literals of modules begin: a proto's first field, or a text."""
_LONGEST_QUOTED = 1 << 26  # a bound on the time and the copies that a text full of quotes takes
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = lazy_regex(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def decoded_strings(text: str) -> str | None:
    """The HLO inside of the strings of a text, joined by line breaks; None if no string holds HLO.

    >>> decoded_strings(repr("HloModule m\\n\\nENTRY e {\\n}"))
    'HloModule m\\n\\nENTRY e {\\n}'
    >>> decoded_strings('{"args": {"long_name": "%a = f32[] add(%b, %c)"}}')
    '%a = f32[] add(%b, %c)'
    """
    if len(text) > _LONGEST_QUOTED or not ('"' in text or "'" in text):
        return None
    if (lines := _lines_in_strings(text)) is not None:
        return lines
    strings = [inner for inner in _strings(text) if _HLO.search(inner)]
    return "\n".join(strings) if strings else None


def _lines_in_strings(text: str) -> str | None:
    """The lines of a module that a text holds as one string each; None if it has none."""
    if _HEADER_IN_STRING.search(text) is None:
        return None
    lines = [unescaped(match[1]) for match in _LINE_IN_STRING.finditer(text)]
    return "".join(lines) if len(lines) > 1 else None


def bytes_literal(text: str) -> bytes | None:
    """The bytes of the first literal that Python printed on a line of its own, such as a serialized module.

    >>> bytes_literal(f"in:\\n{b'HloModule m'!r}\\n")
    b'HloModule m'
    """
    if len(text) > _LONGEST_QUOTED or not any(mark in text for mark in _IN_BYTES):
        return None
    match = _BYTES.search(text)
    if match is None:
        return None
    from ast import literal_eval  # rarely needed

    with suppress(ValueError, SyntaxError, MemoryError):  # all that `ast.literal_eval` raises for damaged literals
        value = literal_eval(match[1])
        return value if isinstance(value, bytes) else None
    return None


def unescaped(text: str) -> str:
    r"""The text with escapes replaced, as in a string that lost its quotes.

    >>> unescaped(r"HloModule m\nENTRY e {\n}")
    'HloModule m\nENTRY e {\n}'
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[0])


def _strings(text: str) -> Iterator[str]:
    for match in _STRING.finditer(text):
        yield unescaped(match[1][1:-1])


# --- the relevant parts ---
# The relevant parts of a very long text: what is near a message or an instruction.


_LONGEST_WHOLE: Final = 1 << 20  # a log of this size is read whole in 0.03 s (measured)
# What all envelopes and patterns run over; the last messages of a log are those that count.
_LONGEST_READ: Final = 3 << 20
_AROUND: Final = 1 << 16  # a table of buffers after a message, and the traceback before it, fit
_HUGE: Final = 1 << 24  # each mark is one pass: all of them take 0.7 s at this size (measured), above few are searched
STEMS: Final = (
    "RESOURCE_EXHAUSTED",
    "ut of memory",
    "an out of ",
    "onstant folding an",
    "nvoluntary full",
    "RET_CHECK",
    "HloModule ",
)
"""The marks that are searched in a text of more than 16 MiB, with instructions in its last 16 MiB."""
_INSTRUCTION: Final = lazy_regex(r" = \(?[a-z]\w{0,16}\[[0-9,]{0,200}\]|HloModule |^ENTRY ", re.MULTILINE)


def relevant_parts(text: str) -> str:
    """The text, or of a longer one than 1 MiB the last 3 MiB of what is near messages and instructions.

    The other lines become blank, so that line numbers stay.

    >>> relevant_parts("step 1\\n"), len(relevant_parts("step 1\\n" * 1_000_000).strip())
    ('step 1\\n', 65536)
    """
    if len(text) <= _LONGEST_WHOLE:
        return text
    size, spans = 0, list[tuple[int, int]]()
    for place in reversed(_marks(text)):
        end = min(place + _AROUND, spans[-1][0]) if spans else place + _AROUND
        start = max(0, place - _AROUND)
        if start < end:
            spans.append((text.rfind("\n", 0, start) + 1, end))
            size += end - start
        if size > _LONGEST_READ:
            break
    return _blanked(text, spans[::-1] or [(0, _AROUND)])


def _message_marks() -> Iterator[str]:
    """The words of messages; documents are read whole, and some of their words are in any log."""
    return (mark for envelope in ENVELOPES if not envelope.is_document for mark in envelope.marks)


def _marks(text: str) -> list[int]:
    places = {0}
    for mark in STEMS if len(text) > _HUGE else _message_marks():
        place = text.find(mark)
        while place >= 0:
            places.add(place)
            place = text.find(mark, place + _AROUND)
    place = 0 if len(text) <= _HUGE else max(0, len(text) - _HUGE)
    while (match := _INSTRUCTION.search(text, place)) is not None:
        places.add(match.start())
        place = match.start() + _AROUND
    return sorted(places)


def _blanked(text: str, kept: list[tuple[int, int]]) -> str:
    parts, at = list[str](), 0
    for start, end in kept:
        parts += ("\n" * text.count("\n", at, start), text[start:end])
        at = end
    return "".join(parts)


# --- protobufs that are no modules ---
# The first field of a module, of what holds one, and of a trace is a message that begins with text, a message, or an id
# before a name; that of the files here is a list of numbers.


_FIRST: Final = 0x0A  # the tag of field 1, with a length
_PROFILE_TYPES: Final = (b"allocations", b"space")
"""What a device memory profile measures (xla/python/py_client.cc)."""


def recognized_bytes(data: bytes, name: str) -> PastedText | None:
    """A device memory profile of JAX, or XLA's memory usage report as a protobuf; None for anything else.

    >>> recognized_bytes(b"\\n\\x05jit_f", "m.pb") is None
    True
    """
    if data.startswith(ELF):
        return PastedText("object-file", name, "", data=data)
    with suppress(WireError):
        tag, start, end = field_span_at(data, 0, len(data))
        if tag != _FIRST or start == end or data[start] & 7 != VARINT:
            return None
        if all(kind in data for kind in _PROFILE_TYPES):
            return PastedText("memory-profile", name, "", data=data)
        if text := _usage_report(read_fields(data)):
            return PastedText("memory-report", name, text)
    return None


def _usage_report(fields: list[Field]) -> str:
    """The text of a memory usage report: each allocation has its own; empty for what is none.

    The color of a space is a number here, and its name is not in the file.
    """
    parts = list[str]()
    for space in map(read_fields, all_bytes(fields, 1)):
        numbers = dict(space)
        total, color = number_in(numbers, 1), number_in(numbers, 2)
        name = f"memory-{color}" if color else "default"
        tables = [text for entry in all_bytes(space, 3) for text in all_bytes(read_fields(entry), 6)]
        if not tables:
            return ""
        parts.append(f"Memory Space: {name} (color={color})\nTotal bytes: {total} ({total}B)\n")
        parts += (f"{table.decode('utf-8', 'replace')}\n" for table in tables)
    return "".join(parts)
