"""Programs on eight devices whose traffic can be written out by hand: `python sharded_programs.py PLATFORM [NAME…]`.

Prints a JSON object: for each program its text before and after compilation. PLATFORM is cpu, gpu, or tpu, and the programs
are those of PROGRAMS, or axes:SEED for random collectives over random axes of a random mesh.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

Program = tuple[Callable[..., Any], Sequence[Any], Mapping[str, int]]
"""A function, its arguments as shapes with shardings, and the mesh."""

LAYERS = 6
KINDS = ("psum", "all_gather", "psum_scatter", "all_to_all", "ppermute")


def mesh_of(devices: Sequence[Any], axes: Mapping[str, int], seed: int | None = None) -> Any:
    """A mesh over the first devices, which are shuffled if there is a seed."""
    import numpy
    from jax.sharding import Mesh

    chosen = list(devices[: prod(axes.values())])
    if seed is not None:
        Random(seed).shuffle(chosen)
    return Mesh(numpy.array(chosen, dtype=object).reshape(tuple(axes.values())), tuple(axes))


def array(mesh: Any, sizes: Sequence[int], *spec: Any) -> Any:
    """An f32 array sharded over a mesh."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    return jax.ShapeDtypeStruct(tuple(sizes), "float32", sharding=NamedSharding(mesh, PartitionSpec(*spec)))


def tensor_parallel(devices: Sequence[Any]) -> Program:
    """Six layers in a loop; each sums the rows of x that a device holds, 256 × 256, over model."""
    import jax
    import jax.numpy as jnp

    axes = {"data": 2, "model": 4}
    mesh = mesh_of(devices, axes)
    pin = array(mesh, (512, 256), "data", None).sharding

    def run(x: Any, up: Any, down: Any) -> Any:
        def layer(x: Any, weights: Any) -> Any:
            y = jnp.tanh(x @ weights[0]) @ weights[1]
            return jax.lax.with_sharding_constraint(y, pin), None

        return jax.lax.scan(layer, x, (up, down))[0]

    up, down = (LAYERS, 256, 1024), (LAYERS, 1024, 256)
    arrays = [array(mesh, (512, 256), "data", None), array(mesh, up, None, None, "model")]
    return run, [*arrays, array(mesh, down, None, "model", None)], axes


def fsdp(devices: Sequence[Any], *, gradient: bool = False) -> Program:
    """Two weights of 256 × 1024 and 1024 × 256, each divided over eight devices that all need them whole."""
    import jax
    import jax.numpy as jnp

    axes = {"fsdp": 8}
    mesh = mesh_of(devices, axes)

    def loss(weights: Any, x: Any) -> Any:
        up, down = (jax.lax.with_sharding_constraint(w, array(mesh, (1, 1)).sharding) for w in weights)
        return (jnp.tanh(x @ up) @ down).sum()

    def forward(weights: Any, x: Any) -> Any:
        up, down = (jax.lax.with_sharding_constraint(w, array(mesh, (1, 1)).sharding) for w in weights)
        return jnp.tanh(x @ up) @ down

    weights = (array(mesh, (256, 1024), "fsdp", None), array(mesh, (1024, 256), "fsdp", None))
    x = array(mesh, (512, 256), "fsdp", None)
    if not gradient:
        return forward, [weights, x], axes

    def step(weights: Any, x: Any) -> Any:
        found = jax.grad(loss)(weights, x)
        return [jax.lax.with_sharding_constraint(g, w.sharding) for g, w in zip(found, weights_of, strict=True)]

    weights_of = weights
    return step, [weights, x], axes


def experts(devices: Sequence[Any]) -> Program:
    """Tokens travel to their experts and back: two all-to-alls of [4,64,256] over four devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    axes = {"data": 2, "expert": 4}
    mesh = mesh_of(devices, axes)

    def layer(x: Any, weights: Any) -> Any:
        there = jax.lax.all_to_all(x, "expert", 0, 0, tiled=True)
        done = jnp.tanh(there.reshape(-1, 256) @ weights[0]).reshape(4, 64, 256)
        return jax.lax.all_to_all(done, "expert", 0, 0, tiled=True)

    spec = P(("data", "expert"), None, None)
    run = jax.shard_map(layer, mesh=mesh, in_specs=(spec, P("expert", None, None)), out_specs=spec)
    return run, [array(mesh, (32, 64, 256), *spec), array(mesh, (4, 256, 256), "expert", None, None)], axes


def pipeline(devices: Sequence[Any], *, turns: int, is_ring: bool) -> Program:
    """128 KiB to the next of four stages, so many times; the last stage of a line sends nothing."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    axes = {"stage": 4, "data": 2}
    mesh = mesh_of(devices, axes)
    pairs = [(at, (at + 1) % 4) for at in range(4 if is_ring else 3)]

    def stages(x: Any) -> Any:
        for _ in range(turns):
            x = jnp.sin(jax.lax.ppermute(x, "stage", pairs))
        return x

    spec = P(("stage", "data"), None)
    return jax.shard_map(stages, mesh=mesh, in_specs=spec, out_specs=spec), [array(mesh, (1024, 256), *spec)], axes


PROGRAMS: Mapping[str, Callable[[Sequence[Any]], Program]] = {
    "tensor_parallel": tensor_parallel,
    "fsdp": fsdp,
    "fsdp_gradient": partial(fsdp, gradient=True),
    "experts": experts,
    "ring": partial(pipeline, turns=3, is_ring=True),
    "line": partial(pipeline, turns=1, is_ring=False),
}


def random_axes(seed: int) -> tuple[dict[str, int], list[tuple[str, tuple[str, ...]]]]:
    """A mesh of one to three axes, and collectives with the axes that each is over."""
    random = Random(seed)
    sizes = random.choice([(8,), (2, 4), (4, 2), (2, 2, 2), (4,), (2, 2), (1, 8), (2, 1, 4)])
    axes = dict(zip(("data", "fsdp", "model"), sizes, strict=False))
    steps = []
    for _ in range(5):
        kind = random.choice(KINDS)
        used = [name for name in axes if random.random() < 0.5] or [random.choice(list(axes))]
        steps.append((kind, tuple(used[:1] if kind == "ppermute" else used)))
    return axes, steps


def axes_program(devices: Sequence[Any], seed: int) -> Program:
    """Collectives of random kinds over random axes; the result of each goes through another function."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    axes, steps = random_axes(seed)
    mesh = mesh_of(devices, axes, seed if seed % 2 else None)

    def run(x: Any) -> Any:
        for at, (kind, used) in enumerate(steps):
            x = jnp.sin(x) * (at + 2)
            over = used[0] if len(used) == 1 else used
            match kind:
                case "psum":
                    x = jax.lax.psum(x, over)
                case "all_gather":
                    x = jax.lax.all_gather(x, over, tiled=True)[: x.shape[0]] + x
                case "psum_scatter":
                    part = jax.lax.psum_scatter(x, over, tiled=True)
                    x = jnp.concatenate([part] * (x.shape[0] // part.shape[0]))
                case "all_to_all":
                    x = jax.lax.all_to_all(x, over, 0, 0, tiled=True)
                case _:
                    size = axes[used[0]]
                    x = jax.lax.ppermute(x, over, [(n, (n + 1) % size) for n in range(size)])
        return x

    spec = P(tuple(axes), None)
    whole = jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return whole, [array(mesh, (64 * prod(axes.values()), 128), *spec)], axes


def devices_of(platform: str) -> Sequence[Any]:
    import jax

    if platform == "cpu":
        return list(jax.devices("cpu"))
    if platform == "gpu":
        return list(importlib.import_module("compiling").devices_of("gpu", "h100:8"))  # of fixtures/
    from jax.experimental import topologies

    return list(topologies.get_topology_desc("v5e:2x4", "tpu", chips_per_host_bounds=(2, 4, 1)).devices)


def texts_of(program: Program) -> dict[str, str]:
    import jax

    function, arguments, _ = program
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
        jax.jit(function).lower(*arguments).compile(compiler_options=options)
        found = {path.name.rsplit("_optimizations", 1)[0]: path for path in Path(folder).glob("*_optimizations.txt")}
        return {name.rsplit(".", 1)[-1].rsplit("_", 1)[-1]: path.read_text() for name, path in found.items()}


def main(platform: str, names: Sequence[str]) -> None:
    devices = devices_of(platform)
    found = {}
    for name in names or PROGRAMS:
        if name.startswith("axes:"):
            found[name] = texts_of(axes_program(devices, int(name.removeprefix("axes:"))))
        else:
            found[name] = texts_of(PROGRAMS[name](devices))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
