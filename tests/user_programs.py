"""Twenty programs as users write them: `python user_programs.py NAME` runs one, for which XLA dumps what JAX compiles.

Each makes its first values by `jax.random` and single operations, so that helper modules stand next to what it jits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Array: TypeAlias = jax.Array
Tree: TypeAlias = dict[str, Array]
KEY = jax.random.PRNGKey(0)
PROGRAMS: dict[str, Callable[[], None]] = {}


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[run.__name__] = run
    return run


def weights_of(*shape: int, seed: int = 0) -> Array:
    return jax.random.normal(jax.random.fold_in(KEY, seed), shape) / jnp.sqrt(shape[-2] if len(shape) > 1 else 1.0)


def descend(loss: Callable[..., Array], weights: Tree, *given: Array, donate: bool = False) -> None:
    """Two steps of gradient descent with momentum."""

    def train_step(weights: Tree, momentum: Tree, *given: Array) -> tuple[Tree, Tree, Array]:
        value, gradient = jax.value_and_grad(loss)(weights, *given)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum, value

    step = jax.jit(train_step, donate_argnums=(0, 1) if donate else ())
    momentum = jax.tree.map(jnp.zeros_like, weights)
    for _ in range(2):
        weights, momentum, _ = step(weights, momentum, *given)


def classifier_loss(weights: Tree, x: Array, y: Array) -> Array:
    for name in sorted(weights)[:-1]:
        x = jax.nn.relu(x @ weights[name])
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ weights["w3"]), y[:, None], axis=1))


def classifier(*, donate: bool) -> None:
    weights = {"w1": weights_of(784, 1024), "w2": weights_of(1024, 1024), "w3": weights_of(1024, 10)}
    x, y = jax.random.normal(KEY, (256, 784)), jax.random.randint(KEY, (256,), 0, 10)
    descend(classifier_loss, weights, x, y, donate=donate)


@program
def mlp() -> None:
    classifier(donate=False)


@program
def mlp_donated() -> None:
    classifier(donate=True)


def attention(weights: Tree, x: Array, heads: int = 8) -> Array:
    q, k, v = (
        part.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3) for part in jnp.split(x @ weights["qkv"], 3, -1)
    )
    scores = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k))
    return jnp.einsum("bhqk,bhkd->bhqd", scores, v).transpose(0, 2, 1, 3).reshape(x.shape) @ weights["out"]


def block_loss(weights: Tree, x: Array) -> Array:
    x = x + attention(weights, x)
    x = x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]
    return jnp.mean(x * x)


def block_weights(width: int) -> Tree:
    return {
        "qkv": weights_of(width, 3 * width),
        "out": weights_of(width, width),
        "up": weights_of(width, 4 * width),
        "down": weights_of(4 * width, width),
    }


@program
def transformer() -> None:
    descend(block_loss, block_weights(256), jax.random.normal(KEY, (4, 128, 256)))


@program
def mixed_precision() -> None:
    def loss(weights: Tree, x: Array) -> Array:
        half: Tree = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
        return block_loss(half, x.astype(jnp.bfloat16)).astype(jnp.float32)

    descend(loss, block_weights(256), jax.random.normal(KEY, (4, 128, 256)))


@program
def dropout() -> None:
    def loss(weights: Tree, x: Array, key: Array) -> Array:
        kept = jax.random.bernoulli(key, 0.9, x.shape)
        return block_loss(weights, jnp.where(kept, x / 0.9, 0))

    descend(loss, block_weights(128), jax.random.normal(KEY, (8, 128, 128)), KEY)


@program
def convolutions() -> None:
    def loss(weights: Tree, x: Array) -> Array:
        for name in sorted(weights):
            x = lax.conv_general_dilated(x, weights[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x - x.mean((0, 1, 2)))
        return jnp.mean(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"))

    weights = {"c1": weights_of(3, 3, 3, 32), "c2": weights_of(3, 3, 32, 64), "c3": weights_of(3, 3, 64, 64)}
    descend(loss, weights, jax.random.uniform(KEY, (16, 32, 32, 3)))


@program
def recurrence() -> None:
    def cell(weights: Tree, h: Array, x: Array) -> tuple[Array, Array]:
        gate = jax.nn.sigmoid(x @ weights["xz"] + h @ weights["hz"])
        h = (1 - gate) * h + gate * jnp.tanh(x @ weights["xh"] + h @ weights["hh"])
        return h, h

    def loss(weights: Tree, xs: Array) -> Array:
        return jnp.mean((lax.scan(partial(cell, weights), jnp.zeros(xs.shape[1:]), xs)[1] - jnp.sin(xs)) ** 2)

    weights = {name: weights_of(256, 256, seed=at) for at, name in enumerate(("xz", "hz", "xh", "hh"))}
    descend(loss, weights, jax.random.normal(KEY, (60, 32, 256)))


@program
def rematerialized_layers() -> None:
    def layer(x: Array, weights: Tree) -> tuple[Array, None]:
        return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"], None

    def loss(weights: Tree, x: Array) -> Array:
        out: Array = lax.scan(jax.checkpoint(layer), x, weights)[0]
        return jnp.sum(out**2)

    weights = {"up": weights_of(6, 256, 1024), "down": weights_of(6, 1024, 256)}
    descend(loss, weights, jax.random.normal(KEY, (512, 256)))


@program
def sampling() -> None:
    def metropolis(key: Array, start: Array) -> Array:
        def move(x: Array, key: Array) -> tuple[Array, Array]:
            first, second = jax.random.split(key)
            y = x + 0.3 * jax.random.normal(first, x.shape)
            better = jnp.log(jax.random.uniform(second, x.shape[:1])) < jnp.sum(x * x - y * y, axis=-1)
            x = jnp.where(better[:, None], y, x)
            return x, x

        chain: Array = lax.scan(move, start, jax.random.split(key, 50))[1]
        return chain

    chain = jax.jit(metropolis)(KEY, jax.random.normal(KEY, (1000, 32)))
    jnp.quantile(chain[:, :, 0], 0.5)


@program
def batched_solver() -> None:
    def solve(a: Array, b: Array) -> Array:
        def improve(_: int, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, r, p = state
            q = a @ p
            rate = (r @ r) / (p @ q)
            rest = r - rate * q
            return x + rate * p, rest, rest + (rest @ rest) / (r @ r) * p

        solved: Array = lax.fori_loop(0, 20, improve, (jnp.zeros_like(b), b, b))[0]
        return solved

    m = jax.random.normal(KEY, (64, 128, 128))
    jax.jit(jax.vmap(solve))(m @ m.transpose(0, 2, 1) + 128 * jnp.eye(128), jax.random.normal(KEY, (64, 128)))


@program
def recommendations() -> None:
    def loss(weights: Tree, users: Array, items: Array) -> Array:
        return jnp.mean((jnp.sum(weights["users"][users] * weights["items"][items], axis=-1) - 1) ** 2)

    users, items = jax.random.randint(KEY, (4096,), 0, 20000), jax.random.randint(KEY, (4096,), 0, 5000)
    descend(loss, {"users": weights_of(20000, 64), "items": weights_of(5000, 64)}, users, items)


@program
def nearest_neighbors() -> None:
    def search(queries: Array, table: Array) -> tuple[Array, Array]:
        distances = jnp.sum(queries**2, axis=-1)[:, None] - 2 * queries @ table.T + jnp.sum(table**2, axis=-1)
        scores, places = lax.top_k(-distances, 10)
        return scores, jnp.argsort(jnp.argsort(places, axis=-1), axis=-1)

    jax.jit(search)(jax.random.normal(KEY, (128, 64)), jax.random.normal(KEY, (20000, 64)))


@program
def spectral_method() -> None:
    def flow(u: Array) -> Array:
        waves = jnp.fft.fftfreq(256)[:, None] ** 2 + jnp.fft.rfftfreq(256) ** 2

        def advance(u: Array, _: None) -> tuple[Array, Array]:
            u = jnp.fft.irfft2(jnp.fft.rfft2(u - 0.01 * u * u) * jnp.exp(-0.5 * waves), s=u.shape[-2:])
            return u, jnp.mean(u * u)

        return jnp.asarray(lax.scan(advance, u, None, length=10)[1])

    jax.jit(flow)(jax.random.normal(KEY, (8, 256, 256)))


@program
def mixture_of_experts() -> None:
    def loss(weights: Tree, x: Array) -> Array:
        gates, chosen = lax.top_k(jax.nn.softmax(x @ weights["router"]), 2)
        dispatch = jax.nn.one_hot(chosen, 8)
        grouped = jnp.einsum("tke,td->etd", dispatch, x)
        out = jnp.einsum(
            "etf,efd->etd", jax.nn.gelu(jnp.einsum("etd,edf->etf", grouped, weights["up"])), weights["down"]
        )
        return jnp.mean(jnp.einsum("etd,tk,tke->td", out, gates, dispatch) ** 2)

    weights = {"router": weights_of(128, 8), "up": weights_of(8, 128, 512), "down": weights_of(8, 512, 128)}
    descend(loss, weights, jax.random.normal(KEY, (512, 128)))


@program
def diffusion() -> None:
    def loss(weights: Tree, x: Array, key: Array) -> Array:
        noise = jax.random.normal(key, x.shape)
        h = lax.conv_general_dilated(
            x + noise, weights["in"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        h = jax.nn.silu((h - h.mean((1, 2), keepdims=True)) / jnp.sqrt(h.var((1, 2), keepdims=True) + 1e-5))
        h = jax.image.resize(h, (*x.shape[:3], h.shape[-1]), "nearest")
        return jnp.mean((jnp.concatenate([h, x], axis=-1) @ weights["out"] - noise) ** 2)

    weights = {"in": weights_of(3, 3, 3, 64), "out": weights_of(67, 3)}
    descend(loss, weights, jax.random.normal(KEY, (16, 64, 64, 3)), KEY)


@program
def graph_network() -> None:
    def loss(weights: Tree, nodes: Array, source: Array, target: Array) -> Array:
        sent = jax.nn.relu(jnp.concatenate([nodes[source], nodes[target]], axis=-1) @ weights["edge"])
        return jnp.mean(jax.nn.relu(nodes @ weights["node"] + jax.ops.segment_sum(sent, target, nodes.shape[0])) ** 2)

    source, target = (jax.random.randint(jax.random.fold_in(KEY, at), (30000,), 0, 5000) for at in range(2))
    weights = {"edge": weights_of(128, 64), "node": weights_of(64, 64)}
    descend(loss, weights, jax.random.normal(KEY, (5000, 64)), source, target)


@program
def decoding() -> None:
    def decode(weights: Tree, cache: Array, x: Array, place: int) -> tuple[Array, Array]:
        q, k = x @ weights["q"], x @ weights["k"]
        cache = lax.dynamic_update_slice(cache, k[:, None], (0, place, 0))
        scores = jnp.where(jnp.arange(1024) <= place, jnp.einsum("bd,btd->bt", q, cache), -1e9)
        return jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), cache) @ weights["out"], cache

    weights = {name: weights_of(256, 256, seed=at) for at, name in enumerate(("q", "k", "out"))}
    cache, x = jnp.zeros((8, 1024, 256)), jax.random.normal(KEY, (8, 256))
    step = jax.jit(decode)
    for place in range(3):
        x, cache = step(weights, cache, x, place)


@program
def simulation() -> None:
    def simulate(x: Array, v: Array) -> Array:
        def advance(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            x, v = state
            apart = x[:, None] - x
            v = v - 0.01 * jnp.sum(apart * (jnp.sum(apart**2, axis=-1) + 1e-3)[..., None] ** -1.5, axis=1)
            return (x + 0.01 * v, v), jnp.sum(v * v)

        return jnp.asarray(lax.scan(advance, (x, v), None, length=20)[1])

    jax.jit(simulate)(jax.random.normal(KEY, (512, 3)), jnp.zeros((512, 3)))


@program
def sharded_training() -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ("data", "model"))

    def place(x: Array, *axes: str | None) -> Array:
        return jax.device_put(x, NamedSharding(mesh, P(*axes)))

    def loss(weights: Tree, x: Array) -> Array:
        return jnp.mean((jax.nn.gelu(x @ weights["up"]) @ weights["down"] - x) ** 2)

    weights = {
        "up": place(weights_of(512, 2048), None, "model"),
        "down": place(weights_of(2048, 512), "model", None),
    }
    descend(loss, weights, place(jax.random.normal(KEY, (512, 512)), "data", None))


@program
def ring() -> None:
    mesh = Mesh(np.array(jax.devices()), ("d",))
    size = mesh.size

    def rotate(x: Array, w: Array) -> Array:
        def turn(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            total, w = state
            return (
                total + jnp.tanh(x @ w.T) @ w,
                lax.ppermute(w, "d", [(at, (at + 1) % size) for at in range(size)]),
            ), None

        return jnp.asarray(lax.scan(turn, (jnp.zeros_like(x), w), None, length=size)[0][0])

    x = jax.random.normal(KEY, (1024, 256))
    jax.jit(shard_map(rotate, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d")))(x, x)


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
