"""Random programs as jaxlib compiles them for the CPU: before its fusion passes, behind each, and at last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from random import Random

import pytest

from fusible_programs import fusible_program
from running import QUICKLY

_COMPILE = """
import glob, json, sys, tempfile
import jax
from jax._src.interpreters import mlir
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir
texts, options, several = json.load(sys.stdin)
client = jax.devices("cpu")[0].client
found = []
for text in texts:
    with tempfile.TemporaryDirectory() as place, mlir.make_ir_context():
        settings = _jax.CompileOptions()
        dumps = {"xla_dump_to": place, "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": "fusion"}
        settings.env_option_overrides = list({**dumps, **options}.items())
        module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        given = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module))
        program = client.compile_and_load(given, _jax.DeviceList(tuple(client.local_devices()[:1])), settings)
        patterns = ["*.before_fusion.txt", "*.after_fusion.*", "*.after_fusion-wrapper.*"]
        patterns += ["*.after_cpu_multi_output_fusion.*"] * several
        found.append([open(glob.glob(f"{place}/{pattern}")[0]).read() for pattern in patterns])
        options_of_text = _hlo.HloPrintOptions()
        options_of_text.print_large_constants = True
        found[-1].append(program.hlo_modules()[0].to_string(options_of_text))
print(json.dumps(found))
"""
SHARE = 16
"""Of the compiled programs those at first that are run in every form, the rest as they are fused and taken apart."""
_SEVERAL = "--xla_backend_extra_options=xla_cpu_use_multi_output_fusion"


@cache
def compiled(count: int, *, several: bool = False) -> list[list[str]]:
    """Before fusion, behind it, with lone operations wrapped, with kernels of `several` results, and at last."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    texts = [fusible_program(Random(seed)) for seed in range(count)]
    asked = subprocess.run(
        [sys.executable, "-c", _COMPILE],
        input=json.dumps((texts, {"xla_cpu_experimental_ynn_fusion_type": ""}, several)),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XLA_FLAGS": f"{QUICKLY} {_SEVERAL if several else ''}"},
    )
    found: list[list[str]] = json.loads(asked.stdout.splitlines()[-1])
    return found
