"""Random scheduled modules: live ranges, positions, allocations, and offsets match those of XLA's CPU compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from random import Random

import pytest

from assigned_programs import assigned_program
from assigning import Answer, assigned
from compiler_memory import Key, compiler_assignment, compiler_positions, compiler_ranges
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.ir.module import Module
from hlo_cli.syntax.text.parser import parse_module
from share import parts
from versions import DEAD_CODE, needs_older_xla

CHUNK = 50
"""Programs that one process compiles; `make oracle` compiles the first chunk, `make judge` all others."""


def positions(module: Module, dataflow: Dataflow) -> dict[Key, set[Key]]:
    """The positions of each value."""
    places, found = dataflow.places, dict[Key, set[Key]]()
    keys = [(places.instructions[owner].name, places.index(place)) for place, owner in enumerate(places.owner)]
    for place, value in enumerate(dataflow.value):
        found.setdefault(keys[value], set()).add(keys[place])
    return found


def unlike(ours: Mapping[Key, Hashable], theirs: Mapping[Key, Hashable]) -> dict[Key, tuple[object, object]]:
    """The differences between our results and the compiler's."""
    return {
        key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
    }


def differences(answer: Answer) -> list[str]:
    """The differences of our analysis of a module from XLA's."""
    module = parse_module(answer.text)
    memory = memory_analysis(module, target="cpu")
    ranges, given = compiler_ranges(answer), compiler_assignment(answer)
    mine = [allocation for allocation in memory.allocations if allocation.values]
    found: list[str] = []

    def compare(what: str, ours: object, theirs: object, detail: object) -> None:
        if ours != theirs:
            found.append(f"{what}: {str(detail)[:600]}")

    lives = {(v.instruction.name, v.index): (v.start, v.end) for v in memory.values}
    compare("sequence", [instruction.name for instruction in memory.sequence], ranges.sequence, "")
    compare("ranges", lives, ranges.ranges, unlike(lives, ranges.ranges))
    compare("peak", memory.live_range_peak_step, ranges.peak, (memory.live_range_peak_step, ranges.peak))
    stand = {
        key: frozenset(places)
        for key, places in positions(module, order_independent_facts(module, "cpu").dataflow).items()
    }
    expected = {key: frozenset(places) for key, places in compiler_positions(answer).items()}
    compare("positions", stand, expected, unlike(stand, expected))
    ours = Counter(
        (a.size, a.kind == "thread-local", frozenset((v.instruction.name, v.index) for v in a.values)) for a in mine
    )
    theirs = Counter((a.size, a.is_local, frozenset(place.key for place in a.places)) for a in given)
    compare("allocations", ours, theirs, [(size, sorted(keys)) for size, _, keys in (ours - theirs) + (theirs - ours)])
    heaps = [a.size for a in mine if a.is_heap], [a.size for a in given if a.is_heap]
    compare("temporaries", *heaps, heaps)
    offsets = {(v.instruction.name, v.index): v.offset for a in mine for v in a.values}
    placed = {place.key: place.offset for a in given for place in a.places}
    compare("offsets", offsets, placed, unlike(offsets, placed))
    return found


@pytest.mark.oracle
@pytest.mark.slow
@needs_older_xla(DEAD_CODE)
@pytest.mark.parametrize("part", parts(300 // CHUNK))
def test_random_modules_have_the_memory_that_xla_assigns(part: int) -> None:
    """Witness: the live-range dump and the buffer assignment of jaxlib for exactly these texts."""
    seeds = range(CHUNK * part, CHUNK * (part + 1))
    for seed, answer in zip(seeds, assigned(assigned_program(Random(seed)) for seed in seeds), strict=True):
        assert answer is not None, seed
        assert "buffer-assignment" in answer.files, (seed, answer.error)
        assert not differences(answer), seed
