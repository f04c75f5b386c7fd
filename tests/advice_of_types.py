"""Edits of types and precision, and of calls of the host."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from advice_programs import Program, Target, edit

SIDE = 256


def asked(c: Any) -> Any:
    """The same values, from a Python function."""
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(c.shape, c.dtype), c)


@edit("HLO601", "cpu")
def no_callback(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE)
    return Program(lambda x: jnp.sin(asked(x)), (x,)), Program(jnp.sin, (x,))


@edit("HLO602", "cpu")
def callback_after_loop(target: Target) -> tuple[Program, Program]:
    """A callback for each iteration, and one after the loop."""
    x = target.array(SIDE, SIDE)

    def once(x: Any) -> Any:
        return asked(lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=10)[1])

    def always(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(c), asked(c)), x, None, length=10)[1]

    return Program(always, (x,)), Program(once, (x,))


@edit("HLO701", "tpu")
def not_double_on_tpu(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE)
    factor = np.float64(0.1)
    return Program(lambda x: x * factor, (x,), x64=True), Program(lambda x: x * np.float32(factor), (x,), x64=True)


@edit("HLO702", "cpu", "gpu")
def not_double(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE)
    factor = np.float64(0.1)
    return Program(lambda x: x * factor, (x,), x64=True), Program(lambda x: x * np.float32(factor), (x,), x64=True)


@edit("HLO703", "cpu", "tpu", "gpu")
def summed_wide(target: Target) -> tuple[Program, Program]:
    x = target.array(1024, 1024, dtype=jnp.bfloat16)
    narrow = Program(lambda x: lax.reduce(x, jnp.array(0, jnp.bfloat16), lax.add, (1,)), (x,))
    return narrow, Program(lambda x: jnp.sum(x, axis=1, dtype=jnp.float32), (x,))


@edit("HLO704", "cpu", "tpu", "gpu")
def integer_results(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE, dtype=jnp.int8)
    return Program(lax.dot, (x, x)), Program(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), (x, x))


@edit("HLO705", "tpu")
def higher_precision(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE)
    return Program(lax.dot, (x, x)), Program(lambda a, b: lax.dot(a, b, precision="high"), (x, x))


@edit("HLO706", "cpu", "tpu", "gpu")
def default_precision(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, SIDE, dtype=jnp.bfloat16)
    return Program(lambda a, b: lax.dot(a, b, precision="highest"), (x, x)), Program(lax.dot, (x, x))


@edit("HLO707", "cpu", "tpu", "gpu")
def kept_wide(target: Target) -> tuple[Program, Program]:
    x = target.array(SIDE, 1024)
    return (
        Program(lambda x: jnp.transpose(x.astype(jnp.bfloat16)).astype(jnp.float32), (x,)),
        Program(jnp.transpose, (x,)),
    )
