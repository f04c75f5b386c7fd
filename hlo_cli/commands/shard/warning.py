"""`hlo shard --warning`: what full rematerialization costs, and which sharding would avoid it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.sharding.placement import placement_of, sharding_of_placement
from hlo_cli.analysis.sharding.reshard import VERSION, Detour, find_detour
from hlo_cli.commands.shard.reshard_tables import detour_parts, steps_table
from hlo_cli.commands.shard.warned import WarnedReshard, is_maximal, warned_reshards
from hlo_cli.commands.shard.warning_tables import cost_facts, dimensions_table, drawings, warnings_table
from hlo_cli.ir.attributes.sharding import Mesh, NamedSharding
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_files.compiler_warnings import parse_resharding_warnings

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.reshard import Resharding
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.report.table import Cell

_SIGNS: Final = ("nvoluntary", "\n", "{devices=", "[spmd]", "[SPMD]")


def report_of_warning(options: ShardOptions) -> Report:
    """The answer to the warnings in a text, in a file, or on standard input."""
    from hlo_cli.inputs.pasted.unwrapping import plain_lines

    text, name = _text_of(options.warning or "")
    report = warning_report(plain_lines(text), name, mesh=options.given_mesh)
    if report is None:
        raise HloError(
            f"no warning about full rematerialization in {name}",
            hint="pass a log, a file, or - for stdin with the line of spmd_partitioner.cc",
        )
    return report


def _text_of(argument: str) -> tuple[str, str]:
    """The text of an argument, which may be a file or `-`, and what to call it."""
    from hlo_cli.inputs.input import read_plain

    if argument != "-" and any(sign in argument for sign in _SIGNS):
        return argument, "the text"
    if argument != "-" and not os.path.exists(argument):
        raise HloError(f"file '{argument}' not found", hint="--warning takes the text of a warning, a file, or -")
    source = read_plain(argument)
    return source.text, source.name or argument


def warning_report(text: str, name: str, *, mesh: Mesh | None = None, command: str = "shard") -> Report | None:
    """The report on all warnings of a text, the one about the largest array first; None if there is none."""
    warnings = parse_resharding_warnings(text)
    if not warnings:
        return None
    groups = warned_reshards(warnings)
    first = groups[0]
    in_group = _group_note(first, mesh)
    mesh = _named_mesh(first) if in_group or mesh is None else mesh
    detour = find_detour(first.direct, mesh) if first.direct is not None else None
    return Report(
        command,
        _answer(groups, len(warnings)),
        version=1 if command == "shard" else 2,
        numbers=_numbers(groups, len(warnings), detour),
        parts=tuple(_parts(groups, detour, mesh)),
        next=("hlo help sharding",),
        notes=(*in_group, *_notes(first, detour)),
        input={"path": name, "line": first.warning.line},
    )


def _group_note(first: WarnedReshard, mesh: Mesh | None) -> tuple[Diagnostic, ...]:
    """A note if the shardings have the devices of one group of a mesh; HloError if they do not fit the mesh."""
    if mesh is None or first.direct is None or first.direct.devices == mesh.device_count:
        return ()
    of_mesh, devices = format_count(mesh.device_count, "devices"), first.direct.devices
    if not first.is_in_group or mesh.device_count % devices:
        raise HloError(f"--mesh is {of_mesh}, the shardings of the warning have {devices:,}")
    return (Diagnostic("note", f"--mesh does not name axes: the warning has {devices:,} of its {of_mesh}"),)


def _parts(groups: Sequence[WarnedReshard], detour: Detour | None, mesh: Mesh | None) -> list[Part]:
    first = groups[0]
    parts: list[Part] = []
    if first.whole is not None:
        parts += [cost_facts(first), *drawings(first, mesh), dimensions_table(first)]
    if first.direct is not None and first.direct.steps:
        title = "" if first.direct.is_full_rematerialization else f"steps of {VERSION}, which does not warn"
        parts.append(_known(steps_table(first.direct.steps, mesh, title=title, main=False), first))
    parts.append(warnings_table(groups, person=len(groups) > 1))
    if first.direct is not None and detour is not None and _is_better(first.direct, detour):
        steps, constraint = detour_parts(first.direct, detour, mesh)
        parts += [_known(steps, first) if isinstance(steps, Table) else steps, constraint]
        if first.is_in_group:
            parts.append(Passage("group", (_IN_GROUP,)))
    parts.append(Passage("advice", _advice(first, detour)))
    return parts


def _named_mesh(first: WarnedReshard) -> Mesh | None:
    """The mesh of the shardings, if they name one."""
    meshes = {each.mesh for each in (first.before, first.after) if isinstance(each, NamedSharding)}
    return next((mesh for mesh in meshes if isinstance(mesh, Mesh)), None) if len(meshes) == 1 else None


def _is_better(direct: Resharding, detour: Detour) -> bool:
    return bool(direct.problem) or detour.sent_bytes < direct.sent_bytes


def _known(table: Table, first: WarnedReshard) -> Table:
    """The steps, without bytes if the text has no shape."""
    if first.whole is not None:
        return table
    sizes = {table.column_index(name) for name in ("operand_bytes", "wire_bytes", "operand_shape")}
    rows = tuple(tuple(UNKNOWN if at in sizes else cell for at, cell in enumerate(row)) for row in table.rows)
    title = table.title.partition(": ")[0] if table.name == "detour" else table.title
    return replace(table, rows=rows, title=title)


def _numbers(groups: Sequence[WarnedReshard], count: int, detour: Detour | None) -> dict[str, Cell]:
    first = groups[0]
    direct, after, is_known = first.direct, first.part_after, first.whole is not None
    return {
        "warnings": count,
        "distinct": len(groups),
        "whole_bytes": first.whole.logical_bytes if first.whole is not None else None,
        "part_bytes_before": first.part.logical_bytes if first.part is not None else None,
        "part_bytes_after": after.logical_bytes if after is not None else None,
        "received_bytes": first.received_bytes,
        "wire_bytes": direct.sent_bytes if direct is not None and is_known and not direct.problem else None,
        "full_rematerialization": direct.is_full_rematerialization if direct is not None else None,
        "detour": str(sharding_of_placement(detour.by)) if detour is not None else None,
        "detour_wire_bytes": detour.sent_bytes if detour is not None and is_known else None,
        "op_name": first.found.op_name or None if first.found else None,
        "source": first.found.source or None if first.found else None,
        "raised_at": first.warning.raised_at or None,
    }


def _answer(groups: Sequence[WarnedReshard], count: int) -> str:
    first = groups[0]
    warnings = format_count(count, "warnings")
    if len(groups) > 1:
        warnings += f" of {len(groups):,} kinds"
    if first.whole is not None:
        after = first.part_after
        kept = f" to keep {format_bytes(after.logical_bytes)} of it" if after is not None else ""
        size = format_bytes(first.whole.logical_bytes)
        return f"Every device gathers all of {first.whole.to_string(layout=False)}, {size},{kept} ({warnings})"
    if first.before is not None and not first.problem and (tiles := placement_of(first.before).tiles) > 1:
        return f"Every device gathers the whole array, {tiles:,} times its own part ({warnings})"
    return f"Every device gathers a whole array to change its sharding ({warnings})"


def _notes(first: WarnedReshard, detour: Detour | None) -> list[Diagnostic]:
    notes = [Diagnostic("note", remark) for remark in first.remarks]
    if first.whole is not None and first.part is not None and not is_maximal(first.before):
        shown = first.part.to_string(layout=False)
        notes.append(Diagnostic("note", f"the warning shows the part of one device, {shown}"))
    if first.is_in_group:
        notes.append(Diagnostic("note", _COPY))
    if first.problem:
        notes.append(Diagnostic("warning", f"the cost is unknown: {first.problem}"))
    if first.found is None:
        notes.append(Diagnostic("note", "the warning does not name the instruction, so its size is unknown"))
    if detour is not None and not detour.is_complete:
        notes.append(Diagnostic("note", f"compared the first {detour.candidates:,} shardings to go through"))
    return notes


def _advice(first: WarnedReshard, detour: Detour | None) -> tuple[str, ...]:
    """What it means and what to do, the place of the change first."""
    means = (
        "The SPMD partitioner found no shorter way from one sharding to the other, so it replicates the array and then "
        "slices it. Results are correct; memory, transfers, and time are wasted."
    )
    if first.direct is not None and not first.direct.is_full_rematerialization and not first.direct.problem:
        return (f"{means} The partitioner of {VERSION} takes the steps above instead: update jaxlib.",)
    is_known = detour is not None and first.direct is not None and _is_better(first.direct, detour)
    choose = "" if is_known else f" {_PLACE if is_maximal(first.before) else _CHOOSE}"
    if first.found is None:
        return means, f"{_FIND}{choose}"
    op_name, source = first.found.op_name, first.found.source
    place = ", ".join(filter(None, (op_name and f"the value with op_name {op_name}", source)))
    where = f"Apply jax.lax.with_sharding_constraint to {place or f'the result of {first.found.name}'}."
    return means, f"{where}{choose}" + ("" if place else f" {_FIND}")


_CHOOSE = (
    "Choose the sharding that its users have, or an intermediate one that divides only the dimensions that both "
    "shardings divide."
)
_PLACE = "One device has the whole array: place it on all devices before the call, with jax.device_put and a sharding."
_COPY = (
    "a copy may be the partitioner's own: devices then count within a group, and dimensions that both shardings divide "
    "alike are omitted"
)
_IN_GROUP = (
    "If device numbers are within a group, the constraint also needs the axes that divide both shardings of the "
    "program alike."
)
_FIND = (
    "To find the place, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=spmd|sharding' and search the dump "
    "before spmd-partitioning for the first sharding; releases from November 2024 on name the instruction."
)
