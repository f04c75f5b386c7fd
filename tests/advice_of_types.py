"""Edits of types and precision, and of calls of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

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


@edit("HLO603", "tpu")
def exported_for_both(target: Target) -> tuple[Program, Program]:
    """A factorization that is exported for CPU alone, and one that is exported for CPU and TPU."""
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    alone, both = (export.export(jax.jit(jnp.linalg.cholesky), platforms=p)(shape) for p in (("cpu",), ("cpu", "tpu")))
    return Program(alone.call, (Target("cpu").array(64, 64),)), Program(both.call, (target.array(64, 64),))


@edit("HLO604", "cpu")
def typed(target: Target) -> tuple[Program, Program]:
    """A handler with an old calling convention, and one of the typed FFI. Neither is ever called."""
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    made = capsule(ctypes.cast(nothing, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target("old_convention", made, platform="cpu", api_version=0)
    x = target.array(64, 64)
    old = jax.ffi.ffi_call("old_convention", jax.ShapeDtypeStruct(x.shape, x.dtype), custom_call_api_version=2)
    new = jax.ffi.ffi_call(
        "lapack_spotrf_ffi", (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), "int32"))
    )
    return Program(old, (x,)), Program(lambda x: new(x, uplo=np.uint8(ord("L"))), (x,))


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
