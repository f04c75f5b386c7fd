"""Modules of one instruction of any opcode, of shapes that no dump has: without elements or bounds, tuples, tokens."""

from __future__ import annotations

from random import Random
from typing import Final

_SIZES: Final = ("0", "1", "2", "3", "7", "?", "?", "<=3", "<=5")
_TYPES: Final = ("f32", "f32", "pred", "s4", "u8", "bf16", "f64", "c64", "f8e4m3fn")
_ELEMENTWISE: Final = (
    *"abs add and atan2 cbrt ceil clz copy cosine divide exponential floor log maximum minimum multiply negate".split(),
    *"not or power remainder round-nearest-even rsqrt shift-left sign sine sqrt subtract tan tanh xor".split(),
)
_REST: Final = (
    "all-gather({0}), dimensions={{0}}",
    "all-reduce({0}), to_apply=f",
    "all-to-all({0}), dimensions={{0}}",
    "bitcast({0})",
    "bitcast-convert({0})",
    "broadcast({0}), dimensions={{0}}",
    "cholesky({0})",
    "clamp({0}, {1}, {2})",
    "collective-permute({0}), source_target_pairs={{{{0,1}}}}",
    "compare({0}, {1}), direction=EQ",
    "complex({0}, {1})",
    "concatenate({0}, {1}), dimensions={{0}}",
    "convert({0})",
    "dot({0}, {1}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
    "dynamic-slice({0}, {1}), dynamic_slice_sizes={{1,1}}",
    "dynamic-update-slice({0}, {1}, {2})",
    "fft({0}), fft_type=FFT, fft_length={{{n}}}",
    "fft({0}), fft_type=FFT, fft_length={{{n},{m}}}",
    (
        "gather({0}, {1}), offset_dims={{0}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, "
        "slice_sizes={{1,1}}"
    ),
    "get-dimension-size({0}), dimensions={{0}}",
    "iota(), iota_dimension=0",
    "map({0}, {1}), dimensions={{0}}, to_apply=f",
    "pad({0}, {1}), padding=0_1",
    "real({0})",
    "reduce({0}, {1}), dimensions={{0}}, to_apply=f",
    "reduce-precision({0}), exponent_bits=5, mantissa_bits=10",
    "reduce-scatter({0}), dimensions={{0}}, to_apply=f",
    "reduce-window({0}, {1}), window={{size=2}}, to_apply=f",
    "reshape({0})",
    "reverse({0}), dimensions={{0}}",
    "rng({0}, {1}), distribution=rng_uniform",
    (
        "scatter({0}, {1}, {2}), update_window_dims={{0}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, "
        "index_vector_dim=1, to_apply=f"
    ),
    "select({0}, {1}, {2})",
    "select-and-scatter({0}, {1}, {2}), window={{size=2}}, select=g, scatter=f",
    "set-dimension-size({0}, {1}), dimensions={{0}}",
    "slice({0}), slice={{[0:1]}}",
    "sort({0}), dimensions={{0}}, to_apply=g",
    "topk({0}), k=1, largest=true",
    "transpose({0}), dimensions={{0,1}}",
    "triangular-solve({0}, {1}), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE",
    "tuple({0}, {1})",
    "optimization-barrier({0})",
    "add-dependency({0}, {1})",
    'domain({0}), domain={{kind="sharding", entry={{replicated}}, exit={{replicated}}}}',
)
_RANKED: Final = ("cholesky", "dot", "fft", "triangular-solve")
"""Opcodes of which XLA looks at dimensions that a scalar or a tuple does not have, past the end of its memory."""
_APPLIED: Final = """
f { fa = f32[] parameter(0) fb = f32[] parameter(1) ROOT fc = f32[] add(fa, fb) }
g { ga = f32[] parameter(0) gb = f32[] parameter(1) ROOT gc = pred[] compare(ga, gb), direction=LT }
"""


def odd_text(random: Random) -> str:
    """A module whose one instruction has odd shapes; the analysis of costs takes also what no verifier would."""
    if random.random() < 0.5:
        opcode = random.choice(_ELEMENTWISE)
        unary = opcode not in "add and atan2 divide maximum minimum multiply or power remainder subtract xor".split()
        unary = unary and opcode != "shift-left"
        called = f"{opcode}({{0}})" if unary else f"{opcode}({{0}}, {{1}})"
    else:
        called = random.choice(_REST)
    least = 1 if called.startswith(_RANKED) else 0
    same = random.random() < 0.5
    shapes = [_shape(random, least)] * 4 if same else [_shape(random, least) for _ in range(4)]
    n, m = (random.choice((0, 0, 1, 2, 3, 8)) for _ in range(2))
    names = [f"p{at}" for at in range(3) if f"{{{at}}}" in called]
    lines = [f"  {name} = {shape} parameter({at})" for at, (name, shape) in enumerate(zip(names, shapes, strict=False))]
    instruction = called.format(*names, n=n, m=m)
    return "\n".join(("HloModule m", _APPLIED, "ENTRY e {", *lines, f"  ROOT r = {shapes[-1]} {instruction}", "}"))


def _shape(random: Random, least: int = 0, depth: int = 0) -> str:
    kind = random.random()
    if kind < 0.08 and depth < 2 and not least:
        return f"({', '.join(_shape(random, 0, depth + 1) for _ in range(random.randrange(3)))})"
    if kind < 0.12 and not least:
        return "token[]"
    rank = max(random.choice((0, 1, 2, 2, 3)), least)
    array = f"{random.choice(_TYPES)}[{','.join(random.choice(_SIZES) for _ in range(rank))}]"
    return f"b({array})" if kind > 0.94 else array
