"""Keeps in-place updates of a rewritten module after all other reads of the overwritten values.

Mirrors `CopyInsertion` of xla/service/copy_insertion.cc. XLA runs it before scheduling only, so a rewritten scheduled
module depends on this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.copy_insertion import Fix, with_copies
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.reader_order import with_readers_first

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
    """
    if not copies:
        return ()
    count = "1 copy" if len(copies) == 1 else f"{len(copies):,} copies"
    names = ", ".join(copies[:4]) + (", …" if len(copies) > 4 else "")
    return (f"{count} added ({names}), because an in-place update would overwrite an operand before its last read",)


@no_garbage_collection()
def fix_in_place_hazards(module: Module, given: Module) -> RewrittenModule:
    """Moves in-place updates of a rewritten module after other reads of the values, or inserts copies.

    A copy is inserted if an update cannot move, and for arguments that are not donated and constants. Hazards that the
    `given` module already has stay. A module that is not scheduled is returned unchanged, as XLA will insert copies.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] negate(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = (f32[9], f32[9]) tuple(n, d) }'''
    >>> module = parse_module(text)
    >>> kept = fix_in_place_hazards(module, parse_module("ENTRY e { ROOT a = f32[9] parameter(0) }"))
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'd', 'r'], ())
    >>> kept = fix_in_place_hazards(parse_module(text.replace("tuple(n, d)", "tuple(b, d)")), given=kept.module)
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'copy', 'd', 'r'], ('copy',))
    """
    if not module.is_scheduled or module is given:
        return RewrittenModule(module)
    facts = order_independent_facts(module)
    walk = overwritten_values(facts)
    if not walk.count:
        return RewrittenModule(module)
    known = _known_hazards(given)
    copies: list[str] = []
    for _ in range(_MAX_ROUNDS):
        new = _new_hazards(facts, walk, known)
        if not new.count:
            return RewrittenModule(module, tuple(copies))
        if any(computation.operand_indices for computation in module.computations):
            module = desugar(module)
            facts = order_independent_facts(module)
            walk = overwritten_values(facts)
            continue
        moved = with_readers_first(facts, new)
        if moved is not None:
            moved_facts = order_independent_facts(moved)
            moved_walk = overwritten_values(moved_facts)
            if _new_hazards(moved_facts, moved_walk, known).count < new.count:
                module, facts, walk = moved, moved_facts, moved_walk
                continue
        module, names = with_copies(module, facts, list(_fixes(facts, new)))
        copies += names
        facts = order_independent_facts(module)
        walk = overwritten_values(facts)
    late = next(iter(walk.overwritten), None)
    where = late.reader.path[-1].name if late is not None and late.reader.path else module.entry.name
    raise HloError(f"{where} would read a value that is overwritten in place", hint="use a stage before scheduling")


def _known_hazards(given: Module) -> frozenset[Key]:
    """Hazards of the given module."""
    if not given.is_scheduled:
        return frozenset()
    facts = order_independent_facts(given)
    walk = overwritten_values(facts)
    return frozenset(
        (
            *(_key_of(facts, each) for each in walk.overwritten),
            *(_key_of_value(facts, value) for value in walk.fixed),
            *(("together", loop.name, str(elements)) for loop, elements in walk.together),
        )
    )


def _new_hazards(facts: OrderIndependentFacts, walk: Walk, known: frozenset[Key]) -> Walk:
    """Hazards that the given module does not have."""
    if not known:
        return walk
    return Walk(
        walk.accesses,
        tuple(each for each in walk.overwritten if _key_of(facts, each) not in known),
        frozenset(value for value in walk.fixed if _key_of_value(facts, value) not in known),
        tuple(each for each in walk.together if ("together", each[0].name, str(each[1])) not in known),
    )


def _key_of(facts: OrderIndependentFacts, found: Overwritten) -> Key:
    reader = found.reader.end.name if found.reader.end is not None else found.reader.path[-1].name
    return "read", reader, _key_of_value(facts, found.reader.value)[1]


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
    if walk.together:
        return
    for value in sorted(walk.fixed):
        yield from _copy_bindings(facts, value)
    for each in walk.overwritten:
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
    places, at = facts.places, facts.dataflow.value
    roots = {computation.root: computation for computation in places.base}
    for pair in aliased_places(facts.module, facts.dataflow, facts.in_place):
        for place, other in (pair, pair[::-1]):
            if at[place] != value or at[other] == value:
                continue
            holder, user = places.instructions[places.owner[place]], places.instructions[places.owner[other]]
            computation = roots.get(holder)
            if computation is not None and (user.computation is not computation or user.opcode == opcodes.PARAMETER):
                yield Fix(computation, None, value, None, frozenset((place,)))
            elif holder in user.operands:
                yield Fix(user.computation, user, value, user, frozenset((place,)))


def _copy_for_reader(facts: OrderIndependentFacts, found: Overwritten) -> Fix:
    """Copy for the later reader, made before the value is overwritten."""
    reader, writer = found.reader, found.writer
    if reader.path == writer.path and reader.end is None:
        return _copy_own_operands(facts, reader)
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
    places, at = facts.places, facts.dataflow.value
    if caller.opcode != opcodes.WHILE:
        return frozenset()
    given, parameter = places.operand_place(caller, 0), caller.called_computations[0].parameters[0]
    first = places.first_of(parameter)
    return frozenset(
        given + n for n in range(len(places.parts(parameter))) if at[given + n] == value and at[first + n] == value
    )
