"""Operations that are too expensive to compute more than once.

Mirrors `CpuInstructionFusion::IsExpensive` of xla/service/cpu/cpu_instruction_fusion.cc and
`InstructionFusion::IsExpensive` of xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_effective_scalar
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir.shape import ArrayShape

_CHEAP: Final = frozenset(
    """add and bitcast bitcast-convert broadcast ceil clamp count-leading-zeros compare complex concatenate constant
    copy copy-start copy-done dynamic-reshape dynamic-slice dynamic-update-slice floor get-tuple-element imag infeed
    iota is-finite maximum minimum multiply mulhi negate not opt-barrier or outfeed pad partition-id popcnt real
    reduce-precision replica-id reshape reverse round-nearest-afz round-nearest-even select shift-left
    shift-right-arithmetic shift-right-logical slice stochastic-convert subtract transpose tuple xor""".split()
)
_CHEAP_UNLESS_COMPLEX: Final = frozenset("abs sign cosine sine tan".split())
_CHEAP_WITH_SCALAR: Final = frozenset("divide remainder".split())


def is_expensive(node: Node) -> bool:
    """Whether the CPU compiler stores the result of an operation rather than computing it more than once.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> def root(text):
    ...     return graph_of(parse_module(text).entry).root
    >>> is_expensive(root("r = f32[4] tanh(f32[4] a)")), is_expensive(root("r = bf16[4] convert(f32[4] a)"))
    (True, True)
    >>> is_expensive(root("r = f32[4] abs(c64[4] a)")), is_expensive(root("r = f32[4] convert(bf16[4] a)"))
    (False, False)
    """
    if node.opcode in _CHEAP:
        return False
    if node.opcode in _CHEAP_UNLESS_COMPLEX:
        return _type_of(node)[0] == "c"
    if node.opcode == "convert":
        # Rounding to bf16 checks for NaN; the other direction is a shift (CpuInstructionFusion::IsExpensive).
        return _type_of(node.operands[0]) == "f32" and _type_of(node) == "bf16"
    if node.opcode in _CHEAP_WITH_SCALAR:
        # XLA means division by a constant, but cpu_instruction_fusion.cc tests operand 0, the dividend.
        return not (_type_of(node)[0] in "su" and _is_scalar_constant(node.operands[0]))
    return True


def _type_of(node: Node) -> str:
    return node.shape.element_type.name if isinstance(node.shape, ArrayShape) else "?"


def _is_scalar_constant(node: Node) -> bool:
    if node.opcode == "broadcast":
        node = node.operands[0]
    return node.opcode == "constant" and is_effective_scalar(node.shape)
