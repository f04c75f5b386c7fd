"""Pairs the parameters and the result tuples of computations."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from hlo_cli.alignment import aligned
from hlo_cli.analysis.matching.graph import ESSENTIAL, SHAPELESS, Graph, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import TupleShape

_NUMBERED: Final = re.compile(r"(?:\[\d+\]|\d)$")
"""Ends of names that tell arguments apart by their number."""
_MAX_USERS: Final = 16


def pair_by_arguments(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters of two fused computations by the operands of their fusions, as the parameter numbers can
    change.
    """
    callers = _caller(pairs, one, 0), _caller(pairs, two, 1)
    if callers[0] is None or callers[1] is None:
        return
    others: dict[Node, list[Node]] = {}
    for parameter, argument in zip(two.parameters, callers[1].operands, strict=True):
        others.setdefault(pairs.two.node(argument), []).append(pairs.two.node(parameter))
    for parameter, argument in zip(one.parameters, callers[0].operands, strict=True):
        a, same = pairs.one.node(parameter), others.get(pairs.after[pairs.one.node(argument)], ())
        if (b := next((b for b in same if pairs.are_free(a, b)), NONE)) != NONE:
            pairs.add(a, b)


def _caller(pairs: Pairs, computation: Computation, side: int) -> Instruction | None:
    """The fusion or call of a computation; the first one of several calls."""
    graph = pairs.sides[side][0]
    if (caller := graph.bodies.get(computation)) is not None:
        return caller
    caller = pairs.elements.sources[side].callers.get(computation)
    if caller is None or caller.opcode != opcodes.CALL or len(caller.operands) != len(computation.parameters):
        return None
    return caller


def pair_by_path(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs arguments of two programs by op_name, such as `params['w']`, which an inserted argument does not change.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = 'HloModule m  ENTRY e { %s w = s8[2] parameter(%d), metadata={op_name="w"}  ROOT n = s8[2] not(w) }'
    >>> new = text % ('b = s8[2] parameter(0), metadata={op_name="b"}', 1)
    >>> modules, numbers = [parse_module(each) for each in (text % ("", 0), new)], Keys()
    >>> pairs = Pairs(*(graph_of(module, numbers) for module in modules))
    >>> pair_by_path(pairs, *(module.entry for module in modules))
    >>> pairs.after
    [1, -1]
    """
    if not (one.is_entry and two.is_entry):
        return
    ones, twos = one.parameters, two.parameters
    if len(ones) == len(twos):
        _pair_unique(pairs, ones, twos, _path_and_sizes)
        _pair_unique(pairs, ones, twos, _any_path)
        return
    _pair_unique(pairs, ones, twos, _path)
    _pair_unique(pairs, ones, twos, _path_and_uses)
    _pair_unique(pairs, ones, twos, _uses)
    _align(pairs, ones, twos, _name_sizes_and_uses)
    _align(pairs, ones, twos, _sizes_and_uses)
    _pair_unique(pairs, ones, twos, _path_and_sizes)


def _pair_unique(
    pairs: Pairs,
    ones: Sequence[Instruction],
    twos: Sequence[Instruction],
    key_of: Callable[[Graph, Instruction], Hashable],
) -> None:
    """Pairs parameters by keys that only one parameter of each module has."""
    old, new = _by_key(pairs.one, ones, key_of), _by_key(pairs.two, twos, key_of)
    for key, x in old.items():
        y = new.get(key)
        if x is not None and y is not None and pairs.are_free(a := pairs.one.node(x), b := pairs.two.node(y)):
            pairs.add(a, b)


def _by_key(
    graph: Graph, parameters: Sequence[Instruction], key_of: Callable[[Graph, Instruction], Hashable]
) -> dict[Hashable, Instruction | None]:
    """Parameters by key; None for a key that several parameters have."""
    found: dict[Hashable, Instruction | None] = {}
    for parameter in parameters:
        if (key := key_of(graph, parameter)) is not None:
            found[key] = None if key in found else parameter
    return found


def _path_and_sizes(_: Graph, parameter: Instruction) -> Hashable:
    path = parameter.metadata.op_name
    return (path, _sizes(parameter)) if path else None


def _path_and_uses(graph: Graph, parameter: Instruction) -> Hashable:
    path = parameter.metadata.op_name
    return (path, _sizes_and_uses(graph, parameter)) if path else None


def _path(_: Graph, parameter: Instruction) -> Hashable:
    """The op_name of a parameter; None for a numbered one, such as `args[2]`, which an insertion changes."""
    path = parameter.metadata.op_name
    return path if path and not _NUMBERED.search(path) else None


def _align(
    pairs: Pairs,
    ones: Sequence[Instruction],
    twos: Sequence[Instruction],
    key_of: Callable[[Graph, Instruction], Hashable],
) -> None:
    """Pairs unpaired parameters of one key, in their order, between those that are paired."""
    old: list[Hashable] = []
    for x in ones:
        a = pairs.one.node(x)
        old.append((None, a) if pairs.after[a] >= 0 else key_of(pairs.one, x))
    new: list[Hashable] = []
    for y in twos:
        a = pairs.before[pairs.two.node(y)]
        new.append((None, a) if a >= 0 else key_of(pairs.two, y))
    for i, j in aligned(old, new):
        a, b = pairs.one.node(ones[i]), pairs.two.node(twos[j])
        if pairs.are_free(a, b):
            pairs.add(a, b)


def _sizes_and_uses(graph: Graph, parameter: Instruction) -> Hashable:
    """The shape of a parameter, and what takes it at which position."""
    users = graph.users[graph.node(parameter)][:_MAX_USERS]
    keys = graph.keys[SHAPELESS]
    return _sizes(parameter), tuple(sorted([(keys[user], _position(graph, user, at)) for user, at in users]))


def _uses(graph: Graph, parameter: Instruction) -> Hashable:
    return _sizes_and_uses(graph, parameter) if graph.users[graph.node(parameter)] else None


def _position(graph: Graph, user: Node, position: int) -> int:
    """The position of an operand; 0 in a tuple, where positions shift."""
    return 0 if graph.nodes[user].opcode == opcodes.TUPLE else position


def _name_sizes_and_uses(graph: Graph, parameter: Instruction) -> Hashable:
    return parameter.name, _sizes_and_uses(graph, parameter)


def pair_by_number(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters by number.

    Arguments of programs with different numbers of arguments are aligned in order, by name and shape and then by shape.
    """
    if one.is_entry and two.is_entry and len(one.parameters) != len(two.parameters):
        for key_of in (_name_and_sizes, _only_sizes, _path_or_name):
            _align(pairs, one.parameters, two.parameters, key_of)
        return
    if one.is_entry and two.is_entry:
        _pair_moved(pairs, one.parameters, two.parameters)
    _pair_by_number(pairs, one.parameters, two.parameters)


def _pair_moved(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    """Pairs arguments whose shape changed at their number with arguments of the same name and shape at another
    number.
    """
    differing = [(x, y) for x, y in zip(ones, twos, strict=True) if _sizes(x) != _sizes(y)]
    named = {(y.name, _sizes(y)): y for _, y in differing}
    for x, _ in differing:
        y = named.get((x.name, _sizes(x)))
        if y is not None and pairs.are_free(pairs.one.node(x), pairs.two.node(y)):
            pairs.add(pairs.one.node(x), pairs.two.node(y))


def _any_path(_: Graph, parameter: Instruction) -> Hashable:
    return parameter.metadata.op_name or None


def _path_or_name(_: Graph, parameter: Instruction) -> Hashable:
    return parameter.metadata.op_name or parameter.name


def _name_and_sizes(_: Graph, parameter: Instruction) -> Hashable:
    return parameter.name, _sizes(parameter)


def _only_sizes(_: Graph, parameter: Instruction) -> Hashable:
    return _sizes(parameter)


def _sizes(parameter: Instruction) -> str:
    return parameter.shape.to_string(layout=False)


def _pair_by_number(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    for x, y in zip(ones, twos, strict=False):
        a, b = pairs.one.node(x), pairs.two.node(y)
        as_large = pairs.one.keys[ESSENTIAL][a] == pairs.two.keys[ESSENTIAL][b]
        if pairs.are_free(a, b) and (len(ones) == len(twos) or as_large):
            pairs.add(a, b)


def pair_aliased_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs the result tuples of two programs whose results overwrite arguments, which tell the results apart."""
    if one.is_entry and two.is_entry and all(graph.module.input_output_alias for graph in pairs.plain):
        pair_results(pairs, one, two)


def pair_carriers(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters that are tuples, and result tuples, of computations that paired instructions call.

    What a loop carries corresponds by its sources, not by shape and index.
    """
    if one.is_entry or two.is_entry or one in pairs.one.bodies or two in pairs.two.bodies:
        return
    if len(one.parameters) == len(two.parameters):
        for x, y in zip(one.parameters, two.parameters, strict=True):
            a, b = pairs.one.node(x), pairs.two.node(y)
            if isinstance(x.shape, TupleShape) and isinstance(y.shape, TupleShape) and pairs.are_free(a, b):
                pairs.add(a, b)
    pair_results(pairs, one, two)


def pair_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs the root tuples of two computations that are not inlined, whatever else differs between them."""
    if one in pairs.one.bodies or two in pairs.two.bodies or one.root is None or two.root is None:
        return
    a, b = pairs.one.node(one.root), pairs.two.node(two.root)
    if pairs.are_free(a, b) and one.root.opcode == two.root.opcode == opcodes.TUPLE:
        pairs.add(a, b)
