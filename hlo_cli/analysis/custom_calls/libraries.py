"""Describes the computation of cuBLAS and cuDNN calls from their configurations.

Mirrors `GemmBackendConfig`, `CudnnConvBackendConfig`, `CudnnNormBackendConfig`, and `CudnnfMHABackendConfig` of
xla/service/gpu/backend_configs.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.ir.attributes.metadata import BackendConfig, Json
from hlo_cli.ir.instruction import Instruction

_PLAIN_CONFIGS: Final = ("cudnn_norm_backend_config", "cudnn_fmha_backend_config", "block_scaled_dot_backend_config")
_EPILOGUES: Final = {
    "": "",
    "DEFAULT": "",
    "BIAS": " + bias",
    "RELU": " + ReLU",
    "BIAS_RELU": " + bias + ReLU",
    "GELU": " + GELU",
    "GELU_AUX": " + GELU (auxiliary output)",
    "BIAS_GELU": " + bias + GELU",
    "BIAS_GELU_AUX": " + bias + GELU (auxiliary output)",
    "SILU": " + SiLU",
    "BIAS_SILU": " + bias + SiLU",
}
_ACTIVATIONS: Final = {"relu": "ReLU", "relu6": "ReLU6", "elu": "ELU", "leakyrelu": "leaky ReLU"}
_SCALES: Final = {"1": "per-operand scale", "2": "per-block scale"}


def describe_library_call(call: Instruction) -> tuple[tuple[str, str], ...]:
    """Labels and descriptions of the computation; empty for other calls.

    >>> from hlo_cli import parse_module
    >>> dims = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    >>> gemm = f'"gemm_backend_config":{{"alpha_real":2,"beta":1,"epilogue":"BIAS_GELU",{dims}}}'
    >>> text = f'custom-call(f32[2,3] a, f32[3,5] b), custom_call_target="__cublas$gemm", backend_config={{{gemm}}}'
    >>> root = parse_module(f"r = (f32[2,5], s8[9]) {text}").entry.root
    >>> for line in describe_library_call(root): print(*line, sep=": ")
    matmul: m 2, n 5, k 3
    computes: 2 × lhs × rhs + 1 × operand 2 + bias + GELU
    algorithm: library default
    """
    config = call.backend_config
    if config is None or not isinstance(config.json, Mapping):
        return ()
    if isinstance(gemm := config.get("gemm_backend_config"), Mapping):
        return tuple(_gemm(call, gemm))
    if isinstance(convolution := config.get("cudnn_conv_backend_config"), Mapping):
        return tuple(_convolution(call, convolution))
    return tuple(_others(config))


def _gemm(call: Instruction, config: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    yield from _matmul(call)
    epilogue = str(config.get("epilogue") or "")
    after = _EPILOGUES.get(epilogue, f" + {epilogue}")
    factor = f"{_format_number(config.get('alpha_real', 1))}"
    if _format_number(config.get("alpha_imag", 0)) != "0":
        factor = f"({factor} + {_format_number(config.get('alpha_imag'))} i)"
    beta = _format_number(config.get("beta", 0))
    added = f" + {beta} × operand 2" if beta != "0" else ""
    yield "computes", f"{factor} × lhs × rhs{added}{after}"
    if scaling := _SCALES.get(_format_number(config.get("scale_mode", 0))):
        yield "scaling", scaling
    algorithm = config.get("selected_algorithm")
    yield "algorithm", "library default" if algorithm is None else f"{_format_number(algorithm)}"


def _convolution(call: Instruction, config: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    yield from _matmul(call)
    for attribute in ("window", "dim_labels", "feature_group_count", "batch_group_count"):
        if (text := call.attribute(attribute)) is not None:
            yield attribute, text.strip("{}")
    side = _format_number(config.get("side_input_scale", 0))
    added = f" + {side} × side input" if side != "0" else ""
    activation = str(config.get("activation_mode") or "kNone").removeprefix("k").lower()
    after = "" if activation == "none" else f" + {_ACTIVATIONS.get(activation, activation)}"
    yield "computes", f"{_format_number(config.get('conv_result_scale', 1))} × convolution{added}{after}"
    algorithm = config.get("algorithm")
    if not isinstance(algorithm, Mapping):
        yield "algorithm", "chosen at run time (autotuned)"
        return
    cores = " (tensor cores)" if algorithm.get("math_type") == "TENSOR_OP_MATH" else ""
    yield "algorithm", f"{_format_number(algorithm.get('algo_id', 0))}{cores}"


def _others(config: BackendConfig) -> Iterator[tuple[str, str]]:
    """Yields the scalar settings of normalization and attention by their names."""
    for name in _PLAIN_CONFIGS:
        settings = config.get(name)
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield key, _format_number(value)


def _matmul(call: Instruction) -> Iterator[tuple[str, str]]:
    if (matmul := matmul_of(call)) is not None:
        batch = f"batch {matmul.batch:,}, " if matmul.batch != 1 else ""
        yield "matmul", f"{batch}m {matmul.m:,}, n {matmul.n:,}, k {matmul.k:,}"


def _format_number(value: Json) -> str:
    """Shortest decimal form of a number."""
    return f"{value:g}" if isinstance(value, float) else str(value)
