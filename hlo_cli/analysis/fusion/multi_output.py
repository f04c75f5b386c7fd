"""Sibling operations that can be computed by one multi-output kernel, and the bytes that both read.

Mirrors xla/service/cpu/cpu_multi_output_fusion.cc and `LegalToFuse` of xla/service/multi_output_fusion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_effective_scalar
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.fusion.in_place import in_place_operands
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import COLLECTIVES, CONTROL_FLOW, DONES, HOST_FEEDS, NATIVE_DONES, OWN_KERNELS, RANDOM_STATE
from hlo_cli.ir.shape import Shape

_NO_LOOP_OVER_ELEMENTS: Final = (
    CONTROL_FLOW
    | COLLECTIVES
    | NATIVE_DONES.keys()
    | DONES
    | HOST_FEEDS
    | OWN_KERNELS
    | RANDOM_STATE
    | {opcodes.FUSION}
    | frozenset(
        """add-dependency after-all batch-norm-grad batch-norm-inference batch-norm-training constant custom-call domain
        dot dynamic-reshape get-dimension-size opt-barrier partition-id replica-id rng-bit-generator scatter
        select-and-scatter set-dimension-size stochastic-convert topk""".split()
    )
)
_MAX_OPERANDS: Final = 20
"""Number of operands, exclusive, up to which the compiler makes multi-output fusions."""


def gives_elements(node: Node) -> bool:
    """Whether the CPU compiler can compute the operation or fusion as part of a multi-output loop.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> less = "c { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }"
    >>> body = "p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT s = f32[9] sort(t), to_apply=c"
    >>> text = f"HloModule m  {less}  ENTRY e {{ {body} }}"
    >>> [gives_elements(node) for node in graph_of(parse_module(text).entry).nodes]
    [True, True, False]
    """
    if node.body is not None:
        return node.kind == "kLoop" and node.body.root.opcode != opcodes.DOT
    return node.opcode not in _NO_LOOP_OVER_ELEMENTS


def result_shape(node: Node) -> Shape:
    """Shape of a result; all results of a multi-output fusion have the same."""
    return node.body.root.operands[0].shape if node.body and node.has_several_results else node.shape


def shared_bytes(one: Node, other: Node) -> int:
    """Bytes that both nodes read and that one kernel reads once.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = "p = f32[9] parameter(0)  t = f32[9] tanh(p)  s = f32[9] sine(p)  ROOT r = (f32[9], f32[9]) tuple(t, s)"
    >>> _, t, s, _ = graph_of(parse_module(f"ENTRY e {{ {text} }}").entry).nodes
    >>> shared_bytes(t, s)
    36
    """
    read = {operand for operand in one.operands if is_worth_sharing(operand)}
    return sum(operand.shape.logical_bytes for operand in other.operands if operand in read)


def is_worth_sharing(operand: Node) -> bool:
    """Whether an operand has several users and is not a scalar constant."""
    return len(operand.users) > 1 and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))


def share_in_place_operand(one: Node, other: Node) -> bool:
    """Whether both update the same operand in place."""
    written = {one.operands[number] for number, _ in in_place_operands(one)}
    return any(other.operands[number] in written for number, _ in in_place_operands(other))


def are_elements_used(node: Node) -> bool:
    """Whether all users of a multi-output fusion are get-tuple-elements; true for other nodes."""
    return not node.has_several_results or all(user.opcode == opcodes.GET_TUPLE_ELEMENT for user in node.users)


def can_fuse_siblings(fusion: Node, other: Node) -> bool:
    """Whether the CPU compiler fuses the two if neither depends on the other."""
    return (
        fusion.opcode == opcodes.FUSION
        and max(len(fusion.operands), len(other.operands)) < _MAX_OPERANDS
        and are_elements_used(fusion)
        and are_elements_used(other)
        and not other.aliasing
        and result_shape(fusion) == result_shape(other)
        and not share_in_place_operand(fusion, other)
    )
