"""The kernels of `fixtures/kernels.py` as JAX lowers them, with what MLIR prints of each; and the same by jax 0.12.

`python tests/kernel_bodies.py` writes `tests/data/kernels_of_jax_0_12.json.gz`; jax 0.12 needs Python 3.12.
"""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
KEPT = Path(__file__).parent / "data" / "kernels_of_jax_0_12.json.gz"
_FIELD = r"\\22{}\\22: \\22([^\\]*)"  # in the quoted JSON of a custom call


def bodies_in(text: str, field: str = "body") -> list[bytes]:
    """The bytes in a field of each custom call of a StableHLO text that has it."""
    return [base64.b64decode(written) for written in re.findall(_FIELD.format(field), text)]


def body_in(text: str, field: str = "body") -> bytes:
    """The bytes in a field of the first custom call of a StableHLO text; empty without it."""
    return next(iter(bodies_in(text, field)), b"")


def lowered_kernels() -> dict[str, str]:
    """The StableHLO text of each kernel, lowered for TPUs without one."""
    import jax

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    if str(ROOT / "fixtures") not in sys.path:
        sys.path.insert(0, str(ROOT / "fixtures"))
    kernels = importlib.import_module("kernels")
    found = {}
    for name, given in kernels.ARGUMENTS.items():
        if name == "maps":  # to divide indices, Pallas asks a TPU for its generation
            continue
        arguments = [jax.ShapeDtypeStruct(sizes, kind) for kind, sizes in given]
        found[name] = jax.jit(getattr(kernels, name)).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()
    return found


def mlir_context() -> Any:
    """A context in which the bodies of kernels are read."""
    from jax._src.lib import tpu
    from jaxlib.mlir import ir

    context = ir.Context()
    context.allow_unregistered_dialects = True
    tpu.register_dialect(context)
    return context


def printed(program: bytes | str, *, locations: bool = False) -> str:
    """What MLIR prints of a program in bytecode or text."""
    from jaxlib.mlir import ir

    with mlir_context():
        operation = ir.Module.parse(program).operation
        text: str = operation.get_asm(print_generic_op_form=True, enable_debug_info=locations)
        return text


def write_newest() -> None:
    """Keeps the bodies and locations by the JAX that is installed, and MLIR's text of each body."""
    import jax

    assert jax.__version__.startswith("0.12"), f"this is jax {jax.__version__}"
    kept = {}
    for name, text in lowered_kernels().items():
        body = body_in(text)
        jax.config.update("jax_mosaic_unzip_debug_locations", False)
        jax.clear_caches()
        with_locations = body_in(lowered_kernels()[name])
        jax.config.update("jax_mosaic_unzip_debug_locations", True)
        kept[name] = {
            "body": base64.b64encode(body).decode(),
            "debug_locations": base64.b64encode(body_in(text, "debug_locations")).decode(),
            "body_with_locations": base64.b64encode(with_locations).decode(),
            "printed": printed(body),
        }
    content = json.dumps({"jax": jax.__version__, "kernels": kept}, indent=1)
    KEPT.write_bytes(gzip.compress(content.encode(), mtime=0))


if __name__ == "__main__":
    write_newest()
