"""Which instruction is the first at which two programs differ, found by the values that they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hlo_cli.analysis.comparison.fingerprints import NONE, Leaf, Node, Print, Trace, arrays_in
from hlo_cli.analysis.comparison.repairs import Variant
from hlo_cli.analysis.evaluate.arguments import made_up
from hlo_cli.analysis.evaluate.program import Observer, Program
from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.analysis.sharding.meshes import collective_kind
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape

# --- values around an instruction ---
# The values that go into one execution of an instruction, and come out.


class Place(NamedTuple):
    """One execution of an instruction on a device; executions of each instruction are counted from 0."""

    instruction: Instruction
    device: int
    execution: int


@dataclass(frozen=True, slots=True)
class ExecutionValues:
    """The values of the operands and of the result of one execution."""

    place: Place
    operands: tuple[Value, ...]
    result: Value


@dataclass(frozen=True, slots=True)
class DifferingValues:
    """The values at the first instruction that differs; `old` are those of its counterpart, None without one."""

    old: ExecutionValues | None
    new: ExecutionValues | None


def values_at(run: Callable[[Observer], object], place: Place) -> ExecutionValues | None:
    """The values of an execution, from one more run; None if it does not run."""
    values: list[ExecutionValues] = []
    executions = 0

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        nonlocal executions
        if instruction is place.instruction and device == place.device:
            if executions == place.execution:
                values.append(ExecutionValues(place, tuple(operands), value))
            executions += 1

    run(observe)
    return values[0] if values else None


# --- computations of scalars ---
# Where two computations of scalars part, such as those of a reduce or a sort, whose values no run records.


_SAMPLES: Final = 48  # a quarter of them with a value such as NaN or -0.0 in one parameter; chosen, not measured
_SPECIAL: Final = (float("nan"), float("inf"), 0.0, -0.0)


def scalar_difference(old: Computation, new: Computation) -> tuple[Instruction, Instruction] | None:
    """The first instruction of `new` that computes something else than its counterpart in `old`, and that one.

    Both run on made-up scalars. None if they compute the same, or have no scalars as parameters.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    >>> one, two = (parse_module(each).entry for each in (text, text.replace("add", "subtract")))
    >>> scalar_difference(one, one), scalar_difference(one, two)
    (None, (<subtract s>, <add s>))
    """
    if len(old.parameters) != len(new.parameters) or not (_takes_scalars(old) and _takes_scalars(new)):
        return None
    assert old.root is not None
    assert new.root is not None
    # Overflow and NaN are part of the samples, not mistakes to warn of.
    samples = list(_samples(old))
    with np.errstate(all="ignore"):
        olds, news = (_values(each, samples) for each in (old, new))
    if olds[old.root] == news[new.root]:
        return None
    for old_instruction, new_instruction in zip(old.instructions, new.instructions, strict=False):
        if old_instruction.operands and olds[old_instruction] != news[new_instruction]:
            # Operands in another order still come from the same values, so this pair is the cause; else an earlier one
            # is.
            if sorted(olds[each] for each in old_instruction.operands) == sorted(
                news[each] for each in new_instruction.operands
            ):
                return new_instruction, old_instruction
            break
    # Texts that do not correspond are compared by values: the first value unknown to the old one that is fed by known
    # values.
    known = set(olds.values())
    wrong = {each for each, found in news.items() if each.operands and found not in known}
    return next((each for each in news if each in wrong and wrong.isdisjoint(each.operands)), new.root), old.root


def _samples(computation: Computation) -> Iterator[tuple[Value, ...]]:
    """Made-up scalars; some parameters get the value of the one before, or one that is not finite."""
    kinds = [each.shape for each in sorted(computation.parameters, key=lambda each: each.parameter_number or 0)]
    for seed in range(_SAMPLES):
        values = [made_up(each, number, seed=seed, floats="widen") for number, each in enumerate(kinds)]
        # Equal parameters tell LT from LE, and subtraction from anything else; a third of the samples have each pair
        # equal.
        for number in range(1, len(values)):
            equal = next((place for place in range(number) if str(kinds[place]) == str(kinds[number])), None)
            if equal is not None and (seed >> (number - 1)) % 3 == 1:
                values[number] = values[equal]
        # The places of special values take turns, so that each parameter gets each of them.
        place = seed % len(values)
        if seed % 4 == 0 and isinstance(shape := kinds[place], ArrayShape) and shape.element_type.kind == "float":
            values[place] = np.array(_SPECIAL[seed // 4 % len(_SPECIAL)])
        yield tuple(values)


def _takes_scalars(computation: Computation) -> bool:
    shapes = [each.shape for each in computation.parameters]
    return bool(shapes) and all(isinstance(each, ArrayShape) and not each.dimensions for each in shapes)


def _values(computation: Computation, samples: Sequence[Sequence[Value]]) -> dict[Instruction, tuple[str, ...]]:
    """The values of each instruction for all samples, as text, in which NaN is equal to itself."""
    texts: dict[Instruction, list[str]] = {}

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        # `repr` keeps -0.0 apart from 0.0, and makes NaN equal to NaN.
        texts.setdefault(instruction, []).append(repr(tuple(np.asarray(each).item() for each in arrays_in(value))))

    function = Program("widen", observe=observe).function(computation)
    for parameter in computation.parameters:
        texts[parameter] = [
            repr(tuple(np.asarray(each).item() for each in arrays_in(sample[parameter.parameter_number or 0])))
            for sample in samples
        ]
    for sample in samples:
        function(sample)
    return {instruction: tuple(values) for instruction, values in texts.items()}


# --- the first wrong value ---
# Finds the first wrong value of a program by the values of another, where their texts do not correspond.
#
# A value is explained if the old program has it, and right if it is explained or if explained values are computed from
# it: compilers make values of their own on the way, such as partial sums. What makes a wrong value of right ones is
# suspected.


Order: TypeAlias = Literal["free", "ordered"]
"""Whether values are the same in any order of their elements, or in one order only."""

Application: TypeAlias = "tuple[int, ...]"
"""The fingerprints of the operands of an execution, without their order."""

ORDERS: Final[tuple[Order, ...]] = ("free", "ordered")
"""The order of a search: elements may be in any order first, as layouts change it."""
_MAX_DEPTH: Final = 64  # recursion over producers; chosen, far below the 1,000 calls of Python
_MAX_OTHERS: Final = 64
"""The largest number of old executions with the same operands but for one that are looked at."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An execution that may be the first to go wrong, from its place in the new trace; low ranks are strong evidence.

    `counterpart` computes something else from the same operands, if `is_proven`; else it is only like it.
    """

    position: int
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
        # On one device, values without arguments are constants, and can be wrong like others.
        self._placeless = _placeless(new) if new.devices > 1 else [False] * len(new.nodes)
        self._partial = self._partials()
        self._right = self._rightness()
        self._reached = self._reach()
        self._signatures = _signatures(old)

    def suspects(self) -> list[Suspect]:
        """The executions that may be the first to go wrong, the best first; none if every value is explained."""
        found = list(self._suspects())
        # Nearest to all wrong results first: one cause explains them all more often than several causes.
        return sorted(found, key=lambda each: (-self._reached[each.position].bit_count(), each.rank, each.position))

    def reaches(self, position: int) -> bool:
        """Whether a wrong result is computed from an execution."""
        return bool(self._reached[position])

    def is_right(self, position: int) -> bool:
        """Whether the results of an execution are explained, or exonerated by what is computed from them."""
        return self._right[position]

    def is_partial(self, position: int) -> bool:
        """Whether devices have yet to add up the results of an execution."""
        return any(each.free in self._new.partial for each in self._new.nodes[position].results)

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
        # A get-tuple-element repeats a value of its operand, so it is seldom the cause; its index may be, hence not
        # last.
        yield from (at for at, node in enumerate(nodes) if node.instruction.opcode == opcodes.GET_TUPLE_ELEMENT)
        yield from (at for at in places if self._right[at] and not _is_weak(nodes[at]))

    def _key(self, print: Print) -> int:
        return print.free if self._order == "free" else print.ordered

    def _suspects(self) -> Iterator[Suspect]:
        for position, node in enumerate(self._new.nodes):
            if not self._reached[position] or node.is_passing or self._placeless[position]:
                continue
            if self._right[position]:
                if (found := self._of_weak(position)) is not None:
                    # Rank 0: an old execution with the same operands has another result, which proves it.
                    yield found
                continue
            is_fed_well = all(map(self._is_right, node.leaves))
            if (partial := self._partial.get(position)) is not None:
                if not partial.is_right:
                    yield Suspect(position, 0, partial.counterpart, is_proven=True)
                continue
            if is_fed_well:
                if (other := self._applied.other_result(node)) is not None:
                    yield Suspect(position, 0, other, is_proven=True)
                elif (parted := self._by_operand(position)) is not None:
                    yield parted
            pair = self._paired(node)
            is_missing = pair is not None and self._applied.is_missing(pair)
            if self._is_unlike(node):
                # Rank 1: an operation of the framework that the old program computes otherwise, as by a changed opcode.
                yield Suspect(position, 1, pair if is_missing else None)
            elif is_fed_well and (node.operands or self._new.devices == 1):
                # Ranks 2 and 3: unknown values of known ones, which compilers also make on the way. For several devices
                # they make constants as well, such as the share of each, so that only another form proves one wrong.
                yield Suspect(position, 2 if is_missing else 3, pair if is_missing else None)

    def _rightness(self) -> list[bool]:
        """Of each execution, whether its results are explained, or exonerated by what is computed from them."""
        nodes = self._new.nodes
        used_well = [False] * len(nodes)
        right = [False] * len(nodes)
        # Backward: users come later in the trace, so each maker is exonerated before it is looked at.
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            is_explained = self._is_explained(node)
            right[position] = is_explained or used_well[position]
            is_good = any(each.is_telling for each in node.results) if is_explained else used_well[position]
            if is_good and not node.is_passing:
                for leaf in node.leaves:
                    if leaf.maker != NONE:
                        used_well[leaf.maker] = True
        # A scalar that is spread is right as the scalar is: its print has another size, and may be in no other program.
        for position, node in enumerate(nodes):
            # The print is that of all devices together, hence as large as their number.
            if node.instruction.opcode == opcodes.BROADCAST and node.operands[0][0].print.size == self._new.devices:
                leaf = node.operands[0][0]
                is_known = self._key(leaf.print) in self._known
                right[position] = right[position] or is_known or leaf.maker == NONE or right[leaf.maker]
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
        for bit, position in enumerate(self.wrong):
            reached[position] |= 1 << bit
        every = (1 << len(self.wrong)) - 1
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            if node.instruction.opcode == opcodes.COMPARE and node.results and node.results[0].size == 1:
                # A condition decides on all that runs afterwards, so no result is beyond its reach.
                reached[position] = every
            if reached[position]:
                for leaf in node.leaves:
                    if leaf.maker != NONE:
                        reached[leaf.maker] |= reached[position]
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

    def _of_weak(self, position: int) -> Suspect | None:
        """An execution whose result is found in any program, if the old one computes something else at its place."""
        node = self._new.nodes[position]
        if not node.operands or not _is_weak(node) or self._applied.has(node):
            return None
        sizes = [each.size for each in node.results]
        for old_node in self._applied.with_operands(node):
            if (
                [each.size for each in old_node.results] == sizes
                and _are_alike(node, old_node)
                and not self._applied.is_made(old_node)
            ):
                return Suspect(position, 0, old_node, is_proven=True)
        return self._by_operand(position)

    def _by_operand(self, position: int) -> Suspect | None:
        """The operand that is another one in the old program, if the rest of the execution is the same."""
        node = self._new.nodes[position]
        # Quadratic without a limit: a constant is an operand of thousands of executions.
        for place, old_node in islice(self._applied.with_other_operand(node), _MAX_OTHERS):
            if self._applied.is_made(old_node):
                continue
            suspect = self._parted(position, node.operands[place], old_node.operands[place], 0)
            if suspect is not None:
                return suspect
        return None

    def _parted(self, user: int, new_leaves: Sequence[Leaf], old_leaves: Sequence[Leaf], depth: int) -> Suspect | None:
        """Where two values part that should be the same: the first application that is the same but for its result."""
        if len(new_leaves) != 1 or len(old_leaves) != 1 or depth > _MAX_DEPTH:
            return None
        position, old_position = new_leaves[0].maker, old_leaves[0].maker
        if NONE in (position, old_position) or new_leaves[0].print.ordered == old_leaves[0].print.ordered:
            return None
        node, old_node = self._new.nodes[position], self._old.nodes[old_position]
        if application(node, self._order) == application(old_node, self._order):
            # Compilers replace a constant by another without operands; two constants that differ prove nothing.
            is_like = node.instruction.opcode == old_node.instruction.opcode or bool(node.operands)
            return Suspect(position, 0, old_node, is_proven=True) if is_like else None
        if node.instruction.opcode != old_node.instruction.opcode or len(node.operands) != len(old_node.operands):
            return None
        for mine, theirs in zip(node.operands, old_node.operands, strict=True):
            if (suspect := self._parted(position, mine, theirs, depth + 1)) is not None:
                return suspect
        return None

    def _compute_alike(self, old: Computation, new: Computation) -> bool:
        if (old, new) not in self._alike:
            self._alike[old, new] = scalar_difference(old, new) is None
        return self._alike[old, new]

    def _partials(self) -> dict[int, Partial]:
        """Executions that compute a part of what the old program computes at once, as compilers split reductions."""
        partials: dict[int, Partial] = {}
        whole_of: dict[int, Node] = {}
        for position, node in enumerate(self._new.nodes):
            if node.is_passing or not node.instruction.called_computations or not node.operands:
                continue
            # A split reduction has several steps; the steps that follow the first take over its counterpart.
            before = next((whole_of[leaf.maker] for leaf in node.leaves if leaf.maker in whole_of), None)
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
            partials[position] = Partial(whole, is_right)
            if is_right:
                whole_of[position] = whole
        return partials


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


def _are_alike(node: Node, old_node: Node) -> bool:
    one, two = node.instruction.opcode, old_node.instruction.opcode
    return one == two or {one, two} <= ELEMENTWISE


# --- what each program computes from which values ---


class Applications:
    """Finds executions of an old program by their operands, and which results the new program has."""

    def __init__(self, old: Trace, new: Trace, order: Order) -> None:
        self._order: Order = order
        # Equal numbers of devices have equal copies: larger results are then no replication, but a difference.
        self._copies = new.devices if new.devices != old.devices else 1
        self._executions = {(node.instruction, node.execution): node for node in old.nodes}
        self._applied: dict[Application, list[Node]] = {}
        self._partial: dict[tuple[str, int, int, Application], list[Node]] = {}
        self._results = {value for node in new.nodes for value in values_of(node, order)}
        self._made = {(application(node, order), values_of(node, order)) for node in new.nodes}
        recorded: set[tuple[str, Application, Application]] = set()
        for node in old.nodes:
            key = node.instruction.opcode, application(node, order), values_of(node, order)
            if node.is_passing or key in recorded:
                continue
            recorded.add(key)
            self._applied.setdefault(key[1], []).append(node)
            for at, rest in self._without_one(node):
                self._partial.setdefault((key[0], len(node.operands), at, rest), []).append(node)
        self._had = {(given, made) for _, given, made in recorded}

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

    def is_missing(self, old_node: Node) -> bool:
        """Whether the new program does not have a result of an old execution."""
        return any(value not in self._results for value in values_of(old_node, self._order))

    def is_made(self, old_node: Node) -> bool:
        """Whether the new program computes the result of an old execution from the same operands."""
        return (application(old_node, self._order), values_of(old_node, self._order)) in self._made

    def has(self, node: Node) -> bool:
        """Whether the old program computes the result of a new execution from the same operands."""
        return (application(node, self._order), values_of(node, self._order)) in self._had

    def _without_one(self, node: Node) -> Iterator[tuple[int, Application]]:
        """The fingerprints of the other operands, for each operand."""
        if len(node.operands) < 2:
            return
        prints = [[_print_number(leaf.print, self._order) for leaf in operand] for operand in node.operands]
        for at in range(len(prints)):
            yield at, tuple(sorted(each for place, rest in enumerate(prints) if place != at for each in rest))


def _fit(old: Sequence[int], new: Sequence[int], copies: int) -> bool:
    """Whether arrays have the same sizes, or so many more elements as devices may have copies."""
    # A program on more devices may hold a value once for each of them.
    return len(old) == len(new) and all(
        theirs == mine or (theirs and mine % theirs == 0 and copies % (mine // theirs) == 0)
        for theirs, mine in zip(old, new, strict=True)
    )


def application(node: Node, order: Order) -> Application:
    """The fingerprints of the operands of an execution, without their order."""
    return tuple(sorted(_print_number(leaf.print, order) for leaf in node.leaves))


def values_of(node: Node, order: Order) -> Application:
    """The fingerprints of the results of an execution."""
    return tuple(_print_number(each, order) for each in node.results)


def _print_number(print: Print, order: Order) -> int:
    return print.free if order == "free" else print.ordered


# --- the first difference ---
# The first instruction at which two programs differ, found by the values that they compute.
#
# If the texts are nearly the same, instructions are paired as `hlo diff` pairs them, and the first one with equal
# operands and another result is the answer. Else values are compared by fingerprints, as names do not survive
# compilers.


Evidence: TypeAlias = Literal["operands", "repair", "counterpart", "value"]
"""Why an instruction is named: the other program computes something else from the same operands; with another form of
it all results agree; its counterpart has another value; or the other program does not have its value at all."""

ScalarDifference: TypeAlias = "Callable[[Computation, Computation], tuple[Instruction, Instruction] | None]"
"""The first instruction of two computations of scalars that computes something else, with its counterpart."""

Repair: TypeAlias = "Callable[[Sequence[Instruction]], tuple[Instruction, Variant] | None]"
"""The first of some instructions that has another form with which all results agree, and that form."""

Heals: TypeAlias = "Callable[[Instruction, Instruction], bool | None]"
"""Whether all results agree if an instruction has the values of its counterpart; None if that cannot be tried."""

_MAX_GRAFTS: Final = 4
"""So many suspects are tried with the values of their counterparts: each takes a run."""
_MAX_INSIDE: Final = 2_000
"""So many executions of a call are looked at for the one that differs."""
_MAX_HOPS: Final = 2
"""How far before a suspect a sum over devices may be missing: a product, and what is added to it."""


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The instruction that computes a value which the other program does not have, though it has all of its operands.

    `place` is its execution, and `callers` are the instructions around it, the outermost first, with the iteration of
    each, from 0. `counterpart` is the instruction of the other program that computes another value in its place, if one
    is known. With the form that `repair` names in its place, all results agree. Both instructions are those to show: in
    a computation of scalars, such as that of a reduce, they are in it, and their places are the executions of what
    calls it, the last of the callers.
    """

    instruction: Instruction
    place: Place
    callers: tuple[Instruction, ...] = ()
    iterations: tuple[int, ...] = ()
    evidence: Evidence = "value"
    counterpart: Instruction | None = None
    counterpart_place: Place | None = None
    repair: str = ""

    @property
    def execution(self) -> int:
        """How often the instruction ran before, or what calls its computation of scalars."""
        return self.place.execution


def first_difference(
    old: Trace,
    new: Trace,
    wrong: Sequence[int],
    pairs: Mapping[Instruction, Instruction],
    *,
    is_one_text: bool,
    scalar_difference: ScalarDifference | None = None,
    repair: Repair | None = None,
    heals: Heals | None = None,
) -> FirstDifference | None:
    """Where the values of a new program begin to differ from those of an old one.

    `wrong` are the places in the new trace that made the results that differ, `pairs` the instructions of the new
    module with those of the old one that `hlo diff` pairs them with; `is_one_text` means that nearly all are paired.
    None if every value is explained, and if nothing proves which of the others is the cause.

    Programs on other numbers of devices have values of their own on the way, such as partial sums, and equal operands
    may be divided in other ways: there only a form with which all results agree is a proof.
    """
    # With nearly equal texts, names and order prove more than values, and cost one pass.
    is_divided = old.devices != new.devices
    if is_one_text and not is_divided and (exact := _by_pairs(old, new, pairs)) is not None:
        return _difference_at(old, new, exact[0], exact[1], "operands", scalar_difference)
    suspects: list[Suspect] = []
    places: list[int] = []
    # Arrays of other device counts are divided otherwise, so only the order-free search has a meaning.
    for order in ORDERS[:1] if is_divided else ORDERS:
        search = ValueSearch(old, new, wrong, pairs, order)
        search_suspects = search.suspects()
        suspects += search_suspects[:1]
        if new.devices > 1:
            places += _on_devices(new, [each.position for each in search_suspects], search)
        places += [*(each.position for each in search_suspects), *search.others()]
    if repair is not None:
        repaired = repair([new.nodes[at].instruction for at in places])
        if repaired is not None:
            instruction, variant = repaired
            at = next(at for at in places if new.nodes[at].instruction is instruction)
            return _repaired(_difference_at(old, new, at, None, "repair", None), variant, scalar_difference)
    # Without a repair nothing is proven there, see above.
    if is_divided:
        return None
    for first in sorted(suspects, key=lambda each: (each.rank, each.position))[:_MAX_GRAFTS]:
        node, counterpart = new.nodes[first.position], first.counterpart
        is_telling = any(each.is_telling for each in node.results)
        if counterpart is not None and heals is not None:
            is_healed = heals(node.instruction, counterpart.instruction)
            # Small integers agree by chance: without a graft that heals, they are no evidence.
            if is_healed is False or (is_healed is None and not is_telling):
                continue
        evidence: Evidence = "operands" if first.is_proven else "value" if counterpart is None else "counterpart"
        return _difference_at(old, new, first.position, counterpart, evidence, scalar_difference)
    return None


def _on_devices(new: Trace, suspects: Sequence[int], search: ValueSearch) -> list[int]:
    """The executions that exchange or divide data, in the order in which other forms of them are tried.

    First the suspects and what they are made of, with sums that devices may have yet to add up, then those whose value
    the old program does not have.
    """
    nodes = new.nodes
    positions: list[int] = []
    firsts = {nodes[position].instruction: position for position in reversed(suspects)}
    sums = set() if suspects else set(search.wrong)
    for position in list(dict.fromkeys(firsts[nodes[each].instruction] for each in suspects))[:_MAX_GRAFTS]:
        # A sum that is missing shows two steps later, when its product was added to something.
        level = [position]
        for _ in range(_MAX_HOPS + 1):
            positions += (each for each in level if _moves_data(nodes[each].instruction))
            sums |= {each for each in level if search.is_partial(each)}
            level = [leaf.maker for each in level for leaf in nodes[each].leaves if leaf.maker != NONE]
    missing = {each.free for position in sums for each in nodes[position].results}
    positions += (position for position, node in enumerate(nodes) if any(each.free in missing for each in node.results))
    positions += (position for position in range(len(nodes)) if search.is_partial(position))
    moving = [
        position for position, node in enumerate(nodes) if search.reaches(position) and _moves_data(node.instruction)
    ]
    moving.sort(key=lambda position: nodes[position].instruction.opcode == opcodes.DYNAMIC_SLICE)  # exchanges are fewer
    positions += (position for position in moving if not search.is_right(position))
    positions += (position for position in moving if search.is_right(position))
    return list(dict.fromkeys(positions))


def _moves_data(instruction: Instruction) -> bool:
    return collective_kind(instruction.opcode) is not None or instruction.opcode == opcodes.DYNAMIC_SLICE


def _difference_at(
    old: Trace,
    new: Trace,
    position: int,
    counterpart: Node | None,
    evidence: Evidence,
    scalar_difference: ScalarDifference | None,
) -> FirstDifference:
    node = new.nodes[position]
    around = new.callers_of(position)
    callers, iterations = tuple(each for each, _ in around), tuple(times for _, times in around)
    if counterpart is None:
        return FirstDifference(node.instruction, _place(node, 0), callers, iterations, evidence)
    device = new.device_apart(position, old, counterpart)
    instruction, other = node.instruction, counterpart.instruction
    # The values inside of a reduce or sort are not recorded, so what differs in it is found with samples.
    if scalar_difference is not None:
        called = zip(other.called_computations, instruction.called_computations, strict=False)
        inner = next((pair for x, y in called if (pair := scalar_difference(x, y)) is not None), None)
        if inner is not None:
            callers, iterations = (*callers, instruction), (*iterations, 0)
            instruction, other = inner
    places = _place(node, device), _place(counterpart, device)
    return FirstDifference(instruction, places[0], callers, iterations, evidence, other, places[1])


def _repaired(
    difference: FirstDifference, variant: Variant, scalar_difference: ScalarDifference | None
) -> FirstDifference:
    """The instruction with its other form; of another computation, the instruction in it that differs."""
    difference = replace(difference, repair=variant.words)
    if variant.computation is None or scalar_difference is None:
        return difference
    inner = scalar_difference(variant.computation, difference.instruction.called_computations[0])
    if inner is None:
        return difference
    callers, iterations = (*difference.callers, difference.instruction), (*difference.iterations, 0)
    return replace(difference, instruction=inner[0], counterpart=inner[1], callers=callers, iterations=iterations)


def _place(node: Node, device: int) -> Place:
    return Place(node.instruction, device, node.execution)


def _by_pairs(old: Trace, new: Trace, pairs: Mapping[Instruction, Instruction]) -> tuple[int, Node] | None:
    """The first execution with the operands of its counterpart, and another result."""
    olds = {(node.instruction, node.execution): node for node in old.nodes}
    small: tuple[int, Node] | None = None
    for position, node in enumerate(new.nodes):
        old_instruction = pairs.get(node.instruction)
        counterpart = None if old_instruction is None else olds.get((old_instruction, node.execution))
        if counterpart is None:
            continue
        if _fine(node.results) == _fine(counterpart.results) or _operand_prints(node) != _operand_prints(counterpart):
            continue
        difference: tuple[int, Node] | None = position, counterpart
        if node.is_passing and node.instruction.called_computations:
            difference = _inside(old, new, position, counterpart)
        if difference is None:
            continue
        if [each.ordered for each in node.results] != [each.ordered for each in counterpart.results]:
            return difference
        # Rounding alone differs in `fine` numbers first; a difference that shows beyond rounding is the better answer.
        small = small or difference
    return small


def _inside(old: Trace, new: Trace, position: int, counterpart: Node) -> tuple[int, Node] | None:
    """What made the first result that differs in a call, or in another instruction that hands values on: it has the
    operands of what made it in the old program, and another opcode, or hands on what that made something of.
    """
    node = new.nodes[position]
    results = zip(node.results, counterpart.results, node.makers, counterpart.makers, strict=False)
    for mine, theirs, maker, other_maker in results:
        if mine.fine == theirs.fine or NONE in (maker, other_maker):
            continue
        old_node = old.nodes[other_maker]
        # The maker of the value, and before it whatever repeats it on the way out of the call, newest first.
        places = (maker, *range(position - 1, max(maker, position - _MAX_INSIDE), -1))
        for place in places:
            inner = new.nodes[place]
            if (
                mine.fine in _fine(inner.results)
                and inner.operands
                and _operand_prints(inner) == _operand_prints(old_node)
            ):
                return place, old_node
        return None
    return None


def _fine(prints: Sequence[Print]) -> list[int]:
    return [each.fine for each in prints]


def _operand_prints(node: Node) -> list[int]:
    return sorted(leaf.print.fine for leaf in node.leaves)


# A pass or an edit leaves most names alone, another compilation hardly any: a tenth is chosen, not measured.
MIN_SHARE: Final = 0.9
"""The share of paired instructions from which two texts are nearly the same."""
