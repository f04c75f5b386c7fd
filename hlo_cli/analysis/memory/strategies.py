"""In which ways compilers for TPUs fill the main memory: the next one if the one before took too much.

Follows `BufferAssignmentAlgorithmProto` of xla/service/buffer_assignment.proto and what libtpu logs of its attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from hlo_cli.analysis.placing.fast_merge import fast_merge, fast_split
from hlo_cli.analysis.placing.heap import Heap, HeapGroup, place, place_largest, place_longest
from hlo_cli.dataclass import dataclass

Placing = Callable[[Sequence[HeapGroup], int], Heap]

StrategyName = Literal["BEST_OF_SPATIAL_TEMPORAL", "FAST_MERGE", "FAST_SPLIT", "SPATIAL", "TEMPORAL"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How heaps are filled; buffers come `by_time`, or else by size and may then take any allocation that is free."""

    name: StrategyName
    placing: Placing
    by_time: bool


USUAL: Final = Strategy("BEST_OF_SPATIAL_TEMPORAL", place, by_time=False)
"""What CPUs and GPUs have, and TPUs beside the main and the scalar memory."""

OF_TPUS: Final = (
    Strategy("FAST_MERGE", fast_merge, by_time=True),
    Strategy("FAST_SPLIT", fast_split, by_time=True),
    Strategy("SPATIAL", place_largest, by_time=False),
    Strategy("TEMPORAL", place_longest, by_time=False),
)
"""What compilers for TPUs try for the main memory, in this order; where none is within the limit, the last."""
