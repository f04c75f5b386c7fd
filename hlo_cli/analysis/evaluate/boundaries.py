"""Boundaries of manual computations on simulated devices: whole arrays become parts of devices, and parts whole arrays.

Mirrors `SPMDFullToShardShape` and `SPMDShardToFullShape` of the SPMD partitioner, and Shardy's `GlobalToLocalShape` and
`LocalToGlobalShape`. Before partitioning, every simulated device holds whole arrays outside of manual computations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.custom_calls import target_of_call
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Value, array_of
from hlo_cli.analysis.sharding.meshes import header_meshes
from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.analysis.sharding.shards import Shard, shards
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AxisRef, DimensionSharding, Mesh, NamedSharding, Sharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

_ENTERS: Final = frozenset(("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"))
_LEAVES: Final = frozenset(("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape"))
_SHARDY: Final = re.compile(r"<@\w++, \[([^\[\]]*+)\]")
_DIMENSION: Final = re.compile(r"\{([^{}]*+)\}")
_AXIS: Final = re.compile(r'\\?"([^"\\]++)\\?"')


def is_boundary(instruction: Instruction) -> bool:
    """Whether an instruction begins or ends a manual computation."""
    return instruction.opcode == opcodes.CUSTOM_CALL and target_of_call(instruction) in _ENTERS | _LEAVES


def crossing(
    instruction: Instruction, module: Module, count: int
) -> Callable[[Sequence[Sequence[Value]]], list[Value]]:
    """What a boundary makes of the operands of all devices."""
    enters = target_of_call(instruction) in _ENTERS
    placements = _placements(instruction, module, enters=enters)
    shapes = _arrays(instruction.shape)
    wholes = [instruction.operand_shape(at) for at in range(len(instruction.operands))] if enters else shapes
    if len(placements) != len(shapes):
        raise HloError(f"{instruction.name} has {len(placements)} shardings for {len(shapes)} arrays", instruction.span)

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        columns = []
        for at, (placement, whole) in enumerate(zip(placements, wholes, strict=True)):
            values = [array_of(each[at]) for each in given]
            columns.append((_cut if enters else _joined)(values, placement, whole, count))
        if isinstance(instruction.shape, TupleShape):
            return [tuple(column[device] for column in columns) for device in range(count)]
        return list(columns[0])

    return run


def _cut(values: Sequence[Array], placement: Placement, whole: Shape, count: int) -> list[Value]:
    found: list[Value] = list(values)
    if not placement.is_tiled:
        return found
    for each in parts_of(whole, placement, count):
        found[each.device] = values[each.device][each.slices]
    return found


def _joined(values: Sequence[Array], placement: Placement, whole: Shape, count: int) -> list[Value]:
    if not placement.is_tiled or not isinstance(whole, ArrayShape):
        return list(values)
    return [joined(values, whole, placement)] * count


def parts_of(whole: Shape, placement: Placement, count: int) -> Iterator[Shard]:
    """The part of each device; HloError if there are more parts than devices."""
    for each in shards(whole, placement, device_count=count):
        if each.device >= count:
            raise HloError(f"a sharding of {whole} names device {each.device}, but there are {count} devices")
        yield each


def joined(parts: Sequence[Array], whole: ArrayShape, placement: Placement) -> Array:
    """The parts of all devices as one array, without the padding of uneven ones; of copies, the first one."""
    result = np.zeros(whole.dimensions, parts[0].dtype)
    for each in reversed(tuple(parts_of(whole, placement, len(parts)))):
        result[each.slices] = parts[each.device][tuple(map(slice, each.sizes))]
    return result


def _arrays(shape: Shape) -> list[ArrayShape]:
    leaves = [leaf for _, leaf in shape.leaves]
    return [leaf for leaf in leaves if isinstance(leaf, ArrayShape)]


def stated_placement(value: Instruction, at: int, module: Module) -> Placement | None:
    """The placement that the text states for a value, or for element `at` of one: by its sharding, or by the boundary
    of a manual computation that it comes out of; None if neither says so."""
    while value.opcode in (opcodes.GET_TUPLE_ELEMENT, opcodes.COPY, opcodes.BITCAST):
        at = value.integer("index") or 0 if value.opcode == opcodes.GET_TUPLE_ELEMENT else at
        value = value.operands[0]
    sharding = value.sharding
    if isinstance(sharding, Sharding | NamedSharding):
        return placement_of(sharding)
    if value.opcode != opcodes.CUSTOM_CALL:
        return None
    target = target_of_call(value)
    if target in _LEAVES:
        found = _placements(value, module, enters=False)
        return found[at] if at < len(found) else None
    if target == "xla.sdy.FuncResultSharding":
        text = value.frontend_attributes.get("xla.sdy.sharding") or ""
        meshes, match = header_meshes(module), _SHARDY.search(text)
        return _shardy(match[1], meshes[0]) if match is not None and len(meshes) == 1 else None
    return None


def _placements(instruction: Instruction, module: Module, *, enters: bool) -> list[Placement]:
    """The placement of each array: that of the operand on the way in, that of the result on the way out."""
    key = "xla.sdy.in_shardings" if enters else "xla.sdy.out_shardings"
    text = instruction.frontend_attributes.get(key)
    if text is not None:
        meshes = header_meshes(module)
        if len(meshes) != 1:
            raise HloError(f"{instruction.name}: the mesh of its shardings is unknown", instruction.span)
        return [_shardy(found[1], meshes[0]) for found in _SHARDY.finditer(text)]
    holder = instruction.operands[0] if enters else instruction
    sharding = holder.sharding
    if not isinstance(sharding, Sharding | NamedSharding):
        raise HloError(f"{holder.name} has no sharding, so the parts of devices are unknown", instruction.span)
    return [placement_of(sharding)]


def _shardy(text: str, mesh: Mesh) -> Placement:
    """The placement of `{"x"}, {}`: the axes of each dimension."""
    dimensions = tuple(
        DimensionSharding(tuple(AxisRef(axis) for axis in _AXIS.findall(found))) for found in _DIMENSION.findall(text)
    )
    return placement_of(NamedSharding(mesh, dimensions))
