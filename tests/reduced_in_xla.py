"""Pairs of reduced modules run by XLA:CPU: from a JSON list of texts and arguments, whether their results differ."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["JAX_ENABLE_X64"] = "1"

import numpy as np
from jaxlib import _jax

from evaluation_in_xla import by_xla
from evaluation_programs import Program


def array(values: list[str], dtype: str) -> np.ndarray[Any, Any]:
    """The elements of an argument from their texts."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([value == "True" for value in values])
    if kind.kind in "iu":
        return np.array(list(map(int, values)), kind)
    return (
        np.array([complex(value) for value in values]).astype(kind)
        if kind.kind == "c"
        else np.array(list(map(float, values)), kind)
    )


def outcome(texts: list[str], arguments: list[tuple[str, list[str]]], sizes: list[list[int]], types: list[str]) -> str:
    """`differ`, `same`, or the error of XLA."""
    given = [array(values, dtype).reshape(shape) for (dtype, values), shape in zip(arguments, sizes, strict=True)]
    try:
        old, new = (
            [np.asarray(each) for each in by_xla(Program("", "", text, tuple(types), ()), given)] for text in texts
        )
    except (_jax.JaxRuntimeError, ValueError, RuntimeError) as error:
        return str(error)[:300]
    same = all(
        a.shape == b.shape and np.allclose(a.astype(complex), b.astype(complex), rtol=1e-3, atol=1e-6, equal_nan=True)
        for a, b in zip(old, new, strict=True)
    )
    return "same" if same else "differ"


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    print(json.dumps([outcome(each["texts"], each["arguments"], each["sizes"], each["types"]) for each in asked]))
