"""Modules for measuring the evaluator: one operation each, a few that are made of matrices, and a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
import numpy.typing as npt
from jaxlib import _hlo, _jax

from hlo_cli import parse_module
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.analysis.evaluate.program import Program
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.ir.module import Module

Array = npt.NDArray[Any]
Row = tuple[str, str, str, float | None, float | None]
Race = Callable[[Callable[[], Any], Callable[[], Any]], tuple[float, float]]
"""Seconds of both."""


@dataclass(frozen=True)
class Case:
    """A module, its arguments, and what may take how many times as long as XLA:CPU, or as numpy by hand."""

    what: str
    text: str
    arguments: tuple[Array, ...]
    budget: float | None = None
    by_hand: Callable[[], Any] | None = None
    is_bfloat16: bool = False

    def ours(self) -> Callable[[], Any]:
        """Runs the compiled module in the evaluator."""
        function = Program().function(parse_module(self.text).entry)
        return lambda: function(self.arguments)

    def xla(self) -> Callable[[], Any]:
        """Runs the module that XLA:CPU compiled."""
        client = jax.devices("cpu")[0].client
        devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
        proto = _hlo.hlo_module_from_text(self.text).as_serialized_hlo_module_proto()
        executable = client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), devices, _jax.CompileOptions())
        given = [
            jax.device_put(each.astype(ml_dtypes.bfloat16) if self.is_bfloat16 and each.dtype == np.float32 else each)
            for each in self.arguments
        ]

        def run() -> None:
            for each in executable.execute_sharded(given).disassemble_into_single_device_arrays():
                each[0].block_until_ready()

        return run


def _normal(*sizes: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def _scalars(opcode: str, kind: str = "f32") -> str:
    """A computation that applies an opcode to two scalars."""
    return f"f {{ x = {kind}[] parameter(0)  y = {kind}[] parameter(1)  ROOT r = {kind}[] {opcode}(x, y) }}\n"


def _one(
    what: str, shape: str, call: str, *given: tuple[str, Array], budget: float | None = None, more: str = ""
) -> Case:
    """A module of one instruction, whose operands are a, b, c …"""
    names = "abcdef"[: len(given)]
    parameters = "".join(
        f"  {name} = {kind} parameter({at})\n" for at, (name, (kind, _)) in enumerate(zip(names, given, strict=True))
    )
    text = f"HloModule m\n{more}ENTRY e {{\n{parameters}  ROOT r = {shape} {call}\n}}\n"
    return Case(what, text, tuple(array for _, array in given), budget)


def _elementwise(kind: str, budget: float | None) -> Case:
    names = ["add(p, q)", "multiply(t0, q)", "subtract(t1, p)", "maximum(t2, q)", "negate(t3)", "multiply(t4, t4)"]
    names += ["add(t5, p)", "minimum(t6, q)"]
    lines = [f"  t{at} = {kind}[4194304] {each}\n" for at, each in enumerate(names)]
    lines[-1] = "  ROOT" + lines[-1][1:]
    text = f"HloModule m\nENTRY e {{\n  p = {kind}[4194304] parameter(0)\n  q = {kind}[4194304] parameter(1)\n"
    given = tuple(_normal(1 << 22, seed=seed) for seed in (1, 2))
    if kind == "bf16":
        given = tuple(each.astype(ml_dtypes.bfloat16).astype(np.float32) for each in given)
    return Case(f"8 elementwise, 4 M, {kind}", text + "".join(lines) + "}\n", given, budget, is_bfloat16=kind == "bf16")


def _error_functions() -> Case:
    return _one("erf, 4 M, f32", "f32[4194304]", "erf(a)", ("f32[4194304]", _normal(1 << 22)), budget=30.0)


def _convolution(what: str, x: str, w: str, result: str, attributes: str) -> Case:
    sizes = [tuple(map(int, each[4:-1].split(","))) for each in (x, w)]
    call = f"convolution(a, b), {attributes}"
    return _one(what, result, call, (x, _normal(*sizes[0])), (w, _normal(*sizes[1], seed=2)), budget=10.0)


_SORTED = 262_144
_JAX_ORDER = """f { x = f32[] parameter(0)  y = f32[] parameter(1)  zero = f32[] constant(0)  none = f32[] constant(nan)
  nx = pred[] compare(x, x), direction=NE  ny = pred[] compare(y, y), direction=NE
  zx = pred[] compare(x, zero), direction=EQ  zy = pred[] compare(y, zero), direction=EQ
  sx = f32[] select(zx, zero, x)  sy = f32[] select(zy, zero, y)
  ux = f32[] select(nx, none, sx)  uy = f32[] select(ny, none, sy)
  ROOT r = pred[] compare(ux, uy), direction=LT, type=TOTALORDER }
"""
_TWO_KEYS = """f { x = f32[] parameter(0)  y = f32[] parameter(1)  u = s32[] parameter(2)  v = s32[] parameter(3)
  less = pred[] compare(u, v), direction=LT  same = pred[] compare(u, v), direction=EQ
  later = pred[] compare(x, y), direction=GT  both = pred[] and(same, later)
  ROOT r = pred[] or(less, both) }
"""
_OTHER_ORDER = """f { x = f32[] parameter(0)  y = f32[] parameter(1)  d = f32[] subtract(x, y)  z = f32[] constant(0)
  ROOT r = pred[] compare(d, z), direction=LT }
"""


def _sort(what: str, order: str, *, keys: int = 1, budget: float | None) -> Case:
    given = [("f32[262144]", _normal(_SORTED))]
    if keys == 2:
        given.append(("s32[262144]", np.random.default_rng(3).integers(0, 1000, _SORTED).astype(np.int32)))
    shape = "f32[262144]" if keys == 1 else "(f32[262144], s32[262144])"
    call = f"sort({', '.join('ab'[:keys])}), dimensions={{0}}, is_stable=true, to_apply=f"
    return _one(f"sort, 262,144, {what}", shape, call, *given, budget=budget, more=order)


def _scatter(opcode: str, budget: float | None) -> Case:
    indices = np.random.default_rng(4).integers(0, 100_000, (100_000, 1)).astype(np.int32)
    call = (
        "scatter(a, b, c), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=f"
    )
    given = (
        ("f32[100000,64]", _normal(100_000, 64)),
        ("s32[100000,1]", indices),
        ("f32[100000,64]", _normal(100_000, 64, seed=2)),
    )
    return _one(f"scatter {opcode}, 100,000 x 64", "f32[100000,64]", call, *given, budget=budget, more=_scalars(opcode))


def _histogram() -> Case:
    indices = np.random.default_rng(4).integers(0, 256, (1_000_000, 1)).astype(np.int32)
    call = (
        "scatter(a, b, c), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=f"
    )
    given = ("f32[256]", _normal(256)), ("s32[1000000,1]", indices), ("f32[1000000]", _normal(1_000_000))
    return _one("scatter add, 1,000,000 to 256", "f32[256]", call, *given, budget=25.0, more=_scalars("add"))


def _gather() -> Case:
    indices = np.random.default_rng(4).integers(0, 100_000, (100_000, 1)).astype(np.int32)
    call = (
        "gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1,64}"
    )
    return _one(
        "gather, 100,000 x 64",
        "f32[100000,64]",
        call,
        ("f32[100000,64]", _normal(100_000, 64)),
        ("s32[100000,1]", indices),
        budget=6.0,
    )


def _window(what: str, opcode: str, shape: str, window: str, x: Array, result: str, budget: float | None) -> Case:
    call = f"reduce-window(a, b), window={{{window}}}, to_apply=f"
    start = np.float32(0 if opcode == "add" else -np.inf)
    return _one(what, result, call, (shape, x), ("f32[]", np.array(start)), budget=budget, more=_scalars(opcode))


def _pool_gradient() -> Case:
    more = (
        "f { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = pred[] compare(x, y), direction=GE }\n"
        "g { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] add(x, y) }\n"
    )
    call = "select-and-scatter(a, b, c), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=f, scatter=g"
    given = ("f32[8,56,56,64]", _normal(8, 56, 56, 64)), ("f32[8,28,28,64]", _normal(8, 28, 28, 64, seed=2))
    return _one(
        "max-pool gradient 3x3, 8x56x56x64",
        "f32[8,56,56,64]",
        call,
        *given,
        ("f32[]", np.array(np.float32(0))),
        budget=20.0,
        more=more,
    )


_LOOP = """HloModule m
body { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[] get-tuple-element(s), index=1
  y = f32[] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)  z = f32[] multiply(x, y)
  w = f32[] add(z, y)  ROOT t = (s32[], f32[], f32[]) tuple(j, w, y) }
condition { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(100000)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  z = s32[] constant(0)  t = (s32[], f32[], f32[]) tuple(z, x, y)
  ROOT r = (s32[], f32[], f32[]) while(t), condition=condition, body=body }
"""


def _loop() -> Case:
    return Case(
        "while, 100,000 rounds of 10 instructions",
        _LOOP,
        (np.array(np.float32(0.5)), np.array(np.float32(0.25))),
        120.0,
    )


_ROWS = """HloModule m
body { s = (s32[], f32[2000,4096], f32[1,4096]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[2000,4096] get-tuple-element(s), index=1  u = f32[1,4096] get-tuple-element(s), index=2
  one = s32[] constant(1)  zero = s32[] constant(0)  v = f32[1,4096] negate(u)
  y = f32[2000,4096] dynamic-update-slice(x, v, i, zero)  j = s32[] add(i, one)
  ROOT t = (s32[], f32[2000,4096], f32[1,4096]) tuple(j, y, v) }
condition { s = (s32[], f32[2000,4096], f32[1,4096]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2000)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[2000,4096] parameter(0)  u = f32[1,4096] parameter(1)  z = s32[] constant(0)
  t = (s32[], f32[2000,4096], f32[1,4096]) tuple(z, x, u)
  ROOT r = (s32[], f32[2000,4096], f32[1,4096]) while(t), condition=condition, body=body }
"""


def _rows_of_a_loop() -> Case:
    return Case("while, 2,000 rows of 4,096 written", _ROWS, (_normal(2000, 4096), _normal(1, 4096)), 20.0)


def _matrices(*, by_hand: bool) -> Case:
    """Three layers: dot, bias, relu."""
    lines, last, given = ["  x = f32[512,1024] parameter(0)", "  zero = f32[] constant(0)"], "x", [_normal(512, 1024)]
    lines.append("  zeros = f32[512,1024] broadcast(zero), dimensions={}")
    for at in range(3):
        lines += [
            f"  w{at} = f32[1024,1024] parameter({2 * at + 1})",
            f"  b{at} = f32[1024] parameter({2 * at + 2})",
            f"  d{at} = f32[512,1024] dot({last}, w{at}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"  c{at} = f32[512,1024] broadcast(b{at}), dimensions={{1}}",
            f"  a{at} = f32[512,1024] add(d{at}, c{at})",
            f"  {'ROOT ' if at == 2 else ''}r{at} = f32[512,1024] maximum(a{at}, zeros)",
        ]
        last = f"r{at}"
        given += [_normal(1024, 1024, seed=at), _normal(1024, seed=at)]

    def hand() -> Array:
        x = given[0]
        for at in range(3):
            x = np.maximum(x @ given[2 * at + 1] + given[2 * at + 2], np.float32(0))
        return x

    what = "3 layers 512x1024x1024, beside numpy" if by_hand else "3 layers 512x1024x1024"
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, "}", ""])
    return Case(what, text, tuple(given), 3.0 if by_hand else None, hand if by_hand else None)


def _dot(kind: str, budget: float | None) -> Case:
    given = [_normal(1024, 1024, seed=seed) for seed in (1, 2)]
    if kind == "s8":
        given = [(each * 20).astype(np.int8) for each in given]
    return _one(
        f"dot 1024^3, {kind}", f"{'s32' if kind == 's8' else kind}[1024,1024]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        *((f"{kind}[1024,1024]", each) for each in given), budget=budget,
    )  # fmt: skip


CASES: tuple[Callable[[], Case], ...] = (
    lambda: _elementwise("f32", 12.0),
    lambda: _elementwise("bf16", 15.0),
    _error_functions,
    lambda: _dot("f32", 4.0),
    lambda: _dot("s8", None),
    lambda: _convolution("convolution 3x3, 8x56x56x64", "f32[8,56,56,64]", "f32[3,3,64,64]", "f32[8,56,56,64]",
                         "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    lambda: _convolution("its weight gradient", "f32[8,56,56,64]", "f32[8,56,56,64]", "f32[3,3,64,64]",
                         "window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"),
    lambda: _convolution("its input gradient", "f32[8,56,56,64]", "f32[3,3,64,64]", "f32[8,56,56,64]",
                         "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"),
    lambda: _convolution("convolution 3x3, stride 2", "f32[8,56,56,64]", "f32[3,3,64,64]", "f32[8,28,28,64]",
                         "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f"),
    lambda: _convolution("its weight gradient, dilated", "f32[8,56,56,64]", "f32[8,28,28,64]", "f32[3,3,64,64]",
                         "window={size=28x28 pad=0_1x0_1 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf"),
    lambda: _convolution("its input gradient, dilated", "f32[8,28,28,64]", "f32[3,3,64,64]", "f32[8,56,56,64]",
                         "window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"),
    lambda: _convolution("convolution 3x3 of each feature", "f32[8,56,56,64]", "f32[3,3,1,64]", "f32[8,56,56,64]",
                         "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=64"),
    lambda: _convolution("convolution 1x1, 8x56x56x64", "f32[8,56,56,64]", "f32[1,1,64,64]", "f32[8,56,56,64]",
                         "window={size=1x1}, dim_labels=b01f_01io->b01f"),
    lambda: _convolution("convolution 7x7, stride 2, 3 features", "f32[8,112,112,3]", "f32[7,7,3,64]", "f32[8,56,56,64]",
                         "window={size=7x7 stride=2x2 pad=3_2x3_2}, dim_labels=b01f_01io->b01f"),
    lambda: _window("reduce-window max 3x3, 8x112x112x64", "maximum", "f32[8,112,112,64]", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0",
                    _normal(8, 112, 112, 64), "f32[8,112,112,64]", 13.0),
    lambda: _window("reduce-window add 3x3, 8x112x112x64", "add", "f32[8,112,112,64]", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0",
                    _normal(8, 112, 112, 64), "f32[8,112,112,64]", 13.0),
    lambda: _pool_gradient(),
    lambda: _window("cumulative sum, 65,536", "add", "f32[65536]", "size=65536 pad=65535_0", _normal(65_536), "f32[65536]", 3.0),
    lambda: _window("cumulative maximum, 65,536", "maximum", "f32[65536]", "size=65536 pad=65535_0", _normal(65_536), "f32[65536]", 3.0),
    lambda: _one("reduce 4096^2", "f32[4096]", "reduce(a, b), dimensions={1}, to_apply=f", ("f32[4096,4096]", _normal(4096, 4096)),
                 ("f32[]", np.array(np.float32(0))), budget=3.0, more=_scalars("add")),
    _gather,
    lambda: _scatter("add", 15.0),
    lambda: _scatter("maximum", 10.0),
    _histogram,
    lambda: _sort("by value", _scalars("add").replace("ROOT r = f32[] add(x, y)", "ROOT r = pred[] compare(x, y), direction=LT"), budget=5.0),
    lambda: _sort("jnp.sort", _JAX_ORDER, budget=5.0),
    lambda: _sort("two keys", _TWO_KEYS, keys=2, budget=10.0),
    lambda: _sort("by difference", _OTHER_ORDER, budget=5.0),
    _loop,
    _rows_of_a_loop,
    lambda: _matrices(by_hand=False),
    lambda: _matrices(by_hand=True),
)  # fmt: skip
"""One operation each; 3x3 convolutions and what is made of matrices have the budgets of the design."""


def overhead(race: Race) -> Iterator[Row]:
    """Microseconds an instruction on small arrays above those of the same numpy calls."""
    count = 500
    opcodes = ("add", "multiply", "subtract")
    functions = (np.add, np.multiply, np.subtract)
    lines = ["  t0 = f32[8] parameter(0)", "  y = f32[8] parameter(1)"]
    lines += [f"  t{at + 1} = f32[8] {opcodes[at % 3]}(t{at}, y)" for at in range(count)]
    lines[-1] = "  ROOT" + lines[-1][1:]
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, "}", ""])
    x, y = _normal(8), _normal(8, seed=2)

    def hand() -> Array:
        t = x
        for at in range(count):
            t = functions[at % 3](t, y)
        return t

    case = Case("overhead", text, (x, y), by_hand=hand)
    ours, theirs = race(case.ours(), hand)
    mine, other = ours / count * 1e6, theirs / count * 1e6
    yield "instruction on f32[8], above numpy, us", f"{mine:.2f} us", f"{other:.2f} us", mine - other, 2.0
    rounds = Case("loop", _LOOP, _loop().arguments).ours()
    x0, y0, one, limit = np.array(np.float32(0.5)), np.array(np.float32(0.25)), np.array(np.int32(1)), np.int32(100_000)

    def by_hand() -> tuple[Any, Any, Any]:
        state: tuple[Any, Any, Any] = (np.array(np.int32(0)), x0, y0)
        while np.less(state[0], limit):
            i, a, b = state
            state = np.add(i, one), np.add(np.multiply(a, b), b), b
        return state

    ours, theirs = race(rounds, by_hand)
    mine, other = ours / 1e6 * 1e6, theirs / 1e6 * 1e6
    yield "instruction in a loop, above numpy, us", f"{mine:.2f} us", f"{other:.2f} us", mine - other, 2.0


def model_rows(race: Race) -> Iterator[Row]:
    """A training step of a transformer at toy sizes: seconds of a whole run, and of a comparison."""
    from transformer import training_step

    before, after, arguments, run = training_step()
    modules = {"before": parse_module(before), "after": parse_module(after)}
    for name, module in modules.items():
        count = sum(len(each.instructions) for each in module.computations)
        for floats in ("exact", "widen"):
            ours, theirs = race(lambda: evaluate(module, arguments, floats=floats), run)  # noqa: B023
            what = f"{count:,} instructions {name} XLA, {floats}"
            yield what, f"{ours:.3f} s", f"{theirs * 1e3:.1f} ms", ours, 5.0
    ours, theirs = race(lambda: _same(modules, arguments), run)
    yield "both compared", f"{ours:.3f} s", f"{theirs * 1e3:.1f} ms", ours, 5.0
    wrong = parse_module(after.replace(" tanh(", " sine(", 1))
    ours, theirs = race(lambda: _parted(modules["before"], wrong, arguments), run)
    yield "both compared, one opcode another", f"{ours:.3f} s", f"{theirs * 1e3:.1f} ms", ours, 10.0


def _same(modules: dict[str, Module], arguments: list[Array]) -> None:
    found = compare_runs(modules["before"], modules["after"], arguments)
    assert found.is_same, found.verdict


def _parted(old: Module, new: Module, arguments: list[Array]) -> None:
    found = compare_runs(old, new, arguments)
    assert found.first_difference is not None, found.verdict
