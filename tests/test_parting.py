"""Where two programs part: planted changes are found and named, in fusions, reducers, branches, and nested loops."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from hlo_cli import compare_runs, load, parse_module

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
    for match in Random(1).sample(list(ELEMENTWISE.finditer(text)), 6):
        changed = parse_module(text[: match.start(2)] + SWAPPED[match[2]] + text[match.end(2) :])
        found = compare_runs(old, changed)
        if found.is_same:
            continue
        altered += 1
        assert found.first_difference is not None
        assert found.first_difference.instruction.name == match[1]
    assert altered >= 3
