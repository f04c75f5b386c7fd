"""The local search of `diff`: what a trial costs, what is undone, and that the search never ends worse than it began."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from edits import Draft
from hlo_cli import parse_module
from hlo_cli.analysis.matching.local_search import ChangeWeights, IncrementalDiffCost, improve_matching
from hlo_cli.analysis.matching.match_modules import Matching, match
from strategies import dump_text, dumps, name_of

SMALL = [path for path in dumps() if len(dump_text(path)) < 40_000][::6]


def edited(path: Path, edits: int) -> Matching:
    """A dump paired with itself after some edits, names and places of which are others."""
    draft = Draft(module := parse_module(dump_text(path)))
    random = Random(f"{name_of(path)} {edits}")
    draft.shuffle(random)
    for _ in range(edits):
        draft.edit(random)
    return match(module, parse_module(draft.text(draft.names(random))))


def cost_of(matching: Matching) -> IncrementalDiffCost:
    return IncrementalDiffCost(matching.pairs, matching.computations, matching.pair_nodes)


def weight(weights: ChangeWeights, matching: Matching, ends: Iterable[int]) -> int:
    """What all differences of two modules weigh."""
    return weights.of(range(len(matching.pairs.after)), range(len(matching.pairs.before)), ends)


def state(matching: Matching, cost: IncrementalDiffCost) -> tuple[object, ...]:
    pairs = matching.pairs
    return [*pairs.after], [*pairs.before], {**cost.changes}, {**matching.computations}


@pytest.mark.parametrize("path", SMALL, ids=name_of)
def test_trials_cost_what_all_differences_cost_and_are_undone(path: Path) -> None:
    """By a comparison anew of all pairs, whatever was paired and undone before."""
    matching = edited(path, 5)
    pairs, cost, random = matching.pairs, cost_of(matching), Random(name_of(path))
    one, two = pairs.plain
    opcodes = [{i.opcode for i in graph.nodes} for graph in (one, two)]
    tried = 0
    for _ in range(60):
        opcode = random.choice(sorted(opcodes[0] & opcodes[1]))
        a = random.choice([n for n, i in enumerate(one.nodes) if i.opcode == opcode])
        b = random.choice([-1, *(n for n, i in enumerate(two.nodes) if i.opcode == opcode)])
        if pairs.after[a] == b or one.nodes[a].called_computations:
            continue
        before, mark = state(matching, cost), cost.mark
        ends = [n for n in (a, pairs.before[b] if b >= 0 else -1) if n >= 0]
        total = weight(cost.weights, matching, ends)
        more = cost.pair(a, b)
        if more is None:
            assert state(matching, cost) == before
            continue
        tried += 1
        anew = cost_of(matching)
        assert cost.changes == anew.changes
        assert more == weight(anew.weights, matching, ends) - total
        assert all(pairs.before[b] == a for a, b in enumerate(pairs.after) if b >= 0)
        if random.random() < 0.7:
            cost.undo(mark)
            assert state(matching, cost) == before
    assert tried > 10


@pytest.mark.parametrize("path", SMALL, ids=name_of)
def test_a_search_lowers_the_cost_or_changes_nothing(path: Path) -> None:
    """Also of a matching in which some pairs have been exchanged."""
    matching = edited(path, 5)
    pairs, cost, random = matching.pairs, cost_of(matching), Random(name_of(path))
    nodes = range(len(pairs.after))
    for _ in range(3):
        a = random.choice([n for n, b in enumerate(pairs.after) if b >= 0])
        like = [n for n, i in enumerate(pairs.two.nodes) if i.opcode == pairs.one.nodes[a].opcode]
        cost.pair(a, random.choice(like))
    before = weight(cost.weights, matching, nodes)
    improve_matching(pairs, cost)
    assert weight(cost.weights, matching, nodes) <= before
    assert pairs.found == [(a, b) for a, b in enumerate(pairs.after) if b >= 0]
