"""Random programs of JAX, compiled pass by pass and run: `python hunt_programs.py PLATFORM SEED COUNT FOLDER`.

Each is fused, quantized, looped, or divided among eight devices, and small, so that every pass dump can be evaluated. A
folder for each seed has the dumps, the arguments as `arg0.npy` …, and on a CPU the results as `result0.npy` ….
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpu_programs import FAMILIES, Choose, Values, like, number

SIZES = (1, 2, 3, 4, 5, 8, 8, 16, 16, 24)
MOST_ELEMENTS = 1 << 12
TYPES = ("float32", "float32", "float32", "int32", "int8", "float16", "bool")
MESHES = ((8,), (2, 4), (4, 2), (2, 2, 2), (4,), (2,))
FAMILY = ("fused", "quantized", "looped", "sharded", "sharded", "mapped")


def quantized(x: Any, values: Values, choose: Choose) -> Any:
    """Products and sums of narrow types, with scales."""
    y = number(x).astype(jnp.float32)
    rows = y.reshape(y.shape[0], -1)
    match choose.randrange(5):
        case 0:
            narrow = jnp.clip(rows, -3, 3).astype(jnp.bfloat16)
            return lax.dot_general(narrow, narrow, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        case 1:
            whole = (lax.broadcasted_iota(jnp.int32, rows.shape, 0) % 7 - 3).astype(jnp.int8)
            products = lax.dot_general(whole, whole, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)
            return products.astype(jnp.float32) * 0.125
        case 2:
            return y.astype(jnp.bfloat16).astype(jnp.float32) * choose.choice([0.5, 0.3, 2.0])
        case 3:
            scale = jnp.max(jnp.abs(rows), axis=1, keepdims=True) + 1.0
            return ((rows / scale).astype(jnp.float16) * jnp.float16(2)).astype(jnp.float32) * scale
        case _:
            return lax.reduce(y.astype(jnp.bfloat16), np.array(0, jnp.bfloat16), lax.add, (0,)).astype(jnp.float32)


def product(x: Any, values: Values, choose: Choose) -> Any:
    """Matrix products, of transposed operands and in batches too."""
    y, z = (number(each).astype(jnp.float32) for each in (x, like(x, values, choose)))
    if y.ndim < 2:
        return jnp.outer(y, z) if y.size <= 64 else y * z
    match choose.randrange(4):
        case 0:
            return y.reshape(y.shape[0], -1) @ z.reshape(z.shape[0], -1).T
        case 1:
            return y.reshape(y.shape[0], -1).T @ z.reshape(z.shape[0], -1)
        case 2:
            return jnp.einsum("...i,...j->...ij", y, z).sum(-2)
        case _:
            return jnp.einsum("...ij,...kj->...ik", y, z) if y.ndim > 2 else jnp.einsum("ij,ij->i", y, z)


STEPS: dict[str, tuple[str, ...]] = {
    "fused": ("elementwise", "reduction", "move", "update", "window", "product"),
    "quantized": ("quantized", "quantized", "typed", "elementwise", "reduction", "product"),
    "looped": ("control", "control", "update", "elementwise", "move", "product"),
    "sharded": ("product", "product", "elementwise", "reduction", "move", "update", "control"),
    "mapped": ("elementwise", "product", "reduction", "move"),
}
ALL = {**FAMILIES, "quantized": quantized, "product": product}


def body(seed: int, family: str, constrain: Callable[[Any, Choose], Any]) -> Callable[..., Any]:
    """The function of a program."""

    def run(*given: Any) -> tuple[Any, ...]:
        choose, values = random.Random(seed), list(given)
        count = choose.randint(3, 9)
        for _ in range(4 * count):
            x = choose.choice(values[-4:])
            try:
                y = ALL[choose.choice(STEPS[family])](x, values, choose) if x.ndim else x + 1
            except (TypeError, ValueError, IndexError, NotImplementedError):
                continue  # an operation that this type does not have
            if 0 < y.size <= MOST_ELEMENTS and y.dtype != jnp.complex64:
                values.append(constrain(y, choose))
            if len(values) >= count + len(given):
                break
        return tuple(values[-choose.randint(1, 3) :])

    return run


def spec_of(sizes: tuple[int, ...], mesh: Mesh, choose: Choose) -> PartitionSpec:
    """How an array is divided: each axis of the mesh along a dimension that it divides, or along none."""
    parts: list[list[str]] = [[] for _ in sizes]
    left = list(sizes)
    for axis in choose.sample(mesh.axis_names, len(mesh.axis_names)):
        fitting = [at for at, size in enumerate(left) if size % mesh.shape[axis] == 0]
        if fitting and choose.random() < 0.7:
            at = choose.choice(fitting)
            parts[at].append(axis)
            left[at] //= mesh.shape[axis]
    return PartitionSpec(*(tuple(part) or None for part in parts))


def program(seed: int, devices: list[Any]) -> tuple[str, Any, list[Any], list[Any]]:
    """The family of a program, its jitted function, its arguments as shapes, and as arrays."""
    choose = random.Random(seed)
    family = choose.choice(FAMILY)
    is_divided = family in ("sharded", "mapped")
    shape = tuple(choose.choices((8, 16, 32) if is_divided else SIZES, k=choose.randint(1, 3)))
    while np.prod(shape) > MOST_ELEMENTS:
        shape = shape[1:]
    kinds = [(shape, choose.choice(TYPES)) for _ in range(choose.randint(1, 3))]
    kinds = [(shape, "float32"), *kinds]
    jax.config.update("jax_use_shardy_partitioner", choose.random() < 0.5)
    made = np.random.default_rng(seed)
    arrays = [
        made.standard_normal(sizes).astype(kind)
        if kind.startswith("float")
        else made.integers(0, 2 if kind == "bool" else 4, sizes).astype(kind)
        for sizes, kind in kinds
    ]
    if not is_divided:
        function = body(seed, family, lambda value, choose: value)
        return family, jax.jit(function, keep_unused=True), [jax.ShapeDtypeStruct(*each) for each in kinds], arrays
    sizes = choose.choice(MESHES)
    mesh = Mesh(np.array(devices[: int(np.prod(sizes))]).reshape(sizes), tuple("xyz"[: len(sizes)]))
    shapes = [
        jax.ShapeDtypeStruct(s, kind, sharding=NamedSharding(mesh, spec_of(s, mesh, choose))) for s, kind in kinds
    ]
    if family == "mapped":
        axes = tuple(mesh.axis_names)
        spec = PartitionSpec(axes)

        def local(*given: Any) -> Any:
            results = body(seed, family, lambda value, choose: value)(*given)
            summed = lax.psum(results[-1].astype(jnp.float32), axes[:1])
            moved = lax.ppermute(given[0], axes[0], [(at, (at + 1) % sizes[0]) for at in range(sizes[0])])
            return summed, moved, lax.all_gather(given[0], axes[-1], tiled=True)

        shapes = [jax.ShapeDtypeStruct((s[0] * 8, *s[1:]), k, sharding=NamedSharding(mesh, spec)) for s, k in kinds]
        arrays = [
            np.concatenate([each] * 8)
            + np.arange(8 * each.shape[0]).reshape(-1, *[1] * (each.ndim - 1)).astype(each.dtype) % 5
            for each in arrays
        ]
        arrays = [each.astype(kind) for each, (_, kind) in zip(arrays, kinds, strict=True)]
        whole = jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=(PartitionSpec(), spec, spec), check_vma=False)
        return family, jax.jit(whole, keep_unused=True), shapes, arrays

    def constrain(value: Any, choose: Choose) -> Any:
        if choose.random() < 0.5:
            return lax.with_sharding_constraint(value, NamedSharding(mesh, spec_of(value.shape, mesh, choose)))
        return value

    return family, jax.jit(body(seed, family, constrain), keep_unused=True), shapes, arrays


def devices_of(platform: str) -> list[Any]:
    """Eight devices, of a TPU without one."""
    if platform == "cpu":
        return list(jax.devices("cpu"))
    from jax.experimental import topologies

    return list(topologies.get_topology_desc("v5e:2x4", "tpu", chips_per_host_bounds=(2, 4, 1)).devices)


def main(platform: str, first: int, count: int, folder: str) -> None:
    """Writes a line of JSON for each program: its seed, its family, and the error of XLA if there is one."""
    devices = devices_of(platform)
    for seed in range(first, first + count):
        place = Path(folder) / str(seed)
        dumps = place / "dumps"
        dumps.mkdir(parents=True)
        family = ""
        try:
            family, function, shapes, arrays = program(seed, devices)
            if platform == "tpu" and family not in ("sharded", "mapped"):
                one = jax.sharding.SingleDeviceSharding(devices[0])
                shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=one) for each in shapes]
            options = {"xla_dump_to": str(dumps), "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": ".*"}
            compiled = function.lower(*shapes).compile(compiler_options=options)
            for at, array in enumerate(arrays):
                np.save(place / f"arg{at}.npy", array)
            if platform == "cpu":
                given = [
                    jax.device_put(a, s.sharding) if s.sharding else a for a, s in zip(arrays, shapes, strict=True)
                ]
                for at, result in enumerate(jax.tree.leaves(compiled(*given))):
                    np.save(
                        place / f"result{at}.npy",
                        np.asarray(result.astype(jnp.float32) if result.dtype == jnp.bfloat16 else result),
                    )
            error = ""
        except Exception as found:  # noqa: BLE001 - any error of XLA is an answer
            error = f"{type(found).__name__}: {str(found)[:300]}"
        print(json.dumps({"seed": seed, "family": family, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
