"""How far results are apart, element by element, and what that means: tables of the words of `verdict.py`."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import numpy as np
import pytest

from hlo_cli import parse_module, parse_shape
from hlo_cli.analysis.comparison.verdict import (
    APPROXIMATION,
    ROUNDING,
    Distance,
    Magnitude,
    Rounding,
    Verdict,
    are_compared,
    closeness,
    distance,
    larger,
    magnitudes,
    rounding_of,
    ulps,
    verdict_of,
)
from hlo_cli.analysis.semantics.typed_values import Array
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.shape import ArrayShape

MORE = 1 + 1e-9
"""A little above a bound."""


def kind(name: str) -> PrimitiveType:
    shape = parse_shape(f"{name}[]")
    assert isinstance(shape, ArrayShape)
    return shape.element_type


@pytest.mark.parametrize(
    ("name", "exact", "widened", "verdict"),
    [
        ("f32", 0.0, 0.0, "identical"),
        ("f32", 0.0, APPROXIMATION, "identical"),  # constants that are folded in f32 show in the widened run alone
        ("f32", 0.0, APPROXIMATION * MORE, "different"),
        ("f32", 0.5, ROUNDING, "rounding"),
        ("f32", inf, ROUNDING, "overflow"),
        ("f32", 0.5, ROUNDING * MORE, "approximation"),
        ("f32", inf, APPROXIMATION, "approximation"),
        ("f32", 0.5, APPROXIMATION * MORE, "different"),
        ("bf16", 0.0, ROUNDING, "identical"),
        ("bf16", 0.0, ROUNDING * MORE, "approximation"),  # narrow results may be equal by rounding
        ("bf16", 0.0, APPROXIMATION * MORE, "different"),
        ("f64", 0.0, APPROXIMATION, "identical"),
        *((name, 0.0, 0.5, "identical") for name in ("s32", "u8", "pred")),
        *((name, 0.5, 0.0, "rounding") for name in ("s32", "u8", "pred")),  # of a float that was converted
        *((name, 0.5, 1e-9, "different") for name in ("s32", "u8", "pred")),
    ],
)
def test_what_distances_mean(name: str, exact: float, widened: float, verdict: Verdict) -> None:
    assert Distance((), exact, widened, element_type=kind(name)).verdict == verdict
    assert Distance((), exact, widened, element_type=kind(name), is_known=False).verdict == "unknown"


def test_the_verdict_is_that_of_the_worst() -> None:
    same, rounded, wrong = (Distance((), *apart) for apart in ((0.0, 0.0), (0.5, 0.0), (0.5, 0.5)))
    unknown = Distance((), 0.0, 0.0, is_known=False)
    assert verdict_of([]) == verdict_of([same, same]) == "identical"
    assert verdict_of([rounded, same]) == verdict_of([same, rounded]) == "rounding"
    assert verdict_of([rounded, unknown, same]) == "unknown"
    assert verdict_of([unknown, wrong, rounded]) == "different"


def test_rounding_is_amplified_above_what_it_explains() -> None:
    expected = Rounding(16, 23)
    assert expected.bound == 8 * 2.0**-24
    assert Distance((), expected.bound * MORE, 0.0, expected=expected).is_amplified
    assert not Distance((), expected.bound, 0.0, expected=expected).is_amplified
    assert not Distance((), 1.0, 0.5, expected=expected).is_amplified, "it is different"
    assert not Distance((), 1.0, 0.0).is_amplified


LARGEST = 2**64 - 1


@pytest.mark.parametrize(
    ("old", "new", "apart"),
    [
        ([1.0, 4.0], [1.0, 3.0], 0.25),
        ([4.0, 1.0], [4.0, 3.0], 0.5),
        ([-4.0, 1.0], [-4.0, 3.0], 0.5),
        ([0.0], [0.125], 0.125),  # nothing to be relative to
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], inf),
        ([inf, 2.0], [inf, 1.0], 0.5),
        ([inf], [-inf], inf),
        ([inf], [1.0], inf),
        ([1.0], [nan], inf),
        ([nan, 2.0], [nan, 1.0], 0.5),
        ([nan], [nan], 0.0),
        ([2j], [1j], 0.5),
        (np.array([LARGEST], np.uint64), np.array([0], np.uint64), 1.0),
        (np.array([-(2**63), 0], np.int64), np.array([2**63 - 1, 0], np.int64), LARGEST / 2**63),
        (np.array([8, 1], np.int32), np.array([8, 3], np.int32), 0.25),
        (np.array([-8, 1], np.int32), np.array([-8, 3], np.int32), 0.25),
        (np.array([0], np.int32), np.array([3], np.int32), 3.0),
        (np.array([5], np.int32), np.array([5], np.int32), 0.0),
        (np.array([True]), np.array([False]), 1.0),
    ],
)
def test_distances_are_relative_to_the_largest_element(old: Array, new: Array, apart: float) -> None:
    assert distance(np.asarray(old), np.asarray(new)) == apart


@pytest.mark.parametrize(
    ("old", "new", "apart"),
    [
        ([1e9, 1.0], [1e9, 2.0], 0.5),
        ([1e9, 2.0], [1e9, 1.0], 0.5),
        ([1.0, -2.0], [1.0, 2.0], 2.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0], [1e-9], 1.0),
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], inf),
        ([inf], [inf], 0.0),
        ([inf], [1.0], inf),
        ([nan, 4.0], [nan, 3.0], 0.25),
        (np.array([8, 1], np.int32), np.array([8, 3], np.int32), 0.25),  # integers as a whole
    ],
)
def test_closeness_is_relative_to_each_element(old: Array, new: Array, apart: float) -> None:
    assert closeness(np.asarray(old), np.asarray(new)) == apart


def test_closeness_is_relative_to_what_elements_are_made_of() -> None:
    old, new = np.array([1.0, 2.0, inf]), np.array([1.5, 2.0, 3.0])
    made_of = Magnitude(np.array([2.0, 0.0, 0.0]), np.array([False, True, True]))
    assert closeness(old, new, made_of) == inf
    assert closeness(old, new, made_of, steady="finite") == closeness(old, new, made_of, steady="all") == 0.25
    all_steady = Magnitude(made_of.sizes, np.zeros(3, bool))
    assert closeness(old, new, all_steady, steady="all") == inf
    assert closeness(old, new, all_steady, steady="finite") == 0.25
    small = Magnitude(np.zeros(3), np.zeros(3, bool))
    assert closeness(old, new, small, steady="finite") == 0.5 / 1.5, "the value itself if that is larger"


@pytest.mark.parametrize(
    ("name", "old", "new", "units"),
    [
        ("f32", [1.0, 2.0], [1.0, 2.0 + 2**-22], 1.0),
        ("f32", [1.0], [1.0 - 2**-24], 0.5),  # in units of the larger one
        ("f32", [2.0], [2.0 - 2**-23], 0.5),
        ("f32", [-4.0], [4.0], 2.0**24),
        ("f32", [2.0**-149], [0.0], 1.0),
        ("f32", [2.0**-126], [2.0**-126 + 2.0**-149], 1.0),
        ("f64", [5e-324], [0.0], 1.0),
        ("bf16", [1.0], [1.0078125], 1.0),
        ("c64", [1 + 1j], [1 + (1 + 2**-23) * 1j], 1.0),
        ("c64", [1 + 1j], [1 + 2**-22 + 1j], 2.0),
        ("f32", [inf, nan], [inf, nan], 0.0),
        ("f32", [inf], [1.0], inf),
        ("f32", [1.0], [nan], inf),
        ("f32", [], [], 0.0),
        ("f32", [1.0], [1.0, 1.0], inf),
        ("s32", np.array([1, 5], np.int32), np.array([1, 2], np.int32), 3.0),
        ("u64", np.array([LARGEST], np.uint64), np.array([0], np.uint64), float(LARGEST)),
    ],
)
def test_units_in_the_last_place(name: str, old: Array, new: Array, units: float) -> None:
    assert ulps(np.asarray(old), np.asarray(new), kind(name)) == units


def test_elements_that_are_nan_in_both_say_nothing() -> None:
    assert are_compared(np.array([nan, nan, 1.0]), np.array([nan, 1.0, nan])).tolist() == [False, True, True]
    assert are_compared(np.array([1, 2]), np.array([1, 3])).all()
    assert are_compared(np.array([nan]), np.array([nan, nan])).tolist() == [True]


def test_magnitudes_are_what_errors_show_and_the_larger_of_both_programs() -> None:
    """As many times an error as it makes; a jump is none, and of integers any change is one."""
    small, large = 2.0**-42, 2.0**-26
    clean = np.array([1.0, 1.0, 1.0, 0.0])
    runs = ([clean + small * np.array([1.0, 3.0, 0.0, 0.0])], [clean + large * np.array([1.0, 3.0, 1.0 / large, 0.0])])
    [(index, found)] = magnitudes(clean, runs, parse_shape("f32[4]")).items()
    assert index == ()
    assert found.sizes.tolist() == [1.0, 3.0, 0.0, 0.0]
    assert found.is_unsteady.tolist() == [False, False, True, False]
    [whole] = magnitudes(np.array([1, 2]), ([np.array([1, 2])], [np.array([1, 3])]), parse_shape("s32[2]")).values()
    assert whole.is_unsteady.tolist() == [False, True]
    assert not whole.sizes.any()
    other = Magnitude(np.array([2.0, 2.0, 0.0, 0.0]), np.array([True, False, False, False]))
    both = larger({(): found}, {(): other})[()]
    assert both.sizes.tolist() == [2.0, 3.0, 0.0, 0.0]
    assert both.is_unsteady.tolist() == [True, False, True, False]
    assert larger({}, {(0,): other}) == {(0,): other}
    assert larger({(0,): other}, {}) == {(0,): other}


SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
REDUCE = "reduce({0}, {1}), dimensions={{0}}, to_apply=sum"


@pytest.mark.parametrize(
    ("before", "lines", "terms", "bits"),
    [
        ("", f"c = f32[16] convert(p)  ROOT r = f32[] {REDUCE.format('c', 'z')}", 16, 7),
        ("", "ROOT r = f32[16] convert(p)", 0, 7),
        ("", f"q = f32[16] parameter(1)  ROOT r = f32[] {REDUCE.format('q', 'z')}", 16, 23),
        ("", f"q = f32[16,4] parameter(1)  a = f32[4] {REDUCE.format('q', 'z')}  ROOT r = f32[] {REDUCE.format('a', 'z')}", 20, 23),
        (
            "f { i = f32[16] parameter(0)  k = f32[] constant(0)  ROOT j = f32[] reduce(i, k), dimensions={0}, to_apply=sum }",
            "q = f32[16] parameter(1)  ROOT r = f32[] fusion(q), kind=kLoop, calls=f",
            16,
            23,
        ),
        (
            """body { b = (s32[], f32[16,16]) parameter(0)  n = s32[] get-tuple-element(b), index=0  one = s32[] constant(1)
            m = f32[16,16] get-tuple-element(b), index=1  d = f32[16,16] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            o = s32[] add(n, one)  ROOT t = (s32[], f32[16,16]) tuple(o, d) }
            test { c = (s32[], f32[16,16]) parameter(0)  u = s32[] get-tuple-element(c), index=0  v = s32[] constant(5)
            ROOT w = pred[] compare(u, v), direction=LT }""",
            """y = s32[] constant(0)  q = f32[16,16] parameter(1)  t = (s32[], f32[16,16]) tuple(y, q)
            x = (s32[], f32[16,16]) while(t), condition=test, body=body  ROOT r = f32[16,16] get-tuple-element(x), index=1""",
            5 * 16,
            23,
        ),
    ],
)  # fmt: skip
def test_rounding_grows_with_the_sums_that_follow_each_other(before: str, lines: str, terms: int, bits: int) -> None:
    text = f"HloModule m\n{SUM}{before}\nENTRY e {{ p = bf16[16] parameter(0)  z = f32[] constant(0)  {lines} }}"
    assert rounding_of(parse_module(text)) == {(): Rounding(terms, bits)}


def test_each_result_has_its_own_rounding() -> None:
    lines = (
        f"q = f32[16] parameter(0)  z = f32[] constant(0)  a = f32[] {REDUCE.format('q', 'z')}  b = f16[16] convert(q)"
    )
    module = parse_module(f"HloModule m\n{SUM}ENTRY e {{ {lines}  ROOT t = (f32[], f16[16]) tuple(a, b) }}")
    assert rounding_of(module) == {(0,): Rounding(16, 23), (1,): Rounding(0, 10)}


def test_verdicts_are_in_order() -> None:
    """A larger distance is never a better verdict."""
    order = ("identical", "rounding", "overflow", "approximation", "different")
    steps = (0.0, ROUNDING, ROUNDING * MORE, APPROXIMATION, APPROXIMATION * MORE)
    for name, exact in product(("f32", "bf16", "f64"), (0.0, 0.5, inf)):
        found = [order.index(Distance((), exact, wide, element_type=kind(name)).verdict) for wide in steps]
        assert found == sorted(found)
