"""What is asked of `hlo memspace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo_cli.analysis.memory import Memory, Space
from hlo_cli.report.choice import not_among
from hlo_cli.source import HloError
from hlo_cli.syntax.sizes import parse_size

EVERY_SPACE = "all"


@dataclass(frozen=True, slots=True)
class Wish:
    """Which memory, at which moment, in which rows, and what it must fit into."""

    space: str | None = None
    at: str | None = None
    value: str | None = None
    grouping: str = "value"
    where: str | None = None
    limit_bytes: int | None = None
    chip: str | None = None


def wish_of(options: dict[str, object]) -> Wish:
    """The options of the command that are its own, taken out of them."""
    limit = options.pop("limit")
    taken = {name: options.pop(name) for name in ("space", "at", "value", "grouping", "where", "chip")}
    texts = {name: value if isinstance(value, str) else None for name, value in taken.items()}
    if texts["at"] is not None and texts["value"] is not None:
        raise HloError("--at and --value are two questions", hint="ask them one after the other")
    if limit is not None and texts["chip"] is not None:
        raise HloError("--limit and --chip are two limits", hint="give one of them")
    return Wish(
        space=texts["space"],
        at=texts["at"],
        value=texts["value"],
        grouping=texts["grouping"] or "value",
        where=texts["where"],
        chip=texts["chip"],
        limit_bytes=parse_size(limit) if isinstance(limit, str) else None,
    )


def chosen_spaces(memory: Memory, wanted: str | None) -> tuple[Space, ...]:
    """The spaces that a name, a number or `all` stands for; without any, the one that is fullest at its peak."""
    if not memory.spaces:
        return ()
    if wanted is None:
        return (max(memory.spaces, key=lambda space: (space.peak_bytes, -space.number)),)
    if wanted == EVERY_SPACE:
        return memory.spaces
    number = wanted.removeprefix("S(").removesuffix(")")
    for space in memory.spaces:
        if wanted.lower() == space.name.lower() or number == str(space.number):
            return (space,)
    raise _no_space(memory.spaces, wanted)


def step_of(memory: Memory, name: str) -> int:
    """When the instruction of a name runs; an error for one that has no step of its own."""
    instruction = memory.module.instruction(name)
    if instruction not in memory.positions:
        where = f"{instruction.name} runs inside a kernel, in {instruction.computation.name}"
        raise HloError(where, hint="ask for the instruction that calls it")
    return memory.positions[instruction]


def _no_space(spaces: Sequence[Space], wanted: str) -> HloError:
    return not_among("space", wanted, (space.name for space in spaces))
