"""Parallel programs of small sizes on eight simulated CPU devices: `python blamed_programs.py [NAME…]`.

Prints a JSON object: for each program its text before and after optimization, and those around the partitioner.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sharded_programs import array, mesh_of

if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

Program = tuple[Callable[..., Any], Sequence[Any]]
"""A function, and its arguments as shapes with shardings."""


def product(kind: str) -> Program:
    """A product that jaxlib 0.10.2 computes wrongly on a mesh of three axes: rows end up on other devices."""
    import jax

    mesh = mesh_of(jax.devices(), {"x": 2, "y": 2, "z": 2})

    def pinned(value: Any, *spec: Any) -> Any:
        return jax.lax.with_sharding_constraint(value, array(mesh, (1, 1), *spec).sharding)

    def run(a: Any, b: Any) -> Any:
        found = pinned(a @ b, ("x", "z"), "y")
        match kind:
            case "sum":
                return found, found.sum(0)
            case "transposed":
                return found, pinned(found.T, "z", ("y", "x"))
        return found

    return run, [array(mesh, (32, 48), "x", "y"), array(mesh, (48, 64), "y", "z")]


def ring_attention() -> Program:
    """Keys and values travel around a ring of eight, and softmax is put together on the way."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    mesh = mesh_of(jax.devices(), {"ring": 8})
    pairs = [(at, (at + 1) % 8) for at in range(8)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        def turn(_: Any, state: Any) -> Any:
            k, v, top, total, found = state
            scores = jnp.einsum("hqd,hkd->hqk", q, k) * 0.25
            new_top = jnp.maximum(top, scores.max(-1))
            weights, shrink = jnp.exp(scores - new_top[..., None]), jnp.exp(top - new_top)
            total = total * shrink + weights.sum(-1)
            found = found * shrink[..., None] + jnp.einsum("hqk,hkd->hqd", weights, v)
            return jax.lax.ppermute(k, "ring", pairs), jax.lax.ppermute(v, "ring", pairs), new_top, total, found

        start = (k, v, q[..., 0] * 0 - 1e30, q[..., 0] * 0, q * 0)
        *_, total, found = jax.lax.fori_loop(0, 8, turn, start)
        return found / total[..., None]

    spec = P(None, "ring", None)
    run = jax.shard_map(attend, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
    return run, [array(mesh, (2, 32, 16), *spec)] * 3


def step(data: tuple[Any, ...], up: tuple[Any, ...], down: tuple[Any, ...], axes: Mapping[str, int]) -> Program:
    """A training step of three layers in a scan: what is divided makes it data or tensor parallel, or fully sharded."""
    import jax
    import jax.numpy as jnp

    mesh = mesh_of(jax.devices(), axes)

    def layer(x: Any, weights: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        scaled = (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        return x + jax.nn.gelu(scaled @ weights[0], approximate=False) @ weights[1], None

    def loss(weights: Any, x: Any, target: Any) -> Any:
        logits = jax.nn.log_softmax(jax.lax.scan(layer, x, weights)[0])
        return -jnp.take_along_axis(logits, target[:, None], 1).mean()

    def run(weights: Any, x: Any, target: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x, target)
        kept = [jax.lax.with_sharding_constraint(each, like.sharding) for each, like in zip(slopes, given, strict=True)]
        return value, tuple(w - 0.1 * g for w, g in zip(weights, kept, strict=True))

    given = (array(mesh, (3, 16, 32), *up), array(mesh, (3, 32, 16), *down))
    target = jax.ShapeDtypeStruct((32,), "int32", sharding=array(mesh, (32,), *data[:1]).sharding)
    return run, [given, array(mesh, (32, 16), *data), target]


def experts() -> Program:
    """Tokens go to the expert of a router, with a capacity, and come back: two all-to-alls in each direction."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    mesh = mesh_of(jax.devices(), {"data": 2, "expert": 4})

    def layer(x: Any, router: Any, up: Any, down: Any) -> Any:
        chances = jax.nn.softmax(x @ router)
        chosen = jax.nn.one_hot(chances.argmax(-1), 4)
        place = jnp.cumsum(chosen, 0) * chosen
        sent = chosen[..., None] * jax.nn.one_hot(place.sum(-1) - 1, 4)[:, None]
        there = jax.lax.all_to_all(jnp.einsum("tec,td->ecd", sent, x), "expert", 0, 1, tiled=True)
        done = jnp.tanh(there.reshape(-1, 16) @ up[0]) @ down[0]
        back = jax.lax.all_to_all(done.reshape(there.shape), "expert", 1, 0, tiled=True)
        found = jnp.einsum("tec,ecd->td", sent, back) * chances.max(-1, keepdims=True)
        return found, jax.lax.psum((found**2).sum(), ("data", "expert"))

    spec, own = P(("data", "expert"), None), P("expert", None, None)
    run = jax.shard_map(layer, mesh=mesh, in_specs=(spec, P(), own, own), out_specs=(spec, P()))
    weights = array(mesh, (4, 16, 32), *own), array(mesh, (4, 32, 16), *own)
    return run, [array(mesh, (64, 16), *spec), array(mesh, (16, 4)), *weights]


def pipeline() -> Program:
    """Four stages pass four microbatches on in a scan, twice side by side; the last stage sends nothing."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    mesh = mesh_of(jax.devices(), {"stage": 4, "data": 2})

    def stages(weights: Any, x: Any) -> Any:
        at = jax.lax.axis_index("stage")

        def turn(state: Any, number: Any) -> Any:
            given = jnp.where(at == 0, x[jnp.minimum(number, 3)], state)
            made = jnp.tanh(given @ weights[0])
            return jax.lax.ppermute(made, "stage", [(n, n + 1) for n in range(3)]), made

        start = jax.lax.pcast(x[0] * 0, ("stage",), to="varying")
        _, found = jax.lax.scan(turn, start, jnp.arange(7))
        return jax.lax.psum(jnp.where(at == 3, found[3:], 0), "stage")

    run = jax.shard_map(
        stages, mesh=mesh, in_specs=(P("stage", None, None), P(None, "data", None)), out_specs=P(None, "data", None)
    )
    return run, [array(mesh, (4, 16, 16), "stage", None, None), array(mesh, (4, 8, 16), None, "data", None)]


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "product": partial(product, "plain"),
    "product_sum": partial(product, "sum"),
    "product_transposed": partial(product, "transposed"),
    "ring_attention": ring_attention,
    "data_parallel": partial(step, ("data", None), (), (), {"data": 8}),
    "fsdp": partial(step, ("fsdp", None), (None, "fsdp", None), (None, None, "fsdp"), {"fsdp": 8}),
    "tensor_parallel": partial(
        step, ("data", None), (None, None, "model"), (None, "model", None), {"data": 2, "model": 4}
    ),
    "experts": experts,
    "pipeline": pipeline,
}


def texts_of(program: Program) -> dict[str, str]:
    """The module before and after optimization, and before and after the partitioner."""
    import jax

    function, arguments = program
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": "spmd-partitioning"}
        jax.jit(function).lower(*arguments).compile(compiler_options=options)
        found = {}
        for path in sorted(Path(folder).glob("*.txt")):
            for key, end in (
                ("before", ".before_optimizations.txt"),
                ("after", "_after_optimizations.txt"),
                ("whole", "before_spmd-partitioning.txt"),
            ):
                if path.name.endswith(end):
                    found[key] = path.read_text()
            if ".after_spmd-partitioning" in path.name:
                found["parts"] = path.read_text()
        return found


if __name__ == "__main__":
    print(json.dumps({name: texts_of(PROGRAMS[name]()) for name in sys.argv[1:] or PROGRAMS}))
