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
    """The shard of each device of an array that a program makes: its elements count from 1, in row-major order."""
    from jax._src.lib import _jax
    from jaxlib import _hlo

    shape, sharding, count = case["shape"], case["sharding"], case["devices"]
    full, shard = (f"s32[{','.join(map(str, sizes))}]" for sizes in (shape, case["shard"]))
    lines, total = [f"one = {full} broadcast(c), dimensions={{}}, sharding={sharding}"], "one"
    for at in range(len(shape)):
        stride = int(np.prod(shape[at + 1 :], dtype=int))
        lines += [
            f"i{at} = {full} iota(), iota_dimension={at}, sharding={sharding}",
            f"w{at} = s32[] constant({stride})",
            f"b{at} = {full} broadcast(w{at}), dimensions={{}}, sharding={sharding}",
            f"m{at} = {full} multiply(i{at}, b{at}), sharding={sharding}",
            f"t{at} = {full} add({total}, m{at}), sharding={sharding}",
        ]
        total = f"t{at}"
    text = f"""HloModule m, num_partitions={count}
ENTRY e {{
  c = s32[] constant(1)
  {chr(10).join(lines)}
  ROOT r = {shard} custom-call({total}), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
}}"""
    module = _hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    client = jax.devices("cpu")[0].client
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = 1, count
    build = options.executable_build_options
    build.num_replicas, build.num_partitions, build.use_spmd_partitioning = 1, count, True
    build.device_assignment = _jax.DeviceAssignment.create(np.arange(count).reshape(1, count))
    program = client.compile_and_load(stablehlo, _jax.DeviceList(tuple(client.devices()[:count])), options)
    (arrays,) = program.execute_sharded([]).disassemble_into_single_device_arrays()
    return [np.asarray(each).tolist() for each in arrays]


if __name__ == "__main__":
    function = {"maps": maps, "specs": specs, "run": run}[sys.argv[1]]
    json.dump([function(case) for case in json.load(sys.stdin)], sys.stdout)
