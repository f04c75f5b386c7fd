"""What changed in a module since another one, in its graph: nodes are marked, and removed ones stand among them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hlo_cli.analysis.graphs.views import Change, DataflowGraph, callers_of, dataflow_graph, enclosing
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.ir.instruction import Instruction

# Sorting by it keeps operands before users: a removed node comes right after the last operand that is still there.
_Key: TypeAlias = tuple[int, int, int]
"""The place of a node in a computation: a number of a new node, and after it the removed nodes in their order."""


class _Removed(NamedTuple):
    """A removed node: its number in the old graph, its computation in the new one, and its place there."""

    number: int
    computation: int
    key: _Key


def compared_graph(comparison: ModuleDiff) -> DataflowGraph:
    """The graph of the new module with changes, and removed instructions placed by their operands or users.

    Removed instructions keep their edges to instructions that follow them there. Callers of computations with changes
    count as changed.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  n = f32[2] sine(p)  ROOT r = f32[2] negate(n) }"
    >>> old, new = parse_module(text), parse_module(text.replace("n = f32[2] sine(p)", "").replace("(n)", "(p)"))
    >>> graph = compared_graph(diff(old, new))
    >>> [graph.instructions[node].name for node in graph.members[0]], dict(graph.changes), graph.operands
    (['p', 'n', 'r'], {1: 'removed'}, ((), (0,), (0, 1)))
    """
    new, old = dataflow_graph(comparison.after), dataflow_graph(comparison.before)
    numbers = {instruction: node for node, instruction in enumerate(new.instructions)}
    found = _removed(comparison, old, new, numbers)
    return _merged(comparison, old, new, numbers, found)


def _removed(
    comparison: ModuleDiff, old: DataflowGraph, new: DataflowGraph, numbers: Mapping[Instruction, int]
) -> Sequence[_Removed]:
    """The removed nodes whose computation is in the new module, in the order of the old one."""
    gone = set(comparison.removed)
    twins = _twins(comparison, old, numbers)
    indices = {computation: at for at, computation in enumerate(new.computations)}
    first_user: dict[int, int] = {}
    for node, operands in enumerate(old.operands):
        if (twin := twins.get(node)) is not None:
            for operand in operands:
                first_user[operand] = min(twin, first_user.get(operand, twin))
    keys: dict[int, _Key] = {}
    found: list[_Removed] = []
    for node, instruction in enumerate(old.instructions):
        computation = comparison.computations.get(instruction.computation)
        if instruction not in gone or computation is None or (at := indices.get(computation)) is None:
            continue
        members = new.members[at]
        before = [twins[each] for each in old.operands[node] if each in twins and new.computation[twins[each]] == at]
        before += [keys[each][0] for each in old.operands[node] if each in keys]
        user = first_user.get(node)
        if before:
            place = max(before)
        elif user is not None and new.computation[user] == at:
            # Without operands it comes right before its first user, as constants do in texts.
            place = user - 1
        else:
            place = members[0] - 1 if members else 0
        keys[node] = (place, 1, node)
        found.append(_Removed(node, at, keys[node]))
    return found


def _merged(
    comparison: ModuleDiff,
    old: DataflowGraph,
    new: DataflowGraph,
    numbers: Mapping[Instruction, int],
    removed: Sequence[_Removed],
) -> DataflowGraph:
    places: list[tuple[_Key, int]] = [((node, 0, 0), node) for node in range(len(new.instructions))]
    base = len(places)
    places += [(each.key, base + at) for at, each in enumerate(removed)]
    computation = [*new.computation, *(each.computation for each in removed)]
    places.sort(key=lambda place: (computation[place[1]], place[0]))
    order = [node for _, node in places]
    number = {node: at for at, node in enumerate(order)}
    names = {each.number: number[base + at] for at, each in enumerate(removed)}
    twins = {before: number[after] for before, after in _twins(comparison, old, numbers).items()}
    extra = _edges_to_users(old, names, twins)
    operands: list[tuple[int, ...]] = []
    for at, node in enumerate(order):
        if node < base:
            own = [number[each] for each in new.operands[node]]
            # An edge backwards would close a circle: the user may have moved before the place of the removed operand.
            own += [each for each in extra.get(at, ()) if each < at]
        else:
            own = [names.get(each, twins.get(each, at)) for each in old.operands[removed[node - base].number]]
        inner = computation[node]
        operands.append(tuple([each for each in dict.fromkeys(own) if each < at and computation[order[each]] == inner]))
    members: list[list[int]] = [[] for _ in new.computations]
    for at, node in enumerate(order):
        members[computation[node]].append(at)
    return DataflowGraph(
        new.module,
        tuple([new.instructions[n] if n < base else old.instructions[removed[n - base].number] for n in order]),
        new.computations,
        [computation[node] for node in order],
        members,
        tuple(operands),
        {number[node]: tuple([number[each] for each in before]) for node, before in new.control.items()},
        {number[node]: called for node, called in new.calls.items()},
        tuple([new.bytes[node] if node < base else old.bytes[removed[node - base].number] for node in order]),
        frozenset([number[n] for n in new.hidden]) | {names[n] for n in names if n in old.hidden},
        frozenset([number[n] for n in new.transfers]) | {names[n] for n in names if n in old.transfers},
        _changes(comparison, new, numbers, number) | dict.fromkeys(names.values(), "removed"),
    )


def _twins(comparison: ModuleDiff, old: DataflowGraph, numbers: Mapping[Instruction, int]) -> Mapping[int, int]:
    """The node in the new graph of each old node that is in both modules."""
    pairs = comparison.pairs
    return {node: numbers[pairs[before]] for node, before in enumerate(old.instructions) if before in pairs}


def _edges_to_users(
    old: DataflowGraph, names: Mapping[int, int], twins: Mapping[int, int]
) -> Mapping[int, Sequence[int]]:
    """The removed operands of the users that are in the new module."""
    found: dict[int, list[int]] = {}
    for node, operands in enumerate(old.operands):
        if (twin := twins.get(node)) is not None:
            gone = [names[operand] for operand in operands if operand in names]
            if gone:
                found.setdefault(twin, []).extend(gone)
    return found


def _changes(
    comparison: ModuleDiff, new: DataflowGraph, numbers: Mapping[Instruction, int], number: Mapping[int, int]
) -> dict[int, Change]:
    """What happened to each node, and to the callers of computations in which anything did."""
    found: dict[int, Change] = {}
    for moved in comparison.moved:
        found[numbers[moved.after]] = "moved"
    for changed in comparison.changed:
        found[numbers[changed.after]] = "changed"
    for added in comparison.added:
        found[numbers[added]] = "added"
    callers = callers_of(new)
    seen: set[int] = set()
    for node in [node for node, change in found.items() if change != "moved"]:
        computation = new.computation[node]
        if computation in seen:
            continue
        seen.add(computation)
        for caller in enclosing(new, node, callers)[1:]:
            if found.get(caller, "moved") == "moved":
                found[caller] = "changed"
    return {number[node]: change for node, change in found.items()}
