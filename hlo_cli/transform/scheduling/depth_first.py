"""Depth-first orders: in operand order, and heaviest operands first.

Mirrors `PostOrderScheduler` and `DFSMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.transform.scheduling.dataflow import Flow


def post_order(flow: Flow) -> Sequence[int]:
    """Post-order, with operands in their order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = "HloModule m  ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(b, a) }"
    >>> post_order(next(buffer_uses(parse_module(text)).flows()))
    (1, 0, 2)
    """
    return flow.post_order


def heaviest_first(flow: Flow) -> list[int]:
    """Post-order, with the operands first that have most extra users, then most bytes, including their dependencies.

    Instructions without users come before the root and its exclusive dependencies.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  q = f32[2] parameter(1)  a = f32[8] negate(p)
    ...   b = f32[2] negate(q)  w = f32[2] sine(q)  ROOT r = (f32[2], f32[8], f32[2]) tuple(b, a, w) }'''
    >>> heaviest_first(next(buffer_uses(parse_module(text)).flows()))
    [0, 2, 1, 3, 4, 5]
    """
    weights = _weights(flow)
    root = -1 if flow.computation.root is None else flow.computation.root.index
    ends = [i for i in range(len(flow)) if not flow.users[i] and not flow.successors.get(i) and i != root]
    order: list[int] = []
    done = bytearray(len(flow))
    for end in (*ends, *((root,) if root >= 0 else ())):
        _visit(flow, weights, end, done, order)
    return order


def _visit(flow: Flow, weights: Sequence[tuple[int, int, str]], end: int, done: bytearray, order: list[int]) -> None:
    waiting = [end]
    while waiting:
        index = waiting[-1]
        if done[index]:
            waiting.pop()
            if done[index] == 1:
                done[index] = 2
                order.append(index)
            continue
        done[index] = 1
        needed = [each for each in (*flow.operands[index], *flow.controls.get(index, ())) if not done[each]]
        needed.sort(key=weights.__getitem__, reverse=True)
        waiting.extend(needed)


def _weights(flow: Flow) -> Sequence[tuple[int, int, str]]:
    """Negated numbers of extra users and bytes of each instruction with its dependencies, counted per path, and its
    name.

    The smallest comes first. A weight is limited to the total so far.
    """
    others, sizes, seen = [0] * len(flow), [0] * len(flow), 0
    instructions = flow.computation.instructions
    for index in flow.post_order:
        if instructions[index].opcode in ARGUMENT_OPCODES:
            continue
        seen += flow.defined_bytes[index]
        above = flow.operands[index]
        users = max(len(flow.users[index]) - 1, 0) + sum([others[each] for each in above])
        # DFSMemoryScheduler counts a shared dependency once per path, and limits both sums for that reason.
        others[index] = min(len(flow), users)
        sizes[index] = min(seen, flow.defined_bytes[index] + sum([sizes[each] for each in above]))
    return [(-o, -s, i.name) for o, s, i in zip(others, sizes, instructions, strict=True)]
