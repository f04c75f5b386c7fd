"""Warnings about full rematerialization in place of a module: both shardings, the instruction, and the cost."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.sharding_tiles import sharding_tiles
from hlo_cli.commands.pasted.instructions import (
    explained_parts,
)
from hlo_cli.commands.pasted.resharding_groups import Resharding, resharding_groups
from hlo_cli.commands.pasted.resharding_tables import (
    cost_facts,
    dimensions_table,
    sharding_words,
    warnings_table,
)
from hlo_cli.inputs.pasted.text import PastedText
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.syntax.messages.resharding import parse_resharding_warnings


def report_of(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one about the largest array first."""
    warnings = parse_resharding_warnings(pasted.text)
    if not warnings:
        from hlo_cli.commands.pasted.compiler_error import report_of as report_of_error

        return report_of_error(pasted)
    groups = resharding_groups(warnings)
    first = groups[0]
    parts: list[Part] = []
    if first.before is not None or first.after is not None:
        parts.append(sharding_words(first.before, first.after))
    if first.cost is not None and first.cost.before is not None:
        parts.append(cost_facts(first.before, first.cost))
        parts.append(dimensions_table(first.before, first.after, first.cost))
    parts.append(warnings_table(groups, person=len(groups) > 1))
    if first.found is not None:
        parts += explained_parts([first.found])
    parts.append(Passage("advice", _advice(first)))
    return Report(
        "parse",
        _answer(groups, len(warnings)),
        numbers={
            "warnings": len(warnings),
            "distinct": len(groups),
            "whole_bytes": first.cost.whole.logical_bytes if first.cost and first.cost.before else None,
            "part_bytes_before": first.cost.before.logical_bytes if first.cost and first.cost.before else None,
            "part_bytes_after": first.cost.after.logical_bytes if first.cost and first.cost.after else None,
            "received_bytes": first.cost.received_bytes if first.cost else None,
            "op_name": first.found.op_name or None if first.found else None,
            "source": first.found.source or None if first.found else None,
            "raised_at": first.warning.raised_at or None,
        },
        parts=tuple(parts),
        next=("hlo help sharding",),
        notes=tuple(_notes(first)),
        input={"path": pasted.name, "line": first.warning.line},
    )


def _answer(groups: Sequence[Resharding], count: int) -> str:
    first = groups[0]
    warnings = format_count(count, "warnings")
    if len(groups) > 1:
        warnings += f" of {len(groups):,} kinds"
    if first.cost is not None and first.cost.before is not None:
        whole, after = first.cost.whole, first.cost.after
        kept = f" to keep {format_bytes(after.logical_bytes)} of it" if after is not None else ""
        size = format_bytes(whole.logical_bytes)
        return f"Every device gathers all of {whole.to_string(layout=False)}, {size},{kept} ({warnings})"
    if first.before is not None and (tiles := sharding_tiles(first.before)).tiles > 1:
        return f"Every device gathers the whole array, {tiles.tiles:,} times its own part ({warnings})"
    return f"Every device gathers a whole array to change its sharding ({warnings})"


def _notes(first: Resharding) -> list[Diagnostic]:
    notes = []
    if first.cost is not None and first.cost.before is not None:
        shown = first.cost.before.to_string(layout=False)
        notes.append(Diagnostic("note", f"the warning shows the part of one device, {shown}"))
    if first.rank_problem:
        notes.append(Diagnostic("warning", f"the cost is unknown: {first.rank_problem}"))
    if first.found is None:
        notes.append(Diagnostic("note", "the warning does not name the instruction, so its size is unknown"))
    return notes


def _advice(first: Resharding) -> tuple[str, ...]:
    """What it means and what to do, the place of the change first."""
    means = (
        "The SPMD partitioner found no shorter way from one sharding to the other, so it replicates the array and then "
        "slices it. Results are correct; memory, transfers, and time are wasted."
    )
    if first.found is None:
        return means, _FIND, _CHOOSE
    op_name, source = first.found.op_name, first.found.source
    place = ", ".join(filter(None, (op_name and f"the value with op_name {op_name}", source)))
    where = f"Apply jax.lax.with_sharding_constraint to {place or f'the result of {first.found.name}'}."
    return means, f"{where} {_CHOOSE}" + ("" if place else f" {_FIND}")


_CHOOSE = (
    "Choose the sharding that its users have, or an intermediate one that divides only the dimensions that both "
    "shardings divide."
)
_FIND = (
    "To find the place, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=spmd|sharding' and search the dump "
    "before spmd-partitioning for the first sharding; releases from November 2024 on name the instruction."
)
