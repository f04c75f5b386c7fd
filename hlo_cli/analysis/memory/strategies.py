"""Strategies by which heaps are filled; TPU compilers try the next if the total exceeds a limit.

Mirrors `BufferAssignmentAlgorithmProto` of xla/service/buffer_assignment.proto; the order of attempts is that of
libtpu's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from hlo_cli.analysis.placing.fast_merge import fast_merge, fast_split
from hlo_cli.analysis.placing.heap import Heap, HeapGroup, place_best, place_spatial, place_temporal
from hlo_cli.dataclass import dataclass

Placing = Callable[[Sequence[HeapGroup], int], Heap]
"""A heap algorithm: returns offsets for sharing groups and an alignment in bytes."""

StrategyName = Literal["BEST_OF_SPATIAL_TEMPORAL", "FAST_MERGE", "FAST_SPLIT", "SPATIAL", "TEMPORAL"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A heap algorithm and the order of assignment.

    If `by_time`, buffers are assigned by start of their live range. Otherwise they are assigned by size, and may
    reuse any free allocation.
    """

    name: StrategyName
    placing: Placing
    by_time: bool


DEFAULT_STRATEGY: Final = Strategy("BEST_OF_SPATIAL_TEMPORAL", place_best, by_time=False)
"""The strategy on CPU and GPU, and on TPU outside of main and scalar memory."""

TPU_STRATEGIES: Final = (
    Strategy("FAST_MERGE", fast_merge, by_time=True),
    Strategy("FAST_SPLIT", fast_split, by_time=True),
    Strategy("SPATIAL", place_spatial, by_time=False),
    Strategy("TEMPORAL", place_temporal, by_time=False),
)
"""The strategies that TPU compilers try for main memory, in this order; if all exceed the limit, the last is kept."""
