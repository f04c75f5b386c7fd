"""Reasons of XLA:GPU against a fusion, in its words.

Mirrors xla/backends/gpu/transforms/priority_fusion.cc, xla/service/gpu/gpu_fusible.cc, and `ShouldFuseInPlaceOp` of
xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

NO_USERS: Final = "No users to fuse"
ONLY_BITCASTS: Final = "not fusing because there are only bitcast users"
ROOT: Final = "not fusing into the output of the root instruction"
PRODUCER_NOT_FUSIBLE: Final = "the producer is not fusible"
CONSUMER_NOT_FUSIBLE: Final = "the consumer is not fusible"
BITCAST_CONSUMER: Final = "not fusing into a single bitcast as consumer"
SCATTER_OUTPUT: Final = "do not fuse into the output of scatter"
SCATTER_OPERAND: Final = "do not fuse into the in-place operand of scatter"
SCATTER_SHARED: Final = "Producer uses the in-place operand of a scatter"
TWO_REDUCES: Final = "both the producer and the consumer contain a reduce"
REDUCE_BECOMES_LOOP: Final = "fusion into output of a reduce fusion would create a loop fusion"
SHARED_MEMORY: Final = "shared memory usage would be over the budget of {budget}B"
TOO_MANY_REDUCTIONS: Final = "over 8 unnested reductions in fusion"
TOO_MANY_OPERANDS: Final = "Number of operands and output buffers is larger than allowed budget per fusion"
CODE_SIZE: Final = "the fusion would result in an overly large code duplication"
IN_PLACE_TWICE: Final = (
    "The consumer is an in-place operation that has an additional operand that has the same value "
    "as the in-place buffer"
)
SEVERAL_MOVES: Final = "Producer fusion has multiple non-elementwise ops, bailing."
IN_PLACE_CONFLICT: Final = "Non-elementwise ops in consumer lead to inplace conflict after fusion."
SEVERAL_UPDATES: Final = "multiple dus ops, bailing."
SLICE_SHAPE: Final = "Slice op has a different shape than the update shape of the dus op, bailing."
SLICE_INDEX: Final = "DUS and slice index mismatch"
SLICE_SHARED: Final = "Fusing slice into DUS will also fuse another non-elementwise op with shared operand as DUS."
DYNAMIC_SLICE_SHAPE: Final = "Dynamic slice op has a different shape than the update shape of the dus op, bailing."
DYNAMIC_SLICE_INDEX: Final = "DUS and DS index mismatch"
DYNAMIC_SLICE_SHARED: Final = "Fusing DS into DUS will also fuse another non-elementwise op with shared operand as DUS."
UNRECOGNIZED: Final = "unrecognized inplace update non-elementwise output pair"

TRITON: Final = "touches Triton: not modeled"
"""Not a reason of XLA: its decision on Triton fusions is not modeled."""

MEANINGS: Final = MappingProxyType(
    {
        NO_USERS: "no instruction reads the result",
        ONLY_BITCASTS: "the readers are bitcasts, such as those before a matmul",
        ROOT: "the producer is the result of its computation",
        PRODUCER_NOT_FUSIBLE: "it is a kernel of its own, such as a matmul, sort, loop, or collective",
        CONSUMER_NOT_FUSIBLE: "it is a kernel of its own, such as a matmul, sort, loop, or collective",
        BITCAST_CONSUMER: "the consumer is a bitcast, which takes no time",
        SCATTER_OUTPUT: "it writes in place, so that its kernel ends with it",
        SCATTER_OPERAND: "the producer computes the updated array",
        SCATTER_SHARED: "the producer reads the updated array",
        TWO_REDUCES: "a reduction of 16 or more elements would be recomputed for another one",
        REDUCE_BECOMES_LOOP: "threads would not share the work of the reduction",
        SHARED_MEMORY: "reductions and transposes keep tiles there",
        TOO_MANY_REDUCTIONS: "reductions of both are counted",
        TOO_MANY_OPERANDS: "the limit is 96",
        CODE_SIZE: "the limit is 10,000 operations",
        IN_PLACE_TWICE: "the consumer updates a buffer in place and reads it through another operand, too",
        SEVERAL_MOVES: "the consumer updates a buffer in place, and the producer moves elements in several ways",
        IN_PLACE_CONFLICT: "the consumer updates a buffer in place and would read elements that are overwritten",
        SEVERAL_UPDATES: "the consumer has several dynamic-update-slices",
        SLICE_SHAPE: "the producer's slice and the in-place update have different shapes",
        SLICE_INDEX: "the producer's slice and the in-place update are at different or unknown places",
        SLICE_SHARED: "another operation would read the buffer that is updated in place",
        DYNAMIC_SLICE_SHAPE: "the producer's dynamic-slice and the in-place update have different shapes",
        DYNAMIC_SLICE_INDEX: "the producer's dynamic-slice and the in-place update have different indices",
        DYNAMIC_SLICE_SHARED: "another operation would read the buffer that is updated in place",
        UNRECOGNIZED: "the consumer updates a buffer in place, and the producer moves elements of it",
        TRITON: "one of them is a Triton fusion; XLA's times for these are not modeled",
    }
)
"""What each reason means, in plain words."""
_BUDGET: Final = SHARED_MEMORY.partition("{")[0]


def meaning_of(reason: str) -> str:
    """What a reason means, in plain words; empty for those that are not known, such as Triton's.

    >>> meaning_of("do not fuse into the output of scatter")
    'it writes in place, so that its kernel ends with it'
    """
    return MEANINGS.get(SHARED_MEMORY if reason.startswith(_BUDGET) else reason, "")
