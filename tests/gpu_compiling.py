"""Random programs compiled for a GPU without one, by a plugin of JAX: `python gpu_compiling.py TARGET SEED COUNT FOLDER`.

`ROCM_PLUGIN` is the path of the plugin for targets of AMD; `rocm_stubs.py` makes the libraries that it needs.
Writes the modules around the fusion passes and XLA's steps of priority fusion, each to a folder of its own, named after
the seed and the family of operations that the program has most of.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge
from jax._src.lib import xla_client
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from gpu_programs import DEVICES, SHARDED, program
from gpu_statistics import statistics

FILES = {
    "before_priority_fusion.txt": "*before_priority-fusion.txt",
    "before_priority_fusion.hlo.pb": "*before_priority-fusion.hlo.pb",
    "after_priority_fusion.txt": "*after_priority-fusion.before_cse.txt",
    "before_multi_output_fusion.txt": "*before_multi_output_fusion.txt",
    "after_multi_output_fusion.txt": "*after_multi_output_fusion.before_cse.txt",
    "priority_fusion_dump.txt": "*priority_fusion_dump.txt",
}


@cache
def devices_of(target: str, platform: str, count: int) -> list[Any]:
    """Devices of a topology of `count` GPUs."""
    name = f"1x1x{count}"
    return list(topologies.get_topology_desc(name, platform, topology=name, target_config=target).devices)


def sharding_of(shape: tuple[int, ...], target: str, platform: str, *, is_sharded: bool) -> Sharding:
    """Sharding of an argument: along the first dimension where the program is for several devices."""
    if not is_sharded:
        return SingleDeviceSharding(devices_of(target, platform, 1)[0])
    mesh = Mesh(np.array(devices_of(target, platform, DEVICES)), ("rows",))
    return NamedSharding(mesh, PartitionSpec("rows") if shape[0] % DEVICES == 0 else PartitionSpec())


def main(target: str, first: int, count: int, folder: str, kind: str = "program") -> None:
    """Compiles the programs of some seeds: those of `program`, or of `statistics`."""
    make = {"program": program, "statistics": statistics}[kind]
    text = Path(target).read_text(encoding="utf-8")
    platform = "rocm" if "rocm_compute_capability" in text else "cuda"
    if platform == "rocm":  # the plugin's own registration requires a GPU
        settings = xla_client.generate_pjrt_gpu_plugin_options() | {"platform_name": "ROCM"}
        xla_bridge.register_plugin(platform, library_path=os.environ["ROCM_PLUGIN"], options=settings)
    jax.config.update("jax_enable_x64", True)
    for seed in range(first, first + count):
        family, run, arguments = make(seed)
        given = []
        for shape, dtype in arguments:
            sharding = sharding_of(shape, text, platform, is_sharded=family == SHARDED)
            given.append(jax.ShapeDtypeStruct(shape, dtype, sharding=sharding))
        with tempfile.TemporaryDirectory() as dump:
            options = {
                "xla_dump_to": dump,
                "xla_dump_hlo_as_text": True,
                "xla_dump_hlo_as_proto": True,
                "xla_dump_hlo_pass_re": ".*fusion.*",
                "xla_gpu_autotune_level": 0,
            }
            try:
                jax.jit(run).lower(*given).compile(compiler_options=options)
            except Exception as error:  # noqa: BLE001 - the code, after fusion, requires a GPU or ptxas
                print(seed, family, str(error).partition("\n")[0][:200])
            out = Path(folder) / f"s{seed}_{family}"
            out.mkdir(parents=True)
            for name, pattern in FILES.items():
                for path in sorted(Path(dump).glob(pattern))[:1]:
                    (out / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
