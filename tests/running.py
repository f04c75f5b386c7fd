"""Modules run by XLA on the CPU exactly as they stand, in the order of their text: do they compute the same?

The text takes the place of another module with the same parameters and results behind the compiler's scheduler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from versions import IS_NEWER_XLA

STUB = """
def stub(module):
    shape = _hlo.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape()
    lines = [f"p{n} = {each} parameter({n})" for n, each in enumerate(shape.parameter_shapes())]
    def made(shape, name, mark):
        if shape.is_tuple():
            names = [made(each, f"{name}_{n}", "") for n, each in enumerate(shape.tuple_shapes())]
            lines.append(f"{mark}{name} = {shape} tuple({', '.join(names)})")
        else:
            type_ = str(shape).split("[")[0]
            zero = {"pred": "false", "c64": "(0, 0)", "c128": "(0, 0)"}.get(type_, "0")
            lines.append(f"{name}c = {type_}[] constant({zero})")
            lines.append(f"{mark}{name} = {shape} broadcast({name}c), dimensions={{}}")
        return name
    made(shape.result_shape(), "r", "ROOT ")
    return _hlo.hlo_module_from_text("HloModule stub ENTRY e { " + " ".join(lines) + " }"), shape
"""
"""Defines `stub(module)`: a module with the same parameters and results, in whose place the other is put."""

QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Flags for machine code that is made quickly: modules, the order of their kernels, and buffers are the same."""

_RUN = (
    """
import functools, json, sys
import jax, numpy
from jax._src.lib import _jax
from jaxlib import _hlo, _xla
"""
    + STUB
    + """
def made(random, sizes, dtype):
    # Small numbers: with large ones recurrent nets are chaotic, and rounding shows.
    values = random.standard_normal(sizes)
    return (values if numpy.dtype(dtype).kind in "biu" else values / 8).astype(dtype)

@functools.cache
def results(text, is_compiled=False):
    module = _hlo.hlo_module_from_text(text)
    given = module.as_serialized_hlo_module_proto()
    small, shape = stub(module)
    random = numpy.random.default_rng(1)
    inputs = [made(random, each.dimensions(), each.numpy_dtype()) for each in shape.parameter_shapes()]
    if not is_compiled:
        _xla.register_xla_transform("inject", 1, lambda ignored: given)
    try:
        client = jax.devices("cpu")[0].client
        devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
        translated = _jax.mlir.hlo_to_stablehlo(given if is_compiled else small.as_serialized_hlo_module_proto())
        program = client.compile_and_load(translated, devices, _jax.CompileOptions())
    finally:
        if not is_compiled:
            _xla.clear_xla_transform("inject", 1)
    arrays = program.execute_sharded([jax.device_put(each) for each in inputs])
    return [numpy.asarray(each[0]) for each in arrays.disassemble_into_single_device_arrays()]

def same(one, other):
    if one.tobytes() == other.tobytes() or exactly or one.dtype.kind in "biu":
        return one.tobytes() == other.tobytes()
    few_digits = one.dtype.itemsize < 4
    one, other = (each.astype(numpy.complex128) for each in (one, other))
    largest = numpy.max(numpy.abs(one[numpy.isfinite(one)]), initial=0)
    return numpy.allclose(one, other, rtol=2e-2 if few_digits else 1e-4, atol=1e-5 * largest, equal_nan=True)

def all_same(one, other):
    return len(one) == len(other) and all(map(same, one, other))

groups, exactly, is_compiled = json.load(sys.stdin)
answers = [[all_same(results(text), results(texts[0], is_compiled)) for text in texts[1:]] for texts in groups]
print(json.dumps(answers))
"""
)


def same_results(groups: list[list[str]], *, exactly: bool = True, is_compiled: bool = False) -> list[list[bool]]:
    """Of each group, whether every text but the first computes the same as that.

    All bits must be the same, or, unless `exactly`, floats may differ as other orders of adding them make them. The
    first of each goes through the whole compiler, if it `is_compiled`.
    """
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    if IS_NEWER_XLA:
        pytest.skip("since jaxlib 0.11, XLA:CPU wraps kernels in fusions earlier than it takes the texts of tests")
    asked = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps((groups, exactly, is_compiled)),
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}",
        },
    )
    answers: list[list[bool]] = json.loads(asked.stdout.splitlines()[-1])
    return answers
