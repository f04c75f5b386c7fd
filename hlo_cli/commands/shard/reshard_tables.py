"""Reshards in tables and sentences: both shardings, the steps, and the sharding that avoids full rematerialization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.meshes import axes_of_groups, axes_of_pairs, axes_text, mesh_text
from hlo_cli.analysis.sharding.placement import has_parts, partition_spec, sharding_of_placement, spec_text
from hlo_cli.analysis.sharding.reshard import mesh_for
from hlo_cli.ir import opcodes
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import UNKNOWN, Amount, Column, Fact, Facts, Table
from hlo_cli.report.text import Passage, Run, Text

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.placement import Placement
    from hlo_cli.analysis.sharding.reshard import Detour, Resharding, ReshardStep
    from hlo_cli.ir.attributes.sharding import Mesh
    from hlo_cli.ir.shape import ArrayShape
    from hlo_cli.report.report import Part
    from hlo_cli.report.table import Cell, Row

_LONGEST = 60
_STEPS = (
    Column("operation", "step", "opcode"),
    Column("axis", "axis", rank=7),
    Column("group_size", "n", "count"),
    Column("operand_bytes", "operand", "bytes"),
    Column("wire_bytes", "sends", "bytes", total="sum"),
    Column("remark", "", "text", rank=5),
    Column("operand_shape", "operand", "shape", rank=3, from_width=120),
    Column("dimensions", "dimensions", "index", person=False),
    Column("moving_devices", "senders", "count", person=False),
)


def steps_table(
    steps: Sequence[ReshardStep], mesh: Mesh | None = None, *, name: str = "steps", title: str = "", main: bool = True
) -> Table:
    """One row for each step, with its group size, its bytes, and what it does; axes are those of the mesh."""
    columns = _STEPS if mesh is not None else tuple(column for column in _STEPS if column.name != "axis")
    rows = [_row(step, mesh) for step in steps]
    if mesh is None:
        rows = [(*row[:1], *row[2:]) for row in rows]
    return Table(name, columns, tuple(rows), title=title, noun="steps", main=main)


def _row(step: ReshardStep, mesh: Mesh | None) -> Row:
    operand = step.operand.to_string(layout=False)
    group = step.group_size if step.is_collective else None
    senders = step.moving_devices if step.is_collective else None
    axis = _axis(step, mesh) if mesh is not None else None
    sizes = (step.operand_bytes, step.sent_bytes)
    return (step.operation, axis, group, *sizes, _remark(step), operand, step.dimensions, senders)


def _axis(step: ReshardStep, mesh: Mesh) -> Cell:
    """The mesh axes along which devices exchange, or the shifts of a permute; unknown if the mesh has none."""
    if not step.is_collective:
        return None
    groups = step.groups
    if groups is None:
        return UNKNOWN
    if step.operation == opcodes.COLLECTIVE_PERMUTE and not step.dimensions:
        shifts = axes_of_pairs(tuple((pair[0], pair[1]) for pair in groups), mesh)
        return ",".join(map(str, shifts)) if shifts else UNKNOWN
    axes = axes_of_groups(groups, mesh)
    return axes_text(axes) if axes else UNKNOWN


def _remark(step: ReshardStep) -> str:
    if step.operation == opcodes.ALL_TO_ALL:
        ends = zip(step.dimensions[::2], step.dimensions[1::2], strict=True)
        return "dimension " + ", ".join(f"{source} to {target}" for source, target in ends)
    if step.operation == opcodes.COLLECTIVE_PERMUTE:
        moving = f"{step.moving_devices:,} of {format_count(step.devices, 'devices')} send"
        return f"{moving}, edges of dimension {step.dimensions[0]}" if step.dimensions else moving
    if not step.dimensions:
        return "the whole array"
    return ("dimensions " if len(step.dimensions) > 1 else "dimension ") + ", ".join(map(str, step.dimensions))


def ends_facts(direct: Resharding, mesh: Mesh | None) -> Facts:
    """Both shardings, with what a device holds in each."""
    return Facts(
        "shardings",
        (
            _end("from", direct.source_shard, direct.source, mesh),
            _end("to", direct.target_shard, direct.target, mesh),
        ),
    )


def _end(label: str, shard: ArrayShape, placement: Placement, mesh: Mesh | None) -> Fact:
    shape = shard.to_string(layout=False)
    copies = f" in {placement.copies:,} copies" if placement.copies > 1 else ""
    remark = f"{shape}{copies}  {placement_text(placement, mesh, shard.rank)}"
    return Fact(label, (Amount("bytes", shard.logical_bytes, "bytes"),), remark, is_whole=True)


def placement_text(placement: Placement, mesh: Mesh | None, rank: int) -> str:
    """A sharding as a PartitionSpec if the mesh explains it, else as XLA prints it, shortened if it is long."""
    if mesh is not None and (placement.is_tiled or placement.copies > 1):
        spec = partition_spec(placement, mesh)
        if spec is not None:
            return spec_text(spec, rank=rank)
    return short_text(str(sharding_of_placement(placement)))


def short_text(text: str) -> str:
    """A sharding without most of a long list of devices.

    >>> short_text("{devices=[4]0,1,2,3}")
    '{devices=[4]0,1,2,3}'
    """
    if len(text) <= _LONGEST or "<=" in text:
        return text
    head, _, tail = text.partition("]")
    devices, space, rest = tail.partition(" ")
    return f"{head}]{','.join(devices.split(',')[:4])},…{space}{rest}{'' if space else '}'}"


def detour_parts(direct: Resharding, detour: Detour, mesh: Mesh | None, *, value: str = "x") -> list[Part]:
    """The way through another sharding: its bytes, its steps, and the line of code that takes it."""
    rank = direct.shape.rank
    named = mesh or mesh_for((detour.by, direct.source, direct.target), direct.devices)
    saves = f"{format_bytes(detour.sent_bytes)} instead of {format_bytes(direct.sent_bytes)}"
    if direct.problem:
        saves = format_bytes(detour.sent_bytes)
    elif detour.sent_bytes >= direct.sent_bytes:
        saves = f"{format_bytes(detour.sent_bytes)} as well, but without the warning"
    title = f"through {placement_text(detour.by, mesh, rank)}: a device sends {saves}"
    steps = (*detour.first.steps, *detour.second.steps)
    return [
        steps_table(steps, mesh, name="detour", title=title, main=False),
        Passage("constraint", (_constraint(detour.by, named, rank, value, is_given=mesh is not None),)),
    ]


def _constraint(by: Placement, mesh: Mesh | None, rank: int, value: str, *, is_given: bool) -> Text:
    """The call of with_sharding_constraint, over the given mesh or one that is made up."""
    spec = partition_spec(by, mesh) if mesh is not None else None
    if mesh is None or spec is None:
        return ("Apply ", Run(str(sharding_of_placement(by)), "name"), " to the value between the two shardings.")
    code = f"{value} = jax.lax.with_sharding_constraint({value}, {spec_text(spec, rank=rank)})"
    if has_parts(spec):
        return (Run(code, "name"), ", after splitting the axis in the mesh: a part of an axis has no PartitionSpec.")
    if is_given:
        return (Run(code, "name"),)
    order = "" if mesh.device_ids is None else ", in the order of the device list"
    return (Run(code, "name"), f" where the mesh is {mesh_text(mesh)}{order}")
