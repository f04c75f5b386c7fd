"""Random programs with several results from few values, which XLA:GPU computes in kernels with several results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gpu_programs import COMMON, SHAPES

BINARY: list[Any] = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum]
UNARY: list[Any] = [
    jnp.exp,
    jnp.tanh,
    jnp.sin,
    jnp.sqrt,
    jnp.log1p,
    jnp.abs,
    lax.rsqrt,
    jax.nn.sigmoid,
    lax.erf,
    jnp.floor,
]
REDUCTIONS: list[Any] = [jnp.sum, jnp.max, jnp.min, jnp.mean]


def statistics(seed: int) -> tuple[str, Callable[..., Any], list[tuple[tuple[int, ...], str]]]:
    """A random program with several results from few values, which XLA computes in kernels with several results."""
    outer = random.Random(seed)
    shape = outer.choice(SHAPES[:8])
    count = outer.randint(2, 6)

    def run(*given: Any) -> tuple[Any, ...]:
        choose = random.Random(seed)
        results: list[Any] = []
        values = [x.astype(jnp.float32) for x in given]
        values += [values[0] + values[1], values[0] - jnp.mean(values[0], axis=-1, keepdims=True)]
        values.append(choose.choice(UNARY)(choose.choice(values)))
        while len(results) < count:
            x = choose.choice(values)
            for _ in range(choose.randint(0, 2)):
                x = (
                    choose.choice(BINARY)(x, choose.choice(values))
                    if choose.random() < 0.4
                    else choose.choice(UNARY)(x)
                )
            if choose.random() < 0.6:
                x = choose.choice(REDUCTIONS)(x, axis=choose.choice([None, -1, 0]))
            elif choose.random() < 0.2:
                x = jnp.transpose(x)
            results.append(x)
        return tuple(results)

    return "statistics", run, [(shape, outer.choice(COMMON)), (shape, outer.choice(COMMON))]
