"""Questions to jaxlib about many texts, one process for each, as some of them end the process that reads them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_ASK = """
import json, os, sys
from jaxlib import _hlo
options = _hlo.HloPrintOptions()
options.print_large_constants = True
question, texts, prelude = json.load(sys.stdin)
exec(prelude)
for text in texts:
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            module = _hlo.hlo_module_from_text(text)
            answer = eval(question)
        except Exception:
            answer = False
        with os.fdopen(write, "w") as said:
            json.dump(answer, said)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        print(said.read() or "null", flush=True)
    os.wait()
"""


STABLEHLO = """
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
def verified(module):
    context = ir.Context()
    stablehlo.register_dialect(context)
    context.allow_unregistered_dialects = True
    translated = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    return ir.Module.parse(translated, context).operation.verify()
"""
"""Defines `verified(module)`, whether a module's translation into StableHLO keeps the rules of that."""


def ask_xla(texts: list[str], question: str = "True", *, prelude: str = "") -> list[object]:
    """What an expression says of the `module` that each text is for jaxlib, once the prelude has been run.

    False for a text that jaxlib rejects, None for one that ends its process. `options` print large constants too.
    """
    pytest.importorskip("jaxlib._hlo")
    asked = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=json.dumps((question, texts, prelude)),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in asked.stdout.splitlines()]
