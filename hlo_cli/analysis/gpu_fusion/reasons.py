"""Reasons of XLA:GPU against a fusion, in its words.

Mirrors xla/backends/gpu/transforms/priority_fusion.cc, xla/service/gpu/gpu_fusible.cc, and `ShouldFuseInPlaceOp` of
xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

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
