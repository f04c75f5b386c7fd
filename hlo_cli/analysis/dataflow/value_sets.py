"""Which value is at each place of a module, where is it used, and which values must share memory?

Mirrors xla/hlo/analysis/hlo_dataflow_analysis.cc and hlo_alias_analysis.cc.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import instruction_post_order
from hlo_cli.analysis.dataflow.flat_schedule import (
    AsyncChain,
    InPlace,
    Places,
    async_pairs,
    has_same_arrays,
    is_async_end,
    is_async_start,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING, IN_PLACE, OUTPUT_TO_OPERAND_ALIASING
from hlo_cli.ir.shape import ShapeIndex, TupleShape

# --- what is forwarded from where ---
# Mirrors the update rules of xla/hlo/analysis/hlo_dataflow_analysis.cc. A place that is its own source defines a value;
# a place in `phis` merges several sources.


# Read from the text: get-tuple-elements are many, and attributes are slow to parse.
_ELEMENT_INDEX: Final = re.compile(r"^, index=(\d{1,9})(?![\w.])")


class Sources:
    """The source of the value at each place.

    `source[place]` is the place that its value is forwarded from, or the place itself; `phis[place]` lists several
    sources instead.
    """

    __slots__ = ("_branches", "_chains", "_places", "phis", "source")

    def __init__(self, places: Places, chains: Mapping[Instruction, AsyncChain]) -> None:
        self._places = places
        self._chains = chains
        self.source = list(range(len(places)))
        self.phis: dict[int, tuple[int, ...]] = {}
        # Of each conditional, the numbers of the operands that are passed to a computation.
        self._branches: dict[Instruction, dict[Computation, list[int]]] = {}
        for instruction in places.instructions:
            if (rule := _FORWARDING_RULES.get(instruction.opcode)) is not None:
                rule(self, instruction)
            elif is_async_start(instruction.opcode) or is_async_end(instruction.opcode):
                self.asynchronous(instruction)
        for computation, context in places.contexts.context_of.items():
            # Embedded computations define their parameters, as their callers pass elements, not buffers.
            if context == "global" and computation in places.contexts.callers:
                self.parameters(computation, places.contexts.callers[computation])

    def forward(self, first: int, origin: int, count: int) -> None:
        """Forwards `count` places from `origin` to `first`; fewer if shapes in a malformed module differ."""
        last = self._places.first[self._places.owner[origin] + 1]
        count = min(count, last - origin)
        self.source[first : first + count] = range(origin, origin + count)

    def whole(self, instruction: Instruction) -> None:
        """Forwards the whole operand."""
        if instruction.operands:
            origin = self._places.operand_place(instruction, 0)
            self.forward(self._places.first_of(instruction), origin, len(self._places.parts(instruction)))

    def below_top(self, instruction: Instruction) -> None:
        """Forwards the elements of a copied tuple, whose table is new."""
        if isinstance(instruction.shape, TupleShape) and instruction.operands:
            origin = self._places.operand_place(instruction, 0)
            # A copy is shallow: hlo_dataflow_analysis.cc gives it a new table and the old elements.
            self.forward(self._places.first_of(instruction) + 1, origin + 1, len(self._places.parts(instruction)) - 1)

    def element(self, instruction: Instruction) -> None:
        """Forwards an element of the operand tuple."""
        if not instruction.operands:
            return
        match = _ELEMENT_INDEX.match(instruction.raw[1])
        taken = int(match[1]) if match else instruction.integer("index") or 0
        origin = self._places.operand_place(instruction, 0)
        index = (*self._places.index(origin), taken)
        parts = self._places.parts(instruction.operands[0])
        if (ordinal := parts.ordinals.get(index)) is not None:
            first = self._places.first_of(instruction)
            self.forward(
                first, self._places.first_of(instruction.operands[0]) + ordinal, len(self._places.parts(instruction))
            )

    def elements(self, instruction: Instruction) -> None:
        """Forwards the operands as elements of a new tuple."""
        self._elements(instruction, (), [(instruction, n) for n in range(len(instruction.operands))])

    def called_root(self, instruction: Instruction) -> None:
        """Forwards the root of the called computation."""
        for called in instruction.called_computations[:1]:
            if called.root is not None and called in self._places.base:
                count = len(self._places.parts(instruction))
                self.forward(self._places.first_of(instruction), self._places.first_of(called.root), count)

    def loop(self, instruction: Instruction) -> None:
        """Merges the body root and the operand of a while loop."""
        body = instruction.called_computations[0].root if instruction.called_computations else None
        if instruction.operands and body is not None and body.computation in self._places.base:
            origins = (self._places.first_of(body), self._places.operand_place(instruction, 0))
            self._phi(self._places.first_of(instruction), len(self._places.parts(instruction)), origins)

    def branches(self, instruction: Instruction) -> None:
        """Merges the roots of the branches."""
        roots = [c.root for c in instruction.called_computations if c.root is not None and c in self._places.base]
        origins = tuple(map(self._places.first_of, roots))
        self._phi(self._places.first_of(instruction), len(self._places.parts(instruction)), origins)

    def operands_at(self, instruction: Instruction, index: ShapeIndex) -> None:
        """Forwards the operand, or the operands as elements, to `index` of the result."""
        operands = [(instruction, n) for n in range(len(instruction.operands))]
        # With one operand these starts have it at the index itself, with several a tuple of them.
        if len(operands) == 1 or instruction.opcode == opcodes.SEND:
            self._elements(instruction, index[:-1], operands[:1], index[-1])
        else:
            self._elements(instruction, index, operands)

    def permuted(self, instruction: Instruction) -> None:
        """Forwards the operands of a collective-permute-start, which has no table for several of them."""
        self.operands_at(instruction, (0,))
        # hlo_dataflow_analysis.cc, InitializeInstructionValueSets: a permute of several operands defines {}, {1}, the
        # arrays of {1}, and contexts, but nothing at {0}. Every place has a value here, so {0} takes that of {}.
        parts, first = self._places.parts(instruction), self._places.first_of(instruction)
        if (table := parts.ordinals.get((0,))) is not None and isinstance(parts.shapes[table], TupleShape):
            self.source[first + table] = first

    def from_operand(self, instruction: Instruction, index: ShapeIndex, result_index: ShapeIndex) -> None:
        """Forwards the operand's part at `index` to the result's part at `result_index`; a tuple at the root is new."""
        if not instruction.operands:
            return
        below = self._places.parts(instruction).below(result_index)
        origin = self._places.parts(instruction.operands[0]).ordinals.get(index)
        if origin is None or not below:
            return
        first = self._places.first_of(instruction)
        self.forward(first + below.start, self._places.first_of(instruction.operands[0]) + origin, len(below))
        if not result_index and isinstance(instruction.shape, TupleShape):
            self.source[first] = first

    def asynchronous(self, instruction: Instruction) -> None:
        """Forwards bound operands and the output of an async instruction; its tuple tables are new."""
        chain = self._chains.get(instruction)
        if chain is None:
            return
        parts, first = self._places.parts(instruction), self._places.first_of(instruction)
        if is_async_start(instruction.opcode) or instruction.opcode.endswith("-update"):
            self._elements(instruction, (0,), chain.operands)
            self._output(instruction, chain, parts.below((1,)))
            # Contexts are made by the start; an update hands them on.
            if instruction is not chain.start:
                self._contexts(instruction)
        else:
            self._output(instruction, chain, range(len(parts)))
        for n, shape in enumerate(parts.shapes):
            if isinstance(shape, TupleShape):
                self.source[first + n] = first + n

    def _contexts(self, update: Instruction) -> None:
        """Forwards the contexts of an update that binds no operands, unless it declares aliases of its own."""
        if update.operands[0].shape != update.shape or OUTPUT_TO_OPERAND_ALIASING in update.raw[1]:
            return
        parts, operand = self._places.parts(update), self._places.first_of(update.operands[0])
        first = parts.elements[2] if len(parts.elements) > 3 else len(parts)
        self.forward(self._places.first_of(update) + first, operand + first, len(parts) - first)

    def parameters(self, computation: Computation, callers: Sequence[Instruction]) -> None:
        """Forwards or merges the operands of all callers to the parameters of a computation."""
        for number, parameter in enumerate(computation.parameters):
            origins: list[int] = []
            is_loop = False
            for caller in callers:
                if caller.computation not in self._places.base:
                    continue  # a caller in a fused computation executes nothing
                origins.extend(self._passed_places(caller, computation, number))
                if caller.opcode == opcodes.WHILE and caller.called_computations[0].root not in (None, parameter):
                    # The order of the inputs is XLA's, operand before root: which value replaces a phi depends on it.
                    origins.append(self._places.first_of(caller.called_computations[0].root))
                    is_loop = True
            first, count = self._places.first_of(parameter), len(self._places.parts(parameter))
            if len(origins) == 1 and not is_loop:
                self.forward(first, origins[0], count)
            elif origins:
                self._phi(first, count, tuple(origins))

    def _passed_places(self, caller: Instruction, computation: Computation, number: int) -> Iterable[int]:
        """Returns the places that one caller passes to a parameter."""
        if caller.opcode == opcodes.CONDITIONAL:
            numbers = self._operands_by_branch(caller).get(computation, ()) if number == 0 else ()
            return [self._places.operand_place(caller, n) for n in numbers]
        if (chain := self._chains.get(caller)) is not None:
            return [self._places.operand_place(*operand) for operand in chain.operands[number : number + 1]]
        return [self._places.operand_place(caller, number)] if number < len(caller.operands) else []

    def _operands_by_branch(self, conditional: Instruction) -> dict[Computation, list[int]]:
        known = self._branches.get(conditional)
        if known is None:
            known = self._branches[conditional] = {}
            # Operand 0 selects the branch.
            for number, called in enumerate(
                conditional.called_computations[: max(0, len(conditional.operands) - 1)], 1
            ):
                known.setdefault(called, []).append(number)
        return known

    def _elements(
        self, instruction: Instruction, index: ShapeIndex, operands: Sequence[tuple[Instruction, int]], start: int = 0
    ) -> None:
        """Forwards operands to the elements of the tuple at `index`, from element `start` on."""
        first, parts = self._places.first_of(instruction), self._places.parts(instruction)
        for number, operand in enumerate(operands, start):
            below = parts.below((*index, number))
            if below:
                self.forward(first + below.start, self._places.operand_place(*operand), len(below))

    def _output(self, instruction: Instruction, chain: AsyncChain, below: range) -> None:
        """Forwards the output of the wrapped computation; in sugared syntax, that of the first member that binds it."""
        places, first = self._places, self._places.first_of(instruction)
        if not below:
            return
        root = chain.computation.root if chain.computation is not None else None
        # Sugared: without a computation the output is defined by the first member whose shape has it.
        if root is None or chain.computation not in places.base:
            shape = places.parts(instruction).shapes[below.start]
            for member in chain.members[: chain.members.index(instruction)]:
                output = places.parts(member).below((1,))
                if output and has_same_arrays(places.parts(member).shapes[output.start], shape):
                    self.forward(first + below.start, places.first_of(member) + output.start, len(below))
                    return
        elif has_same_arrays(places.parts(instruction).shapes[below.start], root.shape):
            origin = places.first_of(root)
            # hlo_dataflow_analysis.cc: a start whose computation is a dynamic-update-slice forwards its operand 0,
            # which is updated in place.
            if instruction is chain.start and root.opcode == opcodes.DYNAMIC_UPDATE_SLICE:
                origin = places.operand_place(instruction, 0)
            self.forward(first + below.start, origin, len(below))

    def _phi(self, first: int, count: int, origins: tuple[int, ...]) -> None:
        """Merges several sources into `count` places from `first` on."""
        counts = [self._places.first[self._places.owner[origin] + 1] - origin for origin in origins]
        for n in range(count):
            # hlo_dataflow_analysis.cc: the inputs of a phi are a list. Equal inputs make a phi too, which
            # hlo_phi_graph.cc may remove.
            self.phis[first + n] = tuple(
                origin + n for origin, available in zip(origins, counts, strict=True) if n < available
            )


_FORWARDING_RULES: Final[dict[str, Callable[[Sources, Instruction], None]]] = {
    **dict.fromkeys((*FORWARDING, opcodes.ALL_REDUCE_DONE), Sources.whole),
    opcodes.GET_TUPLE_ELEMENT: Sources.element,
    opcodes.TUPLE: Sources.elements,
    opcodes.COPY: Sources.below_top,
    opcodes.WHILE: Sources.loop,
    opcodes.CONDITIONAL: Sources.branches,
    opcodes.CALL: Sources.called_root,
    # copy-start returns (destination, source, context): the operand is element 1, unlike in other starts.
    opcodes.COPY_START: lambda sources, i: sources.operands_at(i, (1,)),
    opcodes.ALL_GATHER_START: lambda sources, i: sources.operands_at(i, (0,)),
    opcodes.COLLECTIVE_PERMUTE_START: Sources.permuted,
    opcodes.SEND: lambda sources, i: sources.operands_at(i, (0,)),
    opcodes.COPY_DONE: lambda sources, i: sources.from_operand(i, (0,), ()),
    opcodes.ALL_GATHER_DONE: lambda sources, i: sources.from_operand(i, (1,), ()),
    opcodes.COLLECTIVE_PERMUTE_DONE: lambda sources, i: sources.from_operand(i, (1,), ()),
    opcodes.RECV_DONE: lambda sources, i: sources.from_operand(i, (0,), (0,)),
}


# --- what each phi depends on ---
# What each phi depends on, directly or through others: its sources, and whether those phis are all settled.
#
# Strongly connected components of the phis (R. Tarjan, 1972) answer this in constant time for each phi, where a search
# would pass through all loops around or inside of a loop.


MANY: Final = object()
"""More than one source."""


class Closures:
    """The components of phis that depend on each other, each after those that it depends on.

    `component[phi]` is the number of a component, `sources[number]` the only value other than a phi that its phis
    depend on, `MANY` if there are several, or None. `have_sources` tells whether each has one, as in all modules that
    are not malformed.

    >>> closures = Closures({1: (2, 7), 2: (1, 7), 3: (1, 8)})
    >>> [closures.source(phi) for phi in (1, 2)], closures.source(3) is MANY
    ([7, 7], True)
    """

    __slots__ = ("component", "dependents", "have_sources", "sizes", "sources", "successors")

    def __init__(self, operands: Mapping[int, Sequence[int]]) -> None:
        self.component: dict[int, int] = {}
        self.sizes: list[int] = []
        self.sources: list[object] = []
        self.successors: list[int] = []
        self.dependents: list[list[int]] = []
        for members in _components(operands):
            number = len(self.sizes)
            self.component.update(dict.fromkeys(members, number))
            below = {self.component[each] for phi in members for each in operands[phi] if each in operands} - {number}
            for each in below:
                self.dependents[each].append(number)
            sources: set[object] = {each for phi in members for each in operands[phi] if each not in operands}
            sources |= {self.sources[each] for each in below} - {None}
            self.sources.append(MANY if len(sources) > 1 else next(iter(sources), None))
            self.sizes.append(len(members))
            self.successors.append(len(below))
            self.dependents.append([])
        self.have_sources = None not in self.sources

    def source(self, phi: int) -> object:
        """The only value other than a phi that a phi depends on, `MANY` if there are several, or None."""
        return self.sources[self.component[phi]]


class Settled:
    """Which phis are settled, and which of them depend on settled ones alone.

    >>> settled = Settled(Closures({1: (2, 7), 2: (3, 7), 3: (8,)}))
    >>> settled.add(3), settled.is_last(2), settled.is_last(1)
    (None, True, False)
    >>> settled.add(2), settled.is_last(1), settled.is_complete(2), settled.is_complete(1)
    (None, True, True, False)
    """

    __slots__ = ("_closures", "_left", "_phis", "_waiting")

    def __init__(self, closures: Closures) -> None:
        self._closures = closures
        self._phis: set[int] = set()
        self._left = list(closures.sizes)
        self._waiting = list(closures.successors)

    def __contains__(self, phi: int) -> bool:
        """Whether a phi is settled."""
        return phi in self._phis

    def add(self, phi: int) -> None:
        """Settles a phi."""
        if phi in self._phis:
            return
        self._phis.add(phi)
        number = self._closures.component[phi]
        self._left[number] -= 1
        # A component counts for those that depend on it only when the whole of it is settled.
        complete = [number] if not (self._left[number] or self._waiting[number]) else []
        while complete:
            for each in self._closures.dependents[complete.pop()]:
                self._waiting[each] -= 1
                if not (self._left[each] or self._waiting[each]):
                    complete.append(each)

    def is_complete(self, phi: int) -> bool:
        """Whether a phi and all that it depends on are settled."""
        number = self._closures.component[phi]
        return not (self._left[number] or self._waiting[number])

    def is_last(self, phi: int) -> bool:
        """Whether all that a phi depends on is settled, but not the phi itself."""
        number = self._closures.component[phi]
        return self._left[number] == 1 and not self._waiting[number] and phi not in self._phis


def _components(operands: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components, each after those that it depends on."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_phis: list[int] = []
    done: set[int] = set()
    for first in operands:
        if first in number:
            continue
        path = [(first, iter(operands[first]))]
        number[first] = lowest[first] = len(number)
        open_phis.append(first)
        while path:
            phi, remaining = path[-1]
            for each in remaining:
                # Iterative, as nests of loops are deeper than Python's recursion limit allows.
                if each in done or each not in operands:
                    continue
                if each not in number:
                    number[each] = lowest[each] = len(number)
                    open_phis.append(each)
                    path.append((each, iter(operands[each])))
                    break
                lowest[phi] = min(lowest[phi], number[each])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[phi])
                if lowest[phi] == number[phi]:
                    members = [open_phis.pop()]
                    while members[-1] != phi:
                        members.append(open_phis.pop())
                    done.update(members)
                    yield members


# --- removal of redundant phis ---
# Those whose inputs all resolve to one value.
#
# Mirrors `PhiGraph::Optimize` of xla/service/hlo_phi_graph.cc.


def simplify_phis(inputs: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Returns the value that replaces each redundant phi; other phis are omitted.

    `inputs` lists the inputs of every phi in XLA's order; an input that is not a key is an ordinary value.

    >>> simplify_phis({1: (1, 7), 2: (7, 8), 3: (2, 2), 4: (5, 9), 5: (4, 9)})
    {1: 7, 3: 2, 4: 9, 5: 9}
    """
    graph = _PhiGraph(inputs)
    # hlo_phi_graph.cc repeats until nothing changes; one pass more may find what another replacement made redundant.
    while graph.simplify_once():
        pass
    return {phi: graph.resolve(phi) for phi in inputs if phi in graph.replaced}


class _PhiGraph:
    """The current operands of each phi, and the users as XLA records them.

    Which sources a phi depends on does not change when others are replaced, so `closures` are those of the beginning;
    except in malformed modules, for a phi without any.
    """

    __slots__ = ("closures", "operands", "replaced", "resolved", "users")

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        self.operands = {phi: list(listed) for phi, listed in inputs.items()}
        self.users: dict[int, set[int]] = {}
        self.replaced: dict[int, int] = {}
        for phi, listed in self.operands.items():
            for operand in listed:
                self.users.setdefault(operand, set()).add(phi)
        self.closures = Closures(self.operands)
        self.resolved = Settled(self.closures)

    def resolve(self, value: int) -> int:
        """Returns the value that currently replaces a value."""
        passed: list[int] = []
        while value in self.replaced:
            passed.append(value)
            value = self.replaced[value]
        for each in passed:
            self.replaced[each] = value
        return value

    def simplify_once(self) -> bool:
        """Visits every phi once and replaces the redundant ones; returns whether any was replaced."""
        changed = False
        checked = Settled(self.closures)
        for phi in self.replaced:
            checked.add(phi)
        for phi, listed in self.operands.items():
            if phi in self.replaced:
                continue
            if phi in listed:
                listed[:] = [each for each in listed if each != phi]
                self.users[phi].discard(phi)
            if listed and all(each == listed[0] for each in listed):
                changed |= self._replace(phi, listed[0], checked)
            elif phi not in checked:
                changed |= self._replace_closed_group(phi, checked)
        return changed

    def _replace_closed_group(self, phi: int, checked: Settled) -> bool:
        """Replaces a closed group of phis by the only other value among their inputs.

        The search is that of XLA, which ends at a second value. It is omitted where it would find one and pass through
        checked phis alone, and leaves out phis that only depend on replaced ones if it will not find one.
        """
        source = self.closures.source(phi) if self.closures.have_sources else None
        # XLA's search would walk through the whole nest to find two values: quadratic in loops of loops.
        if source is MANY and checked.is_last(phi):
            checked.add(phi)
            return False
        visited: dict[int, None] = {}
        waiting = deque((phi,))
        replacement: int | None = None
        while waiting:
            value = waiting.popleft()
            if value in visited:
                continue
            visited[value] = None
            if value in self.operands:
                checked.add(value)
                operands = self.operands[value]
                waiting.extend(
                    (g for g in operands if not self._is_resolved(g)) if isinstance(source, int) else operands
                )
            elif replacement is not None and replacement != value:
                return False
            else:
                replacement = value
        if isinstance(source, int):
            replacement = source
        if replacement is None:
            return False
        group = [value for value in visited if value in self.operands and value not in self.replaced]
        return sum(self._replace(value, replacement, checked) for value in group) > 0

    def _is_resolved(self, value: int) -> bool:
        """Returns whether a phi and all phis that it depends on are replaced."""
        return value in self.operands and self.resolved.is_complete(value)

    def _replace(self, phi: int, value: int, checked: Settled) -> bool:
        """Replaces a phi by a value; returns whether it did."""
        if (value := self.resolve(value)) == phi:  # only in cycles of malformed modules
            return False
        # hlo_phi_graph.cc, PhiGraph::ReplaceNodeWith: users of the replaced phi are not added to those of its
        # replacement. A phi may therefore keep a replaced operand and remain, although all its inputs resolve to one
        # value. Buffers depend on it.
        for user in self.users.get(phi, ()):
            if user in self.operands:
                self.operands[user] = [value if each == phi else each for each in self.operands[user]]
        for operand in self.operands[phi]:
            users = self.users.setdefault(operand, set())
            if phi in users:
                users.discard(phi)
                users.add(value)
        self.replaced[phi] = value
        checked.add(phi)
        self.resolved.add(phi)
        return True


# --- values at places ---
# Defined there or forwarded from elsewhere.
#
# Mirrors xla/hlo/analysis/hlo_dataflow_analysis.cc in static single assignment form. A value is identified by the place
# that defines it, a phi by the place where several values merge.


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The value at each place.

    `value[place]` is the value there. `values` lists all values in XLA's order; `rank` is the inverse. `phis` are the
    values that merge several. `position[n]` is the post-order position of instruction number n in its computation.
    The ranks of values of different computations are certain only if the input is a proto: texts list computations in
    another order than XLA numbers them.
    """

    places: Places
    chains: Mapping[Instruction, AsyncChain]
    value: tuple[int, ...]
    values: tuple[int, ...]
    rank: Mapping[int, int]
    phis: frozenset[int]
    position: tuple[int, ...]
    is_rank_certain: bool = False


def dataflow_of(
    places: Places, chains: Mapping[Instruction, AsyncChain], value_order: tuple[Computation, ...] = ()
) -> Dataflow:
    """Computes the values of a module; `value_order` are its computations in XLA's order, if known.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.flat_schedule import places_of
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT t = (f32[2], f32[2]) tuple(p, p) }"
    >>> dataflow_of(places_of(parse_module(text)), {}).value
    (0, 1, 0, 0)
    """
    sources = Sources(places, chains)
    resolved = _resolve(sources.source)
    inputs = {phi: tuple(resolved[source] for source in phi_sources) for phi, phi_sources in sources.phis.items()}
    final = simplify_phis(inputs)
    value = tuple(final.get(place, place) for place in resolved)
    phis = frozenset(phi for phi in inputs if phi not in final)
    # A rewritten module has other computations than its proto.
    known = tuple([computation for computation in value_order if computation in places.base])
    is_known = len(known) == len(places.base)
    position, ordered = _in_post_order(places, known if is_known else tuple(places.base))
    # hlo_dataflow_analysis.cc numbers values in the order of their definitions; phis are made, and numbered,
    # afterwards.
    values = (*(p for p in ordered if value[p] == p and p not in phis), *(p for p in ordered if p in phis))
    rank = {value: n for n, value in enumerate(values)}
    return Dataflow(places, chains, value, values, rank, phis, position, is_known)


def _resolve(source: list[int]) -> list[int]:
    """Returns the place where each chain of forwarding places begins; cycles of malformed modules are cut."""
    seen_from = [-1] * len(source)
    for place in range(len(source)):
        origin, path = place, list[int]()
        while source[origin] != origin:
            if seen_from[origin] == place:
                source[origin] = origin
                break
            seen_from[origin] = place
            path.append(origin)
            origin = source[origin]
        for passed in path:
            source[passed] = origin
    return source


def _in_post_order(places: Places, computations: tuple[Computation, ...]) -> tuple[tuple[int, ...], list[int]]:
    """Returns the post-order position of every instruction in its computation, and all places in XLA's order."""
    position = [0] * len(places.instructions)
    ordered: list[int] = []
    for computation in computations:
        base = places.base[computation]
        for n, index in enumerate(instruction_post_order(computation, text=places.text)):
            position[base + index] = n
            ordered.extend(range(places.first[base + index], places.first[base + index + 1]))
    return tuple(position), ordered


# --- uses of values ---
# At all places of a value: through forwarding instructions, tuples, and called computations.
#
# Mirrors `HloValue::GetUses` of xla/service/hlo_value.cc, without uses that only forward the value.


NO_USE: Final = frozenset((opcodes.TUPLE, opcodes.DOMAIN))
"""Opcodes that do not use their operands, unless the result is the root."""

TOP_ONLY: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.COPY))
"""Opcodes that use only the table of an operand tuple."""


class FirstUsers(NamedTuple):
    """The number of the instructions that use a value, and the first of them."""

    number: int
    first: tuple[Instruction, ...]


_NO_USERS: Final = FirstUsers(0, ())


def value_at(dataflow: Dataflow, instruction: Instruction, index: ShapeIndex) -> int | None:
    """Returns the value at an index of an instruction's result; None if there is no such place.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> facts = order_independent_facts(parse_module("ENTRY e { p = f32[] parameter(0)  ROOT t = (f32[]) tuple(p) }"))
    >>> value_at(facts.dataflow, facts.module.entry.root, (0,)), value_at(facts.dataflow, facts.module.entry.root, (1,))
    (0, None)
    """
    places = dataflow.places
    if instruction.computation not in places.base:
        return None
    ordinal = places.parts(instruction).ordinals.get(index)
    return None if ordinal is None else dataflow.value[places.first_of(instruction) + ordinal]


def uses_of_value(dataflow: Dataflow, value: int) -> tuple[Instruction, ...]:
    """Returns the instructions that use a value, in the order of the text.

    Forwarding instructions do not count, except the root of the computation that defines the value.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[] parameter(0)  q = f32[] parameter(1)  t = (f32[], f32[]) tuple(p, q)
    ...   a = f32[] get-tuple-element(t), index=0  b = f32[] get-tuple-element(t), index=1
    ...   c = f32[] negate(a)  ROOT d = f32[] add(b, c) }'''
    >>> dataflow = order_independent_facts(parse_module(text)).dataflow
    >>> [uses_of_value(dataflow, value) for value in dataflow.values[:2]]
    [(<negate c>,), (<add d>,)]
    """
    places, value_of, users = dataflow.places, dataflow.value, dict[int, Instruction]()
    holders = {places.owner[place] for place, value_there in enumerate(value_of) if value_there == value}
    defined_in = places.instructions[places.owner[value]].computation
    inside = dict.fromkeys(places.instructions[number].computation for number in holders)
    for computation in inside:
        for number, user in enumerate(computation.instructions, places.base[computation]):
            is_result = user is computation.root and computation is defined_in
            if not is_result and (number in holders or user.opcode in NO_USE):
                continue
            if any(_uses(dataflow, user, n, value) for n in range(len(user.operands))):
                users[number] = user
    return tuple(users[number] for number in sorted(users))


def first_users(dataflow: Dataflow, order: Iterable[Instruction], max_shown: int) -> dict[int, FirstUsers]:
    """Returns the users of every value among the instructions in `order`: their number, and the first `max_shown`.

    The users are those of `uses_of_value`, found in one pass over the module; values without users have no entry.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> module = parse_module("ENTRY e { p = f32[] parameter(0)  a = f32[] add(p, p)  ROOT b = f32[] add(a, p) }")
    >>> first_users(order_independent_facts(module).dataflow, module.entry.instructions, 1)
    {0: FirstUsers(number=2, first=(<add a>,)), 1: FirstUsers(number=1, first=(<add b>,))}
    """
    value_of, places, users = dataflow.value, dataflow.places, dict[int, FirstUsers]()
    for user in order:
        is_root = user is user.computation.root
        if not user.operands or (user.opcode in NO_USE and not is_root):
            continue
        used = {
            value
            for position in range(len(user.operands))
            for value in value_of[_operand_places(places, user, position)]
        }
        held = value_of[places.first_of(user) : places.first[places.number(user) + 1]]
        used -= {value for value in held if not (is_root and _is_defined_in(places, value, user.computation))}
        if user.opcode in NO_USE:
            used = {value for value in used if _is_defined_in(places, value, user.computation)}
        for value in used:
            number, first = users.get(value, _NO_USERS)
            users[value] = FirstUsers(number + 1, (*first, user) if number < max_shown else first)
    return users


def _is_defined_in(places: Places, value: int, computation: Computation) -> bool:
    """Returns whether a value is defined by an instruction of a computation."""
    return places.instructions[places.owner[value]].computation is computation


def _uses(dataflow: Dataflow, user: Instruction, position: int, value: int) -> bool:
    """Returns whether an instruction uses the value in its operand at a position."""
    return value in dataflow.value[_operand_places(dataflow.places, user, position)]


def _operand_places(places: Places, user: Instruction, position: int) -> slice:
    """Returns the places of an operand that its user reads."""
    place = places.operand_place(user, position)
    end = place + 1 if user.opcode in TOP_ONLY else places.first[places.number(user.operands[position]) + 1]
    return slice(place, end)


# --- values that share memory ---
# Each set is one buffer.
#
# Mirrors xla/hlo/analysis/hlo_alias_analysis.cc.


@dataclass(frozen=True, slots=True)
class AliasSets:
    """The alias set of each value.

    `buffer[value]` is the first value of its set. `members` lists the sets of two or more values, in the order of
    their ranks.
    """

    buffer: Mapping[int, int]
    members: Mapping[int, tuple[int, ...]]

    def of(self, value: int) -> tuple[int, ...]:
        """Returns the values that share memory with a value, itself included.

        >>> sets = AliasSets({1: 1, 2: 1, 3: 3}, {1: (1, 2)})
        >>> sets.of(2), sets.of(3)
        ((1, 2), (3,))
        """
        return self.members.get(self.buffer[value], (value,))


def alias_sets(
    module: Module, dataflow: Dataflow, in_place: InPlace, joined: Iterable[tuple[int, int]] = ()
) -> AliasSets:
    """Computes the alias sets of a module by union of aliased places, and of the pairs that are `joined`."""
    parent = {value: value for value in dataflow.values}

    def find(value: int) -> int:
        """Returns the representative of a set, with path compression."""
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    rank, value_of = dataflow.rank, dataflow.value
    for place, other in chain(aliased_places(module, dataflow, in_place), joined):
        first, second = find(value_of[place]), find(value_of[other])
        if rank[first] > rank[second]:
            first, second = second, first
        parent[second] = first
    buffer = {value: find(value) for value in dataflow.values}
    members: dict[int, list[int]] = {}
    for value, name in buffer.items():
        if value != name:
            members.setdefault(name, [name]).append(value)
    return AliasSets(buffer, {name: tuple(sorted(values, key=rank.__getitem__)) for name, values in members.items()})


def aliased_places(module: Module, dataflow: Dataflow, in_place: InPlace) -> Iterator[tuple[int, int]]:
    """Yields pairs of places whose values must share memory."""
    places = dataflow.places
    root, parameters = module.entry.root, module.entry.parameters
    # hlo_alias_analysis.cc: may-alias and must-alias pairs are united alike.
    for alias in module.input_output_alias:
        if root is None or alias.parameter_number >= len(parameters):
            continue
        parameter = parameters[alias.parameter_number]
        output = places.parts(root).ordinals.get(alias.output_index)
        operand_ordinal = places.parts(parameter).ordinals.get(alias.parameter_index)
        if output is not None and operand_ordinal is not None:
            yield places.first_of(root) + output, places.first_of(parameter) + operand_ordinal
    for instruction in places.instructions:
        opcode = instruction.opcode
        if opcode == opcodes.WHILE:
            yield from _aliased_places_of_loop(dataflow, instruction)
        elif opcode == opcodes.CONDITIONAL:
            # hlo_alias_analysis.cc: a branch root shares the buffer of the conditional, but the parameter of a branch
            # does not.
            for called in instruction.called_computations:
                if called.root is not None and called in places.base:
                    yield from _zip_places(dataflow, instruction, called.root)
        elif opcode in IN_PLACE:
            for number, index, output_index in in_place.pairs(instruction):
                yield from _places_of_in_place_pair(dataflow, instruction, number, index, output_index)
        elif instruction in dataflow.chains:
            for number, index, output_index in async_pairs(instruction, dataflow.chains[instruction].start):
                yield from _places_of_in_place_pair(dataflow, instruction, number, index, output_index)


def _aliased_places_of_loop(dataflow: Dataflow, loop: Instruction) -> Iterator[tuple[int, int]]:
    """Yields the aliased places of a while loop: operand, parameters, body root, and result."""
    places = dataflow.places
    first, count = places.first_of(loop), len(places.parts(loop))
    if loop.operands:
        origin = places.operand_place(loop, 0)
        yield from ((first + n, origin + n) for n in range(min(count, len(places) - origin)))
    for n, called in enumerate(loop.called_computations):
        if called in places.base:
            for parameter in called.parameters[:1]:
                yield from _zip_places(dataflow, loop, parameter)
            if n == 0 and called.root is not None:
                yield from _zip_places(dataflow, loop, called.root)


def _zip_places(dataflow: Dataflow, first: Instruction, second: Instruction) -> Iterator[tuple[int, int]]:
    """Yields the places of two instructions of equal shape, index by index."""
    places = dataflow.places
    first_place, second_place = places.first_of(first), places.first_of(second)
    count = min(len(places.parts(first)), len(places.parts(second)))
    yield from ((first_place + n, second_place + n) for n in range(count))


def _places_of_in_place_pair(
    dataflow: Dataflow, instruction: Instruction, number: int, index: tuple[int, ...], output_index: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yields the places of an in-place pair, if the operand and the output exist."""
    places = dataflow.places
    if not 0 <= number < len(instruction.operands):
        return
    operand = places.operand_place(instruction, number)
    operand_ordinal = places.parts(instruction.operands[number]).ordinals.get((*places.index(operand), *index))
    output = places.parts(instruction).ordinals.get(output_index)
    if operand_ordinal is not None and output is not None:
        yield places.first_of(instruction.operands[number]) + operand_ordinal, places.first_of(instruction) + output
