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
from hlo_cli.analysis.comparison.trace import Node, Trace
from hlo_cli.analysis.comparison.value_search import ORDERS, Suspect, ValueSearch
from hlo_cli.analysis.comparison.variants import Variant
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction

Evidence: TypeAlias = Literal["operands", "repair", "counterpart", "value"]
"""Why an instruction is named: the other program computes something else from the same operands; with another form of
it all results agree; its counterpart has another value; or the other program does not have its value at all."""

ScalarDifference: TypeAlias = "Callable[[Computation, Computation], tuple[Instruction, Instruction] | None]"
"""The first instruction of two computations of scalars that computes something else, with its counterpart."""

Repair: TypeAlias = "Callable[[Sequence[Instruction]], tuple[Instruction, Variant] | None]"
"""The first of some instructions that has another form with which all results agree, and that form."""


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
) -> FirstDifference | None:
    """Where the values of a new program begin to differ from those of an old one.

    `wrong` are the places in the new trace that made the results that differ, `pairs` the instructions of the new
    module with those of the old one that `hlo diff` pairs them with; `is_one_text` means that nearly all are paired.
    None if every value is explained.
    """
    if is_one_text and (exact := _by_pairs(old, new, pairs)) is not None:
        return _difference_at(new, exact[0], exact[1], "operands", scalar_difference)
    suspects: list[Suspect] = []
    places: list[int] = []
    for order in ORDERS:
        search = ValueSearch(old, new, wrong, pairs, order)
        found = search.suspects()
        suspects += found[:1]
        places += [*(each.at for each in found), *search.others()]
    if repair is not None:
        repaired = repair([new.nodes[at].instruction for at in places])
        if repaired is not None:
            instruction, variant = repaired
            at = next(at for at in places if new.nodes[at].instruction is instruction)
            return _repaired(_difference_at(new, at, None, "repair", None), variant, scalar_difference)
    if not suspects:
        return None
    first = min(suspects, key=lambda each: (each.rank, each.at))
    other = first.counterpart
    evidence: Evidence = "operands" if first.is_proven else "value" if other is None else "counterpart"
    return _difference_at(new, first.at, other, evidence, scalar_difference)


def _difference_at(
    new: Trace, at: int, counterpart: Node | None, evidence: Evidence, scalar_difference: ScalarDifference | None
) -> FirstDifference:
    node = new.nodes[at]
    around = new.callers_of(at)
    callers, iterations = tuple(each for each, _ in around), tuple(times for _, times in around)
    if counterpart is None:
        return FirstDifference(node.instruction, _place(node), callers, iterations, evidence)
    instruction, other = node.instruction, counterpart.instruction
    if scalar_difference is not None:
        called = zip(other.called_computations, instruction.called_computations, strict=False)
        inner = next((pair for x, y in called if (pair := scalar_difference(x, y)) is not None), None)
        if inner is not None:
            callers, iterations = (*callers, instruction), (*iterations, 0)
            instruction, other = inner
    return FirstDifference(instruction, _place(node), callers, iterations, evidence, other, _place(counterpart))


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


def _place(node: Node) -> Place:
    return Place(node.instruction, node.device, node.execution)


def _by_pairs(old: Trace, new: Trace, pairs: Mapping[Instruction, Instruction]) -> tuple[int, Node] | None:
    """The first execution with the operands of its counterpart, and another result."""
    olds = {(node.instruction, node.device, node.execution): node for node in old.nodes}
    small: tuple[int, Node] | None = None
    for at, node in enumerate(new.nodes):
        other = pairs.get(node.instruction)
        counterpart = None if other is None else olds.get((other, node.device, node.execution))
        if counterpart is None:
            continue
        if _fine(node.results) == _fine(counterpart.results) or _given(node) != _given(counterpart):
            continue
        if [each.ordered for each in node.results] != [each.ordered for each in counterpart.results]:
            return at, counterpart
        small = small or (at, counterpart)
    return small


def _fine(prints: Sequence[Print]) -> list[int]:
    return [each.fine for each in prints]


def _given(node: Node) -> list[int]:
    return sorted(leaf.print.fine for leaf in node.leaves)


MIN_SHARE: Final = 0.9
"""The share of paired instructions from which two texts are nearly the same."""
