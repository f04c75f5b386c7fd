"""Records a trace of steps on two CPU devices whose time goes to a known cause.

python tests/planted_steps.py CAUSE DIR: prints, as JSON, the seconds that the cause took in each step by the clock of
Python, for causes on the host.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

Array: TypeAlias = jax.Array
Step: TypeAlias = Callable[[Array, Array], Array]
MESH = jax.make_mesh((2,), ("x",))
X, W, SMALL = jnp.ones((384, 384)), jnp.ones((384, 384)), jnp.ones(8)
STEPS = 8
took: list[float] = []


def sharded(body: Step) -> Step:
    found: Step = jax.jit(jax.shard_map(body, mesh=MESH, in_specs=(P(), P()), out_specs=P(), check_vma=False))
    return found


@jax.jit
def step(x: Array, w: Array) -> Array:
    for _ in range(2):
        x = jnp.tanh(x @ w)
    return x


def slow(a: Array) -> Array:
    started = time.perf_counter()
    time.sleep(0.02)
    took.append(time.perf_counter() - started)
    return a


@jax.jit
def with_callback(x: Array, w: Array) -> Array:
    return jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), jnp.tanh(x @ w))


@sharded
def straggling(x: Array, w: Array) -> Array:
    def many(x: Array) -> Array:
        return jax.lax.fori_loop(0, 30, lambda _, x: jnp.tanh(x @ w), x)

    x = jax.lax.cond(jax.lax.axis_index("x") == 1, many, lambda x: jnp.tanh(x @ w), x)
    return jax.lax.psum(x, "x")


@sharded
def reducing(x: Array, w: Array) -> Array:
    for _ in range(4):
        x = jax.lax.psum(jnp.tile(x, (16, 1)), "x")[:384] * w
    return x


def timed(work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    took.append(time.perf_counter() - started)


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def load_batch(seconds: float) -> None:
    with jax.profiler.TraceAnnotation("load batch"):
        time.sleep(seconds)


class Batches:
    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Array:
        time.sleep(0.015)
        return X


class Queue:
    """Batches that a thread puts there, too slowly."""

    def __init__(self) -> None:
        self.ready: queue.Queue[Array] = queue.Queue(1)

    def fill(self) -> None:
        for _ in range(STEPS + 2):
            time.sleep(0.02)
            self.ready.put(X)

    def get_batch(self) -> Array:
        return self.ready.get()


QUEUE = Queue()
JUNK: list[object] = []


def body(cause: str, number: int) -> object:
    x = X
    if cause == "loader":
        timed(lambda: load_batch(0.02))
    elif cause == "fast_loader":
        timed(lambda: load_batch(0.004))
    elif cause == "iterator":
        timed(lambda: next(iter(Batches())))
    elif cause == "recompile":
        x = jnp.ones((384 + 8 * (number == 3), 384))
    elif cause == "sleep":
        timed(lambda: time.sleep(0.02))
    elif cause == "python":
        timed(lambda: spin(0.02))
    elif cause == "annotated_host":
        with jax.profiler.TraceAnnotation("write metrics"):
            timed(lambda: spin(0.01))
    elif cause == "garbage":
        JUNK.append([[{} for _ in range(60)] for _ in range(1500)])
        timed(gc.collect)
    elif cause == "launches":
        small = SMALL
        for _ in range(300):
            small = small + 1.0
        return small.block_until_ready()
    elif cause == "copies":
        timed(lambda: jax.device_put(np.ones((2048, 2048), np.float32)).block_until_ready())
    elif cause == "slow_batch":
        load_batch(0.06 if number == 2 else 0.0)
    elif cause == "checkpoint" and number == 5:
        with jax.profiler.TraceAnnotation("save checkpoint"):
            timed(lambda: time.sleep(0.06))
    elif cause == "queue":
        timed(lambda: QUEUE.get_batch())
    elif cause == "callback":
        return with_callback(x, W).block_until_ready()
    elif cause == "straggler":
        return straggling(x, W).block_until_ready()
    elif cause == "reduce":
        return reducing(x, W).block_until_ready()
    return step(x, W).block_until_ready()


def main(cause: str, folder: str) -> None:
    if cause == "queue":
        threading.Thread(target=QUEUE.fill, daemon=True).start()
    for number in (0, 1):
        body(cause, number)
    took.clear()
    with jax.profiler.trace(folder):
        for number in range(STEPS):
            if cause == "between":  # annotations, but in no step
                timed(lambda: load_batch(0.01))
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                body(cause, number)
    print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])
