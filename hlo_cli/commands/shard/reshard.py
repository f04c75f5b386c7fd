"""How does an array get from one sharding to another? The collectives of `--to`, and `--warning` about a copy."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.sharding.meshes import axes_of_groups, axes_of_pairs, axes_text, mesh_words
from hlo_cli.analysis.sharding.placement import (
    Placement,
    array_of,
    has_parts,
    partition_spec,
    placement_of,
    shard_shape,
    sharded_array,
    sharding_of_placement,
    spec_text,
    whole_sizes,
)
from hlo_cli.analysis.sharding.reshard import (
    VERSION,
    Detour,
    Resharding,
    ReshardStep,
    find_detour,
    mesh_for,
    nearest_without_collectives,
    reshard,
)
from hlo_cli.commands.modules.quoted import FoundInstruction, instructions_in, read_cut_instruction
from hlo_cli.commands.shard.array import grid_figure, quoted_argument
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.unwrapping import plain_lines
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import Mesh, NamedSharding, Sharding, ShardingType
from hlo_cli.ir.compiler_messages import ReshardingWarning
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage, Run, Text
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_messages.compiler_warnings import parse_resharding_warnings
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

if TYPE_CHECKING:
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions


# --- steps in tables and sentences ---


_MAX_LENGTH = 60  # a sharding beside the words of a sentence; iota forms with `<=` are short anyway
_STEPS: Final[tuple[Column[ReshardStep, Mesh | None], ...]] = (
    Column("operation", "step", "opcode", of=lambda step, mesh: step.operation),
    Column("axis", "axis", rank=7, of=lambda step, mesh: _axis(step, mesh) if mesh is not None else None),
    Column("group_size", "n", "count", of=lambda step, mesh: step.group_size if step.is_collective else None),
    Column("operand_bytes", "operand", "bytes", of=lambda step, mesh: step.operand_bytes),
    Column("wire_bytes", "sends", "bytes", total="sum", of=lambda step, mesh: step.sent_bytes),
    Column("remark", "", "text", rank=5, of=lambda step, mesh: _remark(step)),
    Column("operand_shape", "operand", "shape", rank=3, from_width=120,
           of=lambda step, mesh: step.operand.to_string(layout=False)),
    Column("dimensions", "dimensions", "index", person=False, of=lambda step, mesh: step.dimensions),
    Column("moving_devices", "senders", "count", person=False,
           of=lambda step, mesh: step.moving_devices if step.is_collective else None),
)  # fmt: skip


def _steps_table(
    steps: Sequence[ReshardStep], mesh: Mesh | None = None, *, name: str = "steps", title: str = "", main: bool = True
) -> Table:
    """One row for each step, with its group size, its bytes, and what it does; axes are those of the mesh."""
    columns = _STEPS if mesh is not None else tuple(column for column in _STEPS if column.name != "axis")
    rows = rows_from_tuples(columns, ((step, mesh) for step in steps))
    return Table(name, columns, rows, title=title, noun="steps", main=main)


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


def _ends_facts(direct: Resharding, mesh: Mesh | None) -> Facts:
    """Both shardings, with what a device holds in each."""
    return Facts(
        "shardings",
        (
            _end_fact("from", direct.source_shard, direct.source, mesh),
            _end_fact("to", direct.target_shard, direct.target, mesh),
        ),
    )


def _end_fact(label: str, shard: ArrayShape, placement: Placement, mesh: Mesh | None) -> Fact:
    shape = shard.to_string(layout=False)
    copies = f" in {placement.copies:,} copies" if placement.copies > 1 else ""
    remark = f"{shape}{copies}  {_placement_text(placement, mesh, shard.rank)}"
    return Fact(label, (Amount("bytes", shard.logical_bytes, "bytes"),), remark, is_whole=True)


def _placement_text(placement: Placement, mesh: Mesh | None, rank: int) -> str:
    """A sharding as a PartitionSpec if the mesh explains it, else as XLA prints it, shortened if it is long."""
    if mesh is not None and (placement.is_tiled or placement.copies > 1):
        spec = partition_spec(placement, mesh)
        if spec is not None:
            return spec_text(spec, rank=rank)
    return _short_text(str(sharding_of_placement(placement)))


def _short_text(text: str) -> str:
    """A sharding without most of a long list of devices.

    >>> _short_text("{devices=[4]0,1,2,3}")
    '{devices=[4]0,1,2,3}'
    """
    if len(text) <= _MAX_LENGTH or "<=" in text:
        return text
    head, _, tail = text.partition("]")
    devices, space, rest = tail.partition(" ")
    return f"{head}]{','.join(devices.split(',')[:4])},…{space}{rest}{'' if space else '}'}"


def _detour_parts(direct: Resharding, detour: Detour, mesh: Mesh | None, *, value: str = "x") -> list[Part]:
    """The way through another sharding: its bytes, its steps, and the line of code that takes it."""
    rank = direct.shape.rank
    named = mesh or mesh_for((detour.by, direct.source, direct.target), direct.devices)
    saves = f"{format_bytes(detour.sent_bytes)} instead of {format_bytes(direct.sent_bytes)}"
    if direct.problem:
        saves = format_bytes(detour.sent_bytes)
    elif detour.sent_bytes >= direct.sent_bytes:
        saves = f"{format_bytes(detour.sent_bytes)} as well, but without the warning"
    title = f"through {_placement_text(detour.by, mesh, rank)}: a device sends {saves}"
    steps = (*detour.first.steps, *detour.second.steps)
    return [
        _steps_table(steps, mesh, name="detour", title=title, main=False),
        Passage("constraint", (_constraint_text(detour.by, named, rank, value, is_given=mesh is not None),)),
    ]


def _constraint_text(by: Placement, mesh: Mesh | None, rank: int, value: str, *, is_given: bool) -> Text:
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
    return (Run(code, "name"), f" where the mesh is {mesh_words(mesh)}{order}")


# --- --to: the collectives ---
# `hlo shard SHAPE SHARDING --to SHARDING`: the collectives that take an array from one sharding to another.


def report_of_steps(given: GivenArray) -> Report:
    """The steps with their bytes, and the nearest sharding that needs none."""
    if given.target is None:
        raise HloError("--to requires a sharding")
    count = given.mesh.device_count if given.mesh is not None else None
    direct = reshard(array_of(given.shape), given.sharding, given.target, device_count=count)
    detour = find_detour(direct, given.mesh)
    near = nearest_without_collectives(direct)
    parts: list[Part] = [_ends_facts(direct, given.mesh)]
    if direct.steps:
        parts.append(_steps_table(direct.steps, given.mesh))
    if detour is not None:
        parts += _detour_parts(direct, detour, given.mesh)
    if direct.collectives:
        parts.append(Passage("nearest", (_nearest_words(direct, near, given),)))
    return Report(
        "shard",
        answer_of(direct),
        version=1,
        numbers={**numbers_of(direct, detour), **_nearest_numbers(direct, near)},
        parts=tuple(parts),
        next=_next_commands(given),
        notes=(*given.notes, *notes_of(direct, detour)),
    )


def answer_of(direct: Resharding) -> str:
    """The answer in one sentence.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> answer_of(reshard(parse_shape("f32[8]"), sharding_of("{devices=[4]<=[4]}"), sharding_of("{replicated}")))
    '1 collective: a device sends 24 B to hold 32 B'
    """
    shape, part = direct.shape.to_string(layout=False), format_bytes(direct.target_shard.logical_bytes)
    if direct.problem:
        return f"No steps are known: {direct.problem}"
    if direct.is_full_rematerialization:
        whole = format_bytes(direct.shape.logical_bytes)
        return f"Full rematerialization: every device gathers all of {shape}, {whole}, to keep {part} of it"
    if direct.source == direct.target:
        return f"Both shardings place {shape} identically: nothing to reshard"
    if not direct.collectives:
        return f"No collective is needed: a device keeps {part} of what it holds"
    count = format_count(len(direct.collectives), "collectives")
    return f"{count}: a device sends {format_bytes(direct.sent_bytes)} to hold {part}"


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


def _nearest_words(direct: Resharding, near: Resharding | None, given: GivenArray) -> str:
    if near is None:
        reason = "no slice of the copies is nearer" if direct.source.copies > 1 else "devices have no copies to slice"
        return f"Without a collective, the sharding stays as it is: {reason}."
    text = _placement_text(near.source, given.mesh, direct.shape.rank)
    rest = format_bytes(near.sent_bytes) if near.collectives else "nothing"
    return f"The nearest sharding without a collective is {text}; from it, a device sends {rest}."


def _next_commands(given: GivenArray) -> tuple[str, ...]:
    first = " ".join(map(quoted_argument, given.text[:2]))
    return (f"hlo shard {first}",) if len(first) <= 100 else ("hlo help sharding",)


# --- what a warning says ---


AnySharding = Sharding | NamedSharding

_ELISIONS: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")
_MAX_ELEMENTS: Final = 1 << 40  # a TiB of u8: beyond that, sizes need only be multiples of the parts


@dataclass(frozen=True, slots=True)
class WarnedReshard:
    """Equal warnings: their number, both shardings, the instruction, and what is known of the array.

    The shape in a warning is the `part` of one device before; `whole` is an upper bound if parts are uneven. `direct`
    are the steps, of an array of unknown sizes if the text has no shape. `problem` is why they are unknown, and
    `remarks` are what was not in the text.
    """

    count: int
    warning: ReshardingWarning
    before: Sharding | NamedSharding | None
    after: Sharding | NamedSharding | None
    found: FoundInstruction | None
    part: ArrayShape | None = None
    whole: ArrayShape | None = None
    direct: Resharding | None = None
    problem: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def part_after(self) -> ArrayShape | None:
        """What a device holds after, if it is known."""
        if self.whole is None or self.after is None:
            return None
        placement = placement_of(self.after)
        is_fitting = not placement.is_tiled or len(placement.parts) == self.whole.rank
        return shard_shape(self.whole, placement) if is_fitting else None

    @property
    def received_bytes(self) -> int | None:
        """The bytes that each device receives to hold the whole array."""
        return None if self.whole is None or self.part is None else self.whole.logical_bytes - self.part.logical_bytes

    @property
    def is_in_group(self) -> bool:
        """Whether the instruction is a copy that the partitioner made, so that devices may count inside of a group."""
        return (
            self.found is not None
            and self.found.instruction.opcode == opcodes.COPY
            and self.found.name.startswith(opcodes.COPY)
        )


def _warned_reshards(warnings: Sequence[ReshardingWarning]) -> list[WarnedReshard]:
    """Warnings with the same shardings and shape once, the largest array first."""
    groups = defaultdict[tuple[str, ...], list[ReshardingWarning]](list)
    read = dict[str, FoundInstruction | None]()
    for warning in warnings:
        if warning.operation not in read:
            instruction_in_text = next(iter(instructions_in(warning.operation)), None)
            read[warning.operation] = instruction_in_text or read_cut_instruction(warning.operation)
        instruction = read[warning.operation]
        shape = str(instruction.instruction.shape) if instruction is not None else ""
        groups[_key(warning, shape, groups)].append(warning)
    reshards = [_warned_reshard(group, read) for group in groups.values()]
    return sorted(reshards, key=lambda instruction: -_whole_bytes(instruction))


def first_warned(text: str) -> WarnedReshard | None:
    """The warning about the largest array of a text, None without one."""
    groups = _warned_reshards(parse_resharding_warnings(text))
    return groups[0] if groups else None


def _whole_bytes(reshard_warning: WarnedReshard) -> int:
    shape = reshard_warning.whole or (reshard_warning.found.array if reshard_warning.found is not None else None)
    return shape.logical_bytes if shape is not None else 0


def _key(warning: ReshardingWarning, shape: str, known: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What equal warnings have in common; one whose end is cut equals the first that begins like it."""
    key = (warning.before, warning.after, shape)
    # Logs cut long lines off; the same warning is often whole on another line.
    if warning.before and not warning.after.endswith("}"):
        return next((each for each in known if each[0] == key[0] and each[1].startswith(key[1])), key)
    return key


def _warned_reshard(group: Sequence[ReshardingWarning], read: Mapping[str, FoundInstruction | None]) -> WarnedReshard:
    """The warnings of a group; the instruction is the first one that names its origin."""
    warning = max(group, key=lambda each: bool(one.op_name or one.source) if (one := read[each.operation]) else False)
    instruction = read[warning.operation]
    part = instruction.array if instruction is not None else None
    rank = part.rank if part is not None else None
    (before, remarks), (after, more) = _read_elided(group[0].before, rank), _read_elided(group[0].after, rank)
    result = WarnedReshard(
        len(group), warning, before, after, instruction, remarks=tuple(dict.fromkeys(remarks + more))
    )
    if before is None:
        return result
    try:
        return _with_steps(result, part, placement_of(before), placement_of(after) if after is not None else None)
    except HloError as error:
        return replace(result, problem=error.diagnostic.message)


def _with_steps(
    result: WarnedReshard, part: ArrayShape | None, before: Placement, after: Placement | None
) -> WarnedReshard:
    """The warning with the sizes of the array, and with the steps if both shardings are known."""
    whole = None
    if part is not None:
        sizes = whole_sizes(part.sizes, before)
        if sizes is None:
            dimensions = format_count(len(before.parts), "dimensions")
            return replace(result, problem=f"the sharding divides {dimensions}, but the result has {part.rank}")
        whole = replace(part, dimensions=sizes)
    known = replace(result, part=part if whole is not None else None, whole=whole)
    if after is None:
        return known
    try:
        shape = whole or _unknown_shape(before, after)
        return replace(known, direct=reshard(shape, before, after))
    except HloError as error:
        return replace(known, problem=error.diagnostic.message)


def _unknown_shape(before: Placement, after: Placement) -> ArrayShape:
    """An array that all parts divide evenly, for steps whose bytes are unknown."""
    ranks = {len(each.parts) for each in (before, after) if each.is_tiled}
    if len(ranks) != 1:
        raise HloError("the shardings divide different numbers of dimensions")
    size = lcm(*before.parts, *after.parts, len(before.devices) or len(after.devices))
    rank = ranks.pop()
    if size**rank > _MAX_ELEMENTS:
        # Divisible by the number of devices as well, if that does not make the array absurdly large: no step pads
        # then.
        size = lcm(*before.parts, *after.parts)
    return ArrayShape(PRIMITIVE_TYPES["u8"], (size,) * rank, (False,) * rank, Layout(tuple(range(rank))[::-1]))


def _read_elided(text: str, rank: int | None) -> tuple[Sharding | NamedSharding | None, tuple[str, ...]]:
    """The sharding, or None, and remarks on what is elided; at its end that can only be the copies."""
    for mark in _ELISIONS:
        if (text.endswith((f" {mark}}}", f"]{mark}}}")) and "<=" in text) or text.endswith(f" {mark}}}"):
            text = text[: -len(mark) - 1].rstrip() + "}"
            if rank is not None and text.partition("[")[2].partition("]")[0].count(",") == rank:
                text = f"{text[:-1]} last_tile_dim_replicate}}"
    try:
        read = read_given_sharding(text)
    except HloError:
        return None, ()
    sharding = read.sharding
    return (sharding, read.remarks) if isinstance(sharding, Sharding | NamedSharding) else (None, ())


def is_maximal(sharding: Sharding | NamedSharding | None) -> bool:
    """Whether one device holds the whole array."""
    return isinstance(sharding, Sharding) and sharding.type is ShardingType.MAXIMAL


# --- tables of a warning ---


_WARNINGS: Final[tuple[Column[WarnedReshard], ...]] = (
    Column("warnings", "warnings", "count", total="sum", of=lambda group: group.count),
    Column("whole_bytes", "whole", "bytes", of=lambda group: _data_bytes(group.whole)),
    Column("part_bytes_before", "part from", "bytes", of=lambda group: _data_bytes(group.part)),
    Column("part_bytes_after", "part to", "bytes", of=lambda group: _data_bytes(group.part_after)),
    Column("instruction", "instruction", "name", role="name",
           of=lambda group: group.found.name or group.found.instruction.opcode if group.found else None),
    Column("shape", "whole shape", "shape", of=lambda group: _whole_shape(group)),
    Column("before", "from", rank=5, of=lambda group: group.warning.before or None),
    Column("after", "to", rank=5, of=lambda group: group.warning.after or None),
    Column("op_name", "op_name", "op_name", rank=3,
           of=lambda group: group.found.op_name or None if group.found else None),
    Column("source", "source", "source", rank=4, of=lambda group: group.found.source or None if group.found else None),
)  # fmt: skip


def _cost_facts(first: WarnedReshard) -> Facts:
    """The bytes on each device before, between, and after, with both shardings."""
    where = f"device {_device(first.before)} only" if is_maximal(first.before) else ""
    facts = [
        _part_fact("from", first.part, _short_text(first.warning.before), where),
        _part_fact("gathered", first.whole, "", "every device"),
        _part_fact("to", first.part_after, _short_text(first.warning.after)),
    ]
    if received := first.received_bytes:
        facts.append(Fact("received", (Amount("bytes", received, "bytes"),), "by every device"))
    return Facts("cost", tuple(facts))


def _device(sharding: Sharding | NamedSharding | None) -> int | None:
    return sharding.device if isinstance(sharding, Sharding) else None


def _part_fact(label: str, part: ArrayShape | None, sharding: str, where: str = "") -> Fact:
    if part is None:
        return Fact(label, (Amount("bytes", UNKNOWN, "bytes"),), sharding, is_whole=True)
    remark = "  ".join(filter(None, (part.to_string(layout=False), where and f"on {where}", sharding)))
    return Fact(label, (Amount("bytes", part.logical_bytes, "bytes"),), remark, is_whole=True)


def _drawings(first: WarnedReshard, mesh: Mesh | None) -> list[Figure]:
    """Both shardings, drawn as grids of devices."""
    figures = list[Figure]()
    if first.whole is None:
        return figures
    for label, sharding in (("from", first.before), ("to", first.after)):
        if sharding is None:
            continue
        try:
            array = sharded_array(first.whole, sharding, mesh)
            figure = grid_figure(array, array.shards())
        except HloError:
            continue
        if figure is not None:
            figures.append(replace(figure, name=label, title=label))
    return figures


def _dimensions_table(first: WarnedReshard) -> Table:
    """The size and the number of parts of each dimension before and after."""
    sizes = first.whole.sizes if first.whole is not None else ()
    columns = (
        Column("dimension", "dimension", "name", of=lambda d, size: str(d)),
        Column("size", "size", "count", of=lambda d, size: size),
        Column("parts_before", "parts", "count", group="from", of=lambda d, size: _parts_of_dimension(first.before, d)),
        Column("part_before", "size", "count", group="from", of=lambda d, size: _size_of_dimension(first.part, d)),
        Column("parts_after", "parts", "count", group="to", of=lambda d, size: _parts_of_dimension(first.after, d)),
        Column("part_after", "size", "count", group="to", of=lambda d, size: _size_of_dimension(first.part_after, d)),
    )
    rows = rows_from_tuples(columns, enumerate(sizes))
    return Table("dimensions", columns, rows, noun="dimensions", main=False, person=False)


def _parts_of_dimension(sharding: Sharding | NamedSharding | None, dimension: int) -> Cell:
    if sharding is None:
        return UNKNOWN
    parts = placement_of(sharding).parts
    return parts[dimension] if dimension < len(parts) else 1


def _size_of_dimension(part: ArrayShape | None, dimension: int) -> Cell:
    return UNKNOWN if part is None else part.sizes[dimension]


def _warnings_table(groups: Sequence[WarnedReshard], *, person: bool) -> Table:
    """One row for equal warnings."""
    return Table("warnings", _WARNINGS, rows_from(_WARNINGS, groups), noun="kinds", limit=10, person=person)


def _data_bytes(shape: ArrayShape | None) -> Cell:
    return UNKNOWN if shape is None else shape.logical_bytes


def _whole_shape(group: WarnedReshard) -> str | None:
    shape = group.whole or (group.found.array if group.found is not None else None)
    return shape.to_string(layout=False) if shape is not None else None


# --- --warning ---
# `hlo shard --warning`: what full rematerialization costs, and which sharding would avoid it.


_MARKS_OF_TEXT: Final = ("nvoluntary", "\n", "{devices=", "[spmd]", "[SPMD]")


def report_of_warning(options: ShardOptions) -> Report:
    """The answer to the warnings in a text, in a file, or on standard input."""
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

    # A path has none of these, the text of a warning has at least one.
    if argument != "-" and any(sign in argument for sign in _MARKS_OF_TEXT):
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
    groups = _warned_reshards(warnings)
    first = groups[0]
    in_group = _group_note(first, mesh)
    mesh = _named_mesh(first) if in_group or mesh is None else mesh
    detour = find_detour(first.direct, mesh) if first.direct is not None else None
    return Report(
        command,
        _warning_answer(groups, len(warnings)),
        version=1 if command == "shard" else 2,
        numbers=_warning_numbers(groups, len(warnings), detour),
        parts=tuple(_warning_parts(groups, detour, mesh)),
        next=("hlo help sharding",),
        notes=(*in_group, *_warning_notes(first, detour)),
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


def _warning_parts(groups: Sequence[WarnedReshard], detour: Detour | None, mesh: Mesh | None) -> list[Part]:
    first = groups[0]
    parts: list[Part] = []
    if first.whole is not None:
        parts += [_cost_facts(first), *_drawings(first, mesh), _dimensions_table(first)]
    if first.direct is not None and first.direct.steps:
        # The log may be of another version: then the steps of ours are shown as what they are.
        title = "" if first.direct.is_full_rematerialization else f"steps of {VERSION}, which does not warn"
        parts.append(_without_unknown_bytes(_steps_table(first.direct.steps, mesh, title=title, main=False), first))
    parts.append(_warnings_table(groups, person=len(groups) > 1))
    if first.direct is not None and detour is not None and _is_better(first.direct, detour):
        steps, constraint = _detour_parts(first.direct, detour, mesh)
        parts += [_without_unknown_bytes(steps, first) if isinstance(steps, Table) else steps, constraint]
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


def _without_unknown_bytes(table: Table, first: WarnedReshard) -> Table:
    """The steps, without bytes if the text has no shape."""
    if first.whole is not None:
        return table
    sizes = {table.column_index(name) for name in ("operand_bytes", "wire_bytes", "operand_shape")}
    rows = tuple(tuple(UNKNOWN if column in sizes else cell for column, cell in enumerate(row)) for row in table.rows)
    title = table.title.partition(": ")[0] if table.name == "detour" else table.title
    return replace(table, rows=rows, title=title)


def _warning_numbers(groups: Sequence[WarnedReshard], count: int, detour: Detour | None) -> dict[str, Cell]:
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


def _warning_answer(groups: Sequence[WarnedReshard], count: int) -> str:
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


def _warning_notes(first: WarnedReshard, detour: Detour | None) -> list[Diagnostic]:
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
