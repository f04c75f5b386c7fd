"""Roofline of an operation on a chip: bound by compute or by memory bandwidth.

The minimum time is the larger of flops at the peak rate and bytes at the bandwidth of the main memory. Mirrors the
bottleneck in `HloCostAnalysis::Postprocess` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.matmul_type import matmul_type
from hlo_cli.analysis.cost.matmuls import Matmul, matmul_of
from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

Bound = Literal["compute", "memory", "free", "unknown"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bound of an operation, and its times in seconds at the roofline; None if the rate is unknown.

    `ridge` is the intensity, in flops per byte, from which on operations of this type are compute bound.
    `uncached_seconds` is the memory time if everything that fits in caches stays there.
    """

    bound: Bound
    compute_seconds: float | None
    memory_seconds: float
    ridge: float | None
    uncached_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Larger of compute and memory time, if all bytes go through the main memory."""
        return max(self.compute_seconds or 0.0, self.memory_seconds)

    @property
    def at_least_seconds(self) -> float:
        """Lower bound for any schedule, even if caches are used fully."""
        return max(self.compute_seconds or 0.0, self.uncached_seconds)


def roofline(cost: Cost, throughput: ChipSpec, element_type: str) -> Roofline:
    """Roofline of a cost on a chip that computes in `element_type`.

    The bound is `unknown` if a part of the cost or the rate of the chip is unknown, and `free` if the cost is zero.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> v5e = chip_spec("v5e")
    >>> roofline(Cost({"flops": 4e12, "bytes accessed": 1e9}), v5e, "bf16").bound
    'compute'
    >>> found = roofline(Cost({"flops": 1e9, "bytes accessed": 819e9}), v5e, "bf16")
    >>> found.bound, found.seconds, round(found.ridge)
    ('memory', 1.0, 241)
    >>> roofline(Cost(), v5e, "bf16").bound, roofline(Cost({}, unknown=1), v5e, "bf16").bound
    ('free', 'unknown')
    """
    peak, flops = throughput.at_most(element_type), max(cost.flops, 0)
    bandwidth, accessed = throughput.memory.per_second, max(cost.bytes_accessed, 0)
    memory, uncached = accessed / bandwidth, max(accessed - throughput.cache_bytes, 0) / bandwidth
    if peak is None:  # nothing to calculate takes no time, whatever the chip
        compute, ridge = (None if flops else 0.0), None
    else:
        compute, ridge = flops / peak.per_second, peak.per_second / bandwidth
    return Roofline(_bound(cost, compute, memory), compute, memory, ridge, uncached)


def compute_type(instruction: Instruction) -> str:
    """Element type of most flops of an operation: that of its largest matmul, else of its result.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2,5] dot(s8[2,3] a, s8[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> compute_type(parse_module(text).entry.root)
    's8'
    """
    return computed_once(_compute_type, instruction)


def _compute_type(instruction: Instruction) -> str:
    return type_among(instruction, matmuls_within(instruction))


def matmuls_within(instruction: Instruction) -> Sequence[Matmul]:
    """Matmuls of an operation and of all that it calls.

    >>> from hlo_cli import parse_module
    >>> matmuls_within(parse_module("r = f32[2] negate(f32[2] a)").entry.root)
    []
    """
    inner = (i for computation in callees_first(instruction.called_computations) for i in computation.instructions)
    found = (matmul_of(each) for each in (instruction, *inner))
    return [matmul for matmul in found if matmul is not None]


def type_among(instruction: Instruction, matmuls: Sequence[Matmul]) -> str:
    """`compute_type` of an operation with these matmuls.

    >>> from hlo_cli import parse_module
    >>> type_among(parse_module("r = s8[2] negate(s8[2] a)").entry.root, ())
    's8'
    """
    if matmuls:
        return matmul_type(max(matmuls, key=lambda matmul: matmul.flops))
    arrays = (leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape))
    return next((array.element_type.name for array in arrays), "f32")


def _bound(cost: Cost, compute: float | None, memory: float) -> Bound:
    if cost.unknown or compute is None:
        return "unknown"
    if not compute and not memory:
        return "free"
    return "compute" if compute >= memory else "memory"
