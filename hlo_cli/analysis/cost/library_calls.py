"""Cost of custom calls from their configuration: cuBLAS and cuDNN matmuls, and kernels with an estimate.

Mirrors `GpuHloCostAnalysis::HandleCustomCall` of xla/service/gpu/model/gpu_hlo_cost_analysis.cc and the `cost_estimate`
of Pallas.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OUTPUT_BYTES, TRANSCENDENTALS, Properties, operand_key
from hlo_cli.analysis.cost.counting import CostCounter
from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.instruction import Instruction

_ESTIMATE_PATHS: Final = (("custom_call_config", "cost_estimate"), ("cost_estimate",))
_MOSAIC_KERNEL: Final = "tpu_custom_call"
_FREE: Final = frozenset(("AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound"))


def custom_call_properties(call: Instruction, counter: CostCounter) -> Properties | None:
    """Properties that differ from the defaults; None if the cost is unknown.

    Scratch memory, which follows the result of a library call, is not written. The TPU compiler counts no bytes for a
    kernel without an estimate, and -1 for the operands of free calls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.cost import RUN
    >>> dims = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    >>> config = f'backend_config={{"gemm_backend_config":{{{dims}}}}}'
    >>> text = f'r = (f32[2,5], s8[99]) custom-call(f32[2,3] a, f32[3,5] b), custom_call_target="__cublas$gemm"'
    >>> cost = cost_of(parse_module(f"{text}, {config}").entry.root, rules=RUN)
    >>> cost.flops, cost.output_bytes, cost.bytes_accessed, cost.unknown
    (60, 40, 124, 0)
    """
    target, minus_one = call.string("custom_call_target"), counter.rules.minus_one
    if target in _FREE:
        unread = {operand_key(number): -1 if minus_one else 0 for number in range(len(call.operands))}
        return {BYTES: 0, OUTPUT_BYTES: 0, **unread}
    config = call.backend_config
    if config is not None and (estimate := _estimate(config)) is not None:
        return estimate
    if target == _MOSAIC_KERNEL and minus_one:
        return {BYTES: 0}
    if (matmul := matmul_of(call)) is None:
        return None
    written = matmul.result.logical_bytes
    read = sum(operand.bytes for operand in counter.operands(call))
    return {FLOPS: matmul.flops, OUTPUT_BYTES: written, BYTES: written + read}


def _estimate(config: BackendConfig) -> Properties | None:
    names = (("flops", FLOPS), ("transcendentals", TRANSCENDENTALS), ("bytes_accessed", BYTES))
    for path in _ESTIMATE_PATHS:
        texts = {figure: str(config.get(*path, name) or "") for name, figure in names}
        known: Properties = {figure: int(text) for figure, text in texts.items() if text.isdecimal() and len(text) < 20}
        if FLOPS in known:
            return known
    return None
