"""Reads every kind of object that JAX makes of a function with `hlo_cli.from_jax`, and prints what was read as JSON.

Run by tests/test_from_jax.py in a process of its own, with four CPU devices.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import hlo_cli

TABLE = np.arange(4096, dtype=np.float32).reshape(64, 64)  # a constant that texts elide


@partial(jax.jit, static_argnames="depth")
def step(weights: Any, x: Any, *, depth: int = 2) -> Any:
    """A function with a loop, matmuls, and a reduction."""
    for _ in range(depth):
        x = jnp.tanh(x @ weights) + jnp.asarray(TABLE)
    return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x).sum(axis=0)


class Model:
    """A method as a jitted function."""

    @partial(jax.jit, static_argnums=0)
    def forward(self, x: Any) -> Any:
        """Doubles its argument."""
        return x * 2


def objects() -> dict[str, Any]:
    """Each kind by its name, as a call that reads it."""
    array, shape = jnp.ones((64, 64)), jax.ShapeDtypeStruct((64, 64), jnp.float32)
    traced = step.trace(array, shape)
    lowered = traced.lower()
    compiled = lowered.compile()
    executable = compiled.runtime_executable()
    return {
        "function": lambda: hlo_cli.from_jax(step, array, array),
        "shapes": lambda: hlo_cli.from_jax(step, shape, x=shape, depth=2),
        "partial": lambda: hlo_cli.from_jax(partial(step, depth=2), shape, shape),
        "Traced": lambda: hlo_cli.from_jax(traced),
        "Lowered": lambda: hlo_cli.from_jax(lowered),
        "Compiled": lambda: hlo_cli.from_jax(compiled),
        "load": lambda: hlo_cli.load(compiled),
        "LoadedExecutable": lambda: hlo_cli.from_jax(executable),
        "HloModule": lambda: hlo_cli.from_jax(executable.hlo_modules()[0]),
        "text": lambda: hlo_cli.from_jax(compiled.as_text()),
        "lowered function": lambda: hlo_cli.from_jax(step, shape, shape, stage="lowered"),
        "lowered Traced": lambda: hlo_cli.from_jax(traced, stage="lowered"),
        "lowered Lowered": lambda: hlo_cli.load(lowered, stage="lowered"),
        "XlaComputation": lambda: hlo_cli.from_jax(lowered.compiler_ir("hlo")),
        "lowered text": lambda: hlo_cli.from_jax(lowered.as_text(dialect="hlo")),
        "method": lambda: hlo_cli.from_jax(Model().forward, shape),
        "sharded": lambda: hlo_cli.from_jax(_sharded(), shape),
        "missing argument": lambda: hlo_cli.from_jax(step, shape),
        "plain function": lambda: hlo_cli.from_jax(lambda x: x, shape),
        "array": lambda: hlo_cli.from_jax(array),
        "jaxpr": lambda: hlo_cli.from_jax(jax.make_jaxpr(step)(array, array)),
        "StableHLO": lambda: hlo_cli.from_jax(lowered.compiler_ir("stablehlo")),
        "StableHLO text": lambda: hlo_cli.load(lowered.as_text()),
        "Exported": lambda: hlo_cli.from_jax(jax.export.export(step)(shape, shape)),
        "lowered Compiled": lambda: hlo_cli.from_jax(compiled, stage="lowered"),
    }


def _sharded() -> Any:
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    return jax.jit(lambda x: (x @ x.T).sum(), in_shardings=rows)


def numbers(module: hlo_cli.Module) -> dict[str, object]:
    """What the library says of a module."""
    memory = hlo_cli.memory_analysis(module)
    cost = hlo_cli.module_cost(module)
    return {
        "name": module.name,
        "scheduled": module.is_scheduled,
        "instructions": module.instruction_count,
        "peaks": [[space.name, space.peak_bytes, space.timeline] for space in memory.spaces],
        "cost": [cost.flops, cost.bytes_accessed],
        "kernels": [kernel.instruction.name for kernel in hlo_cli.kernels_of(module)],
        "fusions": [[fusion.name, fusion.saved_bytes] for fusion in hlo_cli.fusions_of(module)],
        "collectives": [each.instruction.name for each in hlo_cli.collectives_of(module)],
        "places": [str(module.location(instruction)) for instruction in module.entry.instructions],
        "partitions": module.num_partitions,
        "constants": [
            len(str(instruction.literal)) > 4096
            for instruction in module.instructions
            if instruction.opcode == "constant"
        ],
        "assignment": None if module.buffer_assignment is None else len(module.buffer_assignment.allocations),
        "allocated_bytes": None
        if module.buffer_assignment is None
        else sum(allocation.size_bytes for allocation in module.buffer_assignment.allocations),
    }


def main() -> None:
    found: dict[str, object] = {}
    for name, read in objects().items():
        try:
            found[name] = numbers(read())
        except hlo_cli.HloError as error:
            found[name] = [str(error), error.diagnostics[0].hint]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
