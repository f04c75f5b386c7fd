"""Compiles programs, each with changes that may lower its peak: `python peak_programs.py TOPOLOGY`, jobs on stdin.

TOPOLOGY is libtpu's name, or `cpu`. A job is `{"program", "dump", "donate", "formats", "results", "checkpoint", "host"}`:
names of arguments to donate, dimension orders of arguments and results by number, and whether to recompute. A line
comes back for each: what the compiler says of the memory, or why it refused.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import topologies
from jax.experimental.layout import Format, Layout

Program = tuple[Callable[..., Any], Mapping[str, Any]]


def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """An array that a program takes."""
    return jax.ShapeDtypeStruct(sizes, dtype)


is_recomputed = False
"""Whether bodies of scans are computed again for gradients, which a job decides."""


def recomputed(body: Callable[..., Any]) -> Callable[..., Any]:
    """A part of a program that a job may compute again."""
    return jax.checkpoint(body) if is_recomputed else body


def dense(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x


def sgd(params: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: ((dense(p, x) - y) ** 2).mean())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def momentum(params: Any, state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: ((dense(p, x) - y) ** 2).mean())(params)
    state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, state), state, loss


def adam(params: Any, opt: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: ((dense(p, x) - y) ** 2).mean())(params)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["m"], grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, opt["v"], grads)
    params = jax.tree.map(lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, {"m": m, "v": v, "step": opt["step"] + 1}, loss


def scanned(params: Any, x: Any, y: Any) -> Any:
    def loss(p: Any) -> Any:
        h, _ = lax.scan(recomputed(lambda c, w: (jnp.tanh(c @ w), None)), x, p["w"])
        return ((h - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def scanned_blocks(params: Any, x: Any, y: Any) -> Any:
    def block(h: Any, p: Any) -> Any:
        up = jax.nn.gelu(h @ p["up"])
        h = h + jnp.tanh(up @ p["down"])
        return h / jnp.sqrt((h * h).mean(-1, keepdims=True) + 1e-6), None

    def loss(p: Any) -> Any:
        return ((lax.scan(recomputed(block), x, p)[0] - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def scanned_cell(params: Any, xs: Any, state: Any) -> Any:
    """A recurrent cell with two carries, and outputs that are stacked."""

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, o = (jax.nn.sigmoid(x @ params_here[0][n] + h @ params_here[0][n]) for n in "ifo")
        c = f * c + i * jnp.tanh(x)
        return (o * jnp.tanh(c), c), o

    params_here = [params]

    def loss(p: Any) -> Any:
        params_here[0] = p
        (h, c), outputs = lax.scan(recomputed(cell), state, xs)
        return (h * c).mean() + outputs.mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def cache(kv: Any, key: Any, query: Any, place: Any) -> Any:
    kv = lax.dynamic_update_slice(kv, key[:, None], (0, place, 0))
    return kv, jax.nn.softmax(jnp.einsum("bth,bh->bt", kv, query))


def iterate(state: Any, other: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, s: jnp.sin(s @ other) + i, state)


def swap(a: Any, b: Any) -> Any:
    return b * 2, a * 3


def reread(a: Any, b: Any) -> Any:
    grown = a + b
    return grown, (a @ grown).sum(), jnp.sort(a @ b, 0)


def embed(table: Any, places: Any, rows: Any) -> Any:
    return table.at[places].add(rows), table[places].sum()


def turned(w: Any, x: Any) -> Any:
    """Products along the minor dimension of one operand and the major one of the other."""
    return jnp.einsum("ij,kj->ik", x, w), jnp.einsum("ji,jk->ik", x, w[: x.shape[0]])


def convolved(images: Any, kernels: Any, scores: Any) -> Any:
    """Convolutions with odd small sizes, and a sort."""
    for kernel in kernels:
        images = jax.nn.relu(
            lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        )
    ranked = jnp.sort(images.reshape(images.shape[0], -1), -1)
    return images, ranked[:, : scores.shape[1]] + scores


def convolved_first(images: Any, kernels: Any) -> Any:
    for kernel in kernels:
        images = jax.nn.relu(
            lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        )
    return images, jnp.sort(images, 1)


def transposed(x: Any) -> Any:
    return jnp.transpose(x, (2, 0, 1)) @ jnp.ones((x.shape[1], 8)), x.sum()


def narrow(rows: Any, weights: Any) -> Any:
    """A matrix of few columns, which tiles fill up, and one of its transpose."""
    return jnp.sort(rows, 0), (rows.T @ weights).sum(0), jnp.cumsum(rows, 0)


def passed(a: Any, b: Any) -> Any:
    return a, a @ b


def mixed(params: Any, x: Any) -> Any:
    """A step in bf16 that keeps a copy in f32."""

    def loss(p: Any) -> Any:
        return (dense(jax.tree.map(lambda w: w.astype(jnp.bfloat16), p), x.astype(jnp.bfloat16)) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g.astype(jnp.float32), params, grads), value


def layers(count: int, width: int, *, dtype: Any = jnp.float32) -> Any:
    """The parameters of some equal layers."""
    return [{"w": shape(width, width, dtype=dtype), "b": shape(width, dtype=dtype)} for _ in range(count)]


def looked_up(table: Any, places: Any, weights: Any) -> Any:
    return jnp.tanh(table[places] @ weights).sum(0)


def convolved_once(images: Any, kernel: Any) -> Any:
    found = lax.conv_general_dilated(images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(found)


def convolved_and_sorted(images: Any, kernels: Any) -> Any:
    for kernel in kernels:
        images = jax.nn.relu(
            lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        )
    return jnp.sort(images, 1)


def sorted_rows(rows: Any) -> Any:
    return jnp.sort(rows, 0), jnp.sort(rows, 1)


def scaled(x: Any, w: Any) -> Any:
    return jnp.einsum("bij,jk->kbi", x, w), jnp.cumsum(x, 1)


def pooled(images: Any) -> Any:
    return lax.reduce_window(images, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


def attention(params: Any, x: Any, y: Any) -> Any:
    def block(p: Any, h: Any) -> Any:
        with jax.named_scope("attention"):
            q, k, v = (h @ p[name] for name in "qkv")
            weights = jax.nn.softmax(jnp.einsum("bth,bsh->bts", q, k))
            h = h + weights @ v
        with jax.named_scope("mlp"):
            return h + jax.nn.gelu(h @ p["up"]) @ p["down"]

    def loss(p: Any) -> Any:
        h = x
        for n, each in enumerate(p):
            with jax.named_scope(f"layers/{n}"):
                h = block(each, h)
        return ((h - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def blocks(count: int, width: int) -> Any:
    """The parameters of some blocks of attention."""
    square = {name: shape(width, width) for name in "qkv"}
    return [{**square, "up": shape(width, 4 * width), "down": shape(4 * width, width)} for _ in range(count)]


def random_program(seed: int) -> Program:
    """A program that updates some of its arguments, reads others again, and returns a few values."""
    chosen = random.Random(seed)
    sizes = [chosen.choice((24, 96, 130, 256, 520)) for _ in range(2)]
    given = {name: shape(*chosen.choice((sizes, sizes, sizes[::-1], [sizes[0], sizes[0]]))) for name in "abcd"}

    def run(a: Any, b: Any, c: Any, d: Any) -> Any:
        pick = random.Random(seed)
        values = [a, b, c, d]
        for _ in range(pick.randint(3, 9)):
            first, second = pick.choice(values), pick.choice(values[-4:])
            kind = pick.randrange(8)
            if kind == 0:
                values.append(jnp.tanh(first) * 0.5)
            elif kind == 1 and first.shape == second.shape:
                values.append(first + second * 0.1)
            elif kind == 2 and first.shape[1] == second.shape[0]:
                values.append(first @ second)
            elif kind == 3:
                values.append(first.at[1].set(jnp.sin(first[0])))
            elif kind == 4:
                values.append(lax.fori_loop(0, 3, lambda i, v: jnp.cos(v) + i, first))
            elif kind == 5:
                values.append(jnp.sort(first, 0))
            elif kind == 6:
                values.append(first.T)
            else:
                values.append(jax.nn.softmax(first) - first.mean())
        return tuple(pick.choice(values[4:] or values) for _ in range(3))

    return run, given


def large_program(seed: int) -> Program:
    """One or two operations on an array of odd sizes that is too large for on-chip memory, and wants some order."""
    chosen = random.Random(seed)
    kind = chosen.choice((jnp.float32, jnp.float32, jnp.bfloat16, jnp.int32))
    sizes = (
        chosen.choice((48, 96, 200)),
        chosen.choice((113, 225, 300)),
        chosen.choice((113, 250)),
        chosen.randint(3, 40),
    )

    def run(x: Any, kernel: Any) -> Any:
        pick = random.Random(seed)
        values = [x]
        for _ in range(pick.randint(1, 2)):
            given, axis = values[-1], pick.randrange(4)
            values.append(
                pick.choice(
                    (
                        lambda v, a: jnp.cumsum(v, a),
                        lambda v, a: jnp.sort(v, a),
                        lambda v, a: jnp.moveaxis(v, a, 0) + 1,
                        lambda v, a: v.reshape(v.shape[0] * v.shape[1], -1) * 2,
                        lambda v, a: jnp.flip(v, a) + v,
                        lambda v, a: _convolve(v, kernel),
                        lambda v, a: _convolve(v, kernel),
                        lambda v, a: v[jnp.arange(0, v.shape[0], 2)] + 1,
                    )
                )(given, min(axis, given.ndim - 1))
            )
        return values[-1] if pick.random() < 0.5 else (values[-1], values[0].sum())

    return run, {"x": shape(*sizes, dtype=kind), "kernel": shape(3, 3, sizes[3], 5, dtype=kind)}


def _convolve(images: Any, kernel: Any) -> Any:
    if images.ndim != 4 or images.shape[3] != kernel.shape[2] or images.dtype == jnp.int32:
        return images * 2
    return lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


F = shape
PROGRAMS: Mapping[str, Program] = {
    "sgd": (sgd, {"params": layers(4, 512), "x": F(256, 512), "y": F(256, 512)}),
    "momentum": (momentum, {"params": layers(3, 512), "state": layers(3, 512), "x": F(64, 512), "y": F(64, 512)}),
    "adam": (
        adam,
        {
            "params": layers(3, 384),
            "opt": {"m": layers(3, 384), "v": layers(3, 384), "step": F(dtype=jnp.int32)},
            "x": F(128, 384),
            "y": F(128, 384),
        },
    ),
    "scanned": (scanned, {"params": {"w": F(6, 256, 256)}, "x": F(512, 256), "y": F(512, 256)}),
    "scanned_blocks": (
        scanned_blocks,
        {
            "params": {"up": F(16, 128, 512), "down": F(16, 512, 128)},
            "x": F(512, 128),
            "y": F(512, 128),
        },
    ),
    "scanned_large": (
        scanned_blocks,
        {"params": {"up": F(16, 512, 2048), "down": F(16, 2048, 512)}, "x": F(8192, 512), "y": F(8192, 512)},
    ),
    "scanned_cell": (
        scanned_cell,
        {"params": {n: F(64, 64) for n in "ifo"}, "xs": F(40, 256, 64), "state": (F(256, 64), F(256, 64))},
    ),
    "cache": (cache, {"kv": F(8, 1024, 256), "key": F(8, 256), "query": F(8, 256), "place": F(dtype=jnp.int32)}),
    "iterate": (iterate, {"state": F(700, 512), "other": F(512, 512)}),
    "swap": (swap, {"a": F(1000, 300), "b": F(1000, 300)}),
    "reread": (reread, {"a": F(640, 640), "b": F(640, 640)}),
    "embed": (embed, {"table": F(20000, 64), "places": F(256, dtype=jnp.int32), "rows": F(256, 64)}),
    "turned": (turned, {"w": F(2048, 512), "x": F(1024, 512)}),
    "convolved": (
        convolved,
        {"images": F(8, 57, 57, 3), "kernels": [F(3, 3, 3, 13), F(5, 5, 13, 7)], "scores": F(8, 999)},
    ),
    "convolved_first": (convolved_first, {"images": F(8, 5, 61, 61), "kernels": [F(11, 5, 3, 3), F(3, 11, 7, 7)]}),
    "transposed": (transposed, {"x": F(300, 70, 50)}),
    "narrow": (narrow, {"rows": F(20000, 12), "weights": F(20000, 7)}),
    "passed": (passed, {"a": F(900, 900), "b": F(900, 900)}),
    "mixed": (mixed, {"params": layers(4, 512), "x": F(512, 512)}),
    "looked_up": (looked_up, {"table": F(600_000, 64), "places": F(4096, dtype=jnp.int32), "weights": F(64, 128)}),
    "convolved_once": (
        convolved_once,
        {"images": F(256, 225, 225, 3, dtype=jnp.bfloat16), "kernel": F(7, 7, 3, 24, dtype=jnp.bfloat16)},
    ),
    "convolved_and_sorted": (
        convolved_and_sorted,
        {"images": F(48, 113, 113, 5), "kernels": [F(3, 3, 5, 13), F(5, 5, 13, 7)]},
    ),
    "sorted_rows": (sorted_rows, {"rows": F(300_000, 40)}),
    "scaled": (scaled, {"x": F(300, 700, 130), "w": F(130, 50)}),
    "pooled": (pooled, {"images": F(64, 225, 225, 3)}),
    "attention": (attention, {"params": blocks(3, 128), "x": F(4, 256, 128), "y": F(4, 256, 128)}),
}  # fmt: skip


def program(name: str) -> Program:
    """A program of the list, or a random one by its seed: `7`, or `large7`."""
    if name.startswith("large"):
        return large_program(int(name[5:]))
    return PROGRAMS[name] if name in PROGRAMS else random_program(int(name))


def with_shardings(given: Mapping[str, Any], devices: Any, job: Mapping[str, Any]) -> Any:
    """The arguments on one device, and the formats of those whose dimension order the job names."""
    place = jax.sharding.SingleDeviceSharding(devices[0])
    leaves, tree = jax.tree.flatten(tuple(given.values()))
    orders = {int(number): order for number, order in job.get("formats", {}).items()}
    return jax.tree.unflatten(tree, [formatted(place, orders.get(n)) for n in range(len(leaves))])


def formatted(place: Any, order: Any) -> Any:
    """A sharding, with a dimension order, most minor first, if there is one."""
    return place if order is None else Format(Layout(tuple(reversed(order))), place)


def compile_job(job: Mapping[str, Any], devices: Any) -> dict[str, Any]:
    """Compile one job; what comes back is what the compiler says of the memory."""
    run, given = program(job["program"])
    globals()["is_recomputed"] = bool(job.get("checkpoint"))
    jax.clear_caches()
    shardings = with_shardings(given, devices, job)
    out: Any = None
    if job.get("results"):
        place = jax.sharding.SingleDeviceSharding(devices[0])
        leaves, tree = jax.tree.flatten(jax.eval_shape(run, *given.values()))
        orders = {int(number): order for number, order in job["results"].items()}
        out = jax.tree.unflatten(tree, [formatted(place, orders.get(n)) for n in range(len(leaves))])
    jitted = jax.jit(
        run,
        in_shardings=shardings,
        out_shardings=out,
        donate_argnames=tuple(job.get("donate", ())),
        keep_unused=True,
    )
    options = {"xla_dump_to": job["dump"], "xla_dump_hlo_as_text": True}
    compiled = jitted.lower(*given.values()).compile(compiler_options=options)
    stats = compiled.memory_analysis()
    return {name: getattr(stats, name) for name in dir(stats) if name.endswith("_in_bytes")}


def main(topology: str) -> None:
    if topology == "cpu":
        devices = jax.devices("cpu")
    else:
        bounds = {"chips_per_host_bounds": (2, 2, 1)} if topology.startswith("v5e") else {}
        devices = topologies.get_topology_desc(topology, "tpu", **bounds).devices
    for job in json.load(sys.stdin):
        try:
            said = compile_job(job, devices)
        except Exception as error:  # noqa: BLE001 — a refusal is an answer
            said = {"refused": repr(error)[:300]}
        print("JOB", json.dumps({**job, **said}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
