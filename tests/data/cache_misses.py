# mypy: ignore-errors
"""Functions that JAX traces again, for each reason that jax_explain_cache_misses gives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


@jax.jit
def step(params, batch):
    return jax.tree.map(lambda w: (batch @ w).sum(), params)


@partial(jax.jit, static_argnums=1)
def scaled(x, factor):
    return x * factor


@partial(jax.jit, static_argnames="mode")
def named(x, mode="a"):
    return x + len(mode)


@jax.jit
def plus(x, y):
    return x + y


@partial(jax.jit, donate_argnums=0)
def donated(x):
    return x + 1


jax.config.update("jax_explain_cache_misses", True)
jax.config.update("jax_log_compiles", True)
w = {"w": jnp.ones((8, 4))}
for n in (32, 33, 34, 35):
    step(w, np.ones((n, 8), np.float32))
step(w, np.ones((32, 8), np.int32))
step({"w": w["w"], "v": w["w"]}, np.ones((32, 8), np.float32))
step([w["w"]], np.ones((32, 8), np.float32))
for f in (2, 3, 4):
    scaled(np.ones(4, np.float32), f)
for m in ("a", "bb"):
    named(np.ones(4, np.float32), mode=m)
plus(np.float32(1), np.float32(2))
plus(np.float32(1), 2.0)
plus(np.float32(1), jnp.bfloat16(2))
for _ in range(3):
    jax.jit(lambda x: x * 2)(np.ones(4, np.float32))


def main(n):
    def inner(x):
        return x - 1

    return jax.jit(inner)(np.ones(4, np.float32))


main(0)
main(1)
with jax.default_matmul_precision("float32"):
    step(w, np.ones((32, 8), np.float32))
mesh = jax.make_mesh((2,), ("d",))
a = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, P("d")))
b = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, P(None, "d")))
plus(a, a)
plus(b, b)
donated(jnp.ones(4))
donated(jnp.ones(5))


def body(c, x):
    return c + x, c


jax.jit(lambda x: jax.lax.scan(body, x, jnp.ones(3)))(jnp.float32(0))
with jax.enable_x64(True):
    plus(np.float64(1), np.float64(2))
