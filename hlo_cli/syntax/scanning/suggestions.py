"""Suggestions for errors: a similar opcode, type, or name, or where a name is defined."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from hlo_cli.ir.operations import OPCODE_ARITY, is_known, wrapped_opcode
from hlo_cli.ir.primitive import PRIMITIVE_TYPES
from hlo_cli.source import Source, did_you_mean, nearest

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
_TYPES: Final = {
    "bfloat16": "bf16",
    "bool": "pred",
    "complex128": "c128",
    "complex64": "c64",
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "i1": "pred",
    "int": "s32",
    "uint": "u32",
}
_SIZED: Final = r"(float|fp|int|uint|i|ui)([0-9]+)"
_LETTER: Final = {"float": "f", "fp": "f", "int": "s", "i": "s", "uint": "u", "ui": "u"}
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
    lower = word.lower()
    if (sized := re.fullmatch(_SIZED, lower)) is not None:
        lower = _LETTER[sized[1]] + sized[2]
    lower = _TYPES.get(lower, lower)
    return lower if lower in PRIMITIVE_TYPES else nearest(lower, PRIMITIVE_TYPES)


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
