"""Operations that are too expensive to compute more than once.

Mirrors `CpuInstructionFusion::IsExpensive` of xla/service/cpu/cpu_instruction_fusion.cc and
`InstructionFusion::IsExpensive` of xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_effective_scalar
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import BLOCK_MOVES, CONTROL_FLOW, ELEMENTWISE, HOST_FEEDS, NO_KERNELS, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape

_CHEAP_UNLESS_COMPLEX: Final = frozenset("abs sign cosine sine tan".split())
_CHEAP_WITH_SCALAR: Final = frozenset("divide remainder".split())
_CHEAP_AT_TIMES: Final = _CHEAP_UNLESS_COMPLEX | _CHEAP_WITH_SCALAR | {opcodes.CONVERT}
_CHEAP: Final = (
    (ELEMENTWISE - TRANSCENDENTAL - _CHEAP_AT_TIMES)
    | NO_KERNELS - {opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.DOMAIN, opcodes.PARAMETER} - CONTROL_FLOW
    | HOST_FEEDS
    | BLOCK_MOVES
    | frozenset("broadcast concatenate copy-done copy-start dynamic-reshape iota pad reshape reverse transpose".split())
)


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
    if node.opcode == opcodes.CONVERT:
        # Rounding to bf16 checks for NaN; the other direction is a shift (CpuInstructionFusion::IsExpensive).
        return _type_of(node.operands[0]) == "f32" and _type_of(node) == "bf16"
    if node.opcode in _CHEAP_WITH_SCALAR:
        # XLA means division by a constant, but cpu_instruction_fusion.cc tests operand 0, the dividend.
        return not (_type_of(node)[0] in "su" and _is_scalar_constant(node.operands[0]))
    return True


def _type_of(node: Node) -> str:
    return node.shape.element_type.name if isinstance(node.shape, ArrayShape) else "?"


def _is_scalar_constant(node: Node) -> bool:
    if node.opcode == opcodes.BROADCAST:
        node = node.operands[0]
    return node.opcode == opcodes.CONSTANT and is_effective_scalar(node.shape)
