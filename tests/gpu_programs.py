"""Random programs of JAX in families of operations: each has most of one family, and others around."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Choose = random.Random
Values = list[Any]
Step = Callable[[Any, Values, Choose], Any]

SHAPES = [
    *[(256,), (1 << 20,), (128, 512), (1000, 300), (2048, 4096), (8, 128, 256), (3, 5, 7), (4, 16, 64, 64), (64, 64)],
    *[
        (7, 1000),
        (33, 17, 128),
        (2, 2048, 512),
        (4096, 8),
        (100_000,),
        (270_336,),
        (540_672,),
        (16, 1 << 15),
        (32, 2, 40),
    ],
    *[(1 << 17, 4), (1, 4096), (4096, 1), (12, 24, 36), (2, 3, 4, 5, 6), (303_104,), (1 << 19, 2), (127,), (1025,)],
]
COMMON = ["float32", "float32", "float32", "bfloat16", "float16", "int32", "int8"]
RARE = ["uint8", "int16", "uint16", "uint32", "bool", "complex64", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
WIDE = ["float64", "int64", "uint64", "complex128"]
SIZES = [1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 96, 100, 128, 129, 256, 300, 512, 1000, 1024, 2048, 4096]
LARGEST = 1 << 24
DEVICES = 4


def like(x: Any, values: Values, choose: Choose) -> Any:
    """Another value of the same shape, as the same type."""
    y = choose.choice([y for y in values if y.shape == x.shape])
    return (y.real if jnp.iscomplexobj(y) and not jnp.iscomplexobj(x) else y).astype(x.dtype)


def floating(x: Any) -> Any:
    """The value as numbers that transcendental functions take."""
    is_wide = x.dtype in (jnp.bfloat16, jnp.float16, jnp.float32, jnp.float64, jnp.complex64, jnp.complex128)
    return x if is_wide else x.astype(jnp.float32)


def number(x: Any) -> Any:
    """The value as real numbers that have an order."""
    return floating(x.real if jnp.iscomplexobj(x) else x)


def axes(x: Any, choose: Choose) -> tuple[int, ...]:
    """Some dimensions."""
    return tuple(sorted(choose.sample(range(x.ndim), choose.randint(1, x.ndim))))


def elementwise(x: Any, values: Values, choose: Choose) -> Any:
    """An operation of each element."""
    match choose.randrange(9):
        case 0 | 1:
            y = like(x, values, choose)
            return choose.choice([jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.minimum])(x, y)
        case 2 | 3:
            names = [
                "exp",
                "tanh",
                "sin",
                "cos",
                "sqrt",
                "log1p",
                "abs",
                "rsqrt",
                "logistic",
                "expm1",
                "log",
                "tan",
                "square",
            ]
            return getattr(lax, choose.choice(names))(floating(x))
        case 4:
            names = ["erf", "floor", "cbrt", "round", "sign", "is_finite", "atan", "asin", "erf_inv", "ceil"]
            return getattr(lax, choose.choice(names))(number(x))
        case 5:
            y, z = number(x), number(like(x, values, choose))
            return choose.choice([lax.pow, lax.div, lax.rem, lax.atan2, lax.gt, lax.ne, lax.nextafter])(
                y, z.astype(y.dtype)
            )
        case 6:
            y, z = number(x).astype(jnp.int32), number(like(x, values, choose)).astype(jnp.int32)
            operations = [lax.div, lax.rem, lax.shift_left, lax.bitwise_and, lax.bitwise_xor, jnp.floor_divide, jnp.mod]
            return choose.choice(operations)(y, z)
        case 7:
            return jnp.where(number(like(x, values, choose)) > 0.5, x, like(x, values, choose))
        case _:
            return choose.choice([lambda v: jnp.clip(v, -1, 1), lax.integer_pow, jnp.negative])(number(x), *[])


def typed(x: Any, values: Values, choose: Choose) -> Any:
    """Another type, or other bits."""
    match choose.randrange(8):
        case 0 | 1 | 2:
            return number(x).astype(choose.choice(COMMON))
        case 3 | 4:
            return number(x).astype(choose.choice(RARE))
        case 5:
            return number(x).astype(choose.choice(WIDE))
        case 6:
            return lax.bitcast_convert_type(
                number(x).astype(jnp.float32), choose.choice([jnp.int32, jnp.int16, jnp.uint8])
            )
        case _:
            return lax.reduce_precision(number(x), 5, 10)


def reduction(x: Any, values: Values, choose: Choose) -> Any:
    """A reduction over some dimensions, of some type, of one or more arrays."""
    match choose.randrange(10):
        case 0 | 1 | 2:
            reduce = choose.choice([jnp.sum, jnp.max, jnp.min, jnp.mean, jnp.prod])
            return reduce(number(x), axis=choose.choice([None, *range(x.ndim)]))
        case 3 | 4:
            return choose.choice([jnp.sum, jnp.max])(number(x), axis=axes(x, choose))
        case 5:
            narrow = number(x).astype(choose.choice(["bfloat16", "float16", "int8", "int16", "float64", "int32"]))
            return lax.reduce(narrow, np.array(0, narrow.dtype), lax.add, axes(x, choose))
        case 6:
            return choose.choice([jnp.argmax, jnp.argmin])(number(x), axis=choose.randrange(x.ndim))
        case 7:
            one, other = number(x).astype(jnp.float32), number(like(x, values, choose)).astype(jnp.float32)
            both = lax.reduce((one, other), (np.float32(0), np.float32(1)), _add_and_multiply, axes(x, choose))
            return both[0] * both[1]
        case 8:
            return number(x) - jnp.mean(number(x), axis=-1, keepdims=True)
        case _:
            return jnp.var(number(x), axis=choose.randrange(x.ndim), keepdims=True) + number(x)


def _add_and_multiply(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] * other[1]


def move(x: Any, values: Values, choose: Choose) -> Any:
    """Elements at other places."""
    match choose.randrange(11):
        case 0 | 1 | 2:
            return jnp.transpose(x, choose.sample(range(x.ndim), x.ndim))
        case 3 | 4:
            parts = [x, *(like(x, values, choose) for _ in range(choose.choice([1, 1, 1, 2, 3, 4, 11])))]
            return jnp.concatenate(parts, axis=choose.randrange(x.ndim))
        case 5:
            pads = [(choose.randint(-1, 2), choose.randint(0, 2), choose.choice([0, 0, 1])) for _ in x.shape]
            return lax.pad(x, jnp.zeros((), x.dtype), pads)
        case 6:
            starts = [choose.randint(0, min(2, size - 1)) for size in x.shape]
            return lax.slice(x, starts, x.shape, [choose.choice([1, 1, 1, 2]) for _ in x.shape])
        case 7:
            return jnp.flip(x, axes(x, choose))
        case 8:
            return choose.choice(
                [jnp.reshape(x, (-1,)), jnp.reshape(x, (x.shape[0], -1)), jnp.reshape(x, x.shape[::-1])]
            )
        case 9:
            return jnp.broadcast_to(
                jnp.expand_dims(x, at := choose.randint(0, x.ndim)), (*x.shape[:at], 8, *x.shape[at:])
            )
        case _:
            return x + lax.broadcasted_iota(jnp.int32, x.shape, choose.randrange(x.ndim)).astype(x.dtype)


def update(x: Any, values: Values, choose: Choose) -> Any:
    """Slices and updates at computed places."""
    at = number(values[0]).reshape(-1)[0].astype(jnp.int32)
    rows, starts = max(1, x.shape[0] // 2), [at, *[0] * (x.ndim - 1)]
    places = jnp.arange(n := min(8, x.shape[0])) * 3 % x.shape[0] + at
    match choose.randrange(11):
        case 0:
            return lax.dynamic_slice(x, starts, (rows, *x.shape[1:]))
        case 1 | 2:
            return lax.dynamic_update_slice(x, like(x, values, choose)[:rows], starts)
        case 3:
            return lax.dynamic_update_slice(x, lax.dynamic_slice(x, starts, (rows, *x.shape[1:])) * 2, starts)
        case 4:
            return lax.dynamic_update_slice(
                x, x[:rows] + like(x, values, choose)[:rows], [choose.randint(0, 1), *starts[1:]]
            )
        case 5:
            return x.at[places].add(like(x, values, choose)[:n], indices_are_sorted=choose.random() < 0.5)
        case 6:
            return x.at[places].set(like(x, values, choose)[:n], unique_indices=choose.random() < 0.5)
        case 7:
            return jnp.take(x, places, axis=choose.randrange(x.ndim), mode=choose.choice(["clip", "fill", "wrap"]))
        case 8:
            return jnp.take_along_axis(x, (like(x, values, choose) != 0).astype(jnp.int32)[:1], axis=0)
        case 9:
            return x.at[at].set(like(x, values, choose)[0])
        case _:
            inner = lax.dynamic_update_slice(x, like(x, values, choose)[:rows], starts)
            return lax.dynamic_update_slice(inner, like(x, values, choose)[:1] * 2, [0] * x.ndim)


def window(x: Any, values: Values, choose: Choose) -> Any:
    """Reductions of windows, and sums of all before."""
    y = number(x)
    sizes = tuple(choose.choice([1, 2, 3, 9]) if size > 9 else 1 for size in y.shape)
    strides = tuple(choose.choice([1, 1, size]) for size in sizes)
    match choose.randrange(4):
        case 0 | 1:
            add = choose.choice([lax.add, lax.max])
            return lax.reduce_window(y, np.array(0, y.dtype), add, sizes, strides, choose.choice(["SAME", "VALID"]))
        case 2:
            pooled = jax.vjp(
                lambda v: lax.reduce_window(v, -np.inf, lax.max, sizes, strides, "SAME"), y.astype(jnp.float32)
            )
            return pooled[1](jnp.sin(pooled[0]))[0]
        case _:
            return choose.choice([jnp.cumsum, jnp.cumprod])(y, axis=choose.randrange(y.ndim))


def control(x: Any, values: Values, choose: Choose) -> Any:
    """A loop, scan, or branch with operations in it."""
    y, other, seed = number(x), number(like(x, values, choose)), choose.random()

    def body(v: Any, w: Any) -> Any:
        inner = random.Random(seed)
        made = inner.choice([elementwise, elementwise, reduction, move, update])(v, [v, w.astype(v.dtype)], inner)
        return v * 0.5 + (number(made).astype(v.dtype) if made.shape == v.shape else number(made).sum().astype(v.dtype))

    match choose.randrange(4):
        case 0:
            return lax.fori_loop(0, 5, lambda i, v: body(v, other) + i.astype(v.dtype), y)
        case 1:
            rows = y.reshape(y.shape[0], -1)
            return lax.scan(lambda c, row: (body(c, row), jnp.exp(c) * row), rows[0], rows)[1]
        case 2:
            return lax.cond(y.sum() > 0, lambda v: body(v, other), lambda v: jnp.sin(v) + 1, y)
        case _:
            start = (jnp.int32(0), y)
            return lax.while_loop(
                lambda c: (c[0] < 9) & (c[1].sum() < 9), lambda c: (c[0] + 1, body(c[1], other)), start
            )[1]


def library(x: Any, values: Values, choose: Choose) -> Any:
    """Kernels of libraries and random numbers, with operations around."""
    y = number(x).astype(jnp.float32)
    match choose.randrange(6):
        case 0:
            return jnp.sort(y, axis=choose.randrange(y.ndim))
        case 1:
            return lax.sort((y, like(x, values, choose)), dimension=y.ndim - 1)[1]
        case 2:
            return jnp.abs(jnp.fft.fft(y))
        case 3:
            return jax.random.uniform(jax.random.key(7), y.shape) * y
        case 4:
            rows = y.reshape(y.shape[0], -1)[:64, :64]
            return rows @ rows.T
        case _:
            return lax.top_k(y, min(4, y.shape[-1]))[0]


FAMILIES: dict[str, Step] = {
    step.__name__: step for step in (elementwise, typed, reduction, move, update, window, control, library)
}
SHARDED = "sharded"


def program(seed: int) -> tuple[str, Callable[..., Any], list[tuple[tuple[int, ...], str]]]:
    """Family of a random program, the program, and the shapes and types of its arguments."""
    outer = random.Random(seed)
    family = outer.choice([*FAMILIES, SHARDED])
    shape = outer.choice(SHAPES) if outer.random() < 0.5 else tuple(outer.choices(SIZES, k=outer.randint(1, 4)))
    while np.prod(shape) > LARGEST // 4:
        shape = shape[1:]
    if family == SHARDED:
        shape = (DEVICES * shape[0], *shape[1:])
    types = COMMON if outer.random() < 0.6 else [*COMMON, *RARE, *WIDE]
    arguments = [(shape, outer.choice(types)), (outer.choice([shape, shape[-1:]]), outer.choice(types))]
    count = outer.randint(4, 20)

    def run(*given: Any) -> tuple[Any, ...]:
        choose, values = random.Random(seed), list(given)
        for _ in range(3 * count):
            x = choose.choice(values[-6:] if choose.random() < 0.8 else values)
            name = family if family != SHARDED and choose.random() < 0.4 else choose.choice(list(FAMILIES)[:5])
            try:
                y = FAMILIES[name](x, values, choose) if x.ndim else x + 1
            except (
                TypeError,
                ValueError,
                IndexError,
                NotImplementedError,
            ):  # an operation that this type does not have
                continue
            if 0 < y.size <= LARGEST:
                values.append(y)
            if len(values) >= count:
                break
        return tuple(values[-choose.randint(1, 3) :])

    return family, run, arguments
