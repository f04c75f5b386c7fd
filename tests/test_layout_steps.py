"""Laws of the explained layout: its pieces are its text, its steps are numpy's, its strides hold everywhere."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
from hypothesis import given, settings

from hlo_cli.analysis.layout.layout_steps import (
    layout_steps,
    logical_strides,
    physical_strides,
    shape_tokens,
    token_spans,
)
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.shape import ArrayShape, Shape
from share import examples
from strategies import a_tile, seeds, shapes


def small_array(seed: int, *, starred: bool = True) -> ArrayShape:
    """An array of a few hundred slots at most, in any order and with up to three tiles."""
    random = Random(seed)
    sizes = tuple(random.choice((1, 2, 3, 4, 5, 7, 9)) for _ in range(random.randrange(4)))
    order = tuple(random.sample(range(len(sizes)), len(sizes)))
    tiles = [a_tile(random, 3, (1, 2, 3, 4)) for _ in range(random.choice((0, 1, 1, 2, 2, 3)))]
    if not starred:
        tiles = [tile for tile in tiles if min(tile.dimensions) > 0]
    kind = PRIMITIVE_TYPES[random.choice(("f32", "bf16", "s4", "pred"))]
    bits = 4 if kind.is_sub_byte else 0
    return ArrayShape(kind, sizes, (False,) * len(sizes), Layout(order, tuple(tiles), element_size_in_bits=bits))


@settings(max_examples=examples(200))
@given(shapes)
def test_pieces_joined_are_the_shape(shape: Shape) -> None:
    for layout in (True, False):
        assert "".join(piece.text for piece in shape_tokens(shape, layout=layout)) == shape.to_string(layout=layout)


@given(shapes, seeds)
def test_pieces_are_found_again_with_blanks_between_them(shape: Shape, seed: int) -> None:
    pieces = shape_tokens(shape)
    random = Random(seed)
    text = "".join(" " * random.randrange(3) + piece.text for piece in pieces)
    spans = token_spans(text, pieces)
    assert spans is not None
    for piece, span in zip(pieces, spans, strict=True):
        assert text[span.start : span.end].replace(" ", "") == piece.text.replace(" ", "")


@settings(max_examples=examples(300))
@given(seeds)
def test_numpy_agrees_with_every_step(seed: int) -> None:
    shape = small_array(seed)
    ids = np.arange(shape.elements).reshape(shape.sizes)
    for step in layout_steps(shape):
        match step.kind:
            case "order":
                ids = ids.transpose(step.transpose)
            case "extend" | "combine":
                ids = ids.reshape(step.sizes)
            case "pad":
                ids = np.pad(ids, [(0, extra) for extra in step.padding], constant_values=-1)
            case "tile":
                ids = ids.reshape(step.reshape).transpose(step.transpose)
        assert ids.shape == step.sizes
        assert step.elements == prod(step.sizes)
    assert layout_steps(shape)[-1].bytes == shape.padded_bytes
    for slot, element in enumerate(ids.ravel().tolist()):
        if element >= 0:
            index = np.unravel_index(element, shape.sizes) if shape.rank else ()
            assert shape.tiling.linear_index(tuple(map(int, index))) == slot


@settings(max_examples=examples(300))
@given(seeds)
def test_strides_are_those_between_neighbours_everywhere(seed: int) -> None:
    shape = small_array(seed, starred=False)
    tiling, bits = shape.tiling, shape.element_bits
    for dimension, stride in enumerate(logical_strides(shape)):
        steps = set()
        for index in np.ndindex(*shape.sizes):
            if index[dimension] + 1 < shape.sizes[dimension]:
                further = tuple(i + (d == dimension) for d, i in enumerate(index))
                steps.add((tiling.linear_index(further) - tiling.linear_index(index)) * bits)
        if len(steps) == 1:
            assert stride == (None if (only := steps.pop()) % 8 else only // 8)
        elif steps:
            assert stride is None
    assert all(s is None or s >= 0 for s in physical_strides(shape))
