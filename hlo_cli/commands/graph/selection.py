"""The part of a module that the options of `hlo graph` select."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.graphs.views import DataflowGraph, View, around, between, matching, whole
from hlo_cli.commands.graph.options import DEFAULT_DEPTH, GraphOptions
from hlo_cli.commands.options.filters import chosen, instructions_where
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_count
from hlo_cli.source import Diagnostic, HloError, did_you_mean, nearest


def view_of(graph: DataflowGraph, options: GraphOptions) -> tuple[View, tuple[Diagnostic, ...]]:
    """The selected nodes, and notes on the selection; HloError for unknown names, and if nothing is selected."""
    module = graph.module
    within = module.computation(options.computation) if options.computation is not None else None
    computation = graph.computations.index(within or module.entry)
    if options.where is not None:
        return _matching(graph, options.where, computation, is_whole=within is None)
    if options.between is not None:
        source, target = (_node(graph, name, within) for name in options.between)
        found = between(graph, source, target, transfers=options.transfers)
        if found is None:
            raise _no_path(graph, source, target)
        return found, ()
    opened = _opened(graph, options, within)
    if options.around is not None:
        center = _node(graph, options.around, within)
        depth = DEFAULT_DEPTH if options.depth is None else options.depth
        return around(graph, [center], depth, transfers=options.transfers, opened=opened), ()
    if options.depth is not None:
        return _near_changes(graph, options, computation, opened), ()
    return whole(graph, computation, transfers=options.transfers, opened=opened), ()


def _node_of(graph: DataflowGraph, instruction: Instruction) -> int:
    """The node of an instruction."""
    members = graph.members[graph.computations.index(instruction.computation)]
    return next(node for node in members if graph.instructions[node] is instruction)


def _node(graph: DataflowGraph, name: str, within: Computation | None) -> int:
    """The node of this name; within a computation if one is given."""
    if within is None:
        try:
            return _node_of(graph, graph.module.instruction(name))
        except HloError:
            gone = (node for node, change in graph.changes.items() if change == "removed")
            plain = name.removeprefix("%")
            if (removed := next((n for n in gone if graph.instructions[n].name == plain), None)) is not None:
                return removed
            raise
    if (found := within.instruction(name)) is None:
        known = [instruction.name for instruction in within.instructions]
        hint = did_you_mean(nearest(name.removeprefix("%"), known)) or "omit --computation to search all computations"
        raise HloError(f"instruction '{name.removeprefix('%')}' not found in {within.name}", hint=hint)
    return _node_of(graph, found)


def _opened(graph: DataflowGraph, options: GraphOptions, within: Computation | None) -> frozenset[int] | None:
    """The nodes to show as clusters, and those around them; None for all."""
    names = options.expanded
    if names is None:
        return None
    found: set[int] = set()
    for name in sorted(names):
        instruction = graph.module.instruction(name)
        if within is not None:
            instruction = within.instruction(name) or instruction
        node = _node_of(graph, instruction)
        if not graph.is_expandable(node):
            raise HloError(
                f"'{name}' cannot be expanded: {instruction.written_opcode} has no computation of its own",
                hint="expand fusions, loops, calls, conditionals, and async operations",
            )
        found.update(_with_callers(graph, node))
    return frozenset(found)


def _with_callers(graph: DataflowGraph, node: int) -> Sequence[int]:
    from hlo_cli.analysis.graphs.views import callers_of, enclosing

    return enclosing(graph, node, callers_of(graph))


def _near_changes(graph: DataflowGraph, options: GraphOptions, computation: int, opened: frozenset[int] | None) -> View:
    """The changed nodes of a computation with their neighbors."""
    centers = [node for node in graph.members[computation] if node in graph.changes and node not in graph.hidden]
    if not centers:
        name = graph.computations[computation].name
        raise HloError(f"no changes in {name}", hint="omit --depth to draw the whole computation")
    return around(graph, centers, options.depth or 0, transfers=options.transfers, opened=opened)


def _matching(
    graph: DataflowGraph, expression: str, computation: int, *, is_whole: bool
) -> tuple[View, tuple[Diagnostic, ...]]:
    """The nodes that match an expression, in a computation and all that it calls."""
    test = instructions_where(expression, graph.module)
    known = [node for node in range(len(graph.instructions)) if graph.changes.get(node) != "removed"]
    numbers = {graph.instructions[node]: node for node in known}
    found, notes = chosen(test, [graph.instructions[node] for node in known], "instructions")
    view = matching(graph, computation, [numbers[each] for each in found])
    if not view.nodes:
        name = graph.computations[computation].name
        where = f"in {name} or its callees" if found or not is_whole else f"in {graph.module.name}"
        hint = None
        if found:
            hint = f"{format_count(len(found), 'matches')} elsewhere: use --computation {found[0].computation.name}"
        raise HloError(f"no instruction {where} matches '{expression}'", hint=hint)
    return view, notes


def _no_path(graph: DataflowGraph, source: int, target: int) -> HloError:
    """The error for nodes without a path; the hint is the other direction if there is a path."""
    first, last = graph.instructions[source].name, graph.instructions[target].name
    message = f"no path from {first} to {last}"
    if between(graph, target, source) is not None:
        hint = f"{first} depends on {last}: use --between {last} {first}"
        return HloError(message, hint=hint)
    return HloError(message, hint=f"they are independent; see --around {first}")
