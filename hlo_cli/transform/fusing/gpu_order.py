"""Orders that XLA:GPU's fusion depends on and that the text of a module does not have: of instructions, and of users.

XLA compares instruction ids where two producers save the same time, and visits users in the order in which they were
added. Protos have the ids.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.analysis.fusion.graph import Graph, Node
from hlo_cli.analysis.fusion.users import Users
from hlo_cli.ir import opcodes

_NUMBER: Final = re.compile(r"\.(\d{1,18})(?:\.0)?\Z")
_MAX_NUMBER: Final = 1 << 62


def identities_of(graph: Graph) -> tuple[dict[Node, int], bool]:
    """A number for each node that orders producers of equal priority, and whether the numbers are XLA's ids.

    Without ids, the numbers in names are the best guess, then the order of the file: XLA's writers count upward.
    Broadcasts of their own that passes make are younger than what they were given.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
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
    """Puts the fusions among the users of each node in the order in which they were made: that of their numbers."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in places:
        if len(node.users) < 2 or not any(user.body is not None for user in node.users):
            continue
        users = sorted(
            node.users, key=lambda user: (user.body is not None, _number(user) if user.body else 0, places[user])
        )
        node.users = Users()
        for user in users:
            node.users.add(user)


def _is_made(node: Node) -> bool:
    return node.opcode == opcodes.BROADCAST and node.name.startswith(opcodes.BROADCAST)


def _number(node: Node) -> int:
    """The number in a name, 0 without one."""
    found = _NUMBER.search(node.name)
    return min(int(found[1]), _MAX_NUMBER) if found else 0
