"""Two modules that differ are reduced to where: faults seeded into real modules, and what XLA says of what is left."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import reducing
from hlo_cli import Module, Source, load, parse_module
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.transform.reduction.cuts import Question, cuts, pair_of, together
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.search import Case, Reduction, Search, stages_of

LOOP = """HloModule m

body {
  c = (f32[4], s32[]) parameter(0)
  x = f32[4] get-tuple-element(c), index=0
  i = s32[] get-tuple-element(c), index=1
  k = s32[] constant(2)
  at = pred[] compare(i, k), direction=GE
  all = pred[4] broadcast(at), dimensions={}
  y = f32[4] sine(x)
  z = f32[4] FAULT(x)
  s = f32[4] select(all, z, y)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (f32[4], s32[]) tuple(s, j)
}

condition {
  d = (f32[4], s32[]) parameter(0)
  n = s32[] get-tuple-element(d), index=1
  m = s32[] constant(5)
  ROOT l = pred[] compare(n, m), direction=LT
}

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] exponential(p)
  o = s32[] constant(0)
  w = (f32[4], s32[]) tuple(q, o)
  v = (f32[4], s32[]) while(w), condition=condition, body=body
  u = f32[4] get-tuple-element(v), index=0
  ROOT r = f32[4] negate(u)
}
"""
BRANCH = """HloModule m

one { a = f32[4] parameter(0)  ROOT b = f32[4] FAULT(a) }
two { c = f32[4] parameter(0)  ROOT d = f32[4] negate(c) }

ENTRY e {
  p = f32[4] parameter(0)
  k = s32[] constant(0)
  q = f32[4] tanh(p)
  ROOT r = f32[4] conditional(k, q, q), branch_computations={one, two}
}
"""
REDUCER = """HloModule m

f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] FAULT(a, b) }

ENTRY e {
  p = f32[4,4] parameter(0)
  q = f32[4,4] tanh(p)
  o = f32[] constant(0)
  ROOT r = f32[4] reduce(q, o), dimensions={1}, to_apply=f
}
"""
COLLECTIVE = """HloModule m, num_partitions=4

f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY e_spmd {
  p = f32[2,3] parameter(0), sharding={devices=[4,1]<=[4]}
  q = f32[2,3] exponential(p)
  s = f32[2,3] all-reduce(q), channel_id=1, replica_groups={FAULT}, use_global_device_ids=true, to_apply=f
  ROOT r = f32[2,3] negate(s), sharding={devices=[4,1]<=[4]}
}
"""


def reduced(text: str, good: str, bad: str, **settings: float) -> Reduction:
    """What is left of a text with a fault, next to the one without it."""
    old, new = (parse_module(text.replace("FAULT", each)) for each in (good, bad))
    return reduced_pair(old, new, **settings)


def reduced_pair(old: Module, new: Module) -> Reduction:
    case = Case((draft_of(old), draft_of(new)), reducing.arguments_of(parse_module(draft_of(old).to_string())))
    [fails] = reducing.judge([case])
    assert fails
    return reducing.reduce_pair(case)


@pytest.mark.parametrize(
    ("text", "good", "bad", "left"),
    [
        (LOOP, "cosine", "exponential", "ROOT %z = f32[1]{0} exponential(%x)"),
        (BRANCH, "abs", "sine", "ROOT %b = f32[1]{0} sine(%q)"),
        (REDUCER, "add", "maximum", "ROOT %c = f32[] maximum(%a, %b)"),
    ],
)
def test_the_wrong_instruction_is_left_of_what_calls_it(text: str, good: str, bad: str, left: str) -> None:
    found = reduced(text, good, bad)
    assert found.is_minimal
    assert left.partition("(")[0] in found.case.texts[1].replace("[4]", "[1]"), found.case.texts[1]
    assert left.partition("(")[0].replace(bad, good) in found.case.texts[0].replace("[4]", "[1]")
    assert found.case.draft.size <= 3


def test_wrong_groups_of_devices_are_left() -> None:
    found = reduced(COLLECTIVE, "{0,1},{2,3}", "{0,2},{1,3}")
    assert "{0,2},{1,3}" in found.case.texts[1]
    assert "exponential" not in found.case.texts[1]
    assert found.case.draft.size <= 6
    [argument] = (found.case.arguments or {}).values()
    assert np.shape(np.asarray(argument)) == (8, 3), "the parts of four devices"


def test_a_difference_of_rounding_is_no_failure_without_a_tolerance() -> None:
    text = "ENTRY e { p = f32[8] parameter(0)  q = f32[8] exponential(p)  ROOT r = f32[8] multiply(q, q) }"
    rounded = text.replace("ROOT", "s = f32[8] reduce-precision(q), exponent_bits=8, mantissa_bits=7  ROOT").replace(
        "multiply(q, q)", "multiply(s, q)"
    )
    drafts = tuple(draft_of(parse_module(each)) for each in (text, rounded))
    case = Case(drafts, reducing.arguments_of(parse_module(text)))
    assert not reducing.QUESTION.fails(case)
    question = Question(parse_module, floats="exact", tolerance=1e-4)
    assert question.fails(case)
    search = Search(lambda cases: map(question.fails, cases), max_steps=500, max_seconds=60)
    found = search.reduce(case, (*cuts(question), *together(stages_of(pairs=True))))
    assert "reduce-precision" in found.case.texts[1]
    assert found.case.draft.size == 2


def test_arguments_have_the_types_that_steps_give_to_parameters() -> None:
    text = "ENTRY e { p = f64[8] parameter(0)  ROOT r = f64[8] FAULT(p) }"
    found = reduced(text, "sine", "cosine")
    [value] = (found.case.arguments or {}).values()
    assert str(np.asarray(value).dtype) == "float32"
    assert np.shape(np.asarray(value)) == (1,)
    assert "f64" not in found.case.texts[1]


@pytest.mark.parametrize("wanted", ["nan", "inf"])
def test_the_first_instruction_that_makes_nan_is_left(wanted: str) -> None:
    made = {"nan": "log(y)", "inf": "divide(z, y)"}[wanted]
    text = f"""HloModule m
      f {{ a = f32[8] parameter(0)  b = f32[8] abs(a)  y = f32[8] subtract({"b, b" if wanted == "inf" else "a, b"})
           z = f32[8] exponential(b)  ROOT c = f32[8] {made} }}
      ENTRY e {{ p = f32[8] parameter(0)  q = f32[8] negate(p)  s = f32[8] fusion(q), kind=kLoop, calls=f
                ROOT r = (f32[8], f32[8]) tuple(s, q) }}"""
    module = parse_module(text)
    question = Question(parse_module, wanted=wanted)  # type: ignore[arg-type]
    case = Case((draft_of(module),), reducing.arguments_of(module))
    assert question.fails(case)
    found = Search(lambda cases: map(question.fails, cases), max_steps=500, max_seconds=60).reduce(
        case, (*cuts(question), *together(stages_of(pairs=True)))
    )
    assert made.partition("(")[0] in found.case.texts[0]
    assert found.case.draft.size <= 3


def _of_models(names: tuple[str, ...]) -> list[tuple[str, Reduction]]:
    found = []
    for name, module in reducing.models(names):
        for kind in reducing.FAULTS:
            case = reducing.seeded(module, kind, Random(f"{name} {kind}"))
            if case is not None:
                found.append((f"{kind} in {name}", reducing.reduce_pair(case)))
    return found


def check(found: list[tuple[str, Reduction]]) -> None:
    """The figures of all reductions: sizes, validity, and that the end was reached."""
    sizes = sorted(each.case.draft.size for _, each in found)
    assert sum(size <= 5 for size in sizes) >= 0.95 * len(sizes), sizes
    assert sizes[-1] <= 12, [name for name, each in found if each.case.draft.size > 12]
    assert [name for name, each in found if not each.is_minimal] == []
    for name, each in found:
        assert all(check_strictly(Source("m", text)) == () for text in each.case.texts), name


@pytest.mark.parametrize("name", ["cpu/softmax", pytest.param("gpu/h100_scan", marks=pytest.mark.long)])
def test_seeded_faults_in_a_model(name: str) -> None:
    found = _of_models((f"{name}/after",))
    assert len(found) >= 2
    check(found)


@pytest.mark.parametrize("name", ["cpu/softmax", pytest.param("gpu/h100_mlp", marks=pytest.mark.slow)])
def test_a_compilation_is_reduced_with_the_text_that_it_was_made_of(name: str) -> None:
    """Names and instructions are others, so that values alone say what belongs together."""
    sizes = []
    before = load(reducing.FIXTURES / name, stage="before_optimizations")
    after = load(reducing.FIXTURES / name, stage="after_optimizations")
    for kind in ("wrong opcode", "operand order", "dropped term", "lost update"):
        wrong = reducing.seeded(after, kind, Random(f"{name}/after_optimizations{kind}"))
        if wrong is not None:
            case = Case(pair_of(draft_of(before), wrong.drafts[1]), wrong.arguments)
            assert reducing.QUESTION.fails(case)
            sizes.append(reducing.reduce_pair(case).case.draft.size)
    assert len(sizes) >= 2
    assert max(sizes) <= 5, sizes


@pytest.mark.long
def test_seeded_faults_in_all_models() -> None:
    found = _of_models(("",))
    assert len(found) >= 100
    check(found)


@pytest.mark.oracle
def test_xla_computes_the_same_difference() -> None:
    """XLA:CPU runs both modules, and their results differ, by what the evaluator says."""
    found = [each for _, each in _of_models(("cpu/softmax/before", "gpu/h100_mlp/before"))]
    assert len(found) >= 6
    outcomes = reducing.in_xla([each.case for each in found])
    assert [outcome for outcome in outcomes if outcome != "differ"] == []
