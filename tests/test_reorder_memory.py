"""Memory schedules need no more than those of XLA's own schedulers, by XLA's temporary allocation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.transform.reorder import reorder
from running import STUB
from versions import needs_older_xla

_SIZES = (1, 2, 3, 5, 7, 9, 11, 13, 17, 19, 23, 29, 31)
_TEMPORARIES = (
    """
import json, sys
import jax
from jax._src.lib import _jax
from jaxlib import _hlo, _xla
"""
    + STUB
    + """
def temporaries(text, stage, scheduler):
    module = _hlo.hlo_module_from_text(text)
    given, (small, _) = module.as_serialized_hlo_module_proto(), stub(module)
    _xla.register_xla_transform("inject", stage, lambda ignored: given)
    try:
        options = _jax.CompileOptions()
        if scheduler:
            options.env_option_overrides = [("xla_cpu_scheduler_type", scheduler)]
        client = jax.devices("cpu")[0].client
        devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
        translated = _jax.mlir.hlo_to_stablehlo(small.as_serialized_hlo_module_proto())
        program = client.compile_and_load(translated, devices, options)
    finally:
        _xla.clear_xla_transform("inject", stage)
    return program.get_compiled_memory_stats().temp_size_in_bytes
print(json.dumps([[temporaries(*each) for each in asked] for asked in json.load(sys.stdin)]))
"""
)
_BEFORE, _BEHIND = 0, 1
"""Where a module takes the place of another: before XLA's scheduler or behind it."""


def odd_program(random: Random) -> str:
    """The text of a program of small arrays with unusual sizes, all of them used."""
    values: list[tuple[str, int]] = []
    lines: list[str] = []

    def add(size: int, operation: str) -> None:
        values.append((f"v{len(values)}", size))
        lines.append(f"{values[-1][0]} = f32[{size}] {operation}")

    for number in range(3):
        add(random.choice(_SIZES), f"parameter({number})")
    for _ in range(random.randrange(15, 40)):
        (name, size), (other, more) = random.choices(values[-8:], k=2)
        match random.randrange(5):
            case 0 | 1:
                add(size, f"{random.choice(('negate', 'sine', 'cosine', 'tanh'))}({name})")
            case 2:
                add(size, f"add({name}, {random.choice([v for v, n in values if n == size])})")
            case 3:
                cut = random.randrange(1, size + 1)
                add(cut, f"slice({name}), slice={{[0:{cut}]}}")
            case 4 if size + more < 60:
                add(size + more, f"concatenate({name}, {other}), dimensions={{0}}")
    used = {name for line in lines for name in re.findall(r"v\d+", line.partition("=")[2])}
    ends = [(name, size) for name, size in values if name not in used]
    shapes, names = ", ".join(f"f32[{size}]" for _, size in ends), ", ".join(name for name, _ in ends)
    return "\n".join(("HloModule m", "ENTRY e {", *lines, f"ROOT r = ({shapes}) tuple({names})", "}"))


@pytest.mark.oracle
@pytest.mark.slow
@needs_older_xla("since jaxlib 0.11, XLA:CPU wraps kernels in fusions earlier than it takes the texts of tests")
def test_memory_schedules_need_no_more_than_xlas_own() -> None:
    """XLA schedules the programs breadth-first, as on CPU, and for memory."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    asked = []
    for seed in range(100, 106):
        text = odd_program(Random(seed))
        ours = str(reorder(parse_module(text), "memory"))
        asked.append([[text, _BEFORE, ""], [text, _BEFORE, "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"], [ours, _BEHIND, ""]])
    answer = subprocess.run(
        [sys.executable, "-c", _TEMPORARIES],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    found: list[list[int]] = json.loads(answer.stdout.splitlines()[-1])
    assert [max(0, ours - min(xlas)) for *xlas, ours in found] == [0] * len(found)
    assert sum(ours for *_, ours in found) < sum(min(xlas) for *xlas, _ in found)
