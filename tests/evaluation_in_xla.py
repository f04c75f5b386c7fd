"""Random modules run by XLA:CPU in this process and by the evaluator, compared; a line of JSON for each.

`evaluation_in_xla.py SEED FIRST COUNT`: a line `{"at": k}` before program k runs, so that one on which XLA aborts
is known, then one with what was found.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import ml_dtypes
import numpy as np
import numpy.typing as npt
from jaxlib import _hlo, _jax

from evaluation_families import programs
from evaluation_opcodes import PARTS
from evaluation_programs import Program
from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.semantics.typed_values import Array, arrays_of, carrier
from hlo_cli.ir.layout import FLOAT_FORMATS, PrimitiveType

OURS = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s2": ml_dtypes.int2, "u2": ml_dtypes.uint2,
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e4m3": ml_dtypes.float8_e4m3, "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu, "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""The numpy types of jaxlib for types that the evaluator holds otherwise."""


def by_xla(program: Program, arguments: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """What XLA:CPU computes."""
    client = jax.devices("cpu")[0].client
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    module = _hlo.hlo_module_from_text(program.text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    executable = client.compile_and_load(stablehlo, devices, _jax.CompileOptions())
    given = [
        jax.device_put(np.asarray(each).astype(OURS.get(kind, each.dtype)))
        for each, kind in zip(arguments, program.types, strict=True)
    ]
    found = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in found]


def units(found: Array, expected: Array, kind: PrimitiveType) -> float:
    """The largest distance in units in the last place of what is expected; of a complex number, of its magnitude."""
    if kind.kind not in ("float", "complex"):
        return 0.0 if np.array_equal(found, expected.astype(found.dtype)) else np.inf
    is_complex = kind.kind == "complex"
    form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
    magnitude = np.abs(expected).astype(np.float64)
    parts = ((found.real, expected.real), (found.imag, expected.imag)) if is_complex else ((found, expected),)
    worst = 0.0
    for mine, theirs in parts:
        a, b = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
        _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 1))
        least = 1 - form.bias - form.mantissa_bits
        unit = np.ldexp(1.0, np.maximum(exponent - 1 - form.mantissa_bits, least))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0, np.abs(a - b) / unit)
        worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max(initial=0)))
        signs = (np.signbit(a) != np.signbit(b)) & ~np.isnan(a) & ~np.isnan(b) & (a == 0) & (b == 0)
        if worst == 0 and not is_complex and signs.any():
            worst = 0.5  # zeros of the other sign
    return worst


def _sum_units(found: Array, expected: Array, kind: PrimitiveType, scale: Array) -> float:
    """The largest distance in units of the roundoff times the sum of the magnitudes of the terms."""
    form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
    wide = np.complex128 if kind.kind == "complex" else np.float64
    apart = np.abs(found.astype(wide) - expected.astype(wide))
    unit = np.ldexp(1.0, -form.mantissa_bits - 1) * np.abs(scale).astype(np.float64)
    least = np.ldexp(1.0, 1 - form.bias - form.mantissa_bits)
    beyond = ~np.isfinite(scale)  # the sum may overflow in any order
    apart = np.where((found == expected) | beyond, 0, apart)
    return float(np.max(apart / np.maximum(unit, least), initial=0))


def judged(program: Program, seed: int) -> dict[str, Any]:
    """How far the evaluator is from XLA, in the units of the family of the program."""
    arguments = program.arguments(seed)
    try:
        expected = by_xla(program, arguments)
    except (_jax.JaxRuntimeError, ValueError, RuntimeError) as error:
        return {"outcome": "refused", "why": str(error)[:300]}
    module = parse_module(program.text)
    assert module.entry.root is not None
    try:
        result = evaluate(module, arguments).result
    except Exception as error:  # noqa: BLE001 any is a disagreement
        return {"outcome": "crashed", "why": f"{type(error).__name__}: {error}"}
    scale = evaluate(module, [np.abs(each) for each in arguments]).result if program.family == "sums" else result
    worst = 0.0
    shown: list[str] = []
    every = zip(
        arrays_of(result, module.entry.root.shape), arrays_of(scale, module.entry.root.shape), expected, strict=True
    )
    for (_, mine, shape), (_, magnitudes, _), theirs in every:
        if mine.shape != theirs.shape:
            return {"outcome": "crashed", "why": f"sizes {mine.shape} for {theirs.shape}"}
        kind = shape.element_type
        held = theirs.view(mine.dtype) if mine.dtype.kind in "iu" and theirs.dtype.itemsize == mine.dtype.itemsize and (
            theirs.dtype.kind in "iu") else theirs.astype(carrier(kind))  # fmt: skip
        with np.errstate(all="ignore"):
            if program.family == "sums" and kind.kind in ("float", "complex"):
                if program.opcode == "fft":
                    rank = program.text.split("fft_length={")[1].split("}")[0].count(",") + 1
                    magnitudes = np.max(np.abs(magnitudes), axis=tuple(range(-rank, 0)), keepdims=True)
                apart = _sum_units(mine, held, kind, magnitudes)
            elif program.family == "norms":
                unit = np.ldexp(1.0, -FLOAT_FORMATS[kind.name].mantissa_bits)
                apart = float(
                    np.max(np.abs(mine - held) / unit, initial=0) / max(1.0, float(np.abs(held).max(initial=0)))
                )
            elif program.family == "solved":
                form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
                unit = np.ldexp(1.0, -form.mantissa_bits) * program.condition(arguments, held)
                apart = float(np.max(np.abs(mine - held) / unit, initial=0))
            else:
                if program.family == "complex":  # one infinite part makes a number infinite, whatever the other is
                    infinite = (np.isinf(mine.real) | np.isinf(mine.imag)) & (np.isinf(held.real) | np.isinf(held.imag))
                    mine = np.where(infinite, held, mine)
                apart = units(mine, held, kind)
        if apart > worst:
            bad = ~((mine == held) | ((mine != mine) & (held != held)))
            shown = [f"{mine[bad][:4]} for {held[bad][:4]}"]
            shown += [str(each[bad][:4] if each.shape == mine.shape else each.reshape(-1)[:4]) for each in arguments]
            worst = apart
    return {"outcome": "ran", "worst": worst, "shown": shown}


def main() -> None:
    """Runs the programs that the command line names."""
    seed, first, count = map(int, sys.argv[1:4])
    only = sys.argv[4].split(",") if len(sys.argv) > 4 else []
    for at, program in enumerate(islice(programs(seed, first + count), first, None), first):
        if only and program.opcode not in only and program.family not in only:
            continue
        sys.stdout.write(json.dumps({"at": at, "running": program.text}) + "\n")
        sys.stdout.flush()
        found = judged(program, seed * 1_000_003 + at)
        about = {"family": program.family, "opcode": program.opcode, "terms": program.terms, "types": program.types}
        sys.stdout.write(json.dumps({"at": at, **about, **found, "text": program.text}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
