"""Lower bound of the duration of one execution on a chip: no program that computes the same kernels is faster.

Only what is certain counts: flops of matmuls at the peak rate, and bytes that no cache can hold. Launches, transfers,
elementwise operations, and branches of conditionals, of which one is executed, count nothing.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.matmul_type import matmul_type
from hlo_cli.analysis.cost.matmuls import Matmul
from hlo_cli.analysis.cost.needed_bytes import needed_cost
from hlo_cli.analysis.cost.roofline import matmuls_within
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, executions_of
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers

_WINOGRAD: Final = 4
"""Factor by which libraries reduce the multiplications of a convolution with a window: F(4×4, 3×3)."""


def time_bound(overlap: OverlapAnalysis, chip: ChipSpec) -> float:
    """Returns the seconds that one execution takes at least.

    >>> from hlo_cli import chip_spec, parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> sides = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(f"r = bf16[4096,4096] dot(bf16[4096,4096] a, bf16[4096,4096] b), {sides}")
    >>> f"{time_bound(analyze_overlap(dot), chip_spec('h100')) * 1e6:.0f} µs"
    '139 µs'
    """
    executions = executions_of(overlap.module)
    seconds = 0.0
    for kernel, cost in overlap.costs.items():
        runs = executions.get(kernel.computation, NO_EXECUTIONS)
        if kernel in overlap.synchronous or runs.in_branch:
            continue
        matmuls = matmuls_within(kernel)
        counted = min(max(cost.flops, 0) / max(sum(each.flops for each in matmuls), 1), 1.0)  # a ragged one has less
        compute = counted * sum(_matmul_seconds(each, chip) for each in matmuls)
        uncached = max(needed_cost(kernel, cost).bytes_accessed - chip.cache_bytes, 0) / chip.memory.per_second
        seconds += max(compute, uncached) * runs.count
    return seconds


def _matmul_seconds(matmul: Matmul, chip: ChipSpec) -> float:
    rate = chip.at_most(matmul_type(matmul))
    if rate is None:
        return 0.0
    has_window = isinstance(matmul.numbers, ConvolutionDimensionNumbers)
    return matmul.flops / rate.per_second / (_WINOGRAD if has_window else 1)
