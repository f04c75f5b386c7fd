"""What JAX says about shardings, on simulated CPU devices: a program of its own, from JSON to JSON.

`maps`: for each mesh, spec, and shape, the HLO shardings and the slice on each position of the mesh. `run`: what each
device holds of a sharded iota that a program made. `specs`: the PartitionSpec that JAX finds for a tile assignment.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[2]}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def mesh_of(case: dict[str, Any]) -> Mesh:
    """The mesh of a case: sizes, names, and the order of devices."""
    devices = jax.devices()[: int(np.prod(case["sizes"]))]
    order = case.get("order") or range(len(devices))
    return Mesh(np.array([devices[at] for at in order]).reshape(case["sizes"]), case["names"])


def spec_of(case: dict[str, Any]) -> PartitionSpec:
    """The spec of a case; a list of axes for each dimension."""
    return PartitionSpec(*(tuple(axes) if axes else None for axes in case["spec"]))


def maps(case: dict[str, Any]) -> Any:
    """The sharding as HLO, over a mesh and by tiles, and the slice on each position."""
    from jaxlib.xla_client import HloSharding

    mesh = mesh_of(case)
    sharding = NamedSharding(mesh, spec_of(case))
    made = sharding._to_xla_hlo_sharding(len(case["shape"]))
    tiled = HloSharding.v3_to_v2_sharding(made) if "mesh[" in str(made) else made
    found = sharding.devices_indices_map(tuple(case["shape"]))
    slices = [
        [each.indices(size)[:2] for each, size in zip(found[device], case["shape"], strict=True)]
        for device in mesh.devices.flat
    ]
    return [str(made), str(tiled), slices]


def specs(case: dict[str, Any]) -> Any:
    """The axes of each dimension that JAX finds for a tile assignment."""
    from jax._src.sharding_impls import parse_flatten_op_sharding
    from jaxlib.xla_client import HloSharding

    (spec,) = parse_flatten_op_sharding(HloSharding.from_string(case["text"]), mesh_of(case))
    return [list(axes) if isinstance(axes, tuple) else [axes] if axes else [] for axes in spec]


def run(case: dict[str, Any]) -> Any:
    """The elements on each device of an iota with a sharding inside a program, with -1 for what is no data.

    The value is made uneven by a constraint, and each device then writes its own part beside the others.
    """
    raise NotImplementedError


if __name__ == "__main__":
    function = {"maps": maps, "specs": specs, "run": run}[sys.argv[1]]
    json.dump([function(case) for case in json.load(sys.stdin)], sys.stdout)
