"""Costs against XLA's own analysis, to the last bit, and the laws that they keep."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from math import isnan
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import in_process
from hlo_cli import load, pallas_kernels_of, parse_module
from hlo_cli.analysis.cache import computed_once, sharing
from hlo_cli.analysis.cost.cost_analysis import cost_analysis, cost_of, costs_among, module_cost
from hlo_cli.analysis.cost.counting import EXACT, RUN, XLA, Cost, CostOptions, Number
from hlo_cli.analysis.cost.matmuls import valid_positions
from hlo_cli.analysis.cost.opcode_costs import FLOP_OPCODES
from hlo_cli.analysis.dataflow.dependencies import EqualComputations, callees_first
from hlo_cli.analysis.hardware.target import is_pallas
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.operations import OPCODE_ARITY, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape, Leaf
from judge import ask_xla
from odd_instructions import odd_text
from random_instructions import Writer
from random_programs import Program
from strategies import FIXTURES, dump_text, dumps, name_of
from versions import IS_NEWER_XLA

_COSTS = """
from jaxlib import _jax, xla_client
client = xla_client.make_cpu_client()
def costs(module):
    return dict(_jax.hlo_module_cost_analysis(client, module))
"""

RULES = replace(XLA, table_alignment=4) if IS_NEWER_XLA else XLA
"""The rules of this jaxlib: since 0.11, the client for CPUs counts 4 bytes for each element of a tuple, not 8."""

_KEPT = Path(__file__).parent / "data" / "costs_of_xla.json.gz"
"""What jaxlib 0.10.2 says of modules: its figures by their texts."""

each_dump = pytest.mark.parametrize("text", [dump_text(p) for p in dumps()], ids=[name_of(p) for p in dumps()])


def differences(cost: Cost, figures: object) -> dict[str, tuple[Number, Number]]:
    """The figures that are not those of XLA."""
    assert isinstance(figures, dict)
    names = sorted({*cost.properties, *figures})
    pairs = {name: (cost.properties.get(name, 0), figures.get(name, 0)) for name in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b and not (isnan(a) and isnan(b))}


def assert_like_xla(texts: list[str], *, least: int) -> None:
    """Of those texts that XLA reads, which are not fewer than `least`, every figure is XLA's to the last bit.

    Since jaxlib 0.11, its client counts the padding of tiles, which no CPU has, and ends the process for other shapes.
    """
    compared = 0
    if IS_NEWER_XLA:
        texts, least = [text for text in texts if ":T(" not in text], least // 4
    for text, figures in zip(texts, ask_xla(texts, "costs(module)", prelude=_COSTS), strict=True):
        if isinstance(figures, dict):
            compared += 1
            assert differences(module_cost(parse_module(text), rules=RULES), figures) == {}, text
    assert compared >= least


@pytest.mark.oracle
def test_dumps_cost_what_xla_says() -> None:
    assert_like_xla([dump_text(path) for path in dumps()], least=len(dumps()) // 2)


@pytest.mark.oracle
def test_random_programs_cost_what_xla_says() -> None:
    assert_like_xla([Program(Random(seed)).text() for seed in range(300)], least=250)


@pytest.mark.oracle
def test_random_instructions_cost_what_xla_says() -> None:
    assert_like_xla([Writer(Random(seed)).text() for seed in range(500)], least=400)


@pytest.mark.oracle
def test_odd_shapes_cost_what_xla_says() -> None:
    assert_like_xla([odd_text(Random(seed)) for seed in range(1000)], least=700)


def test_sizes_that_nobody_knows_are_of_unknown_cost() -> None:
    root = parse_module("r = f32[?,3] negate(f32[?,3] p)").entry.root
    assert root is not None
    assert cost_of(root).unknown == 1
    assert cost_of(root, rules=XLA).flops == -(2.0**63)
    bounded = parse_module("r = f32[<=5,3] negate(f32[<=5,3] p)").entry.root
    assert bounded is not None
    assert cost_of(bounded).unknown == 0


@pytest.mark.parametrize(
    ("text", "flops", "moved"),
    [
        ("r = c64[4,8] fft(c64[4,8] p), fft_type=FFT, fft_length={0}", -256, 512),
        ("r = b(f32[4]) add(b(f32[4]) p, b(f32[4]) q)", 4, 48),
        ("r = f32[?,3] negate(f32[?,3] p)", -(2.0**63), 16),
        ("r = b(f32[4]) all-reduce(b(f32[4]) p)", 4, 32),
    ],
)
def test_odd_shapes_cost_what_xla_said(text: str, flops: float, moved: float) -> None:
    root = parse_module(text).entry.root
    assert root is not None
    found = cost_of(root, rules=XLA)
    assert (found.flops, found.bytes_accessed) == (flops, moved)


@pytest.mark.oracle
def test_cases_that_dumps_seldom_have_cost_what_xla_says() -> None:
    assert_like_xla(CASES, least=len(CASES))


def test_what_xla_said_of_costs_is_kept() -> None:
    """The same without jaxlib, of the cases and of some random texts: `python tests/test_cost.py` asks again."""
    kept = json.loads(gzip.decompress(_KEPT.read_bytes()))
    assert set(CASES) < kept.keys()
    assert {text: found for text, figures in kept.items() if (found := differences(xla_cost(text), figures))} == {}


def xla_cost(text: str) -> Cost:
    """The cost of a module by the rules of the jaxlib that was asked."""
    return module_cost(parse_module(text), rules=XLA)


@each_dump
def test_a_module_costs_what_its_instructions_do(text: str) -> None:
    module = parse_module(text)
    costs = cost_analysis(module)
    total = sum_of(costs[instruction] for instruction in module.entry.instructions)
    whole = module_cost(module)
    assert whole.unknown == sum(costs[instruction].unknown for instruction in module.entry.instructions)
    assert whole.properties == pytest.approx(total, rel=1e-12, nan_ok=True)


@each_dump
def test_exact_figures_are_whole_and_near_to_those_of_xla(text: str) -> None:
    """But for Pallas kernels, into which XLA does not look."""
    module = parse_module(text)
    exact, rounded, costs = module_cost(module), module_cost(module, rules=XLA), cost_analysis(module)
    for name, value in exact.properties.items():
        assert isinstance(value, int) or name.startswith("utilization")
    near = {name: value for name, value in rounded.properties.items() if name != "optimal_seconds"}
    calls = len([each for each in module.instructions if each.opcode == "custom-call"])
    opened = sum_of(costs[each] for each in module.entry.instructions if is_pallas(each))
    for name in {*near, *exact.properties}:
        expected = exact.properties.get(name, 0) - opened.get(name, 0)
        if name.startswith("utilization") and name in opened:
            continue  # XLA counts these of a kernel, too
        assert near.get(name, 0) == pytest.approx(expected, rel=1e-5, abs=calls, nan_ok=True)


@given(
    st.builds(
        WindowDimension,
        size=st.integers(1, 5),
        stride=st.integers(1, 4),
        padding_low=st.integers(-3, 6),
        padding_high=st.integers(0, 3),
        base_dilation=st.integers(1, 4),
        window_dilation=st.integers(1, 4),
    ),
    st.integers(0, 8),
    st.integers(0, 9),
)
def test_valid_positions_are_those_that_a_search_finds(window: WindowDimension, inputs: int, outputs: int) -> None:
    places = (
        out * window.stride - window.padding_low + tap * window.window_dilation
        for out in range(outputs)
        for tap in range(window.size)
    )
    base = window.base_dilation
    found = sum(place % base == 0 and 0 <= place // base < inputs for place in places)
    assert valid_positions(window, inputs, window.size, outputs) == found


def test_a_loop_costs_what_all_its_runs_do() -> None:
    module = parse_module(LOOP)
    loop = module.entry.root
    assert loop is not None
    assert cost_of(loop).flops == 10 + 1
    assert cost_of(loop, rules=RUN).flops == 7 * 10 + 8
    unknown = parse_module(LOOP.replace("known_trip_count", "other")).entry.root
    assert unknown is not None
    assert cost_of(unknown, rules=RUN).flops == 10 + 1
    assert (cost_of(unknown, rules=RUN).unknown, cost_of(loop, rules=RUN).unknown) == (1, 0)


def test_what_a_pallas_kernel_says_it_costs() -> None:
    config = '{"custom_call_config":{"cost_estimate":{"flops":"70","transcendentals":"3","bytes_accessed":"99"}}}'
    text = f'r = f32[2] custom-call(f32[2] a), custom_call_target="tpu_custom_call", backend_config={config}'
    root = parse_module(text).entry.root
    assert root is not None
    cost = cost_of(root, rules=RUN)
    assert (cost.flops, cost.transcendentals, cost.bytes_accessed, cost.unknown) == (70, 3, 99, 0)
    assert (cost_of(root).flops, cost_of(root).unknown) == (0, 1)


def test_markers_of_calls_are_free_since_august_2026() -> None:
    text = 'r = f32[2] custom-call(f32[2] a), custom_call_target="__xla_internal_call_marker_before"'
    root = parse_module(text).entry.root
    assert root is not None
    assert cost_of(root, rules=XLA).flops == -1
    assert cost_of(root, rules=CostOptions(minus_one=True, call_markers_are_free=True)).flops == 0


def test_broken_texts_cost_something() -> None:
    for text in BROKEN:
        module = parse_module(text)
        for rules in (EXACT, XLA, RUN):
            assert module_cost(module, rules=rules).flops >= 0
            assert set(cost_analysis(module, rules=rules)) == set(module.instructions)


def sum_of(costs: Iterable[Cost]) -> dict[str, Number]:
    """All figures together, without those that are 0."""
    total: dict[str, Number] = {}
    for cost in costs:
        for name, value in cost.properties.items():
            total[name] = total.get(name, 0) + value
    return {name: value for name, value in total.items() if value}


_ADD = "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }"


def entry(root: str, *parameters: str, applied: str = _ADD) -> str:
    """A module of parameters p0, p1 … and a root."""
    lines = (f"p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters))
    return "\n".join(("HloModule m", applied, "ENTRY e {", *lines, f"ROOT r = {root}", "}"))


_WHOLE = "reduce-window(p0, p1), to_apply=add, window="
CASES = [
    entry(f"f32[9,7] {_WHOLE}{{size=1x13 pad=0_0x6_6}}", "f32[9,7]", "f32[]"),
    entry(f"f32[9,7] {_WHOLE}{{size=1x13 pad=0_0x12_0}}", "f32[9,7]", "f32[]"),
    entry(f"f32[9,6] {_WHOLE}{{size=1x3 pad=0_0x1_1 stride=1x1}}", "f32[9,6]", "f32[]"),
    entry("f32[9] slice(p0), slice={[0:0]}", "f32[0]"),
    entry("f32[0] slice(p0), slice={[0:0]}", "f32[0]"),
    entry("f32[4,5,5] cholesky(p0), lower=true", "f32[4,5,5]"),
    entry("s8[3,3] cholesky(p0), lower=true", "s8[3,3]"),
    entry("f32[5,2] triangular-solve(p0, p1), left_side=true", "f32[5,5]", "f32[5,2]"),
    entry("c64[5,6] fft(p0), fft_type=FFT, fft_length={5,6}", "c64[5,6]"),
    entry("(f32[3], token[]) infeed(p0)", "token[]"),
    entry("token[] outfeed(p0, p1), outfeed_shape=(f32[3], s8[2])", "(f32[3], s8[2])", "token[]"),
    entry("(f32[3], f32[5]) all-reduce(p0, p1), to_apply=add, replica_groups={}", "f32[3]", "f32[5]"),
    entry("((f32[8]), f32[2], s32[]) slice-start(p0), slice={[0:2]}", "f32[8]"),
    entry('((f32[8]), f32[2], s32[]) custom-call-start(p0), custom_call_target="f"', "f32[8]"),
    entry("(f32[8], f32[8], u32[]) copy-start(p0)", "f32[8]"),
    entry("(u64[2], u32[9]) rng-bit-generator(p0), algorithm=rng_default", "u64[2]"),
    entry("f32[9] rng(p0, p1), distribution=rng_uniform", "f32[]", "f32[]"),
    entry(
        "f32[4,4] select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, select=ge, scatter=add",
        *("f32[4,4]", "f32[2,2]", "f32[]"),
        applied=_ADD
        + "\nge { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=GE }",
    ),
    entry(
        "f32[3,11,5] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        *("f32[11,7]", "f32[3,7,5]", "s32[3]"),
    ),
    entry("s4[3]{0:E(4)} copy(p0)", "s4[3]"),
    entry("f32[3] add-dependency(p0, p1)", "f32[3]", "token[]"),
    entry("f32[3] collective-broadcast(p0), replica_groups={{0,1}}", "f32[3]"),
    entry("f32[<=3] dynamic-reshape(p0, p1)", "f32[3]", "s32[]"),
    entry('f32[3] domain(p0), domain={kind="sharding", entry={replicated}, exit={replicated}}', "f32[3]"),
    entry("u32[] replica-id()"),
    entry("u64[2] rng-get-and-update-state(), delta=4096"),
    entry(
        "f32[9] ragged-all-to-all(p0, p1, p2, p2, p2, p2), replica_groups={{0,1}}",
        *("f32[9]", "f32[9]", "s32[2]"),
    ),
    entry(
        "f32[2,5] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        *("f8e4m3fn[2,32]", "f8e8m0fnu[2,1]", "f8e4m3fn[32,5]", "f8e8m0fnu[1,5]"),
    ),
    entry(
        "(f32[9,2], f32[2]) scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step",
        *("f32[9,2]", "f32[2]"),
        applied="step { x = f32[2] parameter(0)  c = f32[2] parameter(1)  s = f32[2] add(x, c)  ROOT t = tuple(s, s) }",
    ),
    *(
        entry(
            f"f32[1,2,1] convolution(p0, p1), window={{size=1 {rare}}}, dim_labels=b0f_0io->b0f",
            "f32[1,2,1]",
            "f32[1,1,1]",
        )
        for rare in ("stride=0", "lhs_dilate=0", "rhs_dilate=0", "pad=3_-3")
    ),
    *(
        entry(f"f32[5] {opcode}({arguments[OPCODE_ARITY[opcode] or 1]}){more.get(opcode, '')}", "f32[5]")
        for arguments in [{1: "p0", 2: "p0, p0", 3: "p0, p0, p0"}]
        for more in [{"reduce-precision": ", exponent_bits=5, mantissa_bits=9", "compare": ", direction=LT"}]
        for opcode in sorted(FLOP_OPCODES | TRANSCENDENTAL)
    ),
    (
        "HloModule m\nbody { p = f32[9] parameter(0)  ROOT n = f32[9] negate(p) }\nENTRY e { a = f32[9] parameter(0)\n"
        "  s = ((f32[9]), f32[9], s32[]) async-start(a), calls=body  u = ((f32[9]), f32[9], s32[]) async-update(s)\n"
        "  ROOT d = f32[9] async-done(u) }"
    ),
    "HloModule m\nENTRY e { c = s4[3]{0:E(4)} constant({1, 2, 3})  ROOT r = s4[3]{0:E(4)} copy(c) }",
]

BROKEN = [
    "r = f32[2] dot()",
    "r = f32[2] dynamic-update-slice(f32[2] a)",
    "r = f32[2] scatter(f32[2] a)",
    "r = f32[2] reduce()",
    "r = f32[2] fusion(f32[2] a), kind=kLoop",
    "r = f32[1,2,1] convolution(f32[1,2,1] a, f32[1,1,1] b), window={size=1 stride=0}, dim_labels=b0f_0io->b0f",
    "r = f32[1,2,1] convolution(f32[1,2,1] a, f32[1,1,1] b), window={size=1 lhs_dilate=0}, dim_labels=b0f_0io->b0f",
    "r = (f32[2], s32[]) while(f32[2] a)",
    "r = f32[2] transpose(), dimensions={0}",
    "r = f32[2] slice-start(f32[2] a)",
    "r = f32[2] slice(f32[9999999999,9999999999,9999999999] a), slice={[0:2]}",
    "r = f32[9999999999,9999999999,9999999999] slice(f32[2] a), slice={[0:2]}",
    "ENTRY e { b = f32[2] negate(a)  a = f32[2] negate(b)  ROOT r = f32[2] add(a, b) }",
    "ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] call(a), to_apply=e }",
]

LOOP = """
body { p = f32[10] parameter(0)  ROOT r = f32[10] negate(p) }
condition { p = f32[10] parameter(0)  n = pred[] constant(false)  ROOT r = pred[] not(n) }
ENTRY e { a = f32[10] parameter(0)
  ROOT r = f32[10] while(a), condition=condition, body=body, backend_config={"known_trip_count":{"n":"7"}} }
"""


def _ask() -> None:
    assert not IS_NEWER_XLA, "the figures that are kept are those of older rules"
    random = [Writer(Random(seed)).text() for seed in range(150)] + [odd_text(Random(seed)) for seed in range(150)]
    texts = list(dict.fromkeys((*CASES, *random)))
    answers = zip(texts, ask_xla(texts, "costs(module)", prelude=_COSTS), strict=True)
    kept = {text: figures for text, figures in answers if isinstance(figures, dict)}
    _KEPT.write_bytes(gzip.compress(json.dumps(kept, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    _ask()


@each_dump
def test_equal_computations_cost_what_each_of_them_does(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def costs_of(rules: CostOptions) -> list[tuple[str, object]]:
        module = parse_module(text)
        costs = cost_analysis(module, rules=rules)
        return [(each.name, (dict(costs[each].properties), costs[each].unknown)) for each in module.instructions]

    shared = [costs_of(rules) for rules in (RUN, XLA)]
    monkeypatch.setattr(EqualComputations, "first", lambda _, computation: computation)
    assert shared == [costs_of(rules) for rules in (RUN, XLA)]


def test_layers_have_equal_computations() -> None:
    """Also one after the other within a report, of which each counts other computations."""
    text = synthetic_layers(20)
    with sharing():
        one, other = parse_module(text), parse_module(text)
        equal = computed_once(EqualComputations)
        assert len({equal.first(each) for each in callees_first(one.computations)}) == 3
        for module in (one, other, one):
            for rules in (EXACT, RUN, XLA):
                costs = list(costs_among(module.entry.instructions[2:], rules=rules).values())
                assert len({(cost.flops, cost.bytes_accessed) for cost in costs}) == 1
                assert costs[0].flops == 63


def synthetic_layers(count: int) -> str:
    """So many reductions of a sum, each in fused computations of its own."""
    bodies = "".join(
        f"s{n} {{ a{n} = f32[] parameter(0)  b{n} = f32[] parameter(1)  ROOT c{n} = f32[] add(a{n}, b{n}) }}\n"
        f"f{n} {{ p{n} = f32[32] parameter(0)  z{n} = f32[] constant(0)  d{n} = f32[32] add(p{n}, p{n})\n"
        f"  ROOT r{n} = f32[] reduce(d{n}, z{n}), dimensions={{0}}, to_apply=s{n} }}\n"
        for n in range(count)
    )
    lines = "".join(f"  v{n} = f32[] fusion(a), kind=kInput, calls=f{n}\n" for n in range(count))
    return f"HloModule m\n{bodies}ENTRY e {{ a = f32[32] parameter(0)  b = f32[] parameter(1)\n{lines}}}\n"


@pytest.mark.parametrize("other", [
    "p = f32[8] parameter(0)  c = f32[] constant(2)  b = f32[8] broadcast(c), dimensions={}  ROOT r = f32[8] add(p, b)",
    "p = f32[8] parameter(0)  c = f32[] constant(1)  b = f32[8] broadcast(c), dimensions={}  ROOT r = f32[8] add(b, p)",
    "p = f32[8] parameter(0)  c = f32[] constant(1)  b = f32[8] iota(), iota_dimension=0  ROOT r = f32[8] add(p, b)",
    "p = f32[8] parameter(0)  c = f32[] constant(1)  b = f32[8] broadcast(c), dimensions={}  ROOT r = f32[8] dot(p, b)",
    "p = f32[9] parameter(0)  c = f32[] constant(1)  b = f32[8] broadcast(c), dimensions={}  ROOT r = f32[8] add(p, b)",
    'p = f32[8] parameter(0)  c = f32[] constant(1)  b = f32[8] broadcast(c), x=", metadata={y"  ROOT r = f32[8] add(p, b)',
])  # fmt: skip
def test_computations_that_differ_in_more_than_names_are_not_equal(other: str) -> None:
    one = "p = f32[8] parameter(0)  c = f32[] constant(1)  b = f32[8] broadcast(c), dimensions={}  ROOT r = f32[8] add(p, b)"
    renamed = (
        one.replace("p", "q")
        .replace("qarameter", "parameter")
        .replace("dimensions={}", 'dimensions={}, metadata={op_name="z"}')
    )
    text = f"HloModule m\nf {{ {one} }}\ng {{ {renamed} }}\nh {{ {other} }}\nENTRY e {{ a = f32[8] parameter(0)\n"
    text += "\n".join(f"  {name}.1 = f32[8] call(a), to_apply={name}" for name in "fgh") + "\n}\n"
    module, equal = parse_module(text), EqualComputations()
    first = [equal.first(computation).name for computation in callees_first([module.entry])]
    assert first == ["f", "f", "h", "e"]


def test_computations_that_call_different_ones_are_not_equal() -> None:
    text = """HloModule m
s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
t { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] multiply(a, b) }
f { p = f32[8] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=s }
g { p = f32[8] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=t }
ENTRY e { a = f32[8] parameter(0)  x = f32[] call(a), to_apply=f  ROOT y = f32[] call(a), to_apply=g }
"""
    equal = EqualComputations()
    assert len({equal.first(each) for each in callees_first([parse_module(text).entry])}) == 5


def test_a_pallas_kernel_costs_what_its_body_does() -> None:
    """Blocks that are moved from main memory, arrays in VMEM once, and the flops of all steps."""
    module = load(FIXTURES / "tpu/v6e_kernels")
    costs = cost_analysis(module)
    for kernel in pallas_kernels_of(module):
        call, cost = kernel.instruction, costs[kernel.instruction]
        arrays = [*call.operands[len(kernel.prefetched) :], call]
        in_vmem = sum(leaf.logical_bytes for each in arrays for _, leaf in each.shape.leaves if is_in_vmem(leaf))
        assert kernel.bytes_accessed is not None
        assert cost.bytes_accessed == kernel.bytes_accessed + in_vmem
        assert cost.bytes_accessed == cost.output_bytes + sum(map(cost.operand_bytes, range(len(call.operands))))
        assert (cost.flops, cost.unknown) == (kernel.flops + kernel.work.elementwise, 0)
    matmul = costs["matmul.1"]
    assert matmul.flops >= 2 * 1024 * 1536 * 512
    # both operands are in VMEM, so that only the result is written to main memory
    assert [matmul.operand_bytes(0), matmul.operand_bytes(1)] == [2 * 1024 * 512, 2 * 512 * 1536]
    call = module.instruction("matmul.1")
    assert costs_among([call], rules=XLA)[call].bytes_accessed <= 0


def is_in_vmem(leaf: Leaf) -> bool:
    return isinstance(leaf, ArrayShape) and leaf.layout.memory_space == TpuMemorySpace.VMEM


def test_collectives_have_the_time_of_their_links() -> None:
    """Their sum is that of `hlo shard --comms`, so that the sum of a module with some is known."""
    dump = ["tpu/v4_collectives", "--chip", "v4", "--json"]
    folder = Path(__file__).parent.parent / "fixtures"
    commands = (["fuse", "--cost"], ["shard", "--comms"])
    costs, comms = (
        json.loads(in_process.run([*each, *dump], folder=folder, settings={})[0])["tables"] for each in commands
    )
    on_links = [row["estimated_seconds"] for row in costs["costs"]["rows"] if row["bottleneck"] == "links"]
    assert len(on_links) > 2
    assert sum(on_links) == pytest.approx(sum(row["seconds"] for row in comms["collectives"]["rows"]))
