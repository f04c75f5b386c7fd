"""What does every answer to a text consist of? Its instructions explained; sentences, tables, and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.sharding.placement import describe_sharding
from hlo_cli.commands.modules.quoted import FoundInstruction
from hlo_cli.commands.parse.explain import explain_text
from hlo_cli.inputs.pasted.envelopes import NOUNS, PastedText
from hlo_cli.report.figure import Anatomy
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

_NAMES: Final = ("instruction", "second_instruction", "third_instruction")
_MOST_OPERANDS = 12  # a pasted instruction may be a tuple of hundreds; a dozen fit the screen


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
        numbers={"text": NOUNS[pasted.kind], **numbers},
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
