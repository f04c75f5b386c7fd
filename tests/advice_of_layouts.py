"""Edits of shapes and layouts of arguments and results."""

from __future__ import annotations

import jax.numpy as jnp
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec

from advice_programs import Program, Target, edit


def stored(target: Target, *major_to_minor: int) -> Format:
    """The format of an argument or result on one device, dimensions from major to minor."""
    return Format(Layout(major_to_minor), NamedSharding(target.mesh(1), PartitionSpec()))


@edit("HLO104", "tpu")
def merged(target: Target) -> tuple[Program, Program]:
    return Program(lambda x: x * 2, (target.array(40, 40, 40),)), Program(lambda x: x * 2, (target.array(40, 1600),))


@edit("HLO102 result", "tpu")
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
