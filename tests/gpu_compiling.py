"""Random programs compiled for a GPU without one, by a plugin of JAX: `python gpu_compiling.py TARGET SEED COUNT FOLDER`.

`ROCM_PLUGIN` is the path of the plugin for targets of AMD; `rocm_stubs.py` makes the libraries that it needs.
Writes the modules around the fusion passes and XLA's steps of priority fusion, each to a folder of its own.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import xla_bridge
from jax._src.lib import xla_client
from jax.experimental import topologies

FILES = {
    "before_priority_fusion": "*before_priority-fusion.txt",
    "after_priority_fusion": "*after_priority-fusion.before_cse.txt",
    "before_multi_output_fusion": "*before_multi_output_fusion.txt",
    "after_multi_output_fusion": "*after_multi_output_fusion.before_cse.txt",
    "priority_fusion_dump": "*priority_fusion_dump.txt",
}
SHAPES = [(256,), (1 << 20,), (128, 512), (1000, 300), (2048, 4096), (8, 128, 256), (3, 5, 7), (4, 16, 64, 64)]
TYPES = ["float32", "float32", "float32", "bfloat16", "float16", "int32", "int8"]
BINARY: list[Any] = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum]
UNARY: list[Any] = [
    jnp.exp,
    jnp.tanh,
    jnp.sin,
    jnp.sqrt,
    jnp.log1p,
    jnp.abs,
    lax.rsqrt,
    jax.nn.sigmoid,
    lax.erf,
    jnp.floor,
]
REDUCTIONS: list[Any] = [jnp.sum, jnp.max, jnp.min, jnp.mean]
LARGEST = 1 << 24


def step(x: Any, values: list[Any], choose: random.Random) -> Any:
    """A random operation on a value, with others."""
    match choose.randrange(14):
        case 0 | 1 | 2:
            return choose.choice(BINARY)(x, choose.choice([y for y in values if y.shape == x.shape]).astype(x.dtype))
        case 3 | 4 | 5:
            return choose.choice(UNARY)(x.astype(jnp.float32))
        case 6:
            return x.astype(choose.choice(TYPES))
        case 7 | 8:
            return choose.choice(REDUCTIONS)(x.astype(jnp.float32), axis=choose.choice([None, *range(x.ndim)]))
        case 9:
            return jnp.transpose(x, choose.sample(range(x.ndim), x.ndim))
        case 10:
            return jnp.concatenate([x, x], axis=choose.randrange(x.ndim))
        case 11:
            return jnp.pad(x, [(choose.randint(0, 2), choose.randint(0, 2)) for _ in x.shape])
        case 12:
            return x - jnp.mean(x, axis=-1, keepdims=True).astype(x.dtype)
        case _:
            return jnp.flip(x, choose.randrange(x.ndim))[tuple(slice(0, max(1, size - 1)) for size in x.shape)]


def program(seed: int) -> tuple[Callable[..., Any], list[tuple[tuple[int, ...], str]]]:
    """A random program and the shapes and types of its arguments."""
    outer = random.Random(seed)
    shape = outer.choice(SHAPES)
    arguments = [(shape, outer.choice(TYPES)), (outer.choice([shape, shape[-1:]]), outer.choice(TYPES))]
    count = outer.randint(4, 20)

    def run(*given: Any) -> tuple[Any, ...]:
        choose, values = random.Random(seed), list(given)
        while len(values) < count:
            x = choose.choice(values[-6:])
            y = step(x, values, choose) if x.ndim else x + 1
            if y.size <= LARGEST:
                values.append(y)
        return tuple(values[-choose.randint(1, 3) :])

    return run, arguments


def statistics(seed: int) -> tuple[Callable[..., Any], list[tuple[tuple[int, ...], str]]]:
    """A random program with several results from few values, which XLA computes in kernels with several results."""
    outer = random.Random(seed)
    shape = outer.choice(SHAPES)
    count = outer.randint(2, 6)

    def run(*given: Any) -> tuple[Any, ...]:
        choose, results = random.Random(seed), []
        values = [x.astype(jnp.float32) for x in given]
        values += [values[0] + values[1], values[0] - jnp.mean(values[0], axis=-1, keepdims=True)]
        values.append(choose.choice(UNARY)(choose.choice(values)))
        while len(results) < count:
            x = choose.choice(values)
            for _ in range(choose.randint(0, 2)):
                x = (
                    choose.choice(BINARY)(x, choose.choice(values))
                    if choose.random() < 0.4
                    else choose.choice(UNARY)(x)
                )
            if choose.random() < 0.6:
                x = choose.choice(REDUCTIONS)(x, axis=choose.choice([None, -1, 0]))
            elif choose.random() < 0.2:
                x = jnp.transpose(x)
            results.append(x)
        return tuple(results)

    return run, [(shape, outer.choice(TYPES)), (shape, outer.choice(TYPES))]


def main(target: str, first: int, count: int, folder: str, kind: str = "program") -> None:
    """Compiles the programs of some seeds: those of `program`, or of `statistics`."""
    make = {"program": program, "statistics": statistics}[kind]
    text = Path(target).read_text(encoding="utf-8")
    platform = "rocm" if "rocm_compute_capability" in text else "cuda"
    if platform == "rocm":  # the plugin's own registration requires a GPU
        settings = xla_client.generate_pjrt_gpu_plugin_options() | {"platform_name": "ROCM"}
        xla_bridge.register_plugin(platform, library_path=os.environ["ROCM_PLUGIN"], options=settings)
    device = topologies.get_topology_desc("1x1x1", platform, topology="1x1x1", target_config=text).devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    for seed in range(first, first + count):
        run, arguments = make(seed)
        given = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype in arguments]
        with tempfile.TemporaryDirectory() as dump:
            options = {
                "xla_dump_to": dump,
                "xla_dump_hlo_as_text": True,
                "xla_dump_hlo_pass_re": ".*fusion.*",
                "xla_gpu_autotune_level": 0,
            }
            try:
                jax.jit(run).lower(*given).compile(compiler_options=options)
            except jax.errors.JaxRuntimeError as error:  # the code, after fusion, requires a GPU or ptxas
                print(seed, str(error).partition("\n")[0])
            out = Path(folder) / f"s{seed}"
            out.mkdir(parents=True)
            for name, pattern in FILES.items():
                for path in sorted(Path(dump).glob(pattern))[:1]:
                    (out / f"{name}.txt.gz").write_bytes(gzip.compress(path.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
