"""Expands fusions: the operations of their bodies replace them.

Mirrors `HloInstruction::Defuse` of xla/hlo/ir/hlo_instruction.cc.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Graph, Node, fusible_computations, graph_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_overlap import UPDATE_AT
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.merge import create_fusion
from hlo_cli.transform.fusing.names import ModuleNames, Names
from hlo_cli.transform.fusing.rebuild import rebuild
from hlo_cli.transform.in_place import RewrittenModule, fix_in_place_hazards
from hlo_cli.transform.rewritable import check_rewritable


def unfuse(module: Module, names: Collection[str] | None = None) -> Module:
    """Module without the named fusions, or without any; library calls (kCustom) are expanded only if named.

    Operations keep their names, if unused, and their metadata. A schedule is kept. On CPU, a scatter stays in a fusion
    of its own.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  b = s8[9] not(a)  ROOT n = s8[9] negate(b) }
    ... ENTRY e { p = s8[9] parameter(0)  ROOT x = s8[9] fusion(p), kind=kLoop, calls=f }'''
    >>> unfuse(parse_module(text)).entry.instructions
    (<parameter p>, <not b>, <negate n>)
    """
    return unfused(module, names).module


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
    graphs = {computation: graph_of(computation, text) for computation in fusible_computations(module)}
    fusions = {n.name: (graph, n) for graph in graphs.values() for n in graph.nodes if n.body is not None}
    if names is None:
        chosen = [name for name, (_, fusion) in fusions.items() if fusion.kind != "kCustom"]
    else:
        chosen = [_known(name.removeprefix("%"), fusions, module) for name in names]
    taken = _remaining_names(module, {fusions[name][1] for name in chosen})
    touched: dict[Graph, dict[Node, list[Node]]] = {}
    for name in dict.fromkeys(chosen):
        graph, fusion = fusions[name]
        touched.setdefault(graph, {})[fusion] = _inline(graph, fusion, taken)
    every_name = ModuleNames(module)
    for graph, inlined in touched.items():
        _insert(graph, inlined)
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


def _remaining_names(module: Module, inlined: Collection[Node]) -> Names:
    """Names in use without these fusions."""
    gone: set[Computation | None] = {node.body.computation for node in inlined if node.body is not None}
    fused = {node.name for node in inlined}
    kept = (c for c in module.computations if c not in gone)
    return Names(i.name for c in kept for i in c.instructions if i.name not in fused)


def _inline(graph: Graph, fusion: Node, taken: Names) -> list[Node]:
    """Nodes that replace a fusion, in order; the users of the fusion use them."""
    body = fusion.body
    assert body is not None
    made: dict[Node, Node] = dict(zip(body.parameters, fusion.operands, strict=False))
    new: list[Node] = []
    is_split = body.root.opcode == opcodes.TUPLE and fusion is not graph.root and all(map(_takes_element, fusion.users))
    for node in _order(body):
        if node is body.root and is_split:
            continue
        copy = Node(node.instruction, [made[operand] for operand in node.operands], opcode=node.opcode)
        copy.name, copy.shape, copy.body, copy.kind = taken.new(node.name), node.shape, node.body, node.kind
        made[node] = copy
        new.append(copy)
    if is_split:
        for user in list(fusion.users):
            element = made[body.root.operands[user.element]]
            user.replace_by(element)
            _redirect(graph, user, element)
            graph.remove(user)
    else:
        fusion.replace_by(made[body.root])
        _redirect(graph, fusion, made[body.root])
    for node in new:
        if not set(node.operands) & set(new):
            graph.add_control_dependencies(node, graph.control_predecessors.get(fusion, ()))
    fusion.detach()
    return new


def _takes_element(user: Node) -> bool:
    return user.opcode == opcodes.GET_TUPLE_ELEMENT


def _redirect(graph: Graph, old: Node, new: Node) -> None:
    """Makes control successors of `old`, and the root, refer to `new`."""
    for waiting in list(graph.control_successors.get(old, ())):
        graph.add_control_dependencies(waiting, (new,))
    if graph.root is old:
        graph.root = new


def _insert(graph: Graph, inlined: dict[Node, list[Node]]) -> None:
    """Inserts the nodes at the positions of their fusions."""
    order: list[Node | None] = []
    for node in graph.nodes:
        order += inlined.get(node, (node,))
    for fusion in inlined:
        graph.remove(fusion)
    graph.order = order
    graph.position = {node: place for place, node in enumerate(order) if node is not None}


def _wrap_scatters(graph: Graph, inlined: dict[Node, list[Node]], names: ModuleNames) -> None:
    """Wraps scatters in fusions, as the CPU compiler runs no others."""
    for node in [node for nodes in inlined.values() for node in nodes if node.opcode == opcodes.SCATTER]:
        create_fusion(graph, node, "kLoop", names, name="wrapped_scatter", body_name="wrapped_scatter_computation")


def _order(body: FusionBody) -> Iterator[Node]:
    """Yields the operations, each after its operands, with in-place updates after other reads where possible."""
    operations = list(body.operations)
    writers = [node for node in operations if node.opcode in UPDATE_AT]
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
        node = next(ready, None) or next(node for node in operations if done.issuperset(node.operands))
        operations.remove(node)
        done.add(node)
        yield node


def _after(writer: Node) -> set[Node]:
    """Node and all its transitive users."""
    found = {writer}
    waiting = [writer]
    while waiting:
        for user in waiting.pop().users:
            if user not in found:
                found.add(user)
                waiting.append(user)
    return found
