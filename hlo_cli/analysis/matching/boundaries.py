"""Pairs the parameters and the result tuples of computations."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.alignment import aligned
from hlo_cli.analysis.matching.graph import ESSENTIAL, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction


def pair_by_arguments(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters of two fused computations by the operands of their fusions, as the parameter numbers can
    change.
    """
    if one not in pairs.one.bodies or two not in pairs.two.bodies:
        return
    others: dict[Node, list[Node]] = {}
    for parameter, argument in zip(two.parameters, pairs.two.bodies[two].operands, strict=True):
        others.setdefault(pairs.two.node(argument), []).append(pairs.two.node(parameter))
    for parameter, argument in zip(one.parameters, pairs.one.bodies[one].operands, strict=True):
        a, same = pairs.one.node(parameter), others.get(pairs.after[pairs.one.node(argument)], ())
        if (b := next((b for b in same if pairs.are_free(a, b)), NONE)) != NONE:
            pairs.add(a, b)


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
    ones, twos = (_by_path(computation.parameters) for computation in (one, two))
    for path, x in ones.items():
        y = twos.get(path)
        if x is not None and y is not None:
            a, b = pairs.one.node(x), pairs.two.node(y)
            if pairs.are_free(a, b):
                pairs.add(a, b)


def _by_path(parameters: Sequence[Instruction]) -> dict[str, Instruction | None]:
    """Parameters by op_name; None for an op_name that several parameters have."""
    found: dict[str, Instruction | None] = {}
    for parameter in parameters:
        if path := parameter.metadata.op_name:
            found[path] = None if path in found else parameter
    return found


def pair_by_number(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs parameters by number.

    Arguments of programs with different numbers of arguments are aligned in order, by name and shape and then by shape.
    """
    if one.is_entry and two.is_entry and len(one.parameters) != len(two.parameters):
        for key_of in (_name_and_sizes, _sizes):
            ones = [x for x in one.parameters if pairs.after[pairs.one.node(x)] < 0]
            twos = [y for y in two.parameters if pairs.before[pairs.two.node(y)] < 0]
            for x, y in aligned([key_of(each) for each in ones], [key_of(each) for each in twos]):
                pairs.add(pairs.one.node(ones[x]), pairs.two.node(twos[y]))
        return
    if one.is_entry and two.is_entry:
        _pair_moved(pairs, one.parameters, two.parameters)
    _pair_by_number(pairs, one.parameters, two.parameters)


def _pair_moved(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    """Pairs arguments whose shape changed at their number with arguments of the same name and shape at another
    number.
    """
    differing = [(x, y) for x, y in zip(ones, twos, strict=True) if _sizes(x) != _sizes(y)]
    named = {_name_and_sizes(y): y for _, y in differing}
    for x, _ in differing:
        y = named.get(_name_and_sizes(x))
        if y is not None and pairs.are_free(pairs.one.node(x), pairs.two.node(y)):
            pairs.add(pairs.one.node(x), pairs.two.node(y))


def _name_and_sizes(parameter: Instruction) -> tuple[str, str]:
    return parameter.name, _sizes(parameter)


def _sizes(parameter: Instruction) -> str:
    return parameter.shape.to_string(layout=False)


def _pair_by_number(pairs: Pairs, ones: Sequence[Instruction], twos: Sequence[Instruction]) -> None:
    for x, y in zip(ones, twos, strict=False):
        a, b = pairs.one.node(x), pairs.two.node(y)
        as_large = pairs.one.keys[ESSENTIAL][a] == pairs.two.keys[ESSENTIAL][b]
        if pairs.are_free(a, b) and (len(ones) == len(twos) or as_large):
            pairs.add(a, b)


def pair_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Pairs the root tuples of two computations that are not inlined, whatever else differs between them."""
    if one in pairs.one.bodies or two in pairs.two.bodies or one.root is None or two.root is None:
        return
    a, b = pairs.one.node(one.root), pairs.two.node(two.root)
    if pairs.are_free(a, b) and one.root.opcode == two.root.opcode == opcodes.TUPLE:
        pairs.add(a, b)
