"""The memory of a program after a change: live ranges, buffer assignment, and peak are computed again.

The instructions and their order stay; which values share memory, where they end, and their sizes may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from hlo_cli.analysis.dataflow.flat_schedule import FlatSchedule, flat_schedule
from hlo_cli.analysis.dataflow.value_sets import alias_sets
from hlo_cli.analysis.layout.padding import buffer_bytes
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer, buffers_of
from hlo_cli.analysis.memory.interference import Interference, Release
from hlo_cli.analysis.memory.live_ranges import LiveRanges, live_ranges
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.slot_occupancy import timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape

_ALIASES = "input_output_alias"
_MAX_STEPS = 2000
"""Number of steps up to which allocations are computed again."""
_FAR = 1 << 60
"""A number beyond those of slots."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to a program, by the places of the values in its dataflow.

    `aliases` replaces `input_output_alias`, if it is not None. `copied` are arguments that results overwrite too, but
    of which a copy at the start of the program is read, because some reads may come later. Pairs of values that are
    `joined` share memory, because a copy of one into the other is not needed. `removed` are values that no longer need
    memory, `sizes` the bytes of values that become larger or smaller, `ends` the steps to which values are live, and
    `results` values that become results. `extra` are further values: first step, last step, and bytes.
    """

    aliases: tuple[Alias, ...] | None = None
    copied: tuple[Alias, ...] = ()
    joined: tuple[tuple[int, int], ...] = ()
    removed: frozenset[int] = frozenset()
    sizes: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    results: frozenset[int] = frozenset()
    extra: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Main memory in a scenario: the peak of live bytes, its step, and the total of all allocations.

    The total is None for large programs, whose values keep their slots, because heaps take long to fill.
    """

    peak_bytes: int
    peak: int
    allocated_bytes: int | None


class MemoryScenarios:
    """Computes the main memory of one program in several scenarios."""

    __slots__ = ("_bytes", "_slots", "facts", "ranges", "release", "schedule")

    def __init__(self, memory: MemoryAnalysis) -> None:
        """Prepares what does not depend on the scenario."""
        self.facts: OrderIndependentFacts = memory.facts
        self.schedule: FlatSchedule = flat_schedule(self.facts.places, memory.module.entry, self.facts.chains)
        self.release: Release = memory.release
        self.ranges: LiveRanges = memory.ranges
        self._bytes: dict[int, int] = {}
        self._slots: dict[int, int] | None = self._known_slots(memory) if len(memory.sequence) > _MAX_STEPS else None

    @no_garbage_collection()
    def outcome(self, scenario: Scenario) -> Outcome:
        """Returns the main memory in a scenario.

        >>> from hlo_cli import memory_analysis, parse_module
        >>> text = "HloModule m, is_scheduled=true  ENTRY e { p = f32[64] parameter(0)  ROOT n = f32[64] negate(p) }"
        >>> scenarios = MemoryScenarios(memory_analysis(parse_module(text)))
        >>> scenarios.outcome(Scenario()), scenarios.outcome(Scenario((Alias((), 0, ()),))).peak_bytes
        (Outcome(peak_bytes=512, peak=1, allocated_bytes=512), 256)
        """
        facts, ranges = self.facts, self.ranges
        if scenario.aliases is not None:
            facts = self._with_aliases(scenario.aliases, scenario)
            ranges = self._ranges(facts)
        if scenario.removed or scenario.ends:
            ranges = _changed(ranges, scenario)
        if scenario.removed or scenario.sizes or scenario.results:
            facts = replace(facts, buffers=tuple(self._changed(facts.buffers, scenario)))
        if self._slots is None:
            assigned = assign(facts, ranges, self.release).allocations
            total = sum(each.size for each in assigned if not each.space and each.role != "thread-local")
            total += sum(size for _, _, size in scenario.extra)
            chosen = [pair for each in assigned for pair in zip(each.buffers, each.slots, strict=True)]
        else:
            total = None
            chosen = [(n, self._slots.get(buffer.values[0], -1 - n)) for n, buffer in enumerate(facts.buffers)]
        copies = {self._place_of(alias) for alias in scenario.copied}
        slots: list[tuple[int, int, int, int]] = []
        for number, slot in chosen:
            buffer = facts.buffers[number]
            for value in buffer.values if not buffer.space else ():
                if value in ranges.start:
                    size = scenario.sizes.get(value, self.bytes_of(value))
                    # A copy cannot share the memory of its argument, which holds the result later.
                    at = -_FAR - value if value in copies else slot
                    last = ranges.last(value)
                    slots.append((ranges.start[value], last, size, at))
        slots += [(start, end, size, _FAR + number) for number, (start, end, size) in enumerate(scenario.extra)]
        live = timeline(sorted(slots, key=lambda each: each[:2]), self.schedule.end)
        peak = max(range(len(live)), key=live.__getitem__)
        return Outcome(live[peak], peak, total)

    def ranges_with(self, aliases: tuple[Alias, ...]) -> LiveRanges:
        """Returns the live ranges if arguments of `aliases` end at their last use, before results overwrite them."""
        return self._ranges(replace(self.facts, module=_with_aliases(self.facts.module, aliases)))

    def interference(self, ranges: LiveRanges) -> Interference:
        """Returns the interference of values with these live ranges."""
        facts = self.facts
        sharing = OperandSharing(facts.dataflow, facts.in_place, facts.target)
        release: Release = "2026-08" if facts.target == "tpu" else self.release
        return Interference(facts.dataflow, facts.aliases, ranges, sharing, release)

    def bytes_of(self, value: int) -> int:
        """Returns the padded bytes of a value."""
        shape = self.facts.places.shape(value)
        size = self._bytes.get(id(shape))
        if size is None:
            size = self._bytes[id(shape)] = self.bytes_of_shape(shape)
        return size

    def bytes_of_shape(self, shape: Shape) -> int:
        """Returns the padded bytes of a shape on the target."""
        return buffer_bytes(shape, self.facts.target, self.facts.generation)

    def _known_slots(self, memory: MemoryAnalysis) -> dict[int, int]:
        """Returns the slot of each value."""
        places = self.facts.places
        found: dict[int, int] = {}
        for value in memory.values:
            place = places.first_of(value.instruction) + places.parts(value.instruction).ordinals[value.index]
            found[place] = value.slot
        return found

    def _ranges(self, facts: OrderIndependentFacts) -> LiveRanges:
        return live_ranges(facts.module, facts.dataflow, self.schedule, facts.aliases, facts.target)

    def _with_aliases(self, aliases: tuple[Alias, ...], scenario: Scenario) -> OrderIndependentFacts:
        """Returns the facts with other aliases; a copied argument is a temporary, and its result in its place."""
        facts = self.facts
        sets = alias_sets(_with_aliases(facts.module, aliases), facts.dataflow, facts.in_place, scenario.joined)
        module = _with_aliases(facts.module, (*aliases, *scenario.copied))
        buffers = buffers_of(module, facts.dataflow, sets, facts.target, facts.generation)
        copies = {self._place_of(alias) for alias in scenario.copied}
        if copies:
            buffers = tuple(replace(each, parameter=None) if each.parameter in copies else each for each in buffers)
        return replace(facts, module=module, aliases=sets, buffers=buffers)

    def _place_of(self, alias: Alias) -> int:
        """Returns the place of the argument of an alias."""
        parameter, places = self.facts.module.entry.parameters[alias.parameter_number], self.facts.places
        return places.first_of(parameter) + places.parts(parameter).ordinals[alias.parameter_index]

    def _changed(self, buffers: tuple[Buffer, ...], scenario: Scenario) -> list[Buffer]:
        found: list[Buffer] = []
        for buffer in buffers:
            values = tuple(value for value in buffer.values if value not in scenario.removed)
            if len(values) < len(buffer.values) or any(value in scenario.sizes for value in values):
                sizes = [scenario.sizes.get(value, self.bytes_of(value)) for value in values]
                buffer = replace(buffer, values=values, size=max(sizes, default=0))
            if not scenario.results.isdisjoint(values):
                buffer = replace(buffer, is_live_out=True)
            if values:
                found.append(buffer)
        return found


def _with_aliases(module: Module, aliases: tuple[Alias, ...]) -> Module:
    """The module with another `input_output_alias`."""
    header = tuple(attribute for attribute in module.header if attribute.name != _ALIASES)
    text = "{ " + ", ".join(map(str, aliases)) + " }"
    return replace(module, header=(*header, Attribute(_ALIASES, text)) if aliases else header)


def _changed(ranges: LiveRanges, scenario: Scenario) -> LiveRanges:
    start = {value: tick for value, tick in ranges.start.items() if value not in scenario.removed}
    return replace(ranges, start=start, end={value: scenario.ends.get(value, ranges.end[value]) for value in start})
