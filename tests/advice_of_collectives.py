"""Edits that let devices exchange less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, shard_map
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from advice_programs import Program, Target, edit

ROWS, COLUMNS, WHOLE = P("d", None), P(None, "d"), P()
RING = [(i, (i + 1) % 4) for i in range(4)]
gather = partial(lax.all_gather, axis_name="d", tiled=True)


def spread(
    target: Target,
    function: Callable[..., Any],
    given: Sequence[Any],
    specs: tuple[Any, Any],
    sizes: Sequence[int] = (4,),
    **more: Any,
) -> Program:
    """A function of the parts on each of the devices."""
    mesh = target.mesh(*sizes, names=("d", "one")[: len(sizes)])
    mapped = shard_map(function, mesh=mesh, in_specs=(specs[0],) * len(given), out_specs=specs[1], check_vma=False)
    arrays = [target.array(*shape, dtype=dtype, spec=specs[0], mesh=mesh) for shape, dtype in given]
    return Program(mapped, arrays, **more)


BIG = ((4096, 1024), "float32")


@edit("HLO501", "cpu", "tpu", "gpu")
def all_to_all(target: Target) -> tuple[Program, Program]:
    def gathered(x: Any) -> Any:
        return jnp.tanh(lax.dynamic_slice(gather(x), (0, lax.axis_index("d") * 256), (4096, 256)))

    def exchanged(x: Any) -> Any:
        return jnp.tanh(lax.all_to_all(x, "d", 1, 0, tiled=True))

    return spread(target, gathered, [BIG], (ROWS, COLUMNS)), spread(target, exchanged, [BIG], (ROWS, COLUMNS))


@edit("HLO502", "cpu", "tpu", "gpu")
def reduce_scatter(target: Target) -> tuple[Program, Program]:
    def reduced(x: Any) -> Any:
        return jnp.tanh(lax.dynamic_slice(lax.psum(x, "d"), (lax.axis_index("d") * 256, 0), (256, 1024)))

    def scattered(x: Any) -> Any:
        return jnp.tanh(lax.psum_scatter(x, "d", tiled=True))

    return spread(target, reduced, [BIG], (ROWS, ROWS)), spread(target, scattered, [BIG], (ROWS, ROWS))


@edit("HLO503", "cpu", "tpu", "gpu")
def one_permute(target: Target) -> tuple[Program, Program]:
    def twice(x: Any) -> Any:
        return lax.ppermute(lax.ppermute(x, "d", RING), "d", RING)

    def once(x: Any) -> Any:
        return lax.ppermute(x, "d", [(i, (i + 2) % 4) for i in range(4)])

    return spread(target, twice, [BIG], (ROWS, ROWS)), spread(target, once, [BIG], (ROWS, ROWS))


@edit("HLO509", "cpu", "tpu")
def one_sharding(target: Target) -> tuple[Program, Program]:
    """An elementwise operation in another sharding than its operand and its result, and in the same."""
    mesh = target.mesh(4)
    x = target.array(4096, 1024, spec=ROWS, mesh=mesh)

    def constrained(x: Any, spec: P) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    return (
        Program(lambda x: constrained(jnp.tanh(constrained(jnp.sin(x), COLUMNS)), ROWS), (x,)),
        Program(lambda x: constrained(jnp.tanh(jnp.sin(x)), ROWS), (x,)),
    )


@edit("HLO505", "cpu", "tpu", "gpu")
def before_the_loop(target: Target) -> tuple[Program, Program]:
    def loop(w: Any, *, hoisted: bool) -> Any:
        before = gather(w)
        step = lambda c, _: (jnp.tanh(c @ (before if hoisted else gather(w))[:1024]), None)  # noqa: E731
        return lax.scan(step, jnp.ones((1024, 1024)), None, length=10)[0]

    options = {"cpu": {"xla_disable_hlo_passes": "while-loop-invariant-code-motion"}}.get(target.name, {})
    return (
        spread(target, partial(loop, hoisted=False), [BIG], (ROWS, WHOLE), options=options),
        spread(target, partial(loop, hoisted=True), [BIG], (ROWS, WHOLE), options=options),
    )


@edit("HLO506", "cpu", "tpu", "gpu")
def no_collective(target: Target) -> tuple[Program, Program]:
    specs, given, sizes = (P("d", "one"), P("d", "one")), [((1024, 1024), "float32")], (4, 1)
    return (
        spread(target, lambda x: jnp.sin(lax.psum(x, "one")), given, specs, sizes),
        spread(target, jnp.sin, given, specs, sizes),
    )


@edit("HLO507", "tpu", "gpu")
def gathered_narrow(target: Target) -> tuple[Program, Program]:
    given = [((4096, 1024), "bfloat16")]
    return (
        spread(target, lambda x: jnp.sin(gather(x.astype(jnp.float32))), given, (ROWS, WHOLE)),
        spread(target, lambda x: jnp.sin(gather(x).astype(jnp.float32)), given, (ROWS, WHOLE)),
    )


@edit("HLO508", "cpu", "tpu", "gpu")
def combined(target: Target) -> tuple[Program, Program]:
    given = [((8, 256), "float32")] * 6
    return (
        spread(target, lambda *xs: [jnp.sin(gather(jnp.tanh(x))) for x in xs], given, (ROWS, WHOLE)),
        spread(target, lambda *xs: jnp.sin(gather(jnp.concatenate([jnp.tanh(x) for x in xs]))), given, (ROWS, WHOLE)),
    )


@edit("HLO504", "cpu", "tpu", "gpu")
def sharded(target: Target) -> tuple[Program, Program]:
    """Weights of 64 MiB on each of four devices."""
    mesh = target.mesh(4)
    x = target.array(64, 4096, spec=P("d", None), mesh=mesh)
    whole, part = (target.array(4096, 4096, spec=spec, mesh=mesh) for spec in (WHOLE, ROWS))
    return Program(lambda x, w: x @ w, (x, whole)), Program(lambda x, w: x @ w, (x, part))


@edit("HLO510", "cpu", "tpu", "gpu")
def sharded_further(target: Target) -> tuple[Program, Program]:
    """Weights that are divided along one of two axes, and along both."""
    mesh = target.mesh(2, 2, names=("d", "one"))
    x = target.array(64, 4096, spec=P("one", None), mesh=mesh)
    half, quarter = (target.array(4096, 4096, spec=spec, mesh=mesh) for spec in (P("d"), P("d", "one")))
    return Program(lambda x, w: x @ w, (x, half)), Program(lambda x, w: x @ w, (x, quarter))


@edit("HLO402 scheduled", "tpu")
def hidden(target: Target) -> tuple[Program, Program]:
    """A transfer that is independent of a product, without and with the scheduler that hides latency."""

    def both(x: Any, w: Any) -> Any:
        return lax.ppermute(x, "d", RING).sum(0, keepdims=True), jnp.tanh(w @ w.T) @ w

    given, specs = [((2048, 512), "float32")] * 2, (ROWS, (ROWS, ROWS))
    disabled = {"xla_tpu_enable_latency_hiding_scheduler": "false"}
    return spread(target, both, given, specs, options=disabled), spread(target, both, given, specs)


@edit("HLO402", "gpu")
def async_again(target: Target) -> tuple[Program, Program]:
    """Gradients of a data-parallel network."""
    mesh = target.mesh(4)
    weights = [target.array(2048, 2048, dtype=jnp.bfloat16, mesh=mesh) for _ in range(4)]
    x = target.array(1024, 2048, dtype=jnp.bfloat16, spec=ROWS, mesh=mesh)
    gradients = jax.grad(lambda ws, x: net(x, ws).astype(jnp.float32).sum())
    disabled = {"xla_gpu_disable_async_collectives": "ALLREDUCE"}
    return Program(gradients, (weights, x), options=disabled), Program(gradients, (weights, x))


@edit("HLO403 all-gather", "tpu")
def async_gather(target: Target) -> tuple[Program, Program]:
    return scheduled(target, {"xla_tpu_enable_async_collective_fusion": "false"}, {})


@edit("HLO403 all-reduce", "tpu")
def async_reduce(target: Target) -> tuple[Program, Program]:
    """A network with sharded weights next to an independent product."""
    mesh = target.mesh(4)
    y = target.array(1024, 1024, dtype=jnp.bfloat16, mesh=mesh)
    weights = [target.array(1024, 1024, dtype=y.dtype, spec=spec, mesh=mesh) for spec in (COLUMNS, ROWS)]
    options = {"xla_enable_async_all_reduce": "true", "xla_tpu_enable_async_collective_fusion_fuse_all_reduce": "true"}
    function = lambda y, ws: (net(y, ws), jnp.sin(y) @ y)  # noqa: E731
    return Program(function, (y, weights)), Program(function, (y, weights), options=options)


@edit("HLO501 constrained", "cpu", "tpu", "gpu")
def not_replicated(target: Target) -> tuple[Program, Program]:
    """An array that is sharded in another way, through full replication and directly."""
    mesh = target.mesh(4)
    x = target.array(4096, 1024, spec=ROWS, mesh=mesh)

    def constrained(x: Any, spec: P) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    return (
        Program(lambda x: constrained(constrained(jnp.tanh(x), WHOLE), COLUMNS), (x,)),
        Program(lambda x: constrained(jnp.tanh(x), COLUMNS), (x,)),
    )


def net(x: Any, weights: Sequence[Any]) -> Any:
    for each in weights:
        x = jnp.tanh(x @ each)
    return x


def scheduled(target: Target, before: dict[str, str], after: dict[str, str]) -> tuple[Program, Program]:
    """An all-gather that is independent of a product, with options before and after."""

    def both(x: Any, w: Any) -> Any:
        return jnp.tanh(gather(x)).sum() + jnp.tanh(jnp.tanh(w @ w.T) @ w)

    return (
        spread(target, both, [BIG, BIG], (ROWS, ROWS), options=before),
        spread(target, both, [BIG, BIG], (ROWS, ROWS), options=after),
    )
