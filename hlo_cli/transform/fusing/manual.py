"""Checks whether two instructions can be fused on request: the result must be valid and equivalent.

Follows XLA's verifier and the limits of its backends, without rules that only concern speed.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import (
    SHIPPED,
    FusionDecider,
    Rule,
    are_elements_used,
    gives_elements,
    in_place_operands,
    in_place_rule,
    is_loop,
    result_shape,
)
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, fusible_computations, is_fusible, sizes_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.source import HloError
from hlo_cli.transform.fusing.in_place_hazards import InPlaceHazards

_INVALID: Final = frozenset((by.LIBRARY_CALL, by.IN_PLACE, by.IN_PLACE_READS_OPERAND))
_ALONE: Final = frozenset((opcodes.SCATTER, opcodes.SORT))
"""Opcodes that a CPU fusion can contain only as its single operation."""
_LOOP_ONLY: Final = frozenset((opcodes.MAP, opcodes.REDUCE_WINDOW))
"""Opcodes that no pass fuses, but that a loop over elements can compute."""
_NO_KERNELS: Final = frozenset(
    (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.AFTER_ALL, opcodes.CUSTOM_CALL, *COLLECTIVES)
)
_ASYNC_SUFFIXES: Final = ("-start", "-update", "-done")
"""Suffixes of async opcodes."""


class FusionChecker:
    """Raises HloError for pairs of one computation that cannot be fused.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> module = parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT t = f32[9] tanh(p) }")
    >>> graph = graph_of(module.entry)
    >>> FusionChecker(module, graph).check_producer_consumer(*graph.nodes, keep=False)
    Traceback (most recent call last):
    hlo_cli.source.HloError: error: cannot fuse p into t
    """

    __slots__ = ("_graph", "_hazards", "_is_cpu", "_module")

    def __init__(self, module: Module, graph: Graph) -> None:
        self._module = module
        self._graph = graph
        self._is_cpu = target_of(module) not in ("tpu", "gpu")
        self._hazards = InPlaceHazards(module)

    def check_producer_consumer(self, producer: Node, consumer: Node, *, keep: bool) -> None:
        """Raises HloError if a producer cannot be fused into its consumer, with `keep` as an additional result."""
        self._check_kinds(producer, consumer)
        if producer.has_several_results:
            raise HloError(f"{producer.name} is a multi-output fusion and cannot be fused into another fusion")
        self._check_aliases(producer, consumer)
        rule = FusionDecider(SHIPPED, None).rule(producer, consumer)
        if producer.body is not None and self._is_cpu and not all(map(is_loop, producer.body.operations)):
            rule = by.NOT_ELEMENTWISE
        if rule in _INVALID:
            raise _cannot_fuse(rule, producer, consumer)
        if (in_place := in_place_rule(producer, consumer)) is not None:
            raise _cannot_fuse(in_place, producer, consumer)
        if self._is_cpu and ((no_loop := _no_loop(producer, consumer, rule)) is not None):
            raise _cannot_fuse(no_loop, producer, consumer)
        if self._hazards.is_between(self._graph, producer, consumer):
            raise _cannot_fuse(by.OVERWRITTEN, producer, consumer)
        if keep:
            others = [user for user in producer.users if user is not consumer]
            self._check_paths(others, producer, consumer)
            self._check_results(producer, consumer)
        elif len(producer.users) == 1 and producer is not self._graph.root:
            self._check_paths(self._graph.control_successors.get(producer, []), producer, consumer)

    def check_siblings(self, one: Node, other: Node) -> None:
        """Raises HloError if two nodes cannot form a multi-output fusion."""
        self._check_kinds(one, other)
        for node, needed in ((other, one), (one, other)):
            if self._graph.reaches((needed,), node):
                raise _cannot_combine(by.INDIRECT_DEPENDENCY, needed, node)
        if one.aliasing:
            raise _cannot_combine(by.ALIASED, one, other)
        for writer, reader in ((one, other), (other, one)):
            if {writer.operands[number] for number, _ in in_place_operands(writer)} & set(reader.operands):
                raise _cannot_combine(by.SIBLING_OVERWRITES_OPERAND, reader, writer)
        self._check_results(one, other)

    def _check_kinds(self, one: Node, other: Node) -> None:
        if self._graph.computation not in set(fusible_computations(self._module)):
            raise HloError(
                f"{self._graph.computation.name} is a fused or applied computation", hint="fuse its caller instead"
            )
        for node, rule in ((one, by.PRODUCER_NOT_FUSIBLE), (other, by.CONSUMER_NOT_FUSIBLE)):
            if not is_fusible(node) or node.opcode in _NO_KERNELS or node.opcode.endswith(_ASYNC_SUFFIXES):
                raise _cannot_fuse(rule, one, other)
        for node in (one, other):
            if node.kind == "kCustom":
                raise HloError(f"{node.name} is a library call or custom kernel (kCustom) and cannot be fused")

    def _check_aliases(self, producer: Node, consumer: Node) -> None:
        """Raises HloError if an output aliases an operand that the fusion would remove."""
        if producer.aliasing:
            raise _cannot_fuse(by.ALIASED, producer, consumer)
        if any(consumer.operands[alias.operand_number] is producer for alias in consumer.aliasing):
            raise _cannot_fuse(by.OVERWRITTEN_BY_CONSUMER, producer, consumer)

    def _check_paths(self, waiting: list[Node], producer: Node, consumer: Node) -> None:
        """Raises HloError if a node that depends on the producer would be both before and after the fusion."""
        if consumer in waiting or self._graph.reaches(waiting, consumer):
            raise _cannot_fuse(by.INDIRECT_DEPENDENCY, producer, consumer)
        if waiting and not self._hazards.has_no_writes(self._graph, producer, consumer):
            raise _cannot_fuse(by.OVERWRITTEN, producer, consumer)

    def _check_results(self, one: Node, other: Node) -> None:
        """Raises HloError if the results cannot be computed in one loop."""
        if not (are_elements_used(one) and are_elements_used(other)):
            raise _cannot_combine(by.USED_AS_TUPLE, one, other)
        shapes = result_shape(one), result_shape(other)
        are_alike = shapes[0] == shapes[1] if self._is_cpu else sizes_of(shapes[0]) == sizes_of(shapes[1])
        if not are_alike:
            raise _cannot_combine(by.SHAPE_MISMATCH, one, other)
        if self._is_cpu and not all(map(gives_elements, (one, other))):
            raise _cannot_combine(by.SIBLINGS_NOT_ELEMENTWISE, one, other)
        if not self._hazards.has_no_writes(self._graph, one, other):
            raise _cannot_combine(by.OVERWRITTEN, one, other)


def _no_loop(producer: Node, consumer: Node, rule: Rule) -> Rule | None:
    """Rule by which the two cannot be computed in one CPU loop, if any; a fusion of loops is a loop."""
    inside = () if consumer.body is None else tuple(consumer.body.operations)
    if any(node.opcode in _ALONE for node in inside):
        return by.NO_LOOP_FUSION
    if rule.fuses:
        return None
    if not _is_loop(producer):
        return by.NOT_ELEMENTWISE
    return None if _is_loop(consumer) else by.NO_LOOP_FUSION


def _is_loop(node: Node) -> bool:
    return is_loop(node) or (
        node.body is not None and node.kind == "kLoop" and all(map(_is_in_loop, node.body.operations))
    )


def _is_in_loop(node: Node) -> bool:
    return is_loop(node) or node.opcode in _LOOP_ONLY


def _cannot_fuse(rule: Rule, producer: Node, consumer: Node) -> HloError:
    return HloError(
        f"cannot fuse {producer.name} into {consumer.name}", hint=rule.explain(producer.name, consumer.name)
    )


def _cannot_combine(rule: Rule, one: Node, other: Node) -> HloError:
    return HloError(f"cannot fuse {one.name} and {other.name}", hint=rule.explain(one.name, other.name))
