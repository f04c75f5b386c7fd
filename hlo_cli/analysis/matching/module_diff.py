"""What differs between two modules: instructions added, removed, changed, moved; headers; bytes of each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.dataflow.dependencies import values_made_by
from hlo_cli.analysis.dataflow.executions import sequential_executions
from hlo_cli.analysis.matching.changes import PLACE_KINDS, Change, header_changes, is_inlined_parameter
from hlo_cli.analysis.matching.graph import Node
from hlo_cli.analysis.matching.local_search import IncrementalDiffCost, improve_matching
from hlo_cli.analysis.matching.match_modules import Matching, match
from hlo_cli.analysis.matching.pairs import ElementSources, is_passed_on
from hlo_cli.dataclass import brief_name, dataclass
from hlo_cli.displayed import Tabular, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, check_module, of_module
from hlo_cli.ir.operations import ARGUMENT_OPCODES, DONES
from hlo_cli.ir.shape import Shape, TupleShape, subshape

# --- instructions that only carry values ---
# Tuples, their elements, loops, calls, parameters, and ends of async operations.
#
# A carrier has the shape of what it carries. If an element of a loop becomes bf16, the change is that of the
# instruction that makes the element; the loop, its parameters, and its tuples follow.


_SHAPE_KINDS: Final = frozenset(("shape", "layout", "tiling", "memory_space"))
_CARRIED_KINDS: Final = _SHAPE_KINDS | {*PLACE_KINDS, "operands"}
_TUPLES: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE))
# copy-start is (destination, source, context), recv (data, context, token): the value comes first in both.
_FIRST: Final = frozenset((opcodes.COPY_DONE, "recv-done"))
"""Ends of operations whose result is the first element of the start, not the second."""


@dataclass(frozen=True, slots=True)
class Carriers:
    """Finds the changes of carriers that follow from changes of what they carry, given the callers in both modules."""

    one: ElementSources
    two: ElementSources

    def own_changes(self, before: Instruction, after: Instruction, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes of a pair without those that follow from what both instructions carry.

        These are shapes, being fused or not, and elements that only one of two tuples has, if the users of the tuples
        take its elements and are compared themselves.
        """
        if before.opcode != after.opcode or not any(change.kind in _CARRIED_KINDS for change in changes):
            return changes
        # Fused or not: a tuple or parameter makes no value that a fusion would save.
        if is_plumbing(before):
            changes = tuple(change for change in changes if change.kind not in PLACE_KINDS)
        if before.opcode == opcodes.TUPLE and self._are_passed_on(before, after):
            changes = tuple(
                change for change in changes if change.kind != "operands" or (change.before and change.after)
            )
        # Carriers change their shape with what they carry, which is reported where it is made.
        if _carries(before, self.one) and _carries(after, self.two):
            return tuple(change for change in changes if change.kind not in _SHAPE_KINDS)
        return changes

    def _are_passed_on(self, before: Instruction, after: Instruction) -> bool:
        one, two = self.one.graph, self.two.graph
        return is_passed_on(one, one.node(before)) and is_passed_on(two, two.node(after))


def is_plumbing(instruction: Instruction) -> bool:
    """Whether an instruction makes no value of its own: a tuple, one of its elements, or a parameter of a callee.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = s8[] parameter(0)  ROOT t = (s8[]) tuple(p) }")
    >>> [is_plumbing(instruction) for instruction in module.instructions]
    [False, True]
    """
    if instruction.opcode == opcodes.PARAMETER:
        return not instruction.computation.is_entry
    return instruction.opcode in _TUPLES


def _carries(instruction: Instruction, sources: ElementSources) -> bool:
    """Whether an instruction has the shape of the values that it carries."""
    carried = list(_carried_shapes(instruction, sources))
    return bool(carried) and all(shape is not None and shape == instruction.shape for shape in carried)


def _carried_shapes(instruction: Instruction, sources: ElementSources) -> Iterator[Shape | None]:
    """Shapes that the instruction has if it is a carrier; none for other instructions."""
    operands, called = instruction.operands, instruction.called_computations
    match instruction.opcode:
        case opcodes.TUPLE:
            yield TupleShape(_shapes(operands))
        case opcodes.GET_TUPLE_ELEMENT if operands:
            index = instruction.integer("index")
            yield subshape(operands[0].shape, (index,)) if index is not None else None
        case opcodes.PARAMETER:
            argument = sources.argument(instruction)
            if argument is not None:
                yield argument.shape
        case opcodes.WHILE | opcodes.OPT_BARRIER | opcodes.ASYNC_UPDATE if operands:
            yield operands[0].shape
        case opcodes.CALL | opcodes.CONDITIONAL if called:
            yield from (computation.root.shape if computation.root is not None else None for computation in called)
        case opcodes.ASYNC_START if called and called[0].root is not None:
            yield _started(instruction, called[0].root.shape)
        case opcode if opcode in DONES and len(operands) == 1:
            yield _ended(opcode, operands[0].shape)


def _started(instruction: Instruction, result: Shape) -> Shape | None:
    """Shape of an async-start: its operands, its result, and what it had before in its context."""
    shape = instruction.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        return None
    return TupleShape((TupleShape(_shapes(instruction.operands)), result, *shape.elements[2:]))


def _ended(opcode: str, start: Shape) -> Shape | None:
    """Shape of the end of an async operation whose start has this shape."""
    # all-reduce-start has the shape of its result, xla/service/shape_inference.cc.
    if not isinstance(start, TupleShape) or opcode == "all-reduce-done":
        return start
    return subshape(start, (0 if opcode in _FIRST else 1,))


def _shapes(instructions: Sequence[Instruction]) -> tuple[Shape, ...]:
    return tuple([instruction.shape for instruction in instructions])


# --- the differences ---
# Differences of two modules: instructions added, removed, changed, and moved, and header attributes.


@dataclass(frozen=True, slots=True)
class Changed(WithItems):
    """Instruction of both modules with its changes."""

    before: Instruction
    after: Instruction
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """Instruction whose position in the schedule changed relative to the others of its computation."""

    before: Instruction
    after: Instruction


@dataclass(frozen=True, slots=True)
class ModuleDiff(WithItems, Tabular):
    """Differences of two modules; `matched` counts the instructions of both, changed or not.

    `pairs` and `computations` map old to new. `moved` is empty unless both modules are scheduled, and does not count as
    a difference. What a truncated module lacks is neither added nor removed.
    """

    before: Module
    after: Module
    matched: int
    changed: tuple[Changed, ...]
    added: tuple[Instruction, ...]
    removed: tuple[Instruction, ...]
    moved: tuple[Moved, ...]
    header: tuple[Change, ...]
    computations: Mapping[Computation, Computation]
    pairs: Mapping[Instruction, Instruction]

    def __repr__(self) -> str:
        counts = (
            f"{self.matched} matched, {len(self.changed)} changed, {len(self.added)} added, {len(self.removed)} removed"
        )
        return f"<ModuleDiff {brief_name(self.before.name)} → {brief_name(self.after.name)}: {counts}>"

    @property
    def is_empty(self) -> bool:
        """Whether the modules are equal apart from names and order."""
        return not (self.changed or self.added or self.removed or self.header)

    @property
    def is_same_program(self) -> bool:
        """Whether nothing but metadata differs: names of operations, and lines of source.

        >>> from hlo_cli import parse_module
        >>> text = 'ENTRY e { ROOT p = s8[2] parameter(0), metadata={op_name="a"} }'
        >>> diff(parse_module(text), parse_module(text.replace('"a"', '"b"'))).is_same_program
        True
        """
        if self.added or self.removed or self.header:
            return False
        return all(change.kind == "metadata" for each in self.changed for change in each.changes)

    def without(self, ignored: Iterable[str]) -> ModuleDiff:
        """Copy without the changes whose kind or name (of an attribute, key, or field) is in `ignored`."""
        words = frozenset(ignored)

        def kept(changes: Iterable[Change]) -> tuple[Change, ...]:
            return tuple(c for c in changes if c.kind not in words and c.name not in words)

        changed = (replace(each, changes=kept(each.changes)) for each in self.changed)
        return replace(
            self,
            changed=tuple(each for each in changed if each.changes),
            moved=() if "schedule" in words else self.moved,
            header=kept(self.header),
        )


@of_module
@no_garbage_collection()
def diff(before: Module, after: Module) -> ModuleDiff:
    """Compares two modules, ignoring names.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2,4]{1,0} parameter(0)  ROOT n = f32[2,4]{1,0} negate(p) }"
    >>> found = diff(parse_module(text), parse_module(text.replace("n = f32[2,4]{1,0}", "x = f32[2,4]{0,1}")))
    >>> found.matched, [(each.after, *map(str, each.changes)) for each in found.changed]
    (2, [(<negate x>, 'layout {1,0} → {0,1}')])
    """
    check_module(after, "diff")
    matching = match(before, after)
    pairs = matching.pairs
    pairs.elements.forget()
    cost = IncrementalDiffCost(pairs, matching.computations, matching.pair_nodes)
    improve_matching(pairs, cost)
    cost.refresh_carriers()
    one, two = pairs.one.nodes, pairs.two.nodes
    changes_of = dict(cost.changes)
    for a, change in (*_reordered_arguments(matching), *_other_roots(matching), *_other_numbers(matching)):
        changes_of[a] = (*changes_of.get(a, ()), change)
    carriers = Carriers(*pairs.elements.sources)
    every = sorted((pairs.after[a], a, changes) for a, changes in changes_of.items())
    own = [(b, a, carriers.own_changes(one[a], two[b], changes)) for b, a, changes in every]
    added = [two[b] for b, a in enumerate(pairs.before) if a < 0 and not is_inlined_parameter(pairs.two, b)]
    removed = [one[a] for a, b in enumerate(pairs.after) if b < 0 and not is_inlined_parameter(pairs.one, a)]
    # If only plumbing differs, it is the difference; else it follows from others.
    if any(changes for _, _, changes in own) or not all(map(is_plumbing, (*added, *removed))):
        added, removed = ([each for each in side if not is_plumbing(each)] for side in (added, removed))
    else:
        own = every
    # The last line of a cut text may be half of an instruction.
    last = {_last_of(module) for module in (before, after) if module.is_truncated}
    # What a truncated text lacks may have been in it.
    added = [each for each in added if not before.is_truncated and each not in last]
    removed = [each for each in removed if not after.is_truncated and each not in last]
    all_changed = (Changed(one[a], two[b], changes) for b, a, changes in own if changes)
    changed = tuple(each for each in all_changed if not last or last.isdisjoint((each.before, each.after)))
    return ModuleDiff(
        before,
        after,
        len(pairs.found),
        changed,
        tuple(added),
        tuple(removed),
        tuple(_moved(matching)) if before.is_scheduled and after.is_scheduled else (),
        tuple(header_changes(pairs, is_equal=not (changed or added or removed))),
        matching.computations,
        {one[a]: two[b] for a, b in pairs.found},
    )


def _last_of(module: Module) -> Instruction | None:
    """The last instruction of a text, which may be incomplete if the text is truncated."""
    return next((c.instructions[-1] for c in reversed(module.computations) if c.instructions), None)


def _reordered_arguments(matching: Matching) -> Iterator[tuple[Node, Change]]:
    """Yields a minimal set of entry arguments that explains their new order; an inserted argument changes no other."""
    pairs = matching.pairs
    both: list[tuple[Node, int, int]] = []
    for parameter in pairs.one.module.entry.parameters:
        a = pairs.one.node(parameter)
        other = pairs.two.nodes[pairs.after[a]] if pairs.after[a] >= 0 else parameter
        one, two = parameter.parameter_number, other.parameter_number
        if other is not parameter and other.computation.is_entry and one is not None and two is not None:
            both.append((a, one, two))
    stays = longest_increasing([two for _, _, two in both])
    # With equally many arguments nothing was inserted, so that every other number is a change: of an invalid module.
    is_whole = len(both) == len(pairs.one.module.entry.parameters) == len(pairs.two.module.entry.parameters)
    is_permuted = {one for _, one, _ in both} == {two for _, _, two in both}
    for place, (a, one, two) in enumerate(both):
        # Arguments outside of a longest increasing subsequence moved, the others only shifted.
        if place not in stays or (is_whole and not is_permuted and one != two):
            yield a, Change("attributes", "argument number", str(one), str(two))


def _other_numbers(matching: Matching) -> Iterator[tuple[Node, Change]]:
    """Yields parameters of other computations than the entry whose numbers the other module does not have at all.

    An order of parameters that callers follow is no change; a number that is missing makes a module invalid.
    """
    pairs = matching.pairs
    for old, new in matching.computations.items():
        if old.is_entry or len(old.parameters) != len(new.parameters):
            continue
        numbers = [{each.parameter_number for each in computation.parameters} for computation in (old, new)]
        if numbers[0] == numbers[1]:
            continue
        for parameter in old.parameters:
            a = pairs.one.node(parameter)
            if pairs.after[a] >= 0:
                one, two = parameter.parameter_number, pairs.two.nodes[pairs.after[a]].parameter_number
                if one != two:
                    yield a, Change("attributes", "parameter number", str(one), str(two))


def _other_roots(matching: Matching) -> Iterator[tuple[Node, Change]]:
    """Yields the instruction that became the root of a computation in place of one that both modules have.

    No instruction has a root as its operand, so that nothing else shows what a computation returns.
    """
    pairs = matching.pairs
    for old, new in matching.computations.items():
        if old.root is None or new.root is None:
            continue
        a, b = pairs.one.node(old.root), pairs.two.node(new.root)
        now, was = pairs.after[a], pairs.before[b]
        if now < 0 or was < 0 or now == b:
            continue
        if pairs.two.nodes[now].computation is new and pairs.one.nodes[was].computation is old:
            yield was, Change("operands", "root", old.root.name, new.root.name)


def _moved(matching: Matching) -> Iterator[Moved]:
    """Yields a minimal set of instructions that explains the new order; parameters and constants do not count."""
    pairs = matching.pairs
    for old, new in matching.computations.items():
        # Identical text has the identical order.
        if pairs.are_identical(old, new):
            continue
        first, start = pairs.two.first_nodes[new], pairs.one.first_nodes[old]
        both = []
        for instruction in new.instructions:
            a = pairs.before[first + instruction.index]
            # Parameters and constants have no place in a schedule.
            if a >= 0 and pairs.one.nodes[a].computation is old and instruction.opcode not in ARGUMENT_OPCODES:
                both.append((a - start, instruction))
        positions = [position for position, _ in both]
        if all(x < y for x, y in pairwise(positions)):
            continue
        stays = longest_increasing(positions)
        for place, (position, instruction) in enumerate(both):
            if place not in stays:
                yield Moved(old.instructions[position], instruction)


# --- bytes of a difference ---
# What a difference costs: the bytes that it adds, removes, or writes anew, in all executions of the instruction.
#
# XLA's hlo_diff has no counterpart. The number ranks differences, so that a large array in a loop comes before a
# scalar.


ESTIMATES: Final = frozenset(
    ("estimated_cycles", "fingerprint_before_lhs", "reification_cost", "used_scoped_memory_configs")
)
"""Keys of backend configurations and frontend attributes with what a compiler computed from the program."""


class RowCosts:
    """Costs of the differences of two modules, in bytes per execution of the program.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m  ENTRY e { p = f32[2,4]{1,0} parameter(0)  ROOT n = f32[2,4]{1,0} negate(p) }"
    >>> found = diff(parse_module(text), parse_module(text.replace("n = f32[2,4]{1,0}", "n = f32[2,4]{0,1}")))
    >>> [RowCosts(found).of_changed(each) for each in found.changed]
    [32]
    """

    __slots__ = ("_executions",)

    def __init__(self, comparison: ModuleDiff) -> None:
        self._executions: dict[Computation, int] = {}
        for module in (comparison.before, comparison.after):
            self._executions |= {each: found.count for each, found in sequential_executions(module).items()}

    def is_in_memory(self, instruction: Instruction) -> bool:
        """Whether the values of an instruction are arrays in memory, not of a fusion or of single elements."""
        return instruction.computation in self._executions

    def of(self, instruction: Instruction) -> int:
        """Bytes of the arrays that an added or removed instruction makes, with padding, in all executions.

        0 for instructions without an array of their own in memory, such as bitcasts and fused instructions.
        """
        if not (times := self._executions.get(instruction.computation, 0)):
            return 0
        return times * sum(value.shape.padded_bytes for value in values_made_by(instruction))

    def of_changed(self, changed: Changed) -> int:
        """Difference of the bytes, or all bytes if these are equal, as the array is written in another way.

        0 for changes of metadata and of the compiler's estimates.
        """
        if is_quiet(changed.changes):
            return 0
        before, after = self.of(changed.before), self.of(changed.after)
        # Equal sizes: the array is written in another way, so all of it counts.
        return abs(after - before) or after


def is_quiet(changes: Iterable[Change]) -> bool:
    """Whether changes are of metadata and of numbers that the compiler computed from the program.

    >>> is_quiet([Change("metadata", "op_name", "a", "b"), Change("shape", "", "s8[2]", "s8[3]")])
    False
    """
    return all(change.kind == "metadata" or change.name.rpartition(".")[2] in ESTIMATES for change in changes)
