"""Fast kernels against the loops that define them: windows, scatters, sorts, rounding, erf, and writing in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.limits import estimate
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.semantics.error_function import error_function, single_error_function
from hlo_cli.analysis.semantics.rearranging import sort_keys, sorted_order
from hlo_cli.analysis.semantics.typed_values import Value, is_only_here, rounded, values_of_codes
from hlo_cli.ir.attributes.value_types import WindowDimension

Array = npt.NDArray[Any]

FUNCTIONS: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "maximum": max,
    "minimum": min,
}


def run(text: str, *arguments: Array) -> Any:
    """The result of a module."""
    return evaluate(parse_module(text), arguments).result


def scalars(kind: str, call: str, more: str = "") -> str:
    """A computation of two scalars."""
    return f"f {{ x = {kind}[] parameter(0)  y = {kind}[] parameter(1)  {more}ROOT r = {kind}[] {call} }}\n"


def windowed(x: Array, window: tuple[WindowDimension, ...], initial: float, function: Callable[..., float]) -> Array:
    """A reduce-window as its definition says, element by element."""
    counts = [each.positions(size) for each, size in zip(window, x.shape, strict=True)]
    result = np.full(counts, initial, x.dtype)
    for position in product(*map(range, counts)):
        for tap in product(*(range(each.size) for each in window)):
            at = [
                p * each.stride - each.padding_low + t * each.window_dilation
                for p, t, each in zip(position, tap, window, strict=True)
            ]
            if any(a % each.base_dilation for a, each in zip(at, window, strict=True)):
                continue
            index = tuple(a // each.base_dilation for a, each in zip(at, window, strict=True))
            if all(0 <= i < size for i, size in zip(index, x.shape, strict=True)):
                result[position] = function(result[position], x[index])
    return result


def drawn(random: np.random.Generator) -> WindowDimension:
    """A random window along one dimension."""
    size, stride, low, high, base, own = (int(random.integers(1, most)) for most in (12, 4, 10, 10, 3, 3))
    return WindowDimension(size, stride, low - 1, high - 1, base, own)


@pytest.mark.parametrize("opcode", FUNCTIONS)
def test_windows_of_any_form_are_those_of_the_definition(opcode: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(12):
        sizes = tuple(map(int, random.integers(1, 9, 2)))
        window = tuple(drawn(random) for _ in sizes)
        x = random.integers(-3, 4, sizes).astype(np.int32)
        result = ",".join(str(each.positions(size)) for each, size in zip(window, sizes, strict=True))
        fields = [
            ("size", "size"),
            ("stride", "stride"),
            ("lhs_dilate", "base_dilation"),
            ("rhs_dilate", "window_dilation"),
        ]
        text = " ".join(f"{name}={'x'.join(str(getattr(each, field)) for each in window)}" for name, field in fields)
        pads = "x".join(f"{each.padding_low}_{each.padding_high}" for each in window)
        shape = ",".join(map(str, sizes))
        found = run(
            f"HloModule m\n{scalars('s32', f'{opcode}(x, y)')}ENTRY e {{\n  a = s32[{shape}] parameter(0)\n  i = s32[] constant(2)\n"
            f"  ROOT r = s32[{result}] reduce-window(a, i), window={{{text} pad={pads}}}, to_apply=f\n}}\n",
            x,
        )
        np.testing.assert_array_equal(found, windowed(x, window, 2, lambda a, b: FUNCTIONS[opcode](int(a), int(b))))


def test_windows_keep_the_signs_of_zeros_and_nan() -> None:
    x = np.array([-0.0, 0.0, -0.0, -0.0, np.nan, 1.0], np.float32)
    text = (
        f"HloModule m\n{scalars('f32', 'maximum(x, y)')}ENTRY e {{\n  a = f32[6] parameter(0)\n  i = f32[] constant(-inf)\n"
        "  ROOT r = f32[5] reduce-window(a, i), window={size=2}, to_apply=f\n}\n"
    )
    found = run(text, x)
    assert np.signbit(found).tolist()[:3] == [False, False, True]
    assert np.isnan(found[3:]).all()
    total = run(text.replace("maximum", "add").replace("-inf", "-0"), x)
    assert np.signbit(total).tolist()[:3] == [False, False, True]


def test_long_windows_of_any_computation_keep_the_order_of_elements() -> None:
    """The last element that is not zero: associative, but not commutative."""
    keeps = scalars("s32", "select(c, x, y)", "z = s32[] constant(0)  c = pred[] compare(y, z), direction=EQ  ")
    x = np.array([0, 3, 0, 0, 5, 0, 7, 0] * 20, np.int32)
    found = run(
        f"HloModule m\n{keeps}ENTRY e {{\n  a = s32[160] parameter(0)\n  i = s32[] constant(0)\n"
        "  ROOT r = s32[160] reduce-window(a, i), window={size=160 pad=159_0}, to_apply=f\n}\n",
        x,
    )
    last, expected = 0, []
    for each in x.tolist():
        last = each or last
        expected.append(last)
    assert found.tolist() == expected


JAX_ORDER = """f { x = f32[] parameter(0)  y = f32[] parameter(1)  zero = f32[] constant(0)  none = f32[] constant(nan)
  nx = pred[] compare(x, x), direction=NE  ny = pred[] compare(y, y), direction=NE
  zx = pred[] compare(x, zero), direction=EQ  zy = pred[] compare(y, zero), direction=EQ
  sx = f32[] select(zx, zero, x)  sy = f32[] select(zy, zero, y)
  ux = f32[] select(nx, none, sx)  uy = f32[] select(ny, none, sy)
  ROOT r = pred[] compare(ux, uy), direction=LT, type=TOTALORDER }
"""
TWO_KEYS = """f { x = f32[] parameter(0)  y = f32[] parameter(1)  u = s32[] parameter(2)  v = s32[] parameter(3)
  less = pred[] compare(v, u), direction=GT  same = pred[] compare(u, v), direction=EQ
  later = pred[] compare(x, y), direction=GT  both = pred[] and(later, same)  ROOT r = pred[] or(both, less) }
"""


def sorting(order: str, kinds: str) -> str:
    """A module that sorts arrays of 300 elements with their positions."""
    given = [f"{kind}[300]" for kind in (*kinds.split(), "s32")]
    parameters = "".join(f"  p{at} = {shape} parameter({at})\n" for at, shape in enumerate(given))
    more = (
        f"  n{2 * len(given) - 2} = s32[] parameter({2 * len(given) - 2})  n = s32[] parameter({2 * len(given) - 1})\n"
    )
    order = order.replace("  ROOT", more + "  ROOT")
    names = ", ".join(f"p{at}" for at in range(len(given)))
    return (
        f"HloModule m\n{order}ENTRY e {{\n{parameters}"
        f"  ROOT r = ({', '.join(given)}) sort({names}), dimensions={{0}}, is_stable=true, to_apply=f\n}}\n"
    )


def test_the_order_of_jax_is_recognized_and_puts_nan_last() -> None:
    text = sorting(JAX_ORDER, "f32")
    [key] = sort_keys(parse_module(text).computations[0]) or ()
    assert key.is_ascending
    assert key.is_total
    x = np.random.default_rng(1).integers(-3, 4, 300).astype(np.float32)
    x[::7], x[::11] = np.nan, -0.0
    values, order = run(text, x, np.arange(300, dtype=np.int32))
    expected = sorted(range(300), key=lambda at: (bool(np.isnan(x[at])), 0.0 if np.isnan(x[at]) else x[at] + 0.0))
    assert order.tolist() == expected
    np.testing.assert_array_equal(values, x[expected])


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u32", "s64", "u64", "f32", "f64", "pred"])
def test_every_type_is_sorted_in_both_directions(kind: str, direction: str) -> None:
    held = np.dtype(
        {"s": "i", "u": "u", "f": "f", "p": "?"}[kind[0]] + ("" if kind == "pred" else str(int(kind[1:]) // 8))
    )
    least, most = (
        (-9.5, 9.5) if held.kind == "f" else (0, 1) if kind == "pred" else (np.iinfo(held).min, np.iinfo(held).max)
    )
    x = np.random.default_rng(6).uniform(float(least), float(most), 300).astype(held)
    x[:4] = least, most, least, most
    x[100:200] = x[:100]
    order = f"f {{ x = {kind}[] parameter(0)  y = {kind}[] parameter(1)  ROOT r = pred[] compare(x, y), direction={direction} }}\n"
    values, places = run(sorting(order.replace("  ROOT", "\n  ROOT"), kind), x, np.arange(300, dtype=np.int32))
    expected = sorted(range(300), key=lambda at: x[at].item() * (1 if direction == "LT" else -1))
    assert places.tolist() == expected
    np.testing.assert_array_equal(values, x[expected])


@pytest.mark.parametrize("special", [0.5, np.nan])
def test_two_keys_are_sorted_one_after_the_other(special: float) -> None:
    """With NaN a comparison by value has no order: elements are compared as the text says."""
    text = sorting(TWO_KEYS, "f32 s32")
    assert [key.is_ascending for key in sort_keys(parse_module(text).computations[0]) or ()] == [True, False]
    random = np.random.default_rng(2)
    x, u = random.integers(0, 5, 300).astype(np.float32), random.integers(0, 9, 300).astype(np.int32)
    x[0] = special
    _, keys, order = run(text, x, u, np.arange(300, dtype=np.int32))
    assert sorted(order.tolist()) == list(range(300))
    if not np.isnan(special):
        assert order.tolist() == sorted(range(300), key=lambda at: (u[at], -x[at]))
    np.testing.assert_array_equal(keys, u[order])


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_integers_of_all_widths_are_sorted(kind: str, direction: str) -> None:
    """The smallest and the largest ones too; equal ones stay in their order."""
    order = "f {  x = KIND[] parameter(0)  y = KIND[] parameter(1)\n  ROOT r = pred[] compare(x, y), direction="
    name = f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}"
    limits = np.iinfo(name)
    x = np.random.default_rng(3).integers(limits.min, limits.max, 300, dtype=name, endpoint=True)
    x[:4], x[50:53] = [limits.max, limits.min, limits.max, limits.min], x[7]
    values, places = run(
        sorting(f"{order.replace('KIND', kind)}{direction} }}\n", kind), x, np.arange(300, dtype=np.int32)
    )
    expected = sorted(range(300), key=lambda at: int(x[at]) if direction == "LT" else -int(x[at]))
    assert places.tolist() == expected
    np.testing.assert_array_equal(values, x[expected])


@pytest.mark.parametrize(
    "order",
    [
        JAX_ORDER.replace("compare(y, zero)", "compare(x, zero)"),  # the sides are not alike
        JAX_ORDER.replace("direction=LT", "direction=LE"),  # not strict
        TWO_KEYS.replace("and(later, same)", "and(later, later)"),  # either key decides
        TWO_KEYS.replace("(v, u), direction=GT", "(x, u), direction=GT"),
    ],
)
def test_other_comparisons_have_no_keys(order: str) -> None:
    assert sort_keys(parse_module(sorting(order, "f32")).computations[0]) is None


WITH_PARTS = """f {{ x = f32[] parameter(0)  y = f32[] parameter(1)  u = s32[] parameter(2)  v = s32[] parameter(3)
  zero = f32[] constant(0)  d = f32[] subtract(x, y)  e = f32[] subtract(y, x)  yes = pred[] constant(true)
  lt = pred[] compare(x, y), direction=LT  gt = pred[] compare(x, y), direction=GT  eq = pred[] compare(y, x), direction=EQ
  ge = pred[] compare(x, y), direction=GE  le = pred[] compare(y, x), direction=GE  ne = pred[] compare(x, y), direction=NE
  dl = pred[] compare(d, zero), direction=LT  dg = pred[] compare(zero, e), direction=LT
  ul = pred[] compare(u, v), direction=LT  ug = pred[] compare(u, v), direction=GT  ue = pred[] compare(u, v), direction=EQ
  {last} }}
"""


@pytest.mark.parametrize(
    ("last", "directions"),
    [
        ("ROOT r = pred[] or(dl, dl)", [True]),
        ("ROOT r = pred[] or(dg, dg)", [True]),
        ("ROOT r = pred[] not(ge)", [True]),
        ("ROOT r = pred[] select(eq, ug, lt)", [True, False]),
        ("ROOT r = pred[] select(ne, gt, ul)", [False, True]),
        ("a = pred[] and(eq, gt)  ROOT r = pred[] or(ul, a)", [True]),
        ("a = pred[] and(le, ul)  ROOT r = pred[] or(lt, a)", [True, True]),
        ("a = pred[] not(gt)  b = pred[] and(a, ul)  ROOT r = pred[] or(b, lt)", [True, True]),
        ("a = pred[] and(ue, lt)  ROOT r = pred[] xor(ul, a)", [True, True]),
        ("a = pred[] compare(lt, gt), direction=GT  ROOT r = pred[] and(a, yes)", [True]),
        ("ROOT r = pred[] and(lt, ul)", None),
        ("ROOT r = pred[] or(le, lt)", None),
        ("ROOT r = pred[] and(lt, gt)", None),
        ("a = pred[] compare(d, zero), direction=LE  b = pred[] and(a, ul)  ROOT r = pred[] or(lt, b)", None),
    ],
)
def test_comparisons_are_known_by_what_they_compute(last: str, directions: list[bool] | None) -> None:
    text = sorting(WITH_PARTS.format(last=last), "f32 s32")
    found = sort_keys(parse_module(text).computations[0])
    assert (None if found is None else [key.is_ascending for key in found]) == directions
    random = np.random.default_rng(5)
    x = random.choice(np.array([np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -3e38, 1.0], np.float32), 300)
    arguments = x, random.integers(0, 3, 300).astype(np.int32), np.arange(300, dtype=np.int32)
    with patch("hlo_cli.analysis.semantics.rearranging.sort_keys", lambda computation: None):
        expected = run(text, *arguments)
    for ours, merged in zip(run(text, *arguments), expected, strict=True):
        np.testing.assert_array_equal(ours, merged)


@pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 100])
def test_merging_is_stable_in_every_row(length: int) -> None:
    x = np.random.default_rng(length).integers(0, 7, (5, length))
    found = sorted_order([x], lambda pair: (pair[0] - pair[1] < 0,))
    np.testing.assert_array_equal(found, np.argsort(x, axis=-1, kind="stable"))


def test_a_comparison_that_contradicts_itself_gives_a_permutation() -> None:
    random = np.random.default_rng(3)
    found = sorted_order([np.arange(90).reshape(2, 45)], lambda pair: (random.random(pair[0].shape) < 0.5,))
    assert (np.sort(found, axis=-1) == np.arange(45)).all()


SCATTER = """HloModule m
{computation}ENTRY e {{
  a = {kind}[{sizes}] parameter(0)
  b = s32[{count},{dims}] parameter(1)
  c = {kind}[{count}{window}] parameter(2)
  ROOT r = {kind}[{sizes}] scatter(a, b, c), update_window_dims={{{places}}}, inserted_window_dims={{{inserted}}}, scatter_dims_to_operand_dims={{{to}}}, index_vector_dim=1, to_apply=f
}}
"""  # fmt: skip


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8"])
@pytest.mark.parametrize(
    ("sizes", "window", "to"),
    [
        ((5,), (), (0,)),  # many updates of few elements
        ((5, 3), (3,), (0,)),  # whole rows
        ((3, 5), (3,), (1,)),  # whole columns
        ((6, 6), (2, 3), (0, 1)),  # blocks that overlap
    ],
)
def test_updates_of_one_element_are_added_one_after_another(
    kind: str, sizes: tuple[int, ...], window: tuple[int, ...], to: tuple[int, ...]
) -> None:
    """Rounded after each addition, as by a loop."""
    count, random = 400, np.random.default_rng(7)
    name = "s8" if kind == "s8" else kind
    held = np.dtype(np.int8 if kind == "s8" else np.float32)
    x, updates = random.integers(-9, 9, sizes).astype(held), random.integers(-9, 9, (count, *window)).astype(held)
    if kind == "f32":
        x, updates = x / np.float32(3), updates / np.float32(3)
    indices = random.integers(-1, 6, (count, len(to))).astype(np.int32)
    inserted = [at for at in range(len(sizes)) if len(window) < len(sizes) and at in to]
    text = SCATTER.format(
        computation=scalars(name, "add(x, y)"), kind=name, sizes=",".join(map(str, sizes)), count=count, dims=len(to),
        window="".join(f",{size}" for size in window), places=",".join(str(1 + at) for at in range(len(window))),
        inserted=",".join(map(str, inserted)), to=",".join(map(str, to)),
    )  # fmt: skip
    expected = x.copy()
    extent = [1 if at in inserted else window[sum(b not in inserted for b in range(at))] for at in range(len(sizes))]
    for index, update in zip(indices, updates, strict=True):
        start = [int(index[to.index(at)]) if at in to else 0 for at in range(len(sizes))]
        if any(s < 0 or s + e > size for s, e, size in zip(start, extent, sizes, strict=True)):
            continue
        block = tuple(slice(s, s + e) for s, e in zip(start, extent, strict=True))
        total = expected[block] + update.reshape(extent)
        expected[block] = rounded(total, "bf16") if kind == "bf16" else total
    np.testing.assert_array_equal(run(text, x, indices, updates), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f4e2m1fn"])
def test_narrow_floats_are_the_nearest_ones(name: str, kind: type[np.floating[Any]]) -> None:
    """Halfway between two values the even one, and a hair beyond the nearer one."""
    table = values_of_codes(name)
    values = np.unique(np.abs(table[np.isfinite(table)])).astype(np.float64)
    halves = ((values[1:] + values[:-1]) / 2).astype(kind)
    upper, lower = np.nextafter(halves, kind(np.inf)), np.nextafter(halves, kind(0))
    np.testing.assert_array_equal(rounded(upper, name), values[1:])
    np.testing.assert_array_equal(rounded(-lower, name), -values[:-1])
    even = np.where(np.arange(len(halves)) % 2 == 0, values[:-1], values[1:])
    np.testing.assert_array_equal(rounded(np.tile(halves, 1000), name), np.tile(even, 1000))


def test_error_function_is_that_of_the_c_library() -> None:
    random = np.random.default_rng(8)
    x = np.concatenate(
        [random.uniform(-7, 7, 3000), 10.0 ** random.uniform(-300, 1, 500), [0.84375, 1.25, 2.857142, 6.0]]
    )
    expected = np.array([math.erf(each) for each in x])
    np.testing.assert_array_max_ulp(error_function(x), expected, 2)
    narrow = x.astype(np.float32)
    np.testing.assert_array_equal(error_function(narrow), np.array([math.erf(each) for each in narrow], np.float32))
    special = error_function(np.array([-0.0, np.inf, -np.inf, np.nan]))
    assert str(special.tolist()) == "[-0.0, 1.0, -1.0, nan]"


LOOP = """HloModule m
written { a = f32[30,4] parameter(0)  u = f32[1,4] parameter(1)  i = s32[] parameter(2)  z = s32[] constant(0)
  ROOT r = f32[30,4] dynamic-update-slice(a, u, i, z) }
body { s = (s32[], f32[30,4], f32[30,4], f32[1,4]) parameter(0)  u = f32[1,4] constant({{1,2,3,4}})
  z = s32[] constant(0)  one = s32[] constant(1)  before = f32[30,4] get-tuple-element(s), index=2
  row = f32[1,4] get-tuple-element(s), index=3  i = s32[] get-tuple-element(s), index=0
  a = f32[30,4] get-tuple-element(s), index=1  KEEP  b = f32[30,4] WRITE  j = s32[] add(i, one)
  ROOT t = (s32[], f32[30,4], f32[30,4], f32[1,4]) tuple(j, b, KEPT) }
condition { s = (s32[], f32[30,4], f32[30,4], f32[1,4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(30)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { a = f32[30,4] parameter(0)  c = f32[30,4] parameter(1)  u = f32[1,4] parameter(2)  z = s32[] constant(0)
  t = (s32[], f32[30,4], f32[30,4], f32[1,4]) tuple(z, a, c, u)
  w = (s32[], f32[30,4], f32[30,4], f32[1,4]) while(t), condition=condition, body=body
  ROOT r = ((s32[], f32[30,4], f32[30,4], f32[1,4]), f32[30,4]) tuple(w, a) }
"""
WRITES = (
    "dynamic-update-slice(a, u, i, z)",
    "fusion(a, u, i), kind=kLoop, calls=written",
    "call(a, u, i), to_apply=written",
)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("keep", "kept", "is_free"),
    [
        ("", "before, row", True),
        ("", "a, row", False),  # the array before the last row was written
        ("", "b, row", False),  # the same array twice
        ("y = f32[30,4] copy(a)", "y, row", False),
        ("y = f32[1,4] dynamic-slice(a, i, z), dynamic_slice_sizes={1,4}", "before, y", False),  # shares memory
        ("x = f32[120] reshape(a)  y = f32[30,4] reshape(x)", "y, row", False),
    ],
)
def test_loops_write_in_place_what_no_one_else_holds(
    write: str, keep: str, kept: str, is_free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = []

    def asked(operands: list[Value]) -> bool:
        answers.append(is_only_here(operands))
        return answers[-1]

    monkeypatch.setattr("hlo_cli.analysis.semantics.scatter_and_reduce.is_only_here", asked)
    x, other, row = np.zeros((30, 4), np.float32), np.ones((30, 4), np.float32), np.full((1, 4), 7, np.float32)
    text = LOOP.replace("WRITE", write).replace("KEEP", keep).replace("KEPT", kept)
    (_, found, before, last), start = run(text, x, other, row)
    written = np.broadcast_to(np.arange(1, 5, dtype=np.float32), (30, 4))
    np.testing.assert_array_equal(found, written)
    expected = written.copy()
    expected[-1] = written[-1] if kept.startswith("b,") else 0
    np.testing.assert_array_equal(before, other if kept.startswith("before") else expected)
    np.testing.assert_array_equal(last, row if kept.endswith("row") else np.zeros((1, 4)))
    assert not x.any()
    assert not start.any()
    assert answers == [False, *[is_free] * 29]


def test_estimates_count_what_is_written_and_the_calls_for_windows() -> None:
    text = LOOP.replace("WRITE", WRITES[0]).replace("KEEP", "").replace("KEPT", "before, row")
    assert estimate(parse_module(text)).operations < 30 * 30
    sums = (
        f"HloModule m\n{scalars('f32', 'add(x, y)')}ENTRY e {{\n  a = f32[1000000] parameter(0)\n  i = f32[] constant(0)\n"
        "  ROOT r = f32[1000000] reduce-window(a, i), window={size=1000000 pad=999999_0}, to_apply=f\n}\n"
    )
    assert estimate(parse_module(sums)).operations < 1e8


@np.errstate(invalid="ignore")  # of NaN that signal
def test_the_error_function_of_f32_is_that_of_f64_to_the_last_bit() -> None:
    bits = np.concatenate([np.arange(0, 1 << 31, 104_729), np.arange(0x3D000000, 0x40900000, 977)]).astype(np.uint32)
    numbers = np.concatenate(
        [bits, bits | np.uint32(1 << 31), np.array([0x7F800000, 0x7FC12345, 1, 0x0DA24260], np.uint32)]
    )
    x = numbers.view(np.float32)
    expected = error_function(x).view(np.uint32)
    np.testing.assert_array_equal(single_error_function(x).view(np.uint32), expected)
    np.testing.assert_array_equal(single_error_function(x[::2]).view(np.uint32), expected[::2])


@pytest.mark.parametrize("opcode", ["add", "subtract", "maximum", "minimum", "multiply", "second"])
@pytest.mark.parametrize(
    ("kind", "special"),
    [*product(("f32", "bf16"), (0.5, -0.0, np.nan)), ("s32", 1), ("u4", 1)],
)
def test_updates_are_combined_in_their_order(kind: str, opcode: str, special: float) -> None:
    """Numpy combines them one after another, if it can, as rounds do."""
    text = SCATTER.format(
        computation=scalars(kind, f"{opcode}(x, y)"), kind=kind, sizes=7, count=400, dims=1, window="", places="",
        inserted="0", to="0",
    )  # fmt: skip
    if opcode == "second":
        text = text.replace(f"  ROOT r = {kind}[] second(x, y)", "").replace("  y = ", "  ROOT y = ", 1)
    random = np.random.default_rng(8)
    held = {"s32": np.int32, "u4": np.uint8}.get(kind, np.float32)
    a, c = (rounded(random.integers(0, 9, n).astype(np.float32) / 4, "bf16") for n in (7, 400))
    if held is not np.float32:
        a, c = (each * 4 for each in (a, c))
    c[50] = special
    given = a.astype(held), random.integers(-1, 8, (400, 1)).astype(np.int32), c.astype(held)
    with np.errstate(all="ignore"):
        found = run(text, *given)
        with patch("hlo_cli.analysis.semantics.scatter_and_reduce._sequential", lambda instruction, computed: None):
            expected = run(text, *given)
    assert found.tobytes() == expected.tobytes()
