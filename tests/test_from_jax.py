"""`from_jax` on the objects of JAX itself: what it reads is what `parse_module` reads in the text that JAX prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from versions import IS_NEWER_XLA

HERE = Path(__file__).parent
OPTIMIZED = (
    *("function", "shapes", "partial", "Traced", "Lowered", "Compiled", "load", "LoadedExecutable", "HloModule"),
)
JAXPR = "Jaxpr" if IS_NEWER_XLA else "ClosedJaxpr"  # jax 0.11 merged the two
LOWERED = ("lowered function", "lowered Traced", "lowered Lowered", "XlaComputation")

pytestmark = pytest.mark.oracle


@cache
def found() -> dict[str, Any]:
    """What is read of each kind of object, or the error and its hint."""
    if find_spec("jax") is None:  # not imported here: a process with JAX cannot fork
        pytest.skip("jax is not installed")
    flags = "--xla_force_host_platform_device_count=4"
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [sys.executable, str(HERE / "jax_objects.py")],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read


@pytest.mark.parametrize("kind", OPTIMIZED)
def test_optimized_modules_are_those_of_the_text(kind: str) -> None:
    read, text = dict(found()[kind]), dict(found()["text"])
    assert text["scheduled"]
    assert text["fusions"]
    assert sum(text.pop("constants")) == 0  # the text elides the table,
    assert sum(read.pop("constants")) == 1  # the proto has it whole,
    assert text.pop("assignment") is None
    assert (read.pop("assignment") is None) == (kind == "HloModule")  # and the executable its buffers
    assert text.pop("allocated_bytes") is None
    assert (read.pop("allocated_bytes") is None) == (kind == "HloModule")
    assert read == text


@pytest.mark.parametrize("kind", LOWERED)
def test_lowered_modules_are_those_of_the_text(kind: str) -> None:
    read, text = dict(found()[kind]), dict(found()["lowered text"])
    assert not text["scheduled"]
    assert not text["fusions"]
    assert any("jax_objects.py" in place for place in read.pop("places"))  # the text has none
    assert set(text.pop("places")) == {"None"}
    assert read == text


@pytest.mark.parametrize("kind", ["StableHLO", "StableHLO text", "Exported"])
def test_stablehlo_is_read_as_xla_reads_it(kind: str) -> None:
    read, text = found()[kind], found()["lowered text"]
    same = ("name", "scheduled", "instructions", "cost", "collectives", "partitions")
    assert {name: read[name] for name in same} == {name: text[name] for name in same}
    assert sorted(read["constants"]) == sorted(text["constants"])


def test_methods_and_sharded_functions_are_read() -> None:
    assert found()["method"]["name"] == "jit_forward"
    sharded = found()["sharded"]
    assert (sharded["partitions"], sorted(sharded["collectives"])) == (4, ["all-gather", "all-reduce"])


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("missing argument", "do not fit function step: missing a required argument: 'x'", "from_jax(f, x)"),
        ("plain function", "not a jitted function", "jax.jit(f)"),
        ("array", "a value of type ArrayImpl is not a program", "a jitted function with its arguments"),
        ("jaxpr", f"a value of type {JAXPR} is not a program", "a jitted function with its arguments"),
        ("lowered Compiled", "has only the optimized module", "Lowered"),
    ],
)
def test_errors(kind: str, message: str, hint: str) -> None:
    said = found()[kind]
    assert message in said[0]
    assert hint in said[1]


def test_the_compiler_and_the_library_count_the_same_buffers() -> None:
    """The allocations of the executable's buffer assignment hold the peak that is computed from the text."""
    compiled = found()["Compiled"]
    assert compiled["assignment"] > 3
    assert 2 * 64 * 64 * 4 < compiled["peaks"][0][1] <= compiled["allocated_bytes"]
