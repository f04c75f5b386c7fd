"""A text that does not begin with a module, read: the HLO in it, or what it is instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hlo_cli.inputs.logs import EmbeddedModule, find_modules
from hlo_cli.inputs.pasted.diffs import is_diff, sides_of
from hlo_cli.inputs.pasted.foreign import (
    is_source_code,
    known_text_error,
    language_error,
    no_hlo_error,
    source_code_error,
)
from hlo_cli.inputs.pasted.fragments import Fragment, hlo_fragments, only_hlo
from hlo_cli.inputs.pasted.lines import dedented, plain_lines, without_colors, without_entities
from hlo_cli.inputs.pasted.messages import remark_on_messages
from hlo_cli.inputs.pasted.recognize import kind_of, kinds_of, value_in
from hlo_cli.inputs.pasted.relevant import relevant_parts
from hlo_cli.inputs.pasted.screens import is_wrapped_module, plain_characters, rejoined_lines, without_line_numbers
from hlo_cli.inputs.pasted.strings import decoded_strings, unescaped
from hlo_cli.inputs.pasted.text import PastedText, PastedTextError
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, counted

_MODULE = lazy_regex(r"\s*+(?://[^\n]*+\n\s*+)*+(?:(?i:HloModule)|ENTRY)\b")
_PROTO = lazy_regex(
    r"(?:^|[\s:])((?:hlo|hlo_proto)\s*+:?\s*+\{\s*+hlo_module\s*+:?\s*+\{|hlo_module\s*+:?\s*+\{\s*+\w++:"
    r"|(?:computations|instructions)\s*+:?\s*+\{\s*+(?:name|id|opcode)\s*+:)"
)
_INSTRUCTION = lazy_regex(r" = [^\n=]*\(")
_AMOUNT = lazy_regex(
    r"Ran out of memory in memory space|Scoped allocation|program allocations"
    r"|(?<![\w.])(?<!Unpadded size: )[0-9][0-9.,]{0,20}[ ]?(?:bytes|[KMGT](?:i?B)?)\b"
)
_PROSE = lazy_regex(
    r"^(?![ \t}%\n]|//|/\*|$|ENTRY\b|HloModule\b|(?:File|Function)Names|FileLocations|StackFrames|[0-9]+ "
    r"|[\w.\-]+ [({])",
    re.MULTILINE,
)
_STATEMENT = lazy_regex(
    r"^[ \t]*+(?:ROOT[ \t]++)?+%?[A-Za-z_][\w.\-]*+[ \t]++=[ \t](?![^\n]*\.\.\.)[^\n]*+", re.MULTILINE
)
_LOOKED_AT = 1 << 16
_LONGEST_COPIED = 1 << 24
_ESCAPED_BREAK = lazy_regex(r"\\n[ \\n]{0,200}+(?:HloModule |ENTRY |ROOT |%|\})")


def read_text(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules and parts of modules in a text; `name` is that of its file.

    PastedTextError for a text that is not a module and can be explained, HloError for one without HLO.

    >>> [found] = read_text("> see\\n> ```\\n> a = f32[] add(b, c)\\n> ```\\n", "-")
    >>> found.text.strip(), found.remark
    ('a = f32[] add(b, c)', 'skipped 1 line without HLO')
    """
    text = _as_printed(text)
    if _MODULE.match(text):
        return find_modules(text)
    if "HloModule " not in text:
        return _read_pasted(text, name)
    found = find_modules(text)
    if not _MODULE.match(found[0].text):
        return _read_pasted(text, name)
    found = tuple(each if each.file_name else _without_prose(each) for each in found)
    message = remark_on_messages(text, name, found)
    return (replace(found[0], remark="; ".join(filter(None, (found[0].remark, message))) or None), *found[1:])


def _as_printed(text: str) -> str:
    """A text that begins with a module but was indented, escaped for HTML, or put on one line; a log without colors."""
    text = _as_copied(text)
    if "\x1b[" in text and not _MODULE.match(text):
        text = without_colors(text)
    if text[:1] in " \t":
        text = dedented(f"\n{text}")[1:]
    if ") -&gt; " in text[:_LOOKED_AT]:
        text = without_entities(text)
    if "\n" not in text[:_LOOKED_AT].rstrip() and _MODULE.match(text) and _ESCAPED_BREAK.search(text):
        text = unescaped(text)
    return text


def _as_copied(text: str) -> str:
    """A text without the line numbers of an editor, the line breaks of a terminal, and characters of documents."""
    if len(text) > _LONGEST_COPIED:
        return text
    if text.startswith("HloModule "):
        return rejoined_lines(text) if is_wrapped_module(text) else text
    text = without_line_numbers(plain_characters(text))
    return rejoined_lines(text) if "HloModule " in text else text


def _read_pasted(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    text = relevant_parts(text)
    plain = plain_lines(text)
    is_source = is_source_code(text)
    kinds = () if is_source else kinds_of(plain)
    kind = next(iter(kinds), None)
    if kind is None and not is_source and is_diff(plain):
        old, new = sides_of(plain)
        raise PastedTextError(PastedText("diff", name, plain, versions=(old, new)))
    if kind is None and _PROTO.search(plain):
        quoted = plain.strip()
        is_literal = quoted[0] in "'\"" and quoted[-1] == quoted[0] and "\n" not in quoted
        return (EmbeddedModule(unescaped(quoted[1:-1]) if is_literal else plain),)
    inner = _decoded(text) or _decoded(plain)
    if inner is not None and (kind is None or kind_of(inner) or _INSTRUCTION.search(inner)):
        plain, kind = plain_lines(inner), kind if is_source else kind_of(inner) or kind
    plain = dedented(plain)
    if kind is None:  # readers of messages join lines themselves
        plain = rejoined_lines(plain)
    found = find_modules(plain)
    if _MODULE.match(found[0].text):
        return tuple(map(_without_prose, found))
    fragments = hlo_fragments(plain)
    if kind == "out-of-memory" and fragments and len(kinds) == 1 and not _AMOUNT.search(plain):
        kind = None
    if kind is not None:
        hlo = only_hlo(plain, fragments) if fragments else ""
        raise PastedTextError(PastedText(kind, name, plain, hlo, others=tuple(each for each in kinds if each != kind)))
    if (error := language_error(plain, name)) is not None:
        raise error
    if not _INSTRUCTION.search(only_hlo(plain, fragments)):
        raise source_code_error(text, name) if is_source else _without_hlo(plain, name, text)
    return (_part(EmbeddedModule(plain), fragments),)


def _without_hlo(plain: str, name: str, given: str) -> HloError:
    """The error for a text without instructions: its first value if a command explains it, else what the text is."""
    value = value_in(plain)
    if value is not None and (value[0] != "shape" or known_text_error(plain, name) is None):
        return PastedTextError(PastedText(value[0], name, value[1]))
    return no_hlo_error(plain, name, given)


def _without_prose(module: EmbeddedModule) -> EmbeddedModule:
    return _part(module, hlo_fragments(module.text)) if _PROSE.search(module.text) else module


def _decoded(text: str) -> str | None:
    """The HLO inside of strings, or in a text whose line breaks are written as escapes; None if there is none."""
    if (inner := decoded_strings(text)) is not None:
        return _decoded(inner) or inner
    if _ESCAPED_BREAK.search(text):
        return unescaped(text)
    return None


def _part(module: EmbeddedModule, fragments: list[Fragment]) -> EmbeddedModule:
    """The HLO in a text; lines that look like instructions are kept, so that errors in them are reported."""
    text = module.text
    kept = sorted((*fragments, *_statements_between(text, fragments)), key=lambda each: each.start)
    hlo = only_hlo(text, kept)
    lines = zip(text.split("\n"), hlo.split("\n"), strict=True)
    skipped = sum(bool(line.strip()) and not own.strip() for line, own in lines)
    remark = f"skipped {counted(skipped, 'lines')} without HLO" if skipped else None
    return replace(module, text=hlo, remark=remark)


def _statements_between(text: str, fragments: list[Fragment]) -> Iterator[Fragment]:
    """The lines between two fragments of a computation that are not blank: instructions with errors."""
    for one, other in pairwise(fragments):
        between = text[one.end : other.start]
        if (between.strip() and not text.startswith("}", other.start)) or _STATEMENT.search(between):
            yield from (Fragment(one.end + m.start(), one.end + m.end()) for m in _STATEMENT.finditer(between))
