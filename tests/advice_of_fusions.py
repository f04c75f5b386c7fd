"""Edits that let kernels fuse."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from jax import lax

from advice_programs import Program, Target, edit

SIDE = 1024


@edit("HLO301", "cpu", "tpu", "gpu")
def no_barrier(target: Target) -> tuple[Program, Program]:
    """Two elementwise operations with a barrier in between."""
    x = target.array(SIDE, SIDE)
    return (
        Program(lambda x: lax.optimization_barrier(jnp.tanh(x)) * 2, (x,)),
        Program(lambda x: jnp.tanh(x) * 2, (x,)),
    )


@edit("HLO302", "tpu", "gpu")
def passed_narrow(target: Target) -> tuple[Program, Program]:
    """Weights in f32, multiplied in bf16 in a loop."""
    w, narrow = target.array(SIDE, SIDE), target.array(SIDE, SIDE, dtype=jnp.bfloat16)
    return (
        Program(lambda w, y: lax.fori_loop(0, 4, lambda i, c: c @ w.astype(jnp.bfloat16), y), (w, narrow)),
        Program(lambda w, y: lax.fori_loop(0, 4, lambda i, c: c @ w, y), (narrow, narrow)),
    )


@edit("HLO303", "gpu")
def not_upcast(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE, dtype=jnp.bfloat16)
    return (
        Program(lambda x: lax.rev(x.astype(jnp.float32)[::2], (0,)).astype(x.dtype), (x,)),
        Program(lambda x: lax.rev(x[::2], (0,)), (x,)),
    )


@edit("HLO304", "gpu")
def converted_at_once(target: Target) -> tuple[Program, Program]:
    """A product in f32 with a barrier before it is converted, or behind."""
    x = target.array(SIDE, SIDE, dtype=jnp.bfloat16)
    product = partial(lax.dot, preferred_element_type=jnp.float32)
    return (
        Program(lambda x, w: lax.optimization_barrier(product(x, w)).astype(x.dtype), (x, x)),
        Program(lambda x, w: lax.optimization_barrier(product(x, w).astype(x.dtype)), (x, x)),
    )


@edit("HLO305", "tpu", "gpu")
def broadcast_where_used(target: Target) -> tuple[Program, Program]:
    x, y = target.array(SIDE), target.array(SIDE, SIDE)
    return (
        Program(lambda x, y: lax.optimization_barrier(jnp.broadcast_to(x, y.shape)) * y, (x, y)),
        Program(lambda x, y: jnp.broadcast_to(x, y.shape) * y, (x, y)),
    )
