"""Phis that are no choice: those whose inputs all come to one value. Mirrors xla/service/hlo_phi_graph.cc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def simplified(inputs: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """For every phi that stands for another value, that value; the phis left out remain.

    `inputs` has the inputs of every phi; an input that is not a key is a value of its own.

    >>> simplified({1: (1, 7), 2: (7, 8), 3: (2, 2), 4: (5, 9), 5: (4, 9)})
    {1: 7, 3: 2, 4: 9, 5: 9}
    """
    sources = _sources(inputs)
    replaced = {phi: next(iter(found)) for phi, found in sources.items() if len(found) == 1}
    users: dict[int, list[int]] = {}
    for phi, listed in inputs.items():
        for given in listed:
            users.setdefault(given, []).append(phi)
    waiting = [phi for phi in inputs if phi not in replaced]
    while waiting:
        phi = waiting.pop()
        if phi in replaced:
            continue
        others = {_final(replaced, given) for given in inputs[phi]} - {phi}
        if len(others) == 1:
            replaced[phi] = others.pop()
            waiting.extend(users.get(phi, ()))
    return {phi: _final(replaced, phi) for phi in inputs if phi in replaced}


def _final(replaced: Mapping[int, int], value: int) -> int:
    while value in replaced:
        value = replaced[value]
    return value


def _sources(inputs: Mapping[int, Iterable[int]]) -> dict[int, set[int]]:
    """The values that reach each phi: the one, or two of them if there are more, as the rest does not matter."""
    users: dict[int, list[int]] = {}
    found: dict[int, set[int]] = {phi: set() for phi in inputs}
    waiting: list[tuple[int, int]] = []
    for phi, listed in inputs.items():
        for given in listed:
            if given in found:
                users.setdefault(given, []).append(phi)
            else:
                waiting.append((phi, given))
    while waiting:
        phi, source = waiting.pop()
        if source not in found[phi] and len(found[phi]) < 2:
            found[phi].add(source)
            waiting.extend((user, source) for user in users.get(phi, ()))
    return found
