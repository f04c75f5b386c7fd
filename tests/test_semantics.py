"""What opcodes compute that XLA:CPU refuses, and rules that were once wrong: values by definition, element by element."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from evaluation_families import programs
from hlo_cli import HloError, parse_module
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.semantics import typed_values
from hlo_cli.analysis.semantics.rules import rules
from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.ir.layout import PRIMITIVE_TYPES


def result_of(text: str, *arguments: object) -> Value:
    """The result of a module, or of one instruction."""
    return evaluate(parse_module(text), [np.asarray(each) for each in arguments]).result


def array_of(text: str, *arguments: object) -> np.ndarray:
    """The same for a result that is an array."""
    found = result_of(text, *arguments)
    assert isinstance(found, np.ndarray | np.generic)
    return np.asarray(found)


def parts_of(text: str, *arguments: object) -> tuple[Value, ...]:
    """The same for a result that is a tuple."""
    found = result_of(text, *arguments)
    assert isinstance(found, tuple)
    return found


def _shape(kind: str, sizes: tuple[int, ...]) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


@pytest.mark.parametrize("mode", ["rows", "sums", "batches"])
@pytest.mark.parametrize("seed", range(6))
def test_groups_of_a_ragged_dot_are_dots_of_their_own(mode: str, seed: int) -> None:
    """Each element by its definition; sizes of groups for all at once or for each batch and row before."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    batch, outer, rows, inner, columns, groups = (random.randint(1, 4) for _ in range(6))
    x = numbers.integers(-9, 9, (batch, outer, rows, inner))
    y_sizes = (batch, inner, columns) if mode != "rows" else (batch, groups, inner, columns)
    y = numbers.integers(-9, 9, y_sizes)
    lead = {"rows": (batch, outer), "sums": (batch,), "batches": ()}[mode] if seed % 2 else ()
    sizes = numbers.integers(0, 4, (*lead, groups))
    ragged = {"rows": 2, "sums": 3, "batches": 0}[mode]
    result = (batch, outer, rows, columns)
    text = (
        f"r = {_shape('s64', (groups, *result) if mode == 'sums' else result)} ragged-dot({_shape('s64', x.shape)} a, "
        f"{_shape('s64', y.shape)} b, {_shape('s32', sizes.shape)} c), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{3}}, rhs_contracting_dims={{{2 if mode == 'rows' else 1}}}, "
        f"lhs_ragged_dims={{{ragged}}}{', rhs_group_dims={1}' if mode == 'rows' else ''}"
    )
    found = array_of(text, x, y, sizes)
    expected = np.zeros(found.shape, np.int64)
    for b, o, m, n in product(*map(range, result)):
        ends = np.cumsum(sizes[(b, o)[: len(lead)]]).tolist()
        if mode == "sums":
            for g, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
                expected[g, b, o, m, n] = sum(x[b, o, m, k] * y[b, k, n] for k in range(begin, min(end, inner)))
        elif mode == "batches":
            expected[b, o, m, n] = x[b, o, m] @ y[b, :, n] if b < ends[-1] else 0
        else:
            group = next((g for g, end in enumerate(ends) if m < end), None)
            expected[b, o, m, n] = 0 if group is None else x[b, o, m] @ y[b, group, :, n]
    assert np.array_equal(found, expected)


def test_sugared_asynchronous_operations_run_what_they_wrap() -> None:
    """A start with its operands, a start whose operand comes with an update, and attributes of the operation."""
    text = """ENTRY e { x = s32[2,3] parameter(0)
  a = ((s32[2,3]), s32[3,2], u32[]) transpose-start(x), dimensions={1,0}
  b = ((s32[2,3]), s32[3,2], u32[]) transpose-update(a)
  c = s32[3,2] transpose-done(b)
  d = ((s32[3,2]), s32[1,2], u32[]) slice-start(c), slice={[1:2], [0:2]}
  ROOT f = s32[1,2] slice-done(d) }"""
    assert array_of(text, [[1, 2, 3], [4, 5, 6]]).tolist() == [[2, 5]]


@pytest.mark.parametrize("opcode", ["add", "maximum", "select"])
def test_operands_of_the_bound_meet_those_of_the_size_at_run_time(opcode: str) -> None:
    call = {"select": "select(q, d, y)"}.get(opcode, f"{opcode}(d, y)")
    text = f"""ENTRY e {{ x = s32[2,5] parameter(0)  y = s32[2,5] parameter(1)  n = s32[] parameter(2)
  q = pred[2,5] compare(x, y), direction=LT
  d = s32[2,<=5] set-dimension-size(x, n), dimensions={{1}}
  r = s32[2,<=5] {call}
  k = s32[] get-dimension-size(r), dimensions={{1}}
  ROOT t = (s32[2,<=5], s32[]) tuple(r, k) }}"""
    x, y = np.array([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]]), np.array([[3, 3, 3, 3, 3], [7, 7, 7, 7, 7]])
    found = result_of(text, x, y, 3)
    assert isinstance(found, tuple)
    whole = {"add": x + y, "maximum": np.maximum(x, y), "select": np.where(x < y, x, y)}[opcode]
    assert np.array_equal(np.asarray(found[0]), whole[:, :3])
    assert found[1] == 3


def test_an_empty_iota_takes_no_memory() -> None:
    assert array_of("r = s64[300000000000,0,2] iota(), iota_dimension=0").shape == (300000000000, 0, 2)


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(HloError, match="complex numbers have no order"):
        array_of("r = pred[1] compare(c64[1] a, c64[1] b), direction=GE", [1j], [2j])
    assert array_of("r = pred[1] compare(c64[1] a, c64[1] b), direction=NE", [1j], [2j]).tolist() == [True]


@pytest.mark.parametrize(
    ("text", "argument", "expected"),
    [
        # the largest number rounds up to infinity, which smaller exponents do not make 0
        ("r = f32[2] reduce-precision(f32[2] a), exponent_bits=3, mantissa_bits=5", [3.4028235e38, -3.4028235e38],
         [np.inf, -np.inf]),
        # all exponents of the type stay, those of denormal numbers too
        ("r = f16[2] reduce-precision(f16[2] a), exponent_bits=5, mantissa_bits=10", [2.0**-20, 1.0], [2.0**-20, 1.0]),
        ("r = f16[2] reduce-precision(f16[2] a), exponent_bits=4, mantissa_bits=10", [2.0**-20, 1.0], [0.0, 1.0]),
        # floats of 8 bits are computed as f16, of which 4 bits of the exponent are not all
        ("r = f8e4m3fn[2] reduce-precision(f8e4m3fn[2] a), exponent_bits=4, mantissa_bits=3", [2.0**-8, 1.0], [0.0, 1.0]),
        ("r = s2[4] popcnt(s2[4] a)", [0, 1, -2, -1], [0, 1, 1, -2]),
    ],
)  # fmt: skip
def test_values_of_narrow_types(text: str, argument: list[float], expected: list[float]) -> None:
    assert array_of(text, argument).tolist() == expected


def test_nan_of_types_without_negative_zero_is_least() -> None:
    """Its code is that of negative zero, with the bit of the sign."""
    text = """f { a = f8e5m2fnuz[] parameter(0)  b = f8e5m2fnuz[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f8e5m2fnuz[4] parameter(0)  ROOT s = f8e5m2fnuz[4] sort(x), dimensions={0}, is_stable=true, to_apply=f }"""
    found = array_of(text, [1.0, np.nan, -8.0, 0.0])
    assert np.isnan(found[0])
    assert found[1:].tolist() == [-8.0, 0.0, 1.0]


def test_logarithms_of_complex_numbers_near_one() -> None:
    """log(1 + x) of a small x is nearly x, and keeps its digits."""
    found = array_of("r = c128[4] log-plus-one(c128[4] a)", [1e-12, 1e-12 + 1e-13j, 1e200, 1e-9j - 1])
    assert np.allclose(found[:2], [1e-12 - 5e-25, 1e-12 + 1e-13j], rtol=1e-12, atol=0)
    assert np.isclose(found[2], np.log(1e200), rtol=1e-15)
    assert np.isclose(found[3], np.log(1e-9) + np.pi / 2 * 1j, rtol=1e-15)


@pytest.mark.parametrize("size", [0.49, 0.51, 1.0, 2.9, 3.1, 1e3])
def test_logarithms_of_complex_numbers_are_those_of_their_lengths_and_angles(size: float) -> None:
    """On both sides of the lengths between which they are computed without cancellation."""
    angles = np.linspace(-3, 3, 7)
    found = array_of("r = c128[7] log-plus-one(c128[7] a)", size * np.exp(1j * angles) - 1)
    assert np.allclose(found, np.log(size) + 1j * angles, rtol=1e-13, atol=1e-15)


ONES, PI = 2**64 - 1, (0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x299F31D0_A4093822)
"""Words of the tests of Salmon et al. 2011: a counter or a key of ones, and the digits of pi."""


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ((0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        ((PI[1], PI[0]), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_has_the_answers_of_its_authors(state: tuple[int, ...], words: tuple[int, ...]) -> None:
    """Known answers of Random123 for threefry2x32 of 20 rounds; the counter grows by 1 for each two words."""
    moved = [state[0], (state[1] + 1) % 2**64]
    for kind, expected in (("u32[2]", list(words)), ("u64[1]", [words[0] | words[1] << 32]), ("u32[]", words[0])):
        call = f"r = (u64[2], {kind}) rng-bit-generator(u64[2] a), algorithm=rng_three_fry"
        after, found = parts_of(call, np.array(state, np.uint64))
        assert np.asarray(found).tolist() == expected
        assert np.asarray(after).tolist() == moved


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ((0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        ((PI[2], PI[0], PI[1]), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_philox_has_the_answers_of_its_authors(state: tuple[int, ...], words: tuple[int, ...]) -> None:
    """Known answers of Random123 for philox4x32 of 10 rounds; the counter of 128 bits grows by 1 for each four words."""
    counter = (state[1] + (state[2] << 64) + 1) % 2**128
    pairs = [words[0] | words[1] << 32, words[2] | words[3] << 32]
    for kind, expected in (("u32[4]", list(words)), ("u32[3]", list(words[:3])), ("u64[2]", pairs)):
        call = f"r = (u64[3], {kind}) rng-bit-generator(u64[3] a), algorithm=rng_philox"
        after, found = parts_of(call, np.array(state, np.uint64))
        assert np.asarray(found).tolist() == expected
        assert np.asarray(after).tolist() == [state[0], counter % 2**64, counter >> 64]


def test_given_numbers_are_rounded_to_the_type_of_the_parameter() -> None:
    text = "r = bf16[3] copy(bf16[3] a)"
    assert array_of(text, [1.001, 1.005, 3.0]).tolist() == [1.0, 1.0078125, 3.0]
    widened = evaluate(parse_module(text), [np.array([1.001, 1.005, 3.0])], floats="widen").result
    assert np.array_equal(np.asarray(widened), [1.001, 1.005, 3.0])
    narrow = "r = f8e4m3fn[3] copy(f8e4m3fn[3] a)"
    for kind in (np.int64, np.float16, np.float32, np.float64):
        assert array_of(narrow, np.array([1, 17, -100], kind)).tolist() == [1.0, 16.0, -96.0]


def test_an_empty_computation_is_an_error() -> None:
    with pytest.raises(HloError, match="computation e: it has no instructions"):
        result_of("f { ROOT x = s32[2] parameter(0) }\nENTRY e { }")


def test_copies_to_a_narrower_float_round() -> None:
    assert array_of("r = bf16[2] copy(f32[2] a)", [1.001, 3.0]).tolist() == [1.0, 3.0]


def test_factors_are_numbers_until_a_pivot_is_not_positive() -> None:
    matrix = [[4.0, 2, 6, 0], [2, 5, 1, 0], [6, 1, 3, 0], [0, 0, 0, 9]]
    found = array_of("r = f64[4,4] cholesky(f64[4,4] a), lower=true", matrix)
    assert found[:, :2].tolist() == [[2, 0], [1, 2], [3, -1], [0, 0]]  # the third pivot is 3 - 9 - 1
    assert np.isnan(found[2:, 2]).all()


def test_empty_matrices_have_empty_factors() -> None:
    assert array_of("r = f32[0,0] cholesky(f32[0,0] a), lower=true", np.zeros((0, 0))).shape == (0, 0)


def test_the_mean_of_no_elements_is_not_a_number() -> None:
    text = """ENTRY e { x = f32[0,2] parameter(0)  s = f32[2] parameter(1)
  ROOT r = (f32[0,2], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.5, feature_index=1 }"""
    found = result_of(text, np.zeros((0, 2)), [1, 2])
    assert isinstance(found, tuple)
    assert np.asarray(found[0]).shape == (0, 2)
    assert all(np.isnan(np.asarray(each)).all() for each in found[1:])


def test_scatter_of_nothing() -> None:
    text = """f { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
ENTRY e { x = s32[3,2] parameter(0)  i = s32[0,1] parameter(1)  u = s32[0,0] parameter(2)
  ROOT r = s32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=f }"""
    x = np.arange(6).reshape(3, 2)
    assert np.array_equal(array_of(text, x, np.zeros((0, 1), int), np.zeros((0, 0), int)), x)


_ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"


@pytest.mark.parametrize(
    ("before", "shape", "call", "expected"),
    [
        ("", "s32[2,2,<=4]", "broadcast(d), dimensions={1,2}", [[[0, 1], [4, 5]]] * 2),
        ("", "s32[<=8]", "reshape(d)", [0, 1, 4, 5]),
        ("", "s32[2,1,<=4]", "reshape(d)", [[[0, 1]], [[4, 5]]]),
        ("i = s32[3] constant({1,0,1})", "s32[3,<=4]", f"gather(d, i), {_ROWS}", [[4, 5], [0, 1], [4, 5]]),
        ("t = s32[] constant(2)  m = s32[] multiply(n, t)", "s32[<=8]", "dynamic-reshape(d, m)", [0, 1, 4, 5]),
        ("f = s32[] constant(4)", "s32[2,4]", "set-dimension-size(d, f), dimensions={1}", [[0, 1, 0, 0], [4, 5, 0, 0]]),
    ],
)  # fmt: skip
def test_values_have_their_size_at_run_time(before: str, shape: str, call: str, expected: list[object]) -> None:
    text = f"""ENTRY e {{ x = s32[2,4] parameter(0)  n = s32[] parameter(1)  {before}
  d = s32[2,<=4] set-dimension-size(x, n), dimensions={{1}}
  ROOT r = {shape} {call} }}"""
    assert array_of(text, np.arange(8).reshape(2, 4), 2).tolist() == expected


def test_a_reshape_of_a_dynamic_size_of_at_most_one() -> None:
    text = """ENTRY e { x = s32[2,1] parameter(0)  n = s32[] parameter(1)
  d = s32[2,<=1] set-dimension-size(x, n), dimensions={1}
  ROOT r = s32[<=2] reshape(d) }"""
    assert array_of(text, [[3], [4]], 0).tolist() == []
    assert array_of(text, [[3], [4]], 1).tolist() == [3, 4]


def test_groups_of_dynamic_dimensions_are_reshaped_apart() -> None:
    text = """ENTRY e { x = s32[4,6] parameter(0)  n = s32[] parameter(1)  m = s32[] parameter(2)
  a = s32[<=4,6] set-dimension-size(x, n), dimensions={0}
  b = s32[<=4,<=6] set-dimension-size(a, m), dimensions={1}
  ROOT r = s32[1,<=4,2,<=3] reshape(b) }"""
    found = array_of(text, np.arange(24).reshape(4, 6), 3, 4)
    assert np.array_equal(found, np.arange(24).reshape(4, 6)[:3, :4].reshape(1, 3, 2, 2))


def test_convolutions_of_sparse_operands_are_those_of_dense_ones() -> None:
    """Two of each four input features of the left side are stored, with their positions in the block."""
    numbers = np.random.default_rng(4)
    packed, w = numbers.integers(-9, 9, (3, 4)), numbers.integers(-9, 9, (8, 5))
    places = np.array([[0, 2, 1, 3], [1, 2, 0, 1], [0, 3, 2, 3]])
    dense = np.zeros((3, 8), int)
    for row, column in product(range(3), range(4)):
        dense[row, column // 2 * 4 + places[row, column]] = packed[row, column]
    text = (
        "r = s32[3,5] convolution(s32[3,4] a, s32[8,5] b, s8[3,4] c), dim_labels=bf_io->bf, "
        "sparsity_config={lhs={sparsity=2x4 dimension=1 idx=2}}"
    )
    assert np.array_equal(array_of(text, packed, w, places), dense @ w)


@pytest.mark.parametrize("kind", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_upper_halves_of_products(kind: str) -> None:
    width, low = int(kind[1:]), -(1 << int(kind[1:]) - 1) if kind[0] == "s" else 0
    random = Random(width)
    ends = [low, low + 1, low + (1 << width) - 1, 1, 0, 7]
    x, y = ([*random.choices(ends, k=9), *(random.randrange(low, low + (1 << width)) for _ in range(9))] for _ in "xy")
    held = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{width // 8}")
    found = array_of(f"r = {kind}[18] mulhi({kind}[18] a, {kind}[18] b)", np.array(x, held), np.array(y, held))
    assert found.tolist() == [(a * b) >> width for a, b in zip(x, y, strict=True)]


def test_every_opcode_with_a_rule_is_judged() -> None:
    """By XLA:CPU in random modules; those that it refuses, and those that are part of other modules, are listed."""
    elsewhere = set(
        "add-dependency after-all async-done async-start async-update bitcast copy-done copy-start custom-call domain "
        "fusion get-dimension-size get-tuple-element mulhi ragged-dot rng rng-get-and-update-state scaled-dot scan shuffle stochastic-convert "
        "tuple".split()
    )
    generated = {program.opcode for program in programs(1, 3000)}
    assert set(rules()) - generated == elsewhere


@pytest.mark.parametrize("kind", ["f32", "s32", "u32"])
@pytest.mark.parametrize(("old", "new"), [("0,1", "0,1"), ("0,1", "1,0"), ("1,0", "0,1"), ("1,0", "1,0")])
def test_a_bitcast_has_the_bytes_of_its_operand_in_their_order(kind: str, old: str, new: str) -> None:
    """Whatever the type and the order of dimensions are: the memory stays as it is."""
    text = f"ENTRY e {{ p = f32[2,3]{{{old}}} parameter(0)  ROOT b = {kind}[3,2]{{{new}}} bitcast(p) }}"
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    memory = (given.T if old == "0,1" else given).reshape(-1)
    memory = memory.view({"f32": np.float32, "s32": np.int32, "u32": np.uint32}[kind])
    expected = memory.reshape(2, 3).T if new == "0,1" else memory.reshape(3, 2)
    np.testing.assert_array_equal(array_of(text, given), expected)


@pytest.mark.parametrize("size", [3, 8, 9])
def test_windows_of_any_computation_are_those_of_a_loop(size: int) -> None:
    """Small windows element by element, large ones by halves; what is outside takes no part, as the start is one."""
    low, high = size // 2, size - 2
    rows, columns = 12 + low + high - size + 1, (11 + low - size) // 2 + 1
    text = f"""HloModule m
most {{ a = f32[] parameter(0)  b = f32[] parameter(1)  p = pred[] compare(a, b), direction=GT  ROOT s = f32[] select(p, a, b) }}
ENTRY e {{ x = f32[12,11] parameter(0)  z = f32[] constant(-100)  ROOT w = f32[{rows},{columns}] reduce-window(x, z),
  window={{size={size}x{size} stride=1x2 pad={low}_{high}x{low}_0}}, to_apply=most }}"""
    given = np.random.default_rng(size).normal(size=(12, 11)).astype(np.float32)
    padded = np.pad(given, ((low, high), (low, 0)), constant_values=-100)
    expected = [[padded[i : i + size, 2 * j : 2 * j + size].max() for j in range(columns)] for i in range(rows)]
    np.testing.assert_array_equal(array_of(text, given), expected)


def test_bf16_is_rounded_in_place_as_anywhere() -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (upper[:, None] | lower).reshape(-1).view(np.float32)
    rounded = typed_values.rounded(values, "bf16")
    given = values.copy()
    with np.errstate(invalid="ignore"):
        assert typed_values._bfloat16(given, in_place=True).tobytes() == rounded.tobytes()
    assert np.shares_memory(given, typed_values._bfloat16(given, in_place=True))
    finite = ~np.isnan(values)
    theirs = values[finite].astype(pytest.importorskip("ml_dtypes").bfloat16).astype(np.float32)
    assert theirs.tobytes() == rounded[finite].tobytes()
    bits = rounded[~finite].view(np.uint32)
    assert (bits == (values[~finite].view(np.uint32) & 0xFFFF0000 | 0x400000)).all(), "NaN becomes quiet"


@pytest.mark.parametrize(
    "line", ["negate(a)", "abs(a)", "maximum(a, b)", "minimum(a, b)", "add(a, b)", "multiply(a, b)"]
)
@pytest.mark.parametrize("kind", ["bf16", "f16", "f8e4m3fnuz"])
def test_results_that_are_exact_are_what_rounding_makes_of_them(line: str, kind: str) -> None:
    """Of all codes, signaling NaNs among them, and neither operand is overwritten."""
    element_type = PRIMITIVE_TYPES[kind]
    size = 1 << element_type.bits
    codes = np.arange(size, dtype=f"u{element_type.byte_width}")
    with np.errstate(all="ignore"):
        one = typed_values.from_bits(codes, element_type)
        other = typed_values.from_bits(codes[::-1].copy(), element_type)
        shape = f"{kind}[{size}]"
        text = f"ENTRY e {{ a = {shape} parameter(0)  b = {shape} parameter(1)  ROOT r = {shape} {line} }}"
        given = [typed_values.settle(each, element_type) for each in (one, other)]
        before = [each.tobytes() for each in given]
        found = np.asarray(evaluate(parse_module(text), given).result, np.float32)
        assert [each.tobytes() for each in given] == before
        functions = {"negate": np.negative, "abs": np.abs, "add": np.add, "multiply": np.multiply}
        function = functions.get(line.partition("(")[0])
        if function is not None:
            expected = function(*given[: line.count(",") + 1])
            assert typed_values.settle(expected, element_type).tobytes() == found.tobytes()
        assert typed_values.settle(found, element_type).tobytes() == found.tobytes()
