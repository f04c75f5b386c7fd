# mypy: ignore-errors
"""Pallas kernels that do not fit, compiled for TPUs by libtpu; none of which runs.

    python kernel_oom.py FOLDER [CASE...]

writes FOLDER/CASE/error.txt, the error, and next to it what the compiler dumped of the module: CASE has the chip last.
"""

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ |= {
    "TPU_SKIP_MDS_QUERY": "1",
    "JAX_PLATFORMS": "cpu",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MIB = 1 << 20
TOPOLOGIES = {"v5e": "v5e:2x2", "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1"}
KEPT = ("after_optimizations.txt", "before_optimizations.txt", "target_arguments.txt")


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def rows(count):
    """Blocks of whole rows."""
    return pl.BlockSpec((count, 1024), lambda i: (i, 0))


def doubled(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def matmul(m, n, k, limit=None, name="matmul"):
    """Blocks of a matmul, whose sum is in scratch."""

    def body(x_ref, y_ref, o_ref, sum_ref):
        @pl.when(pl.program_id(2) == 0)
        def clear():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def write():
            o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    def run(x, y):
        return pl.pallas_call(
            body,
            shape(4096, 4096, dtype=jnp.bfloat16),
            grid=(4096 // m, 4096 // n, 4096 // k),
            in_specs=[pl.BlockSpec((m, k), lambda i, j, k: (i, k)), pl.BlockSpec((k, n), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((m, n), lambda i, j, k: (i, j)),
            scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
            name=name,
        )(x, y)

    return run, [shape(4096, 4096, dtype=jnp.bfloat16)] * 2


def two():
    """A kernel that fits, and one that does not."""
    first, arguments = matmul(256, 256, 256, name="small")
    second, _ = matmul(2048, 2048, 1024, name="large")
    return lambda x, y: second(first(x, y) + 1, y), arguments


def wide(limit=None, name=None):
    """Blocks that are as large as VMEM; the kernel is named by its function unless it has a name."""

    def run(x):
        return pl.pallas_call(
            doubled,
            shape(65536, 1024),
            grid=(4,),
            in_specs=[rows(16384)],
            out_specs=rows(16384),
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
            name=name,
        )(x)

    return run, [shape(65536, 1024)]


def scratch():
    """Scratch that is alone larger than the limit."""

    def body(x_ref, o_ref, sum_ref):
        sum_ref[...] = jnp.tile(x_ref[...], (1152, 1))

        def add(i, _):
            o_ref[...] += sum_ref[pl.ds(i * 8, 8)]

        jax.lax.fori_loop(0, pl.program_id(0) + 3, add, None)

    def run(x):
        return pl.pallas_call(
            body,
            shape(32, 1024),
            grid=(4,),
            in_specs=[rows(8)],
            out_specs=rows(8),
            scratch_shapes=[pltpu.VMEM((9216, 1024), jnp.float32)],
            name="sums",
        )(x)

    return run, [shape(32, 1024)]


def counters(x):
    """Scratch in scalar memory."""

    def body(x_ref, o_ref, first_ref, second_ref):
        first_ref[0] = pl.program_id(0)
        second_ref[1, 2] = first_ref[0] + 1
        o_ref[...] = x_ref[...] + first_ref[pl.program_id(0)] + second_ref[pl.program_id(0), 1]

    return pl.pallas_call(
        body,
        shape(32, 1024),
        grid=(4,),
        in_specs=[rows(8)],
        out_specs=rows(8),
        scratch_shapes=[pltpu.SMEM((200000,), jnp.int32), pltpu.SMEM((1024, 128), jnp.int32)],
        name="counters",
    )(x)


def lookup(*sizes):
    """Prefetched scalars; of two dimensions, each row takes as much as 128 columns."""

    def index(i, table):
        return (table[i] if len(sizes) == 1 else table[i, 0], 0)

    def body(table_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def run(table, x):
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 1024), index)],
            out_specs=pl.BlockSpec((8, 1024), lambda i, table: (i, 0)),
        )
        return pl.pallas_call(body, shape(32, 1024), grid_spec=grid, name="lookup")(table, x)

    return run, [shape(*sizes, dtype=jnp.int32), shape(32, 1024)]


PROGRAMS = {
    "windows": matmul(2048, 2048, 1024),
    "own_limit": matmul(512, 512, 512, limit=2 * MIB),
    "two": two(),
    "unnamed": wide(),
    "capacity": wide(limit=200 * MIB, name="wide"),
    "scratch": scratch(),
    "smem": (counters, [shape(32, 1024)]),
    "prefetched": lookup(300000),
    "prefetched_rows": lookup(2048, 4),
}
CASES = (
    *("windows_v5e", "own_limit_v6e", "two_7x", "unnamed_v6e", "capacity_v5e", "capacity_7x"),
    *("scratch_v6e", "smem_v5e", "prefetched_7x", "prefetched_rows_v5e"),
)


def compile_case(case, folder):
    program, _, chip = case.rpartition("_")
    run, arguments = PROGRAMS[program]
    mesh = Mesh(topologies.get_topology_desc(TOPOLOGIES[chip], "tpu").devices[:1], ("x",))
    with jax.set_mesh(mesh), TemporaryDirectory() as dump:
        replicated = NamedSharding(mesh, PartitionSpec())
        given = [jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=replicated) for each in arguments]
        try:
            jax.jit(run).lower(*given).compile({"xla_dump_to": dump, "xla_dump_hlo_as_text": True})
        except jax.errors.JaxRuntimeError as error:
            text = f"jax.errors.JaxRuntimeError: {error}\n"
        else:
            raise SystemExit(f"{case} fits")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text(re.sub(r"\n \[type\.googleapis\.com.*", "\n", text, flags=re.DOTALL))
        for path in Path(dump).iterdir():
            if path.name.endswith(KEPT):
                (folder / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    # Files are named without directories, as it does not matter where they were.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    for each in sys.argv[2:] or CASES:
        compile_case(each, Path(sys.argv[1]) / each)
