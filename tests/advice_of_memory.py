"""Edits that free memory: donation, arguments and constants that nobody needs, smaller pieces."""

from __future__ import annotations

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


@edit("HLO205", "cpu", "tpu", "gpu")
def passed(target: Target) -> tuple[Program, Program]:
    """A table made with NumPy, closed over."""
    x, table = target.array(512, 512), np.random.default_rng(0).random((512, SIDE), np.float32)
    return Program(lambda x: x @ table, (x,)), Program(lambda x, t: x @ t, (x, target.array(512, SIDE)))


@edit("HLO206", "cpu", "tpu", "gpu")
def not_passed(target: Target) -> tuple[Program, Program]:
    x, y = target.array(512, SIDE), target.array(4)
    return Program(lambda x, y: y + 1, (x, y), {"keep_unused": True}), Program(lambda x, y: y + 1, (x, y))
