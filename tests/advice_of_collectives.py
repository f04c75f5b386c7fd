"""Edits that let devices exchange less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax, shard_map
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
