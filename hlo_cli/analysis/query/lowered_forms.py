"""Forms of an opcode after lowering for a target: custom calls to libraries, or convolutions on TPU.

The TPU compiler turns dots into convolutions. The passes gemm_rewriter.cc and conv_rewriter.cc of
xla/service/gpu/transforms, and onednn_contraction_rewriter.cc of xla/service/cpu, replace operations by custom calls.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cost.matmuls import LIBRARY_CONVOLUTIONS, LIBRARY_DOTS
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.query.patterns import matcher
from hlo_cli.analysis.query.where_opcodes import comparisons_in
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.expressions import Comparison, Text, Where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MATMULS

_LIBRARY_TARGETS: Final = {
    opcodes.DOT: LIBRARY_DOTS,
    opcodes.SCALED_DOT: LIBRARY_DOTS,
    opcodes.RAGGED_DOT: LIBRARY_DOTS,
    opcodes.CONVOLUTION: LIBRARY_CONVOLUTIONS,
    opcodes.CHOLESKY: ("__cusolver$cholesky", "cusolver_potrf"),
    opcodes.TRIANGULAR_SOLVE: ("__cublas$triangularSolve",),
    opcodes.SORT: ("__cub$DeviceRadixSort",),
    opcodes.TOPK: ("__gpu$TopK", "TopK"),
}
"""Opcodes that libraries implement, with prefixes of the custom-call targets."""
_DOTS: Final = (opcodes.DOT, opcodes.SCALED_DOT, opcodes.RAGGED_DOT)
_CALL: Final = opcodes.CUSTOM_CALL


@dataclass(frozen=True, slots=True)
class LoweredForm:
    """Opcode in a condition, its form in the module, and the first instruction of that form.

    `form` is an opcode or a custom-call target; `count` is 0 if the target never has the opcode.
    """

    opcode: str
    form: str
    count: int
    first: Instruction | None


def lowered_forms(module: Module, where: Where) -> tuple[LoweredForm, ...]:
    """Opcodes of a condition that the module has in another form only.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> shape = "f32[8,128]{1,0:T(8,128)}"
    >>> module = parse_module(f"r = {shape} convolution({shape} a, f32[128,128]{{1,0}} b), dim_labels=bf_io->bf")
    >>> [(each.opcode, each.form) for each in lowered_forms(module, parse_where("opcode == dot"))]
    [('dot', 'convolution')]
    >>> [each.opcode for each in lowered_forms(module, parse_where("opcode ~ dot"))]
    ['dot', 'scaled-dot', 'ragged-dot']
    """
    compared = [each for each in comparisons_in(where.condition) if each.field.name == "opcode"]
    named = [opcode for each in compared for opcode in _opcodes_named(where, each)]
    found = (_lowered_form(module, opcode, named) for opcode in dict.fromkeys(named) if opcode in _LIBRARY_TARGETS)
    return tuple(lowered for lowered in found if lowered is not None)


def _opcodes_named(where: Where, comparison: Comparison) -> list[str]:
    """The opcodes that a comparison names, those of libraries if it has a pattern."""
    texts = [value for value in comparison.values if isinstance(value, Text)]
    if comparison.operator not in ("~", "!~"):
        return [text.text for text in texts]
    tests = [matcher(where, text) for text in texts]
    return [opcode for opcode in (*_LIBRARY_TARGETS, _CALL) if any(test(opcode) for test in tests)]


def _lowered_form(module: Module, opcode: str, named: list[str]) -> LoweredForm | None:
    target = target_of(module)
    if target is None:  # nothing is form for a target yet
        return None
    if target == "tpu" and opcode in _DOTS and "convolution" not in named:
        if any(instruction.opcode == opcode for instruction in module.instructions):
            return None
        others = [each for each in module.instructions if each.opcode == opcodes.CONVOLUTION]
        return LoweredForm(opcode, "convolution", len(others), next(iter(others), None))
    if _CALL in named:
        return None
    calls = [
        each
        for each in module.instructions
        if each.opcode == _CALL and _target(each).startswith(_LIBRARY_TARGETS[opcode])
    ]
    return LoweredForm(opcode, f"{_CALL} {_target(calls[0])}", len(calls), calls[0]) if calls else None


def _target(call: Instruction) -> str:
    return call.string("custom_call_target") or ""


def is_product_opcode(opcode: str) -> bool:
    """Whether the field `product` is true for an opcode.

    >>> is_product_opcode("dot"), is_product_opcode("sort")
    (True, False)
    """
    return opcode in MATMULS
