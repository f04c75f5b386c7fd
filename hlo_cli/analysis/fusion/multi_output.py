"""Which neighbours side by side can be made by one kernel of several results, and what they read in common.

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
_MOST_OPERANDS: Final = 20
"""As many operands make a kernel that the compiler takes too long for."""


def gives_elements(node: Node) -> bool:
    """Whether the CPU compiler can compute the operation, or the fusion, beside others.

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
    """The shape of a result; all results of a fusion of several have the same."""
    return node.body.root.operands[0].shape if node.body and node.has_several_results else node.shape


def shared_bytes(one: Node, other: Node) -> int:
    """The bytes that both read, and that one kernel would read once.

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
    """Whether reading it once instead of twice saves something: others use it too, and it is no single number."""
    return len(operand.users) > 1 and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))


def share_in_place_operand(one: Node, other: Node) -> bool:
    """Whether both write their result over the same operand."""
    written = {one.operands[number] for number, _ in in_place_operands(one)}
    return any(other.operands[number] in written for number, _ in in_place_operands(other))


def are_elements_taken(node: Node) -> bool:
    """Whether of several results, if it has some, only elements are taken."""
    return not node.has_several_results or all(user.opcode == opcodes.GET_TUPLE_ELEMENT for user in node.users)


def can_fuse_siblings(fusion: Node, other: Node) -> bool:
    """Whether the CPU compiler makes the two together if neither needs the other."""
    return (
        fusion.opcode == opcodes.FUSION
        and max(len(fusion.operands), len(other.operands)) < _MOST_OPERANDS
        and are_elements_taken(fusion)
        and are_elements_taken(other)
        and not other.aliasing
        and result_shape(fusion) == result_shape(other)
        and not share_in_place_operand(fusion, other)
    )
