"""Decides whether a producer is fused into its consumer, and by which rule of the CPU compiler.

Mirrors `CpuInstructionFusion::ShouldFuse` of xla/service/cpu/cpu_instruction_fusion.cc and
`InstructionFusion::ShouldFuse` of xla/service/instruction_fusion.cc, in jaxlib 0.10.2.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.code_duplication import EmissionCounter
from hlo_cli.analysis.fusion.elements import ELEMENTWISE, is_effective_scalar, is_elementwise, reused_operands, sizes_of
from hlo_cli.analysis.fusion.expensive_ops import is_expensive
from hlo_cli.analysis.fusion.graph import FusionBody, Node
from hlo_cli.analysis.fusion.in_place import in_place_rule
from hlo_cli.analysis.fusion.rules import FusionRules, Rule
from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.ir.shape import ArrayShape

_LOOP_OPCODES: Final = (
    ELEMENTWISE
    | BLOCK_MOVES
    | frozenset("bitcast broadcast concatenate gather iota pad reduce reshape reverse transpose".split())
)
_PERHAPS_ELEMENTWISE: Final = frozenset((opcodes.FUSION, opcodes.MAP, opcodes.BITCAST_CONVERT))
# The fused loop selects the operand of a concatenate by a tree of branches (`kMaxConcatenateArguments`).
_MAX_CONCATENATED: Final = 8
_LARGE_MINOR_DIMENSION: Final = 128
_MAX_CACHED_BYTES: Final = 16384
"""Size of a vector, exclusive, that stays in the cache while it is read again (`kFusionThresholdBytes`)."""
# More reductions make LLVM modules that take very long to compile. The test counts before fusing: six fit.
_MAX_REDUCES: Final = 5


class FusionDecider:
    """Decides on producer–consumer pairs of one computation; its caller reports every fusion made in between."""

    __slots__ = ("_emissions", "_reused", "_root", "_rules")

    def __init__(self, rules: FusionRules, root: Node | None) -> None:
        self._rules = rules
        self._root = root
        self._reused: dict[Node, set[Node]] = {}
        self._emissions: dict[Node, EmissionCounter] = {}

    def rule(self, producer: Node, consumer: Node) -> Rule:
        """First rule that applies to the pair, in the order of XLA's tests.

        >>> from hlo_cli import parse_module
        >>> from hlo_cli.analysis.fusion.graph import graph_of
        >>> text = "ENTRY e { p = s8[9] parameter(0) n = s8[9] not(p) c = s8[9] copy(n) ROOT s = s8[9] sort(c) }"
        >>> graph = graph_of(parse_module(text).entry)
        >>> p, n, c, s = graph.nodes
        >>> [FusionDecider(by.SHIPPED, graph.root).rule(*pair).name for pair in ((p, n), (n, c), (c, s))]
        ['not-elementwise', 'loop', 'no-loop-fusion']
        """
        return (
            self._opcode_rule(producer, consumer)
            or self._duplication_rule(producer, consumer)
            or in_place_rule(producer, consumer)
            or self._limit_rule(producer, consumer)
        )

    def begin_fuse(self, producer: Node, fusion: Node) -> set[Node]:
        """Records that `producer` is about to be fused; returns its indexing users for `end_fuse`."""
        self._update_reuse(producer, fusion)
        if fusion not in self._emissions:
            self._emissions[fusion] = EmissionCounter(fusion)
        return self._emissions[fusion].remove_operand(producer)

    def end_fuse(self, clone: Node, fusion: Node, indexing_users: set[Node]) -> None:
        """Records the clone of a producer in the fused computation."""
        self._emissions[fusion].add_fused(clone, indexing_users)

    def replace_root(self, root: Node) -> None:
        """Records a new root of the computation."""
        self._root = root

    def _opcode_rule(self, producer: Node, consumer: Node) -> Rule | None:
        """Rule that follows from the two operations alone, if any."""
        if consumer.kind == "kCustom":
            return by.LIBRARY_CALL
        if producer.opcode == opcodes.CONSTANT and not is_effective_scalar(producer.shape):
            return by.CONSTANT_ARRAY
        if _is_output_fusion(producer, consumer):
            return by.OUTPUT_FUSION
        if producer.opcode == "add" and any(_is_output_fusion(operand, producer) for operand in producer.operands):
            return by.RESERVED_FOR_DOT
        if not is_loop(producer):
            return by.NOT_ELEMENTWISE
        if _is_large_concatenate(producer) or _is_large_concatenate(consumer):
            return by.CONCATENATE
        if producer.body is None and is_expensive(producer) and producer in self._reused_by(consumer):
            return by.EXPENSIVE_REUSE
        return None

    def _duplication_rule(self, producer: Node, consumer: Node) -> Rule | None:
        """Rule that forbids to compute the producer more than once, if any."""
        if producer is self._root:
            return by.ROOT
        if (len(producer.users) == 1 and consumer in producer.users) or _is_cheap_to_duplicate(producer):
            return None
        if not self._rules.may_duplicate:
            return by.NO_DUPLICATION
        return by.EXPENSIVE_DUPLICATION if is_expensive(producer) else None

    def _limit_rule(self, producer: Node, consumer: Node) -> Rule:
        """Rule that follows from the resulting fusion or, finally, from the consumer."""
        body = consumer.body
        if body is not None and producer.opcode == opcodes.REDUCE and _reduces_in(body) > _MAX_REDUCES:
            return by.TOO_MANY_REDUCES
        # A fusion of a constant and one other operation is not worth a kernel of its own, so XLA waits for a third.
        if producer.opcode == opcodes.CONSTANT and body is None:
            return by.CONSTANT
        # CpuInstructionFusion has no output fusion of a fusion into its user.
        if producer.opcode == opcodes.FUSION:
            return by.FUSION_PRODUCER
        if body is not None and self._rules.may_duplicate and self._emission_counter(consumer).exceeds_limit(producer):
            return by.CODE_SIZE
        if consumer.opcode == opcodes.DOT and _is_small_matrix_vector(producer, consumer):
            return by.VECTOR_DOT
        is_taking = is_loop(consumer) or (
            body is not None and consumer.kind == "kLoop" and body.root.opcode != opcodes.SCATTER
        )
        return by.LOOP if is_taking else by.NO_LOOP_FUSION

    def _emission_counter(self, fusion: Node) -> EmissionCounter:
        if fusion not in self._emissions:
            self._emissions[fusion] = EmissionCounter(fusion)
        return self._emissions[fusion]

    def _reused_by(self, consumer: Node) -> set[Node]:
        if consumer not in self._reused:
            self._reused[consumer] = reused_operands(consumer)
        return self._reused[consumer]

    def _update_reuse(self, producer: Node, fusion: Node) -> None:
        """Updates the operands that a fusion reads more than once."""
        # InstructionFusion caches this set and updates it on fusing; it does not analyze the new fusion.
        reused = self._reused_by(fusion)
        if producer in reused:
            reused.remove(producer)
            reused.update(producer.operands)
        else:
            reused |= self._reused_by(producer)


def is_loop(node: Node) -> bool:
    """Whether the CPU compiler computes the operation element by element (`CanBeLoopFused`)."""
    return node.opcode in _LOOP_OPCODES or (node.opcode in _PERHAPS_ELEMENTWISE and is_elementwise(node))


def _reduces_in(body: FusionBody) -> int:
    return sum(node.opcode == opcodes.REDUCE for node in body.nodes)


def _is_output_fusion(product: Node, add: Node) -> bool:
    """Whether `product` is a matrix–vector dot whose only use is `add` (`CanBeOutputFused`)."""
    if add.opcode != "add" or product.opcode != opcodes.DOT or not isinstance(product.shape, ArrayShape):
        return False
    return (
        product.shape.element_type.kind != "complex"
        and product.shape.rank <= 1
        and not product.instruction.integers("lhs_batch_dims")
        and len(product.users) == 1
        and add in product.users
        and add.operands.count(product) == 1
    )


def _is_large_concatenate(node: Node) -> bool:
    """Whether a concatenate has many operands, or concatenates along a minor-most dimension of at least 128."""
    if node.opcode != "concatenate" or not isinstance(node.shape, ArrayShape):
        return False
    if len(node.operands) > _MAX_CONCATENATED:
        return True
    shape = node.shape
    along = node.instruction.integers("dimensions")[:1]
    return (
        shape.rank > 1
        and along == shape.layout.minor_to_major[:1]
        and shape.dimensions[along[0]] >= _LARGE_MINOR_DIMENSION
    )


def _is_cheap_to_duplicate(producer: Node) -> bool:
    """Whether the producer is a broadcast or a widening convert: its operand is smaller than its result."""
    if producer.opcode == opcodes.CONVERT:
        return producer.operands[0].shape.logical_bytes < producer.shape.logical_bytes
    return producer.opcode == opcodes.BROADCAST


def _is_small_matrix_vector(producer: Node, product: Node) -> bool:
    """Whether the product is that of a matrix, computed by the producer, and a vector that fits in cache."""
    if len(sizes_of(product.shape)) > 1:
        return False
    for vector, matrix in ((0, 1), (1, 0)):
        shape = product.operands[vector].shape
        if (
            product.operands[matrix] is producer
            and len(sizes_of(shape)) == 1
            and shape.logical_bytes < _MAX_CACHED_BYTES
        ):
            return True
    return False
