"""Where elements lie: XLA's worked examples, a second implementation in numpy, and the laws of an index map."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from hlo_cli.analysis.layout.relayout import in_memory
from hlo_cli.ir.layout import Layout, Tile, Tiling, tiling_of
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import examples
from strategies import a_tile, seeds

thorough = settings(max_examples=examples(200))

Places = dict[tuple[int, ...], int]

# Shape, physical dimensions, slots, places of elements; XLA's layout_util_test.cc, docs/tiled_layout.md, and executed
# with jaxlib 0.10.2 where `LayoutUtil` covers the case.
EXAMPLES: tuple[tuple[str, tuple[int, ...], int, Places], ...] = (
    ("f32[3,5]{1,0:T(2,2)}", (2, 3, 2, 2), 24, {(2, 3): 17, (0, 4): 8, (2, 4): 20}),
    ("f32[3,5]{0,1:T(2,2)}", (3, 2, 2, 2), 24, {(2, 3): 14}),
    ("f32[8,4]{1,0:T(2,2)}", (4, 2, 2, 2), 32, {(3, 1): 11}),
    ("f32[4,8]{1,0:T(2,4)(2,1)}", (2, 2, 1, 4, 2, 1), 32, {(1, 0): 1, (0, 1): 2, (3, 7): 31}),
    ("bf16[2048]{0:T(1024)(128)(2,1)}", (2, 4, 128, 2, 1), 2048, {(128,): 1, (1,): 2, (1024,): 1024}),
    (
        "bf16[2,8,128]{2,1,0:T(8,128)(2,1)}",
        (2, 1, 1, 4, 128, 2, 1),
        2048,
        {(0, 1, 0): 1, (0, 2, 0): 256, (1, 0, 0): 1024},
    ),
    ("f32[3,130]{1,0:T(8,128)}", (1, 2, 8, 128), 2048, {(0, 128): 1024, (2, 129): 1281}),
    ("f32[2,3,130]{2,1,0:T(8,128)}", (2, 1, 2, 8, 128), 4096, {(1, 0, 0): 2048, (1, 2, 129): 3329}),
    ("f32[2,3,130]{0,1,2:T(8,128)}", (130, 1, 1, 8, 128), 133120, {(1, 0, 0): 1, (1, 2, 129): 132353}),
    ("f32[2,3,130]{0,2,1:T(8,128)}", (3, 17, 1, 8, 128), 52224, {(1, 0, 0): 1, (1, 2, 129): 51329}),
    ("bf16[9,130]{1,0:T(8,128)(2,1)}", (2, 2, 4, 128, 2, 1), 4096, {(1, 0): 1, (8, 0): 2048, (8, 129): 3074}),
    ("s8[9,130]{1,0:T(8,128)(4,1)}", (2, 2, 2, 128, 4, 1), 4096, {(3, 0): 3, (8, 129): 3076}),
    ("f32[8]{0:T(2,2)}", (1, 4, 2, 2), 16, {(5,): 9}),
    ("f32[3]{0:T(8,128)}", (1, 1, 8, 128), 1024, {(2,): 2}),
    ("u32[]{:T(128)}", (1, 128), 128, {(): 0}),
    ("f32[4,4]{1,0:T(2,2)(2,1,1,2)}", (1, 2, 2, 1, 2, 1, 1, 2), 16, {(0, 2): 8, (2, 0): 2, (3, 3): 15}),
    ("f32[6,4]{1,0:T(2,2)(2,1,2,2)}", (2, 2, 1, 1, 2, 1, 2, 2), 32, {(2, 0): 4, (4, 0): 16, (5, 3): 27}),
    ("f32[7,129]{1,0:T(8,128)(3,1)}", (1, 2, 3, 128, 3, 1), 2304, {(6, 128): 1920}),
    ("f32[10,256]{1,0:T(8,128)(2,1)(1,2)}", (2, 2, 4, 128, 2, 1, 1, 2), 8192, {(9, 255): 6654}),
    ("bf16[2,3,4]{2,1,0:T(2,*,2)}", (1, 6, 2, 2), 24, {(1, 2, 3): 23, (0, 1, 0): 8}),
    ("f32[2,2,3]{2,1,0:T(*,2,2)}", (2, 2, 2, 2), 16, {(1, 1, 2): 14}),
    (
        "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
        (56, 37, 2, 3),
        12432,
        {(1, 6, 7, 10, 9): 12430, (0, 0, 1, 0, 0): 3, (0, 0, 0, 1, 0): 19},
    ),
)

# The logical ids in memory order.
IN_MEMORY = (
    ("f32[4,8]{1,0:T(2,4)(2,1)}", "0 8 1 9 2 10 3 11 4 12"),
    ("f32[4,4]{1,0:T(2,2)(2,1,1,2)}", "0 1 8 9 4 5 12 13 2 3 10 11 6 7 14 15"),
)


def array(text: str) -> ArrayShape:
    """An array shape, parsed."""
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


@pytest.mark.parametrize(("text", "physical", "slots", "places"), EXAMPLES)
def test_worked_examples(text: str, physical: tuple[int, ...], slots: int, places: Places) -> None:
    shape = array(text)
    assert shape.tiling.physical == physical
    assert shape.tiling.slots == shape.slots == slots
    for index, linear in places.items():
        assert shape.tiling.linear_index(index) == linear
        assert shape.tiling.element(linear) == index


@pytest.mark.parametrize(("text", "ids"), IN_MEMORY)
def test_memory_order(text: str, ids: str) -> None:
    shape = array(text)
    in_memory = [int(np.ravel_multi_index(shape.tiling.element(slot), shape.dimensions)) for slot in range(shape.slots)]
    assert " ".join(map(str, in_memory)).startswith(ids)


def a_small_tiling(seed: int, most_slots: int = 30_000) -> tuple[tuple[int, ...], Layout, Tiling]:
    """Sizes, with zeros among them, and a layout whose tiles may be longer than the array."""
    random = Random(seed)
    while True:
        sizes = tuple(random.choices((0, 1, 1, 2, 3, 4, 5, 7, 8, 11, 17), k=random.randrange(5)))
        order = tuple(random.sample(range(len(sizes)), len(sizes)))
        tiles = tuple(a_tile(random, 5, (1, 2, 3, 4, 7, 8)) for _ in range(random.randrange(4)))
        layout = Layout(order, tiles)
        tiling = tiling_of(sizes, layout)
        if tiling.slots <= most_slots:
            return sizes, layout, tiling


@given(seeds)
@thorough
def test_numpy_agrees(seed: int) -> None:
    sizes, layout, tiling = a_small_tiling(seed)
    memory = in_memory(sizes, layout)
    assert memory.shape == tiling.physical
    assert memory.size == tiling.slots
    flat = memory.ravel()
    assert np.array_equal(flat[_linear(sizes, tiling)].ravel(), np.arange(int(np.prod(sizes, dtype=np.int64))))


@given(seeds)
@thorough
def test_no_two_elements_share_a_slot(seed: int) -> None:
    sizes, _, tiling = a_small_tiling(seed)
    linear = _linear(sizes, tiling).ravel()
    assert np.unique(linear).size == linear.size
    if linear.size:
        assert linear.min() >= 0
        assert linear.max() < tiling.slots


@given(seeds)
@thorough
def test_the_inverse_undoes_the_map(seed: int) -> None:
    sizes, _, tiling = a_small_tiling(seed)
    index = np.indices(sizes, dtype=np.int64)
    back = tiling.element(tiling.linear_index(tuple(index)))
    assert len(back) == len(sizes)
    assert all(np.array_equal(a, b) for a, b in zip(back, index, strict=True))


@given(seeds)
@thorough
def test_padding_lies_out_of_bounds(seed: int) -> None:
    sizes, layout, tiling = a_small_tiling(seed)
    if not sizes:
        return  # the index of a scalar is (), in the array and beside it
    index = tiling.element(np.arange(tiling.slots, dtype=np.int64))
    inside = np.ones(tiling.slots, dtype=bool)
    for position, size in zip(index, sizes, strict=True):
        inside &= (position >= 0) & (position < size)
    holds = in_memory(sizes, layout).ravel() >= 0
    assert np.array_equal(tiling.holds(np.arange(tiling.slots, dtype=np.int64)), holds)
    if sizes:  # the index of a scalar has nothing to be out of
        assert np.array_equal(inside, holds)


@given(seeds)
@thorough
def test_ints_and_arrays_are_placed_alike(seed: int) -> None:
    sizes, _, tiling = a_small_tiling(seed)
    linear = _linear(sizes, tiling)
    for index in [tuple(int(i) for i in row) for row in np.argwhere(np.ones(sizes, dtype=bool))[:20]]:
        assert tiling.linear_index(index) == linear[index]
        assert tiling.element(tiling.linear_index(index)) == index


def test_tail_padding_is_not_part_of_the_map() -> None:
    """`L(n)` adds slots behind the last tile; no element moves."""
    tiled, aligned = array("f32[10]{0:T(4)}"), array("f32[10]{0:T(4)L(100)}")
    assert tiled.slots == 12
    assert aligned.slots == 100
    assert [aligned.tiling.linear_index((i,)) for i in range(10)] == [
        tiled.tiling.linear_index((i,)) for i in range(10)
    ]


def test_split_sizes_count_the_largest_part() -> None:
    """`ShapeUtil::ArraySize` takes `MaxSplitSize`: 12 rows cut at 8 are a part of 8 rows and one of 4."""
    assert array("f32[12,128]{1,0:T(8,128)SC(0:8)}").slots == 8 * 128


def test_places_beyond_32_bits() -> None:
    shape = array("s8[100000,100000]{1,0:T(8,128)(4,1)}")
    last = shape.tiling.linear_index((99_999, 99_999))
    assert last > 2**32
    assert shape.tiling.element(last) == (99_999, 99_999)
    assert shape.tiling.linear_index((np.int64(99_999), np.int64(99_999))) == last


def test_a_tile_of_one_changes_nothing() -> None:
    for tiles in ((Tile((1,)),), (Tile((1, 1)), Tile((1,)))):
        plain, tiled = tiling_of((3, 4), Layout((0, 1))), tiling_of((3, 4), Layout((0, 1), tiles))
        assert [plain.linear_index(i) for i in np.ndindex(3, 4)] == [tiled.linear_index(i) for i in np.ndindex(3, 4)]


def _linear(sizes: tuple[int, ...], tiling: Tiling) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The slot of every element, in the shape of the array."""
    return np.asarray(
        np.broadcast_to(tiling.linear_index(tuple(np.indices(sizes, dtype=np.int64))), sizes), dtype=np.int64
    )
