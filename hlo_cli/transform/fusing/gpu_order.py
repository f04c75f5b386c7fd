"""Orders that XLA:GPU's fusion depends on and that the text of a module does not have: of instructions, and of users.

XLA compares instruction ids where two producers save the same time, and visits users in the order in which they were
added. Protos have the ids.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import Graph, Node, Users
from hlo_cli.ir import opcodes

_NUMBER: Final = re.compile(r"\.(\d{1,18})(?:\.0)?\Z")
_MAX_NUMBER: Final = 1 << 62
_INLINED: Final = "jit("
_COMPUTED_TWICE: Final = frozenset((opcodes.BROADCAST, opcodes.CONSTANT, opcodes.FUSION, "subtract"))
"""Opcodes of values that functions such as `jit(_var)` compute again: constants, and differences to a mean."""


def identities_of(graph: Graph) -> tuple[dict[Node, int], bool]:
    """A number for each node that orders producers of equal priority, and whether the numbers are XLA's ids.

    Without ids, the numbers in names are the best guess, then the order of the file: XLA's writers count upward.
    Broadcasts of their own that passes make are younger than what they were given.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = "ENTRY e { p.2 = s8[] parameter(0)  a.9 = s8[] not(p.2)  ROOT b.3 = s8[] not(a.9) }"
    >>> numbers, are_exact = identities_of(graph_of(parse_module(text).entry))
    >>> [node.name for node in sorted(numbers, key=numbers.get)], are_exact
    (['p.2', 'b.3', 'a.9'], False)
    """
    ids = {instruction: number for number, instruction in graph.computation.by_id.items()}
    nodes = list(graph.nodes)
    if ids and all(node.instruction in ids for node in nodes):
        return {node: ids[node.instruction] for node in nodes}, True
    places = {node: place for place, node in enumerate(nodes)}
    ordered = sorted(nodes, key=lambda node: (_is_made(node), _number(node), places[node]))
    return {node: place for place, node in enumerate(ordered)}, False


def order_users(graph: Graph) -> None:
    """Puts the users of each node in the order that XLA has before fusion, where it is not that of the text.

    A module arrives in the order of the text; then passes inline functions, such as `jit(_var)` in an op_name. Their
    operations are appended to the users, but for the last one: it takes the place of the call that it replaces. All
    are appended where an equal value was computed twice, inside and outside, and merged.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> inside = 'metadata={op_name="jit(f)/jit(silu)/mul"}'
    >>> text = f'''ENTRY e {{ p = f32[] parameter(0)  a = f32[] negate(p), {inside}  b = f32[] multiply(p, a), {inside}
    ... c = f32[] exponential(p)  ROOT r = f32[] add(b, c) }}'''
    >>> graph = graph_of(parse_module(text).entry)
    >>> order_users(graph)
    >>> [user.name for user in next(graph.nodes).users]
    ['b', 'c', 'a']
    """
    paths: dict[Node, str] = {}
    for node in graph.nodes:
        if len(node.users) < 2:
            continue
        outside = _path(node, paths)
        inlined: dict[str, list[Node]] = {}
        for user in node.users:
            if (path := _path(user, paths)) and path != outside:
                inlined.setdefault(path, []).append(user)
        if not inlined:
            continue
        users: list[Node] = []
        appended: list[Node] = []
        for user in node.users:
            group = inlined.get(paths[user])
            if group is None:
                users.append(user)
            elif node.opcode in _COMPUTED_TWICE:
                appended.append(user)
            elif user is group[0]:
                users.append(group[-1])
                appended.extend(group[:-1])
        node.users = Users()
        for user in (*users, *appended):
            node.users.add(user)


def _path(node: Node, known: dict[Node, str]) -> str:
    """The functions that an operation was inlined from: parts of its op_name, without the outermost."""
    path = known.get(node)
    if path is None:
        path = ""
        if node.opcode == opcodes.BITCAST and len(node.users) == 1:  # has the op_name of its operand
            path = _path(next(iter(node.users)), known)
        elif _INLINED in node.instruction.raw[1]:
            parts = node.instruction.metadata.op_name.split("/")[1:-1]
            path = "/".join(part for part in parts if _INLINED in part)
        known[node] = path
    return path


def _is_made(node: Node) -> bool:
    return node.opcode == opcodes.BROADCAST and node.name.startswith(opcodes.BROADCAST)


def _number(node: Node) -> int:
    """The number in a name, 0 without one."""
    found = _NUMBER.search(node.name)
    return min(int(found[1]), _MAX_NUMBER) if found else 0
