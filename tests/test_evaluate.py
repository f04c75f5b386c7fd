"""Evaluation of modules: values known without a compiler, comparisons of real dumps, planted changes, and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_cli import HloError, load, parse_module
from hlo_cli.analysis.comparison.verdict import distance
from hlo_cli.analysis.evaluate.arguments import made_up_arguments
from hlo_cli.analysis.evaluate.limits import estimate
from hlo_cli.analysis.evaluate.run import Probe, evaluate, refusals, run
from hlo_cli.analysis.evaluate.settings import Limits, Wanted
from hlo_cli.analysis.semantics.typed_values import arrays_of, carrier, from_bits, rounded, settle, to_bits
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES
from hlo_cli.ir.module import Module

FIXTURES = Path(__file__).parent.parent / "fixtures"


def result_of(text: str, *arguments: object) -> np.ndarray:
    """The result of a module, or of one instruction, that is an array."""
    found = evaluate(parse_module(text), [np.asarray(each) for each in arguments]).result
    assert isinstance(found, np.ndarray | np.generic)
    return np.asarray(found)


@pytest.mark.parametrize("name", sorted(set(FLOAT_FORMATS) - {"f32", "f64"}))
def test_every_code_is_a_value_that_stays(name: str) -> None:
    """Rounding a value of the type changes nothing, and its bits are those of the code."""
    kind = PRIMITIVE_TYPES[name]
    codes = np.arange(1 << FLOAT_FORMATS[name].bits).astype(f"u{kind.byte_width}")
    values = from_bits(codes, kind)
    kept = rounded(values, name)
    known = ~np.isnan(values)
    assert np.array_equal(kept[known], values[known])
    assert np.array_equal(to_bits(kept[known], kind), codes[known])
    assert values.dtype == np.float32
    if FLOAT_FORMATS[name].bits == 8:  # their NaN keep signs and payloads
        assert np.array_equal(to_bits(values, kind), codes)


@pytest.mark.parametrize("name", ["s1", "s2", "s4", "u1", "u2", "u4", "s8", "u16", "s64"])
def test_integers_wrap(name: str) -> None:
    kind = PRIMITIVE_TYPES[name]
    values = np.arange(-70000, 70000, 977)
    found = settle(values, kind).astype(object)
    low = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
    assert all((int(a) - int(b)) % (1 << kind.bits) == 0 for a, b in zip(found, values, strict=True))
    assert min(found) >= low
    assert max(found) < low + (1 << kind.bits)
    assert settle(values, kind).dtype == carrier(kind)


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("r = s32[4] divide(s32[4] a, s32[4] b)", ([7, -7, 7, -(2**31)], [2, 2, 0, -1]), [3, -3, -1, -(2**31)]),
        ("r = s32[3] remainder(s32[3] a, s32[3] b)", ([7, -7, 5], [3, 3, 0]), [1, -1, 5]),
        ("r = s32[4] power(s32[4] a, s32[4] b)", ([1, -1, 2, 3], [-5, -3, -1, 3]), [1, -1, 0, 27]),
        ("r = u4[2] power(u4[2] a, u4[2] b)", ([9, 3], [8, 9]), [1, 3]),
        ("r = s8[3] shift-left(s8[3] a, s8[3] b)", ([1, 1, 1], [3, 8, -1]), [8, 0, 0]),
        ("r = s8[2] shift-right-arithmetic(s8[2] a, s8[2] b)", ([-8, -8], [1, 9]), [-4, -1]),
        ("r = s4[1] popcnt(s4[1] a)", ([-1],), [-8]),
        ("r = s4[2] count-leading-zeros(s4[2] a)", ([1, 0],), [3, 4]),
        ("r = s8[4] convert(f32[4] a)", ([np.nan, 300.0, -300.0, -1.9],), [0, 127, -128, -1]),
        ("r = pred[2] convert(f32[2] a)", ([np.nan, 0.0],), [True, False]),
        ("r = f32[2] round-nearest-afz(f32[2] a)", ([0.49999997, -2.5],), [0.0, -3.0]),
        ("r = f32[2] clamp(f32[] a, f32[2] b, f32[] c)", (3.0, [1.0, 9.0], 2.0), [2.0, 2.0]),
        ("r = f32[2] reduce-precision(f32[2] a), exponent_bits=8, mantissa_bits=7", ([1.001, 3.0],), [1.0, 3.0]),
        ("r = f32[1] dynamic-slice(f32[3] a, s32[] b), dynamic_slice_sizes={1}", ([1.0, 2.0, 3.0], 9), [3.0]),
        ("r = u8[2] bitcast-convert(u16[] a)", (0x1234,), [0x34, 0x12]),
        ("r = s32[5] pad(s32[3] a, s32[] b), padding=-1_1_1", ([1, 2, 3], 0), [0, 2, 0, 3, 0]),
    ],
)
def test_values_as_xla_defines_them(text: str, arguments: tuple[object, ...], expected: list[object]) -> None:
    """The surprises of XLA's semantics, with the values of XLA:CPU."""
    assert result_of(text, *arguments).tolist() == expected


def test_scatter_drops_updates_that_are_not_wholly_inside() -> None:
    text = """f { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
ENTRY e { x = s32[4] parameter(0)  i = s32[3,1] parameter(1)  u = s32[3,2] parameter(2)
  ROOT r = s32[4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=f }"""
    found = result_of(text, [0, 0, 0, 0], [[0], [3], [2]], [[1, 2], [9, 9], [3, 4]])
    assert found.tolist() == [1, 2, 3, 4]


def test_bitcast_keeps_bytes() -> None:
    """A transposed layout read in row-major order is the transpose."""
    assert result_of("r = f32[6]{0} bitcast(f32[2,3]{0,1} a)", [[1, 2, 3], [4, 5, 6]]).tolist() == [1, 4, 2, 5, 3, 6]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 33])
def test_sorting_by_any_comparison_is_that_of_a_plain_one(count: int) -> None:
    """A comparator that is not recognized, as it adds 0, sorts as the recognized one, and both are stable."""
    plain = "compare(a, b), direction=LT"
    other = "compare(x, b), direction=LT"
    head = "f { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3) "
    zero = "z = f32[] constant(0)  x = f32[] add(a, z)"
    keys = np.random.default_rng(count).integers(0, 5, (3, count)).astype(np.float32)
    order = np.broadcast_to(np.arange(count, dtype=np.int32), (3, count))
    found = []
    for body in (plain, f"{other}"):
        text = f"""{head} {zero if body is not plain else ""} ROOT r = pred[] {body} }}
ENTRY e {{ k = f32[3,{count}] parameter(0)  v = s32[3,{count}] parameter(1)
  ROOT s = (f32[3,{count}], s32[3,{count}]) sort(k, v), dimensions={{1}}, is_stable=true, to_apply=f }}"""
        found.append(evaluate(parse_module(text), [keys, order]).result)
    expected = np.argsort(keys, axis=1, kind="stable")
    for pair in found:
        assert isinstance(pair, tuple)
        assert np.array_equal(np.asarray(pair[1]), expected)


def _pairs() -> list[str]:
    return ["cpu/names", "cpu/softmax", "tpu/v5e_branches", "cpu/dynamic"]


@pytest.mark.parametrize("name", _pairs())
def test_optimized_modules_compute_the_same(name: str) -> None:
    """Before and after optimization: without rounding, the results agree to folded constants."""
    old, new = (load(FIXTURES / name, stage=stage) for stage in ("before_optimizations", "after_optimizations"))
    runs = [run(each, floats="widen") for each in (old, new)]
    assert old.entry.root is not None
    assert new.entry.root is not None
    first = list(arrays_of(runs[0].result, old.entry.root.shape))
    second = list(arrays_of(runs[1].result, new.entry.root.shape))
    assert len(first) == len(second)
    assert max(distance(a, b) for (_, a, _), (_, b, _) in zip(first, second, strict=True)) <= 1e-6


def test_a_partitioned_program_computes_what_the_whole_one_does() -> None:
    from hlo_cli.commands.modules.loading import load_one
    from hlo_cli.commands.options.io_options import InputOptions

    old, new = (
        load_one([str(FIXTURES / "tpu/v4_collectives")], InputOptions(stage=stage)).module
        for stage in ("before_optimizations", "after_optimizations")
    )
    runs = [run(each, floats="widen") for each in (old, new)]
    assert not runs[1].unknown
    assert old.entry.root is not None
    pairs = zip(
        arrays_of(runs[0].result, old.entry.root.shape), arrays_of(runs[1].result, old.entry.root.shape), strict=True
    )
    assert max(distance(a, b) for (_, a, _), (_, b, _) in pairs) <= 1e-6


def probed(text: str, argument: list[float], wanted: Wanted = "nan") -> list[tuple[str, str, bool]]:
    """What a probe finds: name, what it comes from, and whether it reaches a result."""
    probe, module = Probe(wanted), parse_module(text)
    evaluate(module, [np.array(argument, np.float32)], observe=probe)
    return [
        (each.instruction.name, " ".join(i.name for i in (*each.operands, *each.inside)), each.reaches_result)
        for each in probe.occurrences(module)
    ]


def test_probe_names_what_makes_nan() -> None:
    text = """ENTRY e { a = f32[2] parameter(0)  l = f32[2] log(a)  s = f32[2] add(l, a)  ROOT n = f32[2] negate(s) }"""
    assert probed(text, [-1, 1]) == [("l", "", True), ("s", "l", True), ("n", "s", True)]


def test_probe_names_arguments_that_have_nan() -> None:
    text = """ENTRY e { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }"""
    assert probed(text, [float("nan"), 1]) == [("a", "", True), ("n", "a", True)]


def test_probe_tells_masked_elements_from_those_of_results() -> None:
    text = """ENTRY e { a = f32[2] parameter(0)  n = f32[] constant(nan)  fill = f32[2] broadcast(n), dimensions={}
      t = pred[] constant(true)  all = pred[2] broadcast(t), dimensions={}  s = f32[2] select(all, a, fill)
      l = f32[2] log(s)  ROOT r = (f32[2], f32[2]) tuple(s, l) }"""
    assert probed(text, [1, 2]) == [("n", "", False), ("fill", "n", False)]
    assert probed(text, [-1, 2]) == [("l", "", True), ("n", "", False), ("fill", "n", False)]


def test_probe_looks_into_fusions() -> None:
    text = """f { a = f32[2] parameter(0)  s = f32[2] sqrt(a)  ROOT t = f32[2] add(s, a) }
    g { a = f32[2] parameter(0)  m = f32[2] log(a)  p = pred[2] is-finite(m)  ROOT z = f32[2] select(p, m, a) }
    ENTRY e { x = f32[2] parameter(0)  q = f32[2] fusion(x), kind=kLoop, calls=f
      ROOT r = (f32[2], f32[2]) tuple(q, x) }"""
    assert probed(text, [-1, 1]) == [("s", "", True), ("t", "s", True), ("q", "s", True)]
    assert probed(text.replace("calls=f", "calls=g"), [-1, 1]) == [("m", "", False)]


def test_probe_follows_loops_to_the_iteration_before() -> None:
    text = """c { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[2] get-tuple-element(s), index=1
      o = s32[] constant(1)  j = s32[] add(i, o)  y = f32[2] log(x)  d = f32[2] negate(y)
      ROOT t = (s32[], f32[2]) tuple(j, d) }
    ENTRY e { x = f32[2] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[2]) tuple(z, x)
      w = (s32[], f32[2]) while(s), condition=c, body=b  ROOT r = f32[2] get-tuple-element(w), index=1 }"""
    assert probed(text, [3, 3]) == [("y", "", True), ("d", "y", True), ("w", "y", True)]


def test_infinities_of_a_mask_reach_no_result() -> None:
    text = """ENTRY e { a = f32[2] parameter(0)  i = f32[2] constant({-inf, 0})  m = f32[2] add(a, i)
      ROOT x = f32[2] exponential(m) }"""
    assert probed(text, [1, 1], "inf") == [("i", "", False), ("m", "i", False)]


def looping(trips: str) -> Module:
    return parse_module(f"""HloModule m
c {{ p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant({trips})
  ROOT l = pred[] compare(i, n), direction=NE }}
b {{ p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  x = f32[4] get-tuple-element(p), index=1  j = s32[] add(i, one)  y = f32[4] add(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y) }}
ENTRY e {{ x = f32[4] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[4]) tuple(z, x)
  w = (s32[], f32[4]) while(t), condition=c, body=b  ROOT r = f32[4] get-tuple-element(w), index=1 }}""")


def test_loops_run() -> None:
    assert np.asarray(evaluate(looping("5"), [np.ones(4, np.float32)]).result).tolist() == [32.0] * 4


@pytest.mark.parametrize(
    ("limits", "words"),
    [(Limits(max_iterations=100), "more than 100 iterations"), (Limits(max_seconds=0.0), "the limit of 0 seconds")],
)
def test_endless_loops_end(limits: Limits, words: str) -> None:
    with pytest.raises(HloError, match=words):
        evaluate(looping("-1"), [np.ones(4, np.float32)], limits=limits)


def test_loops_run_as_often_as_they_may() -> None:
    limits = Limits(max_iterations=5)
    assert np.asarray(evaluate(looping("5"), [np.ones(4, np.float32)], limits=limits).result).tolist() == [32.0] * 4


def test_terabytes_are_refused_before_anything_runs() -> None:
    module = parse_module("r = f32[1000000,1000000] broadcast(f32[] a), dimensions={}")
    assert estimate(module).live_bytes == 4  # the array is a view
    huge = parse_module(
        "ENTRY e { a = f32[400000,400000] iota(), iota_dimension=0  ROOT r = f32[400000,400000] sine(a) }"
    )
    with pytest.raises(HloError, match="GiB of memory, above the limit"):
        evaluate(huge, [])


def test_unknown_operations_are_named_first() -> None:
    text = 'ENTRY e { a = f32[4] parameter(0)  b = f32[4] custom-call(a), custom_call_target="mine"  ROOT c = f32[4] negate(b) }'
    [(instruction, reason)] = refusals(parse_module(text))
    assert (instruction.name, "mine" in reason) == ("b", True)
    with pytest.raises(HloError, match="cannot evaluate b"):
        evaluate(parse_module(text))


def test_arguments_are_the_same_for_the_same_seed() -> None:
    module = parse_module(
        "ENTRY e { a = f32[8] parameter(0)  b = s32[4] parameter(1)  ROOT t = (f32[8], s32[4]) tuple(a, b) }"
    )
    first, again, other = (made_up_arguments(module, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(np.asarray(first[0]), np.asarray(other[0]))


def test_devices_that_go_different_ways_are_a_deadlock() -> None:
    text = """HloModule m, num_partitions=2
f { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = s32[] add(a, b) }
t { p = s32[] parameter(0)  ROOT r = s32[] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f }
n { p = s32[] parameter(0)  ROOT r = s32[] negate(p) }
ENTRY e { i = u32[] partition-id()  z = u32[] constant(0)  c = pred[] compare(i, z), direction=EQ  s = s32[] convert(i)
  ROOT r = s32[] conditional(c, s, s), true_computation=t, false_computation=n }"""
    with pytest.raises(HloError, match="deadlock"):
        run(parse_module(text))


def test_a_result_before_partitioning_is_whole_on_every_device() -> None:
    """The sharding of the root says where its parts will be, not that the devices have parts yet."""
    text = """HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}
body { p = f32[1] parameter(0)  ROOT r = f32[1] negate(p) }
ENTRY main { p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  i = f32[1] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}]>]>"}
  c = f32[1] call(i), to_apply=body
  o = f32[2] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}]>]>"}
  ROOT r = f32[2] negate(o), sharding={devices=[2]<=[2]} }"""
    assert np.asarray(run(parse_module(text), [np.array([1, 2], np.float32)]).result).tolist() == [1.0, 2.0]
