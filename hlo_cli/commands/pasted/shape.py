"""A shape in place of a module: the report of `hlo layout`, for shapes in the forms of frameworks too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.layout.shape import report_of_shape, report_of_shapes
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.read import listed_shapes
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.type_names import xla_type
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError, joined_by_or
from hlo_cli.syntax.scanning.error_help import type_like

_WRAPPED: Final = lazy_regex(r"(?:ShapedArray|AbstractRef|MemRef|Ref|aval|Shape)\s*+[({]\s*+(.*)[)}]", 16)
_STRUCT: Final = lazy_regex(r"\A(?:jax\.)?ShapeDtypeStruct\((?:shape=)?")
_TENSOR: Final = lazy_regex(r"(?:tensor|vector|memref)<((?:[0-9?]++x)*+)([a-z][A-Za-z0-9]*+)[^>]*+>")
_PAIR: Final = lazy_regex(
    r"(?:\((?=\())?+\(([0-9, ]*+)\),?\s*+(?:dtype=)?+['\"]?+((?:[a-z]++\.)?+[a-z][a-"
    r"z0-9_]*+)['\"]?+\)?+"
)
_TYPE: Final = lazy_regex(r"(?<![\w.])((?:[a-z]++\.)?+)([A-Za-z]\w*+)(?=\[)")
_WITHOUT_ORDER: Final = lazy_regex(r"\[([0-9,]*+)\]\{:?+([A-Z](?=\())")
_WEAK: Final = lazy_regex(r",?\s*+weak_type=\w++|\{[^{}:\d]*+\}$|@\w++$")


def report_of(pasted: PastedText) -> Report:
    """The report on a shape in the form of XLA or of a framework; HloError if it has no type of XLA."""
    listed = listed_shapes(pasted.text)
    if pasted.kind == "shapes" and listed:
        return _report_of_list(listed, pasted.name)
    given = listed[0] if listed and len(listed) == 1 else pasted.text.strip().rstrip(",;.")
    text = shape_text(given)
    notes = []
    if text != given:
        notes.append(Diagnostic("note", f"in the form of XLA: {text}"))
    try:
        report = report_of_shape(text)
    except HloError as error:
        bare, _, layout = text.partition("{")
        if not layout:
            raise
        report = report_of_shape(bare)
        notes.append(Diagnostic("warning", f"the layout {{{layout} is ignored: {error.diagnostic.message}"))
    return replace(report, notes=(*notes, *report.notes), input={"path": pasted.name})


def _report_of_list(listed: Sequence[str], name: str) -> Report:
    """The table of several shapes in any form."""
    texts = [shape_text(each) for each in listed]
    report = report_of_shapes(texts)
    respelled = sum(text != each for text, each in zip(texts, listed, strict=True))
    notes = (
        [Diagnostic("note", f"{respelled} of {len(texts)} shapes are shown in the form of XLA")] if respelled else []
    )
    return replace(report, notes=(*notes, *report.notes), input={"path": name})


def shape_text(given: str) -> str:
    """The shape as XLA prints it; HloError, with the nearest type, if a type is unknown.

    >>> [shape_text(each) for each in ("float32[8,128]", "ShapedArray(bfloat16[4])", "tensor<8x128xf32>", "F32[3]")]
    ['f32[8,128]', 'bf16[4]', 'f32[8,128]', 'f32[3]']
    >>> shape_text("((8, 128), dtype=torch.float16)"), shape_text("bf16[8,128]{T(8,128)(2,1)}")
    ('f16[8,128]', 'bf16[8,128]{1,0:T(8,128)(2,1)}')
    """
    text = _STRUCT.sub("(", _WEAK.sub("", given.strip()))
    if (wrapped := _WRAPPED.fullmatch(text)) is not None:
        text = wrapped[1].strip()
    if (tensor := _TENSOR.fullmatch(text)) is not None:
        text = f"{tensor[2]}[{','.join(tensor[1].rstrip('x').split('x')) if tensor[1] else ''}]"
    elif (pair := _PAIR.fullmatch(text)) is not None:
        text = f"{pair[2]}[{','.join(pair[1].replace(' ', '').strip(',').split(','))}]"
    text = _TYPE.sub(lambda match: _type(match[2]), text)
    return _WITHOUT_ORDER.sub(_with_order, text)


def _with_order(match: re.Match[str]) -> str:
    """The sizes and the tiles of a layout without an order of dimensions, as JAX prints it, with the default order."""
    rank = len(match[1].split(",")) if match[1] else 0
    order = index_text(reversed(range(rank))).removesuffix("}")
    return f"[{match[1]}]{order}:{match[2]}"


def _type(word: str) -> str:
    if word in PRIMITIVE_TYPES or word in ("token", "opaque"):
        return word
    if (name := xla_type(word)) is not None:
        return name
    like = type_like(word)
    known = [each for each in PRIMITIVE_TYPES if not each.startswith(("f8", "f6", "f4"))]
    hint = f"did you mean '{like}'?" if like else f"XLA has {joined_by_or(known)}, and narrower floats such as f8e4m3fn"
    raise HloError(f"unknown element type '{word}'", hint=hint)
