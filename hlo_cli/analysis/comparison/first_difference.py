"""The first instruction at which two programs differ, found by the values that they compute.

If the texts are nearly the same, instructions are paired as `hlo diff` pairs them, and the first one with equal
operands and another result is the answer. Else values are compared by fingerprints, as names do not survive compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.comparison.differing_values import Place
from hlo_cli.analysis.comparison.fingerprints import Print
from hlo_cli.analysis.comparison.trace import NONE, Node, Trace
from hlo_cli.analysis.comparison.value_search import ORDERS, Suspect, ValueSearch
from hlo_cli.analysis.comparison.variants import Variant
from hlo_cli.analysis.sharding.device_groups import collective_kind
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction

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
    is_divided = old.devices != new.devices
    if is_one_text and not is_divided and (exact := _by_pairs(old, new, pairs)) is not None:
        return _difference_at(old, new, exact[0], exact[1], "operands", scalar_difference)
    suspects: list[Suspect] = []
    places: list[int] = []
    for order in ORDERS[:1] if is_divided else ORDERS:
        search = ValueSearch(old, new, wrong, pairs, order)
        found = search.suspects()
        suspects += found[:1]
        if new.devices > 1:
            places += _on_devices(new, [each.at for each in found], search)
        places += [*(each.at for each in found), *search.others()]
    if repair is not None:
        repaired = repair([new.nodes[at].instruction for at in places])
        if repaired is not None:
            instruction, variant = repaired
            at = next(at for at in places if new.nodes[at].instruction is instruction)
            return _repaired(_difference_at(old, new, at, None, "repair", None), variant, scalar_difference)
    if is_divided:
        return None
    for first in sorted(suspects, key=lambda each: (each.rank, each.at))[:_MAX_GRAFTS]:
        node, other = new.nodes[first.at], first.counterpart
        is_telling = any(each.is_telling for each in node.results)
        if other is not None and heals is not None:
            is_healed = heals(node.instruction, other.instruction)
            if is_healed is False or (is_healed is None and not is_telling):
                continue
        evidence: Evidence = "operands" if first.is_proven else "value" if other is None else "counterpart"
        return _difference_at(old, new, first.at, other, evidence, scalar_difference)
    return None


def _on_devices(new: Trace, suspects: Sequence[int], search: ValueSearch) -> list[int]:
    """The executions that exchange or divide data, in the order in which other forms of them are tried.

    First the suspects and what they are made of, with sums that devices may have yet to add up, then those whose value
    the old program does not have.
    """
    nodes = new.nodes
    found: list[int] = []
    firsts = {nodes[at].instruction: at for at in reversed(suspects)}
    sums = set() if suspects else set(search.wrong)
    for at in list(dict.fromkeys(firsts[nodes[each].instruction] for each in suspects))[:_MAX_GRAFTS]:
        level = [at]
        for _ in range(_MAX_HOPS + 1):
            found += (each for each in level if _moves_data(nodes[each].instruction))
            sums |= {each for each in level if search.is_partial(each)}
            level = [leaf.maker for each in level for leaf in nodes[each].leaves if leaf.maker != NONE]
    missing = {each.free for at in sums for each in nodes[at].results}
    found += (at for at, node in enumerate(nodes) if any(each.free in missing for each in node.results))
    found += (at for at in range(len(nodes)) if search.is_partial(at))
    moving = [at for at, node in enumerate(nodes) if search.reaches(at) and _moves_data(node.instruction)]
    moving.sort(key=lambda at: nodes[at].instruction.opcode == opcodes.DYNAMIC_SLICE)  # exchanges are fewer
    found += (at for at in moving if not search.is_right(at))
    found += (at for at in moving if search.is_right(at))
    return list(dict.fromkeys(found))


def _moves_data(instruction: Instruction) -> bool:
    return collective_kind(instruction.opcode) is not None or instruction.opcode == opcodes.DYNAMIC_SLICE


def _difference_at(
    old: Trace,
    new: Trace,
    at: int,
    counterpart: Node | None,
    evidence: Evidence,
    scalar_difference: ScalarDifference | None,
) -> FirstDifference:
    node = new.nodes[at]
    around = new.callers_of(at)
    callers, iterations = tuple(each for each, _ in around), tuple(times for _, times in around)
    if counterpart is None:
        return FirstDifference(node.instruction, _place(node, 0), callers, iterations, evidence)
    device = new.device_apart(at, old, counterpart)
    instruction, other = node.instruction, counterpart.instruction
    if scalar_difference is not None:
        called = zip(other.called_computations, instruction.called_computations, strict=False)
        inner = next((pair for x, y in called if (pair := scalar_difference(x, y)) is not None), None)
        if inner is not None:
            callers, iterations = (*callers, instruction), (*iterations, 0)
            instruction, other = inner
    places = _place(node, device), _place(counterpart, device)
    return FirstDifference(instruction, places[0], callers, iterations, evidence, other, places[1])


def _repaired(found: FirstDifference, variant: Variant, scalar_difference: ScalarDifference | None) -> FirstDifference:
    """The instruction with its other form; of another computation, the instruction in it that differs."""
    found = replace(found, repair=variant.words)
    if variant.computation is None or scalar_difference is None:
        return found
    inner = scalar_difference(variant.computation, found.instruction.called_computations[0])
    if inner is None:
        return found
    callers, iterations = (*found.callers, found.instruction), (*found.iterations, 0)
    return replace(found, instruction=inner[0], counterpart=inner[1], callers=callers, iterations=iterations)


def _place(node: Node, device: int) -> Place:
    return Place(node.instruction, device, node.execution)


def _by_pairs(old: Trace, new: Trace, pairs: Mapping[Instruction, Instruction]) -> tuple[int, Node] | None:
    """The first execution with the operands of its counterpart, and another result."""
    olds = {(node.instruction, node.execution): node for node in old.nodes}
    small: tuple[int, Node] | None = None
    for at, node in enumerate(new.nodes):
        other = pairs.get(node.instruction)
        counterpart = None if other is None else olds.get((other, node.execution))
        if counterpart is None:
            continue
        if _fine(node.results) == _fine(counterpart.results) or _given(node) != _given(counterpart):
            continue
        found: tuple[int, Node] | None = at, counterpart
        if node.is_passing and node.instruction.called_computations:
            found = _inside(old, new, at, counterpart)
        if found is None:
            continue
        if [each.ordered for each in node.results] != [each.ordered for each in counterpart.results]:
            return found
        small = small or found
    return small


def _inside(old: Trace, new: Trace, at: int, counterpart: Node) -> tuple[int, Node] | None:
    """What made the first result that differs in a call, or in another instruction that hands values on: it has the
    operands of what made it in the old program, and another opcode, or hands on what that made something of.
    """
    node = new.nodes[at]
    results = zip(node.results, counterpart.results, node.makers, counterpart.makers, strict=False)
    for mine, theirs, maker, other_maker in results:
        if mine.fine == theirs.fine or NONE in (maker, other_maker):
            continue
        other = old.nodes[other_maker]
        places = (maker, *range(at - 1, max(maker, at - _MAX_INSIDE), -1))
        for each in places:
            inner = new.nodes[each]
            if mine.fine in _fine(inner.results) and inner.operands and _given(inner) == _given(other):
                return each, other
        return None
    return None


def _fine(prints: Sequence[Print]) -> list[int]:
    return [each.fine for each in prints]


def _given(node: Node) -> list[int]:
    return sorted(leaf.print.fine for leaf in node.leaves)


MIN_SHARE: Final = 0.9
"""The share of paired instructions from which two texts are nearly the same."""
