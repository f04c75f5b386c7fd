"""Random programs of JAX for asking real compilers where values are stored: `python memory_programs.py TARGET FOLDER SEED...`.

TARGET is `cpu`, `cpu8`, `h100`, `a100`, or a topology of TPUs such as `v5e:2x2`; each program is dumped to FOLDER/SEED.
Models with their optimizers, loops in branches in loops, donation, collectives of several operands, random numbers,
sorts and scatters: what makes copies, prefetches, and buffers that are shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

Step = Callable[[Any, list[Any], Random], Any]
AXIS = "x"
WIDTHS = (16, 64, 96, 128, 256, 384)
ROWS = (8, 32, 40, 64, 128)
GPUS = {"h100": "h100_sxm", "a100": "a100_sxm_80"}


def dense(x: Any, weights: list[Any], choose: Random) -> Any:
    return jnp.tanh(x @ weights[0] + weights[1][0, 0])


def attention(x: Any, weights: list[Any], choose: Random) -> Any:
    scores = jax.nn.softmax(x @ weights[0] @ x.T / 9)
    return scores @ x + lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * x


def scan(x: Any, weights: list[Any], choose: Random) -> Any:
    stacked = jnp.stack(weights[:2])
    inner = choose.random()

    def cell(carry: Any, w: Any) -> Any:
        h, n = carry
        h = step_of(Random(inner), 2)(h, [w, *weights], Random(inner))
        return (h, n + 1), h.sum(0)

    (y, n), each = lax.scan(cell, (x, jnp.int32(0)), stacked)
    return y + each.sum(0) * n


def loop(x: Any, weights: list[Any], choose: Random) -> Any:
    inner = choose.random()

    def body(i: Any, c: Any) -> Any:
        a, b = c
        a = step_of(Random(inner), 2)(a, weights, Random(inner))
        return (b.at[i % b.shape[0]].set(a[0] * i), a)

    a, b = lax.fori_loop(0, 7, body, (x, jnp.sin(x)))
    return a - b


def until(x: Any, weights: list[Any], choose: Random) -> Any:
    def body(c: Any) -> Any:
        n, v, key = c
        key, sub = jax.random.split(key)
        return n + 1, v * 0.9 + jax.random.normal(sub, v.shape), key

    return lax.while_loop(lambda c: (c[0] < 9) & (c[1].sum() < 1e3), body, (0, x, jax.random.key(3)))[1]


def branch(x: Any, weights: list[Any], choose: Random) -> Any:
    inner = [choose.random() for _ in range(choose.choice((2, 2, 3)))]
    sides = [lambda v, seed=seed: step_of(Random(seed), 2)(v, weights, Random(seed)) for seed in inner]
    return lax.switch(x[0, 0].astype(jnp.int32), sides, x)


def random_bits(x: Any, weights: list[Any], choose: Random) -> Any:
    key = jax.random.key(choose.randrange(9), impl=choose.choice(("threefry2x32", "rbg", "unsafe_rbg")))
    kind = choose.choice((jax.random.normal, jax.random.uniform))
    if choose.random() < 0.4:
        return x[jax.random.permutation(key, x.shape[0])]
    return jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x + kind(key, x.shape), 0)


def sort(x: Any, weights: list[Any], choose: Random) -> Any:
    match choose.randrange(4):
        case 0:
            return jnp.sort(x, choose.randrange(2))
        case 1:
            return jnp.take_along_axis(x, jnp.argsort(x, 1), 1)
        case 2:
            values, places = lax.top_k(x, 4)
            return x + (values * places).sum(1, keepdims=True)
        case _:
            return jnp.cumsum(x, 0) / jnp.cumprod(x, 1)


def scatter(x: Any, weights: list[Any], choose: Random) -> Any:
    places = jnp.argsort(x[:, 0])[: x.shape[0] // 2]
    if choose.randrange(2):
        return x.at[places].add(x[: places.shape[0]])
    return x.at[places, 3].set(0.5).at[:, places % x.shape[1]].max(1.0)


def update(x: Any, weights: list[Any], choose: Random) -> Any:
    place = x[1, 1].astype(jnp.int32)
    y = lax.dynamic_update_slice(x, x[:1] * 2, (place, 0))
    return jnp.concatenate([y[4:], lax.dynamic_slice(x, (place, 0), (4, x.shape[1]))])


def convolved(x: Any, weights: list[Any], choose: Random) -> Any:
    kernel = weights[0][:3, :3].reshape(1, 3, 1, 3)[..., :1]
    image = x[None, :, :, None]
    y = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(y[0, :, :, 0]) + lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")


def transposed(x: Any, weights: list[Any], choose: Random) -> Any:
    return (jnp.exp(x.T.reshape(x.shape)).astype(jnp.bfloat16) * 2).astype(x.dtype) + x.T.sum(1)[:, None].T


def spectrum(x: Any, weights: list[Any], choose: Random) -> Any:
    return jnp.abs(jnp.fft.fft(x)) + x


def exchanged(x: Any, weights: list[Any], choose: Random) -> Any:
    """Collectives of the devices, one of several operands each now and then."""
    size = lax.axis_size(AXIS)
    around = [(n, (n + 1) % size) for n in range(size)]
    match choose.randrange(6):
        case 0:
            return sum(lax.psum((x, jnp.sin(x)), AXIS))
        case 1:
            return lax.ppermute(x, AXIS, around) + x
        case 2:
            y, z = lax.ppermute((x * 2, x[0]), AXIS, around)
            return y + z
        case 3:
            return lax.all_gather(x, AXIS).mean(0) + lax.pmax(x[0], AXIS)
        case 4:
            return lax.psum_scatter(jnp.tile(x, (size, 1)), AXIS, tiled=True)
        case _:
            return lax.all_to_all(jnp.tile(x, (size, 1)), AXIS, 0, 0, tiled=True)[: x.shape[0]]


PLAIN: tuple[Step, ...] = (
    *(dense, dense, attention, random_bits, sort, scatter, update, convolved, transposed, spectrum),
)
DEEP: tuple[Step, ...] = (scan, loop, until, branch)


def step_of(choose: Random, depth: int, *, is_parallel: bool = False) -> Step:
    """A step that keeps the shape; loops and branches have simple ones inside."""
    return choose.choice(PLAIN + (DEEP * 2 if depth < 2 else ()) + ((exchanged,) * 8 if is_parallel else ()))


def program(
    seed: int, *, is_parallel: bool = False
) -> tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int, ...]]:
    """A program, the shapes of its arguments, and which of them are donated."""
    outer = Random(seed)
    width, rows = outer.choice(WIDTHS), outer.choice(ROWS)
    shapes = [(rows, width), *[(width, width)] * outer.choice((2, 2, 4)), ()]
    kind = outer.choice(("forward", "forward", "train", "momentum", "adam"))
    if kind != "forward":
        shapes += shapes[1:-1] * {"train": 0, "momentum": 1, "adam": 2}[kind]
    donated = tuple(n for n in range(1, len(shapes)) if outer.random() < 0.7) if outer.random() < 0.8 else ()
    steps = outer.choice((1, 2, 3, 5))

    def model(x: Any, weights: list[Any]) -> Any:
        choose = Random(seed)
        values = [x]
        for _ in range(steps):
            chosen = step_of(choose, 0, is_parallel=is_parallel)
            if kind != "forward" and chosen in (until, sort, spectrum):
                chosen = dense
            values.append(chosen(choose.choice(values[-2:]), weights, choose))
        return values

    def run(x: Any, *given: Any) -> Any:
        arrays, rate = [each for each in given if each.shape], next(each for each in given if not each.shape)
        count = len(arrays) // {"adam": 3, "momentum": 2}.get(kind, 1)
        weights, state = arrays[:count], arrays[count:]
        if kind == "forward":
            return (*model(x, weights)[-2:], weights[0] * rate, rate + 1)
        loss, grads = jax.value_and_grad(lambda w: (model(x, w)[-1] ** 2).mean())(weights)
        if kind == "train":
            return [w - rate * g for w, g in zip(weights, grads, strict=True)], loss, rate * 0.99
        first = [0.9 * m + g for m, g in zip(state, grads, strict=False)]
        if kind == "momentum":
            return [w - rate * m for w, m in zip(weights, first, strict=True)], first, loss, rate * 0.99
        second = [0.99 * v + g * g for v, g in zip(state[count:], grads, strict=True)]
        new = [w - rate * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second, strict=True)]
        return new, first, second, loss, rate * 0.99

    return run, shapes, donated


def devices_of(target: str) -> Sequence[Any]:
    """Devices to compile for; none of an accelerator needs to be there."""
    if target.startswith("cpu"):
        return list(jax.devices("cpu"))[: int(target[3:] or 1)]
    if target in GPUS:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fixtures"))
        from compiling import GPUS as TARGETS

        return list(
            topologies.get_topology_desc("1x1x8", "cuda", topology="1x1x8", target_config=TARGETS[target]).devices
        )
    bounds = {"chips_per_host_bounds": (1, 1, 1)} if target.endswith(":1x1") else {}
    return list(topologies.get_topology_desc(target, "tpu", **bounds).devices)


OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True},
    "gpu": {"xla_gpu_autotune_level": 0},
}


def compile_to(folder: Path, seed: int, target: str, devices: Sequence[Any]) -> None:
    """Compiles one program; every other one for all devices, with collectives, where there are several."""
    is_parallel = len(devices) > 1 and bool(seed % 2)
    run, shapes, donated = program(seed, is_parallel=is_parallel)
    where: Any = SingleDeviceSharding(devices[0])
    if is_parallel:
        mesh = Mesh(np.array(devices), (AXIS,))
        specs = tuple(PartitionSpec() for _ in shapes)
        run = jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
        where = NamedSharding(mesh, PartitionSpec())
    given = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=where) for shape in shapes]
    options = {"xla_dump_to": str(folder / str(seed)), "xla_dump_hlo_as_text": True, "xla_dump_hlo_as_proto": True}
    options |= OPTIONS["gpu"] if target in GPUS else OPTIONS.get(target[:3], {})
    try:
        jax.jit(run, donate_argnums=donated).trace(*given).lower().compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:  # code for GPUs needs ptxas, after buffers were assigned
        print(seed, str(error).partition("\n")[0][:200], file=sys.stderr)


def main(target: str, folder: str, *seeds: str) -> None:
    devices = devices_of(target)
    for seed in seeds:
        compile_to(Path(folder), int(seed), target, devices)


if __name__ == "__main__":
    main(*sys.argv[1:])
