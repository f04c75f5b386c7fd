"""Arithmetic type of a matmul, from its operand types and precision.

GPUs multiply f32 in TF32 unless the highest precision is set, as in `GetBlasComputationType` of
xla/service/algorithm_util.cc and xla/stream_executor/gpu. TPUs use one bf16 product, three for high precision, and six
for highest. An `algorithm` (`PrecisionConfig` of xla/xla_data.proto) determines the type directly.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.matmuls import Matmul
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lazy_regex import lazy_regex

_ALGORITHM = lazy_regex(
    r"(?:alg_)?dot_(?P<lhs>any_f8|[a-z]+\d+)_(?P<rhs>any_f8|[a-z]+\d+)_[a-z]+\d+(?:_x(?P<times>\d)|_fast_accum)?"
)
_CONFIG: Final = ("gemm_backend_config", "precision_config")
_F32: Final = ("f32", "c64")
_TYPE_BY_PRECISION: Final = {"high": "f32 high", "highest": "f32 highest", "mixed": "f32"}


def matmul_type(matmul: Matmul) -> str:
    """Type in which a chip multiplies, as accepted by `ChipSpec.flops_of`.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.matmuls import matmul_of
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> words = "", ", operand_precision={highest,highest}", ", algorithm=dot_bf16_bf16_f32_x3"
    >>> [matmul_type(matmul_of(parse_module(text + more).entry.root)) for more in words]
    ['tf32', 'f32 highest', 'bf16 x3']
    """
    if named := _by_algorithm(_algorithm(matmul.instruction)):
        return named
    lhs, rhs = (shape.element_type.name for shape in (matmul.lhs, matmul.rhs))
    if lhs in _F32 and rhs in _F32:
        return _TYPE_BY_PRECISION.get(_precision(matmul.instruction), "tf32")
    # the narrower of two types, which gives a lower bound of the time
    return min((matmul.lhs, matmul.rhs), key=_bits).element_type.name


def _bits(shape: ArrayShape) -> int:
    return shape.element_type.bits


def _by_algorithm(name: str) -> str:
    found = _ALGORITHM.fullmatch(name.lower())
    if found is None:
        return ""
    kind = found["lhs"].removeprefix("any_")
    kind = "f32 highest" if kind == "f32" else kind
    return f"{kind} x{found['times']}" if found["times"] else kind


def _algorithm(instruction: Instruction) -> str:
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.string("algorithm") or ""
    config = instruction.backend_config
    return str(config.get(*_CONFIG, "algorithm") or "") if config is not None else ""


def _precision(instruction: Instruction) -> str:
    """Precision of both operands; "mixed" if they differ and one is highest: GPUs use the higher, TPUs both."""
    words = [str(word).lower() for word in instruction.items_of("operand_precision", str)]
    if not words and (config := instruction.backend_config) is not None:
        listed = config.get(*_CONFIG, "operand_precision")
        words = [str(word).lower() for word in listed] if isinstance(listed, tuple) else []
    if len(set(words)) == 1:
        return words[0]
    return "mixed" if "highest" in words else ""
