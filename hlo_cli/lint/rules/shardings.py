"""HLO08x: shardings."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AnySharding, MaximalMesh, NamedSharding, Sharding, TupleSharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_OPCODES, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError

_OF_DATA: Final = HOST_FEEDS | CHANNEL_OPCODES
_MARK: Final = "sharding={"


@rule("HLO080", "sharding invalid for shape")
def invalid_sharding(context: LintContext) -> Iterator[Finding]:
    """The sharding has a different number of tiles, dimensions, or leaves than the shape, or refers to devices that do
    not exist.

    Why: The partitioner splits each array along its dimensions and assigns each part to one device.

    Example:
        x = f32[4,2] parameter(0), sharding={devices=[2,2,1]0,1,2,3}

    Fix: List one number per dimension (plus last_tile_dims) and each device once; for tuples, one sharding per leaf.

    Reference: HloSharding::Validate in xla/hlo/ir/hlo_sharding.cc
    """
    problems: dict[tuple[str, str], str | None] = {}
    for instruction in context.with_attribute_text(_MARK):
        if instruction.opcode in _OF_DATA:  # theirs describes the transferred data, not the token
            continue
        key = (instruction.attribute("sharding") or "", str(instruction.shape))
        if key not in problems:
            sharding = instruction.sharding
            problems[key] = _problem(context, sharding, instruction.shape) if sharding is not None else None
        if (message := problems[key]) is not None:
            yield context.finding(
                f"{instruction.name}: {message}", instruction, attribute_span(instruction, "sharding")
            )


@rule("HLO081", "inconsistent sharding across loop or branches")
def inconsistent_sharding(context: LintContext) -> Iterator[Finding]:
    """The sharding differs between a loop, its body, and its condition, or between a conditional and its branches.

    Why: A loop-carried value must be on the same devices in every iteration, and the result of a conditional has the
    same sharding whichever branch runs.

    Example:
        c = f32[4] conditional(p, x, x), branch_computations={a, b}, sharding={maximal device=0}

    Fix: Use the same sharding on the loop, the root and parameter of its body, and the parameter of its condition; or
    on the conditional and the roots of its branches.

    Reference: CheckWhileInstruction… and "Inconsistent conditional sharding" in xla/service/hlo_verifier.cc
    """
    if _MARK not in context.module.source.text and context.module.source.text:
        return
    for caller in context.of(opcodes.WHILE, opcodes.CONDITIONAL):
        shardings = [(each, each.attribute("sharding")) for each in _with_equal_shardings(caller)]
        first = next((pair for pair in shardings if pair[1] is not None), None)
        for each, text in shardings if first is not None else ():
            if text is not None and first is not None and each.sharding != first[0].sharding:
                message = f"{_path(each)} has sharding {text}, but {_path(first[0])} has {first[1]}"
                yield context.finding(message, each, attribute_span(each, "sharding"))


def _path(instruction: Instruction) -> str:
    return f"{instruction.computation.name}/{instruction.name}"


def _with_equal_shardings(caller: Instruction) -> Iterator[Instruction]:
    yield caller
    for position, called in enumerate(caller.called_computations):
        if called.root is not None and (caller.opcode == opcodes.CONDITIONAL or position == 0):
            yield called.root
        if caller.opcode == opcodes.WHILE:
            yield from called.parameters[:1]


def _problem(context: LintContext, sharding: AnySharding, shape: Shape) -> str | None:
    leaves: list[Shape] = [leaf for _, leaf in shape.leaves] or [shape]
    if isinstance(sharding, TupleSharding):
        elements = sharding.elements
        if not isinstance(shape, TupleShape):
            return f"tuple sharding on non-tuple shape {shape}"
        if len(elements) != len(leaves):
            number = "1 leaf" if len(leaves) == 1 else f"{len(leaves):,} leaves"
            return f"the tuple has {number} but {format_count(len(elements), 'shardings')}"
    else:
        elements = (sharding,) * len(leaves)  # one applies to all leaves
    found = (_leaf_problem(context, each, leaf) for each, leaf in zip(elements, leaves, strict=True))
    return next((problem for problem in found if problem is not None), None)


def _leaf_problem(context: LintContext, sharding: Sharding | NamedSharding, shape: Shape) -> str | None:
    if (problem := sharding.problem) is not None:
        return problem
    if isinstance(shape, BufferShape):
        shape = shape.array
    if isinstance(sharding, NamedSharding):
        return _named_problem(context, sharding, shape)
    return _tiles_problem(context, sharding, shape)


def _named_problem(context: LintContext, sharding: NamedSharding, shape: Shape) -> str | None:
    if isinstance(sharding.mesh, MaximalMesh):
        return _outside(context, (sharding.mesh.device_id,))
    dims = len(sharding.dim_shardings)
    is_sharded = not sharding.whole and any(dimension.axes for dimension in sharding.dim_shardings)
    if is_sharded and isinstance(shape, ArrayShape) and dims != shape.rank:
        return f"the sharding has {format_count(dims, 'dimensions')}, but the array has {shape.rank}"
    return None


def _tiles_problem(context: LintContext, sharding: Sharding, shape: Shape) -> str | None:
    tiles = sharding.tiles
    if tiles is None:
        return _outside(context, (sharding.device,)) if sharding.device is not None else None
    subgroups = len(sharding.last_tile_dims) or int(sharding.replicate_on_last_tile_dim)
    rank = len(tiles.dimensions) - subgroups
    is_sharded = prod(tiles.dimensions[:rank]) > 1 or len(set(sharding.last_tile_dims)) > 1 or not subgroups
    if is_sharded and isinstance(shape, ArrayShape) and rank != shape.rank:  # an unsharded value fits every rank
        return f"the tile assignment has {format_count(rank, 'dimensions')}, but the array has {shape.rank}"
    try:
        devices = tiles.device_ids()
    except HloError:
        return None
    if len(devices) < tiles.device_count:  # XLA ignores devices beyond the tiles
        listed = format_count(len(devices), "devices")
        return f"the tile assignment has {format_count(tiles.device_count, 'tiles')} but {listed}"
    if len(set(devices)) < len(devices):
        twice = next(device for number, device in enumerate(devices) if device in devices[:number])
        return f"device {twice} is assigned two tiles"
    return _outside(context, devices)


def _outside(context: LintContext, devices: tuple[int, ...]) -> str | None:
    """The problem if a device is outside the partitions of the module."""
    count, least, most = context.num_partitions, min(devices, default=0), max(devices, default=0)
    if least < 0:
        return f"device {least} is out of range"
    return f"device {most} is out of range (the module has {count} partitions)" if most >= count > 1 else None
