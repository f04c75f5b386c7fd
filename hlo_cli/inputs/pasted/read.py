"""A text that does not begin with a module, read: the HLO in it, or what it is instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from shlex import quote
from typing import Final

from hlo_cli.inputs.logs import AFTER_BLOCK, EmbeddedModule, find_modules, has_odd_characters, is_cut_header
from hlo_cli.inputs.pasted.envelopes import NOUNS
from hlo_cli.inputs.pasted.foreign import (
    is_source_code,
    known_text_error,
    language_error,
    language_lines,
    no_hlo_error,
    source_code_error,
)
from hlo_cli.inputs.pasted.fragments import Fragment, hlo_fragments, only_hlo
from hlo_cli.inputs.pasted.lines import dedented, plain_lines, without_colors, without_entities
from hlo_cli.inputs.pasted.recognize import (
    document_of,
    is_diff,
    kind_of,
    kinds_of,
    mentioned_value,
    remark_on_messages,
    sides_of,
    value_text,
)
from hlo_cli.inputs.pasted.relevant import relevant_parts
from hlo_cli.inputs.pasted.screens import (
    is_wrapped_module,
    plain_characters,
    rejoined_lines,
    without_line_numbers,
    without_margins,
)
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
# Opcodes and types have no dot: what calls `a.b(` is Python.
_STATEMENT = lazy_regex(
    r"^[ \t]*+(?:ROOT[ \t]++)?+%?[A-Za-z_][\w.\-]*+[ \t]++=[ \t](?![^\n]*\.\.\.|\w++\.[\w.]*+\()[^\n]*+", re.MULTILINE
)
_OUTER_STATEMENT = lazy_regex(
    r"^[ \t]*+(?:ROOT[ \t]++)?+(?:%[\w.\-]++[ \t]*+=|[A-Za-z_][\w.\-]*+[ \t]++=[ \t]++(?:\([a-z]\w*+\["
    r"|[a-z]\w*+\[[\d,<=]*\]))"
    r"(?![^\n]*\.\.\.|[ \t]*+\"?[a-z]\w*+\.[\w.]*+)[^\n]*+",
    re.MULTILINE,
)
_ENTRY = lazy_regex(r"^[ \t]*+ENTRY %?[\w.\-]++ (?:\([^\n]*->[^\n]*)?\{[ \t]*$", re.MULTILINE)
_MOST_LANGUAGES = 3
_FENCE = lazy_regex(r"^[ \t]*+(?:```|~~~)[^\n]*+$", re.MULTILINE)
_LONGEST_MENTION = 120
_LOOKED_AT = 1 << 16
_WITH_HLO: Final = frozenset(("out-of-memory", "slow-operation", "resharding", "compiler-error", "diff"))
"""Kinds whose messages have instructions that their answers explain; those of others are not a program."""
_ARE_VALUES: Final = frozenset(("shape", "shapes", "layout", "sharding", "replica-groups"))
_BESIDE_HLO: Final = frozenset(
    ("donation", "spills", "host-compute", "captured-constants", "stuck-collective", "compile-log")
)
"""Warnings: a program in the same log is what the reader asks about."""
_PROGRAM = lazy_regex(r"^(?:ENTRY )?%?[\w.\-]++ (?:\([^\n]*->[^\n]*)?\{[ \t]*$", re.MULTILINE)
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
    if is_cut_header(text):
        raise PastedTextError(PastedText("cut-header", name, text, given=text))
    if _MODULE.match(text):
        found = tuple(map(_without_foreign_tail, find_modules(text)))
        return _with_message(found, text, name) if any(each.remark for each in found) else found
    if "HloModule " not in text:
        return _read_pasted(text, name)
    found = find_modules(text)
    if not _MODULE.match(found[0].text):
        return _read_pasted(text, name)
    if len(found) == 1 and is_cut_header(header := _FENCE.sub("", found[0].text).strip()):
        raise PastedTextError(PastedText("cut-header", name, header, given=text))
    found = tuple(each if each.file_name else _without_prose(_without_foreign_tail(each)) for each in found)
    return _with_message(found, text, name)


def _with_message(found: tuple[EmbeddedModule, ...], text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules, the first with a note on a message of XLA around them."""
    message = remark_on_messages(text, name, found)
    return (replace(found[0], remark="; ".join(filter(None, (found[0].remark, message))) or None), *found[1:])


def _as_printed(text: str) -> str:
    """A text that begins with a module but was indented, escaped for HTML, or put on one line; a log without colors."""
    text = without_margins(text)
    if "\x1b[" in text and (has_odd_characters(text) or not _MODULE.match(text)):
        text = without_colors(text)
    text = _as_copied(text)
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
        text = plain_characters(text) if has_odd_characters(text) else text
        return rejoined_lines(text) if is_wrapped_module(text) else text
    text = without_line_numbers(plain_characters(text))
    return rejoined_lines(text) if "HloModule " in text else text


def _read_pasted(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    document = document_of(text[:_LOOKED_AT])
    text = text if document is not None and len(text) <= _LONGEST_COPIED else relevant_parts(text)
    plain = plain_lines(text)
    is_source = is_source_code(text)
    kinds = () if is_source else kinds_of(plain)
    kind = next(iter(kinds), None)
    if kind is not None and (kind == document or kind not in _WITH_HLO):
        if not (kind in _BESIDE_HLO and _PROGRAM.search(plain)):
            others = tuple(each for each in kinds if each != kind)
            plain = value_text(plain) if kind in _ARE_VALUES else plain
            raise PastedTextError(PastedText(kind, name, plain, others=others, given=text))
        kind = None
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
    is_program = _ENTRY.search(plain) is not None and any(" = " in plain[each.start : each.end] for each in fragments)
    if not is_program and (error := language_error(plain, name)) is not None:
        raise error
    if not _INSTRUCTION.search(only_hlo(plain, fragments)):
        raise source_code_error(text, name) if is_source else _without_hlo(plain, name, text)
    return (_part(EmbeddedModule(plain), fragments),)


def _without_hlo(plain: str, name: str, given: str) -> HloError:
    """The error for a text without instructions: what the text is, or what it mentions; a mention is no answer."""
    known = no_hlo_error(plain, name, given)
    value = mentioned_value(plain)
    if value is None or known_text_error(plain, name) or known_text_error(given, name):
        return known
    kind, words = value
    what = "text" if plain.strip().count("\n") else "log line" if plain.strip() != given.strip() else "line"
    command = f"hlo layout {quote(words)}" if kind == "shape" else f"echo {quote(words)} | hlo"
    noun = NOUNS[kind].removeprefix("a ")
    if words.startswith(("sharding=", "replica_groups=", "source_target_pairs=")):
        noun = "attribute"
    return HloError(
        f"{name} is not recognized: a {what} that mentions the {noun} {words[:_LONGEST_MENTION]}",
        hint=f"to explain the {noun} alone, run `{command}`",
    )


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
    own = list(_of_hlo(text, fragments))
    kept = sorted((*own, *_statements_between(text, own)), key=lambda each: each.start)
    hlo = only_hlo(text, kept)
    remarks = (module.remark, _remark_on_skipped(text, hlo, module.first_line))
    return replace(module, text=hlo, remark="; ".join(filter(None, remarks)) or None)


def _without_foreign_tail(module: EmbeddedModule) -> EmbeddedModule:
    """A module without the prose and the other languages after its computations; places stay."""
    text = module.text
    match = AFTER_BLOCK.search(text)
    if match is None:
        return module
    start = text.find("\n", match.start() + 1) + 1
    rest = text[start:]
    kept = list(_of_hlo(rest, hlo_fragments(rest), has_loose=False))
    hlo = only_hlo(rest, kept)
    remark = _remark_on_skipped(rest, hlo, module.first_line + text.count("\n", 0, start))
    return replace(module, text=text[:start] + hlo, remark=remark)


def _of_hlo(text: str, fragments: list[Fragment], *, has_loose: bool = True) -> Iterator[Fragment]:
    """The fragments without the blocks of other languages: those without instructions, and braces that close nothing.

    Without `has_loose`, instructions outside of a computation are left out too.
    """
    block, instructions, loose = list[Fragment](), 0, 0
    for each in fragments:
        line = text[each.start : each.end].strip()
        is_head, is_brace = line.endswith("{"), line.startswith("}")
        if is_head and " = " not in line:
            yield from block if instructions else ()
            block, instructions = [each], 0
        elif is_brace and block:
            yield from (*block, each) if instructions else ()
            block, instructions, loose = [], 0, 0
        elif is_brace:
            yield from (each,) if loose else ()
            loose = 0
        elif block:
            block.append(each)
            instructions += 1
        elif has_loose or line.startswith("HloModule"):
            loose += 1
            yield each
    yield from block if instructions else ()


def _remark_on_skipped(text: str, hlo: str, first_line: int) -> str | None:
    """The note on lines that were blanked: how many, and where they are in which other language."""
    runs, skipped, last = list[list[int]](), 0, -2
    given = text.split("\n")
    for number, (line, own) in enumerate(zip(given, hlo.split("\n"), strict=True)):
        if own.strip():
            last = -2
        elif line.strip():
            skipped += 1
            if last >= 0:
                runs[-1][1] = number
            else:
                runs.append([number, number])
            last = number
    if not skipped:
        return None
    languages = list[str]()
    for start, end in runs:
        found = language_lines(given[start : end + 1])
        if found is not None:
            language, one, other = found
            place = (
                f"line {first_line + start + one} is"
                if one == other
                else (f"lines {first_line + start + one} to {first_line + start + other} are")
            )
            languages.append(f"{place} {language}")
    listed = "; ".join(languages[:_MOST_LANGUAGES])
    return f"skipped {counted(skipped, 'lines')} without HLO" + (f"; {listed}" if listed else "")


def _statements_between(text: str, fragments: list[Fragment]) -> Iterator[Fragment]:
    """The lines between two fragments of a computation that are not blank: instructions with errors.

    Between two computations, only what looks like HLO more than like Python or C++.
    """
    for one, other in pairwise(fragments):
        between = text[one.end : other.start]
        pattern = _OUTER_STATEMENT if text[one.start : one.end].strip().startswith("}") else _STATEMENT
        if (between.strip() and not text.startswith("}", other.start)) or pattern.search(between):
            yield from (Fragment(one.end + m.start(), one.end + m.end()) for m in pattern.finditer(between))
