"""Kernels as people write them, of random sizes and types, and those that JAX ships, for `kernel_programs.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import matmul as shipped_matmul
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm as grouped_product
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as paged
from jax.experimental.pallas.ops.tpu.paged_attention import quantization_utils
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as splash_mask

from kernel_programs import Argument, Program, when

RECIPES: dict[str, Callable[[Random], Program]] = {}


def recipe(make: Callable[[Random], Program]) -> Callable[[Random], Program]:
    """Adds a recipe by its name."""
    RECIPES[make.__name__] = make
    return make


def struct(shape: Sequence[int], dtype: str) -> Any:
    return jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype))


def vmem() -> Any:
    return pl.BlockSpec(memory_space=pltpu.VMEM)


# --- products ---


def product(choose: Random, dtype: str, total: str, out: str, scale: Callable[[Any], Any] = lambda x: x) -> Program:
    """A matrix product with a grid of three dimensions, its sum in scratch."""
    rows, inner, columns = choose.choice((32, 64, 128, 256)), choose.choice((128, 256)), choose.choice((128, 256))
    grid = tuple(choose.choice((1, 2, 3)) for _ in range(3))
    is_transposed = choose.random() < 0.3

    def kernel(x: Any, y: Any, o: Any, acc: Any) -> None:
        @when(pl.program_id(2) == 0)
        def first() -> None:
            acc[...] = jnp.zeros_like(acc)

        dims = (((1,), (1 if is_transposed else 0,)), ((), ()))
        acc[...] += lax.dot_general(x[...], scale(y[...]), dims, preferred_element_type=jnp.dtype(total))

        @when(pl.program_id(2) == grid[2] - 1)
        def last() -> None:
            o[...] = acc[...].astype(o.dtype)

    right = (columns, inner) if is_transposed else (inner, columns)
    index = (lambda i, j, k: (j, k)) if is_transposed else (lambda i, j, k: (k, j))
    call = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec((rows, inner), lambda i, j, k: (i, k)), pl.BlockSpec(right, index)],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        out_shape=struct((rows * grid[0], columns * grid[1]), out),
        scratch_shapes=[pltpu.VMEM((rows, columns), jnp.dtype(total))],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        name="product",
    )
    full = [columns * grid[1], inner * grid[2]] if is_transposed else [inner * grid[2], columns * grid[1]]
    return Program(call, (Argument((rows * grid[0], inner * grid[2]), dtype), Argument(tuple(full), dtype)))


@recipe
def matmul(choose: Random) -> Program:
    return product(choose, choose.choice(("float32", "bfloat16")), "float32", choose.choice(("float32", "bfloat16")))


@recipe
def matmul_int8(choose: Random) -> Program:
    return product(choose, "int8", "int32", choose.choice(("int32", "float32")))


@recipe
def matmul_fp8(choose: Random) -> Program:
    dtype = choose.choice(("float8_e4m3fn", "float8_e5m2"))
    return product(choose, dtype, "float32", "float32")


@recipe
def matmul_shipped(choose: Random) -> Program:
    rows, columns, inner = choose.choice((128, 256)), choose.choice((128, 256)), choose.choice((128, 256))
    counts = [choose.choice((1, 2)) for _ in range(3)]
    dtype = choose.choice(("float32", "bfloat16"))
    call = partial(shipped_matmul.matmul, block_shape=(rows, columns), block_k=inner)
    left = Argument((rows * counts[0], inner * counts[1]), dtype)
    return Program(call, (left, Argument((inner * counts[1], columns * counts[2]), dtype)))


@recipe
def quantized(choose: Random) -> Program:
    """A product with weights of four or eight bits, scaled per column."""
    rows, inner, columns = choose.choice((32, 64)), 128 * choose.choice((1, 2)), 128 * choose.choice((1, 2))
    steps, dtype = choose.choice((1, 2, 4)), choose.choice(("int8", "int4"))

    def kernel(x: Any, w: Any, scale: Any, o: Any) -> None:
        weights = w[...].astype(jnp.bfloat16)
        o[...] = jnp.dot(x[...], weights, preferred_element_type=jnp.float32) * scale[...]

    call = pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[
            pl.BlockSpec((rows, inner), lambda j: (0, 0)),
            pl.BlockSpec((inner, columns), lambda j: (0, j)),
            pl.BlockSpec((1, columns), lambda j: (0, j)),
        ],
        out_specs=pl.BlockSpec((rows, columns), lambda j: (0, j)),
        out_shape=struct((rows, columns * steps), "float32"),
        name="quantized",
    )
    x, w = Argument((rows, inner), "bfloat16"), Argument((inner, columns * steps), dtype)
    return Program(call, (x, w, Argument((1, columns * steps), "float32")))


@recipe
def batched(choose: Random) -> Program:
    """A batched product, with heads as squeezed or whole dimensions."""
    batch, rows, inner = choose.choice((2, 3)), choose.choice((8, 32, 64)), choose.choice((64, 128))
    dtype = choose.choice(("float32", "bfloat16"))

    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.einsum("bmk,bnk->bmn", x[...], y[...], preferred_element_type=jnp.float32)

    call = pl.pallas_call(kernel, out_shape=struct((batch, rows, rows), "float32"), name="batched")
    return Program(call, (Argument((batch, rows, inner), dtype), Argument((batch, rows, inner), dtype)))


# --- attention ---


@recipe
def attention(choose: Random) -> Program:
    """Attention by blocks with a running maximum, causal or not."""
    block, head, heads, steps = choose.choice((64, 128)), choose.choice((64, 128)), choose.choice((1, 2)), 2
    is_causal, dtype = choose.random() < 0.5, choose.choice(("float32", "bfloat16"))

    def kernel(q: Any, k: Any, v: Any, o: Any, m: Any, l: Any, acc: Any) -> None:  # noqa: E741
        i, j = pl.program_id(1), pl.program_id(2)

        @when(j == 0)
        def first() -> None:
            m[...] = jnp.full_like(m, -1e30)
            l[...] = jnp.zeros_like(l)
            acc[...] = jnp.zeros_like(acc)

        @when((j <= i) | (not is_causal))
        def step() -> None:
            s = lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
            if is_causal:
                row = lax.broadcasted_iota(jnp.int32, s.shape, 0) + i * block
                s = jnp.where(row >= lax.broadcasted_iota(jnp.int32, s.shape, 1) + j * block, s, -1e30)
            new = jnp.maximum(m[...], s.max(-1, keepdims=True))
            p, decay = jnp.exp(s - new[:, :1]), jnp.exp(m[...] - new)
            l[...] = l[...] * decay + p.sum(-1, keepdims=True)
            mixed = jnp.dot(p.astype(v.dtype), v[...], preferred_element_type=jnp.float32)
            acc[...] = acc[...] * decay[:, :1] + mixed
            m[...] = new

        @when(j == steps - 1)
        def last() -> None:
            o[...] = (acc[...] / l[...][:, :1]).astype(o.dtype)

    spec = pl.BlockSpec((None, block, head), lambda h, i, j: (h, i, 0))
    other = pl.BlockSpec((None, block, head), lambda h, i, j: (h, j, 0))
    call = pl.pallas_call(
        kernel,
        grid=(heads, steps, steps),
        in_specs=[spec, other, other],
        out_specs=spec,
        out_shape=struct((heads, block * steps, head), dtype),
        scratch_shapes=[*[pltpu.VMEM((block, 128), jnp.float32)] * 2, pltpu.VMEM((block, head), jnp.float32)],
        name="attention",
    )
    return Program(call, (Argument((heads, block * steps, head), dtype),) * 3)


@recipe
def flash_attention(choose: Random) -> Program:
    batch, heads, length, head = choose.choice((1, 2)), choose.choice((1, 2)), choose.choice((128, 256, 512)), 128
    dtype = choose.choice(("float32", "bfloat16"))
    block = choose.choice((128, length))
    sizes = flash.BlockSizes(block_q=block, block_k_major=block, block_k=block, block_b=1)
    is_causal, has_bias = choose.random() < 0.5, choose.random() < 0.3
    call = partial(flash.flash_attention, causal=is_causal, sm_scale=0.1, block_sizes=sizes)
    arguments = [Argument((batch, heads, length, head), dtype)] * 3
    if has_bias:
        arguments.append(Argument((batch, heads, length, length), "float32"))
    return Program(call, tuple(arguments))


@recipe
def flash_gradient(choose: Random) -> Program:
    length, dtype = choose.choice((128, 256)), choose.choice(("float32", "bfloat16"))
    names = ("block_q_major_dkv", "block_k_major_dkv", "block_k_dkv", "block_q_dkv", "block_k_major_dq", "block_k_dq")
    sizes = flash.BlockSizes(128, 128, 128, 1, **dict.fromkeys((*names, "block_q_dq"), 128))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return flash.flash_attention(q, k, v, causal=True, block_sizes=sizes).astype(jnp.float32).sum()

    return Program(jax.grad(loss, (0, 1, 2)), (Argument((1, 2, length, 128), dtype),) * 3)


@recipe
def splash_attention(choose: Random) -> Program:
    heads, length, head = choose.choice((1, 2)), choose.choice((256, 512)), choose.choice((64, 128))
    one = choose.choice((splash_mask.CausalMask((length, length)), splash_mask.FullMask((length, length))))
    if choose.random() < 0.3:
        one = splash_mask.LocalMask((length, length), (100, 0), 0)
    mask = splash_mask.MultiHeadMask([one] * heads)
    sizes = splash.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128)
    call = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)
    return Program(call, (Argument((heads, length, head), choose.choice(("float32", "bfloat16"))),) * 3)


@recipe
def paged_attention(choose: Random) -> Program:
    batch, heads, groups, head = choose.choice((2, 4)), choose.choice((1, 2)), choose.choice((1, 4, 8)), 128
    page, pages, per = choose.choice((16, 32)), choose.choice((2, 4)), choose.choice((1, 2))
    is_quantized, inline = choose.random() < 0.3, choose.random() < 0.5
    kinds = "bfloat16" if choose.random() < 0.6 else "float32"
    total = batch * pages
    arguments = [Argument((batch, heads * groups, head), kinds), *[Argument((heads, total, page, head), kinds)] * 2]
    if is_quantized:
        both = [Argument((heads, total, page, head), "int8"), Argument((heads, total, page, 1), "float32")]
        arguments[1:] = [*both, *both]
    arguments += [Argument((batch,), "int32", page * pages), Argument((batch, pages), "int32", total)]

    def run(q: Any, *rest: Any) -> Any:
        *pools, lengths, table = rest
        if is_quantized:
            pools = [quantization_utils.QuantizedTensor(*pools[:2]), quantization_utils.QuantizedTensor(*pools[2:])]
        return paged.paged_attention(q, *pools, lengths + 1, table, pages_per_compute_block=per, inline_seq_dim=inline)

    return Program(run, tuple(arguments))


@recipe
def ragged_attention(choose: Random) -> Program:
    tokens, sequences, page, per = 32, choose.choice((2, 3)), choose.choice((16, 32)), choose.choice((1, 2))
    q_heads, kv_heads, head, pages = (*choose.choice(((4, 2), (8, 4), (2, 2), (8, 1))), 128, choose.choice((2, 4)))
    dtype = choose.choice(("bfloat16", "float32"))
    kind = {"sm_scale": 0.1, "sliding_window": choose.choice((None, 20)), "soft_cap": choose.choice((None, 5.0))}
    limit = choose.choice((None, 48 << 20))
    sizes = {"num_kv_pages_per_block": per, "num_queries_per_block": 16, "vmem_limit_bytes": limit}
    call = partial(ragged.ragged_paged_attention, **kind, **sizes)
    reference = partial(ragged.ref_ragged_paged_attention, **kind)
    shapes = (
        Argument((tokens, q_heads, head), dtype),
        Argument((sequences * pages, page, 2 * kv_heads, head), dtype),
        Argument((sequences,), "int32"),
        Argument((sequences, pages), "int32"),
        Argument((sequences + 1,), "int32"),
        Argument((1,), "int32"),
    )

    def values(rng: np.random.Generator) -> Sequence[Any]:
        ends = np.sort(rng.integers(1, tokens, sequences - 1))
        starts = np.array([0, *ends, tokens], np.int32)
        lengths = np.minimum(np.diff(starts) + rng.integers(0, page, sequences), page * pages).astype(np.int32)
        lengths = np.maximum(lengths, np.diff(starts)).astype(np.int32)
        table = rng.permutation(sequences * pages).reshape(sequences, pages).astype(np.int32)
        return [shapes[0].value(rng), shapes[1].value(rng), lengths, table, starts, np.array([sequences], np.int32)]

    return Program(call, shapes, values, reference)


@recipe
def grouped(choose: Random) -> Program:
    """Megablox: products of groups of rows."""
    groups, rows, inner, columns = choose.choice((2, 4)), choose.choice((128, 256)), 128, choose.choice((128, 256))
    dtype, is_transposed = choose.choice(("float32", "bfloat16")), choose.random() < 0.3
    call = partial(grouped_product, tiling=(choose.choice((64, 128)), 128, 128), transpose_rhs=is_transposed)
    weights = (groups, columns, inner) if is_transposed else (groups, inner, columns)
    shapes = (Argument((rows, inner), dtype), Argument(weights, dtype), Argument((groups,), "int32"))

    def values(rng: np.random.Generator) -> Sequence[Any]:
        ends = np.sort(rng.integers(0, rows, groups - 1))
        sizes = np.diff(np.array([0, *ends, rows])).astype(np.int32)
        return [shapes[0].value(rng), shapes[1].value(rng), sizes]

    return Program(call, shapes, values)


# --- reductions, elementwise kernels, and moves ---


@recipe
def normalized(choose: Random) -> Program:
    """Layer normalization or softmax of rows, over a ragged number of rows."""
    block, width, steps = choose.choice((8, 16, 32)), choose.choice((128, 200, 384)), choose.choice((1, 2, 3))
    rows = block * steps - choose.choice((0, 0, 3))
    dtype, is_softmax = choose.choice(("float32", "bfloat16")), choose.random() < 0.5

    def kernel(x: Any, scale: Any, o: Any) -> None:
        y = x[...].astype(jnp.float32)
        if is_softmax:
            z = jnp.exp(y - y.max(-1, keepdims=True))
            o[...] = (z / z.sum(-1, keepdims=True)).astype(o.dtype)
        else:
            y = y - y.mean(-1, keepdims=True)
            o[...] = (y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * scale[...]).astype(o.dtype)

    spec = pl.BlockSpec((block, width), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel,
        grid=(pl.cdiv(rows, block),),
        in_specs=[spec, pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=spec,
        out_shape=struct((rows, width), dtype),
        name="normalized",
    )
    return Program(call, (Argument((rows, width), dtype), Argument((1, width), "float32")))


@recipe
def axpy(choose: Random) -> Program:
    """A scaled sum in place, its factor in scalar memory."""
    block, steps, dtype = choose.choice((8, 16, 64)), choose.choice((1, 2, 4)), choose.choice(("float32", "bfloat16"))

    def kernel(a: Any, x: Any, y: Any, o: Any) -> None:
        o[...] = a[0].astype(o.dtype) * x[...] + y[...]

    spec = pl.BlockSpec((block, 256), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), spec, spec],
        out_specs=spec,
        out_shape=struct((block * steps, 256), dtype),
        input_output_aliases={2: 0},
        name="axpy",
    )
    return Program(call, (Argument((1,), "float32"), *[Argument((block * steps, 256), dtype)] * 2))


@recipe
def transpose(choose: Random) -> Program:
    rows, columns = choose.choice((128, 256)), choose.choice((128, 256))
    grid = (choose.choice((1, 2)), choose.choice((1, 3)))
    dtype = choose.choice(("float32", "bfloat16", "int32"))

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...].T

    call = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec((rows, columns), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((columns, rows), lambda i, j: (j, i)),
        out_shape=struct((columns * grid[1], rows * grid[0]), dtype),
        name="transpose",
    )
    return Program(call, (Argument((rows * grid[0], columns * grid[1]), dtype),))


@recipe
def column_sum(choose: Random) -> Program:
    rows, steps, dtype = choose.choice((8, 32, 64)), choose.choice((2, 4)), choose.choice(("float32", "int32"))
    kind = choose.choice((jnp.sum, jnp.max, jnp.min))

    def kernel(x: Any, o: Any) -> None:
        part = kind(x[...], axis=0, keepdims=True)

        @when(pl.program_id(1) == 0)
        def first() -> None:
            o[...] = part

        @when(pl.program_id(1) > 0)
        def rest() -> None:
            o[...] = o[...] + part

    call = pl.pallas_call(
        kernel,
        grid=(2, steps),
        in_specs=[pl.BlockSpec((rows, 128), lambda i, j: (j, i))],
        out_specs=pl.BlockSpec((1, 128), lambda i, j: (0, i)),
        out_shape=struct((1, 256), dtype),
        name="column_sum",
    )
    return Program(call, (Argument((rows * steps, 256), dtype),))


@recipe
def gather(choose: Random) -> Program:
    """Rows by prefetched indices."""
    count, rows, width, dtype = choose.choice((4, 9)), 8, choose.choice((128, 512)), choose.choice(("float32", "int32"))

    def kernel(table: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + table[pl.program_id(0)].astype(o.dtype)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(count,),
        in_specs=[pl.BlockSpec((rows, width), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((rows, width), lambda i, table: (i, 0)),
    )
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=struct((rows * count, width), dtype), name="gather")
    return Program(call, (Argument((count,), "int32", 6), Argument((rows * 6, width), dtype)))


@recipe
def copied_by_hand(choose: Random) -> Program:
    """Blocks copied by hand into one of two buffers while the other is read."""
    rows, steps = choose.choice((8, 16, 32)), choose.choice((2, 4, 5))
    dtype = choose.choice(("float32", "bfloat16"))

    def kernel(x: Any, o: Any, buffers: Any, result: Any, semaphores: Any, done: Any) -> None:
        def copy(at: Any) -> Any:
            return pltpu.make_async_copy(x.at[pl.ds(at * rows, rows)], buffers.at[at % 2], semaphores.at[at % 2])

        copy(0).start()

        def step(at: Any, total: Any) -> Any:
            @when(at + 1 < steps)
            def following() -> None:
                copy(at + 1).start()

            copy(at).wait()
            return total + buffers[at % 2].astype(jnp.float32)

        total = lax.fori_loop(0, steps, step, jnp.zeros((rows, 128), jnp.float32))
        result[...] = total.astype(result.dtype)
        pltpu.async_copy(result, o, done).wait()

    call = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        out_shape=struct((rows, 128), dtype),
        scratch_shapes=[
            pltpu.VMEM((2, rows, 128), jnp.dtype(dtype)),
            pltpu.VMEM((rows, 128), jnp.dtype(dtype)),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA,
        ],
        name="copied_by_hand",
    )
    return Program(call, (Argument((rows * steps, 128), dtype),))


@recipe
def pipelined(choose: Random) -> Program:
    """A pipeline inside the kernel, made by `emit_pipeline`."""
    rows, steps, dtype = choose.choice((8, 16)), choose.choice((2, 4)), choose.choice(("float32", "bfloat16"))

    def inner(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] * y[...] + 1

    def kernel(x: Any, y: Any, o: Any) -> None:
        spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(steps,), in_specs=[spec, spec], out_specs=[spec])(x, y, o)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    shape = (rows * steps, 128)
    call = pl.pallas_call(
        kernel, in_specs=[whole] * 2, out_specs=whole, out_shape=struct(shape, dtype), name="pipelined"
    )
    return Program(call, (Argument(shape, dtype),) * 2)


@recipe
def sliced(choose: Random) -> Program:
    """Loops over dynamic slices of rows, and a strided read."""
    rows, step = choose.choice((32, 64)), choose.choice((8, 16))
    dtype, is_strided = choose.choice(("float32", "int32")), choose.random() < 0.5

    def kernel(x: Any, o: Any) -> None:
        def body(at: Any, total: Any) -> Any:
            first = pl.multiple_of(at * step, step)
            o[pl.ds(first, step), :] = x[pl.ds(first, step), :] * 2 + total
            return total + 1

        lax.fori_loop(0, rows // step, body, jnp.zeros((), jnp.dtype(dtype)))
        if is_strided:
            o[pl.ds(0, 8), :] = x[pl.ds(0, 8, stride=2), :]

    call = pl.pallas_call(kernel, out_shape=struct((rows, 128), dtype), name="sliced")
    return Program(call, (Argument((rows, 128), dtype),))


@recipe
def scalars(choose: Random) -> Program:
    """Loops over scalar memory: sums, bounds, and a search by `while`."""
    size = choose.choice((5, 16, 100))

    def kernel(x: Any, o: Any) -> None:
        o[0] = lax.fori_loop(0, size, lambda at, total: total + x[at] * at, 0)
        o[1] = lax.fori_loop(0, size, lambda at, most: jnp.maximum(most, x[at]), jnp.int32(-100))
        o[2] = lax.while_loop(lambda at: (at < size - 1) & (x[at] < 3), lambda at: at + 1, 0)
        o[3] = jnp.where(x[0] > 0, x[0] // 2, -x[0]) ^ 5

    whole = pl.BlockSpec(memory_space=pltpu.SMEM)
    call = pl.pallas_call(kernel, in_specs=[whole], out_specs=whole, out_shape=struct((4,), "int32"), name="scalars")
    return Program(call, (Argument((size,), "int32"),))


@recipe
def rotated(choose: Random) -> Program:
    """Rotary embedding: rolls, parts put together, and masks of iotas."""
    rows, width, shift = choose.choice((8, 32)), choose.choice((128, 256)), choose.choice((1, 64))
    dtype = choose.choice(("float32", "int32"))

    def kernel(x: Any, o: Any) -> None:
        value = x[...]
        column = lax.broadcasted_iota(jnp.int32, value.shape, 1)
        rolled = pltpu.roll(value, shift, 1)
        both = jnp.concatenate([value[:, : width // 2], rolled[:, width // 2 :]], axis=1)
        o[...] = jnp.where(column % 2 == 0, both, -both)

    call = pl.pallas_call(kernel, out_shape=struct((rows, width), dtype), name="rotated")
    return Program(call, (Argument((rows, width), dtype),))


@recipe
def chosen(choose: Random) -> Program:
    """The place of the maximum of rows, comparisons, and shapes that change."""
    rows, width = choose.choice((8, 16, 32)), choose.choice((128, 256))

    def kernel(x: Any, places: Any, o: Any) -> None:
        value = x[...]
        places[...] = jnp.argmax(value, axis=1).reshape(1, rows)
        folded = value.reshape(rows // 8, 8, width)
        o[...] = jnp.where(folded > 0.5, 1, 0).sum(0) + (folded.max(0) >= folded.min(0)).astype(jnp.int32)

    shapes = [struct((1, rows), "int32"), struct((8, width), "int32")]
    return Program(pl.pallas_call(kernel, out_shape=shapes, name="chosen"), (Argument((rows, width), "float32"),))


@recipe
def bits(choose: Random) -> Program:
    """Shifts, masks, and bits of floats read as integers."""
    rows = choose.choice((8, 24))

    def kernel(x: Any, y: Any, o: Any) -> None:
        raw = pltpu.bitcast(y[...], jnp.int32)
        mixed = (x[...] << 3) ^ (x[...] >> 1) | (raw & 0xFFFF)
        o[...] = mixed + lax.shift_right_logical(raw, 16) * lax.rem(x[...], 7)

    call = pl.pallas_call(kernel, out_shape=struct((rows, 128), "int32"), name="bits")
    return Program(call, (Argument((rows, 128), "int32"), Argument((rows, 128), "float32")))


@recipe
def converted(choose: Random) -> Program:
    """Casts between types, saturated and not."""
    rows, steps = 32, choose.choice((1, 2))
    source = choose.choice(("float32", "bfloat16", "int32", "int8"))
    target = choose.choice(("float32", "bfloat16", "int32", "int8", "float8_e5m2", "float8_e4m3fn"))

    def kernel(x: Any, o: Any) -> None:
        o[...] = (x[...].astype(jnp.float32) * 3).astype(o.dtype)

    spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    shape = (rows * steps, 128)
    call = pl.pallas_call(
        kernel, grid=(steps,), in_specs=[spec], out_specs=spec, out_shape=struct(shape, target), name="converted"
    )
    return Program(call, (Argument(shape, source),))


OF_FLOATS: tuple[Callable[[Any], Any], ...] = (
    *(jnp.sin, jnp.cos, jnp.tan, lax.erf, jnp.round, jnp.ceil, jnp.exp2, jnp.log1p, jnp.square, lax.logistic),
    *(lambda x: x**3, lambda x: jnp.power(jnp.abs(x), 1.5), lambda x: jnp.arctan2(x, x + 2), jnp.isnan, jnp.isfinite),
    *(lambda x: x % 0.3, lambda x: jnp.where(jnp.isinf(x / 0), 1.0, x), jnp.isinf, lambda x: lax.rem(x, 0.4)),
    *(lambda x: lax.nextafter(x, x + 1), lambda x: pl.reciprocal(x + 3), lambda x: jnp.clip(x, -0.2, 0.3)),
    *(lambda x: lax.erf_inv(x * 0.9), lambda x: lax.bitcast_convert_type(x, jnp.int32) >> 20, jnp.trunc, jnp.signbit),
)
OF_INTEGERS: tuple[Callable[[Any], Any], ...] = (
    *(lambda x: x // 3, lambda x: x % 5, lambda x: lax.div(x, x * 0 + 3), lax.population_count, lax.clz, lambda x: ~x),
    *(lambda x: x << 2, lambda x: x >> 1, lambda x: lax.shift_right_logical(x, x * 0 + 28), jnp.abs, jnp.sign),
    *(lambda x: jnp.maximum(x, 2) & 6, lambda x: x.astype(jnp.uint32) // 7, lambda x: (x > 2) | (x < -3)),
    *(lambda x: x.astype(jnp.uint32) > 5, lambda x: jnp.minimum(x.astype(jnp.uint32), 9), lambda x: x.astype(jnp.int8)),
    *(lambda x: ((x > 0) ^ (x > 3)).astype(jnp.int32), lambda x: x.astype(jnp.int16), lambda x: x * x * 1_000_003),
    *(lambda x: lax.bitcast_convert_type(x, jnp.float32) > 0, lambda x: x.astype(jnp.float32) * 0.5, jnp.logical_not),
)


@recipe
def functions(choose: Random) -> Program:
    """Elementwise functions, some of them of numbers in scalar memory."""
    of_floats, of_integers = choose.sample(OF_FLOATS, 4), choose.sample(OF_INTEGERS, 4)
    kinds = (jnp.float32, jnp.int32)

    def kernel(x: Any, y: Any, n: Any, floats: Any, integers: Any, numbers: Any) -> None:
        floats[...] = sum((f(x[...]).astype(jnp.float32) for f in of_floats), jnp.zeros(x.shape, jnp.float32))
        integers[...] = sum((f(y[...]).astype(jnp.int32) for f in of_integers), jnp.zeros(y.shape, jnp.int32))
        total = jnp.int32(0)
        for number in (n[0] // 3, n[1] % 5, n[2] * 7 - 2, n[3] << 2):
            total += number
        numbers[0] = total
        numbers[1] = (n[0].astype(jnp.float32) * 1.5).astype(jnp.int32) + jnp.where(n[1] > n[2], 1, n[3])

    sizes = ((16, 128), (16, 128))
    shapes = [jax.ShapeDtypeStruct(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
    scalar = pl.BlockSpec(memory_space=pltpu.SMEM)
    call = pl.pallas_call(
        kernel,
        in_specs=[vmem(), vmem(), scalar],
        out_specs=[vmem(), vmem(), scalar],
        out_shape=[*shapes, struct((2,), "int32")],
        name="functions",
    )
    return Program(call, (Argument(sizes[0], "float32"), Argument(sizes[1], "int32"), Argument((4,), "int32")))


@recipe
def shaped(choose: Random) -> Program:
    """Transposes, parts, repeats, pads, and reductions of arrays of three dimensions."""
    rows = choose.choice((8, 16))
    ways: list[Callable[[Any], Any]] = [
        lambda x: jnp.swapaxes(x, 0, 1).sum(1),
        lambda x: jnp.concatenate([x[0], x[1]], axis=0)[: x.shape[1]],
        lambda x: jnp.tile(x[0, :, :1], (1, 128)),
        lambda x: jnp.pad(x[1, :, :100], ((0, 0), (0, 28))),
        lambda x: jnp.broadcast_to(x.max(axis=(0, 2))[:, None], x.shape[1:]),
        lambda x: jnp.broadcast_to(x.min(axis=1)[0], x.shape[1:]),
        lambda x: jnp.stack([x[0, 0], x[1, 1]] * (x.shape[1] // 2)),
        lambda x: x.reshape(-1, 128)[: x.shape[1]] * 2,
        lambda x: jnp.where(jnp.all(x > -0.9, axis=0), x[0], x[1]),
        lambda x: jnp.where(jnp.any(x > 0.9, axis=0), x[0], x[1]),
        lambda x: jnp.broadcast_to(jnp.argmin(x[0], axis=0).astype(jnp.float32), x.shape[1:]),
        lambda x: x[0] + x[0, 0, 0] + x[1, 2, 3],
        lambda x: jnp.repeat(x[0, : x.shape[1] // 2], 2, axis=0),
        lambda x: jnp.einsum("bmk,bnk->bmn", x, x)[0].sum() + x[0],
        lambda x: jnp.split(x[0], 2, axis=1)[1].sum(1, keepdims=True) + x[0],
        lambda x: x[:, :4].sum(0).mean() + x[1],
    ]
    chosen = choose.sample(ways, 4)

    def kernel(x: Any, o: Any) -> None:
        o[...] = sum((way(x[...]) for way in chosen), jnp.zeros(o.shape, jnp.float32))

    call = pl.pallas_call(kernel, out_shape=struct((rows, 128), "float32"), name="shaped")
    return Program(call, (Argument((2, rows, 128), "float32"),))


@recipe
def branched(choose: Random) -> Program:
    """Branches by number, conditions that return values, and loops that carry several."""
    count = choose.choice((2, 3))

    def kernel(n: Any, x: Any, o: Any) -> None:
        first = lax.switch(n[0], [lambda v, k=k: v * (k + 1) for k in range(count)], x[...])
        second = lax.cond(n[1] > 1, lambda v: v + 1, lambda v: v - n[1], x[...])

        def step(at: Any, carried: Any) -> Any:
            total, most, number = carried
            row = x[pl.ds(at, 1), :]
            return total + row, jnp.maximum(most, row), number + at

        zero = jnp.zeros((1, 128), jnp.float32)
        total, most, number = lax.fori_loop(0, n[1] + 3, step, (zero, zero, jnp.int32(0)))
        while_ = lax.while_loop(lambda c: c[0] < n[2] + 2, lambda c: (c[0] + 1, c[1] * 2), (jnp.int32(0), zero + 1))
        o[...] = first + second + total * most + number.astype(jnp.float32) + while_[1]

    call = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), vmem()],
        out_specs=vmem(),
        out_shape=struct((16, 128), "float32"),
        name="branched",
    )
    return Program(call, (Argument((3,), "int32", 4), Argument((16, 128), "float32")))


@recipe
def scoped(choose: Random) -> Program:
    """Memory and semaphores of a part of the kernel, signals, and copies that are waited for at once."""
    rows = choose.choice((8, 16))

    def kernel(x: Any, o: Any) -> None:
        def part(buffer: Any, semaphore: Any, flag: Any) -> None:
            pltpu.async_copy(x.at[pl.ds(0, rows)], buffer, semaphore).wait()
            pl.semaphore_signal(flag, 2)
            pl.semaphore_wait(flag, 1)
            o[...] = buffer[...] * 2
            pl.semaphore_wait(flag, 1)
            pltpu.sync_copy(x.at[pl.ds(rows, rows)], buffer)
            o[...] += buffer[...]

        kinds = (pltpu.VMEM((rows, 128), jnp.float32), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR)
        pl.run_scoped(part, *kinds)

    call = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=vmem(),
        out_shape=struct((rows, 128), "float32"),
        name="scoped",
    )
    return Program(call, (Argument((2 * rows, 128), "float32"),))


@recipe
def masked(choose: Random) -> Program:
    """Masked and strided stores, rolls with strides, and elements taken by indices."""
    way = choose.randrange(5)

    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        match way:
            case 0:
                pltpu.store(o, x[...], mask=y[...] > 0)
            case 1:
                o[pl.ds(0, 8, stride=2), :] = x[pl.ds(0, 8), :]
                o[pl.ds(1, 8, stride=2), :] = x[pl.ds(8, 8), :] * 2
            case 2:
                o[...] = pltpu.roll(x[...], 3, 0) + pltpu.roll(x[...], 1, 1, stride=2, stride_axis=0)
            case 3:
                o[...] = jnp.take_along_axis(x[...], jnp.abs(y[...]) % 16, axis=0)
            case _:
                o[...] = jnp.take_along_axis(x[...], jnp.abs(y[...]) % 128, axis=1)

    call = pl.pallas_call(kernel, out_shape=struct((16, 128), "float32"), name="masked")
    return Program(call, (Argument((16, 128), "float32"), Argument((16, 128), "int32")))


@recipe
def packed(choose: Random) -> Program:
    """Narrow elements in words, read as other types, and rows of packed types."""
    way = choose.randrange(4)

    def kernel(x: Any, y: Any, o: Any) -> None:
        match way:
            case 0:
                words = pltpu.pack_elementwise([x[...], y[...]], packed_dtype=jnp.bfloat16)
                low = pltpu.unpack_elementwise(words, index=0, packed_dtype=jnp.bfloat16, unpacked_dtype=jnp.float32)
                o[...] = low + 1
            case 1:
                half = pltpu.bitcast(pltpu.bitcast(x[...].astype(jnp.bfloat16), jnp.int32), jnp.bfloat16)
                o[...] = half.astype(jnp.float32)
            case 2:
                bytes_ = pltpu.bitcast((y[...] * 9).astype(jnp.int32), jnp.int8)
                o[...] = bytes_[: o.shape[0]].astype(jnp.float32)
            case _:
                o[...] = x[...].astype(jnp.bfloat16)[3:4].astype(jnp.float32) * y[...]

    call = pl.pallas_call(kernel, out_shape=struct((32, 128), "float32"), name="packed")

    def rounded(x: Any, y: Any) -> Any:
        return x.astype(jnp.bfloat16).astype(jnp.float32) + 1

    # Interpret mode cannot pack elements.
    return Program(call, (Argument((32, 128), "float32"),) * 2, reference=None if way else rounded)


@recipe
def element_windows(choose: Random) -> Program:
    """Windows that begin at an element, and overlap."""
    rows, steps = 8, choose.choice((2, 3))

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[:8] + x[8:]

    call = pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (i * rows, 0))],
        out_specs=pl.BlockSpec((rows, 128), lambda i: (i, 0)),
        out_shape=struct((rows * steps, 128), "float32"),
        name="element_windows",
    )
    return Program(call, (Argument((rows * steps + 8, 128), "float32"),))


@recipe
def repeated(choose: Random) -> Program:
    """Several kernels in one program, one of them called twice with other layouts around."""
    rows, dtype = choose.choice((16, 64, 512)), choose.choice(("float32", "bfloat16"))

    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.tanh(x[...]) + 1

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def call(x: Any) -> Any:
        made = pl.pallas_call(
            kernel,
            grid=(rows // 8,),
            in_specs=[spec],
            out_specs=spec,
            out_shape=struct((rows, 128), dtype),
            name="inner",
        )
        return made(x)

    def run(x: Any, y: Any) -> Any:
        return call(call(x * 2) + y), call(y)[:8]

    return Program(run, (Argument((rows, 128), dtype),) * 2)


@recipe
def near_limit(choose: Random) -> Program:
    """Windows and scratch of about the size of the limit, of arrays that are too large for VMEM."""
    own = choose.choice((None, 1, 2, 5))
    limit = (own or choose.choice((16, 32))) << 20
    scratch_rows = choose.choice((0, 32, 96))
    left = limit - scratch_rows * 128 * 4
    kinds = [(choose.choice(("float32", "bfloat16", "int8")), choose.choice((128, 256)), choose.random() < 0.7)]
    kinds += [("float32", 128, True) for _ in range(choose.choice((1, 2)))]
    blocks = []
    for at, (dtype, columns, moves) in enumerate(kinds):
        row_bytes = columns * jnp.dtype(dtype).itemsize * (1 + moves)
        part = left if at == len(kinds) - 1 else left // choose.choice((2, 3, 5))
        rows = max(part // row_bytes // 32 * 32, 32)
        if at == len(kinds) - 1:
            rows = max(part // row_bytes // 8 * 8 + 8 * choose.choice((-3, -2, -1, 0, 1, 2, 3)), 8)
        blocks.append((rows, columns))
        left -= rows * row_bytes
    steps = (256 << 20) // (blocks[-1][0] * 512) + 2

    def kernel(*refs: Any) -> None:
        ins, out = refs[: len(kinds) - 1], refs[len(kinds) - 1]
        total = sum((ref[:8, :128].astype(jnp.float32) for ref in ins), jnp.zeros((8, 128), jnp.float32))
        if scratch_rows:
            refs[-1][pl.ds(pl.program_id(0) % 8, 8), :] = total
            total += refs[-1][:8, :]
        out[:8, :] = total

    def spec(at: int) -> Any:
        moves = kinds[at][2]
        return pl.BlockSpec(blocks[at], lambda i: (i if moves else 0, 0))

    shapes = [(rows * steps, columns) for rows, columns in blocks]
    call = pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[spec(at) for at in range(len(kinds) - 1)],
        out_specs=spec(len(kinds) - 1),
        out_shape=struct(shapes[-1], "float32"),
        scratch_shapes=[pltpu.VMEM((scratch_rows, 128), jnp.float32)] if scratch_rows else [],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=None if own is None else limit),
        name="near_limit",
    )
    return Program(call, tuple(Argument(shape, kind[0]) for shape, kind in zip(shapes[:-1], kinds, strict=False)))


# --- scratch that is passed on in registers ---


@recipe
def stored_and_loaded(choose: Random) -> Program:
    """Parts of scratch, which is stored and loaded in straight-line code: whole tiles, and parts of them."""
    rows, columns = 32, 256
    dtype = choose.choice(("float32", "bfloat16", "bfloat16", "int8"))
    starts = [(0, 32), (0, 32), (0, 32), (0, 32), (16, 32), (0, 8), (8, 24), (0, 4), (4, 12), (0, 20), (8, 32)]
    widths = [(0, 256), (0, 256), (0, 256), (0, 128), (128, 256), (0, 64), (64, 256), (64, 192)]

    def part() -> tuple[slice, slice]:
        return slice(*choose.choice(starts)), slice(*choose.choice(widths))

    def changed(x: Any, number: int) -> Any:
        return x ^ number if dtype == "int8" else x * number

    whole = (slice(0, rows), slice(0, columns))
    steps = [("store", whole if choose.random() < 0.8 else part())]
    steps += [(choose.choice(("store", "load")), part()) for _ in range(choose.randrange(1, 4))]
    steps.append(("load", choose.choice((part(), whole))))

    def kernel(x: Any, o: Any, scratch: Any) -> None:
        o[...] = x[...]
        for number, (step, at) in enumerate(steps, 2):
            if step == "store":
                scratch[at] = changed(x[at], number)
            else:
                loaded = changed(scratch[at], number)
                o[at] = o[at] ^ loaded if dtype == "int8" else o[at] + loaded  # so that no load is in vain

    spec = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    shape = (4 * rows, 4 * columns)
    call = pl.pallas_call(
        kernel,
        grid=(4, 4),
        in_specs=[spec],
        out_specs=spec,
        out_shape=struct(shape, dtype),
        scratch_shapes=[pltpu.VMEM((rows, columns), jnp.dtype(dtype))],
        name="stored_and_loaded",
    )
    return Program(call, (Argument(shape, dtype),))
