"""Tiles, bytes and order of default layouts against libtpu's own: those in fixtures/, and random ones where it is."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumps import FIXTURES
from hlo_cli.analysis.hardware.chips import tpu_generations
from hlo_cli.analysis.layout.tpu_layout import best_order, default_order, default_tpu_layout, order_costs
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import every

GENERATIONS = [generation.name for generation in tpu_generations()]
generations = st.sampled_from(GENERATIONS)
arrays = st.builds(
    lambda kind, sizes: array_of(f"{kind}[{','.join(map(str, sizes))}]"),
    st.sampled_from(sorted(PRIMITIVE_TYPES)),
    st.lists(st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 128, 256, 1000])), max_size=5),
)


def array_of(text: str) -> ArrayShape:
    array = parse_shape(text)
    assert isinstance(array, ArrayShape)
    return array


def rows() -> Iterator[Mapping[str, str]]:
    with gzip.open(FIXTURES / "layouts" / "defaults.csv.gz", "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def differences(shape: str, layout: str, generation: str) -> Iterator[str]:
    """In what our default layout is not the compiler's: the order, or what we make of the compiler's order."""
    plain = array_of(shape)
    theirs = array_of(shape + layout)
    order = theirs.layout.minor_to_major
    ours = replace(plain, layout=default_tpu_layout(plain, generation=generation, minor_to_major=order))
    if default_order(plain, generation=generation) != (order if plain.elements < 2**47 else None):
        yield f"{generation} {shape}: order {order}"
    if ours != theirs or ours.padded_bytes != theirs.padded_bytes:
        yield f"{generation} {shape}: {theirs.layout}, not {ours.layout}"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_default_layouts_are_the_compilers(generation: str) -> None:
    """Witness: libtpu, see fixtures/README.md."""
    found = [found for row in rows() for found in differences(row["shape"], row[generation], generation)]
    assert found == []
    assert sum(row[generation].count("{") for row in rows()) == 1745


@given(arrays, generations)
def test_the_order_is_one_of_the_priced(array: ArrayShape, generation: str) -> None:
    """Every order is priced once; the chosen one has the price of its own layout; the cheapest is the better order."""
    priced = order_costs(array, generation=generation)
    assert sorted(each.layout.minor_to_major for each in priced) == sorted(permutations(range(array.rank)))
    for each in priced:
        order = each.layout.minor_to_major
        assert each.layout == default_tpu_layout(array, generation=generation, minor_to_major=order)
        assert each.padded_bytes == replace(array, layout=each.layout).padded_bytes
    assert array.elements >= 2**47 or default_order(array, generation=generation) in [
        each.layout.minor_to_major for each in priced if each.is_normal
    ]
    worst = max(priced, key=lambda each: each.padded_bytes)
    better = best_order(replace(array, layout=worst.layout), generation=generation)
    least = min(each.padded_bytes for each in priced)
    assert (better.padded_bytes if better else worst.padded_bytes) == least


@given(arrays, st.data())
def test_bounds_count_as_sizes_and_the_written_order_does_not(array: ArrayShape, data: st.DataObject) -> None:
    """Witness: parameters of bounded sizes, compiled for three generations, got the layout of their bounds."""
    dynamic = tuple(data.draw(st.lists(st.booleans(), min_size=array.rank, max_size=array.rank)))
    order = tuple(data.draw(st.permutations(range(array.rank))))
    other = replace(array, dynamic_dimensions=dynamic, layout=replace(array.layout, minor_to_major=order))
    assert default_order(other) == default_order(array)


def test_no_order_is_claimed_where_none_was_measured() -> None:
    assert default_order(array_of("f32[?,70]")) is None
    assert default_order(array_of(f"f32[{2**47 - 1}]")) == (0,)
    assert default_order(array_of(f"f32[{2**40},{2**7}]")) is None


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="asks libtpu")
@pytest.mark.parametrize("generation", every(3, GENERATIONS, slow=0))
def test_random_default_layouts_are_the_compilers(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Witness: libtpu, asked for other shapes than those in fixtures/, many with several orders that are as good."""
    monkeypatch.syspath_prepend(FIXTURES)
    import asking
    import generate

    random = Random(generation)
    sizes = [*asking.random_sizes(random, 700), *(similar_sizes(random) for _ in range(700))]
    shapes = [asking.array(random.choice(asking.TYPES), each) for each in sizes]
    layouts = generate.default_layouts(shapes, generate.GENERATIONS[generation])
    found = zip(shapes, layouts, strict=True)
    assert [found for shape, layout in found for found in differences(shape, layout, generation)] == []


def similar_sizes(random: Random) -> tuple[int, ...]:
    base = random.choice((1, 3, 5, 7, 8, 12, 24, 36))
    sizes = [base * random.choice((1, 2, 3, 4, 5, 8, 16)) for _ in range(random.randint(1, 4))]
    sizes.append(random.choice((1, 120, 128, 256)))
    random.shuffle(sizes)
    return tuple(sizes)
