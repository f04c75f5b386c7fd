"""Linear indices of selected elements, and elements at selected linear indices, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np

from hlo_cli.analysis.layout.address_map import BLOCK, AddressLookup, address_blocks
from hlo_cli.analysis.layout.index_functions import IntArray
from hlo_cli.analysis.layout.inverse_map import PADDING, elements_at
from hlo_cli.ir.layout import unravel
from hlo_cli.ir.shape import ArrayShape


def linear_indices_of(shape: ArrayShape, selections: Sequence[tuple[range, ...]]) -> Iterator[IntArray]:
    """Yields linear indices of the elements in each selection, one range per dimension, in row-major order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> [block.tolist() for block in linear_indices_of(shape, [(range(2, 3), range(3, 5))])]
    [[17, 20]]
    """
    everything = tuple(map(range, shape.sizes))
    lookup = AddressLookup(shape, sum(prod(map(len, ranges)) for ranges in selections))
    singles: list[tuple[int, ...]] = []
    for ranges in selections:
        if ranges == everything and shape.rank:
            yield from _look_up(lookup, singles)
            yield from address_blocks(shape)
        elif all(len(each) == 1 for each in ranges):
            singles.append(tuple(each[0] for each in ranges))
        else:
            yield from _look_up(lookup, singles)
            yield from _in_box(lookup, ranges)
    yield from _look_up(lookup, singles)


def elements_in(shape: ArrayShape, positions: Iterable[range], *, front: int = 0, width: int = 1) -> Iterator[IntArray]:
    """Yields the elements in ranges of positions, one row each, -1 for padding.

    With `width`, the ranges are bytes, `width` per element, and the first element is at byte `front`.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> next(elements_in(parse_shape("f32[3]{0:T(2)}"), [range(2, 4)])).tolist()
    [[2], [-1]]
    """
    for numbers in positions:
        for start in range(0, len(numbers), BLOCK):
            part = numbers[start : start + BLOCK]
            places = (np.arange(part.start, part.stop, part.step) - front) // width
            found = np.full((len(places), shape.rank), PADDING)
            found[places >= 0] = elements_at(shape, places[places >= 0])
            yield found


def _look_up(lookup: AddressLookup, singles: list[tuple[int, ...]]) -> Iterator[IntArray]:
    if singles:
        columns = [np.array(column, np.int64) for column in zip(*singles, strict=True)]
        found = lookup.at(columns)
        yield np.array(np.broadcast_to(found, (len(singles),)), np.int64)
        singles.clear()


def _in_box(lookup: AddressLookup, ranges: tuple[range, ...]) -> Iterator[IntArray]:
    sizes = tuple(map(len, ranges))
    for start in range(0, prod(sizes), BLOCK):
        places = unravel(np.arange(start, min(start + BLOCK, prod(sizes))), sizes)
        columns = [each.start + place * each.step for each, place in zip(ranges, places, strict=True)]
        yield np.asarray(lookup.at(columns))
