"""Why two instructions cannot be fused by hand: what no backend could run, or would compute something else.

Mirrors what XLA's verifier and backends ask of fusions, without the rules of the compiler that are about speed alone.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.decide import FusionDecider, is_loop
from hlo_cli.analysis.fusion.elements import is_fusible, sizes_of
from hlo_cli.analysis.fusion.graph import Graph, Node, fusible_computations
from hlo_cli.analysis.fusion.in_place import in_place_operands, in_place_rule
from hlo_cli.analysis.fusion.multi_output import are_elements_used, gives_elements, result_shape
from hlo_cli.analysis.fusion.rules import SHIPPED, Rule
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_pairs import COLLECTIVES
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.fusing.in_place_hazards import Overwriting

_FORBIDDEN: Final = frozenset((by.LIBRARY, by.IN_PLACE, by.IN_PLACE_TWICE))
_ALONE: Final = frozenset(("scatter", "sort"))
"""Operations that CPU kernels do by themselves, with nothing else in their fusion."""
_IN_LOOPS: Final = frozenset(("map", "reduce-window"))
"""Operations that no pass fuses, and that a loop over elements computes all the same."""
_NO_KERNELS: Final = frozenset(("tuple", "get-tuple-element", "after-all", "custom-call", *COLLECTIVES))
_STEPS: Final = ("-start", "-update", "-done")
"""How the opcodes of what runs beside the program end."""


class Refusals:
    """HloErrors about pairs of one computation.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> module = parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT t = f32[9] tanh(p) }")
    >>> graph = graph_of(module.entry)
    >>> Refusals(module, graph).check_into(*graph.nodes, keep=False)
    Traceback (most recent call last):
    hlo_cli.source.HloError: error: p cannot be fused into t
    """

    __slots__ = ("_graph", "_is_cpu", "_module", "_overwriting")

    def __init__(self, module: Module, graph: Graph) -> None:
        self._module = module
        self._graph = graph
        self._is_cpu = target_of(module) not in ("tpu", "gpu")
        self._overwriting = Overwriting(module)

    def check_into(self, producer: Node, consumer: Node, *, keep: bool) -> None:
        """HloError if a producer cannot go into its consumer, or cannot be `keep`t as one of several results there."""
        self._check_kinds(producer, consumer)
        if producer.has_several_results:
            raise HloError(f"{producer.name} is a fusion of several results, and cannot go into another fusion")
        self._check_aliases(producer, consumer)
        rule = FusionDecider(SHIPPED, None).rule(producer, consumer)
        if producer.body is not None and self._is_cpu and not all(map(is_loop, producer.body.operations)):
            rule = by.NOT_A_LOOP
        if rule in _FORBIDDEN:
            raise _refusal(rule, producer, consumer)
        if (in_place := in_place_rule(producer, consumer)) is not None:
            raise _refusal(in_place, producer, consumer)
        if self._is_cpu and ((no_loop := _no_loop(producer, consumer, rule)) is not None):
            raise _refusal(no_loop, producer, consumer)
        if self._overwriting.comes_between(self._graph, producer, consumer):
            raise _refusal(by.OVERWRITTEN, producer, consumer)
        if keep:
            others = [user for user in producer.users if user is not consumer]
            self._check_ways(others, producer, consumer)
            self._check_results(producer, consumer)
        elif len(producer.users) == 1 and producer is not self._graph.root:
            self._check_ways(self._graph.control_successors.get(producer, []), producer, consumer)

    def check_beside(self, one: Node, other: Node) -> None:
        """HloError if the two cannot be made by one kernel of several results."""
        self._check_kinds(one, other)
        for node, needed in ((other, one), (one, other)):
            if self._graph.reaches((needed,), node):
                raise _apart(by.BY_WAY_OF_OTHERS, needed, node)
        if one.aliasing:
            raise _apart(by.ALIASED, one, other)
        for writer, reader in ((one, other), (other, one)):
            if {writer.operands[number] for number, _ in in_place_operands(writer)} & set(reader.operands):
                raise _apart(by.READ_BESIDE, reader, writer)
        self._check_results(one, other)

    def _check_kinds(self, one: Node, other: Node) -> None:
        if self._graph.computation not in set(fusible_computations(self._module)):
            raise HloError(
                f"{self._graph.computation.name} is applied or fused as it stands", hint="fuse what calls it"
            )
        for node, rule in ((one, by.NOT_FUSIBLE), (other, by.CONSUMER_NOT_FUSIBLE)):
            if not is_fusible(node) or node.opcode in _NO_KERNELS or node.opcode.endswith(_STEPS):
                raise _refusal(rule, one, other)
        for node in (one, other):
            if node.kind == "kCustom":
                raise HloError(f"{node.name} is a call of a library, and cannot go into another fusion or take more in")

    def _check_aliases(self, producer: Node, consumer: Node) -> None:
        """A result that lies where an operand lay needs that operand."""
        if producer.aliasing:
            raise _refusal(by.ALIASED, producer, consumer)
        if any(consumer.operands[alias.operand_number] is producer for alias in consumer.aliasing):
            raise _refusal(by.WRITTEN_OVER, producer, consumer)

    def _check_ways(self, waiting: list[Node], producer: Node, consumer: Node) -> None:
        """What needs the producer must wait for the fusion now: the fusion must not wait for it."""
        if consumer in waiting or self._graph.reaches(waiting, consumer):
            raise _refusal(by.BY_WAY_OF_OTHERS, producer, consumer)
        if waiting and not self._overwriting.is_quiet(self._graph, producer, consumer):
            raise _refusal(by.OVERWRITTEN, producer, consumer)

    def _check_results(self, one: Node, other: Node) -> None:
        """All results of a kernel are made in one loop."""
        if not (are_elements_used(one) and are_elements_used(other)):
            raise _apart(by.TAKEN_WHOLE, one, other)
        shapes = result_shape(one), result_shape(other)
        are_alike = shapes[0] == shapes[1] if self._is_cpu else sizes_of(shapes[0]) == sizes_of(shapes[1])
        if not are_alike:
            raise _apart(by.OTHER_SHAPES, one, other)
        if self._is_cpu and not all(map(gives_elements, (one, other))):
            raise _apart(by.NOT_SIDE_BY_SIDE, one, other)
        if not self._overwriting.is_quiet(self._graph, one, other):
            raise _apart(by.OVERWRITTEN, one, other)


def _no_loop(producer: Node, consumer: Node, rule: Rule) -> Rule | None:
    """Why two are not computed in one loop over elements, as CPU kernels are; a fusion of loops is a loop."""
    inside = () if consumer.body is None else tuple(consumer.body.operations)
    if any(node.opcode in _ALONE for node in inside):
        return by.NO_LOOP_FUSION
    if rule.fuses:
        return None
    if not _is_loop(producer):
        return by.NOT_A_LOOP
    return None if _is_loop(consumer) else by.NO_LOOP_FUSION


def _is_loop(node: Node) -> bool:
    return is_loop(node) or (
        node.body is not None and node.kind == "kLoop" and all(map(_is_in_loop, node.body.operations))
    )


def _is_in_loop(node: Node) -> bool:
    return is_loop(node) or node.opcode in _IN_LOOPS


def _refusal(rule: Rule, producer: Node, consumer: Node) -> HloError:
    return HloError(
        f"{producer.name} cannot be fused into {consumer.name}", hint=rule.explain(producer.name, consumer.name)
    )


def _apart(rule: Rule, one: Node, other: Node) -> HloError:
    return HloError(f"{one.name} and {other.name} cannot be one kernel", hint=rule.explain(one.name, other.name))
