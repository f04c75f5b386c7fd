"""From one layout to another: steps that numpy carries out, moves that are counted, and every bitcast of every dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

import hlo_cli
from dumps import Dump, compiled_dumps
from hlo_cli.analysis.layout.relayout import (
    LayoutMoves,
    RelayoutStep,
    bitcast_steps,
    correspondence,
    layout_moves,
    relayout_steps,
)
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from share import examples
from strategies import seeds
from test_addresses import a_small_array
from test_tiling import array

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def a_pair(random: Random) -> tuple[ArrayShape, ArrayShape, tuple[int, ...] | None]:
    """Two arrays of the same elements: of the same sizes, reshaped, or transposed in an order."""
    before = a_small_array(random, 1_500)
    order = None
    sizes: tuple[int, ...] = before.sizes
    kind = random.choice(("same", "reshape", "transpose"))
    if kind == "reshape":
        sizes = random.choice(((before.elements,), (1, *sizes)[-4:], (*sizes, 1)[:4]))
    elif kind == "transpose":
        order = tuple(random.sample(range(before.rank), before.rank))
        sizes = tuple(sizes[d] for d in order)
    while True:
        other = a_small_array(random, 1_500)
        after = replace(before, dimensions=sizes, dynamic_dimensions=(False,) * len(sizes), layout=other.layout)
        if other.rank == len(sizes) and after.slots < 100_000:
            return before, after, order


def carried_out(memory: IntArray, steps: Sequence[RelayoutStep]) -> IntArray:
    """What numpy makes of memory by the steps."""
    for step in steps:
        match step.kind:
            case "transpose":
                memory = memory.transpose(step.order)
            case "reshape":
                memory = memory.reshape(step.sizes)
            case "slice":
                memory = memory[tuple(map(slice, step.sizes))]
            case "pad":
                missing = [(0, new - old) for new, old in zip(step.sizes, memory.shape, strict=True)]
                memory = np.pad(memory, missing, constant_values=-1)
        assert memory.shape == step.sizes
    return memory


@given(seeds)
@settings(max_examples=examples(300))
def test_steps_lead_from_one_memory_to_the_other(seed: int) -> None:
    before, after, order = a_pair(Random(seed))
    steps = relayout_steps(before, after, order)
    start = before.tiling.physical if before.slots == before.tiling.slots else (before.slots,)
    memory = np.asarray(hlo_cli.inverse_map(before), np.int64).reshape(start)
    assert np.array_equal(carried_out(memory, steps).ravel(), _ids_in(before, after, order))
    assert all(step.kind != previous.kind for previous, step in pairwise(steps))


@given(seeds)
@settings(max_examples=examples(300))
def test_moves_and_runs_are_counted(seed: int) -> None:
    before, after, order = a_pair(Random(seed))
    ids = _ids_in(before, after, order)
    new_place = np.full(before.elements, -1)
    new_place[ids[ids >= 0]] = np.flatnonzero(ids >= 0)
    in_order = hlo_cli.inverse_map(before)
    old = np.flatnonzero(in_order >= 0)
    new = new_place[in_order[old]]
    breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    lengths = np.diff([0, *breaks, len(old)])
    expected = LayoutMoves(
        before.elements, int((old != new).sum()), len(breaks) + bool(len(old)), int(lengths.max(initial=0))
    )
    assert layout_moves(before, after, correspondence(before, after, order)) == expected


@given(seeds)
@settings(max_examples=examples(300))
def test_renamings_are_true(seed: int) -> None:
    """What is called a reshape, a transpose or both of the same bytes is that; and what moves nothing is found."""
    before, after, order = a_pair(Random(seed))
    found = bitcast_steps(before, after)
    moved = layout_moves(before, after, correspondence(before, after, order)).moved
    if not before.elements:
        return
    if found is None:
        assert moved
    elif found.kind in ("identity", "reshape"):
        assert order is not None or not moved
        assert not layout_moves(before, after, correspondence(before, after)).moved
    elif found.kind != "transpose and reshape":
        check_renaming(before, after)


def check_renaming(before: ArrayShape, after: ArrayShape) -> str:
    """The kind of renaming between two arrays, after holding it against where the elements lie."""
    found = bitcast_steps(before, after)
    assert found is not None
    if found.kind != "transpose and reshape":
        ids = np.arange(before.elements).reshape(found.factors)
        ids = ids.transpose(found.order) if found.order else ids
        memory = hlo_cli.inverse_map(before)[hlo_cli.address_map(after)]
        assert np.array_equal(ids.reshape(after.sizes), memory)
    return found.kind


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_every_bitcast_is_a_renaming(dump: Dump) -> None:
    """The bitcasts of a compiler with as many elements before as after are reshapes and transposes of the same bytes."""
    seen = set()
    for instruction in hlo_cli.parse_module(dump.text).instructions:
        pair = (instruction.operand_shape(0), instruction.shape) if instruction.opcode == "bitcast" else None
        if pair is None or pair in seen:
            continue
        seen.add(pair)
        before, after = pair
        if isinstance(before, ArrayShape) and isinstance(after, ArrayShape) and before.elements == after.elements:
            assert check_renaming(before, after) if before.elements < 1 << 20 else bitcast_steps(before, after)


def test_a_copy_of_the_demo() -> None:
    """Counted by hand from the two address maps of a copy that the TPU compiler put into a convolution."""
    before = array("f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}")
    after = array("f32[4,4,4,32,11]{3,2,1,4,0:T(4,128)}")
    old, new = hlo_cli.address_map(before).ravel(), hlo_cli.address_map(after).ravel()
    found = layout_moves(before, after, correspondence(before, after))
    assert found == LayoutMoves(22_528, int((old != new).sum()), 22_528, 1)
    assert found.moved == 22_352


def test_arrays_that_cannot_be_the_same_are_refused() -> None:
    with pytest.raises(HloError, match="different element counts"):
        correspondence(array("f32[2,3]"), array("f32[8]"))
    with pytest.raises(HloError, match="does not map"):
        correspondence(array("f32[2,3]"), array("f32[2,3]"), (1, 0))


def _ids_in(before: ArrayShape, after: ArrayShape, order: tuple[int, ...] | None) -> IntArray:
    """The number that each element has in the first array, at its slot in the second; -1 for padding."""
    ids = np.arange(before.elements).reshape(before.sizes)
    ids = ids.transpose(order) if order is not None else ids.reshape(after.sizes)
    memory = np.full(after.slots, -1)
    memory[hlo_cli.address_map(after)] = ids
    return memory
