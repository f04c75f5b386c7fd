"""Which changes certainly lower the peak of main memory: donation, other layouts, recomputation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.dataflow.flat_schedule import FlatSchedule
from hlo_cli.analysis.layout.tpu_layout import default_tpu_layout
from hlo_cli.analysis.memory.buffers import OrderIndependentFacts
from hlo_cli.analysis.memory.donation import (
    Argument,
    DonationPair,
    Donations,
    Donor,
    MemoryScenarios,
    Outcome,
    Result,
    Scenario,
    arguments_of,
    certain_sets,
    condition_of_donation,
    donatable_bytes,
    donors_of,
    results_of,
    users_of_values,
)
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, allocated_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.notation import BACKWARD_PASS, FORWARD_PASS
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import joined_by_and

# --- changes of order ---
# Instructions that only store an array in another order, and the order of their operand that makes them needless.


Order = tuple[int, ...]
"""Dimension numbers, the most minor first."""


@dataclass(frozen=True, slots=True)
class Relayout:
    """An instruction whose result has the elements of `source` in another order in memory.

    `permutation[d]` is the dimension of the source that dimension d of the stored array is. `stored` is the shape of
    that array; the instruction may combine its dimensions afterwards, if `is_reshaped`.
    """

    source: Instruction
    permutation: tuple[int, ...]
    stored: ArrayShape
    is_reshaped: bool

    @property
    def source_order(self) -> Order:
        """The dimension order of the source in which the stored array would have the same order in memory."""
        return tuple(self.permutation[d] for d in self.stored.layout.minor_to_major)

    def result_order(self, source: ArrayShape) -> Order:
        """The dimension order of the stored array that is the order of the source in memory."""
        inverse = {of: d for d, of in enumerate(self.permutation)}
        return tuple(inverse[d] for d in source.layout.minor_to_major)


def _relayout_of(instruction: Instruction) -> Relayout | None:
    """Returns what an instruction reorders, None if it does something else.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { p = f32[2,3]{1,0} parameter(0)  b = f32[3,2]{0,1} bitcast(p)
    ...   ROOT c = f32[3,2]{1,0} copy(b) }'''
    >>> found = _relayout_of(parse_module(text).entry.root)
    >>> found.source.name, found.permutation, found.source_order, found.result_order(found.source.shape)
    ('p', (1, 0), (0, 1), (0, 1))
    """
    body = None
    if instruction.opcode == opcodes.FUSION:
        if len(instruction.operands) != 1 or len(instruction.called_computations) != 1:
            return None
        body = instruction.called_computations[0].root
    elif instruction.opcode not in (opcodes.COPY, opcodes.TRANSPOSE):
        return None
    traced = _trace_reordering(instruction if body is None else body, is_fused=body is not None)
    if traced is None:
        return None
    read, permutation, stored, is_reshaped = traced
    source = read
    if body is not None:
        # A bitcast before the copy may have exchanged dimensions: the order is that of the array below.
        if read.opcode != opcodes.PARAMETER:
            return None
        source = instruction.operands[0]
    outside = _below_bitcasts(source)
    if outside is None:
        return None
    source, earlier = outside
    if not isinstance(source.shape, ArrayShape) or source.shape.element_type != stored.element_type:
        return None
    return Relayout(source, tuple(earlier[d] for d in permutation), stored, is_reshaped)


def _trace_reordering(
    root: Instruction, *, is_fused: bool
) -> tuple[Instruction, tuple[int, ...], ArrayShape, bool] | None:
    """Returns the operand that a copy or transpose reads, its permutation, the array stored, and whether it changes."""
    is_reshaped = False
    while is_fused and root.opcode == opcodes.BITCAST and root.operands:
        root, is_reshaped = root.operands[0], True
    stored = root.shape
    if not isinstance(stored, ArrayShape) or root.opcode not in (opcodes.COPY, opcodes.TRANSPOSE):
        return None
    permutation: tuple[int, ...] = tuple(range(stored.rank))
    while root.opcode in (opcodes.COPY, opcodes.TRANSPOSE, opcodes.BITCAST) and root.operands:
        dimensions = _source_dimensions(root)
        if dimensions is None:
            return None
        permutation = tuple(dimensions[d] for d in permutation)
        root = root.operands[0]
        # Outside of a fusion the operand of the copy is an array in memory, so one step is all.
        if not is_fused:
            break
    return root, permutation, stored, is_reshaped


def _below_bitcasts(source: Instruction) -> tuple[Instruction, tuple[int, ...]] | None:
    """Returns the array that a chain of bitcasts shows with its dimensions in another order, and that order."""
    if not isinstance(source.shape, ArrayShape):
        return None
    permutation = tuple(range(source.shape.rank))
    while source.opcode == opcodes.BITCAST and source.operands:
        dimensions = _source_dimensions(source)
        if dimensions is None:
            return None
        permutation = tuple(dimensions[d] for d in permutation)
        source = source.operands[0]
    return source, permutation


def _source_dimensions(instruction: Instruction) -> tuple[int, ...] | None:
    """Returns for each dimension of a result the dimension of the operand that it is; None if there is no such."""
    shape, operand = instruction.shape, instruction.operand_shape(0)
    if not isinstance(shape, ArrayShape) or not isinstance(operand, ArrayShape) or shape.rank != operand.rank:
        return None
    if instruction.opcode == opcodes.COPY:
        return tuple(range(shape.rank))
    if instruction.opcode == opcodes.TRANSPOSE:
        dimensions = instruction.integers("dimensions")
        return dimensions if sorted(dimensions) == list(range(shape.rank)) else None
    ours, theirs = shape.layout.minor_to_major, operand.layout.minor_to_major
    pairs = list(zip(ours, theirs, strict=True))
    # A bitcast exchanges dimensions if each keeps its size and its place in memory; tiles would cut other dimensions.
    if (
        any(shape.dimensions[d] != operand.dimensions[of] for d, of in pairs)
        or shape.layout.tiles != operand.layout.tiles
    ):
        return None
    step = dict(pairs)
    return tuple(step[d] for d in range(shape.rank))


# --- layouts of arguments and results ---
# Layouts of arguments and results in which the program needs no copy of them in another order.


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
    search = _LayoutSearch(scenarios)
    return (*search.arguments(), *search.results())


def _relayout_bytes(memory: MemoryAnalysis) -> int:
    """Returns the bytes of instructions that only reorder an argument, or make a result in another order.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "ENTRY e { p = f32[8,4]{1,0} parameter(0)  ROOT c = f32[8,4]{0,1} copy(p) }"
    >>> _relayout_bytes(memory_analysis(parse_module(text)))
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
            total += instruction.shape.padded_bytes if is_entry and _relayout_of(instruction) is not None else 0
    return total


def with_entry_layouts(scenarios: MemoryScenarios, changes: tuple[EntryLayout, ...], base: Scenario) -> Scenario:
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


class _LayoutSearch:
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
            # jax takes layouts of arrays, not of elements of a tuple argument; aliased and returned ones serve two
            # ends.
            if argument.index or (argument.number, argument.index) in aliased or argument.place in returned:
                continue
            relayouts = [_relayout_of(user) for user in self._readers(argument.place)]
            copies = [each for each in relayouts if each is not None and each.source is argument.parameter]
            orders = {each.source_order for each in copies}
            # Readers in two orders need a copy in any layout.
            if not copies or len(copies) < len(relayouts) or len(orders) > 1:
                continue
            layout = self._layout(argument.shape, orders.pop(), copies[0].stored.layout)
            users = tuple(self._readers(argument.place))
            removed = tuple(self._facts.places.first_of(user) for user in users)
            # Whatever shares memory with the copies would need memory of its own.
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
            relayout = _relayout_of(owner) if is_plain and times.count(result.value) == 1 else None
            # A reshape after the copy changes which layouts the result can have.
            if relayout is None or relayout.is_reshaped or not self._is_alone(result.value):
                continue
            kept = self._facts.dataflow.value[self._facts.places.first_of(relayout.source)]
            if kept in times or not self._can_be_kept(kept, relayout):
                continue
            assert isinstance(relayout.source.shape, ArrayShape)
            layout = self._layout(
                result.shape, relayout.result_order(relayout.source.shape), relayout.source.shape.layout
            )
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

    def _can_be_kept(self, value: int, relayout: Relayout) -> bool:
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
        # A later value in the same memory would overwrite the result.
        return relayout.source.computation is facts.module.entry and start[value] == max(
            start.get(m, 0) for m in members
        )

    def _layout(self, shape: ArrayShape, order: Order, reader_layout: Layout) -> Layout | None:
        """Returns the layout of an entry array in a dimension order; None if its readers have other tiles."""
        if self._facts.target != "tpu":
            return None if reader_layout.tiles else replace(shape.layout, minor_to_major=order)
        layout = default_tpu_layout(shape, generation=self._facts.generation, minor_to_major=order)
        # With other tiles the compiler would still insert a copy.
        return layout if layout.tiles == reader_layout.tiles else None


def _bytes(shape: ArrayShape, layout: Layout, scenarios: MemoryScenarios) -> int:
    """Returns the bytes of an array in a layout."""
    return scenarios.bytes_of_shape(replace(shape, layout=layout))


# --- recomputation ---
# What the gradient of a scan keeps of each iteration, and the peak if the body is computed again.
#
# The forward loop of a gradient stores values of its body in arrays with one row for each iteration, which the backward
# loop reads. With `jax.checkpoint` around the body, only the carried values are stored, and the backward loop computes
# the others again, one iteration at a time.


_RECOMPUTED: Final = ("rematted_computation", "checkpoint")
"""Names of scopes in which jax.checkpoint computes values again (jax/_src/ad_checkpoint.py)."""
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


def _has_scan_gradient(memory: MemoryAnalysis) -> bool:
    """Returns whether the entry has a loop of a gradient's forward pass, and one of its backward pass.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> _has_scan_gradient(memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")))
    False
    """
    loops = [each for each in memory.module.entry.instructions if each.opcode == opcodes.WHILE]
    return any(map(_is_forward, loops)) and any(map(_is_backward, loops))


def stored_values(scenarios: MemoryScenarios) -> Iterator[StoredValues]:
    """Yields the scans of the entry whose gradient stores values in main memory that could be computed again."""
    users = users_of_values(scenarios.facts)
    for loop in scenarios.facts.module.entry.instructions:
        if loop.opcode == opcodes.WHILE and _is_forward(loop):
            stored = _Scan(scenarios, loop, users).stored()
            if stored is not None:
                yield stored


def _with_recomputation(scenarios: MemoryScenarios, change: RecomputeScan, base: Scenario) -> Scenario:
    """Returns the scenario in which the body is computed again, with the values of one iteration that are live."""
    stored = change.stored
    facts, schedule = scenarios.facts, scenarios.schedule
    places = facts.places
    last = schedule.ticks[places.number(stored.backward)]
    first = min(schedule.spans[called].start for called in stored.backward.called_computations)
    ends = {**base.ends, **{v: max(scenarios.ranges.end[v], last) for v in stored.shared}}
    members = {value: size for kept, size in stored.kept for value in _members(scenarios, kept)}
    removed = base.removed.union(m for value in stored.removed for m in _members(scenarios, value))
    # Half, as values of an iteration are made and consumed along the way; `_is_sure` bounds the mistake. Recompiled for
    # CPU with jax.checkpoint, bodies of 14 kinds needed at most 42% of them at once, and those for TPU none.
    live = stored.iteration_bytes if change.is_bound else stored.iteration_bytes // 2
    extra = (*base.extra, (first, last, live))
    return replace(base, removed=removed, sizes={**base.sizes, **members}, ends=ends, extra=extra)


def _is_sure(change: StoredValues, peak_bytes: int) -> bool:
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
        # A loop of one iteration stores nothing for later.
        if self._count < 2 or backward is None:
            return None
        stacks, carried, shared = self._elements(backward)
        kept: list[tuple[int, int]] = []
        stored_bytes = Counter({value: self._scenarios.bytes_of(value) for value in stacks})
        for shape, layout in carried:
            needed = self._stack_bytes(shape, layout)
            if not stored_bytes:
                # Every stored array is a carried one then, which checkpointing keeps too.
                return None
            same = [value for value in stored_bytes if self._is_stack_of(value, shape)]
            # Without an array of that shape, the largest one stands for it: the cautious choice.
            value = same[0] if same else max(stored_bytes, key=stored_bytes.__getitem__)
            kept.append((value, stored_bytes.pop(value) if same else needed))
        if not stored_bytes:
            return None
        iteration = sum(stored_bytes.values()) // self._count
        return StoredValues(self._loop, backward, tuple(stored_bytes), tuple(kept), iteration, tuple(shared))

    def _backward(self) -> Instruction | None:
        """Returns the loop that reads what this one stores."""
        entry = self._scenarios.facts.module.entry.instructions
        first = self._scenarios.facts.places.first_of(self._loop)
        count = len(self._scenarios.facts.places.parts(self._loop))
        readers = {entry[index] for place in range(first, first + count) for index in self._users.get(place, ())}
        loops = [each for each in readers if each.opcode == opcodes.WHILE and _is_backward(each)]
        # Other trip counts belong to another scan.
        return loops[0] if len(loops) == 1 and trip_count(loops[0]) == self._count else None

    def _elements(self, backward: Instruction) -> tuple[list[int], list[tuple[ArrayShape, Layout]], list[int]]:
        """Returns the stored arrays, the shapes of carried arrays, and the other values that the body reads."""
        facts = self._scenarios.facts
        places, value_at, first = facts.places, facts.dataflow.value, facts.places.first_of(self._loop)
        parts = places.parts(self._loop)
        results = {each.value for each in results_of(facts)}
        stacks: list[int] = []
        carried: list[tuple[ArrayShape, Layout]] = []
        shared: list[int] = []
        for n, shape in enumerate(parts.shapes):
            value = value_at[first + n]
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
        stack = replace(
            shape,
            dimensions=(self._count, *shape.dimensions),
            dynamic_dimensions=(False, *shape.dynamic_dimensions),
            layout=Layout((*(d + 1 for d in layout.minor_to_major), 0)),
        )
        if self._scenarios.facts.target == "tpu":
            order = stack.layout.minor_to_major
            tiled = default_tpu_layout(stack, generation=self._scenarios.facts.generation, minor_to_major=order)
            stack = replace(stack, layout=tiled)
        return self._scenarios.bytes_of_shape(stack)


def _sizes(shape: ArrayShape) -> tuple[int, ...]:
    return tuple(size for size in shape.dimensions if size > 1)


def _members(scenarios: MemoryScenarios, value: int) -> tuple[int, ...]:
    return scenarios.facts.aliases.of(value)


def _is_forward(loop: Instruction) -> bool:
    # JAX's name stack has jvp(…) for the forward pass and transpose(…) for the backward pass of a gradient.
    name = loop.metadata.op_name
    return FORWARD_PASS in name and BACKWARD_PASS not in name and not any(each in name for each in _RECOMPUTED)


def _is_backward(loop: Instruction) -> bool:
    return BACKWARD_PASS in loop.metadata.op_name


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


# --- suggestions ---
# Suggestions that lower the peak of main memory, and the peak that each one leaves.
#
# The peak is computed anew for each: aliases, live ranges, sharing, and allocations of the changed program. What
# depends on choices of the compiler is not suggested; the tests compile changed programs and compare. Other layouts are
# suggested on TPU alone, because the CPU compiler copies arguments into the row-major order. On GPU, for which nothing
# could be compiled, only donation is suggested that needs no copies.


_MIN_SAVING = 0.05
"""Minimum share of the peak that a suggestion saves: less is not worth an edit; chosen, not measured."""
_MAX_LAYOUTS = 6
"""Number of groups of layouts to try."""


@dataclass(frozen=True, slots=True)
class Donate:
    """Arguments of the user's function to donate, and the pairs of arrays that then share memory.

    The `condition` is a sentence on when they may be donated, empty if nothing makes it doubtful.
    """

    donors: tuple[Donor, ...]
    pairs: tuple[DonationPair, ...]
    condition: str = ""


@dataclass(frozen=True, slots=True)
class ChangeLayouts:
    """Arguments or results of one shape to pass or return in another dimension order."""

    layouts: tuple[EntryLayout, ...]


@dataclass(frozen=True, slots=True)
class RecomputeScan:
    """A scan whose body to compute again in the backward pass of its gradient, instead of storing its values.

    If `is_bound`, all values of one iteration count as live at once, so the peak that is left is at most this.
    """

    stored: StoredValues
    is_bound: bool = False


Change: TypeAlias = Donate | ChangeLayouts | RecomputeScan


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change, and the peak and its step after it and all earlier ones.

    If `is_allocated`, the peak of live bytes stays, and `before_bytes` and `peak_bytes` are what the program allocates:
    results have memory during the whole execution, even if they are live at its end alone. If `is_bound`,
    `peak_bytes` is an upper bound: how many values of an iteration are live at once is unknown, and they are large.
    """

    change: Change
    before_bytes: int
    peak_bytes: int
    peak_step: int
    is_allocated: bool = False
    is_bound: bool = False


def suggestions(memory: MemoryAnalysis, *, most: int = 3) -> tuple[Suggestion, ...]:
    """Returns up to `most` changes, each of which lowers the peak of main memory by at least 5%, on top of the earlier.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e {
    ...   w = f32[8,1024]{1,0:T(8,128)} parameter(0), metadata={op_name="w"}
    ...   ROOT n = f32[8,1024]{1,0:T(8,128)} negate(w) }'''
    >>> [found] = suggestions(memory_analysis(parse_module(text)))
    >>> [donor.name for donor in found.change.donors], found.before_bytes, found.peak_bytes
    (['w'], 65536, 32768)
    """
    space = memory.space(MemorySpace.MAIN)
    if space is None or not space.peak_bytes or not _is_certain(memory):
        return ()
    least = _MIN_SAVING * space.peak_bytes
    can_donate = donatable_bytes(memory) >= least
    # Only TPU programs may have other entry layouts; other compilers copy arguments into row-major order.
    can_reorder = memory.target == "tpu" and _relayout_bytes(memory) >= least
    if (not can_donate and not can_reorder and not _has_scan_gradient(memory)) or memory.module.errors:
        return ()
    return tuple(_SuggestionSearch(memory, space.peak_bytes).run(most, can_donate=can_donate))


def _is_certain(memory: MemoryAnalysis) -> bool:
    """Returns whether the program is as the compiler left it: scheduled, whole, and for a known target."""
    module = memory.module
    return memory.order == "schedule" and memory.target is not None and not module.is_part


class _SuggestionSearch:
    """The greedy search for changes: at each turn, the one that saves most on top of the earlier ones."""

    __slots__ = ("_before", "_known", "_memory", "_peak_bytes", "_scenarios")

    def __init__(self, memory: MemoryAnalysis, peak_bytes: int) -> None:
        self._memory = memory
        self._peak_bytes = peak_bytes
        self._scenarios = MemoryScenarios(memory)
        self._known: list[tuple[Scenario, Outcome]] = []
        self._before: Outcome = self._outcome(Scenario())

    def run(self, most: int, *, can_donate: bool) -> list[Suggestion]:
        """Returns the changes in their order."""
        donation = self._donation() if can_donate else None
        candidates: list[Change] = [*([donation] if donation is not None else []), *self._layouts(), *self._scans()]
        chosen: list[Suggestion] = []
        base, current = Scenario(), self._before
        while candidates and len(chosen) < most:
            tried = [(self._outcome(self._with(base, change)), n) for n, change in enumerate(candidates)]
            after, number = min(tried, key=lambda each: self._order(candidates[each[1]], current, *each))
            if current.peak_bytes - after.peak_bytes < _MIN_SAVING * self._peak_bytes:
                break
            change = candidates.pop(number)
            # A lower peak of live bytes with no smaller total would not make a program fit.
            if after.allocated_bytes is not None and after.allocated_bytes >= (current.allocated_bytes or 0):
                continue
            base = self._with(base, change)
            # Scenarios may start from another peak than the analysis, whose slots come from the compiler.
            offset = self._peak_bytes - self._before.peak_bytes
            is_bound = _is_bound(change) or any(each.is_bound for each in chosen)
            peaks = current.peak_bytes + offset, after.peak_bytes + offset
            chosen.append(Suggestion(change, *peaks, after.peak_step, is_bound=is_bound))
            current = after
            candidates = [each for each in candidates if not _share_arrays(each, change)]
        return [*chosen, *self._allocated_less(candidates, base, current, most - len(chosen))]

    def _order(self, change: Change, current: Outcome, after: Outcome, number: int) -> tuple[bool, bool, int, int, int]:
        """Returns the place of a change among others: what is worth an edit first, then what has no condition."""
        is_small = current.peak_bytes - after.peak_bytes < _MIN_SAVING * self._peak_bytes
        has_condition = isinstance(change, Donate) and bool(change.condition)
        return is_small, has_condition, after.peak_bytes, after.allocated_bytes or 0, number

    def _allocated_less(
        self, candidates: list[Change], base: Scenario, current: Outcome, most: int
    ) -> Iterator[Suggestion]:
        """Yields changes that lower the total of all allocations by at least 5%, though not the peak."""
        space = self._memory.space(MemorySpace.MAIN)
        now = allocated_bytes(self._memory, space) if space is not None else None
        candidates = [each for each in candidates if _has_known_allocations(each)]
        while candidates and most > 0 and now is not None and current.allocated_bytes is not None:
            tried = [self._outcome(self._with(base, change)) for change in candidates]
            number = min(range(len(tried)), key=lambda n: tried[n].allocated_bytes or 0)
            change, after = candidates.pop(number), tried[number]
            saved = current.allocated_bytes - (after.allocated_bytes or 0)
            if saved < _MIN_SAVING * now:
                return
            if after.peak_bytes > current.peak_bytes:
                continue
            before = now - ((self._before.allocated_bytes or 0) - current.allocated_bytes)
            yield Suggestion(change, before, before - saved, after.peak_step, is_allocated=True)
            base, current, most = self._with(base, change), after, most - 1
            candidates = [each for each in candidates if not _share_arrays(each, change)]

    def _outcome(self, scenario: Scenario) -> Outcome:
        outcome = next((outcome for known, outcome in self._known if known == scenario), None)
        if outcome is None:
            outcome = self._scenarios.outcome(scenario)
            self._known.append((scenario, outcome))
        return outcome

    def _with(self, base: Scenario, change: Change) -> Scenario:
        """Returns the scenario with a change too."""
        match change:
            case ChangeLayouts(layouts=layouts):
                return with_entry_layouts(self._scenarios, layouts, base)
            case RecomputeScan():
                return _with_recomputation(self._scenarios, change, base)
            case Donate(pairs=pairs):
                free = (pair.alias for pair in pairs if pair.kind == "free")
                return replace(
                    base,
                    aliases=(*self._memory.module.input_output_alias, *free),
                    copied=tuple(pair.alias for pair in pairs if pair.kind in ("copied", "fetched")),
                    joined=tuple((pair.argument.place, copy) for pair in pairs for copy in pair.joined),
                )

    def _donation(self) -> Donate | None:
        """Returns the donation that lowers the peak most, of those that need nothing unknown."""
        donors = donors_of(self._scenarios.facts)
        if not donors:
            return None
        donations, places = Donations(self._scenarios), self._scenarios.facts.places
        best: tuple[int, int, Donate] | None = None
        # On GPU nothing was compiled to check copies against, so pairs must need none.
        is_strict = self._memory.target == "gpu"
        for some in certain_sets(donations, donors, self._scenarios, self._peak_bytes, is_strict=is_strict):
            pairs = donations.pairs(some)
            if sum(self._scenarios.bytes_of(pair.argument.place) for pair in pairs) < _MIN_SAVING * self._peak_bytes:
                continue
            results = (places.instructions[places.owner[pair.result.value]] for pair in pairs)
            change = Donate(some, pairs, condition_of_donation(results, joined_by_and(each.name for each in some)))
            after = self._outcome(self._with(Scenario(), change))
            cost = after.peak_bytes, after.allocated_bytes or 0
            if best is None or cost < best[:2]:
                best = *cost, change
            # The first set that saves enough is the largest: later ones are single donors.
            if self._before.peak_bytes - after.peak_bytes >= _MIN_SAVING * self._peak_bytes:
                break
        return best[2] if best is not None else None

    def _layouts(self) -> list[Change]:
        """Returns the layouts of arguments and results in groups of one shape and layout, the largest first."""
        if self._memory.target != "tpu":
            return []
        groups: dict[object, list[EntryLayout]] = {}
        for each in entry_layouts(self._scenarios):
            key = isinstance(each.array, Argument), each.array.shape, each.layout
            groups.setdefault(key, []).append(each)
        sizes = {key: sum(map(self._saved_bytes, group)) for key, group in groups.items()}
        large = sorted((key for key in groups if sizes[key] >= _MIN_SAVING * self._peak_bytes), key=lambda k: -sizes[k])
        return [ChangeLayouts(tuple(groups[key])) for key in large[:_MAX_LAYOUTS]]

    def _scans(self) -> list[Change]:
        """Returns the scans to compute again, with an upper bound where the values of one iteration are large."""
        if self._memory.target == "gpu" or not _has_scan_gradient(self._memory):
            return []
        stored = stored_values(self._scenarios)
        return [RecomputeScan(each, is_bound=not _is_sure(each, self._peak_bytes)) for each in stored]

    def _saved_bytes(self, change: EntryLayout) -> int:
        """Returns at most how many bytes a layout saves."""
        removed = sum(map(self._scenarios.bytes_of, change.removed))
        array = change.array
        return removed + (self._scenarios.bytes_of(array.place) - change.size if isinstance(array, Argument) else 0)


def _is_bound(change: Change) -> bool:
    """Returns whether the peak after a change is known only as an upper bound."""
    return isinstance(change, RecomputeScan) and change.is_bound


def _has_known_allocations(change: Change) -> bool:
    """Returns whether the allocations after a change are certain: no copies, whose place in a heap is unknown."""
    match change:
        case Donate(pairs=pairs):
            return all(pair.kind == "free" for pair in pairs)
        case ChangeLayouts():
            return True
        # Where the copies of a recomputed body are placed in the heap is unknown.
        case RecomputeScan():
            return False


def _share_arrays(change: Change, other: Change) -> bool:
    """Returns whether two changes concern the same argument or result."""
    return bool(_arrays(change) & _arrays(other))


def _arrays(change: Change) -> set[Argument | Result]:
    match change:
        case ChangeLayouts(layouts=layouts):
            return {each.array for each in layouts}
        case Donate(pairs=pairs):
            return {array for pair in pairs for array in (pair.argument, pair.result)}
        case RecomputeScan():
            return set()
