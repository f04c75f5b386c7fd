"""Addresses of elements: every way to compute them agrees with doing the tiling, and every wrong question is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

import hlo_cli
from hlo_cli.analysis.layout.address_map import address_blocks, inverse_blocks
from hlo_cli.analysis.layout.addresses import position_of
from hlo_cli.analysis.layout.relayout import in_memory
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import examples, parts
from strategies import seeds
from test_tiling import EXAMPLES, a_small_tiling, array

TYPES = tuple(PRIMITIVE_TYPES[name] for name in ("s4", "pred", "bf16", "f32", "c128"))


def a_small_array(random: Random, max_positions: int = 30_000) -> ArrayShape:
    """An array of any layout, with tail padding once in a while."""
    sizes, layout, _ = a_small_tiling(random.randrange(2**32), max_positions)
    layout = replace(layout, tail_padding_alignment_in_elements=random.choice((1, 1, 1, 2, 5, 128)))
    return ArrayShape(random.choice(TYPES), sizes, (False,) * len(sizes), layout)


def check_maps(shape: ArrayShape, random: Random) -> None:
    """All maps of a shape against pad, reshape and transpose."""
    truth = np.full(shape.slots, -1)
    held = in_memory(shape.sizes, shape.layout).ravel()
    truth[: held.size] = held
    addresses = hlo_cli.address_map(shape)
    assert addresses.shape == shape.sizes
    assert np.array_equal(truth[addresses.ravel()], np.arange(addresses.size))
    assert np.array_equal(hlo_cli.inverse_map(shape), truth)
    assert np.array_equal(hlo_cli.padding_mask(shape), truth < 0)
    blocks = list(address_blocks(shape, random.choice((7, 64, 1 << 20))))
    assert np.array_equal(np.concatenate([*blocks, np.zeros(0, np.int64)]), addresses.ravel())
    indices = np.argwhere(np.ones(shape.sizes, dtype=bool)).reshape(shape.elements, shape.rank)
    from_the_end = indices - np.array(shape.sizes, np.int64) * random.randrange(2)
    assert np.array_equal(hlo_cli.linear_index(shape, from_the_end), addresses.ravel())
    found = hlo_cli.element_at(shape, np.arange(shape.slots))
    assert np.array_equal(found[truth >= 0], indices[truth[truth >= 0]])
    assert (found[truth < 0] == -1).all()
    in_order = list(inverse_blocks(shape, random.choice((50, 1 << 16))))
    assert [int(slot) for slots, _ in in_order for slot in slots] == np.flatnonzero(truth >= 0).tolist()
    for slot in random.sample(range(shape.slots), min(shape.slots, 20)):
        element = hlo_cli.element_at(shape, slot)
        assert element == (None if truth[slot] < 0 else tuple(indices[truth[slot]]))
        assert element is None or hlo_cli.linear_index(shape, element) == slot


@given(seeds)
@settings(max_examples=examples(300))
def test_every_map_agrees_with_doing_it(seed: int) -> None:
    random = Random(seed)
    check_maps(a_small_array(random), random)


@pytest.mark.slow
@pytest.mark.parametrize("part", parts(10))
def test_ten_thousand_layouts(part: int) -> None:
    random = Random(1 + part)
    for _ in range(1_000):
        check_maps(a_small_array(random, 2_000), random)


@pytest.mark.parametrize(
    "text",
    [
        "bf16[300,700]{1,0:T(8,128)(2,1)}",
        "f32[50000]{0:T(1024)}",
        pytest.param("s8[3,9000]{0,1:T(32,128)(4,1)}", marks=pytest.mark.slow),
        pytest.param("f32[40000,3]{0,1:T(4,128)}", marks=pytest.mark.slow),
        "f32[30,40,50]{2,1,0:T(*,8,128)}",
        pytest.param("f32[30,20,50]{0,1,2:T(*,8,128)(2,*,3)}", marks=pytest.mark.slow),
        "f32[7,129,65]{1,2,0:T(8,128)(3,1)}",
        "u8[100000]{0:T(3000)(7)L(1000)}",
        "f32[90000]{0}",
    ],
)
def test_larger_arrays_take_other_paths(text: str) -> None:
    check_maps(array(text), Random(2))


@pytest.mark.parametrize(("text", "places"), [(text, places) for text, _, _, places in EXAMPLES])
def test_worked_examples_of_the_library(text: str, places: dict[tuple[int, ...], int]) -> None:
    shape = parse_shape(text)
    for index, linear in places.items():
        assert hlo_cli.linear_index(shape, index) == linear
        assert hlo_cli.element_at(shape, linear) == index


def test_levels_add_up_to_the_linear_index() -> None:
    """Where the second tile stays within the first, number and position of each level make the whole."""
    shape = array("bf16[300,70]{1,0:T(8,128)(2,1)}")
    place = position_of(shape, (37, 5))
    outer, inner = place.tiles
    assert (outer.tile_index, outer.tile_grid, outer.index_in_tile, outer.sizes) == ((4, 0), (38, 1), (5, 5), (8, 128))
    assert (inner.tile_index, inner.tile_grid, inner.index_in_tile, inner.sizes) == ((2, 5), (4, 128), (1, 0), (2, 1))
    assert outer.number == 4
    assert outer.position == 5 * 128 + 5
    assert inner.number * 2 + inner.position == place.linear_index == 4619


def test_bits_of_narrow_elements() -> None:
    """Two 4-bit elements share a byte, the first in its low bits; M(n) stands in front of the data."""
    places = [position_of(array("s4[6]{0:E(4)}"), (i,)) for i in range(6)]
    assert [(place.byte_offset, place.bit_offset % 8) for place in places] == [(i // 2, 4 * (i % 2)) for i in range(6)]
    assert position_of(array("s4[6]{0}"), (3,)).byte_offset == 3
    assert position_of(array("f32[<=6]{0:M(1024)}"), (3,)).byte_offset == 1024 + 12
    assert position_of(array("f32[6]{0:E(16)}"), (3,)).byte_offset == 6


@given(seeds)
@settings(max_examples=examples(200))
def test_untiled_indices_follow_the_order_alone(seed: int) -> None:
    random = Random(seed)
    shape = a_small_array(random)
    plain = replace(shape, layout=replace(shape.layout, tiles=(), tail_padding_alignment_in_elements=1))
    for number in random.sample(range(shape.elements), min(shape.elements, 20)):
        index = hlo_cli.linear_index_to_multidimensional_index(shape, number)
        assert hlo_cli.multidimensional_index_to_linear_index(shape, index) == number
        assert plain.tiling.linear_index(index) == number


def test_maps_fill_what_they_are_given() -> None:
    shape = array("f32[30,50]{1,0:T(8,128)}")
    whole = hlo_cli.address_map(shape)
    for out in (np.empty((30, 50), np.int32), np.empty((50, 30), np.int64).T, np.empty((30, 50), np.uint16)):
        assert hlo_cli.address_map(shape, out) is out
        assert np.array_equal(out, whole)
    memory = np.empty(shape.slots, np.int16)
    assert hlo_cli.inverse_map(shape, memory) is memory
    assert np.array_equal(memory, hlo_cli.inverse_map(shape))


@pytest.mark.parametrize(
    ("text", "question", "said"),
    [
        (
            "f32[3,5]",
            (3, 0),
            "index 3 is out of range for dimension 0 of f32[3,5]{1,0} (0 to 2, or -3 to -1 from the end)",
        ),
        ("f32[3,5]", (0, -6), "-6 is out of range"),
        ("f32[3,5]", (1,), "expected 2 index values for f32[3,5]{1,0}, found 1"),
        ("f32[0,5]", (0, 0), "dimension 0 of f32[0,5]{1,0} (size 0)"),
        ("f32[3,5]", np.array([(0, 1), (3, 1)]), "3 is out of range"),
        ("f32[3,5]{1,0:T(2,2)}", np.array([(0, 1), (0, -6)]), "-6 is out of range"),
        ("f32[3,5]", np.array([0.5, 1.0]), "must be integers"),
        ("f32[3,5]", np.array([1, 2, 3]), "expected indices of shape (n, 2) for f32[3,5]{1,0}, found (3,)"),
        ("(f32[3], f32[5])", (0,), "is not an array"),
        ("f32[3,5]{1,1}", (0, 0), "duplicate layout dimension 1"),
        ("f32[4294967296,1073741824]{1,0:T(1,2147483648)}", (0, 0), "2^63"),
    ],
)
def test_wrong_indices_are_refused(text: str, question: tuple[int, ...], said: str) -> None:
    with pytest.raises(HloError) as error:
        hlo_cli.linear_index(parse_shape(text), question)
    assert said in str(error.value)


def test_an_array_that_is_divided_is_addressed_as_a_whole() -> None:
    divided, whole = (parse_shape(f"f32[16,128]{{1,0:T(8,128){split}}}") for split in ("SC(0:8)", ""))
    assert np.array_equal(hlo_cli.inverse_map(divided), hlo_cli.inverse_map(whole))
    assert hlo_cli.linear_index(divided, (15, 127)) == 2047
    assert hlo_cli.element_at(divided, 2047) == (15, 127)
    assert hlo_cli.element_at(divided, np.array([2047])).tolist() == [[15, 127]]


@pytest.mark.parametrize("slots", [24, -1, np.array([3, 24]), np.array([-1]), np.array([0.5])])
def test_wrong_slots_are_refused(slots: int) -> None:
    with pytest.raises(HloError):
        hlo_cli.element_at(parse_shape("f32[3,5]{1,0:T(2,2)}"), slots)


@pytest.mark.parametrize("out", [np.empty((3, 4)), np.empty((4, 3), np.int64), np.empty((3, 4), np.int8)])
def test_wrong_outputs_are_refused(out: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> None:
    with pytest.raises(HloError):
        hlo_cli.address_map(parse_shape("f32[3,4]{1,0:T(8,128)}"), out)


def test_places_beyond_32_bits_and_their_inverse() -> None:
    shape = parse_shape("s8[100000,100000]{1,0:T(8,128)(4,1)}")
    corner = np.array([(99_999, 99_999), (0, 0), (12_345, -1)])
    found = hlo_cli.linear_index(shape, corner)
    assert [hlo_cli.linear_index(shape, tuple(map(int, index))) for index in corner] == found.tolist()
    assert hlo_cli.element_at(shape, found).tolist() == [[99_999, 99_999], [0, 0], [12_345, 99_999]]
