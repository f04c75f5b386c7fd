"""What helps after an error in a text: a similar name that exists, and the place where reading can continue."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.operations import OPCODE_ARITY, is_known, wrapped_opcode
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean, nearest
from hlo_cli.syntax.scanning.scanner import Scanner

# --- suggestions ---
# Suggestions for errors: a similar opcode, type, or name, or where a name is defined.


_OPCODES: Final = {
    "cast": "convert",
    "concat": "concatenate",
    "cond": "conditional",
    "const": "constant",
    "conv": "convolution",
    "cos": "cosine",
    "div": "divide",
    "exp": "exponential",
    "expm1": "exponential-minus-one",
    "gte": "get-tuple-element",
    "log1p": "log-plus-one",
    "matmul": "dot",
    "max": "maximum",
    "min": "minimum",
    "mod": "remainder",
    "mul": "multiply",
    "neg": "negate",
    "param": "parameter",
    "pow": "power",
    "rem": "remainder",
    "sigmoid": "logistic",
    "sin": "sine",
    "sub": "subtract",
    "where": "select",
}
"""Names of operations in other languages that HLO does not use."""
FORM: Final = "syntax: name = shape opcode(operands), attribute=value"
ONE_RESULT: Final = "a computation has one ROOT; remove one"
_BEFORE_NAMES: Final = ("", "%", "ROOT", "ROOT %", "ENTRY", "ENTRY %")


def opcode_like(word: str) -> str | None:
    """The most similar opcode.

    >>> opcode_like("mutliply"), opcode_like("Exp"), opcode_like("slice-strat"), opcode_like("frob")
    ('multiply', 'exponential', 'slice-start', None)
    """
    lower = word.lower().replace("_", "-")
    if is_known(lower):
        return lower
    return _OPCODES.get(lower) or nearest(lower, (*OPCODE_ARITY, *_sugared_opcodes()))


def type_like(word: str) -> str | None:
    """The most similar element type.

    >>> type_like("fp32"), type_like("int8"), type_like("F16"), type_like("bfloat16"), type_like("frob")
    ('f32', 's8', 'f16', 'bf16', None)
    """
    from hlo_cli.ir.type_names import xla_type

    lower = word.lower()
    return lower if lower in PRIMITIVE_TYPES else xla_type(word) or nearest(lower, PRIMITIVE_TYPES)


def shape_like(text: str) -> str | None:
    """The text of an array's shape with the most similar element type.

    >>> shape_like("f33[8,128]{1,0}"), shape_like("frob[8]")
    ('f32[8,128]{1,0}', None)
    """
    word, bracket, rest = text.partition("[")
    name = type_like(word.strip())
    return None if name is None else name + bracket + rest


def check_types(text: str) -> None:
    """Raises HloError, with its span, for a shape or instruction whose element type has a framework's name.

    >>> check_types("(f32[8], torch.float16[8,128]{1,0})")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:10: error: unknown element type 'torch.float16'
      help: did you mean '(f32[8], f16[8,128]{1,0})'?
    """
    from hlo_cli.ir.type_names import foreign_type, in_xla_types

    unquoted = text.partition('"')[0]
    if (type_ := foreign_type(unquoted)) is None:
        return
    start, end, shape = type_
    word = unquoted[start:end]
    message = f"expected a shape, found the MLIR type '{word}'" if "<" in word else f"unknown element type '{word}'"
    is_shape = unquoted == text and "=" not in text
    hint = did_you_mean(in_xla_types(text.strip()) if is_shape else shape)
    raise HloError(message, Span(start, end), source=Source("", text), hint=hint)


def like(word: str, known: Iterable[str]) -> str | None:
    """The hint that suggests the most similar of the known words, or None."""
    return did_you_mean(nearest(word, known))


def defined_below(source: Source, name: str, start: int) -> str | None:
    """The hint that an instruction is defined further down in the same computation, or None."""
    end = source.text.find("\n}", start)
    return _below(source, name, " =", start, end if end >= 0 else len(source.text), before="users")


def computed_below(source: Source, name: str, start: int) -> str | None:
    """The hint that a computation is defined further down, or None."""
    end = len(source.text)
    return _below(source, name, " {", start, end, before="callers") or _below(
        source, name, " (", start, end, before="callers"
    )


def _below(source: Source, name: str, sign: str, start: int, end: int, *, before: str) -> str | None:
    """The hint if a line between two offsets begins with a name followed by `sign`, or None."""
    text, sought = source.text, name + sign
    at = text.find(sought, start, end) if name else -1
    while at >= 0:
        if text[text.rfind("\n", 0, at) + 1 : at].strip() in _BEFORE_NAMES:
            return f"{name} is defined later, on line {source.position(at).line}; move it before its {before}"
        at = text.find(sought, at + 1, end)
    return None


@cache
def _sugared_opcodes() -> tuple[str, ...]:
    sugared = (opcode + end for opcode in OPCODE_ARITY for end in ("-start", "-update", "-done"))
    return tuple(opcode for opcode in sugared if wrapped_opcode(opcode))


# --- where reading continues ---
# The place where reading continues after an error: the next instruction, or the next computation.


MAX_ERRORS: Final = 100
"""The most errors in one text before reading stops."""

_NAME: Final = r"%?[A-Za-z_][A-Za-z0-9_.\-]*+"
_SHAPE: Final = r"[ \t]++[a-z]{1,4}+[0-9]*+[a-z0-9]*+\[[0-9,]*+\]"
_CLOSES: Final = r"\}(?![}\])]|,(?! (?:execution_thread|backend_config)=))"
_CLOSING: Final = lazy_regex(_CLOSES)
_NEXT_STATEMENT: Final = lazy_regex(rf"\n[ \t]*+(?:(?:ROOT[ \t]++)?{_NAME}(?:[ \t]*+=[ \t]|{_SHAPE})|{_CLOSES})")
_NEXT_COMPUTATION: Final = lazy_regex(rf"\n(?=(?:ENTRY\b|{_NAME} (?:\(|\{{)))")
_FOUND: Final = re.compile(r", found (?!end of).*", re.DOTALL)
_LOST: Final = lazy_regex(r"(?:ROOT[ \t\n\r]++)?%?([A-Za-z_][A-Za-z0-9_.\-]*+)")
_DEFINED: Final = lazy_regex(r"[ \t\n\r%]([A-Za-z_][A-Za-z0-9_.\-]*+)[ \t]++=[ \t]")
_HEAD_NAME: Final = lazy_regex(r"[ \t\n\r]*+(?:ENTRY[ \t]++)?%?([A-Za-z_][A-Za-z0-9_.\-]*+)")


def next_statement(text: str, start: int, end: int) -> int | None:
    """The line break before the next instruction or the closing brace, or None."""
    match = _NEXT_STATEMENT.search(text, start, end)
    return match.start() if match else None


def next_computation(text: str, start: int, end: int | None = None) -> int:
    """The start of the next computation before `end`, by default the end of the text; `end` if there is none."""
    end = len(text) if end is None else end
    match = _NEXT_COMPUTATION.search(text, start, end)
    return match.end() if match else end


def unreadable_names(text: str, start: int, end: int) -> set[str]:
    """The names of the instructions between two offsets, even if the rest is unreadable."""
    first = _LOST.match(text, start, end)
    return {*_DEFINED.findall(text, start, end), *(first.groups() if first else ())}


def head_name(text: str, start: int) -> str:
    """The name of a computation with an unreadable header, as far as it can be found."""
    match = _HEAD_NAME.match(text, start)
    return match[1] if match else ""


def begins_computation(text: str, start: int, end: int) -> bool:
    """Whether the word between two offsets begins a computation: ENTRY, or a name followed by a signature or body."""
    return text[start:end] == "ENTRY" or text[end : end + 2].lstrip(" ")[:1] in ("(", "{")


def unclosed(source: Source, last: int, end: int, name: str) -> HloError:
    """The error for a computation that is not closed.

    Its last instruction consumed the closing brace, the next computation begins in it, or the text ends.
    """
    line_end = source.text.find("\n", last)
    if line_end > 0 and _CLOSING.match(source.text, line_end + 1):
        message = "unclosed brace in this instruction"
        return HloError(message, Span(last, line_end), source=source)
    begins = _NEXT_COMPUTATION.search(source.text, max(last, end - 1))
    if begins is not None and not source.text[end : begins.start()].strip():
        message = f"missing '}}' at the end of computation {name}"
        return HloError(message, Span(end - 1, end), source=source)
    return HloError(f"unexpected end of input in computation {name}", Span(end - 1, end), source=source)


def is_closed(source: Source, opening: int, end: int) -> bool:
    """Whether a brace is closed before an offset; other brackets may overlap."""
    try:
        Scanner(source, opening, end).balanced(json=True)
    except HloError:
        return False
    return True


def within(error: HloError, text: str, start: int, end: int) -> list[Diagnostic]:
    """The error's diagnostics; one that points after an instruction moves to the instruction's last character.

    A missing end is noticed at the first token of the next instruction, which is not at fault: the token found is the
    end of the line.
    """
    while end > start + 1 and text[end - 1] in " \t\r\n":
        end -= 1
    return [
        Diagnostic(d.severity, _FOUND.sub(", found end of line", d.message), d.source, Span(end - 1, end), d.hint)
        if d.span is not None and d.span.start >= end > start
        else d
        for d in error.diagnostics
    ]
