# mypy: ignore-errors
"""One program in a compilation cache, with a change of a kind: `python cache_entries.py KIND FOLDER`."""

import os
import sys

kind, folder = sys.argv[1:]
if kind == "flag":
    os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true"
if kind == "devices":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
if kind != "folder":
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def helper_a(x):
    return jnp.where(x > 0, x, 0)


def helper_b(x):
    return jnp.where(x > 0, x, 0)


helper = jax.jit(helper_b if kind == "name" else helper_a)


def step(x):
    return helper(jnp.sin(x) @ x) + (2 if kind == "constant" else 1)


options = {"xla_cpu_enable_fast_math": True} if kind == "option" else None
jax.jit(step).lower(np.ones((8, 8), np.float32)).compile(options)
