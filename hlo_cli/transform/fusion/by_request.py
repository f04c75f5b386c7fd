"""What is a module with two instructions fused or with fusions expanded, as a user asks, and is that valid?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from hlo_cli.analysis.fusion.mutable_graph import (
    FusionBody,
    MutableGraph,
    Node,
    fusible_computations,
    is_fusible,
    mutable_graph_of,
    sizes_of,
)
from hlo_cli.analysis.fusion.unfused_pairs import rules_of_pairs
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_overlap import UPDATE_OPERANDS
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.source import HloError, expect
from hlo_cli.transform.fusion.cpu_fusion import InPlaceHazards
from hlo_cli.transform.fusion.fused_nodes import create_fusion, make_multi_output, merge_fusion, merge_producer, rebuild
from hlo_cli.transform.in_place_hazards import RewrittenModule, fix_in_place_hazards
from hlo_cli.transform.rewriting import ModuleNames, Names, check_rewritable
from hlo_cli.transform.sugar import desugar

# --- what can be fused ---
# Checks whether two instructions can be fused on request: the result must be valid and equivalent.
#
# Follows XLA's verifier and the limits of its backends, without rules that only concern speed.


# The rules by which a fusion is wrong; all other rules of the pass only say that it is slow.
_INVALID: Final = frozenset((by.LIBRARY_CALL, by.IN_PLACE, by.IN_PLACE_READS_OPERAND))
_ALONE: Final = frozenset((opcodes.SCATTER, opcodes.SORT))
"""Opcodes that a CPU fusion can contain only as its single operation."""
_LOOP_ONLY: Final = frozenset((opcodes.MAP, opcodes.REDUCE_WINDOW))
"""Opcodes that no pass fuses, but that a loop over elements can compute."""
# None of these is a loop over elements that a fusion could compute.
_NO_KERNELS: Final = frozenset(
    (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.AFTER_ALL, opcodes.CUSTOM_CALL, *COLLECTIVES)
)
_ASYNC_SUFFIXES: Final = ("-start", "-update", "-done")
"""Suffixes of async opcodes."""


class FusionChecker:
    """Raises HloError for pairs of one computation that cannot be fused.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> module = parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT t = f32[9] tanh(p) }")
    >>> graph = mutable_graph_of(module.entry)
    >>> FusionChecker(module, graph).check_producer_consumer(*graph.nodes, keep=False)
    Traceback (most recent call last):
    hlo_cli.source.HloError: error: cannot fuse p into t
      help: p cannot be part of a fusion because of its opcode or side effects
    """

    __slots__ = ("_graph", "_hazards", "_is_cpu", "_module")

    def __init__(self, module: Module, graph: MutableGraph) -> None:
        self._module = module
        self._graph = graph
        # Without a platform in the text, the rules are those of the CPU, whose fusions are the strictest.
        self._is_cpu = target_of(module) not in ("tpu", "gpu")
        self._hazards = InPlaceHazards(module)

    def check_producer_consumer(self, producer: Node, consumer: Node, *, keep: bool) -> None:
        """Raises HloError if a producer cannot be fused into its consumer, with `keep` as an additional result."""
        self._check_kinds(producer, consumer)
        # XLA has no fusion with a multi-output producer: its users read elements, not the fusion.
        if producer.has_several_results:
            raise HloError(f"{producer.name} is a multi-output fusion and cannot be fused into another fusion")
        self._check_aliases(producer, consumer)
        rule = FusionDecider(SHIPPED, None).rule(producer, consumer)
        # A CPU fusion is one loop, so a body with more than loops cannot be taken in.
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
        # The root is always used: by the caller.
        elif len(producer.users) == 1 and producer is not self._graph.root:
            self._check_paths(self._graph.control_successors.get(producer, []), producer, consumer)

    def check_siblings(self, first: Node, second: Node) -> None:
        """Raises HloError if two nodes cannot form a multi-output fusion."""
        self._check_kinds(first, second)
        for node, needed in ((second, first), (first, second)):
            if self._graph.reaches((needed,), node):
                raise _cannot_combine(by.INDIRECT_DEPENDENCY, needed, node)
        if first.aliasing:
            raise _cannot_combine(by.ALIASED, first, second)
        for writer, reader in ((first, second), (second, first)):
            if {writer.operands[number] for number, _ in in_place_operands(writer)} & set(reader.operands):
                raise _cannot_combine(by.SIBLING_OVERWRITES_OPERAND, reader, writer)
        self._check_results(first, second)

    def _check_kinds(self, first: Node, second: Node) -> None:
        if self._graph.computation not in set(fusible_computations(self._module)):
            raise HloError(
                f"{self._graph.computation.name} is a fused or applied computation", hint="fuse its caller instead"
            )
        for node, rule in ((first, by.PRODUCER_NOT_FUSIBLE), (second, by.CONSUMER_NOT_FUSIBLE)):
            if not is_fusible(node) or node.opcode in _NO_KERNELS or node.opcode.endswith(_ASYNC_SUFFIXES):
                raise _cannot_fuse(rule, first, second)
        for node in (first, second):
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

    def _check_results(self, first: Node, second: Node) -> None:
        """Raises HloError if the results cannot be computed in one loop."""
        if not (are_elements_used(first) and are_elements_used(second)):
            raise _cannot_combine(by.USED_AS_TUPLE, first, second)
        shapes = result_shape(first), result_shape(second)
        # CPU emits one loop for all results, so shapes must be equal with layouts; elsewhere the sizes suffice.
        are_alike = shapes[0] == shapes[1] if self._is_cpu else sizes_of(shapes[0]) == sizes_of(shapes[1])
        if not are_alike:
            raise _cannot_combine(by.SHAPE_MISMATCH, first, second)
        if self._is_cpu and not all(map(gives_elements, (first, second))):
            raise _cannot_combine(by.SIBLINGS_NOT_ELEMENTWISE, first, second)
        if not self._hazards.has_no_writes(self._graph, first, second):
            raise _cannot_combine(by.OVERWRITTEN, first, second)


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


def _cannot_combine(rule: Rule, first: Node, second: Node) -> HloError:
    return HloError(f"cannot fuse {first.name} and {second.name}", hint=rule.explain(first.name, second.name))


# --- fusing a pair ---
# Fuses two instructions on request, whether or not a compiler would.
#
# Mirrors `CreateFusion`, `FuseInstruction`, `MergeFusionInstruction`, and `FuseInstructionIntoMultiOutput` of
# xla/hlo/ir/hlo_instructions.cc.


# A fusion that takes in a reduce or a dot needs the more special emitter.
_KIND_ORDER: Final = ("", "kLoop", "kInput", "kOutput")
"""Fusion kinds; the later one of two is the kind of their combination."""


@of_module
def fuse_pair(
    module: Module, producer: str | Instruction, consumer: str | Instruction, *, keep: bool = False
) -> Module:
    """Module with `producer` fused into `consumer`, a user of it; either can be a fusion.

    Other users keep the producer or, with `keep`, use it as another result of the fusion. Siblings that read the same
    operand become a multi-output fusion. HloError gives the reason if the two cannot be fused.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t)"
    >>> module = parse_module(text + ", dimensions={1} }")
    >>> [i.name for i in fuse_pair(module, "t", "b").entry.instructions]
    ['p', 'tanh_broadcast_fusion']
    """
    names = [module.instruction(each).name for each in (producer, consumer)]
    return fused_pair(module, *names, keep=keep).module


def fused_pair(module: Module, producer: str, consumer: str, *, keep: bool = False) -> RewrittenModule:
    """Module as by `fuse_pair`, with the copies that protect operands from in-place updates.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT n = f32[9] negate(t) }"
    >>> fused_pair(parse_module(text), "t", "n").copies
    ()
    """
    check_rewritable(module)
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    graph = mutable_graph_of(first.computation, module.source.text)
    nodes = {node.instruction: node for node in graph.nodes}
    producer_node, consumer_node = nodes[first], nodes[second]
    are_siblings = producer_node not in consumer_node.operands
    is_kept = are_siblings or (keep and (len(producer_node.users) > 1 or producer_node is graph.root))
    checker = FusionChecker(module, graph)
    if are_siblings:
        checker.check_siblings(producer_node, consumer_node)
    else:
        checker.check_producer_consumer(producer_node, consumer_node, keep=is_kept)
    names = ModuleNames(module)
    if is_kept:
        _fuse_siblings(graph, producer_node, consumer_node, names)
    else:
        _fuse_nodes(graph, producer_node, consumer_node, names)
    graph.sort_topologically()
    return fix_in_place_hazards(rebuild(module, {first.computation: graph}), module)


def deciding_rule(module: Module, producer: str, consumer: str) -> Rule:
    """Rule by which the CPU compiler decides on two instructions of a computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> deciding_rule(parse_module(text), "t", "b").name
    'expensive-reuse'
    """
    module = desugar(module)
    first, second = _pair(module, producer, consumer)
    if first not in second.operands:
        # The CPU compiler's pass has multi-output fusion off by default.
        return by.MULTI_OUTPUT_DISABLED
    return rules_of_pairs(first.computation)(first, second)


def _fuse_nodes(graph: MutableGraph, producer: Node, consumer: Node, names: ModuleNames) -> Node:
    """Fusion of two nodes, which replaces the consumer."""
    is_output = FusionDecider(SHIPPED, None).rule(producer, consumer) is by.OUTPUT_FUSION
    kind = "kOutput" if is_output else max(producer.kind, consumer.kind, key=_KIND_ORDER.index)
    successors = list(graph.control_successors.get(producer, ()))
    fusion = _fusion_of(graph, producer, consumer, names)
    fusion.kind = kind or "kLoop"
    if producer.body is None:
        merge_producer(graph, fusion, producer, names)
    else:
        merge_fusion(graph, fusion, producer, names)
    if producer not in graph.position:
        # A duplicated producer stays where it is, with its control edges.
        for successor in successors:
            graph.add_control_dependencies(successor, (fusion,))
    return fusion


def _fuse_siblings(graph: MutableGraph, sibling: Node, into: Node, names: ModuleNames) -> Node:
    """Multi-output fusion of two nodes that replaces `into`; call `graph.sort_topologically` afterwards."""
    kind = max(sibling.kind, into.kind, key=_KIND_ORDER.index) or "kLoop"
    fusion = _fusion_of(graph, sibling, into, names)
    fusion.kind = kind
    make_multi_output(graph, fusion, sibling, names)
    return fusion


def _fusion_of(graph: MutableGraph, producer: Node, node: Node, names: ModuleNames) -> Node:
    """Node itself if it is a fusion, else a new fusion of it, named after both."""
    # Named as by InstructionFusion::AddFusionInstruction: the producer, then the consumer.
    if node.body is not None:
        return node
    name = f"{(producer if producer.body is None else producer.body.root).opcode}_{node.opcode}_fusion"
    return create_fusion(graph, node, "kLoop", names, name=name, body_name="fused_computation")


def _pair(module: Module, producer: str, consumer: str) -> tuple[Instruction, Instruction]:
    first, second = module.instruction(producer), module.instruction(consumer)
    if first.computation is not second.computation:
        where = f"{first.name} is in {first.computation.name}, {second.name} in {second.computation.name}"
        raise HloError(f"both instructions must be in the same computation: {where}")
    if first is second:
        raise HloError(f"cannot fuse {first.name} with itself", hint="name a producer and one of its users")
    if second in first.operands:
        raise HloError(
            f"{first.name} uses {second.name}, not the reverse",
            hint=f"write --fuse {second.name},{first.name}",
        )
    if first not in second.operands and not set(first.operands) & set(second.operands):
        raise HloError(
            f"{second.name} does not use {first.name}, and they have no common operand",
            hint=_operands_hint(second),
        )
    return first, second


def _operands_hint(consumer: Instruction) -> str | None:
    names = list(dict.fromkeys(operand.name for operand in consumer.operands))
    return f"operands of {consumer.name}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}" if names else None


# --- expanding fusions ---
# Expands fusions: the operations of their bodies replace them.
#
# Mirrors `HloInstruction::Defuse` of xla/hlo/ir/hlo_instruction.cc.


@of_module
def unfuse(module: Module, names: Collection[str | Instruction] | str | None = None) -> Module:
    """Module without the named fusions, or without any; library calls (kCustom) are expanded only if named.

    Operations keep their names, if unused, and their metadata. A schedule is kept. On CPU, a scatter stays in a fusion
    of its own.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  b = s8[9] not(a)  ROOT n = s8[9] negate(b) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT x = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> unfuse(parse_module(text)).entry.instructions
    (<parameter p>, <not b>, <negate n>)
    """
    if names is None:
        return unfused(module).module
    expect(Collection, "names of fusions", names)
    listed = (names,) if isinstance(names, str) else names
    return unfused(module, [module.instruction(each).name for each in listed]).module


def unfused(module: Module, names: Collection[str] | None = None) -> RewrittenModule:
    """Module as by `unfuse`, with the copies that protect operands from in-place updates.

    >>> from hlo_cli import parse_module
    >>> unfused(parse_module("ENTRY e { ROOT p = s8[9] parameter(0) }")).copies
    ()
    """
    with no_garbage_collection():
        check_rewritable(module)
        given = desugar(module)
        return fix_in_place_hazards(_unfused(given, names), given)


def _unfused(module: Module, names: Collection[str] | None) -> Module:
    text = module.source.text
    graphs = {computation: mutable_graph_of(computation, text) for computation in fusible_computations(module)}
    fusions = {n.name: (graph, n) for graph in graphs.values() for n in graph.nodes if n.body is not None}
    if names is None:
        # kCustom is a library's kernel: its body does not say all that it does.
        chosen = [name for name, (_, fusion) in fusions.items() if fusion.kind != "kCustom"]
    else:
        chosen = [_known(name.removeprefix("%"), fusions, module) for name in names]
    taken = _remaining_names(module, {fusions[name][1] for name in chosen})
    touched: dict[MutableGraph, dict[Node, list[Node]]] = {}
    for name in dict.fromkeys(chosen):
        graph, fusion = fusions[name]
        touched.setdefault(graph, {})[fusion] = _inline(graph, fusion, taken)
    every_name = ModuleNames(module)
    for graph, inlined in touched.items():
        _insert(graph, inlined)
        # CPU has no emitter for a lone scatter: fusion_wrapper.cc makes a fusion of each.
        if target_of(module) == "cpu":
            _wrap_scatters(graph, inlined, every_name)
    return rebuild(module, {graph.computation: graph for graph in touched})


def _known(name: str, fusions: Collection[str], module: Module) -> str:
    if name in fusions:
        return name
    found = module.instruction(name)
    if found.opcode == opcodes.FUSION:
        raise HloError(f"{name} is inside another fusion", hint=f"unfuse the caller of {found.computation.name} first")
    raise HloError(f"'{name}' is not a fusion: its opcode is {found.opcode}")


# Freed names are used again, so that what was fused gets its own names back.
def _remaining_names(module: Module, inlined: Collection[Node]) -> Names:
    """Names in use without these fusions."""
    gone: set[Computation | None] = {node.body.computation for node in inlined if node.body is not None}
    fused = {node.name for node in inlined}
    kept = (c for c in module.computations if c not in gone)
    return Names(i.name for c in kept for i in c.instructions if i.name not in fused)


def _inline(graph: MutableGraph, fusion: Node, taken: Names) -> list[Node]:
    """Nodes that replace a fusion, in order; the users of the fusion use them."""
    body = fusion.body
    assert body is not None
    copies: dict[Node, Node] = dict(zip(body.parameters, fusion.operands, strict=False))
    new: list[Node] = []
    # A tuple at the root is only a form of several results: users take the elements themselves.
    is_split = body.root.opcode == opcodes.TUPLE and fusion is not graph.root and all(map(_takes_element, fusion.users))
    for node in _order(body):
        if node is body.root and is_split:
            continue
        copy = Node(node.instruction, [copies[operand] for operand in node.operands], opcode=node.opcode)
        copy.name, copy.shape, copy.body, copy.kind = taken.new(node.name), node.shape, node.body, node.kind
        copies[node] = copy
        new.append(copy)
    if is_split:
        for user in list(fusion.users):
            element = copies[body.root.operands[user.element]]
            user.replace_by(element)
            _redirect(graph, user, element)
            graph.remove(user)
    else:
        fusion.replace_by(copies[body.root])
        _redirect(graph, fusion, copies[body.root])
    for node in new:
        # Only the first of the new nodes need the fusion's predecessors; the others follow these.
        if not set(node.operands) & set(new):
            graph.add_control_dependencies(node, graph.control_predecessors.get(fusion, ()))
    fusion.detach()
    return new


def _takes_element(user: Node) -> bool:
    return user.opcode == opcodes.GET_TUPLE_ELEMENT


def _redirect(graph: MutableGraph, old: Node, new: Node) -> None:
    """Makes control successors of `old`, and the root, refer to `new`."""
    for waiting in list(graph.control_successors.get(old, ())):
        graph.add_control_dependencies(waiting, (new,))
    if graph.root is old:
        graph.root = new


def _insert(graph: MutableGraph, inlined: dict[Node, list[Node]]) -> None:
    """Inserts the nodes at the positions of their fusions."""
    order: list[Node | None] = []
    for node in graph.nodes:
        order += inlined.get(node, (node,))
    for fusion in inlined:
        graph.remove(fusion)
    graph.order = order
    graph.position = {node: place for place, node in enumerate(order) if node is not None}


def _wrap_scatters(graph: MutableGraph, inlined: dict[Node, list[Node]], names: ModuleNames) -> None:
    """Wraps scatters in fusions, as the CPU compiler runs no others."""
    for node in [node for nodes in inlined.values() for node in nodes if node.opcode == opcodes.SCATTER]:
        create_fusion(graph, node, "kLoop", names, name="wrapped_scatter", body_name="wrapped_scatter_computation")


def _order(body: FusionBody) -> Iterator[Node]:
    """Yields the operations, each after its operands, with in-place updates after other reads where possible."""
    operations = list(body.operations)
    # In a fusion an update is made element by element; as instructions, it overwrites what others still read.
    writers = [node for node in operations if node.opcode in UPDATE_OPERANDS]
    if not writers:
        yield from operations
        return
    waits = {node: set(node.operands) for node in operations}
    for writer in writers:
        later = _after(writer)
        waits[writer] |= {user for user in writer.operands[0].users if user not in later}
    done = set(body.parameters)
    while operations:
        ready = (node for node in operations if waits[node] <= done)
        # A cycle of waits cannot be kept: then the order of the text, and copies are inserted later.
        node = next(ready, None) or next(node for node in operations if done.issuperset(node.operands))
        operations.remove(node)
        done.add(node)
        yield node


def _after(writer: Node) -> set[Node]:
    """Node and all its transitive users."""
    reached = {writer}
    waiting = [writer]
    while waiting:
        for user in waiting.pop().users:
            if user not in reached:  # only faster
                reached.add(user)
                waiting.append(user)
    return reached
