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
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count={4 if sys.argv[1:2] and sys.argv[1].endswith('of_four') else 2}"
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

Array: TypeAlias = jax.Array
Step: TypeAlias = Callable[[Array, Array], Array]
COUNT = jax.device_count()
MESH = jax.make_mesh((COUNT,), ("x",))
GRID = jax.make_mesh((COUNT // 2, 2), ("y", "x"))
X, W, SMALL = jnp.ones((384, 384)), jnp.ones((384, 384)), jnp.ones(8)
STEPS = 8
took: list[float] = []


def sharded(body: Step, mesh: jax.sharding.Mesh = MESH) -> Step:
    found: Step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False))
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


def often(trips: int, x: Array, w: Array) -> Array:
    found: Array = jax.lax.fori_loop(0, trips, lambda _, x: jnp.tanh(x @ w), x)
    return found


@sharded
def late_second(x: Array, w: Array) -> Array:
    """Device 2 comes late to the second of two sums."""
    x = jax.lax.psum(often(2, x, w), "x")
    x = jax.lax.cond(jax.lax.axis_index("x") == 2, lambda x: often(40, x, w), lambda x: often(2, x, w), x)
    return jax.lax.psum(x * 2, "x")


def grouped(x: Array, w: Array) -> Array:
    """Device 3 comes late to the sum in its group of two; the other group sums without it."""
    is_late = (jax.lax.axis_index("y") == 1) & (jax.lax.axis_index("x") == 1)
    x = jax.lax.cond(is_late, lambda x: often(40, x, w), lambda x: often(2, x, w), x)
    return jax.lax.psum(x, "x")


late_in_group = sharded(grouped, GRID)


@sharded
def overlapping(x: Array, w: Array) -> Array:
    """A sum that the products do not need, so that both run at the same time."""
    total = jax.lax.psum(jnp.tile(x, (4, 1)), "x")
    return often(8, x, w) + total[:384] * 1e-9


LOCK = threading.Lock()
HELD = threading.Event()


def hold(seconds: float) -> None:
    with LOCK:
        HELD.set()
        time.sleep(seconds)


def wait_for_lock() -> None:
    HELD.clear()
    threading.Thread(target=hold, args=(0.02,)).start()
    HELD.wait()
    timed(LOCK.acquire)
    LOCK.release()


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


def put(number: int) -> Array:
    """Copies an array of 64 MB to the device."""
    host = np.full((40_000, 384), number, np.float32)[:, ::-1]  # not contiguous, so that it has to be copied
    found: list[Array] = []
    timed(lambda: found.append(jax.device_put(host).block_until_ready()))
    return found[0]


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
    elif cause == "transfer":  # in the step, of what the step needs
        x = jnp.asarray(put(number))[:384]
    elif cause == "lock":
        wait_for_lock()
    elif cause == "growing":
        x = jnp.ones((384 + 8 * number, 384))
    elif cause == "one_of_four":
        return late_second(x, W).block_until_ready()
    elif cause == "group_of_four":
        return late_in_group(x, W).block_until_ready()
    elif cause == "overlapped":
        timed(lambda: load_batch(0.03))
        return overlapping(x, W).block_until_ready()
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
