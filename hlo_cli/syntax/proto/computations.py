"""The computations of a proto in the order in which XLA prints them, as HLO text.

Mirrors `HloModule::MakeComputationPostOrder` and `HloComputation::Print` of xla/hlo/ir.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo_cli.ir.strings import quoted
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.instructions import (
    CALLED,
    LinePrinter,
    RawInstruction,
    Texts,
    numbers_of,
    read_instruction,
    sanitized,
)
from hlo_cli.syntax.proto.message import Message

Schedule = Mapping[int, Sequence[int]]
"""The order of the instructions of each computation that is scheduled, all by number."""


@dataclass(eq=False)
class RawComputation:
    """A computation whose instructions are not printed yet."""

    message: Message

    @cached_property
    def name(self) -> str:
        """The name, as text can hold it."""
        return sanitized(self.message.text("name"))

    @cached_property
    def id(self) -> int:
        """The number by which instructions call the computation."""
        return self.message.integer("id")

    @cached_property
    def instructions(self) -> dict[int, RawInstruction]:
        """The instructions by number, in the order of the proto, which is XLA's post-order."""
        read = map(read_instruction, self.message.all_data("instructions"))
        return {instruction.id: instruction for instruction in read}

    @cached_property
    def callees(self) -> list[int]:
        """The computations that are called, by the age of the callers: that is the order XLA looks at them in."""
        callers = sorted((i.id, i) for i in self.instructions.values() if CALLED in i.by_number)
        return [number for _, caller in callers for number in numbers_of(caller, "called_computation_ids")]


def print_order(computations: Mapping[int, RawComputation]) -> Iterator[RawComputation]:
    """Callees before callers, depth first from each computation that nobody calls."""
    called = {number for computation in computations.values() for number in computation.callees}
    done: set[int] = set()
    roots = [computation for number, computation in computations.items() if number not in called]
    pending = [(root, iter(root.callees)) for root in reversed(roots)]
    open_ = set()
    while pending:
        computation, callees = pending[-1]
        open_.add(computation.id)
        following = next((number for number in callees if number not in done), None)
        if following is None:
            pending.pop()
            done.add(computation.id)
            yield computation
            continue
        if following not in computations:
            raise HloError(f"{computation.name} calls computation {following}, which the module has not")
        if following in open_:
            raise HloError(f"{computations[following].name} calls itself")
        pending.append((computations[following], iter(computations[following].callees)))


def computation_text(
    computation: RawComputation, texts: Texts, names: Mapping[int, str], schedule: Schedule, *, is_entry: bool
) -> str:
    """One computation with its signature and its braces."""
    instructions = computation.instructions
    order = schedule.get(computation.id, tuple(instructions))
    if missing := next((number for number in order if number not in instructions), None):
        raise HloError(f"the schedule of {computation.name} has instruction {missing}, which it has not")
    printer = LinePrinter(texts, names, instructions)
    root = computation.message.integer("root_id")
    lines = [f"  {'ROOT ' if number == root else ''}{printer.line(instructions[number])}" for number in order]
    head = f"{'ENTRY ' if is_entry else ''}%{computation.name} {_signature(computation, texts, root)}{{"
    thread = computation.message.text("execution_thread")
    end = "}" if thread in ("", "main") else f"}}, execution_thread={quoted(thread)}"
    return "\n".join((head, *lines, end))


def _signature(computation: RawComputation, texts: Texts, root: int) -> str:
    """`(p: f32[2]) -> f32[2] `, from the instructions themselves; empty where there is no root."""
    instructions = computation.instructions
    if root not in instructions:
        return ""
    parameters = sorted((i for i in instructions.values() if i.is_parameter), key=lambda i: i.parameter_number)
    listed = ", ".join(f"{p.name}: {texts.plain_shape(p)}" for p in parameters)
    return f"({listed}) -> {texts.plain_shape(instructions[root])} "
