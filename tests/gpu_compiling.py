"""Random programs compiled for a GPU without one, by a plugin of JAX: `python gpu_compiling.py TARGET SEED COUNT FOLDER`.

<<<<<<< HEAD
`ROCM_PLUGIN` is the path of the plugin for targets of AMD; `rocm_stubs.py` makes the libraries that it needs.
Writes the modules around the fusion passes and XLA's steps of priority fusion, each to a folder of its own.
=======
Writes the modules around the fusion passes and XLA's steps of priority fusion, each to a folder of its own, named after
the seed and the family of operations that the program has most of.
>>>>>>> 079dff82 (tests: random GPU programs of nine families; in-place updates of nibbles)
"""

from __future__ import annotations

import gzip
<<<<<<< HEAD
import os
import random
=======
>>>>>>> 079dff82 (tests: random GPU programs of nine families; in-place updates of nibbles)
import sys
import tempfile
from pathlib import Path

import jax
<<<<<<< HEAD
import jax.numpy as jnp
from jax import lax
from jax._src import xla_bridge
from jax._src.lib import xla_client
=======
import numpy as np
>>>>>>> 079dff82 (tests: random GPU programs of nine families; in-place updates of nibbles)
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from gpu_programs import DEVICES, SHARDED, program

FILES = {
    "before_priority_fusion": "*before_priority-fusion.txt",
    "after_priority_fusion": "*after_priority-fusion.before_cse.txt",
    "before_multi_output_fusion": "*before_multi_output_fusion.txt",
    "after_multi_output_fusion": "*after_multi_output_fusion.before_cse.txt",
    "priority_fusion_dump": "*priority_fusion_dump.txt",
    "before_priority_fusion.hlo.pb": "*before_priority-fusion.hlo.pb",
}


def main(target: str, first: int, count: int, folder: str) -> None:
    """Compiles the programs of some seeds."""
    text = Path(target).read_text(encoding="utf-8")
<<<<<<< HEAD
    platform = "rocm" if "rocm_compute_capability" in text else "cuda"
    if platform == "rocm":  # the plugin's own registration requires a GPU
        settings = xla_client.generate_pjrt_gpu_plugin_options() | {"platform_name": "ROCM"}
        xla_bridge.register_plugin(platform, library_path=os.environ["ROCM_PLUGIN"], options=settings)
    device = topologies.get_topology_desc("1x1x1", platform, topology="1x1x1", target_config=text).devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
=======
    devices = {
        number: topologies.get_topology_desc(
            f"1x1x{number}", "cuda", topology=f"1x1x{number}", target_config=text
        ).devices
        for number in (1, DEVICES)
    }
    jax.config.update("jax_enable_x64", True)
    alone = SingleDeviceSharding(devices[1][0])
    rows = NamedSharding(Mesh(np.array(devices[DEVICES]), ("rows",)), PartitionSpec("rows"))
>>>>>>> 079dff82 (tests: random GPU programs of nine families; in-place updates of nibbles)
    for seed in range(first, first + count):
        family, run, arguments = program(seed)
        shardings = [
            alone
            if family != SHARDED
            else rows
            if shape[0] % DEVICES == 0
            else NamedSharding(rows.mesh, PartitionSpec())
            for shape, _ in arguments
        ]
        given = [
            jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
            for (shape, dtype), sharding in zip(arguments, shardings, strict=True)
        ]
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
                    suffix = "" if name.endswith(".pb") else ".txt"
                    (out / f"{name}{suffix}.gz").write_bytes(gzip.compress(path.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
