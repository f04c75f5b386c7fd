"""Fields of what instructions do: known answers, and laws that hold for every dump."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dumps import Dump, compiled_dumps
from expecting import judged, stated
from hlo_cli import load, parse_module
from hlo_cli.analysis.fusion.kernels import kernels_of
from hlo_cli.analysis.query.fields import is_convolution
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap, async_pairs
from hlo_cli.commands.modules.instruction_tables import instructions_where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

ROOT = Path(__file__).parent.parent
ARRAY = "f32[8,8]{1,0}"
MEANINGS = f"""HloModule m, is_scheduled=true, input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}, buffer_donor={{ (2, {{}}) }}
gemm {{ p = {ARRAY} parameter(0)  ROOT fd = {ARRAY} dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}
body {{
  t = (s32[], {ARRAY}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = {ARRAY} get-tuple-element(t), index=1
  neg = {ARRAY} negate(x), metadata={{op_name="jit(f)/transpose(jvp())/checkpoint/rematted_computation/neg"}}
  ROOT u = (s32[], {ARRAY}) tuple(j, neg)
}}
test {{
  c = (s32[], {ARRAY}) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  seven = s32[] constant(7)
  ROOT less = pred[] compare(k, seven), direction=LT
}}
ENTRY e {{
  kept = {ARRAY} parameter(0), metadata={{op_name="batch['x']"}}
  state = {ARRAY} parameter(1), metadata={{op_name="params['w']"}}
  spare = {ARRAY} parameter(2), metadata={{op_name="params['b']"}}
  gemm.1 = {ARRAY} fusion(kept), kind=kCustom, calls=gemm, backend_config={{"outer_dimension_partitions":[],"fusion_config":{{"kind":"__ynn_fusion"}}}}
  mm = {ARRAY} custom-call(gemm.1, state), custom_call_target="__onednn$matmul"
  solve = {ARRAY} custom-call(mm), custom_call_target="lapack_spotrf_ffi"
  own = {ARRAY} custom-call(solve), custom_call_target="my_kernel"
  back = {ARRAY} custom-call(own), custom_call_target="xla_ffi_python_cpu_callback"
  out = {ARRAY[:-1]}:S(5)}} copy(back)
  in = {ARRAY} copy(out)
  copy.3.remat2 = {ARRAY} copy(in)
  zero = s32[] constant(0)
  init = (s32[], {ARRAY}) tuple(zero, copy.3.remat2)
  loop = (s32[], {ARRAY}) while(init), condition=test, body=body
  res = {ARRAY} get-tuple-element(loop), index=1
  moved = {ARRAY} copy(state)
  ROOT all = ({ARRAY}, {ARRAY}) tuple(res, moved)
}}
"""


def chosen(expression: str, module: Module) -> list[str]:
    return [i.name for i in filter(instructions_where(expression, module), module.instructions)]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("product", ["fd", "mm"]),
        ("products", ["fd", "mm"]),
        ("convolution", []),
        ("library", ["gemm.1", "mm", "solve"]),
        ("kernel and library", ["gemm.1", "mm", "solve"]),
        ("kernel and loop", ["j", "neg", "less"]),
        ("kernels and not loop and opcode != custom-call", ["gemm.1", "out", "in", "copy.3.remat2", "moved"]),
        ("donated", ["state", "spare"]),
        ("opcode == parameter and is_entry and not donated", ["kept"]),
        ("host_transfer", ["back", "out", "in"]),
        ("rematerialized", ["neg", "copy.3.remat2"]),
        ("trips == 7", ["t", "i", "one", "j", "x", "neg", "u"]),
        ("trips == 8", ["c", "k", "seven", "less"]),
        ("opcode == negate and bytes * trips == 3584B", ["neg"]),
        ("opcode == negate and bytes * trips > 3583B and bytes * (trips + 1) == 4kB + 96B", ["neg"]),
        ("opcode == copy and 2 * padded_bytes - logical_bytes == 256B and users < rank / 2", []),
        ("opcode == copy and users <= rank / 2", ["out", "in", "copy.3.remat2", "moved"]),
        ("of_argument(~params) and opcode == copy", ["moved"]),
        ('of_argument(~"params") and opcode != parameter', ["moved"]),
        ("of_argument(state) and opcode == copy", ["moved"]),
        ("of_argument(~batch)", ["p", "kept"]),
    ],
)  # fmt: skip
def test_meanings_have_known_answers(expression: str, names: list[str]) -> None:
    assert chosen(expression, parse_module(MEANINGS)) == names


CARRIED = """HloModule m, is_scheduled=true
sl { q = f32[64,8]{1,0} parameter(0)  ROOT s = f32[8,8]{1,0} slice(q), slice={[0:8],[0:8]} }
mul { a = f32[8,8]{1,0} parameter(0)  ROOT m = f32[8,8]{1,0} multiply(a, a) }
body {
  t = (s32[], f32[64,8]{1,0}, f32[8,8]{1,0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  w = f32[64,8]{1,0} get-tuple-element(t), index=1
  x = f32[8,8]{1,0} get-tuple-element(t), index=2
  z = s32[] constant(0)
  ds = f32[8,8]{1,0} dynamic-slice(w, i, z), dynamic_slice_sizes={8,8}
  y = f32[8,8]{1,0} multiply(x, ds)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT u = (s32[], f32[64,8]{1,0}, f32[8,8]{1,0}) tuple(j, w, y)
}
test {
  c = (s32[], f32[64,8]{1,0}, f32[8,8]{1,0}) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  n = s32[] constant(8)
  ROOT l = pred[] compare(k, n), direction=LT
}
ENTRY e {
  p = f32[32,8]{1,0} parameter(0), metadata={op_name="params['layers']['w']"}
  o = f32[8,8]{1,0} parameter(1), metadata={op_name="batch"}
  cs = (f32[32,8]{1,0}, f32[32,8]{1,0}, u32[]) copy-start(p)
  cd = f32[32,8]{1,0} copy-done(cs)
  bc = f32[32,8]{1,0} bitcast(cd)
  ag = f32[64,8]{1,0} all-gather(bc), dimensions={0}, replica_groups={{0,1}}
  sf = f32[8,8]{1,0} fusion(ag), kind=kLoop, calls=sl
  tr = f32[8,8]{0,1} transpose(sf), dimensions={1,0}
  mf = f32[8,8]{1,0} fusion(sf), kind=kLoop, calls=mul
  zero = s32[] constant(0)
  in = (s32[], f32[64,8]{1,0}, f32[8,8]{1,0}) tuple(zero, ag, o)
  lo = (s32[], f32[64,8]{1,0}, f32[8,8]{1,0}) while(in), condition=test, body=body
  r = f32[8,8]{1,0} get-tuple-element(lo), index=2
  w2 = f32[64,8]{1,0} get-tuple-element(lo), index=1
  ROOT ad = f32[8,8]{1,0} add(r, mf)
}
"""


def test_an_argument_is_followed_until_it_is_computed_with() -> None:
    """Through a prefetch, a bitcast, a gather, slices in fusions and loops, and a loop carry; not into a product."""
    module = parse_module(CARRIED)
    moved = ["q", "s", "a", "w", "ds", "p", "cs", "cd", "bc", "ag", "sf", "tr", "w2"]
    for pattern in ('~"params"', "~layers", "p", "~w"):
        assert chosen(f"of_argument({pattern})", module) == moved
    assert chosen("of_argument(batch)", module) == ["o"]
    [result] = judged(module, "sum(padded_bytes * trips, of_argument(~params) and opcode == dynamic-slice) == 2KiB")
    assert result.is_met


def test_a_window_that_slides_is_a_convolution_and_one_that_does_not_is_a_matmul() -> None:
    """Dots as the TPU compiler writes them: with batch, contracted, and free dimensions as spatial ones."""
    forms = {
        "f32[8,8] convolution(f32[8,8] a, f32[8,8] b), dim_labels=bf_io->bf": False,
        "f32[4,8,16] convolution(f32[4,8,32] a, f32[4,32,16] b), window={size=4 stride=3 lhs_dilate=4}, dim_labels=0bf_0io->0bf": False,
        "f32[8,16,1] convolution(f32[8,4,32] a, f32[4,32,16] b), window={size=4}, dim_labels=b0f_0io->bf0": False,
        "f32[8,4,16] convolution(f32[8,4,32] a, f32[1,32,16] b), window={size=1}, dim_labels=b0f_0io->b0f": False,
        "f32[8,5,16] convolution(f32[8,1,32] a, f32[5,32,16] b), window={size=5 pad=4_4 rhs_reversal=1}, dim_labels=b0f_0io->b0f": False,
        "f32[8,4,16] convolution(f32[8,4,32] a, f32[3,32,16] b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f": True,
        "f32[8,2,16] convolution(f32[8,4,32] a, f32[2,32,16] b), window={size=2 stride=2}, dim_labels=b0f_0io->b0f": True,
        "f32[8,4,4,16] convolution(f32[8,4,4,16] a, f32[3,3,1,16] b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16": True,
        'f32[8] custom-call(f32[8] a), custom_call_target="__cudnn$convForward"': True,
        'f32[8,8] custom-call(f32[8,8] a, f32[8,8] b), custom_call_target="__cublas$gemm"': False,
        "f32[8,8] dot(f32[8,8] a, f32[8,8] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}": False,
    }  # fmt: skip
    found = {text: is_convolution(_root(text)) for text in forms}
    assert found == forms
    assert all(judged(f"r = {text}", "count(product) == 1")[0].is_met for text in forms)


def _root(text: str) -> Instruction:
    root = parse_module(f"r = {text}").entry.root
    assert root is not None
    return root


CONDITIONS = (
    "opcode == copy", "product", "convolution", "library", "donated", "host_transfer", "rematerialized", "trips > 1",
    "padded_bytes > 2 * logical_bytes", "bytes * trips > 64KiB and not fused", "users + operands >= rank",
    "product and flops / bytes > 10 / 1B", "kernel", 'of_argument(~".")',
)  # fmt: skip


@cache
def _module(dump: Dump) -> Module:
    return load(dump.path)


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_a_count_is_the_number_of_instructions_that_match(dump: Dump) -> None:
    """Where nothing is asynchronous; else for what async operations are not part of."""
    module = _module(dump)
    is_sync = not async_pairs(module).pairs
    conditions = CONDITIONS if is_sync else ("product", "convolution", "library", "donated", "rematerialized")
    for condition, result in zip(conditions, judged(module, *(f"count({c}) < 0" for c in conditions)), strict=True):
        assert result.found == len(chosen(condition, module)), condition


@pytest.mark.parametrize("dump", compiled_dumps()[::3], ids=str)
def test_kernels_and_bytes_without_overlap_are_those_of_other_commands(dump: Dump) -> None:
    module = _module(dump)
    kernels = {kernel.instruction.name for kernel in kernels_of(module) if not kernel.is_transfer}
    assert set(chosen("kernel", module)) == kernels
    overlap = analyze_overlap(module)
    unoverlapped = sum(overlap.unoverlapped.values())
    [result] = judged(module, "sum(unoverlapped_bytes) < 0")
    assert result.found == unoverlapped


def _with_both_stages() -> Iterator[tuple[str, Path, Path]]:
    for before in sorted((ROOT / "fixtures").glob("*/*/before_optimizations.txt")):
        after = before.with_name("after_optimizations.txt")
        if after.exists():
            yield f"{before.parent.parent.name}/{before.parent.name}", before, after


@pytest.mark.parametrize(("name", "before", "after"), [*_with_both_stages()], ids=lambda each: str(each)[-20:])
def test_products_are_as_many_before_and_after_optimization(name: str, before: Path, after: Path) -> None:
    for field in ("product", "convolution"):
        first, second = (judged(load(path), f"count({field}) < 0")[0].found for path in (before, after))
        assert first == second, (name, field)


def test_ratios_sums_and_peaks() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e { p = f32[128]{0} parameter(0)  n = f32[128]{0} negate(p)  ROOT a = f32[128]{0} add(n, p) }"""
    for line, found, limit in (
        ("sum(bytes, opcode == negate) / sum(bytes, kernel) <= 40%", 0.4, 0.4),
        ("sum(bytes, opcode == negate) <= 0.4 * sum(bytes, kernel)", 1024, 1024.0),
        ("sum(bytes * trips, kernel) + 1KiB * 2 - 48 <= 1MiB", 2560 + 2048 - 48, 2**20),
        ("count(kernels) * (count(opcode == add) + 1) == 4", 4, 4),
        ("max(padded_bytes + padding_bytes) <= 512", 512, 512),
        ("2 * count(kernels) - -1 == 5", 5, 5),
        ("peak.ram / max(padded_bytes) <= 4", None, 4),
        ("max(flops) / count(kernels) <= 128 / 2", 64, 64),
    ):
        [result] = judged(text, line)
        assert result.is_met is True, line
        assert found is None or result.found == pytest.approx(found)
        assert result.limit == pytest.approx(limit)
    [skipped] = judged(text, "sum(bytes) / count(fused) <= 3")
    assert (skipped.is_met, skipped.remark) == (None, "division by 0")


COUNTED_ONCE = """HloModule m, is_scheduled=true
fused { a = f32[1000]{0} parameter(0)  b = f32[1000]{0} add(a, a)  ROOT c = f32[1000]{0} multiply(b, a) }
inner { i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] maximum(i, j) }
body {
  t = (s32[], f32[1000]{0}) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  x = f32[1000]{0} get-tuple-element(t), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  f = f32[1000]{0} fusion(x), kind=kLoop, calls=fused
  ROOT u = (s32[], f32[1000]{0}) tuple(m, f)
}
test { t = (s32[], f32[1000]{0}) parameter(0)  n = s32[] get-tuple-element(t), index=0
  most = s32[] constant(32)  ROOT less = pred[] compare(n, most), direction=LT }
left { l = f32[1000]{0} parameter(0)  ROOT g = f32[1000]{0} add(l, l) }
right { r = f32[1000]{0} parameter(0)  h = f32[1000]{0} add(r, r)  ROOT s = f32[1000]{0} multiply(h, h) }
ENTRY e {
  p = f32[1000]{0} parameter(0)
  q = pred[] parameter(1)
  z = s32[] constant(0)
  v = (s32[], f32[1000]{0}) tuple(z, p)
  w = (s32[], f32[1000]{0}) while(v), condition=test, body=body
  y = f32[1000]{0} get-tuple-element(w), index=1
  d = f32[1000]{0} conditional(q, y, y), true_computation=left, false_computation=right
  zero = f32[] constant(0)
  ROOT top = f32[] reduce(d, zero), dimensions={0}, to_apply=inner
}"""


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("sum(flops)", 2002 + 2000 + 999),  # as XLA: one iteration, the larger branch, and the reduction
        ("sum(flops, opcode == fusion)", 2000),
        ("sum(flops, fused)", 2000),
        ("sum(flops, opcode == multiply)", 2000),
        ("sum(flops, opcode in (multiply, fusion))", 3000),
        ("sum(flops, opcode == while)", 2002),
        ("sum(flops, opcode in (while, fusion))", 2002),
        ("sum(flops * trips)", 32 * 2001 + 33 + 3000 + 999),
        ("sum(flops * trips, opcode == while)", 32 * 2001 + 33),
        ("sum(flops * trips, opcode in (while, fusion))", 32 * 2001 + 33),
        ("sum(flops * trips, loop)", 32 * 2001 + 33),
        ("sum(flops, kernel)", 2002 + 3000 + 999),
        ("sum(padded_bytes)", 4000 * 5 + 4 * 6 + 2),
        ("sum(padded_bytes, opcode == get-tuple-element)", 4000 + 4),
        ("sum(padded_bytes, opcode == tuple)", 4000 * 2 + 4 * 2),
        ("sum(padded_bytes, opcode in (while, tuple))", 4000 * 2 + 4 * 2),
        ("sum(padded_bytes, fused)", 4000 * 3),
        ("sum(padded_bytes, fused and opcode != parameter)", 4000 * 2),
        ("sum(padded_bytes, opcode in (fusion, multiply))", 4000 * 2),
        ("sum(elements, opcode == fusion or fused)", 1000),
        ("count(opcode == multiply)", 2),
        ("max(flops)", 2002),
    ],
)
def test_a_sum_counts_no_work_and_no_array_twice(term: str, found: int) -> None:
    [result] = judged(COUNTED_ONCE, f"{term} < 0")
    assert result.found == found


def test_bounds_decide_where_they_can() -> None:
    """A cost of which only a part is known decides a limit that it exceeds anyway, on both sides."""
    text = """HloModule m
ENTRY e { p = f32[128]{0} parameter(0)  c = f32[128]{0} custom-call(p), custom_call_target="own"  ROOT n = f32[128]{0} negate(p) }"""
    lines = {
        "sum(flops) >= 128": True,
        "sum(flops) <= 127": False,
        "sum(flops) <= 1000": None,
        "2 * sum(flops) >= 256": True,
        "0 - sum(flops) <= -128": True,
        "count(opcode == negate) <= sum(flops)": True,
        "sum(flops) / sum(flops) <= 1": None,
        "1000 / sum(flops) <= 8": True,
    }
    assert {line: judged(text, line)[0].is_met for line in lines} == lines


def test_an_expectation_keeps_its_text() -> None:
    for text in (
        "sum(bytes*trips, kernel) <= 10% * sum(bytes)",
        "peak.hbm <= golden * 1.02",
        "count(kernels) <= golden",
    ):
        assert str(stated(text)[0]) == text
