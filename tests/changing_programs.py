"""A small transformer that is trained, with the choices that engineers change, compiled as a program for each choice.

    python changing_programs.py PLATFORM FOLDER [NAME…]

writes XLA's dumps of the named choices (all without names) to FOLDER/NAME. Runs with any jax since 0.4.3x.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

PLATFORM, FOLDER = (sys.argv[1], sys.argv[2]) if __name__ == "__main__" else ("cpu", "")
if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


@dataclass(frozen=True)
class Choices:
    """What is compiled; the names of the fields are those that the answers of the diffs are about."""

    layers: int = 3
    hidden: int = 256
    heads: int = 4
    batch: int = 8
    sequence: int = 64
    vocabulary: int = 1000
    dtype: str = "float32"
    attention: str = "softmax"
    activation: str = "gelu"
    optimizer: str = "sgd"
    rate: float = 0.01
    remat: bool = False
    donate: bool = False
    scan: bool = False
    scopes: bool = True
    mask: bool = False
    bias: bool = False
    mesh: tuple[int, ...] = ()
    reduce: str = "all"  # how a hand-written data-parallel step adds gradients
    shifted: bool = False  # the same program from lines further down
    forward: bool = False


BASE = Choices()
CHOICES: dict[str, Choices] = {
    "base": BASE,
    "hidden": replace(BASE, hidden=320),
    "batch": replace(BASE, batch=16),
    "sequence": replace(BASE, sequence=128),
    "vocabulary": replace(BASE, vocabulary=1200),
    "layers": replace(BASE, layers=4),
    "unscoped": replace(BASE, scopes=False),
    "unscoped_layers": replace(BASE, scopes=False, layers=4),
    "heads": replace(BASE, heads=8),
    "bf16": replace(BASE, dtype="bfloat16"),
    "sigmoid": replace(BASE, attention="sigmoid"),
    "kernel": replace(BASE, sequence=128, attention="kernel"),
    "relu": replace(BASE, activation="relu"),
    "adam": replace(BASE, optimizer="adam"),
    "rate": replace(BASE, rate=0.02),
    "remat": replace(BASE, remat=True),
    "donate": replace(BASE, donate=True),
    "scan": replace(BASE, scan=True),
    "scan_layers": replace(BASE, scan=True, layers=5),
    "scan_hidden": replace(BASE, scan=True, hidden=320),
    "mask": replace(BASE, mask=True),
    "bias": replace(BASE, bias=True),
    "shifted": replace(BASE, shifted=True),
    "mesh8": replace(BASE, mesh=(8,)),
    "mesh4": replace(BASE, mesh=(4,)),
    "mesh4x2": replace(BASE, mesh=(4, 2)),
    "psum": replace(BASE, mesh=(8,), reduce="psum"),
    "scatter": replace(BASE, mesh=(8,), reduce="scatter"),
    "forward": replace(BASE, forward=True),
    "forward_hidden": replace(BASE, forward=True, hidden=320),
}


def main(names: list[str]) -> None:
    for name in names or list(CHOICES):
        folder = os.path.join(FOLDER, name)
        try:
            compile_one(CHOICES[name], folder)
        except Exception as error:  # noqa: BLE001 what one compiler refuses, another takes
            print(name, repr(error)[:300])
        for file in os.listdir(folder) if os.path.isdir(folder) else ():
            if not file.endswith(("before_optimizations.txt", "after_optimizations.txt")):
                path = os.path.join(folder, file)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def compile_one(choices: Choices, folder: str) -> None:
    """Writes the dumps of a program; relative names of sources only."""
    import jax

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    options = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
    if PLATFORM == "cpu":
        options["xla_cpu_max_isa"] = "AVX2"
    lowered(choices).compile(compiler_options=options)


def devices(count: int) -> Any:
    import jax

    if PLATFORM == "cpu":
        return jax.devices("cpu")[:count]
    from jax.experimental import topologies

    return topologies.get_topology_desc("v5e:2x4", "tpu").devices[:count]


def lowered(choices: Choices) -> Any:
    """The step of training, or the loss alone, lowered for one device or a mesh."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    c = choices
    params = parameters(c)
    tokens = jax.ShapeDtypeStruct((c.batch, c.sequence), "int32")
    data = {"tokens": tokens, "targets": tokens}
    if c.mask:
        data["mask"] = jax.ShapeDtypeStruct((c.batch, c.sequence), "float32")
    count = int(np.prod(c.mesh)) if c.mesh else 1
    names = ("data", "model")[: len(c.mesh)] or ("data",)
    mesh = Mesh(np.array(devices(count)).reshape(c.mesh or (1,)), names)
    if c.reduce != "all":
        return by_hand(c, mesh, params, data)

    def placed(tree: Any, spec: Any) -> Any:
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec(x))), tree
        )

    def weights(x: Any) -> Any:
        split = len(c.mesh) == 2 and len(x.shape) > 1 and x.shape[-1] % c.mesh[1] == 0
        return PartitionSpec(*([None] * (len(x.shape) - 1)), "model") if split else PartitionSpec()

    params = placed(params, weights)
    state = {"params": params}
    if c.optimizer == "adam":
        state |= {"m": params, "v": params}
    data = placed(data, lambda x: PartitionSpec("data"))
    if c.forward:
        return jax.jit(partial(loss_of(c), c)).lower(params, data)
    function = shifted_step if c.shifted else step
    donated = {"donate_argnums": 0} if c.donate else {}
    return jax.jit(partial(function, c), **donated).lower(state, data)


def by_hand(c: Choices, mesh: Any, params: Any, data: Any) -> Any:
    """Data-parallel training with collectives written by hand."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        raise NotImplementedError("no shard_map")

    def summed(x: Any) -> Any:
        if c.reduce == "psum" or x.shape[0] % 8:
            return jax.lax.psum(x, "data")
        part = jax.lax.psum_scatter(x, "data", scatter_dimension=0, tiled=True)
        return jax.lax.all_gather(part * 1.0, "data", axis=0, tiled=True)

    def train(params: Any, data: Any) -> Any:
        gradients = jax.grad(partial(loss_of(c), c))(params, data)
        return jax.tree.map(lambda p, g: p - jnp.asarray(c.rate, p.dtype) * summed(g), params, gradients)

    shards = jax.tree.map(lambda _: P("data"), data)
    whole = jax.tree.map(lambda _: P(), params)
    mapped = shard_map(train, mesh=mesh, in_specs=(whole, shards), out_specs=whole, check_vma=False)
    return jax.jit(mapped).lower(params, data)


def parameters(c: Choices) -> Any:
    """Shapes of the parameters."""
    import jax

    def array(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, c.dtype)

    h = c.hidden
    layer = {name: array(h, h) for name in ("wq", "wk", "wv", "wo")}
    layer |= {"w1": array(h, 4 * h), "w2": array(4 * h, h), "norm1": array(h), "norm2": array(h)}
    if c.bias:
        layer |= {"b1": array(4 * h)}
    if c.scan:
        layers: Any = jax.tree.map(lambda x: array(c.layers, *x.shape), layer)
    else:
        layers = [layer for _ in range(c.layers)]
    return {"embedding": array(c.vocabulary, h), "layers": layers, "head": array(h, c.vocabulary)}


def loss_of(c: Choices) -> Any:
    return loss


def scope(c: Choices, name: str) -> Any:
    import contextlib

    import jax

    return jax.named_scope(name) if c.scopes else contextlib.nullcontext()


def loss(c: Choices, params: Any, data: Any) -> Any:
    import jax
    import jax.numpy as jnp

    with scope(c, "embed"):
        x = params["embedding"][data["tokens"]]
    block = partial(layer, c)
    if c.remat:
        block = jax.checkpoint(block)
    if c.scan:
        x, _ = jax.lax.scan(lambda x, w: (block(w, x, data.get("mask")), None), x, params["layers"])
    else:
        for number, weights in enumerate(params["layers"]):
            with scope(c, f"layers_{number}"):
                x = block(weights, x, data.get("mask"))
    with scope(c, "head"):
        logits = (x @ params["head"]).astype(jnp.float32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), data["targets"][..., None], axis=-1)
    return -chosen.mean()


def layer(c: Choices, w: Any, x: Any, mask: Any) -> Any:
    import jax

    with scope(c, "attention"):
        x = x + attention(c, w, normed(x, w["norm1"]), mask)
    with scope(c, "mlp"):
        y = normed(x, w["norm2"]) @ w["w1"]
        if c.bias:
            y = y + w["b1"]
        y = jax.nn.gelu(y) if c.activation == "gelu" else jax.nn.relu(y)
        return x + y @ w["w2"]


def normed(x: Any, scale: Any) -> Any:
    import jax
    import jax.numpy as jnp

    mean = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean + 1e-6) * scale


def attention(c: Choices, w: Any, x: Any, mask: Any) -> Any:
    import jax

    b, s, h = x.shape
    q, k, v = ((x @ w[name]).reshape(b, s, c.heads, h // c.heads).transpose(0, 2, 1, 3) for name in ("wq", "wk", "wv"))
    if c.attention == "kernel":
        mixed = flash(c, q, k, v)
    else:
        scores = q @ k.swapaxes(-1, -2) / (h // c.heads) ** 0.5
        if mask is not None:
            scores = scores + mask[:, None, None, :].astype(scores.dtype)
        weights = jax.nn.softmax(scores) if c.attention == "softmax" else jax.nn.sigmoid(scores)
        mixed = weights @ v
    return mixed.transpose(0, 2, 1, 3).reshape(b, s, h) @ w["wo"]


def flash(c: Choices, q: Any, k: Any, v: Any) -> Any:
    """Attention as one custom call."""
    if PLATFORM == "tpu":
        from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

        return flash_attention(q, k, v)
    import jax

    shape = jax.ShapeDtypeStruct(q.shape, q.dtype)

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def call(q: Any, k: Any, v: Any) -> Any:
        return jax.ffi.ffi_call("my_flash_attention", shape)(q, k, v)

    def forward(q: Any, k: Any, v: Any) -> Any:
        return call(q, k, v), (q, k, v)

    def backward(saved: Any, g: Any) -> Any:
        return jax.ffi.ffi_call("my_flash_attention_backward", (shape,) * 3)(*saved, g)

    call.defvjp(forward, backward)
    return call(q, k, v)


def step(c: Choices, state: Any, data: Any) -> Any:
    import jax
    import jax.numpy as jnp

    value, gradients = jax.value_and_grad(partial(loss, c))(state["params"], data)
    if c.optimizer == "sgd":
        new = jax.tree.map(lambda p, g: p - jnp.asarray(c.rate, p.dtype) * g, state["params"], gradients)
        return {"params": new}, value
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
    new = jax.tree.map(lambda p, m, v: p - c.rate * m / (jnp.sqrt(v) + 1e-8), state["params"], m, v)
    return {"params": new, "m": m, "v": v}, value


def shifted_step(c: Choices, state: Any, data: Any) -> Any:
    import jax
    import jax.numpy as jnp

    value, gradients = jax.value_and_grad(partial(loss, c))(state["params"], data)
    new = jax.tree.map(lambda p, g: p - jnp.asarray(c.rate, p.dtype) * g, state["params"], gradients)
    return {"params": new}, value


shifted_step.__name__ = "step"

if __name__ == "__main__":
    main(sys.argv[3:])
