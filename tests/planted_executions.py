"""Records a trace of one CPU device whose programs run in a known order, or whose first step is known to be slow.

python tests/planted_executions.py CASE DIR
"""

from __future__ import annotations

import os
import sys
import time
from typing import TypeAlias

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp

Array: TypeAlias = jax.Array
W = jnp.ones((256, 256))


@jax.jit
def prefill(x: Array) -> Array:
    return jax.lax.fori_loop(0, 30, lambda _, x: jnp.tanh(x @ W), x)


@jax.jit
def decode(x: Array) -> Array:
    return jnp.tanh(x @ W)


@jax.jit
def metrics(x: Array) -> Array:
    return jax.lax.fori_loop(0, 5, lambda _, x: jnp.sin(x @ W), x).sum()


def slow(x: Array) -> Array:
    time.sleep(0.2 if SLOW else 0.0)
    return x


@jax.jit
def step(x: Array) -> Array:
    x = jax.lax.fori_loop(0, 30, lambda _, x: jnp.tanh(x @ W), x)
    return jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


SLOW = False
STEPS = 8


def serve(prompts: int) -> None:
    x = jnp.ones((256, 256))
    for _ in range(prompts):
        prefill(x).block_until_ready()
        for _ in range(8):
            decode(x[:1]).block_until_ready()


def main(case: str, folder: str) -> None:
    global SLOW
    x = jnp.ones((256, 256))
    for each in (prefill, decode, metrics, step):
        each(x).block_until_ready()
    decode(x[:1]).block_until_ready()
    with jax.profiler.trace(folder):
        if case == "in_turn":
            serve(2)
        elif case == "beside":
            for _ in range(STEPS):
                prefill(x).block_until_ready()
                metrics(x).block_until_ready()
        else:
            for number in range(STEPS):
                SLOW = number == {"slow_first": 0, "slow_later": 3}.get(case)
                if case == "executions":
                    SLOW = number == 0
                    step(x).block_until_ready()
                    continue
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    step(x).block_until_ready()


if __name__ == "__main__":
    main(*sys.argv[1:])
