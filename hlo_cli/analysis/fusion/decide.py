"""Whether a producer joins its consumer, and which rule says so: those of the CPU compiler.

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

_LOOPS: Final = (
    ELEMENTWISE
    | BLOCK_MOVES
    | frozenset("bitcast broadcast concatenate gather iota pad reduce reshape reverse transpose".split())
)
_PERHAPS_ELEMENTWISE: Final = frozenset((opcodes.FUSION, opcodes.MAP, opcodes.BITCAST_CONVERT))
_MOST_CONCATENATED: Final = 8
_LONG_MINOR: Final = 128
_CACHED_BYTES: Final = 16384
"""A vector smaller than this is read again and again at no cost."""
_MOST_REDUCES: Final = 5


class FusionDecider:
    """Decides on pairs of one computation, and is told what is fused in between."""

    __slots__ = ("_emissions", "_reused", "_root", "_rules")

    def __init__(self, rules: FusionRules, root: Node | None) -> None:
        self._rules = rules
        self._root = root
        self._reused: dict[Node, set[Node]] = {}
        self._emissions: dict[Node, EmissionCounter] = {}

    def rule(self, producer: Node, consumer: Node) -> Rule:
        """The first rule that decides about the two.

        >>> from hlo_cli import parse_module
        >>> from hlo_cli.analysis.fusion.graph import graph_of
        >>> text = "ENTRY e { p = s8[9] parameter(0) n = s8[9] not(p) c = s8[9] copy(n) ROOT s = s8[9] sort(c) }"
        >>> graph = graph_of(parse_module(text).entry)
        >>> p, n, c, s = graph.nodes
        >>> [FusionDecider(by.SHIPPED, graph.root).rule(*pair).name for pair in ((p, n), (n, c), (c, s))]
        ['not-a-loop', 'loop', 'no-loop-fusion']
        """
        return (
            self._of_kinds(producer, consumer)
            or self._of_copies(producer, consumer)
            or in_place_rule(producer, consumer)
            or self._of_sizes(producer, consumer)
        )

    def joins(self, producer: Node, fusion: Node) -> set[Node]:
        """The producer is about to join the fusion; what comes back is for `joined`."""
        self._note_reuse(producer, fusion)
        if fusion not in self._emissions:
            self._emissions[fusion] = EmissionCounter(fusion)
        return self._emissions[fusion].leave(producer)

    def joined(self, clone: Node, fusion: Node, asking: set[Node]) -> None:
        """The clone of a producer is in the fusion now."""
        self._emissions[fusion].join(clone, asking)

    def replaced(self, root: Node) -> None:
        """The computation has another root now."""
        self._root = root

    def _of_kinds(self, producer: Node, consumer: Node) -> Rule | None:
        """What the two operations are decides, whoever else uses them."""
        if consumer.kind == "kCustom":
            return by.LIBRARY
        if producer.opcode == opcodes.CONSTANT and not is_effective_scalar(producer.shape):
            return by.CONSTANT_ARRAY
        if _adds_to_product(producer, consumer):
            return by.OUTPUT
        if producer.opcode == "add" and any(_adds_to_product(operand, producer) for operand in producer.operands):
            return by.FUSED_WITH_PRODUCT
        if not is_loop(producer):
            return by.NOT_A_LOOP
        if _is_long_concatenate(producer) or _is_long_concatenate(consumer):
            return by.CONCATENATE
        if producer.body is None and is_expensive(producer) and producer in self._reused_by(consumer):
            return by.EXPENSIVE_REUSE
        return None

    def _of_copies(self, producer: Node, consumer: Node) -> Rule | None:
        """Whether the producer would be computed more than once, and may be."""
        if producer is self._root:
            return by.ROOT
        if (len(producer.users) == 1 and consumer in producer.users) or _is_worth_a_copy(producer):
            return None
        if not self._rules.may_duplicate:
            return by.NO_COPIES
        return by.EXPENSIVE_COPY if is_expensive(producer) else None

    def _of_sizes(self, producer: Node, consumer: Node) -> Rule:
        """What the fusion would become decides, and at last what the consumer is."""
        body = consumer.body
        if body is not None and producer.opcode == opcodes.REDUCE and _reduces_in(body) > _MOST_REDUCES:
            return by.REDUCES
        if producer.opcode == opcodes.CONSTANT and body is None:
            return by.CONSTANT
        if producer.opcode == opcodes.FUSION:
            return by.FUSION_PRODUCER
        if body is not None and self._rules.may_duplicate and self._emissions_of(consumer).are_too_many(producer):
            return by.CODE_SIZE
        if consumer.opcode == opcodes.DOT and _is_by_small_vector(producer, consumer):
            return by.VECTOR_DOT
        is_taking = is_loop(consumer) or (
            body is not None and consumer.kind == "kLoop" and body.root.opcode != opcodes.SCATTER
        )
        return by.LOOP if is_taking else by.NO_LOOP_FUSION

    def _emissions_of(self, fusion: Node) -> EmissionCounter:
        if fusion not in self._emissions:
            self._emissions[fusion] = EmissionCounter(fusion)
        return self._emissions[fusion]

    def _reused_by(self, consumer: Node) -> set[Node]:
        if consumer not in self._reused:
            self._reused[consumer] = reused_operands(consumer)
        return self._reused[consumer]

    def _note_reuse(self, producer: Node, fusion: Node) -> None:
        """What a fusion reads more than once is kept from step to step, not found anew, as the compiler does."""
        reused = self._reused_by(fusion)
        if producer in reused:
            reused.remove(producer)
            reused.update(producer.operands)
        else:
            reused |= self._reused_by(producer)


def is_loop(node: Node) -> bool:
    """Whether the CPU compiler computes the operation element by element."""
    return node.opcode in _LOOPS or (node.opcode in _PERHAPS_ELEMENTWISE and is_elementwise(node))


def _reduces_in(body: FusionBody) -> int:
    return sum(node.opcode == opcodes.REDUCE for node in body.nodes)


def _adds_to_product(product: Node, add: Node) -> bool:
    """Whether an add takes a vector that a dot makes for it alone."""
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


def _is_long_concatenate(node: Node) -> bool:
    """Whether a concatenate has many operands, or puts them side by side where memory is walked through."""
    if node.opcode != "concatenate" or not isinstance(node.shape, ArrayShape):
        return False
    if len(node.operands) > _MOST_CONCATENATED:
        return True
    shape = node.shape
    along = node.instruction.integers("dimensions")[:1]
    return shape.rank > 1 and along == shape.layout.minor_to_major[:1] and shape.dimensions[along[0]] >= _LONG_MINOR


def _is_worth_a_copy(producer: Node) -> bool:
    """Whether it is better to compute the producer again than to read it: it is larger than what it is made of."""
    if producer.opcode == opcodes.CONVERT:
        return producer.operands[0].shape.logical_bytes < producer.shape.logical_bytes
    return producer.opcode == opcodes.BROADCAST


def _is_by_small_vector(producer: Node, product: Node) -> bool:
    """Whether the product is that of a matrix, which the producer makes, and a small vector."""
    if len(sizes_of(product.shape)) > 1:
        return False
    for vector, matrix in ((0, 1), (1, 0)):
        shape = product.operands[vector].shape
        if product.operands[matrix] is producer and len(sizes_of(shape)) == 1 and shape.logical_bytes < _CACHED_BYTES:
            return True
    return False
