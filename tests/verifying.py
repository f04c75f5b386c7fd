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

from running import QUICKLY, STUB

Verdict = Literal["accepted", "rejected", "unread", "unknown"]

_VERIFY = (
    """
import json, os, signal, sys
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
answered = 0
while answered < len(texts):
    read, write = os.pipe()
    if os.fork() == 0:
        unread, messages = os.pipe()
        os.close(unread)
        os.dup2(messages, 2)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        client = xla_client.make_cpu_client()
        devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
        with os.fdopen(write, "w") as said:
            for text in texts[answered:]:
                print(verdict(text), file=said, flush=True)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        for line in said:
            print(line, end="")
            answered += 1
    os.wait()
    if answered < len(texts):
        print("unknown")
        answered += 1
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
