"""Programs on eight simulated CPU devices, run by JAX: their dumps, arguments, and results.

`devices_in_jax.py FOLDER NAME…`: writes NAME/ with the dump and NAME.npz with arguments a0 … and results r0 …, by
position.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FLAT = Mesh(np.array(jax.devices()), ("x",))
GRID = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
CUBE = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))

Case = tuple[Any, Any, Sequence[tuple[tuple[int, ...], str, Any]]]
"""A function, its mesh, and the shape, type, and spec of each argument."""


def mapped(function: Any, mesh: Mesh, specs: Any, out: Any) -> Any:
    """The function on each shard."""
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)


def _mlp(x: Any, up: Any, down: Any) -> Any:
    return jnp.tanh(x @ up) @ down


def _loss(x: Any, up: Any, down: Any) -> Any:
    return jnp.mean(_mlp(x, up, down) ** 2)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def _ring(x: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        total, moving = state
        moving = lax.ppermute(moving, "x", [(at, (at + 1) % 8) for at in range(8)])
        return total + moving * lax.axis_index("x"), moving

    return lax.fori_loop(0, 7, step, (x, x))[0]


def _pipeline(x: Any) -> Any:
    return lax.ppermute(x, "x", [(at, at + 1) for at in range(7)])


def _branch(x: Any) -> Any:
    total = lax.psum(x.sum(), "x")
    return lax.cond(total > 0, lambda y: lax.psum(y, "x"), lambda y: lax.pmax(y, "x"), x)


def _convolved(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda state, each: (jnp.tanh(state @ w + each), state.sum()), x[0], x)


F = "float32"
SPLIT = P("data", "model")
MLP = [((16, 32), F, P("data", None)), ((32, 64), F, P(None, "model")), ((64, 32), F, P("model", None))]
HEADS = [((4, 8, 16, 8), F, P("data", "model"))] * 3
CASES: dict[str, Case] = {
    "mlp": (_mlp, GRID, MLP),
    "all_reduce_of_axis": (
        mapped(lambda x: lax.psum(x, "model"), GRID, SPLIT, P("data", None)), GRID, [((8, 12), F, SPLIT)]
    ),
    "permute": (mapped(_pipeline, FLAT, P("x"), P("x")), FLAT, [((16, 3), F, P("x"))]),
    "gradient": (jax.grad(_loss, argnums=(0, 1, 2)), GRID, MLP),
    "attention": (_attention, GRID, HEADS),
    "ring": (mapped(_ring, FLAT, P("x"), P("x")), FLAT, [((16, 3), F, P("x"))]),
    "branch": (mapped(_branch, FLAT, P("x"), P("x")), FLAT, [((16, 3), F, P("x"))]),
    "all_gather": (
        mapped(lambda x: lax.all_gather(x, "model", axis=1, tiled=True), GRID, SPLIT, P("data", None)), GRID,
        [((8, 12), F, SPLIT)],
    ),
    "gathered_anew": (
        mapped(lambda x: lax.all_gather(x, "b"), CUBE, P("a", "b"), P(None, "a", None)), CUBE, [((8, 6), F, P("a", "b"))]
    ),
    "reduce_scatter": (
        mapped(lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), FLAT, P("x", None), P("x", None)),
        FLAT, [((8, 16), F, P("x", None))],
    ),
    "all_to_all": (
        mapped(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), FLAT, P("x", None), P(None, "x")), FLAT,
        [((16, 8), F, P("x", None))],
    ),
    "all_to_all_of_axis": (
        mapped(lambda x: lax.all_to_all(x, "b", 1, 0, tiled=True), CUBE, P("b", "a"), P(("b", "a"), None)), CUBE,
        [((8, 8), F, P("b", "a"))],
    ),
    "largest": (
        mapped(lambda x: (lax.pmax(x, ("a", "c")), lax.pmin(x, "b")), CUBE, P("a", "b"), P("a", "b")), CUBE,
        [((8, 6), F, P("a", "b"))],
    ),
    "mean_of_all": (mapped(lambda x: x - lax.pmean(x, "x"), FLAT, P("x"), P("x")), FLAT, [((24,), F, P("x"))]),
    "index": (
        mapped(lambda x: x * (1 + lax.axis_index("data") + 10 * lax.axis_index("model")), GRID, SPLIT, SPLIT), GRID,
        [((8, 12), F, SPLIT)],
    ),
    "integers": (mapped(lambda x: lax.psum(x, "x"), FLAT, P("x"), P()), FLAT, [((16, 3), "int32", P("x"))]),
    "bfloat16": (lambda x, y: x @ y, GRID, [((16, 32), "bfloat16", SPLIT), ((32, 8), "bfloat16", P("model", None))]),
    "contracted": (lambda x, y: x @ y, FLAT, [((8, 64), F, P(None, "x")), ((64, 8), F, P("x", None))]),
    "transposed": (lambda x: x.T + 1, GRID, [((8, 12), F, SPLIT)]),
    "sum_of_all": (lambda x: (x.sum(), x.max(0), x.mean(1)), GRID, [((8, 12), F, SPLIT)]),
    "normalized": (lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), GRID, [((8, 16), F, SPLIT)]),
    "softmax": (lambda x: jax.nn.softmax(x), FLAT, [((4, 64), F, P(None, "x"))]),
    "sorted": (lambda x: jnp.sort(x, axis=0), GRID, [((8, 12), F, SPLIT)]),
    "convolved": (_convolved, GRID, [((4, 8, 8, 4), F, P("data", "model")), ((3, 3, 4, 8), F, P())]),
    "cumulative": (lambda x: jnp.cumsum(x, axis=0), FLAT, [((16, 3), F, P("x"))]),
    "taken": (lambda x, at: x[at], FLAT, [((16, 5), F, P("x")), ((8,), "int32", P())]),
    "scattered": (lambda x, at, y: x.at[at].add(y), FLAT,
                  [((16, 5), F, P("x")), ((8,), "int32", P()), ((8, 5), F, P("x"))]),
    "scanned": (_scanned, GRID, [((5, 8, 16), F, P(None, "data", None)), ((16, 16), F, P(None, "model"))]),
    "rolled": (lambda x: jnp.roll(x, 3, 0), FLAT, [((16, 3), F, P("x"))]),
    "padded": (lambda x: jnp.pad(x, ((1, 2), (0, 0)))[::2], FLAT, [((16, 3), F, P("x"))]),
    "joined": (lambda x, y: jnp.concatenate([x, y]), FLAT, [((16, 3), F, P("x")), ((8, 3), F, P("x"))]),
    "place_of_largest": (lambda x: jnp.argmax(x, axis=0), FLAT, [((16, 3), F, P("x"))]),
}  # fmt: skip
"""The programs by name; those of the front are quick and differ most."""


def write(folder: Path, name: str) -> None:
    """Runs one program, and writes its dump and arrays."""
    function, mesh, inputs = CASES[name]
    random = np.random.default_rng(len(name))
    arguments = []
    for shape, kind, spec in inputs:
        held = random.integers(0, 9, shape) if kind == "int32" else random.standard_normal(shape)
        arguments.append(jax.device_put(jnp.asarray(held, kind), NamedSharding(mesh, spec)))
    options: dict[str, Any] = {"xla_dump_to": str(folder / name), "xla_dump_hlo_as_text": True}
    chosen = jax.jit(function).lower(*arguments).compile().output_shardings  # a dump states those that are asked for
    compiled = jax.jit(function, out_shardings=chosen).lower(*arguments).compile(compiler_options=options)
    results = jax.tree.leaves(compiled(*arguments))
    wide = {"r": results, "a": arguments}
    arrays: dict[str, Any] = {
        f"{key}{at}": np.asarray(each.astype(F) if each.dtype == jnp.bfloat16 else each)
        for key, several in wide.items()
        for at, each in enumerate(several)
    }
    np.savez(folder / f"{name}.npz", **arrays)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        write(Path(sys.argv[1]), each)
