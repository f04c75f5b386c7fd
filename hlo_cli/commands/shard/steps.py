"""`hlo shard SHAPE SHARDING --to SHARDING`: the collectives that take an array from one sharding to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.placement import array_of, sharding_of_placement
from hlo_cli.analysis.sharding.reshard import VERSION, find_detour, nearest_without_collectives, reshard
from hlo_cli.commands.shard.reshard_tables import detour_parts, ends_facts, placement_text, steps_table
from hlo_cli.commands.shard.sizes import quoted_argument
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.reshard import Detour, Resharding
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.report.table import Cell


def report_of_steps(given: GivenArray) -> Report:
    """The steps with their bytes, and the nearest sharding that needs none."""
    if given.target is None:
        raise HloError("--to requires a sharding")
    count = given.mesh.device_count if given.mesh is not None else None
    direct = reshard(array_of(given.shape), given.sharding, given.target, device_count=count)
    detour = find_detour(direct, given.mesh)
    near = nearest_without_collectives(direct)
    parts: list[Part] = [ends_facts(direct, given.mesh)]
    if direct.steps:
        parts.append(steps_table(direct.steps, given.mesh))
    if detour is not None:
        parts += detour_parts(direct, detour, given.mesh)
    if direct.collectives:
        parts.append(Passage("nearest", (_nearest(direct, near, given),)))
    return Report(
        "shard",
        answer_of(direct),
        version=1,
        numbers={**numbers_of(direct, detour), **_nearest_numbers(direct, near)},
        parts=tuple(parts),
        next=_next(given),
        notes=(*given.notes, *notes_of(direct, detour)),
    )


def answer_of(direct: Resharding) -> str:
    """The answer in one sentence.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> answer_of(reshard(parse_shape("f32[8]"), sharding_of("{devices=[4]<=[4]}"), sharding_of("{replicated}")))
    '1 collective: a device sends 24 B to hold 32 B'
    """
    shape, held = direct.shape.to_string(layout=False), format_bytes(direct.target_shard.logical_bytes)
    if direct.problem:
        return f"No steps are known: {direct.problem}"
    if direct.is_full_rematerialization:
        whole = format_bytes(direct.shape.logical_bytes)
        return f"Full rematerialization: every device gathers all of {shape}, {whole}, to keep {held} of it"
    if direct.source == direct.target:
        return f"Both shardings place {shape} alike: no step is needed"
    if not direct.collectives:
        return f"No collective is needed: a device keeps {held} of what it holds"
    count = format_count(len(direct.collectives), "collectives")
    return f"{count}: a device sends {format_bytes(direct.sent_bytes)} to hold {held}"


def numbers_of(direct: Resharding, detour: Detour | None) -> dict[str, Cell]:
    """The numbers of the answer for machines."""
    return {
        "shape": str(direct.shape),
        "devices": direct.devices,
        "whole_bytes": direct.shape.logical_bytes,
        "part_bytes_before": direct.source_shard.logical_bytes,
        "part_bytes_after": direct.target_shard.logical_bytes,
        "collectives": len(direct.collectives),
        "wire_bytes": None if direct.problem else direct.sent_bytes,
        "full_rematerialization": direct.is_full_rematerialization,
        "is_estimate": direct.is_estimate,
        "detour": str(sharding_of_placement(detour.by)) if detour is not None else None,
        "detour_wire_bytes": detour.sent_bytes if detour is not None else None,
    }


def notes_of(direct: Resharding, detour: Detour | None) -> list[Diagnostic]:
    """What the steps are those of, and how many shardings were compared."""
    notes = list[Diagnostic]()
    if direct.steps:
        notes.append(
            Diagnostic("note", f"steps of the SPMD partitioner of {VERSION}; later passes may merge or reorder them")
        )
    if direct.is_estimate:
        notes.append(Diagnostic("note", "est.: parts are so uneven that the steps are an estimate"))
    if detour is not None and not detour.is_complete:
        notes.append(Diagnostic("note", f"compared the first {detour.candidates:,} shardings to go through"))
    if detour is None and (direct.is_full_rematerialization or direct.problem):
        notes.append(Diagnostic("note", "no sharding to go through avoids it"))
    return notes


def _nearest_numbers(direct: Resharding, near: Resharding | None) -> dict[str, Cell]:
    """The nearest sharding without a collective, and the bytes to send from it; none if no sharding is nearer."""
    if not direct.collectives:
        return {"nearest": str(sharding_of_placement(direct.target)), "nearest_wire_bytes": 0}
    if near is None:
        return {"nearest": None, "nearest_wire_bytes": None}
    return {"nearest": str(sharding_of_placement(near.source)), "nearest_wire_bytes": near.sent_bytes}


def _nearest(direct: Resharding, near: Resharding | None, given: GivenArray) -> str:
    if near is None:
        reason = "no slice of the copies is nearer" if direct.source.copies > 1 else "devices have no copies to slice"
        return f"Without a collective, the sharding stays as it is: {reason}."
    text = placement_text(near.source, given.mesh, direct.shape.rank)
    rest = format_bytes(near.sent_bytes) if near.collectives else "nothing"
    return f"The nearest sharding without a collective is {text}; from it, a device sends {rest}."


def _next(given: GivenArray) -> tuple[str, ...]:
    first = " ".join(map(quoted_argument, given.text[:2]))
    return (f"hlo shard {first}",) if len(first) <= 100 else ("hlo help sharding",)
