"""Custom calls with a meaning, and opcodes that compilers expand: values by hand, or by numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hlo_cli import HloError, parse_module
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.analysis.evaluate.run import evaluate, refusals, run
from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.semantics.products import convolved, filter_gradient, input_gradient
from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.shape import ArrayShape


def results_of(text: str, *arguments: object) -> tuple[np.ndarray, ...]:
    """The arrays of the result of one instruction."""
    found: Value = evaluate(parse_module(text), [np.asarray(each) for each in arguments]).result
    return tuple(np.asarray(each) for each in (found if isinstance(found, tuple) else (found,)))


def floats(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def a_matrix(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=sizes).astype(np.float32)


_DOT = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'


def product_text(result: str, operands: str, epilogue: str, beta: str = "0") -> str:
    config = f'{{"gemm_backend_config":{{"alpha_real":2,"beta":{beta},{_DOT},"epilogue":"{epilogue}"}}}}'
    return f'r = {result} custom-call({operands}), custom_call_target="__cublas$lt$matmul", backend_config={config}'


@pytest.mark.parametrize(
    ("epilogue", "function"),
    [
        ("DEFAULT", lambda x: x),
        ("RELU", lambda x: np.maximum(x, 0)),
        ("GELU", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ("SILU", lambda x: x / (1 + np.exp(-x))),
    ],
)
@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_epilogue_of_a_product(epilogue: str, function: object, layout: str) -> None:
    """A bias lies along the dimension that is the most minor in memory, and the activation comes last."""
    assert callable(function)
    a, b, c = a_matrix(3, 4), a_matrix(4, 3, seed=1), a_matrix(3, 3, seed=2)
    bias = floats([10, -20, 30])
    result, operands = f"f32[3,3]{layout}", "f32[3,4] a, f32[4,3] b"
    [found] = results_of(product_text(result, operands, epilogue), a, b)
    assert found == pytest.approx(function(2 * a @ b), rel=1e-5, abs=1e-5)
    name = "BIAS" if epilogue == "DEFAULT" else f"BIAS_{epilogue}"
    text = product_text(result, f"{operands}, f32[3,3] c, f32[3] v", name, beta="1")
    [found] = results_of(text, a, b, c, bias)
    along = bias if layout == "{1,0}" else bias[:, np.newaxis]
    assert found == pytest.approx(function(2 * a @ b + c + along), rel=1e-5, abs=1e-5)


def test_value_before_activation_is_a_result() -> None:
    a, b = a_matrix(2, 4), a_matrix(4, 3, seed=1)
    text = product_text("(f32[2,3]{1,0}, f32[2,3]{1,0}, s8[64])", "f32[2,4] a, f32[4,3] b", "GELU_AUX")
    active, before, scratch = results_of(text, a, b)
    assert before == pytest.approx(2 * a @ b, rel=1e-5)
    assert active[before > 3] == pytest.approx(before[before > 3], rel=0.01)
    assert not scratch.any()


def test_unknown_epilogue_is_refused() -> None:
    module = parse_module(product_text("f32[2,3]", "f32[2,4] a, f32[4,3] b", "SWISH"))
    with pytest.raises(HloError, match="SWISH"):
        evaluate(module)


def test_convolution_with_bias_side_input_and_activation() -> None:
    """`relu(3 conv + 2 side + bias)`, by hand: conv of 1 2 3 with 1 1 is 3 5."""
    config = (
        '{"cudnn_conv_backend_config":{"activation_mode":"kRelu","conv_result_scale":3,"side_input_scale":2,'
        '"leakyrelu_alpha":0}}'
    )
    text = (
        "r = (f32[1,1,2], u8[0]) custom-call(f32[1,1,3] x, f32[1,1,2] w, f32[1] b, f32[1,1,2] s), window={size=2}, "
        f'dim_labels=bf0_oi0->bf0, custom_call_target="__cudnn$convBiasActivationForward", backend_config={config}'
    )
    found, _ = results_of(text, [[[1, 2, 3]]], [[[1, 1]]], [1], [[[5, -50]]])
    assert found.tolist() == [[[9 + 10 + 1, 0]]]


@pytest.mark.parametrize(
    "window",
    [
        (WindowDimension(3, 2, 1, 2), WindowDimension(2)),
        (WindowDimension(2, 1, 1, 0, 1, 2), WindowDimension(3, 3, 0, 2, window_reversal=True)),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_of_a_convolution(window: Sequence[WindowDimension], groups: int) -> None:
    """A convolution is linear in both of its operands, so the gradients give the same inner product."""
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (2, 2 * groups, 6, 7)).astype(float)
    w = random.integers(-9, 9, (3 * groups, 2, *(each.size for each in window))).astype(float)
    result = convolved(x, w, window, groups)
    gradient = random.integers(-9, 9, result.shape).astype(float)
    expected = (result * gradient).sum()
    assert (filter_gradient(x, gradient, window, groups) * w).sum() == expected
    assert (input_gradient(gradient, w, window, x.shape[2:], groups) * x).sum() == expected


@pytest.mark.parametrize(("target", "shape"), [("Filter", "f32[1,1,2]"), ("Input", "f32[1,1,3]")])
def test_gradients_of_cudnn(target: str, shape: str) -> None:
    """Labels and window are those of the forward convolution, of 1 2 3 with 2 3 at no padding."""
    operands, given = {
        "Filter": ("f32[1,1,3] x, f32[1,1,2] g", ([[[1, 2, 3]]], [[[1, 10]]])),
        "Input": ("f32[1,1,2] g, f32[1,1,2] w", ([[[1, 10]]], [[[2, 3]]])),
    }[target]
    text = (
        f"r = ({shape}, u8[0]) custom-call({operands}), window={{size=2}}, dim_labels=bf0_oi0->bf0, "
        f'custom_call_target="__cudnn$convBackward{target}"'
    )
    assert results_of(text, *given)[0].tolist() == {"Filter": [[[21, 32]]], "Input": [[[2, 23, 30]]]}[target]


def lapack(target: str, result: str, operands: str, *given: object, config: str = "{}") -> tuple[np.ndarray, ...]:
    text = f'r = {result} custom-call({operands}), custom_call_target="{target}", backend_config={config}'
    return results_of(text, *given)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 3), (3, 5)])
def test_reflectors_make_the_matrix_again(rows: int, columns: int) -> None:
    """Q R is the matrix, and Q is orthogonal."""
    x, count = a_matrix(2, rows, columns), min(rows, columns)
    shapes = f"(f32[2,{rows},{columns}], f32[2,{count}])"
    for target in ("lapack_sgeqrf_ffi", "Qr"):
        packed, factors = lapack(target, shapes, f"f32[2,{rows},{columns}] a", x)
        upper = np.triu(packed)[:, :count]
        [q] = lapack(
            "lapack_sorgqr_ffi", f"f32[2,{rows},{count}]", f"f32[2,{rows},{count}] a, f32[2,{count}] t",
            packed[:, :, :count], factors,
        )  # fmt: skip
        assert q @ upper == pytest.approx(x, abs=1e-5)
        assert np.swapaxes(q, 1, 2) @ q == pytest.approx(np.broadcast_to(np.eye(count), (2, count, count)), abs=1e-5)


def test_exchanged_rows_make_the_matrix_again() -> None:
    """L U is the matrix with its rows exchanged: pivots from 1 of LAPACK, from 0 and as an order of TPU programs."""
    x = a_matrix(5, 4)
    factors, pivots, info = lapack("lapack_sgetrf_ffi", "(f32[5,4], s32[4], s32[])", "f32[5,4] a", x)
    lower, upper = np.tril(factors, -1) + np.eye(5, 4), np.triu(factors)[:4]
    again = x.copy()
    for at, other in enumerate(pivots - 1):
        again[[at, other]] = again[[other, at]]
    assert lower @ upper == pytest.approx(again, abs=1e-5)
    assert np.abs(np.tril(factors, -1)).max() <= 1
    assert info == 0
    same, zero_based, order = lapack("LuDecomposition", "(f32[5,4], s32[4], s32[5])", "f32[5,4] a", x)
    assert np.array_equal(same, factors)
    assert np.array_equal(zero_based, pivots - 1)
    assert np.array_equal(x[order], again)


def test_singular_matrix_has_its_first_zero_pivot() -> None:
    _, _, info = lapack("lapack_dgetrf_ffi", "(f64[3,3], s32[3], s32[])", "f64[3,3] a", np.ones((3, 3)))
    assert info == 2


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvectors_read_one_triangle(triangle: str) -> None:
    x = a_matrix(4, 4)
    config = f"{{mode = 86 : ui8, uplo = {ord(triangle)} : ui8}}"
    vectors, values, info = lapack("lapack_ssyevd_ffi", "(f32[4,4], f32[4], s32[])", "f32[4,4] a", x, config=config)
    half = np.tril(x, -1) if triangle == "L" else np.triu(x, 1).T
    whole = half + half.T + np.diag(np.diag(x))
    assert vectors * values @ vectors.T == pytest.approx(whole, abs=1e-5)
    assert np.all(np.diff(values) >= 0)
    assert info == 0


def test_unknown_target_is_named_before_anything_runs() -> None:
    module = parse_module('r = f32[2,2] custom-call(f32[2,2] a), custom_call_target="lapack_sgees_ffi"')
    [(_, reason)] = refusals(module)
    assert "lapack_sgees_ffi" in reason


_JOINED = 'custom_call_target="ConcatBitcast"'


def test_pieces_that_lie_one_after_another_are_joined() -> None:
    """Along dimension 1, the most major one of this layout."""
    text = f"r = f32[2,4,3]{{2,0,1}} custom-call(f32[2,1,3]{{2,0,1}} a, f32[2,3,3]{{2,0,1}} b), {_JOINED}"
    a, b = a_matrix(2, 1, 3), a_matrix(2, 3, 3)
    assert np.array_equal(results_of(text, a, b)[0], np.concatenate((a, b), axis=1))


@pytest.mark.parametrize(
    "text",
    [
        "f32[2,4]{0,1} custom-call(f32[1,4]{0,1} a, f32[1,4]{0,1} b)",
        "f32[8,128]{1,0:T(8,128)} custom-call(f32[4,128]{1,0:T(8,128)} a, f32[4,128]{1,0:T(8,128)} b)",
        "f32[4,2]{1,0} custom-call(f32[2,2]{1,0} a, f32[1,2]{1,0} b)",
    ],
)
def test_other_joined_pieces_are_refused(text: str) -> None:
    [(_, reason)] = refusals(parse_module(f"r = {text}, {_JOINED}"))
    assert "ConcatBitcast" in reason


def scan_text(shape: str, operands: str, carries: int, options: str = "") -> str:
    return f"""HloModule m
    step {{ x = f32[2] parameter(0)  c = f32[2] parameter(1)  s = f32[2] add(x, c)  d = f32[2] multiply(s, x)
      ROOT t = (f32[2], f32[2]) tuple(d, s) }}
    ENTRY e {{ a = f32[3,2] parameter(0)  b = f32[2] parameter(1)
      ROOT r = {shape} scan({operands}), dimensions={{0}}, num_carries={carries}, to_apply=step{options} }}"""


def test_scan_carries_values_along() -> None:
    x = floats([[1, 2], [3, 4], [5, 6]])
    shape = "(f32[3,2], f32[2])"
    found, last = results_of(scan_text(shape, "a, b", 1), x, floats([10, 20]))
    sums = np.cumsum(x, axis=0) + floats([10, 20])
    assert np.array_equal(found, sums * x)
    assert np.array_equal(last, sums[-1])
    found, last = results_of(scan_text(shape, "a, b", 1, ", is_reverse=true"), x, floats([10, 20]))
    sums = (np.cumsum(x[::-1], axis=0) + floats([10, 20]))[::-1]
    assert np.array_equal(found, sums * x)
    assert np.array_equal(last, sums[0])


def test_stochastic_conversion_to_integers() -> None:
    """Away from zero if the random bits are below the fraction; a quarter is 64 of 256, in the first eight bits."""
    values = floats([1.25, 1.25, -1.25, -1.25, 3.0, np.nan, 300, -300, np.inf])
    random = np.array([63, 64, 63, 64, 0, 0, 0, 0, 0], np.uint32) << 24
    found = results_of("r = s8[9] stochastic-convert(f32[9] a, u32[9] b)", values, random)[0]
    assert found.tolist() == [2, 1, -2, -1, 3, 0, 127, -128, 127]


def test_draws_are_the_same_each_time() -> None:
    text = "r = f32[1000] rng(f32[] a, f32[] b), distribution=rng_uniform"
    [found], [again] = results_of(text, 2, 5), results_of(text, 2, 5)
    assert np.array_equal(found, again)
    assert 2 <= found.min() < 2.1
    assert 4.9 < found.max() < 5
    [normal] = results_of("r = f32[10000] rng(f32[] a, f32[] b), distribution=rng_normal", 3, 2)
    assert normal.mean() == pytest.approx(3, abs=0.1)
    assert normal.std() == pytest.approx(2, abs=0.1)
    [whole] = results_of("r = s32[1000] rng(s32[] a, s32[] b), distribution=rng_uniform", -2, 1)
    assert set(whole.tolist()) == {-2, -1, 0}


def test_random_state_moves_on() -> None:
    text = """HloModule m
    ENTRY e { a = u64[2] rng-get-and-update-state(), delta=5  b = u64[2] rng-get-and-update-state(), delta=5
      ROOT r = u64[2] subtract(b, a) }"""
    assert results_of(text)[0].tolist() == [5, 0]


def test_batch_normalization() -> None:
    """Training makes each feature of mean 0 and variance 1; gradients agree with small differences."""
    x, scale, offset = a_matrix(64, 3), floats([2, 1, -1]), floats([0, 5, 1])
    rest = "epsilon=0.001, feature_index=1"
    text = f"r = (f32[64,3], f32[3], f32[3]) batch-norm-training(f32[64,3] x, f32[3] s, f32[3] o), {rest}"
    found, mean, variance = results_of(text, x, scale, offset)
    assert found.mean(0) == pytest.approx(offset, abs=1e-5)
    assert mean == pytest.approx(x.mean(0), abs=1e-6)
    assert variance == pytest.approx(x.var(0), rel=1e-5)
    inference = f"r = f32[64,3] batch-norm-inference(f32[64,3] x, f32[3] s, f32[3] o, f32[3] m, f32[3] v), {rest}"
    assert results_of(inference, x, scale, offset, mean, variance)[0] == pytest.approx(found, abs=1e-5)
    gradient, change = a_matrix(64, 3, seed=1), a_matrix(64, 3, seed=2)
    operands = "f32[64,3] x, f32[3] s, f32[3] m, f32[3] v, f32[64,3] g"
    text = f"r = (f32[64,3], f32[3], f32[3]) batch-norm-grad({operands}), {rest}"
    grad_x, grad_scale, grad_offset = results_of(text, x, scale, mean, variance, gradient)

    def loss(values: np.ndarray) -> float:
        wide = values.astype(np.float64)
        return float((((wide - wide.mean(0)) / np.sqrt(wide.var(0) + 0.001) * scale + offset) * gradient).sum())

    slope = (loss(x + 1e-4 * change) - loss(x - 1e-4 * change)) / 2e-4
    assert (grad_x * change).sum() == pytest.approx(slope, rel=1e-3)
    assert grad_offset == pytest.approx(gradient.sum(0), rel=1e-4, abs=1e-4)
    assert grad_scale == pytest.approx((gradient * (found - offset) / scale).sum(0), rel=1e-3, abs=1e-3)


def test_comparators_may_take_bits_of_floats() -> None:
    text = """HloModule m
    less { a = f32[] parameter(0)  b = f32[] parameter(1)  x = s32[] bitcast-convert(a)  y = s32[] bitcast-convert(b)
      ROOT r = pred[] compare(x, y), direction=LT }
    ENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] sort(p), dimensions={0}, to_apply=less }"""
    assert results_of(text, [3, 1, 2, 0.5])[0].tolist() == [0.5, 1, 2, 3]


def transfers(pairs: str) -> str:
    stated = f'frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}'
    return f"""HloModule m, num_partitions=4
    ENTRY e {{ p = f32[1] parameter(0), sharding={{devices=[4]<=[4]}}
      t = token[] after-all()
      s = (f32[1], u32[], token[]) send(p, t), channel_id=3, {stated}
      r = (f32[1], u32[], token[]) recv(t), channel_id=3, {stated}
      d = (f32[1], token[]) recv-done(r), channel_id=3
      e = token[] send-done(s), channel_id=3
      x = f32[1] get-tuple-element(d), index=0
      ROOT g = f32[4] all-gather(x), dimensions={{0}}, channel_id=4, replica_groups={{{{0,1,2,3}}}},
        use_global_device_ids=true }}"""


def test_devices_send_and_receive() -> None:
    """A device that nobody sends to gets zeros."""
    found = run(parse_module(transfers("{{0,1},{1,3}}")), [floats([5, 6, 7, 8])])
    assert np.asarray(found.result).tolist() == [0, 5, 0, 6]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r = (f32[2], token[]) infeed(token[] t)", "host"),
        ("r = token[] outfeed(f32[2] a, token[] t)", "host"),
        ("r = (f32[2], u32[], token[]) recv(token[] t), channel_id=1, is_host_transfer=true", "host"),
        ("r = (f32[2], u32[], token[]) recv(token[] t), channel_id=1", "source_target_pairs"),
    ],
)
def test_data_from_outside_is_refused(text: str, reason: str) -> None:
    [(_, found)] = refusals(parse_module(text), has_devices=True)
    assert reason in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f32[2,3,5]{0,2,1}", "f32[15,2]{1,0}"),
        ("f32[2,3,20]{2,1,0:T(2,8)}", "f32[20,3,2]{0,1,2:T(2,8)}"),
        ("f32[2,3,20]{2,0,1:T(2,8)(2,1)}", "f32[3,1,20,2]{2,3,1,0:T(2,8)(2,1)}"),
        ("f32[2,3,20]{1,2,0:T(4,2)}", "f32[2,20,3]{2,1,0:T(4,2)}"),
        ("f32[4,3,20]{1,2,0:T(4,2)}", "f32[2,2,20,3]{3,2,1,0:T(4,2)}"),
    ],
)
def test_bitcasts_keep_the_place_in_memory(old: str, new: str) -> None:
    """Every element is where the address map of the other layout says."""
    module = parse_module(f"r = {new} bitcast({old} a)")
    root = module.entry.root
    assert root is not None
    before, after = root.operand_shape(0), root.shape
    assert isinstance(before, ArrayShape)
    assert isinstance(after, ArrayShape)
    places = address_map(before)
    found = evaluate(module, [places.astype(np.float32)]).result
    assert np.array_equal(np.asarray(found), address_map(after))


MANUAL = """HloModule m{header}
ENTRY e {{
  p = f32[4] parameter(0), sharding={{devices=[2]<=[2]}}
  l = f32[2] custom-call(p), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[2] broadcast(f), dimensions={{}}
  s = f32[2] add(l, b)
  ROOT r = f32[4] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={{devices=[2]<=[2]}}
}}
"""


@pytest.mark.parametrize(
    ("header", "devices"),
    [
        (", num_partitions=2", None),
        (', frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=2]>}}', None),
        ("", 2),
    ],
)
def test_devices_are_those_of_the_header_the_mesh_or_the_option(header: str, devices: int | None) -> None:
    module = parse_module(MANUAL.format(header=header))
    found = run(module, [np.array([1, 2, 3, 4], np.float32)], devices=devices)
    assert np.asarray(found.result).tolist() == [1, 2, 4, 5]


def test_modules_that_are_compared_run_on_the_devices_that_one_states() -> None:
    stated, unstated = parse_module(MANUAL.format(header=", num_partitions=2")), parse_module(MANUAL.format(header=""))
    assert compare_runs(unstated, stated).verdict == "identical"
    assert compare_runs(stated, unstated).verdict == "identical"
