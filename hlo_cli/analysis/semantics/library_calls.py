"""Custom calls to libraries of GPUs: products of cuBLAS, and convolutions of cuDNN.

Mirrors gemm_rewriter.cc and conv_rewriter.cc, which make them, and backend_configs.proto.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.contracting import contracted
from hlo_cli.analysis.semantics.convolving import convolved, features_first, filter_gradient, input_gradient
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, first_array, settled_shape, zeros_of
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    convolution_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import HloError


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


_EPILOGUES: Final[dict[str, Callable[[Array], Array]]] = {"": lambda x: x, "GELU": _gelu, "RELU": _relu, "SILU": _silu}
"""What the epilogue of a product of cuBLAS does once a bias was added."""


def _configuration(instruction: Instruction, key: str) -> dict[str, object]:
    found = json.loads(instruction.attribute("backend_config") or "{}")
    inner = found.get(key, found)
    return inner if isinstance(inner, dict) else {}


def _number(configuration: dict[str, object], key: str, default: float) -> float:
    found = configuration.get(key, default)
    return float(found) if isinstance(found, int | float | str) else default


def _gemm(instruction: Instruction, computed: Computed) -> Kernel:
    """`alpha A B + beta C`, and its epilogue: a bias, an activation, and the value before it as one more result."""
    config = _configuration(instruction, "gemm_backend_config")
    epilogue = str(config.get("epilogue") or "DEFAULT").removeprefix("DEFAULT")
    name = epilogue.removesuffix("_AUX")
    has_bias = name.startswith("BIAS")
    name = name.removeprefix("BIAS").removeprefix("_")
    if name not in _EPILOGUES:
        raise HloError(f"cannot evaluate {instruction.name}: the epilogue {epilogue} is unknown", instruction.span)
    activation = _EPILOGUES[name]
    numbers = _contracting(config)
    alpha, beta = _number(config, "alpha_real", 1), _number(config, "beta", 0)
    result_shape = first_array(instruction)
    settle = settled_shape(result_shape, computed.floats)
    minor = result_shape.layout.minor_to_major
    is_tuple = isinstance(instruction.shape, TupleShape)
    kept = 2 if epilogue.endswith("_AUX") else 1

    def kernel(a: Array, b: Array, *others: Array) -> Value:
        result = alpha * contracted(a, b, numbers)
        if beta:
            result = result + beta * others[0]
        if has_bias:
            result = result + _as_minor(others[1 if beta else 0], result.ndim, minor)
        results: list[Value] = [settle(activation(result)), settle(result)]
        return (*results[:kept], *_rest(instruction, computed, kept)) if is_tuple else results[0]

    return kernel


def _contracting(config: dict[str, object]) -> DotDimensionNumbers:
    dims = config["dot_dimension_numbers"]
    assert isinstance(dims, dict)
    return DotDimensionNumbers(
        *(
            tuple(map(int, dims.get(f"{side}_{word}_dimensions", ())))
            for word in ("contracting", "batch")
            for side in ("lhs", "rhs")
        )
    )


def _as_minor(bias: Array, rank: int, minor: Sequence[int]) -> Array:
    """A bias along the dimensions of the result that are the most minor in memory."""
    if bias.ndim != 1 or not minor:
        return bias
    sizes = [1] * rank
    sizes[minor[0]] = bias.shape[0]
    return bias.reshape(sizes)


def _rest(instruction: Instruction, computed: Computed, kept: int = 1) -> Sequence[Value]:
    """Scratch memory, which is the result after those that are values."""
    shape = instruction.shape
    return [zeros_of(each, computed) for each in shape.elements[kept:]] if isinstance(shape, TupleShape) else ()


def _activation(config: dict[str, object], instruction: Instruction) -> Callable[[Array], Array]:
    """The activation of a convolution."""
    mode = str(config.get("activation_mode") or "kNone")
    slope = _number(config, "leakyrelu_alpha", 0)
    found: dict[str, Callable[[Array], Array]] = {
        "kElu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "kLeakyRelu": lambda x: np.where(x > 0, x, slope * x),
        "kNone": lambda x: x,
        "kRelu": _relu,
        "kRelu6": lambda x: np.clip(x, 0, 6),
        "kSigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "kTanh": np.tanh,
    }
    if mode not in found:
        raise HloError(f"cannot evaluate {instruction.name}: the activation {mode} is unknown", instruction.span)
    return found[mode]


def _labels(instruction: Instruction) -> ConvolutionDimensionNumbers:
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        raise HloError(f"cannot evaluate {instruction.name}: it has no dim_labels", instruction.span)
    return numbers


def _convolution(instruction: Instruction, computed: Computed) -> Kernel:
    """A forward convolution, scaled, with a bias, a side input, and an activation if it has them."""
    numbers = _labels(instruction)
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    config = _configuration(instruction, "cudnn_conv_backend_config")
    scale, side_scale = _number(config, "conv_result_scale", 1), _number(config, "side_input_scale", 0)
    activation = _activation(config, instruction)
    settle = settled_shape(first_array(instruction), computed.floats)
    places = features_first(numbers)

    def kernel(x: Array, w: Array, *others: Array) -> Value:
        result = convolved(x.transpose(places.input), w.transpose(places.kernel), window, groups)
        result = (scale * result).transpose(np.argsort(places.output))
        if len(others) > 1 and side_scale:
            result = result + side_scale * others[1]
        if others:
            sizes = [1] * result.ndim
            sizes[numbers.output_feature_dimension] = -1
            result = result + others[0].reshape(sizes)
        return (settle(activation(result)), *_rest(instruction, computed))

    return kernel


def _filter_gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradient of the filter; labels and window are those of the forward convolution."""
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    settle = settled_shape(first_array(instruction), computed.floats)
    scale = _number(_configuration(instruction, "cudnn_conv_backend_config"), "conv_result_scale", 1)
    places = features_first(_labels(instruction))

    def kernel(x: Array, gradient: Array, *others: Array) -> Value:
        found = filter_gradient(x.transpose(places.input), gradient.transpose(places.output), window, groups)
        return (settle(scale * found.transpose(np.argsort(places.kernel))), *_rest(instruction, computed))

    return kernel


def _input_gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradient of the input; labels and window are those of the forward convolution."""
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    shape = first_array(instruction)
    settle = settled_shape(shape, computed.floats)
    scale = _number(_configuration(instruction, "cudnn_conv_backend_config"), "conv_result_scale", 1)
    places = features_first(_labels(instruction))
    sizes = [shape.dimensions[at] for at in places.input[2:]]

    def kernel(gradient: Array, w: Array, *others: Array) -> Value:
        found = input_gradient(gradient.transpose(places.output), w.transpose(places.kernel), window, sizes, groups)
        return (settle(scale * found.transpose(np.argsort(places.input))), *_rest(instruction, computed))

    return kernel


LIBRARY_CALLS: Final[dict[str, Rule]] = {
    "__cublas$gemm": _gemm,
    "__cublas$lt$matmul": _gemm,
    "__cudnn$convBackwardFilter": _filter_gradient,
    "__cudnn$convBackwardInput": _input_gradient,
    "__cudnn$convBiasActivationForward": _convolution,
    "__cudnn$convForward": _convolution,
}
"""The rule of each target of a library."""
