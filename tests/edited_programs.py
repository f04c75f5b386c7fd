"""Small JAX programs, each as it is and with one edit of its source: what an engineer changed between two dumps.

    python edited_programs.py PLATFORM FOLDER [KIND…]

writes the modules of each kind of edit (all without names) before and after optimizations to FOLDER/KIND/{old,new}.
PLATFORM is cpu, tpu, or gpu; nothing is run, and no accelerator is needed.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DEVICES: Final = 8
TARGETS: Final[dict[str, dict[str, Any]]] = {
    "cpu": {"xla_cpu_max_isa": "AVX2"},
    "gpu": {"xla_gpu_autotune_level": 0},
}

TRAIN = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

RATE, DECAY, KEEP = 0.01, 0.9, 0.9
LAYERS, HIDDEN, WIDE, BATCH = 3, 96, 200, 40
DTYPE = STATE = jnp.float32


def norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def block(w, x):
    h = norm(x, w["scale"])
    h = jnp.tanh(h @ w["up"])
    return x + h @ w["down"]


def loss(params, data):
    x = data["x"]
    for w in params["layers"]:
        x = block(w, x)
    logits = x @ params["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), data["label"][:, None], axis=1)
    return -chosen.mean()


def step(params, momentum, data):
    value, gradient = jax.value_and_grad(loss)(params, data)
    momentum = jax.tree.map(lambda m, g: (DECAY * m + g).astype(STATE), momentum, gradient)
    params = jax.tree.map(lambda p, m: p - RATE * m, params, momentum)
    return params, momentum, value


def shapes(place):
    def array(*sizes, dtype=DTYPE, spec=P()):
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=place(spec))

    layer = {"up": array(HIDDEN, WIDE), "down": array(WIDE, HIDDEN), "scale": array(HIDDEN)}
    params = {"layers": [layer] * LAYERS, "head": array(HIDDEN, 10)}
    momentum = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, STATE, sharding=p.sharding), params)
    data = {"x": array(BATCH, HIDDEN, spec=P("data")), "label": array(BATCH, dtype=jnp.int32, spec=P("data"))}
    return params, momentum, data


def main(place):
    return jax.jit(step).lower(*shapes(place))
"""

FORWARD = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def block(w1, w2, x):
    h = jnp.tanh(x @ w1)
    return x + h @ w2, x.sum()


def f(w1, w2, x):
    y, sums = lax.scan(lambda c, _: block(w1, w2, c), x, length=4)
    z = jax.nn.softmax(y)
    return y, sums, z


def main(place):
    array = lambda *sizes: jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=place(P()))
    return jax.jit(f).lower(array(96, 200), array(200, 96), array(40, 96))
"""

LOOKUP = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def attend(q, k, v):
    scores = jnp.einsum("bqd,bkd->bqk", q, k) * 0.125
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v)


def f(table, wq, wk, wv, ids, key):
    x = table[ids]
    mixed = attend(x @ wq, x @ wk, x @ wv)
    keep = jax.random.bernoulli(key, 0.9, mixed.shape)
    mixed = jnp.where(keep, mixed / 0.9, 0.0)
    pooled = mixed.max(axis=1)
    return pooled, jnp.cumsum(pooled, axis=0)


def main(place):
    array = lambda *sizes, dtype=jnp.float32: jax.ShapeDtypeStruct(sizes, dtype, sharding=place(P()))
    weights = [array(64, 64)] * 3
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.jit(f).lower(array(512, 64), *weights, array(8, 48, dtype=jnp.int32), key)
"""

IMAGES = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def f(image, kernel, point):
    x = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(x)
    x = lax.conv_general_dilated(x, point, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean(axis=(1, 2)), x


def main(place):
    array = lambda *sizes: jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=place(P()))
    return jax.jit(f).lower(array(4, 32, 32, 8), array(3, 3, 8, 16), array(1, 1, 16, 16))
"""

PARALLEL = """
import jax, jax.numpy as jnp
from functools import partial
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def local(w, x):
    h = jnp.sin(x @ w)
    g = x.T @ h
    total = lax.psum(g, "data")
    return w - 0.1 * total, lax.pmean(h.sum(), "data")


def main(place):
    mesh = place(P()).mesh
    mapped = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P()), check_vma=False)
    array = lambda *sizes, spec=P(): jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=place(spec))
    return jax.jit(mapped).lower(array(64, 128), array(128, 64, spec=P("data")))
"""

CALLS = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

TARGET = "blend_rows"


def f(a, b, n):
    shape = jax.ShapeDtypeStruct(a.shape, a.dtype)
    x = jax.ffi.ffi_call(TARGET, shape)(a, b, weight=1.5)
    x = lax.fori_loop(0, 5, lambda i, c: jnp.cos(c) * 0.5, x)
    y = lax.cond(n > 2, lambda t: t + 1.0, lambda t: t * 3.0, x)
    order = jnp.argsort(y[0])
    return y[:, order], y.at[3].set(1.0)


def main(place):
    array = lambda *sizes, dtype=jnp.float32: jax.ShapeDtypeStruct(sizes, dtype, sharding=place(P()))
    return jax.jit(f).lower(array(16, 32), array(16, 32), array(dtype=jnp.int32))
"""

BFLOAT = ('h @ w["up"]', '(h.astype(jnp.bfloat16) @ w["up"].astype(jnp.bfloat16)).astype(jnp.float32)')


@dataclass(frozen=True)
class Edit:
    """An edit of a program: texts that are replaced, and what the first sentence of a diff has to match.

    `first` is a regular expression for the dump before optimizations, and for others unless `after` has one for the
    platform; None in `after` means that this compiler does not show the edit, or refuses it.
    """

    program: str
    changes: tuple[tuple[str, str], ...]
    first: str
    after: dict[str, str | None] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def edit(program: str, *changes: str, first: str, after: dict[str, str | None] | None = None, **options: Any) -> Edit:
    """An edit from texts and replacements by turns."""
    return Edit(program, tuple(zip(changes[::2], changes[1::2], strict=True)), first, after or {}, options)


RETURN = "return params, momentum, value"
EDITS: dict[str, Edit] = {
    # arguments and results
    "result_added": edit(FORWARD, "return y, sums, z", "return y, sums, z, y.max(axis=0)", first="result 3 added: f32"),
    "result_removed": edit(FORWARD, "return y, sums, z", "return y, z", first="result 1 removed: f32"),
    "result_transposed": edit(FORWARD, "return y, sums, z", "return y.T, sums, z", first="result 0 transposed"),
    "result_reshaped": edit(
        FORWARD, "return y, sums, z", "return y, sums, z.reshape(8, 5, 96)", first="result 2 reshaped"
    ),
    "result_type": edit(
        FORWARD, "return y, sums, z", "return y, sums, z.astype(jnp.bfloat16)", first="result 2 .*f32 → bf16"
    ),
    "results_swapped": edit(FORWARD, "return y, sums, z", "return z, sums, y", first="results reordered"),
    "result_sliced": edit(
        FORWARD, "return y, sums, z", "return y, sums, z[:8]", first=r"result 2 .*f32\[40,96\] → f32\[8,96\]"
    ),
    "argument_added": edit(
        FORWARD,
        "f(w1, w2, x)",
        "f(w1, w2, x, b)",
        "jax.nn.softmax(y)",
        "jax.nn.softmax(y + b)",
        "array(40, 96))",
        "array(40, 96), array(96))",
        first="argument added: b f32",
    ),
    "argument_removed": edit(
        FORWARD,
        "f(w1, w2, x)",
        "f(w1, x)",
        "w2, c)",
        "w1, c)",
        "h @ w2",
        "h @ w2.T",
        "array(200, 96), ",
        "",
        first="argument removed: w2 f32",
    ),
    "argument_renamed": edit(
        FORWARD,
        "def f(w1, w2, x)",
        "def f(w1, out, x)",
        "block(w1, w2, c)",
        "block(w1, out, c)",
        first="argument renamed: w2 → out",
    ),
    "arguments_swapped": edit(
        FORWARD,
        "f(w1, w2, x)",
        "f(x, w1, w2)",
        "lower(array(96, 200), array(200, 96), array(40, 96))",
        "lower(array(40, 96), array(96, 200), array(200, 96))",
        first="arguments reordered: ",
    ),
    "argument_donated": edit(FORWARD, "jax.jit(f)", "jax.jit(f, donate_argnums=2)", first="1 argument donated: x"),
    "argument_layout": edit(
        FORWARD,
        "jax.jit(f)",
        "jax.jit(f, in_shardings=(None, Format(Layout((1, 0)), place(P())), None))",
        "from jax import lax",
        "from jax import lax\nfrom jax.experimental.layout import Format, Layout",
        after={"tpu": None},
        first=r"argument 1 .*layout \{1,0\} → \{0,1\}",
    ),
    "result_layout": edit(
        FORWARD,
        "jax.jit(f)",
        "jax.jit(f, out_shardings=(None, None, Format(Layout((1, 0)), place(P()))))",
        "from jax import lax",
        "from jax import lax\nfrom jax.experimental.layout import Format, Layout",
        first=r"result 2 .*layout \{1,0\} → \{0,1\}",
    ),
    # element types and precision
    "dot_bf16": edit(
        FORWARD,
        "x @ w1",
        "(x.astype(jnp.bfloat16) @ w1.astype(jnp.bfloat16)).astype(jnp.float32)",
        first=r"(dot|convolution) .*f32 → bf16",
    ),
    "dot_bf16_accumulated": edit(
        FORWARD,
        "x @ w1",
        "jnp.dot(x.astype(jnp.bfloat16), w1.astype(jnp.bfloat16), preferred_element_type=jnp.float32)",
        first=r"(dot|convolution) .*f32 → bf16",
    ),
    "training_dot_bf16": edit(TRAIN, *BFLOAT, first="(dot|convolution)s?.* f32 → bf16"),
    "dtype": edit(TRAIN, "DTYPE = STATE = jnp.float32", "DTYPE = STATE = jnp.bfloat16", first="f32 → bf16 in "),
    "state_dtype": edit(
        TRAIN,
        "DTYPE = STATE = jnp.float32",
        "DTYPE, STATE = jnp.float32, jnp.bfloat16",
        first=r"f32 → bf16 in .*momentum",
    ),
    "precision": edit(FORWARD, "x @ w1", "jnp.dot(x, w1, precision='highest')", first="operand_precision .*highest"),
    "algorithm": edit(
        FORWARD,
        "x @ w1",
        "jnp.dot(x, w1, precision=lax.DotAlgorithmPreset.BF16_BF16_F32_X3)",
        first="algorithm .*dot_bf16_bf16_f32_x3",
        after={"tpu": "operand_precision none → .high,high", "gpu": "operations changed"},
    ),
    # the model
    "activation": edit(TRAIN, "jnp.tanh(h", "jax.nn.gelu(h", first="multiply"),
    "activation_once": edit(FORWARD, "jnp.tanh(x @ w1)", "jnp.sin(x @ w1)", first="tanh (→|became) sine"),
    "layer_added": edit(
        TRAIN, "LAYERS, HIDDEN, WIDE, BATCH = 3,", "LAYERS, HIDDEN, WIDE, BATCH = 4,", first=r"one layer added: "
    ),
    "hidden": edit(TRAIN, "3, 96, 200, 40", "3, 128, 200, 40", first="hidden size 96 → 128 in "),
    "wide": edit(TRAIN, "3, 96, 200, 40", "3, 96, 256, 40", first="(hidden size|dimension) 200 → 256 in "),
    "batch": edit(TRAIN, "3, 96, 200, 40", "3, 96, 200, 64", first="batch size 40 → 64 in "),
    "rate": edit(TRAIN, "RATE, DECAY, KEEP = 0.01", "RATE, DECAY, KEEP = 0.02", first="constant.* 0.01 → 0.02"),
    "epsilon": edit(TRAIN, "1e-5", "1e-6", first="constant.* (1e-05|0.00001|9.99999975e-06) → (1e-06|9.99999997e-07)"),
    "remat": edit(TRAIN, "x = block(w, x)", "x = jax.checkpoint(block)(w, x)", first="rematerialization added"),
    "scanned": edit(
        TRAIN,
        'for w in params["layers"]:\n        x = block(w, x)',
        "w = jax.tree.map(lambda *a: jnp.stack(a), *params['layers'])\n    x, _ = lax.scan(lambda c, w: (block(w, c), None), x, w)",
        first="loops? of 3 iterations added",
    ),
    "unrolled": edit(FORWARD, "length=4)", "length=4, unroll=True)", first="loop of 4 iterations removed"),
    "trips": edit(FORWARD, "length=4)", "length=6)", first="loop iterations 4 → 6"),
    "scale_removed": edit(TRAIN, " * scale", "", first="multiply|argument"),
    "extra_residual": edit(
        FORWARD, "return x + h @ w2", "return x + x + h @ w2", first="add.* added|operations changed: add 3 → 4"
    ),
    # attention, gather, random numbers
    "mask": edit(
        LOOKUP,
        "* 0.125",
        "* 0.125\n    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -1e9)",
        first="select.*added|added.*select",
    ),
    "dropout": edit(
        LOOKUP, "0.9, mixed.shape", "0.8, mixed.shape", "mixed / 0.9", "mixed / 0.8", first="constants? .*0.9.* → 0.8"
    ),
    "one_hot": edit(
        LOOKUP, "table[ids]", "jax.nn.one_hot(ids, 512) @ table", first="gather.* (became|→) .*(dot|convolution)"
    ),
    "axis": edit(LOOKUP, "mixed.max(axis=1)", "mixed.max(axis=2)", first=r"dimensions \{1\} → \{2\}"),
    "reducer": edit(LOOKUP, "mixed.max(axis=1)", "mixed.sum(axis=1)", first="maximum (→|became) add"),
    "scale": edit(LOOKUP, "* 0.125", "* 0.25", first="constant.* 0.125 → 0.25"),
    "sort_added": edit(LOOKUP, "return pooled,", "return jnp.sort(pooled, axis=0),", first="sort.*added|sorted"),
    "contraction": edit(
        LOOKUP,
        '"bqk,bkd->bqd"',
        '"bkq,bkd->bqd"',
        first=r"[lr]hs_contracting_dims \{2\} → \{1\}|dim_labels .* in|lhs_contracting_dims \{2\} → \{1\}",
    ),
    "vocabulary": edit(
        LOOKUP,
        "array(512, 64)",
        "array(640, 64)",
        first=r"dimension 512 → 640|argument 0 \(table\) shape f32\[512,64\] → f32\[640,64\]",
    ),
    "sequence": edit(LOOKUP, "array(8, 48,", "array(8, 64,", first="(sequence length|dimension) 48 → 64"),
    "random_key": edit(
        LOOKUP, "jax.random.bernoulli(key", "jax.random.bernoulli(jax.random.fold_in(key, 7)", first="added"
    ),
    # convolutions
    "stride": edit(
        IMAGES,
        'kernel, (1, 1), "SAME"',
        'kernel, (2, 2), "SAME"',
        first="window .*stride",
        after={"tpu": "dimensions? 32 → 16|result 1 shape"},
    ),
    "padding": edit(
        IMAGES,
        'kernel, (1, 1), "SAME"',
        'kernel, (1, 1), "VALID"',
        first="window .*pad",
        after={"tpu": "dimensions? 32 → 30|result 1 shape"},
    ),
    "dilation": edit(
        IMAGES,
        'kernel, (1, 1), "SAME", ',
        'kernel, (1, 1), "SAME", rhs_dilation=(2, 2), ',
        first="window .*rhs_dilate=2x2",
    ),
    "dim_labels": edit(
        IMAGES,
        'image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")',
        'image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "WHIO", "NHWC")',
        first="dim_labels b01f_01io->b01f → b10f_01io->b10f",
        after={"cpu": "transpose 0 → 2", "gpu": "transpose", "tpu": "window"},
    ),
    "groups": edit(
        IMAGES,
        'kernel, (1, 1), "SAME", ',
        'kernel, (1, 1), "SAME", feature_group_count=2, ',
        "array(3, 3, 8, 16)",
        "array(3, 3, 4, 16)",
        first="feature_group_count|dimension 8 → 4|argument .*kernel",
    ),
    "pool_window": edit(
        IMAGES,
        "(1, 2, 2, 1), (1, 2, 2, 1)",
        "(1, 4, 4, 1), (1, 4, 4, 1)",
        first="window .*1x2x2x1.* → .*1x4x4x1",
        after={"tpu": r"result 1 shape|constant 0.00390625 → 0.015625"},
    ),
    "mean_axes": edit(
        IMAGES,
        "x.mean(axis=(1, 2))",
        "x.mean(axis=(2, 3))",
        first=r"dimensions \{1,2\} → \{2,3\}|dimensions \{1\} → \{2\}|result 0",
    ),
    # parallel programs
    "reduce_scatter": edit(
        PARALLEL,
        'lax.psum(g, "data")',
        'lax.all_gather(lax.psum_scatter(g, "data", tiled=True) * 1.5, "data", tiled=True)',
        first="all-reduce ×.* became .*reduce-scatter",
        after={"tpu": "all-gather ×1 .* added"},
    ),
    "collective_added": edit(
        PARALLEL,
        "h.sum(), ",
        'lax.ppermute(h, "data", [(i, (i + 1) % 8) for i in range(8)]).sum(), ',
        first="collective-permute ×1.* added",
    ),
    "sharding": edit(
        TRAIN,
        'array(HIDDEN, WIDE), "down": array(WIDE, HIDDEN)',
        'array(HIDDEN, WIDE, spec=P(None, "data")), "down": array(WIDE, HIDDEN, spec=P("data", None))',
        first="shardings? changed",
    ),
    "devices": edit(PARALLEL, "mesh = place(P()).mesh", "mesh = place(P()).mesh", first="devices 8 → 4", devices=4),
    # calls, control flow, updates
    "call_target": edit(
        CALLS,
        'TARGET = "blend_rows"',
        'TARGET = "blend_columns"',
        first="custom_call_target .*blend_rows.* → .*blend_columns",
    ),
    "call_attribute": edit(CALLS, "weight=1.5", "weight=2.5", first="backend_config .*1.5.* → .*2.5"),
    "loop_body": edit(CALLS, "jnp.cos(c) * 0.5", "jnp.sin(c) * 0.5", first="cosine (→|became) sine"),
    "branch": edit(CALLS, "t + 1.0", "t - 1.0", first="add (→|became) subtract|constant.* 1 → -1"),
    "predicate": edit(CALLS, "n > 2", "n >= 2", first="direction GT → GE|constant.* 2 → 1"),
    "index": edit(CALLS, "y.at[3].set", "y.at[5].set", first=r"constant \{?3\}? → \{?5"),
    "update": edit(
        CALLS,
        "y.at[3].set",
        "y.at[3].add",
        first="add (f32.* added|3 → 4)",
        after={"tpu": r"instructions \(add .* became ", "gpu": ".*"},
    ),
    # what is no change of the program
    "lines": edit(FORWARD, "def block", "\n\n\ndef block", first="same program: only source lines moved"),
    "names": edit(
        FORWARD,
        "h = jnp.tanh(x @ w1)",
        "with jax.named_scope('up'): h = jnp.tanh(x @ w1)",
        first="same program: only op_names",
    ),
    "module_name": edit(
        FORWARD,
        "def f(",
        "def g(",
        "jax.jit(f)",
        "jax.jit(g)",
        first="same program: only op_names|same program: only the name",
    ),
    "flags": edit(
        TRAIN,
        "import jax,",
        "import jax,",
        first="same|no difference",
        after={"cpu": "operations changed"},
        options={
            "cpu": {"xla_cpu_use_fusion_emitters": False},
            "tpu": {"xla_tpu_rwb_fusion": False},
            "gpu": {"xla_disable_hlo_passes": "priority-fusion"},
        },
    ),
    # more of all kinds
    "argument_type": edit(
        FORWARD,
        "array(96, 200), array(200, 96)",
        "array(96, 200), jax.ShapeDtypeStruct((200, 96), jnp.bfloat16, sharding=place(P()))",
        first=r"argument 1 \(w2\) element type f32 → bf16",
        after={"tpu": r"f32 → bf16 in 2 shapes \(w2\)"},
    ),
    "one_result": edit(FORWARD, "return y, sums, z", "return z", first="2 results removed|results? .*removed"),
    "results_two_added": edit(
        FORWARD, "return y, sums, z", "return y, sums, z, y + 1.0, z * 2.0", first="2 results added"
    ),
    "scan_reversed": edit(
        FORWARD, "length=4)", "length=4, reverse=True)", first=r"subtract|operations|constant|result|(add|dynamic)"
    ),
    "where_swapped": edit(
        LOOKUP, "jnp.where(keep, mixed / 0.9, 0.0)", "jnp.where(keep, 0.0, mixed / 0.9)", first="operand"
    ),
    "cumsum_axis": edit(
        LOOKUP, "jnp.cumsum(pooled, axis=0)", "jnp.cumsum(pooled, axis=1)", first="window|dimensions|operations changed"
    ),
    "cumsum_product": edit(LOOKUP, "jnp.cumsum(pooled", "jnp.cumprod(pooled", first="add (→|became) multiply|constant"),
    "slice_added": edit(
        LOOKUP, "return pooled,", "return pooled[2:6],", first=r"result 0 shape f32\[8,64\] → f32\[4,64\]|slice"
    ),
    "exponent": edit(TRAIN, "(x - mean) ** 2", "jnp.abs(x - mean) ** 3", first="multiply|operations|abs"),
    "stop_gradient": edit(
        TRAIN, "return x + h @ w", "return lax.stop_gradient(x) + h @ w", first="removed|operations|instructions"
    ),
    "gradient_clipped": edit(
        TRAIN,
        "(DECAY * m + g)",
        "(DECAY * m + jnp.clip(g, -1.0, 1.0))",
        first="maximum|minimum|clip|clamp|operations",
    ),
    "bound": edit(CALLS, "lax.fori_loop(0, 5,", "lax.fori_loop(0, 7,", first="loop iterations 5 → 7|constant"),
    "argsort_reversed": edit(CALLS, "jnp.argsort(y[0])", "jnp.argsort(-y[0])", first="negate"),
}


def sources(kind: str) -> tuple[str, str]:
    """The source of the program before and after an edit."""
    one = EDITS[kind].program
    two = one
    for old, new in EDITS[kind].changes:
        assert old in two, (kind, old)
        two = two.replace(old, new)
    return one, two


def devices(platform: str, count: int) -> Any:
    import jax
    from jax.experimental import topologies

    if platform == "cpu":
        return jax.devices("cpu")[:count]
    if platform == "gpu":
        sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures"))
        return list(importlib.import_module("compiling").devices_of("gpu", f"h100:{DEVICES}"))[:count]
    return topologies.get_topology_desc("v5e:2x4", "tpu").devices[:count]


def compile_one(
    source: str, platform: str, folder: Path, options: dict[str, Any], count: int, *, parallel: bool
) -> None:
    """Writes the dumps of a program to a folder."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    mesh = Mesh(np.array(devices(platform, count if parallel else 1)), ("data",))
    given: dict[str, Any] = {}
    name = folder / "program.py"
    folder.mkdir(parents=True, exist_ok=True)
    name.write_text(source)
    exec(compile(source, str(name), "exec"), given)
    lowered = given["main"](lambda spec: NamedSharding(mesh, spec))
    more: dict[str, Any] = dict(TARGETS.get(platform, {}))
    raw = folder / "raw"
    try:
        lowered.compile(compiler_options={"xla_dump_to": str(raw), "xla_dump_hlo_as_text": True, **more, **options})
    finally:  # a custom call that nobody registered fails behind the last dump
        for stage in ("before", "after"):
            for each in raw.glob(f"*.jit_*{stage}_optimizations.txt"):
                (folder / f"{stage}.txt").write_text(each.read_text())
        shutil.rmtree(raw, ignore_errors=True)


def main(platform: str, folder: Path, kinds: list[str]) -> None:
    known: dict[tuple[str, int, bool, str], Path] = {}
    for kind in kinds or list(EDITS):
        each = EDITS[kind]
        parallel = each.program == PARALLEL or kind == "sharding"
        for side, source in zip(("old", "new"), sources(kind), strict=True):
            is_new = side == "new"
            options = each.options.get("options", {}).get(platform, {}) if is_new else {}
            count = each.options.get("devices", DEVICES) if is_new else DEVICES
            target, key = folder / kind / side, (source, count, parallel, str(options))
            if key in known:
                shutil.copytree(known[key], target, dirs_exist_ok=True)
                continue
            known[key] = target
            try:
                compile_one(source, platform, target, options, count, parallel=parallel)
            except Exception as error:  # noqa: BLE001 what one compiler refuses, another takes
                print(kind, side, repr(error)[:300], file=sys.stderr)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={DEVICES}")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
