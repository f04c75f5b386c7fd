"""Equal resharding warnings as one, with both shardings, the instruction, and the steps of the partitioner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Final

from hlo_cli.analysis.sharding.placement import Placement, placement_of, shard_shape, whole_sizes
from hlo_cli.analysis.sharding.reshard import Resharding, reshard
from hlo_cli.commands.modules.quoted import FoundInstruction, instructions_in, read_cut_instruction
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, ShardingType
from hlo_cli.ir.compiler_messages import ReshardingWarning
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_files.compiler_warnings import parse_resharding_warnings
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

AnySharding = Sharding | NamedSharding

_ELISIONS: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")
_MOST_ELEMENTS: Final = 1 << 40


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


def warned_reshards(warnings: Sequence[ReshardingWarning]) -> list[WarnedReshard]:
    """Warnings with the same shardings and shape once, the largest array first."""
    groups = defaultdict[tuple[str, ...], list[ReshardingWarning]](list)
    read = dict[str, FoundInstruction | None]()
    for warning in warnings:
        if warning.operation not in read:
            found = next(iter(instructions_in(warning.operation)), None)
            read[warning.operation] = found or read_cut_instruction(warning.operation)
        each = read[warning.operation]
        shape = str(each.instruction.shape) if each is not None else ""
        groups[_key(warning, shape, groups)].append(warning)
    reshards = [_warned(group, read) for group in groups.values()]
    return sorted(reshards, key=lambda each: -_size(each))


def first_warned(text: str) -> WarnedReshard | None:
    """The warning about the largest array of a text, None without one."""
    groups = warned_reshards(parse_resharding_warnings(text))
    return groups[0] if groups else None


def _size(each: WarnedReshard) -> int:
    shape = each.whole or (each.found.array if each.found is not None else None)
    return shape.logical_bytes if shape is not None else 0


def _key(warning: ReshardingWarning, shape: str, known: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What equal warnings have in common; one whose end is cut equals the first that begins like it."""
    key = (warning.before, warning.after, shape)
    if warning.before and not warning.after.endswith("}"):
        return next((each for each in known if each[0] == key[0] and each[1].startswith(key[1])), key)
    return key


def _warned(group: Sequence[ReshardingWarning], read: Mapping[str, FoundInstruction | None]) -> WarnedReshard:
    """The warnings of a group; the instruction is the first one that names its origin."""
    warning = max(group, key=lambda each: bool(one.op_name or one.source) if (one := read[each.operation]) else False)
    found = read[warning.operation]
    part = found.array if found is not None else None
    rank = part.rank if part is not None else None
    (before, remarks), (after, more) = _read(group[0].before, rank), _read(group[0].after, rank)
    result = WarnedReshard(len(group), warning, before, after, found, remarks=tuple(dict.fromkeys(remarks + more)))
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
    if size**rank > _MOST_ELEMENTS:
        size = lcm(*before.parts, *after.parts)
    return ArrayShape(PRIMITIVE_TYPES["u8"], (size,) * rank, (False,) * rank, Layout(tuple(range(rank))[::-1]))


def _read(text: str, rank: int | None) -> tuple[Sharding | NamedSharding | None, tuple[str, ...]]:
    """The sharding, or None, and remarks on what is elided; at its end that can only be the copies."""
    for mark in _ELISIONS:
        if (text.endswith((f" {mark}}}", f"]{mark}}}")) and "<=" in text) or text.endswith(f" {mark}}}"):
            text = text[: -len(mark) - 1].rstrip() + "}"
            if rank is not None and text.partition("[")[2].partition("]")[0].count(",") == rank:
                text = f"{text[:-1]} last_tile_dim_replicate}}"
    try:
        given = read_given_sharding(text)
    except HloError:
        return None, ()
    sharding = given.sharding
    return (sharding, given.remarks) if isinstance(sharding, Sharding | NamedSharding) else (None, ())


def is_maximal(sharding: Sharding | NamedSharding | None) -> bool:
    """Whether one device holds the whole array."""
    return isinstance(sharding, Sharding) and sharding.type is ShardingType.MAXIMAL
