"""Random Pallas kernels for TPUs, and what libtpu and JAX's interpreter say of them, in a process of its own:

    python kernel_programs.py compile TOPOLOGY FOLDER NAME...
    python kernel_programs.py values FOLDER NAME...

A name is `random-SEED`, or `RECIPE-SEED` with a recipe of `kernel_recipes.py`. `compile` writes FOLDER/NAME.before.txt and
FOLDER/NAME.txt, the module before and after compilation, and FOLDER/NAME.json: for each kernel the allocations of
libtpu's LLO dump, declared and kept, or the compiler's error. `values` writes FOLDER/NAME.npz: arguments, and the results of interpret mode.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.dispatch import runtime_tokens
from jax.experimental import pallas as pl
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, Mesh

FLOATS = ("float32", "float32", "bfloat16", "bfloat16")
NARROW = ("int8", "int16", "int4", "uint8", "float8_e4m3fn", "float8_e5m2", "uint16", "int2")
PASSES = ("pre-auto-mxu-assigner", "post-bundle-packing-post-ra")
"""Passes of LLO whose dumps list the allocations that are declared, and those that are kept, with offsets."""


def when(condition: Any) -> Callable[[Callable[[], None]], None]:
    """Decorates what runs if a condition holds (`pl.when`, with types)."""
    decorate: Callable[[Callable[[], None]], None] = pl.when(condition)
    return decorate


@dataclass(frozen=True)
class Argument:
    """An array; `high` is the exclusive upper bound of values that are indices."""

    shape: tuple[int, ...]
    dtype: str
    high: int = 0

    def value(self, rng: np.random.Generator) -> Any:
        """Values of moderate size, so that sums of exponentials stay finite."""
        dtype = jnp.dtype(self.dtype)
        if self.high:
            return rng.integers(0, self.high, self.shape).astype(dtype)
        if jnp.issubdtype(dtype, jnp.integer):
            info = jnp.iinfo(dtype)
            low, high = max(int(info.min), -9), min(int(info.max), 9)
            return rng.integers(low, high, self.shape, endpoint=True).astype(np.int32).astype(dtype)
        return rng.uniform(-1, 1, self.shape).astype(np.float32).astype(dtype)


@dataclass(frozen=True)
class Program:
    """A function with kernels, and its arguments; `values` replaces random ones where they hang together.

    `reference` computes the same without kernels, for those that interpret mode cannot run.
    """

    run: Callable[..., Any]
    arguments: tuple[Argument, ...]
    values: Callable[[np.random.Generator], Sequence[Any]] | None = None
    reference: Callable[..., Any] | None = None

    def given(self, seed: int) -> list[Any]:
        """The values of the arguments."""
        rng = np.random.default_rng(seed)
        return list(self.values(rng)) if self.values else [each.value(rng) for each in self.arguments]


# --- random kernels: a window of any kind for each operand, all of them read into every output ---


@dataclass(frozen=True)
class Index:
    """The block index of one dimension: an expression of the grid, and its largest value plus one."""

    of: Callable[..., Any]
    count: int


@dataclass
class Operand:
    """An array in HBM with its window, or a whole array in a memory space."""

    dtype: str
    block: tuple[int, ...]
    indices: tuple[Index, ...]
    shape: tuple[int, ...]
    space: Any = None
    mode: Any = None
    squeezed: tuple[int, ...] = ()
    is_read: bool = True
    ragged: dict[int, int] = field(default_factory=dict)

    def spec(self) -> Any:
        """The block spec."""
        if self.space in (pl.ANY, pltpu.SMEM) or not self.block:
            return pl.BlockSpec(memory_space=self.space or pltpu.VMEM)
        block = tuple(pl.squeezed if at in self.squeezed else size for at, size in enumerate(self.block))
        space = {} if self.space is None else {"memory_space": self.space}
        mode = {} if self.mode is None else {"pipeline_mode": self.mode}
        return pl.BlockSpec(block, lambda *at: tuple(index.of(*at) for index in self.indices), **space, **mode)

    def inside(self) -> tuple[int, ...]:
        """The shape of the window as the kernel sees it."""
        return tuple(size for at, size in enumerate(self.block) if at not in self.squeezed)


def index_of(choose: Random, grid: tuple[int, ...], table: int | None) -> Index:
    """A random expression of the program ids; `table` is the size of a prefetched table of indices below four."""
    kinds = ["zero", "constant"] + (["plain"] * 5 + ["half", "least", "folded", "back", "sum"] if grid else [])
    kinds += ["table", "table"] if grid and table else []
    axis = choose.randrange(len(grid)) if grid else 0
    other = choose.randrange(len(grid)) if grid else 0
    size = grid[axis] if grid else 1
    match choose.choice(kinds):
        case "plain":
            return Index(lambda *at: at[axis], size)
        case "half":
            return Index(lambda *at: at[axis] // 2, (size + 1) // 2)
        case "least":
            most = choose.randrange(2)
            return Index(lambda *at: jnp.minimum(at[axis], most), min(size - 1, most) + 1)
        case "folded":
            return Index(lambda *at: at[axis] * 0, 1)
        case "back":
            return Index(lambda *at: size - 1 - at[axis], size)
        case "sum":
            return Index(lambda *at: (at[axis] + at[other]) % 3, 3)
        case "table":
            return Index(lambda *at: at[len(grid)][at[axis] % (table or 1)], 4)
        case "constant":
            most = choose.randrange(3)
            return Index(lambda *at: most, most + 1)
    return Index(lambda *at: 0, 1)


def packing(dtype: str) -> int:
    """Elements of a type in 32 bits."""
    info: Any = jnp.finfo if jnp.issubdtype(jnp.dtype(dtype), jnp.floating) else jnp.iinfo
    return 32 // int(info(dtype).bits)


def block_of(choose: Random, dtype: str) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """A block, and which of its dimensions have to be whole dimensions of the array."""
    rank = choose.choice((1, 2, 2, 2, 2, 3, 3, 4))
    if rank == 1:
        if choose.random() < 0.5:
            return (choose.choice((1, 7, 100, 128, 384, 1000)),), (True,)
        return (128 * packing(dtype) * choose.choice((1, 2, 4, 8)),), (False,)
    columns = choose.choice(((128, 0), (256, 0), (384, 0), (512, 0), (128, 1), (64, 1), (200, 1), (1, 1), (100, 1)))
    rows = choose.choice(
        ((8, 0), (16, 0), (24, 0), (32, 0), (64, 0), (128, 0), (1, 1), (3, 1), (12, 1), (20, 1), (5, 1))
    )
    lead = tuple((choose.choice((1, 1, 2, 3)), 0) for _ in range(rank - 2))
    both = (*lead, rows, columns)
    return tuple(size for size, _ in both), tuple(bool(whole) for _, whole in both)


def operand_of(choose: Random, grid: tuple[int, ...], table: int | None, *, is_large: bool) -> Operand:
    """A random operand."""
    dtype = choose.choice((*FLOATS, *FLOATS, "int32", "int32", *choose.sample(NARROW, 2)))
    where = choose.random()
    if where < 0.1:
        sizes = choose.choice(((choose.randrange(1, 200),), (choose.randrange(1, 9), choose.randrange(1, 200))))
        return Operand(choose.choice(("int32", "float32")), (), (), sizes, pltpu.SMEM)
    if where < 0.2:
        return Operand(dtype, (), (), (choose.choice((32, 64)), choose.choice((128, 256))), pl.ANY)
    block, whole = block_of(choose, dtype)
    if where < 0.3 or not grid:  # Pallas has no windows without a grid
        return Operand(dtype, (), (), block)
    indices = tuple(Index(lambda *at: 0, 1) if fixed else index_of(choose, grid, table) for fixed in whole)
    shape: list[int] = []
    ragged: dict[int, int] = {}
    for at, (size, index, fixed) in enumerate(zip(block, indices, whole, strict=True)):
        full = size * index.count
        if not fixed and is_large:
            full += size * choose.choice((0, 0, 1, 5, 40))
        elif not fixed and at >= len(block) - 2 and size > 8 and choose.random() < 0.25:
            ragged[at] = full = full - choose.randrange(1, size)
        shape.append(full)
    squeezed = tuple(at for at in range(len(block) - 2) if block[at] == 1 and choose.random() < 0.6)
    mode = choose.choice((None, None, None, None, pl.Buffered(1), pl.Buffered(2))) if grid else None
    space = choose.choice((None, None, None, pltpu.VMEM))
    return Operand(dtype, block, indices, tuple(shape), space, mode, squeezed, choose.random() > 0.03, ragged)


def output_of(choose: Random, grid: tuple[int, ...]) -> tuple[Operand, int]:
    """A random output, and how many of the first grid dimensions select its block: blocks are visited in a row."""
    dtype = choose.choice((*FLOATS, "int32"))
    outer = choose.randrange(len(grid) + 1)
    block, whole = block_of(choose, dtype)
    if not grid:
        return Operand(dtype, (), (), block), 0
    free = [at for at, fixed in enumerate(whole) if not fixed]
    while len(free) < outer:
        outer -= 1
    chosen = dict(zip(choose.sample(free, outer), range(outer), strict=True))

    def index(axis: int | None) -> Index:
        return Index(lambda *at: 0, 1) if axis is None else Index(lambda *at: at[axis], grid[axis])

    indices = tuple(index(chosen.get(at)) for at in range(len(block)))
    shape = [size * found.count for size, found in zip(block, indices, strict=True)]
    for at in free[-1:]:
        if choose.random() < 0.2 and block[at] > 8:
            shape[at] -= choose.randrange(1, block[at])
    mode = choose.choice((None, None, None, pl.Buffered(1), pl.Buffered(2))) if grid else None
    return Operand(dtype, block, indices, tuple(shape), None, mode), outer


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    *(lambda x: x * 0.5 + 1, jnp.exp, jnp.tanh, jnp.abs, lambda x: jnp.maximum(x, 0), lambda x: x * x),
    *(lambda x: jnp.where(x > 0, x, -2 * x), lambda x: 1 / (1 + jnp.exp(-x)), lambda x: jax.lax.rsqrt(x * x + 1)),
    *(lambda x: jnp.sqrt(jnp.abs(x)), lambda x: jnp.log(x * x + 1), lambda x: jnp.minimum(x, 0.25) - x),
    *(jax.nn.relu, jax.nn.silu, lambda x: jnp.floor(x * 3), lambda x: jnp.clip(x, -0.5, 0.5), jnp.sign),
)


def summed(choose: Random, x: Any) -> Any:
    """A block as an f32 scalar or [1,1] array, by one of the ways to get there."""
    x = choose.choice(FUNCTIONS)(x.astype(jnp.float32))
    way = choose.randrange(5)
    if x.ndim == 2 and way == 0 and x.shape[0] % 8 == 0 and x.shape[1] % 128 == 0:
        x = jax.lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) * 0.01
    elif x.ndim == 2 and way == 1 and x.shape[0] % 128 == 0 and x.shape[1] % 128 == 0:
        x = x.T * 2
    elif x.ndim >= 2 and way == 2:
        x = x - x.max(-1, keepdims=True)
    elif x.ndim >= 2 and way == 3:
        x = x.mean(-2)
    if x.ndim == 1:
        x = x.reshape(1, -1)
    return jnp.sum(x, keepdims=True).reshape(1, 1) * 0.01


def random_program(seed: int) -> Program:
    """A random kernel, alone in its program or after a sum."""
    choose = Random(seed)
    grid = tuple(choose.choice((1, 2, 2, 3, 4)) for _ in range(choose.choice((0, 1, 1, 2, 2, 3))))
    tables = choose.choice((0, 0, 1, 2)) if grid else 0
    table = choose.choice((3, 8, 200)) if tables else None
    is_large = choose.random() < 0.3
    ins = [operand_of(choose, grid, table, is_large=is_large) for _ in range(choose.choice((1, 1, 2, 2, 3, 4, 5)))]
    pairs = [output_of(choose, grid) for _ in range(choose.choice((1, 1, 1, 2)))]
    outs, outer = [each for each, _ in pairs], min((count for _, count in pairs), default=0)
    aliases = {}
    if choose.random() < 0.2:
        aliases = {tables + len(ins): 0}
        ins.append(outs[0])
    scratch, use = scratch_of(choose, ins)
    body = choose.random()

    def kernel(*refs: Any) -> None:
        inner = Random(body)
        ids = [pl.program_id(axis) for axis in range(len(grid))]
        prefetched, rest = refs[:tables], refs[tables:]
        in_refs, out_refs, scratch_refs = rest[: len(ins)], rest[len(ins) : len(ins) + len(outs)], rest[-len(scratch) :]
        total: Any = jnp.zeros((1, 1), jnp.float32)
        for ref in prefetched:
            total += (ref[0] + (ref[ids[0] % table] if table else 0)).astype(jnp.float32) * 0.1
        for number, (each, ref) in enumerate(zip(ins, in_refs, strict=True)):
            if each.is_read:
                total += read(inner, each, ref, use.get(number), scratch_refs, (*ids, *prefetched))
        total = use_scratch(inner, scratch, set(use.values()), scratch_refs, total, ids)
        for each, ref in zip(outs, out_refs, strict=True):
            write(inner, each, ref, total, ids, len(grid) - outer if grid else 0)

    semantics = None
    if grid and choose.random() < 0.5:
        semantics = tuple(
            "parallel" if axis < outer and choose.random() < 0.7 else "arbitrary" for axis in range(len(grid))
        )
    limit = choose.choice((None, None, None, 24 << 20, 40 << 20, 100 << 20))
    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=tables,
            grid=grid,
            in_specs=[each.spec() for each in ins],
            out_specs=[each.spec() for each in outs],
            scratch_shapes=[each.shape for each in scratch] or [pltpu.SMEM((1,), jnp.int32)],
        ),
        out_shape=[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in outs],
        input_output_aliases=aliases,
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics, vmem_limit_bytes=limit),
        name=f"kernel_{seed}",
    )
    if not scratch:
        scratch.append(Scratch(pltpu.SMEM((1,), jnp.int32), "unused"))
    arguments = [Argument((table or 1,), "int32", 4) for _ in range(tables)]
    arguments += [Argument(each.shape, each.dtype) for each in ins]
    return Program(call, tuple(arguments))


def mask_of(each: Operand, at: Sequence[Any], x: Any) -> Any:
    """A ragged block with zeros behind the edge."""
    kept = [dim for dim in range(len(each.block)) if dim not in each.squeezed]
    for dim in each.ragged:
        place = kept.index(dim)
        left = each.shape[dim] - each.indices[dim].of(*at) * each.block[dim]
        x = jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, place) < left, x, 0)
    return x


def read(choose: Random, each: Operand, ref: Any, copy: Any, scratch_refs: Sequence[Any], at: Sequence[Any]) -> Any:
    """An operand as a [1,1] array."""
    if each.space is pltpu.SMEM:
        first = (0,) * len(each.shape)
        last = tuple(size - 1 for size in each.shape)
        return (ref[first] + ref[last]).astype(jnp.float32) * 0.1
    if each.space is pl.ANY:
        buffer, semaphore = (scratch_refs[number] for number in copy)
        row = choose.randrange(2) * buffer.shape[0]
        copied = pltpu.make_async_copy(ref.at[pl.ds(row, buffer.shape[0])], buffer, semaphore)
        copied.start()
        copied.wait()
        return summed(choose, buffer[...])
    if choose.random() < 0.3 and not each.ragged and ref.ndim >= 2 and ref.shape[-2] >= 16:
        return summed(choose, ref[..., :8, :])
    x = ref[...]
    if each.ragged:
        x = mask_of(each, at, x.astype(jnp.float32))
    return summed(choose, x)


@dataclass(frozen=True)
class Scratch:
    """A scratch operand, and what the kernel does with it."""

    shape: Any
    use: str


def scratch_of(choose: Random, ins: Sequence[Operand]) -> tuple[list[Scratch], dict[int, tuple[int, int]]]:
    """Scratch operands; those of operands that are copied by hand, by the number of the operand."""
    found: list[Scratch] = []
    copies: dict[int, tuple[int, int]] = {}
    for number, each in enumerate(ins):
        if each.space is pl.ANY:
            copies[number] = (len(found), len(found) + 1)
            found += [
                Scratch(pltpu.VMEM((each.shape[0] // 2, each.shape[1]), each.dtype), "copy"),
                Scratch(pltpu.SemaphoreType.DMA, "copy"),
            ]
    for _ in range(choose.choice((0, 0, 1, 1, 2, 3))):
        match choose.randrange(8):
            case 0:
                size = choose.choice(((choose.randrange(1, 300),), (choose.randrange(1, 9), choose.randrange(1, 150))))
                found.append(Scratch(pltpu.SMEM(size, choose.choice((jnp.int32, jnp.float32))), "scalar"))
            case 1:
                found.append(
                    Scratch(choose.choice((pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR))((2,)), "none")
                )
            case _:
                dtype = choose.choice((*FLOATS, "int32", choose.choice(NARROW)))
                rank = choose.choice((1, 2, 2, 2, 3, 4))
                sizes = [choose.choice((1, 2, 3)) for _ in range(rank - 2)]
                sizes += [choose.choice((1, 3, 8, 16, 20, 64)), choose.choice((1, 100, 128, 256, 300))][-rank:]
                use = choose.choice(("sum", "sum", "sum", "written"))
                found.append(Scratch(pltpu.VMEM(tuple(sizes), dtype), use))
    return found, copies


def use_scratch(
    choose: Random, scratch: Sequence[Scratch], copied: set[Any], refs: Sequence[Any], total: Any, ids: Sequence[Any]
) -> Any:
    """Writes scratch, and reads most of it into the total."""
    for each, ref in zip(scratch, refs, strict=True):
        if each.use == "scalar":
            first = (0,) * len(ref.shape)
            ref[first] = jnp.int32(choose.randrange(9)).astype(ref.dtype)
            total += ref[first].astype(jnp.float32)
        elif each.use in ("sum", "written"):
            value = jnp.broadcast_to(total[0, 0], ref.shape) if choose.random() < 0.5 else jnp.full(ref.shape, 2.0)
            ref[...] = value.astype(jnp.float32).astype(ref.dtype)
            if each.use == "sum":
                total += summed(choose, ref[...])
    return total


def write(choose: Random, each: Operand, ref: Any, total: Any, ids: Sequence[Any], inner: int) -> None:
    """The total into an output, added up over the inner grid dimensions or only from the last step."""
    value = jnp.broadcast_to(total[0, 0], ref.shape)
    if jnp.issubdtype(ref.dtype, jnp.integer):
        value = jnp.clip(value, -1e6, 1e6)
    if not inner or choose.random() < 0.4:
        ref[...] = value.astype(ref.dtype)
        return
    axes = range(len(ids) - inner, len(ids))

    @when(sum(ids[axis] for axis in axes) == 0)
    def first() -> None:
        ref[...] = jnp.zeros(ref.shape, ref.dtype)

    ref[...] += value.astype(ref.dtype)


def program_of(name: str) -> Program:
    """The program of a name: a kind, and a seed."""
    kind, _, seed = name.rpartition("-")
    if kind == "random":
        return random_program(int(seed))
    from kernel_recipes import RECIPES

    return RECIPES[kind](Random(f"{kind} {seed}"))


# --- the compiler ---

_ALLOCATION = re.compile(
    r"^\s*(#allocation\d+) \[shape = '([^']*)', space=(\w+), size = (\w+)(.*?)(?:, tag = '(.*)')?\]$", re.M
)


def allocations(text: str) -> list[dict[str, Any]]:
    """The allocations of an LLO dump, without those at fixed addresses and without flags of synchronization."""
    found = []
    for _, shape, space, size, rest, tag in _ALLOCATION.findall(text):
        if "fixed_abs" not in rest and space != "sflag":
            offset = re.search(r"offset = (\w+)", rest)
            found.append({"shape": shape, "space": space, "size": int(size, 0), "tag": tag})
            found[-1] |= {"offset": int(offset[1], 0)} if offset else {}
    return found


def compile_to(folder: Path, topology: str, names: Sequence[str]) -> None:
    """Compiles programs; what the compiler refuses has its message."""
    dumps = folder / f"llo-{os.getpid()}"
    wanted = "|".join(PASSES)
    os.environ["LIBTPU_INIT_ARGS"] = (
        f"--xla_jf_dump_to={dumps} --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex={wanted}"
    )
    target = topologies.get_topology_desc(topology, "tpu")
    for name in names:
        (folder / f"{name}.txt").unlink(missing_ok=True)
        found: dict[str, Any] = {"topology": topology}
        try:
            program = program_of(name)
            given = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments]
            with jax.set_mesh(Mesh(target.devices[:1], ("x",))):
                lowered = jax.jit(program.run).trace(*given).lower()
                (folder / f"{name}.before.txt").write_text(lowered.compiler_ir("hlo").as_hlo_text())
                options = {
                    "xla_dump_to": str(dumps / "hlo"),
                    "xla_dump_hlo_as_text": True,
                    "xla_dump_large_constants": True,
                }
                lowered.compile(compiler_options=options)
            # Not `as_text`: jaxlib cannot read all asynchronous operations of a newer libtpu. Sizes are known after codegen.
            texts = [*(dumps / "hlo").glob("*after_codegen.txt")]
            text = max(texts, key=lambda path: path.stat().st_size).read_text()
            (folder / f"{name}.txt").write_text(text)
            calls = re.findall(r"%(\S+) = .*custom_call_target=\"tpu_custom_call\"", text)
            found["kernels"] = {call: [_dumped(dumps, call, label) for label in PASSES] for call in calls}
        except Exception as error:  # noqa: BLE001 - what jax and libtpu refuse are errors of many types
            found["error"] = f"{type(error).__name__}: {error}"[:4000]
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1))
        shutil.rmtree(dumps, ignore_errors=True)


def _dumped(dumps: Path, call: str, label: str) -> list[dict[str, Any]] | None:
    paths = [
        path for path in dumps.glob("*.txt") if re.fullmatch(rf"\d+-{re.escape(call)}-\d+-{label}\.txt", path.name)
    ]
    return allocations(paths[0].read_text()) if len(paths) == 1 else None


def values_to(folder: Path, names: Sequence[str]) -> None:
    """Runs programs in interpret mode: uninitialized memory is zero, and what lies behind ragged edges."""
    for name in names:
        try:
            is_tpu = jax.sharding.use_abstract_mesh(
                AbstractMesh((), (), abstract_device=AbstractDevice("TPU v5 lite", 1, "tpu"))
            )
            with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(uninitialized_memory="zero")), is_tpu:
                program = program_of(name)
                given = program.given(0)
                results = jax.tree.leaves((program.reference or jax.jit(program.run))(*given))
            arrays = {f"argument{at}": _plain(each) for at, each in enumerate(given)}
            arrays |= {f"result{at}": _plain(each) for at, each in enumerate(results)}
            np.savez(folder / f"{name}.npz", **arrays)
        except Exception as error:  # noqa: BLE001 - as above
            pltpu.reset_tpu_interpret_mode_state()
            runtime_tokens.clear()  # they wait for the callback that failed, and so would all programs after this one
            (folder / f"{name}.error").write_text(f"{type(error).__name__}: {error}"[:4000])


def _plain(value: Any) -> Any:
    """An array of a type that numpy can store: narrow floats and integers are exact in f32 and s32."""
    array = np.asarray(value)
    if array.dtype.isbuiltin == 1:
        return array
    is_float = jnp.issubdtype(array.dtype, jnp.floating)
    return array.astype(np.float32 if is_float else np.int32)


def lower_to(folder: Path, topology: str, names: Sequence[str]) -> None:
    """Writes the StableHLO of programs."""
    target = topologies.get_topology_desc(topology, "tpu")
    for name in names:
        program = program_of(name)
        given = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments]
        with jax.set_mesh(Mesh(target.devices[:1], ("x",))):
            (folder / f"{name}.mlir").write_text(jax.jit(program.run).trace(*given).lower().as_text())


def main(action: str, *rest: str) -> None:
    if action in ("compile", "lower"):
        topology, folder, *names = rest
        {"compile": compile_to, "lower": lower_to}[action](Path(folder), topology, names)
    else:
        folder, *names = rest
        values_to(Path(folder), names)


if __name__ == "__main__":
    os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu", "TPU_WORKER_HOSTNAMES": "localhost"}
    os.environ |= {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    main(*sys.argv[1:])
