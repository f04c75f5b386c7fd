"""XLA's own verifier, asked about modules as they stand: the CPU compiler looks at what takes a module's place in it.

The text goes through XLA's proto, which has no header: replica and partition counts, entry layouts and aliases are the
placeholder's, and computations that nothing calls are gone. Float types may mix, and layouts are not compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Literal

import pytest

from running import STUB

Verdict = Literal["accepted", "rejected", "unread", "unknown"]

_VERIFY = (
    """
import json, sys
from jaxlib import _hlo, _jax, _xla, xla_client
"""
    + STUB
    + """
def verdict(text):
    try:
        module = _hlo.hlo_module_from_text(text)
    except Exception:
        return "unread"
    given = module.as_serialized_hlo_module_proto()
    try:
        translated = _jax.mlir.hlo_to_stablehlo(stub(module)[0].as_serialized_hlo_module_proto())
    except Exception:
        return "unknown"
    _xla.register_xla_transform("verify", 0, lambda ignored: given)
    try:
        client.compile_and_load(translated, devices, _jax.CompileOptions())
    except Exception as error:
        behind = ("UNIMPLEMENTED", "Unsupported fusion kind", "No registered implementation", "must have backend config")
        if "during context" in str(error):
            return "rejected"
        return "accepted" if any(each in str(error) for each in behind) else "unknown"
    finally:
        _xla.clear_xla_transform("verify", 0)
    return "accepted"

client = xla_client.make_cpu_client()
devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
for line in sys.stdin:
    print(verdict(json.loads(line)), flush=True)
"""
)


def verdicts(texts: list[str]) -> list[Verdict]:
    """What becomes of each text; unknown where XLA ends the process, or cannot put it in another module's place."""
    pytest.importorskip("jaxlib._hlo")
    found: list[Verdict] = []
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    while len(found) < len(texts):
        waiting = "".join(f"{json.dumps(text)}\n" for text in texts[len(found) :])
        asked = subprocess.run(
            [sys.executable, "-c", _VERIFY],
            input=waiting,
            capture_output=True,
            check=False,
            env=environment,
            text=True,
            errors="replace",
        )
        found += asked.stdout.split()  # type: ignore[arg-type]
        if len(found) < len(texts):
            found.append("unknown")
    return found
