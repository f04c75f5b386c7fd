"""Which values would be read after they are overwritten in a rewritten module, and how is that prevented?

Updates move after the other readers where dependencies permit (reader order); where they do not, the value is copied
(copy insertion).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import control_predecessors, users_of
from hlo_cli.analysis.dataflow.value_sets import aliased_places
from hlo_cli.analysis.memory.buffers import (
    Access,
    OrderIndependentFacts,
    Overwritten,
    Walk,
    order_independent_facts,
    overwritten_values,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, Users
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape, subshape
from hlo_cli.source import HloError
from hlo_cli.transform.rewriting import ComputationCopy, Names, begin_copies, copied_calls, with_computations
from hlo_cli.transform.schedule.constraints import Effects, effects_of, stable_order
from hlo_cli.transform.sugar import desugar

# --- readers before updates ---
# Moves in-place updates after other reads of the overwritten values, where dependencies permit.
#
# Mirrors the edges that `HloScheduleGraph` of xla/service/latency_hiding_scheduler.cc has for in-place updates.


def _with_readers_first(facts: OrderIndependentFacts, walk: Walk) -> Module | None:
    """Module with readers before in-place updates of what they read; None if no order changes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> from hlo_cli.analysis.memory.buffers import overwritten_values
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] negate(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = (f32[9], f32[9]) tuple(n, d) }'''
    >>> facts = order_independent_facts(parse_module(text))
    >>> [i.name for i in _with_readers_first(facts, overwritten_values(facts)).entry.instructions]
    ['a', 'i', 'b', 'u', 'n', 'd', 'r']
    """
    late = dict.fromkeys(
        one.computation
        for each in walk.overwritten
        # Paths of calls, outermost first: where both are in one computation, its order decides.
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
        computations.append(copy.finish())
    return with_computations(module, computations, copies)


def _order(computation: Computation, accesses: Sequence[Access], effects: Effects, text: str) -> list[int] | None:
    """New order closest to that of the text; None if nothing can change."""
    precedence = _Precedence(computation, text)
    precedence.order_effects(effects)
    late: list[tuple[int, int]] = []
    for found in _by_buffer(computation, accesses).values():
        late += precedence.order_buffer(found)
    moved = [pair for pair in dict.fromkeys(late) if precedence.add_edge(*pair)]
    # Operands and control predecessors stay first, as HloSchedule::Verify demands.
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
            # Effects on one thing must not change places: what the host sees is their order.
            for effect in effects.get(instruction, ()):
                if effect in last:
                    self.before[index].add(last[effect])
                last[effect] = index

    def order_buffer(self, accesses: Sequence[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
        """Keeps the order of writes, and of reads before the next write; yields pairs of a late reader and its
        writer.
        """
        writes = [(index, value) for index, value, is_write in accesses if is_write]
        # Writes of one buffer keep their order.
        for (one, _), (other, _) in pairwise(writes):
            if one < other:
                self.before[other].add(one)
        last = {value: place for place, (_, value) in enumerate(writes)}
        for index, value, is_write in accesses:
            if is_write:
                continue
            following = writes[last.get(value, -1) + 1 :]
            # The next write after the reader's value is the one that would destroy it.
            writer = next((at for at, _ in following if at != index), None)
            if writer is not None and index < writer:
                self.before[writer].add(index)
            elif writer is not None:
                yield index, writer

    def add_edge(self, reader: int, writer: int) -> bool:
        """Makes a writer depend on a reader, unless the reader depends on the writer; whether it does now."""
        visited, waiting = {reader}, [reader]
        while waiting:
            for index in self.before[waiting.pop()]:
                # A cycle: then only a copy helps.
                if index == writer:
                    return False
                if index not in visited:
                    visited.add(index)
                    waiting.append(index)
        self.before[writer].add(reader)
        return True


# --- copies for later readers ---
# Inserts copies of values before they are overwritten, for later readers.
#
# Mirrors `AddCopiesForAliasedInputOutputs` and `AddCopiesForWhile` of xla/service/copy_insertion.cc: a tuple element is
# extracted, copied, and put into a new tuple with the other elements.


@dataclass(frozen=True, slots=True)
class Fix:
    """Copy of a value for a reader, or for the result of a computation, made right before the instruction `before`.

    `places` restricts the copy to these positions; operands with `spared_operands` numbers are not replaced.
    """

    computation: Computation
    reader: Instruction | None
    value: int
    before: Instruction | None
    places: frozenset[int] = frozenset()
    spared_operands: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Source:
    """Value to copy: an element of an instruction's result, before the instruction with index `before`.

    Readers share a copy unless it is for a single position, `for_place`.
    """

    origin: Instruction
    index: ShapeIndex
    before: int
    for_place: int | None


@dataclass(slots=True)
class _Plan:
    """Changes of one computation: the copies by position, and the operands and results with the parts to replace."""

    users: Users
    sources: dict[_Source, Instruction | None] = field(default_factory=dict)
    operands: dict[tuple[int, int], dict[ShapeIndex, _Source]] = field(default_factory=dict)
    root: dict[ShapeIndex, _Source] = field(default_factory=dict)


def _with_copies(module: Module, facts: OrderIndependentFacts, fixes: Iterable[Fix]) -> tuple[Module, list[str]]:
    """Module with copies inserted, and their names."""
    plans: dict[Computation, _Plan] = {}
    for fix in fixes:
        plan = plans.setdefault(fix.computation, _Plan(users_of(fix.computation)))
        _add(facts, plan, fix)
    copies = begin_copies(module)
    names = Names(instruction.name for instruction in module.instructions)
    added: list[str] = []
    computations: list[Computation] = []
    for old, copy in copies.items():
        if old in plans:
            computations.append(_Rewriter(plans[old], copy, names, added).rewrite(copies))
            continue
        for instruction in old.instructions:
            copy.copy(instruction, copy.operands(instruction), copied_calls(instruction, copies))
        computations.append(copy.finish())
    return with_computations(module, computations, copies), added


def _add(facts: OrderIndependentFacts, plan: _Plan, fix: Fix) -> None:
    """Plans one copy for every position where the reader uses the value."""
    places, value_at = facts.places, facts.dataflow.value
    root = fix.computation.root
    if fix.reader is None:
        assert root is not None
        first = places.first_of(root)
        for place, index in enumerate(places.parts(root).indices, first):
            if value_at[place] == fix.value and (not fix.places or place in fix.places):
                # With places, each gets a copy of its own, as elements must not share a buffer; else one for all.
                own = place if fix.places else None
                if root.opcode == opcodes.TUPLE and index:
                    _plan(plan, root, index[0], index[1:], fix.before, own)
                else:
                    before = len(fix.computation.instructions) if fix.before is None else fix.before.index
                    plan.root[index] = _planned(plan, root, index, before, fix.before, own)
        return
    for number, operand in enumerate(fix.reader.operands):
        if number in fix.spared_operands:
            continue
        first = places.operand_place(fix.reader, number)
        for place, index in enumerate(places.parts(operand).indices, first):
            if value_at[place] == fix.value and (not fix.places or place in fix.places):
                own = place if fix.places else None
                _plan(plan, fix.reader, number, index, fix.before, own)


def _plan(
    plan: _Plan, reader: Instruction, number: int, index: ShapeIndex, before: Instruction | None, for_place: int | None
) -> None:
    operand = reader.operands[number]
    # A tuple that only this reader uses: the copy may go into its element, and the tuple stays.
    while (
        index
        and operand.opcode == opcodes.TUPLE
        and plan.users[operand] == (reader,)
        and index[0] < len(operand.operands)
    ):
        reader, number, index = operand, index[0], index[1:]
        operand = reader.operands[number]
    place = min(reader.index, reader.index if before is None else before.index)
    plan.operands.setdefault((reader.index, number), {})[index] = _planned(
        plan, operand, index, place, before, for_place
    )


def _planned(
    plan: _Plan, origin: Instruction, index: ShapeIndex, before: int, cause: Instruction | None, for_place: int | None
) -> _Source:
    """Source of a copy; a value that is only forwarded later is copied from its definition."""
    # What is only forwarded later (tuple, element, bitcast) has no bytes of its own: the copy goes to the definition.
    while origin.index >= before:
        if origin.opcode == opcodes.TUPLE and index:
            origin, index = origin.operands[index[0]], index[1:]
        elif origin.opcode == opcodes.GET_TUPLE_ELEMENT:
            origin, index = origin.operands[0], (origin.integer("index") or 0, *index)
        elif origin.opcode in FORWARDING:
            origin = origin.operands[0]
        else:
            # Its definition comes after the write: nothing is there to copy.
            raise HloError(f"{origin.name} is overwritten in place before its last use")
    source = _Source(origin, index, before, for_place)
    plan.sources.setdefault(source, cause)
    return source


class _Rewriter:
    """Writes one computation with its planned copies."""

    def __init__(self, plan: _Plan, copy: ComputationCopy, names: Names, added: list[str]) -> None:
        self._plan, self._copy, self._names, self._added = plan, copy, names, added
        self._made: dict[_Source, Instruction] = {}

    def rewrite(self, copies: dict[Computation, ComputationCopy]) -> Computation:
        """Copies all instructions and returns the new computation."""
        plan, copy, old = self._plan, self._copy, self._copy.original
        sources_before: dict[int, list[_Source]] = {}
        for source in plan.sources:
            sources_before.setdefault(source.before, []).append(source)
        for instruction in old.instructions:
            self._write_copies(sources_before.get(instruction.index, ()), instruction)
            operands = copy.operands(instruction)
            for number, operand in enumerate(instruction.operands):
                if (parts := plan.operands.get((instruction.index, number))) is not None:
                    operands[number] = self._with_parts(operand, (), operands[number][0], parts, instruction), ()
            copy.copy(instruction, operands, copied_calls(instruction, copies))
        root = old.root
        if root is None or not plan.root:
            return copy.finish()
        self._write_copies(sources_before.get(len(old.instructions), ()), root)
        return copy.finish(self._with_parts(root, (), copy.copies[root], plan.root, root))

    def _write_copies(self, sources: Sequence[_Source], place: Instruction) -> None:
        for source in sources:
            value = self._copy.copies[source.origin]
            for number in source.index:
                value = self._element(value, number, place)
            cause = self._plan.sources[source] or place
            # The copy is blamed on the reader, whose metadata it gets.
            metadata = tuple(attribute for attribute in cause.attributes if attribute.name == "metadata")
            name = self._names.new("copy")
            text = InstructionText(metadata, span=cause.span)
            self._made[source] = self._copy.add(name, value.shape, "copy", [(value, ())], source=cause, text=text)
            self._added.append(name)

    def _with_parts(
        self,
        old: Instruction,
        index: ShapeIndex,
        value: Instruction | None,
        parts: dict[ShapeIndex, _Source],
        place: Instruction,
    ) -> Instruction:
        """Value with some parts replaced by copies."""
        shape = subshape(old.shape, index)
        if index in parts:
            return self._like(self._made[parts[index]], shape, place)
        assert value is not None
        if not any(each[: len(index)] == index for each in parts) or not isinstance(shape, TupleShape):
            return value
        elements = []
        for number in range(len(shape.elements)):
            part = (*index, number)
            is_copy = part in parts
            element = None if is_copy else self._element(value, number, place)
            elements.append(self._with_parts(old, part, element, parts, place))
        text = InstructionText((), span=place.span)
        operands = [(element, ()) for element in elements]
        return self._copy.add(self._names.new(opcodes.TUPLE), shape, opcodes.TUPLE, operands, source=place, text=text)

    def _like(self, value: Instruction, shape: Shape | None, place: Instruction) -> Instruction:
        """Copy with the required shape: a bitcast follows if the source was before a bitcast."""
        # Bitcasts may be copied through, since a copy keeps the bytes.
        if shape is None or value.shape == shape:
            return value
        text = InstructionText((), span=place.span)
        return self._copy.add(self._names.new("bitcast"), shape, "bitcast", [(value, ())], source=place, text=text)

    def _element(self, value: Instruction, number: int, place: Instruction) -> Instruction:
        shape = subshape(value.shape, (number,))
        if shape is None:
            raise HloError(f"{value.name} has no element {number}")
        text = InstructionText((Attribute("index", str(number)),), span=place.span)
        name = self._names.new(opcodes.GET_TUPLE_ELEMENT)
        return self._copy.add(name, shape, opcodes.GET_TUPLE_ELEMENT, [(value, ())], source=place, text=text)


# --- hazards of a rewritten module ---
# Keeps in-place updates of a rewritten module after all other reads of the overwritten values.
#
# Mirrors `CopyInsertion` of xla/service/copy_insertion.cc. XLA runs it before scheduling only, so a rewritten scheduled
# module depends on this.


# Each round fixes all hazards that it finds, so that few are needed; chosen, not measured.
_MAX_ROUNDS: Final = 16
"""Maximum number of rounds of copy insertion; a copy can make another one necessary."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RewrittenModule:
    """Module without reads of overwritten values, and the names of the copies inserted for that."""

    module: Module
    copies: tuple[str, ...] = ()


def copies_note(copies: Sequence[str]) -> tuple[str, ...]:
    """Note on inserted copies; empty if there are none.

    >>> copies_note(("copy.1",))
    ('1 copy added (copy.1), because an in-place update would overwrite an operand before its last read',)
    >>> [copies_note("abcdefg"[:count])[0].partition("), because")[0] for count in (4, 5)]
    ['4 copies added (a, b, c, d', '5 copies added (a, b, c, d, …']
    """
    if not copies:
        return ()
    count = "1 copy" if len(copies) == 1 else f"{len(copies):,} copies"
    # Four names fit a line.
    names = ", ".join(copies[:4]) + (", …" if len(copies) > 4 else "")
    return (f"{count} added ({names}), because an in-place update would overwrite an operand before its last read",)


@no_garbage_collection()
def fix_in_place_hazards(module: Module, original: Module) -> RewrittenModule:
    """Moves in-place updates of a rewritten module after other reads of the values, or inserts copies.

    A copy is inserted if an update cannot move, and for arguments that are not donated and constants. Hazards that the
    `original` module already has stay. A module that is not scheduled is returned unchanged, as XLA will insert copies.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] negate(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = (f32[9], f32[9]) tuple(n, d) }'''
    >>> module = parse_module(text)
    >>> kept = fix_in_place_hazards(module, parse_module("ENTRY e { ROOT a = f32[9] parameter(0) }"))
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'd', 'r'], ())
    >>> kept = fix_in_place_hazards(parse_module(text.replace("tuple(n, d)", "tuple(b, d)")), original=kept.module)
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'copy', 'd', 'r'], ('copy',))
    """
    if not module.is_scheduled or module is original:
        return RewrittenModule(module)
    facts = order_independent_facts(module)
    walk = overwritten_values(facts)
    if not walk.count:  # only faster
        return RewrittenModule(module)
    # Hazards that the input has are its own: a rewrite must not add any.
    known_hazards = _known_hazards(original)
    copies: list[str] = []
    for _ in range(_MAX_ROUNDS):
        new = _new_hazards(facts, walk, known_hazards)
        if not new.count:
            return RewrittenModule(module, tuple(copies))
        # Copies need elements as instructions, not as indices of operands.
        if any(computation.operand_indices for computation in module.computations):
            module = desugar(module)
            facts = order_independent_facts(module)
            walk = overwritten_values(facts)
            continue
        moved = _with_readers_first(facts, new)
        if moved is not None:
            moved_facts = order_independent_facts(moved)
            moved_walk = overwritten_values(moved_facts)
            # Only orders with fewer hazards are taken, so that rounds end.
            if _new_hazards(moved_facts, moved_walk, known_hazards).count < new.count:
                module, facts, walk = moved, moved_facts, moved_walk
                continue
        module, names = _with_copies(module, facts, list(_fixes(facts, new)))
        copies += names
        facts = order_independent_facts(module)
        walk = overwritten_values(facts)
    late = next(iter(walk.overwritten), None)
    where = late.reader.path[-1].name if late is not None and late.reader.path else module.entry.name
    raise HloError(f"{where} would read a value that is overwritten in place", hint="use a stage before scheduling")


def _known_hazards(original: Module) -> frozenset[Key]:
    """Hazards of the given module."""
    if not original.is_scheduled:
        return frozenset()
    facts = order_independent_facts(original)
    walk = overwritten_values(facts)
    return frozenset(
        (
            *(_key_of(facts, each) for each in walk.overwritten),
            *(_key_of_value(facts, value) for value in walk.fixed),
            *(("together", loop.name, str(elements)) for loop, elements in walk.together),
        )
    )


def _new_hazards(facts: OrderIndependentFacts, walk: Walk, known_hazards: frozenset[Key]) -> Walk:
    """Hazards that the given module does not have."""
    if not known_hazards:  # only faster
        return walk
    return Walk(
        walk.accesses,
        tuple(each for each in walk.overwritten if _key_of(facts, each) not in known_hazards),
        frozenset(value for value in walk.fixed if _key_of_value(facts, value) not in known_hazards),
        tuple(each for each in walk.together if ("together", each[0].name, str(each[1])) not in known_hazards),
    )


def _key_of(facts: OrderIndependentFacts, hazard: Overwritten) -> Key:
    reader = hazard.reader.end.name if hazard.reader.end is not None else hazard.reader.path[-1].name
    return "read", reader, _key_of_value(facts, hazard.reader.value)[1]


def _key_of_value(facts: OrderIndependentFacts, value: int) -> Key:
    places = facts.places
    return "fixed", f"{places.instructions[places.owner[value]].name} {places.index(value)}", ""


def _fixes(facts: OrderIndependentFacts, walk: Walk) -> Iterable[Fix]:
    """Yields the copies that fix all hazards."""
    for loop, elements in walk.together:
        yield from _separate_elements(facts, loop.called_computations[0], elements)
        given = facts.places.operand_place(loop, 0)
        seen: set[int] = set()
        for element in elements:
            value = facts.dataflow.value[given + element]
            if value in seen:
                yield Fix(loop.computation, loop, value, loop, frozenset((given + element,)))
            seen.add(value)
    # Elements that share a buffer make other hazards, so they are separated first.
    if walk.together:
        return
    for value in sorted(walk.fixed):
        yield from _copy_bindings(facts, value)
    for each in walk.overwritten:
        # What is copied as fixed needs no copy for its readers.
        if each.reader.value not in walk.fixed and each.writer.value not in walk.fixed:
            yield _copy_for_reader(facts, each)


def _separate_elements(facts: OrderIndependentFacts, body: Computation, elements: Iterable[int]) -> Iterable[Fix]:
    """Yields copies for elements that a loop body returns and that must not share a buffer."""
    assert body.root is not None
    first = facts.places.first_of(body.root)
    for element in elements:
        yield Fix(body, None, facts.dataflow.value[first + element], None, frozenset((first + element,)))


def _copy_bindings(facts: OrderIndependentFacts, value: int) -> Iterable[Fix]:
    """Yields copies wherever an argument or constant is bound to a buffer that is written."""
    places, value_at = facts.places, facts.dataflow.value
    roots = {computation.root: computation for computation in places.base}
    for pair in aliased_places(facts.module, facts.dataflow, facts.in_place):
        for place, bound in (pair, pair[::-1]):
            # Pairs of places with one buffer: a copy is where a fixed value would come into a buffer that is written.
            if value_at[place] != value or value_at[bound] == value:
                continue
            holder, user = places.instructions[places.owner[place]], places.instructions[places.owner[bound]]
            computation = roots.get(holder)
            if computation is not None and (user.computation is not computation or user.opcode == opcodes.PARAMETER):
                yield Fix(computation, None, value, None, frozenset((place,)))
            elif holder in user.operands:
                yield Fix(user.computation, user, value, user, frozenset((place,)))


def _copy_for_reader(facts: OrderIndependentFacts, hazard: Overwritten) -> Fix:
    """Copy for the later reader, made before the value is overwritten."""
    reader, writer = hazard.reader, hazard.writer
    if reader.path == writer.path and reader.end is None:
        return _copy_own_operands(facts, reader)
    # Where the paths part, reader and writer are in one computation and can be ordered.
    depth = next(
        (n for n, (one, other) in enumerate(zip(reader.path, writer.path, strict=False)) if one is not other),
        min(len(reader.path), len(writer.path)),
    )
    if depth < len(reader.path) and depth < len(writer.path):
        instruction, before = reader.path[depth], writer.path[depth]
        return Fix(instruction.computation, instruction, reader.value, before)
    if depth == len(reader.path) and reader.end is not None:
        return Fix(reader.end, None, reader.value, writer.path[depth] if depth < len(writer.path) else None)
    caller = reader.path[depth - 1]
    return Fix(caller.computation, caller, reader.value, caller, _carried_positions(facts, caller, reader.value))


def _copy_own_operands(facts: OrderIndependentFacts, reader: Access) -> Fix:
    """Copy for an instruction that overwrites a value it reads, except for its in-place operand."""
    instruction = reader.path[-1]
    numbers = {pair.operand_number for pair in facts.in_place.pairs(instruction)}
    spared = frozenset(
        n for n in numbers if n < len(instruction.operands) and _holds(facts, reader.path[-1], n, reader.value)
    )
    return Fix(instruction.computation, instruction, reader.value, instruction, spared_operands=spared)


def _holds(facts: OrderIndependentFacts, user: Instruction, number: int, value: int) -> bool:
    place = facts.places.operand_place(user, number)
    return facts.dataflow.value[place] == value


def _carried_positions(facts: OrderIndependentFacts, caller: Instruction, value: int) -> frozenset[int]:
    """Positions of a while loop's operand with a value that is loop invariant."""
    places, value_at = facts.places, facts.dataflow.value
    # Only loops carry values; the position must have the same value inside, or it is another one.
    if caller.opcode != opcodes.WHILE:
        return frozenset()
    first_carried, parameter = places.operand_place(caller, 0), caller.called_computations[0].parameters[0]
    first = places.first_of(parameter)
    return frozenset(
        first_carried + n
        for n in range(len(places.parts(parameter)))
        if value_at[first_carried + n] == value and value_at[first + n] == value
    )
