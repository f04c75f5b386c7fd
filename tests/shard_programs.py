"""Compiles a program with random parameters on random meshes, and dumps it: `shard_programs.py TARGET SEED FOLDER`.

The program scales every parameter, so that results are sharded too; the compiler chooses their shardings.
"""

from __future__ import annotations

import os
import random
import sys
from math import prod
from typing import Any

DEVICES = 8
MESHES = (((8,), ("x",)), ((4, 2), ("data", "model")), ((2, 2, 2), ("a", "b", "c")), ((2, 4), ("fsdp", "tensor")))
TYPES = ("float32", "bfloat16", "int8", "int32")
PARAMETERS = 40


def main(target: str, seed: int, folder: str) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    made = random.Random(seed)
    sizes, names = made.choice(MESHES)
    devices = topologies.get_topology_desc("v5e:2x4", "tpu").devices if target == "tpu" else jax.devices()
    mesh = Mesh(np.array(devices).reshape(sizes), names)
    axes = dict(zip(names, sizes, strict=True))
    shapes = [shape_and_spec(made, axes) for _ in range(PARAMETERS)]
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.dtype(made.choice(TYPES)), sharding=NamedSharding(mesh, P(*spec)))
        for shape, spec in shapes
    ]
    function = jax.jit(lambda *given: [each + each for each in given])
    function.lower(*arguments).compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_text": True})


def shape_and_spec(made: random.Random, axes: dict[str, int]) -> tuple[tuple[int, ...], list[Any]]:
    """A random shape, and for each dimension the axes that divide it evenly."""
    rank = made.randrange(5)
    free = made.sample(sorted(axes), len(axes))
    spec: list[Any] = []
    shape = []
    for _ in range(rank):
        used = [free.pop() for _ in range(made.randrange(3)) if free]
        parts = prod(axes[axis] for axis in used)
        shape.append(parts * made.choice((1, 2, 3, 5, 8, 17, 64)))
        spec.append(tuple(used) if len(used) > 1 else used[0] if used else None)
    return tuple(shape), spec


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
