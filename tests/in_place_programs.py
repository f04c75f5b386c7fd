"""Random programs that write into arrays again and again, as jaxlib compiles them for the CPU.

Slices and scattered elements are updated in loops and branches and outside, arguments donated or not, and what was
there before is read later; so that the compiled schedule is full of operations in place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from running import QUICKLY

_COMPILE = """
import json, random, sys
import jax, numpy
import jax.numpy as jnp
from jax import lax
from jaxlib import _hlo

SHAPES = ((24,), (6, 10), (4, 3, 5))
KINDS = (jnp.float32, jnp.int32, jnp.float32, jnp.bfloat16)

def some(rng, values, like=None):
    able = [v for v in values if like is None or v.shape == like.shape]
    return rng.choice(able)

def start(rng, values, size):
    numbers = [v for v in values if v.ndim == 1 and v.dtype == jnp.int32]
    if numbers and rng.random() < 0.4:
        return rng.choice(numbers)[rng.randrange(3)] % size
    return rng.randrange(size)

def step(rng, values, depth):
    x = some(rng, values)
    what = rng.randrange(15)
    if what < 4:  # update a slice, often from what is there
        sizes = tuple(rng.randrange(1, n + 1) for n in x.shape)
        starts = [start(rng, values, n) for n in x.shape]
        if rng.random() < 0.6:
            part = lax.dynamic_slice(x, starts if rng.random() < 0.7 else [0] * x.ndim, sizes)
            part = rng.choice((lambda p: -p, lambda p: p + 1, lambda p: jnp.flip(p, 0), jnp.abs))(part)
        else:
            part = lax.slice(some(rng, values, x), [0] * x.ndim, sizes).astype(x.dtype)
        return lax.dynamic_update_slice(x, part, starts)
    if what < 6:  # scatter
        rows = rng.randrange(1, 4)
        index = jnp.asarray([rng.randrange(x.shape[0]) for _ in range(rows)])
        update = some(rng, values, x)[:rows].astype(x.dtype)
        at = x.at[index]
        return rng.choice((lambda: at.set(update, mode="drop"), lambda: at.add(update), lambda: at.max(update)))()
    if what < 7:
        return x.at[rng.randrange(x.shape[0])].multiply(2)
    if what < 9:
        return x + some(rng, values, x).astype(x.dtype)
    if what < 10:
        return rng.choice((jnp.negative, jnp.abs, lambda v: jnp.flip(v, 0), lambda v: jnp.roll(v, 1), jnp.sign))(x)
    if what < 11:
        return jnp.sort(x, axis=0)
    if what < 12:
        return x.astype(rng.choice(KINDS))
    if depth > 1:
        return x * 2
    if what < 14:
        return loop(rng, values, depth)
    y = some(rng, values, x).astype(x.dtype)
    seeds = rng.random(), rng.random()
    def branch(seed):
        def run(pair):
            inner = random.Random(seed)
            found = list(pair)
            for _ in range(inner.randrange(1, 4)):
                found.append(step(inner, found, depth + 1))
            return some(inner, found, x).astype(x.dtype)
        return run
    return lax.cond(jnp.sum(x) > 0, branch(seeds[0]), branch(seeds[1]), (x, y))

def loop(rng, values, depth):
    carried = tuple(rng.choice(values) for _ in range(rng.randrange(1, 4)))
    seed, rounds = rng.random(), rng.randrange(5, 9)
    def body(i, given):
        inner = random.Random(seed)
        found = list(given) + ([] if inner.random() < 0.5 else [some(inner, values)])
        for _ in range(inner.randrange(1, 6)):
            found.append(step(inner, found, depth + 1))
        found.append(lax.dynamic_update_slice(found[0], found[0][:1] + 1, (i,) + (0,) * (found[0].ndim - 1)))
        return tuple(some(inner, found[-4:] + [old], old).astype(old.dtype) for old in given)
    return rng.choice(lax.fori_loop(0, rounds, body, carried))

def program(seed):
    rng = random.Random(seed)
    shapes = [rng.choice(SHAPES) for _ in range(rng.randrange(2, 4))]
    kinds = [rng.choice(KINDS) for _ in shapes]
    length = rng.randrange(8, 22)
    def run(*arguments):
        inner = random.Random(seed)
        values = list(arguments)
        for _ in range(length):
            values.append(step(inner, values, 0))
        used = inner.sample(values[len(arguments):], inner.randrange(2, 6))
        return (*used, *(used[0] * 1 for _ in range(inner.randrange(2))))
    donated = tuple(n for n in range(len(shapes)) if rng.random() < 0.4)
    given = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in zip(shapes, kinds)]
    return jax.jit(run, donate_argnums=donated, keep_unused=True).lower(*given)

import warnings
warnings.simplefilter("ignore")
options = _hlo.HloPrintOptions()
options.print_large_constants = True
found = []
for seed in json.load(sys.stdin):
    module = program(seed).compile().runtime_executable().hlo_modules()[0]
    found.append(module.to_string(options))
print(json.dumps(found))
"""


@cache
def in_place_programs(first: int, count: int) -> list[str]:
    """The scheduled texts of so many programs, by seed."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    asked = subprocess.run(
        [sys.executable, "-c", _COMPILE],
        input=json.dumps(list(range(first, first + count))),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": QUICKLY},
    )
    found: list[str] = json.loads(asked.stdout.splitlines()[-1])
    return found
