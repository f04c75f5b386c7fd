"""Advice on the ranges of memory that an out-of-memory message lists; several values use a range one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.layout.default_layout import best_order
from hlo_cli.analysis.out_of_memory.advice import Shard, ShardValues, ShrinkRange
from hlo_cli.ir.out_of_memory import OomAllocation, OutOfMemory
from hlo_cli.ir.shape import ArrayShape

_MIN_SHARE: Final = 0.05
"""Minimum share of the needed memory that is worth advice."""


def is_shared(allocation: OomAllocation) -> bool:
    """Whether an allocation is a range whose size may not change if one of its values does."""
    return allocation.range is not None and not allocation.range.is_one_value


def range_advice(message: OutOfMemory, generation: str) -> Iterator[Shard | ShardValues | ShrinkRange]:
    """Sharding of what exceeds the memory by itself, else what makes the largest range smaller.

    Allocations with one value each are disjoint, so their sizes have a sum; those of ranges have none.
    """
    if not message.has_ranges or not message.used_bytes:
        return
    least, limit, largest = _MIN_SHARE * message.used_bytes, message.limit_bytes, message.culprits[0]
    ones = [each for each in message.allocations if not is_shared(each) and (each.size_bytes or 0) >= least]
    size = sum(each.size_bytes or 0 for each in ones)
    if limit and len(ones) > 1 and size > limit:
        yield ShardValues(len(ones), size, limit, -(-size // limit))
    elif limit and largest.size_bytes and largest.size_bytes > limit and largest.has_padding:
        yield Shard(largest.size_bytes, limit, -(-largest.size_bytes // limit), largest)
        if (better := _better(largest, generation)) is None or not is_shared(largest):
            return
        yield ShrinkRange(largest, better)
        return
    if is_shared(largest) and (largest.size_bytes or 0) >= least:
        yield ShrinkRange(largest, _better(largest, generation))


def _better(allocation: OomAllocation, generation: str) -> ArrayShape | None:
    """The largest value of a range in the dimension order with the fewest bytes, if that saves a relevant part."""
    shape = allocation.shape
    if not allocation.has_padding or not isinstance(shape, ArrayShape):
        return None
    best = best_order(shape, generation=generation)
    if best is None or shape.padded_bytes - best.padded_bytes < _MIN_SHARE * shape.padded_bytes:
        return None
    return replace(shape, layout=best.layout)
