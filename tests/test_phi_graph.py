"""Redundant phis: those that the search of XLA finds, in time that does not grow with the square of a nest's depth."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random

import pytest

from hlo_cli.analysis.dataflow.value_sets import simplify_phis
from timing import is_linear

Inputs = Mapping[int, tuple[int, ...]]


def as_in_xla(inputs: Inputs) -> dict[int, int]:
    """`PhiGraph::Optimize` of xla/service/hlo_phi_graph.cc, step by step."""
    operands = {phi: list(listed) for phi, listed in inputs.items()}
    users: dict[int, list[int]] = {}
    for phi, listed in operands.items():
        for given in listed:
            users.setdefault(given, []).append(phi)
    replaced: dict[int, int] = {}

    def resolve(value: int) -> int:
        while value in replaced:
            value = replaced[value]
        return value

    def replace(phi: int, value: int) -> bool:
        if (value := resolve(value)) == phi:
            return False
        for user in users.get(phi, ()):
            if user in operands:
                operands[user] = [value if each == phi else each for each in operands[user]]
        for operand in operands[phi]:
            users[operand] = [value if each == phi else each for each in users.get(operand, ())]
        replaced[phi] = value
        return True

    def replace_group(phi: int, checked: set[int]) -> bool:
        seen: dict[int, None] = {}
        waiting, source = deque((phi,)), None
        while waiting:
            each = waiting.popleft()
            if each in seen:
                continue
            seen[each] = None
            checked.add(each)
            if each in operands:
                waiting.extend(operands[each])
            elif source is not None and source != each:
                return False
            else:
                source = each
        group = [each for each in seen if each in operands and each not in replaced]
        return source is not None and sum(replace(each, source) for each in group) > 0

    changed = True
    while changed:
        changed, checked = False, set[int]()
        for phi, listed in operands.items():
            if phi in replaced:
                continue
            if phi in listed:
                listed[:] = [each for each in listed if each != phi]
                users[phi] = [each for each in users[phi] if each != phi]
            if listed and all(each == listed[0] for each in listed):
                changed |= replace(phi, listed[0])
            elif phi not in checked:
                changed |= replace_group(phi, checked)
    return {phi: resolve(phi) for phi in inputs if phi in replaced}


def some_inputs(random: Random) -> Inputs:
    """Up to 14 phis in any order, whose inputs are near them or anywhere."""
    count, sources = random.randint(1, 14), random.randint(1, 3)
    phis = random.sample(range(count), count)
    is_near, share = random.random() < 0.5, random.uniform(0.05, 0.4)

    def given(at: int) -> int:
        if random.random() < share:
            return 100 + random.randrange(sources)
        return phis[min(max(at + random.randint(-2, 2), 0), count - 1) if is_near else random.randrange(count)]

    return {phi: tuple(given(at) for _ in range(random.randint(1, 3))) for at, phi in enumerate(phis)}


@pytest.mark.parametrize("seed", range(3))
def test_the_same_phis_are_replaced_as_by_the_search_of_xla(seed: int) -> None:
    random = Random(seed)
    for _ in range(1000):
        inputs = some_inputs(random)
        assert simplify_phis(inputs) == as_in_xla(inputs), inputs


def carried(depth: int) -> Inputs:
    """A value that nested loops carry unchanged: the parameters of bodies and conditions, and the results."""
    body = {n: (n - 1 if n else -1, depth + n) for n in range(depth)}
    result = {depth + n: (n, depth + n + 1 if n + 1 < depth else n) for n in range(depth)}
    condition = {2 * depth + n: (n - 1 if n else -1, depth + n) for n in range(depth)}
    return {**condition, **body, **result}


def changed(depth: int) -> Inputs:
    """The same, changed in the innermost loop."""
    return {**carried(depth), 2 * depth - 1: (depth - 1, -2)}


@pytest.mark.parametrize("nest", [carried, changed])
def test_work_on_nested_loops_is_linear_in_their_depth(nest: Callable[[int], Inputs]) -> None:
    def work(depth: int) -> Callable[[], object]:
        inputs = nest(depth)
        return lambda: simplify_phis(inputs)

    assert simplify_phis(nest(20)) == as_in_xla(nest(20))
    assert is_linear(work, 300, 2400)
