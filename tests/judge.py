"""Questions to jaxlib about many texts, in processes of their own, as some texts end the process that reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ANSWER_EACH = """
import json, os, signal, sys

def answer_each(texts, answer, unknown, prepare=lambda: None):
    answered = 0
    while answered < len(texts):
        read, write = os.pipe()
        if os.fork() == 0:
            unread, messages = os.pipe()
            os.close(unread)
            os.dup2(messages, 2)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            prepare()
            with os.fdopen(write, "w") as said:
                for text in texts[answered:]:
                    print(answer(text), file=said, flush=True)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            for line in said:
                print(line, end="")
                answered += 1
        os.wait()
        if answered < len(texts):
            print(unknown)
            answered += 1
"""
"""One process answers until a text ends it; its last words, which would take a tenth of a second, are not waited for."""

_ASK = (
    ANSWER_EACH
    + """
from jaxlib import _hlo
options = _hlo.HloPrintOptions()
options.print_large_constants = True
question, texts, prelude = json.load(sys.stdin)
exec(prelude)

def answer(text):
    global module  # for what the question defines
    try:
        module = _hlo.hlo_module_from_text(text)
        return eval(question)
    except Exception:
        return False

answer_each(texts, lambda text: json.dumps(answer(text)), "null")
"""
)


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
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return [json.loads(line) for line in asked.stdout.splitlines()]
