"""What an opcode is called in a module for some target: products that libraries compute, or a TPU's convolutions.

A TPU's compiler writes dots as convolutions; the passes gemm_rewriter.cc, conv_rewriter.cc and the like of
xla/service/gpu/transforms, and onednn_contraction_rewriter.cc of xla/service/cpu, replace operations by custom calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hlo_cli.analysis.cost.matmuls import LIBRARY_CONVOLUTIONS, LIBRARY_DOTS, MATMUL_OPCODES
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.query.where_opcodes import comparisons_in
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.where import Text, Where

_AS_CALLS: Final = {
    "dot": LIBRARY_DOTS,
    "scaled-dot": LIBRARY_DOTS,
    "ragged-dot": LIBRARY_DOTS,
    "convolution": LIBRARY_CONVOLUTIONS,
    "cholesky": ("__cusolver$cholesky", "cusolver_potrf"),
    "triangular-solve": ("__cublas$triangularSolve",),
    "sort": ("__cub$DeviceRadixSort",),
    "topk": ("__gpu$TopK", "TopK"),
}
"""Opcodes that libraries take over, and how the targets of the custom calls begin that stand for them."""
_DOTS: Final = ("dot", "scaled-dot", "ragged-dot")
_CALL: Final = "custom-call"


@dataclass(frozen=True, slots=True)
class Spelling:
    """An opcode that a condition names, what stands for it in a module, and the first instruction that does.

    `spelled` is an opcode, or the target of a custom call; `count` may be 0 where a target never has the opcode.
    """

    opcode: str
    spelled: str
    count: int
    first: Instruction | None


def other_spellings(module: Module, where: Where) -> tuple[Spelling, ...]:
    """The opcodes that a condition names and does not find, for the module spells them in another way.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.syntax.queries.where import parse_where
    >>> shape = "f32[8,128]{1,0:T(8,128)}"
    >>> module = parse_module(f"r = {shape} convolution({shape} a, f32[128,128]{{1,0}} b), dim_labels=bf_io->bf")
    >>> [(each.opcode, each.spelled) for each in other_spellings(module, parse_where("opcode == dot"))]
    [('dot', 'convolution')]
    """
    compared = (each for each in comparisons_in(where.condition) if each.field.name == "opcode")
    named = [value.text for each in compared for value in each.values if isinstance(value, Text)]
    found = (_spelling(module, opcode, named) for opcode in dict.fromkeys(named) if opcode in _AS_CALLS)
    return tuple(spelling for spelling in found if spelling is not None)


def _spelling(module: Module, opcode: str, named: list[str]) -> Spelling | None:
    target = target_of(module)
    if target is None:  # nothing is spelled for a target yet
        return None
    if target == "tpu" and opcode in _DOTS and "convolution" not in named:
        if any(instruction.opcode == opcode for instruction in module.instructions):
            return None
        others = [each for each in module.instructions if each.opcode == "convolution"]
        return Spelling(opcode, "convolution", len(others), next(iter(others), None))
    if _CALL in named:
        return None
    calls = [
        each for each in module.instructions if each.opcode == _CALL and _target(each).startswith(_AS_CALLS[opcode])
    ]
    return Spelling(opcode, f"{_CALL} {_target(calls[0])}", len(calls), calls[0]) if calls else None


def _target(call: Instruction) -> str:
    return call.string("custom_call_target") or ""


def is_product_opcode(opcode: str) -> bool:
    """Whether an opcode is one of those that the field `product` gathers.

    >>> is_product_opcode("dot"), is_product_opcode("sort")
    (True, False)
    """
    return opcode in MATMUL_OPCODES
