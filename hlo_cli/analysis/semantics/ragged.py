"""Dots in groups: the ragged dimension of the left side is cut into groups, whose sizes are an operand.

Mirrors `HandleRaggedDot` of xla/hlo/evaluator/hlo_evaluator_typed_visitor.h.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.contracting import contracted
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, array_shape, operand_array_shape, settled
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import DotDimensionNumbers, ragged_dot_dimension_numbers
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class _Ragged:
    """The dimensions of a dot, the ragged one of the left side, and the one of groups of the right side, if any."""

    numbers: DotDimensionNumbers
    ragged: int
    group: int | None
    rank: int

    @property
    def free(self) -> list[int]:
        """The free dimensions of the left side."""
        taken = (*self.numbers.lhs_batch_dimensions, *self.numbers.lhs_contracting_dimensions)
        return [at for at in range(self.rank) if at not in taken]

    @property
    def outer(self) -> list[int]:
        """The dimensions of the left side that may have groups of their own, in the order of the sizes of groups."""
        batch, summed = self.numbers.lhs_batch_dimensions, self.numbers.lhs_contracting_dimensions
        if self.ragged in batch:
            return list(batch[: batch.index(self.ragged)])
        if self.ragged in summed:
            return [*batch, *summed[: summed.index(self.ragged)]]
        return [*batch, *(at for at in self.free if at < self.ragged)]

    def of_right(self, dimension: int) -> int | None:
        """The dimension of the right side that goes with one of the left side."""
        pairs = (
            (self.numbers.lhs_batch_dimensions, self.numbers.rhs_batch_dimensions),
            (self.numbers.lhs_contracting_dimensions, self.numbers.rhs_contracting_dimensions),
        )
        for left, right in pairs:
            if dimension in left:
                return right[left.index(dimension)]
        return None

    def of_result(self, dimension: int) -> int | None:
        """Where a dimension of the left side is in the result, without the dimension of groups."""
        batch = self.numbers.lhs_batch_dimensions
        if dimension in batch:
            return batch.index(dimension)
        return len(batch) + self.free.index(dimension) if dimension in self.free else None


def ragged_dot(instruction: Instruction, computed: Computed) -> Kernel:
    """A dot in groups.

    Groups of a free dimension each meet their own part of the right side, and rows beyond all groups are 0. Groups of
    a contracting dimension are summed alone, and are the first dimension of the result. Of a batch dimension,
    batches beyond all groups are 0. Dimensions before the ragged one may have groups of their own.
    """
    found = ragged_dot_dimension_numbers(instruction)
    assert found is not None
    if len(found.lhs_ragged_dimensions) != 1:
        raise HloError(f"cannot evaluate {instruction.name}: it has not one ragged dimension", instruction.span)
    group = found.rhs_group_dimensions[0] if found.rhs_group_dimensions else None
    rank = operand_array_shape(instruction, 0).rank
    about = _Ragged(found.dot_dimension_numbers, found.lhs_ragged_dimensions[0], group, rank)
    settle_, sizes = settled(instruction, computed.floats), array_shape(instruction).dimensions
    if about.ragged in about.numbers.lhs_contracting_dimensions:
        return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _sums_of_groups))
    if about.ragged in about.numbers.lhs_batch_dimensions:
        return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _batches_of_groups))
    return lambda x, y, groups: settle_(_each_outer(about, x, y, groups, sizes, _rows_of_groups))


Part = Callable[[_Ragged, Array, Array, Array], Array]


def _each_outer(about: _Ragged, x: Array, y: Array, groups: Array, sizes: tuple[int, ...], part: Part) -> Array:
    """The results for each element of the outer dimensions, which have groups of their own."""
    if groups.ndim == 1:
        return part(about, x, y, _bounds(groups, x.shape[about.ragged]))
    outer = about.outer
    has_groups = about.ragged in about.numbers.lhs_contracting_dimensions
    total: Array | None = None
    for place in np.ndindex(groups.shape[:-1]):
        chosen = dict(zip(outer, place, strict=True))
        left, right = x, y
        into = [slice(None)] * len(sizes)
        for dimension, at in chosen.items():
            left = _range(left, dimension, at, at + 1)
            if (other := about.of_right(dimension)) is not None:
                right = _range(right, other, at, at + 1)
            if (result := about.of_result(dimension)) is not None:
                into[result + has_groups] = slice(at, at + 1)
        found = part(about, left, right, _bounds(groups[place], x.shape[about.ragged]))
        if total is None:
            total = np.zeros(sizes, found.dtype)
        total[tuple(into)] += found
    return np.zeros(sizes) if total is None else total


def _bounds(groups: Array, size: int) -> Array:
    """Where each group begins and, last, where the last one ends, within the ragged dimension."""
    return np.clip(np.concatenate(([0], np.cumsum(groups.astype(np.int64)))), 0, size)


def _sums_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    other = about.of_right(about.ragged)
    assert other is not None
    return np.stack([
        contracted(_range(x, about.ragged, begin, end), _range(y, other, begin, end), about.numbers)
        for begin, end in pairwise(bounds)
    ])  # fmt: skip


def _batches_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    found = contracted(x, y, about.numbers)
    at = about.of_result(about.ragged)
    found[tuple(slice(bounds[-1] if axis == at else 0, None) for axis in range(found.ndim))] = 0
    return found


def _rows_of_groups(about: _Ragged, x: Array, y: Array, bounds: Array) -> Array:
    assert about.group is not None
    inner = _without(about.numbers, about.group)
    at = about.of_result(about.ragged)
    parts = [
        contracted(_range(x, about.ragged, begin, end), np.take(y, number, about.group), inner)
        for number, (begin, end) in enumerate(pairwise(bounds))
    ]
    left = contracted(_range(x, about.ragged, bounds[-1], None), _no_group(y, about.group), inner)
    return np.concatenate([*parts, np.zeros_like(left)], axis=at)


def _no_group(y: Array, group: int) -> Array:
    return np.zeros([size for at, size in enumerate(y.shape) if at != group], y.dtype)


def _range(x: Array, dimension: int, begin: int, end: int | None) -> Array:
    return x[tuple(slice(begin, end) if at == dimension else slice(None) for at in range(x.ndim))]


def _without(numbers: DotDimensionNumbers, group: int) -> DotDimensionNumbers:
    """The numbers once the group dimension of the right side is gone."""
    return DotDimensionNumbers(
        numbers.lhs_contracting_dimensions,
        tuple(at - (at > group) for at in numbers.rhs_contracting_dimensions),
        numbers.lhs_batch_dimensions,
        tuple(at - (at > group) for at in numbers.rhs_batch_dimensions),
    )


HANDLERS: Final[dict[str, Rule]] = {"ragged-dot": ragged_dot}
"""The rule of dots in groups."""
