"""Computations that two modules have letter by letter: that what is taken over for them is what would be found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edits import Draft
from hlo_cli import parse_module
from hlo_cli.analysis.matching.graph import Keys, ModuleGraph, module_graph_of
from hlo_cli.analysis.matching.module_diff import diff
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.statements.statements import module_metrics
from strategies import dump_text, dumps, name_of

PARTS = ("keys", "metadata", "controlled", "operands", "users", "value", "expression", "comparable", "roots")

TEXT = """HloModule m

f {
  a = s8[2]{0} parameter(0)
  ROOT n = s8[2]{0} not(a)
}

ENTRY e {
  p = s8[2]{0} parameter(0)
  ROOT r = s8[2]{0} call(p), to_apply=f
}
"""


def twins(graph: ModuleGraph) -> list[str]:
    """The names of the computations that were taken over."""
    return [computation.name for computation, unit in graph.unit_of.items() if unit.twin is not None]


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_what_is_taken_over_is_what_would_be_found(path: Path) -> None:
    before = parse_module(dump_text(path))
    draft, random = Draft(before), Random(name_of(path))
    for _ in range(2):
        draft.edit(random)
    for after, are_same in ((parse_module(draft.text({})), False), (parse_module(dump_text(path)), True)):
        numbers = Keys()
        one = module_graph_of(before, numbers)
        two, looked_at = module_graph_of(after, numbers, earlier=one), module_graph_of(after, numbers)
        for part in PARTS:
            assert getattr(two, part) == getattr(looked_at, part), part
        for computation, unit in looked_at.unit_of.items():
            other = two.unit_of[computation]
            assert (other.nodes, other.content, other.full) == (unit.nodes, unit.content, unit.full)
        assert not twins(looked_at)
        read_by_line = [computation.name for computation in after.computations if computation.reader.whole()]
        if are_same:  # what is read with care has no one text
            assert sorted(twins(two)) == sorted(read_by_line)


def test_who_calls_what_differs_is_no_twin() -> None:
    before, after = parse_module(TEXT), parse_module(TEXT.replace("not(", "negate("))
    numbers = Keys()
    assert not twins(module_graph_of(after, numbers, earlier=module_graph_of(before, numbers)))
    assert [each.before.name for each in diff(before, after).changed] == ["n"]


def test_who_is_called_otherwise_is_no_twin() -> None:
    """What is called once may stand inlined; called twice, it is known by its parameters too."""
    twice = TEXT.replace(
        "  ROOT r = s8[2]{0} call(p)", "  q = s8[2]{0} call(p), to_apply=f\n  ROOT r = s8[2]{0} call(q)"
    )
    numbers = Keys()
    assert not twins(
        module_graph_of(parse_module(twice), numbers, earlier=module_graph_of(parse_module(TEXT), numbers))
    )


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_peaks_are_those_of_the_memory(path: Path) -> None:
    module = parse_module(dump_text(path))
    peaks = {space.number: space.peak_bytes for space in memory_analysis(module).spaces}
    assert module_metrics(module).peak_bytes == peaks
