"""A training step of a transformer at toy sizes, written in jax: HLO of over 2,000 instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, BATCH, LENGTH, WIDTH, HEADS, WORDS = 6, 2, 16, 32, 4, 64

Parameters = dict[str, Any]


def _parameters() -> Parameters:
    random = np.random.default_rng(1)

    def normal(*sizes: int) -> Any:
        return (0.2 * random.standard_normal(sizes)).astype(np.float32)

    layers = [
        {
            "scale": np.ones((2, WIDTH), np.float32),
            "shift": np.zeros((2, WIDTH), np.float32),
            "heads": normal(3, WIDTH, WIDTH),
            "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH),
            "down": normal(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    return {"words": normal(WORDS, WIDTH), "places": normal(LENGTH, WIDTH), "layers": layers}


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def _layer(x: Any, layer: Parameters) -> Any:
    y = _normalized(x, layer["scale"][0], layer["shift"][0])
    q, k, v = (
        (y @ layer["heads"][at]).reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3) for at in range(3)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(WIDTH // HEADS))
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
    x = x + mixed @ layer["out"]
    y = _normalized(x, layer["scale"][1], layer["shift"][1])
    return x + jax.nn.gelu(y @ layer["up"]) @ layer["down"]


def _loss(parameters: Parameters, tokens: Any) -> Any:
    x = parameters["words"][tokens] + parameters["places"]
    for layer in parameters["layers"]:
        x = _layer(x, layer)
    predicted = jax.nn.log_softmax(x @ parameters["words"].T)
    return -jnp.mean(jnp.take_along_axis(predicted[:, :-1], tokens[:, 1:, None], -1))


def _step(parameters: Parameters, moments: Parameters, tokens: Any) -> Any:
    loss, gradient = jax.value_and_grad(_loss)(parameters, tokens)
    moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, gradient)
    return loss, jax.tree.map(lambda p, m: p - 0.01 * m, parameters, moments), moments


def training_step() -> tuple[str, str, list[Any], Callable[[], Any]]:
    """The HLO before and after optimization by XLA:CPU, the arguments, and the compiled step."""
    parameters = _parameters()
    tokens = np.random.default_rng(2).integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    given = (parameters, jax.tree.map(np.zeros_like, parameters), tokens)
    lowered = jax.jit(_step).lower(*given)
    compiled = lowered.compile()
    arrays = [np.asarray(each) for each in jax.tree.leaves(given)]
    return (
        lowered.as_text(dialect="hlo"),
        compiled.as_text(),
        arrays,
        lambda: jax.block_until_ready(compiled(*given)),
    )
