"""Modules are made smaller as long as they fail: what the edits make, and what the search keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import Module, Source, load, parse_module
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.transform.reduction.draft import Draft, draft_of
from hlo_cli.transform.reduction.search import Case, Reduction, Search, stages_of
from hlo_cli.transform.reduction.steps import STEPS

FIXTURES = Path(__file__).parents[1] / "fixtures"
DUMPS = tuple(
    str(FIXTURES / name)
    for name in ("cpu/softmax", "cpu/sorting", "gpu/h100_mlp", "gpu/h100_scan", "tpu/v5e_conv", "tpu/v5e_branches")
)
LOOP = """HloModule loop, entry_computation_layout={(f32[8,4]{1,0}, s32[])->f32[8,4]{1,0}}

body {
  c = (f32[8,4]{1,0}, s32[]) parameter(0)
  x = f32[8,4]{1,0} get-tuple-element(c), index=0
  i = s32[] get-tuple-element(c), index=1
  s = f32[8,4]{1,0} sine(x), metadata={op_name="jit(f)/sin"}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (f32[8,4]{1,0}, s32[]) tuple(s, j)
}

condition {
  d = (f32[8,4]{1,0}, s32[]) parameter(0)
  k = s32[] get-tuple-element(d), index=1
  n = s32[] constant(3)
  ROOT l = pred[] compare(k, n), direction=LT
}

ENTRY e {
  p = f32[8,4]{1,0} parameter(0)
  z = s32[] parameter(1)
  q = f32[8,4]{1,0} exponential(p)
  w = (f32[8,4]{1,0}, s32[]) tuple(q, z)
  v = (f32[8,4]{1,0}, s32[]) while(w), condition=condition, body=body
  u = f32[8,4]{1,0} get-tuple-element(v), index=0
  ROOT r = f32[8,4]{1,0} negate(u)
}
"""


def judge_of(fails: Callable[[str], bool]) -> Callable[[Sequence[Case]], Iterator[bool]]:
    """A judge of valid texts."""

    def judge(cases: Sequence[Case]) -> Iterator[bool]:
        for case in cases:
            [text] = case.texts
            yield not check_strictly(Source("m", text)) and fails(text)

    return judge


def reduced(module: Module, fails: Callable[[str], bool], *, jobs: int = 1, max_steps: int = 4000) -> Reduction:
    search = Search(judge_of(fails), jobs=jobs, max_steps=max_steps, max_seconds=100)
    return search.reduce(Case((draft_of(module),)), stages_of())


def test_what_fails_in_a_loop_is_all_that_is_left() -> None:
    found = reduced(parse_module(LOOP), lambda text: " sine(" in text)
    [text] = found.case.texts
    assert [line.strip() for line in text.strip().splitlines()[2:]] == [
        "ENTRY %body (x: f32[1,1]) -> f32[1,1] {",
        "%x = f32[1,1]{1,0} parameter(0)",
        "ROOT %s = f32[1,1]{1,0} sine(%x)",
        "}",
    ]
    assert found.is_minimal
    assert found.kept[-1].instructions == 2


def test_a_pair_of_instructions_keeps_what_is_between_them_as_short_as_it_can() -> None:
    text = "HloModule m  ENTRY e { p = f32[] parameter(0)  " + "  ".join(
        f"a{at + 1} = f32[] {opcode}({'p' if not at else f'a{at}'})"
        for at, opcode in enumerate(("cosine", *["negate"] * 40, "tan", *["negate"] * 40))
    )
    module = parse_module(text + "  ROOT r = f32[] abs(a82) }")
    found = reduced(module, lambda text: " cosine(" in text and " tan(" in text)
    assert found.case.draft.size == 3
    assert found.steps < 3 * len(module), "a long chain is not cut in halves"


def test_the_same_whatever_the_number_of_jobs() -> None:
    module = parse_module(LOOP)
    one, three = (reduced(module, lambda text: "exponential" in text and "sine" in text, jobs=n) for n in (1, 3))
    assert one.case.texts == three.case.texts
    assert [(kept.words, kept.instructions) for kept in one.kept] == [
        (kept.words, kept.instructions) for kept in three.kept
    ]


def test_a_search_is_resumed_by_what_is_known() -> None:
    module, known = parse_module(LOOP), dict[str, bool]()
    asked: list[str] = []

    def fails(text: str) -> bool:
        asked.append(text)
        return " sine(" in text

    def found(max_steps: int) -> Reduction:
        search = Search(
            judge_of(fails), note=known.__setitem__, known=dict(known), max_steps=max_steps, max_seconds=100
        )
        return search.reduce(Case((draft_of(module),)), stages_of())

    first, second = found(5), found(4000)
    assert (first.steps, first.is_minimal, second.is_minimal) == (5, False, True)
    assert len(asked) == len(set(asked)), "a text was asked for twice"


def test_a_limit_of_time_ends_the_search() -> None:
    search = Search(judge_of(lambda text: True), max_steps=4000, max_seconds=0)
    found = search.reduce(Case((draft_of(parse_module(LOOP)),)), stages_of())
    assert (found.steps, found.is_minimal) == (0, False)


@pytest.mark.parametrize("dump", DUMPS)
def test_drafts_are_the_module(dump: str) -> None:
    module = load(dump)
    again = parse_module(draft_of(module).to_string(), strict=True)
    kept = {c.name: {i.name for i in c.instructions} for c in again.computations}
    assert again.entry.name == module.entry.name
    assert all(names <= {i.name for i in module.computation(name).instructions} for name, names in kept.items())
    assert draft_of(again) == replace(draft_of(module), header=draft_of(again).header)


@pytest.mark.parametrize("dump", DUMPS)
def test_every_step_makes_valid_modules_of_real_dumps(dump: str) -> None:
    """Of each step that applies, one of the first edits at least is a module that XLA's parser takes."""
    draft = draft_of(load(dump))
    refused = []
    for step in STEPS:
        made: list[Draft] = []
        for edit in step.edits(draft):
            if (small := edit(draft)) is not None:
                made.append(small)
            if len(made) == 8:
                break
        if made and step.words not in ("smaller sizes", "usual types", "attributes dropped", "fewer devices"):
            problems = (check_strictly(Source("m", each.to_string())) for each in made)
            first = next(problems)  # most often none: the others are checked only if it is needed
            if first and all(problems):
                refused.append((step.words, str(first[0])))
    assert refused == []


@pytest.mark.parametrize(("name", "opcode"), [("cpu/softmax", "exponential"), ("cpu/sorting", "sort")])
def test_real_dumps_are_reduced_to_one_operation(name: str, opcode: str) -> None:
    module = load(FIXTURES / name)
    assert opcode in {each.opcode for each in module.instructions}
    found = reduced(module, lambda text: f" {opcode}(" in text)
    assert found.is_minimal
    assert found.case.draft.size <= 7, found.case.texts
