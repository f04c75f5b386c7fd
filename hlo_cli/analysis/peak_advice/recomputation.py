"""Recomputation: what the gradient of a scan keeps of each iteration, and the peak if the body is computed again.

The forward loop of a gradient stores values of its body in arrays with one row for each iteration, which the backward
loop reads. With `jax.checkpoint` around the body, only the carried values are stored, and the backward loop computes
the others again, one iteration at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.layout.default_layout import default_layout
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.peak_advice.entry_order import users_of_values
from hlo_cli.analysis.peak_advice.interface import results_of
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios, Scenario
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape

_FORWARD: Final = "jvp("
_BACKWARD: Final = "transpose("
_RECOMPUTED: Final = ("rematted_computation", "checkpoint")
_MOVING: Final = frozenset(
    (opcodes.BITCAST, opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.PARAMETER, opcodes.WHILE)
)
_MAX_UNSURE: Final = 0.08
"""Share of the peak that the values of one iteration may need, because how many of them are live at once is unknown."""


@dataclass(frozen=True, slots=True)
class StoredValues:
    """A scan whose gradient stores values of its body: both loops, the stored arrays, and those that need not be.

    `kept` are arrays that still store carried values, with their bytes then. `iteration_bytes` is what the others need
    for one iteration, `shared` are values that the backward loop reads in addition.
    """

    forward: Instruction
    backward: Instruction
    removed: tuple[int, ...]
    kept: tuple[tuple[int, int], ...]
    iteration_bytes: int
    shared: tuple[int, ...]


def has_scan_gradient(memory: MemoryAnalysis) -> bool:
    """Returns whether the entry has a loop of a gradient's forward pass, and one of its backward pass.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> has_scan_gradient(memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")))
    False
    """
    loops = [each for each in memory.module.entry.instructions if each.opcode == opcodes.WHILE]
    return any(map(_is_forward, loops)) and any(map(_is_backward, loops))


def stored_values(scenarios: MemoryScenarios) -> Iterator[StoredValues]:
    """Yields the scans of the entry whose gradient stores values in main memory that could be computed again."""
    users = users_of_values(scenarios.facts)
    for loop in scenarios.facts.module.entry.instructions:
        if loop.opcode == opcodes.WHILE and _is_forward(loop):
            found = _Scan(scenarios, loop, users).stored()
            if found is not None:
                yield found


def scenario_of(scenarios: MemoryScenarios, change: StoredValues, base: Scenario) -> Scenario:
    """Returns the scenario in which the body is computed again; half of an iteration's values are live at once."""
    facts, schedule = scenarios.facts, scenarios.schedule
    places = facts.places
    last = schedule.ticks[places.number(change.backward)]
    first = min(schedule.spans[called].start for called in change.backward.called_computations)
    ends = {**base.ends, **{v: max(scenarios.ranges.end[v], last) for v in change.shared}}
    members = {value: size for kept, size in change.kept for value in _members(scenarios, kept)}
    removed = base.removed.union(m for value in change.removed for m in _members(scenarios, value))
    extra = (*base.extra, (first, last, change.iteration_bytes // 2))
    return replace(base, removed=removed, sizes={**base.sizes, **members}, ends=ends, extra=extra)


def is_sure(change: StoredValues, peak_bytes: int) -> bool:
    """Returns whether the values of one iteration are so small that it does not matter how many are live at once."""
    return change.iteration_bytes <= _MAX_UNSURE * peak_bytes


class _Scan:
    """The forward loop of a scan's gradient."""

    __slots__ = ("_count", "_loop", "_scenarios", "_users")

    def __init__(self, scenarios: MemoryScenarios, loop: Instruction, users: dict[int, list[int]]) -> None:
        self._scenarios = scenarios
        self._loop = loop
        self._users = users
        self._count = trip_count(loop) or 0

    def stored(self) -> StoredValues | None:
        """Returns what the scan stores, if its backward loop alone reads it; None if nothing could be removed."""
        backward = self._backward()
        if self._count < 2 or backward is None:
            return None
        stacks, carried, shared = self._elements(backward)
        kept: list[tuple[int, int]] = []
        left = Counter({value: self._scenarios.bytes_of(value) for value in stacks})
        for shape, layout in carried:
            needed = self._stack_bytes(shape, layout)
            if not left:
                return None
            same = [value for value in left if self._is_stack_of(value, shape)]
            value = same[0] if same else max(left, key=left.__getitem__)
            kept.append((value, left.pop(value) if same else needed))
        if not left:
            return None
        iteration = sum(left.values()) // self._count
        return StoredValues(self._loop, backward, tuple(left), tuple(kept), iteration, tuple(shared))

    def _backward(self) -> Instruction | None:
        """Returns the loop that reads what this one stores."""
        entry = self._scenarios.facts.module.entry.instructions
        first = self._scenarios.facts.places.first_of(self._loop)
        count = len(self._scenarios.facts.places.parts(self._loop))
        found = {entry[index] for place in range(first, first + count) for index in self._users.get(place, ())}
        loops = [each for each in found if each.opcode == opcodes.WHILE and _is_backward(each)]
        return loops[0] if len(loops) == 1 and trip_count(loops[0]) == self._count else None

    def _elements(self, backward: Instruction) -> tuple[list[int], list[tuple[ArrayShape, Layout]], list[int]]:
        """Returns the stored arrays, the shapes of carried arrays, and the other values that the body reads."""
        facts = self._scenarios.facts
        places, at, first = facts.places, facts.dataflow.value, facts.places.first_of(self._loop)
        parts = places.parts(self._loop)
        results = {each.value for each in results_of(facts)}
        stacks: list[int] = []
        carried: list[tuple[ArrayShape, Layout]] = []
        shared: list[int] = []
        for n, shape in enumerate(parts.shapes):
            value = at[first + n]
            if not isinstance(shape, ArrayShape):
                continue
            if value != first + n:
                if value in self._scenarios.ranges.end and self._is_temporary(value):
                    shared.append(value)
            elif self._is_stack(value, shape, backward) and value not in results:
                stacks.append(value)
            elif shape.rank and self._is_computed(value) and not self._is_output(value, shape):
                carried.append((shape, shape.layout))
        return stacks, carried, shared

    def _is_stack(self, value: int, shape: ArrayShape, backward: Instruction) -> bool:
        """Returns whether an array has a row for each iteration, starts without data, and is read backward only."""
        if not shape.rank or shape.dimensions[0] != self._count or shape.layout.memory_space:
            return False
        entry = self._scenarios.facts.module.entry.instructions
        users = [entry[index] for index in self._users.get(value, ())]
        if any(user is not backward and user.opcode != opcodes.BITCAST for user in users) or not users:
            return False
        return self._is_written_by_rows(value)

    def _is_output(self, value: int, shape: ArrayShape) -> bool:
        """Returns whether an array collects results of the iterations for other readers."""
        return shape.dimensions[0] == self._count and self._is_written_by_rows(value)

    def _is_computed(self, value: int) -> bool:
        """Returns whether the body computes an array anew, instead of only moving it between memories."""
        facts = self._scenarios.facts
        owners = (facts.places.instructions[facts.places.owner[each]] for each in _members(self._scenarios, value))
        return any(each.computation is not facts.module.entry and each.opcode not in _MOVING for each in owners)

    def _is_written_by_rows(self, value: int) -> bool:
        """Returns whether an array starts without data of its own, and is updated in place."""
        facts = self._scenarios.facts
        owners = {facts.places.instructions[facts.places.owner[each]] for each in _members(self._scenarios, value)}
        entry = facts.module.entry
        starts = [each for each in owners if each.computation is entry and each.opcode != opcodes.WHILE]
        inside = [each for each in owners if each.computation is not entry and each.opcode != opcodes.PARAMETER]
        is_empty = all(map(_is_empty, starts))
        return (
            is_empty
            and any(map(_updates_in_place, inside))
            and all(_updates_in_place(each) or each.opcode in (opcodes.WHILE, opcodes.BITCAST) for each in inside)
        )

    def _is_temporary(self, value: int) -> bool:
        facts = self._scenarios.facts
        owner = facts.places.instructions[facts.places.owner[value]]
        return owner.opcode not in (opcodes.PARAMETER, opcodes.CONSTANT)

    def _is_stack_of(self, value: int, shape: ArrayShape) -> bool:
        """Returns whether an array could store a carried array of each iteration."""
        stack = self._scenarios.facts.places.shape(value)
        if not isinstance(stack, ArrayShape) or stack.element_type != shape.element_type:
            return False
        return stack.elements == shape.elements * self._count and sorted(_sizes(stack)) == sorted(
            (*_sizes(shape), self._count)
        )

    def _stack_bytes(self, shape: ArrayShape, layout: Layout) -> int:
        """Returns the bytes of an array that stores a carried array of each iteration."""
        whole = replace(
            shape,
            dimensions=(self._count, *shape.dimensions),
            dynamic_dimensions=(False, *shape.dynamic_dimensions),
            layout=Layout((*(d + 1 for d in layout.minor_to_major), 0)),
        )
        if self._scenarios.facts.target == "tpu":
            order = whole.layout.minor_to_major
            tiled = default_layout(whole, generation=self._scenarios.facts.generation, minor_to_major=order)
            whole = replace(whole, layout=tiled)
        return self._scenarios.bytes_of_shape(whole)


def _sizes(shape: ArrayShape) -> tuple[int, ...]:
    return tuple(size for size in shape.dimensions if size > 1)


def _members(scenarios: MemoryScenarios, value: int) -> tuple[int, ...]:
    return scenarios.facts.aliases.of(value)


def _is_forward(loop: Instruction) -> bool:
    name = loop.metadata.op_name
    return _FORWARD in name and _BACKWARD not in name and not any(each in name for each in _RECOMPUTED)


def _is_backward(loop: Instruction) -> bool:
    return _BACKWARD in loop.metadata.op_name


def _is_empty(instruction: Instruction) -> bool:
    """Returns whether an instruction makes an array without data: a broadcast scalar, or memory alone."""
    if instruction.opcode == opcodes.FUSION:
        root = instruction.called_computations[0].root if instruction.called_computations else None
        return root is not None and root.opcode == opcodes.BROADCAST
    if instruction.opcode == opcodes.COPY and instruction.operands:
        return _is_empty(instruction.operands[0])
    is_memory = instruction.opcode == opcodes.CUSTOM_CALL and not instruction.operands
    return is_memory or instruction.opcode == opcodes.BROADCAST


def _updates_in_place(instruction: Instruction) -> bool:
    """Returns whether an instruction replaces a part of its operand, itself or at the root of its fusion."""
    if instruction.opcode == opcodes.FUSION and instruction.called_computations:
        body = instruction.called_computations[0]
        return any(each.opcode == opcodes.DYNAMIC_UPDATE_SLICE for each in body.instructions)
    return instruction.opcode == opcodes.DYNAMIC_UPDATE_SLICE
