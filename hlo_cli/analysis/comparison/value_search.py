"""Finds the first wrong value of a program by the values of another, where their texts do not correspond.

A value is explained if the old program has it, and right if it is explained or if explained values are computed from
it: compilers make values of their own on the way, such as partial sums. What makes a wrong value of right ones is
suspected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.comparison.fingerprints import Print
from hlo_cli.analysis.comparison.scalar_computations import scalar_difference
from hlo_cli.analysis.comparison.trace import NONE, Leaf, Node, Trace
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape

Order: TypeAlias = Literal["free", "ordered"]
"""Whether values are the same in any order of their elements, or in one order only."""

Application: TypeAlias = "tuple[int, ...]"
"""The fingerprints of the operands of an execution, without their order."""

ORDERS: Final[tuple[Order, ...]] = ("free", "ordered")
"""The order of a search: elements may be in any order first, as layouts change it."""
_MAX_DEPTH: Final = 64
_MAX_OTHERS: Final = 64
"""The largest number of old executions with the same operands but for one that are looked at."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An execution that may be the first to go wrong, from its place in the new trace; low ranks are strong evidence.

    `counterpart` computes something else from the same operands, if `is_proven`; else it is only like it.
    """

    at: int
    rank: int
    counterpart: Node | None = None
    is_proven: bool = False


class ValueSearch:
    """Compares two traces by fingerprints."""

    def __init__(
        self,
        old: Trace,
        new: Trace,
        wrong: Sequence[int],
        pairs: Mapping[Instruction, Instruction],
        order: Order = "free",
    ) -> None:
        self._old = old
        self._new = new
        self.wrong = [at for at in wrong if at != NONE]
        self._pairs = pairs
        self._order: Order = order
        self._applied = Applications(old, new, order)
        self._known = {self._key(each) for each in _prints(old)} | new.partial
        self._alike: dict[tuple[Computation, Computation], bool] = {}
        self._placeless = _placeless(new) if new.devices > 1 else [False] * len(new.nodes)
        self._partial = self._partials()
        self._right = self._rightness()
        self._reached = self._reach()
        self._signatures = _signatures(old)

    def suspects(self) -> list[Suspect]:
        """The executions that may be the first to go wrong, the best first; none if every value is explained."""
        found = list(self._suspects())
        return sorted(found, key=lambda each: (-self._reached[each.at].bit_count(), each.rank, each.at))

    def reaches(self, at: int) -> bool:
        """Whether a wrong result is computed from an execution."""
        return bool(self._reached[at])

    def is_right(self, at: int) -> bool:
        """Whether the results of an execution are explained, or exonerated by what is computed from them."""
        return self._right[at]

    def is_partial(self, at: int) -> bool:
        """Whether devices have yet to add up the results of an execution."""
        return any(each.free in self._new.partial for each in self._new.nodes[at].results)

    def others(self) -> Iterator[int]:
        """Executions on the way to as many wrong results as any, those with wrong values first, then those whose
        values are found in any program, then those that choose an element of a tuple, then the rest.
        """
        nodes = self._new.nodes
        every = max((each.bit_count() for each in self._reached), default=0)
        counts = enumerate(self._reached)
        places = [at for at, each in counts if each.bit_count() == every and not self._placeless[at]]
        yield from (at for at in places if not self._right[at])
        yield from (at for at in places if self._right[at] and _is_weak(nodes[at]))
        yield from (at for at, node in enumerate(nodes) if node.instruction.opcode == opcodes.GET_TUPLE_ELEMENT)
        yield from (at for at in places if self._right[at] and not _is_weak(nodes[at]))

    def _key(self, each: Print) -> int:
        return each.free if self._order == "free" else each.ordered

    def _suspects(self) -> Iterator[Suspect]:
        for at, node in enumerate(self._new.nodes):
            if not self._reached[at] or node.is_passing or self._placeless[at]:
                continue
            if self._right[at]:
                if (found := self._of_weak(at)) is not None:
                    yield found
                continue
            is_fed_well = all(map(self._is_right, node.leaves))
            if (partial := self._partial.get(at)) is not None:
                if not partial.is_right:
                    yield Suspect(at, 0, partial.counterpart, is_proven=True)
                continue
            if is_fed_well:
                if (other := self._applied.other_result(node)) is not None:
                    yield Suspect(at, 0, other, is_proven=True)
                elif (parted := self._by_operand(at)) is not None:
                    yield parted
            pair = self._paired(node)
            is_missing = pair is not None and self._applied.is_missing(pair)
            if self._is_unlike(node):
                yield Suspect(at, 1, pair if is_missing else None)
            elif is_fed_well:
                yield Suspect(at, 2 if is_missing else 3, pair if is_missing else None)

    def _rightness(self) -> list[bool]:
        """Of each execution, whether its results are explained, or exonerated by what is computed from them."""
        nodes = self._new.nodes
        used_well = [False] * len(nodes)
        right = [False] * len(nodes)
        for at in range(len(nodes) - 1, -1, -1):
            node = nodes[at]
            is_explained = self._is_explained(node)
            right[at] = is_explained or used_well[at]
            is_good = any(each.is_telling for each in node.results) if is_explained else used_well[at]
            if is_good and not node.is_passing:
                for leaf in node.leaves:
                    if leaf.maker != NONE:
                        used_well[leaf.maker] = True
        for at, node in enumerate(nodes):
            if node.instruction.opcode == opcodes.BROADCAST and node.operands[0][0].print.size == 1:
                leaf = node.operands[0][0]
                is_known = self._key(leaf.print) in self._known
                right[at] = right[at] or is_known or leaf.maker == NONE or right[leaf.maker]
        return right

    def _is_explained(self, node: Node) -> bool:
        """Whether the old program has all results; if they are in any program, it has to compute them as well."""
        if any(self._key(each) not in self._known for each in node.results):
            return False
        if _is_weak(node) and any(leaf.print.is_telling for leaf in node.leaves):
            return self._applied.has(node)
        return True

    def _is_right(self, leaf: Leaf) -> bool:
        return self._key(leaf.print) in self._known or leaf.maker == NONE or self._right[leaf.maker]

    def _reach(self) -> list[int]:
        """Of each execution, the wrong results that are computed from it, as bits; conditions reach all."""
        nodes = self._new.nodes
        reached = [0] * len(nodes)
        for bit, at in enumerate(self.wrong):
            reached[at] |= 1 << bit
        every = (1 << len(self.wrong)) - 1
        for at in range(len(nodes) - 1, -1, -1):
            node = nodes[at]
            if node.instruction.opcode == opcodes.COMPARE and node.results and node.results[0].size == 1:
                reached[at] = every
            if reached[at]:
                for leaf in node.leaves:
                    if leaf.maker != NONE:
                        reached[leaf.maker] |= reached[at]
        return reached

    def _paired(self, node: Node) -> Node | None:
        other = self._pairs.get(node.instruction)
        return None if other is None else self._applied.execution(other, node)

    def _is_unlike(self, node: Node) -> bool:
        """Whether no instruction of the same operation of the framework computes what this one does."""
        if node.instruction.opcode not in ELEMENTWISE:
            return False
        known = self._signatures.get(node.instruction.metadata.op_name or "")
        return bool(known) and _signature(node.instruction) not in (known or ())

    def _of_weak(self, at: int) -> Suspect | None:
        """An execution whose result is found in any program, if the old one computes something else at its place."""
        node = self._new.nodes[at]
        if not node.operands or not _is_weak(node) or self._applied.has(node):
            return None
        sizes = [each.size for each in node.results]
        for other in self._applied.with_operands(node):
            if (
                [each.size for each in other.results] == sizes
                and _are_alike(node, other)
                and not self._applied.is_made(other)
            ):
                return Suspect(at, 0, other, is_proven=True)
        return self._by_operand(at)

    def _by_operand(self, at: int) -> Suspect | None:
        """The operand that is another one in the old program, if the rest of the execution is the same."""
        node = self._new.nodes[at]
        for place, other in islice(self._applied.with_other_operand(node), _MAX_OTHERS):
            if self._applied.is_made(other):
                continue
            found = self._parted(at, node.operands[place], other.operands[place], 0)
            if found is not None:
                return found
        return None

    def _parted(self, user: int, one: Sequence[Leaf], two: Sequence[Leaf], depth: int) -> Suspect | None:
        """Where two values part that should be the same: the first application that is the same but for its result."""
        if len(one) != 1 or len(two) != 1 or depth > _MAX_DEPTH:
            return None
        at, other_at = one[0].maker, two[0].maker
        if NONE in (at, other_at) or one[0].print.ordered == two[0].print.ordered:
            return None
        node, other = self._new.nodes[at], self._old.nodes[other_at]
        if application(node, self._order) == application(other, self._order):
            is_like = node.instruction.opcode == other.instruction.opcode or bool(node.operands)
            return Suspect(at, 0, other, is_proven=True) if is_like else None
        if node.instruction.opcode != other.instruction.opcode or len(node.operands) != len(other.operands):
            return None
        for mine, theirs in zip(node.operands, other.operands, strict=True):
            if (found := self._parted(at, mine, theirs, depth + 1)) is not None:
                return found
        return None

    def _compute_alike(self, one: Computation, two: Computation) -> bool:
        if (one, two) not in self._alike:
            self._alike[one, two] = scalar_difference(one, two) is None
        return self._alike[one, two]

    def _partials(self) -> dict[int, Partial]:
        """Executions that compute a part of what the old program computes at once, as compilers split reductions."""
        found: dict[int, Partial] = {}
        of: dict[int, Node] = {}
        for at, node in enumerate(self._new.nodes):
            if node.is_passing or not node.instruction.called_computations or not node.operands:
                continue
            before = next((of[leaf.maker] for leaf in node.leaves if leaf.maker in of), None)
            whole = before or next(
                (
                    other
                    for other in self._applied.with_operands(node)
                    if other.instruction.called_computations
                    and [each.size for each in other.results] != [each.size for each in node.results]
                ),
                None,
            )
            if whole is None or not self._applied.is_missing(whole):
                continue
            called = zip(whole.instruction.called_computations, node.instruction.called_computations, strict=False)
            is_right = all(self._compute_alike(x, y) for x, y in called)
            found[at] = Partial(whole, is_right)
            if is_right:
                of[at] = whole
        return found


@dataclass(frozen=True, slots=True)
class Partial:
    """A part of what an execution of the old program computes, and whether it combines elements alike."""

    counterpart: Node
    is_right: bool


def _placeless(trace: Trace) -> list[bool]:
    """Which executions compute integers from constants and the number of the device alone.

    On several devices that is where a part begins or belongs: whole programs have no such values, and what they are for
    is right or wrong where data moves.
    """
    found: list[bool] = []
    for node in trace.nodes:
        shape = node.instruction.shape
        is_index = isinstance(shape, ArrayShape) and shape.element_type.kind in ("signed", "unsigned", "pred")
        found.append(is_index and all(leaf.maker != NONE and found[leaf.maker] for leaf in node.leaves))
    return found


def _prints(trace: Trace) -> Iterator[Print]:
    for node in trace.nodes:
        yield from node.results
        for leaf in node.leaves:
            yield leaf.print


def _signatures(trace: Trace) -> dict[str, set[str]]:
    """What is computed for each operation of the framework: opcodes, and directions of comparisons."""
    found: dict[str, set[str]] = {}
    for instruction in {node.instruction for node in trace.nodes}:
        if name := instruction.metadata.op_name:
            found.setdefault(name, set()).add(_signature(instruction))
    return found


def _signature(instruction: Instruction) -> str:
    return f"{instruction.opcode} {instruction.attribute('direction') or ''}"


def _is_weak(node: Node) -> bool:
    return not any(each.is_telling for each in node.results)


def _are_alike(node: Node, other: Node) -> bool:
    one, two = node.instruction.opcode, other.instruction.opcode
    return one == two or {one, two} <= ELEMENTWISE


# --- what each program computes from which values ---


class Applications:
    """Finds executions of an old program by their operands, and which results the new program has."""

    def __init__(self, old: Trace, new: Trace, order: Order) -> None:
        self._order: Order = order
        self._copies = new.devices if new.devices != old.devices else 1
        self._executions = {(node.instruction, node.execution): node for node in old.nodes}
        self._applied: dict[Application, list[Node]] = {}
        self._partial: dict[tuple[str, int, int, Application], list[Node]] = {}
        self._results = {value for node in new.nodes for value in values_of(node, order)}
        self._made = {(application(node, order), values_of(node, order)) for node in new.nodes}
        seen: set[tuple[str, Application, Application]] = set()
        for node in old.nodes:
            key = node.instruction.opcode, application(node, order), values_of(node, order)
            if node.is_passing or key in seen:
                continue
            seen.add(key)
            self._applied.setdefault(key[1], []).append(node)
            for at, rest in self._without_one(node):
                self._partial.setdefault((key[0], len(node.operands), at, rest), []).append(node)
        self._had = {(given, made) for _, given, made in seen}

    def execution(self, instruction: Instruction, node: Node) -> Node | None:
        """The execution of an old instruction that has the number of a new one."""
        return self._executions.get((instruction, node.execution))

    def with_operands(self, node: Node) -> Sequence[Node]:
        """The old executions with the same operands."""
        return self._applied.get(application(node, self._order), ()) if node.operands else ()

    def with_other_operand(self, node: Node) -> Iterator[tuple[int, Node]]:
        """The old executions of the opcode with the same operands but for one, and the position of that."""
        for place, rest in self._without_one(node):
            for other in self._partial.get((node.instruction.opcode, len(node.operands), place, rest), ()):
                yield place, other

    def other_result(self, node: Node) -> Node | None:
        """An old execution with the same operands, whose result the new program does not have."""
        sizes = [each.size for each in node.results]
        for other in self.with_operands(node):
            if self.is_missing(other) and _fit([each.size for each in other.results], sizes, self._copies):
                return other
        return None

    def is_missing(self, other: Node) -> bool:
        """Whether the new program does not have a result of an old execution."""
        return any(value not in self._results for value in values_of(other, self._order))

    def is_made(self, other: Node) -> bool:
        """Whether the new program computes the result of an old execution from the same operands."""
        return (application(other, self._order), values_of(other, self._order)) in self._made

    def has(self, node: Node) -> bool:
        """Whether the old program computes the result of a new execution from the same operands."""
        return (application(node, self._order), values_of(node, self._order)) in self._had

    def _without_one(self, node: Node) -> Iterator[tuple[int, Application]]:
        """The fingerprints of the other operands, for each operand."""
        if len(node.operands) < 2:
            return
        prints = [[_value(leaf.print, self._order) for leaf in operand] for operand in node.operands]
        for at in range(len(prints)):
            yield at, tuple(sorted(each for place, rest in enumerate(prints) if place != at for each in rest))


def _fit(old: Sequence[int], new: Sequence[int], copies: int) -> bool:
    """Whether arrays have the same sizes, or so many more elements as devices may have copies."""
    return len(old) == len(new) and all(
        theirs == mine or (theirs and mine % theirs == 0 and copies % (mine // theirs) == 0)
        for theirs, mine in zip(old, new, strict=True)
    )


def application(node: Node, order: Order) -> Application:
    """The fingerprints of the operands of an execution, without their order."""
    return tuple(sorted(_value(leaf.print, order) for leaf in node.leaves))


def values_of(node: Node, order: Order) -> Application:
    """The fingerprints of the results of an execution."""
    return tuple(_value(each, order) for each in node.results)


def _value(each: Print, order: Order) -> int:
    return each.free if order == "free" else each.ordered
