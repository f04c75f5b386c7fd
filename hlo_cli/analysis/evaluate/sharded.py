"""Arguments cut into the parts of devices, and results put together, by the shardings of a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

import numpy as np

from hlo_cli.analysis.evaluate.arguments import Ranges, argument_ranges, made_up
from hlo_cli.analysis.evaluate.boundaries import joined, parts_of, stated_placement
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value, array_of
from hlo_cli.analysis.sharding.parameters import EntryArray, entry_arrays
from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.analysis.sharding.shards import leaf_shardings
from hlo_cli.analysis.sharding.stages import is_partitioned
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError


def whole_arguments(
    module: Module,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Ranges | None = None,
    before_each: Callable[[Instruction], None] = lambda parameter: None,
) -> tuple[Value, ...]:
    """Made-up arguments of the whole program, from the shapes of all devices together."""
    found: list[Value] = []
    ranges = argument_ranges(module) if ranges is None else ranges
    for _, arrays in groupby(entry_arrays(module).parameters, key=lambda each: each.number):
        listed = list(arrays)
        parameter = module.entry.parameters[listed[0].number]
        before_each(parameter)
        shape = parameter.shape
        whole = _whole_shape(shape, {each.index: each for each in listed})
        number = len(found)
        found.append(made_up(whole, number, seed=seed, floats=floats, ranges=ranges.get(number, {})))
    return tuple(found)


def _whole_shape(shape: Shape, arrays: dict[ShapeIndex, EntryArray], at: ShapeIndex = ()) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_whole_shape(each, arrays, (*at, n)) for n, each in enumerate(shape.elements)))
    if at not in arrays:
        return shape
    whole = arrays[at].whole
    return shape if whole is None else whole


def device_arguments(module: Module, whole: Sequence[Value], count: int) -> list[list[Value]]:
    """The arguments of each device: its part of each array, padded to the shape of its parameter."""
    arrays = {(each.number, each.index): each for each in entry_arrays(module).parameters}

    def part(value: Value, shape: Shape, number: int, at: ShapeIndex) -> list[Value]:
        if isinstance(shape, TupleShape):
            assert isinstance(value, tuple)
            parts = [part(v, s, number, (*at, n)) for n, (v, s) in enumerate(zip(value, shape.elements, strict=True))]
            return [tuple(each[device] for each in parts) for device in range(count)]
        if not isinstance(shape, ArrayShape):
            return [None] * count
        return list(_cut(array_of(value), shape, arrays.get((number, at)), count))

    columns = [
        part(value, parameter.shape, number, ())
        for number, (value, parameter) in enumerate(zip(whole, module.entry.parameters, strict=True))
    ]
    return [[column[device] for column in columns] for device in range(count)]


def _cut(array: Array, shape: ArrayShape, entry: EntryArray | None, count: int) -> list[Array]:
    if entry is None or entry.placement is None or array.shape == shape.dimensions:
        return [array] * count
    sizes = [-(-size // part) for size, part in zip(array.shape, entry.placement.parts, strict=False)]
    if array.ndim != len(shape.dimensions) or tuple(sizes) != shape.dimensions:
        given, parts = ",".join(map(str, array.shape)), "×".join(map(str, entry.placement.parts))
        raise HloError(f"{entry.instruction.name} has sizes [{given}], which {parts} parts of {shape} do not make")
    found: list[Array] = [np.zeros(shape.dimensions, array.dtype) for _ in range(count)]
    whole = replace(entry.shape, dimensions=array.shape)
    for each in parts_of(whole, entry.placement, count):
        taken = array[each.slices]
        found[each.device][tuple(map(slice, taken.shape))] = taken
    return found


def assembled(module: Module, results: Sequence[Value]) -> tuple[Value, frozenset[ShapeIndex]]:
    """The result of all devices as one value, and the indices of arrays whose place on devices is unknown.

    Before partitioning, every device has whole arrays. After it, an array is put together by its sharding, by that of
    the parameter whose buffer it takes, or, if it is whole on every device, is that of device 0; else it is unknown,
    and only the part of device 0.
    """
    root = module.entry.root
    assert root is not None
    arrays = {each.index: each for each in entry_arrays(module).results}
    donors, stated = _donors(module), _stated(module)
    unknown: set[ShapeIndex] = set()

    def whole_of(values: Sequence[Value], shape: Shape, at: ShapeIndex) -> Value:
        if isinstance(shape, TupleShape):
            return tuple(
                whole_of([value[n] if isinstance(value, tuple) else None for value in values], each, (*at, n))
                for n, each in enumerate(shape.elements)
            )
        if not isinstance(shape, ArrayShape):
            return None
        parts = [array_of(value) for value in values]
        if not is_partitioned(module):
            return parts[0]
        whole, placement = _place(arrays.get(at), donors.get(at))
        if placement is None and at in stated:
            whole, placement = stated[at]
        if placement is not None and placement.is_tiled and whole is not None:
            return joined(parts, whole, placement)
        if placement is None and (whole is None or whole.dimensions != parts[0].shape):
            unknown.add(at)
        return parts[0]

    return whole_of(results, root.shape, ()), frozenset(unknown)


def _donors(module: Module) -> dict[ShapeIndex, EntryArray]:
    """The parameter whose buffer each result takes."""
    arrays = {(each.number, each.index): each for each in entry_arrays(module).parameters}
    found = {}
    for alias in module.input_output_alias:
        donor = arrays.get((alias.parameter_number, alias.parameter_index))
        if donor is not None:
            found[alias.output_index] = donor
    return found


def _stated(module: Module) -> dict[ShapeIndex, tuple[ArrayShape, Placement]]:
    """The whole shape and the placement of results that the program before partitioning states at their origin, or
    that the partitioner chose, as the proto next to the text states."""
    program = module.program
    root = None if program is None else program.entry.root
    if program is None or root is None:
        return {}
    found: dict[ShapeIndex, tuple[ArrayShape, Placement]] = {}
    chosen = _chosen(module, root.shape)
    for index, leaf in root.shape.leaves:
        value = root.operands[index[0]] if root.opcode == opcodes.TUPLE and len(index) == 1 else root
        placement = stated_placement(value, index[0] if value is root and index else 0, program) or chosen.get(index)
        if placement is not None and isinstance(leaf, ArrayShape):
            found[index] = leaf, placement
    return found


def _chosen(module: Module, whole: Shape) -> dict[ShapeIndex, Placement]:
    """The placements that the partitioner chose for results, if they fit the shapes of devices."""
    sharding, root = (module.proto or module).spmd_output_sharding, module.entry.root
    if sharding is None or root is None:
        return {}
    parts = dict(root.shape.leaves)
    found: dict[ShapeIndex, Placement] = {}
    with suppress(HloError):
        for index, leaf, each in leaf_shardings(whole, sharding):
            part, placement = parts.get(index), placement_of(each)
            if not isinstance(part, ArrayShape) or not isinstance(leaf, ArrayShape):
                continue
            if placement.shard_sizes(leaf.dimensions) == part.dimensions:
                found[index] = placement
    return found


def _place(entry: EntryArray | None, donor: EntryArray | None) -> tuple[ArrayShape | None, Placement | None]:
    """The whole shape of a result, and where its parts are."""
    for each in (entry, donor):
        if each is not None and each.placement is not None and each.whole is not None:
            return each.whole, each.placement
    return (None if entry is None else entry.whole), None
