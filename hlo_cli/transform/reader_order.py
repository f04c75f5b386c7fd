"""Moves in-place updates after other reads of the overwritten values, where dependencies permit.

Mirrors the edges that `HloScheduleGraph` of xla/service/latency_hiding_scheduler.cc has for in-place updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.analysis.memory.buffers import Access, OrderIndependentFacts, Walk
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.clone import begin_copies, copied_calls, with_computations
from hlo_cli.transform.scheduling.graph import stable_order
from hlo_cli.transform.scheduling.side_effects import Effects, effects_of


def with_readers_first(facts: OrderIndependentFacts, walk: Walk) -> Module | None:
    """Module with readers before in-place updates of what they read; None if no order changes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> from hlo_cli.analysis.memory.buffers import overwritten_values
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] negate(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = (f32[9], f32[9]) tuple(n, d) }'''
    >>> facts = order_independent_facts(parse_module(text))
    >>> [i.name for i in with_readers_first(facts, overwritten_values(facts)).entry.instructions]
    ['a', 'i', 'b', 'u', 'n', 'd', 'r']
    """
    late = dict.fromkeys(
        one.computation
        for each in walk.overwritten
        for one, other in zip(each.reader.path, each.writer.path, strict=False)
        if one is not other and one.computation is other.computation
    )
    effects = effects_of(facts.module.computations) if late else {}
    orders: dict[Computation, list[Instruction]] = {}
    for computation in late:
        order = _order(computation, walk.accesses, effects, facts.module.source.text)
        if order is not None:
            orders[computation] = [computation.instructions[index] for index in order]
    return _with(facts.module, orders) if orders else None


def _with(module: Module, orders: Mapping[Computation, Sequence[Instruction]]) -> Module:
    copies = begin_copies(module)
    computations = []
    for old, copy in copies.items():
        for instruction in orders.get(old, old.instructions):
            copy.copy(instruction, copy.operands(instruction), copied_calls(instruction, copies))
        computations.append(copy.finish(None if old.root is None else copy.copies[old.root]))
    return with_computations(module, computations, copies)


def _order(computation: Computation, accesses: Sequence[Access], effects: Effects, text: str) -> list[int] | None:
    """New order closest to that of the text; None if nothing can change."""
    precedence = _Precedence(computation, text)
    precedence.order_effects(effects)
    late: list[tuple[int, int]] = []
    for found in _by_buffer(computation, accesses).values():
        late += precedence.order_buffer(found)
    moved = [pair for pair in dict.fromkeys(late) if precedence.add_edge(*pair)]
    return stable_order(range(len(precedence.before)), precedence.before) if moved else None


def _by_buffer(computation: Computation, accesses: Sequence[Access]) -> dict[int, list[tuple[int, int, bool]]]:
    """Accesses of each buffer in order: index of the instruction in `computation`, value, and whether it is a write."""
    found: dict[int, list[tuple[int, int, bool]]] = {}
    for access in accesses:
        index = next((each.index for each in access.path if each.computation is computation), None)
        if index is not None:
            found.setdefault(access.buffer, []).append((index, access.value, access.is_write))
    return found


@dataclass(slots=True)
class _Precedence:
    """Instructions that must precede each instruction, by index."""

    computation: Computation
    text: str
    before: list[set[int]] = field(init=False)

    def __post_init__(self) -> None:
        controls = control_predecessors(self.computation, self.text)
        self.before = [
            {*controls.get(index, ()), *(operand.index for operand in instruction.operands)}
            for index, instruction in enumerate(self.computation.instructions)
        ]

    def order_effects(self, effects: Effects) -> None:
        """Keeps the order of instructions with the same side effect."""
        last: dict[str, int] = {}
        for index, instruction in enumerate(self.computation.instructions):
            for effect in effects.get(instruction, ()):
                if effect in last:
                    self.before[index].add(last[effect])
                last[effect] = index

    def order_buffer(self, accesses: Sequence[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
        """Keeps the order of writes, and of reads before the next write; yields pairs of a late reader and its
        writer.
        """
        writes = [(index, value) for index, value, is_write in accesses if is_write]
        for (one, _), (other, _) in pairwise(writes):
            if one < other:
                self.before[other].add(one)
        last = {value: place for place, (_, value) in enumerate(writes)}
        for index, value, is_write in accesses:
            if is_write:
                continue
            following = writes[last.get(value, -1) + 1 :]
            writer = next((at for at, _ in following if at != index), None)
            if writer is not None and index < writer:
                self.before[writer].add(index)
            elif writer is not None:
                yield index, writer

    def add_edge(self, reader: int, writer: int) -> bool:
        """Makes a writer depend on a reader, unless the reader depends on the writer; whether it does now."""
        seen, waiting = {reader}, [reader]
        while waiting:
            for index in self.before[waiting.pop()]:
                if index == writer:
                    return False
                if index not in seen:
                    seen.add(index)
                    waiting.append(index)
        self.before[writer].add(reader)
        return True
