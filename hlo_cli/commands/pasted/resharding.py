"""Warnings about full rematerialization in place of a module: both shardings, the instruction, and the cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hlo_cli.analysis.full_rematerialization import FullRematerialization, full_rematerialization
from hlo_cli.analysis.sharding_tiles import ShardingTiles, sharding_tiles
from hlo_cli.commands.pasted.instructions import (
    FoundInstruction,
    explained_parts,
    instructions_in,
    read_cut_instruction,
)
from hlo_cli.commands.pasted.resharding_tables import (
    cost_facts,
    dimensions_table,
    sharding_words,
    warnings_table,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.text import PastedText
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding
from hlo_cli.ir.compiler_files.resharding import ReshardingWarning
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_files.resharding import parse_resharding_warnings
from hlo_cli.syntax.values.sharding_forms import read_given_sharding


@dataclass(frozen=True, slots=True)
class Resharding:
    """Equal warnings: their number, both shardings, the instruction, and the cost, where they are in the text."""

    count: int
    warning: ReshardingWarning
    before: Sharding | NamedSharding | None
    after: Sharding | NamedSharding | None
    found: FoundInstruction | None
    cost: FullRematerialization | None

    @property
    def rank_problem(self) -> str:
        """Why the cost is unknown although the shape is in the text."""
        if self.cost is None or self.cost.before is not None or self.before is None:
            return ""
        dimensions, rank = len(sharding_tiles(self.before).parts), self.cost.whole.rank
        return f"the sharding divides {format_count(dimensions, 'dimensions')}, but the result has {rank}"


def report_of(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one about the largest array first."""
    warnings = parse_resharding_warnings(pasted.text)
    if not warnings:
        from hlo_cli.commands.pasted.compiler_error import report_of as report_of_error

        return report_of_error(pasted)
    groups = _groups(warnings)
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


def _groups(warnings: Sequence[ReshardingWarning]) -> list[Resharding]:
    """Warnings with the same shardings and shape once, the largest array first."""
    found = defaultdict[tuple[str, ...], list[ReshardingWarning]](list)
    read = dict[str, FoundInstruction | None]()
    for warning in warnings:
        if warning.operation not in read:
            found_here = next(iter(instructions_in(warning.operation)), None)
            read[warning.operation] = found_here or read_cut_instruction(warning.operation)
        each = read[warning.operation]
        shape = str(each.instruction.shape) if each is not None else ""
        found[_key(warning, shape, found)].append(warning)
    groups = [_resharding(group, read) for group in found.values()]
    return sorted(groups, key=lambda group: -(group.cost.whole.logical_bytes if group.cost else 0))


def _key(warning: ReshardingWarning, shape: str, known: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What equal warnings have in common; one whose end is cut equals the first that begins like it."""
    key = (warning.before, warning.after, shape)
    if warning.before and not warning.after.endswith("}"):
        return next((each for each in known if each[0] == key[0] and each[1].startswith(key[1])), key)
    return key


def _resharding(group: Sequence[ReshardingWarning], read: Mapping[str, FoundInstruction | None]) -> Resharding:
    """The warnings of a group; the instruction is the first one that names its origin."""
    warning = max(group, key=lambda each: bool(one.op_name or one.source) if (one := read[each.operation]) else False)
    found = read[warning.operation]
    array = found.array if found is not None else None
    rank = array.rank if array is not None else None
    before, after = _read(group[0].before, rank), _read(group[0].after, rank)
    cost = full_rematerialization(array, _tiles(before), _tiles(after)) if array is not None else None
    return Resharding(len(group), warning, before, after, found, cost)


def _read(text: str, rank: int | None) -> Sharding | NamedSharding | None:
    """The sharding, or None; what is elided at its end can only be the copies."""
    for mark in ("...", "\N{HORIZONTAL ELLIPSIS}"):
        if text.endswith(f" {mark}}}"):
            text = f"{text[: -len(mark) - 2]}}}"
            if rank is not None and text.partition("[")[2].partition("]")[0].count(",") == rank:
                text = f"{text[:-1]} last_tile_dim_replicate}}"
    try:
        sharding = read_given_sharding(text).sharding
    except HloError:
        return None
    return sharding if isinstance(sharding, Sharding | NamedSharding) else None


def _tiles(sharding: Sharding | NamedSharding | None) -> ShardingTiles | None:
    return sharding_tiles(sharding) if sharding is not None else None


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
    if first.before is not None and (tiles := _tiles(first.before)) is not None and tiles.tiles > 1:
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
