"""Breadth-first order. Mirrors `BFScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc."""

from __future__ import annotations

from collections import deque

from hlo_cli.transform.scheduling.dataflow import Flow


def breadth_first(flow: Flow) -> list[int]:
    """Order in which each instruction comes as soon as its dependencies have, first in, first out.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  n = f32[8] negate(p)  s = f32[8] sine(n)
    ...   k = f32[8] constant({...})  ROOT a = f32[8] add(s, k) }'''
    >>> breadth_first(next(buffer_uses(parse_module(text)).flows()))
    [0, 3, 1, 2, 4]
    """
    waiting = [len(taken) + len(flow.controls.get(index, ())) for index, taken in enumerate(flow.operands)]
    queue = deque(index for index in range(len(flow)) if not waiting[index])
    order: list[int] = []
    while queue:
        index = queue.popleft()
        order.append(index)
        for later in (*flow.users[index], *flow.successors.get(index, ())):
            waiting[later] -= 1
            if not waiting[later]:
                queue.append(later)
    return order
