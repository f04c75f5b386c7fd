"""What bounds an operation on a chip: its arithmetic, or the bytes that it moves.

An operation takes at least as long as its flops at the chip's peak, and as its bytes at the bandwidth of the main
memory. Mirrors the bottleneck in `HloCostAnalysis::Postprocess` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hlo_cli.analysis.costs.figures import Cost
from hlo_cli.analysis.costs.order import callees_first
from hlo_cli.analysis.matmul import matmul_of
from hlo_cli.analysis.throughput import Throughput
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

Bound = Literal["compute", "memory", "free", "unknown"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds an operation, and how long it takes at least.

    `ridge` is the intensity, in flops a byte, from which on operations of this type are bound by arithmetic.
    """

    bound: Bound
    compute_seconds: float
    memory_seconds: float
    ridge: float

    @property
    def seconds(self) -> float:
        """The longer of both: no schedule makes it faster."""
        return max(self.compute_seconds, self.memory_seconds)


def roofline(cost: Cost, throughput: Throughput, element_type: str) -> Roofline:
    """What bounds a cost on a chip that calculates in this type.

    `unknown` if nobody knows what a part of it costs, or how fast the chip is; `free` if it costs nothing.

    >>> from hlo_cli.analysis.throughput import throughput_of
    >>> v5e = throughput_of("v5e")
    >>> roofline(Cost({"flops": 4e12, "bytes accessed": 1e9}), v5e, "bf16").bound
    'compute'
    >>> found = roofline(Cost({"flops": 1e9, "bytes accessed": 819e9}), v5e, "bf16")
    >>> found.bound, found.seconds, round(found.ridge)
    ('memory', 1.0, 241)
    >>> roofline(Cost(), v5e, "bf16").bound, roofline(Cost({}, unknown=1), v5e, "bf16").bound
    ('free', 'unknown')
    """
    peak = throughput.flops_of(element_type)
    memory = max(cost.bytes_accessed, 0) / throughput.memory.per_second
    compute = max(cost.flops, 0) / peak.per_second if peak is not None else 0.0
    ridge = peak.per_second / throughput.memory.per_second if peak is not None else 0.0
    return Roofline(_bound(cost, compute, memory, is_known=peak is not None), compute, memory, ridge)


def calculating_type(instruction: Instruction) -> str:
    """The element type that most of an operation's flops are in: that of its largest product, else of its result.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2,5] dot(s8[2,3] a, s8[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> calculating_type(parse_module(text).entry.root)
    's8'
    """
    inner = (i for computation in callees_first(instruction.called_computations) for i in computation.instructions)
    found = (matmul_of(each) for each in (instruction, *inner))
    if products := [matmul for matmul in found if matmul is not None]:
        return max(products, key=lambda matmul: matmul.flops).lhs.element_type.name
    arrays = (leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape))
    return next((array.element_type.name for array in arrays), "f32")


def _bound(cost: Cost, compute: float, memory: float, *, is_known: bool) -> Bound:
    if cost.unknown or not is_known:
        return "unknown"
    if not compute and not memory:
        return "free"
    return "compute" if compute >= memory else "memory"
