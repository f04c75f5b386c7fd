"""Layouts of arguments and results in which the program needs no copy of them in another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.flat_schedule import FlatSchedule
from hlo_cli.analysis.layout.default_layout import default_layout
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.peak_advice.entry_order import users_of_values
from hlo_cli.analysis.peak_advice.interface import Argument, Result, arguments_of, results_of
from hlo_cli.analysis.peak_advice.relayouts import Order, Relayout, relayout_of
from hlo_cli.analysis.peak_advice.scenario import MemoryScenarios, Scenario
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape

_REORDERING: Final = frozenset((opcodes.COPY, opcodes.FUSION, opcodes.TRANSPOSE))


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """An argument or result in another layout, and the instructions that only stored it in that order.

    `kept` is the value that becomes the result, `size` the bytes of the argument in the layout.
    """

    array: Argument | Result
    layout: Layout
    size: int
    copies: tuple[Instruction, ...]
    removed: tuple[int, ...]
    kept: int | None = None


def entry_layouts(scenarios: MemoryScenarios) -> tuple[EntryLayout, ...]:
    """Returns the arguments and results that the program only reads or makes in another order.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { p = f32[64,8]{1,0:T(8,128)} parameter(0)
    ...   c = f32[64,8]{0,1:T(8,128)} copy(p)  ROOT r = f32[64,8]{0,1:T(8,128)} negate(c) }'''
    >>> scenarios = MemoryScenarios(memory_analysis(parse_module(text)))
    >>> [(each.array.label, str(each.layout), each.size) for each in entry_layouts(scenarios)]
    [('p', '{0,1:T(8,128)}', 4096)]
    """
    search = _Search(scenarios)
    return (*search.arguments(), *search.results())


def relayout_bytes(memory: MemoryAnalysis) -> int:
    """Returns the bytes of instructions that only reorder an argument, or make a result in another order.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "ENTRY e { p = f32[8,4]{1,0} parameter(0)  ROOT c = f32[8,4]{0,1} copy(p) }"
    >>> relayout_bytes(memory_analysis(parse_module(text)))
    128
    """
    root = memory.module.entry.root
    results = {root, *(root.operands if root is not None and root.opcode == opcodes.TUPLE else ())}
    total = 0
    for instruction in memory.module.entry.instructions:
        if instruction.opcode in _REORDERING and len(instruction.operands) == 1:
            source = instruction.operands[0]
            while source.opcode == opcodes.BITCAST and source.operands:
                source = source.operands[0]
            is_entry = source.opcode == opcodes.PARAMETER or instruction in results
            total += instruction.shape.padded_bytes if is_entry and relayout_of(instruction) is not None else 0
    return total


def scenario_of(scenarios: MemoryScenarios, changes: tuple[EntryLayout, ...], base: Scenario) -> Scenario:
    """Returns the scenario with other layouts too."""
    removed = base.removed.union(value for change in changes for value in change.removed)
    sizes, ends = dict(base.sizes), dict(base.ends)
    for change in changes:
        if isinstance(change.array, Argument):
            sizes[change.array.place] = change.size
        elif change.kept is not None:
            ends[change.kept] = scenarios.schedule.end
    results = base.results.union(change.kept for change in changes if change.kept is not None)
    return replace(base, removed=removed, sizes=sizes, ends=ends, results=results)


class _Search:
    """The search for arguments and results that only copies use or make."""

    __slots__ = ("_facts", "_scenarios", "_schedule", "_users")

    def __init__(self, scenarios: MemoryScenarios) -> None:
        self._scenarios = scenarios
        self._facts: OrderIndependentFacts = scenarios.facts
        self._schedule: FlatSchedule = scenarios.schedule
        self._users = users_of_values(scenarios.facts)

    def arguments(self) -> Iterator[EntryLayout]:
        """Yields arguments that are read only by copies in one other order."""
        aliased = {(each.parameter_number, each.parameter_index) for each in self._facts.module.input_output_alias}
        returned = {each.value for each in results_of(self._facts)}
        for argument in arguments_of(self._facts):
            if argument.index or (argument.number, argument.index) in aliased or argument.place in returned:
                continue
            found = [relayout_of(user) for user in self._readers(argument.place)]
            copies = [each for each in found if each is not None and each.source is argument.parameter]
            orders = {each.source_order for each in copies}
            if not copies or len(copies) < len(found) or len(orders) > 1:
                continue
            layout = self._layout(argument.shape, orders.pop(), copies[0].stored.layout)
            users = tuple(self._readers(argument.place))
            removed = tuple(self._facts.places.first_of(user) for user in users)
            if layout is None or not all(map(self._is_alone, removed)) or layout == argument.shape.layout:
                continue
            yield EntryLayout(argument, layout, _bytes(argument.shape, layout, self._scenarios), users, removed)

    def results(self) -> Iterator[EntryLayout]:
        """Yields results that are copies, in another order, of values that nothing overwrites."""
        results = results_of(self._facts)
        times = [each.value for each in results]
        for result in results:
            owner = self._facts.places.instructions[self._facts.places.owner[result.value]]
            is_plain = owner.computation is self._facts.module.entry and not self._users.get(result.value)
            found = relayout_of(owner) if is_plain and times.count(result.value) == 1 else None
            if found is None or found.is_reshaped or not self._is_alone(result.value):
                continue
            kept = self._facts.dataflow.value[self._facts.places.first_of(found.source)]
            if kept in times or not self._can_be_kept(kept, found):
                continue
            assert isinstance(found.source.shape, ArrayShape)
            layout = self._layout(result.shape, found.result_order(found.source.shape), found.source.shape.layout)
            if layout is not None and layout != result.shape.layout:
                yield EntryLayout(result, layout, 0, (owner,), (result.value,), kept)

    def _readers(self, value: int) -> list[Instruction]:
        entry = self._facts.module.entry.instructions
        users = (entry[index] for index in self._users.get(value, ()))
        return [user for user in users if user.opcode != opcodes.BITCAST]

    def _is_alone(self, value: int) -> bool:
        """Returns whether no other value shares the memory of a value, which is in main memory."""
        aliases = self._facts.aliases
        shape = self._facts.places.shape(value)
        is_main = isinstance(shape, ArrayShape) and not shape.layout.memory_space
        return is_main and aliases.buffer.get(value) == value and value not in aliases.members

    def _can_be_kept(self, value: int, found: Relayout) -> bool:
        """Returns whether a value can be a result: computed by the entry, and the last one in its memory."""
        facts, start = self._facts, self._scenarios.ranges.start
        shape = facts.places.shape(value)
        owner = facts.places.instructions[facts.places.owner[value]]
        if value not in start or not isinstance(shape, ArrayShape) or shape.layout.memory_space:
            return False
        members = facts.aliases.of(value)
        owners = [facts.places.instructions[facts.places.owner[each]] for each in members]
        fixed = (opcodes.PARAMETER, opcodes.CONSTANT)
        if any(each.opcode in fixed and each.computation is facts.module.entry for each in (owner, *owners)):
            return False
        return found.source.computation is facts.module.entry and start[value] == max(start.get(m, 0) for m in members)

    def _layout(self, shape: ArrayShape, order: Order, given: Layout) -> Layout | None:
        """Returns the layout of an entry array in a dimension order; None if it would have other tiles than `given`."""
        if self._facts.target != "tpu":
            return None if given.tiles else replace(shape.layout, minor_to_major=order)
        layout = default_layout(shape, generation=self._facts.generation, minor_to_major=order)
        return layout if layout.tiles == given.tiles else None


def _bytes(shape: ArrayShape, layout: Layout, scenarios: MemoryScenarios) -> int:
    """Returns the bytes of an array in a layout."""
    return scenarios.bytes_of_shape(replace(shape, layout=layout))
