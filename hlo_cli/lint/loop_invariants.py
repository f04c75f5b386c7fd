"""Loop invariants: values that are the same in every iteration."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.dependencies import instruction_post_order
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ASYNCHRONOUS, CHANNEL_OPCODES, CONTROL_FLOW, HOST_FEEDS, RANDOM_STATE

_CHANGING: Final = (
    HOST_FEEDS
    | CHANNEL_OPCODES
    | RANDOM_STATE
    | (CONTROL_FLOW - ASYNCHRONOUS)
    | frozenset("after-all custom-call parameter rng-bit-generator".split())
)
"""Opcodes whose results may differ between runs, or that have side effects."""


def passes_through(body: Computation) -> frozenset[int]:
    """The indices of loop-carried elements that the body returns unchanged.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY b { p = (f32[2], f32[2]) parameter(0)
    ...   x = f32[2] get-tuple-element(p), index=0  y = f32[2] get-tuple-element(p), index=1
    ...   n = f32[2] negate(y)  ROOT r = (f32[2], f32[2]) tuple(x, n) }'''
    >>> sorted(passes_through(parse_module(text).entry))
    [0]
    """
    root = body.root
    if root is None or root.opcode != opcodes.TUPLE:
        return frozenset()
    return frozenset(number for number, each in enumerate(root.operands) if carry_index(each) == number)


def carry_index(instruction: Instruction) -> int | None:
    """The index of the element of the computation's parameter that this is, None if it is something else.

    >>> from hlo_cli import parse_module
    >>> carry_index(parse_module("ROOT r = f32[2] get-tuple-element((s8[], f32[2]) p), index=1").entry.root)
    1
    """
    if instruction.opcode != opcodes.GET_TUPLE_ELEMENT or not instruction.operands:
        return None
    return instruction.integer("index") if instruction.operands[0].opcode == opcodes.PARAMETER else None


def loop_invariants(body: Computation) -> frozenset[Instruction]:
    """The instructions of a loop's body with the same result in every iteration.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY b { p = (f32[2], f32[2]) parameter(0)
    ...   x = f32[2] get-tuple-element(p), index=0  y = f32[2] get-tuple-element(p), index=1
    ...   n = f32[2] negate(x)  m = f32[2] add(n, y)  ROOT r = (f32[2], f32[2]) tuple(x, m) }'''
    >>> sorted(each.name for each in loop_invariants(parse_module(text).entry))
    ['n', 'x']
    """
    unchanged = passes_through(body)
    found: set[Instruction] = set()
    for index in instruction_post_order(body):
        instruction = body.instructions[index]
        carried = carry_index(instruction)
        if carried in unchanged or (
            carried is None
            and instruction.opcode not in _CHANGING
            and all(operand in found for operand in instruction.operands)
        ):
            found.add(instruction)
    return frozenset(found)
