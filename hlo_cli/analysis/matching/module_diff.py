"""Differences of two modules: instructions added, removed, changed, and moved, and header attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.matching.carriers import Carriers, is_plumbing
from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.diff_cost import IncrementalDiffCost
from hlo_cli.analysis.matching.graph import Node
from hlo_cli.analysis.matching.header_changes import header_changes
from hlo_cli.analysis.matching.instruction_diff import is_inlined_parameter
from hlo_cli.analysis.matching.local_search import improve_matching
from hlo_cli.analysis.matching.matching import Matching, match
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES


@dataclass(frozen=True, slots=True)
class Changed:
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
class ModuleDiff(Tabular):
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


@no_garbage_collection()
def diff(before: Module, after: Module) -> ModuleDiff:
    """Compares two modules, ignoring names.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2,4]{1,0} parameter(0)  ROOT n = f32[2,4]{1,0} negate(p) }"
    >>> found = diff(parse_module(text), parse_module(text.replace("n = f32[2,4]{1,0}", "x = f32[2,4]{0,1}")))
    >>> found.matched, [(each.after, *map(str, each.changes)) for each in found.changed]
    (2, [(<negate x>, 'layout {1,0} → {0,1}')])
    """
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
    if any(changes for _, _, changes in own) or not all(map(is_plumbing, (*added, *removed))):
        added, removed = ([each for each in side if not is_plumbing(each)] for side in (added, removed))
    else:
        own = every
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
        if pairs.are_identical(old, new):
            continue
        first, start = pairs.two.first_nodes[new], pairs.one.first_nodes[old]
        both = []
        for instruction in new.instructions:
            a = pairs.before[first + instruction.index]
            if a >= 0 and pairs.one.nodes[a].computation is old and instruction.opcode not in ARGUMENT_OPCODES:
                both.append((a - start, instruction))
        positions = [position for position, _ in both]
        if all(x < y for x, y in pairwise(positions)):
            continue
        stays = longest_increasing(positions)
        for place, (position, instruction) in enumerate(both):
            if place not in stays:
                yield Moved(old.instructions[position], instruction)
