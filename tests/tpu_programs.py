"""Compiles random programs for a TPU ahead of time: `python tpu_programs.py TOPOLOGY SEED COUNT`, dumps in `SEED/`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import topologies

SIDE = 128


def loop(x: Any, y: Any) -> Any:
    return lax.fori_loop(0, 9, lambda i, c: c.at[i].set(jnp.sin(c[(i + 3) % SIDE] * i)), x + y)


def scan(x: Any, y: Any) -> Any:
    carry, each = lax.scan(lambda c, v: (jnp.tanh(c @ y + v), c.sum(0)), x, x[:5])
    return carry.at[:5].add(each)


def choice(x: Any, y: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda t: jnp.sort(t, 0) @ y, lambda t: jnp.cumsum(t, 1), x)


def scattered(x: Any, y: Any) -> Any:
    return x.at[jnp.argsort(y[0])[:40]].add(y[:40])


def largest(x: Any, y: Any) -> Any:
    values, places = lax.top_k(x, 16)
    return jnp.tile(values * places, (1, 8)).astype(jnp.bfloat16).astype(jnp.float32) + y


STEPS: tuple[Callable[[Any, Any], Any], ...] = (
    loop, scan, choice, scattered, largest, jnp.add, jnp.matmul, lambda x, y: jax.nn.softmax(x) * y.T,
)  # fmt: skip


def program(seed: int) -> Callable[..., Any]:
    """What applies some steps to arrays that are there by then, and returns a few of them."""

    def run(*given: Any) -> Any:
        chosen = random.Random(seed)
        values = list(given)
        for _ in range(chosen.randint(2, 7)):
            values.append(chosen.choice(STEPS)(chosen.choice(values), chosen.choice(values[-3:])))
        return values[-1], given[0] * 2, chosen.choice(values).astype(jnp.int8)

    return run


def main(topology: str, seed: int, count: int) -> None:
    devices = topologies.get_topology_desc(topology, "tpu").devices
    array = jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32, sharding=jax.sharding.SingleDeviceSharding(devices[0]))
    for each in range(seed, seed + count):
        lowered = jax.jit(program(each), donate_argnums=0).lower(array, array, array)
        lowered.compile(compiler_options={"xla_dump_to": str(each), "xla_dump_hlo_as_text": True})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
