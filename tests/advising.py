"""Programs before and after an edit that a rule advises, as compilers leave them; each set of names is compiled once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parent / "advice_programs.py"
FIXTURES: Final = Path(__file__).parent.parent / "fixtures"
PLUGINS: Final = {"cpu": "jaxlib", "tpu": "libtpu", "gpu": "jax_cuda12_plugin"}
SETTINGS: Final = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
DEVICES: Final = "--xla_force_host_platform_device_count=4"
SECONDS: Final = 3000
"""What all programs of a target may take together, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The texts before and after optimizations, and the compiler's sizes in bytes: of arguments, results, and so on."""

    texts: Mapping[str, str]
    sizes: Mapping[str, float]


@cache
def edits(target: str, names: tuple[str, ...]) -> Mapping[str, tuple[Compiled, Compiled]]:
    """By name of the edit, the programs before and after: of the named edits, or of all if there are no names."""
    if find_spec("jax") is None or find_spec(PLUGINS[target]) is None:
        pytest.skip(f"{PLUGINS[target]} is not installed")
    search = os.pathsep.join((str(FIXTURES), os.environ.get("PYTHONPATH", "")))
    flags = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}".strip()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), target, *names],
        env={**os.environ, **SETTINGS, "XLA_FLAGS": flags, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, dict[str, str | float]]] = json.loads(done.stdout.splitlines()[-1])
    return {name: (_compiled(pair["before"]), _compiled(pair["after"])) for name, pair in found.items()}


def _compiled(found: Mapping[str, str | float]) -> Compiled:
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    return Compiled(texts, {key: value for key, value in found.items() if not isinstance(value, str)})
