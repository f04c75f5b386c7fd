"""Edits of shapes and layouts of arguments and results."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import NamedSharding, PartitionSpec

from advice_programs import Program, Target, edit

SIDE = 8192
"""Arrays of this side are larger than the fast memory of a TPU."""


def stored(target: Target, *major_to_minor: int) -> Format:
    """The format of an argument or result on one device, dimensions from major to minor."""
    return Format(Layout(major_to_minor), NamedSharding(target.mesh(1), PartitionSpec()))


@edit("HLO101 passed", "tpu")
def passed_in_a_better_order(target: Target) -> tuple[Program, Program]:
    """A table that is passed with three columns as the minor dimension."""
    x = target.array(65536, 3)
    function, small = lambda x: x[:8] * 2, (x,)
    return Program(function, small, {"in_shardings": stored(target, 0, 1)}), Program(
        function, small, {"in_shardings": stored(target, 1, 0)}
    )


@edit("HLO101 returned", "tpu")
def returned_in_a_better_order(target: Target) -> tuple[Program, Program]:
    """The same for a result."""
    x = target.array(3)
    function = lambda x: jnp.sin(jnp.broadcast_to(x, (65536, 3)))  # noqa: E731
    return Program(function, (x,), {"out_shardings": stored(target, 0, 1)}), Program(
        function, (x,), {"out_shardings": stored(target, 1, 0)}
    )


@edit("HLO101 merged", "tpu")
def passed_with_merged_dimensions(target: Target) -> tuple[Program, Program]:
    def largest(x: Any) -> Any:
        return jnp.max(x)

    return Program(largest, (target.array(40, 40, 40),)), Program(largest, (target.array(40, 1600),))


@edit("HLO102 passed", "tpu")
def passed_as_read(target: Target) -> tuple[Program, Program]:
    """Columns of a matrix, looked up."""
    x, i = target.array(SIDE, SIDE), target.array(64, dtype="int32")
    function = lambda x, i: x.T[i]  # noqa: E731
    return Program(function, (x, i)), Program(function, (x, i), {"in_shardings": (stored(target, 1, 0), None)})


@edit("HLO102 fetched", "tpu")
def fetched_as_read(target: Target) -> tuple[Program, Program]:
    """Columns of a matrix that fits into VMEM: if it is passed as it is read, the compiler fetches it all the same."""
    x, i = target.array(1000, 4096), target.array(64, dtype="int32")
    function = lambda x, i: jnp.take(x.T, i, 0)  # noqa: E731
    return Program(function, (x, i)), Program(function, (x, i), {"in_shardings": (stored(target, 1, 0), None)})


@edit("HLO102 returned", "tpu")
def returned_as_made(target: Target) -> tuple[Program, Program]:
    """A transposed argument, sorted."""
    x = target.array(128, 2048)
    function = lambda x: jnp.sort(x.T, axis=1)  # noqa: E731
    return Program(function, (x,)), Program(function, (x,), {"out_shardings": stored(target, 1, 0)})


@edit("HLO103", "cpu", "gpu")
def passed_transposed(target: Target) -> tuple[Program, Program]:
    """A transposed argument, sorted."""
    x, y = target.array(1024, 512), target.array(512, 1024)
    return Program(lambda x: jnp.sort(x.T, axis=0), (x,)), Program(lambda y: jnp.sort(y, axis=0), (y,))


@edit("HLO104", "tpu")
def merged(target: Target) -> tuple[Program, Program]:
    return Program(lambda x: x * 2, (target.array(40, 40, 40),)), Program(lambda x: x * 2, (target.array(40, 1600),))


@edit("HLO105", "tpu")
def not_constrained(target: Target) -> tuple[Program, Program]:
    """A layout that is required in between, though nothing there needs it."""
    x = target.array(1024, 2048)

    def constrained(x: Any) -> Any:
        turned = lax.optimization_barrier(with_layout_constraint(x, Layout((1, 0))))
        return with_layout_constraint(turned, Layout((0, 1))) + 1

    return Program(constrained, (x,)), Program(lambda x: lax.optimization_barrier(x) + 1, (x,))


@edit("HLO106", "cpu")
def returned_as_read(target: Target) -> tuple[Program, Program]:
    x = target.array(1024, 512)
    return Program(jnp.tanh, (x,), {"out_shardings": stored(target, 1, 0)}), Program(
        jnp.tanh, (x,), {"out_shardings": stored(target, 0, 1)}
    )
