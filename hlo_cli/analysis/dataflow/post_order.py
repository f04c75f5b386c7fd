"""Post-order of a computation, operands before users.

Mirrors `HloComputation::MakeInstructionPostOrder` of xla/hlo/ir/hlo_computation.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

from hlo_cli.ir.instruction import Computation, Instruction

_CONTROL: Final = "control-predecessors"
_T = TypeVar("_T", bound=Hashable)


def instruction_post_order(computation: Computation, *, text: str = "") -> tuple[int, ...]:
    """Returns the indices of a computation's instructions in post-order.

    The traversal is depth first from each instruction without users. It visits control predecessors from last to
    first, then operands from first to last. `text` is the module's source, used to skip the search for control
    predecessors.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { b = f32[] parameter(1) a = f32[] parameter(0) ROOT c = f32[] add(a, b) }"
    >>> instruction_post_order(parse_module(text).entry)
    (1, 0, 2)
    """
    instructions = computation.instructions
    before = control_predecessors(computation, text)
    used = bytearray(len(instructions))
    for instruction in instructions:
        for operand in instruction.operands:
            used[operand.index] = 1
    for predecessors in before.values():
        for predecessor in predecessors:
            used[predecessor] = 1
    done = bytearray(len(instructions))
    order: list[int] = []
    for first in range(len(instructions)):
        if not used[first]:
            _visit(instructions, before, first, done, order)
    for first in range(len(instructions)):  # instructions in cycles of malformed modules
        _visit(instructions, before, first, done, order)
    return tuple(order)


def _visit(
    instructions: tuple[Instruction, ...], before: dict[int, list[int]], first: int, done: bytearray, order: list[int]
) -> None:
    """Appends the predecessors of an instruction, then itself; `done` is 1 while it is on the stack, 2 afterwards."""
    stack = [first]
    while stack:
        at = stack[-1]
        if done[at]:
            stack.pop()
            if done[at] == 1:
                done[at] = 2
                order.append(at)
            continue
        done[at] = 1
        needed = [operand.index for operand in reversed(instructions[at].operands)]
        stack.extend(n for n in (*needed, *before.get(at, ())) if not done[n])


def control_predecessors(computation: Computation, text: str = "") -> dict[int, list[int]]:
    """Returns the indices of the control predecessors of each instruction that has any.

    >>> from hlo_cli import parse_module
    >>> text = "a = f32[] parameter(0) b = f32[] negate(a) ROOT c = f32[] sine(a), control-predecessors={b}"
    >>> text = f"HloModule m  ENTRY e {{ {text} }}"
    >>> control_predecessors(parse_module(text).entry)
    {2: [1]}
    """
    found: dict[int, list[int]] = {}
    names: dict[str, int] = {}
    if text and computation.span is not None and text.find(_CONTROL, computation.span.start, computation.span.end) < 0:
        return found
    for instruction in computation.instructions:
        if _CONTROL in instruction.raw[1]:
            names = names or {i.name: i.index for i in computation.instructions}
            found[instruction.index] = [names[name] for name in instruction.control_predecessors if name in names]
    return found


def depth_first(starts: Iterable[_T], below: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Depth-first post-order from `starts`; a cycle is cut where it closes.

    >>> list(depth_first("a", {"a": "bc", "b": "c", "c": ""}.__getitem__))
    ['c', 'b', 'a']
    """
    seen: set[_T] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        open_ = [(start, iter(below(start)))]
        while open_:
            node, rest = open_[-1]
            inner = next((other for other in rest if other not in seen), None)
            if inner is None:
                open_.pop()
                yield node
            else:
                seen.add(inner)
                open_.append((inner, iter(below(inner))))
