"""Where two programs part: planted changes are found and named, in fusions, reducers, branches, and nested loops."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, Module, compare_runs, load, parse_module
from hlo_cli.analysis.evaluate.arguments import made_up_arguments

FIXTURES = Path(__file__).parent.parent / "fixtures"
SWAPPED = {"add": "subtract", "subtract": "add", "multiply": "add", "maximum": "minimum", "minimum": "maximum"}
ELEMENTWISE = re.compile(r"^ +(?:ROOT )?%(\S+) = \S+ (add|subtract|multiply|maximum|minimum)\(", re.MULTILINE)
NESTED = """HloModule m
inner_condition { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
inner_body { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  x = f32[4] get-tuple-element(p), index=1  y = f32[4] get-tuple-element(p), index=2
  j = s32[] add(i, one)  s = f32[4] sine(x)  z = f32[4] add(s, y)
  ROOT t = (s32[], f32[4], f32[4]) tuple(j, z, y) }
condition { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  x = f32[4] get-tuple-element(p), index=1  y = f32[4] get-tuple-element(p), index=2
  j = s32[] add(i, one)  zero = s32[] constant(0)  half = f32[] constant(0.5)  h = f32[4] broadcast(half), dimensions={}
  y2 = f32[4] multiply(y, h)  t = (s32[], f32[4], f32[4]) tuple(zero, x, y2)
  w = (s32[], f32[4], f32[4]) while(t), condition=inner_condition, body=inner_body
  x2 = f32[4] get-tuple-element(w), index=1  k = s32[] constant(2)  late = pred[] compare(i, k), direction=GE
  x3 = f32[4] conditional(late, x2, x2), true_computation=yes, false_computation=no
  ROOT r = (s32[], f32[4], f32[4]) tuple(j, x3, y) }
yes { p = f32[4] parameter(0)  ROOT c = f32[4] cosine(p) }
no { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
total { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT sum = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  z = s32[] constant(0)
  t = (s32[], f32[4], f32[4]) tuple(z, x, y)
  w = (s32[], f32[4], f32[4]) while(t), condition=condition, body=body  g = f32[4] get-tuple-element(w), index=1
  i = f32[] constant(0)  ROOT r = f32[] reduce(g, i), dimensions={0}, to_apply=total }
"""


@pytest.mark.parametrize(
    ("old", "new", "name", "callers"),
    [
        ("z = f32[4] add(s, y)", "z = f32[4] subtract(s, y)", "z", ("w", "w")),
        ("s = f32[4] sine(x)", "s = f32[4] cosine(x)", "s", ("w", "w")),
        ("constant(3)", "constant(2)", "n", ("w", "w")),
        ("constant(4)", "constant(5)", "n", ("w",)),
        ("constant(0.5)", "constant(0.25)", "half", ("w",)),
        ("y2 = f32[4] multiply", "y2 = f32[4] add", "y2", ("w",)),
        ("f32[4] cosine(p)", "f32[4] tanh(p)", "c", ("w", "x3")),
        ("direction=GE", "direction=GT", "late", ("w",)),
        ("constant(2)  late", "constant(1)  late", "k", ("w",)),
        ("sum = f32[] add(a", "sum = f32[] maximum(a", "sum", ("r",)),
        ("x2 = f32[4] get-tuple-element(w), index=1", "x2 = f32[4] get-tuple-element(w), index=2", "x2", ("w",)),
    ],
)
def test_planted_changes_in_nested_loops_are_named(old: str, new: str, name: str, callers: tuple[str, ...]) -> None:
    assert NESTED.count(old) == 1
    found = compare_runs(parse_module(NESTED), parse_module(NESTED.replace(old, new)))
    assert found.verdict == "different"
    assert found.first_difference is not None
    assert found.first_difference.instruction.name == name
    assert tuple(each.name for each in found.first_difference.callers) == callers


def test_rounds_of_nested_loops_are_counted_apart() -> None:
    """The branch of later iterations is taken from iteration 2 of the outer loop on."""
    changed = NESTED.replace("cosine(p)", "tanh(p)")
    found = compare_runs(parse_module(NESTED), parse_module(changed)).first_difference
    assert found is not None
    assert (found.execution, found.iterations) == (0, (2, 0))


@pytest.mark.parametrize("name", ["tpu/v5e_branches", "gpu/h100_scan", "cpu/softmax"])
def test_unchanged_modules_do_not_part(name: str) -> None:
    module = load(FIXTURES / name, stage="after_optimizations")
    found = compare_runs(module, module)
    assert (found.verdict, found.first_difference) == ("identical", None)


def test_planted_changes_are_named() -> None:
    old = load(FIXTURES / "cpu/softmax", stage="after_optimizations")
    text = old.source.text
    altered = 0
    for match in Random(1).sample(list(ELEMENTWISE.finditer(text)), 4):
        changed = parse_module(text[: match.start(2)] + SWAPPED[match[2]] + text[match.end(2) :])
        found = compare_runs(old, changed)
        if found.is_same:
            continue
        altered += 1
        assert found.first_difference is not None
        assert found.first_difference.instruction.name == match[1]
    assert altered >= 2


BEFORE = """HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[8,4] parameter(0)  w = f32[4,4] parameter(1)  d = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)  t = f32[8] reduce(d, z), dimensions={1}, to_apply=sum
  four = f32[] constant(4)  b = f32[8] broadcast(four), dimensions={}  m = f32[8] divide(t, b)
  ROOT r = f32[8] tanh(m) }
"""
AFTER = """HloModule m
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT total = f32[] add(p, q) }
body { p0 = f32[8,4] parameter(0)  p1 = f32[4,4] parameter(1)
  turned = f32[4,4] transpose(p1), dimensions={1,0}
  product = f32[4,8] dot(turned, p0), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  halves = f32[2,2,8] reshape(product)  none = f32[] constant(0)
  part = f32[2,8] reduce(halves, none), dimensions={1}, to_apply=add
  whole = f32[8] reduce(part, none), dimensions={0}, to_apply=add
  quarter = f32[] constant(0.25)  spread = f32[8] broadcast(quarter), dimensions={}
  scaled = f32[8] multiply(whole, spread)
  ROOT out = f32[8] tanh(scaled) }
ENTRY e { a = f32[8,4] parameter(0)  b = f32[4,4] parameter(1)
  ROOT f = f32[8] fusion(a, b), kind=kLoop, calls=body }
"""


@pytest.mark.parametrize(
    ("old", "new", "name", "repair"),
    [
        ("tanh(scaled)", "negate(scaled)", "out", ""),
        ("multiply(whole", "add(whole", "scaled", "multiply"),
        ("constant(0.25)", "constant(0.5)", "quarter", "constant 0.25"),
        ("constant(0)\n", "constant(1)\n", "none", "constant 0"),
        ("total = f32[] add", "total = f32[] maximum", "total", ""),
    ],
)
def test_changes_after_optimization_are_named_by_the_program_before(old: str, new: str, name: str, repair: str) -> None:
    """The optimized program has partial sums and a folded constant that the other program does not have."""
    assert compare_runs(parse_module(BEFORE), parse_module(AFTER)).is_same
    assert AFTER.count(old) == 1
    first = compare_runs(parse_module(BEFORE), parse_module(AFTER.replace(old, new))).first_difference
    assert first is not None
    assert first.instruction.name == name
    assert not repair or first.repair == repair


DEVICES = """HloModule m, num_partitions=2
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  i = u32[] partition-id()  n = f32[] convert(i)  c = f32[2] broadcast(n), dimensions={}  q = f32[2] multiply(p, c)
  ROOT r = f32[2] all-reduce(q), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f, sharding={replicated} }
"""


def test_a_change_on_one_device_is_named() -> None:
    """On device 0 the factor is 0, so that only device 1 computes something else."""
    one, two = (parse_module(DEVICES.replace("multiply(p, c)", each)) for each in ("abs(c)", "negate(c)"))
    first = compare_runs(one, two).first_difference
    assert first is not None
    assert (first.instruction.name, first.place.device) == ("q", 1)


@pytest.mark.slow
def test_an_edited_copy_of_a_partitioned_dump_gets_its_shardings() -> None:
    """Those of a TPU program are in the dump before optimizations, which is not next to the copy."""
    dump = load(FIXTURES / "tpu/v4_collectives", stage="after_optimizations")
    found = compare_runs(dump, parse_module(dump.source.text))
    assert (found.verdict, found.first_difference) == ("identical", None)


def test_results_that_agree_with_other_seeds_may_depend_on_a_discontinuity() -> None:
    """Only the argument of seed 0 is between the two bounds."""
    text = """ENTRY e { p = f32[] parameter(0)  b = f32[] constant(BOUND)  zero = f32[] constant(0)  one = f32[] constant(1)
      c = pred[] compare(p, b), direction=LT  ROOT r = f32[] select(c, zero, one) }"""
    drawn = [
        float(np.asarray(made_up_arguments(parse_module(text.replace("BOUND", "0")), seed=seed)[0]))
        for seed in (0, 1, 2)
    ]
    others = min(abs(each - drawn[0]) for each in drawn[1:]) / 2
    old, new = (parse_module(text.replace("BOUND", repr(drawn[0] + by))) for by in (-others, others))
    found = compare_runs(old, new)
    assert (found.verdict, found.is_same) == ("discontinuity", False)
    assert found.other_seeds == {1: 0.0, 2: 0.0}


def test_differences_are_counted_in_ulp_and_nan_on_both_sides() -> None:
    old = parse_module("ENTRY e { p = bf16[2] parameter(0)  ROOT r = bf16[2] log(p) }")
    new = parse_module(
        "ENTRY e { p = bf16[2] parameter(0)  a = bf16[2] abs(p)  e = bf16[] constant(1.008)  b = bf16[2] broadcast(e), dimensions={}  ROOT r = bf16[2] multiply(a, b) }"
    )
    plain = parse_module("ENTRY e { p = bf16[2] parameter(0)  ROOT r = bf16[2] abs(p) }")
    given = [np.array([1.0, -1.0], np.float32)]
    [first] = compare_runs(old, plain, given).distances
    assert (first.nan, first.inf, first.exact) == ((1, 0), (0, 0), float("inf"))
    [second] = compare_runs(plain, new, given).distances
    assert second.ulp == 1.0
    assert second.expected is not None
    assert second.expected.bound == 4 * 2.0**-8


def folded(kind: str, third: str) -> tuple[Module, Module]:
    """Two programs that multiply by 1/3: one divides, and the compiler of the other has divided."""
    one, two = f"one = {kind}[] constant(1)  three = {kind}[] constant(3)", f"{kind}[] divide(one, three)"
    text = "ENTRY e {{ p = {0}[4] parameter(0)  {1}  t = {2}  b = {0}[4] broadcast(t), dimensions={{}}  {3} }}"
    root = f"ROOT r = {kind}[4] multiply(p, b)"
    constant = f"{kind}[] constant({third})"
    return parse_module(text.format(kind, one, two, root)), parse_module(text.format(kind, "", constant, root))


def test_folded_constants_are_no_difference_if_results_are_identical() -> None:
    third = str(float(np.float32(1) / np.float32(3)))
    found = compare_runs(*folded("f32", third)).distances[0]
    assert (found.exact, found.verdict) == (0, "identical")
    assert replace(found, widened=1e-4).verdict == "identical"
    narrow = compare_runs(*folded("f16", "0.33325")).distances[0]
    assert narrow.exact == 0
    assert (narrow.verdict, 1e-6 < narrow.widened < 1e-3) == ("approximation", True)


@pytest.mark.parametrize(
    ("kind", "old", "new", "verdict"),
    [
        ("s32", "5000000, 0", "5000000, 1", "different"),
        ("pred", "true, false", "true, true", "different"),
        ("s32", "5, 0", "5, 0", "identical"),
    ],
)
def test_integers_are_the_same_or_different(kind: str, old: str, new: str, verdict: str) -> None:
    one, two = (parse_module(f"ENTRY e {{ ROOT c = {kind}[2] constant({{{values}}}) }}") for values in (old, new))
    assert compare_runs(one, two).verdict == verdict


def test_an_overflow_on_one_side_is_no_rounding() -> None:
    text = "ENTRY e {{ p = f16[1] parameter(0)  c = f16[1] constant({{1000}})  {} }}"
    old = text.format("ROOT r = f16[1] multiply(p, c)")
    new = text.format("m = f16[1] multiply(p, c)  s = f16[1] multiply(m, c)  ROOT r = f16[1] divide(s, c)")
    found = compare_runs(parse_module(old), parse_module(new))
    assert found.verdict == "overflow"
    assert found.distances[0].inf == (0, 1)


def test_parameters_have_the_same_shapes() -> None:
    old, new = (parse_module(f"ENTRY e {{ ROOT p = {kind}[4] parameter(0) }}") for kind in ("f32", "bf16"))
    with pytest.raises(HloError, match=r"parameter 0 is f32\[4\] in the first module, and bf16\[4\] in the second"):
        compare_runs(old, new)
