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

from judge import ANSWER_EACH
from running import QUICKLY, STUB

Verdict = Literal["accepted", "rejected", "unread", "unknown"]

_VERIFY = (
    ANSWER_EACH
    + """
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

texts = json.load(sys.stdin)
def prepare():
    global client, devices
    client = xla_client.make_cpu_client()
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))

answer_each(texts, verdict, "unknown", prepare)
"""
)


def verdicts(texts: list[str]) -> list[Verdict]:
    """What becomes of each text; unknown where XLA ends the process, or cannot put it in another module's place."""
    pytest.importorskip("jaxlib._hlo")
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}",
    }
    asked = subprocess.run(
        [sys.executable, "-c", _VERIFY],
        input=json.dumps(texts),
        capture_output=True,
        check=True,
        env=environment,
        text=True,
    )
    return asked.stdout.split()  # type: ignore[return-value]
