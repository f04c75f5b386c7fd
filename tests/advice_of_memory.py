"""Edits that free memory: donation, arguments and constants that nobody needs, smaller pieces."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from advice_programs import Program, Target, edit

SIDE = 1024


@edit("HLO202", "cpu")
def in_chunks(target: Target) -> tuple[Program, Program]:
    """All pairs, sorted; of each row only the largest is needed."""
    x = target.array(24000)
    whole = Program(lambda x: jnp.sort(x[:, None] * x[None], axis=1).max(axis=1), (x,))
    return whole, Program(lambda x: lax.map(lambda c: jnp.sort(x * c).max(), x, batch_size=256), (x,))


@edit("HLO201", "cpu", "tpu", "gpu")
@edit("HLO203", "cpu", "tpu", "gpu")
def donated(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE)
    return Program(lambda x: x * 2, (x,)), Program(lambda x: x * 2, (x,), {"donate_argnums": 0})


@edit("HLO204 updated", "cpu", "tpu", "gpu")
def updated_in_place(target: Target) -> tuple[Program, Program]:
    """An update of one row of an argument."""
    x = target.array(SIDE, SIDE)
    return Program(lambda x: x.at[0].set(1.0), (x,)), Program(lambda x: x.at[0].set(1.0), (x,), {"donate_argnums": 0})


@edit("HLO204 returned", "cpu", "tpu", "gpu")
def not_returned(target: Target) -> tuple[Program, Program]:
    """An argument that is returned as it is."""
    x = target.array(SIDE, SIDE)
    return Program(lambda x: (x, x.sum()), (x,)), Program(lambda x: x.sum(), (x,))


@edit("HLO203 step", "cpu", "tpu", "gpu")
def step_donated(target: Target) -> tuple[Program, Program]:
    """An update of weights and of their momenta, which one fusion makes."""
    x, m, g = (target.array(SIDE, SIDE) for _ in range(3))

    def step(x: Any, m: Any, g: Any) -> Any:
        m = 0.9 * m + g
        return x - 0.1 * m, m

    return Program(step, (x, m, g)), Program(step, (x, m, g), {"donate_argnums": (0, 1)})


@edit("HLO203 all", "cpu", "gpu")
def all_donated(target: Target) -> tuple[Program, Program]:
    """Results whose memory holds temporaries as long as no argument is donated."""
    w, x = [target.array(SIDE, SIDE)] * 3, target.array(SIDE, SIDE)

    def step(w: Any, x: Any) -> Any:
        gradients = jax.grad(lambda w: (jnp.tanh(jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]) @ w[2]) ** 2).sum())(w)
        return [a - 0.1 * b for a, b in zip(w, gradients, strict=True)]

    return Program(step, (w, x)), Program(step, (w, x), {"donate_argnums": 0})


@edit("HLO204 in a loop", "cpu", "gpu")
def looped_in_place(target: Target) -> tuple[Program, Program]:
    """Rows of an argument, updated in a loop."""
    x = target.array(SIDE, SIDE)
    function = lambda x: lax.fori_loop(0, 10, lambda i, c: c.at[i].set(c[i + 1] * 2), x)  # noqa: E731
    return Program(function, (x,)), Program(function, (x,), {"donate_argnums": 0})


@edit("HLO205 computed", "cpu", "tpu", "gpu")
def computed(target: Target) -> tuple[Program, Program]:
    """A table that can be computed."""
    x, table = target.array(512, 512), np.arange(512 * SIDE, dtype=np.float32).reshape(512, SIDE)
    there = lambda x: x @ jnp.arange(512 * SIDE, dtype=jnp.float32).reshape(512, SIDE)  # noqa: E731
    return Program(lambda x: x @ table, (x,)), Program(there, (x,))


@edit("HLO207", "tpu")
@edit("HLO208", "tpu")
def computed_late(target: Target) -> tuple[Program, Program]:
    """A product that is kept while something else fills the fast memory, and one that is computed where it is used."""
    s, large = target.array(2048, 2048), target.array(4096, 4096)

    def grown(s: Any, large: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, c: jnp.tanh(c @ c), large * jnp.sin(s @ s)[0, 0])

    def early(s: Any, large: Any) -> Any:
        kept, between = s @ s, grown(s, large)
        return between, jnp.sin(kept * between[0, 0])

    def late(s: Any, large: Any) -> Any:
        between = grown(s, large)
        return between, jnp.sin((s * between[0, 0]) @ s)

    return Program(early, (s, large)), Program(late, (s, large))


@edit("HLO209", "tpu")
def read_once(target: Target) -> tuple[Program, Program]:
    """A loop whose kernels may use most of the fast memory."""
    w, x = target.array(2048, 2048, dtype=jnp.bfloat16), target.array(65536, 2048, dtype=jnp.bfloat16)
    function = lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=16)[0]  # noqa: E731
    return Program(function, (w, x), options={"xla_tpu_scoped_vmem_limit_kib": "65536"}), Program(function, (w, x))


@edit("HLO205", "cpu", "tpu", "gpu")
def passed(target: Target) -> tuple[Program, Program]:
    """A table made with NumPy, closed over."""
    x, table = target.array(512, 512), np.random.default_rng(0).random((512, SIDE), np.float32)
    return Program(lambda x: x @ table, (x,)), Program(lambda x, t: x @ t, (x, target.array(512, SIDE)))


@edit("HLO206", "cpu", "tpu", "gpu")
def not_passed(target: Target) -> tuple[Program, Program]:
    x, y = target.array(512, SIDE), target.array(4)
    return Program(lambda x, y: y + 1, (x, y), {"keep_unused": True}), Program(lambda x, y: y + 1, (x, y))
