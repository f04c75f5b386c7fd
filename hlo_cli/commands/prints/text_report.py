"""What does the answer to a text consist of? A sentence, tables, advice, and explained instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.sharding.placement import describe_sharding
from hlo_cli.commands.modules.quoted import FoundInstruction
from hlo_cli.commands.parse.explain import explain_text
from hlo_cli.inputs.pasted.envelopes import ENVELOPE_OF, PastedText
from hlo_cli.report.figure import Anatomy
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

_NAMES: Final = ("instruction", "second_instruction", "third_instruction")
_MOST_OPERANDS = 12  # a pasted instruction may be a tuple of hundreds; a dozen fit the screen


_BEFORE: Final = 1 << 12  # a message may begin with what failed, a few lines above its mark
_AFTER: Final = 1 << 15
"""Characters around the first message that are read: a message with its traceback is shorter."""


def around_message(pasted: PastedText) -> str:
    """The text around the first message of its kind, on one line."""
    pattern = ENVELOPE_OF[pasted.kind].pattern
    match = pattern.search(pasted.text) if pattern is not None else None
    at = match.start() if match is not None else 0
    return " ".join(pasted.text[max(0, at - _BEFORE) : at + _AFTER].split())


def text_report(
    pasted: PastedText,
    answer: str,
    *,
    means: Sequence[str] = (),
    tables: Sequence[Part] = (),
    advice: Sequence[str] = (),
    numbers: Mapping[str, Cell] = MappingProxyType({}),
    notes: Sequence[str] = (),
    next: Sequence[str] = (),
) -> Report:
    """The report on a text: one sentence, what it means, its tables, and what to do."""
    parts: list[Part] = [Passage("text", tuple(means))] if means else []
    parts += tables
    parts += [Passage("advice", tuple(advice))] if advice else []
    return Report(
        "parse",
        answer,
        numbers={"text": ENVELOPE_OF[pasted.kind].noun, **numbers},
        parts=tuple(parts),
        next=tuple(next),
        notes=tuple(Diagnostic("note", note) for note in notes),
        input={"path": pasted.name},
    )


def explained_parts(found: Sequence[FoundInstruction]) -> tuple[Part, ...]:
    """The underlined texts of the first instructions with the meaning of their parts."""
    parts = list[Part]()
    for name, each in zip(_NAMES, (each for each in found if each.is_whole), strict=False):
        try:
            report = explain_text(each.text, most_operands=_MOST_OPERANDS)
        except (HloError, RecursionError):
            continue
        parts += (_with_sharding(replace(part, name=name), each) for part in report.parts if isinstance(part, Anatomy))
    return tuple(parts)


def _with_sharding(part: Anatomy, found: FoundInstruction) -> Anatomy:
    """The explanation with the sharding in words."""
    text = found.instruction.attribute("sharding")
    if text is None:
        return part
    try:
        sharding = read_given_sharding(text).sharding
    except HloError:
        return part
    if sharding is None:
        return part
    words = describe_sharding(sharding)
    rows = tuple(replace(row, meaning=words) if row.label == "sharding" else row for row in part.explanations)
    return replace(part, explanations=rows)
