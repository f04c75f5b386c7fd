"""Warnings about full rematerialization in place of a module: both shardings, the instruction, and the cost."""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.sharding.placement import describe_sharding
from hlo_cli.commands.pasted.parts import explained_parts
from hlo_cli.commands.shard.warned import AnySharding, first_warned
from hlo_cli.commands.shard.warning import warning_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage


def report_of(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one about the largest array first."""
    report = warning_report(pasted.text, pasted.name, command="parse")
    first = first_warned(pasted.text)
    if report is None or first is None:
        from hlo_cli.commands.pasted.compiler_error import report_of as report_of_error

        return report_of_error(pasted)
    parts: list[Part] = [*report.parts]
    if first.before is not None or first.after is not None:
        parts.insert(0, _sharding_words(first.before, first.after))
    if first.found is not None:
        parts[-1:-1] = explained_parts([first.found])
    return replace(report, parts=tuple(parts))


def _sharding_words(before: AnySharding | None, after: AnySharding | None) -> Passage:
    """Both shardings in words."""
    words = (
        f"{label} {sharding}: {describe_sharding(sharding)}"
        if sharding is not None
        else f"{label} a sharding that is not in the text, or elided in it"
        for label, sharding in (("From", before), ("To", after))
    )
    return Passage("shardings", tuple(words))
