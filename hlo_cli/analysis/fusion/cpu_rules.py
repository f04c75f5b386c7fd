"""Does the CPU compiler fuse a producer into its consumer, or siblings into one kernel, and by which rule?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import (
    ELEMENTWISE_WHEN_FUSED,
    EmissionCounter,
    FusionBody,
    Node,
    is_effective_scalar,
    is_elementwise,
    is_expensive,
    is_fusible,
    reused_operands,
    sizes_of,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Slice, SliceDimension
from hlo_cli.ir.operations import (
    BLOCK_MOVES,
    COLLECTIVES,
    CONTROL_FLOW,
    DONES,
    HOST_FEEDS,
    NATIVE_DONES,
    OWN_KERNELS,
    RANDOM_STATE,
)
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex

# --- the rules ---
# Rules that decide whether a producer–consumer pair is fused.
#
# Mirrors the decisions of `ShouldFuse` in xla/service/cpu/cpu_instruction_fusion.cc and
# xla/service/instruction_fusion.cc.


@dataclass(frozen=True, slots=True)
class Rule:
    """Named rule with a message template for producer and consumer; `fuses` if the pair is fused.

    >>> EXPENSIVE_REUSE.explain("tanh", "broadcast")
    'tanh is expensive and broadcast reads its elements more than once'
    """

    name: str
    template: str
    fuses: bool = False

    def explain(self, producer: str, consumer: str) -> str:
        """Message of the rule for two names."""
        return self.template.format(producer=producer, consumer=consumer)


LOOP: Final = Rule("loop", "{producer} can be fused into the loop of {consumer}", fuses=True)
OUTPUT_FUSION: Final = Rule("output-fusion", "{consumer} can be fused into the output of the matmul", fuses=True)
VECTOR_DOT: Final = Rule("vector-dot", "the other operand of {consumer} is a vector that fits in cache", fuses=True)
SIBLINGS: Final = Rule(
    "siblings", "{producer} and {consumer} have common operands and can form a multi-output fusion", fuses=True
)

PRODUCER_NOT_FUSIBLE: Final = Rule(
    "producer-not-fusible", "{producer} cannot be part of a fusion because of its opcode or side effects"
)
CONSUMER_NOT_FUSIBLE: Final = Rule(
    "consumer-not-fusible", "{consumer} cannot be part of a fusion because of its opcode or side effects"
)
LIBRARY_CALL: Final = Rule("library-call", "{consumer} is a library call or custom kernel (kCustom)")
CONSTANT_ARRAY: Final = Rule("constant-array", "{producer} is a constant array, which is in memory anyway")
RESERVED_FOR_DOT: Final = Rule("reserved-for-dot", "{producer} is reserved for output fusion with a matmul")
NOT_ELEMENTWISE: Final = Rule("not-elementwise", "{producer} is not elementwise")
CONCATENATE: Final = Rule("concatenate", "concatenates with many operands, or along the minor dimension, are not fused")
EXPENSIVE_REUSE: Final = Rule(
    "expensive-reuse", "{producer} is expensive and {consumer} reads its elements more than once"
)
ROOT: Final = Rule("root", "{producer} is the root of the computation")
EXPENSIVE_DUPLICATION: Final = Rule(
    "expensive-duplication", "{producer} is expensive and has other users, so it would be computed twice"
)
NO_DUPLICATION: Final = Rule("no-duplication", "{producer} has other users and duplication is disabled")
IN_PLACE_READS_OPERAND: Final = Rule(
    "in-place-reads-operand", "{consumer} updates an operand in place and also reads it"
)
IN_PLACE: Final = Rule("in-place", "{consumer} overwrites in place a buffer that {producer} still reads")
TOO_MANY_REDUCES: Final = Rule("too-many-reduces", "{consumer} already contains at least six reduces")
CONSTANT: Final = Rule("constant", "constants are only added to existing fusions")
FUSION_PRODUCER: Final = Rule("fusion-producer", "{producer} is already a fusion")
CODE_SIZE: Final = Rule("code-size", "the code of {producer} would be duplicated too often in {consumer}")
NO_LOOP_FUSION: Final = Rule("no-loop-fusion", "{consumer} does not support loop fusion")
NOT_ON_ALL_PATHS: Final = Rule(
    "not-on-all-paths", "{producer} cannot be fused into all of its users, so it would be computed again"
)
OVERWRITTEN: Final = Rule("overwritten", "an operand of {producer} is overwritten before {consumer} runs")
MULTI_OUTPUT_DISABLED: Final = Rule(
    "multi-output-disabled", "multi-output fusion requires xla_cpu_use_multi_output_fusion"
)
INDIRECT_DEPENDENCY: Final = Rule(
    "indirect-dependency",
    "{consumer} also depends on {producer} through other instructions, so fusing would create a cycle",
)
ALIASED: Final = Rule("aliased", "{producer} updates an operand in place")
OVERWRITTEN_BY_CONSUMER: Final = Rule(
    "overwritten-by-consumer", "{consumer} overwrites {producer} in place, so {producer} must be in memory"
)
SIBLING_OVERWRITES_OPERAND: Final = Rule("sibling-overwrites-operand", "{consumer} overwrites an operand of {producer}")
USED_AS_TUPLE: Final = Rule("used-as-tuple", "the result of one of them is used as a tuple")
SHAPE_MISMATCH: Final = Rule("shape-mismatch", "their shapes differ, and a multi-output fusion needs equal shapes")
SIBLINGS_NOT_ELEMENTWISE: Final = Rule("siblings-not-elementwise", "one of them is not elementwise")

PAIR_RULES: Final = (
    *(LOOP, OUTPUT_FUSION, VECTOR_DOT),
    *(PRODUCER_NOT_FUSIBLE, CONSUMER_NOT_FUSIBLE, NOT_ON_ALL_PATHS),
    *(LIBRARY_CALL, CONSTANT_ARRAY, RESERVED_FOR_DOT, NOT_ELEMENTWISE, CONCATENATE),
    *(EXPENSIVE_REUSE, ROOT, EXPENSIVE_DUPLICATION, NO_DUPLICATION, IN_PLACE_READS_OPERAND, IN_PLACE),
    *(TOO_MANY_REDUCES, CONSTANT, FUSION_PRODUCER, CODE_SIZE, NO_LOOP_FUSION),
)
"""Rules of the fusion pass for a producer and a consumer; those that allow the fusion come first."""

ALL: Final = (
    *PAIR_RULES,
    *(SIBLINGS, OVERWRITTEN, MULTI_OUTPUT_DISABLED, INDIRECT_DEPENDENCY, ALIASED, OVERWRITTEN_BY_CONSUMER),
    *(SIBLING_OVERWRITES_OPERAND, USED_AS_TUPLE, SHAPE_MISMATCH, SIBLINGS_NOT_ELEMENTWISE),
)
"""All rules, with those of a new order and of multi-output fusions."""


@dataclass(frozen=True, slots=True)
class FusionRules:
    """Options of the fusion passes; the defaults are those of jaxlib 0.10.2.

    - `may_duplicate` is off, and `multi_output` on, with XLA's `xla_cpu_use_multi_output_fusion`.
    - `guard_softmax` materializes the operand of a softmax, and `wrap_transpose` wraps lone transposes, as newer
      releases.
    - `wrap` wraps lone operations that are compiled as loops in fusions.
    """

    may_duplicate: bool = True
    multi_output: bool = False
    guard_softmax: bool = False
    wrap: bool = True
    wrap_transpose: bool = False


SHIPPED: Final = FusionRules()
"""Rules of jaxlib 0.10.2."""


# --- operations that update in place ---
# Whether a fusion keeps an in-place operation from overwriting elements before they are read.
#
# Mirrors `ShouldFuseInPlaceOp` of xla/service/instruction_fusion.cc and `GetInPlaceInputOutputPairs` of
# xla/hlo/analysis/alias_info.cc.


_TRANSPARENT: Final = frozenset((opcodes.BITCAST, opcodes.PARAMETER))


def in_place_rule(producer: Node, consumer: Node) -> Rule | None:
    """Rule that forbids the fusion because the consumer updates an operand in place; None if no rule does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = '''ENTRY e { a = f32[9] parameter(0)  i = s32[] parameter(1)  u = f32[9] reverse(a), dimensions={0}
    ... ROOT r = f32[9] dynamic-update-slice(a, u, i) }'''
    >>> root = mutable_graph_of(parse_module(text).entry).root
    >>> in_place_rule(root.operands[1], root).name
    'in-place'
    >>> root = mutable_graph_of(parse_module(text.replace("(a, u, i)", "(u, u, i)")).entry).root
    >>> in_place_rule(root.operands[1], root).name
    'in-place-reads-operand'
    """
    for number, result in in_place_operands(consumer):
        overwritten = consumer.operands[number]
        if consumer.operands.count(overwritten) > 1:
            return IN_PLACE_READS_OPERAND
        # The first pair that concerns the producer decides, as in instruction_fusion.cc; later pairs are not tested.
        if overwritten is producer or overwritten in producer.operands:
            return None if _reads_before_write(producer, consumer, result) else IN_PLACE
    return None


def in_place_operands(node: Node) -> Iterator[tuple[int, Node]]:
    """Yields the numbers of operands that are updated in place, each with the node that computes the result."""
    match node.opcode:
        case opcodes.DYNAMIC_UPDATE_SLICE:
            yield 0, node
        case opcodes.SCATTER:
            # n inputs, the indices, n updates: half of the operands, rounded down, are inputs.
            yield from ((number, node) for number in range(len(node.operands) // 2))
        case opcodes.ALL_REDUCE_START:
            yield from ((number, node) for number in range(len(node.operands)))
        case opcodes.FUSION if node.body is not None:
            for index, leaf in node.shape.leaves:
                if isinstance(leaf, ArrayShape):
                    result, inner = _producer_of_leaf(node.body.root, index)
                    number = _overwritten_parameter(result, inner)
                    if number is not None:
                        yield number, result


def _producer_of_leaf(node: Node, index: ShapeIndex) -> tuple[Node, ShapeIndex]:
    """Node that computes the element `index` of a value, through tuples and get-tuple-elements."""
    while True:
        if node.opcode == opcodes.TUPLE and index:
            node, index = node.operands[index[0]], index[1:]
        elif node.opcode == opcodes.GET_TUPLE_ELEMENT:
            node, index = node.operands[0], (node.element, *index)
        else:
            return node, index


def _overwritten_parameter(node: Node, index: ShapeIndex) -> int | None:
    """Number of the parameter that an operation updates in place, through bitcasts before and after it."""
    node = _without_bitcasts(node)
    if node.opcode not in (opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER) or len(index) > 1:
        return None
    taken = _without_bitcasts(node.operands[index[0] if index else 0])
    return taken.number if taken.opcode == opcodes.PARAMETER else None


def _without_bitcasts(node: Node) -> Node:
    while node.opcode == opcodes.BITCAST:
        node = node.operands[0]
    return node


def _reads_before_write(producer: Node, consumer: Node, result: Node) -> bool:
    """Whether each element of the updated buffer is read before it is overwritten."""
    inside = [producer] if producer.body is None else list(producer.body.operations)
    moving = [node for node in inside if not is_elementwise(node) and node.opcode not in _TRANSPARENT]
    # With two moves the order of reads and writes is not followed further.
    if len(moving) > 1:
        return False
    if not moving:
        # A bare consumer reads the element at the place that it writes, so only a fusion can read elsewhere.
        return consumer.body is None or not _is_moved_by_others(producer, consumer, result)
    within = [consumer] if consumer.body is None else list(consumer.body.operations)
    updates = [node for node in within if node.opcode == opcodes.DYNAMIC_UPDATE_SLICE]
    # A scatter: XLA makes no test here, as its updates are not at known places.
    if not updates:
        return True
    return (
        len(updates) == 1
        and _slices_update_region(moving[0], producer, updates[0], consumer)
        and (consumer.body is None or not _is_moved_by_others(producer, consumer, result))
    )


def _is_moved_by_others(producer: Node, fusion: Node, result: Node) -> bool:
    """Whether a non-elementwise operation other than `result` uses the producer's value in the fusion."""
    assert fusion.body is not None
    waiting = [fusion.body.parameters[fusion.operands.index(producer)]]
    visited = set(waiting)
    while waiting:
        node = waiting.pop()
        if node is not result and node.opcode not in _TRANSPARENT and not is_elementwise(node):
            return True
        waiting.extend(user for user in node.users if user not in visited)
        visited.update(node.users)
    return False


def _slices_update_region(slice_node: Node, producer: Node, update: Node, consumer: Node) -> bool:
    """Whether a slice reads exactly the region that the dynamic-update-slice writes."""
    # Only the very same region is read before it is written; a larger slice reads beyond it.
    if slice_node.shape != update.operands[1].shape:
        return False
    starts = [outer_value(node, consumer) for node in update.operands[2:]]
    if slice_node.opcode == opcodes.DYNAMIC_SLICE:
        own = [outer_value(node, producer) for node in slice_node.operands[1:]]
        return len(own) == len(starts) and all(map(_are_equal, own, starts))
    if slice_node.opcode == opcodes.SLICE:
        bounds = slice_bounds(slice_node)
        return len(bounds) == len(starts) and all(
            bound.stride == 1 and constant_value(start) == bound.start
            for start, bound in zip(starts, bounds, strict=True)
        )
    return False


def outer_value(node: Node, around: Node) -> Node:
    """Operand of a fusion for one of its parameters; other nodes unchanged."""
    is_inner = node.opcode == opcodes.PARAMETER and around.body is not None and node in around.body.nodes
    return around.operands[node.number] if is_inner else node


def _are_equal(first: Node, second: Node) -> bool:
    return first is second or ((number := constant_value(first)) is not None and number == constant_value(second))


def constant_value(node: Node) -> int | None:
    """The integer that a node is, None for what is no constant or not an integer."""
    # The text of the literal: reading values would load the evaluation for a single integer.
    text = node.instruction.raw[0].strip() if node.opcode == opcodes.CONSTANT else ""
    return int(text) if text.removeprefix("-").isdecimal() else None


def slice_bounds(node: Node) -> tuple[SliceDimension, ...]:
    """Start, limit, and stride of each dimension of a slice."""
    sliced = node.instruction.value_of("slice", Slice)
    return () if sliced is None else sliced.dimensions


# --- a producer and its consumer ---
# Decides whether a producer is fused into its consumer, and by which rule of the CPU compiler.
#
# Mirrors `CpuInstructionFusion::ShouldFuse` of xla/service/cpu/cpu_instruction_fusion.cc and
# `InstructionFusion::ShouldFuse` of xla/service/instruction_fusion.cc, in jaxlib 0.10.2.


_LOOP_OPCODES: Final = (
    ELEMENTWISE_WHEN_FUSED
    | BLOCK_MOVES
    | frozenset("bitcast broadcast concatenate gather iota pad reduce reshape reverse transpose".split())
)
# Elementwise or not by their body, dimensions, or widths.
_PERHAPS_ELEMENTWISE: Final = frozenset((opcodes.FUSION, opcodes.MAP, opcodes.BITCAST_CONVERT))
# The fused loop selects the operand of a concatenate by a tree of branches (`kMaxConcatenateArguments`).
_MAX_CONCATENATED: Final = 8
# cpu_instruction_fusion.cc: fused, the innermost loop would branch for each element.
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
        >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
        >>> text = "ENTRY e { p = s8[9] parameter(0) n = s8[9] not(p) c = s8[9] copy(n) ROOT s = s8[9] sort(c) }"
        >>> graph = mutable_graph_of(parse_module(text).entry)
        >>> p, n, c, s = graph.nodes
        >>> [FusionDecider(SHIPPED, graph.root).rule(*pair).name for pair in ((p, n), (n, c), (c, s))]
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
        # The tests stand in XLA's order: the first that applies gives the reason, as its log has it.
        if consumer.kind == "kCustom":
            return LIBRARY_CALL
        if producer.opcode == opcodes.CONSTANT and not is_effective_scalar(producer.shape):
            return CONSTANT_ARRAY
        if _is_output_fusion(producer, consumer):
            return OUTPUT_FUSION
        if producer.opcode == "add" and any(_is_output_fusion(operand, producer) for operand in producer.operands):
            return RESERVED_FOR_DOT
        if not is_loop(producer):
            return NOT_ELEMENTWISE
        if _is_large_concatenate(producer) or _is_large_concatenate(consumer):
            return CONCATENATE
        # A producer that is a fusion is not tested for cost here; `_limit_rule` refuses it anyway.
        if producer.body is None and is_expensive(producer) and producer in self._reused_by(consumer):
            return EXPENSIVE_REUSE
        return None

    def _duplication_rule(self, producer: Node, consumer: Node) -> Rule | None:
        """Rule that forbids to compute the producer more than once, if any."""
        if producer is self._root:
            return ROOT
        # XLA compares the set of users, so a consumer that uses the producer twice is one.
        if (len(producer.users) == 1 and consumer in producer.users) or _is_cheap_to_duplicate(producer):
            return None
        # instruction_fusion.cc: without duplication even a cheap producer stays apart.
        if not self._rules.may_duplicate:
            return NO_DUPLICATION
        return EXPENSIVE_DUPLICATION if is_expensive(producer) else None

    def _limit_rule(self, producer: Node, consumer: Node) -> Rule:
        """Rule that follows from the resulting fusion or, finally, from the consumer."""
        body = consumer.body
        if body is not None and producer.opcode == opcodes.REDUCE and _reduces_in(body) > _MAX_REDUCES:
            return TOO_MANY_REDUCES
        # A fusion of a constant and one other operation is not worth a kernel of its own, so XLA waits for a third.
        if producer.opcode == opcodes.CONSTANT and body is None:
            return CONSTANT
        # CpuInstructionFusion has no output fusion of a fusion into its user.
        if producer.opcode == opcodes.FUSION:
            return FUSION_PRODUCER
        # Without duplication code is emitted once, so XLA counts only with it.
        if body is not None and self._rules.may_duplicate and self._emission_counter(consumer).exceeds_limit(producer):
            return CODE_SIZE
        # A vector in the cache can be read again for each row, so the matrix may be computed where it is used.
        if consumer.opcode == opcodes.DOT and _is_small_matrix_vector(producer, consumer):
            return VECTOR_DOT
        # A fusion rooted at a scatter does not loop over its result, so nothing joins it.
        is_taking = is_loop(consumer) or (
            body is not None and consumer.kind == "kLoop" and body.root.opcode != opcodes.SCATTER
        )
        return LOOP if is_taking else NO_LOOP_FUSION

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
    # Over all nodes of the body, as XLA counts; bodies of nested fusions do not count.
    return len(body.by_opcode.get(opcodes.REDUCE, ()))


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


# --- producers that cannot join all users ---
# Producers that must be materialized because they cannot be fused into all of their users.
#
# Mirrors `ComputeGloballyUnfusible` and `CanFuseOnAllPaths` of xla/service/instruction_fusion.cc.


_FREE_OPERANDS: Final = frozenset((opcodes.BROADCAST, opcodes.IOTA))


def must_materialize(order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> set[Node]:
    """Nodes that read more than they write and cannot be fused into all users.

    `order` is the post-order of the unfused graph, `before` has the control predecessors.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.fusion.cpu_rules import SHIPPED
    >>> text = "a = s8[9] parameter(0) b = s8[9] parameter(1) c = s8[9] add(a, b) d = s8[9] not(c)"
    >>> graph = mutable_graph_of(parse_module(f"ENTRY e {{ {text} ROOT s = (s8[9], s8[9]) tuple(c, d) }}").entry)
    >>> must_materialize(graph.post_order(), {}, FusionDecider(SHIPPED, graph.root))
    {<node add c>}
    """
    # Leaving this set out spoils one in nine of the fusions of real models.
    paths = _Paths(order, before, decider)
    # Users first: whether a producer is kept decides for those before it.
    for consumer in reversed(order):
        for producer in consumer.operands:
            if producer in paths.kept or producer not in paths.bit:
                continue
            if not is_fusible(producer) or not paths.can_fuse_on_all_paths(producer, consumer):
                paths.kept.add(producer)
    return paths.kept


class _Paths:
    """Reachability between nodes, and whether all paths between two can be fused; `bit` indexes the relevant
    producers.
    """

    __slots__ = ("_decider", "_known", "_reachable", "_steps", "bit", "kept")

    def __init__(self, order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> None:
        self.kept: set[Node] = set()
        self.bit: dict[Node, int] = {}
        self._decider = decider
        self._steps: dict[tuple[Node, Node], bool] = {}
        self._known: dict[tuple[Node, Node], bool] = {}
        self._reachable: dict[Node, int] = {}
        for node in order:
            reachable = 0
            for other in (*node.operands, *before.get(node, ())):
                reachable |= self._reachable.get(other, 0)
            if _reads_more_than_it_writes(node):
                self.bit[node] = len(self.bit)
                # Only nodes that can be kept get a bit: sets as integers make this linear in practice.
                reachable |= 1 << self.bit[node]
            self._reachable[node] = reachable

    def can_fuse_on_all_paths(self, producer: Node, consumer: Node) -> bool:
        """Whether every edge on every path from `producer` to `consumer` can be fused."""
        if consumer is producer:
            return True
        bit = self.bit[producer]
        waiting = [consumer]
        while waiting:
            node = waiting[-1]
            if (producer, node) in self._known:
                waiting.pop()
                continue
            answer, unknown = self._decide(producer, node, bit)
            if unknown is not None:
                waiting.append(unknown)
            else:
                self._known[producer, node] = answer
                waiting.pop()
        return self._known[producer, consumer]

    def _decide(self, producer: Node, consumer: Node, bit: int) -> tuple[bool, Node | None]:
        """Whether all paths to `consumer` can be fused; or the operand whose answer is required first."""
        if not is_fusible(consumer):
            return False, None
        for operand in consumer.operands:
            if not self._reachable[operand] >> bit & 1:
                continue
            if operand in self.kept or not self._fuses(operand, consumer):
                return False, None
            if operand is not producer:
                known = self._known.get((producer, operand))
                if known is None:
                    return False, operand
                if not known:
                    return False, None
        return True, None

    def _fuses(self, producer: Node, consumer: Node) -> bool:
        if (producer, consumer) not in self._steps:
            self._steps[producer, consumer] = self._decider.rule(producer, consumer).fuses
        return self._steps[producer, consumer]


def _reads_more_than_it_writes(node: Node) -> bool:
    """Whether more than one operand has the true rank of the result or more, and all have more elements than the
    result.
    """
    rank = max((_true_rank(leaf) for _, leaf in node.shape.leaves), default=0)
    large = (
        _true_rank(operand.shape) >= rank
        for operand in node.operands
        if operand.opcode not in _FREE_OPERANDS
        and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))
    )
    # One large operand at most: computing it again reads no more than reading its result would.
    if sum(large) <= 1:
        return False
    return sum(_elements(operand.shape) for operand in dict.fromkeys(node.operands)) > _elements(node.shape)


def _true_rank(shape: Shape) -> int:
    """Number of dimensions of size other than 1."""
    return sum(size != 1 for size in sizes_of(shape))


def _elements(shape: Shape) -> int:
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


# --- siblings in one kernel ---
# Sibling operations that can be computed by one multi-output kernel, and the bytes that both read.
#
# Mirrors xla/service/cpu/cpu_multi_output_fusion.cc and `LegalToFuse` of xla/service/multi_output_fusion.cc.


_NO_LOOP_OVER_ELEMENTS: Final = (  # what the elemental emitter does not compute element by element
    CONTROL_FLOW
    | COLLECTIVES
    | NATIVE_DONES.keys()
    | DONES
    | HOST_FEEDS
    | OWN_KERNELS
    | RANDOM_STATE
    | {opcodes.FUSION}
    | frozenset(
        """add-dependency after-all batch-norm-grad batch-norm-inference batch-norm-training constant custom-call domain
        dot dynamic-reshape get-dimension-size opt-barrier partition-id replica-id rng-bit-generator scatter
        select-and-scatter set-dimension-size stochastic-convert topk""".split()
    )
)
_MAX_OPERANDS: Final = 20
"""Number of operands, exclusive, up to which the compiler makes multi-output fusions."""


def gives_elements(node: Node) -> bool:
    """Whether the CPU compiler can compute the operation or fusion as part of a multi-output loop.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> less = "c { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }"
    >>> body = "p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT s = f32[9] sort(t), to_apply=c"
    >>> text = f"HloModule m  {less}  ENTRY e {{ {body} }}"
    >>> [gives_elements(node) for node in mutable_graph_of(parse_module(text).entry).nodes]
    [True, True, False]
    """
    if node.body is not None:
        # A dot at the root is not computed element by element.
        return node.kind == "kLoop" and node.body.root.opcode != opcodes.DOT
    return node.opcode not in _NO_LOOP_OVER_ELEMENTS


def result_shape(node: Node) -> Shape:
    """Shape of a result; all results of a multi-output fusion have the same."""
    return node.body.root.operands[0].shape if node.body and node.has_several_results else node.shape


def shared_bytes(first: Node, second: Node) -> int:
    """Bytes that both nodes read and that one kernel reads once.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "p = f32[9] parameter(0)  t = f32[9] tanh(p)  s = f32[9] sine(p)  ROOT r = (f32[9], f32[9]) tuple(t, s)"
    >>> _, t, s, _ = mutable_graph_of(parse_module(f"ENTRY e {{ {text} }}").entry).nodes
    >>> shared_bytes(t, s)
    36
    """
    read = {operand for operand in first.operands if is_worth_sharing(operand)}
    return sum(operand.shape.logical_bytes for operand in second.operands if operand in read)


def is_worth_sharing(operand: Node) -> bool:
    """Whether an operand has several users and is not a scalar constant."""
    # cpu_multi_output_fusion.cc: with one user nothing is read twice, and scalars cost nothing to read.
    return len(operand.users) > 1 and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))


def _share_in_place_operand(first: Node, second: Node) -> bool:
    """Whether both update the same operand in place."""
    written = {first.operands[number] for number, _ in in_place_operands(first)}
    return any(second.operands[number] in written for number, _ in in_place_operands(second))


def are_elements_used(node: Node) -> bool:
    """Whether all users of a multi-output fusion are get-tuple-elements; true for other nodes."""
    return not node.has_several_results or all(user.opcode == opcodes.GET_TUPLE_ELEMENT for user in node.users)


def can_fuse_siblings(fusion: Node, sibling: Node) -> bool:
    """Whether the CPU compiler fuses the two if neither depends on the other."""
    return (
        # The pass extends fusions that exist; two bare operations are left alone.
        fusion.opcode == opcodes.FUSION
        and max(len(fusion.operands), len(sibling.operands)) < _MAX_OPERANDS
        and are_elements_used(fusion)
        and are_elements_used(sibling)
        and not sibling.aliasing
        and result_shape(fusion) == result_shape(sibling)
        and not _share_in_place_operand(fusion, sibling)
    )
