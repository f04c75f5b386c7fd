"""Equal resharding warnings as one, with both shardings, the instruction, and the cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hlo_cli.analysis.full_rematerialization import FullRematerialization, full_rematerialization
from hlo_cli.analysis.sharding_tiles import ShardingTiles, sharding_tiles
from hlo_cli.commands.pasted.instructions import FoundInstruction, instructions_in, read_cut_instruction
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding
from hlo_cli.ir.compiler_files.resharding import ReshardingWarning
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError
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


def resharding_groups(warnings: Sequence[ReshardingWarning]) -> list[Resharding]:
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
