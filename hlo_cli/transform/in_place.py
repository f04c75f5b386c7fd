"""What a rewrite must keep: nothing is written in place before the last other read of what lies there.

Mirrors `CopyInsertion` of xla/service/copy_insertion.cc, which XLA runs before it schedules a module, and never behind
it: a scheduled module that is rewritten has no other guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.dataflow.alias_sets import aliased_places
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts, order_independent_facts
from hlo_cli.analysis.memory.overwritten import Access, Overwritten, Walk, overwritten_values
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.kept_by_copies import Fix, with_copies
from hlo_cli.transform.kept_by_order import with_readers_first

_ROUNDS: Final = 16
"""So often copies are added: one may need another."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A module in which nothing is read too late, and the names of the copies that this took."""

    module: Module
    copies: tuple[str, ...] = ()


def remarks_on(copies: Sequence[str]) -> tuple[str, ...]:
    """What is to be said of copies that were added, if any were.

    >>> remarks_on(("copy.1",))
    ('1 copy added (copy.1): else an operand would be overwritten in place before its last read',)
    """
    if not copies:
        return ()
    count = "1 copy" if len(copies) == 1 else f"{len(copies):,} copies"
    names = ", ".join(copies[:4]) + (", …" if len(copies) > 4 else "")
    return (f"{count} added ({names}): else an operand would be overwritten in place before its last read",)


@no_garbage_collection()
def in_place_kept(module: Module, given: Module) -> Kept:
    """A rewritten module with writes in place behind all other reads of what they overwrite.

    A write moves behind the reads where it can; else what is read later is copied before. So are arguments that are
    not donated, and constants, where they would be written over. What the given module overwrites in the same way
    stays as it is. A module without a schedule is left alone, as XLA has yet to add its copies.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true  ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)
    ... b = f32[9] negate(a)  u = f32[2] constant({1, 2})  d = f32[9] dynamic-update-slice(b, u, i)
    ... n = f32[9] negate(b)  ROOT r = (f32[9], f32[9]) tuple(n, d) }'''
    >>> module = parse_module(text)
    >>> kept = in_place_kept(module, parse_module("ENTRY e { ROOT a = f32[9] parameter(0) }"))
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'd', 'r'], ())
    >>> kept = in_place_kept(parse_module(text.replace("tuple(n, d)", "tuple(b, d)")), given=kept.module)
    >>> [i.name for i in kept.module.entry.instructions], kept.copies
    (['a', 'i', 'b', 'u', 'n', 'copy', 'd', 'r'], ('copy',))
    """
    if not module.is_scheduled or module is given:
        return Kept(module)
    facts = order_independent_facts(module)
    walk = overwritten_values(facts)
    if not walk.count:
        return Kept(module)
    known = _known(given)
    copies: list[str] = []
    for _ in range(_ROUNDS):
        new = _new(facts, walk, known)
        if not new.count:
            return Kept(module, tuple(copies))
        if any(computation.operand_indices for computation in module.computations):
            module = desugar(module)
            facts = order_independent_facts(module)
            walk = overwritten_values(facts)
            continue
        moved = with_readers_first(facts, new)
        if moved is not None:
            moved_facts = order_independent_facts(moved)
            moved_walk = overwritten_values(moved_facts)
            if _new(moved_facts, moved_walk, known).count < new.count:
                module, facts, walk = moved, moved_facts, moved_walk
                continue
        module, names = with_copies(module, facts, list(_fixes(facts, new)))
        copies += names
        facts = order_independent_facts(module)
        walk = overwritten_values(facts)
    late = next(iter(walk.overwritten), None)
    where = late.reader.path[-1].name if late is not None and late.reader.path else module.entry.name
    raise HloError(f"{where} would read what is overwritten in place", hint="rewrite the module before it is scheduled")


def _known(given: Module) -> frozenset[Key]:
    """What the module overwrites too early as it was given."""
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


def _new(facts: OrderIndependentFacts, walk: Walk, known: frozenset[Key]) -> Walk:
    """What is wrong now and was not."""
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
    """Which operands are to be copies, for all that is wrong."""
    for loop, elements in walk.together:
        yield from _apart(facts, loop.called_computations[0], elements)
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
        yield from _cut(facts, value)
    for each in walk.overwritten:
        if each.reader.value not in walk.fixed and each.writer.value not in walk.fixed:
            yield _copied(facts, each)


def _apart(facts: OrderIndependentFacts, body: Computation, elements: Iterable[int]) -> Iterable[Fix]:
    """Elements that a loop carries come back as copies."""
    assert body.root is not None
    first = facts.places.first_of(body.root)
    for element in elements:
        yield Fix(body, None, facts.dataflow.value[first + element], None, frozenset((first + element,)))


def _cut(facts: OrderIndependentFacts, value: int) -> Iterable[Fix]:
    """All that binds an argument or constant to what is written becomes a copy of it."""
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


def _copied(facts: OrderIndependentFacts, found: Overwritten) -> Fix:
    """The later read is of a copy, which is made before the value is overwritten."""
    reader, writer = found.reader, found.writer
    if reader.path == writer.path and reader.end is None:
        return _of_itself(facts, reader)
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
    return Fix(caller.computation, caller, reader.value, caller, _passed_in(facts, caller, reader.value))


def _of_itself(facts: OrderIndependentFacts, reader: Access) -> Fix:
    """An instruction that writes over what it reads takes a copy, but for the operand that it works on in place."""
    instruction = reader.path[-1]
    numbers = {pair.operand_number for pair in facts.in_place.pairs(instruction)}
    spared = frozenset(
        n for n in numbers if n < len(instruction.operands) and _holds(facts, reader.path[-1], n, reader.value)
    )
    return Fix(instruction.computation, instruction, reader.value, instruction, spared_operands=spared)


def _holds(facts: OrderIndependentFacts, user: Instruction, number: int, value: int) -> bool:
    place = facts.places.operand_place(user, number)
    return facts.dataflow.value[place] == value


def _passed_in(facts: OrderIndependentFacts, caller: Instruction, value: int) -> frozenset[int]:
    """The places of what goes into a loop that hold a value which stays the same inside."""
    places, at = facts.places, facts.dataflow.value
    if caller.opcode != opcodes.WHILE:
        return frozenset()
    given, parameter = places.operand_place(caller, 0), caller.called_computations[0].parameters[0]
    first = places.first_of(parameter)
    return frozenset(
        given + n for n in range(len(places.parts(parameter))) if at[given + n] == value and at[first + n] == value
    )
