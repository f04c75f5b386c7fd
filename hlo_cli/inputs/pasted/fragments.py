"""The HLO in a text: instructions, heads of computations, and braces; everything else can be blanked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

_NAME = r"[A-Za-z_][\w.\-]*+"
_TYPE = r"(?:[a-z][a-z0-9]*+|B?[FSUC][0-9]{1,3}+)\["
_SHAPE = rf"\([a-z()/]|{_TYPE}|b[ \t]*+\("
_GAP = r"[ \t\n]{0,100}+"
_BLANK = r"[ \t\n]{1,100}+"
_START = lazy_regex(
    rf"(?<![\w.\-%])(?:ROOT{_BLANK})?+"
    rf"(?:%{_NAME}{_GAP}={_GAP}(?:[a-z][\w\-]*+\(|(?={_SHAPE}))|{_NAME}{_BLANK}={_BLANK}(?={_SHAPE}))"
)
_ARRAY = lazy_regex(rf"(?:b[ \t]*+\()?{_TYPE}[^\[\]{{}}().]{{0,2000}}+\]")
_OPCODE = lazy_regex(rf"{_GAP}[a-z][\w\-]*+[ \t]*+(?=\()")
_KEY = lazy_regex(r"[ \t]*+,\s*+[a-z]\w*+=")
_VALUE = lazy_regex(r"[\w.\-+:@<>=/%]++")
_TOKEN = re.compile(r"\"(?:[^\"\\]++|\\.)*+\"|[()\[\]{}]", re.DOTALL)
_LINE = lazy_regex(
    rf"^[ \t]*+(?:(?:HloModule[ \t]|ENTRY\b)[^\n]*+|%?{_NAME}[ \t]++(?:\([^\n]*->[^\n]*)?\{{[ \t]*+"
    rf"|\}}(?:[ \t]*+(?://|,)[^\n]*+)?)[ \t]*+$",
    re.MULTILINE,
)
_COMMA_OR_TOKEN = lazy_regex(rf"{_TOKEN.pattern}|,", re.DOTALL)
_OPENING = "([{"
_BREAK = lazy_regex(r"[ \t]*+\n[ \t]*+")
_WRAP = lazy_regex(r"(?<=[\w,.\[{%\-])(?<!ROOT)\n(?=[\w.\]},%])")
_CAPITALS = lazy_regex(r"(?<![\w.\"%/\-])(?:BF16|F(?:16|32|64)|[SU](?:4|8|16|32|64)|C(?:64|128)|PRED)(?=\[[0-9,]*+\])")
_NAMELESS = lazy_regex(
    r"(?<![\w.\-%=] )(?<![\w.\-%])([a-z][a-z0-9]*+\[[0-9,<=? ]*+\](?:\{[^{}\n]*+\})?+) [a-z][\w\-]*+(?=\()"
)
_SHAPELESS_LINE = (
    rf"[ \t]*+((?:ROOT[ \t]++)?+%?{_NAME}[ \t]++=[ \t]++(?:[a-z]++-[a-z\-]++|add|subtract|multiply|divide|negate"
    r"|copy|tuple|dot|parameter|constant|broadcast|reshape|transpose|reduce|fusion|convert|slice|select|compare|convolution|iota|pad"
    r"|bitcast|call|while|conditional|concatenate|gather|scatter|sort|tanh|exponential|maximum|minimum)\()"
)
_SHAPELESS = lazy_regex(rf"^{_SHAPELESS_LINE}", re.MULTILINE)
_OTHER_LINE = lazy_regex(rf"^(?!{_SHAPELESS_LINE}|[ \t]*$)", re.MULTILINE)
_HEAD = lazy_regex(rf"^[ \t]*+(?:HloModule|ENTRY|%?{_NAME}[ \t]++\()[ \t][^\n]*{{[ \t]*+$", re.MULTILINE)
_PAIR = {")": "(", "]": "[", "}": "{"}
_LONGEST = 1 << 20
_READ_IN_VAIN = 1 << 21
"""A limit: characters that are read for instructions that are not closed."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """HLO in a text: its offsets, the name that it lacks, and what closes it if its operands are cut."""

    start: int
    end: int
    opening: str = ""
    closing: str = ""


def hlo_fragments(text: str) -> list[Fragment]:
    """The instructions, computation heads, and closing braces in a text, in order and disjoint.

    >>> text = "It fails at %add.1 = f32[2]{0} add(f32[2] %a, %b), metadata={op_name=\\"x\\"} sometimes."
    >>> [text[each.start : each.end] for each in hlo_fragments(text)]
    ['%add.1 = f32[2]{0} add(f32[2] %a, %b), metadata={op_name="x"}']
    """
    found = list(_instructions(text)) or list(_nameless(text)) or list(_shapeless(text))
    if not found and not _HEAD.search(text):
        return []
    following, last = iter(found), 0
    current = next(following, None)
    lines = list[Fragment]()
    for match in _LINE.finditer(text):
        while current is not None and current.end <= match.start():
            current = next(following, None)
        is_brace = match[0].lstrip().startswith("}")
        if is_brace and not lines and (not found or found[0].start > match.start()):
            continue
        if (current is None or match.end() <= current.start) and match.start() >= last:
            lines.append(Fragment(*match.span()))
            last = match.end()
    return sorted((*found, *lines), key=lambda each: each.start)


def only_hlo(text: str, fragments: Iterable[Fragment]) -> str:
    """The text with everything outside of the fragments blanked; places stay.

    >>> text = "see\\n  a = f32[] add(b, c) here"
    >>> only_hlo(text, hlo_fragments(text))
    '\\n  a = f32[] add(b, c)'
    """
    parts, at = list[str](), 0
    for each in fragments:
        parts += (_blank(text[at : each.start]), each.opening, _unwrapped(text[each.start : each.end]), each.closing)
        at = each.end
    return "".join(parts) + "\n" * text.count("\n", at)


def _unwrapped(text: str) -> str:
    """An instruction on one line: terminals break lines within words, others at spaces; the breaks follow it.

    Types in capitals, as protos have them, are in lower case.
    """
    joined = _BREAK.sub(" ", _WRAP.sub("", text)) if "\n" in text else text
    return _CAPITALS.sub(lambda match: match[0].lower(), joined) + "\n" * text.count("\n")


def _blank(text: str) -> str:
    """As many line breaks as the text has, and the column of what follows it."""
    return "\n" * text.count("\n") + " " * (len(text) - text.rfind("\n") - 1)


def _instructions(text: str) -> Iterator[Fragment]:
    failures, at = _READ_IN_VAIN, 0
    while failures > 0 and (match := _START.search(text, at)) is not None:
        operands = _operands_at(text, match)
        if operands < 0:
            at = match.end()
            failures -= -operands - match.start()
        elif (end := _closing(text, operands)) > 0:
            at = _attributes_end(text, end)
            yield Fragment(match.start(), at)
        else:
            at = _last_whole_operand(text, operands)
            failures -= -end - match.start()
            yield Fragment(match.start(), at, closing="...)")


def _nameless(text: str) -> Iterator[Fragment]:
    """Instructions without a name, such as `f32[2] add(a, b)`, which get one."""
    failures, at = _READ_IN_VAIN, 0
    for number, match in enumerate(_NAMELESS.finditer(text), 1):
        if failures < 0:
            return
        end = _closing(text, match.end()) if match.start() >= at else -match.end()
        failures += min(0, end + match.start())
        if end > 0:
            at = _attributes_end(text, end)
            yield Fragment(match.start(), at, f"instruction.{number} = ")


def _shapeless(text: str) -> Iterator[Fragment]:
    """Instructions without shapes, such as `a = custom-call(b)`, if the text has nothing else."""
    if _OTHER_LINE.search(text) is not None:
        return
    for match in _SHAPELESS.finditer(text):
        if (end := _closing(text, match.end() - 1)) > 0:
            yield Fragment(match.start(1), _attributes_end(text, end))


def _operands_at(text: str, match: re.Match[str]) -> int:
    """The offset of the parenthesis before the operands; if there is none, the negative of what was read."""
    at = match.end()
    if text[at - 1] == "(":
        return at - 1
    if text[at : at + 1] == "(":
        at = _closing(text, at)
    elif array := _ARRAY.match(text, at):
        at = array.end()
        at = _closing(text, at) if text[at : at + 1] == "{" else at
        at += 1 if array[0].startswith("b") and at > 0 and text[at : at + 1] == ")" else 0
    else:
        return -at
    opcode = _OPCODE.match(text, at) if at > 0 else None
    return opcode.end() if opcode is not None else -abs(at)


def _attributes_end(text: str, at: int) -> int:
    """The end of the last whole attribute after the operands."""
    end = at
    while (key := _KEY.match(text, end)) is not None and (value := _value_end(text, key.end())) > 0:
        end = value
    return end


def _value_end(text: str, at: int) -> int:
    """The end of a value, or a negative number if the text ends before it."""
    first = text[at : at + 1]
    if first == '"':
        string = _TOKEN.match(text, at)
        return string.end() if string else -1
    if first not in ("{", "[", "("):
        word = _VALUE.match(text, at)
        return word.end() if word else -1
    end = _closing(text, at)
    if end > 0 and text.startswith("<=", end):
        end = _closing(text, end + 2)
    return _closing(text, end + 1) if end > 0 and text.startswith("T(", end) else end


def _last_whole_operand(text: str, start: int) -> int:
    """The offset after the last comma between operands on the line of a parenthesis that is not closed."""
    end = text.find("\n", start)
    depth, last = 0, start + 1
    for token in _COMMA_OR_TOKEN.finditer(text, start, len(text) if end < 0 else end):
        depth += (token[0] in _OPENING) - (token[0] in _PAIR)
        last = token.end() if token[0] == "," and depth == 1 else last
    return last


def _closing(text: str, start: int) -> int:
    """The offset after the bracket that closes the one at `start`; if none does, the negative of what was read."""
    opened = list[str]()
    for token in _TOKEN.finditer(text, start, start + _LONGEST):
        bracket = token[0]
        if bracket in _OPENING:
            opened.append(bracket)
        elif bracket in _PAIR:
            if not opened or opened.pop() != _PAIR[bracket]:
                return -token.end()
            if not opened:
                return token.end()
    return -min(len(text), start + _LONGEST)
